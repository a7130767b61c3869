"""Control flow that goes by array values: blocks of the graph, and that everything is as in eager execution."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import warnings

import framejit as fj
import numpy as np
import pytest
from capture_support import capture
from flow_maker import FlowMaker, arguments

COUNT = int(os.environ.get("FRAMEJIT_TEST_FLOW_PROGRAMS", "150"))
FIRST = int(os.environ.get("FRAMEJIT_TEST_FLOW_SEED", "0"))
MODES = ("", "interp", "guards", "break=5", "rewrite", "verify")
WAYS = [
    {"capture_mode": mode, **options}
    for options in ({}, {"exec_order": "dfs"}, {"exec_order": "bfs"}, {"backend": "GE"})
    for mode in ("bytecode", "ast", "trace")
]

pytestmark = pytest.mark.capture
X = np.arange(1.0, 7.0)


def lines(graph: str) -> list[str]:
    return [line.strip() for line in graph.splitlines()]


def bits(value):
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, *map(bits, value)]
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        # Which of two NaNs goes on is NumPy's to choose.
        seen = np.where(np.isnan(array), np.nan, array).astype(array.dtype) if array.dtype.kind == "f" else array
        return type(value).__name__, value.dtype.str, value.shape, array.strides, seen.tobytes()
    return type(value).__name__, repr(value)


def flat(value):
    return [v for item in value for v in flat(item)] if isinstance(value, tuple) else [value]


def observe(function, args, world=None):
    """What a call gives: values to the bit, which objects are one and share memory, arguments behind it, warnings, exceptions."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", fj.RecompileLimitWarning)  # framejit's own, which the interpreter does not give
        try:
            result = function(*args)
            error = None
        except Exception as e:
            result, error = None, (type(e), str(e), e.__traceback__.tb_next.tb_lineno if e.__traceback__.tb_next else None)
    objects = [*args, *flat(result)]
    arrays = [o for o in objects if isinstance(o, np.ndarray)]
    same = [[a is b for b in arrays] for a in arrays]
    shared = [[np.shares_memory(a, b) for b in arrays] for a in arrays]
    said = [(w.category, str(w.message), w.lineno) for w in caught]
    return bits(result), error and error[:2], [bits(a) for a in args], same, shared, said, repr(world)


def check(function, *calls, graphs=1, **options):
    """One graph, no break, and each call as in eager execution."""
    marked = fj.jit(function, fullgraph=True, **options)
    errors = fj.stats()["internal_errors"]
    for args in calls:
        for _ in range(2):
            copies = [[a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2)]
            assert observe(marked, copies[0]) == observe(function, copies[1]), args
    assert fj.stats()["internal_errors"] == errors
    entries = marked.cache_entries()
    assert len(entries) == graphs
    return capture(function, *calls[0])


# Structure


def test_branch_with_two_sides():
    def f(x):
        if x.sum() > 0:
            y = x + 1
        else:
            y = x - 1
        return y * 2

    c = check(f, (X,), (-X,))
    assert c.breaks == [] and lines(c.graph) == [
        "graph @f(%x: f64[6]) {",
        "%1 = reduce_sum %x {axes=[0]} : f64[]",
        "%2 = constant {value=0} : f64[]",
        "%3 = greater %1, %2 : bool[]",
        "%4 = if %3 {",
        "%5 = constant {value=1} : f64[]",
        "%6 = add %x, %5 : f64[6]",
        "yield %6",
        "} else {",
        "%7 = constant {value=1} : f64[]",
        "%8 = subtract %x, %7 : f64[6]",
        "yield %8",
        "}",
        "%9 = output %4 {index=0} : f64[6]",
        "%10 = constant {value=2} : f64[]",
        "%11 = multiply %9, %10 : f64[6]",
        "return %11",
        "}",
    ]


def test_while_loop():
    def f(x, tol):
        err = np.abs(x).max()
        while err > tol:
            x = x * 0.5
            err = np.abs(x).max()
        return x, err

    c = check(f, (X, 0.1), (-X, 0.1), (X * 1e-3, 0.1))
    text = lines(c.graph)
    assert c.breaks == [] and sum(" = loop %x, " in line for line in text) == 1
    assert sum(" = if " in line for line in text) == 1 and sum("multiply" in line for line in text) == 1


def test_an_array_that_comes_through_is_the_same_object():
    def f(x):
        if x.sum() > 3:
            x = x * 2
        return x

    assert fj.jit(f)(-X) is not None
    marked, low = fj.jit(f, fullgraph=True), -X
    assert marked(low) is low and marked(X) is not X
    check(f, (X,), (-X,))

    def g(x, y, w):
        best = x
        if y.max() > best.max():
            best = y
        if w.max() > best.max():
            best = w
        return best

    check(g, (X, X * 2, X * 3), (X * 4, X, X), (X, X * 2, -X))


def test_a_new_array_with_two_names_on_one_side():
    def f(x, y):
        for _ in range(3):
            if y[0] > 0.3:
                x, y = y, x
            else:
                if not np.any(y > 3):
                    x = y * 0.5
                y = x
        return x, y

    marked = fj.jit(f)
    for args in [(X, X), (X, X * 0.1), (X, X * 5), (X, -X), (-X, X), (-X, -X)] * 2:
        assert observe(marked, args) == observe(f, args)


def test_loop_that_may_end_before_it_changes_anything():
    def f(x):
        while True:
            if x.sum() < 1:
                return x
            x = x / 2

    c = check(f, (X,), (-X,))
    assert c.breaks == []

    def g(x):
        while True:
            y = x * 0.5
            if y.sum() < 1:
                break
            x = y + 0.01
        return x, y

    check(g, (X,), (-X,))


def test_early_returns():
    def f(x):
        if x.sum() > 10:
            return x * 2
        if x.max() > 0:
            return x + 1
        return -x

    assert capture(f, X).breaks == []
    check(f, (X,), (X * 0.1,), (-X,))

    def g(x):
        while True:
            x = x / 2
            if x.sum() < 1:
                return x + 2
            if x.max() < 0.3:
                return x + 1

    check(g, (X,), (-X,))


def test_many_exits_of_which_some_raise():
    def f(x, y, n):
        k = 0
        while k < n:
            k += 1
            if np.any(x > 3):
                raise ValueError(1)
            if not y.min() > 0.1:
                raise ValueError(2)
            if x.sum() > 50:
                break
            x = x * 1.25
        return x, k

    marked = fj.jit(f)
    low = X * 0.1
    for args in [(low, X, 3), (low, -X, 3), (X, X, 4), (low, X, 5), (low, X, 20), (low, low, 2)] * 2:
        assert observe(marked, args) == observe(f, args)


def test_breaks_and_continues():
    def f(x):
        for i in range(6):
            x = x * 0.8
            if x.sum() < 5:
                break
            if x.max() < 2:
                continue
            x = x - 0.1
        return x, i

    check(f, (X,), (-X,), (X * 100,))

    def g(x):
        n = 0
        while x.max() > 0.1 and n < 20:
            n += 1
            if x.min() > 1.5:
                x = x * 0.25
                continue
            x = x * 0.5
            if n > 7 or x.sum() < 0.5:
                break
        return x, n

    marked = fj.jit(g)
    for a in (X, X * 50, -X):
        assert bits(marked(a)) == bits(g(a))


def test_counters_and_numbers():
    def f(x):
        err, k, worst = 1e9, 0, 0.0
        while err > 1e-3 and k < 50:
            y = x * 0.9
            err = float(np.abs(y - x).max())
            worst = worst + err * k
            x = y
            k += 1
        return x, y, err, k, k % 7, k // 3, worst

    check(f, (X,), (X * 0.01,))


def test_loops_in_loops():
    def f(x):
        i = 0
        j = 0
        while x.sum() < 100:
            j = 0
            while x.max() < i + 2.0:
                x = x * 1.1
                j += 1
            x = x + 1
            i += 1
        return x, i, j

    c = check(f, (X,), (X * 100,), (X * 0.01,))
    assert sum(" = loop " in line for line in lines(c.graph)) == 2


def test_arrays_that_change_places_in_a_loop():
    def f(x, y, n):
        k = 0
        while k < n:
            k += 1
            if (y > -1).all():
                x, y = x + y, x
            y = np.maximum(y, 0.5)
        return x, y

    marked = fj.jit(f)
    for n in (3, 4, 5, 6, 9, 1):
        for args in ((X, -X, n), (X * 0.1, X, n), (-X, X, n)):
            assert observe(marked, args) == observe(f, args)
    assert any(" = loop " in line for line in lines(marked.graphs()))


def test_conditional_expressions_and_truth():
    def f(x):
        a = 1.5 if x.sum() > 0 else 2.5
        both = x.sum() > 0 and x.max() > 3
        flag = not x.any()
        return x * a, a, both, flag, bool(x.max() > 2)

    check(f, (X,), (-X,), (X * 0,))


def test_a_side_that_raises_is_left_to_the_interpreter():
    def f(x):
        if np.isnan(x).any():
            raise ValueError("not a number")
        if not x.sum() < 100:
            raise AssertionError
        return x * 2

    c = check(f, (X,), (X * np.nan,), (X * 10,))
    assert [line.split()[0] for line in lines(c.graph) if line.startswith("expect")] == ["expect", "expect"]


def test_only_the_side_that_runs_warns():
    def f(x):
        if x.min() < 0:
            y = x + 1
        else:
            y = 1 / x
        return y

    check(f, (-X,), (X,), (X - 1,))


def test_inlined_callees():
    def clip(v, limit):
        if v.max() > limit:
            return v * (limit / 6.0)
        return v

    def f(x):
        return clip(x, 3.0) + clip(-x, 3.0)

    check(f, (X,), (X * 0.1,))


def test_rows():
    def f(x):
        total = x[0] * 0.0
        for row in x:
            if row.sum() > 4:
                total = total + row
        return total

    check(f, (X.reshape(2, 3),), (-X.reshape(2, 3),))


def test_masks_and_sides_of_equal_type_in_f32():
    def f(x):
        if (x > 2).any():
            x = np.where(x > 2, x, np.float32(0))
        return x

    check(f, (X.astype(np.float32),), (-X.astype(np.float32),))


def test_tensors():
    def f(x):
        while x.sum() > 1:
            x = x * 0.5
        if x.max() > 0.2:
            x = x + 1
        return x

    marked = fj.jit(f, fullgraph=True)
    for a in (X, -X, X * 0.01):
        t = fj.Tensor(a.astype(np.float32))
        assert marked(t).asnumpy().tobytes() == f(t).asnumpy().tobytes()
    assert len(marked.cache_entries()) == 1


# Writes to memory from outside


def test_writes_on_one_side():
    def f(x, y):
        v = y[1:]
        if x.sum() > 0:
            x[0] = 1.0
            v *= 2.0
        elif x[1] > 0:
            y[::2] = x[::2]
        return x + 1, v, y.sum()

    c = check(f, (X, X), (-X, X), (np.array([-9.0, 1, 0, 0, 0, 0]), X))
    assert c.breaks == [] and sum("write" in line for line in lines(c.graph)) == 3


def test_a_stencil_in_a_while_loop():
    def f(u, tol):
        n, err = 0, 1.0
        while err > tol:
            before = u.copy()
            u[1:-1, 1:-1] = 0.25 * (before[2:, 1:-1] + before[:-2, 1:-1] + before[1:-1, 2:] + before[1:-1, :-2])
            err = np.abs(u - before).max()
            n += 1
        return n

    def g(u):
        while u.max() > 1.0:
            u *= 0.5

    rng = np.random.default_rng(0)
    for shape in ((3, 3), (9, 17), (40, 33)):
        u = rng.normal(size=shape)
        check(f, (u, 0.05), (u * 10, 0.05))
        check(g, (u * 10,), (-np.abs(u),), (u * 3,))


def test_rows_that_branches_fill():
    def f(x):
        out = np.empty(x.shape)
        count = np.zeros(2)
        for i in range(len(x)):
            if x[i].sum() > 0:
                out[i] = x[i] * 2
                count[0] += 1
            else:
                out[i] = -1.0
                count[1] += 1
        return out, count

    c = check(f, (X.reshape(3, 2),), (-X.reshape(3, 2),), (np.array([[1.0, 2], [-5, 1], [0, 0]]),))
    assert c.breaks == []


def test_a_condition_on_memory_that_the_loop_writes():
    def f(x, total):
        while True:
            x += 1.0
            total[0] += x.sum()
            if total[0] > 100.0:
                break
        return x[1:]

    check(f, (X, np.zeros(1)), (X * 10, np.zeros(1)), (-X, np.full(1, 99.0)))


def test_a_name_that_moves_on_from_what_the_loop_writes():
    def f(x):
        y = x
        while x.max() > 1:
            y = y * 0.5
            x[:] = x * 0.5
        return y

    def g(x):
        y = x
        while x.max() > 1:
            x[1:] = x[:-1] * 0.5
            x[0] = x[0] * 0.25
            y = y + x
        return y

    for function in (f, g):
        marked = fj.jit(function)
        for a in (X, X * 100, -X):
            assert observe(marked, [a.copy()]) == observe(function, [a.copy()])


def test_a_warning_in_a_loop_comes_once_and_nothing_is_written_twice():
    def f(x, y):
        while x.max() < 50:
            x += 5.0
            y /= x - 20.0
            if y.sum() > 3:
                x[-1] += 1.0
        return y

    marked = fj.jit(f, fullgraph=True)
    for a in (np.arange(6.0), np.array([1.0, 5.0]), np.array([0.5])):
        for _ in range(2):
            assert observe(marked, [a.copy(), a + 1]) == observe(f, [a.copy(), a + 1])
    with np.errstate(divide="raise"):
        assert observe(marked, [X - 1, X.copy()]) == observe(f, [X - 1, X.copy()])


def test_a_count_beyond_the_machine_puts_back_what_was_written():
    def f(x, n):
        while x[0] < 8:
            x += 1.0
            n = n * 1000000007
        return n

    marked = fj.jit(f, fullgraph=True)
    for start in (X, X + 5, X + 7):
        assert observe(marked, [start.copy(), 3]) == observe(f, [start.copy(), 3])


def test_arrays_that_one_side_must_not_write():
    def f(x, y):
        if x.sum() > 0:
            y[:3] = x[:3]
        return x * y

    def calls():
        frozen, shared = X.copy(), np.arange(12.0)
        frozen.flags.writeable = False
        return [[X, frozen], [-X, frozen], [shared[:6], shared[2:8]], [-shared[:6], shared[2:8]], [X, X[::-1].copy()]]

    for i in range(len(calls())):
        marked = fj.jit(f)
        for k in (i, i, 4, i):
            assert observe(marked, calls()[k]) == observe(f, calls()[k])


def test_tensors_that_branches_write():
    def f(t, u):
        if t.sum() > 0:
            t[0] = 5.0
        while u.max() > 1:
            u *= 0.5
            t[1] = u[0]
        return t + u

    marked = fj.jit(f)
    for sign in (1, -1):
        seen = []
        for function in (marked, f):
            t, u = fj.Tensor((sign * X).astype(np.float32)), fj.Tensor((X * 3).astype(np.float32))
            seen.append([v.asnumpy().tobytes() for v in (function(t, u), t, u)])
        assert seen[0] == seen[1]


# Generators and states of warnings that begin and end on one side


def whole_generator(x):
    return x * sum(i * 2 for i in range(4)) + len(tuple(k for k in (1, 2, 3) if k > 1))


def nested_generators(x):
    return x + sum(a * b for a in (i + 1 for i in range(3)) for b in (1, 2))


def generator_with_a_handler(x):
    def values():
        try:
            yield 1.0
            yield x.shape[0]
        finally:
            pass

    return x * sum(values())


def begun_generator(x):
    values = (i for i in (3, 4, 5))
    return x * next(values)


def silenced(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        return x / (x - 1)


def silenced_twice(x):
    with np.errstate(all="ignore"):
        y = x / (x - 1)
        with np.errstate(divide="warn"):
            y = y + x / (x - 2)
    return y + x / (x - 3)


@pytest.mark.parametrize("step", [whole_generator, nested_generators, generator_with_a_handler, begun_generator, silenced, silenced_twice])
def test_what_begins_and_ends_on_one_side(step):
    def f(x, y):
        z = x
        if y.sum() > 0:
            z = step(z)
        else:
            z = z * 2
        return z / (x - 3)  # outside of what was silenced

    def g(x, y):
        return step(x) if y.sum() < 0 else x / (x - 2)

    for function in (f, g):
        c = check(function, (X, X), (X, -X))
        assert c.breaks == [] and sum(" = if " in line for line in lines(c.graph)) == 1


def test_a_generator_that_both_sides_ask():
    def f(x):
        values = (i for i in (3, 4, 5))
        first = next(values)
        if x.sum() > 0:
            y = x * next(values)
        else:
            y = x - first
        return y + next(values)

    def one_side(x):
        values = iter(())
        if x.sum() > 0:
            values = (i for i in (3, 4, 5))
            y = x * next(values)
        else:
            y = x
        return y, list(values)

    for function in (f, one_side):
        marked = fj.jit(function)
        for sign in (1, -1, 1, -1):
            assert observe(marked, (X * sign,)) == observe(function, (X * sign,))


def test_rules_for_flags_that_end_on_one_side_only():
    def f(x):
        with np.errstate(all="ignore"):
            if x.sum() > 0:
                return x / (x - 1)
            y = x / (x + 1)
        return y / (x + 2)

    marked = fj.jit(f)
    for sign in (1, -1, 1, -1):
        assert observe(marked, (X * sign,)) == observe(f, (X * sign,))


# What is left to the bytecode


def test_effects_on_one_side_break_and_happen_once():
    log = []

    def f(x):
        if x.sum() > 0:
            log.append(len(log))
            y = x + 1
        else:
            y = x - 1
        return y * 2

    c = capture(f, X)
    assert c.codes == ["FJ005"] and c.breaks[0][1] == "one side changes what others may see"
    marked = fj.jit(f)
    for call in range(1, 4):
        assert bits(marked(X)) == bits((X + 1) * 2) and log == list(range(call))
    with pytest.raises(fj.GraphBreakError):
        fj.jit(f, fullgraph=True)(X)


class Range:
    def __init__(self, low, high):
        self.low = low if low < high else high


class Sum:
    def __init__(self, low, high):
        self.total = [low + high]


class Pair:
    def __init__(self, low, high):
        self.low, self.high = low, high


@pytest.mark.parametrize(("make", "codes"), [(Range, ["FJ005"]), (Sum, ["FJ005"]), (Pair, [])])
def test_objects_with_values_of_one_side_stay_there(make, codes):
    """The other side leaves their memory unwritten: which of its parts the object has would be read from it."""

    def f(low, high, y):
        return y + 1 if low == high else make(low, high)

    c = capture(f, np.float64(0), np.float64(1), np.ones((2, 2)))
    assert c.codes == codes
    marked = fj.jit(f)
    for high in (1.0, 0.0, -1.0, 0.0, 2.0):
        args = np.float64(0), np.float64(high), np.ones((2, 2))
        got, expected = marked(*args), f(*args)
        assert type(got) is type(expected)
        if high == 0:
            assert bits(got) == bits(expected)
        else:
            assert [bits(value) for value in vars(got).values()] == [bits(value) for value in vars(expected).values()]


def test_values_of_two_types():
    def number(x):
        y = x.sum() if x.max() > 3 else 0.5
        return x * y

    def text(x):
        mode = "up" if x.sum() > 0 else None
        y = x + 1 if mode == "up" else x - 1
        return y, mode

    def best(x, y):
        found = None
        if x.sum() > 3:
            found = x * 2
        if y.sum() > 3 and (found is None or y.max() > found.max()):
            found = y
        return found

    def count(x):
        k = 0
        if x.sum() > 0:
            k = 2.5
        elif x.min() < -3:
            k = "none"
        elif x.min() < -1:
            k = 7
        z = x + 1
        return (k, z) if k == "none" else (k, z * k)

    for f, calls in (
        (number, [(X,), (-X,)]),
        (text, [(X,), (-X,)]),
        (best, [(X, X), (-X, X), (X, X * 5), (-X, -X)]),
        (count, [(X,), (-X,), (-X * 0.1,), (-X * 0.3,)]),
    ):
        assert check(f, *calls).breaks == []


def test_one_new_array_or_another_thing():
    def f(x):
        y = z = None
        if x.sum() > 0:
            y = x + 1
            z = y
        return y, z

    check(f, (X,), (-X,))


def test_numbers_of_arrays():
    def f(x, k):
        n = int(x.sum())
        m = int(k.max())
        low, high = x.min().item(), k.argmax().item()
        return n * 2, m, low, high, x[:1].item(), x.mean().item() + n, int(float(x[0]) * 2.5)

    ints = np.array([3, 1, 9])
    check(f, (X, ints), (-X * 1.37, ints * 2), (X * 1e-3, -ints))
    marked = fj.jit(f)
    for x in (X * np.nan, X * np.inf, X * 1e30, -X * 1e19):
        assert observe(marked, (x, ints)) == observe(f, (x, ints))


def test_a_variable_that_may_be_unbound():
    def f(x):
        if x.sum() > 0:
            y = x + 1
        return x * 2 if x.max() < 0 else y

    def g(x):
        while x.max() > 1:
            d = x * 0.5
            x = x - d
        return x

    check(g, (X,), (-X,))
    marked = fj.jit(f)
    for a in (X, -X):
        assert bits(marked(a)) == bits(f(a))
    with pytest.raises(UnboundLocalError):
        marked(X - 4)


def test_writes_to_what_a_branch_chose_break():
    def f(x, y):
        z = x if x.sum() > 0 else y
        z += 1
        return z

    marked = fj.jit(f)
    for sign in (1, -1):
        ours, plain = [sign * X, X * 2], [sign * X, X * 2]
        assert bits(marked(*ours)) == bits(f(*plain)) and bits(ours) == bits(plain)


def test_views_of_what_a_branch_chose_share_its_memory():
    def f(x, y):
        z = x if x.sum() > 0 else y
        return z[1:], z.T

    marked = fj.jit(f)
    for sign in (1, -1):
        for _ in range(3):
            a = sign * X
            got = marked(a, X)
            assert np.shares_memory(got[0], a) == (sign > 0) and np.shares_memory(got[0], X) == (sign < 0)


def test_a_number_beyond_the_machine():
    def f(x):
        k = 2**60
        while x.sum() > 1:
            x = x * 0.5
            k = k * 2
        return k

    marked = fj.jit(f)
    assert marked(X) == f(X) and marked(X * 100) == f(X * 100) and type(marked(X)) is int


# Running


@pytest.mark.parametrize("writes", [False, True])
def test_a_loop_without_end_can_be_interrupted(writes):
    def reads(x):
        while x.sum() > 0:
            x = x + 1
        return x

    def changes(x):
        x *= 0.5
        y = x * 2
        while y.sum() > 0:
            y = y + 1
        return y

    marked = fj.jit(changes if writes else reads, fullgraph=True)
    marked(-X)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            marked(X.copy())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_beside_a_loop():
    def f(x):
        while x.sum() > 0:
            x = x - 1e-5
        return x

    marked = fj.jit(f, fullgraph=True)
    marked(-X)
    steps = []
    worker = threading.Thread(target=lambda: [steps.append(time.sleep(0.001)) for _ in range(20)])
    worker.start()
    marked(X)
    worker.join()
    assert len(steps) == 20


# Random programs


def check_program(seed: int, mode: str, **arguments_of_jit: str) -> int:
    source = FlowMaker(seed).program()
    worlds = [{"np": np, "LOG": [], "STATE": {}, "__name__": "flow"} for _ in range(2)]
    code = compile(source, f"<flow {seed}>", "exec")
    for world in worlds:
        exec(code, world)
    fj.config.stress = mode
    marked = fj.jit(**arguments_of_jit)(worlds[1]["main"])
    try:
        for call in range(5):
            seen = []
            for world, function in zip(worlds, (worlds[0]["main"], marked), strict=True):
                seen.append(observe(function, arguments(seed, call), (world["LOG"], world["STATE"])))
            assert seen[0] == seen[1], f"program {seed}, mode {mode!r}, call {call}\n{source}"
    finally:
        fj.config.stress = ""
    return len(marked.cache_entries())


@pytest.fixture
def strict(monkeypatch):
    monkeypatch.setattr(fj.config, "strict", True)
    monkeypatch.setattr(warnings, "_showwarnmsg", warnings._showwarnmsg)  # predictions count there


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, 25))
def test_programs(first, strict):
    entries = 0
    for seed in range(first, min(first + 25, FIRST + COUNT)):
        entries += check_program(seed, MODES[seed % len(MODES)], **WAYS[seed // len(MODES) % len(WAYS)])
        fj.reset()
    assert entries > 0


CHOSEN = {
    "functions": lambda x, k: ([lambda v: v + 1, lambda v: v * 2, np.sin][k](x), k),
    "arrays": lambda x, k: ((x, x * 3, x - 1)[k], x.sum()),
    "numbers": lambda x, k: x * [2, 3.5, True][k],
    "one": lambda x, k: [np.cos][k](x) if k.ndim == 0 else x,
    "nested": lambda x, k: ((np.sin, np.cos), (np.tan, np.exp))[k][k - 1](x) + (1.0, 2.0)[k],
    "in a call": lambda x, k: np.add(x, (x, x * 2)[k]) - x[0],
}


@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint32])
def test_items_that_a_number_chooses(name, dtype):
    # Where a function has to be one graph, tuples and lists are indexed by what the graph computes.
    function = CHOSEN[name]
    marked = fj.jit(fullgraph=True)(lambda x, k: function(x, k.min()))
    plain = lambda x, k: function(x, k.min())  # noqa: E731
    x = np.array([0.5, -1.0, 2.0])
    for k in (0, 1, 2, -1, -2, -3, 3, -4, 100):
        k = np.full(2, k).astype(dtype)
        try:
            expected = plain(x, k)
        except IndexError as error:
            with pytest.raises(IndexError, match=re.escape(str(error))):
                marked(x, k)
        else:
            found = marked(x, k)
            for a, b in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, expected)), strict=True):
                assert type(a) is type(b) and np.array_equal(a, b)
    assert marked.graphs().count("graph @") == 1
