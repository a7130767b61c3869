"""The output of the demo: first how much faster the program is, and nothing about the insides of libraries."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).resolve().parent.parent / "examples" / "demo" / "run.py"


@pytest.fixture
def demo(monkeypatch):
    spec = importlib.util.spec_from_file_location("demo_run", FILE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def runs(demo):
    variants = [demo.Variant("NumPy", "", 1), demo.Variant("O0", "O0", 1)]
    digests = {"load": {"a"}, "work": {"b"}}
    arrays = {"work.0": np.arange(3.0)}
    plain = demo.Run({"load": [0.001], "work": [0.011]}, digests, {"done"}, arrays)
    compiled = demo.Run({"load": [0.002], "work": [0.001]}, digests, {"done"}, arrays)
    return variants, {variants[0]: plain, variants[1]: compiled}


def test_longest_first(demo, runs):
    variants, runs = runs
    head, rows, right = demo.table_of("program.py", runs, variants)
    assert right
    assert head == ["function", "NumPy ms", "O0", "result"]
    assert rows == [["work", "11.00", "11.00x", "same bits"], ["load", "1.00", "0.50x", "same bits"]]


def test_summary(demo, runs):
    variants, runs = runs
    assert demo.summary_of(runs, variants) == "12 ms with NumPy; compiled: 4.0 times as fast (O0)"


def test_other_results_are_no_success(demo, runs):
    variants, runs = runs
    runs[variants[1]].digests = {"load": {"a"}, "work": {"other"}}
    _, rows, right = demo.table_of("program.py", runs, variants)
    assert not right and rows[0][-1] == "DIFFERENT"


def broken(file, line, **more):
    return {"file": file, "line": line, "id": "FJ010", "what": "an effect", "detail": "print", **more}


def test_breaks_in_libraries_are_counted(demo):
    breaks = [broken("zipfile.py", 1533, from_line=19)] * 3 + [broken("program.py", 21)]
    function = {"name": "load", "file": "program.py", "entries": [], "breaks": breaks}
    assert demo.describe({"functions": [function]}) == [
        "    load(): 0 graphs, 0 kernels, 4 breaks",
        "        line 21: FJ010 an effect: print",
        "        line 19: 3 breaks in libraries that it calls",
    ]
