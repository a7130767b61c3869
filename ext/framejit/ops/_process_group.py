"""The processes that compute together, under MindSpore's names: this one alone, which has rank 0 of each group."""

from __future__ import annotations

import os
from typing import Any

HCCL_WORLD_COMM_GROUP = "hccl_world_group"
NCCL_WORLD_COMM_GROUP = "nccl_world_group"
MCCL_WORLD_COMM_GROUP = "mccl_world_group"


class GlobalComm:
    """The backend, the name of the group of all processes, and whether `init` was called."""

    BACKEND = "hccl"
    WORLD_COMM_GROUP = HCCL_WORLD_COMM_GROUP
    INITED = False
    CHECK_ENVS = True


_groups: dict[str, list[int]] = {}


def _text(function: str, group: Any) -> str:
    if not isinstance(group, str):
        raise TypeError(
            f"For '{function}', the argument 'group' must be type of string, but got 'group' type : {type(group)}."
        )
    return GlobalComm.WORLD_COMM_GROUP if group == HCCL_WORLD_COMM_GROUP else group


def _number(function: str, name: str, value: Any) -> None:
    if not isinstance(value, int):
        raise TypeError(
            f"For '{function}', the argument '{name}' must be type of int, but got '{name}' type : {type(value)}."
        )


def _existing(function: str, group: Any) -> str:
    """The name of a group of this process; an error before `init`, and for a group that there is not."""
    group = _text(function, group)
    if not GlobalComm.INITED:
        raise RuntimeError(
            "Distributed Communication has not been inited. You can't invoke this interface yet. Please call `init()` method first."
        )
    if group != GlobalComm.WORLD_COMM_GROUP and group not in _groups:
        raise RuntimeError(f"The group {group} does not exist.")
    return group


def init(backend_name: str | None = None) -> None:
    """Begin a group of this process alone.

    Parameters
    ----------
    backend_name : str, optional
        ``"mccl"``, the one for CPUs.

    Raises
    ------
    RuntimeError
        If there is no such backend, or a launcher has started several processes.
    """
    backend_name = "mccl" if backend_name is None else backend_name
    if not isinstance(backend_name, str):
        raise TypeError(
            f"For 'init', the argument 'backend_name' must be a string, but got the type : {type(backend_name)}"
        )
    if backend_name in ("hccl", "nccl"):
        raise RuntimeError(
            f"For 'init', the argument 'backend_name' should be 'mccl' to init 'CPU', but got '{backend_name}'."
        )
    if backend_name != "mccl":
        raise RuntimeError(
            f"For 'init', the argument 'backend_name' must be one of 'hccl', 'nccl' and 'mccl', but got 'backend_name' : {backend_name}"
        )
    for variable in ("MS_WORKER_NUM", "RANK_SIZE", "OMPI_COMM_WORLD_SIZE"):
        if os.environ.get(variable, "1") != "1":
            raise RuntimeError(
                f"framejit computes in one process, but {variable} says that there are {os.environ[variable]}."
            )
    GlobalComm.BACKEND, GlobalComm.WORLD_COMM_GROUP, GlobalComm.INITED = "mccl", MCCL_WORLD_COMM_GROUP, True


def release() -> None:
    """Forget all groups; `init` may be called again."""
    _groups.clear()
    GlobalComm.BACKEND, GlobalComm.WORLD_COMM_GROUP, GlobalComm.INITED = "hccl", HCCL_WORLD_COMM_GROUP, False


def _told(function: str, group: Any, variable: str, alone: int) -> int:
    """A number of this process in a group: before `init` the one that the environment says."""
    _text(function, group)
    if not GlobalComm.INITED:
        return int(os.environ.get(variable, str(alone)))
    _existing(function, group)
    return alone


def get_rank(group: str = HCCL_WORLD_COMM_GROUP) -> int:
    """Return the rank of this process: 0."""
    return _told("get_rank", group, "RANK_ID", 0)


def get_local_rank(group: str = HCCL_WORLD_COMM_GROUP) -> int:
    """Return the rank of this process on its machine: 0."""
    return _told("get_local_rank", group, "LOCAL_RANK", 0)


def get_group_size(group: str = HCCL_WORLD_COMM_GROUP) -> int:
    """Return the number of processes: 1."""
    return _told("get_group_size", group, "RANK_SIZE", 1)


def get_local_rank_size(group: str = HCCL_WORLD_COMM_GROUP) -> int:
    """Return the number of processes on this machine: 1."""
    return _told("get_local_rank_size", group, "LOCAL_RANK_SIZE", 1)


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    """Return the rank among all processes of a rank of a group."""
    _existing("get_world_rank_from_group_rank", group)
    _number("get_world_rank_from_group_rank", "group_rank_id", group_rank_id)
    if group_rank_id != 0:
        raise RuntimeError(f"The group {group} has no rank {group_rank_id}.")
    return 0


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    """Return the rank in a group of a rank among all processes."""
    _existing("get_group_rank_from_world_rank", group)
    _number("get_group_rank_from_world_rank", "world_rank_id", world_rank_id)
    if world_rank_id != 0:
        raise RuntimeError(f"The rank {world_rank_id} is not in the group {group}.")
    return 0


def create_group(group: str, rank_ids: list[int], options: Any = None) -> None:
    """Begin another group of this process.

    Parameters
    ----------
    group : str
        Its name.
    rank_ids : list of int
        ``[0]``.
    options : object, optional
        Ignored.
    """
    _text("create_group", group)
    _existing("create_group", GlobalComm.WORLD_COMM_GROUP)
    if group in _groups and rank_ids != _groups[group]:
        raise ValueError(
            f"The group {group} has been created, the rank_list is {_groups[group]}, but current rank_list for the group is {rank_ids}"
        )
    if not isinstance(rank_ids, list):
        raise TypeError(
            f"For 'create_group', the argument 'rank_ids' must be type of list, but got 'rank_ids' type : {type(rank_ids)}."
        )
    if not rank_ids:
        raise ValueError("For 'create_group', the argument 'rank_ids' must not be empty.")
    if len(set(rank_ids)) != len(rank_ids):
        raise ValueError(f"List rank_ids in Group {group} has duplicate data!")
    if rank_ids != [0]:
        raise RuntimeError(f"There is one process, of rank 0, but the group {group} is to have {rank_ids}.")
    _groups[group] = list(rank_ids)


def destroy_group(group: str) -> None:
    """Forget a group that `create_group` has made."""
    if _existing("destroy_group", group) == GlobalComm.WORLD_COMM_GROUP:
        raise ValueError("The world_group does not support destruction.")
    del _groups[group]


def get_comm_name(group: str = HCCL_WORLD_COMM_GROUP) -> str:
    """Return the name of the channel of a group: its own name."""
    return _existing("get_comm_name", group)


def get_process_group_ranks(group: str = HCCL_WORLD_COMM_GROUP) -> list[int]:
    """Return the ranks of the processes of a group: ``[0]``."""
    _existing("get_process_group_ranks", group)
    return [0]
