"""Convolution and its transpose as cells."""

from __future__ import annotations

import math
from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter
from framejit._tensors._tensor import Tensor
from framejit.common.initializer import HeUniform, Uniform, initializer
from framejit.nn._cell import Cell
from framejit.nn._checks import of_type, one_of, positive_int, rank
from framejit.ops import _image

_FLOAT32 = ALL["float32"]
_FORMATS = {2: ("NCHW",), 3: ("NCDHW", "NCHW")}


class _Conv(Cell):
    """Weights [out, in / group, *kernel], or [in, out / group, *kernel] of transposes."""

    in_channels: int
    out_channels: int
    group: int
    has_bias: bool
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pad_mode: str
    padding: int | Any
    bias: Parameter | None

    _axes = 2
    _transposed = False

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
        name = type(self).__name__
        positive_int(self, in_channels=in_channels, out_channels=out_channels, group=group)
        of_type(self, bool, has_bias=has_bias)
        one_of(self, _FORMATS[self._axes], data_format=data_format)
        one_of(self, ("same", "valid", "pad"), pad_mode=pad_mode)
        of_type(self, (int, tuple), padding=padding)
        around = (padding,) if isinstance(padding, int) else padding
        if len(around) not in (1, 2 * self._axes) or any(size < 0 for size in around):
            raise ValueError(
                f"For '{name}', the 'padding' must be an int or a tuple of {2 * self._axes}, none negative, but got {padding!r}."
            )
        if pad_mode != "pad" and any(around):
            raise ValueError(
                f"For '{name}', the 'padding' must be 0 where 'pad_mode' is not 'pad', but got {padding!r}."
            )
        if in_channels % group or out_channels % group:
            raise ValueError(
                f"For '{name}', the channels {in_channels} and {out_channels} must be divisible by 'group' {group}."
            )
        self.in_channels, self.out_channels, self.group, self.has_bias = in_channels, out_channels, group, has_bias
        self.kernel_size, self.stride, self.dilation = (
            self._sizes("kernel_size", kernel_size),
            self._sizes("stride", stride),
            self._sizes("dilation", dilation),
        )
        self.pad_mode, self.padding = pad_mode, padding
        shape = (out_channels, in_channels // group, *self.kernel_size)
        if self._transposed:
            shape = (in_channels, out_channels // group, *self.kernel_size)
        weight_init = HeUniform(math.sqrt(5)) if weight_init is None else weight_init
        self.weight: Parameter = Parameter(initializer(weight_init, shape, dtype), name="weight")
        self.bias = None
        if has_bias:
            if bias_init is None:
                bias_init = Uniform(1 / math.sqrt(math.prod(shape[1:])))
            self.bias = Parameter(initializer(bias_init, (out_channels,), dtype), name="bias")

    def _sizes(self, name: str, value: Any) -> tuple[int, ...]:
        of_type(self, (int, tuple), **{name: value})
        sizes = (value,) * self._axes if isinstance(value, int) else value
        if len(sizes) != self._axes:
            raise ValueError(
                f"For '{type(self).__name__}', the '{name}' must be an int or a tuple of {self._axes}, but got {value!r}."
            )
        positive_int(self, **{name: min(sizes)})
        return sizes

    def construct(self, x: Any) -> Any:
        """The convolved Tensor."""
        rank(self, x, self._axes + 2)
        self._check(x)
        return self._convolved(x)

    def _check(self, x: Any) -> None:
        if x.shape[1] != self.in_channels:
            raise RuntimeError(
                f"For '{type(self).__name__}', the input must have 'in_channels' {self.in_channels} channels, but got {x.shape[1]}: "
                f"its shape is {x.shape}, and that of '{self.weight.name}' {self.weight.shape}."
            )

    def _convolved(self, x: Any) -> Any:
        sizes = (self.stride, self.pad_mode, self.padding, self.dilation, self.group)
        return _image._convolution(self._axes, x, self.weight, self.bias, *sizes)

    def extend_repr(self) -> str:
        """The sizes."""
        return (
            f"input_channels={self.in_channels}, output_channels={self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, pad_mode={self.pad_mode}, padding={self.padding}, dilation={self.dilation}, group={self.group}, "
            f"has_bias={self.has_bias}"
        )


class Conv2d(_Conv):
    """Convolution of images [N, C, H, W].

    Parameters
    ----------
    in_channels, out_channels : int
        Numbers of channels.
    kernel_size, stride, dilation : int or tuple of two
        Height and width.
    pad_mode : {'same', 'valid', 'pad'}
        ``'pad'`` puts `padding` zeros around.
    padding : int or tuple of four
        Zeros above, below, on the left and on the right.
    group : int
        Groups of channels that are convolved on their own.
    has_bias : bool
        Whether there is a bias.
    weight_init, bias_init : optional
        Initializers, their names, numbers or Tensors.
    data_format : str
        The order of the dimensions.
    dtype : dtype
        The dtype of the Parameters.
    """


def _as_image(cell: Cell, weight_init: Any) -> Any:
    """The weights of lines as those of images of height 1."""
    if isinstance(weight_init, Tensor):
        rank(cell, weight_init, 3)
        return weight_init.expand_dims(2)
    return weight_init


class _Lines(_Conv):
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
        of_type(self, int, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation)
        positive_int(self, kernel_size=kernel_size, stride=stride, dilation=dilation)
        super().__init__(
            *(in_channels, out_channels, (1, kernel_size), (1, stride), pad_mode, (0, 0, padding, padding)),
            *((1, dilation), group, has_bias, _as_image(self, weight_init), bias_init, "NCHW", dtype),
        )

    def construct(self, x: Any) -> Any:
        """The convolved lines."""
        rank(self, x, 3)
        self._check(x)
        return super().construct(x.expand_dims(2)).squeeze(2)


class Conv1d(_Lines):
    """`Conv2d` of lines [N, C, L], as images of height 1.

    Parameters
    ----------
    in_channels : int
        The number of channels of the input.
    out_channels : int
        The number of channels of the result.
    kernel_size : int
        The size of the windows.
    stride : int
        The distance from one window to the next.
    pad_mode : {'same', 'valid', 'pad'}
        ``'same'`` adds elements so that the result has the size of the input divided by `stride`, ``'valid'`` adds
        none, ``'pad'`` adds `padding`.
    padding : int
        The number of elements to add at each side.
    dilation : int
        The distance of neighboring elements within a window.
    group : int
        The number of groups of channels that are convolved separately.
    has_bias : bool
        Whether there is a bias.
    weight_init : initializer, str, number or Tensor, optional
        The first weights.
    bias_init : initializer, str, number or Tensor, optional
        The first bias.
    dtype : dtype
        The dtype of the Parameters.
    """


class Conv3d(_Conv):
    """`Conv2d` of volumes [N, C, D, H, W].

    Parameters
    ----------
    in_channels : int
        The number of channels of the input.
    out_channels : int
        The number of channels of the result.
    kernel_size : int or tuple of int
        The size of the windows.
    stride : int or tuple of int
        The distance from one window to the next.
    pad_mode : {'same', 'valid', 'pad'}
        ``'same'`` adds elements so that the result has the size of the input divided by `stride`, ``'valid'`` adds
        none, ``'pad'`` adds `padding`.
    padding : int or tuple of int
        The number of elements to add at each side.
    dilation : int or tuple of int
        The distance of neighboring elements within a window.
    group : int
        The number of groups of channels that are convolved separately.
    has_bias : bool
        Whether there is a bias.
    weight_init : initializer, str, number or Tensor, optional
        The first weights.
    bias_init : initializer, str, number or Tensor, optional
        The first bias.
    data_format : str
        The order of the dimensions.
    dtype : dtype
        The dtype of the Parameters.
    """

    _axes = 3

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
        data_format: str = "NCDHW",
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias),
            *(weight_init, bias_init, data_format, dtype),
        )


class Conv2dTranspose(_Conv):
    """The transpose of the map that `Conv2d` is: images that a convolution with these options makes as large as the input.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, weight_init, bias_init
        As of `Conv2d`.
    output_padding : int or tuple of two
        Rows of zeros below, columns of zeros on the right; only with ``pad_mode='pad'``.
    dtype : dtype
        The dtype of the Parameters.
    """

    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        pad_mode: str = "same",
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        group: int = 1,
        has_bias: bool = False,
        weight_init: Any = None,
        bias_init: Any = None,
        dtype: Any = _FLOAT32,
    ) -> None:
        of_type(self, (int, tuple), output_padding=output_padding)
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias),
            *(weight_init, bias_init, "NCHW", dtype),
        )
        self.output_padding = output_padding

    def _convolved(self, x: Any) -> Any:
        below, right = _image._each(self.output_padding)
        out = _transposed_of(self, x, (0, 0))
        if not below and not right:
            return out
        _check_output_padding(self, (below, right))
        return ops.pad(out, (0, right, 0, below))


def _transposed_of(cell: Any, x: Any, output_padding: tuple[int, ...]) -> Any:
    sizes = (cell.stride, cell.pad_mode, cell.padding, cell.dilation, cell.group, output_padding)
    return _image._transposed(cell._axes, x, cell.weight, cell.bias, *sizes)


def _check_output_padding(cell: Any, sizes: tuple[int, ...]) -> None:
    name = type(cell).__name__
    if cell.pad_mode != "pad":
        raise ValueError(f"For '{name}', the 'pad_mode' must be 'pad' where 'output_padding' is not 0.")
    for size, step, apart in zip(sizes, cell.stride, cell.dilation):
        if not 0 <= size < max(step, apart):
            raise ValueError(
                f"For '{name}', the 'output_padding' must be in [0, max(stride, dilation)), but got {cell.output_padding!r}."
            )


class Conv1dTranspose(_Lines):
    """`Conv2dTranspose` of lines [N, C, L].

    Parameters
    ----------
    in_channels : int
        The number of channels of the input.
    out_channels : int
        The number of channels of the result.
    kernel_size
        As in `Conv2dTranspose`.
    stride
        As in `Conv2dTranspose`.
    pad_mode
        As in `Conv2dTranspose`.
    padding
        As in `Conv2dTranspose`.
    dilation
        As in `Conv2dTranspose`.
    group
        As in `Conv2dTranspose`.
    has_bias : bool
        Whether there is a bias.
    weight_init : initializer, str, number or Tensor, optional
        The first weights.
    bias_init : initializer, str, number or Tensor, optional
        The first bias.
    dtype : dtype
        The dtype of the Parameters.
    """

    _transposed = True

    def _convolved(self, x: Any) -> Any:
        return _transposed_of(self, x, (0, 0))


class Conv3dTranspose(_Conv):
    """`Conv2dTranspose` of volumes [N, C, D, H, W]; what `output_padding` adds is part of the transposed map.

    Parameters
    ----------
    in_channels : int
        The number of channels of the input.
    out_channels : int
        The number of channels of the result.
    kernel_size
        As in `Conv2dTranspose`.
    stride
        As in `Conv2dTranspose`.
    pad_mode
        As in `Conv2dTranspose`.
    padding
        As in `Conv2dTranspose`.
    dilation
        As in `Conv2dTranspose`.
    group
        As in `Conv2dTranspose`.
    output_padding : int or tuple of int
        The number of places to add to the result at the end of each dimension.
    has_bias : bool
        Whether there is a bias.
    weight_init : initializer, str, number or Tensor, optional
        The first weights.
    bias_init : initializer, str, number or Tensor, optional
        The first bias.
    data_format : str
        The order of the dimensions.
    dtype : dtype
        The dtype of the Parameters.
    """

    _axes = 3
    _transposed = True

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
        output_padding: Any = 0,
        has_bias: bool = False,
        weight_init: Any = None,
        bias_init: Any = None,
        data_format: str = "NCDHW",
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias),
            *(weight_init, bias_init, data_format, dtype),
        )
        self.output_padding: tuple[int, ...] = _image._each(output_padding, 3)
        if any(self.output_padding):
            _check_output_padding(self, self.output_padding)

    def _convolved(self, x: Any) -> Any:
        return _transposed_of(self, x, self.output_padding)
