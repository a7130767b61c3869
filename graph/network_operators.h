// Appends the operators of neural networks: convolutions, attention and their gradients.
#pragma once

#include <optional>
#include <vector>

#include "graph/builder.h"

namespace framejit::graph {

/// x [batch, channels, space...] by weights [channels out, channels / groups, space...], whose lengths are fixed.
BuildResult append_convolution(GraphBuilder& builder, ValueId x, ValueId weights, const Window& window);
/// What the derivative of convolution(x, weights) by its weights, of shape `filter`, makes of `cotangent`, that of
/// the result: sums of products over all places. The channels of each weight are next to each other in memory.
BuildResult append_convolution_weights(GraphBuilder& builder, ValueId x, ValueId cotangent, const Window& window,
                                       Dims filter);

/// The probability with which weights of an attention become 0, and the state of the random numbers.
struct DroppedWeights {
  ValueId probability, state;
};

/// softmax(scale * q k^T + mask) v: q [batch, heads, queries, depth], k and v [batch, key heads, keys, depth or
/// width], heads a multiple of key heads, scale 0-d; mask, if there is one, broadcasts to [batch, heads, queries,
/// keys]. Weights that are `dropped` become 0 with a probability, 0-d, and the others are divided by what is left of
/// 1: weight number i, in C order, by number i of random.h that is drawn from the state, uint64[1].
BuildResult append_attention(GraphBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId scale,
                             std::optional<ValueId> mask, Causal causal, std::optional<DroppedWeights> dropped = {});
/// The cotangents of an attention's q, k and v, one behind the other in C order; `operands` are its own, with the
/// cotangent of its result and the result behind the scale.
ValueId append_attention_gradients(GraphBuilder& builder, std::vector<ValueId> operands, Causal causal);

}  // namespace framejit::graph
