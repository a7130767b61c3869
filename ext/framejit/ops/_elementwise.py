"""Functions of each element: rows of the operator table under MindSpore's names, and functions that use them."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._core import (
    _array,
    _arrays,
    _op_add,
    _op_cosh,
    _op_divide,
    _op_exp,
    _op_floor,
    _op_less,
    _op_log,
    _op_logical_or,
    _op_maximum,
    _op_minimum,
    _op_multiply,
    _op_negative,
    _op_rint,
    _op_sqrt,
    _op_square,
    _op_subtract,
    _op_tanh,
    _op_trunc,
    _tensor,
)
from framejit.ops._operators import OPERATORS

__all__ = [
    "acosh", "addcdiv", "addcmul", "addn", "allclose", "approximate_equal", "arccosh", "arcsinh", "arctanh", "asinh",
    "atanh", "cast", "ceil", "celu", "clamp", "clip", "clip_by_value", "conj", "deg2rad", "div", "elu", "erfc",
    "fast_gelu", "float_power", "floor", "frac", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "heaviside", "imag", "inv", "isclose", "isreal", "leaky_relu", "lerp", "logaddexp", "logit", "logsigmoid",
    "masked_fill", "mish", "nan_to_num", "prelu", "rad2deg", "real", "relu", "relu6", "rint", "round", "rsqrt",
    "sech", "select", "selu", "sigmoid", "silu", "sinc", "softplus", "softshrink", "softsign", "squared_difference",
    "swish", "tanhshrink", "threshold", "trunc", "where", "xlogy",
]  # fmt: skip

_INTEGRAL = tuple(
    ALL[name] for name in ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)

# The operators of the table by the names that it gives them.
_OPERATORS = {name: operator.compute for operator in OPERATORS for name in operator.functions}
globals().update(_OPERATORS)
__all__ += _OPERATORS


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """input / other; `rounding_mode` 'floor' or 'trunc' rounds the quotient."""
    if rounding_mode is None:
        return _op_divide(input, other)
    if rounding_mode == "floor":
        return _core._op_floor_divide(input, other)
    if rounding_mode == "trunc":
        quotient = _op_trunc(_op_divide(input, other))
        return _tensor(_array(quotient, _arrays(input, other)[0].dtype))
    raise ValueError(f"For 'div', 'rounding_mode' must be None, 'floor' or 'trunc', but got {rounding_mode!r}.")


def _of_floats(name: str, op: Any) -> Any:
    def rounded(input: Any) -> Any:
        if input.dtype in _INTEGRAL:
            return _tensor(_array(input))
        return op(input)

    rounded.__name__ = rounded.__qualname__ = name
    rounded.__doc__ = f"{name} of each element; integers stay as they are."
    return rounded


floor = _of_floats("floor", _op_floor)
ceil = _of_floats("ceil", _core._op_ceil)
trunc = _of_floats("trunc", _op_trunc)
rint = _of_floats("rint", _op_rint)


def round(input: Any, *, decimals: int = 0) -> Any:
    """Each element rounded, halves to even."""
    if decimals == 0:
        return rint(input)
    return _tensor(np.round(_array(input), decimals))


def rsqrt(input: Any) -> Any:
    """1 / sqrt(input)."""
    return _op_divide(1, _op_sqrt(input))


def inv(x: Any) -> Any:
    """1 / x."""
    return _core._op_reciprocal(x)


def frac(x: Any) -> Any:
    """The fractional part, with the sign of x."""
    return _op_subtract(x, trunc(x))


def erfc(input: Any) -> Any:
    """1 - erf(input)."""
    return _op_subtract(1, _core._op_erf(input))


def asinh(input: Any) -> Any:
    """Inverse hyperbolic sine."""
    return _tensor(np.arcsinh(_array(input, "floating")))


def acosh(input: Any) -> Any:
    """Inverse hyperbolic cosine."""
    return _tensor(np.arccosh(_array(input, "floating")))


def atanh(input: Any) -> Any:
    """Inverse hyperbolic tangent."""
    return _tensor(np.arctanh(_array(input, "floating")))


arcsinh, arccosh, arctanh = asinh, acosh, atanh


def deg2rad(x: Any) -> Any:
    """Degrees as radians."""
    return _op_multiply(x, np.pi / 180)


def rad2deg(x: Any) -> Any:
    """Radians as degrees."""
    return _op_multiply(x, 180 / np.pi)


def addn(x: Any) -> Any:
    """The sum of a tuple or list of Tensors."""
    total = x[0]
    for other in x[1:]:
        total = _op_add(total, other)
    return total


def addcmul(input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    """input + value * tensor1 * tensor2."""
    return _op_add(input, _op_multiply(_op_multiply(tensor1, tensor2), value))


def addcdiv(input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    """input + value * tensor1 / tensor2."""
    return _op_add(input, _op_multiply(_op_divide(tensor1, tensor2), value))


def lerp(input: Any, end: Any, weight: Any) -> Any:
    """input + weight * (end - input)."""
    return _op_add(input, _op_multiply(weight, _op_subtract(end, input)))


def logaddexp(input: Any, other: Any) -> Any:
    """log(exp(input) + exp(other))."""
    x, y = _arrays(input, other)
    return _tensor(np.logaddexp(x, y))


def float_power(input: Any, exponent: Any) -> Any:
    """input ** exponent in float64."""
    return _core._op_power(_tensor(_array(input, ALL["float64"])), exponent)


def squared_difference(x: Any, y: Any) -> Any:
    """(x - y) ** 2."""
    return _op_square(_op_subtract(x, y))


def xlogy(input: Any, other: Any) -> Any:
    """input * log(other), 0 where input is 0."""
    x, y = _arrays(input, other)
    return _tensor(np.where(x == 0, np.zeros((), x.dtype), _array(_op_multiply(input, _op_log(other)), x.dtype)))


def heaviside(input: Any, values: Any) -> Any:
    """0 for negative elements, 1 for positive ones, `values` at 0."""
    x, y = _arrays(input, values)
    return _tensor(np.heaviside(x, y).astype(x.dtype))


def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Elements moved into [min, max], in the dtype that the three have in common."""
    if isinstance(input, (tuple, list)):
        return type(input)([clamp(x, min, max) for x in input])
    if min is None and max is None:
        raise ValueError("For 'clamp', at least one of 'min' or 'max' must not be None.")
    if min is not None:
        input = _op_maximum(input, min)
    if max is not None:
        input = _op_minimum(input, max)
    return input


clip = clamp


def clip_by_value(x: Any, clip_value_min: Any = None, clip_value_max: Any = None) -> Any:
    """`clamp`, in the dtype of `x`."""
    if isinstance(x, (tuple, list)):
        return tuple([clip_by_value(one, clip_value_min, clip_value_max) for one in x])
    out = clamp(x, clip_value_min, clip_value_max)
    return out if out.dtype is x.dtype else _tensor(_array(out, x.dtype))


def nan_to_num(input: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    """NaN and infinities replaced by numbers: 0, and the largest and smallest of the dtype."""
    return _tensor(np.nan_to_num(_array(input), nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf))


def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """abs(input - other) <= atol + rtol * abs(other), for each element."""
    x, y = _arrays(input, other)
    return _tensor(np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan))


def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close."""
    x, y = _arrays(input, other)
    return bool(np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan))


def approximate_equal(x: Any, y: Any, tolerance: float = 1e-05) -> Any:
    """abs(x - y) < tolerance."""
    return _op_less(_core._op_absolute(_op_subtract(x, y)), tolerance)


def isreal(input: Any) -> Any:
    """Whether the imaginary part is 0."""
    return _tensor(np.isreal(_array(input)))


def real(input: Any) -> Any:
    """The real part."""
    return _tensor(_array(input).real)


def imag(input: Any) -> Any:
    """The imaginary part."""
    return _tensor(_array(input).imag)


def conj(input: Any) -> Any:
    """The complex conjugate."""
    return _tensor(np.conj(_array(input)))


def cast(input: Any, dtype: Any) -> Any:
    """The elements converted to `dtype`."""
    return _tensor(_array(input, dtype))


def where(condition: Any, input: Any, other: Any) -> Any:
    """Elements of `input` where `condition` holds, else of `other`."""
    x, y = _arrays(input, other)
    return _tensor(np.where(_array(condition, ALL["bool_"]), x, y))


select = where


def masked_fill(input_x: Any, mask: Any, value: Any) -> Any:
    """`value` where `mask` holds, else the element."""
    x = _array(input_x)
    return _tensor(np.where(_array(mask), _array(value, input_x.dtype), x))


# --- Activations --------------------------------------------------------------------------------------------------------


def sigmoid(input: Any) -> Any:
    """1 / (1 + exp(-input))."""
    return _op_divide(1, _op_add(1, _op_exp(_op_negative(input))))


def relu(input: Any, inplace: bool = False) -> Any:
    """max(input, 0); `inplace` writes it into the input."""
    out = _op_maximum(0, input)  # in this order its gradient at 0 is 0
    if not inplace:
        return out
    input[...] = out
    return input


def relu6(x: Any) -> Any:
    """min(max(x, 0), 6)."""
    return _op_minimum(6, _op_maximum(0, x))


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """Elements moved into [min_val, max_val]."""
    return clip_by_value(input, min_val, max_val)


def leaky_relu(input: Any, alpha: float = 0.2) -> Any:
    """input where positive, else alpha * input."""
    return where(_op_less(input, 0), _op_multiply(input, alpha), input)


def prelu(input: Any, weight: Any) -> Any:
    """`leaky_relu` with a weight for each channel."""
    if input.ndim > 1 and weight.size > 1:
        weight = _tensor(_array(weight).reshape((-1,) + (1,) * (input.ndim - 2)))
    return where(_op_less(input, 0), _op_multiply(input, weight), input)


def elu(input_x: Any, alpha: float = 1.0) -> Any:
    """input where positive, else alpha * (exp(input) - 1)."""
    return where(_op_less(input_x, 0), _op_multiply(_core._op_expm1(_op_minimum(input_x, 0)), alpha), input_x)


def celu(x: Any, alpha: float = 1.0) -> Any:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return _op_add(
        _op_maximum(x, 0), _op_minimum(_op_multiply(_core._op_expm1(_op_divide(_op_minimum(x, 0), alpha)), alpha), 0)
    )


def selu(input_x: Any) -> Any:
    """Scaled `elu`."""
    return _op_multiply(elu(input_x, 1.6732632423543772), 1.0507009873554805)


def gelu(input: Any, approximate: str = "none") -> Any:
    """x * normal distribution function of x; 'tanh' approximates it."""
    if approximate == "tanh":
        inner = _op_multiply(_op_add(input, _op_multiply(_core._op_power(input, 3), 0.044715)), 0.7978845608028654)
        return _op_multiply(_op_multiply(input, 0.5), _op_add(_op_tanh(inner), 1))
    if approximate != "none":
        raise ValueError(f"For 'gelu', 'approximate' must be 'none' or 'tanh', but got {approximate!r}.")
    return _op_multiply(_op_multiply(input, 0.5), _op_add(_core._op_erf(_op_divide(input, 1.4142135623730951)), 1))


def fast_gelu(x: Any) -> Any:
    """x / (1 + exp(-1.702 * abs(x))) * exp(0.851 * (x - abs(x)))."""
    size = _core._op_absolute(x)
    low = _op_exp(_op_multiply(_op_subtract(x, size), 0.851))
    return _op_multiply(_op_divide(x, _op_add(_op_exp(_op_multiply(size, -1.702)), 1)), low)


def silu(input: Any) -> Any:
    """input * sigmoid(input)."""
    return _op_multiply(input, sigmoid(input))


swish = silu


def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Any:
    """log(1 + exp(beta * input)) / beta, input itself above the threshold."""
    scaled = _op_multiply(input, beta)
    soft = _op_divide(_core._op_log1p(_op_exp(_op_minimum(scaled, threshold))), beta)
    return where(_op_less(threshold, scaled), input, soft)


def softsign(x: Any) -> Any:
    """x / (1 + abs(x))."""
    return _op_divide(x, _op_add(_core._op_absolute(x), 1))


def mish(x: Any) -> Any:
    """x * tanh(softplus(x))."""
    return _op_multiply(x, _op_tanh(softplus(x)))


def logsigmoid(x: Any) -> Any:
    """log(sigmoid(x))."""
    return _op_negative(softplus(_op_negative(x)))


def hardsigmoid(input: Any) -> Any:
    """min(max(input + 3, 0), 6) / 6, of integers truncated."""
    return _like_integers(_op_divide(relu6(_op_add(input, 3)), 6), input)


def hardswish(input: Any) -> Any:
    """input * hardsigmoid(input), of integers truncated."""
    return _like_integers(_op_divide(_op_multiply(input, relu6(_op_add(input, 3))), 6), input)


def _like_integers(out: Any, input: Any) -> Any:
    """The result in the dtype of the input, if that is of integers."""
    return _tensor(_array(out, input.dtype)) if input.dtype in _INTEGRAL else out


def tanhshrink(input: Any) -> Any:
    """input - tanh(input)."""
    return _op_subtract(input, _op_tanh(input))


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """0 within [-lambd, lambd], else x."""
    return where(_op_logical_or(_op_less(input, -lambd), _op_less(lambd, input)), input, _op_multiply(input, 0))


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """0 within [-lambd, lambd], else input moved towards 0 by lambd."""
    return _op_add(_op_maximum(_op_subtract(input, lambd), 0), _op_minimum(_op_add(input, lambd), 0))


def threshold(input: Any, thr: float, value: float) -> Any:
    """input where above `thr`, else `value`."""
    return where(_op_less(thr, input), input, value)


def logit(input: Any, eps: float | None = None) -> Any:
    """log(input / (1 - input))."""
    if eps is not None:
        input = clamp(input, eps, 1 - eps)
    return _op_log(_op_divide(input, _op_subtract(1, input)))


def sinc(input: Any) -> Any:
    """sin(pi x) / (pi x), 1 at 0."""
    return _tensor(np.sinc(_array(input, "floating")))


def sech(x: Any) -> Any:
    """1 / cosh(x)."""
    return _op_divide(1, _op_cosh(x))
