"""Functions of numbers that call themselves: machine code that calls itself, and what is left to the interpreter."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import framejit as fj
from forms_support import check_same, run

pytestmark = pytest.mark.capture


def twins(source, *calls, stress=None):
    """The namespaces of a source, as it is and with `f` marked, after calls of `f` that both answer alike."""
    plain, marked = {}, {}
    for space in (plain, marked):
        exec(compile(textwrap.dedent(source), "twins.py", "exec"), space)
    before = fj.stats()["internal_errors"]
    with contextlib.ExitStack() as marks:
        if stress is None:
            marked["f"] = fj.jit(marked["f"])
        else:
            marks.enter_context(fj.mark(marked["f"], stress=stress))
        for _ in range(3):
            for args in calls:
                check_same(run(plain["f"], args), run(marked["f"], args), f"f{args}")
    assert fj.stats()["internal_errors"] == before
    return plain, marked


def recursions(space):
    return [entry for entry in space["f"]._report()["entries"] if entry["kind"] == "recursion"]


FIBONACCI = """
    def f(n):
        return n if n < 2 else f(n - 1) + f(n - 2)
"""


def test_a_recursion_is_one_entry_with_its_graph():
    _, marked = twins(FIBONACCI, (15,))
    (entry,) = recursions(marked)
    assert entry["graph"].count("call.itself recurse") == 2 * 2**3, entry["graph"]  # in copies for three levels of calls
    assert [(e["why"], e["early"]) for e in entry["exits"] if e["taken"]] == [("", False)]
    assert "calls of itself" in str(fj.explain(marked["f"])(15))


PROGRAMS = {
    "two_ints": ("def f(m, n):\n  if m == 0: return n + 1\n  return f(m - 1, 1) if n == 0 else f(m - 1, f(m, n - 1))", [(2, 9), (1, 30)]),
    "floats": ("def f(x, n):\n  if n == 0: return x\n  return f(x * 0.5, n - 1) + f(x * 1.5, n - 1)", [(1.25, 8), (-0.0, 3)]),
    "bools": ("def f(n):\n  if n == 0: return False\n  return not f(n - 1)", [(30,), (31,)]),
    "with_a_loop": ("def f(n):\n  s = 0\n  for i in range(n):\n    s += f(i) + 1\n  return s", [(8,)]),
    "with_a_helper": ("def g(x):\n  return x * 2 - 1\ndef f(n):\n  return 1 if n <= 0 else g(f(n - 2)) + f(n - 1)", [(12,)]),
    "with_globals": ("LEAST, RATE = 2, 0.75\ndef f(n):\n  return n * RATE if n < LEAST else f(n - 1) + f(n - 2)", [(12,)]),
    "changes_its_argument": ("def f(n):\n  s = 0\n  while n > 0:\n    n -= 1\n    s += f(n // 2)\n  return s + 1", [(20,)]),
    "overflow": ("def f(n):\n  return 1 if n == 0 else n * f(n - 1)", [(20,), (25,), (60,)]),
    "division": ("def f(n):\n  if n == 0: return 1\n  return f(n - 1) // (n - 3)", [(2,), (6,)]),
    "other_result": ("def f(n):\n  if n > 40: return 'many'\n  return n if n < 2 else f(n - 1) + f(n - 2)", [(12,), (50,)]),
    "two_results": ("def f(n):\n  return 0.5 if n == 1 else n if n == 0 else f(n - 1) + f(n - 2)", [(8,)]),
    "prints": ("def f(n):\n  if n == 5: print(n)\n  return n if n < 2 else f(n - 1) + f(n - 2)", [(4,), (8,)]),
    "deep": ("def f(n):\n  return 0 if n == 0 else 1 + f(n - 1)", [(500,)]),
    "for_ever": ("def f(n):\n  return f(n + 1) + 1", [(0,)]),
    "defaults": ("def f(n, by=1):\n  return 0 if n <= 0 else by + f(n - by, by)", [(30,), (30, 4)]),
    "keywords": ("def f(n, by):\n  return 0 if n <= 0 else by + f(n=n - by, by=by)", [(30, 2)]),
    "raises": ("def f(n):\n  if n == 0: raise ValueError(n)\n  return f(n - 1) + f(n - 2)", [(5,)]),
    "large": ("def f(n):\n  return 0 if n < 1 else f(n // 3) + 1", [(2**62,), (2**70,), (-5,)]),
    "three_arguments": ("def f(a, b, c):\n  return a + b + c if a == 0 else f(a - 1, c, b)", [(9, 1, 2), (400, 3, 4)]),
    "four_arguments": ("def f(n, a, b, c):\n  return a if n == 0 else f(n - 1, a, c, b) + 1 + f(n - 1, c, b, a)", [(9, 0, 1, 2)]),
    "ints_and_floats": ("def f(n, x, m, y):\n  if n <= 0: return x - y\n  return f(n - 1, y, m + 1, x * 0.5) * 0.75 + f(n - m, x, m, y + 1.0)",
                        [(9, 1.5, 1, -0.0), (12, 0.1, 2, 1e308)]),
    "five_arguments": ("def f(n, a, b, c, d):\n  return a + d if n == 0 else f(n - 1, b, c, d, a)", [(6, 1, 2, 3, 4), (30, 1, 2, 3, 4)]),
    "queens": ("""def f(full, columns, left, right):
  if columns == full: return 1
  count, free = 0, full & ~(columns | left | right)
  while free:
    bit = free & -free
    free ^= bit
    count += f(full, columns | bit, (left | bit) << 1, (right | bit) >> 1)
  return count""", [(63, 0, 0, 0), (0, 0, 0, 0)]),
    "unused_result": ("def f(n):\n  if n <= 0: return 1 // n\n  f(n - 1)\n  return 5", [(4,), (0,), (-3,)]),
    "unused_result_for_ever": ("def f(n):\n  if not n: return 1\n  f(n + 1)\n  return 5", [(-9,), (2,)]),
    "not_always_called": ("def f(n, m):\n  s = 0\n  for i in range(n):\n    s += f(m, m - 1) if m > 0 else 1\n  return s", [(3, 4), (3, 0), (0, -1)]),
    "branch_between_vectors": ("""def f(a0, a1, a2, a3):
  if a0 <= 0: return a2 << a0
  s = a2 & a0
  for i in range(1):
    s = s + f(a0 - 3, 3.0, a2 | a0, 0.5)
    if 0 > 6: break
  return s""", [(0, 1e200, 7, 1e200), (7, 0.0, 4, 0.0), (8, 1.5, 6, 0.0)]),
    "overflows_in_a_copy": ("def f(n, m):\n  return 1 if n == 0 else f(n - 1, m) * m", [(2, 2**31), (3, 2**31), (4, 2**31), (9, 2**31)]),
    "divides_by_zero_in_a_copy": ("def f(n, m):\n  return m // n + (f(n - 1, m) if n > -1 else 0)", [(0, 5), (1, 5), (2, 5), (8, 5)]),
}


@pytest.mark.parametrize("stress", [None, "rewrite", "break=3", "guards", "interp"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_exceptions(name, stress):
    source, calls = PROGRAMS[name]
    twins(source, *calls, stress=stress)


@pytest.mark.parametrize("arguments", [1, 2, 3, 4])
def test_recursions_up_to_four_arguments_call_themselves(arguments):
    names = [f"a{k}" for k in range(arguments)]
    source = f"def f({', '.join(names)}):\n  return a0 if a0 < 1 else f({', '.join(n + ' - 1' for n in names)}) + f({', '.join(n + ' - 2' for n in names)})"
    _, marked = twins(source, tuple(range(10, 10 + arguments)))
    (entry,) = recursions(marked)
    assert "call.itself recurse" in entry["graph"]


COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "40"))
FIRST = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_random_recursions(seed):
    """Functions of one to four ints and floats, with other results, exceptions and loops."""
    r = random.Random(seed)
    kinds = ["int"] + [r.choice(["int", "float"]) for _ in range(r.randrange(4))]
    names = [f"a{k}" for k in range(len(kinds))]

    def number(kind):
        own = [n for n, k in zip(names, kinds) if k == kind]
        constant = str(r.randrange(-3, 9)) if kind == "int" else repr(r.choice([0.5, -1.25, 3.0, 0.1, 1e300]))
        return r.choice(own * 2 + [constant])

    def value(kind):
        operator = r.choice(["+", "-", "*", *(["//", "%", "&", "|", "^", "<< 7 &"] if kind == "int" else ["/"])])
        return f"({number(kind)} {operator} {number(kind)})" if r.random() < 0.6 else number(kind)

    def call():
        return f"f({', '.join([f'a0 - {r.randrange(1, 4)}'] + [value(k) for k in kinds[1:]])})"

    result = r.choice(kinds)
    lines = [f"def f({', '.join(names)}):", f"  if a0 {r.choice(['<=', '<'])} {r.randrange(3)}: return {value(result)}", f"  s = {value(result)}"]
    if r.random() < 0.3:
        lines += [f"  for i in range({r.randrange(1, 4)}):", f"    s = s {r.choice('+-')} {call()}", f"    if {value('int')} > {value('int')}: break"]
    else:
        lines += [f"  s = s {r.choice('+-*')} {call()}" for _ in range(r.randrange(1, 3))]
    if r.random() < 0.4:
        lines += [f"  if {value(r.choice(kinds))} > {r.randrange(5)}: return {value(result)}", f"  s = {call()} - s"]
    lines.append(f"  return {r.choice(['s', 's', 's + ' + value(result), 's > 0'])}")
    calls = [tuple(r.randrange(0, 9) if k == "int" else r.choice([0.0, -0.0, 1.5, 1e200]) for k in kinds) for _ in range(3)]
    twins("\n".join(lines), *calls)


def test_other_kinds_of_arguments():
    calls = [(12,), (12.0,), (True,), (None,), ("x",), (-3,), (2**65,)]
    _, marked = twins(FIBONACCI, *calls)
    assert len(recursions(marked)) == 2  # ints and floats


def test_globals_that_change():
    plain, marked = twins("BASE = 1\ndef f(n):\n  return BASE if n < 2 else f(n - 1) + f(n - 2)", (12,))
    for base in (2, 7, 0.5, 2**70, "x"):
        plain["BASE"] = marked["BASE"] = base
        check_same(run(plain["f"], (10,)), run(marked["f"], (10,)), str(base))
    plain["BASE"] = marked["BASE"] = 1
    for space in (plain, marked):
        space["f_before"] = space["f"]
        space["f"] = lambda n: 100
    check_same(run(plain["f_before"], (10,)), run(marked["f_before"], (10,)), "another f")


def test_code_that_changes():
    plain, marked = twins(FIBONACCI, (12,))
    for space, function in ((plain, plain["f"]), (marked, marked["f"].__wrapped__)):
        other = {}
        exec("def f(n):\n  return 3 if n < 2 else f(n - 1) + f(n - 2)", other)
        function.__code__ = other["f"].__code__
        space["result"] = space["f"](12)
    assert plain["result"] == marked["result"]


DEEP = "def f(n):\n  return 0 if n == 0 else 1 + f(n - 1)"


def test_the_limit_of_recursion():
    plain, marked = twins(DEEP, (100,), (10_000,), (500,))

    def deepest(f):
        least, most = 1, sys.getrecursionlimit() + 10
        while least < most:
            n = (least + most + 1) // 2
            try:
                f(n)
                least = n
            except RecursionError:
                most = n - 1
        return least

    # A marked function takes a C call more than a plain one until direct calls replace it.
    assert abs(deepest(plain["f"]) - deepest(marked["f"])) <= 2


def test_a_small_stack():
    _, marked = twins(DEEP, (100,))
    results = []
    before, limit = threading.stack_size(512 * 1024), sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(20_000)
        thread = threading.Thread(target=lambda: results.append(marked["f"](1500)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
        sys.setrecursionlimit(limit)
    assert results == [1500]


def test_a_recursion_that_is_deeper_than_the_c_stack():
    """Calls between marked functions are C calls, until the stack is low."""
    source = "def f(x):\n  return 0 if x is None else 1 + f(x[0])"
    plain, marked = twins(source, (None,))
    nested = None
    for _ in range(50_000):
        nested = (nested,)
    results, limit = [], sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(200_000)
        thread = threading.Thread(target=lambda: results.extend(space["f"](nested) for space in (plain, marked)))
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
    assert results == [50_000] * 2
    while nested:
        (nested,) = nested


BEGINS_DEEP = """
import sys
import framejit as fj
sys.setrecursionlimit(200_000)
exec("def f(x):\\n  return 0 if x is None else 1 + f(x[0])")
f, nested = fj.jit(f), None
f((None,))
for _ in range(50_000):
    nested = (nested,)
assert f(nested) == 50_000
while nested:
    (nested,) = nested
"""


@pytest.mark.parametrize("kilobytes, environment", [(1000, 0), (1000, 200_000), (8192, 0), (8192, 120_000), (70_000, 0), (None, 0)])
def test_the_stack_that_the_process_began_with(kilobytes, environment):
    """What is left of it is known, whatever its limit and what lies at its beginning."""
    def limit() -> None:
        size = resource.RLIM_INFINITY if kilobytes is None else kilobytes * 1024
        resource.setrlimit(resource.RLIMIT_STACK, (size, resource.getrlimit(resource.RLIMIT_STACK)[1]))

    space = {**os.environ, **{f"FILLS_{i}": "x" * 50_000 for i in range(environment // 50_000)}}
    subprocess.run([sys.executable, "-c", BEGINS_DEEP], env=space, preexec_fn=limit, check=True, timeout=240)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_signal_is_answered():
    _, marked = twins(FIBONACCI, (15,))
    asked = []

    def answer(number, frame):
        asked.append(time.perf_counter())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, answer)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            marked["f"](60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(asked) == 1


def test_other_threads_run():
    _, marked = twins(FIBONACCI, (15,))
    counts, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counts[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        assert marked["f"](27) == 196418
    finally:
        done.set()
        thread.join()
    assert counts[0] > 0


def test_functions_that_call_themselves_seldom_are_left_to_the_interpreter():
    _, marked = twins("def f(a, b):\n  return a if b == 0 else f(b, a % b)", (1071, 462))
    for _ in range(100):
        assert marked["f"](1071, 462) == 21
    (entry,) = recursions(marked)
    assert entry["demoted"]
