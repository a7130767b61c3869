"""What a call costs, as a ratio within one process: minima of many short rounds, so that other load on the machine cancels out."""

from __future__ import annotations

import time

import framejit
import numpy as np
import pytest

pytestmark = pytest.mark.capture


def fastest(calls, args, rounds=400, repeat=500):
    """Nanoseconds a call of each, rounds interleaved; the loop itself taken out."""
    best = [1e9] * (len(calls) + 1)
    for _ in range(rounds):
        for i, call in enumerate([None, *calls]):
            numbers = range(repeat)
            start = time.perf_counter()
            if call is None:
                for _ in numbers:
                    pass
            else:
                for _ in numbers:
                    call(*args)
            best[i] = min(best[i], (time.perf_counter() - start) / repeat * 1e9)
    return [b - best[0] for b in best[1:]]


def test_a_small_call_costs_a_fraction_of_numpys():
    def function(a, b, c):
        return a * b + c

    args = tuple(np.ones((2, 3), np.float32) for _ in range(3))
    marked = framejit.jit(function)
    marked(*args)
    eager, fast = fastest([function, marked], args)
    assert fast < eager / 3, f"{fast:.0f} ns against {eager:.0f} ns"
