"""The two modules of MindSpore's tutorial on just-in-time compilation, at a size for tests: a block of ResNet, the attention of Llama 3."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, nn, ops
from tensor.tensor_support import assert_same, leaves

pytestmark = pytest.mark.capture


class BasicBlock(nn.Cell):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, pad_mode="pad", padding=1, has_bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, pad_mode="pad", padding=1, has_bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.down_sample = None

    def construct(self, x):
        identity = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        if self.down_sample is not None:
            identity = self.down_sample(x)
        out += identity
        return self.relu(out)


class LlamaConfig:
    def __init__(self, hidden_size=64, heads=4, key_value_heads=2, rope_theta=5e5):
        self.hidden_size, self.heads, self.key_value_heads, self.rope_theta = hidden_size, heads, key_value_heads, rope_theta
        self.attention_bias, self.attention_dropout = False, 0.0


class RotaryEmbedding(nn.Cell):
    def __init__(self, dim, base):
        super().__init__()
        self.inv_freq = 1.0 / (base ** (ops.arange(0, dim, 2).to(fj.float32) / dim))

    def construct(self, x, position_ids):
        inv_freq = self.inv_freq[None, :, None].to(fj.float32).broadcast_to((position_ids.shape[0], -1, 1))
        positions = position_ids[:, None, :].to(fj.float32)
        freqs = ops.matmul(inv_freq, positions).swapdims(1, 2)
        emb = ops.cat((freqs, freqs), axis=-1)
        return ops.stop_gradient(emb.cos().to(x.dtype)), ops.stop_gradient(emb.sin().to(x.dtype))


def rotate_half(x):
    half = x.shape[-1] // 2
    return ops.cat((-x[..., half:], x[..., :half]), axis=-1)


def apply_rotary(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


def repeat_kv(x, n):
    batch, heads, length, dim = x.shape
    if n == 1:
        return x
    return x[:, :, None, :, :].broadcast_to((batch, heads, n, length, dim)).reshape(batch, heads * n, length, dim)


class LlamaAttention(nn.Cell):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.head_dim = config.hidden_size // config.heads
        if self.head_dim * config.heads != config.hidden_size:
            raise ValueError(f"hidden_size must be divisible by heads (got {config.hidden_size} and {config.heads}).")
        kv = config.key_value_heads * self.head_dim
        self.q_proj = nn.Dense(config.hidden_size, config.hidden_size, has_bias=config.attention_bias)
        self.k_proj = nn.Dense(config.hidden_size, kv, has_bias=config.attention_bias)
        self.v_proj = nn.Dense(config.hidden_size, kv, has_bias=config.attention_bias)
        self.o_proj = nn.Dense(config.hidden_size, config.hidden_size, has_bias=config.attention_bias)
        self.rotary = RotaryEmbedding(self.head_dim, config.rope_theta)

    def construct(self, hidden_states, attention_mask=None, position_ids=None, **kwargs):
        batch, length, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(batch, length, self.config.heads, self.head_dim).swapaxes(1, 2)
        k = self.k_proj(hidden_states).view(batch, length, self.config.key_value_heads, self.head_dim).swapaxes(1, 2)
        v = self.v_proj(hidden_states).view(batch, length, self.config.key_value_heads, self.head_dim).swapaxes(1, 2)
        cos, sin = self.rotary(v, position_ids)
        q, k = apply_rotary(q, k, cos, sin)
        groups = self.config.heads // self.config.key_value_heads
        k, v = repeat_kv(k, groups), repeat_kv(v, groups)
        weights = ops.matmul(q, k.swapaxes(2, 3)) / float(np.sqrt(self.head_dim))
        if attention_mask is not None:
            weights = weights + attention_mask[:, :, :, : k.shape[-2]]
        weights = ops.softmax(weights, axis=-1, dtype=fj.float32).to(q.dtype)
        weights = ops.dropout(weights, p=self.config.attention_dropout, training=self.training)
        out = ops.matmul(weights, v).swapaxes(1, 2).reshape(batch, length, self.config.hidden_size)
        return self.o_proj(ops.cast(out, hidden_states.dtype))


def conv_case():
    return BasicBlock(4), (Tensor(np.random.default_rng(0).normal(size=(1, 4, 9, 9)).astype(np.float32)),)


def attention_case(mask=False):
    rng, length = np.random.default_rng(1), 6
    hidden = Tensor(rng.normal(size=(1, length, 64)).astype(np.float32))
    masked = Tensor(np.triu(np.full((1, 1, length, length), -1e9, np.float32), 1)) if mask else None
    return LlamaAttention(LlamaConfig()), (hidden, masked, Tensor(np.arange(length, dtype=np.float32)[None]))


CASES = {"conv": conv_case, "attention": attention_case, "masked attention": lambda: attention_case(True)}


def compare(found, expected, level):
    if level == "O0":
        return assert_same(found, expected)
    for a, b in zip(leaves(found), leaves(expected)):
        scale = np.abs(b.asnumpy()).max() + 1e-6
        np.testing.assert_allclose(a.asnumpy() / scale, b.asnumpy() / scale, atol=2e-5)
    return None


@pytest.mark.parametrize("level", ["O0", "O1"])
@pytest.mark.parametrize("case", CASES)
def test_forward(case, level):
    net, args = CASES[case]()
    expected = net(*args)
    marked = fj.jit(net.construct, jit_level=level, fullgraph=True)
    for _ in range(2):
        compare(marked(*args), expected, level)
    assert marked.graphs().count("graph @") == 1


@pytest.mark.parametrize("level", ["O0", "O1"])
@pytest.mark.parametrize("case", CASES)
def test_forward_and_backward(case, level):
    net, args = CASES[case]()
    step = fj.value_and_grad(net, None, net.trainable_params())
    expected = step(*args)
    assert len(expected[1]) == len(net.trainable_params())
    marked = fj.jit(lambda *args: step(*args), jit_level=level)
    for _ in range(2):
        compare(marked(*args), expected, level)


def test_errors_of_construction_are_the_users():
    with pytest.raises(ValueError, match=r"got 65 and 4"):
        LlamaAttention(LlamaConfig(65))
