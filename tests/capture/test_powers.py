"""x ** 0.5, x ** 2 and x ** 3 of floats in loops: the bits of the C library's pow, which rounds in two ways."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.capture

PROGRAM = """
import math
import sys

import numpy as np

import framejit as fj
from framejit import _core

fj.config.cpu = sys.argv[1]
_core.set_widen_after(int(sys.argv[2]))
scope = {}
rng = np.random.default_rng(5)
for exponent in (0.5, 2.0, 3.0):
    exec(f"def powers(x, out):\\n    for i in range(len(x)):\\n        out[i] = x[i] ** {exponent}", scope)
    marked = fj.jit(scope["powers"])
    for x in (rng.random(40_003) * 4, np.exp(rng.uniform(-25, 25, 20_001)), np.arange(3000) * 0.25):
        out = np.zeros(len(x))
        marked(x, out)
        marked(x, out)
        expected = np.array([math.pow(number, exponent) for number in x.tolist()])
        assert out.tobytes() == expected.tobytes(), (exponent, np.flatnonzero(out != expected)[:5])
print(math.pow(float.fromhex("0x1.2ef9b3bf3f136p+1"), 0.5).hex())
"""


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "not fused"])
@pytest.mark.parametrize("rounds", [0, 10**9], ids=["vectors", "numbers"])
@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_bits_of_the_c_library(isa, rounds, fused):
    """glibc takes fused operations if the processor has them, and is told here that it has none."""
    env = dict(os.environ)
    if not fused:
        env["GLIBC_TUNABLES"] = "glibc.cpu.hwcaps=-FMA,-FMA4,-FMA_Usable,-AVX2,-AVX2_Usable"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, isa, str(rounds)], capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr
    if sys.platform == "linux" and os.confstr("CS_GNU_LIBC_VERSION"):
        expected = "0x1.89db69feb00b5p+0" if fused else "0x1.89db69feb00b4p+0"
        assert done.stdout.split()[-1] == expected
