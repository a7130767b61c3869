"""The table of MindSpore's tutorial on just-in-time compilation: a * b + c on (2, 3), one row for each way to mark it.

    ./dev mindspore --table

framejit, MindSpore 2.10 on CPU, and torch.compile and JAX where they can be imported, each in a process of its own, in turns; medians
over rounds, in each of which a row is called for some milliseconds, so that all find their code in the caches. `at best` is the fastest round:
what a shared machine gives when the others rest. `prepare` is the first call.
A row's results are compared with the plain product and sum first.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np


def f(a, b, c):
    return a * b + c


def variants(package: str) -> tuple[dict[str, object], object]:
    """Functions by name, and what makes an argument of an array."""
    rows: dict[str, object] = {"function": f}
    if package == "torch":
        import torch

        rows["torch.compile"] = torch.compile(f)
        return rows, torch.from_numpy
    if package == "jax":
        import jax

        rows["jax.jit"] = jax.jit(f)
        return rows, jax.numpy.asarray
    import importlib

    module = importlib.import_module(package)
    settings = {"levelO0": {"jit_level": "O0"}, "levelO1": {"jit_level": "O1"}}
    if package == "framejit":  # MindSpore's is for other hardware
        settings["ge"] = {"backend": "GE"}
    for mode in ("ast", "bytecode", "trace"):
        for name, given in settings.items():
            rows[f"{mode} {name}"] = module.jit(capture_mode=mode, **given)(f)
    for name, given in settings.items():
        rows[f"ast {name} fullgraph"] = module.jit(fullgraph=True, **given)(f)
    return rows, module.Tensor


def measure(package: str) -> None:
    """Answers each line of standard input with the times of a round: by row, nanoseconds a call."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 3)).astype(np.float32) for _ in range(3)]
    expected = arrays[0] * arrays[1] + arrays[2]
    rows, make = variants(package)
    inputs = [make(a) for a in arrays]
    prepare = {}
    for name, function in list(rows.items()):
        start = time.perf_counter_ns()
        try:
            out = function(*inputs)
        except Exception as error:  # noqa: BLE001
            print(f"{package}: {name}: {type(error).__name__}", file=sys.stderr)
            del rows[name]
            continue
        prepare[name] = time.perf_counter_ns() - start
        got = out.asnumpy() if hasattr(out, "asnumpy") else np.asarray(out)
        if not np.allclose(got, expected, rtol=1e-6, atol=1e-6):
            raise SystemExit(f"{package}: {name} is wrong")
    print(json.dumps(prepare), flush=True)

    def nanoseconds(function: object, calls: int) -> float:
        counter = range(calls)
        start = time.perf_counter_ns()
        for _ in counter:
            function(*inputs)
        return (time.perf_counter_ns() - start) / calls

    for line in sys.stdin:
        goal, times = float(line) * 1e6, {}
        for name, function in rows.items():
            times[name] = nanoseconds(function, max(1, int(goal / nanoseconds(function, 10))))
        print(json.dumps(times), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--milliseconds", type=float, default=5, help="of a row in a round")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return measure(options.worker)
    root = Path(__file__).resolve().parents[1]
    other = sorted(root.glob(".venv-*-mindspore/bin/python"))
    processes = {}
    for package in ("framejit", "mindspore", "torch", "jax"):
        python = str(other[0]) if package == "mindspore" and other else sys.executable
        found = subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode == 0
        if not found:
            print(f"{package} cannot be imported: left out")
            continue
        command = [python, str(Path(__file__).resolve()), "--worker", package]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        processes[package] = subprocess.Popen(command, **pipes)
    prepare = {package: json.loads(process.stdout.readline()) for package, process in processes.items()}
    times = {(package, name): [] for package, names in prepare.items() for name in names}
    for _ in range(options.rounds):
        for package, process in processes.items():
            process.stdin.write(f"{options.milliseconds}\n")
            process.stdin.flush()
            for name, measured in json.loads(process.stdout.readline()).items():
                times[package, name].append(measured)
    for process in processes.values():
        process.stdin.close()
        process.wait()
    print(f"{'':<36}{'prepare':>12}{'a call':>12}{'at best':>12}")
    for (package, name), measured in times.items():
        row = f"{package + ': ' + name:<36}{prepare[package][name] / 1e6:>9.2f} ms"
        print(f"{row}{statistics.median(measured):>9.0f} ns{min(measured):>9.0f} ns")
    return None


if __name__ == "__main__":
    main()
