"""Ordinary programs, each a whole function, by family: a module is a family.

A program is registered by the decorator that `Family` is: a function that makes its arguments from a size, and the four sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SIZES = ("tiny", "small", "medium", "large")
FAMILIES = (
    "elements",
    "kernels",
    "arrays",
    "numbers",
    "text",
    "containers",
    "recursion",
    "objects",
    "language",
    "callbacks",
)


@dataclass(frozen=True)
class Program:
    """A function, how its arguments are made, and which function of its module is marked: itself, or one that a library calls."""

    function: Callable[..., Any]
    make: Callable[[Any], tuple[Any, ...]]
    sizes: dict[str, Any]
    changes: bool  # whether a call changes its arguments, so that each needs fresh ones
    marked: str
    needs: tuple[str, ...]  # modules that have to be installed

    @property
    def name(self) -> str:
        return self.function.__name__


class Family:
    """The programs of a module, by name."""

    def __init__(self) -> None:
        self.programs: dict[str, Program] = {}

    def __call__(
        self,
        make: Callable[[Any], tuple[Any, ...]],
        *sizes: Any,
        changes: bool = False,
        marked: str = "",
        needs: tuple[str, ...] = (),
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            name = function.__name__
            by_name = dict(zip(SIZES, sizes, strict=True))
            self.programs[name] = Program(function, make, by_name, changes, marked or name, needs)
            return function

        return register
