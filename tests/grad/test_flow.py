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


def one_of_three(x):
    y = x * 2
    if y[0] > 0:
        z = np.sin(y) * x
    elif y[1] > 0:
        z = y**3 + x[::-1].sum()
    else:
        z = x
    return (z * y).sum()


def in_rounds(x):
    t = 0.0
    for i in range(4):
        if x[i] > 0:
            t = t + x[i] * x[i + 1]
        else:
            t = t - x[i]
    return t * t


def written_behind(x):
    y = x * 1.5
    z = y[1:] * y[:-1] if y.sum() > 0 else y[2] * 3
    y += x
    y[1] *= 2
    return (z * y[:4]).sum()


def on_a_part(x):
    y = np.exp(1j * x)
    if y.real.sum() > 0:
        y = y * y.imag
    return (y * np.arange(5)).imag.sum()


def without_the_argument(x):
    s = 2.0
    if (x > 5).any():
        s = 3.0
    return (x * x).sum() * s


@pytest.mark.parametrize("function", [one_of_three, in_rounds, written_behind, on_a_part, without_the_argument])
def test_branches_are_in_the_graph(function):
    rng = np.random.default_rng(8)
    gradient, second = fj.grad(function), fj.grad(lambda x: (fj.grad(function)(x) ** 2).sum())
    for _ in range(6):
        x = rng.standard_normal(5)
        np.testing.assert_allclose(gradient(x), differences(function, x), atol=1e-5)
        np.testing.assert_allclose(second(x), differences(lambda x: (gradient(x) ** 2).sum(), x), atol=2e-3, rtol=1e-4)
    for each in (gradient, second):
        assert each.graphs().count("graph @") == 1
        assert len(each.cache_entries()) == 1
    assert gradient.graphs().count(" = if ") >= (function is not without_the_argument)
    fj.jit(lambda x: fj.grad(function)(x), fullgraph=True)(x)


def test_what_is_left_to_the_tape():
    def written(x):
        y = x * 1.0
        if x[0] > 0:
            y[1] = x[2] * 3
        return (y * y).sum()

    for function in (written, until_small):
        gradient = fj.grad(function)
        for sign in (1, -1):
            x = sign * np.array([0.4, -1.2, 0.7, 2.0, 0.1])
            np.testing.assert_allclose(gradient(x), differences(function, x), atol=1e-5)
        assert gradient.graphs().count("graph @") == 0
        with pytest.raises(fj.GraphBreakError, match="loop that depends on an array value, or a branch that writes|branch on"):
            fj.jit(lambda x: fj.grad(function)(x), fullgraph=True)(x)


def test_with_fullgraph_the_function_s_own_exceptions_come_out():
    def reshaped(x):
        return x.reshape(7).sum()

    def raised(x):
        raise ValueError("own")

    def branches(x):
        if x.sum() > 1:
            raise KeyError("own")
        return x.sum()

    def vjp(function, x):
        out, back = fj.vjp(function, x)
        return back(out)

    for make in (np.asarray, fj.Tensor):
        x = make(np.ones(3, np.float32))
        for function, kind, message in ((reshaped, ValueError, "cannot reshape"), (raised, ValueError, "own"), (branches, KeyError, "own")):
            for transform in (
                lambda x: fj.grad(function)(x),
                lambda x: fj.value_and_grad(function)(x),
                lambda x: fj.jvp(function, x, x),
                lambda x: vjp(function, x),
                lambda x: fj.grad(lambda x: fj.grad(function)(x).sum())(x),
            ):
                with pytest.raises(kind, match=message):
                    fj.jit(transform, fullgraph=True)(x)
    # A tape that was left open would go on.
    assert fj.grad(lambda x: (x * x).sum())(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]


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
