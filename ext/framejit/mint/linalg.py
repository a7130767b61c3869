"""``mindspore.mint.linalg``."""

from __future__ import annotations

from typing import Any

from framejit import ops


def inv(input: Any) -> Any:
    """Inverses of the last two dimensions."""
    return ops.inverse(input)


def qr(A: Any, mode: str = "reduced") -> Any:
    """(Q, R) with orthonormal Q and upper triangle R."""
    return ops.qr(A, mode)


def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Norms of matrices."""
    return ops.matrix_norm(A, ord, dim, keepdim, dtype=dtype)


def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Norms of vectors."""
    return ops.vector_norm(x, ord, dim, keepdim, dtype=dtype)


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Norms of vectors or matrices."""
    if ord is None and dim is None:
        return ops.vector_norm(A, 2, None, keepdim, dtype=dtype)
    return ops.norm(A, ord, dim, keepdim, dtype=dtype)
