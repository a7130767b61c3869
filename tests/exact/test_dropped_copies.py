"""Copies that are wholly overwritten in place are not made; results, layouts and what is shared are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj


def centred(a):
    x = a.copy()
    x -= x.mean(axis=0)
    return x


def as_covariance(a):
    x = np.array(a, ndmin=2, dtype=a.dtype)
    x -= np.average(x, axis=1)[:, None]
    return x, x @ x.T


def with_a_view(a):
    x = a.copy()
    row = x[1]
    first = row.sum()
    x *= 0.5
    return x, row, row.sum() + first


def twice(a):
    x = a.copy()
    x += 1
    x *= x
    y = x.copy()
    y[:] = y[::-1] * 2
    return x, y


def to_the_source(a):
    x = a.copy()
    a += 1
    x *= a
    return x


def back_to_the_source(a):
    x = a.copy()
    x += a.sum()
    a[:] = x
    x -= 1
    return x, a


def in_part(a):
    x = a.copy()
    x[1:] = 0
    x -= a
    return x


def of_product(a):
    x = a.copy()
    x[:] = x.T @ x if x.shape[0] == x.shape[1] else x * 2
    return x


def other_dtype(a):
    x = a.astype("f4")
    x -= x.sum()
    return x


def as_it_was(a):
    x = a.copy()
    y = x + 1
    x -= y
    return x, y


DROPPED = [centred, as_covariance, with_a_view, back_to_the_source, as_it_was]
FORMS = [*DROPPED, twice, to_the_source, in_part, of_product, other_dtype]


def layouts():
    base = np.random.default_rng(4).normal(size=(24, 24))
    shifted = np.zeros(8 * 35 + 4, np.uint8)[4:].view("f8").reshape(5, 7)
    shifted[:] = base[:5, :7]
    return {
        "rows": base[:5, :7].copy(),
        "columns": base[:5, :7].copy(order="F"),
        "square": base[:6, :6].copy(),
        "part": base[2:12, 3:16],
        "steps": base[::3, ::2],
        "reversed": base[::-1, 4:9],
        "misaligned": shifted,
        "one row": base[:2, :1].copy(),
        "float32": base.astype("f4"),
        "no columns": base[:4, :0].copy(),
    }


def seen(function, a):
    made = a.copy(order="K") if a.flags.owndata or a.base is None else a
    kept = made.copy()
    with np.errstate(all="ignore"):
        result = function(made)
    parts = result if isinstance(result, tuple) else (result,)
    found = [(p.dtype, np.shape(p), getattr(p, "strides", None), np.asarray(p).tobytes()) for p in parts]
    shares = [np.shares_memory(p, q) for p in (*parts, made) for q in parts if isinstance(p, np.ndarray) and isinstance(q, np.ndarray)]
    after = made.tobytes()
    made[...] = kept
    return found, shares, after


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("layout", layouts())
def test_results(form, layout):
    marked = fj.jit(form)
    for _ in range(3):
        assert seen(marked, layouts()[layout]) == seen(form, layouts()[layout])


@pytest.mark.parametrize("form", DROPPED, ids=lambda f: f.__name__)
def test_no_copy_is_made(form, monkeypatch):
    a = layouts()["rows"]
    assert "= copy " not in "\n".join(fj.explain(fj.jit(form))(a.copy()).graphs)
    monkeypatch.setattr(fj.config, "passes", "-drop_copies")
    assert "= copy " in "\n".join(fj.explain(fj.jit(form))(a.copy()).graphs)


@pytest.mark.parametrize("form", [to_the_source, in_part], ids=lambda f: f.__name__)
def test_a_copy_is_needed(form):
    assert "= copy " in "\n".join(fj.explain(fj.jit(form))(layouts()["rows"]).graphs)
