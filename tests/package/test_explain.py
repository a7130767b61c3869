"""explain and its report, the logs of a real program, counters, and memory that is never writable and executable at once."""

from __future__ import annotations

import importlib.util
import os
import random
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import framejit as fj
import numpy as np
import pytest

SOURCE = """\
import os
import numpy as np

def step(x, w):
    y = x * w[None, :]
    stamp = os.getpid()
    z = np.where(y > 1, y, "<b>&".count("b"))
    return z, stamp

def whole(x):
    return np.sqrt(x) * 2 + 1
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    file = tmp_path / "program.py"
    file.write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("program", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


X = np.linspace(0.5, 4.0, 12).reshape(3, 4)


@pytest.mark.capture
def test_whole_function(program):
    report = fj.explain(program.whole)(X)
    assert np.array_equal(report.result, program.whole(X))
    assert report.error is None
    assert report.breaks == []
    assert len(report.graphs) == 1
    assert "sqrt" in report.graphs[0]
    assert report.guards
    (entry,) = report.entries
    assert (entry["kind"], entry["first_line"], entry["last_line"]) == ("function", 10, 11)
    assert entry["capture_ns"] > 0
    assert "1 graph, 0 breaks" in str(report)


@pytest.mark.capture
def test_a_loop_is_shown_without_its_blocks():
    def total(x):
        s = 0.0
        for v in x:
            s += v * v
        return s

    call = fj.explain(total)
    for _ in range(3):
        report = call(np.ones(1000))
    (entry,) = report.entries
    assert "block0()" in entry["graph"] and "block0()" not in str(report)
    assert "the loop at line" in str(report) and "Explanation.graphs has them as text" in str(report)
    assert len(str(report).splitlines()) < 20


@pytest.mark.capture
def test_break(program):
    report = fj.explain(program.step)(X, np.ones(4))
    (record,) = [record for record in report.breaks if record["line"] == 6]
    assert record["id"] == "FJ002"
    assert record["way_out"]
    assert "getpid" in record["detail"]
    assert f"program.py:6:{record['column'] + 1} step(): FJ002" in str(report)
    assert "^^^^" in str(report)
    assert "2 regions so far" in str(report)


@pytest.mark.capture
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x, f=np.random.randint: x + f(0, 5), "'randint'>"),  # a method that Cython has made
        (lambda x: np.frompyfunc(len, 1, 1)("text") + x, "numpy.frompyfunc"),
        (lambda x, f=np.frompyfunc(abs, 1, 1): f(-3) + x, "<numpy.ufunc 'abs (vectorized)'>"),
        (lambda x: x + random.random(), "Random.random"),
    ],
)
def test_breaks_name_what_is_called(function, name):
    details = [record["detail"] for record in fj.explain(function)(np.ones(3)).breaks]
    assert any(name in detail for detail in details), details


@pytest.mark.capture
def test_marked_function_is_compiled_anew_with_its_own_arguments(program):
    marked = fj.jit(program.whole, jit_level="O1")
    marked(X)
    report = fj.explain(marked)(X)
    assert len(report.graphs) == 1
    assert marked.cache_entries()[0]["hits"] == 1
    with pytest.raises(TypeError, match="its own"):
        fj.explain(marked, jit_level="O0")


@pytest.mark.capture
def test_methods(program):
    class Model:
        def method(self, x):
            return x * 2 + 1

    report = fj.explain(Model().method)(X)
    assert np.array_equal(report.result, X * 2 + 1)
    assert len(report.graphs) == 1


@pytest.mark.capture
def test_fullgraph(program):
    report = fj.explain(program.step, fullgraph=True)(X, np.ones(4))
    assert isinstance(report.error, fj.GraphBreakError)
    assert "program.py:6" in str(report.error)
    assert "GraphBreakError" in str(report)
    marked = fj.jit(program.step, fullgraph=True)
    with pytest.raises(fj.GraphBreakError) as error:
        marked(X, np.ones(4))
    for part in ("program.py:6", "FJ002", "os.getpid()", "step()"):
        assert part in str(error.value)
    assert fj.jit(program.whole, fullgraph=True)(X).shape == X.shape


def test_errors_of_the_function_are_kept(program):
    report = fj.explain(program.whole)("text")
    assert isinstance(report.error, TypeError)
    assert report.result is None


class _Checker(HTMLParser):
    """Every tag closed in order, nothing loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)
        assert tag not in ("script", "link", "iframe")
        assert not any(name in ("src", "href") and not value.startswith(("data:", "#")) for name, value in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check_html(text: str) -> None:
    parser = _Checker()
    parser.feed(text)
    parser.close()
    assert parser.open == []


@pytest.mark.capture
def test_html(program, tmp_path):
    report = fj.explain(program.step)(X, np.ones(4))
    report.save(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    check_html(text)
    assert "&lt;b&gt;&amp;" in text
    assert "<b>&" not in text
    assert re.search(r'class="broken"><i>6</i>', text)
    assert re.search(r'class="in"><i>5</i>', text)
    assert "FJ002" in text
    check_html("<div>" + report._repr_html_() + "</div>")


def test_html_escapes_names():
    from framejit._reporting._collect import FunctionReport
    from framejit._reporting._html import functions_body

    nasty = "<script>alert('x')</script>"
    record = {"id": nasty, "what": nasty, "why": nasty, "way_out": nasty, "detail": nasty, "line": 3}
    text = functions_body([FunctionReport(nasty, nasty, 1, [], [record], [])])
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )


LOGGED = """
import framejit as fj, numpy as np, program
step, whole = fj.jit(program.step), fj.jit(program.whole)
for n in (3, 3, 5, 6):
    step(np.ones((n, 4)), np.ones(4))
    whole(np.ones(n))
"""


@pytest.mark.capture
def test_logs_of_a_program(program):
    silent = run(LOGGED)
    assert (silent.stdout, silent.stderr) == ("", "")
    shown = run(LOGGED, FRAMEJIT_LOGS="graph_breaks,recompiles").stderr
    assert re.search(
        r"^framejit\.graph_breaks: program\.py:6:\d+ step\(\): FJ002 .*\n"
        r"    6 |     stamp = os\.getpid\(\)\n",
        shown,
        re.MULTILINE,
    )
    assert re.search(
        r"^framejit\.recompiles: program\.py:10 whole\(\): entry 0 did not fit, compiling entry 1\n"
        r"    guard  .* from program\.py:11  return np\.sqrt\(x\) \* 2 \+ 1\n"
        r"    was 3, is 5 +.*symbolic from now on\n",
        shown,
        re.MULTILINE,
    )
    assert shown == run(LOGGED, FRAMEJIT_LOGS="graph_breaks,recompiles").stderr
    only = run(LOGGED, FRAMEJIT_LOGS="graph,filter=^whole$").stderr
    assert "whole()" in only
    assert "step()" not in only


@pytest.mark.capture
@pytest.mark.parametrize("channel", ["guards", "graph", "kernels", "asm", "perf"])
def test_every_channel_says_something(program, channel):
    shown = run(LOGGED, FRAMEJIT_LOGS=channel).stderr
    assert shown.startswith(f"framejit.{channel}: ")
    assert "whole()" in shown


@pytest.mark.capture
def test_counters(program):
    fj.reset()
    marked = fj.jit(program.whole)
    for n in (3, 3, 5, 7):
        marked(np.ones(n))
    counted = fj.stats()
    assert counted["frames_marked"] == 4
    assert counted["frames_captured"] == 4
    assert counted["recompiles"] == 1
    assert counted["kernels_compiled"] >= 1
    assert counted["kernel_calls"] >= 4
    assert counted["compile_ns"] > 0
    assert counted["code_bytes"] > 0
    fj.reset()
    assert fj.stats()["frames_marked"] == 0


@pytest.mark.capture
def test_no_memory_is_writable_and_executable(program):
    marked = fj.jit(program.whole)
    before = fj.stats()["kernel_calls"]
    for n in range(1, 40):
        marked(np.ones(n))
    assert fj.stats()["kernel_calls"] > before
    for line in Path("/proc/self/maps").read_text().splitlines():
        permissions = line.split()[1]
        assert not ("w" in permissions and "x" in permissions), line


@pytest.mark.capture
def test_recompile_limit_warns_once():
    def f(x, flag):
        return x * 2 + len(flag)

    before = fj.config.recompile_limit
    fj.config.recompile_limit = 2
    try:
        marked = fj.jit(f)
        with pytest.warns(fj.RecompileLimitWarning, match="recompile_limit") as caught:
            for i in range(24):
                key = "a" * (i + 1)
                assert np.array_equal(marked(X, key), f(X, key))
        assert len(caught) == 1
        assert issubclass(fj.RecompileLimitWarning, fj.PerformanceWarning)
    finally:
        fj.config.recompile_limit = before


@pytest.mark.capture
def test_graph_break():
    def f(x):
        y = x * 2 + 1
        fj.graph_break("here")
        return y * 3 - 1

    report = fj.explain(f)(X)
    assert np.array_equal(report.result, f(X))
    (record,) = report.breaks
    assert record["line"] == f.__code__.co_firstlineno + 2
    assert record["id"] == "FJ016"
    assert "here" in record["detail"]


@pytest.mark.capture
def test_is_compiling():
    marked = fj.jit(lambda x: x * (3.0 if fj.is_compiling() else 2.0) + 1)
    assert np.array_equal(marked(X), X * 3.0 + 1)
    assert np.array_equal(marked.__wrapped__(X), X * 2.0 + 1)


@pytest.mark.capture
def test_large_arrays_without_the_interpreter_lock(program):
    code = """
import numpy as np, framejit as fj, program
x = np.linspace(0.0, 9.0, 3_000_000)
marked = fj.jit(program.whole)
for _ in range(3):
    assert marked(x).tobytes() == program.whole(x).tobytes()
assert fj.stats()["frames_captured"] == 3
"""
    run(code)


@pytest.mark.capture
def test_a_break_in_another_file_is_not_shown_at_a_line_of_this_one(program):
    scope = {"step": program.step}
    exec(compile("\n\n\n\n\ndef outer(x, w):\n    return step(x, w)[0] + 1\n", "outer.py", "exec"), scope)
    report = fj.explain(scope["outer"])(X, np.ones(4))
    elsewhere = [
        record for function in report.functions for record in function.breaks if record["file"] != function.file
    ]
    assert elsewhere
    assert f", at {elsewhere[0]['file'].rpartition('/')[2]}:" in report._repr_html_()
