"""Programs as MindSpore's tutorials have them, written for MindSpore: python mindspore_tutorials.py OUTPUT, or with ``-m framejit --as-mindspore``.

Each gives arrays by name; OUTPUT is an .npz of all. Parameters begin with numbers of NumPy's, so that both packages begin alike.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import mindspore as ms
import mindspore.dataset as ds
import mindspore.nn as nn
import mindspore.ops as ops
import numpy as np
from mindspore import Tensor, mutable
from mindspore.common.initializer import Normal
from mindspore.dataset import transforms, vision


def begun(net):
    """The network with small numbers in its parameters."""
    for number, parameter in enumerate(net.get_parameters()):
        numbers = np.random.default_rng(number).normal(size=parameter.shape) * 0.1
        if parameter.name.endswith("variance"):
            numbers = np.abs(numbers) + 1
        parameter.set_data(Tensor(numbers.astype(np.float32)))
    return net


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# --- Quick start: a dataset, a network, a training by functions, an evaluation ---------------------------------------------


class Perceptron(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.dense_relu_sequential = nn.SequentialCell(
            nn.Dense(8 * 8, 32), nn.ReLU(), nn.Dense(32, 32), nn.ReLU(), nn.Dense(32, 10)
        )

    def construct(self, x):
        x = self.flatten(x)
        return self.dense_relu_sequential(x)


def quick_start():
    images, labels = draw(64, 1, 8, 8), np.arange(64, dtype=np.int32) % 10
    dataset = ds.NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False).batch(16)
    model, loss_fn = begun(Perceptron()), nn.CrossEntropyLoss()
    optimizer = nn.SGD(model.trainable_params(), 1e-1)

    def forward_fn(data, label):
        logits = model(data)
        return loss_fn(logits, label), logits

    grad_fn = ms.value_and_grad(forward_fn, None, optimizer.parameters, has_aux=True)

    def train_step(data, label):
        (loss, _), grads = grad_fn(data, label)
        optimizer(grads)
        return loss

    losses = []
    model.set_train()
    for _ in range(3):
        for data, label in dataset.create_tuple_iterator():
            losses.append(float(train_step(data, label).asnumpy()))
    model.set_train(False)
    correct, total = 0.0, 0
    for data, label in dataset.create_tuple_iterator():
        predicted = model(data)
        total += len(data)
        correct += float((predicted.argmax(1) == label).asnumpy().sum())
    return {"losses": losses, "accuracy": correct / total}


# --- LeNet, trained by Model ---------------------------------------------------------------------------------------------------


class LeNet5(nn.Cell):
    def __init__(self, num_class=10, num_channel=1):
        super().__init__()
        self.conv1 = nn.Conv2d(num_channel, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.fc1 = nn.Dense(16 * 4 * 4, 120, weight_init=Normal(0.02))
        self.fc2 = nn.Dense(120, 84, weight_init=Normal(0.02))
        self.fc3 = nn.Dense(84, num_class, weight_init=Normal(0.02))
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()

    def construct(self, x):
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


def lenet():
    images, labels = draw(32, 1, 28, 28), np.arange(32, dtype=np.int32) % 10
    dataset = ds.NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False).batch(8)
    net = begun(LeNet5())
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = ms.Model(net, loss, nn.Momentum(net.trainable_params(), 0.01, 0.9), metrics={"accuracy": nn.Accuracy()})
    model.train(2, dataset, dataset_sink_mode=False)
    return {"weights": net.fc3.weight.asnumpy(), "accuracy": model.eval(dataset, dataset_sink_mode=False)["accuracy"]}


# --- A block of ResNet, in graph mode ----------------------------------------------------------------------------------------


class ResidualBlock(nn.Cell):
    def __init__(self, in_channel, out_channel, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channel, out_channel, 3, stride, "same")
        self.norm = nn.BatchNorm2d(out_channel)
        self.conv2 = nn.Conv2d(out_channel, out_channel, 3)
        self.relu = nn.ReLU()
        self.down_sample = nn.SequentialCell(
            nn.Conv2d(in_channel, out_channel, 1, stride), nn.BatchNorm2d(out_channel)
        )

    def construct(self, x):
        identity = self.down_sample(x)
        out = self.relu(self.norm(self.conv1(x)))
        out = self.norm(self.conv2(out))
        out += identity
        return self.relu(out)


def resnet():
    net = begun(ResidualBlock(3, 8, 2)).set_train()
    optimizer = nn.Adam(net.trainable_params(), 1e-3)

    def forward(x):
        return (net(x) ** 2).mean()

    grad_fn = ms.value_and_grad(forward, None, optimizer.parameters)

    @ms.jit
    def step(x):
        loss, grads = grad_fn(x)
        optimizer(grads)
        return loss

    losses = [float(step(Tensor(draw(2, 3, 12, 12, seed=i))).asnumpy()) for i in range(3)]
    ms.set_context(mode=ms.GRAPH_MODE)
    out = net.set_train(False)(Tensor(draw(2, 3, 12, 12)))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    return {"losses": losses, "out": out.asnumpy(), "mean": net.norm.moving_mean.asnumpy()}


# --- A block of a transformer --------------------------------------------------------------------------------------------------


class Block(nn.Cell):
    def __init__(self, size=16, heads=4):
        super().__init__()
        self.heads, self.scale = heads, (size // heads) ** -0.5
        self.qkv = nn.Dense(size, 3 * size, has_bias=False)
        self.proj = nn.Dense(size, size)
        self.norm1, self.norm2 = nn.LayerNorm((size,), epsilon=1e-5), nn.LayerNorm((size,), epsilon=1e-5)
        self.mlp = nn.SequentialCell(nn.Dense(size, 4 * size), nn.GELU(), nn.Dense(4 * size, size))

    def construct(self, x, mask=None):
        b, s, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, s, 3, self.heads, c // self.heads).transpose(2, 0, 3, 1, 4)
        scores = ops.matmul(q, k.swapaxes(-1, -2)) * self.scale
        if mask is not None:
            scores = scores.masked_fill(mask, -1e4)
        scores = ops.softmax(scores, axis=-1)
        x = x + self.proj(ops.matmul(scores, v).swapaxes(1, 2).reshape(b, s, c))
        return x + self.mlp(self.norm2(x))


def transformer():
    net, x = begun(Block()), Tensor(draw(2, 6, 16))
    mask = Tensor(np.triu(np.ones((6, 6)), 1).astype(np.bool_))
    jitted = ms.jit(net.construct)
    grads = ms.grad(lambda x: net(x, mask).sum(), 0, net.trainable_params())(x)
    return {"out": jitted(x, mask).asnumpy(), "free": net(x).asnumpy(), "of x": grads[0].asnumpy(), "of qkv": grads[1][0].asnumpy()}


# --- Gradients of one's own -------------------------------------------------------------------------------------------------------


class Clipped(nn.Cell):
    def construct(self, x, y):
        return x * y

    def bprop(self, x, y, out, dout):
        return ops.clip_by_value(dout * y, -1.0, 1.0), dout * x


def custom_gradients():
    x, y = Tensor(draw(4)), Tensor(draw(4, seed=1) * 5)
    net = Clipped()
    first = ms.grad(net, (0, 1))(x, y)
    stopped = ms.grad(lambda x: (x * ops.stop_gradient(x)).sum())(x)
    seen = []
    hooked = nn.ReLU()
    hooked.register_backward_hook(lambda cell, of_input, of_output: seen.append(of_output[0].asnumpy()))
    ms.grad(lambda x: (hooked(x) * 3).sum())(x)

    def cube(x):
        return x**3

    out, jvp = ms.jvp(cube, x, y)
    second = ms.grad(ms.grad(cube))(x)
    return {
        "clipped": first[0].asnumpy(), "other": first[1].asnumpy(), "stopped": stopped.asnumpy(), "seen": seen[0],
        "out": out.asnumpy(), "jvp": jvp.asnumpy(), "second": second.asnumpy(),
    }  # fmt: skip


# --- Shapes and lengths that vary ----------------------------------------------------------------------------------------------


def dynamic_shapes():
    net = nn.SequentialCell(nn.Dense(4, 3), nn.Tanh())
    begun(net).set_inputs(Tensor(shape=[None, 4], dtype=ms.float32))
    ms.set_context(mode=ms.GRAPH_MODE)
    outs = {f"out{n}": net(Tensor(draw(n, 4))).asnumpy() for n in (2, 3, 5)}
    ms.set_context(mode=ms.PYNATIVE_MODE)

    @ms.jit
    def total(items):
        out = items[0] * 0
        for item in items:
            out = out + item
        return out

    for n in (1, 2, 3):
        outs[f"total{n}"] = total(mutable([Tensor(draw(3, seed=i)) for i in range(n)])).asnumpy()
    return outs


# --- Half precision, and what was saved ------------------------------------------------------------------------------------------


def mixed_precision():
    net = ms.amp.auto_mixed_precision(begun(Perceptron()), "O2")
    loss_fn, optimizer = nn.CrossEntropyLoss(), nn.SGD(net.trainable_params(), 0.1)
    scaler = ms.amp.StaticLossScaler(256.0)

    def forward(x, label):
        return scaler.scale(loss_fn(net(x).astype(ms.float32), label))

    grad_fn = ms.value_and_grad(forward, None, optimizer.parameters)
    losses = []
    for _ in range(3):
        loss, grads = grad_fn(Tensor(draw(8, 1, 8, 8)), Tensor(np.arange(8, dtype=np.int32)))
        if ms.amp.all_finite(grads):
            optimizer(scaler.unscale(grads))
        losses.append(float(scaler.unscale(loss).asnumpy()))
    return {"half losses": losses}


def checkpoints():
    first, second = begun(Perceptron()), Perceptron()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model.ckpt")
        ms.save_checkpoint(first, file)
        missing, unused = ms.load_param_into_net(second, ms.load_checkpoint(file))
    x = Tensor(draw(2, 1, 8, 8))
    return {"missing": len(missing), "unused": len(unused), "out": second(x).asnumpy(), "first": first(x).asnumpy()}


def pictures():
    image = np.random.RandomState(0).randint(0, 256, (7, 9, 3)).astype(np.uint8)
    found = {}
    for kind, x in (("colours", image), ("gray", image[..., :1].copy()), ("flat", image[..., 0].copy()), ("floats", draw(7, 9, 3))):
        steps = {
            "rescale": vision.Rescale(1.0 / 255.0, -0.5),
            "normalize": vision.Normalize((0.1307,), (0.3081,)),
            "hwc2chw": vision.HWC2CHW(),
            "to_tensor": vision.ToTensor(),
            "center": vision.CenterCrop((4, 6)),
            "larger": vision.CenterCrop((12, 12)),
            "flip": vision.HorizontalFlip(),
            **{f"pad {border}": vision.Pad((1, 2, 3, 4), 7, vision.Border[border]) for border in ("CONSTANT", "EDGE", "REFLECT", "SYMMETRIC")},
            **{f"resize {size}": vision.Resize(size) for size in ((4, 5), (20, 15), (3, 20), 5)},
            "nearest": vision.Resize((4, 13), vision.Inter.NEAREST),
        }
        found.update({f"{kind} {name}": step(x) for name, step in steps.items()})
    dataset = ds.NumpySlicesDataset({"image": image[None].repeat(5, 0), "label": np.arange(5)}, shuffle=False)
    dataset = dataset.map([vision.Resize((4, 4)), vision.Rescale(1 / 255.0, 0), vision.HWC2CHW()], "image")
    dataset = dataset.map([transforms.TypeCast(ms.int32), transforms.OneHot(5)], "label").batch(2)
    for number, row in enumerate(dataset.create_dict_iterator(output_numpy=True)):
        found.update({f"batch {number} {name}": value for name, value in row.items()})
    return found


PROGRAMS = (quick_start, lenet, resnet, transformer, custom_gradients, dynamic_shapes, mixed_precision, checkpoints, pictures)

if __name__ == "__main__":
    found = {f"{program.__name__} {name}": np.asarray(value) for program in PROGRAMS for name, value in program().items()}
    np.savez(sys.argv[1], **found)
