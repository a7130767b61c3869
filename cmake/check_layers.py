"""Checks who includes whom, from the dependencies that the compiler wrote down (``ninja -t deps``).

System headers are always in reach of a compiler, so include paths alone do not keep the layers apart.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# What a file of a folder must not reach, directly or through other headers. A folder may reach itself and what is not named;
# "ext" stands for all of ext's folders.
FORBIDDEN: dict[str, set[str]] = {
    "graph": {"codegen", "runtime", "capture", "ext", "python", "numpy", "assembler", "tbb"},
    "codegen": {"runtime", "capture", "ext", "python", "numpy", "tbb"},
    "runtime": {"codegen", "capture", "ext", "python", "numpy", "assembler"},
    "capture": {"codegen", "runtime", "ext", "numpy", "assembler", "tbb"},
}
# The folders of ext that a folder of ext may reach.
ROOMS: dict[str, set[str]] = {
    "module": set(),
    "arrays": {"module"},
    "library_calls": {"module", "arrays"},
    "guards": {"module", "arrays"},
    "region": {"module", "arrays", "library_calls", "guards"},
    "tensor": {"module", "arrays"},
    "frontends": {"module", "arrays", "library_calls", "tensor"},
    "dispatch": {"module", "arrays", "library_calls", "guards", "region"},
    "serialize": {"module", "arrays", "library_calls", "guards", "region", "dispatch"},
}
for room, others in ROOMS.items():
    FORBIDDEN[f"ext/{room}"] = {f"ext/{other}" for other in ROOMS.keys() - others - {room}} | {"ext/testing"}
FORBIDDEN["ext/module"] |= {"numpy"}
# Headers that a folder may include although they lie in a folder that it must not.
ALLOWED: dict[str, set[str]] = {
    "runtime": {"codegen/kernel.h"},
    "ext/tensor": {"ext/region/compile.h"},
    "ext/dispatch": {"ext/frontends/frontends.h", "ext/frontends/function_frontend.h"},
    "ext/serialize": {"ext/frontends/frontends.h", "ext/frontends/function_frontend.h"},
}

THIRD_PARTY = [
    ("numpy", re.compile(r"/numpy/")),
    ("python", re.compile(r"/Python\.h$")),
    ("assembler", re.compile(r"/(asmjit|xbyak)/")),
    ("tbb", re.compile(r"/(tbb|oneapi)/")),
]
FOLDERS = {"graph", "codegen", "runtime", "capture"}


def kind_of(path: Path, source: Path) -> tuple[str, str]:
    """What a header counts as, and the name to call it by."""
    if path.is_relative_to(source):
        inside = path.relative_to(source)
        if inside.parts[0] == "ext":
            return "/".join(inside.parts[:2]), inside.as_posix()
        if inside.parts[0] in FOLDERS:
            return inside.parts[0], inside.as_posix()
    for kind, pattern in THIRD_PARTY:
        if pattern.search(path.as_posix()):
            return kind, path.as_posix()
    return "other", path.as_posix()


def entries(build: Path) -> Iterator[list[Path]]:
    """For each object file, the files it was made from; the source comes first."""
    listing = subprocess.run(
        ["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True, check=True
    ).stdout
    files: list[Path] = []
    for line in [*listing.splitlines(), ""]:
        if line.startswith("    "):
            files.append((build / line.strip()).resolve())
        elif files:
            yield files
            files = []


def violations(build: Path, source: Path) -> tuple[int, list[str]]:
    """The number of object files looked at, and one line for each include against the layers."""
    found: set[str] = set()
    checked = 0
    for files in entries(build):
        folder, name = kind_of(files[0], source)
        if folder not in FORBIDDEN or not files[0].exists():
            continue
        checked += 1
        for header in files[1:]:
            kind, header_name = kind_of(header, source)
            if {kind, kind.split("/")[0]} & FORBIDDEN[folder] and header_name not in ALLOWED.get(folder, set()):
                found.add(f"{name}: {folder}/ must not include {kind} ({header_name})")
    return checked, sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="build directory of Ninja")
    parser.add_argument("--source", type=Path, default=Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    checked, found = violations(arguments.build.resolve(), arguments.source.resolve())
    for line in found:
        print(line, file=sys.stderr)
    print(f"layers: {checked} files checked, {len(found)} includes against the layers")
    return 1 if found or not checked else 0


if __name__ == "__main__":
    raise SystemExit(main())
