"""Where regions end and begin: exits, stack, locals, loops, entries in the middle of a frame."""

import numpy as np
import pytest

import framejit as fj
from capture_support import ITERATOR_SLOTS, NULL, capture, capture_at, cell, instructions

X = np.arange(6.0).reshape(2, 3)


def test_break_keeps_what_was_computed():
    def f(x):
        y = x + 1
        z = y * 2
        print(z)
        return z - y

    c = capture(f, X)
    assert c.codes == ["FJ010"] and c.exit_op == "LoadGlobal"
    assert c.locals == {"y": "array 0", "z": "array 1"} and c.stack == []


def test_an_instruction_that_breaks_leaves_no_trace():
    def helper(x, log):
        log.append(x * 3)
        print(x)

    def f(x, log):
        y = x + 1
        helper(y, log)
        return y

    c = capture(f, X, [])
    assert c.ops == ["constant", "add"] and c.effects == [] and not c.guard("log")


def test_branch_on_an_array_ends_at_the_jump():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            print(y)
            return y + 1
        return y - 1

    c = capture(f, X)
    assert c.codes == ["FJ005"] and c.exit_op == "PopJumpIfFalse" and len(c.stack) == 1


def test_nothing_to_compile():
    def f(a, b):
        return [a, b]

    c = capture(f, 1, 2)
    assert c.region is None and c.breaks == []


def test_views_alone_are_not_worth_a_region():
    def f(x):
        return x.T

    assert capture(f, X).region is None


def test_deleted_local():
    def f(x):
        y = x + 1
        z = y * 2
        del y
        print(z)

    c = capture(f, X)
    assert "y" not in c.locals and c.locals["z"] == "array 0"

    def g(x, y):
        z = x * 2
        del y
        print(z)

    assert capture(g, X, 1).locals["y"] == "NULL"


def test_unbound_local_is_left():
    def f(x, flag):
        y = x * 2
        if flag:
            z = y
        return y + z

    assert capture(f, X, False).codes == ["FJ018"]


def test_a_deleted_variable_of_a_closure_is_left_the_second_time():
    def f(x, n):
        for _ in range(3):
            x = np.sqrt(x + 3)
            del n
        return x, lambda: n

    def outcome():
        try:
            f(X, 1)
        except UnboundLocalError as error:
            return str(error), error.__traceback__.tb_next.tb_lineno
        return "none"

    expected = outcome()
    for stress in ("rewrite", "rewrite,break=1", "rewrite,break=2", "rewrite,break=3"):
        with fj.mark(f, stress=stress):
            for _ in range(3):
                assert outcome() == expected, stress


def test_entry_behind_a_call():
    def f(x):
        y = x + 1
        print(y)
        return y * 2

    at = [i for i, name, line in instructions(f, "PopTop")][0]
    c = capture_at(f, at, {"x": X, "y": X + 1}, (None,))
    assert c.returns and c.inputs == ["y"] and c.result == "array 0"


def test_stack_at_the_entry_is_kept():
    def f(x, g):
        return g(x + 1, x * 2)

    calls = [i for i, name, line in instructions(f, "BinaryOp")]
    c = capture_at(f, calls[0], {"x": X, "g": print}, (NULL, print, X, 1))
    assert c.codes == ["FJ010"] and c.exit_op == "Call"
    assert c.stack == ["NULL", "<stack[1]>", "array 0", "array 1"] and c.locals == {}


def test_loop_over_a_known_range_is_unrolled():
    def f(x):
        for i in range(3):
            x = x * i
        return x

    assert capture(f, X).ops.count("multiply") == 3


def test_few_rounds_are_unrolled_whatever_they_add():
    def f(x, rounds):
        for i in range(rounds):
            x = x * 2 + x * 3 + x * 4 + x * 5 + x * 6 + x * 7 + x * 8 + x * 9
        return x

    assert capture(f, X, 32).codes == [] and capture(f, X, 32).ops.count("multiply") == 256
    assert capture(f, X, 34).codes == [] and capture(f, X, 300).codes == ["FJ011"]


def test_rounds_that_add_few_thousand_nodes_are_unrolled():
    def f(x, rounds):
        for i in range(rounds):
            x = x * 2 + x * 3
        return x

    few, many = capture(f, X, 500), capture(f, X, 1000)
    assert few.codes == [] and few.ops.count("add") == 500
    assert many.codes == ["FJ011"] and many.ops.count("add") < 500


def test_long_loop_is_left_to_the_bytecode():
    def f(x):
        y = x + 1
        for i in range(100000):
            y = y * x
        return y

    c = capture(f, X)
    assert c.codes == ["FJ011"] and c.exit_op == "ForIter" and c.ops == ["constant", "add"]
    assert c.stack == ["iter(range(0, 100000, 1))", "NULL"][:ITERATOR_SLOTS]


def test_loop_body_is_a_region_of_its_own():
    def f(x):
        for i in range(100000):
            x = x * 0.5 + 1.0
        return x

    body = instructions(f, "ForIter")[0][0] + 1
    stack = [iter(range(5)), NULL][:ITERATOR_SLOTS]
    c = capture_at(f, body, {"x": X}, (*stack, 1))
    assert c.region and c.exit_op == "ForIter" and c.stack == ["<stack[0]>", "NULL"][:ITERATOR_SLOTS]
    assert c.locals == {"x": "array 0", "i": f"<stack[{len(stack)}]>"}


def test_while_loop_round_by_round():
    def f(x, n):
        i = 0
        while i < n:
            x = x * 0.5
            i += 1
        return x

    whole = capture(f, X, 4)
    assert whole.returns and whole.ops.count("multiply") == 4
    long = capture(f, X, 100000)
    assert long.region and not long.returns
    head = [i for i, name, line in instructions(f) if name == "LoadFast"]
    c = capture_at(f, head[2], {"x": X, "n": 100000, "i": 7}, varied=("i", "n"))
    assert c.region and not c.returns and c.locals["x"].startswith("array") and c.locals["i"].startswith("int ")


def test_break_inside_a_loop_keeps_the_iterator():
    def f(x, xs):
        for i, y in enumerate(xs):
            x = x + y
            if i == 1:
                print(x)
        return x

    c = capture(f, X, [X, 2.0, 3.0])
    assert c.exit_op == "LoadGlobal" and c.stack[0] == "enumerate(iter(<xs>)+2, 2)"
    assert c.locals["i"] == "1" and c.locals["y"] == "<xs[1]>"


def test_views_of_a_dict_cannot_be_on_the_stack_at_an_exit():
    def f(x, d):
        y = x + 1
        for k, v in d.items():
            y = y * v
            print(y)
        return y

    c = capture(f, X, {"a": 2.0})
    assert c.codes == ["FJ010"] and c.ops == ["constant", "add"] and "dict" not in " ".join(c.stack)


def test_code_inside_try_and_after():
    def f(x):
        try:
            y = x * 2
            if y.shape[0] > 100:
                raise ValueError("large")
        except ValueError:
            y = x
        finally:
            x = x + 1
        return x * y

    c = capture(f, X)
    assert c.returns and [op for op in c.ops if op != "constant"] == ["multiply", "add", "multiply"]


def test_raise_and_with_are_left():
    def f(x):
        y = x + 1
        raise ValueError(y)

    assert capture(f, X).codes[0] in ("FJ014", "FJ002")

    def g(x, lock):
        y = x + 1
        with lock:
            return y * 2

    import threading

    c = capture(g, X, threading.Lock())
    assert c.exit_op in ("LoadFast", "LoadSpecial") and c.locals == {"y": "array 0"}


def test_cells_of_the_frame():
    def f(x):
        total = x + 1

        def get():
            return total

        print(get)
        return total * 2

    c = capture(f, X)
    assert c.locals["total"] == "cell(array 0)" and "cell(array 0)" in c.locals["get"]
    at = [i for i, name, line in instructions(f, "PopTop")][-1]
    c = capture_at(f, at, {"x": X, "total": cell(X + 1), "get": print}, (None,))
    assert c.returns and c.inputs == ["total"]


def test_generator_body_between_yields():
    def f(x):
        y = x + 1
        yield y
        yield y * 2

    assert capture(f, X).codes == ["FJ013"]
    at = instructions(f, "Resume")[0][0] + 1
    c = capture_at(f, at, {"x": X})
    assert c.codes == ["FJ013"] and c.exit_op in ("YieldValue", "LoadFast", "StoreFast") and c.region


def test_instruction_limit():
    def f(x):
        y = x + 1
        for i in range(10**9):
            pass
        return y

    c = capture(f, X, capture_options={"instruction_limit": 500})
    assert c.codes == ["FJ024"] and c.exit_op == "ForIter"
    assert "rounds" in " ".join(map(str, c.breaks[0]))


def test_match_statement():
    def f(x, shape):
        match shape:
            case (n, m):
                return x * n + m
            case _:
                return x

    assert capture(f, X, (2, 3)).returns


LEAST, MOST = -(2**63), 2**63 - 1
RANGES = [(0, 5, 1), (5, 0, -2), (3, 3, 1), (4, 2, 1), (-7, 9, 5), (LEAST, LEAST + 9, 4), (MOST - 9, MOST, 4)]
RANGES += [(LEAST, MOST, MOST), (MOST, LEAST, LEAST), (0, MOST, MOST), (0, 2**64, 2**62), (2**70, 0, -(2**68))]


@pytest.mark.parametrize("passed", [0, 1, 2], ids="passed {}".format)
@pytest.mark.parametrize("ends", RANGES, ids=str)
def test_an_iterator_over_a_range_is_made_without_the_range(ends, passed):
    start, stop, step = ends

    def f(x, log):
        y = x + 1
        for i in range(start, stop, step):
            if len(log) >= passed:
                print(end="")
            log.append((i, y[0]))
            if len(log) > 6:
                break
        return y

    expected, given = [], []
    f(X[0], expected)
    marked = fj.jit(f)
    for _ in range(3):
        given.clear()
        marked(X[0], given)
        assert given == expected and [type(i) for i, _ in given] == [int] * len(given)
    assert marked._report()["entries"]
