"""Checks of indices and of overflow that a loop does not need, and what would go wrong without those that it needs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from loop_support import compiled, loops

pytestmark = pytest.mark.capture


def test_divisions_of_natural_numbers_need_no_sign():
    def digits(numbers):
        total = 0
        for number in numbers:
            rest = number
            while rest > 0:
                total += rest % 10
                rest //= 10
        return total

    def floors(numbers):
        total = 0
        for number in numbers:
            total += number // 10 * 3 + number % 7
        return total

    values = np.concatenate([np.arange(-50, 50), [2**63 - 1, 2**62, -(2**63), -(2**63) + 1, 10**18, -(10**18), 999]])
    marked = compiled(digits, [int(v) for v in values if abs(int(v)) < 2**30] + [2**30 - 1, -(2**30) + 1])
    assert " natural" in loops(marked)[0]["graph"]
    for given in (values, np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 500)):
        with np.errstate(all="ignore"):
            compiled(digits, given)
            assert " natural" not in loops(compiled(floors, given // 100))[0]["graph"]


def test_what_may_not_overflow_stays_natural_without_its_check():
    def weeks(n, divisor):
        total = 0
        for i in range(2, n):
            total += (13 * (i + 1)) // 5 + (i * 7 + 3) % 10 + (i * divisor) % 9
        return total

    graph = loops(compiled(weeks, 40, -3))[0]["graph"]
    # In the version of the loop without checks of overflow.
    products = re.findall(r"(%\d+): i64 = mul %", graph)
    assert [p for p in products if re.search(rf"floordiv {p} %\d+ natural", graph)]
    # The last product may be negative.
    assert [p for p in products if re.search(rf"floormod {p} %\d+$", graph, re.MULTILINE)]
    for n in (0, 3, 2**62):
        compiled(weeks, min(n, 50), n // 3)



def test_indices_that_conditions_bound_need_no_check():
    def insertion_sort(x):
        for i in range(1, len(x)):
            key = x[i]
            j = i - 1
            while j >= 0 and x[j] > key:
                x[j + 1] = x[j]
                j -= 1
            x[j + 1] = key
        return x

    def gaps(x, by):
        total, j = 0.0, len(x) - 1
        while j >= by and x[j] >= 0.0:
            total += x[j] - x[j - by]
            j -= by
        return total, j

    rng = np.random.default_rng(7)
    for x in (rng.random(200), rng.integers(0, 50, 90), np.arange(40.0)[::-1], np.zeros(1), np.array([1.0, np.nan, 0.5] * 20)):
        compiled(insertion_sort, x)
    graph = loops(compiled(insertion_sort, rng.random(200)))[0]["graph"]
    # The version of the inner loop without checks moves an item, and compares the next index with 0 only.
    inner = [block for block in graph.split("block") if "depth 2" in block and "check" not in block]
    assert sum("store.f64" in block for block in inner) == 1
    assert not any(word in block for block in inner for word in ("select", "exact", "below"))
    for by in (1, 3, 7):
        assert loops(compiled(gaps, rng.random(200), by))

    # Indices below 0 count from the end, where nothing bounds them.
    def behind(x, j, rounds):
        total = 0.0
        for _ in range(rounds):
            total += x[j]
            j -= 1
        return total, j

    assert loops(compiled(behind, rng.random(50), 20, 60))


def test_counts_that_a_condition_bounds_need_no_check():
    def sums(x):
        total = 0.0
        for _ in range(40):
            i = 0
            while i < len(x):
                for j in range(i):
                    total += x[j]
                i += 1
        return total

    def down(x):
        total = 0.0
        for _ in range(40):
            j = len(x) - 1
            while j >= 0:
                for k in range(j):
                    total -= x[k]
                j -= 1
        return total

    def beyond(start):
        i, rounds = start, 0
        while i != -1 and rounds < 100:
            i += 1
            rounds += 1
        return i, rounds

    for function, exact in ((sums, "add.exact"), (down, "sub.exact")):
        (entry,) = loops(compiled(function, np.arange(20.0)))
        assert exact not in entry["graph"]
    for start in (0, 2**63 - 120, 2**63 - 101, 2**63 - 100, 2**63 - 99, 2**63 - 60, 2**63 - 1, -50):
        compiled(beyond, start)
