"""Loops that do several rounds at once: equal to plain Python where arrays overlap, where results are not finite, and where a signal comes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import framejit as fj
from framejit import _core
from forms_support import check_same, run
from loop_support import vector_type

pytestmark = pytest.mark.capture

LENGTHS = (0, 1, 2, 7, 8, 9, 15, 16, 17, 26, 33)


def scaled_sum(out, a, b):
    for i in range(len(out)):
        out[i] = a[i] * 2.0 + b[i]


def backwards(out, a, b):
    for i in range(len(out) - 1, -1, -1):
        out[i] = a[i] - b[i]


def mirrored(out, a, b):
    for i in range(len(out)):
        out[i] = a[len(out) - 1 - i] + b[i]


def walk(out, a, b):
    for i in range(1, len(out)):
        out[i] = out[i - 1] + a[i] * b[i]


def walk_of_two_stores(out, a, b):
    """A round reads what the one before has stored, and what it has stored itself."""
    for i in range(1, len(out)):
        out[i] = a[i] - out[i - 1]
        out[i] = out[i] * 0.5 + b[i]


def walk_back(out, a, b):
    for i in range(len(out) - 2, -1, -1):
        out[i] = min(out[i + 1] + a[i], b[i])


def at_one_place(out, a, b):
    for i in range(1, len(out)):
        out[0] -= a[i] * b[i]


def clamped(out, a, b):
    count = 0
    for i in range(len(out)):
        if a[i] < b[i]:
            out[i] = a[i]
            count += 1
        elif a[i] > 3.0:
            out[i] = np.sqrt(a[i])
    return count


def total(out, a, b):
    s = 0.0
    for i in range(len(out)):
        if a[i] > 0.0:
            s += a[i] * b[i]
    return s


def peaks(out, a, b):
    count = 0
    for i in range(1, len(a) - 1):
        if a[i - 1] < a[i] > a[i + 1] or b[i] < -7.0:
            count += 1
        if out[i] > 2.0:
            count += 3
    return count


def paired(out, a, b):
    total, last = 0.0, None
    for k, (x, y) in enumerate(zip(a, b)):
        out[k] = x * 2.0 - y
        last = y
    for x, y, z in zip(out, a[1:], b[2:]):
        total += x * y - z
    return total, last


def largest(out, a, b):
    place, most = -1, -100.0
    for k, x in enumerate(a):
        if x > most:
            place, most = k, x
    s = 0.0
    for x in out:
        s += x
    return place, most, s


def added_rows(out, a, b):
    n = int(len(out) ** 0.5)
    for i in range(n):
        for k in range(n):
            for j in range(n):
                out[i * n + j] += a[i * n + k] * b[k * n + j]


def shortest_paths(out, a, b):
    """The number that each round reads, `out[i * n + k]`, lies among those that the rounds write."""
    n = int(len(out) ** 0.5)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if out[i * n + k] + out[k * n + j] < out[i * n + j]:
                    out[i * n + j] = out[i * n + k] + out[k * n + j]


FORMS = (walk_of_two_stores, walk_back, scaled_sum, paired, largest, added_rows, shortest_paths, backwards, mirrored, walk, at_one_place, clamped, total, peaks)


def seen(function, memory, length, starts):
    whole = memory.copy()
    parts = [whole[start : start + length] for start in starts]
    with np.errstate(all="warn"):
        outcome = run(lambda *given: (function(*given), whole), tuple(parts))
    return outcome


@pytest.fixture(autouse=True, params=["avx2", "avx512"])
def instruction_set(request, monkeypatch):
    monkeypatch.setattr(fj.config, "cpu", request.param)
    monkeypatch.setattr(fj.config, "profitability", "off")


@pytest.mark.parametrize("form", [scaled_sum, backwards, mirrored, walk], ids=lambda f: f.__name__)
def test_rounds_that_need_not_follow_one_another_are_vectors(form):
    marked = fj.jit(form)
    for _ in range(3):
        marked(*np.ones((3, 100)))
    [entry] = marked._report()["entries"]
    assert (f"store.{vector_type()} " in entry["graph"]) == (form is not walk)


def texts(marked):
    return [entry["graph"] for entry in marked._report()["entries"] if entry["kind"] == "loop"]


def test_loops_over_arrays_themselves_are_vectors_or_unrolled():
    def product(a, b):
        total = 0.0
        for x, y in zip(a, b):
            total += x * y
        return total

    marked = fj.jit(product, capture_mode="bytecode")
    a, b = np.linspace(0.0, 1.0, 101), np.linspace(3.0, 2.0, 90)
    for _ in range(3):
        assert marked(a, b) == product(a, b)
    [text] = texts(marked)
    assert "= waits" in text and text.count("*8 +24") == 2  # four rounds at once


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("choose", [min, max])
def test_the_least_of_what_is_known_and_what_is_stored_last(choose, dtype):
    """Of minima of integers the operand that comes last is compared last; the one before is handed on in a register."""

    def edits(a, b, d):
        for i in range(1, len(a) + 1):
            for j in range(1, len(b) + 1):
                cost = 0 if a[i - 1] == b[j - 1] else 1
                d[i, j] = choose(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)

    def four(a, b, d):
        for i in range(1, len(a) + 1):
            for j in range(1, len(b) + 1):
                d[i, j] = choose(d[i, j - 1], d[i - 1, j] - 1, choose(a[i - 1], b[j - 1]), d[i - 1, j - 1])

    rng = np.random.default_rng(0)
    for function in (edits, four):
        marked = fj.jit(function, capture_mode="bytecode")
        for n in (30, 30, 30, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 17):
            a, b = rng.integers(0, 4, n), rng.integers(0, 4, n + 3)
            d = rng.integers(4, 60, (n + 1, n + 4)).astype(dtype)
            check_same(run(lambda *given: function(*given), (a.copy(), b, d.copy())), run(lambda *given: marked(*given), (a, b, d)), f"{function.__name__} {n}")
        assert dtype is not np.int64 or any("= waits" in text for text in texts(marked))


def test_the_loop_as_it_was_need_not_do_the_last_round():
    def scaled(out, a):
        for i in range(len(out)):
            out[i] = a[i] * 2.0

    def last(out, a):
        x = 0.0
        for i in range(len(out)):
            x = a[i] if a[i] > 0.5 else x
            out[i] = x
        return x

    marked = fj.jit(scaled, capture_mode="bytecode")
    for _ in range(3):
        marked(np.ones(100), np.ones(100))
    if fj.config.cpu == "avx512" and _core.cpu_features()["isa"] == "avx512":  # the rest is a vector with a count of lanes
        lines = texts(marked)[0].splitlines()
        (at,) = [i for i, line in enumerate(lines) if "store.f64x8" in line and " first " in line]
        (after,) = [line.split()[1].split("(")[0] for line in lines[at:] if line.strip().startswith("jump ")][:1]
        (head,) = [line for line in lines if line.strip().startswith(f"{after}(") and line.rstrip()[-1] != ")"]
        assert "loop depth" not in head  # behind the loop, not in its single rounds
    for n in range(40):
        out, a = np.zeros(n), np.linspace(0.0, 1.0, n)
        marked(out, a)
        assert np.array_equal(out, a * 2.0)
    carried = fj.jit(last, capture_mode="bytecode")
    for n in range(40):
        a = np.random.default_rng(n).random(n)
        out, expected = np.zeros(n), np.zeros(n)
        assert carried(out, a) == last(expected, a) and np.array_equal(out, expected)


@pytest.mark.parametrize("by", [1, 2, 3, 7, 9, 10, 255, 256, 257, 1000, 65535, 65537, 2**31 - 1])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16])
def test_quotients_and_products_of_small_integers(dtype, by):
    """They are products of halves of lanes, and shifts, in vectors of both sizes."""
    source = f"""
def quotients(out, rest, product, a, b):
    for i in range(len(out)):
        s = int(a[i]) + 3 * int(b[i])
        out[i] = s // {by}
        rest[i] = s % {by}
        product[i] = int(a[i]) * int(b[i]) * 3
"""
    names: dict = {}
    exec(source, names)
    marked = fj.jit(names["quotients"], capture_mode="bytecode")
    most = np.iinfo(dtype).max
    a, b = np.meshgrid(*[np.r_[np.arange(0, 23), most // 2, most - np.arange(5)].astype(dtype)] * 2)
    a, b = a.ravel(), b.ravel()
    if dtype is np.int16:
        a[::7] = np.iinfo(dtype).min
    for _ in range(3):
        results = np.zeros((3, len(a)), np.int64)
        marked(*results, a, b)
        s = a.astype(np.int64) + 3 * b.astype(np.int64)
        assert np.array_equal(results, [s // by, s % by, 3 * a.astype(np.int64) * b.astype(np.int64)])
    if dtype is not np.int16 and by > 1:
        assert any("store.i64x" in text for text in texts(marked))  # vectors


def test_sums_that_overflow_in_one_lane():
    """One check for all sums of a round; the round that overflows warns as NumPy does."""

    def sums(out, a, b):
        for i in range(len(out)):
            out[i] = a[i] + b[i] - (b[i] + 1) + (a[i] - 2)

    marked = fj.jit(sums, capture_mode="bytecode")
    most = np.iinfo(np.int64).max
    marked(np.zeros(40, np.int64), np.ones(40, np.int64), np.ones(40, np.int64))
    for place in range(21):
        for large, other in ((most, 1), (most, 0), (-most - 1, -1), (-most, 5), (3, most), (3, -most - 1)):
            a, b = np.arange(21), np.arange(21)
            a[place], b[place] = large, other
            expected = run(sums, (np.zeros(21, np.int64), a, b))
            check_same(expected, run(marked, (np.zeros(21, np.int64), a, b)), f"{place} {large} {other}")


@pytest.mark.parametrize("step", [-48, -8, -4, 0, 4, 8, 16, 48])
def test_columns_that_are_read_and_stored(step):
    """Rounds are apart if a step in memory is not shorter than a number; steps of 0 and of half a number overlap."""

    def reduced(a, q, f):
        for j in range(1, a.shape[1]):
            for i in range(a.shape[0]):
                a[i, j] -= q[i, 0] * f[j]

    def seen(function):
        memory = np.linspace(1.0, 2.0, 2000)
        a = np.ndarray((21, 3), np.float64, memory, 900 * 8, (step, 8))
        outcome = run(lambda *given: (function(*given), memory), (a, memory[:42].reshape(21, 2), memory[100:110]))
        return outcome

    marked = fj.jit(reduced, capture_mode="bytecode")
    for _ in range(3):
        check_same(seen(reduced), seen(marked), str(step))
    assert abs(step) < 8 or any("= waits" in text for text in texts(marked))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int32])
@pytest.mark.parametrize("condition", ["abs(k) <= 1.5", "k == 1", "k > x[0]", "not k"])
def test_conditions_that_no_round_changes(condition, dtype):
    """They are integers in all lanes, of which there are as many as fit, also if all that is stored is shorter."""
    scope = {}
    exec(f"def form(a, x, k):\n    for i in range(len(a)):\n        if {condition}:\n            a[len(a) - 1 - i] *= 2", scope)
    marked = fj.jit(scope["form"], capture_mode="bytecode")
    for k in (1, 1.5, np.float32(1), 2, 0):
        for n in (40, 17, 40):
            given = [(np.arange(n).astype(dtype), np.ones(3), k) for _ in range(2)]
            check_same(run(scope["form"], given[0]), run(marked, given[1]), f"{k!r} {n}")


def test_sums_of_powers_of_few_rounds():
    """They are added in lanes from a vector of rounds on, and four after each other before."""

    def nearest(points, centres, labels):
        for i in range(points.shape[0]):
            best, least = 0, np.inf
            for c in range(centres.shape[0]):
                total = 0.0
                for k in range(points.shape[1]):
                    total += (points[i, k] - centres[c, k]) ** 2
                if total < least:
                    best, least = c, total
            labels[i] = best
        return least

    marked = fj.jit(nearest, capture_mode="bytecode")
    rng = np.random.default_rng(0)
    for width in (20, 20, *range(20)):
        points, centres = rng.normal(size=(31, width)), rng.normal(size=(5, width))
        if width % 4 == 3:
            points[7, width - 1] = np.inf
        check_same(
            run(nearest, (points, centres, np.zeros(31, int))),
            run(marked, (points, centres, np.zeros(31, int))),
            f"{width}",
        )
    assert any("= add.lanes" in text and text.count("= call pow") >= 6 for text in texts(marked))


def test_what_the_last_round_knows():
    """It is in the last lane until the loop is left, also where a vector ends early."""

    def last_values(out, a, b):
        x = y = k = None
        for i in range(len(out)):
            x, y, k = a[i] * 2.0, b[i] - a[i], i
            out[i] = x + y
        return x, y, k

    def passing(out, a, b):
        x = 0.0
        for i in range(len(out)):
            x = a[i] + out[5]
            out[i] = x * b[i]
        return x

    for function in (last_values, passing):
        marked = fj.jit(function, capture_mode="bytecode")
        for length in (40, 40, *LENGTHS):
            for bad in (None, 0, 7, 8, 20):
                memory = np.linspace(1.0, 2.0, 3 * 40).reshape(3, 40)[:, :length].copy()
                if bad is not None and bad < length:
                    memory[1, bad] = np.inf
                if function is passing and length <= 5:
                    continue
                given = [memory.copy() for _ in range(2)]
                check_same(run(function, tuple(given[0])), run(marked, tuple(given[1])), f"{function.__name__} {length} {bad}")


def test_rows_that_are_read_again_are_stored_in_halves(monkeypatch):
    monkeypatch.setattr(fj.config, "num_threads", 1)
    if _core.cpu_features()["isa"] != "avx512" or fj.config.cpu == "avx2":
        pytest.skip("vectors of eight numbers")
    marked = fj.jit(added_rows, capture_mode="bytecode")
    for n in (21, 21, 22, 23, 24, 25, 12, 7, 4):
        a, b, out = np.random.default_rng(n).random((3, n * n))
        expected = out.copy()
        marked(out, a, b)
        added_rows(expected, a, b)
        assert np.array_equal(out, expected)
    assert any("store.f64x8" in text and "store.f64x4" in text and " first " not in text for text in texts(marked))


def test_short_inner_loops_poll_once():
    def blurred(out, a):
        for i in range(len(out) - 3):
            s = 0.0
            for k in range(4):
                s += a[i + k] * 0.25
            out[i] = s

    marked = fj.jit(blurred, capture_mode="bytecode")
    a = np.random.default_rng(1).random(200)
    for _ in range(3):
        out, expected = np.zeros(200), np.zeros(200)
        marked(out, a)
        blurred(expected, a)
        assert np.array_equal(out, expected)
    [text] = texts(marked)
    assert text.count("= waits") <= 2  # full vectors, and what is left


def test_paths_that_part_in_the_first_round_make_no_other_loop():
    marked = fj.jit(peaks)
    for _ in range(3):
        marked(*np.ones((3, 100)))
    [entry] = marked._report()["entries"]
    assert "loop depth 2" not in entry["graph"]
    assert f"{vector_type()} = load" in entry["graph"]


def test_a_loop_that_runs_for_long_is_compiled_once_more(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "measure")
    marked = fj.jit(scaled_sum)
    a, b = np.linspace(0.0, 1.0, 300000), np.linspace(3.0, -2.0, 300000)
    expected = a * 2.0 + b
    widened, errors = fj.stats()["loops_widened"], fj.stats()["internal_errors"]
    before = _core.set_widen_after(0)
    try:
        for run in range(30):  # both kernels have their turns
            out = np.empty_like(a)
            marked(out, a, b)
            assert np.array_equal(out, expected), run
            assert fj.stats()["loops_widened"] == widened + 1
    finally:
        _core.set_widen_after(before)
    assert fj.stats()["internal_errors"] == errors


def test_a_loop_that_is_entered_at_two_places_is_compiled_once_more(monkeypatch):
    """`peak` has no value in the first round, so that round is not like the others."""

    def local_peaks(a):
        found = 0
        for i in range(1, len(a) - 1):
            if a[i - 1] < a[i] > a[i + 1]:
                peak = i
                found += 1
        return found, peak

    monkeypatch.setattr(fj.config, "profitability", "measure")
    marked = fj.jit(local_peaks)
    a = np.random.default_rng(0).normal(size=3001)
    widened = fj.stats()["loops_widened"]
    before = _core.set_widen_after(0)
    try:
        for part in (a, a[:100], a[::3]) * 10:
            assert marked(part) == local_peaks(part)
        assert fj.stats()["loops_widened"] > widened
    finally:
        _core.set_widen_after(before)


def test_a_warning_comes_before_an_int_that_is_too_large():
    """Both leave the loop; rounds that are done at once find the int first."""

    def product(a, n):
        s, m = 1.5, 2
        for i in range(n):
            s = s * a[i]
            m = m * m
        return s, m

    def halves(a, n):
        s, m = 1.5, 2
        for i in range(n):
            if a[i] > 1e199:
                s = s * a[i]
            m = m * m + 1
        return s, m

    for function in (product, halves):
        for place in range(10):
            a = np.ones(12)
            a[place] = a[place + 1] = 1e200
            marked = fj.jit(function)
            marked(np.ones(12), 9)
            assert function is halves or any("= waits" in text for text in texts(marked))
            for n in (10, 11, 10):
                check_same(run(function, (a, n)), run(marked, (a, n)), f"{function.__name__} {place}")


def smoothed(out, a, rounds):
    for k in range(rounds):
        for i in range(len(a)):
            out[i] = out[i] * 0.5 + a[i]
    return k


def widened_in_one_call():
    """Whether a call of half a second changes to the other code while it runs; the loop is a new one."""
    marked = fj.jit(types.FunctionType(smoothed.__code__.replace(), globals()))
    a, out, expected = np.linspace(0.0, 1.0, 1000), np.zeros(1000), np.zeros(1000)
    for _ in range(300):  # equal from some round on
        expected = expected * 0.5 + a
    before = fj.stats()["loops_widened"]
    assert marked(out, a, 400_000) == 399_999
    assert np.array_equal(out, expected)
    return fj.stats()["loops_widened"] > before


def test_one_long_call_changes_to_code_for_several_rounds(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "measure")
    errors = fj.stats()["internal_errors"]
    assert widened_in_one_call()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(widened_in_one_call()))
    thread.start()
    thread.join()
    assert seen == [True]
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            code = 0 if widened_in_one_call() else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert fj.stats()["internal_errors"] == errors


THREADS = """
import os, sys
import numpy as np
import framejit as fj

def total(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i] * 2.0
    return s

def total_of_rows(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(x.shape[1]):
            s += x[i, j] * 2.0
    return s

function, x = {
    "short": (total, np.ones(300)), "long": (total, np.ones(1_000_000)), "nest": (total_of_rows, np.ones((30, 30)))
}[sys.argv[1]]
before = len(os.listdir("/proc/self/task"))
assert fj.jit(function)(x) == 2.0 * x.size
print(len(os.listdir("/proc/self/task")) - before, fj.stats()["kernel_calls"])
"""


@pytest.mark.parametrize(("kind", "is_watched"), [("short", False), ("long", True), ("nest", True)])
def test_first_runs_of_few_rounds_are_not_watched(kind, is_watched, tmp_path):
    """It takes longer to start the thread that watches than such loops run. Only for a while is it there after its loop."""
    environment = os.environ | {"FRAMEJIT_NUM_THREADS": "1", "FRAMEJIT_CACHE_DIR": str(tmp_path)}
    environment |= {"FRAMEJIT_PROFITABILITY": "measure", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    seen = set()
    for _ in range(6):  # all but the first process take the loop from the cache
        done = subprocess.run(
            [sys.executable, "-c", THREADS, kind], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        threads, loops = done.stdout.split()
        seen.add(threads)
        assert loops == "1"
    assert "1" in seen if is_watched else seen == {"0"}


def test_sums_of_integers_keep_their_exits(monkeypatch):
    def fibonacci(rounds):
        total = 0
        for first in range(rounds):
            a, b = 0, first
            for _ in range(30 + first % 90):
                a, b = b, a + b
            total = (total + a) % 1000003
        return total

    monkeypatch.setattr(fj.config, "profitability", "measure")
    before = _core.set_widen_after(0)
    try:
        marked = fj.jit(fibonacci)
        for rounds in (40, 300, 3000, 1, 0, 3000) * 4:  # beyond 64 bits from 63 rounds on
            assert marked(rounds) == fibonacci(rounds)
    finally:
        _core.set_widen_after(before)


def test_the_time_to_widen_is_a_number_from_zero_on():
    with pytest.raises(ValueError, match="nanoseconds must not be negative, but got -1"):
        _core.set_widen_after(-1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32], ids=str)
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_arrays_that_overlap(form, dtype):
    marked = fj.jit(form, capture_mode="bytecode")
    rng = np.random.default_rng(4)
    memory = rng.integers(-9, 9, 160).astype(dtype)
    for _ in range(2):
        for length in LENGTHS:
            for starts in ((0, 50, 100), (3, 3, 3), (4, 3, 50), (3, 4, 50), (10, 3, 50), (9, 50, 1), (20, 3, 17)):
                check_same(
                    seen(form, memory, length, starts),
                    seen(marked, memory, length, starts),
                    f"{form.__name__}, {length} from {starts}",
                )
    if dtype is np.float64:  # integers may warn at each store
        assert any(entry["kind"] == "loop" for entry in marked._report()["entries"])


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_results_that_are_not_finite(form):
    marked = fj.jit(form, capture_mode="bytecode")
    memory = np.linspace(0.5, 4.0, 160)
    for where in (None, *range(0, 34, 3)):
        for value in (np.inf, -np.inf, np.nan, 1.7e308):
            data = memory.copy()
            if where is not None:
                data[50 + where] = value
            starts = (0, 50, 100)
            check_same(
                seen(form, data, 33, starts),
                seen(marked, data, 33, starts),
                f"{form.__name__}, {value} at {where}",
            )


def temporaries(out, a, b):
    x = y = -1.0
    k = 0
    for i in range(len(out)):
        x = a[i] * 2.0
        if b[i] > 0.0:
            y = b[i] - x
            k = i
        out[i] = (x + y) * 0.5
    return x, y, k


def rows(out, a, b):
    value = row = 0
    for i in range(len(out)):
        value = a[i] - 3
        row = i + 2
        out[i] = value * b[i]
    return value, row


def of_int32(out, a, b):
    total = 0
    for i in range(len(out)):
        total = int(a[i]) + int(b[i])
        out[i] = total // 4
    return total


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32], ids=str)
@pytest.mark.parametrize("form", [temporaries, rows, of_int32], ids=lambda f: f.__name__)
def test_variables_of_the_last_round(form, dtype):
    marked = fj.jit(form, capture_mode="bytecode")
    rng = np.random.default_rng(6)
    memory = rng.integers(-9, 9, 300).astype(dtype)
    for _ in range(2):
        for length in (*LENGTHS, 40, 64, 79):
            for starts in ((0, 100, 200), (3, 3, 3), (4, 3, 150), (10, 3, 150)):
                expected, got = seen(form, memory, length, starts), seen(marked, memory, length, starts)
                check_same(expected, got, f"{form.__name__}, {length} from {starts}")


def test_temporaries_do_not_keep_rounds_apart():
    marked = fj.jit(rows)
    for _ in range(3):
        marked(*np.ones((3, 100)))
    [entry] = marked._report()["entries"]
    assert f"store.{vector_type()} " in entry["graph"] and "= lane " in entry["graph"]


def remainders(out, a):
    for i in range(len(out)):
        out[i] = a[i] % 8


def quotients(out, a):
    for i in range(len(out)):
        out[i] = a[i] // 8


@pytest.mark.parametrize("form", [remainders, quotients], ids=lambda f: f.__name__)
def test_divisions_by_powers_of_2_are_done_in_lanes(form):
    marked = fj.jit(form)
    least = np.iinfo(np.int64).min
    for length in (100, 3, 17, 100):
        a = np.arange(-50, 50)[:length]
        a[:2] = least, -(least + 1)
        expected, out = np.zeros((2, length), np.int64)
        form(expected, a)
        marked(out, a)
        assert np.array_equal(out, expected)
    [text] = texts(marked)
    assert "floordiv" not in text and "floormod" not in text
    assert "store.i64x" in text
