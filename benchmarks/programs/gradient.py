"""Linear algebra: conjugate gradients on a banded matrix, power iteration, Gram and Schmidt."""

import numpy as np

SIZES = {"small": (60, 20, 6), "medium": (2000, 40, 8), "large": (400000, 20, 8)}


def make(n, rounds, vectors):
    rng = np.random.default_rng(15)
    return rng.random(n) + 4.0, rng.normal(size=n), rng.normal(size=(vectors, n)), rounds


def product(diagonal, x):
    """Five bands, four of them -1 and -0.5."""
    y = diagonal * x
    y[:-1] -= x[1:]
    y[1:] -= x[:-1]
    y[:-2] -= 0.5 * x[2:]
    y[2:] -= 0.5 * x[:-2]
    return y


def solve(diagonal, b, rounds):
    x = np.zeros_like(b)
    r = b - product(diagonal, x)
    p, rr, history = r.copy(), np.sum(r * r), []
    for _ in range(rounds):
        ap = product(diagonal, p)
        alpha = rr / np.sum(p * ap)
        x += alpha * p
        r -= alpha * ap
        new = np.sum(r * r)
        p = r + new / rr * p
        rr = new
        history.append(np.sqrt(new))
    return x, np.array(history)


def orthogonal(vectors):
    basis = np.empty_like(vectors)
    for i in range(len(vectors)):
        v = vectors[i].copy()
        for k in range(i):
            v -= np.sum(basis[k] * v) * basis[k]
        basis[i] = v / np.sqrt(np.sum(v * v))
    return basis


def run(diagonal, b, vectors, rounds):
    x, history = solve(diagonal, b, rounds)
    basis = orthogonal(vectors)
    v = basis.sum(axis=0)
    for _ in range(rounds):
        w = product(diagonal, v)
        largest = np.sqrt(np.sum(w * w))
        v = w / largest
    return x, history, largest, np.abs(basis @ basis.T - np.eye(len(basis))).max()
