"""defaultdicts from outside, beside the same function unmarked with objects of its own."""

from __future__ import annotations

import random
from collections import defaultdict

import framejit
import numpy as np
import pytest
from ext.ext_support import hits, same

pytestmark = pytest.mark.capture

X = np.arange(6, dtype=np.float64).reshape(2, 3)
KEYS = ["a", "b", 1, 2, None]


LINES = [
    "y = y + len(d)",
    "y = y * (1 + ({k!r} in d))",
    "n[{k!r}] += 2",
    "d[{k!r}].append(y)",
    "out.append(n[{k!r}])",
    "out.append(d.get({k!r}))",
    "out.append(n.get({k!r}, 7))",
    "n.setdefault({k!r}, 5)",
    "out.append(n.pop({k!r}, None))",
    "out.append([k for k in n])",
    "out.append(sorted(n.values()))",
    "out.append(dict(n))",
    "out.append(n.copy())",
    "out.append(n | {{{k!r}: 3}})",
    "out.append({{{k!r}: 3}} | n)",
    "n |= {{{k!r}: 4}}",
    "d[{k!r}] = [y]",
    "del n[{k!r}]",
    "out.append(n == dict(n))",
    "out.append(f[{k!r}])",
    "out.append(none[{k!r}])",
    "try: out.append(none[{k!r}])\n    except KeyError as error: out.append(error.args)",
    "n.default_factory = None",
]


def program(rng):
    lines = [rng.choice(LINES).format(k=rng.choice(KEYS)) for _ in range(rng.randrange(2, 7))]
    return "def f(x, d, n, f, none, out):\n    y = x * 2.0\n    " + "\n    ".join(lines) + "\n    return y + 1.0"


def state(seed):
    rng = random.Random(seed)
    count = iter(range(100))
    n = defaultdict(int, {k: rng.randrange(5) for k in rng.sample(KEYS, rng.randrange(4))})
    d = defaultdict(list, {k: [] for k in rng.sample(KEYS, rng.randrange(3))})
    f = defaultdict(lambda: next(count))
    none = defaultdict(None, {k: 1 for k in rng.sample(KEYS, rng.randrange(3))})
    return d, n, f, none, []


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    names = {}
    source = program(random.Random(seed))
    exec(source, names)
    plain, marked = names["f"], framejit.jit(names["f"])
    for call in range(12):
        seen = []
        for function in (plain, marked):
            objects = state(call % 5 * 100 + seed)
            try:
                result = function(X, *objects)
            except KeyError as error:
                result = error.args
            seen.append((result, [(type(o), list(o.items())) for o in objects[:4]], [(type(o), o) for o in objects[4]]))
        same(seen[0][0], seen[1][0])
        assert repr(seen[0]) == repr(seen[1]), source


def test_what_the_factory_makes_is_stored_once():
    made = []

    def make():
        made.append(1)
        return [len(made)]

    def f(x, d, k):
        first = d[k]
        first.append(3)
        return x * len(d[k]), first

    marked = framejit.jit(f)
    for _ in range(4):
        made.clear()
        d = defaultdict(make)
        y, first = marked(X, d, "k")
        same(X * 2, y)
        assert made == [1] and first == [1, 3] and d["k"] is first
    assert hits(marked) >= 2


def test_one_that_grows_does_not_exhaust_the_function():
    counts = defaultdict(int)

    @framejit.jit
    def f(x, name):
        counts[name] += 1
        return x * 2 + 1

    for i in range(40):
        same(X * 2 + 1, f(X, str(i)))
    assert counts == {str(i): 1 for i in range(40)}
    assert not any("recompile_limit" in str(r.get("becomes")) for r in f._report()["recompiles"])
