"""Evaluates rows of mindspore_rows.py under one of the two packages: python mindspore_values.py PACKAGE OUTPUT.

Needs nothing of framejit, so that it runs where MindSpore is installed.
"""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
from pathlib import Path

import numpy as np


def leaves(value):
    """A result as plain data: what kind of thing, dtype, shape and bytes, for each leaf."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    if hasattr(value, "to_tuple"):
        return leaves(value.to_tuple())
    if hasattr(value, "asnumpy"):
        array = np.ascontiguousarray(value.asnumpy())
        return [("Tensor", str(value.dtype).rpartition(".")[2].lower(), array.dtype.str, tuple(value.shape), array.tobytes())]
    if isinstance(value, (bool, int, float, np.generic, np.ndarray)):
        array = np.asarray(value)
        return [("number", array.dtype.kind, array.dtype.str, array.shape, array.tobytes())]
    return [(type(value).__name__, str(value), "", (), b"")]


def helpers(base):
    """What rows call besides the package: the same for both."""

    def filled(cell):
        """The cell with the same numbers in its parameters under both packages."""
        for number, parameter in enumerate(cell.get_parameters()):
            numbers = np.random.default_rng(number).uniform(-0.5, 0.75, parameter.shape)
            if parameter.name.endswith("variance"):
                numbers = np.abs(numbers) + 0.5
            parameter.set_data(base.Tensor(numbers, parameter.dtype))
        return cell

    def trained(cell, *inputs):
        """What the cell gives while training, and its untrainable parameters afterwards."""
        return cell.set_train()(*inputs), [base.Tensor(p.asnumpy()) for p in cell.untrainable_params()]

    def gradients(cell, *inputs):
        """Of the sum of squares of all that the cell gives: for the inputs, and for the parameters."""

        def total(*inputs):
            def squares(out):
                return sum(map(squares, out)) if isinstance(out, tuple) else (out * out).sum()

            return squares(cell(*inputs))

        weights = cell.trainable_params()
        return base.value_and_grad(total, tuple(range(len(inputs))), weights or None)(*inputs)

    def gradient(call, x, *others):
        """Of the sum of squares of what is given for `x` and the others, for `x`."""

        def total(x):
            out = call(x, *others)
            return (out * out).sum()

        return base.grad(total)(x)

    def names(cell):
        """Names, shapes and whether they are trained, of the parameters."""
        return [(p.name, str(tuple(p.shape)), p.requires_grad) for p in cell.get_parameters()]

    def defaults(kind):
        """The names of the arguments of a class or function, and what they are by default."""

        def plain(value):
            if isinstance(value, (tuple, list)):
                return [plain(item) for item in value]
            if value is None or isinstance(value, (bool, int, float, str)):
                return value
            return str(value).rpartition(".")[2].lower()

        parameters = inspect.signature(kind).parameters.values()
        return [f"{p.name}={'' if p.default is p.empty else plain(p.default)}" for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]

    def steps(optimizer, *gradients):
        """The parameters of an optimizer after some steps."""
        for gradient in gradients:
            optimizer(gradient if isinstance(gradient, tuple) else (gradient,))
        return [base.Tensor(p.asnumpy()) for p in optimizer.parameters]

    def measured(metric, *batches, **words):
        """What a metric says after each batch, from none on where it says something then."""
        metric.clear()
        said = []
        for batch in batches:
            metric.update(*batch)
            said.append(metric.eval(**words))
        metric.clear()
        metric.update(*batches[-1])
        return [np.asarray(value, float) for value in [*said, metric.eval(**words)]]

    def weight(value, name="w"):
        return base.Parameter(base.Tensor(value.asnumpy()), name=name)

    def updated(primitive, operands, *others):
        """What a primitive writes into its first operands."""
        parameters = [weight(operand, f"w{i}") for i, operand in enumerate(operands)]
        primitive(*parameters, *others)
        return [base.Tensor(p.asnumpy()) for p in parameters]

    def csr(dense):
        rows, columns = np.nonzero(dense)
        starts = np.searchsorted(rows, np.arange(dense.shape[0] + 1))
        tensors = [base.Tensor(x.astype(np.int32)) for x in (starts, columns)]
        return base.CSRTensor(*tensors, base.Tensor(dense[rows, columns]), dense.shape)

    def coo(dense, dtype=np.int64):
        places = np.argwhere(dense).astype(dtype)
        return base.COOTensor(base.Tensor(places), base.Tensor(dense[tuple(places.T)]), dense.shape)

    return {"csr": csr, "coo": coo, "defaults": defaults, "filled": filled, "trained": trained, "gradient": gradient, "gradients": gradients, "names": names, "steps": steps, "updated": updated, "measured": measured, "weight": weight}


def evaluate(package, rows, inputs):
    """By row: its leaves, or the names of the classes of the error."""
    base = importlib.import_module(package)
    base.set_context(pynative_synchronize=True)  # errors are raised by the call that they are of
    names = {"ms": base, "np": np, "Tensor": base.Tensor, **{n: importlib.import_module(f"{package}.{n}") for n in ("ops", "nn", "mint")}}
    names["mnp"] = importlib.import_module(f"{package}.numpy")
    importlib.import_module(f"{package}.nn.probability.distribution")
    names.update(helpers(base))
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
    import mindspore_primitive_rows as more
    from mindspore_rows import INPUTS, ROWS

    rows = [*ROWS, *more.ROWS]
    if sys.argv[1] == "mindspore":
        rows += [*more.WITHOUT_KERNEL.values(), *more.OF_THE_COMPILER.values()]
    Path(sys.argv[2]).write_bytes(pickle.dumps(evaluate(sys.argv[1], rows, INPUTS), protocol=4))
