"""Breaks inside an installed package tell which line of the program led there."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import framejit as fj
from framejit._reporting._format import break_text

pytestmark = pytest.mark.capture

LIBRARY = """
def noisy(x):
    y = x * 2.0
    setattr(State, "count", 1)
    return y + outer(y)

def outer(x):
    return inner(x) * 0.5

def inner(x):
    z = x + 1.0
    eval("0")
    return z - 3.0

class State: pass
"""
X = np.linspace(0.0, 1.0, 50)


@pytest.fixture
def library(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "noisy_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(folder))
    import noisy_library

    yield noisy_library
    del sys.modules["noisy_library"]


def breaks_of(function, *args):
    for _ in range(20):
        function(*args)
    return fj.explain(function)(*args).breaks


def test_line_of_the_program(library):
    def helper(x):
        return library.outer(x)

    @fj.jit
    def f(x):
        y = x * 3.0
        return helper(y) + 1.0

    f_line = f.__wrapped__.__code__.co_firstlineno + 3
    helper_line = helper.__code__.co_firstlineno + 1
    found = [b for b in breaks_of(f, X) if b["function"] == "inner"]
    assert len(found) > 0
    for b in found:
        assert Path(b["file"]).name == "noisy_library.py"
        assert Path(b["from_file"]).name == Path(__file__).name
        assert (b["from_function"].rpartition(".")[2], b["from_line"]) in {("f", f_line), ("helper", helper_line)}
        text = break_text(b)
        assert f"{Path(__file__).name}:{b['from_line']}" in text
        assert "called from" in text
    assert np.array_equal(f(X), f.__wrapped__(X))


def test_breaks_of_callees_on_the_way(library):
    """Functions of the library that are compiled for themselves, because a function broke in them."""

    @fj.jit
    def f(x):
        return library.noisy(x) - 1.0

    line = f.__wrapped__.__code__.co_firstlineno + 2
    found = [b for b in breaks_of(f, X) if Path(b["file"]).name == "noisy_library.py"]
    assert {b["function"] for b in found} >= {"noisy", "inner"}
    assert {(b["from_function"].rpartition(".")[2], b["from_line"]) for b in found} == {("f", line)}


def test_breaks_of_the_program_itself():
    def helper(x):
        eval("0")
        return x * 2.0

    @fj.jit
    def f(x):
        return helper(x) + 1.0

    found = breaks_of(f, X)
    assert len(found) > 0
    assert not any("from_line" in b for b in found)
    assert not any("called from" in break_text(b) for b in found)


def test_report(library, tmp_path):
    @fj.jit
    def f(x):
        return library.outer(x) + 1.0

    f(X)
    fj.explain(f)(X).save(tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    line = f.__wrapped__.__code__.co_firstlineno + 2
    assert "called from" in html
    assert f"{Path(__file__).name}:{line}" in html
