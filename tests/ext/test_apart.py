"""Arrays that are written are guarded to lie apart from all others: few of them, and many, which are tested in another way."""

import itertools

import framejit
import numpy as np
import pytest


def program(count, written):
    """A function of so many arrays that adds to the first ones."""
    names = [f"a{i}" for i in range(count)]
    lines = [f"    a{i} += a{(i + 1) % count} * {i + 2}.0" for i in range(written)]
    scope = {}
    exec(f"def f({', '.join(names)}):\n" + "\n".join(lines) + f"\n    return {' + '.join(names)}\n", scope)
    return scope["f"]


def layouts(count):
    """Names of pairs that meet, and what is done to them."""
    for i, j in itertools.combinations(range(count), 2):
        for how in ("same", "overlap", "adjacent", "reversed", "inside"):
            yield i, j, how


def arrays(count, meeting=None):
    memory = np.arange(64.0 * count)
    made = [memory[64 * k : 64 * k + 8] for k in range(count)]
    if meeting:
        i, j, how = meeting
        start = 64 * i
        made[j] = {
            "same": lambda: made[i],
            "overlap": lambda: memory[start + 5 : start + 13],
            "adjacent": lambda: memory[start + 8 : start + 16],
            "reversed": lambda: memory[start + 15 : start + 7 : -1],
            "inside": lambda: memory[start : start + 32 : 4],
        }[how]()
    return memory, made


@pytest.mark.parametrize("count, written", [(n, k) for n in range(2, 8) for k in range(1, min(n, 3) + 1)])
def test_arrays_that_meet(count, written):
    plain = program(count, written)
    marked = framejit.jit(plain)
    for _ in range(3):
        marked(*arrays(count)[1])
    for meeting in layouts(count):
        expected_memory, given = arrays(count, meeting)
        expected = plain(*given)
        memory, given = arrays(count, meeting)
        assert np.array_equal(marked(*given), expected), meeting
        assert np.array_equal(memory, expected_memory), meeting


@pytest.mark.parametrize("count", [2, 3, 5])
def test_arrays_without_elements_meet_nothing(count):
    plain = program(count, count)
    marked = framejit.jit(plain)
    memory = np.arange(8.0)
    for _ in range(3):
        assert marked(*[memory[k:k] for k in range(count)]).shape == (0,)
    assert len(marked._report()["entries"]) == 1


@pytest.mark.parametrize("count", [2, 4, 5, 6])
def test_lists_that_are_the_same(count):
    scope = {}
    names = [f"l{i}" for i in range(count)]
    exec(
        f"def f(x, {', '.join(names)}):\n" + "".join(f"    {n}.append({i})\n" for i, n in enumerate(names)) + "    return x + 1\n",
        scope,
    )
    f = scope["f"]
    marked = framejit.jit(f)
    x = np.ones(3)
    for _ in range(3):
        marked(x, *[[] for _ in range(count)])
    for i, j in itertools.combinations(range(count), 2):
        outcomes = []
        for function in (f, marked):
            lists = [[] for _ in range(count)]
            lists[j] = lists[i]
            function(x, *lists)
            outcomes.append(lists)
        assert outcomes[0] == outcomes[1]
