"""Convolution and pooling as cells."""

from __future__ import annotations

import math
from typing import Any

from framejit._dtypes import ALL
from framejit._parameter import Parameter
from framejit.common.initializer import HeUniform, Uniform, initializer
from framejit.nn._cell import Cell
from framejit.ops import _image

_FLOAT32 = ALL["float32"]


class Conv2d(Cell):
    """Convolution of images [N, C, H, W].

    Parameters
    ----------
    in_channels, out_channels : int
        Numbers of channels.
    kernel_size, stride, dilation : int or tuple of two
        Height and width.
    pad_mode : {'same', 'valid', 'pad'}
        ``'pad'`` puts `padding` zeros around.
    group : int
        Groups of channels that are convolved on their own.
    has_bias : bool
        Whether there is a bias.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        pad_mode: str = "same",
        padding: Any = 0,
        dilation: Any = 1,
        group: int = 1,
        has_bias: bool = False,
        weight_init: Any = None,
        bias_init: Any = None,
        data_format: str = "NCHW",
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        if data_format != "NCHW":
            raise ValueError(f"For 'Conv2d', the 'data_format' must be 'NCHW', but got {data_format!r}.")
        if pad_mode not in ("same", "valid", "pad"):
            raise ValueError(f"For 'Conv2d', the 'pad_mode' must be 'same', 'valid' or 'pad', but got {pad_mode!r}.")
        if in_channels % group or out_channels % group:
            raise ValueError(
                f"For 'Conv2d', the channels {in_channels} and {out_channels} must be divisible by 'group' {group}."
            )
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, _image._each(kernel_size)
        self.stride, self.pad_mode, self.padding, self.dilation, self.group = stride, pad_mode, padding, dilation, group
        self.has_bias = has_bias
        shape = (out_channels, in_channels // group, *self.kernel_size)
        self.weight = Parameter(
            initializer(HeUniform(math.sqrt(5)) if weight_init is None else weight_init, shape, dtype), name="weight"
        )
        self.bias = None
        if has_bias:
            bound = 1 / math.sqrt(math.prod(shape[1:]))
            self.bias = Parameter(
                initializer(Uniform(bound) if bias_init is None else bias_init, (out_channels,), dtype), name="bias"
            )

    def construct(self, x: Any) -> Any:
        """The convolved images."""
        return _image.conv2d(
            x, self.weight, self.bias, self.stride, self.pad_mode, self.padding, self.dilation, self.group
        )

    def extend_repr(self) -> str:
        """The sizes."""
        return (
            f"input_channels={self.in_channels}, output_channels={self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, pad_mode={self.pad_mode}, padding={self.padding}, has_bias={self.has_bias}"
        )


class Conv1d(Conv2d):
    """Convolution of [N, C, L]: of images of height 1."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        pad_mode: str = "same",
        padding: int = 0,
        dilation: int = 1,
        group: int = 1,
        has_bias: bool = False,
        weight_init: Any = None,
        bias_init: Any = None,
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__(
            *(
                in_channels,
                out_channels,
                (1, kernel_size),
                (1, stride),
                pad_mode,
                (0, padding),
                (1, dilation),
                group,
                has_bias,
            ),
            *(weight_init, bias_init, "NCHW", dtype),
        )

    def construct(self, x: Any) -> Any:
        """The convolved lines."""
        return super().construct(x.expand_dims(2)).squeeze(2)


class _Pool(Cell):
    def __init__(
        self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0, **more: Any
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.pad_mode, self.padding = kernel_size, stride, pad_mode, padding
        for name, value in more.items():
            setattr(self, name, value)

    def extend_repr(self) -> str:
        """The sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, pad_mode={self.pad_mode}"


class MaxPool2d(_Pool):
    """The largest element under each window."""

    def __init__(
        self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0, dilation: Any = 1
    ) -> None:
        super().__init__(kernel_size, stride, pad_mode, padding, dilation=dilation)

    def construct(self, x: Any) -> Any:
        """The pooled images."""
        return _image._max_pool(x, self.kernel_size, self.stride, self.pad_mode, self.padding, self.dilation)


class AvgPool2d(_Pool):
    """The mean under each window."""

    def __init__(
        self,
        kernel_size: Any = 1,
        stride: Any = 1,
        pad_mode: str = "valid",
        padding: Any = 0,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, pad_mode, padding, count_include_pad=count_include_pad)

    def construct(self, x: Any) -> Any:
        """The pooled images."""
        return _image._avg_pool(x, self.kernel_size, self.stride, self.pad_mode, self.padding, self.count_include_pad)
