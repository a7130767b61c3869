"""Loops that read and store attributes of instances, which get their values when the loop is left."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run
from loop_support import loops

pytestmark = pytest.mark.capture


class Counter:
    scale = 2

    def __init__(self, value):
        self.value, self.count = value, 0

    def add(self, by):
        self.count += 1
        self.value = self.value + by * self.scale
        return self.value

    @property
    def doubled(self):
        return self.value * 2


class SlottedCounter:
    __slots__ = ("count", "value")
    scale = 3
    __init__, add, doubled = Counter.__init__, Counter.add, Counter.doubled


class GuardedCounter(Counter):
    stored: list = []

    def __setattr__(self, name, value):
        GuardedCounter.stored.append(name)
        super().__setattr__(name, value)


class LimitedCounter(Counter):
    @property
    def value(self):
        return self.held

    @value.setter
    def value(self, value):
        if value > 50:
            raise ValueError("too much")
        self.held = value


def add_up(counter, x):
    total = 0.0
    for i in range(len(x)):
        total += counter.add(x[i])
        counter.value = counter.value * 0.5
    return total, counter.value is counter.add(0.0)


@pytest.mark.parametrize("cls", [Counter, SlottedCounter])
@pytest.mark.parametrize("start", [0, 1.5, np.float64(0.25), True, 2**62, 1j])
def test_attributes_that_a_loop_stores(cls, start):
    x = np.linspace(0.0, 1.0, 50)
    plain, ours = cls(start), cls(start)
    marked = fj.jit(add_up)
    for _ in range(3):
        check_same(run(add_up, (plain, x)), run(marked, (ours, x)), str(start))
    (entry, *_) = loops(marked)
    assert all(e["why"] == "" for e in entry["exits"]), entry["exits"]


@pytest.mark.parametrize("cls", [GuardedCounter, LimitedCounter])
def test_stores_that_run_code_are_left_to_the_interpreter(cls):
    x = np.linspace(0.0, 1.0, 50)
    plain, ours = cls(1.0), cls(1.0)
    marked = fj.jit(add_up)
    for _ in range(3):
        GuardedCounter.stored.clear()
        expected = run(add_up, (plain, x)), list(GuardedCounter.stored)
        GuardedCounter.stored.clear()
        check_same(expected[0], run(marked, (ours, x)), cls.__name__)
        assert GuardedCounter.stored == expected[1]


def test_computed_attributes_are_not_kept():
    def sums(counter, n):
        s = 0.0
        for i in range(n):
            counter.value = counter.value + 1.5
            s += counter.doubled
        return s

    marked = fj.jit(sums)
    for _ in range(3):
        check_same(run(sums, (Counter(0.5), 60)), run(marked, (Counter(0.5), 60)), "property")


@pytest.mark.parametrize("same", [False, True])
def test_attributes_of_two_objects_that_may_be_one(same):
    def swing(p, q, n):
        for _ in range(n):
            p.value = p.value + q.value * 0.25
            q.value = q.value - p.value
        return p.value, q.value

    def pair(first_same):
        p = Counter(1.0)
        return p, p if first_same else Counter(0.5)

    marked = fj.jit(swing)
    for first_same in (same, not same, same):
        check_same(run(swing, (*pair(first_same), 50)), run(marked, (*pair(first_same), 50)), "objects")


def test_attributes_are_there_when_an_exception_ends_the_loop():
    def filled(counter, x, n):
        for i in range(n):
            counter.count = i
            counter.value = counter.value + x[i]
        return counter.value

    x = np.linspace(0.0, 1.0, 50)
    plain, ours = Counter(0.0), Counter(0.0)
    marked = fj.jit(filled)
    for n in (50, 50, 51, 70):
        check_same(run(filled, (plain, x, n)), run(marked, (ours, x, n)), str(n))
        assert (plain.count, plain.value) == (ours.count, ours.value)
    class_before = Counter.scale
    try:
        Counter.value = property(lambda self: 7.0, lambda self, value: None)  # the class changes below the instance
        check_same(run(filled, (plain, x, 50)), run(marked, (ours, x, 50)), "property")
    finally:
        del Counter.value
    assert class_before == Counter.scale
