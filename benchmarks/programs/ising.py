"""Ising's model: Metropolis on a chequerboard with NumPy's generator, magnetisation and energy."""

import numpy as np

SIZES = {"small": (16, 40), "medium": (128, 40), "large": (1000, 6)}


def make(n, sweeps):
    rng = np.random.default_rng(17)
    spins = np.where(rng.random((n, n)) < 0.5, np.int8(-1), np.int8(1))
    return spins, sweeps, 0.44


def neighbours(spins):
    return np.roll(spins, 1, 0) + np.roll(spins, -1, 0) + np.roll(spins, 1, 1) + np.roll(spins, -1, 1)


def sweep(spins, colour, beta, chance):
    cost = 2.0 * spins * neighbours(spins)
    flip = colour & (chance < np.exp(-beta * cost))
    return np.where(flip, -spins, spins)


def run(spins, sweeps, beta):
    n = spins.shape[0]
    rng = np.random.default_rng(5)
    rows = np.arange(n)
    black = (rows[:, None] + rows[None, :]) % 2 == 0
    magnetisation, energy = np.empty(sweeps), np.empty(sweeps)
    for i in range(sweeps):
        spins = sweep(spins, black, beta, rng.random((n, n)))
        spins = sweep(spins, ~black, beta, rng.random((n, n)))
        magnetisation[i] = np.abs(spins.mean())
        energy[i] = -0.5 * np.mean(spins * neighbours(spins))
    return spins, magnetisation, energy, energy.var() * beta**2 * n * n
