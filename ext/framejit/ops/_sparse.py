"""Matrices of which only some elements are kept: `COOTensor` by row and column, `CSRTensor` row after row, and functions of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._api._dtypes import ALL
from framejit._core import Tensor, _array, _tensor
from framejit.ops import _create, _elementwise, _shape

__all__ = [
    "coo_add", "coo_concat", "coo_to_csr", "coo_to_dense", "csr_add", "csr_div", "csr_gather", "csr_mm", "csr_mul",
    "csr_mv", "csr_reduce_sum", "csr_to_coo", "csr_to_dense", "dense_to_sparse_coo", "dense_to_sparse_csr",
]  # fmt: skip

_INDICES = tuple(ALL[name] for name in ("int16", "int32", "int64"))


def _check(of: str, shape: Any, **tensors: Any) -> None:
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"For '{of}', '{name}' must be Tensor, but got {type(value).__name__}.")
    if not isinstance(shape, tuple):
        raise TypeError(f"For '{of}', 'shape' must be tuple, but got {type(shape).__name__}.")
    for length in shape:
        if not isinstance(length, int) or isinstance(length, bool):
            raise TypeError(f"For '{of}', the element type of 'shape' must be int, but got {type(length).__name__}.")
        if length <= 0:
            raise ValueError(f"For '{of}', the elements of 'shape' must be positive, but got {shape}.")
    for name, value in tensors.items():
        if name != "values" and value.dtype not in _INDICES:
            raise TypeError(
                f"For '{of}', the type of '{name}' must be one of int16, int32, int64, but got {value.dtype}."
            )


def _ints(values: Any, like: Any) -> Any:
    return values if values.dtype is like.dtype else values.astype(like.dtype)


class _Sparse:
    """What both kinds share."""

    values: Tensor
    shape: tuple[int, ...]

    @property
    def dtype(self) -> Any:
        """Of the values."""
        return self.values.dtype

    @property
    def size(self) -> int:
        """The number of values."""
        return self.values.size

    @property
    def itemsize(self) -> int:
        """Bytes of a value."""
        return self.values.itemsize

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def _with(self, values: Any) -> Any:
        raise NotImplementedError

    def astype(self, dtype: Any) -> Any:
        """With the values converted."""
        return self._with(self.values.astype(dtype))

    def abs(self) -> Any:
        """With the absolute values."""
        return self._with(_elementwise.abs(self.values))

    def __neg__(self) -> Any:
        return self._with(-self.values)

    def _same_shape(self, other: Any) -> None:
        if self.shape != other.shape:
            raise ValueError(f"The shapes must be the same, but got {self.shape} and {other.shape}.")


class RowTensor:
    """Some rows of a Tensor: ``dense[indices[i]] == values[i]``.

    Parameters
    ----------
    indices : Tensor
        Which rows, of ints.
    values : Tensor
        The rows.
    shape : tuple of int
        Of the whole.
    row_tensor : RowTensor, optional
        Instead of the three.

    Examples
    --------
    >>> import framejit as fj
    >>> from framejit.ops._sparse import RowTensor
    >>> RowTensor(fj.Tensor([1]), fj.Tensor([[5.0, 7.0]]), (3, 2)).dense_shape
    (3, 2)
    """

    def __init__(self, indices: Any = None, values: Any = None, shape: Any = None, row_tensor: Any = None) -> None:
        if row_tensor is not None:
            if not isinstance(row_tensor, RowTensor):
                raise TypeError(
                    f"For 'RowTensor', 'row_tensor' must be RowTensor, but got {type(row_tensor).__name__}."
                )
            indices, values, shape = row_tensor.indices, row_tensor.values, row_tensor.dense_shape
        if not isinstance(indices, Tensor) or not isinstance(values, Tensor) or not isinstance(shape, tuple):
            raise TypeError("Inputs need to be (indices, values, shape): two Tensors and a tuple of ints.")
        self.indices, self.values, self.dense_shape = indices, values, shape

    def __repr__(self) -> str:
        return f"RowTensor(shape={self.dense_shape}, indices={self.indices!r}, values={self.values!r})"


RowTensorInner = RowTensor


class COOTensor(_Sparse):
    """Values at places: ``dense[tuple(indices[i])]`` is the sum of the ``values[i]`` with these indices, and 0 elsewhere.

    Parameters
    ----------
    indices : Tensor
        Of ints, a row for each value.
    values : Tensor
        The values.
    shape : tuple of int
        Of the whole.
    coo_tensor : COOTensor, optional
        Instead of the three.

    Examples
    --------
    >>> import framejit as fj
    >>> x = fj.COOTensor(fj.Tensor([[0, 1], [1, 0]], fj.int32), fj.Tensor([5.0, 7.0]), (2, 2))
    >>> x.to_dense().tolist()
    [[0.0, 5.0], [7.0, 0.0]]
    """

    indices: Any

    def __init__(self, indices: Any = None, values: Any = None, shape: Any = None, coo_tensor: Any = None) -> None:
        if coo_tensor is not None:
            if not isinstance(coo_tensor, COOTensor):
                raise TypeError(
                    f"For 'COOTensor', 'coo_tensor' must be COOTensor, but got {type(coo_tensor).__name__}."
                )
            if indices is not None or values is not None or shape is not None:
                raise TypeError("For 'COOTensor', there must be no other argument next to 'coo_tensor'.")
            indices, values, shape = coo_tensor.indices, coo_tensor.values, coo_tensor.shape
        _check("COOTensor", shape, indices=indices, values=values)
        if indices.ndim != 2 or values.ndim != 1:
            raise ValueError(
                f"For 'COOTensor', 'indices' must have two dimensions and 'values' one, but got {indices.ndim} and {values.ndim}."
            )
        if indices.shape[0] != values.shape[0]:
            raise ValueError(
                f"For 'COOTensor', 'indices' and 'values' must be as many, but got {indices.shape[0]} and {values.shape[0]}."
            )
        if indices.shape[1] != len(shape):
            raise ValueError(f"For 'COOTensor', the length of 'shape' must be {indices.shape[1]}, but got {shape}.")
        _check_room("COOTensor", shape, values)
        self.indices, self.values, self.shape = indices, values, shape

    def _with(self, values: Any) -> Any:
        return COOTensor(self.indices, values, self.shape)

    def to_tuple(self) -> Any:
        """(indices, values, shape)."""
        return self.indices, self.values, self.shape

    def to_dense(self) -> Any:
        """The whole as a Tensor."""
        return _shape.tensor_scatter_add(_create.zeros(self.shape, self.dtype), self.indices, self.values)

    def to_csr(self) -> CSRTensor:
        """The same row after row."""
        if self.ndim != 2:
            raise ValueError(f"For 'COOTensor.to_csr', there must be two dimensions, but got {self.ndim}.")
        at, values = _array(self.indices), _array(self.values)
        order = np.argsort(at[:, 0], kind="stable")
        rows = np.take(at[:, 0], order)
        starts = np.searchsorted(rows, np.arange(self.shape[0] + 1))
        columns = _tensor(np.take(at[:, 1], order))
        return CSRTensor(_ints(_tensor(starts), self.indices), columns, _tensor(np.take(values, order)), self.shape)

    def coalesce(self) -> COOTensor:
        """The values of one place as one, in the order of places."""
        at, values = _array(self.indices), _array(self.values)
        places, which = np.unique(np.ravel_multi_index(tuple(at.T), self.shape), return_inverse=True)
        sums = np.zeros_like(values, shape=places.shape)
        np.add.at(sums, which.reshape(-1), values)
        rows = np.stack(np.unravel_index(places, self.shape), 1)
        return COOTensor(_ints(_tensor(rows), self.indices), _tensor(sums), self.shape)

    def add(self, other: COOTensor, thresh: Any) -> COOTensor:
        """The sum; values whose size is below `thresh` are left out."""
        return coo_add(self, other, thresh)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, (Tensor, COOTensor)):
            raise TypeError(f"COOTensor add with {type(other)} is not supported.")
        self._same_shape(other)
        if isinstance(other, Tensor):
            return _shape.tensor_scatter_add(other, self.indices, self.values)
        return coo_add(self, other, Tensor(0, self.dtype))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if not isinstance(other, (Tensor, COOTensor)):
            raise TypeError(f"COOTensor subtract with {type(other)} is not supported.")
        self._same_shape(other)
        if isinstance(other, Tensor):
            return _shape.tensor_scatter_add(-other, self.indices, self.values)
        return coo_add(self, -other, Tensor(0, self.dtype))

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, Tensor):
            raise TypeError(f"COOTensor multiply with {type(other)} is not supported.")
        self._same_shape(other)
        return self._with(self.values * _shape.gather_nd(other, self.indices))

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, Tensor):
            raise TypeError(f"COOTensor divide with {type(other)} is not supported.")
        self._same_shape(other)
        return self._with(self.values / _shape.gather_nd(other, self.indices))

    def __repr__(self) -> str:
        return (
            f"COOTensor(shape={list(self.shape)}, dtype={self.dtype}, indices={self.indices!r}, values={self.values!r})"
        )


class SparseTensor(COOTensor):
    """`COOTensor` under its former name.

    Parameters
    ----------
    indices : Tensor
        Of ints, a row for each value.
    values : Tensor
        The values.
    shape : tuple of int
        Of the whole.
    """

    def __init__(self, indices: Any, values: Any, shape: Any) -> None:
        super().__init__(indices, values, shape)


class CSRTensor(_Sparse):
    """Values row after row: those of row i are ``values[indptr[i]:indptr[i + 1]]``, in the columns ``indices[...]``.

    Parameters
    ----------
    indptr : Tensor
        Of ints, where the rows begin, and the end.
    indices : Tensor
        Of ints, the columns.
    values : Tensor
        The values; with further dimensions each is a Tensor.
    shape : tuple of int
        Of the whole.
    csr_tensor : CSRTensor, optional
        Instead of the four.

    Examples
    --------
    >>> import framejit as fj
    >>> ints = lambda *values: fj.Tensor(values, fj.int32)
    >>> x = fj.CSRTensor(ints(0, 1, 2), ints(1, 0), fj.Tensor([5.0, 7.0]), (2, 2))
    >>> x.mm(fj.Tensor([[1.0], [2.0]])).tolist()
    [[10.0], [7.0]]
    """

    indptr: Any
    indices: Any

    def __init__(
        self, indptr: Any = None, indices: Any = None, values: Any = None, shape: Any = None, csr_tensor: Any = None
    ) -> None:
        if csr_tensor is not None:
            if not isinstance(csr_tensor, CSRTensor):
                raise TypeError(
                    f"For 'CSRTensor', 'csr_tensor' must be CSRTensor, but got {type(csr_tensor).__name__}."
                )
            if indptr is not None or indices is not None or values is not None or shape is not None:
                raise TypeError("For 'CSRTensor', there must be no other argument next to 'csr_tensor'.")
            indptr, indices, values, shape = csr_tensor.to_tuple()
        _check("CSRTensor", shape, indptr=indptr, indices=indices, values=values)
        if indptr.ndim != 1 or indices.ndim != 1:
            raise ValueError(
                f"For 'CSRTensor', 'indptr' and 'indices' must have one dimension, but got {indptr.ndim} and {indices.ndim}."
            )
        if indptr.shape[0] != 1 + shape[0]:
            raise ValueError(f"For 'CSRTensor', 'indptr' must have {1 + shape[0]} elements, but got {indptr.shape[0]}.")
        if indices.shape[0] != values.shape[0]:
            raise ValueError(
                f"For 'CSRTensor', 'indices' and 'values' must be as many, but got {indices.shape[0]} and {values.shape[0]}."
            )
        if len(shape) != values.ndim + 1 or values.shape[1:] != shape[2:]:
            raise ValueError(f"For 'CSRTensor', the 'shape' {shape} does not fit values of the shape {values.shape}.")
        _check_room("CSRTensor", shape, values)
        self.indptr, self.indices, self.values, self.shape = indptr, indices, values, shape

    def _with(self, values: Any) -> Any:
        return CSRTensor(self.indptr, self.indices, values, self.shape)

    def _rows(self) -> Any:
        """The row of each value."""
        return np.searchsorted(_array(self.indptr), np.arange(self.indices.shape[0]), "right") - 1

    def _places(self) -> Any:
        return _tensor(np.stack([self._rows(), _array(self.indices).astype(np.int64)], 1))

    def to_tuple(self) -> Any:
        """(indptr, indices, values, shape)."""
        return self.indptr, self.indices, self.values, self.shape

    def to_coo(self) -> COOTensor:
        """The same by row and column."""
        if self.ndim != 2:
            raise ValueError(f"For 'CSRTensor.to_coo', there must be two dimensions, but got {self.ndim}.")
        return COOTensor(_ints(self._places(), self.indices), self.values, self.shape)

    def to_dense(self) -> Any:
        """The whole as a Tensor."""
        return _shape.tensor_scatter_add(_create.zeros(self.shape, self.dtype), self._places(), self.values)

    def mv(self, dense_vector: Any) -> Any:
        """The product with a vector [columns, 1]."""
        if not isinstance(dense_vector, Tensor):
            raise TypeError(
                f"For 'CSRTensor.mv', 'dense_vector' must be Tensor, but got {type(dense_vector).__name__}."
            )
        if dense_vector.ndim != 2 or dense_vector.shape[1] != 1:
            raise ValueError(
                f"For 'CSRTensor.mv', 'dense_vector' must have a shape (n, 1), but got {dense_vector.shape}."
            )
        return self.mm(dense_vector)

    def mm(self, matrix: Any) -> Any:
        """The product with a matrix: a Tensor, or a CSRTensor where the matrix is one."""
        if not isinstance(matrix, (Tensor, CSRTensor)):
            raise TypeError(
                f"For 'CSRTensor.mm', 'matrix' must be Tensor or CSRTensor, but got {type(matrix).__name__}."
            )
        if self.ndim != 2 or len(matrix.shape) != 2 or self.shape[1] != matrix.shape[0]:
            raise ValueError(f"For 'CSRTensor.mm', the shapes {self.shape} and {matrix.shape} do not fit.")
        if isinstance(matrix, CSRTensor):
            return _product(self, matrix)
        parts = self.values.expand_dims(1) * _shape.gather(matrix, self.indices, 0)
        zeros = _create.zeros((self.shape[0], matrix.shape[1]), parts.dtype)
        return _shape.tensor_scatter_add(zeros, _tensor(self._rows()[:, None]), parts)

    def sum(self, axis: int) -> Any:
        """The sums of the rows, [rows, 1]: `axis` is 1."""
        if axis not in (1, 1 - self.ndim):
            raise ValueError(f"For 'CSRTensor.sum', the 'axis' must be 1, but got {axis}.")
        zeros = _create.zeros((self.shape[0], *self.values.shape[1:]), self.dtype)
        return _shape.tensor_scatter_add(zeros, _tensor(self._rows()[:, None]), self.values).expand_dims(1)

    def add(self, b: CSRTensor, alpha: Any, beta: Any) -> CSRTensor:
        """alpha * self + beta * b."""
        return csr_add(self, b, alpha, beta)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, CSRTensor):
            raise TypeError(f"CSRTensor add with {type(other)} is not supported.")
        self._same_shape(other)
        return csr_add(self, other, Tensor(1, self.dtype), Tensor(1, self.dtype))

    def __sub__(self, other: Any) -> Any:
        if not isinstance(other, CSRTensor):
            raise TypeError(f"CSRTensor subtract with {type(other)} is not supported.")
        self._same_shape(other)
        return csr_add(self, other, Tensor(1, self.dtype), Tensor(-1, self.dtype))

    def __mul__(self, other: Any) -> Any:
        return csr_mul(self, other)

    def __truediv__(self, other: Any) -> Any:
        return csr_div(self, other)

    def __repr__(self) -> str:
        return (
            f"CSRTensor(shape={list(self.shape)}, dtype={self.dtype}, indptr={self.indptr!r}, indices={self.indices!r}, "
            f"values={self.values!r})"
        )


def _check_room(of: str, shape: tuple[int, ...], values: Any) -> None:
    room = 1
    for length in shape:
        room *= length
    if room < values.size:
        raise ValueError(f"For '{of}', the shape {shape} is too small to hold {values.size} values.")


def _at_places(csr: CSRTensor, dense: Any) -> Any:
    """The elements of a Tensor, or a number, at the places of the values; a Tensor may be broadcast."""
    if not isinstance(dense, Tensor):
        return dense
    return _shape.gather_nd(_shape.broadcast_to(dense, csr.shape[:2] + dense.shape[2:]), csr._places())


def _product(a: CSRTensor, b: CSRTensor) -> CSRTensor:
    kept = _array(a._with(_create.ones_like(a.values)).mm(b._with(_create.ones_like(b.values)).to_dense()))
    rows, columns = np.nonzero(kept)
    dense = _array(a.mm(b.to_dense()))
    starts = np.searchsorted(rows, np.arange(a.shape[0] + 1))
    at = _ints(_tensor(columns), a.indices)
    return CSRTensor(_ints(_tensor(starts), a.indptr), at, _tensor(dense[rows, columns]), (a.shape[0], b.shape[1]))


# --- Functions ---------------------------------------------------------------------------------------------------------------

_OF_VALUES = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor inv isfinite isinf isnan log log1p neg relu relu6 round sigmoid "
    "sin sinh softsign sqrt square tan tanh"
)


def _of_values(kind: type[_Sparse], name: str) -> Any:
    function = getattr(_elementwise, name)

    def each(x: Any) -> Any:
        if not isinstance(x, kind):
            raise TypeError(f"For '{each.__name__}', the 'x' must be {kind.__name__}, but got {type(x).__name__}.")
        return x._with(function(x.values))

    each.__name__ = each.__qualname__ = f"{kind.__name__[:3].lower()}_{name}"
    each.__doc__ = f"`{name}` of each value; the places stay."
    return each


for _kind in (CSRTensor, COOTensor):
    for _name in _OF_VALUES.split():
        _function = _of_values(_kind, _name)
        globals()[_function.__name__] = _function
        __all__ += [_function.__name__]


def csr_to_dense(csr_tensor: Any) -> Any:
    """The whole as a Tensor."""
    return csr_tensor.to_dense()


def csr_to_coo(tensor: Any) -> Any:
    """The same by row and column."""
    return tensor.to_coo()


def coo_to_dense(tensor: Any) -> Any:
    """The whole as a Tensor."""
    return tensor.to_dense()


def coo_to_csr(tensor: Any) -> Any:
    """The same row after row."""
    return tensor.to_csr()


def csr_mv(csr_tensor: Any, dense: Any) -> Any:
    """The product with a vector [columns, 1]."""
    return csr_tensor.mv(dense)


def csr_mm(
    a: Any, b: Any, trans_a: bool = False, trans_b: bool = False, adjoint_a: bool = False, adjoint_b: bool = False
) -> Any:
    """The product of a CSRTensor with a Tensor or a CSRTensor."""
    if trans_a or trans_b or adjoint_a or adjoint_b:
        raise ValueError("For 'csr_mm', 'trans_a', 'trans_b', 'adjoint_a' and 'adjoint_b' must be False.")
    return a.mm(b)


def csr_reduce_sum(csr_tensor: Any, axis: int) -> Any:
    """The sums of the rows."""
    return csr_tensor.sum(axis)


def csr_gather(indptr: Any, indices: Any, dense: Any, sparse_shape: Any) -> Any:
    """The elements of a Tensor at the places of a CSRTensor."""
    values = _create.zeros((indices.shape[0], *sparse_shape[2:]), dense.dtype)
    return _at_places(CSRTensor(indptr, indices, values, tuple(sparse_shape)), dense)


def csr_mul(x: Any, y: Any) -> Any:
    """The values times a number, or times the elements of a Tensor at their places: the new values."""
    if not isinstance(y, (Tensor, int, float)):
        raise TypeError(f"For 'csr_mul', the 'y' must be a Tensor or a number, but got {type(y).__name__}.")
    return x.values * _at_places(x, y)


def csr_div(x: Any, y: Any) -> Any:
    """The values divided by a number, or by the elements of a Tensor at their places: the new values."""
    if not isinstance(y, (Tensor, int, float)):
        raise TypeError(f"For 'csr_div', the 'y' must be a Tensor or a number, but got {type(y).__name__}.")
    return x.values / _at_places(x, y)


def _merged(places: Any, values: Any) -> Any:
    """Each place once in order, and the sums of the values there."""
    once, which = np.unique(places, return_inverse=True)
    sums = np.zeros_like(values, shape=once.shape)
    np.add.at(sums, which.reshape(-1), values)
    return once, sums


def csr_add(a: Any, b: Any, alpha: Any, beta: Any) -> Any:
    """alpha * a + beta * b."""
    if not isinstance(a, CSRTensor) or not isinstance(b, CSRTensor):
        raise TypeError("For 'csr_add', 'a' and 'b' must be CSRTensor.")
    if a.shape != b.shape:
        raise ValueError(f"For 'csr_add', the shapes must be the same, but got {a.shape} and {b.shape}.")
    width = a.shape[1]
    places = [x._rows() * width + _array(x.indices).astype(np.int64) for x in (a, b)]
    values = np.concatenate([_array(a.values * alpha), _array(b.values * beta)])
    once, sums = _merged(np.concatenate(places), values)
    starts = np.searchsorted(once // width, np.arange(a.shape[0] + 1))
    columns = _tensor(once % width).astype(a.indices.dtype)
    return CSRTensor(_tensor(starts).astype(a.indptr.dtype), columns, _tensor(sums), a.shape)


def coo_add(x1: Any, x2: Any, thresh: Any) -> Any:
    """The sum, which has each place of both once, in order; values whose size is below `thresh` are left out."""
    if not isinstance(x1, COOTensor) or not isinstance(x2, COOTensor):
        raise TypeError("For 'coo_add', 'x1' and 'x2' must be COOTensor.")
    if x1.shape != x2.shape:
        raise ValueError(f"For 'coo_add', the shapes must be the same, but got {x1.shape} and {x2.shape}.")
    both = np.concatenate([_array(x1.indices), _array(x2.indices)])
    values = np.concatenate([_array(x1.values), _array(x2.values)])
    once, sums = _merged(np.ravel_multi_index(tuple(both.T), x1.shape), values)
    kept = np.abs(sums) >= _array(thresh)
    rows = np.stack(np.unravel_index(once[kept], x1.shape), 1)
    return COOTensor(_tensor(rows).astype(x1.indices.dtype), _tensor(sums[kept]), x1.shape)


def coo_concat(sp_input: Any, concat_dim: int = 0) -> Any:
    """COOTensors one after the other along a dimension, in the order of places."""
    first, start, rows = sp_input[0], 0, []
    axis = concat_dim % first.ndim
    for one in sp_input:
        rows.append(_array(one.indices) + start * (np.arange(first.ndim) == axis))
        start += one.shape[axis]
    places, values = np.concatenate(rows), np.concatenate([_array(one.values) for one in sp_input])
    shape = first.shape[:axis] + (start,) + first.shape[axis + 1 :]
    order = np.argsort(np.ravel_multi_index(tuple(places.T), shape), kind="stable")
    return COOTensor(_tensor(places[order]).astype(first.indices.dtype), _tensor(values[order]), shape)


def dense_to_sparse_coo(tensor: Any) -> Any:
    """The elements that are not 0, by place."""
    places = _shape.nonzero(tensor)
    return COOTensor(places.astype("int32"), _shape.gather_nd(tensor, places), tensor.shape)


def dense_to_sparse_csr(tensor: Any) -> Any:
    """The elements that are not 0, row after row."""
    return dense_to_sparse_coo(tensor).to_csr()
