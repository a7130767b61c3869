"""Ordinary programs, plain and marked: is any of them slower, or stuck at its first call?

Each row, a program of never_slower_programs/ at a size, has a process of its own with one thread. There, plain and marked calls take turns; at first
it is seen that they come to the same bits and types. Times are CPU times, so that other processes count less; medians over rounds.
    first    the first marked call, with what it compiles, over the first plain one (the bar: 100 ms)
    three    the first three marked calls; at most 1.1 times the plain ones, or 20 ms more
    ratio    plain over marked after 30 calls; at least 0.95
    later    the same after more calls (--calls), for the small size
Machines are noisy: a row with a ratio below 0.97, or with first calls that take too long, is measured twice more in other processes, with a ratio
below 0.8 once, and the best ones are kept.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import gc
import importlib
import importlib.util
import json
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import framejit
from framejit._reporting._events import listen
from never_slower_programs import FAMILIES, SIZES, Program

FIRST_LIMIT, RATIO_LIMIT = 0.1, 0.95
AGAIN_BELOW, SURELY_BELOW = 0.97, 0.8
FIRSTS = ("plain_first", "first", "plain_three", "three")
WALL_FACTOR = 5  # by the clock on the wall a row may take so many times its limit, which is CPU time
THREE_FACTOR, THREE_MORE = 1.1, 0.02
WARM_CALLS = 30
CLOCK = time.thread_time  # that of the process is coarse while it has a limit of CPU time
# One thread for all.
ONE_THREAD = ("FRAMEJIT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


# --- programs ------------------------------------------------------------------------------------------------------------


def load(family: str, mark: Callable[..., Any] | None = None, name: str = "") -> ModuleType:
    """A family's module, loaded anew, so that two of them share no code; with `mark`, the function that program `name` marks is replaced."""
    package = importlib.import_module("never_slower_programs")
    file = Path(package.__path__[0]) / f"{family}.py"
    spec = importlib.util.spec_from_file_location(f"never_slower_{'marked' if mark else 'plain'}_{family}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    if mark is not None:
        program = module.program.programs[name]
        setattr(module, program.marked, mark(getattr(module, program.marked)))
    return module


def names() -> list[tuple[str, str]]:
    """Family and name of each program."""
    return [
        (family, name)
        for family in FAMILIES
        for name in importlib.import_module("never_slower_programs." + family).program.programs
    ]


def missing(program: Program) -> list[str]:
    return [module for module in program.needs if importlib.util.find_spec(module) is None]


# --- the same result -----------------------------------------------------------------------------------------------------


def kind(value: Any) -> str:
    """The name of a value's type; types of the two copies of a program's module are alike."""
    cls = type(value)
    return f"{cls.__module__.replace('never_slower_marked_', 'never_slower_plain_')}.{cls.__qualname__}"


def same(expected: Any, actual: Any) -> bool:
    """Types, dtypes, shapes, strides, order and bits, NaNs being alike."""
    if kind(expected) != kind(actual):
        return False
    if isinstance(expected, np.ndarray) and expected.dtype != object:
        if (expected.dtype, expected.shape, expected.strides) != (actual.dtype, actual.shape, actual.strides):
            return False
        if expected.dtype.kind not in "fc":
            return bool((expected == actual).all())
        nan = np.isnan(expected) & np.isnan(actual)
        parts = [(expected.real, actual.real), (expected.imag, actual.imag)]
        return all(bool((((e == a) & (np.signbit(e) == np.signbit(a))) | nan).all()) for e, a in parts)
    if isinstance(expected, dict):
        return same(list(expected.items()), list(actual.items()))
    if isinstance(expected, (list, tuple, np.ndarray)):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    if isinstance(expected, (set, frozenset)):
        return same(sorted(expected, key=repr), sorted(actual, key=repr))
    if hasattr(expected, "to_numpy"):  # of pandas and xarray
        labels = [getattr(value, "index", None) for value in (expected, actual)]
        return (
            expected.equals(actual)
            and same(expected.to_numpy(), actual.to_numpy())
            and str(labels[0]) == str(labels[1])
        )
    if isinstance(expected, np.random.Generator):
        return same(expected.bit_generator.state, actual.bit_generator.state)
    if type(expected).__repr__ is object.__repr__:
        return same(getattr(expected, "__dict__", None), getattr(actual, "__dict__", None))
    return repr(expected) == repr(actual)


# --- one row, in a process of its own ------------------------------------------------------------------------------------


class Calls:
    """Calls of one of the two functions, each with arguments that no call has changed."""

    def __init__(self, module: ModuleType, name: str, size: str) -> None:
        self.program: Program = module.program.programs[name]
        self.function = getattr(module, name)
        self.arguments = self.program.make(self.program.sizes[size])

    def fresh(self) -> tuple[Any, ...]:
        return copy.deepcopy(self.arguments) if self.program.changes else self.arguments

    def once(self) -> tuple[float, Any]:
        """Seconds of a call, and what came of it."""
        arguments = self.fresh()
        start = CLOCK()
        result = self.function(*arguments)
        seconds = CLOCK() - start
        return seconds, (result, arguments if self.program.changes else ())

    def seconds(self, count: int) -> float:
        """Seconds a call, of `count` calls."""
        function, prepared = self.function, [self.fresh() for _ in range(count)]
        gc.disable()
        start = CLOCK()
        for arguments in prepared:
            function(*arguments)
        seconds = (CLOCK() - start) / count
        gc.enable()
        return seconds


def ratio(plain: Calls, marked: Calls, budget: float) -> tuple[float, float, float]:
    """Plain over marked, and seconds of both: medians of rounds in which they take turns, the first one in turn too."""
    once = plain.seconds(1), marked.seconds(1)
    inner = max(1, min(20, int(5e-4 / once[0])))
    rounds = max(5, min(40, int(budget / (inner * sum(once)))))
    times: tuple[list[float], list[float]] = ([], [])
    for k in range(rounds):
        for which in (0, 1) if k % 2 else (1, 0):
            times[which].append((plain, marked)[which].seconds(inner))
    p, m = map(statistics.median, times)
    return p / m, p, m


def measure(family: str, name: str, size: str, options: argparse.Namespace) -> None:
    """Print a line of JSON for each thing found, so that one who waits no longer has the earlier ones."""

    def say(**found: Any) -> None:
        print(json.dumps(found), flush=True)

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        return framejit.jit(function, capture_mode="bytecode", jit_level=options.level)

    resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit + 1))
    plain, marked = Calls(load(family), name, size), Calls(load(family, mark, name), name, size)
    firsts: dict[str, list[float]] = {"plain": [], "marked": []}
    for k in range(3):  # in turn, and results do not stay: each finds as much memory in use and as much garbage
        gc.collect()
        took, expected = plain.once()
        firsts["plain"].append(took)
        gc.collect()
        took, actual = marked.once()
        firsts["marked"].append(took)
        if options.level == "O0" and not same(expected, actual):
            say(wrong=True)
            return
        del expected, actual
        if k == 0:
            say(plain_first=firsts["plain"][0], first=took)
    say(plain_three=sum(firsts["plain"]), three=sum(firsts["marked"]))
    for _ in range(WARM_CALLS - 3):
        marked.once()
    for _ in range(5):
        plain.once()
    value, p, m = ratio(plain, marked, options.seconds)
    say(ratio=value, plain=p, marked=m)
    if options.calls and size == "small":
        for _ in range(options.calls - WARM_CALLS):
            marked.once()
        say(later=ratio(plain, marked, options.seconds)[0])
    if options.why:
        say(why=reasons(family, name, size, mark))


def reasons(family: str, name: str, size: str, mark: Callable[..., Any]) -> dict[str, Any]:
    """What a copy that was never called compiles in its first calls, and where it breaks."""
    breaks: Counter[str] = Counter()
    spent: Counter[str] = Counter()

    def seen(channel: str, event: dict[str, Any]) -> None:
        if channel == "graph_breaks":
            breaks[f"{event['id']} {event['what']}: {event['detail']}"] += 1
        elif event["what"] == "compiled":
            spent["entries"] += 1
            for part in ("capture_ns", "passes_ns", "codegen_ns"):
                spent[part] += event[part]
        else:
            spent[event["what"]] += 1

    calls = Calls(load(family, mark, name), name, size)
    stop = listen(seen, ("graph_breaks", "perf"))
    framejit.reset()
    for _ in range(3):
        calls.once()
    stop()
    spent["compile_ns"] = framejit.stats()["compile_ns"]  # what came to nothing is in it
    framejit.reset()
    calls.once()
    return {"breaks": dict(breaks), "spent": dict(spent), "last": {k: v for k, v in framejit.stats().items() if v}}


# --- all rows ------------------------------------------------------------------------------------------------------------


def row(family: str, name: str, size: str, options: argparse.Namespace) -> dict[str, Any]:
    best, more = one_process(family, name, size, options), 2
    while more > 0 and (best.get("ratio", 1.0) < AGAIN_BELOW or {"first", "three"} & below(best).keys()):
        pair = [best, one_process(family, name, size, options)]
        best = max(pair, key=lambda found: found.get("ratio", 0.0))
        firsts = min(pair, key=lambda found: found.get("three", math.inf) - found.get("plain_three", 0.0))
        best = {**best, **{part: firsts[part] for part in FIRSTS if part in firsts}}
        more -= 2 if best.get("ratio", 1.0) < SURELY_BELOW else 1
    return best


def one_process(family: str, name: str, size: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--row", f"{family}/{name}/{size}", "--level", options.level]
    command += ["--calls", str(options.calls), "--seconds", str(options.seconds), "--limit", str(options.limit)]
    command += ["--why"] * options.why
    env = {**os.environ, **dict.fromkeys(ONE_THREAD, "1"), "PYTHONHASHSEED": "0"}
    found: dict[str, Any] = {"family": family, "name": name, "size": size}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=WALL_FACTOR * options.limit)
        lines, error, status = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        lines, error, status = (late.stdout or b"").decode(), "", -signal.SIGXCPU
    for line in lines.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    if found.get("wrong"):
        found["failed"] = "another result"
    elif status == -signal.SIGXCPU and "ratio" not in found:
        found["failed"] = f"took more than {options.limit} s"
    elif status not in (0, -signal.SIGXCPU):
        found["failed"] = (error.strip().splitlines() or [f"ended with {status}"])[-1]
    return found


def below(found: dict[str, Any]) -> dict[str, str]:
    """The bars that a row does not hold, and how it misses them."""
    missed = {}
    if "first" in found and found["first"] - found["plain_first"] > FIRST_LIMIT:
        missed["first"] = f"{found['first'] * 1e3:.0f} ms, plain {found['plain_first'] * 1e3:.2f}"
    if "three" in found:
        most = max(found["plain_three"] * THREE_FACTOR, found["plain_three"] + THREE_MORE)
        if found["three"] > most:
            missed["three"] = f"{found['three'] * 1e3:.1f} ms, plain {found['plain_three'] * 1e3:.2f}"
    for name in ("ratio", "later"):
        if found.get(name, 1.0) < RATIO_LIMIT:
            missed[name] = f"{found[name]:.2f}"
    if "failed" in found:
        missed["failed"] = found["failed"]
    return missed


def key(found: dict[str, Any]) -> str:
    return f"{found['family']}/{found['name']}/{found['size']}"


def line(found: dict[str, Any]) -> str:
    def milliseconds(name: str) -> str:
        return f"{found[name] * 1e3:10.3f}" if name in found else f"{'-':>10}"

    ratios = "".join(f"{found[name]:8.2f}" if name in found else f"{'-':>8}" for name in ("ratio", "later"))
    times = "".join(map(milliseconds, ("plain", "marked", "plain_first", "first", "plain_three", "three")))
    missed = ", ".join(f"{name}!" for name in below(found))
    return f"{found['family']:11}{found['name']:34}{found['size']:7}{times}{ratios}  {missed}"


def summary(rows: list[dict[str, Any]]) -> str:
    ratios = [found["ratio"] for found in rows if "ratio" in found]
    lines = [f"{len(rows)} rows"]
    if ratios:
        lines[0] += (
            f"; plain over marked: geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}"
        )
    for name, bar in (
        ("ratio", f"ratios below {RATIO_LIMIT} after {WARM_CALLS} calls"),
        ("later", f"ratios below {RATIO_LIMIT} later"),
        ("three", f"first three calls above {THREE_FACTOR} times plain and {THREE_MORE * 1e3:.0f} ms more"),
        ("first", f"first calls above plain's by more than {FIRST_LIMIT * 1e3:.0f} ms"),
        ("failed", "failed or stuck"),
    ):
        missed = [(found, below(found)[name]) for found in rows if name in below(found)]
        if name in ("ratio", "later"):
            missed.sort(key=lambda item: item[1])
        lines.append(f"{len(missed)} {bar}")
        lines += [f"    {key(found)}: {how}" for found, how in missed]
    return "\n".join(lines)


def changes(rows: list[dict[str, Any]], file: Path) -> str:
    """Rows whose ratio or first calls are others than those of an earlier run by more than 5 %."""
    before = {key(found): found for found in json.loads(file.read_text())}
    lines = [f"against {file}:"]
    for found in rows:
        old = before.get(key(found), {})
        parts = [f"now {found['failed']}"] if "failed" in found and "failed" not in old else []
        for name in ("ratio", "later", "three"):
            if name in found and name in old and abs(found[name] / old[name] - 1) > 0.05:
                unit = 1e3 if name == "three" else 1
                if name != "three" or abs(found[name] - old[name]) > 1e-3:
                    parts.append(f"{name} {old[name] * unit:.2f} -> {found[name] * unit:.2f}")
        if parts:
            lines.append(f"    {key(found)}: {', '.join(parts)}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="PATTERN", help="programs whose family/name has it (*, ?)")
    parser.add_argument("--sizes", default="small,medium,large")
    parser.add_argument("--level", default="O0", choices=("O0", "O1"))
    parser.add_argument("--calls", type=int, default=0, help="measure the small size again after so many calls (3000)")
    parser.add_argument("--seconds", type=float, default=0.3, help="for the rounds of a row")
    parser.add_argument(
        "--limit", type=int, default=60, help="seconds of CPU time after which a row's process is ended"
    )
    parser.add_argument("--why", action="store_true", help="print what was compiled and where capture stopped")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows")
    parser.add_argument("--against", type=Path, metavar="JSON", help="print the rows that changed by more than 5 %%")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        measure(*options.row.split("/"), options)
        return 0
    sizes = options.sizes.split(",")
    if unknown := [size for size in sizes if size not in SIZES]:
        parser.error(f"argument --sizes: no size {unknown[0]!r}; choose from {', '.join(SIZES)}")
    patterns = options.only or ["*"]
    chosen = [of for of in names() if any(fnmatch.fnmatch("/".join(of), f"*{pattern}*") for pattern in patterns)]
    if not chosen:
        parser.error(f"argument --only: no program matches {' or '.join(patterns)}")
    columns = ("plain", "marked", "p. first", "first", "p. three", "three")
    print(
        f"{__doc__}\nframejit {options.level}, NumPy {np.__version__}, Python {sys.version.split()[0]}; times in ms\n"
    )
    print(
        f"{'family':11}{'program':34}{'size':7}"
        + "".join(f"{name:>10}" for name in columns)
        + f"{'ratio':>8}{'later':>8}"
    )
    rows = []
    for family, name in chosen:
        program = importlib.import_module("never_slower_programs." + family).program.programs[name]
        if missing(program):
            print(f"{family:11}{name:34}skipped: {', '.join(missing(program))} not installed")
            continue
        for size in sizes:
            rows.append(row(family, name, size, options))
            print(line(rows[-1]), flush=True)
            if "why" in rows[-1]:
                print(f"    {rows[-1]['why']}")
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1))
    print("\n" + summary(rows))
    if options.against:
        print("\n" + changes(rows, options.against))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
