// What functions that lower a graph ask about its nodes, and where values lie.
#include "codegen/lowerer.h"

#include <algorithm>
#include <array>

#include "graph/passes/memory.h"

namespace framejit::codegen::detail {

BufferIndex Lowerer::buffer_of(ValueId root) {
  if (const auto it = buffers.find(root); it != buffers.end()) return it->second;
  const Node& node = graph.node(root);
  if (node.op == Op::Constant) {  // what computes it into registers does not ask
    const std::array<uint8_t, 16> value = graph::element_of(graph.type(root).dtype, node.value());
    return buffers[root] =
               context.literal(value.data(), static_cast<std::size_t>(graph::size_of(graph.type(root).dtype)));
  }
  Buffer b{};
  if (node.op == Op::Param) {
    b.kind = BufferKind::Param;
    b.number = static_cast<uint32_t>(node.index());
  } else if (node.op == Op::DimValue) {
    b.kind = BufferKind::DimValue;
    b.value = node.dim();
  } else if (const auto it = result_number.find(root); it != result_number.end()) {
    b.kind = BufferKind::Result;
    b.number = it->second;
    b.bytes = bytes_of(root);
  } else {
    b.kind = BufferKind::Temp;
    b.bytes = bytes_of(root);
  }
  program.buffers.push_back(std::move(b));
  return buffers[root] = static_cast<BufferIndex>(program.buffers.size() - 1);
}

const Dims& Lowerer::shape_of(ValueId v) const {
  const Node& node = graph.node(v);
  if (node.op == Op::Write || cls(v) == OpClass::Reduction) return graph.type(node.inputs[0]).shape;
  return node.type.shape;
}

bool Lowerer::same_shape(const Dims& a, const Dims& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!facts.proven_equal(a[i], b[i])) return false;
  return true;
}

bool Lowerer::is_scalar_shape(const Dims& shape) {
  return std::all_of(shape.begin(), shape.end(), [&](const Dim& d) { return facts.is_one(d); });
}

bool Lowerer::is_param_write(ValueId v) const {
  const Node& node = graph.node(v);
  return node.op == Op::Write && graph.node(graph.root(node.inputs[0])).op == Op::Param;
}

bool Lowerer::writes_param(const Part& part) const {
  return !part.ahead && std::any_of(part.nodes.begin(), part.nodes.end(), [&](ValueId v) { return is_param_write(v); });
}

bool Lowerer::is_in_place(const Part& part) const {
  return part.nodes.size() == 2 && graph.node(part.nodes[0]).op == Op::Put;
}

bool Lowerer::may_redo(ValueId v) const {
  const graph::Op op = graph.node(v).op;
  if ((op == Op::Divide || op == Op::Absolute) && graph::is_complex(graph.type(graph.node(v).inputs[0]).dtype))
    return true;
  return (op == Op::ReduceMin || op == Op::ReduceMax) && graph::is_float(graph.type(v).dtype) && !options.o1 &&
         !options.any_zero;
}

bool Lowerer::needs_numpy_loop(ValueId v) const {
  const Node& node = graph.node(v);
  return context.needs_numpy_loop(node.op, graph.type(node.inputs.back()).dtype, node.type.dtype);
}

graph::FlagRule Lowerer::rule_of(const Part& part) const {
  std::optional<graph::FlagRule> rule;
  for (ValueId v : part.nodes) {
    if (!graph::may_set_flags(graph, v) && cls(v) != OpClass::LibraryCall) continue;
    if (rule && *rule != graph.node(v).flag_rule) fail("operators of one part under different np.errstate");
    rule = graph.node(v).flag_rule;
  }
  return rule.value_or(graph::FlagRule{});
}

}  // namespace framejit::codegen::detail
