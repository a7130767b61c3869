"""Callees that break inside: compiled while the function that calls them runs, and nowhere else."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import weakref

import framejit
import numpy as np
import pytest
from ext.ext_support import same
from framejit import _core

pytestmark = pytest.mark.capture

X = np.arange(6, dtype=np.float64).reshape(2, 3)
pause = gc.isenabled


@pytest.fixture(autouse=True)
def no_hook_is_left():
    yield
    assert not _core.hook_installed()


def checked(function, *args, times=4):
    """Marked and plain, with what was compiled of the function's callees, by name."""
    marked = framejit.jit(function)
    for _ in range(times):
        same(function(*args), marked(*args))
    return marked, compiled(marked)


def compiled(marked):
    return {r["function"].rsplit(".", 1)[-1]: (len(r["entries"]), r["hits"]) for r in map(with_hits, marked._report()["callees"])}


def with_hits(report):
    return {**report, "hits": sum(entry["hits"] for entry in report["entries"])}


def inner(x, y):
    z = x * y + 1
    pause()
    return z * z - x


def test_a_callee_behind_a_break():
    def outer(x, y):
        z = x * 2
        for _ in range(3):
            z = inner(z, y) * 0.5
        return z - y

    marked, callees = checked(outer, X, X + 1)
    # Four calls; the call that finds it compiles it: capture of the whole comes before its frames.
    assert callees == {"inner": (2, 2 * 3 * 4)}
    explained = framejit.explain(outer)(X, X + 1)
    assert [b["detail"] for b in explained.breaks] == ["'gc.isenabled'"]  # one place, though two functions stop there
    assert {f.name.rsplit(".", 1)[-1] for f in explained.functions} == {"inner", "outer"}
    # Not marked itself.
    hits = compiled(marked)
    inner(X, X)
    assert compiled(marked) == hits
    marked.cache_clear()
    assert compiled(marked) == {}
    same(outer(X, X), marked(X, X))
    assert compiled(marked)["inner"][0] == 2


def test_all_on_the_way_to_the_break():
    def innermost(x):
        x = x * 3
        pause()
        return x + 1

    def middle(x):
        y = x - 1
        return innermost(y) * y

    def outer(x):
        return middle(x * 2) + x

    _, callees = checked(outer, X)
    assert callees["innermost"][0] == 2 and callees["middle"][0] == 2


@pytest.mark.parametrize("kind", ["comprehension", "generator", "method", "lambda", "key", "constructor", "property", "contextmanager"])
def test_kinds_of_callees(kind):
    class Scaled:
        def __init__(self, x):
            self.x = x * 2 + 1
            pause()
            self.y = self.x * x - 1

        @property
        def twice(self):
            z = self.y * 2 + self.x
            pause()
            return z * z - 1

        def method(self, x):
            z = x * self.x + 1
            pause()
            return z * z - 1

    def generate(x):
        for i in range(3):
            z = x * i + 1
            pause()
            yield z * z - x

    @contextlib.contextmanager
    def managed(x):
        z = x * 2 + 1
        pause()
        yield z * z - 1

    def comprehension(x):
        return [(x * i + 1, pause())[0] * 2 - x for i in range(3)]

    def generator(x):
        z = x * 2
        for item in generate(x):
            z = z + item * x
        return z

    def method(x):
        return Scaled(x).method(x * 2) + x

    def lambda_(x):
        f = lambda a: (a * 2 + 1, pause())[0] * a - 1  # noqa: E731
        return f(x) + f(x * 2)

    def key(x):
        return sorted([x, x * 2, x - 1], key=lambda a: ((a * a + 1).sum(), pause())[0])

    def constructor(x):
        return Scaled(x * 2).y + x

    def property_(x):
        return Scaled(x).twice * x

    def contextmanager(x):
        with managed(x) as z:
            y = z * x
        return y + 1

    function = {"lambda": lambda_, "property": property_}.get(kind) or locals()[kind]
    _, callees = checked(function, X, times=20)  # a property sees no array at first
    if kind == "comprehension" and sys.version_info >= (3, 12):  # it is part of its function (PEP 709)
        assert callees == {}
        return
    wanted = {
        "comprehension": "<listcomp>", "generator": "generate", "method": "method", "lambda": "<lambda>", "key": "<lambda>",
        "constructor": "__init__", "property": "twice", "contextmanager": "managed",
    }[kind]  # fmt: skip
    assert callees[wanted][0] >= 1 and callees[wanted][1] >= 3, callees


def test_settings_are_the_function_s():
    def step(x):
        y = np.exp(x) * 2
        pause()
        return np.exp(-y) + 1

    def outer(x):
        return step(x) * 2

    exact = framejit.jit(outer)
    loose = framejit.jit(outer, jit_level="O1")
    for _ in range(3):
        same(outer(X), exact(X))
        np.testing.assert_allclose(loose(X), outer(X), rtol=1e-14)
        same(step(X), step(X))
    entries = [f._report()["callees"][0]["entries"] for f in (exact, loose)]
    assert [any(e["library_calls"] for e in own) for own in entries] == [True, False]


def test_marked_and_disabled_callees_are_left_alone():
    jitted = framejit.jit(inner)

    @framejit.disable
    def kept_out(x, y):
        z = x * y + 1
        pause()
        return z * z

    def outer(x, y):
        return jitted(x, y) + kept_out(x, y)

    _, callees = checked(outer, X, X + 1)
    assert callees == {}
    with framejit.mark(inner):
        _, callees = checked(lambda x, y: inner(x, y) * 2, X, X + 1)
        assert callees == {}


def test_marked_functions_reach_too():
    def outer(x, y):
        return inner(x * 2, y) + y

    with framejit.mark(outer):
        for _ in range(3):
            same(inner(X * 2, X) + X, outer(X, X))
        assert [(c["function"], len(c["entries"])) for c in _core.code_report(outer.__code__)["callees"]] == [("inner", 2)]


def test_patterns_find_what_is_reached():
    checked(lambda x, y: inner(x, y) * 2, X, X + 1)
    with framejit.mark(__name__):
        for _ in range(3):
            same(X * (X + 1) + 1, inner(X, X + 1) * 0 + X * (X + 1) + 1)
        assert len(_core.code_report(inner.__code__)["entries"]) == 2


def test_callees_without_array_work_cost_no_hook():
    def idle():
        pause()
        return _core.hook_installed()

    def outer(x):
        return x * 2 + idle()

    marked = framejit.jit(outer)
    seen = [bool((marked(X) - X * 2).flat[0]) for _ in range(200)]
    assert seen[:3] == [True] * 3 and not any(seen[100:])


def test_exceptions_and_lines():
    def failing(x, n):
        y = x * 2
        pause()
        if n > 2:
            raise ValueError("too much")
        return y + n

    def outer(x):
        total, raised = x * 0, []
        for n in range(5):
            try:
                total = total + failing(x, n)
            except ValueError as error:
                raised.append((str(error), error.__traceback__.tb_next.tb_lineno, error.__traceback__.tb_next.tb_frame.f_code.co_name))
        return total, raised

    _, callees = checked(outer, X)
    assert callees["failing"][0] >= 2


def test_recursion_goes_as_deep():
    def down(x, n):
        x = x * 1.5 - 1
        pause()
        return x if n == 0 else down(x, n - 1) + 1

    def outer(x, n):
        return down(x * 2, n) - 1

    deepest = sys.getrecursionlimit() - 200
    _, callees = checked(outer, X, deepest, times=2)
    assert callees["down"][0] >= 1


def test_threads_share_nothing_but_code():
    def step(x, n):
        x = x * n + 1
        pause()
        return x * x - n

    functions = [framejit.jit(lambda x, n: step(x, n) + n) for _ in range(4)]
    expected = [step(X, n) + n for n in range(4)]
    wrong = []

    def work(n):
        wrong.extend(n for _ in range(200) if functions[n](X, n).tobytes() != expected[n].tobytes())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all(compiled(f)["step"][1] > 0 for f in functions)


def test_nothing_is_kept_alive():
    class Kept:
        pass

    def make():
        scope = {"np": np, "pause": pause, "kept": Kept()}
        exec("def step(x):\n    y = x * 2\n    pause()\n    return y + 1, kept\n\ndef outer(x):\n    return step(x)[0] * 2\n", scope)
        marked = framejit.jit(scope["outer"])
        for _ in range(3):
            same(scope["outer"](X), marked(X))
        assert compiled(marked)["step"][0] == 2
        return weakref.ref(scope["kept"])

    kept = make()
    gc.collect()
    assert kept() is None


def test_code_objects_that_come_and_go():
    def outer(x, f):
        return f(x) * 2

    marked = framejit.jit(outer)
    for n in range(30):
        scope = {"pause": pause}
        exec(f"def f(x):\n    y = x * {n}\n    pause()\n    return y + 1\n", scope)
        same(scope["f"](X) * 2, marked(X, scope["f"]))
        scope.clear()
    gc.collect()
    assert len(marked._report()["callees"]) <= 2


def test_a_generator_goes_on_outside():
    def generate(x):
        for i in range(4):
            z = x * i + 1
            pause()
            yield z * z - x

    def outer(x):
        g = generate(x)
        first = next(g) * 2
        return first, g

    marked = framejit.jit(outer)
    for _ in range(3):
        first, g = marked(X)
        wanted_first, wanted = outer(X)
        same(wanted_first, first)
        same(list(wanted), list(g))


def generate(x, times):
    for _ in range(times):
        x = yield inner(x, 0.5) * 0.1


async def wait(x, times):
    for _ in range(times):
        x = inner(x, 0.5) * 0.1
        await Turn()
    return x


async def stream(x, times):
    for _ in range(times):
        x = inner(x, 0.5) * 0.1
        yield x
        await Turn()


class Turn:
    def __await__(self):
        yield


def run(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value


async def collect(values):
    return [value async for value in values]


def sent(generator):
    out = [next(generator)]
    with contextlib.suppress(StopIteration):
        while True:
            out.append(generator.send(out[-1] * 0.25))
    return out


@pytest.mark.parametrize(
    "function, drive", [(generate, sent), (wait, run), (stream, lambda values: run(collect(values)))], ids=["generator", "coroutine", "async generator"]
)
def test_callees_of_a_marked_frame_that_others_resume(function, drive):
    wanted = drive(function(X, 12))
    with framejit.mark(function):
        for _ in range(4):
            same(wanted, drive(function(X, 12)))
        callees = {r["function"]: with_hits(r) for r in _core.code_report(function.__code__)["callees"]}
        assert callees["inner"]["hits"] >= 30
        before = callees["inner"]["hits"]
        inner(X, X), inner(X, X)  # of nobody's
        assert {r["function"]: with_hits(r) for r in _core.code_report(function.__code__)["callees"]}["inner"]["hits"] == before


def test_a_marked_generator_that_is_thrown_into_and_closed():
    seen = []

    def generate(x):
        while True:
            try:
                x = inner(x, 0.5) * 0.1
                yield x
            except KeyError as error:
                seen.append((type(error), inner(x, 0.25)))
            finally:
                seen.append(inner(x, 2.0))

    def drive():
        g = generate(X)
        out = [next(g) for _ in range(10)]
        out.append(g.throw(KeyError()))
        g.close()
        out.append(list(seen))
        seen.clear()
        return out

    wanted = drive()
    with framejit.mark(generate):
        for _ in range(5):
            same(wanted, drive())


def test_long_running_functions_need_no_second_call():
    def step(x):
        y = x * 2 + 1
        pause()
        return y * 0.25 - x

    def outer(x):
        pause()
        z = x
        for _ in range(50):
            z = step(z) / 9
        return z

    marked = framejit.jit(outer)
    same(outer(X), marked(X))
    assert compiled(marked)["step"][1] > 80
