"""Helpers of the tests of the call path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import framejit
from exact.same import assert_same_value as same  # noqa: F401
from framejit import _core


def compiled(function: Callable, **settings: Any) -> Any:
    """`function` marked, with the settings of the compiled half."""
    return _core.Function(function, {"fullgraph": False, "dynamic": False, "jit_level": "O0", **settings})


class Events:
    """Collects (channel, record) of some channels while the block runs."""

    def __init__(self, *channels: str) -> None:
        self.channels = channels
        self.seen: list[tuple[str, dict]] = []

    def __enter__(self) -> Events:
        _core.set_event_handler(lambda channel, record: self.seen.append((channel, record)), list(self.channels))
        return self

    def __exit__(self, *_: object) -> None:
        _core.set_event_handler(None)

    def records(self, channel: str) -> list[dict]:
        return [record for c, record in self.seen if c == channel]


def hits(function: Any) -> int:
    return sum(entry["hits"] for entry in function.cache_entries())


def errors() -> int:
    return framejit.stats()["internal_errors"]
