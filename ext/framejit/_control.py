"""Steering from inside a program: keeping code out of compilation, breaking graphs on purpose."""

from __future__ import annotations


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
