"""``mindspore.mint.special``."""

from __future__ import annotations

from typing import Any

from framejit import ops

erfc, exp2, expm1, log1p, sinc = ops.erfc, ops.exp2, ops.expm1, ops.log1p, ops.sinc


def log_softmax(input: Any, dim: int | None = None, *, dtype: Any = None) -> Any:
    """log(softmax(input))."""
    return ops.log_softmax(input if dtype is None else input.astype(dtype), -1 if dim is None else dim)


def round(input: Any, *, decimals: int = 0) -> Any:
    """Each element rounded, halves to even."""
    return ops.round(input, decimals=decimals)
