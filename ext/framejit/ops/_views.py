"""Functions that MindSpore generates of its primitives, and programs import although they are not listed."""

from __future__ import annotations

from typing import Any

from framejit.ops._in_place import _written
from framejit.ops._shape import split

split_tensor_view_op = split
inplace_copy_op = _written


def slice_ext_view_op(input: Any, dim: int, start: int, end: int, step: int) -> Any:
    """The elements along a dimension from `start` to `end`, with a step."""
    return input[(slice(None),) * (dim % input.ndim) + (slice(start, end, step),)]


def select_ext_view_op(input: Any, dim: int, index: int) -> Any:
    """The part at an index of a dimension."""
    return input[(slice(None),) * (dim % input.ndim) + (index,)]
