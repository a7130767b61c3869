"""Kernels keep to the number of threads that programs, pools of processes and threadpoolctl allow."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import framejit as fj

pytestmark = pytest.mark.capture
CPUS = len(os.sched_getaffinity(0))

# How many threads there are beside those that NumPy has started, once a kernel has run that is worth splitting.
MORE_THREADS = """
import os
import numpy as np
import framejit as fj
before = len(os.listdir("/proc/self/task"))
f = fj.jit(lambda x: np.exp(x) * x + 1)
for _ in range(3):
    f(np.ones(4_000_000))
assert fj.stats()["kernel_calls"] == 3
print(fj.get_num_threads(), len(os.listdir("/proc/self/task")) - before)
"""


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_openmp_gives_the_budget():
    assert run(MORE_THREADS, OMP_NUM_THREADS="1") == ["1", "0"]


@pytest.mark.skipif(CPUS < 2, reason="needs two CPUs")
def test_an_own_setting_comes_before_openmp():
    assert run(MORE_THREADS, OMP_NUM_THREADS="1", FRAMEJIT_NUM_THREADS="2") == ["2", "1"]


@pytest.fixture
def automatic():
    fj.set_num_threads(0)
    yield fj.get_num_threads()
    fj.set_num_threads(0)


def test_setting_the_number(automatic):
    assert automatic >= 1
    fj.set_num_threads(3)
    assert fj.get_num_threads() == fj.config.num_threads == 3
    fj.set_num_threads(0)
    assert fj.get_num_threads() == automatic


@pytest.mark.parametrize(("value", "error"), [(-1, ValueError), ("2", TypeError), (1.0, TypeError), (True, TypeError)])
def test_numbers_that_cannot_be(value, error):
    with pytest.raises(error, match="num_threads"):
        fj.set_num_threads(value)


def test_threadpoolctl(automatic):
    threadpoolctl = pytest.importorskip("threadpoolctl", minversion="3.2")
    (row,) = [row for row in threadpoolctl.threadpool_info() if row["user_api"] == "framejit"]
    assert row["num_threads"] == automatic and row["version"] == fj.__version__
    for limits in ({"limits": 5}, {"limits": 5, "user_api": "framejit"}, {"limits": {"framejit": 5}}):
        with threadpoolctl.threadpool_limits(**limits):
            assert fj.get_num_threads() == fj.config.num_threads == 5
        assert fj.get_num_threads() == automatic
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        assert fj.get_num_threads() == automatic


@pytest.mark.parametrize("first", ["threadpoolctl", "framejit"])
def test_threadpoolctl_in_any_order(first):
    pytest.importorskip("threadpoolctl", minversion="3.2")
    code = f"""
    import {first}, framejit, sys, threadpoolctl
    with threadpoolctl.threadpool_limits(1):
        print(framejit.get_num_threads(), type(threadpoolctl.__loader__).__name__, len(sys.meta_path) - finders)
    """
    finders = "import sys; finders = len(sys.meta_path) + 1\n"  # with that of names that have moved
    assert run(finders + textwrap.dedent(code)) == ["1", "SourceFileLoader", "0"]


def test_threadpoolctl_that_is_installed_later(tmp_path):
    code = f"""
    import framejit, sys
    for attempt in "once", "again":
        sys.modules.pop("threadpoolctl", None)
        try:
            import threadpoolctl
        except ImportError as error:
            print("none")
            sys.path.insert(0, {str(tmp_path)!r})
    print(threadpoolctl.controllers[0].user_api)
    """
    (tmp_path / "threadpoolctl.py").write_text(
        "class LibController: pass\ncontrollers = []\nregister = controllers.append\n"
    )
    isolated = "import sys; sys.path[:] = [p for p in sys.path if not p.endswith('site-packages')]\n"
    numpy = "import numpy\n"
    assert run(numpy + isolated + textwrap.dedent(code)) == ["none", "framejit"]


def test_workers_of_joblib():
    pytest.importorskip("joblib")
    code = """
    import joblib, framejit
    for inner in (1, 2, None):
        with joblib.parallel_config("loky", n_jobs=2, inner_max_num_threads=inner):
            print(*joblib.Parallel()(joblib.delayed(framejit.get_num_threads)() for _ in range(2)))
    """
    # joblib gives each worker its share of the CPUs.
    share = max(CPUS // 2, 1)
    assert run(code) == [str(min(n, CPUS)) for n in (1, 1, 2, 2, share, share)]


def test_workers_of_dask():
    pytest.importorskip("distributed")
    code = """
    import framejit
    from dask.distributed import Client, LocalCluster
    if __name__ == "__main__":
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
        with cluster, Client(cluster) as client:
            print(*client.run(framejit.get_num_threads).values())
    """
    assert run(code) == ["1", "1"]
