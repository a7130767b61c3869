"""Expressions of hundreds of operations, with many values that are used much later: values, and how many kernels they become."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable

import numpy as np
import pytest

import framejit
from exact.same import assert_same

FUNCTIONS = ["np.exp({})", "np.sqrt(abs({}))", "np.sin({})", "np.maximum({}, 0.25)", "np.where({} > 0.5, {}, 0.75)", "-{}", "{} ** 2"]


def expression(seed: int, count: int, window: int, functions: bool = True) -> Callable:
    """A function of two matrices and a row: each statement uses some of the last `window` values."""
    choose = random.Random(seed)
    values, lines = ["a", "b", "row"], []
    for i in range(count):
        x, y = choose.choice(values[-window:]), choose.choice([*values[-window:], "row", "0.5", "1.25"])
        if functions and choose.random() < 0.08:
            lines.append(f"t{i} = {choose.choice(FUNCTIONS).replace('{}', x)}")
        else:
            lines.append(f"t{i} = ({x} {choose.choice('+-*')} {y}) * {choose.uniform(0.3, 0.6):.3f}")
        values.append(f"t{i}")
    lines.append("return " + " + ".join(f"t{i}" for i in range(max(0, count - window), count)))
    source = "def program(a, b, row):\n" + "".join(f"    {line}\n" for line in lines)
    name = f"<expression {seed} {count} {window}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict = {"np": np}
    exec(compile(source, name, "exec"), scope)
    return scope["program"]


def arguments(shape: tuple[int, int] = (7, 13)) -> tuple[np.ndarray, ...]:
    numbers = np.random.default_rng(0)
    return numbers.random(shape), numbers.random(shape), numbers.random((1, shape[1]))


def kernels(function: Callable, level: str = "O0") -> int:
    marked = framejit.jit(function, jit_level=level)
    marked(*arguments())
    (entry,) = marked._report()["entries"]
    return len(entry["kernels"])


@pytest.mark.parametrize("seed", range(24))
def test_random_expressions(seed: int) -> None:
    count, window = [(30, 8), (120, 30), (250, 60), (250, 120)][seed % 4]
    function = expression(seed, count, window)
    assert_same(function, arguments)
    assert_same(function, lambda: arguments((1, 1)))
    assert_same(function, lambda: arguments((3, 0)))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("cpu", ["avx2", "avx512"])
def test_random_expressions_with_functions_at_o1(cpu: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few functions in many operations, in rows that end within a vector, two vectors and one more."""
    monkeypatch.setattr(framejit.config, "cpu", cpu)
    expand = expression(seed, [150, 300, 450][seed % 3], 30, functions=False)

    def program(a, b, row):
        x = expand(a, b, row)
        return np.log(abs(x) + 1.5) * np.exp(-abs(x)) + expand(np.sqrt(a), b, row) / (abs(x) + 1.0)

    marked = framejit.jit(program, jit_level="O1")
    for length in (1, 3, 4, 7, 8, 9, 16, 17, 31, 200):
        given = arguments((5, length))
        np.testing.assert_allclose(marked(*given), program(*given), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("level", ["O0", "O1"])
def test_an_expression_with_many_live_values_is_one_kernel(level: str) -> None:
    assert kernels(expression(1, 200, 60, functions=False), level) == 1


def test_what_a_row_alone_decides_is_computed_before() -> None:
    """A kernel for the row, and one for the rest, though the row's part stands in the middle of the expression."""

    def program(a, b, row):
        x = a * b + a
        y = x * x - b
        scaled = row * 0.5 + row * row
        return y * scaled + x / (y + 2.0) + scaled

    assert kernels(program) == 2
    assert_same(program, arguments)


def test_more_values_than_a_step_has_operands_for() -> None:
    """Each value goes through NumPy's loop, and all of them are added at the end: one step cannot hold so many."""
    count = 90
    lines = [f"    t{i} = np.exp(a * {0.01 * i + 0.1:.3f} + row)" for i in range(count)]
    lines += [f"    u{i} = t{i} * t{count - 1 - i} + b" for i in range(count)]
    source = "def program(a, b, row):\n" + "\n".join(lines) + "\n    return " + " + ".join(f"u{i} * t{i}" for i in range(count)) + "\n"
    linecache.cache["<many>"] = (len(source), None, source.splitlines(True), "<many>")
    scope: dict = {"np": np}
    exec(compile(source, "<many>", "exec"), scope)
    marked = assert_same(scope["program"], arguments)
    assert len(marked._report()["entries"]) == 1 and not marked._report()["breaks"]


def test_in_place_with_many_live_values() -> None:
    def program(a, b, row):
        values = [a * (i + 1.0) for i in range(50)]
        for i, value in enumerate(values):
            a += value * values[49 - i] * 1e-3
            b *= 0.5
            b += value
        return a, b

    assert_same(program, arguments)


def test_a_chain_of_numbers_that_are_used_twice() -> None:
    """Fusion looks at operands of such numbers, not at all ways back: 2 ** 60 here, so this would not end."""
    source = "def program(a, s):\n" + "    s = s * s - s * 0.5\n" * 60 + "    return (a + s) * s\n"
    scope: dict = {}
    exec(source, scope)
    assert_same(scope["program"], lambda: (np.ones((7, 13)), np.float64(0.5)))
