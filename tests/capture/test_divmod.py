"""divmod(): in loops, of constants, and the text of its errors."""

from __future__ import annotations

import numpy as np
import pytest

from loop_support import compiled

pytestmark = pytest.mark.capture


@pytest.mark.parametrize("divisor", [0.5, -3.25, 0.0, float("inf")])
def test_divmod_of_floats(divisor):
    def summed(x, by):
        s, t = 0.0, 0.0
        for value in x:
            q, r = divmod(float(value), by)
            s, t = s + q, t - r
        return s, t

    compiled(summed, np.linspace(-5.0, 5.0, 60), divisor)


@pytest.mark.parametrize("left", [1.5, 2, True, 1j, float("inf")])
@pytest.mark.parametrize("right", [0, 0.0, 0.75, False, 2, 1j])
def test_divmod_of_constants(left, right):
    def form(x, n):
        y = x + 1
        try:
            y *= divmod(left, right + n)[0]
        except (ZeroDivisionError, TypeError) as error:
            return y, str(error)
        return y, divmod(left, right)

    compiled(form, np.arange(3.0), 0)
