"""A simple function in thirteen variants of ``jit``, as in MindSpore's tutorial on just-in-time compilation.

Prints, for each, the time of the first call and of a thousand calls. Every result is compared with the unmarked function's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import framejit
from framejit import Tensor


def f(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a * b + c


# From the bytecode or, for messages, with the source: jit(f, ...).
jitted_by_ast_and_levelO0_f = framejit.jit(f, capture_mode="ast", jit_level="O0")
jitted_by_ast_and_levelO1_f = framejit.jit(f, capture_mode="ast", jit_level="O1")
jitted_by_ast_and_ge_f = framejit.jit(f, capture_mode="ast", backend="GE")
jitted_by_bytecode_and_levelO0_f = framejit.jit(f, capture_mode="bytecode", jit_level="O0")
jitted_by_bytecode_and_levelO1_f = framejit.jit(f, capture_mode="bytecode", jit_level="O1")
jitted_by_bytecode_and_ge_f = framejit.jit(f, capture_mode="bytecode", backend="GE")


# Traced: only as a decorator with arguments.
@framejit.jit(capture_mode="trace", jit_level="O0")
def jitted_by_trace_and_levelO0_f(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a * b + c


@framejit.jit(capture_mode="trace", jit_level="O1")
def jitted_by_trace_and_levelO1_f(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a * b + c


@framejit.jit(capture_mode="trace", backend="GE")
def jitted_by_trace_and_ge_f(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a * b + c


# The whole function must be one graph.
jitted_by_ast_and_levelO0_fullgraph_f = framejit.jit(f, capture_mode="ast", jit_level="O0", fullgraph=True)
jitted_by_ast_and_levelO1_fullgraph_f = framejit.jit(f, capture_mode="ast", jit_level="O1", fullgraph=True)
jitted_by_ast_and_ge_fullgraph_f = framejit.jit(f, capture_mode="ast", backend="GE", fullgraph=True)

FUNCTIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "function": f,
    "function jitted by ast and levelO0": jitted_by_ast_and_levelO0_f,
    "function jitted by ast and levelO1": jitted_by_ast_and_levelO1_f,
    "function jitted by ast and ge": jitted_by_ast_and_ge_f,
    "function jitted by bytecode and levelO0": jitted_by_bytecode_and_levelO0_f,
    "function jitted by bytecode and levelO1": jitted_by_bytecode_and_levelO1_f,
    "function jitted by bytecode and ge": jitted_by_bytecode_and_ge_f,
    "function jitted by trace and levelO0": jitted_by_trace_and_levelO0_f,
    "function jitted by trace and levelO1": jitted_by_trace_and_levelO1_f,
    "function jitted by trace and ge": jitted_by_trace_and_ge_f,
    "function jitted by ast and levelO0 fullgraph": jitted_by_ast_and_levelO0_fullgraph_f,
    "function jitted by ast and levelO1 fullgraph": jitted_by_ast_and_levelO1_fullgraph_f,
    "function jitted by ast and ge fullgraph": jitted_by_ast_and_ge_fullgraph_f,
}


def same(name: str, got: Tensor, expected: Tensor) -> bool:
    """Whether the results are equal to the bit; at O1, within the rounding of the product, which a fused multiply-add leaves out."""
    x, y = got.asnumpy(), expected.asnumpy()
    if "O1" in name:
        return bool(np.allclose(x, y, rtol=1e-5, atol=1e-6))
    return x.dtype == y.dtype and x.tobytes() == y.tobytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    calls = parser.parse_args().calls
    rng = np.random.default_rng(0)
    dataset = [[Tensor(rng.standard_normal((2, 3)), framejit.float32) for _ in range(3)] for _ in range(calls)]
    expected = [f(*inputs) for inputs in dataset]
    width = max(map(len, FUNCTIONS))
    for name, function in FUNCTIONS.items():
        start = time.perf_counter()
        out = function(*dataset[0])
        prepare = time.perf_counter() - start
        start = time.perf_counter()
        for i in range(calls):
            out = function(*dataset[i])
        run = time.perf_counter() - start
        wrong = sum(not same(name, function(*inputs), e) for inputs, e in zip(dataset, expected, strict=True))
        if wrong:
            raise SystemExit(f"{name}: {wrong} of {calls} results differ from the unmarked function's")
        print(
            f"{name:<{width}}  out shape: {out.shape}  time to prepare: {prepare * 1e3:7.2f} ms  "
            f"time to run {calls} times: {run * 1e3:7.2f} ms"
        )


if __name__ == "__main__":
    main()
