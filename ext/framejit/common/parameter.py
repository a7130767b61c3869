"""Parameters."""

from __future__ import annotations

from framejit._tensors._parameter import Parameter, ParameterTuple

__all__ = ["Parameter", "ParameterTuple"]
