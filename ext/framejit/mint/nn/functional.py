"""``mindspore.mint.nn.functional``."""

from __future__ import annotations

from typing import Any

from framejit import ops

_SAME = (
    "relu relu6 sigmoid tanh elu silu mish softplus hardsigmoid hardswish leaky_relu hardshrink softshrink logsigmoid "
    "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy mse_loss l1_loss smooth_l1_loss layer_norm one_hot pad nll_loss "
    "scaled_dot_product_attention adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
    "cosine_embedding_loss fold group_norm hardtanh interpolate max_unpool2d normalize pixel_shuffle prelu soft_margin_loss upsample"
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


def _around(padding: Any, axes: int) -> tuple[str, Any]:
    """The mode and padding of framejit.ops for PyTorch's."""
    if isinstance(padding, str):
        return padding, 0
    sizes = (padding,) * axes if isinstance(padding, int) else tuple(padding)
    return "pad", tuple([size for size in (sizes * axes if len(sizes) == 1 else sizes) for _ in range(2)])


def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Convolution of lines."""
    mode, sizes = _around(padding, 1)
    return ops.conv1d(input, weight, bias, stride, mode, sizes, dilation, groups)


def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Convolution of images."""
    mode, sizes = _around(padding, 2)
    return ops.conv2d(input, weight, bias, stride, mode, sizes, dilation, groups)


def conv3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Convolution of volumes."""
    mode, sizes = _around(padding, 3)
    return ops.conv3d(input, weight, bias, stride, mode, sizes, dilation, groups)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of `conv2d`."""
    mode, sizes = _around(padding, 2)
    more = (output_padding,) * 2 if isinstance(output_padding, int) else tuple(output_padding)
    return ops._image._transposed(2, input, weight, bias, stride, mode, sizes, dilation, groups, more)


def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    *,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element under each window."""
    return ops.max_pool2d(input, kernel_size, stride, padding, dilation, return_indices, ceil_mode)


def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean under each window."""
    stride = kernel_size if stride is None else stride
    return ops.avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean under each window."""
    stride = kernel_size if stride is None else stride
    return ops.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override or 0)


def avg_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean under each window."""
    stride = kernel_size if stride is None else stride
    return ops.avg_pool3d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override or 0)


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Mean 0 and variance 1 for each channel."""
    return ops.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def dropout2d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """While training, zeros instead of whole images."""
    return ops.dropout2d(input, p, training)


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions from `start_dim` to `end_dim` as one."""
    return ops.flatten(input, start_dim=start_dim, end_dim=end_dim)


def glu(input: Any, dim: int = -1) -> Any:
    """The first half times the sigmoid of the second."""
    return ops.glu(input, dim)


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """target * (log(target) - input); a `log_target` is a logarithm already."""
    if not log_target:
        return ops.kl_div(input, target, reduction)
    loss = ops.exp(target) * (target - input)
    return ops.sum(loss) / input.shape[0] if reduction == "batchmean" else ops._loss._reduced(loss, reduction)


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """What is under each window as a column."""
    return ops.unfold(input, kernel_size, dilation, padding, stride)


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
) -> Any:
    """The rows of `weight` at the indices."""
    return ops.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """input where above the threshold, else `value`."""
    return ops.threshold(input, threshold, value)
