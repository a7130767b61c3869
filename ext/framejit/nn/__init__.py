"""Networks: Cell, what holds cells, and layers."""

from __future__ import annotations

from framejit.nn import _image, _layers, _optim
from framejit.nn._cell import Cell, GraphCell
from framejit.nn._containers import CellDict, CellList, SequentialCell

_LAYERS = {
    name: value
    for module in (_layers, _image, _optim)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, Cell) and not name.startswith("_")
}
globals().update(_LAYERS)
get_activation = _layers.get_activation
__all__ = ["Cell", "CellDict", "CellList", "GraphCell", "SequentialCell", "get_activation"]
__all__ += [name for name in _LAYERS if name not in __all__]


def __getattr__(name: str) -> object:
    from framejit._names import unknown

    raise unknown("framejit.nn", name, __all__)
