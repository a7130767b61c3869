"""Random loops, plain and marked: results to the bit, arrays, exceptions with their locals, output and warnings.

FRAMEJIT_TEST_PROGRAMS=N runs N programs; FRAMEJIT_TEST_SEED=S begins at seed S.
"""

from __future__ import annotations

import contextlib
import os
import types

import pytest

import forms_support
import framejit as fj
from forms_support import check_same
from framejit import _core
from loop_maker import LoopMaker, arguments
from loop_support import seen

COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "200"))
FIRST = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))
CALLS = 4
STRESS = ("", "", "", "", "rewrite", "break=3", "guards", "interp")

pytestmark = pytest.mark.capture


def new_world(source: str, name: str) -> dict:
    world: dict = {"__name__": "program"}
    exec(compile(source, name, "exec", dont_inherit=True), world)
    return world


def check_program(seed: int) -> None:
    source = LoopMaker(seed).program()
    name = f"<loops {seed}>"
    plain, ours = new_world(source, name), new_world(source, name)
    stress = STRESS[seed % len(STRESS)]
    before = fj.stats()["internal_errors"]
    fj.config.profitability = "measure" if seed % 3 == 0 else "off"  # off: loops of few rounds are compiled too
    with contextlib.ExitStack() as marks:
        if stress:
            functions = [v for v in ours.values() if isinstance(v, types.FunctionType)]
            marks.enter_context(fj.mark(*functions, stress=stress))
        else:
            ours["main"] = fj.jit(ours["main"], capture_mode="bytecode")
        for call in range(CALLS):
            what = f"program {seed}, call {call}, {stress}\n{source[source.index('def main') :]}"
            expected = seen(plain["main"], arguments(seed, call))
            check_same(expected, seen(ours["main"], arguments(seed, call)), what)
    assert fj.stats()["internal_errors"] == before, f"program {seed}"


@pytest.fixture(autouse=True)
def scalars_by_value(monkeypatch):
    monkeypatch.setattr(forms_support, "ONE_SCALAR", False)  # min() and max() may give equal ones (docs/usage.md)


@pytest.fixture(autouse=True)
def profitability(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", fj.config.profitability)  # put back behind the test


@pytest.fixture(autouse=True)
def widened():
    """Loops are compiled for several rounds at once after their first run; then both kernels have turns. Threads share rounds, be they ever so few."""
    before, eager = _core.set_widen_after(0), _core.set_parallel_eager(True)
    yield
    _core.set_widen_after(before)
    _core.set_parallel_eager(eager)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, 20))
def test_programs(first: int) -> None:
    for seed in range(first, min(first + 20, FIRST + COUNT)):
        check_program(seed)
    fj.reset()
