"""``cfunc``: a function at an address, for libraries in C that call one."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

from framejit._api._jit import is_compiled, jit
from framejit._api._pickling import name_for_pickler
from framejit._api._platform import core

_TYPES: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(("double", "float64"), ("d", ctypes.c_double)),
    **dict.fromkeys(("float", "float32"), ("f", ctypes.c_float)),
    **dict.fromkeys(("int", "intc", "int32"), ("i", ctypes.c_int)),
    **dict.fromkeys(("long", "int64", "intp", "npy_intp", "ssize_t", "ptrdiff_t"), ("l", ctypes.c_long)),
}
_SIGNATURE = re.compile(r"\s*(?P<result>\w+)\s*\((?P<parameters>.*)\)\s*\Z", re.DOTALL)
_PARAMETER = re.compile(
    r"(?:const\s+)?(?P<type>\w+)\s*(?P<star>\*?)\s*(?P<name>[A-Za-z_]\w*)?\s*(?:\[\s*(?P<length>\w*)\s*\])?\Z"
)
_MOST_INTEGERS, _MOST_FLOATS = 6, 8  # registers of arguments


class _Parameter(NamedTuple):
    code: str
    ctype: Any
    name: str
    length: int | None = None  # of an array
    length_of: int = -1  # the parameter that says how long the array is


def _error(signature: str, what: str) -> ValueError:
    return ValueError(f"For 'cfunc', the 'signature' {signature!r} {what}.")


def _parameter(signature: str, text: str, before: list[_Parameter], after: list[str]) -> _Parameter:
    match = _PARAMETER.match(text)
    if match is None:
        raise _error(signature, f"has the parameter {text!r}, which is no declaration of C such as 'double x'")
    kind, star, name, length = match["type"], match["star"], match["name"] or "", match["length"]
    if kind == "void" and star and length is None:
        return _Parameter("p", ctypes.c_void_p, name)
    if kind not in _TYPES:
        raise _error(signature, f"has a parameter of type {kind!r}; there are {', '.join(_TYPES)} and 'void*'")
    code, ctype = _TYPES[kind]
    if star or length == "":
        raise _error(
            signature,
            f"has the parameter {text!r}: write how many elements there are, as in '{kind} x[n]' or '{kind} x[1]'",
        )
    if length is None:
        return _Parameter(code, ctype, name)
    if length.isdecimal():
        return _Parameter(code, ctypes.POINTER(ctype), name, int(length))
    names = [p.name for p in before] + [name] + [(_PARAMETER.match(t) or {"name": ""})["name"] or "" for t in after]
    if length not in names:
        raise _error(signature, f"has the parameter {text!r}, but no parameter {length!r}")
    return _Parameter(code, ctypes.POINTER(ctype), name, 0, names.index(length))


def _parse(signature: str) -> tuple[str, Any, list[_Parameter]]:
    match = _SIGNATURE.match(signature)
    if match is None:
        raise _error(signature, "must be like 'double(double)'")
    if match["result"] == "void":
        code, ctype = "v", None
    elif match["result"] in _TYPES:
        code, ctype = _TYPES[match["result"]]
    else:
        raise _error(signature, f"has the result {match['result']!r}; there are {', '.join(_TYPES)} and 'void'")
    inside = match["parameters"].strip()
    texts = [] if inside in ("", "void") else [text.strip() for text in inside.split(",")]
    parameters: list[_Parameter] = []
    for i, text in enumerate(texts):
        parameters.append(_parameter(signature, text, parameters, texts[i + 1 :]))
    for p in parameters:
        if p.length_of >= 0 and (
            parameters[p.length_of].code not in "il" or parameters[p.length_of].length is not None
        ):
            raise _error(signature, f"has an array {p.name!r} whose length is no integer")
    floats = sum(p.code in "df" and p.length is None for p in parameters)
    if floats > _MOST_FLOATS or len(parameters) - floats > _MOST_INTEGERS:
        raise _error(
            signature,
            f"has too many parameters: at most {_MOST_FLOATS} floating-point numbers and {_MOST_INTEGERS} others are possible",
        )
    return code, ctype, parameters


def _with_arrays(function: Callable[..., Any], parameters: list[_Parameter]) -> Callable[..., Any]:
    """What `ctypes` can call, for platforms on which nothing is compiled."""
    import numpy as np

    def call(*args: Any) -> Any:
        given = [0 if p.code == "p" and arg is None else arg for p, arg in zip(parameters, args, strict=True)]
        for i, p in enumerate(parameters):
            if p.length is not None:
                length = given[p.length_of] if p.length_of >= 0 else p.length
                given[i] = np.ctypeslib.as_array(args[i], (length,))
        return function(*given)

    return call


class CFunc:
    """The result of `cfunc`. Called from Python it is the marked function; C calls it at its address.

    Parameters
    ----------
    function : callable
        A function of Python.
    signature : str
        As for `cfunc`.

    Attributes
    ----------
    address : int
        Where the function is. It is valid as long as this object is alive.
    ctypes : object
        The same for `ctypes`, with the types of the signature; keeps this object alive.
    signature : str
        As it was given.

    Examples
    --------
    >>> import framejit as fj
    >>> @fj.cfunc("double(double)")
    ... def square(x):
    ...     return x * x
    >>> square.ctypes(3.0)
    9.0
    >>> square(3.0)
    9.0
    """

    def __init__(self, function: Callable[..., Any], signature: str) -> None:
        code, ctype, parameters = _parse(signature)
        self._function = jit(function)
        self.signature = signature
        functools.update_wrapper(self, function)
        prototype = ctypes.CFUNCTYPE(ctype, *(p.ctype for p in parameters))
        self._native: Any = None
        if core is not None and isinstance(self._function, core.Function):
            listed = tuple((p.code, p.length is not None, p.length_of, p.length or 0) for p in parameters)
            self._native = core.CFunction(self._function, code, listed)
            self.address: int = self._native.address
            self.ctypes: Any = prototype(self.address)
        else:
            self.ctypes = prototype(_with_arrays(self._function, parameters))
            self.address = ctypes.cast(self.ctypes, ctypes.c_void_p).value or 0
        self.ctypes._framejit_cfunc = self._native

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the marked function."""
        return self._function(*args, **kwargs)

    @property
    def is_compiled(self) -> bool:
        """Whether calls from C run machine code. The first call compiles."""
        return self._native is not None and self._native.is_compiled

    @property
    def reason(self) -> str:
        """Why calls from C are calls of the Python function; empty if they are not, or if there was none yet."""
        return "" if self._native is None else self._native.reason

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = name_for_pickler(self, sys._getframe(1))
        plain = self._function.__wrapped__ if is_compiled(self._function) else self._function
        return name or (CFunc, (plain, self.signature))

    def __copy__(self) -> CFunc:
        return self

    def __deepcopy__(self, memo: Any) -> CFunc:
        return self

    def __repr__(self) -> str:
        return f"<framejit cfunc {getattr(self, '__qualname__', '?')} {self.signature!r}>"


def cfunc(signature: str) -> Callable[[Callable[..., Any]], CFunc]:
    """Make a function that libraries in C can call, such as `scipy.LowLevelCallable` takes.

    A function of numbers and arrays runs as machine code, without objects of Python in between; the first call from C
    compiles it. What cannot be compiled, and each call in which the interpreter would raise or warn, is a call of the
    Python function. So results are those of the Python function, to the bit.

    Parameters
    ----------
    signature : str
        Result and parameters as in C: ``"double(double)"``, ``"double(int n, double x[n])"``. The types are ``double``
        (or ``float64``), ``float`` (``float32``), ``int`` (``int32``), ``long`` (``int64``, ``npy_intp``), and ``void*``
        for addresses, which the function gets as ints. An array says how many elements it has, by a number or the name
        of a parameter. The function gets an ``ndarray`` of that length over the memory of the caller, which is valid
        during the call only. The result may be ``void``.

    Returns
    -------
    callable
        A decorator. It returns a `CFunc` with ``.address`` and ``.ctypes``.

    Raises
    ------
    ValueError
        If the signature has a type, a length or a number of parameters that is not possible.
    TypeError
        If `signature` is not text, or if what is decorated is not a function, or takes another number of arguments.

    Notes
    -----
    C has no exceptions. If the function raises, the result is NaN, or 0 for integers, and `sys.unraisablehook` is told.
    There is one exception: if the result is an integer and the caller holds the GIL, the error is left to the caller, as
    `scipy.ndimage` expects it of a function that returns 0.

    Examples
    --------
    >>> import framejit as fj
    >>> @fj.cfunc("double(int n, double x[n])")
    ... def weighted(n, x):
    ...     return x[0] * x[1]
    >>> import ctypes
    >>> weighted.ctypes(2, (ctypes.c_double * 2)(3.0, 0.5))
    1.5
    """
    if not isinstance(signature, str):
        raise TypeError(
            f"For 'cfunc', the 'signature' must be a str such as 'double(double)', but got {signature!r} of type "
            f"{type(signature).__name__}."
        )
    _, _, parameters = _parse(signature)

    def decorate(function: Callable[..., Any]) -> CFunc:
        python = getattr(function, "__wrapped__", function) if core is not None else function
        if not isinstance(python, FunctionType):
            raise TypeError(f"For 'cfunc', what is decorated must be a function, but got {function!r}.")
        code = python.__code__
        takes_any = code.co_flags & 0x04  # *args
        required = code.co_argcount - len(python.__defaults__ or ())
        if (
            not required <= len(parameters) <= (sys.maxsize if takes_any else code.co_argcount)
            or code.co_kwonlyargcount
        ):
            raise TypeError(
                f"For 'cfunc', the 'signature' {signature!r} has {len(parameters)} parameters, but {python.__qualname__}() "
                f"takes {code.co_argcount}."
            )
        return CFunc(python, signature)

    return decorate
