"""Checks of arguments, under the names that cells and programs for MindSpore import from ``mindspore._checkparam``.

Each returns the value that it was given, or raises TypeError for another type and ValueError for another value. ``arg_name`` and
``prim_name`` are for the message: what is wrong, and in which operator.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from framejit._api import _dtypes

EQ, NE, LT, LE, GT, GE, INC_NEITHER, INC_LEFT, INC_RIGHT, INC_BOTH, IN, NOT_IN = range(1, 13)

_RELATIONS = {
    EQ: ("= {}", operator.eq),
    NE: ("!= {}", operator.ne),
    LT: ("< {}", operator.lt),
    LE: ("<= {}", operator.le),
    GT: ("> {}", operator.gt),
    GE: (">= {}", operator.ge),
}
# How a range is shown, and what is outside of it at either end: NaN is not.
_RANGES = {
    INC_NEITHER: ("({}, {})", operator.le, operator.ge),
    INC_LEFT: ("[{}, {})", operator.lt, operator.ge),
    INC_RIGHT: ("({}, {}]", operator.le, operator.gt),
    INC_BOTH: ("[{}, {}]", operator.lt, operator.gt),
}
_HARDWARE = (
    "The supported data types depend on the hardware that executes the operator, for more details, please refer to the MindSpore official "
    "website to get more information about the data type."
)


def _where(prim_name: str | None, text: str) -> str:
    """The message, which begins with the operator if that is known."""
    return f"For '{prim_name}', the {text}" if prim_name else f"The {text}"


def _what(arg_name: str | None) -> str:
    return f"'{arg_name}'" if arg_name else "input value"


# --- Numbers


def _check_number(arg_value: Any, value: Any, rel: int, arg_type: Any, arg_name: Any, prim_name: Any) -> Any:
    name = _what(arg_name)
    relation, holds = _RELATIONS[rel]
    if not isinstance(arg_value, arg_type):
        raise TypeError(_where(prim_name, f"{name} must be {arg_type.__name__}, but got '{type(arg_value).__name__}'"))
    if isinstance(arg_value, bool) and arg_type is not bool:
        text = f"{name} must be {arg_type.__name__} and must {relation.format(value)}, but got '{arg_value}' with type 'bool'."
        raise TypeError(_where(prim_name, text))
    if isinstance(arg_value, float) and not math.isfinite(arg_value):
        raise ValueError(_where(prim_name, f"{name} must be a legal value, but got '{arg_value}'."))
    if not holds(arg_value, value):
        text = f"{name} must be {arg_type.__name__} and must {relation.format(value)}, but got '{arg_value}' with type '{type(arg_value).__name__}'."
        raise ValueError(_where(prim_name, text))
    return arg_value


def check_is_number(arg_value: Any, arg_type: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """A number of a type, or of one of several; a bool only where the type is bool."""
    types = arg_type if isinstance(arg_type, tuple) else (arg_type,)
    if not isinstance(arg_value, types) or (isinstance(arg_value, bool) and bool not in types):
        wanted = ", ".join(each.__name__ for each in types)
        text = f"type of {_what(arg_name)} must be '{wanted}', but got '{type(arg_value).__name__}'."
        raise TypeError(_where(prim_name, text))
    if isinstance(arg_value, float) and not math.isfinite(arg_value):
        raise ValueError(_where(prim_name, f"{_what(arg_name)} must be a legal float, but got '{arg_value}'."))
    return arg_value


def check_number_range(
    arg_value: Any,
    lower_limit: Any,
    upper_limit: Any,
    rel: int,
    value_type: type,
    arg_name: str | None = None,
    prim_name: str | None = None,
) -> Any:
    """A number between two others; ``rel`` says which of them belong to the range."""
    name = _what(arg_name)
    is_number = isinstance(arg_value, (np.ndarray, np.generic, value_type))
    if not is_number or (isinstance(arg_value, bool) and value_type is not bool):
        text = f"{name} must be '{value_type.__name__}',  but got '{type(arg_value).__name__}'."
        raise TypeError(_where(prim_name, text))
    shown, below, above = _RANGES[rel]
    if below(arg_value, lower_limit) or above(arg_value, upper_limit):
        inside = shown.format(lower_limit, upper_limit)
        text = f"{name} must be in range of {inside}, but got {arg_value} with type '{type(arg_value).__name__}'."
        raise ValueError(_where(prim_name, text))
    return arg_value


def check(
    arg_name: str,
    arg_value: Any,
    value_name: str,
    value: Any,
    rel: int = EQ,
    prim_name: str | None = None,
    excp_cls: type[Exception] = ValueError,
) -> Any:
    """Check that a value has a relation to another one."""
    relation, holds = _RELATIONS[rel]
    if not holds(arg_value, value):
        text = f"'{arg_name}' should be {relation.format(f'{value_name}: {value}')}, but got {arg_value}."
        raise excp_cls(_where(prim_name, text))
    return arg_value


def check_int(arg_value: Any, value: Any, rel: int, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """Check that an int has a relation to another number."""
    return _check_number(arg_value, value, rel, int, arg_name, prim_name)


def check_is_int(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """An int."""
    return check_is_number(arg_value, int, arg_name, prim_name)


def check_equal_int(arg_value: Any, value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """The int `value`."""
    return check_int(arg_value, value, EQ, arg_name, prim_name)


def check_positive_int(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """An int above 0."""
    return check_int(arg_value, 0, GT, arg_name, prim_name)


def check_negative_int(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """An int below 0."""
    return check_int(arg_value, 0, LT, arg_name, prim_name)


def check_non_positive_int(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """An int of at most 0."""
    return check_int(arg_value, 0, LE, arg_name, prim_name)


def check_non_negative_int(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """An int of at least 0."""
    return check_int(arg_value, 0, GE, arg_name, prim_name)


def check_float(arg_value: Any, value: Any, rel: int, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """Check that a finite float has a relation to another number."""
    return _check_number(arg_value, value, rel, float, arg_name, prim_name)


def check_is_float(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """A finite float."""
    return check_is_number(arg_value, float, arg_name, prim_name)


def check_positive_float(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """A float above 0."""
    return check_float(arg_value, 0, GT, arg_name, prim_name)


def check_negative_float(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """A float below 0."""
    return check_float(arg_value, 0, LT, arg_name, prim_name)


def check_non_positive_float(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """A float of at most 0."""
    return check_float(arg_value, 0, LE, arg_name, prim_name)


def check_non_negative_float(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """A float of at least 0."""
    return check_float(arg_value, 0, GE, arg_name, prim_name)


def check_number(arg_name: str, arg_value: Any, value: Any, rel: int, prim_name: str) -> Any:
    """Check that a number of any type has a relation to another one."""
    relation, holds = _RELATIONS[rel]
    if not holds(arg_value, value):
        raise ValueError(
            _where(prim_name, f"argument '{arg_name}' must {relation.format(value)}, but got {arg_value}.")
        )
    return arg_value


def check_int_range(
    arg_value: Any,
    lower_limit: Any,
    upper_limit: Any,
    rel: int,
    arg_name: str | None = None,
    prim_name: str | None = None,
) -> Any:
    """An int between two numbers."""
    return check_number_range(arg_value, lower_limit, upper_limit, rel, int, arg_name, prim_name)


def check_float_range(
    arg_value: Any,
    lower_limit: Any,
    upper_limit: Any,
    rel: int,
    arg_name: str | None = None,
    prim_name: str | None = None,
) -> Any:
    """A float between two numbers."""
    return check_number_range(arg_value, lower_limit, upper_limit, rel, float, arg_name, prim_name)


def check_bool(arg_value: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """True or False."""
    if not isinstance(arg_value, bool):
        text = f"{_what(arg_name)} must be a bool, but got {type(arg_value).__name__}."
        raise TypeError(_where(prim_name, text))
    return arg_value


def _check_each(check_one: Callable[..., Any], sequence: Any, arg_name: Any, prim_name: Any) -> Any:
    for at, item in enumerate(sequence):
        check_one(item, f"{arg_name or 'input value'}[{at}]", prim_name)
    return sequence


def check_positive_int_sequence(sequence: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """Ints above 0."""
    return _check_each(check_positive_int, sequence, arg_name, prim_name)


def check_non_negative_int_sequence(sequence: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """Ints of at least 0."""
    return _check_each(check_non_negative_int, sequence, arg_name, prim_name)


def check_positive_float_sequence(sequence: Any, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """Floats above 0."""
    return _check_each(check_positive_float, sequence, arg_name, prim_name)


# --- Strings


def check_string(
    arg_value: Any, valid_values: Iterable[str], arg_name: str | None = None, prim_name: str | None = None
) -> Any:
    """One of some strings."""
    if isinstance(arg_value, str) and arg_value in valid_values:
        return arg_value
    text = f"'{arg_name or 'parameter'}' must be str and must be in '{valid_values}', but got '{arg_value}'."
    raise ValueError(_where(prim_name, text))


def _check_matches(target: str, pattern: str, flags: Any, said: str, prim_name: str | None) -> bool:
    if re.match(pattern, target, flags) is None:
        raise ValueError(_where(prim_name, f"'{target}' is illegal, it must be match regular{said}"))
    return True


def check_str_by_regular(
    target: str, reg: str | None = None, flag: Any = re.ASCII, prim_name: str | None = None
) -> bool:
    """A string that matches a regular expression, by default that of names."""
    reg = r"^\w+[0-9a-zA-Z\_\.]*$" if reg is None else reg
    return _check_matches(target, reg, flag, f"'{reg}' by flags'{flag!r}.'", prim_name)


def check_str_and_none_by_regular(
    target: str, reg: str | None = None, flag: Any = re.ASCII, prim_name: str | None = None
) -> bool:
    """The same; the empty string is a name too."""
    return check_str_by_regular(target, r"^\w*[0-9a-zA-Z\_\.\-]*$" if reg is None else reg, flag, prim_name)


def check_file_name_by_regular(target: str, reg: str | None = None, prim_name: str | None = None) -> bool:
    """A path of letters, digits and the usual signs."""
    if not isinstance(target, str):
        raise TypeError(_where(prim_name, f"'{target}' must be string, but got {type(target)}."))
    reg = r"^[0-9a-zA-Z@\_\-\.\:\/\\]+$" if reg is None else reg
    return _check_matches(target, reg, 0, f" '{reg}'.", prim_name)


# --- Types


def check_isinstance(arg_name: str, arg_value: Any, classes: Any) -> Any:
    """An object of one of some classes."""
    if not isinstance(arg_value, classes):
        raise ValueError(f"The parameter '{arg_name}' must be isinstance of {classes}, but got {arg_value}.")
    return arg_value


def _names(types: Iterable[Any]) -> list[str]:
    return [getattr(each, "__name__", str(each)) for each in types]


def check_value_type(arg_name: str, arg_value: Any, valid_types: Any, prim_name: str | None = None) -> Any:
    """An object of one of some classes; a bool only where bool is one of them."""
    types = tuple(valid_types) if isinstance(valid_types, Iterable) else (valid_types,)
    if isinstance(arg_value, types) and not (isinstance(arg_value, bool) and bool not in types):
        return arg_value
    wanted = f"'{_names(types)[0]}'" if len(types) == 1 else f"one of '{_names(types)}'"
    text = f"type of '{arg_name}' should be {wanted}, but got type '{type(arg_value).__name__}'."
    raise TypeError(_where(prim_name, text))


def check_valid_input(arg_name: str, arg_value: Any, prim_name: str) -> Any:
    """Anything but None."""
    if arg_value is None:
        raise ValueError(_where(prim_name, f"argument '{arg_name}'can not be None, but got None."))
    return arg_value


def check_element_type_of_iterable(
    arg_name: str, arg_value: Any, valid_types: Any, prim_name: str | None = None
) -> None:
    """A list or tuple whose items are of some classes."""
    check_value_type(arg_name, arg_value, [list, tuple], prim_name)
    _check_items(arg_name, arg_value, valid_types, prim_name)


def check_element_type_of_dict(
    arg_name: str, arg_value: Any, key_types: Any, value_types: Any, prim_name: str | None = None
) -> None:
    """A dict whose keys and values are of some classes."""
    check_value_type(arg_name, arg_value, [dict], prim_name)
    _check_items(arg_name, arg_value, key_types, prim_name)
    _check_items(arg_name, arg_value.values(), value_types, prim_name)


def check_size_and_element_type_of_tuple(
    arg_name: str, arg_value: Any, expect_size: int, expect_element_type: Any, prim_name: str | None = None
) -> None:
    """A tuple of a length, with items of a class."""
    check_value_type(arg_name, arg_value, [tuple], prim_name)
    check_equal_int(len(arg_value), expect_size, arg_name + " size", prim_name)
    check_element_type_of_iterable(arg_name, arg_value, [expect_element_type], prim_name)


def _check_items(arg_name: str, items: Iterable[Any], valid_types: Any, prim_name: str | None) -> None:
    types = tuple(valid_types)
    for item in items:
        if not isinstance(item, types):
            wanted = _names(types)[0] if len(types) == 1 else f"one of {_names(types)}"
            text = f"type of '{arg_name}' should be {wanted}, but got '{item}' with type '{type(item).__name__}'."
            raise TypeError(_where(prim_name, text))


def check_hook_fn(hook_fn: Any) -> None:
    """Check that an object can be called as a hook."""
    if not callable(hook_fn):
        raise TypeError(f"Expected a callable hook function, but got {type(hook_fn).__name__}.")


def args_type_check(*type_args: Any, **type_kwargs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function whose arguments must be None or of the classes that are given here.

    Examples
    --------
    >>> from framejit._mindspore._checkparam import args_type_check
    >>> @args_type_check(n=int)
    ... def double(n):
    ...     return 2 * n
    >>> double(2)
    4
    >>> double("a")
    Traceback (most recent call last):
        ...
    TypeError: The parameter 'n' must be <class 'int'>, but got <class 'str'>
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(func)
        wanted = signature.bind_partial(*type_args, **type_kwargs).arguments

        @functools.wraps(func)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                if name in wanted and value is not None and not isinstance(value, wanted[name]):
                    raise TypeError(f"The parameter '{name}' must be {wanted[name]}, but got {type(value)}")
            return func(*args, **kwargs)

        return checked

    return decorate


# --- Dtypes


def check_subclass(
    arg_name: str, type_: Any, template_types: Any, prim_name: str, addition_error_info: str | None = None
) -> None:
    """One of some dtypes."""
    types = tuple(template_types) if isinstance(template_types, Iterable) else (template_types,)
    if any(type_ is each or (isinstance(type_, type(each)) and type_ == each) for each in types):
        return
    wanted = f"one of {', '.join(map(str, types))}" if len(types) > 1 else str(types[0])
    more = "" if addition_error_info is None else f" {addition_error_info}"
    raise TypeError(_where(prim_name, f"element of '{arg_name}' must be {wanted}, but got {type_}{more}.{_HARDWARE}"))


def check_type_name(arg_name: str, arg_type: Any, valid_types: Any, prim_name: str | None) -> Any:
    """One of some types or dtypes."""
    types = list(valid_types) if isinstance(valid_types, Iterable) else [valid_types]
    if any(arg_type is each or (isinstance(arg_type, type(each)) and arg_type == each) for each in types):
        return arg_type
    wanted = str(types[0]) if len(types) == 1 else f"one of {types}"
    got = arg_type.__name__ if isinstance(arg_type, type) else repr(arg_type)
    raise TypeError(_where(prim_name, f"'{arg_name}' should be {wanted}, but got '{got}'."))


def check_types_same_and_valid(args: dict[str, Any], valid_values: Iterable[Any], prim_name: str) -> None:
    """Dtypes by name: one and the same, and one of some."""
    first = next(iter(args.values()))
    for name, dtype in args.items():
        check_subclass(name, dtype, valid_values, prim_name)
        if dtype != first:
            text = f"type of '{name}' should be same as '{next(iter(args))}', but got '{name}': {dtype}, '{next(iter(args))}': {first}."
            raise TypeError(_where(prim_name, text))


def check_astype_dtype(dtype: Any) -> Any:
    """The dtype that an argument of `Tensor.astype` names."""
    try:
        return _dtypes.from_numpy(_dtypes.numpy_dtype(dtype))
    except TypeError:
        known = ", ".join(str(each) for each in _dtypes.ALL.values())
        raise TypeError(f"For Tensor.astype, the input type must be one of ({known}), but got {dtype!r}.") from None


def check_type_support(dtype: Any, device: str, supported_dtypes: Iterable[Any]) -> bool:
    """Is a dtype one of those that a device has?"""
    return dtype in supported_dtypes


# --- Shapes and axes


def check_axis_in_range(axis: Any, ndim: int) -> int:
    """An axis of an array of `ndim` axes, counted from the front."""
    if not isinstance(axis, int):
        raise TypeError(f"The axes must be integers, but got {type(axis)}")
    if not -ndim <= axis < ndim:
        raise ValueError(f"The 'axis' must be in the range of [{-ndim}, {ndim}), but got {axis}.")
    return axis % ndim


def _without_duplicates(axes: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(axes)) != len(axes):
        raise ValueError(f"The element of parameter 'axis' can not be duplicate, but got {axes}.")
    return axes


def check_axis_valid(axes: Any, ndim: int) -> tuple[int, ...]:
    """The axes that an argument names: all for None, one, or a list or tuple of them."""
    if axes is None:
        return tuple(range(ndim))
    many = axes if isinstance(axes, (tuple, list)) else (axes,)
    return _without_duplicates(tuple([check_axis_in_range(axis, ndim) for axis in many]))


def check_and_canonicalize_axes(axes: Any, ndim: int) -> tuple[int, ...]:
    """One axis or a tuple of them, counted from the front."""
    many = axes if isinstance(axes, tuple) else (axes,)
    for axis in many:
        if not isinstance(axis, int):
            raise TypeError(f"Each axis should be integer, but got {type(axis)} in {many}.")
    return _without_duplicates(tuple([check_axis_in_range(axis, ndim) for axis in many]))


def check_swapaxes_axis(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """The axes to be swapped."""
    for axis in axes:
        if not isinstance(axis, int):
            raise TypeError(f"For ops.swapaxes, the axis argument must be integer, but got {type(axis)}.")
    return tuple([check_axis_in_range(axis, ndim) for axis in axes])


def check_transpose_axis(axes: tuple[Any, ...], ndim: int) -> tuple[int, ...]:
    """The order of axes that the arguments of `Tensor.transpose` name."""
    if not axes or (len(axes) == 1 and axes[0] is None):
        return tuple(range(ndim - 1, -1, -1))
    given = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    if not isinstance(given[0], int):
        raise TypeError(
            f"For Tensor.transpose, the parameter 'axes' must be a tuple/list, or series of integer, but got {type(given[0])}"
        )
    if len(given) != ndim:
        raise ValueError(
            "For Tensor.transpose, the number of axes must be equal to the dimension of Tensor, but got "
            f"{len(given)} in the number of axes."
        )
    return tuple(given)


def check_reshape_shp(shp: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape that the arguments of `Tensor.reshape` name."""
    if len(shp) == 1 and isinstance(shp[0], (tuple, list)):
        return tuple(shp[0])
    if len(shp) == 1 and not isinstance(shp[0], int):
        raise TypeError(
            "For Tensor.reshape, the parameter 'shape' must be an integer, or tuple/list, or series of integer, but got "
            f"{type(shp[0])}"
        )
    return shp


def check_flatten_order(order: Any) -> None:
    """``'C'`` or ``'F'``."""
    if not isinstance(order, str):
        raise TypeError(f"For Tensor.flatten, the parameter 'order' must be a string, but got {type(order)}")
    if order not in ("C", "F"):
        raise ValueError(f"For Tensor.flatten, the parameter 'order' must be 'C' or 'F', but got '{order}'")


def prepare_shape_for_squeeze(shape: tuple[int, ...], axes: Any) -> tuple[int, ...]:
    """The shape without some axes of length 1."""
    if not isinstance(axes, (int, tuple, list)):
        raise TypeError(
            f"For Tensor.squeeze, the parameter 'axes' must be one of [int, tuple, list], but got {type(axes)}"
        )
    many = (axes,) if isinstance(axes, int) else tuple(axes)
    dropped = set()
    for axis in many:
        if not -len(shape) <= axis < len(shape):
            raise ValueError(
                f"For Tensor.squeeze, the 'axis' must be in the range of [{-len(shape)}, {len(shape)}), but got {axis}."
            )
        if shape[axis] != 1:
            raise ValueError(
                f"For Tensor.squeeze, the shape of parameter 'axis' {many} must be 1, but got {shape[axis]}."
            )
        dropped.add(axis % len(shape))
    return tuple([length for axis, length in enumerate(shape) if axis not in dropped])


def infer_out_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of some shapes are broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            "For Tensor, the dimension on each axis must be 1 or the max value on the axisto support broadcasting, but got shapes "
            f"{(shapes,)}"
        ) from None


def expanded_shape(ndim: int, axis_size: int, axis: int) -> tuple[int, ...]:
    """Check that all lengths of a shape are 1, except that of one axis."""
    return tuple([axis_size if at == axis else 1 for at in range(ndim)])


def tuple_slice(tup: tuple[Any, ...], start: int | None, end: int | None) -> tuple[Any, ...]:
    """Some items of a tuple."""
    return tup[start:end]


def check_input_format(input_param: str) -> str:
    """``'NCHW'``."""
    if input_param != "NCHW":
        raise ValueError(f"The data format must be NCHW, but got {input_param}.")
    return input_param


def check_pad_value_by_mode(pad_mode: str, padding: int, prim_name: str) -> int:
    """A padding; 0 unless the mode is ``'pad'``."""
    if pad_mode != "pad" and padding != 0:
        raise ValueError(f"For '{prim_name}', padding must be zero when pad_mode is '{pad_mode}', but got {padding}.")
    return padding


def max_(*args: Any) -> Any:
    """The largest one."""
    return max(*args)


def min_(*args: Any) -> Any:
    """The smallest one."""
    return min(*args)


def is_stub_tensor(tensor: Any) -> bool:
    """False: the elements of a Tensor are there when it is."""
    return False


# --- One length for each axis


def _repeated(count: int, kinds: Any, title: str, shown: str) -> Callable[[Any], tuple[int, ...]]:
    def expand(value: Any) -> tuple[int, ...]:
        if isinstance(value, int):
            return (value,) * count
        if not isinstance(value, kinds):
            raise TypeError(
                f"When expanding an {shown} to tuple, input type must be integer or {title}, but got {type(value)}"
            )
        many, plural = ("an int number", "tuple") if kinds is tuple else ("an sequence", "sequence")
        if len(value) != count:
            raise TypeError(
                f"When expanding {many} to tuple, input {plural} dimension must be {count}, but got {value}"
            )
        for item in value:
            if not isinstance(item, int):
                raise TypeError(
                    f"When expanding {many} to tuple, the type of element in input {plural} must be an integer, but got {type(item)}."
                )
        return tuple(value)

    return expand


once, twice, triple = (_repeated(count, tuple, "tuple[int]", "int number") for count in (1, 2, 3))
once_sequence, twice_sequence, triple_sequence = (
    _repeated(count, (tuple, list), "tuple[int]/list[int]", "input") for count in (1, 2, 3)
)
