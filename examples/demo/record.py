"""Runs a script's ``main`` a few times and records what it calls: the time of each call, and its results.

    python record.py SCRIPT ROUNDS OUT

The script is imported, not changed. Calls from its ``main`` to its own functions go through a timer; calls between those
functions do not. OUT.json gets the times, OUT.npz the arrays of the last round.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np


class Recorder:
    """Wraps functions; keeps times of all rounds, a digest of every result, and the arrays of the last round."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}
        self.digests: dict[str, list[str]] = {}
        self.arrays: dict[str, np.ndarray] = {}

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = function(*args, **kwargs)
            self.times.setdefault(name, []).append(time.perf_counter() - start)
            parts = list(arrays_of(result))
            digest = hashlib.sha256()
            for i, part in enumerate(parts):
                digest.update(
                    repr((part.dtype.str, part.shape, part.strides)).encode() + np.ascontiguousarray(part).tobytes()
                )
                self.arrays[f"{name}.{i}"] = part
            self.digests.setdefault(name, []).append(digest.hexdigest())
            return result

        return recorded


def arrays_of(result: Any) -> Iterator[np.ndarray]:
    """The arrays and numbers in a result, in order."""
    if isinstance(result, (tuple, list)):
        for item in result:
            yield from arrays_of(item)
    else:
        yield np.asarray(result)


def load(file: Path) -> ModuleType:
    """Import a script under its own name, so that its ``main`` does not run."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    file, rounds, out = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    module = load(file)
    recorder = Recorder()
    own = {n: f for n, f in vars(module).items() if isinstance(f, FunctionType) and f.__module__ == module.__name__}
    # A `main` that sees the recorded functions; its module's name is another, so that a pattern does not match it.
    scope = {
        **vars(module),
        **{n: recorder.wrap(n, f) for n, f in own.items() if n != "main"},
        "__name__": "recorded_main",
    }
    recorded_main = FunctionType(module.main.__code__.replace(), scope)
    printed = []
    for _ in range(rounds):
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            recorded_main()
        printed.append(stream.getvalue())
    out.with_suffix(".json").write_text(
        json.dumps({"times": recorder.times, "digests": recorder.digests, "printed": printed})
    )
    np.savez(out.with_suffix(".npz"), **recorder.arrays)


if __name__ == "__main__":
    main()
