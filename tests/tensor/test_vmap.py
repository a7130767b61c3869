"""vmap: each sample as by itself."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, nn, ops
from tensor.tensor_support import assert_array, assert_same

X = np.arange(12.0, dtype=np.float32).reshape(4, 3)


def test_axes():
    def f(x, w, b):
        return (x * w).sum() + b, x[::-1] if isinstance(x, np.ndarray) else x + w

    w, b = np.float32([1, 2, 3]), np.arange(4, dtype=np.float32)
    for make in (lambda a: a, Tensor):
        for function in (f, fj.jit(f)):
            for given, axes in ((X, 0), (X.T.copy(), 1), (X.T.copy(), -1)):
                total, other = fj.vmap(function, (axes, None, 0), (0, 1))(make(given), make(w), make(b))
                rows = [f(make(X[i].copy()), make(w), make(b)[i]) for i in range(4)]
                assert np.array_equal(np.asarray(total), np.stack([np.asarray(r[0]) for r in rows]))
                assert np.array_equal(np.asarray(other), np.stack([np.asarray(r[1]) for r in rows], 1))
                assert type(total) is type(make(w)) and total.dtype == make(w).dtype


def test_it_is_compiled():
    batched = fj.vmap(lambda x, y: x * 2 + y)
    assert_array(batched(Tensor(X), Tensor(X)), X * 3)
    assert_array(batched(Tensor(X), Tensor(X)), X * 3)
    (entry,) = batched.cache_entries()
    assert entry["kind"] == "function" and entry["hits"] == 2
    many = np.random.default_rng(0).normal(size=(300, 5))
    assert np.array_equal(fj.vmap(lambda r: np.sqrt(np.abs(r)).sum())(many), np.array([np.sqrt(np.abs(r)).sum() for r in many]))


def test_inside_of_what_is_compiled():
    marked = fj.jit(lambda x, y: fj.vmap(fj.vmap(lambda a, b: (a * b).sum(), (None, 1)), (0, None))(x, y), fullgraph=True)
    x, y = Tensor(X[:2]), Tensor(X.T[:, :2].copy())
    np.testing.assert_allclose(marked(x, y).asnumpy(), X[:2] @ X.T[:, :2])


def test_gradients_of_samples():
    net = nn.Dense(3, 1)
    x, y = Tensor(X), Tensor(np.ones((4, 1), np.float32))

    def loss(x, y):
        return ((net(x) - y) ** 2).sum()

    found = fj.vmap(fj.grad(loss))(x, y)
    assert_same(found, ops.stack([fj.grad(loss)(x[i], y[i]) for i in range(4)]))


def test_structures_and_results_that_are_the_same():
    def f(pair, k):
        return {"sum": pair[0] + pair[1], "first": [pair[0][0]]} if k is None else (pair[0] + pair[1], k)

    total, k = fj.vmap(f, ((0, None), None), (0, None))((X, X[0]), 3)
    assert np.array_equal(total, X + X[0]) and k == 3
    found = fj.vmap(f, ((0, None), None))((X, X[0]), None)
    assert np.array_equal(found["sum"], X + X[0]) and np.array_equal(found["first"], [X[:, 0]])


def test_control_flow_goes_by_the_sample():
    batched = fj.vmap(lambda x: x * 2 if x.sum() > 12 else -x)
    assert np.array_equal(batched(X), np.stack([r * 2 if r.sum() > 12 else -r for r in X]))


@pytest.mark.parametrize(
    ("axes", "args", "error", "says"),
    [
        ("0", (X,), TypeError, "in_axes"),
        (True, (X,), TypeError, "in_axes"),
        ((0, 1.0), (X, X), TypeError, "in_axes"),
        ((0, 0, 0), (X, X), ValueError, "3, but there are 2"),
        (None, (X,), ValueError, "one number"),
        ((0, 1), (X, X), ValueError, r"\[4, 3\]"),
        (2, (X,), ValueError, "out of range"),
        (0, (X[:0],), ValueError, "no samples"),
    ],
)
def test_wrong_axes(axes, args, error, says):
    with pytest.raises(error, match=says):
        fj.vmap(lambda *xs: xs[0], axes)(*args)


def test_what_is_no_function():
    with pytest.raises(TypeError, match="'fn'"):
        fj.vmap(3)
    with pytest.raises(TypeError, match="out_axes"):
        fj.vmap(abs, 0, "x")
    with pytest.raises(ValueError, match="out_axes"):
        fj.vmap(lambda x: (x, x), 0, (0, 0, 0))(X)
