"""Bodies that attract each other: leapfrog integration over all pairs."""

import numpy as np

SIZES = {"small": (8, 100), "medium": (100, 20), "large": (1000, 3)}


def make(n, steps):
    rng = np.random.default_rng(3)
    position = rng.normal(size=(n, 3))
    velocity = rng.normal(size=(n, 3)) * 0.1
    mass = rng.random((n, 1)) + 0.5
    return position, velocity, mass, steps


def acceleration(position, mass, gravity, softening):
    x, y, z = position[:, 0:1], position[:, 1:2], position[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inverse = (dx**2 + dy**2 + dz**2 + softening**2) ** (-1.5)
    ax = gravity * (dx * inverse) @ mass
    ay = gravity * (dy * inverse) @ mass
    az = gravity * (dz * inverse) @ mass
    return np.hstack((ax, ay, az))


def energy(position, velocity, mass, gravity):
    kinetic = 0.5 * np.sum(mass * velocity**2)
    separation = position[:, np.newaxis, :] - position[np.newaxis, :, :]
    distance = np.sqrt((separation**2).sum(axis=-1))
    inverse = np.zeros_like(distance)
    np.divide(1.0, distance, out=inverse, where=distance > 0)
    potential = -gravity * np.sum(np.triu(mass * mass.T * inverse, 1))
    return kinetic, potential


def run(position, velocity, mass, steps):
    gravity, softening, dt = 1.0, 0.1, 0.01
    velocity = velocity - np.mean(mass * velocity, 0) / np.mean(mass)
    acc = acceleration(position, mass, gravity, softening)
    history = np.zeros((steps + 1, 2))
    history[0] = energy(position, velocity, mass, gravity)
    for step in range(steps):
        velocity += acc * dt / 2.0
        position = position + velocity * dt
        acc = acceleration(position, mass, gravity, softening)
        velocity += acc * dt / 2.0
        history[step + 1] = energy(position, velocity, mass, gravity)
    return position, velocity, history
