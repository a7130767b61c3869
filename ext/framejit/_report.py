"""The report of a whole program: ``python -m framejit --report DIR``."""

from __future__ import annotations

import json
from pathlib import Path

from framejit._collect import Collector
from framejit._info import configuration
from framejit._stats import COUNTERS, stats


class Recorder:
    """Watches while a program runs; writes report.html and report.json."""

    def __init__(self) -> None:
        self._collector = Collector()

    def save(self, folder: Path) -> None:
        """Write both files. To be called while the functions are still marked."""
        from html import escape

        from framejit._html import functions_body, page, table

        functions = self._collector.finish()
        counted = stats()
        folder.mkdir(parents=True, exist_ok=True)
        about = configuration()
        data = {"about": about, "stats": counted, "functions": [function.to_dict() for function in functions]}
        (folder / "report.json").write_text(json.dumps(data, indent=1, default=str) + "\n", encoding="utf-8")
        rows = [[name, meaning, counted[name]] for name, meaning in COUNTERS.items()]
        versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        body = (
            f"<h1>framejit</h1><p>{escape(versions)}; capture: {escape(about['capture'])}</p>"
            + functions_body(functions)
            + "<h2>Counters</h2>"
            + table(["name", "meaning", "value"], rows, frozenset({2}))
        )
        (folder / "report.html").write_text(page("framejit", body), encoding="utf-8")
