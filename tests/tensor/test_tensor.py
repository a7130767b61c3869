"""The Tensor type: construction, protocols, items, exchange of memory, Parameters."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import subprocess
import sys
import warnings
import weakref

import framejit as fj
import numpy as np
import pytest
from framejit import Parameter, Tensor, _core, ops
from tensor.tensor_support import NUMPY2, assert_array, assert_same, marked_as_eager

pytestmark = pytest.mark.capture


def make(shape=(3, 4), dtype=np.float32, seed=0):
    return Tensor((np.random.default_rng(seed).normal(size=shape) * 3).astype(dtype))


def test_construction():
    assert_array(Tensor(2), np.int64(2))
    assert_array(Tensor([1, 2.5]), np.float32([1, 2.5]))
    assert_array(Tensor([Tensor(1.5), Tensor(2.5)]), np.float32([1.5, 2.5]))
    assert_array(Tensor(1 + 2j), np.complex128(1 + 2j))
    assert_array(Tensor(np.float64(3)), np.float64(3))
    assert_array(Tensor(np.arange(6).reshape(2, 3).T, fj.float16), np.arange(6).reshape(2, 3).T.astype("f2"))
    assert_array(Tensor(shape=(2, 2), dtype=fj.float32, init=fj.initializer.One()), np.ones((2, 2), "f4"))
    assert fj.initializer.initializer("ones", (2,)).init_data().tolist() == [1, 1]
    with pytest.raises(ValueError, match="input_data and init can not be None at the same time"):
        Tensor()
    with pytest.raises(TypeError, match="numbers or bools"):
        Tensor(np.array(["a"]))


def test_a_tensor_lies_in_memory_of_framejit():
    """64-byte aligned; what NumPy makes afterwards does not."""
    from importlib import import_module

    try:
        handler_of = import_module("numpy._core.multiarray").get_handler_name
    except ImportError:
        handler_of = import_module("numpy.core.multiarray").get_handler_name
    for given in (np.ones((100, 3), "f4"), np.ones((3, 100)).T, [1.0] * 50, 3, Tensor([1, 2])):
        array = Tensor(given).asnumpy().base
        assert handler_of(array) == "framejit" and array.ctypes.data % 64 == 0
    with pytest.raises(TypeError, match="numbers or bools"):
        Tensor(np.array(["a"]))
    assert handler_of(np.empty(5)) == "default_allocator"


def test_bfloat16_is_an_array_to_numpy():
    tensor = Tensor([1.5, 2.5], fj.bfloat16)
    assert np.asarray(tensor).dtype == tensor.asnumpy().dtype
    assert_array(Tensor(np.array(tensor, np.float32)), np.float32([1.5, 2.5]))
    assert (np.asarray(tensor) + 1).tolist() == [2.5, 3.5]
    with pytest.raises(BufferError, match="use asnumpy"):
        memoryview(tensor)


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zero = Tensor([0.0, -1.0])
        big = Tensor(np.full(5, 3e38, np.float32))
        assert np.isinf((1 / zero).asnumpy()[0]) and np.isnan(fj.ops.log(zero).asnumpy()[1])
        assert np.isinf((big * 10).asnumpy()).all() and np.isinf((big[::2] * Tensor([[10.0]])).asnumpy()).all()
        assert (Tensor([1, 2]) // Tensor([0, 1])).tolist() == [0, 2]
        marked_as_eager(lambda x: (1 / x, fj.ops.log(x) * 2), zero)


def test_text():
    x = Tensor([[1.0, -2.5]])
    assert str(x) == str(x.asnumpy()) and f"{x}" == str(x) and f"{x[0, 0]:.2f}" == "1.00"
    assert repr(Tensor([True])) == "Tensor(shape=[1], dtype=Bool, value= [ True])"
    assert repr(Tensor(2.0)) == "Tensor(shape=[], dtype=Float32, value=  2.00000000e+00)"


def test_conversions_and_containers():
    x = Tensor([[1, 2], [3, 4]])
    assert 3 in x and 9 not in x and len(x) == 2 and [r.tolist() for r in x] == [[1, 2], [3, 4]]
    assert [10, 20, 30][Tensor(1)] == 20 and int(Tensor([7])) == 7 and float(Tensor(2.5)) == 2.5
    assert hash(x) == hash(x) and (x == None) is False  # noqa: E711
    assert x.item(3) == 4 and Tensor(2.5).item() == 2.5 and x.tolist() == [[1, 2], [3, 4]]
    for convert in (bool, int, float):
        with pytest.raises(ValueError):
            convert(x)
    with pytest.raises(TypeError, match="0-D"):
        len(Tensor(1))
    with pytest.raises(TypeError):
        iter(Tensor(1))
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist() == copy.deepcopy(x).tolist()


def test_numbers_of_captured_tensors():
    marked_as_eager(lambda x: x * float(x.sum()) + float(x[0, 0]), make())
    marked_as_eager(lambda x: x * x.sum().item(), make(), breaks=None)
    marked_as_eager(lambda x: x + int(x[0, 0]) if x.sum() > 0 else x, make(), breaks=None)


def test_size_and_shape_attributes():
    x = make((2, 3), np.float64)
    assert (x.ndim, x.size, x.itemsize, x.nbytes, x.strides, x.shape) == (2, 6, 8, 48, (24, 8), (2, 3))
    assert x.dtype is fj.float64 and x.T.shape == (3, 2) and x.numel() == 6 and x.dim() == 2


KEYS = ["1", "-1", ":", "1:", "::-1", "::2", "0, 1", ":, 2", "..., 0", "None", "None, :, None, 1", "0:2, 1:3", "1, ...", "5:9"]
ADVANCED = ["[0, 2]", "[True, False, True]", ":, [1, 1]", "[0, 1], [1, 2]", "True"]


@pytest.mark.parametrize("key", KEYS + ADVANCED)
def test_items(key):
    x = make()
    get = eval(f"lambda t: t[{key}]")
    assert_array(get(x), get(x.asnumpy()))
    part = get(x)
    if part.size:
        part[...] = 0
        assert x.asnumpy().all(), "parts have memory of their own"
    marked_as_eager(eval(f"lambda t: t[{key}] + 1"), x, breaks=0 if key in KEYS and key != "0, 1" else None)  # one element: not worth a graph


def test_tensor_keys():
    x = make()
    at, mask = Tensor([2, 0]), x > 0
    assert_array(x[at], x.asnumpy()[[2, 0]])
    assert_array(x[mask], x.asnumpy()[mask.asnumpy()])
    assert_array(x[:, at], x.asnumpy()[:, [2, 0]])
    y = x.copy()
    y[mask] = 0
    assert_array(y, np.where(x.asnumpy() > 0, np.float32(0), x.asnumpy()))


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["2", "1.5", "Tensor(3)", "[7.0]", "t[0, 0]"])
def test_assignment_to_items(key, value):
    names = {"Tensor": Tensor}
    exec(f"def assign(t):\n    y = t * 1\n    y[{key}] = {value}\n    return y, t", names)
    if value == "[7.0]" and key == "0, 1":
        return  # NumPy refuses a list for one element
    x = make()
    array = x.asnumpy() * 1
    exec(f"array[{key}] = {value}", {"array": array, "t": x.asnumpy(), "Tensor": int})
    assert_array(names["assign"](x)[0], array)
    marked_as_eager(names["assign"], x, breaks=None if value == "[7.0]" else 0)


def test_assignment_changes_the_argument():
    def assign(t, u):
        t[0] = u[1] * 2
        return t

    results = []
    for function in (assign, fj.jit(assign)):
        for _ in range(2):
            t, u = make(), make(seed=1)
            assert function(t, u) is t
            results.append(t.asnumpy().tobytes())
    assert len(set(results)) == 1
    explained = fj.explain(assign)(make(), make(seed=1))
    assert explained.breaks == [] and "write" in str(explained.graphs[0])


def test_errors_of_items():
    x = make()
    for key in (5, (0, 9), (0, 0, 0)):
        with pytest.raises(IndexError):
            x[key]
    with pytest.raises(IndexError):
        x[1.0]
    with pytest.raises(TypeError, match="ndarray"):
        x[0] = np.ones(4)
    with pytest.raises(ValueError):
        x[0] = Tensor(np.ones(3))
    with pytest.raises(IndexError):
        x[7] = 1
    with pytest.raises(TypeError):
        del x[0]


def test_in_place_operators_rebind():
    def update(x):
        y = x
        y += 1
        y *= 2
        y -= 0.5
        y /= 2
        return x, y

    marked_as_eager(update, make())
    x = make()
    before, y = update(x)
    assert before is x and y is not x


def test_shared_memory():
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = fj.from_numpy(source)
    source[0, 0] = 9
    assert x[0, 0] == 9
    view = x.asnumpy()
    x[0, 1] = 8
    assert view[0, 1] == source[0, 1] == 8
    assert np.asarray(x).ctypes.data == source.ctypes.data == np.from_dlpack(x).ctypes.data
    assert memoryview(x).shape == (2, 3) and x.__array_interface__["data"][0] == source.ctypes.data
    if np.from_dlpack(source).flags.writeable:  # NumPy 1 makes read-only arrays of it, which are copied
        assert fj.from_dlpack(x).asnumpy().ctypes.data == source.ctypes.data
    assert fj.from_dlpack(x).tolist() == x.tolist()
    assert isinstance(np.ones((2, 3)) + x, np.ndarray) and np.array(x).ctypes.data != source.ctypes.data
    assert fj.from_numpy(source.T).asnumpy().ctypes.data != source.ctypes.data, "other layouts are copied"
    with pytest.raises(TypeError):
        fj.from_numpy([1, 2])


def test_only_an_array_that_nothing_else_refers_to_is_taken_over():
    """From CPython 3.14 on the reference count of an argument leaves out what the interpreter borrows."""
    made = []

    def of_a_local(make):
        array = np.arange(4.0)
        t = make(array)
        array[0] = 9.0
        return t, array

    def of_a_temporary(make):
        return make(np.arange(4.0) * 2.0)

    def of_a_container(make):
        made[:] = [np.arange(4.0)]
        t = make(made[0])
        made[0][0] = 9.0
        return t

    for make in (Tensor, fj.tensor, _core._tensor):
        for _ in range(20):  # the interpreter specializes calls of what is called often
            t, array = of_a_local(make)
            assert_array(t, np.arange(4.0))
            t[1] = 7.0
            np.testing.assert_array_equal(array, [9.0, 1.0, 2.0, 3.0])
            assert_array(of_a_temporary(make), np.arange(4.0) * 2.0)
            assert_array(of_a_container(make), np.arange(4.0))


def test_shared_memory_in_a_graph():
    def both(t, a):
        t[0] = 5.0
        return t + 0, a + 0

    results = []
    for function in (both, fj.jit(both)):
        for shared in (False, True, True):
            a = np.arange(4.0)
            t = fj.from_numpy(a) if shared else Tensor(a)
            new_t, new_a = function(t, a)
            results.append((shared, new_t.tolist(), new_a.tolist()))
    assert results[:3] == results[3:]


def test_operators_with_other_things():
    x = make()
    assert_array(x + [[1.0] * 4], x.asnumpy() + np.ones((1, 4), np.float32))
    assert_array(x * np.float64(2), x.asnumpy() * np.float32(2))
    assert_array(x.astype(fj.float64) + True, x.asnumpy().astype("f8") + 1)
    assert_array(Tensor([1, 2]) << 2, np.array([4, 8]))
    assert_array(divmod(Tensor([7, 8]), 3)[1], np.array([1, 2]))
    assert_array(Tensor([1, 2]) + 1j, np.array([1 + 1j, 2 + 1j], np.complex64))
    for other in (np.array(["text"]), "text", object()):
        with pytest.raises(TypeError):
            x + other
    with pytest.raises(TypeError, match="uint64"):
        fj.ops.where(x > 0, Tensor([1], fj.uint64), Tensor([1]))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_operators_with_complex_numbers(dtype):
    array = np.array([1j, 2, 3 - 1j], dtype)
    assert_array(Tensor(array) * (1 + 2j), array * dtype(1 + 2j))
    assert_array(Tensor(array) == 1j, array == dtype(1j))


OPERATORS = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge),
]


@pytest.mark.parametrize("array", [np.float64([1, 2, 4]), np.int64(3) + np.zeros((2, 3), int), np.full((), 2.5), np.float16([1, 2, 3])[::-1]])
@pytest.mark.parametrize("function", OPERATORS)
def test_operators_with_ndarrays(function, array):
    """The left operand decides, as in MindSpore: a Tensor makes a Tensor, by its rules; an ndarray an ndarray, by NumPy's."""
    tensor = Tensor([1.5, 2.0, 3.0])
    assert_same(function(tensor, array), function(tensor, Tensor(array)))
    marked_as_eager(lambda tensor, array: function(tensor, array), tensor, array)
    expected = function(array, tensor.asnumpy())
    marked = fj.jit(lambda array, tensor: function(array, tensor))
    for found in (function(array, tensor), marked(array, tensor), marked(array, tensor)):
        assert type(found) is type(expected) and found.dtype == expected.dtype and np.array_equal(found, expected)
    if NUMPY2:
        assert fj.explain(lambda array, tensor: function(array, tensor))(array, tensor).breaks == []


def test_operators_with_ndarrays_of_other_kinds():
    tensor, changed = Tensor([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2))
    assert_same(tensor @ changed, tensor @ Tensor(changed))
    assert_same(Tensor([6, 5]) & np.array([3, 3]), Tensor([2, 1]))
    assert_same(Tensor([True, False]) | np.array([False, False]), Tensor([True, False]))
    assert_same(tensor + changed.astype(">f8"), tensor + Tensor(changed))
    assert_same(tensor + np.ma.array(changed, mask=False), tensor + Tensor(changed))
    changed += tensor
    assert changed.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    before = tensor
    tensor -= changed
    assert isinstance(tensor, Tensor) and tensor is not before and before.asnumpy().sum() == 10.0
    with pytest.raises(TypeError, match="i64 and u64"):
        Tensor([1]) + np.array([1], np.uint64)
    with pytest.raises(ValueError, match="broadcast"):
        Tensor([1.0, 2.0]) + np.ones(3)


@pytest.mark.parametrize("array", [np.float64([1, 2, 4]), np.float32([0.5, 1.5, 2.5])])
def test_gradients_through_operators_with_ndarrays(array):
    def loss(tensor):
        return (tensor * array).sum()

    for function in (loss, fj.jit(loss)):
        assert_array(fj.grad(function)(Tensor([1.0, 2.0, 3.0])), array.astype("f4"))


NUMPY_FUNCTIONS = {
    "sum": lambda t: np.sum(t),
    "sum over an axis": lambda t: np.sum(t, axis=0, keepdims=True),
    "mean": lambda t: np.mean(t, 1),
    "std": lambda t: np.std(t, ddof=1),
    "max": lambda t: np.max(t, axis=1),
    "all": lambda t: np.all(t > 0),
    "prod": lambda t: np.prod(t, dtype=np.float64),
    "exp": lambda t: np.exp(t),
    "add": lambda t: np.add(t, 1.0, dtype=np.float64),
    "where": lambda t: np.where(t > 1, t, 0.0),
    "clip": lambda t: np.clip(t, 0.0, 1.0),
    "cumsum": lambda t: np.cumsum(t, axis=1),
    "argmax": lambda t: np.argmax(t),
    "sort": lambda t: np.sort(t),
    "dot": lambda t: np.dot(t, t.T),
    "norm": lambda t: np.linalg.norm(t),
    "median": lambda t: np.median(t),
    "into an array": lambda t: np.add(t, t, out=np.zeros((2, 3))),
}
BREAKING_FUNCTIONS = {
    "concatenate": lambda t: np.concatenate([t, t]),
    "stack": lambda t: np.stack((t, t)),
    "reshape": lambda t: np.reshape(t, 6),
    "ravel": lambda t: np.ravel(t),
    "einsum": lambda t: np.einsum("ij->i", t),
    "ptp": lambda t: np.ptp(t),
    "allclose": lambda t: np.allclose(t, t),
    "fft": lambda t: np.fft.fft(t),
}


@pytest.mark.parametrize("name", [*NUMPY_FUNCTIONS, *BREAKING_FUNCTIONS])
def test_functions_of_numpy(name):
    function = {**NUMPY_FUNCTIONS, **BREAKING_FUNCTIONS}[name]
    tensor = make((2, 3))
    expected = function(tensor.asnumpy())
    marked = fj.jit(function)
    for found in (function(tensor), marked(tensor), marked(tensor)):
        assert type(found) is type(expected)
        np.testing.assert_array_equal(found, expected, strict=True)
    if NUMPY2 and name in NUMPY_FUNCTIONS:
        assert fj.explain(function)(tensor).breaks == []


def test_functions_of_numpy_that_ask_the_tensor():
    """MindSpore's Tensors have methods that these functions call."""
    tensor = make((2, 1, 3))
    for function in (np.transpose, np.squeeze, np.flip):
        assert_array(function(tensor), function(tensor.asnumpy()))
        marked_as_eager(lambda t: function(t), tensor, breaks=None)
    assert_array(np.swapaxes(tensor, 0, 2), tensor.asnumpy().swapaxes(0, 2))


def test_functions_of_numpy_write_into_no_tensor():
    tensor, array = make((3,)), np.ones(3)
    written = [
        lambda: np.add(array, array, out=tensor),
        lambda: np.sum([array], axis=0, out=tensor),
        lambda: np.copyto(tensor, array),
        lambda: np.put(tensor, [0], [1.0]),
    ]
    for function in written:
        for call in (function, fj.jit(function)):
            before = tensor.asnumpy().tobytes()
            with pytest.raises(TypeError):
                call()
            assert tensor.asnumpy().tobytes() == before


def test_functions_of_numpy_leave_other_arrays_their_say():
    class Other:
        def __array_function__(self, function, types, args, keywords):
            return function.__name__

    assert np.concatenate([make(), Other()]) == "concatenate"


def test_dtypes():
    for name in ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"):
        dtype = getattr(fj, name)
        assert Tensor([1, 0, 1], dtype).dtype is dtype
        assert make().to(dtype).dtype is dtype and Tensor(np.ones(2, dtype.numpy)).dtype is dtype
    assert Tensor([1]).float().dtype is fj.float32 and Tensor([1]).half().dtype is fj.float16 and Tensor([1.5]).long().tolist() == [1]
    assert (Tensor([1.0], fj.float16) + 2.5).dtype is fj.float16 and Tensor([1.0], fj.float16).mean().dtype is fj.float16
    with pytest.raises(TypeError):
        make().astype("nothing")
    marked_as_eager(lambda x: x * 2 if x.dtype == fj.float32 else x, make())


def test_bfloat16():
    pytest.importorskip("ml_dtypes")
    x = Tensor([1.0, 2.5], fj.bfloat16)
    assert x.dtype is fj.bfloat16 and x.itemsize == 2 and (x + 1).dtype is fj.bfloat16 and (x + 1).astype(fj.float32).tolist() == [2.0, 3.5]
    assert (x + Tensor([1.0, 1.0], fj.float16)).dtype is fj.float32
    assert Tensor(x.asnumpy()).dtype is fj.bfloat16


PRODUCTS = [((1, 1), (1, 1)), ((5,), (5,)), ((4, 5), (5,)), ((5,), (5, 3)), ((33, 65), (65, 34)), ((1, 300), (300, 40)), ((70, 31), (31, 1)),
            ((130, 600), (600, 70)), ((2, 3, 17, 40), (2, 1, 40, 50)), ((0, 3), (3, 2)), ((3, 0), (0, 2)), ((2, 0, 3), (3, 0)), ((1, 1031), (1031, 90)),
            ((1031, 67), (67,)), ((8, 35), (35, 130)), ((3, 1, 33), (33, 65)), ((3, 1, 33), (3, 33, 65)), ((3, 40, 129), (3, 129, 2)), ((9, 1), (1, 7))]


@pytest.mark.parametrize("cpu", ["", "avx2"])
@pytest.mark.parametrize("layout", ["", "transposed", "spread", "reversed"])
def test_products_of_bfloat16(cpu, layout, monkeypatch):
    """Sums are float32 and rounded once, by cores of bfloat16 and, where a processor has none, of float32."""
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    monkeypatch.setattr(fj.config, "cpu", cpu)
    rng = np.random.default_rng(0)

    def given(shape, draw):
        if layout == "transposed":
            return draw(shape[::-1]).astype(bfloat16).T
        if layout == "reversed":
            return draw(shape).astype(bfloat16)[::-1]
        return draw((*shape[:-1], 2 * shape[-1])).astype(bfloat16)[..., ::2] if layout == "spread" else draw(shape).astype(bfloat16)

    for a, b in PRODUCTS:
        x, y = (given(shape, lambda s: rng.normal(size=s)) for shape in (a, b))
        found = Tensor(x) @ Tensor(y)
        assert found.dtype is fj.bfloat16 and fj.ops.matmul(Tensor(x), Tensor(y)).asnumpy().tobytes() == found.asnumpy().tobytes()
        x, y = x.astype(float), y.astype(float)
        exact, size = x @ y, np.abs(x) @ np.abs(y)
        assert found.shape == exact.shape
        assert np.all(np.abs(found.asnumpy().astype(float) - exact) <= 2.0**-8 * np.abs(exact) + a[-1] * 2.0**-23 * size), (a, b)
        x, y = (given(shape, lambda s: rng.integers(-2, 3, s)) for shape in (a, b))
        exact = (x.astype(float) @ y.astype(float)).astype(bfloat16)
        assert np.array_equal((Tensor(x) @ Tensor(y)).asnumpy(), exact), (a, b)
    with pytest.raises(ValueError):
        Tensor(np.ones((3, 5), bfloat16)) @ Tensor(np.ones((7, 2), bfloat16))


@pytest.mark.parametrize("cpu", ["", "avx2"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_products_of_narrow_integers(cpu, dtype, monkeypatch):
    """Modulo 2**n, of any numbers, whichever core multiplies."""
    monkeypatch.setattr(fj.config, "cpu", cpu)
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    for a, b in PRODUCTS:
        x, y = (rng.integers(info.min, info.max, shape, dtype, endpoint=True) for shape in (a, b))
        for left, right in ((x, y), (x[::-1], y[::-1]), (x.swapaxes(0, -1).copy().swapaxes(0, -1), y.swapaxes(0, -1).copy().swapaxes(0, -1))):
            found = (Tensor(left) @ Tensor(right)).asnumpy()
            assert found.dtype == dtype and np.array_equal(found, left @ right), (a, b)


def test_parameters():
    p = Parameter(np.ones((2, 2), np.float32), name="w")
    assert isinstance(p, Tensor) and repr(p) == "Parameter (name=w, shape=(2, 2), dtype=Float32, requires_grad=True)"
    assert Parameter(1).dtype is fj.int32 and Parameter(1.0).dtype is fj.float32
    assert type(p + 1) is Tensor and type(-p) is Tensor
    marked_as_eager(lambda x: x * 2 + p, make((2, 2)))
    p.set_data(Tensor(np.full((2, 2), 3, np.float64)))
    assert p.dtype is fj.float32 and p.tolist() == [[3, 3], [3, 3]]
    with pytest.raises(ValueError, match="shape"):
        p.set_data(Tensor([1.0]))
    with pytest.raises(TypeError):
        p.set_data("text")
    copied = p.clone()
    copied[0] = 0
    assert p[0, 0] == 3 and copied.name == "w" and pickle.loads(pickle.dumps(p)).name == "w"
    assert fj.ops.assign(p, Tensor(np.zeros((2, 2), np.float32))) is p and not p.asnumpy().any()
    with pytest.raises(ValueError):
        fj.ParameterTuple([p, p])
    with pytest.raises(TypeError):
        fj.ParameterTuple([Tensor(1)])


def test_type_of_parameter_is_guarded():
    def kind(x):
        return x + (1 if isinstance(x, Parameter) else 2)

    marked = fj.jit(kind)
    t, p = Tensor([0.0]), Parameter(Tensor([0.0]))
    for x in (t, p, t, p):
        assert marked(x).tolist() == kind(x).tolist()


def test_attributes_of_parameters_hide_methods():
    p = Parameter(Tensor([1.0, 2.0]))

    def total(x):
        return x + p.sum()

    marked, x = fj.jit(total), Tensor(1.0)
    assert marked(x) == 4 and fj.explain(total)(x).breaks == []
    p.sum = lambda: 10.0
    assert marked(x) == total(x) == 11
    del p.sum
    assert marked(x) == 4


def test_updates_of_parameters_are_seen():
    p = Parameter(Tensor([1.0, 2.0]))

    def step(x):
        fj.ops.assign_add(p, x)
        return p * 1

    expected = []
    for function in (step, fj.jit(step)):
        p.set_data(Tensor([1.0, 2.0]))
        expected.append([function(Tensor([1.0, 1.0])).tolist() for _ in range(3)] + [p.tolist()])
    assert expected[0] == expected[1] == [[2.0, 3.0], [3.0, 4.0], [4.0, 5.0], [4.0, 5.0]]


@pytest.mark.parametrize("made", ["ops.ones((2, 2), fj.float32)", "numpy.ones((2, 2))", "mint.ones((2, 2))", "Parameter([1.0, 3.0])"])
def test_methods_are_there_whatever_is_imported_first(made):
    code = f"import framejit as fj; assert fj.{made}.sum().item() == 4"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_bernoulli_in_place():
    x = Tensor(np.full((100,), 3.0, np.float32))
    assert x.bernoulli_(0.5) is x and set(x.tolist()) == {0.0, 1.0}
    assert set(x.bernoulli_(1.0).tolist()) == {1.0} and x.dtype == fj.float32


ITEMS = {
    "an array": lambda x: (np.array([1, 0]), x * 2),
    "a Tensor": lambda x: (Tensor(np.array([1, 1])), x[0]),
    "Tensors in a tuple": lambda x: ((Tensor(np.array([0, 1])), Tensor(np.array([1, 2]))), 7),
    "with a slice": lambda x: ((slice(None), np.array([2, 0])), x[:, :2] - 1),
    "a list": lambda x: ([1, 0], 0.5),
    "a mask and one number": lambda x: (x > 0, -1),
    "a mask of rows": lambda x: (Tensor(np.array([False, True])), x[:1]),
    "another dtype": lambda x: (np.array([1]), x[:1].astype(fj.int32)),
}


@pytest.mark.capture
@pytest.mark.parametrize("name", ITEMS)
def test_items_by_arrays(name):
    def read(x):
        return x[ITEMS[name](x)[0]]

    def write(x):
        y = x * 1
        key, value = ITEMS[name](x)
        y[key] = value
        return y

    x = Tensor(np.array([[0.5, -1.5, 2.0], [3.0, -0.25, 1.0]], np.float32))
    for f in (read, write):
        jitted = fj.jit(f, fullgraph=True)
        found, wanted = jitted(x), f(x)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.asnumpy(), wanted.asnumpy())
        assert jitted.graphs().count("graph @") == 1
    gradient = fj.grad(lambda x: (write(x) ** 2).sum() + (read(x) ** 3).sum())
    found = gradient(x)
    assert gradient.graphs().count("graph @") == 1
    with fj.stance("force_eager"):
        np.testing.assert_allclose(found.asnumpy(), gradient(x).asnumpy(), rtol=1e-6)


def test_an_ndarray_is_no_item():
    def f(x):
        x[0] = np.ones(3, np.float32)

    for one in (f, fj.jit(f)):
        with pytest.raises(TypeError, match="value must be a number, Tensor, list or tuple, got numpy.ndarray"):
            one(Tensor(np.zeros((2, 3), np.float32)))


# --- Numbers of NumPy ---------------------------------------------------------------------------------------------------------

NUMPY_NUMBERS = [np.float64(0.7), np.float32(2.5), np.float16(0.1), np.float64(1e300), np.int64(3), np.int8(-2), np.uint8(200), np.bool_(True)]


@pytest.mark.parametrize("dtype", [fj.float32, fj.float64, fj.float16, fj.int32, fj.int64, fj.uint8, fj.int8, fj.bool_])
@pytest.mark.parametrize("number", NUMPY_NUMBERS, ids=lambda one: f"{type(one).__name__}({one})")
def test_numbers_of_numpy_are_operands(dtype, number):
    """Compiled as in the interpreter, with the number as a constant and as an argument."""
    x = Tensor(np.array([1, 2, 3]), dtype)

    def outcome(call, *args):
        try:
            found = call(*args)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            return type(error), str(error)
        return type(found), found.dtype, np.asarray(found).tobytes()

    for f in (lambda x, n: x + n, lambda x, n: n * x, lambda x, n: x / n, lambda x, n: ops.maximum(x, n), lambda x, n: x < n, lambda x, n: ops.pow(x, n)):
        constant = fj.jit(lambda x, f=f: f(x, number))
        varied = fj.jit(f)
        expected = outcome(f, x, number)
        for _ in range(3):
            assert outcome(constant, x) == expected and outcome(varied, x, number) == expected


def test_gradients_of_operands_that_are_numbers_of_numpy():
    x = Tensor([1.0, 2.0, 4.0])
    for number in (np.float32(2.5), np.float64(2.5), np.int64(2), np.bool_(True)):
        for f in (lambda x: x * number, lambda x: ops.pow(x, number), lambda x: x / number - number):
            plain = fj.grad(lambda x: f(x).sum())(x)
            assert plain.dtype == fj.float32 and fj.jit(fj.grad(lambda x: f(x).sum()), fullgraph=True)(x).tolist() == plain.tolist()
        assert fj.grad(lambda x: (x * number).sum())(x).tolist() == [float(number)] * 3


def test_gradients_of_a_power_whose_exponent_is_broadcast():
    base, exponent = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([[2], [3]])
    for e in (exponent, np.float32([1, 2, 3])):
        dx, de = fj.grad(lambda x, e: ops.pow(x, e).sum(), (0, 1))(Tensor(base), Tensor(e))
        np.testing.assert_allclose(dx.asnumpy(), e * base ** (e - 1), rtol=1e-6)
        full = base**e * np.log(base)
        np.testing.assert_allclose(de.asnumpy(), full.sum(1, keepdims=True) if e.ndim == 2 else full.sum(0), rtol=1e-5)


# --- Attributes that programs set -----------------------------------------------------------------------------------------


def outcome_of(f, *args):
    try:
        return f(*args)
    except AttributeError as error:
        return str(error)


def test_attributes_of_tensors():
    x = make()
    x.scale, x.sum = 2.5, lambda: 7
    assert x.__dict__ == {"scale": 2.5, "sum": x.sum} and vars(x) is x.__dict__ and x.sum() == 7
    del x.sum
    assert x.sum().shape == () and "sum" not in dir(x.__dict__)
    x.__dict__ = {"other": 1}
    assert x.other == 1 and not hasattr(x, "scale") and not hasattr(make(), "other")
    for name in ("shape", "dtype", "ndim"):
        with pytest.raises(AttributeError):
            setattr(x, name, 3)
    assert copy.copy(x).other == 1 and pickle.loads(pickle.dumps(x)).other == 1  # as in MindSpore
    assert not hasattr(copy.deepcopy(x), "other") and not hasattr(Tensor(x), "other")


def test_a_tensor_in_a_cycle_is_collected():
    gc.collect()
    x = make()
    assert not gc.is_tracked(x)  # it holds nothing that could lead back to it
    x.self = x
    y, y.others = make(), {}
    y.others["x"], y.others["y"] = x, y
    p = Parameter(make())
    p.self = p
    seen = [weakref.ref(each) for each in (x, y, p)]
    del x, y, p
    gc.collect()
    assert [each() for each in seen] == [None] * 3
    z = make()
    for _ in range(100_000):  # a chain that goes at once
        z, z.before = make((1,)), z
    del z


def test_attributes_of_inputs_are_captured():
    def f(x):
        return x * x.scale + x.sum()

    x = make()
    marked = fj.jit(f, fullgraph=True)
    for scale in (2, 3.5, 3.5, Tensor([1.0, 2.0, 3.0, 4.0]), np.float32(2)):
        x.scale = scale
        assert_same(marked(x), f(x))
    compiled = marked.graphs().count("graph @")
    for change in (lambda: setattr(x, "sum", lambda: Tensor(100.0)), lambda: delattr(x, "sum"), lambda: setattr(x, "sum", make((4,)).sum)):
        change()
        assert_same(marked(x), f(x))
    assert marked.graphs().count("graph @") > compiled > 1
    del x.scale
    for _ in range(2):
        assert outcome_of(fj.jit(f), x) == outcome_of(f, x) == "'framejit._core.Tensor' object has no attribute 'scale'"


def test_whether_a_tensor_has_an_attribute_is_asked_again():
    def f(x):
        y = x + 1
        return hasattr(x, "kind"), hasattr(y, "kind"), getattr(x, "kind", 3) * y

    marked = fj.jit(f, fullgraph=True)
    for x in (make(), Parameter(make())):
        for kind in (None, 5, None, 6.5):
            if kind is None:
                x.__dict__.pop("kind", None)
            else:
                x.kind = kind
            for _ in range(2):
                assert_same(marked(x), f(x))


def test_attributes_are_stored_where_python_stores_them():
    def f(x):
        y = x * 2
        y.kind, x.kind = "result", "input"
        z = y + len(y.kind)
        return y, z

    for mark in (lambda f: f, fj.jit, lambda f: fj.jit(f, capture_mode="bytecode")):
        x = make()
        for _ in range(2):
            y, z = mark(f)(x)
            assert (x.kind, y.kind, hasattr(z, "kind")) == ("input", "result", False)
            assert_same(z, x * 2 + 6)


@pytest.mark.parametrize("place", ["tape", "graph"])
def test_attributes_under_a_gradient(place):
    def gradient(f):
        return fj.jit(fj.grad(f), fullgraph=True) if place == "graph" else fj.grad(f)

    x = make()
    x.scale, x.twice = 3.0, lambda v: v * 2
    assert_same(gradient(lambda x: (x * x.scale).sum())(x), Tensor(np.full((3, 4), 3, "f4")))
    assert_same(gradient(lambda x: x.twice(x).sum())(x), Tensor(np.full((3, 4), 2, "f4")))
    asked = gradient(lambda x: (x * (5.0 if hasattr(x, "five") else 4.0)).sum())
    for value in (4, 5, 4):
        x.__dict__.update(five=1) if value == 5 else x.__dict__.pop("five", None)
        assert_same(asked(x), Tensor(np.full((3, 4), value, "f4")))

    def stores(x):
        x.seen = x.shape
        return (x * x).sum()

    assert_same(fj.grad(stores)(x), x * 2)
    assert x.seen == (3, 4)


def of_a_number(x, k):
    y = x.copy()
    y += k
    made = Tensor(k, x.dtype)
    return x + k, k - x, x * k, x > k, x == k, ops.where(x > 1, x, k), ops.clamp(x, 0, k), x.masked_fill(x > 1, k), y, made


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "int64"])
def test_integers_that_do_not_fit(dtype):
    """Python's integers lose their upper bits, as in MindSpore: numbers of the program and such as are known at run time only."""
    x = np.array([1, 2, 3], dtype)
    marked = [fj.jit(of_a_number), fj.jit(of_a_number, dynamic=True), fj.jit(of_a_number, capture_mode="bytecode")]
    for k in (2, 3, 4, 300, -129, 2**40, 2**63 - 1, -(2**63)):
        low = np.array(k).astype(dtype)
        out = of_a_number(Tensor(x), k)
        for found, wanted in zip(out, (x + low, low - x, x * low, x > low, x == low, np.where(x > 1, x, low)), strict=False):
            assert found.asnumpy().dtype == wanted.dtype and found.asnumpy().tolist() == wanted.tolist()
        assert out[-1].asnumpy() == low and out[-2].asnumpy().tolist() == (x + low).tolist()
        for f in marked:
            for found, wanted in zip(f(Tensor(x), k), out, strict=True):
                assert found.dtype == wanted.dtype and found.asnumpy().tolist() == wanted.asnumpy().tolist()
    for f in (of_a_number, *marked):
        with pytest.raises(OverflowError):
            f(Tensor(x), 2**64)


@pytest.mark.parametrize("k", [300, 2**40])
def test_integers_of_the_program_that_do_not_fit(k):
    f = lambda x: (x + k, x == k)  # noqa: E731
    for found, wanted in zip(fj.jit(f, fullgraph=True)(Tensor(np.int8([1, 2]))), f(Tensor(np.int8([1, 2]))), strict=True):
        assert found.dtype == wanted.dtype and found.asnumpy().tolist() == wanted.asnumpy().tolist()
