"""Runs NumPy's own test files with every test function marked, then with NumPy's Python code marked too, and compares test by test with a
plain run.

    python tests/long/run_numpy_tests.py                      all files listed below
    python tests/long/run_numpy_tests.py --sample             a few
    python tests/long/run_numpy_tests.py --modes library numpy._core.tests.test_ufunc

Each file runs in processes of its own, plain and in each mode:

    marked    framejit.mark() on the test module
    library   on NumPy's Python code too

A difference counts only if a second run of both shows it again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CORE = """test_ufunc test_umath test_umath_complex test_multiarray test_indexing test_numeric test_shape_base test_function_base test_nep50_promotions
test_mem_overlap test_casting_unittests test_casting_floatingpoint_errors test_scalarmath test_half test_errstate test_einsum test_item_selection
test_getlimits test_nditer test_regression test_indexerrors test_array_coercion test_overrides test_scalar_methods test_simd_module""".split()
LIB = """test_function_base test_shape_base test_arraypad test_nanfunctions test_arraysetops test_index_tricks test_stride_tricks test_twodim_base
test_type_check test_ufunclike test_histograms test_polynomial test_array_utils test_arrayterator""".split()
MODULES = [
    *(f"numpy.CORE.tests.{name}" for name in CORE),
    *(f"numpy.lib.tests.{name}" for name in LIB),
    *(f"numpy.linalg.tests.{name}" for name in ("test_linalg", "test_regression")),
    *(f"numpy.fft.tests.{name}" for name in ("test_helper", "test_pocketfft")),
    *(f"numpy.random.tests.{name}" for name in ("test_random", "test_randomstate", "test_generator_mt19937", "test_regression")),
    *(f"numpy.ma.tests.{name}" for name in ("test_core",)),
    *(f"numpy.polynomial.tests.{name}" for name in ("test_polynomial", "test_chebyshev")),
]
SAMPLE = ["numpy.CORE.tests.test_mem_overlap", "numpy.CORE.tests.test_indexing", "numpy.lib.tests.test_arraypad", "numpy.lib.tests.test_index_tricks"]

# Outcomes that rightly differ. A part of the test's name, and why.
EXPECTED = {
    "test_scalar_interface": "counts references to a dtype, which compiled calls hold too",
    "test_dtype_reference_leaks": "counts references to a dtype, which compiled calls hold too",
    "test_for_reference_leak": "counts references to the int 1, which compiled calls hold too; calling again adds none",
    "test_too_large_array_error_paths": "an array that nothing uses is not made, so there is no memory to be missing",
}


# ---- in the process that runs one file


def child(name: str, mode: str, output: str) -> None:
    import pytest

    import framejit

    framejit.config.recompile_limit = 1 << 30  # the warning would be counted by tests that count warnings
    outcomes: dict[str, str] = {}
    details: dict[str, str] = {}

    class Notes:
        def pytest_collection_modifyitems(self, items):
            if mode == "plain":
                return
            modules = list(dict.fromkeys(item.module for item in items))
            library = (os.path.dirname(sys.modules["numpy"].__file__) + "/*",) if mode == "library" else ()
            framejit.mark(*modules, *library)

        def pytest_runtest_logreport(self, report):
            test = report.nodeid.partition("::")[2]
            if report.when != "call" and report.outcome == "passed":
                return
            outcomes[test] = "expected failure" if hasattr(report, "wasxfail") else report.outcome
            if report.outcome == "failed":
                details[test] = str(report.longrepr)[-4000:]

    arguments = ["--pyargs", name, "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "ignore::framejit.RecompileLimitWarning"]
    pytest.main([*arguments, "-m", "not slow"], plugins=[Notes()])
    Path(output).write_text(json.dumps({"outcomes": outcomes, "details": details, "counters": framejit.stats()}))
    sys.stdout.flush()
    os._exit(0)


# ---- around it


def run_module(name: str, mode: str, timeout: float) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "result.json")
        path = os.pathsep.join(os.path.abspath(p) for p in sys.path if p and p != str(Path(__file__).resolve().parent))
        command = [sys.executable, __file__, "--child", name, mode, str(output)]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, cwd=folder, env={**os.environ, "PYTHONPATH": path}
            )
        except subprocess.TimeoutExpired:
            return {"status": "timeout", "outcomes": {}, "details": {}, "counters": {}}
        if output.exists():
            return {"status": "ran", **json.loads(output.read_text())}
        tail = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
        return {"status": f"exit {done.returncode}", "outcomes": {}, "details": {"process": tail}, "counters": {}}


def differences(plain: dict, marked: dict) -> dict:
    if plain["status"] != marked["status"]:
        return {"process": (plain["status"], marked["status"])}
    tests = plain["outcomes"].keys() | marked["outcomes"].keys()
    found = {t: (plain["outcomes"].get(t), marked["outcomes"].get(t)) for t in tests}
    found = {t: pair for t, pair in found.items() if pair[0] != pair[1]}
    if marked["counters"].get("internal_errors"):
        found["internal errors"] = (0, marked["counters"]["internal_errors"])
    return found


def compare_module(name: str, modes: list[str], timeout: float) -> dict:
    plain = run_module(name, "plain", timeout)
    report = {"name": name, "status": plain["status"], "tests": len(plain["outcomes"]), "differences": [], "counters": {}}
    for mode in modes if plain["status"] == "ran" else ():
        marked = run_module(name, mode, 6 * timeout)
        report["counters"][mode] = marked["counters"]
        found = differences(plain, marked)
        if found:
            again = run_module(name, mode, 6 * timeout)
            confirmed = differences(run_module(name, "plain", timeout), again)
            found = {t: pair for t, pair in found.items() if t in confirmed}
        for test, (before, after) in sorted(found.items()):
            if reason := next((reason for part, reason in EXPECTED.items() if part in test), None):
                print(f"  as expected [{mode}] {test}: {reason}")
                continue
            report["differences"].append((mode, test, before, after, marked["details"].get(test, "")))
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", action="store_true", help="a few files only")
    parser.add_argument("--modes", default="marked,library")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for a plain file; six times that marked")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("modules", nargs="*")
    options = parser.parse_args()
    import numpy

    core = "_core" if int(numpy.__version__.split(".")[0]) >= 2 else "core"
    names = [n.replace("CORE", core) for n in options.modules or (SAMPLE if options.sample else MODULES)]
    modes = options.modes.split(",")
    start = time.monotonic()
    reports = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(compare_module, n, modes, options.timeout) for n in names]):
            report = future.result()
            reports.append(report)
            print(f"[{len(reports)}] {report['name']}: {report['tests']} tests, plain {report['status']}", flush=True)
            for mode, test, before, after, detail in report["differences"]:
                print(f"  DIFFERENT [{mode}] {test}: {before} -> {after}\n{detail}", flush=True)
    print(f"NumPy {numpy.__version__}: {len(reports)} files, {sum(r['tests'] for r in reports)} tests, {time.monotonic() - start:.0f} s")
    for mode in modes:
        sums = {key: sum(r["counters"].get(mode, {}).get(key, 0) for r in reports) for key in ("frames_marked", "frames_captured", "kernel_calls", "internal_errors")}
        print(f"  {mode}: {sums}")
    count = sum(len(r["differences"]) for r in reports)
    print(f"{count} differences")
    return 1 if count or any(r["status"] != "ran" for r in reports) else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:5])
    sys.exit(main())
