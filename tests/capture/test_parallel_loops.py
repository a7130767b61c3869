"""Loops whose rounds threads share: equal to plain Python where rounds meet, where one of them raises or warns, and in what they leave."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

import framejit as fj
from framejit import _core
from forms_support import check_same, run

pytestmark = pytest.mark.capture


@pytest.fixture(autouse=True, params=["avx2", "avx512"])
def eager(request, monkeypatch):
    """Rounds are shared in pieces of a few, on two threads, from the first run on."""
    monkeypatch.setattr(fj.config, "cpu", request.param)
    monkeypatch.setattr(fj.config, "profitability", "off")
    monkeypatch.setattr(fj.config, "num_threads", 2)
    before, errors = _core.set_parallel_eager(True), fj.stats()["internal_errors"]
    yield
    _core.set_parallel_eager(before)
    assert fj.stats()["internal_errors"] == errors


def products(out, a, b):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            out[i, j] = s


def row_sums(out, a, b):
    for i in range(a.shape[0]):
        out[i, 0] = 0.0
        for j in range(a.shape[1]):
            out[i, 0] += a[i, j] / b[j, 0]


def neighbours(out, a, b):
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            out[i, j] = (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) * 0.25


def differences_across(out, a, b):
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            out[i, j] = a[i - 1, j + 1] - a[i + 1, j - 1] * b[i, j + 1]


def last_of_rows(out, a, b):
    last, best = -1, -2
    for i in range(a.shape[0]):
        best = i
        for j in range(a.shape[1]):
            if a[i, j] * b[j, i] > 45:
                last = j * 2
            out[i, j] = a[i, j] - b[j, i]
    return last, best, i, j


def upper_triangle(out, a, b):
    for i in range(a.shape[0]):
        for j in range(i, a.shape[1]):
            out[i, j] = a[i, j] * a[i, i] + b[i, j]


def from_below(out, a, b):
    for i in range(a.shape[0] - 1, -1, -2):
        for j in range(a.shape[1]):
            out[i, -1 - j] = a[i, j] + b[i, j]


def prefix(out, a, b):
    for i in range(1, a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = out[i - 1, j] + a[i, j]


def columns(out, a, b):
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            out[i, j] = a[i, j] + 1.0


def total(out, a, b):
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s += a[i, j]
        out[i, 0] = s


def sum_of_rows(out, a, b):
    total, above = 0.5, 0
    for i in range(a.shape[0]):
        s = 0.0
        for j in range(a.shape[1]):
            s += a[i, j] * b[j, i]
            if a[i, j] > 0.5:
                above += 1
        out[i, 0] = s
        total += s
    return total, above


def average(out, a, b):
    total, n = 0.0, a.shape[0]
    for i in range(n):
        x = i / n
        value = 1.0
        for k in range(5):
            value = value * x + k
        total += value
    return total / 3


SHARED = (
    total,
    products,
    row_sums,
    neighbours,
    differences_across,
    last_of_rows,
    upper_triangle,
    from_below,
    sum_of_rows,
    average,
)
IN_TURN = (prefix, columns)


def shared(function, *arguments):
    """What was seen, and how many rounds threads shared."""
    before = fj.stats()["parallel_rounds"]
    outcome = run(function, arguments)
    return (outcome, arguments), fj.stats()["parallel_rounds"] - before


def compare(form, make, calls=3):
    """Of the last call: how many rounds threads shared."""
    marked, rounds = fj.jit(form), 0
    for _ in range(calls):
        expected, none = shared(form, *make())
        outcome, rounds = shared(marked, *make())
        check_same(expected[0], outcome[0], form.__name__)
        for before, after in zip(expected[1], outcome[1], strict=True):
            assert np.asarray(before).tobytes() == np.asarray(after).tobytes()
        assert none == 0
    return rounds


def matrices(n, *, dtype=float, seed=0):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.random((n, n)) * 8, dtype) for _ in range(3)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
@pytest.mark.parametrize("form", [*SHARED, *IN_TURN], ids=lambda f: f.__name__)
def test_rounds_are_shared_if_they_do_not_meet(form, dtype):
    if form in (row_sums, neighbours, differences_across, products, total, sum_of_rows) and dtype is not np.float64:
        pytest.skip("integers divided, or added to a float of Python's")
    if form is last_of_rows and dtype is np.uint8:
        pytest.skip("products that do not fit")
    for n in (0, 1, 3, 5, 17, 40):
        rounds = compare(form, lambda n=n: matrices(n, dtype=dtype), calls=6)
        assert (rounds > 0) == (form in SHARED and n > 5) or n == 5, n


@pytest.mark.parametrize("form", SHARED, ids=lambda f: f.__name__)
def test_arrays_that_overlap(form):
    def make(shift, step):
        memory = np.arange(4000.0)[::step]
        out, a, b = memory[: 30 * 30], memory[shift : shift + 900], memory[1000:1900]
        return [x.reshape(30, 30) for x in (out, a, b)]

    for shift in (0, 1, 30, 31, 450, 899, 900):
        for step in (1, -1, 2):
            compare(form, lambda shift=shift, step=step: make(shift, step))


@pytest.mark.parametrize("view", ["reversed", "transposed", "of every other row", "of every other column", "inner"])
@pytest.mark.parametrize("form", [*SHARED, *IN_TURN], ids=lambda f: f.__name__)
def test_views(form, view):
    def make():
        cuts = {
            "reversed": np.s_[::-1, ::-1],
            "of every other row": np.s_[::2],
            "of every other column": np.s_[:, ::2],
            "inner": np.s_[3:23, 5:25],
        }
        whole = matrices(40)
        square = [x.T if view == "transposed" else x[cuts[view]] for x in whole]
        n = min(square[0].shape)
        return [x[:n, :n] for x in square]

    compare(form, make)


def gathers(out, a, where):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[where[i], j] + 1.0


def powers(out, a, start):
    for i in range(a.shape[0]):
        x = start[i]
        y = int(x)
        for j in range(a.shape[1]):
            y *= 3
            a[i, j] = x
        out[i] = y


@pytest.mark.parametrize("bad", [0, 1, 7, 20, 38, 39])
def test_a_round_that_raises_leaves_what_plain_python_leaves(bad):
    def make():
        out, a = matrices(40)[:2]
        where = np.arange(40)[::-1].copy()
        where[bad] = 40
        return out, a, where

    compare(gathers, make)


@pytest.mark.parametrize("bad", [0, 1, 7, 20, 38, 39])
def test_integers_that_leave_64_bits(bad):
    def make():
        start = np.ones(40)
        start[bad] = 2.0**40
        return np.zeros(40), np.zeros((40, 25)), start

    compare(powers, make)


def from_the_end_on(out, a, b):
    for i in range(a.shape[0] + 3):
        for j in range(a.shape[1]):
            out[i - 3, j] = out[i - 3, j] * 2 + a[i % 7, j]


def test_rows_that_are_counted_from_the_end_come_twice():
    for n in (4, 17, 40):
        compare(from_the_end_on, lambda n=n: matrices(n))


@pytest.mark.parametrize("bad", [0, 1, 20, 38, 39])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e308])
def test_sums_that_are_not_finite(bad, value):
    def make():
        out, a, b = matrices(40)
        a[bad, :3] = value
        a[max(bad - 3, 0), 5] = -value
        return out, a, b

    compare(sum_of_rows, make)


def test_counts_that_leave_64_bits():
    def form(a, count):
        for i in range(len(a)):
            for k in range(6):
                if a[i] > k:
                    count += 1000000
        return count

    for below in (0, 1_000_000, 50_000_000, 10**9):
        compare(form, lambda below=below: (np.arange(60.0) % 7, 2**63 - 1 - below))


@pytest.mark.parametrize("mode", ["warn", "raise", "ignore"])
def test_warnings_come_once_for_each_round_that_warns(mode):
    def make():
        out, a, b = matrices(30)
        b[11, 0] = 0.0
        b[23, 0] = np.inf
        a[5, 7] = np.nan
        return out, a, b

    marked = fj.jit(row_sums)
    for _ in range(3):
        with np.errstate(divide=mode, invalid=mode, over=mode):
            expected, outcome = run(row_sums, tuple(make())), run(marked, tuple(make()))
        check_same(expected, outcome, mode)


def stencil(out, a, b):
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            out[i, j] = (a[i - 1, j] + a[i + 1, j]) * b[i, j] - a[i, j] / b[i, j - 1]


def stencil_and_count(out, a, b):
    count = 0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] * b[i, j]
            if a[i, j] > 0.5:
                count += 1
    return count


def stencil_with_bytes(out, a, b):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = int(a[i, j] * b[i, j])


def stencil_with_floats(out, a, b):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = float(a[i, j]) ** 2.0 + float(b[i, j]) * 2.0


def stencil_beyond_the_end(out, a, b):
    for i in range(a.shape[0] + 1):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] * b[i, j]


def stencil_beyond_the_row(out, a, b):
    for i in range(a.shape[0]):
        for j in range(i // 2 + a.shape[1] - 6):
            out[i, j] = a[i, j] * b[i, j]


def stencil_in_place(out, a, b):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = a[i, j] * b[i, j] * 1e200


# If no code of the user's runs at a warning, rounds that would warn keep their stores, and the loop stores the same
# numbers again. If a round raises, the arrays must be as plain Python leaves them: later rounds have stored nothing.
@pytest.mark.parametrize("bad", [1, 7, 20, 38])
@pytest.mark.parametrize("value", [np.inf, np.nan, 1e308, 0.0])
@pytest.mark.parametrize(
    "form",
    [
        stencil,
        stencil_and_count,
        stencil_with_bytes,
        stencil_with_floats,
        stencil_beyond_the_end,
        stencil_beyond_the_row,
        stencil_in_place,
    ],
)
def test_what_stays_where_nobody_sees_warnings(form, value, bad):
    def make():
        out, a, b = matrices(40)
        a[bad, 3] = value
        b[bad, 4] = value
        return out, a, b

    marked = fj.jit(form)
    for _ in range(4):
        with np.errstate(all="ignore"):
            expected, outcome = run(form, tuple(make())), run(marked, tuple(make()))
        check_same(expected, outcome, form.__name__)


def test_one_thread_shares_nothing(monkeypatch):
    marked = fj.jit(products)
    _core.set_parallel_eager(False)
    monkeypatch.setattr(fj.config, "num_threads", 1)
    for _ in range(3):
        assert shared(marked, *matrices(40))[1] == 0


def test_small_loops_are_done_by_one_thread():
    _core.set_parallel_eager(False)
    assert compare(neighbours, lambda: matrices(12)) <= 1


def test_the_report_counts_rounds():
    marked = fj.jit(products)
    for _ in range(3):
        marked(*matrices(40))
    [entry] = [e for e in marked._report()["entries"] if e["parallel_rounds"]]
    assert "update run_rounds" in entry["graph"]
    assert "rounds on several threads" in fj.explain(marked)(*matrices(40)).text()


def test_a_signal_ends_a_loop_between_rounds():
    def long(out, a, b):
        for i in range(out.shape[0]):
            for j in range(a.shape[0]):
                out[i] = out[i] * 0.5 + a[j] * b

    marked = fj.jit(long)
    out, a = np.zeros(200_000), np.ones(2000)
    for _ in range(3):
        marked(out[:100], a, 1.0)
    _core.set_parallel_eager(False)

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGUSR1, stop)
    timer = threading.Timer(0.05, lambda: signal.raise_signal(signal.SIGUSR1))
    out[:] = 0.0
    start = time.perf_counter()
    timer.start()
    try:
        with pytest.raises(Stop):
            for _ in range(1000):
                marked(out, a, 1.0)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert time.perf_counter() - start < 20
