"""Histograms with intervals of one width: loops of our own behind a library call, equal to eager NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from exact.same import assert_same
from exact.shapes import SHAPE_CLASSES, special_values
from exact.test_scans_and_gathers import steps_of

CALLS = {
    "default": lambda x, w: np.histogram(x),
    "bins": lambda x, w: np.histogram(x, 13),
    "many bins": lambda x, w: np.histogram(x, bins=3000),
    "one bin": lambda x, w: np.histogram(x, 1),
    "range": lambda x, w: np.histogram(x, 7, (0.25, 0.75)),
    "range of ints": lambda x, w: np.histogram(x, range=(0, 3), bins=9),
    "weights": lambda x, w: np.histogram(x, 9, weights=w),
    "weights and range": lambda x, w: np.histogram(x, 9, (-1, 2), weights=w),
    "the counts alone": lambda x, w: np.histogram(x, 5)[0] * 2,
    "the counts in a range alone": lambda x, w: np.histogram(x, 4, (0.0, 3.0))[0] * 2,
    "the edges alone": lambda x, w: np.histogram(x, 5)[1] * 2,
    "two": lambda x, w: np.histogram(x, 5, weights=w)[0] / np.histogram(x, 5)[0].sum(),
    "density": lambda x, w: np.histogram(x, 11, density=True),
    "last edge is zero": lambda x, w: np.histogram(x, 3, (-3, 0)),
    "reversed range": lambda x, w: np.histogram(x, 3, (1, 0)),
    "no bins": lambda x, w: np.histogram(x, 0),
    "range with NaN": lambda x, w: np.histogram(x, 3, (0.0, float("nan"))),
}  # fmt: skip


def weights_of(x, seed):
    rng = np.random.default_rng(seed)
    return (rng.random(x.shape), rng.integers(0, 9, x.shape), np.where(np.arange(x.size).reshape(x.shape) % 2, np.inf, -np.inf), np.ones(x.size + 1))[seed]


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex128"])
@pytest.mark.parametrize("name", CALLS)
def test_shapes_and_values(name, dtype):
    rng = np.random.default_rng(3)
    fills = (lambda n: (np.arange(n) % 7 / 3).astype(dtype), lambda n: special_values(rng, dtype, n), lambda n: np.full(n, 2, dtype))
    for make in SHAPE_CLASSES.values():
        for seed, fill in enumerate(fills):
            (x,) = make(fill, 1)
            assert_same(CALLS[name], lambda: (x, weights_of(x, seed)), calls=2)


BORDERS = {
    "zeros": np.array([0.0, -0.0]),
    "ends at minus zero": np.array([-1.0, -0.0, 0.0]),
    "equally far": np.arange(17) / 16,
    "on the edges": np.linspace(0, 1, 3001),
    "below the edges": np.nextafter(np.linspace(0, 1, 3001), 0),
    "above the edges": np.nextafter(np.linspace(0, 1, 3001), 2),
    "far apart": np.array([1e308, -1e308]),
    "denormal": np.array([1e-310, 3e-310, 5e-311]),
    "least": np.array([5e-324, 0.0]),
    "close together": np.array([1e16, 1e16 + 2, 1e16 + 4]),
    "ints that are not exact": np.array([2**60, 2**60 + 1]),
    "NaN": np.array([np.nan, 0.5]),
    "infinite": np.array([np.inf, 0.5]),
}


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("name", CALLS)
def test_borders(name, border):
    x = BORDERS[border]
    for errstate in (None, {"all": "ignore"}, {"all": "raise"}):
        assert_same(CALLS[name], lambda: (x, weights_of(x, 0)), errstate, calls=2)


@pytest.mark.parametrize("n", [65535, 65536, 65537, 131072, 200001])
def test_weights_are_added_by_blocks(n):
    rng = np.random.default_rng(n)
    x, w = rng.normal(size=n), rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)
    for layout in (lambda a: a, lambda a: a[::-1], lambda a: np.repeat(a, 3)[::3]):
        assert_same(CALLS["weights"], lambda: (layout(x), w), calls=2)
        assert_same(CALLS["weights and range"], lambda: (x, layout(w)), calls=2)


def test_it_is_a_loop_of_ours_where_it_can_be():
    x, w = np.arange(40.0).reshape(5, 8), np.ones((5, 8))
    for name in ("default", "bins", "range", "range of ints", "weights", "weights and range"):
        assert "histogram" in steps_of(CALLS[name], x, w)
    assert "histogram" not in steps_of(CALLS["density"], x, w)


def test_edges_outlive_other_histograms():
    def function(x):
        n, edges = np.histogram(x, 4)
        m, others = np.histogram(x * 2, 4)
        return n, edges, m, others, edges - others

    assert steps_of(function, np.arange(9.0)).count("histogram") == 2
    assert_same(function, lambda: (np.arange(9.0),), calls=3)


@pytest.mark.parametrize("first, width", [(0.0, 1.0), (1e6, 1.0), (-3e15, 4096.0), (1e300, 1e290), (0.0, 1e-300)])
@pytest.mark.parametrize("bins", [1, 7, 1000])
def test_blocks_with_and_without_numbers_at_an_edge(first, width, bins):
    rng = np.random.default_rng(bins)
    x, weights = first + rng.random(5000) * width, rng.random(5000)
    x[:2] = first, first + width
    edges = np.linspace(first, first + width, bins + 1)
    x[600:900] = np.nextafter(edges[rng.integers(0, bins + 1, 300)], rng.choice([-np.inf, np.inf], 300)).clip(first, first + width)
    x[1500:3500] = edges[rng.integers(0, bins + 1, 2000)]
    for name in ("default", "weights"):
        call = (lambda x, w: np.histogram(x, bins)) if name == "default" else (lambda x, w: np.histogram(x, bins, weights=w))
        assert_same(call, lambda: (x, weights), calls=2)
        assert_same(call, lambda: (x[:1000:2], weights[:500]), calls=2)
    assert_same(lambda x, w: np.histogram(x, bins, (first, first + width / 2), weights=w), lambda: (x, weights), calls=2)
