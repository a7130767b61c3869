"""Layers: cells around functions of framejit.ops."""

from __future__ import annotations

import math
from typing import Any

from framejit import ops
from framejit._dtypes import ALL
from framejit._parameter import Parameter
from framejit.common.initializer import HeUniform, Uniform, initializer
from framejit.nn._cell import Cell

_FLOAT32 = ALL["float32"]


def _activation(name: str, function: Any, parameters: dict[str, Any]) -> type[Cell]:
    """A cell that calls a function with the options that it was made with."""
    names = tuple(parameters)

    def init(self: Any, *args: Any, **options: Any) -> None:
        Cell.__init__(self)
        unknown = [option for option in options if option not in parameters]
        if unknown or len(args) > len(names):
            raise TypeError(f"{name} takes the arguments {list(names)}, but got {unknown or args}")
        self.options = {**parameters, **dict(zip(names, args)), **options}
        for option, value in self.options.items():
            setattr(self, option, value)

    def construct(self: Any, input: Any) -> Any:
        return function(input, **self.options)

    def extend_repr(self: Any) -> str:
        return ", ".join(f"{option}={value}" for option, value in self.options.items())

    body = {"__init__": init, "construct": construct, "extend_repr": extend_repr, "__doc__": f"{function.__doc__}"}
    return type(name, (Cell,), {**body, "__module__": __name__, "__qualname__": name})


_ACTIVATIONS = {
    "ReLU": (ops.relu, {}),
    "ReLU6": (ops.relu6, {}),
    "Sigmoid": (ops.sigmoid, {}),
    "Tanh": (ops.tanh, {}),
    "Softmax": (ops.softmax, {"axis": -1}),
    "LogSoftmax": (ops.log_softmax, {"axis": -1}),
    "Softmin": (ops.softmin, {"axis": -1}),
    "LeakyReLU": (ops.leaky_relu, {"alpha": 0.2}),
    "ELU": (ops.elu, {"alpha": 1.0}),
    "CELU": (ops.celu, {"alpha": 1.0}),
    "SeLU": (ops.selu, {}),
    "SiLU": (ops.silu, {}),
    "Mish": (ops.mish, {}),
    "HSigmoid": (ops.hardsigmoid, {}),
    "HSwish": (ops.hardswish, {}),
    "Hardtanh": (ops.hardtanh, {"min_val": -1.0, "max_val": 1.0}),
    "HShrink": (ops.hardshrink, {"lambd": 0.5}),
    "SoftShrink": (ops.softshrink, {"lambd": 0.5}),
    "Softsign": (ops.softsign, {}),
    "Softplus": (ops.softplus, {}),
    "LogSigmoid": (ops.logsigmoid, {}),
    "Tanhshrink": (ops.tanhshrink, {}),
    "Threshold": (ops.threshold, {"thr": 0.0, "value": 0.0}),
    "Identity": (ops.identity, {}),
}
for _name, (_function, _parameters) in _ACTIVATIONS.items():
    globals()[_name] = _activation(_name, _function, _parameters)


class GELU(Cell):
    """x times the normal distribution function of x; by default its approximation with tanh."""

    def __init__(self, approximate: bool = True) -> None:
        super().__init__()
        self.approximate = "tanh" if approximate else "none"

    def construct(self, x: Any) -> Any:
        """The function."""
        return ops.gelu(x, self.approximate)


class Flatten(Cell):
    """The dimensions from `start_dim` to `end_dim` as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def construct(self, x: Any) -> Any:
        """The Tensor in its new shape."""
        return ops.flatten(x, start_dim=self.start_dim, end_dim=self.end_dim)


class Unflatten(Cell):
    """A dimension as several."""

    def __init__(self, axis: int, unflattened_size: Any) -> None:
        super().__init__()
        self.axis, self.unflattened_size = axis, tuple(unflattened_size)

    def construct(self, x: Any) -> Any:
        """The Tensor in its new shape."""
        axis = self.axis % x.ndim
        return ops.reshape(x, x.shape[:axis] + self.unflattened_size + x.shape[axis + 1 :])


class PReLU(Cell):
    """`leaky_relu` with a Parameter in place of the number, one or one for each channel."""

    def __init__(self, channel: int = 1, w: Any = 0.25) -> None:
        super().__init__()
        self.w = Parameter(initializer(w, (channel,)), name="a")

    def construct(self, x: Any) -> Any:
        """The weighted Tensor."""
        return ops.prelu(x, self.w)


class Dropout(Cell):
    """While training, zeros with probability p, and the rest divided by 1 - p."""

    def __init__(self, keep_prob: float = 0.5, p: float | None = None, dtype: Any = _FLOAT32) -> None:
        super().__init__()
        self.p = 1 - keep_prob if p is None else p
        if not 0 <= self.p < 1:
            raise ValueError(f"For 'Dropout', the 'p' should be in range [0, 1), but got {self.p}.")

    def construct(self, x: Any) -> Any:
        """The Tensor with zeros."""
        return ops.dropout(x, self.p, self._training)

    def extend_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


def layer_activation(activation: Any) -> Cell | None:
    """The cell for the name of an activation, or a cell as it is."""
    if not isinstance(activation, str):
        return activation
    names = {name.lower(): name for name in _ACTIVATIONS}
    if activation.lower() == "gelu":
        return GELU()
    if activation.lower() not in names:
        raise KeyError(
            f"For 'get_activation', the activation {activation!r} is not known; there are: {', '.join(names)}."
        )
    return globals()[names[activation.lower()]]()


get_activation = layer_activation


class Dense(Cell):
    """x @ weight.T + bias.

    Parameters
    ----------
    in_channels, out_channels : int
        Lengths of the last dimension.
    weight_init, bias_init : optional
        Initializers, their names, numbers or Tensors.
    has_bias : bool
        Whether there is a bias.
    activation : str or Cell, optional
        What is done to the result.
    dtype : framejit dtype
        Of the parameters.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: Any = None,
        bias_init: Any = None,
        has_bias: bool = True,
        activation: Any = None,
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("out_channels", out_channels)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"For 'Dense', the '{name}' must be int, but got {type(value).__name__}.")
            if value <= 0:
                raise ValueError(f"For 'Dense', the '{name}' must be a positive int, but got {value}.")
        self.in_channels, self.out_channels, self.has_bias = in_channels, out_channels, has_bias
        if weight_init is None:
            weight_init = HeUniform(math.sqrt(5))
        self.weight = Parameter(initializer(weight_init, (out_channels, in_channels), dtype), name="weight")
        self.bias = None
        if has_bias:
            if bias_init is None:
                bias_init = Uniform(1 / math.sqrt(in_channels))
            self.bias = Parameter(initializer(bias_init, (out_channels,), dtype), name="bias")
        self.activation = layer_activation(activation)

    def construct(self, x: Any) -> Any:
        """The product."""
        out = ops.dense(x, self.weight, self.bias)
        return out if self.activation is None else self.activation(out)

    def extend_repr(self) -> str:
        """The sizes."""
        return f"input_channels={self.in_channels}, output_channels={self.out_channels}, has_bias={self.has_bias}"


class Embedding(Cell):
    """Rows of a table."""

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        use_one_hot: bool = False,
        embedding_table: Any = "normal",
        dtype: Any = _FLOAT32,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        self.vocab_size, self.embedding_size, self.padding_idx = vocab_size, embedding_size, padding_idx
        table = initializer(embedding_table, (vocab_size, embedding_size), dtype)
        if padding_idx is not None:
            table[padding_idx] = 0
        self.embedding_table = Parameter(table, name="embedding_table")

    def construct(self, ids: Any) -> Any:
        """The rows at the ids."""
        return ops.gather(self.embedding_table, ids, 0)


def _loss(name: str, function: Any, parameters: dict[str, Any]) -> type[Cell]:
    made = _activation(name, function, parameters)
    made.construct = lambda self, logits, labels: function(logits, labels, **self.options)
    return made


_LOSSES = {
    "MSELoss": (ops.mse_loss, {"reduction": "mean"}),
    "L1Loss": (ops.l1_loss, {"reduction": "mean"}),
    "SmoothL1Loss": (ops.smooth_l1_loss, {"beta": 1.0, "reduction": "none"}),
    "HuberLoss": (ops.huber_loss, {"reduction": "mean", "delta": 1.0}),
    "BCELoss": (ops.binary_cross_entropy, {"weight": None, "reduction": "mean"}),
    "BCEWithLogitsLoss": (
        ops.binary_cross_entropy_with_logits,
        {"reduction": "mean", "weight": None, "pos_weight": None},
    ),
    "NLLLoss": (ops.nll_loss, {"weight": None, "ignore_index": -100, "reduction": "mean"}),
    "CrossEntropyLoss": (
        ops.cross_entropy,
        {"weight": None, "ignore_index": -100, "reduction": "mean", "label_smoothing": 0.0},
    ),
    "KLDivLoss": (ops.kl_div, {"reduction": "mean"}),
}
for _name, (_function, _parameters) in _LOSSES.items():
    globals()[_name] = _loss(_name, _function, _parameters)


class SoftmaxCrossEntropyWithLogits(Cell):
    """Cross entropy of softmax(logits); `sparse` labels are indices of classes."""

    def __init__(self, sparse: bool = False, reduction: str = "none") -> None:
        super().__init__()
        self.sparse, self.reduction = sparse, reduction

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        if self.sparse:
            return ops.cross_entropy(logits, labels, reduction=self.reduction)
        loss = ops.softmax_cross_entropy_with_logits(logits, labels)
        if self.reduction == "none":
            return loss
        return ops.mean(loss) if self.reduction == "mean" else ops.sum(loss)


class WithLossCell(Cell):
    """The loss of a network: ``loss_fn(backbone(data), label)``."""

    def __init__(self, backbone: Cell, loss_fn: Cell) -> None:
        super().__init__(auto_prefix=False)
        self._backbone, self._loss_fn = backbone, loss_fn

    def construct(self, data: Any, label: Any) -> Any:
        """The loss."""
        return self._loss_fn(self._backbone(data), label)

    @property
    def backbone_network(self) -> Cell:
        """The network."""
        return self._backbone
