"""Random numbers are the same in each of these tests, whatever ran before."""

from __future__ import annotations

import framejit as fj
import pytest


@pytest.fixture(autouse=True)
def random_numbers_from_one_seed():
    """Weights of layers are drawn. Of one start in a hundred a short training does not find its way."""
    fj.set_seed(0)
