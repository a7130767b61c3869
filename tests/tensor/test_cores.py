"""Convolution and attention: against float64, captured without a break, the same bits eagerly, in a graph and on any number of threads."""

from __future__ import annotations

import contextlib
import itertools
import math

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, mint, nn, ops
from tensor.tensor_support import assert_same, marked_as_eager

pytestmark = pytest.mark.capture

rng = np.random.default_rng(7)


@contextlib.contextmanager
def on_threads(number):
    before, fj.config.num_threads = fj.config.num_threads, number
    try:
        yield
    finally:
        fj.config.num_threads = before


def normal(*shape, dtype=np.float32):
    return Tensor(rng.normal(size=shape).astype(dtype))


def convolved(x, w, stride, around, dilation, groups):
    """Place by place of the window, in float64; and the sum of absolute terms."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *around])
    space = x.ndim - 2
    lengths = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation)]
    out, size = np.zeros((2, x.shape[0], w.shape[0], *lengths))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for group, place in itertools.product(range(groups), np.ndindex(w.shape[2:])):
        cut = tuple(slice(p * d, p * d + (n - 1) * s + 1, s) for p, d, n, s in zip(place, dilation, lengths, stride))
        part = x[(slice(None), slice(group * per_in, (group + 1) * per_in), *cut)]
        rows = slice(group * per_out, (group + 1) * per_out)
        weights = w[(rows, slice(None), *place)].astype(np.float64)
        axes = "xyz"[:space]
        out[:, rows] += np.einsum(f"nc{axes},oc->no{axes}", part, weights)
        size[:, rows] += np.einsum(f"nc{axes},oc->no{axes}", abs(part), abs(weights))
    return out, size


CONVOLUTIONS = [
    # function, image, weights, arguments, zeros around
    (ops.conv1d, (2, 3, 40), (5, 3, 4), {"pad_mode": "same", "stride": 3}, [(1, 2)]),
    (ops.conv1d, (1, 4, 17), (4, 2, 3), {"pad_mode": "pad", "padding": (2, 0), "dilation": 2, "groups": 2}, [(2, 0)]),
    (ops.conv2d, (2, 32, 30, 21), (36, 32, 3, 3), {"pad_mode": "pad", "padding": 1}, [(1, 1), (1, 1)]),
    (ops.conv2d, (2, 8, 14, 14), (9, 8, 1, 1), {}, [(0, 0), (0, 0)]),
    (ops.conv2d, (1, 64, 9, 9), (33, 64, 3, 3), {"pad_mode": "same", "stride": (2, 1)}, [(1, 1), (1, 1)]),
    (ops.conv2d, (2, 12, 7, 7), (12, 1, 3, 3), {"pad_mode": "same", "groups": 12}, [(1, 1), (1, 1)]),
    (ops.conv3d, (1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"pad_mode": "pad", "padding": (0, 1, 1), "stride": (1, 2, 1)}, [(0, 0), (1, 1), (1, 1)]),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=lambda c: c[0].__name__ + str(c[3]))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_convolution(case, dtype):
    function, image, filters, arguments, around = case
    x, w, b = normal(*image, dtype=dtype), normal(*filters, dtype=dtype), normal(filters[0], dtype=dtype)
    space = len(image) - 2
    each = lambda value: (value,) * space if isinstance(value, int) else value  # noqa: E731
    exact, size = convolved(
        x.asnumpy(), w.asnumpy(), each(arguments.get("stride", 1)), around, each(arguments.get("dilation", 1)), arguments.get("groups", 1)
    )
    exact += b.asnumpy().reshape((-1,) + (1,) * space)
    got = function(x, w, b, **arguments)
    assert got.shape == exact.shape and got.asnumpy().dtype == dtype
    assert np.all(abs(got.asnumpy() - exact) <= np.finfo(dtype).eps * (math.prod(filters[1:]) + 3) * (size + 1))
    for level in ("O0", "O1"):
        marked = fj.jit(lambda x, w, b: function(x, w, b, **arguments), jit_level=level, fullgraph=True)
        # 32 channels and more, 3 x 3: minimal filtering at O1.
        minimal = level == "O1" and dtype == np.float32 and filters[1:] == (32, 3, 3)
        want = marked(x, w, b) if minimal else got
        assert np.array_equal(want.asnumpy(), got.asnumpy()) != minimal
        assert np.all(abs(want.asnumpy() - exact) <= np.finfo(dtype).eps * (math.prod(filters[1:]) + 3) * (size.max() + 1))
        for threads in (1, 2):
            with on_threads(threads):
                assert_same(marked(x, w, b), want, level)
                assert_same(function(x, w, b, **arguments), got, level)
        assert marked.graphs().count("graph @") == 1 and " = convolution " in marked.graphs()


def test_a_block_of_a_residual_network_is_one_graph():
    class Block(nn.Cell):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(16, 16, 3), nn.Conv2d(16, 16, 3)
            self.norm1, self.norm2 = nn.BatchNorm2d(16), nn.BatchNorm2d(16)

        def construct(self, x):
            out = ops.relu(self.norm1(self.first(x)))
            return ops.relu(self.norm2(self.second(out)) + x)

    block, x = Block(), normal(2, 16, 12, 12)
    block.set_train(False)
    marked = marked_as_eager(lambda x: block(x), x)
    assert marked.graphs().count(" = convolution ") == 2


PRODUCERS = [
    lambda x, w, s: ops.relu(x) @ w,
    lambda x, w, s: (x * s + 1.5) @ w,
    lambda x, w, s: (x.astype(fj.float64) * 2).astype(fj.float32) @ w,
    lambda x, w, s: ops.relu(x.astype(fj.float16).astype(fj.float32)) @ w[:, 0],
    lambda x, w, s: ops.relu((ops.square(x) - s) / (s * s + 1) @ w + 0.5),
]


@pytest.mark.parametrize("shape", [(9000, 100, 30), (9003, 257, 64), (9001, 520, 3), (3, 3003, 128, 16), (1, 700, 5)])
def test_what_a_product_reads_is_computed_with_it(shape):
    *rows, k, n = shape
    x, w, s = normal(*rows, k), normal(k, n), normal(k)
    odd = x.asnumpy().copy()
    odd.reshape(-1)[:: k * 7 + 3] = np.inf
    odd.reshape(-1)[5 :: k * 5 + 1] = np.nan
    turned = np.ascontiguousarray(np.moveaxis(odd, -1, 0))
    for f in PRODUCERS:
        marked = fj.jit(f, fullgraph=True)
        for value in (x, Tensor(odd), Tensor(turned).transpose(*range(1, len(rows) + 1), 0)):
            expected = f(value, w, s)
            for threads in (1, 2, 3):
                with on_threads(threads):
                    assert_same(marked(value, w, s), expected, (shape, threads))
        assert "its A produced by loop" in marked.asm()


@pytest.mark.parametrize("level", ["O0", "O1"])
def test_a_batch_is_normalized_from_the_convolution_alone(level):
    conv, norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8).set_train()

    def f(x):
        return norm(conv(x))

    marked, x = fj.jit(f, fullgraph=True, jit_level=level), normal(4, 3, 12, 10)
    expected, moved = f(x), [norm.moving_mean.asnumpy(), norm.moving_variance.asnumpy()]
    norm.moving_mean[...], norm.moving_variance[...] = 0, 1
    if level == "O0":
        assert_same(marked(x), expected)
    else:
        np.testing.assert_allclose(marked(x).asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)
    for moving, wanted in zip((norm.moving_mean, norm.moving_variance), moved):
        np.testing.assert_allclose(moving.asnumpy(), wanted, rtol=1e-5)
    # x less its mean is computed where it is squared, and again where it is scaled.
    steps = [line for line in marked.asm().splitlines() if line.startswith("loop ") and "[4, 8, 120]" in line]
    assert len(steps) == 1 and "subtract_multiply_add" in steps[0], steps


def test_convolution_of_other_dtypes():
    image, filters = rng.integers(-9, 9, (1, 3, 5, 5)), rng.integers(-9, 9, (4, 3, 3, 3))
    exact = convolved(image, filters, (1, 1), [(0, 0)] * 2, (1, 1), 1)[0]
    for dtype in (np.int32, np.int64, np.float16):
        x, w = Tensor(image.astype(dtype)), Tensor(filters.astype(dtype))
        got = ops.conv2d(x, w)
        np.testing.assert_array_equal(got.asnumpy(), exact.astype(dtype))
        assert got.asnumpy().dtype == dtype
        marked_as_eager(lambda x, w: ops.conv2d(x, w), x, w, breaks=None if dtype is np.float16 else 0)


@pytest.mark.parametrize(
    ("filters", "arguments"),
    [((4, 2, 3, 3), {}), ((4, 3, 3, 3), {"groups": 2}), ((4, 3, 9, 3), {}), ((4, 3, 3, 3), {"stride": 0}), ((4, 3, 3), {}), ((4, 3, 0, 1), {})],
    ids=str,
)
def test_convolutions_that_do_not_fit(filters, arguments):
    x, w = normal(1, 3, 5, 5), normal(*filters)
    function = lambda x, w: ops.conv2d(x, w, **arguments)  # noqa: E731
    with pytest.raises(ValueError) as eager:
        function(x, w)
    with pytest.raises(ValueError) as marked:
        fj.jit(function)(x, w)
    assert str(eager.value) == str(marked.value)


def test_convolution_of_varying_lengths():
    layer = nn.Conv2d(3, 8, 3, pad_mode="pad", padding=1)
    marked = fj.jit(lambda x: layer(x) * 2)
    for height, width in [(6, 7), (9, 7), (12, 8), (20, 31), (5, 5)]:
        x = normal(2, 3, height, width)
        assert_same(marked(x), layer(x) * 2)
    assert fj.stats()["internal_errors"] == 0


def attended(q, k, v, scale, mask=None, causal=0):
    """In float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v)) if q.ndim > 2 else (k, v)
    scores = q @ np.swapaxes(k, -1, -2) * scale
    if mask is not None:
        scores = scores + mask
    if causal:
        rows, columns = np.ogrid[: scores.shape[-2], : scores.shape[-1]]
        scores = np.where(columns <= rows + (causal == 2) * (scores.shape[-1] - scores.shape[-2]), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def bound(q, k, v, scale):
    """Scores are off by eps times depth and their absolute terms, weights by twice that, their sums by eps for each key."""
    terms = scale * q.shape[-1] * abs(q).max() * abs(k).max()
    return 1.2e-7 * (2 * (q.shape[-1] + 2) * terms + k.shape[-2] + 16) * abs(v).max()


@pytest.mark.parametrize(
    ("q", "k", "mask", "options"),
    [
        ((2, 4, 65, 16), (2, 4, 33, 16), None, {}),
        ((2, 4, 65, 16), (2, 4, 33, 16), (65, 33), {"scale": 0.3}),
        ((2, 4, 300, 64), (2, 4, 300, 64), None, {"is_causal": True}),
        ((1, 8, 70, 32), (1, 2, 270, 32), (8, 1, 270), {"enable_gqa": True}),
        ((3, 20, 8), (3, 30, 8), (1, 30), {}),
        ((20, 8), (30, 8), None, {}),
    ],
    ids=str,
)
def test_scaled_dot_product_attention(q, k, mask, options):
    q, k, v = normal(*q), normal(*k), normal(*k)
    masks = [None] if mask is None else [normal(*mask), Tensor(rng.random(mask) < 0.8)]
    for attn_mask in masks:
        added = None if attn_mask is None else attn_mask.asnumpy()
        if added is not None and added.dtype == bool:
            added = np.where(added, 0, -np.inf)
        scale = options.get("scale", 1 / math.sqrt(q.shape[-1]))
        arrays = (q.asnumpy(), k.asnumpy(), v.asnumpy())
        exact = attended(*arrays, scale, added, int(options.get("is_causal", False)))
        function = lambda q, k, v, m=attn_mask: mint.nn.functional.scaled_dot_product_attention(q, k, v, m, **options)  # noqa: B023, E731
        got = function(q, k, v)
        assert got.shape == exact.shape
        assert np.all(abs(got.asnumpy() - exact) <= bound(*arrays, scale))
        for level in ("O0", "O1"):
            marked = fj.jit(function, jit_level=level, fullgraph=True)
            for threads in (1, 2):
                with on_threads(threads):
                    assert_same(marked(q, k, v), got, level)
                    assert_same(function(q, k, v), got, level)
            assert marked.graphs().count("graph @") == 1 and " = attention " in marked.graphs()


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
def test_dropout_and_float64(options):
    q, k, v, mask = normal(1, 4, 6, 8), normal(1, 2, 7, 8), normal(1, 2, 7, 8), normal(6, 7)
    wide = [Tensor(t.asnumpy().astype(np.float64)) for t in (q, k, v, mask)]

    def attention(q, k, v, m, p):
        return ops.scaled_dot_product_attention(q, k, v, m, p, enable_gqa=True, **options)

    scale = options.get("scale", 1 / math.sqrt(8))
    exact = attended(*[t.asnumpy() for t in wide[:3]], scale, wide[3].asnumpy(), int("is_causal" in options))
    np.testing.assert_allclose(attention(*wide, 0.0).asnumpy(), exact, rtol=1e-12)
    np.testing.assert_allclose(attention(q, k, v, mask, 0.0).asnumpy(), exact, rtol=1e-5, atol=1e-6)
    fj.set_seed(5)
    dropped = attention(*wide, 0.25)
    fj.set_seed(5)
    keep = ops.rand(1, 4, 6, 7).asnumpy() >= 0.25
    weights = attended(*[t.asnumpy() for t in wide[:2]], np.eye(7)[None, None].repeat(2, 1), scale, wide[3].asnumpy(), int("is_causal" in options))
    expected = (weights * keep / 0.75) @ np.repeat(wide[2].asnumpy(), 2, 1)
    np.testing.assert_allclose(dropped.asnumpy(), expected, rtol=1e-12)
    fj.set_seed(5)
    np.testing.assert_allclose(attention(q, k, v, mask, 0.25).asnumpy(), expected, rtol=1e-5, atol=1e-6)
    for given in ((q, k, v, mask), wide):
        fj.set_seed(6)
        eager = attention(*given, 0.5)
        marked = fj.jit(attention, fullgraph=True)
        fj.set_seed(6)
        assert_same(marked(*given, 0.5), eager)
        assert marked.graphs().count(" = attention ") == (given is not wide)
    assert not attention(q, k, v, mask, 1.0).asnumpy().any()
    for wrong in (-0.1, 1.5):
        with pytest.raises(ValueError, match="dropout_p"):
            attention(q, k, v, mask, wrong)


@pytest.mark.parametrize("layout", ["BSH", "SBH", "BNSD", "BSND"])
def test_flash_attention_score(layout):
    q, k, v = rng.normal(size=(2, 4, 70, 16)), rng.normal(size=(2, 2, 90, 16)), rng.normal(size=(2, 2, 90, 16))
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    order = {"BSH": (0, 2, 1, 3), "SBH": (2, 0, 1, 3), "BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3)}[layout]

    def laid(x):
        x = x.transpose(order)
        return Tensor(np.ascontiguousarray(x.reshape(*x.shape[:2], -1) if len(layout) == 3 else x))

    closed = rng.random((70, 90)) < 0.3
    shift = rng.normal(size=(1, 4, 70, 90)).astype(np.float32)
    for mask, real_shift, mode in [(None, None, 0), (closed, None, 0), (closed, shift, 0), (closed, None, 2), (None, None, 3)]:
        added = 0 if real_shift is None else real_shift
        if mask is not None and mode == 0:
            added = added + np.where(mask, -np.inf, 0)
        exact = laid(attended(q, k, v, 0.25, added, max(mode - 1, 0))).asnumpy()
        function = lambda q, k, v: ops.flash_attention_score(  # noqa: E731
            *(q, k, v, 4),
            real_shift=None if real_shift is None else Tensor(real_shift),  # noqa: B023
            attn_mask=None if mask is None else Tensor(mask),  # noqa: B023
            scalar_value=0.25,
            input_layout=layout,
            sparse_mode=mode,  # noqa: B023
        )
        got = function(laid(q), laid(k), laid(v))
        assert got.shape == exact.shape
        assert np.all(abs(got.asnumpy() - exact) <= bound(q, k, v, 0.25))


def test_flash_attention_score_is_one_graph():
    q, k, v, mask = normal(2, 40, 64), normal(2, 40, 32), normal(2, 40, 32), Tensor(np.triu(np.ones((40, 40), bool), 1))
    marked_as_eager(lambda q, k, v: ops.flash_attention_score(q, k, v, 4, scalar_value=0.25, sparse_mode=3) + 1, q, k, v)
    marked_as_eager(lambda q, k, v, m: ops.flash_attention_score(q, k, v, 4, attn_mask=m, scalar_value=0.25), q, k, v, mask)


def test_attention_that_sees_nothing_and_attention_of_halves():
    q, k = normal(1, 1, 4, 8), normal(1, 1, 2, 8)
    got = ops.flash_attention_score(q, k, k, 1, input_layout="BNSD", sparse_mode=3).asnumpy()
    assert np.isnan(got[0, 0, :2]).all() and np.isfinite(got[0, 0, 2:]).all()
    half = Tensor(q.asnumpy().astype(np.float16))
    got = ops.scaled_dot_product_attention(half, half, half)
    assert got.asnumpy().dtype == np.float16
    exact = attended(*[half.asnumpy()] * 3, 1 / math.sqrt(8))
    np.testing.assert_allclose(got.asnumpy(), exact, rtol=2e-3, atol=2e-3)


def test_a_run_that_is_taken_back_draws_once():
    """A weight that is NaN raises a flag: the interpreter runs, from the state that was there before."""
    q, k, v = normal(1, 2, 9, 8), normal(1, 2, 30, 8), normal(1, 2, 30, 8)
    attention = lambda q, k, v: ops.scaled_dot_product_attention(q, k * float("nan"), v, None, 0.5)  # noqa: E731
    drawn_behind = []
    for function in (attention, *[fj.jit(attention, fullgraph=True)] * 2):
        fj.set_seed(3)
        assert np.isnan(function(q, k, v).asnumpy()).all()
        drawn_behind.append(ops.rand(1).item())
    assert len(set(drawn_behind)) == 1


def test_flash_attention_score_drops_what_is_not_kept():
    q, k, v = normal(2, 3, 5, 8), normal(2, 3, 9, 8), normal(2, 3, 9, 8)
    found = []
    for function in (
        lambda: ops.flash_attention_score(q, k, v, 3, keep_prob=0.5, scalar_value=0.3, input_layout="BNSD"),
        lambda: ops.scaled_dot_product_attention(q, k, v, None, 0.5, scale=0.3),
        fj.jit(lambda: ops.flash_attention_score(q, k, v, 3, keep_prob=0.5, scalar_value=0.3, input_layout="BNSD"), fullgraph=True),
    ):
        fj.set_seed(3)
        found.append((function().asnumpy(), ops.rand(4).asnumpy()))
    for output, drawn_behind in found[1:]:
        np.testing.assert_array_equal(output, found[0][0])
        np.testing.assert_array_equal(drawn_behind, found[0][1])
    assert not ops.flash_attention_score(q, k, v, 3, keep_prob=0.0, input_layout="BNSD").asnumpy().any()


@pytest.mark.parametrize(
    "arguments",
    [{"keep_prob": 1.5}, {"drop_mask": [1]}, {"input_layout": "TND"}, {"sparse_mode": 4}, {"prefix": [1]}, {"pre_tokens": 3}, {"attn_mask": np.ones((3, 3), bool)}],
    ids=str,
)
def test_attention_that_is_refused(arguments):
    q = normal(1, 4, 8)
    arguments = {name: Tensor(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    with pytest.raises(ValueError):
        ops.flash_attention_score(q, q, q, 2, **arguments)
    with pytest.raises(ValueError):
        fj.jit(lambda q: ops.flash_attention_score(q, q, q, 2, **arguments))(q)
    with pytest.raises((TypeError, ValueError)):
        ops.flash_attention_score(*[normal(1, 4, 8, dtype=np.float64)] * 3, 2)


# ---- what is made of a product ----------------------------------------------------------------------------------------------------------

FINISHED = {
    "x @ w + b": (lambda x, w, b: x @ w + b, " add param 2\n"),
    "relu(x @ w + b)": (lambda x, w, b: ops.relu(x @ w + b), " add param 2, relu\n"),
    "maximum(x @ w + b, 0)": (lambda x, w, b: ops.maximum(x @ w + b, 0), " add param 2, relu\n"),
    "relu(x @ w)": (lambda x, w, b: ops.relu(x @ w), " relu\n"),
}


def seasoned(*shape, dtype):
    """Some elements are NaN, infinite, -0, or so small that products are -0."""
    out = rng.normal(size=shape).astype(dtype)
    small = 1e-30 if dtype == np.float32 else 1e-200
    flat = out.reshape(-1)
    flat[::17], flat[3::23], flat[5::41], flat[7::43], flat[9::71], flat[11::73] = -0.0, small, -small, np.inf, -np.inf, np.nan
    return Tensor(out)


@pytest.mark.parametrize("name", FINISHED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bias_and_relu_in_the_registers_of_a_product(name, dtype):
    function, registers = FINISHED[name]
    for level in ("O0", "O1"):
        marked = fj.jit(lambda x, w, b: function(x, w, b), jit_level=level, fullgraph=True)
        for m, k, n in [(4, 4, 4), (14, 9, 31), (33, 129, 65), (300, 16, 8), (60, 600, 70), (130, 64, 320), (40, 90, 2), (1, 40, 300), (300, 40, 1)]:
            x, w, b = seasoned(m, k, dtype=dtype), seasoned(k, n, dtype=dtype), seasoned(n, dtype=dtype)
            eager = function(x, w, b)
            for threads in (1, 2, 3):
                with on_threads(threads):
                    assert_bits(marked(x, w, b), eager, (level, m, k, n, threads))
                    assert_bits(function(x, w, b), eager, (level, m, k, n, threads))
        assert "or in the registers of tiles:" + registers in marked.asm() and marked.asm().count("\nloop ") == 0


def assert_bits(got, want, what):
    """Which NaN it is is no promise."""
    x, y = got.asnumpy(), want.asnumpy()
    assert x.dtype == y.dtype and x.shape == y.shape, what
    assert np.array_equal(np.isnan(x), np.isnan(y)), what
    assert np.where(np.isnan(x), 0, x).tobytes() == np.where(np.isnan(y), 0, y).tobytes(), what


def test_a_dense_layer_with_relu_is_one_product():
    layer, x = nn.Dense(20, 33, activation="relu"), normal(7, 20)
    marked = marked_as_eager(lambda x: layer(x), x)
    assert "or in the registers of tiles: add " in marked.asm() and ", relu\n" in marked.asm() and marked.asm().count("\nloop ") == 0
