"""One handler for the events of the compiled half, shared by those who listen: logs, `explain` and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from framejit._api._platform import core

CHANNELS = {
    "graph_breaks": "where capture stopped, why, and the way out",
    "recompiles": "which guard of which entry failed, and what it found",
    "guards": "the guards of each entry",
    "graph": "the graph of each entry",
    "kernels": "the kernels of each entry",
    "asm": "their assembly",
    "perf": "times of capture, passes and code generation",
}

Listener = Callable[[str, dict[str, Any]], None]
_listeners: list[tuple[Listener, frozenset[str]]] = []


def listen(listener: Listener, channels: Iterable[str]) -> Callable[[], None]:
    """Calls `listener(channel, record)` for each event of these channels until the function returned is called."""
    entry = (listener, frozenset(channels))
    _listeners.append(entry)
    _connect()

    def stop() -> None:
        if entry in _listeners:
            _listeners.remove(entry)
            _connect()

    return stop


def _connect() -> None:
    if core is None:
        return
    wanted = sorted(set().union(*(channels for _, channels in _listeners)))
    core.set_event_handler(_dispatch if wanted else None, wanted)


def _dispatch(channel: str, record: dict[str, Any]) -> None:
    for listener, channels in tuple(_listeners):
        if channel in channels:
            listener(channel, record)
