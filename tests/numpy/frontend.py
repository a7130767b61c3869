"""Drives the NumPy frontend without bytecode: a program over (np, arrays) runs once on real arrays and once on graph values."""

from __future__ import annotations

import warnings
from typing import Any, Callable

import numpy
from framejit import _core

Break = _core._FrontendBreak

_BINARY = ["add", "and", "floordiv", "lshift", "matmul", "mul", "mod", "or", "pow", "rshift", "sub", "truediv", "xor"]
_COMPARE = ["lt", "le", "eq", "ne", "gt", "ge"]


class Capture:
    """One session; `inputs` and `numbers` make values, `np` is the module that the program sees."""

    def __init__(self, *varied: str) -> None:
        self.session = _core._FrontendSession(varied)
        self.np = _Numpy(self)

    def give(self, tagged: Any) -> Any:
        if isinstance(tagged, tuple) and len(tagged) == 2 and tagged[0] == "value":
            return Symbol(self, tagged)
        if isinstance(tagged, tuple) and len(tagged) == 2 and tagged[0] == "tuple":
            return tuple(self.give(item) for item in tagged[1])
        return tagged

    def take(self, value: Any) -> tuple:
        if isinstance(value, Symbol):
            return value.handle
        if isinstance(value, (tuple, list)):
            return (type(value).__name__, tuple(self.take(item) for item in value))
        if isinstance(value, slice):
            return ("slice", tuple(self.take(part) for part in (value.start, value.stop, value.step)))
        return ("const", value)

    def call(self, function: Any, args: tuple, keywords: dict) -> Any:
        taken = tuple(self.take(value) for value in args)
        named = {name: self.take(value) for name, value in keywords.items()}
        return self.give(self.session.call(function, taken, named))

    def input(self, array: Any, name: str) -> Symbol:
        return self.give(self.session.input(array, name))

    def number(self, value: float) -> Symbol:
        return self.give(self.session.number(value))

    def text(self, *values: Symbol) -> str:
        return self.session.text(*(value.handle for value in values))


class _Numpy:
    """numpy, with its functions turned into calls of the frontend."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def __getattr__(self, name: str) -> Any:
        found = getattr(numpy, name)
        if not callable(found):
            return found
        return lambda *args, **keywords: self._capture.call(found, args, keywords)


class Symbol:
    """A value of the graph, with Python's operators."""

    __array_ufunc__ = None

    def __init__(self, capture: Capture, handle: tuple) -> None:
        self.capture = capture
        self.handle = handle

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if callable(getattr(numpy.ndarray, name, None)):
            return lambda *args, **keywords: self.capture.call(name, (self, *args), keywords)
        return self.capture.give(self.capture.session.attribute(self.handle, name))

    def __getitem__(self, key: Any) -> Any:
        return self.capture.give(self.capture.session.get_item(self.handle, self.capture.take(key)))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.capture.session.set_item(self.handle, self.capture.take(key), self.capture.take(value))

    def __neg__(self) -> Any:
        return self.capture.give(self.capture.session.unary(1, self.handle))

    def __pos__(self) -> Any:
        return self.capture.give(self.capture.session.unary(0, self.handle))

    def __invert__(self) -> Any:
        return self.capture.give(self.capture.session.unary(2, self.handle))

    def __abs__(self) -> Any:
        return self.capture.call("__abs__", (self,), {})

    __hash__ = None  # type: ignore[assignment]

    def describe(self) -> tuple:
        return self.capture.session.describe(self.handle)


def _operator(nb: int) -> tuple[Callable, Callable, Callable]:
    def run(self: Symbol, code: int, left: Any, right: Any) -> Any:
        capture = self.capture
        return capture.give(capture.session.binary(code, capture.take(left), capture.take(right)))

    return (
        lambda self, other: run(self, nb, self, other),
        lambda self, other: run(self, nb, other, self),
        lambda self, other: run(self, nb + 13, self, other),
    )


for _nb, _name in enumerate(_BINARY):
    _plain, _reflected, _inplace = _operator(_nb)
    setattr(Symbol, f"__{_name}__", _plain)
    setattr(Symbol, f"__r{_name}__", _reflected)
    setattr(Symbol, f"__i{_name}__", _inplace)

for _op, _name in enumerate(_COMPARE):

    def _compare(self: Symbol, other: Any, op: int = _op) -> Any:
        capture = self.capture
        return capture.give(capture.session.compare(op, capture.take(self), capture.take(other)))

    setattr(Symbol, f"__{_name}__", _compare)


def described(value: Any) -> Any:
    """What Symbol.describe says, of a real value."""
    if isinstance(value, tuple):
        return tuple(described(item) for item in value)
    if isinstance(value, numpy.ndarray):
        return ("array", value.dtype.type.__name__, value.shape, value.strides)
    if isinstance(value, numpy.generic):
        return ("scalar", type(value).__name__, (), ())
    return value


def predicted(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(predicted(item) for item in value)
    if isinstance(value, Symbol):
        found = value.describe()
        if found[0] == "int":
            return found[1]
        wrap, dtype, shape, strides, _ = found
        return (wrap, dtype.removeprefix("numpy."), shape, strides)
    return value


class Refused(Exception):
    """The frontend left the program to NumPy: a break."""


def run(program: Callable, *args: Any, varied: tuple = (), numbers: bool = False) -> tuple[Any, Any, Capture]:
    """The program's result on graph values and on real ones, described. NumPy's exceptions must be breaks."""
    capture = Capture(*varied)
    values = []
    for i, arg in enumerate(args):
        if isinstance(arg, (numpy.ndarray, numpy.generic)):
            values.append(capture.input(arg, "xyzuvw"[i]))
        elif numbers and type(arg) in (int, float):
            values.append(capture.number(arg))
        else:
            values.append(arg)
    try:
        found = predicted(program(capture.np, *values))
    except Break as error:
        raise Refused(*error.args) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = described(program(numpy, *args))
    return found, expected, capture
