"""Loops over Python's and NumPy's complex numbers."""

from __future__ import annotations

import numpy as np
import pytest

from loop_support import compiled, loops

pytestmark = pytest.mark.capture


def escape_times(n, most, c):
    counts = np.zeros((n, n), dtype=np.int64)
    for i in range(n):
        for k in range(n):
            z = complex(-1.5 + 3 * i / n, -1.5 + 3 * k / n)
            count = 0
            while abs(z) <= 2.0 and count < most:
                z = z * z + c
                count += 1
            counts[i, k] = count
    return counts, z, z is c


def test_complex_numbers():
    marked = compiled(escape_times, 12, 30, -0.8 + 0.156j)
    (entry,) = loops(marked)
    assert "z: complex" in " ".join(entry["carried"]) if "carried" in entry else True
    assert all(e["why"] == "" for e in entry["exits"]), entry["exits"]


def complex_steps(z, w, by):
    for i in range(len(z)):
        w[i] = (z[i] * by - w[i]) / (z[i] + 1.5j) + w[i] ** 2 / by
        w[i - 1] = -w[i].real * z[i].conjugate()
    return w[-1], z[i].imag, by


@pytest.mark.parametrize("by", [2.5, 3, 1 - 2j, np.complex128(1 - 2j), np.float64(0.5), np.int64(2), True, 0, 0j, -0.0])
@pytest.mark.parametrize("layout", [slice(None), slice(None, None, -1), slice(None, None, 2)])
def test_arrays_of_complex_numbers(by, layout):
    rng = np.random.default_rng(3)
    z, w = (rng.normal(size=80) + 1j * rng.normal(size=80) for _ in range(2))
    compiled(complex_steps, z[layout], w[layout], by)


@pytest.mark.parametrize("bad", [0j, complex("nan"), complex("inf"), complex("nan+nanj"), 1e308 + 1e308j, 1e-320j])
@pytest.mark.parametrize("at", [0, 40])
def test_complex_numbers_that_raise_or_warn(bad, at):
    def lengths(values, divisors):
        s, t = 0.5j, 0.0
        for i in range(len(values)):
            s = s / divisors[i] - values[i] * 1j
            t += abs(s) + abs(divisors[i])
        return s, t

    divisors = np.full(50, 1.5 - 0.5j)
    divisors[at] = bad
    compiled(lengths, np.linspace(0.0, 1.0, 50), divisors)

    def powers(z, n):
        for i in range(n):
            if i == at:
                z = bad
            z = z**2 + 1 / (z - 0.25)
        return z

    compiled(powers, 0.1 + 0.2j, 50)
