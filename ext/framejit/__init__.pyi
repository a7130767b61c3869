from collections.abc import Callable
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from framejit import array_api as array_api
from framejit import common as common
from framejit import communication as communication
from framejit import context as context
from framejit import dataset as dataset
from framejit import mint as mint
from framejit import nn as nn
from framejit import numpy as numpy
from framejit import ops as ops
from framejit import scipy as scipy
from framejit import train as train
from framejit._api._cfunc import CFunc as CFunc
from framejit._api._cfunc import cfunc as cfunc
from framejit._api._config import config as config
from framejit._api._control import disable as disable
from framejit._api._control import graph_break as graph_break
from framejit._api._control import is_compiling as is_compiling
from framejit._api._control import stance as stance
from framejit._api._custom import CustomOp as CustomOp
from framejit._api._custom import custom_op as custom_op
from framejit._api._dtypes import DType
from framejit._api._dtypes import dtype_to_nptype as dtype_to_nptype
from framejit._api._dtypes import dtype_to_pytype as dtype_to_pytype
from framejit._api._dtypes import get_py_obj_dtype as get_py_obj_dtype
from framejit._api._dtypes import pytype_to_dtype as pytype_to_dtype
from framejit._api._errors import GraphBreakError as GraphBreakError
from framejit._api._errors import PerformanceWarning as PerformanceWarning
from framejit._api._errors import RecompileLimitWarning as RecompileLimitWarning
from framejit._api._errors import Unsupported as Unsupported
from framejit._api._jit_config import JitConfig as JitConfig
from framejit._api._mark import Mark as Mark
from framejit._api._mark import mark as mark
from framejit._api._platform import unsupported_reason as unsupported_reason
from framejit._api._specs import ArraySpec as ArraySpec
from framejit._api._specs import enable_dynamic as enable_dynamic
from framejit._api._specs import mark_dynamic as mark_dynamic
from framejit._api._stats import reset as reset
from framejit._api._stats import stats as stats
from framejit._api._threads import get_num_threads as get_num_threads
from framejit._api._threads import set_num_threads as set_num_threads
from framejit._autodiff._grad import get_grad as get_grad
from framejit._autodiff._grad import jvp as jvp
from framejit._autodiff._grad import vjp as vjp
from framejit._autodiff._hooks import register_saved_tensors_hooks as register_saved_tensors_hooks
from framejit._autodiff._hooks import saved_tensors_hooks as saved_tensors_hooks
from framejit._core import Tensor as Tensor
from framejit._files._checkpoint import load_checkpoint as load_checkpoint
from framejit._files._checkpoint import load_checkpoint_async as load_checkpoint_async
from framejit._files._checkpoint import load_param_into_net as load_param_into_net
from framejit._files._checkpoint import save_checkpoint as save_checkpoint
from framejit._files._export import export as export
from framejit._files._export import load as load
from framejit._mindspore import log as log
from framejit._mindspore._script import jit_class as jit_class
from framejit._mindspore._script import lazy_inline as lazy_inline
from framejit._mindspore._script import mutable as mutable
from framejit._mindspore._script import no_inline as no_inline
from framejit._mindspore._script import recompute as recompute
from framejit._mindspore.log import get_level as get_level
from framejit._mindspore.log import get_log_config as get_log_config
from framejit._reporting._explain import Explanation as Explanation
from framejit._reporting._explain import explain as explain
from framejit._reporting._info import show_config as show_config
from framejit._reporting._trace import Trace as Trace
from framejit._reporting._trace import trace as trace
from framejit._tensors._parameter import Parameter as Parameter
from framejit._tensors._parameter import ParameterTuple as ParameterTuple
from framejit._tensors._random import Generator as Generator
from framejit._tensors._random import default_generator as default_generator
from framejit._tensors._tensor import Symbol as Symbol
from framejit._tensors._tensor import frombuffer as frombuffer
from framejit._tensors._tensor import tensor as tensor
from framejit.common import dtype as dtype
from framejit.common import initializer as initializer
from framejit.common.dtype import TensorType as TensorType
from framejit.common.dtype import Type as Type
from framejit.context import COMPATIBLE as COMPATIBLE
from framejit.context import GRAPH_MODE as GRAPH_MODE
from framejit.context import LAX as LAX
from framejit.context import PYNATIVE_MODE as PYNATIVE_MODE
from framejit.context import STRICT as STRICT
from framejit.context import ParallelMode as ParallelMode
from framejit.context import get_auto_parallel_context as get_auto_parallel_context
from framejit.context import get_context as get_context
from framejit.context import get_ps_context as get_ps_context
from framejit.context import get_rng_state as get_rng_state
from framejit.context import get_seed as get_seed
from framejit.context import initial_seed as initial_seed
from framejit.context import manual_seed as manual_seed
from framejit.context import reset_auto_parallel_context as reset_auto_parallel_context
from framejit.context import reset_ps_context as reset_ps_context
from framejit.context import run_check as run_check
from framejit.context import seed as seed
from framejit.context import set_auto_parallel_context as set_auto_parallel_context
from framejit.context import set_context as set_context
from framejit.context import set_deterministic as set_deterministic
from framejit.context import set_device as set_device
from framejit.context import set_ps_context as set_ps_context
from framejit.context import set_recursion_limit as set_recursion_limit
from framejit.context import set_rng_state as set_rng_state
from framejit.context import set_seed as set_seed
from framejit.ops import is_tensor as is_tensor
from framejit.ops import vmap as vmap
from framejit.ops._methods import from_dlpack as from_dlpack
from framejit.ops._methods import from_numpy as from_numpy
from framejit.ops._sparse import COOTensor as COOTensor
from framejit.ops._sparse import CSRTensor as CSRTensor
from framejit.ops._sparse import RowTensor as RowTensor
from framejit.ops._sparse import SparseTensor as SparseTensor
from framejit.train import F1 as F1
from framejit.train import MAE as MAE
from framejit.train import MSE as MSE
from framejit.train import ROC as ROC
from framejit.train import Accuracy as Accuracy
from framejit.train import BackupAndRestore as BackupAndRestore
from framejit.train import BleuScore as BleuScore
from framejit.train import Callback as Callback
from framejit.train import CheckpointConfig as CheckpointConfig
from framejit.train import ConfusionMatrix as ConfusionMatrix
from framejit.train import ConfusionMatrixMetric as ConfusionMatrixMetric
from framejit.train import CosineSimilarity as CosineSimilarity
from framejit.train import DatasetHelper as DatasetHelper
from framejit.train import Dice as Dice
from framejit.train import DynamicLossScaleManager as DynamicLossScaleManager
from framejit.train import EarlyStopping as EarlyStopping
from framejit.train import Fbeta as Fbeta
from framejit.train import FixedLossScaleManager as FixedLossScaleManager
from framejit.train import HausdorffDistance as HausdorffDistance
from framejit.train import History as History
from framejit.train import LambdaCallback as LambdaCallback
from framejit.train import LearningRateScheduler as LearningRateScheduler
from framejit.train import Loss as Loss
from framejit.train import LossMonitor as LossMonitor
from framejit.train import LossScaleManager as LossScaleManager
from framejit.train import MeanSurfaceDistance as MeanSurfaceDistance
from framejit.train import Metric as Metric
from framejit.train import Model as Model
from framejit.train import ModelCheckpoint as ModelCheckpoint
from framejit.train import OcclusionSensitivity as OcclusionSensitivity
from framejit.train import Perplexity as Perplexity
from framejit.train import Precision as Precision
from framejit.train import Recall as Recall
from framejit.train import ReduceLROnPlateau as ReduceLROnPlateau
from framejit.train import RootMeanSquareDistance as RootMeanSquareDistance
from framejit.train import RunContext as RunContext
from framejit.train import SummaryRecord as SummaryRecord
from framejit.train import TimeMonitor as TimeMonitor
from framejit.train import Top1CategoricalAccuracy as Top1CategoricalAccuracy
from framejit.train import Top5CategoricalAccuracy as Top5CategoricalAccuracy
from framejit.train import TopKCategoricalAccuracy as TopKCategoricalAccuracy
from framejit.train import amp as amp
from framejit.train import auc as auc
from framejit.train import build_train_network as build_train_network
from framejit.train import get_metric_fn as get_metric_fn
from framejit.train import names as names
from framejit.train import rearrange_inputs as rearrange_inputs

__version__: str
__all__: list[str]

_P = ParamSpec("_P")
_R = TypeVar("_R", covariant=True)
_C = TypeVar("_C")
_Q = ParamSpec("_Q")
_S = TypeVar("_S")
_T = TypeVar("_T")

class _Marked(Generic[_P, _R]):
    __name__: str
    __qualname__: str
    __wrapped__: Callable[_P, _R]
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None) -> _Marked[_P, _R]: ...
    @overload
    def __get__(self: _Marked[Concatenate[_S, _Q], _T], instance: _S, owner: type | None = None) -> _Marked[_Q, _T]: ...
    @overload  # of a static method, whose first parameter is no instance
    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., _R]: ...
    def cache_entries(self) -> list[dict[str, Any]]: ...
    def cache_clear(self) -> None: ...
    def graphs(self) -> str: ...
    def asm(self) -> str: ...
    def precompile(self, *specs: Any) -> None: ...

class _Decorator:
    @overload  # a staticmethod can be called too, but stays one
    def __call__(self, function: staticmethod[_P, _R]) -> staticmethod[_P, _R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: classmethod[_C, _P, _R]) -> classmethod[_C, _P, _R]: ...
    @overload
    def __call__(self, function: Callable[_P, _R]) -> _Marked[_P, _R]: ...

@overload
def jit(
    function: None = None,
    *,
    capture_mode: Literal["ast", "bytecode", "trace"] = "ast",
    jit_level: Literal["O0", "O1"] = "O0",
    dynamic: bool = False,
    fullgraph: bool = False,
    backend: Literal["", "ms_backend", "GE"] = "",
    **options: Any,
) -> _Decorator: ...
@overload
def jit(
    function: staticmethod[_P, _R],
    *,
    capture_mode: Literal["ast", "bytecode"] = "ast",
    jit_level: Literal["O0", "O1"] = "O0",
    dynamic: bool = False,
    fullgraph: bool = False,
    backend: Literal["", "ms_backend", "GE"] = "",
    **options: Any,
) -> staticmethod[_P, _R]: ...
@overload
def jit(
    function: classmethod[_C, _P, _R],
    *,
    capture_mode: Literal["ast", "bytecode"] = "ast",
    jit_level: Literal["O0", "O1"] = "O0",
    dynamic: bool = False,
    fullgraph: bool = False,
    backend: Literal["", "ms_backend", "GE"] = "",
    **options: Any,
) -> classmethod[_C, _P, _R]: ...
@overload
def jit(
    function: Callable[_P, _R],
    *,
    capture_mode: Literal["ast", "bytecode"] = "ast",
    jit_level: Literal["O0", "O1"] = "O0",
    dynamic: bool = False,
    fullgraph: bool = False,
    backend: Literal["", "ms_backend", "GE"] = "",
    **options: Any,
) -> _Marked[_P, _R]: ...

ms_function = jit

@overload
def grad(
    fn: Callable[_P, Any],
    grad_position: int | tuple[int, ...] | None = 0,
    weights: Any = None,
    has_aux: bool = False,
    return_ids: bool = False,
    sens_param: Literal[False] = False,
) -> Callable[_P, Any]: ...
@overload
def grad(
    fn: Callable[..., Any],
    grad_position: int | tuple[int, ...] | None = 0,
    weights: Any = None,
    has_aux: bool = False,
    return_ids: bool = False,
    sens_param: bool = False,
) -> Callable[..., Any]: ...
def value_and_grad(
    fn: Callable[_P, Any],
    grad_position: int | tuple[int, ...] | None = 0,
    weights: Any = None,
    has_aux: bool = False,
    return_ids: bool = False,
    sens_param: bool = False,
) -> Callable[_P, tuple[Any, Any]]: ...

bool_: DType
int8: DType
int16: DType
int32: DType
int64: DType
uint8: DType
uint16: DType
uint32: DType
uint64: DType
float16: DType
bfloat16: DType
float32: DType
float64: DType
complex64: DType
complex128: DType
half: DType
single: DType
double: DType
float_: DType
byte: DType
short: DType
intc: DType
intp: DType
long: DType
int_: DType
ubyte: DType
ushort: DType
uint: DType
uintc: DType
uintp: DType
cfloat: DType
cdouble: DType
string: DType
