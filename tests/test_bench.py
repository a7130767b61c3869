"""The benchmarks run, and compare results before they time them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent / "benchmarks" / "bench.py"


def test_tiny(tmp_path):
    command = [sys.executable, str(BENCH), "--tiny", "--out", str(tmp_path / "bench.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "bench.txt").read_text()
    for part in ("a*b+c, float32", "x *= c; x += y, float32", "first call of a function", "import: numpy", "machine:"):
        assert part in text
    assert "wrong" not in text


def test_marked():
    command = [sys.executable, str(BENCH.with_name("marked.py")), "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert "geometric mean" in done.stdout, done.stderr


@pytest.mark.capture
def test_regions():
    command = [sys.executable, str(BENCH.with_name("regions.py")), "--rounds", "1", "--calls", "10"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert "largest" in done.stdout, done.stderr
