"""DLPack: Tensors to other libraries and back, bfloat16 too, which NumPy has no dtype for."""

from __future__ import annotations

import ctypes
import gc
import sys

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor

pytestmark = pytest.mark.capture
pytest.importorskip("ml_dtypes")


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


def in_capsule(capsule):
    """What is in a capsule, read as DLPack lays it out."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    versioned = "dltensor_versioned" in repr(capsule)
    address = pointer(capsule, b"dltensor_versioned" if versioned else b"dltensor")
    return Versioned.from_address(address).tensor if versioned else DLTensor.from_address(address)


class Foreign:
    """An object of another library: it knows DLPack and nothing else; if it is old, not that memory may be read-only."""

    def __init__(self, tensor, **options):
        self.tensor, self.options = tensor, options

    def __dlpack__(self, **options):
        if self.options.get("old") and options:
            raise TypeError("an older library takes no options")
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


OPTIONS = [{}, {"max_version": (1, 0)}] if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else [{}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("dtype", "code", "bits"), [(fj.bfloat16, 4, 16), (fj.float16, 2, 16), (fj.uint16, 1, 16), (fj.complex64, 5, 64)])
def test_what_is_in_a_capsule(dtype, code, bits, options):
    tensor = Tensor(np.arange(6).reshape(2, 3), dtype)
    capsule = tensor.__dlpack__(**options)
    there = in_capsule(capsule)
    assert (there.dtype.code, there.dtype.bits, there.dtype.lanes) == (code, bits, 1)
    assert there.data == tensor.asnumpy().ctypes.data and there.shape[: there.ndim] == [2, 3]
    assert list(there.device) == [1, 0] == list(tensor.__dlpack_device__())


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("dtype", [fj.bfloat16, fj.float32, fj.uint16])
def test_memory_is_shared(dtype, old):
    source = Tensor([[1.0, 2.0], [3.0, 4.0]], dtype)
    taken = fj.from_dlpack(Foreign(source, old=old))
    assert taken.dtype is dtype and taken.tolist() == source.tolist()
    if np.from_dlpack(Foreign(np.ones(1), old=old)).flags.writeable:  # what NumPy takes as read-only is copied
        source[0, 1] = 7.0
        assert float(taken[0, 1]) == 7.0
    del source
    gc.collect()
    assert float(taken[1, 1]) == 4.0


def test_the_memory_lives_as_long_as_a_capsule():
    tensor = Tensor(np.arange(4), fj.bfloat16)
    array = tensor.asnumpy().base
    held = sys.getrefcount(array)
    capsule, taken = tensor.__dlpack__(), fj.from_dlpack(tensor)
    assert sys.getrefcount(array) > held
    del capsule, taken
    gc.collect()
    assert sys.getrefcount(array) == held


def test_errors():
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(Tensor([1.0], fj.bfloat16))  # NumPy has no such dtype
    with pytest.raises(TypeError, match="not a capsule of DLPack"):
        fj._core._dlpack_dtype(object())
    capsule = Tensor([1.0], fj.bfloat16).__dlpack__()

    class Given:
        def __dlpack__(self, **options):
            return capsule

        def __dlpack_device__(self):
            return 1, 0

    assert fj.from_dlpack(Given()).tolist() == [1.0]
    with pytest.raises(TypeError, match="one that was consumed"):
        fj.from_dlpack(Given())
    with pytest.raises(AttributeError, match="__dlpack"):
        fj.from_dlpack([1.0])


def test_torch():
    torch = pytest.importorskip("torch")
    tensor = Tensor([[1.5, 2.5], [3.5, -0.5]], fj.bfloat16)
    there = torch.from_dlpack(tensor)
    assert there.dtype is torch.bfloat16 and there.tolist() == tensor.tolist()
    there[0, 0] = 9.0
    assert float(tensor[0, 0]) == 9.0
    back = fj.from_dlpack(there.T)
    assert back.dtype is fj.bfloat16 and back.tolist() == there.T.tolist()
