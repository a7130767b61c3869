"""Small NumPy programs as people write them: equal to eager in values, state, errors and warnings, and really captured."""

from __future__ import annotations

import math

import numpy as np
import pytest

import framejit

from exact.same import assert_same, assert_same_seen, observe

WEIGHT = 0.25
TABLE = {"scale": 2.0, "shift": np.float32(0.5)}


def f32(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def f64(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def captured(function, make_args, graphs=None, **options):
    """Same as eager; and framejit did run it."""
    before = framejit.stats()["frames_captured"]
    marked = assert_same(function, make_args, **options)
    assert framejit.stats()["frames_captured"] > before, "nothing was captured"
    if graphs is not None:
        assert marked.graphs().count("graph @") == graphs, marked.graphs()
    return marked


def axpy(a, b, c):
    return a * b + c


def test_axpy():
    captured(axpy, lambda: (f32(2, 3), f32(2, 3, seed=1), f32(2, 3, seed=2)), graphs=1)


def hillshade(z, cell, azimuth, altitude):
    dx = (z[1:-1, 2:] - z[1:-1, :-2]) / (2 * cell)
    dy = (z[2:, 1:-1] - z[:-2, 1:-1]) / (2 * cell)
    slope = np.arctan(np.sqrt(dx * dx + dy * dy))
    aspect = np.arctan2(-dx, dy)
    shaded = np.sin(altitude) * np.cos(slope) + np.cos(altitude) * np.sin(slope) * np.cos(azimuth - aspect)
    return np.clip(shaded, 0, 1)


def test_hillshade():
    captured(hillshade, lambda: (f64(40, 53), 30.0, 5.5, 0.78))
    captured(hillshade, lambda: (f32(40, 53), 30.0, 5.5, 0.78))


def smooth(z, rounds):
    out = z.copy()
    for _ in range(rounds):
        out[1:-1, 1:-1] = (out[:-2, 1:-1] + out[2:, 1:-1] + out[1:-1, :-2] + out[1:-1, 2:]) * WEIGHT
        out = np.where(out > 1.0, 1.0, out)
    return out


def test_smooth():
    captured(smooth, lambda: (f64(20, 31), 3), graphs=1)


def in_place(x, c, y):
    x *= c
    x += y


def test_in_place():
    captured(in_place, lambda: (f32(1003), f32(1003, seed=1), f32(1003, seed=2)))
    captured(in_place, lambda: (f32(5, 7)[::2], np.float32(3), f32(7)))


def test_in_place_warns():
    def make():
        x = f32(50)
        x[7] = 3e38
        return x, np.full(50, 2, np.float32), f32(50)

    for errstate in (None, {"all": "raise"}, {"all": "ignore"}):
        assert_same(in_place, make, errstate)


def shifted(x):
    x[1:] += x[:-1]
    x[:-1] = x[1:][::-1]
    return x[::-1] + x


def test_overlapping_views():
    captured(shifted, lambda: (f64(33),))


def views(x):
    a = x[1:3]
    b = a.T
    c = x.reshape(-1)
    a += 1
    return a, b, c, x + 0, c[3], (x * 2)[1], x


def test_views():
    captured(views, lambda: (f64(4, 5),))


def normalize(x):
    mean = x.mean(axis=0)
    std = np.sqrt(((x - mean) ** 2).mean(axis=0))
    return (x - mean) / std, mean.max(), std.min()


def test_normalize():
    captured(normalize, lambda: (f64(57, 9),))
    captured(normalize, lambda: (f32(57, 9),))


def helper(x, *, gain=2.0, bias=WEIGHT):
    return x * gain + bias


def calls(x, items):
    total = helper(x)
    for i, item in enumerate(items):
        total = total + helper(item, gain=float(i))
    return {"total": total, "parts": [t * TABLE["scale"] for t in items], "shape": x.shape}


def test_calls():
    captured(calls, lambda: (f64(6), [f64(6, seed=1), f64(6, seed=2)]), graphs=1)


def test_closure():
    scale = 3.0
    offset = f64(4, seed=5)

    def function(x):
        return (lambda y: y * scale + offset)(x)

    captured(function, lambda: (f64(4),))
    scale = 4.0
    captured(function, lambda: (f64(4),))


class Model:
    rate = 0.5

    def __init__(self):
        self.weight = f64(5, seed=9)
        self.calls = 0

    def step(self, x):
        self.calls += 1
        self.last = x * self.weight
        return self.last - self.rate * x


def test_attributes():
    plain, marked = Model(), Model()
    step = framejit.jit(Model.step)
    for k in range(4):
        x = f64(5, seed=k)
        assert np.array_equal(Model.step(plain, x), step(marked, x))
        assert plain.calls == marked.calls and np.array_equal(plain.last, marked.last)
        plain.rate = marked.rate = 0.25 * k
    Model.rate = 7.0
    del plain.rate, marked.rate
    assert np.array_equal(Model.step(plain, x), step(marked, x))
    Model.rate = 0.5


def with_break(x, log):
    y = x * 2 + 1
    log.append(str(y.shape))
    print(end="")
    z = np.sqrt(y * y + 1)
    for i in range(3):
        z = z * 0.5 + y
        print(end="")
        z = z - i
    return z.sum()


def test_break():
    captured(with_break, lambda: (f64(100), []))


def branch(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y + 1


def test_branch_on_value():
    captured(branch, lambda: (np.ones(5),))
    captured(branch, lambda: (-np.ones(5),))


def raises(x, y):
    try:
        z = x * 2
        return z + y
    except ValueError as error:
        return str(error), x + 1


def test_errors():
    assert_same(raises, lambda: (f64(3), f64(4)))
    assert_same(axpy, lambda: (f64(3), f64(4), f64(3)))
    captured(raises, lambda: (f64(3), f64(3)))


def test_globals_change(monkeypatch):
    def function(x):
        return x * WEIGHT + TABLE["scale"]

    marked = framejit.jit(function)
    x = f64(5)
    for weight, scale in [(0.25, 2.0), (0.5, 2.0), (np.float64(2), 3.0), (f64(5), 1)]:
        monkeypatch.setitem(globals(), "WEIGHT", weight)
        monkeypatch.setitem(TABLE, "scale", scale)
        assert np.array_equal(function(x), marked(x))


def test_monkeypatched_callee(monkeypatch):
    marked = framejit.jit(calls)
    args = (f64(6), [f64(6, seed=1)])
    assert np.array_equal(calls(*args)["total"], marked(*args)["total"])
    monkeypatch.setattr(helper, "__kwdefaults__", {"gain": 5.0, "bias": 0.0})
    assert np.array_equal(calls(*args)["total"], marked(*args)["total"])
    monkeypatch.setitem(globals(), "helper", lambda x, gain=1: x - gain)
    assert np.array_equal(calls(*args)["total"], marked(*args)["total"])


def test_shapes_become_symbolic(caplog):
    marked = framejit.jit(lambda x, w: (x * w[None, :]).sum(axis=1))
    plain = marked.__wrapped__
    compiled = []
    for n in (3, 5, 6, 7, 8, 9, 10, 11, 12, 13):
        x, w = f64(4, n), f64(n, seed=1)
        assert np.array_equal(plain(x, w), marked(x, w))
        compiled.append(framejit.stats()["recompiles"])
    assert compiled[1] > compiled[0] and len(set(compiled[1:])) == 1, compiled


WRONG = {
    "object": lambda: (np.array([1, "a"], object), 2),
    "masked": lambda: (np.ma.masked_array([1.0, 2.0], [True, False]), 2.0),
    "matrix": lambda: (np.matrix([[1.0, 2.0], [3.0, 4.0]]), 2.0),
    "mismatch": lambda: (f64(3), f64(4)),
    "string": lambda: ("x", 3),
    "none": lambda: (None, f64(3)),
    "datetime": lambda: (np.array(["2020-01-01"], "M8[D]"), np.timedelta64(1, "D")),
    "structured": lambda: (np.zeros(3, [("a", "f4")]), f64(3)),
    "big endian": lambda: (np.arange(3).astype(">f8"), f64(3)),
    "float16": lambda: (np.arange(3).astype("f2"), f64(3)),
    "complex": lambda: (np.arange(3) * 1j, f64(3)),
    "longdouble": lambda: (np.arange(3).astype(np.longdouble), f64(3)),
    "list": lambda: ([1.0, 2.0, 3.0], f64(3)),
    "huge int": lambda: (np.arange(3), 2**70),
    "int8 overflow": lambda: (np.arange(3, dtype=np.int8), 300),
    "nested list": lambda: (f64(2), [[1, 2], [3, 4]]),
    "memmap subclass": lambda: (f64(3).view(np.recarray), 1),
    "bool scalar": lambda: (np.bool_(True), f64(3)),
    "too few": lambda: (f64(3),),
    "too many": lambda: (f64(3), 1, 2),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_inputs(case):
    def function(x, y):
        return x + y, x * y

    expected = observe(function, WRONG[case]())
    marked = framejit.jit(function)
    for _ in range(2):
        actual = observe(marked, WRONG[case]())
        assert actual.error is not None and expected.error is not None or (actual.error is expected.error is None)
        if expected.error:
            assert actual.error[:2] == expected.error[:2]
        else:
            assert repr(actual.result) == repr(expected.result)
            assert [type(r) for r in actual.result] == [type(r) for r in expected.result]


def math_scalars(x, n):
    h = 1.0 / n if n else 0.0
    k = math.pi * 2
    return x * h + k, n * 2, h


def test_python_numbers():
    captured(math_scalars, lambda: (f64(4), 8))
    marked = framejit.jit(math_scalars)
    for n in range(12):
        assert repr(math_scalars(np.ones(3), n)) == repr(marked(np.ones(3), n))


class Finalized:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("finalized")


def rebinds(x, log):
    y = Finalized(log)
    log.append("made")
    y = x * 2
    log.append("rebound")
    z = Finalized(log)
    del z
    log.append("deleted")
    return y + 1


def test_finalizers_run_in_order():
    captured(rebinds, lambda: (f64(3), []))


def reduced_then_written(x):
    z = x + 0
    s = z.sum()
    m = z.max(axis=0)
    z += 1
    t = z.min()
    x -= z
    return z, s, m, t, x.sum()


def test_reductions_before_and_after_writes():
    captured(reduced_then_written, lambda: (f64(7),))
    captured(reduced_then_written, lambda: (f32(30, 50),))


@pytest.mark.parametrize("value", [1e300, float("nan"), 300.7, 3.0])
@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "f4", "?"])
def test_scalars_into_arrays(dtype, value):
    def function(x, y, out):
        out[...] = y.max()
        out[0] = y.sum() + x
        out[1:] = y[:1]
        return out

    assert_same(function, lambda: (np.float64(1), np.array([value, value]), np.zeros(3, dtype)))
    assert_same(function, lambda: (np.float64(1), np.full(2, 300), np.zeros(3, dtype)))


def method_on_the_stack(x, n, out):
    three = np.int8(3)
    z = x * 1
    m = x > 0
    out.append(np.arctan2(((np.float32(1.5) / m * 1) // z), helper(x, gain=(n > three) * 1)))
    return out


def test_method_pushed_by_region_and_by_interpreter():
    """The same place is reached with LOAD_METHOD done by a region (NULL, method) and by the interpreter (function, self)."""
    marked = framejit.jit(method_on_the_stack)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = (rng.normal(size=int(rng.choice([4, 5, 3, 1]))) * 2).astype(rng.choice(["f8", "f4", "i8"]))
        n = int(rng.integers(0, 4))
        expected, actual = observe(method_on_the_stack, (x, n, [])), observe(marked, (x, n, []))
        assert_same_seen(expected, actual, f"seed {seed}")


def deletes(x, n):
    v = x
    for i in range(n):
        s = x.sum()
        del v
    return s


def test_deleted_variables():
    marked = framejit.jit(deletes)
    for size in (4, 5, 3, 4):
        for n in (1, 2, 3):
            expected, actual = observe(deletes, (np.ones(size), n)), observe(marked, (np.ones(size), n))
            assert_same_seen(expected, actual, f"{size} {n}")


def test_layouts_are_compiled_one_by_one():
    """Arrays of one shape whose elements lie in another order each time."""

    def f(x, y):
        return (x * y).sum(1), x.sum(2)

    base = np.random.default_rng(0).normal(size=(3, 4, 5))
    layouts = [base, *(np.ascontiguousarray(base.transpose(p)).transpose(np.argsort(p)) for p in ((1, 0, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)))]
    layouts += [np.repeat(base, 2, 2)[:, :, ::2], base[::-1].copy()[::-1]]
    marked = framejit.jit(f, fullgraph=True)
    for _ in range(2):
        for x in layouts:
            for found, wanted in zip(marked(x, base), f(x, base)):
                assert found.tobytes() == wanted.tobytes() and found.strides == wanted.strides
