"""Functions under functools.lru_cache: what is kept is an object from outside, a miss is a break."""

import functools

import numpy as np

from capture_support import capture

X = np.arange(6.0).reshape(2, 3)


@functools.lru_cache(maxsize=4)
def table(n, scale=1):
    return [n * scale]


@functools.lru_cache(maxsize=0)
def never_kept(n):
    return n + 1


@functools.lru_cache(maxsize=None, typed=True)
def kept_by_type(n):
    return X + n


def test_a_hit_is_an_effect_and_an_object_from_outside():
    def f(x):
        return x * 2, table(3, scale=5)

    table.cache_clear()
    kept = table(3, scale=5)
    c = capture(f, X)
    assert c.returns and c.effects == ["hit table(3, scale=5)"]
    assert c.guard("table is <functools._lru_cache_wrapper object>") and c.guard("table(3, scale=5) is cached")
    assert c.result == "(array 0, <table(3, scale=5)>)"
    assert table.cache_info().hits == 0 and table(3, scale=5) is kept


def test_a_miss_breaks_as_long_as_nothing_is_kept():
    def f(x):
        y = x * 2
        return y + table(4)[0]

    table.cache_clear()
    c = capture(f, X)
    assert not c.returns and c.codes == ["FJ022"] and c.guards[-1] == "table(4) is not cached"
    assert table.cache_info() == (0, 0, 4, 0)
    table(4)
    assert capture(f, X).returns


def test_a_miss_has_no_guard_where_there_is_no_region():
    def f(x):
        return x * table(5)[0]

    table.cache_clear()
    c = capture(f, X)
    assert c.region is None and c.codes == ["FJ022"]


def test_what_is_never_kept_is_followed():
    def f(x, n):
        return x * never_kept(n)

    c = capture(f, X, 3)
    assert c.returns and c.effects == ["miss <functools._lru_cache_wrapper object>"] and c.ops[-1] == "multiply"
    assert never_kept.cache_info().misses == 0


def test_a_kept_array_is_an_input():
    def f(x):
        return x + kept_by_type(2)

    kept_by_type.cache_clear()
    kept_by_type(2.0)  # another key
    assert capture(f, X).codes == ["FJ022"]
    kept_by_type(2)
    c = capture(f, X)
    assert c.returns and sorted(c.inputs) == ["kept_by_type(2)", "x"]


def test_arguments_that_are_known_at_run_time_only_break():
    def f(x, n):
        return x * table(n)[0]

    table.cache_clear()
    table(3)
    assert capture(f, X, 3).guard("n == 3")
    c = capture(f, X, 3, capture_options={"varied": ("n",)})
    assert c.region is None and "of what varies" in c.breaks[0][1]


def test_methods_go_by_the_very_object():
    class C:
        @functools.cache
        def m(self, n):
            return n * 2

        @staticmethod
        @functools.cache
        def s(n):
            return n * 3

        @classmethod
        @functools.cache
        def c(cls, n):
            return n * 5

    class WithHash(C):
        def __hash__(self):
            return 1

    def f(x, o):
        return x * o.m(2) + C.s(2) + o.c(2)

    o = C()
    expected = f(X, o)
    c = capture(f, X, o)
    assert c.returns and c.guard("o is <C object>") and c.guard("o.m(<C object>, 2) is cached")
    assert len(c.effects) == 3
    assert np.array_equal(f(X, o), expected)
    other = WithHash()
    f(X, other)
    c = capture(f, X, other)
    assert c.region is None and "has an __eq__ of its own" in c.breaks[0][1]
