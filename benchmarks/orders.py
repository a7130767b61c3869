"""What `exec_order` costs and gives: branches of products and sums, in each order; times and bytes between the kernels.

    ./dev python benchmarks/orders.py [--threads N] [--rounds R]

The orders take turns in each round; medians over rounds, and of the ratio to the program's own order within a round.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from interleaved import nanoseconds

import framejit as fj

ORDERS = {"program": {}, "bfs": {"exec_order": "bfs"}, "dfs": {"exec_order": "dfs"}}


def branches(x, weights):
    products = [x @ w for w in weights]
    total = None
    for p in products:
        s = (p * p).sum()
        total = s if total is None else total + s
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    fj.config.num_threads = options.threads
    rng = np.random.default_rng(0)
    for size in (64, 96, 128, 192, 512):
        x, *weights = (fj.Tensor(rng.standard_normal((size, size)).astype(np.float32)) for _ in range(9))
        marked = {name: fj.jit(branches, fullgraph=True, **given) for name, given in ORDERS.items()}
        results = [function(x, weights).asnumpy().tobytes() for function in marked.values()]
        assert results == results[:1] * 3
        calls = {
            name: (lambda function=function, x=x, weights=weights: function(x, weights))
            for name, function in marked.items()
        }
        times = nanoseconds(calls, max(1, 2**22 // size**2 // 8), options.rounds, time.perf_counter_ns)
        for name, measured in times.items():
            ratio = statistics.median(t / own for t, own in zip(measured, times["program"], strict=True))
            held = marked[name].cache_entries()[0]["buffer_bytes"]
            print(f"{size:4} {name:8}{statistics.median(measured) / 1e3:10.1f} us{ratio:7.2f} x{held / 1024:10.0f} KiB")


if __name__ == "__main__":
    main()
