"""Exceptions and warnings of framejit."""

from __future__ import annotations

from typing import Any


class GraphBreakError(RuntimeError):
    """What a function marked with ``fullgraph=True`` raises when it is not one graph.

    Raised at the first call, before anything has run, with file, line, source, reason and a hint. It is a `TypeError` too where
    an object or a callable is not known, and an `AttributeError` where an attribute is not, as in MindSpore.
    """

    @classmethod
    def _of(cls, record: dict[str, Any]) -> type[GraphBreakError]:
        """The class for a break."""
        if record["id"] == "FJ009" or str(record.get("detail", "")).startswith("Tensor."):
            return _UnknownAttributeError
        return _UnknownObjectError if record["id"] in ("FJ002", "FJ007", "FJ008") else cls


class _UnknownObjectError(GraphBreakError, TypeError):
    pass


class _UnknownAttributeError(GraphBreakError, AttributeError):
    pass


for _kind in (_UnknownObjectError, _UnknownAttributeError):
    _kind.__name__ = _kind.__qualname__ = GraphBreakError.__name__


Unsupported = GraphBreakError


class PerformanceWarning(UserWarning):
    """Something runs as in plain Python, only slower than it could."""


class RecompileLimitWarning(PerformanceWarning):
    """A function was compiled so often that it now runs in the interpreter; names the guard at fault."""
