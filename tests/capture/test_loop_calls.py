"""Calls of Python functions in loops, by keyword and of closures, and numbers that existing objects hold."""

from __future__ import annotations

import collections
import dataclasses
import math

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run
from loop_support import loops

pytestmark = pytest.mark.capture

RATES = {"k": 0.3, "b": 2, 3: 0.125}
STEPS = (0.25, 3, (1, 2))
Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Settings:
    low: float = 0.25
    times: int = 3


def compare(function, *of_calls):
    """The marked function, after calls that came to the same as the unmarked one's, in loops that are not left in the middle."""
    marked = fj.jit(function)
    for _ in range(3):
        for args in of_calls:
            check_same(run(function, args), run(marked, args), function.__name__)
    assert loops(marked), marked._report()["breaks"]
    return marked


def move(x, v, /, step=0.01, rate=1.0, *, scale=1):
    return x + v * step, v - rate * x * step


def moved(x, v, step=0.01, rate=1.0):
    return x + v * step, v - rate * x * step


def test_keywords():
    def form(n):
        x, v = 1.0, 0.5
        for _ in range(n):
            x, v = moved(x, v, rate=2.0)
            x, v = moved(v=v, x=x)
            x, v = moved(x, step=0.02, v=v, rate=0.5)
        return x, v

    compare(form, (100,))


def test_keywords_that_are_wrong():
    """The interpreter raises."""

    def unknown(n):
        x = v = 0.5
        for k in range(n):
            x, v = moved(x, v, speed=1.0) if k == 70 else moved(x, v)
        return x

    def twice(n):
        x = v = 0.5
        for k in range(n):
            x, v = moved(x, v, x=1.0) if k == 70 else moved(x, v, step=0.5)
        return x

    def missing(n):
        x = v = 0.5
        for k in range(n):
            x, v = moved(x, step=1.0) if k == 70 else moved(x, v, step=0.5)
        return x

    for form in (unknown, twice, missing):
        compare(form, (100,))


def test_other_forms_stay_with_the_interpreter():
    def form(n):
        x = v = 0.5
        for _ in range(n):
            x, v = move(x, v, scale=2)
        return x

    marked = fj.jit(form)
    for _ in range(3):
        assert marked(100) == form(100)


def test_closures():
    def make(k, b):
        def f(x, shift=0.5):
            return k * x * (1 - x) + b * shift

        def form(n):
            x = 0.3
            for i in range(n):
                x = f(x) % 1.0 if i % 2 else f(x, shift=0.25) % 1.0
            return x

        return form

    marked = [fj.jit(make(*numbers)) for numbers in ((3.5, 1), (2, 0.25))]
    for _ in range(3):
        for one, numbers in zip(marked, ((3.5, 1), (2, 0.25))):
            assert one(200) == make(*numbers)(200)
    assert all(loops(one) for one in marked)


def test_a_closure_whose_variable_changes():
    k = 2.0

    def f(x):
        return x * k

    def form(n):
        total = 0.0
        for i in range(n):
            total += f(i)
        return total

    marked = fj.jit(form)
    for value in (2.0, 3, 0.5, np.float64(1.5), "ab", 7):
        k = value
        check_same(run(form, (100,)), run(marked, (100,)), repr(value))
    assert loops(marked)

    def within(n):
        nonlocal k
        total = 0.0
        for i in range(n):
            total += f(i)
            if i % 30 == 29:
                k = k + 1
        return total, k

    marked = fj.jit(within)
    for _ in range(3):
        k = 1.0
        expected = within(100)
        k = 1.0
        assert marked(100) == expected


def test_items_of_dicts():
    def of_global(n):
        s = 1.0
        for _ in range(n):
            s += RATES["k"] * s * 0.01 - RATES["b"]
        return s

    def of_argument(rates, n):
        s = 1.0
        for _ in range(n):
            s += rates["k"] * s * 0.01 - rates["b"]
        return s

    marked = compare(of_global, (100,))
    compare(of_argument, ({"k": 0.5, "b": 1}, 100), ({"k": 1, "b": 0.5, "more": None}, 100), ({"k": np.float64(0.5), "b": True}, 100))
    before = dict(RATES)
    try:
        RATES["k"] = 0.75
        assert marked(100) == of_global(100)
        RATES["b"] = 2.5
        assert marked(100) == of_global(100)
        del RATES["k"]
        with pytest.raises(KeyError):
            marked(100)
    finally:
        RATES.clear()
        RATES.update(before)
    assert marked(100) == of_global(100)


def test_a_dict_that_the_loop_changes():
    def form(n):
        counts = {"a": 0, "b": 0.5}
        for i in range(n):
            counts["a"] = counts["a"] + i * counts["b"]
        return counts

    marked = fj.jit(form)
    for _ in range(3):
        assert marked(100) == form(100)


def test_items_of_tuples_and_fields():
    def of_tuple(n):
        s = 0.0
        for i in range(n):
            a, b = STEPS[2]
            s += STEPS[0] * i + STEPS[1] + a - b + STEPS[-1][0]
        return s

    def of_fields(p, settings, n):
        s = 0.0
        for i in range(n):
            s += p.x * i - p.y + settings.low * settings.times + p[0]
        return s

    compare(of_tuple, (100,))
    compare(of_fields, (Point(0.5, 2), Settings(), 100), (Point(np.float64(2), 0.5), Settings(1, 2.5), 100))


def test_roundings_of_scalars():
    def form(a):
        seen = 0
        for v in a:
            seen += math.floor(v) * 3 + math.ceil(v * 2) + math.trunc(v) + round(v) * 5
        return seen, math.floor(v)

    numbers = np.concatenate([np.random.default_rng(4).normal(size=200) * 100, [0.5, 1.5, 2.5, -0.5, -0.0]])
    compare(form, (numbers,))
    compare(form, (numbers.tolist(),))
    for bad in (np.nan, np.inf, 1e300):
        marked = fj.jit(form)
        args = (np.append(numbers, bad),)
        check_same(run(form, args), run(marked, args), repr(bad))


def test_sums_of_many_numbers_are_not_captured():
    def form(x):
        return sum(x) / len(x), max(x), min(x)

    marked = fj.jit(form)
    numbers = [k * 0.5 for k in range(1000)]
    for _ in range(3):
        assert marked(numbers) == form(numbers)
    assert "sum() of many numbers" in [b["detail"] for b in marked._report()["breaks"]]
    assert not [e for e in marked._report()["entries"] if len(e["guards"]) > 100]


@pytest.mark.parametrize("name", ["hypot", "remainder", "nextafter", "isclose", "lcm", "comb", "erf", "gamma", "lgamma", "log", "log2", "isfinite", "isinf", "ceil"])
def test_functions_of_math(name):
    called = getattr(math, name)

    def of_two(x, y, n):
        out = []
        for k in range(n):
            out.append(called(x + k, y))
        return out

    def of_one(x, y, n):
        out = []
        for k in range(n):
            out.append(called(x + k))
        return out

    function = of_two if name in ("hypot", "remainder", "nextafter", "isclose", "lcm", "comb") else of_one
    marked = fj.jit(function)
    for args in ((1.5, 0.3, 40), (2, 5, 40), (1.5, 0.3, 40), (float("nan"), 2.0, 40), (-3.0, float("inf"), 40), (2**62, 3, 40), (-1, 2, 3), (np.float64(0.5), 0.25, 40)):
        check_same(run(function, args), run(marked, args), f"{name}{args}")
    assert not any(leave["why"] for entry in loops(marked) for leave in entry["exits"])


def test_builtins_of_what_goes_round():
    def rows(m):
        out = []
        for row in m:
            out.append((sum(row), max(row), min(row)))
        return out, [any(row) for row in m], [all(row) for row in m]

    def ranges(n):
        total = 0
        for k in range(n):
            total += sum(range(k, 10)) + max(range(k + 1)) - len(list(range(k)))
        return total

    def lists(n):
        total = 0
        for k in range(n):
            marks = [k > 2, k % 2 == 0]
            total += any(marks) + all(marks) + sum(marks)
        return total

    made = np.random.default_rng(2).normal(size=(30, 12))
    with_nan = made.copy()
    with_nan[4, 5], with_nan[7, 1] = np.nan, np.inf
    compare(rows, (made,), (with_nan,), ((made * 9).astype(np.int64),), (made.T[::-1],), (np.zeros((40, 3)),))
    compare(ranges, (30,), (3,))
    compare(lists, (30,))


def test_places_in_order():
    def places(edges, values):
        found = []
        for x in values:
            found.append(np.searchsorted(edges, x) + edges.searchsorted(x))
        return found

    edges = np.sort(np.random.default_rng(1).normal(size=50))
    values = np.random.default_rng(2).normal(size=60)
    odd = np.append(values, [np.nan, np.inf, -np.inf, edges[3], -0.0, 0.0])
    compare(places, (edges, values), (np.append(edges, np.nan), odd), (edges[::2], odd), (edges[::-1], values), (np.empty(0), values), (edges, [0.5, 0.25] * 20))
