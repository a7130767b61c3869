"""Random numbers of Tensors: the same bits eagerly and captured, one graph, and as random as they should be."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import warnings

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, mint, nn, ops
from framejit._tensors import _random
from tensor.tensor_support import assert_array, assert_same, leaves

pytestmark = pytest.mark.capture

MASK = 2**64 - 1
X = Tensor(np.random.default_rng(0).normal(size=(4, 3, 7)).astype(np.float32))
ROW = Tensor(np.linspace(0.1, 0.9, 7, dtype=np.float32))
POOL = nn.FractionalMaxPool2d(2, (2, 3))
PRIMITIVE = ops.Dropout(0.5, 3)
COIN = nn.probability.distribution.Bernoulli(Tensor([0.25, 0.5]))
SEEDED = nn.probability.distribution.Bernoulli(0.5, seed=3)
F16, F64 = fj.float16, fj.float64

CALLS = {
    "rand": lambda x: ops.rand(3, 4),
    "rand of float64": lambda x: ops.rand(3, 4, dtype=F64),
    "rand of float16": lambda x: ops.rand((3, 4), dtype=F16),
    "rand of a number": lambda x: ops.rand(),
    "rand of one": lambda x: ops.rand(1),
    "rand of none": lambda x: ops.rand(2, 0, 3),
    "rand with a seed": lambda x: ops.rand(5, seed=3),
    "rand_like": lambda x: ops.rand_like(x),
    "randn": lambda x: ops.randn(3, 4),
    "randn of float64": lambda x: ops.randn(5, dtype=F64),
    "randn of float16": lambda x: ops.randn(5, dtype=F16),
    "randn_like": lambda x: ops.randn_like(x),
    "randint": lambda x: ops.randint(-5, 7, (3, 4)),
    "randint of int32": lambda x: ops.randint(0, 2**31 - 1, (3, 4), dtype=fj.int32),
    "randint of a wide range": lambda x: ops.randint(-(2**63), 2**63 - 1, (9,)),
    "randint_like": lambda x: ops.randint_like(x, 0, 3),
    "normal": lambda x: ops.normal((2, 7), ROW, 2.0),
    "standard_normal": lambda x: ops.standard_normal((2, 3), seed=1),
    "uniform": lambda x: ops.uniform((2, 7), ROW, 2.0),
    "uniform of ints": lambda x: ops.uniform((4, 5), -2, 9, dtype=fj.int32),
    "bernoulli": lambda x: ops.bernoulli(x, 0.3),
    "bernoulli by row": lambda x: ops.bernoulli(x, ROW),
    "Tensor.bernoulli": lambda x: x.bernoulli(0.2),
    "mint.bernoulli": lambda x: mint.bernoulli(ROW),
    "Bernoulli": lambda x: COIN.sample((5,)),
    "Bernoulli with a seed": lambda x: SEEDED.sample((5,)),
    "dropout": lambda x: ops.dropout(x, 0.3),
    "dropout of all": lambda x: ops.dropout(x, 1.0),
    "dropout with a seed": lambda x: ops.dropout(x, 0.3, seed=9),
    "dropout1d": lambda x: ops.dropout1d(x, 0.3),
    "dropout2d": lambda x: ops.dropout2d(x[None], 0.3),
    "dropout3d": lambda x: ops.dropout3d(x[None, None], 0.3),
    "mint dropout": lambda x: mint.nn.functional.dropout(x),
    "Dropout": lambda x: PRIMITIVE(x),
    "attention": lambda x: ops.scaled_dot_product_attention(x, x, x, None, 0.2),
    "rrelu": lambda x: ops.rrelu(x),
    "laplace": lambda x: ops.laplace((2, 3), 1.0, 2.0),
    "gumbel_softmax": lambda x: ops.gumbel_softmax(x, hard=True),
    "FractionalMaxPool2d": lambda x: POOL(x[None]),
}


def draws(function, seed=7, count=2):
    """What calls give after `set_seed`, and the states behind them."""
    fj.set_seed(seed)
    SEEDED._state[...] = 3
    return [function(X) for _ in range(count)], _random.get_state()[:2]


def reference(state, count):
    """SplitMix64, one number after the other."""
    out = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        out.append(z ^ (z >> 31))
    return out


@pytest.mark.parametrize("shape", [(12,), (3, 4), (2, 3, 2), (), (1,), (1, 5)])
def test_the_numbers_are_those_of_splitmix64(shape):
    assert reference(0, 1) == [0xE220A8397B1DCDAF]  # as Vigna's splitmix64.c has it
    fj.set_seed(9)
    words = reference(9, 2 * math.prod(shape))
    for at in range(2):
        mine = np.array(words[at * math.prod(shape) :][: math.prod(shape)], np.uint64).reshape(shape)
        assert_array(ops.rand(*shape), (mine >> np.uint64(40)).astype(np.float32) * np.float32(2**-24))
    fj.set_seed(9)
    assert_array(ops.rand(*shape, dtype=F64), (np.array(words[: math.prod(shape)], np.uint64).reshape(shape) >> np.uint64(11)) * 2.0**-53)
    fj.set_seed(9)
    for low, high in ((-3, 8), (0, 2**32), (-(2**40), 2**62)):
        fj.set_seed(9)
        expected = [low + (word * (high - low) >> 64 if high - low > 2**32 else ((word >> 32) * (high - low) + ((word & 0xFFFFFFFF) * (high - low) >> 32)) >> 32) for word in words]
        assert ops.randint(low, high, shape).asnumpy().ravel().tolist() == expected[: math.prod(shape)]


@pytest.mark.parametrize("name", CALLS)
def test_captured_draws_are_the_eager_ones(name):
    function = CALLS[name]
    expected, states = draws(function)
    shown = np.asarray(expected[0].asnumpy()) if isinstance(expected[0], Tensor) else None
    if shown is not None and shown.size > 3 and name not in ("dropout of all", "dropout2d", "dropout3d"):
        assert expected[0].tolist() != expected[1].tolist()
    for options in ({}, {"capture_mode": "bytecode"}, {"backend": "GE"}, {"dynamic": True}):
        marked = fj.jit(function, **options)
        found, states_found = draws(marked)
        assert_same(found, expected, (name, options))
        assert states_found == states
    marked = fj.jit(function, fullgraph=True)
    assert_same(draws(marked)[0], expected)
    assert marked.graphs().count("graph @") == 1
    assert ("library_call" in marked.graphs()) == (name == "FractionalMaxPool2d")  # its gather


def test_at_o1_a_mask_is_the_same():
    function = lambda x: (ops.dropout(x, 0.25) == 0, ops.rand(5, 6), ops.randint(0, 9, (4,)))  # noqa: E731
    assert_same(draws(fj.jit(function, jit_level="O1", fullgraph=True))[0], draws(function)[0])
    normals = draws(fj.jit(lambda x: ops.randn(1000), jit_level="O1", fullgraph=True))[0]
    np.testing.assert_allclose(normals[0].asnumpy(), draws(lambda x: ops.randn(1000))[0][0].asnumpy(), rtol=1e-5, atol=1e-6)


def test_what_stands_around_a_draw_is_one_kernel_with_it():
    def f(x):
        return ops.tanh(ops.dropout(x, 0.5)) + x * 2

    explained = fj.explain(fj.jit(f, fullgraph=True))(X)
    assert len(explained.graphs) == 1 and not explained.breaks
    program = str(explained).split("program")[1]
    # The state, what each row and what each column adds to it, and the elements.
    assert [program.count(f"\n      {kind} ") for kind in ("loop", "library_call", "matmul")] == [4, 0, 0]


def test_sizes_that_vary_are_few_entries():
    marked = fj.jit(lambda x: ops.dropout(x, 0.5) + ops.rand(*x.shape), fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 30):
            x = ops.ones((n, n + 2))
            expected = draws(lambda _: ops.dropout(x, 0.5) + ops.rand(*x.shape))  # noqa: B023
            assert_same(draws(lambda _: marked(x)), expected)  # noqa: B023
            ops.randint(0, n, (n,)), ops.randn(*[2] * (n % 5)), ops.rand(n, dtype=F16)
    assert len(marked.cache_entries()) <= 3


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.dropout = nn.Dense(7, 16), nn.Dense(16, 2), nn.Dropout(p=0.4)

    def construct(self, x):
        return self.last(self.dropout(ops.relu(self.first(x))))


@pytest.mark.parametrize("level", ["O0", "O1"])
def test_training_is_one_graph(level):
    fj.set_seed(1)
    net, start = Net().set_train(), []
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    gradient = fj.value_and_grad(lambda x: (net(x) ** 2).mean(), None, optimizer.parameters)
    start = [parameter.asnumpy().copy() for parameter in optimizer.parameters]

    def step(x):
        loss, gradients = gradient(x)
        optimizer(gradients)
        return loss

    marked, runs = fj.jit(step, fullgraph=True, jit_level=level), []
    for run in (step, marked):
        for parameter, value in zip(optimizer.parameters, start):
            parameter.set_data(Tensor(value))
        results, states = draws(run, count=4)
        runs.append(([result.item() for result in results], [parameter.asnumpy().copy() for parameter in optimizer.parameters], states))
    assert marked.graphs().count("graph @") == 1 and "library_call" not in marked.graphs()
    assert runs[0][2] == runs[1][2] and len(set(runs[0][0])) == 4
    if level == "O0":
        assert runs[0][0] == runs[1][0]
    for eager, compiled in zip(runs[0][1], runs[1][1]):
        np.testing.assert_allclose(compiled, eager, rtol=0 if level == "O0" else 1e-4, atol=0 if level == "O0" else 1e-6)


@pytest.mark.parametrize("make", [
    lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True),
    lambda: nn.LSTM(8, 4, num_layers=2, dropout=0.5),
    lambda: nn.SequentialCell(nn.Conv1d(3, 4, 3), nn.Dropout1d(0.5), nn.Dropout(p=0.1)),
], ids=["transformer", "lstm", "convolution"])
def test_gradients_of_cells_that_drop(make):
    fj.set_seed(2)
    cell, x = make().set_train(), ops.randn(2, 3, 8)

    def loss(x):
        out = cell(x)
        return ((out[0] if isinstance(out, tuple) else out) ** 2).mean()

    gradient = fj.value_and_grad(loss, 0, cell.trainable_params())
    marked = fj.jit(lambda x: gradient(x), fullgraph=True)
    assert_same(draws(lambda _: marked(x)), draws(lambda _: gradient(x)))
    with fj.stance("force_eager"):  # on the tape
        taped = draws(lambda _: gradient(x))
    for mine, other in zip(leaves(draws(lambda _: marked(x))[0]), leaves(taped[0])):
        np.testing.assert_allclose(mine.asnumpy(), other.asnumpy(), rtol=2e-4, atol=2e-6)
    assert marked.graphs().count("graph @") == 1


def test_forward_and_backward_have_one_mask():
    marked = fj.jit(lambda x: fj.value_and_grad(lambda x: ops.dropout(x, 0.5).sum())(x), fullgraph=True)
    first, second = marked(X), marked(X)
    for value, gradient in (first, second):
        assert set(gradient.asnumpy().ravel()) == {0.0, 2.0}
        np.testing.assert_allclose((gradient * X).sum().item(), value.item(), rtol=1e-5)
    assert first[1].tolist() != second[1].tolist()
    twice = lambda x: fj.grad(lambda x: fj.grad(lambda x: ops.dropout(x**3, 0.5).sum())(x).sum())(x)  # noqa: E731
    assert_same(draws(fj.jit(twice, fullgraph=True)), draws(twice))
    np.testing.assert_allclose(np.unique(np.round((twice(X) / X).asnumpy())), [0, 12])


def branches(x):
    if x.sum() > ops.rand():
        y = ops.dropout(x, 0.4) * ops.dropout(x, 0.2)
    else:
        y = ops.rand_like(x) * x
    return y * ops.rand(7)


def rounds(x):
    total = ops.zeros(())
    while total < 3.0:
        total = total + ops.rand()
    for i in range(3):
        x = ops.dropout(x, 0.2) + i
    return x * total


@pytest.mark.parametrize("function", [branches, rounds])
@pytest.mark.parametrize("sign", [1, -1])
def test_control_flow(function, sign):
    given = X * sign * Tensor(np.sign(X.asnumpy()))
    marked = fj.jit(function, fullgraph=True)
    assert_same(draws(lambda _: marked(given)), draws(lambda _: function(given)))
    assert marked.graphs().count("graph @") == 1 and ("if " if function is branches else "loop ") in marked.graphs()


@pytest.mark.parametrize("sign", [1, -1])
def test_the_gradient_of_a_branch_that_draws_is_in_the_graph(sign):
    given = X * sign * Tensor(np.sign(X.asnumpy()))
    gradient = lambda x: fj.value_and_grad(lambda x: branches(x).sum())(x)  # noqa: E731
    marked = fj.jit(gradient, fullgraph=True)
    assert_same(draws(lambda _: marked(given)), draws(lambda _: gradient(given)))
    _, mask = marked(given)
    assert (mask.asnumpy() == 0).any() == (sign == 1)


def test_breaks_samples_and_marks():
    def broken(x):
        y = ops.dropout(x, 0.5)
        fj.graph_break("here")
        return y * ops.rand_like(x)

    assert_same(draws(fj.jit(broken)), draws(broken))
    assert len(fj.explain(fj.jit(broken))(X).breaks) == 1
    samples = lambda x: fj.vmap(lambda row: ops.dropout(row, 0.5))(x)  # noqa: E731
    assert_same(draws(fj.jit(samples, fullgraph=True)), draws(lambda x: ops.stack([ops.dropout(row, 0.5) for row in x])))
    assert_same(draws(samples), draws(lambda x: ops.stack([ops.dropout(row, 0.5) for row in x])))
    for stress in ("interp", "verify", "break=3", "guards"):
        expected = draws(branches)
        with fj.mark(branches, stress=stress):
            assert_same(draws(branches), expected, stress)
    with fj.stance("force_eager"):
        assert_same(draws(branches), draws(branches))


def test_what_runs_again_draws_once():
    bad = np.array([-1.0, 2.0, 4.0])

    def warns(a):
        drawn = ops.rand(3)
        return np.log(a) + drawn.asnumpy() + np.sqrt(a)

    def raises(a):
        drawn = ops.rand(3)
        with np.errstate(all="raise"):
            return np.log(a) + drawn.asnumpy()

    for function in (warns, raises):
        seen = []
        for run in (function, fj.jit(function)):
            fj.set_seed(4)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                for given in (bad, -bad, bad):
                    try:
                        seen.append(run(given).tobytes())
                    except FloatingPointError:
                        seen.append(b"")
            seen.append((len(said), _random.get_state()[:2]))
        assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


def test_threads():
    marked, large = fj.jit(lambda x: ops.dropout(x, 0.5) + ops.rand_like(x), fullgraph=True), ops.ones((500, 400))
    fj.set_seed(0)

    def work():
        for _ in range(50):
            marked(X), ops.rand(7), ops.randn(3, 4), ops.randint(0, 3, (2,))
        marked(large), ops.rand(1000, 100)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    count = 6 * (50 * (2 * X.size + 7 + 12 + 2) + 2 * large.size + 100000)
    assert _random.get_state()[0] == count * 0x9E3779B97F4A7C15 & MASK


def test_threads_of_kernels_change_nothing():
    before, large = fj.config.num_threads, ops.ones((700, 900))
    try:
        found = []
        for fj.config.num_threads in (1, 2, 3):
            found.append(draws(fj.jit(lambda x: ops.dropout(large, 0.5) + ops.randn(700, 900)))[0])
    finally:
        fj.config.num_threads = before
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])


def test_seeds():
    assert fj.get_rng_state()[1][0] == _random.get_state()[0]
    state = fj.get_rng_state()
    first = [ops.rand(3), ops.rand(3, seed=5), np.random.random_sample(2).tolist(), ops.randperm(9, seed=2)]
    fj.set_rng_state(state)
    assert_same([ops.rand(3), ops.rand(3, seed=5), np.random.random_sample(2).tolist(), ops.randperm(9, seed=2)], first)
    # A stream of its own, that goes on, by function and seed; and begins anew with the seed of all.
    functions = (lambda s: ops.rand(4, seed=s), lambda s: ops.uniform((4,), 0.0, 1.0, seed=s), lambda s: ops.randperm(20, seed=s))
    for function in functions:
        fj.set_seed(1)
        one = [function(2), function(2), function(3)]
        ops.rand(5)
        fj.set_seed(1)
        assert_same([function(2), function(2), function(3)], one)
        assert len({tuple(drawn.tolist()) for drawn in one}) == 3
        fj.set_seed(8)
        assert function(2).tolist() != one[0].tolist()
    fj.set_seed(1)
    assert functions[0](2).tolist() != functions[1](2).tolist()
    before = _random.get_state()[0]
    ops.rand(4, seed=7)
    assert _random.get_state()[0] == before
    with pytest.raises(TypeError, match="'seed' must be int or None, but got float"):
        ops.rand(3, seed=1.5)
    with pytest.raises(ValueError, match="'seed' must not be negative"):
        ops.uniform((3,), 0.0, 1.0, seed=-1)


def test_a_process_begins_anywhere():
    code = "import framejit as fj; print(fj.ops.rand(3).tolist())"
    assert len({subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in range(2)}) == 2


def test_wrong_arguments_and_files():
    with pytest.raises(ValueError, match="'dtype' must be a floating one, but got Int32"):
        ops.rand(3, dtype=fj.int32)
    for low, high in ((3, 3), (5, 2), (0, 2**63)):
        with pytest.raises(ValueError, match="'low' must be below the 'high'"):
            ops.randint(low, high, (2,))
    net = Net().set_train()
    with pytest.raises(ValueError, match="writes into generator, which a graph in a file cannot"):
        fj.export(net, Tensor(np.ones((2, 7), np.float32)), file_name="unused")


def chi_square(counts, expected):
    """How far counts are from what is expected, in deviations of the chi-square distribution."""
    value = ((counts - expected) ** 2 / expected).sum()
    return (value - (len(counts) - 1)) / math.sqrt(2 * (len(counts) - 1))


@pytest.mark.parametrize("dtype", [fj.float32, F64, F16])
def test_uniform_numbers_are_uniform(dtype):
    fj.set_seed(11)
    x = ops.rand(400, 500, dtype=dtype).asnumpy().astype(np.float64).ravel()
    assert 0 <= x.min() < 1e-3 and 1 - 1e-3 < x.max() < 1
    assert abs(x.mean() - 0.5) < 5 / math.sqrt(12 * x.size) and abs(x.var() - 1 / 12) < 1e-3
    assert abs(chi_square(np.histogram(x, 64, (0, 1))[0], x.size / 64)) < 5
    pairs = np.histogram2d(x[:-1], x[1:], 16, ((0, 1), (0, 1)))[0].ravel()
    assert abs(chi_square(pairs, pairs.sum() / 256)) < 5
    assert abs(np.corrcoef(x[:-500], x[500:])[0, 1]) < 0.012  # rows


@pytest.mark.parametrize("dtype", [fj.float32, F64])
def test_normal_numbers_are_normal(dtype):
    fj.set_seed(12)
    x = ops.randn(400, 500, dtype=dtype).asnumpy().astype(np.float64).ravel()
    bounds = np.linspace(-3, 3, 25)
    cdf = np.array([0.0, *[(1 + math.erf(b / math.sqrt(2))) / 2 for b in bounds], 1.0])
    counts = np.histogram(x, [-np.inf, *bounds, np.inf])[0]
    assert abs(chi_square(counts, np.diff(cdf) * x.size)) < 5
    assert abs(x.mean()) < 0.012 and abs(x.std() - 1) < 0.01 and abs((x**3).mean()) < 0.03 and abs((x**4).mean() - 3) < 0.08
    assert 4 < np.abs(x).max() < 7
    moved = ops.normal((100000,), 3.0, 0.5).asnumpy()
    assert abs(moved.mean() - 3) < 0.01 and abs(moved.std() - 0.5) < 0.01


def test_other_distributions():
    fj.set_seed(13)
    for low, high in ((0, 10), (-7, 60), (-(2**40), 2**40 + 3)):
        x = ops.randint(low, high, (100000,)).asnumpy()
        assert x.min() >= low and x.max() < high
        bins = min(high - low, 50)
        counts = np.histogram(x, bins, (low, high))[0] if bins == 50 else np.bincount(x - low, minlength=bins)
        share = x.size / bins if high - low != 67 else np.diff(np.ceil(np.linspace(low, high, 51))) * x.size / 67
        assert abs(chi_square(counts, share)) < 5
    for p in (0.01, 0.5, 0.9):
        kept = (ops.dropout(ops.ones((100000,)), p) != 0).asnumpy().mean()
        assert abs(kept - (1 - p)) < 5 * math.sqrt(p * (1 - p) / 1e5)
        assert abs(ops.bernoulli(ops.ones((100000,)), p).asnumpy().mean() - p) < 5 * math.sqrt(p * (1 - p) / 1e5)
    assert abs(ops.dropout(ops.ones((100000,)), 0.3).asnumpy().mean() - 1) < 0.02
    x = ops.laplace((100000,), 1.0, 2.0).asnumpy()
    assert np.isfinite(x).all() and abs(np.median(x) - 1) < 0.05 and abs(x.std() - math.sqrt(8)) < 0.06
    x = ops.uniform((100000,), -3.0, -1.0).asnumpy()
    assert x.min() >= -3 and x.max() < -1 and abs(x.mean() + 2) < 0.01
    x = ops.uniform((100000,), -3, 4, dtype=fj.int32).asnumpy()
    assert abs(chi_square(np.bincount(x + 3, minlength=7), x.size / 7)) < 5
    chosen = ops.gumbel_softmax(ops.log(Tensor(np.tile(np.float32([0.1, 0.2, 0.7]), (100000, 1)))), hard=True).asnumpy().mean(0)
    np.testing.assert_allclose(chosen, [0.1, 0.2, 0.7], atol=0.01)
