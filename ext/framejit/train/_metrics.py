"""What Model.eval measures."""

from __future__ import annotations

from typing import Any

import numpy as np


class Metric:
    """The base class: `clear`, `update` with what the evaluation gives, `eval`."""

    def clear(self) -> None:
        """Forget all."""
        raise NotImplementedError

    def update(self, *inputs: Any) -> None:
        """Take a batch in."""
        raise NotImplementedError

    def eval(self) -> float:
        """The measure of all batches."""
        raise NotImplementedError


class Accuracy(Metric):
    """How many predictions are right: ``update(predictions, labels)``."""

    def __init__(self, eval_type: str = "classification") -> None:
        if eval_type not in ("classification", "multilabel"):
            raise ValueError(f"'eval_type' must be 'classification' or 'multilabel', but got {eval_type!r}.")
        self.eval_type = eval_type
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._right = self._total = 0

    def update(self, *inputs: Any) -> None:
        """Take a batch in."""
        predicted, label = (np.asarray(x.asnumpy() if hasattr(x, "asnumpy") else x) for x in inputs[-2:])
        if self.eval_type == "multilabel":
            right = (predicted == label).all(axis=tuple(range(1, label.ndim)))
        else:
            right = predicted.argmax(1) == (label.argmax(1) if label.ndim == predicted.ndim else label)
        self._right += int(right.sum())
        self._total += right.size

    def eval(self) -> float:
        """The share of right ones."""
        if not self._total:
            raise RuntimeError("'Accuracy' has seen no sample.")
        return self._right / self._total


class Loss(Metric):
    """The mean of the losses: ``update(loss)``."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._sum, self._count = 0.0, 0

    def update(self, *inputs: Any) -> None:
        """Take a batch in."""
        self._sum += float(np.mean(inputs[0].asnumpy()))
        self._count += 1

    def eval(self) -> float:
        """The mean."""
        if not self._count:
            raise RuntimeError("'Loss' has seen no batch.")
        return self._sum / self._count


NAMES = {"accuracy": Accuracy, "acc": Accuracy, "loss": Loss}
