"""Sizes near and beyond 64 bits: a marked function does what the unmarked one does, and nothing reads or writes outside of its memory.

Each group of cases runs in a process of its own, with a limit of memory and of time for each call.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from attack import sizes_cases

pytestmark = [
    pytest.mark.capture,
    pytest.mark.not_sanitized(reason="AddressSanitizer needs more address space than the limit"),
]
GROUPS = 4


def run(kind, names):
    done = subprocess.run([sys.executable, sizes_cases.__file__, kind, *names], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert done.returncode == 0, f"ended by {done.returncode} in {done.stdout.splitlines()[-1:]}\n{done.stderr}"
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("group", range(GROUPS))
def test_arrays(group):
    run("arrays", list(sizes_cases.CASES)[group::GROUPS])


def test_tensors():
    run("tensors", list(sizes_cases.TENSORS))
