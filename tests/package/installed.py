"""Run with an installed wheel by ./dev wheels: functions are captured if the package says that it captures on this version."""

import sys
import sysconfig

import framejit as fj
import numpy as np
from framejit._api._platform import VERSIONS


@fj.jit
def hypotenuse(x, y):
    return np.sqrt(x * x + y * y)


x = np.linspace(0.0, 3.0, 1000)
for _ in range(3):
    assert np.array_equal(hypotenuse(x, x), np.sqrt(x * x + x * x))
assert fj.__file__.startswith(sysconfig.get_path("platlib")), fj.__file__
reason = fj.unsupported_reason()
if sys.version_info[:2] in VERSIONS:
    assert reason is None, reason
    assert fj.stats()["kernel_calls"] > 0, fj.stats()
print(f"framejit {fj.__version__} of the wheel on Python {sys.version.split()[0]}: {reason or 'captures'}")
