"""Functions of NumPy's inside compiled code: as steps of the plan, or as Python code that is followed."""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
import signal
import subprocess
import sys
import threading
import warnings

import framejit as fj
import numpy as np
import pytest
from exact.same import assert_same, assert_same_seen, observe
from ext.ext_support import Events

pytestmark = pytest.mark.capture


@pytest.fixture(autouse=True)
def estimated(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "estimate")


def whole(function, make_args, **options):
    marked = assert_same(function, make_args, fullgraph=True, **options)
    assert marked._report()["breaks"] == []
    return marked


def test_a_listed_function_is_a_step_of_the_graph():
    def function(x):
        return np.sort(x * 2.0, axis=0) + np.cumsum(x, axis=1)[::-1]

    marked = whole(function, lambda: (np.arange(12.0).reshape(3, 4),))
    assert marked.graphs().count("library_call") == 2
    before = fj.stats()["library_calls"]
    marked(np.ones((3, 4)))
    assert fj.stats()["library_calls"] == before + 2


@pytest.mark.parametrize("written, kept", [(True, False), (False, True)], ids=["before", "after"])
def test_what_a_function_must_stop_is_kept_only_if_the_function_comes_after_a_write(written, kept):
    """What an argument held is copied if a function that may fail runs after it was overwritten."""

    def before(x, m):
        x[:] = np.reshape(np.reshape(x, (4, 1, 8)) @ m, (4, 8))

    def after(x, m):
        x *= 2.0
        x[:] = np.reshape(np.reshape(x, (4, 1, 8)) @ m, (4, 8))

    function = before if written else after
    m = np.linspace(-1.0, 1.0, 64).reshape(8, 8)
    marked = whole(function, lambda: (np.arange(32.0).reshape(4, 8), m))
    assert ("undo" in str(fj.explain(marked)(np.ones((4, 8)), m))) == kept
    for large in (1.0, 1e308, np.inf, np.nan):
        for errstate in ({}, {"all": "ignore"}, {"all": "raise"}, {"over": "raise", "invalid": "ignore"}):
            seen = [observe(call, (np.arange(1.0, 33.0).reshape(4, 8) * large, m), errstate) for call in (function, marked)]
            assert_same_seen(*seen, f"{large} {errstate}")


def test_flags_of_a_ufunc_that_is_a_library_call():
    def function(x, y):
        return x @ y + 1.0

    unit = np.ones((3, 3))
    marked = whole(function, lambda: (unit, unit))
    assert "library_call" in marked.graphs()
    hole = np.where(np.eye(3) > 0, np.inf, 0.0)
    for x, y in itertools.product((unit, unit * 1e200, unit * 1e-200, hole, unit * np.nan), repeat=2):
        for errstate in ({}, {"all": "ignore"}, {"all": "raise"}, {"all": "warn"}, {"over": "raise"}, {"invalid": "ignore"}):
            seen = [observe(call, (x, y), errstate) for call in (function, marked)]
            assert_same_seen(*seen, f"{x[0]} {y[0]} {errstate}")


def test_numbers_as_results_and_arguments():
    def function(x, shift):
        k = int(np.argmax(x))
        return x[0] + k, np.round(x * shift, 2), np.searchsorted(x, x.mean()), float(np.median(x) + 1)

    assert_same(function, lambda: (np.arange(9.0), 0.126))


def test_one_entry_serves_many_sizes():
    def function(x, y):
        return np.sort(x) + 1, np.pad(y, 2) * 2, np.repeat(x, 3) + 0.5, np.convolve(x, y), x @ np.outer(y, y)[: x.shape[0]]

    marked = fj.jit(function)
    for n in (50, 60, 70, 80, 300, 20, 1000):
        x, y = np.cos(np.arange(n)), np.sin(np.arange(n + 40))
        assert_same_seen(observe(function, (x, y)), observe(marked, (x, y)), f"n={n}")
    assert len(marked.cache_entries()) <= 4


def test_what_raises_raises_in_the_users_line():
    def function(x):
        y = x * 2.0
        return np.linalg.inv(y) + 1.0

    marked = assert_same(function, lambda: (np.zeros((3, 3)),))
    assert_same(function, lambda: (np.eye(3),))
    assert_same_seen(observe(function, (np.eye(4),)), observe(marked, (np.eye(4),)), "regular")
    assert_same_seen(observe(function, (np.ones((4, 4)),)), observe(marked, (np.ones((4, 4)),)), "singular")


def test_indices_out_of_bounds():
    def function(x, i):
        return x[i] + 1.0

    x = np.arange(5.0)
    marked = assert_same(function, lambda: (x.copy(), np.array([0, 4, -5])))
    for bad in ([5], [-6, 0]):
        assert_same_seen(observe(function, (x, np.array(bad))), observe(marked, (x, np.array(bad))), "out of bounds")


@pytest.mark.parametrize("how", ["ignore", "warn", "raise"])
def test_warnings_of_library_calls(how):
    def function(x):
        y = x + 1.0
        return np.cumsum(y * 1e308) + y, np.maximum.accumulate(y)

    assert_same(function, lambda: (np.ones(5),), {"all": how})
    assert_same(function, lambda: (-np.ones(5),), {"all": how})


def test_writes_before_a_call_that_fails_are_taken_back():
    def function(x, m):
        x += 1.0
        z = np.linalg.inv(m)
        x *= 2.0
        return z + x[0]

    assert_same(function, lambda: (np.arange(4.0), np.zeros((2, 2))))
    assert_same(function, lambda: (np.arange(4.0), np.eye(2)))


def test_a_signal_in_a_library_call_is_not_lost(monkeypatch):
    monkeypatch.setattr(fj.config, "stress", "losing")
    fired = []

    def handler(number, frame):
        fired.append(number)
        raise TimeoutError("time is up")

    def function(x):
        return np.pad(x + 1.0, 3, mode="reflect") * 2.0

    marked = fj.jit(function)
    x = np.arange(10.0)
    marked(x)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(TimeoutError, match="time is up"):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            for _ in range(10_000_000):
                marked(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert fired


class Overriding:
    """Has a say in NumPy's functions."""

    def __array_function__(self, function, types, args, kwargs):
        return function.__name__


def test_array_function_is_respected():
    other = Overriding()

    def function(x):
        return np.roll(other, 1), np.stack([x, other]), np.concatenate((x, other)), np.sort(other), x + 1.0

    assert_same(function, lambda: (np.arange(3.0),))


def test_subclasses_keep_their_ways():
    def function(x):
        return np.sort(x), np.roll(x, 1), np.concatenate((x, x)), np.cumsum(x)

    assert_same(function, lambda: (np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]),))
    assert_same(function, lambda: (np.arange(3).astype(object),))


def test_a_replaced_function_is_called(monkeypatch):
    def function(x):
        return np.sort(x) + 1.0

    marked = fj.jit(function)
    x = np.array([3.0, 1.0, 2.0])
    assert marked(x).tolist() == [2.0, 3.0, 4.0]
    monkeypatch.setattr(np, "sort", lambda a: -a)
    assert marked(x).tolist() == [-2.0, 0.0, -1.0]


def test_results_are_not_views_of_the_plans_memory():
    def function(x):
        y = x * 2.0
        return np.tile(y, 2), np.sort(y), y[[0, 1]], y

    marked = whole(function, lambda: (np.arange(4.0),))
    first = marked(np.arange(4.0))
    kept = [a.copy() for a in first]
    marked(np.arange(4.0) + 7.0)
    for a, b in zip(first, kept):
        assert np.array_equal(a, b)


def test_masks_are_written_in_one_kernel():
    def function(x, y):
        x[x > y] = 0.0
        x[~(x > 1)] += y[0] if False else 0.0
        return x

    def masked(x, y):
        x[x > y] = 0.0
        return x + y

    assert_same(function, lambda: (np.arange(10.0), np.full(10, 4.5)))
    marked = whole(masked, lambda: (np.arange(10.0), np.full(10, 4.5)))
    assert "where" in marked.graphs() and "library_call" not in marked.graphs()


def test_where_computes_only_where():
    def function(x, y, out):
        np.divide(x, y, out=out, where=y != 0)
        np.log(out, out=out, where=out > 0)
        return out

    x, y = np.arange(5.0) - 1, np.array([0.0, 1.0, -2.0, 0.0, np.inf])
    marked = whole(function, lambda: (x, y, np.full(5, -7.0)))
    before = fj.stats()["kernel_calls"]
    with np.errstate(all="raise"):
        marked(x, y, np.full(5, -7.0))
    assert fj.stats()["kernel_calls"] > before


def test_several_results_of_one_call():
    def function(x, y):
        whole_part, rest = np.divmod(x, y)
        fraction, integral = np.modf(x)
        mantissa, exponent = np.frexp(y)
        return whole_part + 1.0, rest * 2.0, fraction - integral, mantissa, exponent + 1, np.modf(y)

    marked = whole(function, lambda: (np.linspace(-3.0, 5.0, 12).reshape(3, 4), np.linspace(0.3, 4.0, 12).reshape(3, 4)[:, ::-1]))
    graph = marked.graphs()
    assert graph.count("library_call") == 8 and graph.count("library_call %x, %y") == 1

    for dtype in (np.float32, np.int32, np.uint8):
        marked = assert_same(lambda x, y: (*np.divmod(x, y), divmod(x, y)), lambda d=dtype: (np.arange(1, 9).astype(d), np.full(8, 3, d)))
        assert marked._report()["breaks"] == []


def test_named_results_of_linear_algebra():
    def function(a, b):
        values, vectors = np.linalg.eigh(a)
        u, s, vh = np.linalg.svd(b, full_matrices=False)
        q, r = np.linalg.qr(b)
        sign, logdet = np.linalg.slogdet(a)
        restored = vectors * values @ vectors.T
        return restored, u * s @ vh, q @ r, sign * logdet, np.linalg.svd(b, compute_uv=False).sum()

    def named(a, b):
        result = np.linalg.eigh(a)
        return result.eigenvalues * 2.0, result[1], len(result), np.linalg.qr(b).R

    def given(a, b):
        return np.linalg.eigh(a), np.linalg.svd(b), [np.linalg.slogdet(a)]

    def make_args():
        a = np.cos(np.arange(16.0)).reshape(4, 4)
        return a + a.T, np.sin(np.arange(12.0)).reshape(4, 3)

    whole(function, make_args)
    functions = [given] if np.__version__ < "1.25" else [given, named]
    for each in functions:
        marked = whole(each, make_args)
        assert type(marked(*make_args())[0]) is type(each(*make_args())[0])


def test_one_entry_serves_several_results_of_many_sizes():
    def function(x, y):
        values, vectors = np.linalg.eigh(x.T @ x)
        counts, edges = np.histogram(y, 12)
        grids = np.meshgrid(y[:3], values)
        return values, vectors.sum(), counts, edges + 1.0, grids

    marked = fj.jit(function)
    for n in (40, 50, 60, 30, 90):
        x, y = np.sin(np.arange(n * (n + 2.0))).reshape(n + 2, n), np.cos(np.arange(3.0 * n))
        assert_same_seen(observe(function, (x, y)), observe(marked, (x, y)), f"n={n}")
    assert len(marked.cache_entries()) <= 4 and marked._report()["breaks"] == []


def test_what_happens_to_one_result_leaves_the_others():
    def function(x, y):
        fraction, integral = np.modf(x)
        fraction += 10.0
        np.modf(y)
        _, second = np.modf(y)
        for _ in range(3):
            y, rest = np.divmod(y + 7.0, 2.0)
            fraction[0] += rest[0]
        return fraction, integral, second, y

    whole(function, lambda: (np.array([1.5, -2.25, 3.0]), np.array([0.5, 8.75, -1.0])))


def test_several_results_in_loops_and_branches_of_the_graph():
    def function(x, n):
        total = x * 0.0
        while total[0] < n:
            part, rest = np.divmod(x + total, 3.0)
            if rest[1] > 1.0:
                part, rest = np.modf(part + 0.5)
            total = total + part + rest + 1.0
        return total

    assert_same(function, lambda: (np.array([1.5, 2.25, 3.0]), 9.0))
    assert_same(function, lambda: (np.array([1.5, 2.75, -3.0]), 40.0))


def test_several_results_warn_and_raise_at_their_line():
    def function(x, y):
        whole_part, rest = np.divmod(x, y)
        return whole_part + rest

    def decompose(a):
        values, vectors = np.linalg.eigh(a)
        return vectors * values

    marked = fj.jit(function)
    for y in (np.array([2.0, 3.0]), np.array([0.0, 3.0]), np.array([np.inf, 0.0])):
        for errstate in (None, {"all": "ignore"}, {"all": "raise"}):
            args = (np.array([5.0, -np.inf]), y)
            assert_same_seen(observe(function, args, errstate), observe(marked, args, errstate), f"{y} {errstate}")
    marked = fj.jit(decompose)
    for a in (np.eye(3), np.full((3, 3), np.nan), np.eye(4)[:3], np.ones((3, 3))):
        assert_same_seen(observe(decompose, (a,)), observe(marked, (a,)), "eigh")


def test_threads_share_a_call_of_several_results(monkeypatch):
    monkeypatch.setattr(fj.config, "stress", "losing")

    @fj.jit
    def function(x):
        values, vectors = np.linalg.eigh(x)
        return vectors * values @ vectors.T

    inputs = [np.diag(np.arange(1.0, 7.0) * k) + np.ones((6, 6)) for k in range(1, 9)]
    function(inputs[0])
    results: dict[int, list] = {}

    def work(k):
        results[k] = [function(inputs[k]) for _ in range(50)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, x in enumerate(inputs):
        values, vectors = np.linalg.eigh(x)
        expected = (vectors * values @ vectors.T).tobytes()
        assert len(results[k]) == 50 and all(each.tobytes() == expected for each in results[k])


@pytest.mark.parametrize("called, more", [(np.float_power, (0.5,)), (np.nanmean, ())])
def test_a_warning_that_the_calling_line_has_given_before(called, more):
    """Python keeps what it has warned of by the line; that of the function is another than that of its caller."""
    x = np.array([-1.5, 2.0]) if called is not np.nanmean else np.array([np.nan, np.nan])

    def function(x):
        return called(x, *more)

    def seen(call):
        globals().pop("__warningregistry__", None)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            shown = []
            warnings.showwarning = lambda message, category, filename, line, *rest: shown.append((str(message), line))
            for _ in range(3):
                called(x, *more), call(x)
        return shown

    marked = fj.jit(function)
    marked(np.nan_to_num(np.abs(x)))
    expected = seen(function)
    assert len(expected) == 2
    assert seen(marked) == expected


every_run_counts = pytest.mark.usefixtures("unmeasured")


@pytest.fixture
def unmeasured(estimated, monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "off")


@contextlib.contextmanager
def beside(work):
    """`work` is called again and again by another thread, which gets its turn often."""
    ends, errors, interval = threading.Event(), [], sys.getswitchinterval()

    def again() -> None:
        try:
            while not ends.is_set():
                work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=again)
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        yield errors
    finally:
        ends.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert not errors


@every_run_counts
@pytest.mark.parametrize("action, times", [("ignore", 0), ("default", 1)])
def test_warnings_of_other_threads(action, times):
    """A library call looks for warnings of its own thread; others get theirs as ever."""
    marked, x, zeros, shown = fj.jit(lambda x: x - np.median(x), fullgraph=True), np.ones(50), np.zeros(3), []
    marked(x)
    globals().pop("__warningregistry__", None)
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        warnings.showwarning = lambda message, *rest: shown.append(str(message))
        filters = list(warnings.filters)
        with beside(lambda: np.log(zeros)) as errors:
            for _ in range(3000):
                if marked(x).any() or errors:
                    break
        assert warnings.filters == filters
    assert shown == ["divide by zero encountered in log"] * times
    assert library_calls_of(marked, x) == 100


@every_run_counts
def test_another_thread_replaces_what_a_library_call_was_given():
    class Holder:
        pass

    def function(holder):
        x, words = holder.x, holder.words
        return x - np.median(x), words

    holder, marked, numbers = Holder(), fj.jit(function, fullgraph=True), itertools.count()

    def replace() -> None:
        holder.x, holder.words = np.full(64, float(next(numbers))), ["some"]
        np.full(64, -1.0), [None]  # take the memory of what nothing holds

    replace()
    with beside(replace) as errors:
        for _ in range(10_000):
            found, words = marked(holder)
            assert words == ["some"] and not found.any() and not errors


def library_calls_of(marked, *args, calls=100):
    before = fj.stats()["library_calls"]
    for _ in range(calls):
        marked(*args)
    return fj.stats()["library_calls"] - before


@pytest.mark.parametrize("fullgraph", [False, True])
def test_nothing_but_library_calls_is_left_to_the_interpreter(fullgraph):
    def function(x, y):
        return np.sort(x), np.argsort(y)

    x = np.array([3.0, 1.0, 2.0])
    with Events("perf") as events:
        marked = assert_same(function, lambda: (x, x), fullgraph=fullgraph)
        assert library_calls_of(marked, x, x) == 2
    assert [record["what"] for record in events.records("perf")] == ["compiled", "demoted"]
    assert marked.graphs().count("library_call") == 2  # as before
    assert "left to the interpreter: it is mostly calls of NumPy's functions" in str(fj.explain(marked)(x, x))
    before = fj.stats()
    marked(x, x)
    after = fj.stats()
    assert after["frames_marked"] == before["frames_marked"] + 1 and after["frames_captured"] == before["frames_captured"]
    assert_same_seen(observe(function, (x, x)), observe(marked, (x, x)), "left")
    # What another call of fullgraph=True would say does not depend on how many calls were left to the interpreter.
    for other in ((x, 3), (["b", "a"], x)):
        expected = observe(fj.jit(function, fullgraph=True) if fullgraph else function, other)
        assert bool(expected.error) == (fullgraph and other[1] is x)
        for _ in range(2):
            assert_same_seen(expected, observe(marked, other), "other arguments")
            marked(x, x)


@pytest.mark.parametrize(
    "body, runs",
    [
        ("np.unique(x) * 2", False),
        ("(x - np.median(x)) * 2", True),
        ("np.interp(x, x, x)", False),
        ("((np.sort(x) * 2 + x) / 3 - x) * x", True),
        ("np.cumsum(np.sort(x))", True),
        ("np.argmax(np.sort(x))", True),
        ("x.std() - np.vdot(x, x)", True),
        ("[np.sort(x + i) for i in range(3)]", True),
        ("np.sort(x) if x[0] > 5 else x", True),
        ("fj.Tensor(np.sort(x))", True),
    ],
)
def test_what_is_saved_beside_library_calls(body, runs):
    function = eval(f"lambda x: {body}", {"np": np, "fj": fj})
    marked, x = fj.jit(function), np.array([4.0, 1.0, 2.0])
    marked(x)
    per_call = fj.stats()["library_calls"]
    marked(x)
    per_call = fj.stats()["library_calls"] - per_call
    assert per_call >= 1
    marked(x), marked(x)
    assert library_calls_of(marked, x) == (100 * per_call if runs else 0)
    assert np.array_equal(marked(x), function(x))


def test_other_arguments_of_what_is_left_to_the_interpreter():
    def function(x, n):
        y = np.sort(x)
        for _ in range(n):
            y = y * 0.5 + x
        return y

    marked, x = fj.jit(function), np.array([3.0, 1.0, 2.0])
    assert library_calls_of(marked, x, 0) == 4
    assert library_calls_of(marked, x, 8) > 20  # there is another graph after some calls
    assert len(marked.cache_entries()) == 2
    assert library_calls_of(marked, x, 0) == 0
    for n in (0, 8):
        assert np.array_equal(marked(x, n), function(x, n))


def test_a_region_of_nothing_but_library_calls():
    def function(x, seen):
        y = np.sort(x)
        seen.append(id(y) % 1)
        gc.isenabled()
        return ((y * 2.0 + x) / 3.0 - x) * x

    marked, x = fj.jit(function), np.array([3.0, 1.0, 2.0])
    library_calls_of(marked, x, [])
    assert library_calls_of(marked, x, []) == 0
    report = marked._report()
    assert [bool(entry["demoted"]) for entry in report["entries"]] == [True, False]
    assert report["dormant_sites"] > 0
    runs = report["entries"][1]["hits"]
    assert np.array_equal(marked(x, []), function(x, []))
    assert marked._report()["entries"][1]["hits"] == runs + 1


def test_code_marked_in_place_is_left_to_the_interpreter():
    def function(x):
        return np.sort(x)

    x = np.array([3.0, 1.0, 2.0])
    with fj.mark(function):
        assert library_calls_of(function, x) == 4


def test_a_gradient_is_not_left_to_the_interpreter():
    def function(x):
        return np.linalg.inv(x)

    gradient, x = fj.grad(lambda x: np.trace(function(x))), np.eye(2) * 2.0
    gradient(x)
    assert library_calls_of(gradient, x, calls=10) >= 10


def test_the_same_call_of_the_same_operands_is_tried_out_once(monkeypatch):
    def function(x):
        return np.linalg.inv(x), np.linalg.inv(x + 1.0), np.linalg.inv(x + 2.0), np.linalg.inv(x[:5, :5])

    tried = []
    home = inspect.unwrap(np.linalg.inv).__globals__
    before = home["_commonType"]
    monkeypatch.setitem(home, "_commonType", lambda *arrays: tried.append(arrays[0].shape) or before(*arrays))
    x = np.eye(7, dtype=np.float32) + np.float32(0.5)
    marked = fj.jit(function)
    marked(x)
    assert tried.count((7, 7)) <= 3 + 3 and tried.count((5, 5)) <= 3 + 1  # three to learn from, and the call
    for expected, actual in zip(function(x), marked(x), strict=True):
        assert expected.tobytes() == actual.tobytes()


def test_the_first_use_of_a_module_that_numpy_imports_late():
    code = "import framejit, numpy as np\nframejit.jit(lambda x: np.fft.rfft(x) * 2 + 1, fullgraph=True)(np.ones(4))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_losing_regions_run_under_stress(monkeypatch):
    monkeypatch.setattr(fj.config, "stress", "losing")
    marked = fj.jit(lambda x: np.sort(x))
    assert library_calls_of(marked, np.array([3.0, 1.0, 2.0])) == 100


@pytest.mark.parametrize("dtype", ["float64", "float16", "complex64", "int8", "bool"])
def test_what_runs_without_an_error_state_never_warns(dtype):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e308, -1e308, 5e-324, 1e-308, -2.5, 1e-200, 1.0]).astype(dtype)
        y = x[::-1].copy()
    m = x.reshape(3, 4)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (np.sort, np.argsort, np.argmin, np.argmax, lambda x: np.repeat(x, 2), lambda x: np.tile(x, 2), lambda x: np.delete(x, 2)):
            call(x)
        np.partition(x, 5), np.argpartition(x, 5), np.lexsort((x, y)), np.searchsorted(x, y), np.tril(m), np.triu(m)
        if dtype != "complex64":
            np.digitize(x, np.sort(y))


@pytest.mark.parametrize("name", ["repeat", "searchsorted", "argsort", "take", "cumsum", "nonzero", "diagonal", "partition", "compress"])
def test_functions_that_are_compiled_to_calls_of_themselves(name):
    """NumPy's functions call methods, which are calls of the functions in a graph."""
    arguments = {
        "repeat": (np.arange(6), [1, 3, 2, 1, 1, 2]),
        "searchsorted": (np.arange(6.0), [2.5, 3]),
        "take": (np.arange(6), [5, 0]),
        "diagonal": (np.arange(6).reshape(2, 3),),
        "partition": (np.array([3, 1, 2, 0]), 2),
        "compress": ([True, False, True], np.arange(3.0)),
    }.get(name, (np.array([3.0, 0.0, 2.0]),))
    function = getattr(np, name)
    expected = function(*arguments)
    with fj.mark(function._implementation):
        for _ in range(4):
            np.testing.assert_array_equal(function(*arguments), expected)
