"""Numbers whose dtype says more than its kind: fields, metadata, another order of bytes. Results keep what NumPy keeps."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj

ODD = {
    "plain": np.dtype("i4"),
    "fields": np.dtype(("i4", [("low", "<i2"), ("high", "<i2")])),
    "metadata": np.dtype("i4", metadata={"unit": "m"}),
    "swapped": np.dtype(">i4"),
}

MAKE = {
    "zeros": lambda d, x: np.zeros(4, d),
    "full": lambda d, x: np.full((2, 2), 7, d),
    "arange": lambda d, x: np.arange(4, dtype=d),
    "astype": lambda d, x: (x + 1).astype(d),
    "array": lambda d, x: np.array([1, 2, 3], d),
    "asarray": lambda d, x: np.asarray(x, d),
    "zeros_like": lambda d, x: np.zeros_like(x, dtype=d),
    "sum": lambda d, x: x.sum(dtype=d),
    "cumsum": lambda d, x: np.cumsum(x, dtype=d),
    "view": lambda d, x: (x * 2, x.astype("i4").view(d)),
    "add": lambda d, x: np.add(x.astype("i4"), 1, dtype=d),
    "eye": lambda d, x: np.eye(2, dtype=d) + 0,
    "linspace": lambda d, x: np.linspace(0, 3, 4, dtype=d),
}


def takes(x):
    return x[::2], x + 1, x.copy(), np.zeros_like(x), x.reshape(-1, 1), x.sum(), np.sort(x)


def adds_up(x):
    s = 0
    for i in range(len(x)):
        s += x[i]
        x[i] = s
    return s, x[1:]


def described(value):
    if isinstance(value, tuple):
        return tuple(described(v) for v in value)
    dtype = getattr(value, "dtype", None)
    return type(value), repr(dtype), getattr(dtype, "names", None), dict(getattr(dtype, "metadata", None) or {}), repr(value)


def outcome(function, *arguments):
    """Ufuncs refuse some of these dtypes."""
    try:
        return described(function(*arguments))
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_arrays_made_with_an_odd_dtype(make):
    marked = fj.jit(make)
    for _ in range(3):
        for dtype in ODD.values():
            assert outcome(marked, dtype, np.arange(3.0)) == outcome(make, dtype, np.arange(3.0)), dtype


@pytest.mark.parametrize("form", [takes, adds_up], ids=lambda f: f.__name__)
def test_arguments_of_an_odd_dtype(form):
    marked = fj.jit(form)
    for _ in range(3):
        for dtype in ODD.values():
            expected, actual = (form(np.arange(4, dtype="i4").view(dtype)) for form in (form, marked))
            assert described(actual) == described(expected), dtype
