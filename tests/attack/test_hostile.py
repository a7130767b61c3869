"""Objects that lie, raise and call back, and memory of every odd kind: the marked function gives what the plain one gives, and calls what it calls."""

from __future__ import annotations

import ctypes
import mmap
import re
import struct

import numpy as np
import pytest

import framejit as fj

pytestmark = pytest.mark.capture
X = np.arange(1.0, 7.0)


def bits(value):
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        mask = np.ma.getmaskarray(value).tobytes() if isinstance(value, np.ma.MaskedArray) else b""
        data = np.ma.filled(value, 0) if mask else value
        # A long double has bytes that mean nothing.
        elements = repr(data.tolist()) if data.dtype == np.longdouble else np.ascontiguousarray(data).tobytes()
        return type(value).__name__, value.dtype.str, value.shape, elements, mask
    if isinstance(value, (tuple, list)):
        return [bits(item) for item in value]
    return type(value).__name__, repr(value) if type(value).__repr__ is not object.__repr__ else ""


def outcome(f, *args):
    with np.errstate(all="ignore"):
        try:
            return bits(f(*args))
        except Exception as error:
            return type(error).__name__, re.sub("0x[0-9a-f]+", "0x", str(error))


def misaligned():
    memory = bytearray(8 * 6 + 1)
    array = np.frombuffer(memory, np.float64, 6, 1)
    array[...] = X
    return array


def mapped():
    memory = mmap.mmap(-1, 8 * 6)
    memory.write(X.tobytes())
    return np.frombuffer(memory, np.float64)


def read_only():
    array = X.copy()
    array.flags.writeable = False
    return array


PAYLOAD = np.frombuffer(struct.pack("<QQ", 0x7FF8_0000_DEAD_BEEF, 0xFFF4_0000_0000_0001), np.float64)
MEMORY = {
    "misaligned": misaligned, "mmap": mapped, "read-only": read_only, "byte-swapped": lambda: X.astype(">f8"),
    "ctypes": lambda: np.ctypeslib.as_array((ctypes.c_double * 6)(*X)), "reversed": lambda: X.copy()[::-1], "every other": lambda: np.repeat(X, 2)[::2],
    "of no stride": lambda: np.broadcast_to(X[0], (6,)), "overlapping": lambda: np.lib.stride_tricks.as_strided(X.copy(), (6,), (4,)), "of none": lambda: X[:0],
    "of no dimension": lambda: np.array(3.0), "of 32 dimensions": lambda: X.copy().reshape((1,) * 31 + (6,)), "empty of great strides": lambda: np.lib.stride_tricks.as_strided(X, (0, 5), (2**62, 8)),
    "NaN payloads": lambda: PAYLOAD, "structured": lambda: np.zeros(3, [("a", "f8"), ("b", "i4")]), "objects": lambda: np.array([1, 2.5, None, "x"], object), "numbers as objects": lambda: np.array([1, 2.5, 10**40], object),
    "dates": lambda: np.array(["2020-01-01", "NaT"], "M8[D]"), "spans": lambda: np.array([1, 2], "m8[s]"), "text": lambda: np.array(["a", "bc"]), "bytes": lambda: np.array([b"a", b"bc"]),
    "masked": lambda: np.ma.masked_array(X.copy(), X > 3), "matrix": lambda: np.asmatrix(X.copy()), "record": lambda: np.rec.array([(1.0, 2)], [("a", "f8"), ("b", "i4")]),
    "long double": lambda: X.astype(np.longdouble), "half": lambda: X.astype(np.float16), "field": lambda: np.zeros(4, [("p", "i1"), ("a", "f8")])["a"],
}  # fmt: skip
FUNCTIONS = {
    "arithmetic": lambda a: a * 2 + 1, "sum": lambda a: (a + a).sum(), "item": lambda a: a[..., -1:] - a[..., :1], "compared": lambda a: np.where(a == a, a, a), "sorted": lambda a: np.sort(a, axis=-1),
    "as text": lambda a: [str(v) for v in a.ravel()], "loop": lambda a: [v + v for v in a.ravel()], "key": lambda a: len({v: 1 for v in a.ravel().tolist()}),
}  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("memory", MEMORY)
def test_memory(memory, function):
    f, marked = FUNCTIONS[function], fj.jit(FUNCTIONS[function])
    expected = outcome(f, MEMORY[memory]())
    for _ in range(3):
        assert outcome(marked, MEMORY[memory]()) == expected


@pytest.mark.parametrize("memory", ["misaligned", "mmap", "read-only", "byte-swapped", "ctypes", "reversed", "overlapping", "of no stride", "masked", "field"])
def test_writes(memory):
    def f(a):
        a[1:] = a[:-1] * 2
        a += 1
        np.multiply(a, a[0], out=a)
        return a

    plain, other = MEMORY[memory](), MEMORY[memory]()
    marked = fj.jit(f)
    for _ in range(3):
        with np.errstate(all="ignore"):
            assert outcome(f, plain) == outcome(marked, other)
        assert bits(np.array(plain)) == bits(np.array(other))


class Traced:
    """Says what was asked of it."""

    def __init__(self, calls, **answers):
        self.__dict__.update(calls=calls, answers=answers)


def answering(name):
    def method(self, *args, **keywords):
        self.calls.append(name)
        answer = self.answers.get(name, NotImplemented)
        if isinstance(answer, Exception):
            raise answer
        return answer(self, *args) if callable(answer) else answer

    return method


SPECIAL = (
    "__eq__ __hash__ __bool__ __index__ __float__ __int__ __len__ __getitem__ __iter__ __next__ __call__ __add__ __radd__ __mul__ __rmul__ __array__ __array_ufunc__ "
    "__array_priority__ __getattr__ __contains__ __enter__ __exit__ __lt__ __neg__ __abs__ __str__ __format__ __complex__ __instancecheck__"
).split()


def lying(calls, answers):
    """An object of a class of its own that has just these special methods."""
    return type("Lying", (Traced,), {name: answering(name) for name in answers})(calls, **answers)


OBJECTS = {
    "an index that grows": {"__index__": lambda self: len(self.calls) - 1}, "an index that raises": {"__index__": KeyError("no")}, "an index of another type": {"__index__": 1.5},
    "an array": {"__array__": lambda self, *_: X * len(self.calls)}, "an array that raises": {"__array__": KeyError("no")}, "no array": {"__array__": "text"},
    "a ufunc": {"__array_ufunc__": lambda self, ufunc, *_: (ufunc.__name__, len(self.calls))}, "a truth that changes": {"__bool__": lambda self: len(self.calls) % 2 == 0}, "a truth that raises": {"__bool__": KeyError("no")},
    "equal to all": {"__eq__": True, "__hash__": 1}, "a hash that raises": {"__hash__": KeyError("no")}, "a hash that changes": {"__hash__": lambda self: len(self.calls), "__eq__": False},
    "a sum": {"__add__": 3, "__radd__": 4}, "a sum that raises": {"__radd__": KeyError("no")}, "a number": {"__float__": 2.5}, "attributes": {"__getattr__": lambda self, name: X},
    "attributes that raise": {"__getattr__": AttributeError("none")}, "a length": {"__len__": lambda self: len(self.calls), "__getitem__": lambda self, i: X[i]}, "callable": {"__call__": lambda self, *_: X + len(self.calls)},
}  # fmt: skip
USES = {
    "added": lambda x, o: x + o, "added to": lambda x, o: o + x, "index": lambda x, o: x[o], "truth": lambda x, o: x + 1 if o else x - 1, "key": lambda x, o: {o: x}[o] + 1, "in": lambda x, o: (o in [1, 2, o], x * 2),
    "array": lambda x, o: np.asarray(o) + x, "float": lambda x, o: float(o) + x, "attribute": lambda x, o: o.anything + x, "length": lambda x, o: len(o) + x, "called": lambda x, o: o(x) + 1,
    "loop": lambda x, o: [v * 2 for v in o], "compared": lambda x, o: (o == 1, x + 1), "ufunc": lambda x, o: np.add(x, o), "argument": lambda x, o: np.sum(x, axis=o), "text": lambda x, o: (isinstance(o, int), x * 3),
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("thing", OBJECTS)
def test_objects_that_lie(thing, use):
    """The values, and how often which method was called, call by call."""
    f, marked = USES[use], fj.jit(USES[use])
    plain_calls, calls = [], []
    plain, other = lying(plain_calls, OBJECTS[thing]), lying(calls, OBJECTS[thing])
    for _ in range(4):
        expected = outcome(f, X, plain)
        assert outcome(marked, X, other) == expected
        assert calls == plain_calls


def test_what_changes_while_it_is_asked():
    class Removes:
        def __init__(self, items):
            self.items = items

        def __radd__(self, other):
            self.items.clear()
            return other

        __array_ufunc__ = None

    def f(x, items):
        y = x * 2
        y = y + items[0]
        items.append(y)
        return y, len(items)

    marked = fj.jit(f)
    for _ in range(3):
        plain, other = [], []
        plain.append(Removes(plain)), other.append(Removes(other))
        assert outcome(marked, X, other) == outcome(f, X, plain)


def test_a_class_that_lies_about_itself():
    class Pretends:
        @property
        def __class__(self):
            return np.ndarray

        shape, ndim, dtype = (6,), 1, X.dtype

    def f(x, o):
        return isinstance(o, np.ndarray), type(o) is np.ndarray, x * 2

    marked = fj.jit(f)
    for _ in range(3):
        assert outcome(marked, X, Pretends()) == outcome(f, X, Pretends())


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**400, 2**63, -(2**63)])
def test_large_ints(number):
    for f in (lambda x, n: x + n, lambda x, n: np.sqrt(n) + x, lambda x, n: x.astype(int) + n, lambda x, n: n % 97 + x, lambda x, n: np.array([n]) * 1, lambda x, n: [n][0] - n + x, lambda x, n: np.logical_not(n)):
        marked = fj.jit(f)
        for _ in range(2):
            assert outcome(marked, X, number) == outcome(f, X, number)
