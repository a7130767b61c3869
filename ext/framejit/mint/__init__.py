"""``mindspore.mint``: functions with the parameters of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._core import Tensor, _array, _tensor
from framejit.mint import distributed as distributed
from framejit.mint import linalg as linalg
from framejit.mint import nn as nn
from framejit.mint import special as special
from framejit.ops import _signatures

_SAME = (
    "abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh bitwise_and bitwise_or "
    "bitwise_xor broadcast_to ceil chunk clamp cos cosh eq equal erf erfc exp exp2 expm1 eye flip floor fmod gather_nd greater greater_equal "
    "gt isclose isfinite isinf le less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor lt "
    "masked_select matmul maximum mean meshgrid minimum mul nan_to_num ne neg negative nonzero not_equal ones_like outer "
    "pow prod rand randn reciprocal remainder repeat_interleave reshape roll round rsqrt sigmoid sign sin sinc sinh "
    "sqrt square squeeze stack std sum swapaxes tan tanh tile trace tril triu trunc unsqueeze xlogy zeros_like addmm "
    "baddbmm bmm bincount float_power inverse lerp randint split zeros ones full full_like "
    "arange dot einsum isneginf addbmm addcdiv addcmul addmv allclose bitwise_not clip cross dstack empty empty_like erfinv "
    "floor_divide gcd ge hstack imag isnan logaddexp2 mm polar randint_like ravel real take unique_consecutive"
)
globals().update({name: getattr(ops, name) for name in _SAME.split() if hasattr(ops, name)})


def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input + alpha * other."""
    return ops.add(input, other if isinstance(alpha, int) and alpha == 1 else ops.mul(other, alpha))


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input - alpha * other."""
    return ops.sub(input, other if isinstance(alpha, int) and alpha == 1 else ops.mul(other, alpha))


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """input / other."""
    return ops.div(input, other, rounding_mode=rounding_mode)


divide = div


def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Mean over `dim`."""
    return ops.mean(input if dtype is None else input.astype(dtype), dim, keepdim)


def prod(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Product over `dim`."""
    return ops.prod(input, dim, keepdim, dtype)


def all(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether all elements are true."""
    return ops.all(input, dim, keepdim)


def any(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether any element is true."""
    return ops.any(input, dim, keepdim)


def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; with `dim` a pair of values and indices. With `other`, the larger one of each pair of elements."""
    if other is None and isinstance(dim, (Tensor, float)):
        dim, other = None, dim
    if other is not None:
        return ops.maximum(input, other)
    return ops.amax(input) if dim is None else ops.max(input, dim, keepdim)


def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; with `dim` a pair of values and indices. With `other`, the smaller one of each pair of elements."""
    if other is None and isinstance(dim, (Tensor, float)):
        dim, other = None, dim
    if other is not None:
        return ops.minimum(input, other)
    return ops.amin(input) if dim is None else ops.min(input, dim, keepdim)


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Elements of `input` where `condition` holds, else of `other`. Without these, the indices where it holds: one Tensor for each dimension."""
    if input is None and other is None:
        return ops.nonzero(condition, as_tuple=True)
    return ops.where(condition, input, other)


def bernoulli(input: Any, *, generator: Any = None) -> Any:
    """1 with the probabilities that the Tensor has, else 0."""
    return ops.bernoulli(input, input, generator)


def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Any:
    """Places, drawn with the probabilities that the Tensor has."""
    return ops.multinomial(input, num_samples, replacement, generator)


def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """A part along an axis."""
    return ops.narrow(input, dim, start, length)


def permute(input: Any, dims: Any) -> Any:
    """The dimensions in another order."""
    return ops.permute(input, dims)


def searchsorted(
    sorted_sequence: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Where the values would be put into a Tensor that is sorted, or is by `sorter`."""
    if side is not None and side not in ("left", "right"):
        raise ValueError(f"For 'searchsorted', the 'side' must be 'left' or 'right', but got {side!r}.")
    if sorter is not None:
        sorted_sequence = ops.gather_elements(sorted_sequence, -1, sorter)
    return ops.searchsorted(sorted_sequence, values, out_int32=out_int32, right=right or side == "right")


def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The `k` largest or smallest along an axis, and where they are."""
    return ops.topk(input, k, dim, largest, sorted)


def frac(input: Any) -> Any:
    """The part after the point."""
    return ops.frac(input)


def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements lie in each of the parts of a range."""
    return ops.histc(input, bins, float(min), float(max))


def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element, of two the lower one; with `dim` a pair of values and indices."""
    if dim is None:
        return ops.Median(True)(input)[0]
    return ops.Median(False, dim, keepdim)(input)


def mv(input: Any, vec: Any) -> Any:
    """The product of a matrix and a vector."""
    return ops.mv(input, vec)


def randperm(n: int, *, generator: Any = None, dtype: Any = ALL["int64"]) -> Any:
    """The numbers below n in random order."""
    return ops.randperm(n, 0 if generator is None else generator, dtype=dtype)


def scatter(input: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy, with values at places along an axis."""
    return ops.scatter(input, dim, index, src)


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Any:
    """The distances of rows; `compute_mode` is accepted and ignored."""
    return ops.cdist(x1, x2, p)


def rand_like(input: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Random numbers from 0 to 1 in the shape of a Tensor."""
    return ops.rand_like(input, dtype=dtype)


def randn_like(input: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Random numbers of the normal distribution in the shape of a Tensor."""
    return ops.randn_like(input, dtype=dtype)


def unbind(input: Any, dim: int = 0) -> Any:
    """The parts along an axis, without it."""
    return ops.unbind(input, dim)


def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Index of the largest element."""
    return ops.argmax(input, dim, keepdim)


def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Index of the smallest element."""
    return ops.argmin(input, dim, keepdim)


def cat(tensors: Any, dim: int = 0) -> Any:
    """Tensors one after the other along `dim`."""
    return ops.cat(tensors, dim)


concat = cat


def stack(tensors: Any, dim: int = 0) -> Any:
    """Tensors along a new dimension."""
    return ops.stack(tensors, dim)


def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Parts along `dim`."""
    return ops.split(tensor, split_size_or_sections, dim)


def chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """Parts along `dim`."""
    return ops.chunk(input, chunks, dim)


def cumsum(input: Any, dim: int, dtype: Any = None) -> Any:
    """Sums of the elements up to each one."""
    return ops.cumsum(input, dim, dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """exp(input) / sum(exp(input)) along `dim`."""
    return ops.softmax(input, dim, dtype=dtype)


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged."""
    return ops.swapaxes(input, dim0, dim1)


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions from `start_dim` to `end_dim` as one."""
    return ops.flatten(input, start_dim=start_dim, end_dim=end_dim)


def gather(input: Any, dim: int, index: Any) -> Any:
    """For each place the element along `dim` that the index says."""
    return ops.gather_elements(input, dim, index)


def index_select(input: Any, dim: int, index: Any) -> Any:
    """The elements along `dim` at the indices."""
    return ops.index_select(input, dim, index)


def sort(input: Any, *, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The elements in order, and where they were."""
    values, at = ops.sort(input, dim, descending)
    return values, at.astype("int64")


def zeros(size: Any, *more: Any, dtype: Any = None) -> Any:
    """Zeros."""
    return ops.zeros((size, *more) if more else size, dtype)


def ones(size: Any, *more: Any, dtype: Any = None) -> Any:
    """Ones."""
    return ops.ones((size, *more) if more else size, dtype)


def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Norm of vectors or matrices."""
    return ops.norm(input, None if p == "fro" else p, dim, keepdim, dtype=dtype)


def var(input: Any, dim: Any = None, *, correction: int = 1, keepdim: bool = False) -> Any:
    """Variance."""
    return ops.var(input, dim, correction, keepdim)


def std(input: Any, dim: Any = None, *, correction: int = 1, keepdim: bool = False) -> Any:
    """Standard deviation."""
    return ops.std(input, dim, correction, keepdim)


def amax(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The largest element over `dim`."""
    return ops.amax(input, dim, keepdim)


def amin(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The smallest element over `dim`."""
    return ops.amin(input, dim, keepdim)


def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Where the elements in order are (int64)."""
    return ops.argsort(input, dim, descending).astype("int64")


def count_nonzero(input: Any, dim: Any = None) -> Any:
    """The number of elements that are not 0 (int64)."""
    return ops.count_nonzero(input, () if dim is None else dim, dtype="int64")


def cummax(input: Any, dim: int) -> Any:
    """The largest elements up to each one, and where they are."""
    return ops.cummax(input, dim)


def cummin(input: Any, dim: int) -> Any:
    """The smallest elements up to each one, and where they are (int64)."""
    values, at = ops.cummin(input, dim)
    return values, at.astype("int64")


def cumprod(input: Any, dim: int, dtype: Any = None) -> Any:
    """Products of the elements up to each one."""
    return ops.cumprod(input, dim, dtype)


def t(input: Any) -> Any:
    """The first two dimensions exchanged."""
    return ops.swapaxes(input, 0, 1) if input.ndim > 1 else ops.t(input)


def diag(input: Any, diagonal: int = 0) -> Any:
    """The matrix with this diagonal, or a diagonal of this matrix."""
    return ops.diagflat(input, diagonal) if input.ndim == 1 else ops.diagonal(input, diagonal)


def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along `dim`."""
    return ops.diff(input, n, dim, prepend, append)


def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """A copy with alpha * source added along `dim` at the indices."""
    return ops.index_add(input, index, source * alpha if alpha != 1 else source, dim)


def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """log(sum(exp(input))) over `dim`."""
    return ops.logsumexp(input, dim, keepdim)


def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum over `dim`, NaN as 0."""
    return ops.nansum(input, dim, keepdim, dtype=dtype)


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy with `src` added at the places along `dim` that the indices say."""
    return ops.tensor_scatter_elements(input, index, src, dim, "add")


def select(input: Any, dim: int, index: int) -> Any:
    """The part at an index along `dim`."""
    return ops.narrow(input, dim, index % input.shape[dim], 1).squeeze(dim)


def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Each element once, in order; which one each place is, and how often each occurs (int64)."""
    found = np.unique(_array(input), return_inverse=return_inverse, return_counts=return_counts, axis=dim)
    if not return_inverse and not return_counts:
        return _tensor(found)
    parts = [_tensor(part) for part in found]
    if return_inverse:
        parts[1] = parts[1].reshape(input.shape if dim is None else (-1,))
    return tuple(parts)


def std_mean(input: Any, dim: Any = None, *, correction: int = 1, keepdim: bool = False) -> Any:
    """Standard deviation and mean."""
    return ops.std_mean(input, dim, correction, keepdim)


def var_mean(input: Any, dim: Any = None, *, correction: int = 1, keepdim: bool = False) -> Any:
    """Variance and mean."""
    return ops.var_mean(input, dim, correction, keepdim)


def vdot(input: Any, other: Any) -> Any:
    """The product of two vectors."""
    return ops.sum(input * other)


def clone(input: Any) -> Any:
    """A copy."""
    return input.copy()


def item(input: Any) -> Any:
    """The one element as a Python number."""
    return input.item()


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest element along `dim`, and where it is (int64)."""
    values, at = ops.sort(input, dim)
    values, at = ops.narrow(values, dim, k - 1, 1), ops.narrow(at, dim, k - 1, 1).astype("int64")
    return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))


def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, generator: Any = None) -> Any:
    """Normal."""
    return ops.normal(() if size is None else size, mean, std, generator)


def addr_(input: Any, vec1: Any, vec2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """Write beta * input + alpha * outer(vec1, vec2) into the input."""
    input[...] = ops.addr(input, vec1, vec2, beta=beta, alpha=alpha)
    return input


def npu_gelu(input: Any, approximate: str = "none") -> Any:
    """x times the normal distribution function of x."""
    return ops.gelu(input, approximate)


def triangular_solve(b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    """(the x of A x = b, of whose A one triangle counts, that triangle).

    Parameters
    ----------
    b : Tensor
        [..., N, K].
    A : Tensor
        [..., N, N].
    upper : bool
        Which triangle.
    transpose : bool
        Whether its transpose is meant.
    unitriangular : bool
        Whether the diagonal is taken for ones.
    """
    return ops._factors._triangular_solve(b, A, upper, transpose, unitriangular)


def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """Convolution of lines [length, N, channels]: `weight` is [width, channels in, channels out]."""
    lines = ops.conv1d(ops.permute(input, (1, 2, 0)), ops.permute(weight, (2, 1, 0)), bias, 1, "pad", (pad, pad))
    return ops.permute(lines, (2, 0, 1))


def batch_norm_stats(input: Any, eps: float) -> Any:
    """(means, 1 / roots of the variances) of channels: dimension 1."""
    axes = (0, *range(2, input.ndim))
    return ops.mean(input, axes), ops.rsqrt(ops.var(input, axes, 0) + eps)


def batch_norm_elemt(
    input: Any, weight: Any = None, bias: Any = None, mean: Any = None, invstd: Any = None, eps: float = 1e-5
) -> Any:
    """(input - mean) * invstd * weight + bias for each channel: dimension 1."""
    shape = (1, -1, *(1,) * (input.ndim - 2))
    for value, function in ((mean, ops.sub), (invstd, ops.mul), (weight, ops.mul), (bias, ops.add)):
        if value is not None:
            input = function(input, value.reshape(shape))
    return input


def batch_norm_gather_stats_with_counts(
    input: Any, mean: Any, invstd: Any, running_mean: Any = None, running_var: Any = None, momentum: float = 0.1, eps: float = 1e-5,
    counts: Any = None,
) -> Any:  # fmt: skip
    """(means, 1 / roots of the variances) of all samples, from those of several parts [parts, C] and the numbers of elements in them.

    `running_mean` and `running_var` move towards the mean and the variance of what the samples are drawn from.
    """
    weights = counts.reshape((-1, 1)).astype(mean.dtype)
    total = ops.sum(weights)
    middle = ops.sum(mean * weights, 0) / total
    spread = ops.square(ops.reciprocal(invstd)) - eps + ops.square(mean - middle)
    variance = ops.sum(spread * weights, 0) / total
    if running_mean is not None:
        running_mean[...] = running_mean * (1 - momentum) + middle * momentum
    if running_var is not None:
        running_var[...] = running_var * (1 - momentum) + variance * (total / (total - 1)) * momentum
    return middle, ops.rsqrt(variance + eps)


def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Convolution of images."""
    return nn.functional.conv2d(input, weight, bias, stride, padding, dilation, groups)


fix = ops.trunc
globals().update(_signatures.explained_functions(globals()))


def __getattr__(name: str) -> Any:
    from framejit._api._names import unknown

    raise unknown("framejit.mint", name, globals())
