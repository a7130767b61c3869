"""What the tests of the call path share."""

import pytest

from framejit._api import _jit
from ext.ext_support import errors


@pytest.fixture(autouse=True)
def no_internal_errors():
    before = errors()
    yield
    assert errors() == before


@pytest.fixture(autouse=True)
def nobody_keeps_marked_functions(monkeypatch):
    """A program that imports mindspore._c_expression keeps those that were marked last, to answer questions about them."""
    monkeypatch.setattr(_jit, "on_made", [])
