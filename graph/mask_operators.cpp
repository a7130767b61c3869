// The types of elements that a mask or indices choose.
#include "graph/mask_operators.h"

#include <utility>

#include "graph/layout.h"

namespace framejit::graph {

BuildResult append_compress(GraphBuilder& builder, ValueId mask, ValueId x, const Dim& count) {
  Graph& graph = builder.graph();
  const Dims &masked = graph.type(mask).shape, shape = graph.type(x).shape;
  if (masked.size() > shape.size()) return shape_error("too many axes of a mask");
  for (std::size_t i = 0; i < masked.size(); ++i)
    if (!graph.shapes().fits(masked[i], shape[i])) return shape_error("a mask of another shape");
  Dims out{count};
  out.insert(out.end(), shape.begin() + static_cast<std::ptrdiff_t>(masked.size()), shape.end());
  const DType dtype = graph.type(x).dtype;
  Dims strides = packed_strides(graph.shapes(), dtype, out, c_order(static_cast<int>(out.size())));
  return builder.append(Op::Compress, {mask, x}, Type{dtype, std::move(out), std::move(strides)});
}

ValueId append_nonzero(GraphBuilder& builder, ValueId mask, const Dim& count) {
  Graph& graph = builder.graph();
  Dims shape{count, graph.type(mask).rank()};
  Dims strides = packed_strides(graph.shapes(), DType::I64, shape, c_order(2));
  return builder.append(Op::Nonzero, {mask}, Type{DType::I64, std::move(shape), std::move(strides)});
}

ValueId append_expand(GraphBuilder& builder, ValueId mask, ValueId x) {
  Graph& graph = builder.graph();
  Dims out = graph.type(mask).shape;
  const Type given = graph.type(x);
  out.insert(out.end(), given.shape.begin() + 1, given.shape.end());
  Dims strides = packed_strides(graph.shapes(), given.dtype, out, c_order(static_cast<int>(out.size())));
  return builder.append(Op::Expand, {mask, x}, Type{given.dtype, std::move(out), std::move(strides)});
}

BuildResult append_put(GraphBuilder& builder, ValueId array, ValueId values, std::span<const ValueId> places) {
  Graph& graph = builder.graph();
  const Type &all = graph.type(array), &given = graph.type(values), &first = graph.type(places[0]);
  ShapeEnv& shapes = graph.shapes();
  const bool masked = first.dtype == DType::Bool;
  const std::size_t indexed = masked ? first.shape.size() : places.size();
  if (indexed == 0 || indexed > all.shape.size() || given.dtype != all.dtype) return shape_error("too many indices");
  if (masked) {
    for (std::size_t i = 0; i < indexed; ++i)
      if (!shapes.fits(first.shape[i], all.shape[i])) return shape_error("a mask of another shape");
    if (places.size() != 1 || given.shape.empty()) return shape_error("one mask, and a value for each place");
  } else {
    for (ValueId place : places)
      if (graph.type(place).rank() != 1 || !shapes.fits(graph.type(place).shape[0], first.shape[0]))
        return shape_error("indices of another length");
  }
  if (!given.shape.empty()) {
    if (given.shape.size() != 1 + all.shape.size() - indexed) return shape_error("values of another rank");
    if (!masked && !shapes.fits(given.shape[0], first.shape[0])) return shape_error("another number of values");
    for (std::size_t i = indexed; i < all.shape.size(); ++i)
      if (!shapes.fits(given.shape[1 + i - indexed], all.shape[i])) return shape_error("values of another shape");
  }
  std::vector<ValueId> inputs{array, values};
  inputs.insert(inputs.end(), places.begin(), places.end());
  Dims strides = packed_strides(shapes, all.dtype, all.shape, copy_order(shapes, all));
  return builder.append(Op::Put, std::move(inputs), Type{all.dtype, all.shape, std::move(strides)});
}

}  // namespace framejit::graph
