"""Loops over scalars and elements, as one writes them for Numba, by family: a module is a family.

A program is registered by the decorator that `Family` is: a function that makes its arguments from a size, a small size for the test and one that takes
plain Python some milliseconds. What a program calls stands in its module. Integers fit in 64 bits, so that Numba comes to the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FAMILIES = ("scalars", "vectors", "matrices", "rows", "lists", "helpers", "ordinary", "comprehensions", "tables")


@dataclass(frozen=True)
class Program:
    function: Callable[..., Any]
    make: Callable[[Any], tuple[Any, ...]]
    small: Any
    full: Any


class Family:
    """The programs of a module, by name."""

    def __init__(self) -> None:
        self.programs: dict[str, Program] = {}

    def __call__(
        self, make: Callable[[Any], tuple[Any, ...]], small: Any, full: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.programs[function.__name__] = Program(function, make, small, full)
            return function

        return register
