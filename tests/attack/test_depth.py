"""Depth and size: small stacks, deep recursion, nested containers, long functions. What plain Python does, or its RecursionError."""

from __future__ import annotations

import numpy as np
import pytest

import framejit as fj
from attack.attack_support import run

pytestmark = pytest.mark.capture
X = np.arange(6.0)


@pytest.mark.parametrize("kilobytes", [512, 1024])
@pytest.mark.parametrize("how", ["fj.jit(f)", "fj.mark('__main__') and f"])
def test_recursion_on_a_small_stack(kilobytes, how):
    """At the default limit, and until Python says that it is too deep."""
    program = (
        "import numpy as np, framejit as fj, sys\n"
        "def f(x, n):\n    y = x * 2\n    return y if n == 0 else f(x, n - 1) + y\n"
        f"plain = f\nf = {how}\n"
        "x = np.arange(3.0)\n"
        "for n in (10, 200, 900): assert np.array_equal(f(x, n), x * 2 * (n + 1))\n"
        "try: f(x, 5000)\nexcept RecursionError: print('too deep')\n"
    )
    starter = f"import resource, os, sys\nresource.setrlimit(resource.RLIMIT_STACK, ({kilobytes} << 10, resource.RLIM_INFINITY))\nos.execv(sys.executable, [sys.executable, '-X', 'faulthandler', '-c', {program!r}])"
    assert run(starter).endswith("too deep\n")


@pytest.mark.parametrize("kilobytes", [128, 256])
def test_threads_with_small_stacks(kilobytes):
    run(
        f"""
import threading
import numpy as np
import framejit as fj
threading.stack_size({kilobytes} << 10)
x = np.arange(50_000.0)
failed = []
def f(x, n):
    return x * 2 if n == 0 else f(x, n - 1) + 1
def g(x):
    return {"(" * 40}x{" + 1)" * 40}
def work():
    if not np.array_equal(fj.jit(f)(x, 20), f(x, 20)) or not np.array_equal(fj.jit(g)(x), g(x)):
        failed.append(1)
for _ in range(3):
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
assert not failed
"""
    )


def nested(depth, kind):
    value = X
    for _ in range(depth):
        value = [value] if kind is list else (value,) if kind is tuple else {"k": value}
    return value


@pytest.mark.parametrize("kind", [list, tuple, dict])
@pytest.mark.parametrize("depth", [50, 1000, 10_000])
def test_nested_arguments(kind, depth):
    given = nested(depth, kind)

    def f(x, c):
        inner = c[0] if kind is not dict else c["k"]
        return x * 2 + len(inner)

    np.testing.assert_array_equal(fj.jit(f)(X, given), f(X, given))

    def down(c):
        while not isinstance(c, np.ndarray):
            c = c[0] if kind is not dict else c["k"]
        return c + 1

    np.testing.assert_array_equal(fj.jit(down)(given), X + 1)


def test_many_arguments_blocks_and_items():
    names = [f"a{i}" for i in range(255)]
    scope = {"np": np}
    exec(f"def f({', '.join(names)}): return {' + '.join(names)}", scope)
    arrays = [X + i for i in range(255)]
    np.testing.assert_array_equal(fj.jit(scope["f"])(*arrays), scope["f"](*arrays))
    lines, indent = ["def g(x):"], "    "
    for head in ["with np.errstate():", "try:", "for _ in range(1):"] * 6:
        lines.append(indent + head)
        indent += "    "
    lines.append(indent + "x = x * 2")
    for k in range(18)[::-1]:
        if k % 3 == 1:
            lines.append("    " * (k + 1) + "finally:\n" + "    " * (k + 2) + "x = x + 1")
    lines.append("    return x")
    exec("\n".join(lines), scope)
    np.testing.assert_array_equal(fj.jit(scope["g"])(X), scope["g"](X))
    many = tuple(range(1_000_000)), dict.fromkeys(range(300_000)), "s" * 3_000_000
    f = fj.jit(lambda x, t, d, s: x * len(t) + len(d) + len(s))
    for _ in range(3):
        np.testing.assert_array_equal(f(X, *many), X * 1_000_000 + 3_300_000)


def test_a_function_of_50_000_instructions():
    scope = {}
    exec("def f(x):\n" + "".join(f"    x = x + {i % 7}\n" for i in range(12_000)) + "    return x", scope)
    np.testing.assert_array_equal(fj.jit(scope["f"])(X), scope["f"](X))


def test_recursion_beyond_the_limit_is_pythons_error():
    def f(x, n):
        return f(x + 1, n + 1)

    for marked in (fj.jit(f), f):
        with pytest.raises(RecursionError):
            marked(X, 0)
    f = fj.jit(f)
    with pytest.raises(RecursionError):
        f(X, 0)
