"""Entries: guards and recompilation, results and aliasing, flags and errstate, breaks, events."""

from __future__ import annotations

import sys
import warnings
from types import FunctionType

import framejit
import numpy as np
import pytest
from exact.same import assert_same_seen, observe
from ext.ext_support import Events, compiled, hits, same
from framejit import _core

pytestmark = pytest.mark.capture

X = np.arange(6, dtype=np.float64).reshape(2, 3)


# Recompilation.


def test_a_dimension_that_varies_becomes_symbolic():
    def function(x):
        return x * 2 + 1

    marked = compiled(function)
    with Events("recompiles") as events:
        for n in (4, 5, 6, 70, 1000):
            same(function(np.ones(n)), marked(np.ones(n)))
    (record,) = events.records("recompiles")
    assert record["function"] == "test_a_dimension_that_varies_becomes_symbolic.<locals>.function"
    assert (record["guard"], record["expected"], record["found"]) == ("x.shape[0] == 4", "4", "5")
    assert (record["entry"], record["new_entry"]) == (0, 1)
    assert "symbolic" in record["becomes"]
    assert len(marked.cache_entries()) == 2


def test_an_int_that_varies_becomes_symbolic():
    marked = compiled(lambda x, n: x * n)
    with Events("recompiles") as events:
        for n in (3, 4, 5, 6):
            same(X * n, marked(X, n))
    assert len(events.records("recompiles")) == 1
    assert events.records("recompiles")[0]["guard"] == "n == 3"


def test_a_float_that_varies_is_no_longer_guarded_by_value():
    def function(x, a):
        y = x * a
        if a > 0.5:
            return y + a
        return y - a

    marked = compiled(function)
    with Events("recompiles") as events:
        for a in (0.25, 1.5, 0.75, 0.5, float("nan"), -0.0, 3.0):
            same(function(X, a), marked(X, a))
    assert [record["guard"] for record in events.records("recompiles")] == ["a == 0.25"]
    assert len(marked.cache_entries()) == 2


@pytest.mark.parametrize("first", [-(2**63), -(2**63) + 1, -(2**62), 2**63 - 2, 2**63 - 1])
def test_ints_whose_difference_is_no_int64(first):
    def order(x, n, m):
        if n < m:
            return x + 1
        return x - 1 if n <= 7 else x * 2

    def bounds(x, n, m):
        return x[n:m] * 2, x[: m + 7 : n] + 1, x[::m]

    for function in (order, bounds):
        for other in (2**63 - 1, 0, -1, 5, -(2**63), 2**62 + 1):
            marked = compiled(function)
            for n, m in ((first, other), (other, first), (first + 1, other), (other, first - 1)):
                assert_same_seen(observe(function, (X, n, m)), observe(marked, (X, n, m)), f"{n}, {m}")


def test_floor_division_of_large_ints():
    marked = compiled(lambda x, n: x + (5 - n) // 7 + (n - 5) // 2**40 + (3 * n) // -9)
    for n in (2**30, 2**30 - 1, 1 - 2**30, 2**61 - 1, -(2**61) + 5, 7, 0):
        same(marked.__wrapped__(X, n), marked(X, n))


def test_dynamic_from_the_start():
    marked = compiled(lambda x: x * 2, dynamic=True)
    for n in (4, 5, 6):
        same(np.ones(n) * 2, marked(np.ones(n)))
    assert len(marked.cache_entries()) == 1


def test_kinds_of_arguments_make_entries():
    marked = compiled(lambda x, y: x + y)
    arguments = [
        (X, X), (X.astype("f4"), X), (X, 2.0), (X, 2), (X, True), (X, np.float32(2)), (X.T, X.T), (X[:, ::2], X[:, ::2]),
        (2.5, 3.5), (X, [1, 2, 3]), (np.asfortranarray(X), X), (X[0], X), (X, np.array(3)), (np.matrix(X), X),
    ]
    for _ in range(2):
        for a, b in arguments:
            same(a + b, marked(a, b))


def test_the_limit_of_entries_ends_in_the_interpreter():
    def function(x, name):
        return x * len(name)

    marked = compiled(function)
    with warnings.catch_warnings(record=True) as caught, Events("recompiles") as events:
        warnings.simplefilter("always")
        for i in range(40):
            name = "a" * i
            same(function(X, name), marked(X, name))
    limited = [w for w in caught if issubclass(w.category, framejit.RecompileLimitWarning)]
    assert len(limited) == 1
    assert limited[0].filename == __file__
    registry = globals().get("__warningregistry__", {})  # a name that would be new among the user's
    assert not any(framejit.RecompileLimitWarning in key for key in registry if isinstance(key, tuple))
    assert "recompile_limit" in str(limited[0].message)
    assert len(marked.cache_entries()) == framejit.config.recompile_limit + 1
    assert "new_entry" not in events.records("recompiles")[-1]


def test_no_warning_where_few_calls_are_lost():
    def function(x, name):
        return x * len(name)

    marked = compiled(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error", framejit.RecompileLimitWarning)
        for i in range(framejit.config.recompile_limit + 5):
            same(function(X, "a" * i), marked(X, "a" * i))
        for _ in range(50):
            same(function(X, "aaa"), marked(X, "aaa"))


LIBRARY = """
import time

def called(x, name):
    time.monotonic()
    return x * len(name)
"""


@pytest.mark.parametrize("folder, warned", [("", True), ("lib/site-packages/", False)])
def test_no_warning_about_code_of_a_library(folder, warned):
    scope: dict = {}
    exec(compile(LIBRARY, f"/somewhere/{folder}module.py", "exec"), scope)
    called = scope["called"]

    def function(x, name):
        return called(x, name) + 1

    marked = compiled(function)
    with warnings.catch_warnings(record=True) as caught, Events("recompiles") as events:
        warnings.simplefilter("always")
        for i in range(80):
            same(function(X, "a" * i), marked(X, "a" * i))
    limited = [str(w.message) for w in caught if issubclass(w.category, framejit.RecompileLimitWarning)]
    assert any(text.startswith("called() was compiled") for text in limited) == warned
    (record,) = (r for r in events.records("recompiles") if "new_entry" not in r and r["function"] == "called")
    assert record["file"] == f"/somewhere/{folder}module.py"


def growing(kind):
    """Functions of a list that is longer in each call."""

    def by_length(x, items):
        if len(items) < 30:
            items.append(float(x.sum()))
        return x * len(items)

    def by_truth(x, items):
        total = x + 1 if items else x - 1
        items.append(None)
        return total

    def appended_before(x, items):
        items.append(x)
        if len(items) % 2 and not len(items) > 50:
            items.append(None)
        return x + (2 * len(items) - 1)

    def pattern(x, items):
        items.append(1.0)
        match items:
            case [first]:
                return x + first
            case _:
                return x

    def other_kinds(x, items):
        n = len(items)
        items.extend(range(n % 3 + 1))
        return x * n, f"{n:>4}", n / 4 + len(items), list(range(max(0, 3 - n)))

    return {f.__name__: f for f in (by_length, by_truth, appended_before, pattern, other_kinds)}[kind]


@pytest.mark.parametrize("kind", ["by_length", "by_truth", "appended_before", "pattern", "other_kinds"])
def test_a_list_that_grows(kind):
    function = growing(kind)
    marked = compiled(function)
    expected, got = [], []
    with warnings.catch_warnings():
        if kind in ("by_length", "by_truth", "appended_before"):
            warnings.simplefilter("error", framejit.RecompileLimitWarning)
        else:
            warnings.simplefilter("ignore", framejit.RecompileLimitWarning)
        for i in range(80):
            assert_same_seen(observe(function, (X + i, expected)), observe(marked, (X + i, got)), str(i))
            assert len(got) == len(expected)
    if kind in ("by_length", "by_truth", "appended_before"):
        assert len(marked.cache_entries()) <= 5
        assert hits(marked) > 60


@pytest.mark.parametrize("stress", ["verify", "guards", "break=3", "rewrite", "interp"])
def test_a_list_that_grows_under_stress(stress):
    for kind in ("by_length", "by_truth", "appended_before", "pattern", "other_kinds"):
        marked = growing(kind)
        function = FunctionType(marked.__code__.replace(), globals())  # of a code object that has no mark
        expected, got = [], []
        with warnings.catch_warnings(), framejit.mark(marked, stress=stress):
            warnings.simplefilter("ignore", framejit.RecompileLimitWarning)
            for i in range(40):
                assert_same_seen(observe(function, (X + i, expected)), observe(marked, (X + i, got)), f"{kind} {i}")


def test_a_list_of_another_length_than_guarded():
    marked = compiled(lambda x, items: x * len(items))
    with Events("recompiles") as events:
        for n in (2, 5, 0, 70, 1000):
            same(X * n, marked(X, [None] * n))
    (record,) = events.records("recompiles")
    assert (record["guard"], record["expected"], record["found"]) == ("len(items) == 2", "2", "5")
    assert "symbolic" in record["becomes"]
    assert len(marked.cache_entries()) == 2
    for items in ((), (1, 2), {1: 2}, {4, 5}, "abc", np.ones(3), range(4)):
        same(X * len(items), marked(X, items))
    with pytest.raises(TypeError, match="object of type 'int' has no len"):
        marked(X, 5)


def test_past_the_limit_the_least_used_entry_goes():
    def function(x, name):
        return x * len(name)

    marked = compiled(function)
    limit = framejit.config.recompile_limit
    with pytest.warns(framejit.RecompileLimitWarning):
        for i in range(limit + 1):
            for _ in range(limit + 3 - i):
                same(function(X, "a" * i), marked(X, "a" * i))
        for _ in range(600):  # values that came later are what the program does now
            same(function(X, "b" * 30), marked(X, "b" * 30))
    entries = marked.cache_entries()
    assert len(entries) == limit + 1
    guards = [" ".join(entry["guards"]) for entry in entries]
    assert any("b" * 30 in text for text in guards) and not any(f"'{'a' * limit}'" in text for text in guards)
    hits = {text: entry["hits"] for text, entry in zip(guards, entries)}
    assert max(hits.values()) > 100


KINDS = [
    np.ones(shape, dtype)
    for dtype in ("f8", "f4", "i8", "i4", "i2", "u1", "u2", "c16", "c8", "?")
    for shape in ((5,), (2, 3), (2, 1, 2), (1, 2, 1, 2))
]


def test_dtypes_and_ranks_are_compiled_in_any_number():
    def function(x):
        return x * x + x

    marked = compiled(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error", framejit.RecompileLimitWarning)
        for x in KINDS:
            same(function(x), marked(x))
            same(function(2.5), marked(2.5))  # has no array work: of no consequence for the others
        made = framejit.stats()["recompiles"]
        assert len(marked.cache_entries()) == len(KINDS)
        for _ in range(3):
            for x in KINDS:
                same(function(x), marked(x))
    assert framejit.stats()["recompiles"] == made
    assert all(entry["hits"] == 4 for entry in marked.cache_entries())


def test_sizes_become_symbolic_for_each_dtype_by_itself():
    marked = compiled(lambda x: x * 2)
    for n in range(3, 20):
        for dtype in ("f8", "f4", "i8", "i4", "c16"):
            x = np.ones(n, dtype)
            same(x * 2, marked(x))
    assert len(marked.cache_entries()) == 10


def test_classes_without_number_do_not_stay():
    def function(x, named):
        return x * named.scale

    marked = compiled(function)
    classes = [type("Named", (), {"scale": 2.0 + i}) for i in range(200)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", framejit.RecompileLimitWarning)
        for named in classes:
            same(function(X, named()), marked(X, named()))
    assert len(marked.cache_entries()) <= 64


def test_copied_dtypes_fit():
    import pickle

    marked = compiled(lambda x: x * 2)
    marked(X)
    copied = pickle.loads(pickle.dumps(X))
    same(X * 2, marked(copied))
    assert len(marked.cache_entries()) == 1


def test_aliased_arguments():
    def function(x, y):
        x += 1
        return x * y

    marked = compiled(function)
    for _ in range(2):
        a, b = X.copy(), X.copy()
        same(function(a, a), marked(b, b))
        same(a, b)
        a, b = X.copy(), X.copy()
        same(function(a, X), marked(b, X))
        same(a, b)
        a, b = np.arange(8.0), np.arange(8.0)
        same(function(a[1:], a[:-1]), marked(b[1:], b[:-1]))
        same(a, b)


# Results.


def test_results_own_their_memory():
    from importlib import import_module

    try:
        multiarray = import_module("numpy._core.multiarray")
    except ImportError:
        multiarray = import_module("numpy.core.multiarray")
    marked = compiled(lambda x: x * 2)
    marked(X)
    result = marked(X)
    assert result.flags.owndata and result.base is None and result.flags.writeable
    assert multiarray.get_handler_name(result) == "framejit"
    result.resize((40, 50), refcheck=False)
    assert result.shape == (40, 50) and result[39, 49] == 0
    view = result[1:]
    del result
    view += 1
    assert view[0, 0] == 1
    assert marked(np.ones((0, 3))).shape == (0, 3)


def test_results_die_on_other_threads():
    import queue
    import threading

    marked = compiled(lambda x: x * 2)
    results: queue.Queue = queue.Queue()

    def drain():
        while results.get() is not None:
            pass

    thread = threading.Thread(target=drain)
    thread.start()
    for n in (10, 1000, 300_000):
        for _ in range(50):
            results.put(marked(np.ones(n)))
    results.put(None)
    thread.join()


def test_views_alias_as_numpys():
    def function(x):
        y = x * 2
        return y, y[1:], y.T, x[:, 1], x.reshape(6)

    marked = compiled(function)
    for _ in range(2):
        x = X.copy()
        expected, actual = function(x), marked(x)
        same(expected, actual)
        assert actual[1].base is actual[0] and actual[2].base is actual[0]
        assert actual[3].base is x and actual[4].base is x
        actual[0][:] = 7
        assert actual[1][0, 0] == 7 and actual[2][0, 0] == 7
    view = np.arange(12.0).reshape(2, 6)[:, ::2]
    assert marked(view)[3].base is function(view)[3].base


def test_equal_results_are_two_objects():
    marked = compiled(lambda x: (x + 1, x + 1, [x * 2, x * 2]))
    for _ in range(2):
        a, b, (c, d) = marked(X)
        same((X + 1, X + 1, X * 2), (a, b, c))
        assert a is not b and c is not d
        assert not np.shares_memory(a, b) and not np.shares_memory(c, d)


def test_identity_is_kept():
    def function(x, extra):
        y = x * 2
        pair = (y, y)
        return pair, pair, y, x, extra

    marked = compiled(function)
    extra = object()
    for _ in range(2):
        pair, again, y, x, back = marked(X, extra)
        assert pair is again and pair[0] is pair[1] is y and x is X and back is extra


def test_numbers():
    def function(x):
        return x.sum(), float(x.max()), x.min() + 1, int(x.shape[0]), x[0, 1], bool(x.shape[1] > 2), (x > 1).any()

    marked = compiled(function)
    for x in (X, X + 1, X.astype("f4"), X.astype("i4")):
        same(function(x), marked(x))


def test_containers_and_effects():
    log = []
    cell = 0

    class Box:
        value = None

    box = Box()

    def function(x, items, table):
        nonlocal cell
        y = x * 2
        log.append("called")
        items.append(y)
        items[0] = y + 1
        table["y"] = y
        box.value = y
        cell = cell + 1
        return {"y": y, "n": [1, (2, y)]}

    marked = compiled(function)
    for i in range(3):
        items, table = [0], {"old": 1}
        result = marked(X, items, table)
        same(X * 2, result["y"])
        assert items[1] is result["y"] is table["y"] is box.value is result["n"][1][1]
        same(X * 2 + 1, items[0])
        assert cell == i + 1 and len(log) == i + 1
        assert list(table) == ["old", "y"]


# Floating-point flags.


def test_warnings_are_numpys():
    def function(x):
        y = 1 / x
        return y + 1

    marked = compiled(function)
    marked(X + 1)
    x = X.copy()
    for _ in range(7):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            actual = marked(x)
        assert len(caught) == 1
        assert "divide by zero" in str(caught[0].message)
        assert caught[0].filename == __file__
        with np.errstate(all="ignore"):
            same(function(x), actual)
            same(function(x), marked(x))
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
            marked(x)
    with np.errstate(all="ignore"):
        before = hits(marked)
        marked(x)
        assert hits(marked) == before + 1


def test_in_place_is_undone_before_numpy_warns():
    def function(x):
        x += 1
        x /= np.array(0.0)
        x -= 1
        return x

    marked = compiled(function)
    for _ in range(3):
        for errstate in ({"all": "ignore"}, {"divide": "warn"}, {"divide": "raise", "invalid": "raise"}):
            a, b = X.copy(), X.copy()
            outcomes = []
            for call, x in ((function, a), (marked, b)):
                with np.errstate(**errstate), warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    try:
                        call(x)
                        outcomes.append(len(caught))
                    except FloatingPointError as error:
                        outcomes.append(str(error))
            assert outcomes[0] == outcomes[1]
            same(a, b)


def test_an_entry_whose_flags_keep_firing_rests():
    marked = compiled(lambda x: 1 / x)
    with np.errstate(all="ignore"):
        marked(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Events("perf") as events:
            for _ in range(20):
                marked(X)
    assert any(record.get("what") == "demoted" for record in events.records("perf"))


def test_an_entry_whose_conditions_never_hold_rests(monkeypatch):
    """The length of what np.bincount gives is the least one when the graph is made, and another in each run."""
    monkeypatch.setattr(framejit.config, "stress", "losing")
    function = lambda x, places: np.bincount(places, weights=x, minlength=5)  # noqa: E731
    marked, x, places = compiled(function), np.linspace(0, 1, 8), np.arange(8) + 7
    with Events("perf") as events:
        for _ in range(200):
            same(marked(x, places), function(x, places))
    assert [record["what"] for record in events.records("perf")].count("demoted") == 1
    before = framejit.stats()["library_calls"]
    for _ in range(200):
        marked(x, places)
    assert framejit.stats()["library_calls"] - before < 10
    for _ in range(200):  # where they hold again
        marked(x, places % 5)
    before = framejit.stats()["library_calls"]
    same(marked(x, places % 5), function(x, places % 5))
    assert framejit.stats()["library_calls"] == before + 1


# Long runs.


def test_a_signal_cancels_a_long_run():
    import signal
    import time

    x = np.full(30_000_000, 0.5)
    marked = compiled(lambda x: np.sin(np.sin(np.sin(np.sin(np.sin(np.sin(x)))))) + 1)
    marked(x[:10])

    class Alarm(Exception):
        pass

    def ring(number, frame):
        raise Alarm

    old = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        start = time.perf_counter()
        with pytest.raises(Alarm):
            for _ in range(20):
                marked(x)
        assert time.perf_counter() - start < 60
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    same(np.sin(x[:1000]) + 1, compiled(lambda x: np.sin(x) + 1)(x[:1000]))


def test_large_arrays_release_the_gil():
    import threading

    x = np.ones(3_000_000)
    marked = compiled(lambda x: np.exp(x * 0.5) + x)
    expected = np.exp(x * 0.5) + x
    failures = []

    def work():
        for _ in range(5):
            if not np.array_equal(marked(x), expected):
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# Breaks.


def test_breaks_keep_the_rest_compiled(capsys):
    def function(x):
        y = x * 2
        print("between")
        z = y + 1
        return z * y

    marked = compiled(function)
    with Events("graph_breaks") as events:
        for _ in range(3):
            same(X * 2 * (X * 2 + 1), marked(X))
    assert capsys.readouterr().out == "between\n" * 3
    (record,) = events.records("graph_breaks")
    assert record["id"] == "FJ010" and record["line"] == function.__code__.co_firstlineno + 2
    entries = marked.cache_entries()
    assert len(entries) == 2 and all(entry["kind"] == "region" for entry in entries)
    report = marked._report()
    assert report["spliced"] and len(report["breaks"]) == 1


def test_exceptions_keep_line_and_text():
    def function(x):
        y = x * 2
        return y + np.ones(7)

    marked = compiled(function)
    for _ in range(3):
        with pytest.raises(ValueError, match="could not be broadcast") as caught:
            marked(X)
        last = caught.traceback[-1]
        assert last.name == "function" and last.lineno + 1 == function.__code__.co_firstlineno + 2


def test_fullgraph_raises_before_anything_ran(capsys):
    def function(x, items):
        items.append(1)
        y = x * 2
        print("never", file=None)
        return y

    marked = compiled(function, fullgraph=True)
    for _ in range(2):
        items = []
        with pytest.raises(framejit.GraphBreakError) as caught:
            marked(X, items)
        assert items == [] and capsys.readouterr().out == ""
        text = str(caught.value)
        assert "FJ010" in text and "print" in text and "test_entries.py" in text
        assert caught.value.record["line"] == function.__code__.co_firstlineno + 3
    whole = compiled(lambda x: x * 2, fullgraph=True)
    same(X * 2, whole(X))


def test_finalizers_and_state_after_a_region():
    order = []

    class Noisy:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            order.append(self.name)

    def function(x, box):
        box["item"] = None
        y = x * 2
        return y

    marked = compiled(function)
    for i in range(3):
        box = {"item": Noisy(i)}
        same(X * 2, marked(X, box))
        assert order == list(range(i + 1))


# Settings.


def test_stance():
    marked = compiled(lambda x: x * 2)
    marked(X)
    assert _core.set_stance("force_eager") == "default"
    try:
        before = hits(marked)
        marked(X)
        assert hits(marked) == before
    finally:
        assert _core.set_stance("fail_on_recompile") == "force_eager"
    try:
        marked(X)
        with pytest.raises(RuntimeError, match="x.shape"):
            marked(np.ones((9, 9)))
    finally:
        _core.set_stance("default")
    with pytest.raises(ValueError, match="stance"):
        _core.set_stance("whatever")


def test_disabled_code():
    marked = compiled(lambda x: x * 2)
    _core.disable_code(marked.__code__)
    try:
        same(X * 2, marked(X))
        assert marked.cache_entries() == []
    finally:
        _core.enable_code(marked.__code__)
    marked(X)
    assert len(marked.cache_entries()) == 1


def test_disabled_callees_are_not_inlined():
    seen = []

    def callee(x):
        seen.append(framejit.is_compiling())
        return x + 1

    marked = compiled(lambda x: callee(x * 2) * 3)
    same((X * 2 + 1) * 3, marked(X))
    _core.disable_code(callee.__code__)
    try:
        seen.clear()
        for _ in range(2):
            same((X * 2 + 1) * 3, marked(X))
        assert seen == [False, False]
    finally:
        _core.enable_code(callee.__code__)


def test_config():
    with pytest.raises(KeyError):
        _core.config_get("nothing")
    with pytest.raises(ValueError, match="recompile_limit"):
        _core.config_set("recompile_limit", -1)
    with pytest.raises(ValueError, match="channel"):
        _core.set_event_handler(print, ["nothing"])


def test_events_of_a_compilation():
    marked = compiled(lambda x: x * 2)
    with Events("guards", "graph", "kernels", "asm", "perf") as events:
        marked(X)
    assert "x.shape == (2, 3)" in events.records("guards")[0]["text"]
    assert events.records("graph")[0]["text"].startswith("graph @")
    assert events.records("kernels")[0]["text"]
    assert events.records("asm")[0]["text"]
    assert events.records("perf")[0]["codegen_ns"] > 0


def test_a_handler_that_raises_changes_nothing(monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: unraisable.append(info.exc_type))
    marked = compiled(lambda x: x * 2)

    def handler(channel, record):
        raise ValueError(channel)

    _core.set_event_handler(handler, ["graph"])
    try:
        same(X * 2, marked(X))
        assert unraisable == [ValueError]
    finally:
        _core.set_event_handler(None)


def test_stats_count():
    framejit.reset()
    marked = compiled(lambda x: x * 2)
    for _ in range(5):
        marked(X)
    marked(np.ones(3, "f4"))
    counted = framejit.stats()
    assert counted["frames_marked"] == counted["frames_captured"] == 6
    assert counted["guard_failures"] == 1 and counted["recompiles"] == 1
    assert counted["kernel_calls"] == 6 and counted["kernels_compiled"] == 2
    assert counted["compile_ns"] > 0 and counted["code_bytes"] > 0


def test_constants_that_library_functions_read():
    def f(x):
        return np.square(3), x * np.cbrt(2.5), np.square(x.shape[0]), np.sort(np.broadcast_to(2.0, 3))

    marked = framejit.jit(f)
    for _ in range(3):
        np.full(8, np.nan).tolist()  # in the memory that comes next
        expected, found = f(X), marked(X)
        assert [(type(a), a.tobytes()) for a in expected] == [(type(a), a.tobytes()) for a in found]
    assert "library_call" in str(framejit.explain(f)(X))
