"""Training that is interrupted anywhere, and files of Parameters that are cut, altered or of another network."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path

import framejit as fj
import numpy as np
import pytest
from framejit import Parameter, Tensor, nn, ops
from framejit.dataset import GeneratorDataset, NumpySlicesDataset
from framejit.train import BackupAndRestore, Callback, CheckpointConfig, LossMonitor, Model, ModelCheckpoint

pytestmark = pytest.mark.capture


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fj.set_seed(11)
    handler = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is handler


def rows(count=32):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(count, 3)).astype(np.float32)
    return x, (x @ np.array([[1.0], [-2.0], [0.5]])).astype(np.float32)


class Trigger:
    """Raises or sends at the so manieth time that a phase is reached."""

    def __init__(self, phase, at, how):
        self.phase, self.at, self.how, self.seen = phase, at, how, 0

    def __call__(self, phase):
        if phase != self.phase:
            return
        self.seen += 1
        if self.seen == self.at:
            if self.how == "raised":
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGINT)


class Net(nn.Cell):
    def __init__(self, trigger):
        super().__init__()
        self.first, self.second, self.trigger = nn.Dense(3, 4), nn.Dense(4, 1), trigger

    def construct(self, x):
        out = ops.tanh(self.first(x))
        self.trigger("forward")
        return self.second(out)


class Watched(nn.Momentum):
    """Reaches a phase between the updates of two Parameters."""

    def __init__(self, parameters, trigger):
        super().__init__(parameters, 0.05, 0.9)
        self.trigger = trigger

    def _update(self, at, parameter, gradient, rate, decay):
        super()._update(at, parameter, gradient, rate, decay)
        self.trigger("update")


class Told(Callback):
    def __init__(self, trigger):
        self.trigger, self.ends = trigger, 0

    def on_train_begin(self, run_context):
        self.trigger("train begin")

    def on_train_epoch_begin(self, run_context):
        self.trigger("epoch begin")

    def on_train_step_begin(self, run_context):
        self.trigger("step begin")

    def on_train_step_end(self, run_context):
        self.trigger("step end")

    def on_train_epoch_end(self, run_context):
        self.trigger("epoch end")

    def on_train_end(self, run_context):
        self.ends += 1


def trained(trigger, epochs, *callbacks):
    """The network and its optimizer after a training, until that is interrupted."""
    fj.set_seed(4)
    net = Net(trigger)
    optimizer = Watched(net.trainable_params(), trigger)

    def loss(out, label):
        trigger("loss")
        return ops.mean(ops.square(out - label))

    x, y = rows()

    def data():
        for row in zip(x, y):
            trigger("data")
            yield row

    dataset = GeneratorDataset(lambda: data(), ["x", "y"], shuffle=False).batch(8)
    model = Model(net, loss, optimizer)
    with contextlib.suppress(KeyboardInterrupt):
        model.train(epochs, dataset, callbacks=list(callbacks))
    return net, optimizer


def state(*cells):
    return [p.asnumpy().copy() for cell in cells for p in cell.get_parameters()]


def after_each_step():
    """What the Parameters are after each number of whole steps."""
    found = []

    class Keep(Callback):
        def on_train_begin(self, run_context):
            found.append(state(run_context.original_args().network, run_context.original_args().optimizer))

        on_train_step_end = on_train_begin

    trained(Trigger("", 0, ""), 2, Keep())
    return found


# Rows: 32 are counted before.
PHASES = [
    *[(phase, at, how) for how in ("raised", "sent") for phase, at in (
        ("train begin", 1), ("epoch begin", 2), ("step begin", 3), ("step end", 3), ("epoch end", 1), ("data", 45), ("forward", 3), ("loss", 3))],
    *[("update", at, "sent") for at in (1, 2, 6, 8, 11)],
]  # fmt: skip


@pytest.mark.parametrize(("phase", "at", "how"), PHASES)
def test_wherever_training_is_interrupted(phase, at, how):
    """The network and its optimizer are those of a whole number of steps, and so is the last file, by its name."""
    possible = after_each_step()
    saves = ModelCheckpoint("net", config=CheckpointConfig(save_checkpoint_steps=3))
    trigger = Trigger(phase, at, how)
    told = Told(trigger)
    with fj.stance("force_eager"):
        net, optimizer = trained(trigger, 2, saves, told)
    assert trigger.seen >= at and told.ends == 1 and not net.training
    found = state(net, optimizer)
    (steps,) = [n for n, wanted in enumerate(possible) if all(np.array_equal(a, b) for a, b in zip(found, wanted))]
    assert optimizer.global_step.item() == steps < 8
    if steps:
        assert Path(saves.latest_ckpt_file_name).name == f"net-{(steps - 1) // 4 + 1}_{(steps - 1) % 4 + 1}.ckpt"
        other = Net(trigger)
        fj.load_checkpoint(saves.latest_ckpt_file_name, other)
        assert all(np.array_equal(a, b) for a, b in zip(state(other), state(net)))
    assert net(Tensor(rows()[0])).shape == (32, 1)
    Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(1, NumpySlicesDataset(rows()).batch(16))


class Later(Callback):
    """Sends after some time, at the latest when training ends."""

    def __init__(self, seconds):
        self.thread = threading.Thread(target=lambda: (time.sleep(seconds), os.kill(os.getpid(), signal.SIGINT)))

    def on_train_begin(self, run_context):
        self.thread.start()

    def on_train_end(self, run_context):
        self.thread.join()
        time.sleep(0.001)


def test_compiled_steps_are_interrupted_at_any_time():
    def train(*callbacks):
        fj.set_seed(4)
        net = nn.SequentialCell(nn.Dense(3, 64), nn.Tanh(), nn.Dense(64, 1))
        optimizer = nn.Momentum(net.trainable_params(), 0.05, 0.9)
        with contextlib.suppress(KeyboardInterrupt):
            Model(net, nn.MSELoss(), optimizer).train(3, NumpySlicesDataset(rows(), shuffle=False).batch(4), callbacks=list(callbacks))
        return net, optimizer

    possible = []

    class Keep(Callback):
        def on_train_begin(self, run_context):
            possible.append(state(run_context.original_args().network, run_context.original_args().optimizer))

        on_train_step_end = on_train_begin

    train(Keep())
    for seconds in np.linspace(0, 0.006, 40):
        net, optimizer = train(Later(seconds))
        wanted = possible[optimizer.global_step.item()]
        assert all(np.array_equal(a, b) for a, b in zip(state(net, optimizer), wanted))


def test_a_second_ctrl_c_does_not_wait():
    class Twice(Net):
        def construct(self, x):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            self.trigger("behind")
            return super().construct(x)

    trigger = Trigger("behind", 9, "raised")
    net = Twice(trigger)
    before = state(net)
    with fj.stance("force_eager"), pytest.raises(KeyboardInterrupt):
        Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(1, NumpySlicesDataset(rows()).batch(16))
    assert all(np.array_equal(a, b) for a, b in zip(state(net), before))


def test_callbacks_are_told_though_another_one_fails():
    class Fails(Callback):
        def on_train_end(self, run_context):
            raise RuntimeError("no")

    saves = ModelCheckpoint("net", config=CheckpointConfig(100))
    net = nn.Dense(3, 1)
    with pytest.raises(RuntimeError, match="no"):
        Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(1, NumpySlicesDataset(rows()).batch(16), callbacks=[Fails(), saves])
    assert saves.latest_ckpt_file_name == "net-1_2.ckpt"


def test_training_goes_on_from_a_backup():
    """A training that was interrupted and one that was not end with the same Parameters."""

    class Interrupt(Callback):
        def on_train_step_end(self, run_context):
            if run_context.original_args().cur_step_num == 6:
                raise KeyboardInterrupt

    class NoBackup(Callback):
        pass

    def train(epochs, start, *callbacks):
        fj.set_seed(4)
        net = nn.Dense(3, 1)
        model = Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.05, 0.9))
        with contextlib.suppress(KeyboardInterrupt):
            model.train(epochs, NumpySlicesDataset(rows(), shuffle=False).batch(8), callbacks=list(callbacks), initial_epoch=start)
        return state(net)

    whole = train(3, 0, NoBackup())
    train(3, 0, BackupAndRestore("kept"), Interrupt())
    assert Path("kept/backup.ckpt").exists()
    again = train(3, 1, BackupAndRestore("kept"))
    assert all(np.array_equal(a, b) for a, b in zip(whole, again)) and not Path("kept/backup.ckpt").exists()


def test_what_a_dataset_must_be():
    net = nn.Dense(3, 1)
    model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
    with pytest.raises(TypeError, match="must have a length"):
        model.train(1, iter([]))
    with pytest.raises(ValueError, match="has no batch"):
        model.train(1, [])
    with pytest.raises(ValueError, match="data and labels .* got 3 columns"):
        model.train(1, [[Tensor([[1.0]])] * 3])
    with pytest.raises(TypeError, match="must be a Callback, but got int"):
        model.train(1, [[1, 2]], callbacks=[3])
    with pytest.raises(ValueError, match="greater than 'initial_epoch'"):
        model.train(1, [[1, 2]], initial_epoch=1)


# --- Files -------------------------------------------------------------------------------------------------------------------


def small():
    return nn.SequentialCell(nn.Dense(2, 3), nn.BatchNorm1d(3))


def refused(content, name, net):
    """Whether the file is refused, and the network is as it was."""
    before = state(net)
    Path(name).write_bytes(content)
    try:
        fj.load_checkpoint(name, net)
    except ValueError as error:
        assert name in str(error)
        return all(np.array_equal(a, b) for a, b in zip(state(net), before))
    return False


@pytest.mark.parametrize("name", ["net.ckpt", "net.safetensors"])
def test_no_cut_and_no_flipped_bit_is_taken(name):
    """Wherever the file is cut, and whichever byte has another bit."""
    fj.save_checkpoint(small(), name)
    content, net = Path(name).read_bytes(), small()
    for length in range(len(content)):
        assert refused(content[:length], name, net), length
    for at in range(len(content)):
        changed = content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :]
        # Where the sum of a safetensors file is no longer to be found, and nothing else is changed, the file is that of another program.
        metadata = name.endswith("safetensors") and b"__metadata__" in changed and b'{"framejit": "' not in changed
        assert refused(changed, name, net) or metadata, at
    assert refused(content + b"\0", name, net) and refused(content + content, name, net)


def safetensors(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


WRONG = {
    "overlap": ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, 4),
    "hole": ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, 8),
    "rest": ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, 8),
    "negative": ({"a": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}, 4),
    "huge": ({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 0]}}, 0),
    "more than huge": ({"a": {"dtype": "F32", "shape": [10**30], "data_offsets": [0, 4]}}, 4),
    "a fraction": ({"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}, 4),
    "no dtype": ({"a": {"dtype": "X7", "shape": [1], "data_offsets": [0, 4]}}, 4),
    "no entry": ({"a": 3}, 4),
    "a list": ([1, 2], 4),
    "no bools": ({"a": {"dtype": "BOOL", "shape": [4], "data_offsets": [0, 4]}}, 4),
    "deep": (b"[" * 100000, 0),
    "no text": (b"\xff\xfe", 0),
    "metadata": ({"__metadata__": [1]}, 0),
}  # fmt: skip


@pytest.mark.parametrize("how", WRONG)
def test_headers_that_lie(how):
    header, size = WRONG[how]
    assert refused(safetensors(header, b"\7" * size), "x.safetensors", small())


def test_files_of_another_program_are_read():
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    header = {"__metadata__": {"format": "pt"}, "0.weight": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}}
    Path("x.safetensors").write_bytes(safetensors(header, values.tobytes()))
    net = small()
    with pytest.warns(UserWarning, match=r"has no '0.bias', '1.moving_mean', .*stay as they are"):
        fj.load_checkpoint("x.safetensors", net)
    np.testing.assert_array_equal(net[0].weight.asnumpy(), values)


def test_what_differs_is_said():
    fj.save_checkpoint({"weight": Tensor(np.zeros((2, 3))), "bias": Tensor(np.zeros(3), fj.complex64)}, "net.ckpt")
    net = nn.Dense(3, 3)
    before = state(net)
    with pytest.raises(ValueError) as error:
        fj.load_checkpoint("net.ckpt", net)
    text = str(error.value)
    assert "weight: the network has the shape (3, 3), the file (2, 3)" in text and "bias: the network has Float32, the file Complex64" in text
    assert all(np.array_equal(a, b) for a, b in zip(state(net), before))
    other = nn.Dense(3, 3, dtype=fj.float64)
    fj.save_checkpoint(other, "double.ckpt")
    fj.load_checkpoint("double.ckpt", net)
    np.testing.assert_array_equal(net.weight.asnumpy(), other.weight.asnumpy().astype(np.float32))
    with pytest.raises(ValueError, match="weight: the network has Float32, the file Float64"):
        fj.load_checkpoint("double.ckpt", net, strict_load=True)
    for given, wrong in ((3, {}), (net, [1]), (net, {"weight": 3})):
        with pytest.raises(TypeError, match="load_param_into_net"):
            fj.load_param_into_net(given, wrong)


def test_two_parameters_of_one_name_are_not_saved():
    class Two(nn.Cell):
        def __init__(self):
            super().__init__(auto_prefix=False)
            self.a, self.b = Parameter(Tensor([1.0]), name="w"), Parameter(Tensor([2.0]), name="w")

    with pytest.raises(ValueError, match="two Parameters of the network have the name 'w', one of them at 'b'"):
        fj.save_checkpoint(Two(), "two.ckpt")
    assert not list(Path().iterdir())


def test_a_loss_monitor_reads_the_loss_of_any_step(capsys):
    net = nn.Dense(3, 1)
    step = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1), Tensor(8.0))
    Model(step).train(1, NumpySlicesDataset(rows()).batch(16), callbacks=LossMonitor(2))
    assert capsys.readouterr().out.startswith("epoch: 1 step: 2, loss is ")
