// Numbers that are not negative wherever they are divided.
//
// A parameter is a natural number if all edges give it one: a greatest fixed point. An edge does so by the value itself,
// or by the conditions that lead there.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/cfg/intervals.h"
#include "graph/cfg/loops.h"
#include "graph/cfg/registers.h"

namespace framejit::cfg {

namespace {

class Naturals {
 public:
  explicit Naturals(const Cfg& cfg) : cfg_(cfg), shape_(shape_of(cfg)), is_natural_(cfg.nodes.size(), false) {
    for (uint32_t b : shape_.order)
      for (Id p : cfg.blocks[b].params) is_natural_[p] = cfg.at(p).type == Type::I64;
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t b : shape_.order)
        for (std::size_t i = 0; i < cfg.blocks[b].params.size(); ++i) {
          const Id p = cfg.blocks[b].params[i];
          if (!is_natural_[p] || is_given_naturals(b, i)) continue;
          is_natural_[p] = false;
          changed = true;
        }
    }
  }

  /// Is it never negative where control is in this block?
  bool is_natural(Id v, uint32_t b) const {
    if (is_natural(v)) return true;
    for (uint32_t at = b; at != 0; at = shape_.dominator[at]) {
      if (shape_.before[at].size() != 1) continue;
      const uint32_t before = shape_.before[at][0];
      const Block& block = cfg_.blocks[before];
      if (block.end == Block::End::Branch && follows(v, block.condition, block.to[0].block == at)) return true;
    }
    return false;
  }

 private:
  static constexpr int kDeepest = 12;

  bool is_given_naturals(uint32_t b, std::size_t which) const {
    for (uint32_t p : shape_.before[b]) {
      const Block& block = cfg_.blocks[p];
      for (int k = 0; k < block.successors(); ++k) {
        if (block.to[k].block != b) continue;
        const Id given = block.to[k].args[which];
        const bool chosen = block.end == Block::End::Branch && block.to[0].block != block.to[1].block &&
                            follows(given, block.condition, k == 0);
        if (!chosen && !counts(given, cfg_.blocks[b].params[which]) && !is_natural(given, p)) return false;
      }
    }
    return true;
  }

  /// A parameter and a small number. No loop goes on until such a sum exceeds 63 bits.
  bool counts(Id v, Id param) const {
    constexpr int64_t kMost = 16;
    const Node& n = cfg_.at(v);
    if (cfg_.is_param[v] || n.op != Op::Add || n.args[0] != param) return false;
    const std::optional<int64_t> by = number(cfg_, n.args[1]);
    return by && *by >= 0 && *by <= kMost;
  }

  bool is_at_least(Id v, int64_t least) const {
    const std::optional<int64_t> known = number(cfg_, v);
    return known ? *known >= least : least <= 0 && is_natural(v);
  }

  /// Is a number natural if a condition holds, or if it does not?
  bool follows(Id v, Id condition, bool holds, int depth = 0) const {
    const Node& c = cfg_.at(condition);
    if (cfg_.is_param[condition] || depth > kDeepest) return false;
    if (c.op == Op::And && holds)
      return follows(v, c.args[0], true, depth + 1) || follows(v, c.args[1], true, depth + 1);
    if (!is_comparison(c.op) || cfg_.at(c.args[0]).type != Type::I64) return false;
    switch (c.op) {
      case Op::Lt: return holds ? c.args[1] == v && is_at_least(c.args[0], -1) : c.args[0] == v && is_at_least(c.args[1], 0);
      case Op::Le: return holds ? c.args[1] == v && is_at_least(c.args[0], 0) : c.args[0] == v && is_at_least(c.args[1], -1);
      case Op::Below: return holds && c.args[0] == v && is_at_least(c.args[1], 0);
      case Op::Eq: return holds && c.args[0] == v && is_at_least(c.args[1], 0);
      default: return false;
    }
  }

  bool is_natural(Id v, int depth = 0) const {
    const Node& n = cfg_.at(v);
    if (n.type != Type::I64 || n.lanes > 1 || depth > kDeepest) return false;
    if (cfg_.is_param[v]) return is_natural_[v];
    const auto of = [&](int i) { return is_natural(n.args[i], depth + 1); };
    switch (n.op) {
      case Op::Const: return n.imm >= 0;
      case Op::And: return of(0) || of(1);
      case Op::Or:
      case Op::Xor:
      case Op::FloorDiv:
      case Op::AddExact:
      case Op::MulExact: return of(0) && of(1);
      case Op::Shr: return of(0);
      case Op::FloorMod: return of(1);
      case Op::Select: return of(1) && of(2);
      default: break;
    }
    const std::optional<Interval> known = interval(cfg_, v);
    return known && known->low >= 0;
  }

  const Cfg& cfg_;
  const Shape shape_;
  std::vector<bool> is_natural_;  // of parameters
};

}  // namespace

void find_naturals(Cfg& cfg) {
  const auto divides = [&](Id id) {
    const Node& n = cfg.at(id);
    return (n.op == Op::FloorDiv || n.op == Op::FloorMod) && number(cfg, n.args[1]).value_or(0) > 1;
  };
  bool any = false;
  for (const Block& b : cfg.blocks) any = any || std::any_of(b.nodes.begin(), b.nodes.end(), divides);
  if (!any) return;
  const Naturals naturals(cfg);
  for (uint32_t b = 0; b < cfg.blocks.size(); ++b)
    for (Id id : cfg.blocks[b].nodes)
      if (divides(id)) cfg.nodes[id].of_natural = naturals.is_natural(cfg.at(id).args[0], b);
}

}  // namespace framejit::cfg
