"""Compare a marked function with the unmarked one in everything that a program can see."""

from __future__ import annotations

import copy
import traceback
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

import framejit


@dataclass
class Seen:
    """What one call did."""

    result: Any = None
    error: tuple | None = None
    warned: list = field(default_factory=list)
    args: tuple = ()


def observe(function: Callable, args: tuple, errstate: dict | None = None) -> Seen:
    """Call `function` and note result, exception with its lines, and warnings with theirs."""
    seen = Seen(args=args)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if errstate is None:
                seen.result = function(*args)
            else:
                with np.errstate(**errstate):
                    seen.result = function(*args)
        except Exception as error:
            lines = [
                (f.filename, f.lineno, f.name)
                for f in traceback.extract_tb(error.__traceback__)
                if f.filename != __file__
            ]
            seen.error = (type(error), str(error), lines)
    own = framejit.RecompileLimitWarning
    seen.warned = [(w.category, str(w.message), w.filename, w.lineno) for w in caught if w.category is not own]
    return seen


def bits(array: np.ndarray) -> bytes:
    """The elements in C order as bytes, every NaN made the same one."""
    flat = np.array(array, order="C", copy=True)
    if flat.dtype.kind == "c":
        flat = flat.reshape(-1).view(flat.real.dtype)  # each part by itself
    if flat.dtype.kind in "fc":
        flat = np.where(np.isnan(flat), flat.dtype.type(np.nan), flat)
    return flat.tobytes()


def arrays_in(value: Any) -> list[np.ndarray]:
    """The arrays of a nest of containers, in order."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [array for item in value for array in arrays_in(item)] if isinstance(value, (tuple, list)) else []


def sharing(arrays: list[np.ndarray]) -> dict:
    """By the numbers of two arrays: whether they are one object or one is the other's base, and how far apart they lie in the same memory."""
    starts = [array.__array_interface__["data"][0] for array in arrays]
    return {
        (i, j): (a is arrays[j], a.base is arrays[j], arrays[j].base is a, starts[i] - starts[j])
        for i, a in enumerate(arrays)
        for j in range(i)
        if a is arrays[j] or (a.size and np.may_share_memory(a, arrays[j]))
    }


def assert_same_value(expected: Any, actual: Any, what: str = "result") -> None:
    """Types, dtypes, shapes, strides, bits; containers item by item."""
    assert type(actual) is type(expected), f"{what}: {type(actual)} for {type(expected)}"
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected), what
        for i, (e, a) in enumerate(zip(expected, actual)):
            assert_same_value(e, a, f"{what}[{i}]")
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), what
        for key in expected:
            assert_same_value(expected[key], actual[key], f"{what}[{key!r}]")
    elif isinstance(expected, np.ndarray):
        assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype} for {expected.dtype}"
        assert actual.shape == expected.shape, f"{what}: shape {actual.shape} for {expected.shape}"
        assert actual.strides == expected.strides, f"{what}: strides {actual.strides} for {expected.strides}"
        with warnings.catch_warnings():  # of what np.broadcast_arrays gives
            warnings.simplefilter("ignore")
            assert actual.flags.writeable == expected.flags.writeable, f"{what}: writeable"
        assert actual.flags.owndata == expected.flags.owndata, f"{what}: owndata {actual.flags.owndata}"
        assert (actual.base is None) == (expected.base is None), f"{what}: base {type(actual.base)}"
        if bits(actual) != bits(expected):
            with np.errstate(all="ignore"):
                differ = ~((actual == expected) | ((actual != actual) & (expected != expected)))
            where = np.argwhere(differ)[:3].tolist()
            raise AssertionError(f"{what}: bits differ at {where}: {actual!r} for {expected!r}")
    elif isinstance(expected, np.generic):
        assert bits(np.asarray(actual)) == bits(np.asarray(expected)), f"{what}: {actual!r} for {expected!r}"
    elif isinstance(expected, (float, complex)):
        assert bits(np.asarray(actual)) == bits(np.asarray(expected)), f"{what}: {actual!r} for {expected!r}"
    else:
        assert actual == expected, f"{what}: {actual!r} for {expected!r}"


def assert_same_seen(expected: Seen, actual: Seen, what: str) -> None:
    """Everything that the two calls did."""
    assert actual.error == expected.error, f"{what}: {actual.error} for {expected.error}"
    assert actual.warned == expected.warned, f"{what}: {actual.warned} for {expected.warned}"
    assert_same_value(expected.args, actual.args, f"{what}: argument")
    assert_same_value(expected.result, actual.result, f"{what}: result")
    expected_arrays, actual_arrays = arrays_in((expected.args, expected.result)), arrays_in((actual.args, actual.result))
    assert sharing(actual_arrays) == sharing(expected_arrays), f"{what}: aliasing"


def assert_same(
    function: Callable, make_args: Callable[[], tuple], errstate: dict | None = None, calls: int = 3, **jit_arguments
) -> Callable:
    """Eager against marked, on fresh arguments each call; the later calls hit what the first compiled."""
    marked = framejit.jit(function, **jit_arguments)
    errors = framejit.stats()["internal_errors"]
    for call in range(calls):
        expected = observe(function, make_args(), errstate)
        actual = observe(marked, make_args(), errstate)
        assert_same_seen(expected, actual, f"call {call}")
    assert framejit.stats()["internal_errors"] == errors
    return marked


def same_call(function: Callable, marked: Callable, args: tuple) -> None:
    """One call of each, on copies of the arguments."""
    expected, actual = observe(function, copy.deepcopy(args)), observe(marked, copy.deepcopy(args))
    assert_same_seen(expected, actual, "call")
