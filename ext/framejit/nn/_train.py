"""Cells that train: a step of a network and its optimizer; evaluation."""

from __future__ import annotations

from typing import Any

from framejit import ops
from framejit._grad import make_quiet, value_and_grad
from framejit.nn._cell import Cell


class TrainOneStepCell(Cell):
    """A step: the loss, the gradients of the optimizer's parameters, and their update, as one graph where the network is one.

    Parameters
    ----------
    network : Cell
        Gives the loss.
    optimizer : Cell
        Is called with the gradients of its `parameters`.
    sens : float, optional
        The gradients are multiplied by it.
    return_grad : bool
        The result is (loss, {name: gradient}).

    Examples
    --------
    >>> import framejit as fj
    >>> net = fj.nn.WithLossCell(fj.nn.Dense(1, 1, "ones", has_bias=False), fj.nn.MSELoss())
    >>> step = fj.nn.TrainOneStepCell(net, fj.nn.SGD(net.trainable_params(), 0.1))
    >>> x, y = fj.Tensor([[1.0]]), fj.Tensor([[3.0]])
    >>> [round(step(x, y).item(), 4) for _ in range(3)]
    [4.0, 2.56, 1.6384]
    """

    def __init__(self, network: Cell, optimizer: Any, sens: float | None = None, return_grad: bool = False) -> None:
        super().__init__(auto_prefix=False)
        if sens == 0:
            raise ValueError("For 'TrainOneStepCell', the argument 'sens' must not be 0.")
        self.network, self.optimizer = network, optimizer
        self.weights = optimizer.parameters
        self.sens, self.return_grad = sens, return_grad
        network.set_grad()
        self.grad = value_and_grad(network, None, self.weights)
        self.names = tuple([weight.name for weight in self.weights])
        self.step = make_quiet(_step, (network._jit_config or {}).get("jit_level") or "O0")

    def construct(self, *inputs: Any) -> Any:
        """Take a step; gives the loss."""
        return self.step(self, *inputs)


def _step(cell: TrainOneStepCell, *inputs: Any) -> Any:
    loss, gradients = cell.grad(*inputs)
    if cell.sens is not None:
        gradients = tuple([gradient * cell.sens for gradient in gradients])
    cell.optimizer(gradients)
    return (loss, dict(zip(cell.names, gradients))) if cell.return_grad else loss


class WithEvalCell(Cell):
    """(loss, output, label) of a network."""

    def __init__(self, network: Cell, loss_fn: Any, add_cast_fp32: bool = False) -> None:
        super().__init__(auto_prefix=False)
        self._network, self._loss_fn, self.add_cast_fp32 = network, loss_fn, add_cast_fp32

    def construct(self, data: Any, label: Any) -> Any:
        """The loss, what the network gives, and the label."""
        out = self._network(data)
        if self.add_cast_fp32:
            out = ops.cast(out, out.dtype if out.dtype.name == "float64" else "float32")
        return self._loss_fn(out, label), out, label
