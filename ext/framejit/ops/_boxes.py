"""Boxes (x1, y1, x2, y2) in images: how much they overlap, how one is moved into another, and which of many to keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._core import _array, _arrays, _tensor
from framejit.ops._primitives import _define

__all__ = ["bounding_box_decode", "bounding_box_encode", "check_valid", "iou"]

_ZEROS, _ONES = (0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0)


def _shared(one: Any, other: Any, border: int) -> tuple[Any, Any, Any]:
    """Return the shared area of each pair of boxes, and the areas of both boxes."""
    x, y = one[:, None, :], other[None, :, :]
    number = one.dtype.type(border)
    zero = one.dtype.type(0)
    sides = [
        np.maximum(np.minimum(x[..., i + 2], y[..., i + 2]) - np.maximum(x[..., i], y[..., i]) + number, zero)
        for i in (0, 1)
    ]
    areas = [(box[..., 2] - box[..., 0] + number) * (box[..., 3] - box[..., 1] + number) for box in (x, y)]
    return sides[0] * sides[1], areas[0], areas[1]


def iou(anchor_boxes: Any, gt_boxes: Any, mode: str = "iou") -> Any:
    """How much boxes overlap: [M, N] for `gt_boxes` [M, 4] and `anchor_boxes` [N, 4].

    Parameters
    ----------
    anchor_boxes, gt_boxes : Tensor
        Boxes (x1, y1, x2, y2); the edges belong to them.
    mode : {'iou', 'iof'}
        The area that two boxes share, divided by that of both together, or by that of the box of `gt_boxes`.
    """
    if mode not in ("iou", "iof"):
        raise KeyError(f"For 'IOU', only 'iou' or 'iof' are supported, but got 'mode': {mode}.")
    anchors, truths = _arrays(anchor_boxes, gt_boxes)
    shared, of_truth, of_anchor = _shared(truths, anchors, 1)
    return _tensor(shared / (of_truth if mode == "iof" else of_truth + of_anchor - shared))


def _middles(boxes: Any) -> tuple[Any, Any, Any, Any]:
    half, one = boxes.dtype.type(0.5), boxes.dtype.type(1)
    x1, y1, x2, y2 = (boxes[..., i] for i in range(4))
    return (x1 + x2) * half, (y1 + y2) * half, x2 - x1 + one, y2 - y1 + one


def bounding_box_encode(anchor_box: Any, groundtruth_box: Any, means: Any = _ZEROS, stds: Any = _ONES) -> Any:
    """By how much to move and scale the boxes of `anchor_box` so that they are those of `groundtruth_box`.

    Parameters
    ----------
    anchor_box, groundtruth_box : Tensor
        Boxes (x1, y1, x2, y2), [N, 4].
    means, stds : tuple of float
        Taken off, and divided by.

    Returns
    -------
    Tensor
        (dx, dy, log of the width's factor, log of the height's), [N, 4].
    """
    anchors, truths = _arrays(anchor_box, groundtruth_box)
    (px, py, pw, ph), (gx, gy, gw, gh) = _middles(anchors), _middles(truths)
    moved = np.stack([(gx - px) / pw, (gy - py) / ph, np.log(gw / pw), np.log(gh / ph)], -1)
    return _tensor((moved - np.asarray(means, anchors.dtype)) / np.asarray(stds, anchors.dtype))


def bounding_box_decode(
    anchor_box: Any, deltas: Any, max_shape: Any, means: Any = _ZEROS, stds: Any = _ONES, wh_ratio_clip: float = 0.016
) -> Any:
    """The boxes that `bounding_box_encode` told from `anchor_box`, within an image.

    Parameters
    ----------
    anchor_box, deltas : Tensor
        Boxes (x1, y1, x2, y2), and what is done with them, [N, 4].
    max_shape : tuple of int
        The height and the width of the image.
    means, stds : tuple of float
        As they were for `bounding_box_encode`.
    wh_ratio_clip : float
        The least factor of a width or height; the largest is its inverse.
    """
    anchors, moves = _arrays(anchor_box, deltas)
    number = anchors.dtype.type
    moves = moves * np.asarray(stds, anchors.dtype) + np.asarray(means, anchors.dtype)
    most = number(np.abs(np.log(wh_ratio_clip)))
    px, py, pw, ph = _middles(anchors)
    gx, gy = px + pw * moves[..., 0], py + ph * moves[..., 1]
    gw, gh = (np.exp(np.clip(moves[..., i], -most, most)) * side for i, side in ((2, pw), (3, ph)))
    half = number(0.5)
    edges = [gx - gw * half + half, gy - gh * half + half, gx + gw * half - half, gy + gh * half - half]
    limits = [max_shape[1] - 1, max_shape[0] - 1] * 2
    return _tensor(np.stack([np.clip(edge, number(0), number(limit)) for edge, limit in zip(edges, limits)], -1))


def check_valid(bboxes: Any, img_metas: Any) -> Any:
    """Whether boxes lie in an image, whose height, width and scale are given."""
    boxes, (height, width, ratio) = _array(bboxes), _array(img_metas)
    one = boxes.dtype.type(1)
    low = (boxes[:, 0] >= 0) & (boxes[:, 1] >= 0)
    return _tensor(low & (boxes[:, 2] <= width * ratio - one) & (boxes[:, 3] <= height * ratio - one))


def _kept(order: Any, overlaps: Any, threshold: float, most: int) -> list[int]:
    """One after the other, without those that overlap one before."""
    kept: list[int] = []
    for at in order:
        if len(kept) == most:
            break
        if not any(overlaps[at, other] > threshold for other in kept):
            kept.append(int(at))
    return kept


def _masked(bboxes: Any, iou_threshold: float) -> Any:
    """(the boxes and scores from the highest score on, their numbers in that order, whether they are kept)."""
    rows = _array(bboxes)
    order = np.argsort(-rows[:, 4], kind="stable")
    rows = rows[order]
    shared, one, other = _shared(rows, rows, 0)
    overlaps = shared / (one + other - shared)
    mask = np.zeros(len(rows), np.bool_)
    mask[_kept(range(len(rows)), overlaps, iou_threshold, len(rows))] = True
    return _tensor(rows), _tensor(np.arange(len(rows)).astype(np.int32)), _tensor(mask)


def _by_overlaps(overlaps: Any, scores: Any, max_output_size: Any, overlap_threshold: Any, score_threshold: Any) -> Any:
    """The numbers of the boxes to keep, from the highest score on."""
    points = _array(scores)
    order = [at for at in np.argsort(-points, kind="stable") if points[at] > float(score_threshold.item())]
    kept = _kept(order, _array(overlaps), float(overlap_threshold.item()), int(max_output_size.item()))
    return _tensor(np.array(kept, np.int32))


def _by_class(
    boxes: Any, scores: Any, max_output_size_per_class: Any, max_total_size: Any, iou_threshold: Any, score_threshold: Any,
    *, pad_per_class: bool, clip_boxes: bool,
) -> Any:  # fmt: skip
    """(boxes, scores, classes, how many) of the best of each image, which are kept class by class."""
    every, points = _array(boxes), _array(scores)
    per_class, total = int(max_output_size_per_class.item()), int(max_total_size.item())
    size = min(total, per_class * points.shape[2]) if pad_per_class else total
    out = np.zeros((len(every), size, 4), every.dtype)
    out_scores, out_classes = np.zeros((2, len(every), size), points.dtype)
    counts = np.zeros(len(every), np.int32)
    for image in range(len(every)):
        found = []
        for kind in range(points.shape[2]):
            own = every[image, :, min(kind, every.shape[2] - 1)]
            low, high = np.minimum(own[:, :2], own[:, 2:]), np.maximum(own[:, :2], own[:, 2:])
            ordered = np.concatenate([low, high], 1)
            shared, one, other = _shared(ordered, ordered, 0)
            together = one + other - shared
            overlaps = np.where((one > 0) & (other > 0), shared / np.where(together > 0, together, 1), 0)
            order = [
                at
                for at in np.argsort(-points[image, :, kind], kind="stable")
                if points[image, at, kind] > float(score_threshold.item())
            ]
            for at in _kept(order, overlaps, float(iou_threshold.item()), per_class):
                found.append((points[image, at, kind], kind, own[at]))
        found.sort(key=lambda one: -one[0])
        counts[image] = min(len(found), size)
        for i, (score, kind, box) in enumerate(found[:size]):
            out[image, i] = np.clip(box, 0, 1) if clip_boxes else box
            out_scores[image, i], out_classes[image, i] = score, kind
    return tuple(_tensor(one) for one in (out, out_scores, out_classes, counts))


_define(
    globals(),
    {
        "IOU": (iou, {"mode": "iou"}),
        "BoundingBoxEncode": (bounding_box_encode, {"means": _ZEROS, "stds": _ONES}),
        "BoundingBoxDecode": (
            bounding_box_decode,
            {"max_shape": None, "means": _ZEROS, "stds": _ONES, "wh_ratio_clip": 0.016},
        ),
        "CheckValid": (check_valid, {}),
        "NMSWithMask": (_masked, {"iou_threshold": 0.5}),
        "NonMaxSuppressionWithOverlaps": (_by_overlaps, {}),
        "CombinedNonMaxSuppression": (_by_class, {"pad_per_class": False, "clip_boxes": True}),
    },
)
