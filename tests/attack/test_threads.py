"""Threads that cannot be started: kernels run on those that there are."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from attack.attack_support import run

pytestmark = pytest.mark.capture

# No more than so many threads of the process live beside the first.
LIMIT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
static atomic_int live, room = 1 << 20;
struct start { void *(*run)(void *); void *argument; };
static void *body(void *given) {
  struct start start = *(struct start *)given;
  free(given);
  void *result = start.run(start.argument);
  atomic_fetch_sub(&live, 1);
  return result;
}
void allow_threads(int n) { atomic_store(&room, n); }
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
  struct start *start = malloc(sizeof *start);
  *start = (struct start){run, argument};
  int error = atomic_fetch_add(&live, 1) >= atomic_load(&room) ? EAGAIN : create(thread, attributes, body, start);
  if (error) {
    free(start);
    atomic_fetch_sub(&live, 1);
  }
  return error;
}
"""

LIMITED = """
import ctypes, sys
import numpy as np, framejit as fj
allow_threads = ctypes.CDLL(None).allow_threads
f = fj.jit(lambda x: np.sqrt(x * 1.5 + 1.0) * np.sqrt(x + 2.0))
x = np.arange(300_000.0)
expected = np.sqrt(x * 1.5 + 1.0) * np.sqrt(x + 2.0)
def check(threads):
    fj.config.num_threads = threads
    for _ in range(5):
        assert (f(x) == expected).all()
threads, room = map(int, sys.argv[1:])
allow_threads(room)
check(threads)
check(threads + 2)
allow_threads(1000)
for n in (threads, threads + 1, 2):
    check(n)
assert fj.stats()["internal_errors"] == 0
"""

MEMORY = """
import resource, sys
import numpy as np, framejit as fj
fj.config.num_threads = 4
f = fj.jit(lambda x, out: np.add(np.sqrt(x * 1.5 + 1.0), np.sqrt(x + 2.0), out=out))
x = np.arange(300_000.0)
out, expected = np.empty_like(x), np.sqrt(x * 1.5 + 1.0) + np.sqrt(x + 2.0)
for n in (10, 20, 30):
    f(x[:n], out[:n])
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (int(sys.argv[1]) << 20), resource.RLIM_INFINITY))
try:
    f(x, out)
except MemoryError:
    pass
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for _ in range(5):
    f(x, out)
assert (out == expected).all()
"""

MANY = """
import os
import numpy as np, framejit as fj
f = fj.jit(lambda x: np.sqrt(x * 1.5 + 1.0))
x = np.arange(1_000_000.0)
for _ in range(3):
    assert (f(x) == np.sqrt(x * 1.5 + 1.0)).all()
assert 1 < len(os.listdir("/proc/self/task")) < 1000
"""


@pytest.fixture(scope="module")
def limit(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("limit")
    (folder / "limit.c").write_text(LIMIT)
    library = folder / "limit.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "limit.c", "-ldl"], check=True)
    return str(library)


@pytest.mark.not_sanitized(reason="the preloaded limit would take the place of AddressSanitizer")
@pytest.mark.parametrize("threads, room", [(2, 0), (4, 0), (4, 1), (4, 2), (4, 3), (8, 1), (8, 2), (8, 5), (8, 7)])
def test_threads_are_limited(limit, threads, room):
    run(LIMITED, str(threads), str(room), LD_PRELOAD=limit)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of Linux")
@pytest.mark.parametrize("megabytes", [3, 6, 9])
def test_memory_for_threads_runs_out(megabytes):
    run(MEMORY, str(megabytes))


@pytest.mark.parametrize("threads", ["60000", "100000"])
def test_more_threads_are_asked_for_than_there_can_be(threads):
    run(MANY, FRAMEJIT_NUM_THREADS=threads)
