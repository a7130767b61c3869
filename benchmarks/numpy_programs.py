"""The programs of programs/, plain and marked, at O0 and O1: times, whether the bits are equal, what breaks.

Plain, O0 and O1 take turns in one process, each on arguments of its own. Then numba.njit, jax.jit and torch.compile of the same source take
turns with plain in processes of their own, where they are installed, compile it within `--patience` seconds and come to the same numbers.
Times are medians; the first call is the one that compiles.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import itertools
import json
import os
import pkgutil
import statistics
import subprocess
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import programs

import framejit
from framejit._reporting._events import listen

LEVELS = ("O0", "O1")


def flat(value: Any) -> list[Any]:
    """The arrays and numbers of a result, in order."""
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flat(part)]
    return [value]


def same_bits(expected: Any, actual: Any) -> bool:
    """Types, dtypes, shapes, strides and bits, NaNs being alike."""
    if len(flat(expected)) != len(flat(actual)):
        return False
    for e, a in zip(flat(expected), flat(actual), strict=True):
        if type(e) is not type(a):
            return False
        if not isinstance(e, (np.ndarray, np.generic)):
            if e != a:
                return False
            continue
        if e.dtype != a.dtype or e.shape != a.shape or e.strides != a.strides:
            return False
        nan = (e != e) & (a != a) if e.dtype.kind in "fc" else np.zeros(e.shape, bool)
        same = np.ascontiguousarray(e).view(np.uint8).reshape(*np.atleast_1d(e).shape, -1)
        other = np.ascontiguousarray(a).view(np.uint8).reshape(*np.atleast_1d(a).shape, -1)
        if not np.all((same == other).all(axis=-1) | nan):
            return False
    return True


def largest_error(expected: Any, actual: Any) -> float:
    """The largest difference, relative to the largest number of its array."""
    largest = 0.0
    for e, a in zip(flat(expected), flat(actual), strict=True):
        if np.asarray(e).dtype.kind in "fc" and np.shape(e) == np.shape(a) and np.size(e):
            scale = np.nanmax(np.abs(e)) or 1.0
            largest = max(largest, float(np.nanmax(np.abs(np.asarray(e) - a)) / scale))
    return largest


def place(event: dict[str, Any]) -> str:
    return f"{Path(event['file']).name}:{event['line']}: {event['what']}: {event['detail']}"


def timed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[float, Any]:
    arguments = copy.deepcopy(arguments)
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


def copied(program: Any, mark: Callable[..., Any], **names: Any) -> Callable[..., Any]:
    """`program.run` and all functions of the module that it calls, each marked, with `names` for their global ones."""
    scope = {**vars(program), **names}
    for name, value in vars(program).items():
        if isinstance(value, types.FunctionType) and value.__module__ == program.__name__:
            scope[name] = mark(types.FunctionType(value.__code__, scope, name, value.__defaults__))
    return scope["run"]


def with_numba(program: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    return copied(program, importlib.import_module("numba").njit)


def with_jax(program: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """jax.numpy in the place of numpy; what is not an array is known to the compiler."""
    jax, jnp = importlib.import_module("jax"), importlib.import_module("jax.numpy")
    jax.config.update("jax_enable_x64", True)
    static = [i for i, value in enumerate(arguments) if not isinstance(value, np.ndarray)]
    compiled = jax.jit(copied(program, lambda function: function, np=jnp), static_argnums=static)
    return lambda *given: jax.tree.map(np.asarray, compiled(*given))


def with_torch(program: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    torch = importlib.import_module("torch")
    torch.set_num_threads(framejit.config.num_threads or len(os.sched_getaffinity(0)))
    return torch.compile(program.run)


PEERS = {"Numba": with_numba, "JAX": with_jax, "torch": with_torch}


def measure_peer(program: Any, size: str, rounds: int, peer: str) -> dict[str, Any]:
    """Seconds of plain and the peer in turns, and of the peer's first call; or what it says where it does not come to the same numbers."""
    arguments = program.make(*program.SIZES[size])
    expected = timed(program.run, arguments)[1]
    try:
        compiled = PEERS[peer](program, arguments)
        first, result = timed(compiled, arguments)
        error = largest_error(expected, result)
    except Exception as raised:  # what they say of what they do not compile has many types
        return {"says": (str(raised).strip().splitlines() or [type(raised).__name__])[0]}
    if error > 1e-6:
        return {"says": f"other numbers: {error:.1e}"}
    times = [[timed(function, arguments)[0] for function in (program.run, compiled)] for _ in range(rounds)]
    return {
        "plain": statistics.median(t[0] for t in times),
        "peer": statistics.median(t[1] for t in times),
        "first": first,
    }


def beside(name: str, sizes: Sequence[str], peer: str, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """measure_peer() by size, in a process of its own, which may change what others run and need not come to an end."""
    command = [sys.executable, __file__, "--program", name, "--peer", peer, "--rounds", str(options.rounds)]
    command += [word for size in sizes for word in ("--size", size)]
    limit = options.patience * len(sizes)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        lines = done.stdout.splitlines()
    except subprocess.TimeoutExpired as late:
        lines = (late.stdout or b"").decode().splitlines()
    found = dict.fromkeys(sizes, {"says": f"took longer than {limit} s, or ended its process"})
    found.update(json.loads(line) for line in lines if line.startswith('["'))
    return found


def measure(program: Any, size: str, rounds: int) -> dict[str, Any]:
    """Seconds of plain, O0 and O1, of their first calls, bits, errors and breaks."""
    arguments = program.make(*program.SIZES[size])
    breaks: Counter[str] = Counter()
    stop = listen(lambda _, event: breaks.update([place(event)]), ("graph_breaks",))
    functions = {"plain": program.run}
    for level in LEVELS:
        functions[level] = framejit.jit(program.run, capture_mode="bytecode", jit_level=level)
    first: dict[str, float] = {}
    expected = timed(program.run, arguments)[1]
    row: dict[str, Any] = {}
    for name in ("plain", *LEVELS):
        function = functions[name]
        first[name], result = timed(function, arguments)
        row[name + " first"] = first[name]
        if name == "O0":
            row["equal"] = same_bits(expected, result)
            row["breaks"] = dict(breaks)
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            seconds, result = timed(function, arguments)
            times[name].append(seconds)
            if name == "O0":
                row["equal"] = row["equal"] and same_bits(expected, result)
            elif name == "O1":
                row["error"] = largest_error(expected, result)
    stop()
    row.update({name: statistics.median(times[name]) for name in functions})
    return row


def main() -> int:
    """Print a row for each program and size; 1 where a result at O0 is not the plain one."""
    names = [module.name for module in pkgutil.iter_modules(programs.__path__)]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", action="append", choices=("small", "medium", "large"))
    parser.add_argument("--program", action="append", choices=names)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--patience", type=int, default=60, help="seconds that a peer may take for a program and size")
    parser.add_argument(
        "--peer", choices=tuple(PEERS), help="measure this one alone, for another process that reads it"
    )
    parser.add_argument("--breaks", action="store_true", help="print each place that breaks")
    options = parser.parse_args()
    sizes = options.size or ["small", "medium", "large"]
    if options.peer:
        for name, size in itertools.product(options.program, sizes):
            print(
                json.dumps(
                    [
                        size,
                        measure_peer(importlib.import_module("programs." + name), size, options.rounds, options.peer),
                    ]
                ),
                flush=True,
            )
        return 0
    wrong = slower = 0
    peers = [name for name in PEERS if importlib.util.find_spec(name.lower())]
    columns = ("plain", *LEVELS, *peers, *(name + " first" for name in (*LEVELS, *peers)))
    print(
        f"{'program':12} {'size':7}"
        + "".join(f"{name + ', ms':>17}" for name in columns)
        + f"{'O0/plain':>10}{'O1/plain':>10} {'bits':6} {'O1 error':>9} breaks"
    )
    over_peers = []
    for name in options.program or names:
        program = importlib.import_module("programs." + name)
        rows = {size: measure(program, size, options.rounds) for size in sizes}
        found = {peer: beside(name, sizes, peer, options) for peer in peers}
        for size, row in rows.items():
            best = 0.0
            for peer in peers:
                if "peer" in (times := found[peer][size]):
                    row[peer], row[peer + " first"] = times["peer"], times["first"]
                    best = max(best, times["plain"] / times["peer"])
            if best:
                over_peers.append(row["plain"] / row["O1"] / best)
            wrong += not row["equal"]
            slower += row["O0"] > 1.05 * row["plain"]
            print(
                f"{name:12} {size:7}"
                + "".join(f"{row[column] * 1e3:17.3f}" if column in row else f"{'-':>17}" for column in columns)
                + f"{row['O0'] / row['plain']:10.2f}{row['O1'] / row['plain']:10.2f}"
                + f" {'equal' if row['equal'] else 'DIFFER':6} {row['error']:9.1e} {len(row['breaks'])}",
                flush=True,
            )
            if options.breaks:
                for where, count in row["breaks"].items():
                    print(f"    {where} ({count})")
                for peer in peers:
                    if "says" in found[peer][size]:
                        print(f"    {peer}: {found[peer][size]['says'][:120]}")
    if over_peers:
        print(
            f"O1 over the best peer that compiles it: {statistics.geometric_mean(over_peers):.2f}x, at worst {min(over_peers):.2f}x, {len(over_peers)} rows"
        )
    print(f"{wrong} with other bits, {slower} slower than plain by more than 5 % at O0")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
