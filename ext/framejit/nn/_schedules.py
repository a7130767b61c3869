"""Learning rates that change with the step: cells that an optimizer calls with its step, and lists of rates."""

from __future__ import annotations

import math
from typing import Any

from framejit import ops
from framejit._tensor import Tensor
from framejit.nn._cell import Cell


def _positive(name: str, **values: Any) -> None:
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"For '{name}', the '{key}' must be a number, but got {type(value).__name__}.")
        if value <= 0:
            raise ValueError(f"For '{name}', the '{key}' must be positive, but got {value}.")


def _steps(name: str, **values: Any) -> None:
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"For '{name}', the '{key}' must be int, but got {type(value).__name__}.")
        if value <= 0:
            raise ValueError(f"For '{name}', the '{key}' must be a positive int, but got {value}.")


class LearningRateSchedule(Cell):
    """The base class: `construct` gives the rate for the number of the step, an int32 Tensor."""

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        raise NotImplementedError


class _DecaySteps(LearningRateSchedule):
    """Steps counted in periods, whole ones if `is_stair`."""

    def __init__(self, learning_rate: float, decay_rate: float, decay_steps: int, is_stair: bool = False) -> None:
        super().__init__()
        name = type(self).__name__
        _positive(name, learning_rate=learning_rate, decay_rate=decay_rate)
        _steps(name, decay_steps=decay_steps)
        self.learning_rate, self.decay_rate, self.decay_steps, self.is_stair = (
            learning_rate,
            decay_rate,
            decay_steps,
            is_stair,
        )

    def _periods(self, global_step: Any) -> Any:
        periods = global_step / self.decay_steps
        return ops.floor(periods) if self.is_stair else periods


class ExponentialDecayLR(_DecaySteps):
    """learning_rate * decay_rate ** (step / decay_steps)."""

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        return ops.exp(self._periods(global_step) * math.log(self.decay_rate)) * self.learning_rate


class NaturalExpDecayLR(_DecaySteps):
    """learning_rate * exp(-decay_rate * step / decay_steps)."""

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        return ops.exp(self._periods(global_step) * -self.decay_rate) * self.learning_rate


class InverseDecayLR(_DecaySteps):
    """learning_rate / (1 + decay_rate * step / decay_steps)."""

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        return self.learning_rate / (self._periods(global_step) * self.decay_rate + 1.0)


class CosineDecayLR(LearningRateSchedule):
    """From max_lr to min_lr along half a cosine."""

    def __init__(self, min_lr: float, max_lr: float, decay_steps: int) -> None:
        super().__init__()
        _positive("CosineDecayLR", max_lr=max_lr)
        _steps("CosineDecayLR", decay_steps=decay_steps)
        if min_lr < 0 or min_lr >= max_lr:
            raise ValueError(
                f"For 'CosineDecayLR', 'min_lr' must be at least 0 and below 'max_lr', but got {min_lr} and {max_lr}."
            )
        self.min_lr, self.max_lr, self.decay_steps = min_lr, max_lr, decay_steps

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        step = ops.minimum(global_step, self.decay_steps)
        turned = ops.cos(step / self.decay_steps * math.pi) + 1.0
        return turned * (0.5 * (self.max_lr - self.min_lr)) + self.min_lr


class PolynomialDecayLR(LearningRateSchedule):
    """(learning_rate - end_learning_rate) * (1 - step / decay_steps) ** power + end_learning_rate."""

    def __init__(
        self,
        learning_rate: float,
        end_learning_rate: float,
        decay_steps: int,
        power: float,
        update_decay_steps: bool = False,
    ) -> None:
        super().__init__()
        _positive("PolynomialDecayLR", learning_rate=learning_rate, power=power)
        _steps("PolynomialDecayLR", decay_steps=decay_steps)
        if end_learning_rate < 0:
            raise ValueError(
                f"For 'PolynomialDecayLR', the 'end_learning_rate' must be at least 0, but got {end_learning_rate}."
            )
        self.learning_rate, self.end_learning_rate = learning_rate, end_learning_rate
        self.decay_steps, self.power, self.update_decay_steps = decay_steps, power, update_decay_steps

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        steps: Any = float(self.decay_steps)
        if self.update_decay_steps:
            steps = ops.maximum(ops.ceil(global_step / self.decay_steps), 1.0) * self.decay_steps
        step = ops.minimum(global_step * 1.0, steps)
        rest = ops.pow(1.0 - step / steps, self.power)
        return rest * (self.learning_rate - self.end_learning_rate) + self.end_learning_rate


class WarmUpLR(LearningRateSchedule):
    """learning_rate * min(step, warmup_steps) / warmup_steps."""

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        super().__init__()
        _positive("WarmUpLR", learning_rate=learning_rate)
        _steps("WarmUpLR", warmup_steps=warmup_steps)
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        return ops.minimum(global_step, self.warmup_steps) / self.warmup_steps * self.learning_rate


def _list(schedule: Cell, total_step: int, step_per_epoch: int) -> list[float]:
    """The rates of a schedule that counts epochs."""
    _steps("a list of learning rates", total_step=total_step, step_per_epoch=step_per_epoch)
    return [float(schedule(Tensor(step // step_per_epoch)).item()) for step in range(total_step)]


def exponential_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """`ExponentialDecayLR` of the epoch, for each step."""
    return _list(ExponentialDecayLR(learning_rate, decay_rate, decay_epoch, is_stair), total_step, step_per_epoch)


def natural_exp_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """`NaturalExpDecayLR` of the epoch, for each step; stairs are of `decay_epoch` epochs."""
    rates = []
    for step in range(total_step):
        epoch = step // step_per_epoch
        if is_stair:
            epoch = epoch // decay_epoch * decay_epoch
        rates.append(learning_rate * math.exp(-decay_rate * epoch))
    return rates


def inverse_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """`InverseDecayLR` of the epoch, for each step."""
    return _list(InverseDecayLR(learning_rate, decay_rate, decay_epoch, is_stair), total_step, step_per_epoch)


def cosine_decay_lr(
    min_lr: float, max_lr: float, total_step: int, step_per_epoch: int, decay_epoch: int
) -> list[float]:
    """`CosineDecayLR` of the epoch, for each step."""
    return _list(CosineDecayLR(min_lr, max_lr, decay_epoch), total_step, step_per_epoch)


def polynomial_decay_lr(
    learning_rate: float,
    end_learning_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    power: float,
    update_decay_epoch: bool = False,
) -> list[float]:
    """`PolynomialDecayLR` of the epoch, for each step."""
    schedule = PolynomialDecayLR(learning_rate, end_learning_rate, decay_epoch, power, update_decay_epoch)
    return _list(schedule, total_step, step_per_epoch)


def warmup_lr(learning_rate: float, total_step: int, step_per_epoch: int, warmup_epoch: int) -> list[float]:
    """`WarmUpLR` of the epoch, for each step."""
    return _list(WarmUpLR(learning_rate, warmup_epoch), total_step, step_per_epoch)


def piecewise_constant_lr(milestone: Any, learning_rates: Any) -> list[float]:
    """learning_rates[i] up to step milestone[i]."""
    if len(milestone) != len(learning_rates):
        raise ValueError(
            "For 'piecewise_constant_lr', 'milestone' and 'learning_rates' must be as many, but got "
            f"{len(milestone)} and {len(learning_rates)}."
        )
    rates: list[float] = []
    for until, rate in zip(milestone, learning_rates):
        if until <= len(rates):
            raise ValueError("For 'piecewise_constant_lr', 'milestone' must be positive and increase.")
        rates += [float(rate)] * (until - len(rates))
    return rates
