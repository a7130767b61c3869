"""Calls that take turns, and how framejit's compares with the best of the others."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def nanoseconds(
    calls: dict[str, Callable[[], object]], inner: int, rounds: int, clock: Callable[[], int], rest: float = 0
) -> dict[str, list[float]]:
    """Nanoseconds a call, by round; each round makes `inner` calls of each.

    `rest`: seconds before each engine's turn, which then begins with calls that are not timed. With several threads an engine's workers go on
    looking for work for a while behind its last call, and take the processors from the one that is next; and some systems put threads that have just
    woken on one processor until they have been busy for a while.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            if rest:
                time.sleep(rest)
                begin = time.monotonic()
                while time.monotonic() - begin < WARM:
                    call()
            start = clock()
            for _ in range(inner):
                call()
            times[name].append((clock() - start) / inner)
    return times


WARM = 0.06
REST = 0.15  # more than OpenBLAS's workers, and those of OpenMP, look for work


def against_best(times: dict[str, list[float]]) -> tuple[str, float]:
    """The fastest other than framejit, and the median of its time over framejit's."""
    best = min((name for name in times if name != "framejit"), key=lambda name: statistics.median(times[name]))
    return best, statistics.median(p / o for p, o in zip(times[best], times["framejit"], strict=True))
