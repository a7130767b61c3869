"""NumPy's functions and methods, given whatever: right and wrong arguments, by place and by keyword. The same result, or the same exception.

FRAMEJIT_TEST_CALLS: how many calls of each function; FRAMEJIT_TEST_SEED.
"""

from __future__ import annotations

import inspect
import itertools
import keyword
import os
import random
import re
import warnings

import framejit as fj
import numpy as np
import pytest

CALLS = int(os.environ.get("FRAMEJIT_TEST_CALLS", "8"))
SEED = int(os.environ.get("FRAMEJIT_TEST_SEED", "0"))
VALUES = (
    "a", "a[0]", "a[0, 0]", "a > 2", "a.astype(int)", "a.T", "0", "2.5", "1j", "True", "None", "'a'", "[]", "[1, 2]", "(a, a)", "[a, a[::-1]]",
    "(2, 3)", "{}", "np.float32", "1", "-1",
)  # fmt: skip
KEYWORDS = {
    "a", "x", "axis", "dtype", "out", "x1", "x2", "b", "shape", "order", "self", "object", "axis1", "axis2", "value", "index", "dst", "src",
    "arrays", "min", "max", "condition", "y", "start", "stop", "step", "keepdims", "copy",
}  # fmt: skip
# What has files, settings, random or uninitialized memory to show.
UNFIT = {
    "test", "show_config", "show_runtime", "info", "lookfor", "save", "savez", "savez_compressed", "savetxt", "load", "loadtxt", "genfromtxt",
    "fromfile", "memmap", "set_printoptions", "set_string_function", "seterrcall", "seterr", "seterrobj", "geterrobj", "setbufsize", "source",
    "who", "disp", "fromregex", "fromstring", "empty", "empty_like", "resize", "tofile", "dump", "dumps", "setflags", "setfield", "getbufsize", "add_newdoc", "add_docstring",
    "add_newdoc_ufunc", "deprecate", "deprecate_with_doc", "byte_bounds", "newbuffer", "getbuffer", "safe_eval", "recfromtxt", "recfromcsv", "ndfromtxt", "mafromtxt", "get_include",
    "fastCopyAndTranspose", "ndarray", "chararray", "recarray", "nditer", "nested_iters", "frompyfunc", "from_dlpack", "require",
}  # fmt: skip
A = np.arange(1.0, 7.0).reshape(2, 3)


def functions() -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [f"np.{k}" for k in dir(np) if callable(getattr(np, k, None)) and not isinstance(getattr(np, k), type)]
        found += [f"np.linalg.{k}" for k in dir(np.linalg) if callable(getattr(np.linalg, k)) and not isinstance(getattr(np.linalg, k), type)]
        found += [f"a.{k}" for k in dir(A) if callable(getattr(A, k))]
    return [name for name in found if name.rsplit(".", 1)[1] not in UNFIT and not name.rsplit(".", 1)[1].startswith("_")]


def keywords_of(function) -> list[str]:
    text = " ".join((getattr(function, "__doc__", None) or "").strip().split("\n")[:3])
    head = re.match(r"[\w.]+\(([^)]*)\)", text)
    names = {re.sub(r"[=:].*", "", part).strip(" *[]/") for part in head.group(1).split(",")} if head else set()
    try:
        names |= set(inspect.signature(function).parameters)
    except (ValueError, TypeError):
        pass
    taken = {"where", "args", "kwargs", "params"}  # without out=, where= leaves elements as they are
    return sorted(name for name in names | KEYWORDS if name.isidentifier() and not keyword.iskeyword(name) and name not in taken)


def calls_of(name: str) -> list[str]:
    rng = random.Random(f"{name} {SEED}")
    function = eval(name, {"np": np, "a": A})
    tuples = [(v,) for v in VALUES] + list(itertools.product(VALUES, VALUES))
    calls = [", ".join(rng.choice(tuples)) for _ in range(CALLS // 2)]
    names = keywords_of(function)
    for _ in range(CALLS - CALLS // 2):
        before = [rng.choice(VALUES) for _ in range(rng.randrange(3))]
        calls.append(", ".join([*before, f"{rng.choice(names)}={rng.choice(VALUES)}"]))
    return [f"{name}({call})" for call in calls]


def seen(value):
    if isinstance(value, tuple):
        return type(value).__name__, [seen(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        known = repr(value.tolist()) if value.dtype.hasobject else value.tobytes()
        return type(value), value.dtype, value.shape, value.strides, known
    return type(value), re.sub(r"0x[0-9a-f]+", "", repr(value))


def outcome(function):
    a = A.copy()
    try:
        result = seen(function(a))
    except Exception as error:  # noqa: BLE001
        result = type(error), re.sub(r"0x[0-9a-f]+", "", str(error))
    return result, a.tobytes()


@pytest.mark.parametrize("first", range(0, len(functions()), 40))
def test_calls(first):
    internal = fj.stats()["internal_errors"]
    different = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name in functions()[first : first + 40]:
            for call in calls_of(name):
                plain, marked = ({"np": np} for _ in range(2))
                for namespace in (plain, marked):
                    exec(f"def f(a):\n    return {call}\n", namespace)
                expected, got = outcome(plain["f"]), outcome(fj.jit(marked["f"]))
                if got != expected:
                    different.append((call, expected, got))
            fj.reset()
    assert not different
    assert fj.stats()["internal_errors"] == internal
