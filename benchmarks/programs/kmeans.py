"""k-means clustering with k-means++ seeding by given random numbers."""

import numpy as np

SIZES = {"small": (200, 2, 4), "medium": (5000, 4, 8), "large": (100000, 8, 10)}


def make(n, dims, k):
    rng = np.random.default_rng(5)
    centres = rng.normal(0, 5, (k, dims))
    points = centres[rng.integers(0, k, n)] + rng.normal(size=(n, dims))
    return points, rng.random(k), k


def squared_distances(points, centres):
    return ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)


def seed(points, draws, k):
    centres = np.empty((k, points.shape[1]))
    centres[0] = points[int(draws[0] * len(points))]
    closest = ((points - centres[0]) ** 2).sum(axis=1)
    for j in range(1, k):
        cumulated = np.cumsum(closest)
        centres[j] = points[np.searchsorted(cumulated, draws[j] * cumulated[-1])]
        closest = np.minimum(closest, ((points - centres[j]) ** 2).sum(axis=1))
    return centres


def run(points, draws, k):
    centres = seed(points, draws, k)
    for _ in range(10):
        distances = squared_distances(points, centres)
        labels = np.argmin(distances, axis=1)
        updated = np.zeros_like(centres)
        for j in range(k):
            members = points[labels == j]
            updated[j] = members.mean(axis=0) if len(members) else centres[j]
        moved = np.abs(updated - centres).max()
        centres = updated
        if moved < 1e-6:
            break
    inertia = np.min(squared_distances(points, centres), axis=1).sum()
    return centres, labels, inertia, np.bincount(labels, minlength=k)
