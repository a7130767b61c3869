"""Model: a network with its loss, optimizer and metrics."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from framejit import nn
from framejit._tensors._tensor import Tensor
from framejit.train._callback import Callback, Parameters, ProgressBar, RunContext
from framejit.train._loss_scale import LossScaleManager
from framejit.train._metrics import Loss, get_metrics


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
    metrics : dict of str to Metric, or set of names, optional
        For `eval` and `fit`; the names are those of `framejit.train.names`.
    eval_network : Cell, optional
        What `eval` calls, else `WithEvalCell` of the network and its loss.
    eval_indexes : list of int, optional
        Where the loss, the predictions and the labels are in what `eval_network` gives; None: metrics get all of it.
    amp_level, boost_level : {'O0'}
        There is nothing else on a CPU.
    loss_scale_manager : LossScaleManager, optional
        The loss is scaled while it is differentiated: `FixedLossScaleManager`, `DynamicLossScaleManager`.

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
        self,
        network: Any,
        loss_fn: Any = None,
        optimizer: Any = None,
        metrics: Any = None,
        eval_network: Any = None,
        eval_indexes: list[int] | None = None,
        amp_level: str = "O0",
        boost_level: str = "O0",
        loss_scale_manager: LossScaleManager | None = None,
    ) -> None:
        if not isinstance(network, nn.Cell):
            raise TypeError(f"For 'Model', the 'network' must be a Cell, but got {type(network).__name__}.")
        for name, value in (("amp_level", amp_level), ("boost_level", boost_level)):
            if value != "O0":
                raise ValueError(f"For 'Model', the {name!r} must be 'O0' on a CPU, but got {value!r}.")
        if loss_scale_manager is not None and not isinstance(loss_scale_manager, LossScaleManager):
            raise TypeError(
                f"For 'Model', the 'loss_scale_manager' must be a LossScaleManager, but got {type(loss_scale_manager).__name__}."
            )
        if eval_indexes is not None and (not isinstance(eval_indexes, list) or len(eval_indexes) != 3):
            raise ValueError(f"For 'Model', the 'eval_indexes' must be a list of three, but got {eval_indexes!r}.")
        self._network, self._loss_fn, self._optimizer = network, loss_fn, optimizer
        self._metrics = get_metrics(metrics) or {}
        self._scale = loss_scale_manager
        self._step: Any = None
        self._eval_network, self._eval_indexes = eval_network, eval_indexes

    @property
    def train_network(self) -> Any:
        """The step: `TrainOneStepCell` of the network with its loss, or with a scaled one."""
        if self._step is None:
            if self._optimizer is None:
                if self._loss_fn is None and hasattr(self._network, "optimizer"):
                    return self._network
                raise ValueError("For 'Model.train', the model needs an 'optimizer'.")
            with_loss = self._network
            if self._loss_fn is not None:
                with_loss = nn.WithLossCell(self._network, self._loss_fn)
                with_loss.__dict__["_jit_config"] = self._network.__dict__["_jit_config"]  # its calls compile so
            update = None if self._scale is None else self._scale.get_update_cell()
            if update is not None:
                self._step = nn.TrainOneStepWithLossScaleCell(with_loss, self._optimizer, update)
            else:
                scale = None if self._scale is None else self._scale.get_loss_scale()
                self._step = nn.TrainOneStepCell(with_loss, self._optimizer, scale)
        return self._step

    @property
    def eval_network(self) -> Any:
        """What an evaluation calls: it gives (loss, output, label), or what the metrics take."""
        if self._eval_network is None:
            if self._loss_fn is None:
                raise ValueError("For 'Model.eval', the model needs a 'loss_fn' or an 'eval_network'.")
            self._eval_network, self._eval_indexes = nn.WithEvalCell(self._network, self._loss_fn), [0, 1, 2]
        return self._eval_network

    @property
    def predict_network(self) -> Any:
        """What `predict` calls."""
        return self._network

    def train(
        self,
        epoch: int,
        train_dataset: Any,
        callbacks: Any = None,
        dataset_sink_mode: bool = False,
        sink_size: int = -1,
        initial_epoch: int = 0,
        progress: bool | None = None,
    ) -> None:
        """Train for a number of passes over a dataset.

        An interruption (KeyboardInterrupt) leaves the network as the last whole step left it; callbacks are told that training ends, so
        that `ModelCheckpoint` saves. Ctrl-C waits for the end of a step; a second one does not.

        Parameters
        ----------
        epoch : int
            How many passes, or with `initial_epoch` the number of the last one.
        train_dataset : framejit.dataset.Dataset or other iterable with a length
            Batches, the arguments of the network with its loss.
        callbacks : Callback or list of Callback, optional
        dataset_sink_mode, sink_size
            Taken and ignored.
        initial_epoch : int
            How many passes there were before.
        progress : bool, optional
            Whether a progress bar is shown. By default on a terminal, where no callback is given.
        """
        self._trained("train", epoch, train_dataset, callbacks, initial_epoch, progress)

    def fit(
        self,
        epoch: int,
        train_dataset: Any,
        valid_dataset: Any = None,
        valid_frequency: Any = 1,
        callbacks: Any = None,
        dataset_sink_mode: bool = False,
        valid_dataset_sink_mode: bool = False,
        sink_size: int = -1,
        initial_epoch: int = 0,
        progress: bool | None = None,
    ) -> None:
        """`train`, with an evaluation after some passes: its measures, and the mean loss as 'eval_loss', are what callbacks see as
        ``eval_results``.

        Parameters
        ----------
        valid_dataset : framejit.dataset.Dataset or other iterable, optional
            For the evaluation.
        valid_frequency : int or list of int
            The number of passes between two evaluations, or the numbers of the passes after which to evaluate.
        """
        if valid_dataset is not None:
            if not self._metrics:
                raise ValueError("For 'Model.fit', the model needs 'metrics'.")
            listed = isinstance(valid_frequency, (list, tuple))
            for number in valid_frequency if listed else [valid_frequency]:
                if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                    raise ValueError(
                        f"For 'Model.fit', the 'valid_frequency' must be a positive int or a list of such, but got {valid_frequency!r}."
                    )

        def evaluate(state: Parameters, given: list[Callback]) -> None:
            number = state.cur_epoch_num
            if number in valid_frequency if listed else (number - initial_epoch) % valid_frequency == 0:
                own = Parameters(network=self._network, cur_epoch_num=number)
                state.metrics = self._evaluated(valid_dataset, given, own, loss := Loss())
                state.eval_results = {**state.metrics, "eval_loss": loss.eval()}

        check = None if valid_dataset is None else evaluate
        self._trained("fit", epoch, train_dataset, callbacks, initial_epoch, progress, check)

    def _trained(
        self,
        name: str,
        epoch: int,
        dataset: Any,
        callbacks: Any,
        initial_epoch: int,
        progress: bool | None,
        evaluate: Any = None,
    ) -> None:
        for what, number, least in (("epoch", epoch, 1), ("initial_epoch", initial_epoch, 0)):
            if not isinstance(number, int) or isinstance(number, bool):
                raise TypeError(
                    f"For 'Model.{name}', the argument {what!r} must be int, but got {type(number).__name__}."
                )
            if number < least:
                raise ValueError(
                    f"For 'Model.{name}', the argument {what!r} must be at least {least}, but got {number}."
                )
        if initial_epoch >= epoch:
            raise ValueError(
                f"For 'Model.{name}', 'epoch' must be greater than 'initial_epoch', but got {epoch} and {initial_epoch}."
            )
        step = self.train_network
        size = _size(name, dataset)
        given = _listed(name, callbacks)
        if progress or (progress is None and not given and sys.stderr.isatty()):
            given.append(ProgressBar())
        state = Parameters(
            network=self._network, train_network=step, optimizer=getattr(step, "optimizer", None),
            loss_fn=self._loss_fn, epoch_num=epoch - initial_epoch, initial_epoch=initial_epoch, batch_num=size, cur_epoch_num=initial_epoch,
            cur_step_num=0, net_outputs=None, train_dataset=dataset, list_callback=given, mode="train", dataset_sink_mode=False,
        )  # fmt: skip
        context, whole = RunContext(state), _Whole()
        with _training(step, True), whole.installed():
            try:
                _tell(given, "on_train_begin", context)
                for number in range(initial_epoch + 1, epoch + 1):
                    state.cur_epoch_num = number
                    _tell(given, "on_train_epoch_begin", context)
                    for batch in dataset:
                        arguments = self._checked(name, batch)
                        state.train_dataset_element = arguments
                        _tell(given, "on_train_step_begin", context)
                        with whole:
                            state.net_outputs = step(*arguments)
                            state.cur_step_num += 1
                        self._rescale(state.net_outputs)
                        _tell(given, "on_train_step_end", context)
                        if context.get_stop_requested():
                            break
                    if evaluate is not None:
                        evaluate(state, given)
                    _tell(given, "on_train_epoch_end", context)
                    state.pop("metrics", None)
                    state.pop("eval_results", None)
                    if context.get_stop_requested():
                        break
            finally:
                _tell_all(given, "on_train_end", context)

    def _checked(self, name: str, batch: Any) -> list[Any]:
        arguments = _arguments(batch)
        if self._loss_fn is not None and len(arguments) != 2:
            raise ValueError(
                f"For 'Model.{name}', a batch must be data and labels where the model has a 'loss_fn', but got {len(arguments)} columns."
            )
        return arguments

    def _rescale(self, outputs: Any) -> None:
        if self._scale is not None and isinstance(outputs, tuple) and self._scale.get_drop_overflow_update():
            self._scale.update_loss_scale(bool(outputs[1].asnumpy().all()))

    def eval(self, valid_dataset: Any, callbacks: Any = None, dataset_sink_mode: bool = False) -> dict[str, Any]:
        """The metrics over a dataset; callbacks are told of each batch."""
        if not self._metrics:
            raise ValueError("For 'Model.eval', the model needs 'metrics'.")
        state = Parameters(network=self._network, cur_epoch_num=0)
        return self._evaluated(valid_dataset, _listed("eval", callbacks), state)

    def _evaluated(
        self, dataset: Any, given: list[Callback], state: Parameters, loss: Loss | None = None
    ) -> dict[str, Any]:
        network = self.eval_network
        state.update(
            eval_network=network, valid_dataset=dataset, batch_num=_size("eval", dataset), mode="eval", cur_step_num=0,
            net_outputs=None, list_callback=given, dataset_sink_mode=False,
        )  # fmt: skip
        context = RunContext(state)
        for metric in self._metrics.values():
            metric.clear()
        with _training(network, False):
            _tell(given, "on_eval_begin", context)
            _tell(given, "on_eval_epoch_begin", context)
            for batch in dataset:
                state.cur_step_num += 1
                state.eval_dataset_element = arguments = _arguments(batch)
                _tell(given, "on_eval_step_begin", context)
                state.net_outputs = outputs = network(*arguments)
                _tell(given, "on_eval_step_end", context)
                outputs = outputs if isinstance(outputs, tuple) else (outputs,)
                self._measure(outputs)
                if loss is not None:
                    loss.update(outputs[self._eval_indexes[0] if self._eval_indexes else 0])
                if context.get_stop_requested():
                    break
            _tell(given, "on_eval_epoch_end", context)
            state.metrics = {name: metric.eval() for name, metric in self._metrics.items()}
            _tell(given, "on_eval_end", context)
        return state.metrics

    def _measure(self, outputs: tuple[Any, ...]) -> None:
        at = self._eval_indexes
        if at is not None and max(at) >= len(outputs):
            raise ValueError(
                f"For 'Model.eval', the 'eval_network' must give as much as 'eval_indexes' {at} say, but gave {len(outputs)}."
            )
        for metric in self._metrics.values():
            if at is None:
                metric.update(*outputs)
            else:
                metric.update(*([outputs[at[0]]] if isinstance(metric, Loss) else [outputs[at[1]], outputs[at[2]]]))

    def predict(self, *predict_data: Any) -> Any:
        """What the network gives, not training."""
        with _training(self._network, False):
            return self._network(*predict_data)


def _arguments(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        batch = list(batch.values())
    return [x if isinstance(x, Tensor) else Tensor(x) for x in batch]


def _size(name: str, dataset: Any) -> int:
    """How many batches."""
    if not hasattr(dataset, "__len__"):
        raise TypeError(
            f"For 'Model.{name}', a dataset must have a length and start again for each pass, but got {type(dataset).__name__}."
        )
    size = len(dataset)
    if not size:
        raise ValueError(f"For 'Model.{name}', the dataset has no batch.")
    return size


def _listed(name: str, callbacks: Any) -> list[Callback]:
    given = [callbacks] if isinstance(callbacks, Callback) else list(callbacks or [])
    for callback in given:
        if not isinstance(callback, Callback):
            raise TypeError(f"For 'Model.{name}', a callback must be a Callback, but got {type(callback).__name__}.")
    return given


def _tell(callbacks: list[Callback], event: str, context: RunContext) -> None:
    for callback in callbacks:
        getattr(callback, event)(context)


def _tell_all(callbacks: list[Callback], event: str, context: RunContext) -> None:
    """Also those after one that raises; the first error is raised then."""
    for at, callback in enumerate(callbacks):
        try:
            getattr(callback, event)(context)
        except BaseException:
            _tell_all(callbacks[at + 1 :], event, context)
            raise


class _Whole:
    """As a context: Ctrl-C waits until it is left, the first time, so that what is written one by one is written whole. That holds while
    the handler is `installed`.
    """

    def __init__(self) -> None:
        self._inside = False
        self._held: tuple[int, Any] | None = None

    def __enter__(self) -> None:
        self._inside = True

    def __exit__(self, *_: Any) -> None:
        self._inside = False
        if self._held is not None:
            held, self._held = self._held, None
            self._handler(*held)

    def _handle(self, number: int, frame: Any) -> None:
        if self._inside and self._held is None:
            self._held = (number, frame)
        else:
            self._handler(number, frame)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Once for many contexts; other threads than the main one get no signals."""
        self._handler: Any = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(self._handler):
            yield
            return
        own = self._handle  # the same object each time
        signal.signal(signal.SIGINT, own)
        try:
            yield
        finally:
            if signal.getsignal(signal.SIGINT) is own:
                signal.signal(signal.SIGINT, self._handler)


@contextlib.contextmanager
def _training(cell: Any, mode: bool) -> Iterator[None]:
    """Sets it for the cells, and afterwards what each had before."""
    before = [(one, one.training) for _, one in cell.cells_and_names()]
    try:
        cell.set_train(mode)
        yield
    finally:
        for one, was in before:
            one.training = was
