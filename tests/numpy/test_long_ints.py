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
