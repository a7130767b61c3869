"""Rows of a few elements, of which the loops take several as one: with what is the same in each of them, in place, behind each other or not."""

from __future__ import annotations

import numpy as np
import pytest

import framejit
from exact.same import assert_same
from exact.shapes import special_values

# Rows, and elements of one: around whole blocks of rows, with and without rows that are left.
SHAPES = [(9000, 3), (5632, 3), (5633, 3), (20000, 2), (4097, 8), (1500, 17), (900, 31), (1000, 63), (3000, 1), (7, 3), (16, 700, 3), (700, 5, 4)]


def added(x, row):
    return x + row, row * x - row, (x > row) & (x < row + row)


def in_place(x, row):
    x += row
    x[1:] *= row
    x[:, ::-1] -= row[::-1]
    return x


def of_itself(x, row):
    x -= x[0]
    x *= x[-1].copy()
    return x, x + x[3]


def selected(x, row):
    out = np.where(x > row, x, row)
    out[x == row] = 0
    np.maximum(x[::2], row, out=out[::2])
    return out


def columns(x, row):
    return x * row + x[..., :1], x[..., 1:] + row[1:], np.sqrt(np.abs(x * row)), (x * row).astype(np.float32)


FUNCTIONS = [added, in_place, of_itself, selected, columns]
CASES = [(f, dtype) for f in FUNCTIONS for dtype in ("f4", "f8", "i2", "u1", "c16") if dtype != "c16" or f not in (added, selected)]


@pytest.mark.parametrize(("function", "dtype"), CASES, ids=lambda x: getattr(x, "__name__", x))
def test_of_all_shapes(function, dtype):
    random = np.random.default_rng(5)
    before = framejit.config.num_threads
    try:
        for threads in (1, 2):
            framejit.config.num_threads = threads
            for shape in SHAPES:
                if shape[-1] == 1 and function is columns:
                    continue
                x = special_values(random, dtype, int(np.prod(shape))).reshape(shape)
                row = special_values(random, dtype, shape[-1])
                for laid in (x, x[:, :-1].copy() if len(shape) == 2 and shape[1] > 2 else x[::-1]):
                    assert_same(function, lambda x=laid, row=row: (x.copy("K"), row[: x.shape[-1]].copy()), {"all": "ignore"}, calls=1)
    finally:
        framejit.config.num_threads = before


def test_warnings_and_flags_are_those_of_the_rows():
    x, row = np.ones((9000, 3), np.float32), np.array([1, 0, 3], np.float32)
    assert_same(lambda x, row: x / row, lambda: (x, row))
    assert_same(lambda x, row: x / row, lambda: (x, np.array([1, 2, 3], np.float32)))
    x[8999, 1] = 0  # in the rows that are left
    assert_same(lambda x, row: x / row, lambda: (x, row), {"divide": "ignore"})


def test_the_number_of_rows_varies():
    marked = framejit.jit(lambda x, row: x * row + row, dynamic=True)
    for rows in (5000, 5001, 8192, 700, 30000):
        x, row = np.random.default_rng(rows).normal(size=(rows, 3)), np.array([1.5, -2.0, 3.25])
        np.testing.assert_array_equal(marked(x, row), x * row + row)
