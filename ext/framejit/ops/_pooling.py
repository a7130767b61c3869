"""Pooling along one, two or three axes of space, and its inverse."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from framejit._api._dtypes import ALL
from framejit._core import _array, _tensor, _windows
from framejit.ops._image import _around, _each
from framejit.ops._random import rand
from framejit.ops._shape import _joined

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "fractional_max_pool2d", "fractional_max_pool3d",
    "lp_pool1d", "lp_pool2d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip

_INTS = (ALL["int32"], ALL["int64"])
_MOST_PARTS = 64  # places of a window that are combined one by one


def _lowest(x: np.ndarray) -> Any:
    return -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min


def _places(
    x: np.ndarray, window: tuple[int, ...], stride: tuple[int, ...], pad_mode: str, padding: Any, ceil_mode: bool
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The padding along each axis of space, and the padding with what a last window needs that reaches over the end (`ceil_mode`)."""
    around = _around(x.shape, window, stride, pad_mode, padding)
    if not ceil_mode:
        return around, around
    reached = []
    for length, width, step, (before, after) in zip(x.shape[2:], window, stride, around):
        count = -(-(length + before + after - width) // step)
        if count * step >= length + before:  # a window begins within what was there or the padding before it
            count -= 1
        reached.append((before, max(after, count * step + width - length - before)))
    return around, reached


def _parts(
    x: np.ndarray, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], around: Any, fill: Any
) -> np.ndarray:
    """A view of what is under each window: [N, C, *places, *kernel]."""
    if any(before or after for before, after in around):
        x = np.pad(x, [(0, 0), (0, 0), *around], constant_values=fill)
    return _windows(x, *[number for triple in zip(kernel, stride, dilation) for number in triple])


def _fold(combine: Any, parts: np.ndarray, kernel: tuple[int, ...]) -> np.ndarray:
    """What is under each window, one place of the window after the other: along the image, where elements are many."""
    places = [(..., *at) for at in itertools.product(*[range(size) for size in kernel])]
    out = parts[places[0]]
    for at in places[1:]:
        out = combine(out, parts[at])
    return out


def _max_pool(
    axes: int,
    x: Any,
    kernel_size: Any,
    stride: Any,
    pad_mode: str = "pad",
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    array = _array(x)
    kernel, stride, dilation = _each(kernel_size, axes), _each(stride, axes), _each(dilation, axes)
    window = tuple([step * (size - 1) + 1 for size, step in zip(kernel, dilation)])
    _, around = _places(array, window, stride, pad_mode.lower(), padding, ceil_mode)
    parts = _parts(array, kernel, stride, dilation, around, _lowest(array))
    if not return_indices and math.prod(kernel) <= _MOST_PARTS:
        return _tensor(_fold(np.maximum, parts, kernel))
    flat = parts.reshape((*parts.shape[:-axes], -1))
    at = np.argmax(flat, -1)[..., None]
    largest = _tensor(np.take_along_axis(flat, at, -1)[..., 0])
    if not return_indices:
        return largest
    numbers = np.arange(array[0, 0].size).reshape((1, 1, *array.shape[2:]))
    numbers = _parts(numbers, kernel, stride, dilation, around, 0).reshape((1, 1, *flat.shape[2:]))
    return largest, _tensor(np.take_along_axis(np.broadcast_to(numbers, flat.shape), at, -1)[..., 0])


def _sum(parts: np.ndarray, kernel: tuple[int, ...]) -> np.ndarray:
    if parts.dtype in (np.float32, np.float64) and math.prod(kernel) <= _MOST_PARTS:
        return _fold(np.add, parts, kernel)
    return parts.sum(tuple(range(-len(kernel), 0)))


def _avg_pool(
    axes: int,
    x: Any,
    kernel_size: Any,
    stride: Any,
    pad_mode: str = "pad",
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Any:
    array = _array(x)
    kernel, stride, ones = _each(kernel_size, axes), _each(stride, axes), (1,) * axes
    given, around = _places(array, kernel, stride, pad_mode.lower(), padding, ceil_mode)
    total = _sum(_parts(array, kernel, stride, ones, around, 0), kernel)
    if divisor:
        return _tensor(total / array.dtype.type(divisor))
    if not any(before or after for before, after in around) or count_include_pad and given == around:
        return _tensor(total / array.dtype.type(math.prod(kernel)))
    counted = np.ones((1, 1, *array.shape[2:]), array.dtype)
    if count_include_pad:
        counted = np.pad(counted, [(0, 0), (0, 0), *given], constant_values=1)
        around = [(0, most - after) for (_, most), (_, after) in zip(around, given)]
    return _tensor(total / _sum(_parts(counted, kernel, stride, ones, around, 0), kernel))


def max_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    return_indices: bool = False,
    ceil_mode: bool = False,
) -> Any:
    """The largest element under each window of [N, C, H, W]; with `return_indices` also where it is among the H * W."""
    stride = kernel_size if stride is None else stride
    return _max_pool(2, x, kernel_size, stride, "pad", padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element under each window of [N, C, D, H, W]; with `return_indices` also where it is among the D * H * W."""
    stride = kernel_size if stride is None else stride
    return _max_pool(3, x, kernel_size, stride, "pad", padding, dilation, ceil_mode, return_indices)


def avg_pool1d(
    input_x: Any,
    kernel_size: Any = 1,
    stride: Any = 1,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean under each window of [N, C, L]."""
    return _avg_pool(1, input_x, kernel_size, stride, "pad", padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input_x: Any,
    kernel_size: Any = 1,
    stride: Any = 1,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int = 0,
) -> Any:
    """The mean under each window of [N, C, H, W]."""
    return _avg_pool(2, input_x, kernel_size, stride, "pad", padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input_x: Any,
    kernel_size: Any = 1,
    stride: Any = 1,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int = 0,
) -> Any:
    """The mean under each window of [N, C, D, H, W]."""
    return _avg_pool(3, input_x, kernel_size, stride, "pad", padding, ceil_mode, count_include_pad, divisor_override)


def _power_pool(axes: int, x: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Any:
    kernel = _each(kernel_size, axes)
    count = math.prod(kernel)
    mean = _avg_pool(axes, x**norm_type, kernel, kernel if stride is None else stride, "valid", 0, ceil_mode)
    return (mean * count) ** (1.0 / norm_type)


def lp_pool1d(x: Any, norm_type: float, kernel_size: int, stride: int | None = None, ceil_mode: bool = False) -> Any:
    """sum(x ** norm_type) ** (1 / norm_type) under each window of [N, C, L]."""
    return _power_pool(1, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """sum(x ** norm_type) ** (1 / norm_type) under each window of [N, C, H, W]."""
    return _power_pool(2, x, norm_type, kernel_size, stride, ceil_mode)


# --- To a given number of places --------------------------------------------------------------------------------------------


def _cuts(length: int, count: int) -> list[tuple[int, int]]:
    """Where the parts begin and end: as many as wanted, overlapping where `length` is no multiple of them."""
    return [(at * length // count, -(-(at + 1) * length // count)) for at in range(count)]


def _sizes(name: str, output_size: Any, shape: tuple[int, ...], axes: int) -> tuple[int, ...]:
    given = (output_size,) * axes if isinstance(output_size, int) else tuple(output_size)
    if len(given) != axes:
        raise ValueError(f"For '{name}', the 'output_size' must have {axes} elements, but got {output_size!r}.")
    sizes = tuple([length if size is None else size for size, length in zip(given, shape[-axes:])])
    if any(not isinstance(size, int) or isinstance(size, bool) for size in sizes):
        raise TypeError(f"For '{name}', the 'output_size' must be int, but got {output_size!r}.")
    if any(size < 1 for size in sizes):
        raise ValueError(f"For '{name}', the 'output_size' must be positive, but got {output_size!r}.")
    return sizes


def _reduced_along(x: np.ndarray, axis: int, count: int, reduce: Any) -> np.ndarray:
    """Each part along an axis (negative) as its mean or largest element."""
    length = x.shape[axis]
    if length % count == 0:
        split = x.reshape((*x.shape[:axis], count, length // count, *(x.shape[axis + 1 :] if axis != -1 else ())))
        return reduce(split, axis=axis)
    lead = (slice(None),) * (x.ndim + axis)
    parts = [reduce(x[(*lead, slice(*cut))], axis=axis, keepdims=True) for cut in _cuts(length, count)]
    return _joined(parts, axis)


def _adaptive(name: str, axes: int, x: Any, output_size: Any, reduce: Any) -> Any:
    if x.ndim not in (axes + 1, axes + 2):
        raise ValueError(f"For '{name}', the input must have {axes + 1} or {axes + 2} dimensions, but got {x.ndim}.")
    array = _array(x)
    sizes = _sizes(name, output_size, array.shape, axes)
    for axis in range(-1, -axes - 1, -1):
        array = _reduced_along(array, axis, sizes[axis], reduce)
    return _tensor(array)


def adaptive_avg_pool1d(input: Any, output_size: int) -> Any:
    """The mean of each of `output_size` parts along the last dimension."""
    return _adaptive("adaptive_avg_pool1d", 1, input, output_size, np.mean)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """The mean of each of `output_size` parts along the last two dimensions; None leaves a dimension as it is."""
    return _adaptive("adaptive_avg_pool2d", 2, input, output_size, np.mean)


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """The mean of each of `output_size` parts along the last three dimensions; None leaves a dimension as it is."""
    return _adaptive("adaptive_avg_pool3d", 3, input, output_size, np.mean)


def _adaptive_max(name: str, axes: int, x: Any, output_size: Any, return_indices: bool, dtype: Any = np.int64) -> Any:
    out = _adaptive(name, axes, x, output_size, np.max)
    if not return_indices:
        return out
    array = _array(x)
    space = array.shape[-axes:]
    numbers = np.arange(array[(0,) * (array.ndim - axes)].size).reshape(space)
    places = []
    for at in np.ndindex(out.shape[-axes:]):
        key = tuple([slice(*_cuts(length, count)[i]) for length, count, i in zip(space, out.shape[-axes:], at)])
        part = array[(..., *key)]
        first = np.argmax(part.reshape((*part.shape[:-axes], -1)), -1)
        places.append(np.take(numbers[key].reshape(-1), first)[..., None])
    return out, _tensor(_joined(places, -1).reshape(out.shape).astype(dtype))


def adaptive_max_pool1d(input: Any, output_size: int) -> Any:
    """The largest element of each of `output_size` parts along the last dimension."""
    return _adaptive_max("adaptive_max_pool1d", 1, input, output_size, False)


def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of each of `output_size` parts along the last two dimensions, and where it is (int64)."""
    return _adaptive_max("adaptive_max_pool2d", 2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of each of `output_size` parts along the last three dimensions, and where it is (int32)."""
    return _adaptive_max("adaptive_max_pool3d", 3, input, output_size, return_indices, np.int32)


# --- Back ---------------------------------------------------------------------------------------------------------------------


def _max_unpool(axes: int, x: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any) -> Any:
    if indices.dtype not in _INTS:
        raise TypeError(f"For 'max_unpool{axes}d', the 'indices' must be of int32 or int64, but got {indices.dtype}.")
    values, at = _array(x), _array(indices)
    kernel, padding = _each(kernel_size, axes), _each(padding, axes)
    stride = kernel if stride is None else _each(stride, axes)
    if output_size:
        space = tuple(output_size)[-axes:]
    else:
        lengths = values.shape[-axes:]
        space = tuple([(n - 1) * s + k - 2 * p for n, s, k, p in zip(lengths, stride, kernel, padding)])
    lead = values.shape[:-axes]
    count, places = math.prod(lead), math.prod(space)
    values, flat = values.reshape((count, -1)), at.reshape((count, -1))
    # From where each place is filled: gradients follow what is taken, not what is written.
    source = np.full((count, places), values.shape[1])
    source[np.arange(count)[:, None], flat] = np.arange(values.shape[1])
    values = np.concatenate([values, np.zeros((count, 1), values.dtype)], 1)
    return _tensor(np.take_along_axis(values, source, 1).reshape((*lead, *space)))


def max_unpool1d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Zeros with the elements at the places from which `max_pool1d` took them."""
    return _max_unpool(1, x, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Zeros with the elements at the places from which `max_pool2d` took them."""
    return _max_unpool(2, x, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Zeros with the elements at the places from which `max_pool3d` took them."""
    return _max_unpool(3, x, indices, kernel_size, stride, padding, output_size)


# --- Windows at places that are drawn ----------------------------------------------------------------------------------------------


def _fractional(
    axes: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool, samples: Any
) -> Any:
    name = f"fractional_max_pool{axes}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"For '{name}', one of 'output_size' and 'output_ratio' must be given.")
    if not isinstance(return_indices, bool):
        raise TypeError(f"For '{name}', the 'return_indices' must be bool, but got {type(return_indices).__name__}.")
    if input.ndim not in (axes + 1, axes + 2):
        raise ValueError(
            f"For '{name}', the 'input' must have {axes + 1} or {axes + 2} dimensions, but got {input.ndim}."
        )
    x = _array(input)
    one = x.ndim == axes + 1
    if one:
        x = x[None]
    count, channels, *lengths = x.shape
    window = _each(kernel_size, axes)
    if output_size is None:
        ratios = (output_ratio,) * axes if isinstance(output_ratio, (int, float)) else tuple(output_ratio)
        for ratio in ratios:
            if not isinstance(ratio, float):
                raise TypeError(f"For '{name}', the 'output_ratio' must be float, but got {type(ratio).__name__}.")
            if not 0 < ratio < 1:
                raise ValueError(f"For '{name}', the 'output_ratio' must be in (0, 1), but got {ratio}.")
        sizes = tuple([int(n * ratio) for n, ratio in zip(lengths, ratios)])
    else:
        sizes = _each(output_size, axes)
    if any(k + size - 1 + (axes == 3) > n for k, size, n in zip(window, sizes, lengths)):
        raise ValueError(
            f"For '{name}', windows of {window} at {sizes} places do not lie in a space of {tuple(lengths)}."
        )
    if samples is None:
        drawn = _array(rand(count, channels, axes)).astype(x.dtype if x.dtype.kind == "f" else np.float32)
    else:
        drawn = _array(samples)
    if drawn.shape not in ((count, channels, axes), (1, channels, axes)):
        raise ValueError(
            f"For '{name}', the shape of '_random_samples' must be {(count, channels, axes)}, but got {drawn.shape}."
        )
    flat = np.zeros((1, channels, 1, 1), np.int64)  # where the elements of each window lie: [N, C, places, window]
    for axis, (length, size, width) in enumerate(zip(lengths, sizes, window)):
        number = axis if axes == 3 else 1 - axis  # of images the first number is for the width
        at = _starts(drawn[:, :, number : number + 1], length, size, width)[:, :, :, None] + np.arange(width)
        grid = flat[:, :, :, None, :, None] * length + at[:, :, None, :, None, :]
        flat = grid.reshape((at.shape[0], channels, flat.shape[2] * size, flat.shape[3] * width))
    flat = np.broadcast_to(flat, (count, *flat.shape[1:]))
    x = x.reshape((count, channels, -1))
    elements = flat.shape[3]
    values = np.take_along_axis(x, flat.reshape((count, channels, -1)), 2).reshape((-1, elements))
    first = np.argmax(values, 1)[:, None]
    shape = (channels, *sizes) if one else (count, channels, *sizes)
    out = _tensor(np.take_along_axis(values, first, 1).reshape(shape))
    if not return_indices:
        return out
    return out, _tensor(np.take_along_axis(flat.reshape((-1, elements)), first, 1).reshape(shape))


def _starts(drawn: Any, length: int, size: int, width: int) -> Any:
    """Where the windows begin: apart by a fraction, moved by what was drawn, the last one at the end."""
    if size == 1:
        return np.full((*drawn.shape[:2], 1), length - width)
    apart = drawn.dtype.type((length - width) / (size - 1))
    steps = np.arange(size).astype(drawn.dtype)
    starts = ((steps + drawn) * apart).astype(np.int64) - (drawn * apart).astype(np.int64)
    return np.where(np.arange(size) == size - 1, length - width, starts)


def fractional_max_pool2d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """The largest elements of windows that are drawn so that `output_size` of them, or `output_ratio` times the lengths, fill the space;
    with `return_indices` also where they are. `_random_samples`: [N, C, 2] numbers from 0 to 1 instead of drawn ones.
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """`fractional_max_pool2d` of volumes."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
