"""Loops that cut arrays and multiply vectors: views, np.dot and @ as NumPy has them, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run

pytestmark = pytest.mark.capture

SIZES = (0, 1, 2, 3, 8, 17)


@pytest.fixture(autouse=True)
def no_internal_errors(kernels):
    before = fj.stats()["internal_errors"]
    yield
    assert fj.stats()["internal_errors"] == before


def compiled(form, *makes, calls=4):
    """Compare calls with plain Python; whether a loop was compiled."""
    marked = fj.jit(form)
    for _ in range(calls):
        for make in makes:
            check_same(run(form, make()), run(marked, make()), form.__name__)
    return any(entry["kind"] == "loop" for entry in marked._report()["entries"])


def square(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n)) + 2 * n * np.eye(n)


def factored(a):
    for i in range(len(a)):
        for j in range(i):
            a[i, j] -= np.dot(a[i, :j], a[:j, j])
            a[i, j] /= a[j, j]
        for j in range(i, len(a)):
            a[i, j] -= a[i, :i] @ a[:i, j]


def solved(a, x, b):
    for i in range(len(x)):
        x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]


def tails(a, b):
    for i in range(len(a)):
        for j in range(len(b)):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])


def windows(a, out):
    for i in range(-3, len(out) + 3):
        for j in range(-2, 5):
            out[i % len(out)] += a[0, i:j] @ a[0, i:j] + a[0, j:] @ a[0, j:]


@pytest.mark.parametrize("n", SIZES)
def test_whole_programs(n):
    loops = [
        compiled(factored, lambda: (square(n),)),
        compiled(solved, lambda: (square(n), np.zeros(n), np.arange(n) - 2.5)),
        compiled(tails, lambda: (square(n), square(n, 1))),
    ]
    if n > 0:
        loops.append(compiled(windows, lambda: (square(n), np.zeros(n))))
    assert n < 17 or all(loops)


def dots(a, b, out):
    for k in range(len(out)):
        out[k] = np.dot(a[:k], b[:k])


def products(a, b, out):
    for k in range(len(out)):
        out[k] = a[k:] @ b[k:]


ZEROS = np.array([-0.0, 3.0, -0.0, 0.0, 5.0, -1.0, 2.0, 0.5, -0.0])


def vectors(of):
    whole = np.concatenate([ZEROS, -ZEROS, np.linspace(-3.0, 9.0, 31)])
    n = 9
    shifted = np.zeros(8 * n + 4, np.uint8)[4:].view(np.float64)
    shifted[:] = whole[:n]
    return {
        "contiguous": (whole[:n], whole[n : 2 * n]),
        "of every third element": (whole[: 3 * n : 3], whole[n : 3 * n : 2]),
        "reversed": (whole[n::-1][:n], whole[:n]),
        "of one element again and again": (np.broadcast_to(whole[3], n), whole[:n]),
        "misaligned": (shifted, whole[:n]),
        "of fields": (np.zeros(n, "f8,i4")["f0"] + 0.5, np.rec.fromarrays([whole[:n], np.arange(n, dtype="i4")]).f0),
        "float32": (whole[:n].astype("f4"), whole[:n].astype("f4")),
        "integers": (np.arange(n), np.arange(n)),
        "complex": (whole[:n] + 1j, whole[:n] - 2j),
        "infinite": (np.where(np.arange(n) == 5, np.inf, whole[:n]), whole[:n]),
        "too large": (whole[:n] * 1e200, whole[:n] * 1e200),
    }[of]


@pytest.mark.parametrize("of", ["contiguous", "of every third element", "reversed", "of one element again and again",
                                "misaligned", "of fields", "float32", "integers", "complex", "infinite", "too large"])  # fmt: skip
@pytest.mark.parametrize("form", [dots, products], ids=lambda f: f.__name__)
def test_vectors(form, of):
    def make():
        a, b = (x.copy() if x.flags.contiguous and x.flags.aligned else x for x in vectors(of))
        return a, b, np.zeros(9, np.complex128 if of == "complex" else np.float64)

    with np.errstate(all="ignore"):
        compiled(form, make)
    compiled(form, make)


def test_lengths_that_differ():
    def form(a, out):
        for k in range(len(out)):
            out[k] = a[:k] @ a[: k + k // 7]

    compiled(form, lambda: (np.ones(20), np.zeros(12)))


@pytest.mark.parametrize("cut", ["k:k + 3", ":k", "k:", "-k:", ":-k", ":", "2:5", "-2:", ":100", "k:2", "5:k - 9", "True:k",
                                 "None:k", "k::1", "::2", "::-1", "k:k + 4:3", "k::-1",
                                 ":k:-1", "-k::-2", "k:0:-3", ":k:4", "9:k:-1", "::-7", "::0", "::k", "-1:-k:-1", "k:-1:2", ":-9:-1"])  # fmt: skip
def test_cuts(cut):
    """A view that a variable holds after the loop has the base, the strides and the flags that NumPy gives it."""
    source = f"def form(a, n):\n    s, v = 0.0, None\n    for k in range(n):\n        v = a[{cut}]\n        for x in v:\n            s += x\n        s += len(v)\n    return s, v, v.strides, v.base is a, v.flags.writeable, v.shape\n"
    namespace = {}
    exec(compile(source, __file__, "exec"), namespace)
    for n in (1, 4, 9):
        compiled(namespace["form"], lambda n=n: (np.arange(7.0), n), lambda n=n: (np.arange(14.0)[::2], n))


def test_cuts_of_two_axes():
    def form(a, n):
        s = 0.0
        for k in range(n):
            part = a[k:, 1:k]
            column, rows = a[1:k, -1], a[k % 3]
            s += part.shape[0] * 100 + part.shape[1] + column.shape[0]
            if len(part) > 2 and part.shape[1] > 1:
                s += part[2, 1] + part[1, :2] @ part[0, :2]
        return s, part, column, rows[1:]

    compiled(form, lambda: (np.arange(48.0).reshape(8, 6), 7), lambda: (np.arange(48.0).reshape(6, 8).T, 7))


def test_ends_of_numpy_and_wrong_ends():
    def form(a, ends):
        s = 0.0
        for k in range(len(ends)):
            s += a[: ends[k]] @ a[: ends[k]]
        return s

    assert compiled(form, lambda: (np.arange(30.0), np.arange(40) - 8))
    compiled(form, lambda: (np.arange(30.0), np.arange(40.0)))
    compiled(form, lambda: (np.arange(30.0), [1, 2, "three", 4] * 10))


def test_stores_between_products():
    def form(a):
        for k in range(1, len(a)):
            a[k] = a[:k] @ a[:k] * 0.25
            a[k - 1] = np.dot(a[1 : k + 1], a[:k]) * 0.125

    assert compiled(form, lambda: (np.full(20, 0.5),))


def test_stores_of_cuts_stay_in_the_interpreter():
    def form(a, b):
        for k in range(1, len(a)):
            a[:k] += b[k] * a[k - 1 :: -1]
            b[k] = a[:k] @ b[:k]

    compiled(form, lambda: (np.full(40, 0.5), np.linspace(0.0, 1.0, 40)))


def test_a_part_of_which_both_bounds_are_one_number_of_an_array():
    def between(x, counts):
        k = counts[1] - counts[0]
        return x[k:k].sum(), x[k:k:2] * 2.0, x[k : k + 1] + 1.0, len(x[k:k])

    marked = fj.jit(between)
    x = np.arange(20.0)
    for low, high in ((0, 3), (2, 3), (5, 2), (0, 40), (7, 7)):
        counts = np.array([low, high])
        for _ in range(3):
            check_same(run(between, (x, counts)), run(marked, (x, counts)), f"{low}, {high}")
