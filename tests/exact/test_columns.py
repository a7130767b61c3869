"""Statements that write columns of one array: they share a loop if no two of them touch the same elements."""

from __future__ import annotations

import numpy as np
import pytest

import framejit

from exact.same import assert_same
from exact.test_flags import check


def loops_of(function, make_args) -> list[str]:
    explained = framejit.explain(function)(*make_args())
    assert not explained.breaks, str(explained)
    return [line for line in str(explained).splitlines() if line.strip().startswith("loop ")]


def columns(a, x, y):
    a[..., 0] = x * 2 + y
    a[..., 1] = x * 3 - y
    a[..., 2] = x - a[..., 0]
    a[..., 3] += a[..., 5] * y


def chain(a, x, y):
    """A forward sweep, as in the solution of a tridiagonal system."""
    a[..., 0] = x * 0.5
    for k in range(1, 4):
        a[..., k] = (y - a[..., k - 1] * x) * a[..., k]


def blocks(a, x, y):
    a[:4, :, 0] = x[:4] + 1
    a[4:8, :, 0] = x[4:8] * y[:4]


def parts(z, x, y):
    z.real[...] = x * y
    z.imag[...] = x - y


def cube(dtype="f8", order="C"):
    rng = np.random.default_rng(1)
    a = np.asarray(rng.normal(size=(9, 11, 6)), dtype, order=order)
    return a, rng.normal(size=(9, 11)).astype(dtype), rng.normal(size=(9, 11)).astype(dtype)


@pytest.mark.parametrize("function, order", [(columns, "C"), (columns, "F"), (chain, "C"), (chain, "F"), (blocks, "C")])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_one_loop_writes_all_columns(function, dtype, order):
    assert len(loops_of(function, lambda: cube(dtype, order))) == 1
    assert_same(function, lambda: cube(dtype, order))
    assert_same(function, lambda: cube(dtype, order), {"all": "ignore"})


def test_one_loop_writes_both_parts_of_complex_numbers():
    def args():
        a, x, y = cube()
        return a[..., :2].copy().view("c16")[..., 0], x, y

    assert len(loops_of(parts, args)) == 1
    assert_same(parts, args)


def overlapping(a, x, y):
    a[1:, :, 0] = x[1:] * 2
    a[:-1, :, 0] = a[1:, :, 0] + y[:-1]
    a[..., 1] = a[..., 0] * 3


def across(a, x, y):
    a[..., 0] = x
    a[:, 0, :] = y[:, :6]
    a[..., 1] += a[..., 0]


@pytest.mark.parametrize("function", [overlapping, across])
def test_what_may_meet_keeps_its_order(function):
    assert len(loops_of(function, cube)) > 1
    assert_same(function, cube)


def test_a_column_that_is_an_argument_as_well():
    def function(a, x):
        a[..., 0] = x * 2
        a[..., 1] = x + a[..., 0]

    def args(k):
        a = cube()[0]
        return a, a[..., k]

    for k in range(3):
        assert_same(function, lambda: args(k))


@pytest.mark.parametrize("at", [(), (3, 2), (8, 10)])
@pytest.mark.parametrize("errstate", [{"all": "warn"}, {"all": "raise"}, {"over": "raise", "invalid": "warn"}])
@pytest.mark.parametrize("function", [columns, chain])
def test_warnings_of_columns(function, errstate, at):
    def args():
        a, x, y = cube()
        x[at] = 1.7e308
        a[at + (5,)] = np.inf
        return a, x, y

    with np.errstate(all="ignore"):
        check(function, args, errstate=errstate)


def tanh_in_place(a, x, y):
    a *= np.tanh(x) * 2 + y
    a += np.exp(y) * np.tanh(a - x)


@pytest.mark.parametrize("rows", [7, 200])
@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("errstate", [{"all": "warn"}, {"all": "raise"}, {"all": "ignore"}])
def test_statements_with_loops_of_numpy_in_place(errstate, few, rows):
    """They run in the stages between two loops of NumPy, and where flags are raised once more, each by itself."""

    def args(raises=True):
        rng = np.random.default_rng(2)
        a, x, y = (rng.normal(size=(rows, 40)) for _ in range(3))
        if raises:
            a[:: rows // 2 if few else 1, 5] = 1.7e308
            y[-1, -1] = 800.0
        return a, x, y

    text = str(framejit.explain(tanh_in_place)(*args(raises=False)))
    assert "joint kernel" in text and "joint numpy_loop" in text
    check(tanh_in_place, args, errstate=errstate)
    check(tanh_in_place, lambda: args(raises=False), errstate=errstate)
