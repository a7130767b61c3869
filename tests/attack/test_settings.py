"""Settings that make no sense: a clear error or a warning, and the program goes on."""

from __future__ import annotations

import framejit as fj
import pytest
from attack.attack_support import run
from framejit._api import _config

pytestmark = pytest.mark.capture

NONSENSE = ["", "-1", "0", "9223372036854775808", "1" * 400, "nan", "\udcff\udcfe", "%s" * 30_000, "/nowhere/at/all"]
PROGRAM = """
import sys, warnings
import numpy as np
import framejit as fj
x = np.arange(100.0)
f = lambda x: np.sqrt(x * x + 1)
if not np.array_equal(fj.jit(f)(x), f(x)):
    sys.exit("wrong")
print("well")
"""


VARIABLES = sorted({field.variable for field in _config.FIELDS} | {"FRAMEJIT_STRESS", "FRAMEJIT_LOGS", "FRAMEJIT_STATS_FILE", "FRAMEJIT_TRACE"})


@pytest.mark.parametrize("variable", VARIABLES)
def test_variables(variable, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # names of files and folders among them
    for value in NONSENSE:
        assert run(PROGRAM, **{variable: value}).endswith("well\n"), value


@pytest.mark.parametrize("value", [None, -1, 2**31, 2**63, 10**30, 1.5, float("nan"), "x", b"x", [], object(), True])
def test_fields(value, monkeypatch, tmp_path):
    """What a field does not take is an error that names it, and changes nothing."""
    monkeypatch.chdir(tmp_path)
    for field in _config.FIELDS:
        name = field.name
        before = getattr(fj.config, name)
        try:
            setattr(fj.config, name, value)
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            assert name in str(error).lower(), (name, value, error)
            assert getattr(fj.config, name) == before, (name, value)
        finally:
            if getattr(fj.config, name) != before:
                setattr(fj.config, name, before)
