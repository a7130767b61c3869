"""What the arguments of layers must be; the messages name the class, the argument, and what was given."""

from __future__ import annotations

from typing import Any

from framejit._dtypes import ALL
from framejit._tensor import Tensor


def positive_int(cell: Any, **values: Any) -> None:
    """`TypeError` for what is no int, `ValueError` for ints below 1."""
    for name, value in values.items():
        of_type(cell, int, **{name: value})
        if value <= 0:
            raise ValueError(f"For '{type(cell).__name__}', the '{name}' must be a positive int, but got {value}.")


def of_type(cell: Any, types: Any, **values: Any) -> None:
    """`TypeError` for what is not of one of the types; bools are no numbers."""
    for name, value in values.items():
        kinds = types if isinstance(types, tuple) else (types,)
        if not isinstance(value, kinds) or isinstance(value, bool) and bool not in kinds:
            wanted = " or ".join([kind.__name__ for kind in kinds])
            raise TypeError(
                f"For '{type(cell).__name__}', the type of '{name}' must be {wanted}, but got {type(value).__name__}."
            )


def one_of(cell: Any, allowed: Any, **values: Any) -> None:
    """`ValueError` for what is none of the allowed values."""
    for name, value in values.items():
        if value not in allowed:
            raise ValueError(
                f"For '{type(cell).__name__}', the '{name}' must be one of {list(allowed)}, but got {value!r}."
            )


def in_unit(cell: Any, **values: Any) -> None:
    """`ValueError` for numbers outside [0, 1]."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise ValueError(f"For '{type(cell).__name__}', the '{name}' must be in [0, 1], but got {value}.")


_HALF_OR_SINGLE = (ALL["float16"], ALL["float32"])


def tensor(cell: Any, name: str, value: Any) -> None:
    """`TypeError` for what is no Tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"For '{type(cell).__name__}', the '{name}' must be a Tensor, but got {type(value).__name__}.")


def float_tensor(cell: Any, name: str, value: Any) -> None:
    """`TypeError` for what is no Tensor of float16 or float32."""
    tensor(cell, name, value)
    if value.dtype not in _HALF_OR_SINGLE:
        raise TypeError(
            f"For '{type(cell).__name__}', the dtype of '{name}' must be float16 or float32, but got {value.dtype}."
        )


def fits(cell: Any, name: str, x: Any, axis: int, parameter: Any, of: int) -> None:
    """`ValueError` for what is not as long along an axis as a Parameter along `of`."""
    if x.shape[axis:][:1] != parameter.shape[of : of + 1]:
        raise ValueError(
            f"For '{type(cell).__name__}', the '{name}' must have {parameter.shape[of]} elements along dimension {axis}, but its shape is "
            f"{x.shape}, and that of the parameter '{parameter.name}' is {parameter.shape}."
        )


def rank(cell: Any, x: Any, *allowed: int) -> None:
    """`ValueError` for another number of dimensions."""
    if x.ndim not in allowed:
        wanted = " or ".join([str(n) for n in allowed])
        raise ValueError(f"For '{type(cell).__name__}', the input must have {wanted} dimensions, but got {x.ndim}.")
