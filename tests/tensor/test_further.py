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
