"""Functions of NumPy's inside compiled code: as steps of the plan, or as Python code that is followed."""

from __future__ import annotations

import signal

import framejit as fj
import numpy as np
import pytest
from exact.same import assert_same, assert_same_seen, observe

pytestmark = pytest.mark.capture


def whole(function, make_args, **options):
    marked = assert_same(function, make_args, fullgraph=True, **options)
    assert marked._report()["breaks"] == []
    return marked


def test_a_listed_function_is_a_step_of_the_graph():
    def function(x):
        return np.sort(x * 2.0, axis=0) + np.cumsum(x, axis=1)[::-1]

    marked = whole(function, lambda: (np.arange(12.0).reshape(3, 4),))
    assert marked.graphs().count("host_call") == 2
    before = fj.stats()["host_calls"]
    marked(np.ones((3, 4)))
    assert fj.stats()["host_calls"] == before + 2


def test_numbers_as_results_and_arguments():
    def function(x, shift):
        k = int(np.argmax(x))
        return x[0] + k, np.round(x * shift, 2), np.searchsorted(x, x.mean()), float(np.median(x) + 1)

    assert_same(function, lambda: (np.arange(9.0), 0.126))


def test_one_entry_serves_many_sizes():
    def function(x, y):
        return np.sort(x) + 1, np.pad(y, 2) * 2, np.repeat(x, 3) + 0.5, np.convolve(x, y), x @ np.outer(y, y)[: x.shape[0]]

    marked = fj.jit(function)
    for n in (50, 60, 70, 80, 300, 20, 1000):
        x, y = np.cos(np.arange(n)), np.sin(np.arange(n + 40))
        assert_same_seen(observe(function, (x, y)), observe(marked, (x, y)), f"n={n}")
    assert len(marked.cache_entries()) <= 4


def test_what_raises_raises_in_the_users_line():
    def function(x):
        y = x * 2.0
        return np.linalg.inv(y) + 1.0

    marked = assert_same(function, lambda: (np.zeros((3, 3)),))
    assert_same(function, lambda: (np.eye(3),))
    assert_same_seen(observe(function, (np.eye(4),)), observe(marked, (np.eye(4),)), "regular")
    assert_same_seen(observe(function, (np.ones((4, 4)),)), observe(marked, (np.ones((4, 4)),)), "singular")


def test_indices_out_of_bounds():
    def function(x, i):
        return x[i] + 1.0

    x = np.arange(5.0)
    marked = assert_same(function, lambda: (x.copy(), np.array([0, 4, -5])))
    for bad in ([5], [-6, 0]):
        assert_same_seen(observe(function, (x, np.array(bad))), observe(marked, (x, np.array(bad))), "out of bounds")


@pytest.mark.parametrize("how", ["ignore", "warn", "raise"])
def test_warnings_of_host_calls(how):
    def function(x):
        y = x + 1.0
        return np.cumsum(y * 1e308) + y, np.maximum.accumulate(y)

    assert_same(function, lambda: (np.ones(5),), {"all": how})
    assert_same(function, lambda: (-np.ones(5),), {"all": how})


def test_writes_before_a_call_that_fails_are_taken_back():
    def function(x, m):
        x += 1.0
        z = np.linalg.inv(m)
        x *= 2.0
        return z + x[0]

    assert_same(function, lambda: (np.arange(4.0), np.zeros((2, 2))))
    assert_same(function, lambda: (np.arange(4.0), np.eye(2)))


def test_a_signal_in_a_host_call_is_not_lost():
    fired = []

    def handler(number, frame):
        fired.append(number)
        raise TimeoutError("time is up")

    def function(x):
        return np.pad(x + 1.0, 3, mode="reflect") * 2.0

    marked = fj.jit(function)
    x = np.arange(10.0)
    marked(x)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(TimeoutError, match="time is up"):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            for _ in range(10_000_000):
                marked(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert fired


class Overriding:
    """Has a say in NumPy's functions."""

    def __array_function__(self, function, types, args, kwargs):
        return function.__name__


def test_array_function_is_respected():
    other = Overriding()

    def function(x):
        return np.roll(other, 1), np.stack([x, other]), np.concatenate((x, other)), np.sort(other), x + 1.0

    assert_same(function, lambda: (np.arange(3.0),))


def test_subclasses_keep_their_ways():
    def function(x):
        return np.sort(x), np.roll(x, 1), np.concatenate((x, x)), np.cumsum(x)

    assert_same(function, lambda: (np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]),))
    assert_same(function, lambda: (np.arange(3).astype(object),))


def test_a_replaced_function_is_called(monkeypatch):
    def function(x):
        return np.sort(x) + 1.0

    marked = fj.jit(function)
    x = np.array([3.0, 1.0, 2.0])
    assert marked(x).tolist() == [2.0, 3.0, 4.0]
    monkeypatch.setattr(np, "sort", lambda a: -a)
    assert marked(x).tolist() == [-2.0, 0.0, -1.0]


def test_results_are_not_views_of_the_plans_memory():
    def function(x):
        y = x * 2.0
        return np.tile(y, 2), np.sort(y), y[[0, 1]], y

    marked = whole(function, lambda: (np.arange(4.0),))
    first = marked(np.arange(4.0))
    kept = [a.copy() for a in first]
    marked(np.arange(4.0) + 7.0)
    for a, b in zip(first, kept):
        assert np.array_equal(a, b)


def test_masks_are_written_in_one_kernel():
    def function(x, y):
        x[x > y] = 0.0
        x[~(x > 1)] += y[0] if False else 0.0
        return x

    def masked(x, y):
        x[x > y] = 0.0
        return x + y

    assert_same(function, lambda: (np.arange(10.0), np.full(10, 4.5)))
    marked = whole(masked, lambda: (np.arange(10.0), np.full(10, 4.5)))
    assert "where" in marked.graphs() and "host_call" not in marked.graphs()


def test_where_computes_only_where():
    def function(x, y, out):
        np.divide(x, y, out=out, where=y != 0)
        np.log(out, out=out, where=out > 0)
        return out

    x, y = np.arange(5.0) - 1, np.array([0.0, 1.0, -2.0, 0.0, np.inf])
    marked = whole(function, lambda: (x, y, np.full(5, -7.0)))
    before = fj.stats()["kernel_calls"]
    with np.errstate(all="raise"):
        marked(x, y, np.full(5, -7.0))
    assert fj.stats()["kernel_calls"] > before
