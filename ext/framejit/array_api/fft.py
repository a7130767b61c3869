"""Fourier transforms of the array API standard, of Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit.array_api._wrap import check_device, made, taken, wrap_all

_FUNCTIONS = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftshift ifftshift"
__all__ = [*_FUNCTIONS.split(), "fftfreq", "rfftfreq"]
globals().update(wrap_all(np.fft, _FUNCTIONS))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of the `n` results of `fft`, for samples at distance `d`.

    Parameters
    ----------
    n : int
        The length.
    d : float
        The distance of samples.
    dtype : dtype, optional
        Of real numbers; by default float64.
    device : {'CPU', None}
        Where it is stored.
    """
    check_device("fftfreq", {"device": device})
    return made(np.fft.fftfreq(n, d).astype(taken(dtype)))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of the results of `rfft`, for `n` samples at distance `d`.

    Parameters
    ----------
    n : int
        The number of samples.
    d : float
        The distance of samples.
    dtype : dtype, optional
        Of real numbers; by default float64.
    device : {'CPU', None}
        Where it is stored.
    """
    check_device("rfftfreq", {"device": device})
    return made(np.fft.rfftfreq(n, d).astype(taken(dtype)))
