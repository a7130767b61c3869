"""Training of networks: Model, its callbacks and metrics."""

from __future__ import annotations

from framejit._checkpoint import load_checkpoint, load_param_into_net, save_checkpoint
from framejit.train._callback import Callback, CheckpointConfig, LossMonitor, ModelCheckpoint, RunContext, TimeMonitor
from framejit.train._metrics import (
    F1,
    MAE,
    MSE,
    Accuracy,
    ConfusionMatrix,
    Fbeta,
    Loss,
    Metric,
    Perplexity,
    Precision,
    Recall,
    Top1CategoricalAccuracy,
    Top5CategoricalAccuracy,
    TopKCategoricalAccuracy,
    get_metric_fn,
    names,
)
from framejit.train._model import Model

__all__ = [
    "Accuracy",
    "Callback",
    "CheckpointConfig",
    "ConfusionMatrix",
    "F1",
    "Fbeta",
    "Loss",
    "LossMonitor",
    "MAE",
    "MSE",
    "Metric",
    "Model",
    "ModelCheckpoint",
    "Perplexity",
    "Precision",
    "Recall",
    "RunContext",
    "TimeMonitor",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "get_metric_fn",
    "load_checkpoint",
    "load_param_into_net",
    "names",
    "save_checkpoint",
]
