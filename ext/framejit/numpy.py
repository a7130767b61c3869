"""``mindspore.numpy``: NumPy's names and parameters over Tensors."""

from __future__ import annotations

import builtins as _builtins
from typing import Any

import numpy as np

from framejit import ops
from framejit._api import _dtypes
from framejit._core import _array, _arrays, _dtype, _tensor
from framejit._tensors._tensor import Tensor
from framejit.ops._operators import OPERATORS as _OPERATORS

globals().update(_dtypes.ALL)
pi, e, inf, nan, newaxis = np.pi, np.e, np.inf, np.nan, None
ndarray = Tensor

# Functions with the same parameters in NumPy and in framejit.ops; and operators of the table that have one name there.
_SAME = (
    "true_divide mod abs arcsinh arccosh arctanh floor ceil trunc rint deg2rad rad2deg where isclose allclose "
    "heaviside float_power logaddexp inner outer dot trace reshape expand_dims swapaxes moveaxis ravel "
    "broadcast_to tile fliplr flipud roll tril triu diagonal count_nonzero hstack vstack dstack column_stack "
    "meshgrid einsum bincount real imag isreal nan_to_num shape size squeeze stack argmin"
)
globals().update({name: getattr(ops, name) for name in _SAME.split()})
globals().update({row.numpy: row.compute for row in _OPERATORS if row.numpy in row.functions})
power, concatenate, permute_dims = ops.pow, ops.cat, ops.permute
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


def diag(v: Any, k: int = 0) -> Any:
    """The matrix with this diagonal, or a diagonal of this matrix."""
    return _tensor(np.diag(_array(v), k))


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
        out = _tensor(np.mean(_array(x, "floating"), axis=axis))
        total = _tensor(np.full(out.shape, x.size // out.size, _dtype(out.dtype)))
    else:
        values, given = _arrays(x, weights)
        made, sums = np.average(values, axis=axis, weights=given, returned=True)
        out, total = _tensor(made.astype(values.dtype)), _tensor(sums.astype(values.dtype))
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
        return _converted(_tensor(function(_array(a), axis=axis, keepdims=keepdims)), dtype)

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


def clip(x: Any, xmin: Any, xmax: Any, dtype: Any = None) -> Any:
    """Elements moved into [xmin, xmax], in the dtype of `x`."""
    return _converted(ops.clip_by_value(x, xmin, xmax), dtype)


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Where the values would be put into what is sorted, or is by `sorter`; int32."""
    return a.searchsorted(v, side, sorter)


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


# --- Further functions: NumPy's, of Tensors ---------------------------------------------------------------------------------


def _wrapped(value: Any) -> Any:
    """Arrays and NumPy's numbers as Tensors, also within tuples and lists."""
    if isinstance(value, (tuple, list)):
        return tuple([_wrapped(item) for item in value])
    return _tensor(value) if isinstance(value, (np.ndarray, np.generic)) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _array(value)
    return type(value)([_plain(item) for item in value]) if isinstance(value, (tuple, list)) else value


def _as_in_numpy(name: str) -> Any:
    function = getattr(np, name)

    def call(*args: Any, **keywords: Any) -> Any:
        return _wrapped(function(*_plain(args), **{key: _plain(value) for key, value in keywords.items()}))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"np.{name} of Tensors."
    return call


def _floating(name: str) -> Any:
    """With float results in the dtype of the first argument, float32 for ints."""
    function = getattr(np, name)

    def call(x: Any, *args: Any, **keywords: Any) -> Any:
        array = _array(asarray(x), "floating")
        more = {key: _plain(value) for key, value in keywords.items()}
        out = function(array, *_plain(args), **more)
        kind = array.dtype
        return _wrapped(tuple([o.astype(kind) for o in out]) if isinstance(out, (tuple, list)) else out.astype(kind))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"np.{name} of Tensors, of floats."
    return call


_PLAIN = (
    "append array_split atleast_1d atleast_2d atleast_3d choose diagflat dsplit ediff1d "
    "fix gcd lcm hsplit vsplit rollaxis rot90 kron select setdiff1d take_along_axis ravel_multi_index ix_ isneginf isposinf "
    "logaddexp2 positive intersect1d union1d flatnonzero piecewise"
)
globals().update({name: _as_in_numpy(name) for name in _PLAIN.split()})
_OF_FLOATS = (
    "convolve correlate corrcoef cov gradient interp trapz unwrap polyadd polyder polyint polymul polysub polyval ptp"
)
globals().update({name: _floating(name) for name in _OF_FLOATS.split() if hasattr(np, name)})


def broadcast_arrays(*args: Any) -> tuple[Any, ...]:
    """Tensors of the shape that all have together."""
    shape = np.broadcast_shapes(*[x.shape for x in args])
    return tuple([_tensor(np.broadcast_to(_array(x), shape)) for x in args])


bitwise_not = ops.bitwise_not
argwhere = ops.argwhere


def fabs(x: Any, dtype: Any = None) -> Any:
    """Absolute values."""
    return _converted(ops.abs(x), dtype)


def divmod(x1: Any, x2: Any, dtype: Any = None) -> Any:
    """Quotients and remainders."""
    return _converted(ops.floor_divide(x1, x2), dtype), _converted(ops.remainder(x1, x2), dtype)


def trapz(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """The integral by trapezoids."""
    return ops.trapz(asarray(y), None if x is None else asarray(x), dx=dx, dim=axis)


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """What a function gives for each line along `axis`."""

    def of_line(line: Any) -> Any:
        out = func1d(Tensor(line), *args, **kwargs)
        return _array(out) if isinstance(out, Tensor) else out

    return _tensor(np.apply_along_axis(of_line, axis, _array(arr)))


def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """A function along several axes, one after the other."""
    for axis in (axes,) if isinstance(axes, int) else axes:
        out = func(a, axis)
        a = out if out.ndim == a.ndim else ops.expand_dims(out, axis)
    return a


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of the elements."""
    out = ops.vander(asarray(x), N)
    return ops.flip(out, (1,)) if increasing else out


def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """The places of indices of the flat Tensor (int32)."""
    found = np.unravel_index(_array(asarray(indices)), shape, order)
    return tuple([_tensor(np.asarray(part, np.int32)) for part in found])


def isscalar(element: Any) -> bool:
    """Whether it is a number or a str."""
    return isinstance(element, (int, float, bool, complex, str))


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether all elements are equal after broadcasting."""
    return Tensor(bool(np.array_equiv(_array(a1), _array(a2))))


def array_str(a: Any) -> str:
    """The text of a Tensor."""
    return str(a)


def isin(element: Any, test_elements: Any, invert: bool = False) -> Any:
    """Whether elements are among others."""
    return _tensor(np.isin(_array(element), _plain(test_elements), invert=invert))


def in1d(ar1: Any, ar2: Any, invert: bool = False) -> Any:
    """`isin` of the flat Tensor."""
    return isin(asarray(ar1).ravel(), ar2, invert)


_PRODUCTS = {
    **dict.fromkeys(("Bool", "Int8", "Int16"), _dtypes.ALL["int32"]),
    **dict.fromkeys(("UInt8", "UInt16"), _dtypes.ALL["uint32"]),
}


def cumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Products of the elements up to each one; of bools and small integers in 32 bits."""
    x = a.ravel() if axis is None else a
    if dtype is None:
        dtype = _PRODUCTS.get(str(x.dtype), x.dtype)
    return ops.cumprod(x, 0 if axis is None else axis, dtype)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Sums of the elements up to each one, NaN as 0."""
    return cumsum(ops.where(ops.isnan(a), 0, a), axis, dtype)


def promote_types(type1: Any, type2: Any) -> Any:
    """The dtype that both are promoted to."""
    return result_type(ops.zeros((1,), type1), ops.zeros((1,), type2))


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """In which bins the elements lie."""
    return _tensor(np.digitize(_array(asarray(x)), _array(asarray(bins)), right).astype(np.int32))


def multi_dot(arrays: Any) -> Any:
    """The product of several matrices."""
    return _tensor(np.linalg.multi_dot(_arrays(*arrays)))


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """`num` numbers from `start` to `stop`, each the same multiple of the one before it."""
    first, last = _array(start, "floating"), _array(stop, "floating")
    return _tensor(np.geomspace(first, last, num, endpoint, _dtype(dtype) or first.dtype, axis))


def _window_of(name: str) -> Any:
    function = getattr(np, name)

    def window(M: int) -> Any:
        return _tensor(np.asarray(function(M), np.float32))

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"np.{name}."
    return window


bartlett, blackman, hamming, hanning = map(_window_of, ("bartlett", "blackman", "hamming", "hanning"))


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges of the bins of `histogram`."""
    x = _array(asarray(a), "floating")
    return _tensor(np.histogram_bin_edges(x, _plain(bins), range).astype(x.dtype))


def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False) -> Any:
    """How many pairs lie in each rectangle, and the edges."""
    a, b = _array(asarray(x), "floating"), _array(asarray(y), "floating")
    found = np.histogram2d(a, b, _plain(bins), range, density, _plain(weights))
    return tuple([_tensor(part.astype(a.dtype)) for part in found])


def histogramdd(sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False) -> Any:
    """How many rows lie in each box, and the edges."""
    x = _array(asarray(sample), "floating")
    counts, edges = np.histogramdd(x, _plain(bins), range, density, _plain(weights))
    return _tensor(counts.astype(x.dtype)), [_tensor(edge.astype(x.dtype)) for edge in edges]


def indices(dimensions: Any, dtype: Any = _dtypes.ALL["int32"], sparse: bool = False) -> Any:
    """The index of each place along each dimension."""
    return tuple([_tensor(part) for part in np.indices(dimensions, _dtype(dtype), sparse)])


def _places_of(name: str) -> Any:
    function = getattr(np, name)

    def places(n: int, *args: Any, **keywords: Any) -> Any:
        return tuple([_tensor(part.astype(np.int32)) for part in function(n, *args, **keywords)])

    places.__name__ = places.__qualname__ = name
    places.__doc__ = f"np.{name}."
    return places


tril_indices, triu_indices, diag_indices = map(_places_of, ("tril_indices", "triu_indices", "diag_indices"))


def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """Places of the lower triangle of a matrix."""
    return tril_indices(arr.shape[-2], k, arr.shape[-1])


def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """Places of the upper triangle of a matrix."""
    return triu_indices(arr.shape[-2], k, arr.shape[-1])


sometrue = any
float_, int_ = _dtypes.ALL["float32"], _dtypes.ALL["int32"]


class _Grid:
    """``mgrid[0:3, 0:2]``: coordinates of a grid, by slices; a complex step is a count."""

    def __init__(self, grid: Any) -> None:
        self._grid = grid

    def __getitem__(self, key: Any) -> Any:
        found = self._grid[key]
        narrow = {"i": np.int32, "f": np.float32}
        parts = found if isinstance(found, (tuple, list)) else [found]
        parts = [_tensor(part.astype(narrow[part.dtype.kind])) for part in parts]
        return tuple(parts) if isinstance(found, (tuple, list)) else parts[0]


mgrid, ogrid = _Grid(np.mgrid), _Grid(np.ogrid)


def __getattr__(name: str) -> Any:
    from framejit._api._names import unknown

    raise unknown("framejit.numpy", name, globals())
