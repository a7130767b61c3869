"""Callbacks that look at what training and evaluations measure: they stop, slow down, keep or restore."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from framejit import ops
from framejit._files._checkpoint import load_checkpoint, save_checkpoint
from framejit._tensors._parameter import Parameter
from framejit._tensors._tensor import Tensor
from framejit.train._callback import Callback, RunContext

_SMALLER_IS_BETTER = (
    *("eval_loss", "hausdorff_distance", "loss", "mae", "mean_surface_distance", "mse", "perplexity"),
    "root_mean_square_distance",
)
_EVENTS = tuple(
    f"on_{kind}_{event}"
    for kind in ("train", "eval")
    for event in ("begin", "epoch_begin", "step_begin", "step_end", "epoch_end", "end")
)


class _Monitor(Callback):
    """Watches the loss, or a result of an evaluation, after each epoch."""

    monitor: str
    min_delta: float
    patience: int
    verbose: bool
    best: float
    wait: int

    def __init__(self, monitor: str, min_delta: float, patience: int, mode: str, verbose: bool, **counts: Any) -> None:
        name = type(self).__name__
        for what, value, kinds in (
            ("monitor", monitor, str),
            ("mode", mode, str),
            ("min_delta", min_delta, (int, float)),
            ("verbose", verbose, bool),
            *[(what, value, int) for what, value in {"patience": patience, **counts}.items()],
        ):
            if not isinstance(value, kinds):
                raise TypeError(f"For {name!r}, the type of {what!r} must not be {type(value).__name__}: {value!r}.")
        for what, value in {"patience": patience, **counts}.items():
            if value < 0:
                raise ValueError(f"For {name!r}, the {what!r} must be at least 0, but got {value}.")
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"For {name!r}, the 'mode' must be 'auto', 'min' or 'max', but got {mode!r}.")
        self.monitor, self.min_delta, self.patience, self.verbose = monitor, abs(min_delta), patience, verbose
        self._sign = 1 if mode == "min" or (mode == "auto" and monitor in _SMALLER_IS_BETTER) else -1
        self._restart()

    def _restart(self) -> None:
        self.best, self.wait = self._sign * np.inf, 0

    def _better(self, value: float, than: float) -> bool:
        return self._sign * value < self._sign * than - self.min_delta

    def _value(self, run_context: RunContext) -> float | None:
        state = run_context.original_args()
        if self.monitor == "loss":
            return state.loss
        found = state.get("eval_results") or {}
        if self.monitor not in found:
            warnings.warn(
                f"{type(self).__name__} watches {self.monitor!r}, which is not there; there are: {['loss', *found]}.",
                stacklevel=2,
            )
            return None
        if np.ndim(found[self.monitor]):
            raise ValueError(f"{type(self).__name__} watches numbers, but {self.monitor!r} has several.")
        return float(found[self.monitor])

    def on_train_begin(self, run_context: RunContext) -> None:
        """Forget all batches."""
        self._restart()


class EarlyStopping(_Monitor):
    """Stops training when a measure has not become better for some epochs.

    Parameters
    ----------
    monitor : str
        'loss', 'eval_loss' or the name of a metric of `Model.fit`.
    min_delta : float
        What is better by less counts as no better.
    patience : int
        After how many epochs.
    verbose : bool
        Whether that is printed.
    mode : {'auto', 'min', 'max'}
        Whether less or more is better; 'auto': by the name.
    baseline : float, optional
        Only what is better than this counts as better.
    restore_best_weights : bool
        Whether the Parameters of the best epoch come back.
    """

    baseline: float | int | None
    restore_best_weights: bool
    stopped_epoch: Any

    def __init__(
        self,
        monitor: str = "eval_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: bool = False,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
    ) -> None:
        super().__init__(monitor, min_delta, patience, mode, verbose)
        if baseline is not None and not isinstance(baseline, (int, float)):
            raise TypeError(f"For 'EarlyStopping', the 'baseline' must be a number, but got {type(baseline).__name__}.")
        if not isinstance(restore_best_weights, bool):
            raise TypeError(
                f"For 'EarlyStopping', the 'restore_best_weights' must be bool, but got {type(restore_best_weights).__name__}."
            )
        self.baseline, self.restore_best_weights = baseline, restore_best_weights

    def _restart(self) -> None:
        super()._restart()
        self.stopped_epoch = 0
        self._kept: dict[int, Any] = {}

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Look."""
        value, state = self._value(run_context), run_context.original_args()
        if value is None:
            return
        better = self._better(value, self.best)
        if self.restore_best_weights and (better or not self._kept):
            self._kept = {id(p): (p, p.asnumpy().copy()) for p in state.train_network.get_parameters()}
        self.wait += 1
        if better:
            self.best = value
            if self.baseline is None or self._better(value, self.baseline):
                self.wait: int = 0
        if self.wait < self.patience or not self.wait:
            return
        self.stopped_epoch = state.cur_epoch_num
        run_context.request_stop()
        for parameter, kept in self._kept.values():
            parameter.set_data(Tensor(kept))

    def on_train_end(self, run_context: RunContext) -> None:
        """Say so."""
        if self.stopped_epoch and self.verbose:
            print(f"Epoch {self.stopped_epoch:05d}: early stopping")


class ReduceLROnPlateau(_Monitor):
    """Multiplies the learning rate by a factor when a measure has not become better for some epochs.

    Parameters
    ----------
    monitor, mode, min_delta, patience, verbose
        As for `EarlyStopping`.
    factor : float
        Between 0 and 1.
    cooldown : int
        The number of epochs after that which do not count.
    min_lr : float
        The least rate.
    """

    factor: float
    cooldown: int
    min_lr: float | int
    wait: int
    best: float

    def __init__(
        self,
        monitor: str = "eval_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: bool = False,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        super().__init__(monitor, min_delta, patience, mode, verbose, cooldown=cooldown)
        if not isinstance(factor, float) or not isinstance(min_lr, (int, float)):
            raise TypeError(
                f"For 'ReduceLROnPlateau', 'factor' must be a float and 'min_lr' a number, but got {factor!r} and {min_lr!r}."
            )
        if not 0 < factor < 1:
            raise ValueError(f"For 'ReduceLROnPlateau', the 'factor' must be in (0, 1), but got {factor}.")
        self.factor, self.cooldown, self.min_lr = factor, cooldown, min_lr

    def _restart(self) -> None:
        super()._restart()
        self._resting = 0

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Look."""
        state = run_context.original_args()
        rate = _rate_of(self, state.optimizer)
        value = self._value(run_context)
        if value is None:
            return
        if self._resting:
            self._resting, self.wait = self._resting - 1, 0
        if self._better(value, self.best):
            self.best, self.wait = value, 0
            return
        if self._resting:
            return
        self.wait += 1
        if self.wait < self.patience:
            return
        if rate.item() > self.min_lr:
            new = max(rate.item() * self.factor, self.min_lr)
            ops.assign(rate, Tensor(new, rate.dtype))
            if self.verbose:
                print(f"Epoch {state.cur_epoch_num:05d}: the learning rate is {new}")
        self._resting, self.wait = self.cooldown, 0


def _rate_of(callback: Callback, optimizer: Any) -> Parameter:
    rate = getattr(optimizer, "learning_rate", None)
    if not isinstance(rate, Parameter):
        raise ValueError(f"{type(callback).__name__} needs an optimizer with one learning rate that is a number.")
    return rate


class LearningRateScheduler(Callback):
    """Sets the learning rate after each step.

    Parameters
    ----------
    learning_rate_function : callable
        ``learning_rate_function(rate, step)`` returns the next rate, for the rate and the number of the step.
    """

    def __init__(self, learning_rate_function: Callable[[float, int], float]) -> None:
        self.learning_rate_function = learning_rate_function

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Set it."""
        state = run_context.original_args()
        rate = _rate_of(self, state.optimizer)
        ops.assign(rate, Tensor(self.learning_rate_function(rate.item(), state.cur_step_num), rate.dtype))


class History(Callback):
    """Keeps the loss of each epoch, and what evaluations find, in `history`: lists by name, and the numbers of the epochs in `epoch`."""

    def __init__(self) -> None:
        self.history: dict[str, list[Any]] = {}
        self.epoch: dict[str, list[int]] = {"epoch": []}

    def begin(self, run_context: RunContext) -> None:
        """Restart the count of epochs."""
        if run_context.original_args().mode == "train":
            self.epoch = {"epoch": []}

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Keep."""
        state = run_context.original_args()
        self.epoch["epoch"].append(state.cur_epoch_num)
        for name, value in {"net_output": state.loss, **(state.get("metrics") or {})}.items():
            self.history.setdefault(name, []).append(value)


class LambdaCallback(Callback):
    """A callback that consists of functions.

    Parameters
    ----------
    on_train_epoch_begin, on_train_epoch_end, on_train_step_begin, on_train_step_end, on_train_begin, on_train_end, on_eval_epoch_begin, on_eval_epoch_end, on_eval_step_begin, on_eval_step_end, on_eval_begin, on_eval_end : callable, optional
        The function for the event with this name. It takes the `RunContext`.

    Examples
    --------
    >>> from framejit.train import LambdaCallback
    >>> said = LambdaCallback(on_train_end=lambda run_context: print("the end"))
    """

    def __init__(
        self,
        on_train_epoch_begin: Any = None,
        on_train_epoch_end: Any = None,
        on_train_step_begin: Any = None,
        on_train_step_end: Any = None,
        on_train_begin: Any = None,
        on_train_end: Any = None,
        on_eval_epoch_begin: Any = None,
        on_eval_epoch_end: Any = None,
        on_eval_step_begin: Any = None,
        on_eval_step_end: Any = None,
        on_eval_begin: Any = None,
        on_eval_end: Any = None,
    ) -> None:
        given = locals()
        for event in _EVENTS:
            if given[event] is not None:
                setattr(self, event, given[event])


class BackupAndRestore(Callback):
    """Saves the network and its optimizer after epochs, in ``backup.ckpt``, and loads them before training where that file is there.

    Parameters
    ----------
    backup_dir : str or Path
        Where the file is.
    save_freq : 'epoch' or int
        After each epoch, or the number of steps between two files.
    delete_checkpoint : bool
        Whether the file is deleted when training has ended, except after an interruption.
    """

    def __init__(self, backup_dir: Any, save_freq: Any = "epoch", delete_checkpoint: bool = True) -> None:
        if save_freq != "epoch" and (not isinstance(save_freq, int) or isinstance(save_freq, bool) or save_freq < 1):
            raise ValueError(
                f"For 'BackupAndRestore', the 'save_freq' must be 'epoch' or a positive int, but got {save_freq!r}."
            )
        if not isinstance(delete_checkpoint, bool):
            raise TypeError(
                f"For 'BackupAndRestore', the 'delete_checkpoint' must be bool, but got {type(delete_checkpoint).__name__}."
            )
        self.file: Path = Path(backup_dir) / "backup.ckpt"
        self.every: int = 1 if save_freq == "epoch" else save_freq
        self.delete_checkpoint = delete_checkpoint

    def on_train_begin(self, run_context: RunContext) -> None:
        """Load."""
        self._ended = 0
        if self.file.exists():
            load_checkpoint(self.file, run_context.original_args().train_network)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Save."""
        state = run_context.original_args()
        self._ended = state.cur_epoch_num
        if state.cur_epoch_num % self.every == 0:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            save_checkpoint(state.train_network, self.file)

    def on_train_end(self, run_context: RunContext) -> None:
        """Delete."""
        state = run_context.original_args()
        last = run_context.get_stop_requested() or state.cur_epoch_num == state.epoch_num + state.initial_epoch
        if self.delete_checkpoint and last and self._ended == state.cur_epoch_num:
            self.file.unlink(missing_ok=True)
