"""Steering from inside a program: keeping code out of compilation, breaking graphs on purpose."""

from __future__ import annotations

import functools
import operator
from types import FunctionType
from typing import Any, TypeVar

from framejit import _mark

F = TypeVar("F", bound=FunctionType)


def graph_break(reason: str = "") -> None:
    """End the graph here; what follows is compiled on its own. Does nothing in plain Python.

    Parameters
    ----------
    reason : str
        Shown in logs and reports.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.graph_break("the file is written here")
    """
    # A call that capture does not look into.
    operator.call(_nothing, reason)


def _nothing(reason: str) -> None:
    """What is called by `graph_break`."""


def is_compiling() -> bool:
    """Whether this code is being compiled; False when it runs in the interpreter.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.is_compiling()
    False
    """
    return False


def disable(function: F) -> F:
    """Keep a function out of compilation: its callers end their graphs at the call, and the interpreter runs it.

    Parameters
    ----------
    function : function
        Also usable as a decorator.

    Returns
    -------
    function
        Calls `function`.

    Examples
    --------
    >>> import framejit as fj
    >>> @fj.disable
    ... def f(x):
    ...     return x + 1
    >>> fj.jit(lambda x: f(x) * 2)(1)
    4
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"disable() takes a function, but got {function!r} of type {type(function).__name__}")
    _mark.keep_out(function.__code__)

    # Called through C code that capture does not look into, so that no caller makes this function part of its graph.
    @functools.wraps(function)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        return operator.call(function, *args, **kwargs)

    return disabled  # type: ignore[return-value]
