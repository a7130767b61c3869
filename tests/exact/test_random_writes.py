"""Random programs that write into parts of arrays and read the same memory elsewhere, before and behind.

FRAMEJIT_TEST_PROGRAMS=N runs N programs; FRAMEJIT_TEST_SEED=S begins at seed S.
"""

from __future__ import annotations

import linecache
import os
import random
from collections.abc import Callable

import numpy as np
import pytest

import framejit

from exact.same import assert_same_seen, observe

FIRST = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))
COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "200"))

# Slices, and by how many rows and columns they are smaller than the array.
SLICES = {
    "[:]": (0, 0),
    "[::-1]": (0, 0),
    "[:, ::-1]": (0, 0),
    "[1:, :]": (1, 0),
    "[:-1, :]": (1, 0),
    "[:, 1:]": (0, 1),
    "[:, :-1]": (0, 1),
    "[1:, 1:]": (1, 1),
    "[:-1, :-1]": (1, 1),
}
DTYPES = [np.float64, np.float32, np.int32, np.int64]


class WriteMaker:
    """A program over three square arrays: statements in place, rows, columns, products, sums, names that live on."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.length = self.random.choice([17, 32, 33, 40])
        self.dtype = self.random.choice(DTYPES)
        self.shares_memory = self.random.random() < 0.2
        self.has_infinity = self.random.random() < 0.15
        self.names: list[str] = []
        lines = [line for i in range(self.random.randrange(3, 9)) for line in self.statement(i)]
        body = "".join(f"    {line}\n" for line in lines)
        result = ", ".join(["sums", "t", *self.names[::3]])
        self.source = f"def program(a, b, c):\n    t = 1.0\n    sums = []\n{body}    return {result}\n"

    def array(self) -> str:
        return self.random.choice(["a", "b", "c"])

    def term(self, smaller: tuple[int, int]) -> str:
        """An operand for a place that is smaller than an array by so many rows and columns."""
        kind = self.random.random()
        rows, columns = ("1:" if n else ":" for n in smaller)
        at = self.random.randrange(self.length)
        if kind < 0.5:
            slices = [text for text, by in SLICES.items() if by == smaller]
            return self.random.choice([self.array(), *self.names]) + self.random.choice(slices)
        if kind < 0.7:
            return f"{self.array()}[{at}, {columns}]"
        if kind < 0.85:
            return f"{self.array()}[{rows}, {at}][:, None]"
        return self.random.choice(["0.5", "t"])

    def columns(self) -> list[str]:
        """Columns or rows of arrays that are written one after the other, of parts and of wholes."""
        left, right = self.random.choice([("[:, ", "]"), ("[", ", :]"), ("[2:, ", "]"), ("[:-2, ", "]")])

        def part() -> str:
            return f"{self.array()}{left}{self.random.choice(['0', '1', '2', '3', '-1'])}{right}"

        count = self.random.randrange(2, 5)
        return [
            f"{part()} {self.random.choice(['', '+', '-'])}= {part()} {self.random.choice('+-*')} {self.random.choice([part(), '0.5', 't'])}"
            for _ in range(count)
        ]

    def statement(self, number: int) -> list[str]:
        if self.random.random() < 0.3:
            return self.columns()
        place = self.random.choice(list(SLICES))
        x, kind = self.array(), self.random.random()
        terms = [self.term(SLICES[place]) for _ in range(self.random.randrange(1, 4))]
        value = f" {self.random.choice('+-*')} ".join(terms)
        if kind < 0.25:
            return [f"{x}{place} = {value}"]
        if kind < 0.55:
            return [f"{x}{place} {self.random.choice('+-*')}= {value}"]
        if kind < 0.7:
            return [f"t = ({self.random.choice([x, *self.names])} @ {self.array()}[0])[1] * 0.01"]
        if kind < 0.9:
            row = f"{self.array()}[{self.random.randrange(self.length)}]"
            self.names.append(f"v{number}")
            uses = [f"t = (v{number} @ {row})[0] * 0.01", f"{self.array()} += v{number}.T", f"{self.array()} *= v{number}"]
            return [f"v{number} = {x}[:] * 2 + {row}", f"{x}[:] = v{number}", *self.random.sample(uses, 2)]
        return [f"sums.append({x}{place}.sum(axis={self.random.choice(['0', '1', 'None'])}))"]

    def arguments(self, seed: int) -> tuple[np.ndarray, ...]:
        numbers = np.random.default_rng(seed)
        arrays = [(numbers.random((self.length, self.length)) * 10 - 5).astype(self.dtype) for _ in range(3)]
        if self.has_infinity and self.dtype in (np.float64, np.float32):
            arrays[0][3, 3] = np.inf
        if self.shares_memory:
            arrays[1] = arrays[0][:, :]
        return tuple(arrays)

    def function(self) -> Callable:
        name = f"<writes {hash(self.source)}>"
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(True), name)
        scope: dict = {"np": np}
        exec(compile(self.source, name, "exec"), scope)
        return scope["program"]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_random_writes(seed: int) -> None:
    made = WriteMaker(seed)
    plain = made.function()
    marked = framejit.jit(plain)
    for call in range(3):
        expected = observe(plain, made.arguments(seed))
        assert_same_seen(expected, observe(marked, made.arguments(seed)), f"call {call} of\n{made.source}")


def graphs_of(passes: str, source: WriteMaker, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(framejit.config, "passes", passes)
    return "\n".join(framejit.explain(framejit.jit(source.function()))(*source.arguments(0)).graphs)


@pytest.mark.parametrize("name", ["copy_overlaps", "reuse_stores"])
def test_the_passes_find_work_in_random_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = 0
    for seed in range(60):
        made = WriteMaker(seed)
        if not made.shares_memory:
            changed += graphs_of("", made, monkeypatch) != graphs_of(f"-{name}", made, monkeypatch)
    assert changed >= 3


def test_an_outer_sum_is_written_in_place() -> None:
    """The row and the column that are read are copied; the result is not."""

    def relax(path, k):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))

    path = np.random.default_rng(0).integers(1, 100, (48, 48)).astype(np.int32)
    expected = path.copy()
    relax(expected, 5)
    marked = framejit.jit(relax)
    text = "\n".join(framejit.explain(marked)(path.copy(), 5).graphs)
    assert text.count("= copy ") == 2
    marked(path, 5)
    assert np.array_equal(path, expected)


def test_a_written_value_is_read_where_it_was_written() -> None:
    def step(a, u, v, x):
        a += np.outer(u, v)
        return a @ x

    numbers = np.random.default_rng(0)
    arrays = [numbers.random(shape) for shape in ((40, 30), (40,), (30,), (30,))]
    marked = framejit.jit(step)
    explained = framejit.explain(marked)(*[x.copy() for x in arrays])
    call = next(line for line in explained.graphs[0].splitlines() if "library_call" in line)
    assert "library_call %a, %x" in call
    expected = step(arrays[0].copy(), *arrays[1:])
    assert np.array_equal(marked(arrays[0].copy(), *arrays[1:]), expected)
