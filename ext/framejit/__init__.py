"""A tracing JIT inside CPython for NumPy code.

Examples
--------
>>> import numpy as np
>>> import framejit as fj
>>> @fj.jit
... def f(a, b, c):
...     return a * b + c
>>> f(np.arange(3.0), 2.0, 1.0)
array([1., 3., 5.])

.. PYTEST_DONT_REWRITE: pytest would warn if this package was imported before it.
"""

from __future__ import annotations

from importlib import import_module as _import_module

from framejit import _start
from framejit._api._config import config
from framejit._api._control import disable, graph_break, is_compiling, stance
from framejit._api._errors import GraphBreakError, PerformanceWarning, RecompileLimitWarning, Unsupported
from framejit._api._jit import jit, ms_function
from framejit._api._platform import unsupported_reason
from framejit._api._stats import reset, stats
from framejit._api._threads import get_num_threads, set_num_threads
from framejit._traced import _polyfills as _polyfills  # capture asks for it

__version__ = "0.1.0"

# Names that are imported when they are first used, and the modules that have them; None: they are modules.
_LAZY = {
    **dict.fromkeys(("mark", "Mark"), "_api._mark"),
    **dict.fromkeys(("explain", "Explanation"), "_reporting._explain"),
    "JitConfig": "_api._jit_config",
    **dict.fromkeys(("Trace", "trace"), "_reporting._trace"),
    **dict.fromkeys(("CFunc", "cfunc"), "_api._cfunc"),
    **dict.fromkeys(("CustomOp", "custom_op"), "_api._custom"),
    **dict.fromkeys(("ArraySpec", "enable_dynamic", "mark_dynamic"), "_api._specs"),
    "show_config": "_reporting._info",
    **dict.fromkeys(
        (
            *("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
        ),
        "_dtypes",
    ),
    **dict.fromkeys(("Symbol", "Tensor", "frombuffer", "tensor"), "_tensors._tensor"),
    "is_tensor": "ops",
    **dict.fromkeys(("register_saved_tensors_hooks", "saved_tensors_hooks"), "_autodiff._hooks"),
    "log": "_mindspore",
    **dict.fromkeys(("get_level", "get_log_config"), "_mindspore.log"),
    **dict.fromkeys(("COOTensor", "CSRTensor", "RowTensor", "SparseTensor"), "ops._sparse"),
    "amp": "train",
    **dict.fromkeys(("from_numpy", "from_dlpack"), "ops._methods"),
    **dict.fromkeys(("Parameter", "ParameterTuple"), "_tensors._parameter"),
    **dict.fromkeys(("grad", "value_and_grad", "jvp", "vjp", "get_grad"), "_autodiff._grad"),
    "vmap": "ops",
    **dict.fromkeys(("dtype_to_nptype", "dtype_to_pytype", "get_py_obj_dtype", "pytype_to_dtype"), "_api._dtypes"),
    **dict.fromkeys(
        (
            *("half", "single", "double", "float_", "byte", "short", "intc", "intp", "long", "int_", "ubyte", "ushort"),
            *("uint", "uintc", "uintp", "cfloat", "cdouble", "string", "Type", "TensorType"),
        ),
        "common.dtype",
    ),
    **dict.fromkeys(("set_ps_context", "get_ps_context", "reset_ps_context", "set_device"), "context"),
    **dict.fromkeys(("set_context", "get_context", "GRAPH_MODE", "PYNATIVE_MODE", "set_seed", "get_seed"), "context"),
    **dict.fromkeys(("mutable", "jit_class", "lazy_inline", "no_inline", "recompute"), "_mindspore._script"),
    **dict.fromkeys(
        (
            "manual_seed",
            "initial_seed",
            "get_rng_state",
            "set_rng_state",
            "set_deterministic",
            "STRICT",
            "COMPATIBLE",
            "LAX",
        ),
        "context",
    ),
    **dict.fromkeys(("Generator", "default_generator"), "_tensors._random"),
    **dict.fromkeys(("seed", "set_recursion_limit", "run_check"), "context"),
    **dict.fromkeys(
        ("ParallelMode", "get_auto_parallel_context", "reset_auto_parallel_context", "set_auto_parallel_context"),
        "context",
    ),
    **dict.fromkeys(
        ("save_checkpoint", "load_checkpoint", "load_checkpoint_async", "load_param_into_net"), "_files._checkpoint"
    ),
    **dict.fromkeys(("export", "load"), "_files._export"),
    **dict.fromkeys(
        (
            *("Model", "Accuracy", "Callback", "CheckpointConfig", "Loss", "LossMonitor", "Metric", "ModelCheckpoint"),
            *("RunContext", "TimeMonitor", "DynamicLossScaleManager", "FixedLossScaleManager", "LossScaleManager"),
            *("BleuScore", "ConfusionMatrix", "ConfusionMatrixMetric", "CosineSimilarity", "Dice", "F1", "Fbeta"),
            *("HausdorffDistance", "MAE", "MSE", "MeanSurfaceDistance", "OcclusionSensitivity", "Perplexity"),
            *("Precision", "ROC", "Recall", "RootMeanSquareDistance", "Top1CategoricalAccuracy", "auc", "names"),
            *("Top5CategoricalAccuracy", "TopKCategoricalAccuracy", "get_metric_fn", "rearrange_inputs"),
            *("DatasetHelper", "SummaryRecord", "build_train_network", "EarlyStopping", "History", "LambdaCallback"),
            *("LearningRateScheduler", "ReduceLROnPlateau", "BackupAndRestore"),
        ),
        "train",
    ),
    **dict.fromkeys(
        ("array_api", "common", "communication", "context", "dataset", "mint", "nn", "numpy", "ops", "scipy", "train"),
        None,
    ),
    "dtype": "common",
    "initializer": "common",
}
# Names that programs for MindSpore import although they are private.
_UNLISTED = {"_checkparam": "_mindspore", "_no_grad": "common.api"}

__all__ = [
    "GraphBreakError",
    "PerformanceWarning",
    "RecompileLimitWarning",
    "Unsupported",
    "config",
    "disable",
    "get_num_threads",
    "graph_break",
    "is_compiling",
    "jit",
    "ms_function",
    "reset",
    "set_num_threads",
    "stance",
    "stats",
    "unsupported_reason",
    *_LAZY,
]


def __getattr__(name: str) -> object:
    if name not in _LAZY and name not in _UNLISTED:
        raise _import_module("framejit._api._names").unknown("framejit", name, __all__)
    module = _UNLISTED[name] if name in _UNLISTED else _LAZY[name]
    try:
        value = _import_module("framejit." + (module or name))
        if module is not None:
            value = getattr(value, name)
    except ImportError:
        if unsupported_reason() is None:
            raise
        raise AttributeError(f"framejit.{name} needs the compiled half, but {unsupported_reason()}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def load_ipython_extension(shell: object) -> None:
    """Called by ``%load_ext framejit`` of IPython: adds the magics ``%framejit`` and ``%%framejit``."""
    from framejit._notebook import load

    load(shell)


_start.start()
