"""``jit`` and its kin."""

from __future__ import annotations

from typing import Any

from framejit._api._jit import jit, ms_function
from framejit._autodiff import _primitives
from framejit._mindspore._script import jit_class


class _no_grad:  # noqa: N801  MindSpore's name
    """``with _no_grad():`` gives what is constant for gradients."""

    def __enter__(self) -> None:
        self._paused = _primitives.pause() if _primitives.is_kept() else None

    def __exit__(self, *error: Any) -> None:
        if self._paused is not None:
            _primitives.go_on(self._paused)


__all__ = ["jit", "jit_class", "ms_function"]
