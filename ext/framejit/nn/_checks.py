"""What the arguments of layers must be; the messages name the class, the argument, and what was given."""

from __future__ import annotations

from typing import Any

from framejit._api._dtypes import ALL
from framejit._tensors._tensor import Tensor


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


def together(cell: Any, **values: Any) -> None:
    """`ValueError` for Tensors whose shapes do not broadcast."""
    shapes = [value.shape for value in values.values() if isinstance(value, Tensor)]
    if not [shape for shape in shapes if shape != shapes[0]]:
        return
    for at in range(1, 1 + max([len(shape) for shape in shapes])):
        lengths = [shape[-at] for shape in shapes if len(shape) >= at and shape[-at] != 1]
        if lengths and min(lengths) != max(lengths):
            raise ValueError(
                f"For '{type(cell).__name__}', the shapes of {' and '.join(values)} must fit together, but got "
                f"{' and '.join([str(shape) for shape in shapes])}."
            )


def classes(cell: Any, logits: Any, labels: Any) -> None:
    """`ValueError` for labels, one for each place, of another shape than the logits without their classes, which are dimension 1."""
    if not isinstance(logits, Tensor) or not isinstance(labels, Tensor) or logits.ndim < 2:
        return
    if labels.shape != (logits.shape[0], *logits.shape[2:]):
        raise ValueError(
            f"For '{type(cell).__name__}', the shape of labels must be that of logits without dimension 1, but got {labels.shape} and "
            f"{logits.shape}."
        )


def rank(cell: Any, x: Any, *allowed: int) -> None:
    """`ValueError` for another number of dimensions."""
    if x.ndim not in allowed:
        wanted = " or ".join([str(n) for n in allowed])
        raise ValueError(f"For '{type(cell).__name__}', the input must have {wanted} dimensions, but got {x.ndim}.")
