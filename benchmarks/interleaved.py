"""Calls that take turns, and how framejit's compares with the best of the others."""

from __future__ import annotations

import statistics
from collections.abc import Callable


def nanoseconds(
    calls: dict[str, Callable[[], object]], inner: int, rounds: int, clock: Callable[[], int]
) -> dict[str, list[float]]:
    """Nanoseconds a call, by round; each round makes `inner` calls of each."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            for _ in range(inner):
                call()
            times[name].append((clock() - start) / inner)
    return times


def against_best(times: dict[str, list[float]]) -> tuple[str, float]:
    """The fastest other than framejit, and the median of its time over framejit's."""
    best = min((name for name in times if name != "framejit"), key=lambda name: statistics.median(times[name]))
    return best, statistics.median(p / o for p, o in zip(times[best], times["framejit"], strict=True))
