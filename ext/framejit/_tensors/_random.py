"""The random numbers of Tensors: SplitMix64, whose state is a Tensor that compiled code reads and writes as any other.

Number i of a draw is ``mixed(state + (i + 1) * gamma)``, and a draw of n numbers adds n * gamma to the state: each element is computed by
itself, in any order and by any thread. The generator is that of G. L. Steele, D. Lea and C. H. Flood, "Fast Splittable Pseudorandom Number
Generators", OOPSLA 2014, with the constants of D. Stafford's thirteenth variant of the mixing function. Ints below n are the upper half of a
product with n (D. Lemire, "Fast Random Integer Generation in an Interval", ACM TOMACS 29, 2019, without its rejections: the probabilities
differ by one in 2**32 where n is at most 2**32). Normal numbers are by G. E. P. Box and M. E. Muller, "A Note on the Generation of Random
Normal Deviates", 1958.

Everything is NumPy's functions between ``_array`` and ``_tensor``, which capture follows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from framejit import _core
from framejit._api._control import is_compiling
from framejit._api._dtypes import ALL
from framejit._core import (
    _array,
    _op_add,
    _op_cos,
    _op_divide,
    _op_greater_equal,
    _op_log,
    _op_multiply,
    _op_sqrt,
    _tensor,
)

Tensor = _core.Tensor
_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15
_FLOAT16, _BFLOAT16, _FLOAT32, _FLOAT64 = (ALL[name] for name in ("float16", "bfloat16", "float32", "float64"))


def made(start: int) -> Tensor:
    """A state."""
    return _tensor(np.array([start], np.uint64))


generator = made(int.from_bytes(os.urandom(8), "little"))
_streams: dict[int, Tensor] = {}  # by `_key`
_numpy_states: dict[int, np.random.RandomState] = {}
_seed = 0


class Generator:
    """A state of its own for the functions that take a `generator`.

    Examples
    --------
    >>> import framejit as fj
    >>> generator = fj.Generator().manual_seed(5)
    >>> first = fj.mint.bernoulli(fj.Tensor([0.5, 0.5, 0.5]), generator=generator)
    >>> generator.initial_seed()
    5
    >>> again = fj.mint.bernoulli(fj.Tensor([0.5, 0.5, 0.5]), generator=generator.manual_seed(5))
    >>> first.tolist() == again.tolist()
    True
    """

    def __init__(self) -> None:
        self.state = made(0)
        self._seed = 0

    def manual_seed(self, seed: int) -> Generator:
        """Begin as a seed says, and return the generator.

        Parameters
        ----------
        seed : int
            The seed.
        """
        if not isinstance(seed, int):
            raise TypeError("Seed must be an integer.")
        self._seed = seed
        self._begin(seed)
        return self

    def _begin(self, seed: int) -> None:
        self.state[...] = made(seed & _MASK)

    def seed(self) -> int:
        """Begin with a seed that the system draws, and return it."""
        self.manual_seed(int.from_bytes(os.urandom(4), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """Return the last seed."""
        return self._seed

    def get_state(self) -> Any:
        """Return a Tensor of the seed and the state, for `set_state`."""
        both = np.array([self._seed & _MASK, int(self.state.asnumpy()[0])], np.uint64)
        return _tensor(both.view(np.uint8))

    def set_state(self, state: Any) -> None:
        """Go on from a state.

        Parameters
        ----------
        state : Tensor
            The result of `get_state`.
        """
        seed, now = (int(word) for word in state.asnumpy().view(np.uint64))
        self._seed = seed
        self._begin(now)


class _DefaultGenerator(Generator):
    """The state that functions draw from if they are given none."""

    def __init__(self) -> None:
        self.state = generator
        self._seed = 0

    def _begin(self, seed: int) -> None:
        set_seed(seed)

    def initial_seed(self) -> int:
        """Return the last seed."""
        return _seed


# --- States -----------------------------------------------------------------------------------------------------------------


def _key(kind: int, seed: Any) -> int:
    """Of a function, by its number, and a seed."""
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"The 'seed' must be int or None, but got {type(seed).__name__}.")
    if seed < 0:
        raise ValueError(f"The 'seed' must not be negative, but got {seed}.")
    return seed * 16 + kind


def _start(key: int) -> int:
    """The state with which a stream begins: by the seed of all, and apart from those of other functions and seeds."""
    z = (_seed * 0xD1342543DE82EF95 + key * 0xA0761D6478BD642F + 1) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def stream(kind: int, seed: Any) -> Tensor:
    """The state that a function draws from: that of all, or with a seed one of its own, which goes on from call to call."""
    if seed is None or (type(seed) is int and seed == 0):
        return generator
    if isinstance(seed, Generator):
        return seed.state
    key = _key(kind, seed)
    if key not in _streams:
        _streams[key] = _tensor(np.full(1, np.uint64(_start(key))))
    return _streams[key]


def numpy_state(kind: int, seed: Any) -> Any:
    """The same, of NumPy's."""
    if seed is None or (type(seed) is int and seed == 0):
        return np.random
    if isinstance(seed, Generator):
        return np.random.RandomState(int(_words(seed.state, ())) % 2**32)
    key = _key(kind, seed)
    if key not in _numpy_states:
        _numpy_states[key] = np.random.RandomState(_start(key) % 2**32)
    return _numpy_states[key]


def set_seed(seed: int) -> None:
    """All states as a seed has them."""
    global _seed
    _seed = seed
    generator[...] = made(seed & _MASK)
    for key, state in _streams.items():
        state[...] = made(_start(key))
    _numpy_states.clear()


def get_state() -> Any:
    """All states, for `set_state`."""
    numpy_states = {key: drawn.get_state() for key, drawn in _numpy_states.items()}
    return int(generator), {key: int(state) for key, state in _streams.items()}, numpy_states, _seed


def set_state(states: Any) -> None:
    """States that were before."""
    global _seed
    start, streams, numpy_states, _seed = states
    generator[...] = made(start)
    for key, state in _streams.items():
        state[...] = made(streams.get(key, _start(key)))
    _numpy_states.clear()
    for key, state in numpy_states.items():
        _numpy_states[key] = np.random.RandomState()
        _numpy_states[key].set_state(state)


default_generator = _DefaultGenerator()


# --- Numbers ----------------------------------------------------------------------------------------------------------------


def reserved(state: Tensor, count: int) -> np.ndarray:
    """The state from which a number of values is drawn; it moves on."""
    before = _array(state).copy()
    state[...] = _tensor(before + np.full(1, count, np.uint64) * np.uint64(_GAMMA))
    return before


def _words(state: Tensor, shape: tuple[int, ...]) -> np.ndarray:
    """Random uint64, which move the state on."""
    count = math.prod(shape)
    if count == 0:
        return np.zeros(shape, np.uint64)
    gamma = np.uint64(_GAMMA)
    first = reserved(state, count) + gamma
    # What is added to the state is a sum of one number for each row and one for each column.
    width = shape[-1] if shape else 1
    z = first + np.arange(width).astype(np.uint64) * gamma
    if len(shape) > 1:
        rows = np.arange(math.prod(shape[:-1])).astype(np.uint64) * (np.full(1, width, np.uint64) * gamma)
        z = rows.reshape((*shape[:-1], 1)) + z
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return z if shape else z.reshape(())


def _fraction(z: np.ndarray, bits: int) -> Tensor:
    """float32 in [0, 1) of the upper bits."""
    return _op_multiply(_tensor((z >> np.uint64(64 - bits)).astype(np.int32).astype(np.float32)), 2.0**-bits)


def _fraction64(z: np.ndarray) -> Tensor:
    return _op_multiply(_tensor((z >> np.uint64(11)).astype(np.int64).astype(np.float64)), 2.0**-53)


def uniform(state: Tensor, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """In [0, 1)."""
    z = _words(state, shape)
    if dtype is _FLOAT64:
        return _fraction64(z)
    if dtype is _FLOAT32:
        return _fraction(z, 24)
    return _fraction(z, 11 if dtype is _FLOAT16 else 8).astype(dtype)


def between(state: Tensor, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """In (0, 1): odd multiples of the smallest step."""
    z = _words(state, shape)
    if dtype is _FLOAT64:
        return _op_add(_fraction64(z & np.uint64(_MASK - 2**12 + 1)), 2.0**-53)
    return _op_add(_fraction(z & np.uint64(_MASK - 2**41 + 1), 24), 2.0**-24)


def normal(state: Tensor, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """Of mean 0 and deviation 1."""
    z = _words(state, shape)
    if dtype is _FLOAT64:
        far, turn = _op_add(_fraction64(z), 2.0**-53), _fraction64(_words(state, shape))
    else:  # 31 bits, which float32 rounds, say how far, and 24 of the others in which direction
        far = _op_multiply(_op_add(_tensor((z >> np.uint64(33)).astype(np.int32).astype(np.float32)), 1.0), 2.0**-31)
        turn = _fraction(z << np.uint64(31), 24)
    drawn = _op_multiply(_op_sqrt(_op_multiply(_op_log(far), -2.0)), _op_cos(_op_multiply(turn, 2 * math.pi)))
    return drawn.astype(dtype) if dtype is _FLOAT16 or dtype is _BFLOAT16 else drawn


def _halves(state: Tensor, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    z = _words(state, shape)
    return z >> np.uint64(32), z & np.uint64(2**32 - 1)


def _below_narrow(state: Tensor, shape: tuple[int, ...], low: Any, span: Any) -> Tensor:
    upper, lower = _halves(state, shape)
    half = np.uint64(32)
    drawn = (upper * span + (lower * span >> half)) >> half
    return _tensor((drawn + low).astype(np.int64))


def _below_wide(state: Tensor, shape: tuple[int, ...], low: Any, a: Any, b: Any) -> Tensor:
    upper, lower = _halves(state, shape)
    half, mask = np.uint64(32), np.uint64(2**32 - 1)
    middle = (lower * b >> half) + (lower * a & mask) + (upper * b & mask)
    drawn = upper * a + (lower * a >> half) + (upper * b >> half) + (middle >> half)
    return _tensor((drawn + low).astype(np.int64))


def _kept(state: Tensor, x: Tensor, p: float) -> Tensor:
    """Zeros with the probability p, and the rest divided by 1 - p."""
    keep = _op_greater_equal(uniform(state, x.shape, _FLOAT32), p)
    rest = _op_divide(x, 1 - p)
    return _tensor(np.where(_array(keep), _array(rest), _array(0, rest.dtype)))


# --- Draws ------------------------------------------------------------------------------------------------------------------

# What the interpreter calls: the same functions, compiled for arrays of one axis of any length, by dtype.
_compiled: dict[Any, Any] = {}


def _compile(key: Any, function: Any) -> Any:
    made = _compiled[key] = _core.Function(function, {"jit_level": "O0", "dynamic": True, "stress": ""})
    return made


def _check_size(shape: tuple[int, ...]) -> None:
    if math.prod(shape) >= 2**44:
        raise ValueError(f"The 'shape' of random numbers makes an array that is too large, but got {shape!r}.")


def draw(function: Any, state: Tensor, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """function(state, shape, dtype): one of `uniform`, `between` and `normal`."""
    if is_compiling():
        return function(state, shape, dtype)
    _check_size(shape)
    fast = _compiled.get((function, dtype))
    if fast is None:
        fast = _compile((function, dtype), lambda state, n: function(state, (n,), dtype))
    drawn = fast(state, math.prod(shape))
    return drawn if len(shape) == 1 else drawn.reshape(shape)


def draw_below(state: Tensor, shape: tuple[int, ...], low: int, high: int) -> Tensor:
    """int64 from `low` up to `high`, without it."""
    start, span = low & _MASK, high - low
    below: Callable[..., Any]
    bounds: tuple[int, ...]
    if span <= 2**32:
        below, bounds = _below_narrow, (start, span)
    else:
        below, bounds = _below_wide, (start, span >> 32, span & (2**32 - 1))
    if is_compiling():
        return below(state, shape, *[np.uint64(bound) for bound in bounds])
    _check_size(shape)
    fast = _compiled.get(below)
    if fast is None:
        fast = _compile(below, lambda state, n, *bounds: below(state, (n,), *bounds))
    drawn = fast(state, math.prod(shape), *[np.array([bound], np.uint64) for bound in bounds])
    return drawn if len(shape) == 1 else drawn.reshape(shape)


def dropped(state: Tensor, x: Tensor, p: float) -> Tensor:
    """Zeros with the probability p, and the rest divided by 1 - p."""
    if is_compiling():
        return _kept(state, x, p)
    fast = _compiled.get(x.dtype)
    if fast is None:
        fast = _compile(x.dtype, lambda state, x, p: _kept(state, x, p))
    if x.ndim == 1:
        return fast(state, x, float(p))
    return fast(state, x.reshape(-1), float(p)).reshape(x.shape)
