"""The way back over a tape: the gradients of its steps, last step first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._api._errors import GraphBreakError
from framejit._autodiff._tape import Node, Tape, function_of, given_back, note, plain_value, thread, zeros_like
from framejit._autodiff._traced_array import Traced, apply

Tensor = _core.Tensor
_HALVES = (ALL["float16"], np.dtype(np.float16))


class Step:
    """What is on the tape instead of a call, and knows its gradients itself."""

    def __init__(self, back: Callable[[Any], list[Any]]) -> None:
        self.back = back


# Returns the compiled gradient of a function that makes one call, for the arguments at the given positions.
_gradient_of_call: Callable[[Callable[..., Any], tuple[int, ...]], Callable[..., Any]]


def set_gradient_of_call(gradient_of_call: Callable[[Callable[..., Any], tuple[int, ...]], Callable[..., Any]]) -> None:
    """Register the function that compiles the gradient of one call: the tape itself compiles nothing."""
    global _gradient_of_call
    _gradient_of_call = gradient_of_call


def propagate(tape: Tape, cotangents: dict[Node, Any], ends: set[Node]) -> dict[Node, Any]:
    """The gradients of the nodes `ends`, given those of the results; `cotangents` is used up."""
    last = min((node.number for node in ends), default=0)
    results: dict[Node, Any] = {}
    while cotangents:
        node = max(cotangents, key=lambda one: one.number)
        cotangent = cotangents.pop(node)
        if node.call is not None or node in ends:  # hooks of a Parameter see its gradient where it is asked for
            cotangent = through_hooks(node.hooks, cotangent)
        if node in ends:
            results[node] = cotangent
        if node.call is None or node.number <= last or node in ends:
            continue
        for parent, one in zip(node.parents, parent_gradients(node, cotangent), strict=True):
            if parent is not None and one is not None and tape in parent.tapes:
                add_cotangent(cotangents, parent, one)
    return results


def parent_gradients(node: Node, cotangent: Any) -> list[Any]:
    """Of the parents of a node, through the compiled gradient of its call."""
    if isinstance(node.call, Step):
        return node.call.back(cotangent)
    hook = _core.set_tape_hook(None)
    try:
        values = [given_back(value) for value in node.saved]
    finally:
        _core.set_tape_hook(hook)
    if not cotangent.size:  # a selection of nothing
        return [
            None if parent is None else zeros_like(value) for value, parent in zip(values, node.parents, strict=True)
        ]
    places = tuple(i for i, parent in enumerate(node.parents) if parent is not None)
    hook = _core.set_tape_hook(None)
    try:
        gradient = _gradient_of_call(function_of(node.call), places)
        saved = [
            _again(value, parent) if parent is not None else value
            for value, parent in zip(values, node.parents, strict=True)
        ]
    finally:
        _core.set_tape_hook(hook)
    forced = _core.force_compiled(True)  # also under a debugger: the tape is not kept on a tape
    try:
        found = _gradients(gradient, (*saved, cotangent), places)
    finally:
        _core.force_compiled(forced)
    out: list[Any] = [None] * len(node.parents)
    for at, one in zip(places, found if len(places) > 1 else (found,), strict=True):
        if not isinstance(one, tuple):
            out[at] = one
        elif node.parents[at].hooks or isinstance(node.parents[at].call, Step):
            out[at] = zeros_like(values[at])  # hooks are called with zeros, as in MindSpore
    return out


def _gradients(gradient: Callable[..., Any], values: tuple[Any, ...], places: tuple[int, ...]) -> Any:
    """The gradients of a call; () for an operand that nothing flows to.

    Functions and methods of numbers of NumPy that are not compiled have those of arrays of no axes. Operators on one
    number of float16 are NumPy's own: theirs is that of float32, rounded.
    """
    try:
        return apply(gradient, values, {})
    except GraphBreakError:
        if any(map(_is_number, values)):
            found = _gradients(
                gradient, tuple(apply(np.asarray, (x,), {}) if _is_number(x) else x for x in values), places
            )
            many = found if len(places) > 1 else (found,)
            back = [
                one[()] if _is_number(values[at]) and not isinstance(one, tuple) else one
                for at, one in zip(places, many, strict=True)
            ]
            return back if len(places) > 1 else back[0]
        if not any(map(_is_half, values)):
            raise
    found = apply(gradient, tuple([value.astype(np.float32) if _is_half(value) else value for value in values]), {})
    many = found if len(places) > 1 else (found,)
    narrow = [
        one.astype(values[at].dtype) if _is_half(values[at]) and not isinstance(one, tuple) else one
        for at, one in zip(places, many, strict=True)
    ]
    return narrow if len(places) > 1 else narrow[0]


def _is_number(value: Any) -> bool:
    return isinstance(plain_value(value), np.inexact)


def _is_half(value: Any) -> bool:
    return getattr(value, "dtype", None) in _HALVES and value.size == 1


def _again(value: Any, node: Node) -> Any:
    """A saved value under its node, where an outer tape is still open."""
    if not node.tapes.intersection(thread.open):
        return value
    if isinstance(value, Tensor):
        note(value, node)
        return value
    return Traced(value, node)


def through_hooks(hooks: dict[int, Any], gradient: Any) -> Any:
    """The gradient that the hooks of a Tensor return instead, one after the other."""
    for hook in list(hooks.values()):
        given = hook(gradient)
        gradient = gradient if given is None else given
    return gradient


def add_cotangent(cotangents: dict[Node, Any], node: Node, one: Any) -> None:
    """Add a gradient to what is known of a node's."""
    known = cotangents.get(node)
    cotangents[node] = one if known is None else known + one
