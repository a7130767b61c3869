"""An image: conversion to grey, blur, edges by Sobel's operator, equalised histogram, threshold."""

import numpy as np

SIZES = {"small": (32,), "medium": (256,), "large": (1024,)}


def make(n):
    rng = np.random.default_rng(4)
    return (rng.integers(0, 256, (n, n, 3), dtype=np.uint8),)


def blur(image, weights):
    radius = len(weights) // 2
    padded = np.pad(image, radius, mode="edge")
    rows = np.zeros((image.shape[0], padded.shape[1]))
    for i, weight in enumerate(weights):
        rows += weight * padded[i : i + image.shape[0], :]
    out = np.zeros_like(image)
    for i, weight in enumerate(weights):
        out += weight * rows[:, i : i + image.shape[1]]
    return out


def sobel(image):
    p = np.pad(image, 1, mode="reflect")
    gx = (p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[1:-1, :-2] + p[2:, :-2])
    gy = (p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[:-2, 1:-1] + p[:-2, 2:])
    return np.hypot(gx, gy), np.arctan2(gy, gx)


def equalise(image):
    levels = np.clip(image, 0, 255).astype(np.uint8)
    counts, _ = np.histogram(levels, bins=256, range=(0, 256))
    cdf = counts.cumsum()
    cdf = (cdf - cdf.min()) * 255 / (cdf[-1] - cdf.min())
    return cdf.astype(np.uint8)[levels]


def run(image):
    grey = image[..., 0] * 0.299 + image[..., 1] * 0.587 + image[..., 2] * 0.114
    x = np.arange(-3, 4)
    weights = np.exp(-(x**2) / 4.0)
    weights /= weights.sum()
    smooth = blur(grey, weights)
    strength, direction = sobel(smooth)
    strength *= 255.0 / strength.max()
    edges = strength > strength.mean() + strength.std()
    marked = smooth.copy()
    marked[edges] = 255.0
    sectors = ((direction + np.pi) / (np.pi / 4)).astype(np.int64) % 4
    return equalise(smooth), marked, edges.sum(), sectors, np.flip(grey, axis=1)
