"""C functions that are followed as Python, given what they refuse: the same exception, at the call, or the same result."""

import functools
import itertools
import math
import operator

import framejit as fj
import numpy as np
import pytest

pytestmark = pytest.mark.capture

X = np.arange(4.0)
CALLS = {
    itertools.count: [(), (1,), (1.5, 2), ("a", "b"), ("a",), ([],), (1, "b"), (None,), (2j,), (True,), (True, 2), (10**20,)],
    itertools.repeat: [(1, 2), (1, -1), (1, 2.5), (1, "a"), (1, None), (1, True)],
    itertools.islice: [
        ("abc", -1), ("abc", 2), ("abc", 1, None), ("abc", 0, 3, 0), ("abc", 0, 3, -1), ("abc", 1.5), ("abc", "a"), ("abc", None),
        ("abc", -1, 2), ("abc", 1, 2, 2.5), (5, 2)
    ],
    itertools.combinations: [("abc", 2), ("abc", -2), ("abc", 1.5), ("abc", None), (5, 2), ("abc", 5), ("abc", 0), ("abc", True)],
    itertools.permutations: [("abc", 2), ("abc", -2), ("abc", 1.5), ("abc", None), (5, 2), ("abc", 5), ("abc", 0)],
    functools.partial(itertools.product, repeat=-1): [("ab",)],
    functools.partial(itertools.product, repeat=1.5): [("ab",)],
    functools.partial(itertools.count, step="a"): [()],
    functools.partial(itertools.repeat, times=2.5): [(1,)],
    itertools.accumulate: [([1, 2],), (1,), ([1, "a"],), ([1, 2], 5), ([1, 2], operator.mul)],
    itertools.chain: [("ab", 1), (1,)],
    itertools.starmap: [(pow, [(2, 3)]), (pow, 1), (5, [(1, 2)]), (pow, [1])],
    itertools.compress: [("abc", [1, 0, 1]), ("abc", 1), (1, [1])],
    filter: [(None, [0, 1]), (None, 1), (5, [1])],
    zip: [("ab", 1), ([1],)],
    functools.partial(zip, strict=True): [("ab", "c"), ("ab", "cd")],
    map: [(abs, [-1]), (abs, 1), (5, [1]), (abs,)],
    enumerate: [("ab",), ("ab", 1.5), (1,)],
    min: [(1, 2), ([],), (1,), ("a", 1)],
    sum: [([1], "a"), (["a"],), ([[1]], []), (5,), ([1], b""), ([], "a")],
    functools.partial(sum, start="a"): [([1],)],
    math.prod: [([2, 3],), ([1.5],), (["a"],), (5,)],
    functools.reduce: [(operator.add, [1, 2]), (operator.add, []), (5, [1, 2]), (operator.add, 5)],
    operator.itemgetter: [(), (1, 2)],
    operator.attrgetter: [(), (5,), ("real", 5)],
    operator.methodcaller: [(), (5,), ("conjugate", 1)],
}  # fmt: skip


def called(x, make, args):
    make(*args)
    return x * 2.0


def used(x, make, args):
    return x * 2.0, [item for _, item in zip(range(4), make(*args))]


def outcome(function, *args):
    try:
        return repr(function(*args))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("stress", [None, "rewrite"])
@pytest.mark.parametrize("make", CALLS, ids=lambda make: getattr(make, "__name__", repr(make)))
def test_what_is_refused_is_refused_at_the_call(make, stress):
    for args in CALLS[make]:
        for function in (called, used):
            expected = outcome(function, X, make, args)
            with fj.mark(function, stress=stress):
                for _ in range(3):
                    assert outcome(function, X, make, args) == expected, (function.__name__, args)
