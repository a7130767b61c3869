"""The programs of benchmarks/programs at their small size: equal to plain in everything, and captured but for known places."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from exact.same import assert_same
from framejit._reporting._events import listen

FOLDER = Path(__file__).resolve().parent.parent.parent / "benchmarks"
NAMES = sorted(path.stem for path in (FOLDER / "programs").glob("[a-z]*.py"))

# Places that end regions, beside the end of a loop that is not unrolled as a whole.
BREAKS = {
    "image": 1,  # a branch on a value
    "ising": 3,  # NumPy's generator
    "kmeans": 4,
    "life": 1,
    "nbody": 1,
    "shallow": 1,
    "signals": 5,
    "spectra": 3,
    "table": 4,
}
if np.lib.NumpyVersion(np.__version__) < "2.0.0":
    BREAKS["reaction"] = 2  # np.clip with out=, and promotion by the value of a scalar


@pytest.mark.parametrize("name", NAMES)
def test_whole_program(name, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    program = importlib.import_module("programs." + name)
    sys.modules.pop("programs." + name)
    places = set()
    stop = listen(lambda _, event: places.add(tuple(map(event.get, ("file", "line", "name", "detail")))), ["graph_breaks"])
    try:
        assert_same(program.run, lambda: program.make(*program.SIZES["small"]), calls=2)
    finally:
        stop()
    places = sorted(place[1:] for place in places if place[0] == program.__file__ and place[2] != "CapturedTooMuch")
    assert len(places) <= BREAKS.get(name, 0), places
