"""Cell: the parts of networks."""

from __future__ import annotations

import inspect
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from framejit import context
from framejit._api._control import is_compiling
from framejit._autodiff._hooks import HookHandle, call_with_backward, saved_tensors_hooks
from framejit._autodiff._primitives import assign, is_kept
from framejit._tensors._parameter import Parameter, ParameterTuple
from framejit._tensors._tensor import Tensor
from framejit.nn._cell_state import CellState, as_float

_KEPT = 1 << 20  # bytes: a JitConfig with exc_mode='auto' lets smaller memory of a run stay for the next one


class Cell(CellState):
    """A network or a part of one: parameters and other cells as attributes, and what it computes as `construct`.

    Parameters
    ----------
    auto_prefix : bool
        Whether the names of the parameters of a cell in an attribute get the name of the attribute in front.
    flags : dict, optional
        Attributes to set.

    Examples
    --------
    >>> import framejit as fj
    >>> class Scale(fj.nn.Cell):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = fj.Parameter(fj.Tensor([2.0]))
    ...     def construct(self, x):
    ...         return x * self.factor
    >>> Scale()(fj.Tensor([1.0, 3.0])).tolist()
    [2.0, 6.0]
    """

    def __init__(self, auto_prefix: bool = True, flags: dict[str, Any] | None = None) -> None:
        self.__dict__.update(
            _params={},
            _cells={},
            _auto_prefix=auto_prefix,
            _training=False,
            _requires_grad=False,
            _pre_hooks={},
            _hooks={},
            _backward_pre_hooks={},
            _backward_hooks={},
            _with_kwargs={},
            _hooked=hasattr(type(self), "bprop"),
            _jit_config=None,
            _inputs={},
            cls_name=type(self).__name__,
        )
        if flags:
            self.add_flags(**flags)

    if TYPE_CHECKING:  # its parameters and cells, which classes name as they like, and what __init__ puts into __dict__

        def __getattr__(self, name: str) -> Any: ...

    # --- Calling -----------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooked:
            return self._call_with_hooks(args, kwargs)
        if is_compiling():
            return self.construct(*args, **kwargs)
        return self._compute(args, kwargs)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """What the cell computes; defined by the class."""
        raise AttributeError("For 'Cell', the method 'construct' is not defined.")

    def _compute(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if (self._jit_config is None and not context.in_graph_mode()) or os.environ.get("MS_JIT") == "0":
            return self.construct(*args, **kwargs)
        if self._inputs:
            self._mark_inputs(args, kwargs)
        return self._compiled_construct()(*args, **kwargs)

    def _mark_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        from framejit._api._specs import check_fits, mark_dynamic, unknown_lengths

        given = {**dict(zip(inspect.signature(self.construct).parameters, args)), **kwargs}
        for name, spec in self._inputs.items():
            if name in given and isinstance(given[name], Tensor) and isinstance(spec, Tensor):
                check_fits("set_inputs", name, spec, given[name])
                mark_dynamic(given[name], unknown_lengths(spec))

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for number, hook in list(self._pre_hooks.items()):
            if number in self._with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = changed
                continue
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        if self._float_type is not None:
            args = as_float(args, self._float_type)
            kwargs = {name: as_float(value, self._float_type) for name, value in kwargs.items()}
            return self._call_in_float(args, kwargs)
        return self._call_between(args, kwargs)

    def _call_in_float(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`_call_between`, in which the parameters are of the dtype of `to_float`."""
        params = list(self._params.items())
        for name, parameter in params:
            object.__setattr__(self, name, as_float(parameter, self._float_type))  # past Cell's, which takes Parameters
        try:
            return self._call_between(args, kwargs)
        finally:
            for name, parameter in params:
                object.__setattr__(self, name, parameter)

    def _call_between(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call without its hooks."""
        if self._saved_tensors_pack_hook is None:
            output = self._output(args, kwargs)
        else:
            with saved_tensors_hooks(self._saved_tensors_pack_hook, self._saved_tensors_unpack_hook):
                output = self._output(args, kwargs)
        for number, hook in list(self._hooks.items()):
            changed = hook(self, args, kwargs, output) if number in self._with_kwargs else hook(self, args, output)
            if changed is not None:
                output = changed
        return output

    def _output(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_kept() and (self._backward_hooks or self._backward_pre_hooks or hasattr(self, "bprop")):
            return call_with_backward(self, args, kwargs)
        if is_compiling():
            return self.construct(*args, **kwargs)
        return self._compute(args, kwargs)

    def _compiled_construct(self) -> Any:
        """`construct`, compiled as the cell and the context say."""
        from framejit._api._jit import OPTIONS, check_settings, compile_any, is_compiled, strict_syntax

        function = getattr(self.construct, "__func__", None)
        if function is None or is_compiled(function):  # marked by jit: its own arguments count
            return self.construct
        config = {} if self._jit_config is None else self._jit_config
        level = config.get("jit_level") or context.get_context("jit_level") or "O0"
        syntax = config.get("jit_syntax_level") or ("STRICT" if strict_syntax() else "LAX")
        backend = {"sink": "GE", "no_sink": "ms_backend"}.get(config.get("exc_mode", "auto"), "")
        automatic = config.get("exc_mode") == "auto"
        options = {name: config[name] for name in OPTIONS if name in config}
        if context.get_context("infer_boost") == "on":
            options.setdefault("infer_boost", "on")
        key = (level, syntax, backend, automatic, repr(options))
        compiled = function.__dict__.setdefault("__framejit_compiled__", {})
        if key not in compiled:
            settings = check_settings(
                capture_mode="ast",
                jit_level="O1" if level == "O2" else level,
                dynamic=False,
                fullgraph=syntax == "STRICT",
                backend=backend,
                options=options,
            )
            memory = {"resident": _KEPT} if automatic else {}
            compiled[key] = compile_any(function, {**settings, "jit_level": level, **memory})
        return compiled[key].__get__(self, type(self))

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: cells are compiled by their first call."""

    def compile_and_run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the cell."""
        return self(*args, **kwargs)

    def set_jit_config(self, jit_config: Any) -> None:
        """Compile calls of this cell as a `JitConfig` says; its cells become part of its graph."""
        self.__dict__["_jit_config"] = dict(jit_config.jit_config_dict)

    # --- Attributes ------------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        params, cells = self._params, self._cells  # no __dict__: capture follows this
        if params is None:
            if isinstance(value, (Parameter, Cell)):
                raise AttributeError(
                    "For 'Cell', the function '__init__' of the base class must be called before attributes are set."
                )
            object.__setattr__(self, name, value)
        elif isinstance(value, Parameter):
            self._forget(name)
            self.insert_param_to_cell(name, value)
        elif isinstance(value, ParameterTuple):
            self._forget(name)
            for parameter in value:
                params.setdefault(parameter.name, parameter)
            object.__setattr__(self, name, value)
        elif isinstance(value, Cell):
            self._forget(name)
            if self._auto_prefix:
                value.update_parameters_name(name + ".")
            cells[name] = value
            object.__setattr__(self, name, value)
        elif name in params and value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"For 'Cell', the type of {name} must be Parameter or Tensor, but got {type(value).__name__}: it already exists in "
                    "the network as a Parameter."
                )
            if value.dtype == params[name].dtype and value.shape == params[name].shape:
                assign(params[name], value)  # which is captured
            else:
                params[name].set_data(value)
        elif name in cells and value is not None:
            raise TypeError(f"For 'Cell', the type of {name} must be Cell, but got {type(value).__name__}.")
        else:
            if name in params or name in cells:
                self._forget(name)
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._forget(name)
        object.__delattr__(self, name)

    def _forget(self, name: str) -> None:
        self._params.pop(name, None)
        self._cells.pop(name, None)

    def insert_param_to_cell(
        self, param_name: str, param: Parameter | None, check_name_contain_dot: bool = True
    ) -> None:
        """Add a Parameter as an attribute."""
        if not isinstance(param_name, str) or not param_name:
            raise KeyError("For 'insert_param_to_cell', the argument 'param_name' should not be empty.")
        if check_name_contain_dot and "." in param_name:
            raise KeyError(
                f"For 'insert_param_to_cell', the argument 'param_name' should not contain '.', but got {param_name!r}."
            )
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"For 'insert_param_to_cell', the argument 'param' must be Parameter, but got {type(param).__name__}."
            )
        if param is not None:
            if not param._named:
                param.name = param_name
                param._named = True
            self._params[param_name] = param
        self.__dict__[param_name] = param

    def insert_child_to_cell(self, child_name: str, child_cell: Cell) -> None:
        """Add a Cell as an attribute."""
        if not isinstance(child_cell, Cell):
            raise TypeError(
                f"For 'insert_child_to_cell', the argument 'child_cell' must be Cell, but got {type(child_cell).__name__}."
            )
        if child_name in self._cells:
            raise KeyError(f"For 'insert_child_to_cell', the {child_name} child cell already exists in the network.")
        setattr(self, child_name, child_cell)

    # --- Parameters and cells -----------------------------------------------------------------------------------------------

    def cells(self) -> Any:
        """The cells in attributes."""
        return self._cells.values()

    def name_cells(self) -> OrderedDict[str, Cell]:
        """The cells in attributes by name."""
        return OrderedDict(self._cells)

    def cells_and_names(self, cells: set[int] | None = None, name_prefix: str = "") -> Iterator[tuple[str, Cell]]:
        """This cell and all below it, with their paths."""
        seen = set() if cells is None else cells
        if id(self) in seen:
            return
        seen.add(id(self))
        yield name_prefix, self
        for name, cell in self._cells.items():
            yield from cell.cells_and_names(seen, f"{name_prefix}.{name}" if name_prefix else name)

    def parameters_and_names(self, name_prefix: str = "", expand: bool = True) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their paths: of this cell first, then of its cells in the order of their definition."""
        seen: set[int] = set()
        for path, cell in self.cells_and_names(name_prefix=name_prefix) if expand else [(name_prefix, self)]:
            for name, parameter in cell._params.items():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield f"{path}.{name}" if path else name, parameter

    def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
        """The parameters."""
        for _, parameter in self.parameters_and_names(expand=expand):
            yield parameter

    def trainable_params(self, recurse: bool = True) -> list[Parameter]:
        """The parameters that require gradients."""
        return [parameter for parameter in self.get_parameters(recurse) if parameter.requires_grad]

    def untrainable_params(self, recurse: bool = True) -> list[Parameter]:
        """The other parameters."""
        return [parameter for parameter in self.get_parameters(recurse) if not parameter.requires_grad]

    def parameters_dict(self, recurse: bool = True) -> OrderedDict[str, Parameter]:
        """The parameters by name."""
        return OrderedDict((parameter.name, parameter) for parameter in self.get_parameters(recurse))

    def update_parameters_name(self, prefix: str = "", recurse: bool = True) -> None:
        """Name the parameters by their paths, with a prefix before them."""
        for path, parameter in self.parameters_and_names(expand=recurse):
            parameter.name = prefix + path
            parameter._named = True

    def check_names(self) -> None:
        """Raise `ValueError` where two parameters have one name."""
        ParameterTuple(self.get_parameters())

    def apply(self, fn: Callable[[Cell], Any]) -> Cell:
        """Call `fn` with each cell below, and this one last."""
        for cell in self.cells():
            cell.apply(fn)
        fn(self)
        return self

    # --- Modes ----------------------------------------------------------------------------------------------------------

    @property
    def training(self) -> bool:
        """Whether the cell trains; `set_train` sets it."""
        return self._training

    @training.setter
    def training(self, value: bool) -> None:
        self.__dict__["_training"] = value

    def set_train(self, mode: bool = True) -> Cell:
        """Set whether this cell and those below it train."""
        phase = "train" if mode else "predict"
        for _, cell in self.cells_and_names():
            cell.training = mode
            cell.__dict__["_phase"] = phase
        return self

    @property
    def requires_grad(self) -> bool:
        """Whether the cell computes gradients."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: Any) -> None:
        self.__dict__["_requires_grad"] = value

    @property
    def pipeline_stage(self) -> int:
        """The stage of a pipeline of devices, which is only stored. It has to be set before it is read."""
        return self._pipeline_stage

    @pipeline_stage.setter
    def pipeline_stage(self, value: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"For 'Cell', the property 'pipeline_stage' must be int type, but got type : {type(value)}")
        if value < 0:
            raise ValueError(f"For 'Cell', the property 'pipeline_stage' can not be less than 0, but got {value}")
        self.__dict__["_pipeline_stage"] = value

    def set_grad(self, requires_grad: bool = True) -> Cell:
        """Set whether this cell computes gradients."""
        self.__dict__["_requires_grad"] = requires_grad
        return self

    def set_inputs(self, *inputs: Any, **kwargs: Any) -> None:
        """Say what inputs there will be, by Tensors without elements: in compiled calls, lengths that they leave open vary from the start.
        Others are found at run time.
        """
        if inputs and kwargs:
            raise ValueError("For 'set_inputs', there must be inputs by position or by name, not both.")
        known = inspect.signature(self.construct).parameters
        unknown = [name for name in kwargs if name not in known]
        if unknown:
            raise ValueError(f"For 'set_inputs', the names must be among {list(known)}, but got {unknown[0]}.")
        if inputs:
            kwargs = dict(zip(known, inputs))
        self.__dict__["_inputs"] = kwargs

    def get_inputs(self) -> dict[str, Any]:
        """What `set_inputs` was told, by name."""
        return dict(self._inputs)

    # --- Hooks --------------------------------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook_fn: Callable[..., Any], with_kwargs: bool = False) -> HookHandle:
        """Call ``hook_fn(cell, inputs)`` before `construct`; what it returns, if anything, takes the place of the inputs. `with_kwargs`:
        ``hook_fn(cell, inputs, kwargs)``, which returns both.
        """
        return self._register(self._pre_hooks, hook_fn, with_kwargs)

    def register_forward_hook(self, hook_fn: Callable[..., Any], with_kwargs: bool = False) -> HookHandle:
        """Call ``hook_fn(cell, inputs, output)`` after `construct`; what it returns takes the place of the output. `with_kwargs`:
        ``hook_fn(cell, inputs, kwargs, output)``.
        """
        return self._register(self._hooks, hook_fn, with_kwargs)

    def register_backward_pre_hook(self, hook_fn: Callable[[Cell, tuple[Any, ...]], Any]) -> HookHandle:
        """Call ``hook_fn(cell, grad_output)`` when the gradients of what the cell gave are known; what it returns takes their place."""
        return self._register(self._backward_pre_hooks, hook_fn)

    def register_backward_hook(self, hook_fn: Callable[[Cell, tuple[Any, ...], tuple[Any, ...]], Any]) -> HookHandle:
        """Call ``hook_fn(cell, grad_input, grad_output)`` when the gradients of the inputs are known; what it returns takes their place.
        Where no gradient goes to any input they are None.
        """
        return self._register(self._backward_hooks, hook_fn)

    def register_saved_tensors_hooks(self, pack_hook: Any, unpack_hook: Any) -> None:
        """Let `construct` run within `saved_tensors_hooks`.

        Parameters
        ----------
        pack_hook, unpack_hook : callable
            As of `saved_tensors_hooks`.
        """
        self._saved_tensors_pack_hook, self._saved_tensors_unpack_hook = pack_hook, unpack_hook
        self._update_hooked()

    def _register(self, hooks: dict[int, Any], hook: Any, with_kwargs: bool = False) -> HookHandle:
        handle = HookHandle(hooks, hook, self._update_hooked)
        if with_kwargs:
            self._with_kwargs[handle.number] = True
        return handle

    def _update_hooked(self) -> None:
        some = self._hooks or self._pre_hooks or self._backward_hooks or self._backward_pre_hooks
        some = some or self._saved_tensors_pack_hook is not None
        self.__dict__["_hooked"] = bool(some) or hasattr(type(self), "bprop") or self._float_type is not None

    # --- Text -----------------------------------------------------------------------------------------------------------------

    def extend_repr(self) -> str:
        """What the text of the cell says between its parentheses."""
        return ""

    def __repr__(self) -> str:
        lines = [f"  ({name}): {cell!r}".replace("\n", "\n  ") for name, cell in self._cells.items()]
        inner = "\n".join([self.extend_repr()] * bool(self.extend_repr()) + lines)
        return f"{type(self).__name__}({inner})" if not lines else f"{type(self).__name__}(\n{inner}\n)"


class _Plain(Cell):
    """A cell that is made without arguments."""

    def __init__(self) -> None:
        super().__init__()


class GraphCell(Cell):
    """A cell around a graph that `load` has given, or around a function.

    Parameters
    ----------
    graph : LoadedGraph or callable
        Its Parameters are copied: they are those of the cell.
    params_init : dict of str to Tensor, optional
        Values of Parameters, by name; other names are passed over.
    obf_random_seed : object
        Accepted and ignored.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.export(fj.nn.Dense(2, 2, "ones"), fj.Tensor([[1.0, 2.0]]), file_name="dense")
    >>> net = fj.nn.GraphCell(fj.load("dense.mindir"), params_init={"bias": fj.Tensor([0.0, 1.0])})
    >>> net(fj.Tensor([[1.0, 2.0]])).tolist()
    [[3.0, 4.0]]
    """

    def __init__(self, graph: Any, params_init: Any = None, obf_random_seed: Any = None) -> None:
        from framejit._files._export import LoadedGraph

        super().__init__()
        if not callable(graph):
            raise TypeError(
                f"For 'GraphCell', the 'graph' must be what load() gives, or a callable, but got {type(graph).__name__}."
            )
        given = {} if params_init is None else params_init
        if not isinstance(given, dict):
            raise TypeError(f"For 'GraphCell', the 'params_init' must be a dict, but got {type(given).__name__}.")
        for name, value in given.items():
            if not isinstance(name, str) or not isinstance(value, Tensor):
                raise TypeError(
                    f"For 'GraphCell', the 'params_init' must have Tensors by name, but got {name!r}: {type(value).__name__}."
                )
        self.graph = graph
        if not isinstance(graph, LoadedGraph):
            return
        constants = []
        for constant in graph.constants:
            if isinstance(constant, Parameter):
                constant = Parameter(constant, name=constant.name, requires_grad=constant.requires_grad)
                if constant.name in given:
                    constant.set_data(given[constant.name])
                self.insert_param_to_cell(constant.name, constant, check_name_contain_dot=False)
            constants.append(constant)
        self._constants = tuple(constants)

    def construct(self, *args: Any) -> Any:
        """The result of the graph or function."""
        if hasattr(self, "_constants"):
            return self.graph._run(self.graph, args, self._constants)
        return self.graph(*args)
