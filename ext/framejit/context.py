"""The execution mode and other settings of a process, as MindSpore's context has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._tensors import _random

GRAPH_MODE, PYNATIVE_MODE = 0, 1
STRICT, LAX = 0, 2

# Settings that mean nothing here are kept and given back.
_settings: dict[str, Any] = {
    "mode": PYNATIVE_MODE,
    "device_target": "CPU",
    "device_id": 0,
    "jit_level": "O0",
    "jit_config": {},
    "jit_syntax_level": LAX,
    "pynative_synchronize": False,
    "save_graphs": 0,
    "save_graphs_path": "",
    "enable_graph_kernel": False,
    "max_call_depth": 1000,
    "max_device_memory": "1024GB",
    "runtime_num_threads": 30,
    "deterministic": "OFF",
    "precompile_only": False,
    "enable_compile_cache": False,
    "compile_cache_path": "",
    "check_bprop": False,
    "grad_for_scalar": False,
    "debug_level": "RELEASE",
    "memory_optimize_level": "O0",
    "mempool_block_size": "1GB",
    "env_config_path": "",
    "inter_op_parallel_num": 0,
    "variable_memory_max_size": "30GB",
    "op_timeout": 900,
    "graph_kernel_flags": "",
    "reserve_class_name_in_scope": True,
    "enable_reduce_precision": True,
    "exec_order": "bfs",
    "ascend_config": {},
    "gpu_config": {},
    "print_file_path": "",
    "auto_tune_mode": "NO_TUNE",
    "support_binary": False,
    "enable_mem_offload": False,
    "infer_boost": "off",
}
_seed: int | None = None


def set_context(**settings: Any) -> None:
    """Change settings; ``mode=GRAPH_MODE`` compiles the calls of cells.

    Raises
    ------
    ValueError
        For an unknown setting, an unknown mode, or a device other than the CPU.
    """
    for name, value in settings.items():
        if name not in _settings:
            raise ValueError(
                f"For 'context.set_context', the keyword argument {name} is not recognized! "
                f"For detailed usage of 'set_context', there are: {', '.join(_settings)}."
            )
        if name == "mode" and value not in (GRAPH_MODE, PYNATIVE_MODE):
            raise ValueError(
                f"For 'context.set_context', the argument 'mode' should be context.GRAPH_MODE (0) or context.PYNATIVE_MODE (1), "
                f"but got {value}."
            )
        if name == "device_target" and value != "CPU":
            raise ValueError(
                f"For 'context.set_context', the argument 'device_target' must be 'CPU', but got {value!r}."
            )
        if name == "jit_syntax_level" and value not in (STRICT, LAX):
            raise ValueError(
                f"For 'context.set_context', the argument 'jit_syntax_level' must be STRICT or LAX, but got {value!r}."
            )
    _settings.update(settings)


def get_context(attr_key: str) -> Any:
    """The value of a setting."""
    if attr_key not in _settings:
        raise ValueError(
            f"For 'context.get_context', the argument {attr_key} is not recognized! There are: {', '.join(_settings)}."
        )
    return _settings[attr_key]


# What a parameter server would be told.
_PS_DEFAULTS: dict[str, Any] = {
    "enable_ps": False,
    "config_file_path": "",
    "enable_ssl": False,
    "scheduler_manage_port": 11202,
}
_ps_settings = dict(_PS_DEFAULTS)


def set_ps_context(**kwargs: Any) -> None:
    """Change settings of parameter servers, of which there are none: they are kept and given back.

    Raises
    ------
    ValueError
        For an unknown setting, and for ``enable_ps=True``.
    TypeError
        For a value of another type.
    """
    for name, value in kwargs.items():
        if name in ("client_password", "server_password"):
            continue
        if name not in _ps_settings:
            raise ValueError(
                f"For 'context.set_ps_context', the keyword argument {name} is not recognized! There are: {', '.join(_PS_DEFAULTS)}."
            )
        kind = type(_PS_DEFAULTS[name])
        if type(value) is not kind:
            raise TypeError(
                f"For 'context.set_ps_context', the argument '{name}' must be {kind.__name__}, but got {type(value).__name__}."
            )
        if name == "enable_ps" and value:
            raise ValueError(
                "For 'context.set_ps_context', the argument 'enable_ps' must be False: there are no parameter servers, training runs in one "
                "process."
            )
    _ps_settings.update({name: value for name, value in kwargs.items() if name in _ps_settings})


def get_ps_context(attr_key: str) -> Any:
    """A setting of parameter servers."""
    if attr_key not in _ps_settings:
        raise ValueError(
            f"For 'context.get_ps_context', the argument {attr_key} is not recognized! There are: {', '.join(_PS_DEFAULTS)}."
        )
    return _ps_settings[attr_key]


def reset_ps_context() -> None:
    """All settings of parameter servers as they were."""
    _ps_settings.update(_PS_DEFAULTS)


def in_graph_mode() -> bool:
    """Whether calls of cells are compiled."""
    return _settings["mode"] == GRAPH_MODE


def set_device(device_target: str, device_id: int | None = None) -> None:
    """The same as ``set_context(device_target=...)``."""
    set_context(device_target=device_target)


def set_seed(seed: int) -> None:
    """Seed the random functions: those of Tensors and NumPy's global generator.

    Streams of functions that are called with a seed of their own begin anew.
    """
    global _seed
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"For 'set_seed', the argument 'seed' must be int, but got {type(seed).__name__}.")
    if seed < 0:
        raise ValueError(f"For 'set_seed', the argument 'seed' must be non-negative, but got {seed}.")
    np.random.seed(seed)
    _random.set_seed(seed)
    _seed = seed


def get_seed() -> int | None:
    """What `set_seed` was given last."""
    return _seed


def manual_seed(seed: int) -> None:
    """The same as `set_seed`."""
    set_seed(seed)


def initial_seed() -> int:
    """What `set_seed` was given last, or 0."""
    return _seed or 0


def get_rng_state() -> Any:
    """The state of the random functions, for `set_rng_state`."""
    return np.random.get_state(), _random.get_state()


def set_rng_state(state: Any) -> None:
    """Put the random functions back into a state."""
    np.random.set_state(state[0])
    _random.set_state(state[1])


def set_deterministic(deterministic: bool) -> None:
    """Nothing but a setting: results do not depend on threads."""
    if not isinstance(deterministic, bool):
        raise TypeError(
            f"For 'set_deterministic', the argument 'deterministic' must be bool, but got {type(deterministic).__name__}."
        )
    _settings["deterministic"] = "ON" if deterministic else "OFF"
