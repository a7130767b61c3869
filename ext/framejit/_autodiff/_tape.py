"""Gradients of functions that run in the interpreter: what a tape holds.

Captured, the functions of `_primitives` are graph transformations (ext/frontends/gradient_frontend.cpp). Run, they keep a tape: arrays that are watched
become `Traced` (`_traced_array`), which look like arrays and record what is done to them; Tensors stay what they are, and a hook records what
is done to them (`_traced_tensor`). Each step on the tape is a call. `_backward` computes its gradient by a compiled function that makes this one
call, so there is one set of rules.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from framejit import _core
from framejit._api._errors import GraphBreakError

Tensor = _core.Tensor


class Node:
    """A value on a tape: the call that made it, and its operands."""

    __slots__ = ("call", "hooks", "number", "parents", "saved", "tapes")
    _numbers = itertools.count()

    def __init__(self, tapes: frozenset[Tape], call: Any = None, saved: Any = (), parents: Any = ()) -> None:
        self.number = next(Node._numbers)
        self.tapes, self.call, self.saved, self.parents = tapes, call, saved, parents
        self.hooks: dict[int, Any] = {}


class Tape:
    """What is kept between `begin` and `close`."""

    def __init__(self) -> None:
        self.tensors: dict[int, tuple[Any, Node]] = {}  # the tensors are kept, so that their ids stay theirs
        self.first: dict[int, Node] = {}  # of what may be asked for, by id: its node before it was written
        self.integers = False  # whether whole numbers vary, as they do in Tensors


class _Threads(threading.local):
    def __init__(self) -> None:
        self.open: list[Tape] = []
        self.packing: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = []  # see saved_tensors_hooks


thread = _Threads()


# --- Calls ----------------------------------------------------------------------------------------------------------------


class Slot:
    """The place of an array in the arguments of a call."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"<{self.number}>"


class Call:
    """A function and its arguments, arrays taken out."""

    def __init__(self, function: Any, args: Any, keywords: dict[str, Any]) -> None:
        self.function = function
        self.arrays: list[Any] = []
        self.args = tuple(self._skeleton(arg) for arg in args)
        self.keywords = {name: self._skeleton(value) for name, value in keywords.items()}

    def _skeleton(self, value: Any) -> Any:
        if (
            issubclass(type(value), Followed)
            or isinstance(value, Tensor)
            or type(value) is np.ndarray
            or isinstance(value, np.inexact)
        ):
            self.arrays.append(value)
            return Slot(len(self.arrays) - 1)
        if type(value) in (tuple, list):
            return type(value)(self._skeleton(item) for item in value)
        return value

    def run(self, arrays: Any) -> Any:
        """The call with these arrays."""
        keywords = {name: _filled(value, arrays) for name, value in self.keywords.items()}
        return self.function(*[_filled(arg, arrays) for arg in self.args], **keywords)


def _filled(value: Any, arrays: Any) -> Any:
    if isinstance(value, Slot):
        return arrays[value.number]
    if type(value) in (tuple, list):
        return type(value)(_filled(item, arrays) for item in value)
    return value


def argument_text(value: Any, constants: dict[str, Any]) -> str:
    """An argument as Python, in which arrays and other objects are names."""
    if isinstance(value, Slot):
        return f"a{value.number}"
    if type(value) in (tuple, list):
        inner = "".join(argument_text(item, constants) + ", " for item in value)
        return f"({inner})" if type(value) is tuple else f"[{inner}]"
    if type(value) is slice:
        parts = [argument_text(part, constants) for part in (value.start, value.stop, value.step)]
        return f"slice({', '.join(parts)})"
    if value is None or type(value) in (int, bool, str):
        return repr(value)
    hash(value)
    name = f"_k{len(constants)}"
    constants[name] = value
    return name


_functions: dict[Any, Callable[..., Any]] = {}
_MOST_FUNCTIONS = 4096


def function_of(call: Call) -> Callable[..., Any]:
    """A function of the arrays alone that makes the call; the same one for calls that are alike."""
    try:
        constants: dict[str, Any] = {}
        parts = [argument_text(arg, constants) for arg in call.args]
        parts += [f"{key}={argument_text(value, constants)}" for key, value in call.keywords.items()]
        text = ", ".join(parts)
        # One for each shape: none of them is compiled anew so often that the interpreter would have to run it.
        kinds = tuple((type(plain_value(x)), x.shape, str(x.dtype)) for x in call.arrays)
        key = (call.function, kinds, text, tuple((type(one), one) for one in constants.values()))
        if key not in _functions:
            if len(_functions) >= _MOST_FUNCTIONS:
                _functions.clear()
            names = ", ".join(f"a{i}" for i in range(len(call.arrays)))
            scope = {"_function": call.function, **constants}
            exec(f"def step({names}):\n    return _function({text})", scope)
            _functions[key] = scope["step"]
        return _functions[key]
    except TypeError:  # an argument that has no text, or cannot be a key
        return lambda *arrays: call.run(arrays)


# --- Values ---------------------------------------------------------------------------------------------------------------


class Followed:
    """An array that records on a tape: `Traced` is the only one."""

    value: Any

    @property
    def node(self) -> Node:
        """What the array holds now."""
        raise NotImplementedError


def lost(what: str) -> GraphBreakError:
    """The error for something that a tape cannot record."""
    return GraphBreakError(
        f"a gradient through {what}: the function has a graph break, so it runs in the interpreter, where gradients follow NumPy's functions, "
        "operators, methods and items of the argument. Docs: gradients"
    )


def copied(value: Any) -> Any:
    """A copy of an array or Tensor; other values as they are."""
    if isinstance(value, Tensor):
        return Tensor(value.asnumpy())
    return value.copy() if isinstance(value, np.ndarray) else value


def plain_value(value: Any) -> Any:
    """The value without what records it, also of the items of tuples and lists."""
    if issubclass(type(value), Followed):
        return value.value
    if type(value) in (tuple, list):
        return type(value)(plain_value(item) for item in value)
    return value


class _Packed:
    """Holds the result of `pack` on the tape, instead of the Tensor or array."""

    def __init__(self, value: Any, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        self.is_array = isinstance(value, np.ndarray)
        self.content, self.unpack = pack(Tensor(value) if self.is_array else value), unpack


def kept(value: Any) -> Any:
    """A value as the tape keeps it."""
    value = copied(value)
    return _Packed(value, *thread.packing[-1]) if thread.packing and isinstance(value, (Tensor, np.ndarray)) else value


def given_back(value: Any) -> Any:
    """A value that the tape has kept."""
    if type(value) is not _Packed:
        return value
    tensor = value.unpack(value.content)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"The unpack_hook must return a Tensor, but got {type(tensor).__name__}.")
    return tensor.asnumpy() if value.is_array else tensor


def shared(value: Any) -> Any:
    """A new Tensor over the memory of a Tensor, with its class and attributes."""
    hook = _core.set_tape_hook(None)
    try:
        new = _core._shared(value.asnumpy()) if value.size else Tensor(value)
        new.__dict__ = value.__dict__
        if type(value).__basicsize__ == type(new).__basicsize__:  # no __slots__
            new.__class__ = type(value)
        return new
    finally:
        _core.set_tape_hook(hook)


def zeros_like(x: Any) -> Any:
    """Zeros like an array or number."""
    value = plain_value(x)
    if isinstance(value, Tensor):
        return Tensor(np.zeros(value.shape, _core._dtype(value.dtype)))
    return np.zeros_like(value) if isinstance(value, np.ndarray) else type(value)(0)


# --- Nodes of values ------------------------------------------------------------------------------------------------------

# Tensors with hooks: a weak reference by id. The hooks are an attribute of the Tensor, which capture guards as it does others.
hooked: dict[int, Any] = {}
HOOKS = "_gradient_hooks"


def hooks_of(tensor: Any) -> dict[int, Any]:
    """The hooks of a Tensor by number."""
    if not hooked or not isinstance(tensor, Tensor):
        return {}
    known: dict[int, Any] = tensor.__dict__.get(HOOKS, {})
    return known


def node_of(x: Any) -> Node | None:
    """The node of a value; None if no open tape records it."""
    if issubclass(type(x), Followed):
        return x.node
    if not isinstance(x, Tensor) or not thread.open:
        return None
    for tape in reversed(thread.open):
        known = tape.tensors.get(id(x))
        if known is not None:
            return known[1]
    if getattr(x, "requires_grad", False) and hasattr(x, "name"):  # a Parameter: it may be in `weights`
        node = note(x, Node(frozenset(thread.open)))
        node.hooks = hooks_of(x)
        for tape in thread.open:
            tape.first[id(x)] = node
        return node
    return None


def note(tensor: Any, node: Node) -> Node:
    """Record that a Tensor has a node, on the innermost tape."""
    thread.open[-1].tensors[id(tensor)] = (tensor, node)
    return node
