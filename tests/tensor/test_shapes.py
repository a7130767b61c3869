"""Tensors of many shapes through one marked function: few compilations, eager results."""

from __future__ import annotations

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, nn, ops
from tensor.tensor_support import assert_same

pytestmark = pytest.mark.capture

dense = nn.Dense(6, 4)
FUNCTIONS = {
    "softmax": lambda x: ops.softmax(x),
    "layer_norm": lambda x: ops.layer_norm(x, (6,)),
    "cat of rows": lambda x: ops.cat((x, x * 2), 0),
    "cat of columns": lambda x: ops.cat((x, x * 2), 1),
    "flatten": lambda x: ops.flatten(x[None]),
    "items": lambda x: x[1:, ::2] + 1,
    "T": lambda x: x.T * 2,
    "view": lambda x: x.view(-1) + 1,
    "split": lambda x: ops.split(x, 2),
    "dense": lambda x: ops.relu(dense(x)),
    "reductions": lambda x: x.mean(0) - x.sum(),
    "broadcast_to": lambda x: ops.broadcast_to(x[0], (3, -1)),
    "where": lambda x: ops.where(x > 0, x, 0),
    "shape": lambda x: x * x.shape[0] + x.size,
    "creation": lambda x: ops.zeros(x.shape) + x,
    "arange": lambda x: ops.arange(x.shape[0]) * 2,
    "swapaxes": lambda x: x.swapaxes(0, 1).reshape(-1),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_shapes(name, dynamic):
    function = FUNCTIONS[name]
    marked = fj.jit(function, dynamic=dynamic)
    for n in (4, 5, 7, 2, 9, 1, 3, 12):
        x = Tensor(np.random.default_rng(n).normal(size=(n, 6)).astype(np.float32))
        assert_same(marked(x), function(x), (name, n))
    assert len(marked._report()["recompiles"]) <= 6
