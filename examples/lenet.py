"""LeNet-5 on handwritten digits: trained with Model, evaluated, saved and loaded.

    python examples/lenet.py [--epochs N] [--curve FILE.png]

The digits are scikit-learn's: 1797 images of 8 by 8, enlarged to 32 by 32. Only the imports differ from a script for MindSpore.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import framejit as ms
from framejit import JitConfig, Model, nn
from framejit.common.initializer import Normal
from framejit.dataset import NumpySlicesDataset
from framejit.train import Accuracy, Callback, Loss


class LeNet5(nn.Cell):
    """Two convolutions and three dense layers."""

    def __init__(self, num_class: int = 10, num_channel: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(num_channel, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(16 * 5 * 5, 120, weight_init=Normal(0.02))
        self.fc2 = nn.Dense(120, 84, weight_init=Normal(0.02))
        self.fc3 = nn.Dense(84, num_class, weight_init=Normal(0.02))

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        """Logits of the ten digits."""
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


class Losses(Callback):
    """Keeps the loss of each step."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def on_train_step_end(self, run_context: object) -> None:
        """Keep it."""
        self.values.append(float(run_context.original_args().net_outputs.asnumpy()))


def digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Images and labels for training and for the test, a fifth of them by chance."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 1, 8, 8) / 16).astype(np.float32).repeat(4, 2).repeat(4, 3)
    labels = labels.astype(np.int32)
    test = np.random.default_rng(0).permutation(len(labels)) % 5 == 0
    return (images[~test], labels[~test]), (images[test], labels[test])


def train(epochs: int = 15, data: object = None) -> tuple[Model, float, list[float]]:
    """(the model, its accuracy on the test images, the losses of the steps)."""
    ms.set_seed(1)
    training, test = data or digits()
    net = LeNet5()
    net.set_jit_config(JitConfig(jit_level="O1"))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    rows = NumpySlicesDataset(training).batch(32, drop_remainder=True)
    rate = nn.CosineDecayLR(1e-5, 0.002, epochs * len(rows))
    optimizer = nn.Adam(net.trainable_params(), learning_rate=rate)
    model = Model(net, loss, optimizer, metrics={"Accuracy": Accuracy(), "Loss": Loss()})
    losses = Losses()
    model.train(epochs, rows, callbacks=losses)
    found = model.eval(NumpySlicesDataset(test, shuffle=False).batch(60))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lenet.ckpt"
        ms.save_checkpoint(net, file)
        other = LeNet5()
        ms.load_checkpoint(file, other)
    images = ms.Tensor(test[0])
    same = np.allclose(Model(other).predict(images).asnumpy(), model.predict(images).asnumpy(), atol=1e-4)
    assert same, "the network that was loaded is the one that was saved"
    return model, found["Accuracy"], losses.values


def main() -> None:
    """Train, and say how good it is."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--epochs", type=int, default=15)
    arguments.add_argument("--curve", help="a picture of the losses (needs matplotlib)")
    options = arguments.parse_args()
    _, accuracy, losses = train(options.epochs)
    print(f"steps     {len(losses)}")
    print(f"loss      {losses[0]:.3f} -> {np.mean(losses[-20:]):.3f}")
    print(f"accuracy  {100 * accuracy:.2f} %")
    if options.curve:
        import matplotlib.pyplot as plt

        plt.plot(losses)
        plt.xlabel("step")
        plt.ylabel("loss")
        plt.yscale("log")
        plt.savefig(options.curve)


if __name__ == "__main__":
    main()
