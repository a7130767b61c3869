"""Lists of lists in nests of loops: the compiled loop has the numbers of all rows, one row after the other."""

from __future__ import annotations

import gc
import os
import random
import re
import sys

import pytest

import framejit as fj
from forms_support import check_same, run
from loop_support import compare, loops
from test_unboxed_lists import check_random, graphs, made

pytestmark = pytest.mark.capture


@pytest.fixture(autouse=True)
def each_kernel(kernels):
    yield


def unboxes(marked):
    """Does the last loop that was compiled have the numbers of lists that were there?"""
    return "object -2" in loops(marked)[-1]["graph"]


def numbers(rows, columns, step=0.37):
    return [[(step * (3 * i + 5 * j + 1)) % 7 for j in range(columns)] for i in range(rows)]


def integers(rows, columns):
    return [[(311 * (3 * i + 5 * j + 1)) % 1009 for j in range(columns)] for i in range(rows)]


def product(a, b, c):
    for i in range(len(a)):
        for j in range(len(b[0])):
            total = 0.0
            for k in range(len(b)):
                total += a[i][k] * b[k][j]
            c[i][j] = total
    return c


def test_products():
    marked = compare(product, lambda: (numbers(9, 11), numbers(11, 10), numbers(9, 10)), lambda: (numbers(2, 1), numbers(1, 3), numbers(2, 3)))
    assert unboxes(marked)
    # Rows are at a distance that is known: their addresses are no loads.
    assert "object -4" in graphs(marked)


def test_shortest_paths():
    def form(d):
        n = len(d)
        for k in range(n):
            for i in range(n):
                for j in range(n):
                    way = d[i][k] + d[k][j]
                    if way < d[i][j]:
                        d[i][j] = way
        return d

    assert unboxes(compare(form, lambda: (integers(12, 12),), lambda: (integers(1, 1),), lambda: (integers(40, 40),)))


def test_rows_in_variables():
    def form(bodies, steps):
        for _ in range(steps):
            for i in range(len(bodies)):
                b = bodies[i]
                for j in range(i + 1, len(bodies)):
                    c = bodies[j]
                    b[1] -= c[0] * 0.125
                    c[1] += b[0] * 0.125
            for b in bodies:
                b[0] += b[1] * 0.25
        return bodies, b is bodies[-1], c is bodies[-1]

    assert unboxes(compare(form, lambda: (numbers(6, 2), 20)))


def test_iteration_and_builtins():
    def form(a, b):
        total = 0
        for turn in range(40):
            for row, (i, other) in zip(a, enumerate(b)):
                total += sum(row) - max(other) + len(other) + i
                for x in row:
                    total += x
                if row and other[turn % 3] > 500:
                    row[1] = total % 1009
                other[0] = min(row) + turn
        return total, a, b

    assert unboxes(compare(form, lambda: (integers(6, 4), integers(5, 3))))


def test_parts_of_rows():
    def form(a, steps):
        out = 0
        for k in range(steps):
            for i in range(len(a)):
                part = a[i][1:] + [k] + a[i]
                for j in range(len(part) - 1):
                    part[j] = (part[j] + part[j + 1]) % 1009
                a[i][0] = part[0]
                for x in sorted(part):
                    out = (out * 3 + x) % 10007
        return out, a

    assert unboxes(compare(form, lambda: (integers(5, 4), 20)))


@pytest.mark.parametrize("statement", ["a.append(row)", "row.append(5)", "a[0] = row", "kept = row, i", "kept.append(row)", "kept = [row, row]", "kept = row + [1]", "kept = a[1:]", "kept = a * 2", "row.pop()", "del a[0][0]", "kept = row is a[0]", "kept = row == a[0]", "kept = str(row)"])  # fmt: skip
def test_what_else_is_done_with_rows(statement):
    source = f"def form(a):\n    kept = []\n    for i in range(40):\n        for row in a:\n            for j in range(len(row)):\n                row[j] = (row[j] * 3 + i + j) % 1009\n        if i > 35:\n            {statement}\n    return a, kept, [r is row for r in a]\n"
    marked = fj.jit(made(source))
    for _ in range(4):
        check_same(run(made(source), (integers(4, 3),)), run(marked, (integers(4, 3),)), statement)


SUMS = "def form(a, b, u):\n    for i in range(40):\n        for j in range(1, len(a[1])):\n            a[1][j] = (a[0][j - 1] + b[1][j] + a[1][j]) % 1009\n            b[0][j] += u[j]\n            u[j - 1] = (b[1][j] + i) % 7\n    return a, b, u\n"


def same_rows():
    a = integers(3, 4)
    return a, a, [1, 2, 3, 4]


def common_row():
    a, b = integers(3, 4), integers(2, 4)
    b[1] = a[1]
    return a, b, [1, 2, 3, 4]


def repeated_row():
    return [[1, 2, 3, 4]] * 3, integers(2, 4), [1, 2, 3, 4]


def row_and_list():
    a = integers(3, 4)
    return a, integers(2, 4), a[1]


def of_other_lengths():
    return [[1, 2, 3], [4, 5, 6, 7], [1, 2, 3, 4]], integers(2, 4), [1, 2, 3, 4]


def of_other_items(item):
    a = integers(3, 4)
    a[2][2] = item
    return a, integers(2, 4), [1, 2, 3, 4]


class Row(list):
    pass


ARGUMENTS = [same_rows, common_row, repeated_row, row_and_list, of_other_lengths, lambda: of_other_items(2.5), lambda: of_other_items(2**70), lambda: of_other_items(True), lambda: of_other_items(None),
             lambda: ([[1, 2, 3, 4], (1, 2, 3, 4)], integers(2, 4), [1, 2, 3, 4]), lambda: ([[1, 2, 3, 4], Row([1, 2, 3, 4])], integers(2, 4), [1, 2, 3, 4]), lambda: ([[]], integers(2, 4), [1, 2]), lambda: ([], [], [])]  # fmt: skip


@pytest.mark.parametrize("k", range(len(ARGUMENTS)))
def test_lists_of_other_forms(k):
    """Before a list that has rows is known, and after it."""
    usual = lambda: (integers(3, 4), integers(2, 4), [1, 2, 3, 4])  # noqa: E731
    for order in ([usual, usual, ARGUMENTS[k], usual, ARGUMENTS[k]], [ARGUMENTS[k], ARGUMENTS[k], usual, usual]):
        marked = fj.jit(made(SUMS))
        for arguments in order:
            check_same(run(made(SUMS), arguments()), run(marked, arguments()), k)


def test_common_rows_are_found():
    marked = fj.jit(made(SUMS))
    marked(integers(3, 4), integers(2, 4), [1, 2, 3, 4])
    assert unboxes(marked)
    for arguments in (common_row, row_and_list, repeated_row, of_other_lengths):
        check_same(run(made(SUMS), arguments()), run(marked, arguments()), arguments.__name__)


@pytest.mark.parametrize("order", ["a, b", "b, a"])
def test_rows_that_are_read_under_one_name_and_stored_under_another(order):
    """Numbers of lists that are only read are not looked at when the loop is left."""
    source = f"def form({order}):\n    total = 0\n    for i in range(40):\n        for j in range(len(a)):\n            for k in range(len(a[0])):\n                total += a[j][k]\n                b[j][k] = (total + i) % 1009\n    return total, a, b\n"

    def one():
        a = integers(4, 5)
        return a, a

    marked = fj.jit(made(source))
    for arguments in (lambda: (integers(4, 5), integers(4, 5)), one, one):
        check_same(run(made(source), arguments()), run(marked, arguments()), order)
    assert unboxes(marked)


@pytest.mark.parametrize("call", [lambda f, t: list(map(f, [t])), lambda f, t: sorted([t], key=f), lambda f, t: f(**{"a": t}), lambda f, t: f(*[t])])
def test_tables_that_only_the_caller_holds(call):
    def form(a):
        for i in range(40):
            for row in a:
                for j in range(len(row)):
                    row[j] = (row[j] * 3 + i + j) % 1009
        return a[-1][-1]

    marked = fj.jit(form)
    for _ in range(4):
        plain, ours = integers(5, 4), integers(5, 4)
        assert call(form, plain) == call(marked, ours) and plain == ours
        assert call(form, integers(3, 4)) == call(marked, integers(3, 4))


def test_a_profile_function_sees_the_table():
    source = TABLE.replace("BEFORE", "pass").replace("AFTER", "return t[-1][-1]")
    plain, marked = made(source), fj.jit(made(source))
    for _ in range(3):
        marked([1, 5, 3, 8] * 8, 30)

    def seen(function):
        found = []
        sys.setprofile(lambda frame, event, _: event == "return" and frame.f_code.co_name == "form" and found.append(repr(frame.f_locals["t"])))
        try:
            return function([1, 5, 3, 8] * 8, 30), found
        finally:
            sys.setprofile(None)

    expected = seen(plain)
    assert expected == seen(marked) and len(expected[1]) == 1


def test_lists_in_lists_in_lists():
    def form(a):
        total = 0
        for _ in range(40):
            for plane in a:
                for row in plane:
                    for j in range(len(row)):
                        row[j] = (row[j] + total) % 1009
                        total += row[j]
        return a, total

    compare(form, lambda: ([integers(3, 4), integers(3, 4)],))


def test_exceptions_and_large_numbers():
    def form(a, k):
        for i in range(40):
            for j in range(len(a)):
                a[j][0] = a[j][0] * 3 + j
                a[j][k] = a[j - 1][1] + i
        return a

    marked = fj.jit(form)
    for k in (1, 1, 2, 5, -3, -9):
        check_same(run(form, (integers(4, 3), k)), run(marked, (integers(4, 3), k)), k)


def test_numbers_that_do_not_change_stay_the_objects():
    def form(a):
        for _ in range(40):
            for row in a:
                for j in range(1, len(row)):
                    row[j] = max(row[j], row[j - 1])
        return a

    first, second = [5000, 10**6, 3 * 10**9], [7.5 + k for k in range(3)]
    rows = [first[:], first[:]]
    marked = fj.jit(form)
    for _ in range(3):
        marked(rows)
    assert unboxes(marked) and all(a is b for row in rows for a, b in zip(row, first, strict=True))
    marked([second, second[:]])


def test_nothing_is_left_over():
    marked = fj.jit(product)
    a, b, c = numbers(6, 6), numbers(6, 6), numbers(6, 6)
    for _ in range(3):
        marked(a, b, c)
    gc.collect()
    before = sys.getrefcount(a), sys.getrefcount(a[0]), sys.getrefcount(c[5]), len(gc.get_objects())
    for _ in range(10):
        marked(a, b, c)
    gc.collect()
    assert (sys.getrefcount(a), sys.getrefcount(a[0]), sys.getrefcount(c[5])) == before[:3]
    assert abs(len(gc.get_objects()) - before[3]) < 50


# ---- results that are items

TABLE = "def form(w, n):\n    t = [[0] * n for _ in range(len(w) + 1)]\n    BEFORE\n    for i in range(1, len(w) + 1):\n        for j in range(1, n):\n            t[i][j] = max(t[i - 1][j], t[i][j - 1] + w[i - 1] * 37 % (j + 300))\n    AFTER\n"
RETURNS_AT_ONCE = [("pass", "return t[len(w)][n - 1]"), ("k = n - 1", "return t[-1][k]"), ("pass", "return -t[-1][-1] * 2 + t[1][1] % 7"), ("u = w", "return t[-1][n] if 0 else t[-1][n - 1]"), ("k = 3", "return t[-1][k - 1] / t[1][k]"), ("pass", "return max(t[-1]) - len(t) + abs(t[1][3])"), ("pass", "return sum(t[-1])")]  # fmt: skip
KEPT = [("kept.append(t)", "return t[-1][-1]"), ("kept.append(t[1])", "return t[-1][-1]"), ("kept.append(t[1]); u = t[1]", "return t[-1][-1]"), ("o = lambda: t", "kept.append(o)\n    return t[-1][-1]"), ("pass", "return t[-1]"), ("pass", "return t"), ("u = t", "return u"), ("kept.append({'t': t})", "return t[-1][-1] + 1"),
        ("pass", "return t[-1][-1], t"), ("kept.append(sys._getframe())", "return t[-1][-1]"), ("pass", "return t[n][0]"), ("pass", "return t[-1][n]"), ("pass", "return t[1][1] / t[0][0]"), ("pass", "try:\n        return t[-1][-1]\n    finally:\n        kept.append(t)"), ("pass", "yield t[-1][-1]\n    kept.append(t)")]  # fmt: skip


def kept_by(source, w, n):
    """The function of a source, and how to call it: that returns the outcome and what the program has put into its list `kept`."""
    kept = []
    form = made(source, kept=kept, sys=sys)

    def call(function):
        kept.clear()
        found = run(function, (list(w), n))
        left = [(item.f_locals if hasattr(item, "f_locals") else item() if callable(item) else item) for item in kept]
        return found, [{k: v for k, v in item.items() if k not in ("_", "kept")} if isinstance(item, dict) else item for item in left]

    return form, call


@pytest.mark.parametrize("before, after", RETURNS_AT_ONCE + KEPT)
def test_a_table_from_which_an_item_is_returned(before, after):
    source = TABLE.replace("BEFORE", before).replace("AFTER", after)
    w = [1, 5, 3, 8, 2, 9, 4, 7] * 5
    if "yield" in source:
        source = source.replace("def form", "def steps") + "\ndef form(w, n):\n    return list(steps(w, n))\n"
    plain, call_plain = kept_by(source, w, 30)
    ours, call_ours = kept_by(source, w, 30)
    marked = fj.jit(ours)
    expected = call_plain(plain)
    for _ in range(4):
        found = call_ours(marked)
        check_same(expected[0], found[0], source)
        assert repr(expected[1]) == repr(found[1])
    if (before, after) in RETURNS_AT_ONCE:
        # At its end the loop hands over the result alone.
        assert re.search(r"^exit\d+: %\d+$", loops(marked)[-1]["graph"], re.M), loops(marked)[-1]["graph"]


def test_a_frame_that_is_held_has_its_numbers():
    def form(x, frames):
        frames.append(sys._getframe())
        k = last = 0
        for k in range(len(x)):
            last = x[k] * 3  # noqa: F841
        return 0

    frames = []
    marked = fj.jit(form)
    for _ in range(3):
        marked(list(range(100)), frames)
    assert all((frame.f_locals["k"], frame.f_locals["last"]) == (99, 297) for frame in frames)


# ---- random programs

COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "80"))
FIRST = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))


def random_program(seed):
    """Nests of loops over lists of lists a and b, a list u, and numbers s and k."""
    pick = random.Random(seed).choice
    kind = ("i", "i", "f")[seed % 3]

    def row():
        return pick(["a[i % len(a)]", "b[j % len(b)]", "a[k]", "b[-1]", "a[j - 1]", "b[i % 3]", "r", "r", "q", "u"])

    def index():
        return pick(["j", "j", "j", "j - 1", "-1", "k", "0", "i % 3", "j + 1", "(i * 3 + j) % len(b[0])"])

    def number(depth=1):
        if depth == 0:
            return pick([f"{row()}[{index()}]"] * 5 + ["s", "k", "i", "j"] + {"i": ["1", "2**40", "-3", "300"], "f": ["0.5", "-0.0", "1e300"]}[kind])
        one, other = number(depth - 1), number(depth - 1)
        return pick([f"({one} {pick(['+', '-', '*', '+'])} {other})"] * 4 + [f"min({one}, {other})", f"({one} if {one} < {other} else {other})", one, f"({one} % 1009)"])

    def item():
        value = number(pick([0, 1, 1, 2]))
        return {"i": f"int({value}) % 100003", "f": f"float({value})"}[kind] if pick([1] * 15 + [0]) else value

    def inner(indent):
        lines = []
        for _ in range(pick([1, 1, 2, 3])):
            line = pick([f"{row()}[{index()}] = {item()}"] * 6 + [f"s = {item()}"] * 2 + [f"{pick('rq')} = {row()}"] * 2 + [f"s += {number(0)}", "s = s if s < 10**12 else 5", f"{row()}[{index()}] += {number(0)}", f"s = len({row()})"])
            lines.append(pick([line] * 5 + [f"if {number(0)} < {number(0)}: {line}", f"if {number(0)} == 17: break", f"if r is {row()}: {line}"]))
        return "".join(f"{indent}{line}\n" for line in lines)

    def outer():
        rarely = ["log.append(s)", f"log.append({row()})", f"{row()}.append({item()})", f"a.append({row()})", f"b[k] = {row()}", f"u = {row()}", f"u = {row()}[:]", f"s = sum({row()})", f"s = max({row()})", f"t = ({row()}, s)", "a = b", "a, b = b, a",
                  "s = o[0][0][0]", "o[0][0][0] = s", "a = [r[:] for r in b]", "r = [0] * len(r)", "print(s)", "s = u.pop() if len(u) > 3 else s", f"s = sorted({row()})[0]"]  # fmt: skip
        head = pick(["for j in range(len(a)):", "for j in range(1, len(a[0])):", "for j in range(min(len(u), len(a[0]), len(b[0])) - 1, 0, -1):", "for j, r in enumerate(a):", "for r in b:\n            j = len(r) // 2", "for r, q in zip(a, b):\n            j = k",
                     "for r in a:\n            for j in range(len(r)):\n                s = s + r[j]"])  # fmt: skip
        deep = "        for j in range(len(b)):\n            for m in range(len(b[j])):\n                " + pick([f"b[j][m] = {item()}", f"a[m % len(a)][j % len(a[0])] = {item()}", "s += b[j][m]"]) + "\n"
        return pick([f"        {head}\n{inner('            ')}"] * 7 + [deep] * 2 + [f"        {pick(rarely)}\n"])

    body = "".join(outer() for _ in range(pick([1, 2, 3, 4])))
    result = pick(["return a, b, u, s, j, log, t, [x is r for x in a], [x is q for x in b], o"] * 3 + ["return a[k][0]", "return r[-1] + b[j][0]", "return a[-1][k] * 2", "return r", "return a[k]"])
    if pick([0, 0, 0, 1]):
        body = "        pass\n    a, b = [x[:] for x in a], [x[1:] for x in b]\n    r, q = a[0], b[0]\n    for i in range(n):\n" + body
    return f"def form(a, b, u, k, n, o):\n    s, j, log, t, r, q = k, 0, [], 0, a[0], b[0]\n    for i in range(n):\n{body}    {result}\n"


def random_arguments(seed, call):
    rng = random.Random(seed * 31 + call)
    kind = ("i", "i", "f")[seed % 3]
    one = {"i": lambda: rng.choice([0, 1, 5, -7, 300, 70000, 2**33, -(2**50)]), "f": lambda: rng.choice([0.0, -0.0, 1.5, 1e300, float("inf"), -2.25])}[kind]

    def rows():
        columns = rng.choice([3, 4, 9, 20])
        return [[one() for _ in range(columns)] for _ in range(rng.choice([3, 4, 7]))]

    a, b, u = rows(), rows(), [one() for _ in range(rng.choice([3, 9]))]
    roll = rng.random()
    if roll < 0.05:
        b = a
    elif roll < 0.1:
        b[0] = a[1]
    elif roll < 0.15:
        u = b[1]
    elif roll < 0.18:
        a[2] = a[0]
    elif roll < 0.22:
        b[1].append(one())
    elif roll < 0.26:
        a[1][2] = rng.choice([0.5, 2**70, True, None, "x"])
    return a, b, u, rng.choice([0, 1, 2]), rng.choice([8, 40, 40]), [a if rng.random() < 0.3 else rows(), b if rng.random() < 0.3 else rows()]


@pytest.mark.filterwarnings("ignore")
def test_random_programs(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "off")
    unboxed = sum("object -4" in check_random(seed, random_program, random_arguments) for seed in range(FIRST, FIRST + COUNT))
    assert unboxed >= COUNT // 6
