"""Gray and Scott's reaction and diffusion of two substances on a torus."""

import numpy as np

SIZES = {"small": (32, 60), "medium": (128, 60), "large": (1024, 10)}


def make(n, steps):
    rng = np.random.default_rng(12)
    u = np.ones((n, n)) + 0.01 * rng.normal(size=(n, n))
    v = np.zeros((n, n))
    v[n // 3 : n // 2, n // 3 : n // 2] = 0.25
    return u.astype(np.float32), v.astype(np.float32), steps


def laplacian(z):
    near = np.roll(z, 1, 0) + np.roll(z, -1, 0) + np.roll(z, 1, 1) + np.roll(z, -1, 1)
    far = (
        np.roll(z, (1, 1), (0, 1))
        + np.roll(z, (1, -1), (0, 1))
        + np.roll(z, (-1, 1), (0, 1))
        + np.roll(z, (-1, -1), (0, 1))
    )
    return 0.2 * near + 0.05 * far - z


def run(u, v, steps, feed=0.055, kill=0.062):
    u, v = u.copy(), v.copy()
    for _ in range(steps):
        reaction = u * v**2
        u += 0.16 * laplacian(u) - reaction + feed * (1.0 - u)
        v += 0.08 * laplacian(v) + reaction - (feed + kill) * v
        np.clip(u, 0.0, 1.0, out=u)
        np.clip(v, 0.0, 1.0, out=v)
    return u, v, v.mean(), (v > 0.2).sum(axis=0)
