"""The report of a whole program: ``python -m framejit --report DIR``."""

from __future__ import annotations

import json
from pathlib import Path

from framejit._api._platform import core
from framejit._api._stats import COUNTERS, stats
from framejit._reporting._collect import Collector
from framejit._reporting._format import amount
from framejit._reporting._gain import program_text
from framejit._reporting._info import configuration


class Recorder:
    """Watches while a program runs; writes report.html and report.json."""

    def __init__(self) -> None:
        self._collector = Collector("called too seldom to measure what is gained")
        if core is not None:
            core.set_measuring(True)

    def save(self, folder: Path) -> None:
        """Write both files. To be called while the functions are still marked."""
        from html import escape

        from framejit._reporting._html import functions_body, page, table

        functions = self._collector.finish()
        if core is not None:
            core.set_measuring(False)
        counted = stats()
        summary = program_text(self._collector.seen, counted["compile_ns"])
        folder.mkdir(parents=True, exist_ok=True)
        about = configuration()
        data = {"summary": summary, "about": about, "stats": counted, "functions": [f.to_dict() for f in functions]}
        (folder / "report.json").write_text(json.dumps(data, indent=1, default=str) + "\n", encoding="utf-8")
        rows = [[name, meaning, amount(name, counted[name])] for name, meaning in COUNTERS.items()]
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        body = (
            f"<h1>framejit</h1><p><b>{escape(summary)}</b></p>"
            f"<p>{escape(versions)}; capture: {escape(about['capture'])}</p>"
            + functions_body(functions)
            + "<h2>Counters</h2>"
            + table(["name", "meaning", "value"], rows, frozenset({2}))
        )
        (folder / "report.html").write_text(page("framejit", body), encoding="utf-8")
