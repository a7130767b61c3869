"""What the Tensor type leaves to Python: making the array of a new Tensor, and showing one."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core, _dtypes

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
        if init is None:
            raise ValueError("For 'Tensor', the input_data and init can not be None at the same time.")
        if shape is None or target is None:
            raise ValueError("For 'Tensor', 'init' needs 'shape' and 'dtype'")
        return np.array(init(_as_shape(shape)), target, order="C")
    if isinstance(input_data, _core.Tensor):
        array = input_data.asnumpy()
    elif isinstance(input_data, (np.ndarray, np.generic)):
        array = np.array(input_data, order="C", subok=False)
    elif type(input_data) in _INFERRED:
        array = np.array(input_data, _INFERRED[type(input_data)] if target is None else target)
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


def _as_shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _from_sequence(sequence: list | tuple, target: np.dtype | None) -> np.ndarray:
    def plain(item: Any) -> Any:
        if isinstance(item, _core.Tensor):
            return item.asnumpy()
        return [plain(i) for i in item] if isinstance(item, (list, tuple)) else item

    array = np.array(plain(sequence))
    if target is None and array.dtype == np.float64 and not _holds_arrays(sequence):
        array = array.astype(np.float32)
    return array


def _holds_arrays(sequence: list | tuple) -> bool:
    return any(
        _holds_arrays(i) if isinstance(i, (list, tuple)) else isinstance(i, (np.ndarray, np.generic, _core.Tensor))
        for i in sequence
    )


def tensor_repr(tensor: _core.Tensor) -> str:
    """MindSpore's form: ``Tensor(shape=[2], dtype=Float32, value= [ 1.00000000e+00, 2.00000000e+00])``."""
    array = tensor.asnumpy()
    formatter = {"float_kind": lambda x: f"{x: .8e}"}
    text = np.array2string(array, separator=", ", formatter=formatter)
    newline = "\n" if array.ndim > 1 else " "
    return f"Tensor(shape={list(array.shape)}, dtype={tensor.dtype!r}, value={newline}{text})"


from framejit import _methods  # noqa: E402, F401  (the methods of Tensor that are written in Python)
