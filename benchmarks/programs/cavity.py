"""A lid-driven cavity: the Navier-Stokes equations by a projection with a fixed number of pressure iterations."""

import numpy as np

SIZES = {"small": (25, 20), "medium": (101, 20), "large": (501, 4)}


def make(n, steps):
    return n, steps, 0.05


def pressure_source(u, v, dx, dt, rho):
    ux = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx)
    uy = (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * dx)
    vx = (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx)
    vy = (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dx)
    return rho * ((ux + vy) / dt - ux**2 - 2 * uy * vx - vy**2)


def solve_pressure(p, b, dx):
    for _ in range(20):
        old = p.copy()
        p[1:-1, 1:-1] = (old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1] - dx**2 * b) / 4
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0.0
    return p


def step(a, u, v, p, axis, dx, dt, rho, nu):
    centre = a[1:-1, 1:-1]
    west, east, south, north = a[1:-1, :-2], a[1:-1, 2:], a[:-2, 1:-1], a[2:, 1:-1]
    advection = u[1:-1, 1:-1] * (centre - west) + v[1:-1, 1:-1] * (centre - south)
    slope = p[1:-1, 2:] - p[1:-1, :-2] if axis == 1 else p[2:, 1:-1] - p[:-2, 1:-1]
    diffusion = nu * (west + east + south + north - 4 * centre)
    new = a.copy()
    new[1:-1, 1:-1] = centre - dt / dx * advection - dt / (2 * rho * dx) * slope + dt / dx**2 * diffusion
    return new


def run(n, steps, nu):
    dx, rho = 2.0 / (n - 1), 1.0
    dt = min(0.2 * dx, 0.2 * dx**2 / nu)
    u, v, p = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    for _ in range(steps):
        p = solve_pressure(p, pressure_source(u, v, dx, dt, rho), dx)
        new_u, new_v = step(u, u, v, p, 1, dx, dt, rho, nu), step(v, u, v, p, 0, dx, dt, rho, nu)
        u, v = new_u, new_v
        u[0, :], u[:, 0], u[:, -1], u[-1, :] = 0.0, 0.0, 0.0, 1.0
        v[0, :], v[-1, :], v[:, 0], v[:, -1] = 0.0, 0.0, 0.0, 0.0
    vorticity = np.gradient(v, dx, axis=1) - np.gradient(u, dx, axis=0)
    return u, v, p, np.hypot(u, v).max(), vorticity.sum()
