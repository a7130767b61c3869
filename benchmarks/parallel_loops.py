"""Loops whose rounds threads share: one thread beside several, in one process, in turns.

    ./dev python benchmarks/parallel_loops.py [--threads N] [--rounds R] [--only WORD]

The programs of loop_programs/ whose rounds are independent, on larger input. The figures are medians over rounds of wall times, and of
ratios within a round. Results of both are compared with those of plain Python, which runs once.
"""

from __future__ import annotations

import argparse
import copy
import statistics
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


def measure(family: str, name: str, options: argparse.Namespace) -> float:
    """Print the row; the ratio."""
    program = programs(family)[name]
    arguments = program.make(program.full * SIZES[family][name])
    _, expected = once(getattr(load(family), name), arguments)
    marked = with_framejit(family, name)
    framejit.set_num_threads(options.threads)
    before = framejit.stats()["parallel_rounds"]
    for _ in range(options.warm):
        once(marked, arguments)
    times: dict[int, list[float]] = {1: [], options.threads: []}
    for turn in range(options.rounds):
        for threads in list(times)[:: -1 if turn % 2 else 1]:
            framejit.set_num_threads(threads)
            milliseconds, seen = once(marked, arguments)
            times[threads].append(milliseconds)
            if not same(expected, seen):
                raise SystemExit(f"{name}: other numbers on {threads} threads")
    one, several = (statistics.median(milliseconds) for milliseconds in times.values())
    ratio = statistics.median(a / b for a, b in zip(*times.values(), strict=True))
    shared = framejit.stats()["parallel_rounds"] - before
    print(f"{name:22}{one:12.2f}{several:12.2f}{ratio:8.2f}{shared:14}", flush=True)
    return ratio


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
    print(f"{'program':22}{'1 thread, ms':>12}{f'{options.threads}, ms':>12}{'ratio':>8}{'rounds shared':>14}")
    ratios = [measure(family, name, options) for family, name in chosen]
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
