"""Operands of every shape class, with special values mixed in."""

from __future__ import annotations

from typing import Callable

import numpy as np

Fill = Callable[[int], np.ndarray]


def special_values(rng: np.random.Generator, dtype: str, n: int) -> np.ndarray:
    """Ordinary values with about one in eight special: NaN, infinities, signed zeros, denormals, extremes."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    if kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(0 if kind == "u" else -20, 20, n)
        special = np.array([0, 1, -1, 2, info.min, info.max, info.max - 1, 7], dtype=object)
        picks = [int(special[i]) for i in rng.integers(0, len(special), n)]
        chosen = rng.random(n) < 0.15
        return np.array([max(info.min, p) if c else int(v) for p, v, c in zip(picks, values, chosen)], dtype=dtype).reshape(n)
    if kind == "c":
        parts = special_values(rng, np.finfo(dtype).dtype, 2 * n)
        return parts.view(dtype)
    info = np.finfo(dtype)
    values = rng.normal(0, 3, n)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, info.tiny / 4, info.max, -info.max, 1.0, -1.0, 0.5, 1e5, 2.0])
    with np.errstate(all="ignore"):
        return np.where(rng.random(n) < 0.15, special[rng.integers(0, len(special), n)], values).astype(dtype)


def vector(n: int):
    return lambda fill, count: tuple(fill(n) for _ in range(count))


def mild(n: int):
    """Values that set no flag in most operators, so that compiled results are really used."""
    def make(fill: Fill, count: int) -> tuple:
        out = []
        for i in range(count):
            x = fill(n)
            if x.dtype.kind == "f":
                x = (np.arange(n) % 17 * 0.37 + 0.25 + i).astype(x.dtype)
            elif x.dtype.kind == "c":
                x = (np.arange(n) % 17 * 0.37 + 0.25 + i + (np.arange(n) % 13 * 0.29 - 1.7) * 1j).astype(x.dtype)
            elif x.dtype.kind in "iu":
                x = (np.arange(n) % 11 + 1 + i).astype(x.dtype)
            out.append(x)
        return tuple(out)
    return make


def roomy(fill: Fill, n: int) -> np.ndarray:
    """n elements with room on both sides. NumPy's loops reckon that n elements of a stride end a whole stride behind the last
    one: where the result's memory begins there, NumPy 1 takes another path, with other bits."""
    return fill(n + 32)[16:-16]


def strided(fill: Fill, count: int) -> tuple:
    return tuple(roomy(fill, 3 * 37)[::3] for _ in range(count))


def negative(fill: Fill, count: int) -> tuple:
    return tuple(roomy(fill, 37)[::-1] for _ in range(count))


def both_negative(fill: Fill, count: int) -> tuple:
    return tuple(roomy(fill, 6 * 10).reshape(6, 10)[::-1, ::-2] for _ in range(count))


def matrix(fill: Fill, count: int) -> tuple:
    return tuple(fill(5 * 19).reshape(5, 19) for _ in range(count))


def fortran(fill: Fill, count: int) -> tuple:
    return tuple(np.asfortranarray(fill(5 * 19).reshape(5, 19)) for _ in range(count))


def mixed_order(fill: Fill, count: int) -> tuple:
    return tuple(
        np.asfortranarray(fill(6 * 6).reshape(6, 6)) if i % 2 else fill(6 * 6).reshape(6, 6) for i in range(count)
    )


def permuted(fill: Fill, count: int) -> tuple:
    return tuple(fill(3 * 4 * 5).reshape(3, 4, 5).transpose(2, 0, 1) for _ in range(count))


def cut(fill: Fill, count: int) -> tuple:
    return tuple(fill(8 * 12).reshape(8, 12)[1:-1, 2:9] for _ in range(count))


def broadcast(fill: Fill, count: int) -> tuple:
    shapes = [(4, 1, 9), (7, 1), (9,)]
    return tuple(fill(int(np.prod(shapes[i % 3]))).reshape(shapes[i % 3]) for i in range(count))


def stride_zero(fill: Fill, count: int) -> tuple:
    return tuple(np.broadcast_to(fill(1), (11,)) if i % 2 else fill(11) for i in range(count))


def overlapping(fill: Fill, count: int) -> tuple:
    base = fill(40)
    return tuple(base[i : i + 33] for i in range(count))


def reversed_overlap(fill: Fill, count: int) -> tuple:
    base = roomy(fill, 33)
    return tuple(base[:: -1 if i % 2 else 1] for i in range(count))


def same_object(fill: Fill, count: int) -> tuple:
    base = fill(21)
    return tuple(base for _ in range(count))


def misaligned(fill: Fill, count: int) -> tuple:
    out = []
    for _ in range(count):
        x = fill(35)
        raw = np.zeros(x.nbytes + 1, np.uint8)
        view = raw[1:].view(x.dtype)
        view[...] = x
        out.append(view)
    return tuple(out)


def read_only(fill: Fill, count: int) -> tuple:
    out = tuple(fill(9) for _ in range(count))
    for x in out:
        x.flags.writeable = False
    return out


SHAPE_CLASSES = {
    "empty": vector(0),
    "0-d": lambda fill, count: tuple(fill(1).reshape(()) for _ in range(count)),
    "one": vector(1),
    "width - 1": vector(15),
    "width": vector(16),
    "width + 1": vector(17),
    "tails": vector(67),
    "mild": mild(45),
    "mild tiles": mild(5003),
    "empty rows": lambda fill, count: tuple(fill(0).reshape(0, 4) for _ in range(count)),
    "strided": strided,
    "negative": negative,
    "both negative": both_negative,
    "matrix": matrix,
    "fortran": fortran,
    "mixed order": mixed_order,
    "permuted": permuted,
    "cut": cut,
    "broadcast": broadcast,
    "stride 0": stride_zero,
    "overlapping": overlapping,
    "reversed overlap": reversed_overlap,
    "same object": same_object,
    "misaligned": misaligned,
    "read-only": read_only,
}
