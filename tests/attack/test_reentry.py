"""Callbacks of every kind come back into marked functions, or change what these work on: values, errors and the order of callbacks are the plain ones."""

from __future__ import annotations

import pytest
from attack import reentry_cases, reentry_network_cases
from attack.attack_support import run

pytestmark = pytest.mark.capture

PROGRAMS = reentry_cases.PROGRAMS | reentry_network_cases.PROGRAMS

BOTH = """
import gc, sys, warnings
import numpy as np, framejit as fj


def shown(value):
    if isinstance(value, (tuple, list)):
        return [shown(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value).__name__, value.dtype.str, value.shape, np.asarray(value).tolist()
    return type(value).__name__ if type(value).__repr__ is object.__repr__ else repr(value)


def outcomes(program, mark):
    log, show_warning, found = [], warnings.showwarning, []
    names = {"np": np, "fj": fj, "log": log, "shown": shown, "mark": mark, "__name__": "attacked"}
    exec(compile(program, "attack", "exec"), names)
    for call in names["calls"]():
        try:
            outcome = shown(call())
        except BaseException as error:
            outcome = type(error).__name__, str(error)
        found.append((outcome, list(log)))
        log.clear()
    gc.callbacks.clear()
    gc.enable()
    np.seterrcall(None)
    warnings.showwarning = show_warning
    warnings.resetwarnings()
    return found


program = sys.argv[1]
plain, marked = outcomes(program, lambda f: f), outcomes(program, fj.jit)
for number, (expected, found) in enumerate(zip(plain, marked, strict=True)):
    assert repr(found) == repr(expected), f"call {number}: plain {expected}, marked {found}"
print(len(plain))
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    assert int(run(BOTH, PROGRAMS[name], FRAMEJIT_PROFITABILITY="off"))
