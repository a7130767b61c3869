"""Loops that count the bits of numbers."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run
from loop_support import loops

pytestmark = pytest.mark.capture


def total_of_bits(start, stop):
    total, rest = 0, 7
    for number in range(start, stop):
        rest = number
        while rest:
            rest &= rest - 1
            total += 1
    return total, rest, number, rest is number


def until_none(numbers, most):
    """The loop asks at its end only, so a number without bits counts as one round."""
    rounds = before = 0
    for k in range(len(numbers)):
        rest = numbers[k]
        while True:
            rounds += 1
            rest = (rest - 1) & rest
            if not rest:
                break
        before = rest
    return rounds, rest, before


def near_the_end(numbers, first):
    """A counter that leaves 64 bits, one that counts down, and one in floats."""
    up, down, seen = first, 0, 0.5
    for number in numbers:
        rest = number
        while rest:
            rest &= rest - 1
            up += 1
            down -= 1
        seen += 1.0
    return up, down, seen, rest


def each_bit(numbers, out):
    """What a round computes of the number before it: not only the number of bits."""
    for k in range(len(numbers)):
        rest, last = numbers[k], 0
        while rest:
            last = rest
            rest &= rest - 1
        out[k] = last
    return last


@pytest.mark.usefixtures("kernels")
def test_the_number_of_bits():
    marked = fj.jit(total_of_bits)
    for bounds in [(0, 1000), (1, 1000), (999, 1012), (2**40, 2**40 + 77), (2**62 - 5, 2**62 + 40), (2**63 - 40, 2**63 + 9), (2**70, 2**70 + 40)]:
        for _ in range(2):
            check_same(run(total_of_bits, bounds), run(marked, bounds), str(bounds))
    (loop, *_) = loops(marked)
    assert " = ones %" in loop["graph"], loop["graph"]
    assert "depth 2" not in loop["graph"]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("function", [until_none, each_bit])
@pytest.mark.parametrize("kind", ["list", "int64", "uint8", "int32"])
def test_numbers_of_arrays_and_lists(function, kind):
    some = [(k * k * 2654435761) % 251 for k in range(90)]
    if function is each_bit and kind == "list":
        some = [k + 1 for k in some]
    numbers = some if kind == "list" else np.array(some, kind)
    other = 3 if function is until_none else np.zeros(len(some), np.int64)
    marked = fj.jit(function)
    for _ in range(3):
        check_same(run(function, (numbers, other)), run(marked, (numbers, other)), function.__name__)


def test_numbers_below_zero_of_numpy():
    numbers = np.array([5, -3, 0, -(2**63), 2**63 - 1, -1] * 9)
    marked = fj.jit(until_none)
    for _ in range(3):
        check_same(run(until_none, (numbers, 1)), run(marked, (numbers, 1)), "until_none")


@pytest.mark.parametrize("first", [0, 2**63 - 100, 2**63 - 3])
def test_counters_that_leave_64_bits(first):
    marked = fj.jit(near_the_end)
    for _ in range(3):
        check_same(run(near_the_end, (range(60), first)), run(marked, (range(60), first)), "near_the_end")
