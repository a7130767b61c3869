"""Cells that train: a step of a network and its optimizer, also with a scaled loss; gradients and evaluation."""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._autodiff._grad import GradOperation, jvp, make_ignoring_fp_flags, value_and_grad
from framejit._tensors._parameter import Parameter, ParameterTuple
from framejit._tensors._tensor import Tensor
from framejit.context import get_auto_parallel_context
from framejit.nn._cell import Cell
from framejit.nn._checks import of_type, positive_int
from framejit.nn._losses import WithLossCell
from framejit.ops._process_group import HCCL_WORLD_COMM_GROUP, get_group_size


class TrainOneStepCell(Cell):
    """A step: the loss, the gradients of the optimizer's parameters, and their update, as one graph where the network is one.

    Parameters
    ----------
    network : Cell
        Gives the loss.
    optimizer : Cell
        Is called with the gradients of its `parameters`.
    sens : float, optional
        The gradients are multiplied by it.
    return_grad : bool
        The result is (loss, {name: gradient}).

    Examples
    --------
    >>> import framejit as fj
    >>> net = fj.nn.WithLossCell(fj.nn.Dense(1, 1, "ones", has_bias=False), fj.nn.MSELoss())
    >>> step = fj.nn.TrainOneStepCell(net, fj.nn.SGD(net.trainable_params(), 0.1))
    >>> x, y = fj.Tensor([[1.0]]), fj.Tensor([[3.0]])
    >>> [round(step(x, y).item(), 4) for _ in range(3)]
    [4.0, 2.56, 1.6384]
    """

    network: Cell
    optimizer: Any
    sens: float | None
    return_grad: bool

    def __init__(self, network: Cell, optimizer: Any, sens: float | None = None, return_grad: bool = False) -> None:
        super().__init__(auto_prefix=False)
        if sens == 0:
            raise ValueError("For 'TrainOneStepCell', the argument 'sens' must not be 0.")
        self.network, self.optimizer = network, optimizer
        self.weights: Any = optimizer.parameters
        self.sens, self.return_grad = sens, return_grad
        network.set_grad()
        self.grad: Any = value_and_grad(network, None, self.weights)
        self.names: tuple[Any, ...] = tuple([weight.name for weight in self.weights])
        self.step: Any = make_ignoring_fp_flags(_step, (network._jit_config or {}).get("jit_level") or "O0")

    def construct(self, *inputs: Any) -> Any:
        """Take a step; gives the loss."""
        return self.step(self, *inputs)


def _step(cell: TrainOneStepCell, *inputs: Any) -> Any:
    loss, gradients = cell.grad(*inputs)
    if cell.sens is not None:
        gradients = tuple([gradient * cell.sens for gradient in gradients])
    cell.optimizer(gradients)
    return (loss, dict(zip(cell.names, gradients))) if cell.return_grad else loss


class TrainOneStepWithLossScaleCell(TrainOneStepCell):
    """A step whose loss is multiplied by a scale before it is differentiated, and whose gradients are divided by it: small gradients of float16
    stay. Where a gradient is infinite or NaN, nothing is updated.

    A call gives (loss, whether a gradient was infinite or NaN, scale).

    Parameters
    ----------
    network, optimizer : Cell
        As for `TrainOneStepCell`.
    scale_sense : Tensor or Cell
        The scale, or a cell with the first one as ``get_loss_scale()``, which is called with the Parameter and whether a gradient was
        infinite or NaN: `DynamicLossScaleUpdateCell`, `FixedLossScaleUpdateCell`.

    Examples
    --------
    >>> import framejit as fj
    >>> net = fj.nn.WithLossCell(fj.nn.Dense(1, 1, "ones", has_bias=False), fj.nn.MSELoss())
    >>> optimizer, scale = fj.nn.SGD(net.trainable_params(), 0.1), fj.nn.DynamicLossScaleUpdateCell(1024, 2, 100)
    >>> step = fj.nn.TrainOneStepWithLossScaleCell(net, optimizer, scale)
    >>> loss, overflow, scale = step(fj.Tensor([[1.0]]), fj.Tensor([[3.0]]))
    >>> loss.item(), overflow.item(), scale.item(), round(net.trainable_params()[0].item(), 4)
    (4.0, False, 1024.0, 1.4)
    """

    loss_scaling_manager: Cell | None

    def __init__(self, network: Cell, optimizer: Any, scale_sense: Any) -> None:
        super().__init__(network, optimizer)
        self.loss_scaling_manager = None
        if isinstance(scale_sense, Cell):
            self.loss_scaling_manager = scale_sense
            scale_sense = Tensor(scale_sense.get_loss_scale(), ALL["float32"])
        elif not isinstance(scale_sense, Tensor):
            raise TypeError(
                f"For '{type(self).__name__}', the 'scale_sense' must be a Cell or a Tensor, but got {type(scale_sense).__name__}."
            )
        if scale_sense.shape not in ((), (1,)):
            raise ValueError(
                f"For '{type(self).__name__}', the shape of 'scale_sense' must be () or (1,), but got {scale_sense.shape}."
            )
        self.scale_sense: Parameter = Parameter(scale_sense, name="scale_sense", requires_grad=False)

        def scaled(scale: Any, *inputs: Any) -> Any:
            loss = network(*inputs)
            return loss * scale.reshape(()).astype(loss.dtype), loss

        level = (network._jit_config or {}).get("jit_level") or "O0"
        self.grad: Any = value_and_grad(scaled, None, self.weights, has_aux=True)
        self.step: Any = make_ignoring_fp_flags(_scaled_step, level)
        self.update: Any = make_ignoring_fp_flags(_update, level)

    def construct(self, *inputs: Any) -> Any:
        """Take a step; gives the loss, whether a gradient was infinite or NaN, and the scale."""
        loss, gradients, overflow = self.step(self, *inputs)
        skipped = (
            overflow if self.loss_scaling_manager is None else self.loss_scaling_manager(self.scale_sense, overflow)
        )
        if not skipped:
            self.update(self, gradients)
        return loss, overflow, self.scale_sense

    def set_sense_scale(self, sens: Any) -> None:
        """Another scale."""
        if not isinstance(sens, Tensor):
            raise TypeError(f"For '{type(self).__name__}', the 'sens' must be a Tensor, but got {type(sens).__name__}.")
        self.scale_sense.set_data(sens)


def _scaled_step(cell: TrainOneStepWithLossScaleCell, *inputs: Any) -> Any:
    scale = cell.scale_sense
    (_, loss), gradients = cell.grad(scale, *inputs)
    gradients = tuple([gradient * (1 / scale.reshape(())).astype(gradient.dtype) for gradient in gradients])
    finite: Any = True
    for gradient in gradients:
        finite = ops.logical_and(ops.isfinite(gradient).all(), finite)
    return loss, gradients, ops.logical_not(finite)


def _update(cell: TrainOneStepWithLossScaleCell, gradients: Any) -> Any:
    return cell.optimizer(gradients)


class DynamicLossScaleUpdateCell(Cell):
    """A scale that is divided by a factor, to no less than 1, where a gradient was infinite or NaN, and multiplied by it after a number of steps
    without.

    Parameters
    ----------
    loss_scale_value : float
        The first scale.
    scale_factor : float
        The factor.
    scale_window : int
        After how many steps.
    """

    loss_scale_value: float
    scale_factor: float
    scale_window: int

    def __init__(self, loss_scale_value: float, scale_factor: float, scale_window: int) -> None:
        super().__init__()
        self.loss_scale_value, self.scale_factor, self.scale_window = loss_scale_value, scale_factor, scale_window
        self.cur_iter: Parameter = Parameter(Tensor(1, ALL["int32"]), name="current_iterator_step")
        self.last_overflow_iter: Parameter = Parameter(Tensor(0, ALL["int32"]), name="last_overflow_iterator_step")

    def get_loss_scale(self) -> float:
        """The first scale."""
        return self.loss_scale_value

    def construct(self, loss_scale: Any, overflow: Any) -> Any:
        """Write the scale of the next step; gives `overflow`."""
        full = self.cur_iter - self.last_overflow_iter >= self.scale_window
        smaller, larger = ops.maximum(loss_scale / self.scale_factor, 1.0), loss_scale * self.scale_factor
        ops.assign(loss_scale, ops.where(overflow, smaller, ops.where(full, larger, loss_scale)))
        ops.assign(
            self.last_overflow_iter, ops.where(ops.logical_or(overflow, full), self.cur_iter, self.last_overflow_iter)
        )
        ops.assign_add(self.cur_iter, 1)
        return overflow


class FixedLossScaleUpdateCell(Cell):
    """A scale that stays.

    Parameters
    ----------
    loss_scale_value : float
        The scale.
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        self.loss_scale_value = loss_scale_value

    def get_loss_scale(self) -> float:
        """The scale."""
        return self.loss_scale_value

    def construct(self, _: Any, overflow: Any) -> Any:
        """`overflow`."""
        return overflow


class WithGradCell(Cell):
    """The gradients of a network, or of its loss, by its parameters; `sens` is the gradient of the result.

    Parameters
    ----------
    network : Cell
        The network.
    loss_fn : Cell, optional
        The loss, a function of output and label.
    sens : Tensor or number, optional
        The gradient of the result; by default 1.
    """

    network: Cell
    loss_fn: Any
    sens: Any

    def __init__(self, network: Cell, loss_fn: Any = None, sens: Any = None) -> None:
        super().__init__(auto_prefix=False)
        self.network, self.loss_fn, self.sens = network, loss_fn, sens
        self.weights: ParameterTuple = ParameterTuple(network.trainable_params())
        self.network_with_loss: Cell | WithLossCell = network if loss_fn is None else WithLossCell(network, loss_fn)
        self.network_with_loss.set_train()
        self.grad: Any = GradOperation(get_by_list=True, sens_param=sens is not None)(
            self.network_with_loss, self.weights
        )

    def construct(self, *inputs: Any) -> Any:
        """The gradients."""
        return self.grad(*inputs) if self.sens is None else self.grad(*inputs, self.sens)


class ForwardValueAndGrad(Cell):
    """(what a network gives, its gradients), by the first input.

    Parameters
    ----------
    network : Cell or function
        What is differentiated.
    weights : ParameterTuple or list of Parameter, optional
        For `get_by_list`.
    get_all, get_by_list, sens_param : bool
        As for `GradOperation`.
    """

    network: Any
    weights: Any
    get_all: bool
    get_by_list: bool
    sens_param: bool

    def __init__(
        self,
        network: Any,
        weights: Any = None,
        get_all: bool = False,
        get_by_list: bool = False,
        sens_param: bool = False,
    ) -> None:
        super().__init__(auto_prefix=False)
        of_type(self, (Cell, FunctionType, MethodType), network=network)
        of_type(self, bool, get_all=get_all, get_by_list=get_by_list)
        if get_by_list:
            of_type(self, (ParameterTuple, tuple, list), weights=weights)
        self.network, self.weights = network, weights
        self.get_all, self.get_by_list, self.sens_param = get_all, get_by_list, sens_param
        if isinstance(network, Cell):
            network.set_grad()
        self.grad: Any = GradOperation(get_all, get_by_list, sens_param)(network, weights)

    def construct(self, *inputs: Any) -> Any:
        """The value and the gradients."""
        return self.network(*(inputs[:-1] if self.sens_param else inputs)), self.grad(*inputs)


class Jvp(Cell):
    """``Jvp(fn)(*inputs, v)``: what `fn` gives, and its derivative in the direction `v`, a tuple where there are several inputs.

    Parameters
    ----------
    fn : callable or Cell
        The function.
    """

    def __init__(self, fn: Any) -> None:
        super().__init__()
        self.fn = fn

    def construct(self, *args: Any) -> Any:
        """The value and the derivative."""
        return jvp(self.fn, args[:-1], args[-1])


class Vjp(Cell):
    """``Vjp(fn)(*inputs, v)``: what `fn` gives, and the gradients of the inputs where `v` is that of the result.

    Parameters
    ----------
    fn : callable or Cell
        The function.
    """

    def __init__(self, fn: Any) -> None:
        super().__init__()
        self.fn = fn

    def construct(self, *args: Any) -> Any:
        """The value and the gradients."""
        out = self.fn(*args[:-1])
        return out, GradOperation(get_all=len(args) > 2, sens_param=True)(self.fn)(*args)


class GradAccumulationCell(Cell):
    """The sum of what a network gives for each of `micro_size` equal parts of a batch.

    Parameters
    ----------
    network : Cell
        The network.
    micro_size : int
        The number of parts.
    """

    network: Cell
    micro_size: int

    def __init__(self, network: Cell, micro_size: int) -> None:
        super().__init__(auto_prefix=False)
        of_type(self, Cell, network=network)
        positive_int(self, micro_size=micro_size)
        self.network, self.micro_size = network, micro_size

    def construct(self, *inputs: Any) -> Any:
        """The sum."""
        for x in inputs:
            if x.shape[0] % self.micro_size:
                raise ValueError(
                    f"For 'GradAccumulationCell', the first dimension must be a multiple of {self.micro_size}, but got {x.shape}."
                )
        parts = [self.network(*part) for part in zip(*[ops.chunk(x, self.micro_size) for x in inputs])]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


class ParameterUpdate(Cell):
    """Writes a Parameter.

    Parameters
    ----------
    param : Parameter
        The Parameter.
    """

    def __init__(self, param: Any) -> None:
        super().__init__(auto_prefix=False)
        of_type(self, Parameter, param=param)
        self._param = param

    def construct(self, x: Any) -> Any:
        """Write it; gives what was written."""
        ops.assign(self._param, x)
        return x


class WithEvalCell(Cell):
    """(loss, output, label) of a network.

    Parameters
    ----------
    network : Cell
        The network.
    loss_fn : Cell
        The loss, a function of output and label.
    add_cast_fp32 : bool
        Whether outputs are converted to float32 first.
    """

    add_cast_fp32: bool

    def __init__(self, network: Cell, loss_fn: Any, add_cast_fp32: bool = False) -> None:
        super().__init__(auto_prefix=False)
        self._network, self._loss_fn, self.add_cast_fp32 = network, loss_fn, add_cast_fp32

    def construct(self, data: Any, label: Any) -> Any:
        """The loss, what the network gives, and the label."""
        out = self._network(data)
        if self.add_cast_fp32:
            out = ops.cast(out, out.dtype if out.dtype.name == "float64" else "float32")
        return self._loss_fn(out, label), out, label


class DistributedGradReducer(Cell):
    """The gradients of all processes together: with one process, those that are given.

    Parameters
    ----------
    parameters : list of Parameter
        What is trained.
    mean : bool, optional
        Whether the gradients are divided by `degree`; by default the setting ``gradients_mean`` of `set_auto_parallel_context`.
    degree : int, optional
        The divisor; by default the number of processes.
    fusion_type : int
        Accepted and ignored.
    group : str
        The group of processes.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.communication.init()
    >>> reduce = fj.nn.DistributedGradReducer([fj.Parameter(fj.Tensor([1.0]), name="w")], mean=True, degree=4)
    >>> reduce((fj.Tensor([8.0]),))[0].tolist()
    [2.0]
    >>> fj.communication.release()
    """

    mean: bool

    def __init__(
        self,
        parameters: Any,
        mean: Any = None,
        degree: Any = None,
        fusion_type: int = 1,
        group: str = HCCL_WORLD_COMM_GROUP,
    ) -> None:
        super().__init__(auto_prefix=False)
        if degree is None:
            degree = get_group_size()
        if not isinstance(degree, int) or degree <= 0:
            raise ValueError(
                "For 'DistributedGradReducer', parameter 'degree' in DistributedGradReducer should large than 0 and be int, "
                f"degree: {degree}."
            )
        self.mean = get_auto_parallel_context("gradients_mean") if mean is None else mean
        self.degree: Tensor = Tensor(1.0 / degree, ALL["float32"])
        self.allreduce: Any = ops.AllReduce("sum", group)
        self.allreduce_filter: tuple[bool, ...] = tuple([not one.layerwise_parallel for one in parameters])

    def construct(self, grads: Any) -> Any:
        """The gradients, added up or averaged."""
        reduced = []
        for gradient, added in zip(grads, self.allreduce_filter, strict=True):
            one = self.allreduce(gradient) if added else gradient
            reduced.append(one * self.degree.astype(one.dtype) if self.mean else one)
        return tuple(reduced)
