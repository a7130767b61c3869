"""The demo: unmodified NumPy scripts, plain and compiled. Writes a picture and one HTML report.

Each script runs in processes of its own: plain, compiled at O0 and at O1 through ``python -m framejit``, with one thread and with
all. At O0 every result must equal plain NumPy's to the bit; for O1 the largest error is shown.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import framejit

HERE = Path(__file__).resolve().parent
SCRIPTS = ("terrain.py", "options.py")
# So many calls of main are not timed: framejit compiles in the first, and memory is still taken from the system.
WARM_UP = 2

# The allocator of the C library keeps memory that is freed. Otherwise it gives large arrays back to the system, and how long a call
# takes, of plain NumPy too, depends on what the functions around it keep.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_MMAP_THRESHOLD_": str(2**25)}


@dataclass(frozen=True)
class Variant:
    """How a script is run."""

    name: str
    level: str  # "" for plain Python
    threads: int


@dataclass
class Run:
    """What the processes of one variant recorded."""

    times: dict[str, list[float]] = field(default_factory=dict)
    digests: dict[str, set[str]] = field(default_factory=dict)
    printed: set[str] = field(default_factory=set)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)

    def take(self, out: Path, report: Path) -> None:
        """Add what one process left."""
        data = json.loads(out.with_suffix(".json").read_text())
        for name, times in data["times"].items():
            self.times.setdefault(name, []).extend(times[WARM_UP:] or times)
        for name, digests in data["digests"].items():
            self.digests.setdefault(name, set()).update(digests)
        self.printed.update(data["printed"])
        with np.load(out.with_suffix(".npz")) as arrays:
            self.arrays = dict(arrays)
        if report.exists():
            self.report = json.loads(report.read_text())

    def seconds(self, name: str) -> float:
        """The median of all warm calls."""
        return statistics.median(self.times[name])


def run_once(script: str, variant: Variant, rounds: int, folder: Path) -> tuple[Path, Path]:
    """Run a script once in a process of its own; gives the files that it left."""
    out, report = folder / "out", folder / "report"
    command = [str(HERE / "record.py"), str(HERE / script), str(rounds), str(out)]
    if variant.level:
        marks = ["--mark", Path(script).stem, "--jit-level", variant.level, "--report", str(report)]
        command = ["-m", "framejit", *marks, *command]
    environment = {**os.environ, **KEEP_MEMORY, "FRAMEJIT_NUM_THREADS": str(variant.threads), "MPLBACKEND": "Agg"}
    for library in ("OMP", "OPENBLAS", "MKL"):
        environment[f"{library}_NUM_THREADS"] = str(variant.threads)
    done = subprocess.run([sys.executable, *command], env=environment, text=True, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{script}, {variant.name}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return out, report / "report.json"


def largest_error(expected: dict[str, np.ndarray], got: dict[str, np.ndarray], name: str) -> float:
    """The largest error of a function's results, as a share of the largest value of each."""
    worst = 0.0
    for key in (key for key in expected if key.rsplit(".", 1)[0] == name):
        a, b = expected[key], got[key]
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if a.dtype.kind not in "fc":
            worst = max(worst, float(np.mean(a != b)) if a.size else 0.0)
            continue
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        scale = float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0)) or 1.0
        with np.errstate(invalid="ignore"):
            worst = max(worst, float(np.max(np.where(same, 0.0, np.abs(a - b)), initial=0.0)) / scale)
    return worst


def table_of(script: str, runs: dict[Variant, Run], variants: list[Variant]) -> tuple[list[str], list[list[str]], bool]:
    """Head and rows of the comparison, longest first, and whether every result at O0 was right."""
    plain = runs[variants[0]]
    head = ["function", "NumPy ms"]
    compiled = variants[1:]
    for variant in compiled:
        head += [variant.name, "result" if variant.level == "O0" else "error"]
    rows, right = [], True
    for name in sorted(plain.times, key=plain.seconds, reverse=True):
        row = [name, f"{plain.seconds(name) * 1e3:.2f}"]
        for variant in compiled:
            run = runs[variant]
            row.append(f"{plain.seconds(name) / run.seconds(name):.2f}x")
            if variant.level == "O0":
                same = run.digests[name] == plain.digests[name] and len(plain.digests[name]) == 1
                right = right and same
                row.append("same bits" if same else "DIFFERENT")
            else:
                row.append(f"{largest_error(plain.arrays, run.arrays, name):.1e}")
        rows.append(row)
    right = right and all(runs[v].printed == plain.printed for v in compiled if v.level == "O0")
    return head, rows, right


def summary_of(runs: dict[Variant, Run], variants: list[Variant]) -> str:
    """How much faster the compiled functions are, all together."""
    plain = runs[variants[0]]
    seconds = sum(map(plain.seconds, plain.times))
    parts = [f"{seconds / sum(map(runs[v].seconds, plain.times)):.1f} times as fast ({v.name})" for v in variants[1:]]
    return f"{seconds * 1e3:.0f} ms with NumPy; compiled: {', '.join(parts)}"


def text_table(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in [head, *rows]
    ]
    return "\n".join("  " + line for line in lines)


def describe(report: dict[str, Any]) -> list[str]:
    """Graphs, kernels and breaks of a report, in a few lines."""
    lines = []
    for function in report.get("functions", []):
        entries = function["entries"]
        kernels = sum(len(entry["kernels"]) for entry in entries)
        lines.append(
            f"    {function['name']}(): {len(entries)} graphs, {kernels} kernels, {len(function['breaks'])} breaks"
        )
        libraries: dict[int, int] = {}
        for record in function["breaks"]:
            if record["file"] != function["file"]:
                line = record.get("from_line") or 0
                libraries[line] = libraries.get(line, 0) + 1
                continue
            detail = f": {record['detail']}" if record.get("detail") else ""
            lines.append(f"        line {record['line']}: {record['id']} {record['what']}{detail}")
        lines += [
            f"        line {line}: {count} breaks in libraries that it calls" for line, count in libraries.items()
        ]
    return lines


def html_section(script: str, summary: str, head: list[str], rows: list[list[str]], report: dict[str, Any]) -> str:
    from framejit._reporting._collect import FunctionReport
    from framejit._reporting._html import functions_body, table

    functions = [FunctionReport(**function) for function in report.get("functions", [])]
    functions = [function for function in functions if Path(function.file).name == script]  # without those of libraries
    numbers = frozenset(range(1, len(head)))
    return (
        f"<h1>{escape(script)}</h1><p>{escape(summary)}</p>"
        + table(head, list(rows), numbers)
        + functions_body(functions, prefix=f"{script}-")
    )


def picture(shade: np.ndarray, file: Path) -> str:
    """Write the shaded relief as PNG; gives it as a data address."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.imsave(file, shade[:, : shade.shape[1]][::2, ::2], cmap="gray", vmin=0, vmax=1)
    return "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder for the picture and the report")
    parser.add_argument(
        "--rounds", type=int, default=6, help=f"calls of main in one process; the first {WARM_UP} are not timed"
    )
    parser.add_argument("--processes", type=int, default=2, help="processes for each variant, interleaved")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    threads = len(os.sched_getaffinity(0))
    variants = [Variant("NumPy", "", 1), Variant("O0", "O0", 1), Variant("O1", "O1", 1)]
    if threads > 1:
        variants += [Variant(f"O0, {threads} threads", "O0", threads), Variant(f"O1, {threads} threads", "O1", threads)]
    reason = framejit.unsupported_reason()
    if reason is not None:
        print(f"Nothing is captured here, so all variants are plain Python: {reason}")
    sections, right, image = [], True, ""
    for script in SCRIPTS:
        runs = {variant: Run() for variant in variants}
        for _ in range(options.processes):
            for variant in variants:
                with tempfile.TemporaryDirectory() as folder:
                    runs[variant].take(*run_once(script, variant, options.rounds, Path(folder)))
        head, rows, same = table_of(script, runs, variants)
        right = right and same
        print(
            f"\n{script}: speed against plain NumPy (one thread), medians of {options.processes} processes x "
            f"{max(1, options.rounds - WARM_UP)} calls"
        )
        print("  printed: " + max(runs[variants[0]].printed).replace("\n", "\n           ").rstrip())
        summary = summary_of(runs, variants)
        print(f"  {summary}")
        print(text_table(head, rows))
        report = runs[variants[1]].report
        print("  at O0:")
        print("\n".join(describe(report)))
        sections.append(html_section(script, summary, head, rows, report))
        if "hillshade.0" in runs[variants[1]].arrays:
            image = picture(runs[variants[1]].arrays["hillshade.0"], options.out / "hillshade.png")
    from framejit._reporting._html import page

    body = "".join(sections) + f'<h1>hillshade</h1><img alt="shaded relief" src="{image}">'
    (options.out / "report.html").write_text(page("framejit: demo", body), encoding="utf-8")
    print(f"\nwritten: {options.out / 'hillshade.png'}, {options.out / 'report.html'}")
    print(
        "every result at O0 equals plain NumPy's to the bit"
        if right
        else "SOME RESULTS AT O0 DIFFER from plain NumPy's"
    )
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
