"""What ``engine=fj.jit`` of pandas 3 does; imported when pandas first calls it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from framejit._api._jit import compile_any, is_compiled, jit, make_function, settings_of, strict_syntax
from framejit._api._pickling import remake

_COMPILED_FROM = 256  # values: a loop over fewer ends before its machine code would gain
_AXES = {"index": 0, "rows": 0, "columns": 1}
_DEFAULT = jit().settings
_loops: Any = weakref.WeakKeyDictionary()  # by marked function: the loop that calls it for each value


def apply(data: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], decorator: Any, axis: int | str) -> Any:
    """Applies `func`, marked by `decorator`, to columns or rows: Series of a DataFrame, or the parts of an array."""
    func = _mark(func, decorator)
    if isinstance(data, np.ndarray):
        return _apply_to_arrays(data, func, args, kwargs, _AXES[axis] if isinstance(axis, str) else axis)
    return data.apply(func, axis=axis, args=args, **kwargs)


def map_values(
    data: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], decorator: Any, skip_na: bool
) -> Any:
    """Applies `func`, marked by `decorator`, to each value of a Series."""
    func = _mark(func, decorator)
    na_action = "ignore" if skip_na else None
    if not args and not kwargs and len(data) >= _COMPILED_FROM and _has_numbers(data) and _is_for_loops(func):
        return _map_numbers(data, func, na_action)
    return data.map(functools.partial(func, *args, **kwargs), na_action=na_action)


def _mark(func: Any, decorator: Any) -> Any:
    """`func` marked with the arguments of the engine. What is not Python code, or marked already, stays as it is."""
    inner = func.__func__ if isinstance(func, MethodType) else func
    if is_compiled(inner):
        return func
    settings = {**_DEFAULT, "fullgraph": strict_syntax()} if decorator is jit else decorator.settings
    if isinstance(
        inner, FunctionType
    ):  # the same one in the next call, or a lambda of that line, is not compiled again
        marked = remake(inner, settings)
        return marked if inner is func else MethodType(marked, func.__self__)
    if isinstance(func, type) or not isinstance(getattr(type(func), "__call__", None), FunctionType):  # noqa: B004
        return func
    return compile_any(func, settings)


def _apply_to_arrays(data: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], axis: int) -> Any:
    """What `numpy.apply_along_axis` returns, which pandas calls, without its costs if `func` returns numbers."""
    if isinstance(func, np.ufunc):  # pandas applies these to the whole, and without the arguments
        with np.errstate(all="ignore"):
            return func(data)
    parts = iter(data if axis == 1 else data.T)
    first = func(next(parts), *args, **kwargs)
    if not isinstance(first, (int, float, complex, np.number, np.bool_)):
        return _apply_along_axis(data, func, args, kwargs, axis, first)
    result = np.zeros(data.shape[1 - axis], np.asanyarray(first).dtype)
    result[0] = first
    for position, part in enumerate(parts, 1):
        value = func(part, *args, **kwargs)
        if isinstance(value, str):
            value = np.array(value, dtype=object)
        result[position, ...] = np.asanyarray(value)  # as NumPy does, so that casts and errors are the same
    return result


def _apply_along_axis(
    data: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], axis: int, first: Any
) -> Any:
    """`numpy.apply_along_axis`, as pandas calls it, where `func` has returned `first` for the first part already."""
    before = [first]

    def call(part: Any, *args: Any, **kwargs: Any) -> Any:
        value = before.pop() if before else func(part, *args, **kwargs)
        return np.array(value, dtype=object) if isinstance(value, str) else value

    return np.apply_along_axis(call, axis, data, *args, **kwargs)


def _has_numbers(data: Any) -> bool:
    """Whether the values of a Series reach functions as bools, ints or floats of Python."""
    from pandas import Series

    dtype = data.dtype
    return type(data) is Series and isinstance(dtype, np.dtype) and dtype.kind in "biuf" and dtype.itemsize <= 8


def _is_for_loops(func: Any) -> bool:
    """Whether a loop that calls `func` may be compiled, instead of `func` alone."""
    return isinstance(func, FunctionType) or (is_compiled(func) and not settings_of(func)["fullgraph"])


def _call_for_each(values: list[Any], func: Callable[[Any], Any]) -> list[Any]:
    results = []
    for value in values:
        results.append(func(value))  # noqa: PERF401  # the form of loop that is compiled
    return results


def _map_numbers(data: Any, func: Any, na_action: str | None) -> Any:
    """``data.map(func, na_action)``, by a loop over a list that is compiled together with `func`."""
    values = data.to_numpy()
    chosen = None
    if na_action is not None and values.dtype.kind == "f" and (missing := np.isnan(values)).any():
        chosen = ~missing
        values = values[chosen]
    if isinstance(func, FunctionType):  # nothing can be compiled here
        results = _call_for_each(values.tolist(), func)
    else:
        loop = _loops.get(func)
        if loop is None:
            loop = _loops[func] = make_function(_call_for_each, settings_of(func))
        results = loop(values.tolist(), func.__wrapped__)
    array = _as_array(results)
    if array is None or (chosen is not None and array.dtype.kind != "f"):  # pandas says what the results come to
        return data.map(functools.partial(next, iter(results)), na_action=na_action)
    if chosen is not None:
        array, found = np.full(len(data), np.nan), array
        array[chosen] = found
    return type(data)(array, index=data.index, name=data.name, copy=False)


def _as_array(results: list[Any]) -> Any:
    """The array that pandas makes of results of one kind of numbers; None for all others."""
    kinds = set(map(type, results))
    for allowed, dtype in (({float, np.float64}, "f8"), ({bool, np.bool_}, "?"), ({int, np.int64}, "i8")):
        if kinds and kinds <= allowed:
            try:
                return np.array(results, dtype=dtype)
            except OverflowError:  # of an int that does not fit
                return None
    return None
