// forward: a read of a place that was just written uses the value that was written.
//
//     write %x, %v                      write %x, %v
//     %5 = multiply %x, %c        ->    %5 = multiply %v, %c
//
// so that a chain of in-place statements is one group for fuse. The value must have the shape of the place (no
// broadcast) and still be what it was: not written itself since, nor the place by another write to the root. Operators
// whose bits depend on the operand's layout (reductions, NumPy's loops, products) take it only where the layouts are
// the same. Blocks write only what is made in them, so what was written before one holds in it and behind it.
#include <algorithm>

#include "graph/pass.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

/// The last write to a root, while it holds.
struct Written {
  ValueId write = kNoValue, value = kNoValue;
  uint32_t value_version = 0;  // of the value's root when it was written
};

bool depends_on_layout(Op op) { return def(op).cls == OpClass::Reduction || def(op).exactness != Exactness::Native; }

}  // namespace

bool forward(Graph& graph, PassContext&) {
  std::vector<Written> written(graph.value_count());
  std::vector<uint32_t> version(graph.value_count(), 0);
  bool changed = false;
  for_each_node(graph, graph.body(), [&](ValueId v) {
    Node& n = graph.node(v);
    if (is_control(n.op)) return;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      if (!reads_operand(n, i)) continue;
      const Written& last = written[index(graph.root(n.inputs[i]))];
      if (last.write == kNoValue || !same_place(graph.type(n.inputs[i]), graph.type(last.write))) continue;
      const Type& value = graph.type(last.value);
      if (value.shape != graph.type(n.inputs[i]).shape || version[index(graph.root(last.value))] != last.value_version)
        continue;
      const bool computed = !value.is_view() && graph.node(last.value).op != Op::Param;
      if (!computed || (n.op == Op::Write && graph.root(last.value) == n.type.root)) continue;
      if (depends_on_layout(n.op) && value.strides != graph.type(n.inputs[i]).strides) continue;
      changed |= n.inputs[i] != last.value;
      n.inputs[i] = last.value;
    }
    if (n.op != Op::Write) return;
    ++version[index(n.type.root)];
    written[index(n.type.root)] = {v, n.inputs[1], version[index(graph.root(n.inputs[1]))]};
  });
  return changed;
}

}  // namespace framejit::graph
