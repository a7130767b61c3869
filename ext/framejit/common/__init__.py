"""Names that scripts for MindSpore import from ``mindspore.common``."""

from __future__ import annotations

from framejit._api._dtypes import ALL, dtype_to_nptype, dtype_to_pytype, get_py_obj_dtype, pytype_to_dtype
from framejit._api._jit import jit, ms_function
from framejit._api._jit_config import JitConfig
from framejit._mindspore._script import jit_class, mutable
from framejit._tensors._parameter import Parameter, ParameterTuple
from framejit._tensors._tensor import Tensor
from framejit.common import api, dtype, initializer, parameter, tensor
from framejit.context import get_seed, set_seed

globals().update(ALL)
__all__ = [
    "JitConfig",
    "Parameter",
    "ParameterTuple",
    "Tensor",
    "api",
    "dtype",
    "dtype_to_nptype",
    "dtype_to_pytype",
    "get_py_obj_dtype",
    "get_seed",
    "initializer",
    "jit",
    "jit_class",
    "ms_function",
    "mutable",
    "parameter",
    "pytype_to_dtype",
    "set_seed",
    "tensor",
]
__all__ += [*ALL]
