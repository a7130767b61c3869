"""What compiled code keeps alive, what long runs leave behind, and many threads at once."""

from __future__ import annotations

import gc
import sys
import threading
import types
import weakref

import framejit
import numpy as np
import pytest
from ext.ext_support import compiled, errors, hits, same

pytestmark = pytest.mark.capture

X = np.arange(6, dtype=np.float64).reshape(2, 3) + 0.5


def local_class(scale):
    class Local:
        factor = scale

        def scaled(self, x):
            return x * self.factor

        @property
        def twice(self):
            return self.factor * 2

    return Local


def local_function(scale):
    return lambda x: x * scale


def local_module(scale):
    module = types.ModuleType("local")
    module.factor = scale
    return module


def attribute(o, x):
    return x * o.factor


def instance(o, x):
    return o().scaled(x) + o().twice


def made(o, x):
    here = o()
    here.x = x * 2
    return here.x, type(here) is o


def call(o, x):
    return o(x) + 1


def handed_on(o, x):
    return x + 1, [o]


def broken(o, x):
    y = x * o.factor
    gc.isenabled()
    return y + o.factor


CASES = [
    (attribute, local_class, True),
    (attribute, local_module, True),
    (instance, local_class, True),
    (made, local_class, True),
    (call, local_function, False),
    (handed_on, local_class, False),
    (broken, local_class, True),
]


@pytest.mark.parametrize(("function", "make", "named_by_guards"), CASES)
@pytest.mark.parametrize("in_place", [False, True])
def test_what_guards_name_dies(function, make, named_by_guards, in_place):
    before = errors()

    def run(marked):
        for scale in (2.0, 3.0):  # the second is likely to have the address of the first
            named = make(scale)
            plain, got = function(named, X), [marked(named, X) for _ in range(3)]
            for result in got:
                assert str(result) == str(plain)
            reference = weakref.ref(named)
            del named, plain, got, result
            gc.collect()
            assert reference() is None

    if in_place:
        copy = types.FunctionType(function.__code__.replace(), function.__globals__)
        with framejit.mark(copy):
            run(copy)
    else:
        marked = compiled(function)
        run(marked)
        assert bool(marked.cache_entries()) is not named_by_guards
        named = make(4.0)
        assert str(marked(named, X)) == str(function(named, X))
        assert marked.cache_entries()
    assert errors() == before


def test_classes_that_come_and_go_reach_the_limit():
    marked = compiled(attribute)
    with pytest.warns(framejit.RecompileLimitWarning, match="is alive"):
        for scale in range(framejit.config.recompile_limit + 25):
            named = local_class(float(scale))
            same(attribute(named, X), marked(named, X))
            del named
            gc.collect()


def test_a_class_and_the_function_that_names_it_die_together():
    def make():
        named = local_class(2.0)
        marked = compiled(lambda x: x * named.factor)
        named.marked = marked
        marked(X)
        assert hits(marked) or marked.cache_entries()
        return weakref.ref(named), weakref.ref(marked)

    references = make()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_one_loss_takes_other_entries_along():
    """Entries of three functions name a class; losing it in one drops a namespace that owns the others."""

    def make():
        named = local_class(2.0)
        inner = [compiled(attribute) for _ in range(3)]
        scope = {"inner": inner, "gc": gc}
        exec("def outer(o, x):\n    y = x * o.factor\n    gc.isenabled()\n    return y + 1", scope)
        outer = compiled(scope["outer"])
        scope.clear()
        for marked in (*inner, outer):
            marked.__dict__["others"] = inner
            if marked is not outer:
                same(attribute(named, X), marked(named, X))
        named.keeps = outer, inner
        return weakref.ref(named), [weakref.ref(marked) for marked in inner]

    before = errors()
    for _ in range(5):
        named, inner = make()
        gc.collect()
        assert named() is None
        assert [marked() for marked in inner] == [None] * 3
    assert errors() == before


# --- Long runs


def pausing(a, b):
    c = a * b
    gc.isenabled()
    d = c + b
    gc.isenabled()
    return d - a


def looping(a, b):
    for _ in range(3):
        a = a * b
        gc.isenabled()
        b = b + a
    return a, [b], {"c": a + b}


def suspended(a, b):
    c = a * b
    got = yield c
    yield c + b + (got or 0)


def generating(a, b):
    return [item * 2 for item in suspended_marked(a, b)]


suspended_marked = compiled(suspended)


def left_open(a, b):
    return next(suspended_marked(a, b)) + 1


def catching(a, b):
    try:
        c = a * b
        raise KeyError(c)
    except KeyError as error:
        return error.args[0] + b


def raising(a, b):
    c = a + b
    return c @ np.ones(7) + c


def varying(a, b):
    return a[: int(b[0, 0]) + 1] * 2


def swallow(function, *args):
    try:
        return function(*args)
    except ValueError:
        return None


LONG = {
    "breaks": (pausing, [(X, X)]),
    "loops": (looping, [(X, X)]),
    "generators": (generating, [(X, X)]),
    "open generators": (left_open, [(X, X)]),
    "caught": (catching, [(X, X)]),
    "raised": (raising, [(X, X)]),
    "entries": (pausing, [(X, X), (X[0], X), (X.astype(np.float32), X), (2.5, X), (X, X[:, ::2][:, :1])]),
    "varying": (varying, [(X, X), (X, X + 1)]),
}


@pytest.mark.parametrize("name", LONG)
def test_ten_thousand_calls_leave_nothing(name):
    function, calls = LONG[name]
    marked = compiled(function)
    for args in calls:
        expected = swallow(function, *args)
        for _ in range(40):
            same(expected, swallow(marked, *args))
    del expected
    held = [value for args in calls for value in args] + [None, True, marked, function.__code__, np.ndarray]

    def count():
        gc.collect()
        return sys.getallocatedblocks(), [sys.getrefcount(value) for value in held]

    def run(times):
        for _ in range(times):
            for args in calls:
                swallow(marked, *args)

    run(200)
    before = count()
    run(10_000 // len(calls))
    after = count()
    assert abs(after[0] - before[0]) < 200
    assert max(abs(a - b) for a, b in zip(after[1], before[1])) < 20


def test_recompilations_leave_nothing():
    marked = compiled(pausing)
    shapes = [X, X[0], X.astype(np.float32), X[:, :1], X.T]

    def run(times):
        for _ in range(times):
            marked.cache_clear()
            for x in shapes:
                same(pausing(x, x), marked(x, x))

    run(40)
    gc.collect()
    before = sys.getallocatedblocks(), [sys.getrefcount(x) for x in shapes]
    run(60)
    gc.collect()
    assert abs(sys.getallocatedblocks() - before[0]) < 300
    assert [sys.getrefcount(x) for x in shapes] == before[1]


# --- Threads


@pytest.mark.parametrize("function", [pausing, looping, generating, catching])
def test_threads_call_and_compile_at_once(function):
    shapes = [X, X[0], X.astype(np.float32), X[:, :1], X.T, X[:1]]
    expected = [function(x, x) for x in shapes]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(3):
            marked = compiled(function)
            start = threading.Barrier(8)
            failures = []

            def work(number, marked=marked, start=start, failures=failures):
                start.wait()
                try:
                    for turn in range(60):
                        at = (turn + number) % len(shapes)
                        same(expected[at], marked(shapes[at], shapes[at]))
                        if number == 0 and turn % 20 == 19:
                            marked.cache_clear()
                except BaseException as error:
                    failures.append(error)

            threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failures == []
    finally:
        sys.setswitchinterval(interval)


def shown(value):
    """Uses its argument in the ways that make guards: type, truth, equality, length, as a key and as an index."""
    table = {value: 1} if isinstance(value, (bytes, str, int, float)) else {}
    if isinstance(value, (bytes, str, list, tuple, dict)) and len(value) > 1:
        return value[0] if not isinstance(value, dict) else len(value), len(table)
    if isinstance(value, (int, float)):
        return value + 1, value > 2, len(table)
    return value, len(table)


COUNTED = {
    "bytes": lambda: bytes([1, 2, 3, 250]),
    "str": lambda: "".join(["not", " interned ", "at all"]),
    "int": lambda: 10**6 + int("7"),
    "long int": lambda: 10**30 + int("7"),
    "float": lambda: float("2.75"),
    "list": lambda: [bytes([1, 2]), 10**6 + int("9")],
    "tuple": lambda: (bytes([1, 2]), 10**6 + int("9")),
    "dict": lambda: {"".join(["a", " b"]): bytes([7, 8]), 3: 4},
    "array": lambda: np.arange(5.0),
    "memoryview": lambda: memoryview(bytes([1, 2, 3])),
    "module": lambda: types.ModuleType("made"),
    "class": lambda: type("Made", (), {}),
}


@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize("stress", ["", "rewrite"])
def test_objects_have_no_more_references_than_without(kind, stress):
    value = COUNTED[kind]()
    parts = list(value.items() if isinstance(value, dict) else value) if isinstance(value, (list, tuple, dict)) else []
    counts = [sys.getrefcount(o) for o in [value, *parts]]
    f = types.FunctionType(shown.__code__, dict(globals()), "shown")
    with framejit.mark(f, stress=stress):
        for _ in range(4):
            f(value)
            assert [sys.getrefcount(o) for o in [value, *parts]] == counts


def test_a_module_that_is_dropped_goes():
    module = types.ModuleType("made")
    exec("def scaled(x):\n    return x * FACTOR\nFACTOR = 2.5\nTABLE = [1, 2]", module.__dict__)
    gone = weakref.ref(module)

    def f(x, m):
        return m.scaled(x) + len(m.TABLE)

    marked = framejit.jit(f)
    x = np.arange(3.0)
    for _ in range(3):
        same(marked(x, module), f(x, module))
    assert hits(marked) > 0
    del module
    gc.collect()
    assert gone() is None
    other = types.ModuleType("made")
    exec("def scaled(x):\n    return x - FACTOR\nFACTOR = 1.5\nTABLE = [1]", other.__dict__)
    same(marked(x, other), f(x, other))
