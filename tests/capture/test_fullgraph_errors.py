"""fullgraph=True and functions that raise: the exception of plain Python comes out, with its text, causes and lines; GraphBreakError only where capture
cannot go on."""

from __future__ import annotations

import traceback

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor

pytestmark = pytest.mark.capture
X = np.arange(6.0).reshape(2, 3)


class Own(Exception):
    pass


def checked(x):
    if x.ndim == 2:
        raise Own("from a helper", x.ndim)
    return x


def plain(x):
    raise ValueError("plain")


def behind_work(x):
    y = x * 2 + 1
    raise ValueError(f"of {y.ndim} axes")


def a_class(x):
    raise Own


def no_exception(x):
    raise 5  # noqa: B016


def of_a_helper(x):
    return checked(x * 2) + 1


def of_a_lambda(x):
    return (lambda q: q / 0)(3) + x


def assertion(x):
    if x.ndim != 1:  # as `assert` does, which pytest writes anew
        raise AssertionError(f"a vector, not {x.ndim}")
    return x


def from_another(x):
    try:
        raise ValueError("inner")
    except ValueError as error:
        raise Own("outer") from error


def within_a_handler(x):
    try:
        {}["key"]
    except KeyError:
        return x + np.ones(7)


def not_caught(x):
    try:
        raise ValueError("not a KeyError")
    except KeyError:
        return x + 1


def through_finally(x):
    done = []
    try:
        return x + np.ones(7)
    finally:
        done.append(x * 2)


def through_with(x):
    with np.errstate(all="ignore"):
        raise ValueError("in with")


def in_a_loop(x):
    for i in range(3):
        x = x + i
        if i == 2:
            raise StopIteration("third")
    return x


def in_a_generator(x):
    return sum(1 / (i - 1) for i in range(3)) + x


def of_data(x):
    if x.sum() > 3:
        raise Own("too much")
    return x + 1


def division(x):
    return x + 1 / 0


def key(x):
    return x + {}["k"]


def item(x):
    return [1, 2][7] + x


def index(x):
    return x[5]


def unpacking(x):
    a, b, c = (1, 2)
    return x + a + b + c


def attribute(x):
    return x.nothing


def named_attribute(x):
    return getattr(x, "nothing")  # noqa: B009


def arguments(x):
    return checked(x, 1, 2)


def shapes(x):
    return x + np.ones(4)


def reshaped(x):
    return x.reshape((4, 4))


def number(x):
    return int("zz") + x


def length(x):
    return len(5) + x


def exhausted(x):
    return next(iter([])) + x


def truth(x):
    if x:
        return 1
    return x


def unbound(x):
    del x
    return x


def unknown_name(x):
    return nowhere + x  # noqa: F821


RAISING = [
    plain, behind_work, a_class, no_exception, of_a_helper, of_a_lambda, assertion, from_another, within_a_handler, not_caught, through_finally, through_with, in_a_loop,
    in_a_generator, of_data, division, key, item, index, unpacking, attribute, named_attribute, arguments, shapes, reshaped, number, length, exhausted, truth, unbound,
    unknown_name,
]  # fmt: skip


def outcome(f, x):
    """The class, text and lines of the exception, and of what it came from."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        f(x)
    found, error = [], caught.value
    while error is not None:
        lines = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]
        found.append((type(error), str(error), lines[1:] if not found else lines, error.__suppress_context__))
        error = error.__cause__ or error.__context__
    return found


@pytest.mark.parametrize("f", RAISING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("make", [np.copy, Tensor], ids=["array", "Tensor"])
@pytest.mark.parametrize("options", [{}, {"jit_level": "O1"}, {"capture_mode": "bytecode"}, {"capture_mode": "trace"}], ids=lambda o: "".join(o.values()))
def test_the_exception_of_plain_python_comes_out(f, make, options):
    if options.get("capture_mode") == "trace" and f in (of_data, truth):
        pytest.skip("trace records one way of a branch on data: with fullgraph=True such a branch is an error")
    expected = outcome(f, make(X))
    marked = fj.jit(fullgraph=True, **options)(f)
    for _ in range(3):
        assert outcome(marked, make(X)) == expected


@pytest.mark.parametrize("mode", [fj.GRAPH_MODE, fj.PYNATIVE_MODE])
@pytest.mark.parametrize("f", [plain, of_a_helper, shapes, through_finally])
def test_in_cells(f, mode):
    class Net(fj.nn.Cell):
        def construct(self, x):
            return f(x * 2)

    net, before = Net(), fj.get_context("mode")
    expected = outcome(net.construct, Tensor(X))
    fj.set_context(mode=mode, jit_syntax_level=fj.STRICT)
    try:
        assert [found[:2] for found in outcome(net, Tensor(X))] == [found[:2] for found in expected]
    finally:
        fj.set_context(mode=before, jit_syntax_level=fj.LAX)


def test_calls_that_do_not_raise_are_graphs():
    marked = fj.jit(checked, fullgraph=True)
    for _ in range(40):
        with pytest.raises(Own):
            marked(X)
    np.testing.assert_array_equal(marked(X[0]), X[0])
    marked = fj.jit(lambda x, n: x * 2 / n + [1, 2][n], fullgraph=True)
    for _ in range(3):
        with pytest.raises(IndexError):
            marked(X, 7)
        np.testing.assert_array_equal(marked(X, 1), X * 2 + 2)
    assert len(marked.cache_entries()) == 1


def test_gradients_raise_what_the_function_raises():
    def f(x):
        return checked(x).sum()

    for marked in (fj.jit(fj.grad(f), fullgraph=True), fj.grad(fj.jit(f, fullgraph=True))):
        with pytest.raises(Own, match="from a helper"):
            marked(X)
        np.testing.assert_array_equal(marked(X[0]), np.ones(3))


def test_what_the_function_may_catch_is_a_break_and_nothing_runs():
    seen = []

    def f(x):
        seen.append(1)
        try:
            return x + np.ones(7)
        except ValueError:
            return x

    with pytest.raises(fj.GraphBreakError, match="FJ006"):
        fj.jit(f, fullgraph=True)(X)
    assert seen == []


def test_what_capture_cannot_follow_is_a_break():
    def f(x):
        print(x, file=None)
        raise Own

    with pytest.raises(fj.GraphBreakError, match="print"):
        fj.jit(f, fullgraph=True)(X)
