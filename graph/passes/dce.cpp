// dce: drops nodes that nothing can see, in one walk from the end.
//
// Alive are results and what they need; operators that may set a floating-point flag, unless errstate ignores all of
// them; host calls that may raise; writes to params; writes to fresh memory that is read later or is a result. A write is dead where the same
// place is written again before anything reads its root (the run time undoes writes as a whole, so none is seen in
// between).
#include <algorithm>

#include "graph/pass.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

class Liveness {
 public:
  Liveness(const Graph& graph, const PassContext& context)
      : graph_(graph),
        ignore_flags_(context.ignore_flags),
        used_(graph.value_count(), false),
        read_(graph.value_count(), false),
        overwritten_(graph.value_count(), kNoValue) {
    for (ValueId v : graph.params()) read_[index(v)] = true;
    for (ValueId v : graph.results()) {
      used_[index(v)] = true;
      read_[index(graph.root(v))] = true;
    }
  }

  /// For the nodes in reverse order: is it alive? Its operands are, then.
  bool visit(ValueId v) {
    const Node& n = graph_.node(v);
    if (n.op == Op::Write) {
      const std::size_t root = index(n.type.root);
      const ValueId later = overwritten_[root];
      if (!read_[root] || (later != kNoValue && same_place(n.type, graph_.type(later)))) return false;
      overwritten_[root] = v;
    } else if (!used_[index(v)] && !(n.op == Op::Host && n.index() >= kFirstRaisingHost) && (ignore_flags_ || !may_set_flags(graph_, v))) {
      return false;
    }
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      used_[index(n.inputs[i])] = true;
      if (!reads_operand(n, i)) continue;
      const std::size_t root = index(graph_.root(n.inputs[i]));
      read_[root] = true;
      overwritten_[root] = kNoValue;
    }
    return true;
  }

 private:
  const Graph& graph_;
  const bool ignore_flags_;
  std::vector<bool> used_;
  std::vector<bool> read_;            // by root: a live node after this place reads it, or it can be seen outside
  std::vector<ValueId> overwritten_;  // by root: the next live write, with no read before it
};

}  // namespace

bool dce(Graph& graph, PassContext& context) {
  Liveness liveness(graph, context);
  std::vector<ValueId>& nodes = graph.body().nodes;
  std::vector<ValueId> kept;
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it)
    if (liveness.visit(*it)) kept.push_back(*it);
  std::reverse(kept.begin(), kept.end());
  const bool changed = kept.size() != nodes.size();
  nodes = std::move(kept);
  return changed;
}

}  // namespace framejit::graph
