"""Marked functions are intercepted as they are called: from Python 3.12 on no frame hook stays installed for them."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading

import framejit
import numpy as np
import pytest
from ext.ext_support import same
from framejit import _core

pytestmark = pytest.mark.capture

X = np.arange(6, dtype=np.float64).reshape(2, 3)
BY_CALLS = sys.version_info >= (3, 12)


def captured():
    return framejit.stats()["frames_captured"]


@contextlib.contextmanager
def marked(*targets):
    """Marks, and sees to it that no hook is installed where none is needed."""
    assert not _core.hook_installed()
    with framejit.mark(*targets):
        assert _core.hook_installed() != BY_CALLS
        yield
        assert _core.hook_installed() != BY_CALLS
    assert not _core.hook_installed()


def test_no_hook_is_kept():
    def function(x):
        return x * 2 + 1

    before = captured()
    with marked(function):
        for _ in range(3):
            same(X * 2 + 1, function(X))
    assert captured() == before + 3
    same(X * 2 + 1, function(X))
    assert captured() == before + 3


def test_functions_made_before_and_after_the_mark():
    def make(scale):
        def function(x):
            return x * scale

        return function

    old = make(2.0)
    before = framejit.stats()["frames_marked"]
    with marked(make(1.0)):
        new = make(2.0)
        for function in (old, new, old, new):
            same(X * 2, function(X))
    assert framejit.stats()["frames_marked"] == before + 4


def test_generator_expressions_and_lambdas_inside():
    def function(x):
        return [(lambda v: v * 2)(x + i) for i in range(3)], sum(x[0, i] for i in range(3))

    wanted = function(X)
    before = framejit.stats()["frames_marked"]
    with marked(function):
        for _ in range(3):
            same(wanted, function(X))
    assert framejit.stats()["frames_marked"] > before


def test_other_code():
    def function(x):
        return x + 1

    def other(x):
        return x + 2

    plain = function.__code__
    before = captured()
    with marked(other):
        same(X + 1, function(X))
        assert captured() == before
        function.__code__ = other.__code__
        same(X + 2, function(X))
        assert captured() == before + 1
        function.__code__ = plain
        same(X + 1, function(X))
        assert captured() == before + 1


class Matrix:
    def __init__(self, x):
        self.x = x * 1.0

    def __add__(self, other):
        return self.x + other

    def __call__(self, y=1.0, *more, key=0.0):
        return self.x + y + len(more) + key

    def __getitem__(self, i):
        return self.x[i] * 2

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + 0.0)

    def __eq__(self, other):
        return self.x == other

    __hash__ = None

    def method(self, y):
        return self.x - y

    @classmethod
    def of_class(cls, x):
        return x * 3

    @staticmethod
    def static(x):
        return x * 4


MATRIX = Matrix(X)
USES = {
    "method": lambda: MATRIX.method(1.0),
    "bound method": functools.partial(MATRIX.method, 2.0),
    "class method": lambda: Matrix.of_class(X),
    "static method": lambda: Matrix.static(X),
    "operator": lambda: MATRIX + 1.0,
    "comparison": lambda: MATRIX == 1.0,
    "subscript": lambda: MATRIX[1],
    "call": lambda: MATRIX(2.0, 3, key=4.0),
    "unpacked call": lambda: MATRIX(*(2.0, 3), **{"key": 4.0}),
    "constructor": lambda: Matrix(X).x,
    "map": lambda: list(map(MATRIX.method, [1.0, 2.0])),
    "sorted": lambda: sorted([3.0, 1.0], key=lambda v: float(MATRIX.method(v)[0, 0])),
    "explicit": lambda: Matrix.__add__(MATRIX, 2.0),
}


@pytest.mark.parametrize("use", USES, ids=str)
def test_calls_of_every_kind(use):
    call = USES[use]
    wanted = [call() for _ in range(50)][-1]  # the interpreter has specialised the call
    before = captured()
    with marked(Matrix):
        for _ in range(50):  # and would specialise it again
            same(wanted, call())
        assert captured() >= before + 50
    after = captured()
    same(wanted, call())
    assert captured() == after


class Halves:
    def __init__(self, x):
        self.x = x

    @property
    def doubled(self):
        return self.x * 2

    @doubled.setter
    def doubled(self, value):
        self.x = value / 2


def test_properties():
    """Some versions enter a getter without a look at what it is: for these the hook stays."""
    halves = Halves(X)

    def read():
        return halves.doubled

    for _ in range(50):
        read()
    before = captured()
    with framejit.mark(Halves):
        for _ in range(50):
            same(X * 2, read())
        assert captured() >= before + 50
        halves.doubled = X
        same(X / 2, halves.x)
        assert captured() > before + 50
    assert not _core.hook_installed()


def test_a_function_becomes_a_getter_after_its_mark():
    def doubled(self):
        return self.x * 2

    with framejit.mark(doubled):
        made = type("Made", (Halves,), {"doubled": property(doubled)})
        halves = made(X)

        def read():
            return halves.doubled

        with framejit.mark(made):
            before = captured()
            for _ in range(50):
                same(X * 2, read())
            assert captured() == before + 50
    assert not _core.hook_installed()


def test_new_functions_at_a_specialised_call():
    """Functions of one code object have one version, by which specialised calls know them."""

    def make():
        return lambda x: x * 2 + 1

    def call(function):
        return function(X)

    old = make()
    for _ in range(50):
        call(old)
    before = framejit.stats()["frames_marked"]
    with marked(old):
        for i in range(1, 50):
            same(X * 2 + 1, call(make()))
            assert framejit.stats()["frames_marked"] == before + i
        kept = make()
        assert _core.hook_installed()  # it has not been called
        call(kept)
        kept = make()
        del kept
        for i in range(50):
            call(old)
        assert framejit.stats()["frames_marked"] == before + 100
    kept = make()
    same(X * 2 + 1, call(kept))
    assert framejit.stats()["frames_marked"] == before + 100


@pytest.mark.parametrize("call", ["f()", "f(1, 2, 3)", "f(1, z=2)", "f(*[1], **{'y': 2, 'x': 3})"])
def test_wrong_arguments(call):
    def f(x, y=1):
        return x

    def text():
        with pytest.raises(TypeError) as error:
            eval(call, {"f": f})
        return str(error.value)

    wanted = text()
    with marked(f):
        assert text() == wanted
        same(X, f(X))
        assert text() == wanted


def test_keywords_that_run_code():
    def inner(x):
        return x * 2

    def outer(x, *, key):
        return x + key

    class Name(str):
        __slots__ = ()
        seen = []

        def __eq__(self, other):
            self.seen.append(inner(X))
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    before = captured()
    with marked(inner, outer):
        for _ in range(3):
            same(X + 1.0, outer(X, **{Name("key"): 1.0}))
            with pytest.raises(TypeError, match="other"):
                outer(X, **{Name("other"): 1.0})
    assert Name.seen
    same(X * 2, Name.seen[-1])
    assert captured() >= before + 3 + len(Name.seen)


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def down(n):
    return n if n == 0 else down(n - 1)


def test_deep_recursion():
    """As deep as plain functions go: it does not end at the C stack."""
    limit = sys.getrecursionlimit()
    results = []

    def deep():
        results.append((even(30_000), odd(30_000), down(30_000)))

    sys.setrecursionlimit(100_000)
    try:
        with marked(even, odd, down):
            for _ in range(2):
                thread = threading.Thread(target=deep)
                thread.start()
                thread.join()
            before = framejit.stats()["frames_marked"]
            assert even(4)
            assert framejit.stats()["frames_marked"] > before  # they are redirected again
    finally:
        sys.setrecursionlimit(limit)
    assert results == [(True, False, 0)] * 2


def test_recursion_error():
    def forever(x):
        return forever(x + 1)

    def depth():
        with pytest.raises(RecursionError) as error:
            forever(X)
        return len(error.traceback)

    wanted = depth()
    with marked(forever):
        assert abs(depth() - wanted) <= 8
        assert abs(depth() - wanted) <= 8


def test_callees_have_the_hook_while_they_are_reached():
    def inner(x):
        seen.append(_core.hook_installed())
        return x + 1

    def outer(x):
        return inner(x * 2) * 3

    seen = []
    with marked(outer):
        for _ in range(4):
            same((X * 2 + 1) * 3, outer(X))
    assert seen[-1]


def test_generators_that_reach_keep_the_hook():
    def inner(x):
        print(end="")
        return x + 1

    def generate(x):
        for i in range(3):
            yield inner(x * i)

    with framejit.mark(generate):
        for _ in range(4):
            same([X * i + 1 for i in range(3)], list(generate(X)))
        assert _core.hook_installed()
    assert not _core.hook_installed()


def test_mark_again():
    def function(x):
        return x - 1

    before = captured()
    with marked(function):
        same(X - 1, function(X))
        with framejit.mark(function, jit_level="O1"):
            assert _core.hook_installed() != BY_CALLS
            same(X - 1, function(X))
        assert _core.hook_installed() != BY_CALLS
        same(X - 1, function(X))
    assert captured() == before + 3


def test_events_of_tools():
    def function(x):
        if x is None:
            raise ValueError("none")
        return x * 2

    def caller(x):
        try:
            function(x)
            function(None)
        except ValueError:
            return 1
        return 2

    def events():
        seen = []

        def trace(frame, event, argument):
            if frame.f_code in codes:
                seen.append((frame.f_code.co_name, event, frame.f_lineno))
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            for _ in range(3):
                caller(X)
        finally:
            sys.settrace(before)
        return seen

    codes = {function.__code__, caller.__code__}
    wanted = events()
    with marked(function):
        same(X * 2, function(X))
        assert events() == wanted


def test_threads():
    def function(x):
        return x * 2 + 1

    failed = []

    def work():
        for _ in range(2000):
            if function(3) != 7 or not np.array_equal(function(X), X * 2 + 1):
                failed.append(1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with marked(function):
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed
