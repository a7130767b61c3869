"""Functions that break in the middle of something, beside Dynamo.

Each row is a function of plain NumPy with one call that neither compiler can capture (`gc.isenabled`), placed where compilers of
bytecode like to give up: in a loop, in `try`, in `with`, in a generator, in a callee. Printed for framejit and for torch.compile:

    graphs     how many were compiled after three calls
    operators  array operators in them, of those that the function's text has (what is not in a graph runs in NumPy)
    times      the function's time plain over its time compiled, medians over rounds in which the three take turns

A result that is not equal to the unmarked function's is reported in place of its time. Without torch only framejit's columns appear.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from interleaved import nanoseconds

import framejit

pause = gc.isenabled


def straight(x: Any, y: Any) -> Any:
    z = x * y + 1
    pause()
    return z * z - x


def branch(x: Any, y: Any) -> Any:
    z = x * y + 1
    if pause():
        z = z * 2
        z = z - y
    else:
        z = z * 3 + y
    return z * z


def for_loop(x: Any, y: Any) -> Any:
    z = x * 1
    for i in range(20):
        z = z * y + i
        pause()
        z = z - x * y
    return z * 2 + 1


def while_loop(x: Any, y: Any) -> Any:
    z, i = x * 1, 0
    while i < 20:
        z = z * y + x
        i += pause() or 1
        z = z - y * y
    return z * 2 + 1


def try_body(x: Any, y: Any) -> Any:
    z = x * y + 1
    try:
        z = z * z - y
        pause()
        z = z + x * 2
    except ValueError:
        z = z * 0
    return z * y - x


def handler(x: Any, y: Any) -> Any:
    z = x * y + 1
    try:
        z = z * z - y
        int("one" if pause() else "two")
    except ValueError:
        z = z * y + x
    finally:
        z = z - x * x
    return z * 2 + y


@contextmanager
def scope() -> Iterator[None]:
    yield


def with_body(x: Any, y: Any) -> Any:
    z = x * y + 1
    with scope():
        z = z * z - y
        pause()
        z = z + x * 2
    return z * y - x


def generator(x: Any, y: Any) -> Iterator[Any]:
    z = x * y + 1
    for i in range(10):
        pause()
        z = z * y - x * i
        yield z


def generated(x: Any, y: Any) -> Any:
    z = x * 2
    for item in generator(x, y):
        z = z + item * y
    return z * x


def callee(x: Any, y: Any) -> Any:
    z = x * y + 1
    pause()
    return z * z - x


def calls(x: Any, y: Any) -> Any:
    z = x * x - y
    for _ in range(5):
        z = callee(z, y) * 0.5 + x
    return z * 2


def comprehension(x: Any, y: Any) -> Any:
    parts = [(x * y + i, pause())[0] * 2 for i in range(10)]
    return parts[0] * parts[-1] + x


ROWS: list[tuple[Callable[..., Any], int]] = [  # and the operators in its text, its callees' too
    (straight, 4), (branch, 7), (for_loop, 7), (while_loop, 7), (try_body, 8), (handler, 10), (with_body, 8), (generated, 9),
    (calls, 9), (comprehension, 5),
]  # fmt: skip


def of_framejit(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[[], tuple[int, int]]]:
    """The function compiled, and what was: graphs, operators in them."""
    compiled = framejit.jit(function)

    def counted() -> tuple[int, int]:
        explained = framejit.explain(compiled)(*operands(8))
        graphs = [str(graph) for graph in explained.graphs]
        return len(graphs), sum(text.count(" = ") - text.count(" = constant") for text in graphs)

    return compiled, counted


def of_dynamo(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[[], tuple[int, int]]]:
    import torch

    torch._dynamo.reset()
    sizes: list[int] = []

    def count(module: Any, _inputs: Any) -> Any:
        sizes.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
        return module.forward

    counting = torch.compile(function, backend=count)

    def counted() -> tuple[int, int]:
        for _ in range(3):
            counting(*operands(8))
        return len(sizes), sum(sizes)

    return torch.compile(function), counted


def operands(size: int) -> tuple[Any, Any]:
    x = np.linspace(0.1, 0.9, size)
    return x, x[::-1].copy()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=30)
    options = parser.parse_args()
    engines = {"framejit": of_framejit}
    if importlib.util.find_spec("torch"):
        engines["torch.compile"] = of_dynamo
    print(f"{'':16}{'':10}", *[f"{name:>32}" for name in engines], sep="")
    columns = f"{'graphs':>10}{'operators':>12}{'time':>10}"
    print(f"{'break in':16}{'operators':>10}", *[columns] * len(engines), sep="")
    wrong = 0
    x, y = operands(options.size)
    for function, operators in ROWS:
        expected = function(x, y)
        forms: dict[str, Callable[[], object]] = {"plain": lambda function=function: function(x, y)}
        facts = {}
        for name, make in engines.items():
            compiled, counted = make(function)
            facts[name] = (*counted(), [np.asarray(compiled(x, y)).tobytes() == expected.tobytes() for _ in range(5)])
            forms[name] = lambda compiled=compiled: compiled(x, y)
        times = nanoseconds(forms, options.calls, options.rounds, time.perf_counter_ns)
        cells = []
        for name, (graphs, found, equal) in facts.items():
            ratio = statistics.median(p / o for p, o in zip(times["plain"], times[name], strict=True))
            cells.append(f"{graphs:10}{found:12}" + (f"{ratio:9.2f}x" if all(equal) else f"{'other bits':>10}"))
        wrong += not all(facts["framejit"][2])
        print(f"{function.__name__:16}{operators:10}", *cells, sep="", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
