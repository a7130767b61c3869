"""What is slower compiled than as bytecode is left to the bytecode: by an estimate, and by the time of some runs of both."""

from __future__ import annotations

import dis
import gc
import sys
from collections import Counter

import framejit as fj
import numpy as np
import pytest
from ext.ext_support import hits, same
from framejit import _core

pytestmark = pytest.mark.capture

X = np.linspace(1.0, 2.0, 8)


class Clock:
    """Runs take what the test says, whatever they are."""

    def __init__(self) -> None:
        self.now = 0
        self.takes = {"start": 0, "compiled": 0, "bytecode": 0}
        self.read: Counter[str] = Counter()

    def __call__(self, what: str) -> int:
        self.read[what] += 1
        self.now += self.takes[what]
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "measure")
    clock = Clock()
    _core.set_clock(clock)
    yield clock
    _core.set_clock(None)


def run(marked, function, args, calls=200):
    for _ in range(calls):
        same(function(*args), marked(*args))


def captured(marked, args, calls=50):
    before = fj.stats()["frames_captured"]
    for _ in range(calls):
        marked(*args)
    return fj.stats()["frames_captured"] - before


def demoted(marked):
    return [entry["demoted"] for entry in marked._report()["entries"]]


def affine(x):
    return x * 2.0 + 1.0


def with_break(x):
    y = x * 2.0
    gc.isenabled()
    return y + 1.0


def moving_average(x, a):
    out = np.empty_like(x)
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = a * x[i] + (1.0 - a) * np.clip(out[i - 1], 0.0, 9.0)  # with this it is not compiled as a loop
    return out


def rounds(x, n, seen):
    total = np.zeros_like(x)
    for i in range(n):
        total = total * 0.5 + x * 2.0 + np.sqrt(x)
        seen.append(id(i) % 1)
    return total


# Whole calls.


@pytest.mark.parametrize("compiled, kept", [(500_000, True), (960_000, True), (990_000, False), (2_000_000, False)])
def test_calls_of_an_entry_are_compared(clock, compiled, kept):
    clock.takes.update(compiled=compiled, bytecode=1_000_000)
    marked = fj.jit(affine)
    run(marked, affine, (X,))
    assert clock.read["compiled"] >= 3 and clock.read["bytecode"] >= 3
    assert bool(demoted(marked)[0]) == (not kept)
    assert captured(marked, (X,)) == (50 if kept else 0)


def test_what_is_dropped_says_why(clock):
    clock.takes.update(compiled=2_000_000, bytecode=1_000_000)
    marked = fj.jit(affine)
    run(marked, affine, (X,))
    assert demoted(marked) == ["it was measured to be slower than plain Python"]
    call = fj.explain(with_break)
    for _ in range(100):
        explanation = call(X)
    assert "left to the interpreter: its calls were measured to be slower than plain Python" in str(explanation)


def test_an_estimate_saves_the_comparison(clock):
    clock.takes.update(compiled=10, bytecode=1)
    marked = fj.jit(affine)
    run(marked, affine, (X,))
    assert clock.read["bytecode"] == 0 and captured(marked, (X,)) == 50


@pytest.mark.parametrize("compiled, bytecode, once", [(1, 50, True), (4, 7, True), (4, 5, False), (0.4, 1.1, False)])
def test_a_long_run_of_the_bytecode_does_not_come_again(clock, compiled, bytecode, once):
    clock.takes.update(compiled=int(compiled * 1e6), bytecode=int(bytecode * 1e6))
    run(fj.jit(affine), affine, (X,))
    assert (clock.read["bytecode"] == 1) == once


@pytest.mark.parametrize("options", [{"fullgraph": True}, {"jit_level": "O1"}])
def test_what_was_asked_for_stays(clock, options):
    clock.takes.update(compiled=2_000_000, bytecode=1_000_000)
    marked = fj.jit(affine, **options)
    for _ in range(200):
        marked(X)
    assert captured(marked, (X,)) == 50 and clock.read["bytecode"] == 0


@pytest.mark.parametrize("name, value", [("profitability", "off"), ("profitability", "estimate"), ("stress", "losing")])
def test_settings_without_measuring(clock, monkeypatch, name, value):
    monkeypatch.setattr(fj.config, name, value)
    clock.takes.update(compiled=2_000_000, bytecode=1_000_000)
    marked = fj.jit(affine)
    run(marked, affine, (X,))
    assert clock.read["bytecode"] == 0 and captured(marked, (X,)) == 50


def test_what_is_kept_is_compared_again_later(clock):
    clock.takes.update(compiled=500_000, bytecode=1_000_000)
    marked = fj.jit(affine)
    run(marked, affine, (X,), 900)
    once = clock.read["bytecode"]
    clock.takes.update(compiled=2_000_000)
    assert captured(marked, (X,)) == 50 and clock.read["bytecode"] == once
    run(marked, affine, (X,))
    assert clock.read["bytecode"] > once and captured(marked, (X,)) == 0


@pytest.mark.not_sanitized(reason="its thousands of runs take a minute there")
def test_sizes_are_told_apart(clock):
    """An entry of all sizes may lose for few elements and win for many."""
    marked, few, many = fj.jit(affine, dynamic=True), np.ones(4), np.ones(1 << 20)
    marked(few)
    for x, compiled in ((few, 2_000_000), (many, 500_000)):
        clock.takes.update(compiled=compiled, bytecode=1_000_000)
        run(marked, affine, (x,), 600)
    assert len(marked.cache_entries()) == 1
    assert captured(marked, (many,), 10) == 10
    assert captured(marked, (few,), 10) == 0


def test_an_exception_ends_a_run(clock):
    def function(x, k):
        return x * 2.0 / np.ones(k)

    clock.takes.update(compiled=500_000, bytecode=1_000_000)
    marked = fj.jit(function)
    for call in range(100):
        run(marked, function, (X, 8), 1)
        with pytest.raises(ValueError):
            marked(X, 7 if call % 2 else 6)


def test_recursive_calls_within_a_run_of_the_bytecode(clock):
    def function(x, n):
        return x * 2.0 if n == 0 else marked(x, n - 1) + x

    def plain(x, n):
        return x * 2.0 if n == 0 else plain(x, n - 1) + x

    clock.takes.update(compiled=2_000_000, bytecode=1_000_000)
    marked = fj.jit(function)
    for _ in range(100):
        for n in range(4):
            same(plain(X, n), marked(X, n))


# Calls of spliced code.


@pytest.mark.parametrize("compiled, kept", [(500_000, True), (2_000_000, False)])
def test_calls_with_breaks_are_compared_as_a_whole(clock, compiled, kept):
    clock.takes.update(compiled=compiled, bytecode=1_000_000)
    marked = fj.jit(with_break)
    run(marked, with_break, (X,))
    assert clock.read["bytecode"] >= 3
    assert captured(marked, (X,)) == (50 if kept else 0)


def test_code_marked_in_place_is_compared(clock):
    def function(x):
        return x * 2.0 + 1.0

    clock.takes.update(compiled=2_000_000, bytecode=1_000_000)
    with fj.mark(function):
        for _ in range(200):
            same(affine(X), function(X))
        assert captured(function, (X,)) == 0 and clock.read["bytecode"] >= 3


def test_a_generator_is_not_compared_as_a_call(clock):
    @fj.jit
    def function(x, n):
        for _ in range(n):
            yield x * 2.0

    clock.takes.update(compiled=2_000_000, bytecode=1_000_000)
    for _ in range(30):
        for y in function(X, 3):
            same(X * 2.0, y)


def test_a_cleared_function_is_compared_anew(clock):
    clock.takes.update(compiled=2_000_000, bytecode=1_000_000)
    marked = fj.jit(with_break)
    run(marked, with_break, (X,))
    marked.cache_clear()
    clock.takes.update(compiled=500_000)
    run(marked, with_break, (X,))
    assert captured(marked, (X,)) == 50


def test_a_function_that_clears_itself_while_it_is_timed(clock):
    def function(x):
        y = x * 2.0
        marked.cache_clear()
        return y + 1.0

    clock.takes.update(compiled=2_000_000, bytecode=1_000_000)
    marked = fj.jit(function)
    for _ in range(50):
        same(X * 2.0 + 1.0, marked(X))


# Rounds of loops.


@pytest.mark.parametrize("compiled, kept", [(500_000, True), (2_000_000, False)])
def test_rounds_of_a_loop_are_compared(clock, compiled, kept):
    clock.takes.update(compiled=compiled, bytecode=1_000_000)
    marked = fj.jit(rounds)
    same(rounds(X, 500, []), marked(X, 500, []))
    assert clock.read["bytecode"] >= 3
    before = hits(marked)
    same(rounds(X, 100, []), marked(X, 100, []))
    assert (hits(marked) - before > 90) == kept
    assert any(demoted(marked)) == (not kept)


def test_rounds_that_are_left_in_the_middle(clock):
    def function(x, n, seen):
        for i in range(n):
            y = x * 2.0 + np.sqrt(x)
            seen.append(id(i) % 1)
            if i % 7 == 3:
                continue
            if i % 11 == 5:
                for _ in range(3):
                    seen.append(id(y) % 1)
            if i == n - 1:
                return y
        return x

    clock.takes.update(compiled=2_000_000, bytecode=1_000_000)
    marked = fj.jit(function)
    for n in (1, 2, 30, 200, 500, 30):
        ours, theirs = [], []
        same(function(X, n, ours), marked(X, n, theirs))
        assert ours == theirs


# The estimate.


@pytest.mark.parametrize("how, compiles", [("off", True), ("estimate", False), ("measure", False)])
def test_loops_over_elements(monkeypatch, how, compiles):
    monkeypatch.setattr(fj.config, "profitability", how)
    marked = fj.jit(moving_average)
    x = np.linspace(0.0, 1.0, 300)
    run(marked, moving_average, (x, 0.25), 3)
    report = marked._report()
    assert any("write" in entry["graph"] and entry["hits"] > 100 for entry in report["entries"]) == compiles
    # FJ026: the time for compilation ran out before, as under sanitizers.
    assert any(b["id"] in ("FJ025", "FJ026") for b in report["breaks"]) == (not compiles)


def test_loops_over_arrays_are_worth_it(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "estimate")
    marked = fj.jit(rounds)
    run(marked, rounds, (X, 60, []), 2)
    assert hits(marked) > 60 and "FJ025" not in [b["id"] for b in marked._report()["breaks"]]


# The budget.


def test_compiling_is_bounded_by_the_time_of_the_function(clock):
    def function(x, k, seen):
        seen.append(k)
        return x * 2.0 + 1.0

    clock.takes.update(start=30_000_000)
    marked = fj.jit(function)
    for kind in "fdFD":
        x = np.ones(3, kind)
        same(function(x, 1, []), marked(x, 1, []))
    made = len(marked.cache_entries())
    assert 1 <= made < 4 and "FJ026" in [b["id"] for b in marked._report()["breaks"]]
    clock.takes.update(start=1_000_000_000)  # it runs and runs
    for _ in range(8):
        marked(x, 1, [])
    assert len(marked.cache_entries()) > made


def test_what_pays_for_itself_is_compiled_bit_by_bit(clock):
    def function(x, k, seen):
        seen.append(k)
        for _ in range(20):
            x = x * 2.0 + 1.0
        return x

    def calls(first, last):
        for size in range(first, last):
            x = np.ones((3,) * size)
            same(function(x, 1, []), marked(x, 1, []))

    clock.takes.update(start=9_000_000)  # less than an entry is worth
    marked = fj.jit(function)
    calls(2, 10)
    made = len(marked.cache_entries())
    assert 2 <= made < 8 and "FJ026" not in [b["id"] for b in marked._report()["breaks"]]
    clock.takes.update(start=1_000_000_000)
    calls(2, 10)
    calls(2, 10)
    assert len(marked.cache_entries()) > made


@pytest.mark.parametrize("saved", [0, 100_000_000])
def test_what_was_measured_to_be_saved_pays_for_compiling(clock, saved):
    def summed(x):
        total = 0.0
        for i in range(len(x)):
            total += x[i]
        return total

    clock.takes.update(start=30_000_000)
    marked = fj.jit(summed)
    x, y = np.linspace(1.0, 2.0, 500), np.linspace(1.0, 2.0, 500, dtype=np.float32)
    same(summed(x), marked(x))
    made = len(marked.cache_entries())
    clock.takes.update(start=0, compiled=1_000_000, bytecode=1_000_000 + saved)
    run(marked, summed, (y,), 3)
    assert len(marked.cache_entries()) == made >= 1
    run(marked, summed, (x,), 40)
    run(marked, summed, (y,), 3)
    assert (len(marked.cache_entries()) > made) == (saved > 0)


def time_warping(a, b):
    n, m = len(a), len(b)
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        gc.isenabled()
        for j in range(1, m + 1):
            distance = np.real(a[i - 1] * 1j) + b[j - 1]  # a loop with this is not compiled as a loop
            cost[i, j] = distance + min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
    return cost[n, m]


def test_regions_of_elements_are_given_up_after_one_that_loses(clock):
    clock.takes.update(compiled=2_000_000, bytecode=1_000_000)
    marked = fj.jit(time_warping)
    # The first call compares, or the fourth: that depends on the instruction at which the first capture becomes too long.
    run(marked, time_warping, (np.linspace(0.0, 1.0, 29), np.linspace(0.0, 2.0, 29)), 4)
    assert sum(map(bool, demoted(marked))) <= 1  # none where not even one is left
    assert "FJ025" in [b["id"] for b in marked._report()["breaks"]]
    before = fj.stats()["kernel_calls"]
    marked(np.linspace(0.0, 1.0, 29), np.linspace(0.0, 2.0, 29))
    assert fj.stats()["kernel_calls"] - before < 100  # of 812 rounds


def test_wrong_setting():
    with pytest.raises(ValueError, match="profitability.*'measure', 'estimate' or 'off'.*'fast'"):
        fj.config.profitability = "fast"


def contracted(x, n, seen):
    total = x
    for i in range(n):
        seen.append(id(i) % 1)
        total = total * x + 0.1 * total
    return total


@pytest.mark.parametrize("compiled, kept", [(500_000, True), (2_000_000, False)])
def test_small_rounds_at_o1_have_the_bits_of_the_bytecode(clock, compiled, kept):
    """Which of the two runs is decided by time."""
    clock.takes.update(compiled=compiled, bytecode=1_000_000)
    marked = fj.jit(contracted, jit_level="O1")
    for _ in range(40):
        seen, also_seen = [], []
        same(contracted(X, 40, seen), marked(X, 40, also_seen))
        assert seen == also_seen
    regions = [entry for entry in marked._report()["entries"] if entry["kind"] == "region" and entry["hits"] > 40]
    assert regions and all(bool(entry["demoted"]) == (not kept) for entry in regions)


def doubled(x):
    y = x * 2
    gc.isenabled()
    return y + 1


@pytest.mark.parametrize("x, kept", [(X, True), (np.arange(8), False)])
def test_calls_at_o1_are_compared_if_they_have_the_bits_of_the_bytecode(clock, x, kept):
    clock.takes.update(compiled=2_000_000, bytecode=1_000_000)
    marked = fj.jit(doubled, jit_level="O1")
    run(marked, doubled, (x,))
    assert bool(captured(marked, (x,))) == kept


def sum_of_some(matrix, n, some, total):
    count = i = 0
    while i < n:
        i += 1
        gc.isenabled()
        j = 0
        while j < 3:
            j += 1
            count += 1
            if (i * 3 + j) % 7 < some:
                total = total + matrix**2
    return count, total


@pytest.mark.not_sanitized(reason="a run of the short loop takes longer than entering it there")
@pytest.mark.parametrize("some, kept", [(0, True), (1, False)])
def test_short_loops_that_many_runs_leave_early_are_given_up(some, kept):
    matrix = np.eye(3, dtype=complex)
    marked = fj.jit(sum_of_some)
    for _ in range(3):
        expected, actual = sum_of_some(matrix, 2000, some, matrix), marked(matrix, 2000, some, matrix)
        assert expected[0] == actual[0]
        same(expected[1], actual[1])
    inner = sum_of_some.__code__.co_firstlineno + 6
    loops = [entry for entry in marked._report()["entries"] if entry["kind"] == "loop" and entry["first_line"] == inner]
    assert loops and ("its loop is left in the middle of many rounds" in [entry["demoted"] for entry in loops]) == (not kept)


def called(x):
    y = x * 2.0
    gc.isenabled()
    return y + 1.0


def caller(x):
    y = called(x)
    gc.isenabled()
    return y * 3.0


@pytest.mark.parametrize("slow", [5, 8])
def test_a_time_with_a_turn_of_the_bytecode_in_it_does_not_give_a_caller_up(clock, slow):
    """The first runs are slow, and later ones have the turns of a callee in them, so half of the times say nothing."""
    clock.takes.update(bytecode=800_000)
    marked = fj.jit(caller)
    for _ in range(160):
        clock.takes["compiled"] = 800_000 if clock.read["compiled"] < slow else 100_000
        same(caller(X), marked(X))
    assert not any(demoted(marked))


def test_large_rounds_at_o1_are_not_measured(clock):
    clock.takes.update(compiled=2_000_000, bytecode=1_000_000)
    marked = fj.jit(contracted, jit_level="O1")
    x = np.linspace(0.5, 0.9, 5000)
    for _ in range(10):
        np.testing.assert_allclose(contracted(x, 40, []), marked(x, 40, []), rtol=1e-12)
    assert not any(demoted(marked))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the interpreter's own instructions are in the code from its start")
def test_the_bytecode_is_prepared_before_it_has_its_turn(clock):
    """CPython 3.11 does so after eight calls: a loop by `while` would be timed as it never is again."""

    def words(text):
        y, found = X * 2.0, 0
        gc.isenabled()
        i = 0
        while i < len(text):
            i += text[i].isspace()
            i += 1
            found += 1
        return y, found

    def is_prepared():
        names = [instruction.opname for instruction in dis.get_instructions(words, adaptive=True)]
        return any("__" in name or "ADAPTIVE" in name for name in names)

    clock.takes.update(compiled=100_000, bytecode=100_000)
    marked = fj.jit(words)
    while not clock.read["bytecode"]:
        assert not is_prepared()
        marked("some words in a row")
    assert is_prepared()
