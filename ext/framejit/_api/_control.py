"""Steering from inside a program: keeping code out of compilation, breaking graphs on purpose."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, TypeVar, overload

from framejit._api._platform import core

F = TypeVar("F", bound=Callable[..., Any])
STANCES = ("default", "force_eager", "fail_on_recompile")


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


def is_compiling() -> bool:
    """Whether this code is being compiled; False when it runs in the interpreter.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.is_compiling()
    False
    """
    return False


class stance:  # noqa: N801
    """How marked functions run from now on, in the whole process.

    Parameters
    ----------
    name : {'default', 'force_eager', 'fail_on_recompile'}
        ``'force_eager'``: as plain Python. ``'fail_on_recompile'``: a call that needs another compilation is an error.

    Notes
    -----
    As a context manager it restores the stance before it.

    Examples
    --------
    >>> import framejit as fj
    >>> with fj.stance("force_eager"):
    ...     fj.jit(lambda x: x + 1)(1)
    2
    """

    def __init__(self, name: str) -> None:
        if name not in STANCES:
            raise ValueError(f"For 'stance', the 'name' must be in {list(STANCES)}, but got {name!r}.")
        self._before = "default" if core is None else core.set_stance(name)

    def __enter__(self) -> stance:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if core is not None:
            core.set_stance(self._before)


@overload
def disable(function: F) -> F: ...
@overload
def disable(function: None = None) -> stance: ...
def disable(function: Any = None) -> Any:
    """Keep a function out of compilation: its callers end their graphs at the call, and the interpreter runs it.

    Parameters
    ----------
    function : function, optional
        Also usable as a decorator. Without it: a context manager in which all functions of the process run as plain Python.

    Returns
    -------
    function or stance
        The function itself, or the context manager.

    Examples
    --------
    >>> import framejit as fj
    >>> @fj.disable
    ... def f(x):
    ...     return x + 1
    >>> fj.jit(lambda x: f(x) * 2)(1)
    4
    >>> with fj.disable():
    ...     f(1)
    2
    """
    if function is None:
        return stance("force_eager")
    if not isinstance(function, FunctionType if core is None else (FunctionType, core.Explained)):
        raise TypeError(f"For 'disable', the 'function' must be a function, but got {function!r}.")
    from framejit._api._mark import keep_out

    keep_out(function.__code__)
    return function
