"""Calls that take turns, and how framejit's compares with the best of the others."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

REST = 0.15  # seconds: more than OpenBLAS's workers, and those of OpenMP, look for work
WARM = 0.06


def nanoseconds(
    calls: dict[str, Callable[[], object]], inner: int, rounds: int, clock: Callable[[], int], threads: int = 1
) -> dict[str, list[float]]:
    """Nanoseconds a call, by round; each round makes `inner` calls of each.

    With several threads an engine rests before its turn, which then begins with calls that are not timed: workers go on looking for work for a while
    behind the last call, and take the processors from the engine that is next.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            if threads > 1:
                time.sleep(REST)
                hold_workers(threads)
                begin = time.monotonic()
                while time.monotonic() - begin < WARM:
                    call()
            start = clock()
            for _ in range(inner):
                call()
            times[name].append((clock() - start) / inner)
    return times


def hold_workers(threads: int) -> None:
    """Each worker thread on one processor, those of an engine on different ones; the calling thread on another.

    Some systems put threads that have just woken on one processor until they have been busy for a while.
    """
    caller = threading.get_native_id()
    workers = sorted(int(thread.name) for thread in Path("/proc/self/task").iterdir() if int(thread.name) != caller)
    for i, worker in enumerate(workers):
        os.sched_setaffinity(worker, {PROCESSORS[1 + i % (threads - 1)]})
    os.sched_setaffinity(caller, {PROCESSORS[0]})


PROCESSORS = sorted(os.sched_getaffinity(0))


def against_best(times: dict[str, list[float]]) -> tuple[str, float]:
    """The fastest other than framejit, and the median of its time over framejit's."""
    best = min((name for name in times if name != "framejit"), key=lambda name: statistics.median(times[name]))
    return best, statistics.median(p / o for p, o in zip(times[best], times["framejit"], strict=True))
