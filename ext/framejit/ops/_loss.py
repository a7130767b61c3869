"""Linear maps, normalization and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._api._dtypes import ALL
from framejit._core import (
    Tensor,
    _array,
    _arrays,
    _matmul,
    _op_absolute,
    _op_add,
    _op_divide,
    _op_log,
    _op_maximum,
    _op_minimum,
    _op_multiply,
    _op_negative,
    _op_power,
    _op_sqrt,
    _op_square,
    _op_subtract,
    _tensor,
)
from framejit.ops._elementwise import _INTEGRAL, sigmoid, softplus, where
from framejit.ops._reduce import log_softmax, mean, sum, var

__all__ = [
    "bias_add", "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy", "dense", "digamma", "erfinv", "gaussian_nll_loss", "glu", "gumbel_softmax",
    "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "layer_norm", "lgamma", "linear",
    "margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
    "nll_loss", "normalize", "rms_norm", "sigmoid_cross_entropy_with_logits", "smooth_l1_loss", "soft_margin_loss",
    "softmax_cross_entropy_with_logits", "triplet_margin_loss",
]  # fmt: skip

_HALF_LOG_2PI = 0.9189385332046728
_FLOATS = (ALL["float16"], ALL["float32"], ALL["float64"])


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
    """(input - target) ** 2, in float32 if both are integers."""
    if input.dtype in _INTEGRAL and target.dtype in _INTEGRAL:
        input = _tensor(_array(input, ALL["float32"]))
    return _squares_loss(input, target, reduction)


def _squares_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """(input - target) ** 2, in the dtype of the two."""
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
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Any:
    """`binary_cross_entropy` of sigmoid(logits)."""
    positive = _op_multiply(target, softplus(_op_negative(input)))
    if pos_weight is not None:
        positive = _op_multiply(positive, pos_weight)
    loss = _op_add(positive, _op_multiply(_op_subtract(1, target), softplus(input)))
    return _reduced(loss if weight is None else _op_multiply(loss, weight), reduction)


def nll_loss(
    inputs: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
) -> Any:  # fmt: skip
    """-inputs at the class `target`; the mean is weighted. With `label_smoothing` that part of the target is shared among all classes."""
    if label_smoothing:
        return _smoothed(inputs, target, weight, ignore_index, reduction, label_smoothing)
    x, at = _array(inputs), _array(target)
    counted = at != ignore_index
    safe = np.where(counted, at, 0)
    picked = -np.take_along_axis(x, np.expand_dims(safe, 1), 1).squeeze(1)
    scale = np.ones(x.shape[1], x.dtype) if weight is None else _array(weight)
    scale = np.where(counted, scale[safe], np.zeros((), x.dtype))
    if reduction == "mean":
        return _tensor((picked * scale).sum() / scale.sum())
    return _reduced(_tensor(picked * scale), reduction)


def _smoothed(inputs: Any, target: Any, weight: Any, ignore_index: int, reduction: str, label_smoothing: float) -> Any:
    if not 0 < label_smoothing <= 1:
        raise ValueError(f"For 'nll_loss', the 'label_smoothing' must be from 0 to 1, but got {label_smoothing}.")
    x = _array(inputs)
    scaled = x if weight is None else x * _array(weight).reshape((-1, *(1,) * (x.ndim - 2)))
    left_out = _array(target) == ignore_index
    spread = np.where(left_out, x.dtype.type(0), -scaled.sum(1))
    if reduction == "mean":
        scale = np.ones(x.shape[1], x.dtype) if weight is None else _array(weight)
        scale = np.where(left_out, x.dtype.type(0), scale[np.where(left_out, 0, _array(target))])
        rest = _tensor(spread.sum() / scale.sum())
    else:
        rest = _reduced(_tensor(spread), reduction)
    own = nll_loss(inputs, target, weight, ignore_index, reduction)
    return _op_add(_op_multiply(own, 1.0 - label_smoothing), _op_multiply(rest, label_smoothing / x.shape[1]))


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


def _of_float(name: str, what: str, value: Any) -> None:
    if not isinstance(value, float):
        raise TypeError(f"For '{name}', the '{what}' must be float, but got {type(value).__name__}.")


def _tensors(name: str, **values: Any) -> None:
    for what, value in values.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"For '{name}', the '{what}' must be a Tensor, but got {type(value).__name__}.")


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    """max(-target * (input1 - input2) + margin, 0)."""
    _of_float("margin_ranking_loss", "margin", margin)
    _tensors("margin_ranking_loss", input1=input1, input2=input2, target=target)
    return _reduced(_op_maximum(_op_subtract(margin, target * (input1 - input2)), 0), reduction)


def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    """1 - cos where `target` is 1, max(cos - margin, 0) where it is -1, of the cosine of the angle between rows."""
    _tensors("cosine_embedding_loss", input1=input1, input2=input2, target=target)
    if isinstance(margin, bool) or not isinstance(margin, (int, float)):
        raise TypeError(f"For 'cosine_embedding_loss', the 'margin' must be float, but got {type(margin).__name__}.")
    if not -1 <= margin <= 1:
        raise ValueError(f"For 'cosine_embedding_loss', the 'margin' must be in [-1, 1], but got {margin}.")
    norms = _op_multiply(_op_sqrt(sum(_op_square(input1), 1)), _op_sqrt(sum(_op_square(input2), 1)))
    cosine = _op_divide(sum(input1 * input2, 1), norms)
    far = where(target == -1, _op_maximum(cosine - margin, 0.0), 0.0)
    return _reduced(where(target == 1, 1 - cosine, far), reduction)


def hinge_embedding_loss(inputs: Any, targets: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    """`inputs` where `targets` is positive, max(margin - inputs, 0) where it is negative."""
    far = where(targets < 0, _op_maximum(_op_subtract(margin, inputs), 0), 0.0)
    return _reduced(where(targets > 0, inputs, far), reduction)


def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """log(1 + exp(-target * input))."""
    return _reduced(softplus(_op_negative(target * input)), reduction)


def multilabel_soft_margin_loss(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """The mean of `binary_cross_entropy_with_logits` over the last dimension."""
    _tensors("multilabel_soft_margin_loss", input=input, target=target)
    loss = _op_add(
        _op_multiply(target, softplus(_op_negative(input))), _op_multiply(_op_subtract(1, target), softplus(input))
    )
    if weight is not None:
        loss = _op_multiply(loss, weight)
    return _reduced(_op_divide(sum(loss, -1), input.shape[-1]), reduction)


def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: int = 1, weight: Any = None, reduction: str = "mean"
) -> Any:
    """The mean over the other classes of max(margin - input[target] + input, 0) ** p."""
    if not isinstance(margin, int):
        raise TypeError(f"For 'multi_margin_loss', the 'margin' must be int, but got {type(margin).__name__}.")
    return _multi_margin(input, target, p, margin, weight, reduction)


def _multi_margin(input: Any, target: Any, p: int, margin: float, weight: Any, reduction: str) -> Any:
    if p not in (1, 2):
        raise ValueError(f"For 'multi_margin_loss', the 'p' must be 1 or 2, but got {p}.")
    x, at = _array(input), _array(target)
    own = _tensor(np.take_along_axis(x, at[:, None], 1))
    loss = _op_maximum(_op_add(_op_subtract(input, own), margin), 0)
    if p == 2:
        loss = _op_square(loss)
    if weight is not None:
        loss = _op_multiply(loss, _tensor(np.take(_array(weight), at)[:, None]))
    others = _tensor(at[:, None] != np.arange(x.shape[1]))
    return _reduced(_op_divide(sum(where(others, loss, 0.0), 1), x.shape[1]), reduction)


def multilabel_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Sums of max(1 - (input[label] - input[other]), 0) over the labels of each row, which end at -1, and the other classes."""
    x, at = _array(input), _array(target)
    rows = (1, -1) if x.ndim == 1 else x.shape
    x, at = x.reshape(rows), at.reshape(rows)
    count = x.shape[1]
    labelled = np.cumsum((at < 0).astype(np.int32), axis=1) == 0
    safe = np.where(labelled, at, 0)
    hot = (safe[:, :, None] == np.arange(count)) & labelled[:, :, None]
    other = np.logical_not(hot.any(1))
    own = np.take_along_axis(x, safe.astype(np.int64), 1)
    zero = np.zeros((), x.dtype)
    distances = np.maximum(x.dtype.type(1) - (own[:, :, None] - x[:, None, :]), zero)
    counted = labelled[:, :, None] & other[:, None, :]
    loss = _tensor(np.where(counted, distances, zero).sum((1, 2)) / x.dtype.type(count))
    if input.ndim == 1:
        loss = _tensor(_array(loss).reshape(()))
    return _reduced(loss, reduction)


def gaussian_nll_loss(
    x: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """(log(var) + (x - target) ** 2 / var) / 2, with var at least `eps`; `full` adds log(2 * pi) / 2."""
    _tensors("gaussian_nll_loss", x=x, target=target, var=var)
    if not isinstance(full, bool):
        raise TypeError(f"For 'gaussian_nll_loss', the 'full' must be bool, but got {type(full).__name__}.")
    if not isinstance(eps, float) or eps <= 0:
        raise ValueError(f"For 'gaussian_nll_loss', the 'eps' must be a positive float, but got {eps}.")
    if x.shape != var.shape and x.shape[:-1] == var.shape:
        var = var.expand_dims(-1)
    most = _op_maximum(var, eps)
    loss = _op_multiply(_op_add(_op_log(most), _op_divide(_op_square(x - target), most)), 0.5)
    return _reduced(_op_add(loss, _HALF_LOG_2PI) if full else loss, reduction)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: Any = 1.0,
    p: int = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """max(distance(anchor, positive) - distance(anchor, negative) + margin, 0); `swap`: or that of positive and negative, if less."""
    near, far = _distance(anchor, positive, p, eps), _distance(anchor, negative, p, eps)
    if swap:
        far = _op_minimum(far, _distance(positive, negative, p, eps))
    return _reduced(_op_maximum(_op_add(_op_subtract(near, far), margin), 0), reduction)


def _distance(x: Any, y: Any, p: float, eps: float) -> Any:
    away = _op_absolute(_op_add(_op_subtract(x, y), eps))
    if p == 2:
        return _op_sqrt(sum(_op_square(away), -1))
    return sum(away, -1) if p == 1 else _op_power(sum(_op_power(away, p), -1), 1 / p)


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
    from framejit.ops._random import _gumbel
    from framejit.ops._reduce import softmax

    soft = softmax(_op_divide(_op_add(logits, _gumbel(logits.shape, logits.dtype)), tau), dim)
    if not hard:
        return soft
    x = _array(soft)
    return _tensor((x == x.max(axis=dim, keepdims=True)).astype(x.dtype))


def glu(x: Any, axis: int = -1) -> Any:
    """The first half times the sigmoid of the second."""
    from framejit.ops._shape import split

    first, second = split(x, x.shape[axis] // 2, axis)
    return _op_multiply(first, sigmoid(second))


def _special(name: str, input: Any) -> Any:
    """A function of scipy.special, in the dtype of floats."""
    from scipy import special

    x = _array(input, "floating")
    return _tensor(getattr(special, name)(x).astype(x.dtype))


def digamma(input: Any) -> Any:
    """The derivative of `lgamma`."""
    if input.dtype not in _FLOATS:
        raise TypeError(f"For 'digamma', the 'input' must be of floats, but got {input.dtype}.")
    return _special("digamma", input)


def lgamma(input: Any) -> Any:
    """log(abs(gamma(input)))."""
    return _special("gammaln", input)


def erfinv(input: Any) -> Any:
    """The inverse of erf."""
    return _special("erfinv", input)
