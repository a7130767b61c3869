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
}  # fmt: skip


def made(text, dtype):
    """The cell with numbers of its own in each parameter."""
    fj.set_seed(5)
    known = inspect.signature(getattr(nn, text.partition("(")[0])).parameters
    if "dtype" in known or "kwargs" in known:
        text = f"{text[:-1]}, dtype=dtype)"
    cell = eval("nn." + text, {"nn": nn, "dtype": dtype})
    for number, parameter in enumerate(cell.trainable_params()):
        parameter.set_data(Tensor(np.random.default_rng(number).uniform(-0.8, 0.9, parameter.shape), dtype))
    return cell


def tensors(arrays, dtype):
    return [Tensor(a, dtype) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else Tensor(a) if isinstance(a, np.ndarray) else a for a in arrays]


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


@pytest.mark.parametrize("text", CELLS)
def test_gradients_of_cells(text):
    """For inputs and parameters, in float64 against differences; the same without anything compiled."""
    arrays = CELLS[text]
    cell = made(text, fj.float64)
    if text.startswith("BatchNorm"):
        cell.set_train()
    weights = cell.trainable_params()
    floats = [at for at, array in enumerate(arrays) if isinstance(array, np.ndarray) and array.dtype.kind == "f"]
    start = [weight.asnumpy().copy() for weight in weights]

    def total(*inputs):
        return sum([ops.sum(out * out) for out in leaves(cell(*inputs))])

    def value(*numbers):
        given = list(arrays)
        for at, number in zip(floats, numbers):
            given[at] = number
        for weight, number in zip(weights, numbers[len(floats) :]):
            weight.set_data(Tensor(number))
        try:
            return total(*tensors(given, fj.float64)).asnumpy()
        finally:
            for weight, number in zip(weights, start):
                weight.set_data(Tensor(number))

    inputs = tensors(arrays, fj.float64)
    gradient = fj.grad(total, tuple(floats), weights or None)
    found = leaves(gradient(*inputs))
    numbers = [np.asarray(arrays[at]) for at in floats] + start
    assert len(found) == len(numbers)
    for at, number in enumerate(numbers):
        wanted = differences(value, numbers, at)
        np.testing.assert_allclose(found[at].asnumpy(), wanted, atol=2e-6 * max(1, np.abs(wanted).max()), err_msg=str(at))
    with fj.stance("force_eager"):
        for one, other in zip(leaves(gradient(*inputs)), found):
            np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-9, atol=1e-12)


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
