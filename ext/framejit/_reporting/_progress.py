"""A line on standard error while a long compilation runs. The compiled half imports this module when one takes a second."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from framejit._api._config import config
from framejit._reporting._cells import shell
from framejit._reporting._format import duration, short_path

_shown = 0  # characters of the line that is there now


def _wanted(stream: Any) -> bool:
    """Whether somebody looks at the stream now: a terminal, or the output of a notebook's cell."""
    if not config.progress or stream is None or getattr(stream, "closed", False):
        return False
    return stream.isatty() or hasattr(shell(), "kernel")


def show(function: str, file: str, line: int, nanoseconds: int, done: bool) -> bool:
    """Write the line, or write it once more when the compilation has ended. Returns whether it should be called again."""
    global _shown
    stream = sys.stderr
    try:
        if not _wanted(stream):
            return False
        place = f"{function}() ({short_path(file)}:{line})"
        text = (
            f"framejit: compiled {place} in {duration(nanoseconds)}"
            if done
            else f"framejit: compiling {place}, {nanoseconds // 10**9} s"
        )
        text = text[: shutil.get_terminal_size().columns - 1]
        stream.write(f"\r{text:<{_shown}}" + "\n" * done)
        stream.flush()
        _shown = 0 if done else len(text)
    except OSError as error:
        if error.errno is None:
            raise  # by the handler of a signal, not by the stream
        return False
    return not done
