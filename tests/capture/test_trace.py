"""capture_mode='trace': the way that branches on array values go is recorded, and guarded by the run itself."""

from __future__ import annotations

import warnings

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor
from framejit._reporting import _events

pytestmark = pytest.mark.capture
X = np.arange(1.0, 7.0)
TABLE = X[None]  # of vectors, such loops become machine code
MODES = ("", "interp", "guards", "break=5", "rewrite", "verify")


def traced(function, **options):
    return fj.jit(capture_mode="trace", **options)(function)


def ops_of(marked):
    """By entry: its operators in order."""
    return [[line.split(" = ")[-1].split()[0] for line in one.splitlines() if line.startswith("  ")] for one in marked.graphs().split("graph @")[1:]]


def same(marked, function, *args):
    mine, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    got, wanted = marked(*mine), function(*theirs)
    for a, b in zip((got, *mine), (wanted, *theirs), strict=True):
        assert type(a) is type(b)
        np.testing.assert_equal(a, b)
    return got


def two_ways(x):
    if x.sum() > 0:
        y = x + 1
    else:
        y = x - 1
    return y * 2


def test_one_way_is_recorded_and_another_entry_is_made_when_the_branch_flips():
    marked, seen = traced(two_ways), []
    stop = _events.listen(lambda channel, record: seen.append(record), ["recompiles"])
    before = fj.stats()
    try:
        for x in (X, X, -X, X, -X):
            same(marked, two_ways, x)
    finally:
        stop()
    after = fj.stats()
    assert [ops.count("expect") for ops in ops_of(marked)] == [1, 1] and not any("if" in ops for ops in ops_of(marked))
    assert sorted("add" in ops for ops in ops_of(marked)) == sorted("subtract" in ops for ops in ops_of(marked)) == [False, True]
    assert after["recompiles"] - before["recompiles"] == 1 and after["graph_breaks"] == before["graph_breaks"]
    assert after["frames_captured"] - before["frames_captured"] == 5
    (record,) = seen
    assert (record["guard"], record["found"]) == ("a branch goes as it was recorded", "false")
    assert record["guard_line"] == two_ways.__code__.co_firstlineno + 1


def test_a_loop_is_its_rounds():
    def halve(x, tol):
        n = 0
        while np.abs(x).max() > tol:
            x = x * 0.5
            n += 1
        return x, n

    marked = traced(halve)
    for scale in (1, 1, 2, 4, 1):
        got, wanted = marked(TABLE * scale, 0.5), halve(TABLE * scale, 0.5)
        assert got[1] == wanted[1] and np.array_equal(got[0], wanted[0])
    rounds = sorted(ops.count("multiply") for ops in ops_of(marked))
    assert rounds == [4, 5, 6] and [ops.count("expect") for ops in sorted(ops_of(marked), key=len)] == [5, 6, 7]
    assert not any("loop" in ops for ops in ops_of(marked))


def test_past_the_recompile_limit_the_interpreter_runs_it():
    def halve(x):
        n = 0
        while x.max() > 1:
            x, n = x * 0.5, n + 1
        return n

    marked = traced(halve)
    with pytest.warns(fj.RecompileLimitWarning, match="a branch goes as it was recorded") as caught:
        assert [marked(TABLE * 2.0**k) for k in range(40)] == [halve(TABLE * 2.0**k) for k in range(40)]
    assert len(caught) == 1


def test_fullgraph_is_an_error_before_anything_has_run():
    log = []

    def f(x, log):
        log.append(1)
        return x if x.sum() > 0 else -x

    with pytest.raises(fj.GraphBreakError, match="FJ005.*one way of two"):
        traced(f, fullgraph=True)(X, log)
    assert log == []
    assert np.array_equal(traced(lambda x: x * 2 + 1, fullgraph=True)(X), X * 2 + 1)


def test_what_was_written_before_a_branch_is_put_back_where_it_flips():
    def f(x, out):
        out[:] = x * 2
        if out[0] > 0:
            out += 1
        else:
            out -= 1
        return out.sum()

    marked = traced(f)
    for x in (X, -X, X, -X, X):
        same(marked, f, x, np.zeros(6))
    assert len(marked.cache_entries()) == 2


def test_effects_happen_once_and_in_order():
    class Box:
        pass

    def f(x, box, log):
        log.append("a")
        if x.sum() > 0:
            box.sign = 1
            log.append("b")
        else:
            box.sign = -1
        log.append("c")
        return x * box.sign

    marked = traced(f)
    for x in (X, -X, X, -X):
        mine, theirs = (Box(), []), (Box(), [])
        assert np.array_equal(marked(x, *mine), f(x, *theirs))
        assert mine[0].sign == theirs[0].sign and mine[1] == theirs[1]
    assert len(marked.cache_entries()) == 2 and all(entry["kind"] == "function" for entry in marked.cache_entries())


def test_a_side_that_raises_warns_or_breaks():
    def f(x, log):
        if np.isnan(x).any():
            raise ValueError("a NaN")
        if x.min() < 0:
            return np.sqrt(x)
        log.append(len(log))
        return x + len(log)

    marked = traced(f)
    bad = X.copy()
    bad[2] = np.nan
    for x in (X, bad, -X, X, bad, -X):
        results = []
        for function in (marked, f):
            log = []
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    results.append(function(x, log).tobytes())
                except ValueError as error:
                    results.append((str(error), error.__traceback__.tb_next.tb_lineno))
            results.append((log, [(str(w.message), w.lineno) for w in caught]))
        assert results[:2] == results[2:]


def test_branches_in_callees_generators_handlers_and_expressions():
    def sign(x):
        return 1 if x.sum() > 0 else -1

    def rows(x):
        for row in x:
            if row.max() > 2:
                yield row * 2

    def f(x):
        total = sum([r.sum() for r in rows(x.reshape(2, 3))])
        try:
            if x[0] < 0:
                raise KeyError
            total += 1
        except KeyError:
            total -= 1 if x[1] < -1 else 2
        return sign(x) * total + (x.min() > 0 and x.max() < 100 or x[0]) + (not x[1] > 3)

    marked = traced(f)
    for x in (X, -X, X * 3, X - 4, X):
        same(marked, f, x)
    assert fj.stats()["internal_errors"] == 0


def test_tensors():
    def f(x):
        y = x * 2
        if y.sum() > 3:
            return y - 1, float(y.max())
        return y, 0.0

    marked = traced(f)
    for x in (X, -X, X):
        x = Tensor(x.astype(np.float32))
        got, wanted = marked(x), f(x)
        assert np.array_equal(got[0].asnumpy(), wanted[0].asnumpy()) and got[1] == wanted[1]
    assert sum("expect" in ops for ops in ops_of(marked)) >= 2


def test_gradients_go_through_the_way_that_was_taken():
    def f(x):
        y = x * x
        return (y * 3 if y.sum() > 10 else y).sum()

    gradient = fj.grad(traced(f))
    for x in (X, X * 0.1, X):
        assert np.array_equal(gradient(x), x * 6 if (x * x).sum() > 10 else x * 2)


def test_sizes_that_vary():
    marked = traced(two_ways, dynamic=True)
    for n in (3, 5, 9):
        for sign in (1, -1):
            same(marked, two_ways, sign * np.arange(1.0, n))
    assert len(marked.cache_entries()) == 2


def test_large_arrays_and_products_decide_too():
    """What is interpreted for small arrays is compiled for these."""

    def f(x, w):
        y = x @ w
        if y.max() > 0:
            y += 1
        return y if x.sum() > 0 else x

    marked = traced(f)
    large = np.linspace(-1.0, 2.0, 300 * 300).reshape(300, 300)
    for x in (large, -large, X[:4].reshape(2, 2), -X[:4].reshape(2, 2)):
        same(marked, f, x, np.eye(len(x)))
    assert len(marked.cache_entries()) == 4 and marked.graphs().count("graph @") == 4


@pytest.mark.parametrize("stress", MODES)
def test_under_stress(stress):
    def f(x, y):
        y[1:] += x[:-1]
        for k in range(3):
            if x[k] > y[k]:
                x = x - y * 0.5
            elif y.sum() > 30:
                break
        return x, y[::2], k

    fj.config.stress = stress
    try:
        marked = traced(f)
        for x, y in ((X, X * 2), (-X, X), (X * 9, -X), (X, X * 2), (X * 9, -X)):
            mine, theirs = (x.copy(), y.copy()), (x.copy(), y.copy())
            got, wanted = marked(*mine), f(*theirs)
            for a, b in zip((*got, *mine), (*wanted, *theirs), strict=True):
                assert np.array_equal(a, b)
            assert np.shares_memory(got[1], mine[1])
    finally:
        fj.config.stress = ""
    assert fj.stats()["internal_errors"] == 0
