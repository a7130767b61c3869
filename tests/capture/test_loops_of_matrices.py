"""Loops with products and sums of small matrices of several types: one call of NumPy's loop for each operation, equal to the bit."""

from __future__ import annotations

import itertools
import os
import random

import numpy as np
import pytest

import forms_support
import framejit as fj
from forms_support import check_same
from loop_support import compare, loops, seen

pytestmark = pytest.mark.capture


@pytest.fixture(autouse=True)
def each_kernel(kernels):
    yield


def made(source, **names):
    namespace = {"np": np, **names}
    exec(compile(source, __file__, "exec"), namespace)
    return namespace["form"]


def numbers(dtype, *shape, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-9, 9, shape).astype(dtype)
    out = rng.normal(size=shape).astype(dtype)
    return out + 1j * rng.normal(size=shape) if dtype is complex else out


def stays_inside(marked, most_early=3):
    """Do the loops call NumPy's loops, and come to their ends? Another thread may ask for the GIL now and then."""
    entries = loops(marked)
    early = sum(exit["taken"] for entry in entries for exit in entry["exits"] if exit["early"])
    return bool(entries) and early <= most_early and any(part in entry["graph"] for entry in entries for part in ("object -1", "update", "call.reads dot"))


DTYPES = [float, complex, "f4", "i8", "i4"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("statement", [
    "c[i] = a[i] @ b[i]", "c[i] += a[i] @ b[i]", "c[i] -= a[i] @ b[i] * x", "c[i] = a[i] + b[i]", "c[i] = x * a[i] - b[i] / y", "c[i] = a[i].T @ b[i]",
    "c[i] = a[i] @ a[i].T", "c[i] = a[i].T @ a[i]", "c[i] = (a[i] @ b[i]) @ (b[i] @ a[i])", "c[i] = a[i]", "c[i] += 2", "c[i] = 1.5 - a[i]",
    "t = a[i] @ b[i]; c[i] = t @ t; s = t", "c[i] = c[i] @ a[i]", "c[i] = a[i - 1] @ c[i - 1]", "v = b[i, 0]; v = a[i] @ v; c[i, 1] = v",
    "c[i, 0] = b[i, :, 0] @ a[i]", "c[i, 0] = (b[i, 0] @ a[i]) @ b[i].T", "c[i] = a[i] / b[i]", "m = a[i]; m += b[i]; c[i] = m", "c[i, 2] = a[i, 0] + b[i, 1] * y",
    "c[i, 2] += a[i, 0]", "c[i] = s; s = a[i] @ s", "t = a[i] @ b[i]; c[i, 0, 1] = t[1, 2]; s = t + t",
    "c[i, 0, 0] = a[i, 0] @ b[i, 1]", "s = a[i, 0] @ b[i, :, 1]; c[i, 1, 1] = s", "c[i, 3, 3] = a[i, 2, ::2] @ b[i, 1::2, 1]", "s = (a[i, :1, 1] @ b[i, 1:2, 0]) * x; c[i, 0, 0] = s",
])  # fmt: skip
def test_statements(statement, dtype):
    form = made(f"def form(a, b, c, x, y, s):\n    for i in range(len(a)):\n        {statement}\n    return a, c, s, i")
    is_int = np.dtype(dtype).kind == "i"
    x, y = (3, np.dtype(dtype).type(2)) if is_int else (0.75, np.dtype("f4" if dtype == "f4" else "f8").type(1.5))
    last = numbers(dtype, 4, 4) // 4 if is_int else numbers(dtype, 4, 4) / 4
    marked = compare(form, lambda: (*(numbers(dtype, 40, 4, 4, seed=k) for k in range(3)), x, y, last))
    # Integers wrap around in arrays, but are not divided there.
    assert stays_inside(marked) or (is_int and any(part in statement for part in ("/", "1.5", "1, 2]")))


@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes_of_products(dtype):
    def matrices(a, b, out):
        for i in range(len(a)):
            out[i] = a[i] @ b[i]
        return out

    def by_vector(a, v, out):
        for i in range(len(a)):
            out[i] = a[i] @ v[i]
        return out

    def of_vector(v, b, out):
        for i in range(len(b)):
            out[i] = v[i] @ b[i]
        return out

    sizes = (1, 2, 3, 5, 8, 17)
    for m, k, n in itertools.product(sizes, repeat=3):
        a, b = numbers(dtype, 9, m, k), numbers(dtype, 9, k, n, seed=1)
        compare(matrices, lambda: (a, b, np.zeros((9, m, n), dtype)))
    for m, k in itertools.product(sizes, repeat=2):
        a, v = numbers(dtype, 9, m, k), numbers(dtype, 9, max(m, k), seed=1)
        compare(by_vector, lambda: (a, v[:, :k], np.zeros((9, m), dtype)))
        compare(of_vector, lambda: (v[:, :m], a, np.zeros((9, k), dtype)))


LAYOUTS = {
    "C": lambda x: x,
    "F": lambda x: np.asfortranarray(x),
    "each transposed": lambda x: np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2),
    "reversed": lambda x: x[:, ::-1, ::-1],
    "steps": lambda x: np.repeat(x, 2, axis=2)[:, :, ::2],
    "parts": lambda x: np.pad(x, ((0, 0), (1, 1), (2, 1)))[:, 1:-1, 2:-1],
    "misaligned": lambda x: np.frombuffer(b"\0" * 4 + x.tobytes(), np.uint8)[4:].view(x.dtype).reshape(x.shape),
    "other end": lambda x: x.astype(x.dtype.newbyteorder()),
    "read-only": lambda x: np.broadcast_to(x[:1], x.shape),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, dtype):
    def products(a, b, c):
        for i in range(len(a)):
            c[i] = a[i] @ b[i]
            c[i] += b[i] @ a[i]
        return c

    def by_element(a, b, c):
        for i in range(len(a)):
            c[i] = a[i] * b[i]
            c[i] -= b[i] + 2.5
        return c

    a, b, c = (numbers(dtype, 9, 3, 3, seed=k) for k in range(3))
    for which in itertools.product([LAYOUTS["C"], LAYOUTS[layout]], repeat=3):
        for function in (products, by_element):
            compare(function, lambda: tuple(lay(x.copy()) for lay, x in zip(which, (a, b, c))))


def kalman(f, h, q, r, x, p, measured, states):
    for k in range(len(measured)):
        x = f @ x
        p = f @ p @ f.T + q
        innovation = measured[k] - h @ x
        s = (h @ p) @ h + r
        gain = (p @ h) / s
        x = x + gain * innovation
        p = p - gain[:, None] * (h @ p)
        states[k] = x
    return x, p, states


def rotations(points, step, turned):
    at = np.eye(3)
    for k in range(len(points)):
        at = at @ step
        turned[k] = at @ points[k]
    return at, turned


def spins(phases, state, energies):
    for k in range(len(phases)):
        state = phases[k] @ state @ phases[k].T
        energies[k] = state[0, 0].real
    return state, energies


def test_programs():
    f = np.array([[1.0, 0.1, 0.0, 0.0], [0.0, 1.0, 0.1, 0.0], [0.0, 0.0, 1.0, 0.1], [0.0, 0.0, 0.0, 1.0]])
    h = np.array([1.0, 0.0, 0.5, 0.0])
    compare(kalman, lambda: (f, h, np.eye(4) * 0.01, 0.1, np.zeros(4), np.eye(4), numbers(float, 200), np.zeros((200, 4))))
    marked = compare(rotations, lambda: (numbers(float, 300, 3), np.linalg.qr(numbers(float, 3, 3))[0], np.zeros((300, 3))))
    assert stays_inside(marked)
    marked = compare(spins, lambda: (np.linalg.qr(numbers(complex, 300, 2, 2))[0], numbers(complex, 2, 2), np.zeros(300)))
    assert stays_inside(marked)


def test_many_arrays_at_once():
    form = made("""
def form(a):
    p, q, r, s, t = (a[0] @ a[k] for k in range(5))
    for i in range(len(a)):
        p, q, r, s, t = q @ a[i], r + a[i], s - p, t * 0.5, p @ q / 4
        last = (p + q) @ (r + s) @ (t + p)
    return p, q, r, s, t, last
""")
    compare(form, lambda: (numbers(float, 30, 3, 3) / 3,), lambda: (numbers(complex, 30, 3, 3) / 3,))


@pytest.mark.parametrize("special", [np.nan, np.inf, 1e308, 1e-320, 0.0])
@pytest.mark.parametrize("statement", ["c[i] = a[i] @ b[i]", "c[i, 0, 0] = a[i, 0] @ b[i, 1]", "c[i] = a[i] * b[i]", "c[i] += a[i] * 2", "c[i] = b[i] / a[i]"])
def test_warnings_and_special_numbers(statement, special):
    form = made(f"def form(a, b, c):\n    for i in range(len(a)):\n        {statement}\n    return c, i")
    for dtype in (float, complex, "f4"):

        def arguments():
            a, b, c = (numbers(dtype, 12, 3, 3, seed=k) for k in range(3))
            a[5, 1, 1] = 3e38 if dtype == "f4" and special == 1e308 else special
            return a, b * (10 if special == 1e308 else 1), c

        for state in ({}, {"all": "ignore"}, {"all": "raise"}):
            with np.errstate(**state):
                compare(form, arguments)


def test_numbers_that_become_denormal():
    """NumPy ignores underflow, unless it is told to do otherwise."""

    def decay(a, w):
        x = a[0, 0]
        for i in range(len(a)):
            x = a[i] @ x * 0.125
            w[i] = x
        return x, w

    for dtype in (float, "f4"):
        for state in ({}, {"under": "warn"}, {"under": "raise"}, {"all": "ignore"}):
            with np.errstate(**state):
                marked = compare(decay, lambda: (numbers(dtype, 900, 3, 3) / 8, np.zeros((900, 3), dtype)))
            if state in ({}, {"all": "ignore"}):
                assert stays_inside(marked)


@pytest.mark.parametrize("statement", [
    "c[i] = a[i] @ a[i, :2]", "c[i] = a[i] + a[i, 0]", "c[i] = a[i] @ w", "c[i] = a[i] @ 2", "c[i] @= a[i]", "c[i] = a[i] * 1j", "c[i] = a[i] ** 2", "c[i] += a[i].T",
    "c[i] = a[i] + f[i]", "c[i] = a[i] @ f[i]", "c[i] = f[i]", "c[i] = a[i] // 2", "c[i] = a", "c[i] = a[i] > 0", "c[i] = None", "c[i] = a[i, :2]", "c[i] = [a[i], a[i]][0]",
    "c[i] *= a[i] + 1j", "c[i] = -a[i]", "c[i] = (a[i] @ a[i]).sum()", "c[i] = a[i].dot(a[i])", "c[i] = np.dot(a[i], a[i])", "c[i] = a[i] @ [1, 2, 3]",
    "a[i] @ a[i]", "c[i] = (a[i] @ a[i], 1)[0]", "d[i] = a[i] @ a[i]", "c[i] = a[i:] @ a[i]", "a = a[i] @ a[i]",
])  # fmt: skip
def test_statements_of_other_kinds(statement):
    """The interpreter does these statements: results and errors are the same."""
    form = made(f"def form(a, c, f, w, d):\n    for i in range(len(c)):\n        {statement}\n    return a, c, i")
    compare(form, lambda: (numbers(float, 7, 3, 3), numbers(float, 7, 3, 3, seed=1), numbers("f4", 7, 3, 3), numbers(float, 4), []))
    compare(form, lambda: (numbers(complex, 7, 3, 3), numbers(float, 7, 3, 3, seed=1), numbers("f4", 7, 3, 3), numbers(complex, 4), [0] * 7))


def test_overlapping_parts():
    form = made("""
def form(a, flat):
    for i in range(1, len(a) - 1):
        a[i] = a[i - 1] @ a[i + 1]
        a[i] += a[i]
        flat[i] = flat[i] @ a[i]
    return a.copy(), flat.copy()
""")

    def arguments():
        memory = numbers(float, 200) / 2
        return (np.ndarray((20, 3, 3), float, memory, 0, (16, 24, 8)), np.ndarray((20, 3, 3), float, memory, 0, (24, 24, 8)))

    compare(form, arguments)


def test_large_matrices_stay_with_regions():
    form = made("def form(a, b):\n    for i in range(3):\n        a = a @ b\n    return a")
    marked = compare(form, lambda: (numbers(float, 60, 60) / 8, numbers(float, 60, 60, seed=1) / 8))
    assert not loops(marked)


def test_scattering_of_complex_matrices():
    form = made("""
def form(neighbours, d, g, weights, sigma):
    for e in range(g.shape[0]):
        for w in range(weights.shape[0]):
            for a in range(neighbours.shape[0]):
                for b in range(neighbours.shape[1]):
                    if e - w >= 0:
                        left = g[e - w, neighbours[a, b]] @ d[a, b]
                        right = d[a, b] * weights[w, a, b]
                        sigma[e, a] += left @ right
    return sigma
""")
    neighbours = (np.arange(12) % 4).reshape(4, 3).astype("i4")
    marked = compare(form, lambda: (neighbours, numbers(complex, 4, 3, 3, 3), numbers(complex, 5, 4, 3, 3, seed=1), numbers(complex, 3, 4, 3, seed=2), np.zeros((5, 4, 3, 3), complex)))
    assert stays_inside(marked)
    (text,) = {entry["graph"] for entry in loops(marked)}
    assert text.count("update matmul") >= 2 and "update multiply" in text and "update add" in text


COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "60"))
FIRST = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))


def random_program(seed):
    """A loop over matrices a[i], b[i] and w, vectors v and rows of those, and a number s."""
    pick = random.Random(seed).choice

    def matrix(depth):
        if depth == 0:
            return pick(["a[i]", "b[i]", "a[i - 1]", "w", "w", "a[i // 2]", "b[k]"])
        one, other = matrix(depth - 1), matrix(pick([0, depth - 1]))
        return pick([f"({one} @ {other})"] * 4 + [f"({one} {op} {other})" for op in "+-*/"] + [f"({one} * {number()})", f"({number()} - {one})", f"({one} / {number()})", f"({pick(['a[i]', 'w', 'b[k]'])}.T @ {one})"])

    def vector():
        return pick(["v", "a[i, 0]", "b[i, :, 1]", f"({matrix(1)} @ v)", f"(v @ {matrix(0)})", "(v + a[i, k])", f"(v * {number()})"])

    def number():
        return pick(["x", "s", "2", "0.5", "a[i, 0, 1]", "w[0, 0]", "(i + 1)", f"{pick(['v', 'b[i, 0]', '(a[i] @ v)'])}[0]", "s + 1.5"])

    def statement():
        target = pick(["w", "w", "a[i]", "b[i]", "b[k]", "v", "s", "b[i, 0]"])
        value = number() if target == "s" else vector() if target in ("v", "b[i, 0]") else matrix(pick([0, 1, 1, 2]))
        line = f"{target} {pick(['=', '=', '=', '+=', '-='])} {value}"
        return pick([line] * 6 + [f"if i % 3 == 1: {line}", f"if i > k: {line}", f"log.append({pick(['s', 'w', 'v[0]'])})" if seed % 5 == 0 else line])

    body = "\n        ".join(statement() for _ in range(pick([1, 2, 2, 3, 4, 5])))
    return f"def form(a, b, w, v, x, k):\n    s, log = x, []\n    for i in range(len(a)):\n        {body}\n    return a, b, w, v, s, log, i"


def random_arguments(seed, call):
    dtype = (float, complex, "f4", float, "i8", complex)[seed % 6]
    size = (2, 3, 3, 5, 1)[seed % 5]
    a, b = ((numbers(dtype, 12, size, size, seed=seed + call + k) / size).astype(dtype) for k in range(2))
    if seed % 7 == 3 and dtype != "i8":
        a[7] = np.inf
    if seed % 11 == 4:
        b = a[::-1]
    return a, b, a[0].copy(), numbers(dtype, size, seed=call), 0.75, 1


@pytest.mark.filterwarnings("ignore")
def test_random_programs(monkeypatch):
    monkeypatch.setattr(forms_support, "ONE_SCALAR", False)  # a list and a variable may hold equal ones (docs/usage.md)
    compiled = 0
    for seed in range(FIRST, FIRST + COUNT):
        form = made(random_program(seed))
        marked = fj.jit(form)
        for call in range(3):
            check_same(seen(form, random_arguments(seed, call)), seen(marked, random_arguments(seed, call)), random_program(seed))
        compiled += bool(loops(marked))
    assert compiled > COUNT / 3
