"""What the tests of gradients share: central differences, and a comparison of gradients with them."""

from __future__ import annotations

import framejit as fj
import numpy as np


def differences(f, args, at=0, step=1e-6):
    """The gradient of the real part of the sum of f(*args) with respect to one argument, by central differences; of z = x + iy that by x and
    i times that by y.
    """

    def total(x):
        moved = list(args)
        moved[at] = x
        return float(np.real(np.sum(np.asarray(f(*moved)))))

    complex_too = np.iscomplexobj(args[at])
    x = np.asarray(args[at], np.complex128 if complex_too else np.float64)
    out = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        for direction in (1, 1j) if complex_too else (1,):
            size = step * max(1.0, abs(x[index]))
            change = np.zeros_like(x)
            change[index] = size * direction
            up, down = (x + change, x - change) if x.shape else ((x + change).item(), (x - change).item())
            out[index] += direction * (total(up) - total(down)) / (2 * size)
    return out


def assert_gradients(f, *args, order=1, tolerance=2e-5):
    """All gradients of f against differences, up to an order; gives the compiled function of the first order."""
    positions = tuple(range(len(args)))
    gradient = fj.grad(f, positions)
    for level in range(order):
        if level:
            f = total_gradient(f, positions)
        found = fj.grad(f, positions)(*[np.array(a) if isinstance(a, np.ndarray) else a for a in args])
        found = found if len(args) > 1 else (found,)
        for at in positions:
            wanted = differences(f, args, at)
            assert np.shape(found[at]) == wanted.shape
            scale = max(1.0, np.abs(wanted).max(initial=0))
            np.testing.assert_allclose(
                found[at], wanted, atol=tolerance * scale, rtol=tolerance, err_msg=f"argument {at}, order {level + 1}"
            )
    return gradient


def total_gradient(f, positions):
    """The sum of the squares of all gradients, as a function."""

    def total(*args):
        gradients = fj.grad(f, positions)(*args)
        parts = gradients if len(positions) > 1 else (gradients,)
        return sum([np.sum(part * part) for part in parts])

    return total
