"""The base of the optimizers: parameters and their groups, rates, decays, and a step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter, ParameterTuple
from framejit._tensors._tensor import Tensor
from framejit.nn._cell import Cell
from framejit.nn._checks import of_type

_FLOAT32 = ALL["float32"]
_GROUP_KEYS = ("params", "lr", "weight_decay", "grad_centralization", "order_params")


class Optimizer(Cell):
    """Base class of the optimizers.

    Parameters
    ----------
    learning_rate : float, Tensor, list of float or Cell
        A Cell is called with the number of the step; of a list, or a Tensor with one dimension, each step has its own, the last one from
        its end on. A number becomes the Parameter `learning_rate`, which may be written.
    parameters : list of Parameter, or list of dict
        The Parameters to train. A dict is a group: 'params', and its own 'lr', 'weight_decay' and 'grad_centralization' (the mean of the gradient,
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
        """Does the work that a step does once, not once for each parameter."""

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
