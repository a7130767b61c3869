"""What a region inside a broken function costs beside its kernel.

The same function of many statements, each behind a call that breaks the graph, in three forms: NumPy; every statement a region of the
marked function; every statement a call of a jitted function, in plain Python. What one statement costs is the difference between eight of
them and none, divided by eight, so that the call of the function itself, its first statement and its return are in no number; what `c = a`
costs there is taken off.

    kernel  the same plan in a loop in C, its result array made and dropped; small arrays, so that caches have no say
    over    region - kernel: asking, guards, entering the frame, leaving

One process; the forms take turns; medians over rounds.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import framejit

LIMIT = 150.0  # ns over the kernel
COUNT = 8


def statement(a: Any, b: Any) -> Any:
    """What a region computes."""
    return a * b + a


def make(text: str, count: int, scope: dict[str, Any]) -> Callable[..., Any]:
    """A function with `count` times the text, each behind a break."""
    lines = ["def broken(a, b):", "    pause()", "    c = a * b + a"]
    lines += ["    pause()", f"    c = {text}"] * count
    exec("\n".join([*lines, "    return c"]), scope)
    return scope["broken"]


def timed(function: Callable[..., Any], a: Any, b: Any, calls: int) -> float:
    counter = range(calls)
    start = time.perf_counter_ns()
    for _ in counter:
        function(a, b)
    return (time.perf_counter_ns() - start) / calls


def measure(size: int, rounds: int, calls: int) -> dict[str, float]:
    """Nanoseconds of a statement in each form."""
    a = np.linspace(1.0, 2.0, size)
    b = a + 1.0
    call = framejit.jit(statement)
    texts = {"nothing": "a", "NumPy": "a * b + a", "jitted call": "call(a, b)"}
    scope = {"pause": gc.isenabled, "call": call}
    forms = {name: [make(text, count, dict(scope)) for count in (0, COUNT)] for name, text in texts.items()}
    forms["region"] = [framejit.jit(make("a * b + a", count, dict(scope))) for count in (0, COUNT)]
    expected = statement(a, b)
    for name, functions in forms.items():
        for function in functions:
            for _ in range(20):
                result = function(a, b)
            if name in ("region", "jitted call") and result.tobytes() != expected.tobytes():
                raise SystemExit(f"{name}: a wrong result")
    if len(forms["region"][1].cache_entries()) != COUNT + 1:
        raise SystemExit("not every statement is a region")
    times: dict[str, list[float]] = {name: [] for name in [*forms, "kernel"]}
    for _ in range(rounds):
        for name, (none, many) in forms.items():
            times[name].append((timed(many, a, b, calls) - timed(none, a, b, calls)) / COUNT)
        times["kernel"].append(call._time_kernels(calls, a, b) / calls)
    medians = {name: statistics.median(own) for name, own in times.items()}
    return {name: own - medians["nothing"] * (name != "kernel") for name, own in medians.items()}


def main() -> int:
    """Print a row for each size; 1 where the limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--calls", type=int, default=300)
    options = parser.parse_args()
    worst = 0.0
    print(f"{'elements':>10} {'NumPy':>8} {'jitted call':>12} {'region':>8} {'kernel':>8} {'over':>8}   ns")
    for size in (8, 100):
        ns = measure(size, options.rounds, options.calls)
        over = ns["region"] - ns["kernel"]
        worst = max(worst, over)
        row = f"{ns['NumPy']:8.0f} {ns['jitted call']:12.0f} {ns['region']:8.0f} {ns['kernel']:8.0f} {over:8.0f}"
        print(f"{size:10} {row}")
    print(f"largest {worst:.0f} (limit {LIMIT:.0f})")
    return int(worst > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
