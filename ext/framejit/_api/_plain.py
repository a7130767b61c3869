"""Marked functions where nothing can be captured: a copy of the function, with the methods that a marked function has."""

from __future__ import annotations

import types
from typing import Any

_said = False


def say_once(reason: str) -> None:
    """One log line for a process: why marked functions run as plain Python."""
    global _said
    if not _said:
        _said = True
        import logging

        logging.getLogger("framejit").warning("marked functions run as plain Python: %s", reason)


def plain_function(function: Any, settings: dict[str, Any]) -> types.FunctionType:
    """A copy of `function` with its attributes, and with the methods of a marked function, which have nothing to report."""
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = function.__annotations__
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    copy.__dict__.update(function.__dict__)
    copy.__dict__.update(
        __wrapped__=function,
        __framejit_settings__=settings,
        cache_entries=list,
        cache_clear=_nothing,
        graphs=list,
        asm=list,
        precompile=_nothing,
    )
    return copy


def _nothing(*_: Any) -> None:
    """Nothing is compiled, so nothing is dropped."""
