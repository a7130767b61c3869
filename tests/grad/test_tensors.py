"""Gradients of functions of Tensors, of Cells with parameters, and of the whole of framejit.ops."""

from __future__ import annotations

import math

import framejit as fj
import numpy as np
import pytest
from framejit import Parameter, ParameterTuple, Tensor, nn, ops
from grad.grad_support import differences

pytestmark = pytest.mark.capture
rng = np.random.default_rng(3)


def of_arrays(f):
    """The function over Tensors as one over float64 arrays."""
    return lambda *arrays: f(*[Tensor(np.asarray(a)) for a in arrays]).asnumpy()


def assert_tensor_gradients(f, *arrays, tolerance=3e-6):
    positions = tuple(range(len(arrays)))
    found = fj.grad(f, positions)(*[Tensor(a) for a in arrays])
    found = found if len(arrays) > 1 else (found,)
    for at in positions:
        wanted = differences(of_arrays(f), arrays, at)
        assert isinstance(found[at], Tensor) and found[at].shape == wanted.shape
        scale = max(1.0, np.abs(wanted).max(initial=0))
        np.testing.assert_allclose(found[at].asnumpy(), wanted, atol=tolerance * scale, rtol=tolerance, err_msg=f"argument {at}")


A = rng.uniform(0.3, 1.4, (3, 4))
B = rng.uniform(0.3, 1.4, (4, 2))
SQUARE = rng.uniform(-1, 1, (2, 3, 6, 5))
KERNEL = rng.uniform(-1, 1, (4, 3, 3, 2))

AT = Tensor([0, 2, 2])
PLACES = Tensor([[0, 1], [0, 1]])
FIRST = Tensor([0, 0])
OF_ONE = {
    "relu": ops.relu, "relu6": lambda x: ops.relu6(x * 9), "sigmoid": ops.sigmoid, "gelu": lambda x: ops.gelu(x, "tanh"), "silu": ops.silu, "mish": ops.mish,
    "elu": lambda x: ops.elu(x - 1), "selu": lambda x: ops.selu(x - 1), "softplus": ops.softplus, "softsign": ops.softsign,
    "hardsigmoid": ops.hardsigmoid, "hardswish": ops.hardswish, "leaky_relu": lambda x: ops.leaky_relu(x - 1), "tanh": ops.tanh,
    "softmax": lambda x: ops.softmax(x, -1) * x, "log_softmax": lambda x: ops.log_softmax(x, 0) * x, "logsumexp": lambda x: ops.logsumexp(x, 1),
    "sum": lambda x: ops.sum(x, 1) ** 2, "mean": lambda x: ops.mean(x, 0) ** 2, "prod": lambda x: ops.prod(x, 1), "amax": lambda x: ops.amax(x, 1),
    "amin": lambda x: ops.amin(x, 0), "var": lambda x: ops.var(x, 0), "std": lambda x: ops.std(x, 1), "norm": lambda x: ops.norm(x),
    "reshape": lambda x: ops.reshape(x, (2, 6)) ** 2, "transpose": lambda x: ops.transpose(x, (1, 0)) ** 2, "cat": lambda x: ops.cat((x, x * 2), 1) ** 2,
    "stack": lambda x: ops.stack((x, x * x), 1), "split": lambda x: ops.split(x, 2, 1)[1] ** 2, "broadcast_to": lambda x: ops.broadcast_to(x, (2, 3, 4)) ** 2,
    "gather": lambda x: ops.gather(x, AT, 1) ** 2, "index": lambda x: x[1:, ::2] * x[0, 1], "expand_dims": lambda x: ops.expand_dims(x, 0) ** 2,
    "tile": lambda x: ops.tile(x, (2, 1)) ** 2, "flip": lambda x: ops.flip(x, (0,)) * x, "roll": lambda x: ops.roll(x, 1, 0) * x, "tril": lambda x: ops.tril(x) ** 2,
    "where": lambda x: ops.where(x > 0.8, x * x, -x), "clamp": lambda x: ops.clamp(x, 0.5, 1.0) ** 2, "cumsum": lambda x: ops.cumsum(x, 1) ** 2,
    "rsqrt": ops.rsqrt, "pow": lambda x: ops.pow(x, 2.5), "erf": ops.erf, "square": ops.square, "norm_l": lambda x: ops.layer_norm(x, (4,)),
    "gather_elements": lambda x: ops.gather_elements(x, 1, Tensor([[0, 0], [1, 2], [3, 3]])) ** 2, "reverse_sequence": lambda x: ops.reverse_sequence(x, AT, 1) * x,
    "chunk": lambda x: ops.chunk(x, 2, 1)[0] ** 2, "narrow": lambda x: ops.narrow(x, 1, 1, 2) ** 3, "squeeze": lambda x: ops.squeeze(ops.expand_dims(x, 0)) ** 2,
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ONE)
@pytest.mark.parametrize("breaks", [False, True], ids=["graph", "tape"])
def test_half_precision(name, breaks):
    """As the gradient of float32, rounded; through mean and variance too, which NumPy computes."""

    def f(x):
        if breaks:
            fj.graph_break()
        return OF_ONE[name](x)

    half = A.astype(np.float16)
    expected = fj.grad(OF_ONE[name])(Tensor(half.astype(np.float32))).asnumpy()
    found = fj.grad(f)(Tensor(half))
    assert found.dtype == fj.float16
    scale = max(0.5, np.abs(expected).max())
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=2e-2, atol=2e-2 * scale)


# Written where they lie: in compiled functions only.
WRITTEN = {
    "tensor_scatter_add": lambda x: ops.tensor_scatter_add(x, PLACES, x[0, :2] * 2) ** 2, "tensor_scatter_sub": lambda x: ops.tensor_scatter_sub(x, PLACES, x[1, :2]) ** 2,
    "scatter_nd": lambda x: ops.scatter_nd(PLACES, x[0, :2], (3, 4)) ** 2, "index_add": lambda x: ops.index_add(x, FIRST, x[:2] * 3, 0) ** 2,
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_functions_that_write(name):
    assert_tensor_gradients(WRITTEN[name], A)


@pytest.mark.parametrize("name", OF_ONE)
def test_functions(name):
    assert_tensor_gradients(OF_ONE[name], A)


def test_products():
    assert_tensor_gradients(lambda a, b: ops.matmul(a, b) ** 2, A, B)
    assert_tensor_gradients(lambda a, b: a @ b @ ops.transpose(b, (1, 0)), A, B)
    assert_tensor_gradients(lambda a, w, b: ops.dense(a, w, b) ** 2, A, rng.normal(size=(5, 4)), rng.normal(size=5))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pad_mode": "same", "stride": 2},
        {"pad_mode": "pad", "padding": (1, 2, 0, 1), "dilation": (1, 2)},
        {"stride": (1, 2), "pad_mode": "pad", "padding": 1},
    ],
)
def test_convolutions(options):
    assert_tensor_gradients(lambda x, w: ops.conv2d(x, w, **options) ** 2, SQUARE, KERNEL)


def test_grouped_convolutions_and_lines():
    assert_tensor_gradients(lambda x, w: ops.conv2d(x, w, groups=3), SQUARE, rng.normal(size=(6, 1, 2, 3)))
    assert_tensor_gradients(lambda x, w: ops.conv1d(x, w, stride=2) ** 2, SQUARE[0], rng.normal(size=(2, 6, 2))[:, :6])


def test_pooling():
    assert_tensor_gradients(lambda x: ops.max_pool2d(x, 2) ** 2, SQUARE)
    assert_tensor_gradients(lambda x: ops.max_pool2d(x, 3, 2, 1) ** 2, SQUARE)
    assert_tensor_gradients(lambda x: ops.avg_pool2d(x, 3, 1) ** 2, SQUARE)


def test_losses():
    logits, soft = rng.normal(size=(4, 5)), rng.dirichlet(np.ones(5), 4)
    labels, scale = Tensor([1, 0, 4, 2]), Tensor(rng.uniform(0.5, 1, 5))
    for reduction in ("mean", "sum", "none"):
        assert_tensor_gradients(lambda x: ops.cross_entropy(x, labels, reduction=reduction), logits)
        assert_tensor_gradients(lambda x, y: ops.mse_loss(x, y, reduction), logits, soft)
    assert_tensor_gradients(lambda x, y: ops.cross_entropy(x, y), logits, soft)
    assert_tensor_gradients(lambda x: ops.cross_entropy(x, labels, scale, label_smoothing=0.1), logits)
    assert_tensor_gradients(lambda x: ops.nll_loss(ops.log_softmax(x), labels, ignore_index=4), logits)
    for f in (ops.l1_loss, ops.smooth_l1_loss, ops.huber_loss, ops.binary_cross_entropy_with_logits):
        assert_tensor_gradients(f, logits, soft)
    assert_tensor_gradients(ops.binary_cross_entropy, soft, soft)
    assert_tensor_gradients(ops.kl_div, logits, soft)


def test_attention():
    """Against the same written out in float64."""
    q, k, v = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 3)))

    def written_out(q, k, v):
        q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
        k, v = np.repeat(k, 2, 1), np.repeat(v, 2, 1)
        scores = q @ np.swapaxes(k, -1, -2) * 0.5
        p = np.exp(scores - scores.max(-1, keepdims=True))
        return (p / p.sum(-1, keepdims=True)) @ v

    found = fj.grad(lambda *x: ops.flash_attention_score(*x, 4, scalar_value=0.5, input_layout="BNSD") ** 2, (0, 1, 2))(Tensor(q), Tensor(k), Tensor(v))
    for at in range(3):
        wanted = differences(lambda *x: written_out(*x) ** 2, (q, k, v), at)
        np.testing.assert_allclose(found[at].asnumpy(), wanted, atol=2e-5, rtol=2e-4)


def test_second_order():
    f = lambda x: ops.sum(ops.softmax(x * x, -1) * ops.log(x))  # noqa: E731
    g = lambda x: ops.sum(ops.square(fj.grad(f)(x)))  # noqa: E731
    assert_tensor_gradients(g, A)
    c = lambda x, w: ops.sum(ops.square(fj.grad(lambda a: ops.sum(ops.tanh(ops.conv2d(a, w))))(x)))  # noqa: E731
    assert_tensor_gradients(c, SQUARE[:1, :, :4, :3].copy(), KERNEL)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 3)
        self.scale = Parameter(Tensor(np.float32(2.0)), name="scale")
        self.moved = Parameter(Tensor([0.0, 0.0, 0.0]), name="moved", requires_grad=False)

    def construct(self, x):
        out = ops.tanh(self.dense(x)) * self.scale
        ops.assign_add(self.moved, ops.mean(out, 0))
        return out


def test_weights():
    fj.set_seed(1)
    net = Net()
    x = Tensor(A, fj.float32)
    weights = net.trainable_params()
    before = net.moved.asnumpy().copy()
    out, gradients = fj.value_and_grad(net, None, weights)(x)
    assert not np.array_equal(net.moved.asnumpy(), before)
    assert [g.shape for g in gradients] == [w.shape for w in weights]
    hidden = np.tanh(A @ net.dense.weight.asnumpy().T + net.dense.bias.asnumpy())
    by_name = dict(zip([w.name for w in weights], [g.asnumpy() for g in gradients]))
    np.testing.assert_allclose(by_name["scale"], hidden.sum(), rtol=1e-5)
    delta = 2 * (1 - hidden**2)
    np.testing.assert_allclose(by_name["dense.weight"], delta.T @ A, rtol=1e-4)
    np.testing.assert_allclose(by_name["dense.bias"], delta.sum(0), rtol=1e-4)
    np.testing.assert_allclose(out.asnumpy(), 2 * hidden, rtol=1e-5)
    one = fj.grad(net, None, net.scale)(x)
    assert isinstance(one, Tensor) and one.shape == ()
    both = fj.grad(net, 0, ParameterTuple(weights))(x)
    assert both[0].shape == (3, 4) and len(both[1]) == len(weights)
    ids = fj.grad(net, 0, weights, return_ids=True)(x)
    assert ids[0][0] == 0 and fj.get_grad(ids, 0) is ids[0][1]
    np.testing.assert_array_equal(fj.get_grad(ids, net.scale).asnumpy(), one.asnumpy())
    np.testing.assert_array_equal(fj.get_grad(ids, "scale").asnumpy(), one.asnumpy())
    with pytest.raises(RuntimeError, match="Can not find"):
        fj.get_grad(ids, "nothing")


def test_grad_operation():
    f = lambda x, y: x * x * y  # noqa: E731
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    assert ops.GradOperation()(f)(x, y).tolist() == [6, 16]
    assert [g.tolist() for g in ops.GradOperation(get_all=True)(f)(x, y)] == [[6, 16], [1, 4]]
    assert ops.GradOperation(sens_param=True)(f)(x, y, Tensor([1.0, 10.0])).tolist() == [6, 160]
    net = nn.Dense(2, 1)
    weights = ParameterTuple(net.trainable_params())
    gradients = ops.GradOperation(get_by_list=True)(net, weights)(Tensor([[1.0, 2.0]]))
    assert [g.tolist() for g in gradients] == [[[1.0, 2.0]], [1.0]]
    inputs, gradients = ops.GradOperation(get_all=True, get_by_list=True)(net, weights)(Tensor([[1.0, 2.0]]))
    np.testing.assert_array_equal(inputs[0].asnumpy(), net.weight.asnumpy())
    with pytest.raises(TypeError, match="get_all"):
        ops.GradOperation(1)


def test_arguments():
    f = lambda x, y: x * y  # noqa: E731
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    assert fj.grad(f, (1,))(x, y).tolist() == [1, 2]
    assert [g.tolist() for g in fj.grad(f, (0, 1))(x, y)] == [[3, 4], [1, 2]]
    assert fj.grad(f, (0, 1))(x, 2.0).tolist() == [2, 2]
    with pytest.raises(ValueError, match="None at the same time"):
        fj.grad(f, None)
    with pytest.raises(ValueError, match="must be >= 0"):
        fj.grad(f, -1)
    with pytest.raises(ValueError, match="duplicate"):
        fj.grad(f, (0, 0))
    with pytest.raises(TypeError, match="must be int or tuple"):
        fj.grad(f, [0])
    with pytest.raises(TypeError, match="callable|function"):
        fj.grad(3)


def of_squares(x, y):
    return x**2 + y


def of_masks(x, y):
    return ops.where(x > 1, x * 2, y)


def of_parts(x, y):
    x[0] = y[1]
    return x.cumsum(0) * y


def of_floats(x, y):
    return (x.int() * 2.5).sum() + ops.sqrt(y.astype(fj.float32))


def of_places(x, y):
    return x.argmax() + y[x.argsort()]


INTEGERS = [
    (lambda x, y: x * y, [4, 5, 6], [1, 2, 3]),
    (lambda x, y: x - y, [1, 1, 1], [-1, -1, -1]),
    (lambda x, y: x // y + x % y, [1, 1, 1], [0, 0, 0]),
    (lambda x, y: x > y, [0, 0, 0], [0, 0, 0]),
    (lambda x, y: ops.matmul(x.reshape(1, 3), y.reshape(3, 1)), [4, 5, 6], [1, 2, 3]),
    (lambda x, y: ops.maximum(x, 5 - x) + ops.abs(y) + x.prod(), [17, 8, 7], [1, 1, 1]),
    (of_squares, [2, 4, 6], [1, 1, 1]),
    (of_masks, [0, 2, 2], [1, 0, 0]),
    (of_parts, [0, 11, 6], [5, 22, 10]),
    (of_floats, [7, 7, 7], [0, 0, 0]),
    (of_places, [0, 0, 0], [1, 1, 1]),
]


def with_break(f):
    def broken(x, y):
        out = f(x, y)
        str(id(x))
        return out

    return broken


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("run", ["captured", "jitted", "kept on a tape"])
@pytest.mark.parametrize("at", range(len(INTEGERS)))
def test_integers_have_gradients_in_their_dtype(at, run, dtype):
    f, *expected = INTEGERS[at]
    gradient = fj.grad(with_break(f) if run == "kept on a tape" else f, (0, 1))
    if run == "jitted":
        gradient = fj.jit(gradient.__wrapped__ if hasattr(gradient, "__wrapped__") else lambda x, y: gradient(x, y))
    for _ in range(2):
        found = gradient(Tensor([1, 2, 3]).astype(getattr(fj, dtype)), Tensor([4, 5, 6]).astype(getattr(fj, dtype)))
        assert [str(g.dtype).lower() for g in found] == [dtype, dtype]
        assert [g.tolist() for g in found] == expected


def test_integers_beside_floats_and_truth_values():
    i, f, b = Tensor([1, 2, 3]), Tensor([1.5, 2.5, -3.5]), Tensor([True, False, True])
    product = lambda x, y: x * y  # noqa: E731
    for one in (product, with_break(product)):
        of_i, of_f = fj.grad(one, (0, 1))(i, f)
        assert (of_i.dtype, of_i.tolist(), of_f.tolist()) == (fj.int64, [1, 2, -3], [1, 2, 3])
        of_b, of_f = fj.grad(one, (0, 1))(b, f)
        assert (of_b.dtype, of_b.tolist(), of_f.tolist()) == (fj.bool_, [True] * 3, [1, 0, 1])
        small, wide = ops.GradOperation(get_all=True)(one)(i.astype(fj.int8), i.astype(fj.int32))
        assert (small.dtype, wide.dtype, small.tolist()) == (fj.int8, fj.int32, [1, 2, 3])
    assert fj.grad(lambda x: (x.int() * 2.0).sum())(f).tolist() == [2, 2, 2]
    assert fj.grad(lambda x: (x & b).astype(fj.float32))(b).tolist() == [False] * 3
    assert ops.GradOperation(sens_param=True)(product)(i, i, Tensor([1, 0, 2])).tolist() == [1, 0, 6]


def test_what_has_no_gradient_has_no_place_among_them():
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    times = lambda x, n, name=None: x * n  # noqa: E731
    for mode in (lambda f: f, fj.jit):
        everything = mode(ops.GradOperation(get_all=True)(times))
        for args in ((x, 2), (x, 2.0, "a"), (x, 2, None)):
            (found,) = everything(*args)
            assert found.tolist() == [2, 2]
        assert fj.grad(times, (0, 1))(x, 3).tolist() == [3, 3]
        assert fj.grad(times, 1)(x, 3) == ()
        assert [g.tolist() for g in everything(x, n=y)] == [[3, 4], [1, 2]]
    assert fj.grad(lambda: x * 2)() == () and ops.GradOperation()(lambda: x * 2)() == ()
    assert fj.grad(times)(x=x, n=y).tolist() == [3, 4]
    with pytest.raises(RuntimeError, match="should not be empty"):
        fj.grad(times, ())
    for error in (RuntimeError, IndexError):
        with pytest.raises(error, match="Position index 5 is exceed input size"):
            fj.grad(times, 5)(x, y)


def test_sens_has_the_dtype_and_shape_of_the_result():
    x = Tensor([1.0, 2.0])
    gradient = ops.GradOperation(sens_param=True)(lambda x: x * x)
    for one in (gradient, fj.jit(lambda *args: gradient(*args))):
        with pytest.raises(TypeError, match="The dtype should be Float32, but got Int64"):
            one(x, Tensor([1, 2]))
        with pytest.raises(ValueError, match=r"The shape should be \(2,\), but got \(1,\)"):
            one(x, Tensor([1.0]))
        with pytest.raises(ValueError, match="the sens is not provided"):
            one()


def test_inside_jit_of_each_mode():
    net = nn.Dense(3, 2)

    def step(x):
        value, gradients = fj.value_and_grad(lambda x: ops.sum(ops.square(net(x))), None, (net.weight, net.bias))(x)
        return value, gradients[0] * 0.5, gradients[1]

    x = Tensor(rng.normal(size=(4, 3)).astype(np.float32))
    expected = fj.value_and_grad(lambda x: ops.sum(ops.square(net(x))), None, net.trainable_params())(x)
    for mode in ("ast", "bytecode"):
        for level in ("O0", "O1"):
            marked = fj.jit(step, capture_mode=mode, jit_level=level)
            for _ in range(2):
                value, weight, bias = marked(x)
                np.testing.assert_allclose(value.asnumpy(), expected[0].asnumpy(), rtol=1e-5)
                np.testing.assert_allclose(weight.asnumpy(), expected[1][0].asnumpy() * 0.5, rtol=1e-5)
                np.testing.assert_allclose(bias.asnumpy(), expected[1][1].asnumpy(), rtol=1e-5)
            assert marked.graphs().count("graph @") == 1


def test_tensors_that_are_written():
    def f(x):
        y = x * 1
        y[1:3] = y[0:2] * y[2:4]
        y[0] = 5.0
        return ops.sum(y * y)

    assert_tensor_gradients(f, rng.uniform(0.5, 1, 5))


def test_norms():
    for cell in (nn.BatchNorm2d(3), nn.LayerNorm((5,)), nn.BatchNorm2d(3).set_train()):
        x = SQUARE.astype(np.float32)
        gradient = fj.grad(lambda x: cell(x) ** 2)(Tensor(x)).asnumpy()

        def written_out(x):
            x = np.asarray(x, np.float64)
            if isinstance(cell, nn.LayerNorm):
                axes, eps = (-1,), cell.epsilon
            elif cell.training:
                axes, eps = (0, 2, 3), 1e-5
            else:
                return (x / np.sqrt(1 + 1e-5)) ** 2
            return ((x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)) ** 2

        np.testing.assert_allclose(gradient, differences(written_out, (x,)), atol=2e-4)


def test_a_convolution_that_nobody_needs_is_not_computed():
    gradient = fj.jit(fj.grad(lambda x, w: ops.conv2d(x, w), (0, 1)), fullgraph=True)
    gradient(Tensor(np.ones((2, 3, 6, 6), np.float32)), Tensor(np.ones((4, 3, 3, 3), np.float32)))
    assert gradient.graphs().count(" = convolution ") == 1 and gradient.graphs().count(" = convolution_weights ") == 1


def test_weights_of_all_samples_are_one_product_that_lies_as_they_do():
    gradient = fj.jit(fj.grad(lambda x, w: ops.dense(x, w), (0, 1)), fullgraph=True)
    x, w = rng.normal(size=(3, 5, 4)), rng.normal(size=(6, 4))
    of_x, of_w = gradient(Tensor(x), Tensor(w))
    np.testing.assert_allclose(of_x.asnumpy(), np.broadcast_to(w.sum(0), x.shape), rtol=1e-12)
    np.testing.assert_allclose(of_w.asnumpy(), np.broadcast_to(x.sum((0, 1)), w.shape), rtol=1e-12)
    text = gradient.graphs()
    assert text.count(" = matmul ") == 3 and " = copy " not in text and "reduce" not in text


@pytest.mark.parametrize("f", [ops.softmax, ops.log_softmax, lambda x: ops.logsumexp(x, -1)], ids=["softmax", "log_softmax", "logsumexp"])
def test_what_a_softmax_subtracts_is_a_constant(f):
    def weighed(x):
        return (f(x) * Tensor(np.array([0.5, -1, 2, 0.1])[: f(x).shape[-1]])).sum()

    assert_tensor_gradients(weighed, rng.normal(size=(3, 4)))
    gradient = fj.jit(fj.grad(weighed), fullgraph=True)
    gradient(Tensor(rng.normal(size=(3, 4))))
    assert " = equal " not in gradient.graphs()
    second = fj.grad(lambda x: fj.grad(weighed)(x).sum() + (fj.grad(weighed)(x) ** 2).sum())(Tensor(np.array([[0.1, 0.7, -0.3, 0.2]])))
    first = lambda x: fj.grad(weighed)(Tensor(x)).asnumpy()  # noqa: E731
    wanted = differences(lambda x: np.sum(first(x)) + np.sum(first(x) ** 2), (np.array([[0.1, 0.7, -0.3, 0.2]]),))
    np.testing.assert_allclose(second.asnumpy(), wanted, rtol=1e-6, atol=1e-7)


def test_gradients_have_the_form_of_containers():
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    f = lambda given: (given["a"] * given["b"][0]).sum()  # noqa: E731
    for gradient in (fj.grad(f), fj.jit(lambda given: fj.grad(f)(given))):
        found = gradient({"a": x, "b": [y, 3]})
        assert found["a"].tolist() == [3, 4] and type(found["b"]) is list and found["b"][0].tolist() == [1, 2]
    first, second = ops.GradOperation(get_all=True)(lambda pair, z: pair[0] * pair[1] * z)((x, y), x)
    assert type(first) is tuple and [g.tolist() for g in first] == [[3, 8], [1, 4]] and second.tolist() == [3, 8]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3,)], ids=str)
@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "sin", "expm1", "softplus", "pow", "square"])
def test_gradients_of_float16(name, shape):
    """Also of one number, for which NumPy's loops are called in another way."""
    function = (lambda x: ops.pow(x, 2.5)) if name == "pow" else getattr(ops, name)
    x = np.full(shape, 0.7, np.float16)
    expected = fj.grad(function)(Tensor(x.astype(np.float32))).asnumpy()
    gradient = fj.grad(function)
    for run in (gradient, fj.jit(lambda x: gradient(x)), fj.jit(lambda x: gradient(x), jit_level="O1")):
        found = run(Tensor(x)).asnumpy()
        assert found.dtype == np.float16 and found.shape == shape
        np.testing.assert_allclose(found, expected, 4e-3)
    of_two = fj.grad(lambda x, y: ops.exp(x) * ops.tanh(y).astype(fj.float16), (0, 1))(Tensor(x), Tensor(x.astype(np.float32)))
    assert [each.dtype for each in of_two] == [fj.float16, fj.float32]
    second = fj.grad(fj.grad(lambda x: function(x).sum()))(Tensor(x)).asnumpy()
    np.testing.assert_allclose(second, fj.grad(fj.grad(lambda x: function(x).sum()))(Tensor(x.astype(np.float32))).asnumpy(), 2e-2, 2e-3)


def test_gradients_of_one_half_of_numpy():
    x = np.array([0.7], np.float16)
    found = fj.grad(lambda x: np.exp(x).sum())(x)
    assert found.dtype == np.float16 and abs(found.item() - np.exp(0.7)) < 4e-3


def test_results_in_dicts_and_slices_are_the_arguments():
    """What a function gives back of its arguments is the caller's own object, in whatever holds it."""

    def f(x, y):
        return x * y, {"x": x, "more": [y]}, slice(x, 1, y), slice(1, 2)

    gradient = fj.value_and_grad(f, has_aux=True)
    for run in (gradient, fj.jit(lambda x, y: gradient(x, y), fullgraph=True)):
        x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
        (value, table, part, plain), found = run(x, y)
        assert table["x"] is x and table["more"][0] is y and part.start is x and part.stop == 1 and part.step is y
        assert plain == slice(1, 2) and value.asnumpy().tolist() == [3, 8] and found.asnumpy().tolist() == [3, 4]
    array = np.arange(3.0)
    (_, part), _ = fj.value_and_grad(lambda x: ((x * x).sum(), slice(x, 1)), has_aux=True)(array)
    assert part.start is array


@pytest.mark.parametrize("dtype", [fj.float32, fj.float64, fj.float16, fj.int32, fj.bool_], ids=str)
def test_tensors_in_sequences(dtype):
    """A tuple or list of Tensors of one element is a Tensor, through which gradients go."""

    def made(x, y):
        return Tensor([x, (y)]), Tensor(((x, y), (y, x)), fj.float32)

    x, y = Tensor(2, dtype), Tensor(1, dtype)
    for found, expected in zip(fj.jit(made, fullgraph=True)(x, y), made(x, y), strict=True):
        assert found.dtype == expected.dtype and found.tolist() == expected.tolist()
    if dtype == fj.bool_:
        return

    def weighted(x, y):
        return (x * (x, y) + (y, x)) * Tensor([3, 5], dtype)

    gradient = fj.grad(weighted, (0, 1))
    for run in (gradient, fj.jit(lambda x, y: gradient(x, y))):
        by_x, by_y = run(x, y)
        assert (by_x.dtype, by_x.item(), by_y.item()) == (dtype, 22, 13)


@pytest.mark.parametrize("stance", ["default", "force_eager"])
def test_sums_and_products_of_truth_values(stance):
    """They have the gradients of numbers, as in MindSpore; `&` and `|` have none."""
    x, y = Tensor([True, False, True]), Tensor([True, True, False])
    for f, of_x, of_y in (
        (lambda x, y: x * y, [True, True, False], [True, False, True]),
        (lambda x, y: x + y, [True] * 3, [True] * 3),
        (lambda x, y: ops.mul(x, True) + y * False, [True] * 3, [False] * 3),
        (lambda x, y: ops.addn([x, y]), [True] * 3, [True] * 3),
        (lambda x, y: x & y, [False] * 3, [False] * 3),
        (lambda x, y: x | y, [False] * 3, [False] * 3),
        (lambda x, y: ops.cumprod(x, 0), [True, True, False], [False] * 3),
    ):
        with fj.stance(stance):
            found = fj.grad(f, (0, 1))(x, y)
        assert [(str(g.dtype), g.asnumpy().tolist()) for g in found] == [("Bool", of_x), ("Bool", of_y)]
        assert str(f(x, y).dtype) == str(fj.jit(f)(x, y).dtype) and (f(x, y) == fj.jit(f)(x, y)).all()


@pytest.mark.parametrize("stance", ["default", "force_eager"])
def test_casts_to_truth_values_pass_gradients(stance):
    """As in MindSpore; comparisons do not."""
    x = Tensor(np.float32([1.0, 2.0, 0.0, -3.0]))
    for f, wanted in (
        (lambda x: (x * x.astype(fj.bool_)).sum(), [2.0, 2.0, 0.0, 2.0]),
        (lambda x: ops.cast(x, fj.bool_).astype(fj.float32).sum(), [1.0] * 4),
        (lambda x: (x * (x > 0)).sum(), [1.0, 1.0, 0.0, 0.0]),
        (lambda x: ops.where(x.bool(), x, 0.0).sum(), [1.0, 1.0, 0.0, 1.0]),
    ):
        with fj.stance(stance):
            assert fj.grad(f)(x).asnumpy().tolist() == wanted
    of_array = fj.grad(lambda x: (x * x.astype(bool)).sum())(np.array([1.0, 0.0]))
    assert of_array.tolist() == [1.0, 0.0]


def test_weights_of_counts():
    x, weights = Tensor(np.int32([1, 2, 1])), Tensor(np.float32([1.0, 2.0, 3.0]))
    of_x, of_weights = fj.grad(lambda x, w: ops.square(ops.bincount(x, w, 5)).sum(), (0, 1))(x, weights)
    assert of_x.asnumpy().tolist() == [0, 0, 0] and of_weights.asnumpy().tolist() == [8.0, 4.0, 8.0]
    assert fj.grad(ops.bincount)(x).asnumpy().tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="same length"):
        ops.bincount(x, weights[:2])


@pytest.mark.parametrize(
    "number",
    [
        lambda y: float(y[0]),
        lambda y: int(y.sum()),
        lambda y: y[0].item(),
        lambda y: y.item(1),
        lambda y: y.tolist()[1],
        lambda y: float(y.sum()) + 1.0,
        lambda y: math.sqrt(y.sum()),
        lambda y: Tensor(float(y[0])),
        lambda y: ops.full((3,), y[0].item()),
        lambda y: Tensor([y[0], y[1], y[2]]),
        lambda y: Tensor([float(y[0]), 1.0, 2.0]),
    ],
)
def test_pythons_numbers_of_tensors_count_as_constants(number):
    x, y = Tensor(np.float32([1, 2, 3])), Tensor(np.float32([3.5, 4.25, 6]))

    def f(x, y):
        return x * number(y) + y * y

    plain = Tensor(np.zeros(3, np.float32)) + number(y)
    results = [fj.grad(f, (0, 1))(x, y), fj.grad(fj.jit(f), (0, 1))(x, y)]
    with fj.stance("force_eager"):
        results.append(fj.grad(f, (0, 1))(x, y))
    for of_x, of_y in results:
        assert of_x.asnumpy().tolist() == plain.asnumpy().tolist()
        assert of_y.asnumpy().tolist() == [7, 8.5, 12]
