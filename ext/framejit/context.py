"""The execution mode and other settings of a process, as MindSpore's context has them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from framejit._reporting import _saved_graphs
from framejit._tensors import _random

GRAPH_MODE, PYNATIVE_MODE = 0, 1
STRICT, COMPATIBLE, LAX = 0, 1, 2

# The default of each setting. Settings that mean nothing here are kept and given back.
_settings: dict[str, Any] = {
    "mode": PYNATIVE_MODE,
    "device_target": "CPU",
    "device_id": 0,
    "jit_level": "",
    "jit_config": {},
    "jit_syntax_level": LAX,
    "pynative_synchronize": False,
    "save_graphs": 0,
    "save_graphs_path": ".",
    "enable_graph_kernel": False,
    "max_call_depth": 1000,
    "max_device_memory": 1024.0,
    "runtime_num_threads": 30,
    "deterministic": "OFF",
    "precompile_only": False,
    "enable_compile_cache": None,
    "compile_cache_path": "",
    "check_bprop": False,
    "grad_for_scalar": False,
    "debug_level": 0,
    "memory_optimize_level": 0,
    "mempool_block_size": 1.0,
    "env_config_path": "",
    "inter_op_parallel_num": 0,
    "variable_memory_max_size": "0",
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
    "enable_profiling": False,
    "profiling_options": "training_trace",
    "aoe_tune_mode": "",
    "aoe_config": {},
    "topo_order": "",
    "disable_format_transform": False,
}
# Deprecated ones that have no value.
_WITHOUT_VALUE = {
    "enable_auto_mixed_precision": bool,
    "save_compile_cache": bool,
    "load_compile_cache": bool,
    "enable_sparse": object,
}
# The types of settings whose default is of another type.
_TYPES: dict[str, type | tuple[type, ...]] = {
    "max_device_memory": str,
    "mempool_block_size": str,
    "enable_compile_cache": bool,
    "save_graphs": (bool, int),
}
_CHOICES: dict[str, tuple[Any, ...]] = {
    "jit_level": ("", "O0", "O1", "O2"),
    "infer_boost": ("on", "off"),
    "deterministic": ("ON", "OFF"),
    "exec_order": ("bfs", "dfs"),
    "memory_optimize_level": ("O0", "O1"),
}
_OF_ANY_TYPE = {"exec_order", "memory_optimize_level"}  # a value of another type is none of the choices
_LEAST = {"max_call_depth": 1, "device_id": 0, "runtime_num_threads": 0, "op_timeout": 0, "inter_op_parallel_num": 0}
_KEYS: dict[str, dict[str, tuple[str, ...]]] = {
    "jit_config": {"jit_level": ("O0", "O1", "O2"), "infer_boost": ("on", "off")},
    "aoe_config": {"job_type": ("1", "2")},
}
# Settings of other devices. Their types are checked, and they have no effect.
_OF_OTHER_DEVICES = {
    "max_device_memory",
    "mempool_block_size",
    "variable_memory_max_size",
    "ascend_config",
    "gpu_config",
    "print_file_path",
}
_seed: int | None = None


def _check_setting(name: str, value: Any) -> None:
    say = "For 'context.set_context', "
    if name not in _settings and name not in _WITHOUT_VALUE:
        raise ValueError(
            f"{say}the keyword argument {name} is not recognized! "
            f"For detailed usage of 'set_context', there are: {', '.join(_settings)}."
        )
    wanted = _TYPES.get(name) or _WITHOUT_VALUE.get(name) or type(_settings[name])
    if name not in _OF_ANY_TYPE and not isinstance(value, wanted):
        kinds = " or ".join(kind.__name__ for kind in (wanted if isinstance(wanted, tuple) else (wanted,)))
        raise TypeError(f"{say}the parameter '{name}' must be {kinds}, but got {type(value).__name__}.")
    if name == "mode" and value not in (GRAPH_MODE, PYNATIVE_MODE):
        raise ValueError(
            f"{say}the argument 'mode' should be context.GRAPH_MODE (0) or context.PYNATIVE_MODE (1), but got {value}."
        )
    if name == "device_target" and value != "CPU":
        raise ValueError(f"{say}the argument 'device_target' must be 'CPU', but got {value!r}.")
    if name == "jit_syntax_level" and value not in (STRICT, COMPATIBLE, LAX):
        raise ValueError(f"{say}the argument 'jit_syntax_level' must be STRICT, COMPATIBLE or LAX, but got {value!r}.")
    if name == "debug_level" and value not in (0, 1):
        raise ValueError(f"{say}the argument 'debug_level' must be 0 (RELEASE) or 1 (DEBUG), but got {value!r}.")
    if name == "save_graphs" and value > 3:
        raise ValueError(f"{say}the value for save_graphs should be 0-3, but got {value!r}.")
    if name == "save_graphs_path" and not value:
        raise ValueError(f"{say}the 'save_graphs_path' is invalid, it should be a folder.")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ValueError(f"{say}the argument '{name}' must be one of {list(_CHOICES[name])}, but got {value!r}.")
    if name in _LEAST and value < _LEAST[name]:
        raise ValueError(f"{say}the argument '{name}' must be at least {_LEAST[name]}, but got {value}.")
    if name in _KEYS:
        keys = _KEYS[name]
        for key, setting in value.items():
            if key not in keys:
                raise ValueError(f"{say}the key of argument '{name}' must be one of {list(keys)}, but got {key!r}.")
            if setting not in keys[key]:
                raise ValueError(
                    f"For '{name}', the value of argument {key} must be one of {list(keys[key])}, but got {setting!r}."
                )
    if name == "jit_config" and value.get("infer_boost") == "on" and value.get("jit_level") in ("O1", "O2"):
        raise ValueError("Only jit_level set O0 can set infer_boost to on.")


def set_context(**settings: Any) -> None:
    """Change settings.

    Parameters
    ----------
    **settings
        Settings by name. ``mode=GRAPH_MODE`` compiles the calls of cells, ``mode=PYNATIVE_MODE`` does not. ``jit_syntax_level`` is
        ``STRICT``, ``COMPATIBLE`` or ``LAX``, ``jit_config`` a dict with ``jit_level`` and ``infer_boost`` for the cells that are
        compiled. ``device_target`` must be ``'CPU'``. With ``save_graphs`` the graph of each function that is compiled from then on is
        written into a file in ``save_graphs_path``, as text with the lines of the program. The environment variables
        ``MS_DEV_SAVE_GRAPHS`` and ``MS_DEV_SAVE_GRAPHS_PATH`` do the same from the start.

    Raises
    ------
    ValueError
        If a setting or its value is not known.
    TypeError
        If a value is of another type.
    """
    for name, value in settings.items():
        _check_setting(name, value)
    for name, value in settings.items():
        if name in _WITHOUT_VALUE or name in _OF_OTHER_DEVICES:
            continue
        if name == "jit_config":
            _settings.update(value)
        elif name == "memory_optimize_level":
            value = int(value == "O1")
        elif name == "save_graphs":
            value = 2 if value is True else int(value)
        elif name == "save_graphs_path":
            value = os.path.realpath(value)
        elif isinstance(value, bool) and type(_settings[name]) is int:
            value = int(value)
        _settings[name] = value
    if "save_graphs" in settings or "save_graphs_path" in settings:
        _saved_graphs.save_graphs(str(_settings["save_graphs_path"]) if _settings["save_graphs"] else None)


def _follow_environment() -> None:
    """Save graphs if the environment says so."""
    asked = os.environ.get("MS_DEV_SAVE_GRAPHS", "")
    if asked in ("1", "2", "3"):
        set_context(save_graphs=int(asked), save_graphs_path=os.environ.get("MS_DEV_SAVE_GRAPHS_PATH") or ".")


def get_context(attr_key: str) -> Any:
    """Return the value of a setting.

    Parameters
    ----------
    attr_key : str
        The name of the setting.
    """
    if attr_key not in _settings:
        raise ValueError(
            f"For 'context.get_context', the argument {attr_key} is not recognized! There are: {', '.join(_settings)}."
        )
    return _settings[attr_key]


class ParallelMode:
    """How programs may use several processes; here there is one."""

    STAND_ALONE = "stand_alone"
    DATA_PARALLEL = "data_parallel"
    HYBRID_PARALLEL = "hybrid_parallel"
    SEMI_AUTO_PARALLEL = "semi_auto_parallel"
    AUTO_PARALLEL = "auto_parallel"
    MODE_LIST = [STAND_ALONE, DATA_PARALLEL, HYBRID_PARALLEL, SEMI_AUTO_PARALLEL, AUTO_PARALLEL]  # noqa: RUF012


_PARALLEL_DEFAULTS: dict[str, Any] = {
    "all_reduce_fusion_config": [],
    "auto_parallel_search_mode": "recursive_programming",
    "comm_fusion": {},
    "communi_parallel_mode": "all_group_parallel",
    "dataset_strategy": "data_parallel",
    "device_num": 1,
    "enable_alltoall": False,
    "enable_parallel_optimizer": False,
    "force_fp32_communication": False,
    "full_batch": False,
    "global_rank": 0,
    "gradient_fp32_sync": True,
    "gradients_mean": False,
    "grad_accumulation_step": 1,
    "loss_repeated_mean": True,
    "optimizer_weight_shard_aggregated_save": False,
    "optimizer_weight_shard_size": -1,
    "parallel_mode": ParallelMode.STAND_ALONE,
    "parallel_optimizer_config": {},
    "parameter_broadcast": False,
    "pipeline_config": {},
    "pipeline_result_broadcast": False,
    "pipeline_stages": 1,
    "search_mode": "recursive_programming",
    "strategy_ckpt_config": {"load_file": "", "save_file": "", "only_trainable_params": True},
    "strategy_ckpt_load_file": "",
    "strategy_ckpt_save_file": "",
}
_parallel_settings = dict(_PARALLEL_DEFAULTS)
_OF_ONE_PROCESS = ("device_num", "global_rank", "grad_accumulation_step", "pipeline_stages")


def set_auto_parallel_context(**kwargs: Any) -> None:
    """Change settings of parallel training. There is one process, so the settings are stored only.

    Parameters
    ----------
    **kwargs
        Settings by name. ``nn.DistributedGradReducer`` reads ``gradients_mean``.

    Raises
    ------
    ValueError
        If a setting is not known, or cannot be kept by one process.
    TypeError
        If a value has another type.
    """
    for name, value in kwargs.items():
        if name not in _parallel_settings:
            raise ValueError(f"Set context keyword {name} is not recognized!")
        default = _PARALLEL_DEFAULTS[name]
        kinds = (str, list, tuple) if name == "dataset_strategy" else type(default)
        if not isinstance(value, kinds) or (isinstance(value, bool) and not isinstance(default, bool)):
            raise TypeError(f"The parameter '{name}' must be {type(default)}, but got {type(value)}")
        if name == "parallel_mode" and value not in ParallelMode.MODE_LIST:
            raise ValueError(
                "The context configuration parameter 'parallel_mode' only support 'stand_alone', 'data_parallel', 'hybrid_parallel', "
                f"'semi_auto_parallel' and 'auto_parallel', but got the value : {value}."
            )
        if name in _OF_ONE_PROCESS and value != default:
            raise ValueError(
                f"The context configuration parameter '{name}' must be {default}, because framejit computes in one process, but got {value}."
            )
    _parallel_settings.update(kwargs)


def get_auto_parallel_context(attr_key: str) -> Any:
    """Return a setting of parallel training.

    Parameters
    ----------
    attr_key : str
        Its name.
    """
    if attr_key not in _parallel_settings:
        raise ValueError(f"Get context keyword {attr_key} is not recognized!")
    return _parallel_settings[attr_key]


def reset_auto_parallel_context() -> None:
    """Give the settings of parallel training their first values."""
    _parallel_settings.update(_PARALLEL_DEFAULTS)


# What a parameter server would be told.
_PS_DEFAULTS: dict[str, Any] = {
    "enable_ps": False,
    "config_file_path": "",
    "enable_ssl": False,
    "scheduler_manage_port": 11202,
}
_ps_settings = dict(_PS_DEFAULTS)


def set_ps_context(**kwargs: Any) -> None:
    """Change settings of parameter servers. There are none, so the settings are stored only.

    Parameters
    ----------
    **kwargs
        Settings by name.

    Raises
    ------
    ValueError
        If a setting is not known, and for ``enable_ps=True``.
    TypeError
        If a value has another type.
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
    """Return a setting of parameter servers.

    Parameters
    ----------
    attr_key : str
        The name of the setting.
    """
    if attr_key not in _ps_settings:
        raise ValueError(
            f"For 'context.get_ps_context', the argument {attr_key} is not recognized! There are: {', '.join(_PS_DEFAULTS)}."
        )
    return _ps_settings[attr_key]


def reset_ps_context() -> None:
    """Reset all settings of parameter servers."""
    _ps_settings.update(_PS_DEFAULTS)


def in_graph_mode() -> bool:
    """Whether calls of cells are compiled."""
    return _settings["mode"] == GRAPH_MODE


def set_device(device_target: str, device_id: int | None = None) -> None:
    """Do the same as ``set_context(device_target=...)``.

    Parameters
    ----------
    device_target : str
        Must be ``'CPU'``.
    device_id : int, optional
        Ignored.
    """
    set_context(device_target=device_target)


def set_seed(seed: int) -> None:
    """Set the seed of the random functions: those of Tensors and NumPy's global generator.

    Streams of functions that are called with a seed of their own restart.

    Parameters
    ----------
    seed : int
        The seed, at least 0.

    Raises
    ------
    TypeError, ValueError
        If the seed is not an int, or is negative.
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
    """Return the last argument of `set_seed`, or None."""
    return _seed


def manual_seed(seed: int) -> Any:
    """Do the same as `set_seed`, and return the generator of the functions that are given none.

    Parameters
    ----------
    seed : int
        The seed.
    """
    set_seed(seed)
    return _random.default_generator


def seed() -> int:
    """Begin with a seed that the system draws, and return it."""
    drawn = _random.default_generator.seed()
    set_seed(drawn)
    return drawn


def initial_seed() -> int:
    """Return the last argument of `set_seed`, or 0."""
    return _random.default_generator.initial_seed()


def set_recursion_limit(recursion_limit: int = 1000) -> None:
    """Store the setting ``max_call_depth``.

    Parameters
    ----------
    recursion_limit : int
        The value of the setting.
    """
    if not isinstance(recursion_limit, int) or isinstance(recursion_limit, bool) or recursion_limit <= 0:
        raise ValueError(
            f"The input value must be int and must > 0, but got '{recursion_limit}' with type '{type(recursion_limit).__name__}'."
        )
    set_context(max_call_depth=recursion_limit)


def run_check() -> None:
    """Print the version, and whether a compiled product is right."""
    from framejit import __version__
    from framejit._api._jit import jit
    from framejit._core import Tensor

    x = Tensor(np.ones((2, 3), np.float32))
    right = bool((jit(lambda x, y: x * y)(x, x + 1).asnumpy() == 2).all())
    print(f"framejit version: {__version__}")
    print(f"The result of multiplication calculation is {'correct' if right else 'wrong'}, framejit runs on [CPU].")


def get_rng_state() -> Any:
    """Return the state of the random functions, for `set_rng_state`."""
    return np.random.get_state(), _random.get_state()


def set_rng_state(state: Any) -> None:
    """Restore the state of the random functions.

    Parameters
    ----------
    state : object
        The result of `get_rng_state`.
    """
    np.random.set_state(state[0])
    _random.set_state(state[1])


def set_deterministic(deterministic: bool) -> None:
    """Store a setting. Results never depend on the number of threads.

    Parameters
    ----------
    deterministic : bool
        The value of the setting ``deterministic``.
    """
    if not isinstance(deterministic, bool):
        raise TypeError(
            f"For 'set_deterministic', the argument 'deterministic' must be bool, but got {type(deterministic).__name__}."
        )
    _settings["deterministic"] = "ON" if deterministic else "OFF"


_follow_environment()
