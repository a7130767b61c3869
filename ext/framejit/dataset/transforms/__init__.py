"""``mindspore.dataset.transforms``: functions of the items of a dataset, which are arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._api._dtypes import dtype_to_nptype
from framejit.dataset._dataset import _called

__all__ = [
    "Compose", "Concatenate", "Duplicate", "Fill", "OneHot", "PadEnd", "RandomApply", "RandomChoice", "RandomOrder", "TypeCast",
]  # fmt: skip


def _functions(transforms: Any) -> list[Any]:
    if not isinstance(transforms, (list, tuple)):
        raise TypeError(
            f"Argument transforms with value {transforms} is not of type [<class 'list'>, <class 'tuple'>]."
        )
    if not transforms:
        raise ValueError("transforms list can not be empty.")
    for at, transform in enumerate(transforms):
        if not callable(transform):
            raise TypeError(f"transforms[{at}] is neither a transforms op (TensorOperation) nor a callable pyfunc.")
    return list(transforms)


def _single(values: tuple[Any, ...]) -> Any:
    return values[0] if len(values) == 1 else values


def _share(prob: Any) -> float:
    if not isinstance(prob, (int, float)) or isinstance(prob, bool):
        raise TypeError(f"Argument prob with value {prob} is not of type [<class 'float'>, <class 'int'>].")
    if not 0 <= prob <= 1:
        raise ValueError("Input prob is not within the required interval of [0.0, 1.0].")
    return float(prob)


class Compose:
    """Functions one after the other, each of the results of the one before.

    Parameters
    ----------
    transforms : list of callable
        The functions.
    """

    transforms: list[Any]

    def __init__(self, transforms: Any) -> None:
        self.transforms = _functions(transforms)

    def __call__(self, *items: Any) -> Any:
        for function in self.transforms:
            items = _called(function, items)
        return _single(items)


class RandomApply(Compose):
    """Functions one after the other, or none of them, as NumPy's global generator draws.

    Parameters
    ----------
    transforms : list of callable
        The functions.
    prob : float
        How likely they are called.
    """

    prob: float

    def __init__(self, transforms: Any, prob: float = 0.5) -> None:
        super().__init__(transforms)
        self.prob = _share(prob)

    def __call__(self, *items: Any) -> Any:
        return super().__call__(*items) if np.random.random() < self.prob else _single(items)  # noqa: NPY002


class RandomChoice(Compose):
    """One of several functions, as NumPy's global generator draws.

    Parameters
    ----------
    transforms : list of callable
        The functions.
    """

    def __call__(self, *items: Any) -> Any:
        return _single(_called(self.transforms[np.random.randint(len(self.transforms))], items))  # noqa: NPY002


class RandomOrder(Compose):
    """Functions one after the other, in an order that NumPy's global generator draws.

    Parameters
    ----------
    transforms : list of callable
        The functions.
    """

    def __call__(self, *items: Any) -> Any:
        for at in np.random.permutation(len(self.transforms)):  # noqa: NPY002
            items = _called(self.transforms[at], items)
        return _single(items)


class TypeCast:
    """The items in another dtype.

    Parameters
    ----------
    data_type : dtype
        A dtype of this package, of NumPy, or the name of one.
    """

    data_type: np.dtype[Any]

    def __init__(self, data_type: Any) -> None:
        try:
            self.data_type = np.dtype(data_type)
        except TypeError:
            self.data_type = np.dtype(dtype_to_nptype(data_type))

    def __call__(self, item: Any) -> Any:
        return np.asarray(item).astype(self.data_type)


class OneHot:
    """A row of 0, with 1 in the place that the label says.

    Parameters
    ----------
    num_classes : int
        The length of the row.
    smoothing_rate : float
        This share of 1 is given to all places alike.
    """

    num_classes: int
    smoothing_rate: float

    def __init__(self, num_classes: int, smoothing_rate: float = 0.0) -> None:
        if not isinstance(num_classes, int) or num_classes < 1:
            raise ValueError("Input num_classes is not within the required interval of [1, 2147483647].")
        if not 0 <= smoothing_rate <= 1:
            raise ValueError("Input smoothing_rate is not within the required interval of [0.0, 1.0].")
        self.num_classes, self.smoothing_rate = num_classes, smoothing_rate

    def __call__(self, label: Any) -> Any:
        label = np.asarray(label)
        if label.dtype.kind not in "iu" or label.ndim > 1:
            raise RuntimeError(
                f"OneHot: invalid input, it must be one integer or a row of them, but got {label.dtype} of {label.shape}."
            )
        if label.size and not 0 <= int(label.min()) <= int(label.max()) < self.num_classes:
            raise RuntimeError(f"OneHot: invalid input, the labels must be below {self.num_classes}, but got {label}.")
        rows = label[..., None] == np.arange(self.num_classes)
        if not self.smoothing_rate:
            return rows.astype(label.dtype)
        rest = self.smoothing_rate / self.num_classes
        return np.where(rows, 1 - self.smoothing_rate + rest, rest)


class Fill:
    """An array in which each element is one number.

    Parameters
    ----------
    fill_value : number
        The number.
    """

    fill_value: Any

    def __init__(self, fill_value: Any) -> None:
        self.fill_value = fill_value

    def __call__(self, item: Any) -> Any:
        return np.full_like(np.asarray(item), self.fill_value)


class Duplicate:
    """The item twice."""

    def __call__(self, item: Any) -> Any:
        return item, item


class Concatenate:
    """Arrays before and after the item.

    Parameters
    ----------
    axis : int
        0 or -1.
    prepend, append : array, optional
        The arrays before and after it.
    """

    axis: int
    prepend: Any
    append: Any

    def __init__(self, axis: int = 0, prepend: Any = None, append: Any = None) -> None:
        if axis not in (0, -1):
            raise ValueError("only 1D concatenation supported.")
        self.axis, self.prepend, self.append = axis, prepend, append

    def __call__(self, *items: Any) -> Any:
        parts = [self.prepend, *items, self.append]
        return np.concatenate([np.asarray(part) for part in parts if part is not None], axis=self.axis)


class PadEnd:
    """The item in another shape: with more elements at the ends of its axes, or fewer.

    Parameters
    ----------
    pad_shape : list of int
        The shape; None for an axis that stays as it is.
    pad_value : number, optional
        The new elements, by default 0.
    """

    pad_shape: list[int | None]
    pad_value: Any

    def __init__(self, pad_shape: Any, pad_value: Any = None) -> None:
        self.pad_shape, self.pad_value = list(pad_shape), pad_value

    def __call__(self, item: Any) -> Any:
        item = np.asarray(item)
        if item.ndim != len(self.pad_shape):
            raise RuntimeError(
                f"PadEnd: invalid pad shape, it has {len(self.pad_shape)} axes, but the item has {item.ndim}."
            )
        shape = [size if wanted is None else wanted for size, wanted in zip(item.shape, self.pad_shape, strict=True)]
        out = np.full(shape, 0 if self.pad_value is None else self.pad_value, item.dtype)
        common = tuple(slice(min(size, wanted)) for size, wanted in zip(item.shape, shape, strict=True))
        out[common] = item[common]
        return out
