"""How marked functions are pickled: like the functions that they wrap, and marked again in the same way."""

from __future__ import annotations

import dis
import sys
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

from framejit._api._jit import make_function

_KEPT_AT_MOST = 128
_kept: dict[tuple[CodeType, str, str], Any] = {}  # what was made of pickled functions, longest unused first
_CONSTANTS = (type(None), bool, int, float, complex, str, bytes)

_COPIED = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")


def reduce(marked: Any) -> str | tuple[Any, ...]:
    """What ``__reduce__`` of a marked function gives."""
    name = name_for_pickler(marked, sys._getframe(1))
    if name is not None:
        return name
    function = marked.__wrapped__
    kept = {*_COPIED, "__wrapped__", *function.__dict__}
    own = {name: value for name, value in marked.__dict__.items() if name not in kept}
    return remake, (function, marked.__framejit_settings__), own, None, None, _complete


def name_for_pickler(thing: Any, frame: FrameType) -> str | None:
    """The name that leads to `thing`, unless the pickler that runs in `frame` takes functions of that module by value."""
    name: str = getattr(thing, "__qualname__", "")
    found: Any = sys.modules.get(thing.__module__)
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is thing and not _takes_by_value(frame, thing.__module__) else None


def _takes_by_value(frame: FrameType, module: str) -> bool:
    """Whether the pickler takes functions of an imported module by value, as cloudpickle does.

    Picklers do not tell objects who asks. But the innermost Python code that runs is the method ``dump`` of cloudpickle's
    pickler, or of one that a package derives from a copy of cloudpickle. What all copies have is what is looked for.
    """
    override = getattr(frame.f_locals.get("self"), "reducer_override", None)
    registry = getattr(override, "__globals__", {}).get("list_registry_pickle_by_value")
    if registry is None:
        return False
    by_value = registry()
    parts = module.split(".")
    return module == "__main__" or any(".".join(parts[:count]) in by_value for count in range(1, len(parts) + 1))


def remake(function: FunctionType, settings: dict[str, Any]) -> Any:
    """Marks a function that was pickled; if it came before with all that it uses, what was compiled for it is used again."""
    # Pickles show which strings are one object: those of a function that came before, and of its class, which did not,
    # would not give the same bytes twice. Dask asks for these.
    if type(function.__module__) is str:
        function.__module__ = sys.intern(function.__module__)
    if type(name := function.__globals__.get("__name__")) is str:
        function.__globals__["__name__"] = sys.intern(name)
    key = function.__code__, function.__code__.co_filename, repr(settings)
    marked = _kept.pop(key, None)
    if marked is None or not _is_same(marked.__wrapped__, function):
        marked = make_function(function, settings)
    _kept[key] = marked
    if len(_kept) > _KEPT_AT_MOST:
        _kept.pop(next(iter(_kept)), None)
    return marked


def _is_same(one: Any, other: Any, assumed: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Whether nothing can tell the two apart but ``is``: the same object, equal constants, or functions that use such.

    `assumed` are pairs that are being compared, of functions that call themselves.
    """
    if one is other or (id(one), id(other)) in assumed:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, _CONSTANTS):
        return repr(one) == repr(other)  # zeros have signs
    if isinstance(one, tuple):
        return len(one) == len(other) and all(_is_same(*pair, assumed) for pair in zip(one, other, strict=True))
    if isinstance(one, CellType):
        return _is_same(_contents(one), _contents(other), assumed)
    if not isinstance(one, FunctionType) or one.__code__ != other.__code__ or _writes_outside(one.__code__):
        return False
    return _is_same(_used(one), _used(other), assumed | {(id(one), id(other))})


def _contents(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _used(function: FunctionType) -> tuple[Any, ...]:
    """The values that a function uses, apart from its code and arguments."""
    names = sorted(_names(function.__code__) & function.__globals__.keys())
    own = (function.__module__, function.__qualname__, tuple(function.__dict__.items()))
    defaults = (function.__defaults__, function.__kwdefaults__ and tuple(function.__kwdefaults__.items()))
    return (*own, *defaults, function.__closure__, tuple(names), *(function.__globals__[name] for name in names))


def _codes(code: CodeType) -> list[CodeType]:
    """The code and all that it defines."""
    return [code, *(inner for part in code.co_consts if isinstance(part, CodeType) for inner in _codes(part))]


def _names(code: CodeType) -> set[str]:
    return {name for part in _codes(code) for name in part.co_names}


def _writes_outside(code: CodeType) -> bool:
    """Whether a function may change variables that others see."""
    return bool(_names(code) & {"globals", "exec", "eval"}) or any(
        instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")
        or (instruction.opname in ("STORE_DEREF", "DELETE_DEREF") and instruction.argval in code.co_freevars)
        for part in _codes(code)
        for instruction in dis.get_instructions(part)
    )


def _complete(marked: Any, own: dict[str, Any]) -> None:
    """Gives `marked` its attributes: a function that calls itself was marked before it had all of them."""
    function = marked.__wrapped__
    marked.__dict__.update(function.__dict__)
    marked.__dict__.update({name: getattr(function, name) for name in _COPIED})
    marked.__dict__.update(own)
