"""The risk of calling NumPy loops: the inner loops of ufuncs, called on tiles, give the bits of the eager call.

For each function x dtype x kind of stride x tile size: the whole eager call against the loop applied tile by tile, in the ways
that a compiled program does it (tiles of multiples of 64 elements counted from the start, none shorter than 32; scratch
contiguous; a stride-0 operand passed as stride 0). The flags must be those of the eager call as well, which is what lets a
kernel decide from MXCSR whether eager execution would have warned.
"""

from __future__ import annotations

import ctypes
import zlib

import numpy as np
import pytest

from exact.shapes import roomy, special_values

UNARY = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
         "cosh", "tanh", "sqrt"]
BINARY = ["power", "arctan2", "hypot", "fmod", "fmin", "fmax"]
TILES = [64, 128, 1024, 4096]

LOOP = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_ssize_t),
                        ctypes.POINTER(ctypes.c_ssize_t), ctypes.c_void_p)


class UFunc(ctypes.Structure):
    """The head of PyUFuncObject; the same in NumPy 1.24 to 2.x."""

    _fields_ = [("head", ctypes.c_ssize_t * 2), ("nin", ctypes.c_int), ("nout", ctypes.c_int), ("nargs", ctypes.c_int),
                ("identity", ctypes.c_int), ("functions", ctypes.POINTER(ctypes.c_void_p)),
                ("data", ctypes.POINTER(ctypes.c_void_p)), ("ntypes", ctypes.c_int), ("reserved", ctypes.c_int),
                ("name", ctypes.c_char_p), ("types", ctypes.POINTER(ctypes.c_char))]


def inner_loop(ufunc: np.ufunc, dtype: str):
    """The loop whose operands are all of `dtype`, as a function of (arrays, steps)."""
    head = UFunc.from_address(id(ufunc))
    number = np.dtype(dtype).num
    for i in range(head.ntypes):
        types = [head.types[i * head.nargs + k][0] for k in range(head.nargs)]
        if all(t == number for t in types):
            data = head.data[i] if head.data else None

            def call(addresses, n, steps, function=LOOP(head.functions[i])):
                function((ctypes.c_void_p * len(addresses))(*addresses), (ctypes.c_ssize_t * 1)(n),
                         (ctypes.c_ssize_t * len(steps))(*steps), data)

            return call
    return None


def tiles(n: int, size: int):
    """(start, length): multiples of `size`, the last one joined to its neighbour where it would be shorter than 32."""
    start = 0
    while start < n:
        length = min(size, n - start)
        if 0 < n - start - length < 32:
            length = n - start
        yield start, length
        start += length


def tiled(loop, operands: list[np.ndarray], n: int, size: int, gather: bool) -> np.ndarray:
    out = np.empty(n, operands[0].dtype)
    for start, length in tiles(n, size):
        addresses, steps = [], []
        keep = []
        for x in operands:
            step = x.strides[0]
            if gather and step not in (0, x.itemsize):
                scratch = np.ascontiguousarray(x[start : start + length])
                keep.append(scratch)
                addresses.append(scratch.ctypes.data)
                steps.append(x.itemsize)
            else:
                addresses.append(x.__array_interface__["data"][0] + start * step)
                steps.append(step)
        loop(addresses + [out.ctypes.data + start * out.itemsize], length, steps + [out.itemsize])
    return out


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    nan = np.isnan(a) & np.isnan(b)
    view = f"u{a.itemsize}"
    return bool(np.all((np.ascontiguousarray(a).view(view) == np.ascontiguousarray(b).view(view)) | nan))


STRIDES = {
    "contiguous": lambda fill, n: fill(n),
    "stride 2": lambda fill, n: roomy(fill, 2 * n)[::2],
    "stride 3, offset": lambda fill, n: roomy(fill, 3 * n + 1)[1::3],
    "column": lambda fill, n: roomy(fill, 5 * n).reshape(n, 5)[:, 2],
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_tiles_keep_bits(name, dtype):
    ufunc = getattr(np, name)
    loop = inner_loop(ufunc, dtype)
    assert loop is not None
    count = UFunc.from_address(id(ufunc)).nin
    checked = 0
    for kind, make in STRIDES.items():
        for n in (1, 7, 31, 33, 64, 1000, 5003):
            rng = np.random.default_rng(zlib.crc32(f"{name}{dtype}{kind}{n}".encode()))
            operands = [make(lambda m: special_values(rng, dtype, m), n) for _ in range(count)]
            with np.errstate(all="ignore"):
                expected = ufunc(*operands)
                for size in TILES:
                    for gather in (False, True):
                        assert same_bits(expected, tiled(loop, operands, n, size, gather)), (kind, n, size, gather)
                        checked += 1
    assert checked == len(STRIDES) * 7 * len(TILES) * 2


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0])
def test_power_with_stride_zero_exponent(dtype, exponent):
    loop = inner_loop(np.power, dtype)
    rng = np.random.default_rng(3)
    x = special_values(rng, dtype, 3001)
    y = np.broadcast_to(np.array([exponent], dtype), (3001,))
    with np.errstate(all="ignore"):
        expected = np.power(x, np.dtype(dtype).type(exponent))
        for size in TILES:
            assert same_bits(expected, tiled(loop, [x, y], 3001, size, False))
