"""Further measures: of curves, sentences, vectors, shares of classes, and places in images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from framejit._tensors._tensor import Tensor
from framejit.nn._cell import Cell
from framejit.train._metrics import NAMES, Metric, rearrange_inputs

__all__ = [
    "ROC",
    "BleuScore",
    "ConfusionMatrixMetric",
    "CosineSimilarity",
    "Dice",
    "HausdorffDistance",
    "MeanSurfaceDistance",
    "OcclusionSensitivity",
    "RootMeanSquareDistance",
    "auc",
]


def _of_type(metric: Any, types: Any, **values: Any) -> None:
    kinds = types if isinstance(types, tuple) else (types,)
    for name, value in values.items():
        if not isinstance(value, kinds) or isinstance(value, bool) and bool not in kinds:
            wanted = " or ".join([kind.__name__ for kind in kinds])
            raise TypeError(f"For {type(metric).__name__!r}, the {name!r} must be {wanted}, but got {value!r}.")


def _one_of(metric: Any, allowed: tuple[str, ...], **values: Any) -> None:
    _of_type(metric, str, **values)
    for name, value in values.items():
        if value not in allowed:
            raise ValueError(
                f"For {type(metric).__name__!r}, the {name!r} must be one of {allowed}, but got {value!r}."
            )


def _count(metric: Any, inputs: tuple[Any, ...], count: int) -> None:
    if len(inputs) != count:
        raise ValueError(f"{type(metric).__name__!r} needs {count} values, but got {len(inputs)}.")


class _OfLast(Metric):
    """What is measured of the last `update` alone."""

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._last: Any = None

    def _updated(self) -> Any:
        if self._last is None:
            raise RuntimeError(f"{type(self).__name__!r} has seen nothing: 'update' comes before 'eval'.")
        return self._last


# --- Curves -----------------------------------------------------------------------------------------------------------------------


class ROC(_OfLast):
    """The receiver operating characteristic of the last ``update(predictions, labels)``: (false positive rates, true positive rates, thresholds).

    Parameters
    ----------
    class_num : int, optional
        How many classes the predictions have, if they have an axis more than the labels; then each result is a list by class.
    pos_label : int, optional
        The label that is positive, else 1.
    """

    class_num: int | None
    pos_label: int | None

    def __init__(self, class_num: int | None = None, pos_label: int | None = None) -> None:
        for name, value in (("class_num", class_num), ("pos_label", pos_label)):
            if value is not None:
                _of_type(self, int, **{name: value})
        self.class_num, self.pos_label = class_num, pos_label
        super().__init__()

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and labels in."""
        _count(self, inputs, 2)
        predicted, label = map(self._convert_data, inputs)
        if predicted.ndim == label.ndim:
            if self.class_num not in (None, 1):
                raise ValueError(
                    f"For 'ROC', 'class_num' must be 1 for predictions of the shape of the labels, but got {self.class_num}."
                )
            positive = 1 if self.pos_label is None else self.pos_label
            self._last = (predicted.ravel(), label.ravel() == positive)
        elif predicted.ndim == label.ndim + 1:
            if self.pos_label is not None or self.class_num != predicted.shape[1]:
                raise ValueError(
                    f"For 'ROC', predictions of shape {predicted.shape} need 'class_num' {predicted.shape[1]} and no 'pos_label', but got "
                    f"{self.class_num} and {self.pos_label}."
                )
            rows = np.moveaxis(predicted, 1, 0).reshape(self.class_num, -1)
            self._last = [(row, label.ravel() == number) for number, row in enumerate(rows)]
        else:
            raise ValueError(
                f"'ROC' needs predictions with the axes of the labels or one more, but got {predicted.shape} and {label.shape}."
            )

    def eval(self) -> Any:
        """The curve, or lists of those of the classes."""
        last = self._updated()
        if isinstance(last, tuple):
            return self._curve(*last)
        return tuple(map(list, zip(*[self._curve(*of_class) for of_class in last], strict=True)))

    @staticmethod
    def _curve(predicted: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        order = np.argsort(-predicted, kind="stable")
        predicted, positive = predicted[order], positive[order]
        ends = np.append(np.flatnonzero(np.diff(predicted)), predicted.size - 1)
        right = np.concatenate([[0], np.cumsum(positive)[ends]])
        wrong = np.concatenate([[0], ends + 1]) - right
        for name, count in (("negative", wrong[-1]), ("positive", right[-1])):
            if count <= 0:
                raise ValueError(f"For 'ROC', there is no {name} label.")
        thresholds = predicted[ends]
        return wrong / wrong[-1], right / right[-1], np.concatenate([thresholds[:1] + 1, thresholds])


def auc(x: np.ndarray, y: np.ndarray, reorder: bool = False) -> Any:
    """Return the area below a curve, by trapezoids.

    Parameters
    ----------
    x, y : numpy.ndarray
        The points of the curve. `x` increases or decreases.
    reorder : bool
        Sort the points first.

    Examples
    --------
    >>> import numpy as np
    >>> from framejit.train import auc
    >>> float(auc(np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0, 1.0])))
    0.75
    """
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        raise TypeError(
            f"For 'auc', 'x' and 'y' must be np.ndarray, but got {type(x).__name__} and {type(y).__name__}."
        )
    for one in (x, y):
        if one.ndim != 1 and one.shape[1:] != (1,):
            raise ValueError(f"For 'auc', 'x' and 'y' must have one dimension, or two of (n, 1), but got {one.shape}.")
    if len(x) != len(y) or len(x) < 2:
        raise ValueError(
            f"For 'auc', 'x' and 'y' must be as long, with two elements or more, but got {len(x)} and {len(y)}."
        )
    x, y, sign = x.ravel(), y.ravel(), 1
    if reorder:
        order = np.lexsort((y, x))
        x, y = x[order], y[order]
    elif (np.diff(x) < 0).any():
        if not (np.diff(x) <= 0).all():
            raise ValueError("For 'auc', 'x' must increase or decrease where 'reorder' is False.")
        sign = -1
    return sign * ((y[1:] + y[:-1]) * np.diff(x) / 2).sum()


# --- Sentences and vectors ---------------------------------------------------------------------------------------------------------


class BleuScore(Metric):
    """How many runs of words of translations are in references: ``update(translations, references)``, the latter several for each.

    Parameters
    ----------
    n_gram : int
        The largest number of words in a run, at most 4.
    smooth : bool
        One is added to the numbers of runs.
    """

    n_gram: int
    smooth: bool

    def __init__(self, n_gram: int = 4, smooth: bool = False) -> None:
        super().__init__()
        _of_type(self, int, n_gram=n_gram)
        _of_type(self, bool, smooth=smooth)
        if not 1 <= n_gram <= 4:
            raise ValueError(f"For 'BleuScore', the 'n_gram' must be from 1 to 4, but got {n_gram}.")
        self.n_gram, self.smooth = n_gram, smooth
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._found, self._of = np.zeros(self.n_gram), np.zeros(self.n_gram)
        self._length = self._wanted = 0

    def _runs(self, words: Any) -> Counter[Any]:
        sizes = range(1, self.n_gram + 1)
        return Counter(tuple(words[at : at + size]) for size in sizes for at in range(len(words) - size + 1))

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take translations and their references in."""
        _count(self, inputs, 2)
        if len(inputs[0]) != len(inputs[1]):
            raise ValueError(
                f"'BleuScore' needs references for each translation, but got {len(inputs[0])} and {len(inputs[1])}."
            )
        for words, references in zip(*inputs, strict=True):
            self._length += len(words)
            self._wanted += min([len(one) for one in references], key=lambda size: abs(size - len(words)))
            known: Counter[Any] = Counter()
            for one in references:
                known |= self._runs(one)
            own = self._runs(words)
            for run, count in own.items():
                self._of[len(run) - 1] += count
                self._found[len(run) - 1] += min(count, known[run])

    def eval(self) -> Any:
        """The score."""
        if not self._wanted:
            raise RuntimeError("'BleuScore' has seen nothing: 'update' comes before 'eval'.")
        if not self._found.all():
            return np.array(0.0)
        shares = (self._found + self.smooth) / (self._of + self.smooth)
        short = 1.0 if self._length > self._wanted else np.exp(1 - self._wanted / self._length)
        return short * np.exp(np.log(shares).mean())


class CosineSimilarity(_OfLast):
    """Products of the rows of the last ``update(rows)``, with each other.

    Parameters
    ----------
    similarity : {'cosine', 'dot'}
        Whether the rows are divided by their norms.
    reduction : {'none', 'sum', 'mean'}
        What becomes of each row of products.
    zero_diagonal : bool
        The products of rows with themselves count as 0.
    """

    similarity: str
    reduction: str
    zero_diagonal: bool

    def __init__(self, similarity: str = "cosine", reduction: str = "none", zero_diagonal: bool = True) -> None:
        _one_of(self, ("dot", "cosine"), similarity=similarity)
        _one_of(self, ("none", "sum", "mean"), reduction=reduction)
        _of_type(self, bool, zero_diagonal=zero_diagonal)
        self.similarity, self.reduction, self.zero_diagonal = similarity, reduction, zero_diagonal
        super().__init__()

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take rows in."""
        _count(self, inputs, 1)
        rows = self._convert_data(inputs[0])
        if self.similarity == "cosine":
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self._last = rows @ rows.T

    def eval(self) -> Any:
        """The products, or what became of them."""
        products = self._updated().copy()
        if self.zero_diagonal:
            np.fill_diagonal(products, 0)
        return products if self.reduction == "none" else getattr(np, self.reduction)(products, axis=-1)


# --- Shares of classes -------------------------------------------------------------------------------------------------------------


def _share(of: Any, total: Any) -> Any:
    return np.divide(of, total, out=np.full(np.shape(total), np.nan), where=total != 0)


# By name: of the numbers of right and wrong positives, and of right and wrong negatives.
_SHARES: dict[str, Callable[..., Any]] = {
    "tpr": lambda tp, fp, tn, fn: _share(tp, tp + fn),
    "tnr": lambda tp, fp, tn, fn: _share(tn, tn + fp),
    "ppv": lambda tp, fp, tn, fn: _share(tp, tp + fp),
    "npv": lambda tp, fp, tn, fn: _share(tn, tn + fn),
    "fnr": lambda tp, fp, tn, fn: _share(fn, tp + fn),
    "fpr": lambda tp, fp, tn, fn: _share(fp, tn + fp),
    "fdr": lambda tp, fp, tn, fn: _share(fp, fp + tp),
    "for": lambda tp, fp, tn, fn: _share(fn, fn + tn),
    "pt": lambda *n: _threshold(_SHARES["tpr"](*n), _SHARES["tnr"](*n)),
    "ts": lambda tp, fp, tn, fn: _share(tp, tp + fn + fp),
    "acc": lambda tp, fp, tn, fn: _share(tp + tn, tp + fp + tn + fn),
    "ba": lambda *n: (_SHARES["tpr"](*n) + _SHARES["tnr"](*n)) / 2,
    "f1": lambda tp, fp, tn, fn: _share(2 * tp, 2 * tp + fn + fp),
    "mcc": lambda tp, fp, tn, fn: _share(tp * tn - fp * fn, np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))),
    "fm": lambda *n: np.sqrt(_SHARES["ppv"](*n) * _SHARES["tpr"](*n)),
    "bm": lambda *n: _SHARES["tpr"](*n) + _SHARES["tnr"](*n) - 1,
    "mk": lambda *n: _SHARES["ppv"](*n) + _SHARES["npv"](*n) - 1,
}
_OTHER_NAMES = {
    "tpr": "sensitivity recall hit_rate true_positive_rate",
    "tnr": "specificity selectivity true_negative_rate",
    "ppv": "precision positive_predictive_value",
    "npv": "negative_predictive_value",
    "fnr": "miss_rate false_negative_rate",
    "fpr": "fall_out false_positive_rate",
    "fdr": "false_discovery_rate",
    "for": "false_omission_rate",
    "pt": "prevalence_threshold",
    "ts": "threat_score critical_success_index csi",
    "acc": "accuracy",
    "ba": "balanced_accuracy",
    "f1": "f1_score",
    "mcc": "matthews_correlation_coefficient",
    "fm": "fowlkes_mallows_index",
    "bm": "informedness bookmaker_informedness",
    "mk": "markedness deltap",
}
_SHORT = {name: short for short, others in _OTHER_NAMES.items() for name in (short, *others.split())}


def _threshold(right: Any, negative: Any) -> Any:
    return _share(np.sqrt(right * (1 - negative)) + negative - 1, right + negative - 1)


_AXES = {"batch": 0, "channel": 1}


class ConfusionMatrixMetric(Metric):
    """A share of right or wrong predictions: ``update(predictions, labels)``, both [N, C, ...] of zeros and ones.

    Parameters
    ----------
    skip_channel : bool
        False leaves out the first class.
    metric_name : str
        'sensitivity', 'specificity', 'precision', 'f1_score', 'accuracy' ..., or their abbreviations.
    calculation_method : bool
        Whether shares are of each sample and class, and then brought together; else numbers are added up first.
    decrease : {'none', 'mean', 'sum', 'mean_batch', 'sum_batch', 'mean_channel', 'sum_channel'}
        How they are brought together: over classes and then samples, or along one of the two.
    """

    skip_channel: bool
    metric_name: str
    calculation_method: bool
    decrease: str

    def __init__(
        self,
        skip_channel: bool = True,
        metric_name: str = "sensitivity",
        calculation_method: bool = False,
        decrease: str = "mean",
    ) -> None:
        super().__init__()
        _of_type(self, bool, skip_channel=skip_channel, calculation_method=calculation_method)
        _of_type(self, str, metric_name=metric_name)
        _one_of(self, ("none", "mean", "sum", *[f"{a}_{b}" for b in _AXES for a in ("mean", "sum")]), decrease=decrease)
        self.skip_channel, self.metric_name = skip_channel, metric_name
        self.calculation_method, self.decrease = calculation_method, decrease
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._total, self._count, self._numbers = 0.0, 0, np.zeros(4)

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a batch."""
        _count(self, inputs, 2)
        predicted, label = map(self._convert_data, inputs)
        if (label.astype(np.uint8) != label).any():
            raise ValueError("'ConfusionMatrixMetric' needs labels of zeros and ones.")
        if predicted.ndim < 2 or predicted.shape != label.shape:
            raise ValueError(
                f"'ConfusionMatrixMetric' needs predictions and labels [N, C, ...] of one shape, but got {predicted.shape} and {label.shape}."
            )
        if not self.skip_channel and predicted.shape[1] > 1:
            predicted, label = predicted[:, 1:], label[:, 1:]
        predicted, label = [x.reshape(*x.shape[:2], -1).astype(float) for x in (predicted, label)]
        right, neither = (predicted + label == 2).sum(2, dtype=float), (predicted + label == 0).sum(2, dtype=float)
        positive = label.sum(2)
        negative = label.shape[2] - positive
        numbers = (right, negative - neither, neither, positive - right)
        if not self.calculation_method:
            self._numbers += [one.sum() for one in numbers]
            return
        share, count = self._brought_together(self._formula()(*numbers))
        self._total += share.item() * count.item()
        self._count += int(count.item())

    def _formula(self) -> Callable[..., Any]:
        name = self.metric_name.replace(" ", "_").lower()
        if name not in _SHORT:
            raise NotImplementedError(
                f"For 'ConfusionMatrixMetric', there is no metric {self.metric_name!r}; there are: {', '.join(_SHORT)}."
            )
        return _SHARES[_SHORT[name]]

    def _brought_together(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(shares, how many numbers each is of), where a share that is NaN is none."""
        counts, shares = (~np.isnan(shares)).astype(float), np.nan_to_num(shares)
        how, _, along = self.decrease.partition("_")
        if how == "none":
            return shares, counts
        for axis in (_AXES[along],) if along else (1, 0):
            total, counts = shares.sum(axis), counts.sum(axis)
            if how == "mean":
                shares = np.where(counts > 0, total / np.maximum(counts, 1), 0.0)
                counts = counts if along or axis == 0 else (counts > 0).astype(float)
            else:
                shares = total
        return shares, counts

    def eval(self) -> Any:
        """The share."""
        if not self.calculation_method:
            return self._formula()(*self._numbers[:, None])
        if not self._count:
            raise RuntimeError("'ConfusionMatrixMetric' has seen no sample.")
        return self._total / self._count


# --- Images ------------------------------------------------------------------------------------------------------------------------


class Dice(Metric):
    """The Dice coefficient: ``update(predictions, labels)``.

    It is twice the product of predictions and labels, divided by the sum of their squares, summed over batches and divided by the number of
    samples.

    Parameters
    ----------
    smooth : float
        A positive number that is added to the divisor.
    """

    def __init__(self, smooth: float = 1e-5) -> None:
        super().__init__()
        _of_type(self, float, smooth=smooth)
        if smooth <= 0:
            raise ValueError(f"For 'Dice', the 'smooth' must be positive, but got {smooth}.")
        self.smooth = smooth
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._sum, self._samples = 0.0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a batch."""
        _count(self, inputs, 2)
        predicted, label = map(self._convert_data, inputs)
        if predicted.shape != label.shape:
            raise ValueError(
                f"'Dice' needs predictions and labels of one shape, but got {predicted.shape} and {label.shape}."
            )
        x, y = predicted.ravel(), label.ravel()
        self._sum += 2 * float(x @ y) / (float(x @ x + y @ y) + self.smooth)
        self._samples += len(label)

    def eval(self) -> float:
        """The coefficient."""
        if not self._samples:
            raise RuntimeError("'Dice' has seen no sample.")
        return self._sum / self._samples


class _Surfaces(_OfLast):
    """How far the edges of what has a label lie apart: ``update(predictions, labels, label)``, of the last call."""

    def __init__(self, distance_metric: str) -> None:
        _one_of(self, ("euclidean", "chessboard", "taxicab"), distance_metric=distance_metric)
        self.distance_metric = distance_metric
        super().__init__()

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take images in, and the label that is looked for."""
        from scipy.ndimage import binary_erosion

        name = type(self).__name__
        _count(self, inputs, 3)
        predicted, label, number = self._convert_data(inputs[0]), self._convert_data(inputs[1]), inputs[2]
        if not isinstance(number, (int, float)):
            raise self._no_label(f"{name!r} needs a number as the third value, but got {type(number).__name__}.")
        if not (predicted == number).any() and not (label == number).any():
            raise ValueError(f"For {name!r}, the label {number} is in none of the images.")
        if not predicted.size or predicted.shape != label.shape:
            raise ValueError(
                f"{name!r} needs predictions and labels of one shape, with elements, but got {predicted.shape} and {label.shape}."
            )
        masks = [x == number for x in (predicted, label)]
        self._last = tuple([binary_erosion(mask) ^ mask for mask in masks])

    _no_label: type[Exception] = ValueError

    def _distances(self, edges: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Of each point of one edge to the other."""
        from scipy import ndimage

        if not others.any():
            return np.full(int(edges.sum()), np.inf)
        if self.distance_metric == "euclidean":
            return ndimage.distance_transform_edt(~others)[edges]
        return ndimage.distance_transform_cdt(~others, metric=self.distance_metric)[edges]


class HausdorffDistance(_Surfaces):
    """The largest distance of a point of an edge from the other edge.

    Parameters
    ----------
    distance_metric : {'euclidean', 'chessboard', 'taxicab'}
        What a distance is.
    percentile : float, optional
        This percentile instead of the largest.
    directed : bool
        Only from the prediction to the label; else the larger one of both ways.
    crop : bool
        Accepted and ignored: elements around the two do not count.
    """

    percentile: float | None
    directed: bool

    def __init__(
        self,
        distance_metric: str = "euclidean",
        percentile: float | None = None,
        directed: bool = False,
        crop: bool = True,
    ) -> None:
        super().__init__(distance_metric)
        if percentile is not None:
            _of_type(self, float, percentile=percentile)
        _of_type(self, (bool, type(None)), directed=directed, crop=crop)
        self.percentile, self.directed = percentile, directed

    def eval(self) -> Any:
        """The distance; infinite where one of the two is nowhere."""
        first, second = self._updated()
        there = self._most(self._distances(first, second))
        return there if self.directed else max(there, self._most(self._distances(second, first)))

    def _most(self, distances: np.ndarray) -> Any:
        if not distances.size:
            return np.inf
        if not self.percentile:
            return distances.max()
        if not 0 <= self.percentile <= 100:
            raise ValueError(
                f"For 'HausdorffDistance', the 'percentile' must be in [0, 100], but got {self.percentile}."
            )
        return np.percentile(distances, self.percentile)


class MeanSurfaceDistance(_Surfaces):
    """The mean distance of the edge of a prediction from the edge of a label: ``update(predictions, labels, label)``, of the last call.

    Parameters
    ----------
    symmetric : bool
        Return the mean of the distances in both directions.
    distance_metric : {'euclidean', 'chessboard', 'taxicab'}
        How distances are measured.
    """

    def __init__(self, symmetric: bool = False, distance_metric: str = "euclidean") -> None:
        super().__init__(distance_metric)
        _of_type(self, bool, symmetric=symmetric)
        self.symmetric = symmetric

    def eval(self) -> Any:
        """The distance; infinite where one of the two is nowhere."""
        first, second = self._updated()
        there = self._mean(self._distances(first, second))
        return self._both(there, self._mean(self._distances(second, first))) if self.symmetric else there

    def _mean(self, distances: np.ndarray) -> Any:
        return distances.mean() if distances.size else np.inf

    def _both(self, there: Any, back: Any) -> Any:
        return (there + back) / 2


class RootMeanSquareDistance(MeanSurfaceDistance):
    """The mean square distance of the edge of a prediction from the edge of a label: ``update(predictions, labels, label)``, of the last call.

    Parameters
    ----------
    symmetric : bool
        Return the root of the mean of both directions.
    distance_metric : {'euclidean', 'chessboard', 'taxicab'}
        How distances are measured.
    """

    _no_label = TypeError

    def _mean(self, distances: np.ndarray) -> Any:
        return np.square(distances).mean() if distances.size else np.inf

    def _both(self, there: Any, back: Any) -> Any:
        return np.sqrt((there + back) / 2)


class OcclusionSensitivity(_OfLast):
    """By how much what a network gives for a label falls when a part of the image is covered, by its middle:
    ``update(network, image, label)``.

    Parameters
    ----------
    pad_val : float
        What the part is filled with.
    margin : int
        How far it reaches from its middle, along each axis.
    n_batch : int
        How many images the network gets at once.
    b_box : list of int, optional
        First and last middle along each axis.
    """

    pad_val: float
    margin: int
    n_batch: int
    b_box: list[int] | None

    def __init__(
        self, pad_val: float = 0.0, margin: int = 2, n_batch: int = 128, b_box: list[int] | None = None
    ) -> None:
        _of_type(self, float, pad_val=pad_val)
        _of_type(self, (int, list), margin=margin)
        _of_type(self, int, n_batch=n_batch)
        if b_box is not None:
            _of_type(self, list, b_box=b_box)
        self.pad_val, self.margin, self.n_batch, self.b_box = pad_val, margin, n_batch, b_box
        super().__init__()

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take a network, a batch of one image and its label in."""
        _count(self, inputs, 3)
        model, image, label = inputs[0], self._convert_data(inputs[1]), self._convert_data(inputs[2])
        _of_type(self, Cell, model=model)
        if len(image) != 1 or label.size != 1:
            raise RuntimeError(
                f"'OcclusionSensitivity' needs one image and one label, but got {image.shape} and {label.shape}."
            )
        sizes = image.shape[1:]
        first, last = self._box(sizes)
        margin = self.margin if isinstance(self.margin, list) else [self.margin] * len(sizes)
        number, shape = int(label.ravel()[0]), [b - a + 1 for a, b in zip(first, last, strict=True)]
        covered, found = [], []
        for place in np.ndindex(*shape):
            one = image.copy()
            middle = [a + at for a, at in zip(first, place, strict=True)]
            part = [slice(max(0, m - w), min(n, m + w)) for m, w, n in zip(middle, margin, sizes, strict=True)]
            one[(0, *part)] = self.pad_val
            covered.append(one)
            if len(covered) == self.n_batch:
                found.append(model(Tensor(np.concatenate(covered))).asnumpy()[:, number])
                covered = []
        if covered:
            found.append(model(Tensor(np.concatenate(covered))).asnumpy()[:, number])
        baseline = model(Tensor(image)).asnumpy()[0, number]
        self._last = baseline - np.concatenate(found).reshape(shape)

    def _box(self, sizes: tuple[int, ...]) -> tuple[list[int], list[int]]:
        if self.b_box is None:
            return [0] * len(sizes), [n - 1 for n in sizes]
        if len(self.b_box) != 2 * len(sizes):
            raise ValueError(
                f"For 'OcclusionSensitivity', the 'b_box' must have {2 * len(sizes)} elements, but got {self.b_box}."
            )
        first = [max(0, n) for n in self.b_box[::2]]
        last = [n if n >= 0 else size - 1 for n, size in zip(self.b_box[1::2], sizes, strict=True)]
        if any(b >= n or a > b for a, b, n in zip(first, last, sizes, strict=True)):
            raise ValueError(
                f"For 'OcclusionSensitivity', the 'b_box' must lie in an image of {sizes}, but got {self.b_box}."
            )
        return first, last

    def eval(self) -> Any:
        """By how much, without axes of length 1."""
        return np.squeeze(self._updated())


NAMES.update(
    {
        "auc": auc,
        "bleu_score": BleuScore,
        "confusion_matrix_metric": ConfusionMatrixMetric,
        "cosine_similarity": CosineSimilarity,
        "dice": Dice,
        "hausdorff_distance": HausdorffDistance,
        "mean_surface_distance": MeanSurfaceDistance,
        "occlusion_sensitivity": OcclusionSensitivity,
        "roc": ROC,
        "root_mean_square_distance": RootMeanSquareDistance,
    }
)
