"""The programs of MindSpore's tutorials, with their imports as they stand: compiled as they are plain."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.capture
PROGRAM = Path(__file__).resolve().parent / "mindspore_tutorials.py"


def run(output, **environment):
    command = [sys.executable, "-m", "framejit", "--as-mindspore", str(PROGRAM), str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr[-2000:]
    return np.load(f"{output}.npz")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return run(tmp_path_factory.mktemp("tutorials") / "compiled")


def test_as_plain(found, tmp_path):
    """To the bit, but where gradients go in: the interpreter and a graph may add these in another order."""
    plain = run(tmp_path / "plain", FRAMEJIT_DISABLE="1")
    assert sorted(found) == sorted(plain)
    for name in found:
        assert (found[name].dtype, found[name].shape) == (plain[name].dtype, plain[name].shape), name
        np.testing.assert_allclose(found[name], plain[name], rtol=1e-5, atol=1e-6, err_msg=name)
    for name in ("transformer out", "transformer free", "dynamic_shapes out5", "dynamic_shapes total3", "checkpoints out"):
        np.testing.assert_array_equal(found[name], plain[name], err_msg=name)


def test_what_the_programs_are_for(found):
    for name, count in (("quick_start losses", 4), ("mixed_precision half losses", 1)):
        assert found[name][-count:].mean() < found[name][:count].mean(), name
    np.testing.assert_array_equal(found["checkpoints out"], found["checkpoints first"])
    assert np.abs(found["custom_gradients clipped"]).max() == 1.0
    assert found["checkpoints missing"] == found["checkpoints unused"] == 0
