"""Collective operations as functions that return their results, and a handle to wait for if there is one."""

from __future__ import annotations

from typing import Any

from framejit.ops import _collectives as _own
from framejit.ops._process_group import HCCL_WORLD_COMM_GROUP

__all__ = [
    "all_gather_into_tensor", "all_reduce", "barrier", "broadcast", "gather_into_tensor", "irecv", "isend", "recv", "reduce",
    "reduce_scatter_tensor", "scatter_tensor", "send",
]  # fmt: skip


def _given(tensor: Any, async_op: bool) -> Any:
    return tensor.copy(), _own.CommHandle() if async_op else None


def all_reduce(tensor: Any, op: str = "sum", group: str = HCCL_WORLD_COMM_GROUP, async_op: bool = False) -> Any:
    """Return the sum, product, minimum, maximum or mean of the Tensors of all processes, and a handle."""
    _own._check("all_reduce", group, async_op, tensor, op=op)
    return _given(tensor, async_op)


def all_gather_into_tensor(tensor: Any, group: str = HCCL_WORLD_COMM_GROUP, async_op: bool = False) -> Any:
    """Return the Tensors of all processes, one after the other, and a handle."""
    _own._check("all_gather_into_tensor", group, async_op, tensor)
    return _given(tensor, async_op)


def reduce_scatter_tensor(
    tensor: Any, op: str = "sum", group: str = HCCL_WORLD_COMM_GROUP, async_op: bool = False
) -> Any:
    """Return this process's part of the sum, product, minimum, maximum or mean of all Tensors, and a handle."""
    _own._check("reduce_scatter_tensor", group, async_op, tensor, op=op)
    return _given(tensor, async_op)


def reduce(tensor: Any, dst: int, op: str = "sum", group: str = HCCL_WORLD_COMM_GROUP) -> Any:
    """Return the sum, product, minimum, maximum or mean of the Tensors of all processes."""
    _own._check("reduce", group, False, tensor, op=op, rank=dst)
    return tensor.copy()


def scatter_tensor(tensor: Any, src: int = 0, group: str = HCCL_WORLD_COMM_GROUP) -> Any:
    """Return the part of this process of the Tensor of one of them."""
    _own._check("scatter_tensor", group, False, tensor, rank=src)
    return tensor.copy()


def gather_into_tensor(tensor: Any, dst: int = 0, group: str = HCCL_WORLD_COMM_GROUP) -> Any:
    """Return the Tensors of all processes, one after the other."""
    _own._check("gather_into_tensor", group, False, tensor, rank=dst)
    return tensor.copy()


def broadcast(tensor: Any, src: int = 0, group: str = HCCL_WORLD_COMM_GROUP) -> Any:
    """Return the Tensor of one process."""
    _own._check("broadcast", group, False, tensor, rank=src)
    return tensor.copy()


def barrier(group: str = HCCL_WORLD_COMM_GROUP) -> Any:
    """Wait for all processes."""
    return _own.barrier(group)


def send(tensor: Any, dst: int = 0, group: str = HCCL_WORLD_COMM_GROUP, tag: int = 0) -> Any:
    """Send a Tensor to another process: an error, because there is none."""
    return _own.send(tensor, dst, group, tag)


def recv(tensor: Any, src: int = 0, group: str = HCCL_WORLD_COMM_GROUP, tag: int = 0) -> Any:
    """Take a Tensor from another process: an error, because there is none."""
    return _own.recv(tensor, src, group, tag)


def isend(tensor: Any, dst: int = 0, group: str = HCCL_WORLD_COMM_GROUP, tag: int = 0) -> Any:
    """Send a Tensor to another process without waiting: an error, because there is none."""
    return _own.isend(tensor, dst, group, tag)


def irecv(tensor: Any, src: int = 0, group: str = HCCL_WORLD_COMM_GROUP, tag: int = 0) -> Any:
    """Take a Tensor from another process without waiting: an error, because there is none."""
    return _own.irecv(tensor, src, group, tag)
