"""Gradients of attention: the operator, and what is written out and joined at O1."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, ops

pytestmark = pytest.mark.capture
rng = np.random.default_rng(11)


def normal(*shape, dtype=np.float32):
    return rng.normal(size=shape).astype(dtype)


def cotangents(q, k, v, g, scale, mask=0.0):
    """Of q, k and v by the formula, in float64, and the result."""
    q, k, v, g = (np.asarray(a, np.float64) for a in (q, k, v, g))
    repeats = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeats, 1), np.repeat(v, repeats, 1)
    scores = q @ k.swapaxes(-1, -2) * scale + mask
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    towards = g @ v.swapaxes(-1, -2)
    d = p * (towards - (p * towards).sum(-1, keepdims=True)) * scale

    def summed(x):
        return x.reshape(x.shape[0], -1, repeats, *x.shape[2:]).sum(2)

    return p @ v, (d @ k, summed(d.swapaxes(-1, -2) @ q), summed(p.swapaxes(-1, -2) @ g))


def assert_close(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        a = a.asnumpy()
        assert a.shape == b.shape and a.dtype == np.float32
        np.testing.assert_allclose(a, b, atol=4e-6 * max(1.0, np.abs(b).max(initial=0)), rtol=1e-5)


SHAPES = [
    # batch, heads, heads of keys, queries, keys, depth, width
    (1, 1, 1, 1, 1, 1, 1),
    (2, 4, 2, 5, 7, 8, 3),
    (1, 2, 1, 130, 300, 16, 24),
    (1, 3, 3, 17, 260, 5, 9),
    (2, 2, 2, 0, 3, 4, 4),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["plain", "causal", "causal from the last", "mask", "rows of a mask"])
def test_the_operator(shape, kind):
    batch, heads, key_heads, queries, keys, depth, width = shape
    if kind == "causal from the last" and queries > keys:
        pytest.skip("queries that see nothing")
    q, k, v, g = normal(batch, heads, queries, depth), normal(batch, key_heads, keys, depth), normal(batch, key_heads, keys, width), normal(batch, heads, queries, width)
    mask = None if "mask" not in kind else normal(*((queries, keys) if kind == "mask" else (batch, 1, 1, keys)))
    ahead = {"causal": 0, "causal from the last": keys - queries}.get(kind)
    mode = {"causal": 2, "causal from the last": 3}.get(kind, 0)

    def loss(q, k, v):
        shift = None if mask is None else Tensor(mask)
        out = ops.flash_attention_score(q, k, v, heads, shift, scalar_value=0.3, input_layout="BNSD", sparse_mode=mode)
        return ops.sum(out * Tensor(g))

    compiled = fj.jit(fj.grad(loss, (0, 1, 2)), fullgraph=True)
    found = compiled(Tensor(q), Tensor(k), Tensor(v))
    hidden = 0.0 if ahead is None else np.where(np.arange(keys) > np.arange(queries)[:, None] + ahead, -np.inf, 0)
    if queries:
        assert_close(found, cotangents(q, k, v, g, 0.3, hidden + (0 if mask is None else mask))[1])
    else:
        assert_close(found, [np.zeros(a.shape) for a in (q, k, v)])
    assert compiled.graphs().count(" = attention_gradients ") == 1 and " = exp " not in compiled.graphs()
    with fj.stance("force_eager"):
        for a, b in zip(fj.grad(loss, (0, 1, 2))(Tensor(q), Tensor(k), Tensor(v)), found, strict=True):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_of_one_array_and_of_a_mask():
    x, m = normal(1, 2, 9, 4), normal(9, 9)

    def loss(x, m):
        return ops.sum(ops.square(ops.flash_attention_score(x, x, x, 2, m, scalar_value=0.5, input_layout="BNSD")))

    def written_out(x, m):
        scores = ops.matmul(x, ops.swapaxes(x, 2, 3)) * 0.5 + m
        return ops.sum(ops.square(ops.matmul(ops.softmax(scores), x)))

    wanted = fj.grad(written_out, (0, 1))(Tensor(x.astype(np.float64)), Tensor(m.astype(np.float64)))
    assert_close(fj.grad(loss, (0, 1))(Tensor(x), Tensor(m)), [w.asnumpy() for w in wanted])
    assert_close([fj.grad(loss)(Tensor(x), Tensor(m))], [wanted[0].asnumpy()])


def test_second_order():
    q, k, v = normal(1, 2, 5, 4), normal(1, 1, 6, 4), normal(1, 1, 6, 3)

    def by_operator(q, k, v):
        return ops.sum(ops.square(ops.flash_attention_score(q, k, v, 2, scalar_value=0.5, input_layout="BNSD")))

    def written_out(q, k, v):
        return ops.sum(ops.square(ops.matmul(ops.softmax(ops.matmul(q, ops.swapaxes(k, 2, 3)) * 0.5), v)))

    def second(f):
        return fj.grad(lambda *x: sum([ops.sum(ops.square(d)) for d in fj.grad(f, (0, 1, 2))(*x)]), (0, 1, 2))

    wanted = second(written_out)(*[Tensor(a.astype(np.float64)) for a in (q, k, v)])
    found = second(by_operator)(Tensor(q), Tensor(k), Tensor(v))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=2e-4, atol=2e-5 * np.abs(b.asnumpy()).max())


@pytest.mark.parametrize("causal", [False, True])
def test_dropped(causal):
    q, k, v, g, m = normal(2, 4, 9, 8), normal(2, 2, 300, 8), normal(2, 2, 300, 5), normal(2, 4, 9, 5), normal(9, 300)

    def loss(q, k, v, m):
        return ops.sum(ops.scaled_dot_product_attention(q, k, v, m, 0.3, causal, enable_gqa=True) * Tensor(g).astype(q.dtype))

    def drawn(f, *arrays):
        fj.set_seed(8)
        found = f(*[Tensor(a) for a in arrays])
        return found if isinstance(found, tuple) else (found,)

    arrays = (q, k, v, m)
    # In float64 the matrix of weights is there, and dropped as any other.
    wanted = [w.asnumpy() for w in drawn(fj.grad(loss, (0, 1, 2, 3)), *[a.astype(np.float64) for a in arrays])]
    by_operator = fj.jit(fj.grad(loss, (0, 1, 2)), fullgraph=True)
    assert_close(drawn(by_operator, *arrays), wanted[:3])
    assert by_operator.graphs().count(" = attention_gradients ") == 1 and " = exp " not in by_operator.graphs()
    assert_close(drawn(fj.jit(fj.grad(loss, (0, 1, 2, 3)), fullgraph=True), *arrays), wanted)
    with fj.stance("force_eager"):
        assert_close(drawn(fj.grad(loss, (0, 1, 2, 3)), *arrays), wanted)

    def second(q, k, v, m):
        return sum([ops.sum(ops.square(d)) for d in fj.grad(loss, (0, 1, 2))(q, k, v, m)])

    wanted = drawn(fj.grad(second, (0, 1, 2, 3)), *[a.astype(np.float64) for a in arrays])
    for a, b in zip(drawn(fj.jit(fj.grad(second, (0, 1, 2, 3)), fullgraph=True), *arrays), wanted, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=2e-4, atol=2e-5 * np.abs(b.asnumpy()).max())


def by_hand(s, m):
    s = 0.25 * s
    powers = ops.exp(s - ops.amax(s, -1, True))
    return powers / ops.sum(powers, -1, True)


FORMS = {
    "divided": lambda s, m: ops.softmax(s / 4.0, -1),
    "multiplied": lambda s, m: ops.softmax(s * 0.25, -1),
    "masked": lambda s, m: ops.softmax(s * 0.25 + m, -1),
    "by hand": by_hand,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", ["O0", "O1"])
def test_written_out(form, level):
    q, k, v, g, m = normal(2, 3, 16, 8), normal(2, 3, 40, 8), normal(2, 3, 40, 5), normal(2, 3, 16, 5), normal(16, 40)

    def attention(q, k, v):
        return ops.matmul(FORMS[form](ops.matmul(q, ops.swapaxes(k, 2, 3)), Tensor(m)), v)

    result, wanted = cotangents(q, k, v, g, 0.25, m if form == "masked" else 0)
    forward = fj.jit(attention, jit_level=level, fullgraph=True)
    assert_close([forward(Tensor(q), Tensor(k), Tensor(v))], [result])
    step = fj.jit(lambda q, k, v: fj.value_and_grad(lambda *x: ops.sum(attention(*x) * Tensor(g)), (0, 1, 2))(q, k, v), jit_level=level, fullgraph=True)
    value, found = step(Tensor(q), Tensor(k), Tensor(v))
    np.testing.assert_allclose(value.asnumpy(), (result * g).sum(), rtol=1e-4)
    assert_close(found, wanted)
    joined = int(level == "O1")
    assert forward.graphs().count(" = attention ") == joined and forward.graphs().count(" = matmul ") == 2 * (1 - joined)
    assert step.graphs().count(" = attention ") == step.graphs().count(" = attention_gradients ") == joined
    assert (" = exp " in step.graphs()) == (level == "O0")


CLOSED = {
    "-inf": lambda scores, visible: ops.where(visible, scores, float("-inf")),
    "the least": lambda scores, visible: ops.masked_fill(scores, ops.logical_not(visible), -3.4028234663852886e38),
    "not low enough": lambda scores, visible: ops.where(visible, scores, -1e9),
}


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("masked", [False, True])
def test_scores_that_are_closed_by_a_condition(closed, masked):
    q, k, v, g, m = normal(2, 3, 40, 8), normal(2, 3, 40, 8), normal(2, 3, 40, 5), normal(2, 3, 40, 5), normal(40, 40)
    open_keys = np.tril(np.ones((40, 40), bool))

    def attention(q, k, v, visible):
        scores = ops.matmul(q, ops.swapaxes(k, 2, 3)) / 4
        if masked:
            scores = scores + Tensor(m)
        return ops.matmul(ops.softmax(CLOSED[closed](scores, visible), -1), v)

    forward = fj.jit(attention, jit_level="O1", fullgraph=True)
    result, wanted = cotangents(q, k, v, g, 0.25, np.where(open_keys, m if masked else 0, -np.inf))
    assert_close([forward(Tensor(q), Tensor(k), Tensor(v), Tensor(open_keys))], [result])
    assert forward.graphs().count(" = attention ") == (closed != "not low enough")
    # Of a row without keys.
    open_keys = open_keys & (np.arange(40) != 7)[:, None]
    found = forward(Tensor(q), Tensor(k), Tensor(v), Tensor(open_keys)).asnumpy()
    exact = attention(Tensor(q), Tensor(k), Tensor(v), Tensor(open_keys)).asnumpy()
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=4e-6)
    open_keys = np.tril(np.ones((40, 40), bool))
    step = fj.jit(lambda q, k, v, c: fj.grad(lambda *x: ops.sum(attention(*x, c) * Tensor(g)), (0, 1, 2))(q, k, v), jit_level="O1", fullgraph=True)
    assert_close(step(Tensor(q), Tensor(k), Tensor(v), Tensor(open_keys)), wanted)
    assert step.graphs().count(" = attention_gradients ") == (closed == "-inf")


def test_weights_that_are_used_stay():
    q, k, v = normal(1, 2, 16, 8), normal(1, 2, 8, 40), normal(1, 2, 40, 5)

    def with_weights(q, k, v):
        weights = ops.softmax(ops.matmul(q, k))
        return ops.matmul(weights, v), weights

    out, weights = fj.jit(with_weights, jit_level="O1", fullgraph=True)(Tensor(q), Tensor(k), Tensor(v))
    result, _ = cotangents(q, k.swapaxes(2, 3), v, np.zeros((1, 2, 16, 5)), 1.0)
    assert_close([out], [result])
    np.testing.assert_allclose(weights.asnumpy().sum(-1), 1, rtol=1e-5)

    def loss(q, k, v):
        out, weights = with_weights(q, k, v)
        return ops.sum(ops.square(out)) + ops.sum(ops.square(weights))

    step = fj.jit(lambda *x: fj.grad(loss, (0, 1, 2))(*x), jit_level="O1", fullgraph=True)
    wanted = fj.grad(loss, (0, 1, 2))(*[Tensor(a.astype(np.float64)) for a in (q, k, v)])
    assert_close(step(Tensor(q), Tensor(k), Tensor(v)), [w.asnumpy() for w in wanted])


def test_small_ones_and_unknown_lengths_stay_written_out():
    attention = lambda q, k, v: ops.matmul(ops.softmax(ops.matmul(q, ops.swapaxes(k, 2, 3))), v)  # noqa: E731
    small = fj.jit(attention, jit_level="O1", fullgraph=True)
    small(*[Tensor(normal(1, 2, 6, 4)) for _ in range(3)])
    assert " = attention " not in small.graphs()
    dynamic = fj.jit(attention, jit_level="O1", fullgraph=True, dynamic=True)
    q = normal(1, 2, 64, 4)
    assert_close([dynamic(Tensor(q), Tensor(q), Tensor(q))], [cotangents(q, q, q, q, 1.0)[0]])
    assert " = attention " not in dynamic.graphs()
