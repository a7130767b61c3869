"""Factors of matrices in the forms that LAPACK keeps them, and what is solved with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._core import _array, _tensor
from framejit.ops import _linalg, _reduce
from framejit.ops._primitives import _define

__all__ = ["cond", "geqrf", "lu_solve", "lu_unpack", "orgqr", "ormqr"]


def geqrf(input: Any) -> Any:
    """(reflectors below R, their factors): what `orgqr` makes Q of."""
    x = _array(input)
    flat = x.reshape((-1, *x.shape[-2:]))
    found = [np.linalg.qr(one, "raw") for one in flat]
    least = min(x.shape[-2:])
    y = np.stack([h.T for h, _ in found]) if found else np.zeros_like(flat)
    tau = np.stack([one for _, one in found]) if found else np.zeros((0, least), x.dtype)
    return _tensor(y.reshape(x.shape)), _tensor(tau.reshape((*x.shape[:-2], least)))


def orgqr(input: Any, input2: Any) -> Any:
    """The first columns of Q, of whose reflectors and factors `geqrf` tells."""
    x, tau = _array(input), _array(input2)
    rows, columns = x.shape[-2:]
    eye = np.eye(rows, dtype=x.dtype)
    q = np.broadcast_to(eye, (*x.shape[:-2], rows, rows))
    for i in range(tau.shape[-1]):
        below = np.arange(rows) > i
        v = np.where(below, x[..., :, i], x.dtype.type(0)) + eye[i]
        q = q - (q @ v[..., :, None]) @ (v[..., None, :] * tau[..., i, None, None])
    return _tensor(q[..., :columns])


def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """The product of Q, of whose reflectors and factors `geqrf` tells, and another matrix.

    Parameters
    ----------
    input, tau : Tensor
        What `geqrf` returns.
    other : Tensor
        The other matrix.
    left : bool
        Whether Q is on the left.
    transpose : bool
        Whether the transpose of Q is meant.
    """
    x = _array(input)
    rows = x.shape[-2]
    whole = np.concatenate([x, np.zeros((*x.shape[:-1], rows - x.shape[-1]), x.dtype)], -1) if x.shape[-1] < rows else x
    q = _array(orgqr(_tensor(whole), tau))
    q = np.conj(q).swapaxes(-1, -2) if transpose else q
    return _tensor(q @ _array(other) if left else _array(other) @ q)


def _triangular_solve(b: Any, A: Any, upper: bool, transpose: bool, unitriangular: bool) -> tuple[Any, Any]:
    """(the x of A x = b, of whose A one triangle counts, that triangle)."""
    y, a = _array(b), _array(A)
    half = np.triu(a, int(unitriangular)) if upper else np.tril(a, -int(unitriangular))
    if unitriangular:
        half = half + np.eye(a.shape[-1], dtype=a.dtype)
    return _tensor(np.linalg.solve(np.swapaxes(half, -1, -2) if transpose else half, y)), _tensor(half)


def _exchanged(pivots: Any, size: int) -> Any:
    """The order of the rows after each was exchanged with the one that its pivot (from 1 on) names."""
    order = list(range(size))
    for i, other in enumerate(pivots):
        order[i], order[other - 1] = order[other - 1], order[i]
    return order


def lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """The x of A x = b, of whose A the factors L and U and the pivots are given."""
    y, lu, pivots = _array(b), _array(LU_data), _array(LU_pivots)
    vector = y.ndim == 1
    y = y[:, None] if vector else y
    lead = np.broadcast_shapes(y.shape[:-2], lu.shape[:-2])
    y, lu = np.broadcast_to(y, (*lead, *y.shape[-2:])), np.broadcast_to(lu, (*lead, *lu.shape[-2:]))
    size = lu.shape[-1]
    flat = np.broadcast_to(pivots, (*lead, size)).reshape((-1, size)).tolist()
    order = np.array([_exchanged(one, size) for one in flat]).reshape((*lead, size))
    y = np.take_along_axis(y, order[..., None], -2)
    eye = np.eye(size, dtype=lu.dtype)
    out = np.linalg.solve(np.triu(lu), np.linalg.solve(np.tril(lu, -1) + eye, y))
    return _tensor(out[..., 0] if vector else out)


def _unpacked(LU_data: Any, LU_pivots: Any) -> Any:
    lu, pivots = _array(LU_data), _array(LU_pivots)
    rows, columns = lu.shape[-2:]
    least = min(rows, columns)
    lead = lu.shape[:-2]
    turned = []
    for one in pivots.reshape((-1, pivots.shape[-1])).tolist():
        matrix = np.zeros((rows, rows), lu.dtype)
        matrix[_exchanged(one, rows), np.arange(rows)] = 1
        turned.append(matrix)
    lower = np.tril(lu[..., :least], -1) + np.eye(rows, least, dtype=lu.dtype)
    return _tensor(np.stack(turned).reshape((*lead, rows, rows))), _tensor(lower), _tensor(np.triu(lu[..., :least, :]))


def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """(P, L, U) of factors in one matrix and of pivots; None for what is not asked for."""
    p, lower, upper = _unpacked(LU_data, LU_pivots)
    return p if unpack_pivots else None, lower if unpack_data else None, upper if unpack_data else None


def cond(A: Any, p: Any = None) -> Any:
    """The norm of matrices times that of their inverses; `p` is that of `norm`, by default 2."""
    order = 2 if p is None else p
    return _reduce.norm(A, order, (-2, -1)) * _reduce.norm(_linalg.inverse(A), order, (-2, -1))


_define(
    globals(),
    {
        "Geqrf": (geqrf, {}),
        "Orgqr": (orgqr, {}),
        "Ormqr": (ormqr, {"left": True, "transpose": False}),
        "LuSolve": (lu_solve, {}),
        "LuUnpack": (
            lambda LU_data, LU_pivots, unpack_data, unpack_pivots: _unpacked(LU_data, LU_pivots),
            {"unpack_data": True, "unpack_pivots": True},
        ),
    },
)
