"""Where rows come from: arrays, generators, objects with items, and the files of known collections of pictures."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from framejit._api._dtypes import dtype_to_nptype
from framejit.dataset._dataset import Dataset
from framejit.dataset._samplers import sampler_of


class _Indexed(Dataset):
    """Rows that have numbers, of which a sampler chooses.

    Parameters
    ----------
    sampler : object
        Says which rows are taken.
    columns : list of str
        The names of the columns.
    length : int
        The number of rows.
    row : callable
        It returns the row with a number.
    """

    def __init__(self, sampler: Any, columns: list[str], length: int, row: Any) -> None:
        def rows() -> Iterator[tuple[Any, ...]]:
            return (row(int(at)) for at in sampler.indices(length))

        super().__init__(rows, columns, lambda: sampler.count(length))


class NumpySlicesDataset(_Indexed):
    """The rows of arrays.

    Parameters
    ----------
    data : array, tuple of arrays or dict of arrays
        The columns, all of one length.
    column_names : str or list of str, optional
        The names of the columns; by default the keys of the dict, or ``column_0`` and so on.
    num_samples : int, optional
        The most rows of a pass.
    num_parallel_workers : int
        Accepted and ignored.
    shuffle : bool, optional
        False: keep the order. Otherwise the rows are shuffled.
    sampler : object, optional
        A sampler, or a list of the numbers of rows.
    num_shards, shard_id : int, optional
        The rows of one of several processes, as of `DistributedSampler`.

    Examples
    --------
    >>> import numpy as np
    >>> from framejit.dataset import NumpySlicesDataset
    >>> data = NumpySlicesDataset((np.arange(5), np.arange(5) ** 2), ["x", "y"], shuffle=False).batch(2)
    >>> len(data), [x.tolist() for x, y in data]
    (3, [[0, 1], [2, 3], [4]])
    """

    def __init__(
        self, data: Any, column_names: Any = None, num_samples: int | None = None, num_parallel_workers: int = 1,
        shuffle: bool | None = None, sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None,
    ) -> None:  # fmt: skip
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
        chosen = sampler_of(shuffle, sampler, num_samples, num_shards, shard_id)
        super().__init__(chosen, names, lengths[0], lambda at: tuple(column[at] for column in arrays))


class GeneratorDataset(Dataset):
    """The rows of a generator function, an iterable, or an object with ``__getitem__`` and ``__len__``.

    Parameters
    ----------
    source : callable, iterable or object
        The source. A row is a tuple, or one item.
    column_names : str or list of str, optional
        The names of the columns; by default ``column_0``.
    column_types : list of dtype, optional
        The dtypes that the columns must have.
    schema : object, optional
        Accepted and ignored.
    num_samples : int, optional
        The most rows of a pass.
    num_parallel_workers, python_multiprocessing, max_rowsize : object, optional
        Accepted and ignored.
    shuffle : bool, optional
        False: keep the order of a source with ``__getitem__``. Otherwise its rows are shuffled.
    sampler : object, optional
        A sampler, or a list of the numbers of rows, of a source with ``__getitem__``.
    num_shards, shard_id : int, optional
        The rows of one of several processes, as of `DistributedSampler`.
    """

    def __init__(
        self, source: Any, column_names: Any = None, column_types: Any = None, schema: Any = None, num_samples: int | None = None,
        num_parallel_workers: int = 1, shuffle: bool | None = None, sampler: Any = None, num_shards: int | None = None,
        shard_id: int | None = None, python_multiprocessing: bool = True, max_rowsize: Any = None,
    ) -> None:  # fmt: skip
        indexed = hasattr(source, "__getitem__") and hasattr(source, "__len__")
        if not indexed and not callable(source) and not hasattr(source, "__iter__"):
            raise TypeError(
                f"The 'source' must be callable, iterable or have __getitem__, but got {type(source).__name__}."
            )
        if not indexed and (shuffle or sampler is not None or num_shards is not None):
            raise ValueError(
                "The 'source' must have __getitem__ and __len__ for 'shuffle', 'sampler' and 'num_shards'."
            )
        names = [column_names] if isinstance(column_names, str) else list(column_names or ["column_0"])
        kinds = None if column_types is None else [np.dtype(dtype_to_nptype(kind)) for kind in column_types]
        chosen = sampler_of(shuffle, sampler, num_samples, num_shards, shard_id) if indexed else None

        def rows() -> Iterator[tuple[Any, ...]]:
            if chosen is not None:
                found: Any = (source[int(at)] for at in chosen.indices(len(source)))
            else:
                found = source() if callable(source) else source
            for number, row in enumerate(found):
                if chosen is None and number == num_samples:
                    return
                items = row if isinstance(row, tuple) else (row,)
                if kinds is not None and [np.asarray(item).dtype for item in items] != kinds:
                    raise TypeError(
                        f"The 'column_types' are {kinds}, but got {[np.asarray(item).dtype for item in items]}."
                    )
                yield items

        def size() -> int:
            return chosen.count(len(source)) if chosen is not None else sum(1 for _ in rows())

        super().__init__(rows, names, size)


# --- Files -------------------------------------------------------------------------------------------------------------------


def _folder(path: Any, usage: Any, usages: tuple[str, ...]) -> Path:
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f"The folder {path} does not exist or is not a directory or permission denied!")
    if usage is not None and usage not in usages:
        raise ValueError(f"Input usage is not within the valid set of {list(usages)}.")
    return folder


def _numbers(path: Path, magic: int, rank: int) -> Any:
    """The bytes of a file of MNIST, in their shape."""
    content = path.read_bytes()
    found, *shape = struct.unpack(f">{rank + 1}I", content[: 4 * (rank + 1)])
    if found != magic or len(content) != 4 * (rank + 1) + int(np.prod(shape)):
        raise RuntimeError(f"Invalid file, {path} is no file of MNIST with {rank} dimensions.")
    return np.frombuffer(content, np.uint8, offset=4 * (rank + 1)).reshape(shape)


class MnistDataset(_Indexed):
    """The pictures and labels of the files of MNIST in a folder: (28, 28, 1) of uint8, and uint32.

    Parameters
    ----------
    dataset_dir : path
        The folder with ``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte``, those of ``t10k``, or both.
    usage : str, optional
        ``"train"``, ``"test"`` or ``"all"``, the default.
    num_samples : int, optional
        The most rows of a pass.
    num_parallel_workers, cache : object, optional
        Accepted and ignored.
    shuffle : bool, optional
        False: keep the order. Otherwise the rows are shuffled.
    sampler : object, optional
        A sampler, or a list of the numbers of rows.
    num_shards, shard_id : int, optional
        The rows of one of several processes, as of `DistributedSampler`.
    """

    def __init__(
        self, dataset_dir: Any, usage: str | None = None, num_samples: int | None = None, num_parallel_workers: int | None = None,
        shuffle: bool | None = None, sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:  # fmt: skip
        folder = _folder(dataset_dir, usage, ("train", "test", "all"))
        chosen = sampler_of(shuffle, sampler, num_samples, num_shards, shard_id)
        images, labels = [np.empty((0, 28, 28), np.uint8)], [np.empty(0, np.uint8)]
        for part, name in (("train", "train"), ("test", "t10k")):
            file = folder / f"{name}-images-idx3-ubyte"
            if usage in (part, "all", None) and file.exists():
                images.append(_numbers(file, 2051, 3))
                labels.append(_numbers(folder / f"{name}-labels-idx1-ubyte", 2049, 1))
        pictures, numbers = np.concatenate(images)[..., None], np.concatenate(labels).astype(np.uint32)
        super().__init__(chosen, ["image", "label"], len(pictures), lambda at: (pictures[at], numbers[at]))


class FashionMnistDataset(MnistDataset):
    """The pictures and labels of Fashion-MNIST, whose files are like those of MNIST.

    Parameters
    ----------
    dataset_dir : path
        The folder with ``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte``, those of ``t10k``, or both.
    usage : str, optional
        ``"train"``, ``"test"`` or ``"all"``, the default.
    num_samples : int, optional
        The most rows of a pass.
    num_parallel_workers, cache : object, optional
        Accepted and ignored.
    shuffle : bool, optional
        False: keep the order. Otherwise the rows are shuffled.
    sampler : object, optional
        A sampler, or a list of the numbers of rows.
    num_shards, shard_id : int, optional
        The rows of one of several processes, as of `DistributedSampler`.
    """


class Cifar10Dataset(_Indexed):
    """The pictures and labels of the binary files of CIFAR-10 in a folder: (32, 32, 3) of uint8, and uint32.

    Parameters
    ----------
    dataset_dir : path
        The folder with ``data_batch_1.bin`` to ``data_batch_5.bin``, ``test_batch.bin``, or both.
    usage : str, optional
        ``"train"``, ``"test"`` or ``"all"``, the default.
    num_samples : int, optional
        The most rows of a pass.
    num_parallel_workers, cache : object, optional
        Accepted and ignored.
    shuffle : bool, optional
        False: keep the order. Otherwise the rows are shuffled.
    sampler : object, optional
        A sampler, or a list of the numbers of rows.
    num_shards, shard_id : int, optional
        The rows of one of several processes, as of `DistributedSampler`.
    """

    def __init__(
        self, dataset_dir: Any, usage: str | None = None, num_samples: int | None = None, num_parallel_workers: int | None = None,
        shuffle: bool | None = None, sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:  # fmt: skip
        folder = _folder(dataset_dir, usage, ("train", "test", "all"))
        chosen = sampler_of(shuffle, sampler, num_samples, num_shards, shard_id)
        files = sorted(folder.glob("data_batch_*.bin")) if usage != "test" else []
        files += sorted(folder.glob("test_batch.bin")) if usage != "train" else []
        parts = [np.empty((0, 3073), np.uint8)]
        for file in files:
            content = np.frombuffer(file.read_bytes(), np.uint8)
            if content.size % 3073:
                raise RuntimeError(f"Invalid file, {file} is no binary file of CIFAR-10.")
            parts.append(content.reshape(-1, 3073))
        table = np.concatenate(parts)
        pictures = np.ascontiguousarray(table[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        numbers = table[:, 0].astype(np.uint32)
        super().__init__(chosen, ["image", "label"], len(pictures), lambda at: (pictures[at], numbers[at]))
