"""Lists that compiled loops make, and what they append to lists and take from them."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run
from loop_support import compare, loops

pytestmark = pytest.mark.capture


def stays(marked):
    """Is the loop left in no round?"""
    entries = loops(marked)
    return entries and not [e for entry in entries for e in entry["exits"] if e["early"] and e["taken"] > 2]


def triangle(n):
    rows = [[1]]
    for _ in range(n):
        last = rows[-1]
        row = [1]
        for k in range(1, len(last)):
            row.append((last[k - 1] + last[k]) % 1000)
        row.append(1)
        rows.append(row)
    return rows, row is rows[-1], last is rows[-2]


def distances(a, b):
    before = list(range(len(b) + 1))
    for i in range(1, len(a) + 1):
        row = [i] + [0] * len(b)
        for j in range(1, len(b) + 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a[i - 1] != b[j - 1]))
        before = row
    return before, before is row


def flips(order):
    most = 0
    for start in range(len(order)):
        work = order[:]
        work[0], work[start] = work[start], work[0]
        count = 0
        while work[0] != 0:
            low, high = 0, work[0]
            while low < high:
                work[low], work[high] = work[high], work[low]
                low += 1
                high -= 1
            count += 1
        most = max(most, count)
    return most, work, order


def depth_first(walls, size):
    stack = [(0, 0)]
    seen = np.zeros((size, size), bool)
    order = []
    while stack:
        y, x = stack.pop()
        if y < 0 or x < 0 or y >= size or x >= size or seen[y, x] or walls[y, x]:
            continue
        seen[y, x] = True
        order.append((y, x, y * 0.5, walls[y, x] == 0))
        for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            stack.append((y + dy, x + dx))
    return order, y, x, seen.sum()


def primes(count):
    found = []
    number = 2
    while len(found) < count:
        for p in found:
            if p * p > number:
                found.append(number)
                break
            if number % p == 0:
                break
        else:
            found.append(number)
        number += 1
    return found, p


def test_rows_of_a_triangle():
    assert stays(compare(triangle, lambda: (60,)))


def test_rows_in_turns():
    marked = compare(distances, lambda: (list(range(30)), [k % 7 for k in range(40)]), lambda: (np.arange(20) % 5, np.arange(30) % 3))
    assert stays(marked)


def test_copies():
    assert stays(compare(flips, lambda: ([3, 5, 1, 0, 2, 4],)))


def test_a_stack_of_tuples():
    walls = (np.arange(400).reshape(20, 20) * 7919 % 11 < 3).astype(np.int64)
    assert stays(compare(depth_first, lambda: (walls, 20)))


def test_a_stack_that_is_long():
    """What is unpacked at once does not fill the memory of the loop."""
    walls = np.zeros((90, 90), np.int64)
    marked = compare(depth_first, lambda: (walls, 90))
    # From CPython 3.12 on, a collection that is due is asked for at the end of a round.
    most = 2 if sys.version_info < (3, 12) else 100
    assert loops(marked) and sum(e["taken"] for entry in loops(marked) for e in entry["exits"] if e["early"]) <= most


def test_a_list_that_begins_empty():
    assert stays(compare(primes, lambda: (80,)))


def test_scalars_of_numpy():
    def form(a):
        found, sums = [], []
        for i in range(len(a)):
            total = a[i] * 0.5
            for k in range(len(found)):
                total += found[k]
            found.append(a[i])
            sums.append((total, i, i > 3, 2.5))
        return found, sums, [type(v).__name__ for v in found]

    assert stays(compare(form, lambda: (np.random.default_rng(3).normal(size=40),), lambda: (np.arange(40),)))


def test_a_list_of_scalars():
    def form(a):
        last = None
        for i in range(len(a) - 1):
            last = [a[i], a[i + 1] > 0, (a[i], i)]
        return last

    assert stays(compare(form, lambda: (np.random.default_rng(3).normal(size=100),), lambda: (np.arange(100, dtype=np.int16),)))


def test_other_forms():
    """Parts, sums, copies; objects in tuples; lists in lists."""

    def form(a, n):
        rows = []
        for i in range(n):
            part = a[1:i]
            both = part + a
            twice = 2 * [i, 0.5]
            copy = list(both)
            copy.append(i)
            numbers = list(range(i, 0, -2))
            rows.append((i, "name", None, True))
            a[i % len(a)] = len(copy) + len(numbers) + len(twice)
            nested = [[i] * 3, part]
            if i % 7 == 3 and part:
                part.pop()
        return rows, part, both, twice, copy, numbers, nested, nested[1] is part, copy == both

    marked = compare(form, lambda: (list(range(12)), 60))
    assert loops(marked)


def test_names_of_one_list():
    def form(n):
        out = []
        for i in range(n):
            a = b = [i, i + 1]
            a[0] = 500 + i
            b.append(i)
            rows = [a, b, [i]]
            rows[2].append(a[0])
            pair = (a, i)
            pair[0].append(7)
            out.append(pair)
        return out, a is b, rows[0] is a, pair is out[-1], out[-1][0] is b

    assert loops(compare(form, lambda: (150,)))


def test_builtins_of_lists():
    def form(x, n):
        out, lows, highs = [], [], []
        for i in range(n):
            part = x[i : i + 5]
            out.append(sum(part) / 5)
            ordered = sorted(part)
            lows.append(ordered[2] - min(part))
            highs.append((max(part), ordered[0], sum([i, 2]), max([i, 7 - i])))
        return out, lows, highs, ordered, sum(x)

    numbers = np.random.default_rng(8).normal(size=200)
    marked = compare(form, lambda: (numbers.tolist(), 190), lambda: ([k * 7 % 50 for k in range(200)], 190))
    assert loops(marked)
    for special in (float("nan"), -0.0, 2**62, True, None, "a"):
        items = [*numbers.tolist()[:150], special, *numbers.tolist()[:40]]
        compare(form, lambda items=items: (items, 180))
        compare(form, lambda special=special: ([5, 3, special] * 60, 170))

    def empty(n):
        total = 0
        for i in range(n):
            part = [1, 2, 3][: i % 4 if i > 60 else 2]
            total += max(part)
        return total

    compare(empty, lambda: (100,))


def test_memory_of_lists_that_grow_and_shrink():
    """It is what list.append() and list.pop() leave."""

    def form(n, keeps):
        stack = [(0, 1)]
        for i in range(n):
            stack.append((i, -i))
            if i % 7 > keeps and len(stack) > 2:
                a, b = stack.pop()
                stack.pop()
        return stack

    def given(stack, n):
        total = 0
        for i in range(n):
            total += stack.pop()
        return total

    for n, keeps in ((40, 2), (400, 3), (400, 0), (3000, 4)):
        marked = fj.jit(form)
        for _ in range(3):
            expected, found = form(n, keeps), marked(n, keeps)
            assert found == expected and sys.getsizeof(found) == sys.getsizeof(expected)
    for length, taken in ((300, 10), (300, 200), (300, 299), (300, 300), (17, 9), (33, 18), (32, 31), (5, 5)):
        marked = fj.jit(given)
        for _ in range(3):
            plain, own = [1] * length, [1] * length
            assert given(plain, taken) == marked(own, taken)
            assert own == plain and sys.getsizeof(own) == sys.getsizeof(plain)


@pytest.mark.parametrize("statement", ["u[j - 1], u[j] = u[j], u[j - 1]", "u[j] = u[0]", "u[j] = x", "u[j] = x; v = u[:]", "v = u[:]; v[1] = v[0]", "v = [x, u[0]]", "v = [x] * 3", "v = [x] + u", "u.append(u[0]) if len(u) < 9 else None"])
def test_a_nan_stays_the_object(statement):
    """`in` and `==` of lists compare objects first."""
    world: dict = {}
    exec(f"def form(u, x):\n    v = []\n    first = u[0]\n    for i in range(41):\n        for j in range(1, 3):\n            {statement}\n    return first, u, v", world)
    nan = float("nan")

    def objects(result):
        """Which NaN objects are one: others are compared by value."""
        first, u, v = result
        return [[repr(y), y != y and y is first, y != y and y is nan] for y in [first, *u, None, *v]], nan in u, first in v

    marked = fj.jit(world["form"])
    for _ in range(3):
        for first, x in ((nan, 1.5), (2.5, nan), (nan, nan), (float("nan"), nan)):
            assert objects(marked([first, 1.0, 2.0], x)) == objects(world["form"]([first, 1.0, 2.0], x))


@pytest.mark.parametrize("statement", ["sorted(u)", "list(u)", "u[1:4]", "[i] + u", "list(range(i % 7))", "u * 2", "[i, 2, 3]", "[0] * 5", "u[:]"])
@pytest.mark.parametrize("change", ["row[j] += 1", "pass", "kept.append(row)"])
def test_memory_of_new_lists(statement, change):
    """With and without an inner loop for which the list is unboxed."""
    world: dict = {}
    exec(f"def form(u, kept):\n    for i in range(59):\n        row = {statement}\n        for j in range(len(row)):\n            {change}\n    return row", world)
    marked = fj.jit(world["form"])
    for _ in range(3):
        expected, found = world["form"]([7, 300, 5, -9, 2**40], []), marked([7, 300, 5, -9, 2**40], [])
        assert found == expected and sys.getsizeof(found) == sys.getsizeof(expected)


def test_a_tuple_that_a_variable_holds_lives_on():
    def form(stack, n):
        q = None
        for i in range(n):
            q = stack[-1]
            a, b = stack.pop()
            stack.append((a + i, b * 0.5))
        return stack, q, q is stack[-1]

    marked = compare(form, lambda: ([(1, 2.0), (3, 4.0)], 40))
    assert loops(marked)


def test_errors():
    """They are the interpreter's, with the lists as they are then."""

    def form(n):
        stack = [1, 2, 3]
        for i in range(n):
            stack.append(i)
            if i > 50:
                stack.pop()
                stack.pop()
        return stack

    compare(form, lambda: (200,))

    def index(n):
        out = []
        for i in range(n):
            row = [i] * 3
            out.append(row[i % 5])
        return out

    compare(index, lambda: (200,))


def test_items_of_other_types():
    """A list may hold what a loop does not expect."""

    def form(items, n):
        total = 0
        for k in range(n):
            total += items.pop()
            if k % 30 == 7:
                items.append(k * 0.5)
        return total, items

    class Number(int):
        def __radd__(self, other):
            return other + 1

    compare(
        form,
        lambda: ([k % 50 for k in range(300)], 200),
        lambda: ([1, 2.5, True, 2**70] * 40, 120),
        lambda: ([3, 4] * 50 + [Number(7)] * 3 + [1], 80),
        lambda: ([1, 2, None] * 20, 50),
        lambda: ([1] * 50, 60),
    )


def test_many_lists():
    """They do not pile up: the loop is left at times, and its state is right."""

    def form(n):
        kept = []
        for i in range(n):
            row = [i] * 20
            if i % 1000 == 0:
                kept.append(row)
        return kept, row

    marked = compare(form, lambda: (20_000,))
    # From CPython 3.12 on, a collection that is due is asked for at the end of a round.
    assert 0 < sum(e["taken"] for entry in loops(marked) for e in entry["exits"] if e["early"]) <= 900


def test_lists_go_with_their_last_reference():
    class Held:
        pass

    def form(n, held):
        out = []
        for i in range(n):
            row = [i, 1]
            out.append(row)
        return out, held

    marked = fj.jit(form)
    gc.collect()
    for _ in range(3):
        held = Held()
        is_alive = weakref.ref(held)
        out, _ = marked(500, held)
        out[0].append(held)
        del out, _, held
        gc.collect()
        assert is_alive() is None
    assert loops(marked)


def test_no_collection_in_a_loop():
    """Finalizers run when the loop is left at the earliest."""
    events = []

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            events.append(len(events))

    def form(n):
        out = []
        for i in range(n):
            row = [i]
            out.append(row)
        return out

    marked = fj.jit(form)
    for _ in range(5):
        Cycle()
        assert marked(5000) == form(5000)
    gc.collect()
    assert len(events) == 5


def test_iterators_that_have_to_end_together():
    def strict(a, b):
        total = 0.0
        for x, y in zip(a, b, strict=True):
            total += x * y
        return total

    def kept(a, b):
        pairs = zip(a, b, strict=True)
        total = 0.0
        for x, y in pairs:
            total += x * y
        return total, list(pairs)

    ones = [1.0] * 200
    for function in (strict, kept):
        marked = fj.jit(function)
        for args in ((ones, ones), (ones, ones[1:]), (ones[1:], ones), (np.ones(90), ones[:91]), ("ab" * 40, "cd" * 41)):
            for _ in range(3):
                check_same(run(function, args), run(marked, args), function.__name__)


def test_what_a_replaced_list_holds_goes_at_once():
    class Noisy:
        def __init__(self, log, at):
            self.log, self.at = log, at

        def __del__(self):
            self.log.append(float(self.at[0]))

    def replaced(values, at):
        for i in range(len(values)):
            at[0] = i
            values[i] = 0.5
        return at[0]

    def seen(function):
        logs = []
        for _ in range(3):
            log, at = [], np.zeros(2)
            values = [1.0] * 50 + [[Noisy(log, at)]] + [1.0] * 50
            function(values, at)
            logs.append(log)
        return logs

    assert seen(fj.jit(replaced)) == seen(replaced) == [[50.0]] * 3


def constants(n):
    rows, last = [], None
    for k in range(n):
        if k % 3:
            last = (1, -0.0, (k % 2, 2))
            rows.append((3, 4.5))
        rows.append([(5, (6, -0.0)), k])
    return rows, last


def test_constant_tuples_stay_the_objects_that_they_are():
    marked = compare(constants, lambda: (300,), lambda: (7,))
    assert stays(marked)
    rows, _ = marked(300)
    for constant in ((3, 4.5), (5, (6, -0.0))):
        of_code = next(c for c in constants.__code__.co_consts if c == constant)
        found = [row if row == constant else row[0] for row in rows if constant in (row, row[0])]
        assert len(found) >= 200
        assert all(one is of_code for one in found)
