"""A program for type checkers: `./dev types` sees that they refuse exactly the lines that say so. It does not run."""

from __future__ import annotations

from typing import assert_type

import framejit as fj
import numpy as np
from numpy.typing import NDArray


class Model:
    @fj.jit
    def scale(self, x: NDArray[np.float64], factor: float = 1.0) -> NDArray[np.float64]:
        return x * factor

    @fj.jit(jit_level="O1")
    def name(self, number: int, *, prefix: str) -> str:
        return f"{prefix}{number}"


@fj.jit
def total(x: NDArray[np.float64], start: float = 0.0) -> float:
    return float(x.sum()) + start


def loss(x: NDArray[np.float64], weight: float) -> float:
    return float(x.sum()) * weight


array = np.ones(3)
model = Model()

assert_type(model.scale(array), NDArray[np.float64])
assert_type(model.name(1, prefix="a"), str)
assert_type(Model.name(model, 1, prefix="a"), str)
assert_type(total(array, start=1.0), float)
assert_type(fj.config.num_threads, int)
assert_type(fj.get_num_threads(), int)
model.scale.cache_clear()
total.precompile(fj.ArraySpec(np.float64, (3,)))
fj.config.num_threads = 2
fj.config.profitability = "off"
fj.grad(loss)(array, 2.0)
fj.grad(loss, 1)(array, weight=2.0)
fj.grad(loss, sens_param=True)(array, 2.0, 1.0)
value, gradient = fj.value_and_grad(loss)(array, 2.0)
level = fj.jit(jit_level="O1")(total)
tensor = fj.Tensor([1.0]) + array
namespace = tensor.__array_namespace__(api_version="2024.12")

model.scale("no")  # refused
model.name(1)  # refused
model.name("no", prefix="a")  # refused
total()  # refused
total(array, stop=1.0)  # refused
fj.jit(total, jit_level="O3")  # refused
fj.jit(total, fullgraph="no")  # refused
fj.config.num_threads = "x"  # refused
fj.config.profitability = "never"  # refused
fj.config.threads = 2  # refused
fj.grad(3)  # refused
fj.grad(loss)(array)  # refused
fj.grad(loss)(array, "no")  # refused
fj.set_num_threads("two")  # refused
