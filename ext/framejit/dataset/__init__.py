"""Data for training: arrays, generators or files, shuffled, mapped and put into batches."""

from __future__ import annotations

from framejit.dataset import config as config
from framejit.dataset import transforms as transforms
from framejit.dataset import vision as vision
from framejit.dataset._dataset import BatchInfo, Dataset
from framejit.dataset._dataset import zip_ as zip
from framejit.dataset._samplers import (
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    SubsetSampler,
)
from framejit.dataset._sources import (
    Cifar10Dataset,
    FashionMnistDataset,
    GeneratorDataset,
    MnistDataset,
    NumpySlicesDataset,
)

__all__ = [
    "BatchInfo", "Cifar10Dataset", "Dataset", "DistributedSampler", "FashionMnistDataset", "GeneratorDataset", "MnistDataset",
    "NumpySlicesDataset", "RandomSampler", "SequentialSampler", "SubsetRandomSampler", "SubsetSampler", "zip",
]  # fmt: skip
