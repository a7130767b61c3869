"""Loops that end where they find something: several rounds are written out, and each can be the last one."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run

pytestmark = pytest.mark.capture


@pytest.fixture(autouse=True, params=["avx2", "avx512"])
def instruction_set(request, monkeypatch):
    monkeypatch.setattr(fj.config, "cpu", request.param)
    monkeypatch.setattr(fj.config, "profitability", "off")


def first_not_below(a, x):
    k = 0
    while a[k] < x:
        k += 1
    return k


def first_pair(a, x):
    k = 0
    while a[k + 1] < x or a[k] != a[k]:
        k += 1
    return k, a[k]


def place(a, x):
    for i in range(len(a)):
        if a[i] == x:
            break
    else:
        return -1
    return i


def place_from_behind(a, x):
    i = len(a) - 1
    while i >= 0 and a[i] != x:
        i -= 1
    return i


def two_ways_out(a, x):
    total, i = 0.0, 0
    while True:
        if a[i] > x:
            return "above", i, total
        if a[i] == 7.0:
            return "seven", i, total
        total += a[i]
        i += 1


def run_of_equals(a, x):
    longest, i = 0, 0
    while i < len(a):
        j = i
        while j < len(a) and a[j] == a[i]:
            j += 1
        longest = max(longest, j - i)
        i = j
    return longest + x


FORMS = (first_not_below, first_pair, place, place_from_behind, two_ways_out, run_of_equals)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int16, bool])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_search_ends_in_each_round(form, dtype):
    """Also where no item is found, so that an index is outside the array."""
    marked = fj.jit(form, capture_mode="bytecode")
    rng = np.random.default_rng(0)
    for length in (30, 30, 30, *range(12), 17):
        for at in range(length + 1):
            a = np.zeros(length, dtype) if at % 2 else rng.integers(0, 2, length).astype(dtype)
            a[at:] = 1 if dtype is bool else 9
            for x in (a.dtype.type(1), 0.5, 9):
                check_same(run(form, (a, x)), run(marked, (a, x)), f"{length} {at} {x}")
                check_same(run(form, (a[::-1], x)), run(marked, (a[::-1], x)), f"{length} {at} {x} backwards")


def test_the_rounds_of_a_search_are_written_out():
    marked = fj.jit(first_not_below, capture_mode="bytecode")
    a = np.arange(100.0)
    for _ in range(3):
        assert marked(a, 90.5) == 91
    [entry] = [entry for entry in marked._report()["entries"] if entry["kind"] == "loop"]
    text = entry["graph"]
    for offset in ("+16", "+24", "+32"):
        assert text.count(f"*8 {offset}\n") == 1, offset  # the items of the rounds behind the first, without checks
    rounds = text[text.index("# loop depth") :]
    assert rounds.count("= below") == 3  # one for all four rounds, and those of the first round and of the loop as it was


def test_a_search_of_its_own_is_a_loop():
    """Its first test stands in front of it, as a branch that an array decides."""
    for form, x in ((first_not_below, 80.0), (first_pair, 80.0), (place_from_behind, 3.0)):
        marked = fj.jit(form)
        a = np.arange(100.0)
        for _ in range(60):
            assert marked(a, x) == form(a, x)
        report = marked._report()
        assert [entry["kind"] for entry in report["entries"]] == ["loop"] and report["breaks"] == []


def test_a_search_of_a_list():
    def find(items, x):
        for i in range(len(items)):
            if items[i] == x:
                return i
        return -1

    marked = fj.jit(find)
    items = [float(i) for i in range(50)]
    for x in (*range(-1, 51), 3.5, float("nan")):
        assert marked(items, x) == find(items, x)


def test_an_int_that_is_too_large_for_an_index():
    """A sum that overflows is no index, so one check is enough for both."""

    def count(a, k):
        while a[k + 1] < 3.0:
            k += 1
        return k

    marked = fj.jit(count, capture_mode="bytecode")
    a = np.arange(10.0)
    for k in (0, 0, 0, 5, -2, -11, 2**63 - 1, 2**63 - 2, 2**63, -(2**63)):
        check_same(run(count, (a, k)), run(marked, (a, k)), str(k))


def test_a_signal_ends_a_search():
    import signal

    def endless(a, x):
        k = 0
        while a[k] != x:
            k = k + 1 if k < 90 else 0
        return k

    def stop(*_):
        raise TimeoutError

    marked = fj.jit(endless)
    marked(np.arange(100.0), 50.0)
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(TimeoutError):
            marked(np.arange(100.0), -1.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
