"""Pooling as cells."""

from __future__ import annotations

from typing import Any

from framejit import ops
from framejit.nn._cell import Cell
from framejit.nn._checks import of_type, one_of, positive_int, rank
from framejit.ops import _pooling


class _Pool(Cell):
    """Windows of a size, at places by a stride, along `_axes` dimensions of space."""

    kernel_size: Any
    stride: Any
    pad_mode: str
    ceil_mode: bool

    _axes = 2

    def __init__(self, kernel_size: Any, stride: Any, pad_mode: str, padding: Any, ceil_mode: bool) -> None:
        super().__init__()
        of_type(self, str, pad_mode=pad_mode)
        one_of(self, ("VALID", "SAME", "PAD"), pad_mode=pad_mode.upper())
        self.kernel_size, self.stride = self._checked("kernel_size", kernel_size), self._checked("stride", stride)
        self.pad_mode, self.ceil_mode = pad_mode.upper(), ceil_mode
        of_type(self, (int, tuple, list), padding=padding)
        sizes = (padding,) if isinstance(padding, int) else tuple(padding)
        if len(sizes) not in (1, self._axes):
            raise ValueError(
                f"For '{type(self).__name__}', the 'padding' must be an int or have 1 or {self._axes} elements, but got {padding!r}."
            )
        if any(size < 0 for size in sizes):
            raise ValueError(f"For '{type(self).__name__}', the 'padding' must not be negative, but got {padding!r}.")
        self.padding: tuple[int, ...] | tuple[Any, ...] = sizes * self._axes if len(sizes) == 1 else sizes

    def _checked(self, name: str, value: Any) -> Any:
        of_type(self, int if self._axes == 1 else (int, tuple), **{name: value})
        values = (value,) if isinstance(value, int) else value
        if any(not isinstance(item, int) or item < 1 for item in values):
            raise ValueError(f"For '{type(self).__name__}', the '{name}' must be positive, but got {value!r}.")
        if len(values) not in (1, self._axes):
            raise ValueError(
                f"For '{type(self).__name__}', the '{name}' must be an int or have {self._axes} elements, but got {value!r}."
            )
        return values[0] if len(values) == 1 else values

    def _needs_pad(self, *not_default: Any) -> None:
        if self.pad_mode != "PAD" and any(not_default):
            raise ValueError(
                f"For '{type(self).__name__}', the 'pad_mode' must be 'pad' where other options are not as by default, but got "
                f"{self.pad_mode!r}."
            )

    def construct(self, x: Any) -> Any:
        """The pooled Tensor; with or without the dimension of the batch."""
        rank(self, x, self._axes + 1, self._axes + 2)
        if x.ndim == self._axes + 2:
            return self._pooled(x)
        out = self._pooled(x.expand_dims(0))
        return (out[0].squeeze(0), out[1].squeeze(0)) if isinstance(out, tuple) else out.squeeze(0)

    def extend_repr(self) -> str:
        """The sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, pad_mode={self.pad_mode}"


class _MaxPool(_Pool):
    def __init__(
        self,
        kernel_size: Any = 1,
        stride: Any = 1,
        pad_mode: str = "valid",
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, pad_mode, padding, ceil_mode)
        if not isinstance(dilation, int) and not (isinstance(dilation, tuple) and len(dilation) in (1, self._axes)):
            raise ValueError(
                f"For '{type(self).__name__}', the 'dilation' must be int or a tuple of {self._axes}, but got {dilation!r}."
            )
        self.dilation: Any = dilation[0] if isinstance(dilation, tuple) and len(dilation) == 1 else dilation
        self.return_indices = return_indices
        self._needs_pad(any(self.padding), dilation != 1, return_indices, ceil_mode and self._axes < 3)

    def _pooled(self, x: Any) -> Any:
        return _pooling._max_pool(
            self._axes,
            x,
            self.kernel_size,
            self.stride,
            self.pad_mode,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


class MaxPool1d(_MaxPool):
    """`MaxPool2d` of [N, C, L].

    Parameters
    ----------
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
    return_indices : bool
        Return a pair, with the positions of the largest elements as int64.
    ceil_mode : bool
        Whether a last window may reach over the end.
    """

    _axes = 1


class MaxPool2d(_MaxPool):
    """The largest element under each window of [N, C, H, W].

    Parameters
    ----------
    kernel_size, stride : int or tuple
        Sizes of the windows, and how far one is from the next.
    pad_mode : {'same', 'valid', 'pad'}
        ``'pad'`` puts `padding` elements around that are never the largest.
    padding, dilation : int or tuple
        Elements around; distances within a window.
    return_indices : bool
        The result is a pair, with the places (int64) among those of an image.
    ceil_mode : bool
        A last window may reach over the end.
    data_format : str
        The order of the dimensions.
    """

    _axes = 2

    def __init__(
        self,
        kernel_size: Any = 1,
        stride: Any = 1,
        pad_mode: str = "valid",
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
    ) -> None:
        one_of(self, ("NCHW",), data_format=data_format)
        super().__init__(kernel_size, stride, pad_mode, padding, dilation, return_indices, ceil_mode)


class MaxPool3d(_MaxPool):
    """`MaxPool2d` of [N, C, D, H, W].

    Parameters
    ----------
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
    return_indices : bool
        Return a pair, with the positions of the largest elements as int64.
    ceil_mode : bool
        Whether a last window may reach over the end.
    """

    _axes = 3


class _AvgPool(_Pool):
    count_include_pad: bool
    divisor_override: int | None

    def __init__(
        self,
        kernel_size: Any = 1,
        stride: Any = 1,
        pad_mode: str = "valid",
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, pad_mode, padding, ceil_mode)
        if divisor_override is not None and divisor_override <= 0:
            raise ValueError(
                f"For '{type(self).__name__}', the 'divisor_override' must be positive, but got {divisor_override}."
            )
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override
        self._needs_pad(any(self.padding))
        # As MindSpore has it, the zeros of 'same' count, but not of lines and images where nothing else is asked for.
        plain = self._axes < 3 and self.pad_mode != "PAD" and not ceil_mode and divisor_override is None
        self._counted = count_include_pad and not plain

    def _pooled(self, x: Any) -> Any:
        return _pooling._avg_pool(
            self._axes,
            x,
            self.kernel_size,
            self.stride,
            self.pad_mode,
            self.padding,
            self.ceil_mode,
            self._counted,
            self.divisor_override,
        )


class AvgPool1d(_AvgPool):
    """`AvgPool2d` of [N, C, L].

    Parameters
    ----------
    kernel_size : int or tuple of int
        The size of the windows.
    stride : int or tuple of int
        The distance from one window to the next.
    pad_mode : {'same', 'valid', 'pad'}
        ``'same'`` adds elements so that the result has the size of the input divided by `stride`, ``'valid'`` adds
        none, ``'pad'`` adds `padding`.
    padding : int or tuple of int
        The number of elements to add at each side.
    ceil_mode : bool
        Whether a last window may reach over the end.
    count_include_pad : bool
        Whether added zeros count for the mean.
    """

    _axes = 1

    def __init__(
        self,
        kernel_size: int = 1,
        stride: int = 1,
        pad_mode: str = "valid",
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, pad_mode, padding, ceil_mode, count_include_pad)


class AvgPool2d(_AvgPool):
    """The mean under each window of [N, C, H, W].

    Parameters
    ----------
    kernel_size, stride : int or tuple
        Sizes of the windows, and how far one is from the next.
    pad_mode : {'same', 'valid', 'pad'}
        ``'pad'`` puts `padding` zeros around.
    padding : int or tuple
        Zeros around.
    ceil_mode : bool
        A last window may reach over the end.
    count_include_pad : bool
        Whether the zeros count.
    divisor_override : int, optional
        Sums are divided by it.
    data_format : str
        The order of the dimensions.
    """

    _axes = 2

    def __init__(
        self,
        kernel_size: Any = 1,
        stride: Any = 1,
        pad_mode: str = "valid",
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        data_format: str = "NCHW",
    ) -> None:
        one_of(self, ("NCHW",), data_format=data_format)
        super().__init__(kernel_size, stride, pad_mode, padding, ceil_mode, count_include_pad, divisor_override)


class AvgPool3d(_AvgPool):
    """`AvgPool2d` of [N, C, D, H, W].

    Parameters
    ----------
    kernel_size : int or tuple of int
        The size of the windows.
    stride : int or tuple of int
        The distance from one window to the next.
    pad_mode : {'same', 'valid', 'pad'}
        ``'same'`` adds elements so that the result has the size of the input divided by `stride`, ``'valid'`` adds
        none, ``'pad'`` adds `padding`.
    padding : int or tuple of int
        The number of elements to add at each side.
    ceil_mode : bool
        Whether a last window may reach over the end.
    count_include_pad : bool
        Whether added zeros count for the mean.
    divisor_override : int, optional
        The divisor of sums, instead of the number of elements.
    """

    _axes = 3


class _LPPool(Cell):
    norm_type: float
    kernel_size: Any
    stride: Any
    ceil_mode: bool

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode


class LPPool1d(_LPPool):
    """sum(x ** norm_type) ** (1 / norm_type) under each window of [N, C, L].

    Parameters
    ----------
    norm_type : float
        The exponent.
    kernel_size : int or tuple of int
        The size of the windows.
    stride : int or tuple of int
        The distance from one window to the next.
    ceil_mode : bool
        Whether a last window may reach over the end.
    """

    def construct(self, x: Any) -> Any:
        """The pooled lines."""
        return ops.lp_pool1d(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPool):
    """sum(x ** norm_type) ** (1 / norm_type) under each window of [N, C, H, W].

    Parameters
    ----------
    norm_type : float
        The exponent.
    kernel_size : int or tuple of int
        The size of the windows.
    stride : int or tuple of int
        The distance from one window to the next.
    ceil_mode : bool
        Whether a last window may reach over the end.
    """

    def construct(self, x: Any) -> Any:
        """The pooled images."""
        return ops.lp_pool2d(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class _Adaptive(Cell):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extend_repr(self) -> str:
        """The sizes."""
        return f"output_size={self.output_size}"


class _AdaptiveLine(_Adaptive):
    def __init__(self, output_size: int) -> None:
        positive_int(self, output_size=output_size)
        super().__init__(output_size)

    def _check(self, x: Any) -> None:
        rank(self, x, 3)
        if x.shape[2] % self.output_size:
            raise ValueError(
                f"For '{type(self).__name__}', the last dimension must be divisible by the 'output_size' {self.output_size}, but got "
                f"{x.shape[2]}."
            )


class AdaptiveAvgPool1d(_AdaptiveLine):
    """The means of `output_size` equal parts of [N, C, L].

    Parameters
    ----------
    output_size : int or tuple
        The size of the result; None keeps a dimension.
    """

    def construct(self, input: Any) -> Any:
        """The pooled lines."""
        self._check(input)
        return ops.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveMaxPool1d(_AdaptiveLine):
    """The largest elements of `output_size` equal parts of [N, C, L].

    Parameters
    ----------
    output_size : int or tuple
        The size of the result; None keeps a dimension.
    """

    def construct(self, x: Any) -> Any:
        """The pooled lines."""
        self._check(x)
        return ops.adaptive_max_pool1d(x, self.output_size)


class AdaptiveAvgPool2d(_Adaptive):
    """The means of `output_size` parts of [N, C, H, W]; None leaves a dimension as it is.

    Parameters
    ----------
    output_size : int or tuple
        The size of the result; None keeps a dimension.
    """

    def construct(self, input: Any) -> Any:
        """The pooled images."""
        return ops.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_Adaptive):
    """The means of `output_size` parts of [N, C, D, H, W]; None leaves a dimension as it is.

    Parameters
    ----------
    output_size : int or tuple
        The size of the result; None keeps a dimension.
    """

    def construct(self, input: Any) -> Any:
        """The pooled volumes."""
        return ops.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool2d(_Adaptive):
    """The largest elements of `output_size` parts of [N, C, H, W], with `return_indices` also their places (int64).

    Parameters
    ----------
    output_size : int or tuple
        The size of the result; None keeps a dimension.
    return_indices : bool
        Return a pair, with the positions of the largest elements as int64.
    """

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def construct(self, input: Any) -> Any:
        """The pooled images."""
        return ops.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_Adaptive):
    """The largest elements of `output_size` parts of [N, C, D, H, W], with `return_indices` also their places.

    Parameters
    ----------
    output_size : int or tuple
        The size of the result; None keeps a dimension.
    return_indices : bool
        Return a pair, with the positions of the largest elements as int64.
    """

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def construct(self, input: Any) -> Any:
        """The pooled volumes."""
        return ops.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _MaxUnpool(Cell):
    kernel_size: Any
    stride: Any
    padding: Any

    _axes = 2

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding

    def construct(self, x: Any, indices: Any, output_size: Any = None) -> Any:
        """The elements at their places, zeros elsewhere."""
        if output_size is not None and (not isinstance(output_size, tuple) or not output_size):
            raise ValueError(
                f"For '{type(self).__name__}', the 'output_size' must be a tuple that is not empty, but got {output_size!r}."
            )
        return _pooling._max_unpool(self._axes, x, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpool):
    """`MaxUnpool2d` of [N, C, L].

    Parameters
    ----------
    kernel_size : int or tuple of int
        The size of the windows.
    stride : int or tuple of int
        The distance from one window to the next.
    padding : int or tuple of int
        The number of elements to add at each side.
    """

    _axes = 1


class MaxUnpool2d(_MaxUnpool):
    """Zeros with the elements at the places from which `MaxPool2d` took them.

    Parameters
    ----------
    kernel_size : int or tuple of int
        The size of the windows.
    stride : int or tuple of int
        The distance from one window to the next.
    padding : int or tuple of int
        The number of elements to add at each side.
    """

    _axes = 2


class MaxUnpool3d(_MaxUnpool):
    """`MaxUnpool2d` of [N, C, D, H, W].

    Parameters
    ----------
    kernel_size : int or tuple of int
        The size of the windows.
    stride : int or tuple of int
        The distance from one window to the next.
    padding : int or tuple of int
        The number of elements to add at each side.
    """

    _axes = 3


class _FractionalMaxPool(Cell):
    kernel_size: Any
    output_size: Any
    output_ratio: Any
    return_indices: bool

    _pool: Any = None

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices, self._random_samples = return_indices, _random_samples

    def construct(self, input: Any) -> Any:
        """The pooled Tensor."""
        options = (self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples)
        return type(self)._pool(input, *options)


class FractionalMaxPool2d(_FractionalMaxPool):
    """`ops.fractional_max_pool2d` with these options.

    Parameters
    ----------
    kernel_size : int or tuple of int
        The size of the windows.
    output_size : int or tuple of int, optional
        The size of the result.
    output_ratio : float or tuple of float, optional
        The size of the result relative to the input.
    return_indices : bool
        Return a pair, with the positions of the largest elements as int64.
    _random_samples : Tensor, optional
        Numbers that choose the windows; random by default.
    """

    _pool = ops.fractional_max_pool2d


class FractionalMaxPool3d(_FractionalMaxPool):
    """`ops.fractional_max_pool3d` with these options.

    Parameters
    ----------
    kernel_size : int or tuple of int
        The size of the windows.
    output_size : int or tuple of int, optional
        The size of the result.
    output_ratio : float or tuple of float, optional
        The size of the result relative to the input.
    return_indices : bool
        Return a pair, with the positions of the largest elements as int64.
    _random_samples : Tensor, optional
        Numbers that choose the windows; random by default.
    """

    _pool = ops.fractional_max_pool3d
