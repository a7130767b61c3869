"""The same elements in another shape or order, and parts of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from framejit import _core
from framejit._api._control import is_compiling
from framejit._api._dtypes import ALL
from framejit._autodiff._primitives import writable
from framejit._core import _array, _arrays, _tensor

__all__ = [
    "argsort", "argwhere", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "cat", "chunk", "column_stack",
    "concat", "diag", "diagonal", "dstack", "dtype", "expand", "expand_dims", "flatten", "flip", "fliplr", "flipud",
    "gather", "gather_d", "gather_elements", "gather_nd", "hstack", "index_add", "index_select", "masked_select",
    "meshgrid", "moveaxis", "movedim", "narrow", "nonzero", "numel", "one_hot", "pad", "permute", "rank", "ravel",
    "repeat_elements", "repeat_interleave", "reshape", "reverse_sequence", "roll", "rot90", "scatter", "scatter_nd",
    "searchsorted", "shape", "size", "slice_", "sort", "split", "squeeze", "stack", "strided_slice", "swapaxes",
    "swapdims", "t", "take_along_dim", "tensor_scatter_add", "tensor_scatter_max", "tensor_scatter_min",
    "tensor_scatter_sub", "tensor_scatter_update", "tensor_split", "tile", "topk", "transpose", "tril", "triu",
    "unbind", "unique", "unsqueeze", "unstack", "vstack",
]  # fmt: skip

_INT32, _INT64, _BOOL = ALL["int32"], ALL["int64"], ALL["bool_"]


def _ints(value: Any) -> Any:
    """Shapes and axes may be Tensors; one list or tuple may stand for several arguments."""
    if isinstance(value, _core.Tensor):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(value)
    return value


def _check_size(function: str, argument: str, value: Any, *lengths: int) -> None:
    """Raise ValueError if no process has memory for an array of these lengths. Compiled, NumPy raises for their product."""
    largest = max(lengths) if is_compiling() else math.prod(lengths)
    if largest >= 2**45:
        raise ValueError(f"For '{function}', the '{argument}' makes an array that is too large, but got {value!r}.")


def _given(args: tuple[Any, ...]) -> Any:
    """``f(2, 3)`` and ``f((2, 3))`` are the same."""
    return _ints(args[0]) if len(args) == 1 else args


def reshape(input: Any, shape: Any) -> Any:
    """The elements in C order in another shape; one dimension may be -1."""
    return _tensor(_array(input).reshape(_ints(shape)))


def transpose(input: Any, dims: Any) -> Any:
    """The dimensions in the order `dims`."""
    return _tensor(_array(input).transpose(_ints(dims)))


def permute(input: Any, axis: Any) -> Any:
    """The dimensions in the order `axis`."""
    return _tensor(_array(input).transpose(_ints(axis)))


def t(input: Any) -> Any:
    """A matrix transposed. Tensors of more dimensions stay as they are."""
    x = _array(input)
    return _tensor(x.transpose() if x.ndim < 3 else x.copy())


def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """Two dimensions exchanged."""
    return _tensor(_array(input).swapaxes(axis0, axis1))


def swapdims(input: Any, dim0: int, dim1: int) -> Any:
    """With two axes swapped."""
    return swapaxes(input, dim0, dim1)


def movedim(x: Any, source: Any, destination: Any) -> Any:
    """Dimensions at other places."""
    return _tensor(np.moveaxis(_array(x), source, destination))


moveaxis = movedim


def squeeze(input: Any, axis: Any = None) -> Any:
    """Without dimensions of length 1, all or those of `axis`. Dimensions of other lengths stay."""
    x, axes = _array(input), _ints(axis)
    if axes is None or x.ndim == 0:
        return _tensor(np.squeeze(x, axis=axes))
    chosen = axes if isinstance(axes, tuple) else (axes,)
    return _tensor(np.squeeze(x, axis=tuple([at for at in chosen if not -x.ndim <= at < x.ndim or x.shape[at] == 1])))


def expand_dims(input_x: Any, axis: int) -> Any:
    """With a dimension of length 1 at `axis`."""
    return _tensor(np.expand_dims(_array(input_x), axis))


def unsqueeze(input: Any, dim: int) -> Any:
    """With a dimension of length 1 at `dim`."""
    return _tensor(np.expand_dims(_array(input), dim))


def broadcast_to(input: Any, shape: Any) -> Any:
    """Repeated to `shape`; -1 keeps a dimension."""
    x = _array(input)
    wanted = _ints(shape)
    lead = len(wanted) - x.ndim
    sizes = tuple([x.shape[i - lead] if size == -1 else size for i, size in enumerate(wanted)])
    _check_size("broadcast_to", "shape", shape, *sizes)
    return _tensor(x.copy() if sizes == x.shape else np.broadcast_to(x, sizes))


def expand(input_x: Any, size: Any) -> Any:
    """Repeated to a shape."""
    return broadcast_to(input_x, size)


def flatten(input: Any, order: str = "C", *, start_dim: int = 1, end_dim: int = -1) -> Any:
    """The dimensions from `start_dim` to `end_dim` as one."""
    x = _array(input)
    if order == "F":
        x = x.T
    if x.ndim < 2:
        return _tensor(x.reshape(-1))
    first, last = start_dim % x.ndim, end_dim % x.ndim
    return _tensor(x.reshape(x.shape[:first] + (-1,) + x.shape[last + 1 :]))


def ravel(input: Any) -> Any:
    """One dimension."""
    return _tensor(_array(input).reshape(-1))


def shape(input_x: Any) -> Any:
    """The shape, a tuple."""
    return input_x.shape


def rank(input_x: Any) -> Any:
    """The number of dimensions."""
    return input_x.ndim


def size(input_x: Any) -> Any:
    """The number of elements."""
    return input_x.size


def numel(input: Any) -> Any:
    """The number of elements."""
    return size(input)


def dtype(input_x: Any) -> Any:
    """The dtype."""
    return input_x.dtype


def _joined(arrays: Any, axis: int) -> Any:
    """np.concatenate, which capture does not know: there it is an array of zeros into which the parts are written."""
    if not is_compiling():
        return np.concatenate(arrays, axis=axis)
    first = arrays[0]
    at = axis + first.ndim if axis < 0 else axis
    length = 0
    for x in arrays:
        if x.ndim != first.ndim or x.shape[:at] + x.shape[at + 1 :] != first.shape[:at] + first.shape[at + 1 :]:
            raise ValueError("all the input array dimensions except for the concatenation axis must match exactly")
        length += x.shape[at]
    out = np.zeros((*first.shape[:at], length, *first.shape[at + 1 :]), first.dtype)
    start = 0
    for x in arrays:
        stop = start + x.shape[at]
        out[(slice(None),) * at + (slice(start, stop),)] = x
        start = stop
    return out


def cat(tensors: Any, axis: int = 0) -> Any:
    """Tensors one after the other along `axis`."""
    return _tensor(_joined(_arrays(*tensors), axis))


concat = cat


def stack(tensors: Any, axis: int = 0) -> Any:
    """Tensors along a new dimension."""
    return _tensor(_joined([np.expand_dims(x, axis) for x in _arrays(*tensors)], axis))


def hstack(tensors: Any) -> Any:
    """Along the second dimension."""
    return _tensor(np.hstack(_arrays(*tensors)))


def vstack(inputs: Any) -> Any:
    """Along the first dimension."""
    return _tensor(np.vstack(_arrays(*inputs)))


def dstack(tensors: Any) -> Any:
    """Along the third dimension."""
    return _tensor(np.dstack(_arrays(*tensors)))


def column_stack(tensors: Any) -> Any:
    """Vectors as columns."""
    return _tensor(np.column_stack(_arrays(*tensors)))


def _slice(x: Any, axis: int, start: int, stop: int) -> Any:
    return _tensor(x[(slice(None),) * (axis % x.ndim) + (slice(start, stop),)])


def split(tensor: Any, split_size_or_sections: Any, axis: int = 0) -> Any:
    """A tuple of parts along `axis`: of one size, or of given sizes."""
    x = _array(tensor)
    length = x.shape[axis]
    if isinstance(split_size_or_sections, int):
        step = split_size_or_sections
        return tuple([_slice(x, axis, at, min(at + step, length)) for at in range(0, length, step)])
    parts, at = [], 0
    for width in _ints(split_size_or_sections):
        parts.append(_slice(x, axis, at, at + width))
        at += width
    if at != length:
        raise ValueError(f"For 'split', the sum of 'split_size_or_sections' should be {length}, but got {at}.")
    return tuple(parts)


def tensor_split(input: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """A tuple of parts along `axis`: a number of nearly equal ones, or cut at indices."""
    return tuple([_tensor(part) for part in np.array_split(_array(input), _ints(indices_or_sections), axis)])


def chunk(input: Any, chunks: int, axis: int = 0) -> Any:
    """At most `chunks` parts along `axis`."""
    return split(input, -(-input.shape[axis] // chunks), axis)


def unstack(input_x: Any, axis: int = 0) -> Any:
    """A tuple of the Tensors along `axis`."""
    x = _array(input_x)
    lead = (slice(None),) * (axis % x.ndim)
    return tuple([_tensor(x[(*lead, i, ...)]) for i in range(x.shape[axis])])


def unbind(input: Any, dim: int = 0) -> Any:
    """The parts along an axis, without it."""
    return unstack(input, dim)


def narrow(input: Any, axis: int, start: int, length: int) -> Any:
    """`length` elements along `axis` from `start`."""
    return _slice(_array(input), axis, start, start + length)


def slice_(input_x: Any, begin: Any, size: Any) -> Any:
    """A part of `size` (-1: the rest) from `begin`."""
    begin, size, shape = _ints(begin), _ints(size), input_x.shape
    if len(shape) == 0:
        raise ValueError("For 'slice', the rank of 'input_x' must be greater than 0, but got 0.")
    if len(begin) != len(shape) or len(size) != len(shape):
        raise ValueError(f"For 'slice', 'begin' and 'size' must have {len(shape)} numbers, but got {begin} and {size}.")
    for i in range(len(shape)):
        if isinstance(begin[i], bool) or isinstance(size[i], bool):
            raise TypeError(f"For 'slice', 'begin' and 'size' must be ints, but got {begin} and {size}.")
        if begin[i] < 0 or size[i] < -1 or begin[i] + max(size[i], 0) > shape[i]:
            raise ValueError(f"For 'slice', the part from {begin} of size {size} is not within the shape {shape}.")
    key = tuple([slice(b, None if n == -1 else b + n) for b, n in zip(begin, size)])
    return _tensor(_array(input_x)[key])


def strided_slice(
    input_x: Any, begin: Any, end: Any, strides: Any, begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Any:  # fmt: skip
    """``input_x[begin:end:strides]``; a bit of a mask says of one item that it begins or ends with the axis, is ``...``, None, or an index."""
    key: list[Any] = []
    for i, (first, last, step) in enumerate(zip(_ints(begin), _ints(end), _ints(strides))):
        if ellipsis_mask >> i & 1:
            key.append(...)
        elif new_axis_mask >> i & 1:
            key.append(None)
        elif shrink_axis_mask >> i & 1:
            key.append(0 if begin_mask >> i & 1 else first)
        else:
            key.append(slice(None if begin_mask >> i & 1 else first, None if end_mask >> i & 1 else last, step))
    return _tensor(_array(input_x)[tuple(key)])


def tile(input: Any, dims: Any) -> Any:
    """Repeated as a whole."""
    return _tensor(np.tile(_array(input), _ints(dims)))


def repeat_interleave(input: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element repeated along `axis`."""
    return _tensor(np.repeat(_array(input), _ints(repeats), axis))


def repeat_elements(x: Any, rep: int, axis: int = 0) -> Any:
    """Each element repeated along `axis`."""
    return _tensor(np.repeat(_array(x), rep, axis))


def flip(input: Any, dims: Any) -> Any:
    """In reverse order along `dims`."""
    return _tensor(np.flip(_array(input), _ints(dims)))


def fliplr(input: Any) -> Any:
    """In reverse order along the second dimension."""
    return _tensor(np.fliplr(_array(input)))


def flipud(input: Any) -> Any:
    """In reverse order along the first dimension."""
    return _tensor(np.flipud(_array(input)))


def reverse_sequence(x: Any, seq_lengths: Any, seq_dim: int, batch_dim: int = 0) -> Any:
    """The first `seq_lengths` elements along `seq_dim` in reverse order, another length for each place along `batch_dim`."""
    array = _array(x)
    length, lengths = array.shape[seq_dim], _array(seq_lengths)
    if lengths.shape != (array.shape[batch_dim],):
        raise ValueError(
            f"For 'reverse_sequence', the 'seq_lengths' must have the shape {(array.shape[batch_dim],)}, but got {lengths.shape}."
        )
    steps = np.arange(length).reshape((-1, 1))
    at = np.where(steps < lengths, lengths - 1 - steps, steps)
    seq, batch = seq_dim % array.ndim, batch_dim % array.ndim
    order = (seq, batch, *[i for i in range(array.ndim) if i not in (seq, batch)])
    back = tuple([order.index(i) for i in range(array.ndim)])
    moved = array.transpose(order)
    return _tensor(moved[at, np.arange(array.shape[batch])].transpose(back))


def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Shifted along `dims`; what leaves at one end comes in at the other."""
    return _tensor(np.roll(_array(input), _ints(shifts), _ints(dims)))


def rot90(input: Any, k: int, dims: Any) -> Any:
    """Turned by k * 90 degrees."""
    return _tensor(np.rot90(_array(input), k, dims))


def tril(input: Any, diagonal: int = 0) -> Any:
    """The lower triangle, 0 elsewhere."""
    return _tensor(np.tril(_array(input), diagonal))


def triu(input: Any, diagonal: int = 0) -> Any:
    """The upper triangle, 0 elsewhere."""
    return _tensor(np.triu(_array(input), diagonal))


def diag(input: Any) -> Any:
    """The Tensor of twice as many dimensions with the elements on its diagonal: of a vector, a matrix."""
    x = _array(input)
    if x.ndim == 0:
        raise ValueError("For 'diag', the input must have at least one dimension.")
    return _tensor(np.diag(x.reshape(-1)).reshape(x.shape * 2))


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal along two dimensions."""
    return _tensor(np.diagonal(_array(input), offset, dim1, dim2))


def meshgrid(*inputs: Any, indexing: str = "xy") -> Any:
    """Coordinates of a grid, for each dimension."""
    return tuple([_tensor(x) for x in np.meshgrid(*_arrays(*inputs), indexing=indexing)])


def atleast_1d(inputs: Any) -> Any:
    """With at least one dimension; of each Tensor of a tuple or list."""
    if isinstance(inputs, (tuple, list)):
        return tuple([atleast_1d(x) for x in inputs])
    return _tensor(np.atleast_1d(_array(inputs)))


def atleast_2d(inputs: Any) -> Any:
    """With at least two dimensions; of each Tensor of a tuple or list."""
    if isinstance(inputs, (tuple, list)):
        return tuple([atleast_2d(x) for x in inputs])
    return _tensor(np.atleast_2d(_array(inputs)))


def atleast_3d(inputs: Any) -> Any:
    """With at least three dimensions; of each Tensor of a tuple or list."""
    if isinstance(inputs, (tuple, list)):
        return tuple([atleast_3d(x) for x in inputs])
    return _tensor(np.atleast_3d(_array(inputs)))


def pad(input_x: Any, padding: Any, mode: str = "constant", value: Any = None) -> Any:
    """Elements around: `padding` has (before, after) of the last dimension, then of the one before it; negative ones cut."""
    sizes = _ints(padding)
    modes = ("constant", "reflect", "replicate", "circular")
    if mode not in modes:
        raise ValueError(f"For 'pad', the 'mode' must be one of {modes}, but got {mode!r}.")
    if len(sizes) % 2 or len(sizes) > 2 * input_x.ndim:
        raise ValueError(f"For 'pad', the 'padding' must have up to {input_x.ndim} pairs, but got {padding!r}.")
    if mode != "constant" and value is not None:
        raise ValueError(f"For 'pad', there must be no 'value' with the mode {mode!r}, but got {value!r}.")
    lead = [(0, 0)] * (input_x.ndim - len(sizes) // 2)
    pairs = lead + [(sizes[i], sizes[i + 1]) for i in range(len(sizes) - 2, -1, -2)]
    return _padded(input_x, pairs, mode, 0 if value is None else value)


def _padded(input_x: Any, pairs: Any, mode: str, value: Any = 0) -> Any:
    x = _array(input_x)
    if any(before < 0 or after < 0 for before, after in pairs):
        ends = [(max(-before, 0), size - max(-after, 0)) for (before, after), size in zip(pairs, x.shape)]
        x = x[tuple([slice(*end) for end in ends])]
        pairs = [(max(before, 0), max(after, 0)) for before, after in pairs]
    if not any(before or after for before, after in pairs):
        return _tensor(x)
    if mode == "constant":
        return _tensor(np.pad(x, pairs, constant_values=value))
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = np.take(x, _reached(mode, x.shape[axis], before, after), axis)
    return _tensor(x)


def _reached(mode: str, length: int, before: int, after: int) -> np.ndarray:
    """Which element of a line is at each place of the line with a border."""
    at = np.arange(-before, length + after)
    if mode == "replicate":
        return np.minimum(np.maximum(at, 0), length - 1)
    if mode == "circular":
        return at % length
    edge = 1 if mode == "reflect" else 0
    if before > length - edge or after > length - edge:
        raise ValueError(f"For 'pad', a border of {before} and {after} cannot be reflected from {length} elements.")
    at = np.maximum(at, -at - 1 + edge)
    return np.minimum(at, 2 * length - 1 - edge - at)


# --- Elements at indices ------------------------------------------------------------------------------------------------


def gather(input_params: Any, input_indices: Any, axis: int, batch_dims: int = 0) -> Any:
    """The elements along `axis` at the indices."""
    x, at = _array(input_params), _array(input_indices)
    if batch_dims == 0:
        return _tensor(np.take(x, at, axis=axis))
    rows = [gather(_tensor(one), _tensor(index), axis - 1, batch_dims - 1) for one, index in zip(x, at)]
    return stack(rows)


def index_select(input: Any, axis: int, index: Any) -> Any:
    """The elements along `axis` at the indices."""
    return _tensor(np.take(_array(input), _array(index), axis=axis))


def gather_elements(input: Any, dim: int, index: Any) -> Any:
    """For each place the element along `dim` that the index says."""
    x, at = _array(input), _array(index)
    axis = dim % x.ndim
    if x.ndim != at.ndim or any(at.shape[i] > x.shape[i] for i in range(x.ndim) if i != axis):
        raise ValueError(
            f"For 'gather_elements', an index of shape {at.shape} does not lie within {x.shape} but along {dim}."
        )
    within = x[tuple([slice(None) if i == axis else slice(at.shape[i]) for i in range(x.ndim)])]
    return _tensor(np.take_along_axis(within, at, axis))


def gather_d(x: Any, dim: int, index: Any) -> Any:
    """The elements at places along an axis."""
    return gather_elements(x, dim, index)


def take_along_dim(input: Any, indices: Any, dim: int) -> Any:
    """np.take_along_axis."""
    return _tensor(np.take_along_axis(_array(input), _array(indices), dim))


def gather_nd(input_x: Any, indices: Any) -> Any:
    """The parts that the rows of `indices` name."""
    return _tensor(_array(input_x)[tuple(np.moveaxis(_array(indices), -1, 0))])


def masked_select(input: Any, mask: Any) -> Any:
    """The elements where `mask` holds, in one dimension."""
    x, m = _array(input), _array(mask)
    shape = np.broadcast_shapes(x.shape, m.shape)
    return _tensor(np.broadcast_to(x, shape)[np.broadcast_to(m, shape)])


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Where the elements are not 0: one row each."""
    found = np.nonzero(_array(input))
    return tuple([_tensor(x) for x in found]) if as_tuple else _tensor(np.transpose(found))


def argwhere(input: Any) -> Any:
    """Where elements are not 0: a row of indices for each."""
    return nonzero(input)


def _updated(input_x: Any, indices: Any, updates: Any, ufunc: Any) -> Any:
    new = _array(updates, input_x.dtype)
    x = writable(_array(input_x), new)
    at = tuple(np.moveaxis(_array(indices), -1, 0))
    if ufunc is None:
        x[at] = new
    else:
        ufunc.at(x, at, new)
    return _tensor(x)


def tensor_scatter_update(input_x: Any, indices: Any, updates: Any) -> Any:
    """A copy with the parts that the rows of `indices` name replaced."""
    return _updated(input_x, indices, updates, None)


def tensor_scatter_add(input_x: Any, indices: Any, updates: Any) -> Any:
    """A copy with `updates` added to the parts that the rows of `indices` name."""
    return _updated(input_x, indices, updates, np.add)


def tensor_scatter_sub(input_x: Any, indices: Any, updates: Any) -> Any:
    """A copy with `updates` subtracted."""
    return _updated(input_x, indices, updates, np.subtract)


def tensor_scatter_max(input_x: Any, indices: Any, updates: Any) -> Any:
    """A copy with the larger elements."""
    return _updated(input_x, indices, updates, np.maximum)


def tensor_scatter_min(input_x: Any, indices: Any, updates: Any) -> Any:
    """A copy with the smaller elements."""
    return _updated(input_x, indices, updates, np.minimum)


def scatter_nd(indices: Any, updates: Any, shape: Any) -> Any:
    """Zeros with `updates` added at the rows of `indices`."""
    zeros = _tensor(np.zeros_like(_array(updates), shape=_ints(shape)))
    return _updated(zeros, indices, updates, np.add)


def scatter(input: Any, axis: int, index: Any, src: Any) -> Any:
    """A copy with `src` at the places along `axis` that the indices say."""
    at = _array(index)
    grid = np.indices(at.shape, sparse=True)
    values = np.broadcast_to(_array(src, input.dtype), at.shape) if _array(src).ndim == 0 else _array(src, input.dtype)
    x = writable(_array(input), values)
    x[tuple([at if i == axis % x.ndim else grid[i] for i in range(x.ndim)])] = values
    return _tensor(x)


def index_add(x: Any, indices: Any, y: Any, axis: int, use_lock: bool = True, check_index_bound: bool = True) -> Any:
    """A copy with y added along `axis` at the indices, which are always checked."""
    new = _array(y, x.dtype)
    out = writable(_array(x), new)
    np.add.at(out, (slice(None),) * (axis % out.ndim) + (_array(indices),), new)
    return _tensor(out)


def one_hot(indices: Any, depth: int, on_value: Any = 1, off_value: Any = 0, axis: int = -1) -> Any:
    """A new dimension of length `depth` with `on_value` at the index."""
    at = _array(indices)
    _check_size("one_hot", "depth", depth, depth, *at.shape)
    on, off = _arrays(on_value, off_value)
    hot = np.where(np.expand_dims(at, -1) == np.arange(depth), on, off)
    return _tensor(hot if axis in (-1, at.ndim) else np.moveaxis(hot, -1, axis))


# --- Order --------------------------------------------------------------------------------------------------------------


def sort(input_x: Any, axis: int = -1, descending: bool = False) -> Any:
    """The elements in order along `axis`, and where they were (int32)."""
    x = _array(input_x)
    at = _order(x, axis, descending)
    return _tensor(np.take_along_axis(x, at, axis)), _tensor(at.astype(np.int32))


def _order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.flip(x, axis)
    return x.shape[axis] - 1 - np.flip(np.argsort(backwards, axis=axis, kind="stable"), axis)


def argsort(input: Any, axis: int = -1, descending: bool = False) -> Any:
    """Where the elements in order along `axis` are (int32)."""
    return _tensor(_order(_array(input), axis, descending).astype(np.int32))


def topk(input: Any, k: int, dim: int | None = None, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest elements along `dim`, and where they are (int32)."""
    axis = -1 if dim is None else dim
    x = _array(input)
    _check_size("topk", "k", k, k)
    at = np.take(_order(x, axis, largest), np.arange(k), axis)
    return _tensor(np.take_along_axis(x, at, axis)), _tensor(at.astype(np.int32))


def unique(input: Any) -> Any:
    """Each element once, as they first occur, and for each place which one it is (int32)."""
    values, first, at = np.unique(_array(input), return_index=True, return_inverse=True, equal_nan=False)
    order = np.argsort(first)
    return _tensor(values[order]), _tensor(np.argsort(order)[at].reshape(input.shape).astype(np.int32))


def searchsorted(
    sorted_sequence: Any, values: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None
) -> Any:  # fmt: skip
    """Where the values would be put into what is sorted, or is by `sorter`: for rows along the last dimension, row by row."""
    if side not in (None, "left", "right"):
        raise ValueError(
            f"For 'searchsorted', the argument 'side' should be one of in [None, 'left', 'right'], but got {side}."
        )
    if side == "left" and right:
        raise ValueError(
            "For 'searchsorted', side and right can't be set to opposites, got side of left while right was True."
        )
    to_right = "right" if right or side == "right" else "left"
    rows, wanted = _array(sorted_sequence), _array(values)
    if sorter is not None:
        rows = np.take_along_axis(rows, _array(sorter), -1)
    if rows.ndim == 1:
        found = np.searchsorted(rows, wanted, to_right)
    else:
        if wanted.shape[:-1] != rows.shape[:-1]:
            raise ValueError(
                f"For 'searchsorted', rows and values must have the same leading dimensions, but got {rows.shape} and {wanted.shape}."
            )
        lines = zip(rows.reshape((-1, rows.shape[-1])), wanted.reshape((-1, wanted.shape[-1])))
        found = np.stack([np.searchsorted(row, of, to_right) for row, of in lines]).reshape(wanted.shape)
    return _tensor(np.asarray(found, np.int32 if out_int32 else np.int64))
