"""``jit``: marks a function so that calls of it are compiled."""

from __future__ import annotations

import functools
import os
import re
import sys
import warnings
import weakref
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from framejit._api._plain import plain_function, say_once
from framejit._api._platform import core, reason

CAPTURE_MODES = ("ast", "bytecode", "trace")
JIT_LEVELS = ("O0", "O1")
BACKENDS = ("", "ms_backend", "GE")
EXEC_ORDERS = ("bfs", "dfs")
SWITCH = ("on", "off")
ARGUMENTS = ("capture_mode", "jit_level", "dynamic", "fullgraph", "backend")
# Arguments of other compilers, and what to write instead.
_OF_OTHERS = {
    "boundscheck": "indices are always checked",
    "donate_argnums": "arguments are never overwritten",
    "error_model": "errors are those of Python and NumPy",
    "fastmath": "jit_level='O1' is faster within stated bounds",
    "forceobj": "the interpreter always runs what cannot be compiled",
    "inline": "functions that are called are compiled into their caller",
    "locals": "types are those of the values",
    "looplift": "loops are always compiled on their own",
    "nogil": "long kernels always release the interpreter lock",
    "nopython": "fullgraph=True makes an error of what cannot be compiled",
    "parallel": "several threads are always used if that pays, see config.num_threads",
    "static_argnames": "arguments other than arrays are always constants until they change",
    "static_argnums": "arguments other than arrays are always constants until they change",
}
OPTIONS = ("cache", "disable_format_transform", "exec_order", "infer_boost", "ge_options")
GE_OPTIONS = {"global": ("deterministic",), "session": ("num_threads", "memory_limit")}


def jit(
    function: Any = None,
    *,
    capture_mode: str = "ast",
    jit_level: str = "O0",
    dynamic: bool = False,
    fullgraph: bool = False,
    backend: str = "",
    **options: Any,
) -> Any:
    """Compile what a function does to arrays.

    Usable as ``jit(f)``, ``@jit`` and ``@jit(...)``. Nothing is compiled before the first call; the original function stays
    as it is.

    Parameters
    ----------
    function : callable, optional
        A function, method, lambda, static or class method, or an object whose class defines ``__call__`` in Python. Anything
        else is returned unchanged, with a warning.
    capture_mode : {'ast', 'bytecode', 'trace'}
        ``'ast'``: branches and loops on array values become part of the graph where that is exact. ``'bytecode'``: what
        cannot be captured breaks the graph and runs in the interpreter. ``'trace'``: one path is recorded, with a guard on
        each branch taken; only as a decorator with arguments.
    jit_level : {'O0', 'O1'}
        ``'O0'``: results are bit for bit those of plain Python. ``'O1'``: each operation within a documented error bound.
    dynamic : bool
        Every dimension is symbolic from the first call on; else a dimension becomes symbolic when it changes.
    fullgraph : bool
        The whole function must be one graph; else `GraphBreakError` at the first call. A function that raises gives its own exception.
    backend : {'', 'ms_backend', 'GE'}
        How kernels are scheduled: one by one, or by one static plan.
    **options
        ``cache`` (bool): machine code is kept in files for other processes. ``disable_format_transform`` (bool),
        ``exec_order`` (``'bfs'``, ``'dfs'``), ``infer_boost`` (``'on'``, ``'off'``), ``ge_options`` (dict with ``'global'``
        and ``'session'``).

    Returns
    -------
    callable
        The compiled function; it keeps name, signature and documentation, and has ``cache_entries()``, ``cache_clear()``,
        ``graphs()``, ``asm()`` and ``precompile(*specs)``. Without `function`, a decorator.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> @fj.jit
    ... def scale(x, factor):
    ...     return x * factor + 1
    >>> scale(np.arange(3.0), 2.0)
    array([1., 3., 5.])
    """
    settings = check_settings(
        capture_mode=capture_mode,
        jit_level=jit_level,
        dynamic=dynamic,
        fullgraph=fullgraph,
        backend=backend,
        options=options,
    )
    settings["fullgraph"] = fullgraph or (capture_mode == "ast" and strict_syntax())
    if function is None:
        return Decorator(settings)
    if capture_mode == "trace":
        raise ValueError(
            "For 'jit', the 'capture_mode' 'trace' is for decorators only: jit(function, capture_mode='trace') must be "
            "written as @jit(capture_mode='trace') at the function's definition."
        )
    return _marked(function, settings)


class _PandasEngine:
    """How pandas calls ``engine=fj.jit``: its ``pandas.api.executors.BaseExecutionEngine``."""

    @staticmethod
    def apply(*args: Any, **kwargs: Any) -> Any:
        from framejit._api._pandas import apply

        return apply(*args, **kwargs)

    @staticmethod
    def map(*args: Any, **kwargs: Any) -> Any:
        from framejit._api._pandas import map_values

        return map_values(*args, **kwargs)


class Decorator:
    """What `jit` returns if it is called without a function."""

    __slots__ = ("settings",)
    __pandas_udf__ = _PandasEngine

    def __init__(self, settings: dict[str, Any]):
        self.settings = settings

    def __call__(self, function: Any) -> Any:
        return _marked(function, self.settings)


jit.__pandas_udf__ = _PandasEngine
ms_function = jit


def check_settings(
    *, capture_mode: Any, jit_level: Any, dynamic: Any, fullgraph: Any, backend: Any, options: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of `jit`, checked, as a dict for the compiled half."""
    _one_of("capture_mode", capture_mode, CAPTURE_MODES, ValueError)
    hint = " ('O2' is reached through JitConfig)" if jit_level == "O2" else ""
    _one_of("jit_level", jit_level, JIT_LEVELS, ValueError, hint)
    _one_of("backend", backend, BACKENDS, ValueError)
    if type(dynamic) not in (bool, int) or dynamic not in (0, 1):
        raise TypeError(f"For 'jit', the 'dynamic' must be a bool, but got {_shown(dynamic)}.")
    if not isinstance(fullgraph, bool):
        raise TypeError(f"For 'jit', the 'fullgraph' must be a bool, but got {_shown(fullgraph)}.")
    return {
        "capture_mode": capture_mode,
        "jit_level": jit_level,
        "dynamic": bool(dynamic),
        "fullgraph": fullgraph,
        "backend": backend,
        "options": check_options(options),
        **_for_plans(backend, options),
    }


def _for_plans(backend: str, options: dict[str, Any]) -> dict[str, Any]:
    """What backend and options mean to those who make plans, once they are known to be good."""
    constant = {
        "constant_parameters": options.get("infer_boost") == "on",
        "keep_layouts": options.get("disable_format_transform", False),
        "cache": options.get("cache", False),
    }
    if backend != "GE":
        return {"exec_order": options.get("exec_order", ""), **constant}
    given = options.get("ge_options", {}).get("session", {})
    return {
        "resident": sys.maxsize,
        **constant,
        **{key: read(given[key]) for key, read in _GE_SESSION.items() if key in given},
    }


def _threads(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"For 'jit', the 'ge_options' num_threads must be a number of threads, but got {text!r}.")
    return int(text)


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([KMG]?)B?", text, re.IGNORECASE)
    if match is None:
        raise ValueError(
            f"For 'jit', the 'ge_options' memory_limit must be a number of bytes such as '4096' or '1GB', but got {text!r}."
        )
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()]


_GE_SESSION = {"num_threads": _threads, "memory_limit": _bytes}


def strict_syntax() -> bool:
    """Whether the environment or the context says that what cannot be captured is an error, as MindSpore reads them."""
    level = os.environ.get("MS_DEV_JIT_SYNTAX_LEVEL")
    if level in ("0", "2"):
        return level == "0"
    if os.environ.get("MS_DEV_ENABLE_FALLBACK") == "0":
        return True
    context = sys.modules.get("framejit.context")  # where it was not imported, nothing was set
    return context is not None and context.get_context("jit_syntax_level") == context.STRICT


def _shown(value: Any) -> str:
    return f"{value!r} of type {type(value).__name__}"


def _one_of(name: str, value: Any, allowed: tuple[str, ...], wrong_type: type[Exception], hint: str = "") -> None:
    expected = f"For 'jit', the '{name}' must be str and must be in {list(allowed)}, but got "
    if not isinstance(value, str):
        raise wrong_type(expected + _shown(value) + ".")
    if value not in allowed:
        raise ValueError(f"{expected}{value!r}{hint}.")


def check_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `jit`, checked; unknown ones are left out, with a warning."""
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        import difflib

        names = (*ARGUMENTS, *OPTIONS)
        meant = [
            match for name in unknown if name not in _OF_OTHERS for match in difflib.get_close_matches(name, names, n=1)
        ]
        instead = [f" {name}: {_OF_OTHERS[name]}." for name in unknown if name in _OF_OTHERS]
        warn(
            f"For 'jit', unknown options are ignored: {', '.join(unknown)}. Known are: {', '.join(names)}."
            + (f" Did you mean {', '.join(meant)}?" if meant else "")
            + "".join(instead)
        )
    known = {name: value for name, value in options.items() if name in OPTIONS}
    for name in ("cache", "disable_format_transform"):
        if not isinstance(known.get(name, False), bool):
            raise TypeError(f"For 'jit', the '{name}' must be a bool, but got {_shown(known[name])}.")
    _one_of("exec_order", known.get("exec_order", "bfs"), EXEC_ORDERS, TypeError)
    _one_of("infer_boost", known.get("infer_boost", "off"), SWITCH, TypeError)
    if "ge_options" in known:
        _check_ge_options(known["ge_options"])
    return known


def _check_ge_options(given: Any) -> None:
    if not isinstance(given, dict):
        raise TypeError(f"For 'jit', the 'ge_options' must be a dict, but got {_shown(given)}.")
    unknown = []
    for part, values in given.items():
        if part not in GE_OPTIONS:
            if not isinstance(part, str):
                raise TypeError(f"For 'jit', the keys of 'ge_options' must be str, but got {_shown(part)}.")
            unknown.append(part)
            continue
        if not isinstance(values, dict):
            raise TypeError(f"For 'jit', the 'ge_options[{part!r}]' must be a dict, but got {_shown(values)}.")
        for key, value in values.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError(
                    f"For 'jit', the 'ge_options[{part!r}]' must map str to str, but got {_shown(key)}: {_shown(value)}."
                )
            if key not in GE_OPTIONS[part]:
                unknown.append(f"{part}.{key}")
            elif part == "session":
                _GE_SESSION[key](value)
            elif value not in ("0", "1"):
                raise ValueError(f"For 'jit', the 'ge_options' {key} must be '0' or '1', but got {value!r}.")
    if unknown:
        known = [f"{part}.{key}" for part, keys in GE_OPTIONS.items() for key in keys]
        warn(
            f"For 'jit', unknown keys of 'ge_options' are ignored: {', '.join(unknown)}. Known are: {', '.join(known)}."
        )


def warn(message: str) -> None:
    """A warning at the line that called into this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("framejit."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level + 1)


def is_compiled(function: Any) -> bool:
    """Whether `function` came out of `jit`."""
    if core is not None:
        return isinstance(function, core.Function)
    return isinstance(function, FunctionType) and "__framejit_settings__" in function.__dict__


def is_explained(function: Any) -> bool:
    """Whether `function` is a method or function with the errors of MindSpore's."""
    return core is not None and isinstance(function, core.Explained)


def settings_of(function: Any) -> dict[str, Any]:
    """The arguments that a marked function was marked with."""
    return function.__framejit_settings__


on_made: list[Callable[[Any], None]] = []  # told about every function that is marked
made_of: Any = weakref.WeakValueDictionary()  # by code: the function that was marked last


def make_function(function: Callable[..., Any], settings: dict[str, Any]) -> Any:
    """The compiled callable for a plain function."""
    if os.environ.get("MS_JIT") == "0":
        return plain_function(function, settings)
    if core is None:
        say_once(reason or "")
        return plain_function(function, settings)
    made = made_of[function.__code__] = core.Function(function, settings)
    for tell in on_made:
        tell(made)
    return made


def _is_cell(function: Any) -> bool:
    """Whether it is a Cell or a class of cells; where there is one, its module has been imported."""
    module = sys.modules.get("framejit.nn")
    return module is not None and (
        issubclass(function, module.Cell) if isinstance(function, type) else isinstance(function, module.Cell)
    )


def _marked(function: Any, settings: dict[str, Any]) -> Any:
    """`compile_any`, with a warning where `function` is marked already."""
    if is_compiled(getattr(function, "__func__", function)):
        warn(f"{function.__qualname__} is marked by jit already; it is marked again with the new arguments.")
    return compile_any(function, settings)


def compile_any(function: Any, settings: dict[str, Any]) -> Any:
    """The compiled callable for anything that `jit` takes; other objects unchanged, with a warning."""
    if is_compiled(function) or is_explained(function):
        function = function.__wrapped__
    if isinstance(function, FunctionType):
        return make_function(function, settings)
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(compile_any(function.__func__, settings))
    if _is_cell(function):
        construct = function.construct
        if isinstance(function, type):
            function.construct = compile_any(construct, settings)
            return function
        return compile_any(construct, settings)
    if isinstance(function, MethodType) and (
        isinstance(function.__func__, FunctionType) or is_compiled(function.__func__) or is_explained(function.__func__)
    ):
        return MethodType(compile_any(function.__func__, settings), function.__self__)
    call = None if isinstance(function, (type, BuiltinFunctionType)) else getattr(type(function), "__call__", None)  # noqa: B004
    if isinstance(call, FunctionType):
        return MethodType(make_function(call, settings), function)
    way_out = (
        " Mark the function in it: partial(jit(function), ...)." if isinstance(function, functools.partial) else ""
    )
    warn(f"For 'jit', {_shown(function)} is not callable Python code; it is returned unchanged.{way_out}")
    return function
