"""How near the rows of `bench.py --rows` come to what the machine can do, on one thread.

    ./dev python benchmarks/roofline.py [--case REGEX] [--rounds R] [--markdown FILE]

Three bounds of the time of a call, each as a share of it:

- memory: the bytes that the row must at least move, at the rate at which `np.copyto` moves as many bytes. It may be more than the time: what
  is read costs less than what is written;
- arithmetic: multiply-adds, and what takes their place in the processor (`SLOTS`), at the rate of a product of matrices;
- call: the time of the same function with few elements.

The largest of the three says what the row waits for. They overlap, so their sum may be more than one.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cases import ROWS, SIZES_OF_ROWS
from npbench import LEVELS, ONE_THREAD

FEW = 16  # elements of a call that does next to nothing
# Places of multiply-adds, in float32 and float64, that an operator takes at least: divisions and roots by their unit, functions by the length of
# framejit's polynomials. All others take one.
SLOTS = {
    "divide": (20, 32), "sqrt": (20, 36), "exp": (14, 20), "log": (18, 26), "sin": (20, 30), "cos": (20, 30), "tanh": (30, 44), "floor_divide": (40, 80),
}  # fmt: skip
# They move or keep values, or give memory a form.
FREE = {"view", "copy", "write", "full", "empty", "constant", "dim", "output", "measure"}
NODE = re.compile(r"%(\S+) = (\w+) (.*?): (\w+)\[(.*?)\]")


def seconds(call: Callable[[], object], rounds: int) -> float:
    """CPU time of a call: the median over rounds of at least a millisecond."""
    start = time.thread_time()
    call()
    inner = max(1, min(10_000, int(1e-3 / max(time.thread_time() - start, 1e-7))))
    found = []
    for _ in range(rounds):
        start = time.thread_time()
        for _ in range(inner):
            call()
        found.append((time.thread_time() - start) / inner)
    return statistics.median(found)


def copied(count: int, rounds: int) -> float:
    """Bytes in a second that `np.copyto` moves between two arrays that have `count` bytes together, without the time of its call."""
    source, one = np.ones(max(count // 16, 1)), np.ones(1)
    target, other = np.empty_like(source), np.empty_like(one)
    took = seconds(lambda: np.copyto(target, source), rounds)
    return 2 * source.nbytes / max(took - seconds(lambda: np.copyto(other, one), rounds), took / 10)


def multiplied(dtype: str, rounds: int) -> float:
    """Multiply-adds in a second of a product of matrices."""
    import framejit

    a, b = (np.random.default_rng(i).random((512, 512)).astype(dtype) for i in range(2))
    product = framejit.jit(lambda x, y: x @ y, jit_level="O1")
    product(a, b)
    best = min(seconds(lambda: product(a, b), rounds), seconds(lambda: np.matmul(a, b), rounds))
    return 512**3 / best


def elements(shape: str) -> int:
    """The number of elements of a shape, given as the text that graphs print for it."""
    return int(np.prod([int(d) for d in shape.split(",") if d.strip()] or [1]))


def slots(graphs: list[str], dtype: str) -> float | None:
    """Places of multiply-adds that the graphs take; none if sizes are symbols, or a loop has no graph."""
    total, sizes = 0, {}
    for graph in graphs:
        for line in graph.splitlines():
            given = re.findall(r"%(\w+): \w+\[(.*?)\]", line) if line.startswith("graph") else []
            sizes.update(given)
            if (node := NODE.search(line)) is None:
                continue
            result, op, operands, _, shape = node.groups()
            sizes[result] = shape
            over = [sizes.get(o, "") for o in re.findall(r"%(\w+)", operands)] if op.startswith("reduce") else [shape]
            if op not in FREE and "s" not in "".join(over):
                total += max(elements(s) for s in over) * SLOTS.get(op, (1, 1))[dtype == "float64"]
    return total or None


def measure(name: str, dtype: str, size: int, level: str, rounds: int) -> dict[str, Any]:
    """Time, and its three bounds."""
    import framejit

    case = ROWS[name]
    arguments, few = case.make(size, dtype), case.make(FEW, dtype)
    marked, marked_few = (framejit.jit(case.function, jit_level=level) for _ in range(2))
    graphs = framejit.explain(marked)(*arguments).graphs
    for _ in range(20):
        marked(*arguments)
        marked_few(*few)
    took = seconds(lambda: marked(*arguments), rounds)
    least = case.streams * arguments[0].nbytes
    work = slots(graphs, dtype)
    return {
        "took": took,
        "memory": least / copied(int(least), rounds) / took,
        "arithmetic": work / multiplied(dtype, rounds) / took if work and dtype.startswith("float") else None,
        "call": seconds(lambda: marked_few(*few), rounds) / took,
    }


def text_of(found: dict[str, Any]) -> list[str]:
    """The cells of a level: microseconds, shares, what the row waits for."""
    shares = {key: found[key] for key in ("memory", "arithmetic", "call")}
    cells = [f"{found['took'] * 1e6:,.4g}", *("-" if s is None else f"{s:.0%}" for s in shares.values())]
    return [*cells, max(shares, key=lambda key: shares[key] or 0)]


def main() -> int:
    """Print a row for each computation, dtype, size and level."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", default="", metavar="REGEX", help="rows whose names match")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--most", type=int, default=10**8, help="no rows of more elements")
    parser.add_argument("--markdown", type=Path, help="write the table to a file as well")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds: {options.rounds} is not 1 or more")
    titles = {row: f"{row[0]}, {row[1]}" for row in SIZES_OF_ROWS}
    chosen = [row for row, title in titles.items() if re.search(options.case, title) and row[2] <= options.most]
    if not chosen:
        parser.error(
            f"no row of at most {options.most} elements matches {options.case!r}: {[*dict.fromkeys(titles.values())]}"
        )
    if any(os.environ.get(variable) != "1" for variable in ONE_THREAD):  # libraries read them when they are loaded
        return subprocess.run(
            [sys.executable, *sys.argv], env={**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
        ).returncode
    lines = [
        "| computation | elements | level | µs | memory | arithmetic | call | waits for |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines))
    for name, dtype, size in chosen:
        for level in LEVELS:
            cells = text_of(measure(name, dtype, size, level, options.rounds))
            lines.append(f"| {name}, {dtype} | {size:,} | {level} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
