"""Loops over short tuples inside loops that are compiled: each of their rounds is translated, with the item as a constant."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run
from loop_support import compare, loops

pytestmark = pytest.mark.capture

PLACES = ((0, 1), (1, 0), (0, -1), (-1, 0))


def neighbours(grid):
    for i in range(1, grid.shape[0] - 1):
        for j in range(1, grid.shape[1] - 1):
            total = 0
            for a in (-1, 0, 1):
                for b in (-1, 0, 1):
                    if a or b:
                        total += grid[i + a, j + b]
            grid[i, j] = total % 5
    return a, b


def around(grid, steps):
    y = x = found = 0
    for k in range(steps):
        for dy, dx in PLACES:
            if grid[(y + dy) % grid.shape[0], (x + dx) % grid.shape[1]] > k % 7:
                y, x = (y + dy) % grid.shape[0], (x + dx) % grid.shape[1]
                found += 1
                break
        else:
            grid[y, x] += 1
    return y, x, found, dy


def of_variables(p, q, n):
    s, seen = 0, None
    for k in range(n):
        for v in (p, q, k, 1000, 0.25, True):
            s += v
            seen = v
        for at, v in enumerate((p, k)):
            s -= v * at
        for v, w in zip((1, 2, 3), (q, p)):
            s += v * w
    return s, seen, seen is v, at, v, w


def keeps_items(n):
    best = kept = None
    for k in range(n):
        for v in (3, -1, 2):
            if best is None or (v * k) % 7 > best:
                best, kept = (v * k) % 7, v
    return best, kept, v


def grid(dtype=np.int64):
    return np.random.default_rng(5).integers(0, 7, (12, 14)).astype(dtype)


def test_neighbours():
    marked = compare(neighbours, lambda: (grid(),), lambda: (grid(np.float64),), lambda: (grid(np.uint8),))
    (loop, *_) = loops(marked)
    assert "depth 3" not in loop["graph"]  # its rounds are one after the other
    assert not [exit for exit in loop["exits"] if exit["early"] and exit["taken"]]


def test_places_that_a_global_holds():
    marked = compare(around, lambda: (grid(), 300), lambda: (grid(np.float32), 300))
    assert loops(marked)


def test_items_of_several_types():
    marked = compare(of_variables, lambda: (1, 2.5, 60), lambda: (2**40, 3, 60), lambda: (np.float64(0.5), True, 60))
    assert loops(marked)


def best_of_pairs(n):
    best, move = -1, None
    for k in range(n):
        for pair in PLACES:
            value = (pair[0] * k + pair[1] * 7 + 30) % 23
            if value > best:
                best, move = value, pair
    return best, move, move in PLACES


@pytest.mark.parametrize("form", [keeps_items, best_of_pairs])
def test_items_that_are_kept(form):
    assert loops(compare(form, lambda: (200,)))


def test_items_that_are_no_numbers():
    def form(n):
        found = []
        for i in range(n):
            for j, (a, b) in enumerate(((1, 2.5), (i, True), (None, 3))):
                if a is None:
                    found.append(j)
                    continue
                found.append(a * b)
        return found, b, j

    assert loops(compare(form, lambda: (150,)))


def test_an_exit_in_the_middle():
    """The interpreter goes on with the item after the one at which the loop was left."""

    def form(a, n):
        s = 0
        for k in range(n):
            for v in (1, 10, 100):
                s += a[k] // (v - 10 * (k % 50 == 7))
        return s

    def safe(a, n):
        s = []
        for k in range(n):
            for v in (1, 10, 100):
                try:
                    s.append(a[k] % (v - 10 * (k % 50 == 7)))
                except ZeroDivisionError:
                    s.append(v)
        return s

    numbers = list(range(200))
    compare(form, lambda: (numbers, 200))
    compare(safe, lambda: (numbers, 200))


def test_many_items():
    """Long tuples are not unrolled."""

    def form(n):
        s = 0
        for k in range(n):
            for v in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13):
                s += v ^ k
        return s

    marked = compare(form, lambda: (100,))
    assert [b["detail"] for b in marked._report()["breaks"]].count("a loop over a long tuple") == 1


def test_infinity_by_name():
    def form(a):
        found = []
        for i in range(len(a)):
            least = float("inf")
            for j in range(len(a)):
                if j != i and abs(a[i] - a[j]) < least:
                    least = abs(a[i] - a[j])
            found.append(least)
        return found, float(" nan ") != 0, least

    marked = compare(form, lambda: (np.random.default_rng(1).normal(size=40).tolist(),))
    assert loops(marked)


@pytest.mark.not_sanitized(reason="a run of the short loop takes longer than entering it there")
def test_indices_that_are_often_below_0():
    """Another capture of the loop has them itself."""

    def form(a, n):
        s = 0.0
        for k in range(n):
            i = k % 4
            s += a[i - 1] * a[i]
        return s

    marked = fj.jit(form)
    arguments = (np.arange(1.0, 6.0), 2000)
    for _ in range(3):
        check_same(run(form, arguments), run(marked, arguments), "below 0")
    found = [r for r in marked._report()["recompiles"] if r["guard"] == "indices are seldom below 0"]
    assert len(found) == 1, marked._report()["recompiles"]
    before = sum(exit["taken"] for entry in loops(marked) for exit in entry["exits"])
    assert marked(*arguments) == form(*arguments)
    assert sum(exit["taken"] for entry in loops(marked) for exit in entry["exits"]) <= before + 2
