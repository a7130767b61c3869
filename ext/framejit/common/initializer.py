"""How the elements of new Parameters are made, drawn from NumPy's global generator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from framejit._api import _dtypes
from framejit._tensors._tensor import Tensor


class Initializer:
    """Called with a shape, gives an ndarray."""

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        raise NotImplementedError


class Constant(Initializer):
    """One value everywhere."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.value), shape)


class Zero(Constant):
    """Zeros."""

    def __init__(self) -> None:
        super().__init__(0)


class One(Constant):
    """Ones."""

    def __init__(self) -> None:
        super().__init__(1)


class Normal(Initializer):
    """Normal."""

    sigma: float
    mean: float

    def __init__(self, sigma: float = 0.01, mean: float = 0.0) -> None:
        self.sigma, self.mean = sigma, mean

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.normal(self.mean, self.sigma, shape)


class TruncatedNormal(Initializer):
    """Normal, drawn again where outside [a, b] standard deviations."""

    sigma: float
    mean: float
    a: float
    b: float

    def __init__(self, sigma: float = 0.01, mean: float = 0.0, a: float = -2.0, b: float = 2.0) -> None:
        self.sigma, self.mean, self.a, self.b = sigma, mean, a, b

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        numbers = np.random.standard_normal(shape)
        while (outside := (numbers < self.a) | (numbers > self.b)).any():
            numbers = np.where(outside, np.random.standard_normal(shape), numbers)
        return self.mean + self.sigma * numbers


class Uniform(Initializer):
    """Uniform in [-scale, scale]."""

    def __init__(self, scale: float = 0.07) -> None:
        self.scale = scale

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.uniform(-self.scale, self.scale, shape)


def _fans(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) < 2:
        size = shape[0] if shape else 1
        return size, size
    receptive = math.prod(shape[2:])
    return shape[1] * receptive, shape[0] * receptive


class XavierUniform(Initializer):
    """Uniform within gain * sqrt(6 / (inputs + outputs))."""

    def __init__(self, gain: float = 1) -> None:
        self.gain = gain

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        bound = self.gain * math.sqrt(6 / sum(_fans(shape)))
        return np.random.uniform(-bound, bound, shape)


class XavierNormal(XavierUniform):
    """Normal with standard deviation gain * sqrt(2 / (inputs + outputs))."""

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.normal(0, self.gain * math.sqrt(2 / sum(_fans(shape))), shape)


class HeUniform(Initializer):
    """Uniform within the bounds of He and others."""

    negative_slope: float
    mode: str
    nonlinearity: str

    def __init__(self, negative_slope: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> None:
        self.negative_slope, self.mode, self.nonlinearity = negative_slope, mode, nonlinearity

    def _deviation(self, shape: tuple[int, ...]) -> float:
        slope = self.negative_slope
        gains = {"relu": math.sqrt(2), "tanh": 5 / 3, "leaky_relu": math.sqrt(2 / (1 + slope**2))}
        return gains.get(self.nonlinearity, 1.0) / math.sqrt(_fans(shape)[self.mode != "fan_in"])

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        bound = math.sqrt(3) * self._deviation(shape)
        return np.random.uniform(-bound, bound, shape)


class HeNormal(HeUniform):
    """Normal with the deviation of He and others."""

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.normal(0, self._deviation(shape), shape)


NAMES: dict[str, type[Any]] = {
    "zeros": Zero,
    "zero": Zero,
    "ones": One,
    "one": One,
    "normal": Normal,
    "truncatednormal": TruncatedNormal,
    "uniform": Uniform,
    "xavier_uniform": XavierUniform,
    "xavieruniform": XavierUniform,
    "xavier_normal": XavierNormal,
    "he_uniform": HeUniform,
    "heuniform": HeUniform,
    "he_normal": HeNormal,
    "henormal": HeNormal,
}


def initializer(init: Any, shape: Any = None, dtype: Any = _dtypes.ALL["float32"]) -> Tensor:
    """A Tensor made by an initializer: one of the classes here, its name, a number, or a Tensor that has the shape."""
    if isinstance(init, Tensor):
        if shape is not None and tuple(shape) != init.shape:
            raise ValueError(
                f"For 'initializer', the shape of the 'init' argument should be {tuple(shape)}, but got {init.shape}."
            )
        return init
    if isinstance(init, str):
        if init.lower() not in NAMES:
            raise ValueError(
                f"For 'initializer', the class corresponding to '{init}' was not found. There are: {', '.join(NAMES)}."
            )
        init = NAMES[init.lower()]()
    elif isinstance(init, (int, float)):
        init = Constant(init)
    if not isinstance(init, Initializer):
        raise TypeError(
            f"For 'initializer', 'init' must be Tensor, str, number or Initializer, but got {type(init).__name__}."
        )
    return Tensor(shape=shape, dtype=dtype, init=init)
