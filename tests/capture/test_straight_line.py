"""Constants, names, operators and returns: what the graph and the guards of straight code look like."""

import math

import numpy as np

from capture_support import capture

X = np.arange(6.0).reshape(2, 3)
SCALE = 3.0
COUNT = 4
NAME = "sum"


def test_operators_and_constants():
    def f(x, y):
        return (x * 2.0 + y) / 4.0

    c = capture(f, X, X + 1)
    assert c.returns and c.result == "array 0" and not c.breaks
    assert [op for op in c.ops if op != "constant"] == ["multiply", "add", "divide"]
    assert len(c.inputs) == 2


def test_one_object_twice_is_one_param():
    def f(x, y):
        return x * y

    c = capture(f, X, X)
    assert c.inputs == ["x"] and c.guard("y is x")


def test_global_numbers_are_constants_until_they_vary():
    def f(x):
        return x * SCALE + COUNT

    c = capture(f, X)
    assert c.inputs == ["x"] and c.guard("SCALE ==") and c.guard("COUNT == 4")
    c = capture(f, X, capture_options={"varied": ("SCALE",)})
    assert "SCALE" in c.inputs and c.guard("type(SCALE) is float") and c.guard("COUNT == 4")


def test_varied_int_becomes_symbolic():
    def f(x, n):
        return x + (n * 2 + 1)

    c = capture(f, X, 5, capture_options={"varied": ("n",)})
    assert c.returns and c.guard("type(n) is int") and not c.guard("n == 5")
    assert "dim" in c.ops


def test_module_attributes_are_items_of_the_module():
    def f(x):
        return np.exp(x) * np.pi

    c = capture(f, X)
    assert c.guard("np is numpy") and c.guard("numpy.exp is") and c.guard("numpy.pi == 3.14") and c.inputs == ["x"]


def test_builtin_is_guarded_in_both_places():
    def f(x):
        return x * len((1, 2))

    c = capture(f, X)
    assert c.guard("'len' not in globals()") and c.guard("len is len")


def test_closure_is_read_through_its_cell():
    k = 2.5

    def f(x):
        return x * k

    c = capture(f, X)
    assert c.inputs == ["x", "k"] or c.inputs == ["k", "x"]


def test_float_arithmetic_becomes_nodes():
    def f(x, a, b):
        return x * (a * b - 1.0)

    c = capture(f, X, 2.0, 3.0)
    assert [op for op in c.ops if op != "constant"] == ["multiply", "subtract", "multiply"]


def test_division_by_a_float_argument_is_specialised():
    def f(x, dt):
        return x * (1.0 / dt)

    c = capture(f, X, 0.5)
    assert c.returns and c.guard("dt == 0.5")
    varied = capture(f, X, 0.5, capture_options={"varied": ("dt",)})
    assert varied.returns and not varied.codes and not varied.guard("dt == 0.5")
    assert "expect" in varied.region["graph"]


def test_division_by_zero_is_left():
    def f(x):
        y = x + 1.0
        return y * (1 / 0.0)

    c = capture(f, X)
    assert not c.returns and c.codes == ["FJ006"]


def test_constants_fold_without_raising():
    def f(x):
        return x * (2**10 // 3) + len("ab" * 3) + math.sqrt(4.0)

    c = capture(f, X)
    assert c.returns and "{value=341}" in c.graph and "{value=6}" in c.graph and "{value=2}" in c.graph


def test_huge_constants_are_not_computed():
    def f(x):
        y = x + 1
        return y, 10 ** 10 ** 9

    assert capture(f, X).codes == ["FJ015"]


def test_chained_comparison_and_boolean_operators():
    def f(x, n):
        if 0 < n <= 5 and not n == 3 or n is None:
            return x + 1
        return x - 1

    assert capture(f, X, 5).ops[-1] == "add"
    assert capture(f, X, 3).ops[-1] == "subtract"
    symbolic = capture(f, X, 5, capture_options={"varied": ("n",)})
    assert symbolic.guard("0 < n") and symbolic.guard("n <= 5") and symbolic.guard("n != 3")


def test_none_is_identity():
    def f(x, w=None):
        return x + 1 if w is None else x * w

    assert capture(f, X).guard("w is None")
    assert capture(f, X, X).ops == ["multiply"]


def test_f_strings_and_methods_of_constants():
    def f(table, k):
        return table[f"w{k}".lower()] * 2

    c = capture(f, {"w1": X}, 1)
    assert c.returns and c.inputs == ["table['w1']"]


def test_unpacking():
    def f(pair):
        (a, b), *rest = pair
        c, d = rest
        a, b = b, a
        return a - b + c * d

    c = capture(f, ((X, X + 1), X + 2, X + 3))
    assert c.returns and c.ops == ["subtract", "multiply", "add"] and len(c.inputs) == 4
    assert c.guard("len(pair) == 3") and c.guard("len(pair[0]) == 2")


def test_slices_and_shapes():
    def f(x):
        n, m = x.shape
        return x[:, 1 : m - 1] + n

    c = capture(f, np.ones((4, 6)))
    assert c.returns and "view" in c.ops and "f64[4, 4]" in c.graph


def test_symbolic_shapes():
    def f(x):
        n, m = x.shape
        return x * (n + m)

    c = capture(f, np.ones((4, 6)), capture_options={"dynamic": True})
    assert c.returns and "s0 + s1" in c.graph


def test_result_is_the_argument_itself():
    def f(x, y):
        z = x + y
        return x, z, [x, z]

    c = capture(f, X, X + 1)
    assert c.result == "(<x>, array 0, [<x>, array 0])"


def test_lambda_and_default():
    f = lambda x, k=2.0: x * k  # noqa: E731
    assert capture(f, X).returns


def test_import_inside_a_function():
    def f(x):
        import numpy as xp
        from math import pi

        return xp.sin(x) * pi

    c = capture(f, X)
    assert c.returns and c.guard("sys.modules['numpy'] is numpy") and "sin" in c.ops


def test_walrus_assert_and_conditional_expression():
    def f(x, n):
        assert n > 1, "too small"
        return x * m if (m := n + 1) > 2 else x

    assert capture(f, X, 2).returns
