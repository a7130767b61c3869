"""Functions of Tensors, under MindSpore's names.

Elementwise functions are rows of the operator table: eagerly they run the kernel that a captured call fuses. The others are
written over NumPy, between ``_core._array`` and ``_core._tensor``, which capture follows; so eager execution and graphs agree.
"""

from __future__ import annotations

import sys
from typing import Any

from framejit import _grad, _vmap
from framejit.ops import (
    _attention,
    _control,
    _create,
    _ctc,
    _elementwise,
    _further,
    _image,
    _linalg,
    _loss,
    _pooling,
    _primitives,
    _random,
    _reduce,
    _resize,
    _sampling,
    _shape,
    _sparse,
)

_ELSEWHERE = {"Any", "ALL", "annotations", "np", "is_compiling", "functools", "inspect", "math", "Tensor", "itertools"}
_MODULES = (
    *(_elementwise, _reduce, _shape, _create, _random, _image, _pooling, _resize, _sampling, _attention, _loss, _ctc),
    *(_linalg, _further, _sparse, _primitives, _control),
)
for _module in _MODULES:
    for _name, _value in list(vars(_module).items()):
        if not _name.startswith("_") and _name not in _ELSEWHERE:
            globals()[_name] = _value
for _name in ("GradOperation", "get_grad", "grad", "jvp", "stop_gradient", "value_and_grad", "vjp"):
    globals()[_name] = getattr(_grad, _name)
vmap = _vmap.vmap
slice = _shape.slice_
__all__ = sorted(name for name in globals() if not name.startswith("_") and name not in (*_ELSEWHERE, "sys"))
del _module, _name, _value
# MindSpore has modules for what it generates, composes and writes in Python: the same functions.
operations = functional = composite = sys.modules[__name__]
for _alias in ("operations", "functional", "composite"):
    sys.modules[f"{__name__}.{_alias}"] = operations
from framejit import _methods as _methods  # noqa: E402  what is made here has them


def __getattr__(name: str) -> Any:
    from framejit._names import unknown

    raise unknown("framejit.ops", name, __all__)
