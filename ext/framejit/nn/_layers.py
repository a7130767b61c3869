"""Layers: cells around functions of framejit.ops."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter
from framejit.common.initializer import HeUniform, Uniform, initializer
from framejit.nn._cell import Cell, _Plain
from framejit.nn._checks import fits, in_unit, of_type, positive_int

_FLOAT32 = ALL["float32"]


_REQUIRED = inspect.Parameter.empty
_MEANINGS = {
    "alpha": "The slope for negative elements, or the factor of the exponential.",
    "axis": "The dimension.",
    "beta": "Differences below it are squared.",
    "delta": "Differences below it are squared.",
    "ignore_index": "Labels with this value do not count.",
    "keep_dims": "Whether the dimension is kept, with length 1.",
    "label_smoothing": "The share of each label that is spread over all classes.",
    "lambd": "Elements between its negative and itself become 0.",
    "lower": "The smallest slope.",
    "max_val": "The largest result.",
    "min_val": "The smallest result.",
    "pos_weight": "A weight for labels of 1.",
    "reduction": "How the losses of elements are combined: 'mean', 'sum' or 'none'.",
    "threshold": "Elements up to it are replaced.",
    "upper": "The largest slope.",
    "value": "The replacement.",
    "weight": "Weights of the losses.",
}


def _with_parameters(text: str | None, parameters: Iterable[str]) -> str:
    """A docstring with a section for the parameters."""
    rows = "".join(f"{name}\n    {_MEANINGS[name]}\n" for name in parameters)
    return f"{text}\n\nParameters\n----------\n{rows}" if rows else f"{text}"


def _activation(name: str, function: Any, parameters: dict[str, Any], renamed: dict[str, str] | None = None) -> Any:
    """A cell that calls a function with the options that it was made with; `renamed` has what the function calls them."""
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(key, kinds, default=value) for key, value in parameters.items()])

    def init(self: Any, *args: Any, **options: Any) -> None:
        Cell.__init__(self)
        try:
            given = signature.bind(*args, **options)
        except TypeError as error:
            raise TypeError(f"For '{name}', which takes {list(parameters)}: {error}.") from None
        given.apply_defaults()
        for option, value in given.arguments.items():
            setattr(self, option, value)
        self.options = {(renamed or {}).get(option, option): value for option, value in given.arguments.items()}

    def construct(self: Any, input: Any) -> Any:
        return function(input, **self.options)

    def extend_repr(self: Any) -> str:
        return ", ".join(f"{option}={getattr(self, option)}" for option in parameters)

    body = {
        "__init__": init,
        "construct": construct,
        "extend_repr": extend_repr,
        "__doc__": _with_parameters(function.__doc__, parameters),
    }
    body |= {"__module__": __name__, "__qualname__": name, "__signature__": signature}
    return type(name, (Cell,), body)


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
    "Threshold": (ops.threshold, {"threshold": _REQUIRED, "value": _REQUIRED}, {"threshold": "thr"}),
    "RReLU": (ops.rrelu, {"lower": 1.0 / 8, "upper": 1.0 / 3}),
    "GLU": (ops.glu, {"axis": -1}),
    "DiGamma": (ops.digamma, {}),
    "LGamma": (ops.lgamma, {}),
    "ReduceLogSumExp": (
        ops.logsumexp,
        {"axis": _REQUIRED, "keep_dims": False},
        {"axis": "dim", "keep_dims": "keepdim"},
    ),
}
for _name, _row in _ACTIVATIONS.items():
    globals()[_name] = _activation(_name, *_row)


class Identity(Cell):
    """The input; arguments are taken and passed over.

    Parameters
    ----------
    *args
        Accepted and ignored.
    **kwargs
        Accepted and ignored.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def construct(self, input: Any) -> Any:
        """The input."""
        return input


class FastGelu(_Plain):
    """x / (1 + exp(-1.702 * abs(x))) * exp(0.851 * (x - abs(x)))."""

    def construct(self, x: Any) -> Any:
        """The function."""
        return ops.fast_gelu(x)


class Softmax2d(_Plain):
    """Softmax over the channels of [N, C, H, W] or [C, H, W]."""

    def construct(self, x: Any) -> Any:
        """The function."""
        if x.ndim not in (3, 4):
            raise ValueError(f"For 'Softmax2d', the input must have 3 or 4 dimensions, but got {x.ndim}.")
        return ops.softmax(x, -3)


class GELU(Cell):
    """x times the normal distribution function of x; by default its approximation with tanh.

    Parameters
    ----------
    approximate : bool
        Whether to use the approximation with tanh.
    """

    def __init__(self, approximate: bool = True) -> None:
        super().__init__()
        self.approximate = "tanh" if approximate else "none"

    def construct(self, x: Any) -> Any:
        """The function."""
        return ops.gelu(x, self.approximate)


class Flatten(Cell):
    """The dimensions from `start_dim` to `end_dim` as one.

    Parameters
    ----------
    start_dim : int
        The first of these dimensions.
    end_dim : int
        The last of these dimensions.
    """

    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def construct(self, x: Any) -> Any:
        """The Tensor in its new shape."""
        return ops.flatten(x, start_dim=self.start_dim, end_dim=self.end_dim)


class Unflatten(Cell):
    """A dimension as several.

    Parameters
    ----------
    axis : int
        The dimension to split.
    unflattened_size : tuple of int
        The lengths of the new dimensions.
    """

    axis: int
    unflattened_size: tuple[Any, ...]

    def __init__(self, axis: int, unflattened_size: Any) -> None:
        super().__init__()
        self.axis, self.unflattened_size = axis, tuple(unflattened_size)

    def construct(self, x: Any) -> Any:
        """The Tensor in its new shape."""
        axis = self.axis % x.ndim
        return ops.reshape(x, x.shape[:axis] + self.unflattened_size + x.shape[axis + 1 :])


class PReLU(Cell):
    """`leaky_relu` with a Parameter instead of the number, one or one for each channel.

    Parameters
    ----------
    channel : int
        The number of Parameters: 1, or the number of channels.
    w : float or Tensor
        Their first values.
    """

    def __init__(self, channel: int = 1, w: Any = 0.25) -> None:
        super().__init__()
        self.w: Parameter = Parameter(initializer(w, (channel,)), name="a")

    def construct(self, x: Any) -> Any:
        """The weighted Tensor."""
        if self.w.size != 1 and x.ndim > 1:
            fits(self, "x", x, 1, self.w, 0)
        return ops.prelu(x, self.w)


class PReLUExt(Cell):
    """`PReLU` whose Parameter is called `weight`.

    Parameters
    ----------
    num_parameters : int
        The number of Parameters: 1, or the number of channels.
    init : float
        Their first values.
    dtype : dtype, optional
        That of the Parameters.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: Any = None) -> None:
        super().__init__()
        dtype = _FLOAT32 if dtype is None else dtype
        self.weight = Parameter(initializer(init, (num_parameters,), dtype), name="weight")

    def construct(self, input: Any) -> Any:
        """The weighted Tensor."""
        if self.weight.size != 1 and input.ndim > 1:
            fits(self, "input", input, 1, self.weight, 0)
        return ops.prelu(input, self.weight)


class _DropoutOf(Cell):
    """While training, zeros instead of whole channels with probability p, and the rest divided by 1 - p."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        of_type(self, float, p=p)
        in_unit(self, p=p)
        self.p = p

    def construct(self, x: Any) -> Any:
        """The Tensor with zeros."""
        return ops._random._dropped_channels(x, self.p, self._training, *self._ranks)

    def extend_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


class Dropout1d(_DropoutOf):
    """While training, zeros instead of whole lines of [N, C, L] or [C, L].

    Parameters
    ----------
    p : float
        The probability of zeros.
    """

    _ranks = (2, 3)


class Dropout2d(_DropoutOf):
    """While training, zeros instead of whole images of [N, C, H, W].

    Parameters
    ----------
    p : float
        The probability of zeros.
    """

    _ranks = (4, 4)


class Dropout2dExt(Dropout2d):
    """While training, zeros instead of whole images, in the memory of the input if it is wanted.

    Parameters
    ----------
    p : float
        The probability of zeros.
    inplace : bool
        Whether to write into the input.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__(p)
        of_type(self, bool, inplace=inplace)
        self.inplace = inplace

    def construct(self, input: Any) -> Any:
        """The Tensor with zeros."""
        out = super().construct(input)
        if not self.inplace:
            return out
        input[...] = out
        return input


class Dropout3d(_DropoutOf):
    """While training, zeros instead of whole volumes of [N, C, D, H, W].

    Parameters
    ----------
    p : float
        The probability of zeros.
    """

    _ranks = (5, 5)


class Dropout(Cell):
    """While training, zeros with probability p, and the rest divided by 1 - p.

    Parameters
    ----------
    keep_prob : float
        The probability of an element to be kept, if `p` is not given.
    p : float
        The probability of zeros.
    dtype : dtype
        Accepted and ignored.
    """

    def __init__(self, keep_prob: float = 0.5, p: float | None = None, dtype: Any = _FLOAT32) -> None:
        super().__init__()
        if p is None:
            of_type(self, float, keep_prob=keep_prob)
            if not 0 < keep_prob <= 1:
                raise ValueError(f"For 'Dropout', the 'keep_prob' should be in range (0, 1], but got {keep_prob}.")
        else:
            of_type(self, (int, float), p=p)
        self.p: float = 1 - keep_prob if p is None else p
        if not 0 <= self.p < 1:
            raise ValueError(f"For 'Dropout', the 'p' should be in range [0, 1), but got {self.p}.")

    def construct(self, x: Any) -> Any:
        """The Tensor with zeros."""
        return ops.dropout(x, self.p, self._training)

    def extend_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


def get_activation(name: Any, prim_name: str | None = None) -> Any:
    """The cell for the name of an activation, or a cell as it is; `prim_name` is who asks.

    Parameters
    ----------
    name : str, Cell or None
        The name of an activation, or a cell.
    prim_name : str, optional
        The name of the caller, for error messages.
    """
    if not isinstance(name, str):
        return name
    names = {one.lower(): one for one in _ACTIVATIONS}
    if name.lower() == "gelu":
        return GELU()
    if name.lower() not in names:
        raise KeyError(
            f"For '{prim_name or 'get_activation'}', the activation {name!r} is not known; there are: {', '.join(names)}."
        )
    return globals()[names[name.lower()]]()


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

    in_channels: int
    out_channels: int
    has_bias: bool
    bias: Parameter | None

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
        positive_int(self, in_channels=in_channels, out_channels=out_channels)
        self.in_channels, self.out_channels, self.has_bias = in_channels, out_channels, has_bias
        if weight_init is None:
            weight_init = HeUniform(math.sqrt(5))
        self.weight: Parameter = Parameter(initializer(weight_init, (out_channels, in_channels), dtype), name="weight")
        self.bias = None
        if has_bias:
            if bias_init is None:
                bias_init = Uniform(1 / math.sqrt(in_channels))
            self.bias = Parameter(initializer(bias_init, (out_channels,), dtype), name="bias")
        self.activation: Any = get_activation(activation, type(self).__name__)

    def construct(self, x: Any) -> Any:
        """The product."""
        fits(self, "x", x, -1, self.weight, 1)
        out = ops.dense(x, self.weight, self.bias)
        return out if self.activation is None else self.activation(out)

    def extend_repr(self) -> str:
        """The sizes."""
        return f"input_channels={self.in_channels}, output_channels={self.out_channels}, has_bias={self.has_bias}"


class Linear(Dense):
    """`Dense` by other names of its arguments.

    Parameters
    ----------
    in_features : int
        The number of features of the input.
    out_features : int
        The number of features of the result.
    bias : bool
        Whether there is a bias.
    weight_init : initializer, str, number or Tensor, optional
        The first weights.
    bias_init : initializer, str, number or Tensor, optional
        The first bias.
    dtype : dtype
        The dtype of the Parameters.
    """

    in_features: int
    out_features: int

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        weight_init: Any = None,
        bias_init: Any = None,
        dtype: Any = None,
    ) -> None:
        of_type(self, bool, bias=bias)
        super().__init__(
            in_features, out_features, weight_init, bias_init, bias, None, _FLOAT32 if dtype is None else dtype
        )
        self.in_features, self.out_features = in_features, out_features


class BiDense(Cell):
    """input1 @ weight[k] @ input2 + bias[k] for each k.

    Parameters
    ----------
    in1_channels : int
        The number of features of the first input.
    in2_channels : int
        The number of features of the second input.
    out_channels : int
        The number of channels of the result.
    weight_init : initializer, str, number or Tensor, optional
        The first weights.
    bias_init : initializer, str, number or Tensor, optional
        The first bias.
    has_bias : bool
        Whether there is a bias.
    dtype : dtype
        The dtype of the Parameters.
    """

    bias: Parameter | None

    def __init__(
        self,
        in1_channels: int,
        in2_channels: int,
        out_channels: int,
        weight_init: Any = None,
        bias_init: Any = None,
        has_bias: bool = True,
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        positive_int(self, in1_channels=in1_channels, in2_channels=in2_channels, out_channels=out_channels)
        of_type(self, bool, has_bias=has_bias)
        drawn = Uniform(1 / math.sqrt(in1_channels))
        self.has_bias = has_bias
        shape = (out_channels, in1_channels, in2_channels)
        self.weight: Parameter = Parameter(
            initializer(drawn if weight_init is None else weight_init, shape, dtype), "weight"
        )
        self.bias = None
        if has_bias:
            self.bias = Parameter(
                initializer(drawn if bias_init is None else bias_init, (out_channels,), dtype), "bias"
            )

    def construct(self, input1: Any, input2: Any) -> Any:
        """The products."""
        fits(self, "input1", input1, -1, self.weight, 1)
        fits(self, "input2", input2, -1, self.weight, 2)
        if input1.shape[:-1] != input2.shape[:-1]:
            raise ValueError(
                f"For 'BiDense', the inputs must have one shape except for the last dimension, but got {input1.shape} and {input2.shape}."
            )
        first = input1.reshape((-1, input1.shape[-1]))
        second = input2.reshape((-1, input2.shape[-1]))
        columns, one, two = self.weight.shape
        left = ops.matmul(first, self.weight.transpose((1, 0, 2)).reshape((one, columns * two)))
        out = (left.reshape((-1, columns, two)) * second.expand_dims(1)).sum(-1)
        if self.bias is not None:
            out = out + self.bias
        return out.reshape((*input1.shape[:-1], columns))


class Embedding(Cell):
    """Rows of a table.

    Parameters
    ----------
    vocab_size : int
        The number of rows of the table.
    embedding_size : int
        The length of a row.
    use_one_hot : bool
        Accepted and ignored.
    embedding_table : initializer, str, number or Tensor
        The first table.
    dtype : dtype
        The dtype of the Parameters.
    padding_idx : int, optional
        The row that is 0 at the start.
    """

    vocab_size: int
    embedding_size: int
    padding_idx: int | None

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
        positive_int(self, vocab_size=vocab_size, embedding_size=embedding_size)
        of_type(self, bool, use_one_hot=use_one_hot)
        self.vocab_size, self.embedding_size, self.padding_idx = vocab_size, embedding_size, padding_idx
        if padding_idx is not None:
            of_type(self, int, padding_idx=padding_idx)
            if not 0 <= padding_idx < vocab_size:
                raise ValueError(
                    f"For 'Embedding', the 'padding_idx' must be in range [0, {vocab_size}), but got {padding_idx}."
                )
        self.use_one_hot = use_one_hot
        table = initializer(embedding_table, (vocab_size, embedding_size), dtype)
        if padding_idx is not None:
            table[padding_idx] = 0
        self.embedding_table: Parameter = Parameter(table, name="embedding_table")

    def construct(self, ids: Any) -> Any:
        """The rows at the ids."""
        return ops.gather(self.embedding_table, ids, 0)

    def extend_repr(self) -> str:
        """The sizes."""
        return f"vocab_size={self.vocab_size}, embedding_size={self.embedding_size}, use_one_hot={self.use_one_hot}"
