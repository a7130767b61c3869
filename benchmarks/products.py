"""Products of Tensors beside NumPy's @ and, where it can be imported, torch's.

    ./dev python benchmarks/products.py [--threads N] [--rounds R] [--dtype float32|float64|bfloat16|int32|...] [--peak GFLOPS] [--small]

The engines take turns in each round; the figures are medians over rounds, of ratios taken within a round. With one thread, times are
CPU times of the thread, so that other processes of the machine show only through the caches; with several, engines rest before their turns.
`--peak`: of all threads, as benchmarks/native/bench_matmul shows it; the share of it is shown then. Results are compared with float64 first.
`--dtype bfloat16`: NumPy has no such product; its column shows that of the same numbers as float32. Products of integers that would take NumPy
seconds are left out, and results are compared to the bit.
"""

import argparse
import math
import os
import statistics
import sys
import time

from interleaved import against_best, nanoseconds

SHAPES = [
    *[(n, n, n, "") for n in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)],
    # transformer
    *[(128, 768, 768, ""), (128, 3072, 768, ""), (128, 768, 3072, ""), (512, 1024, 1024, ""), (512, 1024, 1024, "T")],
    *[(512, 2048, 512, "T"), (512, 512, 64, "T"), (512, 64, 512, ""), (128, 128, 64, "T"), (128, 64, 128, "")],
    *[(512, 4096, 1024, "T"), (64, 2048, 512, ""), (2048, 128, 2048, "")],
    # convolutions as products
    *[(3136, 64, 576, ""), (784, 128, 1152, ""), (196, 256, 2304, ""), (49, 512, 4608, ""), (3136, 256, 64, "")],
    *[(12544, 64, 147, ""), (64, 3136, 576, ""), (128, 784, 1152, ""), (256, 196, 2304, "")],
    # one dimension small
    *[(1, 1024, 1024, ""), (1, 4096, 1024, ""), (1, 1024, 1024, "T"), (1024, 1, 1024, ""), (4096, 1, 4096, "")],
    *[(4, 1024, 1024, ""), (4, 1024, 1024, "T"), (8, 4096, 1024, ""), (8, 1024, 1024, "T"), (32, 1024, 1024, "T")],
    *[(1024, 4, 1024, ""), (1024, 8, 1024, ""), (100000, 8, 16, ""), (10000, 32, 32, ""), (32, 10, 784, "")],
    *[(256, 256, 8, ""), (2000, 2000, 16, ""), (16, 16, 10000, ""), (33, 65, 129, "")],
]


def engines(fj, torch, a, b, narrow):
    """Name to a call without arguments that gives the product; with `narrow`, bfloat16, of what that can hold. Each has arrays of its own, which keep
    the strides: none finds them in a cache because another one has just read them. Tensors are C-contiguous, `ops.dense` multiplies by a transposed one."""
    transposed = not b.flags.c_contiguous
    x, y = (fj.Tensor(m.astype(narrow) if narrow else m) for m in (a, b.T if transposed else b))
    out = {"framejit": (lambda: fj.ops.dense(x, y)) if transposed else (lambda: x @ y), "numpy": lambda: a @ b}
    if torch:
        s, t = torch.from_numpy(a.copy(order="K")), torch.from_numpy(b.copy(order="K"))
        if narrow:
            s, t = s.to(torch.bfloat16), t.to(torch.bfloat16)
        out["torch"] = lambda: s @ t
    return out


def narrow_products(features):
    """What computes products of bfloat16."""
    if features["amx_bf16"]:
        return "AMX"
    return "no AMX here: " + ("AVX512-BF16" if features["avx512_bf16"] else "float32")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--peak", type=float, default=math.nan)
    parser.add_argument("--small", action="store_true", help="leave out what takes more than 10 ms")
    options = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    import numpy as np

    import framejit as fj

    try:
        import torch

        torch.set_num_threads(options.threads)
    except ImportError:
        torch = None
    fj.config.num_threads = options.threads
    clock = time.thread_time_ns if options.threads == 1 else time.perf_counter_ns
    rng = np.random.default_rng(0)
    versions = f"NumPy {np.__version__}" + (f", torch {torch.__version__}" if torch else "")
    print(
        f"# {versions}; {options.dtype}, {options.threads} threads, load {os.getloadavg()[0]:.1f}; {' '.join(sys.argv)}"
    )
    narrow = None
    if options.dtype == "bfloat16":
        from ml_dtypes import bfloat16 as narrow

        print(f"# products of bfloat16: {narrow_products(fj._core.cpu_features())}")
    dtype = np.dtype("float32" if narrow else options.dtype)
    integers = dtype.kind in "iu"
    ratios = []
    for m, n, k, layout in SHAPES:
        flops = 2 * m * n * k
        if flops > (3e8 if integers else 1e9 if options.small else math.inf):
            continue
        least, most = (-100, 100) if dtype.kind == "i" else (0, 100) if integers else (-1, 1)
        a = rng.uniform(least, most, (m, k)).astype(narrow or dtype).astype(dtype)
        b = rng.uniform(least, most, (n, k) if layout else (k, n)).astype(narrow or dtype).astype(dtype)
        b = b.T if layout else b
        calls = engines(fj, torch, a, b, narrow)
        exact, size = a.astype(float) @ b.astype(float), np.abs(a).astype(float) @ np.abs(b).astype(float)
        for name, call in calls.items():
            product = call()
            if integers:
                assert np.array_equal(np.asarray(product), exact.astype("i8").astype(dtype)), (name, m, n, k)
                continue
            found = product.float() if narrow and name != "numpy" else product
            error = np.max(np.abs(np.asarray(found).astype(float) - exact) / size)
            assert error < (k + 1) * np.finfo(dtype).eps + (2**-8 if narrow else 0), (name, m, n, k)
        inner = max(1, int(1e8 / (flops + 1e5)))
        rounds = nanoseconds(calls, inner, options.rounds, clock, options.threads)
        medians = {name: statistics.median(t) for name, t in rounds.items()}
        best, ratio = against_best(rounds)
        ratios.append(ratio)
        times = "".join(f"  {name} {t:11.0f} ns {flops / t:6.1f} GF" for name, t in medians.items())
        share = (
            "" if math.isnan(options.peak) else f"  {100 * flops / medians['framejit'] / options.peak:3.0f} % of peak"
        )
        print(f"{m:6} {n:5} {k:5} {layout or ' '}{times}  {ratio:5.2f} x {best}{share}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f} x the best other, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
