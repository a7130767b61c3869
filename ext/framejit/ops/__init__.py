"""Functions of Tensors, under MindSpore's names.

Elementwise functions are rows of the operator table: eagerly they run the kernel that a captured call fuses. The others are
written over NumPy, between ``_core._array`` and ``_core._tensor``, which capture follows; so eager execution and graphs agree.
"""

from __future__ import annotations

import sys
from typing import Any

from framejit._autodiff import _grad
from framejit.ops import (
    _attention,
    _boxes,
    _candidates,
    _collectives,
    _control,
    _create,
    _ctc,
    _diagonals,
    _distorted_boxes,
    _elementwise,
    _factors,
    _function_forms,
    _further,
    _image,
    _in_place,
    _language,
    _language_forms,
    _linalg,
    _loss,
    _optimizers,
    _pictures,
    _pooling,
    _primitive_forms,
    _primitives,
    _random,
    _reduce,
    _resize,
    _sampling,
    _shape,
    _signals,
    _sparse,
    _summaries,
    _tables,
    _vmap,
)
from framejit.ops import _methods as _methods  # puts the methods written in Python into the type Tensor
from framejit.ops import _more_methods as _more_methods  # more of them
from framejit.ops import _second_forms as _second_forms  # their other forms
from framejit.ops import _signatures as _signatures  # their errors
from framejit.ops._views import inplace_copy_op, select_ext_view_op, slice_ext_view_op, split_tensor_view_op  # noqa: F401  not listed

slice = _shape.slice_
# MindSpore has modules for what it generates, composes and writes in Python: the same functions.
operations = functional = composite = sys.modules[__name__]
for _alias in ("operations", "functional", "composite"):
    sys.modules[f"{__name__}.{_alias}"] = operations
for _alias in (
    *(
        "array_ops",
        "control_ops",
        "custom_ops",
        "debug_ops",
        "image_ops",
        "inner_ops",
        "linalg_ops",
        "manually_defined",
        "math_ops",
    ),
    *(
        "nn_ops",
        "other_ops",
        "random_ops",
        "sparse_ops",
        "spectral_ops",
        "_grad_ops",
        "_inner_ops",
        "_scalar_ops",
        "_sequence_ops",
    ),
    *("auto_generate", "gen_ops_def", "gen_ops_prim"),
):
    globals()[_alias] = operations

__all__ = ["slice"]
for _module in (
    *(_elementwise, _reduce, _shape, _create, _random, _image, _pooling, _resize, _sampling, _attention, _loss, _ctc),
    *(
        _linalg,
        _further,
        _sparse,
        _primitives,
        _primitive_forms,
        _function_forms,
        _boxes,
        _candidates,
        _diagonals,
        _distorted_boxes,
        _factors,
        _pictures,
        _signals,
        _tables,
        _summaries,
        _optimizers,
        _language,
        _language_forms,
        _in_place,
        _control,
        _collectives,
        _grad,
        _vmap,
    ),
):
    globals().update({name: getattr(_module, name) for name in _module.__all__})
    __all__ += _module.__all__


_primexpr = _language._primexpr


def __getattr__(name: str) -> Any:
    from framejit._api._names import unknown

    raise unknown("framejit.ops", name, __all__)
