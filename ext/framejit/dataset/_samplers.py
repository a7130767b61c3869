"""Which rows of a source are taken, in which order."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["DistributedSampler", "RandomSampler", "SequentialSampler", "SubsetRandomSampler", "SubsetSampler"]


class _Sampler:
    """`indices` gives the numbers of the rows of one pass.

    Parameters
    ----------
    num_samples : int, optional
        The most rows of a pass.
    """

    num_samples: int | None

    def __init__(self, num_samples: int | None = None) -> None:
        if num_samples is not None:
            if not isinstance(num_samples, int) or isinstance(num_samples, bool):
                raise TypeError(f"num_samples should be an int, but got: {type(num_samples)}")
            if num_samples < 0:
                raise ValueError(f"num_samples should be a positive integer (num_samples>=0), but got: {num_samples}.")
        self.num_samples = num_samples

    def _all(self, size: int) -> Any:
        raise NotImplementedError

    def indices(self, size: int) -> Any:
        """Return the numbers of the rows of a pass over a source of this size."""
        return self._all(size)[: self.num_samples or None]

    def count(self, size: int) -> int:
        """Return the number of rows of a pass over a source of this size."""
        return len(self.indices(size))


class SequentialSampler(_Sampler):
    """The rows in their order.

    Parameters
    ----------
    start_index : int, optional
        The first row.
    num_samples : int, optional
        The most rows of a pass.
    """

    start_index: int

    def __init__(self, start_index: int | None = None, num_samples: int | None = None) -> None:
        super().__init__(num_samples)
        self.start_index = start_index or 0

    def _all(self, size: int) -> Any:
        return np.arange(self.start_index, size)


class RandomSampler(_Sampler):
    """The rows in random order, drawn by NumPy's global generator, which `set_seed` sets.

    Parameters
    ----------
    replacement : bool
        Whether a row may be drawn several times.
    num_samples : int, optional
        The most rows of a pass.
    shuffle : object, optional
        Accepted and ignored.
    """

    replacement: bool

    def __init__(self, replacement: bool = False, num_samples: int | None = None, shuffle: Any = None) -> None:
        super().__init__(num_samples)
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got: {replacement}.")
        self.replacement = replacement

    def _all(self, size: int) -> Any:
        if self.replacement:
            return np.random.randint(size, size=self.num_samples or size)  # noqa: NPY002
        return np.random.permutation(size)  # noqa: NPY002

    def count(self, size: int) -> int:
        """Return the number of rows of a pass over a source of this size."""
        return (self.num_samples or size) if self.replacement else min(size, self.num_samples or size)


class SubsetSampler(_Sampler):
    """The rows with these numbers.

    Parameters
    ----------
    indices : int or list of int
        Their numbers.
    num_samples : int, optional
        The most rows of a pass.
    """

    def __init__(self, indices: Any, num_samples: int | None = None) -> None:
        super().__init__(num_samples)
        self._chosen = np.atleast_1d(np.asarray(indices))
        if self._chosen.dtype.kind not in "iu":
            raise TypeError(f"SubsetSampler: Type of indices element must be int, but got: {self._chosen.dtype}")

    def _all(self, size: int) -> Any:
        if self._chosen.size and not 0 <= self._chosen.min() <= self._chosen.max() < size:
            raise RuntimeError(f"Invalid indices: there are {size} rows, but got {self._chosen.tolist()}.")
        return self._chosen

    def count(self, size: int) -> int:
        """Return the number of rows of a pass over a source of this size."""
        return len(self._chosen[: self.num_samples or None])


class SubsetRandomSampler(SubsetSampler):
    """The rows with these numbers, in random order.

    Parameters
    ----------
    indices : int or list of int
        Their numbers.
    num_samples : int, optional
        The most rows of a pass.
    """

    def _all(self, size: int) -> Any:
        return np.random.permutation(super()._all(size))  # noqa: NPY002


class DistributedSampler(_Sampler):
    """Each of several processes takes as many rows: row `shard_id`, and each `num_shards`-th row from there on, from the beginning again
    at the end.

    Parameters
    ----------
    num_shards : int
        The number of processes.
    shard_id : int
        The number of this process.
    shuffle : bool
        Whether the rows are in random order.
    num_samples : int, optional
        The most rows of a pass.
    offset : int
        Accepted and ignored.
    """

    num_shards: int
    shard_id: int
    shuffle: bool

    def __init__(
        self, num_shards: int, shard_id: int, shuffle: bool = True, num_samples: int | None = None, offset: int = -1
    ) -> None:
        super().__init__(num_samples)
        if not isinstance(num_shards, int) or num_shards < 1:
            raise ValueError(
                f"Input num_shards is not within the required interval of [1, 2147483647], but got {num_shards}."
            )
        if not isinstance(shard_id, int) or not 0 <= shard_id < num_shards:
            raise ValueError(f"Input shard_id is not within the required interval of [0, {num_shards - 1}].")
        self.num_shards, self.shard_id, self.shuffle = num_shards, shard_id, shuffle

    def _all(self, size: int) -> Any:
        order = np.random.permutation(size) if self.shuffle else np.arange(size)  # noqa: NPY002
        return order[(self.shard_id + self.num_shards * np.arange(-(-size // self.num_shards))) % max(1, size)]

    def count(self, size: int) -> int:
        """Return the number of rows of a pass over a source of this size."""
        count = -(-size // self.num_shards)
        return min(count, self.num_samples or count)


def sampler_of(
    shuffle: bool | None, sampler: Any, num_samples: int | None, num_shards: int | None, shard_id: int | None
) -> Any:
    """The sampler that the arguments of a source say."""
    if sampler is not None:
        if shuffle is not None:
            raise RuntimeError("sampler and shuffle cannot be specified at the same time.")
        if num_shards is not None:
            raise RuntimeError("sampler and sharding cannot be specified at the same time.")
        if num_samples is not None:
            raise ValueError(
                "Conflicting arguments during sampler assignments. num_samples and sampler cannot be specified at the same time."
            )
        if isinstance(sampler, _Sampler):
            return sampler
        return SubsetSampler([int(at) for at in sampler])
    if num_shards is not None:
        if shard_id is None:
            raise RuntimeError("num_shards is specified and currently requires shard_id as well.")
        return DistributedSampler(num_shards, shard_id, shuffle is not False, num_samples)
    if shard_id is not None:
        raise RuntimeError("shard_id is specified but num_shards is not.")
    return SequentialSampler(None, num_samples) if shuffle is False else RandomSampler(False, num_samples)
