"""Datasets, samplers and transforms. The expected rows are those that MindSpore 2.10 gives."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import framejit as fj
import framejit.dataset as ds
import numpy as np
import pytest
from framejit.dataset import config, transforms, vision

pytestmark = pytest.mark.capture
HERE = Path(__file__).resolve().parent


def write_mnist(folder, name, images, labels):
    folder.mkdir(parents=True, exist_ok=True)
    head = struct.pack(">IIII", 2051, *images.shape)
    (folder / f"{name}-images-idx3-ubyte").write_bytes(head + images.astype(np.uint8).tobytes())
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, len(labels)) + labels.astype(np.uint8).tobytes())


def numbers(count=6):
    return ds.NumpySlicesDataset(np.arange(count), shuffle=False)


def two():
    return ds.NumpySlicesDataset({"a": np.arange(4), "b": np.arange(4) * 10.0}, shuffle=False)


def rows(dataset):
    return [[x.tolist() for x in row] for row in dataset.create_tuple_iterator(num_epochs=1, output_numpy=True)]


def firsts(dataset):
    return [row[0] for row in rows(dataset)]


# --- Rows and columns ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dataset, expected",
    [
        (lambda: numbers().skip(2), [2, 3, 4, 5]),
        (lambda: numbers(2).take(-1), [0, 1]),
        (lambda: numbers().filter(lambda v: v % 2 == 0), [0, 2, 4]),
        (lambda: two().filter(lambda b: b > 10, "b"), [2, 3]),
        (lambda: numbers(2) + numbers(3), [0, 1, 0, 1, 2]),
        (lambda: numbers(2).concat([numbers(1), numbers(2)]), [0, 1, 0, 0, 1]),
        (lambda: numbers(2).repeat(), [0, 1]),
        (lambda: numbers(3).repeat(2), [0, 1, 2, 0, 1, 2]),
        (lambda: two().split([3, 1], randomize=False)[0], [0, 1, 2]),
        (lambda: two().split([3, 1], randomize=False)[1], [3]),
        (lambda: two().map(lambda a: a + 100), [100, 101, 102, 103]),
        (lambda: two().apply(lambda d: d.batch(2)), [[0, 1], [2, 3]]),
        (lambda: two().batch(3, True), [[0, 1, 2]]),
        (lambda: two().batch(2, per_batch_map=lambda a, b, info: ([v + info.get_batch_num() for v in a], b)), [[0, 1], [3, 4]]),
        (lambda: ds.GeneratorDataset([(5,), (6,), (7,)], ["a"], shuffle=False, num_samples=2), [5, 6]),
        (lambda: ds.GeneratorDataset(lambda: iter(range(5)), ["a"], num_samples=3), [0, 1, 2]),
    ],
)
def test_rows(dataset, expected):
    data = dataset()
    assert firsts(data) == expected
    assert len(data) == data.get_dataset_size() == len(expected)


def test_columns():
    def added(a, b):
        return a + b

    assert two().map(lambda a: (a, a + 1), ["a"], ["a", "c"]).get_col_names() == ["a", "c", "b"]
    joined = two().map(added, ["a", "b"], ["s"])
    assert (joined.get_col_names(), rows(joined)) == (["s"], [[0.0], [11.0], [22.0], [33.0]])
    assert rows(two().project(["b", "a"]).take(2)) == [[0.0, 0], [10.0, 1]]
    assert two().rename(["a"], ["x"]).get_col_names() == ["x", "b"]
    assert rows(ds.zip((numbers(3).rename("column_0", "b"), numbers(4)))) == [[0, 0], [1, 1], [2, 2]]
    assert numbers(3).rename("column_0", "b").zip(numbers(4)).get_col_names() == ["b", "column_0"]
    assert next(two().create_tuple_iterator(columns=["b"], output_numpy=True)) == [np.array(0.0)]
    batched = two().batch(3).repeat(2)
    assert (batched.get_batch_size(), batched.get_repeat_count()) == (3, 2)
    assert (batched.output_shapes(), batched.output_types()) == ([[3], [3]], [np.dtype("int64"), np.dtype("float64")])
    assert two().batch(3).output_shapes(estimate=True) == [[None], [None]]


def test_parts_that_are_drawn_have_all_rows_between_them():
    first, second = numbers(10).split([0.7, 0.3])
    assert (len(first), len(second)) == (7, 3)
    assert sorted(firsts(first) + firsts(second)) == list(range(10))
    assert firsts(first) == firsts(first)


def test_each_for_is_one_pass():
    passes = numbers(3).create_tuple_iterator(num_epochs=2, output_numpy=True)
    assert [len(list(passes)), len(list(passes))] == [3, 3]
    with pytest.raises(RuntimeError, match="all of its epochs"):
        next(passes)
    without_end = numbers(3).create_dict_iterator()
    assert [len(list(without_end)) for _ in range(4)] == [3, 3, 3, 3]


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: numbers().take(0), ValueError), (lambda: numbers().repeat(0), ValueError), (lambda: numbers().skip(-1), ValueError),
        (lambda: numbers().shuffle(1), ValueError), (lambda: numbers().batch(0), ValueError), (lambda: numbers().batch(1.5), TypeError),
        (lambda: two().split([3, 2]), RuntimeError), (lambda: two().split([0.5, 0.6]), ValueError),
        (lambda: ds.zip((numbers(), numbers())), RuntimeError), (lambda: ds.zip([numbers()]), TypeError), (lambda: ds.zip(()), ValueError),
        (lambda: numbers().concat(3), TypeError), (lambda: numbers().apply(3), TypeError), (lambda: numbers().apply(len), TypeError),
        (lambda: numbers().project("z"), ValueError), (lambda: two().rename(["a", "b"], ["x"]), ValueError),
        (lambda: firsts(two().map(lambda a: (a, a), "a")), ValueError), (lambda: numbers().create_tuple_iterator(num_epochs=0), ValueError),
        (lambda: numbers().create_tuple_iterator(num_epochs=1.5), TypeError), (lambda: ds.GeneratorDataset(3), TypeError),
        (lambda: ds.GeneratorDataset(lambda: iter([1]), "a", sampler=[0]), ValueError),
        (lambda: firsts(ds.GeneratorDataset([(1,)], "a", column_types=[fj.float32])), TypeError),
    ],
)  # fmt: skip
def test_errors(call, error):
    with pytest.raises(error):
        call()


# --- Which rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"shuffle": False, "num_samples": 3}, [0, 1, 2]),
        ({"shuffle": False, "num_shards": 3, "shard_id": 1}, [1, 4, 7, 0]),
        ({"shuffle": False, "num_shards": 3, "shard_id": 2}, [2, 5, 8, 1]),
        ({"sampler": ds.SequentialSampler(2, 3)}, [2, 3, 4]),
        ({"sampler": [3, 1, 2]}, [3, 1, 2]),
        ({"sampler": ds.SubsetSampler([3, 1, 2], 2)}, [3, 1]),
        ({"sampler": ds.DistributedSampler(4, 1, shuffle=False)}, [1, 5, 9]),
        ({"sampler": ds.DistributedSampler(4, 1, shuffle=False, num_samples=2)}, [1, 5]),
    ],
)
def test_chosen_rows(options, expected):
    data = ds.NumpySlicesDataset(np.arange(10), **options)
    assert firsts(data) == expected
    assert len(data) == len(expected)
    assert firsts(ds.GeneratorDataset(list(range(10)), "a", **options)) == expected


def test_drawn_rows():
    for sampler in (None, ds.RandomSampler(), ds.SubsetRandomSampler(range(20)), ds.DistributedSampler(1, 0)):
        config.set_seed(7)
        found = firsts(ds.NumpySlicesDataset(np.arange(20), sampler=sampler))
        assert sorted(found) == list(range(20))
        assert found != list(range(20))
        config.set_seed(7)
        assert found == firsts(ds.NumpySlicesDataset(np.arange(20), sampler=sampler))
    again = ds.NumpySlicesDataset(np.arange(3), sampler=ds.RandomSampler(replacement=True, num_samples=50))
    assert set(firsts(again)) == {0, 1, 2}
    assert len(again) == 50
    assert len(ds.NumpySlicesDataset(np.arange(3), num_samples=50)) == 3


@pytest.mark.parametrize(
    "options, error",
    [
        ({"num_shards": 3}, RuntimeError), ({"shard_id": 0}, RuntimeError), ({"num_shards": 3, "shard_id": 3}, ValueError),
        ({"sampler": [1], "shuffle": True}, RuntimeError), ({"sampler": [1], "num_samples": 1}, ValueError),
        ({"sampler": [1], "num_shards": 1, "shard_id": 0}, RuntimeError), ({"num_samples": -1}, ValueError),
        ({"num_samples": 1.5}, TypeError), ({"num_shards": 0, "shard_id": 0}, ValueError),
    ],
)  # fmt: skip
def test_samplers_refuse(options, error):
    with pytest.raises(error):
        ds.NumpySlicesDataset(np.arange(10), **options)
    with pytest.raises(RuntimeError):
        firsts(ds.NumpySlicesDataset(np.arange(3), sampler=[3]))
    with pytest.raises(TypeError):
        ds.SubsetSampler([0.5])
    with pytest.raises(TypeError):
        ds.RandomSampler(replacement=1)


def test_settings():
    config.set_seed(11)
    assert config.get_seed() == 11
    config.set_num_parallel_workers(2)
    config.set_prefetch_size(4)
    assert (config.get_num_parallel_workers(), config.get_prefetch_size()) == (2, 4)
    for call, error in ((lambda: config.set_seed(-1), ValueError), (lambda: config.set_prefetch_size(1.0), TypeError)):
        with pytest.raises(error):
            call()


def test_dataset_helper():
    data = two().batch(2)
    helper = fj.DatasetHelper(data, dataset_sink_mode=False, epoch_num=2)
    assert [[row[0].tolist() for row in helper] for _ in range(2)] == [[[0, 1], [2, 3]]] * 2
    assert (helper.types_shapes(), helper.sink_size()) == (([fj.int64, fj.float64], [[2], [2]]), 2)
    assert fj.train.DatasetHelper(data, False, 1).sink_size() == 1
    assert helper.stop_send() is helper.release() is helper.continue_send() is None
    for options, error in (
        ({}, RuntimeError), ({"dataset_sink_mode": 1}, TypeError), ({"dataset_sink_mode": False, "sink_size": 0}, ValueError),
        ({"dataset_sink_mode": False, "sink_size": 1.0}, TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            fj.DatasetHelper(data, **options)


# --- Files -------------------------------------------------------------------------------------------------------------------


def test_mnist(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (10, 28, 28))
    write_mnist(tmp_path, "train", images, np.arange(10))
    write_mnist(tmp_path, "t10k", images[:4], np.arange(4) + 5)
    train = ds.MnistDataset(tmp_path, usage="train", shuffle=False)
    assert (train.get_col_names(), len(train)) == (["image", "label"], 10)
    assert (train.output_shapes(), train.output_types()) == ([[28, 28, 1], []], [np.dtype("uint8"), np.dtype("uint32")])
    for number, (image, label) in enumerate(train.create_tuple_iterator(output_numpy=True)):
        np.testing.assert_array_equal(image[..., 0], images[number])
        assert label == number
    assert [row[1] for row in rows(ds.MnistDataset(str(tmp_path), "test", shuffle=False))] == [5, 6, 7, 8]
    assert len(ds.MnistDataset(tmp_path)) == len(ds.FashionMnistDataset(tmp_path, "all")) == 14
    assert [row[1] for row in rows(ds.MnistDataset(tmp_path, "train", sampler=[3, 1]))] == [3, 1]
    with pytest.raises(ValueError, match="does not exist or is not a directory"):
        ds.MnistDataset(tmp_path / "none")
    with pytest.raises(ValueError, match="usage is not within"):
        ds.MnistDataset(tmp_path, usage="x")
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"\0" * 18)
    with pytest.raises(RuntimeError, match="no file of MNIST"):
        ds.MnistDataset(tmp_path)


def test_cifar(tmp_path):
    table = np.random.default_rng(0).integers(0, 10, (6, 3073)).astype(np.uint8)
    for number in (1, 2):
        (tmp_path / f"data_batch_{number}.bin").write_bytes(table[2 * number - 2 : 2 * number].tobytes())
    (tmp_path / "test_batch.bin").write_bytes(table[4:].tobytes())
    train = rows(ds.Cifar10Dataset(tmp_path, "train", shuffle=False))
    assert [label for _, label in train] == table[:4, 0].tolist()
    np.testing.assert_array_equal(np.array(train[1][0]).transpose(2, 0, 1).ravel(), table[1, 1:])
    assert [row[1] for row in rows(ds.Cifar10Dataset(tmp_path, "test", shuffle=False))] == table[4:, 0].tolist()
    assert len(ds.Cifar10Dataset(tmp_path)) == 6
    (tmp_path / "test_batch.bin").write_bytes(b"1")
    with pytest.raises(RuntimeError, match="no binary file of CIFAR-10"):
        ds.Cifar10Dataset(tmp_path)


# --- Transforms --------------------------------------------------------------------------------------------------------------

IMAGE = np.random.RandomState(0).randint(0, 256, (7, 9, 3)).astype(np.uint8)
FLOATS = np.random.default_rng(1).random((7, 9, 3)).astype(np.float32)


def test_transforms():
    np.testing.assert_array_equal(transforms.OneHot(4)(np.uint32(2)), np.array([0, 0, 1, 0], np.uint32))
    np.testing.assert_array_equal(transforms.OneHot(4)(np.array([2, 1])), [[0, 0, 1, 0], [0, 1, 0, 0]])
    np.testing.assert_allclose(transforms.OneHot(4, 0.1)(np.array(2)), [0.025, 0.025, 0.925, 0.025])
    for kind in (fj.float16, np.float16, "float16"):
        assert transforms.TypeCast(kind)(FLOATS).dtype == np.float16
    np.testing.assert_array_equal(transforms.TypeCast(fj.int32)(np.array([1.7, -1.7])), [1, -1])
    np.testing.assert_array_equal(transforms.Compose([lambda x, y: (x + y, x), lambda a, b: a * b])(3, 4), 21)
    np.testing.assert_array_equal(transforms.Fill(3)(np.ones(2, np.float32)), np.full(2, 3, np.float32))
    assert transforms.Duplicate()(5) == (5, 5)
    np.testing.assert_array_equal(transforms.Concatenate(0, np.array([9]), np.array([8, 7]))(np.array([1, 2])), [9, 1, 2, 8, 7])
    np.testing.assert_array_equal(transforms.PadEnd([5], -1)(np.array([1, 2])), [1, 2, -1, -1, -1])
    np.testing.assert_array_equal(transforms.PadEnd([2, None])(np.ones((3, 2))), np.ones((2, 2)))
    assert transforms.RandomApply([lambda x: x + 1], 1.0)(1) == 2
    assert transforms.RandomApply([lambda x: x + 1], 0.0)(1) == 1
    config.set_seed(1)
    assert {transforms.RandomChoice([lambda x: x + 1, lambda x: x * 5])(1) for _ in range(40)} == {2, 5}
    assert {transforms.RandomOrder([lambda x: x + 1, lambda x: x * 5])(1) for _ in range(40)} == {10, 6}
    for call, error in (
        (lambda: transforms.Compose([]), ValueError), (lambda: transforms.Compose([3]), TypeError),
        (lambda: transforms.Compose(len), TypeError), (lambda: transforms.OneHot(4)(np.array(7)), RuntimeError),
        (lambda: transforms.OneHot(4)(np.array(1.0)), RuntimeError), (lambda: transforms.OneHot(0), ValueError),
        (lambda: transforms.RandomApply([len], 2), ValueError), (lambda: transforms.PadEnd([1, 2])(np.ones(3)), RuntimeError),
        (lambda: transforms.Concatenate(1), ValueError),
    ):  # fmt: skip
        with pytest.raises(error):
            call()


def test_pictures():
    np.testing.assert_allclose(vision.Rescale(1 / 255, -0.5)(IMAGE), IMAGE / 255 - 0.5, rtol=0, atol=1e-7)
    mean, std = (121.0, 115.0, 0.5), (70.0, 68.0, 3.0)
    expected = (IMAGE - np.float32(mean)) / np.float32(std)
    np.testing.assert_array_equal(vision.Normalize(mean, std)(IMAGE), expected)
    np.testing.assert_array_equal(vision.Normalize(mean, std, is_hwc=False)(IMAGE.transpose(2, 0, 1)), expected.transpose(2, 0, 1))
    np.testing.assert_array_equal(vision.HWC2CHW()(IMAGE), IMAGE.transpose(2, 0, 1))
    np.testing.assert_allclose(vision.ToTensor()(IMAGE), IMAGE.transpose(2, 0, 1) / 255, rtol=1e-6)
    assert vision.ToTensor(np.float16)(IMAGE[..., 0]).dtype == np.float16
    np.testing.assert_array_equal(vision.Invert()(IMAGE), 255 - IMAGE)
    np.testing.assert_array_equal(vision.ToType(fj.float32)(IMAGE), IMAGE.astype(np.float32))
    np.testing.assert_array_equal(vision.HorizontalFlip()(IMAGE), IMAGE[:, ::-1])
    np.testing.assert_array_equal(vision.VerticalFlip()(IMAGE), IMAGE[::-1])
    np.testing.assert_array_equal(vision.RandomHorizontalFlip(1.0)(IMAGE), IMAGE[:, ::-1])
    np.testing.assert_array_equal(vision.RandomVerticalFlip(0.0)(IMAGE), IMAGE)
    np.testing.assert_array_equal(vision.Crop((1, 2), (3, 4))(IMAGE), IMAGE[1:4, 2:6])
    np.testing.assert_array_equal(vision.CenterCrop((4, 6))(IMAGE), IMAGE[1:5, 1:7])
    larger = np.zeros((12, 12, 3), np.uint8)
    larger[3:10, 2:11] = IMAGE
    np.testing.assert_array_equal(vision.CenterCrop(12)(IMAGE), larger)
    for border in vision.Border:
        options = {"constant_values": 7} if border is vision.Border.CONSTANT else {}
        expected = np.pad(IMAGE, ((2, 4), (1, 3), (0, 0)), border.value, **options)
        np.testing.assert_array_equal(vision.Pad((1, 2, 3, 4), 7, border)(IMAGE), expected)
    assert vision.Pad(1, (1, 2, 3))(IMAGE)[0, 0].tolist() == [1, 2, 3]
    assert vision.Pad((1, 2))(IMAGE[..., 0]).shape == (11, 11)


def test_parts_that_are_drawn_are_of_the_picture():
    config.set_seed(3)
    places = {(vision.RandomCrop((7, 8))(IMAGE) == IMAGE[:, 1:]).all() for _ in range(30)}
    assert places == {True, False}
    assert vision.RandomCrop(11, padding=2)(IMAGE).shape == (11, 11, 3)
    assert vision.RandomCrop((40, 40), pad_if_needed=True)(IMAGE).shape == (40, 40, 3)
    with pytest.raises(RuntimeError):
        vision.RandomCrop((40, 40))(IMAGE)
    for _ in range(20):
        part = vision.RandomResizedCrop((4, 5))(FLOATS)
        assert part.shape == (4, 5, 3)
        assert FLOATS.min() <= part.min() <= part.max() <= FLOATS.max()
    np.testing.assert_array_equal(vision.RandomResizedCrop((7, 9), (1, 1), (9 / 7, 9 / 7))(IMAGE), IMAGE)
    assert vision.RandomResizedCrop(3, (1, 1), (4, 5), max_attempts=1)(IMAGE).shape == (3, 3, 3)


def interpolated(image, size):
    """Bilinear, element by element."""
    out = np.zeros((*size, *image.shape[2:]))
    for index in np.ndindex(*size):
        place = [(at + 0.5) * old / new - 0.5 for at, old, new in zip(index, image.shape, size, strict=False)]
        for corner in np.ndindex(2, 2):
            at = [int(np.floor(p)) + c for p, c in zip(place, corner, strict=True)]
            share = np.prod([abs(1 - c - (p - np.floor(p))) for p, c in zip(place, corner, strict=True)])
            out[index] += share * image[tuple(np.clip(at, 0, np.array(image.shape[:2]) - 1))].astype(float)
    return out


@pytest.mark.parametrize("size", [(4, 5), (20, 15), (3, 20), (7, 4), (14, 18)])
def test_sizes(size):
    np.testing.assert_allclose(vision.Resize(size)(FLOATS), interpolated(FLOATS, size), atol=1e-6)
    np.testing.assert_allclose(vision.Resize(size)(IMAGE), interpolated(IMAGE, size), atol=1)
    np.testing.assert_allclose(vision.Resize(size)(IMAGE[..., 0]), interpolated(IMAGE[..., 0], size), atol=1)
    nearest = IMAGE[np.arange(size[0]) * 7 // size[0]][:, np.arange(size[1]) * 9 // size[1]]
    np.testing.assert_array_equal(vision.Resize(size, vision.Inter.NEAREST)(IMAGE), nearest)


def test_half_and_shorter_sizes():
    even = IMAGE[:6, :8].astype(float)
    expected = (even[::2, ::2] + even[1::2, ::2] + even[::2, 1::2] + even[1::2, 1::2]) / 4
    np.testing.assert_array_equal(vision.Resize((3, 4))(IMAGE[:6, :8]), np.floor(expected + 0.5))
    np.testing.assert_allclose(vision.Resize((3, 4))(even.astype(np.float32)), expected)
    assert vision.Resize(5)(IMAGE).shape == (5, 6, 3)
    assert vision.Resize(5)(IMAGE.transpose(1, 0, 2)).shape == (6, 5, 3)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: vision.Normalize((1.0,), (2.0, 3.0)), ValueError), (lambda: vision.Normalize((1.0,), (0.0,)), ValueError),
        (lambda: vision.Normalize(1.0, 2.0), TypeError), (lambda: vision.Normalize((1.0, 2.0), (1.0, 2.0))(IMAGE), RuntimeError),
        (lambda: vision.Rescale("a", 1), TypeError), (lambda: vision.Rescale(1.0, 0.0)([1, 2]), TypeError),
        (lambda: vision.Resize(0), ValueError), (lambda: vision.Resize("a"), TypeError), (lambda: vision.Resize(3, 1), TypeError),
        (lambda: vision.Resize(3, vision.Inter.BICUBIC), ValueError), (lambda: vision.RandomHorizontalFlip(2), ValueError),
        (lambda: vision.RandomHorizontalFlip("a"), TypeError), (lambda: vision.Invert()(IMAGE[..., 0]), RuntimeError),
        (lambda: vision.Invert()(IMAGE[..., :1]), RuntimeError), (lambda: vision.Crop((5, 5), 9)(IMAGE), RuntimeError),
        (lambda: vision.Pad(-1), ValueError), (lambda: vision.Pad((1, 2, 3)), TypeError),
        (lambda: vision.Pad(1, 0, "edge"), TypeError), (lambda: vision.HWC2CHW()(np.ones(3)), RuntimeError),
    ],
)  # fmt: skip
def test_pictures_refuse(call, error):
    with pytest.raises(error):
        call()


def test_modules_have_mindspores_names():
    program = (
        "import mindspore.dataset as ds, mindspore.dataset.engine as engine, mindspore.dataset.config\n"
        "from mindspore.dataset.vision.utils import Inter\n"
        "from mindspore.dataset.vision.transforms import Resize\n"
        "from mindspore.dataset.transforms.transforms import TypeCast\n"
        "from mindspore.dataset.engine.datasets import NumpySlicesDataset\n"
        "from mindspore.train.dataset_helper import DatasetHelper\n"
        "from mindspore.nn.utils import no_init_parameters\n"
        "print(ds.vision.Inter is Inter, ds.transforms.TypeCast is TypeCast, engine.NumpySlicesDataset is NumpySlicesDataset)\n"
    )
    alias = "from framejit._mindspore._mindspore import install; install()\n"
    done = subprocess.run([sys.executable, "-c", alias + program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True True True\n"), done.stderr


# --- The program of the quick start ------------------------------------------------------------------------------------------


def test_quick_start_runs_unchanged(tmp_path):
    """With pictures of bars instead of digits, which `download` "downloads"."""
    draw = np.random.default_rng(0)
    for part, name, count in (("train", "train", 640), ("test", "t10k", 128)):
        labels = draw.integers(0, 10, count)
        images = draw.integers(0, 40, (count, 28, 28))
        for image, label in zip(images, labels, strict=True):
            image[2 * label + 2 : 2 * label + 6] += 180
        write_mnist(tmp_path / "MNIST_Data" / part, name, images, labels)
    (tmp_path / "download.py").write_text("def download(url, path, kind, replace):\n    assert url.endswith('MNIST_Data.zip')\n    return path\n")
    command = [sys.executable, "-m", "framejit", "--as-mindspore", str(HERE / "mindspore_quick_start.py")]
    places = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, cwd=tmp_path, env={**os.environ, "PYTHONPATH": places}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    out = done.stdout
    assert out.startswith("['image', 'label']\nShape of image [N, C, H, W]: (64, 1, 28, 28) Float32\nShape of label: (64,) Int32\n")
    assert "(0): Dense(input_channels=784, output_channels=512, has_bias=True)\n    (1): ReLU()" in out
    assert out.count("Epoch") == 3
    accuracy = [float(found) for found in re.findall(r"Accuracy: ([\d.]+)%", out)]
    assert accuracy[-1] > 60
    assert "Saved Model to model.ckpt\n[]\nPredicted:" in out
    predicted, actual = re.search(r'Predicted: "\[([\d ]+)\]", Actual: "\[([\d ]+)\]"', out).groups()
    assert sum(a == b for a, b in zip(predicted.split(), actual.split(), strict=True)) >= 5
