"""Ocean columns: the density of sea water (Jackett and McDougall's form), buoyancy, and implicit vertical mixing."""

import numpy as np

SIZES = {"small": (6, 5, 15), "medium": (40, 40, 30), "large": (200, 200, 50)}


def make(nx, ny, nz):
    rng = np.random.default_rng(14)
    depth = np.linspace(0.0, 4000.0, nz)
    salt = 35.0 + 0.2 * rng.normal(size=(nx, ny, nz))
    heat = 2.0 + 18.0 * np.exp(-depth / 800.0) + 0.3 * rng.normal(size=(nx, ny, nz))
    return salt, heat, np.broadcast_to(depth, (nx, ny, nz)).copy()


def density(s, t, p):
    t2, p2, root = t * t, p * p, np.sqrt(s)
    numerator = (
        9.99843699e2 + 7.35212840 * t - 5.45928211e-2 * t2 + 3.98476704e-4 * t2 * t + 2.96938239 * s - 7.23268813e-3 * s * t
        + 2.12382341e-3 * s * s + 1.04004591e-2 * p + 1.03970529e-7 * p * t2 + 5.18761880e-6 * p * s - 3.24041825e-8 * p2
        - 1.23869360e-11 * p2 * t2
    )  # fmt: skip
    denominator = (
        1.0 + 7.28606739e-3 * t - 4.60835542e-5 * t2 + 3.68390573e-7 * t2 * t + 1.80809186e-10 * t2 * t2 + 2.14691708e-3 * s
        - 9.27062484e-6 * s * t - 1.78343643e-10 * s * t2 * t + 4.76534122e-6 * s * root + 1.63410736e-9 * s * root * t2
        + 5.30848875e-6 * p - 3.03175128e-16 * p2 * t2 * t - 1.27934137e-17 * p2 * p * t
    )  # fmt: skip
    return numerator / denominator


def mix(field, kappa, dz, dt):
    """(I - dt d/dz kappa d/dz) x = field along the last axis: Thomas's elimination."""
    n = field.shape[-1]
    upper = np.zeros_like(field)
    upper[..., :-1] = -dt * kappa / dz**2
    lower = np.zeros_like(field)
    lower[..., 1:] = upper[..., :-1]
    diagonal = 1.0 - upper - lower
    c, d = np.empty_like(field), np.empty_like(field)
    c[..., 0] = upper[..., 0] / diagonal[..., 0]
    d[..., 0] = field[..., 0] / diagonal[..., 0]
    for k in range(1, n):
        m = 1.0 / (diagonal[..., k] - lower[..., k] * c[..., k - 1])
        c[..., k] = upper[..., k] * m
        d[..., k] = (field[..., k] - lower[..., k] * d[..., k - 1]) * m
    x = np.empty_like(field)
    x[..., -1] = d[..., -1]
    for k in range(n - 2, -1, -1):
        x[..., k] = d[..., k] - c[..., k] * x[..., k + 1]
    return x


def run(salt, heat, depth):
    dz, dt = 4000.0 / (depth.shape[-1] - 1), 3600.0
    for _ in range(3):
        rho = density(salt, heat, depth)
        buoyancy = 9.81 / 1025.0 * np.diff(rho, axis=-1) / dz
        stable = buoyancy > 1e-7
        kappa = np.where(stable, 1e-5 + 1e-4 / (1.0 + buoyancy / 1e-5), 0.1)
        salt, heat = mix(salt, kappa, dz, dt), mix(heat, kappa, dz, dt)
    mixed = np.argmax(rho > rho[..., :1] + 0.03, axis=-1)
    return salt, heat, rho, mixed, heat.mean(axis=(0, 1)), stable.sum()
