"""What is in the disk cache, for ``python -m framejit cache``; the compiled half reads and writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# The names that runtime/disk_cache.cpp gives. Nothing else is touched, whatever folder was chosen.
_FOLDERS, _FILES, _UNFINISHED = "framejit-*", "*.kernel", ".new-*"


class Contents(NamedTuple):
    """What a folder holds."""

    files: int
    bytes: int
    builds: int


def _folders(folder: Path) -> Iterator[Path]:
    return (path for path in folder.glob(_FOLDERS) if path.is_dir() and not path.is_symlink())


def contents(folder: Path) -> Contents:
    """Count the files in a folder, their bytes, and the builds and processors that they were made for."""
    sizes = [[file.stat().st_size for file in build.glob(_FILES)] for build in _folders(folder)]
    return Contents(sum(map(len, sizes)), sum(map(sum, sizes)), len(sizes))


def clear(folder: Path) -> Contents:
    """Remove all of them from a folder; returns what there was."""
    found = contents(folder)
    for build in list(_folders(folder)):
        for pattern in (_FILES, _UNFINISHED):
            for file in list(build.glob(pattern)):
                file.unlink(missing_ok=True)
        if not any(build.iterdir()):
            build.rmdir()
    return found
