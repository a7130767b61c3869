"""How what is made of functions is pickled: as the functions would be, and made again in the same way."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from framejit._api._jit import make_function

_COPIED = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")


def reduce(marked: Any) -> str | tuple[Any, ...]:
    """What ``__reduce__`` of a marked function gives."""
    name = name_for_pickler(marked, sys._getframe(1))
    if name is not None:
        return name
    function = marked.__wrapped__
    kept = {*_COPIED, "__wrapped__", *function.__dict__}
    own = {name: value for name, value in marked.__dict__.items() if name not in kept}
    return make_function, (function, marked.__framejit_settings__), own, None, None, _complete


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


def _complete(marked: Any, own: dict[str, Any]) -> None:
    """Gives `marked` its attributes: a function that calls itself was marked before it had all of them."""
    function = marked.__wrapped__
    marked.__dict__.update(function.__dict__)
    marked.__dict__.update({name: getattr(function, name) for name in _COPIED})
    marked.__dict__.update(own)
