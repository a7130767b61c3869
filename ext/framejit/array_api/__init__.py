"""The namespace of the array API standard, of Tensors: what ``Tensor.__array_namespace__()`` returns.

Functions are NumPy's, of Tensors: dtypes and values are those that NumPy's functions return, and a marked function
captures them. The version of the standard, `__array_api_version__`, is that of the installed NumPy. Functions that it does not
have are not there: NumPy before 2.1 has no version of the standard.

Examples
--------
>>> import framejit as fj
>>> xp = fj.Tensor([3.0, 4.0]).__array_namespace__()
>>> float(xp.sum(xp.asarray([3.0, 4.0])))
7.0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._api import _dtypes
from framejit._tensors._tensor import Tensor
from framejit.array_api import fft as fft
from framejit.array_api import linalg as linalg
from framejit.array_api._wrap import check_device, made, taken, wrap_all

__array_api_version__: str = getattr(np, "__array_api_version__", "2021.12")

e, inf, nan, newaxis, pi = np.e, np.inf, np.nan, None, np.pi
bool = _dtypes.ALL["bool_"]
_DTYPES = {
    "bool": {"bool": bool},
    "signed integer": {name: _dtypes.ALL[name] for name in ("int8", "int16", "int32", "int64")},
    "unsigned integer": {name: _dtypes.ALL[name] for name in ("uint8", "uint16", "uint32", "uint64")},
    "real floating": {name: _dtypes.ALL[name] for name in ("float32", "float64")},
    "complex floating": {name: _dtypes.ALL[name] for name in ("complex64", "complex128")},
}
_KINDS = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}
for _names in _DTYPES.values():
    globals().update(_names)

_FUNCTIONS = (
    "abs acos acosh add all any arange argmax argmin asin asinh atan atan2 atanh bitwise_and bitwise_invert "
    "bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_shapes broadcast_to can_cast ceil "
    "concat conj copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide empty empty_like equal exp "
    "expand_dims expm1 eye flip floor floor_divide full full_like greater greater_equal hypot imag isfinite isin isinf isnan "
    "less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul "
    "matrix_transpose max maximum mean min minimum moveaxis multiply negative nextafter nonzero not_equal ones ones_like "
    "permute_dims positive pow prod real reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh "
    "sqrt square squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc unique_all "
    "unique_counts unique_inverse unique_values unstack var vecdot where zeros zeros_like"
)
_OF_NUMPY = wrap_all(np, _FUNCTIONS)
globals().update(_OF_NUMPY)
_OTHER = wrap_all(
    np, "argsort broadcast_arrays clip meshgrid sort"
)  # their parameters or results are not the standard's

__all__ = [
    *("argsort", "asarray", "astype", "broadcast_arrays", "clip", "fft", "finfo", "from_dlpack", "iinfo", "isdtype"),
    *("linalg", "meshgrid", "sort"),
    *("e", "inf", "nan", "newaxis", "pi", *(name for names in _DTYPES.values() for name in names)),
    *_OF_NUMPY,
    "__array_api_version__",
    "__array_namespace_info__",
]


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
    """Return a Tensor of numbers, sequences of them, ndarrays, Tensors, or objects with ``__dlpack__`` or a buffer.

    Parameters
    ----------
    obj : Tensor, ndarray, number, sequence or buffer
        The elements, of any shape.
    dtype : dtype, optional
        By default that of `obj`; Python's floats become float64 and its ints int64.
    device : {'CPU', None}
        Where it is stored.
    copy : bool, optional
        A Tensor is returned itself unless this is True or it has another dtype; everything else is copied, which False
        forbids.

    Raises
    ------
    ValueError
        If `copy` is False and a copy is needed, or there is no such device.
    """
    check_device("asarray", {"device": device})
    if isinstance(obj, Tensor):
        if copy is not True and (dtype is None or obj.dtype is dtype):
            return obj
    elif type(obj) not in (bool, int, float, complex, list, tuple) and hasattr(obj, "__dlpack__") and copy is False:
        return from_dlpack(obj)
    if copy is False:
        raise ValueError("For 'asarray', the 'copy' is False, but a copy is needed.")
    return Tensor(np.array(taken(obj), dtype=taken(dtype)))


def astype(x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Any:
    """Return the elements of a Tensor in another dtype; the Tensor itself if that is its dtype and `copy` is False.

    Raises
    ------
    ValueError
        If complex numbers are to become real ones, or there is no such device.
    """
    check_device("astype", {"device": device})
    if x.dtype is dtype and not copy:
        return x
    if isdtype(x.dtype, "complex floating") and isdtype(dtype, ("integral", "real floating")):
        raise ValueError(f"For 'astype', {x.dtype} cannot become {dtype}: take the real part first.")
    return x.astype(dtype)


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """Return Tensors of one shape, with the elements of `arrays` repeated.

    Raises
    ------
    ValueError
        If there is no such shape.
    """
    return list(_OTHER["broadcast_arrays"](*arrays))


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Return a Tensor with elements below `min` and above `max` replaced by these.

    Parameters
    ----------
    x : Tensor
        Of real numbers.
    min, max : number, Tensor or None
        Bounds, which are broadcast with `x`; None: there is none.
    """
    return _OTHER["clip"](x, min, max)


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    """Return the coordinates of a grid, a Tensor for each of the one-dimensional `arrays`.

    Parameters
    ----------
    *arrays : Tensor
        The coordinates along each axis.
    indexing : {'xy', 'ij'}
        Whether the first two axes change places.
    """
    return list(_OTHER["meshgrid"](*arrays, indexing=indexing))


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """Return a Tensor of an object with ``__dlpack__``, over the same memory if its layout allows that.

    Parameters
    ----------
    x : object
        With ``__dlpack__`` and ``__dlpack_device__``.
    device : {'CPU', None}
        Where it is stored.
    copy : bool, optional
        True: always over memory of its own.

    Raises
    ------
    BufferError
        If the memory or the dtype cannot be taken.
    ValueError
        If there is no such device.
    """
    from framejit.ops._methods import from_dlpack as share

    check_device("from_dlpack", {"device": device})
    tensor = share(x)
    return Tensor(tensor) if copy else tensor


def sort(x: Any, /, *, axis: int = -1, descending: Any = False, stable: Any = True) -> Any:
    """Return a sorted Tensor.

    Parameters
    ----------
    x : Tensor
        Of real numbers.
    axis : int
        Along which to sort.
    descending : bool
        The largest first.
    stable : bool
        Equal elements keep their order.
    """
    if not descending:
        return _OTHER["sort"](x, axis=axis, stable=stable)
    return _OF_NUMPY["flip"](_OTHER["sort"](_OF_NUMPY["flip"](x, axis=axis), axis=axis, stable=stable), axis=axis)


def argsort(x: Any, /, *, axis: int = -1, descending: Any = False, stable: Any = True) -> Any:
    """Return the positions, int64, that sort a Tensor.

    Parameters
    ----------
    x : Tensor
        Of real numbers.
    axis : int
        Along which to sort.
    descending : bool
        The largest first.
    stable : bool
        Equal elements keep their order.
    """
    if not descending:
        return _OTHER["argsort"](x, axis=axis, stable=stable)
    flip = _OF_NUMPY["flip"]
    return x.shape[axis] - 1 - flip(_OTHER["argsort"](flip(x, axis=axis), axis=axis, stable=stable), axis=axis)


class finfo:
    """Limits of a floating-point dtype: the argument is a dtype, or a Tensor of it.

    Attributes
    ----------
    bits : int
        Of a real number.
    eps, max, min, smallest_normal : float
        The step after 1, the largest and the smallest number, and the smallest positive normal one.
    dtype : dtype
        Of real numbers.
    """

    def __init__(self, type: Any, /) -> None:
        limits = np.finfo(taken(type.dtype if isinstance(type, Tensor) else type))
        self.bits = limits.bits
        self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
        self.smallest_normal = float(limits.smallest_normal)
        self.dtype = made(limits.dtype)


class iinfo:
    """Limits of an integer dtype: the argument is a dtype, or a Tensor of it.

    Attributes
    ----------
    bits, max, min : int
        The width, the largest and the smallest number.
    dtype : dtype
        The dtype itself.
    """

    def __init__(self, type: Any, /) -> None:
        limits = np.iinfo(taken(type.dtype if isinstance(type, Tensor) else type))
        self.bits, self.max, self.min, self.dtype = limits.bits, int(limits.max), int(limits.min), made(limits.dtype)


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a dtype is of a kind.

    Parameters
    ----------
    dtype : dtype
        Of framejit.
    kind : str, dtype or tuple of them
        ``'bool'``, ``'signed integer'``, ``'unsigned integer'``, ``'integral'``, ``'real floating'``,
        ``'complex floating'``, ``'numeric'``, or a dtype.

    Raises
    ------
    ValueError
        If there is no such kind.
    """
    return np.isdtype(taken(dtype), taken(kind))


class _Information:
    """What the standard asks about a namespace."""

    def capabilities(self) -> dict[str, Any]:
        """What operations may depend on."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where Tensors are stored."""
        return "CPU"

    def devices(self) -> list[str]:
        """All devices."""
        return ["CPU"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of what has none of its own."""
        check_device("default_dtypes", {"device": device})
        names = {"real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64"}
        return {kind: _dtypes.ALL[name] for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes of one kind, of several, or all, by name."""
        check_device("dtypes", {"device": device})
        kinds = _DTYPES if kind is None else kind if isinstance(kind, tuple) else (kind,)
        found: dict[str, Any] = {}
        for each in kinds:
            for part in _KINDS.get(each, (each,)):
                if part not in _DTYPES:
                    raise ValueError(f"For 'dtypes', the 'kind' must be in {[*_DTYPES, *_KINDS]}, but got {each!r}.")
                found.update(_DTYPES[part])
        return found


def __array_namespace_info__() -> Any:
    """Return what this namespace can do: devices, dtypes and defaults.

    Examples
    --------
    >>> import framejit.array_api as xp
    >>> xp.__array_namespace_info__().devices()
    ['CPU']
    """
    return _Information()


def namespace_of(tensor: Any, api_version: str | None = None) -> Any:
    """What ``Tensor.__array_namespace__`` returns: this module."""
    known = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
    known = known[: known.index(__array_api_version__) + 1] if __array_api_version__ in known else known
    if api_version is not None and api_version not in known:
        raise ValueError(f"the 'api_version' must be one of {', '.join(known)} or None, but got {api_version!r}")
    import framejit.array_api

    return framejit.array_api
