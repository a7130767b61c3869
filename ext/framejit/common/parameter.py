"""Parameters."""

from __future__ import annotations

from framejit._parameter import Parameter, ParameterTuple

__all__ = ["Parameter", "ParameterTuple"]
