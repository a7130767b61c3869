"""Reports for terminals, through `rich`."""

from __future__ import annotations

from typing import Any

from framejit._reporting._collect import FunctionReport
from framejit._reporting._format import break_text, entry_parts, entry_text, function_name, recompile_text, short_path
from framejit._reporting._gain import gain_text


def renderable(summary: str, functions: list[FunctionReport]) -> Any:
    """A group for `rich`: sources with what broke in red, then graphs."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    parts: list[Any] = [Text(summary, style="bold")]
    for function in functions:
        rows = [Text(text) for text in (function.why_not_compiled, gain_text(function)) if text]
        rows.append(_source(function))
        rows += [Text(break_text(record), style="red") for record in function.breaks]
        rows += [Text(recompile_text(record), style="yellow") for record in function.recompiles]
        for number, entry in enumerate(function.entries):
            rows.append(Text(f"entry {number}: {entry_text(entry)}", style="bold"))
            guards, what_runs, *_ = entry_parts(entry)
            rows.append(Text(guards[1], style="dim"))
            rows.append(Text(what_runs[1], style="cyan"))
        title = f"{function_name({'function': function.name})}  {short_path(function.file)}:{function.line}"
        parts.append(Panel(Group(*rows), title=Text(title), title_align="left"))
    return Group(*parts)


def _source(function: FunctionReport) -> Any:
    from rich.text import Text

    captured = function.captured_lines()
    broken = {int(record.get("line", 0)) for record in function.breaks}
    text = Text()
    for number, line in function.source():
        style = "red" if number in broken else "green" if number in captured else ""
        text.append(f"{number:>5} {line}\n", style=style)
    return text
