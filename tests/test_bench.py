"""The benchmarks run, and compare results before they time them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent / "benchmarks" / "bench.py"


def test_tiny(tmp_path):
    command = [sys.executable, str(BENCH), "--tiny", "--out", str(tmp_path / "bench.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "bench.txt").read_text()
    for part in ("a*b+c, float32", "x *= c; x += y, float32", "first call of a function", "import: numpy", "machine:"):
        assert part in text
    assert "wrong" not in text


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("bench.py", ["--case", "no such case"], "'no such case' matches none of"),
        ("cores.py", ["--only", "no such row"], "'no such row' is in none of ['convolution',"),
        ("loops.py", ["--only", "no such program"], "no program matches no such program"),
        ("never_slower.py", ["--only", "no such program"], "no program matches no such program"),
        ("never_slower.py", ["--sizes", "small,huge"], "no size 'huge'; choose from "),
        ("numpy_programs.py", ["--program", "no_such_program"], "invalid choice: 'no_such_program'"),
        ("parallel_loops.py", ["--only", "no such program"], "'no such program' is in none of ["),
        ("pyhpc.py", ["--checkout", "CLONE", "--only", "no such program"], "'no such program' is in none of ["),
        ("npbench.py", ["--checkout", "CLONE", "--only", "no such kernel"], "'no such kernel' is in none of ['gemm']"),
        ("roofline.py", ["--case", "no such row"], "no row of at most 100000000 elements matches 'no such row'"),
        ("training.py", ["--engines", "framejit,mindspore"], "no engine 'mindspore'; choose from framejit, "),
        ("training.py", ["--engines", "torch=/no/such/python"], "no interpreter '/no/such/python'"),
        ("training.py", ["--only", "no such row"], "'no such row' is in none of ["),
    ],
)
def test_names_that_mean_nothing_are_errors(script, arguments, message, tmp_path):
    (tmp_path / "benchmarks" / "equation_of_state").mkdir(parents=True)
    (tmp_path / "bench_info").mkdir()
    (tmp_path / "bench_info" / "gemm.json").write_text('{"benchmark": {"short_name": "gemm"}}')
    given = [str(tmp_path) if argument == "CLONE" else argument for argument in arguments]
    command = [sys.executable, str(BENCH.with_name(script)), *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.splitlines()[-1]


def test_marked():
    command = [sys.executable, str(BENCH.with_name("marked.py")), "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert "geometric mean" in done.stdout, done.stderr


@pytest.mark.capture
def test_roofline(tmp_path):
    table = tmp_path / "table.md"
    command = [sys.executable, str(BENCH.with_name("roofline.py")), "--rounds", "1", "--most", "1000"]
    command += ["--case", "a.b.c, float64|mean", "--markdown", str(table)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.read_text().splitlines()[2:]]
    assert [(row[0], row[2]) for row in rows] == [
        (name, level) for name in ("a*b+c, float64", "mean, var, sum, float32") for level in ("O0", "O1")
    ]
    for row in rows:
        assert all(float(share.rstrip("%")) > 0 for share in row[4:7])
        assert row[7] in ("memory", "arithmetic", "call")


@pytest.mark.capture
def test_regions():
    command = [sys.executable, str(BENCH.with_name("regions.py")), "--rounds", "1", "--calls", "10"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert "largest" in done.stdout, done.stderr


@pytest.mark.capture
def test_loops(tmp_path):
    rows = tmp_path / "rows.json"
    command = [
        sys.executable,
        str(BENCH.with_name("loops.py")),
        "--small",
        "--no-numba",
        "--rounds",
        "1",
        "--warm",
        "4",
    ]
    command += ["--json", str(rows)]
    names = ["fibonacci", "sum_of_squares", "insertion_sort", "matmul", "sieve_of_list", "clamp_all", "flood"]
    for name in names:
        command += ["--only", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(rows.read_text())
    assert {row["name"] for row in found if row["framejit"] > 0} == set(names)
