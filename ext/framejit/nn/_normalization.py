"""Normalization: mean 0 and variance 1 over a batch, a layer, groups of channels or single images."""

from __future__ import annotations

from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter
from framejit._tensors._tensor import Tensor
from framejit.common.initializer import Initializer, initializer
from framejit.nn._cell import Cell
from framejit.nn._checks import fits, in_unit, of_type, positive_int, rank

_FLOAT32 = ALL["float32"]


def _scales(cell: Any, shape: tuple[int, ...], gamma_init: Any, beta_init: Any, affine: bool, dtype: Any) -> None:
    cell.gamma = Parameter(initializer(gamma_init, shape, dtype), name="gamma", requires_grad=affine)
    cell.beta = Parameter(initializer(beta_init, shape, dtype), name="beta", requires_grad=affine)


def _moving(cell: Any, shape: tuple[int, ...], mean_init: Any, variance_init: Any, dtype: Any) -> None:
    cell.moving_mean = Parameter(initializer(mean_init, shape, dtype), name="mean", requires_grad=False)
    cell.moving_variance = Parameter(initializer(variance_init, shape, dtype), name="variance", requires_grad=False)


class _BatchNorm(Cell):
    num_features: int
    eps: float
    momentum: float

    _ranks: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        moving_mean_init: Any = "zeros",
        moving_var_init: Any = "ones",
        use_batch_statistics: bool | None = None,
        data_format: str = "NCHW",
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        of_type(self, int, num_features=num_features)
        if num_features < 1:
            raise ValueError(f"For '{name}', the 'num_features' must be at least 1, but got {num_features}.")
        in_unit(self, momentum=momentum)
        if data_format != "NCHW":
            raise ValueError(f"For '{name}', the 'data_format' must be 'NCHW', but got {data_format!r}.")
        if use_batch_statistics is not None and not isinstance(use_batch_statistics, bool):
            raise ValueError(
                f"For '{name}', the 'use_batch_statistics' must be a bool or None, but got {use_batch_statistics!r}."
            )
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.use_batch_statistics = use_batch_statistics
        _moving(self, (num_features,), moving_mean_init, moving_var_init, dtype)
        _scales(self, (num_features,), gamma_init, beta_init, affine, dtype)

    def construct(self, x: Any) -> Any:
        """The normalized Tensor."""
        rank(self, x, *self._ranks)
        fits(self, "x", x, 1, self.moving_mean, 0)
        training = self._training if self.use_batch_statistics is None else self.use_batch_statistics
        return ops.batch_norm(
            x, self.moving_mean, self.moving_variance, self.gamma, self.beta, training, 1 - self.momentum, self.eps
        )

    def extend_repr(self) -> str:
        """The sizes."""
        return f"num_features={self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(_BatchNorm):
    """`BatchNorm2d` of [N, C] or [N, C, L].

    Parameters
    ----------
    num_features : int
        The number of channels.
    eps : float
        A small number that is added to the variance.
    momentum : float
        The share of the previous value in the moving statistics.
    affine : bool
        Whether the result is scaled and shifted by Parameters.
    gamma_init : initializer, str, number or Tensor
        The first scale.
    beta_init : initializer, str, number or Tensor
        The first offset.
    moving_mean_init : initializer, str, number or Tensor
        The first moving mean.
    moving_var_init : initializer, str, number or Tensor
        The first moving variance.
    use_batch_statistics : bool, optional
        Whether to use the statistics of the batch; None: while training.
    data_format : str
        The order of the dimensions.
    dtype : dtype
        The dtype of the Parameters.
    """

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Mean 0 and variance 1 for each channel of [N, C, H, W], then scaled and moved.

    While training the statistics are those of the batch, and ``moving = momentum * moving + (1 - momentum) * batch``, where the variance
    of the batch is the unbiased one.

    Parameters
    ----------
    num_features : int
        The number of channels.
    eps : float
        A small number that is added to the variance.
    momentum : float
        The share of the previous value in the moving statistics.
    affine : bool
        Whether the result is scaled and shifted by Parameters.
    gamma_init : initializer, str, number or Tensor
        The first scale.
    beta_init : initializer, str, number or Tensor
        The first offset.
    moving_mean_init : initializer, str, number or Tensor
        The first moving mean.
    moving_var_init : initializer, str, number or Tensor
        The first moving variance.
    use_batch_statistics : bool, optional
        Whether to use the statistics of the batch; None: while training.
    data_format : str
        The order of the dimensions.
    dtype : dtype
        The dtype of the Parameters.
    """

    _ranks = (4,)


class SyncBatchNorm(_BatchNorm):
    """`BatchNorm2d` of [N, C] or [N, C, H, W] over all processes, of which there is one.

    Parameters
    ----------
    num_features : int
        The number of channels.
    eps : float
        A small number that is added to the variance.
    momentum : float
        The share of the previous value in the moving statistics.
    affine : bool
        Whether the result is scaled and shifted by Parameters.
    gamma_init : initializer, str, number or Tensor
        The first scale.
    beta_init : initializer, str, number or Tensor
        The first offset.
    moving_mean_init : initializer, str, number or Tensor
        The first moving mean.
    moving_var_init : initializer, str, number or Tensor
        The first moving variance.
    use_batch_statistics : bool, optional
        Whether to use the statistics of the batch; None: while training.
    process_groups : list, optional
        Checked and ignored: there is one process.
    dtype : dtype
        The dtype of the Parameters.
    """

    _ranks = (2, 4)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        moving_mean_init: Any = "zeros",
        moving_var_init: Any = "ones",
        use_batch_statistics: bool | None = None,
        process_groups: Any = None,
        dtype: Any = _FLOAT32,
    ) -> None:
        inits = (gamma_init, beta_init, moving_mean_init, moving_var_init)
        super().__init__(num_features, eps, momentum, affine, *inits, use_batch_statistics, dtype=dtype)
        if process_groups not in (None, 0):
            of_type(self, list, process_groups=process_groups)
        self.process_groups = process_groups


class BatchNorm3d(Cell):
    """`BatchNorm2d`, which is the cell `bn2d`, of [N, C, D, H, W].

    Parameters
    ----------
    num_features : int
        The number of channels.
    eps : float
        A small number that is added to the variance.
    momentum : float
        The share of the previous value in the moving statistics.
    affine : bool
        Whether the result is scaled and shifted by Parameters.
    gamma_init : initializer, str, number or Tensor
        The first scale.
    beta_init : initializer, str, number or Tensor
        The first offset.
    moving_mean_init : initializer, str, number or Tensor
        The first moving mean.
    moving_var_init : initializer, str, number or Tensor
        The first moving variance.
    use_batch_statistics : bool, optional
        Whether to use the statistics of the batch; None: while training.
    dtype : dtype
        The dtype of the Parameters.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        moving_mean_init: Any = "zeros",
        moving_var_init: Any = "ones",
        use_batch_statistics: bool | None = None,
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        initials = (gamma_init, beta_init, moving_mean_init, moving_var_init)
        self.bn2d: BatchNorm2d = BatchNorm2d(
            num_features, eps, momentum, affine, *initials, use_batch_statistics=use_batch_statistics, dtype=dtype
        )

    def construct(self, x: Any) -> Any:
        """The normalized volumes."""
        rank(self, x, 5)
        fits(self, "x", x, 1, self.bn2d.moving_mean, 0)
        n, c, d, h, w = x.shape
        return self.bn2d(x.reshape((n, c, d * h, w))).reshape(x.shape)


class LayerNorm(Cell):
    """Mean 0 and variance 1 over the dimensions from `begin_norm_axis` on, then scaled and moved.

    Parameters
    ----------
    normalized_shape : tuple or list of int
        Shape of `gamma` and `beta`, which is that of the dimensions from `begin_params_axis` on.
    begin_norm_axis, begin_params_axis : int
        Where the dimensions begin over which is normalized, and those of `gamma` and `beta`.
    gamma_init, beta_init : optional
        Initializers, their names, numbers or Tensors.
    epsilon : float
        Is added to the variance.
    dtype : dtype
        The dtype of the Parameters.
    """

    normalized_shape: tuple[Any, ...]
    epsilon: float
    begin_norm_axis: int
    begin_params_axis: int

    def __init__(
        self,
        normalized_shape: Any,
        begin_norm_axis: int = -1,
        begin_params_axis: int = -1,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        epsilon: float = 1e-7,
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        of_type(self, (tuple, list), normalized_shape=normalized_shape)
        if not normalized_shape:
            raise ValueError("For 'LayerNorm', the 'normalized_shape' must have at least one element, but got none.")
        self.normalized_shape, self.epsilon = tuple(normalized_shape), epsilon
        self.begin_norm_axis, self.begin_params_axis = begin_norm_axis, begin_params_axis
        _scales(self, self.normalized_shape, gamma_init, beta_init, True, dtype)

    def construct(self, input_x: Any) -> Any:
        """The normalized Tensor."""
        axes, ndim = input_x.ndim - self.begin_norm_axis % input_x.ndim, input_x.ndim
        of_parameters = input_x.shape[self.begin_params_axis % ndim :]
        if self.normalized_shape != of_parameters:
            raise ValueError(
                f"For 'LayerNorm', the parameters '{self.gamma.name}' and '{self.beta.name}' have the shape {self.normalized_shape}, but the "
                f"dimensions of the input from 'begin_params_axis' on are {of_parameters}: its shape is {input_x.shape}."
            )
        gamma, beta = self.gamma.astype(input_x.dtype), self.beta.astype(input_x.dtype)
        return ops.layer_norm(input_x, input_x.shape[ndim - axes :], gamma, beta, self.epsilon)

    def extend_repr(self) -> str:
        """The sizes."""
        return (
            f"normalized_shape={self.normalized_shape}, begin_norm_axis={self.begin_norm_axis}, "
            f"begin_params_axis={self.begin_params_axis}"
        )


class RMSNorm(Cell):
    """x / sqrt(mean(x * x) + epsilon) over the last dimensions, scaled: `ops.rms_norm` with its `gamma` as a Parameter.

    Parameters
    ----------
    normalized_shape : tuple or list of int
        The shape of `gamma`: that of the last dimensions.
    epsilon : float
        A small number that keeps a divisor from being 0.
    gamma_init : initializer, str, number or Tensor
        The first scale.
    dtype : dtype
        The dtype of the Parameters.
    """

    normalized_shape: tuple[int] | tuple[Any, ...]
    epsilon: float

    def __init__(
        self, normalized_shape: Any, epsilon: float = 1e-6, gamma_init: Any = "ones", dtype: Any = _FLOAT32
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.epsilon = shape, epsilon
        self.gamma: Parameter = Parameter(initializer(gamma_init, shape, dtype), name="gamma")

    def construct(self, x: Any) -> Any:
        """The normalized Tensor."""
        if x.shape[x.ndim - self.gamma.ndim :] != self.gamma.shape:
            raise ValueError(
                f"For 'RMSNorm', the last dimensions of the input must be those of the parameter '{self.gamma.name}', but its shape is "
                f"{x.shape}, and that of the parameter {self.gamma.shape}."
            )
        return ops.rms_norm(x, self.gamma.astype(x.dtype), self.epsilon)[0]

    def extend_repr(self) -> str:
        """The sizes."""
        return f"normalized_shape={self.normalized_shape}, epsilon={self.epsilon}"


class GroupNorm(Cell):
    """Mean 0 and variance 1 for each group of channels, then scaled and moved for each channel.

    Parameters
    ----------
    num_groups : int
        The number of groups.
    num_channels : int
        The number of channels.
    eps : float
        A small number that is added to the variance.
    affine : bool
        Whether the result is scaled and shifted by Parameters.
    gamma_init : initializer, str, number or Tensor
        The first scale.
    beta_init : initializer, str, number or Tensor
        The first offset.
    dtype : dtype
        The dtype of the Parameters.
    """

    num_groups: int
    num_channels: int
    eps: float

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        positive_int(self, num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ValueError(
                f"For 'GroupNorm', the 'num_channels' {num_channels} must be divisible by the 'num_groups' {num_groups}."
            )
        of_type(self, float, eps=eps)
        of_type(self, bool, affine=affine)
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        _scales(self, (num_channels,), gamma_init, beta_init, affine, dtype)

    def construct(self, x: Any) -> Any:
        """The normalized Tensor."""
        fits(self, "x", x, 1, self.gamma, 0)
        return ops.group_norm(x, self.num_groups, self.gamma.astype(x.dtype), self.beta.astype(x.dtype), self.eps)

    def extend_repr(self) -> str:
        """The sizes."""
        return f"num_groups={self.num_groups}, num_channels={self.num_channels}"


class _InstanceNorm(Cell):
    """Mean 0 and variance 1 for each channel of each sample, then scaled and moved.

    While training, ``moving = (1 - momentum) * moving + momentum * mean of the batch's``; nothing reads these.
    """

    num_features: int
    eps: float
    momentum: float

    _ranks: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        of_type(self, int, num_features=num_features)
        of_type(self, float, eps=eps, momentum=momentum)
        of_type(self, bool, affine=affine)
        of_type(self, (Tensor, int, float, str, Initializer), gamma_init=gamma_init, beta_init=beta_init)
        if num_features < 1:
            raise ValueError(
                f"For '{type(self).__name__}', the 'num_features' must be at least 1, but got {num_features}."
            )
        in_unit(self, momentum=momentum)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        _moving(self, (num_features,), "zeros", "ones", dtype)
        _scales(self, (num_features,), gamma_init, beta_init, affine, dtype)

    def construct(self, x: Any) -> Any:
        """The normalized Tensor."""
        rank(self, x, *self._ranks)
        fits(self, "x", x, 1, self.gamma, 0)
        if self._training:
            inner = tuple(range(2, x.ndim))
            self._move(self.moving_mean, ops.mean(x, inner))
            self._move(self.moving_variance, ops.var(x, inner))
        return ops.group_norm(x, self.num_features, self.gamma.astype(x.dtype), self.beta.astype(x.dtype), self.eps)

    def _move(self, moving: Any, found: Any) -> None:
        batch = ops.stop_gradient(ops.mean(found, 0))
        ops.assign(moving, moving * (1 - self.momentum) + batch * self.momentum)

    def extend_repr(self) -> str:
        """The sizes."""
        return f"num_features={self.num_features}, eps={self.eps}, momentum={self.momentum}"


class InstanceNorm1d(_InstanceNorm):
    """`InstanceNorm2d` of [N, C, L].

    Parameters
    ----------
    num_features : int
        The number of channels.
    eps : float
        A small number that is added to the variance.
    momentum : float
        The share of the batch in the moving statistics.
    affine : bool
        Whether the result is scaled and shifted by Parameters.
    gamma_init : initializer, str, number or Tensor
        The first scale.
    beta_init : initializer, str, number or Tensor
        The first offset.
    dtype : dtype
        The dtype of the Parameters.
    """

    _ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Mean 0 and variance 1 for each channel of each image of [N, C, H, W], then scaled and moved.

    While training, ``moving = (1 - momentum) * moving + momentum * mean over the batch``; nothing reads these.

    Parameters
    ----------
    num_features : int
        The number of channels.
    eps : float
        A small number that is added to the variance.
    momentum : float
        The share of the batch in the moving statistics.
    affine : bool
        Whether the result is scaled and shifted by Parameters.
    gamma_init : initializer, str, number or Tensor
        The first scale.
    beta_init : initializer, str, number or Tensor
        The first offset.
    dtype : dtype
        The dtype of the Parameters.
    """

    _ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    """`InstanceNorm2d` of [N, C, D, H, W].

    Parameters
    ----------
    num_features : int
        The number of channels.
    eps : float
        A small number that is added to the variance.
    momentum : float
        The share of the batch in the moving statistics.
    affine : bool
        Whether the result is scaled and shifted by Parameters.
    gamma_init : initializer, str, number or Tensor
        The first scale.
    beta_init : initializer, str, number or Tensor
        The first offset.
    dtype : dtype
        The dtype of the Parameters.
    """

    _ranks = (5,)
