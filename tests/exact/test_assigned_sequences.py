"""Tuples and lists that are assigned to arrays.

NumPy refuses those that are deeper than the place has axes. Their items are stored one after the other, so that a later
one may be read from where an earlier one was stored.
"""

from __future__ import annotations

import numpy as np
import pytest

import framejit
from exact.same import assert_same

STATEMENTS = [
    "a[0:3] = [[1, 2, 3]]", "a[:] = ((a * 2,),)", "a[:] = [a * 2]", "a[:] = (a * 2).tolist()", "a[:] = [(a * 2).tolist()]", "a[...] = [[a[1]]]",
    "a[0] = [a[1]]", "a[0] = [[a[1]]]", "a[0] = (5.0,)", "a[0:1] = [[5.0]]", "a[0:1] = [5.0]", "a[None] = [[a]]", "a[None] = [a * 2]", "a[:, None] = [[a]]",
    "a[:] = (m[None, 0] * 2).tolist()", "a[:] = m[None, 0] * 2", "m[0] = [m[1]]", "m[:2] = [m[1], m[0]]", "m[:2] = [[m[1], m[0]]]", "m[0, 0] = [m[1, 1]]",
    "m[0, :] = [1, 2, a[0]]", "m[:] = [a]", "m[:] = [[a]]", "m[:] = [[[a]]]", "a.fill([1])", "a.fill((a[0],))", "a.fill(a[0] + 1)", "m[:, 0] = a.tolist()",
    "m[:, 0] = [a.tolist()]", "m[:2] = [m[1], m[0] + 1]", "m[::-1] = [m[0], m[1], m[2]]", "m[:, :2] = [m[0, 1:], (m[0, 0], m[1, 1]), m[1, :2]]",
    "a[:2] = [a[1], a[0]]", "a[:2] = [a[1, ...], a[0, ...]]", "a[:2] = (a[::-1][1:2], a[:1])", "a[np.array([0, 1, 2])] = [a * 2]", "a[a > -1] = [a * 2]",
]  # fmt: skip


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statement(statement):
    scope = {"np": np}
    exec(f"def function(a, m):\n    a += 1\n    {statement}\n    return a, m, a + m\n", scope)
    assert_same(scope["function"], lambda: (np.arange(3.0), np.arange(9.0).reshape(3, 3) / 4), calls=3)


def test_depths_that_fit_are_in_the_graph():
    def function(a, m):
        m[0] = [a[2], a[1], a[0]]
        m[1:] = [a * 2, a]
        return m

    marked = framejit.jit(function, fullgraph=True)
    marked(np.arange(3.0), np.zeros((3, 3)))
    assert "write" in "".join(marked.graphs())
    assert_same(function, lambda: (np.arange(3.0), np.zeros((3, 3))), calls=2)
