"""Is framejit as fast on each version of Python? Calls, regions and first calls, each beside plain execution by the same interpreter.

    python benchmarks/python_versions.py python3.11=FOLDER python3.14=FOLDER ...

names interpreters with NumPy, each with the folder that holds framejit for it (nothing behind the = : it is installed). They
take turns, each time in a new process. The first one is what the others are compared with.

    call    the marked a * b + c of arrays of shape (2, 3) over the plain one
    region  a statement of a function with breaks over the same statement in NumPy (see regions.py)
    first   the first call of a marked function of 40 statements over a call of the plain function
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

FORMS = ("call", "region", "first")


def formula(a: Any, b: Any, c: Any) -> Any:
    """The function whose calls are timed."""
    return a * b + c


def timed(function: Any, arrays: tuple[Any, ...], calls: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(calls):
        function(*arrays)
    return (time.perf_counter_ns() - start) / calls


def of_calls(calls: int = 2000, rounds: int = 101) -> float:
    import numpy as np

    import framejit

    arrays = tuple(np.linspace(start, 2.0, 6).reshape(2, 3) for start in (0.5, 1.0, 1.5))
    marked = framejit.jit(formula)
    for function in (marked, formula):
        timed(function, arrays, calls)
    return statistics.median(timed(marked, arrays, calls) / timed(formula, arrays, calls) for _ in range(rounds))


def of_regions() -> float:
    import regions

    row = regions.measure(8, 31, 300)
    return row["region"] / row["NumPy"]


def of_first_calls(functions: int = 40) -> float:
    import numpy as np

    import framejit

    a = np.linspace(1.0, 2.0, 100)
    ratios = []
    for number in range(functions):
        lines = [f"def long{number}(a, b):", "    c = a * b"]
        lines += [f"    c = np.sqrt(c + a) - b * {k + 1}.0" for k in range(38)]
        scope: dict[str, Any] = {"np": np}
        exec("\n".join([*lines, "    return c"]), scope)
        plain = scope[f"long{number}"]
        marked = framejit.jit(plain)
        with np.errstate(all="ignore"):
            plain(a, a)
            usual = timed(plain, (a, a), 20)
            start = time.perf_counter_ns()
            marked(a, a)
            ratios.append((time.perf_counter_ns() - start) / usual)
    return statistics.median(ratios[5:])


def run(interpreter: str, folder: str) -> dict[str, Any]:
    paths = [part for part in (folder, os.environ.get("PYTHONPATH", "")) if part]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [interpreter, __file__, "--worker"], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{interpreter}: {done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    """Print a row for each interpreter and form."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("interpreters", nargs="*", metavar="INTERPRETER=FOLDER")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        ratios = {"call": of_calls(), "region": of_regions(), "first": of_first_calls()}
        print(json.dumps({"version": "{}.{}.{}".format(*sys.version_info[:3]), **ratios}))
        return
    if not options.interpreters:
        parser.error("name at least one interpreter")
    rows: dict[str, list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for named in options.interpreters:
            interpreter, _, folder = named.partition("=")
            rows.setdefault(named, []).append(run(interpreter, folder))
    print(f"{'Python':>10}" + "".join(f" {form:>8} {'of 1st':>7}" for form in FORMS) + "   plain = 1")
    first: dict[str, float] = {}
    for own in rows.values():
        cells = []
        for form in FORMS:
            value = statistics.median(row[form] for row in own)
            first.setdefault(form, value)
            cells.append(f" {value:8.2f} {value / first[form]:7.2f}")
        print(f"{own[0]['version']:>10}" + "".join(cells))


if __name__ == "__main__":
    main()
