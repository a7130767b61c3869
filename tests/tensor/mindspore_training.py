"""Trains LeNet-5 under one of the two packages, from the same weights on the same batches: python mindspore_training.py PACKAGE DATA OUTPUT.

DATA holds `images` and `labels`. OUTPUT gets the losses of the steps by optimizer, and under framejit by level as well. Needs nothing of
framejit, so that it runs where MindSpore is installed.
"""

from __future__ import annotations

import importlib
import sys

import numpy as np

BATCH, STEPS = 32, 120


def lenet(nn):
    class LeNet5(nn.Cell):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 6, 5, pad_mode="valid")
            self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
            self.relu = nn.ReLU()
            self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
            self.flatten = nn.Flatten()
            self.fc1 = nn.Dense(16 * 5 * 5, 120)
            self.fc2 = nn.Dense(120, 84)
            self.fc3 = nn.Dense(84, 10)

        def construct(self, x):
            x = self.max_pool2d(self.relu(self.conv1(x)))
            x = self.max_pool2d(self.relu(self.conv2(x)))
            x = self.relu(self.fc1(self.flatten(x)))
            return self.fc3(self.relu(self.fc2(x)))

    return LeNet5()


def losses(base, nn, make_optimizer, images, labels, level=None, noise=0.0, seed=0):
    """Of the steps; `noise`: by how much each gradient is off by chance, in units of the largest of its tensor."""
    net = lenet(nn)
    for number, parameter in enumerate(net.get_parameters()):
        rng = np.random.default_rng(number)
        weights = rng.uniform(-1, 1, parameter.shape) / np.sqrt(np.prod(parameter.shape[1:]) or 1)
        parameter.set_data(base.Tensor(weights.astype(np.float32)))
    if level:
        net.set_jit_config(base.JitConfig(jit_level=level))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = make_optimizer(net.trainable_params())
    step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer)
    step.set_train()
    if noise:
        gradient = base.value_and_grad(nn.WithLossCell(net, loss), None, net.trainable_params())
        chance = np.random.default_rng(seed)

        def off(g):
            g = g.asnumpy()
            return base.Tensor(g + (noise * np.abs(g).max() * chance.normal(size=g.shape)).astype(np.float32))

        def step(*batch):
            value, gradients = gradient(*batch)
            optimizer(tuple(map(off, gradients)))
            return value

    order = np.random.default_rng(0)
    batches = [order.choice(len(labels), BATCH, replace=False) for _ in range(STEPS)]
    return np.array([float(step(base.Tensor(images[b]), base.Tensor(labels[b])).asnumpy()) for b in batches])


def main(package, data, output):
    base, nn = importlib.import_module(package), importlib.import_module(f"{package}.nn")
    with np.load(data) as arrays:
        given = arrays["images"], arrays["labels"]
    optimizers = {
        "Momentum": lambda weights: nn.Momentum(weights, 0.01, 0.9),
        "Adam": lambda weights: nn.Adam(weights, learning_rate=0.001),
    }
    curves = {}
    for name, optimizer in optimizers.items():
        if package == "mindspore":
            curves[name] = losses(base, nn, optimizer, *given)
            continue
        for seed in range(3):
            curves[f"{name} noise {seed}"] = losses(base, nn, optimizer, *given, noise=2.0**-24, seed=seed)
        for level in ("O0", "O1"):
            curves[f"{name} {level}"] = losses(base, nn, optimizer, *given, level)
    np.savez(output, **curves)


if __name__ == "__main__":
    main(*sys.argv[1:])
