"""List comprehensions and generator expressions as machine code: alone, in loops, and in each other."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run
from loop_support import compare, loops

pytestmark = pytest.mark.capture


def floats(count=400):
    return [float(x) for x in np.random.default_rng(3).normal(size=count)]


def ints(count=400):
    return [int(x) for x in np.random.default_rng(4).integers(-1000, 1000, count)]


def squares(values):
    return [x * x for x in values]


def filtered(values, least):
    return [x - least for x in values if x > least]


def of_range(n):
    return [i * i - 7 for i in range(n)]


def pairs(values, others):
    return [(x + y, y) for x, y in zip(values, others)]


def numbered(values):
    return [k * x for k, x in enumerate(values, 3)]


def table(n):
    return [[i * j for j in range(n)] for i in range(n)]


def flat(n):
    return [i - j for i in range(n) for j in range(i) if (i + j) % 3]


def total(values):
    return sum(x * 0.5 for x in values)


def largest(matrix):
    return max(matrix[i, j] for i in range(matrix.shape[0]) for j in range(matrix.shape[1]))


def smallest(values):
    return min(abs(x) for x in values)


def any_above(values, limit):
    return any(x > limit for x in values)


def all_above(values, limit):
    return all(x > limit for x in values)


def as_list(values):
    return list(x + 1 for x in values)


def as_tuple(values):
    return tuple(x + 1 for x in values if x > 0)


def of_range_object(n):
    numbers = range(n, 0, -1)
    return sum(k * k for k in numbers), numbers


def by_closure(values, factor):
    shift = factor + 1
    return sum(x * factor - shift for x in values)


def primes(n):
    found = []
    for k in range(2, n):
        if all(k % q for q in range(2, int(k**0.5) + 1)):
            found.append(k)
    return found, k


def rows_of_loop(n):
    rows, sizes = [], 0
    for k in range(1, n):
        row = [k * q for q in range(k % 5)]
        rows.append(row)
        sizes += len(row) + sum(row)
    return rows, sizes, row is rows[-1]


def shared_variable(n):
    step, seen = 1, 0
    for k in range(n):
        step = (step * 3 + k) % 101
        seen += sum(step * q for q in range(3))
    return seen, step, (lambda: (step, k))()


def test_list_comprehensions():
    for function, makes in (
        (squares, (lambda: (floats(),), lambda: (ints(),), lambda: ([],), lambda: (np.array(floats()),))),
        (filtered, (lambda: (floats(), 0.25), lambda: (ints(), 10), lambda: (floats(), 1e9))),
        (of_range, (lambda: (300,), lambda: (0,), lambda: (-4,), lambda: (1,))),
        (pairs, (lambda: (floats(), ints()), lambda: (floats(50), ints(90)))),
        (numbered, (lambda: (floats(),), lambda: (np.arange(200.0),))),
        (table, (lambda: (20,), lambda: (1,), lambda: (0,))),
        (flat, (lambda: (40,), lambda: (0,))),
    ):
        marked = compare(function, *makes)
        (loop, *_) = loops(marked)
        assert not any(leave["why"] and leave["taken"] for leave in loop["exits"]), function.__name__


@pytest.mark.parametrize(
    "function, makes",
    [
        (total, (lambda: (floats(),), lambda: (ints(),), lambda: ([],), lambda: (np.array(floats()),))),
        (largest, (lambda: (np.random.default_rng(1).normal(size=(30, 20)),), lambda: (np.arange(60).reshape(20, 3),))),
        (smallest, (lambda: (floats(),), lambda: (ints(),))),
        (any_above, (lambda: (floats(), 0.5), lambda: (floats(), 1e9), lambda: (ints(), 5), lambda: ([], 5))),
        (all_above, (lambda: (floats(), -1e9), lambda: (floats(), 0.5), lambda: (ints(), -5000))),
        (as_list, (lambda: (floats(),), lambda: (ints(),))),
        (as_tuple, (lambda: (floats(),), lambda: (ints(),), lambda: ([],))),
        (of_range_object, (lambda: (300,), lambda: (0,))),
        (by_closure, (lambda: (floats(), 2.5), lambda: (ints(), 3), lambda: (ints(), 2.5))),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_generator_expressions(function, makes):
    marked = compare(function, *makes)
    (loop, *_) = loops(marked)
    assert loop["first_line"] == loop["last_line"]
    assert sum(leave["taken"] for leave in loop["exits"]) > 0
    assert not any(leave["why"] and leave["taken"] for leave in loop["exits"])


def test_nothing_to_choose_from():
    for values in ([], [1.0] * 100):
        marked = fj.jit(smallest)
        for _ in range(3):
            check_same(run(smallest, (values,)), run(marked, (values,)), "smallest")


@pytest.mark.parametrize("function", [primes, rows_of_loop, shared_variable], ids=lambda f: f.__name__)
def test_inside_loops(function):
    marked = compare(function, lambda: (200,), lambda: (60,))
    (loop,) = loops(marked)
    assert loop["last_line"] > loop["first_line"]  # the loop around it is compiled, and it is a part of that
    assert not any(leave["why"] and leave["taken"] for leave in loop["exits"])


def held_elsewhere(values):
    iterator = iter(values)
    first = [x for x in iterator if x < 1e9]
    return first, next(iterator, "at its end"), sum(x for x in iterator)


def of_a_part(values, n):
    iterator = iter(values)
    for _ in range(n):
        next(iterator)
    return sum(x * 2 for x in iterator), list(iterator)


def with_odd_item(values):
    return sum(x * 2 for x in values), [x * 3 for x in values]


def that_overflows(values):
    return sum(x * x for x in values)


def that_divides(values):
    return [1 / x for x in values]


def that_assigns(values):
    last = None
    doubled = [last := x * 2 for x in values]
    return doubled, last


def late_variable(values):
    found = [x * scale for x in values for scale in (1, 2)]
    factor = 3
    return found, sum(x * factor for x in values)


def deleted(values, n):
    factor = 2
    out = []
    for k in range(n):
        if k == n - 1:
            del factor
        out.append(sum(x * factor for x in values))
    return out


@pytest.mark.parametrize("function", [held_elsewhere, with_odd_item, that_assigns, late_variable], ids=lambda f: f.__name__)
def test_iterators_and_variables(function):
    compare(function, lambda: (floats(80),), lambda: (ints(80),), lambda: ([1.5] * 60 + ["p"] + [2.5],), lambda: ([2**62] * 50,))


def test_part_of_an_iterator():
    compare(of_a_part, lambda: (floats(80), 5), lambda: (ints(80), 0), lambda: (ints(80), 80))


def test_exceptions_have_their_lines():
    compare(that_overflows, lambda: ([2**40] * 64,), lambda: (floats(),), lambda: ([1.0] * 50 + [None],))
    compare(that_divides, lambda: (floats(),), lambda: (floats() + [0.0],), lambda: (ints() + [0],))
    compare(deleted, lambda: (floats(40), 3), lambda: (ints(40), 40))


def test_sums_of_mixed_kinds():
    mixed = [1, 2, 0.1, 0.2, 3, 1e100, 1.0, -1e100, True]
    compare(squares, lambda: (mixed * 10,))
    compare(total, lambda: (mixed * 10,), lambda: ([0.1] * 100,), lambda: ([1e308] * 40,), lambda: ([float("inf"), 1.0] * 20,), lambda: ([-0.0] * 50,))
    compare(by_closure, lambda: (mixed * 10, np.float64(0.3)), lambda: (np.arange(90, dtype=np.float32), 0.1))


def of_two_kinds(values):
    return sum(x * 0.1 if k % 3 else k for k, x in enumerate(values))


def of_complex_numbers(values):
    return sum(x * 0.1 + 1j for x in values)


def test_sums_of_what_each_round_gives():
    for function in (of_two_kinds, of_complex_numbers):
        compare(function, lambda: (floats(),), lambda: (ints(),), lambda: ([1e16, 1.0, 3.0, -1e16, 0.1] * 40,))


def squares_below(n, limit):
    return [i * i for i in range(n) if any(i * i < j for j in range(limit))]


def test_in_each_other():
    marked = compare(squares_below, lambda: (100, 50), lambda: (3, 0))
    (loop, *_) = loops(marked)
    assert not any(leave["why"] and leave["taken"] for leave in loop["exits"])


def many_lists(n):
    rows = [[k, k + 1] for k in range(n)]
    kept = None
    for k in range(n):
        row = [k]
        rows.append(row)
        kept = rows.pop() if k % 3 else row
        row.append(len(kept))
    return rows, kept


def test_many_lists_in_a_list():
    marked = compare(many_lists, lambda: (20000,))
    taken = [leave for entry in loops(marked) for leave in entry["exits"] if leave["taken"]]
    # From 3.12 on a request for a collection, after so many new lists, leaves a loop.
    assert taken and (sys.version_info >= (3, 12) or not any(leave["early"] for leave in taken)), taken


def of_arrays(parts):
    return [part * 2 for part in parts], sum(part for part in parts)


def test_arrays_stay_graphs():
    marked = compare(of_arrays, lambda: ([np.arange(5.0)] * 3,))
    assert not loops(marked)


def counts(values, changes):
    seen = sum(x for x in values)
    changes.append(len(changes))
    return seen


def test_every_call_is_seen_once():
    marked, changes = fj.jit(counts), []
    for k in range(50):
        assert marked(floats(), changes) == sum(floats())
        assert len(changes) == k + 1


def sums_of_pairs(rows, x):
    y = x * 2
    sums = [np.add(pair[0], pair[1]) for row in rows if len(row) % 2 == 0 for pair in row if len(pair) > 1]
    return sums[0] * y, len(sums)


def test_arrays_in_comprehensions_stay_in_the_graph():
    """The items of existing lists are not known before capture looks at them."""
    pairs = [(np.arange(4.0) + k, np.ones(4)) for k in range(5)]
    marked = compare(sums_of_pairs, lambda: ([pairs[:1], pairs[:2], pairs[3:]], np.arange(4.0)))
    (entry,) = marked._report()["entries"]
    assert entry["kind"] == "function"
    assert "add" in entry["graph"]


def test_short_comprehensions_of_constants_do_not_break():
    def flat():
        return tuple([y for x in ((1, 2), (3, 4), (5, 6)) for y in x])

    marked = compare(flat, lambda: ())
    assert not marked._report()["breaks"]


@pytest.mark.parametrize(("count", "compiled"), [(2, 1), (16, 1), (17, 0), (3000, 0)])
def test_a_zip_of_many_is_left_to_the_interpreter(count, compiled):
    """Each of its iterators would be compared with all others, and be a number that the rounds hand on."""

    def sums(columns):
        total = 0
        for items in columns:
            total += items[0] - items[1]
        return total

    def columns_of_rows():
        return (zip(*[list(range(k, k + 400)) for k in range(count)]),)

    assert len(loops(compare(sums, columns_of_rows))) == compiled
