"""Arrays that record what is done to them on a tape."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from framejit import _core
from framejit._autodiff._tape import (
    Call,
    Followed,
    Node,
    Slot,
    argument_text,
    copied,
    function_of,
    kept,
    lost,
    node_of,
    note,
    plain_value,
    thread,
)

Tensor = _core.Tensor


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
        text = argument_text(key, scope)
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


class Traced(Followed):
    """An ndarray or NumPy scalar of a function whose gradient is kept on a tape. NumPy's functions take it; code that needs the memory of an ndarray
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
        """For a view, the current content of its array."""
        root = self._root
        if root is not None and (self._node is None or self._seen != root._version):
            call = Call(_through(self._steps), (root,), {})
            self._node = Node(root.node.tapes, call, (copied(root.value),), (root.node,))
            self._seen = root._version
        return self._node  # type: ignore[return-value]

    def write(self, key: Any, value: Any) -> None:
        """``self[key] = value``, in memory and on the tape."""
        plain_key, root = plain_value(key), self if self._root is None else self._root
        new = value if type(value) is Traced else np.asarray(value, self.value.dtype)
        before, saved = copied(root.value), copied(plain_value(new))
        self.value[plain_key] = plain_value(new)
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
            raise lost(f"{function.__name__} with out=")
        if function is np.copyto:
            return _change(function, args, keywords)
        if function in _OF_OTHER_LENGTHS:
            return _OF_OTHER_LENGTHS[function](*args, **keywords)
        if function in _WRITERS:
            return _WRITERS[function](*args, **keywords)
        return apply(function, args, keywords)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise lost("the memory of an array that a gradient follows, such as to write it into another array" + _OTHERS)

    def __getitem__(self, key: Any) -> Any:
        return apply(operator.getitem, (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        self.write(key, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("real", "imag"):
            getattr(self, name)[...] = value
        elif hasattr(np.ndarray, name):
            raise lost(f"an assignment to ndarray.{name}")
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "strides"):
            return getattr(self.value, name)
        if name == "T":
            return apply(_method(self, "transpose"), (self,), {})
        if name in ("real", "imag"):
            return apply(getattr(np, name), (self,), {})
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"{type(self.value).__name__!r} object has no attribute {name!r}")
        if name == "repeat":
            return functools.partial(_repeat, self)
        if name in _WRITING_METHODS:
            return functools.partial(_WRITING_METHODS[name], self)
        if not callable(getattr(np.ndarray, name)) or name in _UNFOLLOWED:
            raise lost(f"ndarray.{name}")
        method = _method(self, name)
        return lambda *args, **keywords: apply(method, (self, *args), keywords)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self.value)))

    def __len__(self) -> int:
        return len(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        if self.value.dtype.kind in "fc":
            raise lost("float(), which NumPy also takes to write into another array" + _OTHERS)
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


# --- Functions that write, as assignments of items ------------------------------------------------------------------------


def _followed_target(target: Any, name: str) -> None:
    if type(target) is not Traced:
        raise lost(f"an array that a gradient does not follow, written by {name}{_OTHERS}")


def _writing(function: Any, write: Callable[..., None]) -> Callable[..., None]:
    """A function that writes into its first argument, once NumPy has said of a copy what it has against the arguments."""

    def run(target: Any, *args: Any, **keywords: Any) -> None:
        _followed_target(target, getattr(function, "__qualname__", "at"))
        function(target.value.copy(), *map(plain_value, args), **{key: plain_value(x) for key, x in keywords.items()})
        write(target, *args, **keywords)

    return run


def _numbers(target: Any) -> Any:
    """Of each element its number in C order."""
    return np.arange(target.size).reshape(target.shape)


def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    numbers = np.take(np.arange(a.size), np.ravel(plain_value(ind)), mode=mode)
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
    numbers = np.take_along_axis(along.ravel() if axis is None else along, plain_value(indices), axis)
    _put(arr, numbers, np.broadcast_to(values, numbers.shape))


def _place(arr: Any, mask: Any, vals: Any) -> None:
    _put(arr, np.extract(plain_value(mask), _numbers(arr)), vals)


def _put_mask(a: Any, mask: Any, values: Any) -> None:
    numbers = np.extract(plain_value(mask), _numbers(a))
    _write_numbers(a, numbers, values, numbers)


def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    on_it = np.zeros(a.shape, bool)
    np.fill_diagonal(on_it, True, wrap)
    _put(a, np.flatnonzero(on_it), val)


def _method(traced: Traced, name: str) -> Callable[..., Any]:
    """The method of an array, or of a number, whose gradient is that of the array's method."""
    return getattr(np.ndarray, name) if isinstance(traced.value, np.ndarray) else _method_of_number(name)


_methods_of_numbers: dict[str, Callable[..., Any]] = {}  # one function for each name, as tapes compare them


def _method_of_number(name: str) -> Callable[..., Any]:
    def method(number: Any, *args: Any, **keywords: Any) -> Any:
        return getattr(number, name)(*args, **keywords)

    return _methods_of_numbers.setdefault(name, method)


def _fill(a: Any, value: Any) -> None:
    a.write(..., value)


def _apply_at(ufunc: Any, a: Any, indices: Any, *operands: Any) -> None:
    """``ufunc.at``. What is applied to one element more than once is applied in rounds, in order."""
    numbers = _numbers(a)[plain_value(indices)]
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


# --- Functions whose results have as many elements as their arguments say --------------------------------------------------
# As calls whose results' lengths are known from the shapes of arguments.


def _array(value: Any) -> Any:
    return value if type(value) is Traced else np.asarray(value)


def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    a = _array(a)
    return np.ravel(a)[np.repeat(_numbers(a), repeats, axis)]


def _delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    arr = _array(arr)
    return np.ravel(arr)[np.delete(_numbers(arr), plain_value(obj), axis)]


def _insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    arr, values = _array(arr), _array(values)
    places = np.insert(_numbers(arr), plain_value(obj), _numbers(values) + arr.size, axis)
    return np.concatenate([np.ravel(arr), np.ravel(values).astype(arr.dtype)])[places]


def _bincount(x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    counts = np.bincount(plain_value(x), plain_value(weights), minlength)
    return apply(np.bincount, (x, weights, counts.size), {})


_OF_OTHER_LENGTHS: dict[Any, Callable[..., Any]] = {
    np.repeat: _repeat,
    np.delete: _delete,
    np.insert: _insert,
    np.bincount: _bincount,
}


# --- Operators ------------------------------------------------------------------------------------------------------------


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


# --- Calls ----------------------------------------------------------------------------------------------------------------


def apply(function: Any, args: Any, keywords: dict[str, Any]) -> Any:
    """The call on plain values; what comes out is followed where an argument is."""
    call = Call(function, args, keywords)
    nodes = [node_of(x) for x in call.arrays]
    plain = [plain_value(x) for x in call.arrays]
    hook = _core.set_tape_hook(None)
    try:
        result = call.run(plain)
        tapes = frozenset().union(*[node.tapes for node in nodes if node is not None]).intersection(thread.open)
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
        raise lost(f"{getattr(call.function, '__name__', call.function)}, which changes an array")
    if isinstance(result, np.ndarray):
        for at, x in enumerate(call.arrays):
            if type(x) is Traced and result.size and np.may_share_memory(result, x.value):
                function = function_of(call)
                others = [None if i == at else one for i, one in enumerate(plain)]
                step = function if len(plain) == 1 else _with_others(function, others, at)
                return Traced(result, None, x if x._root is None else x._root, (*x._steps, step))
    if isinstance(result, (np.ndarray, np.number, np.bool_)):
        if not _can_vary(result.dtype.kind, call, plain, nodes, tapes):
            return result
        if isinstance(result, (np.integer, np.bool_)):  # gradients are of arrays, and of floats
            result = np.asarray(result)
        return Traced(result, Node(tapes, call, [kept(x) for x in plain], nodes))
    if isinstance(result, Tensor) and _can_vary(_kind(result), call, plain, nodes, tapes):
        note(result, Node(tapes, call, [kept(x) for x in plain], nodes))
    return result


def _kind(x: Any) -> str:
    return str(np.dtype(_core._dtype(x.dtype) if isinstance(x, Tensor) else x.dtype).kind)


_CASTS = (np.ndarray.astype, _core._array, Tensor)


def _can_vary(kind: str, call: Call, plain: Any, nodes: Any, tapes: Any) -> bool:
    """Whether a gradient comes to a result: to whole numbers and truth values from others, and by casts (graph/passes/grad.cpp)."""
    if kind in "fc":
        return True
    if kind not in "biu" or not any(tape.integers for tape in tapes):
        return False
    if call.function in _CASTS:
        return True
    kinds = "b" if kind == "b" else "biu"
    return any(node is not None and _kind(x) in kinds for x, node in zip(plain, nodes, strict=True))


def _with_others(function: Any, others: list[Any], at: int) -> Callable[..., Any]:
    def step(part: Any) -> Any:
        return function(*[part if i == at else one for i, one in enumerate(others)])

    return step


def _item_call(call: Call, at: int) -> Call:
    function = function_of(call)
    out = Call(lambda *arrays: function(*arrays)[at], (), {})
    out.args, out.arrays = tuple(Slot(i) for i in range(len(call.arrays))), call.arrays
    return out
