"""Sets and frozensets from outside, beside the same function unmarked with objects of its own."""

from __future__ import annotations

import copy
import gc
import random
import sys

import framejit
import numpy as np
import pytest
from ext.ext_support import hits, same

pytestmark = pytest.mark.capture

X = np.arange(6, dtype=np.float64).reshape(2, 3)
ELEMENTS = [0, 1, 2, 3, 17, "a", "b", None, True]


LINES = [
    "y = y + len(s)",
    "if s: y = y * 2.0",
    "if {e!r} in s: y = y - 1.0",
    "if {e!r} not in t: y = y * 1.5",
    "out.append([e for e in s])",
    "for e in t:\n        if e == {e!r}: y = y + 3.0",
    "s.add({e!r})",
    "t.add({e!r})",
    "s.discard({e!r})",
    "s.update([{e!r}, {g!r}])",
    "s.update(t)",
    "t |= {{{e!r}, {g!r}}}",
    "s.clear()",
    "out.append(sorted(s, key=repr) if len(s) < 9 else None)",
    "out.append(len(s & t))",
    "out.append({e!r} in (s | t))",
    "out.append(s == t)",
    "out.append(s <= f)",
    "out.append(s.isdisjoint(f))",
    "out.append(len(f.union(s)))",
    "out.append({e!r} in f)",
    "try: s.remove({e!r})\n    except KeyError as error: out.append(error.args)",
    "u = set(f)\n    u.add({e!r})\n    out.append(len(u))",
    "out.append(s.pop() if s else None)",
    "out.append(s is t)",
    "out.append(list(f))",
    "s = s - t",
]


def program(rng):
    lines = [rng.choice(LINES).format(e=rng.choice(ELEMENTS), g=rng.choice(ELEMENTS)) for _ in range(rng.randrange(2, 8))]
    return "def f(x, s, t, f, out):\n    y = x * 2.0\n    " + "\n    ".join(lines) + "\n    return y + 1.0, s"


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    rng = random.Random(seed)
    source = program(rng)
    names = {}
    exec(source, names)
    plain, marked = names["f"], framejit.jit(names["f"])
    for _ in range(12):
        s = set(rng.sample(ELEMENTS[:8], rng.randrange(4)))
        t = s if rng.random() < 0.2 else set(rng.sample(ELEMENTS[:8], rng.randrange(4)))
        f = frozenset(rng.sample(ELEMENTS[:8], rng.randrange(4)))
        seen = []
        # The order of a set that was copied may be another: each is made in the same way.
        for function in (plain, marked):
            a, b = set(list(s)), set(list(t))
            b = a if t is s else b
            out = []
            y, result = function(X, a, b, f, out)
            seen.append((y, list(result), result is a, list(a), list(b), out))
        same(seen[0][0], seen[1][0])
        assert seen[0][1:] == seen[1][1:], source


def test_the_elements_are_the_ones_that_are_there():
    one, other = (1, 2), tuple([1, 2])
    assert one is not other

    def f(x, s):
        return x + 1, [e for e in s]

    marked = framejit.jit(f)
    for element in (one, other, 1.5, float("1.5"), one):
        assert marked(X, {element})[1][0] is element


def test_an_element_that_is_there_is_kept():
    def f(x, s, e):
        s.add(e)
        return x + len(s)

    marked = framejit.jit(f)
    for first, second in ((1, True), (True, 1), ("a", "a"), (1, 1)):
        for function in (f, marked):
            s = {first}
            same(X + 1, function(X, s, second))
            assert list(map(type, s)) == [type(first)]


def test_a_mutation_while_it_is_iterated():
    def f(x, s):
        y = x
        for e in s:
            y = y + e
            s.add(e + 100)
        return y

    marked = framejit.jit(f)
    for _ in range(4):
        results = []
        for function in (f, marked):
            s = {1, 2}
            with pytest.raises(RuntimeError, match="Set changed size during iteration"):
                function(X, s)
            results.append(list(s))
        assert results[0] == results[1]


def test_effects_stand_in_order_where_it_raises():
    def f(x, s, d):
        s.add("begun")
        y = x * 2
        s.discard("idle")
        y = y + d["missing"]
        s.add("done")
        return y

    marked = framejit.jit(f)
    for _ in range(4):
        s = {"idle"}
        with pytest.raises(KeyError):
            marked(X, s, {})
        assert s == {"begun"}


def test_elements_with_an_equality_of_their_own():
    asked = []

    class E:
        def __hash__(self):
            return hash(3)

        def __eq__(self, other):
            asked.append(other)
            return other == 3

    def f(x, s):
        y = x * 2
        s.add(3)
        return y + (3 in s) + len(s)

    marked = framejit.jit(f)
    for make in (set, lambda: {E()}, set, lambda: {E(), "a"}):
        counts = []
        for function in (f, marked):
            asked.clear()
            s = make()
            same(function(X, s), X * 2 + 1 + len(s))
            counts.append(len(asked))
        assert counts[0] == counts[1]


def test_a_set_that_grows_does_not_exhaust_the_function():
    seen = set()

    @framejit.jit
    def f(x, name):
        y = x * 2
        if name not in seen:
            seen.add(name)
        return y + 1

    for i in range(40):
        same(X * 2 + 1, f(X, str(i)))
    assert seen == {str(i) for i in range(40)}
    assert not any("recompile_limit" in str(r.get("becomes")) for r in f._report()["recompiles"])
    before = hits(f)
    for i in range(20):
        same(X * 2 + 1, f(X, str(i)))
    assert hits(f) > before


def test_large_sets_are_not_looked_through_in_each_run():
    def add(x, s, e):
        y = x * 2
        s.add(e)
        return y + 1

    def ask(x, s):
        return x * 2 if 3 in s else x * 3

    for size in (10, 90, 110, 5000):
        for function, extra in ((add, (3,)), (ask, ())):
            marked = framejit.jit(function)
            s = set(range(0, 2 * size, 2))
            for _ in range(3):
                same(function(X, set(s), *extra), marked(X, s, *extra))
            looks = any("__hash__ in Python" in guard for entry in marked.cache_entries() for guard in entry["guards"])
            assert looks == (function is add and size < 100) and hits(marked)


def test_globals_and_attributes():
    class Options:
        def __init__(self):
            self.flags = {"scale", "shift"}

        def apply(self, x):
            if "scale" in self.flags:
                x = x * 2
            if "shift" in self.flags:
                x = x + 1
            return x

    o = Options()
    marked = framejit.jit(lambda x: o.apply(x))
    for flags in ({"scale", "shift"}, {"scale"}, set(), frozenset({"shift"}), {"scale", "shift"}):
        o.flags = flags
        for _ in range(3):
            same(o.apply(X), marked(X))
    o.flags.discard("scale")
    same(X + 1, marked(X))


@pytest.mark.parametrize("stress", ["verify", "guards", "break=3", "rewrite", "interp"])
def test_stress(stress):
    def f(x, s):
        y = x * 2
        s.add("k")
        if 1 in s:
            s.discard(1)
            s.update({4, 5})
        for e in (2, 3):
            if e in s:
                y = y + e
        return y, len(s)

    inputs = [{1, 2}, {1, 2}, {3}, set(), {1, 2}, {1, 2}]
    expected = [(f(X, s), list(s)) for s in copy.deepcopy(inputs)]
    with framejit.mark(f, stress=stress):
        for s, (result, order) in zip(inputs, expected):
            same(result, f(X, s))
            assert list(s) == order


def test_reference_counts_stay():
    element = "an element " + str(1)
    f = framejit.jit(lambda x, s: (x + 1, element in s, s.add(element)))
    s = {1, element}
    for _ in range(5):
        f(X, s)
    gc.collect()  # what other tests have left
    count, blocks = sys.getrefcount(element), sys.getallocatedblocks()
    for _ in range(500):
        f(X, s)
    gc.collect()
    assert sys.getrefcount(element) == count and abs(sys.getallocatedblocks() - blocks) < 50


def test_an_update_with_itself_moves_nothing():
    def f(x, n):
        made = {1, n}
        made.add(3)
        made.update(made)
        made |= made
        return x * 2.0, made, [*made]

    assert f(X, 11)[2] == [3, 1, 11]  # of eight places 3 has not got its own
    marked = framejit.jit(f, fullgraph=True)
    for _ in range(3):
        assert [*marked(X, 11)[1]] == marked(X, 11)[2] == [3, 1, 11]
