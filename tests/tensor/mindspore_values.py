"""Evaluates rows of mindspore_rows.py under one of the two packages: python mindspore_values.py PACKAGE OUTPUT.

Needs nothing of framejit, so that it runs where MindSpore is installed.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path

import numpy as np


def leaves(value):
    """A result as plain data: what kind of thing, dtype, shape and bytes, for each leaf."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    if hasattr(value, "asnumpy"):
        array = np.ascontiguousarray(value.asnumpy())
        return [("Tensor", str(value.dtype).rpartition(".")[2].lower(), array.dtype.str, tuple(value.shape), array.tobytes())]
    if isinstance(value, (bool, int, float, np.generic)):
        array = np.asarray(value)
        return [("number", array.dtype.kind, array.dtype.str, (), array.tobytes())]
    return [(type(value).__name__, str(value), "", (), b"")]


def evaluate(package, rows, inputs):
    """By row: its leaves, or the names of the classes of the error."""
    base = importlib.import_module(package)
    base.set_context(pynative_synchronize=True)  # errors are raised by the call that they are of
    names = {"ms": base, "np": np, "Tensor": base.Tensor, **{n: importlib.import_module(f"{package}.{n}") for n in ("ops", "nn", "mint")}}
    names["mnp"] = importlib.import_module(f"{package}.numpy")
    importlib.import_module(f"{package}.nn.probability.distribution")
    out = {}
    for row in rows:
        try:
            given = {name: base.Tensor(array.copy()) for name, array in inputs.items()}
            out[row] = leaves(eval(row, {**names, **given}))
        except Exception as error:  # noqa: BLE001
            out[row] = ("error", [kind.__name__ for kind in type(error).__mro__], str(error)[:300])
    return out


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    from mindspore_rows import INPUTS, ROWS

    Path(sys.argv[2]).write_bytes(pickle.dumps(evaluate(sys.argv[1], ROWS, INPUTS), protocol=4))
