// cse: of equal nodes over equal memory states only the first is kept.
//
// Two nodes are equal if operator, operands, attributes and type are, and no root that they read was written in
// between: each root has a version that a write raises. A duplicate stays where its bytes can be told from the first
// one's: either of them is written, or both are results (or results share their bytes), or a library call reads
// both. Flags are sticky, so once is enough; they belong to the calls of both, and to none that is known where one of
// them has none. What a block computes is known in it only.
#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "graph/pass.h"
#include "graph/passes/hash.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

class CommonNodes {
 public:
  explicit CommonNodes(Graph& graph)
      : graph_(graph),
        facts_(graph),
        aliases_(graph),
        escapes_(facts_.escapes),
        replacements_(graph),
        version_(graph.value_count(), 0),
        seen_at_(version_),
        gone_(graph.value_count(), false) {}

  bool run() { return run(graph_.body()); }

 private:
  bool run(Block& block) {
    bool changed = false;
    const bool outermost = &block == &graph_.body();
    const std::size_t before = block.nodes.size();
    std::erase_if(block.nodes, [&](ValueId v) {
      if (!keep(v, outermost)) return true;
      // A round reads what the one before has written.
      if (graph_.node(v).op == Op::Loop)
        for (ValueId root : written_roots(graph_, v)) ++version_[index(root)];
      for (const std::unique_ptr<Block>& inner : graph_.node(v).blocks) changed |= run(*inner);
      return false;
    });
    for (ValueId& v : block.results) v = replacements_(v);
    for (ValueId v : block.nodes) gone_[index(v)] = true;
    return changed || block.nodes.size() != before;
  }

  bool keep(ValueId v, bool outermost) {
    Node& n = graph_.node(v);
    replacements_.rename(n);
    if (is_control(n.op)) return true;
    if (n.op == Op::Write) {
      ++version_[index(n.type.root)];
      return true;
    }
    const bool is_view = n.op == Op::View;
    if (is_view ? facts_.result[index(v)] : is_written(v)) return true;
    seen_at_[index(v)] = memory_state(n);
    const std::size_t key = hash(n, seen_at_[index(v)]);
    const auto [first, last] = table_.equal_range(key);
    const bool escapes = !is_view && escapes_[index(v)];
    for (auto it = first; it != last; ++it) {
      if (escapes && (!outermost || escapes_[index(it->second)])) continue;
      if (gone_[index(it->second)] || !equal(v, it->second) || !aliases_.may_merge(v, it->second, replacements_))
        continue;
      replacements_.add(v, it->second);
      if (escapes) escapes_[index(it->second)] = true;
      join_calls(graph_.node(it->second), n);
      return false;
    }
    table_.emplace(key, v);
    return true;
  }

  static void join_calls(Node& kept, const Node& dropped) {
    if (kept.calls.empty() || dropped.calls.empty()) return kept.calls.clear();
    std::vector<uint32_t> both;
    std::set_union(kept.calls.begin(), kept.calls.end(), dropped.calls.begin(), dropped.calls.end(),
                   std::back_inserter(both));
    kept.calls = std::move(both);
  }

  bool is_written(ValueId v) const { return facts_.last_write[index(v)] >= 0; }

  /// The versions of the roots that the node reads, as one number: they only grow, so equal sums of the same roots mean
  /// equal versions.
  uint32_t memory_state(const Node& n) const {
    uint32_t sum = 0;
    for (std::size_t i = 0; i < n.inputs.size(); ++i)
      if (reads_operand(n, i)) sum += version_[index(graph_.root(n.inputs[i]))];
    return sum;
  }

  std::size_t hash(const Node& n, uint32_t state) const {
    std::size_t h = mix_hash(static_cast<std::size_t>(n.op), state);
    for (ValueId v : n.inputs) h = mix_hash(h, index(v));
    h = mix_hash(h, hash_of_place(n.type, n.type.root));
    for (const auto& [key, value] : n.attrs) h = mix_hash(h, hash(value));
    return h;
  }

  static std::size_t hash(const AttrValue& value) {
    if (const Scalar* s = std::get_if<Scalar>(&value)) return mix_hash(s->lo, s->hi);
    if (const Dim* d = std::get_if<Dim>(&value)) return d->hash();
    std::size_t h = value.index();
    if (const auto* axes = std::get_if<std::vector<int64_t>>(&value))
      for (int64_t axis : *axes) h = mix_hash(h, static_cast<std::size_t>(axis));
    return h;
  }

  bool equal(ValueId a, ValueId b) const {
    const Node &x = graph_.node(a), &y = graph_.node(b);
    return x.op == y.op && x.rematerialized == y.rematerialized && x.flag_rule == y.flag_rule &&
           seen_at_[index(a)] == seen_at_[index(b)] && x.inputs == y.inputs && x.attrs == y.attrs &&
           x.type.root == y.type.root && same_place(x.type, y.type);
  }

  Graph& graph_;
  const MemoryFacts facts_;
  const AliasFacts aliases_;
  std::vector<bool> escapes_;  // by root: a result shares its bytes
  Replacements replacements_;
  std::vector<uint32_t> version_;  // of each root
  std::vector<uint32_t> seen_at_;  // memory state at which each value was computed
  std::vector<bool> gone_;         // of a block that was left
  std::unordered_multimap<std::size_t, ValueId> table_;
};

}  // namespace

bool cse(Graph& graph, PassContext&) { return CommonNodes(graph).run(); }

}  // namespace framejit::graph
