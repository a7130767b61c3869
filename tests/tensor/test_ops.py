"""framejit.ops: each function against NumPy with the dtypes written out, and marked against eager."""

from __future__ import annotations

import importlib.util
import math

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, ops
from tensor.tensor_support import assert_array, assert_same, leaves, marked_as_eager

pytestmark = pytest.mark.capture

RNG = np.random.default_rng(7)
A = RNG.normal(size=(3, 4)).astype(np.float32)
B = (RNG.normal(size=(3, 4)) + 0.1).astype(np.float32)
P = (np.abs(A) + 0.5).astype(np.float32)
I = RNG.integers(-5, 6, (3, 4))
J = RNG.integers(1, 5, (3, 4))
U = np.tanh(A).astype(np.float32)
L = A > 0
M = RNG.normal(size=(4, 3)).astype(np.float32)
V = RNG.normal(size=4).astype(np.float32)
ARRAYS = {"a": A, "b": B, "p": P, "i": I, "j": J, "u": U, "l": L, "m": M, "v": V}
TENSORS = {name: Tensor(array) for name, array in ARRAYS.items()}

f4 = np.float32

# function call: what NumPy gives. The same to the bit: these are NumPy's operations on the promoted dtypes.
EXACT = {
    **{f"ops.{n}(a, b)": f"np.{m}(a, b)" for n, m in {
        "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "true_divide": "divide", "floor_divide": "floor_divide",
        "remainder": "remainder", "fmod": "fmod", "atan2": "arctan2", "hypot": "hypot", "minimum": "minimum", "maximum": "maximum",
        "fmin": "fmin", "fmax": "fmax", "copysign": "copysign", "equal": "equal", "ne": "not_equal", "less": "less", "le": "less_equal",
        "greater": "greater", "ge": "greater_equal", "logical_and": "logical_and", "logical_or": "logical_or",
        "logical_xor": "logical_xor"}.items()},
    **{f"ops.{n}({x})": f"np.{m}({x})" for n, m, x in [
        ("neg", "negative", "a"), ("abs", "abs", "a"), ("sign", "sign", "a"), ("square", "square", "a"), ("sqrt", "sqrt", "p"),
        ("exp", "exp", "a"), ("exp2", "exp2", "a"), ("expm1", "expm1", "a"), ("log", "log", "p"), ("log2", "log2", "p"),
        ("log10", "log10", "p"), ("log1p", "log1p", "p"), ("sin", "sin", "a"), ("cos", "cos", "a"), ("tan", "tan", "a"),
        ("asin", "arcsin", "u"), ("acos", "arccos", "u"), ("atan", "arctan", "a"), ("sinh", "sinh", "a"), ("cosh", "cosh", "a"),
        ("tanh", "tanh", "a"), ("reciprocal", "reciprocal", "p"), ("isnan", "isnan", "a"), ("isinf", "isinf", "a"),
        ("isfinite", "isfinite", "a"), ("signbit", "signbit", "a"), ("logical_not", "logical_not", "a"), ("floor", "floor", "a"),
        ("ceil", "ceil", "a"), ("trunc", "trunc", "a"), ("round", "rint", "a"), ("invert", "invert", "i")]},
    "ops.exp(i)": "np.exp(i.astype(f4))",
    "ops.div(i, j)": "i.astype(f4) / j.astype(f4)",
    "ops.div(i, j, rounding_mode='floor')": "i // j",
    "ops.xlogy(a, p)": "np.where(a == 0, f4(0), a * np.log(p))",
    "ops.div(i, j, rounding_mode='trunc')": "np.trunc(i / j).astype('i8')",
    "ops.div(a, 2, rounding_mode='trunc')": "np.trunc(a / f4(2))",
    "ops.pow(p, 2)": "np.power(p, f4(2))",
    "ops.floor(i)": "i",
    "ops.rsqrt(p)": "f4(1) / np.sqrt(p)",
    "ops.bitwise_and(i, j)": "i & j",
    "ops.bitwise_or(i, j)": "i | j",
    "ops.bitwise_xor(i, j)": "i ^ j",
    "ops.bitwise_left_shift(i, j)": "i << j",
    "ops.addn((a, b, p))": "a + b + p",
    "ops.addcmul(a, b, p, 2)": "a + b * p * f4(2)",
    "ops.lerp(a, b, 0.5)": "a + f4(0.5) * (b - a)",
    "ops.squared_difference(a, b)": "np.square(a - b)",
    "ops.clamp(a, -0.5, 0.5)": "np.minimum(np.maximum(a, f4(-0.5)), f4(0.5))",
    "ops.clamp(i, 0)": "np.maximum(i, 0)",
    "ops.clip_by_value(a, b, p)": "np.minimum(np.maximum(a, b), p)",
    "ops.where(l, a, 0)": "np.where(l, a, f4(0))",
    "ops.select(l, a, b)": "np.where(l, a, b)",
    "ops.masked_fill(a, l, 2.0)": "np.where(l, f4(2), a)",
    "ops.cast(a, fj.int32)": "a.astype('i4')",
    "ops.relu(a)": "np.maximum(a, f4(0))",
    "ops.relu6(a * 9)": "np.minimum(np.maximum(a * f4(9), f4(0)), f4(6))",
    "ops.leaky_relu(a, 0.1)": "np.where(a < 0, a * f4(0.1), a)",
    "ops.hardtanh(a)": "np.minimum(np.maximum(a, f4(-1)), f4(1))",
    "ops.sum(a)": "a.sum()",
    "ops.sum(i, 1)": "i.sum(1)",
    "ops.sum(a, (0, 1), True)": "a.sum((0, 1), keepdims=True)",
    "ops.mean(a, 0)": "a.mean(0)",
    "ops.prod(a, 1)": "a.prod(1)",
    "ops.amax(a, 0)": "a.max(0)",
    "ops.amin(i, -1, True)": "i.min(-1, keepdims=True)",
    "ops.all(l)": "l.all()",
    "ops.any(l, 0)": "l.any(0)",
    "ops.var(a, 0)": "a.var(0)",
    "ops.std(a, 1, 1)": "a.std(1, ddof=1)",
    "ops.reduce_sum(i, 0)": "i.sum(0)",
    "ops.reduce_mean(a, ())": "a.mean()",
    "ops.reduce_max(a, 1, True)": "a.max(1, keepdims=True)",
    "ops.reshape(a, (2, -1))": "a.reshape(2, -1)",
    "ops.transpose(a, (1, 0))": "a.T",
    "ops.permute(a[None], (2, 0, 1))": "a[None].transpose(2, 0, 1)",
    "ops.swapaxes(a, 0, 1)": "a.T",
    "ops.squeeze(a[None])": "a",
    "ops.expand_dims(a, 1)": "a[:, None]",
    "ops.unsqueeze(a, -1)": "a[..., None]",
    "ops.broadcast_to(v, (2, 3, -1))": "np.broadcast_to(v, (2, 3, 4))",
    "ops.flatten(a[None])": "a.reshape(1, -1)",
    "ops.ravel(a)": "a.ravel()",
    "ops.cat((a, b))": "np.concatenate((a, b))",
    "ops.cat((a, i), -1)": "np.concatenate((a, i.astype(f4)), -1)",
    "ops.stack((a, b), 1)": "np.stack((a, b), 1)",
    "ops.split(a, 2, 1)": "(a[:, :2], a[:, 2:])",
    "ops.split(a, (1, 2))": "(a[:1], a[1:])",
    "ops.chunk(a, 3)": "(a[:1], a[1:2], a[2:])",
    "ops.unbind(a)": "(a[0], a[1], a[2])",
    "ops.narrow(a, 1, 1, 2)": "a[:, 1:3]",
    "ops.slice(a, (1, 0), (2, 3))": "a[1:3, :3]",
    "ops.strided_slice(a, (0, 0), (3, 4), (2, 3))": "a[0:3:2, 0:4:3]",
    "ops.zeros((2, 3))": "np.zeros((2, 3), 'f4')",
    "ops.ones(3, fj.int64)": "np.ones(3, 'i8')",
    "ops.full((2,), 1.5)": "np.full(2, 1.5, 'f4')",
    "ops.fill(fj.int32, (2,), 7)": "np.full(2, 7, 'i4')",
    "ops.zeros_like(i)": "np.zeros_like(i)",
    "ops.ones_like(a)": "np.ones_like(a)",
    "ops.full_like(a, 3)": "np.full_like(a, 3)",
    "ops.arange(2, 9, 3)": "np.arange(2, 9, 3)",
    "ops.one_hot(j, 5)": "np.eye(5, dtype='i8')[j]",
    "ops.matmul(a, m)": "TENSORS['a'] @ TENSORS['m']",
    "ops.stop_gradient(a)": "a",
    "ops.bias_add(a, v)": "a + v",
    "ops.shape(a)": "(3, 4)",
    "ops.rank(a)": "2",
    "ops.size(a)": "12",
}

# The same, where graphs break.
BROKEN = {
    "ops.asinh(a)": "np.arcsinh(a)",
    "ops.acosh(p + 1)": "np.arccosh(p + f4(1))",
    "ops.atanh(u)": "np.arctanh(u)",
    "ops.arange(3.0)": "np.arange(3, dtype='f4')",
    "ops.logaddexp(a, b)": "np.logaddexp(a, b)",
    "ops.nan_to_num(a)": "a",
    "ops.isclose(a, a)": "np.ones_like(l)",
    "ops.heaviside(a, b)": "np.heaviside(a, b)",
    "ops.mean(i)": "np.trunc(i.mean()).astype('i8')",
    "ops.argmax(a)": "a.argmax()",
    "ops.argmin(a, 1)": "a.argmin(1).astype('i4')",
    "ops.max(a, 1)": "(a.max(1), a.argmax(1))",
    "ops.min(a)": "(a.min(), np.int64(0))",
    "ops.cumsum(a, 1)": "a.cumsum(1)",
    "ops.cumprod(a, 0)": "a.cumprod(0)",
    "ops.cummax(a, 1)[0]": "np.maximum.accumulate(a, 1)",
    "ops.count_nonzero(i)": "np.int32(np.count_nonzero(i))",
    "ops.median(v)[0]": "np.sort(v)[1]",
    "ops.norm(a)": "np.linalg.norm(a)",
    "ops.outer(v, v)": "np.outer(v, v)",
    "ops.tile(a, (2, 1))": "np.tile(a, (2, 1))",
    "ops.repeat_interleave(a, 2, 1)": "a.repeat(2, 1)",
    "ops.flip(a, (0,))": "a[::-1]",
    "ops.roll(a, 1, 1)": "np.roll(a, 1, 1)",
    "ops.tril(a)": "np.tril(a)",
    "ops.triu(a, 1)": "np.triu(a, 1)",
    "ops.diag(v)": "np.diag(v)",
    "ops.meshgrid(v, v)": "tuple(np.meshgrid(v, v))",
    "ops.pad(a, (1, 2))": "np.pad(a, ((0, 0), (1, 2)))",
    "ops.gather(a, j - 1, 1)": "a.take(j - 1, 1)",
    "ops.gather_elements(a, 1, j - 1)": "np.take_along_axis(a, j - 1, 1)",
    "ops.gather_nd(a, Tensor([[0, 1], [2, 3]]))": "a[[0, 2], [1, 3]]",
    "ops.index_select(a, 0, Tensor([2, 0]))": "a[[2, 0]]",
    "ops.masked_select(a, l)": "a[l]",
    "ops.nonzero(l)": "np.argwhere(l)",
    "ops.tensor_scatter_update(v, Tensor([[1]]), Tensor([9.0]))": "np.where(np.arange(4) == 1, f4(9), v)",
    "ops.scatter_nd(Tensor([[0], [0]]), Tensor([1.0, 2.0]), (3,))": "np.array([3, 0, 0], 'f4')",
    "ops.sort(a)": "(np.sort(a), np.argsort(a).astype('i4'))",
    "ops.sort(a, 0, True)[0]": "-np.sort(-a, 0)",
    "ops.argsort(v, -1, True)": "np.argsort(-v).astype('i4')",
    "ops.topk(v, 2)[0]": "-np.sort(-v)[:2]",
    "ops.unique(j)[0]": "np.array(list(dict.fromkeys(j.ravel())))",
    "ops.unique(j)[1]": "np.array([list(dict.fromkeys(j.ravel())).index(x) for x in j.ravel()], 'i4').reshape(j.shape)",
    "ops.cummin(a, 1)[0]": "np.minimum.accumulate(a, 1)",
    "ops.bincount(j.ravel())": "np.bincount(j.ravel()).astype('f4')",
    "ops.bincount(j[0, :2], [0.5, 2.0])": "np.bincount(j[0, :2], [0.5, 2.0]).astype('f4')",
    "ops.Argmax(1, fj.int32)(a)": "a.argmax(1).astype('i4')",
    "a.diff(1, 0)": "np.diff(a, 1, 0)",
    "a.max(0)": "(a.max(0), a.argmax(0))",
    "a.min(1, True)": "(a.min(1, keepdims=True), a.argmin(1)[:, None])",
    "a.max(axis=0)": "a.max(0)",
    "ops.searchsorted(Tensor([1.0, 2.0]), Tensor([1.5]))": "np.array([1])",
    "ops.linspace(0, 1, 5)": "np.linspace(0, 1, 5, dtype='f4')",
    "ops.eye(3)": "np.eye(3, dtype='f4')",
    "ops.einsum('ij,jk->ik', a, m)": "np.einsum('ij,jk->ik', a, m)",
}

# mindspore.numpy, where it is not NumPy over the promoted dtypes.
BROKEN |= {
    f"fj.numpy.{text}": wanted
    for text, wanted in {
        "array([1, 2])": "np.array([1, 2], 'i4')",
        "array([1, 2.5])": "np.array([1, 2.5], 'f4')",
        "array(i)": "i",
        "array([1, 2], fj.int64)": "np.array([1, 2])",
        "arange(5)": "np.arange(5, dtype='i4')",
        "arange(0.0, 1.0, 0.25)": "np.arange(0, 1, 0.25, 'f4')",
        "full((2,), 3)": "np.full(2, 3, 'i4')",
        "flip(a)": "a[::-1, ::-1]",
        "flip(a, 1)": "a[:, ::-1]",
        "tri(3, 4, 1)": "np.tri(3, 4, 1, 'f4')",
        "count_nonzero(i)": "np.int32(np.count_nonzero(i))",
        "diff(v, 2)": "np.diff(v, 2)",
        "diff(v, prepend=v[:1])": "np.diff(v, prepend=v[:1])",
        "nanmax(a, 1)": "a.max(1)",
        "nansum(a)": "np.nansum(a)",
        "norm(a, axis=1)": "np.linalg.norm(a, axis=1)",
        "cross(m, m[::-1])": "np.cross(m, m[::-1])",
        "histogram(v, 3)": "tuple(x.astype('f4') for x in np.histogram(v, 3))",
        "logspace(0, 2, 3)": "np.logspace(0, 2, 3, dtype='f4')",
    }.items()
}

# Close to NumPy's formula in float64.
CLOSE = {
    "ops.sigmoid(a)": "1 / (1 + np.exp(-a))",
    "ops.softmax(a)": "np.exp(a) / np.exp(a).sum(-1, keepdims=True)",
    "ops.softmax(i, 0, dtype=fj.float32)": "np.exp(i) / np.exp(i * 1.0).sum(0)",
    "ops.log_softmax(a, 0)": "a - np.log(np.exp(a).sum(0))",
    "ops.logsumexp(a, 1)": "np.log(np.exp(a).sum(1))",
    "ops.gelu(a, 'tanh')": "0.5 * a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))",
    "ops.silu(a)": "a / (1 + np.exp(-a))",
    "ops.elu(a)": "np.where(a > 0, a, np.expm1(a))",
    "ops.selu(a)": "1.0507009873554805 * np.where(a > 0, a, 1.6732632423543772 * np.expm1(a))",
    "ops.softplus(a)": "np.log1p(np.exp(a))",
    "ops.mish(a)": "a * np.tanh(np.log1p(np.exp(a)))",
    "ops.hardswish(a)": "a * np.clip(a + 3, 0, 6) / 6",
    "ops.logsigmoid(a)": "-np.log1p(np.exp(-a))",
    "ops.dense(a, b, Tensor(np.ones(3, np.float32)))": "a @ b.T + 1",
    "ops.addmm(Tensor(1.0), a, m)": "1 + a @ m",
    "ops.layer_norm(a, (4,))": "(a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)",
    "ops.mse_loss(a, b)": "((a - b) ** 2).mean()",
    "ops.l1_loss(a, b, 'sum')": "np.abs(a - b).sum()",
    "ops.smooth_l1_loss(a, b)": "np.where(np.abs(a - b) < 1, 0.5 * (a - b) ** 2, np.abs(a - b) - 0.5)",
    "ops.binary_cross_entropy(ops.sigmoid(a), ops.cast(l, fj.float32))": "np.log1p(np.exp(np.where(l, -a, a))).mean()",
    "ops.binary_cross_entropy_with_logits(a, ops.cast(l, fj.float32))": "np.log1p(np.exp(np.where(l, -a, a))).mean()",
    "ops.cosine_similarity(a, b)": "(a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))",
}
CLOSE_BROKEN = {
    "ops.asinh(a)": "np.arcsinh(a)",
    "ops.acosh(p + 1)": "np.arccosh(p + f4(1))",
    "ops.atanh(u)": "np.arctanh(u)",
    "ops.arange(3.0)": "np.arange(3, dtype='f4')",
    "ops.cross_entropy(a, j[:, 0] - 1)": "-(a - np.log(np.exp(a).sum(1, keepdims=True)))[np.arange(3), j[:, 0] - 1].mean()",
    "ops.nll_loss(a, j[:, 0] - 1, reduction='sum')": "-a[np.arange(3), j[:, 0] - 1].sum()",
    "ops.cdist(a, b)": "np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))",
}
if importlib.util.find_spec("scipy"):
    CLOSE["ops.gelu(a)"] = "a * scipy.special.ndtr(a)"
    CLOSE["ops.erf(a)"] = "scipy.special.erf(a)"


def evaluate(text):
    names = {"ops": ops, "Tensor": Tensor, "fj": fj, "np": np}
    function = eval(f"lambda {', '.join(TENSORS)}: {text}", names)
    function.__qualname__ = text
    return function


def reference(text, **kinds):
    import scipy.special

    arrays = {name: kinds.get(array.dtype.kind, lambda x: x)(array) for name, array in ARRAYS.items()}
    return eval(text, {**arrays, "np": np, "f4": f4, "math": math, "scipy": scipy, "TENSORS": TENSORS})


@pytest.mark.parametrize("text", [*EXACT, *BROKEN])
def test_exact(text):
    wanted = leaves(reference({**EXACT, **BROKEN}[text]))
    found = leaves(evaluate(text)(**TENSORS))
    assert len(found) == len(wanted)
    for tensor, array in zip(found, wanted):
        if isinstance(tensor, Tensor):
            assert_array(tensor, array.asnumpy() if isinstance(array, Tensor) else array, text)
        else:
            assert tensor == array


@pytest.mark.parametrize("text", [*CLOSE, *CLOSE_BROKEN])
def test_close(text):
    wanted = reference({**CLOSE, **CLOSE_BROKEN}[text], f=lambda x: x.astype(np.float64))
    tensor = evaluate(text)(**TENSORS)
    assert tensor.dtype is fj.float32
    np.testing.assert_allclose(tensor.asnumpy(), wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("text", [*EXACT, *CLOSE])
def test_captured(text):
    """One graph, the same bits."""
    function = evaluate(text)
    args = tuple(TENSORS.values())
    expected = function(*args)
    marked = fj.jit(function)
    for _ in range(2):
        assert_same(marked(*args), expected, text)
    assert fj.explain(function)(*args).breaks == [], text


@pytest.mark.parametrize("text", [*BROKEN, *CLOSE_BROKEN])
def test_broken(text):
    """Breaks, the same bits."""
    marked_as_eager(evaluate(f"({text}, a + 1)"), *TENSORS.values(), breaks=None)


def test_methods_are_the_functions():
    calls = {
        "x.softmax(-1)": "ops.softmax(x, -1)", "x.sum(axis=0, keepdims=True)": "ops.sum(x, 0, True)", "x.exp().log()": "ops.log(ops.exp(x))",
        "x.mean(1)": "ops.mean(x, 1)", "x.clamp(-1, 1)": "ops.clamp(x, -1, 1)", "x.max(0)": "ops.max(x, 0)", "x.T": "ops.transpose(x, (1, 0))",
        "x.view(4, 3)": "ops.reshape(x, (4, 3))", "x.reshape((6, 2))": "ops.reshape(x, (6, 2))", "x.permute(1, 0)": "ops.transpose(x, (1, 0))",
        "x.transpose()": "ops.transpose(x, (1, 0))", "x.expand_dims(0)": "ops.expand_dims(x, 0)", "x.flatten()": "ops.ravel(x)",
        "x.abs().sqrt()": "ops.sqrt(ops.abs(x))", "x.var(0)": "ops.var(x, 0)", "x.add(x)": "ops.add(x, x)", "x.unsqueeze(1)": "x[:, None]",
        "x.broadcast_to((2, 3, 4))": "ops.broadcast_to(x, (2, 3, 4))", "x.swapaxes(0, 1)": "x.T", "x.astype(fj.int32)": "ops.cast(x, fj.int32)",
        "x.split(1)": "ops.split(x, 1)", "x.minimum(x * 2)": "ops.minimum(x, x * 2)", "x.relu()": "ops.relu(x)", "x.numel()": "12",
    }
    for method, function in calls.items():
        names = {"ops": ops, "fj": fj}
        assert_same(eval("lambda x: " + method, names)(TENSORS["a"]), eval("lambda x: " + function, names)(TENSORS["a"]), method)
        marked_as_eager(eval("lambda x: " + method, names), TENSORS["a"], breaks=None)
        assert fj.explain(eval("lambda x: " + method, names))(TENSORS["a"]).breaks == [], method


def test_primitives():
    x = TENSORS["a"]
    pairs = [
        (ops.Add()(x, 1), x + 1), (ops.TensorAdd()(x, x), x + x), (ops.ReduceSum(keep_dims=True)(x, 0), ops.sum(x, 0, True)),
        (ops.MatMul(transpose_b=True)(x, x), x @ x.T), (ops.Concat(1)((x, x)), ops.cat((x, x), 1)), (ops.Softmax(0)(x), ops.softmax(x, 0)),
        (ops.Cast()(x, fj.int32), x.astype(fj.int32)), (ops.ExpandDims()(x, 0), x[None]), (ops.Split(1, 2)(x), ops.split(x, 2, 1)),
        (ops.Reshape()(x, (4, 3)), x.reshape(4, 3)), (ops.AddN()([x, x]), x + x), (ops.Shape()(x), x.shape), (ops.Identity()(x), x),
        (ops.OneHot()(TENSORS["j"], 5, Tensor(1.0), Tensor(0.0)), ops.one_hot(TENSORS["j"], 5, 1.0, 0.0)), (ops.Zeros()((2,), fj.int32), ops.zeros(2, fj.int32)),
        (ops.ReduceMax()(x), x.max()), (ops.Gather()(x, Tensor([0]), 0), x[:1]), (ops.Squeeze(0)(x[None]), x), (ops.Neg()(x), -x),
    ]
    for found, wanted in pairs:
        assert_same(found, wanted)
    with pytest.raises(TypeError):
        ops.ReduceSum(nothing=1)
    add, mul = ops.Add(), ops.Mul()
    marked_as_eager(lambda x: mul(add(x, 1), x), x)


def test_loops_and_maps():
    x = TENSORS["v"]
    loop = ops.ForiLoop()
    marked_as_eager(lambda x: loop(0, 3, lambda i, v: v * 2 + i, x), x)
    scan = ops.Scan()
    marked_as_eager(lambda x: scan(lambda c, y: (c + y, c * y), x, [x, x * 2]), x)
    assert ops.WhileLoop()(lambda v: v.sum() < 100, lambda v: v * 2 + 1, ops.ones(3)).tolist() == [63.0] * 3
    assert ops.HyperMap(ops.add)([Tensor(1), (Tensor(2), Tensor(3))], [Tensor(1), (Tensor(1), Tensor(1))])[1][1] == 4
    for given, message in (
        (((1,), (1, 2)), "The tuples in HyperMap should have the same length."),
        (([1], [1, 2]), "The lists in HyperMap should have the same length."),
        (([1], (1, 2)), "the types of arguments in HyperMap must be consistent"),
        (([1], 2), "the types of arguments in HyperMap must be consistent"),
    ):
        for hyper_map in (ops.HyperMap(), fj.jit(ops.HyperMap())):
            with pytest.raises(RuntimeError, match=message):
                hyper_map(ops.add, *given)
    # Map takes the items as they are, HyperMap what is in them too.
    pairs = ((1, 2), [3])
    assert ops.Map(lambda a, b: (a, b))(pairs, pairs) == (((1, 2), (1, 2)), ([3], [3])) == ops.Map()(lambda a, b: (a, b), pairs, pairs)
    assert ops.HyperMap(lambda a, b: a + b)(pairs, pairs) == ((2, 4), [6])
    marked_as_eager(lambda x: ops.Map(lambda pair: pair[0] + pair[1])([(x, x), (x, x * 2)]), x)
    seen = []
    assert ops.Map(lambda a: seen.append(a) or a, reverse=True)([1, 2, 3]) == [1, 2, 3] and seen == [3, 2, 1]
    with pytest.raises(RuntimeError, match="For 'Map', the length of tuples must be the same"):
        ops.Map()(ops.add, (1,), (1, 2))
    with pytest.raises(RuntimeError, match="Map can only be applied to list, tuple"):
        ops.Map()(ops.add, 1, 2)
    chosen = ops.MultitypeFuncGraph("chosen")
    chosen.register("Tensor", "Number")(lambda x, n: x * n)
    chosen.register("Tensor", "Tensor")(lambda x, y: x + y)
    assert chosen(Tensor(3), 2) == 6 and chosen(Tensor(3), Tensor(4)) == 7
    for kind in (ValueError, TypeError):  # MindSpore's eager mode, and its graph mode
        with pytest.raises(kind, match="cannot find fn match given args.*'chosen' has functions for .*and got .str, int"):
            chosen("a", 1)
    assert ops.partial(ops.add, Tensor(1))(Tensor(2)) == 3 == ops.Partial()(ops.add, Tensor(1))(Tensor(2))
    assert_array(ops.InplaceSub(indices=(0, 2))(TENSORS["m"], Tensor(np.ones((2, 3), np.float32))), M - np.float32([[1], [0], [1], [0]]))
    assert_array(ops.InplaceAdd(indices=1)(x, Tensor(1.0)), V + np.float32([0, 1, 0, 0]))


def test_errors_of_primitives_about_the_number_of_their_inputs():
    one = Tensor([1.0])
    for primitive, given, message in (
        (ops.Abs(), (one, one), r"For Operator\[Abs\], the number of inputs should be less than or equal to 1, but got 2"),
        (ops.Concat(), (one, one, one), r"For Operator\[Concat\], the number of inputs should be less than or equal to 1, but got 3"),
        (ops.Gather(), (one, one, 0, 1), r"For Operator\[Gather\], the number of inputs should be less than or equal to 3, but got 4"),
        (ops.Mod(), (5,), "For 'S_Prim_Mod', the size of input should be 2, but got 1"),
        (ops.ReLU(), (), "For 'S_Prim_ReLU', the size of input should be 1, but got 0"),
    ):
        for call in (primitive, fj.jit(lambda *args: primitive(*args)), fj.jit(lambda *args: primitive(*args), fullgraph=True)):
            with pytest.raises(TypeError, match=message):
                call(*given)


def test_errors_of_functions_on_tuples_and_types():
    for call, kind, message in (
        (lambda: ops.tuple_div((8, 14, 20), (2, 2)), RuntimeError, "The size of inputs of 'tuple_div' operator must be the same"),
        (lambda: ops.tuple_div((8, 14), (2, 2.0)), RuntimeError, "should be an int64 number, but got a float 2.0"),
        (lambda: ops.tuple_div((8, 14), (2, 0)), RuntimeError, "The divisor value should not be 0!"),
        (lambda: ops.tuple_div((8, 14), (2, 3)), RuntimeError, "they are not divisible now, the dividend is 14, the divisor is 3"),
        (lambda: ops.tuple_div((8, 14), 3), TypeError, r"For 'tuple_div', input\[1\] should be Tuple, but got int"),
        (lambda: ops.typeof(1, 2), RuntimeError, "must requires 1 argument, but the size of arguments is 2"),
    ):
        for run in (call, fj.jit(call)):
            with pytest.raises(kind, match=message):
                run()
    assert ops.tuple_div((8, 14), (2, 7)) == (4, 2)


def test_assignments():
    variable = fj.Parameter(Tensor([1.0, 2.0]))
    assert ops.assign_add(variable, Tensor([1.0, 1.0])) is variable and variable.tolist() == [2.0, 3.0]
    assert ops.assign_sub(variable, 1).tolist() == [1.0, 2.0] and ops.Assign()(variable, Tensor([5.0, 6.0])).tolist() == [5.0, 6.0]


def test_random():
    fj.set_seed(3)
    first = [ops.randn(2, 3), ops.rand(2), ops.randint(0, 5, (4,)), ops.normal((2,), 0.0, 1.0), ops.dropout(ops.ones((100,)), 0.5)]
    fj.set_seed(3)
    second = [ops.randn(2, 3), ops.rand(2), ops.randint(0, 5, (4,)), ops.normal((2,), 0.0, 1.0), ops.dropout(ops.ones((100,)), 0.5)]
    assert_same(first, second)
    assert first[0].dtype is fj.float32 and first[2].dtype is fj.int64 and 20 < (first[4] == 0).sum() < 80
    marked = fj.jit(lambda x: ops.dropout(x, 0.5) + ops.randn(100))
    fj.set_seed(1)
    a = marked(ops.ones((100,)))
    fj.set_seed(1)
    assert_same(a, ops.dropout(ops.ones((100,)), 0.5) + ops.randn(100))
    with pytest.raises(ValueError):
        fj.set_seed(-1)


def test_unknown_names():
    for module, name, near in ((ops, "sofmax", "softmax"), (fj.nn, "Densee", "Dense"), (fj.numpy, "averag", "average"), (fj, "Tensr", "Tensor")):
        with pytest.raises(AttributeError, match=near):
            getattr(module, name)


def test_numpy_and_mint_are_thin():
    mnp, mint, x = fj.numpy, fj.mint, TENSORS["a"]
    assert_array(mnp.average(mnp.array([[1.0, 2.0], [3.0, 4.0]])), np.float32(2.5))
    assert_array(mnp.average(x, 0, weights=[1.0, 2.0, 3.0]), np.average(A, 0, np.float32([1, 2, 3])).astype(np.float32))
    assert_array(mnp.ones((2, 3)), np.ones((2, 3), "f4"))
    assert_array(mnp.arange(3), np.arange(3, dtype="i4"))
    assert_array(mnp.isclose(x, x), np.ones((3, 4), bool))
    assert_array(mnp.concatenate((x, x), 1), np.concatenate((A, A), 1))
    assert_array(mnp.linspace(0, 1, 3), np.linspace(0, 1, 3, dtype="f4"))
    assert mnp.randn(2, 3).shape == (2, 3) and mnp.rand(2).shape == (2,) and mnp.randint(5, shape=(3,)).dtype is fj.int32
    assert_array(mint.clamp(x, -1, 1), np.clip(A, f4(-1), f4(1)))
    assert_array(mint.add(x, x, alpha=2), A + A * f4(2))
    assert_array(mint.max(x, 0)[1], A.argmax(0))
    assert_array(mint.transpose(x, 0, 1), A.T)
    assert_same(mint.nn.functional.dropout(x, 0.3, False), x)
    assert_same(mint.softmax(x, -1), ops.softmax(x))


HALF_BY_SCIPY = {
    "erf": ops.erf, "erfc": ops.erfc, "gelu": lambda x: ops.gelu(x, "none"), "xlogy": lambda x: ops.xlogy(x, x), "xlogy of a number": lambda x: ops.xlogy(2.0, x),
    "logit": lambda x: ops.logit(x), "lgamma": ops.lgamma, "sigmoid": ops.sigmoid,
}  # fmt: skip


@pytest.mark.parametrize("name", HALF_BY_SCIPY)
def test_functions_of_scipy_keep_half_precision(name):
    """They are computed in float32, eagerly and compiled, and rounded."""
    f, x = HALF_BY_SCIPY[name], np.linspace(0.05, 0.95, 40).astype(np.float16)
    wide = f(Tensor(x.astype(np.float32))).asnumpy()
    for function in (f, fj.jit(f, fullgraph=True)):
        out = function(Tensor(x))
        assert out.dtype == fj.float16
        np.testing.assert_allclose(out.asnumpy(), wide, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", [fj.float16, fj.float32])
@pytest.mark.parametrize("number", [1e-5, 1e-9, 1e-45, 1e10, 1e39, 70000, -1e300])
def test_numbers_that_the_dtype_has_not(dtype, number):
    """Too large ones are infinite, too small ones subnormal or 0, as eagerly; there is one graph."""
    x = Tensor(np.ones(3), dtype)
    for f in (lambda x: x + number, lambda x: x * number, lambda x: number - x, lambda x: ops.maximum(x, number)):
        marked_as_eager(f, x)


def test_dtypes_of_running_sums_and_products():
    """Products of integers are in int64, sums by the method in int32 where they are small: as in MindSpore."""
    wide = {"bool": "Int64", "int8": "Int64", "uint8": "Int64", "int32": "Int64", "float16": "Float16"}
    sums = {"bool": "Int32", "int8": "Int32", "uint8": "Int32", "int32": "Int32", "float16": "Float16"}
    of_numpy = {"bool": "Int32", "int8": "Int32", "uint8": "UInt32", "int32": "Int32", "float16": "Float16"}
    for dtype in wide:
        x = Tensor(np.array([1, 2, 1]).astype(dtype))
        many = x.asnumpy().astype(np.int64)
        for function, dtypes, wanted in (
            (lambda x: ops.cumprod(x, 0), wide, many.cumprod()),
            (lambda x: x.cumprod(0), wide, many.cumprod()),
            (lambda x: x.cumsum(0), sums, many.cumsum()),
            (lambda x: fj.numpy.cumsum(x), sums, many.cumsum()),
            (lambda x: fj.numpy.cumprod(x), of_numpy, many.cumprod()),
        ):
            for run in (function, fj.jit(function)):
                out = run(x)
                assert str(out.dtype) == dtypes[dtype] and out.asnumpy().tolist() == wanted.tolist()
        if dtype != "bool":
            assert ops.CumProd()(x, 0).dtype == x.dtype
