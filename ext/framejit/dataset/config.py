"""``mindspore.dataset.config``: settings of datasets."""

from __future__ import annotations

import numpy as np

__all__ = [
    "get_num_parallel_workers",
    "get_prefetch_size",
    "get_seed",
    "set_num_parallel_workers",
    "set_prefetch_size",
    "set_seed",
]

_settings = {"seed": 5489, "num_parallel_workers": 8, "prefetch_size": 16}


def _set(name: str, least: int, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} isn't of type int.")
    if value < least:
        raise ValueError(
            f"{name} given is not within the required range: it must be at least {least}, but got {value}."
        )
    _settings[name] = value


def set_seed(seed: int) -> None:
    """Begin the numbers of NumPy's global generator, by which datasets shuffle and draw.

    Parameters
    ----------
    seed : int
        Where they begin.
    """
    _set("seed", 0, seed)
    np.random.seed(seed)  # noqa: NPY002


def get_seed() -> int:
    """Return the last argument of `set_seed`."""
    return _settings["seed"]


def set_num_parallel_workers(num: int) -> None:
    """Store a number of threads; rows are computed by the thread that iterates.

    Parameters
    ----------
    num : int
        The number.
    """
    _set("num_parallel_workers", 1, num)


def get_num_parallel_workers() -> int:
    """Return the last argument of `set_num_parallel_workers`."""
    return _settings["num_parallel_workers"]


def set_prefetch_size(size: int) -> None:
    """Store a number of rows; each row is computed when the iterator needs it.

    Parameters
    ----------
    size : int
        The number.
    """
    _set("prefetch_size", 1, size)


def get_prefetch_size() -> int:
    """Return the last argument of `set_prefetch_size`."""
    return _settings["prefetch_size"]
