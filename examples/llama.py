"""A small language model like Llama, trained on the Zen of Python, letter by letter.

    python examples/llama.py [--steps N]

It has root mean square norms, rotary positions, attention with fewer heads for keys than for queries, and gated dense layers. A step of
training is one marked function. Only the imports differ from a script for MindSpore.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io

import numpy as np

import framejit as ms
from framejit import Tensor, nn, ops

WIDTH, HEADS, KEY_HEADS, LAYERS, LENGTH = 64, 4, 2, 2, 32


class Attention(nn.Cell):
    """Causal attention; positions turn queries and keys."""

    def __init__(self) -> None:
        super().__init__()
        depth = WIDTH // HEADS
        self.q_proj = nn.Dense(WIDTH, WIDTH, has_bias=False)
        self.k_proj = nn.Dense(WIDTH, KEY_HEADS * depth, has_bias=False)
        self.v_proj = nn.Dense(WIDTH, KEY_HEADS * depth, has_bias=False)
        self.o_proj = nn.Dense(WIDTH, WIDTH, has_bias=False)
        angles = np.outer(np.arange(LENGTH), 1e4 ** (-np.arange(0, depth, 2) / depth)).astype(np.float32)
        self.cos = Tensor(np.tile(np.cos(angles), 2))
        self.sin = Tensor(np.tile(np.sin(angles), 2))
        self.future = Tensor(np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1))

    def turn(self, x: Tensor) -> Tensor:
        """Rotary positions of (batch, heads, length, depth)."""
        half = x.shape[-1] // 2
        length = x.shape[2]
        turned = ops.cat((-x[..., half:], x[..., :half]), axis=-1)
        return x * self.cos[:length] + turned * self.sin[:length]

    def construct(self, x: Tensor) -> Tensor:
        """(batch, length, width), and the same out."""
        batch, length, _ = x.shape
        q = self.turn(self.q_proj(x).view(batch, length, HEADS, -1).swapaxes(1, 2))
        k = self.turn(self.k_proj(x).view(batch, length, KEY_HEADS, -1).swapaxes(1, 2))
        v = self.v_proj(x).view(batch, length, KEY_HEADS, -1).swapaxes(1, 2)
        k, v = ops.repeat_interleave(k, HEADS // KEY_HEADS, 1), ops.repeat_interleave(v, HEADS // KEY_HEADS, 1)
        weights = ops.matmul(q, k.swapaxes(2, 3)) / float(np.sqrt(WIDTH // HEADS)) + self.future[:length, :length]
        out = ops.matmul(ops.softmax(weights, axis=-1), v)
        return self.o_proj(out.swapaxes(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Cell):
    """Attention, then a gated dense layer, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention = Attention()
        self.gate = nn.Dense(WIDTH, 2 * WIDTH, has_bias=False)
        self.up = nn.Dense(WIDTH, 2 * WIDTH, has_bias=False)
        self.down = nn.Dense(2 * WIDTH, WIDTH, has_bias=False)

    def construct(self, x: Tensor) -> Tensor:
        """(batch, length, width), and the same out."""
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(ops.silu(self.gate(y)) * self.up(y))


class Llama(nn.Cell):
    """Logits of the next letter at each place."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(letters, WIDTH)
        self.blocks = nn.CellList([Block() for _ in range(LAYERS)])
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Dense(WIDTH, letters, has_bias=False)

    def construct(self, tokens: Tensor) -> Tensor:
        """Of (batch, length) int32."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def text() -> str:
    """The Zen of Python, which its module keeps turned by thirteen letters."""
    with contextlib.redirect_stdout(io.StringIO()):
        import this
    return codecs.decode(this.s, "rot13")


def train(steps: int) -> tuple[Llama, list[str], list[float]]:
    """(the model, the letters by number, the losses of the steps)."""
    ms.set_seed(3)
    rng = np.random.default_rng(3)
    letters = sorted(set(text()))
    numbers = np.array([letters.index(letter) for letter in text()], np.int32)
    net = Llama(len(letters))
    loss_fn = nn.CrossEntropyLoss()
    optimizer = nn.AdamWeightDecay(net.trainable_params(), learning_rate=3e-3, weight_decay=0.01)

    def forward(tokens: Tensor, following: Tensor) -> Tensor:
        return loss_fn(net(tokens).reshape(-1, len(letters)), following.reshape(-1))

    gradients = ms.value_and_grad(forward, None, optimizer.parameters)

    @ms.jit(jit_level="O1")
    def step(tokens: Tensor, following: Tensor) -> Tensor:
        loss, grads = gradients(tokens, following)
        optimizer(grads)
        return loss

    losses = []
    for _ in range(steps):
        at = rng.integers(0, len(numbers) - LENGTH - 1, 16)
        rows = np.stack([numbers[i : i + LENGTH + 1] for i in at])
        losses.append(float(step(Tensor(rows[:, :-1]), Tensor(rows[:, 1:])).asnumpy()))
    return net, letters, losses


def write(net: Llama, letters: list[str], begin: str, count: int) -> str:
    """The likeliest letters after a beginning."""
    predict = ms.jit(net.construct, jit_level="O1")
    for _ in range(count):
        tokens = Tensor(np.array([[letters.index(letter) for letter in begin[-LENGTH:]]], np.int32))
        begin += letters[int(predict(tokens).asnumpy()[0, -1].argmax())]
    return begin


def main() -> None:
    """Train, and write a line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=300)
    options = arguments.parse_args()
    net, letters, losses = train(options.steps)
    print(f"parameters  {sum(p.size for p in net.trainable_params())}")
    print(f"loss        {losses[0]:.3f} -> {np.mean(losses[-10:]):.3f}")
    print(f"written     {write(net, letters, 'Explicit is ', 30)!r}")


if __name__ == "__main__":
    main()
