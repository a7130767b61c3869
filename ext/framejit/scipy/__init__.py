"""``mindspore.scipy``: linear algebra over Tensors."""

from __future__ import annotations

from framejit.scipy import linalg as linalg
from framejit.scipy import ops as ops

__all__ = ["linalg", "ops"]
