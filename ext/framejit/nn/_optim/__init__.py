"""Optimizers: called with a tuple of gradients, they write the parameters."""

from __future__ import annotations

from framejit.nn._optim._adam import Adam, AdaMax, AdamOffload, AdamWeightDecay, Lamb, LazyAdam
from framejit.nn._optim._adaptive import FTRL, Adadelta, AdaFactor, Adagrad, ProximalAdagrad, RMSProp
from framejit.nn._optim._base import Optimizer
from framejit.nn._optim._descent import ASGD, LARS, SGD, Momentum, Rprop

__all__ = [
    "ASGD", "FTRL", "LARS", "SGD", "AdaFactor", "AdaMax", "Adadelta", "Adagrad", "Adam", "AdamOffload", "AdamWeightDecay", "Lamb",
    "LazyAdam", "Momentum", "Optimizer", "ProximalAdagrad", "RMSProp", "Rprop",
]  # fmt: skip
