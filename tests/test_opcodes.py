"""cmake/check_opcodes.py finds opcodes without a row and rows without an opcode."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def check(folder: Path, stamp: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "cmake" / "check_opcodes.py"), str(folder), str(stamp)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_table_is_complete(tmp_path: Path) -> None:
    done = check(ROOT / "capture", tmp_path / "stamp")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "stamp").exists()


def test_a_missing_row_and_a_stray_one_are_found(tmp_path: Path) -> None:
    folder = "py/cpython_{}{}".format(*sys.version_info[:2])
    shutil.copytree(ROOT / "capture" / folder, tmp_path / folder)
    table = tmp_path / folder / "opcodes.inc"
    table.write_text(table.read_text().replace("FRAMEJIT_RAW(POP_TOP,", "FRAMEJIT_RAW(POP_NOTHING,"))
    done = check(tmp_path, tmp_path / "stamp")
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["opcodes.inc: POP_TOP: no row", "opcodes.inc: POP_NOTHING: no opcode"]
    assert not (tmp_path / "stamp").exists()
