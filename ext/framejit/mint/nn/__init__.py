"""``mindspore.mint.nn``."""

from __future__ import annotations

import math
from typing import Any

from framejit import nn as _nn
from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter
from framejit.common.initializer import HeUniform, Uniform, initializer
from framejit.mint.nn import functional as functional
from framejit.nn._checks import of_type as _of_type
from framejit.nn._checks import positive_int as _positive_int

_SAME = (
    "ReLU ReLU6 Sigmoid Tanh Softmax LogSoftmax ELU SiLU GELU Identity MSELoss L1Loss CrossEntropyLoss BCEWithLogitsLoss Linear "
    "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d BCELoss ConstantPad1d ConstantPad2d ConstantPad3d "
    "CosineEmbeddingLoss Hardtanh LogSigmoid MaxUnpool2d Mish PReLU PixelShuffle ReflectionPad1d ReflectionPad2d ReflectionPad3d "
    "ReplicationPad1d ReplicationPad2d ReplicationPad3d SmoothL1Loss SoftMarginLoss SyncBatchNorm Threshold Upsample ZeroPad2d"
)
globals().update({name: getattr(_nn, name) for name in _SAME.split()})
Hardshrink, Hardsigmoid, Hardswish, SELU = _nn.HShrink, _nn.HSigmoid, _nn.HSwish, _nn.SeLU


class GroupNorm(_nn.Cell):
    """Mean 0 and variance 1 for each group of channels; Parameters `weight` and `bias`, which `affine` makes trainable."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: Any = None
    ) -> None:
        super().__init__()
        _positive_int(self, num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ValueError(
                f"For 'GroupNorm', the 'num_channels' {num_channels} must be divisible by the 'num_groups' {num_groups}."
            )
        _of_type(self, float, eps=eps)
        _of_type(self, bool, affine=affine)
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        dtype = ALL["float32"] if dtype is None else dtype
        self.weight = Parameter(initializer("ones", (num_channels,), dtype), name="weight", requires_grad=affine)
        self.bias = Parameter(initializer("zeros", (num_channels,), dtype), name="bias", requires_grad=affine)

    def construct(self, input: Any) -> Any:
        """The normalized Tensor."""
        return ops.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extend_repr(self) -> str:
        """The sizes."""
        return f"num_groups={self.num_groups}, num_channels={self.num_channels}, eps={self.eps}, affine={self.affine}"


class LayerNorm(_nn.Cell):
    """Mean 0 and variance 1 over the last axes; Parameters `weight` and `bias`, or None."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        if not isinstance(shape, (tuple, list)):
            raise TypeError(
                f"For 'LayerNorm', the 'normalized_shape' must be an int, a tuple or a list, but got {type(shape).__name__}."
            )
        if not shape:
            raise ValueError("For 'LayerNorm', the 'normalized_shape' must have at least one size, but got none.")
        self.normalized_shape, self.eps, self.elementwise_affine = tuple(shape), eps, elementwise_affine
        dtype = ALL["float32"] if dtype is None else dtype
        self.weight = self.bias = None
        if elementwise_affine:
            self.weight = Parameter(initializer("ones", self.normalized_shape, dtype), name="weight")
            if bias:
                self.bias = Parameter(initializer("zeros", self.normalized_shape, dtype), name="bias")

    def construct(self, input: Any) -> Any:
        """The normalized Tensor."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extend_repr(self) -> str:
        """The options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class Dropout(_nn.Dropout):
    """While training, zeros with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class ZeroPad1d(_nn.ZeroPad2d):
    """A border of zeros around the last dimension; negative sizes cut."""

    _axes = 1


class ZeroPad3d(_nn.ZeroPad2d):
    """A border of zeros around the last three dimensions; negative sizes cut."""

    _axes = 3


def _with_defaults(name: str, base: Any, doc: str) -> Any:
    """A cell that calls a function of `functional` with the options that it was made with."""

    def init(self: Any, *args: Any, **options: Any) -> None:
        _nn.Cell.__init__(self)
        self.args, self.options = args, options

    def construct(self: Any, *inputs: Any) -> Any:
        return base(*inputs, *self.args, **self.options)

    body = {"__init__": init, "construct": construct, "__doc__": doc, "__module__": __name__, "__qualname__": name}
    return type(name, (_nn.Cell,), body)


for _name, _function in (
    ("AvgPool1d", functional.avg_pool1d),
    ("AvgPool2d", functional.avg_pool2d),
    ("AvgPool3d", functional.avg_pool3d),
    ("MaxPool2d", functional.max_pool2d),
    ("Flatten", lambda x, start_dim=1, end_dim=-1: functional.flatten(x, start_dim, end_dim)),
    ("Unfold", functional.unfold),
    ("Fold", functional.fold),
    ("UpsamplingNearest2d", lambda x, size=None, scale_factor=None: functional.upsample(x, size, scale_factor)),
    (
        "UpsamplingBilinear2d",
        lambda x, size=None, scale_factor=None: functional.upsample(x, size, scale_factor, "bilinear", True),
    ),
    ("KLDivLoss", lambda x, y, reduction="mean", log_target=False: functional.kl_div(x, y, reduction, log_target)),
):
    globals()[_name] = _with_defaults(_name, _function, f"{_function.__doc__ or _name}")


class _Conv(_nn.Cell):
    """Convolution with PyTorch's arguments; Parameters `weight` and `bias`."""

    _axes = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(
                f"For '{type(self).__name__}', the 'padding_mode' must be 'zeros', 'reflect', 'replicate' or 'circular', but got {padding_mode!r}."
            )
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"For '{type(self).__name__}', the channels must be divisible by 'groups' {groups}.")
        kernel = (kernel_size,) * self._axes if isinstance(kernel_size, int) else tuple(kernel_size)
        dtype = ALL["float32"] if dtype is None else dtype
        shape = (out_channels, in_channels // groups, *kernel)
        self.weight = Parameter(initializer(HeUniform(math.sqrt(5)), shape, dtype), name="weight")
        self.bias = None
        if bias:
            drawn = Uniform(1 / math.sqrt(math.prod(shape[1:])))
            self.bias = Parameter(initializer(drawn, (out_channels,), dtype), name="bias")
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.padding_mode = padding_mode

    def construct(self, input: Any) -> Any:
        """The convolved Tensor."""
        function = (functional.conv1d, functional.conv2d, functional.conv3d)[self._axes - 1]
        padding = self.padding
        if self.padding_mode != "zeros":
            sizes = (padding,) * self._axes if isinstance(padding, int) else padding
            around = [size for one in sizes[::-1] for size in (one, one)]
            input, padding = ops.pad(input, tuple(around), self.padding_mode), 0
        return function(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class ConvTranspose2d(_nn.Cell):
    """The transpose of `Conv2d` with PyTorch's arguments; Parameters `weight` and `bias`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(f"For 'ConvTranspose2d', the 'padding_mode' must be 'zeros', but got {padding_mode!r}.")
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"For 'ConvTranspose2d', the channels must be divisible by 'groups' {groups}.")
        kernel = (kernel_size,) * 2 if isinstance(kernel_size, int) else tuple(kernel_size)
        dtype = ALL["float32"] if dtype is None else dtype
        shape = (in_channels, out_channels // groups, *kernel)
        self.weight = Parameter(initializer(HeUniform(math.sqrt(5)), shape, dtype), name="weight")
        self.bias = None
        if bias:
            drawn = Uniform(1 / math.sqrt(math.prod(shape[1:])))
            self.bias = Parameter(initializer(drawn, (out_channels,), dtype), name="bias")
        self.options = (stride, padding, output_padding, groups, dilation)

    def construct(self, input: Any) -> Any:
        """The convolved Tensor."""
        return functional.conv_transpose2d(input, self.weight, self.bias, *self.options)


class Conv1d(_Conv):
    """Convolution of lines."""

    _axes = 1


class Conv2d(_Conv):
    """Convolution of images."""

    _axes = 2


class Conv3d(_Conv):
    """Convolution of volumes."""

    _axes = 3


class _BatchNorm(_nn.Cell):
    """Mean 0 and variance 1 for each channel; Parameters `weight`, `bias`, `running_mean` and `running_var`."""

    _ranks: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        dtype = ALL["float32"] if dtype is None else dtype
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.weight = self.bias = None
        if affine:
            self.weight = Parameter(initializer("ones", (num_features,), dtype), name="weight")
            self.bias = Parameter(initializer("zeros", (num_features,), dtype), name="bias")
        self.track_running_stats = track_running_stats
        self.running_mean = Parameter(
            initializer("zeros", (num_features,), dtype), name="running_mean", requires_grad=False
        )
        self.running_var = Parameter(
            initializer("ones", (num_features,), dtype), name="running_var", requires_grad=False
        )

    def construct(self, input: Any) -> Any:
        """The normalized Tensor."""
        if input.ndim not in self._ranks:
            raise ValueError(
                f"For '{type(self).__name__}', the input must have {' or '.join(map(str, self._ranks))} dimensions, but got {input.ndim}."
            )
        training = self._training or not self.track_running_stats
        statistics = (self.running_mean, self.running_var)
        return ops.batch_norm(input, *statistics, self.weight, self.bias, training, self.momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """`BatchNorm2d` of [N, C] or [N, C, L]."""

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Mean 0 and variance 1 for each channel of images."""

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Mean 0 and variance 1 for each channel of volumes."""

    _ranks = (5,)
