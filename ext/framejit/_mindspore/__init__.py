"""What only programs written for MindSpore need."""

from __future__ import annotations

from typing import Any

from framejit._mindspore import _checkparam as _checkparam
from framejit._mindspore import log as log


def cell_attr_register(fn: Any = None, attrs: Any = None) -> Any:
    """Decorate the ``__init__`` of a Cell; does nothing: cells that are built alike share code anyway.

    Parameters
    ----------
    fn : callable, optional
        The method; without it, a decorator is returned.
    attrs : object, optional
        Ignored.
    """
    return fn if fn is not None else lambda function: function
