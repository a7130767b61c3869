"""Model, datasets, checkpoints, and the example of LeNet-5."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, nn
from framejit.dataset import GeneratorDataset, NumpySlicesDataset
from framejit.train import Accuracy, Callback, CheckpointConfig, Loss, LossMonitor, Model, ModelCheckpoint, get_metric_fn, names

pytestmark = pytest.mark.capture


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fj.set_seed(11)


def points(rows=64):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(rows, 2)).astype(np.float32)
    return x, (x[:, 0] * x[:, 1] > 0).astype(np.int32)


def network():
    return nn.SequentialCell(nn.Dense(2, 16), nn.Tanh(), nn.Dense(16, 2))


def model_of(net, rate=0.05):
    return Model(net, nn.CrossEntropyLoss(), nn.Adam(net.trainable_params(), rate), metrics={"accuracy", "loss"})


# --- Model -----------------------------------------------------------------------------------------------------------------


def test_a_model_learns(capsys):
    net = network()
    model = model_of(net)
    data = NumpySlicesDataset(points(), ["x", "label"]).batch(16)
    model.train(40, data, callbacks=LossMonitor(100))
    assert capsys.readouterr().out.startswith("epoch: 25 step: 4, loss is ")
    found = model.eval(data)
    assert found["accuracy"] > 0.95 and found["loss"] < 0.3
    assert not net.training
    x, label = points()
    assert (model.predict(Tensor(x)).asnumpy().argmax(1) == label).mean() > 0.95
    assert model.train_network.step.graphs().count("graph @") == 1


def test_what_a_model_needs():
    net = network()
    data = NumpySlicesDataset(points()).batch(16)
    with pytest.raises(ValueError, match="optimizer"):
        Model(net).train(1, data)
    with pytest.raises(ValueError, match="metrics"):
        Model(net).eval(data)
    with pytest.raises(KeyError, match="nothing"):
        Model(net, metrics={"nothing"})
    with pytest.raises(TypeError, match="Cell"):
        Model(3)
    for epoch, error in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="epoch"):
            model_of(net).train(epoch, data)


def test_the_end_is_asked_for():
    class Stop(Callback):
        steps = 0

        def on_train_step_end(self, run_context):
            self.steps += 1
            if self.steps == 3:
                run_context.request_stop()

    stop = Stop()
    model_of(network()).train(5, NumpySlicesDataset(points()).batch(16), callbacks=[stop])
    assert stop.steps == 3


def test_an_interrupted_training_leaves_a_usable_network():
    class Interrupt(Callback):
        def on_train_step_end(self, run_context):
            if run_context.original_args().cur_step_num == 6:
                raise KeyboardInterrupt

    net = network()
    saves = ModelCheckpoint("net", config=CheckpointConfig(save_checkpoint_steps=4))
    with pytest.raises(KeyboardInterrupt):
        model_of(net).train(3, NumpySlicesDataset(points()).batch(16), callbacks=[saves, Interrupt()])
    assert [file.name for file in saves.files] == ["net-1_4.ckpt", "net-2_2.ckpt"]
    other = network()
    fj.load_checkpoint(saves.latest_ckpt_file_name, other)
    x = Tensor(points()[0])
    np.testing.assert_array_equal(other(x).asnumpy(), net(x).asnumpy())
    assert not net.training


def test_few_checkpoints_are_kept():
    saves = ModelCheckpoint("net", "saved", CheckpointConfig(keep_checkpoint_max=2))
    model_of(network()).train(1, NumpySlicesDataset(points()).batch(16), callbacks=saves)
    assert sorted(file.name for file in Path("saved").iterdir()) == ["net-1_3.ckpt", "net-1_4.ckpt"]


def test_a_loss_that_is_no_number_ends_training():
    net = network()
    model = Model(net, lambda out, label: (out * np.inf).sum(), nn.SGD(net.trainable_params(), 0.1))
    with pytest.raises(ValueError, match="loss is nan"):
        model.train(1, NumpySlicesDataset(points()).batch(16), callbacks=LossMonitor(0))


def test_progress(capsys):
    model_of(network()).train(1, NumpySlicesDataset(points()).batch(16), progress=True)
    lines = capsys.readouterr().err.split("\r")
    assert len(lines) == 5 and "epoch 1/1 [====================] 4/4 loss" in lines[-1]


def test_metrics():
    right = Accuracy()
    right.update(Tensor([[0.1, 0.9], [0.8, 0.2]]), Tensor([1, 1]))
    right.update(Tensor([[0.1, 0.9]]), Tensor([[0.0, 1.0]]))
    assert right.eval() == 2 / 3
    right.clear()
    with pytest.raises(RuntimeError):
        right.eval()
    loss = Loss()
    loss.update(Tensor(2.0))
    loss.update(Tensor([3.0, 5.0]))
    assert loss.eval() == 3.0


def test_metrics_by_name():
    """Those of classes, of errors, of the largest predictions: what MindSpore gives is compared in tests/tensor/test_against_mindspore.py."""
    predictions, labels = Tensor([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8], [0.3, 0.4, 0.3]]), Tensor([1, 0, 2, 0])
    expected = {"precision": [1.0, 0.5, 1.0], "recall": [0.5, 1.0, 1.0], "F1": [2 / 3, 2 / 3, 1.0], "top_1_accuracy": 0.75, "top_5_accuracy": 1.0, "mse": None, "mae": None}
    for name, value in expected.items():
        metric = get_metric_fn(name)
        metric.clear()
        with pytest.raises(RuntimeError, match="has seen no sample"):
            metric.eval()
        if value is None:
            metric.update(Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([[1.0, 0.0], [6.0, 4.0]]))
            assert metric.eval() == {"mse": 6.5, "mae": 2.5}[name]
            continue
        for _ in range(2):
            metric.update(predictions, labels)
        np.testing.assert_allclose(metric.eval(), value, rtol=1e-15)
    matrix = get_metric_fn("confusion_matrix", 3)
    matrix.update(predictions, labels)
    assert matrix.eval().tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    perplexity = get_metric_fn("perplexity")
    perplexity.update(Tensor([[0.5, 0.5], [0.25, 0.75]]), Tensor([0, 0]))
    assert perplexity.eval() == pytest.approx(8**0.5)
    assert set(names()) >= set(expected) | {"accuracy", "loss", "topk"}
    with pytest.raises(ValueError, match=r"needs labels from 0 to 2, but got 0 to 3"):
        get_metric_fn("recall").update(predictions, Tensor([1, 0, 3, 0]))
    with pytest.raises(ValueError, match=r"\(4, 3\) and \(3,\)"):
        get_metric_fn("recall").update(predictions, Tensor([1, 0, 2]))
    with pytest.raises(KeyError, match="'x' is not known"):
        get_metric_fn("x")


def test_model_measures_by_name():
    net = network()
    model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1), metrics={"mse", "mae", "loss"})
    x = points()[0]
    found = model.eval(NumpySlicesDataset((x, np.ones((len(x), 2), np.float32)), shuffle=False).batch(16))
    found["mse"] /= 2  # of each sample, not of each element
    assert set(found) == {"mse", "mae", "loss"} and found["mse"] == pytest.approx(found["loss"], rel=1e-5)


# --- Datasets ----------------------------------------------------------------------------------------------------------------


def test_datasets():
    data = NumpySlicesDataset({"x": np.arange(10), "y": np.arange(10) * 2}, shuffle=False)
    assert data.get_col_names() == ["x", "y"] and len(data) == 10
    assert len(data.batch(4)) == 3 and len(data.batch(4, drop_remainder=True)) == 2
    assert [x.tolist() for x, _ in data.batch(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [int(x.item()) for x, _ in data.map(lambda x: x + 1).take(3)] == [1, 2, 3]
    assert [int(y.item()) for _, y in data.map([lambda y: y + 1, lambda y: y * 2], "y").take(2)] == [2, 6]
    assert len(list(data.repeat(3))) == len(data.repeat(3)) == 30
    shuffled = [int(x.item()) for x, _ in data.shuffle(4)]
    assert sorted(shuffled) == list(range(10)) and shuffled != list(range(10))
    row = next(data.create_dict_iterator(output_numpy=True))
    assert row["y"] == 0 and isinstance(row["x"], np.ndarray)
    fj.set_seed(5)
    first = [int(x.item()) for (x,) in NumpySlicesDataset(np.arange(9))]
    fj.set_seed(5)
    assert first == [int(x.item()) for (x,) in NumpySlicesDataset(np.arange(9))]

    def rows():
        for i in range(4):
            yield np.full(2, i), i

    made = GeneratorDataset(rows, ["a", "b"]).batch(2)
    assert len(made) == 2 and [b.tolist() for _, b in made] == [[0, 1], [2, 3]]
    assert sorted(int(x.item()) for (x,) in GeneratorDataset([3, 1, 2], "a")) == [1, 2, 3]
    for call in (
        lambda: data.batch(0),
        lambda: data.shuffle(1),
        lambda: data.repeat(0),
        lambda: data.map(len, "z"),
        lambda: NumpySlicesDataset((np.arange(3), np.arange(4))),
        lambda: NumpySlicesDataset(np.arange(3), ["a", "b"]),
    ):
        with pytest.raises(ValueError):
            call()


# --- Checkpoints ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["net.ckpt", "net.safetensors"])
def test_checkpoints(name):
    net, other = network(), network()
    fj.save_checkpoint(net, name)
    found = fj.load_checkpoint(name, other)
    assert list(found) == [p.name for p in net.get_parameters()]
    for a, b in zip(net.get_parameters(), other.get_parameters()):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    assert list(fj.load_checkpoint(name, filter_prefix="0.")) == ["2.weight", "2.bias"]


def test_every_dtype_and_shape():
    values = {"a": Tensor(3, fj.int8), "b": Tensor(np.zeros((0, 2))), "c": Tensor([True]), "d": Tensor([1.5], fj.float16), "e": Tensor([2], fj.uint64)}
    fj.save_checkpoint([{"name": name, "data": value} for name, value in values.items()], "all")
    found = fj.load_checkpoint("all")
    for name, value in values.items():
        assert found[name].dtype is value.dtype and found[name].shape == value.shape
        np.testing.assert_array_equal(found[name].asnumpy(), value.asnumpy())


def damaged(content, how):
    return {
        "cut": content[:-5],
        "altered": content[:-5] + bytes([content[-5] ^ 1]) + content[-4:],
        "altered header": content.replace(b"float32", b"float16", 1),
        "version": content.replace(b"checkpoint 1 ", b"checkpoint 9 ", 1),
        "other": b"something else",
        "empty": b"",
    }[how]


@pytest.mark.parametrize(
    ("how", "text"),
    [("cut", "cut"), ("altered", "altered"), ("altered header", "altered"), ("version", "version 9"), ("other", "no checkpoint"), ("empty", "no checkpoint")],
)
def test_damaged_files_are_refused(how, text):
    net, other = network(), network()
    fj.save_checkpoint(net, "net.ckpt")
    before = [p.asnumpy().copy() for p in other.get_parameters()]
    Path("bad.ckpt").write_bytes(damaged(Path("net.ckpt").read_bytes(), how))
    with pytest.raises(ValueError, match=text):
        fj.load_checkpoint("bad.ckpt", other)
    for p, was in zip(other.get_parameters(), before):
        np.testing.assert_array_equal(p.asnumpy(), was)


def test_damaged_safetensors_are_refused():
    fj.save_checkpoint(network(), "net.safetensors")
    content = Path("net.safetensors").read_bytes()
    for bad in (content[:-5], content[:20], b"", content.replace(b'"F32"', b'"F64"', 1), b"\xff" * 64):
        Path("bad.safetensors").write_bytes(bad)
        with pytest.raises(ValueError, match="does not fit|no parameters"):
            fj.load_checkpoint("bad.safetensors")


def test_another_model_is_refused():
    fj.save_checkpoint(network(), "net.ckpt")
    other = nn.SequentialCell(nn.Dense(2, 16), nn.Tanh(), nn.Dense(16, 3))
    before = [p.asnumpy().copy() for p in other.get_parameters()]
    with pytest.raises(ValueError) as error:
        fj.load_checkpoint("net.ckpt", other)
    assert "2.weight: the network has the shape (3, 16), the file (2, 16)" in str(error.value)
    assert "2.bias" in str(error.value)
    for p, was in zip(other.get_parameters(), before):
        np.testing.assert_array_equal(p.asnumpy(), was)
    with pytest.raises(ValueError, match="no name is in both"):
        fj.load_checkpoint("net.ckpt", nn.Conv2d(1, 2, 3))
    part = nn.SequentialCell(nn.Dense(2, 16))
    assert fj.load_param_into_net(part, fj.load_checkpoint("net.ckpt")) == ([], ["2.weight", "2.bias"])


def test_a_failed_save_leaves_the_old_file(monkeypatch):
    fj.save_checkpoint(network(), "net.ckpt")
    before = Path("net.ckpt").read_bytes()

    def full(*_):
        raise OSError("no space")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        fj.save_checkpoint(network(), "net.ckpt")
    assert Path("net.ckpt").read_bytes() == before
    assert [p.name for p in Path().iterdir()] == ["net.ckpt"]


# --- The example -----------------------------------------------------------------------------------------------------------------


def lenet():
    path = Path(__file__).parents[2] / "examples" / "lenet.py"
    spec = importlib.util.spec_from_file_location("lenet", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def noisy_digits(count):
    """Ten patterns with noise."""
    rng = np.random.default_rng(0)
    patterns = rng.uniform(0, 1, (10, 1, 8, 8))
    labels = rng.integers(0, 10, count).astype(np.int32)
    return (patterns[labels] + rng.normal(0, 0.1, (count, 1, 8, 8))).astype(np.float32).repeat(4, 2).repeat(4, 3), labels


def test_lenet_on_patterns():
    images, labels = noisy_digits(640)
    model, accuracy, losses = lenet().train(6, ((images[:512], labels[:512]), (images[512:], labels[512:])))
    assert accuracy > 0.97 and losses[-1] < 0.5 * losses[0]
    assert model.train_network.step.graphs().count("graph @") == 1


@pytest.mark.long
def test_lenet_on_digits():
    assert lenet().train()[1] > 0.97
