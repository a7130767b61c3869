"""``mindspore.numpy``: NumPy's names and parameters over Tensors."""

from __future__ import annotations

import builtins as _builtins
from typing import Any

import numpy as np

from framejit import _dtypes, ops
from framejit._core import _array, _arrays, _dtype, _tensor
from framejit._tensor import Tensor

globals().update(_dtypes.ALL)
pi, e, inf, nan, newaxis = np.pi, np.e, np.inf, np.nan, None
ndarray = Tensor

# Functions with the same parameters in NumPy and in framejit.ops.
_SAME = (
    "add subtract multiply divide true_divide floor_divide remainder mod fmod hypot arctan2 minimum maximum fmin fmax copysign negative "
    "absolute abs sign square reciprocal sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arcsinh arccosh arctanh "
    "sinh cosh tanh isnan isinf isfinite signbit equal not_equal less less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor "
    "logical_and logical_or logical_xor logical_not invert matmul floor ceil trunc rint deg2rad rad2deg where isclose allclose heaviside "
    "float_power logaddexp inner outer dot trace reshape expand_dims swapaxes moveaxis ravel broadcast_to tile fliplr flipud roll "
    "tril triu diag diagonal count_nonzero hstack vstack dstack column_stack meshgrid einsum searchsorted bincount real imag isreal nan_to_num shape "
    "size squeeze stack argmin"
)
globals().update({name: getattr(ops, name) for name in _SAME.split()})
power, concatenate, clip, permute_dims = ops.pow, ops.cat, ops.clamp, ops.permute
radians, degrees, cbrt = ops.deg2rad, ops.rad2deg, lambda x: _tensor(np.cbrt(_array(x, "floating")))


def _made(value: Any, dtype: Any) -> Any:
    return Tensor(value) if dtype is None else Tensor(value, dtype)


def array(obj: Any, dtype: Any = None, copy: bool = True, ndmin: int = 0) -> Any:
    """A Tensor of numbers, lists, tuples, ndarrays or Tensors."""
    out = _made(obj, dtype)
    if _has_ints_only(obj):
        out = _int32(out, dtype)
    return out if out.ndim >= ndmin else out.reshape((1,) * (ndmin - out.ndim) + out.shape)


def asarray(a: Any, dtype: Any = None) -> Any:
    """A Tensor; itself where nothing changes."""
    return a if isinstance(a, Tensor) and dtype is None else _made(a, dtype)


asfarray = asarray


def _int32(out: Any, dtype: Any) -> Any:
    """Python ints are int32 where no dtype is given."""
    return out.astype(_dtypes.ALL["int32"]) if dtype is None and out.dtype is _dtypes.ALL["int64"] else out


def _has_ints_only(obj: Any) -> bool:
    """Python numbers and lists of them, of which none has a dtype."""
    return _builtins.all(map(_has_ints_only, obj)) if isinstance(obj, (list, tuple)) else isinstance(obj, int)


def zeros(shape: Any, dtype: Any = _dtypes.ALL["float32"]) -> Any:
    """Zeros."""
    return ops.zeros(shape, dtype)


def ones(shape: Any, dtype: Any = _dtypes.ALL["float32"]) -> Any:
    """Ones."""
    return ops.ones(shape, dtype)


empty = zeros


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """One number everywhere."""
    made = ops.full(shape, fill_value, dtype=dtype)
    return _int32(made, dtype) if isinstance(fill_value, int) else made


def zeros_like(a: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Zeros of the same shape and dtype."""
    return ops.zeros(a.shape if shape is None else shape, a.dtype if dtype is None else dtype)


def ones_like(a: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Ones of the same shape and dtype."""
    return ops.ones(a.shape if shape is None else shape, a.dtype if dtype is None else dtype)


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    """One number in the same shape and dtype."""
    return ops.full(a.shape if shape is None else shape, fill_value, dtype=a.dtype if dtype is None else dtype)


empty_like = zeros_like


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Any:
    """Numbers from `start` up to `stop`."""
    return _int32(ops.arange(start, stop, 1 if step is None else step, dtype=dtype), dtype)


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> Any:
    """`num` numbers from `start` to `stop`."""
    first, last = _array(start, "floating"), _array(stop, "floating")
    made, step = np.linspace(first, last, num, endpoint, True, _dtype(dtype) or first.dtype, axis)
    return (_tensor(made), _tensor(np.asarray(step, first.dtype))) if retstep else _tensor(made)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = _dtypes.ALL["float32"]) -> Any:
    """Ones on a diagonal."""
    return _tensor(np.eye(N, M, k, _dtype(dtype)))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = _dtypes.ALL["float32"]) -> Any:
    """Ones on and below a diagonal."""
    return _tensor(np.tri(N, M, k, _dtype(dtype)))


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Any:
    """`num` numbers from base**start to base**stop, whose logarithms lie evenly."""
    first, last = _array(start, "floating"), _array(stop, "floating")
    return _tensor(np.logspace(first, last, num, endpoint, base, _dtype(dtype) or first.dtype, axis))


def identity(n: int, dtype: Any = _dtypes.ALL["float32"]) -> Any:
    """Ones on the diagonal."""
    return eye(n, dtype=dtype)


def _converted(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.astype(dtype)


def sum(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
    """Sum over `axis`."""
    return a.sum(axis, dtype, keepdims, initial)


def mean(a: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """Mean over `axis`."""
    return _converted(ops.mean(a, axis, keepdims), dtype)


def average(x: Any, axis: Any = None, weights: Any = None, returned: bool = False) -> Any:
    """Mean over `axis` with weights."""
    x = asarray(x)
    if weights is None:
        out = _tensor(np.asarray(np.mean(_array(x, "floating"), axis=axis)))
        total = _tensor(np.full(out.shape, x.size // out.size, _dtype(out.dtype)))
    else:
        values, given = _arrays(x, weights)
        made, sums = np.average(values, axis=axis, weights=given, returned=True)
        out, total = _tensor(np.asarray(made).astype(values.dtype)), _tensor(np.asarray(sums).astype(values.dtype))
    return (out, total) if returned else out


def prod(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
    """Product over `axis`."""
    out = ops.prod(a, axis, keepdims, dtype)
    return out if initial is None else out * initial


def max(a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
    """Largest element over `axis`."""
    return ops.amax(a, axis, keepdims, initial=initial, where=None if where is True else where)


def min(a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
    """Smallest element over `axis`."""
    return ops.amin(a, axis, keepdims, initial=initial, where=None if where is True else where)


amax, amin = max, min


def argmax(a: Any, axis: int | None = None) -> Any:
    """Index of the largest element."""
    return ops.argmax(a, axis)


def all(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements are true."""
    return ops.all(a, axis, keepdims)


def any(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether any element is true."""
    return ops.any(a, axis, keepdims)


def var(x: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """Variance."""
    return ops.var(x, axis, ddof, keepdims)


def std(x: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """Standard deviation."""
    return ops.std(x, axis, ddof, keepdims)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Sums of the elements up to each one."""
    return a.cumsum(axis, dtype)


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along `axis`."""
    ends = [None if end is None else _array(end) for end in (prepend, append)]
    around = {name: end for name, end in zip(("prepend", "append"), ends, strict=True) if end is not None}
    return _tensor(np.diff(_array(a), n, axis, **around))


def _ignoring_nan(name: str) -> Any:
    function = getattr(np, name)

    def reduced(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return _converted(_tensor(np.asarray(function(_array(a), axis=axis, keepdims=keepdims))), dtype)

    reduced.__name__ = reduced.__qualname__ = name
    reduced.__doc__ = f"{name.removeprefix('nan')} of the elements that are not NaN."
    return reduced


nanmax, nanmin, nansum, nanmean, nanvar, nanstd = map(
    _ignoring_nan, ("nanmax", "nanmin", "nansum", "nanmean", "nanvar", "nanstd")
)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Norm of vectors or matrices."""
    return ops.norm(x, ord, axis, keepdims)


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """Cross products of vectors."""
    x, y = _arrays(a, b)
    return _tensor(np.cross(x, y, axisa, axisb, axisc, axis))


def histogram(a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False) -> tuple[Any, Any]:
    """How many elements lie in each bin, and the edges of the bins."""
    x = _array(a, "floating")
    given = _array(bins) if isinstance(bins, Tensor) else bins
    counts, edges = np.histogram(x, given, range, density, None if weights is None else _array(weights))
    return _tensor(counts.astype(x.dtype)), _tensor(edges.astype(x.dtype))


def flip(m: Any, axis: Any = None) -> Any:
    """In reverse order along `axis`, along all dimensions by default."""
    return _tensor(np.flip(_array(m), axis))


def transpose(a: Any, axes: Any = None) -> Any:
    """The dimensions in another order."""
    return _tensor(_array(a).transpose(axes))


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Equal parts, or parts cut at indices."""
    return tuple([_tensor(part) for part in np.split(_array(x), indices_or_sections, axis)])


def take(a: Any, indices: Any, axis: int | None = None, mode: str = "clip") -> Any:
    """The elements at the indices."""
    return a.take(indices, axis, mode)


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element repeated."""
    return a.repeat(repeats, axis)


def unique(x: Any, return_inverse: bool = False) -> Any:
    """Each element once, in order."""
    return ops.unique(x) if return_inverse else ops.unique(x)[0]


def sort(a: Any, axis: int = -1) -> Any:
    """The elements in order."""
    return ops.sort(a, axis)[0]


def argsort(a: Any, axis: int = -1) -> Any:
    """Where the elements in order are."""
    return ops.argsort(a, axis)


def pad(arr: Any, pad_width: Any, mode: str = "constant", **options: Any) -> Any:
    """Elements around."""
    return _tensor(np.pad(_array(arr), pad_width, mode, **options))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether shapes and elements are equal."""
    return bool(np.array_equal(_array(a1), _array(a2), equal_nan))


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that Tensors and numbers are promoted to."""
    return _tensor(_arrays(*arrays_and_dtypes)[0]).dtype


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Product over several axes."""
    return ops.tensor_dot(a, b, axes)


def vdot(a: Any, b: Any) -> Any:
    """Product of the flat Tensors."""
    return ops.dot(a.ravel(), b.ravel())


def rand(*shape: Any, dtype: Any = None) -> Any:
    """Uniform in [0, 1)."""
    return ops.rand(*shape, dtype=dtype)


def randn(*shape: Any, dtype: Any = None) -> Any:
    """Standard normal."""
    return ops.randn(*shape, dtype=dtype)


def randint(minval: int, maxval: int | None = None, shape: Any = None, dtype: Any = _dtypes.ALL["int32"]) -> Any:
    """Ints in [minval, maxval), or in [0, minval)."""
    low, high = (0, minval) if maxval is None else (minval, maxval)
    return ops.randint(low, high, () if shape is None else shape, dtype=dtype)


def __getattr__(name: str) -> Any:
    from framejit._names import unknown

    raise unknown("framejit.numpy", name, globals())
