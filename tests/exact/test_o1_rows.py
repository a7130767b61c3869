"""Rows at O1: sums in blocks, divisors that a row shares, short steps: errors, NumPy's special values and warnings, and the number of threads."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import framejit as fj
from exact.test_bands import layer_norm, softmax

DTYPES = [np.float32, np.float64]


def standardised(x):
    return (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)


def moments(x):
    return x.mean(axis=-1), x.var(axis=-1), x.sum(), x.var()


def shares(x):
    return x / x.sum(), x / np.abs(x).max(axis=1, keepdims=True)


def down(x):
    return x.sum(axis=0), x.max(axis=0), x.min(axis=1), (x > 0).all(axis=1), (x > 0).sum(axis=0)


FUNCTIONS = [softmax, layer_norm, standardised, moments, shares, down]


def compiled(function):
    return fj.jit(lambda *args: function(*args), jit_level="O1", fullgraph=True)


def parts(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 1), (1, 7), (32, 32), (5, 33), (40, 300), (7, 2100), (900, 517), (3, 40_000), (6, 50, 70)], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_values(function, shape, dtype):
    if len(shape) > 2 and function in (layer_norm, shares, down):
        return
    x = np.random.default_rng(3).normal(1, 2, shape).astype(dtype)
    layouts = [x, np.asfortranarray(x), np.repeat(x, 2, axis=-1)[..., ::2], x[::-1, ..., ::-1]]
    f, before = compiled(function), fj.config.num_threads
    try:
        for y in layouts:
            seen = []
            with np.errstate(all="ignore"):
                exact, usual = (parts(function(z)) for z in (y.astype(np.longdouble), y))
                for threads in (1, 2):
                    fj.config.num_threads = threads
                    seen += [parts(f(y)), parts(f(y))]
            for result in seen:
                for ours, again, theirs, true in zip(result, seen[0], usual, exact, strict=True):
                    assert (ours.dtype, ours.shape, ours.strides) == (theirs.dtype, theirs.shape, theirs.strides)
                    assert np.array_equal(ours, again, equal_nan=True)
                    largest = np.max(np.abs(true), initial=0)
                    error, allowed = (np.max(np.abs(z - true), initial=0) for z in (ours + 0.0, theirs + 0.0))
                    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
                    if not np.isnan(error):
                        assert error <= 2 * allowed + 3 * largest * np.finfo(dtype).eps
    finally:
        fj.config.num_threads = before


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_are_as_exact(dtype):
    rng = np.random.default_rng(8)
    for function in (lambda x: x.sum(axis=-1), lambda x: x.var(axis=-1), lambda x: x.mean(axis=-1)):
        f = compiled(function)
        for n in (65, 128, 300, 1024, 2500, 20_000):
            x = rng.normal(1, 1, (max(100, 400_000 // n), n)).astype(dtype)
            exact = function(x.astype(np.longdouble))
            ours, theirs = (np.sqrt(np.mean(np.square(z - exact))) for z in (f(x), function(x)))
            assert ours <= 1.3 * theirs, n
    x = np.full(10_000_001, 0.1, dtype)
    assert abs(float(compiled(np.sum)(x)) / (float(x[0]) * len(x)) - 1) < 4 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients(dtype):
    rng = np.random.default_rng(9)
    x = (rng.random((60, 70)) * 10.0 ** rng.integers(-20, 20, (60, 70))).astype(dtype)
    f = compiled(lambda x, y: x / y)
    for y in (rng.random((60, 1)).astype(dtype) + 1, dtype(7.3), dtype(-3e-5), np.full((60, 1), 3e-30, dtype)):
        with np.errstate(under="ignore", over="ignore"):
            exact, theirs = x.astype(np.longdouble) / y, x / y
            errors = np.abs(f(x, y) - exact) / np.spacing(np.abs(theirs))
        assert np.max(errors[np.isfinite(theirs)]) <= 1.5
    assert np.any(f(x, dtype(7.3)) != x / dtype(7.3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_divisors(dtype):
    info = np.finfo(dtype)
    values = np.array([0, -0.0, 1, -3, np.inf, -np.inf, np.nan, info.tiny, -info.tiny / 8, info.max, info.max / 4, 0.3], dtype)
    x, y = np.tile(values, (len(values), 9)), values[:, None].copy()
    f = compiled(lambda x, y: x / y)
    with np.errstate(all="ignore"):
        f(x, y)
        ours, theirs = f(x, y), x / y
        near = np.isfinite(theirs) & (np.abs(ours - theirs) <= np.spacing(np.abs(theirs)))
    assert np.all(near | (np.isnan(ours) & np.isnan(theirs)) | (ours == theirs))
    assert np.array_equal(np.signbit(ours[~np.isnan(ours)]), np.signbit(theirs[~np.isnan(ours)]))
    for row in range(len(values)):
        said = []
        for g in (f, lambda x, y: x / y):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                g(x[row : row + 1], y[row])
            said.append({str(w.message) for w in caught})
        assert said[0] == said[1], values[row]


def test_products_of_half_are_rounded():
    a, b, c = np.random.default_rng(4).normal(size=(3, 100)).astype(np.float16)
    for function in (lambda a, b, c: a * b + c, lambda a, b, c: c - a * a, lambda a, b, c: (a * a).reshape(-1, 1).sum(axis=1)):
        f = compiled(function)
        for _ in range(2):
            assert np.array_equal(f(a, b, c), function(a, b, c))
