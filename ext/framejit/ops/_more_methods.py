"""Methods of Tensor that are functions of `framejit.ops` under the same names, and what else MindSpore's Tensors are asked."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._autodiff._primitives import writable
from framejit._core import _array, _tensor
from framejit.ops import (
    _candidates,
    _create,
    _diagonals,
    _elementwise,
    _factors,
    _further,
    _in_place,
    _language_forms,
    _linalg,
    _loss,
    _methods,
    _primitive_forms,
    _random,
    _reduce,
    _resize,
    _shape,
    _sparse,
    _tables,
)

Tensor = _core.Tensor

# Functions whose first argument is the Tensor, and whose others are those of the method.
_FUNCTIONS: dict[Any, str] = {}
_SAME = (
    "addbmm addr adjoint aminmax angle approximate_equal bitwise_left_shift bitwise_right_shift cholesky cholesky_inverse "
    "cholesky_solve cov cross det diagflat digamma dsplit eigvals erfinv fmax fmin fold gcd hsplit i0 igamma igammac index_fill "
    "inplace_update inverse invert is_complex is_floating_point isneginf isposinf lcm ldexp lgamma log_matrix_determinant logaddexp "
    "logaddexp2 logcumsumexp logdet lstsq matrix_determinant matrix_power msort mvlgamma nanmean nanmedian nanquantile nextafter positive "
    "quantile renorm reverse reverse_sequence select_scatter sgn sinc slice_scatter slogdet soft_shrink svd unfold unique_consecutive "
    "unsorted_segment_max unsorted_segment_min unsorted_segment_prod vsplit xdivy bernoulli_ col2im diagonal_scatter exponential_ geqrf "
    "lu_solve normal_ orgqr put_ random_ random_categorical uniform_ unique_with_pad"
)
_OTHER_NAMES = {
    "scatter_div": "tensor_scatter_div",
    "scatter_max": "tensor_scatter_max",
    "scatter_min": "tensor_scatter_min",
    "scatter_mul": "tensor_scatter_mul",
    "scatter_sub": "tensor_scatter_sub",
    "to_csr": "dense_to_sparse_csr",
}
_IN_PLACE = "clamp erfinv exp fill_diagonal floor floor_divide index_fill log masked_fill masked_scatter remainder sigmoid sign tanh addmm"


_MODULES = (
    *(_elementwise, _reduce, _shape, _create, _random, _linalg, _loss, _further, _sparse, _resize),
    *(_candidates, _diagonals, _factors, _in_place, _language_forms, _tables),
)


def _found(name: str) -> Any:
    for module in _MODULES:
        if hasattr(module, name):
            return getattr(module, name)
    return None


def _as_method(name: str, function: Any) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``ops.{name}``."
    return method


def _writing(name: str, function: Any) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        self[...] = function(self, *args, **kwargs)
        return self

    method.__name__ = method.__qualname__ = name + "_"
    method.__doc__ = f"``ops.{name}``, written into the Tensor itself."
    return method


def fill(self: Any, value: Any) -> Any:
    """A Tensor of the same shape and dtype, all of one value; without one, of zeros."""
    return _create.full_like(self, 0 if value is None else value)


def fills(self: Any, value: Any) -> Any:
    """A Tensor of the same shape and dtype, all of one value."""
    return _create.full_like(self, value.item() if isinstance(value, Tensor) else value)


def gather(self: Any, input_indices: Any, axis: Any, batch_dims: int = 0) -> Any:
    """`ops.gather`, or, of an axis and then indices, `ops.gather_elements`."""
    if isinstance(axis, Tensor) and not isinstance(input_indices, Tensor):
        return _shape.gather_elements(self, input_indices, axis)
    return _shape.gather(self, input_indices, axis, batch_dims)


def select(self: Any, condition: Any, y: Any) -> Any:
    """Elements where the condition holds, else of `y`; of an axis and an index, one part along the axis."""
    if isinstance(condition, int) and not isinstance(condition, bool):
        return _shape.squeeze(_shape.narrow(self, condition, y % self.shape[condition], 1), condition)
    return _elementwise.where(condition, self, y)


def searchsorted(self: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Where the values would be put into the Tensor, which is sorted, or is by `sorter`."""
    if side not in ("left", "right"):
        raise ValueError(
            f"For 'Tensor.searchsorted', the argument 'side' should be one of in ['left', 'right'], but got {side}."
        )
    own = self if sorter is None else self[sorter]
    return _shape.searchsorted(own, v if isinstance(v, Tensor) else Tensor(v), out_int32=True, right=side == "right")


def qr(self: Any, some: bool = True) -> Any:
    """The factors Q and R, complete or, with `some`, as small as can be."""
    return _linalg.qr(self, "reduced" if some else "complete")


def top_k(self: Any, k: int, sorted: bool = True) -> Any:
    """The `k` largest along the last axis, and where they are."""
    return _shape.topk(self, k, None, True, sorted)


def argmax_with_value(self: Any, axis: int = 0, keep_dims: bool = False) -> Any:
    """The largest elements along an axis, and where they are."""
    return _reduce.max(self, axis, keep_dims)


def argmin_with_value(self: Any, axis: int = 0, keep_dims: bool = False) -> Any:
    """The smallest elements along an axis, and where they are."""
    return _reduce.min(self, axis, keep_dims)


def ptp(self: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest element less the smallest one."""
    return _reduce.amax(self, axis, keepdims) - _reduce.amin(self, axis, keepdims)


def choose(self: Any, choices: Any, mode: Any = "clip") -> Any:
    """From each place of the choices the one that the Tensor says."""
    arrays = [_array(x if isinstance(x, Tensor) else Tensor(x)) for x in choices]
    return _tensor(np.choose(_array(self), arrays, mode=mode))


def sum_to_size(self: Any, *size: Any) -> Any:
    """Summed over the axes along which a Tensor of that shape would be repeated."""
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    extra = self.ndim - len(shape)
    if extra < 0 or any(n != m and m != 1 for n, m in zip(self.shape[extra:], shape)):
        raise ValueError(f"For sum_to_size, size {shape} is not expandable to the tensor size {self.shape}.")
    axes = tuple([i for i in range(self.ndim) if i < extra or self.shape[i] != shape[i - extra]])
    return _shape.reshape(_reduce.reduce_sum(self, axes), shape) if axes else _shape.reshape(self, shape)


def index_put(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy with values at places."""
    out = _tensor(_array(self))
    return index_put_(out, indices, values, accumulate)


def index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Write values to places, or add them."""
    key = tuple(indices)
    if accumulate:
        new = _array(values, self.dtype)
        array = writable(_array(self), new)
        np.add.at(array, tuple(_array(k) for k in key), new)
        self[...] = _tensor(array)
    else:
        self[key] = values
    return self


def new_full(self: Any, size: Any, fill_value: Any, *, dtype: Any = None) -> Any:
    """A Tensor of that shape, all of one value, in the same dtype by default."""
    return _create.full(size, fill_value, dtype=self.dtype if dtype is None else dtype)


def new_empty(self: Any, size: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A Tensor of that shape, in the same dtype by default; its elements are zeros."""
    return _create.zeros(size, self.dtype if dtype is None else dtype)


def zero_(self: Any) -> Any:
    """Write zeros."""
    self[...] = 0
    return self


def requires_grad_(self: Any, requires_grad: bool = True) -> Any:
    """Set ``requires_grad`` of a Parameter, and return it."""
    if type(self) is not Tensor:
        self.requires_grad = requires_grad
    return self


def stride(self: Any, dim: int | None = None) -> Any:
    """How many elements lie from one element to the next along each axis, or along one."""
    steps = [n // self.itemsize for n in self.strides]
    return steps if dim is None else steps[dim]


def type_(self: Any, dtype: Any = None) -> Any:
    """Converted to a dtype; without one, the name of the Tensor's."""
    return (
        f"mindspore.{np.dtype(_core._dtype(self.dtype)).name.capitalize()}Tensor"
        if dtype is None
        else self.astype(dtype)
    )


def value(self: Any) -> Any:
    """The Tensor itself."""
    return self


def set_dtype(self: Any, dtype: Any) -> Any:
    """Converted to a dtype."""
    return self.astype(dtype)


def set_const_arg(self: Any, const_arg: bool = True) -> Any:
    """The Tensor: it is compiled as an argument, whatever it is."""
    if not isinstance(const_arg, bool):
        raise TypeError(
            f"For 'set_const_arg', the type of 'const_arg' must be bool, but got {type(const_arg).__name__}."
        )
    return self


def is_signed(self: Any) -> bool:
    """Whether there are negative numbers in the dtype."""
    return np.dtype(_core._dtype(self.dtype)).kind not in ("b", "u")


def storage_offset(self: Any) -> int:
    """0: each Tensor begins with its memory."""
    return 0


def data_ptr(self: Any) -> int:
    """The address of the memory."""
    return int(self.asnumpy().ctypes.data)


def to_coo(self: Any) -> Any:
    """The places and values of what is not 0."""
    at = _shape.nonzero(self)
    return _sparse.COOTensor(at.astype(ALL["int32"]), self[tuple(_shape.unstack(at, 1))], self.shape)


def get_bytes(self: Any) -> bytes:
    """The elements as bytes."""
    return self.asnumpy().tobytes()


def kthvalue(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The `k`-th smallest element along an axis, and where it is."""
    values, places = _shape.sort(self, dim)
    parts = [_shape.narrow(x, dim, k - 1, 1) for x in (values, places)]
    return tuple(parts if keepdim else [_shape.squeeze(x, dim) for x in parts])


def masked_scatter(self: Any, mask: Any, tensor: Any) -> Any:
    """A copy, with elements of another Tensor one after the other where the mask holds."""
    array = writable(_array(self), _array(tensor))
    chosen = np.broadcast_to(_array(mask), array.shape)
    array[chosen] = _array(tensor).ravel()[: np.count_nonzero(chosen)]
    return _tensor(array)


def index_copy_(self: Any, dim: int, index: Any, tensor: Any) -> Any:
    """Write parts of another Tensor to the indices along an axis."""
    new = _array(tensor, self.dtype)
    array = writable(_array(self), new)
    array[(slice(None),) * (dim % array.ndim) + (_array(index),)] = new
    self[...] = _tensor(array)
    return self


def scatter_add_(self: Any, dim: int, index: Any, src: Any) -> Any:
    """Add elements of `src` at the places along an axis that the indices say."""
    whole = tuple(map(slice, index.shape))
    self[...] = _further.tensor_scatter_elements(self, index, src[whole], dim, "add")
    return self


def cauchy(self: Any, median: float = 0.0, sigma: float = 1.0) -> Any:
    """Numbers of Cauchy's distribution in the same shape and dtype."""
    return _candidates._cauchy(self.shape, median, sigma).astype(self.dtype)


def log_normal(self: Any, mean: float = 1.0, std: float = 2.0) -> Any:
    """Numbers in the same shape and dtype whose logarithms are of the normal distribution."""
    return _candidates._log_normal(self, mean, std)


def uniform(self: Any, from_: float = 0.0, to: float = 1.0, generator: Any = None) -> Any:
    """Numbers from `from_` up to `to` in the same shape and dtype."""
    return _in_place.uniform_(_create.zeros_like(self), from_, to, generator=generator)


def triangular_solve(
    self: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Any, Any]:
    """(the x of A x = self, of whose A one triangle counts, that triangle)."""
    return _factors._triangular_solve(self, A, upper, transpose, unitriangular)


def ormqr(self: Any, input2: Any, input3: Any, left: bool = True, transpose: bool = False) -> Any:
    """The product of Q, of whose reflectors and factors `geqrf` tells, and another matrix."""
    return _factors.ormqr(self, input2, input3, left, transpose)


def to_dlpack(self: Any) -> Any:
    """The memory as a capsule of DLPack."""
    return self.__dlpack__()


class _Capsule:
    """What DLPack's functions ask for a capsule."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def from_dlpack(dlpack: Any) -> Any:
    """The Tensor over the memory that a capsule of DLPack is of, or an object with ``__dlpack__``."""
    return _methods.from_dlpack(dlpack if hasattr(dlpack, "__dlpack__") else _Capsule(dlpack))


# fmt: off
_OWN = (
    fill, fills, gather, select, searchsorted, qr, top_k, argmax_with_value, argmin_with_value, ptp, choose, sum_to_size, index_put, index_put_,
    new_full, new_empty, zero_, requires_grad_, stride, value, set_dtype, set_const_arg, is_signed, storage_offset, data_ptr, to_coo, get_bytes,
    kthvalue, masked_scatter, index_copy_, scatter_add_, cauchy, log_normal, uniform, triangular_solve, ormqr, to_dlpack,
)
# fmt: on
# What holds for every Tensor here: it has its elements, on the one device, and nothing is put off.
_FACTS: dict[str, Any] = {
    "const_arg": False,
    "init": None,
    "init_finished": True,
    "is_meta": False,
    "param_info": None,
    "parent_tensor_": None,
    "index_of_parent_": None,
    "symbolic_shape": None,
    "virtual_flag": False,
    "delta_seed": 0,
}
_TRUE = {"is_init": False, "is_pinned": False, "is_shared": False}


def _saying(name: str, answer: bool) -> Any:
    def method(self: Any) -> bool:
        return answer

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"{answer}."
    return method


def _itself(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "The Tensor itself: there is one device, and nothing is put off."
    return method


def _install() -> None:
    methods: dict[str, Any] = {}
    for name in _SAME.split():
        function = _found(name) or getattr(_primitive_forms, name, None)
        if function is None:
            function = getattr(_core, "_op_" + name, None)
        if function is not None:
            methods[name] = _as_method(name, function)
    for name, own in _OTHER_NAMES.items():
        methods[name] = _as_method(own, _found(own))
    by_name: dict[str, Any] = {function.__name__: function for function in _OWN}
    for name in _IN_PLACE.split():
        function = getattr(Tensor, name, None) or by_name.get(name) or _found(name)
        if function is not None:
            methods[name + "_"] = _writing(name, function)
    methods.update(by_name)
    methods.update(type=type_, ndimension=Tensor.dim, nelement=Tensor.numel, index=Tensor.index_select)
    methods["from_dlpack"] = staticmethod(from_dlpack)
    methods.update({name: _saying(name, answer) for name, answer in _TRUE.items()})
    methods.update({name: _itself(name) for name in ("move_to", "pin_memory", "offload", "data_sync", "wait_pipeline")})
    for name, method in {**_FACTS, **methods}.items():
        if not hasattr(Tensor, name):
            setattr(Tensor, name, method)


_install()
