"""Tensor."""

from __future__ import annotations

from framejit._tensors._tensor import Tensor

__all__ = ["Tensor"]
