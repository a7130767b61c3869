"""docs/numpy.md is right: typical calls of what it does not say to be left are compiled whole, in the way that it says."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import framejit
from exact.same import assert_same

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

import generate
from numpy_calls import LEFT, calls

SHOWN = generate.shows_these_libraries(generate.DOCS / "numpy.md")
pytestmark = pytest.mark.skipif(not SHOWN, reason="the page is about other versions of the libraries")


def call_of_ufunc(ufunc: np.ufunc) -> str:
    """Of the dtypes that it takes: floats, if there are such, else ints."""
    inputs = [types.split("->")[0] for types in ufunc.types]
    chosen = next((letter * ufunc.nin for letter in "dl?" if letter * ufunc.nin in inputs), inputs[-1])
    names = {"d": "x", "l": "n", "q": "n", "?": "m", "D": "z", "F": "z", "O": "x"}
    return f"{ufunc.__name__}({', '.join([names.get(letter, 'n') for letter in chosen])})"


def rows() -> list:
    """(way, expression) for each function that is not left to the library."""
    found = []
    for module in LEFT:
        known = calls(module)
        for name, function in generate.public_names(module).items():
            way = generate.numpy_way(module, name, function)
            if way in LEFT[module]:
                continue
            plain = isinstance(function, np.ufunc) and function.signature is None and name not in known
            call = call_of_ufunc(function) if plain else known[name]
            of = {"searchsorted": "v", "choose": "(n % 2)"}.get(name, "x")
            home = {"numpy.ndarray": of, "scipy.special": "special"}.get(module, module.replace("numpy", "np"))
            found.append(pytest.param(way, f"{home}.{call}", id=f"{module}.{name}"))
    return found


def arguments() -> tuple:
    rng = np.random.default_rng(0)
    x, v = rng.random((6, 8)), rng.random(40)
    k, i = rng.integers(0, 20, 30), rng.integers(0, 6, 10)
    return x, x[::-1] + 1, v, x[:4, :4] + 4 * np.eye(4), k, i, x > 0.5, (x * 9).astype(int), x + 1j


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("way", "call"), rows() if SHOWN else [])
def test_typical_call(way, call):
    scope: dict = {"np": np}
    if call.startswith("special."):
        from scipy import special

        scope["special"] = special
    exec(f"def function(x, y, v, a, k, i, m, n, z):\n    return {call}, x + 1\n", scope)
    function = scope["function"]
    with np.errstate(all="ignore"):
        explained = framejit.explain(function)(*arguments())
        assert not explained.breaks and len(explained.graphs) == 1, str(explained)
        graph = framejit.jit(function, fullgraph=True)
        graph(*arguments())
        assert not way.startswith("library") or "library_call" in "".join(graph.graphs())
    assert_same(function, arguments, {"all": "ignore"}, calls=2)


def test_every_reason_names_functions_that_there_are():
    for module, reasons in LEFT.items():
        names = generate.public_names(module)
        for reason, listed in reasons.items():
            assert listed == "*" or not set(listed.split()) - set(names), reason


def test_ufuncs_are_found_whatever_was_asked_before():
    """They are looked up by name until a function is met that is no ufunc; then all functions are listed."""
    program = """
import sys
import numpy as np
from framejit._core import _numpy_way
ufuncs = {name: f for name, f in vars(np).items() if isinstance(f, np.ufunc)}
if sys.argv[1] == "listed":
    _numpy_way(np.where)
print({name: _numpy_way(ufuncs[name]) for name in sys.argv[2:] or sorted(ufuncs)})
"""

    def ways(*arguments):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120, check=True
        )
        return ast.literal_eval(done.stdout)

    listed = ways("listed")
    assert listed["sqrt"][0] == "native"
    assert ways("asked") == listed
    native = [name for name, (way, _) in listed.items() if way in {"native", "loop"}]
    assert len(native) > 60
    for name in ("abs", "absolute", "divide", "true_divide", "sqrt", "maximum"):
        assert ways("asked", name, "add") == {name: listed[name], "add": listed["add"]}
    assert ways("asked", *native) == {name: listed[name] for name in native}
