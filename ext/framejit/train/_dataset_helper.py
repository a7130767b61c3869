"""Passes over a dataset, under MindSpore's name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from framejit._api._dtypes import pytype_to_dtype

__all__ = ["DatasetHelper"]


class DatasetHelper:
    """Iterates over a dataset, one pass for each ``for``.

    Parameters
    ----------
    dataset : Dataset
        The dataset.
    dataset_sink_mode : bool
        Must be False: there is no device to which rows are sent.
    sink_size : int
        The number of rows that are sent at once; -1: all of a pass.
    epoch_num : int
        The number of passes.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> data = fj.dataset.NumpySlicesDataset(np.arange(4), shuffle=False).batch(2)
    >>> [row[0].tolist() for row in fj.DatasetHelper(data, dataset_sink_mode=False)]
    [[0, 1], [2, 3]]
    """

    def __init__(self, dataset: Any, dataset_sink_mode: bool = True, sink_size: int = -1, epoch_num: int = 1) -> None:
        if not isinstance(dataset_sink_mode, bool):
            raise TypeError(f"The 'dataset_sink_mode' must be a bool, but got {type(dataset_sink_mode).__name__}.")
        if not isinstance(sink_size, int) or isinstance(sink_size, bool):
            raise TypeError(f"The 'sink_size' must be an int, but got {type(sink_size).__name__}.")
        if sink_size < -1 or sink_size == 0:
            raise ValueError(f"The 'sink_size' must be -1 or positive, but got sink_size {sink_size}.")
        if dataset_sink_mode:
            raise RuntimeError(
                "Currently dataset sink mode is not supported when the device target is CPU, please set dataset_sink_mode to False."
            )
        self._dataset, self._sink_size = dataset, sink_size
        self._rows = dataset.create_tuple_iterator(num_epochs=epoch_num)

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self._rows)

    def types_shapes(self) -> tuple[list[Any], list[Any]]:
        """Return the dtypes and the shapes of the first row."""
        return [pytype_to_dtype(kind) for kind in self._dataset.output_types()], self._dataset.output_shapes()

    def sink_size(self) -> int:
        """Return the number of rows of a pass, or the `sink_size` that was given."""
        return self._dataset.get_dataset_size() if self._sink_size == -1 else self._sink_size

    def stop_send(self) -> None:
        """Do nothing: no rows are sent."""

    def release(self) -> None:
        """Do nothing: no rows are sent."""

    def continue_send(self) -> None:
        """Do nothing: no rows are sent."""
