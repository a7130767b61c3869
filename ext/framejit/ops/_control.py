"""Loops, and functions over functions."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from framejit import _core
from framejit._autodiff._hooks import _by_bprop, with_gradients
from framejit._autodiff._primitives import is_kept
from framejit.ops._primitives import Primitive

__all__ = [
    "ForiLoop", "HookBackward", "HyperMap", "InsertGradientOf", "Map", "Morph", "MultitypeFuncGraph", "Partial", "Scan",
    "WhileLoop", "is_sequence_shape_unknown", "is_sequence_value_unknown", "make_tuple", "partial", "switch",
    "tuple_getitem",
]  # fmt: skip

partial = functools.partial


def make_tuple(*items: Any) -> Any:
    """The arguments as a tuple."""
    return items


def tuple_getitem(items: Any, index: int) -> Any:
    """One item of a tuple."""
    return items[index]


def switch(cond: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds, else `y`."""
    return x if cond else y


def is_sequence_shape_unknown(seq: Any) -> bool:
    """False: lengths are known."""
    return False


def is_sequence_value_unknown(seq: Any) -> bool:
    """False: items are known."""
    return False


class Partial(Primitive):
    """`functools.partial`."""

    def __call__(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        return functools.partial(func, *args, **kwargs)


class WhileLoop(Primitive):
    """``while cond_func(value): value = loop_func(value)``."""

    def __call__(self, cond_func: Any, loop_func: Any, init_val: Any) -> Any:
        value = init_val
        while cond_func(value):
            value = loop_func(value)
        return value


class ForiLoop(Primitive):
    """``for i in range(lower, upper): value = loop_func(i, value)``."""

    def __call__(self, lower: int, upper: int, loop_func: Any, init_val: Any, unroll: bool = True) -> Any:
        value = init_val
        for i in range(lower, upper):
            value = loop_func(i, value)
        return value


class Scan(Primitive):
    """``carry, y = loop_func(carry, x)`` for each x: the last carry and the list of all y."""

    def __call__(self, loop_func: Any, init: Any, xs: Any, length: int | None = None, unroll: bool = True) -> Any:
        carry, ys = init, []
        for i in range(len(xs) if length is None else length):
            carry, y = loop_func(carry, None if xs is None else xs[i])
            ys.append(y)
        return carry, ys


class HookBackward(Primitive):
    """The inputs; ``hook_fn(gradients)`` is called with the tuple of their gradients, and what it returns, if anything, takes their place.

    Examples
    --------
    >>> import framejit as fj
    >>> halve = fj.ops.HookBackward(lambda gradients: gradients[0] / 2)
    >>> fj.grad(lambda x: halve(x) * 6)(fj.Tensor([1.0])).tolist()
    [3.0]
    """

    def __init__(self, hook_fn: Any, cell_id: str = "") -> None:
        super().__init__()
        self.hook_fn: Any = _function("HookBackward", "hook_fn", hook_fn)

    def __call__(self, *args: Any) -> Any:
        if is_kept():
            args = with_gradients(args, self.hook_fn, "hook of HookBackward")
        return args[0] if len(args) == 1 else args


class InsertGradientOf(Primitive):
    """The input; its gradient becomes what `f` makes of it.

    Examples
    --------
    >>> import framejit as fj
    >>> clip = fj.ops.InsertGradientOf(lambda dx: dx.clamp(-1.0, 1.0))
    >>> fj.grad(lambda x: (clip(x) * fj.Tensor([0.5, 5.0])).sum())(fj.Tensor([1.0, 2.0])).tolist()
    [0.5, 1.0]
    """

    def __init__(self, f: Any) -> None:
        super().__init__()
        self.f: Any = _function("InsertGradientOf", "f", f)

    def __call__(self, x: Any) -> Any:
        if is_kept():
            (x,) = with_gradients((x,), lambda found: (self.f(found[0]),), "function of InsertGradientOf")
        return x


class Morph(Primitive):
    """A function as a primitive; `bprop_fn` gives its gradients: of the inputs, the result and its gradient.

    Examples
    --------
    >>> import framejit as fj
    >>> double = fj.ops.Morph(lambda x: x * 2, lambda x: x, lambda x: x, lambda x, out, dout: (dout * 5,))
    >>> double(fj.Tensor([1.0])).tolist(), fj.grad(double)(fj.Tensor([1.0])).tolist()
    ([2.0], [5.0])
    """

    infer_shape: Any
    infer_dtype: Any

    def __init__(self, fn: Any, infer_shape: Any, infer_dtype: Any, bprop_fn: Any = None) -> None:
        super().__init__()
        self.fn: Any = _function("Morph", "fn", fn)
        self.infer_shape, self.infer_dtype = infer_shape, infer_dtype
        self.bprop: Any = bprop_fn
        if bprop_fn is not None:
            for one in inspect.signature(fn).parameters.values():
                if one.kind is not one.POSITIONAL_OR_KEYWORD or one.default is not one.empty:
                    raise ValueError(
                        "When use `bprop` in Morph, Morph `fn` only support positional or keyword parameters with default value is empty, "
                        f"but got param '{one.name}' of kind '{one.kind.name}' with default value '{one.default}'."
                    )

    def _compute(self, args: Any, kwargs: dict[str, Any]) -> Any:
        return self.fn(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.bprop is not None and is_kept():
            return _by_bprop(self, args, kwargs)
        return self.fn(*args, **kwargs)


def _function(of: str, name: str, value: Any) -> Any:
    if not callable(value):
        raise TypeError(f"For '{of}', the '{name}' must be a function, but got {type(value).__name__}.")
    return value


def _check_lengths(of: str, args: tuple[Any, ...]) -> None:
    """All sequences are as long as the first one."""
    kind = type(args[0])
    for one in args:
        if not isinstance(one, type(args[0])) and (not isinstance(one, (list, tuple)) or len(one) != len(args[0])):
            begin = "In a nonleaf situation, the" if of == "HyperMap" else "The"
            raise RuntimeError(
                f"{begin} types of arguments in {of} must be consistent, but the types of arguments are inconsistent: "
                f"{kind.__name__} and {type(one).__name__}."
            )
        if len(one) != len(args[0]):
            sequences = "lists" if kind is list else "tuples"
            if of == "Map":
                raise RuntimeError(
                    f"For 'Map', the length of {sequences} must be the same, but got {len(args[0])} and {len(one)}."
                )
            raise RuntimeError(
                f"The {sequences} in HyperMap should have the same length. The length of the first element in HyperMap is "
                f"{len(args[0])}, but the length of another element in HyperMap is {len(one)}."
            )


class HyperMap:
    """Calls a function with the items of lists, tuples or dicts at the same places, also of those within them.

    Parameters
    ----------
    ops : callable, optional
        The function; without it the first argument of a call.
    reverse : bool
        From the last item to the first.
    """

    ops: Any
    reverse: bool

    def __init__(self, ops: Any = None, reverse: bool = False) -> None:
        self.ops, self.reverse = ops, reverse

    def __call__(self, *args: Any) -> Any:
        if self.ops is None:
            return HyperMap(args[0], self.reverse)(*args[1:])
        first = args[0]
        if isinstance(first, dict):
            return {key: self(*[one[key] for one in args]) for key in first}
        if not isinstance(first, (list, tuple)):
            return self.ops(*args)
        _check_lengths("HyperMap", args)
        rows = list(zip(*args))
        if not self.reverse:
            return type(first)([self(*row) for row in rows])
        return type(first)([self(*row) for row in rows[::-1]][::-1])


class Map(HyperMap):
    """As `HyperMap`, but only with the items themselves, whatever is in them."""

    def __call__(self, *args: Any) -> Any:
        if self.ops is None:
            return Map(args[0], self.reverse)(*args[1:])
        if not isinstance(args[0], (list, tuple)):
            raise RuntimeError(f"Map can only be applied to list, tuple, but got {type(args[0]).__name__}.")
        _check_lengths("Map", args)
        rows = list(zip(*args))
        if not self.reverse:
            return type(args[0])([self.ops(*row) for row in rows])
        return type(args[0])([self.ops(*row) for row in rows[::-1]][::-1])


class _NoFunctionError(ValueError, TypeError):
    """What MindSpore raises eagerly, and in graph mode."""


class MultitypeFuncGraph:
    """A function chosen by the types of its arguments: ``@f.register("Tensor", "Number")``."""

    def __init__(self, name: str, read_value: bool = False, doc_url: str = "") -> None:
        self.name = name
        self.entries: list[Any] = []

    def register(self, *type_names: Any) -> Any:
        """A decorator for the function that takes these types: names or classes."""

        def add(function: Any) -> Any:
            self.entries.append((type_names, function))
            return function

        return add

    def __call__(self, *args: Any) -> Any:
        for names, function in self.entries:
            if len(names) == len(args) and all(_is_type(arg, name) for arg, name in zip(args, names)):
                return function(*args)
        kinds = ", ".join([type(arg).__name__ for arg in args])
        known = "; ".join([", ".join([str(name) for name in names]) for names, _ in self.entries])
        raise _NoFunctionError(
            f"For 'MultitypeFuncGraph', cannot find fn match given args. {self.name!r} has functions for ({known}), and got ({kinds})."
        )


_TYPES = {
    "Tensor": _core.Tensor,
    "Number": (int, float),
    "Bool": bool,
    "String": str,
    "Tuple": tuple,
    "List": list,
    "Dictionary": dict,
    "Int": int,
    "Float": float,
    "None": type(None),
    "Function": (type(lambda: 0), type(len)),
}


def _is_type(arg: Any, name: Any) -> bool:
    if inspect.isclass(name):
        return isinstance(arg, name)
    return isinstance(arg, _TYPES.get(name, ())) and not (isinstance(arg, bool) and name in ("Number", "Int"))
