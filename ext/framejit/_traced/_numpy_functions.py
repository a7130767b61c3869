"""NumPy functions in Python, for capture to follow instead of the code that NumPy runs; never called as they stand.

Most of NumPy's own functions in Python are followed as they are. Here are those that use what capture does not know, for arguments for
which a few lines do the same to the same arrays in the same order; for others capture gives up and NumPy's function runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.fft  # noqa: F401  np.fft is there once something has asked for it, which capture does not do

from framejit._api._control import graph_break
from framejit._traced import _library_functions

_numpy2 = int(np.__version__.split(".")[0]) >= 2
_core = np._core if _numpy2 else np.core  # type: ignore[attr-defined]


def _index(a: Any, /) -> Any:
    if type(a) is not int:
        graph_break("operator.index() of what is no int")
    return a


def _normalize_axis_index(axis: Any, ndim: Any, msg_prefix: Any = None) -> Any:
    if type(axis) is not int or axis < -ndim or axis >= ndim:
        graph_break("an axis out of range")
    return axis + ndim if axis < 0 else axis


def _ndim(a: Any) -> Any:
    return 0 if isinstance(a, (int, float)) else a.ndim


def _shape(a: Any) -> Any:
    return () if isinstance(a, (int, float)) else a.shape


def _size(a: Any, axis: Any = None) -> Any:
    if isinstance(a, (int, float)):
        if axis is not None:
            graph_break("an axis of a number")
        return 1
    return a.size if axis is None else a.shape[axis]


def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return _roll(a.ravel(), shift, 0).reshape(a.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(axes) == 1:
        axes = axes * len(shifts)
    if len(shifts) != len(axes) or not shifts:
        graph_break("shift and axis of different lengths")
    offsets = [0] * a.ndim
    for i in range(len(axes)):
        if type(shifts[i]) is not int:
            graph_break("a shift that is no int")
        offsets[_normalize_axis_index(axes[i], a.ndim)] += shifts[i]
    pairs: list[Any] = [((), ())]
    for i in range(a.ndim):
        offset = offsets[i] % (a.shape[i] or 1)
        parts: Any = ((slice(None), slice(None)),)
        if offset:
            parts = ((slice(None, -offset), slice(offset, None)), (slice(-offset, None), slice(None, offset)))
        pairs = [((*source, part[0]), (*target, part[1])) for source, target in pairs for part in parts]
    result = np.empty_like(a)
    for source, target in pairs:
        result[target] = a[source]
    return result


def _pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    widths = _pad_widths(array, pad_width) if isinstance(array, np.ndarray) else None
    value = kwargs.get("constant_values", 0)
    if widths is None or not _pads_by_parts(array, widths, mode, value, [*kwargs]):
        graph_break("np.pad with such arguments")
    result = np.empty(tuple([array.shape[i] + sum(widths[i]) for i in range(array.ndim)]), array.dtype)
    inside = tuple([slice(widths[i][0], widths[i][0] + array.shape[i]) for i in range(array.ndim)])
    if mode == "constant":
        result[inside] = array
        for i in range(array.ndim):
            before, after = widths[i]
            if before:
                result[(slice(None),) * i + (slice(0, before),) + inside[i + 1 :]] = value
            if after:
                result[(slice(None),) * i + (slice(before + array.shape[i], None),) + inside[i + 1 :]] = value
        return result
    pairs: list[Any] = [((), ())]
    for i in range(array.ndim):
        parts = _parts_of_axis(array.shape[i], widths[i][0], widths[i][1], mode)
        pairs = [((*target, part[0]), (*source, part[1])) for target, source in pairs for part in parts]
    for target, source in pairs:
        result[target] = array[source]
    return result


def _pad_widths(array: Any, pad_width: Any) -> Any:
    """How many elements come before and after those of each axis. None: it is written in another way."""
    if type(pad_width) is int:
        pad_width = (pad_width,)
    if not isinstance(pad_width, (tuple, list)) or not 1 <= len(pad_width) <= max(array.ndim, 2):
        return None
    rows = [[*row] if isinstance(row, (tuple, list)) else row for row in pad_width]
    if list not in [type(row) for row in rows]:
        if len(rows) > 2:
            return None
        rows = [rows]
    for row in rows:
        if not isinstance(row, list) or len(row) not in (1, 2) or len(row) != len(rows[0]):
            return None
        for width in row:
            if type(width) is not int or not 0 <= width < 2**31:
                return None
    if len(rows) not in (1, array.ndim):
        return None
    return [(row[0], row[-1]) for row in (rows if len(rows) > 1 else rows * array.ndim)]


def _pads_by_parts(array: Any, widths: Any, mode: Any, value: Any, names: Any) -> Any:
    """Is the result an array in C order, of at most nine parts that are copies, or one number?"""
    if array.ndim == 0 or (array.flags.f_contiguous and not array.flags.c_contiguous) or not isinstance(mode, str):
        return False
    if mode == "constant":
        if names not in ([], ["constant_values"]):
            return False
        kind, size = array.dtype.kind, array.dtype.itemsize
        if type(value) is int and kind in "iu":
            most = 2 ** min(8 * size - (kind == "i"), 62)
            return (-most if kind == "i" else 0) <= value < most
        if type(value) is int:
            return 0 <= value <= 1 if kind == "b" else kind in "fc" and -10000 < value < 10000
        return type(value) is float and kind == "f" and size >= 4 and (value - value != 0 or -1e30 < value < 1e30)
    if mode not in ("edge", "reflect", "symmetric", "wrap") or names or sum([b + a > 0 for b, a in widths]) > 2:
        return False
    for i in range(array.ndim):
        most = array.shape[i] - 1 if mode == "reflect" else array.shape[i]
        if array.shape[i] < 1 or (mode != "edge" and max(widths[i]) > most):
            return False
    return True


def _parts_of_axis(length: Any, before: Any, after: Any, mode: Any) -> Any:
    """Slices of the result along an axis, and those of the array that are copied there."""
    if mode == "edge":
        first, last = slice(0, 1), slice(length - 1, length)
    elif mode == "wrap":
        first, last = slice(length - before, length), slice(0, after)
    else:
        skipped = 1 if mode == "reflect" else 0
        first = slice(before - 1 + skipped, None if skipped == 0 else 0, -1)
        end = length - 1 - skipped - after
        last = slice(length - 1 - skipped, end if end >= 0 else None, -1)
    parts = [(slice(before, before + length), slice(None))]
    if before:
        parts.append((slice(0, before), first))
    if after:
        parts.append((slice(before + length, None), last))
    return parts


def _isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> Any:
    for tolerance in (rtol, atol):
        if not isinstance(tolerance, (int, float)) or not -1e15 < tolerance < 1e15:
            graph_break("np.isclose with such tolerances")
    if not _numpy2:
        graph_break("np.isclose of NumPy 1, whose result owns its memory in some cases")
    rank = 0
    for x in (a, b):
        if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
            rank = max(rank, x.ndim)
        elif not isinstance(x, (int, float)):
            graph_break("np.isclose of such values")
    if rank == 0:
        graph_break("np.isclose of numbers")
    if not isinstance(b, np.ndarray):
        b = float(b)
    elif b.dtype.kind in "biu":
        b = b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        result = np.less_equal(np.abs(a - b), atol + rtol * np.abs(b)) & np.isfinite(b) | (a == b)
        if equal_nan:
            result |= np.isnan(a) & np.isnan(b)
    return result[()]


def _allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> Any:
    return bool(np.all(_isclose(a, b, rtol, atol, equal_nan)))


def _nan_extreme(reduce: Callable[..., Any]) -> Callable[..., Any]:
    def extreme(a: Any, axis: Any = None) -> Any:
        if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
            graph_break("np.nanmax or np.nanmin of such values")
        result = reduce(a, axis=axis)
        if np.any(np.isnan(result)) if isinstance(result, np.ndarray) else result != result:
            raise ValueError("np.nanmax or np.nanmin warns")
        return result

    return extreme


def _nanmean(a: Any, axis: Any = None) -> Any:
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
        graph_break("np.nanmean of such values")
    mask = np.isnan(a)
    total = np.where(mask, a.dtype.type(0), a).sum(axis=axis)
    count = np.sum(~mask, axis=axis, dtype=np.intp)
    empty = count == 0
    if np.any(empty) if isinstance(empty, np.ndarray) else empty:
        raise ValueError("np.nanmean warns")
    mean = total / count
    return mean.astype(a.dtype) if isinstance(mean, np.ndarray) else a.dtype.type(mean)


def _nanvar(a: Any, axis: Any = None, *, ddof: Any = 0) -> Any:
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f" or type(ddof) is not int or ddof < 0:
        graph_break("np.nanvar of such values")
    mask = np.isnan(a)
    zero = a.dtype.type(0)
    numbers = np.where(mask, zero, a)
    freedom = np.sum(~mask, axis=axis, dtype=np.intp).astype(np.float64) - ddof
    too_few = freedom <= 0
    if np.any(too_few) if isinstance(too_few, np.ndarray) else too_few:
        raise ValueError("np.nanvar warns")
    count = np.sum(~mask, axis=axis, dtype=np.intp, keepdims=True)
    mean = (numbers.sum(axis=axis, keepdims=True) / count).astype(a.dtype)
    apart = np.where(mask, zero, numbers - mean)
    variance = (apart * apart).sum(axis=axis) / freedom
    return variance.astype(a.dtype) if isinstance(variance, np.ndarray) else a.dtype.type(variance)


def _nanstd(a: Any, axis: Any = None, *, ddof: Any = 0) -> Any:
    return np.sqrt(_nanvar(a, axis, ddof=ddof))


def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if type(condlist) is not list or type(choicelist) is not list or len(condlist) != len(choicelist) or not condlist:
        graph_break("np.select of such lists")
    first = choicelist[0]
    for x in choicelist:
        if (
            not isinstance(x, np.ndarray)
            or x.dtype != first.dtype
            or x.shape != first.shape
            or not x.flags.c_contiguous
        ):
            graph_break("np.select of such choices")
    for x in condlist:
        if not isinstance(x, np.ndarray) or x.dtype != bool or x.shape != first.shape or not x.flags.c_contiguous:
            graph_break("np.select of such conditions")
    if first.ndim == 0 or not isinstance(default, (int, float)) or np.result_type(first.dtype, default) != first.dtype:
        graph_break("np.select with such a default")
    result = first.dtype.type(default)
    for i in range(len(condlist) - 1, -1, -1):
        result = np.where(condlist[i], choicelist[i], result)
    return result


def _block(arrays: Any) -> Any:
    if type(arrays) is not list or not arrays:
        graph_break("np.block of such values")
    has_rows = type(arrays[0]) is list
    rows = arrays if has_rows else [arrays]
    first = rows[0][0] if rows[0] else None
    for row in rows:
        if type(row) is not list or not row or not isinstance(first, np.ndarray) or (has_rows and first.ndim != 2):
            graph_break("np.block of such lists")
        for x in row:
            if (
                not isinstance(x, np.ndarray)
                or x.ndim == 0
                or x.ndim != first.ndim
                or x.dtype != first.dtype
                or not x.flags.c_contiguous
            ):
                graph_break("np.block of such arrays")
    joined = [np.concatenate(row, axis=-1) for row in rows]
    return np.concatenate(joined, axis=-2) if has_rows else joined[0]


def _insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    if not isinstance(arr, np.ndarray) or arr.ndim == 0 or not arr.flags.c_contiguous or type(obj) is not int:
        graph_break("np.insert into such an array")
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    axis = _normalize_axis_index(axis, arr.ndim)
    length = arr.shape[axis]
    if obj < -length or obj > length:
        raise IndexError("np.insert at an index out of bounds")
    if isinstance(values, np.ndarray):
        if arr.ndim != 1 or values.ndim != 1 or values.dtype != arr.dtype:
            graph_break("np.insert of such an array")
        new = values
    else:
        if type(values) not in (int, float) or np.result_type(arr.dtype, values) != arr.dtype:
            graph_break("np.insert of such a value")
        new = np.full(arr.shape[:axis] + (1,) + arr.shape[axis + 1 :], values, arr.dtype)
    at = obj + length if obj < 0 else obj
    before = (slice(None),) * axis
    return np.concatenate((arr[(*before, slice(None, at))], new, arr[(*before, slice(at, None))]), axis=axis)


def _unwrap(p: Any, discont: Any = None, axis: Any = -1, *, period: Any = 2 * np.pi) -> Any:
    if (
        not isinstance(p, np.ndarray)
        or p.dtype.kind != "f"
        or p.ndim == 0
        or discont is not None
        or type(period) is not float
    ):
        graph_break("np.unwrap of such values")
    axis = _normalize_axis_index(axis, p.ndim)
    apart = np.diff(p, axis=axis)
    high, low = period / 2, -(period / 2)
    wrapped = np.mod(apart - low, period) + low
    wrapped = np.where((wrapped == low) & (apart > 0), p.dtype.type(high), wrapped)
    more = np.where(np.abs(apart) < high, p.dtype.type(0), wrapped - apart)
    behind = (*(slice(None),) * axis, slice(1, None))
    result = np.array(p, copy=True)
    result[behind] = p[behind] + more.cumsum(axis)
    return result


def _unless_nan(result: Any, last: Any) -> Any:
    """The results, or NaN where it comes last of the numbers in order."""
    chosen = np.where(np.isnan(last), last, result)
    return chosen if isinstance(result, np.ndarray) else chosen[()]


def _median(a: Any, axis: Any = None) -> Any:
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f" or a.size == 0 or a.ndim == 0:
        graph_break("np.median of such values")
    if axis is not None:
        axis = _normalize_axis_index(axis, a.ndim)
    length = a.size if axis is None else a.shape[axis]
    half = length // 2
    part = np.partition(a, [half, -1] if length % 2 else [half - 1, half, -1], axis=axis)
    before = () if axis is None else (slice(None),) * axis
    middle = part[(*before, slice(half - 1 + length % 2, half + 1))]
    return _unless_nan(np.mean(middle, axis=0 if axis is None else axis), part[(*before, -1)])


def _quantiles(a: Any, q: Any, axis: Any, whole: int) -> Any:
    if not isinstance(a, np.ndarray) or a.dtype != np.float64 or a.size == 0 or a.ndim == 0:
        graph_break("np.quantile of such values")
    if axis is not None:
        axis = _normalize_axis_index(axis, a.ndim)
        if not a.flags.c_contiguous:
            graph_break("np.quantile along an axis of such an array")
    length = a.size if axis is None else a.shape[axis]
    several = type(q) in (list, tuple)
    places = []
    for x in q if several else [q]:
        if type(x) is not float and (type(x) is not int or whole == 1):
            graph_break("np.quantile for such a number")
        places.append((length - 1) * (x / whole))
        if not 0 <= places[-1] < length - 1:
            graph_break("np.quantile for the last number, or none")
    if not places:
        graph_break("np.quantile for no numbers")
    kth = [0, -1]
    for k in [int(x) + i for x in places for i in (0, 1)]:
        if k not in kth:
            kth.append(k)
    part = np.partition(a, kth, axis=axis)
    before = () if axis is None else (slice(None),) * axis
    results = []
    for place in places:
        low, high = part[(*before, int(place))], part[(*before, int(place) + 1)]
        weight = place - int(place)
        apart = high - low
        from_low, rest = low + apart * weight, apart * (1 - weight)  # both may warn, whichever is taken
        between = from_low if weight < 0.5 else high - rest
        results.append(_unless_nan(between, part[(*before, -1)]))
    return results[0] if not several else np.array(results) if axis is None else np.stack(results)


def _percentile(a: Any, q: Any, axis: Any = None) -> Any:
    return _quantiles(a, q, axis, 100)


def _quantile(a: Any, q: Any, axis: Any = None) -> Any:
    return _quantiles(a, q, axis, 1)


def _kron(a: Any, b: Any) -> Any:
    for x in (a, b):
        if not isinstance(x, np.ndarray) or x.ndim == 0 or not x.flags.c_contiguous:
            graph_break("np.kron of such values")
    rank = max(a.ndim, b.ndim)
    outer, inner = (1,) * (rank - a.ndim) + a.shape, (1,) * (rank - b.ndim) + b.shape
    product = a.reshape(tuple([n for i in range(rank) for n in (outer[i], 1)])) * b.reshape(
        tuple([n for i in range(rank) for n in (1, inner[i])])
    )
    return product.reshape(tuple([outer[i] * inner[i] for i in range(rank)]))


def _trace(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    if not isinstance(a, np.ndarray):
        graph_break("np.trace of such values")
    return a.diagonal(offset, axis1, axis2).sum(-1)


def _eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: Any = "C", **more: Any) -> Any:
    for name in more:
        if more[name] is not None or (name != "like" and not (_numpy2 and name == "device")):
            graph_break("np.eye of such arguments")
    if order != "C":
        graph_break("np.eye of such arguments")
    M = N if M is None else M
    for n in (N, M, k):
        if type(n) is not int or not -(2**31) < n < 2**31:
            graph_break("np.eye of such arguments")
    if N < 0 or M < 0:
        graph_break("np.eye of such arguments")
    return (np.arange(k, N + k).reshape(-1, 1) == np.arange(M)).astype(float if dtype is None else dtype)


def _tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *, like: Any = None) -> Any:
    M = N if M is None else M
    for n in (N, M, k):
        if type(n) is not int or not -(2**31) < n < 2**31:
            graph_break("np.tri of such arguments")
    if N < 0 or M < 0 or like is not None:
        graph_break("np.tri of such arguments")
    return (np.arange(N).reshape(-1, 1) >= np.arange(-k, M - k)).astype(dtype)


def _linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, retstep: Any = False, dtype: Any = None, axis: Any = 0,
    *, device: Any = None,
) -> Any:  # fmt: skip
    if retstep or dtype is not None or axis != 0 or device is not None or type(num) is not int or num < 0:
        graph_break("np.linspace with such arguments")
    if not isinstance(start, (int, float)) or not isinstance(stop, (int, float)):
        graph_break("np.linspace of arrays")
    for x in (start, stop):
        if type(x) is int and not -(2**63) <= x < 2**63:
            graph_break("np.linspace of huge numbers")
    first, last = float(start), float(stop)
    count = num - 1 if endpoint else num
    result = np.arange(0, num, dtype=np.float64).reshape(-1)
    delta = last - first
    if count <= 0:
        graph_break("np.linspace with a step of 0")
    if not abs(delta) < 1e300:
        raise ValueError("np.linspace of huge numbers")
    step = delta / count
    if abs(step) * 1e7 < abs(delta):
        raise ValueError("np.linspace with a step that underflows, or with many numbers")
    result *= step
    result += first
    if endpoint and num > 1:
        result[-1, ...] = last
    return result


def _meshgrid(*xi: Any, copy: Any = True, sparse: Any = False, indexing: Any = "xy") -> Any:
    ndim = len(xi)
    if not copy or indexing not in ("xy", "ij") or ndim < 2:
        graph_break("np.meshgrid with such arguments")
    lengths, grids = [], []
    for x in xi:
        if not isinstance(x, np.ndarray) or x.ndim != 1:
            graph_break("np.meshgrid of what is no vector")
        lengths.append(x.shape[0])
    order = list(range(ndim))
    if indexing == "xy":
        order[0], order[1] = 1, 0
    shape = tuple([lengths[i] for i in order])
    for i in range(ndim):
        grid = xi[i].reshape(tuple([-1 if k == i else 1 for k in order]))
        if sparse:
            grids.append(grid.copy())
            continue
        result = np.empty(shape, xi[i].dtype)
        result[...] = grid
        grids.append(result)
    return tuple(grids) if _numpy2 else grids


def _stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    arrays = [np.asanyarray(x) for x in arrays]
    if not arrays:
        graph_break("np.stack of nothing")
    for x in arrays:
        if x.shape != arrays[0].shape:
            graph_break("np.stack of arrays that differ in shape")
    place = (slice(None),) * _normalize_axis_index(axis, arrays[0].ndim + 1) + (None,)
    return np.concatenate([x[place] for x in arrays], axis, out, dtype=dtype, casting=casting)


def _column_stack(tup: Any) -> Any:
    columns = []
    for x in tup:
        if not isinstance(x, np.ndarray) or x.ndim < 1:
            graph_break("np.column_stack of values that are not arrays")
        columns.append(x.reshape(-1, 1) if x.ndim == 1 else x)
    return np.concatenate(columns, 1)


def _append(arr: Any, values: Any, axis: Any = None) -> Any:
    if axis is None:
        return np.concatenate((np.asanyarray(arr).reshape(-1), np.asarray(values).reshape(-1)))
    return np.concatenate((arr, values), axis=axis)


def _array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    total = ary.shape[axis]
    if type(indices_or_sections) is int:
        if indices_or_sections <= 0:
            graph_break("no sections")
        each, extras = divmod(total, indices_or_sections)
        points, at = [0], 0
        for i in range(indices_or_sections):
            at += each + (1 if i < extras else 0)
            points.append(at)
    elif isinstance(indices_or_sections, (list, tuple)):
        points = [0, *indices_or_sections, total]
    else:
        graph_break("np.array_split at what is no list")
    rows = np.swapaxes(ary, axis, 0)
    return [np.swapaxes(rows[points[i] : points[i + 1]], axis, 0) for i in range(len(points) - 1)]


def _diag(v: Any, k: Any = 0) -> Any:
    if not isinstance(v, np.ndarray) or type(k) is not int or v.ndim not in (1, 2):
        graph_break("np.diag of such arguments")
    if v.ndim == 2:
        return v.diagonal(k)
    n = v.shape[0] + abs(k)
    result = np.zeros((n, n), v.dtype)
    result[: n - k].reshape(-1)[k if k >= 0 else -k * n :: n + 1] = v
    return result


def _diagflat(v: Any, k: Any = 0) -> Any:
    return _diag(v.ravel(), k)


def _fill_diagonal(a: Any, val: Any, wrap: Any = False) -> None:
    plain = type(val) is int or (type(val) is float and a.dtype.kind == "f")
    if wrap or not plain or a.ndim != 2 or not a.flags.c_contiguous:
        graph_break("np.fill_diagonal of such arguments")
    a.reshape(-1)[: a.shape[1] * a.shape[1] : a.shape[1] + 1] = val


def _rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> Any:
    if type(k) is not int or m.ndim < 2 or len(axes) != 2:
        graph_break("np.rot90 of such arguments")
    first, second = [_normalize_axis_index(axis, m.ndim) for axis in axes]
    if first == second:
        graph_break("np.rot90 in one axis")
    k %= 4
    if k == 0:
        return m[:]
    if k == 2:
        return np.flip(np.flip(m, first), second)
    order = list(range(m.ndim))
    order[first], order[second] = second, first
    return np.transpose(np.flip(m, second), order) if k == 1 else np.flip(np.transpose(m, order), second)


class _Broadcast:
    """What np.broadcast says of the arrays' common shape."""

    def __init__(self, *args: Any) -> None:
        shape: list[Any] = []
        for own in [np.shape(x) for x in args]:
            shape = [1] * (len(own) - len(shape)) + shape
            for i in range(len(own)):
                at = len(shape) - len(own) + i
                if shape[at] == 1:
                    shape[at] = own[i]
                elif own[i] != 1 and own[i] != shape[at]:
                    graph_break("arrays that do not broadcast")
        self.shape = tuple(shape)
        self.ndim = self.nd = len(shape)


def _broadcast(*args: Any) -> Any:
    return _Broadcast(*args)


def _broadcast_shapes(*args: Any) -> Any:
    return _Broadcast(*[np.empty(shape) for shape in args]).shape


def _unique(
    ar: Any, return_index: Any = False, return_inverse: Any = False, return_counts: Any = False, axis: Any = None, **how: Any
) -> Any:  # fmt: skip
    ar = np.asanyarray(ar)
    if axis is not None:
        graph_break("np.unique along an axis")
    *results, count = _library_functions.unique(ar, return_index, return_inverse, return_counts, **how)
    inverse = results.pop(2 if return_index else 1) if return_inverse else None
    found = [*_library_functions.head(count, *results)]
    if return_inverse:
        found.insert(2 if return_index else 1, inverse.reshape(ar.shape) if _numpy2 else inverse)
    return tuple(found) if len(found) > 1 else found[0]


def _set_function(name: str) -> Callable[..., Any]:
    function = getattr(_library_functions, name)

    def of_sets(ar1: Any, ar2: Any, *args: Any, **keywords: Any) -> Any:
        if name == "union1d" and (isinstance(ar1, (int, float, complex)) or isinstance(ar2, (int, float, complex))):
            graph_break("np.union1d of a number, whose dtype is that of the other argument")
        *results, count = function(np.asanyarray(ar1), np.asanyarray(ar2), *args, **keywords)
        found = _library_functions.head(count, *results)
        return found if len(found) > 1 else found[0]

    return of_sets


def _compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    condition = np.asarray(condition)
    if out is not None or condition.ndim != 1:
        graph_break("np.compress of such arguments")
    return np.take(a, np.flatnonzero(condition), axis)


def _average(a: Any, axis: Any = None, weights: Any = None, returned: Any = False, *, keepdims: Any = False) -> Any:
    a = np.asanyarray(a)
    if weights is None:
        average = a.mean(axis, keepdims=keepdims)
        total = np.asanyarray(average).dtype.type(a.size / np.asanyarray(average).size)
    else:
        weights = np.asanyarray(weights)
        if weights.shape != a.shape:
            if type(axis) is not int or weights.shape != (a.shape[axis],):
                graph_break("np.average with weights of another shape")
            shape = [1] * a.ndim
            shape[axis] = -1
            weights = weights.reshape(tuple(shape))
        of = (a.dtype, weights.dtype, "f8") if a.dtype.kind in "biu" else (a.dtype, weights.dtype)
        dtype = np.result_type(*of)
        total = weights.sum(axis=axis, dtype=dtype, keepdims=keepdims)
        if np.any(total == 0.0):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        average = np.multiply(a, weights, dtype=dtype).sum(axis, keepdims=keepdims) / total
    if not returned:
        return average
    if total.shape != average.shape:
        total = np.broadcast_to(total, average.shape).copy()
    return average, total


def _sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: Any = False, writeable: Any = False
) -> Any:
    windows = tuple(window_shape) if isinstance(window_shape, (tuple, list)) else (window_shape,)
    if axis is None:
        axes = tuple(range(x.ndim))
    else:
        axes = tuple([_normalize_axis_index(i, x.ndim) for i in (axis if isinstance(axis, (tuple, list)) else (axis,))])
    if len(windows) != len(axes) or writeable:
        graph_break("sliding_window_view of such arguments")
    shape = list(x.shape)
    for i, window in zip(axes, windows):  # noqa: B905
        if type(window) is not int or window < 0 or window > shape[i]:
            graph_break("a window that does not fit")
        shape[i] -= window - 1
    return np.lib.stride_tricks.as_strided(x, (*shape, *windows), x.strides + tuple([x.strides[i] for i in axes]))


def _lstsq(a: Any, b: Any, rcond: Any = "warn") -> Any:
    if isinstance(rcond, str):
        if not _numpy2 or rcond != "warn":
            graph_break("np.linalg.lstsq that warns")
        rcond = None
    if a.ndim != 2 or b.ndim not in (1, 2):
        graph_break("np.linalg.lstsq of such arguments")
    solution, residuals, rank, values = _library_functions.lstsq(a, b, rcond)
    if a.shape[0] <= a.shape[1]:
        residuals = np.empty(0, residuals.dtype)
    return solution, residuals, rank, values


def _polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: Any = False, w: Any = None, cov: Any = False) -> Any:
    x = np.asarray(x) + 0.0
    y = np.asarray(y) + 0.0
    if (
        type(deg) is not int
        or deg < 0
        or full
        or cov
        or x.ndim != 1
        or y.ndim not in (1, 2)
        or x.shape[0] != y.shape[0]
    ):
        graph_break("np.polyfit of such arguments")
    if rcond is None:
        rcond = len(x) * np.finfo(x.dtype).eps
    powers = np.vander(x, deg + 1)
    if w is not None:
        w = np.asarray(w) + 0.0
        if w.shape != x.shape:
            graph_break("np.polyfit with such weights")
        powers *= w[:, None]
        y *= w[:, None] if y.ndim == 2 else w
    scale = np.sqrt((powers * powers).sum(axis=0))
    powers /= scale
    coefficients, _, rank, _ = np.linalg.lstsq(powers, y, rcond)
    if rank != deg + 1:
        raise ValueError("np.polyfit warns")
    return (coefficients.T / scale).T


def _histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    counts, x_edges, y_edges = _library_functions.histogram2d(x, y, bins, range, density, weights)
    return counts if density else counts[1:-1, 1:-1], x_edges, y_edges


def _method_compress(a: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    return _compress(condition, a, axis, out)


class _Flat:
    """The elements of an array in C order."""

    def __init__(self, array: Any) -> None:
        self.base = array

    def __len__(self) -> int:
        return self.base.size

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, (slice, np.integer, np.ndarray)) and type(key) is not int:
            graph_break("such an index of x.flat")
        if isinstance(key, np.ndarray) and (key.ndim != 1 or key.dtype.kind not in "bi"):
            graph_break("such an array as an index of x.flat")
        found = self.base.reshape(-1)[key]
        return found.copy() if isinstance(found, np.ndarray) else found

    def __setitem__(self, key: Any, value: Any) -> None:
        if (type(key) is not int and not isinstance(key, slice)) or not isinstance(value, (int, float, np.number)):
            graph_break("such an assignment to x.flat")
        self._elements()[key] = value

    def __iter__(self) -> Any:
        return iter(self._elements())

    def _elements(self) -> Any:
        if not self.base.flags.c_contiguous:
            graph_break("the elements of an array in another order than C")
        return self.base.reshape(-1)


def _flat(array: Any) -> Any:
    return _Flat(array)


class _ArrayConverter:
    """What NumPy's functions ask for the arrays that they are given, where these are arrays."""

    def __init__(self, *args: Any) -> None:
        for x in args:
            if not isinstance(x, np.ndarray) or x.ndim == 0:
                graph_break("a function of NumPy of values that are not arrays")
        self.arrays = args

    def __getitem__(self, i: Any) -> Any:
        return self.arrays[i]

    def __iter__(self) -> Any:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def as_arrays(self, subok: Any = True, pyscalars: Any = None) -> Any:
        return self.arrays

    def wrap(self, arr: Any, /, to_scalar: Any = None) -> Any:
        if to_scalar is not None and not isinstance(arr, np.ndarray):
            graph_break("a result that is not an array")
        return arr


def _array_converter(*args: Any) -> Any:
    return _ArrayConverter(*args)


def _ndenumerate(arr: Any) -> Any:
    return _items_of(np.asarray(arr))


def _items_of(arr: Any) -> Any:
    for place in np.ndindex(arr.shape):
        yield place, arr[place]


_BY_NAME = {
    "ndim": _ndim, "shape": _shape, "size": _size, "roll": _roll, "pad": _pad, "isclose": _isclose, "allclose": _allclose,
    "nanmax": _nan_extreme(np.fmax.reduce), "nanmin": _nan_extreme(np.fmin.reduce), "nanmean": _nanmean, "nanvar": _nanvar, "nanstd": _nanstd, "select": _select, "block": _block, "insert": _insert, "unwrap": _unwrap, "median": _median, "percentile": _percentile, "quantile": _quantile, "trace": _trace, "tri": _tri, "eye": _eye, "kron": _kron, "linspace": _linspace, "meshgrid": _meshgrid,
    "stack": _stack, "column_stack": _column_stack, "append": _append, "array_split": _array_split, "diag": _diag, "diagflat": _diagflat,
    "unique": _unique, "compress": _compress, "average": _average, "histogram2d": _histogram2d, "polyfit": _polyfit, "ndenumerate": _ndenumerate,
    "fill_diagonal": _fill_diagonal, "rot90": _rot90, "broadcast_shapes": _broadcast_shapes, "broadcast": _broadcast,
}  # fmt: skip


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    operator.index: _index,
    _core.multiarray.normalize_axis_index: _normalize_axis_index,
    np.lib.stride_tricks.sliding_window_view: _sliding_window_view,
    np.linalg.lstsq: _lstsq,
    np.ndarray.compress: _method_compress,
    np.ndarray.flat: _flat,
    **{getattr(np, name): function for name, function in _BY_NAME.items()},
    **{getattr(np, name): _set_function(name) for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d")},
    **{f: _array_converter for f in (getattr(_core._multiarray_umath, "_array_converter", None),) if f},  # NumPy 2
    **{f: _constant(f()) for f in (getattr(np, "_using_numpy2_behavior", None),) if f},  # NumPy 1.26
}
