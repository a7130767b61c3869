"""Reports as one HTML file: nothing is loaded from elsewhere, everything shown is escaped, scripts are not needed."""

from __future__ import annotations

from html import escape
from typing import Any

from framejit._reporting._collect import FunctionReport
from framejit._reporting._format import duration, entry_text, function_name, recompile_text, short_path
from framejit._reporting._gain import gain_text, may_gain

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#1b1f24;background:#fff}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em;border-bottom:1px solid #d0d7de;padding-bottom:.2em}
table{border-collapse:collapse;margin:.6em 0}td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #e4e8ec}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
pre{background:#f6f8fa;padding:.7em;overflow-x:auto;font:13px/1.4 ui-monospace,monospace;margin:.5em 0}
.source{padding:.4em 0}.source div{padding:0 .7em;white-space:pre;min-height:1.4em}
.source i{display:inline-block;width:3.5em;color:#6e7781;font-style:normal}
.in{background:#dafbe1}.broken{background:#ffebe9}
.why{background:#fff8c5;white-space:normal!important;padding-left:4.2em!important}
details{margin:.3em 0}summary{cursor:pointer}.soft{color:#57606a}img{max-width:100%}
"""


def page(title: str, body: str) -> str:
    """A whole document around a body that is escaped already."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def table(head: list[str], rows: list[list[Any]], numbers: frozenset[int] = frozenset()) -> str:
    """A table; the columns in `numbers` are set right."""

    def row(tag: str, cells: list[Any]) -> str:
        inner = "".join(
            f'<{tag} class="n">{escape(str(cell))}</{tag}>' if i in numbers else f"<{tag}>{escape(str(cell))}</{tag}>"
            for i, cell in enumerate(cells)
        )
        return f"<tr>{inner}</tr>"

    return "<table>" + row("th", head) + "".join(row("td", cells) for cells in rows) + "</table>"


def functions_body(functions: list[FunctionReport]) -> str:
    """A table of all functions, then each by itself."""
    head = ["function", "place", "calls", "time", "saved", "graphs", "kernels", "runs", "breaks", "recompiled"]
    rows = [
        [
            function_name({"function": f.name}),
            f"{short_path(f.file)}:{f.line}",
            *_gain_cells(f),
            *(len(f.entries), f.kernel_count, f.hits, len(f.breaks), len(f.recompiles)),
        ]
        for f in functions
    ]
    return table(head, rows, frozenset(range(2, 10))) + "".join(function_body(f) for f in functions)


def _gain_cells(function: FunctionReport) -> list[str]:
    """Calls, their time, and what was saved of the time of plain Python."""
    gain = function.gain
    if not may_gain(function):
        shown = "not compiled"
    elif gain and gain["samples"]:
        plain, ns = ("plain_ns", "compared_ns") if gain["compared_calls"] else ("rounds_plain_ns", "compared_rounds_ns")
        saved = gain[plain] - gain[ns]
        shown = f"{'-' * (saved < 0)}{duration(abs(saved))} of {duration(gain[plain])}"
    else:
        shown = "not measured"
    return [f"{gain.get('calls', 0):,}", duration(gain.get("ns", 0)), shown]


def function_body(function: FunctionReport) -> str:
    """One function: annotated source, breaks, graphs, kernels, guards, times."""
    parts = [
        f"<h2>{escape(function_name({'function': function.name}))} "
        f'<span class="soft">{escape(short_path(function.file))}:{function.line}</span></h2>',
        *(f"<p>{escape(text)}</p>" for text in (function.why_not_compiled, gain_text(function)) if text),
        _source(function),
    ]
    parts += [f"<pre>{escape(recompile_text(record))}</pre>" for record in function.recompiles]
    for number, entry in enumerate(function.entries):
        parts.append(f"<p>entry {number}: {escape(entry_text(entry))}</p>")
        guards = "\n".join(map(str, entry["guards"]))
        for title, text in (("graph", entry["graph"]), ("program", entry["program"]), ("guards", guards)):
            parts.append(f"<details><summary>{title}</summary><pre>{escape(str(text))}</pre></details>")
    if function.bytecode:
        parts.append(f"<details><summary>bytecode</summary><pre>{escape(function.bytecode)}</pre></details>")
    return "\n".join(parts)


def _source(function: FunctionReport) -> str:
    """The source with what was captured in green, and below each line that broke, why."""
    lines = function.source()
    captured = function.captured_lines()
    breaks: dict[int, list[dict[str, Any]]] = {}
    for record in function.breaks:
        breaks.setdefault(int(record.get("line", 0)), []).append(record)
    if not lines:
        return "".join(_why(record) for record in function.breaks)
    rows = []
    for number, text in lines:
        kind = "broken" if number in breaks else "in" if number in captured else ""
        rows.append(f'<div class="{kind}"><i>{number}</i>{escape(text)}</div>')
        rows += [_why(record) for record in breaks.pop(number, [])]
    rows += [_why(record) for others in breaks.values() for record in others]
    return f'<pre class="source">{"".join(rows)}</pre>'


def _why(record: dict[str, Any]) -> str:
    detail = f": {record['detail']}" if record.get("detail") else ""
    text = f"{record.get('id', '')} {record.get('what', '')}{detail}"
    return f'<div class="why"><b>{escape(text)}</b><br>{escape(str(record.get("why", "")))}. <b>Way out:</b> {escape(str(record.get("way_out", "")))}.</div>'
