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


def text_at_o1(function, *args):
    return "\n".join(fj.explain(fj.jit(function, jit_level="O1"))(*args).graphs)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows, inner", [(1, 1), (7, 33), (64, 64), (200, 3)])
def test_a_factor_multiplies_the_product_at_o1(dtype, rows, inner):
    def scaled(c, a, x, b, d):
        return c * a @ x, b @ (a * d)

    rng = np.random.default_rng(4)
    c, d = dtype(-3.7), dtype(0.2)
    a, x, b = (rng.standard_normal(shape).astype(dtype) for shape in ((rows, inner), (inner,), (rows,)))
    marked = fj.jit(scaled, jit_level="O1")
    for got, exact, magnitude, k in zip(
        marked(c, a, x, b, d),
        (c * a.astype(np.longdouble) @ x, b @ (a.astype(np.longdouble) * d)),
        (np.abs(c * a) @ np.abs(x), np.abs(b) @ np.abs(a * d)),
        (inner, rows),
    ):
        assert got.dtype == dtype and got.shape == exact.shape
        assert np.all(np.abs(got - exact) <= (k + 1) * np.finfo(dtype).eps * magnitude)
    assert "matmul %a, %x" in text_at_o1(scaled, c, a, x, b, d)


def test_what_is_not_finite_in_a_scaled_product_is_numpys():
    def scaled(c, a, x):
        return c * a @ x

    marked = fj.jit(scaled, jit_level="O1")
    a, x = np.ones((70, 50)), np.ones(50)
    for c in (np.float64("inf"), np.float64("nan"), np.float64(0.0), np.float64(1e308)):
        for value in (1.0, np.inf, np.nan, 1e10):
            a[3, 4] = value
            with np.errstate(all="ignore"):
                assert np.array_equal(marked(c, a, x), scaled(c, a, x), equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_matrix_and_its_transpose_have_a_symmetric_product_at_o1(dtype):
    def gram(x):
        return x.T @ x, x @ x.T, x @ x.T * 2 + 1, np.cov(x)

    rng = np.random.default_rng(5)
    for rows, calls in ((8, 0), (65, 0), (250, 0), (800, 1)):  # BLAS has x.T @ x of many columns
        x = rng.standard_normal((rows, rows)).astype(dtype)
        assert text_at_o1(gram, x).count("library_call") == calls
        for got, expected in zip(fj.jit(gram, jit_level="O1")(x), gram(x)):
            np.testing.assert_allclose(got, expected, rtol=0, atol=rows * 60 * np.finfo(dtype).eps)
            assert np.array_equal(got, got.T) or rows == 8


BATCHES = [
    ((3, 4, 5), (5, 2)), ((3, 4, 5), (3, 5, 2)), ((6, 5, 1, 7), (7, 7)), ((2, 1, 4, 5), (3, 5, 6)), ((0, 4, 5), (5, 2)), ((60, 2, 80), (80, 70)),
]  # fmt: skip
# BLAS is as fast for these.
LARGE_BATCHES = [((3, 4, 5), (5,)), ((5,), (3, 5, 2)), ((2, 3, 40, 33), (2, 3, 33, 50)), ((60, 1, 80), (60, 80, 170))]


@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("left, right", BATCHES + LARGE_BATCHES)
def test_batches_are_products_of_the_core_at_o1(left, right, dtype, layout):
    def function(a, b):
        return a @ b, np.matmul(a, b) + 1

    rng = np.random.default_rng(11)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in (left, right))
    a = {"C": a, "F": np.asfortranarray(a), "strided": np.repeat(a, 2, axis=-1)[..., ::2], "reversed": np.flip(a)}[layout]
    marked = fj.jit(function, jit_level="O1")
    expected = function(a, b)
    exact, magnitude = a.astype(np.longdouble) @ b, np.abs(a) @ np.abs(b)
    for got, usual in zip(marked(a, b), expected):
        assert got.dtype == usual.dtype and got.shape == usual.shape and got.strides == usual.strides
    bound = (a.shape[-1] + 1) * np.finfo(dtype).eps * magnitude
    assert np.all(np.abs(marked(a, b)[0] - exact) <= bound)
    if a.size:
        text = text_at_o1(function, a, b)
        is_own = (left, right) in BATCHES
        assert ("matmul" in text, "library_call" in text) == (is_own, not is_own)


def test_what_is_not_finite_in_a_batch_is_numpys():
    def function(a, b):
        return a @ b

    marked = fj.jit(function, jit_level="O1")
    for value in (np.inf, np.nan, 1e308):
        a, b = np.ones((3, 4, 5)), np.full((5, 2), 2.0)
        a[1, 2, 3] = value
        b[3, 1] = 0.0
        with np.errstate(all="ignore"):
            assert np.array_equal(marked(a, b), function(a, b), equal_nan=True)


def there_and_back(a, x, y, u, v):
    return (a @ x) @ a


def both(a, x, y, u, v):
    return y @ a, a @ x


def updates(a, x, y, u, v):
    u += a @ x
    v -= a.T @ y
    return u, v


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("function", [there_and_back, both, updates])
def test_products_with_one_large_matrix(function, dtype):
    rng = np.random.default_rng(12)
    a, x, y, u, v = (rng.standard_normal(shape).astype(dtype) for shape in ((4001, 807), 807, 4001, 4001, 807))
    seen, before = [], fj.config.num_threads
    try:
        for threads in (1, 2):
            fj.config.num_threads = threads
            marked = fj.jit(function, jit_level="O1", fullgraph=True)
            for _ in range(2):
                seen.append(marked(a, x, y, u.copy(), v.copy()))
        wide = [z.astype(np.longdouble) for z in (a, x, y, u, v)]
        magnitudes = [np.abs(z) for z in wide]
        for got, again, exact, magnitude in zip(*(r if isinstance(r, tuple) else (r,) for r in (seen[0], seen[-1], function(*wide), function(*magnitudes)))):
            assert got.tobytes() == again.tobytes()
            bound = np.abs(magnitude) + (2 * np.abs(v) if function is updates and len(got) == 807 else 0)
            assert np.all(np.abs(got - exact) <= 2 * (4001 + 807) * np.finfo(dtype).eps * bound)
        a[7, 5] = np.inf
        with np.errstate(all="ignore"):
            pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (marked(a, x, y, u.copy(), v.copy()), function(a, x, y, u.copy(), v.copy()))))
            assert all(np.array_equal(np.isfinite(got), np.isfinite(usual)) for got, usual in pairs)
    finally:
        fj.config.num_threads = before
