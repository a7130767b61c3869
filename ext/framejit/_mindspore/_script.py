"""What scripts for MindSpore say about their own values and classes."""

from __future__ import annotations

from typing import Any


def mutable(input_data: Any, dynamic_len: bool = False) -> Any:
    """Return the value unchanged. Accepted for MindSpore compatibility; framejit does not freeze constants.

    Parameters
    ----------
    input_data : object
        The value.
    dynamic_len : bool
        Ignored.
    """
    return input_data


def jit_class(cls: type) -> type:
    """Return the class unchanged. Compiled code can use objects of any class.

    Parameters
    ----------
    cls : type
        The class.

    Raises
    ------
    TypeError
        If it is not a class.
    """
    if not isinstance(cls, type):
        raise TypeError(f"Decorator jit_class can only be used for class type, but got {cls!r}.")
    return cls


def lazy_inline(fn: Any = None, attrs: Any = None, policy: Any = None) -> Any:
    """Decorate the ``__init__`` of a Cell; does nothing, because cells are captured at their calls.

    Parameters
    ----------
    fn : callable, optional
        The function; without it, a decorator is returned.
    attrs, policy
        Ignored.
    """
    return fn if fn is not None else lambda function: function


def no_inline(fn: Any = None) -> Any:
    """Decorate a function; does nothing, because functions are captured at their calls.

    Parameters
    ----------
    fn : callable, optional
        The function; without it, a decorator is returned.
    """
    return fn if fn is not None else lambda function: function
