"""The report of a whole program: ``python -m framejit --report DIR``."""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path

from framejit._api._platform import core
from framejit._api._stats import stats
from framejit._reporting._collect import Collector, FunctionReport
from framejit._reporting._gain import program_text, speed_of_program
from framejit._reporting._info import configuration


class Recorder:
    """Watches while a program runs; writes report.html and report.json."""

    def __init__(self) -> None:
        self._collector = Collector("called too seldom to measure what is gained")
        if core is not None:
            core.set_measuring(True)

    def save(self, folder: Path) -> str:
        """Write both files, and say in a line what was gained. To be called while the functions are still marked."""
        from framejit._reporting._html import counters_table, functions_body, heading, page

        functions = self._collector.finish()
        if core is not None:
            core.set_measuring(False)
        counted = stats()
        summary = program_text(self._collector.seen, counted["compile_ns"])
        speed = speed_of_program(self._collector.seen)
        folder.mkdir(parents=True, exist_ok=True)
        about = configuration()
        data = {"summary": summary, "about": about, "stats": counted, "functions": [f.to_dict() for f in functions]}
        (folder / "report.json").write_text(json.dumps(data, indent=1, default=str) + "\n", encoding="utf-8")
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        body = (
            heading(_title(), speed, summary, "Nothing was measured")
            + f'<p class="soft">{escape(versions)}; capture: {escape(about["capture"])}</p>'
            + functions_body(sorted(functions, key=_time, reverse=True))
            + "<h2>Counters</h2>"
            + counters_table(counted)
        )
        file = folder / "report.html"
        file.write_text(page(f"{_title()}: report of framejit", body), encoding="utf-8")
        return f"framejit: {f'{speed.headline}; ' if speed else ''}{summary}; see {file}"


def _title() -> str:
    """The program's name."""
    return Path(sys.argv[0]).name or "program"


def _time(function: FunctionReport) -> int:
    """The time in a function, with what it calls."""
    return int(function.gain.get("ns", 0)) + int(function.gain.get("compiling_calls_ns", 0))
