"""The programs of pyhpc-benchmarks, unmodified, from a checkout: NumPy, framejit at O0 and O1, and Numba's and JAX's versions.

    git clone https://github.com/dionhaefner/pyhpc-benchmarks
    ./dev python benchmarks/pyhpc.py --checkout pyhpc-benchmarks [--only WORD] [--sizes 16 18 20] [--rounds R] [--json FILE]

An equation of state of 48 coefficients, isoneutral mixing and turbulent kinetic energy, as ocean models compute them. Each program and size has a
process of its own, on one thread, in which all take turns. Numba and JAX run the versions that are written for them there, if they are installed; JAX
computes in float64. Figures are medians of speeds relative to NumPy in the same round, by the CPU time of the process. At O0 results are equal to
NumPy's to the bit.
"""

from __future__ import annotations

import argparse
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
from npbench import LEVELS, ONE_THREAD, XLA_ONE_THREAD, is_same, parts

PROGRAMS = {"equation_of_state": "eos", "isoneutral_mixing": "isoneutral", "turbulent_kinetic_energy": "tke"}
PEERS = ("numba", "jax")
WARM = 20  # calls in front: in some of the first ones framejit compares compiled code with the bytecode
COLUMNS = (*LEVELS, *PEERS)


def arrays(value: Any) -> list[Any]:
    """The arrays of a result, of NumPy or of JAX."""
    return [part for item in value for part in arrays(item)] if isinstance(value, (list, tuple)) else [value]


def timed(call: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[float, Any]:
    """Seconds of CPU time, with the wait for what JAX computes in the background. The programs change some of their arguments."""
    own = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    start = time.process_time()
    result = call(*own)
    for part in arrays(result):
        if hasattr(part, "block_until_ready"):
            part.block_until_ready()
    return time.process_time() - start, result


def peers(program: str, arguments: tuple[Any, ...]) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The versions for other tools that are installed."""
    found = {}
    for peer in PEERS:
        try:
            if peer == "jax":
                importlib.import_module("jax").config.update("jax_enable_x64", True)
            module = importlib.import_module(f"benchmarks.{program}.{PROGRAMS[program]}_{peer}")
        except ImportError:
            continue
        prepare = getattr(module, "prepare_inputs", None)
        found[peer] = (module.run, prepare(*arguments, device="cpu") if prepare else arguments)
    return found


def measure(program: str, size: int, rounds: int) -> dict[str, Any]:
    """Time one program on inputs of about 2 ** `size` elements, and compare the results."""
    import framejit

    package = importlib.import_module(f"benchmarks.{program}")
    numpy_version = importlib.import_module(f"benchmarks.{program}.{PROGRAMS[program]}_numpy").run
    inputs = package.generate_inputs(2**size)
    took, expected = timed(numpy_version, inputs)
    found: dict[str, Any] = {"program": program, "size": size, "NumPy": took * 1e3}
    calls = {"NumPy": (numpy_version, inputs)}
    for level in LEVELS:
        marked = framejit.jit(numpy_version, jit_level=level)
        for call in range(WARM if size <= 18 else WARM // 2):
            seconds, actual = timed(marked, inputs)
            if call == 0:
                found[f"{level} first"] = seconds * 1e3
            if not is_same(parts(arrays(expected)), parts(arrays(actual)), level):
                return {**found, "failed": f"{level} differs in call {call + 1}"}
        calls[level] = (marked, inputs)
    calls.update(peers(program, inputs))
    for name in PEERS:
        if name in calls:
            timed(*calls[name])
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        for name in list(calls)[:: -1 if turn % 2 else 1]:
            times[name].append(timed(*calls[name])[0])
    for name, own in times.items():
        if name != "NumPy":
            found[name] = statistics.median(p / t for p, t in zip(times["NumPy"], own, strict=True))
    return found


def row(program: str, size: int, options: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own."""
    command = [sys.executable, __file__, "--checkout", str(options.checkout), "--rounds", str(options.rounds)]
    env = {**os.environ, **dict.fromkeys(ONE_THREAD, "1"), "XLA_FLAGS": XLA_ONE_THREAD}
    done = subprocess.run([*command, "--row", program, "--sizes", str(size)], capture_output=True, text=True, env=env)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:100]
        return {"program": program, "size": size, "failed": why}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    """Print a row for each program and size; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkout", type=Path, required=True, help="a clone of pyhpc-benchmarks")
    parser.add_argument("--only", default="", help="programs with this word in their names")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[16, 18, 20], help="powers of two: elements of an array"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not (options.checkout / "benchmarks" / "equation_of_state").is_dir():
        parser.error(
            f"--checkout: {options.checkout} is no clone of pyhpc-benchmarks: it has no folder benchmarks/equation_of_state"
        )
    sys.path.insert(0, str(options.checkout))
    if options.row:
        print(json.dumps(measure(options.row, options.sizes[0], options.rounds)))
        return 0
    programs = [program for program in PROGRAMS if options.only in program]
    if not programs:
        parser.error(f"argument --only: {options.only!r} is in none of {[*PROGRAMS]}")
    print(
        f"{'program':26}{'size':>5}{'NumPy, ms':>11}"
        + "".join(f"{name:>8}" for name in COLUMNS)
        + f"{'first O1, ms':>14}"
    )
    rows = []
    for program in programs:
        for size in options.sizes:
            found = row(program, size, options)
            rows.append(found)
            cells = "".join(f"{found[name]:>8.2f}" if name in found else f"{'-':>8}" for name in COLUMNS)
            print(
                f"{program:26}{size:>5}{found.get('NumPy', np.nan):>11.2f}{cells}{found.get('O1 first', np.nan):>14.1f}"
                f"  {found.get('failed', '')}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(any("failed" in found for found in rows))


if __name__ == "__main__":
    raise SystemExit(main())
