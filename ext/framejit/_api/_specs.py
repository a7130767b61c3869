"""Arguments described without their data: `ArraySpec`, `mark_dynamic`, and what ``precompile`` makes of them."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from framejit._api._dtypes import numpy_dtype
from framejit._api._platform import core

_SYMBOLIC = 64  # the length of a dimension that is None while the function is captured
_marked: dict[int, weakref.ref[Any]] = {}


class ArraySpec:
    """An array by dtype and shape, for ``precompile``.

    Parameters
    ----------
    dtype : dtype
        Of framejit or of NumPy, or a name.
    shape : tuple of int or None
        None: any length from 2 on.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> @fj.jit
    ... def double(x):
    ...     return x * 2
    >>> double.precompile(fj.ArraySpec("float32", (None, 3)))
    >>> double.cache_entries()[0]["hits"]
    0
    >>> double(np.ones((5, 3), "float32")).shape
    (5, 3)
    >>> [entry["hits"] for entry in double.cache_entries()]
    [1]
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, dtype: Any, shape: Iterable[int | None]) -> None:
        self.dtype: np.dtype[Any] = numpy_dtype(dtype)
        if isinstance(shape, (int, str)):
            raise TypeError(f"For 'ArraySpec', the 'shape' must be a tuple of int or None, but got {shape!r}.")
        try:
            self.shape: tuple[int | None, ...] = tuple(
                None if length is None else operator.index(length) for length in shape
            )
        except TypeError:
            raise TypeError(
                f"For 'ArraySpec', the 'shape' must be a tuple of int or None, but got {shape!r}. None is any length from 2 on."
            ) from None
        if any(length is not None and length < 0 for length in self.shape):
            raise ValueError(f"For 'ArraySpec', the 'shape' must have no negative length, but got {self.shape!r}.")

    def __repr__(self) -> str:
        return f"ArraySpec({str(self.dtype)!r}, {self.shape!r})"


def mark_dynamic(x: Any, dim: int | Iterable[int]) -> None:
    """Take a dimension of this array as one that varies: what is compiled for the array fits any length from 2 on.

    Parameters
    ----------
    x : numpy.ndarray or Tensor
        The array itself: a copy or a view of it is another one.
    dim : int or iterable of int
        Which dimensions; negative ones count from the end.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> f = fj.jit(lambda x: x * 2)
    >>> x = np.ones((3, 4))
    >>> fj.mark_dynamic(x, 0)
    >>> f(x).shape, f(np.ones((7, 4))).shape
    ((3, 4), (7, 4))
    >>> len(f.cache_entries())
    1
    """
    if core is None:
        return
    if not isinstance(x, (np.ndarray, core.Tensor)):
        raise TypeError(f"For 'mark_dynamic', the 'x' must be an array, but got {type(x).__name__}.")
    dims = [operator.index(dim)] if not isinstance(dim, Iterable) else [operator.index(d) for d in dim]
    for d in dims:
        if not -x.ndim <= d < x.ndim:
            raise IndexError(f"For 'mark_dynamic', the 'dim' must be in [{-x.ndim}, {x.ndim}), but got {d}.")
    key = id(x)
    if dims and key not in _marked:
        _marked[key] = weakref.ref(x, _forgetter(key))
    for d in dims:
        core.mark_dynamic(x, d % x.ndim)


def unknown_lengths(spec: Any) -> tuple[int, ...]:
    """Which dimensions a Tensor without elements leaves open."""
    lengths = getattr(spec, "_lengths", None)
    return () if lengths is None else tuple([at for at, n in enumerate(lengths) if not isinstance(n, int)])


def check_fits(of: str, name: Any, spec: Any, value: Any) -> None:
    """Raise `TypeError` or `ValueError` where a Tensor is not as a Tensor without elements says."""
    if value.dtype is not spec.dtype:
        raise TypeError(f"For '{of}', the dtype of '{name}' must be {spec.dtype}, but got {value.dtype}.")
    lengths = getattr(spec, "_lengths", spec.shape)
    if lengths is None:
        return
    if len(lengths) != value.ndim:
        raise ValueError(f"For '{of}', '{name}' must have {len(lengths)} dimensions, but got {value.ndim}.")
    for wanted, length in zip(lengths, value.shape, strict=True):
        if wanted is not None and not (wanted == length if isinstance(wanted, int) else wanted.fits(length)):
            raise ValueError(f"For '{of}', the shape of '{name}' must be {list(lengths)}, but got {value.shape}.")


def enable_dynamic(**kwargs: Any) -> Callable[[Any], Any]:
    """A decorator that says which arguments of a compiled function have dimensions that vary.

    Parameters
    ----------
    **kwargs : Tensor
        By the name of the argument, a Tensor without elements.

    Raises
    ------
    TypeError, ValueError
        Where an argument of a call is of another dtype or shape.

    Examples
    --------
    >>> import framejit as fj
    >>> @fj.enable_dynamic(x=fj.Tensor(shape=[None, 3], dtype=fj.float32))
    ... @fj.jit
    ... def double(x):
    ...     return x * 2
    >>> double(fj.ops.ones((4, 3))).shape, double(fj.ops.ones((5, 3))).shape
    ((4, 3), (5, 3))
    """
    import functools
    import inspect

    if not kwargs:
        raise ValueError("For 'enable_dynamic', there must be an argument.")

    def decorated(function: Any) -> Any:
        signature = inspect.signature(function)
        for name in kwargs:
            if name not in signature.parameters:
                raise ValueError(f"For 'enable_dynamic', there is no argument {name!r} of {function!r}.")

        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            bound = signature.bind(*args, **keywords).arguments
            for name, spec in kwargs.items():
                if name in bound and hasattr(spec, "shape"):
                    check_fits("enable_dynamic", name, spec, bound[name])
                    mark_dynamic(bound[name], unknown_lengths(spec))
            return function(*args, **keywords)

        return call

    return decorated


def _forgetter(key: int) -> Callable[[Any], None]:
    def forget(_: Any) -> None:
        _marked.pop(key, None)
        assert core is not None
        core.forget_dynamic(key)

    return forget


def examples(function: Any, specs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments for a call of `function` like `specs`; raises where they do not fit its signature."""
    import inspect

    inspect.signature(function).bind(*specs)
    return tuple(_array(spec) if isinstance(spec, ArraySpec) else spec for spec in specs)


def _array(spec: ArraySpec) -> np.ndarray[Any, Any]:
    array = np.zeros([_SYMBOLIC if length is None else length for length in spec.shape], spec.dtype)
    mark_dynamic(array, [i for i, length in enumerate(spec.shape) if length is None])
    return array
