"""Lists, tuples and dicts: new ones are rebuilt, stores into existing ones are effects."""

import os

import framejit
import numpy as np

from capture_support import capture

X = np.arange(6.0).reshape(2, 3)


def test_append_to_an_existing_list_needs_no_length():
    def f(x, log):
        y = x + 1
        log.append(y)
        return y

    c = capture(f, X, [])
    assert c.returns and c.effects == ["<log>.extend(array 0)"] and not c.guard("len(log)")


def test_append_is_seen_by_later_loads():
    def f(x, log):
        log.append(x + 1)
        return log[-1] * 2, len(log)

    c = capture(f, X, [X])
    assert c.returns and c.guard("len(log) == 1") and c.result == "(array 0, 2)"


def test_stores_into_items():
    def f(x, xs, d):
        xs[0] = x * 2
        d["y"] = xs[0] + 1
        return d["y"]

    c = capture(f, X, [X], {})
    assert c.returns and c.effects == ["<xs>[0] = array 1", "<d>['y'] = array 0"]


def test_list_methods():
    def f(x, xs):
        xs.insert(0, x)
        last = xs.pop()
        xs.reverse()
        del xs[0]
        return last + x

    c = capture(f, X, [X + 1, X + 2])
    assert c.returns and c.effects[-1] == "<xs>[:] = [<x>]"
    assert c.guard("len(xs) == 2")


def test_identity_of_new_containers():
    def f(x):
        a = [x + 1]
        b = [a, a]
        return b, a

    c = capture(f, X)
    assert c.result == "([[array 0], [array 0]], [array 0])"


def test_aliased_lists_are_one_value():
    def f(x, a, b):
        a.append(x)
        return b[-1] + 1

    xs = [X + 1]
    c = capture(f, X, xs, xs)
    assert c.guard("b is a") and c.inputs == ["x"]


def test_distinct_lists_must_stay_distinct_where_one_changes():
    def f(x, a, b):
        a.append(x)
        return b[-1] + 1

    c = capture(f, X, [X], [X + 1])
    assert c.guard("a is not b") or c.guard("b is not a")


def test_dict_reads_guard_their_key_only():
    def f(x, d):
        return x * d["w"] if "b" not in d else x

    c = capture(f, X, {"w": X, "other": 1})
    assert c.guard("type(d) is dict") and c.guard("'b' not in d") and not c.guard("list(d)")


def test_dict_iteration_guards_the_keys():
    def f(x, d):
        for key, value in d.items():
            x = x + value
        return x

    c = capture(f, X, {"a": 1.0, "b": X})
    assert c.returns and c.guard("list(d) == list(('a', 'b'))")


def test_dicts_with_keys_of_bytes_are_read():
    def one(x, d):
        return x * d[b"w"] if b"b" not in d else x

    def several(x, d):
        for key, value in d.items():
            x = x + value if key != b"other" else x
        return x

    given = {b"w": X, b"other": 1}
    assert capture(one, X, given).guard("b'b' not in d")
    assert capture(several, X, given).guard("list(d) == list((b'w', b'other'))")
    for f in (one, several):
        compiled = framejit.jit(f)
        for d in (given, {b"w": 2.0}, {b"w": 2.0, b"b": X}, {"w": 1.0, b"w": 3.0}, {b"b": 1.0, b"w": 2.0}):
            np.testing.assert_array_equal(compiled(X, dict(d)), f(X, dict(d)))


def test_the_environment_is_read_anew(monkeypatch):
    """os.environ keeps bytes in a dict; guards say which names are there, and which are not."""

    def f(x):
        if "FRAMEJIT_TEST_NAME" in os.environ and os.environ["FRAMEJIT_TEST_NAME"] == "twice":
            return x * 2
        return x + len(os.environ.get("FRAMEJIT_TEST_NAME", ""))

    compiled = framejit.jit(f)
    for value in ("twice", "abc", None, "twice", "", None, "ab"):
        if value is None:
            monkeypatch.delenv("FRAMEJIT_TEST_NAME")
        else:
            monkeypatch.setenv("FRAMEJIT_TEST_NAME", value)
        np.testing.assert_array_equal(compiled(X), f(X))
    assert compiled._report()["breaks"] == []


def test_dict_get_and_setdefault():
    def f(x, d):
        y = d.get("missing", x) + 1
        d.setdefault("y", y)
        d.update(z=y)
        return d["y"]

    c = capture(f, X, {"a": 1})
    assert c.returns and c.effects == ["<d>['y'] = array 0", "<d>['z'] = array 0"]


def test_list_arithmetic_and_membership():
    def f(x):
        names = ["a"] + ["b"] * 2
        names += ("c",)
        if "c" in names and "z" not in names and (1, 2) == (1, 2):
            return x * len(names)
        return x

    assert "{value=4}" in capture(f, X).graph


def test_tuples_of_slices():
    def f(x):
        key = (slice(None), slice(0, 2))
        part = (1, 2, 3)[1:]
        return x[key] * part[0]

    assert capture(f, X).returns


def test_special_methods_are_followed():
    class Boxes:
        def __init__(self):
            self.arrays = (X, X + 1)

        def __getitem__(self, key):
            return self.arrays[key]

        def __len__(self):
            return len(self.arrays)

        def __iter__(self):
            return iter(self.arrays)

    def f(x, boxes):
        for box in boxes:
            x = x + box
        return x * boxes[-1] + len(boxes)

    c = capture(f, X, Boxes())
    assert c.returns and c.ops.count("add") == 3 and c.guard("__getitem__ is")


def test_special_methods_in_c_are_left_alone():
    class Box(dict):
        pass

    def f(x, box):
        y = x + 1
        return y * box[0]

    assert capture(f, X, Box({0: X})).codes == ["FJ008"]


def test_containers_of_arrays_as_index():
    def f(x, rows):
        a, b = x
        return a * rows[0] + b * rows[1]

    c = capture(f, X, (2.0, 3.0))
    assert c.returns and c.ops.count("view") >= 2


def test_iteration_over_rows():
    def f(x):
        total = 0.0
        for row in x:
            total = total + row.sum()
        return total

    assert capture(f, X).returns


def test_mutation_while_iterating():
    def f(x):
        xs = [x]
        for v in xs:
            if len(xs) < 3:
                xs.append(v * 2)
        return xs

    c = capture(f, X)
    assert c.returns and c.result == "[<x>, array 0, array 1]"


def test_class_methods_of_builtins_stay_bound():
    def f(x, items):
        make = dict.fromkeys
        return x + 1, make, list(make(items, 2.0))

    marked = framejit.jit(f, fullgraph=True)(X, [1, 2, 1])
    assert marked[1]("ab") == {"a": None, "b": None} and marked[2] == [1, 2]


def test_dicts_that_are_cleared_under_a_live_iterator():
    def f(x, d):
        y = x + 1
        d.clear()
        d["p"] = 1
        d["q"] = 2
        return y

    def rest(function):
        d = {"a": 1, "b": 2}
        it = iter(d)
        next(it)
        function(X, d)
        return list(it)

    assert rest(framejit.jit(f)) == rest(f) == ["q"]
    assert capture(f, X, {}).codes == ["FJ002"]
