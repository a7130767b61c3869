"""Stress modes: rare paths made common, for tests."""

from __future__ import annotations

import re
from typing import Any

MODES = {
    "rewrite": "frames without array work are captured and spliced too",
    "break=N": "a graph ends after every N-th instruction",
    "guards": "each guard fails once",
    "verify": "regions only predict; the bytecode runs, and the state at the exit of the region is compared with the prediction",
    "losing": "compiled code runs even if it is estimated to be slower than the interpreter",
    "ends": "arrays of framejit end at a page border, so that a write past the end stops the process; stays on for all functions",
    "interp": "graphs run in the reference interpreter instead of machine code",
}


def check_stress(value: Any, where: str = "mark") -> str:
    """The comma list without blanks; raises what names the argument, what was given and what is allowed."""
    allowed = f"For {where!r}, the 'stress' must be a comma list of {list(MODES)}, but got "
    if not isinstance(value, str):
        raise TypeError(f"{allowed}{value!r} of type {type(value).__name__}.")
    tokens = [token for token in map(str.strip, value.split(",")) if token]
    for token in tokens:
        if (token not in MODES or token == "break=N") and not re.fullmatch(r"break=[1-9][0-9]{0,8}", token):
            raise ValueError(f"{allowed}{token!r}.")
    return ",".join(tokens)
