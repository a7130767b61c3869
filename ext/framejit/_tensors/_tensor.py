"""What the Tensor type leaves to Python: making the array of a new Tensor, and showing one."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._api import _dtypes

Tensor = _core.Tensor

_INFERRED = {int: np.int64, float: np.float32, bool: np.bool_, complex: np.complex128}


def as_array(
    input_data: Any = None,
    dtype: Any = None,
    shape: Any = None,
    init: Any = None,
    const_arg: bool = False,
    device: str | None = None,
) -> np.ndarray:
    """A fresh C-contiguous ndarray for ``Tensor(input_data, dtype, shape, init)``.

    Raises
    ------
    TypeError
        If `input_data` is none of Tensor, ndarray, number, list, tuple, or `dtype` is no dtype.
    ValueError
        If there is neither `input_data` nor `init`, or `shape` is given and is not the shape of the data.
    """
    target = None if dtype is None else _dtypes.numpy_dtype(dtype)
    if input_data is None:
        if init is None and target is not None:
            return _without_data(shape, target)
        if init is None:
            raise ValueError("For 'Tensor', the input_data and init can not be None at the same time.")
        if shape is None or target is None:
            raise ValueError("For 'Tensor', 'init' needs 'shape' and 'dtype'")
        if isinstance(init, (int, float)):
            return np.full(_as_shape(shape), init, target)
        return np.array(init(_as_shape(shape)), target, order="C")
    if isinstance(input_data, _core.Tensor):
        array = input_data.asnumpy()
    elif isinstance(input_data, (np.ndarray, np.generic)):
        array = np.array(input_data, order="C", subok=False)
    elif type(input_data) in _INFERRED:
        try:
            array = np.array(input_data, _INFERRED[type(input_data)] if target is None else target)
        except OverflowError:  # the upper bits are lost below, as those of lists are
            array = np.array(input_data, np.int64)
    elif isinstance(input_data, (list, tuple)):
        array = _from_sequence(input_data, target)
    else:
        raise TypeError(
            "For 'Tensor', 'input_data' must be a Tensor, numpy.ndarray, int, float, bool, complex, list or tuple, "
            f"but got {type(input_data).__name__}"
        )
    try:
        _dtypes.from_numpy(array.dtype)
    except TypeError:
        raise TypeError(
            f"For 'Tensor', the elements of 'input_data' must be numbers or bools, but got {array.dtype}"
        ) from None
    if target is not None:
        with np.errstate(all="ignore"):
            array = array.astype(target)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if shape is not None and _as_shape(shape) != array.shape:
        raise ValueError(f"For 'Tensor', 'shape' is {_as_shape(shape)}, but 'input_data' has shape {array.shape}")
    return np.array(array, order="C", copy=True) if not array.flags.c_contiguous or not array.flags.owndata else array


class DynamicTensor(Tensor):
    """A Tensor without elements that says what shapes there will be: ``Tensor(shape=(None, 3), dtype=float32)``.

    Attributes
    ----------
    shape : tuple of int
        With -1 for lengths that are not known; (-2,) where not even their number is.
    symbolic_shape : list
        With the dict of each `Symbol`.
    """

    _lengths: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """As far as it is known."""
        return (-2,) if self._lengths is None else tuple([n if isinstance(n, int) else -1 for n in self._lengths])

    @property
    def symbolic_shape(self) -> list[Any]:
        """The shape with the dict of each `Symbol`."""
        return [n.to_dict() if isinstance(n, Symbol) else n for n in self._lengths or self.shape]

    def __repr__(self) -> str:
        return f"Tensor(shape={list(self.shape)}, dtype={self.dtype}, value= )"

    __str__ = __repr__


def _without_data(shape: Any, target: np.dtype) -> Any:
    """Zeros of a shape; where a length is None, -1 or a `Symbol`, or the shape is None, a `DynamicTensor`."""
    lengths = None if shape is None else [shape] if isinstance(shape, int) else list(shape)
    if lengths is not None:
        lengths = [None if n == -1 else n for n in lengths]
        for n in lengths:
            if n is not None and not isinstance(n, Symbol) and (not isinstance(n, int) or n < 0):
                raise ValueError(
                    f"For 'Tensor', the lengths of 'shape' must be int, None or Symbol, but got {shape!r}."
                )
        if all(isinstance(n, int) for n in lengths):
            return np.zeros(lengths, target)
    made = DynamicTensor(np.zeros(0, target))
    made._lengths = lengths
    return made


class Symbol:
    """A length that is not known, in the shape of a Tensor without elements.

    Parameters
    ----------
    max, min : int
        Bounds; no `max` with 0 or below `min`.
    divisor, remainder : int
        The length is a multiple of `divisor`, and `remainder`.
    unique : bool
        Equal to the other lengths with this Symbol.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.Symbol(max=16, divisor=4)
    {'max': 16, 'divisor': 4}
    """

    max: int
    min: int
    divisor: int
    remainder: int
    unique: bool

    def __init__(self, max: int = 0, min: int = 1, divisor: int = 1, remainder: int = 0, unique: bool = False) -> None:
        for name, value in (("max", max), ("min", min), ("divisor", divisor), ("remainder", remainder)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"For 'Symbol', the argument '{name}' must be int, but got {type(value).__name__}.")
        if not isinstance(unique, bool):
            raise TypeError(f"For 'Symbol', the argument 'unique' must be bool, but got {type(unique).__name__}.")
        for name, value in (("min", min), ("divisor", divisor)):
            if value <= 0:
                raise ValueError(f"For 'Symbol', the '{name}' value should be positive, but got {value}.")
        if not 0 <= remainder < divisor:
            raise ValueError(f"For 'Symbol', the 'remainder' value should be in [0, {divisor}), but got {remainder}.")
        self.max, self.min, self.divisor, self.remainder, self.unique = max, min, divisor, remainder, unique
        if max and max < min:
            self.max = 0

    def to_dict(self) -> dict[str, int]:
        """What is not as by default."""
        found = {}
        if self.max:
            found["max"] = self.max
        if self.min > 1:
            found["min"] = self.min
        if self.divisor != 1:
            found["divisor"] = self.divisor
        if self.remainder:
            found["remainder"] = self.remainder
        if self.unique:
            found["id"] = id(self)
        return found

    def fits(self, length: int) -> bool:
        """Whether a length is as this says."""
        if length < self.min or self.max and length > self.max:
            return False
        return length % self.divisor == self.remainder

    def __repr__(self) -> str:
        return repr(self.to_dict())


def _as_shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _from_sequence(sequence: list[Any] | tuple[Any, ...], target: np.dtype | None) -> np.ndarray:
    def plain(item: Any) -> Any:
        if isinstance(item, _core.Tensor):
            return item.asnumpy()
        return [plain(i) for i in item] if isinstance(item, (list, tuple)) else item

    array = np.array(plain(sequence))
    if target is None and array.dtype == np.float64 and not _holds_arrays(sequence):
        array = array.astype(np.float32)
    return array


def _holds_arrays(sequence: list[Any] | tuple[Any, ...]) -> bool:
    return any(
        _holds_arrays(i) if isinstance(i, (list, tuple)) else isinstance(i, (np.ndarray, np.generic, _core.Tensor))
        for i in sequence
    )


def tensor_repr(tensor: _core.Tensor) -> str:
    """MindSpore's form: ``Tensor(shape=[2], dtype=Float32, value= [ 1.00000000e+00, 2.00000000e+00])``."""
    array = tensor.asnumpy()
    text = np.array2string(array, separator=", ", formatter={"float_kind": lambda x: f"{x: .8e}"})
    newline = "\n" if array.ndim > 1 else " "
    return f"Tensor(shape={list(array.shape)}, dtype={tensor.dtype}, value={newline}{text})"


# Functions that are given the Tensor itself: those that ask a method of it and return a Tensor, as they do with MindSpore's,
# and those that write into an array, which a Tensor is not.
_WITH_TENSORS = frozenset(
    (np.transpose, np.squeeze, np.swapaxes, np.moveaxis, np.rollaxis, np.flip, np.nonzero)
    + (np.copyto, np.put, np.place, np.putmask, np.put_along_axis, np.fill_diagonal)
)


def signed_power(base: np.ndarray[Any, Any], exponent: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The powers of signed integers, truncated if the exponent is negative: 0, except of 1 and -1.

    A power of 0 is what the processor makes of infinity.
    """
    negative = exponent < 0
    if not negative.any():
        return np.power(base, exponent)
    powers = np.power(base, np.where(negative, exponent & 1, exponent))
    infinity = np.array(np.inf).astype(base.dtype)
    inverse = np.where(np.abs(base) == 1, powers, np.where(base == 0, infinity, base.dtype.type(0)))
    return np.where(negative, inverse, powers)


def array_function(tensor: Tensor, function: Any, types: Any, args: Any, keywords: Any) -> Any:
    """Call a function of NumPy on the ndarrays that the Tensors hold, and return its result."""
    if not all(issubclass(each, (Tensor, np.ndarray)) for each in types):
        return NotImplemented
    if function in _WITH_TENSORS or isinstance(keywords.get("out"), Tensor):
        return np.ndarray.__array_function__(tensor.asnumpy(), function, (), args, keywords)
    return function(*_plain(args), **_plain(keywords))


def _plain(value: Any) -> Any:
    """Arguments with ndarrays instead of Tensors, also in lists, tuples and dicts."""
    if isinstance(value, Tensor):
        return value.asnumpy()
    if type(value) in (list, tuple):
        return type(value)([_plain(item) for item in value])
    return {key: _plain(item) for key, item in value.items()} if type(value) is dict else value


def tensor(
    input_data: Any = None,
    dtype: Any = None,
    shape: Any = None,
    init: Any = None,
    const_arg: bool = False,
    device: str | None = None,
) -> Tensor:
    """Return a new Tensor.

    Parameters
    ----------
    input_data : Tensor, numpy.ndarray, int, float, bool, list or tuple
        The values.
    dtype : dtype, optional
        The dtype of the elements; by default that of the values.
    shape, init, const_arg, device
        As in `Tensor`.
    """
    return Tensor(input_data, dtype, shape, init, const_arg, device)


def frombuffer(buffer: Any, dtype: Any = _dtypes.ALL["float32"], count: int = -1, offset: int = 0) -> Tensor:
    """Return a Tensor with a copy of the elements of a buffer.

    Parameters
    ----------
    buffer : buffer
        An object with the buffer protocol.
    dtype : dtype
        The dtype of the elements.
    count : int
        The number of elements; -1: all that follow `offset`.
    offset : int
        The first byte to read.
    """
    return Tensor(np.frombuffer(buffer, _dtypes.numpy_dtype(dtype), count, offset).copy())


from framejit.ops import _methods  # noqa: E402, F401  (the methods of Tensor that are written in Python)
