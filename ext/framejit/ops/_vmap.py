"""``vmap``: a function of one sample as a function of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._api._control import disable, is_compiling
from framejit._api._jit import is_compiled, make_function, settings_of
from framejit._tensors import _parameter
from framejit.ops import _shape

__all__ = ["vmap"]

Tensor = _core.Tensor
cell_list: Any = ()  # the class nn.CellList, once there is one


def vmap(fn: Any, in_axes: Any = 0, out_axes: Any = 0) -> Any:
    """The function that calls `fn` on each sample of a batch.

    Where it is compiled, elementwise operators, reductions, shape functions and products of batches are done for all samples at once if that
    gives the same bits.

    Parameters
    ----------
    fn : callable, Cell or CellList
        A function of Tensors or of NumPy arrays. The cells of a CellList are called on one sample each: cell 0 on the first one. There are as
        many samples as cells, also if no argument has an axis.
    in_axes : int, None, tuple or list
        Over which axis of each argument the samples lie; None: the argument is the same for all. An int is for all arguments; a tuple has an
        item for each, which is itself a tuple where the argument is one.
    out_axes : int, None, tuple or list
        Where the samples lie in the results; None: the result is the same for all samples.

    Returns
    -------
    callable
        Takes the arguments of `fn` with the axes of the samples. It is compiled as `fn` is.

    Notes
    -----
    Each sample finds Parameters as they were before. A Parameter that is an argument with an axis gets what its samples were
    assigned. One that is the same for all samples gets what all of them assign.

    Raises
    ------
    ValueError
        If the samples assign different values to a Parameter that is the same for all, or if there are not as many samples as cells.

    Examples
    --------
    >>> import numpy as np
    >>> import framejit as fj
    >>> fj.vmap(np.dot, in_axes=(0, None))(np.eye(2), np.array([3.0, 4.0]))
    array([3., 4.])
    """
    _check("in_axes", in_axes)
    _check("out_axes", out_axes)
    if not callable(fn):
        raise TypeError(f"For 'vmap', the 'fn' must be a function or a Cell, but got {type(fn).__name__}.")
    if isinstance(fn, cell_list):
        return _ensemble(fn, in_axes, out_axes)

    def batched(*args: Any) -> Any:
        axes = _axes_of(args, in_axes)
        sizes = [size for arg, axis in zip(args, axes) for size in _sizes(arg, axis)]
        if not sizes or sizes.count(sizes[0]) != len(sizes):
            raise ValueError(f"For 'vmap', the sizes of the axes in 'in_axes' must be one number, but got {sizes}.")
        if sizes[0] == 0:
            raise ValueError("For 'vmap', there are no samples.")
        mapped = [k for k in range(len(args)) if axes[k] is not None and isinstance(args[k], _parameter.Parameter)]
        begin = _core._batch_begin()
        samples = [_sample(arg, axis, 0) for arg, axis in zip(args, axes)]
        first, written = _of_one(fn, samples, mapped)
        pure = written is None or not written[0] and True not in written[1]
        if begin is not None and pure:  # capture asks whether what it has seen of one sample can be had for all
            leaves: list[Any] = []
            ones: list[Any] = []
            batches: list[Any] = []
            for arg, sample, axis in zip(args, samples, axes):
                _add_batches(arg, sample, axis, ones, batches)
            if _add_results(first, out_axes, leaves):
                found = _core._batch(begin, tuple(leaves), tuple(ones), tuple(batches))
                if found is not None:
                    return _with_results(first, list(found), out_axes)
        results: list[Any] = []
        writes: list[Any] = []
        changed: list[Any] = [()] * len(mapped)  # the samples of mapped Parameters that were written, as they are then
        for i in range(sizes[0]):
            if i > 0:
                samples = [_sample(arg, axis, i) for arg, axis in zip(args, axes)]
                broken = written is None and _has_tensor(samples)
                first, written = _observed(fn, samples, mapped) if broken else _of_one(fn, samples, mapped)
            results.append(first)
            if written is not None:
                if written[0]:
                    results[i] = _copied(first)
                    for parameter, before in written[0]:
                        writes.append((i, parameter, before, parameter.copy()))
                        parameter[...] = before  # each sample finds the same
                for at in range(len(mapped)):
                    if written[1][at]:
                        changed[at] = (*changed[at], (i, samples[mapped[at]]))
        for at in range(len(mapped)):
            for i, sample in changed[at]:
                place = (slice(None),) * _place(args[mapped[at]], axes[mapped[at]]) + (i,)
                args[mapped[at]][place] = sample
        if writes:
            _settle(writes, sizes[0])
        return _stacked(results, out_axes)

    return batched if is_compiling() else _compiled(batched, fn)


def _axes_of(args: tuple[Any, ...], in_axes: Any) -> Any:
    """The axis of the samples in each argument."""
    axes = [in_axes] * len(args) if in_axes is None or isinstance(in_axes, int) else in_axes
    if len(axes) != len(args):
        raise ValueError(f"For 'vmap', the 'in_axes' are {len(axes)}, but there are {len(args)} arguments.")
    return axes


def _ensemble(cells: Any, in_axes: Any, out_axes: Any) -> Any:
    """The function that calls each cell on the sample of its place."""
    if len(cells) < 2:
        raise RuntimeError(f"For 'vmap', a CellList must have more than 1 cell, but got {len(cells)}.")

    def ensemble(*args: Any) -> Any:
        axes = _axes_of(args, in_axes)
        sizes = [size for arg, axis in zip(args, axes) for size in _sizes(arg, axis)]
        if sizes != [len(cells)] * len(sizes):
            raise ValueError(
                f"For 'vmap', the sizes of the axes in 'in_axes' must be the number of cells, which is {len(cells)}, but got {sizes}."
            )
        results = []
        for i, cell in enumerate(cells):
            results.append(cell(*[_sample(arg, axis, i) for arg, axis in zip(args, axes)]))
        return _stacked(results, out_axes)

    return ensemble if is_compiling() else _compiled(ensemble, cells)


def _of_one(fn: Any, samples: list[Any], mapped: list[int]) -> Any:
    """What `fn` returns for one sample; and the Parameters that it wrote with what they held before, and which of the mapped
    samples it wrote, or None if that is not known."""
    if not is_compiling():
        return _observed(fn, samples, mapped)
    _core._batch_watch()
    result = fn(*samples)
    return result, _core._batch_written(tuple([samples[k] for k in mapped]))


@disable
def _observed(fn: Any, samples: list[Any], mapped: list[int]) -> Any:
    """As `_of_one`, in the interpreter."""
    watched = [samples[k] for k in mapped]
    written: dict[int, tuple[Any, Any]] = {}
    given = {id(sample) for sample in watched}
    changed: set[int] = set()

    def hook(name: str, *args: Any) -> Any:
        if name == "setitem":
            if id(args[0]) in given:
                changed.add(id(args[0]))
            elif isinstance(args[0], _parameter.Parameter) and id(args[0]) not in written:
                written[id(args[0])] = args[0], _core._tensor(args[0].asnumpy().copy())
        return NotImplemented if outer is None else outer(name, *args)

    outer = _core.set_tape_hook(hook)
    try:
        result = fn(*samples)
    finally:
        _core.set_tape_hook(outer)
    return result, (tuple(written.values()), tuple(id(sample) in changed for sample in watched))


@disable
def _settle(writes: list[Any], count: int) -> None:
    """Assign what all samples left in a Parameter that is the same for all."""
    left: dict[int, tuple[Any, dict[int, Any]]] = {}
    for i, parameter, before, after in writes:
        left.setdefault(id(parameter), (parameter, {-1: before}))[1][i] = after
    for parameter, values in left.values():
        found = [values.get(i, values[-1]).asnumpy().tobytes() for i in range(count)]
        if found.count(found[0]) != count:
            raise ValueError(
                f"For 'vmap', the source axis of Parameter '{parameter.name}' is None, but the samples assign different values "
                "to it. The execution order of the assignments cannot be guaranteed."
            )
    for parameter, values in left.values():
        parameter[...] = values.get(0, values[-1])


def _has_tensor(x: Any) -> bool:
    return True in [_has_tensor(item) for item in x] if isinstance(x, (tuple, list)) else isinstance(x, Tensor)


def _copied(result: Any) -> Any:
    """A result that holds no Parameter whose elements are restored."""
    if isinstance(result, (tuple, list)):
        return type(result)([_copied(item) for item in result])
    if isinstance(result, dict):
        return {key: _copied(result[key]) for key in result}
    return result.copy() if isinstance(result, _parameter.Parameter) else result


def _compiled(batched: Any, fn: Any) -> Any:
    given = getattr(fn, "__func__", fn)
    settings = settings_of(given) if is_compiled(given) else {"jit_level": "O0", "dynamic": False, "stress": ""}
    batched.__name__ = batched.__qualname__ = f"vmap of {getattr(fn, '__name__', type(fn).__name__)}"
    return make_function(batched, settings)


def _check(name: str, axes: Any) -> None:
    if isinstance(axes, (tuple, list)):
        for axis in axes:
            _check(name, axis)
    elif axes is not None and (isinstance(axes, bool) or not isinstance(axes, int)):
        raise TypeError(f"For 'vmap', the '{name}' must be int, None, tuple or list, but got {type(axes).__name__}.")


def _place(x: Any, axis: int) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"For 'vmap', the axis {axis} is out of range of an array with {x.ndim} dimensions.")
    return axis % x.ndim


def _sizes(arg: Any, axis: Any) -> list[int]:
    """Of the axes of the samples, for each array in an argument."""
    if axis is None:
        return []
    if isinstance(arg, (tuple, list)):
        axes = [axis] * len(arg) if isinstance(axis, int) else axis
        return [size for item, one in zip(arg, axes) for size in _sizes(item, one)]
    return [arg.shape[_place(arg, axis)]]


def _sample(arg: Any, axis: Any, i: int) -> Any:
    if axis is None:
        return arg
    if isinstance(arg, (tuple, list)):
        axes = [axis] * len(arg) if isinstance(axis, int) else axis
        return type(arg)([_sample(item, one, i) for item, one in zip(arg, axes)])
    return arg[(slice(None),) * _place(arg, axis) + (i,)]


def _add_batches(arg: Any, sample: Any, axis: Any, samples: list[Any], batches: list[Any]) -> None:
    """The arrays in a sample, and those with all samples in front."""
    if axis is None:
        return
    if isinstance(arg, (tuple, list)):
        axes = [axis] * len(arg) if isinstance(axis, int) else axis
        for i in range(len(arg)):
            _add_batches(arg[i], sample[i], axes[i], samples, batches)
        return
    samples.append(sample)
    batches.append(_moved(arg, _place(arg, axis), 0))


def _moved(x: Any, source: int, to: int) -> Any:
    if source == to:
        return x
    if isinstance(x, Tensor):
        return _shape.movedim(x, source, to)
    return np.moveaxis(x, source, to)


def _add_results(result: Any, axis: Any, out: list[Any]) -> bool:
    """The arrays and numbers in a result whose samples are put together; False where there is anything else."""
    if isinstance(result, (tuple, list)):
        axes = [axis] * len(result) if axis is None or isinstance(axis, int) else axis
        if len(axes) != len(result):
            return False
        return False not in [_add_results(result[i], axes[i], out) for i in range(len(result))]
    if isinstance(result, dict):
        return False not in [_add_results(result[key], axis, out) for key in result]
    if axis is None:
        return True
    out.append(result)
    return isinstance(result, (np.ndarray, np.generic, Tensor, float))


def _with_results(first: Any, found: list[Any], axis: Any) -> Any:
    """As `_stacked`, from what `_core._batch` gave."""
    if isinstance(first, (tuple, list)):
        axes = [axis] * len(first) if axis is None or isinstance(axis, int) else axis
        return type(first)([_with_results(first[i], found, axes[i]) for i in range(len(first))])
    if isinstance(first, dict):
        return {key: _with_results(first[key], found, axis) for key in first}
    if axis is None:
        return first
    batch = found.pop(0)
    to = _place(batch, axis)
    if to == 0:
        return batch
    moved = _moved(batch, 0, to)
    return moved if isinstance(moved, Tensor) else moved.copy()


def _stacked(results: list[Any], axis: Any) -> Any:
    first = results[0]
    if isinstance(first, (tuple, list)):
        axes = [axis] * len(first) if axis is None or isinstance(axis, int) else axis
        if len(axes) != len(first):
            raise ValueError(f"For 'vmap', the 'out_axes' are {len(axes)}, but there are {len(first)} results.")
        return type(first)([_stacked([one[k] for one in results], axes[k]) for k in range(len(first))])
    if isinstance(first, dict):
        return {key: _stacked([one[key] for one in results], axis) for key in first}
    if axis is None:
        return first
    if isinstance(first, Tensor):
        return _shape.stack(results, axis)
    return np.stack(results, axis)
