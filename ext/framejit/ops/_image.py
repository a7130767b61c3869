"""Convolution in the layout NCHW, and normalization by channel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from framejit._api._control import is_compiling
from framejit._core import (
    Tensor,
    _array,
    _arrays,
    _convolve,
    _op_add,
    _op_divide,
    _op_multiply,
    _op_power,
    _op_sqrt,
    _op_square,
    _op_subtract,
    _tensor,
    _windows,
)
from framejit.ops._reduce import mean, var

__all__ = ["batch_norm", "conv1d", "conv2d", "conv3d", "group_norm", "lrn"]


def _each(value: Any, axes: int = 2) -> tuple[int, ...]:
    if isinstance(value, Tensor):
        raise TypeError(
            "The strides, paddings and dilations of a convolution must be ints or tuples of them, not Tensors."
        )
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
    if not is_compiling():
        for name, values in (
            ("stride", stride),
            ("padding", [n for both in around for n in both]),
            ("dilation", dilation),
        ):
            if max(values, default=0) >= 2**31:
                raise ValueError(f"The '{name}' of a convolution must be below 2**31, but got {max(values)}.")
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


def _spread(x: np.ndarray, stride: tuple[int, ...]) -> np.ndarray:
    """With stride - 1 zeros between the elements along each of the last axes."""
    for at, step in enumerate(stride):
        if step > 1:
            axis = x.ndim - len(stride) + at
            lead, length, rest = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
            parts = x.reshape((*lead, length, 1, *rest))
            parts = np.pad(parts, [*[(0, 0)] * (axis + 1), (0, step - 1), *[(0, 0)] * len(rest)])
            x = parts.reshape((*lead, length * step, *rest))
            x = x[(slice(None),) * axis + (slice(0, (length - 1) * step + 1),)]
    return x


def _transposed(
    axes: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    pad_mode: str,
    padding: Any,
    dilation: Any,
    groups: int,
    output_padding: tuple[int, ...],
) -> Any:
    """The transpose of `_convolution`: of the input with zeros between its elements, the weights turned round."""
    x, w = _arrays(input, weight)
    stride, dilation = _each(stride, axes), _each(dilation, axes)
    windows = tuple([apart * (size - 1) + 1 for size, apart in zip(w.shape[2:], dilation)])
    lengths = x.shape[2:]
    if pad_mode == "pad":
        around = _around(x.shape, windows, stride, "pad", padding)
        wholes = [(n - 1) * step + width for n, step, width in zip(lengths, stride, windows)]
        sizes = [whole - before - after + more for whole, (before, after), more in zip(wholes, around, output_padding)]
        first = [before for before, _ in around]
    elif pad_mode == "same":
        sizes = [n * step for n, step in zip(lengths, stride)]
        first = [max(width - step, 0) // 2 for width, step in zip(windows, stride)]
    else:
        sizes = [n * step + max(width - step, 0) for n, step, width in zip(lengths, stride, windows)]
        first = [0] * axes
    spread = _spread(x, stride)
    edges = []
    for n, step, width, before, size in zip(lengths, stride, windows, first, sizes):
        left = width - 1 - before
        edges.append((left, size + width - 1 - ((n - 1) * step + 1) - left))
    spread = spread[
        (..., *[slice(max(-left, 0), spread.shape[2 + i] - max(-right, 0)) for i, (left, right) in enumerate(edges)])
    ]
    per = w.shape[1]
    w = w.reshape((groups, w.shape[0] // groups, per, *w.shape[2:])).swapaxes(1, 2)
    w = np.flip(w.reshape((groups * per, *w.shape[2:])), tuple(range(-axes, 0)))
    w = _array(_tensor(w))  # contiguous, as the core wants weights
    numbers = [n for (left, right), apart in zip(edges, dilation) for n in (1, max(left, 0), max(right, 0), apart)]
    out = _tensor(_convolve(spread, w, groups, *numbers))
    return out if bias is None else _op_add(out, _tensor(_array(bias).reshape((-1,) + (1,) * axes)))


def batch_norm(
    input_x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
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
        # The mean that the variance takes off as well: in a graph that is one difference, which is cheap enough to be computed twice.
        mean, var = _tensor(np.mean(x, axis=axes, keepdims=True)), _tensor(np.var(x, axis=axes))
        running_mean[...] = running_mean * (1 - momentum) + _tensor(_array(mean).reshape(-1)) * momentum
        count = x.size // x.shape[1]
        estimate = var * (count / max(count - 1, 1))  # of what the batch is drawn from
        running_var[...] = running_var * (1 - momentum) + estimate * momentum
    else:
        mean, var = _tensor(_array(running_mean).reshape(shape)), running_var
    scale = _op_divide(1, _op_sqrt(_op_add(var, eps)))
    if weight is not None:
        scale = _op_multiply(scale, weight)
    out = _op_multiply(_op_subtract(input_x, mean), _tensor(_array(scale).reshape(shape)))
    return out if bias is None else _op_add(out, _tensor(_array(bias).reshape(shape)))


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Mean 0 and variance 1 for each group of channels (dimension 1), then scaled and moved for each channel."""
    if input.shape[1] % num_groups:
        raise ValueError(
            f"For 'group_norm', the channels {input.shape[1]} must be divisible by the 'num_groups' {num_groups}."
        )
    size = math.prod(input.shape[1:]) // num_groups
    lines = _tensor(_array(input).reshape((input.shape[0], num_groups, size)))
    centered = _op_subtract(lines, mean(lines, -1, True))
    out = _op_divide(centered, _op_sqrt(_op_add(var(lines, -1, 0, True), eps)))
    out = _tensor(_array(out).reshape(input.shape))
    shape = (1, -1) + (1,) * (input.ndim - 2)
    if weight is not None:
        out = _op_multiply(out, _tensor(_array(weight).reshape(shape)))
    return out if bias is None else _op_add(out, _tensor(_array(bias).reshape(shape)))


def lrn(
    x: Any,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    norm_region: str = "ACROSS_CHANNELS",
) -> Any:
    """x / (bias + alpha * sum of the squares of the `depth_radius` channels on each side) ** beta."""
    squares = np.pad(_array(_op_square(x)), [(0, 0), (depth_radius, depth_radius), (0, 0), (0, 0)])
    windows = _windows(squares.transpose((0, 2, 3, 1)), 2 * depth_radius + 1, 1, 1)
    total = _tensor(windows.sum(-1).transpose((0, 3, 1, 2)))
    return _op_divide(x, _op_power(_op_add(_op_multiply(total, alpha), bias), beta))
