"""The dtypes, with MindSpore's other names for them."""

from __future__ import annotations

from framejit._api._dtypes import (
    ALL,
    STRING,
    DType,
    dtype_to_nptype,
    dtype_to_pytype,
    get_py_obj_dtype,
    pytype_to_dtype,
)

globals().update(ALL)
# Other names: NumPy's, and those of C.
ALIASES = {
    **dict.fromkeys(("half",), "float16"),
    **dict.fromkeys(("single", "float_"), "float32"),
    **dict.fromkeys(("double",), "float64"),
    **dict.fromkeys(("byte",), "int8"),
    **dict.fromkeys(("short",), "int16"),
    **dict.fromkeys(("intc", "intp"), "int32"),
    **dict.fromkeys(("long", "int_"), "int64"),
    **dict.fromkeys(("ubyte",), "uint8"),
    **dict.fromkeys(("ushort",), "uint16"),
    **dict.fromkeys(("uintc", "uintp"), "uint32"),
    **dict.fromkeys(("uint",), "uint64"),
    **dict.fromkeys(("cfloat",), "complex64"),
    **dict.fromkeys(("cdouble",), "complex128"),
}
globals().update({alias: ALL[name] for alias, name in ALIASES.items()})
string = STRING
Type = tensor_type = TensorType = DType
__all__ = [
    "Type",
    "TensorType",
    "dtype_to_nptype",
    "dtype_to_pytype",
    "get_py_obj_dtype",
    "pytype_to_dtype",
    "string",
    "tensor_type",
    *ALIASES,
    *ALL,
]
