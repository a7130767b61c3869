"""Quotients of Python's numbers that are known only at run time: a divisor of 0 ends the run, and the interpreter raises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run

pytestmark = pytest.mark.capture


def of_arguments(x, a, b):
    y = x * 2.0
    return y * (a / (b * a - 1.0)), y


def of_sums(x, a, b):
    s = float(x.sum())
    y = x + 1.0
    return y * (a / s), y / s, 1 / s


def of_counts(x, a, b):
    n, m = int((x > 0).sum()), int((x > 1).sum())
    return x * (n // m), x * (n % m), n / m, n // -1, m % 3


def behind_a_write(x, a, b):
    s = x.max().item()
    x[0] = 7.0
    return x * (a / s), b / s


def in_rounds(x, a, b):
    s, t = x.sum().item(), 0.0
    for i in range(3):
        t += a / (s * i + b)
        x *= 0.5
    return x * t


def in_a_loop(x, a, b):
    n, k = int((x > 0.5).sum()), 0
    while k < n:
        k += 1
        x = x * (1.0 / (n - 1))
    return x


def of_other_numbers(x, a, b):
    s = float(x[0])
    return x * (3 / s), x * (True / s), 2**70 / s


ARRAYS = ([1.0, 2.0], [0.0, 0.0], [-1.0, 1.0], [0.5, np.inf], [3.0, 0.6], [np.nan, 1.0], [1e308, 1e308], [1e-320, 0.0])
FORMS = (of_arguments, of_sums, of_counts, behind_a_write, in_rounds, in_a_loop, of_other_numbers)


@pytest.mark.parametrize("mode", ["bytecode", "trace"])
@pytest.mark.parametrize("form", FORMS)
def test_values_and_errors(form, mode):
    marked = fj.jit(capture_mode=mode)(form)
    with np.errstate(all="ignore"):
        for x, a, b in itertools.product(ARRAYS, (1.0, 2.0, 0.0, 1e308), (1.0, 0.5, 0.0, 1e-308)):
            check_same(run(form, (np.array(x), a, b)), run(marked, (np.array(x), a, b)), form.__name__)


@pytest.mark.parametrize("form", [of_arguments, of_sums, behind_a_write, in_rounds])
def test_they_are_part_of_the_graph(form):
    marked = fj.jit(form, fullgraph=True)
    for a in (1.0, 2.0, 3.0):
        marked(np.array([1.0, 2.5]), a, 3.0)
    assert "divide" in marked.graphs()


def test_a_sum_that_is_zero_raises_under_fullgraph():
    marked = fj.jit(of_sums, fullgraph=True)
    marked(np.array([1.0, 2.0]), 1.0, 1.0)
    with pytest.raises(ZeroDivisionError, match="float division by zero|division by zero"):
        marked(np.array([1.0, -1.0]), 1.0, 1.0)
