"""Functions that are less used: of elements, of order and statistics, of indices, and names that stand for others."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._autodiff._primitives import writable
from framejit._core import _array, _arrays, _dtype, _tensor
from framejit.ops import _create, _elementwise, _reduce, _shape
from framejit.ops._create import _rows
from framejit.ops._elementwise import where
from framejit.ops._reduce import _axes
from framejit.ops._shape import _ints

__all__ = [
    "aminmax", "angle", "bartlett_window", "blackman_window", "bucketize", "cartesian_prod", "clip_by_global_norm",
    "clip_by_norm", "combinations", "diag_embed", "diagflat", "diff", "dsplit", "embedding", "expand_as", "fills",
    "hamming_window", "hann_window", "hsplit", "index_fill", "inplace_update", "intopk", "is_complex",
    "is_floating_point", "is_nonzero", "is_tensor", "isneginf", "isposinf", "kaiser_window", "ldexp", "logcumsumexp",
    "matrix_band_part", "mirror_pad", "msort", "nanmean", "nanquantile", "pdist", "polar",
    "population_count", "positive", "quantile", "renorm", "reverse", "row_stack", "select_scatter", "sequence_mask",
    "slice_scatter", "soft_shrink", "swiglu", "take", "tensor_scatter_div", "tensor_scatter_elements",
    "tensor_scatter_mul", "top_k", "truncate_div", "truncate_mod", "type_as", "unique_consecutive", "view_as",
    "vsplit",
]  # fmt: skip

_FLOATS = tuple(ALL[name] for name in ("float16", "bfloat16", "float32", "float64"))
_COMPLEX = (ALL["complex64"], ALL["complex128"])
_BOOL, _INT32 = ALL["bool_"], ALL["int32"]

# Names of MindSpore's that stand for others.
soft_shrink = _elementwise.softshrink


def top_k(input_x: Any, k: int, sorted: bool = True) -> Any:
    """The k largest elements along the last dimension, and where they are (int32)."""
    return _shape.topk(input_x, k, sorted=sorted)


# --- What things are ----------------------------------------------------------------------------------------------------------


def is_tensor(obj: Any) -> bool:
    """Return whether an object is a Tensor.

    Parameters
    ----------
    obj : object
        Any object.
    """
    return isinstance(obj, _core.Tensor)


def is_floating_point(input: Any) -> bool:
    """Whether the elements are floats."""
    return input.dtype in _FLOATS


def is_complex(input: Any) -> bool:
    """Whether the elements are complex."""
    return input.dtype in _COMPLEX


def is_nonzero(input: Any) -> bool:
    """Whether the one element is not 0."""
    if input.size != 1:
        raise ValueError(f"For 'is_nonzero', the 'input' must have one element, but got the shape {input.shape}.")
    return bool(input.reshape(()) != 0)


def type_as(input: Any, other: Any) -> Any:
    """Converted to the dtype of another Tensor."""
    return _tensor(_array(input, other.dtype))


def expand_as(input: Any, other: Any) -> Any:
    """Repeated to the shape of another Tensor."""
    return _shape.broadcast_to(input, other.shape)


def view_as(input: Any, other: Any) -> Any:
    """In the shape of another Tensor."""
    return _shape.reshape(input, other.shape)


# --- Elements -----------------------------------------------------------------------------------------------------------------


def positive(input: Any) -> Any:
    """The input."""
    if input.dtype is _BOOL:
        raise TypeError("For 'positive', the 'input' must not be of bools.")
    return input


def isposinf(input: Any) -> Any:
    """Whether elements are infinity."""
    return _core._op_equal(input, float("inf"))


def isneginf(input: Any) -> Any:
    """Whether elements are minus infinity."""
    return _core._op_equal(input, float("-inf"))


def _pairwise(name: str) -> Any:
    def function(input: Any, other: Any) -> Any:
        x, y = _arrays(input, other)
        return _tensor(getattr(np, name)(x, y))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"np.{name}."
    return function


for _name in ("gcd", "lcm", "nextafter", "logaddexp2"):
    globals()[_name] = _pairwise(_name)
    __all__ += [_name]


def ldexp(x: Any, other: Any) -> Any:
    """x * 2 ** other."""
    return x * _core._op_power(2.0, other)


def truncate_div(x: Any, y: Any) -> Any:
    """x / y, rounded towards 0."""
    a, b = _arrays(x, y)
    if a.dtype.kind not in "iu":
        return _elementwise.trunc(_core._op_divide(x, y))
    return _tensor((a - np.fmod(a, b)) // b)


def truncate_mod(x: Any, y: Any) -> Any:
    """What `truncate_div` leaves, with the sign of x."""
    return _core._op_fmod(x, y)


def angle(input: Any) -> Any:
    """The angle of complex numbers."""
    return _tensor(np.angle(_array(input, "floating")))


def polar(abs: Any, angle: Any) -> Any:
    """Complex numbers of these sizes and angles."""
    r, phi = _arrays(abs, angle)
    out = np.empty(np.broadcast_shapes(r.shape, phi.shape), np.result_type(r.dtype, np.complex64))
    out.real, out.imag = r * np.cos(phi), r * np.sin(phi)
    return _tensor(out)


def population_count(input_x: Any) -> Any:
    """The number of ones among the bits (uint8)."""
    x = np.ascontiguousarray(_array(input_x))
    bits = np.unpackbits(x.reshape((*x.shape, 1)).view(np.uint8), axis=-1)
    return _tensor(bits.sum(-1, dtype=np.uint8))


def swiglu(input: Any, dim: int = -1) -> Any:
    """silu of the first half times the second."""
    first, second = _shape.chunk(input, 2, dim)
    return _elementwise.silu(first) * second


def clip_by_norm(x: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """A Tensor, or several, scaled so that the norm of all elements together is at most `max_norm`."""
    several = isinstance(x, (list, tuple))
    tensors = list(x) if several else [x]
    parts = [
        _core._op_power(_reduce.sum(_core._op_power(_core._op_absolute(t), norm_type)), 1.0 / norm_type)
        for t in tensors
    ]
    total = _core._op_power(_elementwise.addn([_core._op_power(p, norm_type) for p in parts]), 1.0 / norm_type)
    if error_if_nonfinite and not bool(_core._op_isfinite(total)):
        raise RuntimeError("For 'clip_by_norm', the norm is not finite.")
    factor = _elementwise.clamp(max_norm / (total + 1e-6), None, 1.0)
    scaled = [t * factor for t in tensors]
    return type(x)(scaled) if several else scaled[0]


def clip_by_global_norm(x: Any, clip_norm: float = 1.0, use_norm: Any = None) -> Any:
    """Tensors scaled so that the root of the sum of all squares is at most `clip_norm`."""
    if use_norm is not None:
        raise ValueError("For 'clip_by_global_norm', the 'use_norm' must be None.")
    total = _elementwise.addn([_reduce.sum(_core._op_square(t)) for t in x])
    scale = clip_norm / _core._op_maximum(_core._op_sqrt(total), clip_norm)
    return type(x)([t * scale for t in x])


def renorm(input: Any, p: float, axis: int, maxnorm: float) -> Any:
    """Each part along `axis` scaled so that its norm is at most `maxnorm`."""
    axes = tuple([i for i in range(input.ndim) if i != axis % input.ndim])
    powers = _core._op_power(_core._op_absolute(input), p)
    norm = _core._op_power(_reduce.sum(powers, axes, True), 1.0 / p)
    return input * where(norm > maxnorm, maxnorm / (norm + 1e-7), 1.0)


# --- Statistics and order -------------------------------------------------------------------------------------------------------


def aminmax(input: Any, *, axis: Any = 0, keepdims: bool = False) -> Any:
    """The smallest and the largest element along `axis`."""
    return _reduce.amin(input, axis, keepdims), _reduce.amax(input, axis, keepdims)


def nanmean(input: Any, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> Any:
    """The mean of what is not NaN."""
    x = _array(input, "floating" if dtype is None else dtype)
    kept = np.logical_not(np.isnan(x))
    axes = _axes(axis)
    total = np.where(kept, x, x.dtype.type(0)).sum(axis=axes, keepdims=keepdims)
    return _tensor(total / kept.sum(axis=axes, keepdims=keepdims).astype(x.dtype))


def quantile(input: Any, q: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Quantiles, between elements by their distances."""
    x = _array(input, "floating")
    return _tensor(np.quantile(x, _array(q, input.dtype), axis, keepdims=keepdims))


def nanquantile(input: Any, q: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Quantiles of what is not NaN."""
    x = _array(input, "floating")
    return _tensor(np.nanquantile(x, _array(q, input.dtype), axis, keepdims=keepdims))


def logcumsumexp(input: Any, axis: int) -> Any:
    """The logarithms of the sums of exp up to each element."""
    return _tensor(np.logaddexp.accumulate(_array(input, "floating"), axis=axis))


def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along `axis`."""
    ends = {name: _array(end) for name, end in (("prepend", prepend), ("append", append)) if end is not None}
    return _tensor(np.diff(_array(x), n, axis, **ends))


def msort(input: Any) -> Any:
    """In order along the first dimension."""
    return _shape.sort(input, 0)[0]


def bucketize(input: Any, boundaries: Any, *, right: bool = False) -> Any:
    """Between which boundaries the elements lie (int32)."""
    edges = np.asarray(boundaries) if isinstance(boundaries, (list, tuple)) else _array(boundaries)
    return _tensor(np.searchsorted(edges, _array(input), "right" if right else "left").astype(np.int32))


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Each run of equal elements, or parts along `dim`, once; which run each place is of, and the lengths of the runs (int64)."""
    x = _array(input)
    lines = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    changes = lines[1:] != lines[:-1]
    first = np.concatenate([[True], changes.any(axis=tuple(range(1, changes.ndim)))])[: len(lines)]
    starts = np.flatnonzero(first)
    kept = lines[starts]
    found: list[Any] = [_tensor(kept if dim is None else np.moveaxis(kept, 0, dim))]
    if return_inverse:
        which = np.cumsum(first) - 1
        found.append(_tensor(which.reshape(x.shape) if dim is None else which))
    if return_counts:
        found.append(_tensor(np.diff(np.append(starts, len(lines)))))
    return found[0] if len(found) == 1 else tuple(found)


def intopk(x1: Any, x2: Any, k: int) -> Any:
    """Whether the element of each row that x2 says is among the k largest."""
    x, at = _array(x1), _array(x2)
    own = np.take_along_axis(x, at[:, None].astype(np.int64), 1)
    return _tensor((x > own).sum(1) < k)


def pdist(input: Any, p: float = 2.0) -> Any:
    """The distances of all pairs of rows."""
    x = _array(input)
    first, second = np.triu_indices(x.shape[-2], 1)
    return _tensor(np.linalg.norm(x[..., first, :] - x[..., second, :], p, axis=-1))


def cartesian_prod(*inputs: Any) -> Any:
    """All combinations of one element of each."""
    arrays = _arrays(*inputs)
    if len(arrays) == 1:
        return _tensor(arrays[0])
    return _tensor(np.stack([x.reshape(-1) for x in np.meshgrid(*arrays, indexing="ij")], -1))


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All combinations of r elements."""
    x = _array(input)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.asarray(list(choose(range(x.shape[0]), r)), np.int64).reshape((-1, r))
    return _tensor(x[rows])


# --- Places -----------------------------------------------------------------------------------------------------------------------


def take(input: Any, index: Any) -> Any:
    """The elements at the indices of the flat Tensor."""
    return _tensor(np.take(_array(input).reshape(-1), _array(index)))


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
) -> Any:
    """The rows of `weight` at the indices."""
    if max_norm is not None or scale_grad_by_freq:
        raise ValueError("For 'embedding', 'max_norm' must be None and 'scale_grad_by_freq' False.")
    return _shape.gather(weight, input, 0)


def sequence_mask(lengths: Any, maxlen: int | None = None) -> Any:
    """Whether places lie within sequences of these lengths."""
    at = _array(lengths)
    most = int(at.max()) if maxlen is None else maxlen
    return _tensor(np.arange(most) < at[..., None])


def fills(x: Any, value: Any) -> Any:
    """One number in the shape and dtype of x."""
    return _create.full_like(x, value)


def index_fill(x: Any, axis: int, index: Any, value: Any) -> Any:
    """A copy with one number at the indices along `axis`."""
    new = _array(value, x.dtype)
    out = writable(_array(x), new)
    out[(slice(None),) * (axis % out.ndim) + (_array(index),)] = new
    return _tensor(out)


def select_scatter(input: Any, src: Any, axis: int, index: int) -> Any:
    """A copy with `src` at an index along `axis`."""
    new = _array(src, input.dtype)
    out = writable(_array(input), new)
    out[(slice(None),) * (axis % out.ndim) + (index,)] = new
    return _tensor(out)


def slice_scatter(
    input: Any, src: Any, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """A copy with `src` at a slice along `axis`."""
    new = _array(src, input.dtype)
    out = writable(_array(input), new)
    out[(slice(None),) * (axis % out.ndim) + (slice(start, end, step),)] = new
    return _tensor(out)


def inplace_update(x: Any, v: Any, indices: Any) -> Any:
    """A copy of x with v in the rows at the indices."""
    out = writable(_array(x), _array(v))
    out[_rows(indices)] = _array(v)
    return _tensor(out)


def tensor_scatter_mul(input_x: Any, indices: Any, updates: Any) -> Any:
    """A copy with the parts that the rows of `indices` name multiplied."""
    return _shape._updated(input_x, indices, updates, np.multiply)


def tensor_scatter_div(input_x: Any, indices: Any, updates: Any) -> Any:
    """A copy with the parts that the rows of `indices` name divided."""
    return _shape._updated(input_x, indices, updates, np.divide)


def tensor_scatter_elements(input_x: Any, indices: Any, updates: Any, axis: int = 0, reduction: str = "none") -> Any:
    """A copy with `updates` at the places along `axis` that the indices say, or added there."""
    if reduction not in ("none", "add"):
        raise ValueError(
            f"For 'tensor_scatter_elements', the 'reduction' must be 'none' or 'add', but got {reduction!r}."
        )
    at, new = _array(indices), _array(updates, input_x.dtype)
    x = writable(_array(input_x), new)
    grid = np.indices(at.shape, sparse=True)
    key = tuple([at if i == axis % x.ndim else grid[i] for i in range(x.ndim)])
    if reduction == "add":
        np.add.at(x, key, new)
    else:
        x[key] = new
    return _tensor(x)


def _into(name: str, ufunc: Any, nd: bool) -> Any:
    """Writes into a Tensor: rows that indices name, or parts that rows of indices name."""

    def scatter(input_x: Any, indices: Any, updates: Any, use_locking: bool = False) -> Any:
        at, new = _array(indices), _array(updates, input_x.dtype)
        x = writable(_array(input_x), new)
        key = tuple(np.moveaxis(at, -1, 0)) if nd else at
        if ufunc is None:
            x[key] = new
        else:
            ufunc.at(x, key, new)
        input_x[...] = _tensor(x)
        return input_x

    def without_locking(input_x: Any, indices: Any, updates: Any) -> Any:
        return scatter(input_x, indices, updates)

    public = scatter if nd or name == "scatter_sub" else without_locking
    for function in (scatter, public):
        function.__name__ = function.__qualname__ = name
        function.__doc__ = "Writes into the Tensor, which is also the result."
    return scatter, public


_INTO = {
    "update": None,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}
for _name, _ufunc in _INTO.items():
    for _own, _nd in (("scatter_" + _name, False), ("scatter_nd_" + _name, True)):
        globals()["_" + _own], globals()[_own] = _into(_own, _ufunc, _nd)
        __all__ += [_own]


def _segments(name: str, ufunc: Any, start: Any) -> Any:
    def reduced(x: Any, segment_ids: Any, num_segments: int) -> Any:
        rows, at = _array(x), _array(segment_ids)
        lines = rows.reshape((-1, *rows.shape[at.ndim :]))
        count = num_segments.item() if isinstance(num_segments, _core.Tensor) else num_segments
        # The first row takes the parts whose id is negative.
        out = np.full_like(lines, start(rows.dtype), shape=(count + 1, *lines.shape[1:]))
        ufunc.at(out, np.maximum(at.reshape(-1), -1) + 1, lines)
        return _tensor(out[1:])

    def summed(input_x: Any, segment_ids: Any, num_segments: int) -> Any:
        return reduced(input_x, segment_ids, num_segments)

    public: Any = summed if ufunc is np.add else reduced
    public.__name__ = public.__qualname__ = name
    public.__doc__ = (
        "Of the parts with each id, for all ids below `num_segments`. Parts with negative ids do not count."
    )
    return public


def _limit(which: str) -> Any:
    return lambda dtype: getattr(np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype), which)


for _name, _ufunc, _start in (
    ("sum", np.add, lambda dtype: 0),
    ("prod", np.multiply, lambda dtype: 1),
    ("max", np.maximum, _limit("min")),
    ("min", np.minimum, _limit("max")),
):
    globals()["unsorted_segment_" + _name] = _segments("unsorted_segment_" + _name, _ufunc, _start)
    __all__ += ["unsorted_segment_" + _name]


# --- Shapes -------------------------------------------------------------------------------------------------------------------------


def _split_along(name: str, axis: int) -> Any:
    def split(input: Any, indices_or_sections: Any) -> Any:
        at = axis if axis != 1 or input.ndim > 1 else 0
        return tuple([_tensor(part) for part in np.array_split(_array(input), _ints(indices_or_sections), at)])

    split.__name__ = split.__qualname__ = name
    split.__doc__ = f"Parts along dimension {axis}."
    return split


vsplit, hsplit, dsplit = _split_along("vsplit", 0), _split_along("hsplit", 1), _split_along("dsplit", 2)


def diagflat(input: Any, offset: int = 0) -> Any:
    """A matrix with the elements on a diagonal."""
    return _tensor(np.diagflat(_array(input), offset))


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The last dimension as the diagonal of two dimensions."""
    x = _array(input)
    n = x.shape[-1] + abs(offset)
    rows = np.arange(x.shape[-1]) + max(-offset, 0)
    columns = np.arange(x.shape[-1]) + max(offset, 0)
    out = np.zeros_like(x, shape=(*x.shape[:-1], n, n))
    out[..., rows, columns] = x
    return _tensor(np.moveaxis(out, (-2, -1), (dim1, dim2)))


def matrix_band_part(x: Any, lower: int, upper: int) -> Any:
    """The elements on at most `lower` diagonals below the main one and `upper` above it, 0 elsewhere; negative: all of them."""
    array = _array(x)
    rows, columns = np.arange(array.shape[-2])[:, None], np.arange(array.shape[-1])
    near = np.ones((array.shape[-2], array.shape[-1]), np.bool_)
    if lower >= 0:
        near = near & (rows - columns <= lower)
    if upper >= 0:
        near = near & (columns - rows <= upper)
    return _tensor(np.where(near, array, array.dtype.type(0)))


def mirror_pad(input_x: Any, paddings: Any, mode: str) -> Any:
    """A border of reflected elements: (before, after) for each dimension; 'SYMMETRIC' with the edge."""
    if mode not in ("REFLECT", "SYMMETRIC"):
        raise ValueError(f"For 'mirror_pad', the 'mode' must be 'REFLECT' or 'SYMMETRIC', but got {mode!r}.")
    pairs = [tuple(pair) for pair in (paddings.tolist() if isinstance(paddings, _core.Tensor) else paddings)]
    return _shape._padded(input_x, pairs, mode.lower())


# --- Windows --------------------------------------------------------------------------------------------------------------------------


def _window(name: str, symmetric: Any, length: Any, periodic: bool, dtype: Any, default: str = "float32") -> Any:
    if not isinstance(length, int) or isinstance(length, bool):
        raise TypeError(f"For '{name}', the 'window_length' must be int, but got {type(length).__name__}.")
    if length < 0:
        raise ValueError(f"For '{name}', the 'window_length' must not be negative, but got {length}.")
    out = symmetric(length + (length > 1 and periodic))[:length]
    return _tensor(np.asarray(out, _dtype(ALL[default] if dtype is None else dtype)))


def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> Any:
    """A triangle; without `periodic` it is symmetric."""
    return _window("bartlett_window", np.bartlett, window_length, periodic, dtype)


def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> Any:
    """A sum of three cosines; without `periodic` it is symmetric."""
    return _window("blackman_window", np.blackman, window_length, periodic, dtype)


def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> Any:
    """A raised cosine; without `periodic` it is symmetric."""
    return _window("hann_window", np.hanning, window_length, periodic, dtype, "float64")


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None
) -> Any:
    """alpha - beta * cos; without `periodic` it is symmetric."""

    def symmetric(length: int) -> np.ndarray:
        if length == 1:
            return np.ones(1)
        return alpha - beta * np.cos(2 * np.pi * np.arange(length) / (length - 1))

    return _window("hamming_window", symmetric, window_length, periodic, dtype)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None) -> Any:
    """Kaiser's window, which is narrower with a larger `beta`; without `periodic` it is symmetric."""
    return _window("kaiser_window", lambda length: np.kaiser(length, beta), window_length, periodic, dtype, "float64")


def row_stack(tensors: Any) -> Any:
    """Rows below each other."""
    return _shape.vstack(tensors)


def reverse(x: Any, axis: Any) -> Any:
    """In reverse order along some axes."""
    return _shape.flip(x, axis)
