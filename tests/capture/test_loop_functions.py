"""NumPy's functions of single numbers in loops, one by one and for several rounds at once: the bits and warnings of plain execution."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run
from loop_support import vector_type

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("kernels")]

NAMES = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh cbrt rint"
).split()
RNG = np.random.default_rng(12)


def made(name):
    scope = {"np": np}
    exec(f"def loop(a, out):\n    for i in range(len(a)):\n        out[i] = np.{name}(a[i]) + 0.25\n    return out", scope)
    return scope["loop"]


def numbers_for(name):
    if name in ("arcsin", "arccos", "arctanh"):
        return RNG.uniform(-0.99, 0.99, 1003)
    numbers = np.concatenate([RNG.normal(size=500), RNG.uniform(-30, 30, 503)])
    return np.abs(numbers) + (name == "arccosh") if name.startswith(("log", "arccosh")) else numbers


@pytest.mark.parametrize("name", NAMES)
def test_bits(name, kernels):
    plain, marked = made(name), fj.jit(made(name))
    numbers = numbers_for(name)
    for length in (len(numbers), 0, 1, 3, 4, 5, 7, 8, 9, 17, 40):
        expected, got = np.zeros(length), np.zeros(length)
        plain(numbers[:length], expected)
        marked(numbers[:length], got)
        assert got.tobytes() == expected.tobytes(), length
    graph = marked._report()["entries"][0]["graph"]
    assert (f"{vector_type()} = call" in graph) == (kernels == "vectors" and name != "rint")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 0.0, -0.0, -1.0, 1.0, 2.0, 710.0, -1e300, 1e22, 5e-324])
@pytest.mark.parametrize("name", NAMES)
def test_special_numbers_among_others(name, special):
    plain, marked = made(name), fj.jit(made(name))
    numbers = np.linspace(0.1, 0.9, 40) + (name == "arccosh")
    marked(numbers, np.zeros(40))
    for errors, at in itertools.product(("ignore", "raise", "warn"), (3, 16, 39)):
        changed = numbers.copy()
        changed[at] = special
        with np.errstate(all=errors):
            check_same(run(plain, (changed, np.zeros(40))), run(marked, (changed, np.zeros(40))), f"{name} {special} {at}")


def sum_of_function(a, start):
    total = start
    for i in range(len(a)):
        total += np.exp(-a[i] * a[i])
    return total


def difference_of_quotients(a, start):
    total = start
    for i in range(len(a)):
        total -= 1.0 / (1.5 + a[i])
    return total


def sum_on_the_right(a, start):
    total = start
    count = 0
    for i in range(len(a)):
        total = np.sqrt(abs(a[i])) + total
        if a[i] > 0.5:
            count += 1
    return total, count


def two_sums(a, start):
    first, second = start, 1.0
    for i in range(len(a)):
        first += a[i] ** 0.5
        second -= a[i] / 3.0
    return first, second


SUMS = (sum_of_function, difference_of_quotients, sum_on_the_right, two_sums)


@pytest.mark.parametrize("start", [0.0, -0.0, np.float64(1e300)], ids=repr)
@pytest.mark.parametrize("form", SUMS, ids=lambda form: form.__name__)
def test_floats_are_added_in_order(form, start, kernels):
    marked = fj.jit(form)
    numbers = np.exp(RNG.uniform(-20.0, 20.0, 401))
    for length in (401, 0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 26, 33):
        check_same(run(form, (numbers[:length], start)), run(marked, (numbers[:length], start)), f"{length}")
    if kernels == "vectors":
        assert "add.lanes" in marked._report()["entries"][0]["graph"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 0.0, -0.0, -1.5, 1e308, -1e308])
@pytest.mark.parametrize("form", SUMS, ids=lambda form: form.__name__)
def test_special_numbers_in_sums(form, special):
    marked = fj.jit(form)
    numbers = np.linspace(0.5, 1.5, 60)
    marked(numbers, 0.0)
    for errors, places in itertools.product(("ignore", "raise", "warn"), ((3,), (16, 17, 18), (59,), range(60))):
        changed = numbers.copy()
        changed[list(places)] = special
        with np.errstate(all=errors):
            check_same(run(form, (changed, 0.0)), run(marked, (changed, 0.0)), f"{special} {places}")
