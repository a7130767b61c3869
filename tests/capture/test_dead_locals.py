"""Variables that an outer loop sets anew in each round: one version of its code, and the interpreter's values where it is left."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import framejit as fj

pytestmark = pytest.mark.capture


def last_frame_locals(function, *args):
    """The locals of the function where it raises, or what it returns."""
    try:
        return function(*args)
    except Exception as error:
        frame = error.__traceback__
        while frame.tb_next is not None:
            frame = frame.tb_next
        return type(error), str(error), frame.tb_lineno, frame.tb_frame.f_locals


def described(outcome):
    if isinstance(outcome, dict):
        return {name: described(value) for name, value in outcome.items()}
    if isinstance(outcome, tuple):
        return tuple(map(described, outcome))
    return type(outcome), repr(outcome)


def check(function, *argument_lists, calls=3):
    marked = fj.jit(function)
    for args in argument_lists * calls:
        assert described(last_frame_locals(marked, *args)) == described(last_frame_locals(function, *args)), args
    return marked


def loops(marked):
    return [entry for entry in marked._report()["entries"] if entry["kind"] == "loop"]


def kinds(x, n, stop, before=None):
    whole = real = flag = scalar = short = index = pair = number = before
    for i in range(n):
        if i == stop:
            i // (i - stop)
        for j in range(i % 3):
            whole = i * j
            real = i * 0.5 + j
            flag = i > j
            scalar = x[j] * 2.0
            short = x[j] > real
            index = len(x) - j
            pair = (i, j)
            number = complex(i, j)
    return whole, real, flag, scalar, short, index, pair, number


@pytest.mark.parametrize("before", [None, 7, 2.5, "text", [1], True, np.float64(3.0), np.arange(3)], ids=repr)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1", "?"])
def test_each_kind_of_value(before, dtype):
    x = np.ones(40, dtype)
    cases = [(x, 40, stop, before) for stop in (-1, 0, 1, 2, 3, 4, 5, 36)]
    marked = check(kinds, *cases)
    assert loops(marked)


def test_what_was_there_before_stays_the_same_object():
    def last(n, inner, held):
        for i in range(n):
            for _ in range(inner):
                held = i
        return held

    held = object()
    marked = fj.jit(last)
    for _ in range(4):
        assert marked(50, 0, held) is held
        assert marked(50, 3, held) == 49
    assert loops(marked)


def test_lists_stay_the_same_objects():
    def walk(rows, n, stop, held):
        for i in range(n):
            if i == stop:
                i // (i - stop)
            for j in range(i % 3):
                held = rows[j]
                held[0] += 1.0
        return held

    marked = fj.jit(walk)
    rows = [[float(k), 2.0] for k in range(3)]
    for held in (None, rows[2]):
        for _ in range(3):
            assert marked(rows, 60, -1, held) is rows[1]
            assert marked(rows, 1, -1, held) is held
            for stop in (0, 1, 2, 40):
                expected = last_frame_locals(walk, [[0.0], [1.0], [2.0]], 60, stop, held)
                assert described(last_frame_locals(marked, [[0.0], [1.0], [2.0]], 60, stop, held)) == described(
                    expected
                )
    assert loops(marked)


def test_variables_that_are_one_object():
    def nearest(x, n):
        best = least = -1.0
        for i in range(n):
            for j in range(3):
                best = x[i] + j
                least = best
        return best is least, best, least

    marked = check(nearest, (np.arange(50.0), 50))
    assert loops(marked)


def test_what_is_read_before_it_is_set():
    def sometimes(n, first):
        for i in range(n):
            if i >= first:
                total += i  # noqa: F821
            for j in range(2):
                total = i + j
        return total

    marked = check(sometimes, (60, 1), (60, 0), (60, 3))
    assert loops(marked)


def test_while_loops_and_breaks():
    def search(n, x):
        i = 0
        while i < n:
            j = 0
            while True:
                found = x[j] > i * 0.5
                if found:
                    where = j
                    break
                j += 1
            i += 1
        return i, j, found, where

    marked = check(search, (50, np.arange(60.0)), (70, np.arange(20.0)))
    assert loops(marked)


def many_locals():
    names = [f"v{k}" for k in range(80)]
    lines = ["def many(n):", "    for i in range(n):", "        for j in range(i % 2):"]
    lines += [f"            {name} = i + j + {k}" for k, name in enumerate(names)]
    lines += [f"    return {', '.join(names)}"]
    scope = {}
    exec("\n".join(lines), scope)
    return scope["many"]


def test_more_variables_than_have_a_bit():
    check(many_locals(), (60,), (1,), (0,))


def test_versions_of_a_deep_nest():
    """The variables of the inner loops do not double the versions of the loops around."""

    def deep(n):
        for i in range(n):
            for j in range(n):
                s = 0.0
                for k in range(n):
                    t = i + j
                    for m in range(n):
                        u = k + m
                        s += math.sqrt(t + u)
        return s, t, u, i, j, k, m

    # Where another thread asks for the GIL, an inner loop may go on in code of its own.
    entry = min(loops(check(deep, (6,), (7,))), key=lambda e: e["first_line"])
    # Each of the three outer loops would have a version for the round in which the variables inside are not set.
    assert entry["graph"].count("\nblock") < 35, entry["graph"]


def test_gauss_elimination_is_one_loop():
    def eliminate(a):
        n = len(a)
        for k in range(n):
            pivot = k
            for i in range(k + 1, n):
                if abs(a[i, k]) > abs(a[pivot, k]):
                    pivot = i
            if pivot != k:
                for j in range(n):
                    a[k, j], a[pivot, j] = a[pivot, j], a[k, j]
            for i in range(k + 1, n):
                factor = a[i, k] / a[k, k]
                for j in range(k, n):
                    a[i, j] -= factor * a[k, j]
        return a

    plain, marked = eliminate, fj.jit(eliminate)
    for seed in range(4):
        a = np.random.default_rng(seed).standard_normal((20, 20))
        assert np.array_equal(plain(a.copy()), marked(a.copy()))
    (entry,) = loops(marked)
    start = eliminate.__code__.co_firstlineno
    assert (entry["first_line"], entry["last_line"]) == (start + 2, start + 13)


def numbers_at_exits(marked):
    """How many numbers the exits of the loop give, together."""
    (entry,) = loops(marked)
    return sum(line.count("%") for line in entry["graph"].split("\n") if line.strip().startswith("exit"))


def test_a_function_that_returns_at_once_gets_no_other_number():
    def total_of(x):
        total = 0.0
        for i in range(len(x)):
            half = x[i] * 0.5
            square = half * half
            total += square
        return total

    def nothing_of(x):
        for i in range(len(x)):
            half = x[i] * 0.5
            x[i] = half * half

    def all_of(x):
        total = 0.0
        for i in range(len(x)):
            half = x[i] * 0.5
            square = half * half
            total += square
        return total, half, square

    x = np.arange(40.0)
    of_total, of_all = check(total_of, (x,)), check(all_of, (x,))
    assert numbers_at_exits(of_total) == numbers_at_exits(of_all) - len(["half", "square", "i"])
    of_nothing = fj.jit(nothing_of)
    for _ in range(4):
        given, expected = x.copy(), x.copy()
        assert of_nothing(given) is nothing_of(expected) is None
        assert given.tobytes() == expected.tobytes()
    (entry,) = loops(of_nothing)
    assert any(line.strip() == "exit1:" for line in entry["graph"].split("\n")), entry["graph"]


def test_iterators_stand_where_the_loop_left_them_though_nothing_reads_them():
    def some(numbers, stop):
        total = 0
        for i in numbers:
            total += i
            if i == stop:
                break
        return total

    marked = fj.jit(some)
    for stop in (3, 30, -1):
        for _ in range(4):
            given, expected = iter(range(2, 60)), iter(range(2, 60))
            assert marked(given, stop) == some(expected, stop)
            assert list(given) == list(expected)
    assert loops(marked)


def test_what_a_traceback_shows_where_the_result_has_no_value():
    def unset(n, stop):
        for i in range(n):
            square = i * i
            if i == stop:
                found = square
        return found

    marked = check(unset, (60, 5), (60, 70), (60, 59), (0, 0))
    assert loops(marked)


def test_generators_and_cells_keep_all_variables():
    def given(n):
        total = half = 0
        for i in range(n):
            half = i * 0.5
            total += i
        yield total
        return half

    def kept(n):
        total = half = 0
        for i in range(n):
            half = i * 0.5
            total += i
        return lambda: (half, total)

    def values(generator):
        found = []
        try:
            while True:
                found.append(next(generator))
        except StopIteration as end:
            return found, end.value

    marked_given, marked_kept = fj.jit(given), fj.jit(kept)
    for _ in range(4):
        assert values(marked_given(50)) == values(given(50))
        assert marked_kept(50)() == kept(50)()


def test_what_was_there_before_ends_no_later():
    class Loud:
        def __init__(self, log):
            self.log = log

        def __del__(self):
            self.log.append(f"gone in {sys._getframe(1).f_code.co_name}")

    def over(n, log):
        held = Loud(log)
        total = 0
        for i in range(n):
            held = i * 2
            total += held
        return total

    marked = fj.jit(over)
    for _ in range(4):
        given, expected = [], []
        assert marked(50, given) == over(50, expected)
        assert given == expected
