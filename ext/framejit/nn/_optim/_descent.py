"""Optimizers without running means of squares: gradient descent, momentum, averages, steps by signs, and LARS."""

from __future__ import annotations

from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter, ParameterTuple
from framejit._tensors._tensor import Tensor
from framejit.nn._cell import Cell
from framejit.nn._checks import of_type
from framejit.nn._optim._base import Optimizer

_FLOAT32 = ALL["float32"]


class SGD(Optimizer):
    """v = momentum * v + (1 - dampening) * g; p -= rate * v. The first v is g; nesterov: p -= rate * (g + momentum * v).

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    momentum : float
        The share of the previous update.
    dampening : float
        The share of a gradient that is not added to the momentum.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    nesterov : bool
        Whether to use Nesterov's form.
    loss_scale : float
        Gradients are divided by it.
    """

    momentum: float
    dampening: float
    nesterov: bool

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.1,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: Any = 0.0,
        nesterov: bool = False,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self._not_negative(momentum=momentum, dampening=dampening)
        of_type(self, bool, nesterov=nesterov)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("For 'SGD', 'nesterov' needs a positive 'momentum' and no 'dampening'.")
        self.momentum, self.dampening, self.nesterov = momentum, dampening, nesterov
        self._state("accum")

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        step = gradient
        if self.momentum:
            velocity = self.accum[at]
            # global_step was counted: the first step is 1.
            fresh = velocity * self.momentum + gradient * (1 - self.dampening)
            ops.assign(velocity, ops.where(self._step() <= 1, gradient, fresh))
            step = gradient + velocity * self.momentum if self.nesterov else velocity
        ops.assign_sub(parameter, step * rate)


class Momentum(Optimizer):
    """v = momentum * v + g; p -= rate * v, or with use_nesterov p -= rate * (g + momentum * v).

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    momentum : float
        The share of the previous update.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    loss_scale : float
        Gradients are divided by it.
    use_nesterov : bool
        Whether to use Nesterov's form.
    """

    momentum: float
    use_nesterov: bool

    def __init__(
        self,
        params: Any,
        learning_rate: Any,
        momentum: float,
        weight_decay: Any = 0.0,
        loss_scale: float = 1.0,
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self._not_negative(momentum=momentum)
        of_type(self, bool, use_nesterov=use_nesterov)
        self.momentum, self.use_nesterov = momentum, use_nesterov
        self._state("moments")

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        velocity = self.moments[at]
        ops.assign(velocity, velocity * self.momentum + gradient)
        step = gradient + velocity * self.momentum if self.use_nesterov else velocity
        ops.assign_sub(parameter, step * rate)


class Rprop(Optimizer):
    """p -= sign(g) * s, where the step s grows by etas[1] while g keeps its sign, and shrinks by etas[0] where it changes.

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    etas : tuple of two float
        The factors by which a step shrinks and grows.
    step_sizes : tuple of two float
        The smallest and the largest step.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    """

    etas: tuple[float, float]
    step_sizes: tuple[float, float]

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.1,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        of_type(self, tuple, etas=etas, step_sizes=step_sizes)
        if len(etas) != 2 or len(step_sizes) != 2:
            raise ValueError(f"For 'Rprop', 'etas' and 'step_sizes' must be pairs, but got {etas} and {step_sizes}.")
        of_type(
            self, float, etaminus=etas[0], etaplus=etas[1], step_size_min=step_sizes[0], step_size_max=step_sizes[1]
        )
        if step_sizes[0] > step_sizes[1]:
            raise ValueError(f"For 'Rprop', the 'step_sizes' must increase, but got {step_sizes}.")
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"For 'Rprop', the 'etas' must be in (0, 1) and above 1, but got {etas}.")
        self.etas, self.step_sizes = etas, step_sizes
        self._state("prev")
        self._state("step_size")

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        before, size = self.prev[at], self.step_size[at]
        kept = gradient * before
        factor = ops.where(kept > 0, self.etas[1], ops.where(kept < 0, self.etas[0], 1.0))
        size_now = ops.where(self._step() <= 1, rate, size) * factor
        ops.assign(size, ops.clamp(size_now, self.step_sizes[0], self.step_sizes[1]))
        gradient = ops.where(kept < 0, 0.0, gradient)
        ops.assign_sub(parameter, ops.sign(gradient) * size)
        ops.assign(before, gradient)


class ASGD(Optimizer):
    """p = p * (1 - lambd * eta) - eta * g, with eta = rate / (1 + lambd * rate * t) ** alpha; `ax` is the mean of p after step t0.

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    lambd : float
        The decay.
    alpha : float
        The exponent of the decay of the rate.
    t0 : float
        The step after which `ax` is a mean.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    """

    lambd: float
    alpha: float
    t0: float

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.1,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        of_type(self, float, lambd=lambd, alpha=alpha, t0=t0)
        self.lambd, self.alpha, self.t0 = lambd, alpha, t0
        for prefix, value in (("mu_", 1.0), ("eta_", 0.0)):
            made = [Parameter(Tensor(value), name=prefix + p.name, requires_grad=False) for p in self.parameters]
            self._keep(prefix.rstrip("_"), made)
        self._state("ax_")

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        mu, eta, mean = self.mu[at], self.eta[at], self.ax_[at]
        step = self._step().astype(_FLOAT32)
        now = ops.where(step <= 1, rate, eta)
        ops.assign(parameter, parameter * (1 - self.lambd * now) - now * gradient)
        ops.assign(mean, ops.where(mu == 1, parameter, mean + (parameter - mean) * mu))
        ops.assign(eta, rate / ops.pow(1 + self.lambd * rate * step, self.alpha))
        ops.assign(mu, 1 / ops.maximum(step - self.t0, 1.0))


class LARS(Optimizer):
    """Scales the gradients of another optimizer, layer by layer: by coefficient * norm(p) / (norm(g) + decay * norm(p) + epsilon).

    Parameters
    ----------
    optimizer : Optimizer
        Takes the step; its weight decay is added here.
    epsilon, coefficient : float
        As above.
    use_clip : bool
        The factor is at most the learning rate, by which it is divided.
    lars_filter : callable
        Which parameters are scaled.
    """

    opt: Optimizer
    epsilon: float
    coefficient: float
    use_clip: bool
    parameters: ParameterTuple
    weights: tuple[Parameter, ...]
    loss_scale: float

    def __init__(
        self,
        optimizer: Optimizer,
        epsilon: float = 1e-5,
        coefficient: float = 0.001,
        use_clip: bool = False,
        lars_filter: Any = lambda x: "LayerNorm" not in x.name and "bias" not in x.name,
    ) -> None:
        Cell.__init__(self, auto_prefix=False)
        of_type(self, Optimizer, optimizer=optimizer)
        of_type(self, float, epsilon=epsilon, coefficient=coefficient)
        of_type(self, bool, use_clip=use_clip)
        self.opt, self.epsilon, self.coefficient, self.use_clip = optimizer, epsilon, coefficient, use_clip
        self.parameters, self.weights = optimizer.parameters, optimizer.weights
        self.__dict__["parameters"] = optimizer.parameters
        self.lars_flag: tuple[bool, ...] = tuple([bool(lars_filter(p)) for p in self.weights])
        self._decayed, self.loss_scale = optimizer._decayed, optimizer.loss_scale
        optimizer._decayed, optimizer.loss_scale = tuple([False] * len(self.weights)), 1.0

    def construct(self, gradients: Any) -> Any:
        """Take a step; gives True for each parameter."""
        opt = self.opt
        rates = [opt._rate_now(rate) for rate in opt._rates]
        decays = [opt._decay_now(decay) for decay in opt._decays]
        scaled = []
        for at, gradient in enumerate(gradients):
            if self.loss_scale != 1.0:
                gradient = gradient / self.loss_scale
            if self.lars_flag[at]:
                decay = decays[opt._decay_at[at]] if self._decayed[at] else 0.0
                gradient = self._scaled(self.weights[at], gradient, decay, rates[opt._rate_at[at]])
            scaled.append(gradient)
        return opt(tuple(scaled))

    def _scaled(self, parameter: Parameter, gradient: Any, decay: Any, rate: Any) -> Any:
        size, of_gradient = ops.sqrt(ops.sum(ops.square(parameter))), ops.sqrt(ops.sum(ops.square(gradient)))
        trust = size * self.coefficient / (of_gradient + size * decay + self.epsilon)
        trust = ops.where(ops.logical_and(size > 0, of_gradient > 0), trust, 1.0)
        if self.use_clip:
            trust = ops.clamp(trust / rate, 0.0, 1.0)
        return (gradient + parameter * decay) * trust
