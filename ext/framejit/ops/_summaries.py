"""The operators that keep a value for `train.SummaryRecord`."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit.ops._primitives import Primitive

__all__ = ["HistogramSummary", "ImageSummary", "ScalarSummary", "TensorSummary"]

_kept: dict[tuple[str, str], Any] = {}  # by plugin and name


def checked(plugin: str, value: Any, caller: str) -> np.ndarray:
    """A copy of the Tensor's values, if they are what the plugin writes."""
    if not isinstance(value, _core.Tensor):
        raise TypeError(f'For "{caller}", the parameter "value" expect to be Tensor, but got {type(value).__name__}')
    if plugin == "scalar" and value.size != 1:
        raise ValueError(f'For "{caller}", the v rank must be less than or equal to 1, but got {len(value)}.')
    if plugin == "image" and value.ndim != 4:
        raise ValueError(f'For "{caller}", the tensor seems not to hold a valid image.')
    if plugin in ("tensor", "histogram") and value.ndim == 0:
        raise ValueError(f'For "{caller}", the value should not be empty.')
    return np.array(value.asnumpy())


def taken() -> list[tuple[str, str, Any]]:
    """(plugin, name, value) of all values since the last call."""
    found = [(*key, value) for key, value in _kept.items()]
    _kept.clear()
    return found


class _Summary(Primitive):
    """Keeps a Tensor under a name until the next `record` of a SummaryRecord; a later one takes its place."""

    _plugin = ""

    def __call__(self, name: str, value: Any) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f'For "{self.name}", the name must be valid string, but got "{name}".')
        _kept[self._plugin, name] = _core.Tensor(checked(self._plugin, value, self.name))


class ScalarSummary(_Summary):
    """Keeps a Tensor of one element under a name until the next `record` of a SummaryRecord; a later one takes its place."""

    _plugin = "scalar"


class ImageSummary(_Summary):
    """Keeps images (N, 1 or 3, H, W) under a name until the next `record` of a SummaryRecord; later ones take their place."""

    _plugin = "image"


class TensorSummary(_Summary):
    """Keeps a Tensor under a name until the next `record` of a SummaryRecord; a later one takes its place."""

    _plugin = "tensor"


class HistogramSummary(_Summary):
    """Keeps a Tensor, of which the histogram is written, under a name until the next `record` of a SummaryRecord."""

    _plugin = "histogram"
