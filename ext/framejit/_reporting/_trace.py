"""``trace``: what framejit does over time, for Chrome's trace viewer and Perfetto."""

from __future__ import annotations

import atexit
from pathlib import Path

from framejit._api._platform import core


class Trace:
    """The result of `trace`. It writes the file on `close`, at the end of a ``with`` block, or at exit.

    Parameters
    ----------
    file : str or Path
        The file to write. It is created at once, so that a file that cannot be written raises now.

    Attributes
    ----------
    file : pathlib.Path
        The file.
    """

    def __init__(self, file: str | Path) -> None:
        self.file: Path = Path(file)
        self.file.touch()  # a file that cannot be written is said so now

    def close(self) -> None:
        """Stop and write the file; harmless when done twice."""
        global _running
        if _running is not self:
            return
        _running = None
        text = '{"traceEvents": []}\n' if core is None else core.trace_stop()
        self.file.write_text(text, encoding="utf-8")

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_running: Trace | None = None


def trace(file: str | Path) -> Trace:
    """Record captures, compilations, runs and kernels of all threads, and write them as JSON.

    Parameters
    ----------
    file : str or Path
        Opens in ``chrome://tracing`` and https://ui.perfetto.dev. ``FRAMEJIT_TRACE`` traces the whole process.

    Returns
    -------
    Trace
        Stops and writes the file: ``close()``, or as a context manager.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import numpy as np
    >>> import framejit as fj
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "t.json"
    >>> with fj.trace(file):
    ...     fj.jit(lambda x: x * 2)(np.arange(2.0))
    array([0., 2.])
    >>> isinstance(json.loads(file.read_text())["traceEvents"], list)
    True
    """
    global _running
    if _running is not None:
        raise RuntimeError(f"a trace is being written to {_running.file} already: close it first")
    started = Trace(file)
    _running = started
    if core is not None:
        core.trace_start()
    return started


@atexit.register
def close_running() -> None:
    """End the trace that runs, if one does."""
    if _running is not None:
        _running.close()
