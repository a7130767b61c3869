"""``explain``: call a function and say what was compiled, what was not, and why."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from framejit._api._jit import compile_any, is_compiled, jit, settings_of
from framejit._api._platform import core, reason
from framejit._reporting._collect import Collector, FunctionReport, breaks_of, function_report
from framejit._reporting._format import counted, place_text
from framejit._reporting._gain import gain_text, speed_of
from framejit._reporting._text import functions_lines

_UNSAMPLED = "call it again to measure what is gained"


class Explanation:
    """The report of a call. It prints as text and shows as HTML in notebooks.

    Parameters
    ----------
    name : str
        The name of the function.
    result, error, functions, own
        The attributes below.

    Attributes
    ----------
    result : object
        The result of the call.
    error : BaseException or None
        The exception of the call.
    functions : list of FunctionReport
        The function, and its callees that were compiled on their own.
    own : FunctionReport or None
        The function alone. Its `gain` says how long its calls took, and how long they would have taken as plain Python.
    """

    def __init__(
        self,
        name: str,
        result: Any,
        error: Exception | None,
        functions: list[FunctionReport],
        own: FunctionReport | None = None,
    ) -> None:
        self.name = name
        self.result = result
        self.error = error
        self.functions = functions
        self.own = own

    @property
    def breaks(self) -> list[dict[str, Any]]:
        """The places at which capture stopped: id, what, why, way_out, detail, function, file, line, column.

        In a library also from_function, from_file and from_line: the line of the program that led there.

        `place` is file, line and column as text; for a notebook it has the number of the cell: `Cell 5:3:13`.
        """
        return [{**record, "place": place_text(record)} for record in breaks_of(self.functions)]

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What is compiled: kind, first_line, last_line, guards, graph, kernels, hits, and times in nanoseconds."""
        return [entry for function in self.functions for entry in function.entries]

    @property
    def graphs(self) -> list[str]:
        """The graphs as text."""
        return [str(entry["graph"]) for entry in self.entries]

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """The kernels: name and bytes."""
        return [kernel for entry in self.entries for kernel in entry["kernels"]]

    @property
    def recompiles(self) -> list[dict[str, Any]]:
        """Which guard of which entry failed and had another compiled: entry, guard, expected, found, becomes."""
        return [record for function in self.functions for record in function.recompiles]

    @property
    def bytecode(self) -> str:
        """The bytecode of each function that breaks next to the code that runs in its place."""
        return "\n\n".join(function.bytecode for function in self.functions if function.bytecode)

    @property
    def guards(self) -> list[str]:
        """The guards as Python expressions."""
        return [str(guard) for entry in self.entries for guard in entry["guards"]]

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "name": self.name,
            "error": None if self.error is None else f"{type(self.error).__name__}: {self.error}",
            "summary": self._summary(),
            "functions": [function.to_dict() for function in self.functions],
        }

    def text(self, *, bytecode: bool = False) -> str:
        """The report as text; with the bytecode of each function that breaks if asked for."""
        return "\n".join([self._summary(), *functions_lines(self.functions, bytecode=bytecode)])

    def _summary(self) -> str:
        return f"{self.name}(): {self._facts()}"

    def _facts(self) -> str:
        if reason is not None:
            return f"ran as plain Python: {reason}"
        made = f"{counted(len(self.entries), 'graph')}, {counted(len(self.breaks), 'break')}"
        if not self.entries:
            made = "not compiled" if self.own is None else self.own.why_not_compiled
        gain = "" if self.own is None else gain_text(self.own)
        raised = "" if self.error is None else f"raised {type(self.error).__name__}: {self.error}"
        return "; ".join(part for part in (made, gain, raised) if part)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def __rich__(self) -> Any:
        """For `rich.print`: sources, graphs and assembly stand in panels of their own."""
        from framejit._reporting._rich import renderable

        return renderable(self._summary(), self.functions)

    def show(self, *, bytecode: bool = False) -> None:
        """Print the report, or the report with the bytecode.

        It has colours if `rich` is installed and the output is a terminal, or the environment variable FORCE_COLOR is
        set. NO_COLOR turns them off.
        """
        import os
        import sys

        colors = sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
        if not bytecode and colors and find_spec("rich") is not None:
            from rich.console import Console

            Console().print(self)
        else:
            print(self.text(bytecode=bytecode))

    def graph_svg(self, entry: int = 0) -> str:
        """A graph as a picture.

        Parameters
        ----------
        entry : int
            The number of the entry, as in `entries`.

        Returns
        -------
        str
            An SVG document: inputs, operations and results from top to bottom. A compiled loop shows its blocks and jumps.

        Raises
        ------
        IndexError
            If there is no such entry.
        ValueError
            If the graph is empty, or has more operations than a picture can show.

        Examples
        --------
        >>> import numpy as np
        >>> import framejit as fj
        >>> report = fj.explain(lambda x: np.sqrt(x) + 1)(np.arange(3.0))
        >>> report.graph_svg().startswith("<svg")
        True
        """
        from framejit._reporting._graph_text import library_name
        from framejit._reporting._picture import graph_picture

        entries = self.entries
        if not 0 <= entry < len(entries):
            raise IndexError(
                f"graph_svg() got entry {entry}, but there are {counted(len(entries), 'entry', 'entries')}"
            )
        picture = graph_picture(str(entries[entry]["graph"]), library_name(entries[entry]))
        if not picture.startswith("<svg"):
            raise ValueError(f"entry {entry} has no graph that a picture can show")
        return picture

    def _repr_html_(self) -> str:
        from framejit._reporting._html import output

        return output(self._heading(), self.functions, told=self.own)

    def _heading(self) -> str:
        from framejit._reporting._html import heading

        unmeasured = (
            "" if self.own is None or not self.own.gain else "Not compiled" if not self.entries else "Not measured yet"
        )
        speed = None if self.own is None else speed_of(self.own)
        return heading(f"{self.name}()", speed, self._facts(), unmeasured)

    def save(self, file: str | Path) -> None:
        """Write the report as one HTML file that needs nothing else."""
        from framejit._reporting._html import functions_body, page

        body = self._heading() + functions_body(self.functions, told=self.own)
        Path(file).write_text(page(f"{self.name}(): report of framejit", body), encoding="utf-8")


def explain(function: Any, **jit_arguments: Any) -> Callable[..., Explanation]:
    """Explain what `jit` makes of a call.

    Parameters
    ----------
    function : callable
        A function, marked or not. It is compiled again, so that everything is shown.
    **jit_arguments
        Arguments of `jit`, for a function that is not marked.

    Returns
    -------
    callable
        Takes the function's arguments, calls it, and returns an `Explanation`. Further calls go on with what earlier
        ones compiled. Some of them run as plain Python instead, so that the explanation can say what compiled code saves.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> def f(x):
    ...     return x * 2 + 1
    >>> report = fj.explain(f)(np.arange(3.0))
    >>> report.result
    array([1., 3., 5.])
    """
    before = core is not None and core.set_measuring(True)
    try:
        fresh = _compiled_anew(function, jit_arguments)
    finally:
        if core is not None:
            core.set_measuring(before)
    compiled = getattr(fresh, "__func__", fresh)

    def call(*args: Any, **kwargs: Any) -> Explanation:
        result, error = None, None
        collector = Collector(_UNSAMPLED)
        collector.add(compiled)
        try:
            result = fresh(*args, **kwargs)
        except Exception as raised:
            error = raised
        finally:
            functions = collector.finish()
        own = function_report(compiled._report(), _UNSAMPLED) if hasattr(compiled, "_report") else None
        return Explanation(
            getattr(function, "__qualname__", type(function).__qualname__), result, error, functions, own
        )

    return call


def _compiled_anew(function: Any, jit_arguments: dict[str, Any]) -> Any:
    inner = getattr(function, "__func__", function)
    if not is_compiled(inner):
        return jit(**jit_arguments)(function)
    if jit_arguments:
        raise TypeError("explain() of a marked function takes no arguments of jit: it has its own")
    return compile_any(function, settings_of(inner))
