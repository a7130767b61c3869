"""``mindspore.nn.utils``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = ["no_init_parameters"]


@contextlib.contextmanager
def no_init_parameters() -> Iterator[None]:
    """Make networks whose Parameters will be read from a checkpoint. Their first numbers are drawn nevertheless, so that a Parameter that
    the checkpoint does not have is as ``init_parameters_data()`` would make it.
    """
    yield
