"""Gradients of random functions, with branches, loops, breaks, writes and calls, in each mode and level, against finite differences.

    ./dev python tests/grad/test_random_gradients.py --seed 0 --count 2000
"""

from __future__ import annotations

import argparse
import linecache
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import framejit as fj
import numpy as np
import pytest

COUNT = int(os.environ.get("FRAMEJIT_TEST_GRADIENTS", "20"))
LENGTH = 5
UNARY = ("np.sin({})", "np.tanh({})", "np.exp(-{0} * {0})", "np.sqrt(1 + {0} * {0})", "-{}", "{}[::-1]", "np.cumsum({})", "np.abs({})")
BINARY = ("{} + {}", "{} - {}", "{} * {}", "{0} / (1 + {1} * {1})", "np.maximum({}, {})", "np.where({0} > {1}, {0}, {1} * 2)")
# What a tape refuses: an array of others cannot become one that is followed when what is followed is written to it.
REFUSED = ("that a gradient does not follow", "the memory of an array that a gradient follows", "a gradient through float()")
TO_NUMBER = ("{}.sum()", "{}.mean()", "{}.max()", "({0} * {1}).sum()", "{0} @ {1}", "{}[2]", "np.sin({}).sum()", "{0}[{0} > 0].sum()")


class Maker:
    """The source of a function of two arrays: `depth` of what is nested, names of arrays and numbers that are bound."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        arrays, numbers = ["x", "y"], []
        body = self.block(arrays, numbers, 0, self.random.randint(3, 7))
        last = self.random.choice(arrays)
        total = " + ".join([f"({last} * x).sum()", *self.random.sample(numbers, min(2, len(numbers)))])
        self.source = "".join(f"    {line}\n" for line in [*body, f"return {total}"])
        self.source = f"def program(x, y):\n{self.source}"

    def new(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def array(self, arrays: list[str], numbers: list[str]) -> str:
        pick = self.random.random()
        if pick < 0.4:
            return self.random.choice(UNARY).format(self.random.choice(arrays))
        if pick < 0.5 and numbers:
            return f"{self.random.choice(arrays)} * {self.random.choice(numbers)}"
        if pick < 0.6:
            return f"{self.random.choice(arrays)} * {self.random.choice((0.5, 1.25, -2.0))} + {self.random.choice((0.25, -1.0))}"
        if pick < 0.68:
            return f"np.concatenate([{self.random.choice(arrays)}[2:], {self.random.choice(arrays)}[:2]])"
        if pick < 0.74:
            return f"helper({self.random.choice(arrays)}, {self.random.choice(arrays)})"
        return self.random.choice(BINARY).format(self.random.choice(arrays), self.random.choice(arrays))

    def number(self, arrays: list[str], numbers: list[str]) -> str:
        if numbers and self.random.random() < 0.3:
            return self.random.choice(("{} * 0.5", "np.tanh({})", "{0} * {1} * 0.1", "{} - 1")).format(
                self.random.choice(numbers), self.random.choice(numbers)
            )
        return self.random.choice(TO_NUMBER).format(self.random.choice(arrays), self.random.choice(arrays))

    def block(self, arrays: list[str], numbers: list[str], depth: int, length: int) -> list[str]:
        """Statements; names that they bind at depth 0 are added to the lists."""
        lines: list[str] = []
        for _ in range(length):
            lines += self.statement(arrays, numbers, depth)
        return lines

    def statement(self, arrays: list[str], numbers: list[str], depth: int) -> list[str]:
        pick, chance = self.random.random(), self.random
        own = [name for name in arrays if name.startswith("w")]  # arrays of the function's own, which may be written
        if pick < 0.3 or (pick < 0.5 and not own):
            name, value = self.new("v"), self.array(arrays, numbers)
            if depth:
                name = chance.choice(arrays[2:] or ["x"])
                return [f"{name} = {value}"] if name in arrays[2:] and name not in own else ["pass"]
            arrays.append(name)
            return [f"{name} = {value}"]
        if pick < 0.5:
            name, value = chance.choice(own), chance.choice([a for a in arrays if a not in own] or ["x"])
            forms = [f"{name}[1:] *= {value}[:-1]", f"{name} += {value}", f"{name}[0] = {value}[3] * 2", f"{name}[::2] = {value}[2:]"]
            forms += [f"{name}[:3] -= {name}[2:] * 0.5", f"{name}[{value} > 0] = 0.5", f"np.multiply({name}, {value}, out={name})"]
            return [chance.choice(forms)]
        if pick < 0.6:
            if depth:
                return ["pass"] if not numbers else [f"{chance.choice(numbers)} = {self.number(arrays, numbers)}"]
            name = self.new("s")
            line = f"{name} = {self.number(arrays, numbers)}"
            numbers.append(name)
            return [line]
        if pick < 0.66 and not depth:
            name = self.new("w")
            line = f"{name} = {chance.choice(arrays)} * 1.0"
            arrays.append(name)
            return [line]
        if pick < 0.72:
            return ["fj.graph_break()"]
        if depth > 1:
            return ["pass"]
        inner = [f"    {line}" for line in self.block(arrays, numbers, depth + 1, chance.randint(1, 3))]
        if pick < 0.82:
            other = [f"    {line}" for line in self.block(arrays, numbers, depth + 1, 1)]
            return [f"if {self.number(arrays, numbers)} > 0.3:", *inner, "else:", *other]
        if pick < 0.92:
            return [f"for i in range({chance.randint(1, 3)}):", *inner]
        if pick < 0.96:
            name = self.new("n")
            head = [f"{name} = 0", f"while {chance.choice(arrays)}.sum() < 2 and {name} < 3:", f"    {name} += 1"]
            return [*head, *inner]
        return ["try:", *inner, "finally:", "    pass"]


def helper(a: Any, b: Any) -> Any:
    """A callee."""
    c = a * 0.5
    c[1:] += b[:-1]
    return c - b.mean()


def function_of(source: str, name: str) -> Callable[..., Any]:
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"np": np, "fj": fj, "helper": helper}
    exec(compile(source, name, "exec"), scope)
    return scope["program"]


def slopes(f: Callable[..., Any], x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The gradient by differences; None where the function has a bend or a jump, or is no number."""
    out, step = np.zeros(len(x)), 1e-6
    middle = float(f(x.copy(), y.copy()))
    for i in range(len(x)):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[i] += sign * step
            ends.append(float(f(moved, y.copy())))
        right, left = (ends[0] - middle) / step, (middle - ends[1]) / step
        out[i] = (ends[0] - ends[1]) / (2 * step)
        if not np.isfinite(out[i]) or abs(right - left) > 1e-3 * (1 + abs(out[i])) or abs(middle) > 1e4:
            return None
    return out


def jitted(**options: Any) -> Callable[..., Any]:
    return lambda f: fj.jit(**options)(lambda x, y: fj.grad(f)(x, y))


WAYS: dict[str, Callable[..., Any]] = {
    "eager": fj.grad,
    "jit of grad": jitted(),
    "grad of jit": lambda f: fj.grad(fj.jit(f)),
    "grad of jit at O1": lambda f: fj.grad(fj.jit(f, jit_level="O1")),
    **{f"{mode} {level}": jitted(capture_mode=mode, jit_level=level) for mode in ("bytecode", "ast", "trace") for level in ("O0", "O1")},
    "twice": lambda f: lambda x, y: fj.jvp(lambda x: fj.grad(f)(x, y), x, np.zeros_like(x))[0],
    "value too": lambda f: lambda x, y: fj.value_and_grad(f)(x, y)[1],
    "interpreter": lambda f: lambda x, y: _eagerly(fj.grad(f), x, y),
}


def _eagerly(gradient: Callable[..., Any], x: np.ndarray, y: np.ndarray) -> Any:
    with fj.stance("force_eager"):
        return gradient(x, y)


def difference(seed: int) -> str | None:
    """What is wrong with the gradients of one function."""
    source = Maker(seed).source
    plain = function_of(source, f"<gradient {seed}>")
    rng = np.random.default_rng(seed)
    errors = fj.stats()["internal_errors"]
    with np.errstate(all="ignore"):
        pairs = [(rng.normal(size=LENGTH), rng.normal(size=LENGTH)) for _ in range(2)]
        expected = [slopes(plain, x, y) for x, y in pairs]
        if all(e is None for e in expected):
            return None
        for way, make in WAYS.items():
            gradient = make(function_of(source, f"<gradient {seed}>"))
            for (x, y), wanted in zip(pairs, expected, strict=True):
                for call in range(2):
                    given = x.copy()
                    try:
                        found = gradient(given, y.copy())
                    except fj.GraphBreakError as error:
                        if not any(text in str(error) for text in REFUSED):
                            return f"{way}, call {call}: {error}\n{source}"
                        continue
                    except Exception as error:
                        return f"{way}, call {call}: {type(error).__name__}: {error}\n{source}"
                    if wanted is None:
                        continue
                    if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=2e-4, atol=2e-4 * (1 + np.abs(wanted).max())):
                        return f"{way}, call {call}: {found} in place of {wanted}\n{source}"
                    if not np.array_equal(given, x):
                        return f"{way}, call {call}: the argument has changed\n{source}"
    return "an internal error\n" + source if fj.stats()["internal_errors"] != errors else None


@pytest.mark.parametrize("seeds", [range(at, min(at + 10, COUNT)) for at in range(0, COUNT, 10)], ids=lambda r: f"{r[0]}-{r[-1]}")
def test_random_gradients(seeds):
    found = [text for seed in seeds if (text := difference(seed))]
    assert not found, "\n".join(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start, differ = time.monotonic(), 0
    for seed in range(given.seed, given.seed + given.count):
        if text := difference(seed):
            differ += 1
            print(f"function {seed}: {text}", flush=True)
    print(f"{given.count} functions from {given.seed}, {differ} differ; {time.monotonic() - start:.0f} s")
    return differ != 0


if __name__ == "__main__":
    sys.exit(main())
