"""Every opcode of the interpreter that the module is built for has a row in capture/py/cpython_3XX/opcodes.inc, and every row an opcode.

What a row names is an enumerator that SymbolicFrame::step handles or breaks at; the compiler checks that its switch is
complete. Usage: check_opcodes.py CAPTURE_FOLDER STAMP
"""

from __future__ import annotations

import opcode
import re
import sys
from pathlib import Path


def missing(folder: Path) -> list[str]:
    version = "{}{}".format(*sys.version_info[:2])
    text = (folder / "py" / f"cpython_{version}" / "opcodes.inc").read_text()
    rows = set(re.findall(r"^FRAMEJIT_RAW\((\w+),", text, re.MULTILINE))
    # Above 255 are names of the compiler's alone; instrumented ones and executors are seen in live code only; caches are no
    # instructions; the rest are in frames of the interpreter's own.
    real = {name for name, number in opcode.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED_")}
    real -= {"CACHE", "INTERPRETER_EXIT", "RESERVED", "ENTER_EXECUTOR", "EXIT_INIT_CHECK", "TRACE_RECORD"}
    return [f"{name}: no row" for name in sorted(real - rows)] + [f"{name}: no opcode" for name in sorted(rows - real)]


def main() -> int:
    folder, stamp = map(Path, sys.argv[1:])
    found = missing(folder)
    for line in found:
        print(f"opcodes.inc: {line}", file=sys.stderr)
    if not found:
        stamp.touch()
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
