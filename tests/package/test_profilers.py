"""Tools that look at the stack from outside see marked functions; the program does not see what is there for them."""

from __future__ import annotations

import collections
import contextlib
import cProfile
import shutil
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import numpy as np
import pytest

import framejit as fj

pytestmark = pytest.mark.capture

# What py-spy says if it may not look into other processes, or does not know this version of Python.
UNABLE = ("Permission denied", "Operation not permitted", "Unsupported version", "Failed to find python version")
PROGRAM = """
import faulthandler, sys, tempfile, threading, time
import numpy as np
import framejit as fj

@fj.jit
def heavy(x, y):
    return np.exp(np.sin(x) * y) + np.sqrt(x * x + y * y)

@fj.jit
def light(x):
    return x + 1

class Model:
    @fj.jit
    def method(self, x):
        return np.tanh(np.exp(x) * 0.5) - x

def in_place(x):
    return np.cos(np.exp(x) * 0.5) - x

fj.mark(in_place)

def run(seconds, *calls):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for call, arguments in calls:
            call(*arguments)

big, small = np.full(300_000, 0.5), np.ones(4)
fj.set_num_threads(1)
run(0, (heavy, (big, big)), (light, (small,)), (Model().method, (big,)), (in_place, (big,)))
"""


def run(code: str) -> str:
    command = [sys.executable, "-c", PROGRAM + textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_stacks_of_other_threads():
    """faulthandler reads the stacks as profilers do; sys._current_frames() is what programs see."""
    shown = run("""
    thread = threading.Thread(target=run, args=(240, (heavy, (big, big))), daemon=True)
    thread.start()
    text = ""
    with tempfile.TemporaryFile("w+") as file:
        while "in heavy" not in text and thread.is_alive():
            faulthandler.dump_traceback(file)
            names, frame = [], sys._current_frames()[thread.ident]
            while frame:
                names.append(frame.f_code.co_name)
                frame = frame.f_back
            assert "heavy" not in names, names
            file.seek(0)
            text = file.read()
    print(text)
    sys.stdout.flush()
    """)
    lines = [line.strip() for line in shown.split("\n")]
    at = next(i for i, line in enumerate(lines) if line.endswith(" in heavy"))
    assert lines[at] in (
        'File "<string>", line 6 in heavy',
        'File "<string>", line ??? in heavy',
    )  # by version of Python
    assert lines[at + 1].endswith(" in run")


def test_own_frames_are_what_they_were():
    """What a marked function calls finds its callers, and so do functions that come after it."""
    run("""
    def names(array):
        found, frame = [], sys._getframe()
        while frame:
            found.append(frame.f_code.co_name)
            frame = frame.f_back
        return found

    @fj.custom_op(shape=lambda shape: shape)
    def looks(x):
        seen.append(names(x))
        return x

    @fj.jit
    def calls(x):
        return looks(x * 2) + 1

    seen = []
    for _ in range(4):
        calls(small)
        light(small)
        assert names(small) == ["names", "<module>"]
    assert len(seen) >= 4
    for found in seen:  # the bytecode runs now and then, to be compared
        assert found in (["names", "looks", "<module>"], ["names", "looks", "__call__", "calls", "<module>"]), found
    """)


@pytest.mark.parametrize(
    ("name", "call"),
    [("heavy", "(heavy, (big, big))"), ("method", "(Model().method, (big,))"), ("in_place", "(in_place, (big,))")],
)
def test_py_spy(tmp_path, name, call):
    py_spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if py_spy is None:
        pytest.skip("no py-spy")
    (tmp_path / "program.py").write_text(f"{PROGRAM}\nrun(2, {call})\n")
    command = [py_spy, "record", "--format", "raw", "--output", "stacks.txt", "--"]
    done = subprocess.run(
        [*command, sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    if any(reason in done.stderr for reason in UNABLE):
        pytest.skip(f"py-spy cannot look into this Python: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    samples: collections.Counter[bool] = collections.Counter()
    for line in (tmp_path / "stacks.txt").read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        if "run (program.py" in stack:
            samples[f"{name} (program.py" in stack] += int(count)
    assert samples[True] > samples[False], (samples, done.stderr)


def profiled(function, *arguments, calls: int = 100):
    """The row of the function in a profile of so many calls, and how many kernels ran meanwhile."""
    profile = cProfile.Profile()
    before = fj.stats()["kernel_calls"]
    profile.enable()
    for _ in range(calls):
        function(*arguments)
    profile.disable()
    code = getattr(function, "__wrapped__", function).__code__
    rows = [row for row in profile.getstats() if row.code is code]
    assert len(rows) == 1, rows
    return rows[0], fj.stats()["kernel_calls"] - before


def branches(x):
    if x.sum() > 0:
        return x * 2 + x.mean()
    return x


def with_break(x):
    y = x * 2 + 1
    fj.graph_break()
    return y * 3 - x


def of_elements(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * x[i]
    return total


def raises(x):
    return x * 2 + x[:5]


@pytest.mark.parametrize("plain", [branches, with_break, of_elements])
@pytest.mark.parametrize("marked", ["callable", "in place"])
def test_profiles_measure_compiled_code(plain, marked):
    """cProfile has one row for a marked function, with each of its calls, and compiled code runs."""
    x = np.arange(500.0)
    expected = plain(x)
    with contextlib.ExitStack() as stack:
        if marked == "callable":
            function = fj.jit(plain)
        else:
            function = types.FunctionType(plain.__code__.replace(), globals())
            stack.enter_context(fj.mark(function))
        for _ in range(300):
            function(x)
        row, kernels = profiled(function, x)
        assert row.callcount == 100
        assert row.totaltime >= row.inlinetime > 0
        assert kernels >= 90
        assert np.array_equal(function(x), expected)


def test_profiles_of_calls_that_raise():
    function = fj.jit(raises)
    x = np.arange(500.0)

    def call():
        with pytest.raises(ValueError, match="could not be broadcast"):
            function(x)

    call()
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(10):
        call()
    profile.disable()
    rows = {getattr(row.code, "co_name", row.code): row for row in profile.getstats()}
    assert rows["raises"].callcount == 10
    assert rows["call"].callcount == 10


def test_profilers_that_are_told_of_calls_see_bytecode():
    function = fj.jit(branches)
    x = np.arange(500.0)
    for _ in range(10):
        function(x)
    events = []
    before = fj.stats()["kernel_calls"]
    sys.setprofile(lambda frame, event, argument: events.append((frame.f_code.co_name, event)))
    function(x)
    sys.setprofile(None)
    assert ("branches", "call") in events
    assert ("branches", "return") in events
    assert fj.stats()["kernel_calls"] == before
    # Beside cProfile too.
    profile = cProfile.Profile()
    lines = []

    def trace(frame, event, argument):
        if frame.f_code is branches.__code__:
            lines.append(event)
        return trace

    sys.settrace(trace)
    profile.enable()
    function(x)
    profile.disable()
    sys.settrace(None)
    assert lines.count("line") >= 2
    assert fj.stats()["kernel_calls"] == before
