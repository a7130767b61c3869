"""The less used functions of ops, mint, nn and numpy, as far as MindSpore's comparison names them: compiled calls give what eager ones do."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, mint, nn, ops
from framejit import numpy as mnp
from tensor.mindspore_primitive_rows import ROWS
from tensor.mindspore_rows import _FURTHER, INPUTS
from tensor.tensor_support import leaves

pytestmark = pytest.mark.capture
NAMES = {"ops": ops, "mint": mint, "nn": nn, "mnp": mnp, "ms": fj, "np": np, "Tensor": Tensor}
# Rows that draw, hold random numbers, call helpers, or are errors.
LEFT_OUT = (
    *("shuffle", "gamma((", "poisson((", "laplace((", "Dense(", "weight(", "gradient(", "names(", "csr(", "coo(", "andom", "Sampler", "Cauchy"),
    *("Normal", "NonDeterministic", "UniformInt", "Laplace", "Multinomial", "multinomial", "cauchy", "log_normal", "choice", "Dropout", "Generator"),
)


def evaluated(function):
    try:
        return [x.asnumpy() if isinstance(x, Tensor) else x for x in leaves(function())]
    except (TypeError, ValueError, IndexError, KeyError, RuntimeError) as error:
        return type(error)


@pytest.mark.parametrize("text", [row for row in (*_FURTHER, *ROWS) if not any(word in row for word in LEFT_OUT)])
def test_compiled(text):
    tensors = {name: Tensor(array) for name, array in INPUTS.items()}
    used = [name for name in tensors if name in compile(text, "row", "eval").co_names]
    function = eval(f"lambda {', '.join(used)}: {text}", dict(NAMES))
    arguments = [tensors[name] for name in used]
    expected = evaluated(lambda: function(*arguments))
    marked = fj.jit(function)
    for _ in range(2):
        found = evaluated(lambda: marked(*arguments))
        if isinstance(expected, type):
            assert found is expected
            continue
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert type(one) is type(other)
            if isinstance(one, np.ndarray):
                assert one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
            else:
                assert one == other


WRITTEN = {
    "update": lambda x, at, new: x.__setitem__(at, new),
    "add": np.add.at,
    "sub": np.subtract.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_writes_into_tensors(name):
    rows, new = np.array([2, 0, 2]), np.float32([[1, 2], [3, 4], [5, 6]])
    start = np.arange(6, dtype=np.float32).reshape(3, 2)
    wanted = start.copy()
    WRITTEN[name](wanted, rows, new)
    for mark in (lambda f: f, fj.jit):
        x, y = Tensor(start), Tensor(start)
        out = mark(lambda x: getattr(ops, f"scatter_{name}")(x, Tensor(rows), Tensor(new)))(x)
        assert x.tolist() == wanted.tolist() == out.tolist()
        mark(lambda y: getattr(ops, f"scatter_nd_{name}")(y, Tensor(rows[:, None]), Tensor(new)))(y)
        assert y.tolist() == wanted.tolist()


def test_linear_algebra():
    x = np.random.default_rng(0).normal(size=(2, 4, 4))
    tensor = Tensor(x)
    values, vectors = (part.asnumpy() for part in ops.eig(tensor))
    np.testing.assert_allclose(x @ vectors, vectors * values[:, None, :], atol=1e-10)
    s, u, v = (part.asnumpy() for part in ops.svd(tensor))
    np.testing.assert_allclose(u * s[:, None, :] @ v.swapaxes(1, 2), x, atol=1e-12)
    spd = Tensor(x @ x.swapaxes(1, 2) + np.eye(4))
    lower = ops.cholesky(spd)
    np.testing.assert_allclose(ops.cholesky_solve(tensor, lower).asnumpy(), np.linalg.solve(spd.asnumpy(), x), atol=1e-8)
    np.testing.assert_allclose(ops.matrix_exp(tensor * 1e-3).asnumpy(), np.eye(4) + x * 1e-3 + x @ x * 5e-7, atol=1e-7)
    from framejit import scipy

    p, l, u = (part.asnumpy() for part in scipy.linalg.lu(tensor[0]))
    np.testing.assert_allclose(p @ l @ u, x[0], atol=1e-12)
    solved = scipy.linalg.cho_solve(scipy.linalg.cho_factor(spd[0]), tensor[0, :, 0])
    np.testing.assert_allclose(spd[0].asnumpy() @ solved.asnumpy(), x[0, :, 0], atol=1e-10)
    triangle = scipy.linalg.solve_triangular(lower[0], tensor[0], lower=True)
    np.testing.assert_allclose(lower[0].asnumpy() @ triangle.asnumpy(), x[0], atol=1e-10)
    low, high = scipy.linalg.eigh(spd[0])
    np.testing.assert_allclose(spd[0].asnumpy() @ high.asnumpy(), high.asnumpy() * low.asnumpy(), atol=1e-10)
    both, _ = scipy.ops.Eig(compute_v=True)(tensor), scipy.ops.Eig()(tensor)
    np.testing.assert_allclose(both[0].asnumpy(), values)


def test_integer_division_towards_zero():
    x, y = Tensor(np.array([7, -7, 7, -7])), Tensor(np.array([2, 2, -2, -2]))
    assert ops.truncate_div(x, y).tolist() == [3, -3, -3, 3] and ops.truncate_mod(x, y).tolist() == [1, -1, 1, -1]


@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "MaxPool2d", "BatchNorm2d", "Linear"])
def test_layers_of_mint(name):
    """With PyTorch's arguments."""
    x = Tensor(np.random.default_rng(0).normal(size=(2, 3, 6, 6)[: 3 if name == "Conv1d" else 4]).astype("f4"))
    made = {"Conv1d": (3, 4, 3, 2, 1), "Conv2d": (3, 4, 3, 2, 1), "MaxPool2d": (2,), "BatchNorm2d": (3,), "Linear": (6, 2)}[name]
    if not hasattr(mint.nn, name):
        pytest.fail(f"there is no mint.nn.{name}")
    out = getattr(mint.nn, name)(*made)(x)
    assert out.shape == {"Conv1d": (2, 4, 3), "Conv2d": (2, 4, 3, 3), "MaxPool2d": (2, 3, 3, 3), "BatchNorm2d": (2, 3, 6, 6), "Linear": (2, 3, 6, 2)}[name]


def test_names_of_the_package():
    from framejit import train

    assert fj.tensor([1, 2]).tolist() == [1, 2] and fj.is_tensor(fj.tensor(1)) and not fj.is_tensor(1)
    assert fj.frombuffer(np.float32([1, 2, 3]).tobytes(), fj.float32, 2, 4).tolist() == [2, 3]
    fj.manual_seed(3)
    state, first = fj.get_rng_state(), ops.rand(3).tolist()
    fj.set_rng_state(state)
    assert ops.rand(3).tolist() == first and fj.initial_seed() == 3
    fj.set_deterministic(True)
    assert fj.get_context("deterministic") == "ON"
    fj.set_deterministic(False)
    assert nn.Accuracy is train.Accuracy is fj.Accuracy and fj.LossMonitor is train.LossMonitor
    assert fj.lazy_inline(len) is len and fj.lazy_inline(policy="front")(len) is len and fj.no_inline(len) is len
    with pytest.raises(TypeError):
        fj.set_deterministic(1)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        ("ops.slice(Tensor(1.0), (), ())", ValueError, "rank of 'input_x' must be greater than 0"),
        ("ops.slice(x, (0, 0), (1,))", ValueError, "must have 2 numbers, but got"),
        ("ops.slice(x, (0, 0, 0), (1, 1, 1))", ValueError, "must have 2 numbers, but got"),
        ("ops.slice(x, (True, 0), (1, 1))", TypeError, "must be ints, but got"),
        ("ops.slice(x, (0, 0), (1, 9))", ValueError, "is not within the shape"),
        ("ops.slice(x, (0, -1), (1, 1))", ValueError, "is not within the shape"),
        ("ops.slice(x, (3, 0), (1, 1))", ValueError, "is not within the shape"),
        ("ops.Median(1)(x)", TypeError, "'global_median' should be 'bool', but got type 'int'"),
        ("ops.Median(False, 1.5)(x)", TypeError, "'axis' should be 'int', but got type 'float'"),
        ("ops.Median(False, 0, 'a')(x)", TypeError, "'keep_dims' should be 'bool', but got type 'str'"),
        ("ops.Median(False, 2)(x)", ValueError, r"axis must be in \[-2,2\), but got 2"),
    ],
)
def test_arguments_of_slice_and_median_are_checked(call, error, says):
    x = Tensor([[1.0, 2.0, 5.0], [3.0, 4.0, 0.0]])
    run = eval(f"lambda x: {call}", {"ops": ops, "Tensor": Tensor})
    for function in (run, fj.jit(run)):
        with pytest.raises(error, match=says):
            function(x)


def test_slices_and_medians_are_one_graph():
    x = Tensor([[1.0, 2.0, 5.0], [3.0, 4.0, 0.0]])
    f = fj.jit(lambda x: (ops.slice(x, (0, 1), (1, -1)), ops.slice(x, (1, 0), (1, 3)), *ops.Median(False, 1)(x)), fullgraph=True)
    assert [part.tolist() for part in f(x)] == [[[2.0, 5.0]], [[3.0, 4.0, 0.0]], [2.0, 3.0], [1, 0]]


# --- Losses of classes that are drawn, parts of images, functions as primitives ---------------------------------------------


def sampled_values():
    drawn = Tensor(np.array([1, 4, 5], np.int32))
    return drawn, Tensor(np.array([[0.3], [0.4], [0.5]], np.float32)), Tensor(np.array([0.2, 0.3, 0.4], np.float32))


def test_sampled_softmax():
    draw = np.random.default_rng(0)
    weights, biases, logits = (draw.random(shape).astype(np.float32) for shape in ((7, 10), 7, (3, 10)))
    labels, (drawn, true_count, drawn_count) = np.array([0, 1, 2]), (x.asnumpy() for x in sampled_values())
    true = (logits * weights[labels]).sum(1) + biases[labels] - np.log(true_count[:, 0])
    others = logits @ weights[drawn].T + biases[drawn] - np.log(drawn_count)
    expected = np.log(np.exp(true) + np.exp(others).sum(1)) - true
    loss = nn.SampledSoftmaxLoss(3, 7, sampled_values=sampled_values())
    given = [Tensor(x) for x in (weights, biases, labels, logits)]
    for function in (loss, fj.jit(lambda *x: loss(*x))):
        np.testing.assert_allclose(function(*given).asnumpy(), expected, rtol=1e-5)
    gradient = fj.grad(lambda w: loss(w, *given[1:]).sum())(given[0]).asnumpy()
    assert (gradient[[3, 6]] == 0).all() and (gradient[[0, 1, 2, 4, 5]] != 0).any(1).all()
    two = nn.SampledSoftmaxLoss(2, 7, num_true=2)(*given[:2], Tensor(np.array([[0, 1], [1, 2], [2, 5]])), given[3])
    assert two.shape == (3,) and np.isfinite(two.asnumpy()).all()


@pytest.mark.parametrize(
    "options, error",
    [
        ({"num_sampled": 8}, ValueError), ({"num_true": 8}, ValueError), ({"num_true": 0}, ValueError), ({"seed": -1}, ValueError),
        ({"sampled_values": 3}, TypeError), ({"sampled_values": (1, 2)}, ValueError), ({"reduction": "x"}, ValueError),
    ],
)  # fmt: skip
def test_sampled_softmax_refuses(options, error):
    with pytest.raises(error):
        nn.SampledSoftmaxLoss(**{"num_sampled": 3, "num_classes": 7, **options})
    x = Tensor(np.ones((7, 2), np.float32))
    with pytest.raises(TypeError, match="labels"):
        nn.SampledSoftmaxLoss(3, 7)(x, x[:, 0], Tensor([0.0, 1.0]), x[:2])


SIZE, BOXES = Tensor(np.array([640, 480, 3], np.int32)), Tensor(np.array([[[0.38, 0.17, 0.95, 0.40]]], np.float32))
LEAST = Tensor(np.array([0.8], np.float32))


def test_drawn_parts_show_enough_of_a_box():
    seen = set()
    for _ in range(50):
        sample = ops.SampleDistortedBoundingBoxV2(aspect_ratio_range=(0.9, 1.1), area_range=(0.1, 0.6))
        begin, size, box = (x.asnumpy() for x in sample(SIZE, BOXES, LEAST))
        assert (begin.dtype, begin[2], size.dtype, size[2]) == (np.int32, 0, np.int32, -1)
        (top, left), (rows, columns) = begin[:2], size[:2]
        np.testing.assert_allclose(box[0, 0], [top / 640, left / 480, (top + rows) / 640, (left + columns) / 480], rtol=1e-6)
        assert min(top, left) >= 0 and top + rows <= 640 and left + columns <= 480
        assert 0.1 <= rows * columns / (640 * 480) <= 0.6
        assert 0.89 <= columns / rows <= 1.11
        down = min(top + rows, 0.95 * 640) - max(top, 0.38 * 640)
        across = min(left + columns, 0.40 * 480) - max(left, 0.17 * 480)
        assert down * across >= 0.8 * 0.57 * 640 * 0.23 * 480 * 0.999
        seen.add((top, left))
    assert len(seen) > 10


def test_the_whole_image_is_the_part_if_none_fits():
    sample = ops.SampleDistortedBoundingBoxV2(aspect_ratio_range=(50.0, 60.0), area_range=(0.9, 1.0), max_attempts=3)
    begin, size, box = sample(SIZE, BOXES, LEAST)
    assert (begin.tolist(), size.tolist(), box.tolist()) == ([0, 0, 0], [640, 480, -1], [[[0.0, 0.0, 1.0, 1.0]]])
    narrow = Tensor(np.array([64, 48, 3], np.uint8))
    assert ops.SampleDistortedBoundingBoxV2()(narrow, BOXES, LEAST)[1].asnumpy()[2] == 255
    free = ops.SampleDistortedBoundingBoxV2(use_image_if_no_bounding_boxes=True)
    assert free(SIZE, Tensor(np.zeros((1, 0, 4), np.float32)), LEAST)[2].shape == (1, 1, 4)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: ops.SampleDistortedBoundingBoxV2(max_attempts=0), ValueError),
        (lambda: ops.SampleDistortedBoundingBoxV2(max_attempts=1.5), TypeError),
        (lambda: ops.SampleDistortedBoundingBoxV2(aspect_ratio_range=3), TypeError),
        (lambda: ops.SampleDistortedBoundingBoxV2(area_range=(1, 2)), TypeError),
        (lambda: ops.SampleDistortedBoundingBoxV2(use_image_if_no_bounding_boxes=1), TypeError),
        (lambda: ops.SampleDistortedBoundingBoxV2(area_range=(0.9, 0.5))(SIZE, BOXES, LEAST), ValueError),
        (lambda: ops.SampleDistortedBoundingBoxV2()(SIZE, Tensor(np.zeros((1, 0, 4), np.float32)), LEAST), ValueError),
        (lambda: ops.SampleDistortedBoundingBoxV2()(SIZE[:2], BOXES, LEAST), ValueError),
        (lambda: ops.SampleDistortedBoundingBoxV2()(SIZE, BOXES[0], LEAST), ValueError),
        (lambda: ops.SampleDistortedBoundingBoxV2()(SIZE * 0, BOXES, LEAST), RuntimeError),
        (lambda: ops.SampleDistortedBoundingBoxV2()(SIZE, BOXES * 3, LEAST), RuntimeError),
        (lambda: ops.SampleDistortedBoundingBoxV2()(SIZE, BOXES[..., ::-1], LEAST), RuntimeError),
        (lambda: ops.SampleDistortedBoundingBoxV2()(SIZE, BOXES, LEAST * 3), RuntimeError),
        (lambda: ops.SampleDistortedBoundingBoxV2()(SIZE.astype(fj.float32), BOXES, LEAST), TypeError),
        (lambda: ops.SampleDistortedBoundingBoxV2()(SIZE, BOXES.asnumpy(), LEAST), TypeError),
    ],
)
def test_drawn_parts_refuse(call, error):
    with pytest.raises(error):
        call()


def test_morph_is_its_function():
    factor = Tensor([3.0])
    morph = ops.Morph(lambda x, by=factor: x * by, lambda x: x, lambda x: x)
    x = Tensor([2.0])
    for function in (morph, fj.jit(lambda x: morph(x))):
        assert function(x).tolist() == [6.0]
        assert fj.grad(function)(x).tolist() == [3.0]
    assert morph(x, by=Tensor([5.0])).tolist() == [10.0]
    own = ops.Morph(lambda x, y: x * y, None, None, lambda x, y, out, dout: (dout + out, dout * 7))
    for gradient in (fj.grad(own, (0, 1)), fj.grad(lambda x, y: own(x, y), (0, 1))):
        assert [one.tolist() for one in gradient(x, factor)] == [[7.0], [7.0]]
    with pytest.raises(ValueError, match="only support positional"):
        ops.Morph(lambda x, by=factor: x, None, None, lambda x, out, dout: dout)
    with pytest.raises(TypeError):
        ops.Morph(3, None, None)


def test_generated_functions_of_views():
    x = Tensor(np.arange(6.0).reshape(2, 3))
    assert [part.tolist() for part in ops.split_tensor_view_op(x, 2, 1)] == [[[0, 1], [3, 4]], [[2], [5]]]
    assert ops.slice_ext_view_op(x, 1, 0, 3, 2).tolist() == [[0, 2], [3, 5]]
    assert ops.select_ext_view_op(x, -1, 1).tolist() == [1, 4]
    assert ops.inplace_copy_op(x[0], Tensor([7.0, 8.0, 9.0])).tolist() == [7, 8, 9]


def test_marks_of_parts():
    from framejit._mindspore.jit_begin_end import _jit_begin, _jit_end

    def function(x, y):
        _jit_begin("part", x, y)
        a, b = _jit_end(x + y, x * y)
        return _jit_end(a - b)

    x, y = Tensor([2.0]), Tensor([5.0])
    assert function(x, y).tolist() == fj.jit(function)(x, y).tolist() == [-3.0]


def test_networks_without_first_numbers_take_those_of_a_checkpoint():
    with nn.no_init_parameters():
        net = nn.Dense(3, 2)
    fj.load_param_into_net(net, {"weight": fj.Parameter(Tensor(np.full((2, 3), 5.0, np.float32)), name="weight")})
    assert (net.weight.asnumpy() == 5).all() and np.isfinite(net.bias.asnumpy()).all()
