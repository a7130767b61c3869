"""Gradients of functions that run in the interpreter: a tape.

Captured, the functions at the end of this file are graph transformations (ext/gradient_door.cpp). Run, they keep a tape: arguments that
are watched are `Traced`, which look like arrays and note what is done to them; Tensors stay what they are, and what is done to them is noted by a
hook. Each step on the tape is a call, and its gradient is that of a compiled function of this one call: there is one set of rules.
"""

from __future__ import annotations

import functools
import itertools
import operator
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from framejit import _core
from framejit._control import disable
from framejit._errors import GraphBreakError

Tensor = _core.Tensor


class Node:
    """A value on a tape: the call that made it, and the values that it was made of."""

    __slots__ = ("call", "hooks", "number", "parents", "saved", "tapes")
    _numbers = itertools.count()

    def __init__(
        self, tapes: frozenset[Tape], call: Call | Step | None = None, saved: Any = (), parents: Any = ()
    ) -> None:
        self.number = next(Node._numbers)
        self.tapes, self.call, self.saved, self.parents = tapes, call, saved, parents
        self.hooks: dict[int, Any] = {}


class Tape:
    """What is kept between `begin` and `close`."""

    def __init__(self) -> None:
        self.tensors: dict[int, tuple[Any, Node]] = {}  # the tensors are kept, so that their ids stay theirs
        self.first: dict[int, Node] = {}  # of what may be asked for, by id: its node before it was written


class _Threads(threading.local):
    def __init__(self) -> None:
        self.open: list[Tape] = []


_thread = _Threads()


# --- Calls -------------------------------------------------------------------------------------------------------------------


class _Slot:
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
        if isinstance(value, (Traced, Tensor)) or type(value) is np.ndarray or isinstance(value, np.inexact):
            self.arrays.append(value)
            return _Slot(len(self.arrays) - 1)
        if type(value) in (tuple, list):
            return type(value)(self._skeleton(item) for item in value)
        return value

    def run(self, arrays: Any) -> Any:
        """The call with these arrays."""
        keywords = {name: _filled(value, arrays) for name, value in self.keywords.items()}
        return self.function(*[_filled(arg, arrays) for arg in self.args], **keywords)


def _filled(value: Any, arrays: Any) -> Any:
    if isinstance(value, _Slot):
        return arrays[value.number]
    if type(value) in (tuple, list):
        return type(value)(_filled(item, arrays) for item in value)
    return value


def _text(value: Any, constants: dict[str, Any]) -> str:
    """An argument as Python, in which arrays and other objects are names."""
    if isinstance(value, _Slot):
        return f"a{value.number}"
    if type(value) in (tuple, list):
        inner = "".join(_text(item, constants) + ", " for item in value)
        return f"({inner})" if type(value) is tuple else f"[{inner}]"
    if type(value) is slice:
        parts = [_text(part, constants) for part in (value.start, value.stop, value.step)]
        return f"slice({', '.join(parts)})"
    if value is None or type(value) in (int, bool, str):
        return repr(value)
    hash(value)
    name = f"_k{len(constants)}"
    constants[name] = value
    return name


_functions: dict[Any, Callable[..., Any]] = {}
_MOST_FUNCTIONS = 4096


def _function_of(call: Call) -> Callable[..., Any]:
    """A function of the arrays alone that makes the call; the same one for calls that are alike."""
    try:
        constants: dict[str, Any] = {}
        parts = [_text(arg, constants) for arg in call.args]
        parts += [f"{key}={_text(value, constants)}" for key, value in call.keywords.items()]
        text = ", ".join(parts)
        # One for each shape: none of them is compiled anew so often that the interpreter would have to run it.
        kinds = tuple((type(_plain(x)), x.shape, str(x.dtype)) for x in call.arrays)
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


# --- Arrays that are followed ---------------------------------------------------------------------------------------------------


def _through(steps: Any) -> Callable[..., Any]:
    """A part of an array."""

    def through(root: Any) -> Any:
        part = root
        for step in steps:
            part = step(part)
        return part

    return through


def _writer(steps: Any, put: Any) -> Callable[..., Any]:
    """The array after a value was written to a part of it."""

    def write(root: Any, value: Any) -> Any:
        out = root.copy()
        part = out
        for step in steps:
            part = step(part)
        put(part, value)
        return out

    return write


def _putter(key: Any) -> Callable[..., Any]:
    """``part[key] = value``"""
    scope: dict[str, Any] = {}
    try:
        text = _text(key, scope)
    except TypeError:

        def put(part: Any, value: Any) -> None:
            part[key] = value

        return put
    exec(f"def put(part, value):\n    part[{text}] = value", scope)
    return scope["put"]


# Methods that change the array, or give what is no array.
_UNFOLLOWED = frozenset(
    (
        "byteswap",
        "dump",
        "dumps",
        "getfield",
        "item",
        "itemset",
        "partition",
        "resize",
        "setfield",
        "setflags",
    )
    + ("sort", "tobytes", "tofile", "tolist", "tostring", "view")
)


_OTHERS = " (items of what np.zeros_like of the argument gives are followed)"


class Traced:
    """An ndarray or NumPy scalar of a function whose gradient is kept on a tape. NumPy's functions take it; what wants an ndarray's memory
    (np.asarray, item assignment of other arrays) raises.
    """

    __array_priority__ = 1000.0

    def __init__(self, value: Any, node: Node | None, root: Traced | None = None, steps: Any = ()) -> None:
        self.value = value  # over the same memory as the user's
        self._node, self._root, self._steps, self._seen = node, root, steps, 0
        self._version = 0

    @property
    def __class__(self) -> Any:
        return type(self.value)

    @property
    def node(self) -> Node:
        """Of a view, what the array behind it holds now."""
        root = self._root
        if root is not None and (self._node is None or self._seen != root._version):
            call = Call(_through(self._steps), (root,), {})
            self._node = Node(root.node.tapes, call, (_copied(root.value),), (root.node,))
            self._seen = root._version
        return self._node  # type: ignore[return-value]

    def write(self, key: Any, value: Any) -> None:
        """``self[key] = value``, in memory and on the tape."""
        plain_key, root = _plain(key), self if self._root is None else self._root
        new = value if type(value) is Traced else np.asarray(value, self.value.dtype)
        before, saved = _copied(root.value), _copied(_plain(new))
        self.value[plain_key] = _plain(new)
        parent = new.node if type(new) is Traced else None
        call = Call(_writer(self._steps, _putter(plain_key)), (root, new), {})
        tapes = root.node.tapes if parent is None else root.node.tapes | parent.tapes
        root._node = Node(tapes, call, (before, saved), (root.node, parent))
        root._version += 1

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        if method == "at":
            return _writing(function, functools.partial(_apply_at, ufunc))(*inputs)
        out = keywords.pop("out", None)
        result = apply(function, inputs, keywords)
        if out is None:
            return result
        target = out[0]
        _followed_target(target, ufunc.__name__)
        target.write(
            ..., result if result.dtype == target.dtype else apply(np.ndarray.astype, (result, target.dtype), {})
        )
        return target

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        if keywords.get("out") is not None:
            raise _lost(f"{function.__name__} with out=")
        if function is np.copyto:
            return _change(function, args, keywords)
        if function in _WRITERS:
            return _WRITERS[function](*args, **keywords)
        return apply(function, args, keywords)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise _lost("the memory of an array that a gradient follows, such as to write it into another array" + _OTHERS)

    def __getitem__(self, key: Any) -> Any:
        return apply(operator.getitem, (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        self.write(key, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("real", "imag"):
            getattr(self, name)[...] = value
        elif hasattr(np.ndarray, name):
            raise _lost(f"an assignment to ndarray.{name}")
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "strides"):
            return getattr(self.value, name)
        if name == "T":
            return apply(np.ndarray.transpose, (self,), {})
        if name in ("real", "imag"):
            return apply(getattr(np, name), (self,), {})
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"{type(self.value).__name__!r} object has no attribute {name!r}")
        if name in _WRITING_METHODS:
            return functools.partial(_WRITING_METHODS[name], self)
        method = getattr(np.ndarray, name)
        if not callable(method) or name in _UNFOLLOWED:
            raise _lost(f"ndarray.{name}")
        return lambda *args, **keywords: apply(method, (self, *args), keywords)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self.value)))

    def __len__(self) -> int:
        return len(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        if self.value.dtype.kind in "fc":
            raise _lost("float(), which NumPy also takes to write into another array" + _OTHERS)
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __repr__(self) -> str:
        return repr(self.value)

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, how: str) -> str:
        return format(self.value, how)


@functools.cache
def _changing(function: Any) -> Callable[..., Any]:
    """A function that writes into its first argument as one that gives the array written."""

    def changed(array: Any, *args: Any, **keywords: Any) -> Any:
        out = array.copy()
        function(out, *args, **keywords)
        return out

    return changed


def _change(function: Any, args: Any, keywords: dict[str, Any]) -> None:
    _followed_target(args[0], function.__name__)
    args[0].write(..., apply(_changing(function), args, keywords))


# --- Functions that write, as assignments of items ------------------------------------------------------------------------------


def _followed_target(target: Any, name: str) -> None:
    if type(target) is not Traced:
        raise _lost(f"an array that a gradient does not follow, written by {name}{_OTHERS}")


def _writing(function: Any, write: Callable[..., None]) -> Callable[..., None]:
    """A function that writes into its first argument, once NumPy has said of a copy what it has against the arguments."""

    def run(target: Any, *args: Any, **keywords: Any) -> None:
        _followed_target(target, getattr(function, "__qualname__", "at"))
        function(target.value.copy(), *map(_plain, args), **{key: _plain(x) for key, x in keywords.items()})
        write(target, *args, **keywords)

    return run


def _numbers(target: Any) -> Any:
    """Of each element its number in C order."""
    return np.arange(target.size).reshape(target.shape)


def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    numbers = np.take(np.arange(a.size), np.ravel(_plain(ind)), mode=mode)
    last = {
        number: at for at, number in enumerate(numbers.tolist())
    }  # of those that are put in one place the last one stays
    _write_numbers(a, list(last), v, list(last.values()))


def _write_numbers(target: Any, numbers: Any, values: Any, places: Any) -> None:
    """Elements of values, which begin again where they end, by their places there."""
    flat = np.ravel(values)
    if len(numbers) and flat.size:
        target.write(np.unravel_index(numbers, target.shape), flat[np.asarray(places) % flat.size])


def _put_along_axis(arr: Any, indices: Any, values: Any, axis: Any = -1) -> None:
    along = _numbers(arr)
    numbers = np.take_along_axis(along.ravel() if axis is None else along, _plain(indices), axis)
    _put(arr, numbers, np.broadcast_to(values, numbers.shape))


def _place(arr: Any, mask: Any, vals: Any) -> None:
    _put(arr, np.extract(_plain(mask), _numbers(arr)), vals)


def _put_mask(a: Any, mask: Any, values: Any) -> None:
    numbers = np.extract(_plain(mask), _numbers(a))
    _write_numbers(a, numbers, values, numbers)


def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    on_it = np.zeros(a.shape, bool)
    np.fill_diagonal(on_it, True, wrap)
    _put(a, np.flatnonzero(on_it), val)


def _fill(a: Any, value: Any) -> None:
    a.write(..., value)


def _apply_at(ufunc: Any, a: Any, indices: Any, *operands: Any) -> None:
    """``ufunc.at``. What is applied to one element more than once is applied in rounds, in order."""
    numbers = _numbers(a)[_plain(indices)]
    shape = np.shape(numbers)
    numbers = np.ravel(numbers)
    if ufunc in (np.add, np.subtract) and np.unique(numbers).size < numbers.size:
        _change(ufunc.at, (a, indices, *operands), {})
        return
    weak = (int, float, complex)
    others = [np.asarray(x, np.result_type(a.dtype, x)) if type(x) in weak else x for x in operands]
    others = [np.ravel(np.broadcast_to(x, shape)) for x in others]
    left = np.arange(numbers.size)
    while left.size:
        _, first = np.unique(numbers[left], return_index=True)
        here = left[first]
        place = np.unravel_index(numbers[here], a.shape)
        a.write(place, ufunc(a[place], *(x[here] for x in others)).astype(a.dtype))
        left = np.delete(left, first)


_WRITERS = {
    np.put: _writing(np.put, _put),
    np.put_along_axis: _writing(np.put_along_axis, _put_along_axis),
    np.place: _writing(np.place, _place),
    np.putmask: _writing(np.putmask, _put_mask),
    np.fill_diagonal: _writing(np.fill_diagonal, _fill_diagonal),
}
_WRITING_METHODS = {"put": _WRITERS[np.put], "fill": _writing(np.ndarray.fill, _fill)}


def _operator(name: str, ufunc: Any, swapped: bool = False) -> Any:
    def run(self: Any, other: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented
        return ufunc(other, self) if swapped else ufunc(self, other)

    run.__name__ = name
    return run


def _in_place(name: str, ufunc: Any) -> Any:
    def run(self: Any, other: Any) -> Any:
        if not isinstance(self.value, np.ndarray):
            return ufunc(self, other)
        return ufunc(self, other, out=(self,))

    run.__name__ = name
    return run


for _name, _ufunc in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul,
}.items():  # fmt: skip
    setattr(Traced, f"__{_name}__", _operator(_name, _ufunc))
    setattr(Traced, f"__r{_name}__", _operator(_name, _ufunc, True))
    setattr(Traced, f"__i{_name}__", _in_place(_name, _ufunc))
for _name, _ufunc in {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}.items():  # fmt: skip
    setattr(Traced, f"__{_name}__", _operator(_name, _ufunc))
for _name, _ufunc in {"neg": np.negative, "pos": np.positive, "abs": np.absolute}.items():
    setattr(Traced, f"__{_name}__", lambda self, _ufunc=_ufunc: _ufunc(self))
Traced.__hash__ = object.__hash__  # type: ignore[method-assign]


def _lost(what: str) -> GraphBreakError:
    return GraphBreakError(
        f"a gradient through {what}: the function has a graph break, so it runs in the interpreter, where gradients follow NumPy's functions, "
        "operators, methods and items of the argument. Docs: gradients"
    )


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return Tensor(value.asnumpy())
    return value.copy() if isinstance(value, np.ndarray) else value


def _plain(value: Any) -> Any:
    if type(value) is Traced:
        return value.value
    if type(value) in (tuple, list):
        return type(value)(_plain(item) for item in value)
    return value


# --- The tape -------------------------------------------------------------------------------------------------------------------


def _node_of(x: Any) -> Node | None:
    if type(x) is Traced:
        return x.node
    if not isinstance(x, Tensor) or not _thread.open:
        return None
    for tape in reversed(_thread.open):
        known = tape.tensors.get(id(x))
        if known is not None:
            return known[1]
    if getattr(x, "requires_grad", False) and hasattr(x, "name"):  # a Parameter: it may be in `weights`
        node = _note(x, Node(frozenset(_thread.open)))
        node.hooks = _hooks_of(x)
        for tape in _thread.open:
            tape.first[id(x)] = node
        return node
    return None


def _note(tensor: Any, node: Node) -> Node:
    _thread.open[-1].tensors[id(tensor)] = (tensor, node)
    return node


def apply(function: Any, args: Any, keywords: dict[str, Any]) -> Any:
    """The call on plain values; what comes out is followed where an argument is."""
    call = Call(function, args, keywords)
    nodes = [_node_of(x) for x in call.arrays]
    plain = [_plain(x) for x in call.arrays]
    hook = _core.set_tape_hook(None)
    try:
        result = call.run(plain)
        tapes = frozenset().union(*[node.tapes for node in nodes if node is not None]).intersection(_thread.open)
        if not tapes:
            return result
        return _followed(result, call, nodes, plain, tapes)
    finally:
        _core.set_tape_hook(hook)


def _followed(result: Any, call: Call, nodes: Any, plain: Any, tapes: Any) -> Any:
    if isinstance(result, (tuple, list)):
        items = [_followed(item, _item_call(call, i), nodes, plain, tapes) for i, item in enumerate(result)]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    if result is None or any(result is one and at > 0 for at, one in enumerate(plain)):
        raise _lost(f"{getattr(call.function, '__name__', call.function)}, which changes an array")
    if isinstance(result, np.ndarray):
        for at, x in enumerate(call.arrays):
            if type(x) is Traced and result.size and np.may_share_memory(result, x.value):
                function = _function_of(call)
                others = [None if i == at else one for i, one in enumerate(plain)]
                step = function if len(plain) == 1 else _with_others(function, others, at)
                return Traced(result, None, x if x._root is None else x._root, (*x._steps, step))
    if isinstance(result, (np.ndarray, np.inexact)):
        if result.dtype.kind not in "fc":
            return result
        return Traced(result, Node(tapes, call, [_copied(x) for x in plain], nodes))
    if isinstance(result, Tensor) and np.dtype(_core._dtype(result.dtype)).kind in "fc":
        _note(result, Node(tapes, call, [_copied(x) for x in plain], nodes))
    return result


def _with_others(function: Any, others: list[Any], at: int) -> Callable[..., Any]:
    def step(part: Any) -> Any:
        return function(*[part if i == at else one for i, one in enumerate(others)])

    return step


def _item_call(call: Call, at: int) -> Call:
    function = _function_of(call)
    out = Call(lambda *arrays: function(*arrays)[at], (), {})
    out.args, out.arrays = tuple(_Slot(i) for i in range(len(call.arrays))), call.arrays
    return out


_NAMED = {"getitem": operator.getitem, "positive": operator.pos}


def _tensor_hook(name: str, *args: Any) -> Any:
    """What is done to Tensors while a tape is kept."""
    if name == "setitem":
        return _set_item(*args)
    if name == "Tensor":
        given, keywords = args
        return apply(Tensor, given, keywords or {}) if any(_node_of(x) for x in given) else NotImplemented
    if not any(_node_of(x) is not None for x in args):
        return NotImplemented
    if name == "LoadedGraph":
        return apply(args[0], args[1:], {})
    function = _NAMED.get(name) or getattr(_core, name, None) or getattr(_core, "_op_" + name)
    if name == "_arrays":
        return tuple(apply(_one_of_arrays, (i, *args), {}) for i in range(len(args)))
    return apply(function, args, {})


def _one_of_arrays(at: int, *args: Any) -> Any:
    return _core._arrays(*args)[at]


def _tensor_written(tensor: Any, key: Any, value: Any) -> Any:
    out = _core._array(tensor).copy()
    keys = [_core._array(k) if isinstance(k, Tensor) else k for k in (key if type(key) is tuple else (key,))]
    out[tuple(keys) if type(key) is tuple else keys[0]] = _core._array(value, tensor.dtype)
    return _core._tensor(out)


def _set_item(tensor: Any, key: Any, value: Any) -> Any:
    if _node_of(tensor) is None and _node_of(value) is None:
        return NotImplemented
    new = apply(_tensor_written, (tensor, key, value), {})
    node = _node_of(new)
    hook = _core.set_tape_hook(None)
    try:
        tensor[key] = value
    finally:
        _core.set_tape_hook(hook)
    if node is not None:
        _note(tensor, node)
    return None


def _gradients(node: Node, cotangent: Any) -> list[Any]:
    """Of the parents of a node, through the compiled gradient of its call."""
    from framejit._grad import one_call_gradient

    if isinstance(node.call, Step):
        return node.call.back(cotangent)
    if not cotangent.size:  # a selection of nothing
        return [
            None if parent is None else _zeros(value) for value, parent in zip(node.saved, node.parents, strict=True)
        ]
    places = tuple(i for i, parent in enumerate(node.parents) if parent is not None)
    hook = _core.set_tape_hook(None)
    try:
        gradient = one_call_gradient(_function_of(node.call), places)
        saved = [
            _again(value, parent) if parent is not None else value
            for value, parent in zip(node.saved, node.parents, strict=True)
        ]
    finally:
        _core.set_tape_hook(hook)
    insisted = _core.insist(True)  # also under a debugger: the tape is not kept on a tape
    try:
        found = apply(gradient, (*saved, cotangent), {})
    finally:
        _core.insist(insisted)
    out: list[Any] = [None] * len(node.parents)
    for at, one in zip(places, found if len(places) > 1 else (found,), strict=True):
        out[at] = one
    return out


def _again(value: Any, node: Node) -> Any:
    """A saved value under its node, where an outer tape is still open."""
    if not node.tapes.intersection(_thread.open):
        return value
    if isinstance(value, Tensor):
        _note(value, node)
        return value
    return Traced(value, node)


# --- Hooks, and gradients that are given --------------------------------------------------------------------------------------------


class Step:
    """What is on the tape in place of a call, and knows its gradients itself."""

    def __init__(self, back: Callable[[Any], list[Any]]) -> None:
        self.back = back


class Parts:
    """Gradients of some of several values, by place."""

    def __init__(self, given: dict[int, Any]) -> None:
        self.given = given

    def __add__(self, other: Parts) -> Parts:
        return Parts({**self.given, **other.given})


def _replaced(given: Any, before: Any) -> Any:
    return before if given is None else given


def _values(given: Any) -> list[Any]:
    """The Tensors of arguments or of a result, nested ones too."""
    if isinstance(given, (tuple, list)):
        return [value for item in given for value in _values(item)]
    return [given] if isinstance(given, Tensor) else []


def _with_values(given: Any, values: list[Any]) -> Any:
    """The same with other Tensors, taken from the front of the list."""
    if isinstance(given, (tuple, list)):
        return type(given)([_with_values(item, values) for item in given])
    return values.pop(0) if isinstance(given, Tensor) else given


def _joined(given: Any, sources: list[Any], back: Callable[[list[Any]], Any]) -> Any:
    """The same with other Tensors that share their memory. `back` is given the gradients of all of them when they are known, None of
    those that nothing depends on, and gives those of the sources.
    """
    values, nodes = _values(given), [_node_of(x) for x in sources]
    tapes = frozenset().union(*[node.tapes for node in nodes if node is not None]).intersection(_thread.open)
    if not tapes:
        return given

    def all_back(parts: Parts) -> list[Any]:
        return list(back([parts.given.get(i) for i in range(len(values))]))

    joint, new = Node(tapes, Step(all_back), (), tuple(nodes)), []
    for i, value in enumerate(values):
        new.append(_shared(value))
        _note(new[-1], Node(tapes, Step(lambda cotangent, i=i: [Parts({i: cotangent})]), (), (joint,)))
    return _with_values(given, new)


def _shared(value: Any) -> Any:
    hook = _core.set_tape_hook(None)
    try:
        return _core._shared(value.asnumpy()) if value.size else Tensor(value)
    finally:
        _core.set_tape_hook(hook)


def _complete(gradients: list[Any], values: list[Any]) -> tuple[Any, ...]:
    return tuple(_zeros(x) if one is None else one for one, x in zip(gradients, values, strict=True))


def _as_gradients(given: Any, before: tuple[Any, ...], who: str) -> tuple[Any, ...]:
    """What a hook gave in place of gradients, if anything."""
    if given is None:
        return before
    new = given if isinstance(given, tuple) else (given,)
    if len(new) != len(before):
        raise TypeError(f"The {who} must return {len(before)} gradients or None, but gave {len(new)}.")
    return new


@disable
def call_with_backward(cell: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A call of a cell with backward hooks or a `bprop` of its own."""
    if not _thread.open:
        return cell._compute(args, kwargs)
    inputs = _values(args)
    seen: dict[str, Any] = {}

    def enter(gradients: list[Any]) -> tuple[Any, ...]:
        found = _complete(gradients, inputs)
        for hook in list(cell._backward_hooks.values()):
            found = _as_gradients(hook(cell, found, seen.get("output")), found, "backward hook of a Cell")
        return found

    def leave(gradients: list[Any]) -> tuple[Any, ...]:
        found = _complete(gradients, outputs)
        for hook in list(cell._backward_pre_hooks.values()):
            found = _as_gradients(hook(cell, found), found, "backward pre hook of a Cell")
        seen["output"] = found
        if not followed:
            for hook in list(cell._backward_hooks.values()):
                hook(cell, (None,) * len(inputs), found)
        return found

    followed = any(_node_of(x) is not None for x in inputs)
    given = _joined(args, inputs, enter)
    output = _by_bprop(cell, given, kwargs) if hasattr(cell, "bprop") else cell._compute(given, kwargs)
    outputs = _values(output)
    return _joined(output, outputs, leave)


@disable
def with_gradients(inputs: tuple[Any, ...], change: Callable[[tuple[Any, ...]], Any], who: str) -> Any:
    """The inputs. When their gradients are known `change` is given them; what it returns, if anything, takes their place."""
    values = _values(inputs)

    def back(gradients: list[Any]) -> tuple[Any, ...]:
        found = _complete(gradients, values)
        return _as_gradients(change(found), found, who)

    return _joined(inputs, values, back)


def _by_bprop(cell: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What `construct` gives, with the gradients that `bprop` gives."""
    hook, tapes = _core.set_tape_hook(None), _thread.open
    _thread.open = []
    try:
        output = cell._compute(args, kwargs)
    finally:
        _thread.open = tapes
        _core.set_tape_hook(hook)

    def back(gradients: list[Any]) -> list[Any]:
        found = list(_complete(gradients, _values(output)))
        given = cell.bprop(*args, output, _with_values(output, found))
        given = given if isinstance(given, tuple) else (given,)
        if len(given) != len(args):
            raise TypeError(
                f"The bprop of {type(cell).__name__} must return {len(args)} gradients, but gave {len(given)}."
            )
        found = []
        for arg, one in zip(args, given, strict=True):
            count = len(_values(arg))
            found += _values(one) if len(_values(one)) == count else [None] * count
        return found

    output = _joined(output, _values(args), back)
    return output


# Tensors with hooks, by id: a weak reference, and the hooks by number.
hooked: dict[int, tuple[Any, dict[int, Any]]] = {}
_hook_numbers = itertools.count()


class HookHandle:
    """Takes a hook out again: ``remove()``."""

    def __init__(self, hooks: dict[int, Any], hook: Any, then: Callable[[], None] | None = None) -> None:
        if not callable(hook):
            raise TypeError(f"The hook must be a function, but got {type(hook).__name__}.")
        self._hooks, self.number, self._then = hooks, next(_hook_numbers), then
        hooks[self.number] = hook
        if then is not None:
            then()

    def remove(self) -> None:
        """Take the hook out."""
        self._hooks.pop(self.number, None)
        if self._then is not None:
            self._then()


def _hooks_of(tensor: Any) -> dict[int, Any]:
    known = hooked.get(id(tensor))
    return {} if known is None else known[1]


@disable
def register_hook(tensor: Any, hook: Any) -> HookHandle:
    """Call ``hook(gradient)`` when the gradient of the Tensor is known; what it returns, if anything, takes its place.

    Within a function that is differentiated, for that call, and elsewhere, or for a Parameter, until it is taken out.

    Returns
    -------
    HookHandle
        Its ``remove()`` takes the hook out.
    """
    node = _node_of(tensor)
    if node is not None and not getattr(tensor, "requires_grad", False):  # as Parameters do
        return HookHandle(node.hooks, hook)
    key, hooks = id(tensor), _hooks_of(tensor)
    tensor_of = weakref.ref(tensor, lambda _: hooked.pop(key, None))

    def forget() -> None:
        if not hooks and _hooks_of(tensor_of()) is hooks:
            del hooked[key]

    handle = HookHandle(hooks, hook, forget)
    hooked.setdefault(key, (tensor_of, hooks))
    if node is not None:
        node.hooks = hooks
    return handle


def is_kept() -> bool:
    """Whether gradients are asked for of what is done now."""
    return bool(_thread.open)


@disable
def pause() -> list[Tape]:
    """No gradient goes through what comes now. Gives what `go_on` takes."""
    tapes, _thread.open = _thread.open, []
    _core.set_tape_hook(None)
    return tapes


@disable
def go_on(tapes: list[Tape]) -> None:
    """After `pause`."""
    _thread.open = tapes
    _core.set_tape_hook(_tensor_hook)


@disable
def begin_here() -> Any:
    """`begin`, in the interpreter: Tensors have hooks."""
    return begin()


# --- What capture knows -----------------------------------------------------------------------------------------------------------


def begin() -> Any:
    """A tape: the function that is differentiated begins."""
    insisting = _core.insist(True)
    _core.insist(insisting)
    if insisting:  # the gradient of one call, which the tape asked for
        raise GraphBreakError("a gradient of a call that is not compiled")
    tape = Tape()
    _thread.open.append(tape)
    _core.set_tape_hook(_tensor_hook)
    return tape


def close(tape: Any) -> None:
    """The end of a tape, also where the function raised."""
    if tape not in _thread.open:
        return
    _thread.open.remove(tape)
    if _thread.open:  # what an outer tape follows too
        _thread.open[-1].tensors.update(
            {key: entry for key, entry in tape.tensors.items() if entry[1].tapes.intersection(_thread.open)}
        )
    _core.set_tape_hook(_tensor_hook if _thread.open else None)


def watch(tape: Any, x: Any) -> Any:
    """`x`, so that gradients with respect to it are known."""
    inner = _node_of(x)
    value = _plain(x)
    kind = np.dtype(_core._dtype(value.dtype) if isinstance(value, Tensor) else value.dtype).kind
    if kind in "biu":
        raise GraphBreakError(f"a gradient with respect to integers ({value.dtype}), which do not vary: convert them")
    if kind not in "fc":
        raise GraphBreakError(f"a gradient with respect to {value.dtype}, which has none: convert it to float32")
    tapes = frozenset([tape]) if inner is None else inner.tapes | {tape}
    node = Node(tapes) if inner is None else Node(tapes, Call(_same, (x,), {}), (_copied(value),), (inner,))
    node.hooks = _hooks_of(x)
    if not isinstance(value, Tensor):
        traced = Traced(value, node)
        tape.first[id(traced)] = node
        return traced
    hook = _core.set_tape_hook(None)
    try:
        new = _core._shared(value.asnumpy()) if value.size else Tensor(value)
    finally:
        _core.set_tape_hook(hook)
    tape.tensors[id(new)], tape.first[id(new)] = (new, node), node
    return new


def _same(x: Any) -> Any:
    return x * 1


def pull(tape: Any, outputs: Any, seeds: Any, inputs: Any) -> Any:
    """The gradients of the inputs, given those of the outputs; None: ones."""
    wanted = [tape.first[id(x)] if id(x) in tape.first else _node_of(x) for x in inputs]
    cotangents: dict[Node, Any] = {}
    for output, seed in zip(outputs, seeds, strict=True):
        node = _node_of(output)
        if node is not None and tape in node.tapes:
            _add(cotangents, node, _seed(output, seed))
    close(tape)  # what follows is not on it
    last = min((node.number for node in wanted if node is not None), default=0)
    results: dict[Node, Any] = {}
    ends = {node for node in wanted if node is not None}
    while cotangents:
        node = max(cotangents, key=lambda one: one.number)
        cotangent = cotangents.pop(node)
        for hook in list(node.hooks.values()):
            cotangent = _replaced(hook(cotangent), cotangent)
        if node in ends:
            results[node] = cotangent
        if node.call is None or node.number <= last or node in ends:
            continue
        for parent, one in zip(node.parents, _gradients(node, cotangent), strict=True):
            if parent is not None and one is not None and tape in parent.tapes:
                _add(cotangents, parent, one)
    return tuple(results[node] if node in results else _zeros(x) for x, node in zip(inputs, wanted, strict=True))


def _seed(output: Any, seed: Any) -> Any:
    if seed is None:
        return ones(output)
    given, shape = _plain(seed), np.shape(_plain(output)) if not isinstance(output, Tensor) else output.shape
    if np.shape(given) not in ((), shape) and not isinstance(given, Tensor):
        raise ValueError(f"sens of the shape {np.shape(given)}, but the output has {shape}.")
    return seed


def _add(cotangents: dict[Node, Any], node: Node, one: Any) -> None:
    known = cotangents.get(node)
    cotangents[node] = one if known is None else known + one


def _zeros(x: Any) -> Any:
    value = _plain(x)
    if isinstance(value, Tensor):
        return Tensor(np.zeros(value.shape, _core._dtype(value.dtype)))
    return np.zeros_like(value) if isinstance(value, np.ndarray) else type(value)(0)


def restore(x: Any, watched: Any, given: Any) -> Any:
    """A result of the function as its caller gets it."""
    if isinstance(x, dict) and type(x) is dict:
        return {key: restore(value, watched, given) for key, value in x.items()}
    for new, old in zip(watched, given, strict=False):
        if x is new:
            return old
    if type(x) is Traced and not x.node.tapes.intersection(_thread.open):
        return x.value
    return x


def stop(x: Any) -> Any:
    """A copy of an array; no gradient goes through it."""
    value = _plain(x)
    if isinstance(value, Tensor):
        hook = _core.set_tape_hook(None)
        try:
            return Tensor(value.asnumpy())
        finally:
            _core.set_tape_hook(hook)
    return value.copy() if isinstance(value, (np.ndarray, np.generic)) else value


def ones(x: Any) -> Any:
    """Ones like an array or number."""
    value = _plain(x)
    if isinstance(value, Tensor):
        return Tensor(np.ones(value.shape, _core._dtype(value.dtype)))
    return np.ones_like(value) if isinstance(value, np.ndarray) else type(value)(1)


_core.set_tape_functions(
    {
        "begin": begin,
        "is_kept": is_kept,
        "close": close,
        "watch": watch,
        "pull": pull,
        "restore": restore,
        "stop": stop,
        "ones": ones,
    }
)
