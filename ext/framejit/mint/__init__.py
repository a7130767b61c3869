"""``mindspore.mint``: functions with the parameters of PyTorch."""

from __future__ import annotations

from typing import Any

from framejit import ops
from framejit.mint import nn as nn

_SAME = (
    "abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh bitwise_and bitwise_or "
    "bitwise_xor broadcast_to ceil chunk clamp cos cosh eq equal erf erfc exp exp2 expm1 eye flip floor fmod gather_nd greater greater_equal "
    "gt isclose isfinite isinf le less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor lt "
    "masked_select matmul maximum mean meshgrid minimum mul multinomial nan_to_num narrow ne neg negative nonzero not_equal ones_like outer "
    "permute pow prod rand randn reciprocal remainder repeat_interleave reshape roll round rsqrt searchsorted sigmoid sign sin sinc sinh "
    "sqrt square squeeze stack std sum swapaxes tan tanh tile topk trace tril triu trunc unbind unsqueeze where xlogy zeros_like addmm "
    "baddbmm bmm bernoulli bincount float_power frac histc inverse lerp median mv randint randperm scatter split zeros ones full full_like "
    "arange dot einsum isneginf t"
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


def max(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The largest element; with `dim` a pair of values and indices."""
    return ops.amax(input) if dim is None else ops.max(input, dim, keepdim)


def min(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest element; with `dim` a pair of values and indices."""
    return ops.amin(input) if dim is None else ops.min(input, dim, keepdim)


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


def __getattr__(name: str) -> Any:
    from framejit._names import unknown

    raise unknown("framejit.mint", name, globals())
