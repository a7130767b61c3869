"""Optimizers: called with a tuple of gradients, they write the parameters."""

from __future__ import annotations

from typing import Any

from framejit import ops
from framejit._dtypes import ALL
from framejit._parameter import Parameter, ParameterTuple
from framejit._tensor import Tensor
from framejit.nn._cell import Cell


class Optimizer(Cell):
    """What the optimizers share.

    Parameters
    ----------
    learning_rate : float, Tensor, list of float or Cell
        A Cell is called with the number of the step; of a list, or a Tensor with one dimension, each step has its own, the last one from
        its end on.
    parameters : list of Parameter
        What is trained.
    weight_decay : float
        Times the parameter, added to its gradient; not for parameters with beta or gamma in their names.
    loss_scale : float
        The gradients are divided by it.
    """

    def __init__(self, learning_rate: Any, parameters: Any, weight_decay: float = 0.0, loss_scale: float = 1.0) -> None:
        super().__init__(auto_prefix=False)
        name = type(self).__name__
        parameters = list(parameters)
        if not parameters:
            raise ValueError(f"For '{name}', the argument parameters must not be empty.")
        if not all(isinstance(parameter, Parameter) for parameter in parameters):
            raise TypeError(f"For '{name}', the argument parameters must be a list of Parameter.")
        if isinstance(learning_rate, (list, tuple)):
            if not learning_rate:
                raise ValueError(f"For '{name}', the argument 'learning_rate' must not be an empty list.")
            learning_rate = Tensor(list(learning_rate), ALL["float32"])
        if not isinstance(learning_rate, (int, float, Tensor, Cell)) or isinstance(learning_rate, bool):
            raise TypeError(
                f"For '{name}', the argument 'learning_rate' must be float, Tensor, list or Cell, but got "
                f"{type(learning_rate).__name__}."
            )
        if isinstance(learning_rate, (int, float)) and learning_rate < 0:
            raise ValueError(f"For '{name}', the argument 'learning_rate' must be at least 0, but got {learning_rate}.")
        if weight_decay < 0 or loss_scale <= 0:
            raise ValueError(f"For '{name}', 'weight_decay' must be at least 0 and 'loss_scale' positive.")
        self.parameters = ParameterTuple(parameters)
        self.weights = tuple(parameters)  # capture follows plain tuples
        self.learning_rate, self.weight_decay, self.loss_scale = learning_rate, float(weight_decay), float(loss_scale)
        self.decayed = tuple(not any(word in p.name.lower() for word in ("beta", "gamma")) for p in parameters)
        self.global_step = Parameter(Tensor(0), name="global_step", requires_grad=False)

    def _state(self, prefix: str) -> tuple[Parameter, ...]:
        """Zeros like the parameters."""
        made = [Parameter(ops.zeros_like(p), name=f"{prefix}.{p.name}", requires_grad=False) for p in self.parameters]
        setattr(self, prefix, ParameterTuple(made))
        self.__dict__[prefix] = tuple(made)
        return self.__dict__[prefix]

    def get_lr(self) -> Any:
        """The learning rate of this step."""
        rate = self.learning_rate
        if isinstance(rate, Cell):
            return rate(self.global_step)
        if isinstance(rate, Tensor) and rate.ndim > 0:
            steps = ops.arange(rate.shape[0])
            return ops.sum(ops.where(steps == ops.minimum(self.global_step, rate.shape[0] - 1), rate, 0.0))
        return rate

    def _gradient(self, at: int, gradient: Any) -> Any:
        if self.loss_scale != 1.0:
            gradient = gradient / self.loss_scale
        if self.weight_decay and self.decayed[at]:
            gradient = gradient + self.weights[at] * self.weight_decay
        return gradient

    def construct(self, gradients: Any) -> Any:
        """Take a step; gives True for each parameter."""
        rate = self.get_lr()
        ops.assign_add(self.global_step, 1)
        for at, gradient in enumerate(gradients):
            self._update(at, self.weights[at], self._gradient(at, gradient), rate)
        return tuple([True] * len(self.weights))

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any) -> None:
        raise NotImplementedError


class SGD(Optimizer):
    """v = momentum * v + (1 - dampening) * g; p -= rate * v. The first v is g; nesterov: p -= rate * (g + momentum * v)."""

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.1,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        if momentum < 0 or dampening < 0:
            raise ValueError("For 'SGD', 'momentum' and 'dampening' must be at least 0.")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("For 'SGD', 'nesterov' needs a positive 'momentum' and no 'dampening'.")
        self.momentum, self.dampening, self.nesterov = momentum, dampening, nesterov
        self._state("accum")

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any) -> None:
        step = gradient
        if self.momentum:
            velocity = self.accum[at]
            # global_step was counted: the first step is 1.
            fresh = velocity * self.momentum + gradient * (1 - self.dampening)
            ops.assign(velocity, ops.where(self.global_step <= 1, gradient, fresh))
            step = gradient + velocity * self.momentum if self.nesterov else velocity
        ops.assign_sub(parameter, step * rate)


class Momentum(Optimizer):
    """v = momentum * v + g; p -= rate * v, or with use_nesterov p -= rate * (g + momentum * v)."""

    def __init__(
        self,
        params: Any,
        learning_rate: Any,
        momentum: float,
        weight_decay: float = 0.0,
        loss_scale: float = 1.0,
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        if momentum < 0:
            raise ValueError(f"For 'Momentum', the argument 'momentum' must be at least 0.0, but got {momentum}.")
        self.momentum, self.use_nesterov = momentum, use_nesterov
        self._state("moments")

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any) -> None:
        velocity = self.moments[at]
        ops.assign(velocity, velocity * self.momentum + gradient)
        step = gradient + velocity * self.momentum if self.use_nesterov else velocity
        ops.assign_sub(parameter, step * rate)


class Adam(Optimizer):
    """p -= rate * sqrt(1 - beta2 ** t) / (1 - beta1 ** t) * m / (sqrt(v) + eps), with m and v running means of g and g * g."""

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        use_locking: bool = False,
        use_nesterov: bool = False,
        weight_decay: float = 0.0,
        loss_scale: float = 1.0,
        use_amsgrad: bool = False,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        for name, value in (("beta1", beta1), ("beta2", beta2)):
            if not 0 < value < 1:
                raise ValueError(f"For 'Adam', the '{name}' must be in (0, 1), but got {value}.")
        if eps <= 0:
            raise ValueError(f"For 'Adam', the 'eps' must be positive, but got {eps}.")
        self.beta1, self.beta2, self.eps, self.use_nesterov, self.use_amsgrad = (
            beta1,
            beta2,
            eps,
            use_nesterov,
            use_amsgrad,
        )
        self.beta1_power = Parameter(Tensor(1.0), name="beta1_power", requires_grad=False)
        self.beta2_power = Parameter(Tensor(1.0), name="beta2_power", requires_grad=False)
        self._state("moment1")
        self._state("moment2")
        if use_amsgrad:
            self._state("vhat")

    def construct(self, gradients: Any) -> Any:
        """Take a step."""
        ops.assign(self.beta1_power, self.beta1_power * self.beta1)
        ops.assign(self.beta2_power, self.beta2_power * self.beta2)
        return super().construct(gradients)

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any) -> None:
        first, second = self.moment1[at], self.moment2[at]
        ops.assign(first, first * self.beta1 + gradient * (1 - self.beta1))
        ops.assign(second, second * self.beta2 + ops.square(gradient) * (1 - self.beta2))
        scale = ops.sqrt(1 - self.beta2_power) / (1 - self.beta1_power) * rate
        mean = first * self.beta1 + gradient * (1 - self.beta1) if self.use_nesterov else first
        if self.use_amsgrad:
            second = ops.assign(self.vhat[at], ops.maximum(self.vhat[at], second))
        ops.assign_sub(parameter, scale * mean / (ops.sqrt(second) + self.eps))


class AdamWeightDecay(Optimizer):
    """p -= rate * (m / (sqrt(v) + eps) + weight_decay * p), with m and v running means of g and g * g."""

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        for name, value in (("beta1", beta1), ("beta2", beta2)):
            if not 0 < value < 1:
                raise ValueError(f"For 'AdamWeightDecay', the '{name}' must be in (0, 1), but got {value}.")
        if eps <= 0:
            raise ValueError(f"For 'AdamWeightDecay', the 'eps' must be positive, but got {eps}.")
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self._state("adam_m")
        self._state("adam_v")

    def _gradient(self, at: int, gradient: Any) -> Any:
        return gradient

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any) -> None:
        first, second = self.adam_m[at], self.adam_v[at]
        ops.assign(first, first * self.beta1 + gradient * (1 - self.beta1))
        ops.assign(second, second * self.beta2 + ops.square(gradient) * (1 - self.beta2))
        step = first / (ops.sqrt(second) + self.eps)
        if self.weight_decay and self.decayed[at]:
            step = step + parameter * self.weight_decay
        ops.assign_sub(parameter, step * rate)


class RMSProp(Optimizer):
    """s = decay * s + (1 - decay) * g * g; m = momentum * m + rate * g / sqrt(s + epsilon); p -= m. Centered: s less the square of the
    running mean of g.
    """

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
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        if decay < 0 or momentum < 0:
            raise ValueError("For 'RMSProp', 'decay' and 'momentum' must be at least 0.")
        if epsilon <= 0:
            raise ValueError(f"For 'RMSProp', the 'epsilon' must be positive, but got {epsilon}.")
        self.decay, self.momentum, self.epsilon, self.centered = decay, momentum, epsilon, centered
        self._state("mean_square")
        self._state("moment")
        if centered:
            self._state("mean_grad")

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any) -> None:
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
    """a += g * g; p -= rate * g / sqrt(a). The first a is `accum`."""

    def __init__(
        self,
        params: Any,
        accum: float = 0.1,
        learning_rate: Any = 0.001,
        update_slots: bool = True,
        loss_scale: float = 1.0,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        if accum < 0:
            raise ValueError(f"For 'Adagrad', the 'accum' must be at least 0, but got {accum}.")
        self.update_slots = update_slots
        for state in self._state("accum"):
            ops.assign(state, ops.full_like(state, accum))

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any) -> None:
        total = self.accum[at]
        if self.update_slots:
            ops.assign_add(total, ops.square(gradient))
        ops.assign_sub(parameter, gradient * rate / ops.sqrt(total))
