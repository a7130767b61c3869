"""``mindspore.mint.nn.functional``."""

from __future__ import annotations

from typing import Any

from framejit import ops

_SAME = (
    "relu relu6 sigmoid tanh elu silu mish softplus hardsigmoid hardswish leaky_relu hardshrink softshrink logsigmoid "
    "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy mse_loss l1_loss smooth_l1_loss layer_norm one_hot pad nll_loss "
    "scaled_dot_product_attention"
)
globals().update({name: getattr(ops, name) for name in _SAME.split()})
linear = ops.dense


def dropout(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """While training, zeros with probability p, and the rest divided by 1 - p."""
    return ops.dropout(input, p, training)


def gelu(input: Any, *, approximate: str = "none") -> Any:
    """x times the normal distribution function of x."""
    return ops.gelu(input, approximate)


def softmax(input: Any, dim: int = -1, dtype: Any = None) -> Any:
    """exp(input) / sum(exp(input)) along `dim`."""
    return ops.softmax(input, dim, dtype=dtype)


def log_softmax(input: Any, dim: int = -1, dtype: Any = None) -> Any:
    """log(softmax(input))."""
    return ops.log_softmax(input if dtype is None else input.astype(dtype), dim)
