"""Optimizers that divide by a sum or a running mean of squares: Adagrad, RMSProp, Adadelta, FTRL and AdaFactor."""

from __future__ import annotations

import math
from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter
from framejit._tensors._tensor import Tensor
from framejit.nn._cell import Cell
from framejit.nn._checks import in_unit, of_type
from framejit.nn._optim._base import Optimizer

_FLOAT32 = ALL["float32"]


class RMSProp(Optimizer):
    """s = decay * s + (1 - decay) * g * g; m = momentum * m + rate * g / sqrt(s + epsilon); p -= m. The first s is 1.
    Centered: s less the square of the running mean of g.

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    decay : float
        The share of the previous value in the running mean of squares.
    momentum : float
        The share of the previous update.
    epsilon : float
        A small number that keeps a divisor from being 0.
    use_locking : bool
        Accepted and ignored.
    centered : bool
        Whether to subtract the square of the running mean of gradients.
    loss_scale : float
        Gradients are divided by it.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    """

    decay: float
    momentum: float
    epsilon: float
    centered: bool

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.1,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        loss_scale: float = 1.0,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        of_type(self, float, decay=decay, momentum=momentum)
        self._not_negative(decay=decay, momentum=momentum)
        self._in_range(0.0, math.inf, epsilon=epsilon)
        of_type(self, bool, use_locking=use_locking, centered=centered)
        self.decay, self.momentum, self.epsilon, self.centered = decay, momentum, epsilon, centered
        if centered:
            self._state("mean_grad")
        self._state("mean_square", 1.0)
        self._state("moment")

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        square, moment = self.mean_square[at], self.moment[at]
        ops.assign(square, square * self.decay + ops.square(gradient) * (1 - self.decay))
        spread = square
        if self.centered:
            mean = self.mean_grad[at]
            ops.assign(mean, mean * self.decay + gradient * (1 - self.decay))
            spread = square - ops.square(mean)
        ops.assign(moment, moment * self.momentum + gradient * rate / ops.sqrt(spread + self.epsilon))
        ops.assign_sub(parameter, moment)


class Adagrad(Optimizer):
    """a += g * g; p -= rate * g / sqrt(a). The first a is `accum`.

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    accum : float
        The first sum of squares.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    update_slots : bool
        Whether the sums of squares grow.
    loss_scale : float
        Gradients are divided by it.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    """

    def __init__(
        self,
        params: Any,
        accum: float = 0.1,
        learning_rate: Any = 0.001,
        update_slots: bool = True,
        loss_scale: float = 1.0,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        of_type(self, float, accum=accum)
        of_type(self, bool, update_slots=update_slots)
        self._not_negative(accum=accum)
        self.update_slots = update_slots
        self._state("accum", accum)

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        total = self.accum[at]
        if self.update_slots:
            ops.assign_add(total, ops.square(gradient))
        ops.assign_sub(parameter, gradient * rate / ops.sqrt(total))


class Adadelta(Optimizer):
    """a = rho * a + (1 - rho) * g * g; d = sqrt(u + epsilon) / sqrt(a + epsilon) * g; u = rho * u + (1 - rho) * d * d; p -= rate * d.

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    rho : float
        The share of the previous value in the running means.
    epsilon : float
        A small number that keeps a divisor from being 0.
    loss_scale : float
        Gradients are divided by it.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    """

    rho: float
    epsilon: float

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 1.0,
        rho: float = 0.9,
        epsilon: float = 1e-6,
        loss_scale: float = 1.0,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        of_type(self, float, rho=rho, epsilon=epsilon)
        in_unit(self, rho=rho)
        self._not_negative(epsilon=epsilon)
        self.rho, self.epsilon = rho, epsilon
        self._state("accum")
        self._state("accum_update")

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        total, moved = self.accum[at], self.accum_update[at]
        ops.assign(total, total * self.rho + ops.square(gradient) * (1 - self.rho))
        step = ops.sqrt(moved + self.epsilon) * gradient / ops.sqrt(total + self.epsilon)
        ops.assign(moved, moved * self.rho + ops.square(step) * (1 - self.rho))
        ops.assign_sub(parameter, step * rate)


class FTRL(Optimizer):
    """Follow the regularized leader: n' = n + g * g; z += g - (n' ** -lr_power - n ** -lr_power) / rate * p;
    p = (sign(z) * l1 - z) / (n' ** -lr_power / rate + 2 * l2) where abs(z) > l1, else 0.

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    initial_accum : float
        The first sum of squares.
    learning_rate : float
        The rate.
    lr_power : float
        The exponent of the sum of squares.
    l1 : float
        The weight of absolute values.
    l2 : float
        The weight of squares.
    use_locking : bool
        Accepted and ignored.
    loss_scale : float
        Gradients are divided by it.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    """

    lr_power: float
    l1: float
    l2: float

    def __init__(
        self,
        params: Any,
        initial_accum: float = 0.1,
        learning_rate: float = 0.001,
        lr_power: float = -0.5,
        l1: float = 0.0,
        l2: float = 0.0,
        use_locking: bool = False,
        loss_scale: float = 1.0,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        of_type(self, float, initial_accum=initial_accum, learning_rate=learning_rate, lr_power=lr_power, l1=l1, l2=l2)
        self._not_negative(initial_accum=initial_accum, l1=l1, l2=l2)
        if learning_rate <= 0 or lr_power > 0:
            raise ValueError(
                f"For 'FTRL', the 'learning_rate' must be positive and the 'lr_power' at most 0, but got {learning_rate} and {lr_power}."
            )
        if self.is_group_lr:
            raise ValueError("For 'FTRL', groups must not have learning rates of their own.")
        self.lr_power, self.l1, self.l2 = lr_power, l1, l2
        if not self.is_group:
            self._decayed = tuple([self.weight_decay != 0.0] * len(self.weights))
        self._state("moments", initial_accum)
        self._state("linear")

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        total, linear = self.moments[at], self.linear[at]
        before = ops.pow(total, -self.lr_power)
        ops.assign_add(total, ops.square(gradient))
        after = ops.pow(total, -self.lr_power)
        ops.assign_add(linear, gradient - (after - before) / rate * parameter)
        moved = (ops.sign(linear) * self.l1 - linear) / (after / rate + 2 * self.l2)
        ops.assign(parameter, ops.where(ops.abs(linear) > self.l1, moved, 0.0))


class ProximalAdagrad(Optimizer):
    """a += g * g; q = p - r * g with r = rate / sqrt(a); p = sign(q) * max(abs(q) - r * l1, 0) / (1 + r * l2).

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    accum : float
        The first sum of squares.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    l1 : float
        The weight of absolute values.
    l2 : float
        The weight of squares.
    use_locking : bool
        Accepted and ignored.
    loss_scale : float
        Gradients are divided by it.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    """

    l1: float
    l2: float

    def __init__(
        self,
        params: Any,
        accum: float = 0.1,
        learning_rate: Any = 0.001,
        l1: float = 0.0,
        l2: float = 0.0,
        use_locking: bool = False,
        loss_scale: float = 1.0,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        of_type(self, float, accum=accum, l1=l1, l2=l2)
        self._not_negative(accum=accum, l1=l1, l2=l2)
        self.l1, self.l2 = l1, l2
        self._state("accum", accum)

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        total = self.accum[at]
        ops.assign_add(total, ops.square(gradient))
        own = rate / ops.sqrt(total)
        moved = parameter - gradient * own
        shrunk = ops.sign(moved) * ops.maximum(ops.abs(moved) - own * self.l1, 0.0) if self.l1 else moved
        ops.assign(parameter, shrunk / (1 + own * self.l2))


class AdaFactor(Optimizer):
    """Adam with the running mean of g * g kept as a row and a column of it, a bound on the size of the update, and steps relative to the
    parameter.

    Parameters
    ----------
    params, learning_rate, weight_decay, loss_scale
        As of `Optimizer`; no learning rate with `relative_step`.
    eps : pair of float
        Added to g * g; the least size of a parameter that counts.
    clip_threshold : float
        Larger updates (root of the mean of their squares) are scaled down to it.
    decay_rate : float
        The running mean of step t keeps 1 - t ** -decay_rate.
    beta1 : float
        Of the running mean of the updates; 0: none.
    scale_parameter, relative_step, warmup_init, compression : bool
        Steps times the size of the parameter; rates of min(0.01, 1 / sqrt(t)), or of min(1e-6 * t, 1 / sqrt(t)); float16 for the running means.
    """

    eps: tuple[float, ...]
    clip_threshold: float
    decay_rate: float
    beta1: float
    relative_step: bool
    warmup_init: bool

    _decoupled = True

    def __init__(
        self,
        params: Any,
        learning_rate: Any = None,
        eps: tuple[float, float] = (1e-30, 1e-3),
        clip_threshold: float = 1.0,
        decay_rate: float = 0.8,
        beta1: float = 0.9,
        weight_decay: Any = 0.0,
        scale_parameter: bool = True,
        relative_step: bool = True,
        warmup_init: bool = False,
        compression: bool = False,
        loss_scale: float = 1.0,
    ) -> None:
        if (learning_rate is None) != bool(relative_step):
            raise ValueError("For 'AdaFactor', there must be either a 'learning_rate' or 'relative_step'.")
        if warmup_init and not relative_step:
            raise ValueError("For 'AdaFactor', 'warmup_init' needs 'relative_step'.")
        super().__init__(0.0 if learning_rate is None else learning_rate, params, weight_decay, loss_scale)
        of_type(self, (list, tuple), eps=eps)
        if len(eps) != 2:
            raise ValueError(f"For 'AdaFactor', the 'eps' must be a pair, but got {eps}.")
        of_type(self, float, eps0=eps[0], eps1=eps[1], clip_threshold=clip_threshold)
        self._not_negative(eps0=eps[0], eps1=eps[1], clip_threshold=clip_threshold)
        self._in_range(0.0, 1.0, decay_rate=decay_rate)
        if not 0 <= weight_decay < 1:
            raise ValueError(f"For 'AdaFactor', the 'weight_decay' must be in [0, 1), but got {weight_decay}.")
        of_type(self, bool, scale_parameter=scale_parameter, relative_step=relative_step, compression=compression)
        beta1 = 0.0 if beta1 is None else beta1
        self._not_negative(beta1=beta1)
        self.eps, self.clip_threshold, self.decay_rate, self.beta1 = tuple(eps), clip_threshold, decay_rate, beta1
        self.relative_step, self.warmup_init = relative_step, warmup_init
        self.scale_parameter: bool = scale_parameter and not isinstance(learning_rate, (list, tuple, Tensor, Cell))
        dtype = ALL["float16"] if compression else _FLOAT32
        shapes = {
            "exp_avg": [p.shape if beta1 else (1,) for p in self.weights],
            "exp_avg_sq": [p.shape if p.ndim < 2 else (1,) for p in self.weights],
            "exp_avg_sq_col": [p.shape[:-2] + p.shape[-1:] if p.ndim > 1 else (1,) for p in self.weights],
            "exp_avg_sq_row": [p.shape[:-1] if p.ndim > 1 else (1,) for p in self.weights],
        }
        for name, all_shapes in shapes.items():
            made = [
                Parameter(ops.zeros(shape, dtype), name=f"{name}_{p.name}", requires_grad=False)
                for shape, p in zip(all_shapes, self.weights)
            ]
            self._keep(name, made)

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        step = self._step().astype(_FLOAT32)
        if self.relative_step:
            most = step * 1e-6 if self.warmup_init else 0.01
            rate = ops.minimum(1 / ops.sqrt(step), most)
        kept = 1 - ops.pow(step, -self.decay_rate)
        if self.scale_parameter:
            rate = rate * ops.maximum(_root_mean_square(parameter), self.eps[1])
        square = ops.square(gradient) + self.eps[0]
        if gradient.ndim > 1:
            row, column = self.exp_avg_sq_row[at], self.exp_avg_sq_col[at]
            ops.assign(row, row * kept + ops.mean(square, -1) * (1 - kept))
            ops.assign(column, column * kept + ops.mean(square, -2) * (1 - kept))
            of_row = ops.rsqrt(row / ops.mean(row, -1, True))
            update = of_row.expand_dims(-1) * ops.rsqrt(column).expand_dims(-2) * gradient
        else:
            mean = self.exp_avg_sq[at]
            ops.assign(mean, mean * kept + square * (1 - kept))
            update = ops.rsqrt(mean) * gradient
        update = update / ops.maximum(_root_mean_square(update) / self.clip_threshold, 1.0) * rate
        if self.beta1:
            first = self.exp_avg[at]
            ops.assign(first, first * self.beta1 + update * (1 - self.beta1))
            update = first
        ops.assign(parameter, parameter - parameter * (rate * decay) - update)


def _root_mean_square(x: Any) -> Any:
    return ops.sqrt(ops.mean(ops.square(x)))
