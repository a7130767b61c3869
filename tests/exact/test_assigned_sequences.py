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


VALUES = [(1.5, 2.0, 3), (300.7, -5.0, 200), (np.inf, 1.0, 2**40), (np.nan, 1e300, -1), (np.float64(3.7), np.float64(-1.2), np.int64(7)), (np.float32(1e30), -0.0, 2**65)]
DTYPES = [np.int8, np.uint8, np.int64, np.uint64, np.float16, np.float32, float, complex, bool]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("statement", [
    "c[:] = [x, x, y]", "c[:] = [1, 2, 300]", "c[:] = (1.0, 2.5, -3.7)", "c[:] = [k, k, 1]", "c[:] = (x, k, True)", "c[:] = [float(x), 1, 2]", "c[:] = [x + y, x * y, y]",
    "c[:] = [k * k, 2, 3]", "c[None] = [[x, k, y]]", "c[:2] = [float(x), float(y)]", "c[:] = [np.float32(y), 1, 2]", "c[:] = [-1, 2, 3]", "c[:] = [c * 2][0]",
    "c[:] = np.full(3, k, c.dtype)", "c.fill(k)", "c[0] = k",
])  # fmt: skip
def test_integers_hold_what_is_stored(statement, dtype):
    """NumPy refuses Python's numbers that an integer does not hold, one by one; it casts those of arrays."""
    scope = {"np": np}
    exec(f"def function(c, x, y, k):\n    {statement}\n    return c\n", scope)
    for given in VALUES:
        assert_same(scope["function"], lambda: (np.arange(3).astype(dtype), *given), calls=2)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, float])
@pytest.mark.parametrize("given", [(1, 2, 300), [1, 2, 300], ((1, 2, 3),), [[1, 2, 3]], (1.5, float("nan"), 2)], ids=str)
def test_sequences_from_outside(given, dtype):
    """Tuples and lists that are arguments, globals or defaults, instead of being written in the function."""
    scope = {"GIVEN": given}
    exec("def function(a, b, c, d, own, default=GIVEN):\n    a[:] = own\n    b[:] = GIVEN\n    c[:] = default\n    d.fill(GIVEN)\n    return a, b, c, d", scope)
    assert_same(scope["function"], lambda: (*[np.zeros(3, dtype) for _ in range(4)], given), calls=3)
    exec("def function(a):\n    a.fill(GIVEN)\n    return a", scope)
    assert_same(scope["function"], lambda: (np.zeros(3, dtype),), calls=2)
