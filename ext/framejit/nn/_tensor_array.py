"""TensorArray: a list of Tensors of one shape and dtype."""

from __future__ import annotations

from typing import Any

from framejit import ops
from framejit._api._dtypes import DType
from framejit._tensors._tensor import Tensor
from framejit.nn._cell import Cell


class TensorArray(Cell):
    """Elements that are written and read by number, and stacked.

    Parameters
    ----------
    dtype : dtype
        Of the elements.
    element_shape : int, list or tuple of int
        Of each element.
    dynamic_size : bool
        Whether writing past the end makes it longer.
    size : int
        How many there are at first: zeros.
    name : str
        For messages.

    Examples
    --------
    >>> import framejit as fj
    >>> array = fj.nn.TensorArray(fj.int64, ())
    >>> array.write(0, 1)
    >>> array.write(1, 2)
    >>> array.read(1).item(), array.stack().tolist()
    (2, [1, 2])
    """

    dtype: DType
    dynamic_size: bool

    def __init__(
        self, dtype: Any, element_shape: Any, dynamic_size: bool = True, size: int = 0, name: str = "TA"
    ) -> None:
        super().__init__()
        if not isinstance(dtype, DType):
            raise TypeError(f"For 'TensorArray', the 'dtype' must be a dtype, but got {type(dtype).__name__}.")
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ValueError(f"For 'TensorArray', the 'size' must be an int that is not negative, but got {size!r}.")
        self.dtype, self.dynamic_size, self._name = dtype, dynamic_size, name
        self.element_shape: tuple[int] | tuple[Any, ...] = (
            (element_shape,) if isinstance(element_shape, int) else tuple(element_shape)
        )
        self._elements: list[Any] = [self._zeros() for _ in range(size)]

    def _zeros(self) -> Any:
        return ops.zeros(self.element_shape, self.dtype)

    def write(self, index: Any, value: Any) -> None:
        """Set one element; those between the end and a later one are zeros."""
        index = int(index)
        element = value.astype(self.dtype) if isinstance(value, Tensor) else Tensor(value, self.dtype)
        if element.shape != self.element_shape:
            raise ValueError(f"{self._name}: an element has the shape {self.element_shape}, but got {element.shape}.")
        if index < 0 or (index >= len(self._elements) and not self.dynamic_size):
            raise IndexError(f"{self._name}: index {index} is out of range of {len(self._elements)} elements.")
        while len(self._elements) <= index:
            self._elements.append(self._zeros())
        self._elements[index] = element

    def read(self, index: Any) -> Any:
        """One element."""
        index = int(index)
        if not 0 <= index < len(self._elements):
            raise IndexError(f"{self._name}: index {index} is out of range of {len(self._elements)} elements.")
        return self._elements[index].copy()

    def stack(self) -> Any:
        """All elements as one Tensor, along a new first axis."""
        if not self._elements:
            return ops.zeros((0, *self.element_shape), self.dtype)
        return ops.stack(self._elements)

    def size(self) -> Any:
        """How many elements there are."""
        return Tensor(len(self._elements))

    def clear(self) -> None:
        """Take all elements out."""
        self._elements.clear()

    def close(self) -> None:
        """The same as clear."""
        self._elements.clear()
