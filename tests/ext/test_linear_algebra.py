"""Functions of np.linalg, and triangles, that loops of framejit do or prepare."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import framejit as fj

DTYPES = ["f8", "f4", "c16", "c8"]


@pytest.fixture(params=["avx2", "avx512"], autouse=True)
def cpu(request):
    before = fj.config.cpu
    fj.config.cpu = request.param
    yield
    fj.config.cpu = before


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    out = rng.normal(size=shape)
    return (out + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else out).astype(dtype)


def positive(n, dtype, seed=0):
    a = numbers((n, n), dtype, seed)
    return (a @ a.conj().T + n * np.eye(n)).astype(dtype)


def layouts(a):
    """The same numbers, stored in several ways."""
    wide = np.zeros((2 * a.shape[0], 3 * a.shape[1]), a.dtype)
    wide[::2, ::3] = a
    yield a
    yield np.asfortranarray(a)
    yield wide[::2, ::3]
    yield a[::-1, ::-1].copy()[::-1, ::-1]


def outcome(function, *args):
    """The result, or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = function(*args)
        except np.linalg.LinAlgError as error:
            return type(error), str(error), [str(w.message) for w in seen]
    return found.dtype, found.shape, found.strides, found.tobytes(), [str(w.message) for w in seen]


def steps_of(marked):
    return [line.strip() for entry in marked._report()["entries"] for line in entry["program"].splitlines()]


def factor(a):
    return np.linalg.cholesky(a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 100, 257])
def test_cholesky(n, dtype):
    for a in layouts(positive(n, dtype)):
        marked = fj.jit(factor)
        for _ in range(2):
            assert outcome(marked, a) == outcome(factor, a)
        assert n == 0 or any(step.startswith("cholesky") for step in steps_of(marked))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 80, 300])
@pytest.mark.parametrize("what", ["negative", "late", "nan", "infinite", "upper"])
def test_cholesky_of_what_has_none(n, dtype, what):
    """NumPy raises, or takes the lower half alone."""
    a = positive(n, dtype)
    if what == "negative":
        a = -a
    elif what == "late":
        a[-1, -1] = -1
    elif what == "nan":
        a[n // 2, 1] = np.nan
    elif what == "infinite":
        a[1, 0] = np.inf
    else:
        a[0, 1:] = np.nan
    marked = fj.jit(factor)
    for _ in range(2):
        assert outcome(marked, a) == outcome(factor, a)


def test_cholesky_of_other_arguments():
    many, odd = np.stack([positive(70, "f8"), positive(70, "f8", 1)]), np.arange(70.0)
    for a in (many, positive(70, "f8").astype(">f8"), np.eye(70, dtype="i4"), positive(70, "f8").view(np.matrix)):
        marked = fj.jit(factor)
        for _ in range(2):
            assert outcome(marked, a) == outcome(factor, a)
    for a in (odd, np.ones((3, 70))):
        assert outcome(fj.jit(factor), a) == outcome(factor, a)


def test_a_factor_is_part_of_a_graph():
    def form(a):
        b = a + 2.0 * np.eye(len(a))
        return np.linalg.cholesky(b) * 2.0 - np.tril(b, -1)

    marked = fj.jit(form, fullgraph=True)
    a = positive(90, "f8")
    for _ in range(3):
        np.testing.assert_array_equal(marked(a), form(a), strict=True)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i1", "?", "c16"])
@pytest.mark.parametrize("k", [0, 1, -1, 4, -4, 100, -100])
def test_triangles(k, dtype):
    def form(a, b):
        return np.triu(a, k), np.tril(b, k=k)

    marked = fj.jit(form)
    for shape in [(5, 5), (3, 7), (7, 3), (1, 1), (0, 4), (4, 0), (65, 64)]:
        x = (np.random.default_rng(1).normal(size=shape) * 9).astype(dtype)
        for one, other in zip(form(x, x), marked(x, x), strict=True):
            assert (one.dtype, one.shape, one.strides, one.tobytes()) == (other.dtype, other.shape, other.strides, other.tobytes())
    assert sum(step.startswith("triangle") for step in steps_of(marked)) >= 2


@pytest.mark.parametrize("form", ["np.triu(a)", "np.tril(a.T)", "np.triu(a[::2, ::-1])", "np.tril(a[:, 1:], 2)", "np.triu(np.stack([a, a]), 1)", "np.tril(a[0])"])
def test_triangles_of_views(form):
    function = eval(f"lambda a: {form}", {"np": np})
    a = numbers((9, 9), "f8")
    marked = fj.jit(function)
    for _ in range(2):
        assert outcome(marked, a) == outcome(function, a)


def solution(a, b):
    return np.linalg.solve(a, b)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("n", [8, 9, 15, 16, 17, 31, 64, 100, 159, 160])
def test_systems_at_o1(n, dtype):
    """Within the bound of docs/o1.md, as far as the residual shows it."""
    for sides in {8, n // 4 + 8, 33, 150}:
        for a in layouts(numbers((n, n), dtype)):
            b = numbers((n, sides), dtype, 1)
            marked = fj.jit(solution, jit_level="O1")
            for _ in range(2):
                x = marked(a, b)
            expected = solution(a, b)
            assert (x.dtype, x.shape, x.strides) == (expected.dtype, expected.shape, expected.strides)
            residual = np.abs(a @ x - b).max() / (np.abs(a).max() * np.abs(x).max() * n)
            assert residual < 24 * n * np.finfo(float).eps
            assert residual < 8 * np.abs(a @ expected - b).max() / (np.abs(a).max() * np.abs(x).max() * n) + np.finfo(float).eps
            assert any(step.startswith("solve") for step in steps_of(marked))


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_pivots(dtype):
    """Rows are exchanged: the first elements of rows are small, or zero."""
    n = 40
    for a in (numbers((n, n), dtype) * np.logspace(-12, 12, n)[:, None], np.eye(n, dtype=dtype)[::-1] * 3.0, np.triu(numbers((n, n), dtype))[::-1] + np.eye(n)):
        b = numbers((n, 20), dtype, 1)
        x = fj.jit(solution, jit_level="O1")(a, b)
        expected = solution(a, b)
        assert np.abs(x - expected).max() <= 1e-13 * np.linalg.cond(a) * np.abs(expected).max()


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("what", ["singular", "zero", "nan", "infinite", "overflow", "tiny"])
def test_systems_without_a_finite_result_are_numpy_s(what, dtype):
    a, b = numbers((20, 20), dtype), numbers((20, 12), dtype, 1)
    if what == "singular":
        a[:] = np.arange(20)
    elif what == "zero":
        a[:] = 0
    elif what == "nan":
        a[3, 4] = np.nan
    elif what == "infinite":
        b[3, 4] = np.inf
    elif what == "overflow":
        a *= 1e-300
        b *= 1e300
    else:
        a *= 1e-310
    marked = fj.jit(solution, jit_level="O1")
    for _ in range(2):
        assert outcome(marked, a, b) == outcome(solution, a, b)


@pytest.mark.parametrize("shapes", [((20, 20), (20,)), ((3, 3), (3, 9)), ((20, 20), (20, 3)), ((161, 161), (161, 80)), ((2, 20, 20), (2, 20, 9)), ((20, 20), (19, 9)), ((20, 19), (20, 9))])
def test_other_systems_are_numpy_s(shapes):
    a, b = numbers(shapes[0], "f8"), numbers(shapes[1], "f8", 1)
    marked = fj.jit(lambda a, b: np.linalg.solve(a, b) + 0.0, jit_level="O1")
    for _ in range(2):
        try:
            expected = np.linalg.solve(a, b) + 0.0
        except ValueError as error:
            with pytest.raises(type(error), match="mismatch|square|core dimension"):
                marked(a, b)
        except np.linalg.LinAlgError as error:
            with pytest.raises(type(error), match="square"):
                marked(a, b)
        else:
            np.testing.assert_array_equal(marked(a, b), expected, strict=True)


def test_o0_has_numpy_s_systems():
    marked = fj.jit(solution)
    a, b = numbers((30, 30), "f8"), numbers((30, 30), "f8", 1)
    for _ in range(2):
        assert outcome(marked, a, b) == outcome(solution, a, b)
    assert not any(step.startswith("solve") for step in steps_of(marked))
