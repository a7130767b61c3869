"""Gradients of functions of Tensors and of NumPy arrays.

`grad` and its kin give functions that are compiled like marked ones: capture follows them into the function that is differentiated and
appends the gradient to the graph (`framejit._autodiff._primitives.pull`). Where that function has graph breaks, the interpreter runs it and the same
functions keep a tape.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from framejit import _core  # no module that imports framejit.ops, which imports this one
from framejit._api import _platform
from framejit._api._control import is_compiling
from framejit._api._errors import GraphBreakError, PerformanceWarning, RecompileLimitWarning
from framejit._api._jit import is_compiled, make_function, settings_of
from framejit._autodiff._backward import set_gradient_of_call
from framejit._autodiff._primitives import (
    begin,
    begin_here,
    check_quiet,
    close,
    ones,
    pull,
    quiet,
    restore,
    stop,
    watch,
)
from framejit._autodiff._tape import HOOKS, Tape, hooked

__all__ = ["GradOperation", "get_grad", "grad", "jvp", "stop_gradient", "value_and_grad", "vjp"]

Tensor = _core.Tensor
_ARRAYS = (Tensor, np.ndarray, np.inexact)


# --- What the functions below share, followed by capture -----------------------------------------------------------------


def _watched(tape: Any, x: Any, found: list[Any]) -> Any:
    """`x`, an argument, with its arrays watched; these are appended to `found`."""
    if isinstance(x, (tuple, list)):
        return type(x)([_watched(tape, item, found) for item in x])
    if type(x) is dict:
        return {key: _watched(tape, value, found) for key, value in x.items()}
    if isinstance(x, _ARRAYS):
        new = watch(tape, x)
        found.append(new)
        return new
    return x


def _numbers(x: Any, count: bool) -> Any:
    """An argument with its floats and complex numbers as NumPy's, where these count: where no argument is a Tensor."""
    if not count:
        return x
    if isinstance(x, (tuple, list)):
        return type(x)([_numbers(item, True) for item in x])
    return np.float64(x) if type(x) is float else np.complex128(x) if type(x) is complex else x


def _leaves(out: Any) -> list[Any]:
    if isinstance(out, (tuple, list)):
        return [leaf for item in out for leaf in _leaves(item)]
    if isinstance(out, dict):
        return [leaf for item in out.values() for leaf in _leaves(item)]
    return [out]


def _varies(x: Any) -> bool:
    """Whether an argument has a gradient: an array, or a tuple, list or dict with one in it."""
    if isinstance(x, (tuple, list)):
        return any([_varies(item) for item in x])
    if type(x) is dict:
        return any([_varies(value) for value in x.values()])
    return isinstance(x, _ARRAYS)


def _like(x: Any, gradients: list[Any]) -> Any:
    """Gradients in the structure of an argument; () for what has none. They are taken from the front of the list."""
    if type(x) is dict:
        return {key: _like(value, gradients) for key, value in x.items()}
    if isinstance(x, (tuple, list)):
        found = [_like(item, gradients) for item in x]
        return found if type(x) is list else tuple(found)
    return gradients.pop(0) if isinstance(x, _ARRAYS) else ()


def _original(x: Any, watched: tuple[Any, ...], given: tuple[Any, ...]) -> Any:
    """A result of the function: an argument that it gives back is the caller's own."""
    if type(x) in (tuple, list):
        return type(x)([_original(item, watched, given) for item in x])
    if type(x) is dict:
        return {key: _original(value, watched, given) for key, value in x.items()}
    if type(x) is slice:
        return slice(*[_original(part, watched, given) for part in (x.start, x.stop, x.step)])
    return restore(x, watched, given)


def _seeds(leaves: list[Any], sens: Any) -> list[Any]:
    given = _leaves(sens)
    if len(given) != len(leaves):
        raise SensError(f"sens has {len(given)} parts, but the function gives {len(leaves)}.")
    for seed, leaf in zip(given, leaves):
        if isinstance(seed, Tensor) and isinstance(leaf, Tensor) and seed.dtype != leaf.dtype:
            raise TypeError(f"The dtype should be {leaf.dtype}, but got {seed.dtype}, sens gradient.")
    return given


class SensError(ValueError, RuntimeError):
    """Gradients of results that do not fit these. MindSpore raises one or the other, by its mode."""


class PositionError(RuntimeError, IndexError):
    """A position without an argument. MindSpore raises one or the other, by its mode."""


def _make(
    fn: Any,
    wanted: tuple[int, ...] | None,
    weights: tuple[Any, ...],
    has_aux: bool,
    sens_param: bool,
    finish: Callable[..., Any],
    one_call: bool = False,
) -> Any:
    """The function that runs `fn`, and calls `finish(out, gradients of inputs, gradients of weights)`. `wanted`: None: all arguments.

    Of the inputs each comes as (position, gradient), without those that have none. Arguments by name follow those by position.
    """

    def gradient(*args: Any, **kwargs: Any) -> Any:
        sens = None
        if sens_param:
            if not args:
                raise ValueError("Grad with sens, but the sens is not provided.")
            sens = args[-1]
            args = args[:-1]
        count = len(args)
        inputs = list(args)
        names = list(kwargs)
        for name in names:
            inputs.append(kwargs[name])
        positions = tuple(range(len(inputs))) if wanted is None or not inputs else wanted
        for at in positions:
            if at >= len(inputs):
                raise PositionError(f"Position index {at} is exceed input size.")
        numbers = not any([isinstance(leaf, Tensor) for leaf in _leaves(inputs)])
        for at in positions:
            inputs[at] = _numbers(inputs[at], numbers)
        given = [inputs[at] for at in positions]
        tape = begin(True) if one_call else begin()
        try:
            watched: list[Any] = []
            for at in positions:
                inputs[at] = _watched(tape, inputs[at], watched)
            if names:
                for at, name in enumerate(names):
                    kwargs[name] = inputs[count + at]
                out = fn(*inputs[:count], **kwargs)
            else:
                out = fn(*inputs)
            main = out[0] if has_aux else out
            leaves = _leaves(main)
            seeds = _seeds(leaves, sens) if sens_param else [None] * len(leaves)
            gradients = list(pull(tape, tuple(leaves), tuple(seeds), (*watched, *weights)))
            if not one_call and hooked and type(tape) is not Tape:  # captured: a Tape calls them itself
                gradients = _through_hooks(gradients, (*watched, *weights))
        finally:  # an `except` would hide from capture that exceptions leave the function
            close(tape)
        del tape
        out = _original(out, tuple(watched), tuple([x for x in _leaves(given) if isinstance(x, _ARRAYS)]))
        of_inputs = tuple([(at, _like(x, gradients)) for at, x in zip(positions, given) if _varies(x)])
        return finish(out, of_inputs, tuple(gradients))

    return gradient if one_call or is_compiling() else compiled(gradient, fn)


def _through_hooks(gradients: list[Any], leaves: tuple[Any, ...]) -> list[Any]:
    """The gradients as the hooks of the Tensors that they are of give them. The order of several Tensors' hooks, which a tape knows, must not matter."""
    hooks = [getattr(leaf, HOOKS, None) for leaf in leaves]
    several = sum([one is not None for one in hooks]) > 1
    mark = quiet() if several else None
    out = []
    for gradient, own in zip(gradients, hooks):
        if own is not None:
            for hook in list(own.values()):
                given = hook(gradient)
                if given is not None:
                    gradient = given
        out.append(gradient)
    if several:
        check_quiet(mark)
    return out


def compiled(function: Callable[..., Any], of: Any) -> Any:
    """A function of ours around the user's `of`, compiled as that one is."""
    given = getattr(of, "__func__", of)
    settings = settings_of(given) if is_compiled(given) else {"jit_level": "O0", "dynamic": False, "stress": ""}
    name = getattr(of, "__name__", type(of).__name__)
    function.__name__ = function.__qualname__ = f"gradient of {name}"
    return make_function(function, {**settings, "ignore_fp_flags": True})


def make_ignoring_fp_flags(function: Callable[..., Any], level: str) -> Any:
    """A function of Tensors, compiled: floating-point flags are ignored, because Tensors do not warn."""
    return make_function(function, {"jit_level": level, "dynamic": False, "stress": "", "ignore_fp_flags": True})


def one_call_gradient(function: Callable[..., Any], positions: tuple[int, ...]) -> Any:
    """For tapes: of a function that makes one call, which has to be a graph; the last argument is the gradient of the result."""
    known = function.__dict__.setdefault("__framejit_gradients__", {})
    if positions not in known:
        settings = {"jit_level": "O0", "dynamic": False, "stress": "", "ignore_fp_flags": True, "fullgraph": True}
        gradient = _make(function, positions, (), False, True, _of_one_call, one_call=True)
        known[positions] = _core.Function(gradient, settings)  # also where nothing else is compiled
    return known[positions]


def _of_one_call(out: Any, of_inputs: tuple[Any, ...], of_weights: tuple[Any, ...]) -> Any:
    return tuple([gradient for _, gradient in of_inputs]) if len(of_inputs) > 1 else of_inputs[0][1]


set_gradient_of_call(one_call_gradient)
if _platform.core is None:  # FRAMEJIT_DISABLE: the gradients of single calls are compiled all the same
    for _connect in _platform.connections:
        _connect(_core)
    _core.set_exceptions(GraphBreakError, PerformanceWarning, RecompileLimitWarning)


# --- grad and value_and_grad -----------------------------------------------------------------------------------------------


def _positions(name: str, grad_position: Any, weights: Any) -> tuple[int, ...]:
    if grad_position is None and weights is None:
        raise ValueError("`grad_position` and `weight` can not be None at the same time.")
    if grad_position is None:
        return ()
    if isinstance(grad_position, tuple) and not grad_position:
        raise RuntimeError("grad_position should not be empty when grad by position!")
    given = grad_position if isinstance(grad_position, tuple) else (grad_position,)
    for at in given:
        if not isinstance(at, int) or isinstance(at, bool):
            raise TypeError(f"For 'F.{name}', the 'grad_position' must be int or tuple.")
        if at < 0:
            raise ValueError("grad_position must be >= 0.")
    if len(set(given)) != len(given):
        raise ValueError("There are duplicate positions in `grad_position`, please check it.")
    return given


def _weights(name: str, weights: Any) -> tuple[Any, ...]:
    given = () if weights is None else (weights,) if isinstance(weights, Tensor) else tuple(weights)
    for weight in given:
        if not isinstance(weight, Tensor) or not hasattr(weight, "requires_grad"):
            raise TypeError(f"For 'F.{name}', the 'weights' must be Parameters, but got {type(weight).__name__}.")
    return given


def _remembered(fn: Any, options: tuple[Any, ...]) -> Any:
    """`_gradient`; for a function what was made for the same arguments before: compiling it again would be a waste."""
    name, position, weights, *flags = options
    if is_compiling() or weights is not None or not isinstance(fn, (FunctionType, _core.Function)):
        return _gradient(fn, *options)
    known = fn.__dict__.setdefault("__framejit_gradients__", {})
    key = (name, position if isinstance(position, (int, tuple)) else None, *flags)
    if key not in known:
        known[key] = _gradient(fn, *options)
    return known[key]


def _gradient(
    fn: Any,
    name: str,
    grad_position: Any,
    weights: Any,
    has_aux: bool,
    return_ids: bool,
    value_too: bool,
    sens_param: bool,
) -> Any:
    positions, parameters = _positions(name, grad_position, weights), _weights(name, weights)
    if not callable(fn):
        raise TypeError(f"For 'F.{name}', the 'fn' must be a function or a Cell, but got {type(fn).__name__}.")
    one_weight = isinstance(weights, Tensor)
    with_inputs, with_weights = grad_position is not None, weights is not None
    names = tuple([parameter.name for parameter in parameters])

    def finish(out: Any, of_inputs: tuple[Any, ...], of_weights: tuple[Any, ...]) -> Any:
        if return_ids:
            of_weights = tuple([(each, gradient) for each, gradient in zip(names, of_weights)])
        else:
            of_inputs = tuple([gradient for _, gradient in of_inputs])
        inputs = of_inputs[0] if len(of_inputs) == 1 else of_inputs
        weights = of_weights[0] if one_weight else of_weights
        gradients = (inputs, weights) if with_inputs and with_weights else inputs if with_inputs else weights
        if value_too:
            return out, gradients
        return (gradients, tuple(out[1:])) if has_aux else gradients

    return _make(fn, positions, parameters, has_aux, sens_param, finish)


def grad(
    fn: Any,
    grad_position: Any = 0,
    weights: Any = None,
    has_aux: bool = False,
    return_ids: bool = False,
    sens_param: bool = False,
) -> Any:
    """Return a function that computes the gradient of `fn`.

    Parameters
    ----------
    fn : callable or Cell
        A function of Tensors or of NumPy arrays. If it returns an array or several, their sum is differentiated.
    grad_position : int, tuple of int or None
        The positions of the arguments to differentiate by; arguments by name follow those by position. For an int, or a tuple of one int, the
        result is the gradient itself; for a longer tuple it is a tuple. Arguments without arrays have no place in it. None: no argument.
    weights : Parameter, list of Parameter, ParameterTuple or None
        The Parameters to differentiate by. Together with `grad_position` the result is (gradients of arguments, gradients of weights).
    has_aux : bool
        `fn` returns a tuple. Its first item is differentiated, and the result is (gradients, the other items).
    return_ids : bool
        Each gradient is returned as (position or name, gradient), for `get_grad`.
    sens_param : bool
        The last argument of a call is the gradient of the result of `fn`, instead of ones.

    Returns
    -------
    callable
        It takes the arguments of `fn`.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> fj.grad(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    array([2., 4.])
    >>> float(fj.grad(fj.grad(lambda x: x**3))(2.0))
    12.0
    """
    options = ("grad", grad_position, weights, has_aux, return_ids, False, sens_param)
    return _remembered(fn, options)


def value_and_grad(
    fn: Any,
    grad_position: Any = 0,
    weights: Any = None,
    has_aux: bool = False,
    return_ids: bool = False,
    sens_param: bool = False,
) -> Any:
    """Return a function that computes the result of `fn` and its gradient.

    Parameters
    ----------
    fn : callable or Cell
        A function of Tensors or of NumPy arrays.
    grad_position, weights, has_aux, return_ids, sens_param
        As in `grad`.

    Returns
    -------
    callable
        It takes the arguments of `fn`, and returns (result, gradient).

    Examples
    --------
    >>> import framejit as fj
    >>> value, gradient = fj.value_and_grad(lambda x: (x * x).sum())(fj.Tensor([1.0, 2.0]))
    >>> value.item(), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    return _remembered(fn, ("value_and_grad", grad_position, weights, has_aux, return_ids, True, sens_param))


def get_grad(gradients: Any, identifier: Any) -> Any:
    """Return one of the gradients that a function with ``return_ids=True`` returned.

    Parameters
    ----------
    gradients : tuple
        The gradients, each with its position or name.
    identifier : int, str or Parameter
        The position of an argument, or a Parameter, or its name.

    Raises
    ------
    ValueError
        If `identifier` has another type.
    RuntimeError
        If there is no such gradient.
    """
    name = identifier.name if isinstance(identifier, Tensor) else identifier
    if not isinstance(name, (int, str)) or isinstance(name, bool):
        raise ValueError(
            f"For 'get_grad', the 'identifier' must be int, str or Parameter, but got {type(name).__name__}."
        )

    def search(part: Any) -> list[Any]:
        if isinstance(part, tuple) and len(part) == 2 and type(part[0]) in (int, str):
            return [part[1]] if type(part[0]) is type(name) and part[0] == name else []
        return [found for one in part for found in search(one)] if isinstance(part, tuple) else []

    found = search(gradients)
    if not found:
        raise RuntimeError(f"Can not find the gradient for position or parameter {name!r}.")
    return found[0]


class GradOperation:
    """``GradOperation(get_all, get_by_list, sens_param)(fn, weights)``: as `grad` of the first argument, or of all.

    Parameters
    ----------
    get_all : bool
        With respect to all arguments: a tuple.
    get_by_list : bool
        With respect to `weights`, given when it is called: a ParameterTuple or list of Parameters; with `get_all` both:
        (gradients of arguments, gradients of weights).
    sens_param : bool
        The last argument of a call is the gradient of the result.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.ops.GradOperation()(lambda x: x * x)(fj.Tensor([3.0])).tolist()
    [6.0]
    """

    get_all: bool
    get_by_list: bool
    sens_param: bool

    def __init__(self, get_all: bool = False, get_by_list: bool = False, sens_param: bool = False) -> None:
        for name, value in (("get_all", get_all), ("get_by_list", get_by_list), ("sens_param", sens_param)):
            if not isinstance(value, bool):
                raise TypeError(f"For 'GradOperation', the '{name}' should be bool, but got {type(value).__name__}.")
        self.get_all, self.get_by_list, self.sens_param = get_all, get_by_list, sens_param

    def __call__(self, fn: Any, weights: Any = None) -> Any:
        """The function that gives the gradients."""
        if self.get_by_list and weights is None:
            weights = fn.trainable_params()
        chosen = weights if self.get_by_list else None
        if self.get_all:
            return _all_inputs(fn, chosen, self.sens_param)
        return grad(fn, None if self.get_by_list else 0, chosen, sens_param=self.sens_param)


def _all_inputs(fn: Any, weights: Any, sens_param: bool) -> Any:
    parameters, one_weight = _weights("GradOperation", weights), isinstance(weights, Tensor)

    def finish(out: Any, of_inputs: tuple[Any, ...], of_weights: tuple[Any, ...]) -> Any:
        inputs = tuple([gradient for _, gradient in of_inputs])
        if weights is None:
            return inputs
        return inputs, (of_weights[0] if one_weight else of_weights)

    return _make(fn, None, parameters, False, sens_param, finish)


def stop_gradient(value: Any) -> Any:
    """A copy of an array that counts as a constant in gradients.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> from framejit import ops
    >>> fj.grad(lambda x: np.sum(x * ops.stop_gradient(x)))(np.array([2.0, 3.0]))
    array([2., 3.])
    """
    return stop(value)


# --- Products of a Jacobian and a vector ------------------------------------------------------------------------------------


def _forward(fn: Any, has_aux: bool) -> Any:
    """(inputs, tangents) -> (out, tangent of out): the gradient, which is linear in its seed, differentiated by the seed."""

    def tangent(inputs: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        numbers = not any([isinstance(leaf, Tensor) for leaf in _leaves(inputs)])
        inputs = tuple([_numbers(x, numbers) for x in inputs])
        tape = begin()
        try:
            watched: list[Any] = []
            given = [_watched(tape, x, watched) for x in inputs]
            out = fn(*given)
            main = out[0] if has_aux else out
            leaves = _leaves(main)
            outer = begin()
            seeds = tuple([watch(outer, ones(leaf)) for leaf in leaves])
            gradients = pull(tape, tuple(leaves), seeds, tuple(watched))
            moved = list(pull(outer, gradients, tuple(_leaves(tangents)), seeds))
        finally:
            close(tape)
        del tape, outer
        arrays = tuple([x for x in _leaves(inputs) if isinstance(x, _ARRAYS)])
        out = _original(out, tuple(watched), arrays)
        return out, _like(main, moved)

    return tangent


def jvp(fn: Any, inputs: Any, v: Any, has_aux: bool = False) -> Any:
    """Return the result of a function, and its derivative in a direction: the product of the Jacobian and a vector.

    Parameters
    ----------
    fn : callable or Cell
        A function of arrays or Tensors.
    inputs : array or tuple of arrays
        The arguments of `fn`.
    v : array or tuple of arrays
        The direction: for each argument, how fast it changes.
    has_aux : bool
        `fn` returns a tuple, and only its first item is differentiated.

    Returns
    -------
    tuple
        (the result of `fn`, the derivative)

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> fj.jvp(np.square, np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    (array([1., 4.]), array([ 2., 40.]))
    """
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    directions = tuple(v) if isinstance(v, (tuple, list)) else (v,)
    if len(arguments) != len(directions):
        raise ValueError(
            f"For 'jvp', 'inputs' and 'v' must be as many, but got {len(arguments)} and {len(directions)}."
        )
    out, moved = _remembered_as("jvp", fn, has_aux)(arguments, directions)
    return (out[0], moved, *out[1:]) if has_aux else (out, moved)


def _remembered_as(name: str, fn: Any, has_aux: bool) -> Any:
    if is_compiling():
        return _forward(fn, has_aux)
    if not isinstance(fn, (FunctionType, _core.Function)):
        return compiled(_forward(fn, has_aux), fn)
    known = fn.__dict__.setdefault("__framejit_gradients__", {})
    if (name, has_aux) not in known:
        known[name, has_aux] = compiled(_forward(fn, has_aux), fn)
    return known[name, has_aux]


def vjp(fn: Any, *inputs: Any, weights: Any = None, has_aux: bool = False) -> Any:
    """Return what a function returns, and the function that multiplies its Jacobian by a vector from the left.

    `fn` runs once. The function that comes back may be called several times. Where `fn` does to NumPy arrays what only a graph can follow
    (``np.array([x[0], x[1]])``), it runs again in each of these calls.

    Parameters
    ----------
    fn : callable or Cell
        A function of arrays, Tensors, or tuples and lists of them.
    *inputs : array or Tensor
        Where the Jacobian is taken: the arguments of `fn`.
    weights : Parameter, or tuple or list of them, optional
        Parameters for which there are gradients too, as in `grad`.
    has_aux : bool
        Only the first output of `fn` is differentiated.

    Returns
    -------
    outputs
        What ``fn(*inputs)`` returns.
    function
        It takes one array for each output, and returns a tuple with the gradient of each input.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> out, back = fj.vjp(np.square, np.array([1.0, 2.0]))
    >>> back(np.array([1.0, 10.0]))
    (array([ 2., 40.]),)
    """
    parameters, one_weight = _weights("vjp", weights), isinstance(weights, Tensor)
    numbers = not any([isinstance(leaf, Tensor) for leaf in _leaves(inputs)])
    given = [_numbers(x, numbers) for x in inputs]
    watched: list[Any] = []
    tape, is_followed = begin_here() if hooked else begin(), True
    if is_compiling():  # with no `except`, which would hide that exceptions leave the function
        try:
            out = fn(*[_watched(tape, x, watched) for x in given])
        finally:
            close(tape)
    else:
        try:
            out = fn(*[_watched(tape, x, watched) for x in given])
        except (GraphBreakError, ValueError) as error:
            if not isinstance(error, GraphBreakError) and not isinstance(error.__cause__, GraphBreakError):
                raise
            is_followed = False
        finally:
            close(tape)

    def in_kind(of_inputs: list[Any], of_weights: list[Any]) -> Any:
        if weights is None:
            return tuple(of_inputs)
        return tuple(of_inputs), (of_weights[0] if one_weight else tuple(of_weights))

    if is_followed:
        leaves = _leaves(out[0] if has_aux else out)

        def pullback(*sens: Any) -> Any:
            gradients = list(pull(tape, tuple(leaves), tuple(_seeds(leaves, sens)), (*watched, *parameters)))
            return in_kind([_like(x, gradients) for x in given if _varies(x)], gradients)

        out = _original(out, tuple(watched), tuple([x for x in _leaves(given) if isinstance(x, _ARRAYS)]))
    else:  # as a graph it may be: it runs again for each gradient
        out = fn(*inputs)

        def finish(_: Any, of_inputs: tuple[Any, ...], of_weights: tuple[Any, ...]) -> Any:
            return in_kind([gradient for _, gradient in of_inputs], list(of_weights))

        backward = _make(fn, tuple(range(len(inputs))), parameters, has_aux, True, finish)

        def pullback(*sens: Any) -> Any:
            return backward(*inputs, sens)

    return (out[0], pullback, *out[1:]) if has_aux else (out, pullback)
