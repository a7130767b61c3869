"""Loops that store what is computed of whole vectors: by element, with the bits, warnings and errors of NumPy."""

from __future__ import annotations

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
    """Do the loops compute vectors, and do they come to their ends?"""
    early = sum(exit["taken"] for entry in loops for exit in entry["exits"] if exit["early"])
    return early == 0 and any("object -1" in entry["graph"] for entry in loops)


def made(source):
    namespace = {"np": np}
    exec(compile(source, __file__, "exec"), namespace)
    return namespace["form"]


ROWS, COLUMNS = 9, 11
MATRIX = np.random.default_rng(5).normal(size=(ROWS, COLUMNS))


def matrices():
    return MATRIX.copy(), MATRIX[::-1].copy() + 3.0


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
        assert loops and not any(exit["taken"] and exit["early"] for entry in loops for exit in entry["exits"])


@pytest.mark.parametrize("statement", [
    "a[i] = np.float64(2.0) ** b[i]", "a[i] = b[i] // 2.0", "a[i] = b[i] % 0.5", "a[i] = b[i] ** 3", "a[i] = b[i] > 0", "a[i] = b[i] * 1j",
    "a[i] = c[i]", "c[i] = b[i]", "c[i] += b[i]", "c[i] *= 2", "a[i] = b", "a[i] = b[i, :1]", "a[i] = b[:, i]", "a[i, :3] += b[i]",
    "a[i] = a[i, :, None]", "a[i, ::2] = b[i, ::2] * 2", "a[i] = 1j", "a[i] = None", "a[i] = 'x'", "a[i] = [1.0] * 11", "a[i] = 2**70",
    "b[i] * x", "t = (b[i] * x,); a[i] = t[0]", "v = b[i] * x; a[i] = v", "a[i] = b[i] * x is None", "a[i, 0] = b[i] * x",
])  # fmt: skip
def test_statements_of_other_kinds(statement):
    """What is not done by element runs as it did: results and errors are the same."""
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

    assert stored(compiled(form, matrices))


def test_an_array_in_place():
    def form(total, b):
        first = total
        for i in range(len(b)):
            total += b[i]
            total *= 0.5
        return total is first, total

    assert stored(compiled(form, lambda: (np.ones(COLUMNS), MATRIX.copy())))


def double_and_store(v, a):
    a[0] = 5.0
    return v[1]


def scaled(v, x):
    return v * x


def test_calls():
    """What a call stores is not seen by what was computed before it."""

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
