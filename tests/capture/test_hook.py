"""The frame hook: results and replacement code for marked frames, patterns, chaining, recursion, generators, removal."""

import gc
import subprocess
import sys
import threading
import weakref

import pytest
from splice_support import core, spliced



@pytest.fixture(autouse=True)
def hook_is_out_again():
    assert not core._hook_installed()
    yield
    core._hook_discover(None)
    gc.collect()
    assert not core._hook_installed()


@pytest.fixture
def mark():
    marked = []

    def do(function, interceptor):
        assert core._hook_mark(function.__code__, interceptor)
        marked.append(function.__code__)

    yield do
    for code in marked:
        core._hook_unmark(code)


def add(x, y=2):
    return x + y


def test_interceptor_sees_function_code_and_arguments(mark):
    seen = []

    def f(x, *rest, k=3, **more):
        later = 1
        return later, x, rest, k, more

    mark(f, lambda function, code, locals_: seen.append((function, code, locals_)))
    assert core._hook_installed()
    assert f(1, 2, z=4) == (1, 1, (2,), 3, {"z": 4})
    assert seen == [(f, f.__code__, [1, 3, (2,), {"z": 4}, None])]


def test_result_in_place_of_the_frame(mark):
    mark(add, lambda f, c, values: ("result", values[0] * 100) if values[0] > 5 else None)
    assert add(1) == 3
    assert add(6) == 600
    assert list(map(add, [1, 7])) == [3, 700]


def test_error_in_place_of_the_frame(mark):
    mark(add, lambda f, c, values: ("raise", KeyError("no")))
    with pytest.raises(KeyError, match="no"):
        add(1)
    with pytest.raises(KeyError):
        [add(i) for i in range(3)]


def test_replacement_code(mark):
    splice = core._splice_make(add.__code__, None, True)
    mark(add, lambda *a: splice.code)
    before = splice.asked
    assert add(3) == 5
    assert splice.asked > before
    assert add.__code__ is not splice.code
    with pytest.raises(TypeError) as e:
        add(None)
    assert e.traceback[-1].lineno + 1 == add.__code__.co_firstlineno + 1


def test_replacement_with_another_layout_is_declined(mark):
    mark(add, lambda *a: (lambda: 1).__code__)
    assert add(3) == 5


class Counted:
    def __init__(self, x=1):
        self.x = x

    def method(self):
        return self.x

    @property
    def value(self):
        return self.x

    def __getitem__(self, key):
        return self.x + key

    def __getattr__(self, name):
        return name


def made_later():
    return type("Later", (Counted,), {"y": 1})


KINDS_OF_CALLS = {
    "function": (add, lambda made, later: add(1)),
    "defaults": (add, lambda made, later: add(x=1)),
    "method": (Counted.method, lambda made, later: made.method()),
    "property": (Counted.value.fget, lambda made, later: made.value),
    "item": (Counted.__getitem__, lambda made, later: made[1]),
    "attribute": (Counted.__getattr__, lambda made, later: made.missing),
    "constructor": (Counted.__init__, lambda made, later: Counted(2)),
    "constructor, defaults": (Counted.__init__, lambda made, later: Counted()),
    "constructor of a later class": (Counted.__init__, lambda made, later: later(2)),
}


@pytest.mark.parametrize("kind", KINDS_OF_CALLS)
def test_frames_of_calls_that_are_specialised(mark, kind):
    function, call = KINDS_OF_CALLS[kind]
    made = Counted()
    earlier = made_later()

    def calls(n, cls):
        for _ in range(n):
            call(made, cls)

    calls(200, earlier)  # before the mark: the interpreter has specialised it
    seen = []
    mark(function, lambda f, code, values: seen.append(code))
    calls(200, earlier)
    later = made_later()
    calls(200, later)
    assert seen == [function.__code__] * 400
    assert type(later()) is later and later(5).x == 5 and later().y == 1


def test_stack_is_reserved_once_and_for_generators_alone(mark):
    def f():
        return 1

    def g():
        yield 1

    before = [f.__code__.co_stacksize, g.__code__.co_stacksize]
    for function in (f, g):
        mark(function, lambda *a: None)
        mark(function, lambda *a: None)
        core._hook_unmark(function.__code__)
        mark(function, lambda *a: None)
    assert [f.__code__.co_stacksize, g.__code__.co_stacksize] == [before[0], before[1] + 1]


def test_frames_made_before_the_mark_go_on(mark):
    def f(n):
        if n == 0:
            splice = core._splice_make(f.__code__, None, True)
            mark(f, lambda *a: splice.code)
            return [f(-1)]
        if n < 0:
            return "replaced"
        return [n, *f(n - 1)]

    assert f(3) == [3, 2, 1, "replaced"]


def test_generators_are_replaced_at_creation_and_not_when_resumed(mark):
    seen = []

    def gen(n):
        for i in range(n):
            got = yield i
            seen.append(got)
        return "end"

    old = gen(2)
    next(old)
    splice = core._splice_make(gen.__code__, None, True)
    entered = []

    def enter(*a):
        entered.append(1)
        return splice.code

    mark(gen, enter)
    g = gen(3)
    assert entered == [1]
    assert [next(g), g.send("a"), next(g)] == [0, 1, 2]
    with pytest.raises(StopIteration, match="end"):
        next(g)
    assert seen == ["a", None, None]
    assert splice.asked > 0
    assert next(old) == 1
    assert entered == [1]
    g = gen(3)
    next(g)
    with pytest.raises(KeyError):
        g.throw(KeyError("thrown"))
    g = gen(1)
    next(g)
    g.close()


def test_coroutines(mark):
    import asyncio

    async def co(n):
        await asyncio.sleep(0)
        return n * 2

    async def agen(n):
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    splices = {f.__code__: core._splice_make(f.__code__, None, True) for f in (co, agen)}
    for f in (co, agen):
        mark(f, lambda function, code, values: splices[code].code)

    async def main():
        return await co(3), [x async for x in agen(3)]

    assert asyncio.run(main()) == (6, [0, 1, 2])
    assert all(s.asked for s in splices.values())


def test_closures_are_entered_before_cells_exist(mark):
    def f(x, y):
        def inner():
            return x + y + z

        y += 1
        return inner()

    z = 10
    seen = []
    splice = core._splice_make(f.__code__, None, True)

    def enter(function, code, values):
        seen.append(values)
        return splice.code

    mark(f, enter)
    assert f(1, 2) == 14
    assert seen[0][:2] == [1, 2]


def test_deep_recursion_with_the_hook():
    program = """
import sys
from splice_support import core
sys.setrecursionlimit(200000)

def f(n):
    return 0 if n == 0 else 1 + f(n - 1)

calls = 0
def count(*a):
    global calls
    calls += 1

assert core._hook_mark(f.__code__, count)
assert f(60000) == 60000
assert 100 < calls < 60000, calls  # 3.12 and 3.13 allow less C recursion
assert core._hook_installed()
before = calls
assert f(10) == 10
assert calls == before + 11

import threading
for kilobytes in (128, 160, 1024):
    threading.stack_size(kilobytes * 1024)
    result = []
    t = threading.Thread(target=lambda: result.append(f(20000)))
    t.start(); t.join()
    assert result == [20000], kilobytes
sys.setrecursionlimit(1000)
try:
    f(100000)
except RecursionError:
    pass
else:
    raise AssertionError
assert core._hook_installed()
core._hook_unmark(f.__code__)
assert not core._hook_installed()
print("fine")
"""
    run_program(program)


def run_program(program):
    import pathlib

    here = str(pathlib.Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {[here, *sys.path]!r}\n{program}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("fine")


def test_another_tool_puts_the_hook_back():
    program = """
import ctypes
from splice_support import core

get = ctypes.pythonapi._PyInterpreterState_GetEvalFrameFunc
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
put = ctypes.pythonapi._PyInterpreterState_SetEvalFrameFunc
put.restype, put.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p]
current = ctypes.pythonapi.PyInterpreterState_Get
current.restype = ctypes.c_void_p

def f(): return 1
def g(): return 2

plain = get(current())
core._hook_mark(f.__code__, lambda *a: None)
hook = get(current())
put(current(), plain)
core._hook_unmark(f.__code__)
put(current(), hook)
assert f() == 1
core._hook_mark(g.__code__, lambda *a: ("result", 3))
assert f() == 1 and g() == 3
core._hook_unmark(g.__code__)
assert g() == 2 and get(current()) == plain
print("fine")
"""
    run_program(program)


def test_patterns_ask_once_for_each_code():
    asked = []

    def f():
        return 1

    def g():
        return 2

    def discover(function, code):
        asked.append(code)
        return (lambda *a: ("result", "found")) if code is f.__code__ else None

    core._hook_discover(discover)
    results = [f(), g(), f(), g()]
    core._hook_discover(None)
    assert results == ["found", 2, "found", 2]
    assert asked.count(f.__code__) == asked.count(g.__code__) == 1
    core._hook_unmark(f.__code__)
    assert f() == 1
    # New patterns ask again.
    core._hook_discover(discover)
    g()
    core._hook_discover(None)
    assert asked.count(g.__code__) == 2


def test_first_frame_of_discovered_code_is_replaced():
    program = """
from splice_support import core
core._hook_splice_all(0, 1, ())
exec("def once(a):\\n  b = [a]\\n  return b\\nx = once(1)", scope := {})
core._hook_splice_all(None)
assert scope["x"] == [1]
counters = core._hook_splice_all_counters()
assert counters["asked"] > 10, counters
print("fine")
"""
    run_program(program)


def test_mark_goes_with_the_code():
    scope = {}
    exec("def f(): return 1", scope)
    interceptor = lambda *a: None  # noqa: E731
    reference = weakref.ref(interceptor)
    core._hook_mark(scope["f"].__code__, interceptor)
    del interceptor
    assert core._hook_installed()
    assert scope["f"]() == 1
    scope.clear()
    gc.collect()
    assert reference() is None
    assert not core._hook_installed()


def test_unmark_while_the_interceptor_runs():
    def f():
        return 1

    def enter(*a):
        core._hook_unmark(f.__code__)
        gc.collect()
        return ("result", "once")

    core._hook_mark(f.__code__, enter)
    assert [f(), f()] == ["once", 1]


def test_regions_exit_with_the_hook_installed(mark):
    def f(x):
        y = x
        return y

    rows = core._splice_decode(f.__code__)
    last = next(i for i, r in enumerate(rows) if r[0] == "ReturnValue")
    g = spliced(f, lambda site, *a: (last, {}, ["from the region"]) if site == 1 else None)
    mark(add, lambda *a: None)
    for _ in range(100):
        assert g(1) == "from the region"
        assert core._hook_installed()
        assert add(1) == 3


def test_threads(mark):
    splice = core._splice_make(add.__code__, None, True)
    mark(add, lambda *a: splice.code)
    failures = []

    def work():
        for i in range(2000):
            if add(i, 5) != i + 5:
                failures.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_chains_to_the_hook_before():
    """A trampoline of -X perf is a PEP 523 hook; it must still see frames, and be there afterwards."""
    _testinternalcapi = pytest.importorskip("_testinternalcapi")
    if not hasattr(_testinternalcapi, "set_eval_frame_record"):
        pytest.skip("no hook to chain to")
    seen = []
    _testinternalcapi.set_eval_frame_record(seen)
    try:
        core._hook_mark(add.__code__, lambda *a: None)
        assert add(1) == 3
        core._hook_unmark(add.__code__)
        assert add(2) == 4
    finally:
        _testinternalcapi.set_eval_frame_default()
    assert seen.count("add") == 2


def test_leaves_a_later_hook_alone():
    _testinternalcapi = pytest.importorskip("_testinternalcapi")
    if not hasattr(_testinternalcapi, "set_eval_frame_record"):
        pytest.skip("no hook to chain to")
    core._hook_mark(add.__code__, lambda f, c, values: ("result", "ours"))
    assert add(1) == "ours"
    _testinternalcapi.set_eval_frame_default()  # somebody resets the slot
    assert add(1) == 3
    core._hook_mark(add.__code__, lambda f, c, values: ("result", "again"))
    assert add(1) == "again"
    core._hook_unmark(add.__code__)
