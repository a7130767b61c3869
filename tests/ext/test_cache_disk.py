"""The disk cache: a second process takes machine code from files, whatever has become of these."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.capture

# Prints a digest of results, and counters; the functions have regions, a product, and loops that call C functions,
# NumPy's loops and check the types of list items.
PROGRAM = """
import json, math, sys, warnings
import numpy as np
import framejit as fj

OPTIONS = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}

@fj.jit(**OPTIONS)
def region(a, b):
    return np.sqrt(a * b) + a / (b + 1.5), (a + b).sum()

@fj.jit(**OPTIONS)
def product(a, b):
    return a @ b

@fj.jit(**OPTIONS)
def loop(a, items):
    total = 0.0
    for i in range(len(a)):
        if a[i] > 0.5:
            total += math.sin(a[i]) * items[i % 3]
        else:
            total -= np.exp(a[i])
    return total

@fj.jit(**OPTIONS)
def fill(flags, counts, parts):
    for i in range(len(flags)):
        flags[i] = i % 3 == 0
        counts[i] = counts[i - 1] + 2
        parts[i] = parts[i] * 0.5
    return flags, counts, parts

@fj.jit(**OPTIONS)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

a, b = np.linspace(0.1, 1.0, 300), np.linspace(0.2, 3.0, 300)
ints = np.arange(64, dtype=np.int32).reshape(8, 8)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    calls = lambda: [(region, (a, b)), (product, (ints, ints)), (loop, (a, [1.0, 2.5, -3.0])), (fib, (17,)),
                     (fill, ([False] * 50, [7] * 50, [1.5 + i for i in range(50)]))]
    results = [f(*x) for f, x in calls()]
    expected = [f.__wrapped__(*x) for f, x in calls()]
def flat(v):
    return [flat(w) for w in v] if isinstance(v, (list, tuple)) else np.asarray(v).tobytes().hex()
stats = fj.stats()
print(json.dumps({"same": flat(results) == flat(expected), "hits": stats["disk_cache_hits"], "misses": stats["disk_cache_misses"],
                  "errors": stats["internal_errors"], "captured": stats["frames_captured"], "warnings": [str(w.message) for w in caught]}))
"""


def run(folder: Path | None, *arguments: str, **environment: str) -> dict[str, Any]:
    env = {key: value for key, value in os.environ.items() if key != "FRAMEJIT_CACHE_DIR"} | environment
    if folder is not None:
        env["FRAMEJIT_CACHE_DIR"] = str(folder)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["same"], found
    assert found["errors"] == 0
    assert found["captured"] > 0
    return found


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("framejit-*/*.kernel"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cache") / "new" / "folder"
    first = run(folder)
    assert first["hits"] == 0
    assert first["misses"] == len(files_of(folder)) > 3
    assert first["warnings"] == []
    return folder


@pytest.fixture
def copy(filled, tmp_path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "copy"))


def captures_of(folder: Path) -> list[Path]:
    """Files that hold captures, with the kernels of those; the others are kernels."""
    return [file for file in files_of(folder) if b"captures" in file.read_bytes()]


def test_second_process(filled):
    before = files_of(filled)
    second = run(filled)
    assert second["misses"] == 0
    assert len(captures_of(filled)) <= second["hits"] < len(before)
    assert files_of(filled) == before


def test_second_process_with_kernels_alone(copy):
    """Captures are gone, or are of another version of the program."""
    before, captures = files_of(copy), captures_of(copy)
    assert len(captures) > 3
    for file in captures:
        file.unlink()
    second = run(copy)
    assert second["misses"] == len(captures)
    assert second["hits"] == len(before) - len(captures)
    assert files_of(copy) == before


def test_only_its_user_can_read_it(filled):
    for path in (filled, *filled.glob("framejit-*")):
        assert path.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files_of(filled))


def test_no_address_of_a_process_is_kept(filled, tmp_path):
    """Address space is laid out anew in each process, so files that held an address would differ."""
    again = tmp_path / "again"
    run(again)
    assert {f.name: f.read_bytes() for f in files_of(again)} == {f.name: f.read_bytes() for f in files_of(filled)}


# Random loops, also for several rounds at once and for threads. Nothing in it may depend on time.
LOOPS = """
import contextlib, io, sys, warnings
sys.path.insert(0, sys.argv[1])
import framejit as fj
from framejit import _core
from loop_maker import LoopMaker, arguments

fj.config.capture_time_limit = 0
_core.set_widen_after(0)
_core.set_parallel_eager(True)
warnings.simplefilter("ignore")
for seed in range(100):
    fj.config.profitability = "off" if seed % 2 else "estimate"
    world = {"__name__": "program"}
    exec(compile(LoopMaker(seed).program(), f"<loops {seed}>", "exec", dont_inherit=True), world)
    main = fj.jit(world["main"], capture_mode="bytecode")
    for call in range(4):
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            main(*arguments(seed, call))
stats = fj.stats()
assert stats["internal_errors"] == 0 and stats["loops_widened"] > 0, stats
print(stats["disk_cache_misses"])
"""


def test_no_address_is_in_the_code_of_random_loops(tmp_path):
    """What holds an address of its process has another name there, or other bytes."""
    folders = [tmp_path / "first", tmp_path / "second", tmp_path / "first"]
    misses = []
    for folder in folders:
        done = subprocess.run(
            [sys.executable, "-c", LOOPS, str(Path(__file__).parent.parent / "capture")],
            capture_output=True, text=True, env=os.environ | {"FRAMEJIT_CACHE_DIR": str(folder)}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        misses.append(int(done.stdout))
        if len(misses) == 2:
            # Captures hold times of library calls, from which it is estimated what pays.
            captures = [captures_of(folder) for folder in folders[:2]]
            counts = [len(files_of(folder)) for folder in folders[:2]]
            assert [f.name for f in captures[0]] == [f.name for f in captures[1]]
            for file in captures[0] + captures[1]:
                file.unlink()
    contents = [{f.name: f.read_bytes() for f in files_of(folder) if f not in captures_of(folder)} for folder in folders]
    assert contents[0] == contents[1]
    assert misses[:2] == counts
    assert len(contents[0]) > 100
    assert misses[2] == len(captures[0]) > 50


def test_off_by_default():
    found = run(None)
    assert (found["hits"], found["misses"]) == (0, 0)


def test_argument_of_jit(tmp_path):
    environment = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    first = run(None, '{"cache": true}', **environment)
    assert first["misses"] == len(files_of(tmp_path / "framejit")) > 3
    assert first["warnings"] == []
    second = run(None, '{"cache": true}', **environment)
    assert second["hits"] > 3
    assert second["misses"] == 0
    assert run(None, '{"cache": false}', **environment)["hits"] == 0


def test_another_processor(copy):
    """Code for another instruction set is other code, next to the first."""
    isa = subprocess.run(
        [sys.executable, "-c", "import framejit; print(framejit._core.cpu_features()['isa'])"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    if isa != "avx512":
        pytest.skip("the processor has one instruction set only")
    before = files_of(copy)
    other = run(copy, FRAMEJIT_CPU="avx2")
    assert other["hits"] == 0
    assert len(files_of(copy)) == len(before) + other["misses"]
    assert run(copy, FRAMEJIT_CPU="avx2")["misses"] == 0
    assert run(copy)["misses"] == 0


@pytest.mark.parametrize("how", ["truncated", "empty", "longer", "swapped", "folder", "link", "fifo", "text"])
def test_broken_files(copy, how, tmp_path):
    files = files_of(copy)
    contents = [file.read_bytes() for file in files]
    for file, content, other in zip(files, contents, contents[1:] + contents[:1], strict=True):
        if how == "truncated":
            file.write_bytes(content[: len(content) * 2 // 3])
        elif how == "empty":
            file.write_bytes(b"")
        elif how == "longer":
            file.write_bytes(content + b"\0")
        elif how == "swapped":
            file.write_bytes(other)
        elif how == "text":
            file.write_text("not machine code\n" * 20)
        else:
            file.unlink()
            if how == "folder":
                file.mkdir()
            elif how == "fifo":
                os.mkfifo(file)
            else:
                (tmp_path / file.name).write_bytes(content)
                file.symlink_to(tmp_path / file.name)
    found = run(copy)
    assert found["hits"] == 0
    if how == "folder":
        assert len(found["warnings"]) == 1  # a file cannot take the name of a folder
        return
    assert found["warnings"] == []
    assert run(copy)["misses"] == 0  # they were written again


def test_files_that_others_may_write(copy):
    for file in files_of(copy):
        file.chmod(0o622)
    assert run(copy)["hits"] == 0
    assert run(copy)["misses"] == 0


@pytest.mark.parametrize("inner", [False, True])
def test_folder_that_others_may_write(copy, inner):
    folder = next(copy.glob("framejit-*")) if inner else copy
    folder.chmod(0o777)
    found = run(copy)
    assert found["hits"] == 0
    (text,) = found["warnings"]
    assert str(folder) in text
    assert "others may write into it" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_folder_of_another_user(copy):
    os.chown(copy, 12345, -1)
    found = run(copy)
    assert (found["hits"], len(found["warnings"])) == (0, 1)


def test_unwritable(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    for folder in (blocked, blocked / "below", Path("/proc/framejit-cache")):
        found = run(folder)
        (text,) = found["warnings"]
        assert text.startswith("compiled code is not kept: ")
        assert str(folder) in text


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into any folder")
def test_read_only_folder(copy):
    folder = next(copy.glob("framejit-*"))
    file = files_of(copy)[0]
    file.unlink()
    folder.chmod(0o500)
    found = run(copy)
    assert (found["misses"], len(found["warnings"])) == (1, 1)
    folder.chmod(0o700)


def test_full_disk():
    """/dev/full cannot be a folder, but a limit of the process on the size of files fails a write in the same place."""
    program = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n" + PROGRAM
    )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True,
            env=os.environ | {"FRAMEJIT_CACHE_DIR": folder}, check=False,
        )  # fmt: skip
        found = json.loads(done.stdout)
        assert found["same"]
        assert found["errors"] == 0
        (text,) = found["warnings"]
        assert text.startswith("compiled code is not kept")
        assert [path for path in Path(folder).rglob("*") if path.is_file()] == []  # nothing unfinished is left


def test_concurrent_processes(tmp_path):
    folder = tmp_path / "shared"
    command = [sys.executable, "-c", PROGRAM]
    env = os.environ | {"FRAMEJIT_CACHE_DIR": str(folder)}
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) for _ in range(5)]
    found = [json.loads(process.communicate()[0]) for process in running]
    assert all(f["same"] and f["errors"] == 0 and f["warnings"] == [] for f in found)
    assert run(folder)["misses"] == 0
    assert list(folder.rglob(".new-*")) == []


def test_removed_while_it_is_used(tmp_path):
    program = PROGRAM.replace(
        "    expected =", "    import shutil; shutil.rmtree(fj.config.cache_dir); other = fj.jit(lambda x: x * 3.5 - 1.0)(a)\n    expected ="
    )
    folder = tmp_path / "removed"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"FRAMEJIT_CACHE_DIR": str(folder)}, check=False
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["same"]
    assert found["warnings"] == []
    assert len(files_of(folder)) == 2  # the kernel and the capture


def test_oldest_are_removed(copy):
    keep = copy / "mine.kernel"
    keep.write_text("not a file of the cache")
    other = copy / "others"
    other.mkdir()
    (other / "data.kernel").write_text("not a file of the cache either")
    files = files_of(copy)
    total = sum(file.stat().st_size for file in files)
    old = Path(shutil.copytree(files[0].parent, copy / "framejit-0123456789abcdef"))  # of another build
    for age, file in enumerate(old.glob("*.kernel")):
        os.utime(file, (1e9 - 100 * age, 1e9 - 100 * age))
    largest = max(files, key=lambda file: file.stat().st_size)  # sizes are added up after a small part of the limit
    largest.unlink()
    found = run(copy, FRAMEJIT_CACHE_BYTES_LIMIT=str(total * 3 // 2))
    assert found["misses"] == 1
    left = files_of(copy)
    assert set(files) <= set(left)
    assert len(left) < 2 * len(files)
    assert sum(file.stat().st_size for file in left) <= total * 9 // 8
    assert keep.exists()
    assert (other / "data.kernel").exists()


def test_reading_marks_as_used(copy):
    for file in files_of(copy):
        os.utime(file, (1e9, 1e9))
    run(copy)
    assert all(file.stat().st_mtime > 1e9 + 1 for file in captures_of(copy))
    for file in captures_of(copy):
        file.unlink()
    run(copy)
    assert all(file.stat().st_mtime > 1e9 + 1 for file in files_of(copy))


def test_command(copy):
    def command(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "framejit", "cache", *arguments], capture_output=True, text=True, check=False,
            env=os.environ | {"FRAMEJIT_CACHE_DIR": str(copy)},
        ).stdout  # fmt: skip

    count = len(files_of(copy))
    size = sum(file.stat().st_size for file in files_of(copy))
    (copy / "mine").write_text("stays")
    text = f"{count} files, {size} bytes, for 1 builds and processors\n"
    assert command() == command("--info") == f"{copy}: holds {text}"
    assert command("--clear") == f"{copy}: removed {text}"
    assert [path.name for path in copy.iterdir()] == ["mine"]
    assert command("--info").endswith("holds 0 files, 0 bytes, for 0 builds and processors\n")
    assert command("--everything") == ""


def test_relative_folder(tmp_path, monkeypatch):
    import framejit as fj

    monkeypatch.chdir(tmp_path)
    try:
        fj.config.cache_dir = "somewhere"
        assert fj.config.cache_dir == str(tmp_path / "somewhere")
        fj.config.cache_dir = "~/somewhere"
        assert fj.config.cache_dir == str(Path.home() / "somewhere")
    finally:
        fj.config.cache_dir = ""


def test_wrong_argument():
    import framejit as fj

    with pytest.raises(TypeError, match=r"For 'jit', the 'cache' must be a bool, but got 'yes' of type str\."):
        fj.jit(cache="yes")
