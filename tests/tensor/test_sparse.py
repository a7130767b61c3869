"""CSRTensor and COOTensor against the Tensors that they stand for, eager and compiled, and their gradients."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest
from framejit import COOTensor, CSRTensor, Tensor, ops
from tensor.tensor_support import assert_array, assert_same

pytestmark = pytest.mark.capture
rng = np.random.default_rng(2)
DENSE = np.where(rng.random((4, 5)) < 0.5, rng.normal(size=(4, 5)), 0).astype(np.float32)
DENSE[2] = 0
OTHER = rng.normal(size=(4, 5)).astype(np.float32)
MATRIX = rng.normal(size=(5, 3)).astype(np.float32)


def as_csr(dense, dtype=np.int32):
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(dense.shape[0] + 1))
    return CSRTensor(Tensor(starts.astype(dtype)), Tensor(columns.astype(dtype)), Tensor(dense[rows, columns]), dense.shape)


def as_coo(dense, dtype=np.int32):
    places = np.argwhere(dense).astype(dtype)
    return COOTensor(Tensor(places), Tensor(dense[tuple(places.T)]), dense.shape)


CSR, COO = as_csr(DENSE), as_coo(DENSE)
TWICE = COOTensor(Tensor([[1, 2], [0, 1], [1, 2]]), Tensor([1.0, 2.0, 4.0]), (2, 3))

# What is computed of a sparse one, and the same of the whole. A Tensor, or a sparse Tensor with this whole.
CASES = {
    "csr.to_dense()": lambda x: x,
    "csr.to_coo()": lambda x: x,
    "csr.to_coo().to_csr()": lambda x: x,
    "csr.abs()": lambda x: abs(x),
    "-csr": lambda x: -x,
    "csr.astype('float64')": lambda x: x.astype("f8"),
    "csr.mm(matrix)": lambda x: x @ MATRIX,
    "csr.mv(matrix[:, :1])": lambda x: x @ MATRIX[:, :1],
    "csr.sum(1)": lambda x: x.sum(1, keepdims=True),
    "csr.sum(-1)": lambda x: x.sum(1, keepdims=True),
    "csr * 2": lambda x: x[x != 0] * 2,
    "csr * other": lambda x: (x * OTHER)[x != 0],
    "csr / other": lambda x: (x / OTHER)[x != 0],
    "csr * other[:1]": lambda x: (x * OTHER[:1])[x != 0],
    "ops.csr_gather(csr.indptr, csr.indices, other, (4, 5))": lambda x: OTHER[x != 0],
    "ops.csr_relu(csr)": lambda x: np.maximum(x, 0),
    "ops.csr_sin(csr)": lambda x: np.sin(x),
    "coo.to_dense()": lambda x: x,
    "coo.to_csr()": lambda x: x,
    "coo.abs()": lambda x: abs(x),
    "-coo": lambda x: -x,
    "coo.astype('float16')": lambda x: x.astype("f2"),
    "coo + other": lambda x: x + OTHER,
    "other + coo": lambda x: x + OTHER,
    "coo - other": lambda x: x - OTHER,
    "coo * other": lambda x: x * OTHER,
    "coo / other": lambda x: x / OTHER,
    "ops.coo_tanh(coo)": lambda x: np.tanh(x),
}  # fmt: skip
# The number of values depends on them: these run in the interpreter.
FREE = {
    "csr + csr": lambda x: x + x,
    "csr - more": lambda x: x - OTHER * (OTHER > 0),
    "csr.add(more, Tensor(2.0), Tensor(-3.0))": lambda x: 2 * x - 3 * OTHER * (OTHER > 0),
    "csr.mm(as_csr(MATRIX * (MATRIX > 0)))": lambda x: x @ (MATRIX * (MATRIX > 0)),
    "coo + coo": lambda x: x + x,
    "coo - coo": lambda x: x - x,
    "coo.coalesce()": lambda x: x,
    "ops.coo_concat([coo, coo], 1)": lambda x: np.concatenate([x, x], 1),
    "ops.dense_to_sparse_coo(csr.to_dense())": lambda x: x,
    "ops.dense_to_sparse_csr(csr.to_dense())": lambda x: x,
}


def evaluated(text, csr, coo, other, matrix):
    more = as_csr(OTHER * (OTHER > 0))
    return eval(text, {**globals(), "csr": csr, "coo": coo, "other": other, "matrix": matrix, "more": more})


def parts(value):
    return list(value.to_tuple()) if isinstance(value, (CSRTensor, COOTensor)) else [value]


@pytest.mark.parametrize("text", [*CASES, *FREE])
def test_values(text):
    found = evaluated(text, CSR, COO, Tensor(OTHER), Tensor(MATRIX))
    wanted = {**CASES, **FREE}[text](DENSE)
    whole = found.to_dense() if isinstance(found, (CSRTensor, COOTensor)) else found
    assert whole.asnumpy().dtype == wanted.dtype and found.dtype is whole.dtype
    np.testing.assert_allclose(whole.asnumpy(), wanted, rtol=1e-5, atol=1e-6)
    if isinstance(found, (CSRTensor, COOTensor)):
        assert found.indices.dtype is fj.int32 and found.ndim == 2 and found.size == found.values.size and found.itemsize == found.values.itemsize


@pytest.mark.parametrize("text", CASES)
def test_compiled(text):
    code = compile(text, "text", "eval")

    def f(csr, coo, other, matrix):
        return evaluate(csr, coo, other, matrix)

    evaluate = eval(f"lambda csr, coo, other, matrix: {text}", {"ops": ops})
    arguments = (CSR, COO, Tensor(OTHER), Tensor(MATRIX))
    marked = fj.jit(f, fullgraph="astype" not in text and text != "other + coo")
    for _ in range(2):
        assert_same(parts(marked(*arguments)), parts(f(*arguments)))
    assert eval(code, {"ops": ops, **dict(zip(("csr", "coo", "other", "matrix"), arguments))}) is not None


def test_places_that_are_named_twice():
    assert_array(TWICE.to_dense(), np.float32([[0, 2, 0], [0, 0, 5]]))
    assert TWICE.coalesce().indices.tolist() == [[0, 1], [1, 2]] and TWICE.coalesce().values.tolist() == [2, 5]
    assert TWICE.to_csr().indptr.tolist() == [0, 1, 3] and TWICE.to_csr().to_dense().tolist() == TWICE.to_dense().tolist()
    assert TWICE.add(TWICE, Tensor(5.0)).to_tuple()[1].tolist() == [10]


def test_gradients():
    """For the values and what they are multiplied with."""

    def product(values, matrix):
        return (CSRTensor(CSR.indptr, CSR.indices, values, (4, 5)).mm(matrix) ** 2).sum()

    of_values, of_matrix = fj.grad(product, (0, 1))(CSR.values, Tensor(MATRIX))
    wanted = 2 * DENSE @ MATRIX
    np.testing.assert_allclose(of_values.asnumpy(), (wanted @ MATRIX.T)[DENSE != 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(of_matrix.asnumpy(), DENSE.T @ wanted, rtol=1e-4, atol=1e-5)
    dense = fj.grad(lambda values: (COOTensor(COO.indices, values, (4, 5)).to_dense() ** 2).sum())(COO.values)
    np.testing.assert_allclose(dense.asnumpy(), 2 * COO.values.asnumpy(), rtol=1e-6)


def test_made_of_each_other():
    assert CSRTensor(csr_tensor=CSR).to_tuple()[:3] == CSR.to_tuple()[:3] and COOTensor(coo_tensor=COO).values is COO.values
    assert repr(TWICE).startswith("COOTensor(shape=[2, 3], dtype=Float32, indices=Tensor(shape=[3, 2]")
    blocks = CSRTensor(Tensor([0, 1, 2]), Tensor([1, 0]), ops.ones((2, 3)), (2, 2, 3))
    assert blocks.ndim == 3 and blocks.to_dense().shape == (2, 2, 3)


ERRORS = [
    (TypeError, lambda: CSRTensor(1, CSR.indices, CSR.values, (4, 5))),
    (TypeError, lambda: CSRTensor(CSR.indptr, CSR.indices, CSR.values)),
    (TypeError, lambda: CSRTensor(CSR.indptr, CSR.indices, CSR.values, [4, 5])),
    (TypeError, lambda: CSRTensor(CSR.indptr, CSR.values, CSR.values, (4, 5))),
    (ValueError, lambda: CSRTensor(CSR.indptr[:2], CSR.indices, CSR.values, (4, 5))),
    (ValueError, lambda: CSRTensor(CSR.indptr, CSR.indices[:2], CSR.values, (4, 5))),
    (ValueError, lambda: CSRTensor(CSR.indptr, CSR.indices, CSR.values, (4,))),
    (TypeError, lambda: CSRTensor(csr_tensor=COO)),
    (TypeError, lambda: COOTensor(COO.indices, COO.values, (4, 5.0))),
    (ValueError, lambda: COOTensor(COO.indices, COO.values, (4,))),
    (ValueError, lambda: COOTensor(COO.indices, COO.values, (1, 1))),
    (ValueError, lambda: COOTensor(COO.indices, COO.values[:1], (4, 5))),
    (ValueError, lambda: CSR.mv(Tensor(MATRIX)[:, 0])),
    (TypeError, lambda: CSR.mm(3)),
    (ValueError, lambda: CSR.mm(Tensor(OTHER))),
    (ValueError, lambda: CSR.sum(0)),
    (TypeError, lambda: CSR * CSR),
    (TypeError, lambda: CSR + Tensor(OTHER)),
    (TypeError, lambda: COO * 2),
    (ValueError, lambda: COO + Tensor(MATRIX)),
    (TypeError, lambda: ops.csr_abs(COO)),
]


@pytest.mark.parametrize("at", range(len(ERRORS)))
def test_errors(at):
    kind, make = ERRORS[at]
    with pytest.raises(kind):
        make()
