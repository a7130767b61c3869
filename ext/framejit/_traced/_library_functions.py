"""Pure functions over arrays that library calls run, for statements that NumPy does in place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


@functools.cache
def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives a copy of its first argument after a call of `function`, which writes into that."""

    def after(array: Any, *args: Any, **keywords: Any) -> Any:
        result = array.copy(order="K")
        function(result, *args, **keywords)
        return result

    return after


def call_run() -> object:
    """Its code is that of the function in whose frame library functions are called: see capture/warnings.cpp."""
    return globals()["run"]()


def with_items(array: Any, key: Any, value: Any) -> Any:
    """A copy of `array` after ``array[key] = value``."""
    result = array.copy(order="K")
    result[key] = value
    return result


def rounded(number: Any, digits: Any) -> Any:
    """round() of a number that is known only at run time."""
    return round(number, digits)


def _sized(name: str) -> Callable[..., Any]:
    """The function of NumPy's, of arrays, whose results have as many items as it finds: the results with room for all, and how many.

    The number is the last result, because gradients flow through a call if its first result can have one.
    """
    function = getattr(np, name)

    def sized(*args: Any, **keywords: Any) -> Any:
        found = function(*args, **keywords)
        found = found if isinstance(found, tuple) else (found,)
        most = sum([arg.size for arg in args if isinstance(arg, np.ndarray)])
        results = [np.empty(most, one.dtype) for one in found]
        for result, one in zip(results, found, strict=True):
            result[: one.size] = one.reshape(-1)
        return *results, found[0].size

    sized.__name__ = name
    return sized


unique = _sized("unique")
union1d = _sized("union1d")
intersect1d = _sized("intersect1d")
setdiff1d = _sized("setdiff1d")
setxor1d = _sized("setxor1d")


def head(count: Any, *arrays: Any) -> Any:
    """The first `count` items of each array, as new arrays. Capture makes the number a length of later arrays."""
    return tuple([array[:count].copy() for array in arrays])


def lstsq(a: Any, b: Any, rcond: Any) -> Any:
    """np.linalg.lstsq of a matrix of full rank, with room for residuals where there are none."""
    solution, residuals, rank, values = np.linalg.lstsq(a, b, rcond)
    if residuals.size == 0:
        if a.shape[0] > a.shape[1]:
            raise ValueError("a matrix of lower rank")
        residuals = np.empty(1, residuals.dtype)
    return solution, residuals, rank, values


def histogram2d(*args: Any, **keywords: Any) -> Any:
    """np.histogram2d with a border of outliers around the counts, where it is a view of these."""
    counts, *edges = np.histogram2d(*args, **keywords)
    return (counts if counts.base is None else counts.base), *edges
