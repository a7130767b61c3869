"""Elementwise operations on arrays that were given another shape are done in their own one: the bits and layouts of eager NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import framejit
from exact.same import assert_same


def of_transposed(x, y):
    return np.transpose(x, (1, 0, 2)).reshape(-1) * (y + 1.0).reshape(-1) - 2.0


def of_repeated(x, y):
    rows = np.repeat(np.exp(y[:, :1]), y.shape[1], axis=1)
    return rows.reshape(-1) * (x.sum(axis=0) * 2.0).reshape(-1)


def of_written(x, y):
    d = np.empty(y.shape)
    d[:] = np.repeat(np.sqrt(y[:, :1]), y.shape[1], axis=1)
    a = (y * 2.0).reshape(-1) + d.reshape(-1)
    d[0] = 7.0
    b = (y * 2.0).reshape(-1) + d.reshape(-1)
    return a, b, d


def of_results(x, y):
    """A result of another shape keeps its base."""
    a = (y * 2.0).reshape(-1)
    b = np.negative(a)
    return b, b.reshape(y.shape[::-1]), a


def of_parts(x, y):
    a = (x * 2.0).reshape(-1)
    return a[1:] * 3.0, a[::-1] + a, a.reshape(x.shape[::-1]) * a.reshape(x.shape[::-1]) + 1.0


def of_changed(x, y):
    a = x * 2.0
    flat = a.reshape(-1)
    b = flat + 1.0
    a += 5.0
    c = flat * b
    b *= 2.0
    return b, c, flat.sum(), (b.reshape(x.shape) * a).sum(axis=1)


def of_other_dtypes(x, y):
    a = (x * 2.0).astype("f4")
    return a.reshape(-1) * np.float32(2), (a.reshape(-1) > 1).sum(), a.reshape(-1).view("i4") + 1


FUNCTIONS = [of_transposed, of_repeated, of_written, of_results, of_parts, of_changed, of_other_dtypes]


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 1, 1), (3, 1, 5), (4, 8, 16), (2, 0, 3)])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_same(function, shape):
    def arguments():
        rng = np.random.default_rng(3)
        return rng.random(shape), rng.random(shape[1:])

    if function is of_transposed:
        assert_same(lambda x, y: function(x, x), arguments, calls=2)
    else:
        assert_same(function, arguments, calls=2)


def test_no_copies():
    def twisted(x, y):
        rows = np.repeat(y * 2.0, x.shape[2], axis=2)
        return np.transpose(x, (1, 0, 2)).reshape(-1) * rows.reshape(-1) + 1.0

    x, y = np.random.default_rng(1).random((4, 4, 8)), np.random.default_rng(2).random((4, 4, 1))
    assert_same(twisted, lambda: (x, y), calls=2)
    marked = framejit.jit(twisted, fullgraph=True)
    marked(x, y)
    listing = marked.asm()
    assert "loop multiply [4, 4, 8]" in listing and "loop copy" not in listing, listing[:2000]
