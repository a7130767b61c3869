"""Runs the symbolic executor alone: capture(f, *args) gives what the compiler would be given, as text."""

import inspect
import sys
import types

from framejit import _core

UNBOUND = object()
NULL = type(NotImplemented)
ITERATOR_SLOTS = 2 if sys.version_info >= (3, 15) else 1  # on the stack of a loop


class Capture:
    """A region (its fields as attributes; `region` is None where there is nothing to compile) and the breaks."""

    def __init__(self, region, breaks):
        self.region = region
        self.breaks = breaks
        for key, value in (region or {}).items():
            setattr(self, key, value)

    @property
    def codes(self):
        return [b[0] for b in self.breaks]

    @property
    def ops(self):
        """The operators of the graph, in order, without params."""
        lines = [line.strip() for line in self.graph.splitlines()]
        return [line.split("= ", 1)[1].split()[0] for line in lines if line.startswith("%")] + [
            line.split()[0] for line in lines if line.startswith("write")
        ]

    def guard(self, text):
        return any(text in g for g in self.guards)


def slots(function, args, kwargs):
    """Arguments by local name, as the prologue finds them."""
    bound = inspect.signature(function, follow_wrapped=False).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def capture(function, *args, capture_options=None, **kwargs):
    """Captures the whole function from its start."""
    region, breaks = _core._capture(function, slots(function, args, kwargs), **(capture_options or {}))
    return Capture(region, breaks)


def capture_at(function, entry, local_values, stack=(), **options):
    """Captures from an instruction in the middle; `local_values` by name (cells as cells)."""
    region, breaks = _core._capture(function, local_values, entry=entry, stack=tuple(stack), **options)
    return Capture(region, breaks)


def instructions(function, op=None):
    """(index, name, line) of canonical instructions."""
    rows = _core._splice_decode(function.__code__)
    return [(i, row[0], row[5][0]) for i, row in enumerate(rows) if op is None or row[0] == op]


def cell(value):
    return types.CellType(value)
