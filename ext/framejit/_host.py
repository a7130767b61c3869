"""Pure functions over arrays that host calls run, for statements that NumPy does in place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


@functools.cache
def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives a copy of its first argument after a call of `function`, which writes into that."""

    def after(array: Any, *args: Any, **keywords: Any) -> Any:
        result = array.copy(order="K")
        function(result, *args, **keywords)
        return result

    return after


def with_items(array: Any, key: Any, value: Any) -> Any:
    """A copy of `array` after ``array[key] = value``."""
    result = array.copy(order="K")
    result[key] = value
    return result
