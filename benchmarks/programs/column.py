"""Columns of air: a grey atmosphere that radiates, absorbs and overturns, many columns at once."""

import numpy as np

SIZES = {"small": (8, 20, 40), "medium": (500, 30, 40), "large": (20000, 40, 8)}
SIGMA, GRAVITY, CP, GAS = 5.670374e-8, 9.80665, 1004.0, 287.0


def make(columns, levels, steps):
    rng = np.random.default_rng(13)
    latitude = np.linspace(-80.0, 80.0, columns)
    insolation = 240.0 + 120.0 * (np.cos(np.deg2rad(latitude)) ** 2 - 0.5)
    temperature = 250.0 + 20.0 * rng.random((levels, columns))
    return temperature, insolation, steps


def fluxes(temperature, surface, depth):
    """Upward and downward long waves at the levels' borders, from layer to layer."""
    levels = temperature.shape[0]
    emission = SIGMA * temperature**4
    passed = np.exp(-depth)
    up, down = np.empty((levels + 1, surface.size)), np.zeros((levels + 1, surface.size))
    up[0] = SIGMA * surface**4
    for k in range(levels):
        up[k + 1] = up[k] * passed[k] + emission[k] * (1.0 - passed[k])
    for k in range(levels - 1, -1, -1):
        down[k] = down[k + 1] * passed[k] + emission[k] * (1.0 - passed[k])
    return up, down


def overturn(temperature, exner, critical=1.0):
    """Neighbours that are unstable share their heat."""
    theta = temperature / exner
    for start in (0, 1):
        low, high = theta[start:-1:2], theta[start + 1 :: 2]
        low = low[: high.shape[0]]
        unstable = low > high * critical
        mean = 0.5 * (low + high)
        low[...] = np.where(unstable, mean, low)
        high[...] = np.where(unstable, mean, high)
    return theta * exner


def run(temperature, insolation, steps):
    levels, columns = temperature.shape
    pressure = np.linspace(1.0e5, 1.0e4, levels + 1)
    middle = 0.5 * (pressure[1:] + pressure[:-1])
    exner = ((middle / 1.0e5) ** (GAS / CP))[:, None]
    humidity = np.exp(-((1.0e5 - middle) / 3.0e4))[:, None]
    mass = ((pressure[:-1] - pressure[1:]) / GRAVITY)[:, None]
    t, surface, dt = temperature.copy(), np.full(columns, 288.0), 21600.0
    outgoing = np.empty((steps, columns))
    for step in range(steps):
        depth = 0.1 + 0.4 * humidity * np.clip(t / 288.0, 0.5, 1.5) ** 4
        up, down = fluxes(t, surface, depth)
        net = up - down
        t += dt * (net[:-1] - net[1:]) / (mass * CP)
        surface += dt * (insolation + down[0] - SIGMA * surface**4) / 4.0e6
        t = overturn(t, exner)
        outgoing[step] = up[-1]
    return t, surface, outgoing.mean(axis=1), np.abs(outgoing[-1] - insolation).max()
