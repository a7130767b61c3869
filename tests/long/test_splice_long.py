"""All of the standard library through the decoder, the encoder and the splicer; CPython's own tests with all code spliced."""

import pathlib
import subprocess
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "capture"))

import splice_programs  # noqa: E402
from splice_support import core, load_rewritten, observe, stdlib_codes, stdlib_files  # noqa: E402

pytestmark = pytest.mark.long
RUNNER = pathlib.Path(__file__).with_name("run_cpython_tests.py")


def test_the_standard_library_encodes_to_the_same_bytes():
    count = 0
    for code in stdlib_codes(stdlib_files()):
        assert core._splice_encode(code) == (code.co_code, code.co_linetable, code.co_exceptiontable), code
        core._splice_decode(code)
        count += 1
    assert count > 20000


def test_the_standard_library_splices():
    for code in stdlib_codes(stdlib_files()):
        try:
            core._splice_make(code, None, True)
        except ValueError as e:
            assert "no place" in str(e), code


@pytest.mark.parametrize("share", [40, 128, 255])
def test_random_exits_with_many_seeds(share):
    for seed in range(300):
        module = load_rewritten(splice_programs.__file__, share, seed, "splice_programs")
        sys.modules["splice_programs"] = splice_programs
        for function, calls in splice_programs.PROGRAMS:
            if function.__name__ == "matching":  # its argument is of a class that is another one here
                continue
            for args in calls:
                fresh = [tuple(list(a) if type(a) is list else a for a in args) for _ in range(2)]
                expected = observe(function, fresh[0])
                assert observe(getattr(module, function.__name__), fresh[1]) == expected, (share, seed, function)


def test_cpython_tests_spliced():
    done = subprocess.run([sys.executable, str(RUNNER)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_cpython_tests_marked():
    command = [sys.executable, str(RUNNER), "--modes", "marked,rewrite"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
