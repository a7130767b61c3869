"""Traces, names for perf, bytecode beside its replacement, histories of recompilation, reports for terminals."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys

import framejit as fj
import numpy as np
import pytest

pytestmark = pytest.mark.capture


def run(code: str, folder, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def spans(file):
    return [event for event in json.loads(file.read_text())["traceEvents"] if event["ph"] == "X"]


def test_trace(tmp_path):
    def traced_function(x, y):
        return np.sort(x * 2 + y)

    marked = fj.jit(traced_function)
    x = np.ones(10)
    with fj.trace(tmp_path / "t.json") as handle:
        marked(x, x)
        with pytest.raises(RuntimeError, match="t.json already"):
            fj.trace(tmp_path / "other.json")
        marked(x, x)
    handle.close()
    found = spans(tmp_path / "t.json")
    categories = [span["cat"] for span in found]
    assert categories.count("compile") == 2 * len(marked.cache_entries())
    assert categories.count("run") == sum(entry["hits"] for entry in marked.cache_entries()) == 2
    assert categories.count("kernel") >= 2
    assert {span["name"] for span in found if span["cat"] == "run"} == {traced_function.__qualname__}
    for span in found:
        assert span["dur"] >= 0
        assert span["pid"] == os.getpid()
    capture, kernel = (next(s for s in found if s["cat"] == cat) for cat in ("capture", "kernel"))
    assert capture["ts"] + capture["dur"] <= kernel["ts"]
    marked(x, x)
    with fj.trace(tmp_path / "empty.json"):
        pass
    assert spans(tmp_path / "empty.json") == []


def test_trace_shows_threads(tmp_path):
    marked = fj.jit(lambda x: np.exp(x) * 2)
    x = np.zeros(4_000_000)
    marked(x)
    with fj.trace(tmp_path / "t.json"):
        marked(x)
    document = json.loads((tmp_path / "t.json").read_text())
    names = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["ph"] == "M"}
    assert {s["tid"] for s in spans(tmp_path / "t.json")} == set(names)
    assert "main" in names.values()


def test_trace_of_a_process(tmp_path):
    code = "import framejit as fj, numpy as np; fj.jit(lambda x: x * 2)(np.ones(3)); print(fj.config.trace)"
    assert run(code, tmp_path, FRAMEJIT_TRACE="t.json").strip() == "t.json"
    assert {"capture", "compile", "run", "kernel"} <= {span["cat"] for span in spans(tmp_path / "t.json")}


PERF = """
import os, framejit as fj, numpy as np
f = fj.jit(lambda x: x * 2 + 1)
f(np.ones(3))
print(os.getpid(), f._report()["entries"][0]["kernels"][0]["name"], f._report()["entries"][0]["kernels"][0]["bytes"])
"""


def test_perf_map(tmp_path):
    pid, name, size = run(PERF, tmp_path, FRAMEJIT_PERF="map").split()
    file = f"/tmp/perf-{pid}.map"
    try:
        with open(file) as lines:
            rows = [line.split() for line in lines]
    finally:
        os.unlink(file)
    assert [row[2] for row in rows] == [f"framejit::{name}"]
    assert int(rows[0][1], 16) == int(size)
    assert int(rows[0][0], 16) % 64 == 0


LOOP = """
import os, framejit as fj, numpy as np

@fj.jit
def spread(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * x[i]
    return total

for _ in range(9):
    spread(np.ones(1000))
print(os.getpid())
"""


def test_perf_map_of_a_loop(tmp_path):
    (pid,) = run(LOOP, tmp_path, FRAMEJIT_PERF="map").split()
    file = f"/tmp/perf-{pid}.map"
    try:
        with open(file) as lines:
            names = [line.split()[2] for line in lines]
    finally:
        os.unlink(file)
    assert "framejit::spread" in names


def test_jitdump(tmp_path):
    pid, name, size = run(PERF, tmp_path, FRAMEJIT_PERF="jitdump").split()
    data = (tmp_path / f"jit-{pid}.dump").read_bytes()
    magic, version, header_size, machine, _, owner = struct.unpack_from("6I", data)
    assert (magic, version, header_size, machine, owner) == (0x4A695444, 1, 40, 62, int(pid))
    kind, total, _, owner, _, _, address, code_size, index = struct.unpack_from("<IIQIIQQQQ", data, 40)
    assert (kind, owner, code_size, index) == (0, int(pid), int(size), 0)
    assert 40 + total == len(data)
    assert data[40 + 56 :].startswith(f"framejit::{name}\0".encode())
    assert len(data) - 40 - 56 - len(f"framejit::{name}") - 1 == int(size)


def test_perf_takes_two_words():
    with pytest.raises(ValueError, match="'', 'map' or 'jitdump', not 'gdb'"):
        fj.config.perf = "gdb"
    assert fj.config.perf == ""


def breaks(x, out):
    y = x * 2
    out.append(str(y))
    return y + 1


def test_bytecode_stands_beside_what_runs():
    report = fj.explain(breaks)(np.ones(3), [])
    rows = report.bytecode.splitlines()
    import dis

    names = [i.opname for i in dis.get_instructions(breaks) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    table = [(row[: rows[0].index("in its place")], row[rows[0].index("in its place") :]) for row in rows[1:]]
    both = [(left.split(), right.split()) for left, right in table if left.strip()]
    assert len(both) == len(names)
    for (left, right), name in zip(both, names):
        assert name in left
        assert name in right  # every instruction of the user is there, in its place
    assert report.bytecode.count("<region>") == report.functions[0].to_dict()["bytecode"].count("<region>") > 1
    assert "bytecode" not in str(report)
    assert report.bytecode.splitlines()[1].strip() in report.text(bytecode=True)
    assert "&lt;region&gt;" in report._repr_html_()
    assert fj.explain(lambda x: x * 2)(np.ones(3)).bytecode == ""


def test_history_of_recompilations():
    def grows(x):
        return x * 2 + 1

    call = fj.explain(grows)
    assert call(np.ones(3)).recompiles == []
    report = call(np.ones(5))
    assert [(r["entry"], r["new_entry"], r["found"]) for r in report.recompiles] == [(0, 1, "5")]
    assert call(np.ones(6)).recompiles == report.recompiles
    report = call(np.ones(6, "i4"))
    assert [r["new_entry"] for r in report.recompiles] == [1, 2]
    for text in (str(report), report._repr_html_()):
        assert "compiling entry 2" in text
        assert "entry 2" in text
    assert len(report.guards) == sum(len(entry["guards"]) for entry in report.entries)


def test_way_out_is_in_every_report():
    report = fj.explain(breaks)(np.ones(3), [])
    ways = {record["way_out"] for record in report.breaks}
    assert ways
    from html import escape

    for way in ways:
        assert way in str(report)
        assert escape(way) in report._repr_html_()
    assert "Way out:" in report._repr_html_()


def test_show(capsys):
    report = fj.explain(breaks)(np.ones(3), [])
    report.show()
    assert capsys.readouterr().out == f"{report}\n"
    report.show(bytecode=True)
    assert "<region>" in capsys.readouterr().out


@pytest.fixture
def rich(monkeypatch):
    try:
        import rich  # noqa: F401
    except ImportError:
        pytest.importorskip("pip._vendor.rich")
        for name in ("rich", "rich.console", "rich.panel", "rich.text"):
            module = pytest.importorskip(name.replace("rich", "pip._vendor.rich", 1))
            monkeypatch.setitem(sys.modules, name, module)


def test_colors_that_the_environment_asks_for(rich, monkeypatch, capsys):
    """Not only on a terminal."""
    report = fj.explain(breaks)(np.ones(3), [])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for value, colored in (("1", True), ("", False)):
        monkeypatch.setenv("FORCE_COLOR", value)
        report.show()
        assert ("\x1b[31m" in capsys.readouterr().out) == colored
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    report.show()
    assert "\x1b[31m" not in capsys.readouterr().out


def test_rich(rich):
    report = fj.explain(breaks)(np.ones(3), [])
    from rich.console import Console

    console = Console(width=160, force_terminal=True, color_system="standard", file=open(os.devnull, "w"), record=True)
    console.print(report)
    text = console.export_text(styles=True)
    assert "\x1b[31m" in text
    assert "FJ002" in text or "FJ0" in text
    assert "graph @breaks" in text
