"""A compiled loop runs directly after the region before it, and the region after it directly after the loop: no bytecode runs in between."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run

pytestmark = pytest.mark.capture


def diffused(u, steps):
    u[0, 0] = 1.0
    for t in range(steps):
        old, new = t % 2, (t + 1) % 2
        for i in range(1, u.shape[1] - 1):
            u[new, i] = u[old, i] + 0.25 * (u[old, i - 1] - 2.0 * u[old, i] + u[old, i + 1])
    return u


def summed_twice(x, n):
    y = x * 2.0
    s, k = 0.0, 0
    while k < n:
        s, k = s + y[k], k + 1
    while s > 1.0:
        s *= 0.9
    return s, k


@pytest.mark.parametrize(
    "function, args, kernels",
    [(diffused, lambda: (np.zeros((2, 40)), 9), 2), (summed_twice, lambda: (np.arange(90.0), 80), 3)],
    ids=["for", "while"],
)
def test_a_loop_begins_where_a_region_ends(function, args, kernels):
    """The bytecode does no round of it before."""
    marked = fj.jit(function)
    for _ in range(60):
        marked(*args())
    for _ in range(3):
        before = fj.stats()["kernel_calls"]
        check_same(run(function, args()), run(marked, args()), function.__name__)
        assert fj.stats()["kernel_calls"] - before == kernels


def counted_around(grid):
    out = np.zeros_like(grid)
    for i in range(1, grid.shape[0] - 1):
        for j in range(1, grid.shape[1] - 1):
            out[i, j] = grid[i - 1, j] + grid[i + 1, j]
    return out


def test_an_array_of_equal_numbers_is_made_by_a_region():
    """NumPy needs several calls for it, which take longer than the small loop after it."""
    marked = fj.jit(counted_around)
    grid = np.arange(80).reshape(8, 10)
    for _ in range(60):
        check_same(run(counted_around, (grid,)), run(marked, (grid,)), "counted_around")
    assert [entry["kind"] for entry in marked._report()["entries"]][:2] == ["region", "loop"]


def divided_by_its_trace(x):
    trace = 0.0
    for i in range(len(x)):
        trace += x[i, i]
    scaled = x / trace
    return scaled - scaled.T


def halved_until_small(x):
    scale, rounds = 8.0, 0
    while scale > 0.1:
        scale *= 0.5
        rounds += 1
        if rounds > 50:
            break
    y = x * scale
    return y + y * y, rounds


def cut_at_the_first_negative(x):
    for i in range(len(x)):
        if x[i, 0] < 0.0:
            break
    else:
        return None
    y = x * i
    return y - x


@pytest.mark.parametrize("function", [divided_by_its_trace, halved_until_small, cut_at_the_first_negative])
def test_what_comes_behind_a_loop_is_compiled_with_it(function):
    """The first call does not go back to the bytecode until the function returns."""

    def x():
        return 1200.5 - np.arange(1600.0).reshape(40, 40)

    marked = fj.jit(function)
    for _ in range(3):
        check_same(run(function, (x(),)), run(marked, (x(),)), function.__name__)
    entries = [(entry["kind"], entry["hits"]) for entry in marked._report()["entries"]]
    assert ("loop", 3) in entries and entries[-1] == ("region", 3)
