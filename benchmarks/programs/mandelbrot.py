"""Fractals: escape times of Mandelbrot's and a Julia set with smooth colours, by masks."""

import numpy as np

SIZES = {"small": (24, 30), "medium": (200, 40), "large": (1000, 20)}


def make(n, rounds):
    return n, rounds


def escape(zr, zi, cr, ci, rounds):
    count = np.zeros(zr.shape, np.int32)
    size = np.zeros(zr.shape)
    inside = np.ones(zr.shape, bool)
    for _ in range(rounds):
        r2, i2 = zr * zr, zi * zi
        total = r2 + i2
        inside &= total <= 16.0
        size = np.where(inside, total, size)
        count += inside
        new = r2 - i2 + cr
        zi = np.where(inside, 2.0 * zr * zi + ci, zi)
        zr = np.where(inside, new, zr)
    return count, size


def colours(count, size, rounds):
    smooth = count + 1.0 - np.log2(np.log2(np.maximum(size, 4.0)))
    shade = np.clip(smooth / rounds, 0.0, 1.0)
    red, green, blue = 9 * (1 - shade) * shade**3, 15 * (1 - shade) ** 2 * shade**2, 8.5 * (1 - shade) ** 3 * shade
    return (255 * np.clip(np.stack((red, green, blue), axis=-1), 0.0, 1.0)).astype(np.uint8)


def run(n, rounds):
    x, y = np.linspace(-2.0, 0.6, n), np.linspace(-1.3, 1.3, n)
    cr, ci = np.meshgrid(x, y)
    zero = np.zeros((n, n))
    count, size = escape(zero, zero, cr, ci, rounds)
    julia, last = escape(cr, ci, -0.8, 0.156, rounds)
    return colours(count, size, rounds), count, julia, last, np.bincount(count.ravel(), minlength=rounds + 1)
