// store_to_load_forwarding: a read of a place that was just written uses the value that was written.
//
//     write %x, %v                      write %x, %v
//     %5 = multiply %x, %c        ->    %5 = multiply %v, %c
//
// so that a chain of in-place statements is one group for fuse. The value must have the shape of the place (no
// broadcast) and still be what it was: not written itself since, nor any element of the place by another write.
// Operators whose bits depend on the operand's layout (NumPy's loops, products) take it only where the layouts are the
// same, library calls where their operands share memory as before (AliasFacts), reductions never. What was written
// before control flow holds in it and behind it, unless that writes it too; what its blocks write is known in them
// only.
#include <algorithm>

#include "graph/pass.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

/// The most places of a root whose last writes are known.
constexpr std::size_t kMostPlaces = 64;

/// The last write to a place of a root, while it holds.
struct Written {
  ValueId write = kNoValue, value = kNoValue;
  uint32_t value_version = 0;  // of the value's root when it was written
};

/// Are elements repeated along an axis? There are fewer of them to read, then.
bool is_broadcast(const Type& t) {
  for (int axis = 0; axis < t.rank(); ++axis)
    if (t.strides[static_cast<std::size_t>(axis)] == Dim(0) && t.shape[static_cast<std::size_t>(axis)] != Dim(1))
      return true;
  return false;
}

bool depends_on_layout(Op op) { return def(op).exactness != Exactness::Native; }

class Forwarder {
 public:
  explicit Forwarder(Graph& graph) : graph_(graph), written_(graph.value_count()), version_(graph.value_count(), 0) {}

  bool run() {
    run(graph_.body());
    return changed_;
  }

 private:
  void run(const Block& block) {
    for (ValueId v : block.nodes) {
      const Node& n = graph_.node(v);
      if (!is_control(n.op)) visit(v);
      if (n.blocks.empty()) continue;
      const std::vector<ValueId> roots = written_roots(graph_, v);
      const auto forget = [&] {
        for (ValueId root : roots) {
          ++version_[index(root)];
          written_[index(root)].clear();
        }
      };
      if (n.op == Op::Loop) forget();  // a round finds what the one before has written
      for (const std::unique_ptr<Block>& inner : n.blocks) {
        run(*inner);
        forget();
      }
    }
  }

  void visit(ValueId v) {
    Node& n = graph_.node(v);
    // A reduction stands behind the write in a step of its own: what it took from the value would have to be stored
    // once more.
    const bool takes = def(n.op).cls != OpClass::Reduction;
    std::vector<ValueId> inputs = n.inputs;
    for (std::size_t i = 0; takes && i < n.inputs.size(); ++i)
      if (reads_operand(n, i)) inputs[i] = written_value(n, i);
    if (n.op == Op::LibraryCall && !shares_alike(n.inputs, inputs)) inputs = n.inputs;
    changed_ |= n.inputs != inputs;
    n.inputs = std::move(inputs);
    if (n.op != Op::Write) return;
    ++version_[index(n.type.root)];
    std::vector<Written>& written = written_[index(n.type.root)];
    if (written.size() == kMostPlaces) written.erase(written.begin());
    std::erase_if(written, [&](const Written& w) { return !never_meet(graph_.type(w.write), n.type); });
    written.push_back({v, n.inputs[1], version_[index(graph_.root(n.inputs[1]))]});
  }

  bool shares_alike(const std::vector<ValueId>& a, const std::vector<ValueId>& b) const {
    for (std::size_t i = 0; i < a.size(); ++i)
      for (std::size_t k = 0; k < i; ++k)
        if ((graph_.root(a[i]) == graph_.root(a[k])) != (graph_.root(b[i]) == graph_.root(b[k]))) return false;
    return true;
  }

  /// What was written to the place that is operand number i; the operand itself where that is not known, or will not
  /// do.
  ValueId written_value(const Node& n, std::size_t i) const {
    const ValueId operand = n.inputs[i];
    const std::vector<Written>& written = written_[index(graph_.root(operand))];
    const auto found = std::find_if(written.begin(), written.end(), [&](const Written& w) {
      return same_place(graph_.type(operand), graph_.type(w.write));
    });
    if (found == written.end()) return operand;
    const Written& last = *found;
    const Type& value = graph_.type(last.value);
    if (value.shape != graph_.type(operand).shape || version_[index(graph_.root(last.value))] != last.value_version)
      return operand;
    // The result of a `put` is written into the memory of its array, so it has no memory of its own to read from.
    const Op op = graph_.node(graph_.root(last.value)).op;
    const bool computed = (!value.is_view() || is_broadcast(value)) && op != Op::Param && op != Op::Put;
    if (!computed || (n.op == Op::Write && graph_.root(last.value) == n.type.root)) return operand;
    if (depends_on_layout(n.op) && value.strides != graph_.type(operand).strides) return operand;
    return last.value;
  }

  Graph& graph_;
  std::vector<std::vector<Written>> written_;  // by root: places of which no two share an element
  std::vector<uint32_t> version_;              // of each root
  bool changed_ = false;
};

}  // namespace

bool store_to_load_forwarding(Graph& graph, PassContext&) { return has_writes(graph) && Forwarder(graph).run(); }

}  // namespace framejit::graph
