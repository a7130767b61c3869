"""What programs for MindSpore ask about Python's values, and how they define primitives of their own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from framejit import _core
from framejit._autodiff._grad import jvp, vjp
from framejit.ops import _create, _primitive_forms, _shape
from framejit.ops._primitives import Primitive

Tensor = _core.Tensor

__all__ = [
    "PrimitiveWithCheck", "PrimitiveWithInfer", "constexpr", "isconstant", "jacfwd", "jacrev", "list_len", "make_range",
    "prim_attr_register", "scalar_cast", "tail", "tuple_div", "tuple_len", "tuple_reversed", "tuple_to_array", "typeof",
]  # fmt: skip


def constexpr(
    fn: Any = None, get_instance: bool = True, name: str | None = None, reuse_result: bool = True, check: bool = True
) -> Any:
    """Decorate a function that computes with constants; the function itself: constants need no mark here.

    Parameters
    ----------
    fn : callable, optional
        The function; without it, a decorator is returned.
    get_instance, name, reuse_result, check
        Accepted and ignored.
    """
    return (lambda function: function) if fn is None else fn


_primexpr = constexpr


def isconstant(x: Any) -> bool:
    """Whether a value is known while a graph is made: whether it is no Tensor."""
    if isinstance(x, (tuple, list)):
        return all(isconstant(item) for item in x)
    return not isinstance(x, Tensor)


def typeof(x: Any) -> Any:
    """The type of a value; of a Tensor its dtype."""
    return x.dtype if isinstance(x, Tensor) else type(x)


def tuple_len(x: Any) -> int:
    """The number of items."""
    return len(x)


list_len = tuple_len


def tuple_reversed(x: Any) -> Any:
    """The items in reverse order."""
    return tuple(x[::-1])


def tuple_div(x: Any, y: Any) -> tuple[int, ...]:
    """Quotients of ints, item by item.

    Raises
    ------
    ValueError
        If one does not divide the other.
    """
    if len(x) != len(y):
        raise ValueError(f"For 'tuple_div', the tuples must have one length, but got {len(x)} and {len(y)}.")
    for one, other in zip(x, y):
        if one % other:
            raise ValueError(f"For 'tuple_div', {one} is not a multiple of {other}.")
    return tuple([one // other for one, other in zip(x, y)])


def make_range(*limits: int) -> tuple[int, ...]:
    """The numbers of a range as a tuple."""
    return tuple(range(*limits))


def tail(x: Any) -> Any:
    """The items but the first one."""
    return x[1:]


def scalar_cast(input_x: Any, input_y: Any) -> Any:
    """A Python number as another type: that of the elements of a dtype."""
    return _primitive_forms._as_number(input_x, input_y)


def tuple_to_array(input_x: Any) -> Any:
    """A Tensor of the numbers in a tuple."""
    return _primitive_forms._tuple_as_array(input_x)


# --- Primitives that programs define ----------------------------------------------------------------------------------------


def prim_attr_register(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the ``__init__`` of a `Primitive`: its arguments become attributes, which `Primitive.attrs` has.

    Parameters
    ----------
    fn : callable
        The method.
    """

    @functools.wraps(fn)
    def register(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(getattr(self, "name", None), str):
            Primitive.__init__(self)
        bound = inspect.signature(fn).bind(self, *args, **kwargs)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            self.init_attrs[name] = value
            self.add_prim_attr(name, value)
            setattr(self, name, value)
        return fn(self, *args, **kwargs)

    return register


class PrimitiveWithInfer(Primitive):
    """A primitive that a program defines, with ``infer_shape`` and ``infer_dtype``, which nothing here asks."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        if name is not None:
            self.name = name


class PrimitiveWithCheck(PrimitiveWithInfer):
    """A primitive that a program defines, with ``check_shape`` and ``check_dtype``, which nothing here asks."""


# --- Jacobians ----------------------------------------------------------------------------------------------------------------


def _positions(grad_position: Any) -> tuple[int, ...]:
    given = grad_position if isinstance(grad_position, tuple) else (grad_position,)
    for at in given:
        if not isinstance(at, int) or isinstance(at, bool):
            raise TypeError(
                f"For 'jacfwd' and 'jacrev', the 'grad_position' must be int or tuple of int, but got {at!r}."
            )
        if at < 0:
            raise ValueError(f"For 'jacfwd' and 'jacrev', the 'grad_position' must be >= 0, but got {at}.")
    return given


def _each_unit(x: Any) -> Any:
    """Tensors like `x` with a single one, for each element."""
    flat = _create.eye(x.size, x.size, x.dtype)
    return [_shape.reshape(flat[i], x.shape) for i in range(x.size)]


def _assembled(columns: Any, last: Any) -> Any:
    """Derivatives by each element of `last` as one Tensor, with the axes of `last` last."""
    stacked = _shape.stack(columns, columns[0].ndim)
    return _shape.reshape(stacked, (*columns[0].shape, *last.shape))


def jacfwd(fn: Any, grad_position: Any = 0, has_aux: bool = False) -> Any:
    """Return a function that computes the Jacobian in forward mode: one direction for each element of an argument.

    Parameters
    ----------
    fn : callable or Cell
        A function of Tensors, which returns a Tensor or a tuple of Tensors.
    grad_position : int or tuple of int
        The arguments to differentiate by.
    has_aux : bool
        `fn` returns a tuple, of which the first item is differentiated; the others are returned too.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.ops.jacfwd(lambda x: x * x)(fj.Tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    positions = _positions(grad_position)

    def jacobian(*args: Any) -> Any:
        found = []
        aux: Any = ()
        for at in positions:

            def of_one(x: Any, at: int = at) -> Any:
                return fn(*args[:at], x, *args[at + 1 :])

            columns = []
            for unit in _each_unit(args[at]):
                out = jvp(of_one, args[at], unit, has_aux)
                columns.append(out[1])
                aux = out[2:]
            if isinstance(columns[0], tuple):
                found.append(tuple([_assembled([c[i] for c in columns], args[at]) for i in range(len(columns[0]))]))
            else:
                found.append(_assembled(columns, args[at]))
        if not isinstance(grad_position, tuple) or len(found) == 1:
            out = found[0]
        else:  # by result, then by argument, as in `jacrev`
            out = tuple(zip(*found)) if isinstance(found[0], tuple) else tuple(found)
        return (out, *aux) if has_aux else out

    return jacobian


def jacrev(fn: Any, grad_position: Any = 0, has_aux: bool = False) -> Any:
    """Return a function that computes the Jacobian in reverse mode: one gradient for each element of the result.

    Parameters
    ----------
    fn, grad_position, has_aux
        As in `jacfwd`.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.ops.jacrev(lambda x: x * x)(fj.Tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    positions = _positions(grad_position)

    def jacobian(*args: Any) -> Any:
        given = [args[at] for at in positions]

        def of_chosen(*chosen: Any) -> Any:
            filled = list(args)
            for at, x in zip(positions, chosen):
                filled[at] = x
            return fn(*filled)

        out, back, *aux = vjp(of_chosen, *given, has_aux=has_aux)
        outputs = out if isinstance(out, tuple) else (out,)
        rows = []
        for number, one in enumerate(outputs):
            of_one = []
            for unit in _each_unit(one):
                sens = [unit if i == number else _create.zeros_like(other) for i, other in enumerate(outputs)]
                of_one.append(back(*sens))
            rows.append(
                tuple(
                    [
                        _shape.reshape(_shape.stack([row[i] for row in of_one]), (*one.shape, *x.shape))
                        for i, x in enumerate(given)
                    ]
                )
            )
        many = isinstance(grad_position, tuple) and len(given) > 1
        by_output = [row if many else row[0] for row in rows]
        found = tuple(by_output) if isinstance(out, tuple) else by_output[0]
        return (found, *aux) if has_aux else found

    return jacobian
