"""Random numbers in compiled loops: the numbers and the states of the generators are those of the unmarked function."""

from __future__ import annotations

import copy
import random
import threading

import numpy as np
import pytest

import framejit as fj
from loop_support import loops

pytestmark = pytest.mark.capture

OF_RANDOM = random.Random(3)
OF_NUMPY = np.random.default_rng(3)
LEGACY = np.random.RandomState(3)


def start():
    random.seed(5)
    np.random.seed(5)
    OF_RANDOM.seed(7)
    LEGACY.seed(7)
    OF_NUMPY.bit_generator.state = np.random.default_rng(9).bit_generator.state


def states():
    legacy = [(a.tolist() if isinstance(a, np.ndarray) else a) for s in (np.random.get_state(), LEGACY.get_state()) for a in s]
    return random.getstate(), OF_RANDOM.getstate(), repr(OF_NUMPY.bit_generator.state), legacy


def compare(function, *args, rounds=3):
    marked = fj.jit(function)
    for _ in range(rounds):
        start()
        expected = function(*copy.deepcopy(args)), states()
        start()
        assert (marked(*copy.deepcopy(args)), states()) == expected, function.__name__
    return marked


def area_by_module(n):
    inside = 0
    for _ in range(n):
        x, y = random.random(), random.random()
        if x * x + y * y < 1:
            inside += 1
    return inside, x, y


def area_by_instance(n):
    inside = 0
    for _ in range(n):
        if OF_RANDOM.random() ** 2 + OF_RANDOM.random() ** 2 < 1:
            inside += 1
    return inside


def walk_by_generator(n):
    rng = np.random.default_rng(11)
    place, path = 0, []
    for _ in range(n):
        place += 1 if rng.random() < 0.5 else -1
        path.append((place, OF_NUMPY.random()))
    return path, rng.random()


def sums_of_legacy(n):
    total = 0.0
    for k in range(n):
        total += np.random.rand() * LEGACY.random() - np.random.random() / (1 + np.random.random_sample())
        if k % 100 == 99:
            total += OF_NUMPY.normal()
    return total


def stores(a):
    for i in range(len(a)):
        a[i] = a[i - 1] * OF_NUMPY.random() + 3 * random.random()
    return a.tolist()


@pytest.mark.parametrize("form", [area_by_module, area_by_instance, walk_by_generator, sums_of_legacy])
def test_the_same_stream(form):
    marked = compare(form, 500)
    assert loops(marked) and not [e for entry in loops(marked) for e in entry["exits"] if e["early"] and e["taken"] > 40]


def test_numbers_that_are_stored():
    assert loops(compare(stores, np.linspace(0, 1, 300)))


def test_an_exception_after_a_draw():
    def form(n):
        seen = []
        try:
            for k in range(n):
                seen.append(1 / (k - 70) * random.random())
        except ZeroDivisionError as error:
            seen.append(str(error))
        return seen, random.random()

    assert loops(compare(form, 100))


def test_random_that_is_replaced(monkeypatch):
    def form(n):
        total = 0.0
        for _ in range(n):
            total += OF_RANDOM.random() + random.random()
        return total

    marked = compare(form, 200)
    monkeypatch.setattr(OF_RANDOM, "random", lambda: 2.0, raising=False)
    start()
    expected = form(200)
    start()
    assert marked(200) == expected > 400
    monkeypatch.undo()
    monkeypatch.setattr(random, "random", lambda: 1.0)
    start()
    expected = form(200)
    start()
    assert marked(200) == expected

    class Other(random.Random):
        def random(self):
            return 0.25

    def by_argument(rng, n):
        total = 0.0
        for _ in range(n):
            total += rng.random()
        return total

    marked = fj.jit(by_argument)
    for make in (lambda: random.Random(1), lambda: Other(1), lambda: np.random.default_rng(1), lambda: np.random.RandomState(1)) * 3:
        assert marked(make(), 200) == by_argument(make(), 200)


def test_a_class_that_changes():
    class Own(random.Random):
        pass

    def form(rng, n):
        total = 0.0
        for _ in range(n):
            total += rng.random()
        return total

    marked = fj.jit(form)
    for _ in range(3):
        assert marked(Own(4), 200) == form(Own(4), 200)
    assert loops(marked)
    Own.random = lambda self: 0.5
    assert marked(Own(4), 200) == 100


def test_a_lock_that_another_thread_holds():
    """The loop leaves the draw to the interpreter, which waits."""
    rng = np.random.default_rng(2)

    def form(n):
        total = 0.0
        for _ in range(n):
            total += rng.random()
        return total

    marked = fj.jit(form)
    for _ in range(3):
        marked(300)
    holds, goes = threading.Event(), threading.Event()

    def hold():
        with rng.bit_generator.lock:
            holds.set()
            goes.wait(0.2)

    state = rng.bit_generator.state
    expected = form(300)
    rng.bit_generator.state = state
    holder = threading.Thread(target=hold)
    holder.start()
    holds.wait()
    assert marked(300) == expected
    goes.set()
    holder.join()
    assert rng.bit_generator.lock.acquire(False)
    rng.bit_generator.lock.release()


def test_threads_that_share_a_generator():
    """Each number of the stream is drawn once."""
    rng = np.random.default_rng(6)

    def form(n):
        out = []
        for _ in range(n):
            out.append(rng.random())
        return out

    marked = fj.jit(form)
    for _ in range(3):
        marked(500)
    state = rng.bit_generator.state
    expected = sorted(form(8000))
    rng.bit_generator.state = state
    found: list[list[float]] = []
    threads = [threading.Thread(target=lambda: found.extend(marked(500) for _ in range(4))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for part in found for number in part) == expected
