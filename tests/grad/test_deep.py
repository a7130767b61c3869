"""Deep networks and long recurrences are one graph, with their gradients too."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, nn, ops

pytestmark = pytest.mark.capture
RNG = np.random.default_rng(5)
LAYERS = 12


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), LAYERS), (2, 4, 16)


class Block(nn.Cell):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Dense(width, 3 * width, has_bias=False)
        self.out = nn.Dense(width, width, has_bias=False)
        self.gate, self.up = nn.Dense(width, 2 * width, has_bias=False), nn.Dense(width, 2 * width, has_bias=False)
        self.down = nn.Dense(2 * width, width, has_bias=False)

    def construct(self, x):
        batch, length, width = x.shape
        q, k, v = ops.split(self.qkv(self.norm1(x)), width, axis=-1)
        q, k, v = (part.view(batch, length, self.heads, -1).swapaxes(1, 2) for part in (q, k, v))
        weights = ops.softmax(ops.matmul(q, k.swapaxes(2, 3)) / float(np.sqrt(width // self.heads)), axis=-1)
        x = x + self.out(ops.matmul(weights, v).swapaxes(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(ops.silu(self.gate(y)) * self.up(y))


def decoder():
    return nn.SequentialCell(*[Block() for _ in range(LAYERS)]), (2, 4, 16)


class Residual(nn.Cell):
    def __init__(self, channels):
        super().__init__()
        parts = [nn.Conv2d(channels, channels, 3), nn.BatchNorm2d(channels), nn.ReLU()]
        self.body = nn.SequentialCell(*parts, nn.Conv2d(channels, channels, 3), nn.BatchNorm2d(channels))
        self.relu = nn.ReLU()

    def construct(self, x):
        return self.relu(self.body(x) + x)


def residual():
    return nn.SequentialCell(*[Residual(3) for _ in range(16)]), (2, 3, 6, 6)


def recurrent(cell):
    return lambda: (cell(3, 5, batch_first=True), (2, 100, 3))


NETWORKS = {
    "encoder": encoder,
    "decoder": decoder,
    "residual": residual,
    "RNN": recurrent(nn.RNN),
    "GRU": recurrent(nn.GRU),
    "LSTM": recurrent(nn.LSTM),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_one_graph(name):
    fj.set_seed(2)
    net, shape = NETWORKS[name]()
    net.set_train(False)
    x = Tensor(RNG.normal(size=shape).astype(np.float32))

    def loss(x):
        out = net(x)
        return ((out if isinstance(out, Tensor) else out[0]) ** 2).mean()

    forward = fj.jit(loss)
    assert forward(x).item() == loss(x).item()
    assert forward.graphs().count("graph @") == 1

    weights = net.trainable_params()[:3]
    gradient = fj.jit(fj.value_and_grad(loss, 0, weights), fullgraph=True)
    value, (of_x, of_weights) = gradient(x)
    assert gradient.graphs().count("graph @") == 1
    assert value.item() == pytest.approx(loss(x).item(), rel=1e-6)
    with fj.stance("force_eager"):
        _, (by_tape, weights_by_tape) = fj.value_and_grad(loss, 0, weights)(x)
    for a, b in zip((of_x, *of_weights), (by_tape, *weights_by_tape), strict=True):
        scale = np.abs(b.asnumpy()).max()
        assert scale > 0
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), atol=1e-5 * scale, rtol=1e-4)


def recurrence(x, rounds):
    h = x
    for i in range(rounds):
        h = np.tanh(h * 0.9 + x * (i % 7))
    return h.sum()


def recurrence_in_memory(x, rounds):
    out = np.zeros((rounds, x.size))
    h = x
    for i in range(rounds):
        h = np.sin(h) + h * 0.5
        out[i] = h
    return (out * out).sum()


def recurrence_of_tensors(x, rounds):
    h = x
    for i in range(rounds):
        h = ops.tanh(h * 0.9 + x * (i % 7))
    return h.sum()


X = RNG.normal(size=6)


@pytest.mark.parametrize("f", [recurrence, recurrence_in_memory, recurrence_of_tensors], ids=lambda f: f.__name__)
def test_recurrences(f):
    x = Tensor(X.astype(np.float32)) if f is recurrence_of_tensors else X
    plain = fj.jit(f)
    assert plain(x, 100) == f(x, 100)
    assert plain.graphs().count("graph @") == 1
    gradient = fj.grad(f)
    found = gradient(x, 100)
    assert gradient.graphs().count("graph @") == 1
    if f is recurrence:
        with fj.stance("force_eager"):
            np.testing.assert_allclose(found, fj.grad(f)(x, 100), rtol=1e-12)
    step = 1e-6
    for i in range(3) if f is not recurrence_of_tensors else ():
        change = np.eye(6)[i] * step
        wanted = (f(X + change, 100) - f(X - change, 100)) / (2 * step)
        assert found[i] == pytest.approx(wanted, rel=1e-4, abs=1e-6)


def test_longer_recurrences():
    def f(x, rounds):
        for i in range(rounds):
            x = x * 0.999 + np.sin(x) * 0.001
        return x

    plain = fj.jit(f)
    np.testing.assert_array_equal(plain(X, 3000), f(X, 3000))
    assert len(plain.graphs()) < 10_000  # rounds are not unrolled
    whole = fj.jit(f, fullgraph=True)
    np.testing.assert_array_equal(whole(X, 3000), f(X, 3000))
    assert whole.graphs().count("sin") == 3000
    gradient = fj.grad(lambda x: f(x, 4000).sum())  # of 16000 nodes
    found = gradient(X)
    assert gradient.graphs().count("graph @") == 1
    wanted = np.ones(6)
    x = X
    for _ in range(4000):
        wanted *= 0.999 + np.cos(x) * 0.001
        x = x * 0.999 + np.sin(x) * 0.001
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
