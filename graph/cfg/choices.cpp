// Branches that only decide between values become a `select` if that is quick. A sum over rounds to which only some
// rounds add always gets 0, or -0.0, from the others: it waits for the sum before, and for no branch that may be
// foreseen wrongly.
#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "graph/cfg/edit.h"
#include "graph/cfg/intervals.h"
#include "graph/cfg/loops.h"
#include "graph/cfg/registers.h"

namespace framejit::cfg {

namespace {

constexpr std::size_t kMostNodes = 3, kMostChoices = 2;

bool is_cheap(const Cfg& cfg, Id id) {
  const Node& n = cfg.at(id);
  switch (n.op) {
    case Op::Const:
    case Op::Add:
    case Op::Sub:
    case Op::And:
    case Op::Or:
    case Op::Xor:
    case Op::Shl:
    case Op::Shr:
    case Op::Neg:
    case Op::Ones:
    case Op::Extend: return n.type == Type::I64;
    default: return false;
  }
}

/// A sum over rounds to which only some rounds add: `if x > 0: total += x`. What the other rounds add is 0, or -0.0,
/// which changes no number, so that the sum waits for the one before only, and for no choice.
class SumOfSome {
 public:
  SumOfSome(Cfg& cfg, const Shape& shape, std::vector<bool>& carried) : cfg_(cfg), shape_(shape), carried_(carried) {}

  /// Does it for the branch at the end of a block, if that decides on such a sum.
  bool run(uint32_t b) {
    const Id condition = cfg_.blocks[b].condition;
    if (cfg_.is_param[condition] || !is_comparison(cfg_.at(condition).op)) return false;
    const Op compares = cfg_.at(condition).op;
    const Type compared = cfg_.at(cfg_.at(condition).args[0]).type;
    for (const int k : {0, 1}) {
      const uint32_t arm = cfg_.blocks[b].to[k].block;
      const Block& taken = cfg_.blocks[arm];
      const Edge other = cfg_.blocks[b].to[1 - k];
      if (arm == b || shape_.before[arm].size() != 1 || taken.end != Block::End::Jump || !taken.params.empty() ||
          shape_.depth[arm] != shape_.depth[b] || taken.to[0].block != other.block)
        continue;
      const std::optional<std::size_t> at = only_difference(taken.to[0], other);
      if (!at) continue;
      const Id sum = taken.to[0].args[*at], before = other.args[*at];
      const bool can_choose = cfg_.at(sum).type == compared ||
                              (cfg_.at(sum).type == Type::I64 && (compares == Op::Lt || compares == Op::Le));
      if (!can_choose || !adds(taken, sum, before)) continue;
      join(b, k, sum, before);
      return true;
    }
    return false;
  }

 private:
  static std::optional<std::size_t> only_difference(const Edge& a, const Edge& b) {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < a.args.size(); ++i) {
      if (a.args[i] == b.args[i]) continue;
      if (found) return std::nullopt;
      found = i;
    }
    return found;
  }

  bool adds(const Block& arm, Id sum, Id before) const {
    const Node& s = cfg_.at(sum);
    const bool is_integer = s.type == Type::I64;  // those that cannot overflow are chosen below
    if (cfg_.is_param[sum] || s.lanes > 1 || s.args[0] == s.args[1] || !carried_[before]) return false;
    if (s.op != (is_integer ? Op::AddExact : Op::Add) && s.op != (is_integer ? Op::SubExact : Op::Sub)) return false;
    if (s.args[0] != before && (is_difference(s) || s.args[1] != before)) return false;
    std::size_t others = 0;
    bool has_sum = false;
    for (Id id : arm.nodes) {
      const Node& n = cfg_.at(id);
      has_sum = has_sum || id == sum;
      if (id == sum || (n.op == Op::CheckFinite && n.args[0] == sum)) continue;
      const bool is_quick = n.op == Op::Add || n.op == Op::Sub || n.op == Op::Mul || n.op == Op::Neg ||
                            n.op == Op::Abs || n.op == Op::MulAdd || n.op == Op::MulSub || n.op == Op::SubMul;
      if (has_sum || !(n.type == Type::I64 ? is_cheap(cfg_, id) : is_quick) || ++others > kMostNodes) return false;
    }
    return has_sum;
  }

  static bool is_difference(const Node& n) { return n.op == Op::Sub || n.op == Op::SubExact; }

  void join(uint32_t b, int k, Id sum, Id before) {
    Node nothing;
    nothing.type = cfg_.at(sum).type;
    if (nothing.type != Type::I64 && !is_difference(cfg_.at(sum)))
      nothing.imm = nothing.type == Type::F64 ? std::bit_cast<int64_t>(-0.0) : std::bit_cast<uint32_t>(-0.0F);
    const Id zero = add(nothing, b);
    const int which = cfg_.at(sum).args[0] == before ? 1 : 0;
    const Id added = cfg_.at(sum).args[which];
    Node choice;
    choice.op = Op::Select;
    choice.type = nothing.type;
    choice.args[0] = cfg_.blocks[b].condition;
    choice.args[1] = k == 0 ? added : zero;
    choice.args[2] = k == 0 ? zero : added;
    Block& arm = cfg_.blocks[cfg_.blocks[b].to[k].block];
    for (Id id : arm.nodes) {
      if (id == sum) {
        const Id chosen = add(choice, b);
        cfg_.nodes[sum].args[which] = chosen;
      } else if (cfg_.at(id).op == Op::CheckFinite) {
        // Only of the rounds that add: the exit is theirs.
        Node checked = choice;
        checked.args[k == 0 ? 1 : 2] = sum;
        checked.args[k == 0 ? 2 : 1] = zero;
        const Id asked = add(checked, b);
        cfg_.nodes[id].args[0] = asked;
      }
      cfg_.blocks[b].nodes.push_back(id);
    }
    arm.nodes.clear();
    Block& block = cfg_.blocks[b];
    block.end = Block::End::Jump;
    block.condition = kNone;
    block.to[0] = arm.to[0];
    block.to[1] = Edge{};
  }

  Id add(const Node& n, uint32_t b) {
    const Id id = cfg_.add(n);
    carried_.push_back(false);
    cfg_.blocks[b].nodes.push_back(id);
    return id;
  }

  Cfg& cfg_;
  const Shape& shape_;
  std::vector<bool>& carried_;  // by value: is it given from round to round?
};

}  // namespace

void choose_values(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  std::vector<bool> carried(cfg.nodes.size(), false);
  for (uint32_t b : shape.order)
    if (shape.loop[b] == b)
      for (Id p : cfg.blocks[b].params) carried[p] = true;
  // Inner choices first: they leave blocks that outer ones can take.
  for (auto at = shape.order.rbegin(); at != shape.order.rend(); ++at) {
    const uint32_t b = *at;
    if (shape.depth[b] == 0 || cfg.blocks[b].end != Block::End::Branch) continue;
    if (SumOfSome(cfg, shape, carried).run(b)) continue;
    const auto leads = [&](int k) -> const Edge* {  // through a block of cheap operations
      const uint32_t to = cfg.blocks[b].to[k].block;
      const Block& arm = cfg.blocks[to];
      if (shape.before[to].size() != 1 || arm.end != Block::End::Jump || arm.nodes.size() > kMostNodes ||
          !arm.params.empty() || shape.depth[to] != shape.depth[b])
        return nullptr;
      for (Id id : arm.nodes)
        if (!is_cheap(cfg, id)) return nullptr;
      return &arm.to[0];
    };
    const Edge *yes = &cfg.blocks[b].to[0], *no = &cfg.blocks[b].to[1];
    const Edge *far_yes = leads(0), *far_no = leads(1);
    bool through[2] = {false, false};
    if (far_yes && far_yes->block == no->block) through[0] = true;
    else if (far_no && far_no->block == yes->block) through[1] = true;
    else if (far_yes && far_no && far_yes->block == far_no->block) through[0] = through[1] = true;
    else continue;
    const Edge a = through[0] ? *far_yes : *yes, c = through[1] ? *far_no : *no;
    const Id condition = cfg.blocks[b].condition;
    const bool compares = !cfg.is_param[condition] && is_comparison(cfg.at(condition).op);
    const Type compared = compares ? cfg.at(cfg.at(condition).args[0]).type : Type::I64;
    const bool ordered = compares && (cfg.at(condition).op == Op::Lt || cfg.at(condition).op == Op::Le);
    std::size_t choices = 0;
    bool good = a.block != b;
    for (std::size_t i = 0; i < a.args.size(); ++i) {
      if (a.args[i] == c.args[i]) continue;
      choices += !cfg.is_const(a.args[i]) || !cfg.is_const(c.args[i]);  // the others are a comparison's result
      const Type type = cfg.at(a.args[i]).type;
      good = good && cfg.at(a.args[i]).lanes == 1;  // of vectors a number cannot choose
      // A float that waits for the one of the round before waits longer than for a branch that is foreseen, unless it
      // is the greater or the smaller one of what is compared, for which there is an instruction.
      if (type == Type::I64) {
        good = good && (compared == Type::I64 || ordered);
        continue;
      }
      const bool is_extremum =
          compares && cfg.at(condition).op == Op::Lt &&
          std::ranges::is_permutation(std::array{a.args[i], c.args[i]}, std::span(cfg.at(condition).args, 2));
      good = good && compared == type && (is_extremum || (!carried[a.args[i]] && !carried[c.args[i]]));
    }
    if (!good || choices == 0 || choices > kMostChoices) continue;
    Edge on;
    on.block = a.block;
    for (const int k : {0, 1}) {
      if (!through[k]) continue;
      std::vector<Id>& from = cfg.blocks[cfg.blocks[b].to[k].block].nodes;
      cfg.blocks[b].nodes.insert(cfg.blocks[b].nodes.end(), from.begin(), from.end());
      from.clear();
    }
    for (std::size_t i = 0; i < a.args.size(); ++i) {
      if (a.args[i] == c.args[i]) {
        on.args.push_back(a.args[i]);
        continue;
      }
      Node n;
      n.op = Op::Select;
      n.type = cfg.at(a.args[i]).type;
      n.args[0] = condition;
      n.args[1] = a.args[i];
      n.args[2] = c.args[i];
      on.args.push_back(cfg.add(n));
      carried.push_back(false);
      cfg.blocks[b].nodes.push_back(on.args.back());
    }
    Block& block = cfg.blocks[b];
    block.end = Block::End::Jump;
    block.condition = kNone;
    block.to[0] = std::move(on);
    block.to[1] = Edge{};
  }
  drop_unreached(cfg);
}

bool choose_by_comparisons(Cfg& cfg) {
  bool changed = false;
  for (Block& block : cfg.blocks)
    for (const Id id : block.nodes) {
      const Node choice = cfg.at(id);
      if (choice.op != Op::Select || choice.type != Type::I64 || choice.lanes > 1) continue;
      const std::optional<int64_t> yes = number(cfg, choice.args[1]), no = number(cfg, choice.args[2]);
      Node made = cfg.at(choice.args[0]);
      const bool is_same = yes == 1 && no == 0, is_opposite = yes == 0 && no == 1;
      if (!(is_same || is_opposite) || cfg.is_param[choice.args[0]] || !is_comparison(made.op) || made.lanes > 1)
        continue;
      if (is_opposite) {
        const bool is_integer = cfg.at(made.args[0]).type == Type::I64;
        if (made.op == Op::Eq || made.op == Op::Ne) made.op = made.op == Op::Eq ? Op::Ne : Op::Eq;
        else if (is_integer && made.op == Op::Lt) made.op = Op::Le, std::swap(made.args[0], made.args[1]);
        else if (is_integer && made.op == Op::Le) made.op = Op::Lt, std::swap(made.args[0], made.args[1]);
        else continue;
      }
      cfg.nodes[id] = made;
      changed = true;
    }
  return changed;
}

}  // namespace framejit::cfg
