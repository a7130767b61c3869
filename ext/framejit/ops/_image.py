"""Convolution and pooling in the layout NCHW, and normalization by channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._core import (
    _array,
    _arrays,
    _convolve,
    _op_add,
    _op_divide,
    _op_multiply,
    _op_sqrt,
    _op_subtract,
    _tensor,
)
from framejit._core import _windows as _windows_of
from framejit.ops._reduce import mean, var


def _each(value: Any, axes: int = 2) -> tuple[int, ...]:
    return (value,) * axes if isinstance(value, int) else tuple(value)


def _around(
    shape: tuple[int, ...], window: tuple[int, ...], stride: tuple[int, ...], pad_mode: str, padding: Any
) -> list[tuple[int, int]]:
    """How many elements stand before and after along each axis of space: (above, below), (left, right)."""
    axes = len(window)
    if pad_mode == "valid":
        return [(0, 0)] * axes
    if pad_mode == "pad":
        if isinstance(padding, (tuple, list)) and len(padding) == 2 * axes:
            return [(padding[2 * i], padding[2 * i + 1]) for i in range(axes)]
        return [(size, size) for size in _each(padding, axes)]
    if pad_mode != "same":
        raise ValueError(f"'pad_mode' must be 'same', 'valid' or 'pad', but got {pad_mode!r}.")
    totals = [
        max((-(-size // step) - 1) * step + width - size, 0) for size, width, step in zip(shape[2:], window, stride)
    ]
    return [(total // 2, total - total // 2) for total in totals]


def _windows(
    x: np.ndarray, kernel: tuple[int, int], stride: Any, pad_mode: str, padding: Any, dilation: Any, fill: Any
) -> np.ndarray:
    """A view of the parts under the kernel: [N, C, rows, columns, *kernel]."""
    stride, dilation = _each(stride), _each(dilation)
    window = tuple(step * (size - 1) + 1 for size, step in zip(kernel, dilation))
    around = _around(x.shape, window, stride, pad_mode.lower(), padding)
    if around != [(0, 0), (0, 0)]:
        x = np.pad(x, [(0, 0), (0, 0), *around], constant_values=fill)
    return _windows_of(x, kernel[0], stride[0], dilation[0], kernel[1], stride[1], dilation[1])


def _convolution(
    axes: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    pad_mode: str,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    x, w = _arrays(input, weight)
    stride, dilation = _each(stride, axes), _each(dilation, axes)
    window = tuple(step * (size - 1) + 1 for size, step in zip(w.shape[2:], dilation))
    around = _around(x.shape, window, stride, pad_mode.lower(), padding)
    numbers = [
        n for step, (before, after), apart in zip(stride, around, dilation) for n in (step, before, after, apart)
    ]
    out = _tensor(_convolve(x, w, groups, *numbers))
    return out if bias is None else _op_add(out, _tensor(_array(bias).reshape((-1,) + (1,) * axes)))


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    pad_mode: str = "valid",
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Convolution of lines: `weight` is [channels out, channels in / groups, length]."""
    return _convolution(1, input, weight, bias, stride, pad_mode, padding, dilation, groups)


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    pad_mode: str = "valid",
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Convolution: `weight` is [channels out, channels in / groups, height, width]."""
    return _convolution(2, input, weight, bias, stride, pad_mode, padding, dilation, groups)


def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    pad_mode: str = "valid",
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Convolution of volumes: `weight` is [channels out, channels in / groups, depth, height, width]."""
    return _convolution(3, input, weight, bias, stride, pad_mode, padding, dilation, groups)


def max_pool2d(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Any:
    """The largest element under each window."""
    array = _array(x)
    low = -np.inf if array.dtype.kind == "f" else np.iinfo(array.dtype).min
    parts = _windows(
        array, _each(kernel_size), kernel_size if stride is None else stride, "pad", padding, dilation, low
    )
    return _tensor(parts.max((-2, -1)))


def _max_pool(x: Any, kernel_size: Any, stride: Any, pad_mode: str, padding: Any, dilation: Any) -> Any:
    array = _array(x)
    return _tensor(_windows(array, _each(kernel_size), stride, pad_mode, padding, dilation, -np.inf).max((-2, -1)))


def _avg_pool(x: Any, kernel_size: Any, stride: Any, pad_mode: str, padding: Any, count_include_pad: bool) -> Any:
    array = _array(x)
    kernel = _each(kernel_size)
    total = _windows(array, kernel, stride, pad_mode, padding, 1, 0).sum((-2, -1))
    if pad_mode.lower() == "pad" and count_include_pad:
        return _tensor(total / array.dtype.type(kernel[0] * kernel[1]))
    counts = _windows(np.ones((1, 1, *array.shape[2:]), array.dtype), kernel, stride, pad_mode, padding, 1, 0).sum(
        (-2, -1)
    )
    return _tensor(total / counts)


def avg_pool2d(x: Any, kernel_size: Any = 1, stride: Any = 1, padding: Any = 0, count_include_pad: bool = True) -> Any:
    """The mean under each window."""
    return _avg_pool(x, kernel_size, stride, "pad", padding, count_include_pad)


def batch_norm(
    input_x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Mean 0 and variance 1 for each channel (dimension 1), then scaled and moved.

    While training they are of the batch, and `running_mean` and `running_var` move towards them.
    """
    shape = (1, -1) + (1,) * (input_x.ndim - 2)
    if training:
        x = _array(input_x)
        axes = (0, *tuple(range(2, x.ndim)))
        mean, var = _tensor(np.mean(x, axis=axes)), _tensor(np.var(x, axis=axes))
        running_mean[...] = running_mean * (1 - momentum) + mean * momentum
        count = x.size // x.shape[1]
        estimate = var * (count / max(count - 1, 1))  # of what the batch is drawn from
        running_var[...] = running_var * (1 - momentum) + estimate * momentum
    else:
        mean, var = running_mean, running_var
    scale = _op_divide(1, _op_sqrt(_op_add(var, eps)))
    if weight is not None:
        scale = _op_multiply(scale, weight)
    out = _op_multiply(
        _op_subtract(input_x, _tensor(_array(mean).reshape(shape))), _tensor(_array(scale).reshape(shape))
    )
    return out if bias is None else _op_add(out, _tensor(_array(bias).reshape(shape)))


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Mean 0 and variance 1 for each group of channels (dimension 1), then scaled and moved for each channel."""
    if input.shape[1] % num_groups:
        raise ValueError(
            f"For 'group_norm', the channels {input.shape[1]} must be divisible by the 'num_groups' {num_groups}."
        )
    lines = _tensor(_array(input).reshape((input.shape[0], num_groups, -1)))
    centered = _op_subtract(lines, mean(lines, -1, True))
    out = _op_divide(centered, _op_sqrt(_op_add(var(lines, -1, 0, True), eps)))
    out = _tensor(_array(out).reshape(input.shape))
    shape = (1, -1) + (1,) * (input.ndim - 2)
    if weight is not None:
        out = _op_multiply(out, _tensor(_array(weight).reshape(shape)))
    return out if bias is None else _op_add(out, _tensor(_array(bias).reshape(shape)))
