"""New Tensors: constants, ranges, random numbers; and writing into existing ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._core import _array, _dtype, _tensor
from framejit._dtypes import ALL
from framejit.ops._shape import _ints

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


def range(start: Any, end: Any = None, step: Any = 1, maxlen: int = 1000000) -> Any:
    """The same as `arange`."""
    return arange(start, end, step)


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


# --- Random numbers, from NumPy's global generator, which set_seed sets ----------------------------------------------------


def _random(numbers: Any, dtype: Any) -> Any:
    return _tensor(np.asarray(numbers, _dtype(_FLOAT32 if dtype is None else dtype)))


def _size(size: tuple[Any, ...]) -> Any:
    return _ints(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size


def rand(*size: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Uniform in [0, 1)."""
    return _random(np.random.random_sample(_size(size)), dtype)


def randn(*size: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Standard normal."""
    return _random(np.random.standard_normal(_size(size)), dtype)


def rand_like(input: Any, seed: Any = None, *, dtype: Any = None) -> Any:
    """Uniform in [0, 1), of the same shape and dtype."""
    return rand(*input.shape, dtype=input.dtype if dtype is None else dtype)


def randn_like(input: Any, seed: Any = None, *, dtype: Any = None) -> Any:
    """Standard normal, of the same shape and dtype."""
    return randn(*input.shape, dtype=input.dtype if dtype is None else dtype)


def randint(low: int, high: int, size: Any, seed: Any = None, *, dtype: Any = None) -> Any:
    """Ints in [low, high)."""
    return _random(np.random.randint(low, high, _ints(size)), _INT64 if dtype is None else dtype)


def randint_like(input: Any, low: int, high: int, seed: Any = None, *, dtype: Any = None) -> Any:
    """Ints in [low, high), of the same shape."""
    return randint(low, high, input.shape, dtype=input.dtype if dtype is None else dtype)


def randperm(n: int, seed: int = 0, offset: int = 0, dtype: Any = _INT64) -> Any:
    """The ints below n in random order."""
    return _random(np.random.permutation(n), dtype)


def normal(shape: Any, mean: Any, stddev: Any, seed: Any = None) -> Any:
    """Normal."""
    return _random(np.random.normal(_array(mean), _array(stddev), _ints(shape)), None)


def standard_normal(shape: Any, seed: Any = None) -> Any:
    """Standard normal."""
    return _random(np.random.standard_normal(_ints(shape)), None)


def uniform(shape: Any, minval: Any, maxval: Any, seed: Any = None, dtype: Any = _FLOAT32) -> Any:
    """Uniform in [minval, maxval)."""
    return _random(np.random.uniform(_array(minval), _array(maxval), _ints(shape)), dtype)


def bernoulli(input: Any, p: Any = 0.5, seed: Any = None) -> Any:
    """1 with probability p, else 0, of the shape and dtype of input."""
    return _random(np.random.random_sample(input.shape) < _array(p), input.dtype)


def multinomial(input: Any, num_samples: int, replacement: bool = True, seed: Any = None) -> Any:
    """Indices drawn with the weights of each row."""
    x = np.atleast_2d(_array(input)).astype(np.float64)
    drawn = np.stack([np.random.choice(row.size, num_samples, replacement, row / row.sum()) for row in x])
    return _random(drawn if input.ndim == 2 else drawn[0], ALL["int32"])


def dropout(input: Any, p: float = 0.5, training: bool = True, seed: Any = None) -> Any:
    """While training, zeros with probability p, and the rest divided by 1 - p."""
    if not training or p == 0:
        return input
    return _dropped(input, p)


def _dropped(input: Any, p: float) -> Any:
    keep = np.random.random_sample(input.shape) >= p
    return _tensor(np.where(keep, _array(input) / _array(1 - p or 1, input.dtype), _array(0, input.dtype)))


def _dropped_channels(input: Any, p: float, training: bool, least: int, most: int) -> Any:
    """While training, zeros in place of whole channels with probability p, and the rest divided by 1 - p."""
    if not least <= input.ndim <= most:
        raise ValueError(
            f"For dropout of channels, the input must have {least} to {most} dimensions, but got {input.ndim}."
        )
    if not training or p == 0:
        return input
    lead = input.ndim - (most - 2)
    shape = input.shape[:lead] + (1,) * (input.ndim - lead)
    keep = np.random.random_sample(shape) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return _tensor(np.where(keep, _array(input) * _array(scale, input.dtype), _array(0, input.dtype)))


def dropout1d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """While training, zeros in place of whole lines of [N, C, L] or [C, L]."""
    return _dropped_channels(input, p, training, 2, 3)


def dropout2d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """While training, zeros in place of whole images of [N, C, H, W]."""
    return _dropped_channels(input, p, training, 4, 4)


def dropout3d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """While training, zeros in place of whole volumes of [N, C, D, H, W]."""
    return _dropped_channels(input, p, training, 5, 5)


def rrelu(input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3) -> Any:
    """`leaky_relu` with random slopes."""
    x = _array(input)
    return _tensor(np.where(x < 0, x * np.random.uniform(lower, upper, x.shape).astype(x.dtype), x))


# --- Into what exists -----------------------------------------------------------------------------------------------------


def assign(variable: Any, value: Any) -> Any:
    """Writes `value` into `variable`, which is also the result."""
    variable[...] = value
    return variable


def assign_add(variable: Any, value: Any) -> Any:
    """Adds `value` to `variable` where it lies."""
    variable[...] = variable + value
    return variable


def assign_sub(variable: Any, value: Any) -> Any:
    """Subtracts `value` from `variable` where it lies."""
    variable[...] = variable - value
    return variable


def inplace_add(x: Any, v: Any, indices: Any) -> Any:
    """A copy of x with v added to the rows at the indices."""
    out = np.array(_array(x))
    out[list(indices) if isinstance(indices, tuple) else indices] += _array(v)
    return _tensor(out)


def inplace_sub(x: Any, v: Any, indices: Any) -> Any:
    """A copy of x with v subtracted from the rows at the indices."""
    out = np.array(_array(x))
    out[list(indices) if isinstance(indices, tuple) else indices] -= _array(v)
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
