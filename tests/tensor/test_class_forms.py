"""Primitives and functions whose values no row of MindSpore's comparison has: what is drawn, written in place, or known by itself."""

from __future__ import annotations

import re

import framejit as fj
import numpy as np
import pytest
from framejit import Parameter, Tensor, mint, nn, ops
from framejit.ops import _primitives
from framejit._core import _array

pytestmark = pytest.mark.capture
RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(200, 50)).astype(np.float32)


# --- What is drawn -----------------------------------------------------------------------------------------------------------

# What is drawn into zeros of this shape, and its mean and deviation.
DRAWN = {
    "x.uniform_(1, 3)": (2, (4 / 12) ** 0.5),
    "ops.uniform_(x, -1, 1)": (0, (4 / 12) ** 0.5),
    "x.normal_(2, 3)": (2, 3),
    "ops.normal_(x)": (0, 1),
    "x.exponential_(2)": (0.5, 0.5),
    "ops.exponential_(x)": (1, 1),
    "x.bernoulli_(0.25)": (0.25, (0.25 * 0.75) ** 0.5),
    "x.random_(0, 10)": (4.5, (99 / 12) ** 0.5),
    "ops.random_(x, 10, 20)": (14.5, (99 / 12) ** 0.5),
    "x.uniform(0, 2)": (1, (4 / 12) ** 0.5),
    "ops.log(x.log_normal(1.0, 2.0))": (1, 2),
    "ops.TruncatedNormal()(Tensor([200, 50]))": (0, 0.88),
    "ops.ParameterizedTruncatedNormal()(Tensor([200, 50]), Tensor([1.0]), Tensor([2.0]), Tensor([-100.0]), Tensor([100.0]))": (1, 2),
    "ops.random_gamma(Tensor([200]), ops.ones(50) * 4)": (4, 2),
    "ops.random_poisson(Tensor([200]), ops.ones(50) * 4)": (4, 2),
    "ops.RandomPoisson()(Tensor([200]), ops.ones(50) * 4)": (4, 2),
    "ops.UniformInt()((200, 50), Tensor(0), Tensor(10))": (4.5, (99 / 12) ** 0.5),
    "ops.log(ops.LogNormalReverse(2.0, 1.0)(x))": (2, 1),
    "ops.random_categorical(ops.zeros((200, 3)), 50)": (1, (2 / 3) ** 0.5),
    "ops.Multinomial()(ops.ones((200, 3)), 50)": (1, (2 / 3) ** 0.5),
    "ops.multinomial_with_replacement(ops.ones((200, 3)), 1, 2, 50, True)": (1, (2 / 3) ** 0.5),
}


@pytest.mark.parametrize("text", DRAWN)
def test_drawn(text):
    fj.set_seed(5)
    x = ops.zeros((200, 50))
    drawn = eval(text).asnumpy().astype("f8")
    mean, deviation = DRAWN[text]
    assert drawn.shape == (200, 50) and abs(drawn.mean() - mean) < 6 * deviation / 100
    assert abs(drawn.std() - deviation) < 0.06 * deviation
    if "x." in text and "_(" in text:
        assert x.tolist() == drawn.tolist()


def test_cauchy():
    drawn = np.sort(ops.Cauchy([10001], 2.0, 3.0)().asnumpy())
    assert abs(drawn[5000] - 2) < 0.3 and abs(drawn[7500] - drawn[2500] - 6) < 0.6
    assert ops.zeros((3, 4)).cauchy().shape == (3, 4)
    assert len({*ops.NonDeterministicInts()(Tensor([100])).tolist()}) > 90


def test_candidates():
    drawn, true, expected = ops.log_uniform_candidate_sampler(Tensor([[0], [3]]), 1, 4, True, 5, 7)
    assert sorted({*drawn.tolist()}) == sorted(drawn.tolist()) and set(drawn.tolist()) <= set(range(5))
    assert true.shape == (2, 1) and (true.asnumpy() <= 1).all() and true[0, 0] > true[1, 0] and expected.shape == (4,)
    drawn, _, _ = ops.uniform_candidate_sampler(Tensor([[1], [0]]), 1, 3, True, 5, 7, True)
    assert sorted(drawn.tolist()) == [2, 3, 4]
    with pytest.raises(ValueError, match="range_max"):
        ops.uniform_candidate_sampler(Tensor([[1]]), 1, 9, True, 5)
    places, there = ops.choice_with_mask(Tensor([[True, False], [True, True]]), 5)
    assert there.tolist() == [True] * 3 + [False] * 2 and places[3:].tolist() == [[0, 0]] * 2
    assert sorted(places[:3].tolist()) == [[0, 0], [1, 0], [1, 1]]


@pytest.mark.parametrize("name", ["Dropout2D", "Dropout3D"])
def test_dropped_channels(name):
    fj.set_seed(1)
    x = ops.ones((8, 50, *[2] * int(name[-2])))
    out, mask = getattr(ops, name)(0.75)(x)
    lines = mask.asnumpy().reshape(400, -1)
    assert (lines == lines[:, :1]).all() and 0.65 < lines.mean() < 0.85
    np.testing.assert_allclose(out.asnumpy(), mask.asnumpy() / 0.75, rtol=1e-6)


def test_generators():
    generator = fj.Generator().manual_seed(4)
    assert isinstance(generator, fj.Generator) and generator.initial_seed() == 4
    state = generator.get_state()
    half = ops.zeros(40) + 0.5
    first = [mint.bernoulli(half, generator=generator).tolist(), mint.normal(0.0, 1.0, (3,), generator).tolist()]
    outside = ops.rand(3).tolist()
    generator.set_state(state)
    again = [mint.bernoulli(half, generator=generator).tolist(), mint.normal(0.0, 1.0, (3,), generator).tolist()]
    assert first == again and generator.initial_seed() == 4 and ops.rand(3).tolist() != outside
    assert mint.randperm(50, generator=fj.Generator().manual_seed(4)).tolist() == mint.randperm(50, generator=fj.Generator().manual_seed(4)).tolist()
    assert fj.manual_seed(9) is fj.default_generator and fj.initial_seed() == 9 == fj.default_generator.initial_seed()
    drawn = ops.rand(3).tolist()
    fj.default_generator.manual_seed(9)
    assert ops.rand(3).tolist() == drawn
    assert fj.seed() == fj.initial_seed()
    with pytest.raises(TypeError):
        generator.manual_seed("a")


# --- In place ----------------------------------------------------------------------------------------------------------------

IN_PLACE = {
    "ops.clamp_(x, -1, 1)": lambda x: x.clip(-1, 1),
    "ops.tanh_(x)": np.tanh,
    "ops.zero_(x)": np.zeros_like,
    "ops.inplace_sigmoid(x)": lambda x: 1 / (1 + np.exp(-x)),
    "ops.erfinv_(ops.clamp_(x, 0, 0))": np.zeros_like,
    "ops.put_(x, Tensor([0, -1]), Tensor([5.0, 6.0]))": lambda x: np.array([[5, *x[0, 1:]], [*x[1, :-1], 6]], "f4"),
    "x.put_(Tensor([0, 0]), Tensor([5.0, 6.0]), True)": lambda x: x + np.float32([[11, 0, 0], [0, 0, 0]]),
    "x.fill_diagonal_(2.0)": lambda x: np.where(np.eye(2, 3, dtype=bool), np.float32(2), x),
    "x.index_copy_(1, Tensor([2, 0]), Tensor([[1.0, 2.0], [3.0, 4.0]]))": lambda x: np.float32([[2, x[0, 1], 1], [4, x[1, 1], 3]]),
    "x.masked_scatter_(x == x, Tensor([[9.0] * 6]))": lambda x: np.full_like(x, 9),
    "x.scatter_add_(1, Tensor([[0, 0]]), Tensor([[1.0, 2.0]]))": lambda x: x + np.float32([[3, 0, 0], [0, 0, 0]]),
    "mint.addr_(x, Tensor([1.0, 2.0]), Tensor([1.0, 0.0, 3.0]))": lambda x: x + np.float32([[1, 0, 3], [2, 0, 6]]),
    "mint.nn.functional.elu_(x)": lambda x: np.where(x > 0, x, np.expm1(x)),
    "mint.nn.functional.relu_(x)": lambda x: x.clip(0),
    "mint.nn.functional.sigmoid_(x)": lambda x: 1 / (1 + np.exp(-x)),
    "mint.nn.functional.hardtanh_(x)": lambda x: x.clip(-1, 1),
    "mint.nn.functional.threshold_(x, 0.5, 7.0)": lambda x: np.where(x > 0.5, x, np.float32(7)),
    "ops.relu(x, inplace=True)": lambda x: x.clip(0),
    "ops.stop_gradient_(x)": lambda x: x,
}


@pytest.mark.parametrize("text", IN_PLACE)
def test_in_place(text):
    start = np.float32([[0.3, -2, 1.5], [4, -0.5, 0.75]])
    for mark in (lambda f: f, fj.jit):
        x = Tensor(start)
        out = mark(eval(f"lambda x: {text}"))(x)
        np.testing.assert_allclose(x.asnumpy(), IN_PLACE[text](start), rtol=1e-6)
        assert out.tolist() == x.tolist()


def test_wrong_places():
    x = ops.zeros(3)
    with pytest.raises(IndexError):
        x.put_(Tensor([3]), Tensor([1.0]))
    with pytest.raises(ValueError, match="as many"):
        x.put_(Tensor([0, 1]), Tensor([1.0]))
    for call in (lambda: x.uniform_(2, 1), lambda: x.normal_(0, -1), lambda: x.exponential_(0), lambda: x.random_(5, 5)):
        with pytest.raises(ValueError):
            call()


# --- Linear algebra, normalization, layers ---------------------------------------------------------------------------------------


def test_triangles():
    a = np.triu(RANDOM.normal(size=(4, 4))) + 4 * np.eye(4)
    b = RANDOM.normal(size=(4, 2))
    x, triangle = mint.triangular_solve(Tensor(b), Tensor(a + np.tril(np.ones((4, 4)), -1)))
    np.testing.assert_allclose(a @ x.asnumpy(), b, atol=1e-12)
    assert triangle.asnumpy().tolist() == a.tolist()
    np.testing.assert_allclose(a.T @ Tensor(b).triangular_solve(Tensor(a), True, True)[0].asnumpy(), b, atol=1e-12)
    lower = np.tril(a.T, -1) + np.eye(4)
    np.testing.assert_allclose(lower @ mint.triangular_solve(Tensor(b), Tensor(a.T), False, False, True)[0].asnumpy(), b, atol=1e-12)


def test_reflectors():
    a = RANDOM.normal(size=(5, 3))
    y, tau = ops.geqrf(Tensor(a))
    q = ops.orgqr(y, tau).asnumpy()
    np.testing.assert_allclose(q @ np.triu(y.asnumpy()[:3]), a, atol=1e-12)
    whole = ops.ormqr(y, tau, Tensor(np.eye(5))).asnumpy()
    np.testing.assert_allclose(whole @ whole.T, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(whole[:, :3], q, atol=1e-12)
    np.testing.assert_allclose(y.ormqr(tau, Tensor(a), True, True).asnumpy(), whole.T @ a, atol=1e-12)
    np.testing.assert_allclose(ops.Ormqr(False)(y, tau, Tensor(a.T)).asnumpy(), a.T @ whole, atol=1e-12)


def test_statistics_of_batches():
    x = RANDOM.normal(size=(6, 3, 4)).astype("f4")
    mean, scale = mint.batch_norm_stats(Tensor(x), 1e-5)
    np.testing.assert_allclose(mean.asnumpy(), x.mean((0, 2)), atol=1e-6)
    np.testing.assert_allclose(scale.asnumpy(), 1 / np.sqrt(x.var((0, 2)) + 1e-5), rtol=1e-5)
    halves = [mint.batch_norm_stats(Tensor(part), 1e-5) for part in (x[:2], x[2:])]
    moving = ops.zeros(3), ops.ones(3)
    means, scales = (ops.stack(parts) for parts in zip(*halves))
    found = mint.batch_norm_gather_stats_with_counts(Tensor(x), means, scales, *moving, 0.5, 1e-5, Tensor([8.0, 16.0]))
    np.testing.assert_allclose(found[0].asnumpy(), mean.asnumpy(), atol=1e-6)
    np.testing.assert_allclose(found[1].asnumpy(), scale.asnumpy(), rtol=1e-5)
    np.testing.assert_allclose(moving[0].asnumpy(), mean.asnumpy() / 2, atol=1e-6)
    np.testing.assert_allclose(moving[1].asnumpy(), 0.5 + x.var((0, 2), ddof=1) / 2, rtol=1e-5)
    out = mint.batch_norm_elemt(Tensor(x), Tensor([2.0, 2, 2]), Tensor([1.0, 1, 1]), mean, scale).asnumpy()
    np.testing.assert_allclose(out.mean((0, 2)), 1, atol=1e-5)
    np.testing.assert_allclose(out.std((0, 2)), 2, rtol=1e-3)


def test_layers_of_mint():
    x = Tensor(RANDOM.normal(size=(2, 3, 5, 5)).astype("f4"))
    layer = mint.nn.ConvTranspose2d(3, 4, 3, 2, 1, 1)
    expected = mint.nn.functional.conv_transpose2d(x, layer.weight, layer.bias, 2, 1, 1)
    assert layer(x).asnumpy().tobytes() == expected.asnumpy().tobytes() and layer(x).shape == (2, 4, 10, 10)
    columns = mint.nn.Unfold(2, stride=1)(x)
    counted = mint.nn.Fold((5, 5), 2)(mint.nn.Unfold(2)(ops.ones_like(x))).asnumpy()
    np.testing.assert_allclose(mint.nn.Fold((5, 5), 2)(columns).asnumpy(), x.asnumpy() * counted, rtol=1e-6)
    assert mint.nn.ZeroPad1d(1)(x[0]).shape == (3, 5, 7) and mint.nn.ZeroPad3d((1, 0, 2, 0, 3, 0))(x).shape == (2, 6, 7, 6)
    near = mint.nn.UpsamplingNearest2d(scale_factor=2.0)
    with pytest.raises(ValueError):
        near(x)
    assert mint.nn.UpsamplingNearest2d((10, 10))(x).asnumpy()[..., ::2, ::2].tolist() == x.tolist()
    wide = mint.nn.UpsamplingBilinear2d((9, 9))(x).asnumpy()
    np.testing.assert_allclose(wide[..., ::2, ::2], x.asnumpy(), atol=1e-6)
    lines = RANDOM.normal(size=(6, 2, 3)).astype("f4")
    weight = RANDOM.normal(size=(2, 3, 4)).astype("f4")
    out = mint.conv_tbc(Tensor(lines), Tensor(weight), Tensor([1.0, 2, 3, 4]), 0).asnumpy()
    np.testing.assert_allclose(out, lines[:-1] @ weight[0] + lines[1:] @ weight[1] + [1, 2, 3, 4], atol=1e-5)
    np.testing.assert_allclose(mint.npu_gelu(x).asnumpy(), ops.gelu(x).asnumpy())
    images = ops.ones((4, 3, 2, 2))
    dropped = nn.Dropout2dExt(0.5, True).set_train()(images)
    assert dropped.tolist() == images.tolist() and set(images.asnumpy().ravel()) <= {0, 2}


# --- Python's values -----------------------------------------------------------------------------------------------------------

SAID = {
    "bool_and(True, False)": False, "bool_or(True, False)": True, "bool_eq(True, True)": True, "bool_not(True)": False, "string_eq('a', 'a')": True,
    "string_concat('a', 'b')": "ab", "make_dict(('a', 'b'), (1, 2))": {"a": 1, "b": 2}, "dict_setitem({'a': 1}, 'a', 2)": {"a": 2},
    "dict_getitem({'a': 1}, 'a')": 1, "list_setitem([1, 2], 0, 9)": [9, 2], "list_equal([1], [2])": False, "tuple_equal((1,), (1,))": True,
    "not_in_dict('a', {})": True, "is_not(1, None)": True, "make_list(1, 2)": [1, 2], "zip_operation((1, 2), (3, 4))": ((1, 3), (2, 4)),
    "iter_converter([1, 2])": (1, 2), "ms_hasnext((1,))": True, "ms_next((1, 2))": (1, (2,)), "scalar_uadd(-2)": -2, "reduced_shape((2, 3), 1)": (2, 1),
    "reduced_shape((2, 3), ())": (1, 1), "list_getitem([1, 2], 1)": 2, "make_slice(1, 2, 3)": slice(1, 2, 3),
}  # fmt: skip


@pytest.mark.parametrize("text", SAID)
def test_operators_of_the_language(text):
    for mark in (lambda f: f, fj.jit):
        found = mark(eval(f"lambda: ops.{text}", {"ops": ops}))()
        assert found == SAID[text] and type(found) is type(SAID[text])


def test_sparse_forms():
    indices, values = Tensor([[0, 1], [1, 2]]), Tensor([1.0, 2.0])
    for make in (ops.make_coo_tensor, ops.make_sparse_tensor):
        made = make(indices, values, (3, 4))
        assert ops.coo_tensor_get_dense_shape(made) == (3, 4) and ops.coo_tensor_get_indices(made) is made.indices
        assert ops.coo_tensor_get_values(made) is made.values
    former = fj.SparseTensor(indices, values, (3, 4))
    assert isinstance(former, fj.COOTensor) and former.to_dense().tolist() == made.to_dense().tolist()
    rows = ops.make_row_tensor(Tensor([0]), Tensor([[1.0, 2.0]]), (3, 2))
    assert ops.row_tensor_get_values(rows) is rows.values and ops.row_tensor_get_dense_shape(rows) == (3, 2)
    made = ops.make_csr_tensor(Tensor([0, 1, 2]), Tensor([1, 2]), values, (2, 3))
    assert ops.csr_tensor_get_values(made) is made.values and ops.csr_tensor_get_indices(made) is made.indices
    starts = ops.coo2csr(Tensor([0, 0, 2], fj.int32), 4)
    assert starts.tolist() == [0, 2, 2, 3, 3] and ops.csr2coo(starts, 3).tolist() == [0, 0, 2]
    added = ops.SparseTensorDenseAdd()(indices, values, Tensor([2, 3]), ops.ones((2, 3)))
    assert added.tolist() == [[1, 2, 1], [1, 1, 3]]
    places, sums, _ = ops.coalesce(Tensor([[1, 0, 1], [2, 1, 2]]), Tensor([1.0, 5.0, 4.0]), Tensor([3, 3]))
    assert places.tolist() == [[0, 1], [1, 2]] and sums.tolist() == [5, 5]


def test_flags_and_attributes():
    @ops.add_flags(core=True)
    def function():
        pass

    assert function._func_graph_flags == {"core": True}

    class Own(ops.Primitive):
        @ops.prim_arg_register
        def __init__(self, axis, keep=False):
            self.sum = axis + keep

    own = Own(3, keep=True)
    assert (own.axis, own.keep, own.sum) == (3, True, 4) and "axis" not in own.attrs
    layers = ops.sin, ops.cos
    assert ops.switch_layer(Tensor(1), layers) is ops.cos
    assert ops.mixed_precision_cast(fj.float16, {"a": [Tensor([1.0]), Tensor([1])]})["a"][0].dtype is fj.float16


def test_detections():
    boxes = Tensor(np.float32([[[[0, 0, 1, 1]], [[0, 0.1, 1, 1.1]], [[0, 5, 1, 6]]]]))
    scores = Tensor(np.float32([[[0.9, 0.1], [0.8, 0.7], [0.3, 0.6]]]))
    numbers = [Tensor(2, fj.int32), Tensor(4, fj.int32), Tensor(0.5), Tensor(0.2)]
    found, points, classes, count = ops.CombinedNonMaxSuppression(clip_boxes=False)(boxes, scores, *numbers)
    np.testing.assert_allclose(points.asnumpy(), [[0.9, 0.7, 0.6, 0.3]])
    assert classes.tolist() == [[0, 1, 1, 0]] and count.tolist() == [4]
    np.testing.assert_allclose(found.asnumpy()[0], [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6], [0, 5, 1, 6]])


def test_fractional_pools_cover_the_image():
    x = Tensor(RANDOM.normal(size=(1, 11, 9, 2)).astype("f4"))
    for pseudo in (False, True):
        out, rows, columns = ops.FractionalMaxPool([1.0, 1.5, 2.0, 1.0], pseudo, deterministic=True, seed=2)(x)
        assert out.shape == (1, 7, 4, 2) and rows.tolist()[::7] == [0, 11] and columns.tolist()[::4] == [0, 9]
        assert set(np.diff(rows.asnumpy())) <= {1, 2} and set(np.diff(columns.asnumpy())) <= {2, 3}
        again = ops.FractionalMaxPool([1.0, 1.5, 2.0, 1.0], pseudo, deterministic=True, seed=2)(x)
        assert len(again[1].tolist()) == 8
        i, j = rows.tolist(), columns.tolist()
        assert out[0, 1, 2, 0].item() == x.asnumpy()[0, i[1] : i[2], j[2] : j[3], 0].max()


# --- Arguments by name ------------------------------------------------------------------------------------------------------------


def test_operators_take_operands_by_name():
    x, y = Tensor([4.0, 9.0]), Tensor([2.0, 3.0])
    calls = {
        "ops.add(x, other=y)": [6, 12],
        "ops.sub(other=y, input=x)": [2, 6],
        "ops.pow(input=x, exponent=2)": [16, 81],
        "ops.sqrt(x=x)": [2, 3],
        "ops.floor_div(x=x, y=y)": [2, 3],
        "ops.true_divide(dividend=x, divisor=y)": [2, 3],
        "ops.abs(input=-x)": [4, 9],
        "ops.matmul(x, other=y)": 35,
    }
    for text, wanted in calls.items():
        function = eval(f"lambda x, y: {text}")
        assert function(x, y).tolist() == wanted == fj.jit(function, fullgraph=True)(x, y).tolist()
    for text, said in {
        "ops.add(x, input=x)": "multiple values for argument 'input'",
        "ops.abs(foo=x)": "unexpected keyword argument 'foo'",
        "ops.add(x)": r"takes 2 arguments \(1 given\)",
    }.items():
        for mark in (lambda f: f, fj.jit):
            with pytest.raises(TypeError, match=said):
                mark(eval(f"lambda x: {text}"))(x)


def test_arrays_of_tensors_stay_arrays():
    """What compiled code gives back, or keeps over a break, is the array in which the Tensor has its elements."""

    def kept(x, n):
        rows = _array(x)
        found = np.bincount(_array(n))  # a break
        return rows, found

    x = Tensor([1.0, 2.0])
    marked = fj.jit(kept)
    for _ in range(3):
        rows, found = marked(x, Tensor([0, 1, 1]))
        assert type(rows) is np.ndarray and rows.tolist() == [1, 2] and found.tolist() == [1, 2]
    plain = fj.jit(lambda x: _array(x))
    assert type(plain(x)) is np.ndarray


def test_settings():
    fj.set_recursion_limit(700)
    assert fj.get_context("max_call_depth") == 700
    fj.set_recursion_limit()
    with pytest.raises(ValueError):
        fj.set_recursion_limit(0)


def test_run_check(capsys):
    fj.run_check()
    assert fj.__version__ in capsys.readouterr().out


def test_loading_with_other_options(tmp_path):
    net = nn.Dense(2, 3)
    fj.save_checkpoint(net, str(tmp_path / "net.ckpt"))
    found = fj.load_checkpoint(str(tmp_path / "net.ckpt"), crc_check=True, remove_redundancy=True, format="ckpt")
    assert fj.load_param_into_net(nn.Dense(2, 3), found, remove_redundancy=True) == ([], [])
    later = fj.load_checkpoint_async(str(tmp_path / "net.ckpt"), nn.Dense(2, 3)).result()
    assert later["weight"].tolist() == net.weight.tolist() == found["weight"].tolist()
    with pytest.raises(ValueError, match="format"):
        fj.load_checkpoint(str(tmp_path / "net.ckpt"), format="x")


def test_inplace_index_add_of_a_parameter():
    weight = Parameter(Tensor([[1.0, 2.0], [3.0, 4.0]]))
    ops.inplace_index_add(weight, Tensor([1], fj.int32), Tensor([[10.0, 20.0]]), 0)
    assert weight.tolist() == [[1, 2], [13, 24]]


BESSEL = ["j0", "j1", "y0", "y1", "i0", "i1", "k0", "k1", "i0e", "i1e", "k0e", "k1e"]


@pytest.mark.parametrize("name", BESSEL)
def test_gradients_of_bessel(name):
    x = np.array([0.3, 1.7, 4.0])
    function = getattr(ops, f"bessel_{name}")
    found = fj.grad(lambda x: function(x).sum())(Tensor(x)).asnumpy()
    step = 1e-6
    wanted = (function(Tensor(x + step)).asnumpy() - function(Tensor(x - step)).asnumpy()) / (2 * step)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    if name[0] in "ji":
        assert np.isfinite(fj.grad(lambda x: function(x).sum())(Tensor([0.0])).asnumpy()).all()


OF_OPERANDS = sorted(name for name in ops.__all__ if isinstance(getattr(ops, name), type) and issubclass(getattr(ops, name), _primitives._OfOperands))


@pytest.mark.parametrize("name", OF_OPERANDS)
def test_operands_are_no_sequences(name):
    primitive = getattr(ops, name)()
    x = Tensor([1.0, 2.0])
    count = int(primitive._inputs[0])
    for at in range(count):
        for sequence, kind in (([1.0, x], "List<float, Tensor>"), ((1, (2,)), "Tuple<int, Tuple<int>>")):
            operands = [x] * at + [sequence] + [x] * (count - at - 1)
            shown = ", ".join("Tensor" if operand is x else kind for operand in operands)
            with pytest.raises(TypeError, match=re.escape(f'Failed calling {name} with "{name}()({shown})".')):
                primitive(*operands)
            with pytest.raises(TypeError, match=re.escape(f'Failed calling {name} with "{name}()({shown})".')):
                fj.jit(lambda *operands: primitive(*operands))(*operands)


def test_most_primitives_of_operands_are_found():
    assert len(OF_OPERANDS) > 80 and {"Add", "Less", "Equal", "Sin", "Pow", "LogicalAnd", "DivNoNan", "Xdivy"} <= set(OF_OPERANDS)
    assert fj.explain(lambda x: ops.Less()(x, 2.0))(Tensor([1.0])).breaks == []
