"""What is compiled is replaced, or what it works on changes its memory, while it runs."""

from __future__ import annotations

import pytest
from attack.attack_support import run

pytestmark = pytest.mark.capture

CODE_OF_ANOTHER_THREAD = """
import threading, time
import numpy as np, framejit as fj
fj.config.num_threads = 1
def body(k):
    names = {"np": np}
    lines = "".join(f"    y = np.sqrt(y * {k + i}.5 + 1.0)\\n" for i in range(40))
    exec("def f(x):\\n    y = x\\n" + lines + "    return y\\n", names)
    return names["f"]
x = np.ones(300_000)
f = fj.jit(body(0))
bodies = [body(k) for k in range(6)]
expected = {b(x[:1])[0] for b in bodies}
f(x)
running, wrong = True, []
def call():
    while running:
        result = f(x)
        if result[0] not in expected or (result != result[0]).any():
            wrong.append(result)
thread = threading.Thread(target=call)
thread.start()
for n in range(30):
    f.__code__ = bodies[n % 6].__code__
    f(x[:8])
    fj.jit(body(100 + n))(x[:8])
    time.sleep(0.005)
running = False
thread.join()
assert not wrong
"""

CODE_OF_AN_OPERATOR = """
import numpy as np, framejit as fj
def body(text):
    names = {"np": np, "op": op}
    exec("def f(x):\\n    " + text, names)
    return names["f"]
armed = False
@fj.custom_op
def op(x):
    global armed
    if armed:
        armed = False
        change()
    return x * 2
f = fj.jit(body("y = op(x + 1); return np.sin(y) + y * 2"))
def change():
    CHANGE
    f(x)
    for n in range(40):
        fj.jit(body(f"return np.sqrt(x * {n}.5) + {n}"))(x)
x = np.arange(8.0)
expected = f(x)
for _ in range(3):
    armed = True
    assert (f(x) == expected).all()
    f.__code__ = body("y = op(x + 1); return np.sin(y) + y * 2").__code__
    f(x)
"""

MEMORY_OF_AN_ARGUMENT = """
import gc
import numpy as np, framejit as fj
f = fj.jit(lambda x: (x + 1, lambda: x, lambda: x, lambda: x))
x = np.arange(1_000_000.0)
f(x), f(x)
armed = False
def shrink(phase, info):
    global armed
    if armed and phase == "start":
        armed = False
        x.resize(10, refcheck=False)
gc.callbacks.append(shrink)
gc.collect()
gc.set_threshold(1)
armed = True
f(x)
kept = [(lambda: n) for n in range(10)]
gc.collect()
assert not armed and len(x) == 10 and gc.isenabled()
assert f(x)[0].tolist() == [n + 1.0 for n in range(10)]
"""


def test_code_is_replaced_in_another_thread():
    run(CODE_OF_ANOTHER_THREAD)


@pytest.mark.parametrize(
    "change",
    [
        "f.__code__ = body('return np.cos(x) * 3 + x').__code__",
        "f.__code__ = body('return np.cos(x) * 3 + x').__code__; f.cache_clear(); __import__('gc').collect()",
    ],
)
def test_an_operator_replaces_what_calls_it(change):
    run(CODE_OF_AN_OPERATOR.replace("CHANGE", change))


def test_an_argument_is_resized_where_objects_are_made():
    run(MEMORY_OF_AN_ARGUMENT)
