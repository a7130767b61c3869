"""Processes that fork, end and are killed while marked functions run in them."""

from __future__ import annotations

import multiprocessing
import sys

import pytest
from attack.attack_support import run

pytestmark = pytest.mark.capture

START = """
import os, sys, threading, time
import numpy as np
import framejit as fj

fj.config.num_threads = 2
X = np.linspace(0.1, 2.0, 400_000)

def kernel(k):
    def f(x):
        return np.sqrt(x * k + 1) - x / (k + 1)
    return f

def check(first, count):
    for k in range(first, first + count):
        f = kernel(k)
        if not np.array_equal(fj.jit(f)(X), f(X)):
            print("wrong", k, flush=True)
            os._exit(3)

def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(4)
        os._exit(0)
    return pid

def wait(*pids):
    for pid in pids:
        limit = time.monotonic() + 40
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() > limit:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                sys.exit("a child hangs")
            time.sleep(0.01)
        if status:
            sys.exit(f"a child ended with {status}")
"""


def test_fork_after_parallel_kernels():
    """The child runs what was compiled and compiles more, so does its own child, and so does the parent meanwhile."""
    run(START + "check(0, 5)\npid = child(lambda: (check(0, 20), wait(child(lambda: check(10, 20)))))\ncheck(5, 20)\nwait(pid)")


def test_fork_from_a_thread_while_another_is_in_a_kernel():
    run(
        START
        + """
stop = []
busy = fj.jit(kernel(1))
def work():
    while not stop:
        busy(X)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
def forks():
    for k in range(5):
        wait(child(lambda: check(k, 4)))
forking = threading.Thread(target=forks)
forking.start()
forking.join()
stop.append(1)
for thread in threads: thread.join()
"""
    )


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_pools(method, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        START
        + f"""
def task(k):
    check(k, 3)
    return k

if __name__ == "__main__":
    import multiprocessing
    check(0, 3)
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(sum(pool.map(task, range(4))))
"""
    )
    starter = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, {str(program)!r}]).returncode)"
    assert run(starter).endswith("6\n")


@pytest.mark.parametrize("work", ["np.sqrt(x * x + 1) - x / 3", "x.reshape(-1, 100) @ y", "(x + 1).sum()", "np.maximum.accumulate(x)"])
def test_daemon_threads_are_in_kernels_at_the_end(work):
    """The process ends, in whatever they are.

    BLAS has one thread: OpenBLAS waits at times for ever for a thread of its own when a process ends in a product, also
    without framejit.
    """
    for wait in (0.0, 0.02, 0.2):
        run(
            "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'\n"
            + START
            + f"""
y = np.ones((100, 100))
f = fj.jit(lambda x: {work})
f(X)
def work():
    while True:
        f(X)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep({wait})
"""
        )


def test_marked_functions_are_called_while_the_interpreter_ends():
    """By atexit, finalizers, weakref callbacks and gc callbacks, after modules were torn down too."""
    out = run(
        START
        + """
import atexit, gc, weakref
f = fj.jit(kernel(2))
expected = kernel(2)(X)
same = lambda a, b: a.tobytes() == b.tobytes()  # imports nothing
def call(who, f=f, x=X, expected=expected, same=same, write=os.write):
    write(1, f"{who} {same(f(x), expected)}\\n".encode())
class Last:
    def __del__(self, call=call):
        call("finalizer")
class Cycle:
    pass
cycle = Cycle()
cycle.itself, cycle.last = cycle, Last()
f(X)
atexit.register(call, "atexit")
other = Cycle()
reference = weakref.ref(other, lambda _: call("weakref"))
del cycle, other
gc.callbacks.append(lambda phase, info: f(X[:10]))
gc.collect()
"""
    )
    assert "finalizer True" in out and "atexit True" in out and "weakref True" in out and "False" not in out


@pytest.mark.skipif(sys.version_info < (3, 12), reason="subinterpreters share the lock of the process before 3.12, and are tested there by name only")
def test_subinterpreters_are_refused():
    out = run(
        START
        + """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
which = interpreters.create()
code = "import sys\\nsys.path[:0] = " + repr(sys.path) + "\\ntry:\\n    import framejit\\nexcept ImportError as error:\\n    print('refused', flush=True)\\nelse:\\n    print('taken', flush=True)"
try:
    interpreters.run_string(which, code)
except Exception as error:
    print("refused", error)
check(0, 3)
"""
    )
    assert "refused" in out
