"""python -m framejit bisect."""

import subprocess
import sys

import pytest

from framejit._reporting._bisect import AVX2, EVERYTHING, INTERPRETED, ONE_THREAD, Outcome, bisect, without

PASSES = ("canonicalize", "cse", "dce")


def ends(right):
    """What `bisect` says if a program runs as plain Python does in the variants for which `right` is true."""
    said = []
    fault = bisect(lambda variant: Outcome(not right(variant), ()), PASSES, said.append)
    return fault, "\n".join(said)


def test_nothing_differs():
    fault, said = ends(lambda variant: True)
    assert (fault, said.count("\n  ")) == ("", 0)
    assert "No region differs" in said


@pytest.mark.parametrize("name", PASSES)
def test_a_pass(name):
    fault, said = ends(lambda variant: "-" + name in variant.passes.split(","))
    assert fault == name
    assert f"The pass {name} is at fault" in said


def test_several_passes():
    fault, said = ends(lambda variant: variant == without(*PASSES))
    assert fault == "passes"
    assert "Several passes" in said


def test_capture():
    fault, said = ends(lambda variant: False)
    assert fault == "capture"
    assert INTERPRETED.name in said and ONE_THREAD.name not in said


def test_threads():
    assert ends(lambda variant: variant in (INTERPRETED, ONE_THREAD))[0] == "threads"


@pytest.mark.parametrize("avx2", [False, True])
def test_machine_code(avx2):
    fault, said = ends(lambda variant: variant == INTERPRETED or (avx2 and variant == AVX2))
    assert fault == "codegen"
    assert f"{'as plain' if avx2 else 'differs':<9} {AVX2.name}" in said


def test_the_error_of_the_program_is_shown():
    said = []
    bisect(lambda variant: Outcome(variant == EVERYTHING, (), "KeyError: 'x'"), PASSES, said.append)
    assert "the program ended with: KeyError: 'x'" in said[1]


# --- the command

SAME = """
import numpy as np

def scale(x):
    return x * 2 + 1

for _ in range(3):
    scale(np.arange(8.0))
"""

# Its operator gives another answer each time, so no prediction of it comes true.
DIFFERENT = """
import sys
import numpy as np
import framejit as fj

count = [0]

@fj.custom_op
def counted(x):
    count[0] += 1
    return x + count[0]

def scale(x):
    return counted(x * 2) + 1

for _ in range(3):
    scale(np.arange(float(sys.argv[1])))
"""


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "framejit", *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.capture
def test_a_program_without_a_difference(tmp_path):
    (tmp_path / "same.py").write_text(SAME)
    done = command("bisect", str(tmp_path / "same.py"))
    assert done.returncode == 0, done.stderr
    assert "No region differs from the bytecode" in done.stdout


@pytest.mark.capture
def test_a_program_with_a_difference(tmp_path):
    (tmp_path / "different.py").write_text(DIFFERENT)
    done = command("bisect", str(tmp_path / "different.py"), "8")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "The machine code is at fault (codegen/), or a function that it calls" in done.stdout
    assert "A program that shows it:" in done.stdout and "def scale(x):" in done.stdout


@pytest.mark.capture
@pytest.mark.parametrize("arguments", [(), ("missing.py",)])
def test_bad_commands(arguments):
    done = command("bisect", *arguments)
    assert done.returncode == 2
    assert "bisect needs a script" in done.stderr
