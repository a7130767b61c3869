"""Tensors without elements, Symbol, set_inputs, enable_dynamic; settings of parameter servers; names of dtypes."""

from __future__ import annotations

import pickle

import framejit as fj
import numpy as np
import pytest
from framejit import Symbol, Tensor, nn, ops
from tensor.tensor_support import assert_same

pytestmark = pytest.mark.capture


def test_tensors_without_elements():
    x = Tensor(shape=[None, 3], dtype=fj.float32)
    assert x.shape == (-1, 3) and x.dtype is fj.float32 and repr(x) == "Tensor(shape=[-1, 3], dtype=Float32, value= )"
    assert Tensor(shape=(2, -1), dtype=fj.int64).shape == (2, -1) and Tensor(shape=None, dtype=fj.float32).shape == (-2,)
    assert Tensor(shape=[Symbol(max=8), 3], dtype=fj.float16).symbolic_shape == [{"max": 8}, 3]
    assert_same(Tensor(shape=(2, 3), dtype=fj.float32), ops.zeros((2, 3)))
    for wrong in (lambda: Tensor(shape=[None, 3]), lambda: Tensor(), lambda: Tensor(shape=["a"], dtype=fj.float32)):
        with pytest.raises(ValueError):
            wrong()


def test_symbols():
    symbol = Symbol(max=16, min=4, divisor=4, remainder=1, unique=True)
    assert symbol.to_dict() == {"max": 16, "min": 4, "divisor": 4, "remainder": 1, "id": id(symbol)}
    assert [n for n in range(20) if symbol.fits(n)] == [5, 9, 13] and Symbol(max=3, min=4).to_dict() == {"min": 4}
    for wrong in ({"min": 0}, {"divisor": 0}, {"divisor": 3, "remainder": 3}):
        with pytest.raises(ValueError):
            Symbol(**wrong)
    for wrong in ({"max": "a"}, {"unique": 1}, {"min": True}):
        with pytest.raises(TypeError):
            Symbol(**wrong)


class Twice(nn.Cell):
    def construct(self, x, y=None):
        return x * 2 if y is None else x * 2 + y


@pytest.mark.parametrize("length", [None, Symbol(max=9, min=2)])
def test_inputs_of_cells(length):
    """One entry for all lengths, from the first call on."""
    net = Twice()
    net.set_inputs(Tensor(shape=[length, 3], dtype=fj.float32))
    assert list(net.get_inputs()) == ["x"]
    net.set_jit_config(fj.JitConfig(jit_level="O0"))
    before = fj.stats()["recompiles"]
    for n in (4, 7, 9):
        assert net(ops.ones((n, 3))).shape == (n, 3)
    assert fj.stats()["recompiles"] == before
    with pytest.raises(TypeError):
        net(Tensor(np.ones((2, 3))))
    for wrong in ((2, 4), (2, 3, 1), *([(1, 3), (10, 3)] if length else [])):
        with pytest.raises(ValueError):
            net(ops.ones(wrong))


def test_inputs_by_name():
    net = Twice()
    net.set_inputs(y=Tensor(shape=[None], dtype=fj.float32))
    assert net(ops.ones(3), ops.ones(3)).tolist() == [3, 3, 3]
    for wrong in (lambda: net.set_inputs(z=3), lambda: net.set_inputs(3, y=3)):
        with pytest.raises(ValueError):
            wrong()


def test_enable_dynamic():
    @fj.enable_dynamic(x=Tensor(shape=[None, 3], dtype=fj.float32))
    @fj.jit
    def double(x, y=1):
        return x * 2 + y

    before = fj.stats()["recompiles"]
    assert [double(ops.ones((n, 3)), y=2).shape for n in (2, 5)] == [(2, 3), (5, 3)] and fj.stats()["recompiles"] == before
    with pytest.raises(ValueError):
        double(ops.ones((2, 4)))
    with pytest.raises(TypeError):
        double(Tensor(np.ones((2, 3))))
    for wrong in ({}, {"z": Tensor(shape=[None], dtype=fj.float32)}):
        with pytest.raises(ValueError):
            fj.enable_dynamic(**wrong)(lambda x: x)


def test_parameter_servers():
    assert fj.get_ps_context("enable_ps") is False and fj.context.get_ps_context("config_file_path") == ""
    fj.set_ps_context(enable_ps=False, config_file_path="somewhere", client_password="x")
    assert fj.get_ps_context("config_file_path") == "somewhere"
    fj.reset_ps_context()
    assert fj.get_ps_context("config_file_path") == ""
    with pytest.raises(ValueError, match="no parameter servers"):
        fj.set_ps_context(enable_ps=True)
    with pytest.raises(TypeError):
        fj.set_ps_context(enable_ps=3)
    for wrong in (lambda: fj.set_ps_context(nothing=1), lambda: fj.get_ps_context("client_password")):
        with pytest.raises(ValueError):
            wrong()


def test_names_of_dtypes():
    assert str(fj.string) == "String" and fj.pytype_to_dtype(str) is fj.string and fj.get_py_obj_dtype("a") is fj.string
    assert pickle.loads(pickle.dumps(fj.string)) is fj.string and fj.dtype_to_pytype(fj.string) is str
    assert fj.half is fj.float16 and fj.int_ is fj.int64 and fj.common.dtype.uintc is fj.uint32 and fj.dtype_to_pytype(fj.int8) is int
    for wrong in (lambda: Tensor([1], fj.string), lambda: fj.dtype_to_nptype(fj.string), lambda: Tensor("abc")):
        with pytest.raises(TypeError):
            wrong()
