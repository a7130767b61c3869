"""Functions and operators of NumPy's scalars of each type in loops: the values, types, warnings and exceptions of the interpreter, by compiled loops."""

from __future__ import annotations

import linecache
import math

import numpy as np
import pytest

import framejit as fj
from forms_support import check_same, run

pytestmark = pytest.mark.capture

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.25, 1e-30, -1e30, 1e38, 2.0**24 + 1, -(2.0**53), 88.5, -104.0]
SPECIAL = [np.inf, -np.inf, np.nan]
INTEGERS = [0, 1, 2, 3, 5, 7, 100, 127]

FORMS = {
    "isnan": "np.isnan(v)",
    "isinf": "np.isinf(v)",
    "isfinite": "np.isfinite(v)",
    "math.isnan": "math.isnan(v)",
    "math.isfinite": "math.isfinite(v)",
    "sqrt": "np.sqrt(v)",
    "exp": "np.exp(v)",
    "log": "np.log(v)",
    "sin": "np.sin(v)",
    "tanh": "np.tanh(v)",
    "abs": "abs(v)",
    "absolute": "np.absolute(v)",
    "fabs": "np.fabs(v)",
    "sign": "np.sign(v)",
    "floor": "np.floor(v)",
    "ceil": "np.ceil(v)",
    "trunc": "np.trunc(v)",
    "rint": "np.rint(v)",
    "math.floor": "math.floor(v)",
    "math.ceil": "math.ceil(v)",
    "maximum": "np.maximum(v, k)",
    "minimum": "np.minimum(k, v)",
    "neighbours": "np.maximum(v, x[i - 1])",
    "copysign": "np.copysign(v, k)",
    "arctan2": "np.arctan2(v, k)",
    "float32": "np.float32(v)",
    "float64": "np.float64(v)",
    "scaled": "v * np.float32(0.3)",
    "divide": "v / k",
    "quotient of a number": "k / v",
    "remainder": "v % k",
    "floor_divide": "v // k",
    "remainder of a number": "k % v",
    "power": "v ** 1.75",
    "square": "v ** 2",
    "cube": "v ** 3",
    "less": "v < k",
    "equal": "k == v",
    "round": "round(float(v), 2)",
    "signbit": "np.signbit(v)",
}
DTYPES = ("float64", "float32", "int64", "int32", "int16", "int8", "uint8", "uint16")


def values_of(dtype, special):
    if dtype.startswith("float"):
        return np.array(FLOATS + (SPECIAL if special else []), dtype)
    info = np.iinfo(dtype)
    return np.array(INTEGERS + ([info.min, info.max, info.min + 1] if special else []), dtype)


def loop_of(form):
    source = f"def f(x, k):\n    out = []\n    for i in range(len(x)):\n        v = x[i]\n        out.append({FORMS[form]})\n    return out\n"
    name = f"<loop of {form}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"np": np, "math": math}
    exec(compile(source, name, "exec"), scope)
    return scope["f"]


@pytest.mark.filterwarnings("ignore::framejit.RecompileLimitWarning")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_values_types_and_warnings(form, dtype):
    function = loop_of(form)
    for k in (3, 2.5, np.dtype(dtype).type(3), 0, -1):
        marked = fj.jit(function)
        for special in (False, True):
            x = values_of(dtype, special)
            for errors in ("ignore", "warn", "raise"):
                with np.errstate(all=errors):
                    for array in (x, x[::-1], np.repeat(x, 3)):
                        check_same(run(function, (array, k)), run(marked, (array, k)), f"{form} of {dtype} and {k!r}")


@pytest.mark.parametrize("dtype", ("float64", "float32", "int64", "int32", "uint8"))
@pytest.mark.parametrize("form", FORMS)
def test_is_compiled(form, dtype):
    if dtype.startswith(("int", "uint")) and form not in (
        "isnan", "isinf", "isfinite", "math.isnan", "math.isfinite", "abs", "absolute", "sign", "maximum", "minimum",
        "neighbours", "divide", "quotient of a number", "remainder", "floor_divide", "remainder of a number", "square", "cube", "less", "equal", "round", "math.floor", "math.ceil", "float32", "float64",
    ):  # fmt: skip
        pytest.skip("gives another type, which depends on the version of NumPy")
    marked = fj.jit(loop_of(form))
    x = np.array([1, 2, 3, 4, 5] * 8, dtype)
    for _ in range(3):
        marked(x, 3)
    assert any("loop depth 1" in entry["graph"] for entry in marked._report()["entries"]), str(fj.explain(marked)(x, 3))
