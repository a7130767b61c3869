"""Primitives of functions that have other names, or take the same values in another way: the rows say how."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._autodiff import _grad
from framejit._autodiff._primitives import writable
from framejit._core import _array, _dtype, _tensor
from framejit._tensors import _random as _states
from framejit.ops import (
    _create,
    _ctc,
    _elementwise,
    _further,
    _image,
    _linalg,
    _loss,
    _pooling,
    _random,
    _reduce,
    _resize,
    _sampling,
    _shape,
)
from framejit.ops._primitives import _define
from framejit.ops._shape import _ints

__all__: list[str] = []

_INT32, _INT64, _FLOAT32 = ALL["int32"], ALL["int64"], ALL["float32"]


# --- Pooling -----------------------------------------------------------------------------------------------------------------


def _max_with_places(axes: int) -> Any:
    def pooled(x: Any, *, argmax_type: Any, **options: Any) -> Any:
        kernel, stride = options["kernel_size"], options["strides"]
        stride = kernel if stride is None else stride
        out, at = _pooling._max_pool(
            axes, x, kernel, stride, "pad", options["pads"], options["dilation"], options["ceil_mode"], True
        )
        return out, at.astype(argmax_type)

    return pooled


def _max_with_numbers(x: Any, kernel_size: Any, strides: Any, pad_mode: str, data_format: str) -> Any:
    out, at = _pooling._max_pool(2, x, kernel_size, strides, pad_mode, 0, 1, False, True)
    channels = _tensor((np.arange(x.shape[1]) * (x.shape[2] * x.shape[3])).reshape((-1, 1, 1)))
    return out, (at + channels).astype(_INT32)


def _max_of_volume(
    x: Any, kernel_size: Any, strides: Any, pad_mode: str, pad_list: Any, ceil_mode: Any, data_format: str
) -> Any:
    return _pooling._max_pool(3, x, kernel_size, strides, pad_mode, pad_list, 1, bool(ceil_mode))


def _mean_of_volume(
    x: Any, kernel_size: Any, strides: Any, pad_mode: str, pad: Any, ceil_mode: bool, count_include_pad: bool, divisor_override: int,
    data_format: str,
) -> Any:  # fmt: skip
    if pad_mode.lower() == "same" and count_include_pad:
        kernel, stride = _image._each(kernel_size, 3), _image._each(strides, 3)
        pad_mode, pad = "pad", [n for both in _image._around(x.shape, kernel, stride, "same", 0) for n in both]
    return _pooling._avg_pool(
        3, x, kernel_size, strides, pad_mode, pad, ceil_mode, count_include_pad, divisor_override or None
    )


def _unpooled(axes: int) -> Any:
    def unpooled(x: Any, argmax: Any, ksize: Any, strides: Any, pads: Any, output_shape: Any, data_format: str) -> Any:
        strides = None if strides == 0 else strides
        return _pooling._max_unpool(axes, x, argmax, ksize, strides, pads, output_shape)

    return unpooled


def _drawn_windows(function: Any) -> Any:
    def pooled(x: Any, random_samples: Any, ksize: Any, output_shape: Any, data_format: str) -> Any:
        return function(x, ksize, output_shape, None, True, random_samples)

    return pooled


def _largest_of_parts(x: Any, output_size: Any) -> Any:
    return _pooling.adaptive_max_pool3d(x, tuple(_ints(output_size)), True)


def _fractional(reduce: Any) -> Any:
    def pooled(
        x: Any, pooling_ratio: Any, pseudo_random: bool, overlapping: bool, deterministic: bool, seed: int, seed2: int
    ) -> Any:
        """(images [N, H, W, C] smaller by the ratios, where their rows begin, where their columns do)."""
        if len(pooling_ratio) != 4 or any(ratio < 1 for ratio in pooling_ratio) or pooling_ratio[::3] != [1.0, 1.0]:
            raise ValueError(
                f"The 'pooling_ratio' must be four numbers of at least 1, the first and the last 1.0, but got {pooling_ratio}."
            )
        array = _array(x)
        state = _states.numpy_state(_CUT, (seed or seed2 or 1) if deterministic else seed or seed2 or None)
        cuts = [_pool_cuts(array.shape[axis], pooling_ratio[axis], pseudo_random, state) for axis in (1, 2)]
        for axis, cut in zip((1, 2), cuts):
            ends = np.minimum(cut[1:] + 1, array.shape[axis]) if overlapping else cut[1:]
            parts = [np.take(array, np.arange(*pair), axis) for pair in zip(cut[:-1], ends)]
            array = np.concatenate([reduce(part, axis) for part in parts], axis)
        if array.dtype != _array(x).dtype:
            array = np.trunc(array).astype(_array(x).dtype)
        return _tensor(array), *[_tensor(cut) for cut in cuts]

    return pooled


_CUT = 13  # after the number of framejit/ops/_candidates.py


def _pool_cuts(length: int, ratio: float, pseudo_random: bool, state: Any) -> Any:
    """Where parts of two lengths that differ by 1 begin, and the end."""
    count = int(length / ratio)
    short, long = length // count, length % count
    if pseudo_random and long:
        alpha = length / count
        most = min((short + 1) / alpha, (short + 2) / alpha - (count - 1)) - 1 if count > 1 else 1.0
        u = state.uniform(0, max(min(most, 1.0), 1e-9))
        at = np.ceil(alpha * (np.arange(count + 1) + u)).astype(np.int64) - int(np.ceil(alpha * u))
        at[-1] = length
        return at
    sizes = np.array([short + 1] * long + [short] * (count - long))
    return np.concatenate([[0], np.cumsum(state.permutation(sizes) if long else sizes)]).astype(np.int64)


# --- Images ------------------------------------------------------------------------------------------------------------------


def _line_resized(x: Any, size: Any, coordinate_transformation_mode: str) -> Any:
    if coordinate_transformation_mode not in ("align_corners", "half_pixel"):
        raise ValueError(
            "For 'ResizeLinear1D', the 'coordinate_transformation_mode' must be 'align_corners' or 'half_pixel', but got "
            f"{coordinate_transformation_mode!r}."
        )
    aligned = coordinate_transformation_mode == "align_corners"
    return _resize._resize_linear(x, size, aligned, not aligned)


def _volume_resized(mode: str) -> Any:
    def resized(x: Any, output_size: Any = None, scales: Any = None, *, align_corners: Any = None) -> Any:
        if (output_size is None) == (scales is None):
            raise ValueError(
                f"For 'Upsample{mode.capitalize()}3D', either 'output_size' or 'scales' should be provided, but not both."
            )
        size = None if output_size is None else tuple(_ints(output_size))
        return _resize.interpolate(x, size, None if scales is None else tuple(scales), mode, align_corners)

    return resized


def _sampled(x: Any, grid: Any, interpolation_mode: str, padding_mode: str, align_corners: bool) -> Any:
    return _sampling.grid_sample(x, grid, interpolation_mode, padding_mode, align_corners)


def _volume_patches(x: Any, kernel_size: Any, strides: Any, padding: str) -> Any:
    """Return the elements under each window of x, ``[N, C, D, H, W]``, as ``[N, window elements * C, *window positions]``."""
    kernel, step = ((one,) * 3 if isinstance(one, int) else tuple(one)[-3:] for one in (kernel_size, strides))
    array = _array(x)
    around = _image._around(array.shape, kernel, step, padding.lower(), 0)
    parts = _pooling._parts(array, kernel, step, (1, 1, 1), around, 0)
    n, _, *places = parts.shape[:5]
    return _tensor(parts.transpose((0, 5, 6, 7, 1, 2, 3, 4)).reshape((n, -1, *places)))


def _of_python(
    *inputs: Any, fn: Any, in_types: Any, in_shapes: Any, out_types: Any, out_shapes: Any, stateful: bool
) -> Any:
    """Call a function of ndarrays and return its results as Tensors."""
    found = fn(*[x.asnumpy() for x in inputs])
    found = found if isinstance(found, tuple) else (found,)
    return tuple([_core.Tensor(np.asarray(one), dtype) for one, dtype in zip(found, out_types)])


def _into_columns(x: Any, ksizes: Any, strides: Any, dilations: Any, pads: Any) -> Any:
    columns = _resize.unfold(x, ksizes, dilations, pads, strides)
    return columns.reshape(x.shape[0], x.shape[1], -1, columns.shape[-1])


# --- Losses ------------------------------------------------------------------------------------------------------------------


def _with_logits(x: Any, target: Any, weight: Any = None, pos_weight: Any = None, *, reduction: str) -> Any:
    return _loss.binary_cross_entropy_with_logits(x, target, weight, pos_weight, reduction)


def _of_classes(logits: Any, labels: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    """(the loss, the total of the weights)."""
    at = _array(labels)
    scale = np.where(at == ignore_index, 0, _array(weight)[np.where(at == ignore_index, 0, at)])
    loss = _loss.nll_loss(logits, labels, weight, ignore_index, reduction)
    return loss, _tensor(scale.sum().astype(_array(weight).dtype))


def _multi_margin(x: Any, target: Any, weight: Any = None, *, p: int, margin: float, reduction: str) -> Any:
    return _loss._multi_margin(x, target, p, margin, weight, reduction)


def _time_classified(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    reduction: str,
    zero_infinity: bool,
) -> Any:
    return _ctc.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)


def _time_classified_sparse(
    x: Any, labels_indices: Any, labels_values: Any, sequence_length: Any, preprocess_collapse_repeated: bool, ctc_merge_repeated: bool,
    ignore_longer_outputs_than_inputs: bool,
) -> Any:  # fmt: skip
    """(the loss of each sample, its gradient for x); the labels are a sparse matrix, and the last class is no label."""
    if not ctc_merge_repeated:
        raise ValueError("For 'CTCLoss', the 'ctc_merge_repeated' must be True.")
    places, values = _array(labels_indices), _array(labels_values)
    count = x.shape[1]
    rows: list[list[int]] = [[] for _ in range(count)]
    for n, value in zip(places[:, 0].tolist(), values.tolist()):
        if not (preprocess_collapse_repeated and rows[n] and rows[n][-1] == value):
            rows[n].append(value)
    sizes = [len(row) for row in rows]
    targets = np.zeros((count, max([1, *sizes])), np.int32)
    for n, row in enumerate(rows):
        targets[n, : len(row)] = row
    lengths = tuple(_array(sequence_length).tolist())
    if not ignore_longer_outputs_than_inputs and any(size > length for size, length in zip(sizes, lengths)):
        raise RuntimeError(
            "For 'CTCLoss', there are more labels than steps: 'ignore_longer_outputs_than_inputs' must be True."
        )

    def losses(x: Any) -> Any:
        return _ctc.ctc_loss(
            _reduce.log_softmax(x),
            _tensor(targets),
            lengths,
            tuple(sizes),
            x.shape[2] - 1,
            "none",
            ignore_longer_outputs_than_inputs,
        )[0]

    return losses(x), _grad.grad(losses)(x)


def _long_short(
    x: Any, h: Any, c: Any, w: Any, input_size: int, hidden_size: int, num_layers: int, has_bias: bool, bidirectional: bool, dropout: float,
    proj_size: int,
) -> Any:  # fmt: skip
    """(output, h, c, an empty Tensor, another one) of a layer whose weights lie one after the other: of x, of h, then the biases."""
    if num_layers != 1 or bidirectional or proj_size:
        raise ValueError("For 'LSTM', the 'num_layers' must be 1 on the CPU, 'bidirectional' False, and 'proj_size' 0.")
    flat, gates = w.reshape(-1), 4 * hidden_size
    ends = np.cumsum([0, gates * input_size, gates * hidden_size, gates]).tolist()
    wx = _shape.t(flat[ends[0] : ends[1]].reshape(gates, input_size))
    wh = _shape.t(flat[ends[1] : ends[2]].reshape(gates, hidden_size))
    bias = flat[ends[2] : ends[3]] if has_bias else None
    state, cell, out = h[0], c[0], []
    for step in _shape.unstack(x, 0):
        total = step @ wx + state @ wh
        i, f, g, o = _shape.chunk(total if bias is None else total + bias, 4, -1)
        cell = _elementwise.sigmoid(f) * cell + _elementwise.sigmoid(i) * _core._op_tanh(g)
        state = _elementwise.sigmoid(o) * _core._op_tanh(cell)
        out.append(state)
    empty = _create.zeros((1, 1), x.dtype)
    return _shape.stack(out), state[None], cell[None], empty, empty


# --- Elements ----------------------------------------------------------------------------------------------------------------


def _equal_count(x: Any, y: Any) -> Any:
    return _tensor(np.asarray([np.count_nonzero(_array(x) == _array(y))], _array(x).dtype))


def _finite(x: Any) -> Any:
    """The input; an element that is no number, or infinite, is an error."""
    array = _array(x)
    for found, what in ((np.isnan(array).any(), "NaN"), (np.isinf(array).any(), "Inf")):
        if found:
            raise RuntimeError(f"Tensor had {what} values")
    return x


def _betainc(a: Any, b: Any, x: Any) -> Any:
    from scipy import special

    return _tensor(special.betainc(_array(a), _array(b), _array(x)).astype(_array(x).dtype))


def _log_sum(x: Any, axis: Any, exclusive: bool, reverse: bool) -> Any:
    """log(cumsum(exp(x))) along an axis; `exclusive`: without the element itself."""
    if not isinstance(axis, _core.Tensor):
        raise TypeError(
            f"For Primitive[CumulativeLogsumexp], the type of input argument[axis] must be Tensor but got {type(axis).__name__}."
        )
    array = np.moveaxis(_array(x), int(axis.item()), 0)
    if reverse:
        array = array[::-1]
    if exclusive:
        least = np.full((1, *array.shape[1:]), np.finfo(array.dtype).min, array.dtype)
        array = np.concatenate([least, array[:-1]])
    out = np.logaddexp.accumulate(array, 0)
    return _tensor(np.moveaxis(out[::-1] if reverse else out, 0, int(axis.item())).astype(array.dtype))


def _histogram(x: Any, bins: int, min: float, max: float) -> Any:
    return _reduce.histc(x, bins, min, max).astype(x.dtype)


def _bitpacked(x: Any, threshold: Any) -> Any:
    """Whether elements are above a threshold: eight of them as the bits of a byte."""
    above = _array(x) > _array(threshold)
    if above.shape[-1] % 8:
        raise ValueError(
            f"For 'CompareAndBitpack', the last dimension of 'x' must be divisible by 8, but got {above.shape[-1]}."
        )
    return _tensor(np.packbits(above, axis=-1))


# --- Shapes and places -------------------------------------------------------------------------------------------------------

_PERMUTED = {("NHWC", "NCHW"): (0, 3, 1, 2), ("NCHW", "NHWC"): (0, 2, 3, 1)}


def _formats(name: str, src_format: str, dst_format: str) -> tuple[int, ...]:
    for format in (src_format, dst_format):
        if format not in ("NHWC", "NCHW"):
            raise ValueError(f"For '{name}', formats must be 'NHWC' or 'NCHW', but got {format!r}.")
    return _PERMUTED.get((src_format, dst_format), (0, 1, 2, 3))


def _format_places(x: Any, src_format: str, dst_format: str) -> Any:
    """For the number of each dimension in the new format, where it was in the old one."""
    order = _formats("DataFormatDimMap", src_format, dst_format)
    return _tensor(np.array(order, _array(x).dtype)[_array(x) % 4])


def _format_permuted(x: Any, src_format: str, dst_format: str) -> Any:
    """Return one number for each dimension, in the order of the other format. Two numbers are those of H and W."""
    order = _formats("DataFormatVecPermute", src_format, dst_format)
    array = _array(x)
    return x if array.shape[0] == 2 else _tensor(np.take(array, order, 0))


def _looked_up(params: Any, indices: Any, offset: int) -> Any:
    """The rows at the indices less `offset`; zeros for those that are not there."""
    rows, at = _array(params), _array(indices) - int(offset)
    there = (at >= 0) & (at < rows.shape[0])
    found = rows[np.where(there, at, 0)]
    return _tensor(np.where(there.reshape((*there.shape, *(1,) * (rows.ndim - 1))), found, np.zeros((), rows.dtype)))


def _put(x: Any, values: Any, indices: Any, accumulate: int) -> Any:
    """A copy with values at the places that the indices name, one for each of the first dimensions, or added there."""
    new = _array(values)
    out = writable(_array(x), new)
    key = tuple([_array(at) for at in indices])
    if accumulate:
        np.add.at(out, key, new)
    else:
        out[key] = new
    return _tensor(out)


def _padded(x: Any, paddings: Any, constant_value: Any = 0, *, mode: str, paddings_contiguous: bool) -> Any:
    """A border around the last dimensions: pairs from the last dimension on, or without `paddings_contiguous` first all that come before."""
    if mode not in ("constant", "reflect", "edge", "circular"):
        raise ValueError(
            f"For 'PadV3', the 'mode' must be one of ('constant', 'reflect', 'edge', 'circular'), but got {mode!r}."
        )
    sizes = [int(n) for n in _ints(paddings)]
    count = len(sizes) // 2
    if paddings_contiguous:
        pairs = [(sizes[2 * i], sizes[2 * i + 1]) for i in range(count)][::-1]
    else:
        pairs = list(zip(sizes[:count], sizes[count:]))[::-1]
    whole = [(0, 0)] * (x.ndim - count) + pairs
    value = constant_value.item() if isinstance(constant_value, _core.Tensor) else constant_value
    return _shape._padded(x, whole, "replicate" if mode == "edge" else mode, value)


def _filled_diagonal(x: Any, fill_value: float, wrap: bool) -> Any:
    return x.fill_diagonal(fill_value, wrap)


def _conjugate_transposed(x: Any, perm: Any) -> Any:
    return _shape.transpose(_elementwise.conj(x), tuple(_ints(perm)))


# --- Of tables ---------------------------------------------------------------------------------------------------------------


def _bounds(side: Any) -> Any:
    def bound(sorted_x: Any, values: Any, out_type: Any) -> Any:
        rows, wanted = _array(sorted_x), _array(values)
        at = [np.searchsorted(row, value, side) for row, value in zip(rows, wanted)]
        return _tensor(np.stack(at).astype(_dtype(out_type)))

    return bound


def _nth(x: Any, n: Any, reverse: bool) -> Any:
    rows = np.sort(_array(x), axis=-1)
    at = int(n)
    if not 0 <= at < rows.shape[-1]:
        raise ValueError(f"For 'NthElement', the 'n' must be in [0, {rows.shape[-1]}), but got {at}.")
    return _tensor(rows[..., -1 - at if reverse else at])


def _unique_runs(x: Any, return_inverse: bool, return_counts: bool, dim: Any) -> Any:
    """Always three values; 0 for one that was not asked for."""
    found = _further.unique_consecutive(x, return_inverse, return_counts, dim)
    values = list(found) if isinstance(found, tuple) else [found]
    out = values[:1]
    for asked in (return_inverse, return_counts):
        out.append(values[len(out) if return_inverse else 1] if asked else _create.zeros((), _INT64))
    return tuple(out)


def _windows_of(function: Any) -> Any:
    def window(length: Any, **options: Any) -> Any:
        return function(int(_array(length).reshape(-1)[0]), **options)

    return window


def _least_squares(matrix: Any, rhs: Any, *rest: Any, **options: Any) -> Any:
    return _linalg.lstsq(matrix, rhs)


def _nuclear(x: Any, dim: Any, keepdim: bool) -> Any:
    axes = (0, 1) if dim is None else tuple(dim)
    return _linalg.matrix_norm(x, "nuc", axes, keepdim)


def _logarithm(x: Any) -> Any:
    from scipy.linalg import logm

    array = _array(x)
    flat = array.reshape((-1, *array.shape[-2:]))
    return _tensor(np.stack([logm(one) for one in flat]).astype(array.dtype).reshape(array.shape))


def _triangular_solved(matrix: Any, rhs: Any, lower: bool, adjoint: bool) -> Any:
    a, b = _array(matrix), _array(rhs)
    half = np.tril(a) if lower else np.triu(a)
    return _tensor(np.linalg.solve(np.conj(half).swapaxes(-1, -2) if adjoint else half, b))


def _tridiagonal_product(superdiag: Any, maindiag: Any, subdiag: Any, rhs: Any) -> Any:
    """The product of a matrix with three diagonals and another one; the ends of the other two do not count."""
    above, middle, below, x = (_array(one) for one in (superdiag, maindiag, subdiag, rhs))
    turned = [np.swapaxes(one, -1, -2) for one in (above, middle, below)]
    zero = np.zeros_like(x[..., :1, :])
    out = turned[1] * x
    out = out + turned[0] * np.concatenate([x[..., 1:, :], zero], -2)
    return _tensor(out + turned[2] * np.concatenate([zero, x[..., :-1, :]], -2))


def _singular(x: Any, full_matrices: bool, compute_uv: bool) -> Any:
    if compute_uv:
        return _linalg.svd(x, full_matrices)
    values = _linalg.svd(x, full_matrices, False)
    empty = _create.zeros((1,), values.dtype)
    return values, empty, empty


def _with_channels_dropped(function: Any) -> Any:
    def dropped(x: Any, keep_prob: float) -> Any:
        """(the Tensor with zeros instead of some channels and the rest divided by `keep_prob`, the mask)."""
        mask = function(_create.ones_like(x), 1 - keep_prob) != 0
        scaled = x / keep_prob if keep_prob else x
        return _elementwise.where(mask, scaled, _create.zeros_like(x)), mask

    return dropped


_POOL3D = {"kernel_size": 1, "strides": 1}
_FRACTIONAL = {
    "pooling_ratio": None, "pseudo_random": False, "overlapping": False, "deterministic": False, "seed": 0, "seed2": 0,
}  # fmt: skip
_UNPOOL = {"ksize": None, "strides": 0, "pads": 0, "output_shape": ()}
_COMMON = {"align_corners": False, "half_pixel_centers": False}
_FORMATS = {"src_format": "NHWC", "dst_format": "NCHW"}
_WINDOW = {"periodic": True, "dtype": _FLOAT32}

_ROWS: dict[str, tuple[Any, dict[str, Any]]] = {
    "AdaptiveAvgPool2D": (_pooling.adaptive_avg_pool2d, {"output_size": None}),
    "AdaptiveAvgPool3D": (_pooling.adaptive_avg_pool3d, {"output_size": None}),
    "AdaptiveMaxPool2D": (
        lambda x, output_size: _pooling.adaptive_max_pool2d(x, output_size, True),
        {"output_size": None},
    ),
    "AdaptiveMaxPool3D": (_largest_of_parts, {}),
    "AvgPool3D": (
        _mean_of_volume,
        {**_POOL3D, "pad_mode": "valid", "pad": 0, "ceil_mode": False, "count_include_pad": True, "divisor_override": 0, "data_format": "NCDHW"},
    ),
    "MaxPool3D": (_max_of_volume, {**_POOL3D, "pad_mode": "VALID", "pad_list": 0, "ceil_mode": None, "data_format": "NCDHW"}),
    "MaxPool3DWithArgmax": (
        lambda x, ksize, strides, pads, dilation, ceil_mode, data_format, argmax_type: _max_with_places(3)(
            x, kernel_size=ksize, strides=strides, pads=pads, dilation=dilation, ceil_mode=ceil_mode, argmax_type=argmax_type
        ),
        {"ksize": None, "strides": None, "pads": None, "dilation": (1, 1, 1), "ceil_mode": False, "data_format": "NCDHW", "argmax_type": _INT64},
    ),
    "MaxPoolWithArgmaxV2": (
        _max_with_places(2),
        {"kernel_size": None, "strides": None, "pads": 0, "dilation": (1, 1), "ceil_mode": False, "argmax_type": _INT64},
    ),
    "MaxPoolWithArgmax": (_max_with_numbers, {"kernel_size": 1, "strides": 1, "pad_mode": "valid", "data_format": "NCHW"}),
    "FractionalMaxPool": (_fractional(lambda x, axis: x.max(axis, keepdims=True)), _FRACTIONAL),
    "FractionalAvgPool": (_fractional(lambda x, axis: x.mean(axis, keepdims=True)), _FRACTIONAL),
    "ExtractVolumePatches": (_volume_patches, {"kernel_size": None, "strides": None, "padding": None}),
    "PyFunc": (
        _of_python,
        {**dict.fromkeys(("fn", "in_types", "in_shapes", "out_types", "out_shapes")), "stateful": True},
    ),
    "MaxUnpool2D": (_unpooled(2), {**_UNPOOL, "data_format": "NCHW"}),
    "MaxUnpool3D": (_unpooled(3), {**_UNPOOL, "data_format": "NCDHW"}),
    "FractionalMaxPoolWithFixedKsize": (
        _drawn_windows(_pooling.fractional_max_pool2d),
        {"ksize": None, "output_shape": None, "data_format": "NCHW"},
    ),
    "FractionalMaxPool3DWithFixedKsize": (
        _drawn_windows(_pooling.fractional_max_pool3d),
        {"ksize": None, "output_shape": None, "data_format": "NCDHW"},
    ),
    "ResizeBicubic": (_resize._resize_cubic, _COMMON),
    "ResizeBilinearV2": (_resize._resize_linear, _COMMON),
    "ResizeNearestNeighbor": (_resize._resize_nearest, {"size": None, **_COMMON}),
    "ResizeNearestNeighborV2": (_resize._resize_nearest, _COMMON),
    "ResizeLinear1D": (_line_resized, {"coordinate_transformation_mode": "align_corners"}),
    "ResizeArea": (_resize._resize_area, {"align_corners": False}),
    "UpsampleNearest3D": (_volume_resized("nearest"), {}),
    "UpsampleTrilinear3D": (_volume_resized("trilinear"), {"align_corners": False}),
    "GridSampler2D": (_sampled, {"interpolation_mode": "bilinear", "padding_mode": "zeros", "align_corners": False}),
    "GridSampler3D": (_sampled, {"interpolation_mode": "bilinear", "padding_mode": "zeros", "align_corners": False}),
    "AffineGrid": (lambda theta, output_size, align_corners: _sampling.affine_grid(theta, tuple(output_size), align_corners), {"align_corners": False}),
    "Im2Col": (_into_columns, {"ksizes": None, "strides": 1, "dilations": 1, "pads": 0}),
    "Col2Im": (
        lambda x, output_size, kernel_size, dilation, padding, stride: _resize.col2im(x, output_size, kernel_size, dilation, padding, stride),
        {"kernel_size": None, "dilation": 1, "padding": 0, "stride": 1},
    ),
    "SpaceToBatchND": (
        lambda x, block_shape, paddings: _resize.space_to_batch_nd(x, block_shape, paddings),
        {"block_shape": None, "paddings": None},
    ),
    "BatchToSpaceND": (_resize.batch_to_space_nd, {"block_shape": None, "crops": None}),
    "BatchToSpaceNDV2": (_resize.batch_to_space_nd, {}),
    "ChannelShuffle": (lambda x, group: _resize.channel_shuffle(x, group), {"group": None}),
    "Dropout2D": (_with_channels_dropped(_random.dropout2d), {"keep_prob": 0.5}),
    "Dropout3D": (_with_channels_dropped(_random.dropout3d), {"keep_prob": 0.5}),
    "BCEWithLogitsLoss": (_with_logits, {"reduction": "mean"}),
    "MultiMarginLoss": (_multi_margin, {"p": 1, "margin": 1.0, "reduction": "mean"}),
    "NLLLoss": (_of_classes, {"reduction": "mean", "ignore_index": -100}),
    "SoftMarginLoss": (_loss.soft_margin_loss, {"reduction": "mean"}),
    "CTCLossV2": (_time_classified, {"blank": 0, "reduction": "none", "zero_infinity": False}),
    "CTCLoss": (
        _time_classified_sparse,
        {"preprocess_collapse_repeated": False, "ctc_merge_repeated": True, "ignore_longer_outputs_than_inputs": False},
    ),
    "LSTM": (
        _long_short,
        {**dict.fromkeys(("input_size", "hidden_size", "num_layers", "has_bias", "bidirectional", "dropout")), "proj_size": 0},
    ),
    "EqualCount": (_equal_count, {}),
    "Pdist": (_further.pdist, {"p": 2.0}),
    "Renorm": (lambda x, p, dim, maxnorm: _further.renorm(x, p, dim, maxnorm), {"p": None, "dim": None, "maxnorm": None}),
    "Mvlgamma": (_linalg.mvlgamma, {"p": None}),
    "Bucketize": (lambda x, boundaries: _further.bucketize(x, boundaries, right=True).astype(_INT32), {"boundaries": None}),
    **{f"Bessel{kind}e": (getattr(_linalg, f"bessel_{kind.lower()}e"), {}) for kind in ("I0", "I1", "K0", "K1")},
    "Betainc": (_betainc, {}),
    "CheckNumerics": (_finite, {}),
    "CompareAndBitpack": (_bitpacked, {}),
    "CumulativeLogsumexp": (_log_sum, {"exclusive": False, "reverse": False}),
    "Histogram": (_histogram, {"bins": 100, "min": 0.0, "max": 0.0}),
    "Reusing": (_create.identity, {}),
    "ConjugateTranspose": (_conjugate_transposed, {}),
    "DataFormatDimMap": (_format_places, _FORMATS),
    "DataFormatVecPermute": (_format_permuted, _FORMATS),
    "EmbeddingLookup": (_looked_up, {}),
    "FillDiagonal": (_filled_diagonal, {"fill_value": None, "wrap": False}),
    "IndexPut": (_put, {"accumulate": 0}),
    "InplaceUpdateV2": (lambda x, indices, v: _further.inplace_update(x, v, indices), {}),
    "MaskedScatter": (lambda x, mask, source: x.masked_scatter(mask, source), {}),
    "PadV3": (_padded, {"mode": "constant", "paddings_contiguous": True}),
    "ScatterAddWithAxis": (
        lambda x, indices, updates, axis: _further.tensor_scatter_elements(x, indices, updates, axis, "add"),
        {"axis": 0},
    ),
    "TensorScatterElements": (_further.tensor_scatter_elements, {"axis": 0, "reduction": "none"}),
    "HammingWindow": (
        lambda length, periodic, alpha, beta, dtype: _windows_of(_further.hamming_window)(
            length, periodic=periodic, alpha=float(np.float32(alpha)), beta=float(np.float32(beta)), dtype=dtype
        ), {"periodic": True, "alpha": 0.54, "beta": 0.46, "dtype": _FLOAT32},
    ),
    "BartlettWindow": (_windows_of(_further.bartlett_window), _WINDOW),
    "BlackmanWindow": (_windows_of(_further.blackman_window), _WINDOW),
    "LowerBound": (_bounds("left"), {"out_type": _INT32}),
    "UpperBound": (_bounds("right"), {"out_type": _INT32}),
    "NthElement": (_nth, {"reverse": False}),
    "CholeskyInverse": (_linalg.cholesky_inverse, {"upper": False}),
    "CholeskySolve": (_linalg.cholesky_solve, {"upper": False}),
    "Lstsq": (_least_squares, {"fast": True, "l2_regularizer": 0.0}),
    "MatrixSolveLs": (_least_squares, {"fast": True}),
    "MatrixTriangularSolve": (_triangular_solved, {"lower": True, "adjoint": False}),
    "MatrixLogarithm": (_logarithm, {}),
    "NuclearNorm": (_nuclear, {"dim": None, "keepdim": False}),
    "Qr": (lambda x, full_matrices: _linalg.qr(x, "complete" if full_matrices else "reduced"), {"full_matrices": False}),
    "Svd": (_singular, {"full_matrices": False, "compute_uv": True}),
    "TridiagonalMatMul": (_tridiagonal_product, {}),
    "UniqueConsecutive": (
        _unique_runs,
        {"return_inverse": False, "return_counts": False, "dim": None},
    ),
    "StandardLaplace": (lambda shape, seed, seed2: _random.standard_laplace(shape, seed or seed2 or None), {"seed": 0, "seed2": 0}),
    "RandomShuffle": (lambda x, seed, seed2: _random.shuffle(x, seed or seed2 or None), {"seed": 0, "seed2": 0}),
    "RandpermV2": (lambda n, seed, offset, dtype: _random.randperm(n, seed, offset, dtype), {"seed": 0, "offset": 0, "dtype": _INT64}),
    "Multinomial": (
        lambda x, num_samples, seed, seed2, dtype: _random.multinomial(x, num_samples, True, seed or seed2 or None).astype(dtype),
        {"seed": 0, "seed2": 0, "dtype": _INT32},
    ),
    "UniformInt": (
        lambda shape, minval, maxval, seed, seed2: _random.randint(minval, maxval, shape, seed or seed2 or None).astype(_INT32),
        {"seed": 0, "seed2": 0},
    ),
}  # fmt: skip

_define(globals(), _ROWS)
