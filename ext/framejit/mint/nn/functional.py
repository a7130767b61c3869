"""``mindspore.mint.nn.functional``."""

from __future__ import annotations

from typing import Any

from framejit import ops
from framejit.ops import _signatures

_SAME = (
    "sigmoid tanh mish softplus hardsigmoid hardswish hardshrink softshrink "
    "cross_entropy mse_loss l1_loss smooth_l1_loss layer_norm "
    "scaled_dot_product_attention adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d "
    "cosine_embedding_loss fold grid_sample group_norm interpolate normalize pixel_shuffle prelu soft_margin_loss"
)
globals().update({name: getattr(ops, name) for name in _SAME.split()})
linear = ops.dense


def _put(input: Any, result: Any, inplace: bool) -> Any:
    """The result, or the input with it in its memory."""
    if not inplace:
        return result
    input[...] = result
    return input


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """While training, zeros with probability p, and the rest divided by 1 - p."""
    return _put(input, ops.dropout(input, p, training), inplace)


def relu(input: Any, inplace: bool = False) -> Any:
    """max(input, 0)."""
    return _put(input, ops.relu(input), inplace)


def relu6(input: Any, inplace: bool = False) -> Any:
    """min(max(input, 0), 6)."""
    return _put(input, ops.relu6(input), inplace)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """The input above 0, else alpha * (exp(input) - 1)."""
    return _put(input, ops.elu(input, alpha), inplace)


def silu(input: Any, inplace: bool = False) -> Any:
    """input * sigmoid(input)."""
    return _put(input, ops.silu(input), inplace)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """The input within limits."""
    return _put(input, ops.hardtanh(input, min_val, max_val), inplace)


def leaky_relu(input: Any, negative_slope: float = 0.01) -> Any:
    """The input above 0, else a part of it."""
    return ops.leaky_relu(input, negative_slope)


def logsigmoid(input: Any) -> Any:
    """log(sigmoid(input))."""
    return ops.logsigmoid(input)


def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """The cross entropy of probabilities."""
    return ops.binary_cross_entropy(input, target, weight, reduction)


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """The cross entropy of sigmoid(input)."""
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """A 1 at the place that each element says, and zeros, along a new last axis."""
    count = num_classes if num_classes >= 0 else int(ops.amax(tensor)) + 1
    return ops.one_hot(tensor, count, 1, 0).astype(tensor.dtype)


def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """With a border."""
    return ops.pad(input, pad, mode, value)


def nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """The loss of logarithms of probabilities."""
    return ops.nll_loss(input, target, weight, ignore_index, reduction)


def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many parts of lines."""
    if return_indices:
        raise ValueError("For 'adaptive_max_pool1d', there are no indices: 'return_indices' must be False.")
    return ops.adaptive_max_pool1d(input, output_size)


def gelu(input: Any, *, approximate: str = "none") -> Any:
    """x times the normal distribution function of x."""
    return ops.gelu(input, approximate)


def _softmax_axis(input: Any, dim: int | None) -> int:
    """The axis that PyTorch takes where none is given."""
    return dim if dim is not None else 0 if input.ndim in (0, 1, 3) else 1


def softmax(input: Any, dim: int | None = None, dtype: Any = None) -> Any:
    """exp(input) / sum(exp(input)) along `dim`."""
    return ops.softmax(input, _softmax_axis(input, dim), dtype=dtype)


def log_softmax(input: Any, dim: int | None = None, dtype: Any = None) -> Any:
    """log(softmax(input))."""
    return ops.log_softmax(input if dtype is None else input.astype(dtype), _softmax_axis(input, dim))


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


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """While training, zeros instead of whole images."""
    return _put(input, ops.dropout2d(input, p, training), inplace)


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
    return _put(input, ops.threshold(input, threshold, value), inplace)


def max_unpool2d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Zeros with the elements at the places from which `max_pool2d` took them."""
    return ops.max_unpool2d(input, indices, kernel_size, stride, padding, output_size)


def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Any:
    """The input in another size, or with its size times a factor."""
    return ops.interpolate(input, size, scale_factor, mode, align_corners)


def elu_(input: Any, alpha: float = 1.0) -> Any:
    """`elu` in place."""
    return elu(input, alpha, True)


def relu_(input: Any) -> Any:
    """`relu` in place."""
    return relu(input, True)


def sigmoid_(input: Any) -> Any:
    """`sigmoid` in place."""
    return _put(input, ops.sigmoid(input), True)


def hardtanh_(input: Any, min_val: float = -1, max_val: float = 1) -> Any:
    """`hardtanh` in place."""
    return hardtanh(input, min_val, max_val, True)


def threshold_(input: Any, threshold: float, value: float) -> Any:
    """`threshold` in place."""
    return _put(input, ops.threshold(input, threshold, value), True)


globals().update(_signatures.explained_functions(globals()))
