// The types of elements that a mask chooses.
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

}  // namespace framejit::graph
