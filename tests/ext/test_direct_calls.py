"""Marked functions that call marked functions by their globals, once nothing of them is compiled."""

from __future__ import annotations

import gc
import sys
import textwrap
import traceback
import weakref

import framejit
import pytest

pytestmark = pytest.mark.capture

CALLS = 200  # until nothing is tried any more


def twins(source, *names, warm=(5,)):
    """The namespaces of a source: as it is, and with the named functions marked and called until nothing is tried any more."""
    spaces = []
    for marked in (False, True):
        space = {"sys": sys, "framejit": framejit}
        exec(compile(textwrap.dedent(source), "twins.py", "exec"), space)
        if marked:
            for name in names:
                space[name] = framejit.jit(space[name])
            for name in names:
                for _ in range(CALLS):
                    space[name](*warm)
        spaces.append(space)
    return spaces


def outcome(call):
    try:
        return call()
    except BaseException as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)[1:]]
        return type(error), str(error), lines


def same_outcome(spaces, call):
    plain, marked = (outcome(lambda space=space: call(space)) for space in spaces)
    assert plain == marked
    return marked


COUNT_DOWN = """
    def f(n):
        if n == 0:
            return 0
        return 1 + f(n - 1)
"""
SEEN = """
    codes = []
    def f(n):
        codes.append(sys._getframe().f_code)
        if n == 0:
            return 0
        return f(n - 1)
"""


def direct_frames(space, n=5):
    """How many frames of a call do not run the function's own code."""
    space["codes"].clear()
    space["f"](n)
    return sum(code is not space["f"].__code__ for code in space["codes"])


def test_all_frames_of_a_recursion_run_the_copy():
    _, marked = twins(SEEN, "f")
    assert direct_frames(marked) == 6
    assert direct_frames(marked, 0) == 1


def test_results_and_the_depth_of_a_recursion():
    spaces = twins(COUNT_DOWN, "f")
    same_outcome(spaces, lambda s: s["f"](300))
    kind, _, lines = same_outcome(spaces, lambda s: s["f"](10**6))
    assert kind is RecursionError
    assert len(set(lines[1:])) <= 2


def test_functions_that_call_each_other():
    spaces = twins(
        """
        def is_even(n):
            return True if n == 0 else is_odd(n - 1)
        def is_odd(n):
            return False if n == 0 else is_even(n - 1)
        """,
        "is_even",
        "is_odd",
    )
    for n in range(20):
        same_outcome(spaces, lambda s, n=n: (s["is_even"](n), s["is_odd"](n)))


def test_many_arguments_and_nested_calls():
    spaces = twins(
        """
        def f(m, n=0):
            if m == 0:
                return n + 1
            if n == 0:
                return f(m - 1, 1)
            return f(m - 1, f(m, n - 1 if n > 1 else 0))
        def g(a, b, c, d, e, h, i, j, n):
            return a + j if n == 0 else g(b, c, d, e, h, i, j, a, n - 1)
        """,
        "f",
        warm=(2, 2),
    )
    same_outcome(spaces, lambda s: [s["f"](2, n) for n in range(6)])
    spaces[1]["g"] = framejit.jit(spaces[1]["g"])
    for _ in range(CALLS):
        spaces[1]["g"](1, 2, 3, 4, 5, 6, 7, 8, 3)
    same_outcome(spaces, lambda s: s["g"](1, 2, 3, 4, 5, 6, 7, 8, 30))


@pytest.mark.parametrize("count", [0, 2, 3])
def test_wrong_numbers_of_arguments(count):
    spaces = twins(
        f"""
        def f(n, other=1):
            if n == 0:
                return f({", ".join("1" * count)}) if wrong else 0
            return f(n - 1, 2) + f(n - 1)
        wrong = False
        """,
        "f",
        warm=(3,),
    )
    for space in spaces:
        space["wrong"] = True
    same_outcome(spaces, lambda s: s["f"](2) if count != 2 else 0)


def test_defaults_that_change():
    spaces = twins(
        """
        def f(n, other=1):
            return other if n <= 0 else f(n - 1) + f(n - 1, other)
        """,
        "f",
    )
    same_outcome(spaces, lambda s: s["f"](4))
    for space in spaces:
        space["f"].__defaults__ = (10,)
    same_outcome(spaces, lambda s: s["f"](4))
    for space in spaces:
        getattr(space["f"], "__wrapped__", space["f"]).__defaults__ = None
    same_outcome(spaces, lambda s: s["f"](4, 1))


REBINDING = """
    def other(n):
        return -1000
    class Made:
        def __init__(self, n):
            self.n = n
        def __radd__(self, x):
            return x + self.n
    class Any:
        asked = []
        def __getattr__(self, name):
            Any.asked.append(name)
            return other
        def __call__(self, n):
            return n * 7
    def rebind():
        pass
    def f(n):
        if n == 3:
            rebind()
        if n == 0:
            return 0
        return 1 + f(n - 1)
"""


@pytest.mark.parametrize("to", ["other", "Made", "Any()", "len", "framejit.jit(other)", "lambda n: f_before(n)"])
def test_a_global_that_is_bound_anew_in_a_call(to):
    spaces = twins(REBINDING, "f")
    for space in spaces:
        space["f_before"] = space["f"]
        exec(f"def rebind():\n    global f\n    f = {to}", space)
    for _ in range(3):
        same_outcome(spaces, lambda s: s["f_before"](6))
        assert all(space["Any"].asked == [] for space in spaces)
    for space in spaces:
        space["f"] = space["f_before"]
        space["rebind"] = lambda: None
    same_outcome(spaces, lambda s: s["f"](6))


def test_a_global_that_is_deleted_in_a_call():
    spaces = twins(REBINDING, "f")
    for space in spaces:
        space["f_before"] = space["f"]
        exec("def rebind():\n    global f\n    del f", space)
    kind, message, _ = same_outcome(spaces, lambda s: s["f_before"](6))
    assert kind is NameError
    assert "'f'" in message
    same_outcome(spaces, lambda s: s["f_before"](2))


def test_a_global_that_stays_another_is_called_without_the_copy():
    _, marked = twins(SEEN, "f")
    f, codes = marked["f"], marked["codes"]
    marked["f"] = lambda n: f(n)
    codes.clear()
    f(5)
    assert all(code is f.__code__ for code in codes)
    marked["f"] = f
    assert direct_frames(marked) == 6


@pytest.mark.parametrize("through", ["", ".__wrapped__"])
def test_code_that_is_set_in_a_call(through):
    spaces = twins(
        """
        def other(n):
            return -1000 + n
        def change():
            pass
        def f(n):
            if n == 3:
                change()
            if n == 0:
                return 0
            return 1 + f(n - 1)
        """,
        "f",
    )
    for space, path in zip(spaces, ("f", "f" + through), strict=True):
        exec(f"def change():\n    {path}.__code__ = other.__code__", space)
    assert same_outcome(spaces, lambda s: s["f"](6)) == 4 - 1000 + 2
    same_outcome(spaces, lambda s: s["f"](6))


def test_one_function_that_is_marked_twice():
    space = {}
    exec(textwrap.dedent(COUNT_DOWN), space)
    plain = space["f"]
    first, second = framejit.jit(plain), framejit.jit(plain)
    for marked in (first, second):
        space["f"] = marked
        for _ in range(CALLS):
            assert marked(5) == 5
    plain.__code__ = (lambda n: n).__code__
    assert (first(9), second(9)) == (9, 9)
    del first
    plain.__code__ = (lambda n: -n).__code__
    assert second(9) == -9


def events_of(function, n):
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_filename == "twins.py":
            events.append((frame.f_lineno, event))
        return tracer

    sys.settrace(tracer)
    try:
        function(n)
    finally:
        sys.settrace(None)
    return events


def test_a_tracer_sees_what_it_sees_of_the_plain_function():
    spaces = twins(COUNT_DOWN, "f")
    plain, marked = (events_of(space["f"], 4) for space in spaces)
    assert plain == marked
    assert len(plain) > 10


def test_a_tracer_that_comes_in_a_call():
    spaces = twins(
        """
        events = []
        def tracer(frame, event, arg):
            events.append((frame.f_code.co_name, frame.f_lineno, event))
            return tracer
        def look():
            pass
        def f(n):
            if n == 3:
                look()
            if n == 0:
                return 0
            return 1 + f(n - 1)
        """,
        "f",
    )
    for space in spaces:
        space["look"] = lambda space=space: sys.settrace(space["tracer"])
        try:
            assert space["f"](6) == 6
        finally:
            sys.settrace(None)
    plain, marked = (space["events"] for space in spaces)
    assert plain
    assert plain == marked


def test_exceptions_and_their_lines():
    spaces = twins(
        """
        wrong = False
        seen = []
        def f(n):
            try:
                if n == 0:
                    return 1 / (not wrong)
                return f(n - 1)
            except KeyError:
                return -1
            finally:
                seen.append((n, sys.exc_info()[0]))
        """,
        "f",
    )
    for space in spaces:
        space["wrong"] = True
        space["seen"].clear()
    assert same_outcome(spaces, lambda s: s["f"](4))[0] is ZeroDivisionError
    assert spaces[0]["seen"] == spaces[1]["seen"]
    same_outcome(spaces, lambda s: s["f"]("no number"))


def test_nothing_is_left_alive():
    spaces = twins(COUNT_DOWN, "f")
    f = spaces[1]["f"]
    counts = [sys.getrefcount(o) for o in (f, f.__wrapped__, f.__code__)]
    for _ in range(50):
        f(20)
    assert [sys.getrefcount(o) for o in (f, f.__wrapped__, f.__code__)] == counts
    gone = weakref.ref(f)
    del f
    spaces.clear()
    gc.collect()
    assert gone() is None


def test_it_is_made_anew_when_compiled_code_is_forgotten():
    _, marked = twins(SEEN, "f")
    f, code = marked["f"], marked["codes"][-1]
    f.cache_clear()
    for _ in range(CALLS):
        f(5)
    assert marked["codes"][-1] is not code
    assert direct_frames(marked) == 6
