"""Logistic regression by Newton and by gradient descent with momentum; a calibration table and the area under the curve."""

import numpy as np

SIZES = {"small": (100, 4, 8), "medium": (5000, 8, 12), "large": (200000, 10, 6)}


def make(n, columns, rounds):
    rng = np.random.default_rng(18)
    x = np.column_stack((np.ones(n), rng.normal(size=(n, columns))))
    truth = rng.normal(size=columns + 1)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-x @ truth))).astype(np.float64)
    return x, y, rounds


def sigmoid(z):
    return np.where(z >= 0, 1.0 / (1.0 + np.exp(-np.abs(z))), np.exp(-np.abs(z)) / (1.0 + np.exp(-np.abs(z))))


def loss(x, y, w):
    z = x @ w
    return np.mean(np.logaddexp(0.0, z) - y * z) + 0.5e-3 * np.sum(w * w)


def newton(x, y, rounds):
    w = np.zeros(x.shape[1])
    for _ in range(rounds):
        p = sigmoid(x @ w)
        slope = x.T @ (p - y) / len(y) + 1e-3 * w
        hessian = (x * (p * (1.0 - p))[:, None]).T @ x / len(y) + 1e-3 * np.eye(len(w))
        w = w - np.linalg.solve(hessian, slope)
    return w


def descend(x, y, rounds, rate=0.5, momentum=0.9):
    w, velocity = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    history = np.empty(rounds)
    for i in range(rounds):
        velocity = momentum * velocity - rate * (x.T @ (sigmoid(x @ w) - y) / len(y) + 1e-3 * w)
        w = w + velocity
        history[i] = loss(x, y, w)
    return w, history


def run(x, y, rounds):
    w = newton(x, y, rounds)
    other, history = descend(x, y, 3 * rounds)
    p = sigmoid(x @ w)
    order = np.argsort(p, kind="stable")
    ranks = np.empty(len(p))
    ranks[order] = np.arange(1.0, len(p) + 1.0)
    positive = y.sum()
    area = (np.sum(ranks * y) - positive * (positive + 1.0) / 2.0) / (positive * (len(y) - positive))
    bins = np.clip((p * 10.0).astype(np.int64), 0, 9)
    counts = np.bincount(bins, minlength=10)
    calibration = np.bincount(bins, weights=y, minlength=10) / np.maximum(counts, 1)
    return w, other, history, area, counts, calibration, np.abs(p - y).max()
