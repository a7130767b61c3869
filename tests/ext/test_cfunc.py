"""cfunc: functions of C that run compiled, or call Python, with the same results."""

from __future__ import annotations

import ctypes
import gc
import math
import random
import struct
import sys
import threading
import weakref

import framejit as fj
import numpy as np
import pytest
from framejit import _core

pytestmark = pytest.mark.capture


def bits(x: float) -> bytes:
    return struct.pack("d", x)


SCALE = 2.5


@pytest.mark.parametrize("function", [
    lambda x: x * x + SCALE,
    lambda x: math.sin(x) * math.exp(-x) if x > 0.5 else -x,
    lambda x: x**3 - x // 1.5 + x % 0.25,
    lambda x: abs(x) if x < 1 else 2.0,
    lambda x: x,
    lambda x: 1.25,
    lambda x: int(x) * 2,
    lambda x: x > 1,
])  # fmt: skip
def test_numbers(function):
    compiled = fj.cfunc("double(double)")(function)
    rng = random.Random(3)
    for x in [0.0, -0.0, 1.0, 0.5, 1e100, -1e-300, *(rng.uniform(-3, 3) for _ in range(50))]:
        assert bits(compiled.ctypes(x)) == bits(float(function(x))), x
    assert compiled.is_compiled, compiled.reason
    assert compiled.reason == ""
    assert compiled(0.25) == function(0.25)  # from Python too


def test_other_types():
    @fj.cfunc("int(int a, long b, float c, double d)")
    def mixed(a, b, c, d):
        total = a * 3 - b
        for i in range(a):
            total += i * 2
        return total + int(c * d)

    for a, b, c, d in [(3, 10, 0.5, 8.0), (-7, 2**40, -1.0, 3.0), (0, -5, 1.5, 1e6)]:
        expected = mixed.__wrapped__(a, b, c, d)
        if -(2**31) <= expected < 2**31:
            assert mixed.ctypes(a, b, c, d) == expected
    assert mixed.is_compiled, mixed.reason

    half = fj.cfunc("float(float)")(lambda x: x / 3)
    assert half.ctypes(1.0) == float(np.float32(1.0 / 3.0))
    assert half.is_compiled


def test_void_and_addresses():
    seen = []
    note = fj.cfunc("void(void* where, double x)")(lambda where, x: seen.append((where, x)))
    assert note.ctypes(None, 1.5) is None
    assert note.ctypes(0xFFFF_FFFF_FFFF_FFF0, -2.0) is None
    assert seen == [(0, 1.5), (0xFFFF_FFFF_FFFF_FFF0, -2.0)]
    assert not note.is_compiled
    assert note.reason


def test_arrays():
    @fj.cfunc("double(int n, const double x[n], double out[2])")
    def moments(n, x, out):
        total = 0.0
        for i in range(n):
            total += x[i]
        mean = total / n
        spread = 0.0
        for i in range(n):
            spread += (x[i] - mean) ** 2
        out[0] = mean
        out[1] = spread
        return total

    rng = np.random.default_rng(5)
    for n in (1, 2, 17, 300):
        x = rng.normal(size=n)
        out, expected = np.zeros(2), np.zeros(2)
        pointer = ctypes.POINTER(ctypes.c_double)
        got = moments.ctypes(n, x.ctypes.data_as(pointer), out.ctypes.data_as(pointer))
        assert bits(got) == bits(moments.__wrapped__(n, x, expected))
        assert out.tobytes() == expected.tobytes()
    assert moments.is_compiled, moments.reason


def test_stores_are_taken_back():
    """What the machine code has stored before it leaves for the interpreter must not be seen by the Python function."""

    @fj.cfunc("double(int n, double x[n], double by)")
    def accumulate(n, x, by):
        for i in range(n):
            x[i] += 1.0
        return x[0] / by + math.log(by)

    pointer = ctypes.POINTER(ctypes.c_double)
    calls = []
    for by in (2.0, 4.0, 0.0, 3.0):
        x, expected = np.arange(5.0), np.arange(5.0)
        try:
            with np.errstate(all="ignore"):
                wanted = accumulate.__wrapped__(5, expected, by)
        except ValueError:
            wanted = math.nan
        except ZeroDivisionError:
            wanted = math.nan
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "unraisablehook", lambda args: calls.append(args.exc_type))
            with np.errstate(all="ignore"):
                got = accumulate.ctypes(5, x.ctypes.data_as(pointer), by)
        assert bits(got) == bits(wanted) or (math.isnan(got) and math.isnan(wanted))
        assert x.tobytes() == expected.tobytes(), by
    assert accumulate.is_compiled
    assert calls == [ValueError]  # math.log(0.0); x[0] / 0.0 is inf, as x[0] is a number of NumPy


def test_stores_into_lists():
    """Stores that could not be taken back are left to Python."""
    sums = [0.0, 0.0]

    def count(x, sums=sums):
        sums[0] += x
        return sums[0] / x

    native = fj.cfunc("double(double)")(count)
    assert native.ctypes(2.0) == 1.0
    assert native.ctypes(0.5) == 5.0
    assert sums == [2.5, 0.0]

    with_global = fj.cfunc("double(double x, double out[1])")(store_both)
    out = (ctypes.c_double * 1)(0.0)
    assert with_global.ctypes(3.0, out) == 3.0
    assert with_global.ctypes(4.0, out) == 7.0
    assert (out[0], TOTALS[0]) == (4.0, 7.0)


TOTALS = [0.0]


def store_both(x, out):
    out[0] = x
    TOTALS[0] = TOTALS[0] + x
    return TOTALS[0]


def test_errors_in_python(monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: raised.append(type(args.exc_value)))
    assert math.isnan(fj.cfunc("double(double)")(lambda x: 1 / 0).ctypes(1.0))
    assert math.isnan(fj.cfunc("double(double)")(lambda x: "text").ctypes(1.0))
    assert fj.cfunc("int(int)")(lambda n: n + 2**40).ctypes(1) == 0
    assert fj.cfunc("int(double)")(lambda x: x).ctypes(1.0) == 0
    assert raised == [ZeroDivisionError, TypeError, OverflowError, TypeError]


def test_globals_that_change():
    function = fj.cfunc("double(double)")(lambda x: x * SCALE)
    assert function.ctypes(2.0) == 5.0
    global SCALE
    before = SCALE
    try:
        SCALE = 3.0
        assert function.ctypes(2.0) == 6.0
        SCALE = 7  # of another type
        assert function.ctypes(2.0) == 14.0
        SCALE = -1.0
        assert function.ctypes(2.0) == -2.0
        for SCALE in range(20):
            assert function.ctypes(2.0) == 2.0 * SCALE
    finally:
        SCALE = before


def test_tools_see_the_function():
    function = fj.cfunc("double(double)")(lambda x: x + 1.0)
    assert function.ctypes(1.0) == 2.0
    assert function.is_compiled
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_name) if event == "call" else None)
    try:
        function.ctypes(1.0)
    finally:
        sys.setprofile(None)
    assert "<lambda>" in seen


def test_changed_code():
    def function(x):
        return x + 1.0

    native = fj.cfunc("double(double)")(function)
    assert native.ctypes(1.0) == 2.0
    native._function.__code__ = (lambda x: x - 1.0).__code__
    assert [native.ctypes(1.0) for _ in range(3)] == [0.0] * 3
    assert native.is_compiled


def test_threads():
    function = fj.cfunc("double(double)")(lambda x: math.cos(x) * x)
    wrong = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(400):
            x = rng.uniform(-5, 5)
            if bits(function.ctypes(x)) != bits(math.cos(x) * x):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_of_itself():
    @fj.cfunc("double(double)")
    def outer(x):
        return 1.0 if x <= 0 else outer.ctypes(x - 1.0) * 2.0

    assert outer.ctypes(5.0) == 32.0


def test_lifetime():
    def make() -> tuple[weakref.ref, weakref.ref, object]:
        def function(x):
            return x * 2.0

        native = fj.cfunc("double(double)")(function)
        assert native.ctypes(2.0) == 4.0
        return weakref.ref(function), weakref.ref(native._native), native.ctypes

    function, native, pointer = make()
    gc.collect()
    assert pointer(4.0) == 8.0  # what ctypes has keeps it
    del pointer
    gc.collect()
    assert native() is None
    assert function() is None


@pytest.mark.parametrize(("signature", "text"), [
    ("double", "must be like 'double(double)'"),
    ("double(quad)", "has a parameter of type 'quad'; there are double, float64"),
    ("complex(double)", "has the result 'complex'; there are"),
    ("double(double*)", "write how many elements there are, as in 'double x[n]'"),
    ("double(double x[])", "write how many elements there are"),
    ("double(double x[n])", "but no parameter 'n'"),
    ("double(double n, double x[n])", "has an array 'x' whose length is no integer"),
    ("double(double ** x)", "no declaration of C"),
    ("double(int, int, int, int, int, int, int)", "has too many parameters"),
])  # fmt: skip
def test_wrong_signatures(signature, text):
    with pytest.raises(ValueError, match=r"For 'cfunc', the 'signature' ") as error:
        fj.cfunc(signature)
    assert text in str(error.value)


def test_wrong_arguments():
    with pytest.raises(TypeError, match="the 'signature' must be a str such as"):
        fj.cfunc(lambda x: x)
    with pytest.raises(TypeError, match="what is decorated must be a function, but got <built-in function sin>"):
        fj.cfunc("double(double)")(math.sin)
    with pytest.raises(TypeError, match=r"has 2 parameters, but test_wrong_arguments.<locals>.<lambda>\(\) takes 1"):
        fj.cfunc("double(double, double)")(lambda x: x)


def test_quad():
    integrate = pytest.importorskip("scipy.integrate")
    scipy = pytest.importorskip("scipy")

    def function(x):
        return math.exp(-x * x) * math.cos(3.0 * x)

    native = fj.cfunc("double(double)")(function)
    plain = integrate.quad(function, -2.0, 3.0)
    assert integrate.quad(native, -2.0, 3.0) == plain  # as a plain callable
    assert integrate.quad(scipy.LowLevelCallable(native.ctypes), -2.0, 3.0) == plain
    assert native.is_compiled, native.reason

    weighted = fj.cfunc("double(int n, double x[n])")(lambda n, x: math.exp(-x[0] * x[1]) * x[2])
    expected = integrate.quad(lambda x, a, b: math.exp(-x * a) * b, 0.0, 2.0, args=(1.5, 0.25))
    assert integrate.quad(scipy.LowLevelCallable(weighted.ctypes), 0.0, 2.0, args=(1.5, 0.25)) == expected
    assert weighted.is_compiled, weighted.reason


def test_generic_filter():
    ndimage = pytest.importorskip("scipy.ndimage")
    scipy = pytest.importorskip("scipy")

    def spread(values):
        low = high = values[0]
        total = 0.0
        for v in values:
            if v < low:
                low = v
            if v > high:
                high = v
            total += v * v
        return (high - low) / (1.0 + total)

    @fj.cfunc("int(double values[n], npy_intp n, double result[1], void* data)")
    def native(values, n, result, data):
        low = high = values[0]
        total = 0.0
        for v in values:
            if v < low:
                low = v
            if v > high:
                high = v
            total += v * v
        result[0] = (high - low) / (1.0 + total)
        return 1

    image = np.random.default_rng(1).normal(size=(20, 30))
    plain = ndimage.generic_filter(image, spread, size=3)
    compiled = ndimage.generic_filter(image, scipy.LowLevelCallable(native.ctypes), size=3)
    assert plain.tobytes() == compiled.tobytes()
    assert native.is_compiled, native.reason

    failing = fj.cfunc("int(double values[n], npy_intp n, double result[1], void* data)")(
        lambda values, n, result, data: 1 // 0
    )
    with pytest.raises(ZeroDivisionError):
        ndimage.generic_filter(image, scipy.LowLevelCallable(failing.ctypes), size=3)


def test_geometric_transform():
    ndimage = pytest.importorskip("scipy.ndimage")
    scipy = pytest.importorskip("scipy")

    @fj.cfunc("int(npy_intp to[to_rank], double from_[from_rank], int to_rank, int from_rank, void* data)")
    def shift(to, from_, to_rank, from_rank, data):
        for i in range(from_rank):
            from_[i] = to[i] - 0.5 * (i + 1)
        return 1

    image = np.arange(24.0).reshape(4, 6)
    plain = ndimage.geometric_transform(image, lambda to: (to[0] - 0.5, to[1] - 1.0))
    compiled = ndimage.geometric_transform(image, scipy.LowLevelCallable(shift.ctypes))
    assert plain.tobytes() == compiled.tobytes()
    assert shift.is_compiled, shift.reason


def test_nothing_went_wrong():
    assert _core.stats()["internal_errors"] == 0
