// sink_reshapes: an elementwise operation on whole arrays that were given another shape is done in their own shape, and
// its result gets the other one.
//
//     %2 = multiply %0, %1 : f64[4, 8]        %2 = multiply %0, %1 : f64[4, 8]
//     %3 = view %2 : f64[32]                  %4 = negative %2 : f64[4, 8]
//     %4 = negative %3 : f64[32]        ->    %5 = view %4 : f64[32]
//
// so that fuse finds operations over one index space, and a broadcast or transposed operand of %2 stays one. Arrays
// that are parameters, or that a library made, have no operation of their own to be fused with: at least one operand is
// the result of another one.
#include <algorithm>
#include <optional>
#include <utility>

#include "graph/pass.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

bool is_packed(const Type& t) { return t.strides == c_strides(t.dtype, t.shape); }

class Sinker {
 public:
  explicit Sinker(Graph& graph) : graph_(graph), facts_(graph), replacements_(graph) {}

  bool run() {
    run(graph_.body());
    return changed_;
  }

 private:
  void run(Block& block) {
    const std::vector<ValueId> nodes = std::exchange(block.nodes, {});
    graph_.open(block);
    for (const ValueId v : nodes) {
      rename(graph_.node(v));
      for (std::size_t i = 0; i < graph_.node(v).blocks.size(); ++i)
        run(*graph_.node(v).blocks[i]);  // which adds nodes
      const std::optional<Dims> shape = shape_of_operands(v);
      if (shape) take_operands(v);
      block.nodes.push_back(v);
      if (shape) replacements_.add(v, reshaped(v, *shape));
    }
    graph_.close();
  }

  void rename(Node& n) {
    replacements_.rename(n);
    if (!n.type.is_view()) return;
    const Type& root = graph_.type(n.type.root);
    if (!root.is_view()) return;
    n.type.root = root.root;  // the array that the view shows the whole of
    if (n.op == Op::View) n.inputs[0] = root.root;
  }

  /// Is the operand an array under another shape, all of it in order?
  bool is_reshaped(const Type& t) const {
    if (!t.is_view() || t.offset != Dim(0) || !is_packed(t)) return false;
    const Type& root = graph_.type(t.root);
    return root.dtype == t.dtype && is_packed(root) && root.size() == t.size();
  }

  bool is_result_of_operation(ValueId v) const {
    const OpClass cls = def(graph_.node(v).op).cls;
    return cls == OpClass::Elementwise || cls == OpClass::Copy;
  }

  /// The shape that all operands have of their own; nothing if the operation has to stay as it is.
  std::optional<Dims> shape_of_operands(ValueId v) const {
    const Node& n = graph_.node(v);
    if (def(n.op).cls != OpClass::Elementwise || n.type.is_view() || !is_packed(n.type) || !n.blocks.empty() ||
        facts_.result[index(v)] || facts_.escapes[index(v)] || facts_.last_write[index(v)] >= 0)
      return std::nullopt;
    const Dims* shape = nullptr;
    bool fuses = false;
    for (const ValueId operand : n.inputs) {
      const Type& t = graph_.type(operand);
      if (t.rank() == 0) continue;
      if (t.shape != n.type.shape || !is_reshaped(t)) return std::nullopt;
      const Dims& own = graph_.type(t.root).shape;
      if (own == t.shape || (shape && *shape != own)) return std::nullopt;
      shape = &own;
      fuses = fuses || is_result_of_operation(t.root);
    }
    return shape && fuses ? std::optional(*shape) : std::nullopt;
  }

  void take_operands(ValueId v) {
    changed_ = true;
    for (ValueId& operand : graph_.node(v).inputs)
      if (graph_.type(operand).rank() > 0) operand = graph_.type(operand).root;
  }

  /// Gives the operation that shape; what it was before is a view of it.
  ValueId reshaped(ValueId v, const Dims& shape) {
    Node view{};
    view.op = Op::View;
    view.inputs = {v};
    view.type = graph_.type(v);
    view.type.root = v;
    view.location = graph_.node(v).location;
    Type& type = graph_.node(v).type;
    type.shape = shape;
    type.strides = c_strides(type.dtype, shape);
    return graph_.append(std::move(view));
  }

  Graph& graph_;
  const MemoryFacts facts_;
  Replacements replacements_;
  bool changed_ = false;
};

}  // namespace

bool sink_reshapes(Graph& graph, PassContext&) { return Sinker(graph).run(); }

}  // namespace framejit::graph
