"""Measure first calls in new processes of functions that an earlier process has compiled, by phase.

    ./dev python benchmarks/first_calls.py

Each time is from a process of its own; the processes of the rows alternate, and medians count. `alone`: nothing marked has run before in the process.
`later`: another marked function has. `cold` and `plain` are `later` without a disk cache, and without the mark. The phases are those of `later`;
if nothing is captured, `capture` is the time of taking captures from the cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

PHASES = ("capture", "passes", "codegen")


def few(x: Any, y: Any) -> Any:
    """Five operations."""
    return np.sqrt(x * x + y * y) - x


def many(x: Any, y: Any) -> Any:
    """About thirty operations."""
    a = x * y + 1.5
    b = np.sqrt(a * a + 2.0) - x
    c = np.maximum(a, b) * 0.5 + np.minimum(a, y)
    d = (c - a) * (c + b) / (np.abs(c) + 1.0)
    e = np.where(d > 0.0, d * x, d * y - 1.0)
    f = e * e - c * d + np.floor(e)
    return (f - a) / (np.sqrt(np.abs(f)) + 2.0) + b * 0.25 - np.clip(e, -1.0, 1.0)


def elements(x: Any, y: Any) -> Any:
    """A loop over elements."""
    total = 0.0
    for i in range(len(x)):
        if x[i] > y[i]:
            total += x[i] * 2.0
        else:
            total -= y[i]
    return total


def softmax(a: Any, b: Any) -> Any:
    """A product, and a softmax of its rows."""
    c = a @ b
    e = np.exp(c - c.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


SCALE = 1.75


def scaled(x: Any, shift: float = 0.5) -> Any:
    """A function that is inlined, with a global constant and a default."""
    return x * SCALE + shift


class Model:
    """A class with a method, an attribute of its own and attributes of its instances."""

    power = 2

    def __init__(self) -> None:
        self.weights, self.bias = np.linspace(1.0, 2.0, 300), 0.25

    def apply(self, x: Any) -> Any:
        """Four operations and two functions."""
        return scaled(x) * self.weights + scaled(x, self.bias) ** self.power


def methods(model: Any, x: Any) -> Any:
    """Helpers, a method, globals and attributes."""
    return model.apply(x) - np.maximum(model.apply(x * 0.5), 0.0)


def other(x: Any) -> Any:
    """Run once by a process before the measured call, so that only costs of the measured function are left."""
    return x * 2.0 + 1.0


VECTORS, MATRICES = (np.linspace(0.1, 1.0, 300), np.linspace(0.2, 3.0, 300)), (np.ones((16, 16)), np.ones((16, 16)))
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "few": (few, VECTORS),
    "many": (many, VECTORS),
    "elements": (elements, VECTORS),
    "softmax": (softmax, MATRICES),
    "methods": (methods, (Model(), VECTORS[0])),
}


def child(name: str, row: str, with_phases: bool) -> None:
    """One first call; prints its nanoseconds."""
    import framejit

    function, arguments = CASES[name]
    marked = function if row == "plain" else framejit.jit(function)
    if row != "alone":
        framejit.jit(other)(np.ones(7, np.float32))
    events: list[dict[str, Any]] = []
    if with_phases:
        framejit._core.set_event_handler(lambda channel, record: events.append(record), ["perf"])
    clock = time.perf_counter_ns
    clock()  # its code is there
    start = clock()
    marked(*arguments)
    nanoseconds = clock() - start
    phases = {p: sum(e.get(f"{p}_ns", 0) for e in events) for p in PHASES}
    print(json.dumps({"ns": nanoseconds, **phases}))


def run(name: str, row: str, folder: str, with_phases: bool = False) -> dict[str, int]:
    """The times of a new process."""
    environment = {k: v for k, v in os.environ.items() if k != "FRAMEJIT_CACHE_DIR"}
    environment["OMP_NUM_THREADS"] = environment["OPENBLAS_NUM_THREADS"] = "1"
    if row != "cold":
        environment["FRAMEJIT_CACHE_DIR"] = folder
    command = [sys.executable, __file__, "--child", name, row] + ["--with-phases"] * with_phases
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    times: dict[str, int] = json.loads(done.stdout)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=15, help="for each time")
    parser.add_argument("--only", choices=CASES, help="one function")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--with-phases", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child, options.with_phases)
        return
    names = [options.only] if options.only else list(CASES)
    rows = ("alone", "later", "cold", "plain")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            run(name, "later", folder)  # fills the cache
        found: dict[tuple[str, str], list[int]] = {}
        phases: dict[tuple[str, str], list[int]] = {}
        for _ in range(options.processes):
            for name in names:
                for row in rows:
                    found.setdefault((name, row), []).append(run(name, row, folder)["ns"])
                times = run(name, "later", folder, with_phases=True)
                for phase in PHASES:
                    phases.setdefault((name, phase), []).append(times[phase])
    print(f"{'ms':<10}" + "".join(f"{title:>9}" for title in (*rows, *PHASES)))
    for name in names:
        cells = [found[name, row] for row in rows] + [phases[name, phase] for phase in PHASES]
        print(f"{name:<10}" + "".join(f"{statistics.median(cell) / 1e6:>9.3f}" for cell in cells))


if __name__ == "__main__":
    main()
