"""Primitives: ``ops.Add()(x, y)``. One row each: the parameters of the constructor with their defaults, and the function."""

from __future__ import annotations

import inspect
import math
from typing import Any

from framejit import _core
from framejit._autodiff._grad import stop_gradient
from framejit.ops import (
    _create,
    _elementwise,
    _further,
    _image,
    _linalg,
    _loss,
    _pooling,
    _random,
    _reduce,
    _shape,
)
from framejit.ops._operators import OPERATORS

__all__ = [
    "ArgMaxWithValue", "Argmax", "AvgPool", "BatchMatMul", "BatchNorm", "Conv2D", "Conv3D", "Dropout", "Eig",
    "L2Loss", "LayerNorm", "MatMul", "MaxPool", "OneHot", "Pad", "Primitive", "SoftmaxCrossEntropyWithLogits",
    "SparseSoftmaxCrossEntropyWithLogits", "Split", "StopGradient",
]  # fmt: skip


class Primitive:
    """What all primitives are: called with the operands; the options were given before."""

    _parameters: dict[str, Any] = {}
    _function: Any = None
    _functions: tuple[Any, ...] = ()  # with the function, where capture finds it also if it is one in C
    _inputs: tuple[int, float] = (0, math.inf)  # how many operands there may be

    def __init__(self, *args: Any, **options: Any) -> None:
        if type(self) is Primitive and len(args) == 1 and isinstance(args[0], str):  # one of ours by its name
            from framejit import ops

            known = getattr(ops, args[0], None)
            if isinstance(known, type) and issubclass(known, Primitive):
                self.__class__ = known
                args = ()
        names = list(self._parameters)
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes {len(names)} arguments, but got {len(args)}")
        given = dict(zip(names, args), **options)
        unknown = [name for name in given if name not in self._parameters]
        if unknown:
            raise TypeError(f"{type(self).__name__} has no argument {unknown[0]!r}")
        self.name: str = type(self).__name__
        self._options = {**self._parameters, **given}
        self.attrs: dict[str, Any] = {**getattr(self, "attrs", {}), **given}
        self.init_attrs: dict[str, Any] = getattr(self, "init_attrs", {})  # of prim_attr_register, which comes first
        # An attribute of the object: capture reads it as such.
        self.function: Any = self._functions[0] if self._functions else type(self)._function

    def __call__(self, *args: Any) -> Any:
        least, most = self._inputs
        if not least <= len(args) <= most:
            self._refuse(len(args))
        return self.function(*args, **self._options)

    def _refuse(self, count: int) -> None:
        least, most = self._inputs
        if count > most:
            raise TypeError(
                f"For Operator[{self.name}], the number of inputs should be less than or equal to {most}, but got {count}."
            )
        raise TypeError(
            f"For 'S_Prim_{self.name}', the size of input should be {least}, but got {count}. Please check inputs of the operator."
        )

    def __repr__(self) -> str:
        return f"Prim[{self.name}]" + (f"<{self._options}>" if self._options else "")

    # --- What MindSpore's compiler is told about a primitive: kept, and nothing depends on it ------------------------------

    update_parameter: bool = False
    instance_name: str = ""

    def add_prim_attr(self, name: str, value: Any) -> Primitive:
        """Keep an attribute by name."""
        self.attrs[name] = value
        return self

    def del_prim_attr(self, name: str) -> Primitive:
        """Drop an attribute."""
        self.attrs.pop(name, None)
        return self

    add_attr = add_prim_attr
    del_attr = del_prim_attr

    def get_attr_dict(self) -> dict[str, Any]:
        """The attributes by name."""
        return dict(self.attrs)

    def init_prim_io_names(self, inputs: Any, outputs: Any) -> None:
        """Keep the names of operands and results."""
        self.attrs.update(input_names=inputs, output_names=outputs)

    def set_prim_instance_name(self, instance_name: str) -> Primitive:
        """Name this primitive."""
        self.instance_name = instance_name
        return self.add_prim_attr("instance_name", instance_name)

    def set_device(self, device_target: str) -> Primitive:
        """Keep the name of a device."""
        return self.add_prim_attr("primitive_target", device_target)

    def set_stage(self, stage: int) -> Primitive:
        """Keep the number of a stage."""
        return self.add_prim_attr("stage", stage)

    def place(self, role: str, rank_id: int) -> None:
        """Keep the name of a process."""
        self.attrs.update(_process_node=(role, rank_id))

    def shard(self, in_strategy: Any = None, out_strategy: Any = None) -> Primitive:
        """Keep how operands would be shared among devices."""
        self.attrs.update(in_strategy=in_strategy, out_strategy=out_strategy)
        return self

    def recompute(self, mode: bool = True) -> Primitive:
        """Keep whether the result is to be computed again for gradients."""
        if not isinstance(mode, bool):
            raise TypeError(f"For 'recompute', the argument 'mode' must be bool, but got {type(mode).__name__}.")
        return self.add_prim_attr("recompute", mode)

    def check_elim(self, *args: Any) -> tuple[bool, None]:
        """Nothing is known before the call."""
        return False, None


class _OfOperands(Primitive):
    """One that is computed element by element: its operands are Tensors and numbers, no sequences."""

    def __call__(self, *args: Any) -> Any:
        least, most = self._inputs
        if not least <= len(args) <= most:
            self._refuse(len(args))
        for operand in args:
            if isinstance(operand, (tuple, list)):
                self._refuse_sequence(args)
        return self.function(*args, **self._options)

    def _refuse_sequence(self, args: tuple[Any, ...]) -> None:
        kinds = ", ".join([_kind(operand) for operand in args])
        raise TypeError(
            f'Failed calling {self.name} with "{self.name}()({kinds})".\n'
            f"The valid calling should be: operands that are Tensors or numbers."
        )


def _kind(operand: Any) -> str:
    """The type of an operand in MindSpore's words: ``List<int, Tensor>``."""
    if isinstance(operand, (tuple, list)):
        return f"{type(operand).__name__.capitalize()}<{', '.join([_kind(item) for item in operand])}>"
    return type(operand).__name__


# Name: (function, {option: default}). The options have the names that the function has.
_ROWS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: (operator.compute, {}) for operator in OPERATORS for name in operator.primitives},
    **{
        name: (getattr(_elementwise, function), {})
        for name, function in {
            "Floor": "floor",
            "Ceil": "ceil",
            "Round": "round",
            "Rint": "rint",
            "Trunc": "trunc",
            "Rsqrt": "rsqrt",
            "Erfc": "erfc",
            "Asinh": "asinh",
            "Acosh": "acosh",
            "Atanh": "atanh",
            "Cast": "cast",
            "Select": "where",
            "Sigmoid": "sigmoid",
            "ReLU": "relu",
            "ReLU6": "relu6",
            "HSigmoid": "hardsigmoid",
            "HSwish": "hardswish",
            "Softplus": "softplus",
            "Softsign": "softsign",
            "Mish": "mish",
            "AddN": "addn",
            "Xlogy": "xlogy",
            "SquaredDifference": "squared_difference",
            "MaskedFill": "masked_fill",
            "NanToNum": "nan_to_num",
        }.items()
    },
    "Gelu": (_elementwise.gelu, {"approximate": "tanh"}),
    "GeLU": (_elementwise.gelu, {"approximate": "tanh"}),
    "Elu": (_elementwise.elu, {"alpha": 1.0}),
    "ReduceSum": (_reduce.reduce_sum, {"keep_dims": False}),
    "ReduceMean": (_reduce.reduce_mean, {"keep_dims": False}),
    "ReduceMax": (_reduce.reduce_max, {"keep_dims": False}),
    "ReduceMin": (_reduce.reduce_min, {"keep_dims": False}),
    "ReduceProd": (_reduce.reduce_prod, {"keep_dims": False}),
    "ReduceAll": (_reduce.reduce_all, {"keep_dims": False}),
    "ReduceAny": (_reduce.reduce_any, {"keep_dims": False}),
    "Softmax": (_reduce.softmax, {"axis": -1}),
    "LogSoftmax": (_reduce.log_softmax, {"axis": -1}),
    "CumSum": (_reduce.cumsum, {}),
    "Argmin": (_reduce.argmin, {"axis": -1}),
    "Median": (_reduce.median, {"axis": 0, "keepdims": False}),
    "Reshape": (_shape.reshape, {}),
    "Transpose": (_shape.transpose, {}),
    "Squeeze": (_shape.squeeze, {"axis": None}),
    "ExpandDims": (_shape.expand_dims, {}),
    "BroadcastTo": (_shape.broadcast_to, {"shape": None}),
    "Flatten": (_shape.flatten, {}),
    "Shape": (_shape.shape, {}),
    "Rank": (_shape.rank, {}),
    "Size": (_shape.size, {}),
    "DType": (_shape.dtype, {}),
    "Concat": (_shape.cat, {"axis": 0}),
    "Stack": (_shape.stack, {"axis": 0}),
    "Unstack": (_shape.unstack, {"axis": 0}),
    "Tile": (_shape.tile, {}),
    "Slice": (_shape.slice_, {}),
    "StridedSlice": (_shape.strided_slice, {}),
    "Gather": (_shape.gather, {"batch_dims": 0}),
    "GatherD": (_shape.gather_elements, {}),
    "GatherNd": (_shape.gather_nd, {}),
    "MaskedSelect": (_shape.masked_select, {}),
    "NonZero": (_shape.nonzero, {}),
    "TensorScatterUpdate": (_shape.tensor_scatter_update, {}),
    "TensorScatterAdd": (_shape.tensor_scatter_add, {}),
    "ScatterNd": (_shape.scatter_nd, {}),
    "Sort": (_shape.sort, {"axis": -1, "descending": False}),
    "TopK": (_shape.topk, {"sorted": True}),
    "Unique": (_shape.unique, {}),
    "Zeros": (_create.zeros, {}),
    "Ones": (_create.ones, {}),
    "ZerosLike": (_create.zeros_like, {}),
    "OnesLike": (_create.ones_like, {}),
    "Fill": (_create.fill, {}),
    "FillV2": (_create.full, {}),
    "Range": (_create.range, {"maxlen": 1000000}),
    "LinSpace": (_create.linspace, {}),
    "Eye": (_create.eye, {}),
    "Assign": (_create.assign, {}),
    "AssignAdd": (_create.assign_add, {}),
    "AssignSub": (_create.assign_sub, {}),
    "InplaceAdd": (_create.inplace_add, {"indices": None}),
    "InplaceSub": (_create.inplace_sub, {"indices": None}),
    "Identity": (_create.identity, {}),
    "Depend": (_create.depend, {}),
    "Print": (_create.print_, {}),
    "BiasAdd": (_loss.bias_add, {}),
    **{
        name: (getattr(module, function), {})
        for module, names in {
            _elementwise: "Heaviside:heaviside Lerp:lerp Conj:conj Real:real Imag:imag IsClose:isclose FastGelu:fast_gelu "
            "FastGeLU:fast_gelu SeLU:selu PReLU:prelu Sinc:sinc Logit:logit Addcmul:addcmul "
            "Addcdiv:addcdiv",
            _loss: "Lgamma:lgamma Digamma:digamma Erfinv:erfinv",
            _reduce: "Ger:ger Trace:trace Bincount:bincount",
            _linalg: "MatrixInverse:inverse MatrixDeterminant:det LogMatrixDeterminant:slogdet MatrixExp:matrix_exp Zeta:zeta "
            "Igamma:igamma Igammac:igammac Polygamma:polygamma Xdivy:xdivy BesselI0:bessel_i0 BesselI1:bessel_i1 BesselJ0:bessel_j0 "
            "BesselJ1:bessel_j1 BesselK0:bessel_k0 BesselK1:bessel_k1 BesselY0:bessel_y0 BesselY1:bessel_y1",
            _further: "TruncateDiv:truncate_div TruncateMod:truncate_mod NextAfter:nextafter Gcd:gcd Lcm:lcm Angle:angle Polar:polar "
            "PopulationCount:population_count IndexFill:index_fill TensorScatterMul:tensor_scatter_mul "
            "TensorScatterDiv:tensor_scatter_div UnsortedSegmentSum:unsorted_segment_sum UnsortedSegmentMax:unsorted_segment_max "
            "UnsortedSegmentMin:unsorted_segment_min UnsortedSegmentProd:unsorted_segment_prod MatrixBandPart:matrix_band_part",
            _shape: "TensorScatterSub:tensor_scatter_sub TensorScatterMax:tensor_scatter_max TensorScatterMin:tensor_scatter_min "
            "Diag:diag",
        }.items()
        for name, function in (pair.split(":") for pair in names.split())
    },
    **{
        "Scatter" + kind + name: (getattr(_further, f"_scatter_{own}{name.lower()}"), {"use_locking": name == "Update"})
        for kind, own in (("", ""), ("Nd", "nd_"))
        for name in ("Update", "Add", "Sub", "Mul", "Div", "Max", "Min")
    },
    "MirrorPad": (_further.mirror_pad, {"mode": "REFLECT"}),
    "LRN": (
        _image.lrn,
        {"depth_radius": 5, "bias": 1.0, "alpha": 1.0, "beta": 0.5, "norm_region": "ACROSS_CHANNELS"},
    ),
    "RmsNorm": (_loss.rms_norm, {"epsilon": 1e-6}),
    "ReverseSequence": (_shape.reverse_sequence, {"seq_dim": None, "batch_dim": 0}),
    "Cdist": (_reduce.cdist, {"p": 2.0}),
    "SmoothL1Loss": (_loss.smooth_l1_loss, {"beta": 1.0, "reduction": "none"}),
    "KLDivLoss": (_loss.kl_div, {"reduction": "mean"}),
    "SoftShrink": (_elementwise.softshrink, {"lambd": 0.5}),
    "HShrink": (_elementwise.hardshrink, {"lambd": 0.5}),
    "CeLU": (_elementwise.celu, {"alpha": 1.0}),
    "GLU": (_loss.glu, {"axis": -1}),
    "Tril": (_shape.tril, {"diagonal": 0}),
    "Triu": (_shape.triu, {"diagonal": 0}),
    "Cholesky": (_linalg.cholesky, {"upper": False}),
    "MatrixPower": (_linalg.matrix_power, {"n": None}),
    "IndexAdd": (_shape.index_add, {"axis": 0}),
    "InplaceUpdate": (_further.inplace_update, {"indices": None}),
    "MatrixSolve": (_linalg.matrix_solve, {"adjoint": False}),
    "Meshgrid": (lambda inputs, indexing: _shape.meshgrid(*inputs, indexing=indexing), {"indexing": "xy"}),
    "Dense": (_loss.dense, {}),
    "BinaryCrossEntropy": (_loss.binary_cross_entropy, {"reduction": "mean"}),
    "SigmoidCrossEntropyWithLogits": (_loss.sigmoid_cross_entropy_with_logits, {}),
}


_OPERANDS = {operator.compute: operator.operands for operator in OPERATORS}


def _inputs_of(function: Any, options: dict[str, Any]) -> tuple[int, float]:
    """How many operands a function takes in addition to the options."""
    if function in _OPERANDS:
        return _OPERANDS[function], _OPERANDS[function]
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None:  # of a function in C
        return 0, math.inf
    names = code.co_varnames[: code.co_argcount]
    needed = names[: code.co_argcount - len(function.__defaults__ or ())]
    most = math.inf if code.co_flags & inspect.CO_VARARGS else sum(name not in options for name in names)
    return sum(name not in options for name in needed), most


# Further primitives that are computed element by element; those of the operator table are too.
_BY_ELEMENT = {
    "Acosh", "Asinh", "Atanh", "Ceil", "DivNoNan", "Erfc", "Floor", "Gcd", "HSigmoid", "HSwish", "Lcm", "MaskedFill",
    "Mish", "MulNoNan", "NanToNum", "NextAfter", "ReLU", "ReLU6", "Rint", "Round", "Rsqrt", "Sigmoid", "Softplus",
    "Softsign", "SquaredDifference", "Trunc", "TruncateDiv", "TruncateMod", "Xdivy", "Xlogy",
}  # fmt: skip


def _make(name: str, function: Any, parameters: dict[str, Any]) -> type[Primitive]:
    body = {
        "_inputs": _inputs_of(function, parameters),
        "_function": staticmethod(function),
        "_functions": (function,),
        "_parameters": parameters,
        "__doc__": function.__doc__,
    }
    return type(name, (_OfOperands if name in _BY_ELEMENT or function in _OPERANDS else Primitive,), body)


for _name, (_function, _parameters) in _ROWS.items():
    globals()[_name] = _make(_name, _function, _parameters)
    __all__ += [_name]


def _define(module: dict[str, Any], rows: dict[str, tuple[Any, dict[str, Any]]]) -> None:
    """Put primitives into another module, whose names take the place of those here."""
    for name, (function, options) in rows.items():
        made = _make(name, function, options)
        made.__doc__ = function.__doc__ or f"MindSpore's primitive {name}."
        made.__module__ = module["__name__"]
        module[name] = made
        if name in __all__:
            globals()[name] = made
            __all__.remove(name)
        module["__all__"].append(name)


class MatMul(Primitive):
    """a @ b, with either transposed first."""

    _parameters = {"transpose_a": False, "transpose_b": False}

    def __call__(self, a: Any, b: Any) -> Any:
        if self._options["transpose_a"]:
            a = _shape.swapaxes(a, -1, -2)
        if self._options["transpose_b"]:
            b = _shape.swapaxes(b, -1, -2)
        return _core._op_matmul(a, b)


BatchMatMul = MatMul


class _Convolution(Primitive):
    _parameters = {
        "out_channel": 1,
        "kernel_size": 1,
        "mode": 1,
        "pad_mode": "valid",
        "pad": 0,
        "stride": 1,
        "dilation": 1,
        "group": 1,
        "data_format": "NCHW",
    }

    def __call__(self, x: Any, weight: Any) -> Any:
        o = self._options
        return self.function(x, weight, None, o["stride"], o["pad_mode"], o["pad"], o["dilation"], o["group"])


class Conv2D(_Convolution):
    """`conv2d` with the weight as second operand."""

    _function = staticmethod(_image.conv2d)


class MaxPool(Primitive):
    """The largest element under each window."""

    _parameters = {"kernel_size": 1, "strides": 1, "pad_mode": "valid", "data_format": "NCHW"}

    def __call__(self, x: Any) -> Any:
        return _pooling._max_pool(
            2, x, self._options["kernel_size"], self._options["strides"], self._options["pad_mode"]
        )


class Split(Primitive):
    """A tuple of `output_num` equal parts along `axis`."""

    _parameters = {"axis": 0, "output_num": 1}

    def __call__(self, input_x: Any) -> Any:
        axis = self._options["axis"]
        return _shape.split(input_x, input_x.shape[axis] // self._options["output_num"], axis)


class OneHot(Primitive):
    """`one_hot` of given values."""

    _parameters = {"axis": -1}

    def __call__(self, indices: Any, depth: int, on_value: Any, off_value: Any) -> Any:
        return _shape.one_hot(indices, depth, on_value, off_value, self._options["axis"])


class SoftmaxCrossEntropyWithLogits(Primitive):
    """The loss of each row, and its gradient."""

    def __call__(self, logits: Any, labels: Any) -> Any:
        loss = _loss.softmax_cross_entropy_with_logits(logits, labels)
        return loss, _core._op_subtract(_reduce.softmax(logits), labels)


class Argmax(Primitive):
    """Index of the largest element along `axis`."""

    _parameters = {"axis": -1, "output_type": None}

    def __call__(self, x: Any) -> Any:
        at, output_type = _reduce.argmax(x, self._options["axis"]), self._options["output_type"]
        return at if output_type is None else at.astype(output_type)


class ArgMaxWithValue(Primitive):
    """Where the largest element along `axis` is, and the element."""

    _parameters = {"axis": 0, "keep_dims": False}

    def __call__(self, x: Any) -> Any:
        values, at = _reduce.max(x, self._options["axis"], self._options["keep_dims"])
        return at, values


class Eig(Primitive):
    """(values, vectors) of the last two dimensions, complex; without ``compute_v`` the vectors are a 0."""

    _parameters = {"compute_v": False}

    def __call__(self, x: Any) -> Any:
        values, vectors = _linalg.eig(x)
        return values, vectors if self._options["compute_v"] else _core.Tensor(0, values.dtype)


class StopGradient(Primitive):
    """The input, through which no gradient goes."""

    def __call__(self, value: Any) -> Any:
        return stop_gradient(value)


class LayerNorm(Primitive):
    """(normalized and scaled, mean, 1 / root of variance) over the dimensions from `begin_norm_axis` on."""

    _parameters = {"begin_norm_axis": 1, "begin_params_axis": 1, "epsilon": 1e-7}

    def __call__(self, input_x: Any, gamma: Any, beta: Any) -> Any:
        axes = tuple(range(self._options["begin_norm_axis"] % input_x.ndim, input_x.ndim))
        centered = _core._op_subtract(input_x, _reduce.mean(input_x, axes, True))
        variance = _reduce.var(input_x, axes, 0, True)
        scale = _elementwise.rsqrt(_core._op_add(variance, self._options["epsilon"]))
        return centered * scale * gamma + beta, _reduce.mean(input_x, axes, True), scale


class BatchNorm(Primitive):
    """`batch_norm`: (normalized, 0, 0, mean, 1 / root of variance); the last two are of the batch while training, else 0.

    While training, the given mean and variance move towards those of the batch.
    """

    _parameters = {"is_training": False, "epsilon": 1e-5, "momentum": 0.1, "data_format": "NCHW"}

    def __call__(self, input_x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
        o = self._options
        out = _image.batch_norm(input_x, mean, variance, scale, bias, o["is_training"], o["momentum"], o["epsilon"])
        zero = _create.zeros_like(scale)
        if not o["is_training"]:
            return out, zero, zero, zero, zero
        axes = (0, *range(2, input_x.ndim))
        root = _elementwise.rsqrt(_core._op_add(_reduce.var(input_x, axes, 0), o["epsilon"]))
        return out, zero, zero, _reduce.mean(input_x, axes), root


class AvgPool(Primitive):
    """The mean under each window."""

    _parameters = {"kernel_size": 1, "strides": 1, "pad_mode": "valid", "data_format": "NCHW"}

    def __call__(self, x: Any) -> Any:
        o = self._options
        return _pooling._avg_pool(2, x, o["kernel_size"], o["strides"], o["pad_mode"], count_include_pad=False)


class Conv3D(_Convolution):
    """`conv3d` with the weight as second operand."""

    _parameters = {**_Convolution._parameters, "data_format": "NCDHW"}
    _function = staticmethod(_image.conv3d)


class Pad(Primitive):
    """A border of zeros: (before, after) for each dimension; negative ones cut."""

    _parameters = {"paddings": ()}

    def __call__(self, input_x: Any) -> Any:
        return _shape._padded(input_x, self._options["paddings"], "constant")


class Dropout(Primitive):
    """(the Tensor with zeros and the rest divided by `keep_prob`, the mask)."""

    _parameters = {"keep_prob": 0.5, "Seed0": 0, "Seed1": 0}

    def __call__(self, x: Any) -> Any:
        keep = self._options["keep_prob"]
        mask = _random.bernoulli(_create.ones_like(x), keep, self._options["Seed0"] or self._options["Seed1"])
        return x * mask / keep, mask


class L2Loss(Primitive):
    """Half the sum of squares."""

    def __call__(self, input_x: Any) -> Any:
        return _reduce.reduce_sum(_core._op_square(input_x)) / 2


class SparseSoftmaxCrossEntropyWithLogits(Primitive):
    """The mean cross entropy of softmax(logits) with the labels, which are indices."""

    _parameters = {"is_grad": False}

    def __call__(self, logits: Any, labels: Any) -> Any:
        return _loss.cross_entropy(logits, labels)
