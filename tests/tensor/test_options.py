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
from framejit import Tensor
from framejit._events import listen
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
