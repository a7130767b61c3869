"""The line on standard error while a long compilation runs: on terminals and in notebooks, nowhere else."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys

import framejit as fj
import pytest

pytestmark = pytest.mark.capture

# Every compilation takes long enough here.
PROGRAM = """
import signal, sys
import numpy as np, framejit as fj
fj._core.set_progress_after(0)
def long_function(x):
    for i in range(40):
        x = np.sin(x) * i + 1
    return x
{before}
f = fj.jit(long_function, fullgraph=True)
print(f(np.ones(3)).tolist() == long_function(np.ones(3)).tolist(), fj.stats()["internal_errors"])
{after}
"""


def on_terminal(tmp_path, before: str = "", after: str = "", **environment: str) -> tuple[str, str]:
    """What the program writes to standard output, and to standard error if that is a terminal."""
    (tmp_path / "long.py").write_text(PROGRAM.format(before=before, after=after))
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "long.py"],
            cwd=tmp_path,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            check=False,
            timeout=120,
        )
        os.set_blocking(ours, False)
        try:
            shown = os.read(ours, 1 << 16).decode()
        except BlockingIOError:
            shown = ""
    finally:
        os.close(theirs)
        os.close(ours)
    assert done.returncode == 0, shown
    return done.stdout, shown


def test_on_a_terminal(tmp_path):
    out, shown = on_terminal(tmp_path)
    assert out == "True 0\n"
    assert re.fullmatch(
        r"\rframejit: compiling long_function\(\) \(long\.py:5\), 0 s"
        r"\rframejit: compiled long_function\(\) \(long\.py:5\) in [\d.]+ [mu]?s *\r\n",
        shown,
    ), shown


def test_elsewhere_it_is_silent(tmp_path):
    (tmp_path / "long.py").write_text(PROGRAM.format(before="", after=""))
    done = subprocess.run([sys.executable, "long.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True 0\n", "")


def test_the_setting(tmp_path):
    assert on_terminal(tmp_path, FRAMEJIT_PROGRESS="0") == ("True 0\n", "")
    assert on_terminal(tmp_path, before="fj.config.progress = False") == ("True 0\n", "")


def test_short_compilations_are_silent(tmp_path):
    assert on_terminal(tmp_path, before="assert fj._core.set_progress_after(10**12) == 0") == ("True 0\n", "")


def test_a_closed_stream(tmp_path):
    assert on_terminal(tmp_path, before="sys.stderr.close()")[0] == "True 0\n"
    assert on_terminal(tmp_path, before="sys.stderr = None")[0] == "True 0\n"


def test_what_the_handler_of_a_signal_raises_is_not_lost(tmp_path):
    """The handler runs in the Python code that writes the line, in the middle of a compilation."""
    before = """
class Stream:
    closed = False
    def isatty(self):
        signal.raise_signal(signal.SIGUSR1)
        return True
    def write(self, text): pass
    def flush(self): pass
class Timeout(OSError): pass
def handler(*_): raise Timeout
signal.signal(signal.SIGUSR1, handler)
errors, sys.stderr = sys.stderr, Stream()
try:
    fj.jit(long_function, fullgraph=True)(np.ones(3))
    for _ in range(100): pass
except Timeout:
    print("raised")
sys.stderr = errors
"""
    assert on_terminal(tmp_path, before=before)[0] == "raised\nTrue 0\n"


def test_in_a_notebook(monkeypatch, capsys):
    from framejit._reporting import _progress

    class Kernel:
        kernel = True

    assert _progress.show("f", "file.py", 3, 10**9, False) is False
    monkeypatch.setattr(_progress, "shell", Kernel)
    assert _progress.show("f", "file.py", 3, 2 * 10**9, False) is True
    assert _progress.show("f", "file.py", 3, 2_500_000_000, True) is False
    assert (
        capsys.readouterr().err
        == "\rframejit: compiling f() (file.py:3), 2 s\rframejit: compiled f() (file.py:3) in 2.5 s\n"
    )


def test_the_threshold_is_checked():
    with pytest.raises(ValueError, match="must not be negative, but got -1"):
        fj._core.set_progress_after(-1)
    assert fj._core.set_progress_after(10**9) == 10**9
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
