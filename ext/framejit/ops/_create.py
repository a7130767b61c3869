"""New Tensors: constants, ranges, random numbers; and writing into existing ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._autodiff import _primitives
from framejit._autodiff._primitives import writable
from framejit._core import _array, _dtype, _tensor
from framejit.ops._shape import _ints

__all__ = [
    "arange", "assign", "assign_add", "assign_sub", "depend", "empty", "empty_like", "eye", "fill", "full",
    "full_like", "identity", "inplace_add", "inplace_sub", "linspace", "logspace", "ones", "ones_like", "print_",
    "range", "tril_indices", "triu_indices", "zeros", "zeros_like",
]  # fmt: skip

_FLOAT32, _INT64 = ALL["float32"], ALL["int64"]


def zeros(size: Any, dtype: Any = None) -> Any:
    """Zeros; float32 by default."""
    return _tensor(np.zeros(_ints(size), _dtype(_FLOAT32 if dtype is None else dtype)))


def ones(shape: Any, dtype: Any = None) -> Any:
    """Ones; float32 by default."""
    return _tensor(np.ones(_ints(shape), _dtype(_FLOAT32 if dtype is None else dtype)))


def full(size: Any, fill_value: Any, *, dtype: Any = None) -> Any:
    """One number everywhere, of the dtype that a Tensor of it has."""
    value = _array(fill_value, dtype)
    return _tensor(np.full(_ints(size), value, value.dtype))


def fill(type: Any, shape: Any, value: Any) -> Any:
    """One number everywhere."""
    return full(shape, value, dtype=type)


def zeros_like(input: Any, *, dtype: Any = None) -> Any:
    """Zeros of the same shape and dtype."""
    return _tensor(np.zeros(input.shape, _dtype(input.dtype if dtype is None else dtype)))


def ones_like(input: Any, *, dtype: Any = None) -> Any:
    """Ones of the same shape and dtype."""
    return _tensor(np.ones(input.shape, _dtype(input.dtype if dtype is None else dtype)))


def full_like(input: Any, fill_value: Any, *, dtype: Any = None) -> Any:
    """One number, in the same shape and dtype."""
    return full(input.shape, fill_value, dtype=input.dtype if dtype is None else dtype)


empty, empty_like = zeros, zeros_like


def arange(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Any:
    """Numbers from `start` up to `end`: int64, or float32 where one of them is a float."""
    if end is None:
        start, end = 0, start
    start, end, step = [x.item() if isinstance(x, _core.Tensor) else x for x in (start, end, step)]
    if dtype is None:
        dtype = _FLOAT32 if isinstance(start, float) or isinstance(end, float) or isinstance(step, float) else _INT64
    return _tensor(np.arange(start, end, step, _dtype(dtype)))


def range(start: Any, end: Any, step: Any, maxlen: int = 1000000) -> Any:
    """Numbers from `start` up to `end`; more than `maxlen` are an error."""
    out = arange(start, end, step)
    if out.size > maxlen:
        raise ValueError(f"For 'range', there must be at most {maxlen} numbers, but got {out.size}.")
    return out


def linspace(start: Any, end: Any, steps: int) -> Any:
    """`steps` numbers from `start` to `end`; float32 for Python numbers."""
    first, last = _array(start, "floating"), _array(end, "floating")
    return _tensor(np.linspace(first, last, steps, dtype=first.dtype))


def logspace(start: Any, end: Any, steps: int, base: int = 10, *, dtype: Any = _FLOAT32) -> Any:
    """Powers of `base` with exponents from `start` to `end`."""
    return _tensor(np.logspace(float(start), float(end), steps, base=base, dtype=_dtype(dtype)))


def eye(n: int, m: int | None = None, dtype: Any = None) -> Any:
    """Ones on the diagonal, zeros elsewhere."""
    return _tensor(np.eye(n, m, dtype=_dtype(_FLOAT32 if dtype is None else dtype)))


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = _INT64) -> Any:
    """Places of the lower triangle."""
    return _tensor(np.stack(np.tril_indices(row, offset, col)).astype(_dtype(dtype)))


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = _INT64) -> Any:
    """Places of the upper triangle."""
    return _tensor(np.stack(np.triu_indices(row, offset, col)).astype(_dtype(dtype)))


# --- Into what exists -----------------------------------------------------------------------------------------------------


def _write(variable: Any, value: Any) -> None:
    if type(variable) is not _core.Tensor:  # a Parameter
        _primitives.assign(variable, value)
    else:
        variable[...] = value


def assign(variable: Any, value: Any) -> Any:
    """Writes `value` into `variable`, which is also the result. No gradient follows what is written into a Parameter."""
    _write(variable, value)
    return variable


def assign_add(variable: Any, value: Any) -> Any:
    """Add `value` to `variable` in place."""
    _write(variable, variable + value)
    return variable


def assign_sub(variable: Any, value: Any) -> Any:
    """Subtract `value` from `variable` in place."""
    _write(variable, variable - value)
    return variable


def _rows(indices: Any) -> Any:
    """Rows by their indices; one index is one row, and not what is in it."""
    return [indices] if isinstance(indices, int) else list(indices) if isinstance(indices, tuple) else indices


def inplace_add(x: Any, v: Any, indices: Any) -> Any:
    """A copy of x with v added to the rows at the indices."""
    out = writable(_array(x), _array(v))
    out[_rows(indices)] += _array(v)
    return _tensor(out)


def inplace_sub(x: Any, v: Any, indices: Any) -> Any:
    """A copy of x with v subtracted from the rows at the indices."""
    out = writable(_array(x), _array(v))
    out[_rows(indices)] -= _array(v)
    return _tensor(out)


def depend(value: Any, expr: Any) -> Any:
    """The value; `expr` was computed before."""
    return value


def identity(x: Any) -> Any:
    """x."""
    return x


def print_(*input_x: Any) -> None:
    """Prints as Python does."""
    print(*input_x)
