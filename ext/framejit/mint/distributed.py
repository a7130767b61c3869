"""``mindspore.mint.distributed``: collective operations that write their outputs. There is one process."""

from __future__ import annotations

from framejit.ops import _collectives
from framejit.ops._collectives import gather as gather
from framejit.ops._collectives import scatter as scatter

_NAMES = [
    name for name in _collectives.__all__ if name[0].islower() and name not in ("gather_into_tensor", "scatter_tensor")
]
globals().update({name: getattr(_collectives, name) for name in _NAMES})
__all__ = [*_NAMES, "gather", "scatter"]
