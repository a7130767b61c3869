"""Runs the tests with which MindSpore checks its jit, with framejit under the name mindspore, and compares with mindspore_tests_known.txt.

    python tests/long/run_mindspore_tests.py CHECKOUT --mindspore PYTHON         all files
    python tests/long/run_mindspore_tests.py CHECKOUT --saved FILE               all files, beside MindSpore's outcomes of an earlier run
    python tests/long/run_mindspore_tests.py CHECKOUT --known                    the files that mindspore_tests_known.txt names
    python tests/long/run_mindspore_tests.py CHECKOUT compiler/hypermap          a folder or files

CHECKOUT is one of mindspore-ai/mindspore_test. Each file runs in a process of its own. With --mindspore, the files run with that interpreter too,
and only tests that pass there, or that passed in the run of --saved, count. --save FILE keeps the outcomes and the errors as JSON, which --saved reads; --errors prints the errors.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

KNOWN = Path(__file__).parents[1] / "tensor" / "mindspore_tests_known.txt"


# ---- in the process that runs one file


def child(path: str, output: str) -> None:
    import pytest

    class Notes:
        outcomes: dict[str, tuple[str, str]] = {}

        def pytest_runtest_setup(self, item):
            if "/pi_jit/" in path:
                from mindspore._c_expression import update_pijit_default_config
                from mindspore._extends.parse import compile_config

                update_pijit_default_config(compile_with_try=False)
                compile_config.JIT_ENABLE_AUGASSIGN_INPLACE = "0"

        def pytest_runtest_logreport(self, report):
            if report.when == "call" or report.outcome != "passed":
                self.outcomes[report.nodeid.partition("::")[2]] = report.outcome, str(report.longrepr)[-6000:] if report.failed else ""

        def pytest_collectreport(self, report):
            if report.failed:
                self.outcomes[""] = "failed", str(report.longrepr)[-6000:]

        def pytest_runtest_logfinish(self):
            Path(output).write_text(json.dumps(self.outcomes))

    notes = Notes()
    # The tests' own conftest leaves out everything from Python 3.11 on.
    arguments = [path, "-q", "--noconftest", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "ignore", "--timeout=120"]
    pytest.main([*arguments, "--import-mode=importlib", "-o", "addopts="], plugins=[notes])
    Path(output).write_text(json.dumps(notes.outcomes))


# ---- in the process that runs them all


def run(python: str, path: Path, own: bool, checkout: Path) -> dict[str, tuple[str, str]]:
    """The outcome of each test of a file, and its error."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(checkout), str(path.parent), *(os.environ.get("PYTHONPATH", "").split(os.pathsep) if own else ())]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths)))
        command = [python, str(Path(__file__).resolve()), str(checkout), "--child", str(path), f"{folder}/outcomes"]
        try:
            done = subprocess.run(
                [*command, *(["--own"] if own else [])], cwd=folder, env=environment, capture_output=True, text=True, timeout=900
            )
            end = f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            end = "took longer than 900 seconds"
        result = Path(folder, "outcomes")
        found = json.loads(result.read_text()) if result.exists() else {}
        if end:
            found.setdefault("", ("failed", end))
        return found


def known_failures() -> set[str]:
    lines = KNOWN.read_text().splitlines()
    return {line for line in lines if line.startswith(("compiler/", "pi_jit/"))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--mindspore", metavar="PYTHON")
    parser.add_argument("--saved", type=Path, metavar="FILE", help="a file that --save wrote: take MindSpore's outcomes from it")
    parser.add_argument("--known", action="store_true", help="only the files that the list names")
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("-n", type=int, default=2, help="processes at once")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--own", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.child:
        if options.own:
            from framejit._mindspore._mindspore import install

            install()
        child(*options.child)
        return 0

    checkout = options.checkout.resolve()
    root = checkout / "tests" / "st"
    known = known_failures()
    folders = options.files or ["compiler", "pi_jit"]
    files = sorted({file for each in folders for file in ([root / each] if each.endswith(".py") else (root / each).rglob("test_*.py"))})
    if options.known:
        named = {line.partition("::")[0] for line in known}
        files = [file for file in files if str(file.relative_to(root)) in named]

    earlier = json.loads(options.saved.read_text()) if options.saved else {}

    def both(file: Path):
        theirs = earlier.get(str(file.relative_to(root)), [None])[0]
        if options.mindspore:
            theirs = run(options.mindspore, file, False, checkout)
        return file, theirs, run(sys.executable, file, True, checkout)

    saved: dict[str, object] = {}
    new, gone, passed, counted = [], [], 0, 0
    with concurrent.futures.ThreadPoolExecutor(options.n) as pool:
        for file, theirs, ours in pool.map(both, files):
            name = str(file.relative_to(root))
            saved[name] = theirs, ours
            if options.save:
                options.save.write_text(json.dumps(saved, indent=1))
            for test in sorted(ours if theirs is None else theirs):
                if theirs is not None and theirs[test][0] != "passed":
                    continue
                outcome, error = ours.get(test, ours.get("", ("did not run", "")))
                listed = f"{name}::{test}" in known or name in known
                counted += 1
                passed += outcome == "passed"
                if outcome == "passed" and listed and name not in known:
                    gone.append(f"{name}::{test}")
                elif outcome not in ("passed", "skipped") and not listed and (theirs is not None or test):
                    new.append(f"{name}::{test}")
                    if options.errors:
                        print(f"---- {name}::{test}\n{error}", flush=True)
    print(f"{passed} of {counted} pass")
    for title, rows in (("fail, and are not listed", new), ("pass, and are listed", gone)):
        print("\n".join([f"{len(rows)} {title}", *rows]))
    return bool(new or gone)


if __name__ == "__main__":
    raise SystemExit(main())
