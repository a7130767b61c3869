"""Operators of the language as functions: of lists, dicts, slices, numbers and sparse Tensors. MindSpore's compiler writes programs with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._core import _array, _tensor
from framejit.ops import (
    _control,
    _create,
    _elementwise,
    _further,
    _primitive_forms,
    _random,
    _shape,
    _sparse,
)
from framejit.ops._primitives import _define

__all__ = [
    "add_flags", "bidense", "broadcast_gradient_args", "coo2csr", "csr2coo", "csr_softmax", "deepcopy", "diff_ext",
    "dyn_shape", "eps", "float_power_ext", "inplace_index_add", "isnan_ext", "make_row_tensor", "make_sparse_tensor", "mixed_precision_cast", "nanmedian", "padding",
    "reduced_shape", "reshape_", "scalar_to_tensor", "shape_mul", "switch_layer", "tensor_range", "tensor_muls", "tensor_slice", "view_as_real",
]  # fmt: skip

Tensor = _core.Tensor
_FLOAT32 = ALL["float32"]


# --- Of Tensors ----------------------------------------------------------------------------------------------------------------


def eps(x: Any) -> Any:
    """The difference between 1 and the next number of the dtype, in the shape of x."""
    return _primitive_forms._epsilon(x)


def scalar_to_tensor(input_x: Any, dtype: Any = _FLOAT32) -> Any:
    """A Tensor of one number."""
    if not isinstance(input_x, (bool, int, float)):
        raise TypeError(
            f"For 'scalar_to_tensor', the 'input_x' must be bool, int or float, but got {type(input_x).__name__}."
        )
    return Tensor(input_x, dtype)


def deepcopy(input_x: Any) -> Any:
    """A copy."""
    return _tensor(_array(input_x).copy())


def dyn_shape(input_x: Any) -> Any:
    """The shape as a Tensor."""
    return Tensor(list(input_x.shape), ALL["int64"])


def view_as_real(input: Any) -> Any:
    """The real and the imaginary parts of complex elements along a new last dimension."""
    x = _array(input)
    if x.dtype.kind != "c":
        raise TypeError("view_as_real is only supported for complex tensors")
    return _tensor(np.stack([x.real, x.imag], -1))


def padding(x: Any, pad_dim_size: int = 8) -> Any:
    """Zeros up to a length of the last dimension, which has one element."""
    if not isinstance(pad_dim_size, int):
        raise TypeError(f"For 'padding', the 'pad_dim_size' must be int, but got {type(pad_dim_size).__name__}.")
    if pad_dim_size <= 0 or x.shape[-1] != 1:
        raise ValueError(
            f"For 'padding', the last dimension must be 1 and 'pad_dim_size' positive, but got {x.shape} and {pad_dim_size}."
        )
    return _primitive_forms._padded_to(x, pad_dim_size)


def reshape_(input: Any, shape: Any) -> Any:
    """In another shape."""
    return _shape.reshape(input, shape)


def tensor_slice(input: Any, begin: Any, size: Any) -> Any:
    """The part that begins somewhere and has a size."""
    return _shape.slice_(input, begin, size)


def tensor_range(start: Any, end: Any, step: Any) -> Any:
    """Numbers from `start` up to `end`."""
    return _create.arange(start, end, step)


def tensor_muls(input: Any, other: Any) -> Any:
    """Products with a number."""
    return _core._op_multiply(input, other)


def isnan_ext(tensor: Any) -> Any:
    """Whether elements are no numbers."""
    return _core._op_isnan(tensor)


def diff_ext(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis, `n` times."""
    return _further.diff(input, n, dim, prepend, append)


def float_power_ext(input: Any, exponent: Any) -> Any:
    """Powers in float64, or complex128."""
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise TypeError("At least one of the types of inputs must be tensor.")
    return _elementwise.float_power(input, exponent)


def nanmedian(input: Any, axis: int = -1, keepdims: bool = False) -> Any:
    """The middle element of those that are numbers, of two the lower one, and where it is."""
    return _primitive_forms._median(input, False, axis, keepdims, True)


def bidense(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """The products input1 @ weight[i] @ input2 of each sample, and the bias added.

    Parameters
    ----------
    input1, input2 : Tensor
        [..., in1] and [..., in2].
    weight : Tensor
        [out, in1, in2].
    bias : Tensor, optional
        [out].
    """
    for name, value in (("input1", input1), ("input2", input2), ("weight", weight)):
        if not isinstance(value, Tensor):
            raise TypeError(f"For 'bidense', the '{name}' must be a Tensor, but got {type(value).__name__}.")
    if input1.shape[:-1] != input2.shape[:-1]:
        raise ValueError(
            f"For 'bidense', the inputs must have the same shape except for the last dimension, but got {input1.shape} and {input2.shape}."
        )
    x, y, w = (_array(one) for one in (input1, input2, weight))
    columns = np.swapaxes(w, 0, 1).reshape((x.shape[-1], -1))
    left = np.matmul(x.reshape((-1, x.shape[-1])), columns).reshape((-1, w.shape[0], y.shape[-1]))
    out = _tensor((left * y.reshape((-1, 1, y.shape[-1]))).sum(-1).reshape((*x.shape[:-1], w.shape[0])))
    if bias is None:
        return out
    if bias.dtype is not input1.dtype or bias.dtype is not input2.dtype:
        raise TypeError(
            f"For 'bidense', the dtype of 'bias', 'input1' and 'input2' must be the same, but got {bias.dtype}, {input1.dtype} and "
            f"{input2.dtype}."
        )
    return out + bias


def inplace_index_add(var: Any, indices: Any, updates: Any, axis: int) -> Any:
    """Add to the parts of a Tensor at the indices along an axis, in its memory."""
    return var.index_add_(indices, updates, axis)


def mixed_precision_cast(dst_dtype: Any, x: Any) -> Any:
    """Tensors of floats in another dtype, also those in tuples, lists and dicts."""
    if isinstance(x, Tensor):
        return x.astype(dst_dtype) if x.dtype in _random._FLOATS else x
    if isinstance(x, dict):
        return {key: mixed_precision_cast(dst_dtype, value) for key, value in x.items()}
    if isinstance(x, (tuple, list)):
        return type(x)([mixed_precision_cast(dst_dtype, value) for value in x])
    return x


def add_flags(fn: Any = None, **flags: Any) -> Any:
    """Keep flags with a function or cell, or decorate one so.

    Parameters
    ----------
    fn : callable, optional
        The function; without it a decorator is returned.
    **flags
        Attributes that the function's or the cell's `_func_graph_flags` has.
    """

    def deco(function: Any) -> Any:
        if hasattr(function, "add_flags"):
            return function.add_flags(**flags)
        function._func_graph_flags = {**getattr(function, "_func_graph_flags", {}), **flags}
        return function

    return deco if fn is None else deco(fn)


# --- Of shapes -----------------------------------------------------------------------------------------------------------------


def shape_mul(input_data: Any) -> int:
    """The product of the numbers in a tuple."""
    return math.prod(input_data)


def reduced_shape(input_x: Any, axis: Any) -> tuple[int, ...]:
    """A shape after sums over some dimensions, which stay with the length 1."""
    axes = {at % len(input_x) for at in ((axis,) if isinstance(axis, int) else axis)}
    if not axes and axis == ():
        axes = set(range(len(input_x)))
    return tuple([1 if at in axes else size for at, size in enumerate(input_x)])


def broadcast_gradient_args(input_x: Any, input_y: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Over which dimensions to sum gradients so that they have each of two shapes that were broadcast."""
    ndim = max(len(input_x), len(input_y))
    one, other = ((1,) * (ndim - len(shape)) + tuple(shape) for shape in (input_x, input_y))
    for pair in zip(one, other):
        if pair[0] != pair[1] and 1 not in pair:
            raise ValueError(f"The shapes {tuple(input_x)} and {tuple(input_y)} cannot be broadcast.")
    return (
        tuple([at for at in range(ndim) if one[at] == 1 and other[at] != 1]),
        tuple([at for at in range(ndim) if other[at] == 1 and one[at] != 1]),
    )


def switch_layer(index: Any, layers: Any) -> Any:
    """One of several functions, by its number."""
    if not isinstance(index, Tensor):
        raise TypeError(f"For 'switch_layer', input[0] should be Tensor, but got {type(index).__name__}.")
    return layers[int(index)]


# --- Of sparse Tensors -----------------------------------------------------------------------------------------------------------


def make_row_tensor(indices: Any, values: Any, dense_shape: Any) -> Any:
    """A RowTensor."""
    return _sparse.RowTensor(indices, values, dense_shape)


def make_sparse_tensor(indices: Any, values: Any, dense_shape: Any) -> Any:
    """A COOTensor."""
    return _sparse.COOTensor(indices, values, dense_shape)


def coo2csr(row_indices: Any, height: int) -> Any:
    """Where each of `height` rows begins among ordered numbers of rows, and where the last one ends."""
    at = _array(row_indices)
    if at.dtype != np.int32:
        raise TypeError(f"The dtype of row_indices only support Int32 for now, but got {row_indices.dtype}.")
    return _tensor(np.searchsorted(at, np.arange(height + 1)).astype(np.int32))


def csr2coo(indptr: Any, nnz: int) -> Any:
    """The number of the row of each of `nnz` elements."""
    starts = _array(indptr)
    return _tensor(np.repeat(np.arange(len(starts) - 1), np.diff(starts), axis=0)[:nnz].astype(starts.dtype))


def csr_softmax(logits: Any, dtype: Any) -> Any:
    """Softmax of each row, over the elements that are kept."""
    if not isinstance(logits, _sparse.CSRTensor):
        raise TypeError("For functional operator sparse_matrix_softmax, logits must be type of CSRTensor.")
    rows = _array(csr2coo(logits.indptr, logits.values.size))
    values = _array(logits.values)
    count = logits.shape[0]
    most = np.full_like(values, -np.inf, shape=count)
    np.maximum.at(most, rows, values)
    parts = np.exp(values - most[rows])
    total = np.zeros_like(parts, shape=count)
    np.add.at(total, rows, parts)
    return _sparse.CSRTensor(logits.indptr, logits.indices, _tensor(parts / total[rows]).astype(dtype), logits.shape)


def _kept(*names: str) -> Any:
    """Make a function that reads an attribute of a sparse Tensor, such as `shape`."""

    def get(x: Any) -> Any:
        value = x
        for name in names:
            value = getattr(value, name)
        return value

    get.__doc__ = f"`{'.'.join(names)}` of a sparse Tensor."
    return get


def _set(of: Any, at: Any, value: Any) -> Any:
    """A copy with one item in the place of another."""
    items = dict(of) if isinstance(of, dict) else list(of)
    items[at] = value
    return items if isinstance(of, (dict, list)) else tuple(items)


_FORMS: dict[str, tuple[Any, str]] = {
    "bool_and": (lambda x, y: bool(x and y), "Whether both hold."),
    "bool_or": (lambda x, y: bool(x or y), "Whether one of two holds."),
    "bool_eq": (lambda x, y: bool(x) == bool(y), "Whether two truth values are equal."),
    "bool_not": (lambda x: not x, "Whether it does not hold."),
    "string_eq": (lambda x, y: x == y, "Whether two strings are equal."),
    "string_concat": (lambda x, y: x + y, "Two strings as one."),
    "is_": (lambda x, y: x is y, "Whether two values are the same object."),
    "is_not": (lambda x, y: x is not y, "Whether two values are not the same object."),
    "in_dict": (lambda key, of: key in of, "Whether a dict has a key."),
    "not_in_dict": (lambda key, of: key not in of, "Whether a dict does not have a key."),
    "tuple_equal": (lambda x, y: x == y, "Whether two tuples are equal."),
    "list_equal": (lambda x, y: x == y, "Whether two lists are equal."),
    "make_list": (lambda *items: list(items), "The arguments as a list."),
    "make_dict": (lambda keys, values: dict(zip(keys, values)), "A dict of keys and values."),
    "make_slice": (lambda start, stop, step: slice(start, stop, step), "A slice."),
    "list_getitem": (lambda of, at: of[at], "One item of a list."),
    "dict_getitem": (lambda of, key: of[key], "One value of a dict."),
    "list_setitem": (_set, "A copy of a list with another item."),
    "dict_setitem": (_set, "A copy of a dict with another value."),
    "tuple_setitem": (_set, "A copy of a tuple with another item."),
    "zip_operation": (lambda *sequences: tuple(zip(*sequences)), "Tuples of the first items, the second ones and so on."),
    "iter_converter": (lambda x: tuple(x), "What can be iterated as a tuple."),
    "ms_hasnext": (lambda x: len(x) > 0, "Whether there is an item."),
    "ms_next": (lambda x: (x[0], x[1:]), "The first item, and the others."),
    "scalar_log": (math.log, "The natural logarithm of a number."),
    "scalar_max": (max, "The larger one of two numbers."),
    "scalar_min": (min, "The smaller one of two numbers."),
    "scalar_uadd": (lambda x: +x, "The number."),
    "shape_": (lambda x: x.shape, "The shape."),
    "SliceGetItem": (lambda x, name: getattr(x, name), "The `start`, `stop` or `step` of a slice."),
    "hyper_add": (_control.HyperMap(_core._op_add), "Sums of Tensors in tuples, item by item."),
    "augassign_add": (_core._op_add, "What ``x += y`` makes of x."),
    "augassign_sub": (_core._op_subtract, "What ``x -= y`` makes of x."),
    "augassign_mul": (_core._op_multiply, "What ``x *= y`` makes of x."),
    "augassign_div": (_core._op_divide, "What ``x /= y`` makes of x."),
    "augassign_floordiv": (_core._op_floor_divide, "What ``x //= y`` makes of x."),
    "augassign_mod": (_core._op_remainder, "What ``x %= y`` makes of x."),
    "make_coo_tensor": (_sparse.COOTensor, "A COOTensor of indices, values and a shape."),
    "make_csr_tensor": (_sparse.CSRTensor, "A CSRTensor of starts of rows, columns, values and a shape."),
    "make_row_tensor_inner": (_sparse.RowTensor, "A RowTensor of indices, values and a shape."),
    **{
        f"{kind}_tensor_get_{name}": (_kept(attribute), f"`{attribute}` of a sparse Tensor.")
        for kind, names in {"coo": "indices values", "csr": "indptr indices values", "row": "indices values"}.items()
        for name, attribute in [(name, name) for name in names.split()] + [("dense_shape", "dense_shape" if kind == "row" else "shape")]
    },
}  # fmt: skip


def _form(name: str, function: Any, text: str) -> Any:
    def form(*args: Any) -> Any:
        return function(*args)

    form.__name__ = form.__qualname__ = name
    form.__doc__ = text
    return form


for _name, (_function, _text) in _FORMS.items():
    globals()[_name] = _form(_name, _function, _text)
    __all__ += [_name]


_define(
    globals(),
    {
        "SelectView": (lambda x, index, axis: x[(slice(None),) * (axis % x.ndim) + (index,)], {}),
        "CopyWithSlice": (lambda x, y: x.copy_(y), {}),
        "UpdateState": (_create.depend, {}),
    },
)
