"""SummaryRecord: writes values of a training into event files, which MindInsight reads."""

from __future__ import annotations

import platform
import re
import stat
import struct
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import numpy as np

from framejit.nn._cell import Cell
from framejit.ops import _summaries
from framejit.train._events import MESSAGES, Event, Message, Summary, record

__all__ = ["SummaryRecord"]

_PLUGINS = ("tensor", "scalar", "image", "histogram")
# Numbers of MindSpore's dtypes in files.
_DTYPES = {
    name: at
    for at, name in enumerate(
        [
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "float16",
            "float32",
            "float64",
        ],
        1,
    )
}
_IMAGES_IN_A_ROW = 8
_MOST_BINS = 90
_NAME = r"^\w+[0-9a-zA-Z\_\.]*$"
_READ_ONLY = stat.S_IRUSR


# --- Values ----------------------------------------------------------------------------------------------------------------


def _tensor(value: np.ndarray) -> Message:
    if value.dtype.name not in _DTYPES:
        raise TypeError(
            f"For 'SummaryRecord', a value of dtype {value.dtype} cannot be written: the dtype must be one of {list(_DTYPES)}."
        )
    return MESSAGES["TensorProto"](dims=value.shape, data_type=_DTYPES[value.dtype.name], float_data=value.ravel())


def _histogram(value: np.ndarray) -> Message:
    """Counts of the finite numbers in up to 90 ranges of equal width, about ten numbers in each; and how many are not finite."""
    finite = value[np.isfinite(value)]
    counts: dict[str, Any] = {
        "count": value.size,
        "nan_count": np.count_nonzero(np.isnan(value)),
        "pos_inf_count": np.count_nonzero(value == np.inf),
        "neg_inf_count": np.count_nonzero(value == -np.inf),
    }
    if not finite.size:
        warnings.warn(f"There are no valid values in the ndarray(size={value.size}, shape={value.shape})", stacklevel=4)
        return MESSAGES["Histogram"](**counts)
    low, high = float(finite.min()), float(finite.max())
    counts.update(min=low, max=high, sum=finite.sum(dtype=np.float64))
    if not low < high:
        low, high = low - 0.5, high + 0.5
    bins = 2 if finite.size <= 5 else 3 if finite.size <= 10 else min(finite.size // 10 + 1, _MOST_BINS)
    numbers, edges = np.histogram(finite, np.linspace(low, high, bins + 1, dtype=value.dtype))
    ranges = zip(numbers, edges, edges[1:], strict=False)
    buckets = [MESSAGES["Bucket"](left=left, width=right - left, count=number) for number, left, right in ranges]
    return MESSAGES["Histogram"](buckets=buckets, **counts)


def _image(value: np.ndarray) -> Message | None:
    """One picture with the images in rows of eight; other numbers than bytes are scaled to 0 to 255."""
    if value.ndim != 4 or value.shape[1] not in (1, 3) or 0 in value.shape:
        warnings.warn(
            f"For 'ImageSummary', a value of shape {value.shape} is no image: it must be (N, 1 or 3, H, W), and not empty.",
            stacklevel=4,
        )
        return None
    number, _, height, width = value.shape
    columns = min(number, _IMAGES_IN_A_ROW)
    rows = -(-number // columns)
    canvas = np.zeros((height * rows, width * columns, 3))
    for at, picture in enumerate(value):
        top, left = at // columns * height, at % columns * width
        canvas[top : top + height, left : left + width] = picture.transpose(1, 2, 0)
    low, high = canvas.min(), canvas.max()
    if low >= 0 and high <= 1:
        shift, scale = 0, 255
    else:
        shift, scale = low, 255 / (high - low + 1) if low != high else 1
    pixels = ((canvas.astype(np.float32) - shift) * scale).astype(np.uint8)
    return MESSAGES["Image"](height=len(pixels), width=pixels.shape[1], colorspace=3, encoded_image=_png(pixels))


def _png(pixels: np.ndarray) -> bytes:
    """A picture (H, W, 3) of bytes as PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)  # 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, colours
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def _value(plugin: str, tag: str, value: np.ndarray) -> Message | None:
    if plugin == "scalar":
        return MESSAGES["Value"](tag=tag, scalar_value=value.item())
    made = {"tensor": _tensor, "histogram": _histogram, "image": _image}[plugin](value)
    return None if made is None else MESSAGES["Value"](tag=tag, **{plugin: made})


# --- The record ------------------------------------------------------------------------------------------------------------


def _directory(path: Any) -> Path:
    if not isinstance(path, str):
        raise TypeError("The log_dir is invalid, the type should be string.")
    if not path.strip():
        raise ValueError("The log_dir is invalid, it should be non-blank.")
    made = Path(path).resolve()
    made.mkdir(parents=True, exist_ok=True)
    return made


def _check_export_options(options: Any) -> None:
    if not isinstance(options, dict | None):
        raise TypeError(
            f"For `export_options` the type should be a valid type of ['dict', 'NoneType'], but got {type(options).__name__}."
        )
    for key, format_ in (options or {}).items():
        for name, item, kinds in ("export_option", key, (str,)), ("export_format", format_, (str, type(None))):
            if not isinstance(item, kinds):
                expected = [kind.__name__ for kind in kinds]
                raise TypeError(
                    f"For `{name}` the type should be a valid type of {expected}, but got {type(item).__name__}."
                )
        if key != "tensor_format":
            raise ValueError(
                f'For "SummaryRecord", the keys {{{key!r}}} of "export_options" are unsupported, expect the follow keys: [\'tensor_format\']'
            )
        if format_ not in ("npy", None):
            raise ValueError(
                f'For "SummaryRecord", the export_format {{{format_!r}}} of "export_options" are unsupported for {key}, '
                "expect the follow values: ['npy', None]"
            )


class SummaryRecord:
    """Writes scalars, images, Tensors and histograms into an event file in `log_dir`.

    The values are those that the operators `ops.ScalarSummary`, `ops.ImageSummary`, `ops.TensorSummary` and `ops.HistogramSummary` were called
    with since the last `record`, and those of `add_value`. Only one record may be open.

    Parameters
    ----------
    log_dir : str
        The folder, which is made if necessary.
    file_prefix : str
        What the name of the file begins with.
    file_suffix : str
        What the name of the file ends with.
    num_process : int
        Ignored: the file is written at once, in this process.
    network : Cell, optional
        Ignored: framejit has no graphs in MindSpore's format.
    max_file_size : int, optional
        The size of the file in bytes, at most. What does not fit is not written.
    raise_exception : bool
        Whether errors of the file are raised. Otherwise they are warnings.
    export_options : dict, optional
        ``{"tensor_format": "npy"}`` writes each Tensor into a file of its own too.

    Raises
    ------
    RuntimeError
        If there is an open record.

    Examples
    --------
    >>> import os, tempfile
    >>> import framejit as fj
    >>> from framejit.train import SummaryRecord
    >>> folder = tempfile.TemporaryDirectory()
    >>> with SummaryRecord(folder.name) as summary:
    ...     summary.add_value("scalar", "loss", fj.Tensor(0.25))
    ...     written = summary.record(1)
    >>> written, os.path.getsize(summary.log_dir)
    (True, 86)
    >>> folder.cleanup()
    """

    count = 0

    def __init__(
        self,
        log_dir: str,
        file_prefix: str = "events",
        file_suffix: str = "_MS",
        num_process: int = 32,
        network: Any = None,
        max_file_size: int | None = None,
        raise_exception: bool = False,
        export_options: dict[str, str | None] | None = None,
    ) -> None:
        if SummaryRecord.count > 0:
            raise RuntimeError(
                "For 'SummaryRecord', only one instance is supported in a training process, you are trying to create a new one when the "
                f"existing instance number is {SummaryRecord.count}. Please check your scripts."
            )
        folder = _directory(log_dir)
        if not isinstance(max_file_size, int | None):
            raise TypeError(
                f"For 'SummaryRecord', the 'max_file_size' should be int type, but got type {type(max_file_size)}"
            )
        for name in (file_prefix, file_suffix):
            if not isinstance(name, str):
                raise TypeError(
                    f"For 'SummaryRecord', `file_prefix` and `file_suffix`  should be str, but got type {type(name)}"
                )
            if re.match(_NAME, name, re.ASCII) is None:
                raise ValueError(f"The '{name}' is illegal, it must be match regular'{_NAME}' by flags're.ASCII.'")
        if max_file_size is not None and max_file_size < 0:
            warnings.warn(
                f"For 'SummaryRecord', the 'max_file_size' should be greater than 0. but got value {max_file_size}.",
                stacklevel=2,
            )
            max_file_size = None
        if not isinstance(raise_exception, bool):
            raise TypeError(
                f"The type of 'raise_exception' should be 'bool', but got type '{type(raise_exception).__name__}'."
            )
        _check_export_options(export_options)

        seconds = int(time.time())
        self._path = folder / f"{file_prefix}.out.events.summary.{seconds}.0.{platform.node()}{file_suffix}"
        self._exported = (
            folder / f"export_{seconds}" / "tensor" if (export_options or {}).get("tensor_format") else None
        )
        self._room = max_file_size
        self._raise_exception = raise_exception
        self._mode = "train"
        self._values: dict[str, dict[str, np.ndarray]] = {}
        self._closed = False
        self._file: BinaryIO | None = self._path.open("wb")
        SummaryRecord.count += 1
        _summaries.taken()
        self._write(Event(wall_time=time.time(), version="MindSpore.Event:1"))

    def __enter__(self) -> SummaryRecord:
        if self._closed:
            raise ValueError(
                'For "SummaryRecord", SummaryRecord has been closed, please check if close() method is called'
            )
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def log_dir(self) -> str:
        """The path of the file."""
        return str(self._path)

    def set_mode(self, mode: str) -> None:
        """'train', or 'eval', in which the operators' values are not written."""
        if mode not in ("train", "eval"):
            raise ValueError(
                f'For "SummaryRecord.set_mode", {mode!r} is not a recognized mode, expect the parameter "mode" is "train" or "eval"'
            )
        self._mode = mode

    def add_value(self, plugin: str, name: str, value: Any) -> None:
        """Keeps a Tensor for the next `record`. `plugin` is 'scalar', 'image', 'tensor' or 'histogram'. A later value takes the place of an earlier one of that name."""
        if plugin not in _PLUGINS:
            raise ValueError(
                f'For "SummaryRecord.add_value", no such "plugin" of {plugin!r}, expect value is one of [{", ".join(_PLUGINS)}]; '
                "framejit writes no lineage and no graphs"
            )
        if not name or not isinstance(name, str):
            raise ValueError(
                f'For "SummaryRecord", the parameter "name" should be a str that is not empty, but got {name!r}.'
            )
        self._values.setdefault(plugin, {})[name] = _summaries.checked(plugin, value, "SummaryRecord")

    def record(self, step: int, train_network: Any = None, plugin_filter: Callable[[str], bool] | None = None) -> bool:
        """Writes the values as those of this step; returns whether the record is open.

        `train_network` is checked and ignored. `plugin_filter` says of 'scalar', 'image', 'tensor' and 'histogram' whether to write them.
        """
        if not isinstance(step, int) or isinstance(step, bool):
            raise TypeError(f"The type of 'step' should be 'int', but got type '{type(step).__name__}'.")
        if not isinstance(train_network, Cell | None):
            raise TypeError(
                f"The type of 'train_network' should be one of '['Cell', 'NoneType']', but got type '{type(train_network).__name__}'."
            )
        if self._closed:
            warnings.warn(
                "For 'SummaryRecord', The record writer is closed, please check if close() method is called",
                stacklevel=2,
            )
            return False
        if self._mode == "train":
            for plugin, name, value in _summaries.taken():
                self.add_value(plugin, name, value)
        values, self._values = self._values, {}
        chosen = {plugin: named for plugin, named in values.items() if plugin_filter is None or plugin_filter(plugin)}
        written = [_value(plugin, name, value) for plugin, named in chosen.items() for name, value in named.items()]
        if written:
            self._write(
                Event(
                    wall_time=time.time(), step=step, summary=Summary(value=[one for one in written if one is not None])
                )
            )
        if self._exported is not None:
            self._export(chosen.get("tensor", {}), step, self._exported)
        return True

    def flush(self) -> None:
        """Writes what the system has not written yet."""
        if self._closed:
            warnings.warn(
                "For 'SummaryRecord', the record writer is closed and can not flush, please check if close() method is called",
                stacklevel=2,
            )
        elif self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Closes the file, which may be read only from now on. A second call does nothing."""
        if not self._closed:
            self._closed = True
            SummaryRecord.count -= 1
            self._stop()

    def _stop(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            if self._path.exists():
                self._path.chmod(_READ_ONLY)

    def _write(self, event: Message) -> None:
        """Writes a record if there is room. Errors of the file end the writing."""
        if self._file is None:
            return
        data = record(event.SerializeToString())
        if self._room is not None and self._room < len(data):
            warnings.warn(
                f"'max_file_size' reached: There are {self._room} bytes remaining, but the '{self._path}' requires to write {len(data)} bytes.",
                stacklevel=3,
            )
            self._stop()
            return
        if self._room is not None:
            self._room -= len(data)
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            self._failed(error)

    def _export(self, named: dict[str, np.ndarray], step: int, folder: Path) -> None:
        """Each Tensor in a file of its own."""
        try:
            for name, value in named.items():
                folder.mkdir(parents=True, exist_ok=True)
                path = folder / f"{quote(name, safe='')}_{step}.npy"
                np.save(path, value)
                path.chmod(_READ_ONLY)
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        """Raises the error if that is asked for; otherwise warns, and nothing more is written."""
        if self._raise_exception:
            raise error
        warnings.warn(f"For 'SummaryRecord', nothing more is written: {error}", stacklevel=4)
        self._file = None
