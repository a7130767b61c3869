"""Parameter: a Tensor with a name that a network trains."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from framejit import _core
from framejit._api import _dtypes
from framejit._tensors._tensor import Tensor

_numbers = itertools.count()


class Parameter(Tensor):
    """A Tensor that belongs to a network.

    Parameters
    ----------
    default_input : Tensor, numpy.ndarray, int, float, bool, list or tuple
        The elements, which are copied. An int becomes int32, a float float32.
    name : str, optional
        The name. By default one is made; as an attribute of a Cell it is the path to the attribute.
    requires_grad : bool
        Whether it is trained.
    layerwise_parallel, parallel_optimizer : bool
        Stored only.
    storage_format, device
        Accepted and ignored.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.Parameter(fj.Tensor([1.0, 2.0]), name="w")
    Parameter (name=w, shape=(2,), dtype=Float32, requires_grad=True)
    """

    _named: bool
    layerwise_parallel: bool
    parallel_optimizer: bool

    def __new__(
        cls,
        default_input: Any,
        name: str | None = None,
        requires_grad: bool = True,
        layerwise_parallel: bool = False,
        parallel_optimizer: bool = True,
        storage_format: str = "",
        device: str | None = None,
    ) -> Parameter:
        """A new one."""
        if isinstance(default_input, bool) or not isinstance(default_input, int):
            self = super().__new__(cls, default_input)
        else:
            self = super().__new__(cls, default_input, _dtypes.ALL["int32"])
        self._named = name is not None
        self.name = f"Parameter{next(_numbers)}" if name is None else name
        self.requires_grad = requires_grad
        self.layerwise_parallel = layerwise_parallel
        self.parallel_optimizer = parallel_optimizer
        return self

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        if not isinstance(name, str):
            raise ValueError(
                f"The type of the Parameter's name should be 'string' or 'None', but got {type(name).__name__}."
            )
        self._name = name

    @property
    def requires_grad(self) -> bool:
        """Whether it is trained."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(
                f"The argument 'requires_grad' must be bool, but got {value!r} of type {type(value).__name__}."
            )
        self._requires_grad = value

    @property
    def data(self) -> Parameter:
        """The Parameter; assigning writes into it."""
        return self

    @data.setter
    def data(self, data: Any) -> None:
        self.set_data(data)

    def set_data(self, data: Any, slice_shape: bool = False) -> Parameter:
        """Replace the elements by those of a Tensor, converted to the dtype of the Parameter.

        Raises
        ------
        TypeError
            If `data` is neither Tensor nor number, or of a kind of dtype that would lose its fraction.
        ValueError
            If the shapes differ and not `slice_shape`.
        """
        if not isinstance(data, (Tensor, int, float, bool)):
            raise TypeError(f"Parameter data must be Tensor, int, float or bool, but got {type(data).__name__}.")
        new = Tensor(data)
        if new.shape != self.shape and not slice_shape:
            raise ValueError(
                f"Can not change the shape of Parameter which has been initialized. Current shape is {self.shape}, "
                f"and incoming is {new.shape}."
            )
        if isinstance(data, Tensor) and not np.can_cast(_core._dtype(new.dtype), _core._dtype(self.dtype), "same_kind"):
            raise TypeError(f"Data type {new.dtype} can not be converted to the Parameter's {self.dtype} without loss.")
        converted = new.astype(self.dtype)
        if converted.shape == self.shape:
            self[...] = converted
        else:
            self._set_data(converted)
        return self

    def value(self) -> Tensor:
        """A Tensor with the elements."""
        return Tensor(self)

    def init_data(self, layout: Any = None, set_sliced: bool = False) -> Parameter:
        """The Parameter: it has its elements from the start."""
        return self

    def clone(self, init: Any = "same") -> Parameter:
        """A Parameter of the same name with memory of its own; `init` a number or the name of an initializer."""
        if init == "same":
            data = Tensor(self)
        else:
            from framejit.common.initializer import initializer

            data = initializer(init, self.shape, self.dtype)
        copy = Parameter(data, self.name, self.requires_grad, self.layerwise_parallel, self.parallel_optimizer)
        copy._named = self._named
        return copy

    def __repr__(self) -> str:
        return (
            f"Parameter (name={self.name}, shape={self.shape}, dtype={self.dtype}, requires_grad={self.requires_grad})"
        )

    def __str__(self) -> str:
        return self.__repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        return Parameter, (
            self.asnumpy(),
            self.name,
            self.requires_grad,
            self.layerwise_parallel,
            self.parallel_optimizer,
        )

    def __deepcopy__(self, memo: Any) -> Parameter:
        return self.clone()


_core._set_parameter_type(Parameter)


class ParameterTuple(tuple[Parameter, ...]):
    """A tuple of Parameters with different names.

    Parameters
    ----------
    iterable : iterable of Parameter
        The Parameters.

    Raises
    ------
    TypeError
        If an item is not a Parameter.
    ValueError
        If two have the same name.
    """

    def __new__(cls, iterable: Any) -> ParameterTuple:
        """A new one."""
        items = tuple(iterable)
        seen: set[str] = set()
        for item in items:
            if not isinstance(item, Parameter):
                raise TypeError(
                    f"For ParameterTuple initialization, its items should be Parameter, but got {type(item).__name__}."
                )
            if item.name in seen:
                raise ValueError(
                    f"The value {item!r}, its name '{item.name}' already exists. Please set a unique name for it."
                )
            seen.add(item.name)
        return super().__new__(cls, items)

    def clone(self, prefix: str, init: Any = "same") -> ParameterTuple:
        """Copies, with a prefix before the names."""
        copies = []
        for parameter in self:
            copy = parameter.clone(init)
            copy.name = f"{prefix}.{copy.name}"
            copies.append(copy)
        return ParameterTuple(copies)
