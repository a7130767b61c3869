"""Random programs, plain and marked, with the world changed between calls: results, effects, output and tracebacks.

FRAMEJIT_TEST_PROGRAMS=N runs N programs; FRAMEJIT_TEST_SEED=S begins at seed S.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import types
from collections.abc import Callable

import numpy as np
import pytest

import framejit as fj
from forms_support import Seen, check_same, differences, run, state
from program_maker import Maker, arguments, changes

COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "120"))
FIRST = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))
CALLS = 6
WORLD = ("COUNT", "SCALE", "FLAG", "NAMES", "TABLE", "LOG", "HELD", "FRESH")
MARKS = ("jit", "jit", "jit", "", "rewrite", "break=3", "rewrite,break=4", "guards")

pytestmark = pytest.mark.capture


def world_state(world: dict) -> object:
    return state([world.get(name) for name in WORLD], {})


def new_world(source: str, name: str) -> dict:
    world: dict = {"__name__": "program"}
    exec(compile(source, name, "exec", dont_inherit=True), world)
    return world


def mark(seed: int, world: dict) -> tuple[Callable, contextlib.ExitStack]:
    """main as a jitted function; for some seeds all functions of the program marked in place, under a stress mode."""
    stack = contextlib.ExitStack()
    how = MARKS[seed % len(MARKS)]
    if how == "jit":
        return fj.jit(world["main"], capture_mode="bytecode"), stack
    targets = [v for v in world.values() if isinstance(v, (types.FunctionType, type)) and v.__module__ == "program"]
    stack.enter_context(fj.mark(*targets, stress=how))
    return world["main"], stack


def counted_run(function: Callable, args: tuple) -> tuple[Seen, list[int]]:
    """Also how many references to each argument that is no int the call leaves behind."""
    objects = [arg for arg in args if not isinstance(arg, int)]
    before = [sys.getrefcount(o) for o in objects]
    seen = run(function, args)
    gc.collect()  # cycles that hold them: left to itself it runs in one of the two runs only
    after = [sys.getrefcount(o) for o in objects]
    return seen, [b - a for a, b in zip(before, after)]


def check_program(seed: int) -> int:
    """Gives the number of calls that ran compiled code."""
    source = Maker(seed).program()
    plain = new_world(source, f"<program {seed}>")
    ours = new_world(source, f"<program {seed}>")
    marked, marks = mark(seed, ours)
    before = fj.stats()
    with np.errstate(all="ignore"), marks:
        for call, change in enumerate(changes(seed, CALLS)):
            what = f"program {seed}, call {call}, after {change!r}\n{source[source.index('def helper') :]}"
            for world in (plain, ours):
                with contextlib.suppress(Exception):
                    exec(change, world)
            expected, kept = counted_run(plain["main"], arguments(seed, call, plain))
            actual, also_kept = counted_run(marked, arguments(seed, call, ours))
            check_same(expected, actual, what)
            wanted, got = world_state(plain), world_state(ours)
            assert got == wanted, f"{what}: world {differences(got, wanted)}"
            assert also_kept == kept, f"{what}: references {also_kept} for {kept}"
    after = fj.stats()
    assert after["internal_errors"] == before["internal_errors"], f"program {seed}"
    return after["frames_captured"] - before["frames_captured"]


@pytest.mark.filterwarnings("ignore::framejit.RecompileLimitWarning")
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, 20))
def test_programs(first: int) -> None:
    captured = 0
    for seed in range(first, min(first + 20, FIRST + COUNT)):
        captured += check_program(seed)
        fj.reset()
    assert captured > 0
