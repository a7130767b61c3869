"""vmap: each sample as by itself, also where all are computed at once."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, nn, ops
from tensor.tensor_support import assert_array, assert_same

X = np.arange(12.0, dtype=np.float32).reshape(4, 3)


def test_axes():
    def f(x, w, b):
        return (x * w).sum() + b, x[::-1] if isinstance(x, np.ndarray) else x + w

    w, b = np.float32([1, 2, 3]), np.arange(4, dtype=np.float32)
    for make in (lambda a: a, Tensor):
        for function in (f, fj.jit(f)):
            for given, axes in ((X, 0), (X.T.copy(), 1), (X.T.copy(), -1)):
                total, other = fj.vmap(function, (axes, None, 0), (0, 1))(make(given), make(w), make(b))
                rows = [f(make(X[i].copy()), make(w), make(b)[i]) for i in range(4)]
                assert np.array_equal(np.asarray(total), np.stack([np.asarray(r[0]) for r in rows]))
                assert np.array_equal(np.asarray(other), np.stack([np.asarray(r[1]) for r in rows], 1))
                assert type(total) is type(make(w)) and total.dtype == make(w).dtype


def test_it_is_compiled():
    batched = fj.vmap(lambda x, y: x * 2 + y)
    assert_array(batched(Tensor(X), Tensor(X)), X * 3)
    assert_array(batched(Tensor(X), Tensor(X)), X * 3)
    (entry,) = batched.cache_entries()
    assert entry["kind"] == "function" and entry["hits"] == 2
    many = np.random.default_rng(0).normal(size=(300, 5))
    assert np.array_equal(fj.vmap(lambda r: np.sqrt(np.abs(r)).sum())(many), np.array([np.sqrt(np.abs(r)).sum() for r in many]))


def test_inside_of_what_is_compiled():
    marked = fj.jit(lambda x, y: fj.vmap(fj.vmap(lambda a, b: (a * b).sum(), (None, 1)), (0, None))(x, y), fullgraph=True)
    x, y = Tensor(X[:2]), Tensor(X.T[:, :2].copy())
    np.testing.assert_allclose(marked(x, y).asnumpy(), X[:2] @ X.T[:, :2])


def test_gradients_of_samples():
    net = nn.Dense(3, 1)
    x, y = Tensor(X), Tensor(np.ones((4, 1), np.float32))

    def loss(x, y):
        return ((net(x) - y) ** 2).sum()

    found = fj.vmap(fj.grad(loss))(x, y)
    assert_same(found, ops.stack([fj.grad(loss)(x[i], y[i]) for i in range(4)]))


def test_structures_and_results_that_are_the_same():
    def f(pair, k):
        return {"sum": pair[0] + pair[1], "first": [pair[0][0]]} if k is None else (pair[0] + pair[1], k)

    total, k = fj.vmap(f, ((0, None), None), (0, None))((X, X[0]), 3)
    assert np.array_equal(total, X + X[0]) and k == 3
    found = fj.vmap(f, ((0, None), None))((X, X[0]), None)
    assert np.array_equal(found["sum"], X + X[0]) and np.array_equal(found["first"], [X[:, 0]])


def test_control_flow_goes_by_the_sample():
    batched = fj.vmap(lambda x: x * 2 if x.sum() > 12 else -x)
    assert np.array_equal(batched(X), np.stack([r * 2 if r.sum() > 12 else -r for r in X]))


@pytest.mark.parametrize(
    ("axes", "args", "error", "says"),
    [
        ("0", (X,), TypeError, "in_axes"),
        (True, (X,), TypeError, "in_axes"),
        ((0, 1.0), (X, X), TypeError, "in_axes"),
        ((0, 0, 0), (X, X), ValueError, "3, but there are 2"),
        (None, (X,), ValueError, "one number"),
        ((0, 1), (X, X), ValueError, r"\[4, 3\]"),
        (2, (X,), ValueError, "out of range"),
        (0, (X[:0],), ValueError, "no samples"),
    ],
)
def test_wrong_axes(axes, args, error, says):
    with pytest.raises(error, match=says):
        fj.vmap(lambda *xs: xs[0], axes)(*args)


def test_what_is_no_function():
    with pytest.raises(TypeError, match="'fn'"):
        fj.vmap(3)
    with pytest.raises(TypeError, match="out_axes"):
        fj.vmap(abs, 0, "x")
    with pytest.raises(ValueError, match="out_axes"):
        fj.vmap(lambda x: (x, x), 0, (0, 0, 0))(X)


RNG = np.random.default_rng(5)
T, V = RNG.normal(size=(5, 4, 6)), RNG.normal(size=(5, 6))
BATCHES = {
    "elementwise": (lambda x: np.exp(x) * 2 - x / 3, (T,), 0, 0),
    "axes": (lambda x, y: x * y[:, None] + 1, (T, V), (2, 1), 1),
    "the same for all": (lambda x, w: (x * w).sum(-1) + w[:, 0], (T, T[0]), (0, None), -1),
    "reductions": (lambda x: (x.sum(), x.sum(0), x.sum(1), x.prod(), x.mean(), x.max(), x.min(axis=0), x.argmax is None), (T,), 0, (0, 0, 0, 0, 0, 0, 0, None)),
    "shapes": (lambda x: (x.T, x[1:, ::-2] * 1.0, x.reshape(-1), x[None, 0], np.concatenate((x, x)).sum() * 0), (T,), 0, 0),
    "dtypes": (lambda x: (x > 0, np.where(x > 0, x, -x).astype(np.float32), (x * 4).astype(np.int64) // 3), (T,), 1, 0),
    "norm": (lambda x: (x - x.mean(0)) / np.sqrt(((x - x.mean(0)) ** 2).mean(0) + 1e-5), (T,), 0, 0),
    "scalars": (lambda a, x, k: (a * x + np.exp(a), a ** 2.0, a / 3, k // 2), (V[:, 0].copy(), V, np.arange(5)), 0, 0),
    "number": (lambda x: float(x.sum()) * 2.0, (V,), 0, 0),
}  # fmt: skip
WHOLE = {"elementwise", "the same for all", "reductions", "norm", "number"}  # one graph, whatever the number of samples


def one_by_one(f, args, axes, out):
    axes = axes if isinstance(axes, tuple) else (axes,) * len(args)
    count = next(a.shape[k] for a, k in zip(args, axes) if k is not None)
    results = [f(*[a if k is None else np.take(a, i, k) if isinstance(a, Tensor) else a[(slice(None),) * (k % a.ndim) + (i,)] for a, k in zip(args, axes)]) for i in range(count)]
    if not isinstance(results[0], tuple):
        return np.stack(results, out)
    outs = out if isinstance(out, tuple) else (out,) * len(results[0])
    return tuple(results[0][j] if k is None else np.stack([r[j] for r in results], k) for j, k in enumerate(outs))


@pytest.mark.parametrize("name", BATCHES)
def test_all_samples_at_once_are_each_by_itself(name):
    f, args, axes, out = BATCHES[name]
    batched = fj.vmap(f, axes, out)
    for scale in (1.0, -3.0):
        given = [a * scale for a in args]
        expected = one_by_one(f, given, axes, out)
        for found in (batched(*given), fj.jit(lambda *xs, batched=batched: batched(*xs))(*given)):
            pairs = zip(found, expected) if isinstance(expected, tuple) else [(found, expected)]
            for a, b in pairs:
                if isinstance(b, np.ndarray):
                    assert (a.dtype, a.shape, a.strides, a.flags.owndata) == (b.dtype, b.shape, b.strides, b.flags.owndata)
                    assert a.tobytes() == b.tobytes()
                else:
                    assert a == b
    if name in WHOLE:
        few, many = fj.vmap(f, axes, out), fj.vmap(f, axes, out)
        few(*[a if k is None else np.delete(a, 0, k) for a, k in zip(args, axes if isinstance(axes, tuple) else (axes,))])
        many(*args)
        assert few.graphs().count("\n") == many.graphs().count("\n") and few.graphs().count("graph @") == 1


@pytest.mark.parametrize("seed", range(40))
def test_random_computations_of_samples(seed):
    rng = np.random.default_rng(seed)
    steps = rng.integers(0, 12, 6)
    axis = int(rng.integers(-1, 3))

    def f(x, w):
        y = x
        for step in steps:
            if step == 0:
                y = y * w
            elif step == 1:
                y = y - y.sum()
            elif step == 2:
                y = y + y.sum(0)
            elif step == 3:
                y = y.T * 1.0
                y = y.T
            elif step == 4:
                y = np.sqrt(np.abs(y))
            elif step == 5:
                y = y - y.max(axis=-1, keepdims=True)
            elif step == 6:
                y = np.where(y > w, y, w)
            elif step == 7:
                y = y[::-1] + y
            elif step == 8:
                y = y / (np.abs(y).sum(axis=1, keepdims=True) + 1)
            elif step == 9:
                y = y.reshape(-1)[::-1].reshape(y.shape) * 2
            elif step == 10:
                y = (y.astype(np.float32) * 3).astype(np.float64)
            else:
                y = y + y[0].mean()
        return y, y.sum()

    shape = [int(n) for n in rng.integers(1, 40, 3)]
    x = rng.normal(size=shape)
    sample = [n for k, n in enumerate(shape) if k != axis % 3]
    w = rng.normal(size=sample)
    found, expected = fj.vmap(f, (axis, None))(x, w), one_by_one(f, (x, w), (axis, None), 0)
    for a, b in zip(found, expected):
        assert (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides) and a.tobytes() == b.tobytes(), (steps, axis, shape)


def test_tensors_at_once():
    x, y = Tensor(T.astype(np.float32)), Tensor(np.ascontiguousarray(T.transpose(0, 2, 1).astype(np.float32)))
    w = Tensor(RNG.normal(size=(6, 3)).astype(np.float32))

    def loss(x, w):
        return (ops.softmax(x, -1) * w).sum()

    cases = [
        (lambda x: ops.softmax(ops.relu(x) + 1, -1), (x,), 0, 1),
        (lambda x, y: ops.matmul(x, y), (x, y), 0, 1),
        (fj.grad(loss), (x, x[0]), (0, None), 1),
        (lambda x, w: ops.matmul(x, w), (x, w), (0, None), 5),  # rows of all samples would be those of one matrix
    ]
    for f, args, axes, products in cases:
        batched = fj.vmap(f, axes)
        found = batched(*args)
        expected = ops.stack([f(*[a[i] if k is not None else a for a, k in zip(args, axes if isinstance(axes, tuple) else (0,) * len(args))]) for i in range(5)])
        assert_same(found, expected)
        if "matmul" in batched.graphs():
            assert batched.graphs().count("matmul") == products
        else:
            assert "[5, 4, 6]" in batched.graphs() and batched.graphs().count("exp ") == 1
    fast = fj.vmap(fj.jit(lambda x, w: ops.matmul(x, w), jit_level="O1"), (0, None))
    np.testing.assert_allclose(fast(x, w).asnumpy(), x.asnumpy() @ w.asnumpy(), rtol=1e-5, atol=1e-6)
    assert fast.graphs().count("matmul") == 1


def test_what_a_sample_changes_is_changed_by_each():
    seen, total = [], np.zeros(6)

    def notes(x):
        seen.append(1)
        return x * 2

    def adds(x):
        total[:] += x
        return x + total

    for f in (notes, adds):
        seen.clear()
        total[:] = 0
        expected = np.stack([f(r) for r in V])
        after = (len(seen), total.copy())
        for _ in range(2):
            seen.clear()
            total[:] = 0
            assert np.array_equal(fj.vmap(f)(V), expected)
            assert len(seen) == after[0] and np.array_equal(total, after[1])


def test_warnings_of_samples():
    f = lambda x: 1.0 / x  # noqa: E731
    x = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    with pytest.warns(RuntimeWarning, match="divide by zero") as caught:
        found = fj.vmap(f)(x)
    assert len(caught) >= 1
    with np.errstate(all="ignore"):
        assert np.array_equal(found, 1.0 / x)
        assert np.array_equal(fj.vmap(f)(x), 1.0 / x)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        fj.vmap(f)(x)


def test_gradients_through_a_batch():
    w = np.arange(1.0, 7.0)
    for f in (lambda x, w: (x * w).sum(), lambda x, w: (np.exp(x) * fj.ops.stop_gradient(w) * w).sum()):
        of_batch = fj.grad(lambda x, w: (fj.vmap(f, (0, None))(x, w) ** 2).sum(), (0, 1))(V, w)
        of_rows = fj.grad(lambda x, w: sum(f(x[i], w) ** 2 for i in range(5)), (0, 1))(V, w)
        for a, b in zip(of_batch, of_rows):
            np.testing.assert_allclose(a, b, rtol=1e-12)


# --- Assignments to Parameters ------------------------------------------------------------------------------------------------


def assert_equal(found, expected):
    np.testing.assert_array_equal(found, expected, strict=True)


def assigned(make, function, *given, axes=0):
    """Returns the result of vmap and the value of the Parameter after it, and checks that the three ways to run agree."""
    found = []
    for run in (lambda f: f, fj.jit, interpreted):
        parameter = make()
        batched = run(lambda *args: fj.vmap(lambda *sample: function(parameter, *sample), axes)(*args))
        found.append((batched(*given).asnumpy(), parameter.asnumpy()))
    for result, left in found[1:]:
        assert_equal(result, found[0][0])
        assert_equal(left, found[0][1])
    return found[0]


def interpreted(function):
    def run(*args):
        with fj.stance("force_eager"):
            return function(*args)

    return run


def zeros(*shape):
    return lambda: fj.Parameter(Tensor(np.zeros(shape, np.float32)), name="p")


def test_samples_find_a_parameter_as_it_was():
    ones = Tensor(np.ones(3, np.float32))

    def assign(p, x):
        ops.assign(p, ones)
        return x + p

    def add(p, x):
        ops.assign_add(p, ones)
        return x + p

    def itself(p, x):
        ops.assign_add(p, ones)
        return p

    for function, expected in ((assign, X + 1), (add, X + 1), (itself, np.ones_like(X))):
        result, left = assigned(zeros(3), function, Tensor(X))
        assert_equal(result, expected)
        assert_equal(left, np.ones(3, np.float32))


def test_samples_that_assign_different_values():
    def differ(p, x):
        ops.assign(p, x)
        return x + p

    def add_last(p, x):
        ops.assign_add(p, x - X[-1] * 0)
        return x

    for run in (lambda f: f, fj.jit, interpreted):
        for function in (differ, add_last):
            parameter = zeros(3)()
            with pytest.raises(ValueError, match="source axis of Parameter 'p' is None"):
                run(lambda x: fj.vmap(lambda row: function(parameter, row))(x))(Tensor(X))
            assert_equal(parameter.asnumpy(), np.zeros(3, np.float32))


@pytest.mark.parametrize("axis", (0, 1))
def test_a_mapped_parameter_gets_its_samples(axis):
    shape = X.shape if axis == 0 else X.T.shape

    def add(p, x):
        ops.assign_add(p, x)
        return x + p

    for run in (lambda f: f, fj.jit, lambda f: fj.jit(f, fullgraph=True), interpreted):
        parameter = fj.Parameter(Tensor(np.ones(shape, np.float32)), name="p")
        result = run(lambda p, x: fj.vmap(add, (axis, 0))(p, x))(parameter, Tensor(X))
        assert_equal(result.asnumpy(), X + X + 1)
        assert_equal(parameter.asnumpy(), X + 1 if axis == 0 else (X + 1).T.copy())


def test_a_mapped_parameter_that_is_only_read_is_one_batch():
    parameter = fj.Parameter(Tensor(X), name="p")
    batched = fj.vmap(lambda p, x: p * 2 + x)
    assert_equal(batched(parameter, Tensor(X)).asnumpy(), X * 2 + X)
    (entry,) = batched.cache_entries()
    assert not any("writeable" in guard for guard in entry["guards"])


def test_a_cell_that_assigns_to_its_parameters():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.p = zeros(3)()
            self.moving = zeros(3)()

        def construct(self, x):
            self.p = self.p * 2 + 1
            return x + self.p

    for run in (lambda f: f, interpreted):
        net = Net()
        assert_equal(run(fj.vmap(net))(Tensor(X)).asnumpy(), X + 1)
        assert_equal(net.p.asnumpy(), np.ones(3, np.float32))
        assert_equal(net.moving.asnumpy(), np.zeros(3, np.float32))


def test_nested_vmaps_that_assign():
    ones = Tensor(np.ones((), np.float32))

    def add(p, x):
        ops.assign_add(p, ones)
        return x + p

    for run in (lambda f: f, fj.jit, interpreted):
        parameter = zeros()()
        nested = run(lambda x: fj.vmap(fj.vmap(lambda one: add(parameter, one)))(x))
        assert_equal(nested(Tensor(X)).asnumpy(), X + 1)
        assert_equal(parameter.asnumpy(), np.float32(1).reshape(()))


def test_a_sample_that_breaks_assigns_one_value_or_none(capsys):
    def assign(p, x, add):
        print("sample")
        ops.assign(p, p * 0 + 1 + add * x[0])
        return x * 2

    parameter = zeros()()
    result = fj.vmap(lambda row: assign(parameter, row, 0))(Tensor(X))
    assert_equal(result.asnumpy(), X * 2)
    assert_equal(parameter.asnumpy(), np.float32(1).reshape(()))
    assert capsys.readouterr().out == "sample\n" * 4
    with pytest.raises(ValueError, match="source axis"):
        fj.vmap(lambda row: assign(parameter, row, 1))(Tensor(X))


# --- CellList: each cell on the sample of its place ----------------------------------------------------------------------------


class Scaled(nn.Cell):
    def __init__(self, scale):
        super().__init__()
        self.w = fj.Parameter(Tensor([scale, 2 * scale], fj.float32), name="w")

    def construct(self, x, y):
        return x * self.w + y, (x * self.w).sum()


def ensemble(count=3, cell=Scaled):
    return nn.CellList([cell(float(k + 1)) for k in range(count)])


@pytest.mark.parametrize("axes", [(0, None), (None, 0), 0, None, (1, 0)])
@pytest.mark.parametrize("place", ["call", "jit", "graph"])
def test_each_cell_gets_its_sample(axes, place):
    cells, x = ensemble(), np.arange(6.0, dtype=np.float32).reshape(3, 2)
    both = axes if isinstance(axes, tuple) else (axes, axes)
    args = [Tensor(x[0] if axis is None else np.moveaxis(x, 0, axis)) for axis in both]
    batched = fj.vmap(cells, axes, (0, 0))
    if place != "call":
        batched = fj.jit(lambda *args: fj.vmap(cells, axes, (0, 0))(*args), fullgraph=place == "graph")
    rows = [cell(*(Tensor(x[0 if axis is None else k]) for axis in both)) for k, cell in enumerate(cells)]
    for _ in range(3):
        scaled, total = batched(*args)
        assert_array(scaled, np.stack([row[0].asnumpy() for row in rows]))
        assert_array(total, np.stack([row[1].asnumpy() for row in rows]))


def test_each_cell_has_its_gradients():
    cells, x = ensemble(), Tensor(np.arange(6.0, dtype=np.float32).reshape(3, 2))
    dx, dw = fj.grad(lambda x: fj.vmap(cells, (0, None))(x, x[0])[0].sum(), 0, cells.trainable_params())(x)
    assert_array(dx, np.float32([[4, 5], [2, 4], [3, 6]]))
    assert [one.asnumpy().tolist() for one in dw] == x.asnumpy().tolist()


def test_each_cell_assigns_to_its_parameters():
    class Assigned(Scaled):
        def construct(self, x):
            ops.assign(self.w, x)
            return self.w + 1

    cells, x = ensemble(cell=Assigned), np.arange(6.0, dtype=np.float32).reshape(3, 2)
    assert_array(fj.vmap(cells)(Tensor(x)), x + 1)
    assert [cell.w.asnumpy().tolist() for cell in cells] == x.tolist()


def test_as_many_samples_as_cells():
    x = Tensor(X)
    with pytest.raises(ValueError, match="number of cells, which is 3, but got .4, 4."):
        fj.vmap(ensemble())(x, x)
    for count in (0, 1):
        with pytest.raises(RuntimeError, match=f"more than 1 cell, but got {count}"):
            fj.vmap(ensemble(count))
