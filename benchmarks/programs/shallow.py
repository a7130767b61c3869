"""Shallow water on a periodic channel: a leapfrog scheme on a staggered grid, as in models of the ocean."""

import numpy as np

SIZES = {"small": (32, 50), "medium": (192, 50), "large": (768, 20)}


def make(n, steps):
    return n, steps


def start(n, dx):
    x = (np.arange(n) + 0.5) * dx
    y = (np.arange(n) + 0.5) * dx
    middle = n * dx / 2
    xx, yy = np.meshgrid(x, y, indexing="xy")
    return 100.0 + np.exp(-((xx - middle) ** 2 + (yy - middle) ** 2) / (0.1 * middle) ** 2)


def tendencies(h, u, v, dx, coriolis, gravity, friction):
    dudt = np.zeros_like(u)
    dvdt = np.zeros_like(v)
    h_u = 0.5 * (h + np.roll(h, -1, axis=1))
    v_u = 0.25 * (v + np.roll(v, -1, axis=1) + np.roll(v, 1, axis=0) + np.roll(np.roll(v, -1, axis=1), 1, axis=0))
    dudt[:, :] = coriolis * v_u - gravity * (np.roll(h, -1, axis=1) - h) / dx - friction * u
    u_v = 0.25 * (u + np.roll(u, 1, axis=1) + np.roll(u, -1, axis=0) + np.roll(np.roll(u, 1, axis=1), -1, axis=0))
    dvdt[:-1, :] = (-coriolis * u_v - friction * v)[:-1] - gravity * (h[1:] - h[:-1]) / dx
    flux_x = h_u * u
    flux_y = np.zeros_like(v)
    flux_y[:-1] = 0.5 * (h[1:] + h[:-1]) * v[:-1]
    dhdt = -(flux_x - np.roll(flux_x, 1, axis=1)) / dx
    dhdt[1:] -= (flux_y[1:] - flux_y[:-1]) / dx
    dhdt[0] -= flux_y[0] / dx
    return dhdt, dudt, dvdt


def run(n, steps):
    dx, gravity, coriolis, friction = 1000.0, 9.81, 1e-4, 1e-6
    h = start(n, dx)
    u, v = np.zeros_like(h), np.zeros_like(h)
    dt = 0.125 * dx / np.sqrt(gravity * np.max(h))
    old = (h, u, v)
    mass = np.zeros(steps)
    for step in range(steps):
        dh, du, dv = tendencies(h, u, v, dx, coriolis, gravity, friction)
        factor = dt if step == 0 else 2 * dt
        new = tuple(o + factor * d for o, d in zip(old, (dh, du, dv)))  # noqa: B905
        old = tuple(m + 0.1 * (o - 2 * m + k) for o, m, k in zip(old, (h, u, v), new))  # noqa: B905
        h, u, v = new
        mass[step] = h.sum()
    speed = np.sqrt(u**2 + v**2)
    vorticity = (np.roll(v, -1, axis=1) - v)[:-1] / dx - (u[1:] - u[:-1]) / dx
    return h, speed, vorticity, mass
