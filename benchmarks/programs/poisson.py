"""Poisson's equation on a square: red-black successive over-relaxation, to a tolerance."""

import numpy as np

SIZES = {"small": (33, 60), "medium": (129, 60), "large": (1025, 20)}


def make(n, rounds):
    rng = np.random.default_rng(11)
    charge = np.zeros((n, n))
    charge[n // 4, n // 3], charge[n // 2, 2 * n // 3] = 1.0, -1.0
    return charge + 1e-3 * rng.normal(size=(n, n)), rounds


def relax(u, f, h, omega, start):
    """The points of one colour: in two sets of rows."""
    for row, column in ((1, 1 + start), (2, 2 - start)):
        centre = u[row:-1:2, column:-1:2]
        around = (
            u[row - 1 : -2 : 2, column:-1:2]
            + u[row + 1 :: 2, column:-1:2][: centre.shape[0]]
            + u[row:-1:2, column - 1 : -2 : 2]
            + u[row:-1:2, column + 1 :: 2][:, : centre.shape[1]]
        )
        centre += omega * (0.25 * (around + h * h * f[row:-1:2, column:-1:2]) - centre)


def residual(u, f, h):
    lap = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
    return np.abs(lap / (h * h) + f[1:-1, 1:-1]).max()


def run(charge, rounds):
    n = charge.shape[0]
    h = 1.0 / (n - 1)
    omega = 2.0 / (1.0 + np.sin(np.pi * h))
    u = np.zeros_like(charge)
    history = []
    for i in range(rounds):
        relax(u, charge, h, omega, 0)
        relax(u, charge, h, omega, 1)
        if i % 10 == 9:
            history.append(residual(u, charge, h))
    ey, ex = np.gradient(-u, h)
    return u, np.array(history), np.sqrt(ex**2 + ey**2)
