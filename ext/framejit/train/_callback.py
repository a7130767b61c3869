"""What happens beside training: callbacks of Model.train."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from framejit._checkpoint import save_checkpoint


class Parameters:
    """What callbacks see: ``cur_epoch_num``, ``cur_step_num``, ``batch_num``, ``net_outputs`` (the loss), ``network`` ..."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class RunContext:
    """Given to callbacks."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters, self._stop = parameters, False

    def original_args(self) -> Parameters:
        """The state of training."""
        return self._parameters

    def request_stop(self) -> None:
        """End training behind this step."""
        self._stop = True

    def get_stop_requested(self) -> bool:
        """Whether that was asked for."""
        return self._stop


class Callback:
    """The base class; each method does nothing."""

    def on_train_begin(self, run_context: RunContext) -> None:
        """Before training."""

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Before an epoch."""

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Before a step."""

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Behind a step."""

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Behind an epoch."""

    def on_train_end(self, run_context: RunContext) -> None:
        """Behind training, also where it was interrupted."""


class LossMonitor(Callback):
    """Prints the loss every so many steps."""

    def __init__(self, per_print_times: int = 1) -> None:
        if not isinstance(per_print_times, int) or per_print_times < 0:
            raise ValueError(f"'per_print_times' must be an int of at least 0, but got {per_print_times!r}.")
        self.every = per_print_times

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Print."""
        state = run_context.original_args()
        loss = float(np.mean(state.net_outputs.asnumpy()))
        step = (state.cur_step_num - 1) % state.batch_num + 1
        if not np.isfinite(loss):
            raise ValueError(
                f"In epoch: {state.cur_epoch_num} step: {step}, loss is {loss}, training process cannot continue."
            )
        if self.every and state.cur_step_num % self.every == 0:
            print(f"epoch: {state.cur_epoch_num} step: {step}, loss is {loss}")


class TimeMonitor(Callback):
    """Prints the time of each epoch."""

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Start."""
        self._start = time.perf_counter()

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Print."""
        total = (time.perf_counter() - self._start) * 1e3
        per_step = total / max(run_context.original_args().batch_num, 1)
        print(f"Train epoch time: {total:.3f} ms, per step time: {per_step:.3f} ms")


class CheckpointConfig:
    """How often `ModelCheckpoint` saves, and how many files stay."""

    def __init__(self, save_checkpoint_steps: int = 1, keep_checkpoint_max: int = 5) -> None:
        if save_checkpoint_steps < 1 or keep_checkpoint_max < 1:
            raise ValueError("'save_checkpoint_steps' and 'keep_checkpoint_max' must be at least 1.")
        self.steps, self.keep = save_checkpoint_steps, keep_checkpoint_max


class ModelCheckpoint(Callback):
    """Saves the network: ``<prefix>-<epoch>_<step>.ckpt``; also where training is interrupted."""

    def __init__(self, prefix: str = "CKP", directory: Any = None, config: CheckpointConfig | None = None) -> None:
        self.prefix, self.directory = prefix, Path(directory or ".")
        self.config = config or CheckpointConfig()
        self.files: list[Path] = []
        self._saved = 0

    @property
    def latest_ckpt_file_name(self) -> str:
        """The last file."""
        return str(self.files[-1]) if self.files else ""

    def _save(self, state: Parameters) -> None:
        step = (state.cur_step_num - 1) % state.batch_num + 1
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / f"{self.prefix}-{state.cur_epoch_num}_{step}.ckpt"
        save_checkpoint(state.network, file)
        self._saved = state.cur_step_num
        self.files = [*(one for one in self.files if one != file), file]
        while len(self.files) > self.config.keep:
            self.files.pop(0).unlink(missing_ok=True)

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Save where it is time."""
        state = run_context.original_args()
        if state.cur_step_num % self.config.steps == 0:
            self._save(state)

    def on_train_end(self, run_context: RunContext) -> None:
        """Save what was not saved yet."""
        state = run_context.original_args()
        if state.cur_step_num and state.cur_step_num != self._saved:
            self._save(state)


class ProgressBar(Callback):
    """A line on a terminal's standard error that shows how far an epoch is, with the loss."""

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Draw."""
        state = run_context.original_args()
        step = (state.cur_step_num - 1) % state.batch_num + 1
        done = 20 * step // state.batch_num
        loss = float(np.mean(state.net_outputs.asnumpy()))
        bar = "=" * done + "." * (20 - done)
        end = "\n" if step == state.batch_num else ""
        sys.stderr.write(
            f"\repoch {state.cur_epoch_num}/{state.epoch_num} [{bar}] {step}/{state.batch_num} loss {loss:.4f}{end}"
        )
        sys.stderr.flush()
