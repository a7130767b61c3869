"""Operators that draw random classes, positions and numbers, with NumPy's generators."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._core import _array, _dtype, _tensor
from framejit._tensors import _random
from framejit.ops._primitives import _define
from framejit.ops._shape import _ints

__all__ = [
    "choice_with_mask", "log_uniform_candidate_sampler", "multinomial_with_replacement", "random_categorical",
    "random_gamma", "random_poisson", "uniform_candidate_sampler",
]  # fmt: skip

_INT32, _INT64, _FLOAT32 = ALL["int32"], ALL["int64"], ALL["float32"]
_KIND = 12  # after those of framejit/ops/_random.py


def _state(seed: Any) -> Any:
    return _random.numpy_state(_KIND, seed)


# --- Classes -----------------------------------------------------------------------------------------------------------------


def _sampled(draw: Any, shares: Any, true_classes: Any, num_sampled: int, unique: bool, tried: bool) -> Any:
    """(drawn classes, how often the true ones are expected, how often the drawn ones are)."""
    chosen: list[int] = []
    tries = 0
    while len(chosen) < num_sampled:
        one = int(draw())
        tries += 1
        if not (unique and one in chosen):
            chosen.append(one)

    def expected(classes: Any) -> Any:
        p = shares(classes.astype(np.float64))
        return (-np.expm1(tries * np.log1p(-p)) if unique and tried else p * tries).astype(np.float32)

    truths = _array(true_classes)
    drawn = np.array(chosen, truths.dtype)
    return _tensor(drawn), _tensor(expected(truths)), _tensor(expected(drawn))


def _check_sampled(name: str, num_sampled: int, unique: bool, range_max: int) -> None:
    if unique and num_sampled > range_max:
        raise ValueError(
            f"For '{name}', the 'num_sampled' must be at most the 'range_max' {range_max} if 'unique' is True, but got {num_sampled}."
        )


def log_uniform_candidate_sampler(
    true_classes: Any, num_true: int = 1, num_sampled: int = 5, unique: bool = True, range_max: int = 5, seed: int = 0
) -> Any:
    """Draw classes below `range_max`, low ones more often: class c with log((c + 2) / (c + 1)) / log(range_max + 1).

    Parameters
    ----------
    true_classes : Tensor
        The classes of the samples, [N, num_true].
    num_true, num_sampled : int
        How many true classes a sample has, and how many to draw.
    unique : bool
        Whether each class is drawn once at most.
    range_max : int
        The number of classes.
    seed : int
        Of a stream of its own.

    Returns
    -------
    tuple of Tensor
        The drawn classes, how often the true classes are expected among them, and how often the drawn ones are.
    """
    _check_sampled("LogUniformCandidateSampler", num_sampled, unique, range_max)
    state, whole = _state(seed), np.log(range_max + 1)
    return _sampled(
        lambda: (int(np.exp(state.random_sample() * whole)) - 1) % range_max,
        lambda c: np.log((c + 2) / (c + 1)) / whole,
        true_classes,
        num_sampled,
        unique,
        True,
    )


def uniform_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, seed: int = 0, remove_accidental_hits: bool = False
) -> Any:  # fmt: skip
    """Draw classes below `range_max`, all as often.

    Parameters
    ----------
    true_classes : Tensor
        The classes of the samples, [N, num_true].
    num_true, num_sampled : int
        How many true classes a sample has, and how many to draw.
    unique : bool
        Whether each class is drawn once at most.
    range_max : int
        The number of classes.
    seed : int
        Of a stream of its own.
    remove_accidental_hits : bool
        Whether true classes are not drawn.

    Returns
    -------
    tuple of Tensor
        The drawn classes, how often the true classes are expected among them, and how often the drawn ones are.
    """
    _check_sampled("UniformCandidateSampler", num_sampled, unique, range_max)
    state = _state(seed)
    allowed = np.arange(range_max)
    if remove_accidental_hits:
        allowed = np.setdiff1d(allowed, _array(true_classes))
        _check_sampled("UniformCandidateSampler", num_sampled, unique, len(allowed))
    return _sampled(
        lambda: allowed[state.randint(len(allowed))],
        lambda c: np.full(c.shape, 1 / range_max),
        true_classes,
        num_sampled,
        unique,
        False,
    )


def random_categorical(logits: Any, num_sample: int, seed: int = 0, dtype: Any = _INT64) -> Any:
    """Draw `num_sample` classes for each row of logarithms of weights."""
    x = _array(logits).astype(np.float64)
    noise = _state(seed).gumbel(size=(x.shape[0], num_sample, x.shape[1]))
    return _tensor((x[:, None] + noise).argmax(-1).astype(_dtype(dtype)))


def multinomial_with_replacement(x: Any, seed: Any, offset: Any, numsamples: int, replacement: bool = False) -> Any:
    """Draw `numsamples` classes with the weights of each row; without `replacement` each once at most."""
    numbers = []
    for name, value in (("seed", seed), ("offset", offset)):
        if not isinstance(value, (int, _core.Tensor)):
            raise TypeError(f"For multinomial_with_replacement, the input[{name}] must be int, but got {type(value)}.")
        numbers.append(int(value))
    rows = np.atleast_2d(_array(x)).astype(np.float64)
    state = _state(numbers[0] or numbers[1])
    drawn = [state.choice(row.size, numsamples, replacement, row / row.sum()) for row in rows]
    return _tensor(np.stack(drawn if x.ndim == 2 else drawn[0]).astype(np.int64))


def choice_with_mask(input_x: Any, count: int = 256, seed: Any = None) -> Any:
    """(places where the Tensor is true in random order, whether they are there): `count` of them, zeros after the last one."""
    if input_x.dtype is not ALL["bool_"]:
        raise TypeError(f"For 'choice_with_mask', the 'input_x' must be of bools, but got {input_x.dtype}.")
    places = np.argwhere(_array(input_x))
    found = places[_state(seed).permutation(len(places))][:count]
    out = np.zeros((count, places.shape[1]), np.int32)
    out[: len(found)] = found
    return _tensor(out), _tensor(np.arange(count) < len(found))


# --- Numbers -----------------------------------------------------------------------------------------------------------------


def random_gamma(shape: Any, alpha: Any, seed: Any = None) -> Any:
    """Numbers of the gamma distribution, of this shape for each `alpha`."""
    a = _array(alpha)
    return _tensor(_state(seed).gamma(a, 1.0, (*_ints(shape), *a.shape)).astype(a.dtype))


def random_poisson(shape: Any, rate: Any, seed: Any = None, dtype: Any = _FLOAT32) -> Any:
    """Numbers of Poisson's distribution, of this shape for each `rate`."""
    mean = _array(rate)
    return _tensor(_state(seed).poisson(mean, (*_ints(shape), *mean.shape)).astype(_dtype(dtype)))


def _seeded(seed: int, seed2: int) -> Any:
    return _state(seed or seed2 or None)


def _between(state: Any, low: Any, high: Any, shape: Any) -> Any:
    """Standard normal numbers of which those outside are drawn again."""
    low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    out = state.normal(size=shape)
    while True:
        wrong = (out < low) | (out > high)
        if not wrong.any():
            return out
        out[wrong] = state.normal(size=int(wrong.sum()))


def _shape_of(name: str, shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, _core.Tensor):
        raise TypeError(
            f"For Primitive[{name}], the type of input argument[shape] must be Tensor but got {type(shape).__name__}."
        )
    return tuple(_ints(shape))


def _truncated(shape: Any, dtype: Any, seed: int, seed2: int) -> Any:
    size = _shape_of("TruncatedNormal", shape)
    if len(size) < 2:
        raise ValueError(f"For 'TruncatedNormal', the input tensor shape must >= 2, but got {len(size)}")
    return _tensor(_between(_seeded(seed, seed2), -2.0, 2.0, size).astype(_dtype(dtype)))


def _truncated_between(shape: Any, mean: Any, stdevs: Any, min: Any, max: Any, seed: int, seed2: int) -> Any:
    size = _shape_of("ParameterizedTruncatedNormal", shape)
    middle, spread, low, high = (_array(one).reshape((-1, *(1,) * (len(size) - 1))) for one in (mean, stdevs, min, max))
    drawn = _between(_seeded(seed, seed2), (low - middle) / spread, (high - middle) / spread, size)
    return _tensor((drawn * spread + middle).astype(_array(mean).dtype))


def _any_ints(shape: Any, dtype: Any) -> Any:
    kind = np.dtype(_dtype(dtype))
    limits = np.iinfo(kind)
    return _tensor(np.random.randint(limits.min, limits.max, tuple(_ints(shape)), kind))


def _cauchy(size: Any, median: float, sigma: float) -> Any:
    return _tensor((np.random.standard_cauchy(tuple(size)) * sigma + median).astype(np.float32))


def _log_normal(x: Any, mean: float, std: float) -> Any:
    return _tensor(np.random.lognormal(mean, std, x.shape).astype(_array(x).dtype))


_SEEDS = {"seed": 0, "seed2": 0}

_define(
    globals(),
    {
        "LogUniformCandidateSampler": (
            log_uniform_candidate_sampler,
            {"num_true": 1, "num_sampled": 5, "unique": True, "range_max": 5, "seed": 0},
        ),
        "UniformCandidateSampler": (
            uniform_candidate_sampler,
            {
                **dict.fromkeys(("num_true", "num_sampled", "unique", "range_max")),
                "seed": 0,
                "remove_accidental_hits": False,
            },
        ),
        "RandomCategorical": (random_categorical, {"dtype": _INT64}),
        "MultinomialWithReplacement": (multinomial_with_replacement, {"numsamples": None, "replacement": False}),
        "RandomChoiceWithMask": (
            lambda x, count, seed, seed2: choice_with_mask(x, count, seed or seed2 or None),
            {"count": 256, **_SEEDS},
        ),
        "RandomGamma": (
            lambda shape, alpha, seed, seed2: random_gamma(shape, alpha, seed or seed2 or None),
            dict(_SEEDS),
        ),
        "RandomPoisson": (
            lambda shape, rate, seed, seed2, dtype: random_poisson(shape, rate, seed or seed2 or None, dtype),
            {**_SEEDS, "dtype": _INT64},
        ),
        "TruncatedNormal": (_truncated, {"dtype": _FLOAT32, **_SEEDS}),
        "ParameterizedTruncatedNormal": (_truncated_between, dict(_SEEDS)),
        "NonDeterministicInts": (_any_ints, {"dtype": _INT64}),
        "Cauchy": (_cauchy, {"size": None, "median": 0.0, "sigma": 1.0}),
        "LogNormalReverse": (_log_normal, {"mean": 1.0, "std": 2.0}),
    },
)
