"""Operators and functions on NumPy scalars, 0-d arrays and Python numbers: results, types, exceptions and warnings equal."""

from __future__ import annotations

import itertools
import operator as operators
import warnings

import framejit
import numpy as np
import pytest

EXPRESSIONS = [
    "a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "a ** b", "a < b", "a <= b", "a == b", "a != b", "a > b", "a & b",
    "a | b", "a ^ b", "a << b", "-a", "+a", "abs(a)", "~a", "np.sqrt(a) + b", "np.maximum(a, b)", "np.where(a > b, a, b)",
    "np.float32(a)", "np.float64(b) * a", "np.add(a, b)", "np.exp(a)", "np.power(a, b)", "np.arctan2(a, b)", "np.isnan(a)",
    "np.floor_divide(a, b)", "np.logical_or(a, b)", "np.array([a, b])",
]  # fmt: skip
VALUES = [
    np.float64(2.5), np.float64(-0.0), np.float64("nan"), np.float64("inf"), np.float64(1e300), np.float32(1.25),
    np.float32(0), np.float32(3e38), np.int64(7), np.int64(0), np.int8(-3), np.uint8(200), np.bool_(True), np.array(3.5),
    np.array(4), 2.5, 0.0, 3, -1, True,
]  # fmt: skip


def seen(function, a, b) -> tuple:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(a, b)
        except Exception as error:
            outcome = (type(error), str(error))
        else:
            array = np.asarray(result)
            if array.dtype.kind == "f":
                array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
            outcome = (type(result), array.dtype, array.shape, array.tobytes())
    return outcome, [(w.category, str(w.message)) for w in caught]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_scalars(text: str) -> None:
    eager = eval("lambda a, b: " + text)  # noqa: S307
    for a, b in itertools.product(VALUES, VALUES):
        if not isinstance(a, (np.generic, np.ndarray)) and not isinstance(b, (np.generic, np.ndarray)):
            continue
        compiled = framejit.jit(eval("lambda a, b: " + text))  # noqa: S307
        expected = seen(eager, a, b)
        assert seen(compiled, a, b) == expected, (a, b)
        assert seen(compiled, a, b) == expected, (a, b)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "c16"])
@pytest.mark.parametrize("operator", [operators.eq, operators.ne, operators.add, operators.mul], ids=lambda f: f.__name__)
def test_complex_numbers_before_and_behind_scalars(operator, dtype):
    """Python's complex takes a float64 for a float: the answer is Python's own, of its own type."""
    x = np.array([1, 2, 3]).astype(dtype)

    def results(x):
        mean = x.mean()
        return operator(2 + 0j, mean), operator(mean, 2 + 0j), operator(1j, x[1]), operator(x.max(), 1j), operator(1j, x)

    for expected, actual in zip(results(x), framejit.jit(results)(x), strict=True):
        assert type(actual) is type(expected) and repr(actual) == repr(expected)
