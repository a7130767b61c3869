"""The programs of benchmarks/never_slower.py, plain and marked, come to the same bits; nothing is timed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
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


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 1.0),
        (1.0, np.float64(1.0)),
        (0.0, -0.0),
        ([1, 2], (1, 2)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.zeros(3), -np.zeros(3)),
        (np.zeros((2, 3)), np.zeros((3, 2)).T),
        (np.zeros(3), np.zeros(3, np.float32)),
        (np.array([np.nan, 1.0]), np.array([1.0, np.nan])),
        (np.random.default_rng(1), np.random.default_rng(2)),
    ],
)
def test_what_differs(expected, actual):
    assert never_slower.same(expected, expected)
    assert not never_slower.same(expected, actual)
