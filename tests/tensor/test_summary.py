"""SummaryRecord and the operators that keep values for it."""

from __future__ import annotations

import io
import os
import struct

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, nn, ops
from framejit.train import SummaryRecord
from framejit.train._events import MESSAGES, Event, Message, crc32c, record

pytestmark = pytest.mark.capture

# A file that MindSpore 2.10 wrote: its start, and the scalar 'loss', the int64 Tensor 'ints' and the histogram 'h' of [nan, inf, 1, 2.5, -inf].
MINDSPORE = bytes.fromhex(
    "1c00000000000000c8c1951d0941b8bffac5c2da411a114d696e6453706f72652e4576656e743a31a19763c48f000000000000006eebe2ec095e39bffac5c2da4110072a"
    "81010a0b0a046c6f73731d0000803e0a1c0a04696e747342140801080310051a0c0000803f00000040000040c00a540a01684a4f0a1409000000000000f03f1100000000"
    "0000e83f18010a1409000000000000fc3f11000000000000e83f180110011801200129000000000000044031000000000000f03f390000000000000c4040056f6a0593"
)


def records(data):
    """The data of each record, whose checksums are right."""
    found = []
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        found.append(data[12 : 12 + size])
        assert record(found[-1]) == data[: 16 + size]
        data = data[16 + size :]
    return found


def events(path):
    with open(path, "rb") as file:
        return [Event.FromString(data) for data in records(file.read())]


def values(event):
    return {value.tag: value for value in event.summary.value}


@pytest.fixture
def summary(tmp_path):
    with SummaryRecord(str(tmp_path)) as opened:
        yield opened


class Summaries(nn.Cell):
    def __init__(self):
        super().__init__()
        self.scalar, self.image = ops.ScalarSummary(), ops.ImageSummary()
        self.tensor, self.histogram = ops.TensorSummary(), ops.HistogramSummary()

    def construct(self, x):
        self.image("image", x)
        self.tensor("tensor", x * 2)
        self.histogram("histogram", x)
        loss = (x * x).sum()
        self.scalar("loss", loss)
        return loss


def test_checksum():
    assert crc32c(b"") == 0 and crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA and crc32c(bytes(range(32))) == 0x46DD794E  # RFC 3720


def test_a_file_of_mindspore_is_read_and_written_to_the_byte():
    start, event = map(Event.FromString, records(MINDSPORE))
    assert start.version == "MindSpore.Event:1" and event.step == 7
    found = values(event)
    assert found["loss"].scalar_value == 0.25 and found["loss"].HasField("scalar_value") and not found["loss"].HasField("image")
    assert found["ints"].tensor.dims == [1, 3] and found["ints"].tensor.float_data == [1, 2, -3]
    assert found["h"].histogram.nan_count == 1 and [bucket.count for bucket in found["h"].histogram.buckets] == [1, 1]
    assert b"".join(record(one.SerializeToString()) for one in (start, event)) == MINDSPORE


def test_the_same_values_are_the_same_bytes(summary):
    theirs = Event.FromString(records(MINDSPORE)[1])
    summary.add_value("scalar", "loss", Tensor(0.25))
    summary.add_value("tensor", "ints", Tensor([[1, 2, -3]], fj.int64))
    summary.add_value("histogram", "h", Tensor([np.nan, np.inf, 1.0, 2.5, -np.inf], fj.float32))
    assert summary.record(7)
    ours = events(summary.log_dir)[1]
    ours.wall_time = theirs.wall_time
    assert ours.SerializeToString() == theirs.SerializeToString()


@pytest.mark.parametrize("call", [lambda net: net, lambda net: fj.jit(net.construct), lambda net: fj.value_and_grad(net)])
def test_operators_keep_values_of_each_call(summary, call):
    net, steps = call(Summaries()), 5
    for step in range(steps):
        net(Tensor(np.full((1, 1, 2, 2), step, np.float32)))
        assert summary.record(step)
    found = events(summary.log_dir)[1:]
    assert [event.step for event in found] == list(range(steps))
    for step, event in enumerate(found):
        named = values(event)
        assert sorted(named) == ["histogram", "image", "loss", "tensor"]
        assert named["loss"].scalar_value == 4 * step * step
        assert named["tensor"].tensor.float_data == [2 * step] * 4
        assert named["histogram"].histogram.sum == 4 * step


def test_values_keep_what_they_were(summary):
    """A Tensor that changes before it is written."""
    x = fj.Parameter(Tensor([1.0, 2.0]), name="x")
    ops.TensorSummary()("x", x)
    ops.assign(x, Tensor([5.0, 6.0]))
    summary.record(1)
    assert values(events(summary.log_dir)[1])["x"].tensor.float_data == [1, 2]


def test_one_value_of_a_name_is_kept(summary):
    for value in (1.0, 2.0):
        ops.ScalarSummary()("a", Tensor(value))
    summary.record(1)
    assert [value.scalar_value for value in events(summary.log_dir)[1].summary.value] == [2]
    summary.record(2)
    assert len(events(summary.log_dir)) == 2


def test_eval_mode_and_filter_leave_values_out(summary):
    summary.set_mode("eval")
    ops.ScalarSummary()("a", Tensor(1.0))
    summary.add_value("scalar", "b", Tensor(1.0))
    summary.add_value("tensor", "c", Tensor([1.0]))
    summary.record(1, plugin_filter=lambda plugin: plugin == "tensor")
    assert list(values(events(summary.log_dir)[1])) == ["c"]


def test_images_are_one_picture(summary):
    image = pytest.importorskip("PIL.Image")
    x = np.arange(10 * 3 * 2 * 4, dtype=np.float32).reshape(10, 3, 2, 4)
    for name, value in {"scaled": x, "grey": x[:1, :1] / 1000, "bytes": x.astype(np.uint8)}.items():
        summary.add_value("image", name, Tensor(value))
    summary.record(1)
    found = {name: value.image for name, value in values(events(summary.log_dir)[1]).items()}
    assert (found["scaled"].height, found["scaled"].width, found["scaled"].colorspace) == (4, 32, 3)  # two rows of eight
    pixels = {name: np.asarray(image.open(io.BytesIO(one.encoded_image))) for name, one in found.items()}
    assert (pixels["scaled"][:2, 4:8] == (x[1].transpose(1, 2, 0) * np.float32(255 / 240)).astype(np.uint8)).all()
    assert (pixels["scaled"][2:, 8:] == 0).all()
    assert (pixels["grey"] == (x[0, 0] / np.float32(1000) * 255).astype(np.uint8)[..., None]).all()
    assert (pixels["bytes"][:2, :4] == (x[0].transpose(1, 2, 0) * np.float32(255 / 240)).astype(np.uint8)).all()


def test_histograms_have_up_to_90_ranges(summary):
    sizes = {"1": 1, "6": 6, "100": 100, "5000": 5000}
    for name, size in sizes.items():
        summary.add_value("histogram", name, Tensor(np.arange(size, dtype=np.int32)))
    summary.record(1)
    found = {name: value.histogram for name, value in values(events(summary.log_dir)[1]).items()}
    assert {name: len(one.buckets) for name, one in found.items()} == {"1": 2, "6": 3, "100": 11, "5000": 90}
    assert all(sum(bucket.count for bucket in one.buckets) == one.count == sizes[name] for name, one in found.items())


def test_without_finite_values_there_are_no_ranges(summary):
    summary.add_value("histogram", "a", Tensor([np.nan, np.inf], fj.float32))
    with pytest.warns(UserWarning, match="no valid values"):
        summary.record(1)
    found = values(events(summary.log_dir)[1])["a"].histogram
    assert (found.count, found.nan_count, found.pos_inf_count, found.buckets) == (2, 1, 1, [])


def test_tensors_are_exported(tmp_path):
    with SummaryRecord(str(tmp_path), export_options={"tensor_format": "npy"}) as summary:
        summary.add_value("tensor", "a/b", Tensor([1.0, 2.0]))
        summary.record(3)
    (path,) = tmp_path.glob("export_*/tensor/a%2Fb_3.npy")
    assert np.load(path).tolist() == [1, 2]


def test_the_size_of_the_file_is_limited(tmp_path):
    with SummaryRecord(str(tmp_path), max_file_size=100) as summary:
        summary.add_value("scalar", "a", Tensor(1.0))
        summary.record(1)
        size = os.path.getsize(summary.log_dir)
        summary.add_value("scalar", "a", Tensor(1.0))
        with pytest.warns(UserWarning, match="'max_file_size' reached"):
            summary.record(2)
        assert summary.record(3) and os.path.getsize(summary.log_dir) == size


def test_errors_of_the_file(tmp_path):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError("no space")

    for raises in (False, True):
        with SummaryRecord(str(tmp_path), raise_exception=raises) as summary:
            summary._file = Full()
            summary.add_value("scalar", "a", Tensor(1.0))
            with pytest.raises(OSError, match="no space") if raises else pytest.warns(UserWarning, match="no space"):
                summary.record(1)


def test_file_is_closed_once_and_read_only(tmp_path):
    summary = SummaryRecord(str(tmp_path), "run_", "_end")
    assert os.path.basename(summary.log_dir).startswith("run_.out.events.summary.") and summary.log_dir.endswith("_end")
    with pytest.raises(RuntimeError, match="only one instance"):
        SummaryRecord(str(tmp_path))
    summary.close()
    summary.close()
    assert SummaryRecord.count == 0 and os.stat(summary.log_dir).st_mode & 0o777 == 0o400
    with pytest.warns(UserWarning, match="closed"):
        assert summary.record(1) is False
    with pytest.warns(UserWarning, match="closed"):
        summary.flush()
    with pytest.raises(ValueError, match="closed"), summary:
        pass


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"log_dir": ""}, ValueError, "should be non-blank"),
        ({"log_dir": 3}, TypeError, "the type should be string"),
        ({"file_prefix": 3}, TypeError, "should be str, but got type <class 'int'>"),
        ({"file_suffix": "a/b"}, ValueError, "must be match regular"),
        ({"max_file_size": "a"}, TypeError, "'max_file_size' should be int type"),
        ({"raise_exception": 1}, TypeError, "type of 'raise_exception' should be 'bool'"),
        ({"export_options": 3}, TypeError, "valid type of .'dict', 'NoneType'., but got int"),
        ({"export_options": {"a": 1}}, TypeError, "valid type of .'str', 'NoneType'., but got int"),
        ({"export_options": {"a": "npy"}}, ValueError, "keys {'a'} of \"export_options\" are unsupported"),
        ({"export_options": {"tensor_format": "x"}}, ValueError, "export_format {'x'}"),
    ],
)
def test_errors_of_the_constructor(tmp_path, arguments, error, text):
    with pytest.raises(error, match=text):
        SummaryRecord(**{"log_dir": str(tmp_path), **arguments})
    assert SummaryRecord.count == 0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda s: s.record("a"), TypeError, "type of 'step' should be 'int', but got type 'str'"),
        (lambda s: s.record(True), TypeError, "but got type 'bool'"),
        (lambda s: s.record(1, 3), TypeError, "type of 'train_network'"),
        (lambda s: s.set_mode("x"), ValueError, '"mode" is "train" or "eval"'),
        (lambda s: s.add_value("x", "a", Tensor(1.0)), ValueError, 'no such "plugin" of \'x\''),
        (lambda s: s.add_value("scalar", "", Tensor(1.0)), ValueError, "should be a str that is not empty"),
        (lambda s: s.add_value("scalar", "a", 1.0), TypeError, "expect to be Tensor, but got float"),
        (lambda s: s.add_value("scalar", "a", Tensor([1.0, 2.0])), ValueError, "the v rank must be less than or equal to 1, but got 2"),
        (lambda s: ops.ScalarSummary()(3, Tensor(1.0)), TypeError, 'the name must be valid string, but got "3"'),
        (lambda s: ops.ImageSummary()("a", Tensor(1.0)), ValueError, 'For "ImageSummary", the tensor seems not to hold a valid image'),
        (lambda s: ops.TensorSummary()("a", Tensor(1.0)), ValueError, 'For "TensorSummary", the value should not be empty'),
        (lambda s: ops.HistogramSummary()("a", 1.0), TypeError, "expect to be Tensor, but got float"),
    ],
)
def test_errors_of_calls(summary, call, error, text):
    with pytest.raises(error, match=text):
        call(summary)


def test_fields_of_messages():
    message = Event(step=-3, version="é")
    assert isinstance(message, Message) and Event.FromString(message.SerializeToString()).step == -3
    with pytest.raises(AttributeError, match="no field 'nothing'"):
        message.nothing
    unknown = MESSAGES["Value"](tag="a", scalar_value=1.5).SerializeToString() + bytes([7 << 3, 1, 6 << 3 | 2, 1, 0])
    assert MESSAGES["Value"].FromString(unknown).scalar_value == 1.5
