"""Images of another size or with a border, and elements moved between channels and space, as cells."""

from __future__ import annotations

from typing import Any

from framejit import ops
from framejit.nn._cell import Cell
from framejit.nn._checks import of_type, one_of


class Upsample(Cell):
    """`ops.interpolate` with these options."""

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
    """[..., C * r * r, H, W] as [..., C, H * r, W * r]."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def construct(self, input: Any) -> Any:
        """The larger images."""
        return ops.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Cell):
    """[..., C, H * r, W * r] as [..., C * r * r, H, W]."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def construct(self, input: Any) -> Any:
        """The smaller images."""
        return ops.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Cell):
    """The channels of `groups` groups, one of each in turn."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def construct(self, x: Any) -> Any:
        """The images with their channels in another order."""
        return ops.channel_shuffle(x, self.groups)


# --- Borders --------------------------------------------------------------------------------------------------------------------


class _Border(Cell):
    """`padding` has (before, after) of the last dimension, then of the one before it; an int stands for all of them."""

    _axes = 2
    _mode = "constant"

    def __init__(self, padding: Any, value: Any = None) -> None:
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
        self.padding, self.value = sizes, value

    def construct(self, x: Any) -> Any:
        """The input with its border."""
        return ops.pad(x, self.padding, self._mode, self.value)

    def extend_repr(self) -> str:
        """The sizes."""
        return f"padding={self.padding}"


class _Constant(_Border):
    def __init__(self, padding: Any, value: Any) -> None:
        of_type(self, (int, float), value=value)
        super().__init__(padding, value)


def _borders(name: str, base: type, mode: str, doc: str) -> None:
    for axes in (1, 2, 3):
        own = f"{name}{axes}d"
        body = {"_axes": axes, "_mode": mode, "__doc__": doc.format(axes), "__module__": __name__, "__qualname__": own}
        globals()[own] = type(own, (base,), body)


_borders(
    "ConstantPad", _Constant, "constant", "A border of one value around the last {} dimensions; negative sizes cut."
)
_borders("ReflectionPad", _Border, "reflect", "A border of what lies behind the edge, along the last {} dimensions.")
_borders("ReplicationPad", _Border, "replicate", "A border of the elements at the edge, along the last {} dimensions.")


class ZeroPad2d(_Border):
    """A border of zeros around the last two dimensions; negative sizes cut."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0)


class Pad(Cell):
    """`paddings` has (before, after) for each dimension; what lies there is 0, or is reflected with or without the edge."""

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
    """x / (bias + alpha * sum of the squares of the `depth_radius` channels on each side) ** beta."""

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
    """The middle of an image [C, H, W] or [N, C, H, W]: `central_fraction` of its height and width."""

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


class ImageGradients(Cell):
    """Differences of neighbours down and to the right; 0 in the last row and column."""

    def construct(self, images: Any) -> Any:
        """(down, right)."""
        if images.ndim != 4:
            raise ValueError(f"For 'ImageGradients', the images must have 4 dimensions, but got {images.ndim}.")
        down = images[:, :, 1:] - images[:, :, :-1]
        right = images[:, :, :, 1:] - images[:, :, :, :-1]
        return ops.pad(down, (0, 0, 0, 1)), ops.pad(right, (0, 1))
