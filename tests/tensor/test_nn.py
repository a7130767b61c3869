"""framejit.nn: cells, what holds them, layers, and how calls of them are compiled."""

from __future__ import annotations

import collections
import copy
import os
import re
import subprocess
import sys
from pathlib import Path

import framejit as fj
import numpy as np
import pytest
from framejit import Parameter, Tensor, nn, ops
from tensor.tensor_support import assert_array, assert_same, marked_as_eager

pytestmark = pytest.mark.capture


class Inner(nn.Cell):
    def __init__(self, size=3):
        super().__init__()
        self.weight = Parameter(Tensor(np.arange(size, dtype=np.float32)))
        self.fixed = Parameter(Tensor([1.0]), name="given", requires_grad=False)

    def construct(self, x, scale=1.0):
        return x * self.weight * scale + self.fixed


class Outer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = Inner()
        self.own = Parameter(Tensor(2.0))
        self.layers = nn.CellList([nn.Dense(3, 3), nn.Tanh()])
        self.last = nn.SequentialCell(nn.Dense(3, 2, has_bias=False), nn.Softmax())
        self.names = ["not", "cells"]
        self.add = ops.Add()

    def construct(self, x):
        x = self.first(x, scale=2.0) * self.own
        for layer in self.layers:
            x = layer(x)
        if self.training:
            x = self.add(x, 1)
        return self.last(x) + self.layers[0].bias.sum() + len(self.layers)


@pytest.fixture(autouse=True)
def eager_mode():
    yield
    fj.set_context(mode=fj.PYNATIVE_MODE, jit_syntax_level=fj.context.LAX)


X = Tensor(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))


def test_parameters_and_names():
    net = Outer()
    names = ["own", "first.weight", "first.fixed", "layers.0.weight", "layers.0.bias", "last.0.weight"]
    assert [p.name for p in net.get_parameters()] == names
    assert [n for n, _ in net.parameters_and_names()] == names
    assert [p.name for p in net.trainable_params()] == [n for n in names if "fixed" not in n]
    assert [p.name for p in net.untrainable_params()] == ["first.fixed"] and list(net.parameters_dict()) == names
    assert [n for n, _ in net.cells_and_names()] == ["", "first", "layers", "layers.0", "layers.1", "last", "last.0", "last.1"]
    assert list(net.name_cells()) == ["first", "layers", "last"] and [p.name for p in net.get_parameters(expand=False)] == ["own"]
    net.check_names()
    assert copy.deepcopy(net)(X).tolist() == net(X).tolist()


def test_a_network_is_one_graph():
    net = Outer()
    expected = net(X)
    marked = fj.jit(net)
    for _ in range(2):
        assert_same(marked(X), expected)
    explained = fj.explain(net.construct)(X)
    assert explained.breaks == [] and len(explained.graphs) == 1
    net.set_train()
    trained = net(X)
    assert not np.array_equal(trained.asnumpy(), expected.asnumpy())
    assert_same(marked(X), trained)
    net.own.set_data(Tensor(5.0))
    assert_same(marked(X), net(X))
    net.own = Tensor(7.0)
    assert_same(marked(X), net(X))
    assert not isinstance(marked, nn.Cell) and isinstance(net.own, Parameter)


def test_jit_of_a_class():
    class Marked(Inner):
        def construct(self, x):
            return x * self.weight

    before = Marked()(X)
    assert fj.jit(Marked) is Marked
    assert_same(Marked()(X), before)
    assert Marked.construct.cache_entries()

    class Decorated(nn.Cell):
        @fj.jit
        def construct(self, x):
            return x + 1

    assert_same(Decorated()(X), X + 1)
    assert Decorated.construct.cache_entries()


@pytest.mark.parametrize("mode", ["graph mode", "config"])
def test_calls_are_compiled(mode):
    class Net(nn.Cell):
        def construct(self, x, y=1.0):
            return x * 2 + y

    net = Net()
    expected = net(X, y=3.0)
    before = fj.stats()["frames_captured"]
    if mode == "config":
        net.set_jit_config(fj.JitConfig(jit_level="O0"))
    else:
        fj.set_context(mode=fj.GRAPH_MODE)
    assert_same(net(X, y=3.0), expected)
    assert_same(net(X, y=3.0), expected)
    assert fj.stats()["frames_captured"] >= before + 2


def test_strict_syntax_is_fullgraph():
    class Net(nn.Cell):
        def construct(self, x):
            fj.graph_break("one that is always there")
            return x + 1

    strict, lax = Net(), Net()
    strict.set_jit_config(fj.JitConfig(jit_level="O0", jit_syntax_level="STRICT"))
    lax.set_jit_config(fj.JitConfig(jit_level="O0"))
    assert_same(lax(X), Net()(X))
    with pytest.raises(fj.GraphBreakError):
        strict(X)
    strict.set_jit_config(fj.JitConfig(jit_level="O0", jit_syntax_level="LAX"))
    assert_same(strict(X), Net()(X))
    with pytest.raises(AttributeError):
        strict.set_jit_config(object())


def test_ms_jit_0_is_eager(monkeypatch):
    monkeypatch.setenv("MS_JIT", "0")
    fj.set_context(mode=fj.GRAPH_MODE)
    before = fj.stats()["frames_captured"]
    Inner()(X)
    assert fj.stats()["frames_captured"] == before


def test_errors_of_cells():
    with pytest.raises(AttributeError, match="'construct' is not defined"):
        nn.Cell()()
    with pytest.raises(TypeError):
        Inner()()

    class Early(nn.Cell):
        def __init__(self):
            self.weight = Parameter(Tensor(1.0))

    with pytest.raises(AttributeError, match="__init__"):
        Early()
    net = Inner()
    with pytest.raises(TypeError, match="already exists in the network"):
        net.weight = 3
    with pytest.raises(TypeError, match="must be Cell"):
        Outer().__setattr__("first", 3)
    with pytest.raises(AttributeError):
        net.nothing
    with pytest.raises(KeyError):
        net.insert_param_to_cell("a.b", Parameter(1.0))
    with pytest.raises(TypeError):
        fj.nn.CellList([1])
    with pytest.raises(ValueError):
        nn.Dense(0, 1)
    with pytest.raises(TypeError):
        nn.Softmax(nothing=1)
    del net.weight
    assert [p.name for p in net.get_parameters()] == ["given"] and not hasattr(net, "weight")


def test_hooks():
    net, seen = Inner(), []
    plain = net(X)
    before = net.register_forward_pre_hook(lambda cell, inputs: seen.append(len(inputs)) or (inputs[0] * 2,))
    after = net.register_forward_hook(lambda cell, inputs, output: output + 1)
    changed = net(X)
    assert seen == [1]
    assert_same(changed, Inner()(X * 2) + 1)
    assert_same(fj.jit(lambda x: net(x))(X), changed)
    before.remove()
    assert_same(net(X), plain + 1)
    after.remove()
    assert_same(net(X), plain)
    with pytest.raises(TypeError):
        net.register_forward_hook(3)


def test_cell_list():
    cells = nn.CellList([nn.ReLU(), nn.Tanh()])
    cells.append(nn.Sigmoid())
    cells.extend([nn.Softmax(0)])
    cells.insert(0, nn.Dense(3, 3))
    assert len(cells) == 5 and isinstance(cells[-1], nn.Softmax) and isinstance(cells[1:3], nn.CellList) and len(cells[1:3]) == 2
    cells[1] = nn.ReLU6()
    del cells[2]
    assert [type(c).__name__ for c in cells] == ["Dense", "ReLU6", "Sigmoid", "Softmax"]
    assert [p.name for p in cells.get_parameters()] == ["0.weight", "0.bias"]
    with pytest.raises(NotImplementedError):
        cells()
    with pytest.raises(IndexError):
        cells[9]


def test_sequential_cell_and_cell_dict():
    dense = nn.Dense(3, 3)
    named = nn.SequentialCell(collections.OrderedDict(a=dense, b=nn.ReLU()))
    assert_same(named(X), ops.relu(dense(X)))
    assert [n for n, _ in named.parameters_and_names()] == ["a.weight", "a.bias"]
    assert_same(nn.SequentialCell([nn.ReLU(), nn.Tanh()]).append(nn.Sigmoid())(X), ops.sigmoid(ops.tanh(ops.relu(X))))
    cells = nn.CellDict({"one": nn.ReLU(), "two": nn.Dense(3, 3)})
    assert list(cells) == ["one", "two"] == list(cells.keys()) and "one" in cells and len(cells) == 2
    assert [p.name for p in cells.get_parameters()] == ["two.weight", "two.bias"] and isinstance(cells.pop("one"), nn.ReLU)
    with pytest.raises(KeyError):
        cells["one"]

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.cells_of = nn.CellDict({"one": nn.ReLU(), "two": nn.Tanh()})

        def construct(self, x):
            return self.cells_of["one"](x) + self.cells_of["two"](x)

    net = Net()
    assert_same(fj.jit(net)(X), net(X))


LAYERS = {
    "ReLU()": "ops.relu(x)", "Sigmoid()": "ops.sigmoid(x)", "Tanh()": "ops.tanh(x)", "Softmax(0)": "ops.softmax(x, 0)", "GELU()": "ops.gelu(x, 'tanh')",
    "LeakyReLU(0.3)": "ops.leaky_relu(x, 0.3)", "ELU()": "ops.elu(x)", "LogSoftmax()": "ops.log_softmax(x)", "Flatten()": "ops.flatten(x)",
    "Identity()": "x", "Dropout(p=0.5)": "x", "SiLU()": "ops.silu(x)", "Softplus()": "ops.softplus(x)", "Hardtanh()": "ops.hardtanh(x)",
    "Unflatten(1, (3, 1))": "ops.reshape(x, (-1, 3, 1))", "PReLU()": "ops.leaky_relu(x, 0.25)",
    "Dense(3, 2, 'ones', 'zeros', activation='relu')": "ops.relu(ops.dense(x, ops.ones((2, 3)), ops.zeros(2)))",
    "LayerNorm((3,), epsilon=1e-5)": "ops.layer_norm(x, (3,), ops.ones(3), ops.zeros(3))",
}


@pytest.mark.parametrize("text", LAYERS)
def test_layers(text):
    layer = eval("nn." + text)
    assert_same(layer(X), eval("lambda x: " + LAYERS[text], {"ops": ops})(X))
    marked_as_eager(lambda x: layer(x) * 2, X)
    assert repr(layer).startswith(text.split("(")[0] + "(")


def test_losses():
    labels, soft = Tensor([0, 2, 1, 1]), ops.softmax(X)
    assert_same(nn.CrossEntropyLoss()(X, labels), ops.cross_entropy(X, labels))
    assert_same(nn.MSELoss("sum")(X, soft), ops.mse_loss(X, soft, "sum"))
    sparse = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")(X, labels)
    dense = nn.SoftmaxCrossEntropyWithLogits(reduction="mean")(X, ops.cast(ops.one_hot(labels, 3), fj.float32))
    np.testing.assert_allclose(sparse.asnumpy(), dense.asnumpy(), rtol=1e-6)
    net = nn.WithLossCell(nn.Dense(3, 3), nn.MSELoss())
    assert_same(net(X, X), nn.MSELoss()(net.backbone_network(X), X))
    assert [p.name for p in net.get_parameters()] == ["weight", "bias"]


def test_embedding_and_initializers():
    fj.set_seed(0)
    table = nn.Embedding(5, 2, padding_idx=0)
    assert table(Tensor([[0, 1]])).shape == (1, 2, 2) and table(Tensor([0])).tolist() == [[0, 0]]
    for name in ("zeros", "ones", "normal", "uniform", "xavier_uniform", "he_normal", "he_uniform", "TruncatedNormal"):
        made = fj.initializer.initializer(name, (100, 50))
        assert made.shape == (100, 50) and made.dtype is fj.float32
    assert np.abs(fj.initializer.initializer(fj.initializer.TruncatedNormal(1.0), (1000,)).asnumpy()).max() <= 2
    assert abs(float(fj.initializer.initializer(fj.initializer.Normal(0.5), (10000,)).std()) - 0.5) < 0.05
    assert fj.initializer.initializer(3, (2,), fj.int32).tolist() == [3, 3]
    with pytest.raises(ValueError, match="not found"):
        fj.initializer.initializer("nothing", (2,))


@pytest.mark.capture
def test_graphs_are_saved_on_request(tmp_path):
    def run(name):
        namespace = {}
        exec(f"def {name}(x):\n    return x * 2", namespace)
        return fj.jit(namespace[name])(Tensor([1.0, 2.0])).tolist()

    folder = tmp_path / "a" / "b"
    fj.set_context(save_graphs=1, save_graphs_path=str(folder))
    try:
        assert run("double") == [2, 4]
        (saved,) = folder.iterdir()
        assert saved.name.endswith("_validate_double.ir") and "multiply %x" in saved.read_text() and "double, <string>:1" in saved.read_text()
        assert "# In file <string>:2/" in saved.read_text()
        (tmp_path / "file").write_text("")
        fj.set_context(save_graphs_path=str(tmp_path / "file"))
        with pytest.warns(UserWarning, match=r"The graph of again\(\) is not saved"):
            assert run("again") == [2, 4]
    finally:
        fj.set_context(save_graphs=0, save_graphs_path=".")
    assert run("third") == [2, 4] and len(list(folder.iterdir())) == 1


class Less(nn.Cell):
    def construct(self, x, y):
        return x - y


class ProductLess(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = Less()

    @fj.jit(fullgraph=True)
    def construct(self, x, y):
        z = x * y
        print("z:", z, (z, 2.5))
        return self.inner(z, x)


SAVED = """
import sys
from framejit._mindspore import _mindspore
_mindspore.install()
import mindspore as ms
from mindspore import Tensor, nn
sys.path.insert(0, sys.argv[1])
from tensor.test_nn import ProductLess
ProductLess()(Tensor([1.0, 2.0]), Tensor([3.0, 4.0]))
"""


@pytest.mark.capture
def test_saved_graphs_name_the_lines_of_the_program(tmp_path):
    # As MindSpore's environment variables ask for it, from the start.
    environment = dict(os.environ, MS_DEV_SAVE_GRAPHS="1", MS_DEV_SAVE_GRAPHS_PATH=str(tmp_path / "graphs"))
    tests = str(Path(__file__).parents[1])
    subprocess.run([sys.executable, "-c", SAVED, tests], check=True, env=environment)
    (saved,) = (tmp_path / "graphs").iterdir()
    lines = [line.strip() for line in saved.read_text().splitlines()]
    places = {line.partition(" : ")[0].split(" ")[2]: lines[i + 1] for i, line in enumerate(lines) if line.startswith("%")}
    assert places["multiply"].startswith(f"# In file {__file__}:") and places["multiply"].endswith("z = x * y/")
    assert places["subtract"].endswith("return x - y/")
    assert re.fullmatch(r'Print\("z:", %\d+, \(%\d+, 2.5\)\)', lines[-1])


def test_settings_are_checked_before_any_is_changed():
    with pytest.raises(TypeError, match="'max_call_depth' must be int, but got str"):
        fj.set_context(save_graphs=1, max_call_depth="x")
    assert fj.get_context("save_graphs") == 0
    with pytest.raises(ValueError, match="the value of argument jit_level must be one of"):
        fj.set_context(jit_config={"jit_level": "O7"})
    fj.set_context(jit_config={"jit_level": "O1"})
    try:
        assert fj.get_context("jit_level") == "O1"
    finally:
        fj.set_context(jit_config={}, jit_level="")


def test_context():
    assert fj.get_context("mode") == fj.PYNATIVE_MODE and fj.get_context("device_target") == "CPU"
    fj.set_context(mode=fj.GRAPH_MODE, save_graphs=True)
    assert fj.get_context("mode") == 0 and fj.context.get_context("save_graphs") == 2
    fj.set_context(save_graphs=False)
    with pytest.raises(TypeError, match="save_graphs_path"):
        fj.set_context(save_graphs_path=3)
    for wrong in ({"mode": 5}, {"device_target": "GPU"}, {"nothing": 1}, {"jit_syntax_level": 7}):
        with pytest.raises(ValueError):
            fj.set_context(**wrong)
    with pytest.raises(ValueError):
        fj.get_context("nothing")
    fj.set_seed(5)
    assert fj.get_seed() == 5 and fj.mutable([1]) == [1]

    @fj.jit_class
    class Plain:
        pass

    assert isinstance(Plain, type)
    with pytest.raises(TypeError):
        fj.jit_class(3)


# --- Images --------------------------------------------------------------------------------------------------------------


def direct_convolution(x, w, stride, around, dilation, groups):
    """Element by element, in float64."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *around])
    height, width = ((size - d * (k - 1) - 1) // s + 1 for size, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation))
    out = np.zeros((x.shape[0], w.shape[0], height, width))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for n, o, i, j in np.ndindex(out.shape):
        first = o // per_out * per_in
        rows = slice(i * stride[0], i * stride[0] + dilation[0] * (w.shape[2] - 1) + 1, dilation[0])
        columns = slice(j * stride[1], j * stride[1] + dilation[1] * (w.shape[3] - 1) + 1, dilation[1])
        out[n, o, i, j] = (x[n, first : first + per_in, rows, columns] * w[o]).sum()
    return out


@pytest.mark.parametrize(
    ("arguments", "around"),
    [
        ({"kernel_size": 3}, [(1, 1), (1, 1)]),
        ({"kernel_size": 2, "stride": 2}, [(0, 1), (0, 0)]),
        ({"kernel_size": (3, 2), "pad_mode": "valid", "stride": (2, 1)}, [(0, 0), (0, 0)]),
        ({"kernel_size": 3, "pad_mode": "pad", "padding": 2, "dilation": 2}, [(2, 2), (2, 2)]),
        ({"kernel_size": 3, "pad_mode": "pad", "padding": (0, 1, 2, 0), "group": 2, "has_bias": True}, [(0, 1), (2, 0)]),
    ],
    ids=str,
)
def test_convolution(arguments, around):
    layer = nn.Conv2d(4, 6, **arguments)
    x = Tensor(np.random.default_rng(1).normal(size=(2, 4, 7, 6)).astype(np.float32))
    pair = lambda value: (value, value) if isinstance(value, int) else value  # noqa: E731
    wanted = direct_convolution(
        x.asnumpy(), layer.weight.asnumpy(), pair(arguments.get("stride", 1)), around, pair(arguments.get("dilation", 1)), arguments.get("group", 1)
    )
    if layer.bias is not None:
        wanted += layer.bias.asnumpy().reshape(-1, 1, 1)
    np.testing.assert_allclose(layer(x).asnumpy(), wanted, rtol=1e-4, atol=1e-5)
    marked_as_eager(lambda x: layer(x) + 1, x)


def test_pooling():
    x = Tensor(np.random.default_rng(1).normal(size=(1, 2, 5, 4)).astype(np.float32))
    parts = np.stack([x.asnumpy()[:, :, i:i + 4:2, j:j + 4:2] for i in (0, 1) for j in (0, 1)])
    np.testing.assert_array_equal(nn.MaxPool2d(2, 2)(x).asnumpy(), parts.max(0))
    np.testing.assert_array_equal(ops.max_pool2d(x, 2).asnumpy(), parts.max(0))
    np.testing.assert_allclose(nn.AvgPool2d(2, 2)(x).asnumpy(), parts.mean(0), rtol=1e-6, atol=1e-7)
    assert nn.MaxPool2d(3, 2, "same")(x).shape == (1, 2, 3, 2)
    np.testing.assert_allclose(nn.AvgPool2d(3, 1, "same")(ops.ones((1, 1, 3, 3))).asnumpy(), np.ones((1, 1, 3, 3)), rtol=1e-6)


def test_batch_norm():
    norm = nn.BatchNorm2d(3)
    assert [p.name for p in norm.trainable_params()] == ["gamma", "beta"]
    x = Tensor(np.random.default_rng(1).normal(2, 3, (4, 3, 5, 5)).astype(np.float32))
    np.testing.assert_allclose(norm(x).asnumpy(), x.asnumpy() / np.sqrt(1 + 1e-5), rtol=1e-5)
    marked_as_eager(lambda x: norm(x) * 1, x)
    norm.set_train()
    out = norm(x).asnumpy()
    np.testing.assert_allclose(out.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(out.std((0, 2, 3)), 1, rtol=1e-4)
    np.testing.assert_allclose(norm.moving_mean.asnumpy(), 0.1 * x.asnumpy().mean((0, 2, 3)), rtol=1e-5)
    moved = [norm.moving_mean.asnumpy().copy(), norm.moving_variance.asnumpy().copy()]
    other = nn.BatchNorm2d(3).set_train()
    assert_same(fj.jit(other)(x), Tensor(out))
    assert np.array_equal(other.moving_mean.asnumpy(), moved[0]) and np.array_equal(other.moving_variance.asnumpy(), moved[1])


def test_other_layers():
    x = Tensor(np.random.default_rng(1).normal(size=(2, 4, 6)).astype(np.float32))
    conv = nn.Conv1d(4, 2, 3, pad_mode="pad", padding=1, has_bias=True)
    wanted = direct_convolution(x.asnumpy()[:, :, None], conv.weight.asnumpy(), (1, 1), [(0, 0), (1, 1)], (1, 1), 1)[:, :, 0]
    np.testing.assert_allclose(conv(x).asnumpy(), wanted + conv.bias.asnumpy()[:, None], rtol=1e-4, atol=1e-5)
    norm = fj.mint.nn.GroupNorm(2, 4)
    lines = norm(x).asnumpy().reshape(2, 2, -1)
    np.testing.assert_allclose(lines.mean(-1), 0, atol=1e-6)
    np.testing.assert_allclose(lines.var(-1), 1, rtol=1e-3)
    marked_as_eager(lambda x: norm(x) * 1, x)
    primitive = ops.Conv2D(out_channel=2, kernel_size=2, pad_mode="valid")(x[:, :, :, None].repeat(3, 3), ops.ones((2, 4, 2, 2)))
    assert primitive.shape == (2, 2, 5, 2) and ops.MaxPool(2, 2)(x[None]).shape == (1, 2, 2, 3)


class LeNet5(nn.Cell):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, pad_mode="valid"), nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.relu, self.pool, self.flatten = nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten()
        normal = fj.initializer.Normal(0.02)
        self.fc1, self.fc2, self.fc3 = nn.Dense(400, 120, normal), nn.Dense(120, 84, normal), nn.Dense(84, classes, normal)

    def construct(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x)))
        x = self.flatten(x)
        return self.fc3(self.relu(self.fc2(self.relu(self.fc1(x)))))


def test_lenet_with_a_jit_config():
    net, x = LeNet5(), Tensor(np.random.default_rng(0).normal(size=(2, 1, 32, 32)).astype(np.float32))
    expected = net(x)
    assert expected.shape == (2, 10) and len(net.trainable_params()) == 8
    net.set_jit_config(fj.JitConfig(jit_level="O1"))
    for _ in range(2):
        np.testing.assert_allclose(net(x).asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-6)


# --- Optimizers ------------------------------------------------------------------------------------------------------------


def written_out(name, options, p, gradients):
    """The stated rules on float64 numbers."""
    rate, m, v, t = options.get("learning_rate", 0.1 if name == "SGD" else 1e-3), 0.0, 0.0, 0
    for g in gradients:
        t += 1
        g = g + options.get("weight_decay", 0.0) * p
        if name == "Adam":
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            p = p - rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)
            continue
        mu = options.get("momentum", 0.0)
        v = g if name == "SGD" and t == 1 else mu * v + (1 - options.get("dampening", 0.0)) * g
        nesterov = options.get("nesterov") or options.get("use_nesterov")
        p = p - rate * (g + mu * v if nesterov else v if mu else g)
    return p


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {}),
        ("SGD", {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
        ("SGD", {"momentum": 0.9, "nesterov": True}),
        ("Momentum", {"learning_rate": 0.2, "momentum": 0.8}),
        ("Momentum", {"learning_rate": 0.2, "momentum": 0.8, "use_nesterov": True, "weight_decay": 0.01}),
        ("Adam", {"learning_rate": 0.01}),
    ],
    ids=str,
)
def test_optimizers(name, options, marked):
    start, gradients = np.array([1.0, -2.0]), [np.array([0.5, 1.0]), np.array([-0.25, 2.0]), np.array([1.0, 0.125])]
    weight = Parameter(Tensor(start, fj.float32), name="w")
    optimizer = getattr(nn, name)([weight], **options)
    step = fj.jit(optimizer) if marked else optimizer
    for gradient in gradients:
        assert step((Tensor(gradient, fj.float32),)) == (True,)
    np.testing.assert_allclose(weight.asnumpy(), written_out(name, options, start, gradients), rtol=1e-5)
    assert optimizer.global_step == 3


def test_errors_of_optimizers():
    weight = Parameter(Tensor(1.0), name="w")
    for wrong in (lambda: nn.SGD([]), lambda: nn.SGD([weight], -1.0), lambda: nn.Momentum([weight], 0.1, -1.0), lambda: nn.Adam([weight], beta1=2.0)):
        with pytest.raises(ValueError):
            wrong()
    gamma = Parameter(Tensor(1.0), name="bn.gamma")
    nn.SGD([gamma], weight_decay=0.5)((Tensor(0.0),))
    assert gamma == 1


class Stacking(nn.Cell):
    def __init__(self):
        super().__init__()
        self.rows = nn.TensorArray(fj.float32, (3,))

    def construct(self, x):
        for i in range(3):
            self.rows.write(i + 1, x * i)
        stacked, one, count = self.rows.stack(), self.rows.read(2), self.rows.size()
        self.rows.clear()
        return stacked, one, count


def test_tensor_array():
    x = fj.Tensor(np.array([1.0, 2.0, 3.0], np.float32))
    expected = Stacking()(x)
    assert_same(expected[0], fj.Tensor(np.stack([0 * x.asnumpy()] * 2 + [x.asnumpy(), 2 * x.asnumpy()])))
    assert_same(expected[1], x)
    net = Stacking()
    marked = fj.jit(net.construct, fullgraph=True)
    for _ in range(2):
        assert [part.tolist() for part in marked(x)] == [part.tolist() for part in expected]
        assert net.rows.size().item() == 0

    array = nn.TensorArray(fj.int64, (), dynamic_size=False, size=2, name="mine")
    array.write(1, 5)
    element = array.read(1)
    element += 1
    assert array.stack().tolist() == [0, 5] and array.stack().dtype == fj.int64
    for wrong in (lambda: array.write(2, 1), lambda: array.read(2), lambda: array.read(-1)):
        with pytest.raises(IndexError, match="mine: index"):
            wrong()
    with pytest.raises(ValueError, match="shape"):
        array.write(0, fj.Tensor([1, 2]))
    with pytest.raises(TypeError):
        nn.TensorArray(3, ())
    array.close()
    assert nn.TensorArray(fj.float32, (2, 3)).stack().shape == (0, 2, 3)


def test_bernoulli():
    from framejit.nn.probability.distribution import Bernoulli

    given = Tensor([0.25, 0.5])
    coin = Bernoulli(given, dtype=fj.float32)
    assert_array(coin.probs, np.float32([0.25, 0.5]))
    assert_array(coin("prob", Tensor([1, 0])), np.float32([0.25, 0.5]))
    assert_array(coin.mode(), np.float32([0, 0]))
    assert_array(coin.var(Tensor([0.125])), np.float32([0.109375]))
    assert_array(fj.jit(lambda x: coin.cdf(x) + coin.log_cdf(x), fullgraph=True)(Tensor([0.5, 1.0])), np.float32([0.75 + np.log(np.float32(0.75)), 1]))
    samples = coin.sample((4000,))
    assert samples.shape == (4000, 2) and samples.dtype is fj.float32 and set(samples.asnumpy().ravel()) == {0.0, 1.0}
    np.testing.assert_allclose(samples.asnumpy().mean(0), [0.25, 0.5], atol=0.05)
    for make in (lambda: Bernoulli(0.5, seed=3).sample((9,)), lambda: (fj.set_seed(4), Bernoulli(0.5).sample((9,)))[1]):
        assert make().tolist() == make().tolist()
    with pytest.raises(ValueError, match="'name' must be one of .*but got 'nothing'"):
        coin("nothing")
    assert repr(coin) == "Bernoulli(probs = [0.25 0.5 ])"


@pytest.mark.parametrize("dtype", [np.int8, np.float16])
def test_average_pools_of_narrow_numbers(dtype):
    """Sums are wider than what is summed."""
    x = np.full((1, 1, 4, 4), 100, dtype)
    x[0, 0, 0, 0] = 1
    expected = x.reshape(1, 1, 2, 2, 2, 2).astype(np.float64).mean((3, 5)).astype(dtype)
    for pool in (lambda x: fj.ops.avg_pool2d(x, 2, 2), fj.jit(lambda x: fj.ops.avg_pool2d(x, 2, 2))):
        np.testing.assert_array_equal(pool(fj.Tensor(x)).asnumpy().astype(dtype), expected)
