"""np.pad: in the modes that copy, it becomes stores of parts, which nothing puts together if something is computed of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import framejit as fj

MODES = ["constant", "edge", "reflect", "symmetric", "wrap"]
WIDTHS = [0, 1, 2, (1,), (2, 0), (0, 3), ((1, 2),), "pairs", "singles"]
SHAPES = [(1,), (2,), (9,), (100,), (1, 1), (3, 2), (1, 8), (16, 17), (4, 3, 5), (2, 3, 1, 4), (0,), (0, 4)]
DTYPES = ["f8", "f4", "f2", "i8", "i2", "u1", "?", "c16", "c8"]


def widths_of(widths, rank):
    return {"pairs": [(i % 3, 1 - i % 2) for i in range(rank)], "singles": [(i % 2 + 1,) for i in range(rank)]}.get(
        widths, widths
    )


def seen(function, *args):
    """The array that comes out, or the exception."""
    try:
        found = function(*args)
    except Exception as error:
        return type(error), str(error)
    return found.dtype, found.shape, found.strides, found.flags.writeable, found.flags.owndata, found.tobytes()


def entries(marked):
    return marked._report()["entries"]


def layouts(x):
    yield x
    yield np.asfortranarray(x)
    yield np.repeat(x, 2, axis=-1)[..., ::2]
    yield x[::-1]
    yield np.broadcast_to(x[..., :1], x.shape) if x.size else x


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_results(mode, widths):
    def padded(x, widths, mode):
        return np.pad(x, widths, mode)

    def computed(x, widths, mode):
        p = np.pad(x, widths, mode=mode)
        return p[::-1] ^ p if x.dtype == "?" else p[::-1] * 3 + p

    for form in (padded, computed):
        for shape in SHAPES:
            marked = fj.jit(form)
            for dtype in DTYPES if form is padded else ("f8", "?", "u1"):
                given = np.random.default_rng(1).integers(0, 100, shape).astype(dtype)
                for x in layouts(given):
                    args = (x, widths_of(widths, x.ndim), mode)
                    assert seen(marked, *args) == seen(form, *args), (shape, dtype, x.strides)


@pytest.mark.parametrize(
    "value",
    [0, 1, -1, 7, 127, 128, 255, 256, -129, 2**31, 2**62, 2**63, 2**64, 2.5, np.nan, -np.inf, 1e300, -0.0, True],
)
def test_constants(value):
    def padded(x):
        return np.pad(x, ((1, 0), (2, 1)), constant_values=value)

    for dtype in DTYPES:
        x = np.ones((2, 3), dtype)
        with np.errstate(all="ignore"):
            assert seen(fj.jit(padded), x) == seen(padded, x), dtype


OTHERS = [
    lambda x: np.pad(x, 1, "mean"),
    lambda x: np.pad(x, 1, "linear_ramp", end_values=3),
    lambda x: np.pad(x, 1, "reflect", reflect_type="odd"),
    lambda x: np.pad(x, 1, constant_values=(1, 2)),
    lambda x: np.pad(x, 1, constant_values=np.float32(2)),
    lambda x: np.pad(x, np.array([1, 2])),
    lambda x: np.pad(x, 9, "reflect"),
    lambda x: np.pad(x, 9, "wrap"),
    lambda x: np.pad(np.asfortranarray(x), 1, "edge"),
    lambda x: np.pad(x[:, None], 1, "edge"),
    lambda x: np.pad(x[0, 0], 3),
]
WRONG = [
    lambda x: np.pad(x, -1),
    lambda x: np.pad(x, 1.5),
    lambda x: np.pad(x, (1, 2, 3)),
    lambda x: np.pad(x, ((1, 2), (3,))),
    lambda x: np.pad(x, ((1, 2),) * 3),
    lambda x: np.pad(x, None),
    lambda x: np.pad(x, 1, "unknown"),
    lambda x: np.pad(x, 1, "edge", constant_values=1),
    lambda x: np.pad(x, 1, "constant", end_values=1),
    lambda x: np.pad(x, 1, constant_values="text"),
    lambda x: np.pad(x[:0], 1, "edge"),
    lambda x: np.pad(x, 2**62),
]


@pytest.mark.parametrize("form", [*OTHERS, *WRONG])
def test_what_numpy_does_itself(form):
    marked = fj.jit(form)
    x = np.arange(6.0).reshape(2, 3)
    for _ in range(3):
        assert seen(marked, x) == seen(form, x)
    if form in WRONG:
        assert isinstance(seen(form, x)[0], type)


def sums_of_neighbours(x):
    p = np.pad(x, 1, mode="edge")
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x


def mirrored(x):
    p = np.pad(x, ((0, 0), (2, 3)), mode="reflect")
    return p[:, 4:] - p[:, :-4]


def framed(x):
    return np.pad(x, 2, constant_values=-1.5)[1:] * 2 + 1


@pytest.mark.parametrize("form", [sums_of_neighbours, mirrored, framed], ids=lambda f: f.__name__)
def test_no_call_and_no_array_is_left(form):
    x = np.random.default_rng(1).random((300, 400))  # small arrays are put together: more code would not pay
    marked = fj.jit(form)
    for _ in range(2):
        assert seen(marked, x) == seen(form, x)
    (entry,) = entries(marked)
    assert entry["kind"] == "function" and entry["library_calls"] == 0
    text = "\n".join(fj.explain(fj.jit(form))(x).graphs)
    assert set(re.findall(r"(%\d+) = empty", text)) <= set(re.findall(r"%\d+", text.partition("return")[2])), text


@pytest.mark.parametrize("mode", MODES)
def test_gradients(mode):
    def loss(x):
        p = np.pad(x, ((1, 2), (2, 1)), mode)
        return (p[1:] * p[:-1] * np.arange(p.shape[1])).sum()

    x = np.random.default_rng(1).normal(size=(4, 5))
    step = 1e-6 * np.eye(x.size).reshape(-1, *x.shape)
    expected = np.array([(loss(x + h) - loss(x - h)) / 2e-6 for h in step]).reshape(x.shape)
    assert np.allclose(fj.grad(loss)(x), expected, rtol=1e-6, atol=1e-6)


def test_sizes_that_vary_are_symbols():
    def padded(x, n):
        return np.pad(x, (n, 1), "symmetric") + 1

    marked = fj.jit(padded)
    for length in (20, 31, 7, 1, 100, 64):
        for n in (1, 2):
            x = np.arange(float(length))
            assert seen(marked, x, n) == seen(padded, x, n)
    assert len(entries(marked)) <= 6
