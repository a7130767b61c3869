"""What is marked goes to other processes as plain functions do, and is marked there."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import textwrap
import types

import pytest

import framejit as fj

cloudpickle = pytest.importorskip("cloudpickle")
pytestmark = pytest.mark.capture

# What a script, a prompt or a cell of a notebook has: a module __main__ that other processes cannot import.
DEFINITIONS = """
import pickle, sys
import cloudpickle
import numpy as np
import framejit as fj

OFFSET = 1

@fj.jit(jit_level="O1", dynamic=True)
def local(x):
    "Says what it does."
    return x * 2 + OFFSET
local.note = "kept"

def plain(x):
    return local(x) + 1

@fj.jit
def factorial(n):
    "Of n."
    return 1 if n <= 1 else n * factorial(n - 1)

class Model:
    @fj.jit(jit_level="O1")
    def __init__(self, factor):
        self.factor = factor
    @fj.jit(jit_level="O1")
    def method(self, x):
        return x * self.factor + (__class__ is type(self))
    @staticmethod
    @fj.jit(jit_level="O1")
    def static(x):
        return x - 1
    @classmethod
    @fj.jit(jit_level="O1")
    def of_class(cls, x):
        return x - len(cls.__name__)

def closure(factor):
    @fj.jit(jit_level="O1")
    def inner(x):
        return x * factor
    return inner

@fj.custom_op(shape=lambda shape: shape)
def ranks(x):
    return np.argsort(np.argsort(x)).astype(x.dtype)

@fj.jit(fullgraph=True)
def with_op(x):
    return ranks(x * 2) + 1
"""
LOAD = """
import pickle, sys
import numpy as np
from framejit._api._jit import is_compiled, settings_of
f = pickle.load(sys.stdin.buffer)
x = np.array([3.0, 1.0, 2.0])
def level(f):
    f = getattr(f, "__func__", f)
    return settings_of(f)["jit_level"] if is_compiled(f) else None
"""


def run(code, *arguments, stdin=None, fails=False, environment=()):
    """What a new interpreter writes that runs `code` as __main__; its errors, if it is to fail."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        input=stdin,
        capture_output=True,
        env={**os.environ, **dict(environment)},
        timeout=240,
    )
    assert (done.returncode != 0) == fails, done.stderr.decode()
    return done.stderr if fails else done.stdout


def pickled(expression, by=cloudpickle):
    return run(DEFINITIONS + f"sys.stdout.buffer.write({by.__name__}.dumps({expression}))")


@pytest.mark.parametrize(
    ("expression", "call", "level"),
    [
        ("local", "f(2.0) == 5.0 and list(f(x)) == [7, 3, 5] and f.note == 'kept'", "O1"),
        ("local", "f.__doc__ == 'Says what it does.' and settings_of(f)['dynamic']", "O1"),
        ("plain", "list(f(x)) == [8, 4, 6] and level(f.__globals__['local']) == 'O1'", None),
        ("factorial", "f(4) == 24 and f.__wrapped__.__globals__['factorial'] is f and f.__doc__ == 'Of n.'", "O0"),
        ("Model(3.0).method", "list(f(x)) == [10, 4, 7]", "O1"),
        ("Model", "level(f.method) == level(f.static) == level(f.of_class) == 'O1' and f(3.0).factor == 3.0", None),
        ("Model.method", "f.__qualname__ == 'Model.method'", "O1"),
        ("Model.static", "f(3) == 2", "O1"),
        ("Model.of_class", "f(6) == 1", "O1"),
        ("closure(3.0)", "list(f(x)) == [9, 3, 6] and f.__qualname__ == 'closure.<locals>.inner'", "O1"),
        ("closure", "level(f(2.0)) == 'O1' and f(2.0)(3.0) == 6.0", None),
        ("fj.jit(plain, jit_level='O1')", "list(f(x)) == [8, 4, 6]", "O1"),
        ("with_op", "list(f(x)) == [3, 1, 2]", "O0"),
    ],
)
def test_of_main_by_value(expression, call, level):
    run(LOAD + f"assert {call}, f\nassert level(f) == {level!r}, level(f)", stdin=pickled(expression))


def test_functions_for_c_by_value():
    again = pickle.loads(cloudpickle.dumps(fj.cfunc("double(double)")(lambda x: x * 3.0)))
    assert again.ctypes(2.0) == 6.0 and again.is_compiled and again.signature == "double(double)"


def test_plain_pickle_fails_as_for_functions():
    """It takes what is in __main__ by name; nothing of that name is there."""
    expected = run(LOAD, stdin=pickled("plain", pickle), fails=True).decode().splitlines()[-1]
    got = run(LOAD, stdin=pickled("local", pickle), fails=True).decode().splitlines()[-1]
    assert expected.startswith("AttributeError: ") and "'plain'" in expected and "'__main__'" in expected
    assert got == expected.replace("plain", "local")


@fj.jit(jit_level="O1")
def of_module(x):
    return x + 1


@fj.custom_op
def op_of_module(x):
    return x + 1


def test_of_modules_by_reference():
    for thing in (of_module, op_of_module):
        assert pickle.loads(pickle.dumps(thing)) is thing
        assert pickle.loads(cloudpickle.dumps(thing)) is thing


@pytest.mark.parametrize("registered", ["package", "package.module"])
def test_of_modules_that_cloudpickle_takes_by_value(monkeypatch, registered):
    package, module = types.ModuleType("package"), types.ModuleType("package.module")
    package.module = module
    monkeypatch.setitem(sys.modules, "package", package)
    monkeypatch.setitem(sys.modules, "package.module", module)
    exec("import framejit as fj\n@fj.jit\ndef f(x):\n    return x + 1\n", module.__dict__)
    assert pickle.loads(cloudpickle.dumps(module.f)) is module.f
    cloudpickle.register_pickle_by_value(sys.modules[registered])
    try:
        again = pickle.loads(cloudpickle.dumps(module.f))
        assert again is not module.f and again(1) == 2
        assert pickle.loads(pickle.dumps(module.f)) is module.f
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[registered])


@pytest.mark.parametrize("copy", [copy.copy, copy.deepcopy])
def test_copies_are_the_function_itself(copy):
    """As of functions: scikit-learn copies the parameters of an estimator in each fold of a cross-validation."""
    marks = (fj.jit, fj.cfunc("double(double)"), fj.custom_op)
    for thing in [of_module, op_of_module, *(mark(lambda x: x + 1.0) for mark in marks)]:
        assert copy(thing) is thing
    holder = copy({"f": fj.jit(lambda x: x + 1.0)})
    assert holder["f"](1.0) == 2.0


KEPT = """
import pickle, sys
import numpy as np
import framejit as fj
seen = []
for data in pickle.load(sys.stdin.buffer):
    f = pickle.loads(data)
    before = fj.stats()["kernels_compiled"]
    result = f(np.arange(4.0))
    seen.append((bool(fj.stats()["kernels_compiled"] > before), float(np.sum(result))))
print(seen)
"""


@pytest.mark.parametrize(
    ("definitions", "between", "expected"),
    [
        ("", "", [(True, 10.0), (False, 10.0)]),
        ("", "K = -0.0", [(True, 10.0), (True, 6.0)]),
        ("", "helper.__defaults__ = (2.0,)", [(True, 10.0), (True, 14.0)]),
        ("", "f = fj.jit(f.__wrapped__, jit_level='O1')", [(True, 10.0), (True, 10.0)]),
        ("K = np.ones(4)", "", [(True, 10.0), (True, 10.0)]),
        ("K = np.ones(4)", "K[0] = 5.0", [(True, 10.0), (True, 14.0)]),
        ("f = counted(0)", "", [(True, 10.0), (True, 10.0)]),
        ("f = counted(0)", "f(np.ones(4))", [(True, 10.0), (True, 14.0)]),
        ("f = closure(1.0)", "f = closure(2.0)", [(True, 6.0), (True, 12.0)]),
        ("f = closure(2.0)", "f = closure(2.0)", [(True, 12.0), (False, 12.0)]),
    ],
)
def test_what_comes_again_is_not_compiled_again(definitions, between, expected):
    """Unless something that it uses is another, or could be changed by it."""
    code = """
K = 1.0
def helper(x, y=1.0):
    return x * 1.0 + y * K
@fj.jit
def f(x):
    return helper(x)
def counted(count):
    @fj.jit
    def f(x):
        nonlocal count
        count += 1
        return x + count
    return f
"""
    dump = f"data = [cloudpickle.dumps(f)]\n{between}\ndata.append(cloudpickle.dumps(f))\n"
    data = run(DEFINITIONS + code + definitions + "\n" + dump + "sys.stdout.buffer.write(pickle.dumps(data))")
    assert run(KEPT, stdin=data).decode().strip() == str(expected)


def test_where_nothing_is_captured():
    """What was marked where functions are captured runs elsewhere, and the other way round."""
    for here, there in (("0", "1"), ("1", "0")):
        data = run(
            DEFINITIONS + "sys.stdout.buffer.write(cloudpickle.dumps([local, factorial]))",
            environment={"FRAMEJIT_DISABLE": here},
        )
        code = "import pickle, sys\nf, g = pickle.load(sys.stdin.buffer)\nassert f(2.0) == 5.0 and g(4) == 24"
        run(code, stdin=data, environment={"FRAMEJIT_DISABLE": there})


def test_joblib():
    run(
        DEFINITIONS
        + """
from joblib import Parallel, delayed
work = [local, plain, factorial, Model(3).method, Model.static, closure(3)]
parallel = Parallel(n_jobs=2)
assert parallel(delayed(f)(4) for f in work) == [f(4) for f in work]
assert parallel(delayed(fj.stats)() for _ in range(2))[0]["internal_errors"] == 0
"""
    )


def test_multiprocessing_spawn(tmp_path):
    """Of a script it imports the file again, and finds the functions by name."""
    script = tmp_path / "script.py"
    script.write_text(
        DEFINITIONS
        + textwrap.dedent("""
        import multiprocessing
        if __name__ == "__main__":
            model = Model(3)
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                for f in (local, plain, factorial, model.method, Model.static, Model.of_class):
                    assert pool.map(f, [8, 9]) == [f(8), f(9)], f
        """)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr.decode()


def test_pickles_come_to_rest():
    """Dask compares what it pickles again with what it had; loading a class by value changes it the first time."""
    run(
        DEFINITIONS
        + """
for thing in (Model(3), Model(3).method, local, closure(3)):
    pickles = []
    for _ in range(3):
        pickles.append(cloudpickle.dumps(thing))
        pickle.loads(pickles[-1])
    assert pickles[1] == pickles[2], thing
"""
    )


def test_dask():
    run(
        DEFINITIONS
        + """
from dask.distributed import Client, LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        for f in (local, plain, factorial, Model(3).method, Model.static, closure(3)):
            assert client.gather(client.map(f, [8, 9])) == [f(8), f(9)], f
"""
    )


def test_ray():
    pytest.importorskip("ray")
    run(
        DEFINITIONS
        + """
import ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
call = ray.remote(lambda f, x: f(x))
for f in (local, plain, factorial, Model(3).method, Model.static, closure(3)):
    assert ray.get(call.remote(f, 8)) == f(8), f
"""
    )
