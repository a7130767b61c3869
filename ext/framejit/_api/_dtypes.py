"""The dtypes, under MindSpore's names."""

from __future__ import annotations

from typing import Any

import numpy as np

_TEXTS = {
    "bool_": "Bool",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "uint8": "UInt8",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "float16": "Float16",
    "bfloat16": "BFloat16",
    "float32": "Float32",
    "float64": "Float64",
    "complex64": "Complex64",
    "complex128": "Complex128",
}
_known: dict[str, DType] = {}
_package = "framejit"


def name_package(name: str) -> None:
    """Let the dtypes say in their repr that they are of this package."""
    global _package
    _package = name


class DType:
    """A dtype; there is one object for each.

    Parameters
    ----------
    name : str
        As in ``framejit.float32.name``.

    Attributes
    ----------
    name : str
        The name under which framejit has it.
    numpy : numpy.dtype or None
        NumPy's dtype. Of bfloat16, which NumPy does not have, that of the package ml_dtypes, once a Tensor has needed it.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> fj.float32
    framejit.float32
    >>> print(fj.float32)
    Float32
    >>> np.zeros(2, fj.float32.numpy).dtype
    dtype('float32')
    """

    __slots__ = ("name", "numpy")
    name: str
    numpy: np.dtype[Any] | None

    def __new__(cls, name: str) -> DType:
        """The one object for a name."""
        if name in _known:
            return _known[name]
        if name not in _TEXTS:
            raise ValueError(f"'name' is {name!r}; there are the dtypes {', '.join(_TEXTS)}")
        self = super().__new__(cls)
        self.name = name
        self.numpy = None if name == "bfloat16" else np.dtype(name.rstrip("_"))
        _known[name] = self
        return self

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return 2 if self.numpy is None else self.numpy.itemsize

    def __repr__(self) -> str:
        return f"{_package}.{self.name.rstrip('_')}"

    def __str__(self) -> str:
        return _TEXTS[self.name]

    def __reduce__(self) -> tuple[type[DType], tuple[str]]:
        return DType, (self.name,)


ALL = {name: DType(name) for name in _TEXTS}
globals().update(ALL)
# The type of str; there are no Tensors of it.
STRING = object.__new__(DType)
STRING.name, STRING.numpy = "string", None
_TEXTS["string"], _known["string"] = "String", STRING
_FROM_NUMPY = {dtype.numpy: dtype for dtype in ALL.values() if dtype.numpy is not None}


def _load_bfloat16(dtype: np.dtype[Any] | None = None) -> np.dtype[Any] | None:
    """The dtype that ml_dtypes defines, known to the compiled half from then on; None where it is not installed."""
    bfloat16 = ALL["bfloat16"]
    if bfloat16.numpy is None:
        if dtype is None:
            try:
                import ml_dtypes
            except ImportError:
                return None
            dtype = np.dtype(ml_dtypes.bfloat16)
        from framejit import _core

        bfloat16.numpy = dtype
        _FROM_NUMPY[dtype] = bfloat16
        _core._set_bfloat16(dtype)
    return bfloat16.numpy


def from_numpy(dtype: np.dtype[Any]) -> DType:
    """The framejit dtype for NumPy's, in whichever byte order; raises `TypeError` where there is none."""
    if dtype.name == "bfloat16":
        _load_bfloat16(dtype)
    found = _FROM_NUMPY.get(dtype.newbyteorder("="))
    if found is None:
        raise TypeError(f"'dtype' is {dtype!r}; framejit has {', '.join(ALL)}")
    return found


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype for a framejit dtype, a NumPy dtype or scalar type, a name, or a Python type."""
    if dtype is ALL["bfloat16"] or dtype == "bfloat16":
        loaded = _load_bfloat16()
        if loaded is None:
            raise TypeError(f"'dtype' is {dtype!r}, which NumPy does not have; it needs the package ml_dtypes")
        return loaded
    if dtype is STRING:
        raise TypeError("'dtype' is String, of which there are no Tensors")
    if isinstance(dtype, DType):
        assert dtype.numpy is not None
        return dtype.numpy
    found = None
    if isinstance(dtype, (np.dtype, type, str)):
        try:
            found = np.dtype(dtype)
            from_numpy(found)
        except TypeError:
            found = None
    if found is None:
        allowed = f"a framejit dtype ({', '.join(ALL)}), the same of NumPy, or bool, int, float, complex"
        raise TypeError(f"'dtype' must be {allowed}, but got {dtype!r} of type {type(dtype).__name__}")
    return found


def dtype_to_nptype(type_: DType) -> type[np.generic]:
    """Return NumPy's scalar type for a dtype.

    Parameters
    ----------
    type_ : dtype
        A dtype of framejit.
    """
    return numpy_dtype(type_).type


def pytype_to_dtype(obj: type) -> DType:
    """Return the dtype of Tensors that are built from values of a type.

    Parameters
    ----------
    obj : type
        A Python type, or a scalar type of NumPy.
    """
    return STRING if obj is str else from_numpy(numpy_dtype(obj))


def get_py_obj_dtype(obj: Any) -> Any:
    """Return the dtype of an object, or that of Tensors that are built from it.

    Parameters
    ----------
    obj : Tensor, number or str
        The object.
    """
    return obj.dtype if hasattr(obj, "dtype") else pytype_to_dtype(type(obj))


def dtype_to_pytype(type_: DType) -> type:
    """Return the Python type of an element.

    Parameters
    ----------
    type_ : dtype
        A dtype of framejit.
    """
    if type_ is STRING:
        return str
    kind = numpy_dtype(type_).kind
    return {"b": bool, "i": int, "u": int, "f": float, "V": float, "c": complex}[kind]
