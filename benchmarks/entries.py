"""Compare a call of a function that has many entries, for dtypes and ranks of its argument, with one that has one entry.

    ./dev python benchmarks/entries.py

One function with entries for all arguments stands beside as many functions with one entry each; both are called with the same
arguments, in turn and in a shuffled order. The times are minima over interleaved rounds.
"""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np

import framejit

DTYPES = ("f8", "f4", "i8", "i4", "i2", "u1", "u2", "c16", "c8", "i1")
ROUNDS, CALLS = 30, 4000


def double(x: Any) -> Any:
    """A small operation, so that finding the entry counts."""
    return x + x


def timed(calls: list[tuple[Any, Any]]) -> float:
    """Nanoseconds of a call."""
    start = time.perf_counter()
    for function, x in calls:
        function(x)
    return (time.perf_counter() - start) / len(calls) * 1e9


def main() -> None:
    arguments = [np.ones((1,) * (rank - 1) + (3,), dtype) for dtype in DTYPES for rank in range(1, 5)]
    rng = random.Random(1)
    print(f"{'entries':>8} {'order':>9} {'plain':>7} {'one each':>9} {'many':>6} {'many / one':>11}   ns a call")
    for count in (2, 8, 40):
        kinds = arguments[:count]
        marked = framejit.jit(double)
        # Code objects of their own: nothing is shared.
        singles = {id(x): framejit.jit(eval("lambda x: x + x")) for x in kinds}
        for x in kinds * 3:
            marked(x)
            singles[id(x)](x)
        assert len(marked.cache_entries()) == count
        orders = {"in turn": kinds * (CALLS // count), "shuffled": rng.choices(kinds, k=CALLS)}
        for order, sequence in orders.items():
            rows = {
                "plain": [(double, x) for x in sequence],
                "one": [(singles[id(x)], x) for x in sequence],
                "many": [(marked, x) for x in sequence],
            }
            best = dict.fromkeys(rows, float("inf"))
            for _ in range(ROUNDS):
                for name, calls in rows.items():
                    best[name] = min(best[name], timed(calls))
            ratio = best["many"] / best["one"]
            print(
                f"{count:>8} {order:>9} {best['plain']:>7.0f} {best['one']:>9.0f} {best['many']:>6.0f} {ratio:>11.2f}"
            )


if __name__ == "__main__":
    main()
