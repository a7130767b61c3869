"""What programs for MindSpore do: they ask what became of functions, set attributes, define primitives, and compute in half precision."""

from __future__ import annotations

import collections

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import framejit as fj
from framejit import Parameter, Tensor, amp, context, mint, nn, ops
from framejit._mindspore import _checkparam
from framejit._mindspore._c_expression import function_id, get_code_extra
from framejit._mindspore._pijit_context import PIJitCaptureContext, Unsupported

rng = np.random.default_rng(7)
pytestmark = pytest.mark.capture


def values(*shape, dtype=np.float32):
    return Tensor(rng.normal(size=shape).astype(dtype))


# --- What became of a function ---------------------------------------------------------------------------------------------


def test_a_jit_object_that_has_gone_is_found_again():
    def f(x):
        return x * 2 + 1

    assert get_code_extra(f) is None
    fj.jit(f, capture_mode="bytecode")(values(3))
    found = get_code_extra(f)
    assert found["stat"] == "GRAPH_CALLABLE" and found["break_count_"] == 0 and "multiply" in found["code"]["phase_"]
    assert get_code_extra(f.__code__) == found


def test_a_function_without_operations_was_looked_at():
    def f(x):
        return [x, 1]

    marked = fj.jit(f, capture_mode="bytecode")
    assert get_code_extra(marked) is None
    marked("a")
    found = get_code_extra(f)
    assert found["stat"] == "GRAPH_CALLABLE" and found["break_count_"] == 0 and found["code"]["phase_"] == ""


def test_operations_on_tensors_of_one_element_are_a_graph():
    """On Tensors as on numbers: only the first take much time."""

    def f(x, y):
        return (x - y) * 2

    for x, y, count in ((Tensor(1.5), Tensor(0.5), 1), (Tensor(1.5), 2, 1), (1.5, 0.5, 0)):
        marked = fj.jit(f)
        found, expected = marked(x, y), f(x, y)
        assert type(found) is type(expected) and found == expected and len(marked._report()["entries"]) == count
    moved = fj.jit(lambda x: (x.shape, [x]))
    assert moved(Tensor(1.5))[0] == () and not moved._report()["entries"]


def test_what_is_part_of_another_graph_is_found():
    class Net(nn.Cell):
        @fj.jit(capture_mode="bytecode")
        def construct(self, x):
            return ops.tanh(x) * x

    net = Net()
    fj.grad(net)(values(3))
    assert "tanh" in get_code_extra(net.construct)["code"]["phase_"]

    @fj.jit
    def outer(x):
        return helper(x) + 1

    @fj.jit
    def helper(x):
        return x * 3

    outer(values(3))
    assert "multiply" in get_code_extra(helper)["code"]["phase_"]


def test_one_code_for_several_objects():
    class Net(nn.Cell):
        def construct(self, x):
            return x + 1

    first, second = Net(), Net()
    first.construct = fj.jit(first.construct, capture_mode="bytecode")
    second.construct = fj.jit(second.construct, capture_mode="bytecode")
    first(values(2))
    assert get_code_extra(first.construct.__wrapped__)["break_count_"] == 0


def test_the_context_that_captures():
    captured = PIJitCaptureContext(jit_config={"compile_with_try": False, "_disable_pijit": lambda args, kwargs: len(args) > 1})
    f = captured(lambda x, y=1: x + y)
    assert f(values(2)).shape == (2,) and f(2, 3) == 5
    with pytest.raises(TypeError, match="_disable_pijit"):
        PIJitCaptureContext(jit_config={"_disable_pijit": 3})
    with pytest.raises(Unsupported):
        PIJitCaptureContext(fullgraph=True)(lambda x: print(x, file=None))(values(2))


# --- Tensors and attributes in graphs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: Tensor([1, 2, 3]),
        lambda x: Tensor([[1.5, 2.5], [0.1, 3]]),
        lambda x: Tensor([True, False]),
        lambda x: Tensor([1, True, 2.5]),
        lambda x: Tensor([2**62 + 1], fj.float32),
        lambda x: Tensor([-1.0, 300.0], fj.uint8),
        lambda x: Tensor((1.1, 2.2), fj.float64),
        lambda x: Tensor([x.shape[0], 1]) * x.shape[0],
        lambda x: fj.tensor(x, x.dtype),
        lambda x: fj.tensor(2.5) + fj.tensor([1, 2]),
        lambda x: ops.add(3, 1) + ops.mul(2, 1.5),
        lambda x: ops.sin(1.5) - ops.neg(3),
        lambda x: x + [1.0, 2.0],
        lambda x: (x.astype(fj.int32) + 3) ** 2,
    ],
)
def test_tensors_of_python_numbers_are_made_in_graphs(f):
    x = Tensor(np.array([0.5, -1.5], np.float32))
    found, expected = fj.jit(f, fullgraph=True)(x), f(x)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found.asnumpy(), expected.asnumpy())


def test_what_is_no_tensor_of_numbers_raises_as_eager():
    for f in (lambda: Tensor([1, [2]]), lambda: Tensor(["a"])):
        with pytest.raises((TypeError, ValueError)) as eager:
            f()
        with pytest.raises(eager.type):
            fj.jit(f)()


class Counting(nn.Cell):
    def __init__(self):
        super().__init__()
        self.count, self.last = 0, None

    def construct(self, x):
        self.last = x * 2
        self.count = self.count + 1
        self.fresh = self.last + x
        return self.last + self.count


def test_attributes_that_a_cell_sets_are_part_of_the_graph():
    class Outer(nn.Cell):
        def __init__(self):
            super().__init__()
            self.inner = Counting()

        def construct(self, x):
            return self.inner(x) + self.inner.last

    net = Outer()
    step = fj.jit(net.construct, fullgraph=True)
    for round in range(1, 4):
        assert step(Tensor([1.0])).tolist() == [4.0 + round]
        assert (net.inner.count, net.inner.last.tolist(), net.inner.fresh.tolist()) == (round, [2.0], [3.0])


def test_a_parameter_that_a_cell_assigns_is_part_of_the_graph():
    class Running(nn.Cell):
        def __init__(self):
            super().__init__()
            self.total = Parameter(Tensor([0.0, 0.0]), name="total")

        def construct(self, x):
            self.total = self.total + x
            return self.total * 2

    net = Running()
    step = fj.jit(net.construct, fullgraph=True)
    for round in range(1, 4):
        assert step(Tensor([1.0, 2.0])).tolist() == [2.0 * round, 4.0 * round]
        assert net.total.tolist() == [1.0 * round, 2.0 * round]
    with pytest.raises(ValueError, match="Can not change the shape"):
        net.total = Tensor([1.0])


@pytest.mark.parametrize("how", ["assigned", "ops.assign", "ops.assign_add"])
@pytest.mark.parametrize("run", ["captured", "kept on a tape"])
def test_no_gradient_follows_what_is_written_into_a_parameter(how, run):
    class Running(nn.Cell):
        def __init__(self):
            super().__init__()
            self.total = Parameter(Tensor([2.0]), name="total")

        def construct(self, x):
            if run == "kept on a tape":
                str(id(x))
            if how == "assigned":
                self.total = x * 3
            elif how == "ops.assign":
                ops.assign(self.total, x * 3)
            else:
                ops.assign_add(self.total, x * 3)
            return x * self.total

    value = 17.0 if how == "ops.assign_add" else 15.0
    net = Running()
    assert fj.grad(net)(Tensor([5.0])).tolist() == [value] and net.total.tolist() == [value]
    net = Running()
    assert fj.grad(net, None, net.trainable_params())(Tensor([5.0]))[0].tolist() == [5.0]


def test_attributes_of_parameters_are_asked_for_as_eager():
    p = Parameter(Tensor([2.0]), name="p", requires_grad=False)

    def f(x):
        return x + 1, hasattr(p, "name"), getattr(p, "requires_grad", 3), hasattr(p, "foo"), hasattr(x, "foo")

    found, expected = fj.jit(f)(Tensor([1.0])), f(Tensor([1.0]))
    assert found[1:] == expected[1:] == (True, False, False, False)


@pytest.mark.parametrize("shapes", [((5, 7), (7, 3)), ((2, 5, 70), (70, 33)), ((64,), (64,)), ((3, 4, 8), (8, 16))])
def test_products_of_float16_are_those_of_eager(shapes):
    a, b = (values(*shape, dtype=np.float16) for shape in shapes)
    found, expected = fj.jit(lambda a, b: a @ b, fullgraph=True)(a, b), a @ b
    np.testing.assert_array_equal(found.asnumpy().view(np.uint16), expected.asnumpy().view(np.uint16))


# --- Cells ---------------------------------------------------------------------------------------------------------------------


class Normalized(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(2, 1)
        self.register_buffer("mean", Tensor([1.0]))
        self.register_buffer("scratch", Tensor([0.0]), persistent=False)

    def construct(self, x):
        return self.dense(x) - self.mean


def test_buffers_and_state():
    net, other = Normalized(), Normalized()
    assert list(net.state_dict()) == ["mean", "dense.weight", "dense.bias"]
    assert [name for name, _ in net.named_buffers()] == ["mean", "scratch"] and len(list(net.buffers())) == 2
    net.mean = Tensor([5.0])
    assert repr(other.load_state_dict(net.state_dict())) == "<All keys matched successfully>"
    x = values(3, 2)
    np.testing.assert_array_equal(other(x).asnumpy(), net(x).asnumpy())
    missing, unexpected = other.load_state_dict({"mean": Tensor([2.0]), "more": x}, strict=False)
    assert (missing, unexpected) == (["dense.weight", "dense.bias"], ["more"]) and other.mean.tolist() == [2.0]
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict: mean"):
        other.load_state_dict({})
    with pytest.raises(RuntimeError, match="size mismatch for mean"):
        other.load_state_dict({"mean": Tensor([1.0, 2.0])}, strict=False)
    assert net.get_buffer("mean") is net.mean and net.get_sub_cell("dense") is net.dense
    for name, error in (("a.b", KeyError), ("", KeyError), (3, TypeError), ("dense", KeyError)):
        with pytest.raises(error):
            net.register_buffer(name, Tensor([1.0]))


def test_hooks_of_state():
    seen = []
    net = Normalized()
    handles = [
        net.register_state_dict_pre_hook(lambda cell, prefix, keep: seen.append("before")),
        net.register_state_dict_post_hook(lambda cell, state, prefix, metadata: state.pop("mean") and None),
        net.register_load_state_dict_post_hook(lambda cell, keys: seen.append(keys.missing_keys)),
    ]
    state = net.state_dict()
    assert "mean" not in state
    net.load_state_dict(state, strict=False)
    assert seen == ["before", ["mean"]]
    for handle in handles:
        handle.remove()
    assert "mean" in net.state_dict()


def test_attributes_that_programs_read():
    net = Normalized()
    assert net._dynamic_shape_inputs is None and net.phase == "train" and not net.has_bprop and net.jit_config_dict == {}
    assert net.set_train(False).phase == "predict" and net.dense.phase == "predict"
    net.add_flags_recursive(k=3)
    assert net.dense.k == 3 and net.dense.get_flags() == {"k": 3}
    net.generate_scope()
    assert net.dense.get_scope() == "Default/dense-Dense"
    net.update_cell_prefix()
    assert net.dense.param_prefix == "dense" and net.create_time == net.create_time
    with pytest.raises(TypeError, match="phase"):
        net.phase = 3


def test_half_precision():
    x = values(4, 3)
    net = nn.SequentialCell(nn.Dense(3, 2), nn.ReLU(), nn.Dense(2, 1))
    expected = net(x).asnumpy()
    assert net.to_float(fj.float16) is net and net(x).dtype == fj.float16 and net[0].weight.dtype == fj.float32
    np.testing.assert_allclose(net(x).asnumpy(), expected, atol=1e-2)
    for level in (fj.jit(lambda x: net(x)), lambda x: net(x)):
        assert level(x).dtype == fj.float16
    gradients = fj.grad(lambda x: net(x).sum(), None, net.trainable_params())(x)
    assert [g.dtype for g in gradients] == [fj.float32] * 4
    with pytest.raises(ValueError, match="dst_type"):
        net.to_float(fj.int32)


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3", "auto"])
def test_auto_mixed_precision(level):
    seen = []

    class Probe(nn.Cell):
        def construct(self, x):
            seen.append(x.dtype)
            return x

    net = nn.SequentialCell(nn.Dense(3, 2), Probe(), nn.BatchNorm1d(2))
    out = amp.auto_mixed_precision(net, level)(values(4, 3))
    assert out.dtype == fj.float32
    assert seen == [fj.float16 if level in ("O2", "O3") else fj.float32]


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3", "auto"])
def test_build_train_network(level):
    inputs = Tensor(np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32))
    net = nn.SequentialCell(nn.Dense(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dense(8, 1))
    step = amp.build_train_network(net, nn.SGD(net.trainable_params(), 0.05), nn.MSELoss(), level)
    losses = []
    for _ in range(30):
        loss = step(inputs, inputs.sum(1, keepdims=True))
        losses.append((loss[0] if level == "O2" else loss).item())
    assert isinstance(step, nn.TrainOneStepWithLossScaleCell) == (level == "O2") and step.training
    assert losses[-1] < losses[0] / 10 and all(p.dtype == fj.float32 for p in net.trainable_params())


def test_options_of_build_train_network():
    seen = []

    class Probe(nn.Cell):
        def construct(self, x):
            seen.append(x.dtype)
            return x

    def build(level, **options):
        seen.clear()
        net = nn.SequentialCell(nn.Dense(3, 2), Probe())
        step = amp.build_train_network(net, nn.SGD(net.trainable_params(), 0.1), nn.MSELoss(), level, **options)
        step(values(4, 3), values(4, 2))
        return step, set(seen)

    assert build("O0", cast_model_type=fj.float16)[1] == {fj.float16}
    assert build("O3", cast_model_type=fj.float32)[1] == {fj.float32}
    assert not isinstance(build("O2", loss_scale_manager=None)[0], nn.TrainOneStepWithLossScaleCell)
    net = nn.Dense(1, 1)
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    for arguments, options, error, text in (
        ((net, 3), {}, TypeError, "'optimizer' must be an Optimizer, but got int"),
        ((net, optimizer, ops.relu), {}, TypeError, "'loss_fn' must be a Cell"),
        ((net, optimizer, None, "O9"), {}, ValueError, "'level' must be one of"),
        ((net, optimizer, None, 2), {}, TypeError, "`level` must be a string"),
        ((net, optimizer, None, "O0", "O1"), {}, ValueError, "'boost_level' must be 'O0'"),
        ((net, optimizer), {"scale": 1}, ValueError, "Unsupported arg 'scale'"),
        ((net, optimizer), {"cast_model_type": fj.int32}, TypeError, "'cast_model_type' must be float16 or float32"),
        ((net, optimizer), {"keep_batchnorm_fp32": 1}, TypeError, "'keep_batchnorm_fp32' must be bool"),
        ((net, optimizer), {"loss_scale_manager": 1.0}, TypeError, "'loss_scale_manager' must be a LossScaleManager"),
    ):
        with pytest.raises(error, match=text):
            amp.build_train_network(*arguments, **options)


@pytest.mark.parametrize("make", [lambda: nn.Dense(8, 2), lambda: nn.BatchNorm1d(8), lambda: nn.LayerNorm((8,)), nn.ReLU])
def test_cells_in_half_precision_are_one_graph(make):
    cell, x = make().to_float(fj.float16).set_train(), values(6, 8)

    def loss(x):
        return cell(x).astype(fj.float32).sum()

    marked = fj.jit(fj.value_and_grad(loss, 0, cell.trainable_params()), fullgraph=True)
    value, (of_input, of_weights) = marked(x)
    assert marked.graphs().count("graph @") == 1 and of_input.dtype == fj.float32
    assert [gradient.dtype for gradient in of_weights] == [fj.float32] * len(cell.trainable_params())
    assert all(p.dtype == fj.float32 for p in cell.trainable_params())
    np.testing.assert_allclose(value.item(), loss(x).item(), rtol=1e-2, atol=1e-2)


def test_normalizations_of_mint_have_weights():
    norm, x = mint.nn.GroupNorm(2, 4), values(3, 4, 5)
    np.testing.assert_array_equal(norm(x).asnumpy(), nn.GroupNorm(2, 4)(x).asnumpy())
    assert [p.name for p in norm.get_parameters()] == ["weight", "bias"] and norm.affine
    assert mint.nn.GroupNorm(2, 4, affine=False).trainable_params() == []
    norm.weight = Parameter(ops.ones_like(norm.weight) * 2)
    np.testing.assert_allclose(norm(x).asnumpy(), 2 * nn.GroupNorm(2, 4)(x).asnumpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="divisible"):
        mint.nn.GroupNorm(3, 4)
    for shape in (5, (4, 5), [5]):
        norm = mint.nn.LayerNorm(shape)
        np.testing.assert_allclose(norm(x).asnumpy(), nn.LayerNorm(norm.normalized_shape, -len(norm.normalized_shape), -len(norm.normalized_shape), epsilon=1e-5)(x).asnumpy(), rtol=1e-5, atol=1e-6)
    assert mint.nn.LayerNorm(5, bias=False).bias is None and mint.nn.LayerNorm(5, elementwise_affine=False).weight is None
    with pytest.raises(TypeError, match="normalized_shape"):
        mint.nn.LayerNorm("5")
    with pytest.raises(ValueError, match="at least one"):
        mint.nn.LayerNorm(())


def test_amp_says_what_it_takes():
    net = nn.Dense(1, 1)
    with pytest.raises(TypeError, match="should be Cell, but got int"):
        amp.auto_mixed_precision(3)
    with pytest.raises(ValueError, match="amp level O9"):
        amp.auto_mixed_precision(net, "O9")
    with pytest.raises(ValueError, match="one of 'white_list' and 'black_list'"):
        amp.custom_mixed_precision(net)
    with pytest.raises(ValueError, match="scale_window"):
        amp.DynamicLossScaler(2, 2, 0)


def test_a_scale_goes_down_and_up():
    scaler = amp.DynamicLossScaler(scale_value=8, scale_factor=2, scale_window=2)
    scales = []
    for finite in (False, True, True, True, False):
        assert scaler.adjust(Tensor(finite)) is True
        scales.append(scaler.scale_value.item())
    assert scales == [4.0, 4.0, 8.0, 8.0, 4.0]
    assert scaler.unscale(scaler.scale((Tensor([3.0]),)))[0].tolist() == [3.0]


# --- Primitives and functions ---------------------------------------------------------------------------------------------------


X = Tensor(np.array([[1.0, 4.0, 2.0], [3.0, 9.0, 5.0]], np.float32))
FORMS = {
    "median": (lambda: ops.Median(axis=1)(X), ([2.0, 5.0], [2, 2])),
    "median of all": (lambda: ops.Median(True)(X)[0], 3.0),
    "cumsum": (lambda: ops.CumSum(True, True)(X, 1), [[6.0, 2.0, 0.0], [14.0, 5.0, 0.0]]),
    "cumprod": (lambda: ops.CumProd(True)(X, 0), [[1.0, 1.0, 1.0], [1.0, 4.0, 2.0]]),
    "argmin": (lambda: ops.Argmin()(X), [0, 0]),
    "least": (lambda: ops.ArgMinWithValue(1)(X), ([0, 0], [1.0, 3.0])),
    "strided": (lambda: ops.StridedSlice(begin_mask=1, end_mask=2, shrink_axis_mask=1)(X, (0, 0), (1, 1), (1, 1)), [1.0, 4.0, 2.0]),
    "round": (lambda: ops.Round()(Tensor([1.26], fj.float64), 1), [1.3]),
    "nan": (lambda: ops.NanToNum(1.0, 2.0, 3.0)(Tensor([np.nan, np.inf, -np.inf])), [1.0, 2.0, 3.0]),
    "divide": (lambda: ops.DivNoNan()(X[0], Tensor([1.0, 0.0, 4.0])), [1.0, 0.0, 0.5]),
    "permutation": (lambda: ops.InvertPermutation()((2, 0, 1)), (1, 2, 0)),
    "norm": (lambda: ops.LpNorm(1, 1)(X), [7.0, 17.0]),
    "array": (lambda: ops.TupleToArray()((1, 2)), [1, 2]),
    "sequences": (lambda: ops.SequenceAdd()((1,), (2,)), (1, 2)),
    "depth": (lambda: ops.SpaceToDepth(2)(ops.arange(4).reshape(1, 1, 2, 2)).reshape(-1), [0, 1, 2, 3]),
    "by its name": (lambda: ops.Primitive("Neg")(X[0]), [-1.0, -4.0, -2.0]),
    "leaky": (lambda: mint.nn.functional.leaky_relu(Tensor([-1.0])), [np.float32(-0.01)]),
    "hot": (lambda: mint.nn.functional.one_hot(Tensor([1, 0])), [[0, 1], [1, 0]]),
    "median of mint": (lambda: mint.median(X, 1), ([2.0, 5.0], [2, 2])),
    "kth": (lambda: X.kthvalue(2), ([2.0, 5.0], [2, 2])),
    "gather": (lambda: X.gather(1, Tensor([[0], [2]])), [[1.0], [5.0]]),
    "summed": (lambda: X.sum_to_size(1, 3), [[4.0, 13.0, 7.0]]),
    "put": (lambda: X.index_put((Tensor([0, 0]), Tensor([1, 1])), Tensor([1.0, 2.0]), True), [[1.0, 7.0, 2.0], [3.0, 9.0, 5.0]]),
}


def listed(value):
    return type(value)(map(listed, value)) if isinstance(value, (tuple, list)) else value.tolist() if isinstance(value, Tensor) else value


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    call, expected = FORMS[name]
    assert listed(call()) == expected
    assert listed(fj.jit(call)()) == expected


def test_in_place():
    x = X.copy()
    assert x.exp_() is x and x.log_() is x
    np.testing.assert_allclose(x.asnumpy(), X.asnumpy(), rtol=1e-6)
    assert x.zero_().tolist() == [[0.0] * 3] * 2
    assert mint.nn.functional.relu(x.copy_(-X), inplace=True) is x and not x.any()


def test_primitives_that_programs_define():
    class Scale(ops.PrimitiveWithInfer):
        @ops.prim_attr_register
        def __init__(self, factor, offset=1):
            super().__init__("Scale")

        def __call__(self, x):
            return x * self.factor + self.offset

    scale = Scale(3)
    assert scale(Tensor([2.0])).tolist() == [7.0] and fj.jit(scale.__call__)(Tensor([2.0])).tolist() == [7.0]
    assert scale.init_attrs == {"factor": 3, "offset": 1} and scale.add_prim_attr("k", 1).attrs["k"] == 1 and scale.name == "Scale"


def test_jacobians():
    x, y = values(3), values(3)
    for jacobian in (ops.jacfwd, ops.jacrev):
        by_x, by_y = jacobian(lambda x, y: x * x * y, (0, 1))(x, y)
        np.testing.assert_allclose(by_x.asnumpy(), np.diag(2 * x.asnumpy() * y.asnumpy()), rtol=1e-5)
        np.testing.assert_allclose(by_y.asnumpy(), np.diag(x.asnumpy() ** 2), rtol=1e-5)
        found, aux = jacobian(lambda x: (x.sum(), x), has_aux=True)(x)
        assert found.tolist() == [1.0] * 3 and aux.tolist() == x.tolist()
        with pytest.raises(ValueError, match=">= 0"):
            jacobian(lambda x: x, -1)


def test_mutable_says_what_it_takes():
    x = values(2)
    assert fj.mutable((x, [1, {"a": 2.0}, np.int64(3), np.True_])) == (x, [1, {"a": 2.0}, 3, True])
    for wrong in ("a", (1, None), {"a": object()}):
        with pytest.raises(TypeError, match="For 'mutable', the 'input_data' should be one of"):
            fj.mutable(wrong)
    with pytest.raises(TypeError, match="second input should be bool"):
        fj.mutable((x,), 1)
    with pytest.raises(TypeError, match="should be list or tuple"):
        fj.mutable(x, True)


def test_syntax_levels():
    assert context.COMPATIBLE == 1
    fj.set_context(jit_syntax_level=context.COMPATIBLE)
    try:
        assert fj.JitConfig(jit_syntax_level="COMPATIBLE").jit_config_dict["jit_syntax_level"] == "COMPATIBLE"
        assert fj.jit(lambda x: [print(end=""), x + 1][1])(1) == 2
    finally:
        fj.set_context(jit_syntax_level=fj.LAX)


IMPORTS = """
from mindspore._extends import cell_attr_register
from mindspore._extends.parse import compile_config
from mindspore._c_expression import TensorPy, security
from mindspore.common._pijit_context import PIJitCaptureContext, Unsupported
from mindspore.common.api import _cell_graph_executor, _no_grad, _pynative_executor
from mindspore.common.mutable import mutable
from mindspore.common.sparse_tensor import RowTensor
from mindspore.nn.layer.basic import Dense
from mindspore.ops.auto_generate.gen_ops_prim import Add
from mindspore.ops.operations._sequence_ops import SequenceAdd
from mindspore.ops.primitive import constexpr, prim_attr_register
from mindspore import _no_grad as same, amp, Tensor
from mindspore import log as logger
import mindspore.log

assert same is _no_grad and logger is mindspore.log and mindspore.get_level() == "3" and mindspore.get_log_config() == {"GLOG_v": "3", "GLOG_logtostderr": "1"}
for write in (logger.debug, logger.info, logger.warning, logger.error, logger.critical):
    write("%s has %d", "log", 2)
compile_config.GRAD_FOR_SCALAR = "1"
_pynative_executor.sync()
net = Dense(2, 1)
name, done = _cell_graph_executor.compile(net, Tensor([[1.0, 2.0]]))
assert done and name.startswith("train") and not security.enable_security() and isinstance(Tensor([1]), TensorPy)
assert RowTensor(Tensor([1]), Tensor([[5.0]]), (3, 1)).dense_shape == (3, 1)
try:
    import mindspore.ops_that_are_not_there
except ModuleNotFoundError:
    print("done")
"""


def test_modules_under_which_programs_import(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(IMPORTS)
    command, environment = [sys.executable, "-m", "framejit", "--as-mindspore", str(script)], dict(os.environ, GLOG_v="3")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "done\n", done.stderr
    lines = done.stderr.splitlines()
    assert [line.partition("]")[0] for line in lines] == ["[ERROR", "[CRITICAL"]
    assert all(re.search(r"\] ME\(\d+:\d+,MainProcess\):\S+ \[\S+script\.py:\d+\] log has 2$", line) for line in lines), lines


def test_parameters_beside_others():
    """A Parameter in a namedtuple is an array like any other."""
    Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024
    pair = Pair(Parameter(Tensor([2.0]), name="a"), 3)
    assert fj.jit(lambda x: x * pair.a + pair.b)(Tensor([1.0])).tolist() == [5.0]


def test_methods_that_are_marked_are_part_of_the_caller():
    class Inner(nn.Cell):
        @fj.jit(capture_mode="bytecode")
        def construct(self, x):
            return self.scaled(x) + self.shifted(x)

        @fj.jit
        def scaled(self, x):
            return x * 2

        @staticmethod
        @fj.jit
        def shifted(x):
            return x + 1

    class Outer(nn.Cell):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def construct(self, x):
            return self.inner(x) * 3

    net, x = Outer(), values(3)
    step = fj.jit(net.construct, fullgraph=True)
    np.testing.assert_array_equal(step(x).asnumpy(), net(x).asnumpy())
    gradient = fj.grad(net)
    assert gradient(x).tolist() == [9.0] * 3 and gradient.graphs().count("graph @") == 1


# --- Values that MindSpore's own tests ask for -------------------------------------------------------------------------------


def test_the_gradients_of_vjp_are_a_tuple():
    x = values(3)
    for f in (lambda x: x * x, fj.jit(lambda x: x * x)):
        out, back = fj.vjp(f, x)
        (gradient,) = back(ops.ones_like(x))
        np.testing.assert_array_equal(gradient.asnumpy(), (2 * x).asnumpy())
    weight = Parameter(values(3), name="weight")
    (of_x,), of_weight = fj.vjp(lambda x: x * weight, x, weights=weight)[1](ops.ones_like(x))
    np.testing.assert_array_equal(of_x.asnumpy(), weight.asnumpy())
    np.testing.assert_array_equal(of_weight.asnumpy(), x.asnumpy())


def test_jacobians_are_by_result_and_then_by_argument():
    def f(x, y):
        return x * x, x * y

    x, y = values(2), values(2)
    for of in (ops.jacfwd, ops.jacrev):
        found = of(f, (0, 1))(x, y)
        expected = ((2 * x, 0 * x), (y, x))
        for row, wanted in zip(found, expected, strict=True):
            for one, diagonal in zip(row, wanted, strict=True):
                np.testing.assert_array_equal(one.asnumpy(), np.diag(diagonal.asnumpy()))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_gives_what_it_subtracted_and_divided_by(training):
    x = Tensor(np.array([[1, 2], [3, 4]], np.float32))
    scale, mean, variance = Tensor([1.0, 1.0]), Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    out, *others, of_batch, root = ops.BatchNorm(is_training=training)(x, scale, scale, mean, variance)
    assert [one.tolist() for one in others] == [[0, 0]] * 2
    assert of_batch.tolist() == ([2.0, 3.0] if training else [0.0, 0.0])
    np.testing.assert_allclose(root.asnumpy(), np.full(2, (1 + 1e-5) ** -0.5) if training else [0, 0], rtol=1e-6)
    np.testing.assert_allclose(mean.asnumpy(), [1.1, 2.1] if training else [1, 2], rtol=1e-6)
    np.testing.assert_allclose(variance.asnumpy(), [2.9, 3.8] if training else [3, 4], rtol=1e-6)
    np.testing.assert_allclose(out.asnumpy()[1], [2, 2] if training else [2.1547, 2], rtol=1e-4)


@pytest.mark.parametrize("other", [[1, 2, 3], (1, 2), [], ["a"], (1, "a", None)])
def test_a_tensor_equals_no_list(other):
    x = Tensor([1, 2, 3])
    for same in (lambda x: x == other, lambda x: other == x):
        assert same(x) is False and fj.jit(same)(x) is False
    for differs in (lambda x: x != other, lambda x: other != x):
        assert differs(x) is True and fj.jit(differs)(x) is True
    assert (x < [2, 2, 2]).tolist() == [True, False, False]


def test_comparing_with_a_list_of_numbers_is_captured():
    f = fj.jit(lambda x: (x * 2, x == [1.0, 2.0]), fullgraph=True)
    assert f(Tensor([1.0, 2.0]))[1] is False


@pytest.mark.parametrize("key", [0, (1, 2), slice(1, 2), (slice(None), 1), ...])
def test_one_element_takes_a_tensor_of_one_element(key):
    def write(x, value):
        x[key] = value
        return x

    def gradient(x, value):
        return (write(x * 1, value) * x).sum()

    x, value, scalar = values(2, 3), Tensor([7.0]), Tensor(7.0)
    if not isinstance(key, (slice, tuple)):
        x = values(2)
    expected = write(x * 1, scalar)
    for f in (write, fj.jit(write, fullgraph=True)):
        np.testing.assert_array_equal(f(x * 1, value).asnumpy(), expected.asnumpy())
    for f in (gradient, fj.jit(gradient)):
        found = fj.grad(f, (0, 1))(x, value)
        wanted = fj.grad(gradient, (0, 1))(x, scalar)
        np.testing.assert_array_equal(found[0].asnumpy(), wanted[0].asnumpy())
        np.testing.assert_allclose(found[1].asnumpy(), [wanted[1].item()], rtol=1e-6)


def test_comparing_with_what_is_no_number_within_a_gradient():
    def f(x):
        fj.graph_break("here")
        return x * (2 if x == "a" or x == None else 3) * ("1", x, 1).index(1)  # noqa: E711

    np.testing.assert_array_equal(fj.grad(f)(Tensor([2.0])).asnumpy(), [6.0])


def test_a_number_to_begin_with():
    x = Tensor(shape=(2, 3), dtype=fj.float32, init=1)
    assert x.shape == (2, 3) and x.dtype == fj.float32 and x.sum().item() == 6


def test_more_than_one_element_does_not_fit_one():
    with pytest.raises(ValueError):
        values(2)[0] = Tensor([1.0, 2.0])


# --- Primitives that update parameters, beside the optimizers of nn ----------------------------------------------------------

RATE = 0.05


def adam(weight, states, gradient, step):
    powers = [Tensor(np.float32(beta**step)) for beta in (0.9, 0.999)]
    ops.Adam()(weight, *states, *powers, RATE, 0.9, 0.999, 1e-8, gradient)


# The optimizer, what its states begin with, and the update of (weight, states, gradient, number of the step).
UPDATES = {
    "Momentum": (lambda p: nn.Momentum(p, RATE, 0.9), (0,), lambda w, s, g, _: ops.ApplyMomentum()(w, *s, RATE, g, 0.9)),
    "Momentum, nesterov": (
        lambda p: nn.Momentum(p, RATE, 0.9, use_nesterov=True),
        (0,),
        lambda w, s, g, _: ops.ApplyMomentum(use_nesterov=True)(w, *s, RATE, g, 0.9),
    ),
    "SGD": (
        lambda p: nn.SGD(p, RATE, 0.9, 0.1, 0.01),
        (0, 1),
        lambda w, s, g, _: ops.SGD(0.1, 0.01)(w, g, RATE, s[0], 0.9, s[1]),
    ),
    "Adam": (lambda p: nn.Adam(p, RATE), (0, 0), adam),
    "AdaMax": (
        lambda p: nn.AdaMax(p, RATE),
        (0, 0),
        lambda w, s, g, n: ops.ApplyAdaMax()(w, *s, Tensor(np.float32(0.9**n)), RATE, 0.9, 0.999, 1e-8, g),
    ),
    "Adagrad": (lambda p: nn.Adagrad(p, 0.1, RATE), (0.1,), lambda w, s, g, _: ops.ApplyAdagrad()(w, *s, RATE, g)),
    "Adadelta": (
        lambda p: nn.Adadelta(p, RATE, 0.9, 1e-6),
        (0, 0),
        lambda w, s, g, _: ops.ApplyAdadelta()(w, *s, RATE, 0.9, 1e-6, g),
    ),
    "RMSProp": (
        lambda p: nn.RMSProp(p, RATE, 0.9, 0.5, 1e-6),
        (1, 0),
        lambda w, s, g, _: ops.ApplyRMSProp()(w, *s, RATE, g, 0.9, 0.5, 1e-6),
    ),
    "FTRL": (
        lambda p: nn.FTRL(p, 0.1, RATE, l1=0.1, l2=0.2),
        (0.1, 0),
        lambda w, s, g, _: ops.ApplyFtrl()(w, *s, g, RATE, 0.1, 0.2, -0.5),
    ),
    "ProximalAdagrad": (
        lambda p: nn.ProximalAdagrad(p, 0.1, RATE, 0.1, 0.2),
        (0.1,),
        lambda w, s, g, _: ops.ApplyProximalAdagrad()(w, *s, RATE, 0.1, 0.2, g),
    ),
}


@pytest.mark.parametrize("name", UPDATES)
def test_updates_are_those_of_the_optimizers(name):
    make, starts, update = UPDATES[name]
    start = values(3, 4)
    mine, theirs = Parameter(start * 1, name="w"), Parameter(start * 1, name="w")
    states = [ops.full_like(start, float(value)) for value in starts]
    optimizer, compiled = make([theirs]), fj.jit(update)
    for step in range(1, 5):
        gradient = values(3, 4)
        optimizer((gradient,))
        compiled(mine, states, gradient, step)
    np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "sparse, dense",
    [
        (ops.FusedSparseFtrl(RATE, 0.1, 0.2, -0.5), lambda w, a, b, g: ops.ApplyFtrl()(w, a, b, g, RATE, 0.1, 0.2, -0.5)),
        (ops.SparseApplyFtrl(RATE, 0.1, 0.2, -0.5), None),
        (ops.SparseApplyAdagradV2(RATE, 0.0), None),
        (ops.SparseApplyAdagrad(RATE), lambda w, a, g: ops.ApplyAdagrad()(w, a, RATE, g)),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_gradients_of_one_row(sparse, dense):
    """Are added first; of the others each makes a step of its own."""
    count = 3 if "Ftrl" in sparse.name else 2
    start = [ops.abs(values(3, 2)) + 0.5 for _ in range(count)]
    rows, at = values(2, 2), Tensor(np.array([1, 1], np.int32))
    found, expected = [x * 1 for x in start], [x * 1 for x in start]
    sparse(*found, rows, at)
    if dense is not None:
        whole = Tensor(np.zeros((3, 2), np.float32))
        whole[1] = rows.sum(0)
        dense(*expected, whole)
    else:
        for i in range(2):
            sparse(*expected, rows[i : i + 1], at[i : i + 1])
    for one, other, before in zip(found, expected, start):
        np.testing.assert_allclose(one.asnumpy()[1], other.asnumpy()[1], rtol=1e-5)
        np.testing.assert_array_equal(one.asnumpy()[[0, 2]], before.asnumpy()[[0, 2]])


# --- Derivatives of higher order, and gradients of functions' own ------------------------------------------------------------


def test_derivatives_of_higher_order():
    x = Tensor(np.array([0.5, 1.5], np.float32))
    out, found = ops.jet(lambda x: ops.sin(x) * x, x, Tensor(np.array([[1, 1], [0, 0], [0, 0]], np.float32)))
    a, s, c = x.asnumpy(), np.sin(x.asnumpy()), np.cos(x.asnumpy())
    np.testing.assert_allclose(out.asnumpy(), s * a, rtol=1e-6)
    np.testing.assert_allclose(found.asnumpy(), [s + a * c, 2 * c - a * s, -3 * s - a * c], rtol=1e-5)
    out, third = ops.derivative(lambda x, y: (x * y, y * y * y), (x, x), 3)
    np.testing.assert_allclose([one.asnumpy() for one in third], [[0, 0], [6, 6]], atol=1e-5)
    # Along a path that is bent: d2/dt2 of f(x + t + t**2).
    _, found = ops.jet(lambda x: x * x, x, Tensor(np.array([[1, 1], [2, 2]], np.float32)))
    np.testing.assert_allclose(found.asnumpy(), [2 * a, 2 + 4 * a], rtol=1e-6)
    out, of_direction = ops.linearize(lambda x, y: x * y, (x, x))
    for direction in (x, 2 * x):
        np.testing.assert_array_equal(of_direction((direction, x)).asnumpy(), (direction * x + x * x).asnumpy())
    with pytest.raises(ValueError, match="For 'derivative', the 'order' must not be less than 1, but got 0"):
        ops.derivative(ops.sin, x, 0)
    with pytest.raises(TypeError, match="For 'linearize', the 'inputs' must be a Tensor"):
        ops.linearize(ops.sin, 3)
    with pytest.raises(ValueError, match="For 'jet', the 'series' must have one more dimension"):
        ops.jet(ops.sin, x, x)


def test_functions_with_gradients_of_their_own():
    from framejit.nn._custom_gradient import custom_vjp

    @custom_vjp
    def f(x, y):
        return 2 * x + y

    x, y = values(3), values(3)
    with pytest.raises(RuntimeError, match="defbwd"):
        fj.grad(f)(x, y)
    f.defbwd(lambda x, y, out, dout: (7 * dout, y * dout))
    found = fj.grad(lambda x, y: (f(x, y) * x).sum(), (0, 1))(x, y)
    np.testing.assert_allclose(found[0].asnumpy(), (7 * x + f(x, y)).asnumpy(), rtol=1e-6)
    np.testing.assert_allclose(found[1].asnumpy(), (y * x).asnumpy(), rtol=1e-6)


# --- Numbers of breaks -------------------------------------------------------------------------------------------------------


def breaks_of(f, *args):
    try:
        fj.jit(f, capture_mode="bytecode")(*args)
    except (ArithmeticError, ValueError) as error:
        assert str(error) == "left"
    return get_code_extra(f)["break_count_"]


def numbers():
    yield 1
    yield from [2, 3]


def sum_of_a_generator():
    iterator, total = numbers(), 0
    for i in iterator:
        total = total + i
    return total


def any_is_even(items):
    two = 2
    return any(i % two == 0 for i in items)


def caught_in_the_function():
    i = 1
    try:
        raise ArithmeticError
    except ValueError:
        i = 2
    except ArithmeticError:
        i = 3
    finally:
        pass
    return i


def leaves_through_finally():
    try:
        try:
            raise ArithmeticError("left")
        finally:
            pass
    finally:
        pass


def handles_what_another_raises(text):
    try:
        return int(text)
    except ValueError:
        return 0


@pytest.mark.parametrize(
    ("f", "args", "count"),
    [
        (sum_of_a_generator, (), 0),
        (any_is_even, ((1, 3, 4),), 0),
        (lambda xs, ys: [x + y for x, y in zip(xs, ys)], ([], (1, 2)), 0),
        (caught_in_the_function, (), 0),
        (leaves_through_finally, (), 1),
        (handles_what_another_raises, ("x",), 0),
    ],
)
def test_breaks_of_functions_that_are_followed(f, args, count):
    """A function that was followed to its end has no breaks, an exception that leaves it is one, its handlers are none."""
    assert breaks_of(f, *args) == count


# --- Indices -----------------------------------------------------------------------------------------------------------------


def test_tuples_within_an_index_are_lists():
    def read(x, at):
        return x[:, at] + x[at, :2, 0][:, :, None] * 2 + x[(0, 1), (1, 2)].sum()

    def write(x, at, y):
        x[:, at] = y
        x[(0, 1), (1, 2)] = 7
        return x

    rows = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for f, args in ((read, ((0, 1),)), (write, ((0, 2), -1.0)), (write, ((1,), Tensor(np.full((2, 1, 4), 5, np.float32))))):
        expected = f(Tensor(rows), *args)
        marked = fj.jit(f, fullgraph=True)
        np.testing.assert_array_equal(marked(Tensor(rows), *args).asnumpy(), expected.asnumpy())
    with pytest.raises(IndexError):
        fj.jit(read)(Tensor(rows), (0, 9))


# --- Names that programs import ----------------------------------------------------------------------------------------------


def test_function_id_is_that_of_the_function():
    class Class:
        def method(self):
            pass

        @classmethod
        def of_class(cls):
            pass

        @staticmethod
        def alone():
            pass

    assert function_id(Class.method) == function_id(Class().method) == id(Class.method)
    assert function_id(Class.of_class) == id(Class.of_class.__func__) and function_id(Class.alone) == id(Class().alone)
    assert function_id([].append) == function_id(list.append) != function_id(list.pop)
    assert function_id(().__len__) == function_id(tuple.__len__) and function_id(len) == id(len) and function_id(Class) == id(Class)


@pytest.mark.parametrize(
    ("name", "args", "error"),
    [
        ("check_positive_int", (0, "x", "Op"), "For 'Op', the 'x' must be int and must > 0, but got '0' with type 'int'."),
        ("check_positive_int", (True,), "The input value must be int and must > 0, but got 'True' with type 'bool'."),
        ("check_int", (2.5, 1, 5, "x"), "The 'x' must be int, but got 'float'"),
        ("check_float", (float("nan"), 0, 5, "x", "Op"), "For 'Op', the 'x' must be a legal value, but got 'nan'."),
        ("check_is_float", (1, "x", "Op"), "For 'Op', the type of 'x' must be 'float', but got 'int'."),
        ("check_int_range", (5, 0, 5, 8, "x", "Op"), "For 'Op', the 'x' must be in range of [0, 5), but got 5 with type 'int'."),
        ("check_bool", (1, "x", "Op"), "For 'Op', the 'x' must be a bool, but got int."),
        ("check_string", ("c", ["a", "b"], "x"), "The 'x' must be str and must be in '['a', 'b']', but got 'c'."),
        ("check_value_type", ("x", 1, [str, bool], "Op"), "For 'Op', the type of 'x' should be one of '['str', 'bool']', but got type 'int'."),
        ("check_value_type", ("x", True, int), "The type of 'x' should be 'int', but got type 'bool'."),
        ("check_positive_int_sequence", ((1, 0), "x", "Op"), "For 'Op', the 'x[1]' must be int and must > 0, but got '0' with type 'int'."),
        ("check_isinstance", ("x", 1, str), "The parameter 'x' must be isinstance of <class 'str'>, but got 1."),
        ("check_axis_in_range", (2, 2), "The 'axis' must be in the range of [-2, 2), but got 2."),
        ("check_axis_valid", ((0, -2), 2), "The element of parameter 'axis' can not be duplicate, but got (0, 0)."),
        ("check_str_by_regular", ("a b",), r"The 'a b' is illegal, it must be match regular'^\w+[0-9a-zA-Z\_\.]*$' by flags're.ASCII.'"),
        ("check_hook_fn", (5,), "Expected a callable hook function, but got int."),
        ("check_type_name", ("x", int, [fj.float32], "Op"), "For 'Op', the 'x' should be Float32, but got 'int'."),
        ("check_size_and_element_type_of_tuple", ("x", (1,), 2, int, "Op"), "For 'Op', the 'x size' must be int and must = 2, but got '1' with type 'int'."),
        ("twice", ((1,),), "When expanding an int number to tuple, input tuple dimension must be 2, but got (1,)"),
        ("check", ("x", 3, "y", 2, 1, "Op"), "For 'Op', the 'x' should be = y: 2, but got 3."),
    ],
)
def test_checks_of_arguments_say_what_mindspore_says(name, args, error):
    """The texts are those of MindSpore 2.10."""
    with pytest.raises((TypeError, ValueError)) as raised:
        getattr(_checkparam, name)(*args)
    assert str(raised.value) == error


@pytest.mark.parametrize(
    ("name", "args", "result"),
    [
        ("check_positive_int", (3,), 3),
        ("check_is_number", (1.5, (int, float)), 1.5),
        ("check_float_range", (0.5, 0.0, 0.5, 9), 0.5),
        ("check_number_range", (np.float32(2), 0, 5, 10, int), 2),
        ("check_value_type", ("x", 1, [int]), 1),
        ("check_axis_valid", (None, 2), (0, 1)),
        ("check_axis_valid", ([0, -1], 2), (0, 1)),
        ("check_transpose_axis", ((), 3), (2, 1, 0)),
        ("check_transpose_axis", (([1, 0],), 2), (1, 0)),
        ("check_reshape_shp", (([2, 3],),), (2, 3)),
        ("check_swapaxes_axis", ((-1, 0), 2), (1, 0)),
        ("prepare_shape_for_squeeze", ((1, 2, 1), (0, 2)), (2,)),
        ("infer_out_shape", ((2, 1), (3,)), (2, 3)),
        ("expanded_shape", (3, 5, 1), (1, 5, 1)),
        ("check_astype_dtype", ("float32",), fj.float32),
        ("twice", (3,), (3, 3)),
        ("triple_sequence", ([1, 2, 3],), (1, 2, 3)),
        ("is_stub_tensor", (1,), False),
        ("check_str_and_none_by_regular", ("",), True),
    ],
)
def test_checks_of_arguments_return_them(name, args, result):
    assert getattr(_checkparam, name)(*args) == result


def test_args_type_check_names_the_parameter():
    @_checkparam.args_type_check(a=int, b=(int, str))
    def f(a, b=1, *, c=None):
        return a, b, c

    assert f(1) == (1, 1, None) and f(None, "x", c=2) == (None, "x", 2)
    with pytest.raises(TypeError, match="The parameter 'b' must be .* but got <class 'float'>"):
        f(1, 2.5)


@pytest.mark.parametrize("values", [[1, 0, 2], [[1, 0], [2, 3]], [[0, 0]], [0.0, 1.0, -0.0, float("nan")]])
def test_places_that_are_not_zero_are_one_graph(values):
    marked = fj.jit(lambda x: fj.tensor(ops.nonzero(x)) + 1, fullgraph=True)
    found = marked(Tensor(np.array(values)))
    assert found.dtype == fj.int64 and found.asnumpy().tolist() == (np.argwhere(np.array(values)) + 1).tolist()


def test_operators_of_scipy_are_compiled_before_anything_imports_scipy():
    script = """
import sys
import numpy as np
import framejit as fj
from framejit import ops
assert "scipy.special" not in sys.modules
marked = fj.grad(lambda x: (ops.erf(x) * x).sum())
x = fj.Tensor(np.linspace(-3, 3, 64))
marked(x)
report = marked._report()
print([entry["kind"] for entry in report["entries"]], report["breaks"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "['function'] []", done.stdout + done.stderr
