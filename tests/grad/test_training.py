"""Steps of training: TrainOneStepCell as one graph, optimizers and learning rates against their formulas."""

from __future__ import annotations

import json
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
    s, m, mean = 1, 0, 0
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


def ada_max(p, gradients):
    m = u = 0
    for t, g in enumerate(gradients, 1):
        m, u = 0.9 * m + 0.1 * g, np.maximum(0.999 * u, abs(g))
        p = p - 0.1 / (1 - 0.9**t) * m / (u + 1e-8)
    return p


def adadelta(p, gradients):
    a = u = 0
    for g in gradients:
        a = 0.8 * a + 0.2 * g * g
        d = np.sqrt(u + 1e-6) / np.sqrt(a + 1e-6) * g
        u, p = 0.8 * u + 0.2 * d * d, p - 0.5 * d
    return p


def rprop(p, gradients):
    before, size = 0 * p, 0.1 + 0 * p
    for g in gradients:
        kept = np.sign(g * before)
        size = np.clip(size * np.choose(kept.astype(int) + 1, [0.5, 1, 1.2]), 1e-3, 0.15)
        before = np.where(kept < 0, 0, g)
        p = p - np.sign(before) * size
    return p


def asgd(p, gradients):
    eta = 0.2
    for t, g in enumerate(gradients, 1):
        p = p * (1 - 0.01 * eta) - eta * g
        eta = 0.2 / (1 + 0.01 * 0.2 * t) ** 0.5
    return p


def lamb(p, gradients):
    m = v = 0
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        u = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.01 * p
        p = p - 0.1 * np.linalg.norm(p) / np.linalg.norm(u) * u
    return p


def ftrl(p, gradients):
    n, z = 0.1, 0
    for g in gradients:
        more = n + g * g
        z, n = z + g - (np.sqrt(more) - np.sqrt(n)) / 0.5 * p, more
        p = np.where(abs(z) > 0.1, (np.sign(z) * 0.1 - z) / (np.sqrt(n) / 0.5 + 0.4), 0)
    return p


def proximal_adagrad(p, gradients):
    a = 0.1
    for g in gradients:
        a = a + g * g
        r = 0.5 / np.sqrt(a)
        q = p - r * g
        p = np.sign(q) * np.maximum(abs(q) - r * 0.1, 0) / (1 + r * 0.2)
    return p


def ada_factor(p, gradients):
    v = m = 0
    for t, g in enumerate(gradients, 1):
        kept = 1 - t**-0.8
        rate = min(0.01, t**-0.5) * max(np.sqrt(np.mean(p * p)), 1e-3)
        v = kept * v + (1 - kept) * (g * g + 1e-30)
        u = g / np.sqrt(v)
        m = 0.9 * m + 0.1 * rate * u / max(np.sqrt(np.mean(u * u)), 1)
        p = p - m
    return p


def lars(p, gradients):
    v = 0
    for g in gradients:
        size, of_gradient = np.linalg.norm(p), np.linalg.norm(g)
        g = (g + 0.1 * p) * 0.5 * size / (of_gradient + 0.1 * size + 1e-5)
        v = 0.9 * v + g
        p = p - 0.2 * v
    return p


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize(
    ("make", "written_out"),
    [
        (lambda p: nn.AdaMax(p, 0.1), ada_max),
        (lambda p: nn.Adadelta(p, 0.5, 0.8), adadelta),
        (lambda p: nn.Rprop(p, step_sizes=(1e-3, 0.15)), rprop),
        (lambda p: nn.ASGD(p, 0.2, 0.01, 0.5), asgd),
        (lambda p: nn.Lamb(p, 0.1, weight_decay=0.01), lamb),
        (lambda p: nn.FTRL(p, learning_rate=0.5, l1=0.1, l2=0.2), ftrl),
        (lambda p: nn.ProximalAdagrad(p, learning_rate=0.5, l1=0.1, l2=0.2), proximal_adagrad),
        (lambda p: nn.AdaFactor(p), ada_factor),
        (lambda p: nn.LARS(nn.Momentum(p, 0.2, 0.9, weight_decay=0.1), coefficient=0.5), lars),
        (lambda p: nn.AdamWeightDecay(p, 0.1, weight_decay=0.01), adam_weight_decay),
        (lambda p: nn.RMSProp(p, 0.1, momentum=0.5, epsilon=1e-3, centered=True), rms_prop),
        (lambda p: nn.Adagrad(p, learning_rate=0.1), adagrad),
    ],
)
def test_optimizers(make, written_out, marked):
    start, gradients = np.array([1.0, -2.0]), [np.array([0.5, 1.0]), np.array([-0.25, 2.0]), np.array([1.0, 0.125])]
    weight = Parameter(Tensor(start, fj.float32), name="w")
    step = make([weight])
    if marked:
        step = fj.jit(step, fullgraph=True)
    for gradient in gradients:
        assert step((Tensor(gradient, fj.float32),)) == (True,)
    np.testing.assert_allclose(weight.asnumpy(), written_out(start, gradients), rtol=1e-5)


def test_averages_of_asgd():
    weight = Parameter(Tensor([1.0]), name="w")
    optimizer = nn.ASGD([weight], 0.1, 0.0, t0=1.0)
    values = []
    for gradient in (1.0, 2.0, 4.0, 8.0):
        optimizer((Tensor([gradient]),))
        values.append(weight.asnumpy().copy())
    np.testing.assert_allclose(optimizer.ax_[0].asnumpy(), np.mean(values[2:], 0), rtol=1e-6)


def test_factored_ada_factor():
    """Rows and columns of the running mean of the squares, of a gradient that is a product of two vectors."""
    row, column = np.array([1.0, 3.0]), np.array([2.0, 0.5, 1.0])
    weight = Parameter(ops.ones((2, 3)), name="w")
    optimizer = nn.AdaFactor([weight], 0.5, clip_threshold=100.0, beta1=0.0, relative_step=False, scale_parameter=False)
    for gradient in (np.outer(row, column), -np.outer(row, column)):
        optimizer((Tensor(gradient, fj.float32),))
        np.testing.assert_allclose(weight.asnumpy(), np.full((2, 3), 0.5 if gradient[0, 0] > 0 else 1.0), rtol=1e-5)
    assert optimizer.exp_avg_sq_row[0].shape == (2,) and optimizer.exp_avg_sq_col[0].shape == (3,)


@pytest.mark.parametrize("marked", [False, True])
def test_groups(marked):
    """Rates, decays and centralization of their own; an order of their own."""
    first, second, third = (Parameter(ops.ones((2, 16)), name=name) for name in ("first", "bn.gamma", "third"))
    groups = [
        {"params": [first], "lr": 0.5, "weight_decay": 0.25},
        {"params": (p for p in [second]), "lr": nn.ExponentialDecayLR(0.5, 0.5, 1)},
        {"params": [third], "grad_centralization": True},
        {"order_params": [third, first, second]},
    ]
    optimizer = nn.SGD(groups, 0.125, weight_decay=0.5)
    assert [p.name for p in optimizer.parameters] == ["third", "first", "bn.gamma"] and optimizer.is_group_lr
    step = fj.jit(optimizer, fullgraph=True) if marked else optimizer
    gradient = np.arange(32, dtype=np.float32).reshape(2, 16)
    for _ in range(2):
        step((Tensor(gradient), ops.ones((2, 16)), ops.zeros((2, 16))))
    centered = lambda g: g - g.mean(1, keepdims=True)  # noqa: E731
    w = np.ones((2, 16))
    for _ in range(2):
        w = w - 0.125 * centered(gradient + 0.5 * w)
    np.testing.assert_allclose(third.asnumpy(), w, rtol=1e-5)
    np.testing.assert_allclose(first.asnumpy(), (0.375 * 0.875 - 0.5) * np.ones((2, 16)), rtol=1e-6)
    np.testing.assert_allclose(second.asnumpy(), 0.75 * 0.875 * np.ones((2, 16)), rtol=1e-6)
    assert optimizer.get_lr_parameter(first) == 0.5 and optimizer.get_lr_parameter([third])[0] == 0.125


@pytest.mark.parametrize("marked", [False, True])
def test_the_rate_is_a_parameter(marked):
    weight = Parameter(Tensor([1.0]), name="w")
    optimizer = nn.SGD([weight], 0.5)
    step = fj.jit(optimizer) if marked else optimizer
    step((Tensor([1.0]),))
    ops.assign(optimizer.learning_rate, Tensor(0.25))
    step((Tensor([1.0]),))
    assert weight.tolist() == [0.25] and optimizer.get_lr() == 0.25


SCHEDULES = {
    "exponential": (lambda: nn.ExponentialDecayLR(0.1, 0.9, 4), lambda s: 0.1 * 0.9 ** (s / 4)),
    "stairs": (lambda: nn.ExponentialDecayLR(0.1, 0.9, 4, True), lambda s: 0.1 * 0.9 ** (s // 4)),
    "natural": (lambda: nn.NaturalExpDecayLR(0.1, 0.9, 4), lambda s: 0.1 * math.exp(-0.9 * s)),
    "natural stairs": (lambda: nn.NaturalExpDecayLR(0.1, 0.1, 4, True), lambda s: 0.1 * math.exp(-0.1 * (s // 4 * 4))),
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
    np.testing.assert_allclose(nn.polynomial_decay_lr(0.1, 0.01, 3, 1, 2, 1.0), [0.1, 0.055, 0.01], rtol=1e-6)
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


# --- Scaled losses ------------------------------------------------------------------------------------------------------------


def of_regression(make):
    fj.set_seed(5)
    net = nn.Dense(3, 1)
    return net, nn.WithLossCell(net, nn.MSELoss()), make(net.trainable_params())


def test_a_scaled_loss_gives_the_same_steps():
    """Powers of two change no bit."""
    x, y = regression()
    plain, loss, optimizer = of_regression(lambda p: nn.Momentum(p, 0.05, 0.9))
    step = nn.TrainOneStepCell(loss, optimizer)
    scaled, loss, optimizer = of_regression(lambda p: nn.Momentum(p, 0.05, 0.9))
    other = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.FixedLossScaleUpdateCell(2.0**16))
    for _ in range(5):
        wanted = step(x, y)
        found, overflow, scale = other(x, y)
        assert found.item() == wanted.item() and not overflow.item() and scale.item() == 2.0**16
    assert all(np.array_equal(a.asnumpy(), b.asnumpy()) for a, b in zip(plain.get_parameters(), scaled.get_parameters()))
    assert other.step.graphs().count("graph @") == other.update.graphs().count("graph @") == 1
    other.set_sense_scale(Tensor(4.0))
    assert other(x, y)[2].item() == 4.0
    for wrong, error in ((3, TypeError), (Tensor([1.0, 2.0]), ValueError)):
        with pytest.raises(error, match="'scale_sense' must be"):
            nn.TrainOneStepWithLossScaleCell(loss, optimizer, wrong)


def test_small_gradients_of_float16_stay():
    weight = Parameter(Tensor([1.0], fj.float16), name="w")
    tiny = Tensor([2.0**-14], fj.float16)
    for scale, kept in ((1.0, 0.0), (2.0**12, 2.0**-20)):
        weight.set_data(Tensor([1.0], fj.float16))
        seen = []

        class Seen(nn.SGD):
            def construct(self, gradients):
                seen.append(gradients[0].astype(fj.float32).item())
                return super().construct(gradients)

        step = nn.TrainOneStepWithLossScaleCell(nn.GraphCell(lambda: (weight * 256 * tiny * tiny).sum()), Seen([weight]), Tensor(scale))
        step.update = lambda cell, gradients: cell.optimizer(gradients)  # what is written into `seen` is a value then
        step()
        assert seen == [kept]


def test_steps_with_infinite_gradients_are_left_out():
    weight = Parameter(Tensor([1.0]), name="w")
    optimizer = nn.Momentum([weight], 0.5, 0.9)
    step = nn.TrainOneStepWithLossScaleCell(nn.GraphCell(lambda x: (weight * x).sum()), optimizer, nn.DynamicLossScaleUpdateCell(8, 2, 3))
    found = []
    for x in (1.0, np.inf, np.nan, 1.0, 1.0, 1.0, np.inf):
        _, overflow, scale = step(Tensor([x], fj.float32))
        found.append((overflow.item(), scale.item(), round(weight.item(), 4)))
    at = [0.5, 0.5, 0.5, -0.45, -1.805, -3.5245, -3.5245]
    assert found == list(zip([False, True, True, False, False, False, True], [8, 4, 2, 2, 2, 4, 2], at))
    assert optimizer.global_step.item() == 4


def test_values_with_gradients():
    x, y = regression()
    net, loss, _ = of_regression(nn.SGD)
    weights = net.trainable_params()
    wanted = fj.value_and_grad(loss, None, weights)(x, y)
    value, gradients = nn.ForwardValueAndGrad(loss, weights, get_by_list=True)(x, y)
    assert value.item() == wanted[0].item()
    for found in (gradients, nn.WithGradCell(net, nn.MSELoss())(x, y)):
        assert all(np.array_equal(a.asnumpy(), b.asnumpy()) for a, b in zip(found, wanted[1]))
    sens = Tensor(2.0)
    for found in (nn.ForwardValueAndGrad(loss, weights, False, True, True)(x, y, sens)[1], nn.WithGradCell(net, nn.MSELoss(), sens)(x, y)):
        assert all(np.array_equal(a.asnumpy(), 2 * b.asnumpy()) for a, b in zip(found, wanted[1]))
    parts = nn.GradAccumulationCell(loss, 4)(x, y)
    np.testing.assert_allclose(parts.item(), sum(loss(x[n : n + 8], y[n : n + 8]).item() for n in range(0, 32, 8)), rtol=1e-6)
    with pytest.raises(ValueError, match=r"multiple of 5, but got \(32, 3\)"):
        nn.GradAccumulationCell(loss, 5)(x, y)
    update = nn.ParameterUpdate(weights[1])
    assert update(Tensor([3.0])).item() == weights[1].item() == 3.0


# --- Models that watch ------------------------------------------------------------------------------------------------------------


WATCHED = regression()


def watched(*callbacks, epochs=8, rate=0.05, **options):
    from framejit.dataset import NumpySlicesDataset

    net, _, optimizer = of_regression(lambda p: nn.SGD(p, rate))
    data = NumpySlicesDataset(tuple(t.asnumpy() for t in WATCHED), shuffle=False).batch(16)
    model = fj.Model(net, nn.MSELoss(), optimizer, metrics={"mae", "mse"}, **options)
    model.fit(epochs, data, data, callbacks=list(callbacks))
    return model, net, optimizer


def test_fit_evaluates_and_keeps_a_history():
    from framejit.train import History, LambdaCallback

    said, kept = [], History()
    events = {f"on_{kind}_{event}": lambda context, name=f"{kind} {event}": said.append(name) for kind in ("train", "eval") for event in ("begin", "step_end", "epoch_end", "end")}
    watched(kept, LambdaCallback(**events), epochs=2)
    epoch = ["train step_end"] * 2 + ["eval begin", "eval step_end", "eval step_end", "eval epoch_end", "eval end", "train epoch_end"]
    assert said == ["train begin", *epoch, *epoch, "train end"]
    assert kept.epoch == {"epoch": [1, 2]} and {name: len(values) for name, values in kept.history.items()} == {"net_output": 2, "mae": 2, "mse": 2}
    assert kept.history["mse"][1] < kept.history["mse"][0]


@pytest.mark.parametrize("best", [False, True])
def test_early_stopping(best):
    from framejit.train import Callback, EarlyStopping

    kept = []

    class Worse(Callback):
        """From epoch 3 on the result is worse."""

        def on_train_epoch_end(self, run_context):
            state = run_context.original_args()
            state.eval_results["eval_loss"] = abs(state.cur_epoch_num - 3.0)
            kept.append([p.asnumpy().copy() for p in state.network.get_parameters()])

    stop = EarlyStopping(patience=2, restore_best_weights=best)
    _, net, _ = watched(Worse(), stop)
    assert stop.stopped_epoch == len(kept) == 5 and stop.best == 0
    assert all(np.array_equal(a, p.asnumpy()) for a, p in zip(kept[2 if best else 4], net.get_parameters()))


def test_the_rate_falls_on_a_plateau():
    from framejit.train import LearningRateScheduler, ReduceLROnPlateau

    _, _, optimizer = watched(ReduceLROnPlateau("mse", 0.5, patience=2, min_delta=1e9, cooldown=1, min_lr=0.02))
    assert optimizer.learning_rate.item() == pytest.approx(0.02)
    rates = []
    _, _, optimizer = watched(LearningRateScheduler(lambda rate, step: (rates.append(rate), 0.1 / step)[1]), epochs=2)
    np.testing.assert_allclose([*rates, optimizer.learning_rate.item()], [0.05, 0.1, 0.05, 0.1 / 3, 0.025], rtol=1e-6)
    with pytest.warns(UserWarning, match=r"watches 'nothing', which is not there; there are: \['loss', 'm"):
        watched(ReduceLROnPlateau("nothing"), epochs=1)


def test_a_model_scales_its_loss():
    from framejit.train import DynamicLossScaleManager, FixedLossScaleManager

    scale = DynamicLossScaleManager(2.0**10, 2, 3)
    model, net, _ = watched(epochs=2, loss_scale_manager=scale)
    _, plain, _ = watched(epochs=2)
    assert scale.get_loss_scale() == model.train_network.scale_sense.item() == 2.0**11
    assert all(np.array_equal(a.asnumpy(), b.asnumpy()) for a, b in zip(net.get_parameters(), plain.get_parameters()))
    fixed, net, _ = watched(epochs=1, loss_scale_manager=FixedLossScaleManager(4.0, drop_overflow_update=False))
    assert type(fixed.train_network) is nn.TrainOneStepCell and fixed.train_network.sens == 4.0
    with pytest.raises(ValueError, match="'amp_level' must be 'O0'"):
        fj.Model(net, amp_level="O2")


def test_an_evaluation_of_its_own():
    class Evaluated(nn.Cell):
        def construct(self, x, y):
            return x.sum(), y, x, x + 1

    x, y = regression()
    found = fj.Model(nn.Dense(3, 1), metrics={"loss", "mse"}, eval_network=Evaluated(), eval_indexes=[0, 2, 3]).eval([[x, y]])
    assert found["loss"] == pytest.approx(x.sum().item(), rel=1e-5) and found["mse"] == pytest.approx(3.0)
    mae = nn.MAE().set_indexes([2, 3])
    assert fj.Model(nn.Dense(3, 1), metrics={"mae": mae}, eval_network=Evaluated()).eval([[x, y]])["mae"] == pytest.approx(3.0)
    with pytest.raises(ValueError, match="must give as much as 'eval_indexes'"):
        fj.Model(nn.Dense(3, 1), metrics={"mse"}, eval_network=Evaluated(), eval_indexes=[0, 1, 4]).eval([[x, y]])


def test_what_is_saved_besides(tmp_path, monkeypatch):
    from framejit.train import CheckpointConfig, ModelCheckpoint

    monkeypatch.chdir(tmp_path)
    config = CheckpointConfig(3, keep_checkpoint_max=0, append_info=["epoch_num", "step_num", {"seed": 7}], format="safetensors", keep_checkpoint_per_n_minutes=1)
    saves = ModelCheckpoint("net", config=config)
    _, net, _ = watched(saves, epochs=3)
    found = fj.load_checkpoint("net-3_2.safetensors")
    assert {name: found[name].item() for name in ("epoch_num", "step_num", "seed")} == {"epoch_num": 3, "step_num": 6, "seed": 7}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net-2_1.safetensors", "net-3_2.safetensors"]
    fj.save_checkpoint(net, "some", choice_func=lambda name: name == "bias")
    renamed = fj.load_checkpoint("some", choice_func=lambda name: "other." + name)
    assert list(renamed) == ["other.bias"] and not list(fj.load_checkpoint("net-3_2.safetensors", specify_prefix="we", choice_func=lambda name: name != "bias")) == []
    for call in (lambda: fj.save_checkpoint(net, "x", enc_key=b"0"), lambda: fj.save_checkpoint(net, "x", append_dict={"bias": 1}), lambda: fj.load_checkpoint("some", dec_key=b"0")):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError, match="'append_dict' must have numbers or Tensors by name, but got 'a': 'b'"):
        fj.save_checkpoint(net, "x", append_dict={"a": "b"})


PROGRAM = """
import mindspore as ms
from mindspore import nn
from mindspore.nn.learning_rate_schedule import LearningRateSchedule
from mindspore.nn.wrap.loss_scale import TrainOneStepWithLossScaleCell
from mindspore.nn.wrap.cell_wrapper import TrainOneStepCell, WithLossCell
from mindspore.train.callback import EarlyStopping, LossMonitor
from mindspore.train.loss_scale_manager import DynamicLossScaleManager
from mindspore.train.metrics import Metric, rearrange_inputs
from mindspore.nn.metrics import Accuracy
from mindspore.nn.loss.loss import LossBase
from mindspore.nn.optim.optimizer import Optimizer
from mindspore.nn.dynamic_lr import cosine_decay_lr
assert issubclass(nn.WarmUpLR, LearningRateSchedule) and ms.FixedLossScaleManager(8).get_loss_scale() == 8
"""


def test_modules_of_mindspore(tmp_path):
    import subprocess
    import sys

    (tmp_path / "p.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "framejit", "--as-mindspore", str(tmp_path / "p.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_products_with_jacobians():
    x, y, v = Tensor([1.0, 2.0]), Tensor([3.0, 5.0]), Tensor([1.0, 10.0])
    out, moved = nn.Jvp(lambda x: x * x)(x, v)
    assert out.tolist() == [1.0, 4.0] and moved.tolist() == [2.0, 40.0]
    assert nn.Jvp(lambda x, y: x * y)(x, y, (v, v))[1].tolist() == [4.0, 70.0]
    assert nn.Vjp(lambda x: x * x)(x, v)[1].tolist() == [2.0, 40.0]
    out, gradients = nn.Vjp(lambda x, y: x * y)(x, y, v)
    assert out.tolist() == [3.0, 10.0] and [g.tolist() for g in gradients] == [[3.0, 50.0], [1.0, 20.0]]
    sparse = fj.COOTensor(Tensor([[0, 1], [1, 0]]), Tensor([2.0, 3.0]), (2, 2))
    assert nn.SparseToDense()(sparse).tolist() == [[0.0, 2.0], [3.0, 0.0]]
    for first, second in ((False, False), (True, False), (False, True)):
        a, b = np.array([[0.0, 2.0], [3.0, 0.0]]), np.array([[1.0, 2.0], [4.0, 8.0]])
        found = nn.SparseTensorDenseMatmul(first, second)(Tensor([[0, 1], [1, 0]]), Tensor([2.0, 3.0]), (2, 2), Tensor(b, fj.float32))
        assert found.tolist() == ((a.T if first else a) @ (b.T if second else b)).tolist()


@pytest.mark.parametrize("make", [lambda p: nn.SGD(p, 0.1, momentum=0.9), lambda p: nn.Momentum(p, 0.1, 0.9), nn.Adam, nn.AdamWeightDecay, nn.RMSProp, nn.Adagrad],
                         ids=["SGD", "Momentum", "Adam", "AdamWeightDecay", "RMSProp", "Adagrad"])
def test_the_update_of_all_parameters_is_fused(make, tmp_path):
    """Kernels of a step: a few for all six parameters together, though each has several arrays of its own."""
    parameters = [Parameter(Tensor(np.ones((20, 30), np.float32)), name=f"p{i}") for i in range(6)]
    optimizer = make(parameters)
    gradients = tuple(Tensor(np.full((20, 30), 0.1 * i, np.float32)) for i in range(6))
    step = fj.jit(lambda *given: optimizer(given), jit_level="O1", fullgraph=True)
    step(*gradients)
    with fj.trace(str(tmp_path / "t.json")):
        step(*gradients)
    events = json.loads((tmp_path / "t.json").read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    kernels = [event["name"] for event in events if event.get("cat") == "kernel" and event["name"] != "undo"]
    assert 0 < len(kernels) <= 7, kernels
