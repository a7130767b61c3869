"""Steps of training: TrainOneStepCell as one graph, optimizers and learning rates against their formulas."""

from __future__ import annotations

import math

import framejit as fj
import numpy as np
import pytest
from framejit import Parameter, Tensor, nn, ops

pytestmark = pytest.mark.capture
rng = np.random.default_rng(7)


def regression(rows=32):
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    return Tensor(x), Tensor((x @ np.array([[1.0], [-2.0], [0.5]]) + 0.25).astype(np.float32))


@pytest.mark.parametrize(
    "make",
    [
        lambda p: nn.SGD(p, 0.1),
        lambda p: nn.SGD(p, 0.05, momentum=0.9, nesterov=True),
        lambda p: nn.Momentum(p, 0.05, 0.9),
        lambda p: nn.Adam(p, 0.05),
        lambda p: nn.AdamWeightDecay(p, 0.05),
        lambda p: nn.RMSProp(p, 0.03),
        lambda p: nn.Adagrad(p, learning_rate=0.3),
    ],
)
def test_a_step_is_one_graph_and_learns(make):
    fj.set_seed(3)
    x, y = regression()
    net = nn.Dense(3, 1)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), make(net.trainable_params()))
    first = step(x, y).item()
    for _ in range(150):
        last = step(x, y)
    assert last.item() < 0.05 * first
    assert step.step.graphs().count("graph @") == 1
    entry = step.step.cache_entries()[0]
    assert entry["hits"] >= 150


def test_the_step_against_the_formula():
    x, y = regression()
    net = nn.Dense(3, 1)
    w, b = net.weight.asnumpy().astype(np.float64), net.bias.asnumpy().astype(np.float64)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1), sens=2.0, return_grad=True)
    for _ in range(3):
        loss, gradients = step(x, y)
        error = x.asnumpy() @ w.T + b - y.asnumpy()
        np.testing.assert_allclose(loss.item(), (error**2).mean(), rtol=1e-4)
        of_w, of_b = 2 * 2 * error.T @ x.asnumpy() / 32, 2 * 2 * error.mean(0)
        np.testing.assert_allclose(gradients["weight"].asnumpy(), of_w, rtol=1e-3, atol=1e-5)
        w, b = w - 0.1 * of_w, b - 0.1 * of_b
        np.testing.assert_allclose(net.weight.asnumpy(), w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(net.bias.asnumpy(), b, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="sens"):
        nn.TrainOneStepCell(net, nn.SGD(net.trainable_params()), sens=0)


def test_eager_and_graph_mode_agree():
    x, y = regression()
    losses = []
    for mode in (fj.PYNATIVE_MODE, fj.GRAPH_MODE):
        fj.set_context(mode=mode)
        try:
            fj.set_seed(1)
            net = nn.SequentialCell(nn.Dense(3, 4), nn.Tanh(), nn.Dense(4, 1))
            step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.05, 0.9))
            losses.append([step(x, y).item() for _ in range(5)])
        finally:
            fj.set_context(mode=fj.PYNATIVE_MODE)
    assert losses[0] == losses[1]


def adam_weight_decay(p, gradients):
    m = v = 0
    for g in gradients:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p - 0.1 * (m / (np.sqrt(v) + 1e-6) + 0.01 * p)
    return p


def rms_prop(p, gradients):
    s = m = mean = 0
    for g in gradients:
        s, mean = 0.9 * s + 0.1 * g * g, 0.9 * mean + 0.1 * g
        m = 0.5 * m + 0.1 * g / np.sqrt(s - mean**2 + 1e-3)
        p = p - m
    return p


def adagrad(p, gradients):
    total = 0.1
    for g in gradients:
        total = total + g * g
        p = p - 0.1 * g / np.sqrt(total)
    return p


@pytest.mark.parametrize(
    ("make", "written_out"),
    [
        (lambda p: nn.AdamWeightDecay(p, 0.1, weight_decay=0.01), adam_weight_decay),
        (lambda p: nn.RMSProp(p, 0.1, momentum=0.5, epsilon=1e-3, centered=True), rms_prop),
        (lambda p: nn.Adagrad(p, learning_rate=0.1), adagrad),
    ],
)
def test_optimizers(make, written_out):
    start, gradients = np.array([1.0, -2.0]), [np.array([0.5, 1.0]), np.array([-0.25, 2.0]), np.array([1.0, 0.125])]
    weight = Parameter(Tensor(start, fj.float32), name="w")
    step = make([weight])
    for gradient in gradients:
        assert step((Tensor(gradient, fj.float32),)) == (True,)
    np.testing.assert_allclose(weight.asnumpy(), written_out(start, gradients), rtol=1e-5)


SCHEDULES = {
    "exponential": (lambda: nn.ExponentialDecayLR(0.1, 0.9, 4), lambda s: 0.1 * 0.9 ** (s / 4)),
    "stairs": (lambda: nn.ExponentialDecayLR(0.1, 0.9, 4, True), lambda s: 0.1 * 0.9 ** (s // 4)),
    "natural": (lambda: nn.NaturalExpDecayLR(0.1, 0.9, 4), lambda s: 0.1 * math.exp(-0.9 * s / 4)),
    "inverse": (lambda: nn.InverseDecayLR(0.1, 0.5, 4), lambda s: 0.1 / (1 + 0.5 * s / 4)),
    "cosine": (lambda: nn.CosineDecayLR(0.01, 0.1, 4), lambda s: 0.01 + 0.045 * (1 + math.cos(math.pi * min(s, 4) / 4))),
    "polynomial": (lambda: nn.PolynomialDecayLR(0.1, 0.01, 4, 0.5), lambda s: 0.09 * (1 - min(s, 4) / 4) ** 0.5 + 0.01),
    "warm up": (lambda: nn.WarmUpLR(0.1, 3), lambda s: 0.1 * min(s, 3) / 3),
    "list": (lambda: [0.5, 0.25, 0.125], lambda s: [0.5, 0.25, 0.125][min(s, 2)]),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
    """Each step moves the weight by its rate."""
    make, rate = SCHEDULES[name]
    weight = Parameter(Tensor([0.0]), name="w")
    step = nn.TrainOneStepCell(nn.GraphCell(lambda x: ops.sum(weight * x)), nn.SGD([weight], make()))
    at = 0.0
    for number in range(7):
        step(Tensor([1.0]))
        at -= rate(number)
        np.testing.assert_allclose(weight.item(), at, rtol=1e-5, atol=1e-7)


def test_lists_of_rates():
    assert nn.piecewise_constant_lr([2, 5], [0.1, 0.05]) == [0.1, 0.1, 0.05, 0.05, 0.05]
    np.testing.assert_allclose(nn.exponential_decay_lr(0.1, 0.9, 6, 2, 1), [0.1 * 0.9 ** (i // 2) for i in range(6)], rtol=1e-6)
    np.testing.assert_allclose(nn.cosine_decay_lr(0.01, 0.1, 4, 2, 2), [0.01 + 0.045 * (1 + math.cos(math.pi * (i // 2) / 2)) for i in range(4)], rtol=1e-6)
    np.testing.assert_allclose(nn.warmup_lr(0.1, 6, 2, 2), [0, 0, 0.05, 0.05, 0.1, 0.1], rtol=1e-6)
    np.testing.assert_allclose(nn.natural_exp_decay_lr(0.1, 0.9, 4, 1, 2, True), [0.1 * math.exp(-0.9 * (i // 2 * 2)) for i in range(4)], rtol=1e-6)
    np.testing.assert_allclose(nn.inverse_decay_lr(0.1, 0.5, 3, 1, 1), [0.1 / (1 + 0.5 * i) for i in range(3)], rtol=1e-6)
    np.testing.assert_allclose(nn.polynomial_decay_lr(0.1, 0.01, 3, 1, 2, 1), [0.1, 0.055, 0.01], rtol=1e-6)
    for call in (
        lambda: nn.piecewise_constant_lr([2], [0.1, 0.2]),
        lambda: nn.piecewise_constant_lr([2, 1], [0.1, 0.2]),
        lambda: nn.ExponentialDecayLR(-0.1, 0.9, 4),
        lambda: nn.CosineDecayLR(0.2, 0.1, 4),
        lambda: nn.WarmUpLR(0.1, 0),
        lambda: nn.SGD([Parameter(Tensor([1.0]))], []),
        lambda: nn.Adagrad([Parameter(Tensor([1.0]))], -1.0),
        lambda: nn.RMSProp([Parameter(Tensor([1.0]))], epsilon=0.0),
        lambda: nn.AdamWeightDecay([Parameter(Tensor([1.0]))], beta1=1.0),
    ):
        with pytest.raises(ValueError):
            call()
    for call in (lambda: nn.WarmUpLR(0.1, 2.5), lambda: nn.ExponentialDecayLR("a", 0.9, 4), lambda: nn.SGD([Parameter(Tensor([1.0]))], "a")):
        with pytest.raises(TypeError):
            call()
