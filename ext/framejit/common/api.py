"""``jit`` and its kin."""

from __future__ import annotations

from framejit._jit import jit, ms_function
from framejit._script import jit_class

__all__ = ["jit", "jit_class", "ms_function"]
