"""``mindspore.mint.special``."""

from __future__ import annotations

from typing import Any

from framejit import ops

erfc: Any = ops.erfc
exp2: Any = ops.exp2
expm1: Any = ops.expm1
log1p: Any = ops.log1p
sinc: Any = ops.sinc


def log_softmax(input: Any, dim: int | None = None, *, dtype: Any = None) -> Any:
    """log(softmax(input))."""
    return ops.log_softmax(input if dtype is None else input.astype(dtype), -1 if dim is None else dim)


def round(input: Any, *, decimals: int = 0) -> Any:
    """Each element rounded, halves to even."""
    return ops.round(input, decimals=decimals)
