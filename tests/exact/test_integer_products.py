"""Products of integers, which are a core's at O0 too: modulo 2**n they are the same in any order."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exact.same import assert_same, observe

pytestmark = pytest.mark.capture

DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
MIXED = [("i1", "u1"), ("i1", "i4"), ("u2", "i2"), ("u4", "i4"), ("i8", "i1"), ("u8", "u2"), ("?", "i2"), ("u8", "?")]
SHAPES = [
    ((5,), (5,)), ((1,), (1,)), ((0,), (0,)), ((300,), (300,)), ((5,), (5, 4)), ((4, 5), (5,)), ((200, 33), (33,)), ((33,), (33, 200)),
    ((1, 1), (1, 1)), ((4, 5), (5, 6)), ((0, 5), (5, 3)), ((4, 0), (0, 3)), ((4, 0), (0,)), ((16, 16), (16, 16)), ((17, 31), (31, 15)),
    ((65, 300), (300, 70)), ((48, 48), (48, 48)), ((2, 50, 61), (61, 64)), ((1, 600), (600, 40)), ((40, 600), (600, 1)), ((3, 4, 5), (5, 6)), ((4, 5), (3, 5, 6)), ((3, 4, 5), (3, 5, 6)),
    ((2, 1, 4, 5), (3, 5, 6)), ((3, 4, 5), (5,)), ((5,), (3, 5, 2)), ((2, 0, 5), (5, 3)), ((0, 4, 5), (1, 5, 3)), ((7, 30, 2), (7, 2, 20)),
]  # fmt: skip


def at(x, y):
    return x @ y


def full_range(dtype: str, shape: tuple, seed: int = 0) -> np.ndarray:
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.random.default_rng(seed).integers(0, 256, count, dtype="u1")
    return (raw & 1).astype(bool).reshape(shape) if dtype == "?" else raw.view(dtype).reshape(shape)


def assert_native(marked) -> None:
    assert "matmul" in marked.graphs() and "library_call" not in marked.graphs()


@pytest.mark.parametrize("level", ["O0", "O1"])
@pytest.mark.parametrize("dtypes", [*((dtype, dtype) for dtype in DTYPES), *MIXED], ids="-".join)
def test_shapes_and_dtypes(dtypes, level):
    for left, right in SHAPES:
        x, y = full_range(dtypes[0], left), full_range(dtypes[1], right, 1)
        assert_native(assert_same(at, lambda: (x, y), calls=1, fullgraph=True, jit_level=level))


def test_graph_of_a_product():
    def scaled(x, y):
        return (x + 1) @ y * 2

    marked = assert_same(scaled, lambda: (full_range("i4", (4, 5)), full_range("i4", (5, 6))), fullgraph=True)
    lines = [line.split()[2] for line in marked.graphs().splitlines() if line.strip().startswith("%")]
    assert lines == ["constant", "add", "matmul", "constant", "multiply"]


@pytest.mark.parametrize("level", ["O0", "O1"])
def test_narrow_integers_wrap_at_the_end(level):
    x, y = np.full((3, 1000), -128, "i1"), np.full((1000, 4), 127, "i1")
    assert_native(assert_same(at, lambda: (x, y), fullgraph=True, jit_level=level))
    assert_native(assert_same(at, lambda: (x.view("u1"), y.view("u1")), fullgraph=True, jit_level=level))
    for dtype in ("i4", "i8"):
        info = np.iinfo(dtype)
        extremes = np.array([[info.min, info.max, -1], [info.max, info.min, info.min]], dtype)
        assert_same(at, lambda x=extremes: (x, x.T), fullgraph=True, jit_level=level)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "reversed": lambda x: x[::-1, ::-1],
    "gaps": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "one_row": lambda x: np.broadcast_to(x[:1], x.shape),
    "one_column": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "misaligned": lambda x: np.frombuffer(b"x" + x.tobytes(), "u1")[1:].view(x.dtype).reshape(x.shape),
}


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "i8"])
@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_layouts(left, right, dtype):
    for m, k, n in [(5, 7, 3), (1, 40, 9), (9, 40, 1), (40, 70, 33), (2, 9, 2)]:
        x, y = LAYOUTS[left](full_range(dtype, (m, k))), LAYOUTS[right](full_range(dtype, (k, n), 1))
        marked = fj.jit(at)
        assert marked(x, y).tobytes() == (x @ y).tobytes() and marked(x, y).strides == (x @ y).strides


def own_transpose(x):
    return x @ x.T, x.T @ x, np.dot(x, x.T), x[1:] @ x[:-1].T, x[::-1] @ x.T


def written_on_the_way(x):
    y = x.copy()
    first = y @ x.T
    y += 1
    x[0] = first[0, 0]
    return first, y @ x.T, x


def widened(x):
    y = x.astype("i4")
    first = y.T @ y
    second = x.T.astype("i4") @ x.astype("i2").astype("i4")
    z = x.astype("u4")
    truths = (x > 0).astype("i4")
    y += 70000
    low, high = x.astype("u1").astype("i4"), x.T.astype("i1").astype("i4")
    return first, second, z @ z.T, y.T @ y, truths @ truths.T, truths @ high, low @ high, low.T @ high.T


def finished(x):
    return np.maximum(x @ x.T + x[:, 0], 0), np.maximum(0, x.T @ x + 1) * 2, np.where(x @ x.T > 0, 1, x @ x.T)


def functions(x):
    return np.matmul(x, x.T), np.dot(x, x.T), x.dot(x.T), np.dot(x[0], x[0]), np.dot(x, x[0]), np.matmul(x[0], x.T), x[0] @ x[1]


@pytest.mark.parametrize("function", [own_transpose, written_on_the_way, widened, finished, functions], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
def test_programs(function, dtype):
    for shape in ((3, 4), (33, 40), (60, 70)):
        assert_native(assert_same(function, lambda s=shape: (full_range(dtype, s),), fullgraph=True))


def test_results_of_batches_lie_as_numpys_do():
    random = np.random.default_rng(5)
    for seed in range(100):
        rank = int(random.integers(2, 5))
        outer = tuple(int(n) for n in random.choice([1, 2, 3], rank))
        shapes = [tuple(1 if random.random() < 0.2 else n for n in outer)[int(random.integers(0, 2)) :] for _ in range(2)]
        dtypes = random.choice(["i1", "i4", "i8"], 2)
        x, y = full_range(dtypes[0], (*shapes[0], 4, 5), seed), full_range(dtypes[1], (*shapes[1], 5, 2), seed + 1)
        laid = []
        for a in (x, y):
            order = [*random.permutation(a.ndim - 2), a.ndim - 2, a.ndim - 1]
            a = np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order))
            laid.append(a[::-1] if random.random() < 0.3 else a)
        marked = fj.jit(at, fullgraph=True)
        expected, got = laid[0] @ laid[1], marked(*laid)
        assert got.tobytes() == expected.tobytes() and got.strides == expected.strides, (laid[0].strides, laid[1].strides, laid[0].shape)


def with_out(x, y):
    out = np.zeros((x.shape[0], y.shape[1]), x.dtype)
    return np.matmul(x, y, out=out), np.dot(x, y, out)


def in_place(x, y):
    x @= y
    return x


def truths(x, y):
    return (x > 0) @ (y > 0)


def with_floats(x, y):
    return x @ (y * 0.5), x @ y.astype("f4")


def other_products(x, y):
    return np.inner(x, y.T), np.outer(x, y), np.tensordot(x, y, 1), np.einsum("ij,jk", x, y), np.vdot(x, y.T), np.linalg.matrix_power(x[:3, :3], 3)


def dot_of_batches(x, y):
    return np.dot(np.stack((x, x)), np.stack((y, y))), np.dot(x, 3), np.dot(2, y)


def lists(x, y):
    return x @ [1, 2, 3, 4], np.dot([[1, 2, 3]], x[:3])


@pytest.mark.parametrize("function", [with_out, in_place, truths, with_floats, other_products, dot_of_batches, lists], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "u8"])
def test_what_is_left_to_numpy(function, dtype):
    assert_same(function, lambda: (full_range(dtype, (4, 4)), full_range(dtype, (4, 4), 1)))


@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((4,), (5,)), ((3, 4), ()), ((), (3,)), ((2, 3, 4), (3, 4, 5)), ((2, 3), (4, 3, 2))], ids=str)
@pytest.mark.parametrize("function", [at, np.matmul, np.dot], ids=["operator", "matmul", "dot"])
def test_errors_are_numpys(function, shapes):
    def product(x, y):
        return function(x, y)

    assert_same(product, lambda: tuple(full_range("i4", shape) for shape in shapes))


@pytest.mark.parametrize("cpu", ["avx2", "none"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_other_processors(cpu, dtype, monkeypatch):
    monkeypatch.setattr(fj.config, "cpu", cpu)
    for left, right in SHAPES:
        x, y = full_range(dtype, left), full_range(dtype, right, 1)
        marked = assert_same(at, lambda: (x, y), calls=1)
    if cpu != "none":
        assert_native(marked)


def test_floats_stay_numpys_at_o0():
    marked = assert_same(at, lambda: (np.ones((3, 4)), np.ones((4, 5))), fullgraph=True)
    assert "matmul %" not in marked.graphs()


def test_no_warnings_and_no_flags():
    x = np.full((4, 4), np.iinfo("i4").max, "i4")
    with np.errstate(all="raise"):
        seen = observe(fj.jit(at), (x, x), {"all": "raise"})
    assert seen.error is None and seen.warned == []


sides = st.integers(0, 40)


@settings(max_examples=150, deadline=None)
@given(sides, sides, sides, st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.sampled_from("ot"), st.sampled_from("ot"), st.integers(0, 1000))
def test_any_matrices(m, k, n, left, right, x_layout, y_layout, seed):
    x = full_range(left, (m, k), seed) if x_layout == "o" else full_range(left, (k, m), seed).T
    y = full_range(right, (k, n), seed + 1) if y_layout == "o" else full_range(right, (n, k), seed + 1).T
    assert_same(at, lambda: (x, y), calls=1)
