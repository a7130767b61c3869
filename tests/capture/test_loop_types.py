"""Loops in which variables change their type, or hold one object with others, in some rounds: one version of the code."""

from __future__ import annotations

import math

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run

pytestmark = pytest.mark.capture


def dots(a, x, out):
    for i in range(a.shape[0]):
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * x[k]
        out[i] = total
    return total, type(total)


def around(grid, out):
    for i in range(grid.shape[0]):
        for j in range(grid.shape[1]):
            count = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if di != 0 or dj != 0:
                        count += grid[(i + di) % grid.shape[0], (j + dj) % grid.shape[1]]
            out[i, j] = 1 if count == 3 or (count == 2 and grid[i, j] == 1) else 0
    return count, type(count)


def both_kinds(a, out):
    """What is done with the number differs by its type: quotients, powers, results."""
    mean = last = 0.0
    for i in range(a.shape[0]):
        share = 1.0
        for k in range(a.shape[1]):
            if a[i, k] > 0.0:
                share = share + a[i, k]
            last = share * 0.5
            mean = last / (k + 1)
        out[i] = abs(share) + share**2 + max(share, mean)
    return mean, last, share, type(mean), type(last), type(share), (share, i)


def compared(a, n):
    """Comparisons with Python's numbers, and the number as a condition."""
    hits = 0
    for i in range(n):
        level = 0
        for k in range(a.shape[0]):
            if level < 5:
                hits += 1
            if level:
                hits += 2
            if not level > k:
                level = level + a[k]
    return hits, level, type(level)


def kept(a, n):
    """In lists and tuples, in other variables, as an argument."""
    found = []
    pair, other = (0.0, 0), 0.0
    for i in range(n):
        top = 0.0
        for k in range(a.shape[0]):
            if a[k] > top:
                top = a[k]
            other = top
            pair = (top, k)
    found.append(top)
    return found, [type(v) for v in (*found, *pair, other)], len(a) == 0 or other is top


def indices(a, places, n):
    at = 0
    for i in range(n):
        place = 0
        for k in range(places.shape[0]):
            at += int(a[place])
            place = places[k]
    return at, place, type(place)


def nearest(points, labels, centres):
    for i in range(points.shape[0]):
        best, least = 0, np.inf
        for c in range(centres.shape[0]):
            total = 0.0
            for k in range(points.shape[1]):
                total += (points[i, k] - centres[c, k]) ** 2
            if total < least:
                best, least = c, total
        labels[i] = best
    return best, least, total, c, len(centres[0]) == 0 or least is total, best is c


def unreached(a):
    low, high = np.inf, -math.inf
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            if a[i, k] < low and a[i, k] > 1e300:
                low = a[i, k]
            if a[i, k] > high:
                high = a[i, k]
    return low, high, type(low), type(high)


def largest(x, stop):
    """One loop; it is left in the middle of a round with what was found until then."""
    at = value = big = i = item = None
    try:
        at, big = 0, x[0]
        for i in range(1000, 1000 + stop):
            item = x[i - 1000]
            if item > big:
                at, big = i, item
            value = item * 2.0
    except IndexError:
        pass
    return at, big, i, item, value, big is item, at is i


def bits(n, start):
    total = rest = number = 0
    for number in range(start, start + n):
        rest = number
        while rest:
            rest &= rest - 1
            total += 1
            if total == 700:
                return total, rest, number, rest is number
    return total, rest, number, rest is number


def swapped(x, n):
    """The same variables hold one object in both directions."""
    a = b = 5000
    c = 0
    for i in range(n):
        for k in range(x.shape[0]):
            if x[k] > 0:
                a = i + k + 1000
                b = a
            else:
                b = i + 3000
                a = b
            if k == 3:
                c = a
    return a, b, c, a is b, a is c


def horner(x, n):
    """Python's arithmetic on the number, which may be one of NumPy by then."""
    total = 0.0
    for i in range(n):
        at, value, count = i / 7, 1.0, 1
        for k in range(x.shape[0] - 1, -1, -1):
            value = value * at + x[k]
            value = (value - 0.5) / 2.0
            count = (count * 3 + i) % 1000 ^ 5
            if x[k] > 0.5:
                count = count + np.int64(k)
        total += value
        total -= count // 3
    return total, type(total), value, type(value), count, type(count)


def polynomial(x, n):
    total = 0.0
    for i in range(n):
        at, value = i / n, 0.0
        for k in range(x.shape[0]):
            value = value * at + x[k]
        total += value
    return total


def zero_divisors(x, n):
    share, part = 1.0, 100
    for i in range(n):
        for k in range(x.shape[0]):
            share = share / (k - 5.0) if x[k] < 0 else share + x[k]
            part = part // (k - 7) if x[k] < -1 else part + np.int64(1)
    return share, part


def record(n):
    """Where two variables have begun as one constant, and one is negative at times."""
    best = longest = low = 0
    for start in range(1, n):
        x, steps = start, 0
        while x != 1:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            steps += 1
        if steps > longest:
            best, longest = start, steps
        low = 40 - steps
    return best, longest, low, best is longest, x, steps, start


PROGRAMS = {
    "dots": (dots, lambda n: (np.random.default_rng(n).normal(size=(6, n)), np.arange(1.0, n + 1), np.zeros(6))),
    "around": (around, lambda n: (np.random.default_rng(n).integers(0, 2, (7, n + 1)), np.zeros((7, n + 1), np.int64))),
    "both_kinds": (both_kinds, lambda n: (np.random.default_rng(n).normal(size=(9, n)), np.zeros(9))),
    "compared": (compared, lambda n: (np.arange(n), 7)),
    "kept": (kept, lambda n: (np.random.default_rng(n).normal(size=n), 5)),
    "nearest": (nearest, lambda n: (np.random.default_rng(n).normal(size=(7, n)), np.zeros(7), np.random.default_rng(1).normal(size=(5, n)))),
    "unreached": (unreached, lambda n: (np.random.default_rng(n).normal(size=(6, n)),)),
    "largest": (largest, lambda n: (np.random.default_rng(n).normal(size=n + 1), n + 3)),
    "largest_last": (largest, lambda n: (np.arange(n + 1.0), n + 3)),
    "bits": (bits, lambda n: (11 * n, 1000)),
    "swapped": (swapped, lambda n: (np.random.default_rng(n).normal(size=n), 9)),
    "horner": (horner, lambda n: (np.random.default_rng(n).normal(size=n), 8)),
    "polynomial": (polynomial, lambda n: (np.random.default_rng(n).normal(size=n), 8)),
    "zero_divisors": (zero_divisors, lambda n: (np.random.default_rng(n).normal(size=n), 4)),
    "record": (record, lambda n: (50 * n,)),
    "indices": (indices, lambda n: (np.arange(n + 1), np.random.default_rng(n).integers(0, n + 1, n), 6)),
}


@pytest.mark.parametrize("stress", [None, "rewrite", "break=3", "guards", "interp"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_types(name, stress):
    function, make = PROGRAMS[name]
    marked = fj.jit(function) if stress is None else None
    before = fj.stats()["internal_errors"]
    for n in (9, 1, 16, 0, 17):
        for _ in range(3):
            want = run(function, make(n))
            if marked is not None:
                check_same(want, run(marked, make(n)), name)
            else:
                with fj.mark(function, stress=stress):
                    check_same(want, run(function, make(n)), name)
    assert fj.stats()["internal_errors"] == before


@pytest.mark.parametrize(("name", "work", "times"), [("dots", "f64 = mul", 1), ("around", "floormod", 2), ("nearest", "call pow", 1)])
def test_a_round_is_translated_once(name, work, times, monkeypatch):
    """Its work is there twice: with the checks of indices, and for indices that are known to be inside."""
    monkeypatch.setattr(fj.config, "profitability", "estimate")
    function, make = PROGRAMS[name]
    marked = fj.jit(function)
    for _ in range(2):
        marked(*make(40))
    loops = [e for e in marked._report()["entries"] if e["kind"] == "loop"]
    entry = min(loops, key=lambda e: e["first_line"])  # an inner loop may have become hot first
    assert entry["graph"].count(work) == 2 * times, entry["graph"]


def test_a_nest_that_branches_has_one_version_of_each_loop(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "estimate")
    marked = fj.jit(record)
    for _ in range(3):
        marked(600)
    (entry,) = [e for e in marked._report()["entries"] if e["kind"] == "loop"]
    assert entry["graph"].count("mul.exact") == 2, entry["graph"]  # the first round of the inner loop is one by itself


@pytest.mark.parametrize("first", [0.0, 1e308, np.float64(1e308)])
def test_overflow_warns_if_the_number_is_one_of_numpy(first):
    def grow(a, first, n):
        for i in range(n):
            total = first
            for k in range(a.shape[0]):
                total = total * 10.0 if a[k] < 0 else total + a[k]
        return total, type(total)

    for a in (np.ones(40), -np.ones(40), np.where(np.arange(40) == 7, 1.0, -1.0)):
        marked = fj.jit(grow)
        for _ in range(3):
            check_same(run(grow, (a, first, 3)), run(marked, (a, first, 3)), "grow")
