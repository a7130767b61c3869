"""Functions that are declared pure, inside compiled code."""

from __future__ import annotations

import gc
import signal
import weakref

import framejit as fj
import numpy as np
import pytest
from exact.same import assert_same

pytestmark = pytest.mark.capture

X = np.arange(6, dtype=np.float64) + 0.5


@fj.custom_op
def smooth(x):
    return np.sort(x, axis=0) * 0.5 + x[::-1] * 0.5


@fj.custom_op(shape=lambda x, y: (x[0], y[1]), dtype="float64")
def product(x, y):
    return np.asarray(x, "f8") @ np.asarray(y, "f8")


@fj.custom_op(shape=(3,), dtype=np.int64)
def extremes(x):
    return np.array([x.argmin(), x.argmax(), x.size])


@fj.custom_op
def total(x):
    return np.full(x.shape, x.sum())


def whole(function, make_args, **options):
    marked = assert_same(function, make_args, fullgraph=True, **options)
    assert marked._report()["breaks"] == []
    assert marked.graphs().count("graph @") == len(marked.cache_entries())
    return marked


def test_call_is_a_step_of_the_graph():
    def function(x):
        return smooth(x * 2.0) + smooth(x) * x

    x = np.linspace(0.0, 1.0, 50)
    marked = whole(function, lambda: (x.copy(),))
    assert marked.graphs().count("library_call") == 2
    before = fj.stats()
    marked(x)
    after = fj.stats()
    assert after["library_calls"] - before["library_calls"] == 2
    assert after["frames_captured"] - before["frames_captured"] == 1


def test_shape_and_dtype():
    def function(x, y):
        return product(x + 1, y) * 2, extremes(x) + 1

    marked = whole(function, lambda: (np.arange(6, dtype="f4").reshape(2, 3), np.ones((3, 4))))
    assert ": f64[2, 4]" in marked.graphs()
    assert ": i64[3]" in marked.graphs()


def test_equal_calls_are_one_and_unused_ones_none():
    def function(x):
        smooth(x * 3)
        return smooth(x) + smooth(x)

    marked = whole(function, lambda: (np.ones(8),))
    assert marked.graphs().count("library_call") == 1


def test_symbolic_lengths():
    def function(x):
        return smooth(x + 1) * 2

    marked = fj.jit(function, fullgraph=True, dynamic=True)
    for n in (3, 10, 77):
        assert np.array_equal(marked(np.arange(float(n))), function(np.arange(float(n))))
    assert len(marked.cache_entries()) == 1


@pytest.mark.parametrize(
    "view", [lambda a: a, lambda a: a[:, ::2], lambda a: a.T, lambda a: a[::-1], lambda a: a[:, :0], lambda a: a[1:2]]
)
def test_sums_follow_the_strides(view):
    data = np.random.default_rng(0).normal(size=(37, 210)).astype("f4")
    whole(lambda x: total(x) - x, lambda: (view(data.copy()),))


def test_writes_are_taken_back_where_it_raises():
    @fj.custom_op
    def picky(x):
        if x[0] > 2:
            raise ValueError(f"first is {x[0]}")
        return x + 1

    def function(x, out):
        out += 1
        out *= picky(x * 2)
        return out

    for value in (0.5, 4.0):
        marked = assert_same(function, lambda value=value: (np.full(3, value), np.zeros(3)))
    before = fj.stats()["internal_errors"]
    out = np.zeros(3)
    with pytest.raises(ValueError, match="first is 8.0"):
        marked(np.full(3, 4.0), out)
    assert out.tolist() == [1.0] * 3
    assert fj.stats()["internal_errors"] == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, TimeoutError])
def test_errors_of_signal_handlers_are_raised(error):
    left = 0  # calls up to the signal

    @fj.custom_op
    def noisy(x):
        nonlocal left
        left -= 1
        if left == 0:
            signal.raise_signal(signal.SIGUSR1)
        return x * 2

    def stop(*args):
        raise error("stopped")

    def plain(x):
        return noisy(noisy(x + 1))

    f = fj.jit(plain)
    expected = ((X + 1) * 4).tolist()
    before = signal.signal(signal.SIGUSR1, stop)
    try:
        for number in (1, 2):
            for g in (plain, f):
                assert g(X).tolist() == expected
                left = number
                with pytest.raises(error, match="stopped") as caught:
                    g(X)
                assert [entry.name for entry in caught.traceback][1:] == ["plain", "__call__", "noisy", "stop"]
                assert g(X).tolist() == expected
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    "result",
    [
        lambda x: x,
        lambda x: x[::-1],
        lambda x: x.astype("f4"),
        lambda x: x[:2].copy(),
        lambda x: float(x[0]),
        lambda x: None,
    ],
)
def test_other_results_are_the_interpreters(result):
    op = fj.custom_op(result)

    def function(x):
        y = x * 2
        return y, op(y)

    assert_same(function, lambda: (np.arange(4.0),))


def test_flags_around_the_call_are_reported():
    def function(x, y):
        z = x / y
        return smooth(z * 0 + 1) + z

    assert_same(function, lambda: (np.ones(4), np.zeros(4)))
    whole(function, lambda: (np.ones(4), np.ones(4)))


def test_arguments_that_are_no_arrays_break():
    op = fj.custom_op(lambda x, n: x * n)

    def function(x):
        return op(x + 1, 3) + 2

    marked = assert_same(function, lambda: (np.ones(3),))
    assert [b["id"] for b in marked._report()["breaks"]] == ["FJ003"]
    assert "custom_op" in marked._report()["breaks"][0]["detail"]


def test_operator_is_a_callable_like_its_function():
    assert smooth.__name__ == "smooth"
    assert "smooth" in repr(smooth)
    slope = lambda x, g: g  # noqa: E731
    assert fj.custom_op(abs, gradient=slope).gradient is slope
    assert np.array_equal(smooth(np.ones(3)), smooth.__wrapped__(np.ones(3)))
    for arguments, name in (({"shape": "3"}, "shape"), ({"gradient": 3}, "gradient"), ({"function": 3}, "function")):
        with pytest.raises(TypeError, match=f"'{name}' must be"):
            fj.custom_op(**{"function": abs, **arguments})


def test_operators_die():
    op = fj.custom_op(lambda x: x + 1)
    marked = fj.jit(lambda x, f: f(x) * 2)
    x = np.ones(3)
    assert marked(x, op).tolist() == [4.0] * 3
    dead = weakref.ref(op)
    del op
    gc.collect()
    assert dead() is not None  # the compiled entry is guarded by it
    marked.cache_clear()
    gc.collect()
    assert dead() is None
    assert marked(x, lambda x: x).tolist() == [2.0] * 3
