"""Small cells around functions of framejit.ops."""

from __future__ import annotations

from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter
from framejit.common.initializer import initializer
from framejit.nn._cell import Cell, _Plain
from framejit.nn._checks import float_tensor, of_type, one_of, positive_int, tensor

_FLOAT32 = ALL["float32"]


class Tril(_Plain):
    """The lower triangle."""

    def construct(self, x: Any, k: int = 0) -> Any:
        """0 elsewhere."""
        return ops.tril(x, k)


class Triu(_Plain):
    """The upper triangle."""

    def construct(self, x: Any, k: int = 0) -> Any:
        """0 elsewhere."""
        return ops.triu(x, k)


class Norm(Cell):
    """The root of the sum of squares along `axis`.

    Parameters
    ----------
    axis : int or tuple of int
        The dimensions; (): all.
    keep_dims : bool
        Whether the dimension is kept, with length 1.
    """

    axis: Any
    keep_dims: bool

    def __init__(self, axis: Any = (), keep_dims: bool = False) -> None:
        super().__init__()
        of_type(self, bool, keep_dims=keep_dims)
        self.axis, self.keep_dims = axis, keep_dims

    def construct(self, x: Any) -> Any:
        """The norm."""
        return ops.sqrt(ops.reduce_sum(ops.square(x), self.axis, self.keep_dims))

    def extend_repr(self) -> str:
        """The options."""
        return f"axis={self.axis}, keep_dims={self.keep_dims}"


class OneHot(Cell):
    """A new dimension with `on_value` at the index.

    Parameters
    ----------
    axis : int
        The place of the new dimension.
    depth : int
        The length of the new dimension.
    on_value : float
        The value at the index.
    off_value : float
        The value elsewhere.
    dtype : dtype
        The dtype of the result.
    """

    axis: int
    depth: int
    on_value: float
    off_value: float
    dtype: Any

    def __init__(
        self, axis: int = -1, depth: int = 1, on_value: float = 1.0, off_value: float = 0.0, dtype: Any = _FLOAT32
    ) -> None:
        super().__init__()
        self.axis, self.depth, self.on_value, self.off_value, self.dtype = axis, depth, on_value, off_value, dtype

    def construct(self, indices: Any) -> Any:
        """The Tensor."""
        out = ops.one_hot(indices, self.depth, self.on_value, self.off_value, self.axis)
        return out.astype(self.dtype)


class Range(Cell):
    """Numbers from `start` up to `limit`.

    Parameters
    ----------
    start : number
        The first number; the end, if `limit` is not given.
    limit : number, optional
        The end, which is not included.
    delta : number
        The step.
    """

    def __init__(self, start: Any, limit: Any = None, delta: Any = 1) -> None:
        super().__init__()
        if delta == 0:
            raise ValueError("For 'Range', the 'delta' must not be 0.")
        numbers = ops.arange(start, limit, delta)
        self.numbers: Any = numbers.astype("int32") if numbers.dtype is ALL["int64"] else numbers

    def construct(self) -> Any:
        """The numbers."""
        return self.numbers


class Roll(Cell):
    """Shifted along dimensions.

    Parameters
    ----------
    shift : int or tuple of int
        The number of places.
    axis : int or tuple of int
        The dimensions.
    """

    shift: Any
    axis: Any

    def __init__(self, shift: Any, axis: Any) -> None:
        super().__init__()
        of_type(self, (int, tuple, list), shift=shift, axis=axis)
        self.shift, self.axis = shift, axis

    def construct(self, input_x: Any) -> Any:
        """The shifted Tensor."""
        return ops.roll(input_x, self.shift, self.axis)


class Moments(Cell):
    """Mean and variance along `axis`.

    Parameters
    ----------
    axis : int or tuple of int, optional
        The dimensions; None: all.
    keep_dims : bool, optional
        Whether the dimensions are kept, with length 1.
    """

    def __init__(self, axis: Any = None, keep_dims: bool | None = None) -> None:
        super().__init__()
        self.axis: tuple[()] | Any = () if axis is None else axis
        self.keep_dims: bool = bool(keep_dims)

    def construct(self, x: Any) -> Any:
        """(mean, variance)."""
        return ops.mean(x, self.axis, self.keep_dims), ops.var(x, self.axis, 0, self.keep_dims)


class MatMul(Cell):
    """x1 @ x2, with either transposed first.

    Parameters
    ----------
    transpose_x1 : bool
        Whether to transpose the first matrix.
    transpose_x2 : bool
        Whether to transpose the second matrix.
    """

    transpose_x1: bool
    transpose_x2: bool

    def __init__(self, transpose_x1: bool = False, transpose_x2: bool = False) -> None:
        super().__init__()
        of_type(self, bool, transpose_x1=transpose_x1, transpose_x2=transpose_x2)
        self.transpose_x1, self.transpose_x2 = transpose_x1, transpose_x2

    def construct(self, x1: Any, x2: Any) -> Any:
        """The product."""
        x1 = ops.swapaxes(x1, -1, -2) if self.transpose_x1 and x1.ndim > 1 else x1
        return ops.matmul(x1, ops.swapaxes(x2, -1, -2) if self.transpose_x2 and x2.ndim > 1 else x2)


class MatInverse(_Plain):
    """The inverse of a matrix."""

    def construct(self, a: Any) -> Any:
        """The inverse."""
        return ops.inverse(a)


class MatDet(_Plain):
    """The determinant of a matrix."""

    def construct(self, a: Any) -> Any:
        """The determinant."""
        return ops.det(a)


class L1Regularizer(Cell):
    """`scale` times the sum of absolute values.

    Parameters
    ----------
    scale : float
        The factor.
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        of_type(self, (int, float), scale=scale)
        if scale < 0:
            raise ValueError(f"For 'L1Regularizer', the 'scale' must be at least 0, but got {scale}.")
        self.scale = scale

    def construct(self, weights: Any) -> Any:
        """The sum."""
        return ops.reduce_sum(ops.abs(weights)) * self.scale


class ClipByNorm(Cell):
    """Scaled so that the root of the sum of squares along `axis` is at most `clip_norm`.

    Parameters
    ----------
    axis : int or tuple of int, optional
        The dimensions; None: all.
    """

    def __init__(self, axis: Any = None) -> None:
        super().__init__()
        self.axis: tuple[()] | Any = () if axis is None else axis

    def construct(self, x: Any, clip_norm: Any) -> Any:
        """The clipped Tensor."""
        norm = ops.sqrt(ops.reduce_sum(ops.square(x), self.axis, True))
        return x * clip_norm / ops.maximum(norm, clip_norm)


class TimeDistributed(Cell):
    """A layer for each part along `time_axis`.

    Parameters
    ----------
    layer : Cell or callable
        The layer.
    time_axis : int
        The dimension of the parts.
    reshape_with_axis : int, optional
        Accepted and ignored.
    """

    time_axis: int
    reshape_with_axis: int | None

    def __init__(self, layer: Any, time_axis: int, reshape_with_axis: int | None = None) -> None:
        super().__init__()
        if not callable(layer):
            raise TypeError(
                f"For 'TimeDistributed', the 'layer' must be a Cell or a function, but got {type(layer).__name__}."
            )
        of_type(self, int, time_axis=time_axis)
        self.layer, self.time_axis, self.reshape_with_axis = layer, time_axis, reshape_with_axis

    def construct(self, inputs: Any) -> Any:
        """What the layer gives for each part, along the same axis."""
        parts = [self.layer(part) for part in ops.unbind(inputs, self.time_axis)]
        return ops.stack(parts, self.time_axis % inputs.ndim)


class EmbeddingLookup(Cell):
    """Rows of a table.

    Parameters
    ----------
    vocab_size : int
        The number of rows of the table.
    embedding_size : int
        The length of a row.
    param_init : initializer, str, number or Tensor
        The first table.
    target : {'CPU', 'DEVICE'}
        Checked and ignored.
    slice_mode : str
        Accepted and ignored.
    manual_shapes : object
        Accepted and ignored.
    max_norm : float, optional
        Longer rows are scaled to this length.
    sparse : bool
        Accepted and ignored.
    dtype : dtype
        The dtype of the Parameters.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        param_init: Any = "normal",
        target: str = "CPU",
        slice_mode: str = "batch_slice",
        manual_shapes: Any = None,
        max_norm: float | None = None,
        sparse: bool = True,
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        positive_int(self, vocab_size=vocab_size, embedding_size=embedding_size)
        if target not in ("CPU", "DEVICE"):
            raise ValueError(f"For 'EmbeddingLookup', the 'target' must be 'CPU' or 'DEVICE', but got {target!r}.")
        self.embedding_table: Parameter = Parameter(
            initializer(param_init, (vocab_size, embedding_size), dtype), name="embedding_table"
        )
        self.max_norm = max_norm

    def construct(self, indices: Any) -> Any:
        """The rows at the indices."""
        rows = ops.gather(self.embedding_table, indices, 0)
        if self.max_norm is None:
            return rows
        norm = ops.sqrt(ops.sum(ops.square(rows), -1, True))
        return rows * self.max_norm / ops.maximum(norm, self.max_norm)


class MultiFieldEmbeddingLookup(EmbeddingLookup):
    """Rows of a table, weighted, and merged by field: their sums, means or largest elements.

    ``cell(indices, values, field_ids)``, each [N, length], gives [N, field_size, embedding_size].

    Parameters
    ----------
    vocab_size : int
        The number of rows of the table.
    embedding_size : int
        The length of a row.
    field_size : int
        The number of fields.
    param_init : initializer, str, number or Tensor
        The first table.
    target : {'CPU', 'DEVICE'}
        Checked and ignored.
    slice_mode : str
        Accepted and ignored.
    feature_num_list : object
        Accepted and ignored.
    max_norm : float, optional
        Longer rows are scaled to this length.
    sparse : bool
        Accepted and ignored.
    operator : {'SUM', 'MEAN', 'MAX'}
        How the rows of a field are merged.
    dtype : dtype
        The dtype of the Parameters.
    """

    field_size: int
    operator: str

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        field_size: int,
        param_init: Any = "normal",
        target: str = "CPU",
        slice_mode: str = "batch_slice",
        feature_num_list: Any = None,
        max_norm: float | None = None,
        sparse: bool = True,
        operator: str = "SUM",
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__(
            vocab_size, embedding_size, param_init, target, slice_mode, feature_num_list, max_norm, sparse, dtype
        )
        positive_int(self, field_size=field_size)
        one_of(self, ("SUM", "MAX", "MEAN"), operator=operator)
        self.field_size, self.operator = field_size, operator

    def construct(self, input_indices: Any, input_values: Any, field_ids: Any) -> Any:
        """The merged rows."""
        for name, x in (("input_indices", input_indices), ("input_values", input_values), ("field_ids", field_ids)):
            tensor(self, name, x)
            if x.ndim != 2:
                raise ValueError(
                    f"For 'MultiFieldEmbeddingLookup', the '{name}' must have 2 dimensions, but got {x.shape}."
                )
        if not input_indices.shape == input_values.shape == field_ids.shape:
            raise ValueError(
                f"For 'MultiFieldEmbeddingLookup', the inputs must have one shape, but got {input_indices.shape}, {input_values.shape} and "
                f"{field_ids.shape}."
            )
        rows = super().construct(input_indices) * input_values.expand_dims(-1)
        own = (field_ids.expand_dims(1) == ops.arange(self.field_size).reshape((1, -1, 1))).expand_dims(-1)
        rows, weights = rows.expand_dims(1), ops.abs(input_values).expand_dims(1).expand_dims(-1)
        total = ops.sum(ops.where(own, weights, 0.0), 2)
        if self.operator == "MAX":
            most = ops.amax(ops.where(ops.logical_and(own, weights > 0), rows, -3.4028234e38), 2)
            return ops.where(total > 0, most, 0.0)
        merged = ops.sum(ops.where(own, rows, 0.0), 2)
        if self.operator == "MEAN":
            merged = ops.where(total > 0, merged / ops.where(total > 0, total, 1.0), 0.0)
        return merged


# --- Functions of math ------------------------------------------------------------------------------------------------------------


class IGamma(_Plain):
    """The regularized lower incomplete gamma function."""

    def construct(self, a: Any, x: Any) -> Any:
        """The function, of float32."""
        for name, value in (("a", a), ("x", x)):
            if value.dtype is not _FLOAT32:
                raise TypeError(f"For 'IGamma', the '{name}' must be of float32, but got {value.dtype}.")
        return ops.igamma(a, x)


class LBeta(_Plain):
    """log(gamma(x) * gamma(y) / gamma(x + y))."""

    def construct(self, x: Any, y: Any) -> Any:
        """The function, of float16 or float32."""
        float_tensor(self, "x", x)
        if y.dtype is not x.dtype:
            raise TypeError(f"For 'LBeta', the 'y' must be of {x.dtype}, but got {y.dtype}.")
        one, two = x.astype("float64"), y.astype("float64")
        return (ops.lgamma(one) + ops.lgamma(two) - ops.lgamma(one + two)).astype(x.dtype)


def _on_diagonal(rows: int, columns: int) -> Any:
    return ops.arange(rows).reshape((-1, 1)) == ops.arange(columns)


class MatrixDiag(_Plain):
    """Matrices with the last dimension as their diagonals."""

    def construct(self, input_x: Any) -> Any:
        """0 elsewhere."""
        size = input_x.shape[-1]
        return ops.where(_on_diagonal(size, size), input_x.expand_dims(-1), ops.zeros((), input_x.dtype))


class MatrixDiagPart(_Plain):
    """The diagonals of matrices."""

    def construct(self, input_x: Any) -> Any:
        """The last two dimensions as one."""
        return ops.diagonal(input_x, 0, -2, -1)


class MatrixSetDiag(_Plain):
    """Matrices with other diagonals."""

    def construct(self, input_x: Any, diagonal: Any) -> Any:
        """The matrices."""
        rows, columns = input_x.shape[-2:]
        by_row = ops.pad(diagonal, (0, rows - diagonal.shape[-1])).expand_dims(-1)
        return ops.where(_on_diagonal(rows, columns), by_row, input_x)


# --- Sparse matrices --------------------------------------------------------------------------------------------------------------


class SparseToDense(_Plain):
    """A `COOTensor` as a Tensor."""

    def construct(self, sparse_tensor: Any) -> Any:
        """The Tensor."""
        return sparse_tensor.to_dense()


class SparseTensorDenseMatmul(Cell):
    """The product of a matrix of values at places and a matrix, with either transposed first.

    Parameters
    ----------
    adjoint_st : bool
        Whether to transpose the sparse matrix.
    adjoint_dt : bool
        Whether to transpose the dense matrix.
    """

    adj_st: bool
    adj_dt: bool

    def __init__(self, adjoint_st: bool = False, adjoint_dt: bool = False) -> None:
        super().__init__()
        of_type(self, bool, adjoint_st=adjoint_st, adjoint_dt=adjoint_dt)
        self.adj_st, self.adj_dt = adjoint_st, adjoint_dt

    def construct(self, indices: Any, values: Any, sparse_shape: Any, dense: Any) -> Any:
        """The product."""
        matrix = ops.scatter_nd(indices, values, sparse_shape)
        return ops.matmul(
            matrix.swapaxes(0, 1) if self.adj_st else matrix, dense.swapaxes(0, 1) if self.adj_dt else dense
        )
