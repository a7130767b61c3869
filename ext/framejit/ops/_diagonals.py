"""Diagonals of matrices, taken out and put in: one of them, or all from a lower to an upper one as rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._core import _array, _tensor
from framejit.ops import _shape
from framejit.ops._primitives import _define
from framejit.ops._shape import _ints

__all__ = ["diagonal_scatter", "matrix_diag", "matrix_diag_part", "matrix_set_diag"]

_ALIGNED = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")


def _range(name: str, k: Any) -> tuple[int, int, bool]:
    """The lowest and the highest diagonal, and whether they are rows of their own."""
    given = _ints(k)
    numbers = (given,) if isinstance(given, int) else tuple(given)
    if len(numbers) not in (1, 2):
        raise ValueError(f"For '{name}', the 'k' must be one number or two, but got {numbers}.")
    low, high = numbers[0], numbers[-1]
    if low > high:
        raise ValueError(f"For '{name}', the 'k' must have the lower number first, but got {numbers}.")
    return low, high, low != high


def _begin(align: str, diagonal: int, length: int, most: int) -> int:
    """Where a diagonal of `length` elements begins in a row of `most`."""
    above, below = align.split("_")
    left = diagonal >= 0 and above == "LEFT" or diagonal <= 0 and below == "LEFT"
    return 0 if left else most - length


def _places(name: str, rows: int, columns: int, low: int, high: int, align: str) -> tuple[Any, Any, Any]:
    """For the elements of the diagonals: where they are in the matrix, and where in the rows."""
    if align not in _ALIGNED:
        raise ValueError(f"For '{name}', the 'align' must be one of {_ALIGNED}, but got {align!r}.")
    if not -rows < low or not high < columns:
        raise ValueError(
            f"For '{name}', the 'k' must be between {1 - rows} and {columns - 1}, but got {low} and {high}."
        )
    lengths = {d: min(rows + min(d, 0), columns - max(d, 0)) for d in range(low, high + 1)}
    most = max(lengths.values())
    in_matrix, in_rows = [], []
    for d, length in lengths.items():
        steps = np.arange(length)
        in_matrix.append((steps + max(-d, 0)) * columns + steps + max(d, 0))
        in_rows.append((high - d) * most + _begin(align, d, length, most) + steps)
    return np.concatenate(in_matrix), np.concatenate(in_rows), most


def _filled(values: Any, source: Any, target: Any, size: int) -> tuple[Any, Any]:
    """Elements of flat lines at their new places, and which places have one."""
    from_where, there = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    from_where[target], there[target] = source, True
    return np.take(values, from_where, -1), there


def matrix_diag(
    x: Any, k: Any = 0, num_rows: Any = -1, num_cols: Any = -1, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Any:
    """Matrices with the last dimension as a diagonal; with two numbers as `k` the last two dimensions are several diagonals.

    Parameters
    ----------
    x : Tensor
        The diagonals, the highest one first.
    k : int or tuple of int
        The number of the diagonal, or of the lowest and the highest one.
    num_rows, num_cols : int
        The size of a matrix; as small as may be if it is -1.
    padding_value : number
        What is outside of the diagonals.
    align : {'RIGHT_LEFT', 'LEFT_RIGHT', 'LEFT_LEFT', 'RIGHT_RIGHT'}
        At which end the diagonals above and below the main one stand in their rows.
    """
    low, high, several = _range("matrix_diag", k)
    array = _array(x)
    most, lead = array.shape[-1], array.shape[: -2 if several else -1]
    rows, columns = (int(n.item()) if isinstance(n, _core.Tensor) else n for n in (num_rows, num_cols))
    least = most - min(high, 0), most + max(low, 0)
    if rows == columns == -1:
        rows = columns = max(least)
    rows, columns = least[0] if rows == -1 else rows, least[1] if columns == -1 else columns
    in_matrix, in_rows, longest = _places("matrix_diag", rows, columns, low, high, align)
    if longest != most or several and array.shape[-2] != high - low + 1:
        raise ValueError(
            f"For 'matrix_diag', diagonals {low} to {high} of {rows} x {columns} do not fit the shape {array.shape}."
        )
    out, there = _filled(array.reshape((*lead, -1)), in_rows, in_matrix, rows * columns)
    out = np.where(there, out, _array(padding_value, x.dtype))
    return _tensor(out.reshape((*lead, rows, columns)))


def matrix_diag_part(x: Any, k: Any, padding_value: Any, align: str = "RIGHT_LEFT") -> Any:
    """The diagonal `k` of matrices, or those from a lower to an upper one as rows, the highest one first.

    Parameters
    ----------
    x : Tensor
        Matrices in the last two dimensions.
    k : int or tuple of int
        The number of the diagonal, or of the lowest and the highest one.
    padding_value : number
        What fills the row of a shorter diagonal.
    align : {'RIGHT_LEFT', 'LEFT_RIGHT', 'LEFT_LEFT', 'RIGHT_RIGHT'}
        At which end the diagonals above and below the main one stand in their rows.
    """
    low, high, several = _range("matrix_diag_part", k)
    array = _array(x)
    lead, (rows, columns) = array.shape[:-2], array.shape[-2:]
    in_matrix, in_rows, most = _places("matrix_diag_part", rows, columns, low, high, align)
    count = high - low + 1
    out, there = _filled(array.reshape((*lead, rows * columns)), in_matrix, in_rows, count * most)
    out = np.where(there, out, _array(padding_value, x.dtype))
    return _tensor(out.reshape((*lead, count, most) if several else (*lead, most)))


def matrix_set_diag(x: Any, diagonal: Any, k: Any = 0, align: str = "RIGHT_LEFT") -> Any:
    """Matrices with other elements on the diagonal `k`, or on those from a lower to an upper one.

    Parameters
    ----------
    x : Tensor
        Matrices in the last two dimensions.
    diagonal : Tensor
        The elements, as `matrix_diag_part` returns them.
    k : int or tuple of int
        The number of the diagonal, or of the lowest and the highest one.
    align : {'RIGHT_LEFT', 'LEFT_RIGHT', 'LEFT_LEFT', 'RIGHT_RIGHT'}
        At which end the diagonals above and below the main one stand in their rows.
    """
    low, high, several = _range("matrix_set_diag", k)
    array, new = _array(x), _array(diagonal)
    lead, (rows, columns) = array.shape[:-2], array.shape[-2:]
    in_matrix, in_rows, most = _places("matrix_set_diag", rows, columns, low, high, align)
    if new.shape != ((*lead, high - low + 1, most) if several else (*lead, most)):
        raise ValueError(
            f"For 'matrix_set_diag', the 'diagonal' has the shape {new.shape}, which is not that of diagonals {low} to {high} of {array.shape}."
        )
    out, there = _filled(new.reshape((*lead, -1)), in_rows, in_matrix, rows * columns)
    return _tensor(np.where(there, out, array.reshape((*lead, rows * columns))).reshape(array.shape))


def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy with `src` on the diagonal `offset` of two dimensions."""
    for name, value in (("input", input), ("src", src)):
        if not isinstance(value, _core.Tensor):
            raise TypeError(f"For 'diagonal_scatter', the '{name}' must be a Tensor, but got {type(value).__name__}.")
    shape = _shape.diagonal(input, offset, dim1, dim2).shape
    if src.shape != shape:
        raise ValueError(
            "For diagonal_scatter, the shape of src should equal to the shape of input diagonal,"
            f"but got src.shape {src.shape} and diagonal shape {shape}."
        )
    x = np.moveaxis(_array(input), (dim1, dim2), (-2, -1))
    out = matrix_set_diag(_tensor(x), src.astype(input.dtype), offset)
    return _tensor(np.moveaxis(_array(out), (-2, -1), (dim1, dim2)))


_define(
    globals(),
    {
        "MatrixDiagV3": (matrix_diag, {"align": "RIGHT_LEFT"}),
        "MatrixDiagPartV3": (matrix_diag_part, {"align": "RIGHT_LEFT"}),
        "MatrixSetDiagV3": (matrix_set_diag, {"align": "RIGHT_LEFT"}),
    },
)
