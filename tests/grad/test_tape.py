"""Gradients of functions that run in the interpreter: through graph breaks, under debuggers and stances; against the compiled gradient."""

from __future__ import annotations

import os
import subprocess
import sys

import framejit as fj
import numpy as np
import pytest
from framejit import Parameter, Tensor, nn, ops
from grad.grad_support import assert_gradients
from grad.test_numpy import ONE, M, W, X, products
from grad.test_tensors import A, KERNEL, OF_ONE, SQUARE

pytestmark = pytest.mark.capture
# What these do to memory cannot be followed in the interpreter: they write what is followed into arrays of their own.
INTO_ARRAYS = {"in_place", "indexed"}


@pytest.mark.parametrize("f", [f for f in ONE if f.__name__ not in INTO_ARRAYS], ids=lambda f: f.__name__)
def test_numpy(f):
    expected = fj.grad(f)(X)
    with fj.stance("force_eager"):
        found = fj.grad(f)(X)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_products():
    expected = fj.grad(products, (0, 1))(M, M[::-1] + 0.1)
    with fj.stance("force_eager"):
        found = fj.grad(products, (0, 1))(M, M[::-1] + 0.1)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-10)


@pytest.mark.parametrize("name", [name for name in OF_ONE])
def test_tensors(name):
    expected = fj.grad(OF_ONE[name])(Tensor(A)).asnumpy()
    with fj.stance("force_eager"):
        found = fj.grad(OF_ONE[name])(Tensor(A))
    assert type(found) is Tensor
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-9, atol=1e-12)


def test_images():
    f = lambda x, w: ops.sum(ops.square(ops.max_pool2d(ops.relu(ops.conv2d(x, w, pad_mode="same")), 2)))  # noqa: E731
    expected = fj.grad(f, (0, 1))(Tensor(SQUARE), Tensor(KERNEL))
    with fj.stance("force_eager"):
        found = fj.grad(f, (0, 1))(Tensor(SQUARE), Tensor(KERNEL))
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-9, atol=1e-12)


def test_zeros_of_either_sign():
    """Which of them NumPy's max gives depends on where they lie: gradients are computed all the same."""
    x = np.array([[0.0, -0.0, -1.0], [-0.0, -2.0, 0.0]])
    gradient = fj.grad(lambda x: (x.max(1) * 2).sum())
    np.testing.assert_array_equal(gradient(x), [[1, 1, 0], [1, 0, 1]])
    assert gradient.cache_entries()[0]["hits"] == 1 and fj.stats()["kernel_calls"]


FLAT = {
    "floor": lambda x: ops.floor(x.sqrt()).sum(),
    "trunc": lambda x: ops.trunc(x / x).sum(),
    "sign": lambda x: (ops.sign(x.sqrt()) * x).sum(),
    "floor_divide": lambda x: (x.sqrt() // 2).sum() + x.sum(),
    "heaviside": lambda x: ops.heaviside(x.sqrt(), x).sum(),
}


@pytest.mark.parametrize("name", FLAT)
def test_nothing_flows_through_steps(name):
    """Not a zero either, which an infinite slope before the step would make NaN."""
    x = Tensor(np.float32([1.5, -np.inf, np.nan, 0.0, 2.0]))
    expected = fj.grad(FLAT[name])(x).asnumpy()
    with fj.stance("force_eager"):
        np.testing.assert_array_equal(fj.grad(FLAT[name])(x).asnumpy(), expected)
        np.testing.assert_array_equal(fj.grad(lambda x: fj.grad(FLAT[name])(x).sum())(x).asnumpy(), np.zeros(5))
    sqrt = np.array([4.0, 0.0])
    with fj.stance("force_eager"):
        np.testing.assert_array_equal(fj.grad(lambda x: np.floor(np.sqrt(x)).sum())(sqrt), [0, 0])


def test_hooks_see_zeros_where_nothing_flows():
    p, seen = Parameter(Tensor([1.0, 2.0]), name="p"), []
    p.register_hook(lambda g: seen.append(g.asnumpy().tolist()) or g + 1)

    def hooked(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g.asnumpy().tolist()))
        return ops.floor(y).sum()

    functions = [lambda x: (ops.floor(p) * x).sum(), lambda x: x.sum()]
    for setting in ("default", "force_eager"):
        with fj.stance(setting):
            for f in functions:
                assert fj.grad(f, None, [p])(Tensor([1.0, 2.0]))[0].asnumpy().tolist() == [1, 1]
            assert fj.grad(hooked)(Tensor([1.0, 2.0])).asnumpy().tolist() == [0, 0]
        assert seen == [[0, 0]] * 3, setting
        seen.clear()


def broken(x):
    y = np.sin(x) * 2
    fj.graph_break()
    y[1:] *= x[:-1]
    view = y[2:5]
    view += 1.0
    z = y.reshape(2, 3).T
    z[0] = 3.0
    if y[1] > -10:
        y = y / (1 + y.mean())
    return (z @ z[:2]).sum() + np.linalg.norm(y) * x.prod()


def test_through_a_break():
    assert_gradients(broken, X, order=2)


def test_a_break_in_a_callee_and_numbers():
    def inner(s):
        fj.graph_break()
        return s**3 if s > 0 else -s

    f = lambda s: inner(s) * 2 + np.sin(s)  # noqa: E731
    assert_gradients(f, 1.5, order=1)
    assert isinstance(fj.grad(f)(1.5), float)


def test_values_and_what_else_comes_out():
    seen = []

    def f(x):
        fj.graph_break()
        y = x * 2
        seen.append(f"{y[0]:.1f} {y.shape} {isinstance(y, np.ndarray)}")
        return (y * y).sum(), {"y": y}, [x], y > 1

    (value, aux, same, mask), gradient = fj.value_and_grad(f, has_aux=True)(X)
    np.testing.assert_allclose(gradient, 8 * X, rtol=1e-14)
    assert seen == ["1.4 (6,) True"]
    assert type(value) is np.float64 and type(aux["y"]) is np.ndarray and same[0] is X and type(mask) is np.ndarray


def test_writes_reach_the_caller():
    def f(x, out):
        fj.graph_break()
        out[1:] = x[1:] * x[:-1]
        return (out * x).sum()

    x, out = X.copy(), X.copy()
    expected = fj.grad(lambda x, out: (np.concatenate([out[:1], x[1:] * x[:-1]]) * x).sum(), (0, 1))(X, X)
    found = fj.grad(f, (0, 1))(x, out)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)
    np.testing.assert_array_equal(out[1:], X[1:] * X[:-1])


def test_weights_through_a_break():
    fj.set_seed(2)
    net = nn.SequentialCell(nn.Dense(4, 3), nn.Tanh(), nn.Dense(3, 1))
    weights = net.trainable_params()
    marked = fj.jit(net)  # runs in the interpreter where a tape is kept

    def loss(x):
        out = marked(x)
        fj.graph_break()
        state = ops.zeros_like(out)
        state[1:] = out[:-1] * 2
        return ops.sum(ops.square(out) + state * out)

    x = Tensor(A, fj.float32)
    value, gradients = fj.value_and_grad(loss, None, weights)(x)

    def written_out(x):
        out = net(x)
        return ops.sum(ops.square(out)) + ops.sum(out[:-1] * 2 * out[1:])

    expected = fj.value_and_grad(written_out, None, weights)(x)
    np.testing.assert_allclose(value.asnumpy(), expected[0].asnumpy(), rtol=1e-5)
    for a, b in zip(gradients, expected[1]):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-4, atol=1e-6)


def test_training_through_a_break():
    fj.set_seed(4)

    class Broken(nn.Cell):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(4, 1)

        def construct(self, x, y):
            out = self.dense(x)
            fj.graph_break()
            return ops.mean(ops.square(out - y))

    net = Broken()
    step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.2))
    x, y = Tensor(A, fj.float32), Tensor(A[:, :1] * 2, fj.float32)
    losses = [step(x, y).item() for _ in range(30)]
    assert losses[-1] < 0.2 * losses[0]


def test_stop_gradient_and_products():
    def f(x):
        fj.graph_break()
        return x * ops.stop_gradient(x)

    np.testing.assert_array_equal(fj.grad(f)(X), X)
    np.testing.assert_array_equal(fj.grad(f)(Tensor(X)).asnumpy(), X)
    _, moved = fj.jvp(f, X, W)
    np.testing.assert_allclose(moved, X * W, rtol=1e-15)
    _, back = fj.vjp(f, X)
    np.testing.assert_allclose(back(W)[0], X * W, rtol=1e-15)


def test_arguments_of_calls():
    """Constants of all kinds in the calls on a tape."""

    def f(x):
        fj.graph_break()
        y = np.pad(x, 1, constant_values=-np.inf).max()
        z = x.astype(float).astype(np.dtype("float64")) + np.nan_to_num(x, nan=np.nan)
        return y * z[..., 1:].sum() + x[None, ::2].sum(axis=(0, 1)) + np.clip(x, None, np.inf).sum() + x[np.array([1, 1])].prod()

    assert_gradients(f, X, order=1)


def test_an_error_ends_the_tape():
    def f(x):
        fj.graph_break()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fj.grad(f)(X)
    with pytest.raises(KeyError, match="mine"):
        fj.grad(f)(Tensor(X))
    assert type(Tensor([1.0]) + 1) is Tensor
    assert fj.jit(lambda x: x * 2)(Tensor([1.0])).tolist() == [2.0]
    from framejit import _core

    assert _core.set_tape_hook(None) is None


def test_under_a_debugger():
    expected = fj.grad(lambda x: np.sum(np.sin(x) * x))(X)
    lines = []

    def tracer(frame, event, arg):
        if event == "line" and frame.f_code.co_filename == __file__:
            lines.append(frame.f_lineno)
        return tracer

    def f(x):
        y = np.sin(x)
        return np.sum(y * x)

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        found = fj.grad(f)(X)
    finally:
        sys.settrace(before)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert len(set(lines)) >= 2


def test_a_selection_of_nothing():
    def f(x):
        fj.graph_break()
        return x[x > 0].sum() + (x * x).sum()

    for x in (np.array([1.0, -2.0]), np.array([-1.0, -2.0])):
        np.testing.assert_array_equal(fj.grad(f)(x), 2 * x + (x > 0))
        np.testing.assert_array_equal(fj.grad(f)(fj.Tensor(x)).asnumpy(), 2 * x + (x > 0))
        chosen = fj.grad(lambda x: x[x > 0], sens_param=True)
        np.testing.assert_array_equal(chosen(x, np.full((x > 0).sum(), 3.0)), 3.0 * (x > 0))


def test_what_cannot_be_followed_is_an_error():
    def asked_for_memory(x):
        fj.graph_break()
        out = np.zeros(3)
        out[:] = x[:3] * 2
        return out.sum()

    def written_to_others(x):
        fj.graph_break()
        out = np.zeros(3)
        out[0] = x[0]  # NumPy says "setting an array element with a sequence"
        return out.sum()

    def unknown(x):
        fj.graph_break()
        return np.nanmedian(x)

    def number(x):
        fj.graph_break()
        return float(x[0]) * x[1]

    def sorted_in_place(x):
        fj.graph_break()
        y = x * 2
        y.sort()
        return y[0]

    def put_there(x):
        fj.graph_break()
        y = np.zeros(6)
        np.put(y, [0, 0], x[0])
        return y.sum()

    def added_to_others(x):
        fj.graph_break()
        y = np.zeros(6)
        np.add.at(y, [0, 0], x[0])
        return y.sum()

    def summed_into(x):
        fj.graph_break()
        out = np.zeros(())
        np.sum(x, out=out)
        return out

    for f in (number, sorted_in_place, put_there, added_to_others, summed_into):
        with pytest.raises(fj.GraphBreakError, match="a gradient through"):
            fj.grad(f)(X)
    with pytest.raises(fj.GraphBreakError, match="memory of an array"):
        fj.grad(asked_for_memory)(X)
    with pytest.raises(fj.GraphBreakError, match=r"through float\(\)"):
        fj.grad(written_to_others)(X)
    for f in (written_to_others, put_there, added_to_others, asked_for_memory):
        with pytest.raises(fj.GraphBreakError, match="zeros_like of the argument"):
            fj.grad(f)(X)
    with pytest.raises(fj.GraphBreakError, match="nanmedian"):
        fj.grad(unknown)(X)
    with pytest.raises(fj.GraphBreakError, match="integers"):
        fj.grad(lambda x: x.sum())(np.arange(3))
    with pytest.raises(RuntimeError, match="Position index 5"):
        fj.grad(lambda x: x.sum(), 5)(X)


def test_what_writes_into_arrays():
    at = np.array([0, 2, 2, 5])

    def f(x):
        fj.graph_break("here")
        y = x * 1
        view = y[:4]
        assert np.add.at(y, at, x[:4] * 2) is None
        np.subtract.at(y, 1, y[2])
        np.copyto(view, view * x[2:])
        return (y * y).sum()

    assert_gradients(f, X)


WRITES = {
    "put": lambda y, x: np.put(y, [0, 9, 0, -1], x[:3] * x[1]),
    "put clipped": lambda y, x: np.put(y, [1, 99], x[:5], mode="clip"),
    "put of a number": lambda y, x: np.put(y, [3, 7], 0.5),
    "put method": lambda y, x: y.put([2, 5], x[3:5] * 2),
    "put_along_axis": lambda y, x: np.put_along_axis(y, np.array([[1], [0], [5], [2]]), x[:4, None], 1),
    "put_along_axis of all": lambda y, x: np.put_along_axis(y, np.array([3, 4]), x[:2], None),
    "place": lambda y, x: np.place(y, np.arange(24).reshape(4, 6) % 5 == 0, x[:3]),
    "putmask": lambda y, x: np.putmask(y, np.arange(24).reshape(4, 6) % 3 == 0, x[:5]),
    "fill_diagonal": lambda y, x: np.fill_diagonal(y, x[:4] * 3),
    "fill": lambda y, x: y[1].fill(x[2] * x[3]),
    "multiply.at": lambda y, x: np.multiply.at(y, ([0, 0, 1, 0], [1, 1, 2, 1]), x[:4]),
    "multiply.at of a number": lambda y, x: np.multiply.at(y, 0, 0.3),
    "maximum.at": lambda y, x: np.maximum.at(y, ([2, 2, 3], [0, 0, 5]), x[:3] * 2),
    "power.at": lambda y, x: np.power.at(y, (slice(1, 3), 4), x[:2]),
    "negative.at": lambda y, x: np.negative.at(y, [1, 2, 1]),
    "subtract.at of a slice": lambda y, x: np.subtract.at(y, slice(1, 3), x),
    "add.at of a mask": lambda y, x: np.add.at(y, np.arange(24).reshape(4, 6) % 7 == 0, 1.5),
    "a view": lambda y, x: np.put(y[1:3, ::2], [0, 4], x[:2] * 2),
    "a view at": lambda y, x: np.multiply.at(y[1:3].T, 2, x[:2]),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_functions_that_write(write):
    def f(x):
        fj.graph_break("here")
        y = np.outer(x[:4], x) + 1.5
        assert write(y, x) is None
        return (y * y * np.arange(24.0).reshape(4, 6)).sum()

    x = np.array([0.3, 0.9, 0.6, 1.2, 0.45, 0.75])
    assert_gradients(f, x)
    assert fj.value_and_grad(f)(x)[0] == f(x)


def test_what_numpy_says_of_writes():
    def f(x):
        fj.graph_break("here")
        y = x * 2
        with pytest.raises(IndexError, match="out of bounds"):
            np.put(y, 99, x[0])
        with pytest.raises(ValueError, match="empty array"):
            np.place(y, x > 0, [])
        with pytest.raises(IndexError, match="out of bounds"):
            np.multiply.at(y, 99, x[0])
        return y.sum()

    np.testing.assert_array_equal(fj.grad(f)(np.ones(3)), [2.0, 2.0, 2.0])


@pytest.mark.parametrize("setting", ["MS_JIT=0", "FRAMEJIT_DISABLE=1", "FRAMEJIT_STRESS=break=3", "FRAMEJIT_STRESS=guards", "FRAMEJIT_STRESS=interp", "FRAMEJIT_STRESS=verify"])
def test_however_functions_run(setting):
    program = """
import framejit as fj, numpy as np
x = np.array([1.0, 2.0])
assert np.allclose(fj.grad(lambda x: (np.sin(x) * x).sum())(x), np.cos(x) * x + np.sin(x))
assert fj.grad(lambda x: (x * x).sum())(fj.Tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
with fj.disable():
    assert fj.grad(lambda x: (x * x).sum())(x).tolist() == [2.0, 4.0]
"""
    name, _, value = setting.partition("=")
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, name: value}, capture_output=True, text=True)
    assert done.returncode == 0 and "predicted" not in done.stderr, done.stderr


def test_plain_functions_have_gradients_of_all_calls():
    """These are graphs all the same, in which other functions stand for functions in C."""
    program = """
import framejit as fj, numpy as np
image = fj.Tensor(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))
assert fj.grad(lambda x: fj.nn.MaxPool2d(2, 2)(x).sum())(image).sum().item() == 4
labels = fj.Tensor(np.array([1, 0], np.int32))
assert fj.grad(lambda x: fj.ops.cross_entropy(x, labels))(fj.Tensor([[1.0, 1.0], [1.0, 1.0]])).tolist() == [[0.25, -0.25], [-0.25, 0.25]]
"""
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "FRAMEJIT_DISABLE": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_has_no_gradient_is_named():
    x = Tensor(np.ones(3, np.float32)).astype(fj.bfloat16)
    for f in (fj.grad(lambda x: x.sum()), fj.jit(lambda x: fj.grad(lambda x: x.sum())(x))):
        with pytest.raises(fj.GraphBreakError, match="BFloat16.*float32"):
            f(x)
    with pytest.raises(fj.GraphBreakError, match="integers .*int32"):
        fj.grad(lambda x: x.sum())(np.ones(3, np.int32))



REFERENCE = """
import sys
import numpy as np
import framejit as fj
from framejit import Tensor, ops
functions = {
    "complex": (lambda z: np.abs(np.square(z) * z).sum(), np.array([1.0 + 2.0j, 3.0])),
    "library": (lambda x: (np.linalg.inv(x) ** 2).sum(), np.array([[2.0, 1.0], [1.0, 3.0]])),
    "index_add": (lambda x: ops.index_add(x * 2, Tensor([0, 2], fj.int32), x[:2] * x[:2], 0).sum(), Tensor(np.arange(6, dtype=np.float32).reshape(3, 2))),
    "scatter": (lambda x: ops.tensor_scatter_add(x, Tensor([[0], [1]], fj.int32), x[:2] * x[:2]).sum(), Tensor([1.0, 2.0, 3.0])),
}
np.savez(sys.argv[1], **{name: np.asarray(fj.grad(f)(x)) for name, (f, x) in functions.items()})
"""


def test_what_the_reference_interpreter_cannot_run_has_the_same_gradients(tmp_path):
    found = []
    for stress in ("", "interp"):
        file = tmp_path / f"{stress}.npz"
        done = subprocess.run(
            [sys.executable, "-c", REFERENCE, str(file)], capture_output=True, text=True, env={**os.environ, "FRAMEJIT_STRESS": stress}
        )
        assert done.returncode == 0, done.stderr
        found.append(np.load(file))
    for name in found[0]:
        np.testing.assert_allclose(found[1][name], found[0][name], rtol=1e-6, err_msg=name)


_random = np.random.default_rng(5)
V, T = Tensor(_random.normal(size=4).astype(np.float32)), Tensor(_random.normal(size=(3, 4)).astype(np.float32))
ROWS = Tensor(np.array([[0, 1], [0, 1], [1, 2], [2, 1]]))
ONE_ROW, PLACES = Tensor(np.int32([1])), Tensor(np.array([[0, 1, 0, 2]]))
THAT_WRITE = {
    "bincount": lambda x: ops.bincount(Tensor([1, 3, 1, 0]), x),
    "broadcast_arrays": lambda x: fj.numpy.broadcast_arrays(x, T)[0],
    "append": lambda x: fj.numpy.append(x, T),
    "cov": lambda x: fj.numpy.cov(x * T),
    "average": lambda x: fj.numpy.average(x * x),
    "coalesce": lambda x: fj.COOTensor(ROWS, x, (3, 4)).coalesce().values,
    "to_dense": lambda x: fj.COOTensor(ROWS, x, (3, 4)).to_dense(),
    "diag_embed": lambda x: ops.diag_embed(x, 1),
    "fill_diagonal": lambda x: (x * T).fill_diagonal(2.0),
    "index_add": lambda x: ops.index_add(T, ONE_ROW, x[None], 0),
    "index_fill": lambda x: ops.index_fill(T, 0, ONE_ROW, x[0]),
    "inplace_add": lambda x: ops.inplace_add(T, x[None], (1,)),
    "inplace_update": lambda x: ops.inplace_update(T, x[None], (1,)),
    "masked_scatter": lambda x: T.masked_scatter(T > 0, ops.tile(x, (3,))),
    "masked_select": lambda x: ops.masked_select(x, T > 0),
    "scatter": lambda x: ops.scatter(T, 0, PLACES, x[None]),
    "scatter_nd": lambda x: ops.scatter_nd(ROWS, x, (3, 4)),
    "select_scatter": lambda x: ops.select_scatter(T, x, 0, 1),
    "slice_scatter": lambda x: ops.slice_scatter(T, x[None], 0, 1, 2),
    "tensor_scatter_add": lambda x: ops.tensor_scatter_add(T, ROWS, x),
    "tensor_scatter_elements": lambda x: ops.tensor_scatter_elements(T, PLACES, x[None], 0, "add"),
    "tensor_scatter_max": lambda x: ops.tensor_scatter_max(T - 9, ROWS, x),
    "tensor_scatter_update": lambda x: ops.tensor_scatter_update(T, ROWS, x),
    "unsorted_segment_sum": lambda x: ops.unsorted_segment_sum(x, Tensor([1, 0, 1, 3]), 4),
}


@pytest.mark.parametrize("name", THAT_WRITE)
def test_functions_that_write_into_arrays_of_their_own(name):
    f = lambda x: ops.square(THAT_WRITE[name](x)).sum()  # noqa: E731
    expected = fj.grad(f)(V)
    with fj.stance("force_eager"):
        found = fj.grad(f)(V)
    assert np.abs(expected.asnumpy()).max() > 0.01
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)


def test_steps_of_a_tape_do_not_ask_which_tensors_have_hooks():
    """A garbage collection may take such a Tensor at any time, and each new one would be another reason to compile again."""

    def f(x):
        fj.graph_break()
        return (x[:-1] * np.sin(x[1:])).sum()

    expected, held = fj.grad(f)(X), []
    for _ in range(40):
        held.append(Tensor([1.0]))
        held[-1].register_hook(lambda g: g)
        np.testing.assert_array_equal(fj.grad(f)(X), expected)
