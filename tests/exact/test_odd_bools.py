"""Bools whose byte is neither 0 nor 1: what moves them keeps the byte, what computes with them gives 0 or 1."""

from __future__ import annotations

import numpy as np
import pytest

import framejit
from exact.same import assert_same

BYTES = np.array([0, 1, 2, 3, 255, 0, 128, 1, 0, 7] * 7, np.uint8)

LAYOUTS = {
    "line": lambda x: x,
    "short": lambda x: x[:5],
    "one": lambda x: x[2:3],
    "0-d": lambda x: x[2:3].reshape(()),
    "strided": lambda x: x[::3],
    "reversed": lambda x: x[::-1],
    "matrix": lambda x: x.reshape(7, 10),
    "transposed": lambda x: x.reshape(7, 10).T,
    "columns": lambda x: x.reshape(7, 10)[:, 2:6],
    "broadcast": lambda x: np.broadcast_to(x[2:9], (3, 7)),
}


def store(x, y):
    x[...] = y
    return x


def store_masked(x, y):
    x[y > False] = True
    x[~y] = y[~y]
    return x


def store_part(x, y):
    x[1:] = y[:-1]
    x[:1] |= y[-1:]
    return x


def branch(x, y):
    z = x.copy() if y.sum() > 2 else y.copy()
    return z, x & y


def element(x, y):
    e = x.ravel()[2]
    return np.full(3, e), np.where(y, e, y), e, bool(e), e + 1, e & True, x.ravel()[2].item(), x.ravel()[:4].tolist()


def fill(x, y):
    z = np.zeros_like(y)
    z[...] = x.ravel()[x.size - 1]
    return z


FUNCTIONS = {
    "copies": lambda x, y: (x.copy(), np.array(x), np.ascontiguousarray(x), x.astype(bool), x.ravel(), +x.view(np.uint8)),
    "moves": lambda x, y: (np.concatenate([x.ravel(), y.ravel()]), np.stack([x, y]), np.roll(x, 1), np.flip(x).copy(), np.tile(x, 2), np.repeat(x, 2)),
    "choices": lambda x, y: (np.where(y, x, y), np.where(x, y, True), np.where(y, x & y, x), np.where(x, False, x), np.where(x, 1, 2)),
    "bitwise": lambda x, y: (x & y, x | y, x ^ y, ~x, x & True, x | False),
    "logical": lambda x, y: (np.logical_and(x, y), np.logical_or(x, y), np.logical_xor(x, y), np.logical_not(x)),
    "arithmetic": lambda x, y: (x + y, x * y, np.maximum(x, y), np.minimum(x, y), x + 1, x * 0.5, np.abs(x), abs(x)),
    "roundings": lambda x, y: (np.floor(x), np.ceil(x), np.trunc(x)),
    "comparisons": lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y),
    "casts": lambda x, y: (x.astype(int), x.astype("uint8"), x.astype("float16"), x.astype(float), x.astype(complex)),
    "reductions": lambda x, y: (x.sum(), x.mean(), x.any(), x.all(), x.max(), x.min(), x.sum(axis=-1), x.any(axis=0), np.count_nonzero(x), x.prod()),
    "scans": lambda x, y: (np.cumsum(x), np.cumprod(x), np.logical_or.accumulate(x.ravel())),
    "selections": lambda x, y: (x[y], y[x], x.ravel()[np.array([-1, 0, -1])], np.nonzero(x), np.sort(x, axis=-1)),
    "stores": store,
    "masked stores": store_masked,
    "parts": store_part,
    "branches": branch,
    "elements": element,
    "filled": fill,
}
NO_AXES = {"moves", "reductions", "scans", "selections", "parts", "elements"}


def as_bytes(value):
    if isinstance(value, (tuple, list)):
        return [as_bytes(item) for item in value]
    return (value.dtype.char, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_odd_bools(name, layout):
    function = FUNCTIONS[name]
    if layout == "0-d" and name in NO_AXES:
        pytest.skip("of axes")

    def make():
        x, y = BYTES.view(bool), np.roll(BYTES, 3).view(bool)
        of = LAYOUTS[layout](x.copy())
        return (of if of.flags.writeable else of.copy()) if name in ("stores", "masked stores", "parts") else of, LAYOUTS[layout](y.copy())

    if name == "elements" and make()[0].size < 5:
        pytest.skip("of five elements")
    marked = assert_same(function, make)
    expected, actual = make(), make()
    assert as_bytes(marked(*actual)) == as_bytes(function(*expected))
    assert as_bytes(actual) == as_bytes(expected)


def test_they_are_compiled():
    x = BYTES.view(bool)
    for name in ("copies", "choices", "bitwise", "stores"):
        report = framejit.explain(FUNCTIONS[name])(x.copy(), x.copy())
        assert not report.breaks, report


@pytest.mark.parametrize("cpu", ["avx2", "avx512"])
@pytest.mark.parametrize("length", [1, 7, 31, 32, 33, 63, 64, 65, 127, 129, 700, 65_537])
def test_counts(length, cpu):
    """As many bytes at once as a vector has, and what is left of them one after the other."""
    before, framejit.config.cpu = framejit.config.cpu, cpu
    try:
        marked = framejit.jit(lambda x, m: (x.sum(), np.count_nonzero(x), x[1:].sum(), m.sum(axis=1), x[::2].sum(), x.mean()))
        for of in (np.resize(BYTES, length), np.ones(length, np.uint8), np.zeros(length, np.uint8)):
            x = of.view(bool)
            m = np.resize(of, (3, length)).view(bool)
            found, sums = marked(x, m), (of != 0).sum()
            assert found[0] == found[1] == sums and found[2] == (of[1:] != 0).sum() and found[4] == (of[::2] != 0).sum()
            assert found[3].tolist() == (m.view(np.uint8) != 0).sum(axis=1).tolist() and found[5] == sums / length
    finally:
        framejit.config.cpu = before
