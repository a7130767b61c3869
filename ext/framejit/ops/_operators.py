"""The rows of the operator table (graph/op.h) that functions of Tensors use."""

from __future__ import annotations

from typing import Any, NamedTuple

from framejit import _core


class Operator(NamedTuple):
    """One row: the columns that Python reads, and the function that computes it."""

    name: str
    operands: int
    numpy: str  # the ufunc: a name in numpy, or with its module
    functions: tuple[str, ...]  # names in framejit.ops
    methods: tuple[str, ...]  # those of them that are methods of Tensor too
    primitives: tuple[str, ...]
    ulps: (
        tuple[float, float] | None
    )  # an own function at O1: its error bounds for float32 and float64, 0 if it is exact
    compute: Any


OPERATORS = tuple(
    Operator(
        *(name, operands, numpy, tuple(functions.split()), tuple(methods.split()), tuple(primitives.split()), ulps),
        getattr(_core, "_op_" + name),
    )
    for name, operands, numpy, functions, methods, primitives, ulps in _core._operators()
)
