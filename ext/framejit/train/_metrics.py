"""What Model.eval measures."""

from __future__ import annotations

import functools
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from framejit._tensors._tensor import Tensor

__all__ = [
    "Accuracy",
    "ConfusionMatrix",
    "F1",
    "Fbeta",
    "Loss",
    "MAE",
    "MSE",
    "Metric",
    "Perplexity",
    "Precision",
    "Recall",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "get_metric_fn",
    "get_metrics",
    "names",
    "rearrange_inputs",
]


def rearrange_inputs(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate an `update`, so that it receives the inputs that `Metric.set_indexes` chose.

    Parameters
    ----------
    func : callable
        A method ``update(self, *inputs)``.

    Examples
    --------
    >>> import framejit as fj
    >>> class Total(fj.nn.Metric):
    ...     def clear(self):
    ...         self.total = 0.0
    ...     @fj.nn.rearrange_inputs
    ...     def update(self, *inputs):
    ...         self.total += inputs[0]
    ...     def eval(self):
    ...         return self.total
    >>> Total().set_indexes([1])(1.0, 3.0)
    3.0
    """

    @functools.wraps(func)
    def update(self: Metric, *inputs: Any) -> Any:
        return func(self, *([inputs[at] for at in self.indexes] if self.indexes else inputs))

    return update


class Metric(metaclass=ABCMeta):
    """The base class of measures: `clear`, `update` with the results of the evaluation, and `eval`. A call does all three."""

    def __init__(self) -> None:
        self._indexes: list[int] | None = None

    @property
    def indexes(self) -> list[int] | None:
        """The inputs of `update` that count, in order; None: all."""
        return getattr(self, "_indexes", None)

    def set_indexes(self, indexes: list[int]) -> Metric:
        """Choose the inputs of `update` that count.

        Parameters
        ----------
        indexes : list of int
            Their positions, in order.
        """
        if not isinstance(indexes, list) or not all(isinstance(at, int) for at in indexes):
            raise ValueError(f"For 'set_indexes', the 'indexes' must be a list of int, but got {indexes!r}.")
        self._indexes = indexes
        return self

    def __call__(self, *inputs: Any) -> Any:
        self.clear()
        self.update(*inputs)
        return self.eval()

    def _convert_data(self, data: Any) -> np.ndarray:
        if not isinstance(data, (Tensor, list, np.ndarray)):
            raise TypeError(
                f"For {type(self).__name__!r}, the inputs must be Tensors, lists or arrays, but got {type(data).__name__}."
            )
        return _array(data)

    @abstractmethod
    def clear(self) -> None:
        """Forget all batches."""

    @abstractmethod
    def update(self, *inputs: Any) -> None:
        """Add a batch.

        Parameters
        ----------
        *inputs
            Results of the evaluation, such as predictions and labels.
        """

    @abstractmethod
    def eval(self) -> Any:
        """Return the measure over all batches."""


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.asnumpy() if hasattr(value, "asnumpy") else value)


def _seen(metric: Metric, count: int, what: str = "sample") -> None:
    if not count:
        raise RuntimeError(f"{type(metric).__name__!r} has seen no {what}.")


def _check_eval_type(eval_type: str) -> str:
    if eval_type not in ("classification", "multilabel"):
        raise TypeError(f"'eval_type' must be 'classification' or 'multilabel', but got {eval_type!r}.")
    return eval_type


class Accuracy(Metric):
    """The share of correct predictions: ``update(predictions, labels)``.

    Parameters
    ----------
    eval_type : {'classification', 'multilabel'}
        Whether a sample has one label or several.
    """

    def __init__(self, eval_type: str = "classification") -> None:
        self.eval_type: str = _check_eval_type(eval_type)
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._right = self._total = 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a batch of predictions and labels."""
        predicted, label = map(_array, inputs[-2:])
        if self.eval_type == "multilabel":
            right = (predicted == label).all(axis=tuple(range(1, label.ndim)))
        else:
            right = predicted.argmax(1) == (label.argmax(1) if label.ndim == predicted.ndim else label)
        self._right += int(right.sum())
        self._total += right.size

    def eval(self) -> float:
        """Return the share of correct predictions."""
        _seen(self, self._total)
        return self._right / self._total


class _ByClass(Metric):
    """What is counted for each class: `update` with predictions of shape (N, C), and labels of shape (N,), or (N, C) of zeros and ones."""

    def __init__(self, eval_type: str = "classification") -> None:
        self.eval_type: str = _check_eval_type(eval_type)
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._classes = 0
        self._counts = np.zeros(
            (3, 0)
        )  # right, predicted and labelled as it, by class; of several labels: by batch and sample

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a batch."""
        name = type(self).__name__
        if len(inputs) != 2:
            raise ValueError(f"{name!r} needs predictions and labels, but got {len(inputs)} values.")
        predicted, label = map(_array, inputs)
        classes = predicted.shape[1] if predicted.ndim > 1 else 0
        if not classes or label.shape not in (predicted.shape, predicted.shape[:1]):
            raise ValueError(
                f"{name!r} needs predictions of shape (N, C) and labels of (N,) or (N, C), but got {predicted.shape} and {label.shape}."
            )
        if self._classes not in (0, classes):
            raise ValueError(
                f"{name!r} has seen {self._classes} classes, but got predictions of shape {predicted.shape}."
            )
        if self.eval_type == "multilabel":
            if label.shape != predicted.shape or not (
                np.isin(predicted, (0, 1)).all() and np.isin(label, (0, 1)).all()
            ):
                raise ValueError(
                    f"{name!r} of 'multilabel' needs predictions and labels of shape (N, C), of zeros and ones."
                )
            of_prediction, of_label = predicted.T.astype(float), label.T.astype(float)
        else:
            number = label.argmax(1) if label.ndim == predicted.ndim else label.astype(int)
            if number.size and not 0 <= number.min() <= number.max() < classes:
                raise ValueError(
                    f"{name!r} needs labels from 0 to {classes - 1}, but got {number.min()} to {number.max()}."
                )
            of_prediction, of_label = np.eye(classes)[predicted.argmax(1)], np.eye(classes)[number]
        counts = np.stack([(of_prediction * of_label).sum(0), of_prediction.sum(0), of_label.sum(0)])
        self._counts = (
            np.concatenate([self._counts, counts], 1)
            if self.eval_type == "multilabel" or not self._classes
            else self._counts + counts
        )
        self._classes = classes

    def eval(self, average: bool = False) -> Any:
        """By class, or the mean with `average`; of several labels: by sample."""
        _seen(self, self._classes)
        if not isinstance(average, bool):
            raise TypeError(f"For {type(self).__name__!r}, 'average' must be a bool, but got {average!r}.")
        result = self._share(*self._counts)
        return result.mean() if average else result

    def _share(self, right: np.ndarray, predicted: np.ndarray, labelled: np.ndarray) -> np.ndarray:
        raise NotImplementedError


_TINY = np.finfo(float).tiny  # of nothing, the share is 0


class Precision(_ByClass):
    """For each class, the share of correct predictions among those of this class: ``update(predictions, labels)``.

    Parameters
    ----------
    eval_type : {'classification', 'multilabel'}
        Whether a sample has one label or several.
    """

    def _share(self, right: np.ndarray, predicted: np.ndarray, labelled: np.ndarray) -> np.ndarray:
        return right / (predicted + _TINY)


class Recall(_ByClass):
    """For each class, the share of its samples that are predicted as this class: ``update(predictions, labels)``.

    Parameters
    ----------
    eval_type : {'classification', 'multilabel'}
        Whether a sample has one label or several.
    """

    def _share(self, right: np.ndarray, predicted: np.ndarray, labelled: np.ndarray) -> np.ndarray:
        return right / (labelled + _TINY)


class Fbeta(_ByClass):
    """The weighted harmonic mean of `Precision` and `Recall`: ``update(predictions, labels)``.

    Parameters
    ----------
    beta : float
        The weight of `Recall` is ``beta**2``.
    """

    def __init__(self, beta: float) -> None:
        if not beta > 0:
            raise ValueError(f"For {type(self).__name__!r}, 'beta' must be greater than 0, but got {beta!r}.")
        self.beta = beta
        super().__init__()

    def _share(self, right: np.ndarray, predicted: np.ndarray, labelled: np.ndarray) -> np.ndarray:
        return (1 + self.beta**2) * right / (self.beta**2 * labelled + predicted + _TINY)


class F1(Fbeta):
    """`Fbeta` with ``beta=1``."""

    def __init__(self) -> None:
        super().__init__(1.0)


class _Mean(Metric):
    """A sum over samples, by their number."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._sum, self._count = 0.0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a batch."""
        if len(inputs) != 2:
            raise ValueError(f"{type(self).__name__!r} needs predictions and labels, but got {len(inputs)} values.")
        total, count = self._measured(*map(_array, inputs))
        self._sum += total
        self._count += count

    def eval(self) -> Any:
        """The mean."""
        _seen(self, self._count)
        return self._sum / self._count

    def _measured(self, predicted: np.ndarray, label: np.ndarray) -> tuple[Any, int]:
        """(the sum, the number of samples)"""
        raise NotImplementedError


class MAE(_Mean):
    """The sum of absolute errors by the number of samples: ``update(predictions, labels)``."""

    def _measured(self, predicted: np.ndarray, label: np.ndarray) -> tuple[Any, int]:
        return np.abs(label.reshape(predicted.shape) - predicted).sum(), len(label)


class MSE(_Mean):
    """The sum of squared errors by the number of samples: ``update(predictions, labels)``."""

    def _measured(self, predicted: np.ndarray, label: np.ndarray) -> tuple[Any, int]:
        return np.square(label.reshape(predicted.shape) - predicted).sum(), len(label)


class TopKCategoricalAccuracy(_Mean):
    """The share of labels that are among the `k` largest predictions: ``update(predictions, labels)``.

    Parameters
    ----------
    k : int
        The number of predictions that count.
    """

    def __init__(self, k: int) -> None:
        if isinstance(k, bool) or not isinstance(k, int):
            raise TypeError(f"For {type(self).__name__!r}, 'k' must be an int, but got {k!r}.")
        if k < 1:
            raise ValueError(f"For {type(self).__name__!r}, 'k' must be at least 1, but got {k}.")
        self.k = k
        super().__init__()

    def _measured(self, predicted: np.ndarray, label: np.ndarray) -> tuple[Any, int]:
        if label.ndim == predicted.ndim:
            label = label.argmax(1)
        largest = np.argsort(-predicted, axis=1)[:, : self.k]
        return int((largest == label.reshape(-1, 1)).sum()), len(label)


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    """`TopKCategoricalAccuracy` with ``k=1``."""

    def __init__(self) -> None:
        super().__init__(1)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    """`TopKCategoricalAccuracy` with ``k=5``."""

    def __init__(self) -> None:
        super().__init__(5)


class Perplexity(_Mean):
    """The exponential of the mean of ``-log(p)``, where ``p`` is the probability that is predicted for the label: ``update(probabilities, labels)``.

    Parameters
    ----------
    ignore_label : int, optional
        Samples with this label do not count.
    """

    def __init__(self, ignore_label: int | None = None) -> None:
        if ignore_label is not None and not isinstance(ignore_label, int):
            raise TypeError(f"For 'Perplexity', 'ignore_label' must be None or an int, but got {ignore_label!r}.")
        self.ignore_label = ignore_label
        super().__init__()

    def _measured(self, predicted: np.ndarray, label: np.ndarray) -> tuple[Any, int]:
        number = label.reshape(-1).astype(int)
        if number.size * predicted.shape[-1] != predicted.size:
            raise RuntimeError(
                f"'Perplexity' needs a label for each row of predictions, but got the shapes {predicted.shape} and {label.shape}."
            )
        counts = np.ones(number.shape, bool) if self.ignore_label is None else number != self.ignore_label
        found = predicted.reshape(len(number), -1)[counts, number[counts]]
        return -np.log(np.maximum(1e-10, found)).sum(), int(counts.sum())

    def eval(self) -> Any:
        """The perplexity."""
        return np.exp(super().eval())


class ConfusionMatrix(Metric):
    """How often a label, by row, was predicted as each class, by column: ``update(predictions, labels)``.

    Parameters
    ----------
    num_classes : int
        The classes: labels from 0 to `num_classes` - 1.
    normalize : {'no_norm', 'target', 'prediction', 'all'}
        What adds up to 1: nothing, rows, columns, all.
    threshold : float
        Of predictions with the shape of the labels, those above it are class 1.
    """

    num_classes: int
    threshold: float

    def __init__(self, num_classes: int, normalize: str = "no_norm", threshold: float = 0.5) -> None:
        if normalize not in ("no_norm", "target", "prediction", "all"):
            raise ValueError(f"'normalize' must be 'no_norm', 'target', 'prediction' or 'all', but got {normalize!r}.")
        if isinstance(num_classes, bool) or not isinstance(num_classes, int) or not isinstance(threshold, float):
            raise TypeError(
                f"For 'ConfusionMatrix', 'num_classes' must be an int and 'threshold' a float, but got {num_classes!r} and {threshold!r}."
            )
        self.num_classes, self.normalize, self.threshold = num_classes, normalize, threshold
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._counts, self._batches = np.zeros((self.num_classes, self.num_classes)), 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a batch."""
        predicted, label = map(_array, inputs)
        if predicted.ndim not in (label.ndim, label.ndim + 1):
            raise ValueError(
                f"'ConfusionMatrix' needs predictions with the axes of the labels or one more, but got {predicted.shape} and {label.shape}."
            )
        if predicted.ndim == label.ndim + 1:
            predicted = predicted.argmax(1)
        elif predicted.dtype.kind == "f":
            predicted = predicted > self.threshold
        at = label.ravel().astype(int) * self.num_classes + predicted.ravel().astype(int)
        self._counts += np.bincount(at, minlength=self.num_classes**2).reshape(self._counts.shape)
        self._batches += 1

    def eval(self) -> np.ndarray:
        """The matrix."""
        _seen(self, self._batches, "batch")
        if self.normalize == "no_norm":
            return self._counts.copy()
        sums = self._counts.sum(axis={"target": 1, "prediction": 0, "all": None}[self.normalize], keepdims=True)
        return np.divide(self._counts, sums, out=np.zeros_like(self._counts), where=sums != 0)


class Loss(_Mean):
    """The mean of the losses: ``update(loss)``."""

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a batch."""
        self._sum += float(np.mean(_array(inputs[0])))
        self._count += 1

    def eval(self) -> float:
        """The mean."""
        _seen(self, self._count, "batch")
        return self._sum / self._count


NAMES: dict[str, Callable[..., Any]] = {
    "accuracy": Accuracy,
    "acc": Accuracy,
    "confusion_matrix": ConfusionMatrix,
    "F1": F1,
    "loss": Loss,
    "mae": MAE,
    "mse": MSE,
    "perplexity": Perplexity,
    "precision": Precision,
    "recall": Recall,
    "top_1_accuracy": Top1CategoricalAccuracy,
    "top_5_accuracy": Top5CategoricalAccuracy,
    "topk": TopKCategoricalAccuracy,
}


def names() -> list[str]:
    """Return the names of the measures."""
    return sorted(NAMES)


def get_metric_fn(name: str, *args: Any, **kwargs: Any) -> Metric:
    """Return the measure with a name.

    Parameters
    ----------
    name : str
        One of `names`.
    *args, **kwargs
        The arguments of its class.

    Raises
    ------
    KeyError
        If there is no such measure.
    """
    if name not in NAMES:
        raise KeyError(f"For 'get_metric_fn', the metric {name!r} is not known; there are: {names()}.")
    return NAMES[name](*args, **kwargs)


def get_metrics(metrics: Any) -> Any:
    """Return measures as a dict by name.

    Parameters
    ----------
    metrics : dict, set of str, or None
        A dict of measures, which is copied, or names. None is returned unchanged.
    """
    if metrics is None:
        return None
    if isinstance(metrics, dict):
        for name, metric in metrics.items():
            if not isinstance(name, str) or not isinstance(metric, Metric):
                raise TypeError(f"The metric {name!r} must be a Metric by its name, but got {type(metric).__name__}.")
        return dict(metrics)
    if not isinstance(metrics, (set, frozenset, list, tuple)):
        raise TypeError(f"The 'metrics' must be None, a dict or a set of names, but got {metrics!r}.")
    return {name: get_metric_fn(name) for name in metrics}
