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


class _Executor:
    """What programs tell MindSpore's runtime: eager calls are done when they return, and cells are compiled by their calls."""

    def sync(self) -> None:
        """Nothing: no call is under way."""

    def set_async_for_graph(self, flag: bool) -> None:
        """Nothing."""

    def set_grad_flag(self, flag: bool) -> None:
        """Nothing: gradients are kept where they are asked for."""

    def compile(self, obj: Any, *args: Any, phase: str = "", **kwargs: Any) -> tuple[str, bool]:
        """Call it, so that it is compiled for these arguments."""
        obj(*args, **kwargs)
        return f"{phase or getattr(obj, 'phase', 'train')}.{id(obj)}", True

    def __call__(self, obj: Any, *args: Any, phase: str = "", **kwargs: Any) -> Any:
        return obj(*args, **kwargs)


_pynative_executor = _cell_graph_executor = _Executor()


def _no_recursive(callable_obj: Any) -> Any:
    """A cell or function that is compiled without calls inside calls; as it is."""
    return callable_obj


__all__ = ["jit", "jit_class", "ms_function"]
