"""Optimizers: called with a tuple of gradients, they write the parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter, ParameterTuple
from framejit._tensors._tensor import Tensor
from framejit.nn._cell import Cell
from framejit.nn._checks import in_unit, of_type

_FLOAT32 = ALL["float32"]
_GROUP_KEYS = ("params", "lr", "weight_decay", "grad_centralization", "order_params")


class Optimizer(Cell):
    """What the optimizers share.

    Parameters
    ----------
    learning_rate : float, Tensor, list of float or Cell
        A Cell is called with the number of the step; of a list, or a Tensor with one dimension, each step has its own, the last one from
        its end on. A number becomes the Parameter `learning_rate`, which may be written.
    parameters : list of Parameter, or list of dict
        What is trained. A dict is a group: 'params', and its own 'lr', 'weight_decay' and 'grad_centralization' (the mean of the gradient,
        except for the first dimension, is taken off where the second one is a multiple of 16, as MindSpore has it); a dict with 'order_params' alone gives the order of all parameters.
    weight_decay : float or Cell
        Times the parameter, added to its gradient; without groups not for parameters with beta or gamma in their names. A Cell is called
        with the number of the step.
    loss_scale : float
        The gradients are divided by it.
    """

    _decoupled = False  # the decay is no part of the gradient, but given to _update

    def __init__(self, learning_rate: Any, parameters: Any, weight_decay: Any = 0.0, loss_scale: float = 1.0) -> None:
        super().__init__(auto_prefix=False)
        name = type(self).__name__
        of_type(self, (int, float), loss_scale=loss_scale)
        if loss_scale <= 0:
            raise ValueError(f"For '{name}', the 'loss_scale' must be positive, but got {loss_scale}.")
        self.loss_scale: float = float(loss_scale)
        self.weight_decay: Any = self._checked_decay(weight_decay)
        self.global_step: Parameter = Parameter(Tensor([0], ALL["int32"]), name="global_step", requires_grad=False)
        parameters = self._listed(parameters, "parameters")
        self.is_group: bool = isinstance(parameters[0], dict)
        if not all(isinstance(one, dict if self.is_group else Parameter) for one in parameters):
            raise TypeError(f"For '{name}', the argument parameters must be a list of Parameter, or of dict.")
        default = self._rate_of("learning_rate", learning_rate)
        if self.is_group:
            rows = self._rows(parameters, default)
            filtered = [True] * len(rows)
        else:
            rows = [(parameter, default, self.weight_decay, False) for parameter in parameters]
            filtered = [not any(word in p.name.lower() for word in ("beta", "gamma")) for p in parameters]
        self.parameters: ParameterTuple = ParameterTuple([row[0] for row in rows])
        self.weights: tuple[Parameter, ...] = tuple(self.parameters)  # capture follows plain tuples
        rates: list[Any] = []
        decays: list[Any] = []
        self._rate_at = tuple([_place(rates, row[1]) for row in rows])
        self._decay_at = tuple([_place(decays, row[2]) for row in rows])
        self._rates, self._decays = tuple(rates), tuple(decays)
        self._centralized = tuple([row[3] for row in rows])
        self._decayed = tuple([flag and row[2] != 0.0 for flag, row in zip(filtered, rows)])
        self.is_group_lr: bool = len(rates) > 1
        if self.is_group_lr:
            self._forget("learning_rate")
            self.__dict__["learning_rate"] = tuple([row[1] for row in rows])
        elif self.__dict__.get("learning_rate") is not rates[0]:
            self.learning_rate: Any = rates[0]

    # --- What is given --------------------------------------------------------------------------------------------------------

    def _listed(self, parameters: Any, what: str) -> list[Any]:
        name = type(self).__name__
        if parameters is None:
            raise ValueError(f"For '{name}', the argument {what} must not be None.")
        if not isinstance(parameters, Iterable):
            raise TypeError(f"For '{name}', the argument {what} must be iterable, but got {type(parameters).__name__}.")
        parameters = list(parameters)
        if not parameters:
            raise ValueError(f"For '{name}', the argument {what} must not be empty.")
        return parameters

    def _checked_decay(self, weight_decay: Any) -> Any:
        if isinstance(weight_decay, Cell):
            return weight_decay
        of_type(self, (int, float, Cell), weight_decay=weight_decay)
        if weight_decay < 0:
            raise ValueError(
                f"For '{type(self).__name__}', the 'weight_decay' must be at least 0, but got {weight_decay}."
            )
        return float(weight_decay)

    def _rate_of(self, name: str, rate: Any) -> Any:
        """A Parameter, a Tensor with one dimension, or a Cell."""
        of = type(self).__name__
        if isinstance(rate, (int, float)) and not isinstance(rate, bool):
            if rate < 0:
                raise ValueError(f"For '{of}', the argument '{name}' must be at least 0, but got {rate}.")
            return self._named(name, Tensor(float(rate), _FLOAT32))
        if isinstance(rate, Cell):
            return rate
        if isinstance(rate, Tensor) and rate.ndim == 0:
            return self._named(name, Tensor(rate, _FLOAT32))
        if not isinstance(rate, (Tensor, list, tuple)):
            raise TypeError(
                f"For '{of}', the argument '{name}' must be float, Tensor, list or Cell, but got {type(rate).__name__}."
            )
        rates = Tensor(list(rate) if not isinstance(rate, Tensor) else rate, _FLOAT32)
        if rates.ndim != 1 or rates.size == 0:
            raise ValueError(
                f"For '{of}', the argument '{name}' must have one dimension and an element, but got {rate!r}."
            )
        return rates

    def _named(self, name: str, value: Any) -> Parameter:
        rate = Parameter(value, name=name, requires_grad=False)
        self.insert_param_to_cell(name, rate)
        return rate

    def _rows(self, groups: list[Any], default: Any) -> list[Any]:
        """(parameter, rate, decay, whether its gradient is centralized) for each parameter of the groups."""
        of, order = type(self).__name__, None
        rows: list[Any] = []
        for at, group in enumerate(groups):
            unknown = [key for key in group if key not in _GROUP_KEYS]
            if unknown:
                raise KeyError(f"For '{of}', the keys of a group must be among {list(_GROUP_KEYS)}, but got {unknown}.")
            if "order_params" in group:
                if len(group) > 1:
                    raise ValueError(
                        f"For '{of}', a group with 'order_params' must have no other key, but got {list(group)}."
                    )
                order = self._listed(group["order_params"], "'order_params'")
                continue
            rate = self._rate_of(f"learning_rate_group_{at}", group["lr"]) if "lr" in group else default
            decay = self._checked_decay(group["weight_decay"]) if "weight_decay" in group else self.weight_decay
            centralized = group.get("grad_centralization", False)
            of_type(self, bool, grad_centralization=centralized)
            for parameter in self._listed(group["params"], "'params' of a group"):
                of_type(self, Parameter, parameter=parameter)
                if any(parameter is row[0] for row in rows):
                    raise RuntimeError(f"For '{of}', the parameter {parameter.name!r} is in several groups.")
                rows.append((parameter, rate, decay, centralized))
        if order is None:
            return rows
        if len(order) != len(rows):
            raise ValueError(f"For '{of}', 'order_params' must have {len(rows)} parameters, but got {len(order)}.")
        by_id = {id(row[0]): row for row in rows}
        if any(id(parameter) not in by_id for parameter in order):
            raise ValueError(f"For '{of}', 'order_params' must have the parameters of the groups.")
        return [by_id[id(parameter)] for parameter in order]

    def _state(self, prefix: str, value: float = 0.0) -> tuple[Parameter, ...]:
        """One number everywhere, like the parameters."""
        made = [
            Parameter(ops.full_like(p, value), name=f"{prefix}.{p.name}", requires_grad=False) for p in self.parameters
        ]
        return self._keep(prefix, made)

    def _keep(self, name: str, made: list[Parameter]) -> tuple[Parameter, ...]:
        """Parameters of this optimizer under a name; capture follows the plain tuple in the instance dict."""
        setattr(self, name, ParameterTuple(made))
        self.__dict__[name] = tuple(made)
        return self.__dict__[name]

    def _in_range(self, low: float, high: float, **values: Any) -> None:
        """`TypeError` for what is no float, `ValueError` for what is not between the ends."""
        for name, value in values.items():
            of_type(self, float, **{name: value})
            if not low < value < high:
                raise ValueError(
                    f"For '{type(self).__name__}', the '{name}' must be in ({low}, {high}), but got {value}."
                )

    def _not_negative(self, **values: Any) -> None:
        """`TypeError` for what is no number, `ValueError` for what is below 0."""
        for name, value in values.items():
            of_type(self, (int, float), **{name: value})
            if value < 0:
                raise ValueError(f"For '{type(self).__name__}', the '{name}' must be at least 0, but got {value}.")

    # --- A step -----------------------------------------------------------------------------------------------------------------

    def _rate_now(self, rate: Any) -> Any:
        if isinstance(rate, Cell):
            return rate(self.global_step).reshape(())
        if rate.ndim == 0:
            return rate
        steps = ops.arange(rate.shape[0])
        return ops.sum(ops.where(steps == ops.minimum(self.global_step, rate.shape[0] - 1), rate, 0.0))

    def get_lr(self) -> Any:
        """The learning rate of this step; with groups that have their own, one for each parameter."""
        rates = [self._rate_now(rate) for rate in self._rates]
        return tuple([rates[at] for at in self._rate_at]) if self.is_group_lr else rates[0]

    def get_weight_decay(self) -> Any:
        """The weight decay of this step; with groups one for each parameter."""
        decays = [self._decay_now(decay) for decay in self._decays]
        return tuple([decays[at] for at in self._decay_at]) if self.is_group else decays[0]

    def get_lr_parameter(self, param: Any) -> Any:
        """The learning rate of a parameter of this optimizer, or those of a list of parameters."""
        if isinstance(param, (list, tuple)):
            return [self.get_lr_parameter(one) for one in param]
        of_type(self, Parameter, param=param)
        for at, one in enumerate(self.weights):
            if one is param:
                return self._rates[self._rate_at[at]]
        raise ValueError(f"For '{type(self).__name__}', there is no parameter {param.name!r}.")

    def _decay_now(self, decay: Any) -> Any:
        return decay(self.global_step).reshape(()) if isinstance(decay, Cell) else decay

    def construct(self, gradients: Any) -> Any:
        """Take a step; gives True for each parameter."""
        rates = [self._rate_now(rate) for rate in self._rates]
        decays = [self._decay_now(decay) for decay in self._decays]
        ops.assign_add(self.global_step, 1)
        self._begin()
        for at, gradient in enumerate(gradients):
            parameter, decay = self.weights[at], 0.0
            if self.loss_scale != 1.0:
                gradient = gradient / self.loss_scale
            if self._decayed[at]:
                decay = decays[self._decay_at[at]]
                if not self._decoupled:
                    gradient = gradient + parameter * decay
            if self._centralized[at] and gradient.ndim > 1 and gradient.shape[1] % 16 == 0:
                gradient = gradient - ops.mean(gradient, tuple(range(1, gradient.ndim)), True)
            self._update(at, parameter, gradient, rates[self._rate_at[at]], decay)
        return tuple([True] * len(self.weights))

    def _begin(self) -> None:
        """What a step does once."""

    def _step(self) -> Any:
        """The number of this step, from 1 on."""
        return self.global_step.reshape(())

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        raise NotImplementedError


def _place(values: list[Any], value: Any) -> int:
    for at, one in enumerate(values):
        if one is value:
            return at
    values.append(value)
    return len(values) - 1


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


class _RunningMeans(Optimizer):
    """Optimizers with running means of the gradient and of its square."""

    beta1: float
    beta2: float
    eps: float

    def _set_betas(self, beta1: float, beta2: float, eps: float) -> None:
        self._in_range(0.0, 1.0, beta1=beta1, beta2=beta2)
        self._in_range(0.0, math.inf, eps=eps)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps

    def _move_means(self, first: Parameter, second: Parameter, gradient: Any) -> None:
        ops.assign(first, first * self.beta1 + gradient * (1 - self.beta1))
        ops.assign(second, second * self.beta2 + ops.square(gradient) * (1 - self.beta2))


class Adam(_RunningMeans):
    """p -= rate * sqrt(1 - beta2 ** t) / (1 - beta1 ** t) * m / (sqrt(v) + eps), with m and v running means of g and g * g.

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    beta1 : float
        The share of the previous value in the running mean of gradients.
    beta2 : float
        The share of the previous value in the running mean of squares.
    eps : float
        A small number that keeps a divisor from being 0.
    use_locking : bool
        Accepted and ignored.
    use_nesterov : bool
        Whether to use Nesterov's form.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    loss_scale : float
        Gradients are divided by it.
    use_amsgrad : bool
        Whether to divide by the largest running mean of squares so far.
    **kwargs
        ``use_lazy`` and ``use_offload``, which are ignored.
    """

    use_nesterov: bool
    use_amsgrad: bool

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        use_locking: bool = False,
        use_nesterov: bool = False,
        weight_decay: Any = 0.0,
        loss_scale: float = 1.0,
        use_amsgrad: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        for name, value in kwargs.items():
            if name not in ("use_lazy", "use_offload"):
                raise TypeError(f"For 'Adam', there is no argument {name!r}.")
            of_type(self, bool, **{name: value})
        of_type(self, bool, use_locking=use_locking, use_nesterov=use_nesterov, use_amsgrad=use_amsgrad)
        self._set_betas(beta1, beta2, eps)
        self.use_nesterov, self.use_amsgrad = use_nesterov, use_amsgrad
        self.beta1_power: Parameter = Parameter(Tensor(1.0), name="beta1_power", requires_grad=False)
        self.beta2_power: Parameter = Parameter(Tensor(1.0), name="beta2_power", requires_grad=False)
        self._state("moment1")
        self._state("moment2")
        if use_amsgrad:
            self._state("vhat")

    def _begin(self) -> None:
        ops.assign(self.beta1_power, self.beta1_power * self.beta1)
        ops.assign(self.beta2_power, self.beta2_power * self.beta2)

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        first, second = self.moment1[at], self.moment2[at]
        self._move_means(first, second, gradient)
        scale = ops.sqrt(1 - self.beta2_power) / (1 - self.beta1_power) * rate
        mean = first * self.beta1 + gradient * (1 - self.beta1) if self.use_nesterov else first
        if self.use_amsgrad:
            second = ops.assign(self.vhat[at], ops.maximum(self.vhat[at], second))
        ops.assign_sub(parameter, scale * mean / (ops.sqrt(second) + self.eps))


class AdamWeightDecay(_RunningMeans):
    """p -= rate * (m / (sqrt(v) + eps) + weight_decay * p), with m and v running means of g and g * g.

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    beta1 : float
        The share of the previous value in the running mean of gradients.
    beta2 : float
        The share of the previous value in the running mean of squares.
    eps : float
        A small number that keeps a divisor from being 0.
    weight_decay : float or Cell
        The factor of the Parameters in the update.
    """

    _decoupled = True

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        self._set_betas(beta1, beta2, eps)
        self._state("adam_m")
        self._state("adam_v")

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        first, second = self.adam_m[at], self.adam_v[at]
        self._move_means(first, second, gradient)
        step = first / (ops.sqrt(second) + self.eps)
        if self._decayed[at]:
            step = step + parameter * decay
        ops.assign_sub(parameter, step * rate)


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


class AdaMax(_RunningMeans):
    """u = max(beta2 * u, abs(g) + eps); p -= rate / (1 - beta1 ** t) * m / u, with m a running mean of g.

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    beta1 : float
        The share of the previous value in the running mean of gradients.
    beta2 : float
        The share of the previous value in the running mean of squares.
    eps : float
        A small number that keeps a divisor from being 0.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    loss_scale : float
        Gradients are divided by it.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: Any = 0.0,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self._set_betas(beta1, beta2, eps)
        self.beta1_power: Parameter = Parameter(Tensor([1.0]), name="beta1_power", requires_grad=False)
        self._state("moment1")
        self._state("moment2")

    def _begin(self) -> None:
        ops.assign(self.beta1_power, self.beta1_power * self.beta1)

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        first, most = self.moment1[at], self.moment2[at]
        ops.assign(first, first * self.beta1 + gradient * (1 - self.beta1))
        ops.assign(most, ops.maximum(most * self.beta2, ops.abs(gradient)))
        ops.assign_sub(parameter, rate / (1 - self.beta1_power.reshape(())) * first / (most + self.eps))


class LazyAdam(Adam):
    """`Adam`: gradients here are dense.

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    beta1 : float
        The share of the previous value in the running mean of gradients.
    beta2 : float
        The share of the previous value in the running mean of squares.
    eps : float
        A small number that keeps a divisor from being 0.
    use_locking : bool
        Accepted and ignored.
    use_nesterov : bool
        Whether to use Nesterov's form.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    loss_scale : float
        Gradients are divided by it.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        use_locking: bool = False,
        use_nesterov: bool = False,
        weight_decay: Any = 0.0,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(params, learning_rate, beta1, beta2, eps, use_locking, use_nesterov, weight_decay, loss_scale)


class AdamOffload(LazyAdam):
    """`Adam`: there is one device.

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    beta1 : float
        The share of the previous value in the running mean of gradients.
    beta2 : float
        The share of the previous value in the running mean of squares.
    eps : float
        A small number that keeps a divisor from being 0.
    use_locking : bool
        Accepted and ignored.
    use_nesterov : bool
        Whether to use Nesterov's form.
    weight_decay : float or Cell
        This share of the Parameters is added to the gradients.
    loss_scale : float
        Gradients are divided by it.
    """


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


class Lamb(_RunningMeans):
    """p -= rate * r * u, with u = m' / (sqrt(v') + eps) + weight_decay * p, m' and v' running means of g and g * g without their bias, and r the
    norm of p divided by that of u.

    Parameters
    ----------
    params : list of Parameter, or list of dict
        The Parameters, or groups of them with their own ``lr`` and ``weight_decay``.
    learning_rate : float, list, Tensor or schedule
        The rate: a number, a list of rates, or a schedule.
    beta1 : float
        The share of the previous value in the running mean of gradients.
    beta2 : float
        The share of the previous value in the running mean of squares.
    eps : float
        A small number that keeps a divisor from being 0.
    weight_decay : float or Cell
        The factor of the Parameters in the update.
    """

    _decoupled = True

    def __init__(
        self,
        params: Any,
        learning_rate: Any,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        self._set_betas(beta1, beta2, eps)
        self._state("lamb_m")
        self._state("lamb_v")

    def _update(self, at: int, parameter: Parameter, gradient: Any, rate: Any, decay: Any) -> None:
        first, second = self.lamb_m[at], self.lamb_v[at]
        self._move_means(first, second, gradient)
        step = self._step().astype(_FLOAT32)
        mean, spread = first / (1 - ops.pow(self.beta1, step)), second / (1 - ops.pow(self.beta2, step))
        update = mean / (ops.sqrt(spread) + self.eps) + parameter * decay
        size, moved = ops.sqrt(ops.sum(ops.square(parameter))), ops.sqrt(ops.sum(ops.square(update)))
        ratio = ops.where(ops.logical_and(size > 0, moved > 0), size / ops.where(moved > 0, moved, 1.0), 1.0)
        ops.assign_sub(parameter, update * (ratio * rate))


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
