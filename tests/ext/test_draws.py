"""Draws from np.random.Generator in compiled code: the exact stream, also if a run comes to nothing."""

from __future__ import annotations

import pickle
import sys
import threading
import types
import warnings

import framejit as fj
import numpy as np
import pytest
from exact.same import assert_same_value
from framejit import _core

# Before NumPy 2.4, the thread that holds the lock of a generator cannot draw from it.
REENTRANT = isinstance(np.random.default_rng().bit_generator.lock, type(threading.RLock()))
pytestmark = [pytest.mark.capture, pytest.mark.skipif(not REENTRANT, reason="draws are left to the interpreter")]

BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


@pytest.fixture(autouse=True)
def estimated(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "off")


def generator(bits: str = "PCG64", seed: int = 5) -> np.random.Generator:
    rng = np.random.Generator(getattr(np.random, bits)(seed))
    rng.integers(0, 10, dtype=np.uint32)  # leaves half a number in the state of most
    return rng


def state(rng: np.random.Generator) -> bytes:
    return pickle.dumps(rng.bit_generator.state)


def seen(function, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*args)
        except Exception as error:
            result = type(error), str(error)
    return result, [str(w.message) for w in caught]


def check(function, *more, calls: int = 4, bits: str = "PCG64", marked=None, **options):
    """Calls of both, with draws of the program's own in between, from generators that began alike."""
    marked = marked or fj.jit(function, **options)
    plain, ours = generator(bits), generator(bits)
    for _ in range(calls):
        expected, found = seen(function, plain, *more), seen(marked, ours, *more)
        assert_same_value(expected, found)
        assert state(plain) == state(ours)
        assert_same_value(plain.random(3), ours.random(3))
    return marked


def library_calls(marked) -> int:
    return marked.graphs().count("library_call")


X = np.linspace(0.5, 2.0, 300)


@pytest.mark.parametrize("draw", [
    "rng.random(300)", "rng.random(size=(100, 3), dtype=np.float32)", "rng.standard_normal(300)", "rng.normal(size=300)",
    "rng.normal(1.0, x)", "rng.normal(x, 2.0, size=(2, 300))", "rng.normal(0.5, 0.25, (10, 30))", "rng.uniform(-1, 1, len(x))",
    "rng.integers(10, size=300)", "rng.integers(0, 5, size=300, dtype=np.int8, endpoint=True)", "rng.integers(0, 2, 300, dtype=bool)",
    "rng.standard_exponential(300, np.float32, 'inv')", "rng.exponential(2.0, 300)", "rng.exponential(x)",
    "rng.choice(x, 200)", "rng.choice(x, size=(20, 5), replace=False)", "rng.choice(300, 100)", "rng.permutation(x)",
    "rng.permutation(300)", "rng.permuted(x)", "rng.poisson(3.0, 300)", "rng.poisson(x, (2, 300))", "rng.binomial(10, 0.3, 300)", "rng.gamma(x, 2.0)",
    "rng.standard_t(5, 300)", "rng.triangular(0, 1, 2, 300)", "rng.beta(2.0, 3.0, x.shape)", "rng.random(shape)",
])  # fmt: skip
def test_methods(draw):
    world = {"np": np, "shape": (3, 100)}
    exec(f"def function(rng, x):\n    y = x * 2.0\n    return {draw}, y + 1.0", world)
    marked = check(world["function"], X, fullgraph=True)
    assert library_calls(marked) == 1


@pytest.mark.parametrize("bits", BIT_GENERATORS)
@pytest.mark.parametrize("stress", ["", "interp", "verify", "guards", "break=2", "losing"])
def test_order(bits, stress):
    def function(rng, x):
        a = rng.random(100)
        b = rng.random(100)  # the same call, and another result
        rng.integers(0, 1 << 20, size=101, dtype=np.uint32)  # whose result is not used
        return a - b, rng.normal(size=300) * x, (a < b).sum()

    if stress:
        plain = types.FunctionType(function.__code__.replace(), globals())
        with fj.mark(function, stress=stress):
            check(plain, X, bits=bits, marked=function)
        return
    marked = check(function, X, bits=bits, fullgraph=True)
    assert library_calls(marked) == 4


def test_each_call_may_have_another_generator():
    marked = fj.jit(lambda rng, x: rng.normal(size=300) + x, fullgraph=True)
    plain = marked.__wrapped__
    for seed in range(20):
        bits = BIT_GENERATORS[seed % 5]
        assert_same_value(plain(generator(bits, seed), X), marked(generator(bits, seed), X))
    assert len(marked.cache_entries()) == 1


def test_two_generators_and_two_names_of_one():
    def function(a, b, x):
        return a.random(100), b.normal(size=300) + x, a.integers(0, 9, 100), b.random(70)

    marked = fj.jit(function, fullgraph=True)
    for same in (False, True, False):
        plain, ours = ([generator(seed=1), generator(seed=2)] for _ in range(2))
        if same:
            plain[1], ours[1] = plain[0], ours[0]
        for _ in range(3):
            assert_same_value(function(*plain, X), marked(*ours, X))
            assert [state(rng) for rng in plain] == [state(rng) for rng in ours]
    bits = np.random.PCG64(3), np.random.PCG64(3)
    plain, ours = ([np.random.Generator(of), np.random.Generator(of)] for of in bits)
    assert_same_value(function(*plain, X), marked(*ours, X))
    assert bits[0].state == bits[1].state


RNG = generator()


class Holder:
    def __init__(self) -> None:
        self.rng = generator()

    def noisy(self, x):
        return x + self.rng.normal(0.0, 0.1, size=x.shape)


def test_generators_of_globals_and_instances():
    marked = fj.jit(lambda x: RNG.random(300) * x, fullgraph=True)
    plain = generator()
    for _ in range(3):
        assert_same_value(marked(X), plain.random(300) * X)
    first, second = Holder(), Holder()
    noisy = fj.jit(Holder.noisy, fullgraph=True)
    for _ in range(3):
        assert_same_value(noisy(first, X), second.noisy(X))


def test_runs_that_come_to_nothing():
    def warns(rng, x):
        a = rng.normal(size=300)
        return np.log(x - 1.0) + a, rng.random(100)

    marked = check(warns, X, calls=6)
    assert library_calls(marked) >= 1

    def raises(rng, scale, x):
        a = rng.random(300)
        return a + rng.normal(0.0, scale) * x

    check(raises, np.full(300, 0.5), X)
    wrong = np.full(300, 0.5)
    wrong[250] = -1.0  # after 250 draws
    marked = fj.jit(raises)
    check(raises, np.full(300, 0.5), X, marked=marked)
    check(raises, wrong, X, marked=marked)
    assert seen(raises, generator(), wrong, X)[0] == (ValueError, "scale < 0")

    def branches(rng, x):
        a = rng.random(300)
        if (x + a).sum() > 500.0:
            return a, rng.normal(size=100)
        return a * 2.0, rng.random(100)

    marked = fj.jit(branches)
    for scale in (1.0, 9.0, 1.0, 9.0):
        check(branches, X * scale, marked=marked)


def test_in_place_stores_next_to_draws():
    def function(rng, x, out):
        out[...] = rng.random(300) * x
        out += rng.normal(size=300)
        return np.sqrt(out)

    plain, ours, a, b = generator(), generator(), np.zeros(300), np.zeros(300)
    marked = fj.jit(function)
    for _ in range(4):
        assert_same_value(seen(function, plain, X, a), seen(marked, ours, X, b))
        assert_same_value(a, b)
        assert state(plain) == state(ours)


def test_after_a_break():
    def function(rng, x, log):
        a = rng.random(100)
        log.append(str(a[0]))
        return a, rng.normal(size=300) * x, rng.standard_normal()

    plain, ours, first, second = generator(), generator(), [], []
    marked = fj.jit(function)
    for _ in range(4):
        assert_same_value(function(plain, X, first), marked(ours, X, second))
        assert state(plain) == state(ours)
    assert first == second


def test_what_stays_in_the_interpreter():
    class Own(np.random.Generator):
        def random(self, size):
            return np.full(size, 0.25)

    marked = fj.jit(lambda rng, x: rng.random(300) + x)
    assert_same_value(marked(Own(np.random.PCG64(1)), X), 0.25 + X)
    for draw in ("rng.random()", "rng.normal(size=3)", "rng.random(0)", "rng.random(size=(0, 5))", "rng.random(n)", "rng.random(out=out)",
                 "rng.choice(x, p=p)", "rng.random(-1)", "rng.random(300.0)", "rng.normal(x, size=(7, 7))", "rng.shuffle(out)"):  # fmt: skip
        world: dict = {"np": np, "out": np.zeros(100), "p": np.full(300, 1 / 300)}
        exec(f"def function(rng, x, n):\n    y = x * 2.0\n    return {draw}, y + 1.0", world)
        check(world["function"], X, 70)
        assert library_calls(fj.jit(world["function"])) == 0


def test_size_that_varies():
    marked = fj.jit(lambda rng, x: rng.random(len(x)) + rng.normal(size=x.shape) * x)
    for n in (100, 200, 300, 400, 500, 64, 3, 0):
        check(marked.__wrapped__, np.ones(n), marked=marked, calls=2)


def test_seeded_by_the_program_in_between():
    marked = fj.jit(lambda rng, x: rng.normal(size=300) + x, fullgraph=True)
    rng = generator()
    before = rng.bit_generator.state
    first = marked(rng, X)
    assert_same_value(marked(rng, X) == first, np.zeros(300, bool))
    rng.bit_generator.state = before
    assert_same_value(marked(rng, X), first)


def test_references():
    rng, bits = generator(), np.random.PCG64(4)
    shared = np.random.Generator(bits)
    marked = fj.jit(lambda rng, x: np.log(x - 1.0) * rng.normal(size=300))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        marked(shared, X)
        before = sys.getrefcount(rng), sys.getrefcount(shared), sys.getrefcount(bits), sys.getrefcount(bits.lock)
        for _ in range(50):
            marked(shared, X)
            marked(rng, X)
    assert (sys.getrefcount(rng), sys.getrefcount(shared), sys.getrefcount(bits), sys.getrefcount(bits.lock)) == before


@pytest.mark.parametrize("warns", [False, True])
def test_threads_share_a_generator(warns):
    """Each thread draws blocks; all blocks together are those of the stream, whatever came to nothing in between."""
    def function(rng, x):
        a = rng.random((1, 64))
        b = np.log(x) if warns else x * 2.0  # of 0: it warns
        return a, b

    marked = fj.jit(function)
    rng, plain, rounds = generator(), generator(), 60
    blocks, errors = [], []

    def work() -> None:
        try:
            for _ in range(rounds):
                blocks.append(marked(rng, zeros)[0])
        except Exception as error:
            errors.append(error)

    zeros = np.zeros(100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=work) for _ in range(4)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
    assert not errors
    expected = sorted(plain.random((1, 64)).tobytes() for _ in range(4 * rounds))
    assert sorted(block.tobytes() for block in blocks) == expected
    assert state(rng) == state(plain)


def test_while_another_thread_draws():
    marked = fj.jit(lambda rng, x: rng.normal(size=300) + x, fullgraph=True)
    rng, plain = generator(), generator()
    assert_same_value(marked(rng, X), plain.normal(size=300) + X)
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with rng.bit_generator.lock:
            held.set()
            go_on.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    threading.Timer(0.05, go_on.set).start()
    assert_same_value(marked(rng, X), plain.normal(size=300) + X)  # the interpreter waits for the lock
    holder.join()
    assert state(rng) == state(plain)
    assert rng.bit_generator.lock.acquire(blocking=False)  # nothing holds it any more
    rng.bit_generator.lock.release()


def test_gradients_and_batches():
    def loss(w, rng):
        return (w * rng.normal(size=100)).sum()

    rng, plain = generator(), generator()
    w = fj.Tensor(np.ones(100))
    for _ in range(3):
        assert np.array_equal(np.asarray(fj.grad(loss)(w, rng)), plain.normal(size=100))
    assert state(rng) == state(plain)
    batched = fj.vmap(lambda x: x + rng.normal(size=100))(w.reshape(2, 50)[:, :1])
    assert batched.shape == (2, 100)


def test_nothing_went_wrong():
    assert _core.stats()["internal_errors"] == 0
