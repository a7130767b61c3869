"""Attention of several heads, and transformers."""

from __future__ import annotations

import copy
import math
from typing import Any

from framejit import ops
from framejit._api._dtypes import ALL
from framejit._tensors._parameter import Parameter
from framejit.common.initializer import HeUniform, Uniform, XavierNormal, XavierUniform, initializer
from framejit.nn._cell import Cell
from framejit.nn._checks import fits, of_type
from framejit.nn._containers import CellList
from framejit.nn._layers import GELU, Dense, Dropout, ReLU
from framejit.nn._normalization import LayerNorm

_FLOAT32, _BOOL, _UINT8 = ALL["float32"], ALL["bool_"], ALL["uint8"]
_FLOATS = tuple(ALL[name] for name in ("float16", "bfloat16", "float32", "float64"))


def _expect(found: Any, wanted: Any, what: str) -> None:
    if found != wanted:
        raise ValueError(f"For 'MultiheadAttention', the {what} must be {wanted}, but got {found}.")


class MultiheadAttention(Cell):
    """softmax(q @ k.T / sqrt(depth) + masks) @ v for each head, between linear maps.

    Parameters
    ----------
    embed_dim, num_heads : int
        Features of the query and of the result, and by how many heads they are divided.
    dropout : float
        Probability of zeros among the weights, while training.
    has_bias : bool
        Whether the linear maps have biases.
    add_bias_kv : bool
        A Parameter is one more key, another one more value.
    add_zero_attn : bool
        Zeros are one more key and value.
    kdim, vdim : int, optional
        Features of key and value.
    batch_first : bool
        Inputs are [batch, length, features], not [length, batch, features].
    dtype : dtype
        The dtype of the Parameters.
    """

    embed_dim: int
    num_heads: int
    dropout: float
    batch_first: bool
    kdim: int
    vdim: int
    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None
    add_zero_attn: bool
    dtype: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        has_bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.head_dim: int = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise ValueError("For 'MultiheadAttention', the 'embed_dim' must be divisible by 'num_heads'.")
        dtype = _FLOAT32 if dtype is None else dtype
        xavier = XavierUniform()
        self._one_weight = self.kdim == embed_dim and self.vdim == embed_dim
        self.in_proj_weight = self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        if self._one_weight:
            self.in_proj_weight = Parameter(initializer(xavier, (3 * embed_dim, embed_dim), dtype), "in_proj_weight")
        else:
            self.q_proj_weight = Parameter(initializer(xavier, (embed_dim, embed_dim), dtype), "q_proj_weight")
            self.k_proj_weight = Parameter(initializer(xavier, (embed_dim, self.kdim), dtype), "k_proj_weight")
            self.v_proj_weight = Parameter(initializer(xavier, (embed_dim, self.vdim), dtype), "v_proj_weight")
        self.in_proj_bias = None
        if has_bias:
            self.in_proj_bias = Parameter(initializer("zeros", (3 * embed_dim,), dtype), "in_proj_bias")
        bound = Uniform(1 / math.sqrt(embed_dim))
        self.out_proj: Dense = Dense(embed_dim, embed_dim, HeUniform(math.sqrt(5)), bound, has_bias, dtype=dtype)
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            self.bias_k = Parameter(initializer(XavierNormal(), (1, 1, embed_dim), dtype), "bias_k")
            self.bias_v = Parameter(initializer(XavierNormal(), (1, 1, embed_dim), dtype), "bias_v")
        self.add_zero_attn, self.dtype = add_zero_attn, dtype

    def construct(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
    ) -> Any:
        """(result, weights), or (result,) without `need_weights`. Masks close keys where they are true, or are added."""
        batched = query.ndim == 3
        if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
            raise ValueError("For 'MultiheadAttention', query, key and value must all have two or three dimensions.")
        if not batched:
            query, key, value = query.expand_dims(1), key.expand_dims(1), value.expand_dims(1)
            if key_padding_mask is not None:
                _expect(key_padding_mask.ndim, 1, "number of dimensions of 'key_padding_mask'")
                key_padding_mask = key_padding_mask.expand_dims(0)
        elif self.batch_first:
            query, key, value = query.swapaxes(0, 1), key.swapaxes(0, 1), value.swapaxes(0, 1)
        length, batch, _ = query.shape
        of_q, of_k, of_v = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        if self._one_weight:
            of_q = of_k = of_v = self.in_proj_weight
        for name, x, weight in (("query", query, of_q), ("key", key, of_k), ("value", value, of_v)):
            fits(self, name, x, -1, weight, 1)
        _expect(key.shape[1], batch, "batch of the key")
        _expect(value.shape[:2], key.shape[:2], "first two dimensions of the value")
        if self._one_weight:
            _expect(value.shape, key.shape, "shape of the value")
        q, k, v = self._projected(query, key, value)
        more = 0
        if self.bias_k is not None:
            k = ops.cat([k, ops.tile(self.bias_k, (1, batch, 1))])
            v = ops.cat([v, ops.tile(self.bias_v, (1, batch, 1))])
            more += 1
        q, k, v = self._by_head(q), self._by_head(k), self._by_head(v)
        if self.add_zero_attn:
            zeros = ops.zeros((batch, self.num_heads, 1, self.head_dim), k.dtype)
            k, v = ops.cat([k, zeros], 2), ops.cat([v, zeros], 2)
            more += 1
        mask = self._mask(attn_mask, key_padding_mask, batch, length, key.shape[0], more, q.dtype)
        if need_weights:
            root = math.sqrt(math.sqrt(self.head_dim))
            scores = ops.matmul(q / root, k.swapaxes(2, 3) / root)
            weights = ops.softmax(scores if mask is None else scores + mask, -1)
            weights = ops.dropout(weights, self.dropout, self._training)
            out = ops.matmul(weights, v)
        else:
            out = ops.scaled_dot_product_attention(q, k, v, mask, self.dropout if self._training else 0.0)
        out = self.out_proj(out.transpose((2, 0, 1, 3)).reshape((length, batch, self.embed_dim)))
        if not batched:
            out = out.squeeze(1)
        elif self.batch_first:
            out = out.swapaxes(0, 1)
        if not need_weights:
            return (out,)
        if average_attn_weights:
            weights = weights.sum(1) / self.num_heads
        return out, weights if batched else weights.squeeze(0)

    def _projected(self, query: Any, key: Any, value: Any) -> Any:
        of_q, of_k, of_v = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        if self._one_weight:
            of_q, of_k, of_v = ops.chunk(self.in_proj_weight, 3)
        biases = (None, None, None) if self.in_proj_bias is None else ops.chunk(self.in_proj_bias, 3)
        return ops.dense(query, of_q, biases[0]), ops.dense(key, of_k, biases[1]), ops.dense(value, of_v, biases[2])

    def _by_head(self, x: Any) -> Any:
        """[batch, heads, length, depth]."""
        return x.reshape((x.shape[0], x.shape[1], self.num_heads, self.head_dim)).transpose((1, 2, 0, 3))

    def _mask(self, attn: Any, padding: Any, batch: int, length: int, keys: int, more: int, dtype: Any) -> Any:
        """What is added to the scores [batch, heads, length, keys + more]; None for nothing."""
        total = None
        if attn is not None:
            if attn.dtype is not _BOOL and attn.dtype is not _UINT8 and attn.dtype not in _FLOATS:
                raise ValueError(
                    f"For 'MultiheadAttention', the 'attn_mask' must be of floats or bools, but got {attn.dtype}."
                )
            if attn.ndim == 3:
                _expect(attn.shape, (batch * self.num_heads, length, keys), "shape of the 'attn_mask'")
                attn = attn.reshape((batch, self.num_heads, length, keys))
            else:
                _expect(attn.shape, (length, keys), "shape of the 'attn_mask'")
                attn = attn.reshape((1, 1, length, keys))
            total = _added(attn, dtype)
        if padding is not None:
            if padding.dtype is not _BOOL and padding.dtype not in _FLOATS:
                raise ValueError(
                    f"For 'MultiheadAttention', the 'key_padding_mask' must be of floats or bools, but got {padding.dtype}."
                )
            _expect(padding.shape, (batch, keys), "shape of the 'key_padding_mask'")
            closed = _added(padding.reshape((batch, 1, 1, keys)), dtype)
            total = closed if total is None else total + closed
        if total is not None and more:
            total = ops.pad(total, (0, more))
        return total

    def extend_repr(self) -> str:
        """The sizes."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"


def _added(mask: Any, dtype: Any) -> Any:
    """-inf where a mask of bools is true, else 0; a mask of floats as it is."""
    if mask.dtype in _FLOATS:
        return mask
    return ops.where(mask, ops.full((), float("-inf"), dtype=dtype), ops.zeros((), dtype))


def _activation(activation: Any) -> Any:
    """The function for a name, or one of the functions and cells that it may be."""
    if isinstance(activation, str):
        if activation not in ("relu", "gelu"):
            raise ValueError(f"The 'activation' must be 'relu' or 'gelu', but got {activation!r}.")
        return ops.relu if activation == "relu" else ops.gelu
    if activation is ops.relu or activation is ops.gelu or isinstance(activation, (ReLU, GELU)):
        return activation
    raise ValueError(f"The 'activation' must be ops.relu, ops.gelu, nn.ReLU or nn.GELU, but got {activation!r}.")


class _TransformerLayer(Cell):
    d_model: int
    nhead: int
    batch_first: bool

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        names = ("dim_feedforward", "dropout", "activation", "layer_norm_eps", "batch_first", "norm_first", "dtype")
        values = (dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, dtype)
        # With these a TransformerEncoder or TransformerDecoder makes its layers.
        self.arguments: Any = (d_model, nhead, dict(zip(names, values)))
        self.self_attn: MultiheadAttention = MultiheadAttention(
            d_model, nhead, dropout, batch_first=batch_first, dtype=dtype
        )
        self._make_more(d_model, nhead, dropout, batch_first, dtype)
        # The bounds of the biases are those of MindSpore: by the rows of each weight's transpose.
        he, first, second = HeUniform(math.sqrt(5)), 1 / math.sqrt(d_model), 1 / math.sqrt(dim_feedforward)
        self.dense1: Dense = Dense(d_model, dim_feedforward, he, Uniform(first), dtype=dtype)
        self.dropout: Dropout = Dropout(p=dropout)
        self.dense2: Dense = Dense(dim_feedforward, d_model, he, Uniform(second), dtype=dtype)
        self.norm_first = norm_first
        for at in range(1, self._blocks + 1):
            setattr(self, f"norm{at}", LayerNorm((d_model,), epsilon=layer_norm_eps, dtype=dtype))
        for at in range(1, self._blocks + 1):
            setattr(self, f"dropout{at}", Dropout(p=dropout))
        self.activation: Any = _activation(activation)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    _blocks = 2

    def _make_more(self, d_model: int, nhead: int, dropout: float, batch_first: bool, dtype: Any) -> None:
        """Further attention."""

    def _attended(self, attention: Cell, dropout: Cell, x: Any, other: Any, mask: Any, padding: Any) -> Any:
        return dropout(attention(x, other, other, padding, False, mask)[0])

    def _feed_forward(self, x: Any, dropout: Cell) -> Any:
        return dropout(self.dense2(self.dropout(self.activation(self.dense1(x)))))


class TransformerEncoderLayer(_TransformerLayer):
    """Attention within a sequence and two dense layers, each added to its input and normalized.

    Parameters
    ----------
    d_model, nhead : int
        Features, and heads of the attention.
    dim_feedforward : int
        Features between the two dense layers.
    dropout : float
        Probability of zeros, while training.
    activation : {'relu', 'gelu'}, function or Cell
        Between the two dense layers.
    layer_norm_eps : float
        Epsilon of the normalizations.
    batch_first : bool
        Inputs are [batch, length, features].
    norm_first : bool
        The inputs of attention and dense layers are normalized instead of the sums.
    dtype : dtype
        The dtype of the Parameters.
    """

    def construct(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None) -> Any:
        """The encoded sequence."""
        attended = self.norm1(src) if self.norm_first else src
        x = src + self._attended(self.self_attn, self.dropout1, attended, attended, src_mask, src_key_padding_mask)
        if self.norm_first:
            return x + self._feed_forward(self.norm2(x), self.dropout2)
        x = self.norm1(x)
        return self.norm2(x + self._feed_forward(x, self.dropout2))


class TransformerDecoderLayer(_TransformerLayer):
    """Attention within a sequence, attention to `memory`, and two dense layers; arguments as of `TransformerEncoderLayer`.

    Parameters
    ----------
    d_model : int
        The number of features.
    nhead : int
        The number of heads.
    dim_feedforward : int
        The number of features between the two dense layers.
    dropout : float
        The probability of zeros, while training.
    activation : str, Cell or None
        The activation.
    layer_norm_eps : float
        The epsilon of the normalizations.
    batch_first : bool
        Whether inputs are [batch, length, features].
    norm_first : bool
        Whether inputs of attention and dense layers are normalized instead of the sums.
    dtype : dtype
        The dtype of the Parameters.
    """

    _blocks = 3

    def _make_more(self, d_model: int, nhead: int, dropout: float, batch_first: bool, dtype: Any) -> None:
        self.multihead_attn: MultiheadAttention = MultiheadAttention(
            d_model, nhead, dropout, batch_first=batch_first, dtype=dtype
        )

    def construct(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
    ) -> Any:
        """The decoded sequence."""
        own = self.norm1(tgt) if self.norm_first else tgt
        x = tgt + self._attended(self.self_attn, self.dropout1, own, own, tgt_mask, tgt_key_padding_mask)
        if not self.norm_first:
            x = self.norm1(x)
        query = self.norm2(x) if self.norm_first else x
        x = x + self._attended(self.multihead_attn, self.dropout2, query, memory, memory_mask, memory_key_padding_mask)
        if self.norm_first:
            return x + self._feed_forward(self.norm3(x), self.dropout3)
        x = self.norm2(x)
        return self.norm3(x + self._feed_forward(x, self.dropout3))


def _copies(layer: Any, kind: type, num_layers: int) -> CellList:
    """New layers like `layer`, all with the same Parameters' values."""
    d_model, nhead, options = layer.arguments
    made = kind(d_model, nhead, **options)
    return CellList([copy.deepcopy(made) for _ in range(num_layers)])


class TransformerEncoder(Cell):
    """Layers like `encoder_layer`, one after the other, and `norm` after them.

    Parameters
    ----------
    encoder_layer : Cell
        The layer; it is copied.
    num_layers : int
        The number of layers.
    norm : Cell, optional
        Applied after the layers.
    """

    num_layers: int
    norm: Any

    def __init__(self, encoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        self.layers: CellList = _copies(encoder_layer, TransformerEncoderLayer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def construct(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None) -> Any:
        """The encoded sequence."""
        out = src
        for layer in self.layers:
            out = layer(out, src_mask, src_key_padding_mask)
        return out if self.norm is None else self.norm(out)


class TransformerDecoder(Cell):
    """Layers like `decoder_layer`, one after the other, and `norm` after them.

    Parameters
    ----------
    decoder_layer : Cell
        The layer; it is copied.
    num_layers : int
        The number of layers.
    norm : Cell, optional
        Applied after the layers.
    """

    num_layers: int
    norm: Any

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        self.layers: CellList = _copies(decoder_layer, TransformerDecoderLayer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def construct(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
    ) -> Any:
        """The decoded sequence."""
        out = tgt
        for layer in self.layers:
            out = layer(out, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return out if self.norm is None else self.norm(out)


class Transformer(Cell):
    """An encoder, and a decoder that attends to what it gives.

    Parameters
    ----------
    d_model, nhead, num_encoder_layers, num_decoder_layers, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first
        As of the layers.
    custom_encoder, custom_decoder : Cell, optional
        Instead of the encoder or decoder that is made here.
    dtype : dtype
        The dtype of the Parameters.
    """

    encoder: Any
    decoder: Any
    d_model: int
    nhead: int
    batch_first: bool

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        dtype: Any = _FLOAT32,
    ) -> None:
        super().__init__()
        of_type(self, int, d_model=d_model, nhead=nhead)
        options = (dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, dtype)

        def norm() -> LayerNorm:
            return LayerNorm((d_model,), epsilon=layer_norm_eps, dtype=dtype)

        if custom_encoder is None:
            layer = TransformerEncoderLayer(d_model, nhead, *options)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        if custom_decoder is None:
            layer = TransformerDecoderLayer(d_model, nhead, *options)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm())
        self.encoder, self.decoder = custom_encoder, custom_decoder
        for parameter in self.get_parameters():
            if parameter.ndim > 1:
                parameter.set_data(initializer("xavier_uniform", parameter.shape, parameter.dtype))
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def construct(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
    ) -> Any:
        """The decoded sequence."""
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise ValueError(
                f"For 'Transformer', 'src' and 'tgt' must be of one batch, but got {src.shape} and {tgt.shape}."
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ValueError(
                f"For 'Transformer', the last dimensions of 'src' and 'tgt' must be 'd_model' {self.d_model}, but got {src.shape} and "
                f"{tgt.shape}."
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
