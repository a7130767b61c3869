"""Reductions, cumulative functions, and the products of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._autodiff._primitives import stop
from framejit._core import (
    _array,
    _arrays,
    _dtype,
    _op_add,
    _op_divide,
    _op_exp,
    _op_log,
    _op_matmul,
    _op_multiply,
    _op_subtract,
    _tensor,
)
from framejit.ops._elementwise import _INTEGRAL

__all__ = [
    "addmm", "addmv", "all", "amax", "amin", "any", "argmax", "argmin", "baddbmm", "bincount", "cdist",
    "count_nonzero", "cummax", "cummin", "cumprod", "cumsum", "dot", "einsum", "ger", "histc", "inner", "log_softmax",
    "logsumexp", "max", "mean", "median", "min", "mv", "nansum", "norm", "outer", "prod", "reduce_all", "reduce_any",
    "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum", "softmax", "softmin", "std", "std_mean",
    "sum", "tensor_dot", "trace", "var", "var_mean",
]  # fmt: skip

_INT64 = ALL["int64"]


def _axes(axis: Any) -> Any:
    """NumPy's axis for MindSpore's: () is all of them, lists and Tensors are tuples."""
    if isinstance(axis, _core.Tensor):
        return tuple(_array(axis).reshape(-1).tolist())
    if isinstance(axis, (list, tuple)):
        return tuple(axis) if len(axis) else None
    return axis


def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum over `dim`, all of them by default. Integers and bools give int64 if there is no `dtype`."""
    if dtype is None:
        return _tensor(np.sum(_array(input, "sum"), axis=_axes(dim), keepdims=keepdim))
    x = _array(input, dtype)
    return _tensor(np.sum(x, axis=_axes(dim), dtype=x.dtype, keepdims=keepdim))


def mean(x: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Mean over `axis`; of integers, truncated."""
    if x.dtype in _INTEGRAL:
        return _tensor(np.trunc(np.mean(_array(x), axis=_axes(axis), keepdims=keep_dims)).astype(_dtype(x.dtype)))
    return _tensor(np.mean(_array(x), axis=_axes(axis), keepdims=keep_dims))


def prod(input: Any, axis: Any = None, keep_dims: bool = False, dtype: Any = None) -> Any:
    """Product over `axis`. Integers and bools give int64 if there is no `dtype`."""
    if dtype is None:
        return _tensor(np.prod(_array(input, "sum"), axis=_axes(axis), keepdims=keep_dims))
    x = _array(input, dtype)
    return _tensor(np.prod(x, axis=_axes(axis), dtype=x.dtype, keepdims=keep_dims))


def amax(input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """Largest element over `axis`."""
    if initial is not None or where is not None:
        return _tensor(np.max(_array(input), _axes(axis), keepdims=keepdims, **_selected(input, initial, where)))
    return _tensor(np.max(_array(input), axis=_axes(axis), keepdims=keepdims))


def amin(input: Any, axis: Any = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """Smallest element over `axis`."""
    if initial is not None or where is not None:
        return _tensor(np.min(_array(input), _axes(axis), keepdims=keepdims, **_selected(input, initial, where)))
    return _tensor(np.min(_array(input), axis=_axes(axis), keepdims=keepdims))


def _selected(input: Any, initial: Any, where: Any) -> dict[str, Any]:
    chosen = {} if where is None or where is True else {"where": _array(where)}
    return chosen if initial is None else {**chosen, "initial": _array(input).dtype.type(initial)}


def max(input: Any, axis: int | None = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """The largest elements along `axis`, and where they are."""
    if axis is None:
        return amax(input, initial=initial, where=where), _core.Tensor(0)
    return amax(input, axis, keepdims, initial=initial, where=where), argmax(input, axis, keepdims)


def min(input: Any, axis: int | None = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Any:
    """The smallest elements along `axis`, and where they are."""
    if axis is None:
        return amin(input, initial=initial, where=where), _core.Tensor(0)
    at = _tensor(np.argmin(_array(input), axis=axis, keepdims=keepdims))
    return amin(input, axis, keepdims, initial=initial, where=where), at


def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Index of the largest element along `dim`, of the flat Tensor by default; int64."""
    return _tensor(np.argmax(_array(input), axis=dim, keepdims=keepdim and dim is not None))


def argmin(input: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Index of the smallest element along `axis`; int32."""
    at = _tensor(np.argmin(_array(input), axis=axis, keepdims=keepdims and axis is not None))
    return _tensor(_array(at, ALL["int32"]))


def all(input: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Whether all elements over `axis` are true."""
    return _tensor(np.all(_array(input), axis=_axes(axis), keepdims=keep_dims))


def any(input: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Whether any element over `axis` is true."""
    return _tensor(np.any(_array(input), axis=_axes(axis), keepdims=keep_dims))


def var(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """Variance over `axis`."""
    return _tensor(np.var(_array(input, "floating"), axis=_axes(axis), ddof=int(ddof), keepdims=keepdims))


def std(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """Standard deviation over `axis`."""
    return _tensor(np.std(_array(input, "floating"), axis=_axes(axis), ddof=int(ddof), keepdims=keepdims))


def var_mean(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """Variance and mean over `axis`."""
    return var(input, axis, ddof, keepdims), mean(input, axis, keepdims)


def std_mean(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """Standard deviation and mean over `axis`."""
    return std(input, axis, ddof, keepdims), mean(input, axis, keepdims)


def reduce_sum(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """Sum over `axis` in the dtype of x."""
    return _tensor(np.sum(_array(x), axis=_axes(axis), dtype=_dtype(x.dtype), keepdims=keep_dims))


def reduce_prod(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """Product over `axis` in the dtype of x."""
    return _tensor(np.prod(_array(x), axis=_axes(axis), dtype=_dtype(x.dtype), keepdims=keep_dims))


def reduce_mean(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """Mean over `axis`."""
    return mean(x, axis, keep_dims)


def reduce_max(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """Largest element over `axis`."""
    return amax(x, axis, keep_dims)


def reduce_min(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """Smallest element over `axis`."""
    return amin(x, axis, keep_dims)


def reduce_all(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """Whether all elements over `axis` are true."""
    return all(x, axis, keep_dims)


def reduce_any(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """Whether any element over `axis` is true."""
    return any(x, axis, keep_dims)


def _shift(x: Any, axis: Any) -> Any:
    """The largest elements over `axis`: a constant in gradients, which are the same for any number that is subtracted."""
    return stop(amax(x, axis, True) if _array(x).size else sum(x, axis, True))


def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """log(sum(exp(input))) over `dim`."""
    high = _shift(input, dim)
    total = _op_log(sum(_op_exp(_op_subtract(input, high)), dim, True))
    both = _op_add(total, high)
    return both if keepdim else _tensor(np.squeeze(_array(both), axis=_axes(dim)))


def nansum(input: Any, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> Any:
    """Sum over `axis`, NaN as 0, converted to `dtype`."""
    total = _tensor(np.nansum(_array(input, "sum"), axis=_axes(axis), keepdims=keepdims))
    return total if dtype is None else _tensor(_array(total, dtype))


def count_nonzero(x: Any, axis: Any = (), keep_dims: bool = False, dtype: Any = ALL["int32"]) -> Any:
    """Number of elements over `axis` that are not 0."""
    return _tensor(np.asarray(np.count_nonzero(_array(x), axis=_axes(axis), keepdims=keep_dims)).astype(_dtype(dtype)))


def median(input: Any, axis: int = -1, keepdims: bool = False) -> Any:
    """The lower median along `axis`, and where it is."""
    x = _array(input)
    at = np.take(np.argsort(x, axis=axis, kind="stable"), [(x.shape[axis] - 1) // 2], axis=axis)
    values = np.take_along_axis(x, at, axis)
    if not keepdims:
        values, at = values.squeeze(axis), at.squeeze(axis)
    return _tensor(values), _tensor(at)


def cumsum(x: Any, axis: int, dtype: Any = None) -> Any:
    """Sums of the elements up to each one along `axis`."""
    return _tensor(np.cumsum(_array(x, dtype), axis=axis, dtype=_dtype(x.dtype if dtype is None else dtype)))


def cumprod(input: Any, dim: int, dtype: Any = None) -> Any:
    """Products of the elements up to each one along `dim`; of integers and bools in int64."""
    if dtype is None:
        dtype = ALL["int64"] if input.dtype in _INTEGRAL else input.dtype
    return _tensor(np.cumprod(_array(input, dtype), axis=dim, dtype=_dtype(dtype)))


def _cumulative_extreme(input: Any, axis: int, ufunc: Any) -> Any:
    x = _array(input)
    values = ufunc.accumulate(x, axis=axis)
    places = np.broadcast_to(
        np.arange(x.shape[axis]).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]), x.shape
    )
    same = (x == values) | ((x != x) & (values != values))
    at = np.maximum.accumulate(np.where(same, places, -1), axis=axis)
    return _tensor(values), _tensor(at)


def cummax(input: Any, axis: int) -> Any:
    """The largest elements up to each one along `axis`, and where they are."""
    return _cumulative_extreme(input, axis, np.maximum)


def cummin(input: Any, axis: int) -> Any:
    """The smallest elements up to each one along `axis`, and where they are."""
    values, at = _cumulative_extreme(input, axis, np.minimum)
    return values, _tensor(_array(at, ALL["int32"]))


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Norm of vectors or matrices."""
    return _tensor(np.linalg.norm(_array(A, "floating" if dtype is None else dtype), ord, _axes(dim), keepdim))


def softmax(input: Any, axis: int = -1, *, dtype: Any = None) -> Any:
    """exp(input) / sum(exp(input)) along `axis`."""
    x = input if dtype is None else _tensor(_array(input, dtype))
    shifted = _op_exp(_op_subtract(x, _shift(x, axis)))
    return _op_divide(shifted, sum(shifted, axis, True))


def log_softmax(logits: Any, axis: int = -1) -> Any:
    """log(softmax(logits))."""
    shifted = _op_subtract(logits, _shift(logits, axis))
    return _op_subtract(shifted, _op_log(sum(_op_exp(shifted), axis, True)))


def softmin(x: Any, axis: int = -1, *, dtype: Any = None) -> Any:
    """softmax(-x)."""
    return softmax(_core._op_negative(x), axis, dtype=dtype)


def dot(input: Any, other: Any) -> Any:
    """Product over the last axis of input and the last but one of other."""
    x, y = _arrays(input, other)
    return _tensor(np.dot(x, y))


def inner(input: Any, other: Any) -> Any:
    """Product over the last axes."""
    x, y = _arrays(input, other)
    return _tensor(np.inner(x, y))


def outer(input: Any, vec2: Any) -> Any:
    """All products of the elements of two vectors."""
    x, y = _arrays(input, vec2)
    return _tensor(x.reshape(-1, 1) * y.reshape(1, -1))


ger = outer


def mv(mat: Any, vec: Any) -> Any:
    """Matrix times vector."""
    return _op_matmul(mat, vec)


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * mat1 @ mat2."""
    return _op_add(_op_multiply(input, beta), _op_multiply(_op_matmul(mat1, mat2), alpha))


def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * mat @ vec."""
    return addmm(input, mat, vec, beta=beta, alpha=alpha)


def baddbmm(input: Any, batch1: Any, batch2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * batch1 @ batch2."""
    return addmm(input, batch1, batch2, beta=beta, alpha=alpha)


def tensor_dot(x1: Any, x2: Any, axes: Any) -> Any:
    """Product over several axes."""
    x, y = _arrays(x1, x2)
    return _tensor(np.tensordot(x, y, axes))


def einsum(equation: str, *operands: Any) -> Any:
    """Einstein's summation."""
    return _tensor(np.einsum(equation, *_arrays(*operands)))


def trace(input: Any) -> Any:
    """Sum of the diagonal."""
    return _tensor(np.trace(_array(input)))


def cdist(x1: Any, x2: Any, p: float = 2.0) -> Any:
    """Distances of all pairs of rows."""
    x, y = _arrays(x1, x2)
    return _tensor(np.linalg.norm(x[..., :, None, :] - y[..., None, :, :], p, axis=-1))


def histc(input: Any, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Any:
    """Histogram of equal bins between min and max, those of the elements where both are equal."""
    x = _array(input)
    low, high = (float(x.min()), float(x.max())) if min == max else (min, max)
    return _tensor(np.histogram(x, bins, (low, high))[0].astype(x.dtype))


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each int occurs, or the sum of its weights; float32."""
    places = stop(_array(input))
    counts = np.bincount(places, None, minlength)
    if weights is not None:
        rows = _array(weights, np.float64)
        if rows.shape != places.shape:
            raise ValueError("The weights and list don't have the same length.")
        counts = np.zeros_like(rows, shape=counts.shape)
        np.add.at(counts, places, rows)
    return _tensor(counts.astype(np.float32))
