"""Images of another size or with a border, elements moved between channels and space, and how alike images are, as cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._tensor import Tensor
from framejit.nn._cell import Cell, _Plain
from framejit.nn._checks import float_tensor, of_type, one_of, positive_int, tensor
from framejit.nn._containers import CellList
from framejit.nn._convolution import Conv2d


class Upsample(Cell):
    """`ops.interpolate` with these options.

    Parameters
    ----------
    size : int or tuple of int, optional
        The size of the result.
    scale_factor : float or tuple of float, optional
        The size of the result relative to the input.
    mode : str
        How values between elements are computed.
    align_corners : bool, optional
        Whether the centers of the corner elements keep their places.
    recompute_scale_factor : bool, optional
        Whether the factor is computed again from the sizes.
    """

    size: Any
    scale_factor: Any
    mode: str
    align_corners: bool | None
    recompute_scale_factor: bool | None

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def construct(self, x: Any) -> Any:
        """The input in its new size."""
        return ops.interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extend_repr(self) -> str:
        """The options."""
        return f"size={self.size}, scale_factor={self.scale_factor}, mode={self.mode}"


class PixelShuffle(Cell):
    """[..., C * r * r, H, W] as [..., C, H * r, W * r].

    Parameters
    ----------
    upscale_factor : int
        The factor r.
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def construct(self, input: Any) -> Any:
        """The larger images."""
        return ops.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Cell):
    """[..., C, H * r, W * r] as [..., C * r * r, H, W].

    Parameters
    ----------
    downscale_factor : int
        The factor r.
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def construct(self, input: Any) -> Any:
        """The smaller images."""
        return ops.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Cell):
    """The channels of `groups` groups, one of each in turn.

    Parameters
    ----------
    groups : int
        The number of groups.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def construct(self, x: Any) -> Any:
        """The images with their channels in another order."""
        return ops.channel_shuffle(x, self.groups)


# --- Borders --------------------------------------------------------------------------------------------------------------------


class _Border(Cell):
    """`padding` has (before, after) of the last dimension, then of the one before it; an int applies to all of them."""

    _axes = 2
    _mode = "constant"

    value: Any = None

    def __init__(self, padding: Any) -> None:
        super().__init__()
        name = type(self).__name__
        of_type(self, (int, tuple), padding=padding)
        sizes = (padding,) * (2 * self._axes) if isinstance(padding, int) else padding
        if len(sizes) % 2 or len(sizes) > 2 * self._axes:
            raise ValueError(
                f"For '{name}', the 'padding' must be an int or have up to {self._axes} pairs, but got {padding!r}."
            )
        of_type(self, int, **{f"padding[{at}]": size for at, size in enumerate(sizes)})
        if self._mode == "reflect" and any(size < 0 for size in sizes):
            raise ValueError(f"For '{name}', the 'padding' must not be negative, but got {padding!r}.")
        self.padding = sizes

    def construct(self, x: Any) -> Any:
        """The input with its border."""
        return ops.pad(x, self.padding, self._mode, self.value)

    def extend_repr(self) -> str:
        """The sizes."""
        return f"padding={self.padding}"


class _Constant(_Border):
    def __init__(self, padding: Any, value: Any) -> None:
        of_type(self, (int, float), value=value)
        super().__init__(padding)
        self.value = value


_PADDING = """

Parameters
----------
padding : int or tuple of int
    (before, after) of the last dimension, then of the one before it; an int is used for all of them.
"""
_VALUE = "value : number\n    The value of the border.\n"


def _borders(name: str, base: type, mode: str, doc: str) -> None:
    for axes in (1, 2, 3):
        own = f"{name}{axes}d"
        body = {"_axes": axes, "_mode": mode, "__doc__": doc.format(axes), "__module__": __name__, "__qualname__": own}
        globals()[own] = type(own, (base,), body)


_borders(
    "ConstantPad",
    _Constant,
    "constant",
    "A border of one value around the last {} dimensions; negative sizes cut." + _PADDING + _VALUE,
)
_borders(
    "ReflectionPad", _Border, "reflect", "A border of the reflected input, along the last {} dimensions." + _PADDING
)
_borders(
    "ReplicationPad",
    _Border,
    "replicate",
    "A border of the elements at the edge, along the last {} dimensions." + _PADDING,
)


class ZeroPad2d(_Border):
    """A border of zeros around the last two dimensions; negative sizes cut.

    Parameters
    ----------
    padding : int or tuple of int
        The number of elements to add at each side.
    """

    value = 0


class Pad(Cell):
    """`paddings` has (before, after) for each dimension; the border is 0, or is reflected with or without the edge.

    Parameters
    ----------
    paddings : tuple of pairs of int
        For each dimension, the numbers of elements before and after.
    mode : {'CONSTANT', 'REFLECT', 'SYMMETRIC'}
        The content of the border: zeros, the input reflected without its edge, or with it.
    """

    mode: str
    paddings: Any

    def __init__(self, paddings: Any, mode: str = "CONSTANT") -> None:
        super().__init__()
        one_of(self, ("CONSTANT", "REFLECT", "SYMMETRIC"), mode=mode)
        of_type(self, tuple, paddings=paddings)
        if len(paddings) > 4 or any(len(pair) != 2 for pair in paddings):
            raise ValueError(f"For 'Pad', the 'paddings' must be up to four pairs, but got {paddings!r}.")
        self.mode, self.paddings = mode, paddings

    def construct(self, x: Any) -> Any:
        """The input with its border."""
        return ops._shape._padded(x, self.paddings, self.mode.lower())


# --- Normalization over channels, and crops -------------------------------------------------------------------------------------


class LRN(Cell):
    """x / (bias + alpha * sum of the squares of the `depth_radius` channels on each side) ** beta.

    Parameters
    ----------
    depth_radius : int
        The number of channels on each side.
    bias : float
        The constant that is added.
    alpha : float
        The weight of the sum.
    beta : float
        The exponent.
    norm_region : {'ACROSS_CHANNELS'}
        The only choice.
    """

    depth_radius: int
    bias: float
    alpha: float
    beta: float

    def __init__(
        self,
        depth_radius: int = 5,
        bias: float = 1.0,
        alpha: float = 1.0,
        beta: float = 0.5,
        norm_region: str = "ACROSS_CHANNELS",
    ) -> None:
        super().__init__()
        of_type(self, int, depth_radius=depth_radius)
        of_type(self, float, bias=bias, alpha=alpha, beta=beta)
        one_of(self, ("ACROSS_CHANNELS",), norm_region=norm_region)
        self.depth_radius, self.bias, self.alpha, self.beta = depth_radius, bias, alpha, beta

    def construct(self, input_x: Any) -> Any:
        """The normalized images."""
        return ops.lrn(input_x, self.depth_radius, self.bias, self.alpha, self.beta)


class CentralCrop(Cell):
    """The middle of an image [C, H, W] or [N, C, H, W]: `central_fraction` of its height and width.

    Parameters
    ----------
    central_fraction : float
        The share of height and width to keep.
    """

    kept: int
    of: int

    def __init__(self, central_fraction: float) -> None:
        super().__init__()
        of_type(self, (int, float), central_fraction=central_fraction)
        if not 0 < central_fraction <= 1:
            raise ValueError(
                f"For 'CentralCrop', the 'central_fraction' must be in (0, 1], but got {central_fraction}."
            )
        self.central_fraction = central_fraction
        self.kept, self.of = float(central_fraction).as_integer_ratio()

    def construct(self, image: Any) -> Any:
        """The middle."""
        if image.ndim not in (3, 4):
            raise ValueError(f"For 'CentralCrop', the image must have 3 or 4 dimensions, but got {image.ndim}.")
        height, width = image.shape[-2:]
        off, of = self.of - self.kept, 2 * self.of
        top, left = height * off // of, width * off // of
        return image[..., top : height - top, left : width - left]


class ImageGradients(_Plain):
    """Differences of neighbours down and to the right; 0 in the last row and column."""

    def construct(self, images: Any) -> Any:
        """(down, right)."""
        if images.ndim != 4:
            raise ValueError(f"For 'ImageGradients', the images must have 4 dimensions, but got {images.ndim}.")
        down = images[:, :, 1:] - images[:, :, :-1]
        right = images[:, :, :, 1:] - images[:, :, :, :-1]
        return ops.pad(down, (0, 0, 0, 1)), ops.pad(right, (0, 1))


# --- How alike images are ---------------------------------------------------------------------------------------------------------


def _alike(cell: Cell, img1: Any, img2: Any) -> None:
    """`TypeError` and `ValueError` for what are no images [N, C, H, W] of one dtype and shape."""
    name = type(cell).__name__
    tensor(cell, "img1", img1)
    tensor(cell, "img2", img2)
    if img1.ndim != 4:
        raise ValueError(f"For '{name}', the 'img1' must have 4 dimensions, but got {img1.shape}.")
    if img1.dtype is not img2.dtype:
        raise TypeError(f"For '{name}', the images must be of one dtype, but got {img1.dtype} and {img2.dtype}.")
    if img1.shape != img2.shape:
        raise ValueError(f"For '{name}', the images must have one shape, but got {img1.shape} and {img2.shape}.")


def _largest(cell: Cell, max_val: Any) -> Any:
    of_type(cell, (int, float), max_val=max_val)
    if max_val <= 0:
        raise ValueError(f"For '{type(cell).__name__}', the 'max_val' must be positive, but got {max_val}.")
    return max_val


def _as_float32(img1: Any, img2: Any) -> tuple[Any, Any]:
    """As float32; uint8 is divided by 255."""
    if img1.dtype is ALL["uint8"]:
        return img1.astype("float32") * (1 / 255), img2.astype("float32") * (1 / 255)
    return img1.astype("float32"), img2.astype("float32")


class PSNR(Cell):
    """10 * log10(max_val ** 2 / mean squared difference) of images [N, C, H, W].

    Parameters
    ----------
    max_val : float
        The largest possible difference of two elements.
    """

    def __init__(self, max_val: float = 1.0) -> None:
        super().__init__()
        self.max_val: Any = _largest(self, max_val)
        self._squares = (max_val**2, (max_val / 255) ** 2)

    def construct(self, img1: Any, img2: Any) -> Any:
        """The ratio of each image."""
        _alike(self, img1, img2)
        first, second = _as_float32(img1, img2)
        error = ops.mean(ops.square(first - second), (-3, -2, -1))
        return ops.log(self._squares[img1.dtype is ALL["uint8"]] / error) * (10 / 2.302585092994046)


class _Structure(Cell):
    """Images compared by means, variances and covariance in Gaussian windows."""

    max_val: Any
    filter_size: int
    k1: float
    k2: float

    def __init__(self, max_val: float, filter_size: int, filter_sigma: float, k1: float, k2: float) -> None:
        super().__init__()
        positive_int(self, filter_size=filter_size)
        of_type(self, float, filter_sigma=filter_sigma, k1=k1, k2=k2)
        if filter_sigma <= 0:
            raise ValueError(
                f"For '{type(self).__name__}', the 'filter_sigma' must be positive, but got {filter_sigma}."
            )
        self.max_val, self.filter_size, self.k1, self.k2 = _largest(self, max_val), filter_size, k1, k2
        self._small = ((k1 * max_val) ** 2, (k2 * max_val) ** 2)
        self._small_of_bytes = tuple([n / 255**2 for n in self._small])
        away = np.square(np.arange(filter_size, dtype=np.float32) - (filter_size - 1) // 2)
        window = np.exp(-(away[:, None] + away) / np.float32(2 * filter_sigma**2))
        self._window = Tensor((window / window.sum())[None, None])

    def _windows(self) -> Conv2d:
        conv = Conv2d(1, 1, self.filter_size, pad_mode="valid", weight_init=self._window)
        conv.weight.requires_grad = False
        return conv

    def _compared(self, conv: Conv2d, small: Any, img1: Any, img2: Any) -> tuple[Any, Any]:
        """(likeness, the part of it that knows no brightness), by image and channel."""
        count, channels, height, width = img1.shape
        if min(height, width) < self.filter_size:
            raise ValueError(
                f"For '{type(self).__name__}', images must not be smaller than 'filter_size' {self.filter_size}, but got {img1.shape}."
            )
        bright, varied = small
        first, second = [image.reshape((-1, 1, height, width)) for image in (img1, img2)]
        mean1, mean2 = conv(first), conv(second)
        both, squares = mean1 * mean2, ops.square(mean1) + ops.square(mean2)
        variances = conv(ops.square(first)) + conv(ops.square(second)) - squares
        contrast = (2 * (conv(first * second) - both) + varied) / (variances + varied)
        likeness = (2 * both + bright) / (squares + bright) * contrast
        first, second = [ops.mean(x, (1, 2, 3)).reshape((count, channels)) for x in (likeness, contrast)]
        return first, second


class SSIM(_Structure):
    """How alike the structure of images [N, C, H, W] is: 1 where they are equal.

    Parameters
    ----------
    max_val : float
        The largest value of an element.
    filter_size, filter_sigma : int, float
        Length and width of the Gaussian windows.
    k1, k2 : float
        How much keeps denominators from 0, for means and for variances.
    """

    def __init__(
        self,
        max_val: float = 1.0,
        filter_size: int = 11,
        filter_sigma: float = 1.5,
        k1: float = 0.01,
        k2: float = 0.03,
    ) -> None:
        super().__init__(max_val, filter_size, filter_sigma, k1, k2)
        self.conv: Conv2d = self._windows()

    def construct(self, img1: Any, img2: Any) -> Any:
        """The likeness of each pair."""
        float_tensor(self, "img1", img1)
        _alike(self, img1, img2)
        return ops.mean(self._compared(self.conv, self._small, *_as_float32(img1, img2))[0], -1)


class MSSSIM(_Structure):
    """`SSIM` at several sizes, each half of the one before: a product with `power_factors` as exponents.

    Parameters
    ----------
    max_val : float
        The largest possible difference of two elements.
    power_factors : tuple of float
        The exponents, one for each size.
    filter_size : int
        The size of the windows.
    filter_sigma : float
        The width of the Gaussian weights.
    k1 : float
        The constant of the luminance.
    k2 : float
        The constant of the contrast.
    """

    def __init__(
        self,
        max_val: float = 1.0,
        power_factors: Any = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333),
        filter_size: int = 11,
        filter_sigma: float = 1.5,
        k1: float = 0.01,
        k2: float = 0.03,
    ) -> None:
        super().__init__(max_val, filter_size, filter_sigma, k1, k2)
        of_type(self, (tuple, list), power_factors=power_factors)
        self.power_factors: tuple[Any, ...] = tuple(power_factors)
        self.multi_convs_list: CellList = CellList([self._windows() for _ in power_factors])

    def construct(self, img1: Any, img2: Any) -> Any:
        """The likeness of each pair."""
        _alike(self, img1, img2)
        small = self._small_of_bytes if img1.dtype is ALL["uint8"] else self._small
        img1, img2 = _as_float32(img1, img2)
        product: Any = 1.0
        for at, conv in enumerate(self.multi_convs_list):
            last = at == len(self.power_factors) - 1
            likeness, contrast = self._compared(conv, small, img1, img2)
            product = product * ops.pow(ops.relu(likeness if last else contrast), self.power_factors[at])
            if not last:
                img1, img2 = ops.avg_pool2d(img1, 2, 2), ops.avg_pool2d(img2, 2, 2)
        return ops.mean(product, -1)
