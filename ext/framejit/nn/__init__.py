"""Networks: Cell, what holds cells, and layers."""

from __future__ import annotations

from framejit.nn import _layers
from framejit.nn._cell import Cell, GraphCell
from framejit.nn._containers import CellDict, CellList, SequentialCell

_LAYERS = [name for name, value in vars(_layers).items() if isinstance(value, type) and issubclass(value, Cell)]
globals().update({name: getattr(_layers, name) for name in _LAYERS})
get_activation = _layers.get_activation
__all__ = sorted({"Cell", "CellDict", "CellList", "GraphCell", "SequentialCell", "get_activation", *_LAYERS})


def __getattr__(name: str) -> object:
    from framejit._names import unknown

    raise unknown("framejit.nn", name, __all__)
