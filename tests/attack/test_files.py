"""Files of graphs with changed numbers and right checksums are refused or loaded: the process goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest
from attack import files_cases

pytestmark = [
    pytest.mark.capture,
    pytest.mark.not_sanitized(reason="AddressSanitizer needs more address space than the limit"),
]


@pytest.mark.parametrize("name", files_cases.FUNCTIONS)
def test_changed_numbers(name, tmp_path):
    command = [sys.executable, files_cases.__file__, str(tmp_path), name, "60", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    ended = f"{name} ended by {done.returncode} in case {done.stdout.splitlines()[-1:]}\n{done.stderr}"
    assert done.returncode == 0 and done.stdout.endswith("done\n"), ended
