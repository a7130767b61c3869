"""What a region is going to change is changed by others after its guards were tested, and memory runs out between two changes."""

from __future__ import annotations

import pytest
from attack.attack_support import run

pytestmark = pytest.mark.capture

# Both forms: a whole call, and a region in front of a break.
FUNCTION = """
def f(x, c, o):
    o.n = o.n + 1
    y = first(x)
    c[0] = y
    TAIL
    return x * 2, lambda: x, lambda: x, lambda: x
"""
TAILS = {"whole": "pass", "region": "print(end='')"}

PROGRAM = """
import gc, sys, threading, time
import numpy as np, framejit as fj
fj.config.num_threads = 1
class Holder:
    n = 0
SETUP
FUNCTION
def outcome(f):
    global armed, c
    x, o = np.arange(float(SIZE)), Holder()
    for _ in range(4):
        f(x, [1], o)
    c = [1]
    armed = True
    try:
        f(x, c, o)
        return "no error", len(c), o.n
    except Exception as error:
        return type(error), str(error), error.__traceback__.tb_next.tb_lineno, len(c), o.n, x[:3].tolist()
    finally:
        armed = False
plain = outcome(f)
jitted = outcome(fj.jit(f))
print(plain)
print(jitted)
"""

BY_OPERATOR = """
armed = False
@fj.custom_op
def first(x):
    if armed:
        c.clear()
    return x * 3
"""

BY_COLLECTION = """
armed = False
def first(x):
    kept = lambda: x, lambda: x, lambda: x
    return x * 3
def empty(phase, info):
    global armed
    if armed and phase == "start":
        armed = False
        c.clear()
gc.callbacks.append(empty)
gc.set_threshold(1)
"""

BY_THREAD = """
armed = False
def first(x):
    for _ in range(40):
        x = np.sqrt(x * 1.5 + 1.0)
    return x
def watch():
    while not over:
        time.sleep(0.001)
        if armed:
            time.sleep(0.005)
            c.clear()
over = False
thread = threading.Thread(target=watch, daemon=True)
thread.start()
"""


def program(setup, tail, size):
    function = FUNCTION.replace("TAIL", TAILS[tail])
    return PROGRAM.replace("SETUP", setup).replace("FUNCTION", function).replace("SIZE", str(size))


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("setup, size", [(BY_OPERATOR, 100), (BY_THREAD, 2_000_000)], ids=["operator", "thread"])
def test_a_list_is_emptied_under_a_region(setup, size, tail):
    plain, jitted = run(program(setup, tail, size)).splitlines()
    assert "IndexError" in plain
    assert jitted == plain


@pytest.mark.parametrize("tail", TAILS)
def test_a_collection_empties_a_list(tail):
    # When it runs is nobody's promise: before the store, which then fails, or behind it.
    for line in run(program(BY_COLLECTION, tail, 100)).splitlines():
        assert "IndexError" in line or "no error" in line
        assert line.endswith(("0, 5, [0.0, 1.0, 2.0])", ", 5)"))


@pytest.mark.parametrize("tail", TAILS)
def test_what_is_written_in_place_is_written_once(tail):
    setup = BY_OPERATOR + "def g(x):\n    x += 1\n    return op(x)\nop, first = first, g\n"
    plain, jitted = run(program(setup, tail, 100)).splitlines()
    assert "IndexError" in plain and "[5.0, 6.0, 7.0]" in plain
    assert jitted == plain


MEMORY = """
import numpy as np, framejit as fj, _testcapi
class Holder:
    pass
def f(x, a, d, o):
    a.append(x + 1); d["k"] = x + 2; o.v = x + 3; a.extend([1, 2, 3]); o.w = 5; d["l"] = 6; a[0] = 1
    TAIL
    return x * 2
def state(a, d, o):
    return len(a), tuple(d), tuple(vars(o)), a[0]
def fresh(n):
    return [0.5] * n, dict.fromkeys(range(5)), Holder()
f = fj.jit(f)
x = np.arange(4.0)
for _ in range(4):
    f(x, *fresh(4))
for n in (4, 8):
    names = 0, 1, 2, 3, 4
    after_one = [(n, names, (), 0.5), (n + 1, names, (), 0.5), (n + 1, (*names, "k"), (), 0.5), (n + 1, (*names, "k"), ("v",), 0.5)]
    after_one += [(n + 4, (*names, "k"), ("v",), 0.5), (n + 4, (*names, "k"), ("v", "w"), 0.5), (n + 4, (*names, "k", "l"), ("v", "w"), 0.5)]
    after_all = n + 4, (*names, "k", "l"), ("v", "w"), 1
    for failing in (1, 2, 1000):
        for start in range(40):
            args = fresh(n)
            error = False
            _testcapi.set_nomemory(start, start + failing)
            try:
                f(x, *args)
            except MemoryError:
                error = True
            finally:
                _testcapi.remove_mem_hooks()
            assert state(*args) == after_all or error and state(*args) in after_one, (start, failing, state(*args))
"""


@pytest.mark.parametrize("tail", TAILS)
def test_memory_runs_out_between_effects(tail):
    pytest.importorskip("_testcapi")
    run(MEMORY.replace("TAIL", TAILS[tail]))
