"""The heat equation on a plate: explicit finite differences, fixed borders, a source that is switched off."""

import numpy as np

SIZES = {"small": (32, 50), "medium": (200, 50), "large": (1000, 20)}


def make(n, steps):
    rng = np.random.default_rng(1)
    conductivity = 0.5 + rng.random((n, n))
    return conductivity, steps


def laplacian(u, dx):
    return (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]) / dx**2


def run(conductivity, steps):
    n = conductivity.shape[0]
    dx = 1.0 / (n - 1)
    dt = 0.2 * dx * dx / conductivity.max()
    x = np.linspace(0.0, 1.0, n)
    xx, yy = np.meshgrid(x, x)
    source = np.exp(-((xx - 0.5) ** 2 + (yy - 0.5) ** 2) * 50.0)
    u = np.zeros_like(conductivity)
    u[0, :] = 1.0
    u[:, -1] = np.sin(np.pi * x)
    energy = np.empty(steps)
    for step in range(steps):
        heating = source[1:-1, 1:-1] if step < steps // 2 else 0.0
        u[1:-1, 1:-1] += dt * (conductivity[1:-1, 1:-1] * laplacian(u, dx) + heating)
        energy[step] = np.sum(u) * dx * dx
    gy, gx = np.gradient(u, dx)
    return u, energy, np.hypot(gx, gy).max()
