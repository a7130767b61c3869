"""What is timed, and how each engine does it. Imported by the workers, one process per engine."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]
prange = range  # Numba's own is put in its place


def axpy(a, b, c):
    return a * b + c


def in_place(x, c, y):
    x *= c
    x += y
    return x


def chain(x, y):
    return np.where(x > y, np.sqrt(x * x + y * y), x - y) * 0.5


def bell(x):
    return np.exp(-x * x) * 2.0 + 1.0


def total(x):
    return x.sum()


def chosen(x):
    y = x.ravel()  # Numba chooses from one axis only
    return y[y > 1.0].sum()


def shrink(x):
    y = x.copy()
    while y.max() > 0.01:
        y *= 0.5
    return y


@dataclass(frozen=True)
class Case:
    """A function, its arguments for a size, and how many values it must at least move for an element."""

    name: str
    function: Callable[..., Any]
    make: Callable[[int, str], Arrays]
    streams: float
    expression: str = ""  # for numexpr
    forms: dict[str, Callable[..., Any]] = field(default_factory=dict)  # what an engine compiles in place of it
    tolerance: float = 0.0  # of the largest magnitude: engines that need not be exact may sum in another order
    by_element: bool = False  # a loop over elements, which JAX and torch.compile do not compile as it is written


def _arrays(count: int) -> Callable[[int, str], Arrays]:
    def make(n: int, dtype: str) -> Arrays:
        rng = np.random.default_rng(n)
        return tuple((rng.random(n) + 0.5).astype(dtype) for _ in range(count))

    return make


def _in_place_arguments(n: int, dtype: str) -> Arrays:
    # A factor of one and a summand of zero: the values stay in range however often it runs.
    x = np.random.default_rng(n).random(n).astype(dtype)
    return x, np.ones(n, dtype), np.zeros(n, dtype)


CASES = {
    case.name: case
    for case in (
        Case("a*b+c", axpy, _arrays(3), 4, "a*b+c"),
        Case("x *= c; x += y", in_place, _in_place_arguments, 4),
        Case("exp(-x*x)*2+1", bell, _arrays(1), 2, "exp(-x * x) * 2 + 1"),
        Case("sum", total, _arrays(1), 1),
        Case("x[x > 1].sum()", chosen, _arrays(1), 1),
        Case("while, in place", shrink, _arrays(1), 2),
        Case("where, sqrt", chain, _arrays(2), 3, "where(x > y, sqrt(x * x + y * y), x - y) * 0.5"),
    )
}


# Whole computations, which other compilers can express too.


def black_scholes(spot, strike, years):
    def normal(x):  # the normal distribution by Abramowitz and Stegun, 26.2.17
        t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
        poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
        tail = np.exp(-0.5 * x * x) * 0.3989422804014327 * poly
        return np.where(x >= 0, 1.0 - tail, tail)

    root = 0.3 * np.sqrt(years)
    d1 = (np.log(spot / strike) + (0.02 + 0.5 * 0.09) * years) / root
    d2 = d1 - root
    discounted = strike * np.exp(-0.02 * years)
    call = spot * normal(d1) - discounted * normal(d2)
    return call, call - spot + discounted


def waves(x, y, z, w):
    return np.sqrt(x * x + y * y) * np.sin(z) + np.exp(-w)


def masks(x):
    y = np.clip(np.where(x > 1.0, x * 2 - 2.5, 0.5 - x), -0.25, 0.75)
    return np.where((y > 0) & (x < 1.4), y * x, 0.0)


def moments(x):
    return x.mean(), x.var(), x.sum()


def moments_torch(x):
    return x.mean(), x.var(correction=0), x.sum()


def moments_loops(x):
    total = x.dtype.type(0)
    squares = x.dtype.type(0)
    for i in prange(x.size):
        total += x[i]
    mean = total / x.dtype.type(x.size)
    for i in prange(x.size):
        squares += (x[i] - mean) * (x[i] - mean)
    return mean, squares / x.dtype.type(x.size), total


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def softmax_torch(x):
    return np.softmax(x, 1)


def softmax_loops(x):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        largest = x[i, 0]
        for j in range(x.shape[1]):
            largest = max(largest, x[i, j])
        total = x.dtype.type(0)
        for j in range(x.shape[1]):
            out[i, j] = np.exp(x[i, j] - largest)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total
    return out


def layer_norm(x, gain, bias):
    centred = x - np.mean(x, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=1, keepdims=True) + 1e-5) * gain + bias


def layer_norm_torch(x, gain, bias):
    return np.nn.functional.layer_norm(x, (x.shape[1],), gain, bias, 1e-5)


def layer_norm_loops(x, gain, bias):
    out = np.empty_like(x)
    size = x.dtype.type(x.shape[1])
    for i in prange(x.shape[0]):
        total = x.dtype.type(0)
        squares = x.dtype.type(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / size
        for j in range(x.shape[1]):
            squares += (x[i, j] - mean) * (x[i, j] - mean)
        scale = x.dtype.type(1) / np.sqrt(squares / size + x.dtype.type(1e-5))
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * scale * gain[j] + bias[j]
    return out


def pixels(x):
    """Brightness and contrast in integers of 8 bits behind the point."""
    y = ((x - 128) * 307 >> 8) + 140
    y = np.clip(y, 0, 255)
    return np.where(y > 200, (y + 200) >> 1, y) ^ (x & 3)


def inverted(x):
    """A solarised picture: bright pixels turned around, some noise of the low bits."""
    return (np.where(x > 128, 255 - x, x) >> 1) + (x & 15)


def smoothed(x):
    """An exponential average: each element depends on the one before it."""
    y = np.empty_like(x)
    level = x[0]
    for i in range(x.size):
        level += (x[i] - level) * 0.1
        y[i] = level
    return y


def _rows(count: int) -> Callable[[int, str], Arrays]:
    """A square matrix and vectors as long as its rows."""

    def make(n: int, dtype: str) -> Arrays:
        side = round(n**0.5)
        x, *others = _arrays(1)(side * side, dtype) + _arrays(count)(side, dtype)
        return x.reshape(side, side), *others

    return make


def _integers(n: int, dtype: str) -> Arrays:
    return (np.random.default_rng(n).integers(0, 256, n).astype(dtype),)


ROWS = {
    case.name: case
    for case in (
        Case("a*b+c", axpy, _arrays(3), 4, "a*b+c", tolerance=1e-6),
        Case("Black-Scholes", black_scholes, _arrays(3), 5, tolerance=1e-5),
        Case(
            "sqrt(x²+y²)·sin z + exp(-w)",
            waves,
            _arrays(4),
            5,
            "sqrt(x * x + y * y) * sin(z) + exp(-w)",
            tolerance=1e-6,
        ),
        Case("where, clip, mask", masks, _arrays(1), 2, tolerance=1e-6),
        Case(
            "mean, var, sum",
            moments,
            _arrays(1),
            1,
            forms={"Numba": moments_loops, "torch": moments_torch},
            tolerance=1e-3,
        ),
        Case(
            "softmax of rows",
            softmax,
            _rows(0),
            2,
            forms={"Numba": softmax_loops, "torch": softmax_torch},
            tolerance=1e-5,
        ),
        Case(
            "layer norm of rows",
            layer_norm,
            _rows(2),
            2,
            forms={"Numba": layer_norm_loops, "torch": layer_norm_torch},
            tolerance=1e-5,
        ),
        Case("pixels", pixels, _integers, 2, tolerance=1e-9),
        Case("pixels, inverted", inverted, _integers, 2, tolerance=1e-9),
        Case("loop over elements", smoothed, _arrays(1), 2, tolerance=1e-6, by_element=True),
    )
}
# Each computation with its dtypes and sizes.
SIZES_OF_ROWS = [
    *[("a*b+c", dtype, size) for dtype in ("float32", "float64") for size in (10**3, 10**5, 10**7)],
    *[("Black-Scholes", dtype, size) for dtype in ("float32", "float64") for size in (10**3, 10**7)],
    *[("sqrt(x²+y²)·sin z + exp(-w)", "float64", size) for size in (10**3, 10**7)],
    *[("where, clip, mask", "float32", size) for size in (10**3, 10**7)],
    *[("mean, var, sum", "float32", size) for size in (10**3, 10**7)],
    *[("softmax of rows", "float32", size) for size in (2**10, 2**20)],
    *[("layer norm of rows", "float32", size) for size in (2**10, 2**20)],
    *[("pixels", "int32", size) for size in (10**3, 10**7)],
    *[("pixels, inverted", "uint8", size) for size in (10**3, 10**7)],
    ("loop over elements", "float64", 10**4),
]


def source_of(operators: int) -> str:
    """A function of that many elementwise operators, no two alike enough to be merged."""
    lines = ["def generated(x, y):"]
    for i in range(operators):
        left = "x" if i == 0 else f"v{i - 1}"
        lines.append(f"    v{i} = {left} {'+-*'[i % 3]} {'y' if i % 2 else f'{i + 1.5}'}")
    return "\n".join([*lines, f"    return v{operators - 1}", ""])


def with_names(function: Callable[..., Any], **names: Any) -> Callable[..., Any]:
    """The same code, in which these names are something else."""
    return types.FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__)


def numpy_engine(function: Callable[..., Any], case: Case | None, threads: int) -> Callable[..., Any]:
    return function


def framejit_engine(level: str) -> Callable[..., Any]:
    def compiled(function: Callable[..., Any], case: Case | None, threads: int) -> Callable[..., Any]:
        return importlib.import_module("framejit").jit(function, jit_level=level)

    return compiled


def numba_engine(function: Callable[..., Any], case: Case | None, threads: int) -> Callable[..., Any]:
    numba = importlib.import_module("numba")
    if case is not None and "Numba" in case.forms:
        return numba.njit(with_names(case.forms["Numba"], prange=numba.prange), parallel=threads > 1, fastmath=True)
    return numba.njit(function, parallel=case in ROWS.values() and threads > 1)


def numexpr_engine(function: Callable[..., Any], case: Case | None, threads: int) -> Callable[..., Any] | None:
    if case is None or not case.expression:
        return None
    numexpr = importlib.import_module("numexpr")
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    expression = case.expression
    return lambda *arrays: numexpr.evaluate(expression, dict(zip(names, arrays, strict=True)))


def jax_engine(function: Callable[..., Any], case: Case | None, threads: int) -> Callable[..., Any] | None:
    if case is None or case not in ROWS.values() or case.by_element:
        return None
    jax = importlib.import_module("jax")
    compiled = jax.jit(with_names(function, np=importlib.import_module("jax.numpy")))
    return lambda *arrays: jax.block_until_ready(compiled(*arrays))


def torch_engine(function: Callable[..., Any], case: Case | None, threads: int) -> Callable[..., Any] | None:
    if case is None or case not in ROWS.values() or case.by_element:
        return None
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    return torch.compile(with_names(case.forms.get("torch", function), np=torch), dynamic=False)


def to_jax(array: np.ndarray) -> Any:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(array)


def to_torch(array: np.ndarray) -> Any:
    return importlib.import_module("torch").from_numpy(array)


@dataclass(frozen=True)
class Engine:
    """What has to be installed, how a function is compiled, and the arrays that it works with."""

    module: str
    compile: Callable[[Callable[..., Any], Case | None, int], Callable[..., Any] | None]
    array: Callable[[np.ndarray], Any] = lambda array: array


ENGINES: dict[str, Engine] = {
    "NumPy": Engine("numpy", numpy_engine),
    "framejit O0": Engine("framejit", framejit_engine("O0")),
    "framejit O1": Engine("framejit", framejit_engine("O1")),
    "Numba": Engine("numba", numba_engine),
    "numexpr": Engine("numexpr", numexpr_engine),
    "JAX": Engine("jax", jax_engine, to_jax),
    "torch.compile": Engine("torch", torch_engine, to_torch),
}


def difference(expected: Any, got: Any, tolerance: float = 0.0) -> str:
    """'' for the same bits; else the largest difference in units in the last place, or what else is different."""
    if isinstance(expected, tuple):
        found = [difference(e, g, tolerance) for e, g in zip(expected, got, strict=True)]
        return next((text for text in found if text), "")
    if tolerance:
        got = np.asarray(got)
        error = np.max(np.abs(got.astype(np.float64) - expected)) / np.max(np.abs(expected))
        good = got.dtype == expected.dtype and got.shape == expected.shape and error <= tolerance
        return "" if good else f"{got.dtype}{got.shape}, {error:.1e}"
    if type(got) is not type(expected):
        return f"type {type(got).__name__}"
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype}{got.shape}"
    if np.array_equal(got.view(f"u{got.itemsize}"), expected.view(f"u{got.itemsize}")):
        return ""
    ulps = np.abs(got - expected) / np.spacing(np.maximum(np.abs(got), np.abs(expected)))
    return f"{float(np.max(ulps)):.1f} ulp"
