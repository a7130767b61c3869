"""Writes what is made from tables in the code: breaks.md, config.md, numpy.md, the tables in logs.md, o1.md and stress.md, and stubs of the package.

python docs/generate.py [--check]
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
REGISTRY = DOCS.parent / "capture" / "breaks.inc"

_STRING = r'(?:R"py\((?s:.*?)\)py"|"(?:[^"\\]|\\.)*")'
_ENTRY = re.compile(rf"FRAMEJIT_BREAK\(\s*(\d+)\s*,\s*(\w+)((?:\s*,(?:\s*{_STRING})+){{4}})\s*\)")


def break_reasons(text: str) -> list[tuple[int, str, list[str]]]:
    """(number, name, [what, why, example, way out]) of each entry of the registry."""
    entries = []
    for number, name, rest in _ENTRY.findall(text):
        fields = ["".join(_text(s) for s in re.findall(_STRING, part)) for part in _split(rest)]
        entries.append((int(number), name, fields))
    if len(entries) != len(re.findall(r"^FRAMEJIT_BREAK\(", text, re.MULTILINE)):
        raise SystemExit("an entry of capture/breaks.inc cannot be read")
    return entries


def _text(literal: str) -> str:
    """The string that a literal of C++ stands for."""
    return literal[len('R"py(') : -len(')py"')].strip("\n") if literal[0] == "R" else ast.literal_eval(literal)


def _split(text: str) -> list[str]:
    """The arguments of a macro, each a run of string literals."""
    return re.findall(rf",((?:\s*{_STRING})+)", text)


def breaks_page() -> str:
    """docs/breaks.md."""
    lines = [
        "# Why a graph breaks",
        "",
        "If capture stops, framejit says so with one of these numbers. The code around that place stays compiled, and the",
        "interpreter runs the instruction itself. `FRAMEJIT_LOGS=graph_breaks` and `fj.explain` show the places. With",
        "`fullgraph=True` a break is a `GraphBreakError`.",
        "",
        "Each example breaks with its number, once `import framejit as fj` and `import numpy as np` were run.",
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
            textwrap.indent(example, "    "),
            "",
            f"Way out: {way_out}.",
        ]
    return "\n".join(lines) + "\n"


def config_page() -> str:
    """docs/config.md."""
    from framejit._api._config import FIELDS

    lines = [
        "# Settings",
        "",
        "Each is a field of `framejit.config` and an environment variable, which is read when framejit is imported. An unknown",
        "`FRAMEJIT_` variable is warned about.",
        "",
        "Generated from `ext/framejit/_api/_config.py` by `docs/generate.py`.",
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
    from framejit._api._stats import COUNTERS
    from framejit._reporting._logs import TOKENS

    text = with_table(text, "tokens", ("token", "shows"), TOKENS)
    return with_table(text, "counters", ("counter", "counts"), COUNTERS)


def stress_page(text: str) -> str:
    """docs/stress.md with its table made anew."""
    from framejit._api._stress import MODES

    return with_table(text, "modes", ("mode", "makes happen"), MODES)


def o1_page(text: str) -> str:
    """docs/o1.md with its table made anew."""
    from framejit.ops._operators import OPERATORS

    rows = {}
    for row in OPERATORS:
        if row.ulps is not None:
            name = row.numpy if "." in row.numpy else "np." + row.numpy
            rows[name] = " | ".join(str(bound) if bound else "exact" for bound in row.ulps)
    return with_table(text, "functions", ("function", "float32 | float64"), rows)


WAYS = {
    "native": "native",
    "loop": "NumPy's inner loop",
    "library": "library call",
    "capture": "known at capture",
    "python": "followed as Python",
}


def public_names(module: str) -> dict[str, Any]:
    """The functions of a module, or the methods and attributes of ndarray, in order."""
    import importlib

    import numpy as np

    if module == "numpy.ndarray":
        return {name: np.ndarray.__dict__[name] for name in sorted(dir(np.ndarray)) if not name.startswith("_")}
    home = importlib.import_module(module)
    found = {name: getattr(home, name) for name in sorted(home.__all__) if not name.startswith("__")}
    return {name: each for name, each in found.items() if callable(each) and not isinstance(each, type)}


def numpy_way(module: str, name: str, function: Any) -> str:
    """What becomes of a call: a key of WAYS, or the reason why it is left to the library."""
    from numpy_calls import LEFT

    from framejit._core import _numpy_way
    from framejit._traced._numpy_functions import FUNCTIONS

    for reason, names in LEFT[module].items():
        if name in names.split():
            return reason
    way, dtypes = _numpy_way(function)
    if way and dtypes and _missing(function, set(dtypes.split())):
        return way + ", complex library"
    if way:
        return way
    rest = [reason for reason, names in LEFT[module].items() if names == "*"]
    if rest and function not in FUNCTIONS:
        return rest[0]
    return "python"


def _missing(ufunc: Any, dtypes: set[str]) -> bool:
    """Has the library's ufunc loops for complex numbers, where the operator has none?"""
    return any("D" in types.split("->")[0] for types in ufunc.types) and "c128" not in dtypes


def numpy_page() -> str:
    """docs/numpy.md."""
    import numpy as np
    import scipy
    from numpy_calls import LEFT

    lines = [
        "# NumPy functions",
        "",
        "How framejit handles each function, for usual arguments. The dtypes are bool, int8 to uint64, float16 to float64, complex64 and complex128. Arguments for which a function is",
        "not compiled (a subclass, objects, `out=` of a library call) are left to NumPy: the graph ends there and continues after the call.",
        "",
        "| | |",
        "| --- | --- |",
        "| native | nodes of the graph, compiled with what is around them; some arguments make it a library call |",
        "| NumPy's inner loop | the same; at `O0` compiled loops call NumPy's loop on tiles ([O1](o1.md) has its own) |",
        "| library call | the plan calls the function between its kernels; scans, gathers and histograms run equal loops of framejit |",
        "| known at capture | evaluated when the function is compiled |",
        "| followed as Python | NumPy's code in Python, or a shorter equivalent, is compiled like the user's code |",
        "| left | a region boundary, with the reason |",
        "",
        f"NumPy {'.'.join(np.__version__.split('.')[:2])}, SciPy {'.'.join(scipy.__version__.split('.')[:2])}. `numpy.random` is left, except "
        "for arrays that a `Generator` draws: see [random numbers](random_numbers.md).",
        "",
        "Generated from the operator table, the tables of the NumPy frontend and `docs/numpy_calls.py` by `docs/generate.py`.",
    ]
    for module in LEFT:
        groups: dict[str, list[str]] = {}
        for name, function in public_names(module).items():
            groups.setdefault(numpy_way(module, name, function), []).append(name)
        order = [*WAYS, *(f"{way}, complex library" for way in WAYS), *LEFT[module]]
        lines += ["", f"## {module}", "", "| | |", "| --- | --- |"]
        for way in sorted(groups, key=order.index):
            first = way.split(", ")[0]
            title = (
                f"left: {way}"
                if way in LEFT[module]
                else WAYS[first] + ("; complex: library call" if first != way else "")
            )
            lines.append(f"| {title} | {' '.join(f'`{name}`' for name in groups[way])} |")
    return "\n".join(lines) + "\n"


def with_table(text: str, name: str, head: tuple[str, str], rows: dict[str, str]) -> str:
    """A page with the table between its two marks made anew."""
    table = [f"| {head[0]} | {head[1]} |"]
    table.append(re.sub(r"[^|]+", " --- ", table[0]))
    table += [f"| `{key}` | {meaning} |" for key, meaning in rows.items()]
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    if start not in text or end not in text:
        raise SystemExit(f"a page has no place for the table of {name}")
    before, rest = text.split(start)
    return before + start + "\n".join(table) + "\n" + end + rest.split(end)[1]


def shows_these_libraries(page: Path) -> bool:
    """Whether NumPy and SciPy are the versions that the page is about: others have other functions."""
    try:
        import numpy as np
        import scipy

        from framejit._core import _numpy_way  # noqa: F401
    except ImportError:
        return False
    said = re.search(
        r"^NumPy (\d+\.\d+), SciPy (\d+\.\d+)", page.read_text(encoding="utf-8") if page.exists() else "", re.MULTILINE
    )
    return not said or all(
        version.startswith(number + ".")
        for number, version in zip(said.groups(), (np.__version__, scipy.__version__), strict=True)
    )


def pages() -> dict[Path, str]:
    """Every generated file with its text."""
    logs, stress, numpy, o1 = (DOCS / f"{name}.md" for name in ("logs", "stress", "numpy", "o1"))
    of_libraries = {}
    if shows_these_libraries(numpy):
        from stubs import stubs

        of_libraries = {numpy: numpy_page(), o1: o1_page(o1.read_text(encoding="utf-8")), **stubs()}
    return {
        **of_libraries,
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
