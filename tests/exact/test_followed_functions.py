"""Functions of NumPy's that are followed where that is possible, and called where it is not: the results, warnings and errors are NumPy's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import framejit as fj

NAN, INF = float("nan"), float("inf")
SPECIAL = [0.0, -0.0, NAN, INF, -INF, 1.0, 1 + 1e-9, 1e-310, 1.7e308, -1.7e308]
DTYPES = ["f8", "f4", "f2", "i8", "i4", "u1", "?", "c16", "c8"]
SHAPES = [(), (0,), (1,), (9,), (40,), (0, 3), (3, 5), (16, 17), (2, 3, 4)]


def numbers(shape, dtype, seed=1):
    x = np.random.default_rng(seed).normal(size=shape) * 3
    flat = np.asarray(x).reshape(-1)
    if dtype[0] in "fc":
        flat[: len(SPECIAL)] = SPECIAL[: flat.size]
    with np.errstate(all="ignore"):
        return np.asarray(flat.reshape(shape) if dtype[0] in "fc" else np.abs(x)).astype(dtype)


def layouts(x):
    yield x
    if x.ndim:
        yield np.asfortranarray(x)
        yield np.repeat(x, 2, axis=-1)[..., ::2]
        yield x[::-1]


def bits(value):
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    if not isinstance(value, (np.ndarray, np.generic)):
        return type(value), repr(value)
    known = np.array(value)
    if known.dtype.kind in "fc":
        known = np.where(np.isnan(known), NAN, known)  # which NaN comes of two is not promised
    owns = value.flags.owndata if isinstance(value, np.ndarray) else None
    return type(value), value.dtype, np.shape(value), getattr(value, "strides", None), owns, known.tobytes()


def outcome(function, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = bits(function(*args))
        except Exception as error:
            result = type(error), str(error)
    return result, [(w.category, str(w.message), w.filename, w.lineno) for w in caught]


def check(function, *args):
    marked = fj.jit(function)
    for _ in range(2):
        assert outcome(marked, *args) == outcome(function, *args), [getattr(a, "dtype", a) for a in args]
    return marked


def library_calls(marked):
    return sum(entry["library_calls"] for entry in marked._report()["entries"])


OF_ONE = {
    "nan_to_num": lambda x: np.nan_to_num(x),
    "nan_to_num with numbers": lambda x: np.nan_to_num(x, nan=2, posinf=7.5, neginf=-1),
    "nan_to_num in place": lambda x: (np.nan_to_num(x, copy=False), x),
    "nansum": lambda x: np.nansum(x),
    "nansum along an axis": lambda x: np.nansum(x, axis=0),
    "nanprod": lambda x: np.nanprod(x, axis=-1),
    "nanmean": lambda x: np.nanmean(x),
    "nanmean along an axis": lambda x: np.nanmean(x, axis=-1),
    "nanmean with a dtype": lambda x: np.nanmean(x, dtype="f8"),
    "nanvar": lambda x: np.nanvar(x),
    "nanvar along an axis": lambda x: np.nanvar(x, axis=-1, ddof=1),
    "nanvar that keeps its axes": lambda x: np.nanvar(x, axis=0, keepdims=True),
    "nanstd": lambda x: np.nanstd(x),
    "nanstd along axes": lambda x: np.nanstd(x, axis=(0, 1)),
    "nanstd of more than there are": lambda x: np.nanstd(x, ddof=9),
    "select": lambda x: np.select([x > 1, x < -1], [x * 2, x]),
    "select with a default": lambda x: np.select([x > 1, x == 0, x < 2], [x, -x, x + x], 0.5),
    "select with a large default": lambda x: np.select([x > 1], [x], 300),
    "select of other shapes": lambda x: np.select([x > 1, x[:1] > 0], [x, x[:1]]),
    "select of other dtypes": lambda x: np.select([x > 1, x < 0], [x, x.astype("f4")]),
    "select of numbers": lambda x: np.select([x > 1, x < 0], [1, 2], 3),
    "select of nothing": lambda x: np.select([], [x]),
    "select of too few": lambda x: np.select([x > 1, x > 2], [x]),
    "select by numbers": lambda x: np.select([x, x], [x, x]),
    "block": lambda x: np.block([[x, x * 2], [x + 1, x]]),
    "block of one row": lambda x: np.block([x, x * 2]),
    "block of other shapes": lambda x: np.block([[x, x[:1]]]),
    "block of other dtypes": lambda x: np.block([[x, x == x]]),
    "block of rows without an end": lambda x: np.block([[x], x]),
    "insert": lambda x: np.insert(x, 1, 7, axis=0),
    "insert in front of the end": lambda x: np.insert(x, -1, 2.5, axis=-1),
    "insert into the flat array": lambda x: np.insert(x, 0, 7),
    "insert behind the end": lambda x: np.insert(x, 12, 7),
    "insert an array": lambda x: np.insert(x.reshape(-1), 2, x.reshape(-1)[:3]),
    "insert a row": lambda x: np.insert(x, 0, x[0], axis=0),
    "insert in several places": lambda x: np.insert(x, [0, 1], 7),
    "unwrap": lambda x: np.unwrap(x),
    "unwrap along an axis": lambda x: np.unwrap(x * 4, axis=0),
    "unwrap with a period": lambda x: np.unwrap(x, period=2.5),
    "unwrap with a whole period": lambda x: np.unwrap(x, period=3),
    "unwrap where it leaps": lambda x: np.unwrap(x * np.pi, discont=4.0),
    "median": lambda x: np.median(x),
    "median along an axis": lambda x: np.median(x, axis=-1),
    "median along the first axis": lambda x: np.median(x, axis=0),
    "median along axes": lambda x: np.median(x, axis=(0, 1), keepdims=True),
    "percentile": lambda x: np.percentile(x, 30),
    "percentiles": lambda x: np.percentile(x, [25, 50.0, 75]),
    "percentiles along an axis": lambda x: np.percentile(x, (0, 99.5), axis=-1),
    "percentile of all": lambda x: np.percentile(x, 100),
    "percentile beyond all": lambda x: np.percentile(x, 101),
    "percentile by another method": lambda x: np.percentile(x, 40, method="nearest"),
    "percentile of no number": lambda x: np.percentile(x, []),
    "quantile": lambda x: np.quantile(x, 0.9, axis=0),
    "quantile along the last axis": lambda x: np.quantile(x, 0.5, axis=-1),
    "quantile nearer to the next number": lambda x: np.quantile(x, 0.999, axis=1),
    "quantile of a whole number": lambda x: np.quantile(x, 0),
    "quantiles of NumPy's": lambda x: np.quantile(x, np.array([0.1, 0.9])),
    "nanmax": lambda x: np.nanmax(x),
    "nanmin along an axis": lambda x: np.nanmin(x, axis=0),
    "nancumsum": lambda x: np.nancumsum(x),
    "tile": lambda x: np.tile(x, (2, 3)),
    "tile by a number": lambda x: np.tile(x, 2),
    "tile by nothing": lambda x: np.tile(x, 0),
    "trace": lambda x: np.trace(x),
    "trace beside the diagonal": lambda x: np.trace(x, 1),
    "tril": lambda x: np.tril(x),
    "triu": lambda x: np.triu(x, -1),
    "ediff1d": lambda x: np.ediff1d(x),
    "delete": lambda x: np.delete(x, 0, 0),
    "delete from the flat array": lambda x: np.delete(x, -1),
    "isclose": lambda x: np.isclose(x, x * 1),
    "isclose to a number": lambda x: np.isclose(x, 1.0),
    "isclose as numbers that are NaN": lambda x: np.isclose(x, x, equal_nan=True),
    "isclose with tolerances": lambda x: np.isclose(x, x[::-1], rtol=0.5, atol=1),
    "allclose": lambda x: np.allclose(x, x * 1),
    "allclose of other shapes": lambda x: np.allclose(x, x[:1]),
    "array_equal": lambda x: np.array_equal(x, x.copy()),
    "isin": lambda x: np.isin(x, [1, 2]),
    "isin of a number": lambda x: np.isin(x, 2),
    "kron": lambda x: np.kron(x, x[:2]),
    "kron of a vector": lambda x: np.kron(x.reshape(-1)[:3], x),
    "polyval": lambda x: np.polyval([1, 2.5, 3], x),
    "i0": lambda x: np.i0(x),
}


@pytest.mark.parametrize("function", OF_ONE.values(), ids=OF_ONE)
def test_of_arrays(function):
    for shape in SHAPES:
        for dtype in DTYPES:
            for x in layouts(numbers(shape, dtype)):
                assert outcome(fj.jit(function), x.copy("K")) == outcome(function, x.copy("K")), (shape, dtype, x.strides)
    check(function, np.array([1, None], object))


OF_NUMBERS = {
    "eye": lambda n: np.eye(n),
    "eye of other kinds": lambda n: (np.eye(n, 4, 1), np.eye(n, k=-2, dtype="i2"), np.eye(n, dtype=bool)),
    "identity": lambda n: np.identity(n),
    "tri": lambda n: np.tri(n),
    "tri of other kinds": lambda n: (np.tri(n, 4, 1), np.tri(n, k=-2, dtype="u1")),
    "linspace": lambda n: np.linspace(n, 9),
    "linspace without the end": lambda n: np.linspace(-1.5, n, 7, endpoint=False),
    "logspace": lambda n: np.logspace(0, n, 5),
}


@pytest.mark.parametrize("function", OF_NUMBERS.values(), ids=OF_NUMBERS)
def test_of_numbers(function):
    for n in (0, 1, 2, 7, -1, True, 2.5, np.int64(3), "text", None, 2**63, 10**20):
        check(function, n)


TYPICAL = ["nan_to_num", "nansum along an axis", "nanmean along an axis", "nanvar", "nanvar along an axis", "nanstd", "select", "select with a default"]
TYPICAL += ["block", "insert", "tile", "trace", "ediff1d", "delete", "array_equal", "isin", "polyval", "kron"]
TYPICAL += ["isclose", "isclose to a number", "allclose"] if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else []


@pytest.mark.parametrize("name", TYPICAL)
def test_typical_calls_are_followed(name):
    x = np.random.default_rng(1).normal(size=(8, 9))
    assert library_calls(check(OF_ONE[name], x)) == 0


@pytest.mark.parametrize("name", ["median", "median along an axis", "percentiles", "percentiles along an axis", "quantile"])
def test_only_the_partition_of_quantiles_is_called(name):
    x = np.random.default_rng(1).normal(size=(8, 9))
    marked = check(OF_ONE[name], x)
    (entry,) = marked._report()["entries"]
    assert entry["library_calls"] == 1 and "library_call" in entry["graph"]
    x[3, 4] = NAN
    assert outcome(marked, x) == outcome(OF_ONE[name], x)


# NumPy computes from both sides, whichever is nearer, and warns of both.
@pytest.mark.parametrize("numbers", [[-INF, INF], [-INF, 1.0, INF], [-1.7e308, 1.7e308], [0.0, -0.0, -0.0, 0.0]])
@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.9, [0.2, 0.8, 0.2]])
@pytest.mark.parametrize("mode", ["warn", "raise", "ignore"])
def test_quantiles_of_numbers_that_are_not_finite(numbers, q, mode):
    marked = fj.jit(function := lambda x: (np.quantile(x, q), np.quantile(x.reshape(-1, 1), q, axis=0)))
    for _ in range(2):
        with np.errstate(all=mode):
            assert outcome(marked, np.array(numbers)) == outcome(function, np.array(numbers))


@pytest.mark.parametrize("name", [*(name for name in TYPICAL if name != "isin"), "median", "percentiles", "quantile", "unwrap"])
def test_arrays_of_many_sizes_share_code(name):
    marked = fj.jit(OF_ONE[name])
    for n in range(5, 40):
        x = np.random.default_rng(n).normal(size=(n, n + 1))
        assert outcome(marked, x) == outcome(OF_ONE[name], x), n
    assert len(marked._report()["entries"]) < 9 and not [r for r in marked._report()["recompiles"] if "limit" in str(r)]


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("ends", [(0, 1), (2.5, -1e9), (-3, 4.0), (0.0, 1e-279), (5.0, 5.0), (0.0, 5e-324), (-1e300, 1e300)])
def test_numbers_at_equal_distances_for_many_counts(ends, endpoint):
    marked = fj.jit(function := lambda x: (np.linspace(*ends, len(x), endpoint=endpoint), np.logspace(0, 2, x.size)))
    is_followed = abs(ends[1] - ends[0]) > 1e-280 and abs(ends[0]) < 1e300  # else a call, which is made for each count
    for n in (*range(2, 30 if is_followed else 6), 1, 0, 1000):
        assert outcome(marked, np.zeros(n)) == outcome(function, np.zeros(n)), n
    if is_followed:
        assert len(marked._report()["entries"]) < 6


@pytest.mark.parametrize("name", ["eye", "identity", "tri"])
def test_typical_arrays_are_followed(name):
    assert library_calls(check(OF_NUMBERS[name], 5)) == 0


def test_what_warns_is_called():
    """NumPy warns of axes of NaN alone: the calls in which it does are NumPy's."""

    def means(x):
        return np.nanmean(x, axis=0) + np.nanmax(x, axis=0)

    marked = fj.jit(means)
    for given in ([[1.0, 2.0], [3.0, NAN]], [[1.0, NAN], [3.0, NAN]], [[1.0, 2.0], [3.0, 4.0]]):
        x = np.array(given)
        assert outcome(marked, x) == outcome(means, x)


def test_a_call_that_cannot_be_followed_is_one_call_in_the_graph():
    def within(x):
        y = x * 2
        return np.isclose(y, x, rtol=np.float64(0.1)) & (y > 0), np.pad(y, 1, "mean") + 1

    marked = check(within, np.random.default_rng(1).normal(size=(4, 5)))
    (entry,) = marked._report()["entries"]
    assert entry["kind"] == "function" and entry["library_calls"] == 2
