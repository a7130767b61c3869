"""The text of events, as logs and reports show it, and the channels of FRAMEJIT_LOGS."""

from __future__ import annotations

import logging
import textwrap

import framejit as fj
import pytest
from framejit._reporting import _events
from framejit._reporting import _logs
from framejit._reporting._format import break_text, plain_text, recompile_text

SOURCE = "def step(x, w):\n    y = x * w[None, :]\n    stamp = datetime.now()\n    return y, stamp\n"


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "sim.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "sim.py")


def break_record(file: str) -> dict:
    return {
        "id": "FJ002",
        "name": "UnknownCallable",
        "what": "call of a C function that is not known to be pure",
        "why": "its result and its effects can only be had by calling it",
        "way_out": "move it before or after the work with arrays, or declare it with framejit.custom_op if it is pure",
        "detail": "'datetime.now'",
        "function": "step",
        "file": file,
        "line": 3,
        "column": 12,
        "end_column": 26,
        "regions": 2,
    }


def test_break(program):
    assert break_text(break_record(program)) == textwrap.dedent(
        """\
        sim.py:3:13 step(): FJ002 call of a C function that is not known to be pure: 'datetime.now'
            3 |     stamp = datetime.now()
              |             ^^^^^^^^^^^^^^
            2 regions around it stay compiled; move it before or after the work with arrays, or declare it with framejit.custom_op if it is pure. Docs: python -m framejit docs FJ002"""
    )


def test_break_without_source_and_regions():
    record = break_record("<stdin>")
    del record["regions"]
    lines = break_text(record).splitlines()
    assert lines[0].startswith("<stdin>:3:13 step(): FJ002 ")
    assert lines[1:] == [
        "    move it before or after the work with arrays, or declare it with framejit.custom_op if it is pure. Docs: python -m framejit docs FJ002"
    ]


def test_break_columns_are_bytes(tmp_path):
    file = tmp_path / "wide.py"
    file.write_text("é = now()\n", encoding="utf-8")
    record = {**break_record(str(file)), "line": 1, "column": 5, "end_column": 10}
    lines = break_text(record).splitlines()
    assert lines[1].split("| ")[1] == "é = now()"
    assert lines[2].split("| ")[1] == "    ^^^^^"


def test_recompile(program):
    record = {
        "function": "step",
        "file": program,
        "line": 1,
        "entry": 0,
        "new_entry": 1,
        "guard": "x.shape[0] == 64",
        "guard_line": 2,
        "expected": "64",
        "found": "96",
        "becomes": "the dimension is symbolic from now on",
    }
    assert recompile_text(record) == textwrap.dedent(
        """\
        sim.py:1 step(): entry 0 did not fit, compiling entry 1
            guard  x.shape[0] == 64        from sim.py:2  y = x * w[None, :]
            was 64, is 96                  the dimension is symbolic from now on"""
    )


def test_other_events(program):
    text = plain_text({"function": "step", "file": program, "line": 1, "text": "a\nb", "entry": 0})
    assert text == "sim.py:1 step(): entry=0\n    a\n    b"


def test_tokens():
    wanted = _logs.parse("graph_breaks, recompiles,filter=^step$,dir=/somewhere")
    assert wanted.channels == ("graph_breaks", "recompiles")
    assert wanted.pattern is not None
    assert wanted.pattern.search("step")
    assert str(wanted.folder) == "/somewhere"
    assert _logs.parse("all").channels == tuple(_events.CHANNELS)
    assert _logs.parse("") == ((), None, None)


@pytest.mark.parametrize("text", ["graphs", "graph_breaks,nothing", "filter=(", "dir"])
def test_wrong_tokens(text):
    with pytest.raises(ValueError, match="graph_breaks|regular expression"):
        _logs.parse(text)
    before = fj.config.logs
    with pytest.raises(ValueError):
        fj.config.logs = text
    assert fj.config.logs == before


def test_help_lists_every_token(capsys):
    _logs.parse("help")
    shown = capsys.readouterr().err
    assert all(token in shown for token in _logs.TOKENS)


@pytest.fixture
def logs_off():
    yield
    fj.config.logs = ""


def emit(channel: str, record: dict) -> None:
    """What the compiled half does."""
    _events._dispatch(channel, record)


def test_channel_goes_to_its_logger(program, logs_off, caplog):
    fj.config.logs = "graph_breaks"
    emit("graph_breaks", break_record(program))
    emit("recompiles", {"function": "step"})
    assert [record.name for record in caplog.records] == ["framejit.graph_breaks"]
    assert caplog.records[0].levelno == logging.INFO
    assert "FJ002" in caplog.text
    fj.config.logs = ""
    emit("graph_breaks", break_record(program))
    assert len(caplog.records) == 1


def test_filter(program, logs_off, caplog):
    fj.config.logs = "graph_breaks,filter=^other$"
    emit("graph_breaks", break_record(program))
    emit("graph_breaks", {**break_record(program), "function": "other"})
    assert len(caplog.records) == 1


def test_folder(program, tmp_path, logs_off):
    fj.config.logs = f"graph_breaks,dir={tmp_path / 'logs'}"
    emit("graph_breaks", break_record(program))
    fj.config.logs = ""
    text = (tmp_path / "logs" / "graph_breaks.log").read_text()
    assert text == "framejit.graph_breaks: " + break_text(break_record(program)) + "\n"


def test_listeners_are_independent(program):
    first: list = []
    second: list = []
    stop_first = _events.listen(lambda channel, record: first.append(channel), ["graph_breaks"])
    stop_second = _events.listen(lambda channel, record: second.append(channel), ["graph_breaks", "graph"])
    emit("graph_breaks", break_record(program))
    emit("graph", {})
    stop_first()
    emit("graph", {})
    stop_second()
    emit("graph", {})
    assert (first, second) == (["graph_breaks"], ["graph_breaks", "graph", "graph"])
