// If a round of an inner loop loads a number that the round before has stored, it gets the number in a register.
//
//     for j in range(n):                        d[i, 1] = ...                 the first round, as it is
//         if a[i] == b[j]:                      last = what it has stored
//             d[i, j + 1] = up[j] + 1    ->     for j in range(1, n):
//         else:                                     ...
//             d[i, j + 1] = max(up[j], d[i, j])     last = d[i, j + 1] = max(up[j], last)
//
// A load has to wait for a store to its place, which takes longer than what such rounds compute. The load of the first
// round stays: what is there comes from elsewhere, and control may not come to it. For the rounds behind, each way to
// the end of a round has a store to the place, and no other store meets it. Loops that bound an index in their rounds
// are left: their versions without these checks are those that run.
#include "graph/cfg/loops.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "graph/cfg/edit.h"
#include "graph/cfg/intervals.h"

namespace framejit::cfg {

namespace {

constexpr std::size_t kMostNodes = 64;  // of a round, which is copied
constexpr int64_t kMostStep = 1 << 20;

class Carrier {
 public:
  Carrier(Cfg& cfg, const Shape& shape, uint32_t head) : cfg_(cfg), shape_(shape), head_(head) {}

  bool run() {
    if (!take_in()) return false;
    for (Id load : loads_) {
      const std::optional<Node> place = place_of_next(load);
      if (!place) continue;
      const auto same = [&](const Carried& c) { return is_same_place(c.place, *place); };
      const auto found = std::find_if(carried_.begin(), carried_.end(), same);
      if (found != carried_.end()) {
        found->loads.push_back(load);
        continue;
      }
      if (!stays(*place, step_of(cfg_.at(load)).value_or(0)) || !find_stored(*place)) continue;
      carried_.push_back({*place, {load}, {}});
    }
    std::erase_if(carried_, [&](const Carried& c) { return !is_chain(c); });
    if (carried_.empty()) return false;
    for (Carried& c : carried_) c.value = value_at_end(c.place);
    hand_on();
    return true;
  }

 private:
  /// The loads read the number that the round before has stored at `place`. `value` is that number at the end of a
  /// round.
  struct Carried {
    Node place;
    std::vector<Id> loads;
    Id value = kNone;
  };

  /// False if it is no inner loop of one end whose loads and stores are known.
  bool take_in() {
    members_ = blocks_of_loop(cfg_, shape_, head_);
    front_ = front_of(cfg_, shape_, head_);
    std::sort(members_.begin(), members_.end(), [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
    std::size_t nodes = 0, ends = 0;
    if (front_ == kNone) return false;
    for (uint32_t b : members_) {
      if (shape_.loop[b] != head_) return false;
      for (Id p : cfg_.blocks[b].params) inside_.insert(p);
      for (Id id : cfg_.blocks[b].nodes) {
        inside_.insert(id);
        const Node& n = cfg_.at(id);
        const bool writes = info(n.op).effect == Effect::Writes || n.op == Op::CallItself;
        if ((writes && n.op != Op::Store) || bounds_index(n) || n.lanes != 1 || ++nodes > kMostNodes) return false;
        if (n.op == Op::Store) stores_.push_back(id);
        if (n.op == Op::Load) loads_.push_back(id);
      }
      for (int k = 0; k < cfg_.blocks[b].successors(); ++k)
        if (cfg_.blocks[b].to[k].block == head_) end_ = b, edge_ = k, ++ends;
    }
    return ends == 1 && !stores_.empty() && !loads_.empty();
  }

  bool bounds_index(const Node& n) const { return n.op == Op::Check && cfg_.at(n.args[0]).op == Op::Below; }

  std::size_t rank(uint32_t b) const {
    return static_cast<std::size_t>(std::find(shape_.order.begin(), shape_.order.end(), b) - shape_.order.begin());
  }

  /// By how much a value grows from round to round.
  std::optional<int64_t> step_of(Id v, int depth = 4) const {
    if (v == kNone || !inside_.contains(v)) return 0;
    if (depth == 0) return std::nullopt;
    if (!cfg_.is_param[v]) {
      const Node& n = cfg_.at(v);
      if (n.op != Op::Add && n.op != Op::Sub && n.op != Op::Mul) return std::nullopt;
      const std::optional<int64_t> a = step_of(n.args[0], depth - 1), b = step_of(n.args[1], depth - 1);
      const std::optional<int64_t> by = n.op == Op::Mul ? number(cfg_, n.args[1]) : 1;
      if (!a || !b || !by || !is_within(*by, kMostStep)) return std::nullopt;
      return within(n.op == Op::Mul ? *a * *by : n.op == Op::Add ? *a + *b : *a - *b);
    }
    const std::vector<Id>& params = cfg_.blocks[head_].params;
    const auto at = std::find(params.begin(), params.end(), v);
    if (at == params.end()) return std::nullopt;
    const Id next = cfg_.blocks[end_].to[edge_].args[static_cast<std::size_t>(at - params.begin())];
    const Node& n = cfg_.at(next);
    if (cfg_.is_param[next] || n.op != Op::Add || n.args[0] != v) return std::nullopt;
    const std::optional<int64_t> by = number(cfg_, n.args[1]);
    return by ? within(*by) : std::nullopt;
  }
  static std::optional<int64_t> within(int64_t step) {
    return is_within(step, kMostStep) ? std::optional(step) : std::nullopt;
  }

  /// Bytes from the place of a load or store to that of the next round.
  std::optional<int64_t> step_of(const Node& n) const {
    const std::optional<int64_t> base = step_of(n.args[0]), index = step_of(n.args[1]);
    return base && index ? std::optional(*base + *index * n.scale) : std::nullopt;
  }

  static bool is_same_family(const Node& a, const Node& b) {
    return a.args[0] == b.args[0] && a.args[1] == b.args[1] && a.scale == b.scale;
  }

  /// Where a round has to store what the next one loads.
  std::optional<Node> place_of_next(Id load) const {
    Node place = cfg_.at(load);
    const std::optional<int64_t> step = step_of(place);
    if (!step || std::abs(*step) < size_of(place.mem) || !is_within(place.imm, INT64_MAX / 4)) return std::nullopt;
    place.imm += *step;
    return place;
  }

  /// Does nothing but stores to the place itself write to it, from there on to the load in the next round?
  bool stays(const Node& place, int64_t step) const {
    return std::all_of(stores_.begin(), stores_.end(), [&](Id id) {
      const Node& n = cfg_.at(id);
      if (!is_same_family(n, place)) return false;
      if (is_same_place(n, place)) return true;
      const auto apart = [&](int64_t at) {
        return at + size_of(n.mem) <= place.imm || place.imm + size_of(place.mem) <= at;
      };
      return is_within(n.imm, INT64_MAX / 4) && apart(n.imm) && apart(n.imm + step);
    });
  }

  /// The last store of a block to the place, or none.
  Id last_store(uint32_t b, const Node& place) const {
    const std::vector<Id>& nodes = cfg_.blocks[b].nodes;
    const auto at = std::find_if(nodes.rbegin(), nodes.rend(), [&](Id id) {
      return cfg_.at(id).op == Op::Store && is_same_place(cfg_.at(id), place);
    });
    return at == nodes.rend() ? kNone : *at;
  }

  /// Does each way to the end of a round store there?
  bool find_stored(const Node& place) const {
    std::map<uint32_t, bool> stored;
    for (uint32_t b : members_) {
      bool all = b != head_;
      for (uint32_t p : shape_.before[b])
        if (b != head_) all = all && stored[p];
      stored[b] = all || last_store(b, place) != kNone;
    }
    return stored[end_];
  }

  /// Does what is stored depend on what is loaded, so that the next round waits for it?
  bool is_chain(const Carried& c) const {
    std::set<Id> seen;
    std::vector<Id> open;
    for (Id id : stores_)
      if (is_same_place(cfg_.at(id), c.place)) open.push_back(cfg_.at(id).args[2]);
    while (!open.empty()) {
      const Id v = open.back();
      open.pop_back();
      if (v == kNone || !inside_.contains(v) || !seen.insert(v).second) continue;
      if (std::find(c.loads.begin(), c.loads.end(), v) != c.loads.end()) return true;
      if (!cfg_.is_param[v]) open.insert(open.end(), std::begin(cfg_.at(v).args), std::end(cfg_.at(v).args));
      for (uint32_t b : members_)
        for (int k = 0; b != end_ && k < cfg_.blocks[b].successors(); ++k) {
          const Edge& e = cfg_.blocks[b].to[k];
          for (std::size_t i = 0; i < e.args.size(); ++i)
            if (cfg_.blocks[e.block].params[i] == v) open.push_back(e.args[i]);
        }
    }
    return false;
  }

  /// Is a number what is loaded where it was stored?
  bool survives(Id v, Mem mem, int depth = 4) const {
    if (mem == Mem::I64 || mem == Mem::F64 || mem == Mem::F32) return true;
    const Node& n = cfg_.at(v);
    if (cfg_.is_param[v] || depth == 0) return false;
    if (n.op == Op::Select) return survives(n.args[1], mem, depth - 1) && survives(n.args[2], mem, depth - 1);
    return (n.op == Op::Load || n.op == Op::Extend) && n.mem == mem;
  }

  /// The number at the place at the end of a round. Blocks with several predecessors get a parameter for it.
  Id value_at_end(const Node& place) {
    std::map<uint32_t, Id> value;
    for (uint32_t b : members_) {
      const Id store = last_store(b, place);
      if (store != kNone) {
        value[b] = stored_value(b, store);
        continue;
      }
      value[b] = kNone;
      if (b == head_) continue;
      const auto before = shape_.before[b];
      const Id first = value[before[0]];
      if (std::any_of(before.begin(), before.end(), [&](uint32_t p) { return value[p] == kNone; })) continue;
      value[b] = first;
      if (std::all_of(before.begin(), before.end(), [&](uint32_t p) { return value[p] == first; })) continue;
      value[b] = cfg_.add_param_for(b, first);
      inside_.insert(value[b]);
      for (uint32_t p : members_)
        for (int k = 0; k < cfg_.blocks[p].successors(); ++k)
          if (cfg_.blocks[p].to[k].block == b) cfg_.blocks[p].to[k].args.push_back(value[p]);
    }
    return value[end_];
  }

  Id stored_value(uint32_t b, Id store) {
    const Node n = cfg_.at(store);
    if (survives(n.args[2], n.mem)) return n.args[2];
    Node cut;
    cut.op = Op::Extend;
    cut.type = Type::I64;
    cut.mem = n.mem;
    cut.args[0] = n.args[2];
    const Id out = cfg_.add(cut);
    std::vector<Id>& nodes = cfg_.blocks[b].nodes;
    nodes.insert(std::find(nodes.begin(), nodes.end(), store), out);
    return out;
  }

  void hand_on() {
    separate_exits(cfg_);
    std::vector<uint32_t> owner(cfg_.nodes.size(), kNone);
    for (uint32_t b : members_) {
      for (Id p : cfg_.blocks[b].params) owner[p] = b;
      for (Id n : cfg_.blocks[b].nodes) owner[n] = b;
    }
    const Copy copy = copy_blocks(cfg_, members_);
    owner.resize(cfg_.nodes.size(), kNone);
    cfg_.blocks[front_].to[0].block = copy.blocks.at(head_);
    Edge& behind_first = cfg_.blocks[copy.blocks.at(end_)].to[edge_];
    behind_first.block = head_;
    mend(cfg_, copy, owner);
    for (const Carried& c : carried_) {
      const auto of_copy = copy.values.find(c.value);
      const Id first = of_copy == copy.values.end() ? c.value : of_copy->second;
      const Id param = cfg_.add_param_for(head_, c.value);
      cfg_.blocks[end_].to[edge_].args.push_back(c.value);
      cfg_.blocks[copy.blocks.at(end_)].to[edge_].args.push_back(first);
      for (Id load : c.loads) replaced_.emplace_back(load, param);
    }
    Names names(cfg_.nodes.size());
    for (const auto& [load, param] : replaced_) names.replace(load, param);
    rename(cfg_, names);
  }

  Cfg& cfg_;
  const Shape& shape_;
  const uint32_t head_;
  uint32_t front_ = kNone, end_ = kNone;  // the block in front, and the one that leads to the next round
  int edge_ = 0;                          // by which of its edges
  std::vector<uint32_t> members_;         // each behind those that lead to it
  std::set<Id> inside_;
  std::vector<Id> loads_, stores_;
  std::vector<Carried> carried_;
  std::vector<std::pair<Id, Id>> replaced_;
};

}  // namespace

bool carry_stores(Cfg& cfg) {
  bool changed = false;
  const Shape shape = shape_of(cfg);
  for (uint32_t head : shape.order)
    if (shape.loop[head] == head) changed |= Carrier(cfg, shape, head).run();
  return changed;
}

}  // namespace framejit::cfg
