"""Sums to which only some rounds add, and the greatest of all rounds so far: without a branch, and with the signs of zero, NaN and the exceptions of the interpreter."""

from __future__ import annotations

import math

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run

pytestmark = pytest.mark.capture


def add_positive(a, start):
    total = start
    for i in range(len(a)):
        if a[i] > 0:
            total += a[i]
    return total


def subtract_others(a, start):
    total = start
    for i in range(len(a)):
        if a[i] > 0:
            continue
        total -= a[i]
    return total


def add_products(a, start):
    total = start
    for value in a:
        if value < 1:
            total = value * value + total
    return total


def of_a_list(a, start):
    items = a.tolist()
    total = start
    for i in range(len(items)):
        if items[i] > 0:
            total += items[i]
    return total


FORMS = (add_positive, subtract_others, add_products, of_a_list)
RNG = np.random.default_rng(8)
ARRAYS = {
    "mixed": RNG.normal(size=300),
    "none": np.full(50, -0.0),
    "zeros": np.array([0.0, -0.0, -1.0, 0.0, -0.0] * 8),
    "single": RNG.normal(size=100).astype(np.float32),
    "left out": np.array([1.0, -np.inf, 2.0, np.nan, -np.inf, 3.0] * 6),
    "overflow": np.array([1e308, -1.0, 1e308, 1e308, -1e308] * 5),
    "integers": RNG.integers(-9, 9, 200),
    "large integers": np.array([2**62, -1, 2**62, -(2**62), 2**61, -5] * 5),
    "empty": np.zeros(0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", [0.0, -0.0, 0, np.float64(-0.0), np.float32(1.5)], ids=repr)
@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_sums_of_some_rounds(form, array, start):
    marked = fj.jit(form)
    for errors in ("ignore", "raise", "warn"):
        with np.errstate(all=errors):
            for _ in range(3):
                check_same(run(form, (array, start)), run(marked, (array, start)), form.__name__)


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_no_branch_is_left(dtype):
    marked = fj.jit(add_positive)
    a = np.ones(50, dtype)
    for _ in range(3):
        marked(a, dtype(0))
    [entry] = marked._report()["entries"]
    # The rounds before the first that adds have a loop of their own.
    adding = [block for block in entry["graph"].split("\nblock") if " = add" in block and "depth 1" in block and "load" in block]
    assert adding
    assert all("select" in block for block in adding if "check.finite" in block or "add.exact" in block)


def test_the_sign_of_a_sum_of_nothing():
    marked = fj.jit(add_positive)
    for _ in range(3):
        assert math.copysign(1.0, marked(np.full(20, -1.0), -0.0)) == -1.0


def running_maximum(a, start):
    best, out = a[0], np.empty_like(a)
    for i in range(len(a)):
        if a[i] > best:
            best = a[i]
        out[i] = best
    return best, out


def place_of_least(a, start):
    best, at = np.inf, -1
    for i in range(len(a)):
        if a[i] < best:
            best, at = a[i], i
    return best, at


def both_ends(a, start):
    low = high = a[0]
    for value in a:
        if value < low:
            low = value
        if high < value:
            high = value
    return low, high


def last_of_equal(a, start):
    best, at = a[0], 0
    for i in range(len(a)):
        if a[i] >= best:
            best, at = a[i], i
    return best, at


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("form", [running_maximum, place_of_least, both_ends, last_of_equal])
def test_the_greatest_so_far(form, array):
    marked = fj.jit(form)
    for _ in range(3):
        for a in (ARRAYS[array], np.roll(ARRAYS[array], 7), ARRAYS[array][::-1]):
            check_same(run(form, (a, 0)), run(marked, (a, 0)), form.__name__)


@pytest.mark.parametrize("form", [running_maximum])
def test_the_greatest_so_far_is_chosen_without_a_branch(form):
    marked = fj.jit(form)
    for _ in range(3):
        marked(ARRAYS["mixed"], 0)
    (text,) = [entry["graph"] for entry in marked._report()["entries"] if entry["kind"] == "loop"]
    assert "f64 = select" in text


def found_by_halves(table, wanted):
    total = 0
    for k in range(len(wanted)):
        low, high = 0, len(table)
        while low < high:
            middle = (low + high) // 2
            if table[middle] < wanted[k]:
                low = middle + 1
            else:
                high = middle
        total += low
    return total


@pytest.mark.parametrize("count", [0, 1, 33, 900])
def test_arms_that_bind_one_object_to_two_names_meet(count):
    """`high is middle` behind one arm only: a value tells, so that what follows the arms is compiled once."""
    marked = fj.jit(found_by_halves)
    table = np.sort(np.random.default_rng(3).normal(size=count))
    for wanted in (table[:1], table, -table, np.full(7, np.nan), np.zeros(0)):
        for _ in range(3):
            check_same(run(found_by_halves, (table, wanted)), run(marked, (table, wanted)), "found_by_halves")
    inner = [
        block
        for entry in marked._report()["entries"]
        for block in entry["graph"].split("\nblock")
        if "depth 2" in block and "load" in block
    ]
    assert [block for block in inner if block.count("select") < 3] == []
    assert bool(inner) == (count > 0)
