"""Run with an installed wheel by ./dev wheels: functions are captured if the package says that it captures on this version.

The argument is the processor time that the installation took, in seconds. A first speed-up comes soon after that.
"""

import importlib.metadata
import json
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import framejit as fj
import numpy as np
from framejit._api._platform import VERSIONS


SOON = 10  # seconds of processor time


@fj.jit
def hypotenuse(x, y):
    return np.sqrt(x * x + y * y)


def seconds(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


x = np.linspace(0.0, 3.0, 1_000_000)  # worth splitting among threads
fj.set_num_threads(2)
for _ in range(3):
    assert np.array_equal(hypotenuse(x, x), np.sqrt(x * x + x * x))
assert fj.__file__.startswith(sysconfig.get_path("platlib")), fj.__file__
reason = fj.unsupported_reason()
gained = "captures nothing"
if sys.version_info[:2] in VERSIONS:
    assert reason is None, reason
    assert fj.stats()["kernel_calls"] > 0, fj.stats()
    rounds = [(seconds(hypotenuse.__wrapped__, x, x), seconds(hypotenuse, x, x)) for _ in range(9)]
    plain, compiled = map(min, zip(*rounds, strict=True))
    assert compiled < plain, rounds
    gained = f"{plain / compiled:.1f} times as fast as plain Python"
    if len(sys.argv) > 1:
        used = float(sys.argv[1]) + time.process_time()
        gained += f", after {used:.1f} s of processor time, installation included"
        assert used < SOON, gained

# What it needs is inside, and said.
distribution = importlib.metadata.distribution("framejit")
needed = [requirement for requirement in distribution.requires or [] if "extra ==" not in requirement]
assert len(needed) == 1 and needed[0].startswith("numpy"), needed
outside = [line for line in Path("/proc/self/maps").read_text().splitlines() if "libtbb" in line]
assert not outside, outside
files = {path.name: path for path in distribution.files or []}
components = {row["name"] for row in json.loads(files["framejit.cdx.json"].read_text())["components"]}
assert components == {"asmjit", "xbyak", "oneTBB"}, components
licenses = {path.parent.name for path in distribution.files or [] if "third_party" in path.parts}
assert licenses == {"asmjit", "xbyak", "onetbb"}, licenses

(plugin,) = importlib.metadata.entry_points(group="pytest11", name="framejit")
assert files["_session.py"].parent.name == plugin.value == "framejit_pytest", plugin

shown = subprocess.run(
    [Path(sys.executable).parent / "framejit", "--version"], capture_output=True, text=True, check=True
)
assert shown.stdout == f"framejit {fj.__version__}\n" == f"framejit {distribution.version}\n", shown
print(f"framejit {fj.__version__} of the wheel on Python {sys.version.split()[0]}: {reason or gained}")
