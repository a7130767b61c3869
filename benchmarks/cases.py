"""What is timed, and how each engine does it. Imported by the workers, one process per engine."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]


def axpy(a, b, c):
    return a * b + c


def in_place(x, c, y):
    x *= c
    x += y
    return x


def chain(x, y):
    return np.where(x > y, np.sqrt(x * x + y * y), x - y) * 0.5


def bell(x):
    return np.exp(-x * x) * 2.0 + 1.0


def total(x):
    return x.sum()


def chosen(x):
    y = x.ravel()  # Numba chooses from one axis only
    return y[y > 1.0].sum()


def shrink(x):
    y = x.copy()
    while y.max() > 0.01:
        y *= 0.5
    return y


@dataclass(frozen=True)
class Case:
    """A function, its arguments for a size, and the bytes that it must at least move for an element."""

    name: str
    function: Callable[..., Any]
    make: Callable[[int, str], Arrays]
    streams: int
    expression: str = ""  # for numexpr


def _arrays(count: int) -> Callable[[int, str], Arrays]:
    def make(n: int, dtype: str) -> Arrays:
        rng = np.random.default_rng(n)
        return tuple((rng.random(n) + 0.5).astype(dtype) for _ in range(count))

    return make


def _in_place_arguments(n: int, dtype: str) -> Arrays:
    # A factor of one and a summand of zero: the values stay in range however often it runs.
    x = np.random.default_rng(n).random(n).astype(dtype)
    return x, np.ones(n, dtype), np.zeros(n, dtype)


CASES = {
    case.name: case
    for case in (
        Case("a*b+c", axpy, _arrays(3), 4, "a*b+c"),
        Case("x *= c; x += y", in_place, _in_place_arguments, 4),
        Case("exp(-x*x)*2+1", bell, _arrays(1), 2, "exp(-x * x) * 2 + 1"),
        Case("sum", total, _arrays(1), 1),
        Case("x[x > 1].sum()", chosen, _arrays(1), 1),
        Case("while, in place", shrink, _arrays(1), 2),
        Case("where, sqrt", chain, _arrays(2), 3, "where(x > y, sqrt(x * x + y * y), x - y) * 0.5"),
    )
}


def source_of(operators: int) -> str:
    """A function of that many elementwise operators, no two alike enough to be merged."""
    lines = ["def generated(x, y):"]
    for i in range(operators):
        left = "x" if i == 0 else f"v{i - 1}"
        lines.append(f"    v{i} = {left} {'+-*'[i % 3]} {'y' if i % 2 else f'{i + 1.5}'}")
    return "\n".join([*lines, f"    return v{operators - 1}", ""])


def numpy_engine(function: Callable[..., Any], case: Case | None) -> Callable[..., Any]:
    return function


def framejit_engine(level: str) -> Callable[..., Any]:
    def compiled(function: Callable[..., Any], case: Case | None) -> Callable[..., Any]:
        return importlib.import_module("framejit").jit(function, jit_level=level)

    return compiled


def numba_engine(function: Callable[..., Any], case: Case | None) -> Callable[..., Any]:
    return importlib.import_module("numba").njit(function)


def numexpr_engine(function: Callable[..., Any], case: Case | None) -> Callable[..., Any] | None:
    if case is None or not case.expression:
        return None
    numexpr = importlib.import_module("numexpr")
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    expression = case.expression
    return lambda *arrays: numexpr.evaluate(expression, dict(zip(names, arrays, strict=True)))


ENGINES: dict[str, tuple[str, Callable[..., Any]]] = {
    "NumPy": ("numpy", numpy_engine),
    "framejit O0": ("framejit", framejit_engine("O0")),
    "framejit O1": ("framejit", framejit_engine("O1")),
    "Numba": ("numba", numba_engine),
    "numexpr": ("numexpr", numexpr_engine),
}


def difference(expected: np.ndarray, got: Any) -> str:
    """'' for the same bits; else the largest difference in units in the last place, or what else is different."""
    if type(got) is not type(expected):
        return f"type {type(got).__name__}"
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype}{got.shape}"
    if np.array_equal(got.view(f"u{got.itemsize}"), expected.view(f"u{got.itemsize}")):
        return ""
    ulps = np.abs(got - expected) / np.spacing(np.maximum(np.abs(got), np.abs(expected)))
    return f"{float(np.max(ulps)):.1f} ulp"
