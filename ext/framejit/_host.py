"""Pure functions over arrays that host calls run, for statements that NumPy does in place."""

from __future__ import annotations

from typing import Any


def with_items(array: Any, key: Any, value: Any) -> Any:
    """A copy of `array` after ``array[key] = value``."""
    result = array.copy(order="K")
    result[key] = value
    return result


def sorted_array(array: Any, *args: Any, **keywords: Any) -> Any:
    """A copy of `array` after ``array.sort()``."""
    result = array.copy(order="K")
    result.sort(*args, **keywords)
    return result
