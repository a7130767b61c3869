"""NumPy's own tests with every test function marked, then with NumPy's Python code marked too: a few files; all of them where long tests run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).resolve().parent.parent / "long" / "run_numpy_tests.py"

pytestmark = pytest.mark.skipif(importlib.util.find_spec("numpy.lib.tests") is None, reason="NumPy without its tests")


def run(*arguments: str) -> None:
    done = subprocess.run([sys.executable, str(RUNNER), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "'internal_errors': 0" in done.stdout and "'kernel_calls': 0" not in done.stdout, done.stdout[-2000:]


def test_a_few_files():
    run("--sample")


@pytest.mark.long
def test_all_files():
    run()
