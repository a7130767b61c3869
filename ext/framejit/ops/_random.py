"""Random numbers, from the generator that `set_seed` sets (framejit/_tensors/_random.py): in compiled functions nodes of the graph as any other.

With a seed a function draws from a stream of its own, which goes on from call to call, and restarts with `set_seed`. What draws until
something is found is NumPy's: `randperm`, `multinomial`, `shuffle`, `gamma` and `poisson`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._api._dtypes import ALL
from framejit._core import (
    _array,
    _arrays,
    _dtype,
    _op_absolute,
    _op_add,
    _op_divide,
    _op_equal,
    _op_floor,
    _op_greater_equal,
    _op_less,
    _op_log,
    _op_multiply,
    _op_negative,
    _op_subtract,
    _tensor,
)
from framejit._tensors import _random
from framejit.ops._elementwise import where
from framejit.ops._shape import _ints

__all__ = [
    "bernoulli", "dropout", "dropout1d", "dropout2d", "dropout3d", "gamma", "laplace", "multinomial", "normal",
    "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "rrelu", "shuffle",
    "standard_laplace", "standard_normal", "uniform",
]  # fmt: skip

_FLOAT32, _INT64 = ALL["float32"], ALL["int64"]
_FLOATS = tuple(ALL[name] for name in ("float16", "bfloat16", "float32", "float64"))
(_RAND, _RANDN, _RANDINT, _NORMAL, _UNIFORM, _BERNOULLI, _DROPOUT, _LAPLACE, _PERMUTED, _CHOSEN, _GAMMA, _POISSON) = (
    range(12)
)


def _size(size: tuple[Any, ...]) -> Any:
    return _ints(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size


def _floating(name: str, dtype: Any) -> Any:
    if dtype is None or dtype is _FLOAT32:
        return _FLOAT32
    if dtype not in _FLOATS:
        raise ValueError(f"For '{name}', the 'dtype' must be a floating one, but got {dtype}.")
    return dtype


def _uniform(name: str, kind: int, shape: Any, dtype: Any, seed: Any) -> Any:
    return _random.draw(_random.uniform, _random.stream(kind, seed), shape, _floating(name, dtype))


def _normal(name: str, kind: int, shape: Any, dtype: Any, seed: Any) -> Any:
    return _random.draw(_random.normal, _random.stream(kind, seed), shape, _floating(name, dtype))


def _operand(value: Any, dtype: Any) -> Any:
    """A number as it is, else a Tensor."""
    return value if isinstance(value, (int, float)) else _tensor(_array(value, dtype))


def rand(*size: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Uniform in [0, 1)."""
    return _uniform("rand", _RAND, _size(size), dtype, seed)


def randn(*size: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Standard normal."""
    return _normal("randn", _RANDN, _size(size), dtype, seed)


def rand_like(input: Any, seed: Any = None, *, dtype: Any = None) -> Any:
    """Uniform in [0, 1), of the same shape and dtype."""
    return _uniform("rand_like", _RAND, input.shape, input.dtype if dtype is None else dtype, seed)


def randn_like(input: Any, seed: Any = None, *, dtype: Any = None) -> Any:
    """Standard normal, of the same shape and dtype."""
    return _normal("randn_like", _RANDN, input.shape, input.dtype if dtype is None else dtype, seed)


def randint(low: int, high: int, size: Any, seed: Any = None, *, dtype: Any = None) -> Any:
    """Ints in [low, high)."""
    low, high = int(low), int(high)
    if not -(2**63) <= low < high < 2**63:
        raise ValueError(
            f"For 'randint', the 'low' must be below the 'high', and both int64, but got {low} and {high}."
        )
    drawn = _random.draw_below(_random.stream(_RANDINT, seed), _ints(size), low, high)
    return drawn if dtype is None else drawn.astype(dtype)


def randint_like(input: Any, low: int, high: int, seed: Any = None, *, dtype: Any = None) -> Any:
    """Ints in [low, high), of the same shape and dtype."""
    return randint(low, high, input.shape, seed, dtype=input.dtype if dtype is None else dtype)


def normal(shape: Any, mean: Any, stddev: Any, seed: Any = None) -> Any:
    """Normal."""
    drawn = _normal("normal", _NORMAL, _ints(shape), None, seed)
    return _op_add(_op_multiply(drawn, _operand(stddev, _FLOAT32)), _operand(mean, _FLOAT32))


def standard_normal(shape: Any, seed: Any = None) -> Any:
    """Standard normal."""
    return _normal("standard_normal", _RANDN, _ints(shape), None, seed)


def uniform(shape: Any, minval: Any, maxval: Any, seed: Any = None, dtype: Any = _FLOAT32) -> Any:
    """Uniform in [minval, maxval)."""
    drawn_as = dtype if dtype in _FLOATS else ALL["float64"]
    drawn = _uniform("uniform", _UNIFORM, _ints(shape), drawn_as, seed)
    low, high = _operand(minval, drawn_as), _operand(maxval, drawn_as)
    out = _op_add(_op_multiply(drawn, high - low), low)
    out = where(_op_equal(out, high), low, out)  # where it is rounded up
    return out if drawn_as is dtype else _op_floor(out).astype(dtype)


def bernoulli(input: Any, p: Any = 0.5, seed: Any = None) -> Any:
    """1 with probability p, else 0, of the shape and dtype of input."""
    drawn = _uniform("bernoulli", _BERNOULLI, input.shape, None, seed)
    return _op_less(drawn, _operand(p, None)).astype(input.dtype)


def dropout(input: Any, p: float = 0.5, training: bool = True, seed: Any = None) -> Any:
    """While training, zeros with probability p, and the rest divided by 1 - p."""
    if not training or p == 0:
        return input
    return _random.dropped(_random.stream(_DROPOUT, seed), input, p)


def _dropped_channels(input: Any, p: float, training: bool, least: int, most: int) -> Any:
    """While training, zeros instead of whole channels with probability p, and the rest divided by 1 - p."""
    if not least <= input.ndim <= most:
        raise ValueError(
            f"For dropout of channels, the input must have {least} to {most} dimensions, but got {input.ndim}."
        )
    if not training or p == 0:
        return input
    lead = input.ndim - (most - 2)
    shape = input.shape[:lead] + (1,) * (input.ndim - lead)
    keep = _op_greater_equal(_uniform("dropout", _DROPOUT, shape, None, None), p)
    rest = _op_divide(input, 1 - p)
    return _tensor(np.where(_array(keep), _array(rest), _array(0, rest.dtype)))


def dropout1d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """While training, zeros instead of whole lines of [N, C, L] or [C, L]."""
    return _dropped_channels(input, p, training, 2, 3)


def dropout2d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """While training, zeros instead of whole images of [N, C, H, W]."""
    return _dropped_channels(input, p, training, 4, 4)


def dropout3d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """While training, zeros instead of whole volumes of [N, C, D, H, W]."""
    return _dropped_channels(input, p, training, 5, 5)


def rrelu(input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3) -> Any:
    """`leaky_relu` with random slopes."""
    slopes = _op_add(_op_multiply(_uniform("rrelu", _RAND, input.shape, input.dtype, None), upper - lower), lower)
    return _tensor(np.where(_array(input) < 0, _array(_op_multiply(input, slopes)), _array(input)))


def laplace(shape: Any, mean: Any, lambda_param: Any, seed: Any = None) -> Any:
    """Numbers of Laplace's distribution."""
    drawn = standard_laplace(shape, seed)
    return _op_add(_op_multiply(drawn, _operand(lambda_param, _FLOAT32)), _operand(mean, _FLOAT32))


def standard_laplace(shape: Any, seed: Any = None) -> Any:
    """Numbers of Laplace's distribution around 0."""
    drawn = _random.draw(_random.between, _random.stream(_LAPLACE, seed), _ints(shape), _FLOAT32)
    sided = _op_subtract(_op_multiply(drawn, 2.0), 1.0)
    far = _op_log(_op_subtract(1.0, _op_absolute(sided)))
    return _tensor(np.where(_array(sided) < 0, _array(far), _array(_op_negative(far))))


def _gumbel(shape: Any, dtype: Any) -> Any:
    """Numbers of Gumbel's distribution."""
    wide = ALL["float64"] if dtype is ALL["float64"] else _FLOAT32
    drawn = _random.draw(_random.between, _random.stream(_RAND, None), shape, wide)
    return _op_negative(_op_log(_op_negative(_op_log(drawn)))).astype(dtype)


# --- What NumPy draws -----------------------------------------------------------------------------------------------------


def randperm(n: int, seed: int = 0, offset: int = 0, dtype: Any = _INT64) -> Any:
    """The ints below n in random order."""
    return _tensor(np.asarray(_random.numpy_state(_PERMUTED, seed).permutation(n), _dtype(dtype)))


def shuffle(x: Any, seed: Any = None) -> Any:
    """The parts along the first dimension in random order."""
    return _tensor(np.take(_array(x), _random.numpy_state(_PERMUTED, seed).permutation(x.shape[0]), 0))


def multinomial(input: Any, num_samples: int, replacement: bool = True, seed: Any = None) -> Any:
    """Indices drawn with the weights of each row."""
    x, draw = np.atleast_2d(_array(input)).astype(np.float64), _random.numpy_state(_CHOSEN, seed)
    drawn = np.stack([draw.choice(row.size, num_samples, replacement, row / row.sum()) for row in x])
    return _tensor(np.asarray(drawn if input.ndim == 2 else drawn[0], np.int32))


def gamma(shape: Any, alpha: Any, beta: Any, seed: Any = None) -> Any:
    """Numbers of the gamma distribution, of this shape for each alpha and beta."""
    a, b = _arrays(alpha, beta)
    size = (*_ints(shape), *np.broadcast_shapes(a.shape, b.shape))
    return _tensor(np.asarray(_random.numpy_state(_GAMMA, seed).gamma(a, 1 / b, size), np.float32))


def poisson(shape: Any, mean: Any, seed: Any = None) -> Any:
    """Numbers of Poisson's distribution, of this shape for each mean."""
    x = _array(mean)
    return _tensor(np.asarray(_random.numpy_state(_POISSON, seed).poisson(x, (*_ints(shape), *x.shape)), np.float32))
