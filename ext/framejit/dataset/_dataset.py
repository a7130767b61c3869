"""Rows of columns, and the operations on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from framejit._tensors._tensor import Tensor


class _Passes:
    """Each ``for`` over it is one pass; after `num_epochs` of them there are no rows."""

    def __init__(self, begin: Callable[[], Iterator[Any]], num_epochs: int) -> None:
        if not isinstance(num_epochs, int) or isinstance(num_epochs, bool):
            raise TypeError(f"Argument num_epochs with value {num_epochs} is not of type [<class 'int'>].")
        if num_epochs == 0 or num_epochs < -1:
            raise ValueError(f"num_epochs should be either -1 or positive, but got {num_epochs}.")
        self._begin, self._left = begin, num_epochs
        self._rows: Iterator[Any] | None = None

    def __iter__(self) -> _Passes:
        return self

    def __next__(self) -> Any:
        if self._rows is None:
            if self._left == 0:
                raise RuntimeError("The iterator has given all of its epochs: see num_epochs.")
            self._rows, self._left = self._begin(), self._left - 1 if self._left > 0 else -1
        try:
            return next(self._rows)
        except StopIteration:
            self._rows = None
            raise


def _names(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _called(function: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    found = function(*values)
    return found if isinstance(found, tuple) else (found,)


class Dataset:
    """Rows of columns. `batch`, `shuffle`, `map`, `repeat`, `take` and others return further datasets.

    Parameters
    ----------
    rows : callable
        It returns an iterator over rows, each a tuple with an item for each column.
    columns : list of str
        The names of the columns.
    size : callable
        It returns the number of rows.
    batch_size : int
        How many rows of the source are one row.
    repeats : int
        How many passes over the source are one pass.
    """

    def __init__(
        self,
        rows: Callable[[], Iterator[tuple[Any, ...]]],
        columns: list[str],
        size: Callable[[], int],
        batch_size: int = 1,
        repeats: int = 1,
    ) -> None:
        self._rows, self._columns, self._size = rows, columns, size
        self._batch_size, self._repeats = batch_size, repeats

    def _like(
        self, rows: Any, columns: list[str] | None = None, size: Any = None, batch_size: Any = None, repeats: Any = None
    ) -> Dataset:
        """Another dataset, which is like this one apart from the arguments."""
        return Dataset(
            rows,
            self._columns if columns is None else columns,
            self._size if size is None else size,
            self._batch_size if batch_size is None else batch_size,
            self._repeats if repeats is None else repeats,
        )

    def __len__(self) -> int:
        return self.get_dataset_size()

    def get_dataset_size(self) -> int:
        """Return the number of rows, or batches, of one pass."""
        return self._size()

    def get_batch_size(self) -> int:
        """Return how many rows of the source are one row."""
        return self._batch_size

    def get_repeat_count(self) -> int:
        """Return how many passes over the source are one pass."""
        return self._repeats

    def get_col_names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._columns)

    def output_shapes(self, estimate: bool = False) -> list[list[int | None]]:
        """Return the shapes of the items of the first row.

        Parameters
        ----------
        estimate : bool
            None for sizes that vary in the rows.
        """
        if not estimate:
            return [list(np.shape(x)) for x in next(self._rows())]
        shapes = zip(*[[np.shape(x) for x in row] for row in self._rows()], strict=True)
        return [
            [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*column, strict=True)] for column in shapes
        ]

    def output_types(self) -> list[Any]:
        """Return NumPy's dtypes of the items of the first row."""
        return [np.asarray(x).dtype for x in next(self._rows())]

    def create_tuple_iterator(
        self, columns: Any = None, num_epochs: int = -1, output_numpy: bool = False, do_copy: bool = False
    ) -> Iterator[list[Any]]:
        """Iterate over rows as lists. Each ``for`` is one pass.

        Parameters
        ----------
        columns : list of str, optional
            Only these columns.
        num_epochs : int
            The number of passes; -1: any number.
        output_numpy : bool
            Whether the items are arrays instead of Tensors.
        do_copy : bool
            Accepted and ignored.
        """
        places = range(len(self._columns)) if columns is None else self._places("create_tuple_iterator", columns)

        def rows() -> Iterator[list[Any]]:
            for row in self._rows():
                arrays = [np.asarray(row[at]) for at in places]
                yield arrays if output_numpy else [Tensor(x) for x in arrays]

        return _Passes(rows, num_epochs)

    def create_dict_iterator(
        self, num_epochs: int = -1, output_numpy: bool = False, do_copy: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Iterate over rows as dicts by the names of the columns. Each ``for`` is one pass.

        Parameters
        ----------
        num_epochs : int
            The number of passes; -1: any number.
        output_numpy : bool
            Whether the values are arrays instead of Tensors.
        do_copy : bool
            Accepted and ignored.
        """

        def rows() -> Iterator[dict[str, Any]]:
            for row in self._rows():
                values = [np.asarray(x) if output_numpy else Tensor(np.asarray(x)) for x in row]
                yield dict(zip(self._columns, values, strict=True))

        return _Passes(rows, num_epochs)

    def __iter__(self) -> Iterator[list[Any]]:
        return self.create_tuple_iterator(num_epochs=1)

    def __add__(self, other: Dataset) -> Dataset:
        return self.concat(other)

    def _places(self, method: str, columns: Any) -> list[int]:
        unknown = [name for name in _names(columns) if name not in self._columns]
        if unknown:
            raise ValueError(f"For '{method}', there are no columns {unknown}; there are: {self._columns}.")
        return [self._columns.index(name) for name in _names(columns)]

    # --- Rows -----------------------------------------------------------------------------------------------------------------

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

        return self._like(rows)

    def batch(
        self, batch_size: int, drop_remainder: bool = False, num_parallel_workers: int | None = None, *, per_batch_map: Any = None,
        input_columns: Any = None, output_columns: Any = None, python_multiprocessing: bool = False, max_rowsize: Any = None,
    ) -> Dataset:  # fmt: skip
        """Return groups of rows as one row, with stacked columns.

        Parameters
        ----------
        batch_size : int
            The number of rows of a batch.
        drop_remainder : bool
            Leave out the last batch if it is smaller.
        num_parallel_workers, python_multiprocessing, max_rowsize : object, optional
            Accepted and ignored.
        per_batch_map : callable, optional
            Is called with a list of items for each column, and the number of the batch; gives such lists.
        input_columns, output_columns : list of str, optional
            The columns that `per_batch_map` is given, by default all, and their new names.
        """
        if not isinstance(batch_size, int) or isinstance(batch_size, bool):
            raise TypeError(f"For 'batch', the 'batch_size' must be a positive int, but got {batch_size!r}.")
        if batch_size < 1:
            raise ValueError(f"For 'batch', the 'batch_size' must be a positive int, but got {batch_size!r}.")
        places = list(range(len(self._columns))) if input_columns is None else self._places("batch", input_columns)
        names = list(self._columns) if output_columns is None else self._renamed(places, _names(output_columns))

        def joined(held: list[Any], number: int) -> tuple[Any, ...]:
            columns: list[Any] = [list(column) for column in zip(*held, strict=True)]
            if per_batch_map is not None:
                found = _called(per_batch_map, (*[columns[at] for at in places], BatchInfo(number)))
                columns = self._replaced("batch", columns, places, found)
            return tuple(np.stack(column) for column in columns)

        def rows() -> Iterator[tuple[Any, ...]]:
            held: list[Any] = []
            number = 0
            for row in self._rows():
                held.append(row)
                if len(held) == batch_size:
                    yield joined(held, number)
                    held, number = [], number + 1
            if held and not drop_remainder:
                yield joined(held, number)

        def size() -> int:
            return self._size() // batch_size if drop_remainder else -(-self._size() // batch_size)

        return self._like(rows, names, size, batch_size)

    def map(
        self, operations: Any, input_columns: Any = None, output_columns: Any = None, num_parallel_workers: int | None = None,
        **kwargs: Any,
    ) -> Dataset:  # fmt: skip
        """Replace columns by the results of functions.

        Parameters
        ----------
        operations : callable or list of callable
            Functions of the columns; each takes the results of the one before.
        input_columns : str or list of str, optional
            The columns; by default the first ones, as many as the first function takes of them.
        output_columns : str or list of str, optional
            The names of the results; by default those of the columns.
        num_parallel_workers, **kwargs : object
            Accepted and ignored.
        """
        functions = operations if isinstance(operations, (list, tuple)) else [operations]
        places = self._places("map", input_columns or self._columns[:1])
        names = self._columns if output_columns is None else self._renamed(places, _names(output_columns))

        def rows() -> Iterator[tuple[Any, ...]]:
            for row in self._rows():
                values: Any = tuple(row[at] for at in places)
                for function in functions:
                    values = _called(function, values)
                if len(values) != len(names) - len(self._columns) + len(places):
                    raise ValueError(f"For 'map', {len(places)} columns are replaced, but got {len(values)} values.")
                yield tuple(self._replaced("map", list(row), places, values))

        return self._like(rows, names)

    def _renamed(self, places: list[int], names: list[str]) -> list[str]:
        """The names of the columns if others take the places of some: in the place of the first of them, as many as there are."""
        return [str(name) for name in self._replaced("map", list(self._columns), places, names)]

    @staticmethod
    def _replaced(method: str, row: list[Any], places: list[int], values: Any) -> list[Any]:
        """The items with others in some places; if there are more or fewer of them, all are where the first one was."""
        if len(values) == len(places):
            for at, value in zip(places, values, strict=True):
                row[at] = value
            return row
        first = places[0]
        before = [item for at, item in enumerate(row[:first]) if at not in places]
        return [*before, *values, *[item for at, item in enumerate(row) if at > first and at not in places]]

    def filter(self, predicate: Any, input_columns: Any = None, num_parallel_workers: int | None = None) -> Dataset:
        """Return the rows for which a function gives True.

        Parameters
        ----------
        predicate : callable
            Is given the columns.
        input_columns : str or list of str, optional
            Only these columns.
        num_parallel_workers : int, optional
            Accepted and ignored.
        """
        places = list(range(len(self._columns))) if input_columns is None else self._places("filter", input_columns)

        def rows() -> Iterator[tuple[Any, ...]]:
            return (row for row in self._rows() if bool(predicate(*[row[at] for at in places])))

        return self._like(rows, size=lambda: sum(1 for _ in rows()))

    def repeat(self, count: int | None = None) -> Dataset:
        """Return several passes as one.

        Parameters
        ----------
        count : int, optional
            The number of passes, by default one.
        """
        if count is not None and (count == 0 or count < -1):
            raise ValueError(f"For 'repeat', the 'count' must be at least 1, but got {count}.")
        count = 1 if count in (None, -1) else count
        return self._like(
            lambda: (row for _ in range(count) for row in self._rows()),
            size=lambda: self._size() * count,
            repeats=self._repeats * count,
        )

    def take(self, count: int = -1) -> Dataset:
        """Return the first rows.

        Parameters
        ----------
        count : int
            The number of rows; -1: all.
        """
        if count == 0 or count < -1:
            raise ValueError(
                f"count should be either -1 or within the required interval of (0, 2147483647], got {count}."
            )
        if count == -1:
            return self

        def rows() -> Iterator[tuple[Any, ...]]:
            for _, row in zip(range(count), self._rows(), strict=False):
                yield row

        return self._like(rows, size=lambda: min(count, self._size()))

    def skip(self, count: int) -> Dataset:
        """Return the rows after the first ones.

        Parameters
        ----------
        count : int
            The number of rows that are left out.
        """
        if count < 0:
            raise ValueError(f"Input count is not within the required interval of [0, 2147483647], got {count}.")

        def rows() -> Iterator[tuple[Any, ...]]:
            return (row for number, row in enumerate(self._rows()) if number >= count)

        return self._like(rows, size=lambda: max(0, self._size() - count))

    def split(self, sizes: Any, randomize: bool = True) -> tuple[Dataset, ...]:
        """Return several datasets that have the rows of this one between them.

        Parameters
        ----------
        sizes : list of int or list of float
            Their sizes, or their shares.
        randomize : bool
            Whether the rows are drawn, once, by NumPy's global generator.
        """
        total, sizes = self._size(), list(sizes)
        if all(isinstance(size, float) for size in sizes):
            if not np.isclose(sum(sizes), 1):
                raise ValueError("sizes is a list of float, but the percentages do not sum up to 1.")
            sizes = [round(total * size) for size in sizes]
            sizes[0] += total - sum(sizes)
        if sum(sizes) != total:
            raise RuntimeError(f"Sum of split sizes {sum(sizes)} is not equal to dataset size {total}.")
        order = np.random.permutation(total) if randomize else np.arange(total)  # noqa: NPY002
        ends = np.cumsum([0, *sizes])

        def part(chosen: Any) -> Dataset:
            def rows() -> Iterator[tuple[Any, ...]]:
                all_rows = list(self._rows())
                return (all_rows[at] for at in chosen)

            return self._like(rows, size=lambda: len(chosen))

        return tuple([part(order[begin:end]) for begin, end in zip(ends, ends[1:], strict=False)])

    # --- Columns and datasets -------------------------------------------------------------------------------------------------

    def project(self, columns: Any) -> Dataset:
        """Return some of the columns.

        Parameters
        ----------
        columns : str or list of str
            Their names, in their new order.
        """
        places = self._places("project", columns)
        return self._like(lambda: (tuple(row[at] for at in places) for row in self._rows()), _names(columns))

    def rename(self, input_columns: Any, output_columns: Any) -> Dataset:
        """Give columns other names.

        Parameters
        ----------
        input_columns, output_columns : str or list of str
            The names, and the new ones.
        """
        places, names = self._places("rename", input_columns), _names(output_columns)
        if len(places) != len(names):
            raise ValueError(f"For 'rename', there are {len(places)} columns, but {len(names)} names.")
        return self._like(self._rows, self._renamed(places, names))

    def concat(self, datasets: Any) -> Dataset:
        """Return the rows of this dataset and then those of others.

        Parameters
        ----------
        datasets : Dataset or list of Dataset
            The others.
        """
        parts = [self, *([datasets] if isinstance(datasets, Dataset) else datasets)]
        if not all(isinstance(part, Dataset) for part in parts):
            raise TypeError(
                f"Invalid datasets, expected Dataset objects, but got {[type(part).__name__ for part in parts]}."
            )
        return self._like(
            lambda: (row for part in parts for row in part._rows()), size=lambda: sum(part._size() for part in parts)
        )

    def zip(self, datasets: Any) -> Dataset:
        """Return the columns of this dataset and those of others, row by row, as far as the shortest one has rows.

        Parameters
        ----------
        datasets : Dataset or tuple of Dataset
            The others.
        """
        return zip_((self, *([datasets] if isinstance(datasets, Dataset) else datasets)))

    def apply(self, apply_func: Any) -> Dataset:
        """Return the result of a function of the dataset, which must be a dataset.

        Parameters
        ----------
        apply_func : callable
            The function.
        """
        if not callable(apply_func):
            raise TypeError("apply_func must be a function.")
        found = apply_func(self)
        if not isinstance(found, Dataset):
            raise TypeError("apply_func must return a dataset.")
        return found


class BatchInfo:
    """Tells `per_batch_map` about a batch.

    Parameters
    ----------
    number : int
        Its number in the pass.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    def get_batch_num(self) -> int:
        """Return the number of the batch in the pass."""
        return self._number


def zip_(datasets: Any) -> Dataset:
    """Return the columns of several datasets, row by row, as far as the shortest one has rows.

    Parameters
    ----------
    datasets : tuple of Dataset
        The datasets.
    """
    if not isinstance(datasets, tuple):
        raise TypeError(
            f"The argument `datasets` must be a tuple of dataset objects, but got {type(datasets).__name__}."
        )
    if not datasets:
        raise ValueError("Input datasets cannot be empty.")
    if not all(isinstance(part, Dataset) for part in datasets):
        raise TypeError(
            f"Invalid datasets, expected Dataset objects, but got {[type(part).__name__ for part in datasets]}."
        )
    names = [name for part in datasets for name in part._columns]
    if len(set(names)) != len(names):
        raise RuntimeError(f"Invalid data, the columns of zipped datasets must have different names, but got: {names}.")

    def rows() -> Iterator[tuple[Any, ...]]:
        for joined in zip(*[part._rows() for part in datasets], strict=False):
            yield tuple(item for row in joined for item in row)

    return Dataset(rows, names, lambda: min(part._size() for part in datasets))
