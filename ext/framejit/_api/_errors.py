"""Exceptions and warnings of framejit."""

from __future__ import annotations

from typing import Any


class GraphBreakError(RuntimeError):
    """A function marked with ``fullgraph=True`` is not one graph.

    It is raised at the first call, before anything has run. The text has file, line, source, reason and a way out. It is a `TypeError` too if
    an object or a callable is not known, and an `AttributeError` if an attribute is not, as in MindSpore.
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
    """Code runs slower than it could. Results are not affected."""


class RecompileLimitWarning(PerformanceWarning):
    """A function was compiled so often that the interpreter runs it from now on. The text names the guard at fault."""
