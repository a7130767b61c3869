"""Collective operations, under MindSpore's names. There is one process, so each result has the values of this process."""

from __future__ import annotations

import hashlib
from typing import Any

from framejit._core import Tensor
from framejit.ops import _process_group as _group
from framejit.ops._in_place import _written
from framejit.ops._primitives import _define
from framejit.ops._process_group import HCCL_WORLD_COMM_GROUP, GlobalComm

__all__ = [
    "CommHandle", "ReduceOp", "all_gather", "all_gather_into_tensor", "all_gather_into_tensor_uneven", "all_gather_object", "all_reduce",
    "all_to_all", "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "destroy_process_group", "gather_into_tensor",
    "gather_object", "get_backend", "get_global_rank", "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size",
    "init_process_group", "irecv", "is_available", "is_initialized", "isend", "new_group", "recv", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "reduce_scatter_tensor_uneven", "scatter_object_list", "scatter_tensor", "send",
]  # fmt: skip


class ReduceOp:
    """The reductions over the operands of all processes."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    AVG = "avg"


class CommHandle:
    """Returned by a collective operation with `async_op`, which has ended already."""

    def wait(self) -> None:
        """Return at once."""


# --- Arguments ---------------------------------------------------------------------------------------------------------------


def _name(function: str, group: Any) -> str:
    return _group._existing(function, GlobalComm.WORLD_COMM_GROUP if group is None else group)


def _check(function: str, group: Any, async_op: Any = False, *tensors: Any, op: Any = "sum", rank: Any = 0) -> None:
    """Raise MindSpore's errors for arguments that no group of one process can take."""
    _name(function, group)
    if not isinstance(async_op, bool):
        raise TypeError(f"The argument 'async_op' must be a bool, but got {type(async_op)}.")
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"For {function}, the input tensor must be tensor, but got {type(tensor)}.")
    if op not in ("sum", "prod", "min", "max", "avg"):
        raise TypeError(f"For {function}, the input op value must be one of sum, prod, min, max, avg, but got {op!r}.")
    if not isinstance(rank, int):
        raise TypeError(f"For {function}, the rank must be int, but got {type(rank)}.")
    if rank != 0:
        raise RuntimeError(f"For {function}, there is one process, of rank 0, but got the rank {rank}.")


def _only(function: str, given: Any) -> Any:
    """The item of a list that has one for each process."""
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"For {function}, expected list or tuple, but got {type(given)}.")
    if len(given) != 1:
        raise TypeError(
            f"For {function}, the length of the list must be the number of processes, 1, but got {len(given)}."
        )
    return given[0]


def _into(function: str, output: Any, input: Any, async_op: bool) -> Any:
    """Write the output; a handle if it is not waited for."""
    if output is not input:
        if output.shape != input.shape:
            raise TypeError(f"For {function}, the output shape should be {input.shape}, but got {output.shape}.")
        if output.dtype != input.dtype:
            raise TypeError(f"For {function}, the output dtype should be {input.dtype}, but got {output.dtype}.")
        _written(output, input)
    return CommHandle() if async_op else None


# --- The group ---------------------------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Return True."""
    return True


def is_initialized() -> bool:
    """Return whether there is a group."""
    return GlobalComm.INITED


def init_process_group(
    backend: str = "hccl", init_method: Any = None, timeout: Any = None, world_size: int = -1, rank: int = -1, store: Any = None,
    group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Begin a group of this process alone.

    Parameters
    ----------
    backend : str
        ``"hccl"`` or ``"mccl"``; both are the group of one process.
    init_method, timeout, store, group_name, pg_options, device_id : object, optional
        Ignored.
    world_size : int
        1, or -1 for the number of processes.
    rank : int
        0, or -1 for the rank of this process.
    """
    if backend not in ("hccl", "mccl"):
        raise ValueError(f"Only support hccl and mccl, but got {backend!r}.")
    if world_size not in (-1, 1):
        raise ValueError(f"world_size is wrong, please using default value or setting: 1, but got {world_size}.")
    if rank not in (-1, 0):
        raise ValueError(f"The rank must be 0, because there is one process, but got {rank}.")
    _group.init()


def destroy_process_group(group: str | None = None) -> None:
    """Forget a group, or all of them."""
    if group is None or group == GlobalComm.WORLD_COMM_GROUP:
        _group.release()
    else:
        _group.destroy_group(group)


def get_rank(group: str | None = None) -> int:
    """Return the rank of this process: 0; -1 if there is no such group."""
    try:
        return _group.get_rank(GlobalComm.WORLD_COMM_GROUP if group is None else group)
    except RuntimeError:
        return -1


def get_world_size(group: str | None = None) -> int:
    """Return the number of processes: 1; -1 if there is no such group."""
    try:
        return _group.get_group_size(GlobalComm.WORLD_COMM_GROUP if group is None else group)
    except RuntimeError:
        return -1


def new_group(
    ranks: Any = None, timeout: Any = None, backend: Any = None, pg_options: Any = None, use_local_synchronization: bool = False,
    group_desc: Any = None,
) -> str:  # fmt: skip
    """Begin another group, and return its name; an empty one if there is no such group.

    Parameters
    ----------
    ranks : list of int, optional
        ``[0]``; by default the group of all processes is returned.
    timeout, pg_options, use_local_synchronization, group_desc : object, optional
        Ignored.
    backend : str, optional
        ``"hccl"`` or ``"mccl"``.
    """
    if ranks is None:
        return GlobalComm.WORLD_COMM_GROUP
    if not isinstance(ranks, list):
        raise TypeError(f"ranks must be list, but got {type(ranks)}")
    backend = "hccl" if backend is None else backend
    if backend not in ("hccl", "mccl"):
        raise TypeError(f"the input backend must be hccl or mccl, but got {backend}")
    ranks = sorted(ranks)
    name = f"{backend}_{len(ranks)}_{hashlib.sha1('_'.join(map(str, ranks)).encode()).hexdigest()}"
    try:
        _group.create_group(name, ranks)
    except RuntimeError:
        return ""
    return name


def get_backend(group: str | None = None) -> str:
    """Return the backend of a group, by its name."""
    if group is None:
        return "hccl"
    _group._text("get_backend", group)
    return next((kind for kind in ("hccl", "mccl") if kind in group), GlobalComm.BACKEND)


def get_global_rank(group: str | None, group_rank: int) -> int:
    """Return the rank among all processes of a rank of a group."""
    _group._number("get_global_rank", "group_rank", group_rank)
    if group is None or group == GlobalComm.WORLD_COMM_GROUP:
        return group_rank
    return _group.get_world_rank_from_group_rank(group, group_rank)


def get_group_rank(group: str | None, global_rank: int) -> int:
    """Return the rank in a group of a rank among all processes."""
    _group._number("get_group_rank", "global_rank", global_rank)
    if group is None or group == GlobalComm.WORLD_COMM_GROUP:
        return global_rank
    return _group.get_group_rank_from_world_rank(global_rank, group)


def get_process_group_ranks(group: str | None = None) -> list[int]:
    """Return the ranks of the processes of a group."""
    return _group.get_process_group_ranks(GlobalComm.WORLD_COMM_GROUP if group is None else group)


# --- Functions that write their outputs ------------------------------------------------------------------------------------


def all_reduce(tensor: Any, op: str = "sum", group: str | None = None, async_op: bool = False) -> Any:
    """Write the sum, product, minimum, maximum or mean of the Tensors of all processes. With `async_op` a handle is returned, as by the functions below."""
    _check("all_reduce", group, async_op, tensor, op=op)
    return _into("all_reduce", tensor, tensor, async_op)


def reduce(tensor: Any, dst: int, op: str = "sum", group: str | None = None, async_op: bool = False) -> Any:
    """Write the sum, product, minimum, maximum or mean of the Tensors of all processes in one of them."""
    _check("reduce", group, async_op, tensor, op=op, rank=dst)
    return _into("reduce", tensor, tensor, async_op)


def broadcast(tensor: Any, src: int, group: str | None = None, async_op: bool = False) -> Any:
    """Write the Tensor of one process."""
    _check("broadcast", group, async_op, tensor, rank=src)
    return _into("broadcast", tensor, tensor, async_op)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: str | None = None, async_op: bool = False
) -> Any:
    """Write the Tensors of all processes, one after the other."""
    _check("all_gather_into_tensor", group, async_op, output_tensor, input_tensor)
    return _into("all_gather_into_tensor", output_tensor, input_tensor, async_op)


def all_gather_into_tensor_uneven(
    output: Any, input: Any, output_split_sizes: Any = None, group: str | None = None, async_op: bool = False
) -> Any:
    """Write the Tensors of all processes, which may be of several lengths, one after the other."""
    _check("all_gather_into_tensor_uneven", group, async_op, output, input)
    return _into("all_gather_into_tensor_uneven", output, input, async_op)


def gather_into_tensor(
    output_tensor: Any, input_tensor: Any, dst: int = 0, group: str | None = None, async_op: bool = False
) -> Any:
    """Write the Tensors of all processes, one after the other, in one of them."""
    _check("gather_into_tensor", group, async_op, output_tensor, input_tensor, rank=dst)
    return _into("gather_into_tensor", output_tensor, input_tensor, async_op)


def scatter_tensor(
    output_tensor: Any, input_tensor: Any, src: int = 0, group: str | None = None, async_op: bool = False
) -> Any:
    """Write the part of this process of the Tensor of one of them."""
    _check("scatter_tensor", group, async_op, output_tensor, input_tensor, rank=src)
    return _into("scatter_tensor", output_tensor, input_tensor, async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: str = "sum", group: str | None = None, async_op: bool = False
) -> Any:
    """Write this process's part of the sum, product, minimum, maximum or mean of all Tensors."""
    _check("reduce_scatter_tensor", group, async_op, output, input, op=op)
    return _into("reduce_scatter_tensor", output, input, async_op)


def reduce_scatter_tensor_uneven(
    output: Any,
    input: Any,
    input_split_sizes: Any = None,
    op: str = "sum",
    group: str | None = None,
    async_op: bool = False,
) -> Any:
    """Write this process's part, which may have a length of its own, of the sum, product, minimum, maximum or mean of all Tensors."""
    _check("reduce_scatter_tensor_uneven", group, async_op, output, input, op=op)
    return _into("reduce_scatter_tensor_uneven", output, input, async_op)


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, group: str | None = None,
    async_op: bool = False,
) -> Any:  # fmt: skip
    """Write the parts for this process of the Tensors of all of them."""
    _check("all_to_all_single", group, async_op, output, input)
    return _into("all_to_all_single", output, input, async_op)


def all_gather(tensor_list: Any, tensor: Any, group: str | None = None, async_op: bool = False) -> Any:
    """Write the Tensors of all processes, each into one of a list."""
    _check("all_gather", group, async_op, _only("all_gather", tensor_list), tensor)
    return _into("all_gather", tensor_list[0], tensor, async_op)


def gather(tensor: Any, gather_list: Any, dst: int = 0, group: str | None = None, async_op: bool = False) -> Any:
    """Write the Tensors of all processes, each into one of a list of one of them."""
    _check("gather", group, async_op, _only("gather", gather_list), tensor, rank=dst)
    return _into("gather", gather_list[0], tensor, async_op)


def scatter(tensor: Any, scatter_list: Any, src: int = 0, group: str | None = None, async_op: bool = False) -> Any:
    """Write the item for this process of the list of one of them."""
    _check("scatter", group, async_op, tensor, _only("scatter", scatter_list), rank=src)
    return _into("scatter", tensor, scatter_list[0], async_op)


def reduce_scatter(
    output: Any, input_list: Any, op: str = "sum", group: str | None = None, async_op: bool = False
) -> Any:
    """Write the sum, product, minimum, maximum or mean of the items for this process in the lists of all of them."""
    _check("reduce_scatter", group, async_op, output, _only("reduce_scatter", input_list), op=op)
    return _into("reduce_scatter", output, input_list[0], async_op)


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: str | None = None, async_op: bool = False
) -> Any:
    """Write the items for this process of the lists of all of them."""
    _check(
        "all_to_all", group, async_op, _only("all_to_all", output_tensor_list), _only("all_to_all", input_tensor_list)
    )
    return _into("all_to_all", output_tensor_list[0], input_tensor_list[0], async_op)


def barrier(group: str | None = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Wait for all processes."""
    _check("barrier", group, async_op)
    return CommHandle() if async_op else None


def all_gather_object(object_list: list[Any], obj: Any, group: str | None = None) -> None:
    """Put the objects of all processes into a list."""
    _check("all_gather_object", group)
    _only("all_gather_object", object_list)
    object_list[0] = _sent(obj)


def gather_object(obj: Any, object_gather_list: Any = None, dst: int = 0, group: str | None = None) -> None:
    """Put the objects of all processes into a list of one of them."""
    _check("gather_object", group, rank=dst)
    _only("gather_object", object_gather_list)
    object_gather_list[0] = _sent(obj)


def broadcast_object_list(object_list: list[Any], src: int = 0, group: str | None = None, device: Any = None) -> None:
    """Take the objects of one process: this list has them."""
    _check("broadcast_object_list", group, rank=src)
    if not isinstance(object_list, list) or not object_list:
        raise TypeError("The object_list can not be empty.")


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: Any, src: int = 0, group: str | None = None
) -> None:
    """Put the object for this process into a list."""
    _check("scatter_object_list", group, rank=src)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise TypeError("The scatter_object_output_list can not be empty.")
    scatter_object_output_list[0] = _sent(_only("scatter_object_list", scatter_object_input_list))


def _sent(value: Any) -> Any:
    """An object as it arrives: a copy."""
    import pickle

    return pickle.loads(pickle.dumps(value))


def _no_other(function: str, tensor: Any, rank: Any, group: Any) -> Any:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"For {function}, the input tensor must be tensor, but got {type(tensor)}.")
    _check(function, group, rank=rank)
    raise ValueError(
        "Invalid destination rank: destination rank should not be the same as the rank of the current process."
        if "send" in function
        else "Invalid source rank: source rank should not be the same as the rank of the current process."
    )


def send(tensor: Any, dst: int = 0, group: str | None = None, tag: int = 0) -> None:
    """Send a Tensor to another process: an error, because there is none."""
    _no_other("send", tensor, dst, group)


def recv(tensor: Any, src: int = 0, group: str | None = None, tag: int = 0) -> Any:
    """Take a Tensor from another process: an error, because there is none."""
    return _no_other("recv", tensor, src, group)


def isend(tensor: Any, dst: int = 0, group: str | None = None, tag: int = 0) -> Any:
    """Send a Tensor to another process without waiting: an error, because there is none."""
    return _no_other("isend", tensor, dst, group)


def irecv(tensor: Any, src: int = 0, group: str | None = None, tag: int = 0) -> Any:
    """Take a Tensor from another process without waiting: an error, because there is none."""
    return _no_other("irecv", tensor, src, group)


# --- Primitives --------------------------------------------------------------------------------------------------------------


def _reduced(x: Any, op: str, group: str) -> Any:
    _check("AllReduce", group, False, x, op=op)
    return x.copy()


def _gathered(x: Any, group: str) -> Any:
    _check("AllGather", group, False, x)
    return x.copy()


def _broadcast(x: Any, root_rank: int, group: str) -> Any:
    _check("Broadcast", group, False, *x, rank=root_rank)
    return tuple([one.copy() for one in x])


def _reduced_in_one(x: Any, dest_rank: int, op: str, group: str) -> Any:
    _check("Reduce", group, False, x, op=op, rank=dest_rank)
    return x.copy()


def _from_or_to_one(x: Any, rank: int, group: str) -> Any:
    _check("CollectiveGather", group, False, x, rank=rank)
    return x.copy()


def _exchanged(x: Any, split_count: int, split_dim: int, concat_dim: int, group: str) -> Any:
    _check("AlltoAll", group, False, x)
    if split_count != 1:
        raise ValueError(
            f"For 'AlltoAll', the 'split_count' must be the number of processes, 1, but got {split_count}."
        )
    return x.copy()


def _waited(group: str) -> None:
    _check("Barrier", group)


_GROUP = {"group": HCCL_WORLD_COMM_GROUP}
_define(
    globals(),
    {
        "AllReduce": (_reduced, {"op": "sum", **_GROUP}),
        "ReduceScatter": (_reduced, {"op": "sum", **_GROUP}),
        "AllGather": (_gathered, _GROUP),
        "Broadcast": (_broadcast, {"root_rank": None, **_GROUP}),
        "Reduce": (_reduced_in_one, {"dest_rank": None, "op": "sum", **_GROUP}),
        "CollectiveGather": (
            lambda x, dest_rank, group: _from_or_to_one(x, dest_rank, group),
            {"dest_rank": None, **_GROUP},
        ),
        "CollectiveScatter": (
            lambda x, src_rank, group: _from_or_to_one(x, src_rank, group),
            {"src_rank": 0, **_GROUP},
        ),
        "AlltoAll": (_exchanged, {"split_count": None, "split_dim": None, "concat_dim": None, **_GROUP}),
        "Barrier": (_waited, _GROUP),
    },
)
