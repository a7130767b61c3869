"""The dtype objects."""

from __future__ import annotations

import subprocess
import sys
import importlib.util
import pickle

import framejit as fj
import numpy as np
import pytest
from framejit._api._dtypes import ALL, DType, from_numpy, numpy_dtype

NAMES = "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"


@pytest.mark.parametrize("name", NAMES.split())
def test_dtype(name):
    dtype = getattr(fj, name)
    assert dtype.name == name
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert DType(name) is dtype
    assert {dtype: 1}[dtype] == 1
    if name == "bfloat16":
        assert dtype.itemsize == 2
    else:
        assert dtype.numpy == np.dtype(name.rstrip("_"))
        assert dtype.itemsize == dtype.numpy.itemsize
        assert numpy_dtype(dtype) == dtype.numpy
        assert from_numpy(dtype.numpy) is dtype


def test_texts_are_mindspores():
    assert [str(dtype) for dtype in ALL.values()] == (
        "Bool Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Float16 BFloat16 Float32 Float64 Complex64 Complex128".split()
    )


@pytest.mark.capture
def test_reprs_name_the_package():
    program = (
        "import mindspore as ms; print([ms.bool_, ms.bfloat16], repr(ms.string), ms.float32, [ms.Tensor([1.0]).dtype])"
    )
    alias = "from framejit._mindspore._mindspore import install; install(); "
    done = subprocess.run([sys.executable, "-c", alias + program], capture_output=True, text=True, check=True)
    assert done.stdout == "[mindspore.bool, mindspore.bfloat16] mindspore.string Float32 [mindspore.float32]\n"
    assert [repr(dtype) for dtype in (ALL["bool_"], ALL["uint8"])] == ["framejit.bool", "framejit.uint8"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (float, "f8"),
        (int, "i8"),
        (bool, "?"),
        (complex, "c16"),
        ("float32", "f4"),
        (np.int16, "i2"),
        (np.dtype("u1"), "u1"),
    ],
)
def test_numpy_dtype(given, expected):
    assert numpy_dtype(given) == np.dtype(expected)


@pytest.mark.parametrize("given", [None, 3, object, "text", "U5", np.dtype("M8[s]"), [("a", int)], list])
def test_numpy_dtype_errors(given):
    with pytest.raises(TypeError) as error:
        numpy_dtype(given)
    assert all(part in str(error.value) for part in ("'dtype'", repr(given), "float32"))


@pytest.mark.skipif(importlib.util.find_spec("ml_dtypes") is not None, reason="ml_dtypes has it")
def test_bfloat16_has_no_numpy_dtype():
    with pytest.raises(TypeError, match="BFloat16"):
        numpy_dtype(fj.bfloat16)


def test_byte_order():
    assert from_numpy(np.dtype(">f4")) is fj.float32
    with pytest.raises(TypeError, match="'dtype'"):
        from_numpy(np.dtype("U3"))


def test_unknown_name():
    with pytest.raises(ValueError, match="float32"):
        DType("float31")
