"""Writes the pages that are made from tables in the code: breaks.md, config.md and the tables in logs.md and stress.md.

python docs/generate.py [--check]
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
REGISTRY = DOCS.parent / "capture" / "breaks.inc"

_STRING = r'"(?:[^"\\]|\\.)*"'
_ENTRY = re.compile(rf"FRAMEJIT_BREAK\(\s*(\d+)\s*,\s*(\w+)((?:\s*,(?:\s*{_STRING})+){{4}})\s*\)")


def break_reasons(text: str) -> list[tuple[int, str, list[str]]]:
    """(number, name, [what, why, example, way out]) of each entry of the registry."""
    entries = []
    for number, name, rest in _ENTRY.findall(text):
        fields = ["".join(ast.literal_eval(s) for s in re.findall(_STRING, part)) for part in _split(rest)]
        entries.append((int(number), name, fields))
    if len(entries) != len(re.findall(r"^FRAMEJIT_BREAK\(", text, re.MULTILINE)):
        raise SystemExit("an entry of capture/breaks.inc cannot be read")
    return entries


def _split(text: str) -> list[str]:
    """The arguments of a macro, each a run of string literals."""
    return re.findall(rf",((?:\s*{_STRING})+)", text)


def breaks_page() -> str:
    """docs/breaks.md."""
    lines = [
        "# Why a graph breaks",
        "",
        "Where capture stops, framejit says so with one of these numbers; the code around that place stays compiled, and the",
        "interpreter runs the instruction itself. `FRAMEJIT_LOGS=graph_breaks` and `fj.explain` show the places. With",
        "`fullgraph=True` a break is a `GraphBreakError`.",
        "",
        "Generated from `capture/breaks.inc` by `docs/generate.py`.",
    ]
    for number, name, (what, why, example, way_out) in break_reasons(REGISTRY.read_text(encoding="utf-8")):
        code = f"FJ{number:03d}"
        lines += [
            "",
            f'## <a id="{code}"></a>{code} {name}',
            "",
            f"{what[0].upper()}{what[1:]}: {why}.",
            "",
            "    " + example,
            "",
            f"Way out: {way_out}.",
        ]
    return "\n".join(lines) + "\n"


def config_page() -> str:
    """docs/config.md."""
    from framejit._config import FIELDS

    lines = [
        "# Settings",
        "",
        "Each is a field of `framejit.config` and an environment variable, which is read when framejit is imported. An unknown",
        "`FRAMEJIT_` variable is warned about.",
        "",
        "Generated from `ext/framejit/_config.py` by `docs/generate.py`.",
        "",
        "| field | variable | default | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for field in FIELDS:
        default = repr(field.default) if field.default != "" else "empty"
        only = " (from the environment only)" if field.at_import else ""
        lines.append(f"| `{field.name}` | `{field.variable}` | {default} | {field.meaning}{only} |")
    return "\n".join(lines) + "\n"


def logs_page(text: str) -> str:
    """docs/logs.md with its tables made anew."""
    from framejit._logs import TOKENS
    from framejit._stats import COUNTERS

    text = with_table(text, "tokens", ("token", "shows"), TOKENS)
    return with_table(text, "counters", ("counter", "counts"), COUNTERS)


def stress_page(text: str) -> str:
    """docs/stress.md with its table made anew."""
    from framejit._stress import MODES

    return with_table(text, "modes", ("mode", "makes happen"), MODES)


def with_table(text: str, name: str, head: tuple[str, str], rows: dict[str, str]) -> str:
    """A page with the table between its two marks made anew."""
    table = [f"| {head[0]} | {head[1]} |", "| --- | --- |"]
    table += [f"| `{key}` | {meaning} |" for key, meaning in rows.items()]
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    if start not in text or end not in text:
        raise SystemExit(f"a page has no place for the table of {name}")
    before, rest = text.split(start)
    return before + start + "\n".join(table) + "\n" + end + rest.split(end)[1]


def pages() -> dict[Path, str]:
    """Every generated page with its text."""
    logs, stress = DOCS / "logs.md", DOCS / "stress.md"
    return {
        DOCS / "breaks.md": breaks_page(),
        DOCS / "config.md": config_page(),
        logs: logs_page(logs.read_text(encoding="utf-8")),
        stress: stress_page(stress.read_text(encoding="utf-8")),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is out of date")
    check = parser.parse_args().check
    stale = [file for file, text in pages().items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    for file in stale:
        if check:
            print(f"{file.name} is out of date: ./dev docs", file=sys.stderr)
        else:
            file.write_text(pages()[file], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
