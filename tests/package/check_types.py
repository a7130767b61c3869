"""What mypy and pyright make of a program of a user's, and how much of the package is typed. `./dev types` runs it.

Its argument is the folder of the build, where framejit is found.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("typed_program.py")
COMPLETE = 0.98  # the part of the public symbols whose types are known


def run(*command: str) -> str:
    return subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False).stdout


def refused_lines() -> set[int]:
    lines = PROGRAM.read_text(encoding="utf-8").split("\n")
    return {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}


def by_mypy() -> tuple[set[int], str]:
    output = run("mypy", "--strict", "--config-file=", "--cache-dir", str(Path("build") / "mypy-program"), str(PROGRAM))
    return {int(line) for line in re.findall(rf"{PROGRAM.name}:(\d+): error", output)}, output


def by_pyright() -> tuple[set[int], str]:
    output = run("pyright", "--pythonpath", sys.executable, "--outputjson", str(PROGRAM))
    found = json.loads(output)["generalDiagnostics"]
    return {row["range"]["start"]["line"] + 1 for row in found if row["severity"] == "error"}, output


def completeness() -> tuple[float, list[str]]:
    output = run(
        "pyright", "--verifytypes", "framejit", "--ignoreexternal", "--outputjson", "--pythonpath", sys.executable
    )
    found = json.loads(output)["typeCompleteness"]
    exported = [row for row in found["symbols"] if row["isExported"]]
    return found["completenessScore"], [row["name"] for row in exported if not row["isTypeKnown"]]


def main() -> int:
    os.environ["PYTHONPATH"] = sys.argv[1]
    failed = False
    for name, check in (("mypy", by_mypy), ("pyright", by_pyright)):
        found, output = check()
        if found != refused_lines():
            failed = True
            print(f"{name}: errors in lines {sorted(found)} of {PROGRAM}, expected {sorted(refused_lines())}\n{output}")
    score, unknown = completeness()
    if score < COMPLETE:
        failed = True
        print(f"pyright --verifytypes: {score:.1%} of the symbols have types, expected {COMPLETE:.0%}: {unknown}")
    if not failed:
        print(f"mypy and pyright refuse what is wrong in {PROGRAM.name}; {score:.1%} of the symbols have types")
    return failed


if __name__ == "__main__":
    sys.exit(main())
