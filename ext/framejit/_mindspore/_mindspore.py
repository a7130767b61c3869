"""framejit under the name mindspore, for scripts that import that."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

# Modules of MindSpore that are parts of other modules here.
_ELSEWHERE = {
    "_c_expression": "_mindspore._c_expression",
    "_checkparam": "_mindspore._checkparam",
    "_extends": "_mindspore",
    "_extends.parse": "_mindspore",
    "_extends.parse.compile_config": "_mindspore.compile_config",
    "amp": "train.amp",
    "common._pijit_context": "_mindspore._pijit_context",
    "common.jit_begin_end": "_mindspore.jit_begin_end",
    "common.jit_config": "_api._jit_config",
    "common.mutable": "_mindspore._script",
    "common.sparse_tensor": "ops._sparse",
    "communication._comm_helper": "ops._process_group",
    "communication.management": "communication",
    "dataset.transforms.transforms": "dataset.transforms",
    "dataset.vision.transforms": "dataset.vision",
    "dataset.vision.utils": "dataset.vision",
    "dtype": "common.dtype",
    "mint.distributed.distributed": "mint.distributed",
    "graph.jit_begin_end": "_mindspore.jit_begin_end",
    "log": "_mindspore.log",
    "nn.cell": "nn",
    "nn.dynamic_lr": "nn",
    "nn.learning_rate_schedule": "nn",
    "nn.metrics": "train",
    "ops.function.grad.grad_func": "nn._custom_gradient",
    "ops.primitive": "ops",
    "train.callback": "train",
    "train.dataset_helper": "train",
    "train.loss_scale_manager": "train",
    "train.metrics": "train",
    "train.model": "train",
    "train.serialization": "",
    "train.summary": "train",
    "train.summary.summary_record": "train",
    "train.summary_pb2": "train._events",
}


# Packages whose modules are one module here.
_PARTS = (
    "dataset.engine.",
    *("nn.grad.", "nn.layer.", "nn.loss.", "nn.optim.", "nn.wrap."),
    *("ops.auto_generate.", "ops.composite.", "ops.function.", "ops.functional.", "ops.operations."),
)


def _own_name(rest: str) -> str:
    """The module of framejit that has what mindspore.REST has."""
    if rest in _ELSEWHERE:
        return _ELSEWHERE[rest]
    part = next((part for part in _PARTS if (rest + ".").startswith(part)), None)
    return rest if part is None else part.partition(".")[0]


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds mindspore.X where framejit.X is."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module of framejit, under the other name."""
        package, _, rest = fullname.partition(".")
        if package != "mindspore":
            return None
        name = ".".join(filter(None, ("framejit", _own_name(rest))))
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            return None
        return None if found is None else importlib.machinery.ModuleSpec(fullname, self, loader_state=name)

    def create_module(self, spec: Any) -> ModuleType:
        """The same module object as under its own name."""
        module = importlib.import_module(spec.loader_state)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: Any) -> None:
        """Nothing: it has run. It keeps its own spec."""
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Make ``import mindspore`` and imports of its modules give framejit. Tensors name the module of MindSpore's."""
    from framejit._api._dtypes import name_package
    from framejit._core import Tensor

    name_package("mindspore")
    sys.meta_path.insert(0, _Alias())
    Tensor.__module__ = "mindspore.common.tensor"
