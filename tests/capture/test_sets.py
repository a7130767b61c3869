"""Existing sets: what was asked is guarded, changes are effects."""

import numpy as np

from capture_support import capture

X = np.arange(6.0).reshape(2, 3)


def test_membership_guards_the_element_alone():
    def f(x, s):
        return x + 1 if 3 in s and "a" not in s else x

    c = capture(f, X, {3, object})
    assert c.returns and c.guard("3 in s") and c.guard("'a' not in s") and not c.guard("list(s)") and not c.guard("len(s)")


def test_length_and_truth():
    def f(x, s, t):
        y = x * 2
        return y + len(s) if t else y

    c = capture(f, X, {3, 4}, frozenset())
    assert c.returns and not c.guard("len(s)") and c.guard("len(t) == 0") and "add" not in c.ops
    assert capture(f, X, {3, 4}, {1}).guard("len(s) == 2")


def test_iteration_guards_all_in_order():
    def f(x, s):
        for e in s:
            x = x + e
        return x

    s = {5, 1, 3}
    c = capture(f, X, s)
    assert c.returns and c.guard(f"list(s) == list({tuple(s)!r})")
    for other in ({1.5, 2.5}, {(1, 2)}, {b"a"}):  # equal ones may be other objects
        assert not getattr(capture(f, X, other), "returns", False)


def test_changes_are_effects_and_seen_by_later_questions():
    def f(x, s, t):
        y = x + 1
        s.add("a")
        y = y * ("a" in s)
        t.discard(1)
        t |= s_constant
        return y + len(t), 1 in t

    s_constant = frozenset({7, 8})
    c = capture(f, X, set(), {1, 2})
    assert c.returns and c.effects == ["<s> add 'a'", "<t> discard 1", "<t> update <s_constant>"]
    assert c.guard("no element of s has a __hash__ in Python") and c.guard("list(t) == list((1, 2))")
    assert c.guard("s, t are distinct from one another and from s_constant")
    assert c.result == "(array 0, False)"


def test_the_order_of_a_changed_set_is_not_known():
    def f(x, s):
        y = x + 1
        s.add(4)
        for e in s:
            y = y + e
        return y

    c = capture(f, X, {1})
    assert not c.returns and "iteration over a set that was changed" in c.breaks[0][1]


def test_operators():
    def f(x, s, t):
        return x * len(s & t) + len(s.union(t)), s <= t, s == t, s.isdisjoint(t), s is t

    c = capture(f, X, {1, 2}, frozenset({2, 3}))
    assert c.returns and c.result.endswith("False, False, False, False)") and c.effects == []


def test_what_varies_breaks():
    def f(x, s, n):
        y = x + 1
        return y * (n in s)

    c = capture(f, X, {1, 2}, 2, capture_options={"varied": ("n",)})
    assert not c.returns and "of what varies" in c.breaks[0][1]


def test_a_region_may_end_in_an_iteration():
    def f(x, s):
        for e in s:
            x = x + e
            print(end="")
        return x

    c = capture(f, X, {1, 2})
    assert not c.returns and "iter(<s>)+1" in str(c.stack)
