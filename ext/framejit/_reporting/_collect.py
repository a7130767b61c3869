"""What was compiled and what was not, by function."""

from __future__ import annotations

import ast
import linecache
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from typing import Any

from framejit._api import _jit, _mark
from framejit._reporting._bytecode import side_by_side
from framejit._reporting._graph_text import note_library_names


@dataclass
class FunctionReport:
    """What became of one function.

    Attributes
    ----------
    name, file, line
        The function's qualified name and place.
    entries : list of dict
        What is compiled: kind, first_line, last_line, guards, graph, kernels, program, hits, times in nanoseconds.
    breaks : list of dict
        Where capture stopped.
    recompiles : list of dict
        Which guard failed and had another entry compiled.
    bytecode : str
        The function's bytecode next to the code that runs in its place; empty where there is none.
    gain : dict
        Empty if nothing was measured. `calls` took `ns` nanoseconds; `compiling_calls`, in which something was compiled,
        are not among them and took `compiling_calls_ns`. `compared_calls` of the calls took `compared_ns`; as plain
        Python they would have taken `plain_ns`, by the mean of calls that ran as plain Python. `compared_rounds`,
        `compared_rounds_ns` and `rounds_plain_ns` say the same of rounds of loops, in calls that were not compared.
        `samples` calls and rounds ran as plain Python. `counted` calls and rounds took `counted_ns` instead of
        `counted_plain_ns`, and are not part of what a calling function saves.
    compile_ns : int
        The time of compiling for the function and its callees, in nanoseconds.
    """

    name: str
    file: str
    line: int
    entries: list[dict[str, Any]] = field(default_factory=list)
    breaks: list[dict[str, Any]] = field(default_factory=list)
    recompiles: list[dict[str, Any]] = field(default_factory=list)
    bytecode: str = ""
    gain: dict[str, Any] = field(default_factory=dict)
    compile_ns: int = 0

    @property
    def kernel_count(self) -> int:
        """Kernels of all entries."""
        return sum(len(entry["kernels"]) for entry in self.entries)

    @property
    def hits(self) -> int:
        """Runs of all entries."""
        return sum(int(entry["hits"]) for entry in self.entries)

    @property
    def why_not_compiled(self) -> str:
        """Why no compiled code runs, in a line; empty if some does."""
        left = [str(entry["demoted"]) for entry in self.entries if entry.get("demoted")]
        if self.entries:
            return f"left to the interpreter: {left[0]}" if len(left) == len(self.entries) else ""
        if is_uncalled(self):
            return "not called yet"
        if not self.breaks:
            return "not compiled: it does no work with arrays"
        # That of a loop says more than that of what the loop does.
        loop = next((b for b in self.breaks if b["id"] == "FJ024"), None)
        b = loop or self.breaks[0]
        detail = f": {b['detail']}" if b.get("detail") else ""
        return f"not compiled: {b['what']}{detail}; {b['way_out']}"

    def source(self) -> list[tuple[int, str]]:
        """The numbered lines of the function, without their ends; empty where there is no source."""
        lines = linecache.getlines(self.file)
        first, last = _extent("".join(lines), self.name, self.line)
        return [(number, lines[number - 1].rstrip()) for number in range(first, last + 1)]

    def captured_lines(self) -> set[int]:
        """The lines that compiled code runs: all of them if a whole call is one entry."""
        covered: set[int] = set()
        for entry in self.entries:
            if entry.get("demoted"):
                continue
            if entry.get("kind") == "function":
                return {number for number, _ in self.source()}
            first, last = sorted((int(entry["first_line"]), int(entry["last_line"])))
            covered.update(range(first, last + 1))
        return covered

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def is_uncalled(function: FunctionReport) -> bool:
    """Whether the calls of a function were counted, and there was none."""
    gain = function.gain
    return bool(gain) and not any(gain[calls] for calls in ("calls", "compiling_calls", "samples"))


def _extent(text: str, name: str, line: int) -> tuple[int, int]:
    """First and last line of the innermost function of that name around a line; an empty range where there is none."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return 1, 0
    wanted = name.rsplit(".", 1)[-1]
    found = (1, 0)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        last = node.end_lineno or node.lineno
        if getattr(node, "name", "<lambda>") == wanted and first <= line <= last and first >= found[0]:
            found = (first, last)
    return found


def breaks_of(reports: list[FunctionReport]) -> list[dict[str, Any]]:
    """The breaks of all. That of a callee is one of its caller too, and is left out there."""
    place = itemgetter("id", "detail", "function", "file", "line", "column")
    own = {place(b) for report in reports for b in report.breaks if b["function"] == report.name}
    return [b for report in reports for b in report.breaks if b["function"] == report.name or place(b) not in own]


def function_report(record: dict[str, Any], unsampled: str) -> FunctionReport:
    """From what the compiled half tells about a function. `unsampled`: what to say if no call ran as plain Python."""
    name, file, line = str(record["function"]), str(record["file"]), int(record["line"])
    bytecode = side_by_side(*record["codes"]) if "codes" in record else ""
    entries, breaks, recompiles = (list(record[kind]) for kind in ("entries", "breaks", "recompiles"))
    for entry in entries:
        note_library_names(entry)
    gain = dict(record.get("gain", {}))
    if gain and not gain["samples"]:
        gain["why_unmeasured"] = gain["why_unmeasured"] or unsampled
    return FunctionReport(name, file, line, entries, breaks, recompiles, bytecode, gain, int(record["compile_ns"]))


class Collector:
    """Notes functions that are marked, until it is asked for what became of them.

    Attributes
    ----------
    seen : list of FunctionReport
        After `finish`: of every function, compiled or not.
    """

    def __init__(self, unsampled: str) -> None:
        self._functions: list[Any] = []
        self._unsampled = unsampled
        self.seen: list[FunctionReport] = []
        _jit.on_made.append(self._functions.append)

    def add(self, function: Any) -> None:
        """Report on a marked function that was made earlier."""
        self._functions.append(function)

    def finish(self) -> list[FunctionReport]:
        """Stop, and report on every function of which something was compiled, or tried to be."""
        if self._functions.append in _jit.on_made:
            _jit.on_made.remove(self._functions.append)
        records = [function._report() for function in self._functions if hasattr(function, "_report")]
        records += _mark.reports()
        records += [callee for record in records for callee in record["callees"]]
        self.seen = [function_report(record, self._unsampled) for record in records]
        self.seen.sort(key=lambda report: (report.file, report.line))
        return [report for report in self.seen if report.entries or report.breaks]
