"""A part of an image that is drawn so that it shows enough of one of several boxes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from framejit._api._dtypes import ALL
from framejit._core import Tensor, _array, _tensor
from framejit.ops._candidates import _state
from framejit.ops._primitives import Primitive

__all__ = ["SampleDistortedBoundingBoxV2"]

_NAME = "SampleDistortedBoundingBoxV2"
_WHOLE = tuple(ALL[name] for name in ("uint8", "int8", "int16", "int32", "int64"))


class SampleDistortedBoundingBoxV2(Primitive):
    """The corner, the size and the box of a part of an image, drawn until it shows the least share of one of the given boxes."""

    _parameters = {
        "seed": 0,
        "seed2": 0,
        "aspect_ratio_range": (0.75, 1.33),
        "area_range": (0.05, 1.0),
        "max_attempts": 100,
        "use_image_if_no_bounding_boxes": False,
    }

    def __init__(
        self, seed: int = 0, seed2: int = 0, aspect_ratio_range: Any = (0.75, 1.33), area_range: Any = (0.05, 1.0),
        max_attempts: int = 100, use_image_if_no_bounding_boxes: bool = False,
    ) -> None:  # fmt: skip
        for name, value in (("seed", seed), ("seed2", seed2), ("max_attempts", max_attempts)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"For '{_NAME}', the type of '{name}' must be 'int', but got '{type(value).__name__}'.")
        for name, pair in (("aspect_ratio_range", aspect_ratio_range), ("area_range", area_range)):
            if not isinstance(pair, (list, tuple)):
                raise TypeError(
                    f"For '{_NAME}', the type of '{name}' should be list or tuple, but got '{type(pair).__name__}'."
                )
            if not all(isinstance(value, float) for value in pair):
                raise TypeError(f"For '{_NAME}', the elements of '{name}' must be float, but got {pair}.")
        if max_attempts <= 0:
            raise ValueError(
                f"For '{_NAME}', the 'max_attempts' must be int and must > 0, but got '{max_attempts}' with type 'int'."
            )
        if not isinstance(use_image_if_no_bounding_boxes, bool):
            raise TypeError(
                f"For '{_NAME}', the 'use_image_if_no_bounding_boxes' must be a bool, but got {type(use_image_if_no_bounding_boxes).__name__}."
            )
        super().__init__(seed, seed2, aspect_ratio_range, area_range, max_attempts, use_image_if_no_bounding_boxes)

    def __call__(self, image_size: Any, bounding_boxes: Any, min_object_covered: Any) -> Any:
        o = self._options
        _check(image_size, bounding_boxes, min_object_covered, o)
        height, width = (int(one) for one in _array(image_size)[:2])
        boxes, least = _array(bounding_boxes).reshape(-1, 4), float(_array(min_object_covered).item())
        _check_values(height, width, boxes, least)
        if len(boxes) == 0:
            boxes = np.array([[0, 0, 1, 1]], np.float32)
        state = _state(o["seed"] or o["seed2"] or None)
        for _ in range(o["max_attempts"]):
            part = _drawn(state, height, width, o["area_range"], o["aspect_ratio_range"])
            if part is not None and _shows(part, boxes * np.array([height, width, height, width]), least):
                break
        else:
            part = (0, 0, height, width)
        top, left, rows, columns = part
        kind = _array(image_size).dtype
        box = np.array([[[top / height, left / width, (top + rows) / height, (left + columns) / width]]], np.float32)
        rest = np.array(-1).astype(kind)
        return (
            _tensor(np.array([top, left, 0], kind)),
            _tensor(np.array([rows, columns, rest]).astype(kind)),
            _tensor(box),
        )


def _check(image_size: Any, bounding_boxes: Any, min_object_covered: Any, options: dict[str, Any]) -> None:
    """Raise MindSpore's errors for types and shapes."""
    given = {"image_size": image_size, "bounding_boxes": bounding_boxes, "min_object_covered": min_object_covered}
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"For Primitive[{_NAME}], the type of input argument[{name}] must be Tensor but got {type(value).__name__}."
            )
        if value.dtype not in (_WHOLE if name == "image_size" else (ALL["float32"],)):
            raise TypeError(f"For primitive[{_NAME}], the input argument[{name}] is of {value.dtype}.")
    for name, value, count in (("image_size", image_size, 3), ("min_object_covered", min_object_covered, 1)):
        if value.ndim != 1 or value.size != count:
            raise ValueError(
                f"For primitive[{_NAME}], the {name} elements must be equal to {count}, but got {value.shape}."
            )
    if bounding_boxes.ndim != 3 or bounding_boxes.shape[-1] != 4:
        raise ValueError(
            f"For primitive[{_NAME}], the bounding_boxes must be of (batch, N, 4), but got {bounding_boxes.shape}."
        )
    for name in ("aspect_ratio_range", "area_range"):
        pair = options[name]
        if len(pair) != 2 or not 0 < pair[0] < pair[1] or (name == "area_range" and pair[1] > 1):
            raise ValueError(
                f"For primitive[{_NAME}], the {name} must be two increasing positive numbers, but got {pair}."
            )
    if bounding_boxes.size == 0 and not options["use_image_if_no_bounding_boxes"]:
        raise ValueError(
            f"For '{_NAME}', batch or N in bounding_boxes whose shape is [batch, N, 4] equals 0, which means no bounding boxes provided as "
            "input. Set use_image_if_no_bounding_boxes=True if you wish to not provide any bounding boxes."
        )


def _check_values(height: int, width: int, boxes: Any, least: float) -> None:
    if height <= 0 or width <= 0:
        raise RuntimeError(f"For '{_NAME}', image height and width must be positive, got: [{height}] and [{width}].")
    if boxes.size and not 0 <= boxes.min() <= boxes.max() <= 1:
        raise RuntimeError(
            f"For '{_NAME}', all bounding box coordinates must in [0.0, 1.0], got: [{boxes.min()}] to [{boxes.max()}]."
        )
    for at, name in ((0, "y"), (1, "x")):
        if (boxes[:, at] >= boxes[:, at + 2]).any():
            raise RuntimeError(
                f"For '{_NAME}', {name}_min of bounding box must be less than {name}_max, got: {boxes.tolist()}."
            )
    if not 0 <= least <= 1:
        raise RuntimeError(f"For '{_NAME}', min_object_covered must be in [0.0, 1.0], got: [{least}].")


def _drawn(state: Any, height: int, width: int, areas: Any, ratios: Any) -> tuple[int, int, int, int] | None:
    """(top, left, rows, columns) of a part with an allowed area and ratio; None if there is none with the ratio that was drawn."""
    ratio = state.uniform(*ratios)
    least, most = areas[0] * height * width, areas[1] * height * width
    rows, largest = round(math.sqrt(least / ratio)), min(height, round(math.sqrt(most / ratio)))
    while round(largest * ratio) > width:
        largest -= 1
    rows = state.randint(min(rows, largest), largest + 1)
    if round(rows * ratio) * rows < least:
        rows += 1
    elif round(rows * ratio) * rows > most:
        rows -= 1
    columns = round(rows * ratio)
    if not (least <= rows * columns <= most and 0 < rows <= height and 0 < columns <= width):
        return None
    return state.randint(height - rows + 1), state.randint(width - columns + 1), rows, columns


def _shows(part: tuple[int, int, int, int], boxes: Any, least: float) -> bool:
    """Whether the part has the least share of one of the boxes, in elements."""
    top, left, rows, columns = part
    shared = [
        np.clip(np.minimum(boxes[:, at + 2], end) - np.maximum(boxes[:, at], begin), 0, None)
        for at, begin, end in ((0, top, top + rows), (1, left, left + columns))
    ]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return bool((shared[0] * shared[1] >= least * areas).any())
