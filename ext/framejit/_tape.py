"""What gradients are made of where a function runs: see `framejit._grad`. Capture knows these functions."""

from __future__ import annotations

from typing import Any

from framejit import _core
from framejit._errors import GraphBreakError


def begin() -> Any:
    """A tape: the function that is differentiated begins."""
    raise GraphBreakError(
        "a gradient of a function that is not compiled: framejit is disabled, or a debugger or profiler traces"
    )


def watch(tape: Any, x: Any) -> Any:
    """`x`, so that gradients with respect to it are known."""
    raise NotImplementedError


def pull(tape: Any, outputs: Any, seeds: Any, inputs: Any) -> Any:
    """The gradients of the inputs, given those of the outputs; None: ones."""
    raise NotImplementedError


def restore(x: Any, watched: Any, given: Any) -> Any:
    """A result of the function as its caller gets it."""
    raise NotImplementedError


def stop(x: Any) -> Any:
    """A copy of an array; no gradient goes through it."""
    copy = getattr(x, "copy", None)
    return x if copy is None else copy()


def ones(x: Any) -> Any:
    """Ones like an array or number."""
    raise NotImplementedError


_core.set_tape_functions({"begin": begin, "watch": watch, "pull": pull, "restore": restore, "stop": stop, "ones": ones})
