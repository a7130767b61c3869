"""Linear algebra of the array API standard, of Tensors."""

from __future__ import annotations

import numpy as np

from framejit.array_api._wrap import wrap_all

_FUNCTIONS = (
    "cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv qr "
    "slogdet solve svd svdvals tensordot trace vecdot vector_norm"
)
__all__ = _FUNCTIONS.split()  # noqa: PLE0605
globals().update(wrap_all(np.linalg, _FUNCTIONS))
