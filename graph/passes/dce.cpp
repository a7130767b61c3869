// dce: drops nodes that nothing can see, in one walk from the end.
//
// Alive are results and what they need; operators that may set a floating-point flag, unless errstate ignores all of
// them; library calls that may raise; writes to params; writes to fresh memory that is read later or is a result, or
// that a block makes from outside. A write is dead where the same place is written again, in the same block, before
// anything reads its root (the run time undoes writes as a whole, so none is seen in between). Of control flow the
// outputs that nobody uses go, and what its blocks compute for them; an if that does nothing goes as a whole. A loop
// stays: it might not end.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/pass.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

class Liveness {
 public:
  Liveness(Graph& graph, const PassContext& context)
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

  /// What a loop carries shows only when what nobody needs of its body is gone: there may be more to drop.
  bool has_loops() const { return has_loops_; }

  /// Drops what is dead in a block; true where something was.
  bool run(Block& block) {
    bool changed = false;
    std::vector<ValueId> kept;
    for (auto it = block.nodes.rbegin(); it != block.nodes.rend(); ++it) {
      if (graph_.node(*it).blocks.empty() ? visit(*it) : control(*it, changed)) kept.push_back(*it);
    }
    std::reverse(kept.begin(), kept.end());
    changed = changed || kept.size() != block.nodes.size();
    block.nodes = std::move(kept);
    return changed;
  }

 private:
  void use(ValueId v) {
    used_[index(v)] = true;
    const std::size_t root = index(graph_.root(v));
    read_[root] = true;
    overwritten_[root] = kNoValue;
  }

  bool control(ValueId v, bool& changed) {
    Node& n = graph_.node(v);
    const std::size_t first = n.op == Op::Loop ? 1 : 0;
    std::vector<bool> needed(n.blocks[0]->results.size(), false);
    if (first == 1) needed[0] = true;
    for (ValueId output : outputs_[v]) needed[first + static_cast<std::size_t>(graph_.node(output).index())] = true;
    has_loops_ = has_loops_ || n.op == Op::Loop;
    if (n.op == Op::Loop) add_carried(*n.blocks[0], needed);
    changed |= prune(v, needed);
    bool empty = n.op == Op::If && outputs_[v].empty();
    for (const std::unique_ptr<Block>& block : n.blocks) {
      for (ValueId result : block->results) use(result);
      const std::set<ValueId> own(block->nodes.begin(), block->nodes.end());
      const std::set<ValueId>* const around = std::exchange(own_, &own);
      changed |= run(*block);
      own_ = around;
      empty = empty && block->nodes.empty();
    }
    if (empty) return false;
    for (ValueId input : n.inputs) use(input);
    return true;
  }

  /// Carried values on which what is needed of a loop depends.
  void add_carried(const Block& body, std::vector<bool>& needed) const {
    std::set<ValueId> reached;
    std::vector<ValueId> open;
    const auto reach = [&](ValueId v) {
      if (reached.insert(v).second) open.push_back(v);
    };
    for (std::size_t i = 0; i < needed.size(); ++i)
      if (needed[i]) reach(body.results[i]);
    for (ValueId v : body.nodes) {
      const Node& n = graph_.node(v);
      const bool may_raise = may_end_run(n);
      if (n.op == Op::Write || is_control(n.op) || may_raise || (!ignore_flags_ && may_set_flags(graph_, v))) reach(v);
    }
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      for (ValueId used : used_values(graph_, v)) reach(used);
      if (graph_.type(v).is_view()) reach(graph_.type(v).root);
      const auto at = std::find(body.params.begin(), body.params.end(), v);
      if (at == body.params.end()) continue;
      const auto i = static_cast<std::size_t>(at - body.params.begin()) + 1;
      needed[i] = true;
      reach(body.results[i]);
    }
  }

  /// Keeps the results of the blocks that are needed, and numbers the outputs anew.
  bool prune(ValueId v, const std::vector<bool>& needed) {
    if (std::find(needed.begin(), needed.end(), false) == needed.end()) return false;
    Node& n = graph_.node(v);
    const std::size_t first = n.op == Op::Loop ? 1 : 0;
    const auto keep = [&](std::vector<ValueId>& values, std::size_t offset) {
      std::vector<ValueId> out;
      for (std::size_t i = 0; i < values.size(); ++i)
        if (needed[i + offset]) out.push_back(values[i]);
      values = std::move(out);
    };
    for (const std::unique_ptr<Block>& block : n.blocks) {
      keep(block->results, 0);
      keep(block->params, first);
    }
    if (n.op == Op::Loop) keep(n.inputs, first);
    for (ValueId output : outputs_[v]) {
      auto& number = std::get<int64_t>(graph_.node(output).attrs[0].second);
      const auto begin = needed.begin() + static_cast<std::ptrdiff_t>(first);
      number = std::count(begin, begin + number, true);
    }
    return true;
  }

  /// For the nodes in reverse order: is it alive? Its operands are, then.
  bool visit(ValueId v) {
    const Node& n = graph_.node(v);
    if (n.op == Op::Expect || n.op == Op::Measure) {
      use(n.inputs[0]);
      return true;
    }
    if (n.op == Op::Output) {
      if (used_[index(v)]) outputs_[n.inputs[0]].push_back(v);
      return used_[index(v)];
    }
    if (n.op == Op::Write) {
      const std::size_t root = index(n.type.root);
      const bool from_outside = own_ && !own_->contains(n.type.root);
      const ValueId later = std::exchange(overwritten_[root], from_outside ? kNoValue : v);
      const bool is_dead = !read_[root] || (later != kNoValue && same_place(n.type, graph_.type(later)));
      if (is_dead && !from_outside) return false;
    } else if (!used_[index(v)] && !may_end_run(n) && !may_warn(n, v)) {
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

  /// Convolutions and attention are Tensors' alone, which are silent.
  bool may_warn(const Node& n, ValueId v) const {
    const bool is_silent = def(n.op).cls == OpClass::Contraction && n.op != Op::MatMul;
    return !ignore_flags_ && !is_silent && n.flag_rule != FlagRule::drop() && may_set_flags(graph_, v);
  }

  Graph& graph_;
  const bool ignore_flags_;
  std::vector<bool> used_;
  std::vector<bool> read_;            // by root: a live node after this place reads it, or it can be seen outside
  std::vector<ValueId> overwritten_;  // by root: the next live write, with no read before it
  std::map<ValueId, std::vector<ValueId>> outputs_;  // of control flow: those that are alive
  const std::set<ValueId>* own_ = nullptr;           // made in the block; null: the body, where all is
  bool has_loops_ = false;
};

}  // namespace

bool dce(Graph& graph, PassContext& context) {
  bool changed = false, again = true;
  while (again) {
    Liveness liveness(graph, context);
    again = liveness.run(graph.body());
    changed = changed || again;
    again = again && liveness.has_loops();
  }
  return changed;
}

}  // namespace framejit::graph
