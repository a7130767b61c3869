"""Reductions of what has just been written in place: made before it is written, so that a warning of theirs finds the array as it was."""

from __future__ import annotations

import numpy as np
import pytest

import framejit
from exact.same import assert_same

SIZES = [50, 50_000]
ERRSTATES = [None, {"all": "ignore"}, {"over": "raise"}, {"invalid": "raise"}]


def scaled(x, y):
    x *= 1.5
    return x.sum()


def by_argument(x, y):
    x *= y
    x += 1
    return x.sum(), x.max()


def mean(x, y):
    x -= y
    return x.mean() + 1


def of_an_expression(x, y):
    x += y
    return (x * x).sum(), abs(x).min()


def twice(x, y):
    x *= 2
    a = x.sum()
    x *= 0.5
    return a, x.sum(), x.max()


def used_later(x, y):
    x *= y
    s = x.sum()
    y += 1
    return s + y[0], x[3]


def both(x, y):
    x += y
    y *= x
    return x.sum(), y.sum()


def of_a_part(x, y):
    x[1:] *= y[1:]
    return x.sum()


def in_part(x, y):
    x *= y
    return x[::2].sum(), x[3:].max()


def stored(x, y):
    z = x * y
    x[:] = z
    return z, x.sum(), z.sum()


def by_rows(x, y):
    m = x.reshape(-1, 10)
    m *= 3
    return m.sum(axis=1), m.sum(axis=0), m.max(axis=1)


def normalised(x, y):
    x -= x.mean()
    x /= x.std()
    return x.sum()


def dear(x, y):
    np.exp(x, out=x)
    return x.sum()


FUNCTIONS = [scaled, by_argument, mean, of_an_expression, twice, used_later, both, of_a_part, in_part, stored, by_rows, normalised, dear]

DATA = {
    "tame": lambda n: (np.arange(n) % 17 * 0.25 + 0.5, np.arange(n) % 5 + 0.5),
    "overflows": lambda n: (np.where(np.arange(n) % 100 == 7, 1.5e308, 1.0), np.full(n, 1.5)),
    "sum overflows": lambda n: (np.full(n, 1e308 / 1.6), np.ones(n)),
    "NaN": lambda n: (np.where(np.arange(n) == n // 2, np.nan, 1.0), np.ones(n)),
    "infinities": lambda n: (np.where(np.arange(n) % 7 == 3, np.inf, 1.0) * np.where(np.arange(n) % 2, 1, -1), np.ones(n)),
    "zeros": lambda n: (np.where(np.arange(n) % 2, 0.0, -0.0), np.ones(n)),
}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("n", SIZES)
def test_same(function, data, n):
    for dtype in ("float64", "float32"):
        for errstate in ERRSTATES:
            with np.errstate(all="ignore"):
                x, y = (a.astype(dtype) for a in DATA[data](n))
            assert_same(function, lambda: (x.copy(), y.copy()), errstate)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_array_as_both(function):
    def make():
        x = DATA["tame"](30_000)[0]
        return x, x

    assert_same(function, make)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "complex128"])
def test_other_dtypes(dtype):
    for n in SIZES:
        assert_same(by_argument, lambda: tuple((np.arange(n) % k + 1).astype(dtype) for k in (5, 3)))
        assert_same(of_an_expression, lambda: tuple((np.arange(n) % k + 1).astype(dtype) for k in (5, 3)))


@pytest.mark.parametrize("function", [scaled, by_argument, mean, of_an_expression, twice, by_rows], ids=lambda f: f.__name__)
def test_nothing_is_saved(function):
    x, y = DATA["tame"](50_000)
    marked = framejit.jit(function, fullgraph=True)
    marked(x, y)
    assert "undo" not in marked.asm()
    assert "reduce" in marked.asm()


def test_what_is_dear_is_saved():
    x, y = DATA["tame"](50_000)
    for function in (of_a_part, dear):
        marked = framejit.jit(function)
        marked(x / 10, y)
        assert "undo" in marked.asm()
