"""Calls of Python functions are inlined; what a call reads of the function is guarded."""

import functools
import operator

import numpy as np

import framejit as fj
from capture_support import capture
from framejit import _core

X = np.arange(6.0).reshape(2, 3)


def scale(x, factor=2.0, *, shift=0.5):
    return x * factor + shift


def collect(x, *rest, **named):
    for r in rest:
        x = x + r
    for value in named.values():
        x = x * value
    return x


def fact(x, n):
    return x if n == 0 else fact(x, n - 1) * 2.0


def test_defaults_are_read_through_the_function():
    def f(x):
        return scale(x)

    c = capture(f, X)
    assert c.returns and c.guard("scale.__code__ is the code of scale")
    assert "scale.__defaults__[0]" in c.inputs and "scale.__kwdefaults__['shift']" in c.inputs
    assert c.guard("len(scale.__defaults__) == 1")


def test_defaults_that_are_given_are_not_guarded():
    def f(x):
        return scale(x, 3.0, shift=1.0)

    assert not capture(f, X).guard("__defaults__")


def test_star_arguments():
    def f(x, xs, kw):
        return collect(x, *xs, 2.0, **kw, k=3.0)

    c = capture(f, X, (X, X + 1), {"a": 4.0})
    assert c.returns and c.ops.count("add") == 3 and c.ops.count("multiply") == 2
    assert c.guard("len(xs) == 2") and c.guard("list(kw) ==")


def test_recursion_is_inlined_to_a_depth():
    def f(x, n):
        return fact(x, n)

    assert capture(f, X, 3).ops.count("multiply") == 3
    assert capture(f, X, 40).codes == ["FJ012"]


def halves(x):
    return x if len(x) == 1 else np.concatenate([halves(x[::2]) + 1.0, halves(x[1::2]) * 2.0])


def test_calls_that_branch_out_are_followed_as_a_whole_or_not_at_all(monkeypatch):
    x = np.arange(1024.0)
    whole, large, expected = capture(halves, x[:128]), capture(halves, x), halves(x)
    assert whole.codes == [] and whole.ops.count("multiply") == 127
    assert large.codes == ["FJ012"] and large.region is None
    marked = fj.jit(halves, capture_mode="bytecode")
    monkeypatch.setitem(globals(), "halves", marked)
    for _ in range(3):
        assert np.array_equal(marked(x), expected)
    # Arrays of 1024, 512 and 256 break at their calls, those of 128 are followed.
    assert max(entry["graph"].count("= multiply") for entry in marked._report()["entries"]) == 127


def test_nested_functions_and_nonlocal():
    def f(x):
        total = x * 0.5

        def add(y):
            nonlocal total
            total = total + y
            return total

        add(x)
        add(x)
        return total, add

    c = capture(f, X)
    assert c.returns and c.ops.count("add") == 2
    # the inner function is made with the cell that holds the last value
    assert c.result == "(array 0, function(" + c.result.split("function(", 1)[1]
    assert "cell(array 0)" in c.result


def test_function_with_two_closures_of_one_cell():
    def make():
        k = 2.0

        def get():
            return k

        def put(value):
            nonlocal k
            k = value

        return get, put

    get, put = make()

    def f(x):
        put(x + 1)
        return get() * 2

    c = capture(f, X)
    assert c.returns and len(c.effects) == 1 and c.effects[0].startswith("cell <")
    assert c.ops.count("add") == 1 and c.ops.count("multiply") == 1
    assert any(" is " in g and "__closure__" not in g.split(" is ")[0] or "k is" in g for g in c.guards)


def test_lambda_argument_is_guarded_by_code():
    def f(g, x):
        return g(x)

    c = capture(f, lambda v: v + 1, X)
    assert c.returns and c.guard("g.__code__ is") and not c.guard("g is ")


def test_bound_method_argument():
    class Model:
        def __init__(self):
            self.w = X

        def run(self, x):
            return self.w * x

    def f(run, x):
        return run(x)

    c = capture(f, Model().run, X + 1)
    assert c.returns and "run.__self__.w" in c.inputs and c.guard("run.__func__.__code__")


def test_static_and_class_methods_and_properties():
    class Model:
        K = 3.0

        @staticmethod
        def twice(x):
            return x * 2

        @classmethod
        def scaled(cls, x):
            return x * cls.K

        @property
        def offset(self):
            return self.b + 1.0

        def __init__(self):
            self.b = 0.5

        def __call__(self, x):
            return self.twice(x) + self.scaled(x) + self.offset

    def f(m, x):
        return m(x)

    c = capture(f, Model(), X)
    assert c.returns and c.ops.count("multiply") == 2 and c.guard(".offset is")


def test_callee_that_breaks_is_not_inlined():
    def noisy(x):
        print(x)
        return x

    def f(x):
        y = x * 2
        z = noisy(y)
        return z + 1

    c = capture(f, X)
    assert c.codes == ["FJ010"] and c.exit_op in ("PushNull", "LoadDeref") and c.locals["y"] == "array 0"
    assert c.stack == []
    # the reason is told where it is
    assert c.breaks[0][2].endswith("noisy")


def test_comprehensions_are_calls():
    def f(xs, k):
        return [x * k for x in xs if x is not None], {i: x for i, x in enumerate(xs)}

    c = capture(f, [X, None, X + 1], 2.0)
    assert c.returns and c.ops == ["multiply", "multiply"]
    assert c.result == "([array 0, array 1], {0, <xs[0]>, 1, None, 2, <xs[2]>})"


def test_wrong_arguments_are_left():
    def two(a, b):
        return a

    def f(x):
        y = x + 1
        return two(y)

    assert capture(f, X).codes == ["FJ006"]


def test_unknown_callables_break():
    total = operator.methodcaller("sum")

    def f(x):
        y = x * 2
        return total(y)

    c = capture(f, X)
    assert c.codes == ["FJ002"] and c.locals["y"] == "array 0"


def test_the_parts_of_partial_objects_are_guarded():
    scaled = functools.partial(lambda x, k, c: x * k + c, k=2.0, c=1.0)

    def f(x):
        return scaled(x, c=3.0)

    c = capture(f, X)
    assert c.returns
    for part in ("args", "keywords", "func"):
        assert any(f"scaled.{part}" in guard for guard in c.guards), c.guards
    marked = _core.Function(f, {})
    assert np.array_equal(marked(X), X * 2.0 + 3.0)
    scaled.keywords["k"] = 4.0
    assert np.array_equal(marked(X), X * 4.0 + 3.0)


def test_builtins_over_known_values():
    def f(xs, n):
        total = sum(x for x in ()) if n > 100 else 0.0
        for i, (a, b) in enumerate(zip(xs, reversed(xs)), 1):
            total = total + a * b * i
        for j in reversed(range(0, n, 2)):
            total = total + j
        return total * max(n, 2) * min(1.0, 2) + sum(xs) + abs(-n) + int(2.5) + len(xs) * bool(n)

    c = capture(f, (X, X + 1), 5)
    assert c.returns, c.breaks


def test_isinstance_and_getattr():
    def f(x, o):
        if isinstance(x, np.ndarray) and isinstance(o, (int, tuple)) and hasattr(x, "shape"):
            return x * getattr(o, "missing", 2.0)
        return x

    c = capture(f, X, (1,))
    assert c.codes or c.returns


def test_map_and_iter_and_next():
    def f(xs):
        it = iter(xs)
        first = next(it)
        for x in map(lambda v: v * 2, it):
            first = first + x
        return first

    c = capture(f, (X, X + 1, X + 2))
    assert c.returns and c.ops.count("multiply") == 2


def test_generator_expressions_are_followed():
    def f(xs, k):
        return sum(x * k for x in xs if x is not None), list(x + 1 for x in xs[:1]), any(i > 1 for i in range(5))

    c = capture(f, [X, None, X + 1], 2.0)
    assert c.returns and c.ops.count("multiply") == 2 and c.result.endswith("True)")


def test_generators_interleave_with_their_consumer():
    def gen(x, log):
        for i in range(3):
            log.append(i)
            yield x * i

    def f(x, log):
        for y in gen(x, log):
            log.append("used")
            x = x + y
        return x

    c = capture(f, X, [])
    assert c.returns and [e.split("(")[1] for e in c.effects] == ["0)", "'used')", "1)", "'used')", "2)", "'used')"]


def test_no_region_ends_while_a_generator_would_run_a_handler():
    def gen(x, log):
        try:
            yield x
        finally:
            log.append("closed")

    def ended(x, log):
        y = x * 2
        return list(gen(y, log))

    def suspended(x, log):
        y = x * 2
        return next(gen(y, log))

    c = capture(ended, X, [])
    assert c.returns and c.effects == ["<log>.extend('closed')"]
    c = capture(suspended, X, [])
    assert c.codes == ["FJ001"] and not c.returns and not c.effects


def test_super():
    class A:
        def run(self, x):
            return x * 2

    class B(A):
        pass

    class C(B):
        def run(self, x):
            return super().run(x) + 1

    def f(o, x):
        return o.run(x)

    c = capture(f, C(), X)
    assert c.returns and c.ops[-1] == "add" and c.guard("A.run")
