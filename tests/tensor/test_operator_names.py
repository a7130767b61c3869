"""The names of operators come from the operator table."""

from __future__ import annotations

import framejit.numpy
import pytest
from framejit import Tensor, ops
from framejit.ops._operators import OPERATORS

pytestmark = pytest.mark.capture


def arguments(row):
    x = Tensor([True, False]) if row.name.startswith(("bitwise", "invert")) else Tensor([0.5, 0.25])
    if "shift" in row.name:
        x = Tensor([1, 2])
    return [x] * row.operands


def test_functions_and_primitives_are_the_operators():
    """No definition takes the place of a name of the table."""
    for row in OPERATORS:
        for name in row.functions:
            assert getattr(ops, name) is row.compute, name
            assert name in ops.__all__
        for name in row.primitives:
            assert getattr(ops, name)().function is row.compute, name
        if row.numpy in row.functions:
            assert getattr(framejit.numpy, row.numpy) is row.compute


def test_methods_compute_what_the_operators_compute():
    count = 0
    for row in OPERATORS:
        for name in row.methods:
            first, *others = arguments(row)
            assert getattr(first, name)(*others).asnumpy().tolist() == row.compute(first, *others).asnumpy().tolist(), (
                name
            )
            count += 1
    assert count > 60
