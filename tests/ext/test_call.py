"""The callable: binding, attributes, methods, pickling, weak references, lifetime."""

from __future__ import annotations

import gc
import inspect
import pickle
import sys
import threading
import weakref

import framejit
import numpy as np
import pytest
from ext.ext_support import compiled, errors, hits, same

pytestmark = pytest.mark.capture


def plain(a, b, c):
    return a * b + c


def defaults(a, b=2.0, /, c=3.0, *, d=4.0):
    return a * b + c - d


def stars(a, *rest, scale=2.0, **named):
    return a * scale + len(rest) + len(named)


def keyword_only(a, *, b, c=1.0):
    return a * b + c


@framejit.jit
def module_level(x):
    """Twice x."""
    return x * 2


X = np.arange(6, dtype=np.float32).reshape(2, 3)
CALLS = [
    (plain, (X, X, X), {}),
    (plain, (X, X), {"c": X}),
    (plain, (), {"b": X, "a": X, "c": X}),
    (defaults, (X,), {}),
    (defaults, (X, X), {}),
    (defaults, (X, X, X), {"d": X}),
    (defaults, (X,), {"c": X}),
    (stars, (X,), {}),
    (stars, (X, 1, 2), {"scale": 3.0, "other": 1}),
    (stars, (X, X), {"k": X}),
    (keyword_only, (X,), {"b": X}),
    (keyword_only, (X,), {"c": X, "b": X}),
]


@pytest.mark.parametrize(("function", "args", "keywords"), CALLS)
def test_binding(function, args, keywords):
    before = errors()
    marked = compiled(function)
    for _ in range(3):
        same(function(*args, **keywords), marked(*args, **keywords))
    assert hits(marked) >= 2
    assert errors() == before


BAD_CALLS = [
    (plain, (X, X), {}),
    (plain, (X, X, X, X), {}),
    (plain, (X, X, X), {"c": X}),
    (plain, (X, X, X), {"zz": X}),
    (defaults, (X,), {"b": X}),
    (keyword_only, (X,), {}),
    (keyword_only, (X, X), {}),
    (stars, (), {}),
]


@pytest.mark.parametrize(("function", "args", "keywords"), BAD_CALLS)
def test_binding_errors_are_pythons(function, args, keywords):
    with pytest.raises(TypeError) as expected:
        function(*args, **keywords)
    with pytest.raises(TypeError) as actual:
        compiled(function)(*args, **keywords)
    assert str(actual.value) == str(expected.value)


def test_changed_defaults_count():
    def function(x, y=2.0):
        return x * y

    marked = compiled(function)
    same(function(X), marked(X))
    function.__defaults__ = (5.0,)
    same(function(X), marked(X))
    assert marked(X)[1, 2] == 25.0


def test_changed_code_counts():
    def function(x):
        return x * 2

    def other(x):
        return x * 3

    marked = compiled(function)
    marked(X)
    function.__code__ = other.__code__
    same(X * 3, marked(X))


def test_attributes():
    assert module_level.__name__ == "module_level"
    assert module_level.__qualname__ == "module_level"
    assert module_level.__doc__ == "Twice x."
    assert module_level.__module__ == __name__
    assert str(inspect.signature(module_level)) == "(x)"
    assert inspect.getsource(module_level).startswith("@framejit.jit")
    assert module_level.__wrapped__(X)[0, 1] == 2
    assert "module_level" in repr(module_level)
    module_level.note = 1
    assert module_level.__dict__["note"] == 1
    del module_level.note


def test_pickle_by_reference():
    assert pickle.loads(pickle.dumps(module_level)) is module_level


def test_methods():
    class Model:
        def __init__(self, weight):
            self.weight = weight

        @framejit.jit
        def forward(self, x):
            return x * self.weight + 1

        @staticmethod
        @framejit.jit
        def fixed(x):
            return x * 2

        @classmethod
        @framejit.jit
        def of_class(cls, x):
            return x * 3

    for weight in (X, X + 1):
        model = Model(weight)
        for _ in range(2):
            same(X * weight + 1, model.forward(X))
            same(X * weight + 1, Model.forward(model, X))
    bound = model.forward
    same(X * model.weight + 1, bound(X))
    same(X * 2, Model.fixed(X))
    same(X * 2, model.fixed(X))
    same(X * 3, Model.of_class(X))
    assert Model.forward.__qualname__.endswith("Model.forward")


def test_attribute_changes_are_seen():
    class Model:
        scale = 2.0

    model = Model()

    def function(x):
        return x * model.scale

    marked = compiled(function)
    for value in (None, 3.0, 4.5):
        if value is not None:
            model.scale = value
        for _ in range(2):
            same(function(X), marked(X))
    del model.scale
    same(function(X), marked(X))
    Model.scale = 7.0
    same(function(X), marked(X))
    Model.scale = property(lambda self: 8.0)
    same(function(X), marked(X))


GLOBAL_SCALE = 2.0


def test_global_changes_are_seen(monkeypatch):
    def function(x):
        return x * GLOBAL_SCALE

    marked = compiled(function)
    for value in (2.0, 3.0, 3, np.float32(4)):
        monkeypatch.setitem(globals(), "GLOBAL_SCALE", value)
        for _ in range(2):
            same(function(X), marked(X))


def test_closure_changes_are_seen():
    scale = 2.0

    def function(x):
        return x * scale

    marked = compiled(function)
    same(X * 2.0, marked(X))
    scale = 3.0
    same(X * 3.0, marked(X))


def test_weak_references_and_collection():
    def make():
        def function(x):
            return x * 2

        marked = compiled(function)
        marked(X)
        function.self = marked  # a cycle through the function
        return weakref.ref(marked)

    reference = make()
    gc.collect()
    assert reference() is None


def test_arguments_die_after_the_call():
    marked = compiled(lambda x: x * 2 + x)
    for _ in range(2):
        x = np.ones(5)
        reference = weakref.ref(x)
        marked(x)
        del x
        assert reference() is None


def test_no_leaks():
    marked = compiled(plain)
    returning = compiled(lambda x: {"a": (x + 1, [x * 2]), "b": float(x.sum()), "c": x[1:]})
    calls = [lambda: marked(X, X, X), lambda: returning(X), lambda: marked(X, X, c=X)]
    for call in calls:
        for _ in range(100):
            call()
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(10_000):
            call()
        gc.collect()
        assert abs(sys.getallocatedblocks() - before) < 200


def test_threads_call_first_at_once():
    def function(x, y):
        return x * y + np.sqrt(x)

    expected = function(X, X)
    for _ in range(5):
        marked = compiled(function)
        start = threading.Barrier(8)
        failures = []

        def work(marked=marked, start=start, failures=failures):
            start.wait()
            for _ in range(200):
                if not np.array_equal(marked(X, X), expected):
                    failures.append(1)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def test_recursion_and_reentry():
    @framejit.jit
    def down(x, n):
        if n == 0:
            return x
        return down(x + 1, n - 1) * 2

    def plain_down(x, n):
        return x if n == 0 else plain_down(x + 1, n - 1) * 2

    for n in (0, 1, 5, 30):
        same(plain_down(X, n), down(X, n))


def test_under_a_tracer_the_users_code_runs():
    marked = compiled(plain)
    marked(X, X, X)
    lines = []

    def trace(frame, event, argument):
        if frame.f_code is plain.__code__:
            lines.append(event)
        return trace

    sys.settrace(trace)
    try:
        marked(X, X, X)
    finally:
        sys.settrace(None)
    assert "line" in lines


def events_seen(function, args, scope):
    """The events in function() and callee() that a tool of sys.monitoring sees in a call."""
    monitoring = sys.monitoring
    kinds = monitoring.events
    tool, seen = monitoring.DEBUGGER_ID, []
    wanted = [kinds.PY_START, kinds.LINE, kinds.CALL, kinds.PY_RETURN]

    def callback(event):
        def see(code, *rest):
            if code.co_filename == __file__ and code.co_name in ("function", "callee"):
                seen.append((event, code.co_name, *(repr(each) for each in rest)))

        return see

    monitoring.use_tool_id(tool, "test")
    try:
        for event in wanted:
            monitoring.register_callback(tool, event, callback(event))
        if scope == "global":
            monitoring.set_events(tool, sum(wanted))
        else:
            monitoring.set_local_events(tool, scope, sum(wanted))
        function(*args)
    finally:
        if scope == "global":
            monitoring.set_events(tool, 0)
        else:
            monitoring.set_local_events(tool, scope, 0)
        monitoring.free_tool_id(tool)
    return seen


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")
@pytest.mark.parametrize("kind", ["global", "function", "callee"])
@pytest.mark.parametrize("way", ["jit", "mark"])
def test_tools_of_monitoring_see_every_event(kind, way):
    def callee(x):
        y = x + 1.0
        return y * x

    def function(x):
        z = x * 2.0
        for i in range(3):
            z = callee(z) - i
        return abs(z)

    def call_plain(x):
        return function(x)

    scope = {"global": "global", "function": function.__code__, "callee": callee.__code__}[kind]
    expected = events_seen(call_plain, (X,), scope)
    assert len(expected) >= 3
    if way == "jit":
        marked = framejit.jit(function)

        def call(x):
            return marked(x)
    else:
        call, handle = call_plain, framejit.mark(function)
    wanted = function(X)
    for _ in range(3):
        same(wanted, call(X))
    before = framejit.stats()["frames_captured"]
    same(wanted, call(X))
    assert framejit.stats()["frames_captured"] == before + 1
    seen = events_seen(call, (X,), scope)
    assert seen == expected
    same(wanted, call(X))
    assert framejit.stats()["frames_captured"] == before + 2
    if way == "mark":
        handle.close()


def test_generators_and_coroutines_run():
    @framejit.jit
    def generate(x):
        for i in range(3):
            x = x * 2
            got = yield x + i
            if got is not None:
                x = x + got

    def plain_generate(x):
        for i in range(3):
            x = x * 2
            got = yield x + i
            if got is not None:
                x = x + got

    for _ in range(3):
        expected, actual = plain_generate(X), generate(X)
        same(next(expected), next(actual))
        same(expected.send(X), actual.send(X))
        same(list(expected), list(actual))

    import asyncio

    @framejit.jit
    async def wait(x):
        y = x * 2
        await asyncio.sleep(0)
        return y + 1

    for _ in range(3):
        same(X * 2 + 1, asyncio.run(wait(X)))


def test_cache_clear():
    marked = compiled(plain)
    marked(X, X, X)
    assert len(marked.cache_entries()) == 1
    assert marked.graphs().startswith("graph @")
    assert "multiply" in marked.graphs()
    assert marked.asm()
    marked.cache_clear()
    assert marked.cache_entries() == []
    same(plain(X, X, X), marked(X, X, X))


def test_wrong_arguments_of_the_constructor():
    with pytest.raises(TypeError):
        compiled(len)
    with pytest.raises(TypeError):
        framejit._core.Function(plain, None)
