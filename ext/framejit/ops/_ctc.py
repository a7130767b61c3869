"""Connectionist temporal classification: how likely a sequence of labels is, over all ways to spread it over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._api._dtypes import ALL
from framejit._autodiff._primitives import stop as _stop
from framejit._core import Tensor, _array, _tensor
from framejit.ops._loss import _reduced, _tensors

__all__ = ["ctc_loss"]

_FLOATS, _INTS = (ALL["float32"], ALL["float64"]), (ALL["int32"], ALL["int64"])


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """(the negative logarithm of how likely the targets are, that of each beginning of them at each step).

    Parameters
    ----------
    log_probs : Tensor
        Logarithms of probabilities, [T, N, C].
    targets : Tensor
        Labels, [N, S].
    input_lengths, target_lengths : Tensor or tuple of int
        How many steps, and how many labels, count.
    blank : int
        The class between labels.
    reduction : {'mean', 'sum', 'none'}
        The mean is of the losses divided by the numbers of labels.
    zero_infinity : bool
        Targets that are impossible, as they are too long, have the loss 0.

    Returns
    -------
    tuple of Tensor
        The loss, and logarithms [N, T, 2 * S + 1]: there is a blank around and between the labels.
    """
    _check(log_probs, targets, blank, reduction, zero_infinity)
    x, labels = _array(log_probs), _array(targets)
    steps, count, classes = x.shape
    inputs, sizes = [_lengths(name, n, count) for name, n in (("input", input_lengths), ("target", target_lengths))]
    width = 2 * labels.shape[1] + 1
    blanks = np.full((count, labels.shape[1]), blank, labels.dtype)
    classed = np.stack([blanks, labels], 2).reshape((count, width - 1))
    classed = np.concatenate([classed, np.full((count, 1), blank, labels.dtype)], 1)
    emitted = np.take_along_axis(x, np.broadcast_to(classed, (steps, count, width)), 2)
    never = x.dtype.type(-np.inf)
    ends = np.full((count, 2), never)
    # From a label to the next one without a blank, where they differ.
    skips = classed != np.concatenate([np.full((count, 2), blank, labels.dtype), classed], 1)[:, :width]
    skips = skips & (classed != blank)
    paths = [np.where(np.arange(width) < 2, emitted[0], never)]
    for step in range(1, steps):
        earlier = np.concatenate([ends, paths[-1]], 1)
        skipped = np.where(skips, earlier[:, :width], never)
        paths.append(_log_of_sum(paths[-1], earlier[:, 1 : 1 + width], skipped) + emitted[step])
    along = np.stack(paths)
    last = np.take_along_axis(along, np.broadcast_to((inputs - 1)[None, :, None], (1, count, width)), 0)[0]
    at = 2 * sizes[:, None]
    in_blank, in_label = np.take_along_axis(last, at, 1), np.take_along_axis(last, np.maximum(at - 1, 0), 1)
    loss = -_log_of_sum(in_blank, np.where(at > 0, in_label, never))[:, 0]
    if zero_infinity:
        loss = np.where(np.isinf(loss), x.dtype.type(0), loss)
    if reduction == "mean":
        loss = loss / np.maximum(sizes, 1).astype(x.dtype)
    counted = np.arange(steps)[None, :, None] < inputs[:, None, None]
    counted = counted & (np.arange(width) <= 2 * sizes[:, None, None])
    return _reduced(_tensor(loss), reduction), _tensor(np.where(counted, along.transpose((1, 0, 2)), never))


def _log_of_sum(*logs: Any) -> Any:
    """log(sum(exp(x))): -inf, with the gradient 0, where all are."""
    most = logs[0]
    for x in logs[1:]:
        most = np.maximum(most, x)
    most = _stop(np.where(np.isinf(most), most.dtype.type(0), most))
    total = np.exp(logs[0] - most)
    for x in logs[1:]:
        total = total + np.exp(x - most)
    some = total > 0
    return np.where(some, np.log(np.where(some, total, total.dtype.type(1))) + most, most.dtype.type(-np.inf))


def _lengths(name: str, lengths: Any, count: int) -> Any:
    if isinstance(lengths, Tensor) and lengths.dtype not in _INTS:
        raise TypeError(f"For 'ctc_loss', the '{name}_lengths' must be of int32 or int64, but got {lengths.dtype}.")
    lengths = _array(lengths) if isinstance(lengths, Tensor) else np.array(lengths)
    if lengths.shape != (count,):
        raise ValueError(f"For 'ctc_loss', the shape of '{name}_lengths' must be ({count},), but got {lengths.shape}.")
    return lengths


def _check(log_probs: Any, targets: Any, blank: Any, reduction: Any, zero_infinity: Any) -> None:
    _tensors("ctc_loss", log_probs=log_probs, targets=targets)
    for name, value, kind in (
        ("blank", blank, int),
        ("reduction", reduction, str),
        ("zero_infinity", zero_infinity, bool),
    ):
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TypeError(f"For 'ctc_loss', the '{name}' must be {kind.__name__}, but got {type(value).__name__}.")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"For 'ctc_loss', the 'reduction' must be 'mean', 'sum' or 'none', but got {reduction!r}.")
    for name, value, rank, dtypes in (("log_probs", log_probs, 3, _FLOATS), ("targets", targets, 2, _INTS)):
        if value.dtype not in dtypes:
            raise TypeError(
                f"For 'ctc_loss', the '{name}' must be of {dtypes[0]} or {dtypes[1]}, but got {value.dtype}."
            )
        if value.ndim != rank:
            raise ValueError(f"For 'ctc_loss', the '{name}' must have {rank} dimensions, but got {value.shape}.")
    if targets.shape[0] != log_probs.shape[1]:
        raise ValueError(
            f"For 'ctc_loss', 'log_probs' and 'targets' must be of one batch, but got {log_probs.shape} and {targets.shape}."
        )
    if not 0 <= blank < log_probs.shape[2]:
        raise ValueError(f"For 'ctc_loss', the 'blank' must be in [0, {log_probs.shape[2]}), but got {blank}.")
