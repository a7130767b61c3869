"""Captures in the disk cache: a second process runs what the first one has compiled without capturing it, as long as nothing has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [
    pytest.mark.capture,
    pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.2.0", reason="captures are kept from NumPy 2.2 on"),
]

START = """
import json, sys
import numpy as np
import framejit as fj

X, Y = np.linspace(0.1, 1.0, 30), np.linspace(0.2, 3.0, 30)
"""

END = """
def flat(v):
    if isinstance(v, dict):
        return [[k, flat(w)] for k, w in v.items()]
    if isinstance(v, (list, tuple)):
        return [type(v).__name__, [flat(w) for w in v]]
    a = np.asarray(v)
    if a.dtype == object:
        return [type(v).__name__, a.tolist()]
    return [type(v).__name__, a.dtype.str, a.shape, a.strides, a.tobytes().hex()]

def outcome(f):
    try:
        return flat(f(*arguments()))
    except Exception as error:
        return [type(error).__name__, str(error)]

g = marked.__wrapped__
compiled = outcome(marked)
stats = fj.stats()
captured = stats["capture_steps"]
plain = outcome(g)
print(json.dumps({"compiled": compiled, "plain": plain, "captured": captured, "errors": stats["internal_errors"],
                  "frames": stats["frames_captured"], "graphs": marked.graphs(), "loops": stats["kernel_calls"]}))
"""


def run(folder: Path, body: str, **files: str) -> dict[str, Any]:
    """A new process whose program is at the same place each time."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    program = folder / "program.py"
    program.write_text(START + body + END)
    env = os.environ | {"FRAMEJIT_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["compiled"] == found["plain"]
    assert found["errors"] == 0
    return found


# What is kept: each defines `marked` and `arguments`.
KEPT = {
    "operations": """
@fj.jit
def marked(x, y): return np.sqrt(x * x + y) - 2.5 * y
def arguments(): return X, Y
""",
    "reductions, methods of arrays and keywords": """
@fj.jit
def marked(a, b):
    c = a @ b
    e = np.exp(c - c.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True), e.mean(), c.T
def arguments(): return np.outer(X, Y), np.outer(Y, X)
""",
    "functions of NumPy in Python": """
@fj.jit
def marked(x, y): return np.clip(np.where(x > 0.5, x, y), 0.2, 0.9), np.roll(x, 3), np.linalg.norm(y)
def arguments(): return X, Y
""",
    "a helper, a constant and a default": """
SCALE = 2.75
def helper(v, shift=0.5): return v * SCALE + shift
@fj.jit
def marked(x, *, power=2): return helper(x) ** power + helper(x, 1.5)
def arguments(): return (X,)
""",
    "a marked helper": """
@fj.jit
def helper(v): return v * 3.0 + 1.0
@fj.jit
def marked(x): return helper(x) - helper(x + 1.0)
def arguments(): return (X,)
""",
    "methods, class and instance attributes": """
class Base:
    scale = 1.25
    def shifted(self, x): return x + self.shift
class Model(Base):
    def __init__(self): self.shift, self.weights = 0.75, np.arange(30.0)
    @property
    def twice(self): return self.shift * 2.0
    @staticmethod
    def square(x): return x * x
    def __call__(self, x): return self.square(self.shifted(x)) * self.weights * self.scale + self.twice
model = Model()
@fj.jit
def marked(m, x): return m(x)
def arguments(): return model, X
""",
    "a closure": """
def make(scale, table):
    @fj.jit
    def marked(x): return x * scale + table
    return marked
marked = make(1.5, Y)
def arguments(): return (X,)
""",
    "containers in and out": """
@fj.jit
def marked(parts, names): return {"sum": parts[0] + parts[1], "items": [parts[0] * 2.0, names["y"] - 1.0]}, (parts[1] > 1.0, 7, "end")
def arguments(): return [X, Y], {"y": Y}
""",
    "writes": """
@fj.jit
def marked(x, out, log):
    out[1:] = x[1:] * 2.0
    x += 1.0
    log.append(x.sum())
    return out, x, log
def arguments(): return X.copy(), Y.copy(), []
""",
    "a module": """
import other
@fj.jit
def marked(x): return other.scaled(x) + other.SHIFT
def arguments(): return (X,)
""",
    "a loop over elements": """
@fj.jit
def marked(x, y):
    total = 0.0
    for i in range(len(x)):
        if x[i] > y[i]: total += x[i] * 2.0
        else: total -= y[i]
    return total
def arguments(): return np.tile(X, 100), np.tile(Y[::-1], 100)
""",
    "operations, then a loop that writes, then operations": """
@fj.jit
def marked(x):
    z = np.sqrt(x * x + 1.0) - x
    out = np.empty_like(x)
    level = 0.0
    for i in range(len(z)):
        level = 0.9 * level + z[i]
        out[i] = level
    return np.maximum(out, z) * 2.0 - x
def arguments(): return (np.tile(X, 100),)
""",
}
OTHER = "SHIFT = 2.0\ndef scaled(x): return x * 1.5 - SHIFT\n"


@pytest.mark.parametrize("name", KEPT)
def test_nothing_is_captured_again(name, tmp_path):
    first = run(tmp_path, KEPT[name], other=OTHER)
    assert first["captured"] > 0
    second = run(tmp_path, KEPT[name], other=OTHER)
    assert second["captured"] == 0
    assert second["graphs"] == first["graphs"]
    assert len(second["graphs"]) > 0
    assert (second["compiled"], second["frames"]) == (first["compiled"], first["frames"])


# Loops that call what captures look up, such as loops of NumPy's: another process has to look it up, too.
LOOKED_UP = {
    "sums and extrema of rows": """
    for i in range(len(a)):
        out[i] = a[i].sum() + a[i].max() - np.min(a[i])
""",
    "products of vectors": """
    for i in range(len(a)):
        out[i] = np.dot(a[i], a[0]) + a[i] @ a[1]
""",
    "small matrices": """
    for i in range(4):
        b = a[:4, :4] @ a[4:8, :4]
        out[i] = (b + a[:4, :4])[i, 1]
""",
    "complex matrices": """
    c = a[:3, :3] * 1j
    for i in range(3):
        out[i] = abs((c @ c)[i, 0])
""",
    "functions of numbers": """
    for i in range(len(a)):
        out[i] = np.cbrt(a[i, 0]) + np.hypot(a[i, 1], 0.5) + (1.0 if np.isfinite(a[i, 2]) else 0.0)
""",
    "draws": """
    r = np.random.default_rng(3)
    for i in range(len(a)):
        out[i] = r.random() + random.Random(2).random()
""",
    "lists and tuples": """
    made = []
    for i in range(len(a)):
        made.append((i, a[i, 0]))
        out[i] = max([a[i, 1], 0.25]) + sorted([3.0, a[i, 2]])[0]
    out[0] = len(made)
""",
}


@pytest.mark.parametrize("name", LOOKED_UP)
def test_loops_that_call_what_captures_look_up(name, tmp_path):
    body = f"import random\n@fj.jit\ndef marked(a, out):{LOOKED_UP[name]}    return out\ndef arguments(): return np.outer(X, Y), np.zeros(30)\n"
    first = run(tmp_path, body)
    second = run(tmp_path, body)
    assert second["compiled"] == first["compiled"]


# What may change between two processes: a case of KEPT, what is replaced in it, and by what.
CHANGES = {
    "the function": ("operations", "2.5 * y", "2.25 * y"),
    "a helper": ("a helper, a constant and a default", "v * SCALE + shift", "v * SCALE - shift"),
    "a constant": ("a helper, a constant and a default", "SCALE = 2.75", "SCALE = 2.5"),
    "the type of a constant": ("a helper, a constant and a default", "SCALE = 2.75", "SCALE = 3"),
    "a default": ("a helper, a constant and a default", "shift=0.5", "shift=0.25"),
    "a keyword default": ("a helper, a constant and a default", "power=2", "power=3"),
    "a marked helper": ("a marked helper", "v * 3.0", "v * 4.0"),
    "a marked helper that is none": ("a marked helper", "@fj.jit\ndef helper(v): return v", "def helper(v): return -v"),
    "a method": ("methods, class and instance attributes", "return x + self.shift", "return x - self.shift"),
    "a static method": ("methods, class and instance attributes", "return x * x", "return x * x * x"),
    "a property": ("methods, class and instance attributes", "self.shift * 2.0", "self.shift * 3.0"),
    "a class attribute": ("methods, class and instance attributes", "scale = 1.25", "scale = 1.5"),
    "an instance attribute": ("methods, class and instance attributes", "self.shift, self.weights = 0.75", "self.shift, self.weights = 0.5"),
    "a class that computes attributes": (
        "methods, class and instance attributes",
        "class Base:",
        "class Base:\n    def __getattribute__(self, name):\n        v = object.__getattribute__(self, name)\n        return v + 1.0 if name == 'shift' else v",
    ),
    "an instance attribute in front of a class attribute": ("methods, class and instance attributes", "model = Model()", "model = Model(); model.scale = 3.0"),
    "a base class": ("methods, class and instance attributes", "class Model(Base):", "class Model(Base):\n    def shifted(self, x): return x * 5.0"),
    "a variable of a closure": ("a closure", "make(1.5, Y)", "make(1.75, Y)"),
    "the type of a variable of a closure": ("a closure", "make(1.5, Y)", "make(X, Y)"),
    "a dtype": ("operations", "return X, Y", "return X.astype(np.float32), Y"),
    "a shape": ("operations", "return X, Y", "return X[:7], Y[:7]"),
    "strides": ("operations", "return X, Y", "return X[::-1], Y"),
    "a container": ("containers in and out", "return [X, Y]", "return (X, Y)"),
    "a missing item": ("containers in and out", '{"y": Y}', '{"z": Y}'),
    "memory that is shared": ("writes", "return X.copy(), Y.copy(), []", "v = X.copy(); return v[:-1], v[1:], []"),
    "memory that is not to be written": ("writes", "return X.copy()", "v = X.copy(); v.flags.writeable = False; return v"),
    "a function of NumPy": ("operations", "def arguments", "np.sqrt = np.cbrt\ndef arguments"),
    "a function of NumPy in Python": ("operations", "def arguments", "np.sqrt = lambda v: v - 1.0\ndef arguments"),
    "a function with the name of one of NumPy's": (
        "operations", "def arguments", "np.sqrt = np.frompyfunc(lambda v: v - 1.0, 1, 1)\ndef arguments",
    ),
    "a function of another library with the name of one of NumPy's": (
        "operations", "def arguments", "import scipy.special\nnp.sqrt = scipy.special.cbrt\ndef arguments",
    ),
    "two functions of NumPy that change places": (
        "operations", "def arguments", "np.sqrt, np.cbrt = np.cbrt, np.sqrt\ndef arguments",
    ),
    "a global that hides a builtin": ("a loop over elements", "def arguments", "def len(x): return 7\ndef arguments"),
    "a range": ("a loop over elements", "range(len(x))", "range(1, len(x))"),
    "the types of a loop": ("a loop over elements", "return np.tile(X, 100)", "return np.tile(X, 100).astype(np.float32)"),
    "a list in place of an array": ("a loop over elements", "return np.tile(X, 100)", "return np.tile(X, 100).tolist()"),
    "a number of the loop": ("operations, then a loop that writes, then operations", "0.9 * level", "0.8 * level"),
}  # fmt: skip


# What a run reads anew, so that nothing has to be captured for it.
NOT_GUARDED = {"a variable of a closure", "a global that hides a builtin", "an instance attribute"}


@pytest.mark.parametrize("name", CHANGES)
def test_changed(name, tmp_path):
    case, old, new = CHANGES[name]
    assert old in KEPT[case]
    run(tmp_path, KEPT[case], other=OTHER)
    changed = KEPT[case].replace(old, new)
    captured = run(tmp_path, changed, other=OTHER)["captured"]
    assert captured > 0 or name in NOT_GUARDED
    # What was there before is found again, or captured again if there is room for one of them only.
    run(tmp_path, KEPT[case], other=OTHER)
    run(tmp_path, changed, other=OTHER)


@pytest.mark.parametrize(("old", "new"), [("SHIFT = 2.0", "SHIFT = 3.0"), ("x * 1.5", "x * 2.5"), ("def scaled(x)", "def scaled(x, y=1)")])
def test_changed_module(old, new, tmp_path):
    run(tmp_path, KEPT["a module"], other=OTHER)
    assert run(tmp_path, KEPT["a module"], other=OTHER.replace(old, new))["captured"] > 0


def test_functions_of_two_libraries_with_one_name(tmp_path):
    """NumPy and SciPy have a log1p each."""
    pytest.importorskip("scipy")
    body = """
import scipy.special
@fj.jit
def marked(x): return np.log1p(x) * 2.0
def arguments(): return (X - 5.0,)
"""
    run(tmp_path, body)
    assert run(tmp_path, body)["captured"] == 0
    assert run(tmp_path, body + "np.log1p = scipy.special.log1p")["captured"] > 0


def test_objects_that_the_program_sees(tmp_path):
    """Constants are the program's own objects, not equal ones."""
    body = """
@fj.jit
def marked(x): return x + 1.0, "some text with blanks", 123456789, 2.5, (1, "two")
def arguments(): return (X,)
for _ in range(2):
    assert all(any(item is constant for constant in marked.__wrapped__.__code__.co_consts) for item in marked(X)[1:])
"""
    run(tmp_path, body)
    run(tmp_path, body)


def test_objects_that_only_this_process_has(tmp_path):
    """What a file cannot describe is captured in each process, with the answer of plain Python."""
    body = """
class Meta(type):
    def __call__(cls, *a): return super().__call__(*a)
class Thing(metaclass=Meta):
    def scaled(self, x): return x * 2.0
thing = Thing()
@fj.jit
def marked(x): return thing.scaled(x) + 1.0
def arguments(): return (X,)
"""
    assert run(tmp_path, body)["captured"] > 0
    assert run(tmp_path, body)["captured"] > 0


def test_warnings_and_errors(tmp_path):
    """Warnings of the operations have their text and place, also from the file."""
    body = """
import warnings
@fj.jit
def marked(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = divided(x)
    return y, [(str(w.message), w.lineno, w.filename.endswith("program.py")) for w in caught]
@fj.jit
def divided(x): return np.log(x) / x
marked = type("F", (), {"__wrapped__": staticmethod(lambda x: marked_plain(x)), "__call__": lambda s, x: marked_jit(x), "graphs": lambda s: divided.graphs()})()
def with_warnings(f):
    def call(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = f(x)
        return y, [(str(w.message), w.lineno, w.filename.endswith("program.py")) for w in caught]
    return call
marked_jit, marked_plain = with_warnings(divided), with_warnings(divided.__wrapped__)
def arguments(): return (np.array([0.0, -1.0, 2.0]),)
"""
    first = run(tmp_path, body)
    second = run(tmp_path, body)
    assert first["captured"] > 0 == second["captured"]
    assert second["compiled"] == first["compiled"]
    assert len(second["compiled"][1][1][1]) > 0


def test_breaks_are_told(tmp_path):
    """A function that is not captured as a whole has the same breaks in its report, also where nothing is captured again."""
    body = """
import contextlib, io
@fj.jit
def marked(x):
    y = x * 2.0 + 1.0
    with contextlib.redirect_stdout(io.StringIO()): pass
    print("break", file=sys.stderr)
    return y - 1.0
def arguments(): return (X,)
marked(X)
print([(b["id"], b["line"]) for b in fj.explain(marked)(X).breaks], file=open(sys.argv[0] + ".txt", "a"))
"""
    run(tmp_path, body)
    run(tmp_path, body)
    first, second = (tmp_path / "program.py.txt").read_text().splitlines()
    assert first == second != "[]"


SWITCH = """
VERBOSE, LOOPS = True, False
@fj.jit
def marked(x):
    if VERBOSE: print("at work", file=sys.stderr)
    if LOOPS:
        for i in range(len(x)): x[i] = x[i] * 2.0 if x[i] > 0.5 else x[i]
    return np.sqrt(x * x + 1.0) - x
def arguments(): return (np.tile(X, 100),)
"""


@pytest.mark.parametrize("before", ["True, False", "False, True", "True, True"])
def test_a_path_with_a_break_is_not_remembered_for_others(before, tmp_path):
    """A call that broke, or came to a loop, in one process is one graph in the next one, where it takes another way."""
    run(tmp_path, SWITCH.replace("True, False", before))
    found = run(tmp_path, SWITCH.replace("True, False", "False, False"))
    assert len(found["graphs"]) > 0
    assert run(tmp_path, SWITCH.replace("True, False", before))["captured"] >= 0


def test_switched_off(tmp_path):
    """What is disabled is not inlined from a file."""
    case = KEPT["a helper, a constant and a default"]
    run(tmp_path, case)
    found = run(tmp_path, case.replace("@fj.jit", "helper = fj.disable(helper)\n@fj.jit"))
    assert found["captured"] > 0


DESCRIPTOR = """
class Plain:
    pass
class Holder:
    part = Plain()
holder = Holder()
@fj.jit
def marked(h, x): return x * 2.0 + (1.0 if isinstance(h.part, Plain) else h.part)
def arguments(): return holder, X
"""


def test_class_attribute_that_becomes_a_descriptor(tmp_path):
    run(tmp_path, DESCRIPTOR)
    run(tmp_path, DESCRIPTOR.replace("    pass", "    def __get__(self, of, cls): return 7.0"))
