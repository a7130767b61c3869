"""Elementary functions at O1: the bounds that docs/o1.md states, and NumPy's special values and warnings."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import framejit as fj

PAGE = (Path(__file__).parents[2] / "docs" / "o1.md").read_text(encoding="utf-8")
BOUNDS = {
    name: {np.float32: float(single), np.float64: float(double)}
    for name, single, double in re.findall(r"^\| `([\w.]+)` \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
}
DTYPES = [np.float32, np.float64]


def find(name: str):
    home, function = name.rsplit(".", 1)
    return getattr(np if home == "np" else pytest.importorskip(home), function)


def marked(function):
    body = (lambda x: function(x)) if function.nin == 1 else (lambda x, y: function(x, y))
    return fj.jit(body, jit_level="O1", fullgraph=True)


def is_own(function) -> bool:
    """Has framejit a loop of its own? Not for gamma where SciPy's is infinite at its poles."""
    return function.__name__ != "gamma" or bool(np.isnan(function(-1.0)))


def others(function, x) -> list[tuple]:
    """The further arguments: none, or `x` in other orders, so that it meets itself and its neighbours in size."""
    if function.nin == 1:
        return [()]
    small = np.resize(np.array([0.5, -1, 2, 3, 1.5, -7, 10], x.dtype), len(x))
    return [(x[::-1].copy(),), (np.roll(x, 1),), (x * x.dtype.type(0.75),), (small,)]


def samples(dtype) -> np.ndarray:
    rng = np.random.default_rng(5)
    n = 4000
    bits = rng.integers(0, 2 ** (8 * np.dtype(dtype).itemsize), n, dtype=f"u{np.dtype(dtype).itemsize}")
    parts = [rng.uniform(-limit, limit, n) for limit in (1, 3, 20, 90, 750, 1e5)]
    parts += [np.exp2(rng.uniform(-60, 60, n)), 1 + rng.normal(size=n) * 1e-3, rng.integers(0, 60000, n) * (np.pi / 2)]
    return np.concatenate([bits.view(dtype), *(part.astype(dtype) for part in parts)])


def test_every_own_function_is_stated():
    x = np.linspace(0.1, 0.9, 50)
    stated = {find(name).__name__ for name in BOUNDS}
    for name in ("heaviside", "nextafter", *stated):
        function = getattr(np, name, None) or find(f"scipy.special.{name}")
        report = fj.explain(marked(function))(*[x] * function.nin)
        assert (f" = {name} " in report.graphs[0]) == is_own(function)
        assert ("numpy_loop" in report.entries[0]["program"]) != is_own(function), report


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in BOUNDS if name.startswith("np.")])
def test_error(name, dtype):
    function = find(name)
    compiled, x = marked(function), samples(dtype)
    with np.errstate(all="ignore"):
        for more in others(function, x):
            check_error(function, compiled, (x, *more), BOUNDS[name][dtype])


def check_error(function, compiled, arguments, bound):
    dtype = arguments[0].dtype
    exact, found = function(*(a.astype(np.longdouble) for a in arguments)), compiled(*arguments)
    rounded = exact.astype(dtype)
    assert np.array_equal(np.isnan(rounded), np.isnan(found)) and np.array_equal(np.isinf(rounded), np.isinf(found))
    finite = np.isfinite(rounded)
    least = 1 / 32 if function.__name__.startswith("logaddexp") else np.finfo(dtype).tiny
    _, exponent = np.frexp(np.maximum(np.abs(rounded[finite]), dtype.type(least)))
    unit = np.ldexp(np.longdouble(1), exponent - np.finfo(dtype).nmant - 1)
    error = np.abs(found[finite] - exact[finite]) / unit
    assert error.max() <= bound, (error.max(), [a[finite][error.argmax()] for a in arguments])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [np.heaviside, np.nextafter])
def test_exact_functions(function, dtype):
    values = np.array([*special(dtype), *samples(dtype)], dtype)
    for x, y in ((values, values[::-1].copy()), (np.zeros_like(values), values), (values, values), (values, np.full_like(values, np.inf))):
        compiled = marked(function)
        with np.errstate(all="ignore"):
            found, expected = compiled(x, y), function(x, y)
            assert np.array_equal(found, expected, equal_nan=True)
            assert np.array_equal(np.signbit(found) & ~np.isnan(found), np.signbit(expected) & ~np.isnan(expected))
        for one in zip(x[:100:3], y[:100:3], strict=True):
            alone = [np.full(5, number) for number in one]
            seen = []
            for call in (function, compiled):
                with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"):
                    warnings.simplefilter("always")
                    call(*alone)
                    seen.append(sorted(str(w.message) for w in caught))
            assert seen[0] == seen[1], one


def special(dtype) -> list:
    info = np.finfo(dtype)
    sizes = [0, 1, 0.5, 2, 10, 37, 38.5, 88.8, 89.3, 104, 127, 128, 149, 710.2, 711, 746, 1023, 1024, 1075, 1e5, 1e10, 1e30]
    sizes += [1e-10, 1e-20, 1.0000001, info.max, info.tiny, info.tiny * 0.7, info.smallest_subnormal, np.inf, np.nan]
    return [sign * size for size in sizes for sign in (1, -1)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BOUNDS)
def test_special_values_and_warnings(name, dtype):
    function = find(name)
    compiled = marked(function)
    errors = fj.stats()["internal_errors"]
    values = special(dtype)
    pairs = [(value,) for value in values] if function.nin == 1 else [(a, b) for a in values for b in values[::5] + [np.nan, -np.inf]]
    for pair in pairs:
        for length, ordinary in ((1, ()), (37, ()), (37, (0.6, 0.3)), (37, (3.0, 7.0))):
            arguments = [np.full(length, value, dtype) for value in pair]
            for argument, number in zip(arguments, ordinary):  # a lane beside others
                argument[:5] = argument[6:] = number
            seen = []
            for call in (function, compiled, compiled):
                with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"):
                    warnings.simplefilter("always")
                    seen.append((call(*arguments), sorted(str(w.message) for w in caught)))
            (expected, warned), *rest = seen
            for found, said in rest:
                assert said == warned, (pair, length)
                number = ~np.isnan(expected)
                assert np.array_equal(np.isnan(found), ~number) and np.array_equal(np.isinf(found), np.isinf(expected))
                assert np.array_equal(np.signbit(found[number]), np.signbit(expected[number])), (pair, found[0])
    assert (f" = {function.__name__} " in compiled.graphs()) == is_own(function) and fj.stats()["internal_errors"] == errors


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BOUNDS)
def test_a_rare_lane_raises_no_more_than_it_must(name, dtype):
    """What NumPy is silent about is no reason to run again in NumPy."""
    function = find(name)
    for value in special(dtype):
        for ordinary in (0.6, 3.0):
            compiled = marked(function)
            x = np.full(37, min(ordinary, 0.6) if name in ("np.arcsin", "np.arccos", "np.arctanh") else ordinary, dtype)
            x[5] = value
            arguments = (x, x[::-1].copy())[: function.nin]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                function(*arguments)
                compiled(*arguments)
            if caught:
                continue
            before = fj.stats()["frames_captured"]
            compiled(*arguments)
            assert fj.stats()["frames_captured"] == before + 1, (value, ordinary)


@pytest.mark.parametrize(("level", "length"), [("O0", 3), ("O0", 300_000), ("O1", 300_000)])
def test_errstate_of_scipy(level, length):
    special = pytest.importorskip("scipy.special")
    compiled = fj.jit(lambda x: special.gammaln(x) + special.ndtr(x), jit_level=level)
    x = np.full(length, 0.7)
    compiled(x)
    x[-1] = -1
    captured = fj.stats()["frames_captured"]
    assert np.isinf(compiled(x)[-1]) and fj.stats()["frames_captured"] == captured + 1
    with special.errstate(singular="raise"), pytest.raises(special.SpecialFunctionError, match="singularity"):
        compiled(x)
    with special.errstate(singular="warn"), pytest.warns(special.SpecialFunctionWarning, match="singularity"):
        compiled(x)
    assert np.isinf(compiled(x)[-1]) and fj.stats()["internal_errors"] == 0


def test_negative_numbers_are_no_reason_to_run_again():
    special = pytest.importorskip("scipy.special")
    x = np.linspace(-9.7, 9.8, 1001)
    with np.errstate(all="warn"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("gamma", "gammaln", "erfc", "expit"):
            compiled = marked(getattr(special, name))
            compiled(x)
            before = fj.stats()["frames_captured"]
            assert np.allclose(compiled(x), getattr(special, name)(x), rtol=1e-12)
            assert fj.stats()["frames_captured"] == before + 1


TOGETHER = ["tanh", "exp", "sin", "log1p", "cbrt", "arctan2", "cos", "expm1", "power", "arcsinh", "log", "sinh", "hypot"]


@pytest.mark.parametrize("cpu", ["avx2", "avx512"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [2, 3, 5, len(TOGETHER)])
def test_functions_of_one_kernel_give_what_each_gives_alone(count, dtype, cpu, monkeypatch):
    """The instructions of up to four independent functions take turns."""
    monkeypatch.setattr(fj.config, "cpu", cpu)
    functions = [getattr(np, name) for name in TOGETHER[:count]]
    results = ", ".join(f"{f.__name__}({'x, y' if f.nin == 2 else 'xy'[i % 2]})" for i, f in enumerate(functions))
    scope = {f.__name__: f for f in functions}
    exec(f"def together(x, y):\n    return {results}, tanh(exp(x)) + sin(y)" if count > 2 else f"def together(x, y):\n    return {results}", scope)
    compiled = fj.jit(scope["together"], jit_level="O1", fullgraph=True)
    values = np.concatenate([samples(dtype)[::3], np.array(special(dtype), dtype)])
    x, y = values, np.roll(values, 7)
    rows = np.resize(values, (400, 11)), np.resize(y, (400, 11))
    for a, b in [(x, y), (rows[0][:, 1:], rows[1][:, :-1]), *((x[:n], y[:n]) for n in (1, 7, 8, 9, 15, 16, 17, 33))]:
        with np.errstate(all="ignore"):
            found = compiled(a, b)
            for i, function in enumerate(functions):
                one = marked(function)
                alone = one(a, b) if function.nin == 2 else one((a, b)[i % 2])
                assert np.array_equal(found[i].view(f"u{found[i].itemsize}"), alone.view(f"u{alone.itemsize}"))
    with np.errstate(all="ignore"):
        assert "loop tanh_exp" in fj.explain(compiled)(x, y).entries[0]["program"]
