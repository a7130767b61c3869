"""Products of matrices that are one memory, or two of equal bytes: BLAS has another product of a matrix and its own transpose."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest

pytestmark = pytest.mark.capture


def copy_of_the_argument(x):
    y = x.copy()
    return x.T @ y


def copy_that_is_written(x):
    y = x.copy()
    y -= 1
    return y.T @ y


def two_of_equal_bytes(x):
    y = x * 2
    z = x * 2
    return y.T @ z, y


def transpose_and_itself(x):
    y = x.copy()
    y -= y.mean(0)
    z = y.T
    return np.dot(z, y), np.matmul(z, y), np.inner(z, z), np.einsum("ij,ik->jk", y, y), np.tensordot(y, y, ((0,), (0,))), z @ y @ z


def copy_of_a_result(x):
    y = x - 1
    z = y.copy()
    return np.dot(y.T, z)


def filled(x):
    y, z = np.zeros_like(x), np.empty_like(x)
    y[:] = x * 2
    z[:] = y
    return np.dot(y.T, y), np.dot(y.T, z), np.dot(z.T, z)


def view_that_is_written(x):
    y = x * 2
    z = y[:]
    z += 1
    return np.dot(y.T, z), y


def written_from_the_other(x):
    y = np.empty_like(x)
    z = x * 2
    y[:] = z
    return np.dot(y.T, z)


def covariance(x):
    return np.cov(x, rowvar=False), np.corrcoef(x.T)


@pytest.mark.parametrize(
    "function",
    [copy_of_the_argument, copy_that_is_written, two_of_equal_bytes, transpose_and_itself, copy_of_a_result, filled, view_that_is_written,
     written_from_the_other, covariance],
)  # fmt: skip
def test_which_memory_a_product_reads(function):
    rng = np.random.default_rng(3)
    marked = fj.jit(function)
    for rows in (5, 64, 1000, 1001):
        x = rng.standard_normal((rows, 8))
        expected, got = function(x.copy()), marked(x.copy())
        pairs = zip(expected, got) if isinstance(expected, tuple) else [(expected, got)]
        assert [e.tobytes() == g.tobytes() for e, g in pairs].count(False) == 0
