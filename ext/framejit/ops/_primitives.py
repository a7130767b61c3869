"""Primitives: ``ops.Add()(x, y)``. One row each: the parameters of the constructor with their defaults, and the function."""

from __future__ import annotations

from typing import Any

from framejit import _core
from framejit.ops import _create, _elementwise, _image, _loss, _pooling, _reduce, _shape


class Primitive:
    """What all primitives are: called with the operands; the options were given before."""

    _parameters: dict[str, Any] = {}
    _function: Any = None

    def __init__(self, *args: Any, **options: Any) -> None:
        names = list(self._parameters)
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes {len(names)} arguments, but got {len(args)}")
        given = dict(zip(names, args), **options)
        unknown = [name for name in given if name not in self._parameters]
        if unknown:
            raise TypeError(f"{type(self).__name__} has no argument {unknown[0]!r}")
        self.name = type(self).__name__
        self._options = {**self._parameters, **given}
        self.function = type(self)._function  # an attribute of the object: capture reads it as such

    def __call__(self, *args: Any) -> Any:
        return self.function(*args, **self._options)

    def __repr__(self) -> str:
        return f"Prim[{self.name}]" + (f"<{self._options}>" if self._options else "")


# Name: (function, {option: default}). The options have the names that the function has.
_ROWS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{
        name: (getattr(_core, "_op_" + row), {})
        for row, names in {
            "add": "Add TensorAdd",
            "subtract": "Sub",
            "multiply": "Mul",
            "divide": "Div RealDiv",
            "floor_divide": "FloorDiv",
            "remainder": "Mod FloorMod",
            "power": "Pow",
            "arctan2": "Atan2",
            "minimum": "Minimum",
            "maximum": "Maximum",
            "negative": "Neg",
            "absolute": "Abs",
            "sign": "Sign",
            "square": "Square",
            "reciprocal": "Reciprocal Inv",
            "sqrt": "Sqrt",
            "exp": "Exp",
            "expm1": "Expm1",
            "log": "Log",
            "log1p": "Log1p",
            "sin": "Sin",
            "cos": "Cos",
            "tan": "Tan",
            "arcsin": "Asin",
            "arccos": "ACos",
            "arctan": "Atan",
            "sinh": "Sinh",
            "cosh": "Cosh",
            "tanh": "Tanh",
            "erf": "Erf",
            "isnan": "IsNan",
            "isinf": "IsInf",
            "isfinite": "IsFinite",
            "equal": "Equal",
            "not_equal": "NotEqual",
            "less": "Less",
            "less_equal": "LessEqual",
            "greater": "Greater",
            "greater_equal": "GreaterEqual",
            "bitwise_and": "BitwiseAnd",
            "bitwise_or": "BitwiseOr",
            "bitwise_xor": "BitwiseXor",
            "invert": "Invert",
            "logical_and": "LogicalAnd",
            "logical_or": "LogicalOr",
            "logical_xor": "LogicalXor",
            "logical_not": "LogicalNot",
        }.items()
        for name in names.split()
    },
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
    "InplaceAdd": (_create.inplace_add, {"indices": 0}),
    "InplaceSub": (_create.inplace_sub, {"indices": 0}),
    "Identity": (_create.identity, {}),
    "Depend": (_create.depend, {}),
    "Print": (_create.print_, {}),
    "BiasAdd": (_loss.bias_add, {}),
    "Dense": (_loss.dense, {}),
    "BinaryCrossEntropy": (_loss.binary_cross_entropy, {"reduction": "mean"}),
    "SigmoidCrossEntropyWithLogits": (_loss.sigmoid_cross_entropy_with_logits, {}),
}


def _make(name: str, function: Any, parameters: dict[str, Any]) -> type[Primitive]:
    body = {"_function": staticmethod(function), "_parameters": parameters, "__doc__": function.__doc__}
    return type(name, (Primitive,), body)


for _name, (_function, _parameters) in _ROWS.items():
    globals()[_name] = _make(_name, _function, _parameters)


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


class Conv2D(Primitive):
    """`conv2d` with the weight as second operand."""

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
        return _image.conv2d(x, weight, None, o["stride"], o["pad_mode"], o["pad"], o["dilation"], o["group"])


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
