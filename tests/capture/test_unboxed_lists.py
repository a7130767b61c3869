"""Lists of numbers in nests of loops: the compiled loop has the numbers, and the lists get objects of what has changed when it is left."""

from __future__ import annotations

import os
import random
import sys
import threading

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run
from loop_support import compare, loops
from test_loop_lists import primes

pytestmark = pytest.mark.capture


@pytest.fixture(autouse=True)
def each_kernel(kernels):
    yield


def graphs(marked):
    return "\n".join(entry["graph"] for entry in loops(marked))


def unboxes(marked):
    """Does the last loop that was compiled have the numbers of lists that were there?"""
    return "object -2" in loops(marked)[-1]["graph"]


def made(source, **names):
    namespace = {"np": np, **names}
    exec(compile(source, __file__, "exec"), namespace)
    return namespace["form"]


def sums_of_neighbours(u, rounds):
    for _ in range(rounds):
        for j in range(1, len(u)):
            u[j] = (u[j] + u[j - 1]) % 1000003
    return u


@pytest.mark.parametrize("length", [0, 1, 2, 3, 40])
def test_ints(length):
    marked = compare(sums_of_neighbours, lambda: ([k * 700 - 5 for k in range(length)], 40))
    if length > 1:
        assert unboxes(marked)
        assert "store_int" not in graphs(marked)  # no object is made


def test_floats_and_bools(no_requests_for_the_gil):
    def form(u, flags):
        for i in range(40):
            for j in range(len(u)):
                if flags[j]:
                    u[j] = u[j] * 0.5 + i
                flags[j] = u[j] > 7.5
        return u, flags

    values, flags = [0.0, -0.0, 1.5, float("inf"), 7.25, 1e-310, -3.25], [True, False, True, True, False, True, True]
    marked = compare(form, lambda: (list(values), list(flags)))
    assert unboxes(marked) and graphs(marked).count("object -5") == 1
    marked = compare(form, lambda: (list(values), list(flags)), lambda: ([*values[:6], float("nan")], list(flags)))
    assert not unboxes(marked)  # a NaN is an object of its own


@pytest.fixture
def no_requests_for_the_gil():
    """Threads of the test runner would make loops leave."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(100.0)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("statement", [
    "row = [0] * n", "row = n * [7]", "row = [i] + [0] * n", "row = u[:]", "row = u[1:] + [i, n]", "row = list(range(n + 1))", "row = list(u)", "row = [i, 2, 3, n]", "row = u + u",
    "row = [True] * n", "row = [0.5] * n + [i * 0.5]", "row = u[2:4]", "row = [3] * (n - 9)", "row = [i] * 3 + u[:2] + [4]",
])  # fmt: skip
def test_lists_that_the_loop_makes(statement, no_requests_for_the_gil):
    form = made(f"def form(u, n):\n    total = 0\n    row = [1]\n    for i in range(40):\n        {statement}\n        for j in range(len(row)):\n            total += row[j] * 2\n"
                "            row[j] = row[len(row) - 1 - j]\n    return total, row, u")  # fmt: skip
    marked = compare(form, lambda: ([5, -300, 2**40, 7, 1], 6))
    assert any(made in graphs(marked) for made in ("new_numbers", "unbox_made"))
    assert not [e for entry in loops(marked) for e in entry["exits"] if e["early"] and e["taken"] > 9]


def test_a_list_of_the_loop_in_two_variables():
    def form(n):
        before, kept = [0] * n, None
        for i in range(40):
            row = [i] * n
            for j in range(1, n):
                row[j] = (row[j - 1] + before[j]) % 1009
            before = row
            if i == 30:
                kept = row
        return before, row, kept, before is row, kept is row

    marked = compare(form, lambda: (6,))
    assert "new_numbers" in graphs(marked)


def test_one_list_under_two_names():
    def form(u, c):
        for i in range(40):
            for j in range(1, len(u)):
                u[j] = (c[j - 1] + u[j]) % 1009
                c[j] += 1
        return u, c

    def one():
        u = [k * 300 for k in range(9)]
        return u, u

    marked = compare(form, lambda: ([1, 2, 3], [4, 5, 6]), one)
    assert unboxes(marked)


def test_a_list_that_another_name_makes_longer():
    def form(u, c):
        for i in range(40):
            for j in range(1, len(u)):
                u[j] = (u[j - 1] + u[j]) % 1009
            c.append(i)
            c[0] = 5
        return u, c

    def one():
        u = [k * 300 for k in range(9)]
        return u, u

    marked = compare(form, lambda: ([1, 2, 3], [4, 5, 6]), one)
    assert not unboxes(marked)  # once the two were one


def test_a_list_whose_length_changes_under_another_name():
    def form(u, c):
        for i in range(40):
            c.append(i)
            for j in range(len(u)):
                u[j] = (u[j] + c[-1] + c[0]) % 1009
            c.pop()
        return u, c

    def one():
        u = [k * 300 for k in range(9)]
        return u, u

    marked = compare(form, lambda: ([1, 2, 3], [4, 5, 6]))
    assert "object -5" in graphs(marked)
    compare(form, lambda: ([1, 2, 3], [4, 5, 6]), one)


def test_a_list_in_a_list():
    def form(rows, row):
        for i in range(40):
            for j in range(1, len(row)):
                row[j] = (row[j - 1] + rows[1][j]) % 1009
                rows[1][j - 1] += 1
        return rows, row

    def one():
        rows = [[1, 2, 3], [4, 5, 6]]
        return rows, rows[1]

    marked = compare(form, lambda: ([[1, 2], [3, 4]], [5, 6]), one)
    assert not unboxes(marked)


def test_a_list_that_joins_another():
    def form(n):
        out = []
        for i in range(40):
            row = [0] * n
            for j in range(1, n):
                row[j] = row[j - 1] + i
            out.append(row)
            row[0] = 7
        return out, row is out[-1]

    marked = compare(form, lambda: (6,))
    assert "new_numbers" not in graphs(marked)


@pytest.mark.parametrize("others", [[1, 2, 0.5, 4], [1, 2, 2**64, 4], [1, True, 3, 4], [1, None, 3, 4], [1, np.int64(3), 4, 5]])
def test_other_items(others):
    """Such a list is not unboxed, and the loop is captured again."""

    def form(u):
        total = 0
        for i in range(40):
            for j in range(1, 4):
                u[0] = j
                total += u[j] if u[j] else 0
        return total, u

    marked = compare(form, lambda: ([1, 2, 3, 4],), lambda: (list(others),), lambda: ([1, 2, 3, 4],))
    assert not unboxes(marked)


def test_what_becomes_too_large():
    def form(u):
        for i in range(70):
            for j in range(1, len(u)):
                u[j] = u[j] + u[j - 1]
        return u

    compare(form, lambda: ([1, 2, 3, 1000],), lambda: ([-(2**63), 1, 2],), lambda: ([2**62, 2**62, -1, 5],))


def test_an_exception_in_the_loop():
    def form(u, c):
        for i in range(60):
            for j in range(len(u)):
                c[(j * 7 + i) % 11] = u[j] // (40 - i)
                u[j] += 1
        return u

    marked = compare(form, lambda: (list(range(9)), [0] * 11), lambda: (list(range(9)), [0] * 8))
    assert unboxes(marked)


def test_items_that_do_not_change_stay_the_objects():
    def form(u):
        for i in range(40):
            for j in range(0, len(u), 2):
                u[j] += 1
        return u

    marked = fj.jit(form)
    for _ in range(3):
        given = [k * 1000 + 500 for k in range(20)]
        before = list(given)
        marked(given)
        assert unboxes(marked)
        assert all(given[k] is before[k] for k in range(1, 20, 2))
        assert all(given[k] == before[k] + 40 for k in range(0, 20, 2))  # an object that others hold keeps its value
        assert before == [k * 1000 + 500 for k in range(20)]


def test_small_ints_are_the_interpreters():
    def form(u):
        for i in range(300):
            for j in range(len(u)):
                u[j] = (u[j] + 1) % 1000
        return u

    marked = fj.jit(form)
    for _ in range(5):
        for item in marked([5000 + k * 90 for k in range(12)]):
            assert item > 256 or item is int(str(item))


def test_lists_of_instances_and_globals():
    class Box:
        def __init__(self):
            self.u = [3, 700, 12]

    table = [5, 6, 7]

    def form(box):
        for i in range(40):
            for j in range(3):
                box.u[j] = (box.u[j] * 3 + table[j] + i) % 4001
                table[j] = box.u[j] + 1
        return box.u, table

    plain, ours = Box(), Box()
    expected = run(form, (plain,))
    table[:] = [5, 6, 7]
    marked = fj.jit(form)
    check_same(expected, run(marked, (ours,)), "form")
    assert unboxes(marked)


def flood(free):
    seen = np.zeros(free.shape, dtype=np.bool_)
    places = [(0, 0)]
    count = 0
    while places:
        y, x = places.pop()
        if y < 0 or x < 0 or y >= free.shape[0] or x >= free.shape[1] or seen[y, x] or not free[y, x]:
            continue
        seen[y, x] = True
        count += 1
        for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            places.append((y + dy, x + dx))
    return count, seen, places


def test_a_stack_of_tuples():
    marked = compare(flood, lambda: (np.random.default_rng(5).random((17, 23)) < 0.8,))
    assert "grow_numbers" in graphs(marked) and "append_built" not in graphs(marked)


def test_a_list_that_grows_and_is_read():
    marked = compare(primes, lambda: (60,))
    assert "grow_numbers" in graphs(marked) and "append_int" not in graphs(marked)


@pytest.mark.parametrize("start", [[], [5], [2**40, 7, -1, 300, 12], [0.5], [1, "x"]])
def test_lists_that_grow_and_shrink(start):
    def form(u, n):
        taken = 0
        for i in range(n):
            u.append(i * 300)
            if i % 3 == 2:
                taken += u.pop() - u.pop()
            if i % 7 == 5 and len(u) > 4:
                u[-2] = u[1] + 1
        while len(u) > 3:
            u.pop()
        return u, taken

    compare(form, lambda: (list(start), 50), lambda: ([1, 2, 3] * 9, 40), lambda: ([1], 0))


def test_a_list_that_becomes_empty():
    def form(u, n):
        total = 0
        for i in range(n):
            total += u.pop() * i
        return total, u

    marked = compare(form, lambda: (list(range(60)), 50), lambda: (list(range(40)), 60), lambda: ([], 40))
    assert unboxes(marked)


@pytest.mark.parametrize("statement", ["stack.append(p)", "p = (i, 0.5)\n        stack.append(p)", "stack.append((1, 2.5))", "q = stack.pop()\n        stack.append((q[0] + 1, q[1]))", "stack[0] = p", "q = stack[-1]", "kept.append(stack)"])
def test_tuples_that_are_seen(statement):
    """Tuples that something else holds stay the objects that they are."""
    form = made(f"def form(stack, p, kept):\n    q = p\n    for i in range(40):\n        {statement}\n        a, b = stack.pop()\n        stack.append((a + i, b * 0.5))\n"
                "        if len(stack) > 30:\n            del stack[3:]\n    return stack, p, q, kept[-1:], [t is p for t in stack], [t is q for t in stack]")  # fmt: skip
    compare(form, lambda: ([(1, 2.0), (3, 4.0)], (7, 1.5), [0]), lambda: ([(k, k / 2) for k in range(9)], (7, 1.5), [0]))


def test_a_tuple_that_is_put_back_is_another_one():
    def form(stack, n):
        for i in range(n):
            a, b = stack.pop()
            stack.append((a, b + 1 - 1))
        return stack

    marked = fj.jit(form)
    for _ in range(3):
        given = [(k, k * 1000) for k in range(5)]
        before = list(given)
        marked(given, 40)
        assert unboxes(marked)
        assert given == before
        assert [a is b for a, b in zip(given, before, strict=True)] == [True, True, True, True, False]


def test_other_tuples():
    def form(stack, n):
        total = 0
        for i in range(n):
            a, b = stack.pop()
            stack.append((a + 1, b))
            total += a
        return total, stack

    compare(form, lambda: ([(1, 2)], 40), lambda: ([(1, 0.5)], 40), lambda: ([(2**70, 1)], 40), lambda: ([(1, 2), (1, 2, 3)], 40), lambda: ([(1, 2), (True, 3)], 40), lambda: ([[1, 2]], 40))


def test_what_is_appended_to_the_list_that_is_gone_through():
    def form(u):
        total = 0
        for k in range(30):
            for x in u:
                if x < 40 and len(u) < 200:
                    u.append(x + 7)
                total += x
        return u, total

    marked = compare(form, lambda: ([1, 2, 3],))
    assert unboxes(marked)


@pytest.mark.parametrize("part", ["u[i:i + 5]", "u[i:i + 40]", "u[i:i + 3] + [u[0], 0.0, -0.0, 0.0]", "u[i:]", "[u[i], -0.0, 0.0]"])
@pytest.mark.parametrize("numbers", [[0.5, -0.0, 0.0, 7.5, -3.25, 0.0, -0.0, 1e300, float("inf")] * 9, [float("nan"), 1.5, 2.5] * 20, [2**62, 5, -7, 300, 2**40] * 12])
def test_builtins_of_lists(numbers, part):
    form = made(f"def form(u):\n    out = []\n    for i in range(len(u) - 5):\n        row = {part}\n        s = sorted(row)\n        out.append(s[0])\n"
                "        out.append(max(s))\n        out.append(min(row))\n        out.append(sum(s[1:]))\n        s[0] = row[0]\n    return out, s, row")  # fmt: skip
    compare(form, lambda: (list(numbers),))


def test_medians():
    def form(u):
        out = []
        for i in range(len(u) - 5):
            out.append(sorted(u[i : i + 5])[2])
        return out

    marked = compare(form, lambda: ([k * 7919 % 1000 / 8 for k in range(200)],))
    assert "sort_floats" in graphs(marked)


def test_many_lists():
    """More than are kept: the loop is left in between, and goes on."""

    def form(n):
        last = total = 0
        for i in range(n):
            row = [i] * 5
            for j in range(1, 5):
                row[j] += row[j - 1]
            total += row[4] % 7
            last = row
        return total, last

    marked = compare(form, lambda: (10000,))
    assert "new_numbers" in graphs(marked)


def test_a_long_list_of_a_short_loop():
    """To unbox it would take longer than the loop runs: it is not done for long."""

    def form(u, wanted):
        found = 0
        for x in wanted:
            low, high = 0, len(u)
            while low < high:
                middle = (low + high) // 2
                if u[middle] < x:
                    low = middle + 1
                else:
                    high = middle
            found += low
        return found

    u, wanted = list(range(0, 300000, 3)), np.arange(5, 45)
    marked = fj.jit(form)
    for _ in range(60):
        assert marked(u, wanted) == form(u, wanted)
    assert not unboxes(marked)
    assert [recompile["guard"] for recompile in marked._report()["recompiles"]] == ["numbers can be taken out of lists, and that pays"]
    first = fj.jit(form)
    first(list(range(0, 300, 3)), wanted)
    assert unboxes(first)


def test_nothing_is_left_over():
    def form(u, n):
        for i in range(n):
            row = u[:] + [i]
            for j in range(len(u)):
                u[j] = (row[j + 1] * 7 + 100000) % 1000003
        return row

    marked = fj.jit(form)
    u = [k * 1000 for k in range(30)]
    for _ in range(10):
        marked(u, 50)
    before = sys.getrefcount(u), sys.getallocatedblocks()
    for _ in range(200):
        marked(u, 50)
    assert sys.getrefcount(u) == before[0]
    assert sys.getallocatedblocks() - before[1] < 100


def test_threads_see_the_list_between_turns(switch_often):
    u, done = [k * 1000 for k in range(20)], []

    @fj.jit
    def form(u, n):
        for i in range(n):
            for j in range(1, len(u)):
                u[j] = (u[j] + u[j - 1]) % 1000003
        return u

    def look():
        while not done:
            assert all(type(item) is int for item in u)

    other = threading.Thread(target=look)
    other.start()
    try:
        form(u, 20000)
    finally:
        done.append(True)
        other.join()
    expected = [k * 1000 for k in range(20)]
    assert form.__wrapped__(expected, 20000) == u


@pytest.fixture
def switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


# ---- random programs

COUNT = int(os.environ.get("FRAMEJIT_TEST_PROGRAMS", "80"))
FIRST = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))


def random_program(seed):
    """Nests of loops over lists u, c and d of numbers of one kind, and numbers s and k."""
    pick = random.Random(seed).choice
    kind = ("i", "i", "i", "f", "b")[seed % 5]
    lists = ["u", "c", "d", "c", "u"]

    def index():
        return pick(["j", "j", "j", "i", "j - 1", "-1", "k", "-j", "(j * 3 + i) % 7", "j + 1", "0"])

    def number(depth=1):
        if depth == 0:
            return pick([f"{pick(lists)}[{index()}]"] * 4 + ["s", "k", "i", "j"] + {"i": ["1", "2**40", "-3", "300"], "f": ["0.5", "-0.0", "1e300"], "b": ["True", "1"]}[kind])
        one, other = number(depth - 1), number(depth - 1)
        return pick([f"({one} {pick(['+', '-', '*', '+'])} {other})"] * 4 + [f"min({one}, {other})", f"({one} if {one} < {other} else {other})", one, f"({one} % 1009)"])

    def item():
        value = number(pick([0, 1, 1, 2]))
        return {"i": f"int({value}) % 100003", "f": f"float({value})", "b": f"({value}) > 1"}[kind] if pick([1] * 12 + [0]) else value

    def new_list():
        one = pick(lists)
        return pick([f"{one}[:]", f"{one}[1:] + [{item()}]", f"[{item()}] * len({one})", f"[{item()}, {item()}, {item()}]", f"[{item()}] + {one}", f"list({one})", f"{one} + {pick(lists)}", "list(range(k + 3))"])

    def inner(indent):
        lines = []
        for _ in range(pick([1, 1, 2, 3])):
            line = pick([f"{pick(lists)}[{index()}] = {item()}"] * 5 + [f"s = {item()}"] * 2 + [f"s += {number(0)}", "{0}[j], {0}[{1}] = {0}[{1}], {0}[j]".format(pick(lists), index()), "s = s if s < 10**12 else 5"])
            lines.append(pick([line] * 5 + [f"if {number(0)} < {number(0)}: {line}", f"if {number(0)} == 17: break"]))
        return "".join(f"{indent}{line}\n" for line in lines)

    def outer():
        stacks = ["stack.append((s, k))", "stack.append((j, i))", "s, j = stack.pop() if stack else (s, j)", "while len(stack) > k:\n            a, b = stack.pop()\n            s += a - b",
                  f"c.append({item()})", f"u.append({item()})", "s = u.pop() if len(u) > 2 else s", "s = stack[0][1] if stack else 2", "while c and len(c) > 5:\n            s = c.pop()"]  # fmt: skip
        if seed % 3 == 0 and pick([1, 1, 0]):
            return f"        {pick(stacks)}\n"
        rarely = [f"log.append({pick(['s', 'c', 'd', 's'])})", "u.append(1)", "c.append(k)", "s = c.pop()", f"d = sorted({pick(lists)})", "s = sum(u)", "rows.append(c)", "rows[0][0] = s", "o.u = c", "s = o.u[0]", "print(s)"]
        head = pick(["for j in range(len(u)):", "for j in range(1, len(c)):", "for j in range(min(len(u), len(c), len(d)) - 1, 0, -1):", "for j, x in enumerate(d):", "for x in c:\n            j = len(u) // 2"])
        return pick([f"        {pick(['c', 'd', 'd', 'c', 'u'])} = {new_list()}\n        if len(c) > 30: c = [1]\n        if len(u) > 30: u = u[:4]\n        if len(d) > 30: d = d[1:3]\n"] * 3
                    + [f"        {head}\n{inner('            ')}"] * 5 + [f"        {pick(rarely)}\n"] + [f"        {pick(['c, d = d, c', 'd = c', 's = len(c)', 'u, d = d, u'])}\n"])  # fmt: skip

    body = "".join(outer() for _ in range(pick([2, 3, 4, 5])))
    return f"def form(u, c, d, k, n, rows, o, stack):\n    s, j, log = k, 0, []\n    for i in range(n):\n{body}    return u, c, d, s, j, log, rows, o.u, stack\n"


class Holder:
    u: list


def random_arguments(seed, call):
    rng = random.Random(seed * 31 + call)
    kind = ("i", "i", "i", "f", "b")[seed % 5]

    def numbers(n):
        one = {"i": lambda: rng.choice([0, 1, 5, -7, 300, 70000, 2**33, -(2**50)]), "f": lambda: rng.choice([0.0, -0.0, 1.5, 1e300, float("inf"), -2.25]), "b": lambda: rng.random() < 0.5}[kind]
        return [one() for _ in range(n)]

    u, c, d = (numbers(rng.choice([1, 4, 9, 20])) for _ in range(3))
    roll = rng.random()
    if roll < 0.1:
        c = u
    elif roll < 0.2:
        d = c
    elif roll < 0.25:
        u.append(rng.choice([0.5, 2**70, True, None, "x"]))
    holder = Holder()
    holder.u = u if rng.random() < 0.2 else numbers(3)
    rows = [c if rng.random() < 0.3 else numbers(4), numbers(2)]
    stack = [(1, 2), (k := len(u), k)] if rng.random() < 0.8 else []
    return u, c, d, rng.choice([0, 1, 3]), rng.choice([8, 40, 40]), rows, holder, stack


def check_random(seed, program, arguments):
    """The graphs of a random program's loops, after calls that came to the same as plain ones."""
    source = program(seed)
    plain, marked = made(source), fj.jit(made(source))
    before = fj.stats()["internal_errors"]
    for call in range(5):
        check_same(run(plain, arguments(seed, call)), run(marked, arguments(seed, call)), f"program {seed}, call {call}\n{source}")
    assert fj.stats()["internal_errors"] == before, f"program {seed}\n{source}"
    return graphs(marked)


@pytest.mark.filterwarnings("ignore")
def test_random_programs(monkeypatch):
    monkeypatch.setattr(fj.config, "profitability", "off")
    found = [check_random(seed, random_program, random_arguments) for seed in range(FIRST, FIRST + COUNT)]
    unboxed = sum(any(of in graph for of in ("object -2", "new_numbers", "unbox_made")) for graph in found)
    assert unboxed >= COUNT // 4
