// What is known of an integer where it is used: that it is not negative, that it is not the greatest one.
//
// Operations tell, and so do the checks and branches that control has passed. A parameter of a block has a property if
// all edges give it such a value: a greatest fixed point.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "graph/cfg/intervals.h"
#include "graph/cfg/loops.h"
#include "graph/cfg/registers.h"

namespace framejit::cfg {

namespace {

/// NotGreatest: one can be added to it.
enum Property : uint8_t { Natural, NotGreatest };

class Facts {
 public:
  explicit Facts(const Cfg& cfg) : cfg_(cfg), shape_(shape_of(cfg)) { note_conditions(); }

  void find_properties() {
    for (const Property p : {Natural, NotGreatest}) find(p);
  }

  /// Has a value the property at a node of a block, by its place? Needs find_properties().
  bool has(Property p, Id v, uint32_t b, std::size_t place) const {
    if (is_made(p, v)) return true;
    const auto at = passed_.find(v);
    return at != passed_.end() && std::any_of(at->second.begin(), at->second.end(), [&](const Passed& c) {
             const bool before = c.block == b ? c.place < place : shape_.dominates(c.block, b);
             return before && follows(p, v, c.condition, c.holds);
           });
  }

  /// Does a check of an index that a block is given repeat what was checked of it on every way to the block? A length
  /// that the block itself reads is not known in front of it, so that no check on the way there can be of that one.
  bool is_checked(Id condition, uint32_t b) const {
    const Node& c = cfg_.at(condition);
    const std::vector<Id>& params = cfg_.blocks[b].params;
    const auto at = std::find(params.begin(), params.end(), c.args[0]);
    if (cfg_.is_param[condition] || c.op != Op::Below || at == params.end()) return false;
    for (uint32_t from : shape_.before[b]) {
      const Block& block = cfg_.blocks[from];
      for (int k = 0; k < block.successors(); ++k) {
        if (block.to[k].block != b) continue;
        const Id v = block.to[k].args[static_cast<std::size_t>(at - params.begin())];
        if (v != c.args[0] && !is_below(v, c.args[1], from)) return false;
      }
    }
    return true;
  }

  bool is_exact_natural(Id v) const {
    const Op op = cfg_.at(v).op;
    return (op == Op::AddExact || op == Op::MulExact) && is_made(Natural, v);
  }

  /// A sum `x + c` with c > 0 may overflow. Does the next check of its block ask whether the sum is below a length, and
  /// has it the same exit? Then that check is enough: a sum that overflows is negative, and no index is.
  bool is_index_then(uint32_t b, std::size_t place) const {
    const std::vector<Id>& nodes = cfg_.blocks[b].nodes;
    const Node& sum = cfg_.at(nodes[place]);
    for (std::size_t i = place + 1; i < nodes.size(); ++i) {
      const Node& n = cfg_.at(nodes[i]);
      if (info(n.op).effect == Effect::Pure) continue;
      if (n.op != Op::Check || cfg_.is_param[n.args[0]]) return false;
      const Node& asked = cfg_.at(n.args[0]);
      return asked.op == Op::Below && asked.args[0] == nodes[place] && is_at_least(asked.args[1], 0) &&
             cfg_.number_of(n.exit) == cfg_.number_of(sum.exit) &&
             cfg_.exits[n.exit].values == cfg_.exits[sum.exit].values;
    }
    return false;
  }

 private:
  static constexpr int kDeepest = 12;
  static constexpr std::size_t kEnd = std::numeric_limits<std::size_t>::max();

  /// A comparison that has been decided, or a sum that has not overflowed, once control is behind a place of a block.
  struct Passed {
    uint32_t block;
    std::size_t place;
    Id condition;
    bool holds;
  };

  void note_conditions() {
    for (uint32_t b : shape_.order) {
      const Block& block = cfg_.blocks[b];
      for (std::size_t i = 0; i < block.nodes.size(); ++i)
        if (const Node& n = cfg_.at(block.nodes[i]); n.op == Op::Check) note({b, i + 1, n.args[0], true});
        else if (n.op == Op::AddExact) passed_[n.args[0]].push_back({b, i + 1, block.nodes[i], true});
      if (block.end != Block::End::Branch || block.to[0].block == block.to[1].block) continue;
      for (const int k : {0, 1})
        if (shape_.before[block.to[k].block].size() == 1) note({block.to[k].block, 0, block.condition, k == 0});
    }
  }

  void note(const Passed& passed, int depth = 0) {
    const Node& c = cfg_.at(passed.condition);
    if (cfg_.is_param[passed.condition] || depth > kDeepest) return;
    if (c.op == Op::And && passed.holds)
      for (const int i : {0, 1}) note({passed.block, passed.place, c.args[i], true}, depth + 1);
    if (!is_comparison(c.op) || cfg_.at(c.args[0]).type != Type::I64) return;
    for (const int i : {0, 1})
      if (!cfg_.is_const(c.args[i])) passed_[c.args[i]].push_back(passed);
  }

  /// Has control passed such a comparison at the end of a block?
  bool is_below(Id v, Id end, uint32_t b) const {
    const auto at = passed_.find(v);
    return at != passed_.end() && std::any_of(at->second.begin(), at->second.end(), [&](const Passed& passed) {
             const Node& c = cfg_.at(passed.condition);
             return c.op == Op::Below && c.args[0] == v && c.args[1] == end && passed.holds &&
                    (passed.block == b || shape_.dominates(passed.block, b));
           });
  }

  void find(Property p) {
    std::vector<bool>& has = params_[p];
    has.assign(cfg_.nodes.size(), false);
    for (uint32_t b : shape_.order)
      for (Id v : cfg_.blocks[b].params) has[v] = cfg_.at(v).type == Type::I64;
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t b : shape_.order)
        for (std::size_t i = 0; i < cfg_.blocks[b].params.size(); ++i) {
          const Id v = cfg_.blocks[b].params[i];
          if (!has[v] || is_given(p, b, i)) continue;
          has[v] = false;
          changed = true;
        }
    }
  }

  bool is_given(Property p, uint32_t b, std::size_t which) const {
    bool is_counted = false, is_small = true;
    for (uint32_t from : shape_.before[b]) {
      const Block& block = cfg_.blocks[from];
      const bool chooses = block.end == Block::End::Branch && block.to[0].block != block.to[1].block;
      for (int k = 0; k < block.successors(); ++k) {
        if (block.to[k].block != b) continue;
        const Id v = block.to[k].args[which];
        if (counts(v, cfg_.blocks[b].params[which])) {
          is_counted = true;
          continue;
        }
        is_small = is_small && interval(cfg_, v);
        if (!(chooses && follows(p, v, block.condition, k == 0)) && !has(p, v, from, kEnd)) return false;
      }
    }
    return is_small || !is_counted;
  }

  /// A parameter and a small number. From a small number on, no loop goes on until such a sum exceeds 63 bits.
  bool counts(Id v, Id param) const {
    constexpr int64_t kMost = 16;
    const Node& n = cfg_.at(v);
    if (cfg_.is_param[v] || n.op != Op::Add || n.args[0] != param) return false;
    const std::optional<int64_t> by = number(cfg_, n.args[1]);
    return by && *by >= 0 && *by <= kMost;
  }

  bool is_at_least(Id v, int64_t least) const {
    const std::optional<int64_t> known = number(cfg_, v);
    return known ? *known >= least : least <= 0 && is_made(Natural, v);
  }

  /// Has a number the property if a comparison holds, or if it does not? If an exact sum was computed?
  bool follows(Property p, Id v, Id condition, bool holds, int depth = 0) const {
    const Node& c = cfg_.at(condition);
    if (cfg_.is_param[condition] || depth > kDeepest) return false;
    if (c.op == Op::And && holds)
      return follows(p, v, c.args[0], true, depth + 1) || follows(p, v, c.args[1], true, depth + 1);
    if (c.op == Op::AddExact) return p == NotGreatest && c.args[0] == v && number(cfg_, c.args[1]).value_or(0) > 0;
    if (!is_comparison(c.op) || cfg_.at(c.args[0]).type != Type::I64) return false;
    const Id a = c.args[0], b = c.args[1];
    if (p == NotGreatest) {
      switch (c.op) {
        case Op::Lt: return holds && a == v;
        case Op::Le: return !holds && b == v;
        case Op::Below: return holds && a == v && is_at_least(b, 0);
        default: return false;
      }
    }
    switch (c.op) {
      case Op::Lt: return holds ? b == v && is_at_least(a, -1) : a == v && is_at_least(b, 0);
      case Op::Le: return holds ? b == v && is_at_least(a, 0) : a == v && is_at_least(b, -1);
      case Op::Below: return holds && a == v && is_at_least(b, 0);
      case Op::Eq: return holds && a == v && is_at_least(b, 0);
      default: return false;
    }
  }

  /// By the operation that makes it.
  bool is_made(Property p, Id v, int depth = 0) const {
    const Node& n = cfg_.at(v);
    if (n.type != Type::I64 || n.lanes > 1 || depth > kDeepest) return false;
    if (cfg_.is_param[v]) return params_[p][v] || (p == Natural && n.natural);
    const auto of = [&](int i) { return is_made(p, n.args[i], depth + 1); };
    if (const std::optional<Interval> known = interval(cfg_, v)) return p == NotGreatest || known->low >= 0;
    switch (n.op) {
      case Op::Const: return !n.is_address && (p == Natural ? n.imm >= 0 : n.imm < std::numeric_limits<int64_t>::max());
      case Op::Select: return of(1) && of(2);
      default: break;
    }
    if (p == NotGreatest) return false;
    switch (n.op) {
      case Op::Symbol:
      case Op::Add:
      case Op::Mul: return n.natural;
      case Op::And: return of(0) || of(1);
      case Op::Or:
      case Op::Xor:
      case Op::FloorDiv:
      case Op::AddExact:
      case Op::MulExact: return of(0) && of(1);
      case Op::Shr: return of(0);
      case Op::FloorMod: return of(1);
      default: return false;
    }
  }

  const Cfg& cfg_;
  const Shape shape_;
  std::vector<bool> params_[2];  // by property: which parameters have it
  std::unordered_map<Id, std::vector<Passed>> passed_;
};

bool divides(const Cfg& cfg, const Node& n) {
  return (n.op == Op::FloorDiv || n.op == Op::FloorMod) && number(cfg, n.args[1]).value_or(0) > 1;
}

/// A sum or difference with a constant: what is added, if that is not the least integer.
std::optional<int64_t> added(const Cfg& cfg, const Node& n) {
  if (n.op != Op::AddExact && n.op != Op::SubExact) return std::nullopt;
  const std::optional<int64_t> by = number(cfg, n.args[1]);
  if (!by || *by == std::numeric_limits<int64_t>::min()) return std::nullopt;
  return n.op == Op::AddExact ? *by : -*by;
}

/// Is a number below 0? Indices are asked.
bool asks_sign(const Cfg& cfg, const Node& n) {
  return n.op == Op::Lt && n.lanes == 1 && !cfg.is_const(n.args[0]) && number(cfg, n.args[1]) == 0;
}

template <class Wanted>
bool any_node(const Cfg& cfg, const Wanted& wanted) {
  return std::any_of(cfg.blocks.begin(), cfg.blocks.end(), [&](const Block& b) {
    return std::any_of(b.nodes.begin(), b.nodes.end(), [&](Id id) { return wanted(cfg.at(id)); });
  });
}

}  // namespace

void note_naturals(Cfg& cfg) {
  if (!any_node(cfg, [&](const Node& n) { return divides(cfg, n); })) return;
  Facts facts(cfg);
  facts.find_properties();
  for (const Block& block : cfg.blocks)
    for (const Id id : block.nodes)
      if (facts.is_exact_natural(id)) cfg.nodes[id].natural = true;
}

void find_naturals(Cfg& cfg) {
  if (!any_node(cfg, [&](const Node& n) { return divides(cfg, n); })) return;
  Facts facts(cfg);
  facts.find_properties();
  for (uint32_t b = 0; b < cfg.blocks.size(); ++b)
    for (std::size_t i = 0; i < cfg.blocks[b].nodes.size(); ++i)
      if (Node& n = cfg.nodes[cfg.blocks[b].nodes[i]]; divides(cfg, n))
        n.of_natural = facts.has(Natural, n.args[0], b, i);
}

bool drop_checks(Cfg& cfg) {
  const auto concerns = [&](const Node& n) { return added(cfg, n) || asks_sign(cfg, n); };
  if (!any_node(cfg, concerns)) return false;
  std::vector<Id> known;
  Facts facts(cfg);
  facts.find_properties();
  for (uint32_t b = 0; b < cfg.blocks.size(); ++b)
    for (std::size_t i = 0; i < cfg.blocks[b].nodes.size(); ++i) {
      const Node& n = cfg.at(cfg.blocks[b].nodes[i]);
      const std::optional<int64_t> by = added(cfg, n);
      const bool is_known = by ? (*by > 0 && n.op == Op::AddExact && facts.is_index_then(b, i)) ||
                                     (*by == 1 && facts.has(NotGreatest, n.args[0], b, i)) ||
                                     (*by <= 0 && facts.has(Natural, n.args[0], b, i))
                               : asks_sign(cfg, n) && facts.has(Natural, n.args[0], b, i);
      if (is_known) known.push_back(cfg.blocks[b].nodes[i]);
    }
  for (const Id id : known) {
    Node& n = cfg.nodes[id];
    if (n.op == Op::Lt) {
      n = Node{};
      n.type = Type::I64;
    } else {
      n.op = n.op == Op::AddExact ? Op::Add : Op::Sub;
      n.exit = kNone;
    }
  }
  return !known.empty();
}

void drop_repeated_checks(Cfg& cfg) {
  const Facts facts(cfg);
  std::vector<Id> repeated;
  for (uint32_t b = 0; b < cfg.blocks.size(); ++b)
    for (const Id id : cfg.blocks[b].nodes)
      if (cfg.at(id).op == Op::Check && facts.is_checked(cfg.at(id).args[0], b)) repeated.push_back(id);
  for (const Id id : repeated) {
    cfg.nodes[id] = Node{};
    cfg.nodes[id].type = Type::I64;
  }
}

}  // namespace framejit::cfg
