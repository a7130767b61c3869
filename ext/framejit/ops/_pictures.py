"""Parts of images in another size, images at places that are moved, and colours."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._core import _array, _tensor
from framejit.ops import _image
from framejit.ops._primitives import _define
from framejit.ops._shape import _ints

__all__ = ["conv3d_transpose", "crop_and_resize", "deformable_conv2d"]

_METHODS = ("bilinear", "nearest", "bilinear_v2")


# --- Parts -------------------------------------------------------------------------------------------------------------------


def crop_and_resize(
    image: Any, boxes: Any, box_indices: Any, crop_size: Any, method: str = "bilinear", extrapolation_value: float = 0.0
) -> Any:
    """Parts of images [N, H, W, C], all in one size: [boxes, height, width, C] as float32.

    Parameters
    ----------
    image : Tensor
        The images.
    boxes : Tensor
        (y1, x1, y2, x2) of the parts, as fractions of the height and the width less 1.
    box_indices : Tensor
        The image of each part.
    crop_size : tuple of int
        The height and the width of all parts.
    method : {'bilinear', 'nearest', 'bilinear_v2'}
        A mean of the elements around each place, or the nearest one; 'bilinear_v2' goes to the edges of elements.
    extrapolation_value : float
        What is outside of an image.
    """
    for name, value in (("image", image), ("boxes", boxes), ("box_indices", box_indices)):
        if not isinstance(value, _core.Tensor):
            raise TypeError(f"For 'crop_and_resize', the '{name}' must be a Tensor, but got {type(value).__name__}.")
    if method not in _METHODS:
        raise ValueError(f"For 'crop_and_resize', the 'method' must be one of {_METHODS}, but got {method!r}.")
    sizes = tuple(_ints(crop_size))
    if len(sizes) != 2 or any(size <= 0 for size in sizes):
        raise ValueError(f"For 'crop_and_resize', the 'crop_size' must be two positive numbers, but got {crop_size}.")
    x, edges, at = _array(image).astype(np.float32), _array(boxes), _array(box_indices)
    outside = np.float32(extrapolation_value)
    height, width = (_crop_places(edges[:, i], edges[:, i + 2], x.shape[i + 1], sizes[i], method) for i in (0, 1))
    within = (height[1][:, :, None] & width[1][:, None, :])[..., None]
    which = at[:, None, None]

    def taken(rows: Any, columns: Any) -> Any:
        return x[which, rows[:, :, None], columns[:, None, :]]

    if method == "nearest":
        rows, columns = (
            np.clip(np.floor(place[0] + np.float32(0.5)).astype(np.int64), 0, n - 1)
            for place, n in zip((height, width), x.shape[1:3])
        )
        return _tensor(np.where(within, taken(rows, columns), outside))
    parts = []
    for (place, _), length in zip((height, width), x.shape[1:3]):
        low = np.floor(place)
        first, last = (np.clip(one.astype(np.int64), 0, length - 1) for one in (low, np.ceil(place)))
        parts.append((first, last, place - low))
    (top, bottom, down), (left, right, across) = parts
    down, across = down[:, :, None, None], across[:, None, :, None]
    above = taken(top, left) + (taken(top, right) - taken(top, left)) * across
    below = taken(bottom, left) + (taken(bottom, right) - taken(bottom, left)) * across
    return _tensor(np.where(within, above + (below - above) * down, outside))


def _crop_places(first: Any, last: Any, length: int, size: int, method: str) -> tuple[Any, Any]:
    """Where the elements of the parts lie along an axis, and whether in the image."""
    steps = np.arange(size).astype(np.float32)
    if method == "bilinear_v2":  # of the elements that the box meets, as an image of its own
        begin, end = (np.floor(one * np.float32(length)) for one in (first, last))
        apart = (end - begin + np.float32(1)) / np.float32(size)
        places = begin[:, None] + (steps + np.float32(0.5)) * apart[:, None] - np.float32(0.5)
        places = np.clip(places, begin[:, None], np.minimum(end, np.float32(length - 1))[:, None])
    elif size > 1:
        apart = (last - first) * np.float32(length - 1) / np.float32(size - 1)
        places = (first * np.float32(length - 1))[:, None] + apart[:, None] * steps
    else:
        places = (np.float32(0.5) * (first + last) * np.float32(length - 1))[:, None]
    return places, (places >= 0) & (places <= length - 1)


def _between(x: Any, down: Any, across: Any, lead: Any) -> Any:
    """A mean of the four elements around each place of [.., H, W]; zero further than one element outside."""
    height, width = x.shape[-2:]
    one, zero = x.dtype.type(1), x.dtype.type(0)
    there = (down >= -1) & (down <= height) & (across >= -1) & (across <= width)
    down, across = np.maximum(down, zero), np.maximum(across, zero)
    ends = []
    for place, length in ((down, height), (across, width)):
        low = np.minimum(np.floor(place), x.dtype.type(length - 1))
        high = np.minimum(low + one, x.dtype.type(length - 1))
        part = np.where(low >= length - 1, zero, place - low)
        ends.append((low.astype(np.int64), high.astype(np.int64), part))
    (top, bottom, v), (left, right, u) = ends
    out = x[(*lead, top, left)] * ((one - v) * (one - u)) + x[(*lead, top, right)] * ((one - v) * u)
    out = out + x[(*lead, bottom, left)] * (v * (one - u)) + x[(*lead, bottom, right)] * (v * u)
    return np.where(there, out, zero)


def _aligned(
    features: Any, rois: Any, pooled_height: int, pooled_width: int, spatial_scale: float, sample_num: int, roi_end_mode: int
) -> Any:  # fmt: skip
    """The means of the parts of boxes (number of the image, x1, y1, x2, y2): [boxes, C, pooled_height, pooled_width]."""
    x, boxes = _array(features), _array(rois)
    number = x.dtype.type
    scale = number(spatial_scale)
    out = []
    for box in boxes:
        x1, y1 = box[1] * scale, box[2] * scale
        x2, y2 = (box[3] + number(roi_end_mode)) * scale, (box[4] + number(roi_end_mode)) * scale
        width, height = x2 - x1, y2 - y1
        if roi_end_mode == 0:
            width, height = np.maximum(width, number(1)), np.maximum(height, number(1))
        rows, columns = height / number(pooled_height), width / number(pooled_width)
        counts = [sample_num or int(np.ceil(side)) for side in (rows, columns)]
        places = []
        for begin, side, pooled, count in (
            (y1, rows, pooled_height, counts[0]),
            (x1, columns, pooled_width, counts[1]),
        ):
            steps = (np.arange(count).astype(x.dtype) + number(0.5)) / number(count)
            places.append(begin + (np.arange(pooled).astype(x.dtype)[:, None] + steps) * side)
        down, across = places
        channels = np.arange(x.shape[1])[:, None, None, None, None]
        values = _between(x, down[None, :, None, :, None], across[None, None, :, None, :], (int(box[0]), channels))
        out.append(values.mean((3, 4)))
    return _tensor(np.stack(out))


def _glimpse(x: Any, size: Any, offsets: Any, centered: bool, normalized: bool, uniform_noise: bool, noise: str) -> Any:
    """Parts of images [N, H, W, C] around places (y, x); outside of the images there is noise."""
    if noise not in ("uniform", "gaussian", "zero"):
        raise ValueError(
            f"For 'ExtractGlimpse', the 'noise' must be 'uniform', 'gaussian' or 'zero', but got {noise!r}."
        )
    if uniform_noise and noise != "uniform":
        raise ValueError(
            "For 'ExtractGlimpse', the value of 'noise' must be uniform when the value of 'uniform_noise' is True."
        )
    images, (height, width), at = _array(x), _ints(size), _array(offsets)
    outside: Any = {"uniform": np.random.uniform, "gaussian": np.random.normal, "zero": np.zeros}[noise]
    count, rows, columns, channels = images.shape
    shape = (count, height, width, channels)
    out = outside(shape) if noise == "zero" else outside(size=shape)
    out = out.astype(images.dtype)
    for i in range(count):
        begin = []
        for place, length, part in zip(at[i], (rows, columns), (height, width)):
            place = place * length if normalized else place
            place = place / 2 + length / 2 if centered else place
            begin.append(int(place - part / 2))
        top, left = begin
        y, z = (
            slice(max(one, 0), max(min(one + part, n), 0))
            for one, part, n in zip(begin, (height, width), (rows, columns))
        )
        part = images[i, y, z]
        into = max(-top, 0), max(-left, 0)
        out[i, into[0] : into[0] + part.shape[0], into[1] : into[1] + part.shape[1]] = part
    return _tensor(out)


def _cubic(near: Any, far: Any) -> Any:
    return lambda x: np.where(x < 1, np.polyval(near, x), np.where(x < 2, np.polyval(far, x), 0.0))


def _lanczos(radius: int) -> Any:
    return lambda x: np.where(x < radius, np.sinc(x) * np.sinc(x / radius), 0.0)


# By name: how far a kernel reaches, and its weights by the distance.
_KERNELS: dict[str, tuple[float, Any]] = {
    **{f"lanczos{radius}": (radius, _lanczos(radius)) for radius in (1, 3, 5)},
    "gaussian": (1.5, lambda x: np.where(x < 1.5, np.exp(-2 * x * x), 0.0)),
    "box": (0.5, lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))),
    "triangle": (1.0, lambda x: np.maximum(1 - x, 0.0)),
    "keyscubic": (2.0, _cubic((1.5, -2.5, 0, 1), (-0.5, 2.5, -4, 2))),
    "mitchellcubic": (2.0, _cubic((7 / 6, -2, 0, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9))),
}


def _scaled(images: Any, size: Any, scale: Any, translation: Any, kernel_type: str, antialias: bool) -> Any:
    """Images [N, H, W, C] times a factor and moved, as float32."""
    if kernel_type not in _KERNELS:
        raise ValueError(
            f"For 'ScaleAndTranslate', the 'kernel_type' must be one of {tuple(_KERNELS)}, but got {kernel_type!r}."
        )
    radius, kernel = _KERNELS[kernel_type]
    x = _array(images).astype(np.float32)
    for axis, new, factor, moved in zip((1, 2), _ints(size), _array(scale).tolist(), _array(translation).tolist()):
        length, wide = x.shape[axis], max(1 / factor, 1.0) if antialias else 1.0
        at = (np.arange(new) + 0.5 - moved) / factor
        first, last = np.ceil(at - radius * wide - 0.5), np.floor(at + radius * wide - 0.5)
        places = np.arange(length)
        weights = kernel(np.abs(places + 0.5 - at[:, None]) / wide)
        counts = (places >= first[:, None]) & (places <= last[:, None]) & ((at >= 0) & (at <= length))[:, None]
        weights = np.where(counts, weights, 0.0)
        total = weights.sum(1, keepdims=True)
        weights = np.where(np.abs(total) > 1e-35, weights / np.where(total == 0, 1.0, total), 0.0).astype(np.float32)
        x = np.moveaxis(np.tensordot(weights, x, (1, axis)), 0, axis)
    return _tensor(x)


# --- Convolutions ------------------------------------------------------------------------------------------------------------


def _moved(
    x: Any, offsets: Any, strides: Any, pads: Any, ksize: Any, dilations: Any, data_format: str, deformable_groups: int, modulated: bool
) -> Any:  # fmt: skip
    """The elements under each window at places that are moved and weighed: [N, C, rows * kernel, columns * kernel]."""
    array, away = _array(x), _array(offsets)
    count, channels, height, width = array.shape
    rows, columns = away.shape[2:]
    kernel, number, groups = tuple(ksize), array.dtype.type, deformable_groups
    parts = away.reshape((count, 3, groups, *kernel, rows, columns))
    places = []
    for axis, (length, before) in enumerate(((rows, pads[0]), (columns, pads[2]))):
        grid = np.arange(length) * strides[2 + axis] - before
        inside = np.arange(kernel[axis]) * dilations[2 + axis]
        base = inside[:, None, None, None] + grid[:, None] if axis == 0 else inside[:, None, None] + grid
        places.append(parts[:, 1 - axis] + base.astype(array.dtype))
    down, across = places
    per = channels // groups
    images = array.reshape((count, groups, per, height, width))
    n = np.arange(count)[:, None, None, None, None, None, None]
    g = np.arange(groups)[:, None, None, None, None, None]
    c = np.arange(per)[:, None, None, None, None]
    one, zero = number(1), number(0)
    down, across = down[:, :, None], across[:, :, None]
    total: Any = 0
    low, left = np.floor(down), np.floor(across)
    for row, weight in ((low, one - (down - low)), (low + one, down - low)):
        for column, part in ((left, one - (across - left)), (left + one, across - left)):
            there = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            i, j = (np.clip(at, zero, number(n - 1)).astype(np.int64) for at, n in ((row, height), (column, width)))
            total = total + np.where(there, images[n, g, c, i, j] * (weight * part), zero)
    if modulated:
        total = total * parts[:, 2][:, :, None]
    total = total.transpose((0, 1, 2, 5, 3, 6, 4))
    return _tensor(total.reshape((count, channels, rows * kernel[0], columns * kernel[1])))


def deformable_conv2d(
    x: Any, weight: Any, offsets: Any, kernel_size: Any, strides: Any, padding: Any, bias: Any = None, dilations: Any = (1, 1, 1, 1),
    groups: int = 1, deformable_groups: int = 1, modulated: bool = True,
) -> Any:  # fmt: skip
    """Convolution of elements at places that are moved.

    Parameters
    ----------
    x : Tensor
        Images [N, C, H, W].
    weight : Tensor
        [channels out, C / groups, height, width].
    offsets : Tensor
        [N, 3 * deformable_groups * height * width, rows, columns]: how far each place is moved along x and y, and its weight.
    kernel_size : tuple of int
        The height and the width of a window.
    strides, padding, dilations : tuple of int
        Of all four dimensions; the padding is (above, below, left, right).
    bias : Tensor, optional
        Added to each channel.
    groups, deformable_groups : int
        Into how many groups the channels are divided for the weights, and for the offsets.
    modulated : bool
        Whether the places have weights.
    """
    moved = _moved(x, offsets, strides, padding, kernel_size, dilations, "NCHW", deformable_groups, modulated)
    return _image.conv2d(moved, weight, bias, tuple(kernel_size), "valid", 0, 1, groups)


def conv3d_transpose(
    inputs: Any, weight: Any, pad_mode: str = "valid", padding: Any = 0, stride: Any = 1, dilation: Any = 1, group: int = 1,
    output_padding: Any = 0,
) -> Any:  # fmt: skip
    """The transpose of `conv3d`: `weight` is [channels in, channels out / group, depth, height, width]."""
    for name, value in (("inputs", inputs), ("weight", weight)):
        if value.ndim != 5:
            raise ValueError(f"the rank of {name} tensor should be 5.")
    more = _image._each(output_padding, 3)
    return _transposed(3, inputs, weight, stride, pad_mode, padding, dilation, group, more)


def _transposed(
    axes: int, x: Any, weight: Any, stride: Any, pad_mode: str, pad: Any, dilation: Any, group: int, more: Any
) -> Any:
    sides = [
        _image._each(tuple(one)[-axes:] if isinstance(one, (tuple, list)) else one, axes) for one in (stride, dilation)
    ]
    return _image._transposed(axes, x, weight, None, sides[0], pad_mode.lower(), pad, sides[1], group, more)


def _transposed_to(
    x: Any, weight: Any, input_size: Any, out_channel: int, kernel_size: Any, pad_mode: str, pad: Any, pad_list: Any, mode: int,
    stride: Any, dilation: Any, group: int, data_format: str,
) -> Any:  # fmt: skip
    """`Conv2DTranspose`: the gradient of a convolution for its input, of which the size is given."""
    sizes = tuple(_ints(input_size))[2:]
    step, apart = (
        _image._each(tuple(one)[-2:] if isinstance(one, (tuple, list)) else one, 2) for one in (stride, dilation)
    )
    windows = tuple([a * (k - 1) + 1 for k, a in zip(weight.shape[2:], apart)])
    if pad_mode.lower() == "pad":
        given = pad_list if pad_list is not None else pad
        around = _image._around((0, 0, *sizes), windows, step, "pad", given)
    else:
        around = _image._around((0, 0, *sizes), windows, step, pad_mode.lower(), 0)
    flat = [n for both in around for n in both]
    more = tuple(
        [
            size - ((n - 1) * s + width - before - after)
            for size, n, s, width, (before, after) in zip(sizes, x.shape[2:], step, windows, around)
        ]
    )
    return _image._transposed(2, x, weight, None, step, "pad", flat, apart, group, more)


def _volume_transposed(
    x: Any, weight: Any, in_channel: int, out_channel: int, kernel_size: Any, mode: int, pad_mode: str, pad: Any, stride: Any, dilation: Any,
    group: int, output_padding: Any, data_format: str,
) -> Any:  # fmt: skip
    return conv3d_transpose(x, weight, pad_mode, pad, stride, dilation, group, output_padding)


# --- Colours -----------------------------------------------------------------------------------------------------------------


def _hsv(images: Any) -> Any:
    """Hue, saturation and value of red, green and blue in the last dimension."""
    red, green, blue = (images[..., i] for i in range(3))
    number, zero = images.dtype.type, images.dtype.type(0)
    value = images.max(-1)
    span = value - images.min(-1)
    saturation = np.where(value > 0, span / np.where(value > 0, value, number(1)), zero)
    norm = number(1) / (number(6) * np.where(span > 0, span, number(1)))
    hue = np.where(
        red == value,
        norm * (green - blue),
        np.where(
            green == value, norm * (blue - red) + number(2) / number(6), norm * (red - green) + number(4) / number(6)
        ),
    )
    hue = np.where(span > 0, hue, zero)
    return np.stack([np.where(hue < 0, hue + number(1), hue), saturation, value], -1)


def _rgb(images: Any) -> Any:
    """Red, green and blue of hue, saturation and value in the last dimension."""
    hue, saturation, value = (images[..., i] for i in range(3))
    number = images.dtype.type
    turn = hue * number(6)
    ramps = [
        np.abs(turn - number(3)) - number(1),
        number(2) - np.abs(turn - number(2)),
        number(2) - np.abs(turn - number(4)),
    ]
    parts = [np.clip(ramp, number(0), number(1)) for ramp in ramps]
    return np.stack([((number(1) - saturation) + saturation * part) * value for part in parts], -1)


def _colours(of: Any) -> Any:
    def converted(images: Any, *given: Any) -> Any:
        x = _array(images)
        wide = x.astype(np.float32) if x.dtype == np.float16 else x
        return _tensor(of(wide, *given).astype(x.dtype))

    return converted


def _turned(x: Any, delta: Any) -> Any:
    hsv = _hsv(x)
    hue = hsv[..., 0] + _array(delta).astype(x.dtype)
    return _rgb(np.stack([hue - np.floor(hue), hsv[..., 1], hsv[..., 2]], -1))


def _saturated(x: Any, scale: Any) -> Any:
    hsv = _hsv(x)
    part = np.clip(hsv[..., 1] * _array(scale).astype(x.dtype), x.dtype.type(0), x.dtype.type(1))
    return _rgb(np.stack([hsv[..., 0], part, hsv[..., 2]], -1))


_CONVOLUTION: dict[str, Any] = {
    "out_channel": None, "kernel_size": None, "pad_mode": "valid", "pad": 0, "pad_list": None, "mode": 1, "stride": 1, "dilation": 1,
    "group": 1, "data_format": "NCHW",
}  # fmt: skip

_define(
    globals(),
    {
        "CropAndResize": (crop_and_resize, {"method": "bilinear", "extrapolation_value": 0.0}),
        "ROIAlign": (
            _aligned,
            {"pooled_height": None, "pooled_width": None, "spatial_scale": None, "sample_num": 2, "roi_end_mode": 1},
        ),
        "ScaleAndTranslate": (_scaled, {"kernel_type": "lanczos3", "antialias": True}),
        "ExtractGlimpse": (_glimpse, {"centered": True, "normalized": True, "uniform_noise": True, "noise": "uniform"}),
        "DeformableOffsets": (
            _moved,
            {
                **dict.fromkeys(("strides", "pads", "ksize")),
                "dilations": (1, 1, 1, 1),
                "data_format": "NCHW",
                "deformable_groups": 1,
                "modulated": True,
            },
        ),
        "Conv2DTranspose": (_transposed_to, _CONVOLUTION),
        "Conv2DBackpropInput": (_transposed_to, _CONVOLUTION),
        "Conv3DTranspose": (
            _volume_transposed,
            {
                **dict.fromkeys(("in_channel", "out_channel", "kernel_size")),
                "mode": 1,
                "pad_mode": "valid",
                "pad": 0,
                "stride": 1,
                "dilation": 1,
                "group": 1,
                "output_padding": 0,
                "data_format": "NCDHW",
            },
        ),
        "RGBToHSV": (_colours(_hsv), {}),
        "HSVToRGB": (_colours(_rgb), {}),
        "AdjustHue": (_colours(_turned), {}),
        "AdjustSaturation": (_colours(_saturated), {}),
    },
)
