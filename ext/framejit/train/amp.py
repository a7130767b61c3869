"""Mixed precision: cells that compute in float16 or bfloat16, and the scaling of losses that keeps small gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from framejit import _core, nn, ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter
from framejit._tensors._tensor import Tensor
from framejit.train._loss_scale import DynamicLossScaleManager, LossScaleManager

__all__ = [
    "DynamicLossScaler", "LossScaler", "StaticLossScaler", "all_finite", "auto_mixed_precision", "build_train_network",
    "custom_mixed_precision", "get_black_list", "get_white_list",
]  # fmt: skip

_FLOATS = (ALL["float16"], ALL["bfloat16"])
_LEVELS = ("O0", "O1", "O2", "O3", "auto")


def _cells(*names: str) -> list[type[nn.Cell]]:
    return [getattr(nn, name) for name in names if hasattr(nn, name)]


def get_white_list() -> list[type[nn.Cell]]:
    """The classes of cells that ``amp_level='O1'`` converts; a list of its own."""
    return _cells(
        *("Conv1d", "Conv2d", "Conv3d", "Conv1dTranspose", "Conv2dTranspose", "Conv3dTranspose", "Dense"),
        *("LSTMCell", "RNNCell", "GRUCell"),
    )


def get_black_list() -> list[type[nn.Cell]]:
    """The classes of cells that ``amp_level='O2'`` leaves in float32; a list of its own."""
    return _cells("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm")


class _InFloat32(nn.Cell):
    """A cell whose result is converted to float32."""

    def __init__(self, backbone: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self._backbone = backbone

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the cell."""
        return _converted(self._backbone(*args, **kwargs), ALL["float32"])


def _converted(x: Any, dtype: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return type(x)([_converted(item, dtype) for item in x])
    return x.astype(dtype) if isinstance(x, Tensor) and x.dtype in (*_FLOATS, ALL["float32"]) else x


def _set_float(cell: nn.Cell, dtype: Any) -> None:
    cell.__dict__["_float_type"] = dtype
    cell._update_hooked()


def auto_mixed_precision(network: nn.Cell, amp_level: str = "O0", dtype: Any = ALL["float16"]) -> nn.Cell:
    """Return a network that computes in part in another precision. The cell itself is changed.

    Parameters
    ----------
    network : Cell
        The network.
    amp_level : {'O0', 'O1', 'O2', 'O3', 'auto'}
        ``'O0'``: nothing. ``'O1'`` and ``'auto'``: the cells of `get_white_list`, whose results are float32 again. ``'O2'``: all but those of `get_black_list`.
        ``'O3'``: all.
    dtype : float16 or bfloat16
        The precision.

    Raises
    ------
    TypeError
        If `network` is no Cell.
    ValueError
        If the level or the dtype is another.

    Examples
    --------
    >>> import framejit as fj
    >>> from framejit.train import amp
    >>> net = amp.auto_mixed_precision(fj.nn.Dense(2, 1, "ones"), "O3")
    >>> net(fj.Tensor([[1.0, 2.0]])).dtype
    framejit.float32
    """
    if not isinstance(network, nn.Cell):
        raise TypeError(f"The network type should be Cell, but got {type(network).__name__}.")
    if amp_level not in _LEVELS:
        raise ValueError(f"The amp level {amp_level} is not supported: it must be one of {list(_LEVELS)}.")
    if dtype not in _FLOATS:
        raise ValueError(f"The dtype should be float16 or bfloat16, but got {dtype}.")
    if amp_level == "O0":
        return network
    if amp_level in ("O1", "auto"):
        return custom_mixed_precision(network, white_list=get_white_list(), dtype=dtype)
    if amp_level == "O2":
        return _InFloat32(custom_mixed_precision(network, black_list=get_black_list(), dtype=dtype))
    network.to_float(dtype)
    return _InFloat32(network)


def custom_mixed_precision(
    network: nn.Cell, *, white_list: Any = None, black_list: Any = None, dtype: Any = ALL["float16"]
) -> nn.Cell:
    """Return a network of which the cells of some classes, or of all others, compute in another precision.

    Parameters
    ----------
    network : Cell
        The network, which is changed.
    white_list : list of classes of cells, optional
        These are converted, and their results are float32 again.
    black_list : list of classes of cells, optional
        These stay as they are, and all others are converted. One of the two lists must be given.
    dtype : float16 or bfloat16
        The precision.
    """
    if not isinstance(network, nn.Cell):
        raise TypeError(f"The network type should be Cell, but got {type(network).__name__}.")
    if (white_list is None) == (black_list is None):
        raise ValueError(
            "For 'custom_mixed_precision', one of 'white_list' and 'black_list' must be given, and not both."
        )
    if dtype not in _FLOATS:
        raise ValueError(f"The dtype should be float16 or bfloat16, but got {dtype}.")
    given = black_list if white_list is None else white_list
    if not isinstance(given, list):
        raise TypeError(
            f"For 'custom_mixed_precision', the list must be a list of classes, but got {type(given).__name__}."
        )
    chosen = tuple(given)
    for _, cell in network.cells_and_names():
        if white_list is not None and isinstance(cell, chosen):
            _set_float(cell, dtype)
            cell.register_forward_hook(_as_float32)
        elif black_list is not None:
            _set_float(cell, ALL["float32"] if isinstance(cell, chosen) else dtype)
    return network


def _as_float32(cell: nn.Cell, inputs: Any, output: Any) -> Any:
    return _converted(output, ALL["float32"])


# --- Scales of losses -----------------------------------------------------------------------------------------------------


def build_train_network(
    network: nn.Cell,
    optimizer: Any,
    loss_fn: nn.Cell | None = None,
    level: str = "O0",
    boost_level: str = "O0",
    **kwargs: Any,
) -> nn.Cell:
    """Return the cell that makes one step of training, in part in float16.

    Parameters
    ----------
    network : Cell
        The network, which is changed where the level asks for it. Without `loss_fn` it gives the loss.
    optimizer : Optimizer
        The optimizer.
    loss_fn : Cell, optional
        The loss, of the network's result in float32.
    level : {'O0', 'O1', 'O2', 'O3', 'auto'}
        ``'O0'``: nothing is converted. ``'O1'`` and ``'auto'``: as `auto_mixed_precision` has it. ``'O2'``: all is float16 but the cells of
        `get_black_list`, and the loss is scaled by a `DynamicLossScaleManager`. ``'O3'``: all is float16.
    boost_level : {'O0'}
        No other is implemented.
    **kwargs : Any
        Instead of what the level says: `cast_model_type`, float16 or float32; `keep_batchnorm_fp32`, a bool; `loss_scale_manager`, a
        LossScaleManager or None.

    Examples
    --------
    >>> import framejit as fj
    >>> from framejit.train import amp
    >>> net = fj.nn.Dense(2, 1, "ones", has_bias=False)
    >>> step = amp.build_train_network(net, fj.nn.SGD(net.trainable_params(), 0.1), fj.nn.MSELoss(), "O3")
    >>> step(fj.Tensor([[1.0, 2.0]]), fj.Tensor([[2.0]])).item()
    1.0
    """
    if not isinstance(optimizer, nn.Optimizer):
        raise TypeError(
            f"For 'build_train_network', the 'optimizer' must be an Optimizer, but got {type(optimizer).__name__}."
        )
    if not isinstance(level, str):
        raise TypeError(f"The argument `level` must be a string in {list(_LEVELS)}, but got {type(level).__name__}.")
    if level not in _LEVELS:
        raise ValueError(f"For 'build_train_network', the 'level' must be one of {list(_LEVELS)}, but got {level!r}.")
    if boost_level != "O0":
        raise ValueError(f"For 'build_train_network', the 'boost_level' must be 'O0', but got {boost_level!r}.")
    if loss_fn is not None and not isinstance(loss_fn, nn.Cell):
        raise TypeError(f"For 'build_train_network', the 'loss_fn' must be a Cell, but got {type(loss_fn).__name__}.")
    options = {
        "cast_model_type": ALL["float16" if level in ("O2", "O3") else "float32"],
        "keep_batchnorm_fp32": level == "O2",
        "loss_scale_manager": DynamicLossScaleManager() if level == "O2" else None,
    }
    for name in kwargs:
        if name not in options:
            raise ValueError(f"Unsupported arg '{name}'; 'build_train_network' takes {', '.join(options)}.")
    options.update(kwargs)
    cast, keep, scaling = options.values()
    if cast not in (ALL["float16"], ALL["float32"]):
        raise TypeError(
            f"For 'build_train_network', the 'cast_model_type' must be float16 or float32, but got {cast!r}."
        )
    if not isinstance(keep, bool):
        raise TypeError(
            f"For 'build_train_network', the 'keep_batchnorm_fp32' must be bool, but got {type(keep).__name__}."
        )
    if scaling is not None and not isinstance(scaling, LossScaleManager):
        raise TypeError(
            f"For 'build_train_network', the 'loss_scale_manager' must be a LossScaleManager, but got {type(scaling).__name__}."
        )
    in_half = cast == ALL["float16"] or (level == "O2" and not keep)
    if in_half and keep:
        network = custom_mixed_precision(network, black_list=get_black_list())
    elif in_half:
        network.to_float(ALL["float16"])
    elif level not in ("O2", "O3"):
        network = auto_mixed_precision(network, level)
    if loss_fn is not None:
        network = nn.WithLossCell(_InFloat32(network) if in_half else network, loss_fn)
    update = None if scaling is None else scaling.get_update_cell()
    if update is not None:
        return nn.TrainOneStepWithLossScaleCell(network, optimizer, update).set_train()
    return nn.TrainOneStepCell(network, optimizer, None if scaling is None else scaling.get_loss_scale()).set_train()


def all_finite(inputs: Any) -> Tensor:
    """Whether no element of any of the Tensors is infinite or NaN: a Tensor of one bool.

    Parameters
    ----------
    inputs : Tensor, or tuple or list of Tensor
        The Tensors, such as gradients.

    Examples
    --------
    >>> import framejit as fj
    >>> from framejit.train import amp
    >>> bool(amp.all_finite((fj.Tensor([1.0]), fj.Tensor([float("inf")]))))
    False
    """
    if isinstance(inputs, (tuple, list)):
        return Tensor(np.bool_(all(bool(all_finite(item)) for item in inputs)))
    return ops.all(ops.isfinite(inputs))


def _mapped(function: Callable[[Any], Any], inputs: Any) -> Any:
    if isinstance(inputs, (tuple, list)):
        return type(inputs)([_mapped(function, item) for item in inputs])
    return function(inputs)


class LossScaler:
    """The base class: `scale` a loss, `unscale` gradients, and `adjust` the scale to whether these were finite."""

    def scale(self, inputs: Any) -> Any:
        """The inputs times the scale."""
        raise NotImplementedError

    def unscale(self, inputs: Any) -> Any:
        """The inputs divided by the scale."""
        raise NotImplementedError

    def adjust(self, grads_finite: Any) -> Any:
        """Told of each step whether all gradients were finite."""
        raise NotImplementedError


class StaticLossScaler(LossScaler):
    """A scale that stays.

    Parameters
    ----------
    scale_value : float
        The scale.

    Examples
    --------
    >>> import framejit as fj
    >>> from framejit.train import amp
    >>> scaler = amp.StaticLossScaler(8.0)
    >>> scaler.unscale((scaler.scale(fj.Tensor([0.5])),))[0].tolist()
    [0.5]
    """

    def __init__(self, scale_value: float) -> None:
        if not scale_value >= 1.0:
            raise ValueError(
                f"For '{type(self).__name__}', the 'scale_value' must be at least 1, but got {scale_value}."
            )
        self.scale_value: Any = Parameter(Tensor(scale_value, ALL["float32"]), name="scale_value", requires_grad=False)

    def scale(self, inputs: Any) -> Any:
        """The inputs times the scale, in their dtype."""
        return _mapped(lambda x: x * self.scale_value.astype(x.dtype), inputs)

    def unscale(self, inputs: Any) -> Any:
        """The inputs divided by the scale, in their dtype."""
        return _mapped(lambda x: x * (1.0 / self.scale_value).astype(x.dtype), inputs)

    def adjust(self, grads_finite: Any) -> Any:
        """False: the scale stays."""
        return False


class DynamicLossScaler(StaticLossScaler):
    """A scale that is divided by a factor where a gradient was infinite or NaN, and multiplied by it after a number of steps without.

    Parameters
    ----------
    scale_value : float
        The scale at first, at least 1.
    scale_factor : int
        The factor.
    scale_window : int
        After how many steps without infinite gradients the scale grows.

    Examples
    --------
    >>> import framejit as fj
    >>> from framejit.train import amp
    >>> scaler = amp.DynamicLossScaler(scale_value=1024, scale_factor=2, scale_window=1)
    >>> scaler.adjust(fj.Tensor(False)), scaler.scale_value.item()
    (True, 512.0)
    """

    def __init__(self, scale_value: float, scale_factor: int, scale_window: int) -> None:
        super().__init__(scale_value)
        for name, value in (("scale_factor", scale_factor), ("scale_window", scale_window)):
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise ValueError(f"For 'DynamicLossScaler', the '{name}' must be a positive int, but got {value!r}.")
        self.scale_factor: int = scale_factor
        self.scale_window: int = scale_window
        self.counter: Any = Parameter(Tensor(0, ALL["int32"]), name="counter", requires_grad=False)

    def adjust(self, grads_finite: Any) -> Any:
        """True, after the scale was told of a step."""
        finite = grads_finite if isinstance(grads_finite, _core.Tensor) else Tensor(grads_finite)
        count = ops.where(finite, self.counter + 1, 0)
        grown = count >= self.scale_window
        smaller = ops.maximum(self.scale_value / self.scale_factor, 1.0)
        larger = ops.where(grown, self.scale_value * self.scale_factor, self.scale_value)
        larger = ops.where(ops.isfinite(larger), larger, self.scale_value)
        self.scale_value.set_data(ops.where(finite, larger, smaller))
        self.counter.set_data(ops.where(grown, 0, count).astype(ALL["int32"]))
        return True
