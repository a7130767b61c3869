"""Loops at O1: products fused with sums and powers without calls, within the bounds of docs/o1.md; the same bits from each kernel."""

from __future__ import annotations

import contextlib
import fractions
import math
import os
import sys
import types

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same
from framejit import _core
from loop_maker import LoopMaker, arguments
from loop_support import seen

COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "60"))
FIRST = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))

pytestmark = pytest.mark.capture


@contextlib.contextmanager
def widened(after: int):
    """Loops are compiled for several rounds at once after so many nanoseconds of runs."""
    before, eager = _core.set_widen_after(after), _core.set_parallel_eager(after == 0)
    try:
        yield
    finally:
        _core.set_widen_after(before)
        _core.set_parallel_eager(eager)


def compiled(function, arguments, calls=6):
    """The last call's result; the bits of results that the first calls' interpreter has begun may be others."""
    marked = fj.jit(function, jit_level="O1")
    for _ in range(calls):
        result = marked(*arguments)
    return result, marked.graphs()


def rounded(value: fractions.Fraction) -> float:
    return value.numerator / value.denominator  # Python divides integers with one rounding


# --- products and sums ---------------------------------------------------------------------------------------------------


def smoothed(x, out):
    level = 0.5
    for i in range(len(x)):
        level += (x[i] - level) * 0.1
        out[i] = level
    return level


def scaled(a, b, c, out):
    for i in range(len(a)):
        out[i] = a[i] * b[i] - c[i]


def rest(a, b, c, out):
    for i in range(len(a)):
        out[i] = c[i] - a[i] * b[i]


def two_products(a, b, c, out):
    for i in range(len(a)):
        out[i] = a[i] * a[i] + b[i] * c[i]


def dot(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


def averaged(x, out):
    for i in range(1, len(x)):
        out[i] = 0.3 * x[i] + 0.7 * out[i - 1]


def dot_in_place(a, b, out):
    out[0] = 0.0
    for i in range(len(a)):
        out[0] += a[i] * b[i]


def twice_used(a, b, c, out):
    for i in range(len(a)):
        product = a[i] * b[i]
        out[i] = (product + c[i]) * product


def test_a_product_on_the_way_to_the_next_round_is_fused() -> None:
    x, out = np.random.default_rng(0).random(40), np.zeros(40)
    level, graph = compiled(smoothed, (x, out))
    assert "mul.add" in graph
    expected = []
    at = 0.5
    for v in x:
        at = rounded(fractions.Fraction(float(v) - at) * fractions.Fraction(0.1) + fractions.Fraction(at))
        expected.append(at)
    # The interpreter does the first rounds of the first call only.
    assert out.tolist() == expected
    assert level == expected[-1]


@pytest.mark.parametrize("after", [0, sys.maxsize])
@pytest.mark.parametrize("count", [9, 15, 16, 17, 40])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("function", "operator"), [(scaled, "mul.sub"), (rest, "sub.mul"), (two_products, "mul.add")])
def test_each_form(function, operator, dtype, count, after) -> None:
    rng = np.random.default_rng(1)
    a, b, c = ((rng.random(count) - 0.5).astype(dtype) for _ in range(3))
    out = np.zeros(count, dtype)
    with widened(after):
        _, graph = compiled(function, (a, b, c, out))
    assert operator in graph
    for k in range(count):
        fa, fb, fc = (fractions.Fraction(float(v[k])) for v in (a, b, c))
        if function is two_products:
            one = fa * fa + fractions.Fraction(float(b[k] * c[k]))
            other = fractions.Fraction(float(a[k] * a[k])) + fb * fc
            assert out[k] in [np.dtype(dtype).type(rounded(one)), np.dtype(dtype).type(rounded(other))]
        else:
            exact = fa * fb - fc
            assert out[k] == np.dtype(dtype).type(rounded(exact if function is scaled else -exact))


def test_sums_wait_for_sums_only() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random(100), rng.random(100)
    total, _ = compiled(dot, (a, b))
    assert total == dot(a, b)


def test_what_rounds_hand_on_through_an_array() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random(100), rng.random(100)
    out = np.zeros(100)
    out[0] = 0.25
    _, graph = compiled(averaged, (a, out))
    assert "mul.add" in graph
    level = 0.25
    for k in range(1, 100):
        product = fractions.Fraction(0.3 * float(a[k]))
        level = rounded(fractions.Fraction(level) * fractions.Fraction(0.7) + product)
        assert out[k] == level
    out, expected = np.zeros(1), np.zeros(1)
    compiled(dot_in_place, (a, b, out))
    dot_in_place(a, b, expected)
    assert out.tolist() == expected.tolist()


def test_a_product_that_is_used_twice_is_rounded() -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.random(50) for _ in range(3))
    out, expected = np.zeros(50), np.zeros(50)
    _, graph = compiled(twice_used, (a, b, c, out))
    twice_used(a, b, c, expected)
    assert "mul.add" not in graph
    assert out.tolist() == expected.tolist()


# --- powers --------------------------------------------------------------------------------------------------------------


def squares(x, out):
    for i in range(len(x)):
        out[i] = x[i] ** 2


def roots(x, out):
    for i in range(len(x)):
        out[i] = x[i] ** 0.5


SPECIAL = [0.0, -0.0, 1.0, 2.0, 1e-320, 1e-160, 1e150, 0.1, 3.0, 7.5e-300, 123456.789]


@pytest.mark.parametrize("after", [0, sys.maxsize])
def test_powers_are_products_and_roots(after) -> None:
    x = np.array([*SPECIAL, *np.random.default_rng(4).random(50)])
    out = np.zeros_like(x)
    with widened(after), np.errstate(all="ignore"):
        _, graph = compiled(squares, (x, out))
        assert " call " not in graph
        assert out.tobytes() == (x * x).tobytes()
        _, graph = compiled(roots, (x, out))
        assert " call " not in graph
        assert out.tobytes() == (np.sqrt(x) + 0.0).tobytes()


@pytest.mark.parametrize("function", [squares, roots])
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, -4.0, 1e200])
def test_powers_of_numbers_that_warn(function, number) -> None:
    x = np.ones(30)
    x[17] = number
    marked = fj.jit(function, jit_level="O1")
    for _ in range(4):
        out, expected = np.zeros(30), np.zeros(30)
        check_same(seen(function, (x, expected)), seen(marked, (x, out)), f"{function.__name__} of {number}")
        assert np.array_equal(out, expected, equal_nan=True)


@pytest.mark.parametrize("function", [squares, roots])
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -4.0, 1e200, -0.0, 0.3])
def test_powers_of_python_floats(function, number) -> None:
    numbers = [1.5] * 30
    numbers[17] = number
    marked = fj.jit(function, jit_level="O1")
    for _ in range(4):
        out, expected = [0.0] * 30, [0.0] * 30
        check_same(seen(function, (numbers, expected)), seen(marked, (numbers, out)), f"{function.__name__} of {number}")
        assert repr(out) == repr(expected)


# --- bits do not depend on the kernel ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, 20))
def test_kernels_give_the_same_bits(first: int) -> None:
    for seed in range(first, min(first + 20, FIRST + COUNT)):
        source = LoopMaker(seed).program()
        worlds = []
        for _ in range(2):
            world: dict = {"__name__": "program"}
            exec(compile(source, f"<loops {seed}>", "exec", dont_inherit=True), world)
            assert isinstance(world["main"], types.FunctionType)
            world["main"] = fj.jit(world["main"], capture_mode="bytecode", jit_level="O1")
            worlds.append(world)
        before = fj.stats()["internal_errors"]
        for call in range(4):
            with widened(sys.maxsize):
                expected = seen(worlds[0]["main"], arguments(seed, call))
            with widened(0):
                check_same(expected, seen(worlds[1]["main"], arguments(seed, call)), f"program {seed}, call {call}")
        assert fj.stats()["internal_errors"] == before
    fj.reset()


@pytest.fixture(autouse=True)
def profitability(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "off")
