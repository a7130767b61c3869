"""Running sums and the like, places of extremes, and elements chosen by arrays of integers: loops of our own behind a library call, equal to eager NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import framejit
from exact.same import assert_same
from exact.shapes import SHAPE_CLASSES, special_values

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
ERRSTATES = [None, {"all": "ignore"}, {"over": "raise", "invalid": "raise"}]


def steps_of(function, *args):
    """The listing of what a call runs, which is one graph."""
    report = framejit.explain(function)(*args)
    assert not report.breaks, report
    marked = framejit.jit(function)
    marked(*args)
    return marked.asm()


SCANS = {
    "sum": lambda x: np.cumsum(x),
    "sum, last axis": lambda x: x.cumsum(axis=-1),
    "sum, first axis": lambda x: np.cumsum(x, axis=0),
    "product": lambda x: np.cumprod(x),
    "product, first axis": lambda x: x.cumprod(0),
    "add": lambda x: np.add.accumulate(x),
    "add, last axis": lambda x: np.add.accumulate(x, axis=-1),
    "multiply": lambda x: np.multiply.accumulate(x),
    "minimum": lambda x: (np.minimum.accumulate(x), np.minimum.accumulate(x, axis=-1)),
    "maximum": lambda x: (np.maximum.accumulate(x), np.maximum.accumulate(x, -1)),
    "other ufuncs": lambda x: (np.fmax.accumulate(x), np.logical_or.accumulate(x)),
    "in float64": lambda x: (np.cumsum(x, dtype=np.float64), np.cumprod(x, 0, float), np.add.accumulate(x, dtype="float64")),
    "in int64": lambda x: (np.cumsum(x, dtype=np.int64), x.cumprod(dtype=np.int64), np.add.accumulate(x, dtype=np.int64)),
    "in its own dtype": lambda x: (np.cumsum(x, dtype=x.dtype), np.add.accumulate(x, dtype=x.dtype)),
    "in an expression": lambda x: np.cumsum(x * 2 + 1)[::-1] * 3,
    "with out": lambda x: np.cumsum(x, out=np.empty(x.size, x.dtype)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SCANS)
def test_scans(name, dtype):
    for shape_class, make in SHAPE_CLASSES.items():
        for seed, errstate in enumerate(ERRSTATES):
            rng = np.random.default_rng(seed)
            fill = (lambda n: special_values(rng, dtype, n)) if seed else (lambda n: (np.arange(n) % 7).astype(dtype))
            args = make(fill, 1)
            assert_same(SCANS[name], lambda: args, errstate, calls=2)


@pytest.mark.parametrize("dtype", ["int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (3, 2000), (2000, 3), (7, 9), (4, 8, 1030), (6, 1, 12)])
@pytest.mark.parametrize("layout", [lambda x: x, np.asfortranarray, lambda x: x[..., ::-1], lambda x: x.swapaxes(0, -1), lambda x: x[::-1, ::2]])
def test_scans_of_lines_beside_each_other(dtype, shape, layout):
    x = layout((np.arange(np.prod(shape)) % 23 * 0.37).reshape(shape).astype(dtype))
    for axis in (None, *range(x.ndim)):
        assert_same(lambda x: (np.cumsum(x, axis), np.cumprod(x / 8, axis), np.maximum.accumulate(x, axis or 0)), lambda: (x,), {"all": "ignore"}, calls=2)


def test_scans_are_loops_of_ours():
    x = np.arange(24.0).reshape(4, 6)
    for function in (np.cumsum, lambda x: x.cumprod(axis=0), lambda x: np.maximum.accumulate(x, axis=1), lambda x: np.cumsum(x > 3), lambda x: np.add.accumulate(x + 1j)):
        assert "scan" in steps_of(lambda x: function(x), x)
    assert "scan" not in steps_of(lambda x: np.fmin.accumulate(x), x)


def test_an_overflow_of_a_scan_is_warned_of_where_it_happens():
    def function(x, y):
        z = x + 1
        return np.cumsum(y) * z

    big = np.full(9, 1e308)
    for errstate in ERRSTATES:
        assert_same(function, lambda: (big, big), errstate)
        assert_same(function, lambda: (big, np.ones(9)), errstate)
    marked = framejit.jit(function)
    with np.errstate(over="ignore"):
        assert np.isinf(marked(big, big)[-1])


INDICES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", INDICES)
def test_gathers_of_a_line(dtype, index):
    rng = np.random.default_rng(7)
    for n, m in [(1, 1), (1, 9), (50, 0), (50, 1), (50, 33), (100, 1500)]:
        x = special_values(rng, dtype, n)
        i = rng.integers(0, n, m).astype(index)
        both = i if index[0] == "u" else np.where(rng.random(m) < 0.5, i.astype("int64") - n, i).astype(index)
        for of in (x, x[::-1], np.repeat(x, 3)[::3], np.broadcast_to(x[:1], n)):
            for at in (i, both, i[::-1], np.repeat(both, 2)[::2], i.reshape(1, -1), both.reshape(-1, 1)):
                assert_same(lambda x, i: (x[i], x.take(i), np.take(x, i, axis=0)), lambda: (of, at), calls=2)


@pytest.mark.parametrize("wrong", [[5], [0, 1, -6], [0, 4, 5, 1], [-1, -2, 2**62], [-(2**63)]])
def test_an_index_out_of_bounds(wrong):
    x = np.arange(5.0)
    m = np.arange(20.0).reshape(4, 5)
    good, bad = np.arange(len(wrong)) % 3, np.array(wrong)
    functions = [
        lambda x, m, i, j: x[j],
        lambda x, m, i, j: (x + 1).take(j) * 2,
        lambda x, m, i, j: np.take(m, j, axis=1),
        lambda x, m, i, j: m[i, j],
        lambda x, m, i, j: m[:, j].sum(),
        lambda x, m, i, j: m.T[j],
        lambda x, m, i, j: m[j],
    ]
    for function in functions:
        marked = assert_same(function, lambda: (x, m, good, good))
        for which in (bad, good, bad):
            try:
                expected = function(x, m, good, which)
            except IndexError as error:
                with pytest.raises(IndexError) as raised:
                    marked(x, m, good, which)
                assert str(raised.value) == str(error)
            else:
                np.testing.assert_array_equal(marked(x, m, good, which), expected)


SHAPES = [(4, 5), (5, 4, 3), (1, 6), (6, 1), (3, 4, 2, 5)]
LAYOUTS = [lambda x: x, np.asfortranarray, lambda x: x[::-1], lambda x: x[..., ::2], lambda x: x.swapaxes(0, -1)]


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64", "complex128"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gathers_of_an_axis(dtype, shape, layout):
    rng = np.random.default_rng(3)
    x = layout(special_values(rng, dtype, int(np.prod(shape))).reshape(shape))
    for axis in range(x.ndim):
        n = x.shape[axis]
        for of in (rng.integers(-n, n, 7), rng.integers(-n, n, (2, 3)), np.asfortranarray(rng.integers(-n, n, (3, 2))), rng.integers(0, n, 2100)):
            assert_same(lambda x, i: (np.take(x, i, axis), x.take(i, axis=axis - x.ndim)), lambda: (x, of), calls=2)
    first, last = (rng.integers(-n, n, 8) for n in (x.shape[0], x.shape[-1]))
    assert_same(lambda x, i: (x[i], x[i, :], x[i, ...], np.take(x, i, 0)), lambda: (x, first), calls=2)
    assert_same(lambda x, i: (x[..., i], x[:, i % x.shape[1]], x[(slice(None),) * (x.ndim - 1) + (i,)]), lambda: (x, last), calls=2)
    second = rng.integers(-x.shape[1], x.shape[1], 8)
    assert_same(lambda x, i, j: (x[i, j], x[i[:4], j[4:]], x[i.reshape(2, 4), j[:4]], x[i[:, None], j]), lambda: (x, first, second), calls=2)


@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_take_along_axis(dtype):
    rng = np.random.default_rng(2)
    for shape in [(4, 5), (4, 1), (1, 5), (3, 4, 2), (60, 700)]:
        x = special_values(rng, dtype, int(np.prod(shape))).reshape(shape)
        for axis in range(x.ndim):
            for count in (1, 3, x.shape[axis]):
                at = list(shape)
                at[axis] = count
                i = rng.integers(-x.shape[axis], x.shape[axis], at)
                assert_same(lambda x, i: (np.take_along_axis(x, i, axis=axis), np.take_along_axis(x + x, i, axis) - x.max()), lambda: (x, i), {"all": "ignore"}, calls=2)


def test_gathers_are_loops_of_ours():
    x, i = np.arange(40.0).reshape(5, 8), np.array([3, 0, -1])
    for function in (lambda x, i: x[i], lambda x, i: x[i, i + 1], lambda x, i: x.take(i), lambda x, i: np.take(x, i, axis=1), lambda x, i: x[:, i], lambda x, i: x.T[i, :] + 1, lambda x, i: np.take_along_axis(x, np.argsort(x, axis=1), 1)):
        assert "gather" in steps_of(function, x, i)
    assert "gather" not in steps_of(lambda x, i: np.take(x, i, mode="clip"), x, i)


PLACES = {
    "all": lambda x: (x.argmax(), np.argmin(x), x.ravel().argmin()),
    "last axis": lambda x: (x.argmax(axis=-1), np.argmin(x, -1)),
    "first axis": lambda x: (x.argmin(0), np.argmax(x, axis=0)),
    "of an expression": lambda x: (x + x).argmax() + 1,
    "kept": lambda x: np.argmax(x, axis=-1, keepdims=True),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PLACES)
def test_places_of_extremes(name, dtype):
    for shape_class, make in SHAPE_CLASSES.items():
        for seed in range(3):
            rng = np.random.default_rng(seed)
            fill = (lambda n: special_values(rng, dtype, n)) if seed else (lambda n: (np.arange(n) % 7 * 5 % 7).astype(dtype))
            args = make(fill, 1)
            assert_same(PLACES[name], lambda: args, {"all": "ignore"}, calls=2)


def test_places_of_extremes_are_found_by_a_loop_of_ours():
    x = np.arange(24.0).reshape(4, 6)
    assert "find" in steps_of(lambda x: x.argmax(), x)
    assert "find" in steps_of(lambda x: np.argmin(x + 1, axis=0), x)
    marked = framejit.jit(lambda x: (x.argmax(), x.argmin()))
    for n in (5, 399, 400, 401, 3000):
        for places in ([], [n - 1], [n // 2, n - 1]):
            y = np.cos(np.arange(n))
            y[places] = np.nan
            assert marked(y) == (y.argmax(), y.argmin())


def test_sizes_that_vary():
    marked = framejit.jit(lambda x, i: np.cumsum(x[i] * 2))
    rng = np.random.default_rng(0)
    for n, m in [(10, 5), (30, 50), (7, 700), (3000, 2), (40, 41)]:
        x, i = rng.random(n), rng.integers(-n, n, m)
        np.testing.assert_array_equal(marked(x, i), np.cumsum(x[i] * 2))
    assert len(marked.cache_entries()) <= 3


def test_extremes_of_zeros():
    """Which of two zeros is the larger one goes by layout and length."""
    random = np.random.default_rng(9)
    for dtype in ("f4", "f8"):
        for shape in ((33,), (2, 7), (40, 5)):
            for _ in range(10):
                x = random.choice(np.array([0.0, -0.0, 1.0, -1.0]), shape).astype(dtype)
                assert_same(lambda x: (np.maximum.accumulate(x), np.minimum.accumulate(x, axis=-1)), lambda x=x: (x,), calls=1)


def test_a_cast_beside_a_write():
    """What a later part reads is there, wherever parts that may warn have been moved to."""

    def program(a, b):
        c = np.tile(a, 2)
        b += b + 0.5
        return np.fmax.outer(c, b), b

    for n in (1, 3):
        assert_same(program, lambda n=n: (np.full(n, 1.5, "f2"), np.full(n, 2 + 1j)))
