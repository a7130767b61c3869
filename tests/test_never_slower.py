"""The programs of benchmarks/never_slower.py, plain and marked, come to the same bits; nothing is timed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import framejit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
never_slower = importlib.import_module("never_slower")
sys.path.pop(0)


@pytest.mark.capture
@pytest.mark.filterwarnings("ignore::framejit.RecompileLimitWarning")
@pytest.mark.parametrize("family", never_slower.FAMILIES)
def test_same_results(family):
    others = []
    programs = importlib.import_module(f"never_slower_programs.{family}").program.programs
    for name in [name for name, program in programs.items() if not never_slower.missing(program)]:
        plain = never_slower.Calls(never_slower.load(family), name, "tiny")
        marked = never_slower.Calls(never_slower.load(family, framejit.jit, name), name, "tiny")
        expected = plain.once()[1]
        if not all(never_slower.same(expected, marked.once()[1]) for _ in range(3)):
            others.append(name)
    assert programs and not others
