"""python -m framejit: scripts and modules run as ever, and are compiled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import framejit
import pytest
from framejit._reporting._format import duration, with_micro_sign

SCRIPT = """\
import sys
import numpy as np

def work(x):
    y = x * 2 + 1
    print("sum", y.sum())
    return y - 1

if __name__ == "__main__":
    for _ in range(3):
        work(np.arange(4.0))
    print(__name__, __file__, sys.argv, sys.path[0], sys.modules["__main__"].work is work)
    if "raise" in sys.argv:
        raise ValueError("asked for")
    if "exit" in sys.argv:
        sys.exit(7)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("from package.part import f\nimport sys\nprint(f(3), sys.argv[1:])\n")
    (package / "part.py").write_text("def f(x):\n    return x + 1\n")
    return tmp_path


def run(folder, *arguments, expect=0):
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == expect, done.stderr
    return done


OWN_MARKS = """
import framejit as fj
import numpy as np

def f(x):
    for i in range(int(x.sum())):
        x = x + 1.0
    return x

marked = fj.jit(f)
for n in range(2, 7):
    marked(np.ones(n))
explanation = fj.explain(marked)(np.ones(7))
print([(b["id"], b["detail"]) for b in explanation.breaks])
print([function.name for function in explanation.functions])
"""


def test_what_a_program_marks_itself_is_compiled_once(folder):
    (folder / "own.py").write_text(OWN_MARKS)
    plain = run(folder, "own.py")
    assert plain.stdout.startswith("[('FJ003', 'range()')]\n")
    assert run(folder, "-m", "framejit", "own.py").stdout == plain.stdout


def test_script_runs_as_without(folder):
    plain = run(folder, "script.py", "a", "--mark", "b")
    ours = run(folder, "-m", "framejit", "script.py", "a", "--mark", "b")
    assert ours.stdout == plain.stdout


@pytest.mark.parametrize("way", [["-m", "package"], ["-mpackage"]])
def test_module_runs_as_without(folder, way):
    plain = run(folder, "-m", "package", "x", "-m", "y")
    ours = run(folder, "-m", "framejit", *way, "x", "-m", "y")
    assert ours.stdout == plain.stdout == "4 ['x', '-m', 'y']\n"


def test_traceback_is_the_scripts_own(folder):
    plain = run(folder, "script.py", "raise", expect=1)
    ours = run(folder, "-m", "framejit", "script.py", "raise", expect=1)
    assert ours.stdout == plain.stdout
    assert ours.stderr.endswith(plain.stderr)


def test_exit_status(folder):
    assert run(folder, "-m", "framejit", "script.py", "exit", expect=7).stdout


@pytest.mark.capture
def test_a_report_of_a_program_that_closes_its_streams(folder):
    (folder / "closes.py").write_text("import sys\nsys.stderr.close()\nprint(1)\nsys.stdout.close()\n")
    run(folder, "-m", "framejit", "--report", "out", "closes.py")
    assert (folder / "out" / "report.html").exists()


@pytest.mark.capture
def test_counters_and_report(folder):
    done = run(folder, "-m", "framejit", "--stats-file", "stats.json", "--report", "out", "script.py")
    counted = json.loads((folder / "stats.json").read_text())
    assert counted["frames_marked"] == 3
    assert counted["frames_captured"] >= 1
    assert counted["internal_errors"] == 0
    report = json.loads((folder / "out" / "report.json").read_text())
    (work,) = [f for f in report["functions"] if f["name"] == "work"]
    assert work["line"] == 4
    assert work["entries"]
    assert work["breaks"][0]["line"] == 6
    assert report["summary"].endswith(f"compiling took {duration(counted['compile_ns'])}")
    (line,) = done.stderr.splitlines()
    assert line.startswith("framejit: ") and line.endswith(f"{report['summary']}; see {Path('out', 'report.html')}")
    text = (folder / "out" / "report.html").read_text()
    assert "work()" in text
    summary = with_micro_sign(report["summary"])
    assert f"<p>{summary[0].upper()}{summary[1:]}.</p>" in text
    assert f'<td class="n">{with_micro_sign(duration(counted["compile_ns"]))}</td>' in text
    assert "&quot;sum&quot;" in text
    assert "compile_ns" not in text
    assert "<h1>script.py</h1>" in text


@pytest.mark.capture
@pytest.mark.parametrize(
    "options",
    [
        ["explain", "script.py"],
        ["explain", "--jit-level", "O1", "script.py"],
        ["--report", "out", "explain", "script.py"],
    ],
)
def test_explain(folder, options):
    plain = run(folder, "script.py", "a")
    done = run(folder, "-m", "framejit", *options, "a")
    assert done.stdout.startswith(plain.stdout)
    first, _, *lines = done.stdout.removeprefix(plain.stdout).splitlines()
    assert re.fullmatch(r"framejit: .*; compiling took .*", first)
    assert lines[0] == "work()  script.py:4"
    assert "  script.py:6:5 work(): FJ010 an effect that others can see at once: print" in lines
    assert '      6 |     print("sum", y.sum())' in lines
    assert any(line.startswith("  entry 0: ") for line in lines)
    assert "graph @" not in done.stdout
    assert (folder / "out" / "report.html").exists() == ("--report" in options) == bool(done.stderr)


@pytest.mark.capture
def test_explain_of_a_module_and_of_a_program_that_fails(folder):
    done = run(folder, "-m", "framejit", "explain", "--mark", "package.*", "-m", "package", "x")
    assert done.stdout.startswith("4 ['x']\nframejit: ")
    assert "\n\nf()  package/part.py:1\n  not compiled: it does no work with arrays\n" in done.stdout
    done = run(folder, "-m", "framejit", "explain", "script.py", "raise", expect=1)
    assert "work()  script.py:4" in done.stdout
    assert done.stderr.endswith("ValueError: asked for\n")


def test_a_script_named_explain(folder):
    (folder / "explain").write_text("print('own')\n")
    assert run(folder, "-m", "framejit", "explain").stdout.startswith("own\n")


@pytest.mark.capture
def test_level_and_pattern(folder):
    counted = {}
    for pattern in ("package.*", "nothing"):
        run(folder, "-m", "framejit", "--mark", pattern, "--jit-level", "O1", "--stats-file", "s.json", "-m", "package")
        counted[pattern] = json.loads((folder / "s.json").read_text())["frames_marked"]
    assert counted == {"package.*": 1, "nothing": 0}


TOP = "import sys\nimport numpy as np\nprint((np.arange(3.0) + 1).sum())\n"


@pytest.mark.capture
@pytest.mark.parametrize(
    ("code", "options", "said"),
    [
        (TOP, [], "nothing was compiled: the program called no function of its own"),
        (TOP + "sys.exit(0)\n", [], "put it into a function"),
        (SCRIPT, ["--mark", "typo.*"], "no function in a module named 'typo.*' was called"),
        (SCRIPT, [], ""),
    ],
)
def test_a_program_without_functions_to_compile_is_told_so(folder, code, options, said):
    (folder / "top.py").write_text(code)
    error = run(folder, "-m", "framejit", *options, "top.py").stderr
    assert (said in error) if said else not error
    assert len(error.splitlines()) == bool(said)


def test_a_program_that_fails_is_told_nothing_else(folder):
    (folder / "top.py").write_text("raise ValueError\n")
    assert "nothing was compiled" not in run(folder, "-m", "framejit", "top.py", expect=1).stderr


def test_info(folder):
    shown = run(folder, "-m", "framejit", "info").stdout
    for part in ("framejit: ", "numpy: ", "capture: ", "recompile_limit: 8"):
        assert part in shown


def test_version(folder):
    assert run(folder, "-m", "framejit", "--version").stdout == f"framejit {framejit.__version__}\n"


@pytest.mark.parametrize("arguments", [["info"], pytest.param(["docs", "FJ010"], marks=pytest.mark.capture)])
def test_a_reader_may_stop(folder, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "framejit", *arguments]
    done = subprocess.run(command, cwd=folder, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.capture
def test_docs(folder):
    (folder / "docs").mkdir()
    for name in ("FJ010", "fj010"):
        lines = run(folder, "-m", "framejit", "docs", name).stdout.splitlines()
        assert lines[0] == "FJ010 UserEffect"
        assert lines[1].startswith("An effect that others can see at once: ")
        assert '        print("called")' in lines
        assert lines[-1] == "Way out: move it before or after the work with arrays."
    listed = run(folder, "-m", "framejit", "docs").stdout.splitlines()
    assert [line.split()[0] for line in listed] == [f"FJ{number:03d}" for number in range(1, len(listed) + 1)]
    assert "there is no reason 'FJ999'" in run(folder, "-m", "framejit", "docs", "FJ999", expect=2).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a script or -m MODULE is needed"),
        (["nothing.py"], "there is no file 'nothing.py'"),
        (["--jit-level", "O5", "script.py"], "--jit-level"),
        (["--nothing", "script.py"], "--nothing"),
    ],
)
def test_usage_errors(folder, arguments, message):
    assert message in run(folder, "-m", "framejit", *arguments, expect=2).stderr


def test_stats_file_variable(folder, monkeypatch):
    monkeypatch.setenv("FRAMEJIT_STATS_FILE", str(folder / "at_exit.json"))
    run(folder, "-c", "import framejit")
    counted = json.loads((folder / "at_exit.json").read_text())
    assert counted["internal_errors"] == 0
    assert set(counted) >= {"frames_marked", "graph_breaks", "kernel_calls", "peak_buffer_bytes"}


@pytest.mark.capture
def test_stress(folder):
    plain = run(folder, "-m", "framejit", "--stats-file", "plain.json", "script.py")
    stressed = run(folder, "-m", "framejit", "--stress", "rewrite,break=2", "--stats-file", "s.json", "script.py")
    assert stressed.stdout == plain.stdout
    counted = [json.loads((folder / name).read_text())["graph_breaks"] for name in ("plain.json", "s.json")]
    assert counted[1] > counted[0]
    wrong = run(folder, "-m", "framejit", "--stress", "fast", "script.py", expect=2)
    assert "'stress' must be a comma list of" in wrong.stderr and "'fast'" in wrong.stderr
    assert wrong.stdout == ""
