"""MindSpore's names around its bytecode mode that programs import."""

from __future__ import annotations

from typing import Any

from framejit._api._errors import GraphBreakError as Unsupported
from framejit._api._jit import jit
from framejit._api._jit_config import JitConfig

__all__ = ["PIJitCaptureContext", "Unsupported"]


class PIJitCaptureContext:
    """``PIJitCaptureContext(fullgraph, jit_config)(function)``: `jit` in the bytecode mode.

    Parameters
    ----------
    fullgraph : bool
        As in `jit`.
    jit_config : JitConfig or dict, optional
        Of its options ``jit_level`` and ``fullgraph`` are read, and ``_disable_pijit``: a function of the arguments and the arguments by name of a
        call, which says whether the call runs as it is.

    Examples
    --------
    >>> from framejit._mindspore._pijit_context import PIJitCaptureContext
    >>> PIJitCaptureContext(jit_config={"compile_with_try": False})(lambda x: x + 1)(2)
    3
    """

    def __init__(self, fullgraph: bool = False, jit_config: Any = None) -> None:
        given = jit_config.jit_config_dict if isinstance(jit_config, JitConfig) else dict(jit_config or {})
        self.config = {"fullgraph": fullgraph, **given}
        disabled = self.config.get("_disable_pijit")
        if disabled is not None and not callable(disabled):
            raise TypeError(f"The config '_disable_pijit' must be callable but got {disabled}")

    def __call__(self, fn: Any) -> Any:
        """The compiled function."""
        level = self.config.get("jit_level")
        made = jit(
            fn,
            capture_mode="bytecode",
            fullgraph=bool(self.config["fullgraph"]),
            jit_level=level if level in ("O0", "O1") else "O0",
        )
        disabled = self.config.get("_disable_pijit")
        if disabled is None:
            return made

        def choose(*args: Any, **kwargs: Any) -> Any:
            return (fn if disabled(args, kwargs) else made)(*args, **kwargs)

        choose.__wrapped__ = fn  # type: ignore[attr-defined]
        return choose
