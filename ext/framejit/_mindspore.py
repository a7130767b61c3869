"""framejit under the name mindspore, for scripts that import that."""

from __future__ import annotations

import importlib
import sys

_MODULES = (
    "common common.api common.dtype common.initializer common.parameter common.tensor context mint mint.nn mint.nn.functional nn numpy "
    "ops ops.composite ops.functional ops.operations"
)


def install() -> None:
    """Make ``import mindspore`` and imports of its modules give framejit."""
    sys.modules["mindspore"] = importlib.import_module("framejit")
    for name in _MODULES.split():
        sys.modules[f"mindspore.{name}"] = importlib.import_module(f"framejit.{name}")
    sys.modules["mindspore.dtype"] = sys.modules["mindspore.common.dtype"]
