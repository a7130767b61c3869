"""What a bug report needs: versions, processor, settings."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import Any

from framejit._api._config import changed, config
from framejit._api._platform import core, reason


def configuration() -> dict[str, Any]:
    """Versions, processor and settings as a dict."""
    import framejit

    versions = {"framejit": framejit.__version__, "Python": sys.version.split()[0]}
    for name in ("numpy", "scipy", "tbb"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed as a package"
    processor: dict[str, Any] = {
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "usable threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }
    if core is not None:
        processor.update(core.cpu_features())
        processor["usable threads"] = core.num_threads()
    return {
        "versions": versions,
        "capture": "yes" if reason is None else f"no: {reason}",
        "processor": processor,
        "settings": dict(config),
    }


def show_config() -> None:
    """Print versions, processor and settings, for bug reports.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.show_config()  # doctest: +ELLIPSIS
    versions:
      framejit: ...
    """
    for part, values in configuration().items():
        if isinstance(values, dict):
            print(f"{part}:")
            for name, value in values.items():
                print(f"  {name}: {value!r}" if part == "settings" else f"  {name}: {value}")
        else:
            print(f"{part}: {values}")


def brief() -> str:
    """The version, whether functions are captured, and the settings that were changed, in three lines."""
    import framejit

    settings = ", ".join(f"{name}={value!r}" for name, value in changed().items())
    captured = "functions are captured" if reason is None else f"functions run as plain Python: {reason}"
    return "\n".join(
        [
            f"framejit {framejit.__version__}: {captured}",
            f"settings: {settings or 'all at their defaults'}",
            "%framejit? lists what can be asked for",
        ]
    )
