"""``mindspore.dataset.vision``: functions of pictures, which are arrays of (height, width, channels), or (height, width)."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from numbers import Number
from typing import Any

import numpy as np

from framejit._api._dtypes import dtype_to_nptype
from framejit.dataset.transforms import _share

__all__ = [
    "Border", "CenterCrop", "Crop", "HWC2CHW", "HorizontalFlip", "Inter", "Invert", "Normalize", "Pad", "RandomCrop",
    "RandomHorizontalFlip", "RandomResizedCrop", "RandomVerticalFlip", "Rescale", "Resize", "ToTensor", "ToType", "VerticalFlip",
]  # fmt: skip


class Inter(IntEnum):
    """How elements between those of a picture are found."""

    NEAREST = 0
    ANTIALIAS = 1
    BILINEAR = LINEAR = 2
    BICUBIC = CUBIC = 3
    AREA = 4
    PILCUBIC = 5


class Border(StrEnum):
    """The kinds of elements around a picture."""

    CONSTANT = "constant"
    EDGE = "edge"
    REFLECT = "reflect"
    SYMMETRIC = "symmetric"


# --- Arguments ---------------------------------------------------------------------------------------------------------------


def _picture(image: Any, ranks: tuple[int, ...] = (2, 3)) -> Any:
    if not isinstance(image, (np.ndarray, np.generic)):
        raise TypeError(f"Input should be NumPy or PIL image, got {type(image)}.")
    if image.ndim not in ranks:
        raise RuntimeError(
            f"Invalid image, it must have {' or '.join(map(str, ranks))} dimensions, but got {image.ndim}."
        )
    return image


def _number(name: str, value: Any) -> Any:
    if not isinstance(value, Number) or isinstance(value, bool):
        raise TypeError(
            f"Argument {name} with value {value} is not of type [<class 'numbers.Number'>], but got {type(value)}."
        )
    return value


def _pair(size: Any) -> tuple[int, int]:
    """(height, width); one number is both."""
    if isinstance(size, int) and not isinstance(size, bool):
        size = (size, size)
    if not isinstance(size, (list, tuple)) or len(size) != 2 or not all(isinstance(one, int) for one in size):
        raise TypeError("Size should be a single integer or a list/tuple (h, w) of length 2.")
    if min(size) < 1:
        raise ValueError("Input is not within the required interval of [1, 16777216].")
    return size[0], size[1]


def _kind(interpolation: Any) -> Inter:
    if not isinstance(interpolation, Inter):
        raise TypeError(
            f"Argument interpolation with value {interpolation} is not of type [<enum 'Inter'>], but got {type(interpolation)}."
        )
    if interpolation not in (Inter.NEAREST, Inter.BILINEAR):
        raise ValueError(f"The 'interpolation' must be NEAREST or BILINEAR, but got {interpolation.name}.")
    return interpolation


def _sides(padding: Any) -> tuple[int, int, int, int]:
    """(left, top, right, bottom)."""
    if isinstance(padding, int) and not isinstance(padding, bool):
        padding = (padding,) * 4
    if not isinstance(padding, (list, tuple)) or len(padding) not in (2, 4):
        raise TypeError("padding should be a single number or a list/tuple of length 2 or 4.")
    if min(padding) < 0:
        raise ValueError("Input padding is not within the required interval of [0, 2147483647].")
    left, top = padding[:2]
    right, bottom = padding[-2:]
    return left, top, right, bottom


# --- Numbers -----------------------------------------------------------------------------------------------------------------


class Rescale:
    """image * rescale + shift, in float32.

    Parameters
    ----------
    rescale, shift : float
        The factor and the summand.
    """

    rescale: float
    shift: float

    def __init__(self, rescale: float, shift: float) -> None:
        self.rescale, self.shift = _number("rescale", rescale), _number("shift", shift)

    def __call__(self, image: Any) -> Any:
        image = _picture(image, (1, 2, 3, 4)).astype(np.float64)
        return (image * np.float32(self.rescale).astype(np.float64) + np.float32(self.shift)).astype(np.float32)


class Normalize:
    """(image - mean) / std of each channel, in float32.

    Parameters
    ----------
    mean, std : list of float
        A number for each channel, or one for all of them.
    is_hwc : bool
        Whether the channels are the last axis; otherwise they are the first one.
    """

    mean: Any
    std: Any
    is_hwc: bool

    def __init__(self, mean: Any, std: Any, is_hwc: bool = True) -> None:
        if not isinstance(mean, (list, tuple)) or not isinstance(std, (list, tuple)):
            raise TypeError("Argument mean and std must be of type [<class 'list'>, <class 'tuple'>].")
        if len(mean) != len(std):
            raise ValueError("Length of mean and std must be equal.")
        for at, one in enumerate(std):
            if not 0 < one <= 255:
                raise ValueError(f"Input std[{at}] is not within the required interval of (0, 255].")
        self.mean, self.std, self.is_hwc = np.asarray(mean, np.float32), np.asarray(std, np.float32), is_hwc

    def __call__(self, image: Any) -> Any:
        image = _picture(image).astype(np.float32)
        channels = 1 if image.ndim == 2 else image.shape[-1 if self.is_hwc else 0]
        if len(self.mean) not in (1, channels):
            raise RuntimeError(
                f"Normalize: invalid parameter, there are {channels} channels, but {len(self.mean)} numbers."
            )
        across = (-1, 1, 1) if image.ndim == 3 and not self.is_hwc else (-1,)
        return (image - self.mean.reshape(across)) / self.std.reshape(across)


class Invert:
    """255 - image of three channels."""

    def __call__(self, image: Any) -> Any:
        image = _picture(image, (3,))
        if image.shape[-1] != 3:
            raise RuntimeError(f"Invert: invalid image, it must have 3 channels, but got {image.shape[-1]}.")
        return image.dtype.type(255) - image


class ToType:
    """The picture in another dtype.

    Parameters
    ----------
    data_type : dtype
        A dtype of NumPy or of this package.
    """

    data_type: np.dtype[Any]

    def __init__(self, data_type: Any) -> None:
        try:
            self.data_type = np.dtype(data_type)
        except TypeError:
            self.data_type = np.dtype(dtype_to_nptype(data_type))

    def __call__(self, image: Any) -> Any:
        return _picture(image, (0, 1, 2, 3, 4)).astype(self.data_type)


class HWC2CHW:
    """The channels as the first axis."""

    def __call__(self, image: Any) -> Any:
        image = _picture(image)
        return image if image.ndim == 2 else np.ascontiguousarray(image.transpose(2, 0, 1))


class ToTensor(ToType):
    """image / 255, with the channels as the first axis.

    Parameters
    ----------
    output_type : dtype
        A dtype of NumPy or of this package.
    """

    def __init__(self, output_type: Any = np.float32) -> None:
        super().__init__(output_type)

    def __call__(self, image: Any) -> Any:
        image = _picture(image)
        image = image[None] if image.ndim == 2 else image.transpose(2, 0, 1)
        return np.ascontiguousarray((image.astype(np.float32) * np.float32(1 / 255)).astype(self.data_type))


# --- Parts and borders -------------------------------------------------------------------------------------------------------


class Crop:
    """A part of the picture.

    Parameters
    ----------
    coordinates : pair of int
        Its upper left corner: the row and the column.
    size : int or pair of int
        Its height and width.
    """

    size: tuple[int, int]
    top: int
    left: int

    def __init__(self, coordinates: Any, size: Any) -> None:
        self.size = _pair(size)
        self.top, self.left = coordinates

    def __call__(self, image: Any) -> Any:
        return _part(_picture(image), self.top, self.left, *self.size)


def _part(image: Any, top: int, left: int, height: int, width: int) -> Any:
    if min(top, left) < 0 or top + height > image.shape[0] or left + width > image.shape[1]:
        raise RuntimeError(
            f"Crop: invalid parameter, ({top}, {left}) and ({height}, {width}) are not within a picture of {image.shape}."
        )
    return image[top : top + height, left : left + width].copy()


class Pad:
    """The picture with a border.

    Parameters
    ----------
    padding : int, or list of int
        The widths: of all sides, of left and right and of top and bottom, or of left, top, right and bottom.
    fill_value : int or tuple of int
        The elements of a constant border, or those of each channel.
    padding_mode : Border
        The kind of border.
    """

    padding: tuple[int, int, int, int]
    fill_value: Any
    padding_mode: Border

    def __init__(self, padding: Any, fill_value: Any = 0, padding_mode: Border = Border.CONSTANT) -> None:
        self.padding, self.fill_value = _sides(padding), fill_value
        if not isinstance(padding_mode, Border):
            raise TypeError(
                f"Argument padding_mode with value {padding_mode} is not of type [<enum 'Border'>], but got {type(padding_mode)}."
            )
        self.padding_mode = padding_mode

    def __call__(self, image: Any) -> Any:
        return _padded(_picture(image), self.padding, self.fill_value, self.padding_mode)


def _padded(image: Any, padding: tuple[int, int, int, int], fill_value: Any, mode: Any) -> Any:
    left, top, right, bottom = padding
    widths = [(top, bottom), (left, right), (0, 0)][: image.ndim]
    if mode is not Border.CONSTANT:
        return np.pad(image, widths, mode=mode.value)
    out = np.empty([size + sum(width) for size, width in zip(image.shape, widths, strict=True)], image.dtype)
    channels = 1 if image.ndim == 2 else image.shape[2]
    values = np.ravel(fill_value)
    out[...] = values[0] if len(values) == 1 or image.ndim == 2 else values[:channels]
    out[top : top + image.shape[0], left : left + image.shape[1]] = image
    return out


class CenterCrop:
    """The middle of the picture, with zeros around it if it is too small.

    Parameters
    ----------
    size : int or pair of int
        Its height and width.
    """

    size: tuple[int, int]

    def __init__(self, size: Any) -> None:
        self.size = _pair(size)

    def __call__(self, image: Any) -> Any:
        image = _picture(image)
        more = [max(0, wanted - size) for wanted, size in zip(self.size, image.shape, strict=False)]
        sides = (more[1] - more[1] // 2, more[0] - more[0] // 2, more[1] // 2, more[0] // 2)
        image = _padded(image, sides, 0, Border.CONSTANT)
        top, left = ((size - wanted) // 2 for wanted, size in zip(self.size, image.shape, strict=False))
        return _part(image, top, left, *self.size)


class RandomCrop:
    """A part of the picture that NumPy's global generator draws.

    Parameters
    ----------
    size : int or pair of int
        Its height and width.
    padding : int or list of int, optional
        The border that the picture is given first, as `Pad` has it.
    pad_if_needed : bool
        Whether a picture that is too small is given more of it.
    fill_value : int or tuple of int
        The elements of a constant border.
    padding_mode : Border
        The kind of border.
    """

    size: tuple[int, int]
    pad_if_needed: bool
    padding: tuple[int, int, int, int]
    fill_value: Any
    padding_mode: Border

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill_value: Any = 0,
        padding_mode: Border = Border.CONSTANT,
    ) -> None:
        self.size, self.pad_if_needed = _pair(size), pad_if_needed
        self.padding = (0, 0, 0, 0) if padding is None else _sides(padding)
        self.fill_value, self.padding_mode = fill_value, padding_mode

    def __call__(self, image: Any) -> Any:
        image = _padded(_picture(image), self.padding, self.fill_value, self.padding_mode)
        if self.pad_if_needed:
            height, width = (max(0, wanted - size) for wanted, size in zip(self.size, image.shape, strict=False))
            image = _padded(image, (width, height, width, height), self.fill_value, self.padding_mode)
        rest = [size - wanted for wanted, size in zip(self.size, image.shape, strict=False)]
        if min(rest) < 0:
            raise RuntimeError(
                f"RandomCrop: invalid crop size, {self.size} is larger than the picture, {image.shape[:2]}."
            )
        top, left = (np.random.randint(one + 1) for one in rest)  # noqa: NPY002
        return _part(image, top, left, *self.size)


class HorizontalFlip:
    """The picture with left and right exchanged."""

    def __call__(self, image: Any) -> Any:
        return _picture(image)[:, ::-1].copy()


class VerticalFlip:
    """The picture with top and bottom exchanged."""

    def __call__(self, image: Any) -> Any:
        return _picture(image)[::-1].copy()


class RandomHorizontalFlip(HorizontalFlip):
    """The picture with left and right exchanged, or as it is, as NumPy's global generator draws.

    Parameters
    ----------
    prob : float
        How likely they are exchanged.
    """

    prob: float

    def __init__(self, prob: float = 0.5) -> None:
        self.prob = _share(prob)

    def __call__(self, image: Any) -> Any:
        return super().__call__(image) if np.random.random() < self.prob else _picture(image)  # noqa: NPY002


class RandomVerticalFlip(VerticalFlip):
    """The picture with top and bottom exchanged, or as it is, as NumPy's global generator draws.

    Parameters
    ----------
    prob : float
        How likely they are exchanged.
    """

    prob: float

    def __init__(self, prob: float = 0.5) -> None:
        self.prob = _share(prob)

    def __call__(self, image: Any) -> Any:
        return super().__call__(image) if np.random.random() < self.prob else _picture(image)  # noqa: NPY002


# --- Sizes -------------------------------------------------------------------------------------------------------------------


class Resize:
    """The picture in another size.

    Parameters
    ----------
    size : int or pair of int
        The height and width, or the shorter of these.
    interpolation : Inter
        NEAREST or BILINEAR.
    """

    size: Any
    interpolation: Inter

    def __init__(self, size: Any, interpolation: Inter = Inter.BILINEAR) -> None:
        _pair(size)
        self.size, self.interpolation = size, _kind(interpolation)

    def __call__(self, image: Any) -> Any:
        image = _picture(image)
        height, width = image.shape[:2]
        if isinstance(self.size, int):
            size = (
                (self.size, int(width * self.size / height))
                if height < width
                else (int(height * self.size / width), self.size)
            )
        else:
            size = _pair(self.size)
        return _resized(image, size, self.interpolation)


class RandomResizedCrop:
    """A part of the picture that NumPy's global generator draws, in another size.

    Parameters
    ----------
    size : int or pair of int
        The height and width.
    scale : pair of float
        The least and largest share of the picture.
    ratio : pair of float
        The least and largest width, divided by the height.
    interpolation : Inter
        NEAREST or BILINEAR.
    max_attempts : int
        The number of parts that are drawn; if none is within the picture, its middle is taken.
    """

    size: tuple[int, int]
    scale: Any
    ratio: Any
    interpolation: Inter
    max_attempts: int

    def __init__(
        self, size: Any, scale: Any = (0.08, 1.0), ratio: Any = (3 / 4, 4 / 3), interpolation: Inter = Inter.BILINEAR,
        max_attempts: int = 10,
    ) -> None:  # fmt: skip
        self.size, self.scale, self.ratio, self.interpolation = (
            _pair(size),
            tuple(scale),
            tuple(ratio),
            _kind(interpolation),
        )
        self.max_attempts = max_attempts

    def __call__(self, image: Any) -> Any:
        image = _picture(image)
        rows, columns = image.shape[:2]
        for _ in range(self.max_attempts):
            area = rows * columns * np.random.uniform(*self.scale)  # noqa: NPY002
            ratio = np.exp(np.random.uniform(*np.log(self.ratio)))  # noqa: NPY002
            width, height = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
            if 0 < width <= columns and 0 < height <= rows:
                top, left = np.random.randint(rows - height + 1), np.random.randint(columns - width + 1)  # noqa: NPY002
                return _resized(_part(image, top, left, height, width), self.size, self.interpolation)
        width, height = min(columns, round(rows * self.ratio[1])), min(rows, round(columns / self.ratio[0]))
        return _resized(CenterCrop((height, width))(image), self.size, self.interpolation)


def _resized(image: Any, size: tuple[int, int], interpolation: Inter) -> Any:
    """As OpenCV computes it; bilinear elements of uint8 by factors of 11 bits."""
    if image.shape[:2] == size:
        return image.copy()
    if interpolation is Inter.NEAREST:
        places = [
            np.minimum((np.arange(new) * (old / new)).astype(int), old - 1)
            for new, old in zip(size, image.shape, strict=False)
        ]
        return image[places[0]][:, places[1]]
    if image.shape[:2] == (2 * size[0], 2 * size[1]):
        parts = [image[i::2, j::2] for i in (0, 1) for j in (0, 1)]
        if image.dtype == np.uint8:
            return ((sum(part.astype(np.int32) for part in parts) + 2) >> 2).astype(np.uint8)
        return (sum(parts) * np.float32(0.25)).astype(image.dtype)
    whole = image.dtype == np.uint8
    above, below, low, high = _neighbours(size[0], image.shape[0], whole)
    left, right, near, far = _neighbours(size[1], image.shape[1], whole, True)
    wide = image.astype(np.int32 if whole else np.float32)
    across = [near, far] if image.ndim == 2 else [near[:, None], far[:, None]]
    rows = wide[:, left] * across[0] + wide[:, right] * across[1]
    down = (-1,) + (1,) * (image.ndim - 1)
    if not whole:
        return (rows[above] * low.reshape(down) + rows[below] * high.reshape(down)).astype(image.dtype)
    parts = [((rows[at] >> 4) * factor.reshape(down)) >> 16 for at, factor in ((above, low), (below, high))]
    return ((parts[0] + parts[1] + 2) >> 2).clip(0, 255).astype(np.uint8)


def _neighbours(new: int, old: int, whole: bool, alone: bool = False) -> tuple[Any, Any, Any, Any]:
    """For each new element the two old ones next to it, and their factors; `alone`: one has the factor 1 where there is no other."""
    place = ((np.arange(new) + 0.5) * (1 / (new / old)) - 0.5).astype(np.float32)
    first = np.floor(place).astype(int)
    share = place - first.astype(np.float32)
    if alone:
        share = np.where((first < 0) | (first >= old - 1), np.float32(0), share)
    factors = np.float32(1) - share, share
    if whole:
        factors = tuple(np.rint(factor * 2048).astype(np.int32) for factor in factors)  # type: ignore[assignment]
    return first.clip(0, old - 1), (first + 1).clip(0, old - 1), *factors
