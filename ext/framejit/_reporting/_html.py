"""Reports as HTML, for files and notebooks: nothing is loaded from elsewhere, everything shown is escaped, scripts are not needed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from html import escape
from typing import Any

from framejit._api._stats import COUNTERS
from framejit._reporting._collect import FunctionReport, is_uncalled
from framejit._reporting._format import (
    amount,
    caller_text,
    duration,
    entry_text,
    exit_text,
    function_name,
    place_text,
    recompile_text,
    short_path,
    with_micro_sign,
)
from framejit._reporting._gain import Speed, gain_text, may_gain, speed_of
from framejit._reporting._graph_text import library_name
from framejit._reporting._highlight import highlighted
from framejit._reporting._picture import KINDS, graph_picture, legend, scrolled
from framejit._reporting._reasons import page_address, reasons
from framejit._reporting._style import STYLE

_MOST_OPEN = 3  # functions in a report whose first picture is unfolded
_numbers = itertools.count()  # of what is shown in a notebook, whose outputs are one page


def page(title: str, body: str) -> str:
    """A whole document around a body that is escaped already."""
    import framejit

    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>html{{background:#fff}}@media screen and (prefers-color-scheme:dark)"
        f'{{html{{background:#0d1117}}}}body{{margin:0}}{STYLE}</style></head><body><main class="fj fj-page">\n{body}\n'
        f'<p class="soft end">Written by framejit {escape(framejit.__version__)}.</p></main></body></html>\n'
    )


def output(heading: str, functions: list[FunctionReport], *, told: FunctionReport | None = None, cell: str = "") -> str:
    """The HTML for a notebook cell, with its own style and with links inside this output."""
    body = functions_body(functions, prefix=f"fj{next(_numbers)}-", told=told, cell=cell)
    return f'<div class="fj"><style>{STYLE}</style>{heading}{body}</div>'


def table(head: list[str], rows: list[list[Any]], numbers: frozenset[int] = frozenset()) -> str:
    """A table of texts; the columns in `numbers` are set right."""
    return _table(head, [[escape(str(cell)) for cell in row] for row in rows], numbers)


def _table(head: list[str], rows: list[list[str]], numbers: frozenset[int]) -> str:
    def row(tag: str, cells: list[str]) -> str:
        inner = "".join(
            f'<{tag} class="n">{cell}</{tag}>' if i in numbers else f"<{tag}>{cell}</{tag}>"
            for i, cell in enumerate(cells)
        )
        return f"<tr>{inner}</tr>"

    return f'<div class="scroll"><table>{row("th", list(map(escape, head)))}{"".join(row("td", cells) for cells in rows)}</table></div>'


def counters_table(counted: dict[str, int]) -> str:
    """The counters of a program in words and units."""
    rows = [[meaning, with_micro_sign(amount(name, counted[name]))] for name, meaning in COUNTERS.items()]
    return table(["counter", "value"], rows, frozenset({1}))


def heading(title: str, speed: Speed | None, summary: str, unmeasured: str = "") -> str:
    """The beginning of a report: how much faster it was, in words and as bars."""
    return f"<h1>{escape(title)}</h1>{_gain(speed, unmeasured)}<p>{escape(_sentence(with_micro_sign(summary)))}.</p>"


def _gain(speed: Speed | None, unmeasured: str) -> str:
    if speed is None:
        return f'<p class="gain soft">{escape(unmeasured)}</p>' if unmeasured else ""
    longest = max(speed.ns, speed.plain_ns, 1)
    kind = "good" if speed.ns < speed.plain_ns else "bad" if "slower" in speed.headline else ""
    bars = "".join(
        f'<span class="name">{name}</span><b class="{style}" style="width:{100 * ns / longest:.1f}%"></b><span>{with_micro_sign(duration(ns))}</span>'
        for name, style, ns in (("with framejit", "fast", speed.ns), ("plain Python", "", speed.plain_ns))
    )
    return f'<p class="gain {kind}">{escape(_sentence(speed.headline))}</p><div class="bars">{bars}</div>'


def functions_body(
    functions: list[FunctionReport], *, prefix: str = "", told: FunctionReport | None = None, cell: str = ""
) -> str:
    """A table of all functions if there are several, then each by itself, then the reasons of their breaks.

    Parameters
    ----------
    functions : list of FunctionReport
        The functions.
    prefix : str
        What the ids of this part of a page begin with.
    told : FunctionReport, optional
        One of the functions, whose gain the heading tells.
    cell : str
        The file name of a notebook's cell whose whole source is shown, instead of that of each function in it.
    """
    parts = []
    if len(functions) > 1:
        head = ["function", "place", "speed", "calls", "time", "saved", "graphs", "breaks"]
        rows = [
            [
                f'<a href="#{prefix}f{i}">{escape(function_name({"function": f.name}))}</a>',
                escape(f"{short_path(f.file)}:{f.line}"),
                _speed_cell(f),
                *map(escape, _gain_cells(f)),
                *(f"{len(f.entries):,}", f"{len(f.breaks):,}"),
            ]
            for i, f in enumerate(functions)
        ]
        parts.append(_table(head, rows, frozenset(range(3, 8))))
    if cell:
        parts.append(_source([f for f in functions if f.file == cell], prefix, cell))
    for i, f in enumerate(functions):
        is_told = told is not None and (f.name, f.file, f.line) == (told.name, told.file, told.line)
        source = "" if f.file == cell else _source([f], prefix)
        parts.append(
            _function(f, f"{prefix}f{i}", "" if is_told else _own_gain(f), source, len(functions) <= _MOST_OPEN)
        )
    return "\n".join([*parts, _reasons((record for f in functions for record in f.breaks), prefix)])


def _speed_cell(function: FunctionReport) -> str:
    speed = speed_of(function)
    if speed is None:
        state = "not measured" if may_gain(function) else "not called" if is_uncalled(function) else "not compiled"
        return f'<span class="soft">{state}</span>'
    kind = "bad" if "slower" in speed.headline else "good" if "times" in speed.headline else "soft"
    return f'<span class="{kind}">{escape(speed.short)}</span>'


def _gain_cells(function: FunctionReport) -> list[str]:
    """Calls, their time, and what was saved of the time of plain Python."""
    speed, gain = speed_of(function), function.gain
    shown = ""
    if speed is not None:
        saved = speed.plain_ns - speed.ns
        shown = f"{'-' * (saved < 0)}{duration(abs(saved))} of {duration(speed.plain_ns)}"
    calls = gain.get("calls", 0)
    return [f"{calls:,}", *map(with_micro_sign, (duration(gain["ns"]) if calls else "", shown))]


def _own_gain(function: FunctionReport) -> str:
    lines = [with_micro_sign(text) for text in (function.why_not_compiled, gain_text(function)) if text]
    return _gain(speed_of(function), "") + "".join(f"<p>{escape(text)}</p>" for text in lines)


def _function(function: FunctionReport, anchor: str, gain: str, source: str, opened: bool) -> str:
    """One function: what was gained, annotated source, what is compiled for which arguments."""
    place = f"{short_path(function.file)}:{function.line}"
    parts = [
        f'<section id="{anchor}"><h2>{escape(function_name({"function": function.name}))} <span class="soft">{escape(place)}</span></h2>',
        gain,
        source,
    ]
    if function.recompiles:
        parts.append("<h3>Compiled again</h3>")
        parts += [f"<pre>{escape(recompile_text(record))}</pre>" for record in function.recompiles]
    if function.entries:
        parts.append("<h3>Compiled</h3>")
    parts += [_entry(number, entry, opened and number == 0) for number, entry in enumerate(function.entries)]
    if function.bytecode:
        parts.append(_fold("bytecode, and what runs instead", f"<pre>{escape(function.bytecode)}</pre>"))
    return "\n".join([part for part in parts if part] + ["</section>"])


def _entry(number: int, entry: dict[str, Any], opened: bool) -> str:
    text = str(entry["graph"])
    picture = graph_picture(text, library_name(entry), alone=False)
    parts = [f"<p>entry {number}: {escape(with_micro_sign(entry_text(entry)))}</p>"]
    parts += [f'<p class="soft">{escape(exit_text(way))}</p>' for way in entry.get("exits", [])]
    if picture:
        key = "".join(f'<li class="{kind}">{KINDS[kind]}</li>' for kind in legend(text))
        drawn = scrolled(picture) if picture.startswith("<svg") else picture
        body = f'{drawn}<ul class="key">{key}</ul>' if key else drawn
        parts.append(_fold("picture of the graph", body, opened))
    guards = "\n".join(map(str, entry["guards"]))
    for title, shown in (
        ("graph as text", text),
        ("what the machine code does", str(entry["program"])),
        ("when it is used (guards)", guards),
    ):
        if shown:
            parts.append(_fold(title, f"<pre>{escape(shown)}</pre>"))
    return "".join(parts)


def _fold(title: str, body: str, opened: bool = False) -> str:
    return f"<details{' open' if opened else ''}><summary>{title}</summary>{body}</details>"


def _source(functions: list[FunctionReport], prefix: str, cell: str = "") -> str:
    """The source with what was captured in green, and below each line that broke, why."""
    file = cell or functions[0].file
    captured = {line for function in functions for line in function.captured_lines()}
    breaks: dict[int, list[dict[str, Any]]] = {}
    elsewhere = []  # in functions that are part of these graphs
    for record in (record for function in functions for record in function.breaks):
        if record.get("file", file) == file:
            breaks.setdefault(int(record.get("line", 0)), []).append(record)
        else:
            elsewhere.append(record)
    lines = whole_source(cell) if cell else functions[0].source()
    rows, shown = [], set()
    for (number, _), text in zip(lines, highlighted([text for _, text in lines]), strict=True):
        kind = "broken" if number in breaks else "in" if number in captured else ""
        shown.add(kind)
        rows.append(f'<div class="{kind}"><i>{number}</i><span class="line">{text}</span></div>')
        rows += [_why(record, prefix) for record in breaks.pop(number, [])]
    rows += [_why(record, prefix, place_text(record)) for others in [*breaks.values(), elsewhere] for record in others]
    if not rows:
        return ""
    kinds = (("in", "compiled"), ("broken", "a graph ends here"), ("", "runs in the interpreter"))
    key = "".join(f'<li class="{kind}">{name}</li>' for kind, name in kinds if kind in shown)
    return f'<div class="source">{"".join(rows)}</div><ul class="key">{key}</ul>'


def _why(record: dict[str, Any], prefix: str, place: str = "") -> str:
    number = str(record.get("id", ""))
    detail = f": {record['detail']}" if record.get("detail") else ""
    what = f"{record.get('what', '')}{detail}{f', at {place}' if place else ''}"
    if caller := caller_text(record):
        what += f", called from {caller}"
    shown = f'<a href="#{prefix}{number}">{number}</a>' if number in reasons() else escape(number)
    return (
        f'<div class="why"><b>{shown} {escape(what)}</b><br>{escape(_sentence(record.get("why", "")))}. '
        f"<b>Way out:</b> {escape(str(record.get('way_out', '')))}.</div>"
    )


def _sentence(text: Any) -> str:
    return f"{str(text)[:1].upper()}{str(text)[1:]}"


def _reasons(records: Iterable[dict[str, Any]], prefix: str) -> str:
    """The pages of the documentation on the breaks of a report."""
    found = [
        reasons()[number] for number in sorted({str(record.get("id")) for record in records}) if number in reasons()
    ]
    if not found:
        return ""
    address = page_address()
    parts = ["<h2>Why graphs end</h2>"]
    for reason in found:
        online = f' <a href="{escape(address)}#{reason.id}">documentation</a>' if address else ""
        parts.append(
            f'<section id="{prefix}{reason.id}"><h3>{reason.id} {escape(reason.title)}</h3><p>{escape(_sentence(reason.why))}. '
            f"<b>Way out:</b> {escape(reason.way_out)}.</p>{_fold('example', f'<pre>{escape(reason.example)}</pre>')}"
            f'<p class="soft">In a terminal: <code>python -m framejit docs {reason.id}</code>{online}</p></section>'
        )
    return "\n".join(parts)


def whole_source(file: str) -> list[tuple[int, str]]:
    """The numbered lines of a file or a notebook's cell."""
    import linecache

    return [(number, line.rstrip()) for number, line in enumerate(linecache.getlines(file), 1)]
