"""Distributions as cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import ops
from framejit._api import _dtypes
from framejit._tensors import _random
from framejit._tensors._tensor import Tensor
from framejit.nn._cell import Cell

_NUMBERS = tuple(_dtypes.ALL[name] for name in (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"
))  # fmt: skip
_FLOAT = _dtypes.ALL["float32"]


class Bernoulli(Cell):
    """1 with the probability `probs`, else 0.

    Parameters
    ----------
    probs : float, list, Tensor or None
        Between 0 and 1. Where it is None each method is given the probabilities of its call.
    seed : int, optional
        Of the samples; without it they follow `set_seed`.
    dtype : dtype
        Of the samples: an integer or floating one.
    name : str
        A name.

    Examples
    --------
    >>> import framejit as fj
    >>> coin = fj.nn.probability.distribution.Bernoulli(0.25)
    >>> coin.var().item()
    0.1875
    >>> coin.prob(fj.Tensor([1, 0, 1])).tolist()
    [0.25, 0.75, 0.25]
    """

    name: str
    dtype: Any
    seed: int | None

    def __init__(self, probs: Any = None, seed: Any = None, dtype: Any = "int32", name: str = "Bernoulli") -> None:
        super().__init__()
        known = _dtypes.ALL.get(dtype, dtype) if isinstance(dtype, str) else dtype
        if not any(known is one for one in _NUMBERS):
            raise TypeError(f"For 'Bernoulli', the 'dtype' must be one of {list(_NUMBERS)}, but got {dtype}.")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise ValueError(
                f"For 'Bernoulli', the 'seed' must be int and must be >= 0, but got {seed!r} of type {type(seed).__name__}."
            )
        self.name, self.dtype, self.seed = name, known, seed
        self._probs = None if probs is None else self._checked(probs)
        self._state = None if seed is None else _random.made(seed)

    @staticmethod
    def _checked(probs: Any) -> Tensor:
        if not isinstance(probs, (float, int, list, tuple, np.ndarray, Tensor)) or isinstance(probs, bool):
            raise TypeError(f"For 'Bernoulli', the 'probs' must be numbers, but got {type(probs).__name__}.")
        given = Tensor(probs, _FLOAT)
        if not bool((given > 0).all()):
            raise ValueError(f"For 'Bernoulli', the 'probs' must be greater than zero, but got {probs!r}.")
        if not bool((given < 1).all()):
            raise ValueError(f"For 'Bernoulli', the 'probs' must be less than one, but got {probs!r}.")
        return given

    def _given(self, probs: Any) -> Tensor:
        """The probabilities of a call."""
        if probs is None:
            if self._probs is None:
                raise TypeError("For 'Bernoulli', the 'probs' must be given, here or when it is made, but got None.")
            return self._probs
        if not isinstance(probs, Tensor):
            raise TypeError(f"For 'Bernoulli', the 'probs' must be a Tensor, but got {type(probs).__name__}.")
        return probs.astype(_FLOAT)

    @staticmethod
    def _value(value: Any) -> Tensor:
        if not isinstance(value, Tensor):
            raise TypeError(f"For 'Bernoulli', the 'value' must be a Tensor, but got {type(value).__name__}.")
        return value.astype(_FLOAT)

    def _other(self, dist: Any, probs: Any) -> Tensor:
        if dist != "Bernoulli":
            raise ValueError(f"For 'Bernoulli', the 'dist' must be 'Bernoulli', but got {dist!r}.")
        if not isinstance(probs, Tensor):
            raise TypeError(f"For 'Bernoulli', the 'probs1_b' must be a Tensor, but got {type(probs).__name__}.")
        return probs.astype(_FLOAT)

    @property
    def probs(self) -> Tensor | None:
        """The probabilities."""
        return self._probs

    def mean(self, probs1: Any = None) -> Tensor:
        """The mean."""
        return self._given(probs1)

    def mode(self, probs1: Any = None) -> Tensor:
        """The likelier value; 0 where both are as likely."""
        return (self._given(probs1) > 0.5).astype(self.dtype)

    def var(self, probs1: Any = None) -> Tensor:
        """The variance."""
        probs = self._given(probs1)
        return (1.0 - probs) * probs

    def sd(self, probs1: Any = None) -> Tensor:
        """The standard deviation."""
        return ops.sqrt(self.var(probs1))

    def entropy(self, probs1: Any = None) -> Tensor:
        """The entropy."""
        probs = self._given(probs1)
        return -(probs * ops.log(probs) + (1.0 - probs) * ops.log(1.0 - probs))

    def kl_loss(self, dist: str, probs1_b: Any, probs1: Any = None) -> Tensor:
        """The Kullback-Leibler divergence to another distribution, of the probabilities `probs1_b`."""
        other, probs = self._other(dist, probs1_b), self._given(probs1)
        return probs * ops.log(probs / other) + (1.0 - probs) * ops.log((1.0 - probs) / (1.0 - other))

    def cross_entropy(self, dist: str, probs1_b: Any, probs1: Any = None) -> Tensor:
        """The entropy and the divergence to another distribution."""
        return self.entropy(probs1) + self.kl_loss(dist, probs1_b, probs1)

    def prob(self, value: Any, probs1: Any = None) -> Tensor:
        """The probability of values."""
        given, probs = self._value(value), self._given(probs1)
        return probs * given + (1.0 - probs) * (1.0 - given)

    def log_prob(self, value: Any, probs1: Any = None) -> Tensor:
        """Its logarithm."""
        given, probs = self._value(value), self._given(probs1)
        return ops.log(probs) * given + ops.log(1.0 - probs) * (1.0 - given)

    def cdf(self, value: Any, probs1: Any = None) -> Tensor:
        """The probability of what is at most `value`."""
        given, probs = ops.floor(self._value(value)), self._given(probs1)
        below = ops.where(given < 0, ops.zeros_like(given + probs), 1.0 - probs + ops.zeros_like(given))
        return ops.where(given < 1, below, ops.ones_like(below))

    def log_cdf(self, value: Any, probs1: Any = None) -> Tensor:
        """Its logarithm."""
        return ops.log(self.cdf(value, probs1))

    def survival_function(self, value: Any, probs1: Any = None) -> Tensor:
        """The probability of what is above `value`."""
        return 1.0 - self.cdf(value, probs1)

    def log_survival(self, value: Any, probs1: Any = None) -> Tensor:
        """Its logarithm."""
        return ops.log(self.survival_function(value, probs1))

    def sample(self, shape: tuple[int, ...] = (), probs1: Any = None) -> Tensor:
        """Random values; `shape` comes before that of the probabilities."""
        probs = self._given(probs1)
        state = _random.stream(0, None) if self._state is None else self._state
        drawn = _random.draw(_random.uniform, state, (*shape, *probs.shape), _FLOAT)
        return (drawn < probs).astype(self.dtype)

    def construct(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The method of that name: ``bernoulli("prob", value)``."""
        names = ("cdf", "cross_entropy", "entropy", "kl_loss", "log_cdf", "log_prob", "log_survival", "mean", "mode", "prob", "sample", "sd", "survival_function", "var")  # fmt: skip
        if name not in names:
            raise ValueError(f"For 'Bernoulli', the 'name' must be one of {list(names)}, but got {name!r}.")
        return getattr(self, name)(*args, **kwargs)

    def extend_repr(self) -> str:
        """The probabilities."""
        return "" if self._probs is None else f"probs = {self._probs}"


__all__ = ["Bernoulli"]
