"""Loops whose rounds threads share: one thread beside several, in one process, in turns.

    ./dev python benchmarks/parallel_loops.py [--threads N] [--rounds R] [--only WORD]

The programs of loop_programs/ whose rounds are independent, on larger input. The figures are medians over rounds of wall times, and of
ratios within a round. Results of both are compared with those of plain Python, which runs once.

The processors of a virtual machine may be halves of one core, or be lent to others. So the column `machine` says how many times as much work
as one thread as many threads did in the same rounds: keys are derived (PBKDF2) with little memory and without the GIL.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import statistics
import threading
import time
from typing import Any

from loops import load, programs, same, with_framejit

import framejit

# By family and name: how much larger the input is than in loops.py.
SIZES = {
    "matrices": {
        "matmul": 8,
        "matmul_by_rows": 8,
        "mandelbrot_image": 18,
        "pairwise_distances": 40,
        "box_blur": 90,
        "sobel": 30,
        "jacobi_2d": 30,
        "bilinear": 16,
        "nearest_centre": 360,
        "threshold": 50,
    },
    "vectors": {
        "convolution": 400,
        "horner": 240,
        "black_scholes_like": 100,
        "interpolation": 60,
    },
}


def once(function: Any, arguments: tuple[Any, ...]) -> tuple[float, Any]:
    """Milliseconds, and what a call gives and changes."""
    given = copy.deepcopy(arguments)
    start = time.perf_counter()
    result = function(*given)
    return (time.perf_counter() - start) * 1e3, [result, given]


def capacity(threads: int) -> float:
    """How many times as much work so many threads do as one."""
    counts = (1, threads)
    seconds = []
    for count in counts:
        workers = [
            threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"key", b"salt", 20000)) for _ in range(count)
        ]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds.append(time.perf_counter() - start)
    return threads * seconds[0] / seconds[1]


def measure(family: str, name: str, options: argparse.Namespace) -> tuple[float, float]:
    """Print the row; the ratio, and that of the machine."""
    program = programs(family)[name]
    arguments = program.make(program.full * SIZES[family][name])
    _, expected = once(getattr(load(family), name), arguments)
    marked = with_framejit(family, name)
    framejit.set_num_threads(options.threads)
    before = framejit.stats()["parallel_rounds"]
    for _ in range(options.warm):
        once(marked, arguments)
    times: dict[int, list[float]] = {1: [], options.threads: []}
    machine = []
    for turn in range(options.rounds):
        machine.append(capacity(options.threads))
        for threads in list(times)[:: -1 if turn % 2 else 1]:
            framejit.set_num_threads(threads)
            milliseconds, seen = once(marked, arguments)
            times[threads].append(milliseconds)
            if not same(expected, seen):
                raise SystemExit(f"{name}: other numbers on {threads} threads")
    one, several = (statistics.median(milliseconds) for milliseconds in times.values())
    ratio = statistics.median(a / b for a, b in zip(*times.values(), strict=True))
    shared = framejit.stats()["parallel_rounds"] - before
    print(f"{name:22}{one:12.2f}{several:12.2f}{ratio:8.2f}{statistics.median(machine):10.2f}{shared:15}", flush=True)
    return ratio, statistics.median(machine)


def main() -> None:
    """Print a row for each program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--warm", type=int, default=40, help="calls in front, in which the kernels are compiled and compared"
    )
    parser.add_argument("--only", default="", help="programs with this word in their names")
    options = parser.parse_args()
    programs = [(family, name) for family, sizes in SIZES.items() for name in sizes]
    chosen = [(family, name) for family, name in programs if options.only in name]
    if not chosen:
        parser.error(f"argument --only: {options.only!r} is in none of {[name for _, name in programs]}")
    print(
        f"{'program':22}{'1 thread, ms':>12}{f'{options.threads}, ms':>12}{'ratio':>8}{'machine':>10}{'rounds shared':>15}"
    )
    ratios, machine = zip(*(measure(family, name, options) for family, name in chosen), strict=True)
    print(
        f"geometric mean {statistics.geometric_mean(ratios):.2f}, of the machine {statistics.geometric_mean(machine):.2f}"
    )


if __name__ == "__main__":
    main()
