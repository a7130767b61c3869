"""Products of matrices and vectors: NumPy's own at O0; at O1 in the graph, with an error near NumPy's, its exceptions and its warnings."""

from __future__ import annotations

import numpy as np
import pytest
from exact.same import assert_same, assert_same_seen, observe

import framejit as fj


def at(x, y):
    return x @ y


def matmul(x, y):
    return np.matmul(x, y)


def dot(x, y):
    return np.dot(x, y)


def method(x, y):
    return x.dot(y)


FORMS = [at, matmul, dot, method]
SHAPES = [
    ((1, 1), (1, 1)),
    ((2, 3), (3, 4)),
    ((17, 5), (5, 33)),
    ((64, 300), (300, 40)),
    ((450, 70), (70, 20)),
    ((7, 0), (0, 3)),
    ((0, 4), (4, 3)),
    ((3, 4), (4, 0)),
    ((33, 40), (40,)),
    ((40,), (40, 9)),
    ((300,), (300,)),
    ((0,), (0,)),
    ((3, 0), (0,)),
    ((0,), (0, 2)),
    ((1,), (1, 5)),
]


def placed(array: np.ndarray, how: str) -> np.ndarray:
    """The same elements in memory of another order."""
    if how == "fortran":
        return np.asfortranarray(array)
    if how == "strided":
        room = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
        room[tuple(slice(None, None, 2) for _ in array.shape)] = array
        return room[tuple(slice(None, None, 2) for _ in array.shape)]
    if how == "reversed":
        back = tuple(slice(None, None, -1) for _ in array.shape)
        return np.ascontiguousarray(array[back])[back]
    if how == "rows":
        return np.ascontiguousarray(array[::-1])[::-1]
    return np.ascontiguousarray(array)


def check(x, y, function=at, marked=None):
    """Twice NumPy's own error and two units in the last place of the largest sum of magnitudes are allowed."""
    marked = marked or fj.jit(function, jit_level="O1", fullgraph=True)
    expected = function(x, y)
    wide = np.matmul(x.astype(np.longdouble), y.astype(np.longdouble))
    magnitude = np.matmul(np.abs(x).astype(np.longdouble), np.abs(y).astype(np.longdouble))
    unit = np.finfo(expected.dtype).eps
    for _ in range(2):
        found = marked(x, y)
        assert type(found) is type(expected)
        assert (found.dtype, found.shape, found.strides) == (expected.dtype, expected.shape, expected.strides)
        if isinstance(found, np.ndarray):
            assert found.flags.owndata and found.base is None and found.flags.writeable
        error, own = np.abs(found - wide), np.abs(expected - wide)
        assert np.all(error <= 2 * np.max(own, initial=0) + 2 * unit * magnitude), (x.shape, y.shape)
    return marked


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", FORMS)
def test_values(function, dtype):
    rng = np.random.default_rng(7)
    for a, b in SHAPES:
        x, y = rng.normal(size=a).astype(dtype), rng.normal(size=b).astype(dtype)
        marked = check(x, y, function)
        assert marked.graphs().count("graph @") == 1 and " = matmul " in marked.graphs(), marked.graphs()
        assert marked.cache_entries()[0]["hits"] == 2


@pytest.mark.parametrize("how", ["fortran", "strided", "reversed", "rows"])
def test_memory_orders(how):
    rng = np.random.default_rng(8)
    for dtype in (np.float32, np.float64):
        for a, b in SHAPES:
            x, y = rng.normal(size=a).astype(dtype), rng.normal(size=b).astype(dtype)
            check(placed(x, how), y)
            check(x, placed(y, how))
            check(placed(x, how), placed(y, how))


def test_mixed_dtypes_and_repeated_rows():
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=(9, 6)), rng.normal(size=(6, 8))
    for other in (np.float32, np.int32, np.int64, np.uint8, np.bool_):
        check(x, (y * 3).astype(other))
        check((x * 3).astype(other), y)
    check(np.broadcast_to(x[0], (5, 6)), y)
    check(np.broadcast_to(x[:, :1], (9, 6)), y)


def test_lengths_become_symbolic():
    rng = np.random.default_rng(10)
    marked = fj.jit(at, jit_level="O1", fullgraph=True)
    for m, k, n in [(3, 4, 5), (6, 4, 5), (6, 7, 5), (6, 7, 9), (8, 9, 10), (20, 30, 40)]:
        check(rng.normal(size=(m, k)), rng.normal(size=(k, n)), marked=marked)
    assert len(marked.cache_entries()) <= 4
    with pytest.raises(fj.GraphBreakError, match="mismatch of shapes"):
        marked(np.zeros((20, 30)), np.zeros((31, 40)))


def test_inside_a_larger_graph():
    def layer(x, w, b):
        return np.maximum(x @ w + b, 0.0) @ w.T

    rng = np.random.default_rng(11)
    x, w, b = rng.normal(size=(13, 6)), rng.normal(size=(6, 9)), rng.normal(size=9)
    marked = fj.jit(layer, jit_level="O1", fullgraph=True)
    for _ in range(2):
        np.testing.assert_allclose(marked(x, w, b), layer(x, w, b), rtol=1e-13, atol=1e-13)
    assert marked.graphs().count(" = matmul ") == 2
    square = fj.jit(lambda x: x @ x.T, jit_level="O1")(rng.normal(size=(70, 300)))
    assert np.array_equal(square, square.T)


def test_between_writes_and_of_views():
    def steps(x, y):
        x += 1
        first = x[1:, ::2] @ y[:3]
        x[:, 0] = 0
        second = x[:, 1:4] @ y[::-1][:3]
        y *= 2
        return first, second, second[1:]

    rng = np.random.default_rng(15)
    x, y = rng.integers(-9, 9, (5, 6)).astype(float), rng.integers(-9, 9, (4, 7)).astype(float)
    assert_same(steps, lambda: (x.copy(), y.copy()), jit_level="O1", fullgraph=True)


def test_is_a_host_call_at_o0():
    rng = np.random.default_rng(12)
    for function in FORMS:
        x, y = rng.normal(size=(19, 24)), rng.normal(size=(24, 31))
        marked = assert_same(lambda x, y: function(x + 0.5, y) * 2, lambda: (x, y))
        assert " matmul " not in marked.graphs() and marked.graphs().count("host_call") == marked.graphs().count("graph @") == 1


@pytest.mark.parametrize("function", FORMS)
@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 3), (4, 3)), ((2, 3), (2,)), ((3,), (4,)), ((3,), (2, 3)), ((1, 3), (1, 4)), ((2, 1), (3, 4)), ((2,), (1,))],
)
def test_mismatch_is_numpys_error(function, a, b):
    x, y = np.ones(a), np.ones(b)
    marked = fj.jit(function, jit_level="O1")
    for _ in range(2):
        expected, actual = observe(function, (x, y)), observe(marked, (x, y))
        assert expected.error and expected.error[0] is ValueError
        assert_same_seen(expected, actual, str((a, b)))


def test_other_operands_are_numpys():
    x, y = np.ones((3, 4)), np.ones((4, 2))
    out = np.zeros((3, 2))
    for function, args in [
        (at, (np.ones((2, 3, 4)), y)),
        (at, (x.astype(np.int64), y.astype(np.int64))),
        (at, (x.astype(np.float16), y.astype(np.float16))),
        (at, (x.astype(complex), y)),
        (at, (x, 2.0)),
        (dot, (x, 2.0)),
        (dot, (x, np.float64(2))),
        (dot, (np.ones((2, 3, 4)), y)),
        (lambda x, y: np.matmul(x, y, out=out), (x, y)),
        (lambda x, y: np.dot(x, y, out), (x, y)),
        (lambda x, y: np.matmul(x, y, dtype=np.float32), (x, y)),
        (lambda x, y: np.matmul(a=x, b=y), (x, y)),
        (lambda x, y: np.dot(b=y, a=x), (x, y)),
        (lambda x, y: x.dot(b=y), (x, y)),
        (lambda x, y: x.__imatmul__(y @ y.T), (x.copy(), y)),
    ]:
        assert_same(function, lambda: args, jit_level="O1")

    def in_place(x, y):
        x @= y
        return x

    assert_same(in_place, lambda: (x.copy(), np.eye(4) * 2), jit_level="O1")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_warnings_are_numpys(dtype):
    """Values whose order of summation does not matter: infinities, a NaN made of them, an overflow of one product or sum."""
    big, inf, nan = np.finfo(dtype).max, np.inf, np.nan
    rows = [
        ([inf, 1.0], [0.0, 1.0]),
        ([inf, inf], [1.0, -1.0]),
        ([big, 1.0], [2.0, 1.0]),
        ([big, big], [1.0, 1.0]),
        ([nan, 1.0], [1.0, 1.0]),
        ([inf, 1.0], [1.0, 1.0]),
        ([inf, nan], [1.0, 1.0]),
        ([np.finfo(dtype).tiny, 0.0], [0.25, 0.0]),
    ]
    for left, right in rows:
        for m, n in [(1, 1), (3, 5), (13, 40)]:
            x = np.array([left] * m, dtype)
            y = np.array([right] * n, dtype).T.copy()
            for a, b in [(x, y), (x, y[:, 0].copy()), (x[0], y), (x[0], y[:, 0].copy())]:
                for errstate in (None, {"all": "raise"}, {"all": "ignore"}):
                    assert_same(at, lambda: (a, b), errstate, jit_level="O1")
