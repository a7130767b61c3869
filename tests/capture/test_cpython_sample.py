"""A few of CPython's own test modules with every code object spliced; all of them: tests/long/run_cpython_tests.py."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

RUNNER = pathlib.Path(__file__).resolve().parent.parent / "long" / "run_cpython_tests.py"


@pytest.mark.skipif(importlib.util.find_spec("test.test_generators") is None, reason="Python without its tests")
def test_language_modules_behave_the_same():
    modules = ["test_generators", "test_with", "test_scope", "test_yield_from"]
    done = subprocess.run(
        [sys.executable, str(RUNNER), "--modes", "exits", "--seed", "1", *modules], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'errors': 0" in done.stdout
    assert "'exits': 0" not in done.stdout


@pytest.mark.skipif(importlib.util.find_spec("test.test_generators") is None, reason="Python without its tests")
def test_language_modules_marked_in_place_behave_the_same():
    modules = ["test_generators", "test_scope", "test_sys_setprofile", "test_dict"]
    done = subprocess.run(
        [sys.executable, str(RUNNER), "--modes", "marked,rewrite", *modules], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("'internal_errors': 0") == 2
    assert done.stdout.count("% of the marked frames") == 2


@pytest.mark.skipif(importlib.util.find_spec("test.test_generators") is None, reason="Python without its tests")
def test_language_modules_whose_guards_fail_behave_the_same():
    # Collections in test_userlist take entries away while it is noted that a guard of theirs fails.
    done = subprocess.run(
        [sys.executable, str(RUNNER), "--modes", "guards", "test_userlist", "test_with"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'internal_errors': 0" in done.stdout
