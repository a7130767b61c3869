"""Ordinary differential equations: Lorenz's system for many starting points by Runge and Kutta, and a Lyapunov exponent."""

import numpy as np

SIZES = {"small": (10, 100), "medium": (1000, 100), "large": (50000, 20)}


def make(n, steps):
    rng = np.random.default_rng(8)
    return rng.normal(1.0, 0.5, (3, n)), steps


def lorenz(state, sigma=10.0, rho=28.0, beta=8.0 / 3.0):
    x, y, z = state
    return np.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def rk4(f, y, dt):
    k1 = f(y)
    k2 = f(y + 0.5 * dt * k1)
    k3 = f(y + 0.5 * dt * k2)
    k4 = f(y + dt * k3)
    return y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def run(start, steps):
    dt, epsilon = 0.01, 1e-8
    state = start.copy()
    shadow = start + np.array([[epsilon], [0.0], [0.0]])
    total = np.zeros(start.shape[1])
    trajectory = np.empty((steps + 1, 3))
    trajectory[0] = state.mean(axis=1)
    for i in range(steps):
        state = rk4(lorenz, state, dt)
        shadow = rk4(lorenz, shadow, dt)
        difference = shadow - state
        distance = np.sqrt(np.sum(difference**2, axis=0))
        total += np.log(distance / epsilon)
        shadow = state + difference * (epsilon / distance)
        trajectory[i + 1] = state.mean(axis=1)
    return state, total / (steps * dt), trajectory, np.linalg.norm(trajectory, axis=1)
