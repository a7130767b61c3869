"""Functions of sparse Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._core import Tensor, _array, _tensor
from framejit.ops import _create, _elementwise, _shape

_OF_VALUES = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor inv isfinite isinf isnan log log1p neg relu relu6 round sigmoid "
    "sin sinh softsign sqrt square tan tanh"
)


def _sparse() -> Any:
    from framejit import _sparse

    return _sparse


def _of_values(kind: str, name: str) -> Any:
    function = getattr(_elementwise, name)

    def each(x: Any) -> Any:
        wanted = getattr(_sparse(), kind)
        if not isinstance(x, wanted):
            raise TypeError(f"For '{each.__name__}', the 'x' must be {kind}, but got {type(x).__name__}.")
        return x._with(function(x.values))

    each.__name__ = each.__qualname__ = f"{kind[:3].lower()}_{name}"
    each.__doc__ = f"`{name}` of each value; the places stay."
    return each


for _kind in ("CSRTensor", "COOTensor"):
    for _name in _OF_VALUES.split():
        globals()[f"{_kind[:3].lower()}_{_name}"] = _of_values(_kind, _name)


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


def csr_mm(a: Any, b: Any, trans_a: bool = False, trans_b: bool = False) -> Any:
    """The product of a CSRTensor with a Tensor or a CSRTensor."""
    if trans_a or trans_b:
        raise ValueError("For 'csr_mm', 'trans_a' and 'trans_b' must be False.")
    return a.mm(b)


def csr_reduce_sum(csr_tensor: Any, axis: int) -> Any:
    """The sums of the rows."""
    return csr_tensor.sum(axis)


def csr_gather(indptr: Any, indices: Any, dense: Any, sparse_shape: Any) -> Any:
    """The elements of a Tensor at the places of a CSRTensor."""
    values = _create.zeros((indices.shape[0], *sparse_shape[2:]), dense.dtype)
    return _sparse()._at_places(_sparse().CSRTensor(indptr, indices, values, tuple(sparse_shape)), dense)


def csr_mul(x: Any, y: Any) -> Any:
    """The values times a number, or times the elements of a Tensor at their places: the new values."""
    if not isinstance(y, (Tensor, int, float)):
        raise TypeError(f"For 'csr_mul', the 'y' must be a Tensor or a number, but got {type(y).__name__}.")
    return x.values * _sparse()._at_places(x, y)


def csr_div(x: Any, y: Any) -> Any:
    """The values divided by a number, or by the elements of a Tensor at their places: the new values."""
    if not isinstance(y, (Tensor, int, float)):
        raise TypeError(f"For 'csr_div', the 'y' must be a Tensor or a number, but got {type(y).__name__}.")
    return x.values / _sparse()._at_places(x, y)


def _merged(places: Any, values: Any) -> Any:
    """Each place once in order, and the sums of the values there."""
    once, which = np.unique(places, return_inverse=True)
    sums = np.zeros(once.shape, values.dtype)
    np.add.at(sums, which.reshape(-1), values)
    return once, sums


def csr_add(a: Any, b: Any, alpha: Any, beta: Any) -> Any:
    """alpha * a + beta * b."""
    kind = _sparse().CSRTensor
    if not isinstance(a, kind) or not isinstance(b, kind):
        raise TypeError("For 'csr_add', 'a' and 'b' must be CSRTensor.")
    if a.shape != b.shape:
        raise ValueError(f"For 'csr_add', the shapes must be the same, but got {a.shape} and {b.shape}.")
    width = a.shape[1]
    places = [x._rows() * width + _array(x.indices).astype(np.int64) for x in (a, b)]
    values = np.concatenate([_array(a.values * alpha), _array(b.values * beta)])
    once, sums = _merged(np.concatenate(places), values)
    starts = np.searchsorted(once // width, np.arange(a.shape[0] + 1))
    columns = _tensor(once % width).astype(a.indices.dtype)
    return kind(_tensor(starts).astype(a.indptr.dtype), columns, _tensor(sums), a.shape)


def coo_add(x1: Any, x2: Any, thresh: Any) -> Any:
    """The sum, in which each place of both stands once, in order; values whose size is below `thresh` are left out."""
    kind = _sparse().COOTensor
    if not isinstance(x1, kind) or not isinstance(x2, kind):
        raise TypeError("For 'coo_add', 'x1' and 'x2' must be COOTensor.")
    if x1.shape != x2.shape:
        raise ValueError(f"For 'coo_add', the shapes must be the same, but got {x1.shape} and {x2.shape}.")
    both = np.concatenate([_array(x1.indices), _array(x2.indices)])
    values = np.concatenate([_array(x1.values), _array(x2.values)])
    once, sums = _merged(np.ravel_multi_index(tuple(both.T), x1.shape), values)
    kept = np.abs(sums) >= _array(thresh)
    rows = np.stack(np.unravel_index(once[kept], x1.shape), 1)
    return kind(_tensor(rows).astype(x1.indices.dtype), _tensor(sums[kept]), x1.shape)


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
    return _sparse().COOTensor(_tensor(places[order]).astype(first.indices.dtype), _tensor(values[order]), shape)


def dense_to_sparse_coo(tensor: Any) -> Any:
    """The elements that are not 0, by place."""
    places = _shape.nonzero(tensor)
    return _sparse().COOTensor(places.astype("int32"), _shape.gather_nd(tensor, places), tensor.shape)


def dense_to_sparse_csr(tensor: Any) -> Any:
    """The elements that are not 0, row after row."""
    return dense_to_sparse_coo(tensor).to_csr()
