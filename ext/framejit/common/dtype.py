"""The dtypes, with MindSpore's other names for them."""

from __future__ import annotations

from framejit._dtypes import ALL, DType, dtype_to_nptype, pytype_to_dtype

globals().update(ALL)
half, single, double, float_, int_ = ALL["float16"], ALL["float32"], ALL["float64"], ALL["float32"], ALL["int64"]
Type = tensor_type = TensorType = DType
__all__ = [
    "Type",
    "TensorType",
    "dtype_to_nptype",
    "double",
    "float_",
    "half",
    "int_",
    "pytype_to_dtype",
    "single",
    "tensor_type",
    *ALL,
]
