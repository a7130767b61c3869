"""The methods of Tensor that are written in Python: put into the type, where capture finds them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from framejit import _core
from framejit._api._control import is_compiling
from framejit._api._dtypes import ALL
from framejit._autodiff._hooks import register_hook
from framejit._autodiff._primitives import stop
from framejit._core import _array, _tensor
from framejit._tensors import _dlpack
from framejit.ops import _create, _elementwise, _random, _reduce, _shape
from framejit.ops._operators import OPERATORS
from framejit.ops._shape import _given, _ints

Tensor = _core.Tensor

# --- Conversion ---------------------------------------------------------------------------------------------------------


def astype(self: Any, dtype: Any, copy: bool = True) -> Any:
    """A Tensor of the same shape with the elements converted."""
    return _tensor(_array(self, dtype))


def _elements(self: Any) -> Any:
    """The array of a Tensor as a constant in gradients, as Python's numbers are."""
    return _array(stop(self)) if is_compiling() else self.asnumpy()


def item(self: Any, *args: Any) -> Any:
    """One element as a Python number."""
    return _elements(self).item(*args)


def tolist(self: Any) -> Any:
    """The elements as nested lists of Python numbers."""
    return _elements(self).tolist()


def numpy(self: Any) -> Any:
    """The same as asnumpy."""
    return self.asnumpy()


def copy(self: Any) -> Any:
    """A Tensor with the same elements and memory of its own."""
    return _tensor(_array(self))


def contiguous(self: Any) -> Any:
    """The Tensor: all are contiguous."""
    return self


def is_contiguous(self: Any) -> bool:
    """True."""
    return True


def init_data(self: Any, *args: Any) -> Any:
    """The Tensor: it has its elements from the start."""
    return self


def type_as(self: Any, other: Any) -> Any:
    """Converted to the dtype of another Tensor."""
    return _tensor(_array(self, other.dtype))


def _conversion(name: str, dtype: Any) -> Any:
    def convert(self: Any) -> Any:
        return _tensor(_array(self, dtype))

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"Converted to {dtype}."
    return convert


# --- Shape --------------------------------------------------------------------------------------------------------------


def reshape(self: Any, *shape: Any) -> Any:
    """The elements in C order in another shape; one dimension may be -1."""
    return _tensor(_array(self).reshape(_given(shape)))


def transpose(self: Any, *axes: Any) -> Any:
    """The dimensions in another order; in reverse without arguments."""
    return _tensor(_array(self).transpose(_given(axes) if axes else None))


def broadcast_to(self: Any, *shape: Any) -> Any:
    """Repeated to a shape; -1 keeps a dimension."""
    return _shape.broadcast_to(self, _given(shape))


def repeat(self: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element repeated along `axis`."""
    return _tensor(np.repeat(_array(self), _ints(repeats), axis))


def flatten(self: Any, order: str = "C", *, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions from `start_dim` to `end_dim` as one."""
    return _shape.flatten(self, order, start_dim=start_dim, end_dim=end_dim)


def resize(self: Any, *new_shape: Any) -> Any:
    """Cut or filled with zeros to another shape."""
    given = _given(new_shape)
    shape = given if isinstance(given, tuple) else (given,)
    size = math.prod(shape)
    kept = _array(self).reshape(-1)[:size]
    return _tensor(np.concatenate((kept, np.zeros(size - kept.size, kept.dtype))).reshape(shape))


def numel(self: Any) -> Any:
    """The number of elements."""
    return self.size


def dim(self: Any) -> Any:
    """The number of dimensions."""
    return self.ndim


# --- Reductions, where the parameters differ from those of the functions --------------------------------------------------


def argmax(self: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Index of the largest element along `axis`."""
    return _reduce.argmax(self, axis, keepdims)


def cumsum(self: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Sums of the elements up to each one along `axis`; of bools and small integers in int32."""
    if dtype is None and str(self.dtype) in ("Bool", "Int8", "Int16", "UInt8"):
        dtype = ALL["int32"]
    return _reduce.cumsum(self if axis is not None else _shape.ravel(self), 0 if axis is None else axis, dtype)


def diff(self: Any, n: int = 1, axis: int = -1) -> Any:
    """Differences of neighbours along `axis`."""
    return _tensor(np.diff(_array(self), n, axis))


def fill_diagonal(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """A copy with one number on the diagonal."""
    out = _array(self).copy()
    np.fill_diagonal(out, fill_value, wrap)
    return _tensor(out)


def take(self: Any, indices: Any, axis: int | None = None, mode: str = "clip") -> Any:
    """The elements at the indices."""
    return _tensor(np.take(_array(self), _array(indices), axis=axis, mode=mode))


def new_zeros(self: Any, size: Any, *, dtype: Any = None) -> Any:
    """Zeros of this dtype."""
    return _create.zeros(size, self.dtype if dtype is None else dtype)


def new_ones(self: Any, size: Any, *, dtype: Any = None) -> Any:
    """Ones of this dtype."""
    return _create.ones(size, self.dtype if dtype is None else dtype)


# --- Into the Tensor ------------------------------------------------------------------------------------------------------


def itemset(self: Any, *args: Any) -> Any:
    """A copy with one element replaced."""
    x = _array(self).copy()
    if len(args) == 1:
        x[...] = args[0]
    else:
        x.reshape(-1)[args[0]] = args[1]
    return _tensor(x)


def assign_value(self: Any, value: Any) -> Any:
    """Writes the elements of another Tensor into this one."""
    self[...] = value
    return self


def fill_(self: Any, value: Any) -> Any:
    """One number everywhere, in place."""
    self[...] = value
    return self


def mul_(self: Any, other: Any) -> Any:
    """Multiplied in place."""
    self[...] = _core._op_multiply(self, other)
    return self


# --- Exchange -------------------------------------------------------------------------------------------------------------


def __dlpack__(
    self: Any, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
) -> Any:
    options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    return _dlpack.export(self.asnumpy(), options)


def __dlpack_device__(self: Any) -> Any:
    return self.asnumpy().__dlpack_device__()


def __deepcopy__(self: Any, memo: Any) -> Any:
    return _tensor(_array(self))


def __round__(self: Any, decimals: int = 0) -> Any:
    return _elementwise.round(self, decimals=decimals)


def __format__(self: Any, spec: str) -> str:
    return format(self.item() if spec and self.ndim == 0 else str(self), spec)


def __divmod__(self: Any, other: Any) -> Any:
    return self // other, self % other


# Functions that are methods as they are: the Tensor is their first argument.
_FUNCTIONS = {
    _elementwise: "div inv trunc floor ceil round rsqrt frac erfc asinh acosh atanh arcsinh arccosh arctanh addcmul addcdiv lerp clamp clip "
    "isclose allclose nan_to_num masked_fill sigmoid real imag conj logit xlogy heaviside deg2rad rad2deg isreal float_power "
    "relu gelu hardshrink softplus",
    _reduce: "prod amax amin argmin all any var std logsumexp nansum count_nonzero median cumprod cummax cummin norm softmax "
    "log_softmax dot inner outer ger addmm addmv baddbmm trace histc bincount var_mean std_mean",
    _shape: "swapaxes swapdims moveaxis movedim squeeze expand_dims unsqueeze ravel split chunk unbind narrow tril triu diag diagonal "
    "flip fliplr flipud roll rot90 index_select gather_elements gather_nd masked_select nonzero argwhere "
    "topk unique t tensor_split take_along_dim",
    _random: "bernoulli multinomial",
}
# Operators of the table are functions in C, which need one in Python around them to be methods.


def _one(function: Any) -> Any:
    return lambda self: function(self)


def _two(function: Any) -> Any:
    return lambda self, other: function(self, other)


def _array_interface(self: Any) -> Any:
    if self.dtype is ALL["bfloat16"]:  # a type string says bytes, and NumPy would not ask for the array
        raise AttributeError("a bfloat16 Tensor has no __array_interface__")
    return self.asnumpy().__array_interface__


_PROPERTIES = {
    "T": lambda self: _tensor(_array(self).transpose()),
    "mT": lambda self: _tensor(_array(self).swapaxes(-1, -2)),
    "H": lambda self: _tensor(np.conj(_array(self)).transpose()),
    "__array_interface__": _array_interface,
    "requires_grad": lambda self: False,
    "has_init": lambda self: False,
    "name": lambda self: None,
    "device": lambda self: "CPU",
    "data": lambda self: self,
}
_CONVERSIONS = {
    "half": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "double": "float64",
    "bool": "bool_",
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
}


# Methods that are functions of this module.
# fmt: off
_OWN = (
    astype, item, tolist, numpy, copy, contiguous, is_contiguous, init_data, type_as, reshape, transpose, broadcast_to,
    repeat, flatten, resize, numel, dim, argmax, cumsum, diff, fill_diagonal, take, new_zeros, new_ones,
    itemset, assign_value, fill_, mul_, register_hook, __dlpack__, __dlpack_device__, __deepcopy__, __round__, __format__, __divmod__,
)
# fmt: on


def _install() -> None:
    methods: dict[str, Any] = {}
    for module, names in _FUNCTIONS.items():
        methods.update({name: getattr(module, name) for name in names.split()})
    for operator in OPERATORS:
        for name in operator.methods:
            method = methods[name] = (_one if operator.operands == 1 else _two)(operator.compute)
            method.__name__ = method.__qualname__ = name
            method.__doc__ = f"``ops.{name}``."
    for name, dtype in _CONVERSIONS.items():
        methods[name] = _conversion(name, ALL[dtype])
    methods.update({function.__name__: function for function in _OWN})
    methods.update(copy_=assign_value, clone=copy, expand=broadcast_to, where=_where, view_as=_like, reshape_as=_like)
    methods.update(expand_as=_expand_as, from_numpy=staticmethod(from_numpy))
    for name, method in methods.items():
        setattr(Tensor, name, method)
    for name, getter in _PROPERTIES.items():
        setattr(Tensor, name, property(getter))


def _where(self: Any, condition: Any, y: Any) -> Any:
    """Elements of this Tensor where `condition` holds, else of y."""
    return _elementwise.where(condition, self, y)


def _like(self: Any, other: Any) -> Any:
    """In the shape of another Tensor."""
    return _tensor(_array(self).reshape(other.shape))


def _expand_as(self: Any, other: Any) -> Any:
    """Repeated to the shape of another Tensor."""
    return _shape.broadcast_to(self, other.shape)


def from_numpy(array: np.ndarray) -> Any:
    """Return a Tensor over the memory of an ndarray, without a copy if possible.

    Parameters
    ----------
    array : numpy.ndarray
        If it is C-contiguous, aligned, writable and in native byte order, the Tensor shares its memory. Otherwise it is copied.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"For 'from_numpy', the argument must be numpy.ndarray, but got {type(array).__name__}.")
    if array.flags.carray and array.dtype.isnative:
        return _core._shared(array)
    return Tensor(array)


def from_dlpack(x: Any) -> Any:
    """Return a Tensor over the memory of an array of another library, without a copy if possible.

    Parameters
    ----------
    x : object
        An object with ``__dlpack__``, such as a PyTorch tensor on the CPU. If its layout does not allow sharing, it is copied.

    Raises
    ------
    BufferError
        If the memory is not on the CPU, or there is no such dtype.
    """
    return from_numpy(_dlpack.import_array(x))


_install()
