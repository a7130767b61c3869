"""Tensor: MindSpore's promotion and semantics, eagerly and captured, against NumPy with the promotion written out."""

from __future__ import annotations

import gc
import itertools
import operator
import pickle
import weakref

import numpy as np
import pytest

import framejit as fj

NUMPY = {
    fj.bool_: np.bool_, fj.int8: np.int8, fj.int16: np.int16, fj.int32: np.int32, fj.int64: np.int64, fj.uint8: np.uint8,
    fj.float32: np.float32, fj.float64: np.float64,
}
KIND = {"b": 0, "i": 1, "u": 1, "f": 2}


def promoted(a: np.dtype, b: np.dtype) -> np.dtype:
    """The stated rule, written a second time: kinds first, then width; uint8 with int8 is int16."""
    a, b = np.dtype(a), np.dtype(b)
    if KIND[a.kind] != KIND[b.kind]:
        return a if KIND[a.kind] > KIND[b.kind] else b
    if {a, b} == {np.dtype("u1"), np.dtype("i1")}:
        return np.dtype("i2")
    if a.itemsize == b.itemsize:
        return a
    return a if a.itemsize > b.itemsize else b


def values(dtype, shape=(2, 3), seed=0):
    rng = np.random.default_rng(seed)
    return (rng.integers(1, 6, shape) * (0.5 if np.dtype(dtype).kind == "f" else 1)).astype(dtype)


OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.lt, operator.eq]


def expected(op, a: np.ndarray, b: np.ndarray, dtype: np.dtype):
    if dtype.kind in "biu" and op is operator.truediv:
        dtype = np.dtype("f4")
    if dtype.kind == "b" and op in (operator.floordiv, operator.mod):
        dtype = np.dtype("i8")
    if dtype.kind == "b" and op is operator.sub:
        return a ^ b  # as in MindSpore; NumPy raises
    return op(a.astype(dtype), b.astype(dtype))


def check(tensor, array, what):
    assert type(tensor) is fj.Tensor, what
    assert tensor.dtype is fj_dtype(array.dtype), (what, tensor.dtype, array.dtype)
    assert tensor.shape == array.shape, what
    assert tensor.asnumpy().tobytes() == np.ascontiguousarray(array).tobytes(), (what, tensor, array)


def fj_dtype(dtype):
    return next(k for k, v in NUMPY.items() if np.dtype(v) == dtype)


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_promotion_of_tensors(op):
    marked = fj.jit(lambda x, y: op(x, y))
    for left, right in itertools.product(NUMPY, NUMPY):
        a, b = values(NUMPY[left]), values(NUMPY[right], seed=1)
        dtype = promoted(a.dtype, b.dtype)
        array = expected(op, a, b, dtype)
        check(op(fj.Tensor(a), fj.Tensor(b)), array, (op, left, right, "eager"))
        for _ in range(2):
            check(marked(fj.Tensor(a), fj.Tensor(b)), array, (op, left, right, "marked"))
        marked.cache_clear()


@pytest.mark.parametrize("number, kinds", [(2, {"b": "i8", "i": None, "u": None, "f": None}),
                                           (1.5, {"b": "f4", "i": "f4", "u": "f4", "f": None}),
                                           (True, {"b": None, "i": None, "u": None, "f": None})])
def test_promotion_with_numbers(number, kinds):
    marked = fj.jit(lambda x, n: x * n)
    for dtype in NUMPY.values():
        a = values(dtype)
        result = np.dtype(kinds[a.dtype.kind] or a.dtype)
        array = a.astype(result) * np.asarray(number).astype(result)
        check(fj.Tensor(a) * number, array, (dtype, number))
        check(number * fj.Tensor(a), array, (dtype, number))
        check(marked(fj.Tensor(a), number), array, (dtype, number))
        check(marked(fj.Tensor(a), number), array, (dtype, number))
        marked.cache_clear()


def test_construction():
    assert fj.Tensor(1).dtype is fj.int64 and fj.Tensor(1.0).dtype is fj.float32 and fj.Tensor(True).dtype is fj.bool_
    assert fj.Tensor([1.0, 2.0]).dtype is fj.float32 and fj.Tensor([1, 2]).dtype is fj.int64
    assert fj.Tensor(np.ones(2)).dtype is fj.float64
    assert fj.Tensor(np.ones((2, 3)), fj.float32).dtype is fj.float32
    source = np.ones(3)
    tensor = fj.Tensor(source)
    source[0] = 7
    assert tensor.asnumpy()[0] == 1
    with pytest.raises(TypeError, match="input_data"):
        fj.Tensor("text")
    with pytest.raises(TypeError, match="dtype"):
        fj.Tensor(1, "no dtype")
    with pytest.raises(ValueError, match="shape"):
        fj.Tensor([1, 2], shape=(3,))


def test_repr():
    assert repr(fj.Tensor([1.0, 2.0])) == "Tensor(shape=[2], dtype=Float32, value= [ 1.00000000e+00,  2.00000000e+00])"
    assert repr(fj.Tensor([[1, 2]])) == "Tensor(shape=[1, 2], dtype=Int64, value=\n[[1, 2]])"
    assert repr(fj.Tensor(3)) == "Tensor(shape=[], dtype=Int64, value= 3)"


def test_reductions():
    for dtype in NUMPY.values():
        a = values(dtype, (4, 5))
        for axis in (None, 0, 1, -1, (0, 1)):
            for name in ("sum", "max", "min", "all", "any"):
                options = {"dtype": np.int64} if name == "sum" and a.dtype.kind in "biu" else {}
                array = np.asarray(getattr(a, name)(axis=axis, **options))
                marked = fj.jit(lambda x: getattr(x, name)(axis=axis))
                check(getattr(fj.Tensor(a), name)(axis=axis), array, (name, dtype, axis))
                check(marked(fj.Tensor(a)), array, (name, dtype, axis))
                check(marked(fj.Tensor(a)), array, (name, dtype, axis))


def test_product_against_float64():
    rng = np.random.default_rng(1)
    marked = fj.jit(lambda x, y: x @ y)
    for m, k, n in [(1, 1, 1), (2, 3, 4), (16, 16, 16), (33, 7, 65), (5, 0, 3), (64, 128, 31)]:
        for dtype in (np.float32, np.float64):
            a, b = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
            reference = a.astype(np.longdouble) @ b.astype(np.longdouble)
            bound = np.finfo(dtype).eps * (k + 1) * (np.abs(a).astype(np.longdouble) @ np.abs(b).astype(np.longdouble) + 1e-30)
            eager, compiled = fj.Tensor(a) @ fj.Tensor(b), marked(fj.Tensor(a), fj.Tensor(b))
            assert np.all(np.abs(eager.asnumpy() - reference) <= bound)
            assert eager.asnumpy().tobytes() == compiled.asnumpy().tobytes(), (m, k, n, dtype)
    assert "matmul" in marked.graphs() and fj.stats()["internal_errors"] == 0


def test_products_with_vectors_are_eager_ones():
    rng = np.random.default_rng(2)
    for shapes in [((40, 300), (300,)), ((300,), (300, 40)), ((300,), (300,))]:
        a, b = (fj.Tensor(rng.normal(size=shape)) for shape in shapes)
        for level in ("O0", "O1"):
            marked = fj.jit(lambda x, y: x @ y, jit_level=level)
            for _ in range(2):
                assert np.asarray(marked(a, b)).tobytes() == np.asarray(a @ b).tobytes()


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_products_of_integers_wrap_as_numpys(dtype):
    rng = np.random.default_rng(2)
    for left, right in [((5,), (5,)), ((5,), (5, 4)), ((4, 5), (5,)), ((4, 0), (0, 3)), ((50, 61), (61, 70)), ((2, 1, 4, 5), (3, 5, 6)), ((2, 60, 50), (50, 49))]:
        a, b = (rng.integers(0, 256, (*s[:-1], s[-1] * np.dtype(dtype).itemsize), dtype="u1").view(dtype) for s in (left, right))
        product = fj.jit(lambda x, y: x @ y, fullgraph=True)
        for x, y, expected in ((a, b, a @ b), (a.T, a, a.T @ a)) if len(left) == 2 else ((a, b, a @ b),):
            eager, compiled = fj.Tensor(x) @ fj.Tensor(y), product(fj.Tensor(x), fj.Tensor(y))
            assert eager.asnumpy().dtype == compiled.asnumpy().dtype == expected.dtype and compiled.shape == np.shape(expected)
            assert eager.asnumpy().tobytes() == compiled.asnumpy().tobytes() == expected.tobytes(), (left, right)
        assert "matmul" in product.graphs()


def test_products_of_all_layouts_are_the_same_eagerly_and_captured():
    rng = np.random.default_rng(2)
    shapes = [((5,), (5,)), ((5,), (5, 4)), ((4, 5), (5,)), ((3, 4, 5), (5, 6)), ((3, 4, 5), (3, 5, 6)), ((2, 1, 4, 5), (3, 5, 6)),
              ((3, 1, 40), (40, 50)), ((2, 0, 5), (5, 3)), ((4, 0), (0, 3)), ((2, 70, 300), (300, 40)), ((200, 600), (600,))]
    for left, right in shapes:
        marked = fj.jit(lambda x, y: x @ y, fullgraph=True)
        for dtype in (np.float32, np.float64):
            a, b = rng.normal(size=left).astype(dtype), rng.normal(size=right).astype(dtype)
            x, y = fj.Tensor(a), fj.Tensor(b)
            exact = np.matmul(a.astype(np.longdouble), b.astype(np.longdouble))
            bound = np.finfo(dtype).eps * (left[-1] + 2) * (np.matmul(abs(a).astype(np.longdouble), abs(b).astype(np.longdouble)) + 1e-30)
            eager, compiled = x @ y, marked(x, y)
            assert eager.shape == compiled.shape == exact.shape and eager.asnumpy().dtype == dtype
            assert np.all(np.abs(eager.asnumpy() - exact) <= bound), (left, right)
            assert eager.asnumpy().tobytes() == compiled.asnumpy().tobytes(), (left, right, dtype)
    for m, k, n in [(4, 5, 6), (1, 300, 40), (40, 300, 1), (3, 300, 100), (100, 300, 3), (130, 270, 65)]:
        turned = fj.jit(lambda x, y: x.T @ y.T, fullgraph=True)
        x, y = (fj.Tensor(rng.normal(size=s).astype(np.float32)) for s in ((k, m), (n, k)))
        eager, compiled = x.T @ y.T, turned(x, y)
        np.testing.assert_allclose(eager.asnumpy(), x.asnumpy().T @ y.asnumpy().T, rtol=1e-4, atol=1e-4)
        assert eager.asnumpy().tobytes() == compiled.asnumpy().tobytes(), (m, k, n)
    assert fj.stats()["internal_errors"] == 0


def test_what_is_made_of_a_product_runs_on_its_tiles():
    rng = np.random.default_rng(3)
    marked = fj.jit(lambda x, w, b, rest: (x @ w + b) * 0.5 - rest, fullgraph=True)
    for m, k, n in [(4, 4, 4), (33, 300, 65), (128, 64, 200)]:
        x, w, b, rest = (fj.Tensor(rng.normal(size=s).astype(np.float32)) for s in ((m, k), (k, n), (n,), (m, n)))
        eager = (x @ w + b) * 0.5 - rest
        assert marked(x, w, b, rest).asnumpy().tobytes() == eager.asnumpy().tobytes(), (m, k, n)
    assert marked.asm().count("finished by loop") >= 1 and marked.asm().count("\nloop ") == 0


def test_graph_is_one():
    x, y, z = (fj.Tensor(values(np.float32, seed=s)) for s in range(3))
    marked = fj.jit(lambda a, b, c: a * b + c, fullgraph=True)
    check(marked(x, y, z), values(np.float32) * values(np.float32, seed=1) + values(np.float32, seed=2), "a*b+c")
    assert marked.graphs().count("graph @") == 1 and "multiply" in marked.graphs() and "add" in marked.graphs()


def test_python_protocols():
    t = fj.Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert len(t) == 2 and t.ndim == 2 and t.size == 4 and t.T.asnumpy().tolist() == [[1, 3], [2, 4]]
    assert [r.asnumpy().tolist() for r in t] == [[1, 2], [3, 4]]
    assert float(t[0, 1]) == 2.0 and int(t[1, 1]) == 4 and bool(t[0, 0])
    with pytest.raises(ValueError):
        bool(t)
    with pytest.raises(IndexError):
        t[5]
    assert isinstance(t + np.ones(2), fj.Tensor) and isinstance(np.ones(2) + t, np.ndarray)
    assert hash(t) == hash(t) and t in {t}
    assert pickle.loads(pickle.dumps(t)).asnumpy().tolist() == t.asnumpy().tolist()
    before = t
    t += 1
    assert before is not t and before.asnumpy()[0, 0] == 1.0
    t[0] = 9
    assert t.asnumpy()[0].tolist() == [9, 9]
    reference = weakref.ref(t)
    del t
    gc.collect()
    assert reference() is None


def test_the_array_of_a_dead_tensor_is_used_again_only_where_nobody_has_it():
    """Tensors of several ranks and dtypes die in any order; who holds their array, a view, a buffer or a weak reference keeps what it had."""
    rng = np.random.default_rng(0)
    double = fj.jit(lambda x: x + x, fullgraph=True)
    shapes = [(), (6,), (2, 3), (3, 2), (1, 2, 3), (1, 1, 2, 3), (1, 1, 1, 2, 3), (0, 4)]
    held = []
    for _ in range(600):
        shape = shapes[rng.integers(len(shapes))]
        values = rng.integers(0, 100, shape).astype(rng.choice(["float32", "int64", "float64"]))
        made = double(fj.Tensor(values))
        array = made.asnumpy()
        how = rng.integers(6)
        if how == 0:
            held.append((array, values + values))
        elif how == 1:
            held.append((array.reshape(-1)[::-1], (values + values).reshape(-1)[::-1]))
        elif how == 2 and array.size:
            held.append((np.asarray(memoryview(array)), values + values))
        elif how == 3:
            held.append((array.base, values + values))
        elif how == 4:
            weak = weakref.ref(array.base)
            array.base.shape = (array.size,)
            assert np.array_equal(weak(), (values + values).reshape(-1))
        elif how == 5 and len(held) > 20:
            del held[rng.integers(len(held))]
        assert made.dtype is getattr(fj, str(values.dtype)) and made.shape == (values.shape if how != 4 else (values.size,))
        del made, array
        for seen, wanted in held[-5:]:
            assert seen.dtype == wanted.dtype and np.array_equal(seen, wanted)
    for seen, wanted in held:
        assert np.array_equal(seen, wanted)


def test_copies_of_what_the_graph_makes_are_copies():
    def f(z, a):
        x = z.abs()
        same = [x.copy(), x.astype(x.dtype), x.reshape(x.shape), fj.Tensor(x), x.flatten(), x + 0, x.view(x.shape), x.to(x.dtype)]
        for i, one in enumerate(same):
            one[i % 3] = float(i + 10)
        b = np.abs(a)
        t = fj.Tensor(b)
        t[0] = 5.0
        b[1] = 6.0
        u = fj.Tensor(t)
        u[2] = 7.0
        return x, same, b, t, u

    z, a = fj.Tensor(np.array([1, -2, 3], np.float32)), np.array([1.0, -2.0, 3.0])
    marked = fj.jit(f, fullgraph=True)
    flat = lambda x: [v for item in x for v in flat(item)] if isinstance(x, (tuple, list)) else [x]  # noqa: E731
    for _ in range(2):
        for got, wanted in zip(flat(marked(z, a)), flat(f(z, a)), strict=True):
            assert type(got) is type(wanted) and str(got) == str(wanted)


def test_names_that_are_imported_when_they_are_first_used():
    for name in ("Tensor", "ops"):
        vars(fj).pop(name, None)
    report = fj.explain(fj.jit(lambda x: fj.ops.relu(fj.Tensor(x)), fullgraph=True))(np.ones(3))
    assert len(report.graphs) == 1 and {"Tensor", "ops"} <= vars(fj).keys()
    with pytest.raises(AttributeError, match="nothing"):
        fj.jit(lambda: fj.nothing)()
