"""What a Cell has apart from its calls: buffers, its state as a dict, flags, and what MindSpore's cells say of how they are compiled."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from framejit._api import _dtypes
from framejit._tensors._parameter import Parameter
from framejit._tensors._tensor import Tensor

_FLOATS = tuple(_dtypes.ALL[name] for name in ("float16", "float32", "bfloat16"))


class IncompatibleKeys:
    """What `Cell.load_state_dict` found missing, and what it had no place for.

    Attributes
    ----------
    missing_keys, unexpected_keys : list of str
        The names.
    """

    def __init__(self, missing_keys: list[str], unexpected_keys: list[str]) -> None:
        self.missing_keys = missing_keys
        self.unexpected_keys = unexpected_keys

    def __iter__(self) -> Iterator[list[str]]:
        return iter((self.missing_keys, self.unexpected_keys))

    def __repr__(self) -> str:
        if not (self.missing_keys or self.unexpected_keys):
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class CellState:
    """The base of `Cell`."""

    _params: Any = None  # before Cell.__init__ has run
    _cells: Any = None
    _saved_tensors_pack_hook: Any = None
    _saved_tensors_unpack_hook: Any = None

    # What MindSpore's graphs keep with a cell. Programs read and set these; nothing depends on them here.
    IGNORE_LIST: Any = ()
    total_instance_count: int = 0
    grad_ops_label: bool = False
    bprop_debug: bool = False
    cell_type: Any = None
    is_top_cell: bool = False
    arguments_key: str = ""
    compiled: bool = False
    compile_phase: Any = None
    sequence_modified: Any = None
    parallel_parameter_name_list: Any = ()
    _dynamic_shape_inputs: Any = None
    _has_mutable_args_list: Any = None
    _amp_level: str = ""
    _scope: Any = None
    _param_prefix: str = ""
    _cell_tag: str = ""
    _compile_args: Any = None
    _is_recursion_hook: bool = False
    _recompute_cell: Any = None
    _shard_fn: Any = None
    _in_strategy: Any = None
    _out_strategy: Any = None
    _float_type: Any = None
    _phase: str = "train"
    _buffers: Any = None
    _flags: Any = None
    _hooks_of_state: Any = None

    # --- Attributes ------------------------------------------------------------------------------------------------------

    @property
    def phase(self) -> str:
        """``'train'`` or ``'predict'``, as `set_train` was told last, or what was assigned."""
        return self._phase

    @phase.setter
    def phase(self, value: str) -> None:
        if not isinstance(value, str):
            raise TypeError(f"For 'Cell', the type of 'phase' must be str, but got {type(value).__name__}.")
        object.__setattr__(self, "_phase", value)

    @property
    def param_prefix(self) -> str:
        """The path of the cell, once `update_cell_prefix` has been called on one above it."""
        return self._param_prefix

    @property
    def has_bprop(self) -> bool:
        """Whether the class has gradients of its own."""
        return hasattr(type(self), "bprop")

    @property
    def jit_config_dict(self) -> dict[str, Any]:
        """What `set_jit_config` was told."""
        return dict(self.__dict__.get("_jit_config") or {})

    @property
    def create_time(self) -> int:
        """When it was asked for first, in nanoseconds: no two cells have the same."""
        return self.__dict__.setdefault("_create_time", time.time_ns())

    @property
    def compile_cache(self) -> set[Any]:
        """Empty: graphs are kept with the code that they are of."""
        return set()

    @property
    def parameter_layout_dict(self) -> dict[str, Any]:
        """Empty: there is one device."""
        return {}

    parallel_parameter_merge_net_dict = parameter_layout_dict

    @property
    def mixed_precision_type(self) -> Any:
        """The dtype that `to_float` was told, or None."""
        return self._float_type

    # --- Flags ------------------------------------------------------------------------------------------------------------

    def add_flags(self, **flags: Any) -> Any:
        """Set attributes, which `get_flags` has by name."""
        self.__dict__.setdefault("_func_graph_flags", {}).update(flags)
        self.__dict__.update(flags)
        return self

    def add_flags_recursive(self, **flags: Any) -> Any:
        """`add_flags` of this cell and of those below it."""
        self.add_flags(**flags)
        for cell in self._cells.values():
            cell.add_flags_recursive(**flags)
        return self

    def get_flags(self) -> dict[str, Any]:
        """The attributes that `add_flags` has set, by name."""
        return self.__dict__.setdefault("_func_graph_flags", {})

    def set_boost(self, boost_type: str) -> Any:
        """Set the flag ``less_bn``, the one algorithm that MindSpore has; nothing depends on it."""
        if boost_type != "less_bn":
            raise ValueError(f"For 'set_boost', the argument 'boost_type' must be 'less_bn', but got {boost_type}.")
        return self.add_flags_recursive(less_bn=True)

    def set_broadcast_flag(self, mode: bool = True) -> Any:
        """Set a flag about copies of parameters on other devices; nothing depends on it."""
        return self.add_flags_recursive(broadcast_flag=mode)

    def set_comm_fusion(self, fusion_type: int, recurse: bool = True) -> Any:
        """Set ``comm_fusion`` of the parameters; nothing depends on it."""
        if not isinstance(fusion_type, int) or fusion_type < 0:
            raise ValueError(
                f"For 'set_comm_fusion', the 'fusion_type' must be a non-negative int, but got {fusion_type!r}."
            )
        for parameter in self.trainable_params(recurse):  # type: ignore[attr-defined]
            parameter.comm_fusion = fusion_type
        return self

    def set_data_parallel(self) -> None:
        """Nothing: there is one device."""

    def shard(self, in_strategy: Any, out_strategy: Any = None, parameter_plan: Any = None) -> None:
        """Nothing: there is one device."""

    def offload(self, backward_prefetch: Any = "Auto") -> None:
        """Nothing: what is kept for gradients is in the memory of the processor."""

    def recompute(self, **kwargs: Any) -> None:
        """Nothing: what is cheap to compute again is not kept for gradients anyway."""

    def update_cell_type(self, cell_type: Any) -> None:
        """Set ``cell_type``."""
        self.cell_type = cell_type

    def update_cell_prefix(self) -> None:
        """Give this cell and those below it their paths as ``param_prefix``."""
        for path, cell in self.cells_and_names():  # type: ignore[attr-defined]
            cell.__dict__["_param_prefix"] = path

    def get_scope(self) -> Any:
        """The name of the cell in the network, once `generate_scope` has been called."""
        return self._scope

    def generate_scope(self) -> None:
        """Name the cells below this one by their paths."""
        for path, cell in self.cells_and_names():  # type: ignore[attr-defined]
            if path:
                cell.__dict__["_scope"] = f"Default/{path.replace('.', '/')}-{type(cell).__name__}"

    def check_names_and_refresh_name(self) -> None:
        """Name the parameters by their paths, and check that no two have one name."""
        self.update_parameters_name()  # type: ignore[attr-defined]
        self.check_names()  # type: ignore[attr-defined]

    def remove_redundant_parameters(self) -> None:
        """Nothing: there are none."""

    def cast_inputs(self, inputs: Any, dst_type: Any) -> Any:
        """The floats among the inputs as another dtype."""
        return tuple([as_float(item, dst_type) for item in inputs])

    def to_float(self, dst_type: Any) -> Any:
        """Convert the floats that this cell and those below it are called with, and their parameters where they are used."""
        if dst_type not in _FLOATS:
            raise ValueError(
                f"For 'to_float', the argument 'dst_type' must be float32, float16 or bfloat16, but got {dst_type!r}."
            )
        for _, cell in self.cells_and_names():  # type: ignore[attr-defined]
            cell.add_flags(fp16=dst_type == _FLOATS[0], fp32=dst_type == _FLOATS[1], bf16=dst_type == _FLOATS[2])
            cell.__dict__["_float_type"] = dst_type
            cell._update_hooked()
        return self

    def init_parameters_data(self, auto_parallel_mode: bool = False) -> dict[Parameter, Parameter]:
        """The parameters, each by itself: they have their elements from the start."""
        return {parameter: parameter for parameter in self.get_parameters()}  # type: ignore[attr-defined]

    def parameters_broadcast_dict(self, recurse: bool = True) -> Any:
        """The parameters by name, or None if there are none."""
        return self.parameters_dict(recurse) or None  # type: ignore[attr-defined]

    def get_func_graph_proto(self) -> None:
        """None: there is no graph of the network as a whole."""

    # --- Buffers and state ---------------------------------------------------------------------------------------------------

    def get_sub_cell(self, target: str) -> Any:
        """The cell below this one at a path such as ``'block.dense'``."""
        cell: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(cell, name):
                raise AttributeError(f"{type(cell).__name__} has no attribute `{name}`")
            cell = getattr(cell, name)
            if not isinstance(cell, CellState):
                raise AttributeError(f"`{name}` is not an nn.Cell")
        return cell

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a Tensor as an attribute that is part of the state and is not trained; without `persistent` it is not in `state_dict`."""
        if self._params is None:
            raise AttributeError("cannot assign buffer before Cell.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"buffer name should be a string.But got this type: {type(name)}")
        if not name or "." in name:
            raise KeyError('buffer name can\'t contain "."' if name else 'buffer name can\'t be empty string ""')
        buffers = self.__dict__.setdefault("_buffers", {})
        if hasattr(self, name) and name not in buffers:
            raise KeyError(f"attribute '{name}' already exists")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{type(tensor)}' object to buffer '{name}' (Tensor or None required)")
        buffers[name] = persistent
        self.__dict__[name] = tensor

    def get_buffer(self, target: str) -> Any:
        """The buffer at a path."""
        path, _, name = target.rpartition(".")
        cell = self.get_sub_cell(path)
        if not hasattr(cell, name):
            raise AttributeError(f"{type(cell).__name__} has no attribute `{name}`")
        if name not in (cell._buffers or ()):
            raise AttributeError(f"`{name}` is not a buffer")
        return getattr(cell, name)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their paths."""
        seen: set[int] = set()
        for path, cell in self.cells_and_names(name_prefix=prefix) if recurse else [(prefix, self)]:  # type: ignore[attr-defined]
            for name in cell._buffers or ():
                buffer = getattr(cell, name)
                if buffer is None or (remove_duplicate and id(buffer) in seen):
                    continue
                seen.add(id(buffer))
                yield f"{path}.{name}" if path else name, buffer

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_extra_state(self) -> Any:
        """What else is to be in `state_dict`; defined by the class, with `set_extra_state`."""
        raise RuntimeError("Reached a code path in Cell.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` gave."""
        raise RuntimeError("Reached a code path in Cell.set_extra_state() that should never be called.")

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and buffers by their paths.

        Parameters
        ----------
        *args
            `destination`, `prefix` and `keep_vars` by position.
        destination : dict, optional
            What they are put into.
        prefix : str
            What each path begins with.
        keep_vars : bool
            Accepted and ignored: what is in the dict are the parameters themselves.
        """
        given = dict(zip(("destination", "prefix", "keep_vars"), args))
        destination, prefix = given.get("destination", destination), given.get("prefix", prefix)
        if destination is not None and not isinstance(destination, dict):
            raise TypeError(f"The type of destination must be OrderedDict, but got {type(destination)}")
        if not isinstance(prefix, str):
            raise TypeError(f"The type of prefix must be string, but got {type(prefix)}")
        if not isinstance(given.get("keep_vars", keep_vars), bool):
            raise TypeError(f"The type of keep_vars must be bool, but got {type(keep_vars)}")
        out = OrderedDict() if destination is None else destination
        for hook in self._state_hooks("before"):
            hook(self, prefix, keep_vars)
        for name, parameter in self._params.items():
            if parameter is not None:
                out[prefix + name] = parameter
        for name, persistent in (self._buffers or {}).items():
            if persistent and getattr(self, name) is not None:
                out[prefix + name] = getattr(self, name)
        if type(self).get_extra_state is not CellState.get_extra_state:
            out[prefix + "_extra_state"] = self.get_extra_state()
        for name, cell in self._cells.items():
            if cell is not None:
                cell.state_dict(destination=out, prefix=f"{prefix}{name}.")
        for hook in self._state_hooks("after"):
            hook(self, out, prefix, {})
        return out

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copy values into the parameters and buffers, by their paths.

        Parameters
        ----------
        state_dict : mapping of str to Tensor
            What `state_dict` gave.
        strict : bool
            Whether names that are missing, or have no place, are an error.

        Raises
        ------
        RuntimeError
            If names or shapes do not fit.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        errors: list[str] = []
        missing: list[str] = []
        unexpected = set(state_dict)
        for path, cell in self.cells_and_names():  # type: ignore[attr-defined]
            front = f"{path}." if path else ""
            for hook in cell._state_hooks("load"):
                hook(cell, state_dict, front, {}, strict, missing, [], errors)
            places = dict(cell._params)
            places.update({name: getattr(cell, name) for name, kept in (cell._buffers or {}).items() if kept})
            if type(cell).get_extra_state is not CellState.get_extra_state:
                if front + "_extra_state" in state_dict:
                    cell.set_extra_state(state_dict[front + "_extra_state"])
                    unexpected.discard(front + "_extra_state")
                else:
                    missing.append(front + "_extra_state")
            for name, place in places.items():
                if place is None:
                    continue
                if front + name not in state_dict:
                    missing.append(front + name)
                    continue
                unexpected.discard(front + name)
                value = state_dict[front + name]
                if not isinstance(value, Tensor) or value.shape != place.shape:
                    errors.append(
                        f"size mismatch for {front + name}: {getattr(value, 'shape', value)} in the state, {place.shape} here"
                    )
                    continue
                place.assign_value(value.astype(place.dtype))
        found = IncompatibleKeys(missing, sorted(unexpected))
        for hook in self._state_hooks("loaded"):
            hook(self, found)
        if strict and found.unexpected_keys:
            errors.insert(0, f"Unexpected key(s) in state_dict: {', '.join(found.unexpected_keys)}")
        if strict and found.missing_keys:
            errors.insert(0, f"Missing key(s) in state_dict: {', '.join(found.missing_keys)}")
        if errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}: " + "; ".join(errors))
        return found

    def _state_hooks(self, when: str) -> list[Callable[..., Any]]:
        return list((self._hooks_of_state or {}).get(when, {}).values())

    def _register_state_hook(self, when: str, hook: Callable[..., Any]) -> Any:
        from framejit._autodiff._hooks import HookHandle

        kept = self.__dict__.setdefault("_hooks_of_state", {}).setdefault(when, {})
        return HookHandle(kept, hook, lambda: None)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """Call ``hook(cell, prefix, keep_vars)`` before `state_dict` collects."""
        return self._register_state_hook("before", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> Any:
        """Call ``hook(cell, state_dict, prefix, local_metadata)`` after `state_dict` has collected."""
        return self._register_state_hook("after", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """Call ``hook(cell, state_dict, prefix, metadata, strict, missing_keys, unexpected_keys, error_msgs)`` before `load_state_dict` copies."""
        return self._register_state_hook("load", hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> Any:
        """Call ``hook(cell, incompatible_keys)`` after `load_state_dict` has copied."""
        return self._register_state_hook("loaded", hook)


def as_float(x: Any, dtype: Any) -> Any:
    """A Tensor of floats as another dtype; also those in tuples and lists. Other values as they are."""
    if type(x) in (tuple, list):
        return type(x)([as_float(item, dtype) for item in x])
    return x.astype(dtype) if isinstance(x, Tensor) and x.dtype in _FLOATS and x.dtype != dtype else x
