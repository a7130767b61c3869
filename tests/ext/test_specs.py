"""Compilation before the first call, and dimensions that are symbolic from the first capture on."""

from __future__ import annotations

import gc

import framejit as fj
import numpy as np
import pytest
from ext.ext_support import same

pytestmark = pytest.mark.capture


def entries(marked):
    return [(entry["kind"], entry["hits"]) for entry in marked.cache_entries()]


def scaled(x, n):
    return x * n + x.sum(axis=0)


def test_precompile_runs_nothing():
    log = []

    def function(x, out):
        log.append(1)
        out += x
        return out

    marked = fj.jit(function, fullgraph=True)
    spec = fj.ArraySpec("float64", (4,))
    given = np.zeros(4)
    marked.precompile(spec, given)
    assert log == []
    assert not given.any()
    assert entries(marked) == [("function", 0)]
    before = fj.stats()["kernels_compiled"]
    same(np.ones(4), marked(np.ones(4), np.zeros(4)))
    assert log == [1]
    assert entries(marked) == [("function", 1)]
    assert fj.stats()["kernels_compiled"] == before


def test_precompile_with_open_dimensions():
    marked = fj.jit(scaled)
    marked.precompile(fj.ArraySpec(fj.float32, (None, 3)), 2)
    for rows in (2, 5, 64, 1000):
        x = np.random.default_rng(rows).normal(size=(rows, 3)).astype("f4")
        same(scaled(x, 2), marked(x, 2))
    assert entries(marked) == [("function", 4)]
    assert "f32[" in marked.graphs()
    marked.precompile(fj.ArraySpec(np.float32, (None, 3)), 2)  # it is there already
    assert len(entries(marked)) == 1
    marked.precompile(fj.ArraySpec("i4", (2,)), 2)
    assert len(entries(marked)) == 2


def test_precompile_of_a_function_that_breaks(capsys):
    def function(x):
        y = x * 2
        print("here", file=None)
        return y + 1

    marked = fj.jit(function)
    marked.precompile(fj.ArraySpec("f8", (3,)))
    assert capsys.readouterr().out == ""
    assert entries(marked) == [("region", 0)]
    same(function(np.ones(3)), marked(np.ones(3)))
    assert entries(marked)[0] == ("region", 1)
    whole = fj.jit(function, fullgraph=True)
    with pytest.raises(fj.GraphBreakError, match="print"):
        whole.precompile(fj.ArraySpec("f8", (3,)))
    assert capsys.readouterr().out == "here\n" * 2


def test_precompile_arguments():
    marked = fj.jit(scaled)
    with pytest.raises(TypeError, match="missing a required argument: 'n'"):
        marked.precompile(fj.ArraySpec("f8", (3,)))
    with pytest.raises(TypeError, match="'shape' must be a tuple"):
        fj.ArraySpec("f8", 3)
    with pytest.raises(TypeError, match="tuple of int or None, but got .'n', 3.. None is any length"):
        fj.ArraySpec("f8", ("n", 3))
    with pytest.raises(ValueError, match="negative length"):
        fj.ArraySpec("f8", (3, -1))
    with pytest.raises(TypeError, match="dtype"):
        fj.ArraySpec("nothing", (3,))
    assert repr(fj.ArraySpec(fj.int32, (None, 2))) == "ArraySpec('int32', (None, 2))"


def test_mark_dynamic():
    marked = fj.jit(scaled)
    x = np.ones((6, 3))
    fj.mark_dynamic(x, -2)
    before = fj.stats()["recompiles"]
    for array in (x, np.ones((9, 3)), np.ones((2, 3))):
        same(scaled(array, 2), marked(array, 2))
    assert entries(marked) == [("function", 3)]
    assert fj.stats()["recompiles"] == before
    same(scaled(np.ones((6, 4)), 2), marked(np.ones((6, 4)), 2))  # this one was not marked
    assert fj.stats()["recompiles"] == before + 1


def test_mark_dynamic_of_a_tensor():
    marked = fj.jit(lambda x: x * 2)
    x = fj.Tensor(np.ones((3, 2), "f4"))
    fj.mark_dynamic(x, (0, 1))
    for shape in ((3, 2), (5, 7)):
        argument = x if shape == (3, 2) else fj.Tensor(np.ones(shape, "f4"))
        same(fj.Tensor(np.full(shape, 2, "f4")).asnumpy(), marked(argument).asnumpy())
    assert entries(marked) == [("function", 2)]


def test_marks_die_with_their_array():
    from framejit._api import _specs

    count = len(_specs._marked)
    x = np.ones(5)
    fj.mark_dynamic(x, 0)
    assert len(_specs._marked) == count + 1
    del x
    gc.collect()
    assert len(_specs._marked) == count


def test_mark_dynamic_arguments():
    with pytest.raises(TypeError, match="'x' must be an array, but got list"):
        fj.mark_dynamic([1.0], 0)
    for dim in (2, -3):
        with pytest.raises(IndexError, match=r"\[-2, 2\), but got " + str(dim)):
            fj.mark_dynamic(np.ones((2, 2)), dim)


def test_dynamic_from_the_first_capture_on():
    def function(x, y):
        return (x + y).sum(axis=1) * 2

    specialised, marked = fj.jit(function), fj.jit(function, dynamic=True)
    rng = np.random.default_rng(0)
    before = fj.stats()["recompiles"]
    for shape in ((2, 3), (7, 5), (100, 33)):
        x, y = rng.normal(size=(2, *shape))
        same(function(x, y), marked(x, y))
    assert fj.stats()["recompiles"] == before
    assert entries(marked) == [("function", 3)]
    assert "f64[2" not in marked.graphs()
    specialised(np.ones((2, 3)), np.ones((2, 3)))
    assert "f64[2, 3]" in specialised.graphs()
