"""``mindspore.mint.nn``."""

from __future__ import annotations

from typing import Any

from framejit import nn as _nn
from framejit.mint.nn import functional as functional

_SAME = "ReLU ReLU6 Sigmoid Tanh Softmax LogSoftmax ELU SiLU GELU Identity MSELoss L1Loss CrossEntropyLoss BCEWithLogitsLoss Linear"
globals().update({name: getattr(_nn, name) for name in _SAME.split()})


class GroupNorm(_nn.GroupNorm):
    """Mean 0 and variance 1 for each group of channels."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: Any = None
    ) -> None:
        super().__init__(num_groups, num_channels, eps, affine, **({} if dtype is None else {"dtype": dtype}))


class Dropout(_nn.Dropout):
    """While training, zeros with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)
