"""One engine in a process of its own: takes requests as JSON lines, answers with times in nanoseconds."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from cases import CASES, ENGINES, ROWS, difference, source_of

EXACT = ("framejit O0", "NumPy")
MAX_ULP = 4.0  # of the others, where a case has no tolerance: they may contract a product and a sum


class Worker:
    """Keeps what it compiled and allocated between requests."""

    def __init__(self, engine: str, threads: int) -> None:
        self.engine = engine
        self.threads = threads
        self.compiled: dict[str, Callable[..., Any] | None] = {}
        self.prepared: dict[tuple[str, int, str], tuple[tuple[np.ndarray, ...], int]] = {}

    def function(self, name: str) -> Callable[..., Any] | None:
        if name not in self.compiled:
            case = (CASES | ROWS)[name]
            self.compiled[name] = ENGINES[self.engine].compile(case.function, case, self.threads)
        return self.compiled[name]

    def prepare(self, name: str, size: int, dtype: str, target: float) -> dict[str, Any]:
        """Compare with eager execution, then find how many calls make a round."""
        case, function = (CASES | ROWS)[name], self.function(name)
        if function is None:
            return {"skip": "has no form of it"}
        small = (2, 3) if size == 6 else None
        arguments = case.make(size, dtype)
        if small:
            arguments = tuple(a.reshape(small) for a in arguments)
        expected = case.function(*(a.copy() for a in arguments))
        array, exact = ENGINES[self.engine].array, self.engine in EXACT
        for _ in range(3):
            got = function(*(array(a.copy()) for a in arguments))
            wrong = difference(expected, got, 0.0 if exact else case.tolerance)
            if wrong and (exact or not wrong.endswith(" ulp") or float(wrong[:-4]) > MAX_ULP):
                return {"wrong": wrong}
        arguments = tuple(array(a) for a in arguments)
        start = time.perf_counter()
        function(*arguments)
        once = time.perf_counter() - start
        calls = max(1, min(200_000, int(target / max(once, 1e-8))))
        self.prepared[name, size, dtype] = arguments, calls
        return {"calls": calls}

    def round(self, name: str, size: int, dtype: str) -> dict[str, Any]:
        """Nanoseconds a call, the loop's own cost taken out."""
        arguments, calls = self.prepared[name, size, dtype]
        function = self.compiled[name]
        assert function is not None
        return {"ns": timed(function, arguments, calls)}

    def drop(self) -> dict[str, Any]:
        """Give memory back before the next size."""
        self.prepared.clear()
        return {}

    def compile(self, operators: int, number: int) -> dict[str, Any]:
        """The first call of a function that nobody has seen, without what the second costs."""
        scope: dict[str, Any] = {}
        text = source_of(operators).replace("1.5", f"1.{number + 5}")
        exec(compile(text, f"<generated {operators} {number}>", "exec"), scope)
        function = ENGINES[self.engine].compile(scope["generated"], None, self.threads)
        if function is None:
            return {"skip": "has no form of it"}
        x = np.linspace(1.0, 2.0, 64)
        times = []
        for _ in range(2):
            start = time.perf_counter_ns()
            got = function(x, x)
            times.append(time.perf_counter_ns() - start)
        if self.engine in EXACT and difference(scope["generated"](x, x), got):
            return {"wrong": "not the same bits"}
        return {"ns": times[0] - times[1]}


def timed(function: Callable[..., Any], arguments: tuple[Any, ...], calls: int) -> float:
    counter = range(calls)
    start = time.perf_counter_ns()
    for _ in counter:
        pass
    middle = time.perf_counter_ns()
    for _ in counter:
        function(*arguments)
    end = time.perf_counter_ns()
    return ((end - middle) - (middle - start)) / calls


def main() -> None:
    worker = Worker(sys.argv[1], int(sys.argv[2]))
    if len(sys.argv) > 3:
        os.sched_setaffinity(0, set(map(int, sys.argv[3].split(","))))
    answers = sys.stdout
    sys.stdout = sys.stderr  # what an engine prints is no answer
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(worker, request.pop("do"))(**request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
