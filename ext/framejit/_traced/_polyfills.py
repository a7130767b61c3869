"""Python spellings of functions and iterators that CPython has in C, for capture to follow; never called as they stand.

Each does what the C one does, in the same order, with the same arguments where these are right; for wrong ones capture
gives up and the C one raises.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from framejit._api._control import graph_break
from framejit._api._platform import connections, core
from framejit._traced import _library_functions
from framejit._traced._numpy_functions import FUNCTIONS

_MISSING = object()


def _check_counts(*values: Any) -> None:
    """What C refuses at the call is refused by C, not where the first item is asked for."""
    for value in values:
        if not isinstance(value, int) or value < 0:
            graph_break("wrong arguments")


def _chain(*iterables: Iterable[Any]) -> Iterator[Any]:
    for iterable in iterables:
        yield from iterable


def _chain_from_iterable(iterables: Iterable[Iterable[Any]], /) -> Iterator[Any]:
    return _chain_of(iter(iterables))


def _chain_of(iterables: Iterator[Iterable[Any]]) -> Iterator[Any]:
    for iterable in iterables:
        yield from iterable


def _count(start: Any = 0, step: Any = 1) -> Iterator[Any]:
    for value in (start, step):
        if not isinstance(value, (int, float, complex)):
            graph_break("wrong arguments")
    if isinstance(start, int) and isinstance(step, int) and step == 1:
        start = int(start)  # True and its like are counted on as ints from the first
    return _count_from(start, step)


def _count_from(start: Any, step: Any) -> Iterator[Any]:
    while True:
        yield start
        start = start + step


def _repeat(object: Any, times: Any = _MISSING) -> Iterator[Any]:
    if times is not _MISSING and not isinstance(times, int):
        graph_break("wrong arguments")
    return _repeat_of(object, times)


def _repeat_of(object: Any, times: Any) -> Iterator[Any]:
    while times is _MISSING or times > 0:
        if times is not _MISSING:
            times -= 1
        yield object


def _cycle(iterable: Iterable[Any], /) -> Iterator[Any]:
    return _cycle_of(iter(iterable))


def _cycle_of(iterator: Iterator[Any]) -> Iterator[Any]:
    saved = []
    for item in iterator:
        saved.append(item)
        yield item
    while saved:
        yield from saved


def _islice(iterable: Iterable[Any], start: Any, stop: Any = _MISSING, step: Any = None, /) -> Iterator[Any]:
    if stop is _MISSING:
        start, stop = 0, start
    start = 0 if start is None else start
    step = 1 if step is None else step
    _check_counts(start, 0 if stop is None else stop, step - 1)
    return _islice_of(iter(iterable), start, stop, step)


def _islice_of(iterator: Iterator[Any], wanted: int, stop: int | None, step: int) -> Iterator[Any]:
    at = 0
    while stop is None or wanted < stop:
        for item in iterator:
            at += 1
            if at > wanted:
                break
        else:
            return
        wanted += step
        yield item
    while stop is not None and at < stop:
        for item in iterator:
            at += 1
            break
        else:
            return


def _accumulate(iterable: Iterable[Any], func: Any = None, *, initial: Any = None) -> Iterator[Any]:
    return _accumulate_of(iter(iterable), func, initial)


def _accumulate_of(iterator: Iterator[Any], func: Any, total: Any) -> Iterator[Any]:
    if total is None:
        for total in iterator:
            break
        else:
            return
    yield total
    for item in iterator:
        total = total + item if func is None else func(total, item)
        yield total


def _product(*iterables: Iterable[Any], repeat: int = 1) -> Iterator[tuple[Any, ...]]:
    _check_counts(repeat)
    rows: list[tuple[Any, ...]] = [()]
    for pool in [tuple(iterable) for iterable in iterables] * repeat:
        rows = [(*row, item) for row in rows for item in pool]
    return _each(rows)


def _each(items: list[Any]) -> Iterator[Any]:
    yield from items


def _zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> Iterator[tuple[Any, ...]]:
    return _zip_longest_of([iter(iterable) for iterable in iterables], fillvalue)


def _zip_longest_of(iterators: list[Any], fillvalue: Any) -> Iterator[tuple[Any, ...]]:
    left = len(iterators)
    while left:
        row = []
        for i, iterator in enumerate(iterators):
            item = fillvalue
            if iterator is not None:
                for item in iterator:
                    break
                else:
                    left -= 1
                    if not left:
                        return
                    iterators[i] = None
                    item = fillvalue
            row.append(item)
        yield tuple(row)


def _pairwise(iterable: Iterable[Any], /) -> Iterator[tuple[Any, Any]]:
    return _pairwise_of(iter(iterable))


def _pairwise_of(iterator: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
    for before in iterator:
        break
    else:
        return
    for item in iterator:
        yield before, item
        before = item


def _starmap(function: Callable[..., Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    return _starmap_of(function, iter(iterable))


def _starmap_of(function: Callable[..., Any], iterator: Iterator[Any]) -> Iterator[Any]:
    for args in iterator:
        yield function(*args)


def _takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    return _takewhile_of(predicate, iter(iterable))


def _takewhile_of(predicate: Callable[[Any], Any], iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not predicate(item):
            return
        yield item


def _dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    return _dropwhile_of(predicate, iter(iterable))


def _dropwhile_of(predicate: Callable[[Any], Any], iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not predicate(item):
            yield item
            break
    yield from iterator


def _filter(function: Any, iterable: Iterable[Any], /) -> Iterator[Any]:
    return _filter_of(function, iter(iterable))


def _filter_of(function: Any, iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if item if function is None or function is bool else function(item):
            yield item


def _filterfalse(function: Any, iterable: Iterable[Any], /) -> Iterator[Any]:
    return _filterfalse_of(function, iter(iterable))


def _filterfalse_of(function: Any, iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not (item if function is None or function is bool else function(item)):
            yield item


def _compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    return _compress_of(iter(data), iter(selectors))


def _compress_of(data: Iterator[Any], selectors: Iterator[Any]) -> Iterator[Any]:
    for item, selected in zip(data, selectors):  # noqa: B905
        if selected:
            yield item


def _combinations(iterable: Iterable[Any], r: int) -> Iterator[tuple[Any, ...]]:
    _check_counts(r)
    return _combinations_of(tuple(iterable), r)


def _combinations_of(pool: tuple[Any, ...], r: int) -> Iterator[tuple[Any, ...]]:
    n = len(pool)
    if r > n:
        return
    places = list(range(r))
    yield tuple([pool[i] for i in places])
    while True:
        for i in reversed(range(r)):
            if places[i] != i + n - r:
                break
        else:
            return
        places[i] += 1
        for j in range(i + 1, r):
            places[j] = places[j - 1] + 1
        yield tuple([pool[i] for i in places])


def _permutations(iterable: Iterable[Any], r: int | None = None) -> Iterator[tuple[Any, ...]]:
    pool = tuple(iterable)
    r = len(pool) if r is None else r
    _check_counts(r)
    rows: list[tuple[int, ...]] = [()]
    for _ in range(r):
        rows = [(*row, i) for row in rows for i in range(len(pool)) if i not in row]
    return _each([tuple([pool[i] for i in row]) for row in rows])


def _zip(*iterables: Iterable[Any], strict: bool = False) -> Iterator[tuple[Any, ...]]:
    pools = [iter(iterable) for iterable in iterables]
    return _zip_strict(pools) if strict else zip(*pools)  # noqa: B905


def _zip_strict(pools: list[Iterator[Any]]) -> Iterator[tuple[Any, ...]]:
    while pools:
        row = []
        for pool in pools:
            item = next(pool, _MISSING)
            if item is not _MISSING:
                row.append(item)
            elif row:
                graph_break("zip() of different lengths")
        if not row:
            return
        if len(row) != len(pools):
            graph_break("zip() of different lengths")
        yield tuple(row)


def _reduce(function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = _MISSING, /) -> Any:
    iterator = iter(iterable)
    if initial is _MISSING:
        for initial in iterator:  # noqa: B007
            break
        else:
            raise TypeError("reduce() of empty iterable with no initial value")
    for item in iterator:
        initial = function(initial, item)
    return initial


def _min(*args: Any, key: Any = None, default: Any = _MISSING) -> Any:
    if default is not _MISSING and len(args) != 1:
        graph_break("wrong arguments")
    if len(args) == 1 and key is None and isinstance(args[0], np.ndarray) and len(args[0]):
        return _extreme(args[0], np.argmin, np.min)
    if len(args) > 1:
        best, best_key = args[0], args[0] if key is None else key(args[0])
        for item in args[1:]:
            item_key = item if key is None else key(item)
            if item_key < best_key:
                best, best_key = item, item_key
        return best
    best, best_key = _MISSING, None
    for item in args[0]:
        item_key = item if key is None else key(item)
        if best is _MISSING or item_key < best_key:
            best, best_key = item, item_key
    if best is _MISSING:
        if default is _MISSING:
            raise ValueError("min() arg is an empty sequence")
        return default
    return best


def _max(*args: Any, key: Any = None, default: Any = _MISSING) -> Any:
    if default is not _MISSING and len(args) != 1:
        graph_break("wrong arguments")
    if len(args) == 1 and key is None and isinstance(args[0], np.ndarray) and len(args[0]):
        return _extreme(args[0], np.argmax, np.max)
    if len(args) > 1:
        best, best_key = args[0], args[0] if key is None else key(args[0])
        for item in args[1:]:
            item_key = item if key is None else key(item)
            if item_key > best_key:
                best, best_key = item, item_key
        return best
    best, best_key = _MISSING, None
    for item in args[0]:
        item_key = item if key is None else key(item)
        if best is _MISSING or item_key > best_key:
            best, best_key = item, item_key
    if best is _MISSING:
        if default is _MISSING:
            raise ValueError("max() arg is an empty sequence")
        return default
    return best


def _extreme(array: Any, of_floats: Any, of_others: Any) -> Any:
    """The first of the greatest or least elements."""
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        graph_break("max() or min() of an array with several axes, or of another dtype")
    if array.dtype.kind != "f":
        return of_others(array)
    best = array[of_floats(array)]
    if best != best:
        raise ValueError("a NaN, whose place in the array matters")
    return best


def _sorted(iterable: Iterable[Any], /, *, key: Any = None, reverse: Any = False) -> list[Any]:
    if (
        key is not None
        or not isinstance(iterable, np.ndarray)
        or iterable.ndim != 1
        or iterable.dtype.kind not in "biuf"
    ):
        graph_break("sorted() of values that are known only at run time")
    if (iterable != iterable).any():
        raise ValueError("a NaN, whose place in the array matters")
    ordered = np.sort(iterable[::-1] if reverse else iterable, kind="stable")
    return list(ordered[::-1] if reverse else ordered)


def _round(number: Any, ndigits: Any = None) -> Any:
    if not isinstance(number, (float, int, np.number)):
        graph_break("round() of what is no number")
    return _library_functions.rounded(number, ndigits)


def _sum(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    return sum(iterable, start)


def _prod(iterable: Iterable[Any], /, *, start: Any = 1) -> Any:
    for item in iterable:
        if not isinstance(item, int):  # floats are multiplied in C
            graph_break("a product of floats")
        start = start * item
    return start


def _itemgetter(item: Any, /, *items: Any) -> Callable[[Any], Any]:
    if items:
        return lambda obj, /: tuple([obj[each] for each in (item, *items)])
    return lambda obj, /: obj[item]


def _attrgetter(attr: str, /, *attrs: str) -> Callable[[Any], Any]:
    for each in (attr, *attrs):
        if not isinstance(each, str):
            graph_break("wrong arguments")
    if attrs:
        return lambda obj, /: tuple([_get(obj, each) for each in (attr, *attrs)])
    return lambda obj, /: _get(obj, attr)


def _get(obj: Any, path: str) -> Any:
    for name in path.split("."):
        obj = getattr(obj, name)
    return obj


def _methodcaller(name: str, /, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    if not isinstance(name, str):
        graph_break("wrong arguments")
    return lambda obj, /: getattr(obj, name)(*args, **kwargs)


def _fromkeys(iterable: Iterable[Any], value: Any = None, /) -> dict[Any, Any]:
    return {key: value for key in iterable}  # noqa: C420


def _binary(symbol: str) -> Callable[[Any, Any], Any]:
    return eval(f"lambda a, b, /: a {symbol} b", {"__name__": __name__})


POLYFILLS: dict[Any, Callable[..., Any]] = {
    itertools.chain: _chain,
    itertools.chain.__dict__["from_iterable"]: _chain_from_iterable,
    itertools.count: _count,
    itertools.repeat: _repeat,
    itertools.cycle: _cycle,
    itertools.islice: _islice,
    itertools.accumulate: _accumulate,
    itertools.product: _product,
    itertools.zip_longest: _zip_longest,
    itertools.pairwise: _pairwise,
    itertools.starmap: _starmap,
    itertools.takewhile: _takewhile,
    itertools.dropwhile: _dropwhile,
    itertools.filterfalse: _filterfalse,
    itertools.compress: _compress,
    itertools.combinations: _combinations,
    itertools.permutations: _permutations,
    filter: _filter,
    zip: _zip,
    functools.reduce: _reduce,
    min: _min,
    max: _max,
    sum: _sum,
    sorted: _sorted,
    round: _round,
    math.prod: _prod,
    dict.__dict__["fromkeys"]: _fromkeys,
    operator.itemgetter: _itemgetter,
    operator.attrgetter: _attrgetter,
    operator.methodcaller: _methodcaller,
    operator.getitem: lambda a, b, /: a[b],
    operator.neg: lambda a, /: -a,
    operator.pos: lambda a, /: +a,
    operator.not_: lambda a, /: not a,
    operator.truth: lambda a, /: bool(a),
    operator.is_: lambda a, b, /: a is b,
    operator.is_not: lambda a, b, /: a is not b,
    operator.contains: lambda a, b, /: b in a,
    **{
        getattr(operator, name): _binary(symbol)
        for name, symbol in {
            "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
            "matmul": "@", "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
            "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
        }.items()
    },
}  # fmt: skip


def connect(compiled: Any) -> None:
    """Tell the compiled half what is followed instead of other functions."""
    compiled.set_polyfills({**POLYFILLS, **FUNCTIONS})


connections.append(connect)
if core is not None:
    connect(core)
