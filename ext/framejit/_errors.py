"""Exceptions and warnings of framejit."""

from __future__ import annotations


class GraphBreakError(RuntimeError):
    """What a function marked with ``fullgraph=True`` raises when it is not one graph.

    Raised at the first call, before anything has run, with file, line, source, reason and a hint.
    """


Unsupported = GraphBreakError


class PerformanceWarning(UserWarning):
    """Something runs as in plain Python, only slower than it could."""


class RecompileLimitWarning(PerformanceWarning):
    """A function was compiled so often that it now runs in the interpreter; names the guard at fault."""
