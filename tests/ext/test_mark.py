"""Marking code objects in place."""

from __future__ import annotations

import framejit
import numpy as np
import pytest
from ext.ext_support import errors, same
from framejit import _core

pytestmark = pytest.mark.capture

X = np.arange(6, dtype=np.float64).reshape(2, 3)


def run(mark_code, call, times=3):
    code = mark_code.__code__
    assert _core.mark_code(code, {})
    try:
        return [call() for _ in range(times)], _core.code_report(code)
    finally:
        _core.unmark_code(code)


def test_whole_calls():
    def function(x):
        return x * 2 + 1

    before = errors()
    results, report = run(function, lambda: function(X))
    for result in results:
        same(X * 2 + 1, result)
    assert len(report["entries"]) == 1 and report["entries"][0]["hits"] == 3
    assert not _core.hook_installed()
    assert errors() == before


def test_breaks(capsys):
    def function(x):
        y = x * 2
        print("between")
        return y + 1

    results, report = run(function, lambda: function(X))
    for result in results:
        same(X * 2 + 1, result)
    assert report["spliced"] and len(report["entries"]) == 2
    assert capsys.readouterr().out == "between\n" * 3


def test_closures_of_one_code_object():
    def make(scale):
        def function(x):
            return x * scale

        return function

    functions = [make(scale) for scale in (2.0, 3.0, X)]
    code = functions[0].__code__
    _core.mark_code(code, {})
    try:
        for _ in range(3):
            for function, scale in zip(functions, (2.0, 3.0, X)):
                same(X * scale, function(X))
    finally:
        _core.unmark_code(code)


def test_generators_in_place():
    def generate(x):
        for i in range(3):
            yield x * i

    results, _ = run(generate, lambda: list(generate(X)))
    for result in results:
        same([X * 0, X * 1, X * 2], result)


def test_discovery():
    def wanted(x):
        return x * 2

    def other(x):
        return x * 3

    asked = []

    def discover(function, code):
        asked.append(code)
        return {} if code is wanted.__code__ else None

    _core.set_discover(discover)
    try:
        for _ in range(3):
            same(X * 2, wanted(X))
            same(X * 3, other(X))
    finally:
        _core.set_discover(None)
    assert asked.count(wanted.__code__) == 1 and asked.count(other.__code__) == 1
    assert _core.code_report(wanted.__code__)["entries"]
    assert _core.code_report(other.__code__) is None
    _core.unmark_code(wanted.__code__)
    assert not _core.hook_installed()


def test_mark_of_the_package():
    def function(x):
        return x - 1

    before = framejit.stats()["frames_captured"]
    with framejit.mark(function):
        for _ in range(3):
            same(X - 1, function(X))
    assert framejit.stats()["frames_captured"] == before + 3


def test_marked_code_dies_with_its_functions():
    import gc
    import weakref

    namespace = {}
    exec("def function(x):\n    y = x * 2\n    str(y)\n    return y + 1", namespace)
    function = namespace.pop("function")
    _core.mark_code(function.__code__, {})
    for _ in range(3):
        same(X * 2 + 1, function(X))
    reference = weakref.ref(function.__code__)
    del function
    gc.collect()
    assert reference() is None
