"""``mindspore.scipy.linalg``: SciPy's functions over Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import ops
from framejit._core import _array, _arrays, _tensor

block_diag = ops.block_diag


def _plain(value: Any) -> Any:
    return _tensor(np.ascontiguousarray(value))


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverse."""
    return ops.inverse(a)


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The triangle U with U.T @ U, or L with L @ L.T."""
    return ops.cholesky(a, not lower)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """(triangle, lower) for `cho_solve`."""
    return cholesky(a, lower), lower


def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The solution of a x = b, by what `cho_factor` gave for a."""
    triangle, lower = c_and_lower
    x, column = (b.expand_dims(-1), True) if b.ndim == 1 else (b, False)
    out = ops.cholesky_solve(x, triangle, not lower)
    return out.squeeze(-1) if column else out


def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Any:
    """The solution of a triangular system."""
    from scipy.linalg import solve_triangular as solve

    left, right = _arrays(a, b)
    kinds = {"N": 0, "T": 1, "C": 2}
    return _plain(solve(left, right, kinds.get(trans, trans), lower, unit_diagonal))


def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: Any = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """(values, vectors) of a Hermitian matrix, of which one triangle is read."""
    if b is not None:
        raise ValueError("For 'eigh', the 'b' must be None.")
    x = _array(a, "floating")
    if eigvals_only:
        return _tensor(np.linalg.eigvalsh(x, "L" if lower else "U"))
    values, vectors = np.linalg.eigh(x, "L" if lower else "U")
    return _tensor(values), _tensor(vectors)


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Both triangles in one matrix, and the rows that were exchanged (int32)."""
    from scipy.linalg import lu_factor as factor

    both, pivots = factor(_array(a, "floating"))
    return _plain(both), _plain(pivots.astype(np.int32))


def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """(P, L, U) with P @ L @ U; (P @ L, U) with `permute_l`."""
    from scipy.linalg import lu as triangles

    parts = triangles(_array(a, "floating"), permute_l)
    return tuple([_plain(part if at or permute_l else part.astype(np.int32)) for at, part in enumerate(parts)])


def lstsq(A: Any, B: Any, rcond: Any = None, driver: Any = None) -> Any:
    """(x, residuals, rank, singular values) of the least norm of A x - B."""
    a, b = _arrays(A, B)
    x, rest, rank, values = np.linalg.lstsq(a, b, rcond=rcond)
    return _plain(x), _plain(rest), rank, _plain(values)
