"""What newer versions of CPython do otherwise, where code that does not know it would compile and be wrong without a word."""

from __future__ import annotations

import collections
import contextlib
import dis
import subprocess
import sys
import types
import warnings
import weakref

import numpy as np
import pytest

import framejit as fj
from framejit import _core

pytestmark = pytest.mark.capture

X = np.arange(6.0)


MARKS = contextlib.ExitStack()


@pytest.fixture(autouse=True)
def marks_end():
    with MARKS:
        yield


def jitted(function, stress=None):
    """The function, compiled also where it does no work with arrays; with regions of `stress` instructions."""
    MARKS.enter_context(fj.mark(function, stress=f"rewrite,break={stress}" if stress else "rewrite"))
    return function


def twin(function):
    copy = types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__,
                              function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def same_in_all_regions(function, *args):
    """As plain Python gives it, wherever regions end."""
    expected = repr(function(*args))
    errors = fj.stats()["internal_errors"]
    for stress in (None, 1, 2, 3, 5):
        marked = jitted(twin(function), stress)
        for _ in range(3):
            assert repr(marked(*args)) == expected, stress
    assert fj.stats()["internal_errors"] == errors
    return expected


def test_callbacks_of_weak_references_run():
    # Since 3.12 the list of weak references of an instance is in front of it.
    class Held:
        pass

    def f(x, log):
        held = Held()
        watcher = weakref.ref(held, lambda _: log.append("gone"))
        y = x * 2
        held = None
        log.append("behind")
        return y, watcher() is held

    for stress in (None, 1, 2, 3):
        marked = jitted(twin(f), stress)
        for _ in range(3):
            log = []
            marked(X, log)
            assert log == ["gone", "behind"], stress


def test_a_local_from_outside_with_a_callback():
    class Held:
        pass

    def f(x, holder, log):
        held = holder.pop()
        x = x + 1
        held = 3
        log.append("behind")
        return x * held

    for stress in (None, 2):
        marked = jitted(twin(f), stress)
        for _ in range(3):
            log, held = [], Held()
            watcher = weakref.ref(held, lambda _: log.append("gone"))  # noqa: B023
            holder = [held]
            del held
            marked(X, holder, log)
            assert log == ["gone", "behind"] and watcher() is None, stress


def test_super_down_to_object():
    # Since 3.12 a static type does not hold its dict where it did.
    class Base:
        pass

    class Derived(Base):
        def __init__(self, x):
            super().__init__()
            self.x = x * 2

        def __repr__(self):
            return "Derived " + super().__repr__()[:1]

    def f(x):
        return Derived(x).x + 1

    same_in_all_regions(f, X)
    whole = fj.jit(f, fullgraph=True)
    assert np.array_equal(whole(X), f(X)) and np.array_equal(whole(X), f(X))
    assert whole.graphs().count("graph @") == 1


def test_guards_do_not_make_dicts_of_instances():
    internal = pytest.importorskip("_testinternalcapi")
    if not hasattr(internal, "has_inline_values"):
        pytest.skip("this version cannot be asked")

    class Scaled:
        def __init__(self, scale):
            self.scale = scale

        def by(self, x):
            return x * self.scale

    def f(x, scaled):
        return scaled.by(x) + 1

    marked = fj.jit(f)
    for scale in (2.0, 3.0, 2.0):
        scaled = Scaled(scale)
        assert np.array_equal(marked(X, scaled), X * scale + 1)
        assert internal.has_inline_values(scaled)


def test_an_exit_in_the_middle_of_a_call():
    # Since 3.13 NULL is behind the callable.
    def total(*args, **named):
        return sum(len(str(a)) for a in args) + len(named)

    def f(x, n):
        first = total(x + 1, n, max(n, total(x * 2, *[n, n], k=str(n))), a=n)
        return first, "".join(str(n) for _ in range(3)).count("1"), total(*[x], **{"b": n})

    same_in_all_regions(f, X, 11)


def test_a_variable_of_an_inlined_comprehension_is_unbound_behind_it():
    # Since 3.12 comprehensions are part of the function.
    def f(x, n):
        y = [v * 2 for v in (x, x + 1)]
        try:
            return v, y  # noqa: F821
        except NameError as error:
            v = 1.0
            z = {v: n for v in range(n)}
            return type(error).__name__, len(y), v, len(z)

    assert same_in_all_regions(f, X, 3) == "('UnboundLocalError', 2, 1.0, 3)"


def test_a_comprehension_whose_variable_is_bound_by_some_rounds_only():
    def f(x, counts):
        seen = []
        for n in counts:
            try:
                rows = [x + _ for _ in range(n)]
            finally:
                seen.append((len(rows), "_" in locals()))
        return seen

    assert same_in_all_regions(f, 1.5, [0, 1, 3, 0, 5]) == repr([(n, False) for n in (0, 1, 3, 0, 5)])


def test_a_comprehension_that_raises_restores_its_variable():
    def f(x, n):
        v = "before"
        try:
            y = [x / v for v in (1, n)]
        except ZeroDivisionError:
            y = []
        return v, len(y)

    assert same_in_all_regions(f, 7, 0) == "('before', 0)"
    assert same_in_all_regions(f, 7, 1) == "('before', 2)"


def test_annotations_of_functions_that_are_made():
    # Since 3.14 a function is made with the code of its annotations.
    source = """
def f(x):
    y = x * 2
    def inner(a: int, b: "text" = 1.0, *, c: list = None) -> float:
        return a + b + y
    return inner, inner(x)
"""
    world = {}
    exec(compile(source, "<annotated>", "exec", dont_inherit=True), world)
    plain = world["f"]
    for stress in (None, 1, 2, 3):
        marked = jitted(twin(plain), stress)
        for _ in range(3):
            inner, value = marked(X)
            assert inner.__annotations__ == plain(X)[0].__annotations__ == {
                "a": int, "b": "text", "c": list, "return": float,
            }
            assert inner.__defaults__ == (1.0,) and inner.__kwdefaults__ == {"c": None}
            assert np.array_equal(value, plain(X)[1]) and np.array_equal(inner(X), value)


@pytest.mark.skipif(sys.version_info < (3, 15), reason="lazy imports are new in 3.15")
def test_a_lazy_import_is_resolved_by_the_interpreter(tmp_path, monkeypatch):
    (tmp_path / "framejit_lazily_imported.py").write_text("scale = 3.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for mark in (lambda f: jitted(f), lambda f: fj.jit(f)):
        world = {"__name__": "lazy_world"}
        exec("lazy import framejit_lazily_imported as lazily\ndef f(x): return x * lazily.scale", world)
        sys.modules.pop("framejit_lazily_imported", None)
        f = mark(world["f"])
        assert type(world["lazily"]).__name__ == "lazy_import"
        for _ in range(3):
            assert np.array_equal(f(X), X * 3.0)
        assert isinstance(world["lazily"], types.ModuleType)


def test_stack_entries_that_borrow_survive_what_is_stored():
    # Since 3.14 an entry of the stack may own no reference.
    def f(x, n):
        held = [x]
        return held, [held.append(held := n), n][1], held

    same_in_all_regions(f, X, 5)


def test_loops_over_every_kind_of_iterable_with_regions_in_them():
    # Since 3.15 loops over lists, tuples and strings keep an integer where others have an iterator.
    def f(x, items, text):
        log = []
        for i, v in enumerate(items):
            for c in text:
                for k in (1, 2):
                    x = x * k + len(log)
                    log.append(c)
                if c == "b":
                    break
            else:
                x = x + i
            for k in range(v):
                x = x - k
            for k in iter(items):
                x = x + k
            for k in {1: 2}:
                x = x + k
        return x, log

    same_in_all_regions(f, 3, [1, 2, 3], "abc")
    same_in_all_regions(f, X, (2, 1), "a")


def test_a_generator_in_the_middle_of_its_loops():
    def f(items, n):
        def counted(k):
            for item in items:
                for c in "ab":
                    got = yield item, c, k
                    if got:
                        k = got
            yield from (i * k for i in range(n))

        out, g = [], counted(2)
        out.append(next(g))
        out.append(g.send(5))
        out.extend(g)
        return out

    same_in_all_regions(f, [1, 2], 3)


def test_truth_of_not_implemented():
    # It warns, and raises from 3.14 on.
    def f(x):
        try:
            return bool(NotImplemented), x
        except TypeError as error:
            return str(error), x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same_in_all_regions(f, X)


def test_builtins_that_are_replaced():
    # From 3.14 on all() and any() of a generator are loops, if they are the builtins.
    source = "def f(xs): return all(x > 1 for x in xs), any(x > 1 for x in xs), tuple(x for x in xs)"
    for world in ({}, {"all": lambda xs: "all", "any": lambda xs: "any", "tuple": lambda xs: "tuple"}):
        exec(source, world)
        same_in_all_regions(world["f"], [1, 2, 3])


def test_a_default_factory_that_sets_the_key():
    # From 3.14 on what the factory has set stays.
    def f(x):
        d = collections.defaultdict(lambda: d.__setitem__("k", 2) or 1)
        return d["k"], d["k"], x

    same_in_all_regions(f, X)


def test_functions_of_the_module_types_are_captured():
    # It has a __getattr__ on 3.13, which was asked while it was captured, without end.
    program = """
import framejit as fj

def f():
    return __name__

with fj.mark(f, "types", "types.*", stress="rewrite"):
    assert f() == "__main__"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_names_of_functions_that_make_annotations():
    # From 3.14 on; some patch levels name them when they are set.
    source = "def f(x):\n def nested(a: x) -> int: pass\n return nested.__qualname__, nested.__annotate__.__qualname__, x"
    world = {}
    exec(compile(source, "<annotations>", "exec", dont_inherit=True), world)
    if sys.version_info >= (3, 14):
        assert "nested.__annotate__" in same_in_all_regions(world["f"], 3)


def unusual_code(function):
    """The function with code that no compiler made: tables that do not matter, and bytes that are no instruction."""
    tables, bytes_ = twin(function), twin(function)
    tables.__code__ = function.__code__.replace(co_exceptiontable=b"\xbf")  # ends in the middle of an entry
    yield tables
    if sys.version_info >= (3, 14):  # earlier ones crash
        unknown = next(n for n in range(1, 256) if dis.opname[n] == f"<{n}>")
        bytes_.__code__ = function.__code__.replace(co_code=bytes([unknown]) + function.__code__.co_code[1:])
        yield bytes_


def test_code_that_no_compiler_made_runs_as_it_is():
    def f(x):
        return x + 1

    def outcome(function):
        try:
            return function(1)
        except SystemError as error:
            return str(error)

    errors = fj.stats()["internal_errors"]
    for g in unusual_code(f):
        for stress in (None, 1):
            expected = outcome(g)
            marked, caller = jitted(twin(g), stress), jitted(lambda x, g=g: g(x), stress)
            for _ in range(3):
                assert outcome(marked) == outcome(caller) == expected
    assert fj.stats()["internal_errors"] == errors


# pytest changes the assert statements of its own files.
ASSERTS = '''
def of_ints(n):
    total = 0
    for k in range(n):
        total += k
        assert k < n - 1, k
    return total

def of_caught(n):
    total = k = 0
    while k < n:
        k += 1
        try:
            assert k < 4, k
        except AssertionError:
            total += k
    return total

def of_lists(n):
    items = []
    for k in range(n):
        items.append(k)
        try:
            assert k < 4, items
        except AssertionError as error:
            items.append(len(error.args[0]))
    return items

def of_complex_numbers(n):
    total = 0j
    for k in range(n):
        total += k * 1j
        try:
            assert k < 4, total
        except AssertionError as error:
            total += error.args[0]
    return total

def of_texts(text):
    count = 0
    for c in text:
        try:
            assert c != "a", c
        except AssertionError as error:
            count += len(error.args[0])
    return count

def of_draws(rng):
    total = 0.0
    for k in range(30):
        total += rng.random()
        try:
            assert k < 4, rng
        except AssertionError:
            total += 1.0
    return total
'''


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("of_ints", lambda: 30),
        ("of_caught", lambda: 30),
        ("of_lists", lambda: 30),
        ("of_complex_numbers", lambda: 30),
        ("of_texts", lambda: "banana" * 5),
        ("of_draws", lambda: np.random.default_rng(3)),
    ],
)
def test_asserts_of_compiled_loops_whose_text_is_a_value(name, make):
    # The class and the text are on the stack where a method and its object would be.
    world = {}
    exec(compile(ASSERTS, "<asserts>", "exec", dont_inherit=True), world)

    def outcome(function):
        try:
            return repr(function(make()))
        except AssertionError as error:
            return repr(error)

    marked = fj.jit(capture_mode="bytecode")(world[name])
    for _ in range(3):
        assert outcome(marked) == outcome(world[name])


def test_core_is_for_this_version():
    assert _core.__file__ and fj.unsupported_reason() is None
