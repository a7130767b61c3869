"""Training of networks: Model, its callbacks and metrics."""

from __future__ import annotations

from framejit._files._checkpoint import load_checkpoint, load_checkpoint_async, load_param_into_net, save_checkpoint
from framejit._files._export import export, load
from framejit.train import amp as amp
from framejit.train._callback import Callback, CheckpointConfig, LossMonitor, ModelCheckpoint, RunContext, TimeMonitor
from framejit.train._dataset_helper import DatasetHelper
from framejit.train._loss_scale import DynamicLossScaleManager, FixedLossScaleManager, LossScaleManager
from framejit.train._measures import (
    ROC,
    BleuScore,
    ConfusionMatrixMetric,
    CosineSimilarity,
    Dice,
    HausdorffDistance,
    MeanSurfaceDistance,
    OcclusionSensitivity,
    RootMeanSquareDistance,
    auc,
)
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
    get_metrics,
    names,
    rearrange_inputs,
)
from framejit.train._model import Model
from framejit.train._monitors import (
    BackupAndRestore,
    EarlyStopping,
    History,
    LambdaCallback,
    LearningRateScheduler,
    ReduceLROnPlateau,
)
from framejit.train._summary import SummaryRecord
from framejit.train.amp import build_train_network

__all__ = [
    "Accuracy",
    "BackupAndRestore",
    "BleuScore",
    "Callback",
    "CheckpointConfig",
    "ConfusionMatrix",
    "ConfusionMatrixMetric",
    "CosineSimilarity",
    "DatasetHelper",
    "Dice",
    "DynamicLossScaleManager",
    "EarlyStopping",
    "F1",
    "Fbeta",
    "FixedLossScaleManager",
    "HausdorffDistance",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "Loss",
    "LossMonitor",
    "LossScaleManager",
    "MAE",
    "MSE",
    "MeanSurfaceDistance",
    "Metric",
    "Model",
    "ModelCheckpoint",
    "OcclusionSensitivity",
    "Perplexity",
    "Precision",
    "ROC",
    "Recall",
    "ReduceLROnPlateau",
    "RootMeanSquareDistance",
    "RunContext",
    "SummaryRecord",
    "TimeMonitor",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "auc",
    "build_train_network",
    "export",
    "get_metric_fn",
    "get_metrics",
    "load",
    "load_checkpoint",
    "load_checkpoint_async",
    "load_param_into_net",
    "names",
    "rearrange_inputs",
    "save_checkpoint",
]
