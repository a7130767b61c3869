"""Functions that write what they compute or draw into their first argument, and return it."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._autodiff._grad import stop_gradient
from framejit._autodiff._primitives import writable
from framejit._core import _array, _tensor
from framejit._tensors import _random as _states
from framejit.ops import _elementwise, _loss, _random

__all__ = [
    "bernoulli_", "clamp_", "erfinv_", "exponential_", "inplace_sigmoid", "normal_", "put_", "random_", "stop_gradient_", "tanh_",
    "uniform_", "zero_",
]  # fmt: skip

_FLOAT64 = ALL["float64"]


def _written(input: Any, value: Any) -> Any:
    input[...] = value
    return input


# --- What is drawn -----------------------------------------------------------------------------------------------------------


def _drawn(kind: Any, input: Any, generator: Any) -> Any:
    """Numbers in the shape of the input: those of float64 have more digits."""
    dtype = _FLOAT64 if input.dtype is _FLOAT64 else ALL["float32"]
    return _states.draw(kind, _states.stream(0, generator), input.shape, dtype)


def bernoulli_(input: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
    """Ones, each with the probability `p`, and zeros."""
    return _written(input, _random.bernoulli(input, p, generator))


def uniform_(input: Any, from_: float = 0, to: float = 1, *, generator: Any = None) -> Any:
    """Numbers from `from_` up to `to`, without it."""
    if from_ > to:
        raise ValueError(f"For 'uniform_', 'from_' must be at most 'to', but got {from_} and {to}.")
    return _written(input, (_drawn(_states.uniform, input, generator) * (to - from_) + from_).astype(input.dtype))


def normal_(input: Any, mean: float = 0, std: float = 1, *, generator: Any = None) -> Any:
    """Numbers of the normal distribution."""
    if std < 0:
        raise ValueError(f"For 'normal_', the 'std' must not be negative, but got {std}.")
    return _written(input, (_drawn(_states.normal, input, generator) * std + mean).astype(input.dtype))


def exponential_(input: Any, lambd: float = 1, *, generator: Any = None) -> Any:
    """Numbers of the exponential distribution with the mean 1 / `lambd`."""
    if lambd <= 0:
        raise ValueError(f"For 'exponential_', the 'lambd' must be positive, but got {lambd}.")
    drawn = _core._op_log(_drawn(_states.between, input, generator))
    return _written(input, _core._op_divide(drawn, -lambd).astype(input.dtype))


def random_(input: Any, from_: int = 0, to: int | None = None, *, generator: Any = None) -> Any:
    """Whole numbers from `from_` up to `to`, without it; by default all that the dtype has from 0 on."""
    kind = np.dtype(_core._dtype(input.dtype))
    if to is None:
        exact = {"f": 2 ** (np.finfo(kind).nmant + 1) if kind.kind == "f" else 0, "b": 2}
        to = exact[kind.kind] if kind.kind in exact else int(np.iinfo(kind).max)
    if from_ >= to:
        raise ValueError(f"For 'random_', 'from_' must be less than 'to', but got {from_} and {to}.")
    drawn = _states.draw_below(_states.stream(0, generator), input.shape, int(from_), int(to))
    return _written(input, drawn.astype(input.dtype))


# --- What is computed --------------------------------------------------------------------------------------------------------


def clamp_(input: Any, min: Any = None, max: Any = None) -> Any:
    """The elements within limits."""
    return _written(input, _elementwise.clamp(input, min, max))


def erfinv_(input: Any) -> Any:
    """The inverse of `erf`."""
    return _written(input, _loss.erfinv(input))


def tanh_(input: Any) -> Any:
    """Hyperbolic tangents."""
    return _written(input, _core._op_tanh(input))


def inplace_sigmoid(input: Any) -> Any:
    """1 / (1 + exp(-input))."""
    return _written(input, _elementwise.sigmoid(input))


def zero_(input: Any) -> Any:
    """Zeros."""
    return _written(input, 0)


def stop_gradient_(input: Any) -> Any:
    """The same, through which no gradient goes."""
    return _written(input, stop_gradient(input))


def put_(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """The elements of `source` at the indices of the flat Tensor, or added there."""
    at, new = _array(index).reshape(-1), _array(source, input.dtype).reshape(-1)
    x = writable(_array(input), new)
    flat = x.reshape(-1)
    if at.size and not -flat.size <= at.min() <= at.max() < flat.size:
        raise IndexError(f"For 'put_', the indices must be from {-flat.size} to below {flat.size}.")
    if at.size != new.size:
        raise ValueError(f"For 'put_', there must be as many indices as elements, but got {at.size} and {new.size}.")
    if accumulate:
        np.add.at(flat, at, new)
    else:
        flat[at] = new
    return _written(input, _tensor(x))
