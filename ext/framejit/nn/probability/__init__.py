"""Probability distributions."""

from __future__ import annotations

from framejit.nn.probability import distribution

__all__ = ["distribution"]
