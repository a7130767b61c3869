"""Cells of framejit.nn: eager and compiled, against formulas written out, and their gradients."""

from __future__ import annotations

import inspect

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, nn, ops
from grad.grad_support import differences
from tensor.tensor_support import assert_same, leaves, marked_as_eager

pytestmark = pytest.mark.capture
rng = np.random.default_rng(11)
SEQUENCE = rng.normal(size=(4, 3, 4))
OTHER = rng.normal(size=(4, 3, 4))
LINES = rng.normal(size=(2, 4, 5))
IMAGES = rng.normal(size=(2, 4, 3, 3))
VOLUMES = rng.normal(size=(2, 4, 2, 2, 3))
ROWS = rng.normal(size=(3, 4))
MORE = rng.normal(size=(3, 4))
SIGNS = np.array([[1, -1, 1, 1], [-1, 1, 1, -1], [1, 1, -1, -1]])
LABELS = np.array([[1, -1, 0, 2], [3, 0, -1, -1], [2, 1, 3, -1]])
LENGTHS = np.array([4, 2, 3])
CLOSED = np.triu(np.ones((4, 4), bool), 1)
PADDED = np.arange(4) >= np.array([[4], [2], [3]])

# A cell, and its inputs: arrays of floats are differentiable.
CELLS = {
    "RNN(4, 3)": (SEQUENCE,),
    "RNN(4, 3, 2, nonlinearity='relu', bidirectional=True)": (SEQUENCE,),
    "RNN(4, 3, has_bias=False, batch_first=True)": (SEQUENCE,),
    "LSTM(4, 3)": (SEQUENCE,),
    "LSTM(4, 3, 2, has_bias=False)": (SEQUENCE, None, LENGTHS),
    "LSTM(4, 2, bidirectional=True)": (SEQUENCE, None, LENGTHS),
    "GRU(4, 3)": (SEQUENCE,),
    "GRU(4, 2, 2, bidirectional=True)": (SEQUENCE, None, LENGTHS),
    "MultiheadAttention(4, 2)": (SEQUENCE, OTHER, OTHER, PADDED),
    "MultiheadAttention(4, 2, has_bias=False, add_bias_kv=True, add_zero_attn=True)": (SEQUENCE, OTHER, SEQUENCE, PADDED, True, CLOSED),
    "MultiheadAttention(4, 2, kdim=3, vdim=2, batch_first=True)": (SEQUENCE, OTHER[..., :3], OTHER[..., :2]),
    "TransformerEncoderLayer(4, 2, 3, activation='gelu')": (SEQUENCE, CLOSED, PADDED),
    "TransformerEncoderLayer(4, 2, 3, activation='gelu', norm_first=True, batch_first=True)": (SEQUENCE,),
    "TransformerDecoderLayer(4, 2, 3, activation='gelu')": (SEQUENCE, OTHER, CLOSED, CLOSED, PADDED, PADDED),
    "TransformerDecoderLayer(4, 2, 3, activation='gelu', norm_first=True)": (SEQUENCE, OTHER),
    "Transformer(4, 2, 1, 1, 3, activation='gelu')": (SEQUENCE[:2], OTHER[:2]),
    "BatchNorm1d(4)": (LINES,),
    "BatchNorm2d(4, eps=0.1)": (IMAGES,),
    "BatchNorm3d(4)": (VOLUMES,),
    "SyncBatchNorm(4)": (IMAGES,),
    "InstanceNorm1d(4)": (LINES,),
    "InstanceNorm2d(4)": (IMAGES,),
    "InstanceNorm3d(4, affine=False)": (VOLUMES,),
    "GroupNorm(2, 4)": (IMAGES,),
    "LayerNorm((4, 3, 3), 1, 1)": (IMAGES,),
    "LayerNorm((3, 3), -1, 2, epsilon=0.1)": (IMAGES,),
    "RMSNorm(5)": (LINES,),
    "MAELoss()": (ROWS, MORE),
    "SoftMarginLoss('sum')": (ROWS, MORE),
    "MultiLabelSoftMarginLoss()": (ROWS, MORE),
    "MultilabelMarginLoss('none')": (ROWS, LABELS),
    "CosineEmbeddingLoss(0.1)": (ROWS, MORE, SIGNS[:, 0]),
    "MarginRankingLoss(0.1, 'none')": (ROWS, MORE, SIGNS),
    "HingeEmbeddingLoss()": (ROWS, SIGNS),
    "MultiMarginLoss(2)": (ROWS, LABELS[:, 0]),
    "TripletMarginLoss(swap=True, margin=2.0)": (ROWS, MORE, np.roll(MORE, 1, 0)),
    "TripletMarginLoss(1, reduction='none')": (ROWS, MORE, np.roll(MORE, 1, 0)),
    "TripletMarginWithDistanceLoss(reduction='sum')": (ROWS, MORE, np.roll(MORE, 1, 0)),
    "GaussianNLLLoss(full=True)": (ROWS, MORE, np.abs(ROWS) + 0.5),
    "PoissonNLLLoss(full=True)": (ROWS, np.array([[0.5, 2.0, 3.0, 0.75]])),
    "FocalLoss(gamma=1.5)": (ROWS, LABELS[:, :1]),
    "FocalLoss()": (ROWS, np.abs(MORE)),
    "RMSELoss()": (ROWS, MORE),
    "DiceLoss()": (ROWS, MORE),
    "MultiClassDiceLoss(activation='tanh', ignore_indiex=1)": (ROWS, MORE),
    "SoftmaxCrossEntropyWithLogits()": (ROWS, np.abs(MORE)),
    "BiDense(4, 3, 2)": (ROWS, MORE[:, 1:].copy()),
    "Linear(4, 2)": (ROWS,),
    "Softmax2d()": (IMAGES,),
    "FastGelu()": (ROWS,),
    "GLU(0)": (MORE[:2].copy(),),
    "LGamma()": (ROWS,),
    "DiGamma()": (ROWS,),
    "LRN(1, 2.0)": (IMAGES,),
    "Conv1d(4, 2, 3, has_bias=True)": (LINES,),
    "Conv3d(4, 2, 2, 2, 'pad', 1, group=2)": (VOLUMES,),
    "Conv1dTranspose(4, 2, 3, 2, 'pad', 1)": (LINES,),
    "Conv2dTranspose(4, 2, (3, 2), (2, 3), 'pad', (1, 0, 1, 2), 1, group=2, has_bias=True)": (IMAGES,),
    "Conv2dTranspose(4, 3, 2, 3, 'valid', dilation=2)": (IMAGES,),
    "Conv3dTranspose(4, 2, 2, 2, 'pad', output_padding=1)": (VOLUMES,),
    "MaxPool1d(2, 2, 'same')": (LINES,),
    "MaxPool2d(2, 1, 'pad', 1, 2)": (IMAGES,),
    "MaxPool3d(2, 1)": (VOLUMES,),
    "AvgPool1d(3, 2, 'pad', 1, ceil_mode=True)": (LINES,),
    "AvgPool2d(2, 1, 'same')": (IMAGES,),
    "AvgPool3d(2, 1, 'pad', 1, count_include_pad=False)": (VOLUMES,),
    "LPPool2d(2.0, 2)": (np.abs(IMAGES),),
    "AdaptiveAvgPool2d((2, None))": (IMAGES,),
    "AdaptiveAvgPool3d(1)": (VOLUMES,),
    "AdaptiveMaxPool2d(2)": (IMAGES,),
    "ConstantPad1d((1, -1), 2.0)": (LINES,),
    "ReflectionPad2d((1, 2, 0, 1))": (IMAGES,),
    "ReplicationPad3d(1)": (VOLUMES,),
    "Pad(((0, 0), (1, 1), (2, 1)), 'SYMMETRIC')": (LINES,),
    "PixelShuffle(2)": (IMAGES,),
    "PixelUnshuffle(3)": (IMAGES,),
    "ChannelShuffle(2)": (IMAGES,),
    "Upsample((5, 2))": (IMAGES,),
    "Upsample(7, mode='linear')": (LINES,),
    "Upsample((5, 4), mode='bilinear', align_corners=True)": (IMAGES,),
    "Upsample((5, 4), mode='bicubic')": (IMAGES,),
    "Upsample((3, 3, 4), mode='trilinear')": (VOLUMES,),
    "Upsample((2, 2), mode='area')": (IMAGES,),
    "CentralCrop(0.5)": (IMAGES,),
    "ImageGradients()": (IMAGES,),
    **{f"{name}()": (ROWS,) for name in (
        "ReLU ReLU6 Sigmoid Tanh Softmax LogSoftmax Softmin LeakyReLU ELU CELU SeLU SiLU Mish HSigmoid HSwish Hardtanh HShrink SoftShrink Softsign Softplus LogSigmoid "
        "Tanhshrink GELU Flatten Tril Triu Norm").split()},
    "GELU(False)": (ROWS,),
    "Threshold(0.1, 2.0)": (ROWS,),
    "ReduceLogSumExp(1)": (ROWS,),
    "Unflatten(1, (2, 2))": (ROWS,),
    "PReLU(4)": (IMAGES,),
    "PReLUExt(4)": (IMAGES,),
    "Dense(4, 2, activation='tanh')": (ROWS,),
    "Embedding(5, 3)": (np.array([[1, 4, 1], [0, 2, 1]]),),
    "EmbeddingLookup(5, 3, max_norm=0.9)": (np.array([[1, 4, 1], [0, 2, 1]]),),
    **{f"MultiFieldEmbeddingLookup(5, 2, 3, operator='{operator}')": (np.array([[2, 4, 1, 0], [1, 3, 3, 0]]), np.array([[1, 2, 0.5, 0.25], [1, -1, 3, 2]]), np.array([[0, 1, 1, 0], [0, 0, 2, 1]])) for operator in ("SUM", "MEAN", "MAX")},
    **{f"{name}({options})": (ROWS, MORE) for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss") for options in ("", "reduction='sum'")},
    "BCELoss()": (1 / (1 + np.exp(-ROWS)), 1 / (1 + np.exp(-MORE))),
    "BCEWithLogitsLoss(reduction='none')": (ROWS, 1 / (1 + np.exp(-MORE))),
    "NLLLoss()": (ROWS, LABELS[:, 0]),
    "CrossEntropyLoss(label_smoothing=0.1)": (ROWS, LABELS[:, 0]),
    "CrossEntropyLoss()": (ROWS, np.abs(MORE)),
    "KLDivLoss('batchmean')": (ROWS, np.abs(MORE)),
    "CTCLoss()": (SEQUENCE, np.array([[1, 2], [3, 3], [2, 0]]), np.array([4, 3, 4]), np.array([2, 2, 1])),
    "CTCLoss(1, 'none', True)": (SEQUENCE, np.array([[0, 2], [3, 3], [2, 0]]), np.array([4, 2, 3]), np.array([2, 2, 0])),
    "Conv2d(4, 2, 2, 1, 'pad', 1, 2, has_bias=True)": (IMAGES,),
    "Conv2d(4, 6, 3, group=2)": (IMAGES,),
    "LPPool1d(3.0, 2)": (np.abs(LINES),),
    "AdaptiveAvgPool1d(2)": (LINES[:, :, :4],),
    "AdaptiveMaxPool1d(2)": (LINES[:, :, :4],),
    "AdaptiveMaxPool3d(1)": (VOLUMES,),
    "MaxUnpool1d(2)": (LINES[:, :, :2], np.broadcast_to(np.array([1, 2]), (2, 4, 2)).copy()),
    "MaxUnpool2d(2)": (IMAGES[:, :, :1, :2], np.broadcast_to(np.array([[1, 2]]), (2, 4, 1, 2)).copy()),
    "MaxUnpool3d(2)": (VOLUMES[:, :, :1, :1, :1], np.full((2, 4, 1, 1, 1), 5)),
    "ConstantPad2d(1, 0.5)": (IMAGES,),
    "ConstantPad3d(1, 0.5)": (VOLUMES,),
    "ReflectionPad1d(2)": (LINES,),
    "ReflectionPad3d(1)": (VOLUMES,),
    "ReplicationPad1d((1, 2))": (LINES,),
    "ReplicationPad2d(1)": (IMAGES,),
    "ZeroPad2d((1, -1, 0, 2))": (IMAGES,),
    "RNNCell(4, 3)": (ROWS, SEQUENCE[0, :, :3]),
    "GRUCell(4, 3)": (ROWS, SEQUENCE[0, :, :3]),
    "LSTMCell(4, 3)": (ROWS, (SEQUENCE[0, :, :3], SEQUENCE[1, :, :3])),
    "TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 3, activation='gelu', dtype=dtype), 2)": (SEQUENCE[:2],),
    "TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 3, activation='gelu', dtype=dtype), 1)": (SEQUENCE[:2], OTHER[:2]),
    "Conv2dBnAct(4, 2, 2, has_bn=True, activation='tanh')": (IMAGES,),
    "DenseBnAct(4, 2, has_bn=True, activation='sigmoid')": (ROWS,),
    "Roll(1, 0)": (ROWS,),
    "Moments(1)": (ROWS,),
    "MatMul(True)": (ROWS, MORE),
    "MatInverse()": (SEQUENCE[:3, :, :3] + 2 * np.eye(3),),
    "MatDet()": (SEQUENCE[:3, :, :3] + 2 * np.eye(3),),
    "L1Regularizer(0.5)": (ROWS,),
    "ClipByNorm()": (ROWS, np.array(0.75)),
    "TimeDistributed(nn.Dense(4, 2, dtype=dtype), 1)": (SEQUENCE,),
    "MatrixDiag()": (ROWS,),
    "MatrixDiagPart()": (SEQUENCE,),
    "MatrixSetDiag()": (SEQUENCE, OTHER[:, 0, :3]),
    "PSNR()": (IMAGES, MORE[0, 0] * IMAGES),
    "SSIM(filter_size=2)": (IMAGES, IMAGES * 0.5 + 0.1),
    # The variance of one number is zero if its square is exact, else what rounding leaves over.
    "MSSSIM(power_factors=(0.4, 0.6), filter_size=1)": (np.round(np.abs(IMAGES) * 16) / 16, np.round(np.abs(IMAGES) * 8 + 1) / 16),
    "FractionalMaxPool2d(2, 2, _random_samples=fj.ops.full((1, 4, 2), 0.4, dtype=dtype))": (IMAGES,),
    "FractionalMaxPool3d((1, 1, 2), 1, _random_samples=fj.ops.full((1, 4, 3), 0.4, dtype=dtype))": (VOLUMES,),
    "SparseTensorDenseMatmul(adjoint_dt=True)": (np.array([[0, 1], [2, 3]]), MORE[0, :2], (3, 4), ROWS),
    "LBeta()": (np.abs(ROWS) + 0.5, np.abs(MORE) + 0.5),
}  # fmt: skip

# Those that have no gradient to look at, and why.
NO_GRADIENT = {
    **dict.fromkeys(("OneHot", "Range"), "made of integers"),
    **dict.fromkeys(("Dropout", "Dropout1d", "Dropout2d", "Dropout2dExt", "Dropout3d", "Identity"), "the input itself, or random"),
    "RReLU": "random, or LeakyReLU",
    "IGamma": "SciPy has no derivative by the first argument",
    **dict.fromkeys(("Cell", "CellDict", "CellList", "GraphCell", "LossBase", "SequentialCell", "TensorArray"), "as what it holds"),
    **dict.fromkeys(("WithLossCell", "WithEvalCell", "WithGradCell", "ForwardValueAndGrad", "GradAccumulationCell", "ParameterUpdate", "Jvp", "Vjp"), "as what it holds"),
    "SparseToDense": "of a COOTensor",
    "SampledSoftmaxLoss": "random; test_further.py has its gradient for given classes",
    "DistributedGradReducer": "needs a group of processes: test_communication.py",
    **dict.fromkeys(("TrainOneStepCell", "TrainOneStepWithLossScaleCell", "DynamicLossScaleUpdateCell", "FixedLossScaleUpdateCell"), "a step of training"),
}  # fmt: skip

# What computes in float32 whatever it is given, with how far differences may be off.
SINGLE = {"SSIM": 2e-2, "MSSSIM": 2e-2, **dict.fromkeys(("PSNR", "LBeta", "RNNCell", "GRUCell", "LSTMCell", "PReLU", "PReLUExt", "Conv2dBnAct", "DenseBnAct"), 2e-3)}


def made(text, dtype):
    """The cell with numbers of its own in each parameter."""
    fj.set_seed(5)
    known = inspect.signature(getattr(nn, text.partition("(")[0])).parameters
    if "dtype" in known or "kwargs" in known:
        text = f"{text[:-1]}, dtype=dtype)"
    cell = eval("nn." + text, {"nn": nn, "fj": fj, "dtype": dtype})
    for number, parameter in enumerate(cell.trainable_params()):
        parameter.set_data(Tensor(np.random.default_rng(number).uniform(-0.8, 0.9, parameter.shape), dtype))
    return cell


def tensors(arrays, dtype):
    if isinstance(arrays, tuple):
        return tuple(tensors(list(arrays), dtype))
    return [
        tensors(a, dtype) if isinstance(a, tuple) else Tensor(a, dtype) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else Tensor(a) if isinstance(a, np.ndarray) else a
        for a in arrays
    ]


@pytest.mark.parametrize("text", CELLS)
def test_compiled_cells(text):
    inputs = tensors(CELLS[text], fj.float32)
    cell = made(text, fj.float32)
    marked_as_eager(lambda *inputs: cell(*inputs), *inputs)
    if list(cell.untrainable_params()):
        other = made(text, fj.float32).set_train()
        expected = cell.set_train()(*inputs)
        assert_same(fj.jit(other)(*inputs), expected)
        assert_same([p.value() for p in other.untrainable_params()], [p.value() for p in cell.untrainable_params()])


class Looked:
    """A cell as a function of numbers: of its inputs of floats, and of its Parameters."""

    def __init__(self, text):
        self.name = text.partition("(")[0]
        self.dtype = fj.float32 if self.name in SINGLE else fj.float64
        self.cell = made(text, self.dtype)
        if text.startswith("BatchNorm"):
            self.cell.set_train()
        self.weights = self.cell.trainable_params()
        self.arrays = CELLS[text]
        self.floats = [at for at, a in enumerate(self.arrays) if isinstance(a, tuple) and isinstance(a[0], np.ndarray) or isinstance(a, np.ndarray) and a.dtype.kind == "f"]
        self.numbers = [np.asarray(a) for at in self.floats for a in leaves(self.arrays[at])] + [w.asnumpy().copy() for w in self.weights]

    def total(self, *inputs):
        return sum([ops.sum(out * out) for out in leaves(self.cell(*inputs))])

    def inputs(self, numbers=None):
        numbers = [np.asarray(n) for n in (self.numbers if numbers is None else numbers)]
        given = [a if at not in self.floats else tuple(numbers.pop(0) for _ in a) if isinstance(a, tuple) else numbers.pop(0) for at, a in enumerate(self.arrays)]
        return tensors(given, self.dtype)

    def at(self, function, numbers):
        """`function` of the inputs, with these numbers in them and in the Parameters."""
        for weight, number in zip(self.weights, numbers[len(numbers) - len(self.weights) :]):
            weight.set_data(Tensor(number, self.dtype))
        try:
            return function(*self.inputs(numbers))
        finally:
            for weight, number in zip(self.weights, self.numbers[len(self.numbers) - len(self.weights) :]):
                weight.set_data(Tensor(number, self.dtype))

    def gradient(self, function):
        return fj.grad(function, tuple(self.floats) if self.floats else None, self.weights or None)


@pytest.mark.parametrize("text", CELLS)
def test_gradients_of_cells(text):
    """For inputs and parameters, in float64 against differences; the same compiled at each level, and without anything compiled."""
    looked = Looked(text)
    gradient = looked.gradient(looked.total)
    inputs = looked.inputs()
    found = leaves(gradient(*inputs))
    assert len(found) == len(looked.numbers)
    single = looked.name in SINGLE
    for at, number in enumerate(looked.numbers):
        wanted = differences(lambda *numbers: looked.at(looked.total, numbers).asnumpy(), looked.numbers, at, 1e-2 if single else 1e-6)
        np.testing.assert_allclose(found[at].asnumpy(), wanted, atol=SINGLE.get(looked.name, 2e-6) * max(1, np.abs(wanted).max()), err_msg=str(at))
    assert_same(fj.jit(lambda *inputs: gradient(*inputs))(*inputs), gradient(*inputs))
    near = {"rtol": 1e-4, "atol": 1e-5} if single or looked.name == "Upsample" else {"rtol": 1e-9, "atol": 1e-12}  # Upsample's weights are float32
    fast = fj.grad(fj.jit(looked.total, jit_level="O1"), tuple(looked.floats) if looked.floats else None, looked.weights or None)
    others = [fast(*inputs)]
    if looked.name != "SparseTensorDenseMatmul":  # ufunc.at is followed in graphs only
        with fj.stance("force_eager"):
            others.append(gradient(*inputs))
    for other in others:
        for one, same in zip(leaves(other), found):
            np.testing.assert_allclose(one.asnumpy(), same.asnumpy(), **near)


@pytest.mark.parametrize("text", [text for text in CELLS if text.partition("(")[0] not in SINGLE])
def test_second_gradients_of_cells(text):
    """How the gradient changes along a line, against its difference."""
    looked = Looked(text)
    draws = np.random.default_rng(1)
    along, by = ([draws.normal(size=np.shape(n)) for n in looked.numbers] for _ in range(2))
    constants = [Tensor(n) for n in by]
    first = looked.gradient(looked.total)

    def slope(*inputs):
        return sum([ops.sum(g * c) for g, c in zip(leaves(first(*inputs)), constants)])

    second = leaves(looked.gradient(slope)(*looked.inputs()))
    found = sum([float((g.asnumpy() * n).sum()) for g, n in zip(second, along)])
    step = 1e-6
    up, down = (looked.at(slope, [n + sign * step * a for n, a in zip(looked.numbers, along)]).item() for sign in (1, -1))
    assert found == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-5 * max(1, abs(up)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def written_out(kind, x, state, w_ih, w_hh, b_ih, b_hh):
    """One step of one cell, gate by gate."""
    h = state[0]
    one, own = x @ w_ih.T + b_ih, h @ w_hh.T + b_hh
    parts, own_parts = np.split(one, {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 1), np.split(own, {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 1)
    if kind == "RNN":
        return (np.tanh(one + own),)
    if kind == "GRU":
        reset, update = (sigmoid(parts[i] + own_parts[i]) for i in (0, 1))
        new = np.tanh(parts[2] + reset * own_parts[2])
        return ((1 - update) * new + update * h,)
    i, f, g, o = (part + own_part for part, own_part in zip(parts, own_parts))
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_against_the_formula(kind):
    """Both directions, sequences of several lengths, given states; each sequence on its own."""
    layer = made(f"{kind}(4, 3, bidirectional=True)", fj.float32)
    states = [rng.normal(size=(2, 3, 3)).astype("f4") for _ in range(2 if kind == "LSTM" else 1)]
    given = tuple(map(Tensor, states)) if kind == "LSTM" else Tensor(states[0])
    out, last = layer(Tensor(SEQUENCE, fj.float32), given, Tensor(LENGTHS))
    last = last if kind == "LSTM" else (last,)
    for direction in (0, 1):
        weights = [w.asnumpy() for w in (layer.w_ih_list[direction], layer.w_hh_list[direction], layer.b_ih_list[direction], layer.b_hh_list[direction])]
        for at, length in enumerate(LENGTHS):
            state = tuple(s[direction, at : at + 1] for s in states)
            wanted = np.zeros((4, 3))
            for t in range(length)[:: -1 if direction else 1]:
                state = written_out(kind, SEQUENCE[t, at : at + 1], state, *weights)
                wanted[t] = state[0]
            np.testing.assert_allclose(out.asnumpy()[:, at, 3 * direction : 3 * direction + 3], wanted, atol=1e-6)
            for found, one in zip(last, state):
                np.testing.assert_allclose(found.asnumpy()[direction, at], one[0], atol=1e-6)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_a_cell_is_a_step_of_its_layer(kind):
    layer, cell = made(f"{kind}(4, 3)", fj.float32), made(f"{kind}Cell(4, 3)", fj.float32)
    for name in ("w_ih", "w_hh", "b_ih", "b_hh"):
        getattr(cell, name.replace("w_", "weight_").replace("b_", "bias_")).set_data(getattr(layer, name + "_list")[0])
    h = Tensor(rng.normal(size=(3, 3)), fj.float32)
    state = (h, h * 2) if kind == "LSTM" else h
    x = Tensor(SEQUENCE[:1], fj.float32)
    lifted = tuple(s.expand_dims(0) for s in state) if kind == "LSTM" else state.expand_dims(0)
    _, last = layer(x, lifted)
    found = cell(x[0], state)
    assert_same([s.squeeze(0) for s in leaves(last)], leaves(found))
    assert fj.jit(cell)(x[0], state) is not None
    assert_same(leaves(fj.jit(cell)(x[0], state)), leaves(found))


def test_dropout_between_recurrent_layers():
    layer = nn.LSTM(4, 8, 2, dropout=0.5)
    x = Tensor(SEQUENCE, fj.float32)
    assert_same(layer(x)[0], layer(x)[0])
    layer.set_train()
    assert not np.array_equal(layer(x)[0].asnumpy(), layer(x)[0].asnumpy())
    single = nn.GRU(4, 8, dropout=0.5).set_train()
    assert_same(single(x)[0], single(x)[0])


def test_attention_against_the_formula():
    cell = made("MultiheadAttention(4, 2)", fj.float64)
    out, weights = cell(*tensors((SEQUENCE, OTHER, OTHER, PADDED), fj.float64), attn_mask=Tensor(CLOSED), average_attn_weights=False)
    q, k, v = (x @ w.T + b for x, w, b in zip((SEQUENCE, OTHER, OTHER), *(np.split(p.asnumpy(), 3) for p in (cell.in_proj_weight, cell.in_proj_bias))))
    for batch, head in np.ndindex(3, 2):
        part = slice(2 * head, 2 * head + 2)
        scores = q[:, batch, part] @ k[:, batch, part].T / np.sqrt(2)
        scores[CLOSED | PADDED[batch]] = -np.inf
        p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        np.testing.assert_allclose(weights.asnumpy()[batch, head], p, rtol=1e-12)
        v[:, batch, part] = p @ v[:, batch, part]
    wanted = v @ cell.out_proj.weight.asnumpy().T + cell.out_proj.bias.asnumpy()
    np.testing.assert_allclose(out.asnumpy(), wanted, rtol=1e-10)
    assert len(cell(*tensors((SEQUENCE, OTHER, OTHER), fj.float64), need_weights=False)) == 1


def test_layers_of_an_encoder_have_parameters_of_their_own():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, norm_first=True, dropout=0.0), 2)
    names = [p.name for p in encoder.get_parameters()]
    assert names[0] == "layers.0.self_attn.in_proj_weight" and len(set(names)) == len(names) == 24
    first, second = encoder.layers
    assert first.norm_first and second.dropout1.p == 0.0
    assert_same(first.dense1.weight.value(), second.dense1.weight.value())
    first.dense1.weight.set_data(ops.zeros_like(first.dense1.weight))
    assert second.dense1.weight.asnumpy().any()
    train = encoder.set_train()
    assert_same(train(Tensor(SEQUENCE, fj.float32)), train(Tensor(SEQUENCE, fj.float32)))


def test_initial_values():
    fj.set_seed(1)
    bound = 1 / np.sqrt(50)
    for layer in (nn.LSTM(40, 50), nn.GRUCell(40, 50)):
        for parameter in layer.get_parameters():
            numbers = parameter.asnumpy()
            assert np.abs(numbers).max() <= bound and abs(numbers.std() - bound / np.sqrt(3)) < 0.1 * bound
    attention = nn.MultiheadAttention(60, 2).in_proj_weight.asnumpy()
    assert np.abs(attention).max() <= np.sqrt(6 / 240) and abs(attention.std() - np.sqrt(2 / 240)) < 0.005


def test_names_are_paths():
    net = nn.SequentialCell(nn.BatchNorm2d(2), nn.PReLU(), nn.LSTM(2, 2, has_bias=False))
    assert [p.name for p in net.get_parameters()] == [
        *("0.moving_mean", "0.moving_variance", "0.gamma", "0.beta", "1.w", "2.weight_ih_l0", "2.weight_hh_l0"),
    ]


def test_indices_of_pooling():
    """Places of the largest elements, within the image; and back."""
    x = Tensor(IMAGES, fj.float32)
    for cell in (nn.MaxPool2d(2, 1, "pad", 1, return_indices=True), nn.AdaptiveMaxPool2d((2, 3), True)):
        values, at = cell(x)
        assert at.dtype is fj.int64
        np.testing.assert_array_equal(np.take_along_axis(IMAGES.astype("f4").reshape(2, 4, 9), at.asnumpy().reshape(2, 4, -1), 2), values.asnumpy().reshape(2, 4, -1))
        marked_as_eager(lambda x: cell(x), x)
    values, at = nn.MaxPool2d(2, 2, "pad", return_indices=True)(x)
    back = nn.MaxUnpool2d(2)(values, at, (2, 4, 3, 3)).asnumpy()
    assert (back != 0).sum() == values.size and np.array_equal(back[back != 0], IMAGES.astype("f4")[back != 0])


def test_windows_as_columns():
    x = Tensor(IMAGES, fj.float32)
    columns = marked_as_eager(lambda x: ops.unfold(x, 2, 1, 1, 2), x)(x)
    padded = np.pad(IMAGES.astype("f4"), [(0, 0), (0, 0), (1, 1), (1, 1)])
    wanted = [padded[:, :, i : i + 2, j : j + 2].reshape(2, -1) for i in (0, 2) for j in (0, 2)]
    np.testing.assert_array_equal(columns.asnumpy(), np.stack(wanted, -1))
    folded = marked_as_eager(lambda c: ops.fold(c, (3, 3), 2, 1, 1, 2), columns)(columns)
    np.testing.assert_array_equal(folded.asnumpy(), IMAGES.astype("f4"))


def test_scale_factors():
    x = Tensor(VOLUMES, fj.float32)
    assert_same(nn.Upsample(scale_factor=1.5, mode="area")(x), ops.interpolate(x, (3, 3, 4), mode="area"))
    marked_as_eager(lambda x: ops.interpolate(x, scale_factor=1.5, mode="trilinear"), x)
    cell = nn.Upsample(scale_factor=(0.7, 2.0, 1.0))
    marked_as_eager(lambda x: cell(x), x, breaks=None)
    assert cell(x).shape == (2, 4, 1, 4, 3)


def test_losses_against_formulas():
    """Those that MindSpore does not compute on CPUs."""
    x, y, z = (Tensor(a) for a in (ROWS, MORE, SIGNS))
    np.testing.assert_allclose(ops.soft_margin_loss(x, z, "none").asnumpy(), np.log(1 + np.exp(-SIGNS * ROWS)))
    own = [[1], [3, 0], [2, 1, 3]]
    sums = [sum([max(0, 1 - (ROWS[r, c] - ROWS[r, o])) for c in cs for o in range(4) if o not in cs]) / 4 for r, cs in enumerate(own)]
    np.testing.assert_allclose(ops.multilabel_margin_loss(x, Tensor(LABELS), "none").asnumpy(), sums)
    np.testing.assert_allclose(ops.multilabel_margin_loss(x[1], Tensor(LABELS[1])).asnumpy(), sums[1])
    distance = lambda a, b, p: (np.abs(a - b + 1e-6) ** p).sum(-1) ** (1 / p)  # noqa: E731
    for p in (1, 2, 3):
        near, far = distance(ROWS, MORE, p), np.minimum(distance(ROWS, -ROWS, p), distance(MORE, -ROWS, p))
        found = ops.triplet_margin_loss(x, y, -x, 0.5, p, swap=True, reduction="none")
        np.testing.assert_allclose(found.asnumpy(), np.maximum(near - far + 0.5, 0))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_dropout_of_channels(rank):
    cell = getattr(nn, f"Dropout{rank}d")(0.25)
    x = ops.ones((40, 50) + (2,) * rank)
    assert cell(x) is x
    fj.set_seed(3)
    out = cell.set_train()(x).asnumpy().reshape(40, 50, -1)
    assert set(np.unique(out)) == {0.0, np.float32(1 / 0.75)} and (out == out[..., :1]).all()
    assert abs((out[..., 0] == 0).mean() - 0.25) < 0.04


def test_every_cell_is_here():
    """Each class of nn has its gradient looked at, or a reason why not; optimizers and learning rates have tests of their own."""
    own = {text.partition("(")[0] for text in CELLS} | set(NO_GRADIENT)
    cells = {name for name in nn.__all__ if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), nn.Cell)}
    others = {name for name in cells if issubclass(getattr(nn, name), (nn.Optimizer, nn.LearningRateSchedule))}
    assert cells - others - {"LARS"} == own


@pytest.mark.parametrize("text", [text for text in CELLS if made(text, fj.float32).trainable_params() or "Norm" in text])
def test_wrong_shapes_are_named(text):
    """One element more along an axis of the first input: it is taken, or the error names the layer, and for some axis a Parameter and its shape.
    Compiled calls raise the same.
    """
    cell = made(text, fj.float32)
    inputs, said = tensors(CELLS[text], fj.float32), []
    names = {type(one).__name__ for _, one in cell.cells_and_names()}
    for axis in range(inputs[0].ndim):
        shape = tuple(n + (at == axis) for at, n in enumerate(inputs[0].shape))
        wrong = [Tensor(np.resize(inputs[0].asnumpy(), shape)), *inputs[1:]]
        try:
            cell(*wrong)
        except (ValueError, RuntimeError) as error:
            said.append(str(error))
            assert any(f"For '{name}'" in said[-1] for name in names), said[-1]
            with pytest.raises(type(error)) as compiled:
                fj.jit(lambda *wrong: cell(*wrong))(*wrong)
            assert str(compiled.value) == said[-1]
    if said and not text.startswith(("MultiField", "Transformer(")):
        assert any(f"'{p.name}'" in one and str(p.shape) in one for one in said for p in cell.get_parameters()), said


@pytest.mark.parametrize("text", [text for text in CELLS if "Loss" in text])
def test_wrong_shapes_of_losses_are_named(text):
    """One element more along an axis of an input: it is taken, or the error names the loss, or ops.ctc_loss, and has the shape."""
    cell, inputs = made(text, fj.float32), tensors(CELLS[text], fj.float32)
    refused = 0
    for at, given in enumerate(inputs):
        for axis in range(given.ndim):
            shape = tuple(n + (other == axis) for other, n in enumerate(given.shape))
            wrong = [*inputs[:at], Tensor(np.resize(given.asnumpy(), shape)), *inputs[at + 1 :]]
            try:
                cell(*wrong)
            except ValueError as error:
                refused += 1
                assert f"'{type(cell).__name__}'" in str(error) or "'ctc_loss'" in str(error)
                assert str(shape) in str(error)
                with pytest.raises(ValueError) as compiled:
                    fj.jit(lambda *wrong: cell(*wrong))(*wrong)
                assert str(compiled.value) == str(error)
    assert refused


def test_errors_of_cells_that_hold_cells():
    relu = nn.ReLU()
    for call, kind, message in (
        (lambda: nn.CellDict({"a": nn.CellList([relu])}), TypeError, "can not be CellDict, CellList or SequentialCell, but got CellList"),
        (lambda: nn.CellDict({"a": nn.SequentialCell([relu])}), TypeError, "or SequentialCell, but got SequentialCell"),
        (lambda: nn.CellDict([["a", nn.CellDict()]]), TypeError, "or SequentialCell, but got CellDict"),
        (lambda: nn.CellDict({"a": None}), TypeError, "cell can not be None"),
        (lambda: nn.CellDict({"a": 3}), TypeError, "the type of cell should be Cell, but got int"),
        (lambda: nn.CellDict({3: relu}), TypeError, "the type of key should be string but got int"),
        (lambda: nn.CellDict({"": relu}), KeyError, "can not be empty string"),
        (lambda: nn.CellDict({"construct": relu}), KeyError, "can not be same with the attributes of Cell, but got key construct"),
        (lambda: nn.CellDict({"a.b": relu}), KeyError, "can not contain"),
        (lambda: nn.CellDict(3), TypeError, "should be called with an iterable of key-value pairs, but got int"),
        (lambda: nn.CellDict([3]), TypeError, "sequence element #0 should be Iterable; but got int"),
        (lambda: nn.CellDict([["a", relu], [3]]), ValueError, "sequence element #1, length should be 2; but has length 1"),
        (lambda: nn.CellList([nn.CellDict({"a": relu})]), TypeError, "the type of cell can not be CellDict"),
        (lambda: nn.CellList([relu]).extend([nn.CellDict({"a": relu})]), TypeError, "the type of cell can not be CellDict"),
        (lambda: nn.CellList([3]), TypeError, "each cell must be subclass of Cell, but got int"),
        (lambda: nn.CellList([relu]).extend(3), TypeError, "should be instance of list, but got int"),
    ):
        with pytest.raises(kind, match=message):
            call()
    nested = nn.SequentialCell([nn.CellList([relu])])
    assert len(nested[0]) == 1 and list(nn.CellDict({"a": relu, "b": nn.Tanh()}).keys()) == ["a", "b"]
    held = nn.CellDict([("a", relu)])
    held.update(nn.CellDict({"b": relu}))
    assert len(held) == 2


def test_attributes_of_cells_that_are_set():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.w = fj.Parameter(Tensor([1.0]), name="w")
            self.requires_grad = self.w.requires_grad

        def construct(self, x):
            return x * 2 if self.requires_grad else x

    net = Net()
    assert net.requires_grad is True and fj.jit(net)(Tensor([3.0])).tolist() == [6.0]
    assert net.set_grad(False).requires_grad is False and fj.jit(net)(Tensor([3.0])).tolist() == [3.0]
    assert not hasattr(net, "pipeline_stage")
    net.pipeline_stage = 2
    assert net.pipeline_stage == 2
    for value, kind, message in ((-1, ValueError, "can not be less than 0, but got -1"), (1.5, TypeError, "must be int type"), (True, TypeError, "must be int type")):
        with pytest.raises(kind, match=f"property 'pipeline_stage' {message}"):
            net.pipeline_stage = value
