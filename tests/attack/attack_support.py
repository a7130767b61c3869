"""Programs that might end their process, run in one of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import framejit as fj


def run(program: str, *args: str, **environment: str) -> str:
    """What the program prints; it must end well."""
    where = os.path.dirname(os.path.dirname(fj.__file__))
    command = [sys.executable, "-X", "faulthandler", "-c", program, *args]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": where, **environment},
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
