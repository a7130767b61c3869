"""Internal errors are errors in these tests."""

from __future__ import annotations

import framejit as fj
import pytest


@pytest.fixture(autouse=True)
def no_internal_errors():
    before = fj.stats()["internal_errors"]
    yield
    assert fj.stats()["internal_errors"] == before
