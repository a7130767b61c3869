"""What MindSpore 2.10 returns at the edges of its functions: dtypes that are asked for or mixed, empty Tensors, negative exponents and ids, sequences.
Eager, and captured."""

from __future__ import annotations

import framejit as fj
import framejit.numpy as mnp
import numpy as np
import pytest
from framejit import Parameter, Tensor, mint, nn, ops

pytestmark = pytest.mark.capture

INPUTS = {
    "a": np.float32([1.5, -2.25, 3.75]),
    "i": np.int32([1, 2, 3]),
    "s": np.int8([1, -2, 3]),
    "h": np.float16([1.5, 2, -3]),
    "l": np.array([True, False, True]),
    "m": np.float32([[1, 2], [3, 4]]),
    "t": np.arange(12, dtype=np.float32).reshape(2, 3, 2),
    "z": np.zeros((2, 0), np.float32),
    "n": np.float32([1, np.nan, np.nan, 1]),
    "ids": np.int32([0, -1, 1]),
}
NAN = float("nan")

# (expression, dtype, result), or one result for each Tensor of a tuple.
ROWS = [
    # the dtype that is asked for is that of the result
    ("a.sum(dtype=fj.int32)", "int32", 2),
    ("i.sum(dtype=fj.int8)", "int8", 6),
    ("mint.sum(a, dtype=fj.bool_)", "bool", True),
    ("ops.prod(a, dtype=fj.int32)", "int32", -6),
    ("ops.prod(i, dtype=fj.uint8)", "uint8", 6),
    ("ops.nansum(a, dtype=fj.int32)", "int32", 3),
    # bounds take part in the promotion of clamp, not in that of clip_by_value
    ("ops.clamp(i, 0.5, 1.5)", "float32", [1, 1.5, 1.5]),
    ("i.clamp(max=a)", "float32", [1, -2.25, 3]),
    ("mint.clamp(s, i, i)", "int32", [1, 2, 3]),
    ("mint.clamp(h, a, a)", "float32", [1.5, -2.25, 3.75]),
    ("ops.clip_by_value(i, 0.5, 1.5)", "int32", [1, 1, 1]),
    ("mnp.clip(i, 0.5, 1.5)", "int32", [1, 1, 1]),
    ("ops.hardtanh(i, -0.5, 0.5)", "int32", [0, 0, 0]),
    # integers stay integers, or become float32
    ("ops.hardswish(i)", "int32", [0, 1, 3]),
    ("ops.hardsigmoid(i)", "int32", [0, 0, 1]),
    ("ops.mse_loss(i, i + 1)", "float32", 1),
    ("nn.MSELoss()(i, i + 1)", "int32", 1),
    ("ops.cov(i)", "float32", 1),
    ("l - True", "bool", [False, True, False]),
    ("l - ~l", "bool", [True, True, True]),
    ("mint.sub(l, l)", "bool", [False, False, False]),
    # integers to negative powers are truncated
    ("i ** -1", "int32", [1, 0, 0]),
    ("s ** (-s)", "int8", [1, 4, 0]),
    ("2 ** (-i)", "int32", [0, 0, 0]),
    ("(-i / i).astype(fj.int32) ** (-i)", "int32", [-1, 1, -1]),
    ("ops.pow(i, -2)", "int32", [1, 0, 0]),
    ("i ** ids", "int32", [1, 0, 3]),
    ("(i * 0) ** -1", "int32", [-(2**31)] * 3),
    # dimensions of other lengths than 1 stay; other Tensors than matrices are not transposed
    ("ops.squeeze(m, 0)", "float32", [[1, 2], [3, 4]]),
    ("m[None].squeeze((0, 1))", "float32", [[1, 2], [3, 4]]),
    ("mint.squeeze(a.sum(), 0)", "float32", 3),
    ("t.t().shape", tuple, (2, 3, 2)),
    ("mint.t(t).shape", tuple, (3, 2, 2)),
    # empty Tensors
    ("ops.softmax(z)", "float32", np.zeros((2, 0))),
    ("ops.log_softmax(z, 1)", "float32", np.zeros((2, 0))),
    ("ops.logsumexp(z, -1)", "float32", [-np.inf, -np.inf]),
    ("ops.group_norm(t[:0], 3)", "float32", np.zeros((0, 3, 2))),
    # parts with negative ids do not count
    ("ops.unsorted_segment_sum(a, ids, 2)", "float32", [1.5, 3.75]),
    ("ops.unsorted_segment_prod(a, ids, 2)", "float32", [1.5, 3.75]),
    ("ops.unsorted_segment_max(a, ids, 2)", "float32", [1.5, 3.75]),
    ("ops.unsorted_segment_min(a, ids, 2)", "float32", [1.5, 3.75]),
    # of all elements there is one place
    ("ops.argmax(m, None, True)", "int64", 3),
    ("m.argmin(None, True)", "int32", 0),
    ("a.sort()[0].searchsorted(a)", "int32", [1, 0, 2]),
    ("ops.cummin(n, 0)[1]", "int32", [0, 1, 2, 2]),
    # sequences, and more dimensions
    ("ops.diag(m).reshape((4, 4))", "float32", np.diag([1, 2, 3, 4])),
    ("m.diag().shape", tuple, (2, 2, 2, 2)),
    ("a.resize(2, 2)", "float32", [[1.5, -2.25], [3.75, 0]]),
    ("ops.count_nonzero(m, 0)", "int32", [2, 2]),
    ("m.resize(3)", "float32", [1, 2, 3]),
    ("m.stride()", tuple, [2, 1]),
    ("mnp.diag(m)", "float32", [1, 4]),
    ("mnp.diag(a, 1).shape", tuple, (4, 4)),
    ("ops.clip_by_value((a, a), 0, 1)[1]", "float32", [1, 0, 1]),
]


def value_of(expression, inputs):
    scope = {"fj": fj, "mnp": mnp, "np": np, "mint": mint, "nn": nn, "ops": ops}
    exec(f"def f({', '.join(INPUTS)}):\n    return {expression}", scope)
    f = scope["f"]
    return [call(*map(Tensor, INPUTS.values())) for call in (f, fj.jit(f), fj.jit(f))]


@pytest.mark.parametrize(("expression", "dtype", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_edges(expression, dtype, expected):
    for found in value_of(expression, INPUTS):
        if dtype is tuple:
            assert found == expected
            continue
        array = found.asnumpy()
        assert array.dtype == dtype
        np.testing.assert_array_equal(array, np.array(expected), strict=False)
        assert array.shape == np.shape(expected)


@pytest.mark.parametrize("name", ["atleast_1d", "atleast_2d", "atleast_3d"])
def test_dimensions_of_each(name):
    function = getattr(ops, name)
    inputs = (Tensor(2.0), Tensor([1.0, 2.0]), ops.ones((2, 3, 4, 5)))
    for found in (function(inputs), fj.jit(function)(list(inputs))):
        assert type(found) is tuple
        assert [x.shape for x in found] == [getattr(np, name)(x.asnumpy()).shape for x in inputs]


def test_elements_that_are_not_numbers_differ():
    for call in (ops.unique, fj.jit(ops.unique)):
        values, places = call(Tensor(INPUTS["n"]))
        np.testing.assert_array_equal(values.asnumpy(), np.float32([1, NAN, NAN]))
        assert places.asnumpy().tolist() == [0, 1, 2, 0]


def test_runs_of_nothing():
    assert ops.unique_consecutive(Tensor(INPUTS["z"])).shape == (0,)
    assert mint.unique_consecutive(ops.zeros((0, 3)), dim=0).shape == (0, 3)


def test_facts_of_tensors():
    assert Tensor([1.0]).astype(fj.bfloat16).is_signed() and not Tensor([1], fj.uint8).is_signed()
    x, p = Tensor([1.0]), Parameter(Tensor([1.0]), name="p")
    assert x.requires_grad_() is x and p.requires_grad_(False) is p and not p.requires_grad
    assert x.set_const_arg() is x


def test_steps_of_convolutions_are_numbers():
    for call in (ops.conv1d, fj.jit(ops.conv1d)):
        with pytest.raises(TypeError, match="not Tensors"):
            call(ops.ones((1, 2, 5)), ops.ones((2, 2, 3)), dilation=Tensor([1, 2]))


def test_counts_have_no_gradient():
    count = lambda x: ops.count_nonzero(x, 0, True, fj.float32).sum()  # noqa: E731
    for g in (fj.grad(count), fj.jit(lambda x: fj.grad(count)(x))):
        assert g(Tensor(INPUTS["m"])).asnumpy().tolist() == [[0, 0], [0, 0]]


def test_gradients_of_parts_with_negative_ids():
    def f(x, ids):
        return (ops.unsorted_segment_sum(x, ids, 2) ** 2).sum()

    for g in (fj.grad(f), fj.jit(lambda *args: fj.grad(f)(*args))):
        np.testing.assert_array_equal(g(Tensor(INPUTS["a"]), Tensor(INPUTS["ids"])).asnumpy(), np.float32([3, 0, 7.5]))


@pytest.mark.parametrize("value", [None, "2", {}, range(2), np.float32([1, 2]), (1.5, 2), [1, 2], 3, np.float32(0.5), True])
@pytest.mark.parametrize("key", [0, slice(0, 2), Tensor(np.int32([0, 1])), Tensor(np.array([True, True, False]))], ids=str)
def test_items_take_tensors_numbers_lists_and_tuples_only(key, value):
    def assign(t):
        t[key] = value
        return t * 1

    found = []
    for f in (assign, fj.jit(assign)):
        t = Tensor(np.float32([1, 2, 3]))
        try:
            f(t)
        except (TypeError, ValueError) as error:
            found.append((type(error), str(error), t.asnumpy().tolist()))
        else:
            found.append(t.asnumpy().tolist())
    assert found[0] == found[1]
    assert isinstance(found[0], list) or not isinstance(value, (int, np.float32))
