"""What all Python tests share: framejit from the build tree, and a reason to skip where nothing can be captured."""

from __future__ import annotations

import framejit
import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = framejit.unsupported_reason()
    if reason is None:
        return
    skip = pytest.mark.skip(reason=reason)
    for item in items:
        if item.get_closest_marker("capture"):
            item.add_marker(skip)
