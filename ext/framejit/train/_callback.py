"""Callbacks of Model.train."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from framejit._files._checkpoint import save_checkpoint


class Parameters(dict[str, Any]):
    """What callbacks see: ``cur_epoch_num``, ``cur_step_num``, ``batch_num``, ``net_outputs`` (the loss), ``network`` ... as items and as
    attributes.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    @property
    def loss(self) -> float:
        """The mean of the loss of this step, the first of what the network gave."""
        outputs = self["net_outputs"]
        outputs = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
        return float(np.mean(outputs.asnumpy() if hasattr(outputs, "asnumpy") else outputs))

    @property
    def epoch_of_step(self) -> int:
        """The number of the epoch of the last step."""
        return (self["cur_step_num"] - 1) // self["batch_num"] + 1 + self.get("initial_epoch", 0)

    @property
    def step_in_epoch(self) -> int:
        """The number of this step in its epoch, from 1 on."""
        return (self["cur_step_num"] - 1) % self["batch_num"] + 1


class RunContext:
    """The argument of callbacks: the state of training, and a way to end it.

    Parameters
    ----------
    original_args : Parameters
        The state of training.
    """

    def __init__(self, original_args: Parameters) -> None:
        self._parameters, self._stop = original_args, False

    def original_args(self) -> Parameters:
        """Return the state of training, with items and attributes such as ``cur_epoch_num`` and ``net_outputs``."""
        return self._parameters

    def request_stop(self) -> None:
        """End training after this step."""
        self._stop = True

    def get_stop_requested(self) -> bool:
        """Return whether `request_stop` was called."""
        return self._stop


class Callback:
    """The base class of callbacks.

    Each event calls its own method, which calls the method that training and evaluation share. The methods of this class do nothing else.
    """

    def begin(self, run_context: RunContext) -> None:
        """Run before training or evaluation."""

    def epoch_begin(self, run_context: RunContext) -> None:
        """Run before each epoch."""

    def step_begin(self, run_context: RunContext) -> None:
        """Run before each step."""

    def step_end(self, run_context: RunContext) -> None:
        """Run after each step."""

    def epoch_end(self, run_context: RunContext) -> None:
        """Run after each epoch."""

    def end(self, run_context: RunContext) -> None:
        """Run after training or evaluation."""

    def on_train_begin(self, run_context: RunContext) -> None:
        """Run before training."""
        self.begin(run_context)

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Run before each epoch of training."""
        self.epoch_begin(run_context)

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Run before each step of training."""
        self.step_begin(run_context)

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Run after each step of training."""
        self.step_end(run_context)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Run after each epoch of training."""
        self.epoch_end(run_context)

    def on_train_end(self, run_context: RunContext) -> None:
        """Run after training, also if it was interrupted."""
        self.end(run_context)

    def on_eval_begin(self, run_context: RunContext) -> None:
        """Run before evaluation."""
        self.begin(run_context)

    def on_eval_epoch_begin(self, run_context: RunContext) -> None:
        """Run before each epoch of evaluation."""
        self.epoch_begin(run_context)

    def on_eval_step_begin(self, run_context: RunContext) -> None:
        """Run before each step of evaluation."""
        self.step_begin(run_context)

    def on_eval_step_end(self, run_context: RunContext) -> None:
        """Run after each step of evaluation."""
        self.step_end(run_context)

    def on_eval_epoch_end(self, run_context: RunContext) -> None:
        """Run after each epoch of evaluation."""
        self.epoch_end(run_context)

    def on_eval_end(self, run_context: RunContext) -> None:
        """Run after evaluation."""
        self.end(run_context)


class LossMonitor(Callback):
    """Prints the loss. A loss that is infinite or NaN ends training with `ValueError`.

    Parameters
    ----------
    per_print_times : int
        The number of steps from one line to the next; 0: print nothing.
    """

    def __init__(self, per_print_times: int = 1) -> None:
        if not isinstance(per_print_times, int) or isinstance(per_print_times, bool):
            raise TypeError(
                f"For 'LossMonitor', the 'per_print_times' must be int, but got {type(per_print_times).__name__}."
            )
        if per_print_times < 0:
            raise ValueError(f"For 'LossMonitor', the 'per_print_times' must be at least 0, but got {per_print_times}.")
        self.every = per_print_times

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Print the loss, if its turn has come."""
        state = run_context.original_args()
        loss, step = state.loss, state.step_in_epoch
        if not np.isfinite(loss):
            raise ValueError(
                f"In epoch: {state.cur_epoch_num} step: {step}, loss is {loss}, training process cannot continue."
            )
        if self.every and state.cur_step_num % self.every == 0:
            print(f"epoch: {state.cur_epoch_num} step: {step}, loss is {loss}")

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Print the results of an evaluation."""
        state = run_context.original_args()
        if state.get("metrics"):
            print(f"Eval result: epoch {state.cur_epoch_num}, metrics: {state.metrics}")


class TimeMonitor(Callback):
    """Prints the time of each epoch, and the time for each step.

    Parameters
    ----------
    data_size : int, optional
        The number of steps of an epoch; by default the number of batches of the dataset.
    data_time : bool
        Ignored.
    """

    def __init__(self, data_size: int | None = None, data_time: bool = False) -> None:
        if not isinstance(data_time, bool):
            raise TypeError(f"For 'TimeMonitor', the 'data_time' must be bool, but got {type(data_time).__name__}.")
        self.data_size = data_size

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Print the time."""
        total = (time.perf_counter() - self._start) * 1e3
        per_step = total / (self.data_size or run_context.original_args().batch_num)
        print(f"Train epoch time: {total:.3f} ms, per step time: {per_step:.3f} ms")


class CheckpointConfig:
    """When `ModelCheckpoint` saves, what it saves, and how many files it keeps.

    Parameters
    ----------
    save_checkpoint_steps : int
        The number of steps between two files; 0: use `save_checkpoint_seconds`.
    save_checkpoint_seconds : int
        The number of seconds between two files.
    keep_checkpoint_max : int
        The number of files to keep; 0: all.
    keep_checkpoint_per_n_minutes : int
        With ``keep_checkpoint_max=0``: of the files within this number of minutes, the first and the last one are kept.
    integrated_save, async_save : bool
        Accepted and ignored.
    saved_network : Cell, optional
        The network to save instead of the one that is trained.
    append_info : list, optional
        Further values to save: 'epoch_num', 'step_num', and a dict of numbers or Tensors by name.
    format : {'ckpt', 'safetensors'}
        The format of the files.
    """

    steps: int
    seconds: int
    keep: int
    minutes: int
    network: Any | None
    format: str

    def __init__(
        self,
        save_checkpoint_steps: int = 1,
        save_checkpoint_seconds: int = 0,
        keep_checkpoint_max: int = 5,
        keep_checkpoint_per_n_minutes: int = 0,
        integrated_save: bool = True,
        async_save: bool = False,
        saved_network: Any = None,
        append_info: Any = None,
        format: str = "ckpt",
    ) -> None:
        counts = {
            "save_checkpoint_steps": save_checkpoint_steps,
            "save_checkpoint_seconds": save_checkpoint_seconds,
            "keep_checkpoint_max": keep_checkpoint_max,
            "keep_checkpoint_per_n_minutes": keep_checkpoint_per_n_minutes,
        }
        for name, value in counts.items():
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise ValueError(
                    f"For 'CheckpointConfig', the {name!r} must be an int of at least 0, but got {value!r}."
                )
        if not any(counts.values()):
            raise ValueError(f"For 'CheckpointConfig', one of {list(counts)} must not be 0.")
        if saved_network is not None and not hasattr(saved_network, "parameters_and_names"):
            raise TypeError(
                f"For 'CheckpointConfig', the 'saved_network' must be a Cell, but got {type(saved_network).__name__}."
            )
        self.steps, self.seconds = save_checkpoint_steps or 0, save_checkpoint_seconds or 0
        self.keep, self.minutes = keep_checkpoint_max or 0, keep_checkpoint_per_n_minutes or 0
        self.network, self.format = saved_network, format
        self.appended: dict[str, Any] = {}
        if append_info is not None and not isinstance(append_info, list):
            raise TypeError(
                f"For 'CheckpointConfig', the 'append_info' must be a list, but got {type(append_info).__name__}."
            )
        for one in append_info or []:
            if not isinstance(one, (str, dict)):
                raise TypeError(f"For 'CheckpointConfig', 'append_info' must have names and a dict, but got {one!r}.")
            if isinstance(one, str) and one not in ("epoch_num", "step_num"):
                raise ValueError(
                    f"For 'CheckpointConfig', there is no {one!r} to save: 'epoch_num' and 'step_num' are."
                )
            self.appended.update(one if isinstance(one, dict) else {one: None})


class ModelCheckpoint(Callback):
    """Saves the network as ``<prefix>-<epoch>_<step>.ckpt``, also when training ends or is interrupted.

    Parameters
    ----------
    prefix : str
        The start of the names of the files; without ``/``.
    directory : str or Path, optional
        The folder for the files; by default the current one.
    config : CheckpointConfig, optional
        When to save, and how many files to keep.
    """

    prefix: str
    directory: Path

    def __init__(self, prefix: str = "CKP", directory: Any = None, config: CheckpointConfig | None = None) -> None:
        if not isinstance(prefix, str) or "/" in prefix:
            raise ValueError(f"For 'ModelCheckpoint', the 'prefix' must be a str without '/', but got {prefix!r}.")
        if config is not None and not isinstance(config, CheckpointConfig):
            raise TypeError(
                f"For 'ModelCheckpoint', the 'config' must be a CheckpointConfig, but got {type(config).__name__}."
            )
        self.prefix, self.directory = prefix, Path(directory or ".")
        self.config: CheckpointConfig = config or CheckpointConfig()
        self.files: list[Path] = []
        self._saved, self._since, self._kept_since = 0, time.monotonic(), time.monotonic()

    @property
    def latest_ckpt_file_name(self) -> str:
        """The last file."""
        return str(self.files[-1]) if self.files else ""

    def _save(self, state: Parameters) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.config
        file = self.directory / f"{self.prefix}-{state.epoch_of_step}_{state.step_in_epoch}.{config.format}"
        numbers = {"epoch_num": state.epoch_of_step, "step_num": state.cur_step_num}
        appended = {name: numbers[name] if value is None else value for name, value in config.appended.items()}
        save_checkpoint(state.network if config.network is None else config.network, file, append_dict=appended)
        self._saved, self._since = state.cur_step_num, time.monotonic()
        self.files = [*(one for one in self.files if one != file), file]
        if self.config.keep:
            while len(self.files) > self.config.keep:
                self.files.pop(0).unlink(missing_ok=True)
        elif self.config.minutes and len(self.files) > 2:
            if self._since - self._kept_since < 60 * self.config.minutes:
                self.files.pop(-2).unlink(missing_ok=True)
            else:
                self._kept_since = self._since

    def on_train_begin(self, run_context: RunContext) -> None:
        """Seconds count from here."""
        self._saved, self._since, self._kept_since = 0, time.monotonic(), time.monotonic()

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Save where it is time."""
        state = run_context.original_args()
        if self.config.steps:
            due = state.cur_step_num % self.config.steps == 0
        else:
            due = bool(self.config.seconds) and time.monotonic() - self._since >= self.config.seconds
        if due:
            self._save(state)

    def on_train_end(self, run_context: RunContext) -> None:
        """Save what was not saved yet."""
        state = run_context.original_args()
        if state.cur_step_num != self._saved:
            self._save(state)


class ProgressBar(Callback):
    """A line on a terminal's standard error that shows how far an epoch is, with the loss."""

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Draw."""
        state = run_context.original_args()
        step, loss = state.step_in_epoch, state.loss
        done = 20 * step // state.batch_num
        bar = "=" * done + "." * (20 - done)
        end = "\n" if step == state.batch_num else ""
        sys.stderr.write(
            f"\repoch {state.cur_epoch_num}/{state.epoch_num} [{bar}] {step}/{state.batch_num} loss {loss:.4f}{end}"
        )
        sys.stderr.flush()
