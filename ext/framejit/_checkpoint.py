"""Checkpoints: the Parameters of a network in a file, and back.

The file is checked before anything is loaded from it (`_files`); its header has names, dtypes, shapes and places. Nothing in it is executed.
Files that end in ``.safetensors`` have that format.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from framejit import _core, _files
from framejit._dtypes import ALL
from framejit._parameter import Parameter
from framejit._tensor import Tensor

_VERSION = 1
_SAFETENSORS = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool_": "BOOL",
}  # fmt: skip


def _name_of(dtype: Any) -> str:
    return next(name for name, known in ALL.items() if known is dtype)


def _named(save_obj: Any) -> dict[str, Any]:
    """The Tensors of a Cell, a dict or a list of {"name": ..., "data": ...}."""
    if hasattr(save_obj, "parameters_and_names"):
        return {parameter.name: parameter for _, parameter in save_obj.parameters_and_names()}
    if isinstance(save_obj, Mapping):
        found = dict(save_obj)
    elif isinstance(save_obj, (list, tuple)):
        found = {one["name"]: one["data"] for one in save_obj}
    else:
        raise TypeError(
            f"For 'save_checkpoint', the 'save_obj' must be a Cell, dict or list, but got {type(save_obj).__name__}."
        )
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise TypeError(
                f"For 'save_checkpoint', there must be Tensors by name, but got {name!r}: {type(value).__name__}."
            )
    return found


def save_checkpoint(save_obj: Any, ckpt_file_name: Any, format: str | None = None) -> None:
    """Save the Parameters of a network.

    Parameters
    ----------
    save_obj : Cell, dict of str to Tensor, or list of {"name": str, "data": Tensor}
        What is saved.
    ckpt_file_name : str or Path
        ``.ckpt`` is appended where it has no suffix.
    format : {'ckpt', 'safetensors'}, optional
        By the suffix, where it is not given.

    Examples
    --------
    >>> import framejit as fj
    >>> net = fj.nn.Dense(2, 3)
    >>> fj.save_checkpoint(net, "net.ckpt")
    >>> sorted(fj.load_checkpoint("net.ckpt"))
    ['bias', 'weight']
    """
    path = Path(ckpt_file_name)
    if format is None:
        format = "safetensors" if path.suffix == ".safetensors" else "ckpt"
    if format not in ("ckpt", "safetensors"):
        raise ValueError(f"For 'save_checkpoint', the 'format' must be 'ckpt' or 'safetensors', but got {format!r}.")
    if path.suffix not in (".ckpt", ".safetensors"):
        path = path.with_name(f"{path.name}.{format}")
    header: dict[str, Any] = {}
    data: list[bytes] = []
    at = 0
    for name, tensor in _named(save_obj).items():
        raw = np.ascontiguousarray(tensor.asnumpy()).tobytes()
        dtype = _name_of(tensor.dtype)
        if format == "safetensors":
            if dtype not in _SAFETENSORS:
                raise TypeError(f"safetensors has no {dtype}, which is the dtype of {name!r}.")
            dtype = _SAFETENSORS[dtype]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    if format == "safetensors":
        _files.write(path, _files.with_header(header, data, padding=8))
    else:
        _files.write(path, _files.sealed("checkpoint", _VERSION, _files.with_header(header, data)))


def _refuse(path: Path, why: str) -> ValueError:
    return ValueError(f"For 'load_checkpoint', the file {str(path)!r} is not loaded: {why}.")


def _read(path: Path) -> dict[str, Tensor]:
    content = path.read_bytes()
    body = content
    if path.suffix != ".safetensors":
        try:
            body = _files.unsealed(content, "checkpoint", _VERSION)
        except ValueError as error:
            raise _refuse(path, str(error)) from None
    try:
        return _parse(body)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise _refuse(path, f"its header does not fit its data ({error})") from None


def _parse(body: bytes) -> dict[str, Tensor]:
    header, data = _files.header_and_data(body)
    names = {short: name for name, short in _SAFETENSORS.items()}
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype = ALL[names.get(entry["dtype"], entry["dtype"])]
        start, stop = entry["data_offsets"]
        shape = tuple(int(n) for n in entry["shape"])
        kind = np.dtype(_core._dtype(dtype))
        if not 0 <= start <= stop <= len(data) or stop - start != kind.itemsize * int(np.prod(shape, dtype=np.int64)):
            raise ValueError(f"the place of {name!r}")
        out[name] = Tensor(np.frombuffer(data[start:stop], kind).reshape(shape).copy())
    return out


def load_checkpoint(
    ckpt_file_name: Any, net: Any = None, strict_load: bool = False, filter_prefix: Any = None
) -> dict[str, Parameter]:
    """The Parameters in a file, by name; with `net` they are also loaded into that network.

    Raises
    ------
    ValueError
        If the file is none, cut or altered, of a newer version, or does not fit `net`; then nothing is loaded.

    Examples
    --------
    >>> import framejit as fj
    >>> net, other = fj.nn.Dense(2, 3), fj.nn.Dense(2, 3)
    >>> fj.save_checkpoint(net, "net.ckpt")
    >>> _ = fj.load_checkpoint("net.ckpt", other)
    >>> bool((net.weight == other.weight).all())
    True
    """
    path = Path(ckpt_file_name)
    if not path.exists() and path.suffix not in (".ckpt", ".safetensors"):
        path = path.with_name(path.name + ".ckpt")
    prefixes = (filter_prefix,) if isinstance(filter_prefix, str) else tuple(filter_prefix or ())
    found = {name: Parameter(value, name=name) for name, value in _read(path).items() if not name.startswith(prefixes)}
    if not found:
        raise _refuse(path, "it has no parameters")
    if net is not None:
        load_param_into_net(net, found, strict_load)
    return found


def load_param_into_net(
    net: Any, parameter_dict: dict[str, Parameter], strict_load: bool = False
) -> tuple[list[str], list[str]]:
    """Load Parameters by name: (names of the network that were not there, names that the network does not have).

    All are compared first: where a shape differs, a dtype would lose something or, with `strict_load`, a dtype differs, nothing is loaded.

    Raises
    ------
    ValueError
        With all that differs.
    """
    own = {parameter.name: parameter for parameter in net.get_parameters()}
    wrong = []
    for name, parameter in own.items():
        given = parameter_dict.get(name)
        if given is None:
            continue
        if given.shape != parameter.shape:
            wrong.append(f"{name}: the network has the shape {parameter.shape}, the file {given.shape}")
        elif given.dtype is not parameter.dtype and (
            strict_load or not np.can_cast(_core._dtype(given.dtype), _core._dtype(parameter.dtype), "same_kind")
        ):
            wrong.append(f"{name}: the network has {parameter.dtype!r}, the file {given.dtype!r}")
    missing = [name for name in own if name not in parameter_dict]
    extra = [name for name in parameter_dict if name not in own]
    if len(missing) == len(own):
        wrong.append(f"no name is in both: the network has {sorted(own)[:4]}, the file {sorted(parameter_dict)[:4]}")
    if wrong:
        raise ValueError("For 'load_param_into_net', nothing is loaded:\n  " + "\n  ".join(wrong))
    for name, parameter in own.items():
        if name in parameter_dict:
            parameter.set_data(Tensor(parameter_dict[name]))
    return missing, extra
