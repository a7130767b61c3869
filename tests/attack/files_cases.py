"""What test_files.py runs in processes of their own: files of graphs whose numbers are changed, their checksums right.

Each is refused, or loaded and called: no memory is read or written outside of its arrays, which ends the process sooner or later.
"""

from __future__ import annotations

import faulthandler
import json
import random
import re
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import framejit as fj
import numpy as np
from framejit import ops
from framejit._files import _files

MEMORY = 3 << 30
SECONDS = 20
HUGE = [2**62, 2**62 - 1, 2**61, 2**60 + 1, 2**54 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64]
SMALL = [0, 1, 2, 3, 7, 8, 9, 63, 64, 255, 1024]
NUMBER = re.compile(r"(?<![\w.%])\d+(?![\w.])")
X = np.arange(24.0).reshape(4, 6)


def gathers(x: np.ndarray, at: np.ndarray) -> Any:
    return x[at], np.take(x, at, axis=1), x[1:3][at - 1]


def views(x: np.ndarray) -> Any:
    y = x * 2
    return y[::2, 1:], y.T.reshape(3, 8), y[None] + x[:, None], np.broadcast_to(x, (2, 4, 6)) + 1, y.T[1:3]


def writes(x: np.ndarray) -> Any:
    y = np.zeros((4, 6))
    y[1:3, ::2] = x[:2, :3]
    y.T[0] += x[:, 1]
    return y, y[1:].sum(axis=0)


def reduces(x: np.ndarray) -> Any:
    return x.sum(), x.mean(axis=0), x.max(axis=1), np.cumsum(x, axis=1), np.argmax(x, axis=0), np.sort(x, axis=0), x.std()


def products(x: np.ndarray) -> Any:
    y = x.reshape(2, 2, 6)
    return x @ x.T, y @ np.swapaxes(y, 1, 2), x @ x[0], np.concatenate((x, x)), np.diff(x, axis=0)


def convolves(x: fj.Tensor, w: fj.Tensor) -> Any:
    return ops.conv2d(x, w, pad_mode="pad", padding=1, stride=2), ops.max_pool2d(x, 2), ops.conv2d(x[:, :, 1:], w, dilation=2)


def attends(q: fj.Tensor, k: fj.Tensor) -> Any:
    scores = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) / 2.0, -1)
    return ops.topk(scores, 2), ops.matmul(scores, k), ops.one_hot(ops.argmax(scores, -1), 5)


def image(*shape: int) -> fj.Tensor:
    return fj.Tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gathers": (gathers, (X, np.array([1, 2, 1]))),
    "views": (views, (X,)),
    "writes": (writes, (X,)),
    "reduces": (reduces, (X,)),
    "products": (products, (X,)),
    "convolves": (convolves, (image(2, 2, 8, 8), image(3, 2, 3, 3))),
    "attends": (attends, (image(2, 3, 4), image(2, 3, 4))),
}


def changed(header: dict[str, Any], chance: random.Random) -> bytes:
    """The header with other numbers in one to three places."""
    text = json.dumps(header)
    places = list(NUMBER.finditer(text))
    for place in sorted(chance.sample(places, chance.choice((1, 1, 1, 2, 3))), key=lambda m: -m.start()):
        number = chance.choice((*HUGE, *HUGE, chance.choice(SMALL), int(place[0]) + 1, int(place[0]) * 2))
        sign = chance.choice(("", "", "", "-"))
        text = text[: place.start()] + f"{sign}{number}" + text[place.end() :]
    return text.encode()


def attempt(path: Path, args: tuple[Any, ...]) -> None:
    """Load and call, compiled and not; any error will do."""
    try:
        graph = fj.load(path)
    except Exception:
        return
    for run in (graph, fj.jit(lambda *args: graph(*args))):
        try:
            repr(run(*args))
        except Exception:
            pass
    with fj.disable():
        try:
            repr(graph(*args))
        except Exception:
            pass


def main(folder: str, name: str, count: int, seed: int) -> None:
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    function, args = FUNCTIONS[name]
    path = Path(folder) / f"{name}.mindir"
    fj.export(function, *args, file_name=path)
    fj.load(path)(*args)
    header, data = _files.header_and_data(_files.unsealed(path.read_bytes(), "graph", 1))
    rest, chance = bytes(data), random.Random(seed)
    for i in range(count):
        text = changed(header, chance)
        path.write_bytes(b"".join(_files.sealed("graph", 1, [len(text).to_bytes(8, "little"), text, rest])))
        print(i, flush=True)
        signal.alarm(SECONDS)
        attempt(path, args)
        signal.alarm(0)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
