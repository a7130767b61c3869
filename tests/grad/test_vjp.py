"""vjp: the function runs once, and the function that comes back gives gradients of that run as often as it is called."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj
from framejit import Parameter, Tensor, nn, ops

pytestmark = pytest.mark.capture
X = np.linspace(0.5, 2.0, 6)
SEEDS = [np.arange(6.0), np.ones(6), np.linspace(-1, 1, 6)]


def kinds():
    return [pytest.param(lambda a: a, id="array"), pytest.param(lambda a: Tensor(a.astype(np.float32)), id="Tensor")]


def numbers(x):
    return x.asnumpy() if isinstance(x, Tensor) else x


@pytest.mark.parametrize("make", kinds())
@pytest.mark.parametrize("jitted", [False, True])
def test_it_runs_once_for_all_gradients(make, jitted):
    runs = []

    def f(x):
        runs.append(1)
        y = x * x
        return y * x, y

    out, back = fj.vjp(fj.jit(f) if jitted else f, make(X))
    np.testing.assert_allclose(numbers(out[0]), X**3, rtol=1e-6)
    for seed in SEEDS:
        (found,) = back((make(seed), make(seed[::-1].copy())))
        np.testing.assert_allclose(numbers(found), 3 * X**2 * seed + 2 * X * seed[::-1], rtol=1e-5)
    assert len(runs) == 1


def test_random_numbers_and_what_a_cell_keeps_are_those_of_the_run():
    x = Tensor(np.ones(1000, np.float32))
    out, back = fj.vjp(lambda x: ops.dropout(x, 0.5, training=True), x)
    for _ in range(2):
        np.testing.assert_array_equal(back(ops.ones_like(x))[0].asnumpy(), out.asnumpy())

    def network():
        return nn.BatchNorm1d(2).set_train()

    norm, other = network(), network()
    x = Tensor(np.arange(8, dtype=np.float32).reshape(4, 2))
    _, back = fj.vjp(norm, x)
    for _ in range(3):
        back(ops.ones_like(x))
    other(x)
    np.testing.assert_array_equal(norm.moving_variance.asnumpy(), other.moving_variance.asnumpy())


def test_within_a_graph():
    norm, other = nn.BatchNorm1d(2).set_train(), nn.BatchNorm1d(2).set_train()

    def gradients(x):
        out, back = fj.vjp(norm, x)
        return out, back(ops.ones_like(out)), back(out)

    x = Tensor(np.arange(8, dtype=np.float32).reshape(4, 2))
    whole = fj.jit(gradients, fullgraph=True)
    found = whole(x)
    assert whole.graphs().count("graph @") == 1
    other(x)
    np.testing.assert_array_equal(norm.moving_variance.asnumpy(), other.moving_variance.asnumpy())
    norm.moving_mean.set_data(ops.zeros(2)), norm.moving_variance.set_data(ops.ones(2))
    for a, b in zip((found[0], *found[1], *found[2]), (lambda r: (r[0], *r[1], *r[2]))(gradients(x)), strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5, atol=1e-6)


def test_of_second_order():
    def twice(x):
        _, back = fj.vjp(lambda x: x * x * x, x)
        return back(x)[0]  # 3 x^3

    for marked in (twice, fj.jit(twice)):
        np.testing.assert_allclose(fj.grad(marked)(X), 9 * X**2, rtol=1e-12)


def test_arguments_and_results_may_be_written_afterwards():
    for make in (np.copy, lambda a: Tensor(a)):
        x = make(X)
        out, back = fj.vjp(lambda x: x * x, x)
        x[...] = 0
        out[...] = 0
        np.testing.assert_array_equal(numbers(back(make(SEEDS[0]))[0]), 2 * X * SEEDS[0])


def test_weights_and_parts_that_are_not_differentiated():
    weight = Parameter(Tensor(X, fj.float64), name="weight")
    out, back, aux = fj.vjp(lambda x, n: (x * weight * n, "text"), Tensor(X), 3, weights=[weight], has_aux=True)
    (of_x,), (of_weight,) = back(Tensor(SEEDS[0]))
    assert aux == "text" and out.shape == (6,)
    np.testing.assert_allclose(of_x.asnumpy(), 3 * X * SEEDS[0], rtol=1e-15)
    np.testing.assert_allclose(of_weight.asnumpy(), 3 * X * SEEDS[0], rtol=1e-15)


def test_what_only_a_graph_follows_runs_again():
    out, back = fj.vjp(lambda x: np.array([x[0], x[1] * x[1]]), X)
    np.testing.assert_array_equal(out, [X[0], X[1] ** 2])
    np.testing.assert_array_equal(back(np.array([1.0, 1.0]))[0], [1, 2 * X[1], 0, 0, 0, 0])


def test_errors_are_the_functions():
    def wrong(x):
        raise ValueError("mine")

    for make in (np.copy, Tensor):
        with pytest.raises(ValueError, match="mine"):
            fj.vjp(wrong, make(X))
        out, back = fj.vjp(lambda x: x * 2, make(X))
        with pytest.raises(ValueError, match="sens has 2 parts, but the function gives 1"):
            back(out, out)
        assert fj.grad(lambda x: (x * x).sum())(make(X)) is not None  # no tape is left open
