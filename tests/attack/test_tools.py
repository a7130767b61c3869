"""Tracers, monitors and greenlets look at or leave frames in the middle of a call. Everything is as without framejit."""

from __future__ import annotations

import sys

import pytest
from attack.attack_support import run

pytestmark = pytest.mark.capture

TRACED = """
import sys, threading
import numpy as np, framejit as fj

seen = []
def tracer(frame, event, arg):
    if frame.f_code.co_filename == "<string>" and frame.f_code.co_name in NAMES:
        seen.append((event, frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)))
    return tracer
def profiler(frame, event, arg):
    if frame.f_code.co_filename == "<string>" and frame.f_code.co_name in NAMES and event in ("call", "return"):
        seen.append((event, frame.f_code.co_name))

def start():
    if how == "trace":
        frame = sys._getframe(1)
        while frame:
            frame.f_trace = tracer
            frame = frame.f_back
        sys.settrace(tracer)
    elif how == "profile":
        sys.setprofile(profiler)
    elif how == "monitor":
        monitoring, tool = sys.monitoring, sys.monitoring.DEBUGGER_ID
        monitoring.use_tool_id(tool, "test")
        kinds = monitoring.events
        def see(name):
            def callback(code, *rest):
                if code.co_filename == "<string>" and code.co_name in NAMES:
                    # LINE has a line, other events an offset. A running frame may have other code, with other offsets.
                    line = rest[0] if name == "LINE" else list(code.co_positions())[rest[0] // 2][0]
                    seen.append((name, code.co_name, line))
            return callback
        for name in ("PY_START", "LINE", "PY_RETURN"):
            monitoring.register_callback(tool, getattr(kinds, name), see(name))
        monitoring.set_events(tool, kinds.PY_START | kinds.LINE | kinds.PY_RETURN)
def stop():
    if how == "trace":
        sys.settrace(None)
        frame = sys._getframe(1)
        while frame:
            frame.f_trace = None
            frame = frame.f_back
    elif how == "profile":
        sys.setprofile(None)
    elif how == "monitor" and sys.monitoring.get_tool(sys.monitoring.DEBUGGER_ID):
        sys.monitoring.set_events(sys.monitoring.DEBUGGER_ID, 0)
        sys.monitoring.free_tool_id(sys.monitoring.DEBUGGER_ID)

armed = False
@fj.custom_op
def op(x):
    if armed:
        start()
    return x * 2
def callee(x):
    y = x * 3
    return y + 1
def armed_callee(x):
    if armed:
        start()
    y = x * 3
    return y + 1
class Context:
    def __enter__(self):
        if armed:
            start()
    def __exit__(self, *rest):
        if armed:
            stop()

BODY

NAMES = {"f", "callee"}
how = sys.argv[1]
x = np.arange(6.0)
def outcome(call):
    global armed
    armed = True
    seen.clear()
    try:
        found = call(x.copy())
    finally:
        stop()
        armed = False
    return found, list(seen)
plain = f
expected, events = outcome(plain)
if "op" in f.__code__.co_names:  # a graph that has begun goes to its end
    events = []
marked = fj.jit(f)
for warm in (0, 1, 3):
    for _ in range(warm):
        assert (marked(x.copy()) == plain(x.copy())).all()
    found, others = outcome(marked)
    assert (found == expected).all()
    assert others == events, "\\n".join(map(str, [("plain", events), ("marked", others)]))
    assert (marked(x.copy()) == plain(x.copy())).all()
print(len(events))
"""

# start() in the middle of f, by what f calls.
BODIES = {
    "a statement that breaks": """
def f(x):
    y = x + 1
    if armed:
        start()
    z = callee(y)
    z = z * 2
    print(end="")
    return z - y
""",
    "an operator": """
def f(x):
    y = op(x + 1)
    z = callee(y)
    return z * 2 - y
""",
    "a callee": """
def f(x):
    y = armed_callee(x + 1)
    z = callee(y)
    print(end="")
    return callee(z) * 2 - y
""",
    "a loop": """
def f(x):
    total = 0
    for i in range(30):
        total += i * i
        if i == 20 and armed:
            start()
    for i in range(30):
        total += i
    return callee(x) + total
""",
    "a with block": """
def f(x):
    y = x + 1
    with Context():
        z = callee(y)
        z += 1
    return callee(z) + y
""",
}


@pytest.mark.parametrize(
    "how",
    [
        "trace",
        "profile",
        pytest.param("monitor", marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="new in 3.12")),
    ],
)
@pytest.mark.parametrize("body", BODIES)
def test_tracing_begins_in_the_middle(body, how):
    run(TRACED.replace("BODY", BODIES[body]), how)


GREENLETS = """
import sys
import numpy as np, framejit as fj
from framejit import Tensor, ops
from greenlet import greenlet, getcurrent

main = getcurrent()
def leave(x):
    if getcurrent() is not main:
        main.switch()
    return x
@fj.custom_op(shape=lambda x: x)
def op(x):
    leave(x)
    return x * 2

BODY

marked, x = fj.jit(f), np.arange(1.0, 6.0)
for warm in (0, 3):
    for _ in range(warm):
        marked(x)
    # many that take turns, of which some never come to their end
    for mark in (f, marked):
        results = {}
        def work(k):
            results[k] = mark(x * k)
        runs = [greenlet(lambda k=k: work(k)) for k in range(8)]
        for turn in range(200):
            for k, each in enumerate(runs):
                if not each.dead and not (k == 7 and turn == 2):
                    each.switch()
            if turn == 2:
                runs.pop()
        assert all(each.dead for each in runs)
        assert sorted(results) == list(range(7)), results
        for k, found in results.items():
            assert np.array_equal(found, f(x * k)), k
    # an exception that is thrown in, where it has left
    for mark in (f, marked):
        run = greenlet(lambda: mark(x))
        run.switch()
        try:
            run.throw(KeyError, "thrown")
        except KeyError as error:
            assert error.args == ("thrown",)
        else:
            raise AssertionError("nothing came out")
        assert np.array_equal(mark(x), f(x))
assert fj.stats()["internal_errors"] == 0
"""

SWITCHES = {
    "a break": """
def f(x):
    y = x + 1
    leave(y)
    z = y * 2
    leave(z)
    return y + z
""",
    "an operator": """
def f(x):
    y = op(x + 1)
    return np.sqrt(y) + op(y)
""",
    "callees": """
def g(x):
    y = leave(x + 1)
    return y * 3
def f(x):
    return g(x) + g(g(x) * 2)
""",
    "a loop": """
def f(x):
    out = []
    total = 0.0
    for i in range(6):
        total += i
        out.append(leave(x * i))
    return np.stack(out).sum(0) + total
""",
    "a generator": """
def numbers(x):
    for i in range(4):
        leave(x)
        yield x * i
def f(x):
    return sum(numbers(x + 1)) + 1
""",
    "an iterator of a loop": """
class Numbers:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        self.n -= 1
        if self.n < 0: raise StopIteration
        leave(self.n)
        return self.n
def f(x):
    total = 0
    for i in Numbers(5):
        total += i * 2
    return x + total
""",
    "a comparison of keys": """
class Key:
    def __init__(self, n): self.n = n
    def __hash__(self): return 1
    def __eq__(self, other):
        leave(self)
        return self.n == other.n
def f(x):
    table = {Key(1): 1, Key(2): 2}
    table[Key(1)] = table[Key(2)] + 1
    return x * table[Key(1)] + 1
""",
    "with and try": """
class Context:
    def __enter__(self): leave(self)
    def __exit__(self, *rest): pass
def f(x):
    try:
        with Context():
            y = x + 1
            leave(y)
        return y * 2
    finally:
        x = None
""",
    "recursion": """
def g(x, n):
    if n == 0:
        return leave(x)
    return g(x + n, n - 1) + leave(n)
def f(x):
    return g(x, 5)
""",
}


@pytest.mark.not_sanitized(reason="greenlets copy whole stacks, which it takes for an underflow")
@pytest.mark.parametrize("body", SWITCHES)
def test_greenlets(body):
    pytest.importorskip("greenlet")
    run(GREENLETS.replace("BODY", SWITCHES[body]))
