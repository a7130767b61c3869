"""A convolution or a product, normalized, with an activation, as one cell."""

from __future__ import annotations

from typing import Any

from framejit.nn._cell import Cell
from framejit.nn._checks import of_type
from framejit.nn._convolution import Conv2d
from framejit.nn._layers import Dense, LeakyReLU, get_activation
from framejit.nn._normalization import BatchNorm1d, BatchNorm2d


class _Combined(Cell):
    has_bn: bool
    has_act: bool

    _layer = ""

    def _complete(self, layer: Cell, norm: Any, activation: Any, alpha: float, **flags: bool) -> None:
        of_type(self, bool, **flags)
        self.insert_child_to_cell(self._layer, layer)
        self.has_bn, self.has_act = flags["has_bn"], activation is not None
        if self.has_bn:
            self.batchnorm: Any = norm()
        self.activation: Any = LeakyReLU(alpha) if activation == "leakyrelu" else get_activation(activation)
        if self.has_act:
            of_type(self, Cell, activation=self.activation)

    def construct(self, x: Any) -> Any:
        """What the layers give, one after the other."""
        x = getattr(self, self._layer)(x)
        if self.has_bn:
            x = self.batchnorm(x)
        return self.activation(x) if self.has_act else x


class Conv2dBnAct(_Combined):
    """`Conv2d`, with `has_bn` `BatchNorm2d`, and an activation, if one is given.

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
    has_bn : bool
        Whether there is a batch normalization.
    momentum : float
        That of the batch normalization.
    eps : float
        A small number that is added to the variance.
    activation : str, Cell or None
        The activation.
    alpha : float
        The slope of ``LeakyReLU``.
    after_fake : bool
        Accepted and ignored.
    """

    _layer = "conv"

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
        weight_init: Any = "normal",
        bias_init: Any = "zeros",
        has_bn: bool = False,
        momentum: float = 0.997,
        eps: float = 1e-5,
        activation: Any = None,
        alpha: float = 0.2,
        after_fake: bool = True,
    ) -> None:
        super().__init__()
        sizes = (kernel_size, stride, pad_mode, padding, dilation, group)
        conv = Conv2d(in_channels, out_channels, *sizes, has_bias, weight_init, bias_init)
        norm = lambda: BatchNorm2d(out_channels, eps, momentum)  # noqa: E731
        self._complete(conv, norm, activation, alpha, has_bn=has_bn, after_fake=after_fake)


class DenseBnAct(_Combined):
    """`Dense`, with `has_bn` `BatchNorm1d`, and an activation, if one is given.

    Parameters
    ----------
    in_channels : int
        The number of channels of the input.
    out_channels : int
        The number of channels of the result.
    weight_init : initializer, str, number or Tensor, optional
        The first weights.
    bias_init : initializer, str, number or Tensor, optional
        The first bias.
    has_bias : bool
        Whether there is a bias.
    has_bn : bool
        Whether there is a batch normalization.
    momentum : float
        That of the batch normalization.
    eps : float
        A small number that is added to the variance.
    activation : str, Cell or None
        The activation.
    alpha : float
        The slope of ``LeakyReLU``.
    after_fake : bool
        Accepted and ignored.
    """

    _layer = "dense"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: Any = "normal",
        bias_init: Any = "zeros",
        has_bias: bool = True,
        has_bn: bool = False,
        momentum: float = 0.9,
        eps: float = 1e-5,
        activation: Any = None,
        alpha: float = 0.2,
        after_fake: bool = True,
    ) -> None:
        super().__init__()
        dense = Dense(in_channels, out_channels, weight_init, bias_init, has_bias)
        norm = lambda: BatchNorm1d(out_channels, eps, momentum)  # noqa: E731
        self._complete(dense, norm, activation, alpha, has_bn=has_bn, after_fake=after_fake)
