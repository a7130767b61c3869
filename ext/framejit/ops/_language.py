"""What programs for MindSpore ask about Python's values, and how they define primitives of their own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._autodiff._grad import jvp, vjp
from framejit.ops import _create, _primitive_forms, _shape
from framejit.ops._primitives import Primitive

Tensor = _core.Tensor

__all__ = [
    "PrimitiveWithCheck", "PrimitiveWithInfer", "constexpr", "derivative", "isconstant", "jacfwd", "jacrev", "jet", "linearize",
    "list_len", "make_range", "prim_arg_register", "prim_attr_register", "scalar_cast", "tail", "tuple_div", "tuple_len", "tuple_reversed",
    "tuple_to_array", "typeof",
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


def typeof(*args: Any) -> Any:
    """The type of a value; of a Tensor its dtype."""
    if len(args) != 1:
        raise RuntimeError(f"The Typeof operator must requires 1 argument, but the size of arguments is {len(args)}.")
    return args[0].dtype if isinstance(args[0], Tensor) else type(args[0])


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
    TypeError
        If an argument is no tuple.
    RuntimeError
        If their lengths differ, an item is no int, or one does not divide the other.
    """
    for i, one in enumerate((x, y)):
        if not isinstance(one, tuple):
            raise TypeError(f"For 'tuple_div', input[{i}] should be Tuple, but got {type(one).__name__}.")
    if len(x) != len(y):
        raise RuntimeError(
            f"The size of inputs of 'tuple_div' operator must be the same, but the size of divisor tuple is {len(y)}, the size of "
            f"dividend tuple is {len(x)}."
        )
    for pair in zip(x, y):
        for one in pair:
            if not isinstance(one, int) or isinstance(one, bool):
                raise RuntimeError(
                    f"The data type of inputs of 'tuple_div' operator should be an int64 number, but got a {type(one).__name__} "
                    f"{one}."
                )
        if pair[1] == 0:
            raise RuntimeError("The divisor value should not be 0!")
        if pair[0] % pair[1]:
            raise RuntimeError(
                "The inputs of 'tuple_div' operator should be divisible, but they are not divisible now, the dividend is "
                f"{pair[0]}, the divisor is {pair[1]}."
            )
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


def _registered(fn: Callable[..., Any], are_attributes: bool) -> Callable[..., Any]:
    """The ``__init__`` of a `Primitive` whose arguments become attributes of the object."""

    @functools.wraps(fn)
    def register(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(getattr(self, "name", None), str):
            Primitive.__init__(self)
        bound = inspect.signature(fn).bind(self, *args, **kwargs)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            if are_attributes:
                self.init_attrs[name] = value
                self.add_prim_attr(name, value)
            setattr(self, name, value)
        return fn(self, *args, **kwargs)

    return register


def prim_attr_register(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the ``__init__`` of a `Primitive`: its arguments become attributes, which `Primitive.attrs` has.

    Parameters
    ----------
    fn : callable
        The method.
    """
    return _registered(fn, True)


def prim_arg_register(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the ``__init__`` of a `Primitive`: its arguments become attributes of the object alone.

    Parameters
    ----------
    fn : callable
        The method.
    """
    return _registered(fn, False)


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


# --- Derivatives of higher order ----------------------------------------------------------------------------------------------


def _as_floats(name: str, x: Any) -> Any:
    kinds = ("int32", "int64", "float32", "float64")
    if not isinstance(x, Tensor) or x.dtype not in [ALL[kind] for kind in kinds]:
        given = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"For '{name}', the 'primals' must be Tensors of {', '.join(kinds)}, but got {given}.")
    return x.astype(ALL["float32"]) if x.dtype in (ALL["int32"], ALL["int64"]) else x


def _along(x: Any, series: Any, t: Any) -> Any:
    """x + series[0] * t + series[1] * t**2 / 2! + ..."""
    moved = series[len(series) - 1]
    for k in range(len(series) - 1, 0, -1):
        moved = series[k - 1] + moved * (t / (k + 1))
    return x + moved * t


def _all_derivatives(fn: Any, primals: tuple[Any, ...], series: tuple[Any, ...], order: int) -> list[Any]:
    """What `fn` gives along a path, and its first `order` derivatives at the start."""

    def path(t: Any) -> Any:
        return fn(*[_along(x, one, t) for x, one in zip(primals, series)])

    def derived(f: Any) -> Any:
        return lambda t: jvp(f, t, _create.ones_like(t))[1]

    start = _create.zeros((), primals[0].dtype)
    functions = [path]
    for _ in range(order):
        functions.append(derived(functions[-1]))
    return [f(start) for f in functions]


def jet(fn: Any, primals: Any, series: Any) -> tuple[Any, Any]:
    """Return what a function gives, and its derivatives along a path, of which the derivatives are given.

    Parameters
    ----------
    fn : callable or Cell
        A function of Tensors, which returns a Tensor or a tuple of Tensors.
    primals : Tensor or tuple of Tensor
        Where the path starts.
    series : Tensor or tuple of Tensor
        For each of them the first, second, ... derivatives of the path, along a first dimension.

    Returns
    -------
    tuple
        (the results, their derivatives along a first dimension); for a tuple of results, lists of these.

    Examples
    --------
    >>> import framejit as fj
    >>> x, series = fj.Tensor([2.0]), fj.Tensor([[1.0], [0.0]])
    >>> out, derivatives = fj.ops.jet(lambda x: x * x * x, x, series)
    >>> out.tolist(), derivatives.tolist()
    ([8.0], [[12.0], [12.0]])
    """
    many = isinstance(primals, (tuple, list))
    given, paths = (tuple(primals), tuple(series)) if many else ((primals,), (series,))
    if len(given) != len(paths) or any(len(x.shape) + 1 != len(s.shape) for x, s in zip(given, paths)):
        raise ValueError("For 'jet', the 'series' must have one more dimension than the 'primals', for each of them.")
    given = tuple([_as_floats("jet", x) for x in given])
    out, *derivatives = _all_derivatives(fn, given, tuple([_as_floats("jet", s) for s in paths]), paths[0].shape[0])
    if isinstance(out, tuple):
        return list(out), [_shape.stack(of_one) for of_one in zip(*derivatives)]
    return out, _shape.stack(derivatives)


def derivative(fn: Any, primals: Any, order: int) -> tuple[Any, Any]:
    """Return what a function gives, and its derivative of an order, where all elements of the arguments change alike.

    Parameters
    ----------
    fn, primals
        As in `jet`.
    order : int
        Which derivative.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.ops.derivative(lambda x: x * x * x, fj.Tensor([2.0]), 2)[1].tolist()
    [12.0]
    """
    if not isinstance(order, int) or isinstance(order, bool):
        raise TypeError(f"For 'derivative', the 'order' must be int, but got {type(order).__name__}.")
    if order < 1:
        raise ValueError(f"For 'derivative', the 'order' must not be less than 1, but got {order}.")
    given = tuple(primals) if isinstance(primals, (tuple, list)) else (primals,)
    given = tuple([_as_floats("derivative", x) for x in given])
    paths = tuple([_shape.expand_dims(_create.ones_like(x), 0) for x in given])
    found = _all_derivatives(fn, given, paths, order)
    out, last = found[0], found[-1]
    return (list(out), list(last)) if isinstance(out, tuple) else (out, last)


def linearize(fn: Any, inputs: Any) -> tuple[Any, Callable[..., Any]]:
    """Return what a function gives, and the function of a direction that gives the derivative in it.

    Parameters
    ----------
    fn : callable or Cell
        A function of Tensors.
    inputs : Tensor or tuple of Tensor
        Its arguments.

    Examples
    --------
    >>> import framejit as fj
    >>> out, of_direction = fj.ops.linearize(lambda x: x * x, fj.Tensor([3.0]))
    >>> out.tolist(), of_direction(fj.Tensor([1.0])).tolist()
    ([9.0], [6.0])
    """
    if not isinstance(inputs, (Tensor, tuple, list)):
        raise TypeError(
            f"For 'linearize', the 'inputs' must be a Tensor, or a tuple or list of Tensors, but got {type(inputs).__name__}."
        )
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)

    def of_direction(*directions: Any) -> Any:
        given_v = directions[0] if len(directions) == 1 else directions
        return jvp(fn, given, given_v)[1]

    return fn(*given), of_direction
