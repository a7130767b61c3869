"""What library code does around its array work: looks at dtypes, classes, flags and dicts of them."""

from __future__ import annotations

import _abc
import abc
import collections.abc
import contextlib
import gc
import numbers
import subprocess
import sys
import weakref

import framejit as fj
import numpy as np
import pytest
from exact.same import assert_same, assert_same_seen, observe

pytestmark = pytest.mark.capture

NUMPY2 = int(np.__version__.split(".")[0]) >= 2
X = np.arange(6.0).reshape(2, 3)


def whole(function, *args):
    marked = assert_same(function, lambda: args, fullgraph=True)
    assert marked._report()["breaks"] == []
    return marked


def test_unions_of_classes():
    def function(x, n):
        kinds = int | float
        return isinstance(n, kinds), isinstance(x, np.ndarray | None), isinstance(None, int | None), issubclass(bool, str | int), x + 1.0

    for n in (3, 2.5, "a", None):
        whole(function, X, n)

    class Meta(type):
        def __or__(cls, other):
            return (cls, other)

    class Odd(metaclass=Meta):
        pass

    def own(x):
        return isinstance(x, Odd | np.ndarray), (Odd | int)[1], x * 2.0

    assert_same(own, lambda: (X,))


def test_a_union_is_another_object_each_time():
    def function(x):
        return x + 1.0, int | float

    marked = fj.jit(function)
    first, second = marked(X)[1], marked(X)[1]
    assert first == (int | float) and first is not second


TABLE = {np.float32: 1, np.float64: 2.0, int: "n", None: 0}


def test_dicts_of_classes_and_tuples():
    def function(x, n):
        made = {np.float32: 1.0, np.float64: 3.0, ("n", "b"): 7.0}
        y = x * made[x.dtype.type] + TABLE[x.dtype.type] + made["n", "b"]
        return y, TABLE.get(np.int8), np.int8 in TABLE, int in TABLE.keys(), made, n

    whole(function, X, 3)

    def missing(x):
        try:
            return TABLE[np.int8]
        except KeyError as error:
            return x + len(error.args)

    whole(missing, X)


def test_dicts_of_classes_are_guarded():
    def function(x, table):
        if float in table:
            x = x * table[float]
        return x + len(table)

    marked = fj.jit(function)
    for table in ({float: 2.0}, {float: 3.0}, {}, {float: 2.0, int: 1}, {int: 1}):
        assert_same_seen(observe(function, (X, table)), observe(marked, (X, table)), f"{table}")
    assert marked._report()["breaks"] == []


def test_stores_under_classes():
    def function(x, table):
        table[type(x)] = x * 2.0
        table["n"] = 3
        del table[int]
        return table[np.ndarray] + 1.0, table.pop(str), table.setdefault(float, 4)

    marked = fj.jit(function)
    for each in (function, marked, marked):
        table = {int: 1, str: "s", "n": 2}
        result = each(X, table)
        assert result[0].tobytes() == (X * 2.0 + 1.0).tobytes() and result[1:] == ("s", 4)
        assert [key for key in table] == ["n", np.ndarray, float] and table["n"] == 3
    assert marked._report()["breaks"] == []


def test_keys_with_code_of_their_own_are_left_alone():
    class Meta(type):
        hashed = 0

        def __hash__(cls):
            Meta.hashed += 1
            return 1

        def __eq__(cls, other):
            return cls is other

    class Key(metaclass=Meta):
        pass

    def function(x, table):
        return x + table[Key] + table.get(int, 0.0)

    counts = []
    for each in (function, fj.jit(function)):
        table = {Key: 2.0, int: 1.0}
        before = Meta.hashed
        assert each(X, table).tobytes() == (X + 3.0).tobytes()
        counts.append(Meta.hashed - before)
    assert counts[0] == counts[1]


def test_classes_as_keys_are_not_kept_alive():
    class Key:
        pass

    def function(x, table, key):
        return x + table[key] + len(table)

    marked = fj.jit(function)
    table = {Key: 2.0, int: 1.0}
    for _ in range(3):
        assert marked(X, table, Key)[0, 0] == 4.0
    reference = weakref.ref(Key)
    table.clear()
    del Key, table
    gc.collect()
    assert reference() is None


@pytest.mark.skipif(not NUMPY2, reason="np.isdtype is NumPy 2's")
def test_dtypes_are_asked():
    def function(x):
        if np.isdtype(x.dtype, "real floating") and not np.isdtype(x.dtype, ("integral", "bool")):
            return x + 1.0
        return x

    assert_same(function, lambda: (X,))
    whole(lambda x: (np.isdtype(x.dtype, "integral"), np.issubdtype(x.dtype, np.floating), np.result_type(x, np.float32), x + 1.0), X)


def test_dtypes_asked_of_arrays_raise():
    for function in (lambda x: np.issubdtype(x, np.floating), lambda x: np.promote_types(x, np.int8), lambda x: np.finfo(x * 2.0)):
        assert_same(function, lambda: (X,))
    if NUMPY2:
        assert_same(lambda x: np.isdtype(x, "integral"), lambda: (X,))


MODES = [None, True, False] + [getattr(np._CopyMode, name) for name in ("ALWAYS", "IF_NEEDED", "NEVER")]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_copies_where_they_are_needed(mode):
    def function(x, mode):
        return np.array(x, copy=mode, subok=True), np.array(x * 2.0, copy=mode, ndmin=1), x + 1.0

    def converted(x, mode):
        return np.array(x, dtype=np.float32, copy=mode), np.array([1.0, 2.0], copy=mode), np.array(x, ndmin=3, copy=mode)

    if mode is not None or NUMPY2:
        whole(function, X, mode)
    assert_same(function, lambda: (X, mode))
    assert_same(converted, lambda: (X, mode))


def test_copy_modes_are_guarded():
    def function(x, mode):
        return np.array(x, copy=mode) is x, x + 1.0

    marked = fj.jit(function)
    for mode in MODES + MODES[::-1]:
        assert_same_seen(observe(function, (X, mode)), observe(marked, (X, mode)), f"{mode}")


def test_arrays_like_others():
    def function(x):
        return np.zeros_like(x, subok=False) + np.ones_like(x, subok=True) + np.full_like(x, 3.0, subok=False), np.empty_like(x, subok=False).shape

    whole(function, X)


@pytest.mark.parametrize("x", [X, X.T, X[:, 1:], X[::-1], X[:1], X[:, :1], X[0], X[:0], np.asfortranarray(X)])
def test_flags_of_the_order(x):
    names = ["c_contiguous", "f_contiguous", "contiguous", "fortran", "fnc", "forc"]
    scope: dict = {"np": np}
    text = ", ".join(f"x.flags.{name}, (x * 2.0).flags.{name}, x.T.flags.{name}" for name in names)
    exec(f"def function(x):\n    return {text}, x + 1.0\n", scope)
    if x.size:
        whole(scope["function"], x)
    else:
        assert_same(scope["function"], lambda: (x,))

    def others(x):
        return x.flags.writeable, x.flags["C_CONTIGUOUS"], x.flags.owndata, x.flags, x + 1.0

    marked = fj.jit(others)
    for _ in range(2):
        expected, actual = others(x), marked(x)
        assert expected[:3] == actual[:3] and repr(expected[3]) == repr(actual[3]) and actual[4].tobytes() == expected[4].tobytes()


def test_flags_of_many_sizes():
    def function(x):
        return x.flags.c_contiguous, x.flags.f_contiguous, x * 2.0

    marked = fj.jit(function)
    for shape in ((3, 4), (5, 6), (7, 1), (1, 9), (8, 8), (1, 1), (0, 4)):
        for x in (np.ones(shape), np.ones(shape[::-1]).T, np.ones((shape[0], shape[1] + 2))[:, 1:-1]):
            assert_same_seen(observe(function, (x,)), observe(marked, (x,)), f"{shape}")


def test_keys_that_are_handed_on_are_the_dict_s_own():
    def function(x, y):
        d = {x.shape: y}
        y = y + len(d)
        keys = [*d]
        return d, keys, [key for key, _ in d.items()], y

    marked = fj.jit(function)
    for _ in range(4):
        d, *keys, _ = marked(X, X)
        assert all(own[0] is next(iter(d)) for own in keys)


def test_methods_of_builtins_that_were_bound_before():
    def function(x, append, get, join):
        append(x + 1.0)
        append(get("scale", 3.0) * x)
        return join(["a", "b"]), get("none"), callable(append), append

    marked = fj.jit(function)
    for _ in range(20):  # other objects each time
        kept = []
        for each in (function, marked):
            out, scale = [], {"scale": 2.0}
            append = out.append
            result = each(X, append, scale.get, "-".join)
            assert result[:3] == ("a-b", None, True) and result[3] is append
            kept.append([item.tobytes() for item in out])
        assert kept[0] == kept[1]
    assert marked._report()["breaks"] == [] and len(marked.cache_entries()) == 1
    others: list = []
    assert marked(X, others.append, {"scale": 5.0}.get, "+".join)[0] == "a+b"
    assert others[1].tobytes() == (X * 5.0).tobytes()


def test_bound_methods_of_other_kinds_are_told_apart():
    def function(x, add):
        add(x * 2.0)
        return x + 1.0

    class Own(list):
        def append(self, item):
            super().append(item - 1.0)

    marked = fj.jit(function)
    for make in (lambda: [], lambda: Own(), lambda: [1.0], lambda: []):
        for name in ("append", "extend", "append"):
            expected, actual = make(), make()
            seen = [observe(f, (X, getattr(of, name))) for f, of in ((function, expected), (marked, actual))]
            seen[0].args = seen[1].args = ()
            assert_same_seen(*seen, name)
            assert len(expected) == len(actual) and all(np.array_equal(a, b) for a, b in zip(expected, actual))


def test_a_bound_append_in_a_loop_with_breaks():
    def function(x, n):
        out: list = []
        append = out.append
        for i in range(n):
            append(x * float(i))
            print(end="")
            append(out[-1] + 1.0)
        return out

    assert_same(function, lambda: (X, 9), calls=3)


def test_identity_and_equality_of_bound_methods():
    def function(x, a, b):
        return x * 2.0, a is b, a == b, a != b

    class Own:
        def method(self):
            return self

    own, other = Own(), Own()
    held, kept = [1.0], {"append": 2.0}
    append, method = held.append, own.method
    pairs = [(append, append), (held.append, held.append), (append, [1.0].append), (append, held.pop), (append, append)]
    pairs += [(held.append, append), (kept.get, kept.get), (kept.get, append), (append, len), (len, append)]
    pairs += [(method, method), (own.method, own.method), (method, other.method), (method, append), (method, method)]
    marked = fj.jit(function)
    for pair in pairs + pairs[::-1]:
        assert marked(X, *pair)[1:] == function(X, *pair)[1:], pair


def test_names_of_classes_that_change():
    class Named:
        pass

    def function(x, cls):
        return x * 2.0, cls.__name__, cls.__qualname__, cls.__module__

    marked = fj.jit(function)
    for change in ({}, {"__name__": "Other"}, {"__qualname__": "a.b"}, {"__module__": "elsewhere"}, {}):
        for name, value in change.items():
            setattr(Named, name, value)
        for _ in range(3):
            assert marked(X, Named)[1:] == function(X, Named)[1:]
    assert marked._report()["breaks"] == [] and len(marked.cache_entries()) == 4


def test_texts_of_functions_that_change():
    def described():
        """As written."""

    def function(x, f):
        return x * 2.0, f.__doc__, f.__module__

    marked = fj.jit(function)
    for change in ({}, {"__doc__": "other"}, {"__doc__": None}, {"__module__": "elsewhere"}, {"__module__": None}, {}):
        for name, value in change.items():
            setattr(described, name, value)
        for _ in range(3):
            assert marked(X, described)[1:] == function(X, described)[1:]
    del described.__doc__, described.__module__
    assert marked(X, described)[1:] == (None, None)
    assert marked._report()["breaks"] == [] and len(marked.cache_entries()) == 5


class Asked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        ASKED.append(other.__name__)
        return NotImplemented


ASKED: list = []


def of_abstract(x, of, cls):
    return x * 2.0 if isinstance(of, cls) else x + 1.0, issubclass(type(of), cls)


KINDS = [numbers.Number, numbers.Integral, numbers.Real, collections.abc.Sequence, collections.abc.Iterable]
KINDS += [collections.abc.Hashable, collections.abc.Mapping, collections.abc.Callable, contextlib.AbstractContextManager]


def asks_others(cls, seen):
    """Is there a hook that is not the standard classes' below `cls`, as those of protocols that some module has defined?"""
    if cls in seen or not isinstance(cls, abc.ABCMeta):
        return False
    seen.add(cls)
    if getattr(cls.__subclasshook__, "__module__", None) not in (None, "collections.abc", "contextlib", "os"):
        return True
    registered = [each() for each in _abc._get_dump(cls)[0]]
    return any(asks_others(each, seen) for each in [*registered, *type.__subclasses__(cls)])


@pytest.mark.parametrize("cls", [*KINDS, (int, collections.abc.Sequence)], ids=lambda cls: getattr(cls, "__name__", "tuple"))
def test_abstract_base_classes(cls):
    marked = fj.jit(of_abstract)
    for of in (X, 1, 1.5, 2j, True, "a", [1], (1,), {}, {1}, None, np.float64(1), np.int32(2), range(3), len, fj, iter(())):
        assert_same_seen(observe(of_abstract, (X, of, cls)), observe(marked, (X, of, cls)), f"{of!r}")
    kinds = cls if isinstance(cls, tuple) else (cls,)
    assert (marked._report()["breaks"] == []) != any(asks_others(kind, set()) for kind in kinds)


def test_classes_that_are_registered_later():
    class Shape(abc.ABC):
        pass

    class Round:
        pass

    marked = fj.jit(of_abstract)
    own = Round()
    assert [marked(X, own, Shape)[1] for _ in range(3)] == [False] * 3
    (entry,) = marked.cache_entries()
    assert any(guard.startswith("abc.get_cache_token() == ") for guard in entry["guards"])
    Shape.register(Round)
    assert [marked(X, own, Shape)[1] for _ in range(3)] == [True] * 3
    assert len(marked.cache_entries()) == 2 and marked._report()["breaks"] == []


def test_hooks_of_abstract_classes_run_in_their_place():
    def function(x, of):
        ASKED.append("before")
        return x * 2.0 if isinstance(of, Asked) else x + 1.0

    marked = fj.jit(function)
    for kind in ("A", "B", "A"):
        for f in (function, marked):
            ASKED.clear()
            f(X, type(kind, (), {})())
            assert ASKED == ["before", kind]


def test_a_static_type_that_nothing_was_asked_of():
    testbuffer = pytest.importorskip("_testbuffer")  # a fresh process: its array's type is made ready by the first use
    assert testbuffer
    code = """
import framejit as fj
import numpy as np
from _testbuffer import staticarray

def function(x, of):
    return x * 2.0, type(of).__name__

made = staticarray()
assert fj.jit(function)(np.ones(3), made)[1] == type(made).__name__ == "staticarray"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
