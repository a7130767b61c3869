"""Gradients that the user's functions see, replace or compute: hooks of Tensors and cells, and `bprop`."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any

from framejit import _core
from framejit._api._control import disable
from framejit._autodiff._backward import Step
from framejit._autodiff._tape import HOOKS, Node, hooked, hooks_of, node_of, note, shared, thread, zeros_like

Tensor = _core.Tensor


# --- Hooks of Tensors -----------------------------------------------------------------------------------------------------

_hook_numbers = itertools.count()


class HookHandle:
    """Takes a hook out again: ``remove()``."""

    number: int

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


@disable
def register_hook(tensor: Any, hook: Any) -> HookHandle:
    """Call ``hook(gradient)`` when the gradient of the Tensor is known; what it returns, if anything, takes its place.

    Within a function that is differentiated, for that call, and elsewhere, or for a Parameter, until it is taken out.

    Returns
    -------
    HookHandle
        Its ``remove()`` takes the hook out.
    """
    node = node_of(tensor)
    if node is not None and not getattr(tensor, "requires_grad", False):  # as Parameters do
        return HookHandle(node.hooks, hook)
    key, hooks = id(tensor), hooks_of(tensor)
    tensor_of = weakref.ref(tensor, lambda _: hooked.pop(key, None))

    def forget() -> None:
        held = tensor_of()
        if not hooks and held is not None and hooks_of(held) is hooks:
            del hooked[key], held.__dict__[HOOKS]

    handle = HookHandle(hooks, hook, forget)
    hooked.setdefault(key, tensor_of)
    tensor.__dict__[HOOKS] = hooks
    if node is not None:
        node.hooks = hooks
    return handle


class saved_tensors_hooks:  # noqa: N801  MindSpore's name
    """A context in which Tensors that a gradient needs are kept as `pack_hook` makes them, and taken by `unpack_hook` when it is computed.

    Within a function that is differentiated. Each call of an operator keeps its operands, also those that its gradient does not read.

    Parameters
    ----------
    pack_hook : callable
        Is given a Tensor, and returns an object that is kept.
    unpack_hook : callable
        Is given that object, and returns the Tensor.

    Examples
    --------
    >>> import framejit as fj
    >>> def function(x, y):
    ...     with fj.saved_tensors_hooks(lambda x: x.asnumpy() + 1, fj.Tensor):
    ...         return x * y
    >>> [one.tolist() for one in fj.grad(function, (0, 1))(fj.Tensor([2.0]), fj.Tensor([5.0]))]
    [[6.0], [3.0]]
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    @disable
    def __enter__(self) -> None:
        thread.packing.append((self.pack_hook, self.unpack_hook))

    @disable
    def __exit__(self, *args: object) -> None:
        thread.packing.pop()


def register_saved_tensors_hooks(pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> Any:
    """Decorate a function that runs within `saved_tensors_hooks`.

    Parameters
    ----------
    pack_hook, unpack_hook : callable
        As of `saved_tensors_hooks`.
    """

    def decorator(function: Any) -> Any:
        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with saved_tensors_hooks(pack_hook, unpack_hook):
                return function(*args, **kwargs)

        return within

    return decorator


# --- Gradients of several values at once ----------------------------------------------------------------------------------


class Parts:
    """Gradients of some of several values, by place."""

    def __init__(self, given: dict[int, Any]) -> None:
        self.given = given

    def __add__(self, other: Parts) -> Parts:
        return Parts({**self.given, **other.given})


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
    values, nodes = _values(given), [node_of(x) for x in sources]
    tapes = frozenset().union(*[node.tapes for node in nodes if node is not None]).intersection(thread.open)
    if not tapes:
        return given

    def all_back(parts: Parts) -> list[Any]:
        return list(back([parts.given.get(i) for i in range(len(values))]))

    joint, new = Node(tapes, Step(all_back), (), tuple(nodes)), []
    for i, value in enumerate(values):
        new.append(shared(value))
        note(new[-1], Node(tapes, Step(lambda cotangent, i=i: [Parts({i: cotangent})]), (), (joint,)))
    return _with_values(given, new)


def _complete(gradients: list[Any], values: list[Any]) -> tuple[Any, ...]:
    return tuple(zeros_like(x) if one is None else one for one, x in zip(gradients, values, strict=True))


def _as_gradients(given: Any, before: tuple[Any, ...], who: str) -> tuple[Any, ...]:
    """What a hook gave instead of gradients, if anything."""
    if given is None:
        return before
    new = given if isinstance(given, tuple) else (given,)
    if len(new) != len(before):
        raise TypeError(f"The {who} must return {len(before)} gradients or None, but gave {len(new)}.")
    return new


@disable
def call_with_backward(cell: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A call of a cell with backward hooks or a `bprop` of its own."""
    if not thread.open:
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

    followed = any(node_of(x) is not None for x in inputs)
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


def _fitted(gradient: Any, x: Any, who: str) -> Any:
    """A gradient in the shape and dtype of x: summed over the dimensions along which x is broadcast."""
    if isinstance(gradient, (bool, int, float)):
        gradient = Tensor(gradient)
    if not isinstance(gradient, Tensor):
        return None
    if gradient.shape != x.shape:
        new = gradient.ndim - x.ndim
        if new < 0 or any(size not in (1, of) for size, of in zip(x.shape, gradient.shape[new:], strict=True)):
            raise RuntimeError(
                f"The {who} must have a shape to which {x.shape} can be broadcast, but has {gradient.shape}."
            )
        axes = [i for i in range(gradient.ndim) if i < new or x.shape[i - new] != gradient.shape[i]]
        gradient = gradient.sum(tuple(axes)).reshape(x.shape)
    return gradient if gradient.dtype == x.dtype else gradient.astype(x.dtype)


def _by_bprop(cell: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What `construct` gives, with the gradients that `bprop` gives."""
    hook, tapes = _core.set_tape_hook(None), thread.open
    thread.open = []
    try:
        output = cell._compute(args, kwargs)
    finally:
        thread.open = tapes
        _core.set_tape_hook(hook)

    def back(gradients: list[Any]) -> list[Any]:
        found = list(_complete(gradients, _values(output)))
        given = cell.bprop(*args, output, _with_values(output, found))
        given = given if isinstance(given, tuple) else (given,)
        if len(given) < len(args):
            raise TypeError(
                f"The bprop of {type(cell).__name__} must return {len(args)} gradients, but gave {len(given)}."
            )
        found = []
        for at, (arg, one) in enumerate(zip(args, given, strict=False)):
            who = f"gradient {at} that the bprop of {type(cell).__name__} returns"
            inputs, ones = _values(arg), [one] if isinstance(arg, Tensor) else _values(one)
            if len(ones) != len(inputs):
                ones = [None] * len(inputs)
            found += [_fitted(gradient, x, who) for gradient, x in zip(ones, inputs, strict=True)]
        return found

    output = _joined(output, _values(args), back)
    return output
