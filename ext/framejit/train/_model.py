"""Model: a network with its loss, optimizer and metrics."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from framejit import nn
from framejit._tensor import Tensor
from framejit.train._callback import Callback, Parameters, ProgressBar, RunContext
from framejit.train._metrics import NAMES, Loss, Metric


class Model:
    """Trains, evaluates and runs a network.

    Parameters
    ----------
    network : Cell
        With `loss_fn` None it gives the loss itself.
    loss_fn : Cell or callable, optional
        Of what the network gives, and of the label.
    optimizer : Cell, optional
        For `train`.
    metrics : dict of str to Metric, or set of {'accuracy', 'acc', 'loss'}, optional
        For `eval`.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> x = np.linspace(-1, 1, 32, dtype="float32")[:, None]
    >>> data = fj.dataset.NumpySlicesDataset((x, 3 * x), shuffle=False).batch(8)
    >>> net = fj.nn.Dense(1, 1)
    >>> model = fj.Model(net, fj.nn.MSELoss(), fj.nn.SGD(net.trainable_params(), 0.5), metrics={"loss"})
    >>> model.train(20, data)
    >>> round(net.weight.item(), 2), model.eval(data)["loss"] < 0.001
    (3.0, True)
    """

    def __init__(
        self, network: Any, loss_fn: Any = None, optimizer: Any = None, metrics: Any = None, eval_network: Any = None
    ) -> None:
        if not isinstance(network, nn.Cell):
            raise TypeError(f"For 'Model', the 'network' must be a Cell, but got {type(network).__name__}.")
        self._network, self._loss_fn, self._optimizer = network, loss_fn, optimizer
        self._metrics = self._named(metrics)
        self._step: Any = None
        self._eval_network = eval_network

    @staticmethod
    def _named(metrics: Any) -> dict[str, Metric]:
        if metrics is None:
            return {}
        if isinstance(metrics, dict):
            found = dict(metrics)
        else:
            unknown = [name for name in metrics if name not in NAMES]
            if unknown:
                raise KeyError(f"For 'Model', the metrics {unknown} are not known; there are: {sorted(NAMES)}.")
            found = {name: NAMES[name]() for name in metrics}
        for name, metric in found.items():
            if not isinstance(metric, Metric):
                raise TypeError(f"For 'Model', the metric {name!r} must be a Metric, but got {type(metric).__name__}.")
        return found

    @property
    def train_network(self) -> Any:
        """The step: `TrainOneStepCell` of the network with its loss."""
        if self._step is None:
            if self._optimizer is None:
                raise ValueError("For 'Model.train', the model needs an 'optimizer'.")
            with_loss = self._network
            if self._loss_fn is not None:
                with_loss = nn.WithLossCell(self._network, self._loss_fn)
                with_loss.__dict__["_jit_config"] = self._network.__dict__["_jit_config"]  # its calls compile so
            self._step = nn.TrainOneStepCell(with_loss, self._optimizer)
        return self._step

    def train(
        self,
        epoch: int,
        train_dataset: Any,
        callbacks: Any = None,
        dataset_sink_mode: bool = False,
        progress: bool | None = None,
    ) -> None:
        """Train for so many passes over a dataset.

        An interruption (KeyboardInterrupt) leaves the network as the last whole step left it; callbacks are told that training ends, so
        that `ModelCheckpoint` saves.

        Parameters
        ----------
        epoch : int
            How many passes.
        train_dataset : framejit.dataset.Dataset or iterable
            Batches, the arguments of the network with its loss.
        callbacks : Callback or list of Callback, optional
        dataset_sink_mode : bool
            Taken and ignored.
        progress : bool, optional
            Whether a progress bar is shown. By default on a terminal, where no callback is given.
        """
        if not isinstance(epoch, int) or isinstance(epoch, bool):
            raise TypeError(f"For 'Model.train', the argument 'epoch' must be int, but got {type(epoch).__name__}.")
        if epoch < 1:
            raise ValueError(f"For 'Model.train', the argument 'epoch' must be positive, but got {epoch}.")
        step = self.train_network
        given = [callbacks] if isinstance(callbacks, Callback) else list(callbacks or [])
        if progress or (progress is None and not given and sys.stderr.isatty()):
            given.append(ProgressBar())
        size = len(train_dataset)
        state = Parameters(
            network=self._network, train_network=step, optimizer=self._optimizer, loss_fn=self._loss_fn, epoch_num=epoch,
            batch_num=size, cur_epoch_num=0, cur_step_num=0, net_outputs=None, train_dataset=train_dataset,
        )  # fmt: skip
        context = RunContext(state)

        def tell(event: str) -> None:
            for callback in given:
                getattr(callback, event)(context)

        with _training(step, True):
            tell("on_train_begin")
            try:
                for number in range(1, epoch + 1):
                    state.cur_epoch_num = number
                    tell("on_train_epoch_begin")
                    for batch in train_dataset:
                        tell("on_train_step_begin")
                        state.net_outputs = step(*_arguments(batch))
                        state.cur_step_num += 1
                        tell("on_train_step_end")
                        if context.get_stop_requested():
                            return
                    tell("on_train_epoch_end")
            finally:
                tell("on_train_end")

    def eval(self, valid_dataset: Any, callbacks: Any = None, dataset_sink_mode: bool = False) -> dict[str, float]:
        """The metrics over a dataset."""
        if not self._metrics:
            raise ValueError("For 'Model.eval', the model needs 'metrics'.")
        if self._eval_network is None:
            if self._loss_fn is None:
                raise ValueError("For 'Model.eval', the model needs a 'loss_fn' or an 'eval_network'.")
            self._eval_network = nn.WithEvalCell(self._network, self._loss_fn)
        for metric in self._metrics.values():
            metric.clear()
        with _training(self._eval_network, False):
            for batch in valid_dataset:
                loss, out, label = self._eval_network(*_arguments(batch))
                for metric in self._metrics.values():
                    metric.update(*((loss,) if isinstance(metric, Loss) else (out, label)))
        return {name: metric.eval() for name, metric in self._metrics.items()}

    def predict(self, *predict_data: Any) -> Any:
        """What the network gives, not training."""
        with _training(self._network, False):
            return self._network(*predict_data)


def _arguments(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        batch = list(batch.values())
    return [x if isinstance(x, Tensor) else Tensor(x) for x in batch]


@contextlib.contextmanager
def _training(cell: Any, mode: bool) -> Iterator[None]:
    """Sets it for the cells, and afterwards what each had before."""
    before = [(one, one.training) for _, one in cell.cells_and_names()]
    cell.set_train(mode)
    try:
        yield
    finally:
        for one, was in before:
            one.training = was
