"""Random programs, plain and marked, with the world changed between calls: results, effects, output and tracebacks.

FRAMEJIT_TEST_PROGRAMS=N runs N programs; FRAMEJIT_TEST_SEED=S begins at seed S.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, differences, run, state
from program_maker import Maker, arguments, changes

COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "120"))
FIRST = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))
CALLS = 6
WORLD = ("COUNT", "SCALE", "FLAG", "NAMES", "TABLE", "LOG")

pytestmark = pytest.mark.capture


def world_state(world: dict) -> object:
    return state([world.get(name) for name in WORLD], {})


def check_program(seed: int) -> int:
    """Gives the number of entries that were compiled."""
    source = Maker(seed).program()
    code = compile(source, f"<program {seed}>", "exec")
    plain: dict = {"__name__": "program"}
    ours: dict = {"__name__": "program"}
    exec(code, plain)
    exec(code, ours)
    marked = fj.jit(ours["main"], capture_mode="bytecode")
    errors = fj.stats()["internal_errors"]
    with np.errstate(all="ignore"):
        for call, change in enumerate(changes(seed, CALLS)):
            what = f"program {seed}, call {call}, after {change!r}\n{source[source.index('def helper') :]}"
            exec(change, plain)
            exec(change, ours)
            expected = run(plain["main"], arguments(seed, call, plain))
            actual = run(marked, arguments(seed, call, ours))
            check_same(expected, actual, what)
            wanted, got = world_state(plain), world_state(ours)
            assert got == wanted, f"{what}: world {differences(got, wanted)}"
    assert fj.stats()["internal_errors"] == errors, f"program {seed}"
    return len(marked.cache_entries())


@pytest.mark.filterwarnings("ignore::framejit.RecompileLimitWarning")
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, 20))
def test_programs(first: int) -> None:
    entries = 0
    for seed in range(first, min(first + 20, FIRST + COUNT)):
        entries += check_program(seed)
        fj.reset()
    assert entries > 0
