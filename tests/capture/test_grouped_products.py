"""Products of a vector and a matrix in each round of a loop at O1: several rounds at once, with the results of each alone.

The numbers are small integers, so sums are exact in any order, and results are equal to the bit."""

from __future__ import annotations

import ctypes
import mmap
import warnings

import numpy as np
import pytest

import framejit as fj
from framejit import _core

pytestmark = pytest.mark.capture

ROUNDS, DEPTH, COLUMNS = 60, 120, 150


@pytest.fixture(autouse=True)
def each_kernel(kernels):
    yield


def numbers(*shape, dtype="f8", seed=0):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


def made(body, **names):
    namespace = {"np": np, **names}
    lines = "".join(f"        {line}\n" for line in body.split("; "))
    exec(compile(f"def form(a, w, out, n):\n    for i in range(n):\n{lines}    return out\n", __file__, "exec"), namespace)
    return namespace["form"]


def grouped(form, make, calls=3):
    """How many products of the calls were done together with others; all results are those of the unmarked function."""
    marked = fj.jit(form, jit_level="O1")
    before = _core.stats()["grouped_products"]
    for _ in range(calls):
        expected, actual = make(), make()
        with np.errstate(all="ignore"):
            given, found = form(*expected), marked(*actual)
        np.testing.assert_array_equal(found, given, strict=True)
        for one, other in zip(expected, actual, strict=True):
            np.testing.assert_array_equal(other, one, strict=True)
    entries = [entry for entry in marked._report()["entries"] if entry["kind"] == "loop"]
    assert len(entries) == 1 and "update matmul" in entries[0]["graph"]
    return _core.stats()["grouped_products"] - before


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize(
    "body",
    [
        "out[i] = a[i] @ w",
        "out[i] = a[n - 1 - i] @ w",
        "out[i] = w.T @ a[i]",
        "out[i] = a[i] @ w + out[i]",
        "out[i] = a[i, ::-1] @ w",
        "out[i, 3:] = a[i] @ w[:, 3:]",
        "out[i, i:] = a[i] @ w[:, i:]",
        "out[i, 2 * i:] = a[i] @ w[:, 2 * i:]",
        "out[i] = w[:, 3] @ w",
        "out[i, :120] = w[:, i] @ w[:, 30:]",
        "out[i] = a[i] @ w; out[i] = out[i] - a[n - 1 - i] @ w",
        "t = a[i] @ w; out[i] = t * 2.0",
    ],
)
def test_rounds_are_grouped(body, dtype):
    depth = DEPTH * 8 // np.dtype(dtype).itemsize

    def make():
        return numbers(ROUNDS, depth, dtype=dtype), numbers(depth, COLUMNS, dtype=dtype, seed=1), numbers(ROUNDS, COLUMNS, dtype=dtype), ROUNDS

    # The first two rounds of a run are alone, and so are those with few columns.
    rounds = 41 if "2 * i:" in body else ROUNDS
    assert grouped(made(body), make) == 3 * body.count("@") * (rounds - 2)


@pytest.mark.parametrize("layout", ["F", "part", "up"])
def test_layouts_of_the_matrix(layout):
    def make():
        whole = numbers(2 * DEPTH, 2 * COLUMNS, seed=1)
        w = {"F": np.asfortranarray(whole[:DEPTH, :COLUMNS]), "part": whole[::2, ::2], "up": whole[:DEPTH, :COLUMNS][::-1]}[layout]
        return numbers(DEPTH, ROUNDS).T, w, np.zeros((ROUNDS, COLUMNS)), ROUNDS

    assert grouped(made("out[i] = a[i] @ w"), make) == 3 * (ROUNDS - 2)


@pytest.mark.parametrize(
    ("body", "fewest", "most"),
    [
        ("out[i] = a[i * i % n] @ w", 0, 100),  # seldom what was expected
        ("out[i] = a[i // 7 * 7] @ w", 100, 173),  # often not
        ("out[i] = a[i] @ w; w[i] = 1.0", 0, 0),  # the matrix changes
        ("out[i] = a[i] @ w; a[(i + 1) % n] = 2.0", 0, 0),  # so do the vectors
        ("t = a[i] * 2.0; out[i] = t @ w", 0, 0),  # they are made by the loop
        ("out[i] = a[i] @ w[:, :]; out[0] = w[i, 0]", 150, 180),
    ],
)
def test_what_is_not_as_expected(body, fewest, most):
    def make():
        return numbers(ROUNDS, DEPTH), numbers(DEPTH, COLUMNS, seed=1), np.zeros((ROUNDS, COLUMNS)), ROUNDS

    assert fewest <= grouped(made(body), make) <= most


@pytest.mark.parametrize("shift", [0, 1, 70, -70])
def test_arrays_that_overlap(shift):
    """`out` lies in the memory of the matrix: its rows change what later rounds multiply."""

    def make():
        memory = numbers(60_000, seed=2)
        w = memory[15_000 : 15_000 + DEPTH * COLUMNS].reshape(DEPTH, COLUMNS)
        first = 15_000 + shift * COLUMNS
        return np.sign(numbers(ROUNDS, DEPTH)) * (np.arange(DEPTH) < 2), w, memory[first : first + ROUNDS * COLUMNS].reshape(ROUNDS, COLUMNS), ROUNDS

    count = grouped(made("out[i] = (a[i] @ w) * 0.5"), make)
    assert count == (3 * (ROUNDS - 2) if shift == -70 else 0)


def test_a_loop_that_is_left_and_entered_again():
    """A function that the interpreter calls between two rounds changes the matrix."""
    source = "out[i] = a[i] @ w\n        if i % 16 == 15:\n            change(w)"

    def change(w):
        w += 1.0

    form = made(source, change=fj.disable(change))

    def make():
        return numbers(ROUNDS, DEPTH), numbers(DEPTH, COLUMNS, seed=1), np.zeros((ROUNDS, COLUMNS)), ROUNDS

    marked = fj.jit(form, jit_level="O1")
    for _ in range(3):
        before = _core.stats()["grouped_products"]
        expected, actual = make(), make()
        np.testing.assert_array_equal(marked(*actual), form(*expected), strict=True)
        assert _core.stats()["grouped_products"] - before == ROUNDS - 2 * 4  # the loop is entered four times


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, 1e308])
@pytest.mark.parametrize("place", [0, 5, 31, 59])
def test_results_that_are_not_finite_are_numpy_s(number, place):
    def make():
        a = numbers(ROUNDS, DEPTH)
        a[place, 7:9] = number
        return a, numbers(DEPTH, COLUMNS, seed=1), np.zeros((ROUNDS, COLUMNS)), ROUNDS

    form = made("out[i] = a[i] @ w")
    assert grouped(form, make) >= 3 * (ROUNDS - 3)
    marked = fj.jit(form, jit_level="O1")
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        form(*make())
    for _ in range(2):
        with warnings.catch_warnings(record=True) as actual:
            warnings.simplefilter("always")
            marked(*make())
        assert [str(w.message) for w in actual] == [str(w.message) for w in expected]


def test_nothing_behind_an_array_is_read():
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 64 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    used = 62 * page
    assert protect(address + used, page, 0) == 0
    try:
        whole = np.frombuffer(memory, "f8")[: used // 8]
        whole[:] = 1.0
        a = whole[-ROUNDS * DEPTH :].reshape(ROUNDS, DEPTH)
        assert grouped(made("out[i] = a[i] @ w"), lambda: (a, numbers(DEPTH, COLUMNS), np.zeros((ROUNDS, COLUMNS)), ROUNDS)) > 100
        w = whole[-DEPTH * COLUMNS :].reshape(DEPTH, COLUMNS)
        assert grouped(made("out[i, i:] = a[i] @ w[:, i:]"), lambda: (numbers(ROUNDS, DEPTH), w, np.zeros((ROUNDS, COLUMNS)), ROUNDS)) > 100
    finally:
        assert protect(address + used, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


def test_o0_has_numpy_s_products():
    form = made("out[i] = a[i] @ w")
    rng = np.random.default_rng(3)
    a, w = rng.normal(size=(ROUNDS, DEPTH)), rng.normal(size=(DEPTH, COLUMNS))
    before = _core.stats()["grouped_products"]
    marked = fj.jit(form)
    for _ in range(3):
        np.testing.assert_array_equal(marked(a, w, np.zeros((ROUNDS, COLUMNS)), ROUNDS), form(a, w, np.zeros((ROUNDS, COLUMNS)), ROUNDS))
    assert _core.stats()["grouped_products"] == before


def test_errors_are_within_the_bound():
    """docs/o1.md, Matrix products."""
    rng = np.random.default_rng(4)
    a, w = rng.normal(size=(ROUNDS, DEPTH)), rng.normal(size=(DEPTH, COLUMNS))
    actual = fj.jit(made("out[i] = a[i] @ w"), jit_level="O1")(a, w, np.zeros((ROUNDS, COLUMNS)), ROUNDS)
    exact = a.astype(np.longdouble) @ w.astype(np.longdouble)
    assert np.all(np.abs(actual - exact) <= DEPTH * np.finfo(float).eps * (np.abs(a) @ np.abs(w)))
