"""Primitives that update parameters: one function each, which writes into its first operands, and the options of its constructor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framejit import _core
from framejit.ops import _create, _elementwise, _further, _shape
from framejit.ops._primitives import _make

__all__: list[str] = []

_sqrt, _sign, _abs, _power, _maximum = (
    _core._op_sqrt, _core._op_sign, _core._op_absolute, _core._op_power, _core._op_maximum,
)  # fmt: skip

_sums: Any = vars(_further)["unsorted_segment_sum"]


def _write(*pairs: tuple[Any, Any]) -> Any:
    """Write each value into its operand, and return the operands."""
    for operand, value in pairs:
        operand[...] = value
    return tuple([operand for operand, _ in pairs])


def _at_rows(
    states: tuple[Any, ...], grad: Any, indices: Any, update: Callable[..., tuple[Any, ...]]
) -> tuple[Any, ...]:
    """Update rows of the operands. Gradients of one row are added first."""
    rows, places = _shape.unique(indices)
    summed = _sums(grad, places, rows.shape[0])
    for state, new in zip(states, update(*[state[rows] for state in states], summed)):
        state[rows] = new
    return states


def _in_turn(
    states: tuple[Any, ...], grad: Any, indices: Any, update: Callable[..., tuple[Any, ...]]
) -> tuple[Any, ...]:
    """Update rows of the operands by one gradient after the other, also where they are of one row."""
    for i in range(indices.shape[0]):
        row = indices[i]
        for state, new in zip(states, update(*[state[row] for state in states], grad[i])):
            state[row] = new
    return states


# --- The rules: from operands and a gradient to the new operands -----------------------------------------------------------


def _moments(m: Any, v: Any, beta1: Any, beta2: Any, grad: Any) -> tuple[Any, Any]:
    return m * beta1 + grad * (1 - beta1), v * beta2 + grad * grad * (1 - beta2)


def _rate(lr: Any, beta1_power: Any, beta2_power: Any) -> Any:
    return lr * _sqrt(1 - beta2_power) / (1 - beta1_power)


def _adagrad(var: Any, accum: Any, lr: Any, epsilon: float, update_slots: bool, grad: Any) -> tuple[Any, Any]:
    if update_slots:
        accum = accum + grad * grad
    return var - lr * grad / (_sqrt(accum) + epsilon), accum


def _ftrl(
    var: Any, accum: Any, linear: Any, lr: Any, l1: Any, l2: Any, shrinkage: Any, lr_power: Any, grad: Any
) -> tuple[Any, ...]:
    total = accum + grad * grad
    power, before = _power(total, -lr_power), _power(accum, -lr_power)
    moved = linear + (grad + var * (2 * shrinkage)) - (power - before) / lr * var
    new = (_sign(moved) * l1 - moved) / (power / lr + l2 * 2)
    return _elementwise.where(_abs(moved) > l1, new, _create.zeros_like(var)), total, moved


def _shrunk(x: Any, rate: Any, l1: Any, l2: Any) -> Any:
    """The proximal step for weights of the absolute values and of the squares."""
    return _sign(x) * _maximum(_abs(x) - rate * l1, 0.0) / (rate * l2 + 1)


def _proximal_adagrad(var: Any, accum: Any, lr: Any, l1: Any, l2: Any, grad: Any) -> tuple[Any, Any]:
    total = accum + grad * grad
    rate = lr / _sqrt(total)  # of each element, also for what l1 and l2 take off
    return _shrunk(var - grad * rate, rate, l1, l2), total


# --- Momentum -------------------------------------------------------------------------------------------------------------


def _apply_momentum(
    variable: Any, accumulation: Any, learning_rate: Any, gradient: Any, momentum: Any, use_nesterov: bool,
    use_locking: bool, gradient_scale: float,
) -> Any:  # fmt: skip
    gradient = gradient * gradient_scale
    moved = accumulation * momentum + gradient
    step = gradient + moved * momentum if use_nesterov else moved
    return _write((variable, variable - step * learning_rate), (accumulation, moved))[0]


def _apply_keras_momentum(
    var: Any, accum: Any, lr: Any, grad: Any, momentum: Any, use_locking: bool, use_nesterov: bool
) -> Any:
    moved = accum * momentum - grad * lr
    return _write((var, var + (moved * momentum - grad * lr if use_nesterov else moved)), (accum, moved))


def _sgd(
    parameters: Any, gradient: Any, learning_rate: Any, accum: Any, momentum: Any, stat: Any, dampening: float,
    weight_decay: float, nesterov: bool,
) -> Any:  # fmt: skip
    """The first step, in which `stat` is not 0, has no momentum yet."""
    gradient = gradient + parameters * weight_decay if weight_decay else gradient
    moved = _elementwise.where(stat > 0, gradient, accum * momentum + gradient * (1 - dampening))
    step = gradient + moved * momentum if nesterov else moved
    return _write((parameters, parameters - step * learning_rate), (accum, moved), (stat, _create.zeros_like(stat)))[0]


# --- Adam and its kin --------------------------------------------------------------------------------------------------------


def _adam(
    var: Any, m: Any, v: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, gradient: Any,
    use_locking: bool, use_nesterov: bool,
) -> Any:  # fmt: skip
    first, second = _moments(m, v, beta1, beta2, gradient)
    step = first * beta1 + gradient * (1 - beta1) if use_nesterov else first
    rate = _rate(lr, beta1_power, beta2_power)
    return _write((var, var - step * rate / (_sqrt(second) + epsilon)), (m, first), (v, second))


def _adam_weight_decay(
    var: Any,
    m: Any,
    v: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    decay: Any,
    gradient: Any,
    use_locking: bool,
) -> Any:
    first, second = _moments(m, v, beta1, beta2, gradient)
    step = first / (_sqrt(second) + epsilon) + var * decay
    return _write((var, var - step * lr), (m, first), (v, second))


def _with_amsgrad(
    var: Any, m: Any, v: Any, vhat: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, grad: Any,
    use_locking: bool,
) -> Any:  # fmt: skip
    first, second = _moments(m, v, beta1, beta2, grad)
    largest = _maximum(vhat, second)
    rate = _rate(lr, beta1_power, beta2_power)
    return _write((var, var - first * rate / (_sqrt(largest) + epsilon)), (m, first), (v, second), (vhat, largest))


def _apply_amsgrad(
    var: Any, m: Any, v: Any, vhat: Any, beta1_power: Any, beta2_power: Any, lr: Any, grad: Any, beta1: float, beta2: float,
    epsilon: float, use_locking: bool,
) -> Any:  # fmt: skip
    return _with_amsgrad(var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, use_locking)


def _ada_max(
    var: Any, m: Any, v: Any, beta1_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, grad: Any
) -> Any:
    first = m * beta1 + grad * (1 - beta1)
    largest = _maximum(v * beta2, _abs(grad))
    return _write((var, var - lr / (1 - beta1_power) * first / (largest + epsilon)), (m, first), (v, largest))


# --- Adagrad, RMSProp and others -----------------------------------------------------------------------------------------------


def _adadelta(var: Any, accum: Any, accum_update: Any, lr: Any, rho: Any, epsilon: Any, grad: Any) -> Any:
    squares = accum * rho + grad * grad * (1 - rho)
    step = _sqrt(accum_update + epsilon) * grad / _sqrt(squares + epsilon)
    return _write(
        (var, var - step * lr), (accum, squares), (accum_update, accum_update * rho + step * step * (1 - rho))
    )


def _apply_adagrad(var: Any, accum: Any, lr: Any, grad: Any, *, update_slots: bool, epsilon: float = 0.0) -> Any:
    new, total = _adagrad(var, accum, lr, epsilon, update_slots, grad)
    return _write((var, new), (accum, total))


def _adagrad_da(
    var: Any, gradient_accumulator: Any, gradient_squared_accumulator: Any, grad: Any, lr: Any, l1: Any, l2: Any, global_step: Any,
    use_locking: bool,
) -> Any:  # fmt: skip
    total = gradient_accumulator + grad
    squares = gradient_squared_accumulator + grad * grad
    chosen = _sign(total) * _maximum(_abs(total) - l1 * global_step, 0.0) if l1 > 0 else total
    new = chosen * lr * -1 / (l2 * global_step * lr + _sqrt(squares))
    return _write((var, new), (gradient_accumulator, total), (gradient_squared_accumulator, squares))[0]


def _add_sign(var: Any, m: Any, lr: Any, alpha: Any, sign_decay: Any, beta: Any, grad: Any) -> Any:
    first = m * beta + grad * (1 - beta)
    step = (_sign(grad) * _sign(first) * sign_decay + alpha) * grad
    return _write((var, var - step * lr), (m, first))


def _power_sign(var: Any, m: Any, lr: Any, logbase: Any, sign_decay: Any, beta: Any, grad: Any) -> Any:
    first = m * beta + grad * (1 - beta)
    step = _core._op_exp(_sign(grad) * _sign(first) * sign_decay * logbase) * grad
    return _write((var, var - step * lr), (m, first))


def _rms_prop(
    var: Any, mean_square: Any, moment: Any, learning_rate: Any, grad: Any, decay: Any, momentum: Any, epsilon: Any,
    use_locking: bool,
) -> Any:  # fmt: skip
    squares = mean_square * decay + grad * grad * (1 - decay)
    moved = moment * momentum + grad * learning_rate / _sqrt(squares + epsilon)
    return _write((var, var - moved), (mean_square, squares), (moment, moved))[0]


def _centered_rms_prop(
    var: Any, mean_gradient: Any, mean_square: Any, moment: Any, grad: Any, learning_rate: Any, decay: Any, momentum: Any, epsilon: Any,
    use_locking: bool,
) -> Any:  # fmt: skip
    squares = mean_square * decay + grad * grad * (1 - decay)
    mean = mean_gradient * decay + grad * (1 - decay)
    moved = moment * momentum + grad * learning_rate / _sqrt(squares - mean * mean + epsilon)
    return _write((var, var - moved), (mean_gradient, mean), (mean_square, squares), (moment, moved))[0]


def _apply_ftrl(
    var: Any, accum: Any, linear: Any, grad: Any, lr: Any, l1: Any, l2: Any, lr_power: Any, use_locking: bool
) -> Any:
    new, total, moved = _ftrl(var, accum, linear, lr, l1, l2, 0.0, lr_power, grad)
    return _write((var, new), (accum, total), (linear, moved))[0]


def _gradient_descent(var: Any, alpha: Any, delta: Any) -> Any:
    return _write((var, var - delta * alpha))[0]


def _proximal_gradient_descent(var: Any, alpha: Any, l1: Any, l2: Any, delta: Any) -> Any:
    return _write((var, _shrunk(var - delta * alpha, alpha, l1, l2)))[0]


def _apply_proximal_adagrad(var: Any, accum: Any, lr: Any, l1: Any, l2: Any, grad: Any, use_locking: bool) -> Any:
    new, total = _proximal_adagrad(var, accum, lr, l1, l2, grad)
    return _write((var, new), (accum, total))


# --- For gradients of some rows ------------------------------------------------------------------------------------------------


def _sparse_adagrad(
    var: Any, accum: Any, grad: Any, indices: Any, lr: float, update_slots: bool, use_locking: bool
) -> Any:
    def update(var: Any, accum: Any, grad: Any) -> Any:
        return _adagrad(var, accum, lr, 0.0, update_slots, grad)

    return _at_rows((var, accum), grad, indices, update)


def _sparse_adagrad_v2(
    var: Any, accum: Any, grad: Any, indices: Any, lr: float, epsilon: float, use_locking: bool, update_slots: bool
) -> Any:
    """`epsilon` is added below the root."""

    def update(var: Any, accum: Any, grad: Any) -> Any:
        if update_slots:
            accum = accum + grad * grad
        return var - lr * grad / _sqrt(accum + epsilon), accum

    return _in_turn((var, accum), grad, indices, update)


def _ftrl_of_rows(rows: Any) -> Callable[..., Any]:
    def sparse_ftrl(
        var: Any, accum: Any, linear: Any, grad: Any, indices: Any, *, lr: float, l1: float, l2: float, lr_power: float,
        use_locking: bool, l2_shrinkage: float = 0.0,
    ) -> Any:  # fmt: skip
        def update(var: Any, accum: Any, linear: Any, grad: Any) -> Any:
            return _ftrl(var, accum, linear, lr, l1, l2, l2_shrinkage, lr_power, grad)

        return rows((var, accum, linear), grad, indices, update)

    return sparse_ftrl


def _sparse_proximal_adagrad(
    var: Any, accum: Any, lr: Any, l1: Any, l2: Any, grad: Any, indices: Any, use_locking: bool
) -> Any:
    def update(var: Any, accum: Any, grad: Any) -> Any:
        return _proximal_adagrad(var, accum, lr, l1, l2, grad)

    return _at_rows((var, accum), grad, indices, update)


def _fused_adam(
    var: Any, m: Any, v: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, gradient: Any,
    indices: Any, use_locking: bool, use_nesterov: bool,
) -> Any:  # fmt: skip
    """Rows without a gradient move by what they have of earlier ones, but not with `use_nesterov`."""
    whole = _sums(gradient, indices, var.shape[0])
    first, second = _moments(m, v, beta1, beta2, whole)
    step = first
    if use_nesterov:
        counts = _sums(_create.ones_like(gradient), indices, var.shape[0])
        step = _elementwise.where(counts > 0, first * beta1 + whole * (1 - beta1), _create.zeros_like(first))
    rate = _rate(lr, beta1_power, beta2_power)
    return _write((var, var - step * rate / (_sqrt(second) + epsilon)), (m, first), (v, second))


def _fused_lazy_adam(
    var: Any, m: Any, v: Any, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any, epsilon: Any, gradient: Any,
    indices: Any, use_locking: bool, use_nesterov: bool,
) -> Any:  # fmt: skip
    """Rows without a gradient stay."""

    def update(var: Any, m: Any, v: Any, grad: Any) -> Any:
        return _adam(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, use_locking, use_nesterov)

    return _at_rows((var, m, v), gradient, indices, update)


_LOCKING = {"use_locking": False}
_NESTEROV = {**_LOCKING, "use_nesterov": False}
_FTRL = dict.fromkeys(("lr", "l1", "l2", "lr_power"))
_ROWS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "ApplyMomentum": (_apply_momentum, {"use_nesterov": False, "use_locking": False, "gradient_scale": 1.0}),
    "ApplyKerasMomentum": (_apply_keras_momentum, _NESTEROV),
    "SGD": (_sgd, {"dampening": 0.0, "weight_decay": 0.0, "nesterov": False}),
    "Adam": (_adam, _NESTEROV),
    "AdamWeightDecay": (_adam_weight_decay, _LOCKING),
    "ApplyAdamWithAmsgrad": (_apply_amsgrad, {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, **_LOCKING}),
    "ApplyAdamWithAmsgradV2": (_with_amsgrad, _LOCKING),
    "ApplyAdaMax": (_ada_max, {}),
    "ApplyAdadelta": (_adadelta, {}),
    "ApplyAdagrad": (_apply_adagrad, {"update_slots": True}),
    "ApplyAdagradV2": (_apply_adagrad, {"epsilon": None, "update_slots": True}),
    "ApplyAdagradDA": (_adagrad_da, _LOCKING),
    "ApplyAddSign": (_add_sign, {}),
    "ApplyPowerSign": (_power_sign, {}),
    "ApplyRMSProp": (_rms_prop, _LOCKING),
    "ApplyCenteredRMSProp": (_centered_rms_prop, _LOCKING),
    "ApplyFtrl": (_apply_ftrl, _LOCKING),
    "ApplyGradientDescent": (_gradient_descent, {}),
    "ApplyProximalGradientDescent": (_proximal_gradient_descent, {}),
    "ApplyProximalAdagrad": (_apply_proximal_adagrad, _LOCKING),
    "SparseApplyAdagrad": (_sparse_adagrad, {"lr": None, "update_slots": True, "use_locking": False}),
    "SparseApplyAdagradV2": (_sparse_adagrad_v2, {"lr": None, "epsilon": None, "use_locking": False, "update_slots": True}),
    "SparseApplyFtrl": (_ftrl_of_rows(_in_turn), {**_FTRL, **_LOCKING}),
    "SparseApplyFtrlV2": (_ftrl_of_rows(_in_turn), {"lr": None, "l1": None, "l2": None, "l2_shrinkage": None, "lr_power": None, **_LOCKING}),
    "SparseApplyProximalAdagrad": (_sparse_proximal_adagrad, _LOCKING),
    "FusedSparseAdam": (_fused_adam, _NESTEROV),
    "FusedSparseLazyAdam": (_fused_lazy_adam, _NESTEROV),
    "FusedSparseFtrl": (_ftrl_of_rows(_at_rows), {**_FTRL, **_LOCKING}),
    "FusedSparseProximalAdagrad": (_sparse_proximal_adagrad, _LOCKING),
}  # fmt: skip

for _name, (_function, _options) in _ROWS.items():
    globals()[_name] = _make(_name, _function, _options)
    globals()[_name].__doc__ = _function.__doc__ or f"MindSpore's primitive {_name}: it writes into its first operands."
    __all__ += [_name]
