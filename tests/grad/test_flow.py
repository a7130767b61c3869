"""Gradients through branches and loops on array values, selections by masks, and writes, in each mode, against finite differences."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, ops

pytestmark = pytest.mark.capture


def branch(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x * x
    return y.sum()


def loop(x):
    n = 0
    while x.sum() < 5 and n < 6:
        x = x * 1.5 + 0.1
        n += 1
    return (x * x).sum()


def elements(x):
    s = 0.0
    for v in x:
        if v > 0:
            s = s + v * v
        else:
            s = s - v
    return s


def writes(x):
    y = x * 1.0
    y[0] = y[1] * 3
    y[1:] *= 2
    return (y * y).sum()


def until_small(x):
    z = x.copy()
    while (z * z).sum() > 1:
        z = z / 2
    return z.sum()


def leaves(x):
    t = 0
    for i in range(3):
        if x[i] > 0:
            t = t + x[i] * x[i + 1]
            if x[i + 1] > 0:
                continue
            t = t * 2
        else:
            break
    return t + x.sum()


def chosen(x):
    y = x[x > 0]
    return (y * y).sum()


def chosen_and_written(x):
    m = x > 0
    y = x * 1.0
    y[m] = x[m] * x[m]
    return (y * y * y).sum()


def chosen_on_one_side(x):
    s = 0.0
    if x.sum() > -9:
        z = x[x > -0.5]
        s = (z * z[::-1]).sum()
    return s + x[x < 0].sum() + x.reshape(5, 1)[x > 0].sum()


def chosen_twice(x):
    return (x[x > 0] * x[x > 0].sum()).sum()


def mean_of_chosen(x):
    if not (x > 0).any():
        return x.sum()
    return (x[x > 0].mean() - x.mean()) ** 2


def differences(f, x, h=1e-6):
    out = np.zeros_like(x)
    for i in range(len(x)):
        up, down = x.copy(), x.copy()
        up[i] += h
        down[i] -= h
        out[i] = (f(up) - f(down)) / (2 * h)
    return out


WAYS = {
    "eager": fj.grad,
    "jit of grad": lambda f: fj.jit(lambda x: fj.grad(f)(x)),
    "grad of jit": lambda f: fj.grad(fj.jit(f)),
    **{mode: lambda f, mode=mode: fj.jit(capture_mode=mode)(lambda x: fj.grad(f)(x)) for mode in ("bytecode", "ast", "trace")},
    "O1": lambda f: fj.jit(lambda x: fj.grad(f)(x), jit_level="O1"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "function",
    [branch, loop, elements, writes, until_small, leaves, chosen, chosen_and_written, chosen_on_one_side, chosen_twice, mean_of_chosen],
)
def test_gradients(function, way):
    rng = np.random.default_rng(4)
    gradient = WAYS[way](function)
    internal = fj.stats()["internal_errors"]
    for _ in range(4):
        x = rng.standard_normal(5)
        expected = differences(function, x)
        for given in (x, Tensor(x)):
            for _ in range(2):
                got = gradient(given.copy())
                np.testing.assert_allclose(got.asnumpy() if isinstance(got, Tensor) else got, expected, atol=1e-5)
    assert fj.stats()["internal_errors"] == internal


def test_what_a_mask_chooses_is_one_graph():
    def f(x, m):
        y = x[m]
        return (y * y).sum()

    marked = fj.jit(lambda x, m: fj.grad(f)(x, m), fullgraph=True)
    x = np.linspace(-1.0, 2.0, 7)
    for m in (x > 0, x > 9, x > -9):
        np.testing.assert_array_equal(marked(x, m), np.where(m, 2 * x, 0.0))
    assert len(marked.cache_entries()) == 1
    assert "expand" in marked.graphs()


def test_tensors_chosen():
    def f(t):
        return (ops.masked_select(t, t > 0) ** 2).sum()

    t = Tensor(np.array([1.0, -2.0, 3.0]))
    np.testing.assert_array_equal(fj.grad(f)(t).asnumpy(), [2.0, 0.0, 6.0])
