"""What the tests of the call path share."""

import pytest
from ext.ext_support import errors


@pytest.fixture(autouse=True)
def no_internal_errors():
    before = errors()
    yield
    assert errors() == before
