"""A small residual network on handwritten digits.

    python examples/resnet.py [--epochs N]

As in ResNet, the input of a block is added to the result of its two convolutions. A step of training is one marked function. The digits are
scikit-learn's, 1797 images of 8 by 8. Only the imports differ from a script for MindSpore.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import framejit as ms
from framejit import Tensor, nn
from framejit.dataset import NumpySlicesDataset


class BasicBlock(nn.Cell):
    """Two convolutions of 3 by 3, whose result is added to the input."""

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, pad_mode="pad", padding=1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, pad_mode="pad", padding=1)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.down_sample = None
        if stride != 1 or in_channels != channels:
            self.down_sample = nn.SequentialCell(nn.Conv2d(in_channels, channels, 1, stride), nn.BatchNorm2d(channels))

    def construct(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        identity = x if self.down_sample is None else self.down_sample(x)
        return self.relu(out + identity)


class ResNet(nn.Cell):
    """Three blocks, the mean of each channel, a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.SequentialCell(BasicBlock(1, 16), BasicBlock(16, 32, 2), BasicBlock(32, 64, 2))
        self.head = nn.Dense(64, 10)

    def construct(self, x: Tensor) -> Tensor:
        """Logits of the ten digits."""
        return self.head(self.blocks(x).mean((2, 3)))


def digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Images and labels for training and for the test, a fifth of them by chance."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images, labels = (images.reshape(-1, 1, 8, 8) / 16).astype(np.float32), labels.astype(np.int32)
    test = np.random.default_rng(0).permutation(len(labels)) % 5 == 0
    return (images[~test], labels[~test]), (images[test], labels[test])


def train(epochs: int, level: str = "O1") -> tuple[float, list[float], float]:
    """(accuracy on the test images, the losses of the steps, seconds)."""
    ms.set_seed(2)
    training, test = digits()
    net = ResNet()
    rows = NumpySlicesDataset(training).batch(64, drop_remainder=True)
    optimizer = nn.Momentum(
        net.trainable_params(), nn.CosineDecayLR(0.0, 0.1, epochs * len(rows)), 0.9, weight_decay=1e-4
    )
    loss_fn = nn.CrossEntropyLoss()
    gradients = ms.value_and_grad(lambda x, labels: loss_fn(net(x), labels), None, optimizer.parameters)

    @ms.jit(jit_level=level)
    def step(x: Tensor, labels: Tensor) -> Tensor:
        loss, grads = gradients(x, labels)
        optimizer(grads)
        return loss

    losses, began = [], time.perf_counter()
    net.set_train()
    for _ in range(epochs):
        for x, labels in rows:
            losses.append(float(step(Tensor(x), Tensor(labels)).asnumpy()))
    seconds = time.perf_counter() - began
    net.set_train(False)
    right = ms.jit(net.construct, jit_level=level)(Tensor(test[0])).asnumpy().argmax(1) == test[1]
    return float(right.mean()), losses, seconds


def main() -> None:
    """Train, and say how good it is."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--epochs", type=int, default=8)
    options = arguments.parse_args()
    accuracy, losses, seconds = train(options.epochs)
    print(f"steps     {len(losses)} in {seconds:.1f} s")
    print(f"loss      {losses[0]:.3f} -> {np.mean(losses[-20:]):.3f}")
    print(f"accuracy  {100 * accuracy:.2f} %")


if __name__ == "__main__":
    main()
