"""Event files of summaries: the messages in them as protocol buffers have them, and the records that hold the messages.

A message is a `Message` of one of the kinds in `_FIELDS`. A record is the length of its data, the checksum of the length, the data and the
checksum of the data.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

# For each field its number, its name and its type. "*": repeated. "+": repeated, with all values in one piece.
_FIELDS = {
    "Event": "1 wall_time double, 2 step int64, 3 version string, 5 summary Summary",
    "Summary": "1 value Value*",
    "Value": "1 tag string, 3 scalar_value float, 4 image Image, 8 tensor TensorProto, 9 histogram Histogram",
    "Image": "1 height int64, 2 width int64, 3 colorspace int64, 4 encoded_image bytes",
    "Histogram": "1 buckets Bucket*, 2 nan_count int64, 3 pos_inf_count int64, 4 neg_inf_count int64, 5 max double, 6 min double, "
    "7 sum double, 8 count int64",
    "Bucket": "1 left double, 2 width double, 3 count int64",
    "TensorProto": "1 dims int64*, 2 data_type int64, 3 float_data float+",
}
_NUMBERS = {"double": ("<d", 1), "float": ("<f", 5)}  # how struct packs it, and its wire type
_EMPTY = {"string": "", "bytes": b"", "double": 0.0, "float": 0.0, "int64": 0}


def _fields(kind: str) -> dict[int, tuple[str, str, str]]:
    """By number: name, type and how often."""
    found = {}
    for field in _FIELDS[kind].split(", "):
        number, name, type_ = field.split()
        found[int(number)] = name, type_.rstrip("*+"), type_[-1] if type_[-1] in "*+" else ""
    return found


_SCHEMA = {kind: _fields(kind) for kind in _FIELDS}


class Message:
    """A message: an attribute for each field. A field that was not set reads as 0, as empty or as a message without fields."""

    _kind = ""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        for field, type_, often in _SCHEMA.get(self._kind, {}).values():
            if field == name:
                return [] if often else MESSAGES[type_]() if type_ in _FIELDS else _EMPTY[type_]
        raise AttributeError(f"a message of the kind {self._kind} has no field {name!r}")

    def HasField(self, name: str) -> bool:
        """Whether the field was set."""
        return name in self.__dict__

    def SerializeToString(self) -> bytes:
        """The bytes of the message: its fields in the order of their numbers."""
        parts = []
        for number, (name, type_, often) in _SCHEMA[self._kind].items():
            if name in self.__dict__:
                values = self.__dict__[name]
                if often == "+":
                    packed = np.asarray(values, _NUMBERS[type_][0]).tobytes()
                    parts += [_varint(number << 3 | 2), _varint(len(packed)), packed] if packed else []
                else:
                    for value in values if often else [values]:
                        parts += _encode(number, type_, value)
        return b"".join(parts)

    @classmethod
    def FromString(cls, data: bytes) -> Message:
        """The message in these bytes. Fields of other numbers are left out."""
        message, at, fields = cls(), 0, _SCHEMA[cls._kind]
        while at < len(data):
            key, at = _read_varint(data, at)
            value, at = _read(data, at, key & 7)
            if key >> 3 in fields:
                name, type_, often = fields[key >> 3]
                if often == "+":
                    message.__dict__[name] = np.frombuffer(value, _NUMBERS[type_][0]).tolist()
                elif often:
                    message.__dict__.setdefault(name, []).append(_decode(type_, value))
                else:
                    message.__dict__[name] = _decode(type_, value)
        return message


MESSAGES: dict[str, type[Message]] = {
    kind: type(kind, (Message,), {"_kind": kind, "__module__": __name__}) for kind in _FIELDS
}
Event = MESSAGES["Event"]
Summary = MESSAGES["Summary"]


def _varint(value: int) -> bytes:
    """7 bits a byte, the lowest first; negative numbers as unsigned ones of 64 bits."""
    value &= 2**64 - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode(number: int, type_: str, value: Any) -> list[bytes]:
    if type_ in _NUMBERS:
        packing, wire = _NUMBERS[type_]
        return [_varint(number << 3 | wire), struct.pack(packing, value)]
    if type_ == "int64":
        return [_varint(number << 3), _varint(int(value))]
    data = value.SerializeToString() if type_ in _FIELDS else value.encode() if type_ == "string" else value
    return [_varint(number << 3 | 2), _varint(len(data)), data]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _read(data: bytes, at: int, wire: int) -> tuple[Any, int]:
    """A value of this wire type as a number or as bytes, and what comes after it."""
    if wire == 0:
        return _read_varint(data, at)
    size = {1: 8, 5: 4}.get(wire)
    if size is None:
        size, at = _read_varint(data, at)
    return data[at : at + size], at + size


def _decode(type_: str, value: Any) -> Any:
    if type_ in _NUMBERS:
        return struct.unpack(_NUMBERS[type_][0], value)[0]
    if type_ == "int64":
        return value - 2**64 if value >> 63 else value
    return MESSAGES[type_].FromString(value) if type_ in _FIELDS else value.decode() if type_ == "string" else value


# --- Records ---------------------------------------------------------------------------------------------------------------


def _table() -> np.ndarray:
    """The checksum's state after each byte."""
    state = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        state = np.where(state & 1, state >> 1 ^ np.uint32(0x82F63B78), state >> 1)
    return state


_TABLE = _table()
_START = bytes.fromhex("54641f64")  # which bring the state from 0 to all ones, where the checksum begins
_BITS = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))


def crc32c(data: bytes) -> int:
    """The checksum CRC-32C.

    The state is linear in what went in. So the data is cut into rows of equal length, all rows advance together, and the state after a row
    is what was there before the row, advanced over as many zeros, xor the row's own.
    """
    values = np.frombuffer(_START + data, np.uint8)
    length = math.isqrt(len(values))
    padded = np.zeros(-(-len(values) // length) * length, np.uint8)  # zeros in front change nothing
    padded[len(padded) - len(values) :] = values
    states = _advance(np.zeros(len(padded) // length, np.uint32), padded.reshape(-1, length).T)
    over_row = _advance(_BITS, np.zeros((length, 1), np.uint8))
    total = np.uint32(0)
    for state in states:
        total = np.bitwise_xor.reduce(over_row[(total & _BITS) != 0], initial=np.uint32(0)) ^ state
    return int(total) ^ 0xFFFFFFFF


def _advance(states: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Each state after the bytes of each column, one after the other."""
    for column in columns:
        states = _TABLE[(states ^ column) & 255] ^ states >> 8
    return states


def _masked(data: bytes) -> bytes:
    """The checksum as records have it: rotated, and a constant added."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    """A record with this data."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)
