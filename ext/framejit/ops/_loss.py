"""Linear maps, normalization and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._core import (
    _array,
    _arrays,
    _matmul,
    _op_absolute,
    _op_add,
    _op_divide,
    _op_log,
    _op_maximum,
    _op_multiply,
    _op_negative,
    _op_sqrt,
    _op_square,
    _op_subtract,
    _tensor,
)
from framejit.ops._elementwise import sigmoid, softplus, where
from framejit.ops._reduce import log_softmax, mean, sum, var


def dense(input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias."""
    x, w = _arrays(input, weight)
    out = _tensor(_matmul(x, w.transpose()))
    return out if bias is None else _op_add(out, bias)


linear = dense


def bias_add(input_x: Any, bias: Any) -> Any:
    """A number for each channel (dimension 1) added."""
    if input_x.ndim > 2:
        bias = _tensor(_array(bias).reshape((-1,) + (1,) * (input_x.ndim - 2)))
    return _op_add(input_x, bias)


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Mean 0 and variance 1 over the last dimensions, then scaled and moved."""
    axes = tuple([-1 - i for i in range(len(normalized_shape))])
    centered = _op_subtract(input, mean(input, axes, True))
    out = _op_divide(centered, _op_sqrt(_op_add(var(input, axes, 0, True), eps)))
    if weight is not None:
        out = _op_multiply(out, weight)
    return out if bias is None else _op_add(out, bias)


def rms_norm(x: Any, gamma: Any, epsilon: float = 1e-6) -> Any:
    """(x / sqrt(mean(x * x) + epsilon) over the dimensions of `gamma`, times `gamma`; and one over that root)."""
    axes = tuple([-1 - i for i in range(gamma.ndim)])
    scale = _op_divide(1, _op_sqrt(_op_add(mean(_op_square(x), axes, True), epsilon)))
    return _op_multiply(_op_multiply(x, scale), gamma), scale


def _reduced(loss: Any, reduction: str) -> Any:
    if reduction == "mean":
        return mean(loss)
    if reduction == "sum":
        return sum(loss)
    if reduction == "none":
        return loss
    raise ValueError(f"'reduction' must be 'mean', 'sum' or 'none', but got {reduction!r}.")


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """(input - target) ** 2."""
    return _reduced(_op_square(_op_subtract(input, target)), reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """abs(input - target)."""
    return _reduced(_op_absolute(_op_subtract(input, target)), reduction)


def smooth_l1_loss(input: Any, target: Any, beta: float = 1.0, reduction: str = "none") -> Any:
    """Squares near 0, absolute values elsewhere."""
    distance = _op_absolute(_op_subtract(input, target))
    near = _op_divide(_op_multiply(_op_square(distance), 0.5), beta)
    return _reduced(where(distance < beta, near, _op_subtract(distance, 0.5 * beta)), reduction)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """`smooth_l1_loss` times delta."""
    return _reduced(_op_multiply(smooth_l1_loss(input, target, delta, "none"), delta), reduction)


def binary_cross_entropy(logits: Any, labels: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """-(labels * log(logits) + (1 - labels) * log(1 - logits)); the logarithms are at least -100."""
    yes, no = _op_maximum(_op_log(logits), -100), _op_maximum(_op_log(_op_subtract(1, logits)), -100)
    loss = _op_negative(_op_add(_op_multiply(labels, yes), _op_multiply(_op_subtract(1, labels), no)))
    return _reduced(loss if weight is None else _op_multiply(loss, weight), reduction)


def binary_cross_entropy_with_logits(
    logits: Any, label: Any, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Any:
    """`binary_cross_entropy` of sigmoid(logits)."""
    positive = _op_multiply(label, softplus(_op_negative(logits)))
    if pos_weight is not None:
        positive = _op_multiply(positive, pos_weight)
    loss = _op_add(positive, _op_multiply(_op_subtract(1, label), softplus(logits)))
    return _reduced(loss if weight is None else _op_multiply(loss, weight), reduction)


def nll_loss(inputs: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """-inputs at the class `target`; the mean is weighted."""
    x, at = _array(inputs), _array(target)
    counted = at != ignore_index
    safe = np.where(counted, at, 0)
    picked = -np.take_along_axis(x, np.expand_dims(safe, 1), 1).squeeze(1)
    scale = np.ones(x.shape[1], x.dtype) if weight is None else _array(weight)
    scale = np.where(counted, scale[safe], np.zeros((), x.dtype))
    if reduction == "mean":
        return _tensor((picked * scale).sum() / scale.sum())
    return _reduced(_tensor(picked * scale), reduction)


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """`nll_loss` of log_softmax(input); a floating target holds probabilities."""
    axis = 1 if input.ndim > 1 else 0
    logs = log_softmax(input, axis)
    if _array(target).dtype.kind == "f":
        soft = target
    elif label_smoothing == 0.0:
        return nll_loss(logs, target, weight, ignore_index, reduction)
    else:
        classes = input.shape[axis]
        hot = np.moveaxis(np.eye(classes, dtype=_array(input).dtype)[_array(target)], -1, axis)
        soft = _tensor(hot)
    if label_smoothing:
        soft = _op_add(_op_multiply(soft, 1 - label_smoothing), label_smoothing / input.shape[axis])
    if weight is not None:
        logs = _op_multiply(logs, weight)
    loss = _op_negative(sum(_op_multiply(soft, logs), axis))
    return _reduced(loss, reduction)


def kl_div(logits: Any, labels: Any, reduction: str = "mean") -> Any:
    """labels * (log(labels) - logits)."""
    loss = _op_multiply(labels, _op_subtract(_op_log(labels), logits))
    return _op_divide(sum(loss), logits.shape[0]) if reduction == "batchmean" else _reduced(loss, reduction)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-08) -> Any:
    """Product of vectors divided by their norms."""
    both = _op_multiply(_op_sqrt(sum(_op_square(x1), dim)), _op_sqrt(sum(_op_square(x2), dim)))
    return _op_divide(sum(_op_multiply(x1, x2), dim), _op_maximum(both, eps))


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """Divided by the norm along `dim`."""
    x = _array(input)
    length = _tensor(np.linalg.norm(x, p, dim, True).astype(x.dtype))
    return _op_divide(input, _op_maximum(length, eps))


def softmax_cross_entropy_with_logits(logits: Any, labels: Any) -> Any:
    """-sum(labels * log_softmax(logits)) of each row."""
    return _op_negative(sum(_op_multiply(labels, log_softmax(logits)), -1))


def sigmoid_cross_entropy_with_logits(logits: Any, label: Any) -> Any:
    """`binary_cross_entropy_with_logits` of each element."""
    return binary_cross_entropy_with_logits(logits, label, reduction="none")


def gumbel_softmax(logits: Any, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Any:
    """Softmax of the logits with Gumbel noise."""
    from framejit.ops._reduce import softmax

    noise = np.random.gumbel(size=logits.shape)
    soft = softmax(_op_divide(_op_add(logits, _tensor(np.asarray(noise, _array(logits).dtype))), tau), dim)
    if not hard:
        return soft
    x = _array(soft)
    return _tensor((x == x.max(axis=dim, keepdims=True)).astype(x.dtype))


def glu(x: Any, axis: int = -1) -> Any:
    """The first half times the sigmoid of the second."""
    from framejit.ops._shape import split

    first, second = split(x, x.shape[axis] // 2, axis)
    return _op_multiply(first, sigmoid(second))


def erfinv(input: Any) -> Any:
    """The inverse of erf."""
    from scipy.special import erfinv as inverse

    return _tensor(np.asarray(inverse(_array(input, "floating"))))
