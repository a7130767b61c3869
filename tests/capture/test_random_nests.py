"""Random nests of loops over rows, plain and marked: rounds of the outer loop are done in the lanes of vectors, by one thread or by two.

FRAMEJIT_TEST_PROGRAMS=N runs N programs; FRAMEJIT_TEST_SEED=S begins at seed S.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import forms_support
import framejit as fj
from forms_support import check_same, run
from framejit import _core

COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "80"))
FIRST = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))
ROUNDS = (0, 1, 7, 8, 9, 20, 33)
VARIABLES = ("k", "kk", "kkk")  # of inner loops

pytestmark = pytest.mark.capture


class NestMaker:
    """A function `nest(x, y, z, w, out, two, counts)` with one loop over rows, in which loops end in different rounds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.indent = 1
        self.loops: list[str] = []  # the kinds of the loops around the current place

    def write(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def below(self, n: int) -> int:
        return self.random.randrange(n)

    def one_of(self, *choices: str) -> str:
        return self.random.choice(choices)

    def floating(self, depth: int = 2) -> str:
        kind = self.below(10)
        if depth == 0 or kind < 3:
            inner = ("y[i, k]", "z[k]") if self.loops else ()
            return self.one_of("p", "q", "x[i]", "0.5", "1.25", f"y[i, {self.below(3)}]", *inner)
        a = self.floating(depth - 1)
        if kind < 8:
            return f"({a} {self.one_of('+', '-', '*')} {self.floating(depth - 1)})"
        return self.one_of(f"abs({a})", f"({a}) ** 2", f"({a} / 3.0)")

    def integer(self, depth: int = 2) -> str:
        kind = self.below(11)
        if depth == 0 or kind < 4:
            return self.one_of("m", "c", "i", "w[i]", "2", "7", *("k" for _ in self.loops[:1]))
        a = self.integer(depth - 1)
        if kind < 7:
            return f"({a} {self.one_of('+', '-')} {self.integer(depth - 1)})"
        if kind < 8:
            return f"({a} * {self.one_of('3', '-2', '5')})"
        if kind < 10:
            by = self.one_of("3", "7", "11", "(i + 2)", *("(k + 1)" for _ in self.loops[:1]))
            return f"({a} {self.one_of('//', '%')} {by})"
        return f"min({a}, {self.integer(depth - 1)})"

    def condition(self) -> str:
        return self.one_of(
            f"{self.floating(1)} < {self.floating(1)}",
            f"{self.floating(1)} > 1.5",
            f"{self.integer(1)} % 3 == {self.below(3)}",
            f"{self.integer(1)} < {self.integer(1)}",
            "p * p + q * q <= 4.0",
            *("z[0] < 0.25", "k % 2 == 0", "z[2] * p < 1.0", "y.shape[1] > 2")[: 4 if self.loops else 1],  # mostly equal in all lanes
        )

    def block(self, statements: int) -> None:
        self.indent += 1
        for _ in range(statements):
            self.statement()
        self.indent -= 1

    def statement(self) -> None:
        kind = self.below(14)
        if kind < 3:
            self.write(f"{self.one_of('p', 'q')} = {self.floating()}")
        elif kind < 6:
            self.write(f"{self.one_of('m =', 'c =', 'c +=')} {self.integer()}")
        elif kind < 8:
            self.write(f"if {self.condition()}:")
            self.block(1 + self.below(2))
            if self.below(2):
                self.write("else:")
                self.block(1)
        elif kind < 9 and self.loops:
            self.write(f"if {self.condition()}: break")
        elif kind < 10 and self.loops and self.loops[-1] == "for":
            self.write(f"if {self.condition()}: continue")
        elif kind < 12:
            inner = ("two[i, k] = p",) if self.loops else ()
            self.write(self.one_of("out[i] = p", "out[i] = p * q", "counts[i] = c % 1000", f"two[i, {self.below(3)}] = q", *inner))
        elif kind < 13 and len(self.loops) < 2:
            self.loop()
        else:
            self.write(f"p, q = q, {self.floating(1)}")

    def loop(self) -> None:
        variable = VARIABLES[len(self.loops)]
        if self.below(10) < 7:
            self.write(f"for {variable} in range({self.one_of('3', 'y.shape[1]', 'len(z)', 'i % 4', '2, 5')}):")
            self.loops.append("for")
            self.block(1 + self.below(3))
        else:
            self.write(f"{variable} = 0")
            self.write(f"while {variable} < {self.one_of('2', '3')} and {self.condition()}:")
            self.loops.append("while")
            self.block(1 + self.below(2))
            self.write(f"    {variable} += 1")
        self.loops.pop()

    def source(self) -> str:
        self.write("p, q, m, c, k, total, count = 0.5, 1.5, 3, 0, 0, 0.0, 0")
        self.write(f"for i in range({self.one_of('', '1, ')}len(x)):")
        self.indent += 1
        self.write(f"p, q, m, c, k = {self.one_of('x[i]', '0.25')}, 1.5, {self.one_of('w[i]', 'int(w[i])', 'i')}, 0, 0")
        for _ in range(self.below(3)):
            self.statement()
        self.loop()
        for _ in range(self.below(3)):
            self.statement()
        self.write(self.one_of("out[i] = p", "total += q", "count += abs(c)", "count += 1", "two[i, 1] = q + c"))
        self.indent -= 1
        self.write("return total, count, p, q, m, c, k")
        return "def nest(x, y, z, w, out, two, counts):\n" + "\n".join(self.lines) + "\n"


def arguments(rounds: int, seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=rounds),
        rng.normal(size=(rounds, 3)),
        rng.normal(size=3),
        rng.integers(-50, 50, size=rounds),
        np.zeros(rounds),
        np.zeros((rounds, 3)),
        np.zeros(rounds, np.int32 if seed % 2 else np.int64),
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, 20))
def test_programs(first, threads, monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "off")
    monkeypatch.setattr(fj.config, "num_threads", threads)
    monkeypatch.setattr(forms_support, "ONE_SCALAR", False)  # min() may give equal ones (docs/usage.md)
    eager, errors, vectors = _core.set_parallel_eager(threads > 1), fj.stats()["internal_errors"], fj.stats()["vector_rounds"]
    try:
        for seed in range(first, min(first + 20, FIRST + COUNT)):
            monkeypatch.setattr(fj.config, "cpu", "avx2" if seed % 4 == 3 else "avx512")
            source, world = NestMaker(seed).source(), {}
            exec(compile(source, f"<nest {seed}>", "exec", dont_inherit=True), world)
            marked = fj.jit(world["nest"])
            for rounds in ROUNDS:
                for _ in range(2):
                    expected, given = arguments(rounds, seed + rounds), arguments(rounds, seed + rounds)
                    check_same(run(world["nest"], expected), run(marked, given), f"seed {seed}, {rounds} rounds\n{source}")
                    for one, other in zip(expected, given, strict=True):
                        assert one.tobytes() == other.tobytes(), f"seed {seed}, {rounds} rounds\n{source}"
    finally:
        _core.set_parallel_eager(eager)
    assert fj.stats()["internal_errors"] == errors
    if threads == 1:
        assert fj.stats()["vector_rounds"] > vectors
    fj.reset()
