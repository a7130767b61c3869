"""The programs of benchmarks/programs at their small size: equal to plain in everything, and captured but for known places."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from exact.same import assert_same
from framejit._events import listen

FOLDER = Path(__file__).resolve().parent.parent.parent / "benchmarks"
NAMES = sorted(path.stem for path in (FOLDER / "programs").glob("[a-z]*.py"))

# Places that end regions, beside the end of a loop that is not unrolled as a whole.
BREAKS = {
    "cavity": 1,  # division by a float that is known only at run time
    "image": 1,  # a branch on a value
    "ising": 3,  # NumPy's generator
    "kmeans": 3,
    "life": 1,
    "nbody": 1,
    "shallow": 1,
    "signals": 4,
    "spectra": 1,
    "table": 4,
}


@pytest.mark.parametrize("name", NAMES)
def test_whole_program(name, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    program = importlib.import_module("programs." + name)
    sys.modules.pop("programs." + name)
    places = set()
    stop = listen(lambda _, event: places.add((event["line"], event["name"], event["detail"])), ["graph_breaks"])
    try:
        assert_same(program.run, lambda: program.make(*program.SIZES["small"]), calls=2)
    finally:
        stop()
    places = sorted(place for place in places if place[1] != "CapturedTooMuch")
    assert len(places) <= BREAKS.get(name, 0), places
