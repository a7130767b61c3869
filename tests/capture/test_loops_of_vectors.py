"""Loops that store what is computed of whole vectors: by element, with the bits, warnings and errors of NumPy."""

from __future__ import annotations

import contextlib
import functools
import os
import random

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run

pytestmark = pytest.mark.capture


@pytest.fixture(autouse=True)
def each_kernel(kernels):
    yield


def compiled(form, *makes, calls=4):
    """Compare calls with plain Python; the compiled loops."""
    marked = fj.jit(form)
    for _ in range(calls):
        for make in makes:
            check_same(run(form, make()), run(marked, make()), form.__name__)
    return [entry for entry in marked._report()["entries"] if entry["kind"] == "loop"]


def stored(loops):
    """Do the loops compute vectors, and do they come to their ends? Another thread may ask for the GIL now and then."""
    early = sum(exit["taken"] for entry in loops for exit in entry["exits"] if exit["early"])
    return early < 4 and any("object -1" in entry["graph"] for entry in loops)


def made(source):
    namespace = {"np": np}
    exec(compile(source, __file__, "exec"), namespace)
    return namespace["form"]


ROWS, COLUMNS = 9, 11
MATRIX = np.random.default_rng(5).normal(size=(ROWS, COLUMNS))


def matrices():
    return MATRIX.copy(), MATRIX[::-1].copy() + 3.0


def many():
    """Arrays with more rows than an unrolled loop has rounds."""
    return np.tile(MATRIX, (15, 1)), np.tile(MATRIX[::-1] * 0.5, (15, 1))


@pytest.mark.parametrize("statement", [
    "a[i, :] = b[i, :] * 2.5", "a[i] = b[i] + b[i // 2]", "a[i, :i] -= x * b[i, :i]", "a[:, i] = a[:, i] / b[:, i]",
    "a[:i, 2] = 3 - b[:i, i]", "a[i] *= x", "a[i] /= b[i]", "a[i, 1:] += a[i, :-1]", "a[i, :-1] += a[i, 1:]", "a[i] = -b[i]",
    "a[i] = b[i] ** 2 - b[i] ** 2.0", "a[i] = b[i]", "a[i, ::1] = b[i // 2, :]",
    "a[i] = (b[i] * x + a[i]) * (b[i] - i) / 3.0", "a[i] = b[i] if i % 2 else b[i] * b[i]", "a[i, i:i] += b[i, i:i]",
    "a[i] = b[i] * c + d - True", "a[i][2:] = b[i][2:] * x", "a[i // 2] += a[i] * a[i, i]",
])  # fmt: skip
def test_statements(statement):
    form = made(f"def form(a, b, x, c=np.float32(0.1), d=np.int16(3)):\n    for i in range(len(a)):\n        {statement}\n    return a, i")
    assert stored(compiled(form, lambda: (*matrices(), 0.75)))
    compiled(form, lambda: (*matrices(), np.float64(-1.5)), lambda: (*matrices(), 3))


@pytest.mark.parametrize("statement", ["a[i, 2:5] = 0.25", "a[:, i] = i", "a[i] = -0.0", "a[i, i:] = x", "a[i] = True"])
def test_one_number_in_all_places(statement):
    form = made(f"def form(a, x):\n    for i in range(len(a)):\n        {statement}\n    return a")
    for x in (0.75, np.float32(0.1), np.nan, 2**60 + 1, np.int8(-3)):
        loops = compiled(form, lambda x=x: (MATRIX.copy(), x))
        assert loops and sum(exit["taken"] for entry in loops for exit in entry["exits"] if exit["early"]) < 4


@pytest.mark.parametrize("statement", [
    "a[i] = np.float64(2.0) ** b[i]", "a[i] = b[i] // 2.0", "a[i] = b[i] % 0.5", "a[i] = b[i] ** 3", "a[i] = b[i] > 0", "a[i] = b[i] * 1j",
    "a[i] = c[i]", "c[i] = b[i]", "c[i] += b[i]", "c[i] *= 2", "a[i] = b", "a[i] = b[i, :1]", "a[i] = b[:, i]", "a[i, :3] += b[i]",
    "a[i] = a[i, :, None]", "a[i] = 1j", "a[i] = None", "a[i] = 'x'", "a[i] = [1.0] * 11", "a[i] = 2**70",
    "b[i] * x", "t = (b[i] * x,); a[i] = t[0]", "v = b[i] * x; a[i] = v", "a[i] = b[i] * x is None", "a[i, 0] = b[i] * x",
])  # fmt: skip
def test_statements_of_other_kinds(statement):
    """The interpreter does these statements: results and errors are the same."""
    form = made(f"def form(a, b, c, x):\n    for i in range(len(a)):\n        {statement}\n    return a, i")
    integers = np.arange(ROWS * COLUMNS, dtype="i4").reshape(ROWS, COLUMNS)
    compiled(form, lambda: (*matrices(), integers.copy(), 0.75))


def rows(a, b, x):
    for i in range(len(a)):
        a[i] = (b[i] - x) / (a[i] + x) * b[i]
        a[i] += x


def layouts(of):
    base = np.random.default_rng(8).normal(size=(2 * ROWS, 2 * COLUMNS))
    misaligned = np.zeros(ROWS * COLUMNS * 8 + 4, np.uint8)[4:].view("f8").reshape(ROWS, COLUMNS)
    misaligned[:] = base[:ROWS, :COLUMNS]
    return {
        "rows": base[:ROWS, :COLUMNS],
        "columns": base[:ROWS, :COLUMNS].copy(order="F"),
        "steps": base[::2, ::2],
        "reversed": base[:ROWS, COLUMNS - 1 :: -1],
        "misaligned": misaligned,
        "fields": np.rec.fromarrays([base[:ROWS, :COLUMNS], np.zeros((ROWS, COLUMNS), "i1")]).f0,
        "one column": base[:ROWS, :1],
        "no columns": base[:ROWS, :0],
        "wide": np.random.default_rng(9).normal(size=(40, 1037)),
        "float32": base[:ROWS, :COLUMNS].astype("f4"),
        "integers": np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS),
        "big endian": base[:ROWS, :COLUMNS].astype(">f8"),
    }[of]


@pytest.mark.parametrize("of", ["rows", "columns", "steps", "reversed", "misaligned", "fields", "one column", "no columns", "wide",
                                "float32", "integers", "big endian"])  # fmt: skip
def test_layouts(of):
    def make():
        a = layouts(of)
        return a, layouts(of)[::-1], 0.5

    loops = compiled(rows, make)
    if of in ("rows", "columns", "steps", "reversed"):
        assert stored(loops)


@pytest.mark.parametrize("shift", range(-9, 10))
@pytest.mark.parametrize("step", (1, -1, 2))
def test_overlap(shift, step):
    """All of a result is computed before any of it is stored."""

    def form(target, source, n):
        for _ in range(n):
            target[:] = source * 0.5
            target += source
            source[:] = target

    def make():
        whole = np.linspace(-2.0, 5.0, 60)
        return whole[20:40:step][:10], whole[20 + shift : 40 + shift : abs(step)][:10], 7

    compiled(form, make)


@pytest.mark.parametrize("steps", [(1, 2), (2, 1), (1, -1), (-1, 2), (-2, -1), (3, 2), (-1, 1), (2, 3)])
@pytest.mark.parametrize("places", [(0, 0), (1, 0), (0, 3), (10, 0), (4, 9), (9, 4)])
def test_copies_that_overlap(steps, places):
    """NumPy copies one element after the other: what is stored may be read again."""

    source = f"def form(whole, p, q, n):\n    for k in range(n):\n        whole[p::{steps[0]}][:10] = whole[q::{steps[1]}][:10]\n        whole[k] += k"
    start = [places[k] + (40 if steps[k] < 0 else 0) for k in range(2)]
    compiled(made(source), lambda: (np.linspace(-2.0, 5.0, 80), start[0], start[1], 50))


def test_rows_that_become_columns():
    def form(b, n):
        p = b[:5, 0]
        for i in range(n):
            p[:] = b[i]
            p = b[:5, i % 5]
        return p

    for order in "CF":
        compiled(form, *(lambda n=n, order=order: (np.array(np.arange(165.0).reshape(33, 5), order=order), n) for n in (1, 2, 3, 4, 5, 33)))


def test_the_last_of_two_copies_of_a_variable():
    """A value of the graph that has two definitions, of which the first leads to the second."""

    def form(a, w, u):
        q = a[0] * 1.0
        for i in range(len(a)):
            for _ in range(2):
                if i % 3 == 1:
                    q = i + q
                    w -= u
        return q, w

    for n in (2, 3, 4, 33):
        compiled(form, lambda n=n: (np.zeros((n, 5)), np.zeros(5), np.ones(5)))


@pytest.mark.parametrize("values", [(1e308, 10.0), (0.0, 0.0), (np.inf, 1.0), (np.nan, 2.0), (-np.inf, 0.0), (1.0, 0.0), (-0.0, -0.0), (5e-324, 0.25)])
@pytest.mark.parametrize("operator", ["+", "-", "*", "/"])
@pytest.mark.parametrize("how", ["warn", "ignore", "raise"])
def test_numbers_that_are_not_finite(values, operator, how):
    form = made(f"def form(a, b, log):\n    for i in range(len(a)):\n        a[i] = b[i] {operator} a[i]\n        a[i] {operator}= b[i]\n        log.append(i)")

    def make():
        a = np.arange(60.0).reshape(6, 10) - 7.5
        b = np.full((6, 10), 2.0)
        b[4, 7], a[4, 7] = values
        return a, b, []

    with np.errstate(over=how, divide=how, invalid=how):
        compiled(form, make)


def test_read_only_targets():
    def form(a, b):
        for i in range(len(a)):
            b[i] += 1.0
            a[i] = b[i] * 2.0

    def make():
        a, b = matrices()
        a.flags.writeable = False
        return a, b

    compiled(form, make)
    compiled(form, matrices, make)


def test_variables_keep_their_arrays():
    def form(a, b):
        row = whole = a[0]
        for i in range(len(b)):
            row += b[i] * 0.5
            b[i] = row
            if i == 5:
                row = a[2]
            last = b[i]
            last -= row
        return row, whole, last, row is whole, a

    assert stored(compiled(form, many))


def test_an_array_in_place():
    def form(total, b):
        first = total
        for i in range(len(b)):
            total += b[i]
            total *= 0.5
        return total is first, total

    assert stored(compiled(form, lambda: (np.ones(COLUMNS), many()[0])))


def double_and_store(v, a):
    a[0] = 5.0
    return v[1]


def scaled(v, x):
    return v * x


def test_calls():
    """An operand that was computed in front of a call does not change with what the call stores."""

    def stores(a, b):
        for i in range(len(a)):
            a[i] = b[i] * 2.0 + double_and_store(b[i], b[i])

    def gives(a, b):
        for i in range(len(a)):
            a[i] = scaled(b[i], 2.0) + scaled(a[i], b[i, 0])

    def takes(a, b):
        for i in range(len(a)):
            a[i] = scaled(b[i] * 3.0, 2.0)

    compiled(stores, matrices)
    assert stored(compiled(gives, matrices))
    compiled(takes, matrices)


def test_products_of_stored_parts():
    """Gram and Schmidt."""

    def form(a):
        q, r = np.zeros_like(a), np.zeros((a.shape[1], a.shape[1]))
        for k in range(a.shape[1]):
            r[k, k] = np.sqrt(np.dot(a[:, k], a[:, k]))
            q[:, k] = a[:, k] / r[k, k]
            for j in range(k + 1, a.shape[1]):
                r[k, j] = np.dot(q[:, k], a[:, j])
                a[:, j] -= q[:, k] * r[k, j]
        return q, r

    for shape in ((17, 12), (1, 1), (3, 5)):
        loops = compiled(form, lambda shape=shape: (np.random.default_rng(3).normal(size=shape),))
        assert shape != (17, 12) or stored(loops)


def test_elements_beside_vectors():
    def form(a, b, out):
        for i in range(len(a)):
            a[i] -= a[i // 2] * b[i, 0]
            out[i] = a[i, 3] + a[i // 2, 3]
            b[i, 0] = out[i] * 0.5

    assert stored(compiled(form, lambda: (*matrices(), np.zeros(ROWS))))


def test_lengths_that_are_given_late():
    """A vector that is longer than the memory for results is computed by the interpreter."""

    def form(a, b, n, rounds):
        for i in range(rounds):
            a[i : n + i] = b[i : n + i] * 0.5

    marked = fj.jit(form)
    for n in (40, 20000, 40, 16384, 16385):
        arguments = [(np.zeros(2 * n), np.arange(2.0 * n), n, 40) for _ in range(2)]
        check_same(run(form, arguments[0]), run(marked, arguments[1]), n)
    loops = [entry for entry in marked._report()["entries"] if entry["kind"] == "loop"]
    assert sum(exit["taken"] for entry in loops for exit in entry["exits"] if exit["early"]) >= 2, loops


def test_loops_over_long_vectors_stay_graphs():
    """Several operators on a long vector are one kernel, which threads may share."""

    def form(a, b, n):
        for _ in range(n):
            a[1:-1] = 0.3 * (b[:-2] + b[1:-1] + b[2:])
            b[1:-1] = 0.3 * (a[:-2] + a[1:-1] + a[2:])

    assert not compiled(form, lambda: (np.zeros(50_000), np.linspace(0.0, 1.0, 50_000), 40), calls=1)
    assert stored(compiled(form, lambda: (np.zeros(500), np.linspace(0.0, 1.0, 500), 40)))


def test_memory_that_loops_share():
    """Another loop that begins while one is left finds nothing of it."""

    def inner(a):
        for i in range(1, len(a)):
            a[i] = a[i - 1] * 0.5 + a[i]
        return a.sum()

    functions = [inner, fj.jit(inner)]

    def form(a, b, which):
        out = []
        for i in range(len(a)):
            a[i] = b[i] * 2.0 - a[i]
            out.append(functions[which](b) if i == 4 else 0.0)
        return out

    marked = fj.jit(form)
    for _ in range(3):
        for which in (0, 1):
            check_same(run(form, (*matrices(), which)), run(marked, (*matrices(), which)), which)


# Arrays that the loop makes.


def pairs(p, out):
    for i in range(len(p)):
        for j in range(len(p)):
            d = p[i] - p[j]
            out[i, j] = d @ d
    return d, i


def averages(a, out):
    s = a[0] * 0.0
    for i in range(len(a)):
        s = s * 0.9 + a[i] * 0.1
        out[i] = s
    return s


def differences(a, out):
    before = now = a[0] * 1.0
    for i in range(len(a)):
        before = now
        now = a[i] * 2.0
        out[i] = now - before
    return before, now, before is now


def changed(a, out):
    for i in range(len(a)):
        r = a[i] * 0.5
        r[1] = r[0] + i
        r += a[i]
        r[2:5] = -1.0
        for x in r:
            out[i, 0] += x
        r = r * r
        r = r + r[3]
        out[i, 1:] = r[1:]
    return r


def held(a, out):
    first = last = None
    for i in range(len(a)):
        r = a[i] + i
        if i == 4:
            first = r
        elif i > 4:
            first = first * 0.5
            last = (r, first, i)
            out[i] = last[1] - last[0]
    return first, r, last, last[0] is r, last[1] is first


def swapped(a, out):
    p, q = a[0] * 1.0, a[1] * 1.0
    for i in range(len(a)):
        p, q = q, p + a[i]
        q = q if i % 3 else p * 0.5
        out[i] = p + q
    return p, q, p is q


def sized(a, out):
    n = a.shape[1]
    for i in range(len(a)):
        r = np.zeros(n)
        r[1:] = a[i, : n - 1]
        r[:1] += r[n // 2 :][:1]
        out[i] = r + np.ones(n)[::-1]
    return r


def several(a, out):
    for i in range(len(a)):
        u = a[i] * 2.0
        v = u + 1.0
        w = v * u
        x = w - v
        y = x * x
        z = y / (1.0 + y)
        r = z + u
        s = r - w
        t = s * v
        b = t - x
        out[i] = b + t + s + r + z + y + x + w + v + u
    return u, v, w, x, y, z, r, s, t, b


def distance(p, q, scale=2.0):
    d = (p - q) * scale
    return d @ d


def with_calls(p, out):
    for i in range(len(p)):
        for j in range(len(p)):
            out[i, j] = distance(p[i], p[j]) + distance(p[i] * 2.0, p[j] + p[i])


def aliases(a, out):
    for i in range(len(a)):
        r = s = a[i] * 2.0
        s += 1.0
        out[i] = r
        out[i] += (t := a[i] * 3.0) - t[0]
    return r, s, t, r is s


@pytest.mark.parametrize("form", [pairs, averages, differences, changed, held, swapped, sized, several, with_calls, aliases], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(133, 13), (140, 6), (129, 1), (129, 1024), (129, 1025)])
def test_made_arrays(form, shape):
    if shape[1] < 6 and form is changed:
        shape = (9, 9)
    if form in (pairs, with_calls):
        shape = (10, shape[1])

    def make():
        a = np.random.default_rng(4).normal(size=shape)
        return a, np.zeros((shape[0], shape[0]) if form in (pairs, with_calls) else shape)

    loops = compiled(form, make)
    assert shape[1] > 1024 or stored(loops) or (form in (several, held) and not loops)  # too many arrays, too many types


def test_made_arrays_are_left_as_they_were():
    """A check that fails in the middle of a round leaves the arrays of the round before."""

    def form(a, out):
        r = a[0] * 1.0
        for i in range(len(a)):
            r = r * 0.5 + a[i]
            out[i] = r / a[i]
        return r

    for at in (0, 1, 2, 17, 39):
        for value in (0.0, np.inf, np.nan):

            def make(at=at, value=value):
                a = np.random.default_rng(4).normal(size=(40, 12))
                a[at, 7] = value
                return a, np.zeros((40, 12))

            compiled(form, make, calls=2)


def test_made_arrays_in_reports():
    marked = fj.jit(averages)
    for _ in range(3):
        marked(*many())
    (loop,) = [entry for entry in marked._report()["entries"] if entry["kind"] == "loop"]
    assert loop["graph"].count("xor") > 0 and all(exit["why"] == "" for exit in loop["exits"])


# Functions.


@pytest.mark.parametrize("statement", [
    "np.sqrt(np.abs(a[i]))", "abs(a[i])", "np.exp(a[i] - np.max(a[i]))", "np.maximum(a[i], 0.0)", "np.minimum(a[i], b[i])", "np.maximum(x, a[i] * b[i])",
    "np.tanh(a[i]) * np.sin(b[i])", "np.floor(a[i]) + np.rint(b[i])", "a[i] / a[i].sum()", "a[i] * np.sum(b[i])", "a[i] - np.mean(a[i])",
    "a[i] * (a[i].max() - a[i].min())", "np.zeros(11) + a[i]", "np.ones(11) * x", "np.zeros_like(a[i])", "a[i].copy() * x", "np.copy(a[i])",
    "a[i] * a[i].dot(b[i])", "a[i] * (a[i] - b[i]).dot(b[i])", "a[i] * np.dot(a[i] - x, a[i] + x)", "a[i][::-1] * x", "np.flip(a[i])",
    "a[i] * np.dot(np.flip(a[i]), b[i])", "b[i][order] * a[i]", "a[i] * (b[i] @ a[i][order])", "a[i] + a[i].size",
    "a.T[i] * x if i < 0 else a[i]", "a[i] * np.sum(a[:, i])", "a[i] * np.mean(b[::2, i])", "a[i] * np.max((a[i] * b[i])[1::3])", "np.log(a[i] ** 2 + 1.0)",
    "np.arctan(a[i].T)", "a[i] * np.linalg.norm(a[i])", "a[i] * np.linalg.norm(a[i] - b[i])", "a[i] * np.linalg.norm(a[:, i])", "a[i] * np.linalg.norm(a[i, ::-2])",
    "np.array([x, i, a[i, 0], 1.0, True, 2, 3, 4, 5, 6, -0.0])", "a[i] * np.array((0.5, *order_[:0], x)).sum() if i < 0 else a[i] * np.array((x, 0.5)).sum()",
    "a[i] * (np.array([x, 1.5]) @ np.array([i, 0.5])) + np.array([a[i, 1], 2])[0]",
])  # fmt: skip
def test_functions(statement):
    order = np.array([3, 0, -1, 5, 5, 2, 1, -11, 10, 4, 7])
    form = made(f"def form(a, b, out, x, order):\n    for i in range(len(a)):\n        out[i] = {statement}\n    return out")
    if "a[:, i]" in statement or "[::2, i]" in statement:
        form = made(f"def form(a, b, out, x, order):\n    for i in range(len(a)):\n        out[i] = {statement.replace(', i]', ', i % 11]')}\n    return out")
    assert stored(compiled(form, lambda: (np.tile(MATRIX, (4, 1)), np.tile(MATRIX[::-1], (4, 1)) * 0.5, np.zeros((36, 11)), 0.75, order)))
    compiled(form, lambda: (np.tile(MATRIX, (4, 1)), np.tile(MATRIX[::-1], (4, 1)), np.zeros((36, 11)), 0.75, order.astype("i2") + 5))


@pytest.mark.parametrize("statement", [
    "a[i].sum(0)", "np.sum(a[i], 0)", "a[i].sum(axis=0)", "np.sum(a)", "a.sum()", "a[i].astype('f4')", "a[i].std()", "a[i].sum(None)", "np.zeros((2, 2))", "np.zeros(-1)",
    "np.zeros(i, 'f4')", "np.exp(a)", "np.sqrt(a[i] > 0)", "a[i][mask]", "a[i][a[i] > 0]", "a[:, i % 3][[0, 1]]", "np.maximum(a[i], np.nan)", "np.max(a[i][:0])",
    "a[i][:0].mean()", "np.copy(a)", "a[i].max(initial=3)", "np.flip(a)", "np.dot(a, a[0])", "a[i].dot(a)", "np.isnan(a[i])", "a[i][far]", "np.array([1, 2])", "np.array([])", "np.array([1.0, None])", "np.array([[1.0, 2.0]])", "np.array([1.0, 2], 'f4')", "[1.0, i]", "(1.0, [i])",
    "np.array([np.float32(1.5), 2])", "np.array([1.0, 2**70])", "np.array([a[i], a[i]])", "np.linalg.norm(a)", "np.linalg.norm(a[i], 1)", "np.linalg.norm(a[i] > 0)",
    "np.linalg.norm(a[i] * 1e200)", "len([i, 1])", "[i, 2.0][1]", "a[i, ::-1] @ a[i]", "(a[i] > 0.0).sum()", "np.zeros(5000)",
])  # fmt: skip
def test_functions_of_other_kinds(statement):
    form = made(f"def form(a, mask, far):\n    v = []\n    for i in range(len(a)):\n        v = {statement}\n    return v")
    compiled(form, lambda: (np.tile(MATRIX, (4, 1)), np.arange(11) % 3 == 1, np.array([1, 99])))


class Doubling:
    """A program may replace a function by such an object."""

    def __init__(self, name):
        self.__name__, self.before = name, getattr(np, name)

    def __call__(self, *arguments):
        return self.before(*arguments) * 2.0


@pytest.mark.parametrize("name", ["maximum", "minimum", "sqrt", "exp", "sum", "mean", "max", "copy", "zeros", "absolute", "flip"])
@pytest.mark.parametrize("how", ["another", "wrapped", "object"])
def test_functions_that_are_replaced(name, how, monkeypatch):
    call = {"maximum": "np.maximum(a[i], b[i])", "minimum": "np.minimum(a[i], 0.5)", "zeros": "np.zeros(11) + a[i]",
            "absolute": "abs(a[i]) + np.abs(b[i])"}.get(name, f"np.{name}(np.abs(a[i])) + b[i]")  # fmt: skip
    form = made(f"def form(a, b, out):\n    for i in range(len(a)):\n        out[i] = {call}\n    return out")

    def make():
        return (*many(), np.zeros((135, 11)))

    marked = fj.jit(form)
    before, others = getattr(np, name), {"maximum": np.minimum, "minimum": np.maximum}
    wrapped = functools.wraps(before)(lambda *arguments: before(*arguments) * 2.0)
    check_same(run(form, make()), run(marked, make()), name)
    monkeypatch.setattr(np, name, {"another": others.get(name, np.tanh), "wrapped": wrapped, "object": Doubling(name)}[how])
    for function in (marked, fj.jit(form)):
        for _ in range(2):
            check_same(run(form, make()), run(function, make()), name)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("values", ["numbers", "zeros", "one NaN", "infinite"])
def test_sums(name, values):
    """Vectors of all lengths, from each element on, and with steps. The order of additions is NumPy's."""

    source = f"def form(a, out):\n    for k in range(1, len(out)):\n        out[k] = np.{name}(a[:k]) + a[k:2 * k].{name}() * 0.5 - np.{name}(a[:3 * k:3]) + np.{name}(a[:k] * 1.5)\n        out[k] += a[2 * k:0:-1].{name}()"

    def make():
        a = np.random.default_rng(1).normal(size=1000) * 10.0 ** np.random.default_rng(2).integers(-8, 8, 1000)
        if values == "zeros":
            a = np.where(np.arange(1000) % 3 == 1, 0.0, -0.0)
        elif values != "numbers":
            a[77] = np.nan if values == "one NaN" else np.inf
        return a, np.zeros(330)

    with np.errstate(all="ignore"):
        loops = compiled(made(source), make, calls=2)
    assert loops


@pytest.mark.parametrize("call", ["np.maximum(a[i], 0)", "np.minimum(0, a[i])", "np.maximum(a[i], False)", "np.maximum(k, a[i])"])
def test_extremes_with_integers(call):
    """Which of two zeros comes depends on NumPy's vectors: the interpreter computes rows that have one."""
    form = made(f"def form(a, out, k):\n    for i in range(len(a)):\n        out[i] = {call}\n    return out")
    zeros = np.where(np.arange(1700).reshape(100, 17) % 3 == 0, 0.0, -0.0)
    loops = compiled(form, lambda: (many()[0], np.ones((135, 11)), np.int16(0)), lambda: (zeros, np.ones((100, 17)), np.int16(0)))
    assert loops and not any("numpy" in entry["graph"] for entry in loops)


def test_sums_that_overflow():
    def form(a, out):
        for i in range(len(a)):
            out[i] = np.sum(a[i]) + a[i].mean()

    def make():
        a = np.ones((40, 6))
        a[30] = 1e308
        return a, np.zeros(40)

    compiled(form, make)


# Random programs over rows.


class RowMaker:
    """One program: `form(a, b, out, x)` with matrices of equal shapes. Most of its variables hold arrays that it makes."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = ["def form(a, b, out, x):", "    p = q = u = v = w = a[0] * 1.0", "    s = t = 1.5", "    for i in range(len(a)):"]
        for _ in range(self.random.randint(2, 7)):
            self.statement(2)
        self.lines.append("    return p, q, u, v, w, s, t, p is q, u is v, v is w, p is w")

    def row(self):
        return self.random.choice(["a[i]", "b[i]", "a[i // 2]", "out[i]", "b[i - 1]", "b[:m, i % 5]", "p", "q", "u", "v", "w", "p", "u", "v"])

    def number(self):
        r = self.random.choice
        return r(["x", "s", "t", "0.5", "2", "i", f"{r('pquvw')}[{r(['0', '-1', '1', 'i % 3'])}]", f"({r('pquvw')} @ {r('pquvw')})", f"np.sum({r('pquvw')})", f"np.linalg.norm({r('pquvw')})", f"{r('pquvw')}.max()", f"np.mean({self.row()})", f"{r('pquvw')}[::2].sum()", f"{r('pquvw')}.dot({self.row()})", f"(a[i] @ {r('pquvw')})", "f(p, q)", "a[i, 1]"])

    def vector(self, depth=2):
        r = self.random
        if depth == 0 or r.random() < 0.15:
            return self.row()
        one, other = self.vector(depth - 1), self.vector(depth - 1) if r.random() < 0.5 else self.number()
        if r.random() < 0.15:
            return r.choice([f"-{one}", f"{one} ** 2", f"g({one}, {self.vector(1)})", f"({one} if s > t else {self.vector(1)})", f"h({one})", f"np.sqrt(abs({one}))", f"np.maximum({one}, {self.number()})", f"{self.row()}[::-1]", f"np.flip({self.row()})", f"{self.row()}[order]", f"({one}).copy()", "np.zeros(m)", f"np.array([{self.number()}, 0.5, i, 1.5, {self.number()}])"])
        one, other = (one, other) if r.random() < 0.6 else (other, one)
        return f"({one} {r.choice('+-**+/')} {other})"

    def statement(self, indent):
        r, space = self.random, "    " * indent
        name = r.choice("pquvw")
        roll = r.random()
        if roll < 0.3:
            self.lines.append(f"{space}{name} = {self.vector()}")
        elif roll < 0.4:
            self.lines.append(f"{space}{name} {r.choice(['+=', '*=', '-='])} {self.vector(1)}")
        elif roll < 0.55:
            self.lines.append(f"{space}out[i] {r.choice(['=', '+='])} {self.vector()}")
        elif roll < 0.65:
            self.lines.append(space + r.choice([f"{name} = {r.choice('pquvw')}", "p, q = q, p", "u, v, w = v, w, u", f"p = q = {self.vector(1)}", f"p, u = {self.vector(1)}, {self.vector(1)}"]))
        elif roll < 0.75:
            self.lines.append(space + r.choice([f"{name}[1] = {self.number()}", f"{name}[:2] = {r.choice('pquvw')}[1:3]", f"{name}[:] = {self.vector(1)}", f"out[i, 0] = {self.number()}"]))
        elif roll < 0.85:
            self.lines.append(f"{space}{r.choice('st')} = min(max({self.number()} * 0.5, -9.0), 9.0)")
        elif roll < 0.95 and indent < 4:
            self.lines.append(space + r.choice(["if s > 0.5:", "if i % 3 == 1:", f"if {name}[0] > x:", "for j in range(2):"]))
            for _ in range(r.randint(1, 3)):
                self.statement(indent + 1)
        else:
            self.lines.append(space + r.choice(["if i == 20:\n" + space + "    break", "if i % 5 == 4:\n" + space + "    continue", f"{name} = {name} * 0.25"]))

    def make(self):
        def scaled(v, w):
            return (v + w) * 0.5

        def first(v):
            v = v * 2.0
            v += 1.0
            return v - v[0]

        def product(v, w):
            r = v * w
            return r @ r

        namespace = {"f": product, "g": scaled, "h": first, "m": 5, "np": np, "order": np.array([4, 0, -1, 1, 1])}
        exec(compile("\n".join(self.lines), __file__, "exec"), namespace)
        return namespace["form"]


@pytest.mark.parametrize("seed", range(int(os.environ.get("FRAMEJIT_TEST_SEED", "0")), int(os.environ.get("FRAMEJIT_TEST_SEED", "0")) + int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "200")) // 4))
def test_random_programs(seed):
    form = RowMaker(seed).make()

    def make():
        made = np.random.default_rng(seed)
        a, b, out = (made.normal(size=(133, 5)) * 0.5 for _ in range(3))
        if seed % 4 == 3:
            a[seed % 133, 2] = made.choice([np.inf, np.nan, 1e308, 0.0])
        return a, np.asfortranarray(b), out, 0.25

    def cleaned(*arguments):
        """Which NaN comes is a matter of the order of operands, which NumPy leaves open."""
        made = form(*arguments)
        for array in arguments[:3] + made[:5]:
            array[np.isnan(array)] = np.nan
        return tuple(type(v)(np.nan) if isinstance(v, float) and v != v else v for v in made)

    marked, plain = fj.jit(form), form
    with np.errstate(all="ignore") if seed % 2 else contextlib.nullcontext():
        for _ in range(3):
            form = plain
            expected = run(cleaned, make())
            form = marked
            check_same(expected, run(cleaned, make()), seed)
