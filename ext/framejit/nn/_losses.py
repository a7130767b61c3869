"""Losses as cells, and a network with its loss."""

from __future__ import annotations

from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._tensor import Tensor
from framejit.nn._cell import Cell
from framejit.nn._checks import classes, of_type, one_of, tensor, together
from framejit.nn._layers import _activation, get_activation
from framejit.ops._loss import _squares_loss


class LossBase(Cell):
    """What losses share: `reduction` is 'mean', 'sum' or 'none'.

    Parameters
    ----------
    reduction : {'mean', 'sum', 'none'}
        How the losses of elements are combined.
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        one_of(self, ("mean", "sum", "none"), reduction=reduction)
        self.reduction = reduction

    def get_loss(self, x: Any, weights: Any = 1.0) -> Any:
        """The reduced product of losses and weights."""
        x = x if isinstance(weights, float) and weights == 1.0 else x * weights
        return ops._loss._reduced(x, self.reduction)

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        raise NotImplementedError


def _loss(name: str, function: Any, parameters: dict[str, Any]) -> type[Cell]:
    made = _activation(name, function, parameters)

    def construct(self: Any, logits: Any, labels: Any) -> Any:
        if name in _OF_CLASSES and not (isinstance(labels, Tensor) and labels.dtype in _FLOATS):
            classes(self, logits, labels)
        else:
            together(self, logits=logits, labels=labels)
        return function(logits, labels, **self.options)

    made.construct = construct
    made.__module__ = __name__
    checked = made.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        checked(self, *args, **options)
        one_of(
            self, ("mean", "sum", "none", *(("batchmean",) if name == "KLDivLoss" else ())), reduction=self.reduction
        )

    made.__init__ = init
    return made


_FLOATS = (ALL["float16"], ALL["float32"], ALL["float64"])
_OF_CLASSES = ("NLLLoss", "CrossEntropyLoss")  # their labels are indices, or distributions
_LOSSES = {
    "MSELoss": (_squares_loss, {"reduction": "mean"}),
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
    "MAELoss": (ops.l1_loss, {"reduction": "mean"}),
    "SoftMarginLoss": (ops.soft_margin_loss, {"reduction": "mean"}),
    "MultiLabelSoftMarginLoss": (ops.multilabel_soft_margin_loss, {"weight": None, "reduction": "mean"}),
    "MultilabelMarginLoss": (ops.multilabel_margin_loss, {"reduction": "mean"}),
}
for _name, (_function, _parameters) in _LOSSES.items():
    globals()[_name] = _loss(_name, _function, _parameters)


class CosineEmbeddingLoss(LossBase):
    """1 - cos where the label is 1, max(cos - margin, 0) where it is -1, of the cosine of the angle between rows.

    Parameters
    ----------
    margin : float
        The margin of the formula.
    reduction : {'mean', 'sum', 'none'}
        How the losses of elements are combined.
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        of_type(self, float, margin=margin)
        if not -1 <= margin <= 1:
            raise ValueError(f"For 'CosineEmbeddingLoss', the 'margin' must be in [-1, 1], but got {margin}.")
        self.margin = margin

    def construct(self, logits_x1: Any, logits_x2: Any, labels: Any) -> Any:
        """The loss."""
        together(self, logits_x1=logits_x1, logits_x2=logits_x2)
        classes(self, logits_x1, labels)
        return ops.cosine_embedding_loss(logits_x1, logits_x2, labels, self.margin, self.reduction)


class MarginRankingLoss(LossBase):
    """max(-target * (input1 - input2) + margin, 0).

    Parameters
    ----------
    margin : float
        The margin of the formula.
    reduction : {'mean', 'sum', 'none'}
        How the losses of elements are combined.
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def construct(self, input1: Any, input2: Any, target: Any) -> Any:
        """The loss."""
        together(self, input1=input1, input2=input2, target=target)
        return ops.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class HingeEmbeddingLoss(LossBase):
    """The logits where the label is 1, max(margin - logits, 0) where it is -1.

    Parameters
    ----------
    margin : float
        The margin of the formula.
    reduction : {'mean', 'sum', 'none'}
        How the losses of elements are combined.
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        of_type(self, (int, float), margin=margin)
        self.margin = margin

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        together(self, logits=logits, labels=labels)
        return ops.hinge_embedding_loss(logits, labels, self.margin, self.reduction)


class MultiMarginLoss(LossBase):
    """The mean over the other classes of max(margin - x[target] + x, 0) ** p.

    Parameters
    ----------
    p : int
        The exponent.
    margin : float
        The margin of the formula.
    reduction : {'mean', 'sum', 'none'}
        How the losses of elements are combined.
    weight : Tensor, optional
        A weight for each class.
    """

    p: int
    margin: float
    weight: Any

    def __init__(self, p: int = 1, margin: float = 1.0, reduction: str = "mean", weight: Any = None) -> None:
        super().__init__(reduction)
        of_type(self, int, p=p)
        of_type(self, float, margin=margin)
        one_of(self, (1, 2), p=p)
        self.p, self.margin, self.weight = p, margin, weight

    def construct(self, x: Any, target: Any, weight: Any = None) -> Any:
        """The loss."""
        tensor(self, "x", x)
        tensor(self, "target", target)
        classes(self, x, target)
        weight = weight if self.weight is None else self.weight
        return ops._loss._multi_margin(x, target, self.p, self.margin, weight, self.reduction)


class TripletMarginLoss(LossBase):
    """max(distance(x, positive) - distance(x, negative) + margin, 0).

    Parameters
    ----------
    p : int
        The exponent of the distance.
    swap : bool
        Use the distance of positive and negative if it is smaller.
    eps : float
        A small number that is added to differences.
    reduction : {'mean', 'sum', 'none'}
        How the losses of elements are combined.
    margin : float
        The margin of the formula.
    """

    p: int
    swap: bool
    eps: float
    margin: Any

    def __init__(
        self, p: int = 2, swap: bool = False, eps: float = 1e-6, reduction: str = "mean", margin: Any = 1.0
    ) -> None:
        super().__init__(reduction)
        self.p, self.swap, self.eps, self.margin = p, swap, eps, margin

    def construct(self, x: Any, positive: Any, negative: Any, margin: Any = 1.0) -> Any:
        """The loss."""
        together(self, x=x, positive=positive, negative=negative)
        margin = margin if self.margin == 1.0 else self.margin
        return ops.triplet_margin_loss(x, positive, negative, margin, self.p, self.eps, self.swap, self.reduction)


class TripletMarginWithDistanceLoss(LossBase):
    """`TripletMarginLoss` with another distance; by default the root of the sum of squares along dimension 1.

    Parameters
    ----------
    distance_function : callable, optional
        A function of two Tensors.
    swap : bool
        Use the distance of positive and negative if it is smaller.
    reduction : {'mean', 'sum', 'none'}
        How the losses of elements are combined.
    margin : float
        The margin of the formula.
    """

    swap: bool
    margin: float

    def __init__(
        self, distance_function: Any = None, swap: bool = False, reduction: str = "mean", margin: float = 1.0
    ) -> None:
        super().__init__(reduction)
        of_type(self, float, margin=margin)
        of_type(self, bool, swap=swap)
        self.distance_function: Any = _euclidean if distance_function is None else distance_function
        self.swap, self.margin = swap, margin

    def construct(self, x: Any, positive: Any, negative: Any) -> Any:
        """The loss."""
        for name, value in (("x", x), ("positive", positive), ("negative", negative)):
            tensor(self, name, value)
        together(self, x=x, positive=positive, negative=negative)
        near, far = self.distance_function(x, positive), self.distance_function(x, negative)
        if self.swap:
            far = ops.minimum(far, self.distance_function(positive, negative))
        return self.get_loss(ops.maximum(near - far + self.margin, 0))


def _euclidean(x: Any, y: Any) -> Any:
    return ops.sqrt(ops.sum(ops.square(x - y), 1))


class GaussianNLLLoss(LossBase):
    """(log(var) + (logits - labels) ** 2 / var) / 2, with var at least `eps`; `full` adds log(2 * pi) / 2.

    Parameters
    ----------
    full : bool
        Add the constant term.
    eps : float
        The smallest variance.
    reduction : {'mean', 'sum', 'none'}
        How the losses of elements are combined.
    """

    full: bool
    eps: float

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        of_type(self, bool, full=full)
        of_type(self, float, eps=eps)
        if eps <= 0:
            raise ValueError(f"For 'GaussianNLLLoss', the 'eps' must be positive, but got {eps}.")
        self.full, self.eps = full, eps

    def construct(self, logits: Any, labels: Any, var: Any) -> Any:
        """The loss."""
        together(self, logits=logits, labels=labels)
        if not isinstance(var, Tensor) or var.shape != logits.shape[:-1]:
            together(self, logits=logits, var=var)
        return ops.gaussian_nll_loss(logits, labels, var, self.full, self.eps, self.reduction)


class PoissonNLLLoss(LossBase):
    """exp(input) - target * input, or input - target * log(input + eps) without `log_input`; `full` adds Stirling's term where target > 1.

    Parameters
    ----------
    log_input : bool
        Whether the input is the logarithm of the rate.
    full : bool
        Add the constant term.
    eps : float
        A small number that is added before the logarithm.
    reduction : {'mean', 'sum', 'none'}
        How the losses of elements are combined.
    """

    log_input: bool
    full: bool
    eps: float

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def construct(self, input: Any, target: Any) -> Any:
        """The loss."""
        tensor(self, "input", input)
        tensor(self, "target", target)
        together(self, input=input, target=target)
        target = target.astype(input.dtype)
        loss = ops.exp(input) - target * input if self.log_input else input - target * ops.log(input + self.eps)
        if self.full:
            least = ops.maximum(target, self.eps)
            term = (least + 0.5) * ops.log(least) - least + 0.9189385332046728
            loss = loss + ops.where(least > 1, term, 0.0)
        return self.get_loss(loss)


class RMSELoss(LossBase):
    """The root of the mean of (logits - label) ** 2."""

    def __init__(self) -> None:
        super().__init__()

    def construct(self, logits: Any, label: Any) -> Any:
        """The loss."""
        together(self, logits=logits, label=label)
        return ops.sqrt(ops.mse_loss(logits, label))


class FocalLoss(LossBase):
    """-(1 - p) ** gamma * log(p), with p = softmax(logits) over dimension 1 at the label, an index or a distribution.

    Parameters
    ----------
    weight : Tensor, optional
        A weight for each class.
    gamma : float
        The exponent of ``1 - p``.
    reduction : {'mean', 'sum', 'none'}
        How the losses of elements are combined.
    """

    weight: Any | None
    gamma: float

    def __init__(self, weight: Any = None, gamma: float = 2.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        of_type(self, float, gamma=gamma)
        if weight is not None:
            tensor(self, "weight", weight)
            if weight.ndim != 1:
                raise ValueError(f"For 'FocalLoss', the 'weight' must have one dimension, but got {weight.ndim}.")
        self.weight, self.gamma = weight, gamma

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        tensor(self, "logits", logits)
        tensor(self, "labels", labels)
        fits = logits.ndim == labels.ndim and logits.shape[0] == labels.shape[0]
        if not fits or labels.shape[1] not in (1, logits.shape[1]):
            raise ValueError(
                f"For 'FocalLoss', the shapes of logits and labels must fit, but got {logits.shape} and {labels.shape}."
            )
        one, places = labels.shape[1] == 1, logits.ndim > 2
        if places:
            logits = logits.reshape((logits.shape[0], logits.shape[1], -1))
            labels = labels.reshape((labels.shape[0], labels.shape[1], -1))
        logs = ops.log_softmax(logits, 1)
        scale = None
        if self.weight is not None:
            shape = (1, -1) + (1,) * (logits.ndim - 2)
            scale = ops.broadcast_to(self.weight.reshape(shape), logits.shape)
        if one:
            logs = ops.gather_elements(logs, 1, labels).squeeze(1)
            scale = None if scale is None else ops.gather_elements(scale, 1, labels).squeeze(1)
        factor = ops.pow(1 - ops.exp(logs), self.gamma)
        if scale is not None:
            logs = logs * scale
        loss = -factor * logs if one else -factor * labels * logs
        return self.get_loss(ops.mean(loss, -1) if places else loss)


class DiceLoss(LossBase):
    """1 - 2 * sum(logits * label) / (sum(logits ** 2) + sum(label ** 2) + smooth).

    Parameters
    ----------
    smooth : float
        A small number that is added to the divisor.
    """

    def __init__(self, smooth: float = 1e-5) -> None:
        super().__init__()
        of_type(self, float, smooth=smooth)
        if smooth <= 0:
            raise ValueError(f"For 'DiceLoss', the 'smooth' must be positive, but got {smooth}.")
        self.smooth = smooth

    def construct(self, logits: Any, label: Any) -> Any:
        """The loss."""
        tensor(self, "logits", logits)
        tensor(self, "label", label)
        if logits.shape != label.shape:
            raise ValueError(
                f"For 'DiceLoss', logits and label must have one shape, but got {logits.shape} and {label.shape}."
            )
        both = ops.sum(ops.square(logits)) + ops.sum(ops.square(label)) + self.smooth
        return 1 - 2 * ops.sum(logits * label) / both


class MultiClassDiceLoss(LossBase):
    """The mean of `DiceLoss` over the classes, which are dimension 1, after an activation.

    Parameters
    ----------
    weights : Tensor, optional
        Weights of the classes, with two dimensions.
    ignore_indiex : int, optional
        The class that does not count.
    activation : str, Cell or None
        The activation that is applied first.
    """

    binary: DiceLoss
    weights: Any | None
    ignore_indiex: int | None
    activation: Any | None

    def __init__(self, weights: Any = None, ignore_indiex: int | None = None, activation: Any = "softmax") -> None:
        super().__init__()
        if weights is not None:
            tensor(self, "weights", weights)
            if weights.ndim != 2:
                raise ValueError(
                    f"For 'MultiClassDiceLoss', the 'weights' must have two dimensions, but got {weights.ndim}."
                )
        if ignore_indiex is not None:
            of_type(self, int, ignore_indiex=ignore_indiex)
        if isinstance(activation, str):
            one_of(self, ("softmax", "logsoftmax", "relu", "relu6", "tanh", "sigmoid"), activation=activation)
            activation = get_activation(activation)
        if activation is not None:
            of_type(self, Cell, activation=activation)
        self.binary, self.weights, self.ignore_indiex, self.activation = DiceLoss(), weights, ignore_indiex, activation

    def construct(self, logits: Any, label: Any) -> Any:
        """The loss."""
        tensor(self, "logits", logits)
        tensor(self, "label", label)
        if logits.shape != label.shape or logits.ndim < 2:
            raise ValueError(
                f"For 'MultiClassDiceLoss', logits and label must have one shape of two dimensions or more, but got {logits.shape} and "
                f"{label.shape}."
            )
        if self.activation is not None:
            logits = self.activation(logits)
        total = 0
        for at in range(label.shape[1]):
            if at != self.ignore_indiex:
                loss = self.binary(logits[:, at], label[:, at])
                total = total + (loss if self.weights is None else loss * self.weights[at])
        return total / label.shape[1]


class SoftmaxCrossEntropyWithLogits(LossBase):
    """Cross entropy of softmax(logits); `sparse` labels are indices of classes.

    Parameters
    ----------
    sparse : bool
        Whether labels are indices of classes instead of distributions.
    reduction : {'mean', 'sum', 'none'}
        How the losses of elements are combined.
    """

    def __init__(self, sparse: bool = False, reduction: str = "none") -> None:
        super().__init__(reduction)
        of_type(self, bool, sparse=sparse)
        self.sparse = sparse

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        tensor(self, "logits", logits)
        tensor(self, "labels", labels)
        if self.sparse:
            return ops.cross_entropy(logits, labels, reduction=self.reduction)
        return self.get_loss(ops.softmax_cross_entropy_with_logits(logits, labels))


class SampledSoftmaxLoss(LossBase):
    """Cross entropy of softmax over the true classes and some that are drawn, for each sample.

    Parameters
    ----------
    num_sampled : int
        The number of classes that are drawn.
    num_classes : int
        The number of classes.
    num_true : int
        The number of true classes of a sample.
    sampled_values : tuple of Tensor, optional
        The result of a sampler: classes, and how often the true ones and these are expected. By default `ops.UniformCandidateSampler` draws.
    remove_accidental_hits : bool
        Whether true classes are not drawn.
    seed : int
        Of the classes that are drawn.
    reduction : {'mean', 'sum', 'none'}
        Accepted; as in MindSpore, the losses of the samples are not combined.
    """

    num_sampled: int
    num_classes: int
    num_true: int
    sampled_values: Any
    remove_accidental_hits: bool
    seed: int

    def __init__(
        self, num_sampled: int, num_classes: int, num_true: int = 1, sampled_values: Any = None, remove_accidental_hits: bool = True,
        seed: int = 0, reduction: str = "none",
    ) -> None:  # fmt: skip
        super().__init__(reduction)
        name = type(self).__name__
        if num_true < 1:
            raise ValueError(f"For '{name}', the 'num_true' must be greater than or equal to 1, but got {num_true}.")
        if seed < 0:
            raise ValueError(f"For '{name}', the 'seed' must be greater than or equal to 0, but got {seed}.")
        for given, value in (("num_sampled", num_sampled), ("num_true", num_true)):
            if value > num_classes:
                raise ValueError(
                    f"For '{name}', the '{given}' must be smaller than or equal to 'num_classes', but got '{given}': {value} "
                    f"and 'num_classes': {num_classes}."
                )
        if sampled_values is not None:
            of_type(self, (list, tuple), sampled_values=sampled_values)
            if len(sampled_values) != 3:
                raise ValueError(
                    f"For '{name}', the length of 'sampled_values' must be equal to 3, but got {len(sampled_values)}."
                )
        self.num_sampled, self.num_classes, self.num_true = num_sampled, num_classes, num_true
        self.sampled_values, self.remove_accidental_hits, self.seed = sampled_values, remove_accidental_hits, seed
        self.sampler: Any = ops.UniformCandidateSampler(
            num_true, num_sampled, True, num_classes, seed, remove_accidental_hits
        )

    def construct(self, weights: Any, biases: Any, labels: Any, logits: Any) -> Any:
        """The losses of the samples."""
        for given, value in (("weights", weights), ("biases", biases), ("labels", labels), ("logits", logits)):
            tensor(self, given, value)
        if labels.dtype not in (ALL["int32"], ALL["int64"]):
            raise TypeError(
                f"For '{type(self).__name__}', the 'labels' should be one of [int32, int64], but got '{labels.dtype}'."
            )
        labels = labels.astype(ALL["int32"]).reshape(-1, self.num_true)
        drawn, true_count, drawn_count = self.sampler(labels) if self.sampled_values is None else self.sampled_values
        true_weights = ops.gather(weights, labels.reshape(-1), 0).reshape(-1, self.num_true, weights.shape[1])
        true_logits = (
            (logits.expand_dims(1) * true_weights).sum(-1) + ops.gather(biases, labels, 0) - ops.log(true_count)
        )
        drawn_logits = ops.matmul(logits, ops.gather(weights, drawn, 0).swapaxes(0, 1)) + ops.gather(biases, drawn, 0)
        out = ops.cat((true_logits, drawn_logits - ops.log(drawn_count)), 1)
        shares = ops.softmax(out, 1)[:, : self.num_true]
        return -ops.log(shares + 1.0e-20).sum(1) / self.num_true


class CTCLoss(LossBase):
    """`ops.ctc_loss`, also of one sequence without the dimension of a batch.

    Parameters
    ----------
    blank : int
        The label that means no label.
    reduction : {'mean', 'sum', 'none'}
        How the losses of sequences are combined.
    zero_infinity : bool
        Replace infinite losses and their gradients by 0.
    """

    blank: int
    reduction: str
    zero_infinity: bool

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__()
        self.blank, self.reduction, self.zero_infinity = blank, reduction, zero_infinity

    def construct(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        """The loss."""
        tensor(self, "log_probs", log_probs)
        tensor(self, "targets", targets)
        one = log_probs.ndim == 2
        if one:
            log_probs, targets = log_probs.expand_dims(1), targets.reshape((1, -1))
            input_lengths, target_lengths = [
                n.reshape((1,)) if isinstance(n, Tensor) else n for n in (input_lengths, target_lengths)
            ]
        loss = ops.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )[0]
        return loss.reshape(()) if one else loss


class WithLossCell(Cell):
    """The loss of a network: ``loss_fn(backbone(data), label)``.

    Parameters
    ----------
    backbone : Cell
        The network.
    loss_fn : Cell
        The loss, a function of output and label.
    """

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
