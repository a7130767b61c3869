"""Functions that call cached ones, beside the same functions unmarked with caches of their own."""

from __future__ import annotations

import functools
import gc
import random
import sys
import weakref

import framejit
import numpy as np
import pytest
from ext.ext_support import hits, same

pytestmark = pytest.mark.capture

X = np.arange(6, dtype=np.float64).reshape(2, 3)


def world(size, typed):
    """A function, the caches that it calls and a log of what really ran."""
    log = []

    @functools.lru_cache(maxsize=size, typed=typed)
    def pair(a, b=0, *, c=0):
        log.append(("pair", a, b, c))
        if a == "raise":
            raise KeyError(b)
        return [a, b, c]

    @functools.lru_cache(maxsize=size, typed=typed)
    def array(n):
        log.append(("array", n))
        return np.full(3, n, np.float64)

    class Maker:
        @functools.lru_cache(maxsize=size, typed=typed)
        def made(self, n):
            log.append(("made", n))
            return (self, n)

    def call(x, step, a, b, m):
        y = x * 2
        if step == 0:
            return y, pair(a), array(2)
        if step == 1:
            return pair(a, b), y, pair(a, b=b)
        if step == 2:
            return y + array(1) * array(2), pair(a, c=b), m.made(b)[0] is m
        if step == 3:
            try:
                return y, pair("raise", b)
            except KeyError as e:
                return y + 1, e.args
        for i in range(3):
            y = y + array(i) + pair(1.0 * i)[0]
        return y

    return call, (pair, array, Maker.__dict__["made"]), log, Maker


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("size", [0, 1, 2, 5, None])
@pytest.mark.parametrize("seed", range(4))
def test_as_unmarked(size, typed, seed):
    rng = random.Random(seed)
    plain, caches, log, maker = world(size, typed)
    other, marked_caches, marked_log, marked_maker = world(size, typed)
    marked = framejit.jit(other)
    firsts = rng.sample([1, 1.0, True, "s", None, (1, 2), np.float64], 3)
    ours, theirs = [maker() for _ in range(2)], [marked_maker() for _ in range(2)]

    for _ in range(60):
        step = rng.randrange(5)
        a, b = rng.choice(firsts), rng.choice([0, 2, "t", -0.0])
        m = rng.randrange(2)
        same(plain(X, step, a, b, ours[m]), marked(X, step, a, b, theirs[m]))
        assert log == marked_log
        assert [c.cache_info() for c in caches] == [c.cache_info() for c in marked_caches]
        if rng.random() < 0.05:
            caches[1].cache_clear()
            marked_caches[1].cache_clear()


def test_the_result_is_the_kept_object():
    @functools.cache
    def kept(n):
        return [n]

    def f(x):
        r = kept(1)
        r.append(float(x[0, 0]))
        return x + len(r), r

    marked = framejit.jit(f)
    first = kept(1)
    for n in range(2, 6):
        y, r = marked(X)
        assert r is first and len(r) == n
        same(y, X + n)
    assert hits(marked) and kept.cache_info()[:2] == (4, 1)


def test_what_is_evicted_runs_again():
    runs = []

    @functools.lru_cache(maxsize=2)
    def kept(n):
        runs.append(n)
        return n

    @framejit.jit
    def f(x):
        return x + kept(1)

    for _ in range(4):
        same(X + 1, f(X))
    assert runs == [1] and hits(f) >= 2
    kept(2), kept(3)
    for _ in range(4):
        same(X + 1, f(X))
    assert runs == [1, 2, 3, 1]


def test_the_hit_makes_it_the_last_used():
    @functools.lru_cache(maxsize=2)
    def kept(n):
        return object()

    @framejit.jit
    def f(x):
        return x + 1, kept(1)

    for _ in range(3):
        one = f(X)[1]
    two = kept(2)
    assert f(X)[1] is one  # 2 is the oldest now
    kept(3)
    assert kept(1) is one and kept(2) is not two


def test_another_cache_under_the_name():
    def make(k):
        @functools.cache
        def kept(n):
            return n * k

        return kept

    names = {"kept": make(2)}
    exec("def f(x):\n    return x + kept(3)\n", names)
    marked = framejit.jit(names["f"])
    for _ in range(3):
        same(X + 6, marked(X))
    names["kept"] = make(5)
    for _ in range(3):
        same(X + 15, marked(X))
    assert names["kept"].cache_info()[:2] == (2, 1)


def test_nan_is_a_key_of_its_own():
    @functools.cache
    def kept(v):
        return [v]

    @framejit.jit
    def f(x, v):
        return x + 1, kept(v)

    one, two = float("nan"), float("nan")
    first = [f(X, v)[1] for v in (one, one, one, two, two)]
    assert first[0] is first[1] is first[2] and first[3] is first[4] and first[0] is not first[3]
    assert kept.cache_info()[:2] == (3, 2)


def test_keys_that_say_how_they_are_equal():
    asked = []

    class Key:
        def __init__(self, v):
            self.v = v

        def __hash__(self):
            asked.append("hash")
            return 7

        def __eq__(self, other):
            asked.append("eq")
            return self.v == other.v

    @functools.cache
    def kept(key):
        return [key.v]

    def f(x, key):
        return x * 2, kept(key)

    marked = framejit.jit(f)
    for function in (f, marked):
        kept.cache_clear()
        asked.clear()
        keys = [Key(1), Key(1), Key(2)]
        out = [function(X, k)[1] for k in keys for _ in range(2)]
        assert out[0] is out[3] and out[4] == [2]
        if function is f:
            expected = list(asked)
    assert asked == expected


def test_unhashable_arguments():
    @functools.cache
    def kept(v):
        return v

    def f(x, v):
        y = x + 1
        return y, kept(v)

    marked = framejit.jit(f)
    for _ in range(3):
        with pytest.raises(TypeError, match="unhashable type: 'list'"):
            marked(X, [1])
    assert kept.cache_info().misses == 0


def test_many_arguments_do_not_exhaust_the_function():
    @functools.cache
    def kept(name):
        return len(name)

    marked = framejit.jit(lambda x, name: x * 2 + kept(name))
    for i in range(40):
        same(X * 2 + len("n" * i), marked(X, "n" * i))
    assert not any("recompile_limit" in str(r.get("becomes")) for r in marked._report()["recompiles"])
    before = hits(marked)
    for i in range(40, 60):
        same(X * 2 + i, marked(X, "n" * i))
    assert hits(marked) > before


def test_nothing_is_kept_alive():
    class Thing:
        @functools.lru_cache(maxsize=1)
        def value(self):
            return 3

    @framejit.jit
    def f(x, t):
        return x * t.value()

    thing = Thing()
    for _ in range(4):
        same(X * 3, f(X, thing))
    assert hits(f)
    gone = weakref.ref(thing)
    Thing.value(Thing())
    del thing
    gc.collect()
    assert gone() is None
    cache = weakref.ref(Thing.__dict__["value"])
    del Thing
    gc.collect()
    assert cache() is None


def test_reference_counts_stay():
    @functools.lru_cache(maxsize=2, typed=True)
    def kept(n, k=None):
        return object()

    result, key = kept(1, k="text"), "text"
    f = framejit.jit(lambda x: (x + 1, kept(1, k="text")))
    for _ in range(5):
        f(X)
    counts = sys.getrefcount(result), sys.getrefcount(key)
    blocks = sys.getallocatedblocks()
    for _ in range(500):
        f(X)
    assert (sys.getrefcount(result), sys.getrefcount(key)) == counts
    assert abs(sys.getallocatedblocks() - blocks) < 50
