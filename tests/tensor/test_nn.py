"""framejit.nn: cells, what holds them, layers, and how calls of them are compiled."""

from __future__ import annotations

import collections
import copy

import framejit as fj
import numpy as np
import pytest
from framejit import Parameter, Tensor, nn, ops
from tensor.tensor_support import assert_same, marked_as_eager

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
    names = ["own", "first.weight", "first.given", "layers.0.weight", "layers.0.bias", "last.0.weight"]
    assert [p.name for p in net.get_parameters()] == names
    assert [n for n, _ in net.parameters_and_names()] == [n.replace("given", "fixed") for n in names]
    assert [p.name for p in net.trainable_params()] == [n for n in names if "given" not in n]
    assert [p.name for p in net.untrainable_params()] == ["first.given"] and list(net.parameters_dict()) == names
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
            return x + ops.topk(x, 1)[0]

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


def test_context():
    assert fj.get_context("mode") == fj.PYNATIVE_MODE and fj.get_context("device_target") == "CPU"
    fj.set_context(mode=fj.GRAPH_MODE, save_graphs=True)
    assert fj.get_context("mode") == 0 and fj.context.get_context("save_graphs") is True
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
