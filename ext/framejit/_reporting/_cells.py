"""Names of notebook cells, whose code has the name of a temporary file in IPython."""

from __future__ import annotations

import re
import sys
from typing import Any


def shell() -> Any:
    """The running IPython, or None. IPython is never imported for that."""
    module = sys.modules.get("IPython.core.getipython")
    return None if module is None else module.get_ipython()


def cell_name(file: str) -> str | None:
    """`Cell 5` for the file name of the cell that was executed as the fifth one, None for other files.

    A cell that is executed again without a change keeps its file name, and gets the number of its last execution.
    """
    running = shell()
    describe = getattr(getattr(running, "compile", None), "format_code_name", None)
    described = None if describe is None else describe(file)
    if not described:
        return None
    number = re.search(r"\d+", described[1])
    return None if number is None else f"Cell {number[0]}"
