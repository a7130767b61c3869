"""What was compiled and what was not, by function."""

from __future__ import annotations

import ast
import linecache
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from typing import Any

from framejit import _jit, _mark
from framejit._bytecode import side_by_side


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
        The function's bytecode beside the code that runs in its place; empty where there is none.
    """

    name: str
    file: str
    line: int
    entries: list[dict[str, Any]] = field(default_factory=list)
    breaks: list[dict[str, Any]] = field(default_factory=list)
    recompiles: list[dict[str, Any]] = field(default_factory=list)
    bytecode: str = ""

    @property
    def kernel_count(self) -> int:
        """Kernels of all entries."""
        return sum(len(entry["kernels"]) for entry in self.entries)

    @property
    def hits(self) -> int:
        """Runs of all entries."""
        return sum(int(entry["hits"]) for entry in self.entries)

    def source(self) -> list[tuple[int, str]]:
        """The numbered lines of the function, without their ends; empty where there is no source."""
        lines = linecache.getlines(self.file)
        first, last = _extent("".join(lines), self.name, self.line)
        return [(number, lines[number - 1].rstrip()) for number in range(first, last + 1)]

    def captured_lines(self) -> set[int]:
        """The lines that compiled code covers: all of them where a whole call is one entry."""
        covered: set[int] = set()
        for entry in self.entries:
            if entry.get("kind") == "function":
                return {number for number, _ in self.source()}
            first, last = sorted((int(entry["first_line"]), int(entry["last_line"])))
            covered.update(range(first, last + 1))
        return covered

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


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


def function_report(record: dict[str, Any]) -> FunctionReport:
    """From what the compiled half tells about a function."""
    name, file, line = str(record["function"]), str(record["file"]), int(record["line"])
    bytecode = side_by_side(*record["codes"]) if "codes" in record else ""
    lists = (list(record[kind]) for kind in ("entries", "breaks", "recompiles"))
    return FunctionReport(name, file, line, *lists, bytecode)


class Collector:
    """Notes functions that are marked, until it is asked for what became of them."""

    def __init__(self) -> None:
        self._functions: list[Any] = []
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
        reports = [function_report(record) for record in records if record["entries"] or record["breaks"]]
        reports.sort(key=lambda report: (report.file, report.line))
        return reports
