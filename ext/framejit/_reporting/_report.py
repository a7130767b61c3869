"""The report of a whole program: ``python -m framejit --report DIR`` and ``python -m framejit explain``."""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path

from framejit._api._platform import core
from framejit._api._stats import stats
from framejit._reporting._collect import Collector, FunctionReport, is_uncalled
from framejit._reporting._gain import program_text, speed_of_program
from framejit._reporting._info import configuration
from framejit._reporting._text import functions_lines


class Recorder:
    """Watches while a program runs. After `finish`, it writes report.html and report.json, or returns the report as text."""

    def __init__(self) -> None:
        self._collector = Collector("called too seldom to measure what is gained")
        if core is not None:
            core.set_measuring(True)

    def finish(self) -> None:
        """Stop watching. To be called while the functions are still marked."""
        self._functions = sorted(self._collector.finish(), key=_time, reverse=True)
        if core is not None:
            core.set_measuring(False)
        self._stats = stats()
        self._summary = program_text(self._collector.seen, self._stats["compile_ns"])
        self._speed = speed_of_program(self._collector.seen)

    def text(self) -> str:
        """The time gained, and for each function that was called its compiled parts and the reasons for its breaks, without guards and graphs."""
        left = [f for f in self._collector.seen if not (f.entries or f.breaks or is_uncalled(f))]
        lines = functions_lines([*self._functions, *left], entries_whole=False)
        return "\n".join([self._gained(), *lines])

    def save(self, folder: Path) -> str:
        """Write both files, and say in a line what was gained."""
        from framejit._reporting._html import counters_table, functions_body, heading, page

        functions, counted, summary, speed = self._functions, self._stats, self._summary, self._speed
        folder.mkdir(parents=True, exist_ok=True)
        about = configuration()
        data = {"summary": summary, "about": about, "stats": counted, "functions": [f.to_dict() for f in functions]}
        (folder / "report.json").write_text(json.dumps(data, indent=1, default=str) + "\n", encoding="utf-8")
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        body = (
            heading(_title(), speed, summary, "Nothing was measured")
            + f'<p class="soft">{escape(versions)}; capture: {escape(about["capture"])}</p>'
            + functions_body(functions)
            + "<h2>Counters</h2>"
            + counters_table(counted)
        )
        file = folder / "report.html"
        file.write_text(page(f"{_title()}: report of framejit", body), encoding="utf-8")
        return f"{self._gained()}; see {file}"

    def _gained(self) -> str:
        return f"framejit: {f'{self._speed.headline}; ' if self._speed else ''}{self._summary}"


def _title() -> str:
    """The program's name."""
    return Path(sys.argv[0]).name or "program"


def _time(function: FunctionReport) -> int:
    """The time in a function, with what it calls."""
    return int(function.gain.get("ns", 0)) + int(function.gain.get("compiling_calls_ns", 0))
