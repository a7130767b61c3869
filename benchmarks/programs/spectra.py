"""Spectra of a series that was sampled unevenly: Lomb and Scargle's periodogram, windows, and a smoothed power spectrum."""

import numpy as np

SIZES = {"small": (50, 40), "medium": (500, 400), "large": (4000, 1500)}


def make(n, frequencies):
    rng = np.random.default_rng(16)
    t = np.sort(rng.random(n) * 20.0)
    y = np.sin(2 * np.pi * 1.3 * t) + 0.5 * np.cos(2 * np.pi * 2.7 * t + 0.4) + 0.3 * rng.normal(size=n)
    return t, y, np.linspace(0.05, 5.0, frequencies)


def lomb_scargle(t, y, omega):
    y = (y - y.mean()) / y.std()
    phase = omega[:, None] * t[None, :]
    tau = np.arctan2(np.sin(2 * phase).sum(axis=1), np.cos(2 * phase).sum(axis=1)) / (2 * omega)
    shifted = omega[:, None] * (t[None, :] - tau[:, None])
    c, s = np.cos(shifted), np.sin(shifted)
    return 0.5 * ((c * y).sum(axis=1) ** 2 / (c**2).sum(axis=1) + (s * y).sum(axis=1) ** 2 / (s**2).sum(axis=1))


def smooth(power, width=5):
    padded = np.pad(power, width // 2, mode="edge")
    total = np.zeros_like(power)
    for k in range(width):
        total += padded[k : k + power.size]
    return total / width


def run(t, y, frequencies):
    window = 0.5 - 0.5 * np.cos(2 * np.pi * (t - t[0]) / (t[-1] - t[0]))
    power = lomb_scargle(t, y * window, 2 * np.pi * frequencies)
    level = -np.log(1.0 - (1.0 - 0.01) ** (1.0 / frequencies.size))
    inner = power[1:-1]
    peaks = (inner > power[:-2]) & (inner > power[2:]) & (inner > level)
    even = np.interp(np.linspace(t[0], t[-1], 256), t, y)
    welch = np.mean([np.abs(np.fft.rfft(part * np.hanning(64))) ** 2 for part in even.reshape(4, 64)], axis=0)
    return power, smooth(power), peaks, np.argsort(power)[-3:], welch
