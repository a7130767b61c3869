"""Rows that belong together: segments, lists without doubles, ranges of many lengths, sparse ones; and how far sequences are apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from framejit import _core
from framejit._api._dtypes import ALL
from framejit._core import _array, _dtype, _tensor
from framejit.ops import _sparse
from framejit.ops._primitives import _define
from framejit.ops._shape import _ints

__all__ = ["coalesce", "ctc_greedy_decoder", "sparse_segment_mean", "unique_with_pad"]

_INT32 = ALL["int32"]


# --- Segments ----------------------------------------------------------------------------------------------------------------


def _segment_ids(name: str, segment_ids: Any) -> Any:
    at = _array(segment_ids)
    if (np.diff(at) < 0).any():
        raise ValueError(f"For '{name}', segment_ids must be a tensor with element values sorted in ascending order.")
    return at


def _segments(ufunc: Any, empty: float, mean: bool = False) -> Any:
    def reduced(x: Any, segment_ids: Any) -> Any:
        """Reduce the rows of each segment; segment ids ascend."""
        rows, at = _array(x), _segment_ids("SegmentOp", segment_ids)
        count = int(at[-1]) + 1 if len(at) else 0
        shape = (count, *rows.shape[1:])
        there = np.bincount(at, minlength=count).reshape((count, *(1,) * (rows.ndim - 1)))
        if ufunc is np.add and rows.dtype.kind in "fc":  # a product, which gradients follow
            which = (np.arange(count)[:, None] == at).astype(rows.dtype)
            out = np.matmul(which, rows.reshape((len(at), -1))).reshape(shape)
        else:
            ends = np.searchsorted(at, np.arange(count))
            ends = np.minimum(ends, len(at) - 1)
            out = np.where(there > 0, ufunc.reduceat(rows, ends, 0, rows.dtype), rows.dtype.type(empty))
        if mean:
            many = np.maximum(there, 1)
            out = out / many.astype(rows.dtype) if rows.dtype.kind in "fc" else _towards_zero(out, many)
        return _tensor(out)

    return reduced


def _towards_zero(x: Any, y: Any) -> Any:
    return (np.sign(x) * (np.abs(x) // y)).astype(x.dtype)


def sparse_segment_mean(x: Any, indices: Any, segment_ids: Any) -> Any:
    """The means of the rows at the indices, for each id, which ascend; zeros for an id that is not there."""
    at = _segment_ids("SparseSegmentMean", segment_ids)
    rows = np.take(_array(x), _array(indices), 0)
    return _segments(np.add, 0, True)(_tensor(rows), _tensor(at))


# --- Lists -------------------------------------------------------------------------------------------------------------------


def _in_order(x: Any) -> tuple[Any, Any]:
    """Each value once, in the order in which they come; and for each element which one it is."""
    values, first, which = np.unique(x, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return values[order], place[which.reshape(-1)]


def unique_with_pad(x: Any, pad_num: Any) -> Any:
    """(each value once in the order in which they come, then `pad_num` up to the length of x; for each element which one it is)."""
    array = _array(x)
    values, which = _in_order(array)
    padded = np.full(array.shape, _array(pad_num, x.dtype))
    padded[: len(values)] = values
    return _tensor(padded), _tensor(which.astype(array.dtype))


def _difference(x: Any, y: Any, out_idx: Any) -> Any:
    """(the elements of one list that are not in another one, where they are)."""
    array = _array(x)
    at = np.flatnonzero(np.isin(array, _array(y), invert=True))
    return _tensor(array[at]), _tensor(at.astype(_dtype(out_idx)))


def _ranges(starts: Any, limits: Any, deltas: Any, Tsplits: Any) -> Any:
    """(where each range begins, the numbers of all ranges)."""
    first, last, step = np.broadcast_arrays(*[np.atleast_1d(_array(one)) for one in (starts, limits, deltas)])
    if (step == 0).any():
        raise ValueError("For 'RaggedRange', the 'deltas' must not be 0.")
    parts = [np.arange(*one, dtype=first.dtype) for one in zip(first, last, step)]
    ends = np.cumsum([0, *[len(part) for part in parts]])
    return _tensor(ends.astype(_dtype(Tsplits))), _tensor(np.concatenate([np.zeros(0, first.dtype), *parts]))


def _shifted(x: Any, max_num: Any, offset: Any) -> Any:
    """(the elements less `offset` that are from 0 to below `max_num`, where they are)."""
    array = _array(x) - _array(offset, x.dtype)
    at = np.flatnonzero((array >= 0) & (array < int(max_num)))
    return _tensor(array[at]), _tensor(at.astype(array.dtype))


def _unraveled(indices: Any, dims: Any) -> Any:
    """The places of elements of a flat array: a row for each dimension."""
    at, lengths = _array(indices), tuple(_ints(dims))
    size = int(np.prod(lengths))
    if (at < 0).any() or (at >= size).any():
        raise ValueError(f"For 'UnravelIndex', the 'indices' must be from 0 to below {size}.")
    return _tensor(np.stack(np.unravel_index(at, lengths)).astype(at.dtype))


# --- Sparse ------------------------------------------------------------------------------------------------------------------


def coalesce(x_indices: Any, x_values: Any, x_shape: Any) -> Any:
    """(places in order and each once, the sums of the values there, the shape) of places [dimensions, N]."""
    at, values, lengths = _array(x_indices), _array(x_values), tuple(_ints(x_shape))
    flat = np.ravel_multi_index(tuple(at), lengths)
    once, sums = _sparse._merged(flat, values)
    return _tensor(np.stack(np.unravel_index(once, lengths)).astype(at.dtype)), _tensor(sums), x_shape


def _key(indices: Any) -> Any:
    return tuple(np.moveaxis(_array(indices), -1, 0))


def _with_zeros(indices: Any, values: Any, dense_shape: Any) -> Any:
    new = _array(values)
    out = np.zeros_like(new, shape=tuple(_ints(dense_shape)))
    np.add.at(out, _key(indices), new)
    return _tensor(out)


def _added(x1_indices: Any, x1_values: Any, x1_shape: Any, x2: Any) -> Any:
    if not isinstance(x1_shape, _core.Tensor):
        raise TypeError(
            f"The primitive[SparseTensorDenseAdd]'s input arguments[indices, shape] must be all tensor, but got {type(x1_shape).__name__}."
        )
    return _with_zeros(x1_indices, x1_values, x1_shape) + x2


def _multiplied(indices: Any, values: Any, sparse_shape: Any, dense: Any, adjoint_st: bool, adjoint_dt: bool) -> Any:
    x, y = _array(_with_zeros(indices, values, sparse_shape)), _array(dense)
    return _tensor((np.conj(x).T if adjoint_st else x) @ (np.conj(y).T if adjoint_dt else y))


def _part(indices: Any, values: Any, shape: Any, start: Any, size: Any) -> Any:
    """(places, values, shape) of a part of a sparse Tensor."""
    at, begin, length, whole = (_array(one) for one in (indices, start, size, shape))
    length = np.maximum(np.minimum(length, whole - begin), 0)
    within = ((at >= begin) & (at < begin + length)).all(1)
    return _tensor(at[within] - begin), _tensor(_array(values)[within]), _tensor(length)


# --- Sequences ---------------------------------------------------------------------------------------------------------------


def _distance(one: Any, other: Any) -> int:
    """By how many insertions, deletions and replacements two lists differ."""
    row = list(range(len(other) + 1))
    for i, item in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (item != wanted))
    return row[-1]


def _sequences(indices: Any, values: Any) -> dict[tuple[int, ...], list[Any]]:
    out: dict[tuple[int, ...], list[Any]] = {}
    for at, value in zip(_array(indices).tolist(), _array(values).tolist()):
        out.setdefault(tuple(at[:-1]), []).append(value)
    return out


def _edit_distances(
    hypothesis_indices: Any, hypothesis_values: Any, hypothesis_shape: Any, truth_indices: Any, truth_values: Any, truth_shape: Any,
    normalize: bool,
) -> Any:  # fmt: skip
    """By how many edits the sequences in the last dimension of two sparse Tensors differ; `normalize`: divided by the lengths of the second."""
    guesses, truths = _sequences(hypothesis_indices, hypothesis_values), _sequences(truth_indices, truth_values)
    shape = [max(pair) for pair in zip(_ints(hypothesis_shape)[:-1], _ints(truth_shape)[:-1])]
    out = np.zeros(shape, np.float32)
    for at in np.ndindex(*shape):
        guess, truth = guesses.get(at, []), truths.get(at, [])
        apart = float(_distance(guess, truth))
        if normalize:
            apart = apart / len(truth) if truth else float("inf") if guess else 0.0
        out[at] = apart
    return _tensor(out)


def _no_repeats(state_seq: Any, log_probs: Any, ngram_size: int) -> Any:
    """The logarithms of probabilities, the least one for words that would end a sequence as it has been before."""
    if ngram_size < 1:
        raise ValueError(f"For 'NoRepeatNGram', the 'ngram_size' must be positive, but got {ngram_size}.")
    words, out = _array(state_seq), _array(log_probs).copy()
    length = words.shape[-1]
    if ngram_size > length:
        raise ValueError(
            f"For 'NoRepeatNGram', the 'ngram_size' must be at most the length {length}, but got {ngram_size}."
        )
    least = -np.finfo(out.dtype).max
    for at in np.ndindex(*words.shape[:-1]):
        row = words[at].tolist()
        last = row[length - ngram_size + 1 :]
        for i in range(length - ngram_size + 1):
            if row[i : i + ngram_size - 1] == last:
                out[(*at, row[i + ngram_size - 1])] = least
    return _tensor(out)


def ctc_greedy_decoder(inputs: Any, sequence_length: Any, merge_repeated: bool = True) -> Any:
    """The most likely labels of each step, without those that mean none, which are the last class.

    Parameters
    ----------
    inputs : Tensor
        How likely the classes are, [T, N, C].
    sequence_length : Tensor
        The number of steps of each of the N, int32.
    merge_repeated : bool
        Whether a label that follows itself counts once.

    Returns
    -------
    tuple of Tensor
        The places and the labels of a sparse Tensor, its shape, and minus the sums of the largest inputs, [N, 1].
    """
    x, lengths = _array(inputs), _array(sequence_length)
    steps, count, classes = x.shape
    if (lengths > steps).any():
        raise ValueError(f"For 'CTCGreedyDecoder', the 'sequence_length' must be at most {steps}, but got {lengths}.")
    best = x.argmax(-1)
    places, labels, longest = [], [], 0
    total = np.zeros((count, 1), x.dtype)
    for n in range(count):
        before, at = -1, 0
        for t in range(int(lengths[n])):
            label = int(best[t, n])
            total[n] -= x[t, n, label]
            if label != classes - 1 and not (merge_repeated and label == before):
                places.append((n, at))
                labels.append(label)
                at += 1
            before = label
        longest = max(longest, at)
    return (
        _tensor(np.array(places, np.int64).reshape((-1, 2))),
        _tensor(np.array(labels, np.int64)),
        _tensor(np.array([count, longest])),
        _tensor(total),
    )


_define(
    globals(),
    {
        "SegmentSum": (_segments(np.add, 0), {}),
        "SegmentMean": (_segments(np.add, 0, True), {}),
        "SegmentProd": (_segments(np.multiply, 1), {}),
        "SegmentMax": (_segments(np.maximum, 0), {}),
        "SegmentMin": (_segments(np.minimum, 0), {}),
        "UniqueWithPad": (unique_with_pad, {}),
        "ListDiff": (_difference, {"out_idx": _INT32}),
        "RaggedRange": (_ranges, {"Tsplits": None}),
        "SubAndFilter": (_shifted, {}),
        "UnravelIndex": (_unraveled, {}),
        "Coalesce": (coalesce, {}),
        "SparseToDense": (_with_zeros, {}),
        "SparseTensorDenseAdd": (_added, {}),
        "SparseTensorDenseMatmul": (_multiplied, {"adjoint_st": False, "adjoint_dt": False}),
        "SparseSlice": (_part, {}),
        "EditDistance": (_edit_distances, {"normalize": True}),
        "NoRepeatNGram": (_no_repeats, {"ngram_size": 1}),
        "CTCGreedyDecoder": (ctc_greedy_decoder, {"merge_repeated": True}),
    },
)
