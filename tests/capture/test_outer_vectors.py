"""Rounds of outer loops in the lanes of vectors: equal to plain Python at all numbers of rounds, for all layouts, and where a lane leaves, raises or warns."""

from __future__ import annotations

import ctypes
import mmap
import warnings

import numpy as np
import pytest

import framejit as fj
from framejit import _core
from forms_support import check_same, run

pytestmark = pytest.mark.capture

COUNTS = (0, 1, 3, 4, 5, 8, 9, 16, 21)
TURNS = 26  # of kernels: after so many runs the fastest one is chosen


@pytest.fixture(autouse=True, params=["avx2", "avx512"])
def widened(request, monkeypatch):
    """Loops are compiled for several rounds at once from the first run on, for one thread."""
    monkeypatch.setattr(fj.config, "cpu", request.param)
    monkeypatch.setattr(fj.config, "profitability", "off")
    monkeypatch.setattr(fj.config, "num_threads", 1)
    errors = fj.stats()["internal_errors"]
    yield request.param if _core.cpu_features()["isa"] == "avx512" else "avx2"
    assert fj.stats()["internal_errors"] == errors


def products(a, b, out):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            out[i, j] = s


def escapes(x, out):
    for i in range(len(x)):
        u = v = 0.0
        step = 0
        while step < 30 and u * u + v * v <= 4.0:
            u, v = u * u - v * v + x[i], 2.0 * u * v + 0.25
            step += 1
        out[i] = step


def polynomials(x, factors, out):
    for i in range(len(x)):
        value = 0.0
        for k in range(len(factors)):
            value = value * x[i] + factors[k]
        out[i] = value


def nearest(points, centres, labels):
    for i in range(len(points)):
        least = float("inf")
        for j in range(len(centres)):
            distance = (points[i, 0] - centres[j, 0]) ** 2 + (points[i, 1] - centres[j, 1]) ** 2
            if distance < least:
                least = distance
                labels[i] = j


def roots(x, out):
    for i in range(len(x)):
        guess = 1.0
        for _ in range(40):
            better = 0.5 * (guess + abs(x[i]) / guess)
            if abs(better - guess) < 1e-9:
                break
            guess = better
        out[i] = guess


def remainders(x, out):
    for i in range(len(x)):
        found = 0
        for d in range(1, 7):
            found = found * 3 + int(x[i]) // d - int(x[i]) % (d - 9)
        out[i] = found


def divisor_counts(x, out):
    total = 0
    for i in range(len(x)):
        n, count, d = abs(int(x[i])) % 97 + 1, 0, 1
        while d <= n:
            if n % d == 0:
                count += 1
            d += 1
        out[i] = count
        total += count
    return total


def first_above(a, limits, out):
    last = -1
    for i in range(a.shape[0]):
        place = -1
        for j in range(a.shape[1]):
            if a[i, j] > limits[i]:
                place = j
                last = i
                break
        else:
            place = -2
        out[i] = place
    return last


def insertions(x, sorted_numbers, out):
    total = 0
    for i in range(len(x)):
        low, high = 0, len(sorted_numbers)
        while low < high:
            middle = (low + high) // 2
            if sorted_numbers[middle] < x[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low
        total += low
    return total


def running(a, out):
    for i in range(a.shape[0]):
        value = 0.5
        for j in range(a.shape[1]):
            value = value * 0.75 + a[i, j]
            out[i, j] = value


def steps_of_two(x, out):
    for i in range(0, len(x), 2):
        value = x[i]
        for _ in range(4):
            value = value * value - 1.0
        out[i] = value


def vector(n):
    return np.linspace(-3.0, 2.0, n) if n > 1 else np.full(n, 0.75)


def matrix(n, columns=5):
    return np.cos(np.arange(n * columns, dtype=float)).reshape(n, columns)


def of_layout(a, layout):
    """The same numbers in other memory."""
    if layout == "plain" or 0 in a.shape:
        return a
    if layout == "reversed":
        return a[::-1].copy()[::-1]
    if layout == "columns":
        return np.asfortranarray(a)
    apart = np.zeros((2 * a.shape[0], *a.shape[1:]), a.dtype)
    apart[::2] = a
    return apart[::2]


LAYOUTS = ("plain", "reversed", "columns", "apart")
PROGRAMS = {
    products: lambda n, form: (form(matrix(n)), form(matrix(5, n)), form(np.zeros((n, n)))),
    escapes: lambda n, form: (form(vector(n)), form(np.zeros(n, np.int32))),
    polynomials: lambda n, form: (form(vector(n)), np.array([0.5, -2.0, 1.0, 3.0]), form(np.zeros(n))),
    nearest: lambda n, form: (form(matrix(n, 2)), matrix(4, 2) * 0.5, form(np.zeros(n, np.int64))),
    roots: lambda n, form: (form(vector(n)), form(np.zeros(n))),
    remainders: lambda n, form: (form(np.arange(n) * 37 - 200), form(np.zeros(n, np.int64))),
    divisor_counts: lambda n, form: (form(np.arange(n) * 37 - 200), form(np.zeros(n, np.int16))),
    first_above: lambda n, form: (form(matrix(n)), form(vector(n) / 3), form(np.zeros(n, np.int64))),
    insertions: lambda n, form: (form(vector(n) * 9), np.arange(-25.0, 20.0, 1.5), form(np.zeros(n, np.int64))),
    running: lambda n, form: (form(matrix(n)), form(np.zeros((n, 5)))),
    steps_of_two: lambda n, form: (form(vector(n)), form(np.zeros(n))),
}


def compare(form, make, calls=3):
    """How many rounds were done in vectors, in calls with arguments that are equal."""
    marked, before = fj.jit(form), fj.stats()["vector_rounds"]
    expected_arguments = make()
    expected = run(form, expected_arguments)
    for _ in range(calls):
        arguments = make()
        outcome = run(marked, arguments)
        check_same(expected, outcome, form.__name__)
        for one, other in zip(expected_arguments, arguments, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes(), form.__name__
    return fj.stats()["vector_rounds"] - before


@pytest.mark.parametrize("form", PROGRAMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_programs(form, layout):
    for n in COUNTS:
        compare(form, lambda n=n: PROGRAMS[form](n, lambda a: of_layout(a, layout)))


ONLY_WIDE = {remainders, divisor_counts}  # divisions need AVX-512


@pytest.mark.parametrize("form", PROGRAMS, ids=lambda form: form.__name__)
def test_rounds_are_done_in_vectors(form, widened):
    rounds = compare(form, lambda: PROGRAMS[form](21, lambda a: a))
    assert (rounds > 0) == (widened == "avx512" or form not in ONLY_WIDE)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.uint16, np.int8])
def test_results_of_all_sizes(dtype):
    def counted(x, out):
        for i in range(len(x)):
            value, count = x[i], 0
            while value > 0.125 and count < 50:
                value *= 0.5
                count += 1
            out[i, 1] = count

    for n in COUNTS:
        compare(counted, lambda n=n: (np.abs(vector(n)) * 100, np.zeros((n, 3), dtype)))


def test_numbers_that_are_not_finite_warn_where_plain_python_does():
    for n in (9, 21):
        for bad in (0, n // 2, n - 1):

            def make(n=n, bad=bad):
                x = vector(n)
                x[bad] = 1e200
                return x, np.array([1e150, 1.0, 2.0]), np.zeros(n)

            compare(polynomials, make)


def test_an_index_that_is_out_of_range_raises_behind_the_same_stores():
    def picked(x, places, out):
        for i in range(len(x)):
            value = x[i]
            for _ in range(3):
                value = value * 0.5 + x[places[i]]
            out[i] = value

    for bad in (0, 7, 8, 15, 20):

        def make(bad=bad):
            places = np.arange(21) % 5
            places[bad] = 21
            return vector(21), places, np.zeros(21)

        compare(picked, make)


def test_a_division_by_zero_raises_at_its_round():
    def shares(x, out):
        for i in range(len(x)):
            left = 3
            value = 0
            while left > 0:
                value = value * 2 + 100 // int(x[i])
                left -= 1
            out[i] = value

    for bad in (0, 4, 8, 19):

        def make(bad=bad):
            x = np.arange(1, 21)
            x[bad] = 0
            return x, np.zeros(20, np.int64)

        compare(shares, make)


def test_integers_beyond_floats_and_beyond_64_bits():
    def powers(x, out):
        for i in range(len(x)):
            value = int(x[i])
            for _ in range(4):
                value = value * 3 + 1
                value = value % 1000003 + value // 7
            out[i] = value % 1000

    for large in (1, 1 << 40, 1 << 52, (1 << 53) + 1, (1 << 62) + 12345, -(1 << 62)):
        compare(powers, lambda large=large: (np.arange(21) * 5 + np.where(np.arange(21) == 13, large, 0), np.zeros(21, np.int64)))


def test_rows_that_meet_are_done_in_order():
    def smoothed(a, b):
        for i in range(a.shape[0]):
            for j in range(1, a.shape[1]):
                value = 0.0
                for k in range(3):
                    value = value * 0.5 + a[i, j - 1] + k
                b[i, j] = value

    def make(apart):
        memory = np.sin(np.arange(200.0))
        a, b = (np.ndarray((12, 9), np.float64, memory, at, (8 * 9, 8)) for at in (0, 8 * apart))
        return a, b, memory

    for apart in (0, 1, 2, 9, 10, 18, 80):
        marked = fj.jit(smoothed)
        a, b, expected = make(apart)
        smoothed(a, b)
        for _ in range(3):
            c, d, memory = make(apart)
            marked(c, d)
            assert memory.tobytes() == expected.tobytes()


def test_places_that_several_rounds_of_an_inner_loop_store_at():
    def last(a, b, out):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                value = 0.0
                for k in range(len(b)):
                    value = value * 0.5 + a[i, j]
                    out[i, j + k] = value

    def chained(a, b, out):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                value = 0.0
                for k in range(len(b)):
                    value = value * 0.5 + out[i, j + k] + b[k]
                    out[i, j + k] = value

    for form in (last, chained):
        compare(form, lambda: (matrix(5, 40), vector(7), np.zeros((5, 50))))


def test_what_is_hoisted_may_be_what_is_stored():
    def spread(points, out):
        for i in range(len(points)):
            for j in range(4):
                if points[i, 0] > points[j, 1]:
                    out[i] = points[i, 0] - j

    for place in (0, 1, 3):

        def make(place=place):
            memory = np.sin(np.arange(60.0))
            points = memory[:40].reshape(20, 2)
            return points, memory[place : place + 20]

        compare(spread, make)


def test_variables_are_what_the_last_round_has_left():
    def seen(x):
        best = where = value = count = -1
        for i in range(len(x)):
            value = x[i]
            for k in range(5):
                value = value * 0.5 + 1.0
                if value > 2.5:
                    best, where = value, k
            if value > 1.9:
                count = i
        return best, where, value, count

    for n in COUNTS:
        compare(seen, lambda n=n: (vector(n) * 4,))


def test_an_inner_loop_that_lanes_leave_by_different_ways():
    """The ways lead to the next round of the loop around it, with numbers that are the same in all lanes."""

    def counted(x, y, z, counts):
        p, q, m, c, k, total = 0.5, 1.5, 3, 0, 0, 0.0
        for i in range(len(x)):
            p, q, m, c, k = x[i], 1.5, i, 0, 0
            counts[i] = c % 1000
            p = 0.0 + abs(x[i])
            for k in range(len(z)):
                kk = 0
                while kk < 3 and z[0] < 0.25:
                    q = 0.625
                    p, q = q, 0.5 * p
                    kk += 1
            q = y[i, 2] * y[i, 2] + 0.5
            total += q
        return total, p, q, m, c, k

    for n in COUNTS:
        compare(counted, lambda n=n: (vector(n), matrix(n, 3), vector(3) - 0.5, np.zeros(n, np.int64)))


def test_an_inner_loop_in_two_versions():
    """What both hand on is the same number in all lanes."""

    def searched(x, w, out):
        for i in range(len(w)):
            q, m, c = 1.5, w[i], 7
            p = 0.5 - 1.25 / 3.0
            for k in range(len(x)):
                c += c % (k + 1) - (7 + m)
                if (w[i] // (i + 2)) % 3 == 0:
                    if q > 1.5:
                        break
                elif i < m:
                    continue
                c = i
            out[i] = q + c + p

    for n in COUNTS:
        compare(searched, lambda n=n: (vector(3), np.arange(n) * 37 % 101 - 50, np.zeros(n)))


def test_rounds_that_would_store_beyond_an_array():
    """The array that rounds store into is restored if one of them fails. Nothing past its end is read or restored."""

    def powers(x, out):
        for i in range(len(x)):
            value = 1.0
            for _ in range(3):
                value = value * x[i]
            out[i] = value

    def seen(function, x, out):
        try:
            function(x, out)
        except IndexError as error:
            return str(error)
        return None

    size = mmap.PAGESIZE
    pages = mmap.mmap(-1, 2 * size)
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    behind = ctypes.addressof(ctypes.c_char.from_buffer(pages)) + size
    assert protect(behind, size, 0) == 0  # nothing may touch it
    try:
        for n, length in ((16, 9), (21, 15), (40, 1), (700, 500)):
            out, expected = np.frombuffer(pages, count=length, offset=size - 8 * length), np.full(length, 7.0)
            out[:] = 7.0
            marked, before = fj.jit(powers), fj.stats()["vector_rounds"]
            for _ in range(3):
                assert seen(marked, vector(n), out) == seen(powers, vector(n), expected) is not None
                assert out.tobytes() == expected.tobytes()
            assert fj.stats()["vector_rounds"] == before
            fj.jit(powers)(vector(n), np.zeros(n))
            assert fj.stats()["vector_rounds"] > before
    finally:
        protect(behind, size, mmap.PROT_READ | mmap.PROT_WRITE)


def test_no_warning_is_lost_or_made():
    def halves(x, out):
        for i in range(len(x)):
            value = x[i]
            for _ in range(3):
                value = value / 2.0
            out[i] = value

    marked = fj.jit(halves)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            marked(vector(21), np.zeros(21))


def test_kernels_take_turns_on_arguments_that_are_equal(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "measure")
    before = _core.set_widen_after(0)
    try:
        assert compare(polynomials, lambda: PROGRAMS[polynomials](203, lambda a: a), calls=TURNS) > 0
    finally:
        _core.set_widen_after(before)
