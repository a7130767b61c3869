// The types of convolutions and attention, and which operands do not fit.
#include "graph/network_operators.h"

#include <algorithm>
#include <string>
#include <utility>

#include "graph/layout.h"
#include "graph/support/check.h"

namespace framejit::graph {

BuildResult append_convolution(GraphBuilder& builder, ValueId x, ValueId weights, const Window& window) {
  Graph& graph = builder.graph();
  const Type &image = graph.type(x), &filter = graph.type(weights);
  FRAMEJIT_CHECK(image.dtype == filter.dtype, "convolution: dtypes differ");
  ShapeEnv& shapes = graph.shapes();
  const std::size_t rank = window.axes.size() + 2;
  const auto misfit = [&] {
    return shape_error("convolution: mismatch of shapes " + shape_str(image.shape) + " and " + shape_str(filter.shape));
  };
  if (image.shape.size() != rank || filter.shape.size() != rank) return misfit();
  if (!shapes.limit({window.padded(image.shape), size_of(image.dtype), kMostMemory})) return misfit();
  const int64_t channels = shapes.specialize(filter.shape[0]), depth = shapes.specialize(filter.shape[1]);
  if (channels % window.groups != 0 || !shapes.equal(image.shape[1], depth * window.groups)) return misfit();
  Dims result = {image.shape[0], channels};
  for (std::size_t i = 0; i < window.axes.size(); ++i) {
    const Window::Axis& axis = window.axes[i];
    const int64_t size = shapes.specialize(filter.shape[i + 2]);
    const Dim least = Dim(axis.dilation) * (Dim(size) - 1) + 1 - axis.before - axis.after;
    if (size < 1 || !shapes.holds(Relation::Le, least, image.shape[i + 2])) return misfit();
    result.push_back(axis.places(image.shape[i + 2], size));
  }
  Dims strides = packed_strides(shapes, image.dtype, result, c_order(static_cast<int>(rank)));
  return builder.append(Op::Convolution, {x, weights}, Type{image.dtype, std::move(result), std::move(strides)},
                        {{AttrKey::Window, window.numbers()}});
}

BuildResult append_convolution_weights(GraphBuilder& builder, ValueId x, ValueId cotangent, const Window& window,
                                       Dims filter) {
  Graph& graph = builder.graph();
  const Type &image = graph.type(x), &result = graph.type(cotangent);
  FRAMEJIT_CHECK(image.dtype == result.dtype, "convolution_weights: dtypes differ");
  FRAMEJIT_CHECK(filter.size() == window.axes.size() + 2, "convolution_weights: rank of the weights");
  ShapeEnv& shapes = graph.shapes();
  Dims expected = {image.shape[0], filter[0]};
  bool fits = image.shape.size() == filter.size() && shapes.equal(image.shape[1], filter[1] * window.groups);
  for (std::size_t i = 0; fits && i < window.axes.size(); ++i)
    expected.push_back(window.axes[i].places(image.shape[i + 2], shapes.specialize(filter[i + 2])));
  fits = fits && result.shape.size() == expected.size();
  for (std::size_t i = 0; fits && i < expected.size(); ++i) fits = shapes.equal(result.shape[i], expected[i]);
  if (!fits)
    return shape_error("convolution_weights: mismatch of shapes " + shape_str(image.shape) + " and " +
                       shape_str(result.shape));
  AxisOrder order = c_order(static_cast<int>(filter.size()));  // innermost first
  const auto first = filter.begin() + 2;
  const bool is_one_place = std::all_of(first, filter.end(), [](const Dim& size) { return size == Dim(1); });
  if (!(filter[1] == Dim(1)) && !is_one_place) std::rotate(order.begin(), order.end() - 2, order.end() - 1);
  Dims strides = packed_strides(shapes, image.dtype, filter, order);
  return builder.append(Op::ConvolutionWeights, {x, cotangent},
                        Type{image.dtype, std::move(filter), std::move(strides)},
                        {{AttrKey::Window, window.numbers()}});
}

BuildResult append_attention(GraphBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId scale,
                             std::optional<ValueId> mask, Causal causal, std::optional<DroppedWeights> dropped) {
  Graph& graph = builder.graph();
  ShapeEnv& shapes = graph.shapes();
  const Dims queries = graph.type(q).shape, keys = graph.type(k).shape, values = graph.type(v).shape;
  bool fits = queries.size() == 4 && keys.size() == 4 && values.size() == 4 && graph.type(scale).rank() == 0;
  if (dropped)
    fits = fits && graph.type(dropped->probability).rank() == 0 && graph.type(dropped->state).shape == Dims{1};
  fits = fits && shapes.equal(queries[0], keys[0]) && shapes.equal(keys[0], values[0]) &&
         shapes.equal(keys[1], values[1]) && shapes.equal(keys[2], values[2]) && shapes.equal(queries[3], keys[3]);
  if (fits) {
    const int64_t heads = shapes.specialize(queries[1]), key_heads = shapes.specialize(keys[1]);
    fits = key_heads > 0 && heads % key_heads == 0;
  }
  std::vector<ValueId> operands = {q, k, v, fits ? builder.full(scale, {1}) : scale};
  if (fits && mask) {
    Dims all = {queries[0], queries[1], queries[2], keys[2]};
    const Dims& own = graph.type(*mask).shape;
    fits = own.size() <= all.size();
    for (std::size_t i = 0; fits && i < own.size(); ++i)
      fits = own[i] == Dim(1) || shapes.equal(own[i], all[all.size() - own.size() + i]) || shapes.equal(own[i], 1);
    operands.push_back(*mask);
  }
  if (fits && dropped) operands.insert(operands.end(), {dropped->state, builder.full(dropped->probability, {1})});
  if (!fits)
    return shape_error("attention: mismatch of shapes " + shape_str(queries) + ", " + shape_str(keys) + " and " +
                       shape_str(values));
  Dims result = {queries[0], queries[1], queries[2], values[3]};
  const DType dtype = graph.type(q).dtype;
  Dims strides = packed_strides(shapes, dtype, result, c_order(4));
  return builder.append(Op::Attention, std::move(operands), Type{dtype, std::move(result), std::move(strides)},
                        {{AttrKey::Index, static_cast<int64_t>(causal)}});
}

ValueId append_attention_gradients(GraphBuilder& builder, std::vector<ValueId> operands, Causal causal) {
  Graph& graph = builder.graph();
  Dim size = 0;
  for (std::size_t i = 0; i < 3; ++i) size = size + graph.type(operands[i]).size();
  const DType dtype = graph.type(operands[0]).dtype;
  Dims shape = {size}, strides = c_strides(dtype, shape);
  return builder.append(Op::AttentionGradients, std::move(operands), Type{dtype, std::move(shape), std::move(strides)},
                        {{AttrKey::Index, static_cast<int64_t>(causal)}});
}

}  // namespace framejit::graph
