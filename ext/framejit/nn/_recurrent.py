"""Recurrent cells, and layers of them over sequences."""

from __future__ import annotations

import math
from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter, ParameterTuple
from framejit._tensors._tensor import Tensor
from framejit.common.initializer import Uniform, initializer
from framejit.nn._cell import Cell
from framejit.nn._checks import fits, float_tensor, of_type, one_of, positive_int, rank, tensor
from framejit.nn._layers import Dropout

_FLOAT32 = ALL["float32"]
_LENGTHS = (ALL["int32"], ALL["int64"])

# One step: `inputs` is x @ weight_ih.T + bias_ih, the gates one after the other.


def _tanh_step(inputs: Any, h: Any, weight: Any, bias: Any) -> Any:
    return ops.tanh(inputs + ops.dense(h, weight, bias))


def _relu_step(inputs: Any, h: Any, weight: Any, bias: Any) -> Any:
    return ops.relu(inputs + ops.dense(h, weight, bias))


def _lstm_step(inputs: Any, state: Any, weight: Any, bias: Any) -> Any:
    h, c = state
    gates, n = inputs + ops.dense(h, weight, bias), h.shape[1]
    c = ops.sigmoid(gates[:, n : 2 * n]) * c + ops.sigmoid(gates[:, :n]) * ops.tanh(gates[:, 2 * n : 3 * n])
    return ops.sigmoid(gates[:, 3 * n :]) * ops.tanh(c), c


def _gru_step(inputs: Any, h: Any, weight: Any, bias: Any) -> Any:
    own, n = ops.dense(h, weight, bias), h.shape[1]
    gates = ops.sigmoid(inputs[:, : 2 * n] + own[:, : 2 * n])  # reset and update
    new = ops.tanh(inputs[:, 2 * n :] + gates[:, :n] * own[:, 2 * n :])
    return new + gates[:, n:] * (h - new)


_STEPS = {"tanh": (_tanh_step, 1), "relu": (_relu_step, 1), "lstm": (_lstm_step, 4), "gru": (_gru_step, 3)}


class _RecurrentCell(Cell):
    """One step, with Parameters for the gates one after the other."""

    input_size: int
    hidden_size: int
    has_bias: bool
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(self, kind: str, input_size: int, hidden_size: int, has_bias: bool, dtype: Any) -> None:
        super().__init__()
        of_type(self, bool, has_bias=has_bias)
        positive_int(self, hidden_size=hidden_size, input_size=input_size)
        self.input_size, self.hidden_size, self.has_bias = input_size, hidden_size, has_bias
        self.step, gates = _STEPS[kind]
        drawn = Uniform(1 / math.sqrt(hidden_size))
        self.weight_ih: Parameter = Parameter(
            initializer(drawn, (gates * hidden_size, input_size), dtype), name="weight_ih"
        )
        self.weight_hh: Parameter = Parameter(
            initializer(drawn, (gates * hidden_size, hidden_size), dtype), name="weight_hh"
        )
        self.bias_ih = self.bias_hh = None
        if has_bias:
            self.bias_ih = Parameter(initializer(drawn, (gates * hidden_size,), dtype), name="bias_ih")
            self.bias_hh = Parameter(initializer(drawn, (gates * hidden_size,), dtype), name="bias_hh")

    def construct(self, x: Any, hx: Any) -> Any:
        """The next state."""
        float_tensor(self, "x", x)
        float_tensor(self, "hx", hx)
        self._check(x, hx)
        return self.step(ops.dense(x, self.weight_ih, self.bias_ih), hx, self.weight_hh, self.bias_hh)

    def _check(self, x: Any, *states: Any) -> None:
        fits(self, "x", x, -1, self.weight_ih, 1)
        for state in states:
            fits(self, "hx", state, -1, self.weight_hh, 1)
            if state.shape[:-1] != x.shape[:-1]:
                raise ValueError(
                    f"For '{type(self).__name__}', 'x' and 'hx' must be of one batch, but got {x.shape} and {state.shape}."
                )

    def extend_repr(self) -> str:
        """The sizes."""
        return f"input_size={self.input_size}, hidden_size={self.hidden_size}, has_bias={self.has_bias}"


class RNNCell(_RecurrentCell):
    """tanh(x @ weight_ih.T + bias_ih + hx @ weight_hh.T + bias_hh), or relu of it.

    Parameters
    ----------
    input_size, hidden_size : int
        Numbers of features of x and hx.
    has_bias : bool
        Whether there are `bias_ih` and `bias_hh`.
    nonlinearity : {'tanh', 'relu'}
        The activation.
    dtype : dtype
        The dtype of the Parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        has_bias: bool = True,
        nonlinearity: str = "tanh",
        dtype: Any = _FLOAT32,
    ) -> None:
        of_type(self, str, nonlinearity=nonlinearity)
        one_of(self, ("tanh", "relu"), nonlinearity=nonlinearity)
        super().__init__(nonlinearity, input_size, hidden_size, has_bias, dtype)
        self.nonlinearity = nonlinearity


class GRUCell(_RecurrentCell):
    """A step of a gated recurrent unit: the gates are reset, update and new.

    Parameters
    ----------
    input_size : int
        The number of features of the input.
    hidden_size : int
        The number of features of the state.
    has_bias : bool
        Whether there is a bias.
    dtype : dtype
        The dtype of the Parameters.
    """

    def __init__(self, input_size: int, hidden_size: int, has_bias: bool = True, dtype: Any = _FLOAT32) -> None:
        super().__init__("gru", input_size, hidden_size, has_bias, dtype)


class LSTMCell(_RecurrentCell):
    """A step of long short-term memory: the gates are input, forget, cell and output. `hx` and the result are (h, c).

    Parameters
    ----------
    input_size : int
        The number of features of the input.
    hidden_size : int
        The number of features of the state.
    has_bias : bool
        Whether there is a bias.
    dtype : dtype
        The dtype of the Parameters.
    """

    def __init__(self, input_size: int, hidden_size: int, has_bias: bool = True, dtype: Any = _FLOAT32) -> None:
        super().__init__("lstm", input_size, hidden_size, has_bias, dtype)

    def construct(self, x: Any, hx: Any) -> Any:
        """The next state."""
        float_tensor(self, "x", x)
        _check_pair(self, hx)
        self._check(x, *hx)
        return self.step(ops.dense(x, self.weight_ih, self.bias_ih), hx, self.weight_hh, self.bias_hh)


def _check_pair(cell: Any, hx: Any) -> None:
    if not isinstance(hx, tuple) or len(hx) != 2:
        raise TypeError(f"For '{type(cell).__name__}', the 'hx' must be a tuple of two Tensors, but got {hx!r}.")
    float_tensor(cell, "hx[0]", hx[0])
    float_tensor(cell, "hx[1]", hx[1])


def _kept(live: Any, new: Any, old: Any) -> Any:
    """The new state where the sequence goes on, else the old one."""
    if isinstance(new, tuple):
        return tuple([ops.where(live, one, other) for one, other in zip(new, old)])
    return ops.where(live, new, old)


class _Recurrent(Cell):
    """Layers of recurrent cells over sequences, in one direction or two."""

    input_size: int
    hidden_size: int
    num_layers: int
    has_bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool

    def __init__(
        self,
        kind: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        has_bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        positive_int(self, hidden_size=hidden_size, input_size=input_size, num_layers=num_layers)
        of_type(self, float, dropout=dropout)
        of_type(self, bool, has_bias=has_bias, batch_first=batch_first, bidirectional=bidirectional)
        if not 0 <= dropout < 1:
            raise ValueError(f"For '{type(self).__name__}', the 'dropout' must be in [0, 1), but got {dropout}.")
        self.input_size, self.hidden_size, self.num_layers, self.has_bias = (
            input_size,
            hidden_size,
            num_layers,
            has_bias,
        )
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        self.step, gates = _STEPS[kind]
        self.is_lstm: bool = kind == "lstm"
        self.dropout_op: Dropout = Dropout(p=dropout)
        drawn = Uniform(1 / math.sqrt(hidden_size))
        directions = 1 + bidirectional
        made: dict[str, list[Parameter]] = {"w_ih_list": [], "w_hh_list": [], "b_ih_list": [], "b_hh_list": []}
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * directions
            for suffix in ("", "_reverse")[:directions]:
                shapes: dict[str, tuple[int, ...]] = {
                    "w_ih_list": (gates * hidden_size, width),
                    "w_hh_list": (gates * hidden_size, hidden_size),
                }
                if has_bias:
                    shapes.update(b_ih_list=(gates * hidden_size,), b_hh_list=(gates * hidden_size,))
                for name, shape in shapes.items():
                    full = f"{'weight' if name[0] == 'w' else 'bias'}_{name[2:4]}_l{layer}{suffix}"
                    made[name].append(Parameter(initializer(drawn, shape, dtype), name=full))
        for name, parameters in made.items():
            setattr(self, name, ParameterTuple(parameters))
            self.__dict__[name] = tuple(parameters)  # capture follows plain tuples

    def construct(self, x: Any, hx: Any = None, seq_length: Any = None) -> Any:
        """What the last layer gives at each step, and the last state of each layer and direction."""
        tensor(self, "x", x)
        rank(self, x, 3)
        fits(self, "x", x, 2, self.w_ih_list[0], 1)
        batch = x.shape[0 if self.batch_first else 1]
        if hx is None:
            zeros = ops.zeros((len(self.w_ih_list), batch, self.hidden_size), x.dtype)
            hx = (zeros, zeros) if self.is_lstm else zeros
        else:
            float_tensor(self, "x", x)
            if self.is_lstm:
                _check_pair(self, hx)
            else:
                float_tensor(self, "hx", hx)
            for state in hx if self.is_lstm else (hx,):
                if state.shape != (len(self.w_ih_list), batch, self.hidden_size):
                    raise ValueError(
                        f"For '{type(self).__name__}', the shape of 'hx' must be {(len(self.w_ih_list), batch, self.hidden_size)}, but got "
                        f"{state.shape} for the 'x' {x.shape}."
                    )
        if seq_length is not None:
            self._check_lengths(seq_length, batch)
        if self.batch_first:
            x = x.swapaxes(0, 1)
        states: list[Any] = []
        for layer in range(self.num_layers):
            x = self._layer(x, hx, layer, seq_length, states)
            if self.dropout != 0 and layer < self.num_layers - 1:
                x = self.dropout_op(x)
        if self.batch_first:
            x = x.swapaxes(0, 1)
        if self.is_lstm:
            return x, (ops.stack([h for h, c in states]), ops.stack([c for h, c in states]))
        return x, ops.stack(states)

    def _layer(self, x: Any, hx: Any, layer: int, seq_length: Any, states: list[Any]) -> Any:
        if not self.bidirectional:
            return self._direction(x, hx, layer, seq_length, states)
        forward = self._direction(x, hx, 2 * layer, seq_length, states)
        backward = self._direction(_reversed(x, seq_length), hx, 2 * layer + 1, seq_length, states)
        return ops.cat((forward, _reversed(backward, seq_length)), 2)

    def _direction(self, x: Any, hx: Any, at: int, seq_length: Any, states: list[Any]) -> Any:
        weight, bias = self.w_hh_list[at].astype(x.dtype), None
        inputs_bias = None
        if self.has_bias:
            inputs_bias, bias = self.b_ih_list[at].astype(x.dtype), self.b_hh_list[at].astype(x.dtype)
        inputs = ops.dense(x, self.w_ih_list[at].astype(x.dtype), inputs_bias)
        state = (hx[0][at], hx[1][at]) if self.is_lstm else hx[at]
        outputs = []
        for t in range(x.shape[0]):
            new = self.step(inputs[t], state, weight, bias)
            out = new[0] if self.is_lstm else new
            if seq_length is None:
                state = new
            else:
                live = seq_length.expand_dims(1) > t
                state, out = _kept(live, new, state), ops.where(live, out, 0)
            outputs.append(out)
        states.append(state)
        return ops.stack(outputs)

    def _check_lengths(self, seq_length: Any, batch: int) -> None:
        name = type(self).__name__
        if not isinstance(seq_length, Tensor) or seq_length.dtype not in _LENGTHS:
            raise TypeError(
                f"For '{name}', the 'seq_length' must be a Tensor of int32 or int64, but got {seq_length!r}."
            )
        if seq_length.shape[0] != batch:
            raise ValueError(
                f"For '{name}', batch size of x and seq_length must be equal, but got {batch} of x and "
                f"{seq_length.shape[0]} of seq_length."
            )

    def extend_repr(self) -> str:
        """The sizes."""
        return f"input_size={self.input_size}, hidden_size={self.hidden_size}, num_layers={self.num_layers}"


def _reversed(x: Any, seq_length: Any) -> Any:
    """[steps, batch, features] in reverse order of steps, or of the first `seq_length` ones of each sequence."""
    return ops.flip(x, (0,)) if seq_length is None else ops.reverse_sequence(x, seq_length, 0, 1)


class RNN(_Recurrent):
    """Layers of `RNNCell` over [steps, batch, features].

    Parameters
    ----------
    input_size, hidden_size : int
        Numbers of features of x and of the state.
    num_layers : int
        Each layer reads what the one before it gives.
    nonlinearity : {'tanh', 'relu'}
        The activation.
    has_bias : bool
        Whether there are biases.
    batch_first : bool
        x and the result are [batch, steps, features].
    dropout : float
        Probability of zeros between layers, while training.
    bidirectional : bool
        A second cell reads the steps in reverse order; the features of both stand one after the other.
    *args
        The arguments above, by position.
    **kwargs
        The arguments above, by name.
    """

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
        one_of(self, ("tanh", "relu"), nonlinearity=nonlinearity)
        super().__init__(nonlinearity, *args, **kwargs)


class LSTM(_Recurrent):
    """Layers of `LSTMCell`, with the arguments of `RNN` but the nonlinearity; states are pairs (h, c).

    Parameters
    ----------
    *args
        Those of `RNN`, by position.
    **kwargs
        Those of `RNN`, by name.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("lstm", *args, **kwargs)


class GRU(_Recurrent):
    """Layers of `GRUCell`, with the arguments of `RNN` but the nonlinearity.

    Parameters
    ----------
    *args
        Those of `RNN`, by position.
    **kwargs
        Those of `RNN`, by name.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("gru", *args, **kwargs)
