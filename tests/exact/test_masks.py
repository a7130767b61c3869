"""What a mask chooses: arrays whose size is known when the graph runs, against eager NumPy, and the structure of their graphs."""

from __future__ import annotations

import warnings

import framejit as fj
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.capture
MODES = ("", "interp", "guards", "break=5", "verify")
DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "c8", "c16")


def seen(value):
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, *map(seen, value)]
    if isinstance(value, (np.ndarray, np.generic)):
        flags = value.flags
        return type(value).__name__, value.dtype.str, value.shape, value.strides, value.tobytes(), flags.owndata, flags.writeable
    return type(value).__name__, repr(value)


def observe(function, args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", fj.RecompileLimitWarning)
        try:
            result, error = function(*args), None
        except Exception as e:  # noqa: BLE001
            result, error = None, (type(e), str(e), e.__traceback__.tb_next.tb_lineno if e.__traceback__.tb_next else None)
    return seen(result), error, seen(args), [(w.category, str(w.message), w.filename, w.lineno) for w in caught]


def copies(args):
    return [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]


def check(function, *calls, modes=MODES, **options):
    errors = fj.stats()["internal_errors"]
    for mode in modes:
        fj.config.stress = mode
        try:
            marked = fj.jit(**options)(function)
            for args in calls:
                for _ in range(2):
                    assert observe(marked, copies(args)) == observe(function, copies(args)), (mode, args)
        finally:
            fj.config.stress = ""
    assert fj.stats()["internal_errors"] == errors
    return marked


RNG = np.random.default_rng(0)
LINES = [(RNG.normal(size=n),) for n in (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 100, 3000)]
LINES += [(np.ones(5),), (-np.ones(5),), (np.array([np.nan, 1, np.inf, -0.0]),), (RNG.normal(size=40)[::-2],)]


def test_one_graph():
    def f(x):
        y = x[x > 0]
        return y.sum(), y * 2 + 1

    marked = fj.jit(f, fullgraph=True)
    x = np.array([3.0, -1, 2, 5])
    assert observe(marked, [x]) == observe(f, [x])
    explanation = fj.explain(f)(x)
    assert explanation.breaks == [] and len(marked.cache_entries()) == 1
    text = marked.graphs()
    assert "measure" in text and "compress" in text and "f64[s0]" in text
    # One entry serves whatever the mask chooses; what has no elements at all is left to the interpreter.
    for values in ([1, 1, 1, 1], [-1, -2, -3, 4], [-1, -1, -1, -1]):
        assert observe(marked, [np.array(values, float)]) == observe(f, [np.array(values, float)])
    assert len(marked.cache_entries()) == 1


def test_selections():
    def one(x):
        return x[x > 0]

    def two(x):
        m = x > 0
        return x[m], x[~m], (x[m] * x[m]).sum()

    def of_a_selection(x):
        y = x[x > 0]
        return y[y < 1], y

    def strided(x):
        return x[::2][x[::-2] > 0]

    def numbers(x):
        y = x[x > 0]
        return len(y), y.size, y.shape, y.nbytes, len(y) * 2 + 1

    def branches(x):
        y = x[x > 0]
        if len(y) > 2:
            return y.max()
        return y.sum() if y.size else None

    def views(x):
        y = x[x > 0]
        return y, y[1:], y[::-1]

    def written(x):
        y = x[x > 0]
        y += 1
        y[:1] = 7
        x *= 2
        return y, x[x > 0]

    def a_mask_that_changes(x):
        m = x > 0
        y = x[m]
        m[:1] = ~m[:1]
        return y, x[m]

    def statistics(x):
        y = x[np.isfinite(x)]
        return y.mean(), y.std(), y.min(initial=0), np.cumsum(y), np.sort(y)

    def everything(x):
        return x[x == x], x[np.zeros(x.shape, bool)]

    def rows(x):
        total = 0.0
        for value in x[x > 0]:
            total += value
        return total

    for function in (one, two, of_a_selection, strided, numbers, branches, views, written, a_mask_that_changes, statistics, everything, rows):
        check(function, *LINES)


def test_places():
    def places(x):
        return np.nonzero(x > 0), np.where(x > 0.5)[0], np.flatnonzero(x), (x < 0).nonzero()[0] + 1

    def gathered(x):
        return x[np.where(x > 0)], x[np.flatnonzero(x > 0)[:2]]

    for function in (places, gathered):
        check(function, *LINES)
    marked = fj.jit(lambda x: np.nonzero(x)[0], fullgraph=True)
    i, j = marked(np.array([0.0, 3, 0, 1])), np.nonzero(np.array([0.0, 3, 0, 1]))[0]
    assert (i.base.shape, i.base.strides, i.flags.writeable) == (j.base.shape, j.base.strides, j.flags.writeable)
    planes = [(np.eye(3),), (RNG.integers(0, 2, size=(4, 9)),), (RNG.integers(0, 2, size=(3, 2, 5))[::-1],), (np.zeros((2, 3)),), (np.ones((0, 3)),)]
    check(lambda x: np.nonzero(x), *planes, (np.float64(2),))
    check(lambda x: (np.where(x > 0), np.argwhere(x), x[np.nonzero(x)]), *planes)
    assert fj.explain(lambda x: np.nonzero(x)[1] + 1)(np.eye(3)).breaks == []
    check(lambda x: np.where(x, 1), (np.eye(3),))


def test_nonzero_of_long_arrays():
    marked = fj.jit(lambda x: np.nonzero(x))
    rng = np.random.default_rng(4)
    for n in (1, 63, 64, 65, 200, 5000, 70_001):
        for share in (0.0, 0.01, 0.5, 0.99, 1.0):
            x = rng.random(n) < share
            for of in (x, np.repeat(x, 2)[::2], x[::-1]):
                (expected,), (found,) = np.nonzero(of), marked(of)
                assert expected.tobytes() == found.tobytes()


def test_masks_of_the_first_axes():
    def rows(x):
        y = x[x[:, 0] > 0]
        return y, y.sum(axis=0), y[:, -1] * 2, y.shape

    def elements(x):
        return x[x > 0], x.T[x.T > 0]

    calls = [(RNG.normal(size=shape),) for shape in ((1, 1), (3, 2), (8, 3), (17, 5), (0, 3))]
    calls += [(np.asfortranarray(RNG.normal(size=(5, 3))),), (RNG.normal(size=(4, 6))[:, ::2],), (RNG.normal(size=(6, 4))[::-1],)]
    for function in (rows, elements):
        check(function, *calls)
    check(lambda x: x[x[..., 0] > 0], (RNG.normal(size=(3, 4, 2)),), (RNG.normal(size=(3, 4, 0)),))


def test_values_for_a_mask():
    def own(x):
        x[x < 0] = x[x < 0] ** 2
        return x

    def of_another(x):
        out = np.zeros(x.shape)
        m = x > 0.2
        out[m] = np.sqrt(x[m])
        out[~m] = -1
        return out

    def of_another_mask(x):
        x[x > 0] = x[x < 0]
        return x

    def of_another_size(x):
        x[x > 0] = np.array([1.0, 2.0])
        return x

    def of_rows(x):
        y = np.stack([x, -x], 1)
        m = x > 0
        y[m] = y[m] * 2 + 1
        return y

    large = [(RNG.normal(size=1 << 16),)]
    for function in (own, of_another, of_another_mask, of_another_size, of_rows):
        check(function, *LINES, *large)
    assert fj.explain(own)(LINES[5][0].copy()).breaks == []
    found = fj.explain(own)(large[0][0].copy())
    assert found.breaks == [] and " = put " in str(found) and "where" not in str(found)  # only the chosen items are written


def test_masks_that_do_not_fit():
    def f(x, m):
        return x[m] + 1

    x = np.arange(4.0)
    check(f, (x, np.ones(3, bool)), (x, np.ones((4, 1), bool)), (x, np.ones(4, bool)), (x, np.array(True)), (x, [True, False, True, False]))

    def sizes(x, y):
        return x[x > 0] + y[y > 0]

    check(sizes, (x, x), (x, x - 1), (x, x - 2.5), (x, -x))


def test_beside_arrays_of_as_many_elements():
    def f(x, w):
        y = x[x > 0] * w + 1
        x[x > 0] = w
        return y, w[: len(y)]

    x = np.linspace(-3.0, 4.0, 15)
    marked = check(f, *((x * s, np.arange(float(n))) for s in (1, -1) for n in (6, 7, 8, 9)))
    assert "compress" in marked.graphs()

    def whole(x, w):
        return (x[x > 0] * w).sum()

    marked = fj.jit(whole, fullgraph=True)
    for n in (15, 31):
        x = np.linspace(-3.0, 4.0, n)
        for shift in (0, 1):
            y = x + shift
            w = np.arange(float((y > 0).sum()))
            assert marked(y, w) == whole(y, w)


def test_in_branches_and_loops():
    def f(x):
        y = x
        while x.sum() < 10:
            x = x + 1
            if x.max() > 3:
                y = x[x > 2]
        return y.sum()

    check(f, *LINES[1:])


def test_a_side_chooses():
    def f(x, t):
        if x.sum() > t:
            y = x[x > 0]
            z = y[y > 1]
            return y.sum() + z.sum()
        return x[x < 0].sum()

    marked = check(f, *((x, t) for (x,) in LINES[1:] for t in (0.0, 1e9)), fullgraph=True)
    assert marked.graphs().count("measure") == 3 * len(marked.cache_entries())

    def g(x, m):
        total = 0.0
        if m.any():
            i = np.flatnonzero(m)
            total += float(x[m].sum())
            if len(i) > 3:
                total += int(i.sum())
        return total

    check(g, *((x, x > t) for (x,) in LINES[1:] for t in (0, 1e9)), fullgraph=True)


def test_rounds_choose():
    def f(x, t):
        n = 0
        while x.max() > t:
            inside = x[np.abs(x) > 0.1]
            if inside.size > 4:
                near = inside[inside < 1]
                n += len(near) + len(near[near > 0.5])
            x = x * 0.75
            n += len(inside)
        return x, n

    calls = [(x, t) for (x,) in LINES[1:-3] for t in (0.3, 0.01)]
    marked = check(f, *calls, fullgraph=True)
    assert "measure" in marked.graphs()[marked.graphs().index("loop"):]

    def writes(x, t):
        total = np.float64(0)
        while total < t:
            m = x > 0.3
            x[m] = x[m] * 0.5 - 0.01
            x[x < 0] += 0.25
            total = total + x[x > 0.1].sum() + 1
        return total

    check(writes, *((x, 9.0) for (x,) in LINES[1:-3]), fullgraph=True)


def test_what_a_round_has_chosen_is_not_known_to_the_next():
    def f(x, n):
        k, c = 0, x[x > 0.5]
        s = np.float64(0)
        while s < n:
            s = s + c.sum() + 1
            c = x[x > s / n]
            k += len(c)
        return k, c, s

    check(f, *((x, t) for (x,) in LINES[1:-3] for t in (2.5, 8.0)))

    def of_one_side(x, t):
        y = x
        if x.sum() > t:
            y = x[x > 0]
        return y, y.sum()

    check(of_one_side, *((x, t) for (x,) in LINES[1:-3] for t in (0.0, 1e9)))


def test_what_warns_comes_once():
    def f(x):
        y = np.log(x[x > -1])
        x[:] = 0.5
        return y / y.sum()

    for calls in (LINES, [(np.array([0.0, 1, 2]),)]):
        check(f, *calls)


def test_tensors():
    def f(t):
        y = t[t > 0]
        t[t < 0] = 2
        return (y * y).sum(), y, len(y), t

    def of(call):
        return [v.asnumpy().tobytes() if isinstance(v, fj.Tensor) else v for v in call]

    marked = fj.jit(f, fullgraph=True)
    for dtype in (np.float32, np.float64, np.int32):
        for (x,) in LINES[1:-3]:
            x = (x * 10).astype(dtype)
            assert of(marked(fj.Tensor(x))) == of(f(fj.Tensor(x)))
    mixed = fj.jit(lambda t, m: (t[m], t.masked_select(t > 0).sum()))
    for m in ([True, False, True], [False, False, False], [True, True]):
        t, m = fj.Tensor([1.0, 2, 3]), np.array(m)
        if len(m) == 3:
            assert of(mixed(t, m)) == of(mixed.__wrapped__(t, m))
        else:
            with pytest.raises(IndexError):
                mixed(t, m)


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_masks_of_elements_of_every_size(dtype):
    """Rows of many vectors, with and without room for whole ones at their end."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 100, size=1003).astype(dtype)
    masks = [rng.random(size=1003) < share for share in (0.0, 0.02, 0.5, 0.98, 1.0)]
    masks += [np.arange(1003) % 64 == 63, np.arange(1003) < 64, np.arange(1003) >= 1000]
    check(lambda x, m: (x[m], x[~m]), *((x, m) for m in masks), modes=("",))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_mask_of_any_array(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)))
    rank = data.draw(st.integers(1, len(shape)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    x = (rng.normal(size=shape) * 50).astype(dtype) if dtype.kind != "u" else rng.integers(0, 200, size=shape).astype(dtype)
    axes = data.draw(st.permutations(range(len(shape))))
    x = np.ascontiguousarray(x.transpose(axes)).transpose(np.argsort(axes))
    mask = rng.random(size=shape[:rank]) < data.draw(st.sampled_from((0.0, 0.1, 0.5, 0.9, 1.0)))
    if data.draw(st.booleans()):
        x, mask = x[::-1], mask[::-1]

    def f(x, m):
        y = x[m]
        return y, y.sum(), y == y, len(y)

    check(f, (x, mask), modes=(data.draw(st.sampled_from(MODES[:3])),))


def test_values_from_the_memory_that_is_written():
    """NumPy reads them while it writes."""

    def over_itself(b):
        b[b != 0] = b[...][::-1]
        return b

    def rows(b):
        b = b.reshape(-1, 2)
        b[b[:, 0] > 2] = b[1][::-1]
        return b

    def number(b):
        b[b > 1] = b[0]
        return b

    for function in (over_itself, rows, number):
        check(function, *[(np.arange(1.0, n + 1),) for n in (4, 6, 130)])


def test_views_of_nothing():
    """The strides of what has no elements are NumPy's, however the graph finds out that it has none."""

    def beside_nothing(x):
        y = x[x != x][...]
        return y, np.copysign(y, x), ~np.where(x > 9)[0]

    def in_a_row(x):
        places = ~np.where(x > 9)[0]
        return np.fmod(x, places), places[None]

    def columns(x):
        return np.argwhere(x > 9)[..., x.ndim :], np.argwhere(x > 9).T, np.argwhere(x > 9)[:, :1]

    empty, nothing = np.zeros(0), np.zeros(3)
    check(beside_nothing, (empty,), (empty,))
    check(in_a_row, (empty,), (np.zeros(0, "f2"),))
    for calls in ([(empty,), (nothing,)], [(np.full(4, 10.0),), (nothing,), (empty,)], [(np.zeros((3, 0)),), (np.full((2, 3), 10.0),)]):
        check(columns, *calls)


def test_counts_that_repeat_and_change():
    """Steps behind a count are bound again only if one of the counts so far has changed."""

    def chosen(x, y):
        above, below = x[x > 0], y[y < 0]
        both = above[above > 1]
        return above * 2, below.sum(), both + 1, (below * 3)[::-1]

    rng = np.random.default_rng(2)
    base = np.concatenate([rng.uniform(0.1, 3.0, 20), -rng.uniform(0.1, 3.0, 12)])
    marked = fj.jit(chosen, fullgraph=True)
    for call in range(12):
        x, y = rng.permutation(base), rng.permutation(base)
        if call % 3 == 2:
            x[:call] = 2.0
        if call % 4 == 3:
            y[: 2 * call] = -1.5
        for expected, actual in zip(chosen(x, y), marked(x, y)):
            np.testing.assert_array_equal(expected, actual)
            assert expected.shape == actual.shape


def squared_and_moved(z, c, mask):
    z[mask] = z[mask] ** 2 + c[mask]
    return z


def inverted(x, c, mask):
    x[x > 0.5] = 1.0 / x[x > 0.5] - np.sqrt(c[x > 0.5])
    return x


def scaled(x, c, mask):
    x[mask] = x[mask] * c[0, 0] + np.abs(x[mask])
    return x


def in_single_precision(x, c, mask):
    y = x.astype(np.float32)
    y[mask] = y[mask] - c.astype(np.float32)[mask]
    return y


def graphs_of(function, *args):
    marked = fj.jit(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        marked(*copies(args))
    return marked.graphs()


EXPRESSIONS = [squared_and_moved, inverted, scaled, in_single_precision]


def complex_numbers(real, rng):
    return real + 1j * rng.normal(size=real.shape)


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("function", EXPRESSIONS)
def test_expressions_of_what_a_mask_chooses_are_computed_for_all_elements(function, order):
    rng = np.random.default_rng(3)
    shape = (7, 13)
    calls = []
    for mask in (rng.random(shape) < 0.5, np.zeros(shape, bool), np.ones(shape, bool)):
        x, c = rng.normal(size=shape), np.abs(rng.normal(size=shape))
        # Warnings are those of elements that are chosen.
        x[0, :4], c[1, :3] = [np.inf, np.nan, 1e300, -1e-300], [np.inf, 0, 1e300]
        if function is squared_and_moved:
            x, c = complex_numbers(x, rng), complex_numbers(c, rng)
        arrays = [np.repeat(a, 2, axis=1)[:, ::2] if order == "strided" else np.array(a, order=order) for a in (x, c)]
        calls.append((*arrays, mask))
    check(function, *calls)
    text = graphs_of(function, *calls[0])
    assert "where" in text and not any(op in text for op in ("measure", "compress", "expand"))


@pytest.mark.parametrize("dtype", ["i4", "u1", "f4", "c8", "?"])
def test_expressions_of_what_a_mask_chooses_in_other_dtypes(dtype):
    def function(x, mask):
        x[mask] = x[mask] * x[mask]
        return x

    rng = np.random.default_rng(4)
    x = rng.integers(0, 200, 40).astype(dtype)
    check(function, (x, rng.random(40) < 0.5))
    assert "compress" not in graphs_of(function, x, x > 1)


def test_rounds_of_masks_are_one_kernel():
    def function(c):
        z, n = np.zeros_like(c), np.zeros(c.shape, int)
        for i in range(6):
            inside = np.abs(z) < 2.0
            n[inside] = i
            z[inside] = z[inside] ** 2 + c[inside]
        return z, n

    rng = np.random.default_rng(5)
    c = complex_numbers(rng.normal(size=(20, 30)), rng)
    check(function, (c,), (c.T,))
    assert len(fj.explain(fj.jit(function))(c).kernels) == 1


def functions_of_numpy(x, mask):
    x[mask] = np.exp(x[mask])
    return x


def used_elsewhere(x, mask):
    y = x[mask] * 2
    x[mask] = y
    return y


def in_two_steps(x, mask):
    y = x[mask] * 2
    mask[0] = not mask[0]
    if mask.sum() == len(y):
        x[mask] = y
    return x


def added(x, mask):
    x[mask] = x[mask] + x[mask].sum()
    return x


@pytest.mark.parametrize("function", [functions_of_numpy, used_elsewhere, in_two_steps, added])
def test_expressions_of_what_a_mask_chooses_that_are_computed_for_these_alone(function):
    rng = np.random.default_rng(6)
    x, mask = rng.normal(size=40), np.arange(40) % 2 == 0
    other = mask.copy()
    other[:2] = [False, True]
    check(function, (x, mask), (x, other))
    assert "compress" in graphs_of(function, x, mask)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(40,), (130,), (5, 13), (3, 1, 70), (2, 64, 3)])
def test_elements_that_a_mask_chooses_there_and_back(dtype, shape):
    def function(x, mask):
        x[mask] = np.sort(x[mask])
        return x

    rng = np.random.default_rng(7)
    x = rng.integers(0, 100, shape).astype(dtype)
    masks = [rng.random(shape) < chosen for chosen in (0.0, 0.02, 0.5, 0.98, 1.0)]
    masks[0].flat[-1] = True
    check(function, *((x, mask) for mask in masks), (np.asfortranarray(x), masks[2]), modes=("", "guards"))
    every_other = np.repeat(x, 2, axis=-1)[..., ::2]
    check(function, (every_other, masks[2]), (every_other, np.asfortranarray(masks[2])), modes=("",))
    text = graphs_of(function, x, masks[2])
    assert "compress" in text and "expand" in text
