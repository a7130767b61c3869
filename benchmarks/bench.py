"""Benchmarks: framejit beside NumPy, Numba and numexpr, by the protocol of benchmarks/README.md.

One process per engine, interleaved round by round; medians; every result is compared with eager execution before it is timed, and
a wrong one has no time. Engines that are not installed are left out.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from cases import CASES, ENGINES, ROWS, SIZES_OF_ROWS

SIZES = [6, *sorted([10**k for k in range(8)] + [3 * 10**k for k in range(7)])]  # 6: shape (2, 3)
HERE = Path(__file__).resolve().parent


class Process:
    """A worker process."""

    def __init__(self, engine: str, threads: int) -> None:
        names = ("FRAMEJIT_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, str(threads))}
        command = [sys.executable, str(HERE / "worker.py"), engine, str(threads)]
        command.append(",".join(map(str, sorted(os.sched_getaffinity(0))[:threads])))  # JAX takes a thread a processor
        self.engine = engine
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Send a request, wait for its answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of {self.engine} ended: exit status {self.process.wait()}")
        return json.loads(line)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Bench:
    """Runs cases over all engines and keeps a line of text for each."""

    def __init__(self, engines: list[str], rounds: int, target: float, cases: list[str]) -> None:
        self.engines = engines
        self.cases = cases
        self.rounds = rounds
        self.target = target
        self.lines: list[str] = []
        self.widths = [max(14, len(engine)) for engine in engines]

    def say(self, line: str = "") -> None:
        self.lines.append(line)
        print(line, flush=True)

    def head(self, title: str, first: str) -> None:
        self.say()
        self.say(title)
        cells = [f"{engine:>{width + 8}}" for engine, width in zip(self.engines, self.widths, strict=True)]
        self.say(f"  {first:<22}" + "".join(cells))

    def row(self, name: str, answers: list[dict[str, Any]], scale: float, digits: int = 1) -> None:
        """Medians; in brackets how many times faster than NumPy."""
        base = answers[0].get("ns")
        cells = []
        for answer, width in zip(answers, self.widths, strict=True):
            if "ns" in answer:
                ratio = f" ({base / answer['ns']:5.2f}x)" if base else ""
                cells.append(f"{answer['ns'] / scale:.{digits}f}{ratio}".rjust(width + 8))
            else:
                cells.append((answer.get("wrong") and f"wrong: {answer['wrong']}" or "-").rjust(width + 8))
        self.say(f"  {name:<22}" + "".join(cells))

    def measure(self, processes: list[Process], case: str, size: int, dtype: str) -> list[dict[str, Any]]:
        """Interleaved rounds of one case at one size."""
        request = {"name": case, "size": size, "dtype": dtype}
        answers = [process.ask("prepare", **request, target=self.target) for process in processes]
        times: list[list[float]] = [[] for _ in processes]
        for _ in range(self.rounds):
            for process, answer, own in zip(processes, answers, times, strict=True):
                if "calls" in answer:
                    own.append(process.ask("round", **request)["ns"])
        for process in processes:
            process.ask("drop")
        return [{"ns": statistics.median(own)} if own else answer for own, answer in zip(times, answers, strict=True)]

    def sizes(self, threads: int, sizes: list[int], dtypes: tuple[str, ...]) -> None:
        with_processes = [Process(engine, threads) for engine in self.engines]
        try:
            for case in self.cases:
                for dtype in dtypes:
                    self.head(f"{case}, {dtype}, {threads} thread{'s' * (threads > 1)}: µs a call", "elements")
                    for size in sizes:
                        answers = self.measure(with_processes, case, size, dtype)
                        self.row(f"{size}" if size != 6 else "(2, 3)", answers, 1e3, 3 if size < 10_000 else 1)
                        best = min((a["ns"] for a in answers if "ns" in a), default=0)
                        if size >= 1_000_000 and best:
                            moved = CASES[case].streams * size * int(dtype[-2:]) / 8
                            self.say(
                                f"  {'':<22}{'':>8}fastest: {moved / best:.1f} GB/s for {CASES[case].streams} streams"
                            )
        finally:
            for process in with_processes:
                process.__exit__(None, None, None)

    def rows(self, threads: int, rows: list[tuple[str, str, int]]) -> None:
        """Whole computations; how many times faster than the best other engine framejit is at each level."""
        ratios: dict[str, list[float]] = {"framejit O0": [], "framejit O1": []}
        plain: list[float] = []
        processes = [Process(engine, threads) for engine in self.engines]
        self.head(f"whole computations, {threads} thread{'s' * (threads > 1)}: µs a call", "")
        try:
            for case, dtype, size in rows:
                answers = dict(zip(self.engines, self.measure(processes, case, size, dtype), strict=True))
                self.row(f"{case}, {dtype}, {size:.0e}"[:40], list(answers.values()), 1e3, 3 if size < 10_000 else 1)
                others = [a["ns"] for engine, a in answers.items() if "ns" in a and engine not in ratios]
                for level, own in ratios.items():
                    own.append(min(others) / answers[level]["ns"])
                plain.append(answers["NumPy"]["ns"] / answers["framejit O0"]["ns"])
                self.say(
                    f"  {'':<40} beside the best other: O0 {ratios['framejit O0'][-1]:.2f}x, O1 {ratios['framejit O1'][-1]:.2f}x"
                )
        finally:
            for process in processes:
                process.__exit__(None, None, None)
        for level, own in ratios.items():
            self.say(
                f"{level}: geometric mean {statistics.geometric_mean(own):.2f}x the best other, least {min(own):.2f}x"
            )
        self.say(f"framejit O0 over NumPy: least {min(plain):.2f}x")

    def compile_times(self, operators: list[int]) -> None:
        engines = [engine for engine in self.engines if engine != "NumPy"]
        answers: dict[str, list[list[float]]] = {engine: [[] for _ in operators] for engine in engines}
        for number in range(min(self.rounds, 3)):
            for engine in engines:
                with Process(engine, 1) as process:
                    process.ask(
                        "compile", operators=2, number=number
                    )  # what a first compilation in a process costs is not counted
                    for i, count in enumerate(operators):
                        answer = process.ask("compile", operators=count, number=number)
                        if "ns" in answer:
                            answers[engine][i].append(answer["ns"])
        self.say()
        self.say("first call of a function of n elementwise operators, caches off: ms")
        self.say(f"  {'operators':<22}" + "".join(f"{engine:>16}" for engine in engines))
        for i, count in enumerate(operators):
            cells = [f"{statistics.median(answers[e][i]) / 1e6:.2f}" if answers[e][i] else "-" for e in engines]
            self.say(f"  {count:<22}" + "".join(f"{cell:>16}" for cell in cells))

    def import_times(self) -> None:
        modules = {"numpy": "import numpy", "numpy, framejit": "import numpy, framejit"}
        times: dict[str, list[float]] = {name: [] for name in modules}
        for _ in range(self.rounds):
            for name, code in modules.items():
                start = time.perf_counter()
                subprocess.run([sys.executable, "-c", code], check=True)
                times[name].append((time.perf_counter() - start) * 1e3)
        medians = {name: statistics.median(own) for name, own in times.items()}
        added = medians["numpy, framejit"] - medians["numpy"]
        self.say()
        self.say(
            f"import: numpy {medians['numpy']:.0f} ms, with framejit {added:.0f} ms more (whole processes, medians)"
        )


def copy_bandwidth() -> float:
    """Of `np.copyto` beyond all caches, in GB/s; the best of several."""
    source = np.ones(10**7)
    target = np.zeros_like(source)
    times = []
    for _ in range(9):
        start = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - start)
    return 2 * source.nbytes / min(times) / 1e9


def about() -> list[str]:
    """Machine, versions, date, command."""
    model = next((line.split(":", 1)[1].strip() for line in _cpuinfo() if line.startswith("model name")), "unknown")
    packages = []
    for name in ("numpy", "numba", "numexpr", "jax", "torch"):
        if importlib.util.find_spec(name):
            packages.append(f"{name} {importlib.metadata.version(name)}")
    import framejit

    reason = framejit.unsupported_reason()
    return [
        f"date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        f"machine: {model}, {len(os.sched_getaffinity(0))} usable CPUs, {platform.system()} {platform.release()}",
        f"versions: Python {platform.python_version()}, framejit {framejit.__version__}, {', '.join(packages)}",
        f"capture: {'yes' if reason is None else 'no: ' + reason}",
        f"load at the start: {os.getloadavg()[0]:.1f}",
        f"command: bench.py {' '.join(sys.argv[1:])}".rstrip(),
    ]


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("report") / "bench.txt")
    parser.add_argument(
        "--tiny", action="store_true", help="seconds in place of minutes: whether it runs, not how fast"
    )
    parser.add_argument("--case", default="", help="regular expression: only cases whose name it matches somewhere")
    parser.add_argument("--rows", action="store_true", help="only whole computations")
    options = parser.parse_args()
    engines = [name for name, engine in ENGINES.items() if importlib.util.find_spec(engine.module)]
    if options.tiny:
        engines = [engine for engine in engines if engine.startswith(("NumPy", "framejit"))]
    rounds = 1 if options.tiny else options.rounds
    cases = [] if options.rows else [name for name in CASES if re.search(options.case, name)]
    rows = [row for row in SIZES_OF_ROWS if re.search(options.case, row[0]) and (not options.tiny or row[2] < 10_000)]
    if not cases and not rows:
        parser.error(f"argument --case: {options.case!r} matches none of {[*CASES, *ROWS]}")
    bench = Bench(engines, rounds, 0.001 if options.tiny else 0.05, cases)
    for line in about():
        bench.say(line)
    bench.say(f"medians of {rounds} interleaved rounds; in brackets: times faster than NumPy in the same run")
    threads = min(2, len(os.sched_getaffinity(0)))
    if options.tiny:
        bench.sizes(1, [6, 100], ("float32",))
    else:
        bench.say(f"limit: a copy by NumPy moves {copy_bandwidth():.1f} GB/s (read and written, 80 MB, one thread)")
        bench.sizes(1, SIZES, ("float32", "float64"))
        if threads > 1:
            bench.sizes(threads, [10**6, 10**7], ("float32", "float64"))
    for count in sorted({1, 1 if options.tiny else threads}):
        if rows:
            bench.rows(count, rows)
    if not options.rows:
        bench.compile_times([20] if options.tiny else [20, 200])
        bench.import_times()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("\n".join(bench.lines) + "\n", encoding="utf-8")
    print(f"\nwritten: {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
