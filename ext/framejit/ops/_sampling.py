"""Images and volumes at places between their elements, and grids of such places."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._api._dtypes import ALL
from framejit._core import _array, _arrays, _tensor
from framejit.ops._loss import _tensors

__all__ = ["affine_grid", "grid_sample"]

_FLOATS = (ALL["float32"], ALL["float64"])


def _one_of(name: str, what: str, value: Any, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str):
        raise TypeError(f"For '{name}', the '{what}' must be str, but got {type(value).__name__}.")
    if value not in allowed:
        raise ValueError(f"For '{name}', the '{what}' must be one of {allowed}, but got {value!r}.")


def affine_grid(theta: Any, size: Any, align_corners: bool = False) -> Any:
    """Where the elements of a moved image or volume lie in the one before, for `grid_sample`.

    Parameters
    ----------
    theta : Tensor
        Matrices [N, 2, 3], or [N, 3, 4] for volumes, which take (x, y, 1) there.
    size : tuple of int
        [N, C, H, W] or [N, C, D, H, W] of the result of `grid_sample`.
    align_corners : bool
        -1 and 1 are the middles of the first and the last elements, else their edges.

    Returns
    -------
    Tensor
        [N, H, W, 2] or [N, D, H, W, 3].
    """
    _tensors("affine_grid", theta=theta)
    if not isinstance(size, tuple):
        raise TypeError(f"For 'affine_grid', the 'size' must be a tuple, but got {type(size).__name__}.")
    if not isinstance(align_corners, bool):
        raise TypeError(f"For 'affine_grid', the 'align_corners' must be bool, but got {type(align_corners).__name__}.")
    axes = len(size) - 2
    if axes not in (2, 3) or theta.shape != (size[0], axes, axes + 1):
        raise ValueError(
            f"For 'affine_grid', a 'size' of 4 or 5 numbers needs a 'theta' [N, 2, 3] or [N, 3, 4], but got {size} and {theta.shape}."
        )
    matrices = _array(theta)
    lines = []
    for n in size[2:]:
        steps = np.arange(n).astype(matrices.dtype)
        two, one = matrices.dtype.type(2), matrices.dtype.type(1)
        if align_corners:
            lines.append(steps * (two / matrices.dtype.type(n - 1)) - one if n > 1 else steps)
        else:
            lines.append((steps * two + one) / matrices.dtype.type(n) - one)
    places = np.stack(np.broadcast_arrays(*np.meshgrid(*lines, indexing="ij"))[::-1], -1).reshape((-1, axes))
    grid = np.matmul(places, np.swapaxes(matrices[:, :, :axes], 1, 2)) + matrices[:, None, :, axes]
    return _tensor(grid.reshape((size[0], *size[2:], axes)))


def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Any:
    """Images or volumes at the places of a grid.

    Parameters
    ----------
    input : Tensor
        [N, C, H, W] or [N, C, D, H, W].
    grid : Tensor
        [N, h, w, 2] or [N, d, h, w, 3]: (x, y) or (x, y, z), from -1 to 1.
    mode : {'bilinear', 'nearest', 'bicubic'}
        Between elements; 'bicubic' is for images.
    padding_mode : {'zeros', 'border', 'reflection'}
        The values outside of the input.
    align_corners : bool, optional
        -1 and 1 are the middles of the first and the last elements, else their edges.

    Returns
    -------
    Tensor
        [N, C, h, w] or [N, C, d, h, w].
    """
    _tensors("grid_sample", input=input, grid=grid)
    _one_of("grid_sample", "mode", mode, ("bilinear", "nearest", "bicubic"))
    _one_of("grid_sample", "padding_mode", padding_mode, ("zeros", "border", "reflection"))
    if not isinstance(align_corners, (bool, type(None))):
        raise TypeError(f"For 'grid_sample', the 'align_corners' must be bool, but got {type(align_corners).__name__}.")
    if input.dtype not in _FLOATS or grid.dtype is not input.dtype:
        raise TypeError(
            f"For 'grid_sample', 'input' and 'grid' must both be of float32 or float64, but got {input.dtype} and {grid.dtype}."
        )
    axes = input.ndim - 2
    if axes not in (2, 3) or grid.ndim != input.ndim or grid.shape[0] != input.shape[0] or grid.shape[-1] != axes:
        raise ValueError(
            "For 'grid_sample', the 'input' must be [N, C, H, W] with a 'grid' [N, h, w, 2], or [N, C, D, H, W] with [N, d, h, w, 3], "
            f"but got {input.shape} and {grid.shape}."
        )
    if mode == "bicubic" and axes == 3:
        raise ValueError("For 'grid_sample', the mode 'bicubic' is for images [N, C, H, W].")
    x, at = _arrays(input, grid)
    count, channels, *lengths = x.shape
    flat, at = x.reshape((count, channels, -1)), at.reshape((count, -1, axes))
    taps = []
    for axis, length in enumerate(lengths):
        place = _place(at[:, :, axes - 1 - axis], length, bool(align_corners))
        if mode != "bicubic":
            place = _inside(place, length, padding_mode, bool(align_corners))
        around = []
        for index, weight in _around(place, mode):
            if mode == "bicubic":
                index = _inside(index, length, padding_mode, bool(align_corners))
            if padding_mode == "zeros":
                weight = np.where((index >= 0) & (index < length), weight, weight.dtype.type(0))
            index = np.where(np.isnan(index), index.dtype.type(0), index)
            around.append((np.clip(index, 0, length - 1).astype(np.int64), weight))
        taps.append(around)
    corners = taps[0]
    for around, length in zip(taps[1:], lengths[1:]):
        corners = [(index * length + other, weight * part) for index, weight in corners for other, part in around]
    total: Any = 0
    for index, weight in corners:
        place = np.broadcast_to(index[:, None], (count, channels, index.shape[1]))
        total = total + np.take_along_axis(flat, place, 2) * weight[:, None]
    return _tensor(total.reshape((count, channels, *grid.shape[1:-1])))


def _place(at: Any, length: int, aligned: bool) -> Any:
    """From -1 to 1 to the number of an element."""
    half, one = at.dtype.type(0.5), at.dtype.type(1)
    if aligned:
        return (at + one) * (half * at.dtype.type(length - 1))
    return ((at + one) * at.dtype.type(length) - one) * half


def _inside(place: Any, length: int, padding_mode: str, aligned: bool) -> Any:
    """The place of the element that replaces one outside."""
    if padding_mode == "reflection":
        low, span = (0.0, length - 1) if aligned else (-0.5, length)
        if not span:
            place = place * place.dtype.type(0)
        else:
            low, span = place.dtype.type(low), place.dtype.type(span)
            away = np.absolute(place - low)
            turns = np.floor(away / span)
            rest = away - turns * span
            odd = turns - np.floor(turns * place.dtype.type(0.5)) * place.dtype.type(2) > 0
            place = np.where(odd, span - rest, rest) + low
    if padding_mode != "zeros":
        place = np.minimum(np.maximum(place, place.dtype.type(0)), place.dtype.type(length - 1))
    return place


def _around(place: Any, mode: str) -> list[tuple[Any, Any]]:
    """The elements around a place along an axis, and their weights."""
    number = place.dtype.type
    if mode == "nearest":
        return [(np.rint(place), np.ones_like(place))]
    low = np.floor(place)
    part = place - low
    if mode == "bilinear":
        return [(low, number(1) - part), (low + number(1), part)]
    return [(low + number(away), _cubic(np.absolute(part - number(away)), number)) for away in (-1, 0, 1, 2)]


def _cubic(away: Any, number: Any) -> Any:
    """Keys' weights with a = -3/4, by the distance."""
    near = (number(1.25) * away - number(2.25)) * away * away + number(1)
    far = ((away - number(5)) * away + number(8)) * away - number(4)
    return np.where(away <= number(1), near, far * number(-0.75))
