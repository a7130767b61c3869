"""What scripts for MindSpore say about their own values and classes."""

from __future__ import annotations

from typing import Any

import numpy as np


def mutable(input_data: Any, dynamic_len: bool = False) -> Any:
    """Return the value unchanged. Accepted for MindSpore compatibility; framejit does not freeze constants.

    Parameters
    ----------
    input_data : object
        The value.
    dynamic_len : bool
        Whether the length of a tuple or list may vary; it may anyway.

    Raises
    ------
    TypeError
        If the value is no Tensor, number, tuple, list or dict of these.
    """
    if not isinstance(dynamic_len, bool):
        raise TypeError(f"For 'mutable', the second input should be bool, but got: {type(dynamic_len).__name__}")
    if dynamic_len and not isinstance(input_data, (tuple, list)):
        raise TypeError(
            "For 'mutable', when the variable_len is True, the first input should be list or tuple, but got: "
            f"{type(input_data).__name__}"
        )
    return _checked(input_data)


_MUTABLE = (bool, int, float, np.bool_, np.number, tuple, list, dict)


def _checked(value: Any) -> Any:
    """The value, if it and what is in it may vary."""
    from framejit._tensors._tensor import Tensor

    if not isinstance(value, (*_MUTABLE, Tensor)):
        raise TypeError(
            "For 'mutable', the 'input_data' should be one of (bool, int, float, Tensor, tuple, list, dict) or their nested structures with "
            f"no self-reference, but got {type(value).__name__}: {value}."
        )
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ():
        _checked(item)
    return value


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


def recompute(block: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a cell or function; what is cheap to compute again is not kept for gradients anyway.

    Parameters
    ----------
    block : callable
        The cell or function.
    *args, **kwargs
        Its arguments; ``use_reentrant`` and ``output_recompute`` are ignored.
    """
    kwargs.pop("use_reentrant", None)
    kwargs.pop("output_recompute", None)
    return block(*args, **kwargs)
