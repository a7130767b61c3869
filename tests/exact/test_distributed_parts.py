"""Arrays that are put together from parts (np.roll, np.concatenate) are not stored before something is computed of them; the results are NumPy's."""

from __future__ import annotations

import re

import numpy as np
import pytest

import framejit as fj


def laplacian(z):
    near = np.roll(z, 1, 0) + np.roll(z, -1, 0) + np.roll(z, 1, -1) + np.roll(z, -1, -1)
    return near * 2 - z


def in_place(z):
    z += np.roll(z, 1, 0) - np.roll(z, 2, -1)
    z -= np.roll(z, -1, 0) * z
    return z.sum()


def corners(z):
    axes = (0, z.ndim - 1)
    return np.roll(z, (1, 1), axes) + np.roll(z, (-1, 1), axes) * z, z


def halves(z):
    n = len(z) // 2
    turned = np.concatenate((z[n:], z[:n]))
    out = np.empty_like(z)
    out[...] = turned * 3 + z
    return out, turned


def bordered(z):
    wide = np.empty((len(z) + 2, *z.shape[1:]), z.dtype)
    wide[0], wide[-1] = 0, 1
    wide[1:-1] = z
    return wide[2:] + wide[:-2] * z


def of_rolled(z):
    rows = np.roll(z, 1, 0) + z
    both = np.roll(rows, -1, -1) + rows
    return (both * both).sum(0), rows


def written_between(z):
    x = z.copy()
    r = np.roll(x, 1, 0)
    x[...] = 2
    y = r + x
    x += np.roll(y, 1, 0) - r
    return x, y, r


def changed_after(z):
    r = np.roll(z, 1, 0)
    y = r + z
    w = np.roll(z, -1, 0) * y
    y[:1] = 1
    return y + w, y, w


def by_rows(z):
    r = np.roll(z, 1, 0)
    return r + z[-1:] * r, r * z.sum()


DISTRIBUTED = [laplacian, in_place, corners, bordered]
FORMS = [*DISTRIBUTED, halves, of_rolled, written_between, changed_after, by_rows]
SHAPES = [(1,), (2,), (3,), (9000,), (1, 1), (2, 3), (9000, 1), (1, 9000), (2, 4500), (4500, 2), (97, 93), (300, 200), (25, 16, 21), (0, 4)]


def seen(function, z):
    result = function(z)
    parts = result if isinstance(result, tuple) else (result,)
    return [(np.asarray(p).dtype, np.shape(p), getattr(p, "strides", None), np.asarray(p).tobytes()) for p in (*parts, z)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_results(form, shape):
    marked = fj.jit(form)
    for dtype in ("f8", "f4", "i4", "u1", "c16"):
        z = np.random.default_rng(1).integers(0, 9, shape).astype(dtype) / np.array(3, dtype)
        for made in (z, np.asfortranarray(z), np.repeat(z, 2, axis=-1)[..., ::2], z[::-1]):
            with np.errstate(all="ignore"):
                assert seen(marked, made.copy()) == seen(form, made.copy())
                assert seen(marked, made.copy("K")) == seen(form, made.copy("K"))


@pytest.mark.parametrize("form", DISTRIBUTED, ids=lambda f: f.__name__)
def test_parts_are_not_put_together(form, monkeypatch):
    z = np.random.default_rng(1).random((70, 90))

    def temporaries():
        text = "\n".join(fj.explain(fj.jit(form))(z.copy()).graphs)
        return set(re.findall(r"(%\d+) = empty", text)) - set(re.findall(r"%\d+", text.partition("return")[2]))

    few = len(temporaries())
    assert few <= 2  # what an expression is put together in, if something else reads it
    monkeypatch.setattr(fj.config, "passes", "-distribute_parts")
    assert len(temporaries()) > few


def test_a_warning_is_given_once_and_names_the_line():
    def divided(z):
        return np.roll(z, 1, 0) / (np.roll(z, -1, 0) - 1)

    marked = fj.jit(divided)
    z = np.arange(400.0).reshape(20, 20)
    z[3, 4] = z[19, 19] = 1
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero") as caught:
            result = marked(z)
        assert len(caught) == 1 and caught[0].lineno == divided.__code__.co_firstlineno + 1
        with np.errstate(all="ignore"):
            assert np.array_equal(result, divided(z))
