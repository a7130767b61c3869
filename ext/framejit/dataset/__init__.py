"""Data for training: arrays or generators, shuffled, mapped and put into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from framejit._tensors._tensor import Tensor

__all__ = ["Dataset", "GeneratorDataset", "NumpySlicesDataset"]


class Dataset:
    """Rows of columns. `batch`, `shuffle`, `map`, `repeat` and `take` return further datasets.

    Parameters
    ----------
    rows : callable
        It returns an iterator over rows, each a tuple with an item for each column.
    columns : list of str
        The names of the columns.
    size : callable
        It returns the number of rows.
    """

    def __init__(
        self, rows: Callable[[], Iterator[tuple[Any, ...]]], columns: list[str], size: Callable[[], int]
    ) -> None:
        self._rows, self._columns, self._size = rows, columns, size

    def __len__(self) -> int:
        return self.get_dataset_size()

    def get_dataset_size(self) -> int:
        """Return the number of rows, or batches, of one pass."""
        return self._size()

    def get_col_names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._columns)

    def create_tuple_iterator(self, num_epochs: int = 1, output_numpy: bool = False) -> Iterator[list[Any]]:
        """Iterate over rows as lists.

        Parameters
        ----------
        num_epochs : int
            The number of passes.
        output_numpy : bool
            Whether the items are arrays instead of Tensors.
        """
        for _ in range(num_epochs):
            for row in self._rows():
                yield [np.asarray(x) if output_numpy else Tensor(np.asarray(x)) for x in row]

    def create_dict_iterator(self, num_epochs: int = 1, output_numpy: bool = False) -> Iterator[dict[str, Any]]:
        """Iterate over rows as dicts by the names of the columns.

        Parameters
        ----------
        num_epochs : int
            The number of passes.
        output_numpy : bool
            Whether the values are arrays instead of Tensors.
        """
        for row in self.create_tuple_iterator(num_epochs, output_numpy):
            yield dict(zip(self._columns, row, strict=True))

    def __iter__(self) -> Iterator[list[Any]]:
        return self.create_tuple_iterator()

    def shuffle(self, buffer_size: int) -> Dataset:
        """Return the rows in random order, drawn by NumPy's global generator, which `set_seed` sets.

        Parameters
        ----------
        buffer_size : int
            The number of rows among which the next one is drawn, at least 2.
        """
        if buffer_size < 2:
            raise ValueError(f"For 'shuffle', the 'buffer_size' must be at least 2, but got {buffer_size}.")

        def rows() -> Iterator[tuple[Any, ...]]:
            buffer: list[Any] = []
            for row in self._rows():
                if len(buffer) < buffer_size:
                    buffer.append(row)
                    continue
                at = np.random.randint(buffer_size)  # noqa: NPY002
                buffer[at], row = row, buffer[at]
                yield row
            for at in np.random.permutation(len(buffer)):  # noqa: NPY002
                yield buffer[at]

        return Dataset(rows, self._columns, self._size)

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Return groups of rows as one row, with stacked columns.

        Parameters
        ----------
        batch_size : int
            The number of rows of a batch.
        drop_remainder : bool
            Leave out the last batch if it is smaller.
        """
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
            raise ValueError(f"For 'batch', the 'batch_size' must be a positive int, but got {batch_size!r}.")

        def rows() -> Iterator[tuple[Any, ...]]:
            held: list[Any] = []
            for row in self._rows():
                held.append(row)
                if len(held) == batch_size:
                    yield tuple(np.stack(column) for column in zip(*held, strict=True))
                    held = []
            if held and not drop_remainder:
                yield tuple(np.stack(column) for column in zip(*held, strict=True))

        def size() -> int:
            return self._size() // batch_size if drop_remainder else -(-self._size() // batch_size)

        return Dataset(rows, self._columns, size)

    def map(self, operations: Any, input_columns: Any = None) -> Dataset:
        """Replace columns by the results of functions.

        Parameters
        ----------
        operations : callable or list of callable
            Functions of the columns; each takes the results of the one before.
        input_columns : str or list of str, optional
            The columns; by default the first one.
        """
        functions = operations if isinstance(operations, (list, tuple)) else [operations]
        wanted = [input_columns] if isinstance(input_columns, str) else list(input_columns or self._columns[:1])
        unknown = [name for name in wanted if name not in self._columns]
        if unknown:
            raise ValueError(f"For 'map', there are no columns {unknown}; there are: {self._columns}.")
        places = [self._columns.index(name) for name in wanted]

        def rows() -> Iterator[tuple[Any, ...]]:
            for row in self._rows():
                values: Any = tuple(row[at] for at in places)
                for function in functions:
                    values = function(*values)
                    values = values if isinstance(values, tuple) else (values,)
                if len(values) != len(places):
                    raise ValueError(f"For 'map', {len(places)} columns are replaced, but got {len(values)} values.")
                out = list(row)
                for at, value in zip(places, values, strict=True):
                    out[at] = value
                yield tuple(out)

        return Dataset(rows, self._columns, self._size)

    def repeat(self, count: int) -> Dataset:
        """Return several passes as one.

        Parameters
        ----------
        count : int
            The number of passes.
        """
        if count < 1:
            raise ValueError(f"For 'repeat', the 'count' must be at least 1, but got {count}.")
        return Dataset(
            lambda: (row for _ in range(count) for row in self._rows()), self._columns, lambda: self._size() * count
        )

    def take(self, count: int) -> Dataset:
        """Return the first rows.

        Parameters
        ----------
        count : int
            The number of rows.
        """

        def rows() -> Iterator[tuple[Any, ...]]:
            for _, row in zip(range(count), self._rows(), strict=False):
                yield row

        return Dataset(rows, self._columns, lambda: min(count, self._size()))


class NumpySlicesDataset(Dataset):
    """The rows of arrays.

    Parameters
    ----------
    data : array, tuple of arrays or dict of arrays
        The columns, all of one length.
    column_names : str or list of str, optional
        The names of the columns; by default the keys of the dict, or ``column_0`` and so on.
    shuffle : bool, optional
        False: keep the order. Otherwise the rows are shuffled.

    Examples
    --------
    >>> import numpy as np
    >>> from framejit.dataset import NumpySlicesDataset
    >>> data = NumpySlicesDataset((np.arange(5), np.arange(5) ** 2), ["x", "y"], shuffle=False).batch(2)
    >>> len(data), [x.tolist() for x, y in data]
    (3, [[0, 1], [2, 3], [4]])
    """

    def __init__(self, data: Any, column_names: Any = None, shuffle: bool | None = None) -> None:
        if isinstance(data, dict):
            names, arrays = list(data), [np.asarray(column) for column in data.values()]
        else:
            arrays = [np.asarray(column) for column in data] if isinstance(data, tuple) else [np.asarray(data)]
            names = [f"column_{i}" for i in range(len(arrays))]
        if column_names is not None:
            names = [column_names] if isinstance(column_names, str) else list(column_names)
        if len(names) != len(arrays):
            raise ValueError(f"There are {len(arrays)} columns, but {len(names)} names: {names}.")
        lengths = [len(column) for column in arrays]
        if len(set(lengths)) != 1:
            raise ValueError(f"The columns must be of one length, but are of {dict(zip(names, lengths, strict=True))}.")

        def rows() -> Iterator[tuple[Any, ...]]:
            order = range(lengths[0]) if shuffle is False else np.random.permutation(lengths[0])  # noqa: NPY002
            for at in order:
                yield tuple(column[at] for column in arrays)

        super().__init__(rows, names, lambda: lengths[0])


class GeneratorDataset(Dataset):
    """The rows of a generator function, an iterable, or an object with ``__getitem__`` and ``__len__``.

    Parameters
    ----------
    source : callable, iterable or object
        The source. A row is a tuple, or one item.
    column_names : str or list of str, optional
        The names of the columns; by default ``column_0``.
    shuffle : bool, optional
        False: keep the order of a source with ``__getitem__``. Otherwise its rows are shuffled.
    """

    def __init__(self, source: Any, column_names: Any = None, shuffle: bool | None = None) -> None:
        indexed = hasattr(source, "__getitem__") and hasattr(source, "__len__")
        if not indexed and not callable(source) and not hasattr(source, "__iter__"):
            raise TypeError(
                f"The 'source' must be callable, iterable or have __getitem__, but got {type(source).__name__}."
            )
        names = [column_names] if isinstance(column_names, str) else list(column_names or ["column_0"])

        def rows() -> Iterator[tuple[Any, ...]]:
            if indexed:
                order = range(len(source)) if shuffle is False else np.random.permutation(len(source))  # noqa: NPY002
                found: Any = (source[int(at)] for at in order)
            else:
                found = source() if callable(source) else source
            for row in found:
                yield row if isinstance(row, tuple) else (row,)

        def size() -> int:
            return len(source) if indexed else sum(1 for _ in rows())

        super().__init__(rows, names, size)
