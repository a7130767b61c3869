"""The functions that gradients consist of, which capture knows.

Captured, they are graph transformations (ext/frontends/gradient_frontend.cpp). Run in the interpreter, they keep a tape.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from framejit import _core
from framejit._api._control import disable, is_compiling
from framejit._api._errors import GraphBreakError
from framejit._autodiff._backward import add_cotangent, propagate, through_hooks
from framejit._autodiff._tape import (
    Call,
    Node,
    Tape,
    copied,
    hooks_of,
    node_of,
    plain_value,
    shared,
    thread,
    zeros_like,
)
from framejit._autodiff._traced_array import Traced
from framejit._autodiff._traced_tensor import tensor_hook

Tensor = _core.Tensor


def begin(integers: bool = False) -> Any:
    """A tape: the function that is differentiated begins. Whole numbers vary in Tensors, and with `integers` in arrays too."""
    forced = _core.force_compiled(True)
    _core.force_compiled(forced)
    if forced:  # the gradient of one call, which the tape asked for
        raise GraphBreakError("a gradient of a call that is not compiled")
    tape = Tape()
    thread.open.append(tape)
    _core.set_tape_hook(tensor_hook)
    return tape


@disable
def begin_here() -> Any:
    """`begin`, in the interpreter: Tensors have hooks."""
    return begin()


def is_kept() -> bool:
    """Whether gradients are asked for of what is done now."""
    return bool(thread.open)


@disable
def pause() -> list[Tape]:
    """No gradient goes through what comes now. Gives what `go_on` takes."""
    tapes, thread.open = thread.open, []
    _core.set_tape_hook(None)
    return tapes


@disable
def go_on(tapes: list[Tape]) -> None:
    """After `pause`."""
    thread.open = tapes
    _core.set_tape_hook(tensor_hook)


def assign(parameter: Any, value: Any) -> None:
    """Write into a Parameter what no gradient follows, as MindSpore does: gradients are with respect to what is there when it is used."""
    if not is_kept():
        parameter[...] = value
    elif is_compiling():
        parameter[...] = stop(value)
    else:
        _write(parameter, value)


@disable
def _write(tensor: Any, value: Any) -> None:
    """An assignment that is on no tape."""
    hook = _core.set_tape_hook(None)
    try:
        tensor[...] = value
    finally:
        _core.set_tape_hook(hook)


def close(tape: Any) -> None:
    """The end of a tape, also where the function raised."""
    if tape not in thread.open:  # `pull` has closed it
        return
    _close(tape)
    error = sys.exc_info()[1]
    if isinstance(error, ValueError) and isinstance(error.__cause__, GraphBreakError):
        raise error.__cause__ from None  # the error is NumPy's, for what the tape would not give it


def _close(tape: Any) -> None:
    if tape not in thread.open:
        return
    thread.open.remove(tape)
    if thread.open:  # what an outer tape follows too
        thread.open[-1].tensors.update(
            {key: entry for key, entry in tape.tensors.items() if entry[1].tapes.intersection(thread.open)}
        )
    _core.set_tape_hook(tensor_hook if thread.open else None)


def watch(tape: Any, x: Any) -> Any:
    """`x`, so that gradients with respect to it are known."""
    inner = node_of(x)
    value = plain_value(x)
    kind = np.dtype(_core._dtype(value.dtype) if isinstance(value, Tensor) else value.dtype).kind
    if kind in "biu" and not isinstance(value, Tensor):
        raise GraphBreakError(f"a gradient with respect to integers ({value.dtype}), which do not vary: convert them")
    if kind not in "fcbiu":
        raise GraphBreakError(f"a gradient with respect to {value.dtype}, which has none: convert it to float32")
    tapes = frozenset([tape]) if inner is None else inner.tapes | {tape}
    node = Node(tapes) if inner is None else Node(tapes, Call(_same, (x,), {}), (copied(value),), (inner,))
    node.hooks = hooks_of(x)
    if not isinstance(value, Tensor):
        traced = Traced(value, node)
        tape.first[id(traced)] = node
        return traced
    tape.integers = True
    new = shared(value)
    tape.tensors[id(new)], tape.first[id(new)] = (new, node), node
    return new


def _same(x: Any) -> Any:
    return x * 1


def _node_on(tape: Tape, x: Any) -> Node | None:
    """The node of a value on a tape, which may be closed."""
    known = tape.tensors.get(id(x))
    return node_of(x) if known is None else known[1]


def pull(tape: Any, outputs: Any, seeds: Any, inputs: Any) -> Any:
    """The gradients of the inputs, given those of the outputs; None: ones. It may come several times, and after `close`."""
    wanted = [tape.first[id(x)] if id(x) in tape.first else _node_on(tape, x) for x in inputs]
    cotangents: dict[Node, Any] = {}
    for output, seed in zip(outputs, seeds, strict=True):
        node = _node_on(tape, output)
        if node is not None and tape in node.tapes:
            add_cotangent(cotangents, node, _seed(output, seed))
    _close(tape)  # what follows is not on it
    results = propagate(tape, cotangents, {node for node in wanted if node is not None})
    return tuple(
        results[node] if node in results else _unreached(x, node) for x, node in zip(inputs, wanted, strict=True)
    )


def _unreached(x: Any, node: Node | None) -> Any:
    """The gradient of an input that nothing flows to: zeros, as its hooks change them."""
    return through_hooks(hooks_of(x) if node is None else node.hooks, zeros_like(x))


def _seed(output: Any, seed: Any) -> Any:
    if seed is None:
        return ones(output)
    given, shape = plain_value(seed), np.shape(plain_value(output)) if not isinstance(output, Tensor) else output.shape
    own = given.shape if isinstance(given, Tensor) else np.shape(given)
    if own not in ((), shape):
        raise ValueError(f"The shape should be {shape}, but got {own}, sens gradient.")
    return seed


def restore(x: Any, watched: Any, given: Any) -> Any:
    """A result of the function as its caller gets it."""
    if isinstance(x, dict) and type(x) is dict:
        return {key: restore(value, watched, given) for key, value in x.items()}
    for new, old in zip(watched, given, strict=False):
        if x is new:
            return old
    if type(x) is Traced and not x.node.tapes.intersection(thread.open):
        return x.value
    return x


def stop(x: Any) -> Any:
    """A copy of an array; no gradient goes through it."""
    value = plain_value(x)
    if isinstance(value, Tensor):
        hook = _core.set_tape_hook(None)
        try:
            return Tensor(value.asnumpy())
        finally:
            _core.set_tape_hook(hook)
    return value.copy() if isinstance(value, (np.ndarray, np.generic)) else value


def writable(array: Any, *values: Any) -> Any:
    """A copy of an array, into which the values are written then. Gradients follow it if they follow one of the values."""
    if is_compiling() or not is_kept():
        return array.copy()
    return _followed_copy(array, values)


@disable
def _followed_copy(array: Any, values: tuple[Any, ...]) -> Any:
    tapes = [node.tapes for node in map(node_of, values) if node is not None]
    copy = array.copy()
    return copy if type(copy) is Traced or not tapes else Traced(copy, Node(frozenset().union(*tapes)))


def ones(x: Any) -> Any:
    """Ones like an array or number."""
    value = plain_value(x)
    if isinstance(value, Tensor):
        return Tensor(np.ones(value.shape, _core._dtype(value.dtype)))
    return np.ones_like(value) if isinstance(value, np.ndarray) else type(value)(1)


def quiet() -> Any:
    """What `check_quiet` takes: only capture has a use for it."""
    return None


def check_quiet(mark: Any) -> None:
    """Captured: ends the capture if anything that was there before `mark` has changed since, and the interpreter decides on the order."""


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
        "quiet": quiet,
        "check_quiet": check_quiet,
    }
)
