"""Loops over lists, tuples and ranges that exist before them, and loops that are left in the middle of these."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run
from loop_support import compare, loops

pytestmark = pytest.mark.capture


def over_a_range(n, step):
    numbers, total = range(0, n * step, step), 0
    for i in range(20):
        for k in numbers:
            total += k * i
    return total, numbers


def downwards(x, numbers):
    total = 0.0
    for _ in range(20):
        for k in numbers:
            total = total * 0.5 + x[k] * (k % 3) - k // 2
        for k in range(len(x) - 1, -1, -1):
            total += x[k] * (k // 4)
    return total


def test_ranges_that_go_down():
    """Their numbers are not negative if the last one is not; an index below 0 counts from the end."""
    x = np.arange(1.0, 40.0)
    marked = compare(downwards, *[lambda numbers=numbers: (x, numbers) for numbers in (range(30, -1, -1), range(30, 0, -4), range(20, -20, -1))])
    assert loops(marked)
    marked = compare(downwards, *[lambda numbers=numbers: (x, numbers) for numbers in (range(5, -30, -3), range(38, -1, -1), range(-1, -39, -1))])
    assert loops(marked)

    def entered(x, numbers):
        total, odd = 0.0, 0
        for k in numbers:
            odd += id(k) % 1
            for j in range(3):
                total += x[k] * j + k % 2
        return total, odd

    for first in ((30, -1, -1), (3, -20, -1), (0, -1, -1), (-2, -9, -1)):
        fn = fj.jit(entered)
        for given in (first, (30, -1, -1), (20, -20, -2), (-1, -30, -1), first):
            check_same(run(entered, (x, range(*given))), run(fn, (x, range(*given))), str(given))


def over_the_same_list(values):
    total, seen = 0, 0
    for x in values:
        for y in values:
            if y > x:
                break
            total += y
        seen += 1
    return total, seen


def until(values, end):
    total = 0
    for x in values:
        if x == end:
            break
        total += x
    else:
        return "no end", total, x
    return total, x


def that_grows(values, most):
    total = 0
    for x in values:
        total += x
        if len(values) < most:
            values.append(x + 1)
    return total, len(values)


def test_a_range_that_was_there():
    for step in (1, 3, -2):
        assert loops(compare(over_a_range, lambda step=step: (60, step), lambda step=step: (0, step)))


@pytest.mark.parametrize("make", [list, tuple], ids=lambda make: make.__name__)
def test_a_list_that_two_loops_go_over(make):
    marked = compare(over_the_same_list, lambda: (make(range(60)),), lambda: (make([0.5, 2.0, 1.0] * 20),), lambda: (make([]),))
    assert bool(loops(marked)) == (make is list)


def test_a_loop_over_a_list_that_is_left():
    """In the middle of a list the interpreter goes on where the loop has ended."""
    odd = [*range(50), 2.5, *range(50), True, *range(50), 10**30, *range(60)]
    marked = compare(until, lambda: (odd, -1), lambda: (odd, 49), lambda: (list(range(200)), 150), lambda: ([1.5] * 100, 0))
    assert loops(marked)
    assert loops(compare(that_grows, lambda: (list(range(10)), 200), lambda: ([1.5], 300), lambda: ([], 10)))
