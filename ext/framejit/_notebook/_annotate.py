"""``%%framejit --annotate``: the source of a cell with what was compiled, what was not, and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from framejit._api._platform import reason
from framejit._reporting._collect import Collector, FunctionReport
from framejit._reporting._explain import Explanation
from framejit._reporting._format import counted
from framejit._reporting._gain import program_text, speed_of_program
from framejit._reporting._html import heading, output

_UNSAMPLED = "called too seldom to measure what is gained"


class CellReport(Explanation):
    """The report of the functions of a cell.

    Parameters
    ----------
    name : str
        The name of the cell.
    functions : list of FunctionReport
        What became of its functions.
    file : str
        The file name of the cell whose whole source is shown; empty: that of each function.
    """

    def __init__(self, name: str, functions: list[FunctionReport], file: str = "") -> None:
        super().__init__(name, None, None, functions)
        self.file = file

    def _summary(self) -> str:
        return f"{self.name}: {self._facts()}"

    def _facts(self) -> str:
        if reason is not None:
            return f"ran as plain Python: {reason}"
        if not self.functions:
            return "no function was marked"
        made = ", ".join(
            counted(len(what), noun)
            for what, noun in ((self.functions, "function"), (self.entries, "graph"), (self.breaks, "break"))
        )
        return f"{made}; {program_text(self.functions, sum(f.compile_ns for f in self.functions))}"

    def _heading(self) -> str:
        unmeasured = "Not measured yet" if self.entries else "Not compiled" if self.functions else ""
        return heading(self.name, speed_of_program(self.functions), self._facts(), unmeasured)

    def _repr_html_(self) -> str:
        return output(self._heading(), self.functions, cell=self.file)


class Annotation:
    """Watches while a cell runs.

    Parameters
    ----------
    name, file : str
        The name of the cell, and its file name.
    """

    def __init__(self, name: str, file: str) -> None:
        self._name = name
        self._file = file
        self._collector = Collector(_UNSAMPLED)

    def finish(self) -> CellReport:
        """The report of the functions that the cell defines, and of their callees if these were compiled on their own."""
        compiled = self._collector.finish()
        own = [function for function in self._collector.seen if function.file == self._file]
        others = [function for function in compiled if function not in own]
        return CellReport(self._name, own + others, self._file)


def report_of(name: str, functions: Iterable[Any]) -> CellReport:
    """The report of marked functions, as of now."""
    collector = Collector(_UNSAMPLED)
    for function in functions:
        collector.add(function)
    collector.finish()
    return CellReport(name, collector.seen)
