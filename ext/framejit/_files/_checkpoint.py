"""Checkpoints: the Parameters of a network in a file, and back.

The file is checked before anything is loaded from it (`_files`); its header has names, dtypes, shapes and places. Nothing in it is executed.
Files that end in ``.safetensors`` have that format.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._files import _files
from framejit._tensors._parameter import Parameter
from framejit._tensors._tensor import Tensor

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
        found = {}
        for path, parameter in save_obj.parameters_and_names():
            if parameter.name in found:
                raise ValueError(
                    f"For 'save_checkpoint', two Parameters of the network have the name {parameter.name!r}, one of them at {path!r}."
                )
            found[parameter.name] = parameter
        return found
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


def save_checkpoint(
    save_obj: Any,
    ckpt_file_name: Any,
    integrated_save: bool = True,
    async_save: bool = False,
    append_dict: dict[str, Any] | None = None,
    enc_key: None = None,
    enc_mode: str = "AES-GCM",
    choice_func: Callable[[str], bool] | None = None,
    crc_check: bool = False,
    format: str | None = None,
) -> None:
    """Save the Parameters of a network.

    Parameters
    ----------
    save_obj : Cell, dict of str to Tensor, or list of {"name": str, "data": Tensor}
        What is saved.
    ckpt_file_name : str or Path
        ``.ckpt`` is appended where it has no suffix.
    integrated_save, async_save, enc_mode, crc_check
        Taken and ignored: a file is written whole, and has a checksum.
    append_dict : dict of str to number or Tensor, optional
        Further values to save.
    enc_key : None
        There is no encryption.
    choice_func : callable, optional
        Says of a name whether it is saved.
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
    if enc_key is not None:
        raise ValueError("For 'save_checkpoint', there is no encryption: 'enc_key' must be None.")
    named = _named(save_obj)
    if choice_func is not None:
        named = {name: tensor for name, tensor in named.items() if choice_func(name)}
    for name, value in (append_dict or {}).items():
        if not isinstance(name, str) or not isinstance(value, (int, float, Tensor)):
            raise TypeError(
                f"For 'save_checkpoint', the 'append_dict' must have numbers or Tensors by name, but got {name!r}: {value!r}."
            )
        if name in named:
            raise ValueError(f"For 'save_checkpoint', the 'append_dict' has the name of a Parameter: {name!r}.")
        named[name] = Tensor(value)
    header: dict[str, Any] = {}
    data: list[bytes] = []
    at = 0
    for name, tensor in named.items():
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
        header = {"__metadata__": {"framejit": _digest(header, data)}, **header}
        _files.write(path, _files.with_header(header, data, padding=8))
    else:
        _files.write(path, _files.sealed("checkpoint", _VERSION, _files.with_header(header, data)))


def _digest(header: Any, data: list[Any]) -> str:
    """The SHA-256 of the entries of a safetensors file and of its bytes."""
    digest = hashlib.sha256(json.dumps(header).encode())
    for part in data:
        digest.update(part)
    return digest.hexdigest()


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
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise _refuse(path, f"its header does not fit its data ({error})") from None


def _parse(body: bytes) -> dict[str, Tensor]:
    header, data = _files.header_and_data(body)
    own = (header.pop("__metadata__", None) or {}).get("framejit")
    if own is not None and own != _digest(header, [data]):
        raise ValueError("its bytes were altered, the checksum differs")
    names = {short: name for name, short in _SAFETENSORS.items()}
    out = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype = ALL[names.get(entry["dtype"], entry["dtype"])]
        (start, stop), shape = entry["data_offsets"], tuple(entry["shape"])
        kind = np.dtype(_core._dtype(dtype))
        if not all(type(n) is int and n >= 0 for n in (start, stop, *shape)):
            raise ValueError(f"the shape or place of {name!r}")
        if start != end or stop > len(data) or stop - start != kind.itemsize * math.prod(shape):
            raise ValueError(f"the place of {name!r}")
        values = np.frombuffer(data[start:stop], np.uint8 if kind.kind == "b" else kind)
        if kind.kind == "b" and values.max(initial=0) > 1:
            raise ValueError(f"{name!r} has other bytes than 0 and 1")
        out[name], end = Tensor(values.astype(kind).reshape(shape)), stop
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes belong to no entry")
    return {name: out[name] for name in header}


def load_checkpoint(
    ckpt_file_name: Any,
    net: Any = None,
    strict_load: bool = False,
    filter_prefix: Any = None,
    dec_key: None = None,
    dec_mode: str = "AES-GCM",
    specify_prefix: Any = None,
    choice_func: Callable[[str], Any] | None = None,
    crc_check: bool = False,
    remove_redundancy: bool = False,
    format: str = "ckpt",
) -> dict[str, Parameter]:
    """Return the Parameters of a file, by name. With `net`, also load them into that network, and warn if it has others.

    Parameters
    ----------
    ckpt_file_name : str or Path
        The file.
    net : Cell, optional
        The network to load into.
    strict_load : bool
        Whether every other dtype is an error.
    filter_prefix : str or list of str, optional
        Names that begin with it are left out.
    specify_prefix : str or list of str, optional
        Only names that begin with it are loaded.
    dec_key : None
        Must be None: there is no encryption.
    dec_mode : str
        Ignored.
    choice_func : callable, optional
        It takes a name, and returns whether to load it, or another name for it.
    crc_check : bool
        Ignored: files are always checked.
    remove_redundancy : bool
        Ignored: each file has all Parameters.
    format : {'ckpt', 'safetensors'}
        Ignored: the file says what it is.

    Raises
    ------
    ValueError
        If the file is not a checkpoint, is truncated or altered, is of a newer version, or does not fit `net`; nothing is loaded then.

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
    if format not in ("ckpt", "safetensors"):
        raise ValueError(f"For 'load_checkpoint', the 'format' must be 'ckpt' or 'safetensors', but got {format!r}.")
    if dec_key is not None:
        raise ValueError("For 'load_checkpoint', there is no encryption: 'dec_key' must be None.")
    left_out, taken = [(one,) if isinstance(one, str) else tuple(one or ()) for one in (filter_prefix, specify_prefix)]
    found = {}
    for name, value in _read(path).items():
        chosen = True if choice_func is None else choice_func(name)
        if chosen and not name.startswith(left_out) and (not taken or name.startswith(taken)):
            name = chosen if isinstance(chosen, str) else name
            found[name] = Parameter(value, name=name)
    if not found:
        raise _refuse(path, "it has no parameters")
    if net is not None:
        missing, extra = load_param_into_net(net, found, strict_load)
        if missing:
            warnings.warn(
                f"The file {str(path)!r} has no {', '.join(map(repr, missing))}: these Parameters of the network stay as they are"
                + (f". Only the file has: {', '.join(map(repr, extra))}." if extra else "."),
                stacklevel=2,
            )
    return found


def load_checkpoint_async(
    ckpt_file_name: Any,
    net: Any = None,
    strict_load: bool = False,
    filter_prefix: Any = None,
    dec_key: None = None,
    dec_mode: str = "AES-GCM",
    specify_prefix: Any = None,
    choice_func: Callable[[str], Any] | None = None,
) -> Future[dict[str, Parameter]]:
    """Do what `load_checkpoint` does in another thread, and return a future of its result.

    Parameters
    ----------
    ckpt_file_name, net, strict_load, filter_prefix, dec_key, dec_mode, specify_prefix, choice_func
        The arguments of `load_checkpoint`.

    Examples
    --------
    >>> import framejit as fj
    >>> net = fj.nn.Dense(2, 3)
    >>> fj.save_checkpoint(net, "later.ckpt")
    >>> future = fj.load_checkpoint_async("later.ckpt")
    >>> sorted(future.result())
    ['bias', 'weight']
    """
    options = (ckpt_file_name, net, strict_load, filter_prefix, dec_key, dec_mode, specify_prefix, choice_func)
    executor = ThreadPoolExecutor(1)
    future = executor.submit(load_checkpoint, *options)
    executor.shutdown(wait=False)
    return future


def load_param_into_net(
    net: Any, parameter_dict: dict[str, Parameter], strict_load: bool = False, remove_redundancy: bool = False
) -> tuple[list[str], list[str]]:
    """Load Parameters into a network, by name.

    All Parameters are compared first. If a shape differs, if a dtype would lose values, or with `strict_load` if a dtype differs, nothing is loaded.

    Parameters
    ----------
    net : Cell
        The network.
    parameter_dict : dict of str to Parameter
        The Parameters, as `load_checkpoint` returns them.
    strict_load : bool
        Whether every other dtype is an error.
    remove_redundancy : bool
        Ignored: there is one process, which has all Parameters.

    Returns
    -------
    tuple of two lists of str
        Names of the network that are not in `parameter_dict`, and names in `parameter_dict` that the network does not have.

    Raises
    ------
    TypeError
        If `net` is not a Cell, or `parameter_dict` does not contain Parameters.
    ValueError
        If Parameters differ; the text lists them.
    """
    if not hasattr(net, "get_parameters"):
        raise TypeError(f"For 'load_param_into_net', the 'net' must be a Cell, but got {type(net).__name__}.")
    if not isinstance(parameter_dict, Mapping) or not all(isinstance(one, Tensor) for one in parameter_dict.values()):
        raise TypeError(
            f"For 'load_param_into_net', the 'parameter_dict' must have Parameters by name, but got {parameter_dict!r:.200}."
        )
    own = list(net.get_parameters())
    common = [(parameter, parameter_dict[parameter.name]) for parameter in own if parameter.name in parameter_dict]
    wrong = []
    for parameter, given in common:
        name = parameter.name
        if given.shape != parameter.shape:
            wrong.append(f"{name}: the network has the shape {parameter.shape}, the file {given.shape}")
        elif given.dtype is not parameter.dtype and (
            strict_load or not np.can_cast(_core._dtype(given.dtype), _core._dtype(parameter.dtype), "same_kind")
        ):
            wrong.append(f"{name}: the network has {parameter.dtype}, the file {given.dtype}")
    names = [parameter.name for parameter in own]
    if own and not common:
        wrong.append(f"no name is in both: the network has {sorted(names)[:4]}, the file {sorted(parameter_dict)[:4]}")
    if wrong:
        raise ValueError("For 'load_param_into_net', nothing is loaded:\n  " + "\n  ".join(wrong))
    for parameter, value in [(parameter, Tensor(given, parameter.dtype)) for parameter, given in common]:
        parameter.set_data(value)
    return [name for name in names if name not in parameter_dict], [
        name for name in parameter_dict if name not in names
    ]
