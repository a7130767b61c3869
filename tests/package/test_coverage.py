"""coverage.py sees every line of marked code, and the compiled code is back behind it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import coverage
import numpy as np
import pytest

import framejit

pytestmark = pytest.mark.capture

PROGRAM = """
import gc

def whole(x):
    y = x * 2
    z = y + 1
    return z

def broken(x, n):
    y = x * 2
    gc.isenabled()
    for i in range(n):
        y = y + i
        if i == 2:
            gc.isenabled()
            continue
        y = y * 0.5
    try:
        y = y + 1
        raise KeyError(n)
    except KeyError:
        y = y - 1
    return y

def items(x):
    y = x + 1
    yield y
    z = y * 2
    yield z

def program(x):
    out = [whole(x), broken(x, 4), broken(x, 1)]
    for item in items(x):
        out.append(item)
    return out
"""
X = np.linspace(0.0, 1.0, 5)


def load(path: Path) -> ModuleType:
    path.write_text(PROGRAM)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def covered(module: ModuleType, **options: bool) -> tuple[list[int], list[tuple[int, int]]]:
    """Lines, and arcs where they are asked for."""
    measured = coverage.Coverage(data_file=None, config_file=False, include=[module.__file__], **options)
    measured.start()
    try:
        module.program(X)
    finally:
        measured.stop()
    data = measured.get_data()
    return sorted(data.lines(module.__file__)), sorted(data.arcs(module.__file__) or [])


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("branch", [False, True])
def test_lines_of_marked_code_are_covered(tmp_path, in_place, branch):
    plain, marked = load(tmp_path / "plain.py"), load(tmp_path / "marked.py")
    expected = [item.tolist() for item in plain.program(X)]
    handle = framejit.mark(marked) if in_place else None
    if not in_place:
        for name in ("whole", "broken", "items"):
            setattr(marked, name, framejit.jit(getattr(marked, name)))

    def captured() -> int:
        before = framejit.stats()["frames_captured"]
        assert [item.tolist() for item in marked.program(X)] == expected
        return framejit.stats()["frames_captured"] - before

    try:
        for _ in range(3):
            compiled = captured()
        assert compiled >= 3
        assert covered(marked, branch=branch) == covered(plain, branch=branch)
        assert captured() == compiled
    finally:
        if handle:
            handle.close()
