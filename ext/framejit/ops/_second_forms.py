"""The other forms of Tensor methods: MindSpore calls many with ``dim`` and ``keepdim`` as well as with ``axis`` and ``keepdims``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from framejit import _core
from framejit._core import _array, _tensor
from framejit.ops import _elementwise, _further, _reduce, _shape

Tensor = _core.Tensor

# Names of parameters in the other form, and what they are in the own one.
_NAMES: dict[str, str] = {
    "all any mean prod": "dim=axis keepdim=keep_dims",
    "argmax argmin median nansum sum": "dim=axis keepdim=keepdims",
    "std var": "dim=axis keepdim=keepdims correction=ddof",
    "argsort chunk count_nonzero cumsum index_select narrow repeat_interleave scatter sort": "dim=axis",
    "split": "dim=axis split_size=split_size_or_sections",
    "unsqueeze": "axis=dim",
    "gather": "dim=input_indices index=axis",
    "select": "dim=condition index=y",
    "index_add": "dim=indices index=y source=axis",
    "scatter_add": "dim=indices index=updates",
    "take": "index=indices",
    "where": "other=y",
    "expand_as": "x=other",
    "isclose": "x2=other",
    "logical_and logical_or sub sub_": "y=other",
    "matmul": "tensor2=other",
    "mm": "mat2=other",
    "pow": "exponent=other",
    "remainder": "divisor=other",
}


def _with_names(function: Callable[..., Any], names: dict[str, str]) -> Callable[..., Any]:
    """The method, whose arguments may be given by the names of the other form too."""

    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return function(self, *args)
        named = {names.get(name, name): value for name, value in kwargs.items()}
        if len(named) < len(kwargs):
            raise TypeError(f"{function.__name__}() got an argument by both of its names: {', '.join(kwargs)}.")
        return function(self, *args, **named)

    own = inspect.signature(function)
    keyword = inspect.Parameter.KEYWORD_ONLY
    others = [inspect.Parameter(name, keyword, default=None) for name in names]
    method.__signature__ = own.replace(parameters=[*own.parameters.values(), *others])  # type: ignore[attr-defined]
    return method


# --- Methods whose forms differ in more than names -------------------------------------------------------------------------


def sum(self: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
    """Sum over `axis`; (axis, keepdims) by position too. Integers and bools give int64."""
    if isinstance(dtype, bool):
        dtype, keepdims = None, dtype
    total = _reduce.sum(self, axis, keepdims, dtype=dtype)
    return total if initial is None else total + initial


def mean(self: Any, axis: Any = None, keep_dims: bool = False, *, dtype: Any = None) -> Any:
    """Mean over `axis`, computed in `dtype`; of integers, truncated."""
    return _reduce.mean(self if dtype is None else self.astype(dtype), axis, keep_dims)


def _extreme(name: str, with_places: Any, alone: Any) -> Any:
    def method(
        self: Any,
        *position: Any,
        dim: Any = None,
        keepdim: bool = False,
        axis: Any = None,
        keepdims: bool | None = None,
        initial: Any = None,
        where: Any = None,
        return_indices: bool = False,
    ) -> Any:
        if len(position) > 2:
            raise TypeError(f"{name}() takes at most 2 positional arguments, but {len(position)} were given.")
        if dim is not None:
            return with_places(self, dim, keepdim)
        keep = bool(keepdims)
        if position:
            axis = position[0]
            if keepdims is None:
                keep = position[1] if len(position) > 1 else keepdim
                if isinstance(axis, int) and initial is None and where is None:
                    return with_places(self, axis, keep)
        of = with_places if return_indices else alone
        return of(self, axis, keep, initial=initial, where=where)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = (
        f"{'Largest' if name == 'max' else 'Smallest'} element over `axis`, with `return_indices` also where it is; "
        "so too for a `dim`, and for one axis by position."
    )
    return method


def _with_alpha(name: str, function: Any) -> Any:
    def method(self: Any, other: Any, *, alpha: Any = 1) -> Any:
        return function(self, other if alpha == 1 else _core._op_multiply(alpha, other))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``ops.{name}`` of the Tensor and `alpha` times the other operand."
    return method


def _in_place(name: str, function: Any) -> Any:
    @functools.wraps(function)
    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        self[...] = function(self, *args, **kwargs)
        return self

    update.__name__ = update.__qualname__ = name
    update.__doc__ = f"{name.rstrip('_')} in place."
    return update


def to(
    self: Any,
    dtype: Any = None,
    *options: Any,
    device: str | None = None,
    other: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
) -> Any:
    """Converted to a dtype, or to that of another Tensor; a device comes before it. There is one device, and nothing is put off."""
    if isinstance(dtype, str):
        device, dtype = dtype, options[0] if options else None
    if device not in (None, "CPU", "cpu"):
        self.to_device(device)  # which says what is allowed
    if other is not None:
        dtype = other
    if isinstance(dtype, Tensor):
        dtype = dtype.dtype
    return self if dtype is None and not copy else _tensor(_array(self, dtype))


def _like_bits(self: Any, dtype: Any) -> Any:
    """The same memory as elements of another dtype of the same size."""
    return _tensor(_array(self).view(_core._dtype(dtype)))


def view(self: Any, *size: Any, shape: Any = None, dtype: Any = None) -> Any:
    """In another shape; or the memory as elements of another dtype of the same size."""
    if dtype is None and len(size) == 1 and not isinstance(size[0], (int, tuple, list, Tensor)):
        dtype = size[0]
    if dtype is not None:
        return _like_bits(self, dtype)
    return _tensor(_array(self).reshape(_shape._given(size if shape is None else (shape,))))


def permute(self: Any, *axis: Any, dims: Any = None) -> Any:
    """The dimensions in the order `axis`."""
    return _tensor(_array(self).transpose(_shape._given(axis if dims is None else (dims,))))


def tile(self: Any, *size: Any, reps: Any = None, dims: Any = None) -> Any:
    """Repeated as a whole."""
    given = reps if dims is None else dims
    return _shape.tile(self, _shape._given(size if given is None else (given,)))


def index_add(
    self: Any, indices: Any, y: Any, axis: Any, use_lock: bool = True, check_index_bound: bool = True, *, alpha: Any = 1
) -> Any:
    """A copy with `y` added along `axis` at the indices; or of (dim, index, source), with `alpha` times the source."""
    if isinstance(indices, int):
        indices, y, axis = y, axis, indices
    return _shape.index_add(self, indices, y if alpha == 1 else _core._op_multiply(y, alpha), axis)


def scatter(self: Any, axis: int, index: Any, src: Any, reduce: str = "none") -> Any:
    """A copy with `src` at the places along `axis` that the indices say, or, if `reduce` is 'add', added there."""
    if reduce == "none":
        return _shape.scatter(self, axis, index, src)
    return _further.tensor_scatter_elements(self, index, src, axis, reduce)


def scatter_add(self: Any, indices: Any, updates: Any, src: Any = None) -> Any:
    """A copy with `updates` added to the parts that rows of indices say; or of (dim, index, src), `src` along an axis."""
    if src is not None:
        return _further.tensor_scatter_elements(self, updates, src, indices, "add")
    return _shape.tensor_scatter_add(self, indices, updates)


def sort(self: Any, axis: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The elements in order along `axis`, equal ones as they were, and where they were (int32)."""
    return _shape.sort(self, axis, descending)


def argsort(self: Any, axis: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Where the elements in order along `axis` are; equal ones stay as they were."""
    return _shape.argsort(self, axis, descending)


def repeat_interleave(self: Any, repeats: Any, axis: int | None = None, *, output_size: int | None = None) -> Any:
    """Each element repeated along `axis`; the size of the result says itself."""
    return _shape.repeat_interleave(self, repeats, axis)


_OWN = (
    sum, mean, to, view, permute, tile, index_add, scatter, scatter_add, sort, argsort, repeat_interleave,
    _extreme("max", _reduce.max, _reduce.amax), _extreme("min", _reduce.min, _reduce.amin),
    _with_alpha("add", _core._op_add), _with_alpha("sub", _core._op_subtract),
)  # fmt: skip


def _install() -> None:
    methods = {function.__name__: function for function in _OWN}
    for name in ("add", "sub", "index_add", "scatter"):
        methods[name + "_"] = _in_place(name + "_", methods[name])
    methods["div_"] = _in_place("div_", _elementwise.div)
    for rows, pairs in _NAMES.items():
        names = dict(pair.split("=") for pair in pairs.split())
        for name in rows.split():
            methods[name] = _with_names(methods.get(name) or getattr(Tensor, name), names)
    for name, method in methods.items():
        setattr(Tensor, name, method)


_install()
