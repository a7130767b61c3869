"""Networks: Cell, what holds cells, and layers."""

from __future__ import annotations

from typing import Any

from framejit.nn import (
    _combined,
    _convolution,
    _image,
    _layers,
    _losses,
    _normalization,
    _optim,
    _pooling,
    _recurrent,
    _schedules,
    _small,
    _train,
    _transformer,
)
from framejit.nn._cell import Cell, GraphCell
from framejit.nn._containers import CellDict, CellList, SequentialCell
from framejit.nn._tensor_array import TensorArray
from framejit.nn.utils import no_init_parameters

_MODULES = (
    *(_layers, _losses, _convolution, _pooling, _normalization, _image, _recurrent, _transformer),
    *(_combined, _small, _optim, _schedules, _train),
)
_LAYERS = {
    name: value
    for module in _MODULES
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, Cell) and not name.startswith("_")
}
globals().update(_LAYERS)
get_activation = _layers.get_activation
_FUNCTIONS = [name for name in vars(_schedules) if name.endswith("_lr")]
globals().update({name: getattr(_schedules, name) for name in _FUNCTIONS})
__all__ = [
    "Cell",
    "CellDict",
    "CellList",
    "GraphCell",
    "SequentialCell",
    "TensorArray",
    "get_activation",
    "no_init_parameters",
    *_FUNCTIONS,
]
__all__ += [name for name in _LAYERS if name not in __all__]

from framejit.nn import probability as probability  # noqa: E402  its cells are made of Cell

__all__ += ["probability"]


def __dir__() -> list[str]:
    from framejit.train import _measures, _metrics

    return sorted({*globals(), *_metrics.__all__, *_measures.__all__})


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):  # measures of training, which needs this module
        from framejit.train import _measures, _metrics

        for module in (_metrics, _measures):
            if name in module.__all__:
                return getattr(module, name)
    from framejit._api._names import unknown

    raise unknown("framejit.nn", name, __all__)
