"""Quotients of Python's ints, which are rounded once: floats do not hold all ints."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run

pytestmark = pytest.mark.capture


def of_constants(m, k, n):
    i = n - 1
    return (i * 9007199254740993) / i * m


def by_a_number_of_an_array(m, k, n):
    i = n - 1
    return m * ((i * 9007199254740993) / (k if m[i][0] > 1e9 else i))


def of_a_number_of_an_array(m, k, n):
    i = n - 1
    return m * ((k if m[i][0] > 1e9 else i) / (i * 9007199254740993 * 3))


def in_a_loop(m, k, n):
    total = 0.0
    for i in range(1, n):
        total += (i * 9007199254740993) / (k if m[i][0] > 1e9 else i)
    return total * m


@pytest.mark.parametrize("stress", ["", "rewrite", "break=3", "guards"])
@pytest.mark.parametrize("function", [of_constants, by_a_number_of_an_array, of_a_number_of_an_array, in_a_loop])
def test_quotients_of_large_ints(function, stress):
    m = np.arange(31 * 31).reshape(31, 31) + 7
    for n in (30, 30, 20, 2, 31):
        with fj.mark(function, stress=stress):
            found = run(function, (m, -1, n))
        check_same(run(function, (m, -1, n)), found, f"{n}")


@pytest.mark.parametrize("large", [2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**64 + 1, 10**30])
def test_sizes(large):
    scope = {}
    exec(f"def function(m, k, n):\n    d = 3 if m[0][0] > 0 else n\n    return {large} / d + m, d / {large} + m, n / {large} + m", scope)
    function = scope["function"]
    marked = fj.jit(function)
    for n in (7, 7, 5, 2**53 + 3):
        for first in (1, -1):
            m = np.full((2, 2), first)
            check_same(run(function, (m, -1, n)), run(marked, (m, -1, n)), f"{n} {first}")
