"""Results that a loop stores while it computes them: whatever fails in between, nobody sees a part of them."""

from __future__ import annotations

import contextlib
import os
import random
import warnings

import numpy as np
import pytest

import framejit as fj
from loop_support import loops

pytestmark = pytest.mark.capture
ROUNDS, LENGTH = 140, 67
MARK = "+262144"  # where a loop learns whether it may


@pytest.fixture(autouse=True)
def each_kernel(kernels):
    yield


def double(v, x):
    return v * x + v


def stencil(a, b, x):
    for _ in range(ROUNDS):
        b[1:-1] = x * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = x * (b[:-2] + b[1:-1] + b[2:])


def copies(a, b, x):
    for i in range(ROUNDS):
        b[:] = a
        a[1:] = b[:-1] * x + i


def inlined(a, b, x):
    for _ in range(ROUNDS):
        b[:] = double(a, x)
        a[:-1] = b[1:] / 3.0


def quotients(a, b, x):
    for i in range(ROUNDS):
        b[:] = a / (a - x) + (i - 3.0)
        a[2:] = np.sqrt(np.maximum(b[2:], 0.5))


def read_before(a, b, x):
    seen = 0.0
    for _ in range(ROUNDS):
        first = b[3]
        b[1:-1] = a[1:-1] * x
        seen += first
        a[1:-1] = b[1:-1] * 1.5
    return seen


def read_within(a, b, x):
    for _ in range(ROUNDS):
        b[1:-1] = a[1:-1] * (b[3] * x)
        a[1:-1] = b[:-2] + b[4]


def read_in_a_branch(a, b, x):
    seen = 0.0
    for i in range(ROUNDS):
        held = 0.0
        if i % 3:
            held = b[5]
        b[1:-1] = a[1:-1] * x
        seen += held
        a[1:-1] = b[1:-1] * 1.5
    return seen


def read_by_a_loop(a, b, x):
    total = 0.0
    for i in range(ROUNDS):
        for k in range(5):
            total += b[k + 2]
        b[1:-1] = a[1:-1] * x + i
        a[1:-1] = b[:-2] * 1.25
    return total


FORMS = [stencil, copies, inlined, quotients, read_before, read_within, read_in_a_branch, read_by_a_loop]


def apart(values):
    return values.copy(), values[::-1].copy()


def one_array(values):
    a = values.copy()
    return a, a


def shifted(values):
    a = np.concatenate([values, values])
    return a[:LENGTH], a[3 : LENGTH + 3]


def beside(values):
    a = np.concatenate([values, values])
    return a[:LENGTH], a[LENGTH:]


def reversed_part(values):
    a = np.concatenate([values, values])
    return a[:LENGTH], a[LENGTH // 2 : LENGTH // 2 + LENGTH][::-1]


PLACES = [apart, one_array, shifted, beside, reversed_part]


def outcome(function, make):
    """The result or the exception of a call, and the bytes of its arrays after it."""
    a, b, x = make()
    try:
        result = repr(function(a, b, x))
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    return result, a.tobytes(), b.tobytes()


def raising():
    return np.errstate(all="raise")


@contextlib.contextmanager
def turned_into_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@contextlib.contextmanager
def recorded():
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        yield


def ignored():
    return np.errstate(all="ignore")


MODES = [raising, turned_into_errors, recorded, ignored]


def spiked(place, value):
    values = np.linspace(0.1, 1.0, LENGTH)
    values[place] = value
    return values


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("places", PLACES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("mode", MODES, ids=lambda f: f.__name__)
def test_results(form, places, mode):
    marked = fj.jit(form)
    for x, value in ((0.3, 0.5), (0.4, 1e306), (0.5, 1e300), (3.0, 1.0), (0.3, np.inf), (0.3, np.nan), (0.5, 0.5)):
        for place in (0, 2, 33, LENGTH - 2):
            make = lambda: (*places(spiked(place, value)), x)
            with mode():
                assert outcome(marked, make) == outcome(form, make), (x, value, place)
    assert any(MARK in entry["graph"] for entry in loops(marked)) == (form is not read_within)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_code_that_looks_while_it_is_warned(form, monkeypatch):
    """A function that replaces warnings.showwarning finds the arrays as NumPy has them at that time."""
    seen = []

    def run_with(function, place):
        a, b = apart(spiked(place, 1e306))
        monkeypatch.setattr(warnings, "showwarning", lambda *_: seen.append((a.tobytes(), b.tobytes())))
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            function(a, b, 0.45)
        found = seen.copy()
        seen.clear()
        return found, a.tobytes(), b.tobytes()

    marked = fj.jit(form)
    for place in (2, 20, 60):
        for _ in range(2):
            assert run_with(marked, place) == run_with(form, place)


TERMS = ["a[1:-1]", "a[:-2]", "a[2:]", "b[1:-1]", "b[2:]", "c[1:-1]", "x", "a[4]", "b[7]", "held", "0.5", "c[i % 60]"]
TARGETS = ["a[1:-1]", "b[1:-1]", "c[1:-1]", "b[2:]", "a[:-2]"]


def random_source(seed):
    rng = random.Random(seed)
    lines = ["def form(a, b, x):", "    c = b[::-1].copy() if x < 1 else a[:]", "    held = 0.25", "    for i in range(134):"]
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if kind < 0.25:
            lines.append(f"        held = {rng.choice(['a', 'b', 'c'])}[{rng.randint(0, 60)}] * 0.125")
            continue
        terms = [f"{rng.choice([0.25, 0.5, 1.125])} * {rng.choice(TERMS)}" for _ in range(rng.randint(1, 4))]
        text = rng.choice(TERMS[:6]) + " * 0.5 " + "".join(f" {rng.choice('+-*')} {term}" for term in terms)
        indent = ""
        if kind > 0.8:
            lines.append(f"        if i % {rng.randint(2, 5)}:")
            indent = "    "
        lines.append(f"        {indent}{rng.choice(TARGETS)} = {text}")
    return "\n".join(lines) + "\n    return held\n"


START = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))


@pytest.mark.parametrize("seed", range(START, START + int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "200")) // 4))
def test_random_programs(seed):
    source = random_source(seed)
    namespace = {"np": np}
    exec(compile(source, __file__, "exec"), namespace)
    form = namespace["form"]
    marked = fj.jit(form)
    rng = random.Random(seed)
    for _ in range(6):
        places, mode, place = rng.choice(PLACES), rng.choice(MODES), rng.randrange(LENGTH)
        value, x = rng.choice([0.5, 1e307, -1e200, np.inf]), rng.choice([0.5, 1.25, 4.0])
        make = lambda: (*places(spiked(place, value)), x)
        with mode():
            assert outcome(marked, make) == outcome(form, make), (source, places, mode, place, value, x)
