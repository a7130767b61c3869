// Loops that count the bits of numbers.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/cfg/intervals.h"
#include "graph/cfg/loops.h"

namespace framejit::cfg {

namespace {

/// A loop that is one block: while x is not 0, the lowest bit that is 1 is taken from it, and some numbers count.
class BitCount {
 public:
  BitCount(Cfg& cfg, const Shape& shape, uint32_t b) : cfg_(cfg), shape_(shape), b_(b) {}

  bool run() {
    const Block& block = cfg_.blocks[b_];
    if (block.end != Block::End::Branch || (block.to[0].block == b_) == (block.to[1].block == b_)) return false;
    const int back = block.to[0].block == b_ ? 0 : 1;
    const Node& test = cfg_.at(block.condition);
    if (test.op != (back == 0 ? Op::Ne : Op::Eq) || number(cfg_, test.args[1]) != 0) return false;
    rest_ = test.args[0];
    const std::optional<std::size_t> which = find_number(block.to[back]);
    if (!which || !find_counters(block.to[back], *which) || !is_all(block) || loses_values() || !find_exit(block))
      return false;
    rewrite(back, is_never_zero(*which));
    return true;
  }

 private:
  bool is_inside(Id v) const {
    const std::vector<Id>& nodes = cfg_.blocks[b_].nodes;
    return std::find(nodes.begin(), nodes.end(), v) != nodes.end();
  }

  bool is_param(Id v) const {
    const std::vector<Id>& params = cfg_.blocks[b_].params;
    return std::find(params.begin(), params.end(), v) != params.end();
  }

  bool adds(Id v, Id to, int64_t by) const {
    const Node& n = cfg_.at(v);
    if (cfg_.is_param[v] || !is_inside(v) || n.args[0] != to) return false;
    const std::optional<int64_t> other = number(cfg_, n.args[1]);
    if (n.op == Op::Add || n.op == Op::AddExact) return other == by;
    return (n.op == Op::Sub || n.op == Op::SubExact) && other == -by;
  }

  /// The parameter that is given x & (x - 1).
  std::optional<std::size_t> find_number(const Edge& back) {
    const Node& n = cfg_.at(rest_);
    if (cfg_.is_param[rest_] || n.op != Op::And || !is_inside(rest_)) return std::nullopt;
    const std::vector<Id>& params = cfg_.blocks[b_].params;
    for (const int i : {0, 1}) {
      const auto at = std::find(params.begin(), params.end(), n.args[i]);
      if (at == params.end() || !adds(n.args[1 - i], *at, -1)) continue;
      const auto which = static_cast<std::size_t>(at - params.begin());
      if (back.args[which] != rest_) continue;
      x_ = *at;
      known_ = {rest_, n.args[1 - i]};
      return which;
    }
    return std::nullopt;
  }

  bool find_counters(const Edge& back, std::size_t which) {
    const std::vector<Id>& params = cfg_.blocks[b_].params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (i == which) continue;
      if (adds(back.args[i], params[i], 1)) counters_.push_back(back.args[i]);
      else if (is_inside(back.args[i]) || is_param(back.args[i])) return false;
      else followers_.emplace(params[i], back.args[i]);
    }
    known_.insert(counters_.begin(), counters_.end());
    return true;
  }

  /// Does the block compute nothing else, and hand on only what is known of the last round?
  bool is_all(const Block& block) const {
    for (const Id id : block.nodes)
      if (known_.count(id) == 0 && id != block.condition && cfg_.at(id).op != Op::Poll && !cfg_.is_const(id))
        return false;
    const Edge& out = block.to[block.to[0].block == b_ ? 1 : 0];
    return std::none_of(out.args.begin(), out.args.end(), [&](Id v) { return is_lost(v); });
  }

  /// A value of the last round that is not known without the rounds.
  bool is_lost(Id v) const {
    if (v == kNone || cfg_.is_const(v) || v == rest_ || followers_.count(v) != 0) return false;
    if (std::find(counters_.begin(), counters_.end(), v) != counters_.end()) return false;
    return is_inside(v) || is_param(v);
  }

  template <class F>
  void for_each_use_outside(F&& use) {
    const auto use_all = [&](std::vector<Id>& values) { std::for_each(values.begin(), values.end(), use); };
    for (uint32_t o = 0; o < cfg_.blocks.size(); ++o) {
      Block& other = cfg_.blocks[o];
      if (o == b_) continue;
      for (const Id id : other.nodes) {
        Node& n = cfg_.nodes[id];
        for (Id& a : n.args) use(a);
        use(n.count);
        use(n.where);
        if (info(n.op).effect == Effect::Checks) use_all(cfg_.exits[n.exit].values);
      }
      use(other.condition);
      for (Edge& e : other.to) use_all(e.args);
      if (other.end == Block::End::Leave) use_all(cfg_.exits[other.exit].values);
    }
  }

  bool loses_values() {
    bool lost = false;
    for_each_use_outside([&](Id& v) { lost = lost || is_lost(v); });
    return lost;
  }

  /// An exit with the state at the begin of the round.
  bool find_exit(const Block& block) {
    for (const Id id : block.nodes) {
      const Node& n = cfg_.at(id);
      if (info(n.op).effect != Effect::Checks) continue;
      const std::vector<Id>& values = cfg_.exits[n.exit].values;
      if (std::any_of(values.begin(), values.end(), [&](Id v) { return is_inside(v) && !cfg_.is_const(v); })) continue;
      exit_ = n.exit;
      return true;
    }
    return false;
  }

  /// Has a branch in front of the loop asked whether there is a bit?
  bool is_never_zero(std::size_t which) const {
    Id first = kNone;
    for (const uint32_t p : shape_.before[b_])
      for (int k = 0; p != b_ && k < cfg_.blocks[p].successors(); ++k) {
        const Edge& e = cfg_.blocks[p].to[k];
        if (e.block != b_) continue;
        if (first != kNone && first != e.args[which]) return false;
        first = e.args[which];
      }
    for (uint32_t at = b_; at != 0; at = shape_.dominator[at]) {
      if (shape_.before[at].size() != 1) continue;
      const Block& before = cfg_.blocks[shape_.before[at][0]];
      if (before.end != Block::End::Branch || before.to[0].block == before.to[1].block) continue;
      const Node& asks = cfg_.at(before.condition);
      if (cfg_.is_param[before.condition] || asks.args[0] != first || number(cfg_, asks.args[1]) != 0) continue;
      if (asks.op == (before.to[0].block == at ? Op::Ne : Op::Eq)) return true;
    }
    return false;
  }

  Id add(Op op, Id a, Id b = kNone, uint32_t exit = kNone) {
    Node n;
    n.op = op;
    n.type = op == Op::Check ? Type::None : Type::I64;
    n.args[0] = a;
    n.args[1] = b;
    n.exit = exit;
    const Id id = cfg_.add(n);
    cfg_.blocks[b_].nodes.push_back(id);
    return id;
  }

  Id copy_of_exit() {
    cfg_.exits.push_back({cfg_.exits[exit_].values, cfg_.number_of(exit_)});
    return static_cast<uint32_t>(cfg_.exits.size() - 1);
  }

  void rewrite(int back, bool never_zero) {
    std::vector<Id> kept;  // no polls: it is no loop any more
    for (const Id id : cfg_.blocks[b_].nodes)
      if (cfg_.is_const(id)) kept.push_back(id);
    cfg_.blocks[b_].nodes = std::move(kept);
    Node zero;
    zero.type = Type::I64;
    const Id none = cfg_.add(zero);
    cfg_.blocks[b_].nodes.push_back(none);
    // Numbers below 0 have infinitely many bits in Python.
    add(Op::Check, add(never_zero ? Op::Le : Op::Lt, none, x_), kNone, exit_);
    const Id ones = add(Op::Ones, x_);
    Edge out = cfg_.blocks[b_].to[1 - back];
    std::map<Id, Id> known{{rest_, none}};
    for (const Id counter : counters_)
      known[counter] = add(Op::AddExact, cfg_.at(counter).args[0], ones, copy_of_exit());
    if (!followers_.empty()) {
      Node one = zero;
      one.imm = 1;
      const Id once = cfg_.add(one);
      cfg_.blocks[b_].nodes.push_back(once);
      const Id is_one = add(Op::Eq, ones, once);
      for (const auto& [param, next] : followers_) {
        Node choice;
        choice.op = Op::Select;
        choice.type = cfg_.at(param).type;
        choice.args[0] = is_one;
        choice.args[1] = param;
        choice.args[2] = next;
        known[param] = cfg_.add(choice);
        cfg_.blocks[b_].nodes.push_back(known[param]);
      }
    }
    const auto name = [&](Id& v) {
      if (const auto at = known.find(v); at != known.end()) v = at->second;
    };
    for_each_use_outside(name);
    std::for_each(out.args.begin(), out.args.end(), name);
    Block& block = cfg_.blocks[b_];
    block.end = Block::End::Jump;
    block.condition = kNone;
    block.to[0] = std::move(out);
    block.to[1] = Edge{};
  }

  Cfg& cfg_;
  const Shape& shape_;
  const uint32_t b_;
  Id x_ = kNone, rest_ = kNone;
  uint32_t exit_ = kNone;
  std::vector<Id> counters_;
  std::map<Id, Id> followers_;  // other parameters, with what all rounds but the first have
  std::set<Id> known_;
};

}  // namespace

bool counts_bits_or_none(const Cfg& cfg, const Node& choice) {
  if (choice.op != Op::Select || choice.lanes > 1 || number(cfg, choice.args[2]) != 0) return false;
  const Node &asked = cfg.at(choice.args[0]), &bits = cfg.at(choice.args[1]);
  if (cfg.is_param[choice.args[0]] || cfg.is_param[choice.args[1]] || asked.op != Op::Ne || bits.op != Op::Ones)
    return false;
  const std::optional<int64_t> other = number(cfg, asked.args[1]);
  if (!other) return false;
  if (asked.args[0] == bits.args[0]) return *other == 0;
  // x may be a sum.
  const Node& sum = cfg.at(bits.args[0]);
  if (cfg.is_param[bits.args[0]] || sum.op != Op::Add || sum.args[0] != asked.args[0]) return false;
  const std::optional<int64_t> added = number(cfg, sum.args[1]);
  return added && static_cast<uint64_t>(*added) + static_cast<uint64_t>(*other) == 0;
}

bool count_bits(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  bool changed = false;
  for (const uint32_t b : shape.order) changed = BitCount(cfg, shape, b).run() || changed;
  return changed;
}

}  // namespace framejit::cfg
