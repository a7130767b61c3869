"""np.errstate inside compiled code: part of the region, each scope with its own handling of flags."""

from __future__ import annotations

import itertools

import framejit as fj
import numpy as np
import pytest
from exact.same import assert_same, assert_same_seen, observe

pytestmark = pytest.mark.capture

NUMPY2 = int(np.__version__.split(".")[0]) >= 2
CLASSES = ("divide", "over", "under", "invalid")


def values():
    """Divides by zero, overflows, underflows and is invalid."""
    x = np.array([1.0, 1e308, 1e-308, -1.0, 0.0, np.inf, 3.0])
    y = np.array([0.0, 1e-10, 1e10, 2.0, 0.0, np.inf, -3.0])
    return x, y


def plain_values():
    return np.linspace(1.0, 2.0, 7), np.linspace(2.0, 3.0, 7)


def whole(function, make_args=values, **options):
    marked = assert_same(function, make_args, fullgraph=True, **options)
    report = marked._report()
    assert report["breaks"] == [] and len(marked.cache_entries()) == 1
    return marked


def quotient(x, y):
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        z = x / y
    return z + 1.0


def test_a_scope_is_part_of_the_region():
    marked = whole(quotient)
    assert "divide %x, %y {ignore=divide|over|under|invalid}" in marked.graphs()
    assert "add %2, %3 : f64[7]" in marked.graphs()
    before = fj.stats()["kernel_calls"]
    for _ in range(20):  # flags that are dropped are no reason to leave the region
        marked(*values())
    assert fj.stats()["kernel_calls"] >= before + 20


@pytest.mark.parametrize("action", ["ignore", "warn", "raise", "print"])
@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_and_action(kind, action):
    def function(x, y):
        with np.errstate(**{kind: action}):
            z = x / y
            w = np.sqrt(x) * y
        return z, w, x * y

    for outer in ({"all": "ignore"}, {"all": "warn"}, {"all": "raise"}, {"all": "warn", kind: "ignore"}):
        marked = fj.jit(function)
        for make_args in (plain_values, values, values):
            expected = observe(function, make_args(), outer)
            assert_same_seen(expected, observe(marked, make_args(), outer), f"{outer}")
        assert marked._report()["breaks"] == []


def test_call_and_log():
    seen = []

    class Log:
        def write(self, text):
            seen.append(text)

    def function(x, y):
        with np.errstate(all="call"):
            z = x / y
        return z * 2.0

    def logged(x, y):
        with np.errstate(all="log"):
            z = x / y
        return z * 2.0

    def handle(kind, flags):
        seen.append((kind, flags))

    def called(x, y):
        with np.errstate(all="call", call=handle):
            z = x / y
        with np.errstate(call=handle, divide="ignore"):
            return z * 2.0, y / x

    if NUMPY2:
        assert fj.jit(called, fullgraph=True)(*plain_values())
    for handler, plain in ((handle, function), (handle, called), (Log(), logged), (Log(), called)):
        before = np.seterrcall(handler)
        try:
            for each in (plain, fj.jit(plain)):
                for _ in range(3):
                    each(*values())
        finally:
            np.seterrcall(before)
        assert seen and seen[: len(seen) // 2] == seen[len(seen) // 2 :]
        seen.clear()


def test_scopes_in_scopes():
    def function(x, y):
        a = x * y
        with np.errstate(all="ignore"):
            b = x / y
            with np.errstate(divide="warn", over="raise"):
                c = np.log(np.abs(y))
            d = np.sqrt(-x)
        with np.errstate(invalid="ignore"):
            e = np.log(x - 1.0)
        return a, b, c, d, e

    for outer in ({"all": "ignore"}, {"all": "warn"}, {"divide": "raise"}):
        marked = fj.jit(function)
        for make_args in (plain_values, values):
            assert_same_seen(observe(function, make_args(), outer), observe(marked, make_args(), outer), f"{outer}")
    graph = whole(function).graphs()
    assert "log %4 {ignore=under|invalid, trap=divide|over}" in graph
    assert "multiply %x, %y : f64[7]" in graph


def test_equal_calls_of_two_scopes_are_two():
    def function(x, y):
        with np.errstate(all="ignore"):
            a = x / y
        b = x / y
        with np.errstate(all="ignore"):
            c = x / y
        return a.sum() + b.sum() + c.sum()

    assert whole(function).graphs().count("divide %x, %y") == 2
    marked = fj.jit(function)
    marked(*plain_values())
    assert len(observe(marked, values()).warned) == len(observe(function, values()).warned) == 3


def test_unused_results_warn_by_their_scope():
    def function(x, y):
        with np.errstate(invalid="ignore"):
            np.sqrt(-x)
            np.log(y)
        np.sqrt(y)
        return x + 1.0

    whole(function)


def test_writes_into_arguments():
    def function(x, y):
        with np.errstate(all="ignore"):
            x /= y
        y += x
        return x.max()

    whole(function)
    for outer in ({"all": "raise"}, {"all": "warn"}):
        marked = fj.jit(function)
        for make_args in (plain_values, values, values):
            eager, ours = make_args(), make_args()
            assert_same_seen(observe(function, eager, outer), observe(marked, ours, outer), f"{outer}")


def test_reductions_products_and_library_calls():
    def function(x, y):
        with np.errstate(all="ignore"):
            a = (x / y).mean()
            b = np.cumsum(x * 1e300)
            c = np.outer(x, y) @ y
            d = np.median(x / y)
        e = c + 1.0
        return a, b, e, d, np.cumsum(x)

    marked = whole(function)
    assert "library_call" in marked.graphs() and marked.graphs().count("ignore=") >= 6
    assert_same(function, lambda: (np.full(3, 1e308), np.full(3, 0.5)))


def test_what_a_library_call_raises_is_seen():
    def function(x, y):
        with np.errstate(over="raise"):
            return np.cumsum(x)

    marked = fj.jit(function)
    for x in (np.ones(5), np.full(5, 1e308)):
        assert_same_seen(observe(function, (x, x)), observe(marked, (x, x)), "cumsum")


def test_python_numbers_and_scalars():
    def function(x, y, c):
        with np.errstate(over="ignore"):
            a = np.float32(c) * x.astype(np.float32)
            b = np.float64(c) * x[0]
        return a, b, np.float64(c) * y[0]

    whole(function, lambda: (*values(), 1e300))


def test_a_break_in_the_body_leaves_the_actual_state():
    states = []

    def function(x, y):
        a = x * 2.0
        with np.errstate(divide="ignore", invalid="raise"):
            b = a / y
            states.append(np.geterr())
            print(end="")
            c = b * y
        states.append(np.geterr())
        return c + 1.0

    for make_args in (plain_values, values, lambda: (np.ones(3), np.zeros(3))):
        marked = fj.jit(function)
        for _ in range(3):
            assert_same_seen(observe(function, make_args()), observe(marked, make_args()), "break")
            assert states[: len(states) // 2] == states[len(states) // 2 :]
            states.clear()
        assert np.geterr()["divide"] == "warn"


def test_what_raises_in_the_body_leaves_the_scope():
    def function(x, y):
        try:
            with np.errstate(all="raise"):
                z = x / y
                if len(x) == 7:
                    raise KeyError("seven")
        except KeyError as error:
            z = x - float(len(error.args))
        except FloatingPointError as error:
            return str(error), x * y
        return z, np.sqrt(-x)

    for make_args in (plain_values, values, lambda: (np.ones(4), np.ones(4))):
        assert_same(function, make_args)
    assert fj.jit(function, fullgraph=True)(*plain_values())


def test_raises_out_of_the_function():
    def function(x, y):
        with np.errstate(divide="raise"):
            return x / y

    before = np.geterr()
    marked = assert_same(function, values)
    assert marked._report()["breaks"] == []
    assert np.geterr() == before


def early_return(x, y, n):
    with np.errstate(all="ignore"):
        for i in range(n):
            x = x / y
            if i == 2:
                return x * 2.0
    return np.sqrt(-x)


def test_returns_loops_and_generators():
    for n in (0, 1, 5):
        whole(early_return, lambda n=n: (*values(), n))

    def parts(x, y):
        with np.errstate(divide="ignore"):
            yield x / y
        yield y / x

    def function(x, y):
        return sum(part for part in parts(x, y))

    whole(function, plain_values)
    assert_same(function, values)


def test_a_generator_that_stands_still_in_its_scope():
    def parts(x, y):
        with np.errstate(divide="ignore", invalid="ignore"):
            yield x / y
            yield x / y

    def function(x, y):
        generator = parts(x, y)
        a = next(generator)
        b = y / (x - x)  # under the scope of the generator
        c = next(generator)
        for _ in generator:
            pass
        return a, b, c, y / (x - x)

    assert_same(function, values)


def test_branches_on_values():
    def function(x, y):
        with np.errstate(all="ignore"):
            z = x / y
            if z[0] > 0.0:
                z = np.log(z - 5.0)
            else:
                z = np.sqrt(z - 5.0)
        return z / (x - x)

    whole(function)
    assert_same(function, lambda: tuple(-a for a in values()))


def scoped(x, y):
    with np.errstate(divide="ignore"):
        return x / y


@np.errstate(divide="ignore", invalid="ignore")
def decorated(x, y):
    return x / y


def test_callees_and_decorators():
    whole(lambda x, y: scoped(x, y) + scoped(y, x))

    def calls(x, y):
        return decorated(x, y) * 2.0

    if NUMPY2:
        whole(calls)
    else:
        assert_same(calls, values)
    marked = fj.jit(decorated)
    for _ in range(3):
        assert_same_seen(observe(decorated, values()), observe(marked, values()), "marked around")
    fj.jit(np.errstate(all="ignore")(fj.jit(scoped)))(*values())


def test_a_scope_from_outside():
    def function(x, y, scope):
        with scope:
            z = x / y
        return z + 1.0

    marked = fj.jit(function)
    for _ in range(3):
        expected, actual = (observe(each, (*values(), np.errstate(all="ignore"))) for each in (function, marked))
        expected.args, actual.args = expected.args[:2], actual.args[:2]
        assert_same_seen(expected, actual, "scope")
    assert np.geterr()["divide"] == "warn"


def test_seterr_and_geterr():
    def function(x, y):
        old = np.seterr(all="ignore")
        try:
            z = x / y
        finally:
            np.seterr(**old)
        return z * 2.0

    whole(function)

    def seen(x, y):
        with np.errstate(divide="ignore", over="raise"):
            state = np.geterr()
            z = x / y if state["divide"] == "ignore" and state["over"] == "raise" else x
        return z

    assert_same(seen, lambda: (np.ones(3), np.zeros(3)), fullgraph=True)

    def left_behind(x, y):
        np.seterr(divide="ignore")
        return x / y

    def result(x, y):
        with np.errstate(over="ignore"):
            return np.geterr(), x * y

    for each in (left_behind, result):
        marked = fj.jit(each)
        for function in (each, marked, each, marked):
            with np.errstate(all="warn"):
                expected = observe(each, values())
                assert_same_seen(expected, observe(function, values()), each.__name__)
                inside = np.geterr()
            assert inside["divide"] == ("ignore" if each is left_behind else "warn")


def test_wrong_arguments():
    def function(x, kind):
        with np.errstate(divide=kind):
            return x + 1.0

    def unknown(x, kind):
        with np.errstate(division=kind):
            return x + 1.0

    for each, kind in itertools.product((function, unknown), ("loud", "ignore", 3)):
        assert_same(each, lambda kind=kind: (np.ones(3), kind))


def test_custom_operators_run_under_the_actual_state():
    states = []

    @fj.custom_op
    def divided(x, y):
        states.append(np.geterr())
        return x / y

    def function(x, y):
        with np.errstate(all="ignore"):
            z = divided(x, y)
        return z + 1.0

    marked = fj.jit(function)
    for _ in range(2):
        states.clear()
        assert_same_seen(observe(function, values()), observe(marked, values()), "custom_op")
        assert len(states) >= 2 and all(state == states[0] for state in states)


@pytest.mark.parametrize("mode", ["interp", "rewrite", "break=1", "break=4", "guards", "verify"])
def test_stress_modes(mode, monkeypatch):
    monkeypatch.setattr(fj.config, "stress", mode)
    for make_args in (plain_values, values):
        assert_same(quotient, make_args)
