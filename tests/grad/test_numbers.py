"""Gradients through NumPy's scalars: what indexing, sums and products of vectors give has the methods and functions of arrays."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj

EXPRESSIONS = [
    "(x[0] * x[1]).sum()", "np.max(x[0] * x[1])", "np.min(x[0] * x[1]) * x[2]", "np.clip(x[0] * x[1], -0.5, 0.7)", "x.sum().reshape(-1)[::2].sum()",
    "np.sum(np.roll(x.sum(), 1))", "np.flip(x @ x)", "x.sum().mean() + np.mean(x.prod()) + np.sum(x[0]) + x[1].max()", "np.ravel(x[0] * x[2])[0]", "(x @ x).T",
    "np.max(x @ x, keepdims=True)", "np.atleast_1d(x[0] * 2)[0] + np.squeeze(x[1] ** 3)", "x.sum().copy() * x[0].conj()", "np.linalg.norm(x).clip(0, 5) ** 2",
    "np.stack([x[0], x.sum()]).max() * x[1].ravel()[0]", "x.sum().astype(np.float64) * x[0].astype(float).min()", "np.max(x[0] * x, axis=())[1]", "x.max().squeeze() * x[1].transpose()",
]  # fmt: skip


def function_of(expression):
    scope = {"np": np}
    exec(f"def function(x):\n    return np.sum({expression})\n", scope)
    return scope["function"]


def slopes(function, x):
    step = 1e-6
    return np.array([(function(x + step * row) - function(x - step * row)) / (2 * step) for row in np.eye(len(x))])


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_gradient(expression):
    function = function_of(expression)
    for x in (np.array([0.3, 0.5, 0.2]), np.array([-1.3, 2.5, 0.7])):
        found = fj.grad(function)(x)
        assert found.dtype == x.dtype
        assert found.shape == x.shape
        np.testing.assert_allclose(found, slopes(function, x), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("expression", ["np.max(x[0] ** 3)", "(x[1] ** 2).sum() * x[0]", "np.min(x @ x) ** 2", "np.max(x ** 2, axis=()).sum()"])
def test_second_gradient(expression):
    function = function_of(expression)

    def slope(x):
        return fj.grad(function)(x) @ np.array([1.0, 2.0, 3.0])

    x = np.array([0.3, 0.5, 0.2])
    np.testing.assert_allclose(fj.grad(slope)(x), slopes(slope, x), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("function", [np.max, np.min, lambda x: x.max()])
def test_extremes_of_no_axes(function):
    for shape in ((), (1,), (1, 1)):
        found = fj.grad(lambda x: (function(x * 2) ** 2).sum())(np.full(shape, 0.75))
        assert found.shape == shape
        np.testing.assert_allclose(found, np.full(shape, 6.0))
