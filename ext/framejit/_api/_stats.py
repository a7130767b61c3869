"""Counters."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

from framejit._api._config import config
from framejit._api._platform import core

if TYPE_CHECKING:
    from pathlib import Path

COUNTERS = {
    "frames_marked": "calls of marked functions, except calls between functions that have nothing compiled",
    "frames_captured": "of these, calls in which compiled code ran",
    "graph_breaks": "places at which capture stopped",
    "guard_failures": "calls for which an entry did not fit",
    "recompiles": "further entries compiled because of that",
    "kernels_compiled": "kernels made",
    "kernel_calls": "kernels run",
    "library_calls": "calls of library functions from compiled code",
    "loops_widened": "loops that were compiled once more, to do several rounds at once",
    "parallel_rounds": "rounds of loops that were shared out among threads",
    "vector_rounds": "rounds of outer loops that one thread did several at once, in vectors",
    "grouped_products": "products in loops at O1 that were done together with those of later rounds",
    "internal_errors": "errors of framejit's own, hidden by falling back to the interpreter",
    "code_bytes": "machine code held",
    "compile_ns": "time spent on compiling, in nanoseconds",
    "capture_steps": "work of captures: bytecode instructions executed symbolically, and one for each 32 items looked at",
    "disk_cache_hits": "files of captures and kernels that were found in `config.cache_dir`",
    "disk_cache_misses": "files that were looked for there, not found and written",
    "peak_buffer_bytes": "the most memory that compiled code has held at a time",
}


def stats() -> dict[str, int]:
    """Count what happened since import or `reset`.

    Returns
    -------
    dict of int
        By name: see the page on logs.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.stats()["internal_errors"]
    0
    """
    counted = {} if core is None else core.stats()
    return {name: int(counted.get(name, 0)) for name in COUNTERS}


def reset() -> None:
    """Set the counters to zero; `code_bytes` stays, as the code is still there.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.reset()
    """
    if core is not None:
        core.stats_reset()


def write_stats(file: str | Path) -> None:
    """Write the counters as JSON."""
    import json
    from pathlib import Path

    Path(file).write_text(json.dumps(stats(), indent=1) + "\n", encoding="utf-8")


@atexit.register
def _at_exit() -> None:
    if config.stats_file:
        write_stats(config.stats_file)
