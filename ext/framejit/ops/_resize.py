"""Images, lines and volumes of another size, and elements moved between channels and space."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from framejit import _core
from framejit._core import _array, _tensor
from framejit.ops._image import _spread
from framejit.ops._pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from framejit.ops._shape import _check_size, _ints

__all__ = [
    "batch_to_space_nd", "channel_shuffle", "col2im", "fold", "interpolate", "pixel_shuffle", "pixel_unshuffle",
    "space_to_batch_nd", "unfold", "upsample",
]  # fmt: skip

# Mode: the numbers of dimensions of the input; those with which align_corners, and scale_factor without a size, may be given.
_MODES = {
    "nearest": ((3, 4, 5), (), (5,)),
    "linear": ((3,), (3,), ()),
    "bilinear": ((4,), (4,), ()),
    "bicubic": ((4,), (4,), ()),
    "area": ((3, 4, 5), (), (3, 4, 5)),
    "trilinear": ((5,), (5,), (5,)),
    "nearest-exact": ((3, 4), (), ()),
}


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Any:
    """The input in another size, or with its size times a factor, along the dimensions after [N, C].

    Parameters
    ----------
    size : int or tuple of int, optional
        Lengths of the dimensions of space.
    scale_factor : float or tuple of float, optional
        Instead of `size`; only for modes 'area', 'nearest' and 'trilinear' of volumes, or with `recompute_scale_factor`.
    mode : {'nearest', 'nearest-exact', 'linear', 'bilinear', 'bicubic', 'trilinear', 'area'}
        The element next to a place, a mean of those around it by their distances, or the mean of a part.
    align_corners : bool, optional
        The middles of the first and the last elements stay where they are; else the edges do.
    recompute_scale_factor : bool, optional
        The factor only says which size is meant.
    """
    if not isinstance(input, _core.Tensor):
        raise TypeError(f"For 'interpolate', the 'input' must be a Tensor, but got {type(input).__name__}.")
    if mode not in _MODES:
        raise ValueError(f"For 'interpolate', the 'mode' must be one of {list(_MODES)}, but got {mode!r}.")
    ranks, aligned, scaled = _MODES[mode]
    axes = input.ndim - 2
    if size is not None and scale_factor is not None:
        raise ValueError("For 'interpolate', 'size' and 'scale_factor' cannot both be given.")
    if size is None and scale_factor is None:
        raise ValueError("For 'interpolate', one of 'size' and 'scale_factor' must be given.")
    sizes = None if size is None else _each_positive("size", size, axes, int)
    factors = None if scale_factor is None else _each_positive("scale_factor", scale_factor, axes, float)
    if input.ndim not in ranks:
        raise ValueError(
            f"For 'interpolate', the mode {mode!r} is for inputs of {' or '.join(map(str, ranks))} dimensions, but got {input.ndim}."
        )
    if align_corners is not None and not isinstance(align_corners, bool):
        raise TypeError(f"For 'interpolate', the 'align_corners' must be bool, but got {type(align_corners).__name__}.")
    if align_corners is not None and input.ndim not in aligned:
        raise ValueError(f"For 'interpolate', there is no 'align_corners' with the mode {mode!r}.")
    lengths = input.shape[2:]
    if recompute_scale_factor or mode == "area" and sizes is None:
        if sizes is not None:
            raise ValueError("For 'interpolate', 'recompute_scale_factor' is for a 'scale_factor', but got a 'size'.")
        sizes, factors = tuple([math.floor(n * factor) for n, factor in zip(lengths, factors)]), None
    elif factors is not None:
        if input.ndim not in scaled:
            raise ValueError(
                f"For 'interpolate', the mode {mode!r} with {input.ndim} dimensions needs a 'size', or 'recompute_scale_factor'."
            )
        sizes = tuple([math.floor(n * factor) for n, factor in zip(lengths, factors)])
    if size is None:
        _check_size("interpolate", "scale_factor", scale_factor, *sizes)
    else:
        _check_size("interpolate", "size", size, *sizes)
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[axes - 1](
            input, sizes[0] if axes == 1 else sizes
        )
    x = _array(input)
    one = _INTERPOLATED[mode]
    for axis in range(x.ndim - 1, 1, -1):
        factor = None if factors is None else factors[axis - 2]
        x = one(x, axis, sizes[axis - 2], factor, bool(align_corners))
    return _tensor(x)


upsample = interpolate


def _each_positive(name: str, value: Any, axes: int, kind: type) -> tuple[Any, ...]:
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,) * axes
    for one in values:
        if not isinstance(one, kind):
            raise TypeError(f"For 'interpolate', the '{name}' must be {kind.__name__}, but got {type(one).__name__}.")
        if one <= 0:
            raise ValueError(f"For 'interpolate', the '{name}' must be positive, but got {value!r}.")
    if len(values) != axes:
        raise ValueError(f"For 'interpolate', the '{name}' must have {axes} elements, but got {value!r}.")
    return values


def _step(length: int, size: int, factor: float | None) -> np.float32:
    return np.float32(1 / factor) if factor is not None else np.float32(length) / np.float32(size)


def _nearest(x: np.ndarray, axis: int, size: int, factor: float | None, align_corners: bool) -> np.ndarray:
    length = x.shape[axis]
    at = np.floor(np.arange(size).astype(np.float32) * _step(length, size, factor)).astype(np.int64)
    return np.take(x, np.minimum(at, length - 1), axis)


def _nearest_exact(x: np.ndarray, axis: int, size: int, factor: float | None, align_corners: bool) -> np.ndarray:
    length = x.shape[axis]
    middles = np.arange(size).astype(np.float32) + np.float32(0.5)
    at = np.floor(middles * _step(length, size, factor)).astype(np.int64)
    return np.take(x, np.minimum(at, length - 1), axis)


def _positions(length: int, size: int, factor: float | None, align_corners: bool) -> np.ndarray:
    """Where the new elements lie among the old ones."""
    at = np.arange(size).astype(np.float32)
    if align_corners:
        return at * (np.float32(length - 1) / np.float32(max(size - 1, 1)))
    return (at + np.float32(0.5)) * _step(length, size, factor) - np.float32(0.5)


def _as_weights(weights: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    return weights.astype(x.dtype).reshape((-1,) + (1,) * (x.ndim - 1 - axis))


def _linear(x: np.ndarray, axis: int, size: int, factor: float | None, align_corners: bool) -> np.ndarray:
    return _linear_at(x, axis, np.maximum(_positions(x.shape[axis], size, factor, align_corners), np.float32(0)))


def _linear_at(x: np.ndarray, axis: int, at: np.ndarray) -> np.ndarray:
    length = x.shape[axis]
    low = np.floor(at)
    before = np.minimum(low.astype(np.int64), length - 1)
    after = np.minimum(before + 1, length - 1)
    near, far = np.take(x, before, axis), np.take(x, after, axis)
    return near + (far - near) * _as_weights(at - low, x, axis)


def _cubic(x: np.ndarray, axis: int, size: int, factor: float | None, align_corners: bool) -> np.ndarray:
    return _cubic_at(x, axis, _positions(x.shape[axis], size, factor, align_corners), align_corners)


def _cubic_at(x: np.ndarray, axis: int, at: np.ndarray, outside: bool) -> np.ndarray:
    """Four elements around each place, as MindSpore weighs them: by distances in steps of 1/1024; without `outside` those that lie
    outside do not count.
    """
    length = x.shape[axis]
    low = np.floor(at)
    t, first = np.rint((at - low) * np.float32(1024)) / np.float32(1024), low.astype(np.int64)
    a = np.float32(-0.75 if outside else -0.5)
    taps = []
    for tap in (-1, 0, 1, 2):
        d = np.abs(t - np.float32(tap))
        inner = ((a + 2) * d - (a + 3)) * d * d + 1
        outer = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        weights, places = np.where(d <= 1, inner, outer), first + tap
        if not outside:
            weights = np.where(np.logical_or(places < 0, places >= length), np.float32(0), weights)
        taps.append((weights, np.minimum(np.maximum(places, 0), length - 1)))
    whole = 1 if outside else taps[0][0] + taps[1][0] + taps[2][0] + taps[3][0]
    parts = [np.take(x, places, axis) * _as_weights(weights / whole, x, axis) for weights, places in taps]
    return parts[0] + parts[1] + parts[2] + parts[3]


_INTERPOLATED = {
    "nearest": _nearest,
    "nearest-exact": _nearest_exact,
    "linear": _linear,
    "bilinear": _linear,
    "trilinear": _linear,
    "bicubic": _cubic,
}


# --- As the primitives place the elements -------------------------------------------------------------------------------------


def _scaled(length: int, size: int, align_corners: bool, half_pixel_centers: bool) -> np.ndarray:
    """Where the new elements lie among the old ones; without an option their edges before them stay where they are."""
    if align_corners and half_pixel_centers:
        raise ValueError("If 'half_pixel_centers' is True, 'align_corners' must be False, but got True.")
    if align_corners or half_pixel_centers:
        return _positions(length, size, None, align_corners and size > 1)
    return np.arange(size).astype(np.float32) * (np.float32(length) / np.float32(size))


def _resized(of: Any) -> Any:
    """The last dimensions in other sizes, along one after the other."""

    def resized(image: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False) -> Any:
        x, sizes = _array(image), _ints(size)
        for axis in range(x.ndim - 1, x.ndim - 1 - len(sizes), -1):
            new = sizes[axis - x.ndim]
            at = _scaled(x.shape[axis], new, align_corners, half_pixel_centers)
            x = of(x, axis, at, align_corners, half_pixel_centers)
        return _tensor(x)

    return resized


def _next_to(x: np.ndarray, axis: int, at: np.ndarray, align_corners: bool, half_pixel_centers: bool) -> np.ndarray:
    near = np.floor(at + np.float32(0.5)) if align_corners or half_pixel_centers else np.floor(at)
    return np.take(x, np.minimum(near.astype(np.int64), x.shape[axis] - 1), axis)


_resize_nearest = _resized(_next_to)
_resize_linear = _resized(lambda x, axis, at, *options: _linear_at(x, axis, np.maximum(at, np.float32(0))))
_resize_cubic = _resized(lambda x, axis, at, aligned, half: _cubic_at(x, axis, at, not half))


def _resize_area(images: Any, size: Any, align_corners: bool = False) -> Any:
    """The mean of what each new element of [N, H, W, C] covers, as float32."""
    x = _array(images).astype(np.float32)
    for axis, new in zip((1, 2), _ints(size)):
        length = x.shape[axis]
        aligned = align_corners and new > 1
        step = (length - 1) / (new - 1) if aligned else length / new
        ends = np.arange(new + 1) * np.float32(step)
        cells = np.arange(length)
        shares = np.minimum(ends[1:, None], cells + 1) - np.maximum(ends[:-1, None], cells)
        shares = np.maximum(shares, 0).astype(np.float32) / np.float32(step)
        shares[:, -1] += np.maximum(0, np.float32(1) - shares.sum(1))  # the last element goes on beyond the edge
        x = np.moveaxis(np.tensordot(shares, x, (1, axis)), 0, axis)
    return _tensor(x)


# --- Between channels and space -----------------------------------------------------------------------------------------------


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """[..., C * r * r, H, W] as [..., C, H * r, W * r]."""
    x, r = _array(input), upscale_factor
    _check_factor("pixel_shuffle", "upscale_factor", r, x.ndim)
    lead, (c, h, w) = x.shape[:-3], x.shape[-3:]
    if c % (r * r):
        raise ValueError(
            f"For 'pixel_shuffle', the channels {c} must be divisible by the square of 'upscale_factor' {r}."
        )
    n = len(lead)
    parts = x.reshape((*lead, c // (r * r), r, r, h, w))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return _tensor(parts.transpose(order).reshape((*lead, c // (r * r), h * r, w * r)))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """[..., C, H * r, W * r] as [..., C * r * r, H, W]."""
    x, r = _array(input), downscale_factor
    _check_factor("pixel_unshuffle", "downscale_factor", r, x.ndim)
    lead, (c, h, w) = x.shape[:-3], x.shape[-3:]
    if h % r or w % r:
        raise ValueError(f"For 'pixel_unshuffle', the sizes {h} and {w} must be divisible by 'downscale_factor' {r}.")
    n = len(lead)
    parts = x.reshape((*lead, c, h // r, r, w // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return _tensor(parts.transpose(order).reshape((*lead, c * r * r, h // r, w // r)))


def _check_factor(name: str, what: str, factor: Any, ndim: int) -> None:
    if not isinstance(factor, int) or isinstance(factor, bool):
        raise TypeError(f"For '{name}', the '{what}' must be int, but got {type(factor).__name__}.")
    if factor <= 0:
        raise ValueError(f"For '{name}', the '{what}' must be positive, but got {factor}.")
    if ndim < 3:
        raise ValueError(f"For '{name}', the input must have at least 3 dimensions, but got {ndim}.")


def channel_shuffle(x: Any, groups: int) -> Any:
    """The channels of `groups` groups, one of each in turn."""
    array = _array(x)
    if array.shape[1] % groups:
        raise ValueError(
            f"For 'channel_shuffle', the channels {array.shape[1]} must be divisible by 'groups' {groups}."
        )
    parts = array.reshape((array.shape[0], groups, array.shape[1] // groups, *array.shape[2:]))
    return _tensor(parts.swapaxes(1, 2).reshape(array.shape))


def _four(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value) * (2 // len(value))


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """What is under each window of [N, C, H, W] as a column: [N, C * elements of a window, windows]."""
    x = _array(input)
    kernel, apart, around, step = _four(kernel_size), _four(dilation), _four(padding), _four(stride)
    if any(around):
        x = np.pad(x, [(0, 0), (0, 0), (around[0], around[0]), (around[1], around[1])])
    parts = _core._windows(x, kernel[0], step[0], apart[0], kernel[1], step[1], apart[1])
    n, c, rows, columns = parts.shape[:4]
    return _tensor(parts.transpose((0, 1, 4, 5, 2, 3)).reshape((n, c * kernel[0] * kernel[1], rows * columns)))


def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Sum the windows that `unfold` returns as columns, at their places; the result has the shape ``(N, C, *output_size)``."""
    x = _array(input)
    size = output_size.tolist() if isinstance(output_size, _core.Tensor) else output_size
    (h, w), kernel, apart, around, step = (
        _four(size),
        _four(kernel_size),
        _four(dilation),
        _four(padding),
        _four(stride),
    )
    rows = (h + 2 * around[0] - apart[0] * (kernel[0] - 1) - 1) // step[0] + 1
    columns = (w + 2 * around[1] - apart[1] * (kernel[1] - 1) - 1) // step[1] + 1
    parts = x.reshape((x.shape[0], -1, *kernel, rows, columns))
    height, width = h + 2 * around[0], w + 2 * around[1]
    total = None
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            one = _spread(parts[:, :, i, j], step)
            top, left = i * apart[0], j * apart[1]
            edges = [(top, height - top - one.shape[2]), (left, width - left - one.shape[3])]
            one = np.pad(one, [(0, 0), (0, 0), *edges])
            total = one if total is None else total + one
    return _tensor(total[:, :, around[0] : around[0] + h, around[1] : around[1] + w])


def col2im(input_x: Any, output_size: Any, kernel_size: Any, dilation: Any, padding_value: Any, stride: Any) -> Any:
    """`fold` of columns [N, C, elements of a window, windows]."""
    n, c, elements, windows = input_x.shape
    return fold(input_x.reshape(n, c * elements, windows), output_size, kernel_size, dilation, padding_value, stride)


# --- Between the batch and space ------------------------------------------------------------------------------------------------


def _block(name: str, block: Any, pairs: Any, axes: int) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    sizes = (block,) * axes if isinstance(block, int) else tuple(_ints(block))
    around = tuple([(before, after) for before, after in _ints(pairs)])
    if len(sizes) != len(around) or any(size < 1 for size in sizes):
        raise ValueError(
            f"For '{name}', there must be a positive block size for each pair, but got {sizes} and {around}."
        )
    return sizes, around


def space_to_batch_nd(input_x: Any, block_size: Any, paddings: Any) -> Any:
    """Elements that are `block_size` apart along the last dimensions as samples of the batch, after a border of zeros.

    Parameters
    ----------
    input_x : Tensor
        The batch is its first dimension.
    block_size : int or tuple of int
        The size of a block along each of the last dimensions.
    paddings : tuple of pairs
        How many zeros stand before and after, for each of these dimensions.
    """
    x, axes = _array(input_x), len(_ints(paddings))
    block, around = _block("space_to_batch_nd", block_size, paddings, axes)
    lead = x.shape[1 : x.ndim - axes]
    x = np.pad(x, [(0, 0)] * (x.ndim - axes) + list(around))
    space = x.shape[x.ndim - axes :]
    if any(length % size for length, size in zip(space, block)):
        raise ValueError(
            f"For 'space_to_batch_nd', the padded lengths {space} must be divisible by the 'block_size' {block}."
        )
    n, k = x.shape[0], len(lead)
    parts = x.reshape((n, *lead, *[number for length, size in zip(space, block) for number in (length // size, size)]))
    inner = [k + 2 + 2 * i for i in range(axes)]
    order = (*inner, 0, *range(1, k + 1), *[at - 1 for at in inner])
    shape = (n * math.prod(block), *lead, *[length // size for length, size in zip(space, block)])
    return _tensor(parts.transpose(order).reshape(shape))


def batch_to_space_nd(input_x: Any, block_shape: Any, crops: Any) -> Any:
    """The inverse of `space_to_batch_nd`: samples of the batch next to each other, then cut at the edges.

    Parameters
    ----------
    input_x : Tensor
        The batch is its first dimension.
    block_shape : int or tuple of int
        The size of a block along each of the last dimensions.
    crops : tuple of pairs
        How many elements are cut before and after, for each of these dimensions.
    """
    x, axes = _array(input_x), len(_ints(crops))
    block, cuts = _block("batch_to_space_nd", block_shape, crops, axes)
    if x.shape[0] % math.prod(block):
        raise ValueError(
            f"For 'batch_to_space_nd', the batch {x.shape[0]} must be divisible by the size {math.prod(block)} of a block."
        )
    n, lead, space = x.shape[0] // math.prod(block), x.shape[1 : x.ndim - axes], x.shape[x.ndim - axes :]
    k = len(lead)
    parts = x.reshape((*block, n, *lead, *space))
    pairs = [at for i in range(axes) for at in (axes + 1 + k + i, i)]
    whole = parts.transpose((axes, *range(axes + 1, axes + 1 + k), *pairs))
    whole = whole.reshape((n, *lead, *[length * size for length, size in zip(space, block)]))
    ends = [slice(before, length * size - after) for (before, after), length, size in zip(cuts, space, block)]
    return _tensor(whole[(..., *ends)])
