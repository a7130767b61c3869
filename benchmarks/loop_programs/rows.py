"""Loops over rows and other parts of arrays, which are computed as vectors."""

import numpy as np

from loop_programs import Family

program = Family()


def normal(*shape):
    return np.random.default_rng(7).standard_normal(shape)


@program(lambda n: (normal(n, 3), np.zeros((n, n))), 10, 120)
def distances_of_rows(points, out):
    for i in range(len(points)):
        for j in range(len(points)):
            d = points[i] - points[j]
            out[i, j] = np.sqrt(np.sum(d * d))


@program(lambda n: (normal(n, 8), normal(12, 8), np.zeros(n, np.int64)), 10, 700)
def nearest_centres(points, centres, labels):
    for i in range(len(points)):
        best = np.inf
        for k in range(len(centres)):
            d = points[i] - centres[k]
            distance = np.sum(d * d)
            if distance < best:
                best = distance
                labels[i] = k


@program(lambda n: (normal(n, 16), np.zeros((n, 16))), 10, 5000)
def smoothed_rows(x, out):
    level = x[0] * 1.0
    for i in range(len(x)):
        level = 0.9 * level + 0.1 * x[i]
        out[i] = level


@program(lambda n: (normal(n, 32), np.zeros((n, 32))), 10, 2000)
def softmax_of_rows(x, out):
    for i in range(len(x)):
        e = np.exp(x[i] - np.max(x[i]))
        out[i] = e / np.sum(e)


@program(lambda n: (normal(n, 40), np.zeros((n, 40))), 10, 3000)
def standardized_rows(x, out):
    for i in range(len(x)):
        centred = x[i] - np.mean(x[i])
        out[i] = centred / np.sqrt(np.sum(centred * centred) / 40.0)


@program(lambda n: (normal(n, n) + 3.0 * np.eye(n),), 6, 60)
def orthogonal_columns(a):
    q = np.zeros((a.shape[0], a.shape[1]))
    for k in range(a.shape[1]):
        v = a[:, k].copy()
        for j in range(k):
            v -= np.sum(q[:, j] * a[:, k]) * q[:, j]
        q[:, k] = v / np.sqrt(np.sum(v * v))
    return q


@program(lambda n: (normal(n, n), normal(n, n), 1.5), 6, 70)
def rank_k_update(c, a, alpha):
    for i in range(len(a)):
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]


@program(lambda n: (normal(n, n) + n * np.eye(n),), 6, 130)
def eliminated(a):
    for k in range(len(a)):
        for i in range(k + 1, len(a)):
            a[i, k:] -= a[i, k] / a[k, k] * a[k, k:]
    return a


def sparse(n):
    made = np.random.default_rng(3)
    ends = np.cumsum(made.integers(0, 9, n))
    columns = made.integers(0, n, int(ends[-1]))
    return normal(int(ends[-1])), columns, np.concatenate(([0], ends)), normal(n), np.zeros(n)


@program(sparse, 12, 6000)
def sparse_product(values, columns, starts, x, out):
    for i in range(len(out)):
        row = columns[starts[i] : starts[i + 1]]
        out[i] = np.sum(values[starts[i] : starts[i + 1]] * x[row])


@program(lambda n: (normal(n), 400), 20, 300)
def heat_on_a_rod(u, steps):
    for _ in range(steps):
        u[1:-1] += 0.2 * (u[:-2] - 2.0 * u[1:-1] + u[2:])
    return u


@program(lambda n: (normal(40, 3), normal(40, 3) * 0.1, n), 2, 12)
def gravity(x, v, steps):
    for _ in range(steps):
        for i in range(len(x)):
            pull = np.zeros(3)
            for j in range(len(x)):
                d = x[j] - x[i]
                r = np.sum(d * d) + 0.01
                pull += d / (r * np.sqrt(r))
            v[i] += pull * 0.001
        for i in range(len(x)):
            x[i] += v[i] * 0.001


@program(lambda n: (normal(n, n), np.zeros((n, n))), 8, 300)
def running_maxima(x, out):
    best = x[0].copy()
    for i in range(len(x)):
        best = np.maximum(best, x[i])
        out[i, ::-1] = best


@program(lambda n: (np.eye(4) + 0.1 * np.eye(4, k=1), normal(n, 4), np.zeros((n, 4, 4))), 10, 1500)
def covariances(step, noise, out):
    """The prediction of a Kalman filter."""
    p = np.eye(4)
    for k in range(len(noise)):
        p = step @ p @ step.T * 0.9
        p[0, 0] += noise[k, 0] * noise[k, 0]
        out[k] = p


@program(lambda n: (np.linalg.qr(normal(3, 3))[0], normal(n, 3), np.zeros((n, 3))), 10, 1500)
def turned_points(step, points, out):
    at = np.eye(3)
    for k in range(len(points)):
        at = at @ step
        out[k] = at @ points[k]


@program(lambda n: (np.linalg.qr(normal(n, 2, 2) + 1j * normal(n, 2, 2))[0], np.zeros(n)), 10, 1500)
def spins(gates, energies):
    """A product of complex matrices for each step."""
    state = gates[0]
    for k in range(len(gates)):
        state = gates[k] @ state
        energies[k] = state[0, 0].real
