"""Files with the graphs of what is compiled, while ``set_context(save_graphs=...)`` asks for them."""

from __future__ import annotations

import itertools
import linecache
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from framejit._reporting._events import listen

_stop: Callable[[], None] | None = None
_numbers = itertools.count()
_LONGEST_NAME = 80


def _with_lines(text: str) -> str:
    """A graph whose places, which its nodes end with, are lines of their own, as MindSpore has them, with the program's line."""
    out: list[str] = []
    for line in text.splitlines():
        node, found, place = line.rpartition("  # ")
        file, _, number = place.rpartition(":")
        if not found or not number.isdigit():
            out.append(line)
            continue
        indent = " " * (len(node) - len(node.lstrip()) + 4)
        out += [node, f"{indent}# In file {file}:{number}/{linecache.getline(file, int(number)).rstrip()}/"]
    return "\n".join(out) + "\n"


def save_graphs(folder: str | None) -> None:
    """Write each graph that is compiled from now on into a file of its own in a folder, which is made; None: no more.

    Its name is ``<number>_validate_<function>.ir``, after MindSpore's last one before code is generated. The graph is that of the log
    channel ``graph``. The first line says from where it was captured. Each node is followed by the line of the program that it is of,
    and the graph by what is printed. A file that cannot be written is warned about, and compilation goes on.
    """
    global _stop
    if _stop is not None:
        _stop()
        _stop = None
    if folder is None:
        return
    place = Path(folder or ".")

    def save(_: str, record: dict[str, Any]) -> None:
        function = str(record["function"])
        name = f"{next(_numbers):04d}_validate_{re.sub(r'[^0-9A-Za-z_]+', '_', function)[:_LONGEST_NAME]}.ir"
        text = f"# {function}, {record['file']}:{record['line']}\n{_with_lines(record['located'])}"
        try:
            place.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text, "utf-8", "backslashreplace")
        except OSError as error:
            warnings.warn(f"The graph of {function}() is not saved: {error}", UserWarning, stacklevel=1)

    _stop = listen(save, ("graph",))
