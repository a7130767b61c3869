"""Which interpreters the package installs on and captures on, and what it says of the others."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from framejit._api import _platform

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
JIT = getattr(sys, "_jit", None)


def reason(monkeypatch, **facts):
    """The reason on an interpreter with these facts, on a version and a machine that are captured on otherwise."""
    usual = {
        "implementation": SimpleNamespace(name="cpython"),
        "abiflags": "",
        "version_info": (*_platform.VERSIONS[0], 1, "final", 0),
        "platform": "linux",
    }
    monkeypatch.delenv("FRAMEJIT_DISABLE", raising=False)
    monkeypatch.setattr(_platform, "sys", SimpleNamespace(**(usual | facts)))
    monkeypatch.setattr(_platform.platform, "machine", lambda: "x86_64")
    return _platform._find_reason()


@pytest.mark.parametrize("version", _platform.VERSIONS)
def test_captured_versions_have_no_reason(monkeypatch, version):
    monkeypatch.setattr(sysconfig, "get_config_var", {}.get)  # this interpreter may have a JIT
    assert reason(monkeypatch, version_info=(*version, 0, "final", 0)) is None


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"version_info": (3, 99, 0)}, "framejit captures on CPython 3.11"),
        ({"implementation": SimpleNamespace(name="pypy")}, "framejit captures on CPython, this is pypy"),
        ({"abiflags": "t"}, "framejit captures on CPython with the GIL, this is a free-threaded build"),
        ({"abiflags": "td"}, "framejit captures on CPython with the GIL, this is a free-threaded build"),
        ({"platform": "darwin"}, "framejit captures on Linux on x86-64, this is darwin on x86_64"),
        ({"_jit": SimpleNamespace(is_enabled=lambda: True)}, "framejit steps aside for the interpreter's own JIT"),
    ],
)
def test_other_interpreters_have_a_reason_of_one_line(monkeypatch, facts, said):
    found = reason(monkeypatch, **facts)
    assert found.startswith(said)
    assert "\n" not in found


@pytest.mark.parametrize(
    ("core", "said"),
    [
        (None, "without its compiled half"),
        (
            "raise ImportError('libtbb.so.12: cannot open shared object file: No such file')",
            "pip install tbb, or on Debian",
        ),
        (
            "raise ImportError('undefined symbol: x')",
            "(undefined symbol: x); reinstall it: pip install --force-reinstall",
        ),
    ],
)
def test_what_is_missing_is_said_at_import(tmp_path, core, said):
    """And functions run as plain Python, unless internal errors are to be raised."""
    if _platform._find_reason() is not None:
        pytest.skip("the compiled half would not be imported here")
    package = tmp_path / "framejit"
    package.mkdir()
    for entry in Path(_platform.__file__).parents[1].iterdir():
        if not entry.name.startswith("_core."):
            (package / entry.name).symlink_to(entry.resolve())
    if core is not None:
        (package / "_core.py").write_text(core)
    code = "import framejit; print('imported'); print(framejit.jit(lambda x: x + 1)(2), framejit.unsupported_reason())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "FRAMEJIT_STRICT": "0"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("imported\n3 framejit") and said in done.stdout
    assert done.stderr.startswith("marked functions run as plain Python: ") and said in done.stderr
    assert done.stderr.count("\n") == 1
    strict = subprocess.run(command, env={**environment, "FRAMEJIT_STRICT": "1"}, capture_output=True, text=True)
    assert strict.returncode != 0
    assert re.search("^(ImportError|ModuleNotFoundError): ", strict.stderr, re.M), strict.stderr


def test_a_jit_that_is_off_is_no_reason(monkeypatch):
    assert reason(monkeypatch, _jit=SimpleNamespace(is_enabled=lambda: False)) is None
    assert reason(monkeypatch, abiflags="d") is None


def test_a_3_13_with_a_jit_is_left_alone(monkeypatch):
    for arguments, refused in (("--prefix=/usr", False), ("--enable-experimental-jit=yes-off", True), (None, False)):
        monkeypatch.setattr(sysconfig, "get_config_var", {"CONFIG_ARGS": arguments}.get)
        found = reason(monkeypatch, version_info=(3, 13, 0))
        assert ("own JIT" in (found or "")) == refused


@pytest.mark.skipif(JIT is None or not JIT.is_available(), reason="this interpreter has no JIT that can be turned on")
def test_marked_functions_run_plain_beside_the_interpreters_jit():
    code = (
        "import framejit as fj\n"
        "@fj.jit\n"
        "def f(x): return x + 1\n"
        "assert [f(n) for n in range(5000)][-1] == 5000\n"
        "print(fj.unsupported_reason())"
    )
    environment = dict(os.environ, PYTHON_JIT="1")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "interpreter's own JIT" in done.stdout


def check_python(tmp_path, *arguments):
    """What CMake says of an interpreter: the sentence of its error, or None."""
    script = tmp_path / "check.cmake"
    script.write_text(f"include({ROOT / 'cmake' / 'python.cmake'})\nframejit_check_python({' '.join(arguments)})\n")
    done = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (done.stderr == "")
    found = re.search(r"\(message\):\n +(.*)\n", done.stderr)
    return found and found.group(1)


def test_installing_is_refused_in_one_line(tmp_path):
    oldest, beyond = re.fullmatch(r">=(3\.\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
    needs = f"framejit needs CPython {oldest} to 3.{int(beyond) - 1}"
    for minor in range(11, int(beyond)):
        assert check_python(tmp_path, "cpython", f"3.{minor}.1", "False") is None
    assert check_python(tmp_path, "cpython", "3.10.13", "False") == f"{needs}, this is 3.10.13"
    assert check_python(tmp_path, "cpython", f"3.{beyond}.0a1", "False") == f"{needs}, this is 3.{beyond}.0a1"
    assert check_python(tmp_path, "pypy", "3.11.13", "False") == f"{needs}, this is pypy 3.11.13"
    free_threaded = f"{needs} with the GIL, this is a free-threaded build of 3.14.2"
    assert check_python(tmp_path, "cpython", "3.14.2", "True") == free_threaded


def test_cmake_builds_the_compiled_half_for_the_versions_of_the_package(tmp_path):
    script = tmp_path / "CMakeLists.txt"
    script.write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(captures LANGUAGES NONE)\n"
        f"include({ROOT / 'cmake' / 'python.cmake'})\n"
        "foreach(minor RANGE 8 20)\n  framejit_captures(captures 3 ${minor})\n"
        '  message(STATUS "3.${minor} is ${captures}")\nendforeach()\n'
    )
    command = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    built = [(3, int(minor)) for minor in re.findall(r"3\.(\d+) is ON", done.stdout)]
    assert built == sorted(_platform.VERSIONS)
    assert len(re.findall(r"3\.(\d+) is OFF", done.stdout)) == 13 - len(built)


def test_classifiers_name_only_versions_that_install():
    oldest, beyond = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
    named = [int(minor) for line in PROJECT["classifiers"] for minor in re.findall(r"Python :: 3\.(\d+)", line)]
    assert named
    assert all(int(oldest) <= minor < int(beyond) for minor in named)
    assert {minor for _, minor in _platform.VERSIONS} <= set(named)


@pytest.mark.skipif((ROOT / "third_party").exists(), reason="of a checkout: source distributions have them inside")
def test_libraries_that_the_build_lacks_are_named(tmp_path):
    options = ["-DFRAMEJIT_PYTHON=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON"]
    done = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path, *options], capture_output=True, text=True)
    assert done.returncode != 0
    assert "apt-get install libasmjit-dev libxbyak-dev libtbb-dev" in done.stderr


@pytest.mark.capture
@pytest.mark.not_sanitized(reason="sanitizers need more of the C library")
@pytest.mark.skipif(platform.libc_ver()[1] > "2.36", reason="built with a C library that makes programs need more")
def test_the_compiled_half_runs_with_the_c_library_of_2021():
    needed = re.findall(rb"\0GLIBC_2\.(\d+)", Path(_platform.core.__file__).read_bytes())
    assert needed and max(map(int, needed)) <= 34
