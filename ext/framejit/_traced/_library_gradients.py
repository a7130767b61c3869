"""Gradients of library calls: of NumPy's functions that are steps of a plan.

A rule is given the call's arguments, with an `Operand` for each that is known at run time only, and says what the cotangent of one of
them is: a `Call` of other pure functions, which are library calls in their turn. So where the functions that a rule calls have rules, it can be
differentiated again. Of complex results rules are those of analytic functions, linear in `G` (graph/passes/grad.cpp).
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from framejit._traced._library_functions import in_place, with_items


class Operand:
    """An argument that is known at run time: by its number, the result (`Y`) or its cotangent (`G`)."""

    def __init__(self, number: int) -> None:
        self.number = number


class Call:
    """A call of a pure function."""

    def __init__(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> None:
        self.function, self.args, self.keywords = function, args, keywords


G, Y = Operand(-1), Operand(-2)
_RULES: dict[Any, tuple[Any, dict[str, Callable[..., Any]]]] = {}


def _rule(*functions: Any, signature: str, **of: Callable[..., Any]) -> None:
    """Rules by the name of the parameter; each is given all parameters by name, with those absent at their defaults."""
    parameters = inspect.signature(eval(f"lambda {signature}: None"))
    for function in functions:
        _RULES[function] = (parameters, of)


def _known(function: Any) -> Any:
    rule = _RULES.get(function) if _hashable(function) else None
    if rule is None and isinstance(function, np.ufunc) and "scipy.special" in sys.modules:
        rule = _rules_of_scipy().get(function)
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if rule is None and isinstance(owner, np.ufunc):
        rule = _RULES.get((owner, name))
    return rule


def _hashable(function: Any) -> bool:
    return getattr(type(function), "__hash__", None) is not None


def _holds(value: Any, number: int) -> bool:
    if isinstance(value, Operand):
        return value.number == number
    if isinstance(value, slice):
        return False
    return isinstance(value, (tuple, list)) and any(_holds(item, number) for item in value)


def gradient(function: Any, number: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The cotangent of operand `number`: an expression. None: it has none. NotImplemented: there is no rule."""
    known = _known(function)
    if known is None:
        return NotImplemented
    parameters, rules = known
    try:
        bound = parameters.bind(*args, **keywords)
    except TypeError:
        return NotImplemented
    bound.apply_defaults()
    total = None
    for name, value in bound.arguments.items():
        if not _holds(value, number):
            continue
        if name not in rules:
            return NotImplemented
        parts = [rules[name](**bound.arguments)]
        if isinstance(value, (tuple, list)):
            parts = [parts[0](at) for at, item in enumerate(value) if _holds(item, number)]
        for part in parts:
            if part is NotImplemented:
                return NotImplemented
            if part is not None:
                total = part if total is None else Call(np.add, total, part)
    return total


def gradient_of_part(function: Any, number: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The same where the result is real and the operand complex."""
    if function not in (np.linalg.norm, np.fft.irfft):
        return NotImplemented
    return gradient(function, number, args, keywords)


@functools.cache
def _rules_of_scipy() -> dict[Any, Any]:
    """Rules for scipy.special, which is imported by those who use it."""
    special = sys.modules["scipy.special"]
    _rule(special.gamma, signature="x", x=lambda x: Call(np.multiply, G, Call(np.multiply, Y, Call(special.psi, x))))
    _rule(special.gammaln, signature="x", x=lambda x: Call(np.multiply, G, Call(special.psi, x)))
    _rule(special.psi, signature="x", x=lambda x: Call(np.multiply, G, Call(trigamma, x)))
    _rule(trigamma, signature="x", x=lambda x: Call(np.multiply, G, Call(tetragamma, x)))
    _rule(special.erfinv, signature="x", x=lambda x: Call(np.multiply, G, Call(slope_of_erfinv, Y)))
    for name in _OF_BESSEL:
        _rule(
            getattr(special, name),
            signature="x",
            x=lambda x, name=name: Call(np.multiply, G, Call(slope_of_bessel, x, name)),
        )
    return _RULES


# --- The functions that rules call --------------------------------------------------------------------------------------------
# Pure, of arrays; `like` gives a shape and dtype. Fresh results in C order.


def trigamma(x: Any) -> Any:
    """The derivative of digamma, below 0 by reflection."""
    from scipy.special import zeta

    positive = x > 0
    found = zeta(2.0, np.where(positive, x, 1 - x))
    return np.where(positive, found, np.square(np.pi / np.sin(np.pi * x)) - found).astype(x.dtype)


def tetragamma(x: Any) -> Any:
    """The derivative of trigamma, below 0 by reflection."""
    from scipy.special import zeta

    positive = x > 0
    found = -2 * zeta(3.0, np.where(positive, x, 1 - x))
    angle = np.pi * x
    return np.where(positive, found, found - 2 * np.pi**3 * np.cos(angle) / np.sin(angle) ** 3).astype(x.dtype)


def slope_of_erfinv(y: Any) -> Any:
    """The derivative of the inverse of erf, by its value."""
    return np.multiply(np.exp(np.square(y)), y.dtype.type(np.sqrt(np.pi) / 2))


# Bessel's functions: the derivative is a * other(x) + b * own(x) + c * sign(x) * own(x) + d * own(x) / x.
_OF_BESSEL = {
    "j0": ("j1", -1, 0, 0, 0), "j1": ("j0", 1, 0, 0, -1), "y0": ("y1", -1, 0, 0, 0), "y1": ("y0", 1, 0, 0, -1),
    "i0": ("i1", 1, 0, 0, 0), "i1": ("i0", 1, 0, 0, -1), "k0": ("k1", -1, 0, 0, 0), "k1": ("k0", -1, 0, 0, -1),
    "i0e": ("i1e", 1, 0, -1, 0), "i1e": ("i0e", 1, 0, -1, -1), "k0e": ("k1e", -1, 1, 0, 0), "k1e": ("k0e", -1, 1, 0, -1),
}  # fmt: skip


def slope_of_bessel(x: Any, name: str) -> Any:
    """The derivative of one of Bessel's functions."""
    from scipy import special

    other, a, b, c, d = _OF_BESSEL[name]
    own = getattr(special, name)(x)
    out = a * getattr(special, other)(x) + b * own + c * np.sign(x) * own
    if d:  # own(x) / x is 1 / 2 at 0
        out = out + d * np.where(x == 0, 0.5, own / np.where(x == 0, 1, x))
    return out.astype(x.dtype)


def added_items(like: Any, key: Any, values: Any) -> Any:
    """Zeros like `like`, with the values added at the key, elements that are meant twice twice."""
    out = np.zeros(like.shape, like.dtype)
    np.add.at(out, key, values)
    return out


def taken_items(array: Any, key: Any, like: Any) -> Any:
    """``array[key]`` in the shape of `like`."""
    return np.array(np.broadcast_to(array[key], like.shape))


def summed_like(array: Any, like: Any) -> Any:
    """Summed over the axes along which `like` was repeated."""
    extra = array.ndim - like.ndim
    axes = tuple(i for i in range(array.ndim) if i < extra or (like.shape[i - extra] == 1 and array.shape[i] != 1))
    return np.array(array.sum(axis=axes).reshape(like.shape), dtype=like.dtype)


def spread_over(value: Any, like: Any) -> Any:
    """Repeated to the shape of `like`."""
    return np.array(np.broadcast_to(value, like.shape))


def zeroed_items(array: Any, key: Any) -> Any:
    """A copy with zeros at the key."""
    out = np.array(array, order="K")
    out[key] = 0
    return out


def items_like(array: Any, key: Any, like: Any) -> Any:
    """The part of `array` at the key, summed in the shape of a value that was assigned there: of what was written over, nothing."""
    taken = np.asarray(array[key])
    number = np.arange(taken.size).reshape(taken.shape)
    last = np.empty(array.shape, number.dtype)
    last[key] = number
    return summed_like(np.where(last[key] == number, taken, np.zeros((), taken.dtype)), like)


def placed_items(like: Any, key: Any, value: Any) -> Any:
    """Zeros like `like`, with the value at the key."""
    out = np.zeros(like.shape, like.dtype)
    out[key] = value
    return out


def spread_sum(value: Any, like: Any, axis: Any, keepdims: Any) -> Any:
    """A sum over axes repeated to what was summed."""
    if axis is not None and not keepdims:
        value = np.expand_dims(value, axis)
    return np.array(np.broadcast_to(value, np.shape(like)))


def spread_mean(value: Any, like: Any, axis: Any, keepdims: Any) -> Any:
    """A mean over axes: to each element its share of the value."""
    share = np.divide(value, max(1, np.size(like) // max(1, np.size(value))), dtype=np.result_type(value, np.float32))
    return spread_sum(share, like, axis, keepdims).astype(np.asarray(like).dtype)


def variance_back(value: Any, x: Any, axis: Any, ddof: Any, keepdims: Any, root: Any) -> Any:
    """The cotangent of np.var, or of np.std, which gave `root`; of half precision it is computed in float32."""
    wide = np.asarray(x, np.result_type(x, np.float32))
    count = max(1, wide.size // max(1, np.size(value)))
    slope = np.asarray(value, wide.dtype) * (2 / (count - ddof))
    if root is not None:
        slope = slope / (2 * np.asarray(root, wide.dtype))
    centred = wide - wide.mean(axis=axis, keepdims=True)
    return (spread_sum(slope, wide, axis, keepdims) * centred).astype(np.asarray(x).dtype)


def shares_of_extreme(x: Any, extreme: Any, axis: Any, keepdims: Any) -> Any:
    """The weight of each element in the maximum or minimum: 1 divided by the number of equal ones, or 0."""
    hit = np.equal(x, spread_sum(extreme, x, axis, keepdims))
    return np.divide(hit, hit.sum(axis=axis, keepdims=True), dtype=np.result_type(x, np.float32))


def extreme_back(value: Any, x: Any, extreme: Any, axis: Any, keepdims: Any) -> Any:
    """The cotangent of np.max or np.min."""
    shares = shares_of_extreme(x, extreme, axis, keepdims)
    return (spread_sum(value, x, axis, keepdims) * shares).astype(np.asarray(x).dtype)


def weighted_extreme(values: Any, x: Any, extreme: Any, axis: Any, keepdims: Any) -> Any:
    """The values where the extremes are."""
    return (values * shares_of_extreme(x, extreme, axis, keepdims)).sum(axis=axis, keepdims=keepdims)


def summed_backwards(array: Any, axis: Any, like: Any) -> Any:
    """The sums from each element on, in the shape of `like`."""
    if axis is None:
        return np.array(np.cumsum(array.ravel()[::-1])[::-1].reshape(like.shape), dtype=like.dtype)
    return np.array(np.flip(np.cumsum(np.flip(array, axis), axis), axis), dtype=like.dtype)


def unsorted(values: Any, array: Any, axis: Any, kind: Any) -> Any:
    """The values, which are in the order of the sorted array, where the elements were."""
    flat = array.ravel() if axis is None else array
    at = -1 if axis is None else axis
    order = np.argsort(flat, axis=at, kind=kind)
    out = np.empty(flat.shape, values.dtype)
    np.put_along_axis(out, order, values, at)
    return np.array(out.reshape(array.shape))


def in_order(values: Any, array: Any, axis: Any, kind: Any) -> Any:
    """The values in the order of the sorted array."""
    at = -1 if axis is None else axis
    flat, values = (array.ravel(), values.ravel()) if axis is None else (array, values)
    return np.array(np.take_along_axis(values, np.argsort(flat, axis=at, kind=kind), at))


def taken_back(like: Any, indices: Any, axis: Any, values: Any) -> Any:
    """Zeros like `like` with the values added where np.take took them."""
    if axis is None:
        out = np.zeros(like.size, like.dtype)
        np.add.at(out, indices, values)
        return out.reshape(like.shape).copy()
    out = np.zeros(like.shape, like.dtype)
    np.add.at(out, (slice(None),) * (axis % like.ndim) + (indices,), values)
    return out


def unrepeated(values: Any, repeats: Any, axis: Any, like: Any) -> Any:
    """The sums over the copies that np.repeat makes of each element."""
    flat = like.ravel() if axis is None else like
    at = 0 if axis is None else axis
    index = np.repeat(np.arange(flat.shape[at]), repeats)
    out = np.zeros(flat.shape, like.dtype)
    np.add.at(np.moveaxis(out, at, 0), index, np.moveaxis(values, at, 0))
    return np.array(out.reshape(like.shape))


def untiled(values: Any, reps: Any, like: Any) -> Any:
    """Summed over the tiles."""
    reps = (reps,) if isinstance(reps, int) else tuple(reps)
    rank = max(len(reps), like.ndim)
    reps = (1,) * (rank - len(reps)) + reps
    shape = (1,) * (rank - like.ndim) + like.shape
    split = values.reshape([n for pair in zip(reps, shape) for n in pair])
    return np.array(split.sum(axis=tuple(range(0, 2 * rank, 2))).reshape(like.shape), dtype=like.dtype)


def cropped(values: Any, widths: Any, like: Any) -> Any:
    """The middle of a padded array."""
    pairs = np.broadcast_to(np.asarray(widths), (like.ndim, 2))
    return np.array(values[tuple(slice(before, before + n) for (before, _), n in zip(pairs, like.shape))])


def diagonal_of(value: Any, offset: Any, like: Any) -> Any:
    """Zeros like a matrix with the value on a diagonal."""
    return np.array(np.eye(like.shape[0], like.shape[1], offset, like.dtype) * value, dtype=like.dtype)


def transposed_inverse(inverse: Any, values: Any) -> Any:
    """-inverse.T @ values @ inverse.T"""
    turned = np.swapaxes(inverse, -1, -2)
    return np.array(-(turned @ values @ turned))


def inverse_product(inverse: Any, values: Any) -> Any:
    """-inverse @ values @ inverse: the cotangent of the values of `transposed_inverse`."""
    return np.array(-(inverse @ values @ inverse))


def inverse_slope(inverse: Any, values: Any, cotangent: Any) -> Any:
    """The cotangent of the inverse of `transposed_inverse`."""
    turned = np.swapaxes(inverse, -1, -2) @ np.swapaxes(cotangent, -1, -2)
    other = np.swapaxes(cotangent, -1, -2) @ np.swapaxes(inverse, -1, -2)
    return np.array(-(values @ turned + other @ values))


def solved_transposed(a: Any, b: Any) -> Any:
    """The solution for a.T."""
    return np.array(np.linalg.solve(np.swapaxes(a, -1, -2), b))


def minus_outer(left: Any, right: Any) -> Any:
    """-left @ right.T; vectors are columns."""
    if left.ndim == 1:
        return np.array(-np.outer(left, right))
    return np.array(-(left @ np.swapaxes(right, -1, -2)))


def scaled_inverse(a: Any, factor: Any) -> Any:
    """inv(a).T * factor, of matrices."""
    return np.array(np.swapaxes(np.linalg.inv(a), -1, -2) * np.asarray(factor)[..., None, None])


def scaled_inverse_slope(a: Any, factor: Any, cotangent: Any) -> Any:
    """The cotangent of the matrices of `scaled_inverse`."""
    return transposed_inverse(np.linalg.inv(a), np.swapaxes(cotangent, -1, -2) * np.asarray(factor)[..., None, None])


def along_inverse(a: Any, cotangent: Any) -> Any:
    """The cotangent of the factor of `scaled_inverse`."""
    return np.array((np.swapaxes(np.linalg.inv(a), -1, -2) * cotangent).sum((-2, -1)))


def einsum_back(subscripts: str, at: int, values: Any, like: Any, *others: Any) -> Any:
    """The cotangent of operand `at` of an einsum with explicit output."""
    inputs, output = subscripts.split("->")
    terms = inputs.split(",")
    mine = terms.pop(at)
    known = set(output).union(*terms)
    kept = "".join(letter for letter in mine if letter in known)
    out = np.einsum(",".join([output, *terms]) + "->" + kept, values, *others)
    for axis, letter in enumerate(mine):
        if letter not in known:
            out = np.expand_dims(out, axis)
    return np.array(np.broadcast_to(out, like.shape), dtype=like.dtype)


def tensordot_back(values: Any, a: Any, b: Any, axes: Any, at: int) -> Any:
    """The cotangent of an operand of np.tensordot."""
    if isinstance(axes, int):
        of_a, of_b = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        of_a, of_b = ([one] if isinstance(one, int) else list(one) for one in axes)
    of_a, of_b = [i % a.ndim for i in of_a], [i % b.ndim for i in of_b]
    free_a = [i for i in range(a.ndim) if i not in of_a]
    free_b = [i for i in range(b.ndim) if i not in of_b]
    if at == 0:
        pairs = [i for _, i in sorted(zip(of_b, of_a))]
        out = np.tensordot(values, b, (list(range(len(free_a), values.ndim)), free_b))
        return np.array(np.transpose(out, np.argsort(free_a + pairs)), dtype=a.dtype)
    pairs = [i for _, i in sorted(zip(of_a, of_b))]
    out = np.tensordot(a, values, (free_a, list(range(len(free_a)))))
    return np.array(np.transpose(out, np.argsort(pairs + free_b)), dtype=b.dtype)


def norm_back(value: Any, x: Any, order: Any, axis: Any, keepdims: Any, norm: Any) -> Any:
    """The cotangent of np.linalg.norm for vectors, and for matrices that of Frobenius."""
    if axis is not None and not keepdims:
        norm, value = (np.expand_dims(one, axis) for one in (norm, value))
    if order in (None, 2, "fro"):
        return np.array(value * x / norm, dtype=x.dtype)
    return np.array(value * np.sign(x) * (np.abs(x) / norm) ** (order - 1), dtype=x.dtype)


def spread_like(value: Any, like: Any, mask: Any) -> Any:
    """The value where the mask is, of the shape of `like`."""
    return np.where(mask, value, np.zeros((), like.dtype)).astype(like.dtype)


def product_back(values: Any, a: Any, b: Any, at: int) -> Any:
    """The cotangent of an operand of np.dot."""
    if a.ndim == 0 or b.ndim == 0:
        return summed_like(np.asarray(values * (b if at == 0 else a)), a if at == 0 else b)
    axes = ([a.ndim - 1], [max(b.ndim - 2, 0)])
    return tensordot_back(values, a, b, axes, at)


def product_of_others(a: Any, axis: Any) -> Any:
    """For each element the product of the others along an axis, or of all."""
    flat = np.moveaxis(a.ravel() if axis is None else a, 0 if axis is None else axis, 0)
    before, behind = np.ones_like(flat), np.ones_like(flat)
    np.cumprod(flat[:-1], axis=0, out=before[1:])
    np.cumprod(flat[:0:-1], axis=0, out=behind[-2::-1])
    return np.array(np.moveaxis(before * behind, 0, 0 if axis is None else axis).reshape(a.shape))


def products_back(values: Any, a: Any, axis: Any) -> Any:
    """The cotangent of running products, also where factors are 0: S[j] = values[j] + a[j + 1] * S[j + 1], times the product before j."""
    flat, moved = (
        (a.ravel(), values.ravel()) if axis is None else (np.moveaxis(a, axis, 0), np.moveaxis(values, axis, 0))
    )
    out = np.array(moved)
    for j in range(len(out) - 2, -1, -1):
        out[j] += flat[j + 1] * out[j + 1]
    out[1:] *= np.cumprod(flat[:-1], axis=0)
    return np.array((out if axis is None else np.moveaxis(out, 0, axis)).reshape(a.shape), dtype=a.dtype)


def log_sums_back(values: Any, a: Any, sums: Any, axis: int) -> Any:
    """The cotangent of running logarithms of sums: exp(a[j]) times the sum of values[i] / exp(sums[i]) from j on, positive and negative ones apart."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [
            np.exp(
                np.flip(np.logaddexp.accumulate(np.flip(np.log(np.maximum(part, 0)) - sums, axis), axis=axis), axis) + a
            )
            for part in (values, -values)
        ]
    return np.where(np.isneginf(a), np.zeros((), a.dtype), parts[0] - parts[1]).astype(a.dtype)


def extremes_back(values: Any, a: Any, extremes: Any, axis: int) -> Any:
    """The cotangent of running maxima or minima: each is that of the last element up to there that is equal to it."""
    found, moved = np.moveaxis(a, axis, 0), np.moveaxis(values, axis, 0)
    equal = (found == np.moveaxis(extremes, axis, 0)) | (found != found)
    steps = np.arange(len(found)).reshape([-1] + [1] * (a.ndim - 1))
    at = np.maximum.accumulate(np.where(equal, steps, 0), axis=0)
    out = np.zeros(found.shape, a.dtype)
    np.add.at(out, (at, *np.indices(found.shape, sparse=True)[1:]), moved)
    return np.array(np.moveaxis(out, 0, axis))


def matmul_back(values: Any, a: Any, b: Any, at: int) -> Any:
    """The cotangent of an operand of a matrix product."""
    if a.ndim == 1:
        values = np.expand_dims(values, -2 if b.ndim > 1 else -1)  # a row
    if b.ndim == 1:
        values = np.expand_dims(values, -1)
    left, right = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    if at == 0:
        return np.array(summed_like(values @ np.swapaxes(right, -1, -2), left).reshape(a.shape), dtype=a.dtype)
    return np.array(summed_like(np.swapaxes(left, -1, -2) @ values, right).reshape(b.shape), dtype=b.dtype)


def rfft_back(values: Any, like: Any, axis: Any, norm: Any) -> Any:
    """The cotangent of the operand of np.fft.rfft."""
    return np.fft.fft(values, like.shape[axis], axis, norm)


def irfft_back(values: Any, like: Any, axis: Any, norm: Any) -> Any:
    """The cotangent of the operand of np.fft.irfft: its first and, of an even length, its last element count once, the others twice."""
    inverse = {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)
    out = np.fft.rfft(values, None, axis, inverse)
    shape = [1] * out.ndim
    shape[axis] = out.shape[axis]
    weights = np.full(shape, 2.0)
    ends = np.moveaxis(weights, axis, 0)
    ends[0] = 1
    if values.shape[axis] % 2 == 0:
        ends[-1] = 1
    out = np.multiply(out, weights)
    missing = [(0, n - m) for n, m in zip(like.shape, out.shape)]
    return np.array(np.pad(out, missing), dtype=like.dtype)


# --- Rules ----------------------------------------------------------------------------------------------------------------


def _fit(cotangent: Any, operand: Any) -> Any:
    """Of an operand that may have been broadcast."""
    return None if cotangent is None else Call(summed_like, cotangent, operand)


def _explicit(subscripts: Any, operands: Any) -> Any:
    """Subscripts with their output; None for forms that the rules do not know."""
    if not isinstance(subscripts, str) or "." in subscripts:
        return None
    subscripts = subscripts.replace(" ", "")
    if "->" not in subscripts:
        letters = subscripts.replace(",", "")
        subscripts += "->" + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    terms = subscripts.split("->")[0].split(",")
    repeated = any(len(set(term)) != len(term) for term in terms)
    return None if repeated or len(terms) != len(operands) else subscripts


def _einsum(subscripts: Any, operands: Any, **_: Any) -> Any:
    full = _explicit(subscripts, operands)

    def of(at: int) -> Any:
        if full is None:
            return NotImplemented
        others = [one for i, one in enumerate(operands) if i != at]
        inputs, output = full.split("->")
        terms = inputs.split(",")
        mine = terms.pop(at)
        if set(mine) <= set(output).union(*terms):
            return Call(np.einsum, ",".join([output, *terms]) + "->" + mine, G, *others)
        return Call(einsum_back, full, at, G, operands[at], *others)

    return of


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    if axis is None and not keepdims and ord in (None, "fro"):
        return Call(np.divide, Call(np.multiply, G, x), Y)
    vector = not isinstance(axis, tuple)
    known = ord in (None, "fro") or (vector and axis is not None and isinstance(ord, (int, float)) and ord >= 1)
    return Call(norm_back, G, x, ord, axis, keepdims, Y) if known and ord != np.inf else NotImplemented


def _power(a: Any, b: Any) -> Any:
    if not isinstance(b, Operand):
        return None if b == 0 else Call(np.multiply, G, Call(np.multiply, Call(np.power, a, b - 1.0), b))
    return Call(np.multiply, G, Call(np.multiply, b, Call(np.power, a, Call(np.subtract, b, 1.0))))


_rule(np.add, operator.add, signature="a, b", a=lambda a, b: _fit(G, a), b=lambda a, b: _fit(G, b))
_rule(
    np.subtract,
    operator.sub,
    signature="a, b",
    a=lambda a, b: _fit(G, a),
    b=lambda a, b: _fit(Call(np.negative, G), b),
)
_rule(np.negative, operator.neg, signature="a", a=lambda a: Call(np.negative, G))
_rule(
    np.multiply,
    operator.mul,
    signature="a, b",
    a=lambda a, b: _fit(Call(np.multiply, G, b), a),
    b=lambda a, b: _fit(Call(np.multiply, G, a), b),
)
_rule(
    np.divide,
    operator.truediv,
    signature="a, b",
    a=lambda a, b: _fit(Call(np.divide, G, b), a),
    b=lambda a, b: _fit(Call(np.negative, Call(np.divide, Call(np.multiply, G, Y), b)), b),
)
_rule(np.log, signature="a", a=lambda a: Call(np.divide, G, a))
_rule(
    np.power,
    operator.pow,
    signature="a, b",
    a=lambda a, b: _fit(_power(a, b), a),
    b=lambda a, b: _fit(Call(np.multiply, G, Call(np.multiply, Y, Call(np.log, a))), b),
)
_rule(
    summed_like,
    signature="array, like",
    like=lambda **_: None,
    array=lambda array, like: Call(spread_over, G, array),
)
_rule(
    spread_over,
    signature="value, like",
    like=lambda **_: None,
    value=lambda value, like: Call(summed_like, G, value),
)
_rule(operator.getitem, signature="a, key", a=lambda a, key: Call(added_items, a, key, G))
_rule(
    added_items,
    signature="like, key, values",
    like=lambda **_: None,
    values=lambda like, key, values: Call(taken_items, G, key, values),
)
_rule(
    taken_items,
    signature="array, key, like",
    like=lambda **_: None,
    array=lambda array, key, like: Call(added_items, array, key, G),
)
_rule(
    np.bincount,
    signature="x, weights=None, minlength=0",
    x=lambda **_: None,
    weights=lambda x, weights, minlength: Call(taken_items, G, x, weights),
)
_rule(
    with_items,
    signature="array, key, value",
    array=lambda array, key, value: Call(zeroed_items, G, key),
    value=lambda array, key, value: Call(items_like, G, key, value),
)
_rule(
    in_place(np.add.at),
    signature="array, key, value",
    array=lambda array, key, value: G,
    value=lambda array, key, value: Call(summed_like, Call(operator.getitem, G, key), value),
)
_rule(
    in_place(np.subtract.at),
    signature="array, key, value",
    array=lambda array, key, value: G,
    value=lambda array, key, value: Call(np.negative, Call(summed_like, Call(operator.getitem, G, key), value)),
)
_rule(
    items_like,
    signature="array, key, like",
    like=lambda **_: None,
    array=lambda array, key, like: Call(placed_items, array, key, G),
)
_rule(
    placed_items,
    signature="like, key, value",
    like=lambda **_: None,
    value=lambda like, key, value: Call(items_like, G, key, value),
)
_rule(
    np.sum,
    np.ndarray.sum,
    signature="a, axis=None, dtype=None, out=None, keepdims=False",
    a=lambda a, axis, keepdims, **_: Call(spread_sum, G, a, axis, keepdims),
)
_rule(
    spread_sum,
    signature="value, like, axis, keepdims",
    like=lambda **_: None,
    value=lambda value, like, axis, keepdims: Call(np.sum, G, axis, None, None, keepdims),
)
_rule(
    np.mean,
    np.ndarray.mean,
    signature="a, axis=None, dtype=None, out=None, keepdims=False",
    a=lambda a, axis, keepdims, **_: Call(spread_mean, G, a, axis, keepdims),
)
_rule(
    spread_mean,
    signature="value, like, axis, keepdims",
    like=lambda **_: None,
    value=lambda value, like, axis, keepdims: Call(np.mean, G, axis, None, None, keepdims),
)
_rule(
    np.var,
    np.ndarray.var,
    signature="a, axis=None, dtype=None, out=None, ddof=0, keepdims=False",
    a=lambda a, axis, ddof, keepdims, **_: Call(variance_back, G, a, axis, ddof, keepdims, None),
)
_rule(
    np.std,
    np.ndarray.std,
    signature="a, axis=None, dtype=None, out=None, ddof=0, keepdims=False",
    a=lambda a, axis, ddof, keepdims, **_: Call(variance_back, G, a, axis, ddof, keepdims, Y),
)
_rule(
    np.max,
    np.min,
    np.ndarray.max,
    np.ndarray.min,
    signature="a, axis=None, out=None, keepdims=False",
    a=lambda a, axis, keepdims, **_: Call(extreme_back, G, a, Y, axis, keepdims),
)
_rule(
    extreme_back,
    signature="value, x, extreme, axis, keepdims",
    x=lambda **_: None,
    extreme=lambda **_: None,
    value=lambda value, x, extreme, axis, keepdims: Call(weighted_extreme, G, x, extreme, axis, keepdims),
)
_rule(
    weighted_extreme,
    signature="values, x, extreme, axis, keepdims",
    x=lambda **_: None,
    extreme=lambda **_: None,
    values=lambda values, x, extreme, axis, keepdims: Call(extreme_back, G, x, extreme, axis, keepdims),
)
_rule(
    np.prod,
    np.ndarray.prod,
    signature="a, axis=None, dtype=None, out=None, keepdims=False",
    a=lambda a, axis, keepdims, **_: (
        NotImplemented
        if isinstance(axis, tuple)
        else Call(np.multiply, Call(spread_sum, G, a, axis, keepdims), Call(product_of_others, a, axis))
    ),
)
_rule(zeroed_items, signature="array, key", array=lambda array, key: Call(zeroed_items, G, key))
_rule(
    np.take,
    np.ndarray.take,
    signature="a, indices, axis=None, out=None, mode='raise'",
    a=lambda a, indices, axis, mode, **_: Call(taken_back, a, indices, axis, G) if mode == "raise" else NotImplemented,
)
_rule(
    taken_back,
    signature="like, indices, axis, values",
    like=lambda **_: None,
    values=lambda like, indices, axis, values: Call(np.take, G, indices, axis),
)
_rule(
    np.cumsum,
    np.ndarray.cumsum,
    signature="a, axis=None, dtype=None, out=None",
    a=lambda a, axis, **_: Call(summed_backwards, G, axis, a),
)
_rule(
    (np.add, "accumulate"),
    signature="a, axis=0, dtype=None, out=None",
    a=lambda a, axis, **_: Call(summed_backwards, G, axis, a),
)
_rule(
    np.cumprod,
    np.ndarray.cumprod,
    signature="a, axis=None, dtype=None, out=None",
    a=lambda a, axis, **_: Call(products_back, G, a, axis),
)
_rule(
    (np.multiply, "accumulate"),
    signature="a, axis=0, dtype=None, out=None",
    a=lambda a, axis, **_: Call(products_back, G, a, axis),
)
_rule(
    (np.logaddexp, "accumulate"),
    signature="a, axis=0, dtype=None, out=None",
    a=lambda a, axis, **_: Call(log_sums_back, G, a, Y, axis),
)
_rule(
    (np.maximum, "accumulate"),
    (np.minimum, "accumulate"),
    signature="a, axis=0, dtype=None, out=None",
    a=lambda a, axis, **_: Call(extremes_back, G, a, Y, axis),
)
_rule(
    summed_backwards,
    signature="array, axis, like",
    like=lambda **_: None,
    array=lambda array, axis, like: Call(np.cumsum, G, axis),
)
_rule(
    np.sort,
    signature="a, axis=-1, kind=None, order=None",
    a=lambda a, axis, kind, **_: Call(unsorted, G, a, axis, kind),
)
_rule(
    unsorted,
    signature="values, array, axis, kind",
    array=lambda **_: None,
    values=lambda values, array, axis, kind: Call(in_order, G, array, axis, kind),
)
_rule(
    in_order,
    signature="values, array, axis, kind",
    array=lambda **_: None,
    values=lambda values, array, axis, kind: Call(unsorted, G, array, axis, kind),
)
_rule(
    np.partition,
    signature="a, kth, axis=-1, kind='introselect', order=None",
    a=lambda a, axis, **_: Call(unsorted, Call(in_order, G, Y, axis, None), a, axis, None),
)
_rule(
    np.repeat,
    np.ndarray.repeat,
    signature="a, repeats, axis=None",
    a=lambda a, repeats, axis: Call(unrepeated, G, repeats, axis, a),
)
_rule(
    unrepeated,
    signature="values, repeats, axis, like",
    like=lambda **_: None,
    values=lambda repeats, axis, **_: Call(np.repeat, G, repeats, axis),
)
_rule(np.tile, signature="A, reps", A=lambda A, reps: Call(untiled, G, reps, A))
_rule(
    untiled,
    signature="values, reps, like",
    like=lambda **_: None,
    values=lambda values, reps, like: Call(np.tile, G, reps),
)
_rule(
    np.pad,
    signature="array, pad_width, mode='constant', constant_values=0",
    array=lambda array, pad_width, mode, **_: (
        Call(cropped, G, pad_width, array) if mode == "constant" else NotImplemented
    ),
)
_rule(
    cropped,
    signature="values, widths, like",
    like=lambda **_: None,
    values=lambda values, widths, like: Call(np.pad, G, widths),
)
for _triangle in (np.tril, np.triu):
    _rule(_triangle, signature="m, k=0", m=lambda m, k, _f=_triangle: Call(_f, G, k))
_rule(
    np.trace,
    np.ndarray.trace,
    signature="a, offset=0, axis1=0, axis2=1, dtype=None, out=None",
    a=lambda a, offset, axis1, axis2, **_: (
        Call(diagonal_of, G, offset, a) if (axis1, axis2) == (0, 1) else NotImplemented
    ),
)
_rule(
    diagonal_of,
    signature="value, offset, like",
    like=lambda **_: None,
    value=lambda value, offset, like: Call(np.trace, G, offset),
)
_rule(np.linalg.inv, signature="a", a=lambda a: Call(transposed_inverse, Y, G))
_rule(
    transposed_inverse,
    signature="inverse, values",
    inverse=lambda inverse, values: Call(inverse_slope, inverse, values, G),
    values=lambda inverse, values: Call(inverse_product, inverse, G),
)
_rule(
    scaled_inverse,
    signature="a, factor",
    a=lambda a, factor: Call(scaled_inverse_slope, a, factor, G),
    factor=lambda a, factor: Call(along_inverse, a, G),
)
_rule(
    np.linalg.solve,
    signature="a, b",
    a=lambda a, b: Call(minus_outer, Call(solved_transposed, a, G), Y),
    b=lambda a, b: Call(solved_transposed, a, G),
)
_rule(np.linalg.det, signature="a", a=lambda a: Call(scaled_inverse, a, Call(np.multiply, G, Y)))
_rule(np.linalg.norm, signature="x, ord=None, axis=None, keepdims=False", x=_norm)
_rule(np.einsum, signature="subscripts, *operands, optimize=False", operands=_einsum)
_rule(
    np.tensordot,
    signature="a, b, axes=2",
    a=lambda a, b, axes: Call(tensordot_back, G, a, b, axes, 0),
    b=lambda a, b, axes: Call(tensordot_back, G, a, b, axes, 1),
)
_rule(
    np.dot,
    np.ndarray.dot,
    signature="a, b, out=None",
    a=lambda a, b, out: Call(product_back, G, a, b, 0),
    b=lambda a, b, out: Call(product_back, G, a, b, 1),
)
_rule(
    np.matmul,
    signature="x1, x2, out=None",
    x1=lambda x1, x2, out: Call(matmul_back, G, x1, x2, 0),
    x2=lambda x1, x2, out: Call(matmul_back, G, x1, x2, 1),
)
_rule(
    np.nan_to_num,
    signature="x, copy=True, nan=0.0, posinf=None, neginf=None",
    x=lambda x, **_: Call(spread_like, G, x, Call(np.isfinite, x)),
)
_rule(
    spread_like,
    signature="value, like, mask",
    like=lambda **_: None,
    value=lambda value, like, mask: Call(spread_like, G, value, mask),
)
for _transform in (np.fft.fft, np.fft.ifft):
    _rule(
        _transform,
        signature="a, n=None, axis=-1, norm=None, out=None",
        a=lambda a, n, axis, norm, _f=_transform, **_: Call(_f, G, None, axis, norm) if n is None else NotImplemented,
    )
for _transform in (np.fft.fft2, np.fft.ifft2):
    _rule(
        _transform,
        signature="a, s=None, axes=(-2, -1), norm=None, out=None",
        a=lambda a, s, axes, norm, _f=_transform, **_: Call(_f, G, None, axes, norm) if s is None else NotImplemented,
    )
for _transform in (np.fft.fftn, np.fft.ifftn):
    _rule(
        _transform,
        signature="a, s=None, axes=None, norm=None, out=None",
        a=lambda a, s, axes, norm, _f=_transform, **_: Call(_f, G, None, axes, norm) if s is None else NotImplemented,
    )
_rule(
    np.fft.rfft,
    signature="a, n=None, axis=-1, norm=None, out=None",
    a=lambda a, n, axis, norm, **_: Call(rfft_back, G, a, axis, norm) if n is None else NotImplemented,
)
_rule(
    np.fft.irfft,
    signature="a, n=None, axis=-1, norm=None, out=None",
    a=lambda a, axis, norm, **_: Call(irfft_back, G, a, axis, norm),
)
_rule(
    np.vdot,
    signature="a, b",
    a=lambda a, b: Call(np.multiply, Call(np.conjugate, G), Call(np.conjugate, b)),
    b=lambda a, b: Call(np.multiply, G, Call(np.conjugate, a)),
)
_rule(np.conjugate, signature="a", a=lambda a: Call(np.conjugate, G))
