"""What gradients compute again and do not keep: the same bits, and less memory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, ops

pytestmark = pytest.mark.capture

LAYERS = 4


def tower(activation, product):
    def network(x, *weights):
        for w in weights:
            x = activation(product(x, w))
        return x

    return network


def swish(x):
    return x * (1 / (1 + np.exp(-x)))


NETWORKS = {
    "silu": tower(ops.silu, ops.matmul),
    "gelu": tower(lambda x: ops.gelu(x, approximate="tanh"), ops.matmul),
    "mish": tower(ops.mish, ops.matmul),
    "hardswish": tower(ops.hardswish, ops.matmul),
    "square": tower(lambda x: x * x * 0.125 - 0.25, ops.matmul),
    "convolution": tower(lambda x: ops.silu(x * 1.5 - 0.25), lambda x, w: ops.conv2d(x, w, None, 1, "pad", 1)),
    "swish of ndarrays": tower(swish, np.matmul),
    "two sums": tower(lambda x: x / np.sqrt(1 + x * x) - (x * x).mean(0), np.matmul),
}


def numbers(name):
    rng = np.random.default_rng(3)
    if name == "convolution":
        arrays = [rng.normal(size=(2, 32, 32, 32)), *(rng.normal(size=(32, 32, 3, 3)) / 17 for _ in range(LAYERS))]
    else:
        arrays = [rng.normal(size=(256, 192)), *(rng.normal(size=(192, 192)) / 14 for _ in range(LAYERS))]
    if name in ("swish of ndarrays", "two sums"):
        return arrays
    return [Tensor(array.astype(np.float32)) for array in arrays]


def step_of(name, level):
    step = fj.value_and_grad(NETWORKS[name], tuple(range(LAYERS + 1)))
    return fj.jit(lambda *arrays: step(*arrays), jit_level=level, fullgraph=True)


def leaves(result):
    return [np.asarray(x.asnumpy() if isinstance(x, Tensor) else x) for x in (result[0], *result[1])]


def graphs_of(step, arrays):
    return "\n".join(fj.explain(step)(*arrays).graphs)


@pytest.mark.parametrize("level", ["O0", "O1"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_bits_are_those_of_what_is_kept(name, level, monkeypatch):
    arrays = numbers(name)
    expected_forward = NETWORKS[name](*arrays)
    monkeypatch.setattr(fj.config, "passes", "-rematerialize")
    kept = step_of(name, level)
    expected = leaves(kept(*arrays))
    assert "rematerialized}" not in graphs_of(kept, arrays)
    monkeypatch.setattr(fj.config, "passes", "")
    again = step_of(name, level)
    found = leaves(again(*arrays))
    assert "rematerialized}" in graphs_of(again, arrays)
    for a, b in zip(found, expected):
        if level == "O0":
            assert a.tobytes() == b.tobytes()
        else:
            assert np.linalg.norm(a - b) <= 1e-5 * np.linalg.norm(b)
    if level == "O0":
        assert found[0].tobytes() == np.asarray(expected_forward).tobytes()


@pytest.mark.parametrize("name", ["swish of ndarrays", "two sums"])
def test_against_differences(name):
    arrays = numbers(name)
    rng = np.random.default_rng(5)
    gradients = step_of(name, "O0")(*arrays)[1]
    for at, gradient in enumerate(gradients):
        direction = rng.normal(size=gradient.shape)
        up, down = ([a + s * direction if i == at else a for i, a in enumerate(arrays)] for s in (1e-5, -1e-5))
        along = (NETWORKS[name](*up).sum() - NETWORKS[name](*down).sum()) / 2e-5
        np.testing.assert_allclose((gradient * direction).sum(), along, rtol=1e-5)


MEMORY = """
import sys
sys.path.insert(0, sys.argv[1])
import framejit as fj
import test_rematerialize as cases
fj.config.passes = sys.argv[3]
fj.config.num_threads = 1  # each thread that comes in time has scratch of its own
arrays = cases.numbers(sys.argv[2])
step = cases.step_of(sys.argv[2], "O1")
step(*arrays)
print(fj.stats()["peak_buffer_bytes"])
"""


@pytest.mark.parametrize("name", ["silu", "convolution"])
def test_memory_falls(name):
    def peak(passes):
        command = [sys.executable, "-c", MEMORY, os.path.dirname(__file__), name, passes]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert peak("") < 0.8 * peak("-rematerialize")


def test_a_graph_from_a_file_knows_its_gradient(tmp_path):
    arrays = numbers("silu")
    step = step_of("silu", "O0")
    expected = leaves(step(*arrays))
    fj.export(step, *arrays, file_name=tmp_path / "step")
    loaded = fj.load(tmp_path / "step")
    again = fj.jit(lambda *arrays: loaded(*arrays))
    assert [x.tobytes() for x in leaves(again(*arrays))] == [x.tobytes() for x in expected]
    assert "rematerialized}" in graphs_of(again, arrays)


def test_first_the_product_behind_which_memory_is_free():
    step = fj.value_and_grad(lambda x, w: np.sin(x) @ w, (0, 1))
    step(np.ones((3, 4)), np.ones((4, 5)))
    backward = step.graphs().split("  gradient\n")[1]
    assert re.findall(r"matmul .* : f64(\[.*\])", backward) == ["[4, 5]", "[3, 4]"]
    step = fj.value_and_grad(lambda w, x: w @ np.sin(x), (0, 1))
    step(np.ones((3, 4)), np.ones((4, 5)))
    backward = step.graphs().split("  gradient\n")[1]
    assert re.findall(r"matmul .* : f64(\[.*\])", backward) == ["[3, 4]", "[4, 5]"]
