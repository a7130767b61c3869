"""What the fixtures do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import framejit
import pytest
from framejit._api._mark import forget_compiled
from framejit._reporting._events import listen
from framejit._reporting._format import break_text, counted


def explain_in(item: pytest.Item) -> Callable[..., Any]:
    """`framejit.explain` for a test."""

    def explain(function: Any, **jit_arguments: Any) -> Callable[..., framejit.Explanation]:
        call = framejit.explain(function, **jit_arguments)

        def explained(*args: Any, **kwargs: Any) -> framejit.Explanation:
            report = call(*args, **kwargs)
            item.add_report_section("call", "framejit", str(report))
            if report.error is not None:
                raise report.error
            return report

        return explained

    return explain


@contextmanager
def watched_breaks() -> Iterator[list[dict[str, Any]]]:
    """The breaks from now on. What was compiled before is forgotten, since a graph breaks only when it is captured."""
    reason = framejit.unsupported_reason()
    if reason is not None:
        pytest.skip(f"framejit captures nothing here: {reason}")
    forget_compiled()
    breaks: list[dict[str, Any]] = []
    stop = listen(lambda _, record: breaks.append(record), ("graph_breaks",))
    try:
        yield breaks
    finally:
        stop()


def fail_for(breaks: list[dict[str, Any]]) -> None:
    """Fail the test that is running, with the texts of its breaks."""
    texts = "\n".join(map(break_text, breaks))
    pytest.fail(f"{counted(len(breaks), 'graph break')} of marked functions:\n{texts}", pytrace=False)


def stats_since_now() -> Callable[[], dict[str, int]]:
    """A function that returns how far each counter has moved."""
    before = framejit.stats()
    return lambda: {name: value - before[name] for name, value in framejit.stats().items()}
