"""NumPy's functions as functions of Tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from framejit._api import _dtypes
from framejit._core import _array, _dtype, _tensor
from framejit._tensors._tensor import Tensor

DEVICES = ("CPU", "cpu")  # what `Tensor.device` says, and what NumPy says


def taken(value: Any) -> Any:
    """An argument as NumPy's functions take it."""
    if isinstance(value, Tensor):
        return _array(value)
    if isinstance(value, _dtypes.DType):
        return _dtype(value)
    return type(value)([taken(item) for item in value]) if isinstance(value, (list, tuple)) else value


def made(value: Any) -> Any:
    """A result: Tensors for arrays and numbers of NumPy, dtypes of framejit for NumPy's, also in tuples."""
    if isinstance(value, (np.ndarray, np.generic)):
        return _tensor(value)
    if isinstance(value, np.dtype):
        return _dtypes.from_numpy(value)
    if isinstance(value, (list, tuple)):
        items = [made(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def check_device(name: str, keywords: dict[str, Any]) -> None:
    """Takes the argument `device` away; raises `ValueError` unless it is the CPU."""
    device = keywords.pop("device", None)
    if device is not None and device not in DEVICES:
        raise ValueError(f"For '{name}', the 'device' must be 'CPU' or None, but got {device!r}.")


def wrap(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`function` of NumPy, for Tensors."""

    def of_tensors(*args: Any, **keywords: Any) -> Any:
        if "device" in keywords:
            check_device(name, keywords)
        return made(function(*[taken(x) for x in args], **{key: taken(x) for key, x in keywords.items()}))

    of_tensors.__name__ = of_tensors.__qualname__ = name
    of_tensors.__doc__ = (
        f"`numpy.{name}` of Tensors, as the array API standard has it.\n\n"
        f"Takes the arguments of NumPy's function, with Tensors for arrays and framejit's dtypes for NumPy's, and returns "
        f"Tensors. Raises what NumPy's function raises."
    )
    try:
        of_tensors.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    except ValueError:  # a function in C without one
        functools.update_wrapper(of_tensors, function, assigned=())
    return of_tensors


def wrap_all(home: Any, names: str) -> dict[str, Callable[..., Any]]:
    """The functions of a module of NumPy with these names; without those that an older NumPy does not have."""
    return {name: wrap(getattr(home, name), name) for name in names.split() if hasattr(home, name)}
