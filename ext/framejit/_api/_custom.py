"""``custom_op``: functions that are declared pure become steps of compiled code."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from framejit._api._pickling import name_for_pickler
from framejit._api._platform import core


class CustomOp:
    """The result of `custom_op`. It is called like the function; in compiled code the call is a step of the graph.

    Parameters
    ----------
    function : callable
        The function.
    shape, dtype, gradient
        The arguments of `custom_op`.

    Attributes
    ----------
    gradient : callable or None
        The gradient that `custom_op` was given.
    """

    # By a step of compiled code: thread, arrays, error.
    _raised: tuple[int, tuple[Any, ...], BaseException] | None = None

    def __init__(self, function: Callable[..., Any], shape: Any, dtype: Any, gradient: Any) -> None:
        functools.update_wrapper(self, function)
        self.gradient = gradient
        self._function = function
        self._result = shape, dtype
        if core is not None:
            index = core.register_custom_op(self, function, shape, dtype)
            weakref.finalize(self, core.forget_custom_op, index).atexit = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self._function if self._raised is None or kwargs else self._again(args))(*args, **kwargs)

    def _again(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        """Give what is to be called: for the arrays for which a step of compiled code has raised, what raises that error, once."""
        kept = self._raised
        if kept is None or kept[0] != threading.get_ident() or len(args) != len(kept[1]):
            return self._function
        for arg, array in zip(args, kept[1], strict=True):
            if type(arg) is not type(array) or arg.dtype != array.dtype or arg.shape != array.shape:
                return self._function
            if arg.tobytes() != array.tobytes():
                return self._function
        self._raised = None
        assert core is not None
        return functools.partial(core.raise_error, kept[2])  # no frame of its own in the traceback

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = name_for_pickler(self, sys._getframe(1))
        return name or (CustomOp, (self._function, *self._result, self.gradient))

    def __copy__(self) -> CustomOp:
        return self

    def __deepcopy__(self, memo: Any) -> CustomOp:
        return self

    def __repr__(self) -> str:
        return f"<framejit custom_op {getattr(self, '__qualname__', self._function)}>"


def custom_op(
    function: Callable[..., Any] | None = None, *, shape: Any = None, dtype: Any = None, gradient: Any = None
) -> Any:
    """Say of a function of arrays that it is pure, so that calls of it do not break the graph.

    In plain Python a call is a call of the function. In compiled code it is a step between kernels: the function is given
    copies of the arrays and its result is copied into the graph's memory. A result that is not a C-ordered array with memory
    of its own (`base` is None), of the stated dtype and shape, or an exception, has the interpreter run that stretch of the program again.

    Parameters
    ----------
    function : callable
        Takes arrays and gives an array. Its result depends on nothing but the values of the arrays, it changes nothing, and
        it gives no warnings. Without it: a decorator.
    shape : tuple of int or callable, optional
        Of the result; a callable is given the shapes of the arguments. Default: as the first argument.
    dtype : dtype, optional
        Of the result. Default: as the first argument.
    gradient : callable, optional
        Kept as an attribute.

    Returns
    -------
    CustomOp
        Called as the function is.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> @fj.custom_op
    ... def ranks(x):
    ...     return np.argsort(np.argsort(x)).astype(x.dtype)
    >>> @fj.jit(fullgraph=True)
    ... def f(x):
    ...     return ranks(x * 2) + 1
    >>> f(np.array([3.0, 1.0, 2.0]))
    array([3., 1., 2.])
    """
    if function is None:
        return functools.partial(custom_op, shape=shape, dtype=dtype, gradient=gradient)
    for name, value in (("function", function), ("gradient", gradient)):
        if value is not None and not callable(value):
            raise TypeError(f"For 'custom_op', the '{name}' must be callable, but got {value!r}.")
    if shape is not None and not callable(shape):
        if not isinstance(shape, (tuple, list)) or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise TypeError(f"For 'custom_op', the 'shape' must be a tuple of int or a callable, but got {shape!r}.")
        shape = tuple(shape)
    if dtype is not None:
        from framejit._api._dtypes import numpy_dtype

        dtype = numpy_dtype(dtype)
    return CustomOp(function, shape, dtype, gradient)
