"""What was compiled and what was not, by function: collected from events while a program runs."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from framejit._events import CHANNELS, listen


@dataclass
class FunctionReport:
    """What happened to one function."""

    name: str
    file: str
    line: int
    breaks: list[dict[str, Any]] = field(default_factory=list)
    graphs: list[dict[str, Any]] = field(default_factory=list)
    guards: list[dict[str, Any]] = field(default_factory=list)
    kernels: list[dict[str, Any]] = field(default_factory=list)
    asm: list[dict[str, Any]] = field(default_factory=list)
    recompiles: list[dict[str, Any]] = field(default_factory=list)
    times: list[dict[str, Any]] = field(default_factory=list)

    def source(self) -> list[tuple[int, str]]:
        """The numbered lines of the function, without their ends; empty where there is no source."""
        lines = linecache.getlines(self.file)
        first, last = _extent("".join(lines), self.name, self.line)
        return [(number, lines[number - 1].rstrip()) for number in range(first, last + 1)]

    def captured_lines(self) -> set[int]:
        """The lines that compiled code covers."""
        covered: set[int] = set()
        for graph in self.graphs:
            covered.update(graph.get("lines") or range(graph.get("first_line", 0), graph.get("last_line", -1) + 1))
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


_ATTRIBUTES = {
    "graph_breaks": "breaks",
    "recompiles": "recompiles",
    "guards": "guards",
    "graph": "graphs",
    "kernels": "kernels",
    "asm": "asm",
    "perf": "times",
}


class Collector:
    """Listens to events and keeps them by function, each break once.

    Parameters
    ----------
    channels : iterable of str
        What to listen to; all by default.
    """

    def __init__(self, channels: Iterable[str] = tuple(CHANNELS)) -> None:
        self.functions: dict[tuple[str, str, int], FunctionReport] = {}
        self._breaks: set[tuple[Any, ...]] = set()
        self._stop: Callable[[], None] | None = listen(self._take, channels)

    def stop(self) -> list[FunctionReport]:
        """Stop listening; gives the functions in the order in which they were first heard of."""
        if self._stop is not None:
            self._stop()
            self._stop = None
        return list(self.functions.values())

    def _take(self, channel: str, record: dict[str, Any]) -> None:
        name, file = str(record.get("function", "")), str(record.get("file", ""))
        line = int(record.get("function_line", record.get("line", 0)))
        key = (file, name, int(record.get("function_line", 0)))
        report = self.functions.get(key)
        if report is None:
            report = self.functions[key] = FunctionReport(name, file, line)
        if channel == "graph_breaks":
            place = (*key, record.get("id"), record.get("line"), record.get("column"), record.get("detail"))
            if place in self._breaks:
                return
            self._breaks.add(place)
        getattr(report, _ATTRIBUTES[channel]).append(dict(record))
