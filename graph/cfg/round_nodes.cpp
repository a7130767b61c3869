// Branches of a round become choices, and its nodes one list.
#include "graph/cfg/round_nodes.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "graph/cfg/edit.h"
#include "graph/cfg/intervals.h"

namespace framejit::cfg {

Id RoundNodes::copy(Node n) {
  const Id id = cfg_.add(n);
  form_[id] = {};
  return id;
}

Id RoundNodes::copy(Op op, Type type, Id a, Id b, Id c) {
  Node n;
  n.op = op;
  n.type = type;
  n.args[0] = a;
  n.args[1] = b;
  n.args[2] = c;
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

void RoundNodes::join_stores() {
  const auto negates = [&](Id x, Id y) {
    const Node& n = cfg_.at(x);
    return !cfg_.is_param[x] && n.op == Op::Eq && n.args[0] == y && number(n.args[1]) == 0;
  };
  std::size_t before = order_.size();
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Step now = order_[i];
    if (cfg_.at(now.id).op != Op::Store) continue;
    const std::size_t first = std::exchange(before, i);
    if (first >= i || now.where == kNone || order_[first].where == kNone) continue;
    const Step other = order_[first];
    const Node a = cfg_.at(other.id), b = cfg_.at(now.id);
    if (!negates(now.where, other.where) && !negates(other.where, now.where)) continue;
    if (a.args[0] != b.args[0] || a.args[1] != b.args[1] || a.imm != b.imm || a.scale != b.scale || a.mem != b.mem)
      continue;
    // What is read between them is read in the second case only.
    bool apart = false;
    for (std::size_t k = first + 1; k < i; ++k)
      apart = apart || (cfg_.at(order_[k].id).op == Op::Load && order_[k].where != now.where);
    if (apart) continue;
    Node both;
    both.op = Op::Select;
    both.type = cfg_.at(a.args[2]).type;
    both.args[0] = other.where;
    both.args[1] = a.args[2];
    both.args[2] = b.args[2];
    const Id chosen = copy(both);
    cfg_.nodes[now.id].args[2] = chosen;
    order_[i].where = kNone;
    order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(first));
    order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(i - 1), {chosen, kNone});
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
