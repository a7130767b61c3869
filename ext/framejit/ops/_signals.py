"""Spectra of signals: over short times, and of several dimensions at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit._api._dtypes import ALL
from framejit._core import _array, _dtype, _tensor
from framejit.ops._primitives import _define

__all__ = ["fftfreq", "rfftfreq", "stft"]


def _frequencies(name: str) -> Any:
    def frequencies(n: int, d: float = 1.0, dtype: Any = None) -> Any:
        numbers = getattr(np.fft, name)(n, d)
        return _tensor(numbers.astype(_dtype(ALL["float32"] if dtype is None else dtype)))

    frequencies.__name__ = frequencies.__qualname__ = name
    frequencies.__doc__ = f"The frequencies of a Fourier transform of `n` samples that are `d` apart: numpy.fft.{name}."
    return frequencies


fftfreq, rfftfreq = _frequencies("fftfreq"), _frequencies("rfftfreq")


def _spectra(
    x: Any, window: Any, n_fft: int, hop_length: int, win_length: int, normalized: bool, onesided: bool, return_complex: bool
) -> Any:  # fmt: skip
    signal, weights = _array(x), _array(window)
    if not 0 < win_length <= n_fft <= signal.shape[-1]:
        raise ValueError(
            f"For 'STFT', there must be 0 < 'win_length' <= 'n_fft' <= the length of the signal, but got {win_length}, {n_fft} "
            f"and {signal.shape[-1]}."
        )
    if hop_length <= 0:
        raise ValueError(f"For 'STFT', the 'hop_length' must be positive, but got {hop_length}.")
    if weights.shape != (win_length,):
        raise ValueError(f"For 'STFT', the 'window' must have {win_length} elements, but got {weights.shape}.")
    left = (n_fft - win_length) // 2
    weights = np.concatenate(
        [np.zeros(left, weights.dtype), weights, np.zeros(n_fft - win_length - left, weights.dtype)]
    )
    count = (signal.shape[-1] - n_fft) // hop_length + 1
    at = np.arange(count)[:, None] * hop_length + np.arange(n_fft)
    frames = np.take(signal, at.reshape(-1), -1).reshape((*signal.shape[:-1], count, n_fft)) * weights
    if frames.dtype.kind == "c":
        if onesided:
            raise RuntimeError("For 'STFT', the spectrum of complex numbers has two sides: 'onesided' must be False.")
        out = np.fft.fft(frames)
    else:
        out = np.fft.rfft(frames) if onesided else np.fft.fft(frames)
    out = out.astype(np.complex128 if frames.dtype in (np.float64, np.complex128) else np.complex64)
    if normalized:
        out = out / out.real.dtype.type(np.sqrt(n_fft))
    out = np.swapaxes(out, -1, -2)
    return _tensor(np.ascontiguousarray(out) if return_complex else np.stack([out.real, out.imag], -1))


def stft(
    x: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None, center: bool = True,
    pad_mode: str = "REFLECT", normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
) -> Any:  # fmt: skip
    """The Fourier transforms of parts of a signal, [..., frequencies, parts], one after the other.

    Parameters
    ----------
    x : Tensor
        One signal, or a row for each of several.
    n_fft : int
        The length of a part.
    hop_length : int, optional
        How far the parts are apart; a quarter of `n_fft`.
    win_length : int, optional
        The length of the window, which is in the middle of a part; `n_fft`.
    window : Tensor, optional
        Factors of the elements of a part; ones.
    center : bool
        Whether there is a border of half a part around the signal.
    pad_mode : {'REFLECT', 'SYMMETRIC', 'CONSTANT'}
        What is in the border.
    normalized : bool
        Whether to divide by the root of `n_fft`.
    onesided : bool, optional
        Whether to leave out what the other half of the spectrum says; by default for real signals.
    return_complex : bool, optional
        Complex numbers, or a last dimension of their two parts; by default as the signal is.
    """
    for name, value in (("center", center), ("normalized", normalized)):
        if not isinstance(value, bool):
            raise TypeError(f"For 'stft', the '{name}' must be bool, but got {type(value).__name__}.")
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    window = _tensor(np.ones(win_length, np.float32)) if window is None else window
    is_complex = "c" in (_array(x).dtype.kind, _array(window).dtype.kind)
    if center:
        if x.ndim not in (1, 2):
            raise ValueError(f"Expected a 1-D tensor or a 2-D tensor, but got {x.ndim}")
        pairs: Any = [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)]
        mode: Any = pad_mode.lower()
        x = _tensor(np.pad(_array(x), pairs, mode))
    onesided = not is_complex if onesided is None else onesided
    return_complex = is_complex if return_complex is None else return_complex
    return _spectra(x, window, n_fft, hop_length, win_length, normalized, onesided, return_complex)


def _with_size(
    x: Any, signal_ndim: int, inverse: bool, real: bool, norm: str, onesided: bool, signal_sizes: Any
) -> Any:
    """The transform of the last dimensions, or its inverse; of real numbers, or to them."""
    from scipy import fft

    array = _array(x)
    axes = tuple(range(-signal_ndim, 0))
    if not real:
        return _tensor((fft.ifftn if inverse else fft.fftn)(array, axes=axes, norm=norm))
    if not inverse:
        return _tensor((fft.rfftn if onesided else fft.fftn)(array, axes=axes, norm=norm))
    sizes = tuple(signal_sizes) or None
    if onesided:
        if sizes is None:
            sizes = (*array.shape[-signal_ndim:-1], 2 * (array.shape[-1] - 1))
        return _tensor(fft.irfftn(array, sizes, axes, norm))
    return _tensor(fft.ifftn(array, axes=axes, norm=norm).real)


_define(
    globals(),
    {
        "STFT": (
            _spectra,
            dict.fromkeys(("n_fft", "hop_length", "win_length", "normalized", "onesided", "return_complex")),
        ),
        "FFTWithSize": (
            _with_size,
            {
                **dict.fromkeys(("signal_ndim", "inverse", "real")),
                "norm": "backward",
                "onesided": True,
                "signal_sizes": (),
            },
        ),
    },
)
