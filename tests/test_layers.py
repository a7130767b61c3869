"""cmake/check_layers.py finds an include against the layers, in what a compiler and Ninja really wrote."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parent.parent / "cmake" / "check_layers.py"
NINJA = """
rule cxx
  command = g++ -std=c++20 -I{source} -I{fake} -MMD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
build object.o: cxx {source}/{name}
"""

pytestmark = pytest.mark.skipif(not (shutil.which("ninja") and shutil.which("g++")), reason="needs ninja and g++")


def check(tmp_path: Path, name: str, text: str, headers: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    source, fake, build = tmp_path / "source", tmp_path / "usr", tmp_path / "build"
    for folder in (fake, build):
        folder.mkdir()
    for path in (source / name, *(source / header for header in headers)):
        path.parent.mkdir(parents=True, exist_ok=True)
    for header in ("Python.h", "numpy/arrayobject.h", "tbb/task.h", "asmjit/asmjit.h", "xbyak/xbyak.h"):
        (fake / header).parent.mkdir(parents=True, exist_ok=True)
        (fake / header).write_text("#pragma once\n")
    (source / name).write_text(text)
    for header in headers:
        (source / header).write_text("#pragma once\n")
    (build / "build.ninja").write_text(NINJA.format(source=source, fake=fake, name=name))
    subprocess.run(["ninja", "-C", str(build)], check=True, capture_output=True)
    command = [sys.executable, str(CHECK), "--build", str(build), "--source", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "include", "headers"),
    [
        ("graph/a.cpp", "<Python.h>", ()),
        ("graph/a.cpp", '"codegen/kernel.h"', ("codegen/kernel.h",)),
        ("codegen/a.cpp", "<tbb/task.h>", ()),
        ("codegen/a.cpp", '"runtime/plan.h"', ("runtime/plan.h",)),
        ("runtime/a.cpp", "<asmjit/asmjit.h>", ()),
        ("runtime/a.cpp", "<xbyak/xbyak.h>", ()),
        ("runtime/a.cpp", '"codegen/lower.h"', ("codegen/lower.h",)),
        ("capture/py/a.cpp", "<numpy/arrayobject.h>", ()),
        ("capture/a.cpp", '"ext/module/module.h"', ("ext/module/module.h",)),
        ("ext/module/a.cpp", "<numpy/arrayobject.h>", ()),
        ("ext/guards/a.cpp", '"ext/region/compile.h"', ("ext/region/compile.h",)),
        ("ext/tensor/a.cpp", '"ext/region/materialize.h"', ("ext/region/materialize.h",)),
        ("ext/frontends/numpy/a.cpp", '"ext/dispatch/function.h"', ("ext/dispatch/function.h",)),
        ("ext/dispatch/a.cpp", '"ext/testing/splice_mock.h"', ("ext/testing/splice_mock.h",)),
    ],
)
def test_wrong_include_fails(tmp_path: Path, name: str, include: str, headers: tuple[str, ...]) -> None:
    result = check(tmp_path, name, f"#include {include}\n", headers)
    assert result.returncode == 1
    assert name in result.stderr
    assert include.strip('<>"').split("/")[-1] in result.stderr


def test_wrong_include_through_another_header_fails(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "graph").mkdir(parents=True)
    (source / "graph" / "inner.h").write_text("#include <Python.h>\n")
    result = check(tmp_path, "graph/a.cpp", '#include "graph/inner.h"\n')
    assert result.returncode == 1
    assert "Python.h" in result.stderr


@pytest.mark.parametrize(
    ("name", "include", "headers"),
    [
        ("graph/a.cpp", "<vector>", ()),
        ("codegen/a.cpp", "<asmjit/asmjit.h>", ()),
        ("runtime/a.cpp", '"codegen/kernel.h"', ("codegen/kernel.h",)),
        ("runtime/a.cpp", "<tbb/task.h>", ()),
        ("capture/a.cpp", "<Python.h>", ()),
        ("ext/region/a.cpp", '"runtime/plan.h"', ("runtime/plan.h",)),
        ("ext/arrays/a.cpp", "<numpy/arrayobject.h>", ()),
        ("ext/tensor/a.cpp", '"ext/region/compile.h"', ("ext/region/compile.h",)),
        ("ext/frontends/numpy/a.cpp", '"ext/frontends/frontend.h"', ("ext/frontends/frontend.h",)),
        ("graph/b.cpp", '"graph/a.h"', ("graph/a.h",)),
    ],
)
def test_right_include_passes(tmp_path: Path, name: str, include: str, headers: tuple[str, ...]) -> None:
    result = check(tmp_path, name, f"#include {include}\n", headers)
    assert result.returncode == 0
    assert result.stderr == ""


def test_build_in_which_nothing_is_checked_fails(tmp_path: Path) -> None:
    assert check(tmp_path, "ext/testing/a.cpp", "#include <vector>\n").returncode == 1


def test_every_folder_of_ext_is_checked() -> None:
    folders = {path.parent.name for path in (CHECK.parents[1] / "ext").glob("*/*.cpp")}
    assert folders == runpy.run_path(str(CHECK))["ROOMS"].keys() | {"testing"}
