"""Training of networks: Model, its callbacks and metrics."""

from __future__ import annotations

from framejit._checkpoint import load_checkpoint, load_param_into_net, save_checkpoint
from framejit.train._callback import Callback, CheckpointConfig, LossMonitor, ModelCheckpoint, RunContext, TimeMonitor
from framejit.train._metrics import Accuracy, Loss, Metric
from framejit.train._model import Model

__all__ = [
    "Accuracy",
    "Callback",
    "CheckpointConfig",
    "Loss",
    "LossMonitor",
    "Metric",
    "Model",
    "ModelCheckpoint",
    "RunContext",
    "TimeMonitor",
    "load_checkpoint",
    "load_param_into_net",
    "save_checkpoint",
]
