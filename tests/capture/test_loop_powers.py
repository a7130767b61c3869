"""Powers in loops: the bits of pow, though most come of products and roots; of numbers one by one and of several at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

import framejit as fj
from loop_support import vector_type

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("kernels")]


def squares(a, out):
    for i in range(len(a)):
        out[i] = a[i] ** 2


def cubes(a, out):
    for i in range(len(a)):
        out[i] = a[i] ** 3


def roots(a, out):
    for i in range(len(a)):
        out[i] = a[i] ** 0.5


def squares_by_name(a, out):
    for i in range(len(a)):
        out[i] = math.pow(a[i], 2.0)


def of_some(a, out):
    for i in range(len(a)):
        if a[i] > 0.5:
            out[i] = a[i] ** 3.0


def of_floats(a, out):
    items = a.tolist()
    for i in range(len(items)):
        out[i] = items[i] ** 2 + items[i] ** 3


def by_a_variable(a, out, exponent=2.0):
    for i in range(len(a)):
        out[i] = a[i] ** exponent


def by_numpy(a, out):
    """Where both are scalars, np.power has products and roots, not pow, for some exponents."""
    for i in range(len(a)):
        x = abs(a[i])
        out[i] = np.power(x, 2) + 3 * np.power(x, 0.5) + 5 * np.power(x, 1) + 7 * np.power(x, 0) + 9 * np.power(x, 3) - np.power(x, 2.5)


def by_numpy_and_a_scalar(a, out):
    exponent, negative = np.float64(2.0), -1.0
    for i in range(len(a)):
        out[i] = np.power(a[i], exponent) - np.power(a[i] * a[i] + 1.0, negative)


FORMS = (squares, cubes, roots, squares_by_name, of_some, of_floats, by_a_variable, by_numpy, by_numpy_and_a_scalar)
RNG = np.random.default_rng(3)
NUMBERS = {
    "usual": RNG.normal(size=4001),
    "near 1": 1.0 + RNG.normal(size=4001) * 1e-7,
    "wide": np.exp(RNG.uniform(-90.0, 90.0, 4001)),
    "around the limits": np.concatenate([2.0 ** RNG.uniform(e - 3, e + 3, 400) for e in (-151, -126, -101, 83, 125, 168)]),
    "small integers": RNG.integers(-40, 40, 4001) * 0.25,
    "subnormal": RNG.integers(0, 1 << 54, 4001).view(np.float64),
    # Squares whose exact value lies half-way between two numbers, or next to that.
    "half-way": np.sqrt(1.0 + (2.0 * RNG.integers(0, 1 << 50, 4001) + 1.0) * 2.0**-53),
}


@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_powers_have_the_bits_of_pow(form, numbers):
    if form is roots:
        numbers = np.abs(numbers)
    marked = fj.jit(form)
    with np.errstate(all="ignore"):
        for length in (len(numbers), 0, 1, 3, 4, 5, 7, 8, 9, 17):
            expected, made = np.zeros(length), np.zeros(length)
            form(numbers[:length], expected)
            marked(numbers[:length], made)
            assert made.tobytes() == expected.tobytes(), (form.__name__, length)
    assert "loop" in [entry["kind"] for entry in marked._report()["entries"]]


def outcome(function, a):
    out = np.zeros(len(a))
    with np.errstate(all="raise"):
        try:
            function(a, out)
        except (ArithmeticError, ValueError) as error:
            return type(error), str(error), out.tobytes()
    return out.tobytes()


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 0.0, -0.0, -1.5, 1e200, -1e200, 1e-200, 5e-324, 1e-300])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_special_numbers_among_others(form, special):
    marked = fj.jit(form)
    numbers = np.linspace(1.0, 2.0, 40)
    for at in (3, 16, 38):
        changed = numbers.copy()
        marked(changed, np.zeros(40))
        changed[at] = special
        assert outcome(marked, changed) == outcome(form, changed)


def test_lanes_are_used(kernels):
    marked = fj.jit(squares)
    for _ in range(3):
        marked(np.ones(100), np.zeros(100))
    graph = marked._report()["entries"][0]["graph"]
    assert "call pow" in graph
    assert (f"{vector_type()} = call pow" in graph) == (kernels == "vectors")
