"""Programs and the graphs that they become; the frontend's probes, errstate and inner loops."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from frontend import Capture, Refused, run
from framejit import _core

VERSION = tuple(int(part) for part in np.__version__.split(".")[:2])
F4 = np.ones(3, "f4")
F8 = np.ones((2, 3))
I4 = np.ones(3, "i4")
B = np.ones(3, bool)


def nodes(program, *args) -> list[str]:
    """The operators of the graph, with the dtypes that they give."""
    capture = Capture()
    values = [capture.input(arg, "xyz"[i]) for i, arg in enumerate(args)]
    result = program(capture.np, *values)
    lines = capture.text(*(result if isinstance(result, tuple) else (result,))).splitlines()[1:-2]
    return [f"{line.split()[2]}:{line.split(' : ')[1].split('[')[0]}" for line in lines]


@pytest.mark.parametrize(
    ("program", "args", "expected"),
    [
        (lambda np_, x, y: x + y, (B, B), ["bitwise_or:bool"]),
        (lambda np_, x, y: x * y, (B, B), ["bitwise_and:bool"]),
        (lambda np_, x, y: np_.maximum(x, y), (B, B), ["bitwise_or:bool"]),
        (lambda np_, x: ~x, (B,), ["logical_not:bool"]),
        (lambda np_, x: x.max(), (B,), ["reduce_any:bool"]),
        (lambda np_, x: x.sum(), (B,), ["cast:i64", "reduce_sum:i64"]),
        (lambda np_, x: np_.exp(x), (I4,), ["cast:f64", "exp:f64"]),
        (lambda np_, x: x / x, (I4,), ["cast:f64", "cast:f64", "divide:f64"]),
        (lambda np_, x: x + 1.5, (F4,), ["constant:f32", "add:f32"]),
        (lambda np_, x: x**2, (F4,), ["square:f32"]),
        (lambda np_, x: x**2, (I4,), ["square:i32"]),
        (lambda np_, x: x**0.5, (F8,), ["sqrt:f64"]),
        (lambda np_, x: x**3, (F8,), ["constant:f64", "power:f64"]),
        (lambda np_, x: np_.power(x, 2), (F8,), ["constant:f64", "power:f64"]),
        (lambda np_, x: np_.fmin(x, x), (I4,), ["minimum:i32"]),
        (lambda np_, x: np_.any(x), (F8,), ["cast:bool", "reduce_any:bool"]),
        (lambda np_, x: x.clip(0, None), (F8,), ["constant:f64", "maximum:f64"]),
    ],
)
def test_operators_become(program, args, expected) -> None:
    assert nodes(program, *args) == expected


def test_text() -> None:
    capture = Capture("x.shape[0]")
    x = capture.input(np.ones((4, 3)), "x")
    text = capture.text((x * 2).sum(axis=1))
    assert "%x: f64[s0, 3]" in text
    assert "reduce_sum %2 {axes=[1]} : f64[s0]" in text


def test_one_object_is_one_input() -> None:
    capture = Capture("x.shape[0]", "y.shape[0]")
    array = np.ones((4, 3))
    x, y = capture.input(array, "x"), capture.input(array, "y")
    assert "%y" not in capture.text(x + y)


LIBRARY_CALLS = [
    (lambda np_, x: x @ x.T, (F8,)),
    (lambda np_, x: x[[0, 1]], (F8,)),
    (lambda np_, x: x.sum(dtype="f8"), (np.ones((2, 3), "f4").T,)),
    (lambda np_, x: np_.sum(x, where=True), (F8,)),
    (lambda np_, x: np_.add(x, 1, dtype="f4"), (F8,)),
    (lambda np_, x: np_.sort(x, axis=0), (np.ones((2, 3), "f4").T,)),
    (lambda np_, x: x.argmin(), (F8,)),
    (lambda np_, x: x[:, [0, 1]], (np.ones((4, 3)),)),
    (lambda np_, x: np_.tile(x, 2), (F8,)),
]


@pytest.mark.parametrize(("program", "args"), LIBRARY_CALLS)
def test_library_calls(program, args) -> None:
    found, expected, _ = run(program, *args)
    assert found == expected


REFUSED = [
    (lambda np_, x: x[None, x > 0], (F8,)),
    (lambda np_, x: x - x, (B,)),
    (lambda np_, x: -x, (B,)),
    (lambda np_, x: x & 1.5, (I4,)),
    (lambda np_, x: x**-1, (I4,)),
    (lambda np_, x: x + np_.ones(4), (F4,)),
    (lambda np_, x: x.astype("u4"), (F8,)),
    (lambda np_, x: x.sum(axis=2), (F8,)),
    (lambda np_, x: np_.zeros(np_.argmin(x)), (F8,)),
    (lambda np_, x: np_.mean(x[:0]), (F8,)),
    (lambda np_, x: x.max(), (F8[:0],)),
    (lambda np_, x: x + None, (F8,)),
    (lambda np_, x: x + "a", (F8,)),
]


@pytest.mark.parametrize(("program", "args"), REFUSED)
def test_left_to_numpy(program, args) -> None:
    with pytest.raises(Refused):
        run(program, *args)


def unaligned() -> np.ndarray:
    return np.zeros(3, np.dtype([("a", "i1"), ("b", "f8")]))["b"]


@pytest.mark.parametrize(
    "array",
    [
        np.ones(3, "longlong"),
        np.ones(3, np.longdouble),
        np.ones(3, ">f8"),
        np.ones(3, object),
        np.zeros(3, "M8[s]"),
        np.zeros(3, "i4,f8"),
        np.array(["a"]),
        np.ma.masked_array([1.0]),
        np.ones((2, 2)).view(np.matrix),
        np.ones(3, np.dtype("f8", metadata={"unit": "m"})),
        np.ones(3, np.dtype(("i4", [("low", "<i2"), ("high", "<i2")]))),
        unaligned(),
        np.longdouble(1),
        np.longlong(1),
    ],
    ids=lambda a: f"{type(a).__name__}-{a.dtype}",
)
def test_unsupported_arrays(array) -> None:
    with pytest.raises(_core._FrontendBreak):
        Capture().input(array, "x")


def test_copied_dtypes_are_native() -> None:
    import pickle

    array = pickle.loads(pickle.dumps(np.ones(3, "f4")))  # noqa: S301
    assert run(lambda np_, x: x + 1, array)[0] == ("array", "float32", (3,), (4,))


def test_probe() -> None:
    found = _core._numpy_probe()
    assert found["promotion_known"] and found["sums_known"]
    assert found["pairwise_cut"] == (0 if VERSION >= (2, 3) else 8192)
    assert found["wide_power"] == (VERSION < (2, 3))


INVALID, DIVIDE, OVER, UNDER, INEXACT = 1, 4, 8, 16, 32


def test_errstate() -> None:
    def ignored(flags: int) -> bool:
        return _core._numpy_errstate(flags)[0]

    assert ignored(0) and ignored(INEXACT) and ignored(UNDER | INEXACT)
    assert not ignored(INVALID) and not ignored(DIVIDE) and not ignored(OVER)
    with np.errstate(over="ignore", under="raise"):
        assert ignored(OVER) and not ignored(UNDER) and not ignored(OVER | INVALID)
        with np.errstate(all="ignore"):
            assert ignored(INVALID | DIVIDE | OVER | UNDER)
        assert not ignored(UNDER)
    assert not ignored(OVER) and ignored(UNDER)


def test_buffer_size() -> None:
    assert _core._numpy_errstate(0)[1] == 8192
    old = np.setbufsize(4096)
    try:
        assert _core._numpy_errstate(0)[1] == 4096
        found, expected, _ = run(lambda np_, x: x.sum(), F8)
        assert found == expected
    finally:
        np.setbufsize(old)


def test_loops() -> None:
    assert _core._numpy_loop("exp", "f64", "f64")
    assert _core._numpy_loop("exp", "f32", "f32") != _core._numpy_loop("exp", "f64", "f64")
    assert _core._numpy_loop("less", "f32", "bool")
    assert _core._numpy_loop("arctan2", "f64", "f64")
    assert not _core._numpy_loop("exp", "i32", "f64")
    assert not _core._numpy_loop("reduce_sum", "f64", "f64")


def test_scipy_loops() -> None:
    special = pytest.importorskip("scipy.special")
    assert _core._numpy_loop("erf", "f64", "f64")
    assert _core._numpy_loop("ndtr", "f32", "f32")
    assert _core._numpy_loop("gamma", "f32", "f32")
    assert _core._numpy_loop("xlogy", "f64", "f64")
    # SciPy's versions differ in the order of their loops, and so in what they make of small integers.
    for dtype in ("f4", "f8", "?", "i1", "u2", "i4", "i8"):
        x = np.ones(3, dtype)
        value = Capture().input(x, "x")
        expected = f"numpy.{special.erf(x).dtype}"
        assert value.capture.call(special.erf, (value,), {}).describe()[:2] == ("array", expected)


UFUNCS = sorted({f.__name__: f for f in vars(np).values() if isinstance(f, np.ufunc) and f.nin <= 2 and f.nout == 1})


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_of_floats_and_numbers(name) -> None:
    """Their loops are known without asking NumPy, but not of those that take integers beside floats."""
    ufunc = getattr(np, name)
    for x in (F4, F8[0]):
        for other in ((),) if ufunc.nin == 1 else ((x,), (2,), (2.5,), (np.float32(2),), (F8[0],)):
            try:
                found, expected, _ = run(lambda np_, x, *other: getattr(np_, name)(x, *other), x, *other)
            except Refused:
                continue
            assert found == expected


def test_short_sums_are_known_before_long_ones() -> None:
    program = """
import numpy as np
from framejit import _core, jit
assert jit(lambda x: (x * 2.0).sum())(np.ones(100)) == 200.0
assert jit(lambda x: (x * 2.0).sum(axis=1))(np.ones((3, 9000))).tolist() == [18000.0] * 3
old = np.setbufsize(4096)
assert jit(lambda x: (x * 3.0).sum())(np.ones(100)) == 300.0
np.setbufsize(old)
assert _core._numpy_probe()["sums_known"]
"""
    subprocess.run([sys.executable, "-c", program], check=True)


NAMES = """
import numpy as np
from framejit import _core, jit

real = np.where
np.where = lambda c, a, b: "another"
a = np.arange(6.0)
assert jit(lambda x: np.where(x > 1.0, x, 0.0))(a) == "another"
assert jit(lambda x: real(x > 1.0, x, 0.0) * 2.0)(a).tolist() == [0.0, 0.0, 4.0, 6.0, 8.0, 10.0]
np.where = real

def way(function):
    return _core._numpy_way(function)[0]

def clip(a, low, high):
    raise AssertionError("not NumPy's")

clip.__module__ = "numpy"
assert way(clip) == ""
assert way(lambda x: x) == ""
for function in (np.clip, np.concatenate, np.max, np.amax, np.sum, np.add, np.radians, np.lib.stride_tricks.as_strided):
    assert way(function) != "", function
a_max = jit(lambda x: np.amax(x * 2.0) + np.max(x))
assert a_max(a) == 15.0
assert way(np.float32) != ""
"""


def test_functions_are_known_by_identity_not_by_name() -> None:
    subprocess.run([sys.executable, "-c", NAMES], check=True)
