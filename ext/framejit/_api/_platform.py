"""The compiled half, where this interpreter and machine can be captured on; else the reason why not."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

# The versions of CPython that functions are captured on. CMakeLists.txt reads this line and builds framejit._core for these.
VERSIONS = ((3, 11), (3, 12), (3, 13), (3, 14), (3, 15))


def _jit_reason() -> str | None:
    """Why nothing is captured together with the interpreter's own JIT, whose traces rely on what captured code changes."""
    if sys.version_info[:2] == (3, 13):  # its JIT cannot be asked whether it is on
        import sysconfig

        if "--enable-experimental-jit" in (sysconfig.get_config_var("CONFIG_ARGS") or ""):
            return "framejit steps aside for the interpreter's own JIT, which this CPython 3.13 was built with"
    jit = getattr(sys, "_jit", None)
    if jit is not None and jit.is_enabled():
        return "framejit steps aside for the interpreter's own JIT, which is on (PYTHON_JIT=0 turns it off)"
    return None


def _find_reason() -> str | None:
    if os.environ.get("FRAMEJIT_DISABLE", "") not in ("", "0"):
        return "FRAMEJIT_DISABLE is set"
    if sys.implementation.name != "cpython":
        return f"framejit captures on CPython, this is {sys.implementation.name}"
    if "t" in getattr(sys, "abiflags", ""):
        return "framejit captures on CPython with the GIL, this is a free-threaded build"
    jit_reason = _jit_reason()
    if jit_reason is not None:
        return jit_reason
    if sys.version_info[:2] not in VERSIONS:
        versions = ", ".join(f"{major}.{minor}" for major, minor in VERSIONS)
        return f"framejit captures on CPython {versions}, this is {platform.python_version()}"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"framejit captures on Linux on x86-64, this is {sys.platform} on {platform.machine()}"
    return None


def _load() -> tuple[ModuleType | None, str | None]:
    reason = _find_reason()
    if reason is not None:
        return None, reason
    try:
        return import_module("framejit._core"), None
    except ImportError as error:
        if os.environ.get("FRAMEJIT_STRICT", "") not in ("", "0"):
            raise
        return None, _what_to_install(error)


def _what_to_install(error: ImportError) -> str:
    """One line on a compiled half that cannot be imported."""
    if error.name == "framejit._core" and isinstance(error, ModuleNotFoundError):
        return f"framejit was installed without its compiled half for {sys.executable}; install it there: pip install framejit"
    way = "reinstall it: pip install --force-reinstall framejit"
    if "libtbb" in str(error):
        way = "install oneTBB: pip install tbb, or on Debian apt-get install libtbb12"
    return f"framejit's compiled half cannot be loaded ({str(error).splitlines()[0]}); {way}"


# What tells the compiled half something once it is imported. Where functions run plain, that is when gradients are asked for.
connections: list[Callable[[Any], None]] = []
core, reason = _load()


def is_incomplete() -> bool:
    """Whether something that could be installed is missing, and functions run as plain Python for that."""
    return core is None and _find_reason() is None


def unsupported_reason() -> str | None:
    """Why marked functions run as plain Python here, or None where they are captured.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.unsupported_reason() is None or isinstance(fj.unsupported_reason(), str)
    True
    """
    return reason
