"""Loops whose operands lie across each other, large enough to go block by block along both."""

from __future__ import annotations

import numpy as np
import pytest

import framejit
from exact.same import assert_same

SHAPES = [(1024, 136), (136, 1024), (2048, 97), (97, 2048), (3001, 16), (1100, 1023), (512, 8, 96), (24, 640, 33)]


def copied(x):
    return x.T.copy(), np.ascontiguousarray(x.T), x.T.astype(np.float64)


def added(x):
    y = x.T + x.reshape(x.T.shape)
    return y, np.maximum(x.T, y) - x.reshape(x.T.shape)


def broadcast(x):
    return x.T * x.reshape(x.T.shape)[..., :1] > 0, np.where(x.T > 0, x.T, x.reshape(x.T.shape))


def written(x):
    out = np.zeros(x.T.shape, x.dtype)
    out[...] = x.T
    out[1:] += x.T[1:]
    out[:, ::2] -= x.T[:, ::2]
    return out


def turned(x):
    return x.T[::-1, ::-1] * 2, x[::2].T + 1, np.swapaxes(x, 0, -1).reshape(-1) + 1


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1", "c16", "?"])
@pytest.mark.parametrize("function", [copied, added, broadcast, written, turned], ids=lambda f: f.__name__)
def test_of_all_shapes(function, dtype):
    if dtype == "?" and function is not copied:
        return
    random = np.random.default_rng(3)
    before = framejit.config.num_threads
    try:
        for threads in (1, 2):
            framejit.config.num_threads = threads
            for shape in SHAPES:
                x = (random.normal(size=shape) * 9).astype(dtype)
                for laid in (x, np.asfortranarray(x)):
                    assert_same(function, lambda x=laid: (x.copy("K"),), calls=1)
    finally:
        framejit.config.num_threads = before
