"""Events as text: what logs and reports show."""

from __future__ import annotations

import linecache
import os
import re
from pathlib import Path
from typing import Any

from framejit._reporting._cells import cell_name

_PACKAGE = os.path.join(str(Path(__file__).parents[1]), "")  # noqa: PTH118  (a path with a separator at its end)


def short_path(file: str) -> str:
    """A path as one would type it here, or the name of a notebook's cell."""
    cell = cell_name(file)
    if cell is not None:
        return cell
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


def source_line(file: str, line: int) -> str:
    """The text of a line without its end, or '' where there is no source."""
    return linecache.getline(file, line).rstrip() if file and line > 0 else ""


def character_column(text: str, offset: int) -> int:
    """The character at a UTF-8 byte offset, which is how CPython counts columns."""
    return len(text.encode()[:offset].decode(errors="ignore"))


def counted(number: int, noun: str, plural: str = "") -> str:
    """A count with its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _scaled(value: float, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        if value < 999.5:
            return f"{value:.1f} {unit}" if value < 9.95 and value != int(value) else f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} {units[-1]}" if value < 9.95 else f"{value:,.0f} {units[-1]}"


def duration(nanoseconds: float) -> str:
    """A time in a unit that fits.

    >>> duration(25459682), duration(1234), duration(3.4e9)
    ('25 ms', '1.2 us', '3.4 s')
    """
    return _scaled(nanoseconds, ("ns", "us", "ms", "s"))


def memory(size: float) -> str:
    """A number of bytes in a unit that fits.

    >>> memory(1204352), memory(320)
    ('1.2 MB', '320 bytes')
    """
    return _scaled(size, ("bytes", "kB", "MB", "GB"))


def with_micro_sign(text: str) -> str:
    """A text with its times in µs, for media that have the sign.

    >>> with_micro_sign("1 call took 1.2 us")
    '1 call took 1.2 µs'
    """
    return re.sub(r"(?<=\d) us\b", " µs", text)


def amount(name: str, value: int) -> str:
    """The value of a counter, in the unit that its name ends with."""
    if name.endswith("_ns"):
        return duration(value)
    return memory(value) if name.endswith("_bytes") else f"{value:,}"


def marked_source(file: str, line: int, column: int, end_column: int, indent: str = "    ") -> list[str]:
    """The source line with its number, and carets below the columns (byte offsets, from 0)."""
    text = source_line(file, line)
    if not text:
        return []
    number = str(line)
    lines = [f"{indent}{number} | {text}"]
    start, end = character_column(text, column), character_column(text, end_column)
    if 0 <= start < end <= len(text):
        lines.append(f"{indent}{' ' * len(number)} | {' ' * start}{'^' * (end - start)}")
    return lines


def function_name(record: dict[str, Any]) -> str:
    """The name of the function of a record, with parentheses."""
    return f"{record.get('function') or '<function>'}()"


def place_text(record: dict[str, Any]) -> str:
    """The file, or the notebook's cell, the line and the column of a break."""
    return f"{short_path(str(record.get('file', '')))}:{int(record.get('line', 0))}:{int(record.get('column', 0)) + 1}"


def caller_text(record: dict[str, Any]) -> str:
    """The line of the program that led to a break in a library. Empty if the break is in the program itself."""
    if not record.get("from_line"):
        return ""
    return f"{short_path(str(record['from_file']))}:{record['from_line']} {record['from_function']}()"


def break_text(record: dict[str, Any]) -> str:
    """Why capture stopped: place, reason, source, way out."""
    detail = f": {record['detail']}" if record.get("detail") else ""
    file, line = str(record.get("file", "")), int(record.get("line", 0))
    column, end_column = int(record.get("column", 0)), int(record.get("end_column", 0))
    regions = record.get("regions")
    kept = "" if regions is None else f"{counted(regions, 'region')} around it stay{'s' * (regions == 1)} compiled; "
    what = f"{record.get('id', '')} {record.get('what', '')}{detail}"
    if file.startswith(_PACKAGE):  # a gradient that was asked for: a place in framejit tells users nothing
        lines = [what]
    else:
        lines = [
            f"{place_text(record)} {function_name(record)}: {what}",
            *marked_source(file, line, column, end_column),
        ]
        if caller := caller_text(record):
            text = source_line(str(record["from_file"]), int(record["from_line"])).strip()
            lines.append(f"    called from {caller}{f': {text}' if text else ''}")
    lines.append(f"    {kept}{record.get('way_out', '')}. Docs: python -m framejit docs {record.get('id', '')}")
    return "\n".join(lines)


def recompile_text(record: dict[str, Any]) -> str:
    """Which entry did not fit and which guard said so."""
    file, line = str(record.get("file", "")), int(record.get("line", 0))
    entry, new_entry = record.get("entry", 0), record.get("new_entry")
    then = "the recompile limit is reached" if new_entry is None else f"compiling entry {new_entry}"
    lines = [f"{short_path(file)}:{line} {function_name(record)}: entry {entry} did not fit, {then}"]
    guard = f"    guard  {record.get('guard', '')}"
    guard_file, guard_line = str(record.get("guard_file") or file), int(record.get("guard_line", 0))
    if guard_line:
        text = source_line(guard_file, guard_line).strip()
        guard = f"{guard:<34} from {short_path(guard_file)}:{guard_line}  {text}".rstrip()
    lines.append(guard)
    values = f"    was {record.get('expected', '')}, is {record.get('found', '')}"
    if record.get("becomes"):
        values = f"{values:<34} {record['becomes']}"
    lines.append(values)
    return "\n".join(lines)


TIMES = {"capture_ns": "capture", "passes_ns": "passes", "codegen_ns": "code generation"}


def entry_text(entry: dict[str, Any]) -> str:
    """What a compiled entry is, in a line."""
    first, last = sorted((int(entry["first_line"]), int(entry["last_line"])))
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    places = {
        "function": "the whole call",
        "loop": f"the loop at {lines}",
        "recursion": "the function with its calls of itself",
    }
    place = places.get(entry["kind"], lines)
    times = ", ".join(f"{name} {duration(entry[key])}" for key, name in TIMES.items() if key in entry)
    left = f"; left to the interpreter: {entry['demoted']}" if entry.get("demoted") else ""
    parts = [
        place,
        counted(len(entry["kernels"]), "kernel"),
        counted(entry["hits"], "run"),
        memory(entry["code_bytes"]),
    ]
    if shared := entry.get("parallel_rounds"):
        parts.append(f"{counted(shared, 'round')} on several threads")
    if vectors := entry.get("vector_rounds"):
        parts.append(f"{counted(vectors, 'round')} of an outer loop in vectors")
    return f"{', '.join(parts)}; {times}{left}"


def entry_parts(entry: dict[str, Any]) -> list[tuple[str, str]]:
    """The titles and texts of what a compiled entry consists of.

    A loop has no operations of arrays, but the blocks of its machine code. They are long, so a line says where they are.
    """
    guards = ("guards", "\n".join(map(str, entry["guards"])))
    if entry["kind"] in ("loop", "recursion"):
        return [guards, ("blocks", "Explanation.graphs has them as text, Explanation.graph_svg() as a picture")]
    return [guards, ("graph", str(entry["graph"])), ("program", str(entry["program"]))]


def exit_text(way: dict[str, Any]) -> str:
    """Where a compiled loop is left, and why the interpreter goes on there."""
    why = way["why"] or ("a check failed" if way["early"] else "it ends")
    return f"left at line {way['line']}: {why} ({counted(way['taken'], 'time')})"


def plain_text(record: dict[str, Any]) -> str:
    """Any other event: its place, its text where it has one, its other fields."""
    rest = dict(record)
    file, line = str(rest.pop("file", "")), rest.pop("line", 0)
    head = f"{short_path(file)}:{line} {function_name(rest)}" if file else function_name(rest)
    rest.pop("function", None)
    text = str(rest.pop("text", ""))
    fields = ", ".join(f"{key}={value}" for key, value in rest.items())
    body = "".join(f"\n    {row}" for row in text.splitlines())
    return f"{head}{': ' if fields else ''}{fields}{body}"


_FORMATS = {"graph_breaks": break_text, "recompiles": recompile_text}


def format_event(channel: str, record: dict[str, Any]) -> str:
    """The text of an event."""
    return _FORMATS.get(channel, plain_text)(record)
