"""Events as text: what logs and reports show."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any


def short_path(file: str) -> str:
    """A path as one would type it here."""
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


def break_text(record: dict[str, Any]) -> str:
    """Why capture stopped: place, reason, source, way out."""
    detail = f": {record['detail']}" if record.get("detail") else ""
    file, line = str(record.get("file", "")), int(record.get("line", 0))
    column, end_column = int(record.get("column", 0)), int(record.get("end_column", 0))
    place = f"{short_path(file)}:{line}:{column + 1}"
    regions = record.get("regions")
    kept = (
        ""
        if regions is None
        else f"{regions} region{'s' * (regions != 1)} around it stay{'s' * (regions == 1)} compiled; "
    )
    lines = [f"{place} {function_name(record)}: {record.get('id', '')} {record.get('what', '')}{detail}"]
    lines += marked_source(file, line, column, end_column)
    lines.append(f"    {kept}{record.get('way_out', '')}. Docs: breaks#{record.get('id', '')}")
    return "\n".join(lines)


def recompile_text(record: dict[str, Any]) -> str:
    """Which entry did not fit and which guard said so."""
    file, line = str(record.get("file", "")), int(record.get("line", 0))
    entry, new_entry = record.get("entry", 0), record.get("new_entry")
    then = "no other is compiled" if new_entry is None else f"compiling entry {new_entry}"
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
    place = "the whole call" if entry["kind"] == "function" else f"lines {first} to {last}"
    times = ", ".join(f"{name} {entry[key] / 1000:.0f} us" for key, name in TIMES.items() if key in entry)
    kernels = len(entry["kernels"])
    left = f"; left to the interpreter: {entry['demoted']}" if entry.get("demoted") else ""
    return f"{place}, {kernels} kernel{'s' * (kernels != 1)}, {entry['hits']} runs, {entry['code_bytes']} bytes; {times}{left}"


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
