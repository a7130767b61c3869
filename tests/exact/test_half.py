"""float16: every number of it, through operators, casts and sums, on both instruction sets: equal to eager NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import framejit
from exact.same import assert_same

EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
PARTNERS = [1.0, -1.5, 0.0, -0.0, 6e-8, 3e-5, 65504.0, 300.0, np.inf, np.nan]


@pytest.fixture(params=["avx2", "avx512"], autouse=True)
def isa(request):
    before = framejit.config.cpu
    framejit.config.cpu = request.param
    yield request.param
    framejit.config.cpu = before


def every() -> np.ndarray:
    return EVERY.copy()


UNARY = {
    "arithmetic": lambda x: (-x, abs(x), np.sqrt(x), np.square(x), np.reciprocal(x), np.sign(x)),
    "rounding": lambda x: (np.floor(x), np.ceil(x), np.rint(x), np.trunc(x)),
    "predicates": lambda x: (np.isnan(x), np.isinf(x), np.isfinite(x), np.signbit(x), ~np.logical_not(x), x > 1, x == x[::-1]),
    "loops": lambda x: (np.exp(x), np.tanh(x), np.log1p(np.abs(x))),
    "copies": lambda x: (x.copy(), x[::-1].copy(), np.where(x > 0, x, -x), np.full(3, x[5]), x.reshape(256, 256).T.copy()),
    "widening": lambda x: (x.astype(np.float32), x.astype(np.float64), x.astype(bool)),
    "integers": lambda x: (x.astype(np.int8), x.astype(np.uint16), x.astype(np.int32), x.astype(np.int64), x.astype(np.uint64)),
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("errstate", [None, {"all": "ignore"}, {"all": "raise"}], ids=str)
def test_every_number(name, errstate):
    assert_same(UNARY[name], lambda: (every(),), errstate, calls=2)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_loops_over_one_number(shape):
    """NumPy's loops give other bits for a number without axes than for several: they are left to NumPy."""

    def function(x):
        return np.exp(x), np.sin(x), np.tanh(x), np.expm1(x), np.log10(x + 1), np.power(x, np.float16(1.5)), np.exp(x) + x

    marked = framejit.jit(function)
    with np.errstate(all="ignore"):
        for number in EVERY[::61]:
            x = np.full(shape, number)
            for found, expected in zip(marked(x), function(x), strict=True):
                assert found.dtype == expected.dtype and found.shape == expected.shape
                assert found.tobytes() == expected.tobytes() or (np.isnan(found) and np.isnan(expected)), (number, found, expected)


@pytest.mark.parametrize("partner", PARTNERS)
@pytest.mark.parametrize("errstate", [{"all": "ignore"}, {"all": "warn"}], ids=str)
def test_every_number_with_another(partner, errstate):
    def function(x, y):
        return x + y, x - y, x * y, x / y, y / x, np.minimum(x, y), np.maximum(y, x), np.copysign(x, y), x < y, x >= y, x * 1.5, 2 - x

    assert_same(function, lambda: (every(), np.full(EVERY.shape, partner, np.float16)), errstate, calls=2)


def test_rounding_of_wider_numbers():
    """Between two neighbours, at the middle and a hair beside it: a double is rounded once."""
    halves = EVERY[np.abs(EVERY) < 65504]
    middle = (halves.astype(np.float64) + np.nextafter(halves, np.float16(np.inf)).astype(np.float64)) / 2
    tiny = np.array([5e-324, 1e-310, 1e-45, 2.0**-25, -(2.0**-25), 2.0**-26, 65519.999, 65520.0, 1e39, -1e308, np.inf, np.nan])
    values = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), tiny])
    singles = np.concatenate([middle, np.nextafter(middle.astype(np.float32), np.float32(9)), [1e-45, 65520, np.nan]]).astype(np.float32)
    for errstate in (None, {"all": "ignore"}, {"under": "warn"}):
        assert_same(lambda x: x.astype(np.float16), lambda: (values.copy(),), errstate, calls=2)
        assert_same(lambda x: x.astype(np.float16), lambda: (singles.copy(),), errstate, calls=2)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_become_halves(dtype):
    top = np.iinfo(dtype).max if dtype != "bool" else 1
    values = np.array([0, 1, 7, 127, 2049, 2051, 65504, 65519, 65520, 70000, top, top // 3][: 12 if top > 70000 else 4], dtype)
    assert_same(lambda x: x.astype(np.float16), lambda: (values.copy(),), calls=2)
    assert_same(lambda x, y: x[:4] + y.astype(np.float16), lambda: (values.copy(), np.arange(4)), calls=2)


@pytest.mark.parametrize("errstate", [None, {"under": "warn"}, {"over": "raise"}], ids=str)
def test_flags_of_halves(errstate):
    assert_same(lambda x: x * x, lambda: (np.array([3e-4] * 20, np.float16),), errstate, calls=2)
    assert_same(lambda x: x * 300, lambda: (np.array([300.0] * 20, np.float16),), errstate, calls=2)
    assert_same(lambda x: x / 0, lambda: (np.array([1, 0] * 10, np.float16),), errstate, calls=2)
    assert_same(lambda x: (x - 1) + 2, lambda: (np.array([np.inf] * 10, np.float16),), errstate, calls=2)


SUMS = {
    "all": lambda x: (x.sum(), np.add.reduce(x, axis=None), x.sum(dtype=np.float32)),
    "rows": lambda x: (x.sum(axis=-1), x.sum(axis=0), x.T.sum(axis=0)),
    "parts": lambda x: (x[:, ::2].sum(), x[1:, 3:].sum(axis=1), (x * 2 + 1).sum(axis=1, keepdims=True)),
    "extremes": lambda x: (x.max(), x.min(axis=0), x.max(axis=-1), np.minimum.reduce(x)),
    "means": lambda x: (x.mean(), x.mean(axis=0), x.std(), x.var(axis=1), x.prod(axis=1), x.cumsum(axis=0)),
    "truth": lambda x: (x.any(), (x > 1).all(axis=0), np.count_nonzero(x), x.argmax()),
}


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 130), (40, 33), (3, 9001), (300, 60)])
@pytest.mark.parametrize("name", SUMS)
def test_reductions(name, shape):
    for scale in (0.1, 3.0, 0.0):
        numbers = np.random.default_rng(5).normal(0.3, scale, shape).astype(np.float16)
        assert_same(SUMS[name], lambda: (numbers.copy(),), {"over": "ignore", "under": "ignore"}, calls=1)


def test_captured_whole():
    def function(x, y):
        z = np.sqrt(x * x + y) / 2
        z[z > 1.5] = 0
        return z.sum(), z.astype(np.float32).max(), np.where(z < y, z, y), -z

    x = np.linspace(0, 2, 50).astype(np.float16)
    explained = framejit.explain(function)(x, x[::-1].copy())
    assert not explained.breaks and len(explained.graphs) == 1, str(explained)
    assert "multiply %x, %x : f16[50]" in str(explained.graphs[0])
    assert_same(function, lambda: (x.copy(), x[::-1].copy()))


def test_numbers_that_are_too_large():
    def functions(value):
        def cast():
            return np.array([value, value, value]).astype(np.float16)

        def copied():
            out = np.empty(3, np.float16)
            np.copyto(out, np.array([value, value, value]), casting="unsafe")
            return out

        def filled():
            return np.full(3, value).astype(np.float16)

        def number():
            return np.full(2, np.float16(300)) * np.float16(value)

        def unused():
            np.array([value, value, value]).astype(np.float16)

        return cast, copied, filled, number, unused

    for value in (3, 70000, 65519.0, 65520.0, 1e-8):
        for function in functions(value):
            assert_same(function, lambda: ())


@pytest.mark.parametrize("name", ["degrees", "radians", "deg2rad", "rad2deg"])
def test_angles(name):
    """All numbers: NumPy multiplies in float32, by a factor of that dtype."""
    function = getattr(np, name)
    everything = np.arange(65536, dtype=np.uint16).view(np.float16)
    marked = assert_same(lambda x: function(x), lambda: (everything.copy(),), {"all": "ignore"})
    assert "cast" in marked.graphs()
    for layout in (lambda x: np.broadcast_to(x, (2, 4, 8)), lambda x: x.T, lambda x: x[:, None, ::2]):
        assert_same(lambda x: function(layout(x)), lambda: (everything[15000:15032].reshape(4, 8),))
    for value in (1.0, 3.3, 700.0):
        assert_same(lambda x: (function(x), function(np.float16(value))), lambda: (np.array(value, np.float16),), {"all": "ignore"})
