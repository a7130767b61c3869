"""Functions that only make views: compiled where NumPy takes Python code for them, with the views that NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj

CALLS = {
    "split": lambda x: np.split(x, 2),
    "split in the wrong number": lambda x: np.split(x, 7),
    "array_split": lambda x: np.array_split(x, 3, axis=-1),
    "hsplit": lambda x: np.hsplit(x, 2),
    "expand_dims": lambda x: np.expand_dims(x, (0, -1)),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "rollaxis": lambda x: np.rollaxis(x, 1),
    "rot90": lambda x: np.rot90(x),
    "flip": lambda x: np.flip(x, 0),
    "broadcast_to": lambda x: np.broadcast_to(x, (3, *x.shape)),
    "broadcast_arrays": lambda x: np.broadcast_arrays(x[:1], x),
    "atleast_3d": lambda x: np.atleast_3d(x),
    "diagonal": lambda x: np.diagonal(x),
    "squeeze": lambda x: np.squeeze(x[None]),
    "squeeze of what is longer": lambda x: np.squeeze(x, 0),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "the argument itself": lambda x: (np.atleast_1d(x), x),
    "rows of parts": lambda x: [part.T for part in np.split(x, 2, axis=-1)],
}


def seen(value, x):
    if isinstance(value, (tuple, list)):
        return type(value), [seen(v, x) for v in value]
    if not isinstance(value, np.ndarray):
        return type(value), repr(value)
    address = value.__array_interface__["data"][0] - x.__array_interface__["data"][0]
    flags = value.flags.writeable, value.flags.owndata, value.flags.c_contiguous, value.flags.f_contiguous
    return value is x, value.dtype, value.shape, value.strides, flags, address, value.base is x or value.base is x.base


def outcome(function, x):
    try:
        return seen(function(x), x)
    except Exception as error:
        return type(error), str(error)


def arrays():
    x = np.arange(24.0).reshape(4, 6)
    yield from (x, x.T, x[::-1], x[:, ::2], x.astype("c8"), x.astype("?"), x.astype(object), x[:0], np.zeros((0, 4)))
    yield from (np.arange(24).reshape(2, 3, 4), np.arange(6), np.array(3.0), np.zeros((1, 1)))
    fixed = x.copy()
    fixed.flags.writeable = False
    yield fixed


@pytest.mark.parametrize("function", CALLS.values(), ids=CALLS)
def test_views_are_those_of_numpy(function):
    for x in arrays():
        marked = fj.jit(function)
        for _ in range(3):
            assert outcome(marked, x) == outcome(function, x), (x.dtype, x.shape)


@pytest.mark.parametrize("name", ["split", "expand_dims", "moveaxis", "rot90", "broadcast_to", "swapaxes"])
def test_calls_of_python_code_are_compiled(monkeypatch, name):
    monkeypatch.setattr(fj.config, "profitability", "estimate")
    marked, x = fj.jit(CALLS[name]), np.arange(24.0).reshape(4, 6)
    for _ in range(3):
        marked(x)
    (entry,) = marked._report()["entries"]
    assert entry["kind"] == "function" and entry["hits"] > 0 and not entry["kernels"]


@pytest.mark.parametrize("function", [lambda x: x.T, lambda x: x[1:], lambda x: x.reshape(-1)])
def test_what_numpy_makes_in_c_is_not(monkeypatch, function):
    monkeypatch.setattr(fj.config, "profitability", "estimate")
    marked, x = fj.jit(function), np.arange(24.0).reshape(4, 6)
    for _ in range(3):
        marked(x)
    assert not marked._report()["entries"]


def test_writes_reach_the_argument():
    x = np.zeros((4, 6))
    marked = fj.jit(lambda x: np.split(np.rot90(x), 2))
    for k in range(4):
        above, below = marked(x)
        above += k + 1
        below -= k
    expected = np.zeros((4, 6))
    for k in range(4):
        above, below = np.split(np.rot90(expected), 2)
        above += k + 1
        below -= k
    assert x.tobytes() == expected.tobytes()
