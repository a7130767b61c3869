"""What the options of jit change: orders, memory, threads; and what the log says."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap

import framejit as fj
import numpy as np
import pytest
from framejit import Parameter, Tensor, nn, ops
from framejit._reporting._events import listen
from tensor.tensor_support import assert_same

pytestmark = pytest.mark.capture


def branches(x, weights):
    """Products first, then a number of each."""
    products = [x @ w for w in weights]
    total = None
    for p in products:
        s = (p * p).sum()
        total = s if total is None else total + s
    return total


def inputs(size, count=8):
    rng = np.random.default_rng(size)
    return Tensor(rng.normal(size=(size, size)).astype(np.float32)), [Tensor(rng.normal(size=(size, size)).astype(np.float32)) for _ in range(count)]


@contextlib.contextmanager
def threads(count):
    before = fj.config.num_threads
    fj.config.num_threads = count
    try:
        yield
    finally:
        fj.config.num_threads = before


def entry_of(marked):
    (entry,) = marked.cache_entries()
    return entry


def test_exec_order_decides_how_much_memory_lives_at_a_time():
    x, weights = inputs(64)
    one = 64 * 64 * 4
    bytes_of = {}
    for order in (None, "bfs", "dfs"):
        marked = fj.jit(branches, fullgraph=True, **({} if order is None else {"exec_order": order}))
        assert_same(marked(x, weights), branches(x, weights))
        bytes_of[order] = entry_of(marked)["buffer_bytes"]
    assert bytes_of["dfs"] < 2 * one and min(bytes_of["bfs"], bytes_of[None]) >= 8 * one


def test_peak_bytes_of_dfs_are_lower():
    """Of the process, as `peak_buffer_bytes` counts them."""
    program = """
    import sys
    sys.path.insert(0, "tests")
    import framejit as fj
    from tensor.test_options import branches, inputs
    x, weights = inputs(512)
    marked = fj.jit(branches, fullgraph=True, exec_order=sys.argv[1])
    before = fj.stats()["peak_buffer_bytes"]
    marked(x, weights)
    print(fj.stats()["peak_buffer_bytes"] - before)
    """
    peaks = {}
    for order in ("bfs", "dfs"):
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), order], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        peaks[order] = int(done.stdout)
    assert peaks["dfs"] + 6 * 512 * 512 * 4 <= peaks["bfs"], peaks


@pytest.mark.parametrize("size", [3, 64, 128])
@pytest.mark.parametrize("level", ["O0", "O1"])
def test_steps_beside_each_other_give_the_same_bits(size, level):
    x, weights = inputs(size)
    expected = fj.jit(branches, fullgraph=True, jit_level=level)(x, weights)
    marked = fj.jit(branches, fullgraph=True, exec_order="bfs", jit_level=level)
    for count in (1, 2, 3):
        with threads(count):
            for _ in range(5):
                assert_same(marked(x, weights), expected)


def test_ge_keeps_its_memory_and_knows_no_order():
    x, weights = inputs(64)
    marked = fj.jit(branches, fullgraph=True, backend="GE", exec_order="dfs")
    assert_same(marked(x, weights), branches(x, weights))
    entry = entry_of(marked)
    assert entry["resident_bytes"] == entry["buffer_bytes"] >= 8 * 64 * 64 * 4
    assert_same(marked(x, weights), branches(x, weights))
    assert entry_of(marked)["resident_bytes"] == entry["buffer_bytes"]
    other = fj.jit(branches, fullgraph=True, backend="ms_backend")
    other(x, weights)
    assert entry_of(other)["resident_bytes"] == 0 < entry_of(other)["buffer_bytes"]


def test_ge_below_another_jit_is_ignored_and_said_once():
    seen = []
    stop = listen(lambda channel, record: seen.append(record), ("perf",))
    try:
        inner = fj.jit(branches, backend="GE")
        outer = fj.jit(lambda x, weights: inner(x, weights) + 1, fullgraph=True)
        x, weights = inputs(64)
        assert_same(outer(x, weights), branches(x, weights) + 1)
        outer(*inputs(32))
    finally:
        stop()
    said = [record for record in seen if "ignored" in record.get("what", "")]
    assert len(said) == 1 and said[0]["function"] == "branches" and "'GE'" in said[0]["what"]
    assert all(entry["resident_bytes"] == 0 for entry in outer.cache_entries())
    assert inner.cache_entries() == []


def test_num_threads_of_ge(tmp_path):
    def parts(**options):
        marked = fj.jit(lambda x, w: x @ w, fullgraph=True, **options)
        x, (w,) = inputs(400, 1)
        marked(x, w)
        with threads(2), fj.trace(str(tmp_path / "t.json")):
            marked(x, w)
        events = json.loads((tmp_path / "t.json").read_text())
        events = events["traceEvents"] if isinstance(events, dict) else events
        return sum(event.get("name") == "part of a kernel" for event in events)

    assert parts(backend="GE") > 0
    assert parts(backend="GE", ge_options={"session": {"num_threads": "1"}}) == 0


def test_memory_limit_of_ge():
    x, weights = inputs(64)
    for limit, captured in (("64KB", 0), ("1MB", 2), ("131200", 2)):
        marked = fj.jit(branches, backend="GE", ge_options={"session": {"memory_limit": limit}})
        before = fj.stats()["frames_captured"]
        for _ in range(2):
            assert_same(marked(x, weights), branches(x, weights))
        assert fj.stats()["frames_captured"] - before == captured, limit


def test_deterministic_of_ge():
    """Results never depend on the number of threads, so that this holds with and without."""
    x, weights = inputs(128)
    marked = fj.jit(branches, jit_level="O1", backend="GE", ge_options={"global": {"deterministic": "1"}})
    expected = marked(x, weights)
    for count in (1, 2, 3):
        with threads(count):
            assert_same(marked(x, weights), expected)


PROGRAM = """
import framejit as fj, numpy as np, time

@fj.jit{arguments}
def stamped(x):
    y = x * 2
    stamp = time.time()
    return y + 1, stamp

stamped(np.ones(3))
"""


@pytest.mark.parametrize(("level", "arguments", "says"), [("1", "", True), ("2", "", False), ("1", "(capture_mode='bytecode')", False), (None, "", False)])
def test_the_log_says_what_falls_back(tmp_path, level, arguments, says):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.replace("{arguments}", arguments))
    environment = {k: v for k, v in os.environ.items() if k != "GLOG_v"} | ({} if level is None else {"GLOG_v": level})
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    expected = "framejit: Found unsupported syntax in Graph mode, those codes would be fallen back to Python interpreter:\nstamp = time.time()\n"
    assert done.stderr == (expected if says else "")


def test_a_wrong_level_of_the_log_is_an_error():
    done = subprocess.run([sys.executable, "-c", "import framejit"], capture_output=True, text=True, env={**os.environ, "GLOG_v": "loud"})
    assert "GLOG_v must be one of" in done.stderr


class Scaled(nn.Cell):
    """Its weights go through arithmetic of their own in each call."""

    def __init__(self, size=4):
        super().__init__()
        rng = np.random.default_rng(size)
        self.w = Parameter(Tensor(rng.normal(size=(size, size)).astype(np.float32)))
        self.g = Parameter(Tensor(rng.normal(size=(size, 1)).astype(np.float32)))
        self.b = Parameter(Tensor(rng.normal(size=(size,)).astype(np.float32)))

    def construct(self, x):
        norm = ops.sqrt((self.w * self.w).sum(1, keepdims=True) + 1e-6)
        return ops.matmul(x, (self.w / norm * self.g).T) + self.b


def graph_of(function, *args, **options):
    marked = fj.jit(function, fullgraph=True, **options)
    expected = function(*args)
    for _ in range(2):
        assert_same(marked(*args), expected)
    return marked


@pytest.mark.parametrize("level", ["O0", "O1"])
def test_infer_boost_folds_what_is_made_of_parameters(level):
    net, x = Scaled(), inputs(4, 0)[0]
    plain = fj.jit(net.construct, fullgraph=True, jit_level=level)
    boosted = fj.jit(net.construct, fullgraph=True, jit_level=level, infer_boost="on")
    for _ in range(2):
        assert_same(boosted(x), plain(x))
    assert all(op in plain.graphs() for op in ("sqrt", "divide", "reduce_sum", "multiply"))
    assert not any(op in boosted.graphs() for op in ("sqrt", "divide", "reduce_sum", "multiply"))
    assert "matmul" in boosted.graphs() and "%folded0: f32[4, 4]" in boosted.graphs()


def test_infer_boost_knows_networks_of_one_class_apart():
    one, two, x = Scaled(), Scaled(), inputs(4, 0)[0]
    two.w.set_data(two.w * 3 + 1)
    marked = fj.jit(Scaled.construct, fullgraph=True, infer_boost="on")
    for _ in range(3):
        for net in (one, two):
            assert_same(marked(net, x), net.construct(x))


def test_infer_boost_is_for_what_does_not_change():
    """What is folded holds until the Parameters are other objects, or the cache is cleared."""
    net, x = Scaled(), inputs(4, 0)[0]
    marked = fj.jit(net.construct, infer_boost="on")
    before = marked(x)
    net.w.set_data(net.w + 1)
    assert_same(marked(x), before)
    marked.__func__.cache_clear()
    assert_same(marked(x), net.construct(x))
    net.b[0] = 5.0  # nothing is made of it alone, so it is read in each call
    assert_same(marked(x), net.construct(x))


@pytest.mark.parametrize("dtype", [fj.float32, fj.float64], ids=str)
@pytest.mark.parametrize("level", ["O0", "O1"])
def test_infer_boost_keeps_factors_as_products_read_them(level, dtype):
    rng = np.random.default_rng(4)

    class Layers(nn.Cell):
        def __init__(self):
            super().__init__()
            self.one = Parameter(Tensor(rng.normal(size=(300, 1100)), dtype), name="one")
            self.two = Parameter(Tensor(rng.normal(size=(70, 1100)), dtype), name="two")

        def construct(self, x):
            return ops.dense(ops.relu(ops.matmul(x, self.one)), self.two)

    net = Layers()
    marked = fj.jit(net.construct, fullgraph=True, jit_level=level, infer_boost="on", dynamic=True)
    plain = fj.jit(net.construct, fullgraph=True, jit_level=level, dynamic=True)
    for rows in (1, 3, 64, 200, 65):
        x = Tensor(rng.normal(size=(rows, 300)), dtype)
        for count in (1, 2):
            with threads(count):
                assert_same(marked(x), plain(x))
    net.two[0] = 0.0
    before = marked(x)
    marked.__func__.cache_clear()
    assert not np.array_equal(marked(x).asnumpy(), before.asnumpy())
    assert_same(marked(x), plain(x))
    # A network with other Parameters has panels of its own.
    other = Layers()
    both = fj.jit(Layers.construct, fullgraph=True, jit_level=level, infer_boost="on")
    for _ in range(2):
        for of in (net, other):
            assert_same(both(of, x), fj.jit(of.construct, jit_level=level)(x))


def test_infer_boost_leaves_what_is_written_given_back_or_raises_flags():
    w = Parameter(Tensor([1.0, 2.0]))

    def updates(x):
        y = x * (w + 1)
        w[0] = 7.0
        return y * (w + 1)

    def gives(x):
        doubled = w * 2
        return x + doubled, doubled

    zero = Parameter(Tensor([0.0, 1.0]))

    def divides(x):
        return x * (1.0 / zero)

    x = Tensor([1.0, 1.0])
    for function in (gives, divides):
        graph_of(function, x, infer_boost="on")
    first, second = fj.jit(gives, infer_boost="on")(x)[1], gives(x)[1]
    first[0] = 9.0
    assert_same(fj.jit(gives, infer_boost="on")(x)[1], second)
    marked = fj.jit(updates, infer_boost="on")
    for _ in range(2):
        w[0] = 1.0
        expected = updates(x)
        w[0] = 1.0
        assert_same(marked(x), expected)


def test_infer_boost_through_a_network():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layers = nn.SequentialCell(Scaled(), nn.ReLU(), Scaled())

        def construct(self, x):
            return self.layers(x)

    net, x = Net(), inputs(4, 0)[0]
    expected = net(x)
    marked = fj.jit(net.construct, infer_boost="on", fullgraph=True)
    for _ in range(2):
        assert_same(marked(x), expected)
    assert "sqrt" not in marked.graphs()
    assert marked.cache_entries()[0]["guards"] and any("infer_boost" in g or " is " in g for g in marked.cache_entries()[0]["guards"])


def at_level(level, construct, *args):
    class Net(nn.Cell):
        pass

    Net.construct = construct
    net = Net()
    net.set_jit_config(fj.JitConfig(jit_level=level))
    return net(*args)


def rounded(x):
    """To bfloat16, as numbers."""
    import ml_dtypes

    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


SHAPES = [((48, 48), (48, 48)), ((64, 49), (49, 100)), ((3, 50, 97), (97, 61)), ((2, 3, 48, 51), (2, 1, 51, 64)), ((1, 130, 64), (5, 64, 300))]


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_o2_rounds_the_factors_of_products(a, b, transposed):
    """Exact for small integers; for others what rounding both factors to bfloat16 gives, where the processor has such products."""
    rng = np.random.default_rng(0)
    swap = lambda shape: (*shape[:-2], shape[-1], shape[-2])  # noqa: E731

    def product(self, x, y):
        x = x.swapaxes(-1, -2) if "a" in transposed else x
        y = y.swapaxes(-1, -2) if "b" in transposed else y
        return ops.relu(ops.matmul(x, y) + 1)

    def values(make):
        x, y = make(swap(a) if "a" in transposed else a), make(swap(b) if "b" in transposed else b)
        return Tensor(x.astype(np.float32)), Tensor(y.astype(np.float32))

    whole = values(lambda shape: rng.integers(-15, 16, shape))
    assert_same(at_level("O2", product, *whole), at_level("O0", product, *whole))
    x, y = values(lambda shape: rng.normal(size=shape))
    found, exact = at_level("O2", product, x, y), at_level("O1", product, x, y)
    if found.asnumpy().tobytes() == exact.asnumpy().tobytes():
        pytest.skip("the processor has no products of bfloat16")
    left, right = (np.swapaxes(t.asnumpy(), -1, -2) if mark in transposed else t.asnumpy() for t, mark in ((x, "a"), (y, "b")))
    wanted = np.maximum(rounded(left) @ rounded(right) + 1, 0)
    bound = np.abs(left) @ np.abs(right)
    assert np.all(np.abs(found.asnumpy() - wanted) <= 1e-5 * bound + 1e-6)
    assert np.all(np.abs(found.asnumpy() - exact.asnumpy()) <= 2.0**-7 * bound)


def test_o2_rounds_nothing_small():
    x, (w,) = inputs(16, 1)
    product = lambda self, x, w: x @ w  # noqa: E731
    assert_same(at_level("O2", product, x, w), at_level("O1", product, x, w))


def test_o2_with_special_values():
    """Infinities and NaN stay; a number that is above the largest of bfloat16 when rounded becomes infinite."""
    x = np.ones((48, 48), np.float32)
    x[0, 0], x[1, 0], x[2, 0], x[3, 0] = np.inf, np.nan, -np.inf, np.finfo(np.float32).max
    product = lambda self, x, w: x @ w  # noqa: E731
    found = at_level("O2", product, Tensor(x), Tensor(np.ones((48, 48), np.float32))).asnumpy()
    assert np.all(found[0] == np.inf) and np.all(np.isnan(found[1])) and np.all(found[2] == -np.inf) and np.all(found[3] >= np.finfo(np.float32).max)
    assert np.all(found[4:] == 48)


@pytest.mark.parametrize(("exc_mode", "size", "kept"), [("sink", 700, True), ("sink", 8, True), ("no_sink", 8, False), ("auto", 8, True), ("auto", 700, False)])
def test_exc_mode_says_what_memory_stays(exc_mode, size, kept):
    class Net(nn.Cell):
        def construct(self, x, weights):
            return branches(x, weights)

    net, given = Net(), inputs(size)
    expected = net(*given)
    net.set_jit_config(fj.JitConfig(jit_level="O0", exc_mode=exc_mode))
    for _ in range(2):
        assert_same(net(*given), expected)
    (compiled,) = Net.construct.__framejit_compiled__.values()
    (entry,) = compiled.cache_entries()
    assert entry["buffer_bytes"] > 0 and entry["resident_bytes"] == (entry["buffer_bytes"] if kept else 0)


class Transposed(nn.Cell):
    """Weights in layouts that the products do not take as they are."""

    def __init__(self):
        super().__init__()
        self.w, self.v = (Parameter(Tensor(np.random.default_rng(k).normal(size=(3, 4)).astype(np.float32))) for k in (1, 2))

    def construct(self, x):
        return ops.matmul(x, self.w.T), ops.matmul(x, ops.transpose(self.v, (1, 0)) * 2)


def test_disable_format_transform_keeps_layouts_of_parameters():
    """What is moved only stays where it is; what is computed is folded as ever."""
    net, x = Transposed(), inputs(4, 0)[0]
    copies = {}
    for given in (None, False, True):
        for boost in ("on", "off"):
            options = {} if given is None else {"disable_format_transform": given}
            graph = graph_of(net.construct, x, infer_boost=boost, **options).graphs()
            copies[given, boost] = (graph.count("copy "), graph.count("%folded"), graph.count("multiply "))
    folded = (0, 2 + 2, 0)  # each as a param and as an operand
    assert copies == {(None, "on"): folded, (False, "on"): folded, (True, "on"): (1, 2, 0), **{(one, "off"): (2, 0, 1) for one in (None, False, True)}}


def test_options_of_a_jit_config():
    """Those of jit, for the calls of the cell."""
    net, x = Transposed(), inputs(4, 0)[0]
    expected = net(x)
    for options, folded in (({"infer_boost": "on"}, 2), ({"infer_boost": "on", "disable_format_transform": True}, 1), ({}, 0)):
        net.set_jit_config(fj.JitConfig(jit_level="O0", **options))
        for _ in range(2):
            assert_same(net(x), expected)
        graph = net._compiled_construct().graphs()
        assert graph.count("graph @") == 1 and graph.count("%folded") == 2 * folded

    class Branches(nn.Cell):
        def construct(self, x, weights):
            return branches(x, weights)

    net, given, bytes_of = Branches(), inputs(64), {}
    for order in ("bfs", "dfs"):
        net.set_jit_config(fj.JitConfig(jit_level="O0", exc_mode="no_sink", exec_order=order))
        assert_same(net(*given), branches(*given))
        bytes_of[order] = entry_of(net._compiled_construct())["buffer_bytes"]
    assert bytes_of["dfs"] * 4 <= bytes_of["bfs"]
    net.set_jit_config(fj.JitConfig(jit_level="O0", exc_mode="sink", ge_options={"session": {"memory_limit": "64KB"}}))
    before = fj.stats()["frames_captured"]
    assert_same(net(*given), branches(*given))
    assert fj.stats()["frames_captured"] == before
