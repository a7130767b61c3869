"""By how much a loss is multiplied while it is differentiated, so that small gradients of float16 stay."""

from __future__ import annotations

from typing import Any

from framejit import nn
from framejit.nn._checks import positive_int


class LossScaleManager:
    """The base class: `get_loss_scale`, `update_loss_scale` with whether a gradient was infinite or NaN, `get_update_cell`."""

    def get_loss_scale(self) -> float:
        """The scale."""
        raise NotImplementedError

    def get_drop_overflow_update(self) -> bool:
        """Whether nothing is updated where a gradient is infinite or NaN."""
        return False

    def update_loss_scale(self, overflow: bool) -> None:
        """Told of each step."""

    def get_update_cell(self) -> Any:
        """A cell for `TrainOneStepWithLossScaleCell`, or None."""
        return None


class FixedLossScaleManager(LossScaleManager):
    """A scale that stays.

    Parameters
    ----------
    loss_scale : float
        The scale, at least 1. With `drop_overflow_update` False the optimizer has it as its `loss_scale` too.
    drop_overflow_update : bool
        Whether nothing is updated where a gradient is infinite or NaN.
    """

    def __init__(self, loss_scale: float = 128.0, drop_overflow_update: bool = True) -> None:
        if loss_scale < 1:
            raise ValueError(f"For 'FixedLossScaleManager', the 'loss_scale' must be at least 1, but got {loss_scale}.")
        self._scale, self._drop = loss_scale, drop_overflow_update

    def get_loss_scale(self) -> float:
        """The scale."""
        return self._scale

    def get_drop_overflow_update(self) -> bool:
        """As given."""
        return self._drop

    def get_update_cell(self) -> Any:
        """A `FixedLossScaleUpdateCell`, or None where all is updated."""
        return nn.FixedLossScaleUpdateCell(self._scale) if self._drop else None


class DynamicLossScaleManager(LossScaleManager):
    """A scale that is divided by a factor where a gradient was infinite or NaN, and multiplied by it after a number of steps without.

    Parameters
    ----------
    init_loss_scale, scale_factor : float
        The first scale, at least 1, and the factor.
    scale_window : int
        After how many steps.

    Examples
    --------
    >>> from framejit.train import DynamicLossScaleManager
    >>> scale = DynamicLossScaleManager(8, 2, 3)
    >>> for overflow in (True, False, False, False):
    ...     scale.update_loss_scale(overflow)
    ...     print(scale.get_loss_scale())
    4.0
    4.0
    4.0
    8.0
    """

    def __init__(self, init_loss_scale: float = 2**24, scale_factor: float = 2, scale_window: int = 2000) -> None:
        if init_loss_scale < 1:
            raise ValueError(
                f"For 'DynamicLossScaleManager', the 'init_loss_scale' must be at least 1, but got {init_loss_scale}."
            )
        positive_int(self, scale_window=scale_window)
        if scale_factor <= 0:
            raise ValueError(
                f"For 'DynamicLossScaleManager', the 'scale_factor' must be positive, but got {scale_factor}."
            )
        self._scale, self._factor, self._window = init_loss_scale, scale_factor, scale_window
        self._step, self._last, self._bad = 1, 0, 0

    def get_loss_scale(self) -> float:
        """The scale."""
        return self._scale

    def get_drop_overflow_update(self) -> bool:
        """True."""
        return True

    def update_loss_scale(self, overflow: bool) -> None:
        """Count a step. RuntimeError after 1,000 steps in a row with infinite or NaN gradients."""
        if overflow:
            self._scale, self._last, self._bad = max(self._scale / self._factor, 1), self._step, self._bad + 1
        else:
            if (self._step - self._last) % self._window == 0:
                self._scale *= self._factor
            self._bad = 0
        if self._bad > 1000:
            raise RuntimeError(f"The gradients of {self._bad} steps in a row were infinite or NaN.")
        self._step += 1

    def get_update_cell(self) -> Any:
        """A `DynamicLossScaleUpdateCell`."""
        return nn.DynamicLossScaleUpdateCell(self._scale, self._factor, self._window)
