"""Primitives whose arguments are not those of the function of the same name: one function each, and the options of its constructor."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._core import _array, _tensor
from framejit.ops import _create, _elementwise, _further, _linalg, _loss, _random, _reduce, _shape
from framejit.ops._primitives import _define

Tensor = _core.Tensor
_INT32 = ALL["int32"]

__all__: list[str] = []


# --- Reductions and scans -------------------------------------------------------------------------------------------------


def _scan(scan: Any, first: float) -> Any:
    def scanned(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
        if reverse:
            x = _shape.flip(x, (axis,))
        if exclusive:
            length = x.shape[axis]
            border = _create.full_like(_shape.narrow(x, axis, 0, 1), first)
            x = _shape.cat((border, _shape.narrow(x, axis, 0, length - 1)), axis)
        out = scan(x, axis)
        return _shape.flip(out, (axis,)) if reverse else out

    return scanned


def _median(x: Any, global_median: bool, axis: int, keep_dims: bool, ignore_nan: bool) -> Any:
    """The middle element, of two the lower one, and where it is."""
    for name, value, of in (
        *(("global_median", global_median, bool), ("axis", axis, int)),
        *(("keep_dims", keep_dims, bool), ("ignore_nan", ignore_nan, bool)),
    ):
        if type(value) is not of:
            raise TypeError(
                f"For 'Median', the type of '{name}' should be '{of.__name__}', but got type '{type(value).__name__}'."
            )
    if not global_median and not -x.ndim <= axis < x.ndim:
        raise ValueError(f"For primitive[Median], the axis must be in [{-x.ndim},{x.ndim}), but got {axis}.")
    flat = x.reshape(-1) if global_median else x
    order = _shape.argsort(flat, 0 if global_median else axis)
    axis = 0 if global_median else axis
    if ignore_nan:
        count = _reduce.sum(_core._op_equal(flat, flat).astype(ALL["int64"]), axis, True)
        at = _shape.gather_elements(order, axis, _core._op_floor_divide(count - 1, 2)).astype(ALL["int64"])
    else:
        at = _shape.narrow(order, axis, (flat.shape[axis] - 1) // 2, 1).astype(ALL["int64"])
    values = _shape.gather_elements(flat, axis, at)
    if global_median:
        return values.reshape(()), _create.zeros((), ALL["int64"])
    return (values, at) if keep_dims else (_shape.squeeze(values, axis), _shape.squeeze(at, axis))


def _place_as(function: Any) -> Any:
    def at(x: Any, axis: int, output_type: Any) -> Any:
        return function(x, axis).astype(output_type)

    return at


def _least_with_place(x: Any, axis: int, keep_dims: bool) -> Any:
    values, at = _reduce.min(x, axis, keep_dims)
    return at, values


def _mean_and_deviation(x: Any, axis: Any, unbiased: bool, keep_dims: bool) -> Any:
    axes = axis if axis not in ((), None) else None
    return _reduce.std(x, axes, int(unbiased), keep_dims), _reduce.mean(x, axes, keep_dims)


def _norm(x: Any, axis: Any, p: int, keep_dims: bool, epsilon: float) -> Any:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    total = _reduce.reduce_sum(_core._op_power(_core._op_absolute(x), p), axes)
    if keep_dims:
        total = total.reshape([1 if i in {a % x.ndim for a in axes} else n for i, n in enumerate(x.shape)])
    return _core._op_power(total, 1.0 / p)


def _unit_length(x: Any, axis: Any, epsilon: float) -> Any:
    axes = axis[0] if isinstance(axis, (list, tuple)) and len(axis) == 1 else axis
    squares = _reduce.sum(_core._op_square(x), axes, True)
    return x * _elementwise.rsqrt(_core._op_maximum(squares, epsilon))


# --- Shapes ---------------------------------------------------------------------------------------------------------------


def _inverse_permutation(x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        out = [0] * len(x)
        for at, item in enumerate(x):
            out[item] = at
        return tuple(out)
    return _shape.argsort(x).astype(x.dtype)


def _blocks(x: Any, size: int, into_channels: bool) -> Any:
    """Squares of the image as channels, or back."""
    n, c, h, w = x.shape
    if into_channels:
        parts = x.reshape(n, c, h // size, size, w // size, size)
        return _shape.transpose(parts, (0, 3, 5, 1, 2, 4)).reshape(n, c * size * size, h // size, w // size)
    parts = x.reshape(n, size, size, c // (size * size), h, w)
    return _shape.transpose(parts, (0, 3, 4, 1, 5, 2)).reshape(n, c // (size * size), h * size, w * size)


def _padded_to(x: Any, pad_dim_size: int) -> Any:
    return _shape._padded(x, ((0, 0),) * (x.ndim - 1) + ((0, pad_dim_size - x.shape[-1]),), "constant")


def _pieces(x: Any, size_splits: Any, split_dim: int, num_split: int) -> Any:
    return _shape.split(x, list(size_splits), split_dim)


def _added_at(x: Any, indices: Any, y: Any, axis: int, use_lock: bool, check_index_bound: bool) -> Any:
    return _shape.index_add(x, indices, y, axis)


def _with_bias(x: Any, bias: Any, data_format: str) -> Any:
    return _loss.bias_add(x, bias) if data_format != "NHWC" else x + bias


# --- Of no number ------------------------------------------------------------------------------------------------------------


def _without_infinity(x: Any, y: Any, of: Any) -> Any:
    """of(x, y), and 0 where y is 0."""
    zero = _core._op_equal(y, 0)
    return _elementwise.where(zero, _create.zeros_like(x), of(x, _elementwise.where(zero, _create.ones_like(y), y)))


def _checked(condition: Any, input_data: Any, summarize: int) -> Any:
    """Raise `RuntimeError` with the data if the condition does not hold."""
    if not condition:
        shown = [str(x.asnumpy().ravel()[:summarize]) if isinstance(x, Tensor) else str(x) for x in input_data]
        raise RuntimeError("assert failed: " + ", ".join(shown))
    return None


def _epsilon(x: Any) -> Any:
    return _create.full_like(x, float(np.finfo(_core._dtype(x.dtype)).eps))


def _chosen(x: Any, p: Any, seed: int, offset: int) -> Any:
    return _random.bernoulli(x if isinstance(x, Tensor) else _create.zeros(x), p, seed or offset or -1)


def _sequence_as_tensor(x: Any, dtype: Any = None) -> Any:
    return Tensor(list(x), dtype)


def _tuple_as_array(x: Any) -> Any:
    kinds = {type(item) for item in x}
    if len(kinds) > 1 or not kinds <= {int, float}:
        raise TypeError(f"For 'TupleToArray', all elements of the input must be int or float, but got {x}.")
    return Tensor(list(x), _INT32 if kinds == {int} else ALL["float32"])


def _tensor_as_sequence(x: Any) -> Any:
    return tuple(x.tolist()) if x.ndim else x.item()


def _as_number(x: Any, dtype: Any) -> Any:
    kind = np.dtype(_core._dtype(dtype)).kind
    return {"b": bool, "f": float, "c": complex}.get(kind, int)(x)


def _indices_of(function: Any) -> Any:
    def indices(row: int, col: int, offset: int, dtype: Any) -> Any:
        return function(row, col, offset, dtype=dtype)

    return indices


_ROWS: dict[str, tuple[Any, dict[str, Any]]] = {
    "CumSum": (_scan(_reduce.cumsum, 0), {"exclusive": False, "reverse": False}),
    "CumProd": (_scan(lambda x, axis: _reduce.cumprod(x, axis, x.dtype), 1), {"exclusive": False, "reverse": False}),
    "Cummax": (_reduce.cummax, {"axis": None}),
    "Cummin": (_reduce.cummin, {"axis": None}),
    "Median": (_median, {"global_median": False, "axis": 0, "keep_dims": False, "ignore_nan": False}),
    "Argmax": (_place_as(_reduce.argmax), {"axis": -1, "output_type": _INT32}),
    "Argmin": (_place_as(_reduce.argmin), {"axis": -1, "output_type": _INT32}),
    "ArgMinWithValue": (_least_with_place, {"axis": 0, "keep_dims": False}),
    "ReduceSum": (
        lambda x, axis=(), *, keep_dims, skip_mode: x if skip_mode and axis == () else _reduce.reduce_sum(x, axis, keep_dims=keep_dims),
        {"keep_dims": False, "skip_mode": False},
    ),
    "ReduceStd": (_mean_and_deviation, {"axis": (), "unbiased": True, "keep_dims": False}),
    "LpNorm": (_norm, {"axis": None, "p": 2, "keep_dims": False, "epsilon": 1e-12}),
    "L2Normalize": (_unit_length, {"axis": 0, "epsilon": 1e-4}),
    "SquareSumAll": (
        lambda x, y: (_reduce.reduce_sum(_core._op_square(x)), _reduce.reduce_sum(_core._op_square(y))),
        {},
    ),
    "StridedSlice": (
        _shape.strided_slice,
        dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0),
    ),
    "Unstack": (lambda x, axis, num: _shape.unstack(x, axis), {"axis": 0, "num": None}),
    "Unpack": (lambda x, axis, num: _shape.unstack(x, axis), {"axis": 0, "num": None}),
    "Pack": (_shape.stack, {"axis": 0}),
    "Squeeze": (lambda x, axis: _shape.squeeze(x, None if axis == () else axis), {"axis": ()}),
    "InvertPermutation": (_inverse_permutation, {}),
    "SpaceToDepth": (lambda x, block_size: _blocks(x, block_size, True), {"block_size": None}),
    "DepthToSpace": (lambda x, block_size: _blocks(x, block_size, False), {"block_size": None}),
    "Padding": (_padded_to, {"pad_dim_size": 8}),
    "SplitV": (_pieces, {"size_splits": None, "split_dim": None, "num_split": None}),
    "ReverseV2": (_shape.flip, {"dims": None}),
    "Roll": (_shape.roll, {"shifts": None, "dims": None}),
    "DiagPart": (_shape.diagonal, {}),
    "TransposeView": (_shape.transpose, {}),
    "TransposeExtView": (_shape.swapaxes, {}),
    "TensorShape": (lambda x: Tensor(list(x.shape), ALL["int64"]), {}),
    "DynamicShape": (lambda x: Tensor(list(x.shape), ALL["int64"]), {}),
    "Expand": (lambda x, shape: _shape.broadcast_to(x, tuple(shape.tolist()) if isinstance(shape, Tensor) else shape), {}),
    "ParallelConcat": (lambda values: _shape.cat(values, 0), {}),
    "IndexAdd": (_added_at, {"axis": None, "use_lock": True, "check_index_bound": True}),
    "InplaceIndexAdd": (lambda x, indices, updates, axis: x.index_add_(indices, updates, axis), {"axis": None}),
    "Fills": (lambda x, value: _create.full_like(x, float(value)), {}),
    "BiasAdd": (_with_bias, {"data_format": "NCHW"}),
    "Cross": (_linalg.cross, {"dim": -65530}),
    "IdentityN": (lambda x: tuple(_create.identity(item) for item in x), {}),
    "AccumulateNV2": (_elementwise.addn, {}),
    "ApproximateEqual": (_elementwise.approximate_equal, {"tolerance": 1e-5}),
    "IsClose": (_elementwise.isclose, {"rtol": 1e-5, "atol": 1e-8, "equal_nan": False}),
    "Logit": (lambda x, eps: _elementwise.logit(x, None if eps == -1.0 else eps), {"eps": -1.0}),
    "NanToNum": (_elementwise.nan_to_num, {"nan": None, "posinf": None, "neginf": None}),
    "Round": (lambda x, decimals=0: _elementwise.round(x, decimals=decimals), {}),
    "DivNoNan": (lambda x, y: _without_infinity(x, y, _core._op_divide), {}),
    "MulNoNan": (lambda x, y: _without_infinity(x, y, _core._op_multiply), {}),
    "Complex": (lambda real, imag: _tensor(_array(real) + 1j * _array(imag)), {}),
    "ComplexAbs": (lambda x: _core._op_absolute(x), {}),
    "Eps": (_epsilon, {}),
    "Assert": (_checked, {"summarize": 3}),
    "Bernoulli": (_chosen, {"seed": -1, "offset": 0}),
    "StandardNormal": (lambda shape, seed, seed2: _random.standard_normal(shape, seed or seed2 or None), {"seed": 0, "seed2": 0}),
    "InTopK": (_further.intopk, {"k": None}),
    "LogSpace": (
        lambda start, end, steps, base, dtype: _create.logspace(start, end, steps, base, dtype=dtype),
        {"steps": 10, "base": 10, "dtype": ALL["float32"]},
    ),
    "MatrixInverse": (
        lambda x, adjoint: _linalg.inverse(_core._op_conjugate(_shape.swapaxes(x, -1, -2)) if adjoint else x),
        {"adjoint": False},
    ),
    "ListToTensor": (_sequence_as_tensor, {}),
    "TupleToTensor": (_sequence_as_tensor, {}),
    "ScalarToTensor": (lambda x, dtype=None: Tensor(x, dtype), {}),
    "ScalarToArray": (lambda x: Tensor(x), {}),
    "TupleToArray": (_tuple_as_array, {}),
    "TensorToTuple": (_tensor_as_sequence, {}),
    "TensorToList": (lambda x: list(_tensor_as_sequence(x)), {}),
    "TensorToScalar": (lambda x: x.item(), {}),
    "ScalarCast": (_as_number, {}),
    "InplaceAddExt": (lambda x, other, alpha=1: x.add_(other, alpha=alpha), {}),
    "InplaceSubExt": (lambda x, other, alpha=1: x.sub_(other, alpha=alpha), {}),
    "InplaceMul": (lambda x, other: x.mul_(other), {}),
    "InplaceDiv": (lambda x, other: x.div_(other), {}),
    "InplaceCopy": (lambda x, other: x.copy_(other), {}),
    "TopTypeof": (lambda x: x.dtype if isinstance(x, Tensor) else type(x), {}),
    "SequenceAdd": (lambda x, y: x + y, {}),
    "SequenceAddN": (lambda x: _elementwise.addn(list(x)), {}),
    "SequenceMul": (lambda x, y: x * y, {}),
    "SequenceLen": (lambda x: len(x), {}),
    "SequenceCount": (lambda x, value: x.count(value), {}),
    "SequenceIndex": (lambda x, value, start=0, end=None: x.index(value, start, len(x) if end is None else end), {}),
    "SequenceMax": (lambda x: max(x), {}),
    "SequenceMin": (lambda x: min(x), {}),
    "SequenceUnstack": (lambda x, axis: tuple(_shape.unstack(x, axis)), {"axis": 0}),
    "InSequence": (lambda x, sequence: x in sequence, {}),
    "GatherV2": (_shape.gather, {"batch_dims": 0}),
    "LerpScalar": (_elementwise.lerp, {}),
    "Einsum": (lambda operands, equation: _reduce.einsum(equation, *operands), {"equation": None}),
    "TrilIndices": (_indices_of(_create.tril_indices), {"row": None, "col": None, "offset": 0, "dtype": _INT32}),
    "TriuIndices": (_indices_of(_create.triu_indices), {"row": None, "col": None, "offset": 0, "dtype": _INT32}),
    "SearchSorted": (
        lambda sequence, values, dtype, right: _shape.searchsorted(sequence, values, right=right).astype(dtype),
        {"dtype": ALL["int64"], "right": False},
    ),
    "UniformReal": (lambda shape, seed, seed2: _random.uniform(shape, 0.0, 1.0, seed or seed2 or None), {"seed": 0, "seed2": 0}),
    "IsInstance": (lambda x, kinds: isinstance(x, kinds), {}),
}  # fmt: skip


_define(globals(), _ROWS)
