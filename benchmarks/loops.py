"""Loops over scalars and elements, plain, marked, with numba.njit and in C: speed, first calls, and whether results are equal.

Each program of loop_programs/ has a process of its own with one thread. There, plain and marked calls first come to the same bits and types, in
results and in arguments that they change; then plain, framejit, Numba (if it is installed and compiles the same source) and C (if there is a compiler,
and the program is in loop_programs/loops.c) take turns. Times are CPU times, medians over rounds after warm-up.
    framejit, Numba, C    speed over plain; more is faster
    over Numba, over C    framejit's speed over theirs
    first                 milliseconds of the first call, with what it compiles
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import fnmatch
import gc
import importlib
import importlib.util
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import framejit
from framejit._reporting._events import listen
from loop_programs import FAMILIES, Program
from never_slower import ONE_THREAD, same

CLOCK = time.thread_time
SOURCE = Path(__file__).resolve().parent / "loop_programs"
PEERS = ("framejit", "Numba", "C")
LIMIT = 120  # seconds for a row
WARM_SECONDS = 0.1  # framejit compiles a loop once more when it has run for long


def load(family: str) -> types.ModuleType:
    """A family's module, loaded anew, so that two of them share no code."""
    spec = importlib.util.spec_from_file_location(f"loops_{family}", SOURCE / f"{family}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where Numba looks for functions that call themselves
    spec.loader.exec_module(module)
    return module


def programs(family: str) -> dict[str, Program]:
    return importlib.import_module(f"loop_programs.{family}").program.programs


# --- engines -------------------------------------------------------------------------------------------------------------


def with_framejit(family: str, name: str, level: str) -> Callable[..., Any]:
    module = load(family)
    marked = framejit.jit(getattr(module, name), capture_mode="bytecode", jit_level=level)
    setattr(module, name, marked)
    return marked


def with_numba(family: str, name: str) -> Callable[..., Any]:
    """The program and all functions of its module, which it may call."""
    njit = importlib.import_module("numba").njit
    warnings.simplefilter("ignore")  # lists are given as they are
    module = load(family)
    for other, value in list(vars(module).items()):
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
            setattr(module, other, njit(value))
    return getattr(module, name)


def signatures() -> dict[str, str]:
    """The type of the result of each function of loops.c."""
    return {name: result for result, name in re.findall(r"^(\w+) (\w+)\(", (SOURCE / "loops.c").read_text(), re.M)}


def with_c(family: str, name: str) -> Callable[..., Any]:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "loops.so"
        command = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE / "loops.c"), "-lm"]
        subprocess.run(command, check=True)
        function = getattr(ctypes.CDLL(str(library)), name)
    function.restype = {"double": ctypes.c_double, "int64_t": ctypes.c_int64, "void": None}[signatures()[name]]

    def call(*arguments: Any) -> Any:
        return function(*(part for argument in arguments for part in for_c(argument)))

    return call


def for_c(argument: Any) -> list[Any]:
    if isinstance(argument, np.ndarray):
        return [ctypes.c_void_p(argument.ctypes.data), *map(ctypes.c_int64, argument.shape)]
    return [ctypes.c_double(argument) if isinstance(argument, float) else ctypes.c_int64(argument)]


# --- one row, in a process of its own ------------------------------------------------------------------------------------


def close(expected: Any, actual: Any) -> bool:
    """The same numbers, but for the order in which a compiler adds; what is returned beside the arguments, if anything is."""
    if isinstance(expected, (list, tuple)):
        return len(expected) == len(actual) and all(map(close, expected, actual))
    if isinstance(expected, str):
        return bool(expected == actual)
    return bool(np.allclose(expected, actual, rtol=1e-6, atol=1e-9, equal_nan=True))


def all_close(result: Any, changed: tuple[Any, ...], other: Any, given: tuple[Any, ...]) -> bool:
    return (other is None or close(result, other)) and close(list(changed), list(given))


def timed(function: Callable[..., Any], arguments: tuple[Any, ...], count: int = 1) -> tuple[float, Any, Any]:
    """Seconds a call, the last call's result and its arguments."""
    prepared = [copy.deepcopy(arguments) for _ in range(count)]
    gc.disable()
    start = CLOCK()
    for given in prepared:
        result = function(*given)
    seconds = (CLOCK() - start) / count
    gc.enable()
    return seconds, result, given


def measure(family: str, name: str, options: argparse.Namespace) -> None:
    """Print a line of JSON for each thing found, so that one who waits no longer has the earlier ones."""

    def say(**found: Any) -> None:
        print(json.dumps(found), flush=True)

    program = programs(family)[name]
    plain = getattr(load(family), name)
    arguments = program.make(program.small if options.small else program.full)
    _, result, changed = timed(plain, arguments)
    marked = with_framejit(family, name, options.level)
    engines = {"plain": plain, "framejit": marked}
    breaks: dict[str, int] = {}

    def seen(channel: str, event: dict[str, Any]) -> None:
        text = f"line {event['line']}: {event['what']}: {event['detail']}"
        breaks[text] = breaks.get(text, 0) + 1

    stop = listen(seen, ("graph_breaks",))
    calls, spent = 0, 0.0
    while calls < options.warm or (spent < WARM_SECONDS and calls < 500 * options.warm):
        first, *actual = timed(marked, arguments)
        k, calls, spent = calls, calls + 1, spent + first
        equal = same([result, changed], actual)
        if not equal and (options.level == "O0" or not all_close(result, changed, *actual)):
            say(differs=f"call {k + 1}")
            return
        if k == 0:
            say(first=first * 1e3)
    stop()
    say(breaks=breaks)
    peers = {}
    if not options.no_numba and importlib.util.find_spec("numba"):
        peers["Numba"] = with_numba
    if shutil.which("gcc") and name in signatures():
        peers["C"] = with_c
    for peer, make in peers.items():
        try:
            function = make(family, name)
            first, other, given = timed(function, arguments)
        except Exception as raised:  # what they say of what they do not compile has many types
            lines = [line.strip() for line in str(raised).splitlines() if line.strip() and "Failed in" not in line]
            say(**{f"{peer}_says": (lines or [type(raised).__name__])[0][:90]})
            continue
        if not all_close(result, changed, other, given):
            say(**{f"{peer}_says": "other numbers"})
            continue
        say(**{f"{peer}_first": first * 1e3})
        timed(function, arguments)
        engines[peer] = function
    inner = {peer: max(1, min(200, int(1e-3 / timed(call, arguments)[0]))) for peer, call in engines.items()}
    times: dict[str, list[float]] = {peer: [] for peer in engines}
    for k in range(options.rounds):
        for peer in list(engines)[:: -1 if k % 2 else 1]:
            times[peer].append(timed(engines[peer], arguments, inner[peer])[0])
    median = {peer: statistics.median(seconds) for peer, seconds in times.items()}
    say(plain=median["plain"] * 1e3, **{peer: median["plain"] / median[peer] for peer in PEERS if peer in median})


# --- all rows ------------------------------------------------------------------------------------------------------------


def row(family: str, name: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--row", f"{family}/{name}", "--rounds", str(options.rounds)]
    command += (
        ["--warm", str(options.warm), "--level", options.level]
        + ["--small"] * options.small
        + ["--no-numba"] * options.no_numba
    )
    env = {**os.environ, **dict.fromkeys(ONE_THREAD, "1"), "PYTHONHASHSEED": "0"}
    found: dict[str, Any] = {"family": family, "name": name}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=LIMIT)
        lines, error, status = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        lines, error, status = (late.stdout or b"").decode(), f"took more than {LIMIT} s", 1
    for line in lines.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    if "differs" in found:
        found["failed"] = f"differs from plain in {found['differs']}"
    elif status:
        found["failed"] = (error.strip().splitlines() or [f"ended with {status}"])[-1]
    if "framejit" in found:
        for peer in PEERS[1:]:
            if peer in found:
                found[f"over {peer}"] = found["framejit"] / found[peer]
    return found


COLUMNS = {"plain": 3, **dict.fromkeys(PEERS, 2), "over Numba": 2, "over C": 2, "first": 1, "Numba_first": 0}


def text_of(found: dict[str, Any]) -> str:
    cells = "".join(f"{found[c]:>12.{digits}f}" if c in found else f"{'-':>12}" for c, digits in COLUMNS.items())
    notes = [found["failed"]] if "failed" in found else []
    notes += [f"{peer}: {found[f'{peer}_says']}" for peer in PEERS if f"{peer}_says" in found]
    return f"{found['family']:10}{found['name']:26}{cells}  {'; '.join(notes)}"


def summary(rows: list[dict[str, Any]]) -> str:
    lines = [f"{len(rows)} programs; geometric means:"]
    for column in (*PEERS, "over Numba", "over C"):
        values = [found[column] for found in rows if column in found]
        if values:
            lines.append(f"    {column:12}{statistics.geometric_mean(values):10.2f}  of {len(values)}")
    for title, chosen in (
        ("failed or different", [found for found in rows if "failed" in found]),
        ("below plain", [found for found in rows if found.get("framejit", 1.0) < 1.0]),
        ("below half of Numba", [found for found in rows if found.get("over Numba", 1.0) < 0.5]),
    ):
        lines.append(f"{len(chosen)} {title}: {', '.join(found['name'] for found in chosen)}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="programs of this name or family/name (*, ?)"
    )
    parser.add_argument("--small", action="store_true", help="small sizes, for tests")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--warm", type=int, default=20, help="the least calls before framejit is timed; their results are compared"
    )
    parser.add_argument(
        "--level", default="O0", choices=("O0", "O1"), help="of framejit; at O1 results are close to plain ones"
    )
    parser.add_argument("--no-numba", action="store_true")
    parser.add_argument("--why", action="store_true", help="print where capture stopped")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        measure(*options.row.split("/"), options)
        return 0
    chosen = [
        (family, name)
        for family in FAMILIES
        for name in programs(family)
        if any(fnmatch.fnmatch(n, p) for n in (name, f"{family}/{name}") for p in options.only or ("*",))
    ]
    if not chosen:
        parser.error(f"argument --only: no program matches {' or '.join(options.only)}")
    load_now = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    print(
        f"{__doc__}\nNumPy {np.__version__}, Python {sys.version.split()[0]}, load {load_now}; plain and first in ms\n"
    )
    print(f"{'family':10}{'program':26}" + "".join(f"{name.replace('_', ' '):>12}" for name in COLUMNS))
    rows = []
    for family, name in chosen:
        rows.append(row(family, name, options))
        print(text_of(rows[-1]), flush=True)
        if options.why:
            for text, times in rows[-1].get("breaks", {}).items():
                print(f"    {text} ({times} times)")
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    print("\n" + summary(rows))
    return 1 if any("failed" in found for found in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
