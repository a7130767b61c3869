"""What a mark in place costs the code that is not marked: the same programs with and without an unrelated function marked.

One process; the two take turns. Processor time of the thread, so that other processes of the machine count less; the median of the
ratios of neighbours.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

import framejit

LIMIT_MEAN, LIMIT_EACH = 1.10, 1.5

NUMBERS = [i * 7919 % 10007 for i in range(20000)]
TEXT = "abc 123 def 456 " * 2000
WORDS = re.compile(r"(\w+) (\d+)")
RECORDS = {"a": [{"b": i, "c": str(i)} for i in range(2000)]}


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


class Counter:
    def __init__(self) -> None:
        self.total = 0

    def add(self, n: int) -> Counter:
        self.total += n
        return self

    def get(self) -> int:
        return self.total


def methods() -> int:
    counter = Counter()
    for i in range(20000):
        counter.add(i).get()
    return counter.get()


def loop() -> int:
    total = 0
    for i in range(100000):
        total += i * i
    return total


def nbody() -> float:
    bodies = [[float(i), 2.0 * i, 0.1, 0.2, 1.0 + i] for i in range(5)]
    for _ in range(600):
        for i, a in enumerate(bodies):
            for b in bodies[:i]:
                dx, dy = a[0] - b[0], a[1] - b[1]
                pull = 0.01 * (dx * dx + dy * dy) ** -1.5
                a[2] -= dx * b[4] * pull
                a[3] -= dy * b[4] * pull
                b[2] += dx * a[4] * pull
                b[3] += dy * a[4] * pull
        for a in bodies:
            a[0] += 0.01 * a[2]
            a[1] += 0.01 * a[3]
    return bodies[0][0]


PROGRAMS: dict[str, Callable[[], Any]] = {
    "fib": lambda: fib(18),
    "methods": methods,
    "loop": loop,
    "generator expression": lambda: sum(i * i for i in range(50000)),
    "sort with a key": lambda: sorted(NUMBERS, key=lambda v: -v),
    "re.sub with a function": lambda: WORDS.sub(lambda found: found.group(2), TEXT),
    "json": lambda: json.loads(json.dumps(RECORDS)),
    "n-body": nbody,
}


def unrelated(x: Any) -> Any:
    """What is marked."""
    return x * 2


def measure(program: Callable[[], Any], rounds: int) -> tuple[float, float, float]:
    """Nanoseconds without and with the mark, and the ratio."""
    plain, marked = [], []

    def timed() -> int:
        program()  # what the interpreter specialised for the other case is undone here
        start = time.thread_time_ns()
        program()
        return time.thread_time_ns() - start

    expected = program()
    for turn in range(rounds):
        for is_marked in (False, True) if turn % 2 else (True, False):
            if not is_marked:
                plain.append(timed())
                continue
            with framejit.mark(unrelated):
                if program() != expected:
                    raise SystemExit("a wrong result")
                marked.append(timed())
    ratio = statistics.median(m / p for p, m in zip(plain, marked, strict=True))
    return statistics.median(plain), statistics.median(marked), ratio


def main() -> int:
    """Print a row for each program; 1 where a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    ratios = []
    print(f"{'program':24} {'plain, ms':>10} {'marked, ms':>10} {'ratio':>6}")
    for name, program in PROGRAMS.items():
        plain, marked, ratio = measure(program, options.rounds)
        ratios.append(ratio)
        print(f"{name:24} {plain / 1e6:10.3f} {marked / 1e6:10.3f} {ratio:6.2f}")
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"geometric mean {mean:.3f} (limit {LIMIT_MEAN}), largest {max(ratios):.2f} (limit {LIMIT_EACH})")
    return int(mean > LIMIT_MEAN or max(ratios) > LIMIT_EACH)


if __name__ == "__main__":
    raise SystemExit(main())
