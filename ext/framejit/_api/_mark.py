"""Marking in place: functions, classes, modules, packages and patterns, without touching their call sites."""

from __future__ import annotations

import re
import sys
import threading
import weakref
from difflib import get_close_matches
from fnmatch import translate
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from framejit._api._jit import check_settings, is_compiled, is_explained, made_of, warn
from framejit._api._plain import say_once
from framejit._api._platform import core, reason
from framejit._api._stress import check_stress

_OPTIMIZED = 0x1  # code flag that functions have, module and class bodies have not
_PACKAGE_FOLDER = str(Path(__file__).parent.parent)
_IMPORT_SYSTEM = "<frozen importlib"  # holds locks that capture, which imports, would wait for
_lock = threading.RLock()
_patterns: list[Mark] = []
# By the id of a code object (those that compare equal are different ones): what is never marked, and who marked what is.
_kept_out: set[int] = set()
_owners: dict[int, tuple[weakref.ref[CodeType], list[Mark]]] = {}


class Mark:
    """The result of `mark`. It removes the marks on `close`, or at the end of a ``with`` block.

    Parameters
    ----------
    settings : dict
        The arguments of `jit` for the marked functions.

    Attributes
    ----------
    settings : dict
        The same.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self._names: list[re.Pattern[str]] = []
        self._files: list[re.Pattern[str]] = []
        self._closed = False

    def close(self) -> None:
        """Remove the marks. A second call does nothing."""
        with _lock:
            if self._closed:
                return
            self._closed = True
            if self in _patterns:
                _patterns.remove(self)
            for reference, owners in list(_owners.values()):
                code = reference()
                if code is not None and self in owners:
                    _disown(code, owners, self)
            _discover_again()

    def __enter__(self) -> Mark:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _matches(self, module: str, file: str) -> bool:
        return any(pattern.match(module) for pattern in self._names) or any(
            pattern.match(file) for pattern in self._files
        )


def mark(*targets: Any, stress: str | None = None, **jit_arguments: Any) -> Mark:
    """Compile functions where they stand: no call site changes, and every thread sees it.

    Acts as ``@jit(capture_mode='bytecode')`` on every function, method, lambda, generator and comprehension that a target
    names, from now on, also in modules that are imported later. Module and class bodies are left alone.

    Parameters
    ----------
    *targets : function, class, module or str
        A string is a pattern (as of `fnmatch`) on the module's ``__name__``, or, with a ``/`` in it, on the file name.
        A package means all its modules. A `UserWarning` says if no module can have the name.
    stress : str, optional
        For tests: a comma list of ``'rewrite'``, ``'break=N'``, ``'guards'``, ``'interp'``, ``'verify'``, which make rare paths common.
    **jit_arguments
        ``jit_level``, ``dynamic``, ``backend`` and options of `jit`.

    Returns
    -------
    Mark
        Takes the marks back: ``close()``, or as a context manager.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> def area(r):
    ...     return 3.0 * r * r
    >>> with fj.mark(area):
    ...     area(np.arange(3.0))
    array([ 0.,  3., 12.])
    """
    handle = mark_targets(targets, stress, jit_arguments)
    for target in targets:
        if isinstance(target, str) and "/" not in target and core is not None:
            _warn_of_missing_module(target)
    return handle


def mark_targets(targets: tuple[Any, ...], stress: str | None, jit_arguments: dict[str, Any]) -> Mark:
    """`mark` without a warning that a pattern names no module: the caller says that, or modules are yet to come."""
    for name in ("fullgraph", "capture_mode"):
        if name in jit_arguments:
            raise TypeError(
                f"mark() has no argument '{name}': it marks with capture_mode='bytecode' and never fullgraph"
            )
    if not targets:
        raise TypeError("mark() needs a target: a function, class, module, package or pattern")
    fields = {name: jit_arguments.pop(name, default) for name, default in _DEFAULTS.items()}
    handle = Mark(check_settings(capture_mode="bytecode", fullgraph=False, options=jit_arguments, **fields))
    if stress is not None:
        handle.settings["stress"] = check_stress(stress)
    codes: list[CodeType] = []
    for target in targets:
        _add(handle, target, codes)
    if core is None:
        say_once(reason or "")
        return handle
    with _lock:
        for code in codes:
            if id(code) in _kept_out:
                continue
            _own(code, handle)
            core.mark_code(code, handle.settings)
        core.redirect_calls()
        if handle._names or handle._files:
            _patterns.append(handle)
            _discover_again()
    return handle


def _warn_of_missing_module(pattern: str) -> None:
    """A warning if no module has a name that begins as the pattern does. Nothing is imported to find out."""
    if any(re.match(translate(pattern), name) for name in list(sys.modules)):
        return
    names = re.split(r"[*?\[]", pattern)[0].split(".")
    if names[-1] != pattern.rpartition(".")[2]:
        del names[-1]  # the beginning of a name only
    for count in range(1, len(names) + 1):
        name = ".".join(names[:count])
        if name in sys.modules:
            continue
        try:
            found = find_spec(name) is not None
        except (ImportError, ValueError, AttributeError):
            found = False
        if not found:
            close = get_close_matches(name, list(sys.modules), n=1, cutoff=0.75)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            warn(
                f"mark({pattern!r}): no module named {name!r} is imported or can be found, so nothing is marked until a "
                f"program makes one.{meant}"
            )
        return  # what is below a package that is not imported yet is not known


_DEFAULTS = {"jit_level": "O0", "dynamic": False, "backend": ""}


def _add(handle: Mark, target: Any, codes: list[CodeType]) -> None:
    if isinstance(target, str):
        patterns = handle._files if "/" in target else handle._names
        patterns.append(re.compile(translate(target)))
    elif isinstance(target, ModuleType):
        name = re.escape(target.__name__)
        handle._names.append(re.compile(rf"{name}(\..*)?\Z" if hasattr(target, "__path__") else rf"{name}\Z"))
    elif isinstance(target, type):
        for member in vars(target).values():
            for function in _functions_of(member):
                _add(handle, function, codes)
            if isinstance(member, type) and member.__qualname__.startswith(target.__qualname__ + "."):
                _add(handle, member, codes)
    else:
        functions = _functions_of(target)
        if not functions:
            raise TypeError(
                "mark() takes functions, classes, modules, packages and patterns, "
                f"but got {target!r} of type {type(target).__name__}"
            )
        for function in functions:
            _add_code(function.__code__, codes)


def _functions_of(member: Any) -> list[FunctionType]:
    if is_compiled(member) or is_explained(member):
        member = member.__wrapped__
    if isinstance(member, (staticmethod, classmethod, MethodType)):
        member = member.__func__
    if isinstance(member, property):
        return [f for f in (member.fget, member.fset, member.fdel) if isinstance(f, FunctionType)]
    return [member] if isinstance(member, FunctionType) else []


def _add_code(code: CodeType, codes: list[CodeType]) -> None:
    """The code and all functions, lambdas and comprehensions inside it."""
    if code.co_flags & _OPTIMIZED:
        codes.append(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(constant, codes)


def keep_out(code: CodeType) -> None:
    """Never compile or inline this code, nor what is inside it."""
    if core is None:
        return
    codes: list[CodeType] = []
    _add_code(code, codes)
    with _lock:
        for inner in codes:
            if id(inner) in _kept_out:
                continue
            core.disable_code(inner)  # keeps it alive, so that its id stays its own
            _kept_out.add(id(inner))
            if _owners.pop(id(inner), None) is not None:
                core.unmark_code(inner)


def _own(code: CodeType, handle: Mark) -> None:
    key = id(code)
    if key not in _owners:
        _owners[key] = (weakref.ref(code, lambda _: _owners.pop(key, None)), [])
    _owners[key][1].append(handle)


def _disown(code: CodeType, owners: list[Mark], handle: Mark) -> None:
    assert core is not None
    while handle in owners:
        owners.remove(handle)
    if owners:
        core.mark_code(code, owners[-1].settings)
    else:
        del _owners[id(code)]
        core.unmark_code(code)


def _discover_again() -> None:
    """Has the hook ask about every code object once more, since the answer may have changed."""
    if core is not None:
        core.set_discover(_discover if _patterns else None)


def _discover(function: FunctionType, code: CodeType) -> dict[str, Any] | None:
    """Asked by the hook, once for each code object that is not marked: the settings to mark it with, or None."""
    if (
        not code.co_flags & _OPTIMIZED
        or id(code) in _kept_out
        or code.co_filename.startswith((_PACKAGE_FOLDER, _IMPORT_SYSTEM))
    ):
        return None
    module = str(function.__globals__.get("__name__", ""))
    for handle in reversed(_patterns):
        if handle._matches(module, code.co_filename):
            _own(code, handle)
            return handle.settings
    return None


def forget_compiled() -> None:
    """Drop what is compiled for every marked function, as if none had been called yet."""
    if core is None:
        return
    for function in list(made_of.values()):
        function.cache_clear()
    with _lock:
        for reference, owners in list(_owners.values()):
            code = reference()
            if code is not None:
                core.unmark_code(code)
                core.mark_code(code, owners[-1].settings)


def reports() -> list[dict[str, Any]]:
    """What is compiled for each code object that is marked now."""
    found = []
    for reference, _ in list(_owners.values()):
        code = reference()
        record = None if code is None or core is None else core.code_report(code)
        if record is not None:
            found.append(record)
    return found
