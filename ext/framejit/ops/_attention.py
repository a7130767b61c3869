"""Attention in one pass over blocks of keys, except for float64: the matrix of all scores is never made. float16 and bfloat16 through float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from framejit._api._dtypes import ALL
from framejit._core import _array, _arrays, _attend, _op_add, _op_matmul, _op_multiply, _tensor
from framejit._tensors import _random
from framejit.ops._random import dropout
from framejit.ops._reduce import softmax

__all__ = ["flash_attention_score", "scaled_dot_product_attention"]

_BOOL = ALL["bool_"]
_NONE, _FROM_FIRST, _FROM_LAST = range(3)


def _closed(mask: np.ndarray) -> np.ndarray:
    """-inf where the mask is true, else 0."""
    return np.where(mask, np.float32(-np.inf), np.float32(0))


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(scale * query @ key^T + attn_mask) @ value, of [..., heads, length, depth] with up to four dimensions.

    A bool mask says which keys count. Causal: query i sees keys up to i. With `enable_gqa`, heads may be a multiple of the keys' heads. Weights are
    0 with the probability `dropout_p`, and the rest divided by what is left of 1. float64 makes the matrix of weights.
    """
    if not 0 <= dropout_p <= 1:
        raise ValueError(
            f"For 'scaled_dot_product_attention', the 'dropout_p' must be between 0 and 1, but got {dropout_p}."
        )
    q, k, v = _arrays(query, key, value)
    rank = q.ndim
    if not 2 <= rank <= 4 or k.ndim != rank or v.ndim != rank:
        raise ValueError(
            "For 'scaled_dot_product_attention', query, key and value must have the same two to four dimensions."
        )
    lead = (1,) * (4 - rank)
    q, k, v = q.reshape(lead + q.shape), k.reshape(lead + k.shape), v.reshape(lead + v.shape)
    if not enable_gqa and q.shape[1] != k.shape[1]:
        raise ValueError("For 'scaled_dot_product_attention', heads of query and key differ and 'enable_gqa' is False.")
    mask = None if attn_mask is None else _array(attn_mask)
    if mask is not None and attn_mask.dtype is _BOOL:
        mask = _closed(np.logical_not(mask))
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    if query.dtype is ALL["float64"]:
        out = _array(_written_out(q, k, v, factor, mask, is_causal, dropout_p))
    else:
        state = None if dropout_p == 0 else _drawn(q, k)
        out = _attend(q, k, v, factor, mask, _FROM_FIRST if is_causal else _NONE, dropout_p, state)
    return _tensor(out.reshape(out.shape[4 - rank :]))


def _drawn(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The state from which a number is drawn for each weight."""
    return _random.reserved(_random.generator, q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2])


def _written_out(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, factor: float, mask: Any, causal: bool, dropout_p: float
) -> Any:
    if q.shape[1] != k.shape[1]:
        k, v = np.repeat(k, q.shape[1] // k.shape[1], 1), np.repeat(v, q.shape[1] // v.shape[1], 1)
    scores = _op_multiply(_op_matmul(_tensor(q), _tensor(k.swapaxes(2, 3))), factor)
    if mask is not None:
        scores = _op_add(scores, _tensor(mask))
    if causal:
        scores = _tensor(
            np.where(np.tri(q.shape[2], k.shape[2], dtype=np.bool_), _array(scores), _array(-np.inf, scores.dtype))
        )
    return _op_matmul(dropout(softmax(scores, -1), dropout_p), _tensor(v))


def flash_attention_score(
    query: Any,
    key: Any,
    value: Any,
    head_num: int,
    real_shift: Any = None,
    drop_mask: Any = None,
    padding_mask: Any = None,
    attn_mask: Any = None,
    prefix: Any = None,
    actual_seq_qlen: Any = None,
    actual_seq_kvlen: Any = None,
    keep_prob: float = 1.0,
    scalar_value: float = 1.0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647,
    inner_precise: int = 0,
    input_layout: str = "BSH",
    sparse_mode: int = 0,
) -> Any:
    """softmax(scalar_value * query @ key^T + real_shift) @ value, where `attn_mask` closes the keys at which it is not 0.

    Weights are kept with the probability `keep_prob`, and divided by it.

    Layouts 'BSH', 'SBH', 'BNSD' and 'BSND'; `sparse_mode` 0 (as masked), 2 and 3 (causal, from the first or from the last).
    """
    if drop_mask is not None or padding_mask is not None or prefix is not None:
        raise ValueError("For 'flash_attention_score', 'drop_mask', 'padding_mask' and 'prefix' are not supported.")
    if not 0 <= keep_prob <= 1:
        raise ValueError(f"For 'flash_attention_score', the 'keep_prob' must be between 0 and 1, but got {keep_prob}.")
    if actual_seq_qlen is not None or actual_seq_kvlen is not None or min(pre_tokens, next_tokens) != 2147483647:
        raise ValueError("For 'flash_attention_score', lengths of sequences and bands of keys are not supported.")
    if input_layout not in ("BSH", "SBH", "BNSD", "BSND"):
        raise ValueError(
            f"For 'flash_attention_score', the 'input_layout' must be 'BSH', 'SBH', 'BNSD' or 'BSND', but got {input_layout!r}."
        )
    if sparse_mode not in (0, 2, 3):
        raise ValueError(f"For 'flash_attention_score', the 'sparse_mode' must be 0, 2 or 3, but got {sparse_mode!r}.")
    q, k, v = _arrays(query, key, value)
    depth = q.shape[2] // head_num if input_layout in ("BSH", "SBH") else q.shape[3]
    q, k, v = _by_head(q, depth, input_layout), _by_head(k, depth, input_layout), _by_head(v, depth, input_layout)
    mask = None if real_shift is None else _array(real_shift)
    if attn_mask is not None and sparse_mode == 0:
        closed = _closed(_array(attn_mask) != 0)
        mask = closed if mask is None else mask + closed
    state = None if keep_prob == 1 else _drawn(q, k)
    out = _attend(
        q, k, v, scalar_value, mask, (_NONE, None, _FROM_FIRST, _FROM_LAST)[sparse_mode], 1 - keep_prob, state
    )
    if input_layout == "BNSD":
        return _tensor(out)
    out = out.transpose((2, 0, 1, 3) if input_layout == "SBH" else (0, 2, 1, 3))
    return _tensor(out if input_layout == "BSND" else out.reshape((out.shape[0], out.shape[1], -1)))


def _by_head(x: np.ndarray, depth: int, layout: str) -> np.ndarray:
    """[batch, heads, length, depth]."""
    if layout == "BNSD":
        return x
    if layout != "BSND":
        x = x.reshape((x.shape[0], x.shape[1], -1, depth))
    return x.transpose((1, 2, 0, 3) if layout == "SBH" else (0, 2, 1, 3))
