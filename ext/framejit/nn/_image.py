"""Convolution, pooling and normalization as cells."""

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


class GroupNorm(Cell):
    """Mean 0 and variance 1 for each group of channels, then scaled and moved for each channel."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"For 'GroupNorm', the 'num_channels' {num_channels} must be divisible by the 'num_groups' {num_groups}."
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.gamma = Parameter(initializer(gamma_init, (num_channels,), dtype), name="gamma", requires_grad=affine)
        self.beta = Parameter(initializer(beta_init, (num_channels,), dtype), name="beta", requires_grad=affine)

    def construct(self, x: Any) -> Any:
        """The normalized Tensor."""
        lines = x.reshape((x.shape[0], self.num_groups, -1))
        centered = lines - lines.mean(-1, True)
        out = (centered / (lines.var(-1, 0, True) + self.eps).sqrt()).reshape(x.shape)
        shape = (1, -1) + (1,) * (x.ndim - 2)
        return out * self.gamma.reshape(shape) + self.beta.reshape(shape)


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


class BatchNorm2d(Cell):
    """Mean 0 and variance 1 for each channel, then scaled and moved.

    While training the statistics are those of the batch, and ``moving = momentum * moving + (1 - momentum) * batch``.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        moving_mean_init: Any = "zeros",
        moving_var_init: Any = "ones",
        use_batch_statistics: bool | None = None,
        data_format: str = "NCHW",
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        if num_features < 1:
            raise ValueError(f"For 'BatchNorm2d', the 'num_features' must be at least 1, but got {num_features}.")
        if not 0 <= momentum <= 1:
            raise ValueError(f"For 'BatchNorm2d', the 'momentum' must be in [0, 1], but got {momentum}.")
        self.num_features, self.eps, self.momentum, self.use_batch_statistics = (
            num_features,
            eps,
            momentum,
            use_batch_statistics,
        )
        shape = (num_features,)
        self.moving_mean = Parameter(initializer(moving_mean_init, shape, dtype), name="mean", requires_grad=False)
        self.moving_variance = Parameter(
            initializer(moving_var_init, shape, dtype), name="variance", requires_grad=False
        )
        self.gamma = Parameter(initializer(gamma_init, shape, dtype), name="gamma", requires_grad=affine)
        self.beta = Parameter(initializer(beta_init, shape, dtype), name="beta", requires_grad=affine)

    def construct(self, x: Any) -> Any:
        """The normalized images."""
        training = self._training if self.use_batch_statistics is None else self.use_batch_statistics
        return _image.batch_norm(
            x, self.moving_mean, self.moving_variance, self.gamma, self.beta, training, 1 - self.momentum, self.eps
        )

    def extend_repr(self) -> str:
        """The sizes."""
        return f"num_features={self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(BatchNorm2d):
    """The same for [N, C]."""
