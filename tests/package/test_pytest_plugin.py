"""The pytest plugin: modes, fixtures, the summary, with and without pytest-xdist."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import framejit
import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[2]

PACKAGE = """
import os, statistics
import numpy as np

def whole(x):
    return np.sqrt(x) * 2 + 1

def breaks(x):
    y = x * 2 + 1
    os.getpid()
    return y - 1

def breaks_elsewhere(x):
    return statistics.fmean([x.sum() * 2, 1.0]) + 1
"""
TESTS = """
import numpy as np, pytest
from package.part import breaks, breaks_elsewhere, whole

X = np.ones(4)

def test_whole():
    for _ in range(3):
        assert whole(X).tolist() == [3.0] * 4

def test_breaks():
    for _ in range(3):
        assert breaks(X).tolist() == [2.0] * 4
        assert breaks_elsewhere(X) == 5.5
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A package with tests, run with the plugin as it is found in an environment where framejit is installed."""
    folder = pytester.mkpydir("package")
    (folder / "part.py").write_text(PACKAGE)
    pytester.makepyfile(test_part=TESTS)
    installed = pytester.mkdir("installed")
    info = installed / "framejit-1.0.dist-info"
    info.mkdir()
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    rows = "".join(f"{name} = {module}\n" for name, module in points.items())
    (info / "entry_points.txt").write_text(f"[pytest11]\n{rows}")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: framejit\nVersion: 1.0\n")
    home = Path(framejit.__file__).parent
    files = [
        path.relative_to(home.parent)
        for name in ("framejit", "framejit_pytest")
        for path in (home.parent / name).rglob("*.py")
    ]
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in files))
    for name in ("framejit", "framejit_pytest"):
        (installed / name).symlink_to(home.parent / name)
    monkeypatch.setenv("PYTHONPATH", f"{installed}:{pytester.path}")
    monkeypatch.setenv("FRAMEJIT_PROFITABILITY", "off")
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


def test_without_options_nothing_is_imported(project):
    project.makepyfile(
        test_part="import sys\ndef test():\n    assert 'framejit' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    done = run(project)
    done.assert_outcomes(passed=1)
    assert "framejit:" not in done.stdout.str()


@pytest.mark.capture
def test_mark(project):
    done = run(project, "--framejit=mark", "--framejit-packages=package")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(
        [
            "framejit: *, mark, O0, marks package, package.*",
            "*= framejit: mark =*",
            "compiled code ran in * of 9 calls of marked functions; * kernels, compiling took *",
            "2 graph breaks (python -m framejit docs ID explains them):",
            "  FJ002 package/part.py:10 breaks(): call of a C function * 'posix.getpid'",
            "  FJ002 /*statistics.py:* fmean(): *",
        ]
    )
    done.stdout.no_fnmatch_line("*internal error*")


@pytest.mark.capture
def test_ini_options(project):
    project.makeini("[pytest]\nframejit = mark\nframejit_packages = package.part\nframejit_level = O1\n")
    done = run(project)
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["framejit: *, mark, O1, marks package.part, package.part.*", "compiled code ran in *"])
    assert "marks other, other.*" in run(project, "--framejit-packages", "other").stdout.str()


@pytest.mark.capture
def test_workers_are_summed_up(project):
    pytest.importorskip("xdist")
    done = run(project, "--framejit=mark", "--framejit-packages=package", "-n", "2")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["compiled code ran in * of 9 calls of marked functions*", "2 graph breaks*"])


@pytest.mark.parametrize(
    ("arguments", "ini", "message"),
    [
        (
            ["--framejit=mark"],
            "",
            "--framejit=mark needs --framejit-packages=NAMES or the ini option framejit_packages",
        ),
        (["--framejit=fast"], "", "*--framejit*'fast'*"),
        ([], "framejit = fast", "*the ini option 'framejit' must be one of mark, strict, off, not 'fast'"),
        ([], "framejit = strict\nframejit_level = O7", "*the ini option 'framejit_level' must be O0 or O1, not 'O7'"),
    ],
)
def test_usage_errors(project, arguments, ini, message):
    project.makeini(f"[pytest]\n{ini}\n")
    done = run(project, *arguments)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*{message}*"])


FULLGRAPH = """
import unittest
import numpy as np, pytest, framejit as fj
from package.part import breaks, whole

breaks, whole = fj.jit(breaks), fj.jit(whole)
for f in (breaks, whole):
    f(np.ones(4))  # what an earlier call has compiled must not hide the break

@pytest.mark.framejit_fullgraph
@pytest.mark.parametrize("f", [whole, breaks], ids=["whole", "breaks"])
def test_marker(f):
    f(np.ones(4))

def test_no_marker():
    breaks(np.ones(4))

class TestOfUnittest(unittest.TestCase):
    @pytest.mark.framejit_fullgraph
    def test_breaks(self):
        breaks(np.ones(4))
"""


@pytest.mark.capture
def test_strict(project):
    project.makepyfile(test_part=FULLGRAPH)
    done = run(project, "--framejit=strict")
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(
        [
            "1 graph break of marked functions:",
            "package/part.py:10:* breaks(): FJ002 *",
            "*os.getpid()*",
            "compiled code ran in *",
            "FAILED test_part.py::test_marker?breaks? - *",
            "FAILED test_part.py::TestOfUnittest::test_breaks - *",
        ]
    )
    run(project).assert_outcomes(passed=4)  # the marker is known, and has no effect without strict


@pytest.mark.capture
def test_strict_raises_internal_errors(project):
    project.makepyfile(test_part="import framejit\ndef test():\n    assert framejit.config.strict\n")
    run(project, "--framejit=strict").assert_outcomes(passed=1)
    run(project).assert_outcomes(failed=1)


FIXTURES = """
import numpy as np, pytest
import framejit as fj
from package.part import breaks, whole

def test_good(no_graph_breaks):
    fj.jit(whole)(np.ones(4))
    assert no_graph_breaks == []

def test_bad(no_graph_breaks):
    fj.jit(breaks)(np.ones(4))

@pytest.mark.usefixtures("no_graph_breaks")
def test_bad_too():
    fj.jit(breaks)(np.ones(4))

def test_own_failure_comes_first(no_graph_breaks):
    fj.jit(breaks)(np.ones(4))
    assert len(no_graph_breaks) == 0

def test_explain(framejit_explain):
    report = framejit_explain(breaks)(np.ones(4))
    assert report.result.tolist() == [2.0] * 4
    assert len(report.breaks) == 2

def test_explain_raises(framejit_explain):
    with pytest.raises(TypeError):
        framejit_explain(whole, jit_level="O1")("text")

def test_stats(framejit_stats):
    f = fj.jit(whole)
    for _ in range(3):
        f(np.ones(4))
    assert framejit_stats()["frames_captured"] == 3
    assert framejit_stats()["graph_breaks"] == 0
"""


@pytest.mark.capture
def test_fixtures(project):
    project.makepyfile(test_part=FIXTURES)
    done = run(project)
    done.assert_outcomes(passed=3, failed=4)
    done.stdout.fnmatch_lines(
        [
            "*_ test_bad _*",
            "1 graph break of marked functions:",
            "package/part.py:10:* breaks(): FJ002 *",
            "*_ test_bad_too _*",
            "*_ test_own_failure_comes_first _*",
            "*_ test_explain _*",
            "*- Captured framejit call -*",
            "breaks(): 2 graphs, 1 break; *",
        ]
    )
    done = run(project, "--framejit=off")
    done.stdout.fnmatch_lines(["framejit: *, off"])
    outcomes = done.parseoutcomes()
    assert outcomes["skipped"] == 4


@pytest.mark.capture
def test_off(project):
    project.makepyfile(
        test_part=TESTS + "\ndef test_plain(framejit_stats):\n    import framejit as fj\n    fj.jit(whole)(X)\n"
        "    assert framejit_stats()['frames_captured'] == 0\n    assert fj.Tensor\n"
    )
    done = run(project, "--framejit=off", "--framejit-packages=package")
    done.assert_outcomes(passed=3)
    done.stdout.fnmatch_lines(["compiled code ran in 0 of *"])


def test_plain_python_says_so(project, monkeypatch):
    monkeypatch.setenv("FRAMEJIT_DISABLE", "1")
    project.makepyfile(test_part=TESTS + "\ndef test_skipped(no_graph_breaks):\n    pass\n")
    done = run(project, "--framejit=mark", "--framejit-packages=package")
    done.assert_outcomes(passed=2, skipped=1)
    done.stdout.fnmatch_lines(["framejit: *; captures nothing: FRAMEJIT_DISABLE is set"])


def test_early_import_is_no_warning(project):
    """As `python -m framejit -m pytest` does, which imports framejit before pytest knows of the plugin."""
    command = [sys.executable, "-m", "framejit", "-m", "pytest", "-p", "no:cacheprovider", "test_part.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed in" in done.stdout, done.stdout
