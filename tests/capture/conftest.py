"""Support modules of these tests are imported by name."""

import itertools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=itertools.product(["avx2", "avx512"], ["numbers", "vectors"]), ids="-".join)
def kernels(request, monkeypatch):
    """Gives "numbers" or "vectors": whether a round is computed by itself, or several at once from the first run on."""
    import framejit as fj
    from framejit import _core

    cpu, lanes = request.param
    monkeypatch.setattr(fj.config, "cpu", cpu)
    monkeypatch.setattr(fj.config, "profitability", "off" if lanes == "vectors" else "estimate")
    before = _core.set_widen_after(1 << 60)
    yield lanes
    _core.set_widen_after(before)
