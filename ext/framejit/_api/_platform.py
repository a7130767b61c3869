"""The compiled half, where this interpreter and machine can be captured on; else the reason why not."""

from __future__ import annotations

import os
import platform
import sys
from types import ModuleType


def _find_reason() -> str | None:
    if os.environ.get("FRAMEJIT_DISABLE", "") not in ("", "0"):
        return "FRAMEJIT_DISABLE is set"
    if sys.implementation.name != "cpython":
        return f"framejit captures on CPython, this is {sys.implementation.name}"
    if sys.version_info[:2] != (3, 11):
        return f"framejit captures on CPython 3.11, this is {platform.python_version()}"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"framejit captures on Linux on x86-64, this is {sys.platform} on {platform.machine()}"
    return None


def _load() -> tuple[ModuleType | None, str | None]:
    reason = _find_reason()
    if reason is not None:
        return None, reason
    # Where it can be captured on, a compiled half that cannot be imported is an error, not a reason to be slow.
    from framejit import _core

    return _core, None


core, reason = _load()


def unsupported_reason() -> str | None:
    """Why marked functions run as plain Python here, or None where they are captured.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.unsupported_reason() is None or isinstance(fj.unsupported_reason(), str)
    True
    """
    return reason
