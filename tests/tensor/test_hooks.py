"""Hooks of Cells and Tensors, and gradients that a Cell gives itself."""

from __future__ import annotations

import copy
import pickle

import framejit as fj
import numpy as np
import pytest
from framejit import Parameter, Tensor, nn, ops
from tensor.tensor_support import assert_same

X = Tensor(np.array([1.0, -2.0, 3.0], np.float32))


class Scale(nn.Cell):
    def __init__(self, factor=2.0):
        super().__init__()
        self.factor = Parameter(Tensor([factor], fj.float32))

    def construct(self, x, bias=0.0):
        return x * self.factor + bias


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.relu, self.scale = nn.ReLU(), Scale()

    def construct(self, x):
        x = x + x
        x = self.relu(x)
        return self.scale(x)


def ways(function):
    """As it is, and compiled."""
    return (function, fj.jit(function))


def test_hook_of_a_tensor():
    """The example of MindSpore's page."""

    def hook_test(x, y):
        z = x * y
        handle = z.register_hook(lambda grad: grad * 2)
        z = z * y
        assert hasattr(handle, "remove")
        return z

    for function in ways(hook_test):
        for _ in range(2):
            found = fj.grad(function, grad_position=(0, 1))(Tensor(1, fj.float32), Tensor(2, fj.float32))
            assert [g.item() for g in found] == [8.0, 6.0]
    assert_same(fj.jit(hook_test)(X, X), X * X * X)


def test_hooks_of_a_tensor_run_in_order_and_can_be_taken_out():
    seen = []

    def f(x):
        y = x * 3
        y.register_hook(lambda g: seen.append(("first", g.tolist())))
        y.register_hook(lambda g: g * 10)
        y.register_hook(lambda g: seen.append(("last", g.tolist())))
        y.register_hook(lambda g: g * 7).remove()
        return y.sum()

    assert fj.grad(f)(X).tolist() == [30.0] * 3
    assert seen == [("first", [1.0] * 3), ("last", [10.0] * 3)]


def test_hooks_of_parameters_and_arguments_stay():
    net, seen = Net(), []
    plain = fj.grad(net, None, net.trainable_params())
    before = plain(X)
    handle = net.scale.factor.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
    for _ in range(2):
        assert_same(plain(X)[0], before[0] * 2)
    assert seen == [before[0].tolist()] * 2
    handle.remove()
    assert_same(plain(X)[0], before[0])
    assert len(seen) == 2

    x = Tensor([1.0, 2.0])
    gradient = fj.grad(lambda x: (x * x).sum())
    assert gradient(x).tolist() == [2.0, 4.0]
    handle = x.register_hook(lambda g: -g)
    assert gradient(x).tolist() == [-2.0, -4.0] and gradient(Tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
    handle.remove()
    assert gradient(x).tolist() == [2.0, 4.0]


def hooked_net():
    net = Net()
    net.scale.factor.register_hook(lambda g: g * 2)
    net.scale.factor.register_hook(lambda g: None if g.ndim else g * 3)
    return net


def test_hooks_of_what_is_asked_for_are_captured():
    net = hooked_net()
    x = Tensor([1.0, -2.0, 3.0])
    x.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g - 1)
    for position, weights in ((0, None), (None, net.trainable_params()), (0, net.trainable_params()), (0, [net.scale.factor])):
        function = fj.grad(net, position, weights)
        marked = fj.jit(lambda x: function(x), fullgraph=True)
        for _ in range(2):
            assert_same(marked(x), function(x))
        explained = fj.explain(lambda x: function(x))(x)
        assert not explained.breaks and marked.graphs().count("graph @") == 1
    marked = fj.jit(lambda x: fj.grad(net)(x), fullgraph=True)
    handle = x.register_hook(lambda g: g * 7)
    for _ in range(2):
        assert_same(marked(x), fj.grad(net)(x))
    handle.remove()
    assert_same(marked(x), fj.grad(net)(x))
    assert_same(marked(Tensor([1.0, -2.0, 3.0])), fj.grad(Net())(Tensor([1.0, -2.0, 3.0])))


def test_hooks_with_effects_run_in_the_order_of_the_tape():
    def gradients(mark, how):
        net, seen, x = Net(), [], Tensor([1.0, -2.0, 3.0])
        for name, tensor in (("x", x), *((p.name, p) for p in net.trainable_params())):
            if how == "several" or name == "x":
                tensor.register_hook(lambda g, name=name: seen.append((name, g.tolist())))
        function = mark(lambda x: fj.grad(net, 0, net.trainable_params())(x))
        found = [function(x) for _ in range(3)]
        return [one.tolist() for a, b in found for one in (a, *b)], seen

    for how in ("several", "one"):
        assert gradients(fj.jit, how) == gradients(lambda f: f, how)


def test_hooks_of_parameters_that_are_not_asked_for_stay_silent():
    """As in MindSpore."""
    net, seen = Net(), []
    net.scale.factor.register_hook(lambda g: seen.append(g))
    for function in ways(lambda x: fj.grad(net)(x)):
        function(X)
    assert seen == []
    fj.grad(net, None, [net.scale.factor])(X)
    assert len(seen) == 1


def test_hooks_of_an_inner_and_an_outer_gradient():
    x = Tensor([1.0, 2.0])
    x.register_hook(lambda g: g * 10)

    def twice(x):
        return fj.grad(lambda x: fj.grad(lambda x: (x * x * x).sum())(x).sum())(x)

    assert_same(fj.jit(twice)(x), twice(x))


def test_hooks_stay_with_their_tensor():
    x = Tensor([1.0, 2.0])
    x.register_hook(lambda g: g * 10)
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x + 0):
        assert fj.grad(lambda x: (x * x).sum())(other).tolist() == [2.0, 4.0]


def test_a_hook_dies_with_its_tensor():
    from framejit._autodiff import _tape

    before = set(_tape.hooked)  # Parameters of other tests
    x = Tensor([1.0])
    x.register_hook(lambda g: g)
    assert set(_tape.hooked) - before == {id(x)}
    del x
    assert set(_tape.hooked) <= before


def test_hooks_forward_in_compiled_code():
    net, seen = Net(), []
    plain = net(X)
    net.relu.register_forward_pre_hook(lambda cell, inputs: seen.append("before") or (inputs[0] * 2,))
    net.relu.register_forward_hook(lambda cell, inputs, output: seen.append("after") or output + 1)
    expected = net(X)
    assert not np.array_equal(expected.asnumpy(), plain.asnumpy())
    marked = fj.jit(lambda x: net(x), fullgraph=True)
    for _ in range(2):
        assert_same(marked(X), expected)
    assert seen == ["before", "after"] * 3 and len(marked.cache_entries()) == 1
    net.set_jit_config(fj.JitConfig(jit_level="O0"))
    assert_same(net(X), expected)


def test_hooks_with_keywords():
    net = Scale()
    net.register_forward_pre_hook(lambda cell, args, kwargs: ((args[0] * 2,), {"bias": kwargs["bias"] + 1}), with_kwargs=True)
    net.register_forward_hook(lambda cell, args, kwargs, output: output * kwargs["bias"], with_kwargs=True)
    for call in ways(lambda x: net(x, bias=3.0)):
        assert_same(call(X), (X * 2 * 2.0 + 4.0) * 4.0)


def test_backward_hooks():
    """As on MindSpore's page of Cell.register_backward_hook."""
    net, seen = Net(), []
    handle = net.relu.register_backward_hook(
        lambda cell, grad_input, grad_output: seen.append((type(cell).__name__, grad_input[0].tolist(), grad_output[0].tolist()))
    )
    for function in ways(lambda x: net(x)):
        assert fj.grad(function)(X).tolist() == [4.0, 0.0, 4.0]
    assert seen == [("ReLU", [2.0, 0.0, 2.0], [2.0, 2.0, 2.0])] * 2
    handle.remove()
    assert fj.grad(net)(X).tolist() == [4.0, 0.0, 4.0] and len(seen) == 2
    assert_same(fj.jit(lambda x: net(x))(X), net(X))


def test_backward_hooks_give_other_gradients():
    net = Net()
    net.relu.register_backward_pre_hook(lambda cell, grad_output: grad_output[0] * 10)
    net.relu.register_backward_hook(lambda cell, grad_input, grad_output: (grad_input[0] + grad_output[0],))
    assert fj.grad(net)(X).tolist() == [80.0, 40.0, 80.0]
    value, (of_input, of_weight) = fj.value_and_grad(net, 0, net.trainable_params())(X)
    assert of_input.tolist() == [80.0, 40.0, 80.0] and of_weight[0].tolist() == [8.0]


def test_backward_hooks_of_several_inputs_and_outputs():
    class Two(nn.Cell):
        def construct(self, x, y, unused):
            return x * y, x + 1, y * 0

    class Outer(nn.Cell):
        def __init__(self):
            super().__init__()
            self.two = Two()

        def construct(self, x, y):
            a, b, _ = self.two(x, y, 3)
            return a.sum() + 2 * b.sum()

    net, seen = Outer(), []
    net.two.register_backward_hook(lambda cell, gi, go: seen.append([[g.tolist() for g in part] for part in (gi, go)]))
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    found = fj.grad(net, (0, 1))(x, y)
    assert [g.tolist() for g in found] == [[5.0, 6.0], [1.0, 2.0]]
    assert seen == [[[[5.0, 6.0], [1.0, 2.0]], [[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]]]]


def test_a_backward_hook_where_only_weights_are_asked_for():
    net, seen = Net(), []
    net.scale.register_backward_hook(lambda cell, gi, go: seen.append((gi, go[0].tolist())))
    expected = fj.grad(Net(), None, (net.scale.factor,))
    assert [g.tolist() for g in fj.grad(net, None, net.trainable_params())(X)] == [[8.0]]
    assert seen == [((None,), [1.0, 1.0, 1.0])] and callable(expected)


def test_wrong_hooks():
    net = Net()
    for register in (net.register_forward_hook, net.register_forward_pre_hook, net.register_backward_hook, net.register_backward_pre_hook, X.register_hook):
        with pytest.raises(TypeError, match="hook must be a function"):
            register(3)
    net.relu.register_backward_hook(lambda cell, gi, go: (gi[0], gi[0]))
    with pytest.raises(TypeError, match="must return 1 gradients or None, but gave 2"):
        fj.grad(net)(X)


class Clipped(nn.Cell):
    """The identity, with a gradient of its own."""

    def construct(self, x, y):
        return x + y * 2

    def bprop(self, x, y, out, dout):
        return ops.clamp(dout, -1.0, 1.0), out * dout


def test_bprop_of_a_cell():
    net = Clipped()
    for call in ways(lambda x, y: (net(x * 2, y) * 5).sum()):
        of_x, of_y = fj.grad(call, (0, 1))(X, X)
        assert of_x.tolist() == [2.0] * 3
        assert_same(of_y, (X * 2 + X * 2) * 5)
    marked = fj.jit(lambda x: net(x, x), fullgraph=True)
    assert_same(marked(X), X + X * 2)


def test_bprop_of_second_order():
    class Cube(nn.Cell):
        def construct(self, x):
            return x * x * x

        def bprop(self, x, out, dout):
            return (x * x * 3 * dout,)

    net = Cube()
    assert fj.grad(fj.grad(net))(X).tolist() == [6.0, -12.0, 18.0]


class Product(nn.Cell):
    """x * y, with the gradient of x that is given."""

    def __init__(self, of_x):
        super().__init__()
        self.of_x = of_x

    def construct(self, x, y):
        return x * y

    def bprop(self, x, y, out, dout):
        return self.of_x(y, dout), x * dout


FACTOR = Tensor(3.0)


@pytest.mark.parametrize(
    ("of_x", "expected"),
    [
        (lambda y, dout: y * dout, 6.0),
        (lambda y, dout: ops.ones((4, 3), fj.float32), 8.0),  # over more dimensions: their sum
        (lambda y, dout: ops.ones((2, 1, 3), fj.float32), 4.0),
        (lambda y, dout: (y * dout).astype(fj.float16), 6.0),
        (lambda y, dout: (y * dout).astype(fj.float64), 6.0),
        (lambda y, dout: None, 0.0),
    ],
)
def test_gradients_of_bprop_have_the_shapes_and_dtypes_of_the_operands(of_x, expected):
    net = Product(of_x)
    for call in ways(lambda x, y: net(x * 2, y).sum()):
        dx, dy = fj.grad(call, (0, 1))(X, FACTOR)
        assert dx.dtype == fj.float32 and dx.tolist() == [expected] * 3
        assert dy.shape == () and dy.item() == (X * 2).sum().item()


def test_gradients_of_bprop_for_numbers():
    class Square(nn.Cell):
        def construct(self, x):
            return x * x

        def bprop(self, x, out, dout):
            return 7, dout  # a number is a Tensor without dimensions, and what is there beyond the operands is left out

    assert fj.grad(Square())(FACTOR).item() == 7.0
    for given in (lambda y, dout: 1.0, lambda y, dout: ops.ones((5,)), lambda y, dout: ops.ones((1,))):
        with pytest.raises(RuntimeError, match=r"gradient 0 that the bprop of Product returns must have a shape to which \(3,\) can be broadcast"):
            fj.grad(Product(given))(X, FACTOR)


def test_bprop_that_gives_too_few():
    class Bad(Clipped):
        def bprop(self, x, y, out, dout):
            return (dout,)

    with pytest.raises(TypeError, match="bprop of Bad must return 2 gradients, but gave 1"):
        fj.grad(Bad(), (0, 1))(X, X)


def test_hook_backward():
    seen = []
    see, double = ops.HookBackward(seen.append), ops.HookBackward(lambda gradients: tuple(g * 2 for g in gradients))
    y = Tensor([3.0, 4.0, 5.0])

    def f(x, y):
        z = see(x * y)
        a, b = double(z, y)
        return (a * b).sum()

    for call in ways(f):
        seen.clear()
        of_x, of_y = fj.grad(call, (0, 1))(X, y)
        assert_same(of_x, y * y * 2)
        assert_same(of_y, (X * y) * 2 + y * 2 * X)
        assert len(seen) == 1 and type(seen[0]) is tuple
        assert_same(seen[0], (y * 2,))
    assert_same(fj.jit(f, fullgraph=True)(X, y), f(X, y))  # where no gradient is asked for, nothing is done


def test_insert_gradient_of():
    def cut(dx):
        return ops.clamp(dx, -2.0, 2.0)

    clip = ops.InsertGradientOf(cut)
    weights = Tensor([1.0, -5.0, 7.0])

    class Net(nn.Cell):
        def construct(self, x):
            return (clip(x * 2) * weights).sum()

    for call in (Net(), fj.jit(Net()), *ways(lambda x: (clip(x * 2) * weights).sum())):
        assert fj.grad(call)(X).tolist() == [2.0, -4.0, 4.0]
    assert_same(fj.jit(Net().construct, fullgraph=True)(X), Net()(X))


def test_wrong_functions_for_gradients():
    for make, name in ((ops.HookBackward, "hook_fn"), (ops.InsertGradientOf, "'f'")):
        with pytest.raises(TypeError, match=f"{name}.* must be a function, but got int"):
            make(3)
    bad = ops.HookBackward(lambda gradients: (gradients[0], gradients[0]))
    with pytest.raises(TypeError, match="hook of HookBackward must return 1 gradients or None, but gave 2"):
        fj.grad(lambda x: bad(x).sum())(X)


# --- Tensors kept for gradients ----------------------------------------------------------------------------------------------


def test_kept_tensors_are_packed_and_unpacked():
    """The example of MindSpore's documentation."""
    seen = []

    def pack(x):
        seen.append(("packing", x.tolist()))
        return x + 1

    def unpack(x):
        seen.append(("unpacking", x.tolist()))
        return x

    def forward(x, y):
        with fj.saved_tensors_hooks(pack, unpack):
            out = x * y
        seen.append("forward end")
        return out

    x, y = Tensor([1.0, 1.0]), Tensor([1.0, 1.0])
    out, gradients = fj.value_and_grad(forward, (0, 1))(x, y)
    assert out.tolist() == [1.0, 1.0]
    assert [one.tolist() for one in gradients] == [[2.0, 2.0], [2.0, 2.0]]
    assert seen == [*[("packing", [1.0, 1.0])] * 2, "forward end", *[("unpacking", [2.0, 2.0])] * 2]
    assert forward(x, y).tolist() == [1.0, 1.0]
    assert len(seen) == 6  # without a gradient nothing is kept


def test_gradients_do_not_depend_on_how_tensors_are_kept(tmp_path):
    def stored(x):
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.npy"
        np.save(file, x.asnumpy())
        return file

    def plain(x, w):
        return (ops.softmax(ops.matmul(x, w)) * ops.exp(x[:, :2])).sum()

    packed = fj.register_saved_tensors_hooks(stored, lambda file: Tensor(np.load(file)))(plain)
    x, w = (Tensor(np.random.default_rng(seed).random(shape).astype(np.float32)) for seed, shape in enumerate([(4, 3), (3, 2)]))
    for ours, theirs in zip(fj.grad(packed, (0, 1))(x, w), fj.grad(plain, (0, 1))(x, w), strict=True):
        np.testing.assert_allclose(ours.asnumpy(), theirs.asnumpy(), rtol=1e-5, atol=1e-6)
    assert len(list(tmp_path.iterdir())) > 3
    np.testing.assert_array_equal(packed(x, w).asnumpy(), plain(x, w).asnumpy())


def test_cells_keep_tensors_as_their_hooks_say():
    net = nn.Dense(2, 3, weight_init="ones")
    packed = []
    net.register_saved_tensors_hooks(lambda x: packed.append(x.shape) or x * 2, lambda x: x)
    gradient = lambda x: fj.grad(lambda x: net(x).sum(), None, net.trainable_params()[:1])(x)[0]  # noqa: E731
    np.testing.assert_array_equal(gradient(Tensor([[3.0, 5.0]])).asnumpy(), [[6.0, 10.0]] * 3)
    assert (1, 2) in packed
    net.register_saved_tensors_hooks(None, None)
    np.testing.assert_array_equal(gradient(Tensor([[3.0, 5.0]])).asnumpy(), [[3.0, 5.0]] * 3)


def test_the_innermost_hooks_count_and_errors_end_them():
    def forward(x):
        with fj.saved_tensors_hooks(lambda x: x * 10, lambda x: x):
            with fj.saved_tensors_hooks(lambda x: x * 100, lambda x: x):
                y = x * x
            return y + x * x

    assert fj.grad(forward)(Tensor([1.0])).tolist() == [220.0]

    def failing(x):
        with fj.saved_tensors_hooks(lambda x: x * 10, lambda x: x):
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fj.grad(failing)(Tensor([1.0]))
    assert fj.grad(lambda x: x * x)(Tensor([1.0])).tolist() == [2.0]

    def unpacks_wrongly(x):
        with fj.saved_tensors_hooks(lambda x: x, lambda x: 3):
            return x * x

    with pytest.raises(TypeError, match="unpack_hook must return a Tensor"):
        fj.grad(unpacks_wrongly)(Tensor([1.0]))
