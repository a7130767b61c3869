"""What all Python tests share: framejit from the build tree, and a reason to skip where nothing can be captured."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

# What is captured and what of it runs must not depend on how busy the machine is. Programs that tests start inherit these.
os.environ.setdefault("FRAMEJIT_CAPTURE_TIME_LIMIT", "0")
os.environ.setdefault("FRAMEJIT_PROFITABILITY", "off")

import framejit  # noqa: E402
from framejit._api._platform import is_incomplete  # noqa: E402

HERE = Path(__file__).resolve().parent
REASON = framejit.unsupported_reason()
assert not is_incomplete(), REASON  # or the tests would be skipped
HAS_AVX512 = REASON is None and import_module("framejit._core").cpu_features()["isa"] == "avx512"
SANITIZED = hasattr(ctypes.CDLL(None), "__asan_init")  # ./dev test-sanitized

# Without the compiled half only the package and the documentation can be tested.
collect_ignore = [
    str(folder) for folder in HERE.iterdir() if REASON is not None and folder.is_dir() and folder.name != "package"
]


# A shell's background jobs ignore it, and the tests of interrupts would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_internal_errors_anywhere() -> Iterator[None]:
    """For users an internal error ends in the interpreter. Here it fails the test; one that provokes it resets the counters."""
    before = framejit.stats()["internal_errors"]
    yield
    assert framejit.stats()["internal_errors"] <= before, "an internal error"


_frozen_for: list[Path] = []


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A full collection in a test looks at what its module has made, and not at all the tests of a long run."""
    if _frozen_for != [item.path]:
        _frozen_for[:] = [item.path]
        gc.collect()
        gc.freeze()


def pytest_report_header() -> str:
    if REASON is None:
        return "framejit: captures"
    return f"framejit: plain Python, tests of capture are skipped ({REASON})"


def asks_for_avx512(item: pytest.Item) -> bool:
    """Is it the case of a test for processors that have AVX-512?"""
    return hasattr(item, "callspec") and "avx512" in item.callspec.id.split("-")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not HAS_AVX512 and asks_for_avx512(item):
            item.add_marker(pytest.mark.skip(reason="without AVX-512 the same as with AVX2"))
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(7200))
        if REASON is not None and item.get_closest_marker("capture"):
            item.add_marker(pytest.mark.skip(reason=REASON))
        if SANITIZED and (mark := item.get_closest_marker("not_sanitized")):
            item.add_marker(pytest.mark.skip(reason=mark.kwargs["reason"]))
