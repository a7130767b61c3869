"""Learning rates that change with the step: cells that an optimizer calls with its step, and lists of rates."""

from __future__ import annotations

import math
from typing import Any

from framejit import ops
from framejit.nn._cell import Cell


def _floats(name: str, at_least: bool = False, **values: Any) -> None:
    """`TypeError` for what is no float, `ValueError` for what is not above 0, or not `at_least` 0."""
    for key, value in values.items():
        if not isinstance(value, float):
            raise TypeError(f"For '{name}', the '{key}' must be float, but got {type(value).__name__}.")
        if value < 0 or (value == 0 and not at_least):
            wanted = "at least 0" if at_least else "positive"
            raise ValueError(f"For '{name}', the '{key}' must be {wanted}, but got {value}.")


def _steps(name: str, **values: Any) -> None:
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"For '{name}', the '{key}' must be int, but got {type(value).__name__}.")
        if value <= 0:
            raise ValueError(f"For '{name}', the '{key}' must be a positive int, but got {value}.")


def _flag(name: str, **values: Any) -> None:
    for key, value in values.items():
        if not isinstance(value, bool):
            raise TypeError(f"For '{name}', the '{key}' must be bool, but got {type(value).__name__}.")


class LearningRateSchedule(Cell):
    """The base class: `construct` gives the rate for the number of the step, an int32 Tensor.

    Parameters
    ----------
    auto_prefix : bool
        Whether the names of Parameters begin with the name of the attribute that holds the cell.
    flags : dict, optional
        Attributes to set.
    """

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        raise NotImplementedError


class _DecaySteps(LearningRateSchedule):
    """Steps counted in periods, whole ones if `is_stair`."""

    learning_rate: float
    decay_rate: float
    decay_steps: int
    is_stair: bool

    def __init__(self, learning_rate: float, decay_rate: float, decay_steps: int, is_stair: bool = False) -> None:
        super().__init__()
        name = type(self).__name__
        _floats(name, learning_rate=learning_rate, decay_rate=decay_rate)
        _steps(name, decay_steps=decay_steps)
        _flag(name, is_stair=is_stair)
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
    """learning_rate * decay_rate ** (step / decay_steps).

    Parameters
    ----------
    learning_rate : float
        The rate at the start.
    decay_rate : float
        How fast the rate decreases.
    decay_steps : int
        The number of steps of a period.
    is_stair : bool
        Whether the rate changes once in a period only.
    """

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        return ops.exp(self._periods(global_step) * math.log(self.decay_rate)) * self.learning_rate


class NaturalExpDecayLR(_DecaySteps):
    """learning_rate * exp(-decay_rate * step); with `is_stair` of the step at which its period began.

    Parameters
    ----------
    learning_rate : float
        The rate at the start.
    decay_rate : float
        How fast the rate decreases.
    decay_steps : int
        The number of steps of a period.
    is_stair : bool
        Whether the rate changes once in a period only.
    """

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        step = self._periods(global_step) * self.decay_steps if self.is_stair else global_step
        return ops.exp(step * -self.decay_rate) * self.learning_rate


class InverseDecayLR(_DecaySteps):
    """learning_rate / (1 + decay_rate * step / decay_steps).

    Parameters
    ----------
    learning_rate : float
        The rate at the start.
    decay_rate : float
        How fast the rate decreases.
    decay_steps : int
        The number of steps of a period.
    is_stair : bool
        Whether the rate changes once in a period only.
    """

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        return self.learning_rate / (self._periods(global_step) * self.decay_rate + 1.0)


def _between(name: str, min_lr: float, max_lr: float) -> None:
    _floats(name, True, min_lr=min_lr)
    _floats(name, max_lr=max_lr)
    if min_lr >= max_lr:
        raise ValueError(f"For '{name}', the 'min_lr' must be below the 'max_lr', but got {min_lr} and {max_lr}.")


class CosineDecayLR(LearningRateSchedule):
    """From max_lr to min_lr along half a cosine.

    Parameters
    ----------
    min_lr : float
        The rate at the end.
    max_lr : float
        The rate at the start.
    decay_steps : int
        The number of steps of a period.
    """

    min_lr: float
    max_lr: float
    decay_steps: int

    def __init__(self, min_lr: float, max_lr: float, decay_steps: int) -> None:
        super().__init__()
        _between("CosineDecayLR", min_lr, max_lr)
        _steps("CosineDecayLR", decay_steps=decay_steps)
        self.min_lr, self.max_lr, self.decay_steps = min_lr, max_lr, decay_steps

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        step = ops.minimum(global_step, self.decay_steps)
        turned = ops.cos(step / self.decay_steps * math.pi) + 1.0
        return turned * (0.5 * (self.max_lr - self.min_lr)) + self.min_lr


class PolynomialDecayLR(LearningRateSchedule):
    """(learning_rate - end_learning_rate) * (1 - step / decay_steps) ** power + end_learning_rate.

    Parameters
    ----------
    learning_rate : float
        The rate at the start.
    end_learning_rate : float
        The rate at the end.
    decay_steps : int
        The number of steps of a period.
    power : float
        The exponent.
    update_decay_steps : bool
        Whether the period grows so that it contains the step.
    """

    learning_rate: float
    end_learning_rate: float
    decay_steps: int
    power: float
    update_decay_steps: bool

    def __init__(
        self,
        learning_rate: float,
        end_learning_rate: float,
        decay_steps: int,
        power: float,
        update_decay_steps: bool = False,
    ) -> None:
        super().__init__()
        _floats("PolynomialDecayLR", learning_rate=learning_rate, power=power)
        _floats("PolynomialDecayLR", True, end_learning_rate=end_learning_rate)
        _steps("PolynomialDecayLR", decay_steps=decay_steps)
        _flag("PolynomialDecayLR", update_decay_steps=update_decay_steps)
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
    """learning_rate * min(step, warmup_steps) / warmup_steps.

    Parameters
    ----------
    learning_rate : float
        The full rate.
    warmup_steps : int
        The number of steps until the full rate.
    """

    learning_rate: float
    warmup_steps: int

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        super().__init__()
        _floats("WarmUpLR", True, learning_rate=learning_rate)
        _steps("WarmUpLR", warmup_steps=warmup_steps)
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps

    def construct(self, global_step: Any) -> Any:
        """The rate."""
        return ops.minimum(global_step, self.warmup_steps) / self.warmup_steps * self.learning_rate


# --- Lists of rates: for each step that of its epoch ------------------------------------------------------------------------------


def _epochs(name: str, total_step: int, step_per_epoch: int, **epochs: int) -> list[int]:
    """The epoch of each step."""
    _steps(name, total_step=total_step, step_per_epoch=step_per_epoch, **epochs)
    return [step // step_per_epoch for step in range(total_step)]


def _decay(name: str, learning_rate: float, decay_rate: float, is_stair: bool) -> None:
    _floats(name, learning_rate=learning_rate, decay_rate=decay_rate)
    _flag(name, is_stair=is_stair)


def exponential_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """`ExponentialDecayLR` of the epoch, for each step.

    Parameters
    ----------
    learning_rate : float
        The rate at the start.
    decay_rate : float
        How fast the rate decreases.
    total_step : int
        The number of steps.
    step_per_epoch : int
        The number of steps of an epoch.
    decay_epoch : int
        The number of epochs of a period.
    is_stair : bool
        Whether the rate changes once in a period only.
    """
    epochs = _epochs("exponential_decay_lr", total_step, step_per_epoch, decay_epoch=decay_epoch)
    _decay("exponential_decay_lr", learning_rate, decay_rate, is_stair)
    periods = [epoch // decay_epoch if is_stair else epoch / decay_epoch for epoch in epochs]
    return [learning_rate * decay_rate**period for period in periods]


def natural_exp_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """`NaturalExpDecayLR` of the epoch, for each step.

    Parameters
    ----------
    learning_rate : float
        The rate at the start.
    decay_rate : float
        How fast the rate decreases.
    total_step : int
        The number of steps.
    step_per_epoch : int
        The number of steps of an epoch.
    decay_epoch : int
        The number of epochs of a period.
    is_stair : bool
        Whether the rate changes once in a period only.
    """
    epochs = _epochs("natural_exp_decay_lr", total_step, step_per_epoch, decay_epoch=decay_epoch)
    _decay("natural_exp_decay_lr", learning_rate, decay_rate, is_stair)
    epochs = [epoch // decay_epoch * decay_epoch if is_stair else epoch for epoch in epochs]
    return [learning_rate * math.exp(-decay_rate * epoch) for epoch in epochs]


def inverse_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """`InverseDecayLR` of the epoch, for each step.

    Parameters
    ----------
    learning_rate : float
        The rate at the start.
    decay_rate : float
        How fast the rate decreases.
    total_step : int
        The number of steps.
    step_per_epoch : int
        The number of steps of an epoch.
    decay_epoch : int
        The number of epochs of a period.
    is_stair : bool
        Whether the rate changes once in a period only.
    """
    epochs = _epochs("inverse_decay_lr", total_step, step_per_epoch, decay_epoch=decay_epoch)
    _decay("inverse_decay_lr", learning_rate, decay_rate, is_stair)
    periods = [epoch // decay_epoch if is_stair else epoch / decay_epoch for epoch in epochs]
    return [learning_rate / (1 + decay_rate * period) for period in periods]


def cosine_decay_lr(
    min_lr: float, max_lr: float, total_step: int, step_per_epoch: int, decay_epoch: int
) -> list[float]:
    """`CosineDecayLR` of the epoch, for each step.

    Parameters
    ----------
    min_lr : float
        The rate at the end.
    max_lr : float
        The rate at the start.
    total_step : int
        The number of steps.
    step_per_epoch : int
        The number of steps of an epoch.
    decay_epoch : int
        The number of epochs of a period.
    """
    epochs = _epochs("cosine_decay_lr", total_step, step_per_epoch, decay_epoch=decay_epoch)
    _between("cosine_decay_lr", min_lr, max_lr)
    parts = [min(epoch, decay_epoch) / decay_epoch for epoch in epochs]
    return [min_lr + 0.5 * (max_lr - min_lr) * (1 + math.cos(math.pi * part)) for part in parts]


def polynomial_decay_lr(
    learning_rate: float,
    end_learning_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    power: float,
    update_decay_epoch: bool = False,
) -> list[float]:
    """`PolynomialDecayLR` of the epoch, for each step.

    Parameters
    ----------
    learning_rate : float
        The rate at the start.
    end_learning_rate : float
        The rate at the end.
    total_step : int
        The number of steps.
    step_per_epoch : int
        The number of steps of an epoch.
    decay_epoch : int
        The number of epochs of a period.
    power : float
        The exponent.
    update_decay_epoch : bool
        Whether the period grows so that it contains the epoch.
    """
    name = "polynomial_decay_lr"
    epochs = _epochs(name, total_step, step_per_epoch, decay_epoch=decay_epoch)
    _floats(name, learning_rate=learning_rate, power=power)
    _floats(name, True, end_learning_rate=end_learning_rate)
    _flag(name, update_decay_epoch=update_decay_epoch)
    rates = []
    for epoch in epochs:
        whole = decay_epoch * (max(-(-epoch // decay_epoch), 1) if update_decay_epoch else 1)
        rest = 1 - min(epoch, whole) / whole
        rates.append((learning_rate - end_learning_rate) * rest**power + end_learning_rate)
    return rates


def warmup_lr(learning_rate: float, total_step: int, step_per_epoch: int, warmup_epoch: int) -> list[float]:
    """`WarmUpLR` of the epoch, for each step.

    Parameters
    ----------
    learning_rate : float
        The full rate.
    total_step : int
        The number of steps.
    step_per_epoch : int
        The number of steps of an epoch.
    warmup_epoch : int
        The number of epochs until the full rate.
    """
    epochs = _epochs("warmup_lr", total_step, step_per_epoch, warmup_epoch=warmup_epoch)
    _floats("warmup_lr", True, learning_rate=learning_rate)
    return [learning_rate * min(epoch, warmup_epoch) / warmup_epoch for epoch in epochs]


def piecewise_constant_lr(milestone: Any, learning_rates: Any) -> list[float]:
    """learning_rates[i] up to step milestone[i].

    Parameters
    ----------
    milestone : list of int
        The step at which each rate ends.
    learning_rates : list of float
        The rates.
    """
    name = "piecewise_constant_lr"
    for key, value in (("milestone", milestone), ("learning_rates", learning_rates)):
        if not isinstance(value, (tuple, list)):
            raise TypeError(f"For '{name}', the '{key}' must be a tuple or a list, but got {type(value).__name__}.")
    if len(milestone) != len(learning_rates):
        raise ValueError(
            f"For '{name}', 'milestone' and 'learning_rates' must be as many, but got {len(milestone)} and {len(learning_rates)}."
        )
    rates: list[float] = []
    for at, (until, rate) in enumerate(zip(milestone, learning_rates)):
        _steps(name, **{f"milestone[{at}]": until})
        if not isinstance(rate, float):
            raise TypeError(f"For '{name}', the 'learning_rates[{at}]' must be float, but got {type(rate).__name__}.")
        if until < len(rates):
            raise ValueError(f"For '{name}', the 'milestone' must increase, but got {milestone}.")
        rates += [rate] * (until - len(rates))
    return rates
