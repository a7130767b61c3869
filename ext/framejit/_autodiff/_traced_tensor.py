"""The hook that records on a tape what is done to Tensors."""

from __future__ import annotations

import numbers
import operator
from typing import Any

import numpy as np

from framejit import _core
from framejit._autodiff._tape import node_of, note
from framejit._autodiff._traced_array import apply

Tensor = _core.Tensor

_NAMED = {"getitem": operator.getitem, "positive": operator.pos}
_COMPARED = ("equal", "not_equal")


def _is_operand(x: Any) -> bool:
    """What a Tensor may be equal to, element by element; to anything else it is not."""
    return node_of(x) is not None or isinstance(x, (Tensor, np.ndarray, numbers.Number, np.bool_))


def tensor_hook(name: str, *args: Any) -> Any:
    """What is done to Tensors while a tape is kept."""
    if name == "setitem":
        return _set_item(*args)
    if name == "Tensor":
        given, keywords = args
        return apply(Tensor, given, keywords or {}) if any(node_of(x) for x in given) else NotImplemented
    if not any(node_of(x) is not None for x in args) or (name in _COMPARED and not all(map(_is_operand, args))):
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
    given = _core._array(value, tensor.dtype)
    out[tuple(keys) if type(key) is tuple else keys[0]] = given.reshape(()) if given.shape == (1,) else given
    return _core._tensor(out)


def _set_item(tensor: Any, key: Any, value: Any) -> Any:
    if node_of(tensor) is None and node_of(value) is None:
        return NotImplemented
    new = apply(_tensor_written, (tensor, key, value), {})
    node = node_of(new)
    hook = _core.set_tape_hook(None)
    try:
        tensor[key] = value
    finally:
        _core.set_tape_hook(hook)
    if node is not None:
        note(tensor, node)
    return None
