"""Computations that go by rows, large enough for the plan to run them block by block: bits, warnings and what they raise."""

from __future__ import annotations

import numpy as np
import pytest

import framejit
from exact.same import assert_same


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * x[0] + 1


def distances(x):
    centres = x[:5]
    d = ((x[:, None, :] - centres) ** 2).sum(axis=-1)
    return d, d.argmin(axis=1), d.min(axis=1)


def standardised(x):
    return (x - x.mean()) / x.std(), x.var(axis=1), x.mean(axis=1)


def chained(x):
    y = np.log(np.abs(x) + 1)
    z = y / y.sum(axis=1)[:, None]
    return np.where(z > z.mean(axis=1)[:, None], z, 0), (z * np.log(z)).sum(axis=1)


def of_rows(x):
    s = np.sqrt(x.sum(axis=1))
    return x * s[:, None], s


FUNCTIONS = [softmax, layer_norm, distances, standardised, chained, of_rows]
LAYOUTS = {
    "C": lambda x: x,
    "F": np.asfortranarray,
    "rows": lambda x: np.repeat(x, 2, axis=0)[::2],
    "reversed": lambda x: x[::-1, ::-1],
    "three axes": lambda x: x.reshape(-1, 4, x.shape[1] // 4),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_blocks_of_rows(function, layout):
    random = np.random.default_rng(5)
    shapes = [("f4", (901, 516)), ("f8", (20_003, 12))]
    if function in (softmax, layer_norm):
        shapes.append(("f2", (900, 600)))
    elif layout == "three axes":
        return
    before = framejit.config.num_threads
    try:
        for threads in (1, 2):
            framejit.config.num_threads = threads
            for dtype, shape in shapes:
                x = LAYOUTS[layout](random.normal(size=shape).astype(dtype))
                assert_same(function, lambda x=x: (x,), calls=1)
    finally:
        framejit.config.num_threads = before


def windows(x):
    return np.lib.stride_tricks.sliding_window_view(x, (3, 5)).mean(axis=(2, 3))


def of_threes(x):
    return x[: len(x) // 3 * 3].reshape(-1, 3, x.shape[1]).sum(axis=(1, 2)), x[:, :6].reshape(-1, 2, 3).sum(axis=2)


def of_planes(x):
    y = x[: len(x) // 4 * 4].reshape(-1, 2, 2, x.shape[1])
    return y.sum(axis=(1, 3)), y[..., ::2].mean(axis=(1, 3)), np.abs(y).sum(axis=(2, 3))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("function", [windows, of_threes, of_planes], ids=lambda f: f.__name__)
def test_short_runs(function, dtype):
    """Sums of a few elements at several places: leaves of many results in one call."""
    random = np.random.default_rng(6)
    for shape in ((3, 6), (17, 40), (70, 131), (5, 300)):
        x = random.normal(size=shape).astype(dtype)
        if shape[1] > 100:
            x[0, 3], x[1, 7] = np.inf, -0.0
        for layout in (x, np.asfortranarray(x), x[::-1]):
            assert_same(function, lambda x=layout: (x,), calls=1)
