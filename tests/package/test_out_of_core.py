"""examples/out_of_core.py works on a file that none of its processes could hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.capture
EXAMPLE = Path(__file__).parents[2] / "examples" / "out_of_core.py"


@pytest.mark.not_sanitized(reason="shadow memory counts as memory")
def test_workers_hold_less_than_the_file():
    pytest.importorskip("distributed")
    command = [sys.executable, EXAMPLE, "--megabytes", "600", "--memory", "400", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    size, held, kernels = (int(re.search(f"{what}: ([0-9]+)", done.stdout)[1]) for what in ("winds", "held", "run"))
    assert size == 600 and held < 400, done.stdout
    assert kernels >= 46, done.stdout  # one for each chunk
