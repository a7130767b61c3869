"""Tensor methods of two forms: arguments by the names of either give the same, also in one graph."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj
from framejit import Tensor, ops  # noqa: F401  the rows name them

pytestmark = pytest.mark.capture
X = Tensor(np.array([[1, 2, 5], [3, 7, 4]], np.float32))
AT = Tensor(np.array([[0, 1, 1], [1, 0, 2]]))
TWO = Tensor(np.array([0, 1]))

# The form of the own parameters, and what MindSpore's other form says.
SAME = {
    "X.sum(axis=1, keepdims=True)": "X.sum(dim=1, keepdim=True); X.sum(1, True)",
    "X.mean(axis=1, keep_dims=True)": "X.mean(dim=1, keepdim=True)",
    "X.astype(fj.float64).mean(1)": "X.mean(dim=1, dtype=fj.float64)",
    "X.prod(axis=1, keep_dims=True)": "X.prod(dim=1, keepdim=True)",
    "X.all(axis=1)": "X.all(dim=1)",
    "X.any(axis=1, keep_dims=True)": "X.any(dim=1, keepdim=True)",
    "X.std(1, 1, True)": "X.std(dim=1, correction=1, keepdim=True)",
    "X.var(1, 0)": "X.var(dim=1, correction=0)",
    "X.argmax(1, True)": "X.argmax(dim=1, keepdim=True)",
    "X.argmin(1)": "X.argmin(dim=1)",
    "X.max(1, True)": "X.max(dim=1, keepdim=True); X.max(1, keepdim=True); X.max(axis=1, keepdims=True, return_indices=True)",
    "X.min(axis=1, keepdims=True)": "X.min(1, keepdims=True)",
    "X.max()": "X.max((0, 1)); X.max(None); X.max(None, False, where=True)",
    "X.median(1, True)": "X.median(dim=1, keepdim=True)",
    "X.cumsum(1)": "X.cumsum(dim=1)",
    "X.sort(0, True)": "X.sort(dim=0, descending=True, stable=True); X.sort(0, True, True)",
    "X.argsort(0)": "X.argsort(dim=0, stable=True)",
    "X.split(1, 1)": "X.split(split_size=1, dim=1)",
    "X.chunk(2, 1)": "X.chunk(2, dim=1)",
    "X.narrow(1, 0, 2)": "X.narrow(dim=1, start=0, length=2)",
    "X.index_select(1, TWO)": "X.index_select(dim=1, index=TWO)",
    "X.repeat_interleave(2, 1)": "X.repeat_interleave(2, dim=1)",
    "X.gather(1, AT)": "X.gather(dim=1, index=AT)",
    "X.gather(TWO, 1)": "X.gather(input_indices=TWO, axis=1)",
    "X.select(0, 1)": "X.select(dim=0, index=1)",
    "X.where(X > 2, 0.0)": "X.where(condition=X > 2, other=0.0)",
    "X.take(TWO)": "X.take(index=TWO)",
    "X.index_add(TWO, X, 0)": "X.index_add(0, TWO, X); X.index_add(dim=0, index=TWO, source=X)",
    "X.index_add(TWO, X * 2, 0)": "X.index_add(0, TWO, X, alpha=2); X.copy().index_add_(0, TWO, X, alpha=2)",
    "X.scatter(1, AT, X)": "X.scatter(dim=1, index=AT, src=X); X.copy().scatter_(1, AT, X)",
    "fj.ops.tensor_scatter_elements(X, AT, X, 1, 'add')": "X.scatter(1, AT, X, reduce='add'); X.scatter_add(1, AT, X); X.scatter_add(dim=1, index=AT, src=X)",
    "X + 2 * X": "X.add(X, alpha=2); X.copy().add_(X, alpha=2)",
    "X - 2 * X": "X.sub(X, alpha=2); X.copy().sub_(X, alpha=2)",
    "X - X": "X.sub(y=X)",
    "X.div(2, rounding_mode='floor')": "X.copy().div_(2, rounding_mode='floor')",
    "X.astype(fj.int32)": "X.to(fj.int32, copy=True); X.to(dtype=fj.int32, non_blocking=True); X.to('CPU', fj.int32); X.to(other=TWO.astype(fj.int32))",
    "X": "X.to('CPU'); X.to(device='cpu'); X.to(X)",
    "X.reshape(3, 2)": "X.view((3, 2)); X.view(shape=(3, 2)); X.view(3, 2)",
    "Tensor(X.asnumpy().view(np.int32))": "X.view(fj.int32); X.view(dtype=fj.int32)",
    "X.transpose(1, 0)": "X.permute(1, 0); X.permute(dims=(1, 0))",
    "X.tile((2, 1))": "X.tile(2, 1); X.tile(dims=(2, 1)); X.tile(reps=(2, 1))",
    "X[None]": "X.unsqueeze(0); X.unsqueeze(dim=0); X.unsqueeze(axis=0)",
    "X.logical_and(X)": "X.logical_and(y=X)",
    "X @ X.T": "X.matmul(tensor2=X.T); X.mm(mat2=X.T)",
    "X ** 2": "X.pow(exponent=2)",
    "X % 2": "X.remainder(divisor=2)",
    "X.expand_as(X)": "X.expand_as(x=X)",
    "X.isclose(X)": "X.isclose(x2=X)",
    "X.sum((0, 1))": "X.sum(Tensor([0, 1])); X.sum(axis=Tensor([1, 0])); ops.ReduceSum()(X, Tensor([0, 1]))",
    "X.mean(1)": "X.mean(Tensor(1)); X.mean(dim=Tensor([1]))",
    "X.all((0,))": "X.all(Tensor([0])); ops.all(X, Tensor([-2]))",
    "ops.inplace_add(X, X[:1], (1,))": "ops.inplace_add(X, X[:1], 1)",
    "ops.inplace_sub(X, X[:1], (1,))": "ops.inplace_sub(X, X[:1], 1)",
    "ops.inplace_update(X, X[:1], (1,))": "ops.inplace_update(X, X[:1], 1)",
}


def leaves(out):
    return [leaf for one in out for leaf in leaves(one)] if isinstance(out, (tuple, list)) else [out]


@pytest.mark.parametrize("own, other", [(own, other) for own, others in SAME.items() for other in others.split("; ")])
def test_forms(own, other):
    names = {**globals()}
    expected = leaves(eval(own, names))
    f = eval(f"lambda X, AT, TWO: {other}", names)
    for found in (leaves(f(X, AT, TWO)), leaves(fj.jit(f)(X, AT, TWO))):
        assert len(found) == len(expected)
        for one, leaf in zip(found, expected):
            assert (one.dtype, one.shape) == (leaf.dtype, leaf.shape)
            np.testing.assert_array_equal(one.asnumpy(), leaf.asnumpy())


@pytest.mark.parametrize("other", ["X.sum(dim=1, keepdim=True)", "X.max(dim=1)", "X.add(X, alpha=2)", "X.gather(dim=1, index=AT)", "X.to('CPU', fj.float64)"])
def test_the_other_form_is_captured(other):
    f = fj.jit(eval(f"lambda X, AT: {other}", globals()), fullgraph=True)
    f(X, AT)
    assert len(f.cache_entries()) == 1


@pytest.mark.parametrize(
    "call, error, says",
    [
        ("X.sum(axis=1, dim=1)", TypeError, r"sum\(\): match failed because incorrect keyword name: axis"),
        ("X.max(1, 2, 3)", TypeError, r"max\(\) takes 2 positional arguments but 3 were given"),
        ("X.to('GPU')", ValueError, "For 'to_device', the 'device' must be 'CPU', but got 'GPU'"),
        ("X.mean(dtype='a')", TypeError, r'Failed calling mean with "mean\(dtype=string\)"'),
        ("X.sum(dims=1)", TypeError, r'Failed calling sum with "sum\(dims=int\)"'),
    ],
)
def test_wrong_arguments(call, error, says):
    with pytest.raises(error, match=says):
        eval(call, globals())
