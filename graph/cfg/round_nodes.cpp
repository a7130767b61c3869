// Branches of a round become choices, and its nodes one list.
#include "graph/cfg/round_nodes.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <utility>
#include <vector>

#include "graph/cfg/edit.h"
#include "graph/cfg/intervals.h"
#include "graph/cfg/registers.h"

namespace framejit::cfg {

Id RoundNodes::copy(Node n) {
  const Id id = cfg_.add(n);
  form_[id] = {};
  return id;
}

Id RoundNodes::copy(Op op, Type type, Id a, Id b, Id c) {
  const Node n = node(op, type, a, b, c);
  if (counts_bits_or_none(cfg_, n)) return b;
  const Id id = copy(n);
  order_.push_back({id, kNone});
  return id;
}

Id RoundNodes::copied_constant(int64_t value) {
  const auto [at, first] = constants_.emplace(value, kNone);
  if (first) {
    Node n;
    n.type = Type::I64;
    n.imm = value;
    at->second = copy(n);
  }
  return at->second;
}

RoundNodes::Condition RoundNodes::both(const Condition& a, const Condition& b) {
  if (a.value == kNone) return b;
  if (b.value == kNone) return a;
  const Id x = positive(a), y = positive(b);
  return {copy(Op::And, Type::I64, x, y), false};
}

RoundNodes::Condition RoundNodes::relative(uint32_t b, uint32_t up) {
  if (b == up) return {};
  const uint32_t over = shape_.dominator[b];
  if (flow_[b] == flow_[over]) return relative(over, up);
  Condition any;
  bool first = true;
  for (uint32_t p : sorted_before(b))
    for (int k = 0; k < cfg_.blocks[p].successors(); ++k) {
      if (cfg_.blocks[p].to[k].block != b) continue;
      const Condition one = along(p, k, up);
      if (first) {
        any = one;
      } else {
        const Id x = positive(any), y = positive(one);
        any = {copy(Op::Or, Type::I64, x, y), false};
      }
      first = false;
    }
  return any;
}

RoundNodes::Condition RoundNodes::along(uint32_t p, int k, uint32_t up) {
  const Block& block = cfg_.blocks[p];
  Condition last;
  if (block.end == Block::End::Branch) last = {name(block.condition), k == 1};
  return both(relative(p, up), last);
}

std::vector<uint32_t> RoundNodes::sorted_before(uint32_t b) const {
  std::vector<uint32_t> out(shape_.before[b].begin(), shape_.before[b].end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

bool RoundNodes::line_up() {
  std::vector<uint32_t> members = blocks_of_loop(cfg_, shape_, head_);
  if (members.size() > kMostBlocks) return false;
  std::vector<bool> inside(cfg_.blocks.size(), false);
  std::size_t nodes = 0;
  for (uint32_t b : members) {
    inside[b] = true;
    nodes += cfg_.blocks[b].nodes.size();
    if (shape_.loop[b] != head_) return false;
    for (const Id id : cfg_.blocks[b].nodes)
      if (cfg_.at(id).lanes > 1) return false;
  }
  if (nodes > kMostNodes || cfg_.blocks[head_].params.size() > kMostParams) return false;
  // One block asks whether the loop goes on, and control always comes there.
  flow_.assign(cfg_.blocks.size(), 0.0);
  flow_[head_] = 1.0;
  std::vector<uint32_t> order;
  for (uint32_t b : shape_.order)
    if (inside[b]) order.push_back(b);
  for (uint32_t b : order) {
    const Block& block = cfg_.blocks[b];
    const int count = block.successors();
    if (count == 0) return false;
    bool ends = false;
    for (int k = 0; k < count; ++k) ends = ends || block.to[k].block == head_ || !inside[block.to[k].block];
    if (ends) {
      if (last_ != kNone || block.end != Block::End::Branch) return false;
      const bool first = block.to[0].block == head_, second = block.to[1].block == head_;
      if (first == second || inside[block.to[first ? 1 : 0].block]) return false;
      last_ = b;
      back_ = first ? 0 : 1;
      continue;
    }
    for (int k = 0; k < count; ++k) flow_[block.to[k].block] += flow_[b] / count;
  }
  if (last_ == kNone || flow_[last_] != 1.0) return false;
  for (Id p : cfg_.blocks[head_].params) form_[p] = {};
  for (uint32_t b : order) {
    if (b != head_) choose_params(b);
    const Condition when = flow_[b] == 1.0 ? Condition{} : relative(b, head_);
    const Id where = when.value == kNone ? kNone : positive(when);
    for (const Id id : std::vector<Id>(cfg_.blocks[b].nodes)) take(cfg_.at(id), id, where);
  }
  join_stores();
  const Block& block = cfg_.blocks[last_];
  end_condition_ = name(block.condition);
  for (Id v : block.to[back_].args) next_.push_back(name(v));
  if (!is_inside(end_condition_)) return false;
  const Node& c = cfg_.at(end_condition_);
  return c.op == (back_ == 0 ? Op::Ne : Op::Eq) && cfg_.at(c.args[0]).type == Type::I64;
}

namespace {

constexpr std::size_t kMostAtoms = 6;

/// Conditions as functions of others, which are not made of any: `if a: ... elif b: ...` has a, and not a and b.
class Logic {
 public:
  explicit Logic(const Cfg& cfg) : cfg_(cfg) {}

  /// Do two conditions never hold together?
  bool exclude(Id a, Id b) {
    return never([&](uint32_t values) { return holds(a, values) && holds(b, values); }, {a, b});
  }

  /// Does always one of two conditions hold?
  bool are_all(Id a, Id b) {
    return never([&](uint32_t values) { return !holds(a, values) && !holds(b, values); }, {a, b});
  }

 private:
  bool is_negation(Id v) const {
    const Node& n = cfg_.at(v);
    return !cfg_.is_param[v] && n.op == Op::Eq && cfg_.at(n.args[0]).type == Type::I64 && number(cfg_, n.args[1]) == 0;
  }

  /// A comparison, or several of them combined: 0 or 1.
  bool is_truth(Id v, int depth) const {
    if (cfg_.is_param[v] || depth > kDeepest) return false;
    const Node& n = cfg_.at(v);
    if (is_comparison(n.op)) return true;
    return (n.op == Op::And || n.op == Op::Or) && is_truth(n.args[0], depth + 1) && is_truth(n.args[1], depth + 1);
  }

  bool combines(Id v) const {
    return !cfg_.is_param[v] && (cfg_.at(v).op == Op::And || cfg_.at(v).op == Op::Or) && is_truth(v, 0);
  }

  template <class F>
  bool never(F&& f, std::initializer_list<Id> conditions) {
    for (const Id v : conditions)
      if (!collect(v, 0)) return false;
    for (uint32_t values = 0; values < uint32_t{1} << atoms_.size(); ++values)
      if (f(values)) return false;
    return true;
  }

  bool collect(Id v, int depth) {
    if (depth > kDeepest) return false;
    if (is_negation(v)) return collect(cfg_.at(v).args[0], depth + 1);
    if (combines(v)) return collect(cfg_.at(v).args[0], depth + 1) && collect(cfg_.at(v).args[1], depth + 1);
    if (std::find(atoms_.begin(), atoms_.end(), v) == atoms_.end()) atoms_.push_back(v);
    return atoms_.size() <= kMostAtoms;
  }

  bool holds(Id v, uint32_t values) const {
    const Node& n = cfg_.at(v);
    if (is_negation(v)) return !holds(n.args[0], values);
    if (!combines(v)) return ((values >> (std::find(atoms_.begin(), atoms_.end(), v) - atoms_.begin())) & 1) != 0;
    const bool a = holds(n.args[0], values), b = holds(n.args[1], values);
    return n.op == Op::And ? a && b : a || b;
  }

  static constexpr int kDeepest = 8;
  const Cfg& cfg_;
  std::vector<Id> atoms_;
};

}  // namespace

void RoundNodes::join_stores() {
  std::size_t before = order_.size();
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Step now = order_[i];
    if (cfg_.at(now.id).op != Op::Store) continue;
    const std::size_t first = std::exchange(before, i);
    if (first >= i || now.where == kNone || order_[first].where == kNone) continue;
    const Step other = order_[first];
    const Node a = cfg_.at(other.id), b = cfg_.at(now.id);
    Logic logic(cfg_);
    if (!is_same_place(a, b) || !logic.exclude(now.where, other.where)) continue;
    // What is read between them is read in the second case only.
    bool apart = false;
    for (std::size_t k = first + 1; k < i; ++k)
      apart = apart || (cfg_.at(order_[k].id).op == Op::Load && order_[k].where != now.where);
    if (apart) continue;
    std::vector<Step> made;
    const auto add = [&](const Node& n) {
      made.push_back({copy(n), kNone});
      return made.back().id;
    };
    const Id chosen = add(node(Op::Select, cfg_.at(a.args[2]).type, other.where, a.args[2], b.args[2]));
    cfg_.nodes[now.id].args[2] = chosen;
    const bool always = logic.are_all(now.where, other.where);
    order_[i].where = always ? kNone : add(node(Op::Or, Type::I64, other.where, now.where));
    order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(i), made.begin(), made.end());
    order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(first));
    i += made.size() - 1;
    before = i;
  }
}

void RoundNodes::choose_params(uint32_t b) {
  const std::vector<Id> params = cfg_.blocks[b].params;
  struct Way {
    Condition when;
    std::vector<Id> args;
  };
  std::vector<Way> ways;
  for (uint32_t p : sorted_before(b))
    for (int k = 0; k < cfg_.blocks[p].successors(); ++k)
      if (cfg_.blocks[p].to[k].block == b) {
        Way way;
        for (Id a : cfg_.blocks[p].to[k].args) way.args.push_back(name(a));
        if (!params.empty()) way.when = along(p, k, shape_.dominator[b]);
        ways.push_back(std::move(way));
      }
  for (std::size_t i = 0; i < params.size(); ++i) {
    Id chosen = ways.back().args[i];
    for (std::size_t w = 0; w + 1 < ways.size(); ++w) {
      const Id other = ways[w].args[i];
      if (other == chosen) continue;
      const Condition& c = ways[w].when;
      chosen =
          copy(Op::Select, cfg_.at(params[i]).type, c.value, c.negated ? chosen : other, c.negated ? other : chosen);
    }
    names_[params[i]] = chosen;
  }
}

void RoundNodes::take(Node n, Id id, Id where) {
  for (Id& a : n.args) a = name(a);
  const auto keep = [&] {
    names_[id] = copy(n);
    order_.push_back({names_[id], where});
  };
  if (n.op == Op::Check && is_true(n.args[0])) return;
  if (n.type != Type::I64 || n.lanes > 1) return keep();
  if (n.op == Op::Extend) {
    const std::optional<Interval> of = interval(cfg_, n.args[0]), most = interval_of(n.mem);
    if (of && most && most->low <= of->low && of->high <= most->high) names_[id] = n.args[0];
    else keep();
    return;
  }
  if (n.op == Op::AddExact || n.op == Op::SubExact || n.op == Op::MulExact) {
    const Op plain = n.op == Op::AddExact ? Op::Add : n.op == Op::SubExact ? Op::Sub : Op::Mul;
    Node made = n;
    made.op = plain;
    made.exit = kNone;
    if (interval_of(cfg_, made)) n = made;
    return keep();
  }
  if ((n.op == Op::FloorDiv || n.op == Op::FloorMod) && divides_)
    if (const std::optional<int64_t> by = number(n.args[1]); by && *by > 1 && *by < (int64_t{1} << 31))
      if (const std::optional<Interval> of = interval(cfg_, n.args[0]);
          of && of->low >= 0 && of->high < (int64_t{1} << 31)) {
        names_[id] = divided(n, *by, of->high);
        return;
      }
  mark_naturals(n);
  keep();
}

void RoundNodes::mark_naturals(Node& n) const {
  if (n.op != Op::Mul && n.op != Op::Shr) return;
  const auto is_natural = [&](Id v) {
    const std::optional<Interval> of = interval(cfg_, v);
    return of && of->low >= 0 && of->high < (int64_t{1} << 32);
  };
  n.of_natural = is_natural(n.args[0]) && is_natural(n.args[1]);
}

Id RoundNodes::divided(const Node& n, int64_t by, int64_t most) {
  const auto bits = std::bit_width(static_cast<uint64_t>(most)) + std::bit_width(static_cast<uint64_t>(by - 1));
  const int64_t factor = (int64_t{1} << bits) / by + 1;
  const auto operation = [&](Op op, Id a, int64_t b) {
    Node made;
    made.op = op;
    made.type = Type::I64;
    made.args[0] = a;
    made.args[1] = copied_constant(b);
    made.of_natural = true;
    const Id out = copy(made);
    order_.push_back({out, kNone});
    return out;
  };
  const Id quotient = operation(Op::Shr, operation(Op::Mul, n.args[0], factor), bits);
  return n.op == Op::FloorDiv ? quotient : copy(Op::Sub, Type::I64, n.args[0], operation(Op::Mul, quotient, by));
}

bool RoundNodes::is_true(Id c) const {
  if (const std::optional<int64_t> value = number(c)) return *value != 0;
  return !cfg_.is_param[c] && cfg_.at(c).op == Op::Eq && cfg_.at(c).args[0] == cfg_.at(c).args[1] &&
         cfg_.at(cfg_.at(c).args[0]).type == Type::I64;
}

}  // namespace framejit::cfg
