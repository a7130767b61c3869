"""Reports on functions as plain text."""

from __future__ import annotations

from collections.abc import Iterable

from framejit._reporting._collect import FunctionReport
from framejit._reporting._format import (
    break_text,
    counted,
    entry_parts,
    entry_text,
    exit_text,
    function_name,
    recompile_text,
    short_path,
)
from framejit._reporting._gain import gain_text


def functions_lines(
    functions: Iterable[FunctionReport], *, entries_whole: bool = True, bytecode: bool = False
) -> list[str]:
    """The lines of the report of each function, after an empty line.

    Guards and graphs of each entry are left out unless `entries_whole`, the bytecode of each function that breaks unless `bytecode`.
    """
    lines = []
    for function in functions:
        lines += ["", f"{function_name({'function': function.name})}  {short_path(function.file)}:{function.line}"]
        lines += [f"  {text}" for text in (function.why_not_compiled, gain_text(function)) if text]
        breaks = function.breaks if function.entries else function.breaks[:1]
        for text in [*map(break_text, breaks), *map(recompile_text, function.recompiles)]:
            lines += _indented(text, 2)
        if len(breaks) < len(function.breaks):
            where = "Explanation.breaks" if entries_whole else "the report of --report DIR"
            lines.append(f"  and {len(function.breaks) - len(breaks)} more, see {where}")
        if function.breaks and function.entries:
            regions = sum(entry["kind"] != "function" for entry in function.entries)
            lines.append(
                f"  code after a break is compiled once the program has come there: {counted(regions, 'region')} so far"
            )
        for number, entry in enumerate(function.entries):
            lines.append(f"  entry {number}: {entry_text(entry)}")
            lines += [f"    {exit_text(way)}" for way in entry.get("exits", [])]
            for title, text in entry_parts(entry) if entries_whole else ():
                lines += [f"    {title}", *_indented(text, 6)]
        if bytecode and function.bytecode:
            lines += ["  bytecode", *_indented(function.bytecode, 4)]
    return lines


def _indented(text: str, by: int) -> list[str]:
    return [" " * by + line for line in text.rstrip().splitlines()]
