"""What scripts for MindSpore say about their own values and classes."""

from __future__ import annotations

from typing import Any


def mutable(input_data: Any, dynamic_len: bool = False) -> Any:
    """The value: values are not frozen here, so there is nothing to say about it."""
    return input_data


def jit_class(cls: type) -> type:
    """The class: objects of any class may be used in compiled code."""
    if not isinstance(cls, type):
        raise TypeError(f"Decorator jit_class can only be used for class type, but got {cls!r}.")
    return cls


def lazy_inline(fn: Any = None, attrs: Any = None, policy: Any = None) -> Any:
    """A decorator for the ``__init__`` of a Cell: nothing, cells are captured where they are called."""
    return fn if fn is not None else lambda function: function


def no_inline(fn: Any = None) -> Any:
    """A decorator: nothing, functions are captured where they are called."""
    return fn if fn is not None else lambda function: function
