"""Random NumPy programs (program_maker.py): marked and unmarked do the same.

    ./dev python tests/exact/test_random.py --count 20000              a run; prints what was covered and what ends regions
    ./dev python tests/exact/test_random.py --seed 17 --count 1        one program
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import faulthandler
import linecache
import os
import sys
import time
from pathlib import Path
from typing import Callable

import numpy as np
import pytest

import framejit

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from framejit._traced import _numpy_functions
from framejit._traced import _polyfills
from framejit._reporting._events import listen

from exact import program_maker
from exact.program_maker import Maker
from exact.same import assert_same_seen, observe

COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "150"))
STATES = [None, None, {"all": "ignore"}, {"all": "ignore"}, {"all": "raise"}, {"over": "raise", "divide": "ignore"}, {"all": "warn"}]
VARIANTS = (0, 0, 1, 0, 2)


def function_of(source: str, name: str) -> Callable:
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"np": np, "helper": program_maker.helper, "halve": program_maker.halve, "COUNT": 3, "TABLE": {"scale": 1.5}}
    exec(compile(source, name, "exec"), scope)
    return scope["program"]


def difference(made: Maker, source: str) -> str | None:
    """What tells a marked run from a plain one."""
    plain = function_of(source, f"<program {made.seed}>")
    marked = framejit.jit(plain)
    state = STATES[made.seed % len(STATES)]
    errors = framejit.stats()["internal_errors"]
    for call, variant in enumerate(VARIANTS):
        expected = observe(plain, made.arguments(variant), state)
        actual = observe(marked, made.arguments(variant), state)
        try:
            assert_same_seen(expected, actual, f"call {call} under {state}")
        except AssertionError as error:
            return str(error)
    return "an internal error" if framejit.stats()["internal_errors"] != errors else None


def fill_heap(byte: int) -> None:
    """What NumPy's iterators find in their buffers, and copy to their operands where a loop raises."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [(libc.malloc(size), size) for size in (*range(8, 1100, 8), *range(1104, 6000, 64), *range(6000, 42000, 1024)) for _ in range(4)]
    for block, size in blocks:
        ctypes.memset(block, byte, size)
    for block, _ in blocks:
        libc.free(block)


def settled(made: Maker, source: str) -> bool:
    """Does the plain program do the same each time? Some of NumPy's loops look at where memory lies."""
    plain = function_of(source, f"<program {made.seed}>")
    for variant in set(VARIANTS):
        state = STATES[made.seed % len(STATES)]
        first = observe(plain, made.arguments(variant), state)
        for fill in (0.0, 1.0, np.nan, -1e300, 3.0):
            held = [np.full(size, fill) for size in (1, 2, 3, 5, 17, 40, 130) for _ in range(3)]
            del held  # for others to find
            fill_heap(int(np.float64(fill).view(np.uint64)) >> 56)
            again = observe(plain, made.arguments(variant), state)
            try:
                assert_same_seen(first, again, "")
            except AssertionError:
                return False
    return True


def shrunk(made: Maker) -> str:
    """The program with every line taken out that the difference does without."""
    lines = made.source.splitlines(True)
    for size in (4, 2, 1, 1):
        for at in range(len(lines) - 1, 0, -1):
            fewer = lines[:at] + lines[at + size :]
            try:
                if difference(made, "".join(fewer)):
                    lines = fewer
            except (SyntaxError, KeyError):
                pass
    return "".join(lines)


def check(seed: int) -> str | None:
    made = Maker(seed)
    for _ in range(2):  # twice, since some of NumPy's products look at memory that nobody has filled
        if not difference(made, made.source) or not settled(made, made.source):
            return None
    small = shrunk(made)
    return f"program {seed}: {difference(made, small)}\n{small}arguments: {made.argument_plans}, shared: {made.shared}\n"


@pytest.mark.parametrize("seeds", [range(at, min(at + 50, COUNT)) for at in range(0, COUNT, 50)], ids=lambda r: f"{r[0]}-{r[-1]}")
def test_random_programs(seeds):
    found = [text for seed in seeds if (text := check(seed))]
    assert not found, "\n".join(found)


def test_a_fault_is_found():
    """A function that framejit follows in place of np.roll loses the sign of zeros, and makes integers of bools."""

    def faulty(a, shift, axis=None):
        return _numpy_functions._roll(a, shift, axis) + 0

    polyfills = {**_polyfills.POLYFILLS, **_polyfills.FUNCTIONS}
    framejit._core.set_polyfills({**polyfills, np.roll: faulty})
    try:
        assert any(difference(made, made.source) for made in map(Maker, range(1000)))
    finally:
        framejit._core.set_polyfills(polyfills)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0, help="the first program")
    given = parser.parse_args()
    faulthandler.enable()
    reasons: collections.Counter[str] = collections.Counter()
    listen(lambda channel, record: reasons.update([f"{record['name']}: {record['detail']}"]), ["graph_breaks"])
    before, start, differ = framejit.stats(), time.monotonic(), 0
    for seed in range(given.seed, given.seed + given.count):
        if given.count == 1:
            print(Maker(seed).source)
        if text := check(seed):
            differ += 1
            print(text, flush=True)
    after = framejit.stats()
    print(f"{given.count} programs from {given.seed}, {differ} differ; {time.monotonic() - start:.0f} s")
    for name in ("frames_captured", "kernels_compiled", "kernel_calls", "recompiles", "internal_errors"):
        print(f"  {name}: {after[name] - before[name]}")
    for reason, count in reasons.most_common(60):
        print(f"  {count:6} {reason}")
    return differ != 0


if __name__ == "__main__":
    sys.exit(main())
