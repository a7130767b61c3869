"""Adam, and the optimizers that keep running means of the gradient and of its square as it does."""

from __future__ import annotations

import math
from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter
from framejit._tensors._tensor import Tensor
from framejit.nn._checks import of_type
from framejit.nn._optim._base import Optimizer

_FLOAT32 = ALL["float32"]


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
