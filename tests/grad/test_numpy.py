"""Gradients of functions of NumPy arrays, captured whole: against central differences, to the second order."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest
from framejit import ops
from grad.grad_support import assert_gradients

pytestmark = pytest.mark.capture
X = np.array([0.7, 1.3, -0.4, 2.1, 0.3, -1.2])
M = X.reshape(2, 3)

W = np.linspace(0.1, 0.9, 6)


def chain(x):
    return np.sum(np.sin(x) * np.exp(-x) + np.tanh(x * W) ** 2)


def views(x):
    y = x.reshape(2, 3).T
    return (y[1:] * y[:-1]).sum() + (x[::-2] * x[1::2]).sum() + x[None, :, None].sum(axis=1).prod()


def in_place(x):
    y = x * 2
    y[1:] *= x[:-1]
    z = np.zeros(8)
    z[1:7] = y
    z[2] = 7.0
    z -= z.mean()
    return (z * z).sum() + y.prod()


def of_argument(x):
    y = x + 0
    view = y[2:5]
    view += x[:3] * view
    y[0], y[1] = y[1], y[0]
    return y * view.sum()


def branches(x):
    if x.shape[0] > 3:
        y = np.where(x > 0, x * x, -x)
    else:
        y = x
    for i in range(3):
        y = y * 0.5 + x[i]
    return np.maximum(y, 0.3).sum() + np.clip(x, -0.5, 1.0).sum() + np.abs(x).max()


def products(a, b):
    return (
        (a @ b.reshape(3, 2)).sum()
        + (a[0] @ b[1])
        + np.dot(b[0], b[1])
        + np.einsum("ij,ik->jk", a, b).sum()
        + np.outer(a[0], b[1]).std()
    )


def statistics(x):
    return x.mean() + x.var() + np.sqrt(x.std() + 1) + np.cumsum(x)[2] + x.max() - x.min() + np.linalg.norm(x)


def joined(x):
    y = np.concatenate([x[2:], x[:2] * 3])
    return (np.stack([x, y]) * np.roll(y, 1)).sum() + np.pad(x, 2)[3] + np.tile(x, 2)[7] * np.repeat(x, 2)[1]


def indexed(x):
    at = np.array([0, 2, 2, 5])
    y = x[at] * 2
    z = np.zeros(6)
    z[at] = y
    return (y * y).sum() + (z * x).sum() + np.take(x, at).prod() * x[-1]


def along(x):
    row = x[None, :3]
    at = np.array([[0, 2], [1, 1]])
    return (np.take_along_axis(row, at, 1) ** 2).sum() * np.take_along_axis(x[:, None], np.array([[3]]), 0).sum()


def ordered(x):
    return (np.sort(x) * W).sum() + np.where(np.isnan(x), 0.0, x).sum()


def quantiles(x):
    rows = (x * W).reshape(2, 3) ** 3
    middle = np.median(x) * np.median(rows, axis=1).sum() + np.median(rows, axis=0).prod()
    return middle + np.percentile(x, [20, 65.0]).prod() + np.quantile(rows, 0.3, axis=-1).sum() + np.partition(x**2, 2)[2]


def matrices(x):
    a = x[:4].reshape(2, 2) + 3 * np.eye(2)
    return np.linalg.solve(a, x[4:]).sum() + np.linalg.inv(a)[0, 1] + np.linalg.det(a) + np.trace(a @ a)


ONE = [chain, views, in_place, of_argument, branches, statistics, joined, indexed, along, ordered, quantiles, matrices]


@pytest.mark.parametrize("f", ONE, ids=lambda f: f.__name__)
def test_against_differences(f):
    gradient = assert_gradients(f, X, order=1 if f is matrices else 2)
    assert gradient.graphs().count("graph @") == 1, "one graph for value and gradient"


def test_functions_of_scipy():
    special = pytest.importorskip("scipy.special")

    def f(x):
        gammas = special.gamma(x) * special.gammaln(x + 3)
        logarithms = special.xlogy(x, x + 3) + special.xlog1py(x, x + 2)
        return (gammas + logarithms + special.erfc(x) + special.logit(special.expit(x) * 0.9)).sum()

    assert_gradients(f, X, order=2)


def test_products():
    assert_gradients(products, M, M[::-1] + 0.1, order=2)


def test_the_graph():
    gradient = fj.grad(lambda x: np.sum(x * x))
    gradient(X)
    body = gradient.graphs()
    assert "reduce_sum" not in body, "what only the value needs is gone"
    assert body.count("multiply") <= 2


def test_numbers():
    assert fj.grad(lambda x: x**3)(2.0) == 12.0
    assert fj.grad(fj.grad(fj.grad(lambda x: x**4)))(2.0) == 48.0
    assert fj.grad(np.sin)(0.5) == np.cos(0.5)
    assert isinstance(fj.grad(np.sin)(np.float64(0.5)), np.float64)
    assert_gradients(lambda x, s: np.sum(x * s + s**3), X, 1.5, order=2)


def test_only_the_argument_counts():
    """Perturbation confusion: the inner gradient is with respect to y alone."""
    assert fj.grad(lambda x: x * fj.grad(lambda y: x + y)(1.0))(3.0) == 1.0
    assert fj.grad(lambda x: x * fj.grad(lambda y: x * y)(x))(3.0) == 6.0
    x = X.copy()
    np.testing.assert_array_equal(fj.grad(lambda y: (y * x).sum())(x), x)


def test_arguments_and_results():
    f = lambda x, y: (np.sum(x * y), x + y)  # noqa: E731
    x, y = X, X[::-1].copy()
    np.testing.assert_array_equal(fj.grad(f, 1, has_aux=True)(x, y)[0], x)
    gradients, aux = fj.grad(f, (0, 1), has_aux=True)(x, y)
    np.testing.assert_array_equal(gradients[1], x)
    np.testing.assert_array_equal(aux[0], x + y)
    (value, total), gradient = fj.value_and_grad(f, has_aux=True)(x, y)
    assert value == np.sum(x * y)
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(gradient, y)
    np.testing.assert_array_equal(fj.grad(f)(x, y), y + 1)
    assert fj.grad(lambda p, k: np.sum(p[0] * p[1][0] * k))((x, [y]), 2)[0].shape == (6,)
    assert fj.value_and_grad(lambda x: x)(x)[0] is x


def test_sens():
    f = lambda x: (x * x, x[:2])  # noqa: E731
    found = fj.grad(f, sens_param=True)(X, (W, np.array([5.0, 7.0])))
    expected = 2 * X * W
    expected[:2] += [5, 7]
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_jvp_and_vjp():
    out, tangent = fj.jvp(lambda x: np.cumsum(x * x), X, W)
    np.testing.assert_allclose(tangent, np.cumsum(2 * X * W), rtol=1e-14)
    np.testing.assert_array_equal(out, np.cumsum(X * X))
    out, back = fj.vjp(lambda x: np.cumsum(x * x), X)
    np.testing.assert_allclose(back(W)[0], 2 * X * np.cumsum(W[::-1])[::-1], rtol=1e-14)
    # <u, J v> = <J^T u, v>
    f = lambda x: np.sin(x[1:]) * x[:-1].prod()  # noqa: E731
    _, moved = fj.jvp(f, X, W)
    _, pulled = fj.vjp(f, X)
    np.testing.assert_allclose(W[1:] @ moved, pulled(W[1:])[0] @ W, rtol=1e-13)


def test_through_jit():
    inner = fj.jit(lambda x: np.sin(x) * x)
    expected = np.cos(X) * X + np.sin(X)
    np.testing.assert_allclose(fj.grad(inner)(X), expected, rtol=1e-14)
    for mode in ("ast", "bytecode"):
        outer = fj.jit(lambda x: fj.grad(inner)(x) * 2 + x, capture_mode=mode)
        np.testing.assert_allclose(outer(X), expected * 2 + X, rtol=1e-14)
        assert outer.graphs().count("graph @") == 1


def test_what_is_overwritten_outside():
    """The gradient is of the values that the function saw, and its writes reach the caller's array."""
    x, y = X.copy(), X.copy()

    def f(x, out):
        out[...] = x * x
        return (out * x).sum()

    np.testing.assert_allclose(fj.grad(f)(x, y), 3 * X * X, rtol=1e-14)
    np.testing.assert_array_equal(y, X * X)


def test_lengths_that_vary():
    gradient = fj.grad(lambda x: np.sum(np.sin(x) * x.mean()))
    for n in (4, 7, 9, 12):
        x = np.linspace(0, 1, n)
        np.testing.assert_allclose(gradient(x), np.cos(x) * x.mean() + np.sin(x).sum() / n, rtol=1e-13)
    assert len(gradient.cache_entries()) <= 2


def test_no_warnings():
    with np.errstate(all="raise"):
        found = fj.grad(lambda x: np.sum(np.sqrt(x)))(np.array([0.0, 1.0]))
    np.testing.assert_array_equal(found, [np.inf, 0.5])


def test_floats_of_one_size():
    found = fj.grad(lambda x: np.sum(x.astype(np.float64) * x))(X.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, 2 * X, rtol=1e-6)


@pytest.mark.parametrize(
    ("f", "args", "text"),
    [
        (lambda x: np.nanmedian(x), (X,), "nanmedian"),
        (lambda x: x.sum(), (np.arange(3),), "integers"),
    ],
)
def test_what_has_no_gradient(f, args, text):
    with pytest.raises(fj.GraphBreakError, match=text) as error:
        fj.grad(f)(*args)
    assert "framejit/" not in str(error.value)  # the line that asks for the gradient is framejit's own


def test_stop_gradient():
    np.testing.assert_array_equal(fj.grad(lambda x: (x * ops.stop_gradient(x)).sum())(X), X)
    value = ops.stop_gradient(X)
    np.testing.assert_array_equal(value, X)


WITH_ZEROS = np.array([[0.7, 0.0, -0.4, 2.0], [0.0, 0.3, 0.0, -1.2]])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.cumprod(x) * np.arange(8),
        lambda x: np.cumprod(x, axis=0) + x.cumprod(1) ** 2,
        lambda x: np.multiply.accumulate(x, axis=-1) * x,
        lambda x: np.logaddexp.accumulate(x * 9, axis=1) * (np.arange(4) - 1.5),
        lambda x: np.maximum.accumulate(x + np.arange(4) % 3, axis=1) ** 2,
        lambda x: np.minimum.accumulate(x * [1.1, -1.2, 1.3, 0.7]) * x,
    ],
)
def test_running_results_have_gradients(f):
    assert_gradients(f, WITH_ZEROS)


def test_a_running_maximum_is_the_last_of_equal_elements():
    equal = np.array([1.0, 3.0, 3.0, 2.0, np.nan, 5.0])
    found = fj.grad(lambda x: (np.maximum.accumulate(x) * np.arange(1.0, 7.0)).sum())(equal)
    np.testing.assert_array_equal(found, [1, 2, 3 + 4, 0, 5 + 6, 0])


def test_nothing_flows_into_an_infinite_logarithm():
    x = np.array([-np.inf, 1.0, -np.inf, 2.0])
    found = fj.grad(lambda x: np.logaddexp.accumulate(x)[1:].sum())(x)
    share = np.exp(1 - np.logaddexp(1, 2))
    np.testing.assert_allclose(found, [0, 2 + share, 0, 1 - share], rtol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.average(MATRIX, axis=1, weights=x),
        lambda x: np.average(x * MATRIX, axis=0, weights=np.array([1.0, 2.0])),
        lambda x: np.average(MATRIX[0], weights=x, returned=True)[0] * x,
        lambda x: np.multiply(x, MATRIX, dtype=np.float64) ** 2,
        lambda x: np.bincount([3, 1, 1, 0], x, 6) ** 2 * np.arange(6.0),
        lambda x: np.bincount(np.array([3, 1, 1, 0]), weights=x, minlength=4) ** 3,
    ],
)
def test_averages_and_histograms_have_gradients_of_their_weights(f):
    weights = np.array([0.7, 1.5, 0.4, 2.0])
    assert_gradients(f, weights)
    with fj.stance("force_eager"):
        assert_gradients(f, weights)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.bincount([3, 1, 1, 0], x) ** 2,
        lambda x: np.bincount(np.array([0, 2, 2, 7]), weights=x, minlength=2) ** 3,
        lambda x: np.repeat(x, np.array([2, 0, 1, 3])) ** 2 * np.arange(6.0),
        lambda x: (x * MATRIX).repeat(np.array([3, 1]), axis=0) ** 2,
        lambda x: np.delete(x, np.array([0, 2, 2])) ** 2,
        lambda x: np.delete(x * MATRIX, [True, False, True, False], axis=1) ** 2,
        lambda x: np.delete(x, slice(None, None, 2)) ** 3,
        lambda x: np.insert(x, np.array([0, 2, 2]), x[1:] * 2) ** 2 * np.arange(7.0),
        lambda x: np.insert(x * MATRIX, 1, x[0], axis=1) ** 2 * np.arange(10.0).reshape(2, 5),
        lambda x: np.insert(MATRIX, [0, 4], x[:2], axis=1) ** 2,
    ],
)
def test_functions_whose_arguments_say_how_long_the_result_is(f):
    x = np.array([0.7, 1.5, 0.4, 2.0])
    for marked in (f, fj.jit(f)):
        assert_gradients(marked, x)
        np.testing.assert_array_equal(fj.value_and_grad(marked)(x)[0], f(x))


@pytest.mark.parametrize("f", [np.unique, lambda x: np.union1d(x, MATRIX), lambda x: np.unique(x, return_counts=True)[0]])
def test_sets_have_no_gradient_instead_of_zeros(f):
    with pytest.raises(fj.GraphBreakError, match="without a gradient: (unique|union1d)"):
        fj.grad(lambda x: (f(x) ** 2).sum())(np.array([0.7, 1.5, 0.4, 2.0]))
    found = fj.grad(lambda x: (x[np.unique(x, return_index=True)[1]] * np.arange(3.0)).sum())(np.array([2.0, 1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(found, [1, 0, 0, 2])


MATRIX = np.arange(8.0).reshape(2, 4) ** 1.5
