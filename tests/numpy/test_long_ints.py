"""Python ints of more than 64 bits as operands of ufuncs."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj


@pytest.mark.parametrize("call", ["np.sqrt(2**70)", "np.add(2**70, 1.5)", "np.maximum(2**70, 3)", "np.sqrt(2**40)", "x * 2**70"])
def test_ufuncs_of_long_ints(call):
    plain = eval(f"lambda x: (x + 1.0, {call})", {"np": np})
    marked, x = fj.jit(plain), np.arange(3.0)

    def outcome(function):
        try:
            return [(type(v), np.asarray(v).tobytes()) for v in function(x)]
        except (TypeError, OverflowError) as error:
            return type(error), str(error)

    for _ in range(2):
        assert outcome(marked) == outcome(plain)


@pytest.mark.parametrize("items", ["[1.0, 2**70]", "[2**64]", "[0.5, 2**63]", "[2**63]", "[0.5, -(2**63) - 1]", "[True, 2**70]", "[2**63 - 1, 0.5]",
                                   "[[1.0, 2.0], [3, 2**65]]", "[x[0], 2**70]", "[2**64 - 1, 0.5]", "[np.int8(1), -(2**63)]"])  # fmt: skip
@pytest.mark.parametrize("dtype", ["", ", dtype=float"])
def test_arrays_of_long_ints(items, dtype):
    """NumPy makes an array of objects if an int fits into none of its types."""
    namespace = {"np": np}
    exec(f"def f(x):\n    return np.array({items}{dtype}), x * 2.0", namespace)
    marked = fj.jit(namespace["f"])
    for _ in range(3):
        expected, got = namespace["f"](np.ones(3))[0], marked(np.ones(3))[0]
        assert expected.dtype == got.dtype and expected.shape == got.shape and expected.tolist() == got.tolist()
