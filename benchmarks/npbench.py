"""The kernels of NPBench, unmodified, from a checkout: plain NumPy beside framejit at O0 and O1, and NPBench's versions for Numba and JAX.

    git clone https://github.com/spcl/npbench
    ./dev python benchmarks/npbench.py --checkout npbench [--size S] [--only WORD] [--peers] [--rounds R] [--json FILE]

Each kernel has a process of its own, on one thread, in which all take turns. The figures are medians of speeds relative to plain NumPy
in the same round, by the CPU time of the process. Results at O0 have to be equal to the bit, at O1 close by their norm; otherwise the kernel counts
as failed. What a peer gives has to be close too, or the peer has no figure. `--peers` times them, if they are installed; some take minutes to compile.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LEVELS = ("O0", "O1")
PEERS = {"numba": ("numba_n", "numba_np", "numba_o"), "jax": ("jax",)}  # the names of NPBench's modules, best first
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "FRAMEJIT_NUM_THREADS")
XLA_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
# Kernels whose loops visit single elements, or rows and columns of triangles; all others work on whole arrays.
ELEMENT_LOOPS = frozenset(
    [
        "azimnaiv",
        "cholesky",
        "crc16",
        "durbin",
        "gramschm",
        "lu",
        "ludcmp",
        "npgofast",
        "nussinov",
        "seidel2d",
        "spmv",
        "symm",
        "syr2k",
        "syrk",
        "trisolv",
        "trmm",
    ]
)


def version(info: dict[str, Any], name: str) -> Callable[..., Any]:
    """The kernel as it is written for NumPy, or for a peer."""
    package = "npbench.benchmarks." + info["relative_path"].replace("/", ".")
    module = importlib.import_module(f"{package}.{info['module_name']}_{name}")
    kernel: Callable[..., Any] = getattr(module, info["func_name"])
    return kernel


def prepared(info: dict[str, Any], size: str) -> tuple[Callable[..., Any], list[Any]]:
    """The kernel and its arguments."""
    package = "npbench.benchmarks." + info["relative_path"].replace("/", ".")
    data: dict[str, Any] = dict(info["parameters"][size])
    if info.get("init"):
        module = importlib.import_module(f"{package}.{info['module_name']}")
        made = getattr(module, info["init"]["func_name"])(*(data[name] for name in info["init"]["input_args"]))
        names = info["init"]["output_args"]
        data.update(zip(names, made if len(names) > 1 else [made], strict=True))
    return version(info, "numpy"), [data[name] for name in info["input_args"]]


def parts(value: Any) -> list[np.ndarray]:
    """The arrays and numbers of a result."""
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in parts(item)]
    return [] if value is None or callable(value) else [np.asarray(value)]


def is_same(expected: list[np.ndarray], actual: list[np.ndarray], level: str) -> bool:
    """To the bit at O0."""
    if [(a.dtype, a.shape) for a in expected] != [(a.dtype, a.shape) for a in actual]:
        return False
    if level == "O0":
        return all(a.tobytes() == b.tobytes() for a, b in zip(expected, actual, strict=True))
    return all(is_close(a, b) for a, b in zip(expected, actual, strict=True) if a.dtype != object)


def is_close(expected: np.ndarray, actual: np.ndarray) -> bool:
    """As NPBench itself has it: by the norm of the difference."""
    finite = np.isfinite(expected)
    if not np.array_equal(np.where(finite, 0, expected), np.where(finite, 0, actual), equal_nan=True):
        return False
    a, b = expected[finite], actual[finite]
    return bool(np.linalg.norm(a - b) <= 1e-5 * np.linalg.norm(a))


def timed(
    call: Callable[..., Any], arguments: list[Any], count: int = 1, clock: Callable[[], float] = time.process_time
) -> tuple[float, list[np.ndarray]]:
    """Seconds a call, and what it gives and changes."""
    given = [copy.deepcopy(arguments) for _ in range(count)]
    start = clock()
    for own in given:
        result = call(*own)
    return (clock() - start) / count, parts([result, own])


def with_jax(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A call that waits for what JAX computes in the background."""
    jax = importlib.import_module("jax")
    return lambda *arguments: jax.block_until_ready(kernel(*arguments))


def peers(
    info: dict[str, Any], arguments: list[Any], expected: list[np.ndarray]
) -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """NPBench's versions for the peers that are installed, if their results are close."""
    found: dict[str, tuple[Callable[..., Any], list[Any]]] = {}
    for peer, names in PEERS.items():
        for name in names:
            try:
                own = arguments
                if peer == "jax":
                    importlib.import_module("jax").config.update("jax_enable_x64", True)
                    numpy_of_jax = importlib.import_module("jax.numpy")
                    own = [numpy_of_jax.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
                call = version(info, name)
                call = with_jax(call) if peer == "jax" else call
                given = parts(call(*own)) if peer == "jax" else timed(call, own)[1]
            except Exception:  # it is not installed, or does not compile this kernel
                continue
            if all(any(a.shape == e.shape and is_close(e, a) for e in expected) for a in given if a.dtype != object):
                found[peer] = (call, own)
                break
    return found


def measure(info: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Time a kernel plain and at both levels, and compare the results."""
    import framejit

    kernel, arguments = prepared(info, options.size)
    with np.errstate(all="ignore"):
        took, expected = timed(kernel, arguments)
        least = took
        found: dict[str, Any] = {"plain": took * 1e3}
        calls = {"plain": (kernel, arguments)}
        for level in LEVELS:
            marked = framejit.jit(kernel, jit_level=level)
            first, actual = timed(marked, arguments)
            found[f"{level} first"] = first * 1e3
            spent, warm = 0.0, 0
            while warm < options.warm and (spent < 3.0 or warm < 3):
                seconds, actual = timed(marked, arguments)
                spent, warm, least = spent + seconds, warm + 1, min(least, seconds)
                if not is_same(expected, actual, level):
                    return {**found, "failed": f"{level} differs in call {warm + 1}"}
            calls[level] = (marked, arguments)
        if options.peers:
            calls.update(peers(info, arguments, expected))
        times: dict[str, list[float]] = {name: [] for name in calls}
        count = max(1, min(50, int(3e-3 / least)))  # a single call finds the caches as another function left them
        # JAX computes in threads of its own, whose CPU time the system counts too late. They have one processor.
        clock = time.perf_counter if options.peers else time.process_time
        for turn in range(options.rounds):
            for name in list(calls)[:: -1 if turn % 2 else 1]:
                times[name].append(timed(*calls[name], count, clock)[0])
    for name in list(calls)[1:]:
        found[name] = statistics.median(p / t for p, t in zip(times["plain"], times[name], strict=True))
    return found


def use_one_processor() -> None:
    """XLA takes as many threads as there are processors, whatever its flags say."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def row(info: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own; without the peers if these take too long."""
    command = [sys.executable, __file__, "--checkout", str(options.checkout), "--size", options.size]
    command += ["--rounds", str(options.rounds), "--warm", str(options.warm), "--row", info["short_name"]]
    env = {**os.environ, **dict.fromkeys(ONE_THREAD, "1"), "XLA_FLAGS": XLA_ONE_THREAD}
    name = {"name": info["short_name"]}
    try:
        own = [*command, "--peers"] if options.peers else command
        done = subprocess.run(
            own, capture_output=True, text=True, env=env, timeout=options.limit, preexec_fn=use_one_processor
        )
    except subprocess.TimeoutExpired:
        if options.peers:
            return row(info, argparse.Namespace(**{**vars(options), "peers": False}))
        return {**name, "failed": f"took more than {options.limit} s"}
    if done.returncode:
        return {**name, "failed": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:100]}
    return {**name, **json.loads(done.stdout.splitlines()[-1])}


def means(rows: list[dict[str, Any]], what: str) -> list[str]:
    """A line for each level."""
    lines = []
    for level in LEVELS:
        timed_rows = [found for found in rows if level in found]
        if not timed_rows:
            continue
        mean = statistics.geometric_mean(found[level] for found in timed_rows)
        line = f"{level}, {len(timed_rows)} {what}: geometric mean over NumPy {mean:.2f}"
        beside = [
            found[level] / max(found[peer] for peer in PEERS if peer in found)
            for found in timed_rows
            if any(peer in found for peer in PEERS)
        ]
        if beside:
            line += f", over the best peer {statistics.geometric_mean(beside):.2f} of {len(beside)}"
        below = ", ".join(f"{found['name']} {found[level]:.2f}" for found in timed_rows if found[level] < 1.0)
        lines.append(f"{line}; below 1: {below or 'none'}")
    return lines


def summary(rows: list[dict[str, Any]]) -> str:
    """The last lines."""
    lines = means(rows, "kernels")
    lines += means([found for found in rows if found["name"] not in ELEMENT_LOOPS], "without loops over elements")
    failed = [f"{found['name']}: {found['failed']}" for found in rows if "failed" in found]
    return "\n".join([*lines, f"{len(failed)} failed", *failed])


def main() -> int:
    """Print a row for each kernel; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkout", type=Path, required=True, help="a clone of NPBench")
    parser.add_argument("--size", default="S", choices=["S", "M", "L", "paper"])
    parser.add_argument("--only", default="", help="kernels with this word in their names")
    parser.add_argument("--peers", action="store_true", help="time NPBench's versions for Numba and JAX as well")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--warm", type=int, default=50, help="calls in front: in some of the first ones plain Python is measured"
    )
    parser.add_argument("--limit", type=float, default=300, help="seconds for a kernel")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not (options.checkout / "bench_info").is_dir():
        parser.error(f"--checkout: {options.checkout} is no clone of NPBench: it has no folder bench_info")
    sys.path.insert(0, str(options.checkout))
    infos = [
        json.loads(path.read_text())["benchmark"] for path in sorted((options.checkout / "bench_info").glob("*.json"))
    ]
    if options.row:
        print(json.dumps(measure(next(info for info in infos if info["short_name"] == options.row), options)))
        return 0
    chosen = [info for info in infos if options.only in info["short_name"]]
    if not chosen:
        parser.error(f"argument --only: {options.only!r} is in none of {[info['short_name'] for info in infos]}")
    columns = (("plain", 10), ("O0", 8), ("O1", 8), *((peer, 8) for peer in PEERS if options.peers), ("O0 first", 14))
    titles = {"plain": "plain, ms", "O0 first": "first O0, ms"}
    print(f"{'kernel':12}" + "".join(f"{titles.get(c, c):>{w}}" for c, w in columns))
    rows = []
    for info in chosen:
        found = row(info, options)
        rows.append(found)
        cells = "".join(f"{found[c]:>{w}.2f}" if c in found else " " * (w - 1) + "-" for c, w in columns)
        print(f"{found['name']:12}{cells}  {found.get('failed', '')}", flush=True)
    print(summary(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(any("failed" in found for found in rows))


if __name__ == "__main__":
    raise SystemExit(main())
