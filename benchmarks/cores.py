"""Convolutions, attention and blocks of both beside torch.

    ./dev python benchmarks/cores.py [--threads N] [--rounds R] [--peak GFLOPS] [--only WORD]

The engines take turns in each round; the figures are medians over rounds, of ratios taken within a round. Without torch only framejit's
are shown. `--peak`: of all threads, as benchmarks/native/bench_matmul shows it; the share of it is shown then. Results are compared first.
"""

import argparse
import math
import os
import statistics
import sys
import time

from interleaved import against_best, nanoseconds

# batch, channels in, channels out, height and width, window, stride, padding, groups
CONVOLUTIONS = [
    (1, 3, 64, 224, 7, 2, 3, 1),
    (8, 64, 64, 56, 3, 1, 1, 1),
    (1, 64, 64, 56, 3, 1, 1, 1),
    (1, 64, 256, 56, 1, 1, 0, 1),
    (1, 256, 64, 56, 1, 1, 0, 1),
    (1, 64, 128, 56, 3, 2, 1, 1),
    (1, 128, 128, 28, 3, 1, 1, 1),
    (1, 256, 512, 28, 1, 2, 0, 1),
    (1, 256, 256, 14, 3, 1, 1, 1),
    (1, 512, 512, 7, 3, 1, 1, 1),
    (8, 512, 512, 7, 3, 1, 1, 1),
    (16, 1, 6, 32, 5, 1, 0, 1),
    (16, 6, 16, 14, 5, 1, 0, 1),
    (1, 128, 128, 28, 3, 1, 1, 4),
    (1, 96, 96, 56, 3, 1, 1, 96),
]

# batch, heads, heads of keys, queries, keys, depth, causal
ATTENTIONS = [
    (1, 16, 16, 512, 512, 64, False),
    (1, 16, 4, 512, 512, 64, True),
    (1, 32, 8, 512, 512, 128, False),
    (1, 16, 16, 2048, 2048, 64, True),
    (8, 12, 12, 128, 128, 64, False),
    (1, 32, 8, 1, 2048, 128, False),
]


def convolution(fj, torch, np, rng, shape):
    batch, channels_in, channels_out, length, size, stride, padding, groups = shape
    x = rng.normal(size=(batch, channels_in, length, length)).astype(np.float32)
    w = rng.normal(size=(channels_out, channels_in // groups, size, size)).astype(np.float32)
    own = (fj.Tensor(x), fj.Tensor(w))
    calls = {"framejit": lambda: fj.ops.conv2d(*own, None, stride, "pad", padding, 1, groups).asnumpy()}
    if torch:
        peer = (torch.from_numpy(x), torch.from_numpy(w))
        last = [t.to(memory_format=torch.channels_last) for t in peer]
        calls["torch"] = lambda: torch.conv2d(*peer, None, stride, padding, 1, groups).numpy()
        calls["torch, channels last"] = lambda: torch.conv2d(*last, None, stride, padding, 1, groups).numpy()
    result = (length + 2 * padding - size) // stride + 1
    return calls, 2 * batch * channels_out * result * result * w[0].size


def attention(fj, torch, np, rng, shape):
    batch, heads, key_heads, queries, keys, depth, causal = shape
    arrays = [
        rng.normal(size=(batch, h, n, depth)).astype(np.float32)
        for h, n in ((heads, queries), (key_heads, keys), (key_heads, keys))
    ]
    own = [fj.Tensor(a) for a in arrays]
    calls = {"framejit": lambda: fj.ops.scaled_dot_product_attention(*own, is_causal=causal, enable_gqa=True).asnumpy()}
    if torch:
        peer = [torch.from_numpy(a) for a in arrays]
        scaled = torch.nn.functional.scaled_dot_product_attention
        calls["torch"] = lambda: scaled(*peer, is_causal=causal, enable_gqa=heads != key_heads).numpy()
    return calls, 4 * batch * heads * queries * keys * depth * (0.5 if causal else 1)


def basic_block(fj, torch, np, rng, batch):
    """Two convolutions, each with batch norm, and a residual: what an inference of ResNet-18 repeats."""

    class Block(fj.nn.Cell):
        def __init__(self):
            super().__init__()
            self.first, self.second = fj.nn.Conv2d(64, 64, 3), fj.nn.Conv2d(64, 64, 3)
            self.norm1, self.norm2 = fj.nn.BatchNorm2d(64), fj.nn.BatchNorm2d(64)

        def construct(self, x):
            out = fj.ops.relu(self.norm1(self.first(x)))
            return fj.ops.relu(self.norm2(self.second(out)) + x)

    block, x = Block(), rng.normal(size=(batch, 64, 56, 56)).astype(np.float32)
    block.set_train(False)
    own, run = fj.Tensor(x), fj.jit(lambda x: block(x), jit_level="O1")
    calls = {"framejit": lambda: run(own).asnumpy()}
    if torch:
        weights = [torch.from_numpy(c.weight.asnumpy().copy()) for c in (block.first, block.second)]
        zeros, ones = torch.zeros(64), torch.ones(64)

        def peer(x, w, v):
            out = torch.batch_norm(
                torch.conv2d(x, w, None, 1, 1), ones, zeros, zeros, ones, False, 0.1, 1e-5, True
            ).relu_()
            return (
                torch.batch_norm(torch.conv2d(out, v, None, 1, 1), ones, zeros, zeros, ones, False, 0.1, 1e-5, True) + x
            ).relu_()

        plain = [torch.from_numpy(x), *weights]
        last = [t.to(memory_format=torch.channels_last) for t in plain]
        calls["torch"] = lambda: peer(*plain).numpy()
        calls["torch, channels last"] = lambda: peer(*last).numpy()
    return calls, 2 * 2 * batch * 64 * 56 * 56 * 576


def llama_attention(fj, torch, np, rng, length):
    """Projections, rotary embedding, causal attention with grouped heads, projection: hidden 1024, 16 heads, 4 of keys."""
    hidden, heads, key_heads = 1024, 16, 4
    depth = hidden // heads
    sizes = [(hidden, hidden), (key_heads * depth, hidden), (key_heads * depth, hidden), (hidden, hidden)]
    weights = [(rng.normal(size=s) / 32).astype(np.float32) for s in sizes]
    x = rng.normal(size=(1, length, hidden)).astype(np.float32)
    angles = np.outer(np.arange(length), 5e5 ** (-np.arange(0, depth, 2) / depth))
    angles = np.concatenate([angles, angles], -1).astype(np.float32)
    cosines, sines = np.cos(angles), np.sin(angles)

    def block(lib, dense, attend, join, x, q, k, v, o, cosines, sines):
        def by_head(t, count):
            t = t.reshape((1, length, count, depth))
            return t.permute((0, 2, 1, 3)) if lib == "torch" else t.transpose((0, 2, 1, 3))

        def turned(t):
            half = depth // 2
            return t * cosines + join([-t[..., half:], t[..., :half]]) * sines

        queries, keys, values = (
            by_head(dense(x, q), heads),
            by_head(dense(x, k), key_heads),
            by_head(dense(x, v), key_heads),
        )
        out = attend(turned(queries), turned(keys), values)
        out = out.permute((0, 2, 1, 3)) if lib == "torch" else out.transpose((0, 2, 1, 3))
        return dense(out.reshape((1, length, hidden)), o)

    own = [fj.Tensor(a) for a in (x, *weights, cosines, sines)]
    scaled = fj.ops.scaled_dot_product_attention
    join = lambda parts: fj.ops.cat(parts, -1)  # noqa: E731
    run = fj.jit(
        lambda *t: block(
            "framejit", fj.ops.dense, lambda q, k, v: scaled(q, k, v, is_causal=True, enable_gqa=True), join, *t
        ),
        jit_level="O1",
    )
    calls = {"framejit": lambda: run(*own).asnumpy()}
    if torch:
        peer = [torch.from_numpy(a) for a in (x, *weights, cosines, sines)]
        theirs = torch.nn.functional.scaled_dot_product_attention
        calls["torch"] = lambda: block(
            *("torch", torch.nn.functional.linear, lambda q, k, v: theirs(q, k, v, is_causal=True, enable_gqa=True)),
            *(lambda parts: torch.cat(parts, -1), *peer),
        ).numpy()
    return calls, 2 * length * hidden * (2 * hidden + 2 * key_heads * depth) + 2 * heads * length * length * depth


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--peak", type=float, default=math.nan)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    rows = [("convolution", convolution, shape) for shape in CONVOLUTIONS]
    rows += [("attention", attention, shape) for shape in ATTENTIONS]
    rows += [("BasicBlock", basic_block, batch) for batch in (1, 8)] + [("LlamaAttention", llama_attention, 512)]
    kinds = dict.fromkeys(what for what, _, _ in rows)
    rows = [row for row in rows if options.only in row[0]]
    if not rows:
        parser.error(f"argument --only: {options.only!r} is in none of {[*kinds]}")
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    import numpy as np

    import framejit as fj

    try:
        import torch

        torch.set_num_threads(options.threads)
        torch.set_grad_enabled(False)
    except ImportError:
        torch = None
    fj.config.num_threads = options.threads
    clock = time.thread_time_ns if options.threads == 1 else time.perf_counter_ns
    rng = np.random.default_rng(0)
    versions = f"NumPy {np.__version__}" + (f", torch {torch.__version__}" if torch else "")
    print(f"# {versions}; {options.threads} threads, load {os.getloadavg()[0]:.1f}; {' '.join(sys.argv)}")
    ratios = []
    for what, make, shape in rows:
        calls, flops = make(fj, torch, np, rng, shape)
        results = {name: call() for name, call in calls.items()}
        for name, result in results.items():
            np.testing.assert_allclose(
                result, results["framejit"], rtol=1e-3, atol=2e-3 * np.abs(result).max(), err_msg=name
            )
        inner = max(1, int(2e8 / (flops + 1e5)))
        rounds = nanoseconds(calls, inner, options.rounds, clock, options.threads)
        medians = {name: statistics.median(t) for name, t in rounds.items()}
        rate = flops / medians["framejit"]
        line = (
            f"{what} {shape!s:38}"
            + "".join(f"  {name} {t / 1e3:9.1f} us" for name, t in medians.items())
            + f"  {rate:6.1f} GF"
        )
        if not math.isnan(options.peak):
            line += f" {100 * rate / options.peak:4.0f} % of peak"
        if len(calls) > 1:
            best, ratio = against_best(rounds)
            ratios.append(ratio)
            line += f"  {ratio:5.2f} x {best}"
        print(line, flush=True)
    if ratios:
        print(f"geometric mean {statistics.geometric_mean(ratios):.2f} x the best other, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
