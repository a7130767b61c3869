"""How late a signal is answered that comes at a random time of a first call.

    ./dev python benchmarks/interrupts.py [TRIES]

Three functions whose first call takes long: many lines of array operations (capture, passes, code generation), a loop over
words, and a deep tower of calls. The time is from the alarm to its exception in the caller; plain Python's is beside it.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import framejit


class Alarm(Exception):
    """Raised by the handler."""


def handler(number: int, frame: object) -> None:
    raise Alarm


def many_lines() -> tuple[Callable[..., Any], Any, bool]:
    world: dict[str, Any] = {}
    exec("def f(x):\n" + "".join(f"    x = x + {i}\n" for i in range(20000)) + "    return x\n", world)
    return world["f"], np.ones(8), True


def words() -> tuple[Callable[..., Any], Any, bool]:
    def count(text: str) -> dict[str, int]:
        table: dict[str, int] = {}
        for word in text.split():
            table[word] = table.get(word, 0) + 1
        return table

    return count, " ".join(f"w{i % 7919}" for i in range(100000)), False


def calls() -> tuple[Callable[..., Any], Any, bool]:
    world: dict[str, Any] = {"np": np}
    exec("def f0(x): return x + 1\n", world)
    for i in range(1, 13):
        exec(f"def f{i}(x): return f{i - 1}(x) * 2 + f{i - 1}(x)\n", world)
    return world["f12"], np.ones(8), True


def latency(make: Callable[[], tuple[Callable[..., Any], Any, bool]], mark: bool, tries: int) -> tuple[float, float]:
    """The longest time from alarm to exception, and that of the first call, in milliseconds."""
    function, argument, whole = make()
    start = time.perf_counter()
    (framejit.jit(function, fullgraph=whole) if mark else function)(argument)
    duration = time.perf_counter() - start
    longest = 0.0
    for _ in range(tries):
        function, argument, whole = make()
        called = framejit.jit(function, fullgraph=whole) if mark else function
        delay = random.uniform(0.01, 0.9) * duration
        start = time.perf_counter()
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            called(argument)
            time.sleep(delay)  # the call was done before the alarm came
        except Alarm:
            longest = max(longest, time.perf_counter() - start - delay)
    return longest * 1e3, duration * 1e3


def main() -> None:
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    signal.signal(signal.SIGALRM, handler)
    random.seed(1)
    print(f"{'function':12} {'first call':>12} {'latest':>9} {'plain call':>12} {'latest':>9}   ms, {tries} tries each")
    for make in (many_lines, words, calls):
        late, duration = latency(make, True, tries)
        plain_late, plain = latency(make, False, tries)
        print(f"{make.__name__:12} {duration:12.1f} {late:9.1f} {plain:12.1f} {plain_late:9.1f}")


if __name__ == "__main__":
    main()
