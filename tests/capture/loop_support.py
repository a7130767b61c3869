"""What tests of loops share: comparison with plain execution, and texts that they expect in the graphs."""

from __future__ import annotations

import dataclasses
from typing import Callable

import numpy as np

import framejit as fj
from forms_support import Seen, check_same, run
from framejit import _core

NUMBERS = {"<f2": "f2", "<f4": "f4", "<f8": "f8", "<c16": "f8"}


def vector_type():
    """How graphs name a vector of float64 for the instruction set that is there: an override gives no more than that."""
    return f"f64x{8 if _core.cpu_features()['isa'] == 'avx512' else 4}"


def loops(marked):
    """The entries of compiled loops."""
    return [entry for entry in marked._report()["entries"] if entry["kind"] == "loop"]


def compare(function, *of_calls):
    """The marked function, after calls that came to the same as the unmarked one's. Each of `of_calls` makes the arguments of one."""
    marked = fj.jit(function)
    for _ in range(3):
        for make in of_calls:
            check_same(run(function, make()), run(marked, make()), function.__name__)
    return marked


def one_nan(state: object) -> object:
    """Which NaN comes of two is not promised (docs/usage.md)."""
    if not isinstance(state, (list, tuple)):
        return {name: one_nan(held) for name, held in state.items()} if isinstance(state, dict) else state
    parts = [one_nan(part) for part in state]
    for i, part in enumerate(parts):
        of = "f8" if state[0] is float else NUMBERS.get(state[1]) if state[1:] and isinstance(state[1], str) else None
        if isinstance(part, bytes) and of:
            numbers = np.frombuffer(part, of).copy()
            numbers[np.isnan(numbers)] = np.nan
            parts[i] = numbers.tobytes()
    return type(state)(parts)


def seen(function: Callable, args: tuple) -> Seen:
    """As run(), but all NaN in results are the same one."""
    found = run(function, args)
    return dataclasses.replace(found, outcome=one_nan(found.outcome))


def compiled(function, *args, **options):
    """The function marked, after a call; equal to the plain one."""
    marked = fj.jit(**options)(function)
    for _ in range(3):
        check_same(run(function, copies(args)), run(marked, copies(args)), function.__name__)
    return marked


def copies(args):
    return tuple(a.copy() if isinstance(a, (np.ndarray, list)) else a for a in args)
