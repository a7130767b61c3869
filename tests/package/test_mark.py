"""Marking in place: targets, patterns, handles, and the functions that must stay out."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref

import framejit as fj
import numpy as np
import pytest

MODULE = """
import numpy as np

def twice(x):
    return x * 2 + 1

def through(x):
    return [twice(v) for v in (x, x)]

class Model:
    @staticmethod
    def static(x):
        return x * 3 + 1

    @classmethod
    def of_class(cls, x):
        return x * 4 + 1

    @property
    def rate(self):
        return np.arange(3.0) * 5 + 1

    def method(self, x):
        return x * 6 + 1

    class Inner:
        def inner(self, x):
            return x * 7 + 1
"""


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    """A fresh package `name.part` with the functions above."""
    name = f"marked_{abs(hash(request.node.name))}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / name / "part.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module(f"{name}.part")
    for key in [key for key in sys.modules if key.startswith(name)]:
        del sys.modules[key]


def captured(function, *args) -> int:
    """How many marked frames ran compiled in a few calls."""
    before = fj.stats()
    for _ in range(3):
        function(*args)
    after = fj.stats()
    assert after["internal_errors"] == before["internal_errors"]
    return after["frames_captured"] - before["frames_captured"]


X = np.arange(4.0)


@pytest.mark.capture
def test_function(module):
    assert captured(module.twice, X) == 0
    with fj.mark(module.twice):
        assert captured(module.twice, X) == 3
        assert np.array_equal(module.twice(X), X * 2 + 1)
    assert captured(module.twice, X) == 0


@pytest.mark.capture
def test_close_is_harmless_twice(module):
    handle = fj.mark(module.twice)
    handle.close()
    handle.close()
    assert captured(module.twice, X) == 0


@pytest.mark.capture
def test_two_marks_of_one_function(module):
    first, second = fj.mark(module.twice), fj.mark(module.twice, jit_level="O1")
    assert captured(module.twice, X) == 3
    second.close()
    assert captured(module.twice, X) == 3
    first.close()
    assert captured(module.twice, X) == 0


@pytest.mark.capture
def test_class(module):
    model, inner = module.Model(), module.Model.Inner()
    with fj.mark(module.Model):
        assert captured(module.Model.static, X) == 3
        assert captured(module.Model.of_class, X) == 3
        assert captured(model.method, X) == 3
        assert captured(lambda: model.rate) == 3
        assert captured(inner.inner, X) == 3
        assert captured(module.twice, X) == 0
    assert captured(model.method, X) == 0


@pytest.mark.capture
@pytest.mark.parametrize("kind", ["module", "package", "name", "glob", "file"])
def test_patterns(module, kind):
    package = module.__name__.split(".")[0]
    target = {
        "module": module,
        "package": sys.modules[package],
        "name": module.__name__,
        "glob": package + ".p*",
        "file": "*/part.py",
    }[kind]
    with fj.mark(target):
        assert captured(module.twice, X) == 3
        assert captured(module.Model().method, X) == 3
    assert captured(module.twice, X) == 0


@pytest.mark.filterwarnings("ignore:mark:UserWarning")  # the names are those of no module
@pytest.mark.capture
def test_pattern_of_another_module(module):
    with fj.mark("nothing.*", module.__name__ + "x"):
        assert captured(module.twice, X) == 0


@pytest.mark.filterwarnings("ignore:mark:UserWarning")  # the names are those of no module
@pytest.mark.capture
def test_pattern_for_code_seen_before_and_modules_imported_later(module):
    package = module.__name__.split(".")[0]
    with fj.mark("nothing"):
        module.twice(X)  # asked about and turned down
        with fj.mark(package + ".*"):
            assert captured(module.twice, X) == 3
            importlib.reload(module)
            assert captured(module.twice, X) == 3


@pytest.mark.capture
def test_other_threads_see_the_mark(module):
    counts = []
    with fj.mark(module):
        thread = threading.Thread(target=lambda: counts.append(captured(module.twice, X)))
        thread.start()
        thread.join()
    assert counts == [3]


@pytest.mark.capture
def test_module_and_class_bodies_are_left_alone(module):
    with fj.mark(module):
        before = fj.stats()["frames_marked"]
        importlib.reload(module)
        assert fj.stats()["frames_marked"] == before


@pytest.mark.capture
def test_code_is_not_kept_alive_by_a_mark_that_is_closed(module):
    scope: dict = {"__name__": module.__name__}
    with fj.mark(module):
        exec("def short(x):\n    return x * 8 + 1", scope)
        assert captured(scope["short"], X) == 3
    code = weakref.ref(scope.pop("short").__code__)
    gc.collect()
    assert code() is None


@pytest.mark.capture
def test_disabled_functions_stay_out(module):
    seen = []

    def noted(x):
        seen.append(fj.is_compiling())
        return x + 1

    assert fj.disable(noted) is noted
    marked = fj.jit(lambda x: noted(x * 2) * 3)
    for _ in range(3):
        assert np.array_equal(marked(X), (X * 2 + 1) * 3)
    assert seen == [False] * 3
    with fj.mark(noted):
        assert captured(noted, X) == 0
    with fj.mark(module):
        fj.disable(module.twice)
        assert captured(module.twice, X) == 0


@pytest.mark.capture
def test_disabled_block(module):
    marked = fj.jit(module.twice)
    assert captured(marked, X) == 3
    with fj.disable():
        assert captured(marked, X) == 0
        with fj.stance("default"):
            assert captured(marked, X) == 3
        assert captured(marked, X) == 0
    assert captured(marked, X) == 3


@pytest.mark.capture
def test_fail_on_recompile(module):
    marked = fj.jit(module.twice)
    marked(X)
    with fj.stance("fail_on_recompile"):
        marked(X)
        with pytest.raises(RuntimeError, match="recompil"):
            marked(X.astype("f4"))
    assert marked(X.astype("f4")).dtype == np.float32


def test_wrong_stance():
    with pytest.raises(ValueError, match="'eager'"):
        fj.stance("eager")


def test_disable_keeps_metadata_and_errors():
    @fj.disable
    def f(x: int, *, y: int = 2) -> int:
        """Doc."""
        return x // y

    assert (f.__name__, f.__doc__) == ("f", "Doc.")
    assert f(5, y=2) == 2
    with pytest.raises(ZeroDivisionError):
        f(1, y=0)
    with pytest.raises(TypeError, match="disable"):
        fj.disable(3)


@pytest.mark.parametrize("target", [3, None, len, [X]])
def test_wrong_targets(target):
    with pytest.raises(TypeError, match="mark.*takes functions"):
        fj.mark(target)


@pytest.mark.parametrize("arguments", [{"fullgraph": True}, {"capture_mode": "ast"}])
def test_arguments_that_marks_do_not_have(arguments):
    with pytest.raises(TypeError, match=next(iter(arguments))):
        fj.mark("x", **arguments)


@pytest.mark.capture
@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("no.such.module.*", "no module named 'no'"),
        ("numpi.*", "Did you mean 'numpy'?"),
        ("numpy.nothing", "no module named 'numpy.nothing'"),
        ("numpy.nothing.*", "no module named 'numpy.nothing'"),
        ("json.decoder.below", "no module named 'json.decoder.below'"),
        ("numpy.*", ""),
        ("nump*", ""),  # the beginning of a name
        ("*", ""),
        ("*.nothing", ""),
        ("[mn]odule", ""),
        ("wsgiref.nothing", ""),  # known only once the package is imported
        ("nowhere/*.py", ""),
    ],
)
def test_pattern_that_names_no_module(pattern, said):
    assert "wsgiref" not in sys.modules
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fj.mark(pattern).close()
    assert "wsgiref" not in sys.modules
    if not said:
        assert not caught
        return
    (warning,) = caught
    assert warning.filename == __file__
    text = str(warning.message)
    assert text.startswith(f"mark({pattern!r}): ") and said in text


@pytest.mark.filterwarnings("ignore:mark:UserWarning")  # the names are those of no module
def test_wrong_jit_arguments():
    with pytest.raises(ValueError, match="jit_level"):
        fj.mark("x", jit_level="O7")
    with pytest.warns(UserWarning, match="stress_level"):
        fj.mark("nothing.here", stress_level=1).close()


def test_no_target():
    with pytest.raises(TypeError, match="target"):
        fj.mark()


@pytest.mark.capture
def test_environment(tmp_path):
    (tmp_path / "work.py").write_text("def f(x):\n    return x * 2 + 1\n")
    code = """
        import framejit as fj, numpy as np, work
        for _ in range(3):
            work.f(np.arange(3.0))
        print(fj.stats()["frames_captured"])
    """
    for pattern, expected in (("work, other.*", "3"), ("*/work.py", "3"), ("other", "0"), ("", "0")):
        environment = {**os.environ, "FRAMEJIT_MARK": pattern}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert (done.stdout.strip(), done.stderr) == (expected, "")


KINDS = """
import asyncio
import numpy as np

numbers = lambda x: x * 2 + 1

def generator(x):
    while True:
        x = yield x * 2 + 1

async def coroutine(x):
    await asyncio.sleep(0)
    return x * 2 + 1

async def asynchronous_generator(x):
    for i in range(3):
        yield x * i

def run_generator(x):
    g = generator(x)
    return [next(g), g.send(x + 1), g.send(x + 2)]

def run_coroutine(x):
    async def main():
        return [await coroutine(x), [y async for y in asynchronous_generator(x)]]
    return asyncio.run(main())

def comprehensions(x):
    return [[v * 2 for v in x], {v: v * 2 for v in "ab"}, sorted({v + 1 for v in (1, 2)}), list(v * x for v in (1, 2))]

def body(x):
    class Inner:
        value = x * 2
        def method(self):
            return self.value + x
    return Inner().method()
"""


@pytest.mark.filterwarnings("ignore:mark:UserWarning")  # the names are those of no module
@pytest.mark.capture
@pytest.mark.parametrize("stress", [None, "rewrite"])
def test_every_kind_of_frame(stress):
    scope: dict = {"__name__": "kinds_of_frames"}
    exec(KINDS, scope)
    names = ["numbers", "run_generator", "run_coroutine", "comprehensions", "body"]
    expected = [repr(scope[name](X)) for name in names]
    with fj.mark("kinds_of_frames", stress=stress):
        before = fj.stats()
        for _ in range(4):
            assert [repr(scope[name](X)) for name in names] == expected
        after = fj.stats()
        assert after["frames_captured"] > before["frames_captured"]
        assert after["internal_errors"] == before["internal_errors"]


@pytest.mark.capture
def test_rewrite_takes_what_does_no_array_work(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "measure")  # else the loop is compiled for five rounds

    def total(n):
        s = 0
        for i in range(n):
            s += i
        return s

    with fj.mark(total):
        assert captured(total, 5) <= 1  # the one that found that out
    with fj.mark(total, stress="rewrite"):
        assert captured(total, 5) == 3
        assert [total(n) for n in range(8)] == [sum(range(n)) for n in range(8)]


@pytest.mark.capture
@pytest.mark.parametrize("kind", ["settrace", "setprofile"])
def test_tools_see_the_program_only(module, kind):
    def events_of(marked):
        seen = []

        def tool(frame, event, argument):
            seen.append((frame.f_code.co_filename, frame.f_lineno, event))
            return tool

        module.twice.__code__ = module.twice.__code__.replace()  # not seen by the patterns yet
        if marked:
            handle = fj.mark(module)
        getattr(sys, kind)(tool)
        try:
            module.twice(X)
        finally:
            getattr(sys, kind)(None)
        if marked:
            assert captured(module.twice, X) == 3
            handle.close()
        return seen

    assert events_of(True) == events_of(False) != []


@pytest.mark.capture
def test_breakpoint(module, monkeypatch):
    source = "def stops(x):\n    y = x * 2\n    breakpoint()\n    return y + 1"
    scope: dict = {"__name__": module.__name__}
    exec(source, scope)
    seen = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(dict(sys._getframe(1).f_locals)))
    with fj.mark(module):
        assert captured(scope["stops"], X) == 3
    assert len(seen) == 3
    for found in seen:
        assert list(found) == ["x", "y"] and np.array_equal(found["y"], X * 2)


@pytest.mark.capture
@pytest.mark.parametrize("limit", [200, 5000, 20000])
@pytest.mark.parametrize("stress", [None, "rewrite"])
def test_recursion_goes_as_deep(module, limit, stress):
    source = """
def depth(n, x):
    y = x * 0.5
    try:
        found = depth(n + 1, y)
    except RecursionError:
        return n
    return found if y is not None else 0
"""
    scope: dict = {"__name__": module.__name__}
    exec(source, scope)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        expected = scope["depth"](0, X)
        with fj.mark(module, stress=stress):
            for _ in range(3):
                assert scope["depth"](0, X) == expected
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.capture
def test_functions_typed_at_the_prompt():
    lines = "import framejit as fj, numpy as np\ndef f(x):\n    return x * 2 + 1\n\n"
    lines += "for i in range(3): y = f(np.arange(3.0))\n\nprint('captured', fj.stats()['frames_captured'], y)\n"
    environment = {**os.environ, "FRAMEJIT_MARK": "__main__"}
    done = subprocess.run(
        [sys.executable, "-i"], input=lines, env=environment, capture_output=True, text=True, check=True
    )
    assert "captured 3 [1. 3. 5.]" in done.stdout


@pytest.mark.capture
def test_code_first_seen_at_the_recursion_limit(module, monkeypatch):
    source = """
def down(n):
    try:
        return down(n + 1)
    except RecursionError:
        pass
    try:
        return last(n)
    except RecursionError:
        return down_again(n)

def last(n):
    return deeper(n)

def deeper(n):
    return n

def down_again(n):
    return -1
"""
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    results = []
    for marked in (False, True):
        scope: dict = {"__name__": module.__name__}
        exec(source, scope)
        if not marked:
            results.append(scope["down"](0))
            continue
        with fj.mark(module):
            results.append(scope["down"](0))
    assert results[0] == results[1] and not unraisable


@pytest.mark.capture
def test_code_first_seen_at_exit(tmp_path):
    """When the modules are emptied."""
    (tmp_path / "early.py").write_text("keep = None\ndef search(name): return None\n")
    code = """
        import codecs, early, os, sys
        codecs.register(early.search)  # holds the module
        import framejit as fj, numpy as np
        fj.mark("*")

        def late(x):
            for i in range(3):
                x = x * 2 + i
            return x

        jitted = fj.jit(late)
        jitted(np.ones(2))

        class Kept:
            def __del__(self, write=os.write, late=late, jitted=jitted, x=np.arange(4.0)):
                write(1, str(late(x).tolist() + jitted(x).tolist()).encode())

        early.keep = Kept()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == (str([4.0, 12.0, 20.0, 28.0] * 2), "")
