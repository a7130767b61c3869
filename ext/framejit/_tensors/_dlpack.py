"""DLPack: exchange of memory with other libraries, by NumPy, and of bfloat16, which NumPy does not exchange."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._api import _dtypes

_UINT, _BFLOAT = 1, 4  # codes of DLPack


def export(array: np.ndarray[Any, Any], options: dict[str, Any]) -> Any:
    """The capsule for an array, with the options of ``__dlpack__`` that were given."""
    given = {name: value for name, value in options.items() if value is not None}
    if array.dtype.name != "bfloat16":
        return array.__dlpack__(**given)
    capsule = array.view(np.uint16).__dlpack__(**given)
    _core._set_dlpack_code(capsule, _BFLOAT)
    return capsule


class _Source:
    """The object of another library, whose bfloat16 is uint16 to NumPy."""

    def __init__(self, given: Any):
        self.given, self.is_bfloat16 = given, False

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.given.__dlpack__(**options)
        if _core._dlpack_dtype(capsule) == (_BFLOAT, 16):
            self.is_bfloat16 = True
            _core._set_dlpack_code(capsule, _UINT)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.given.__dlpack_device__()


def import_array(given: Any) -> np.ndarray[Any, Any]:
    """The array over the memory of an object with ``__dlpack__``."""
    source = _Source(given)
    array = np.from_dlpack(source)
    return array.view(_dtypes.numpy_dtype(_dtypes.ALL["bfloat16"])) if source.is_bfloat16 else array
