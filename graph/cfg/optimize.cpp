// Passes over control-flow graphs. Each keeps the graph's meaning: the exit that is taken, what it lists, what is
// stored.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/cfg/edit.h"
#include "graph/cfg/intervals.h"
#include "graph/cfg/loops.h"
#include "graph/cfg/parallel.h"

namespace framejit::cfg {

namespace {

/// Finds the parameters that are one other value whichever way their block is reached, also where several hand each
/// other round loops. Braun et al., "Simple and Efficient Construction of Static Single Assignment Form" (2013),
/// section 3.2.
class RedundantParameters {
 public:
  explicit RedundantParameters(const Cfg& cfg)
      : given_(cfg.nodes.size()), state_(cfg.nodes.size()), names(cfg.nodes.size()) {
    const Shape shape = shape_of(cfg);
    std::vector<Id> params;
    for (uint32_t b : shape.order) {
      const Block& block = cfg.blocks[b];
      params.insert(params.end(), block.params.begin(), block.params.end());
      for (uint32_t p : shape.before[b])
        for (int k = 0; k < cfg.blocks[p].successors(); ++k) {
          const Edge& edge = cfg.blocks[p].to[k];
          if (edge.block != b) continue;
          for (std::size_t i = 0; i < edge.args.size(); ++i) given_[block.params[i]].push_back(edge.args[i]);
        }
    }
    find(params);
  }

 private:
  struct State {
    uint32_t round = 0;  // of find() that looks at it
    uint32_t number = 0, low = 0;
    bool is_open = false;
  };

  /// Looks at the strongly connected components of parameters, each behind those that it is given.
  void find(const std::vector<Id>& params) {
    const uint32_t round = ++round_;
    for (const Id p : params) state_[p] = {round, 0, 0, false};
    uint32_t number = 0;
    std::vector<Id> open;
    std::vector<std::pair<Id, std::size_t>> path;  // with the next value to look at
    for (const Id start : params) {
      if (state_[start].number != 0) continue;
      path.emplace_back(start, 0);
      while (!path.empty()) {
        const Id p = path.back().first;
        State& state = state_[p];
        if (path.back().second == 0) {
          state.number = state.low = ++number;
          state.is_open = true;
          open.push_back(p);
        }
        if (path.back().second < given_[p].size()) {
          const Id next = given_[p][path.back().second++];
          if (state_[next].round != round) continue;
          if (state_[next].number == 0) path.emplace_back(next, 0);
          else if (state_[next].is_open) state.low = std::min(state.low, state_[next].number);
          continue;
        }
        path.pop_back();
        if (!path.empty()) state_[path.back().first].low = std::min(state_[path.back().first].low, state.low);
        if (state.low != state.number) continue;
        const auto first = std::find(open.begin(), open.end(), p);
        components_.emplace_back(first, open.end());
        for (auto at = first; at != open.end(); ++at) state_[*at].is_open = false;
        open.erase(first, open.end());
      }
    }
    for (const std::vector<Id>& component : std::exchange(components_, {})) replace(component);
  }

  void replace(const std::vector<Id>& component) {
    const uint32_t round = ++round_;
    for (const Id p : component) state_[p].round = round;
    const auto is_inside = [&](Id id) { return state_[id].round == round; };
    Id only = kNone;
    bool one = true;
    std::vector<Id> inner;  // are given nothing from outside
    for (const Id p : component) {
      bool is_inner = true;
      for (const Id id : given_[p]) {
        if (is_inside(id)) continue;
        is_inner = false;
        const Id value = names(id);
        one = one && (only == kNone || only == value);
        only = value;
      }
      if (is_inner) inner.push_back(p);
    }
    if (one && only != kNone) {
      for (const Id p : component) names.replace(p, only);
    } else if (!inner.empty() && inner.size() < component.size()) {
      find(inner);
    }
  }

  std::vector<std::vector<Id>> given_;  // to a parameter
  std::vector<State> state_;
  std::vector<std::vector<Id>> components_;
  uint32_t round_ = 0;

 public:
  Names names;
};

/// Parameters that are another value are taken out.
void drop_parameters(Cfg& cfg) {
  RedundantParameters redundant(cfg);
  Names& names = redundant.names;
  std::vector<std::vector<bool>> kept(cfg.blocks.size());
  for (uint32_t b = 0; b < cfg.blocks.size(); ++b)
    for (Id p : cfg.blocks[b].params) kept[b].push_back(names(p) == p);
  const auto filter = [](std::vector<Id>& values, const std::vector<bool>& keep) {
    std::size_t to = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (keep[i]) values[to++] = values[i];
    values.resize(to);
  };
  for (Block& b : cfg.blocks)
    for (int k = 0; k < b.successors(); ++k) filter(b.to[k].args, kept[b.to[k].block]);
  for (uint32_t b = 0; b < cfg.blocks.size(); ++b) filter(cfg.blocks[b].params, kept[b]);
  rename(cfg, names);
}

/// The bits of what a node on constant floats is, if it raises no flag but that it is inexact.
template <class F>
std::optional<int64_t> folded_floats(Op op, F a, F b) {
  const auto bits = [](F v) {
    return sizeof(F) == 8 ? std::bit_cast<int64_t>(static_cast<double>(v))
                          : static_cast<int64_t>(std::bit_cast<uint32_t>(static_cast<float>(v)));
  };
  const auto number = [&](F v, bool exact) -> std::optional<int64_t> {
    return std::isnormal(v) || (exact && v == 0) ? std::optional(bits(v)) : std::nullopt;
  };
  if (!std::isfinite(a) || !std::isfinite(b)) return std::nullopt;
  switch (op) {
    case Op::Add: return number(a + b, true);
    case Op::Sub: return number(a - b, true);
    case Op::Mul: return number(a * b, a == 0 || b == 0);
    case Op::Div: return b == 0 ? std::nullopt : number(a / b, a == 0);
    case Op::Neg: return bits(-a);
    case Op::Abs: return bits(std::fabs(a));
    case Op::Eq: return a == b;
    case Op::Ne: return a != b;
    case Op::Lt: return a < b;
    case Op::Le: return a <= b;
    default: return std::nullopt;
  }
}

/// What a node on constants is, or nothing.
std::optional<int64_t> folded(const Cfg& cfg, const Node& n) {
  const int operands = info(n.op).operands;
  if (n.type == Type::None || n.lanes > 1 || operands == 0 || operands > 2) return std::nullopt;
  for (int i = 0; i < operands; ++i)
    if (n.args[i] == kNone || !cfg.is_const(n.args[i]) || cfg.at(n.args[i]).is_address) return std::nullopt;
  const Type from = cfg.at(n.args[0]).type;
  if (from != Type::I64) {
    const auto f64 = [&](int i) { return std::bit_cast<double>(cfg.at(n.args[i]).imm); };
    const auto f32 = [&](int i) { return std::bit_cast<float>(static_cast<uint32_t>(cfg.at(n.args[i]).imm)); };
    const int last = operands - 1;
    return from == Type::F64 ? folded_floats(n.op, f64(0), f64(last)) : folded_floats(n.op, f32(0), f32(last));
  }
  if (n.type != Type::I64) return std::nullopt;
  const int64_t a = cfg.at(n.args[0]).imm, b = operands > 1 ? cfg.at(n.args[1]).imm : 0;
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  int64_t exact = 0;
  switch (n.op) {
    case Op::Add: return static_cast<int64_t>(ua + ub);
    case Op::Sub: return static_cast<int64_t>(ua - ub);
    case Op::Mul: return static_cast<int64_t>(ua * ub);
    case Op::AddExact: return __builtin_add_overflow(a, b, &exact) ? std::nullopt : std::optional(exact);
    case Op::SubExact: return __builtin_sub_overflow(a, b, &exact) ? std::nullopt : std::optional(exact);
    case Op::MulExact: return __builtin_mul_overflow(a, b, &exact) ? std::nullopt : std::optional(exact);
    case Op::Eq: return a == b;
    case Op::Ne: return a != b;
    case Op::Lt: return a < b;
    case Op::Le: return a <= b;
    case Op::Below: return ua < ub;
    case Op::And: return a & b;
    case Op::Or: return a | b;
    case Op::Xor: return a ^ b;
    case Op::Ones: return std::popcount(ua);
    case Op::Extend:
      switch (n.mem) {
        case Mem::I8: return static_cast<int8_t>(a);
        case Mem::U8: return static_cast<uint8_t>(a);
        case Mem::I16: return static_cast<int16_t>(a);
        case Mem::U16: return static_cast<uint16_t>(a);
        case Mem::I32: return static_cast<int32_t>(a);
        case Mem::U32: return static_cast<uint32_t>(a);
        default: return a;
      }
    default: return std::nullopt;
  }
}

/// What a node is by the laws of integers: one of its operands, or nothing.
Id simplified(const Cfg& cfg, const Node& n) {
  const auto is = [&](int i, int64_t v) { return cfg.is_const(n.args[i]) && cfg.at(n.args[i]).imm == v; };
  if (counts_bits_or_none(cfg, n)) return n.args[1];
  if (n.op == Op::Select && n.args[1] == n.args[2]) return n.args[1];
  if (n.op == Op::Select && cfg.is_const(n.args[0])) return cfg.at(n.args[0]).imm ? n.args[1] : n.args[2];
  if (n.type != Type::I64) return kNone;
  switch (n.op) {
    case Op::Add:
    case Op::AddExact: return is(1, 0) ? n.args[0] : is(0, 0) ? n.args[1] : kNone;
    case Op::Sub:
    case Op::SubExact: return is(1, 0) ? n.args[0] : kNone;
    case Op::Mul:
    case Op::MulExact: return is(1, 1) ? n.args[0] : is(0, 1) ? n.args[1] : kNone;
    case Op::And: return n.args[0] == n.args[1] ? n.args[0] : kNone;
    default: return kNone;
  }
}

using Key = std::tuple<int, int, int, int, Id, Id, Id, Id, Id, int64_t, const Function*, int, Id, bool, Id, bool>;

Key key_of(const Node& n) {
  return {static_cast<int>(n.op),
          static_cast<int>(n.type),
          static_cast<int>(n.mem),
          n.scale,
          n.args[0],
          n.args[1],
          n.args[2],
          n.args[3],
          n.args[4],
          n.imm,
          n.function,
          n.lanes,
          n.count,
          n.from_last,
          n.where,
          n.is_address};
}

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::size_t hash = 0;
    std::apply(
        [&hash](const auto&... part) {
          ((hash = (hash ^ std::hash<std::decay_t<decltype(part)>>{}(part)) * 0x9e3779b97f4a7c15u), ...);
        },
        key);
    return hash ^ (hash >> 32);
  }
};

/// A division of integers stops the process if the divisor is 0: it stays behind the check.
bool may_move(const Cfg& cfg, const Node& n) {
  const bool divides = n.op == Op::FloorDiv || n.op == Op::FloorMod;
  return info(n.op).effect == Effect::Pure && (!divides || (cfg.is_const(n.args[1]) && cfg.at(n.args[1]).imm > 0));
}

/// Constants by value; new ones stand in the entry.
class Constants {
 public:
  Id operator()(Cfg& cfg, int64_t value, Type type = Type::I64) {
    const auto [at, first] = known_.emplace(std::pair(type, value), kNone);
    if (first) {
      Node n;
      n.type = type;
      n.imm = value;
      at->second = cfg.add(n);
      cfg.blocks[0].nodes.push_back(at->second);
    }
    return at->second;
  }

 private:
  std::map<std::pair<Type, int64_t>, Id> known_;
};

/// The bits of 1 / x for a power of 2, whose quotients are products with that, to the bit.
std::optional<int64_t> exact_reciprocal(Type type, int64_t bits) {
  int exponent = 0;
  const auto of = [&](auto x) -> std::optional<decltype(x)> {
    const auto reciprocal = 1 / x;
    if (std::abs(std::frexp(x, &exponent)) != decltype(x){0.5} || !std::isnormal(reciprocal)) return std::nullopt;
    return reciprocal;
  };
  if (type == Type::F64) {
    if (const auto r = of(std::bit_cast<double>(bits))) return std::bit_cast<int64_t>(*r);
  } else if (type == Type::F32) {
    if (const auto r = of(std::bit_cast<float>(static_cast<uint32_t>(bits)))) return std::bit_cast<uint32_t>(*r);
  }
  return std::nullopt;
}

/// Constants stand on the right, add up, and go into addresses.
void associate(Cfg& cfg, Id id, Constants& constants) {
  const auto is_integer = [&](Id v) { return cfg.is_const(v) && cfg.at(v).type == Type::I64; };
  const auto negative = [](int64_t v) { return static_cast<int64_t>(0 - static_cast<uint64_t>(v)); };
  const auto total = [](int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  };
  Node n = cfg.at(id);
  if (n.lanes > 1 && n.op != Op::Load && n.op != Op::Store) return;
  const bool commutes = n.op == Op::Mul || n.op == Op::MulExact || n.op == Op::AddExact || n.op == Op::And ||
                        n.op == Op::Or || n.op == Op::Xor;
  if (commutes && n.type == Type::I64 && is_integer(n.args[0]) && !is_integer(n.args[1])) {
    std::swap(n.args[0], n.args[1]);
    cfg.nodes[id] = n;
  }
  if (n.op == Op::Div && cfg.is_const(n.args[1]))
    if (const auto reciprocal = exact_reciprocal(n.type, cfg.at(n.args[1]).imm)) {
      n.op = Op::Mul;
      n.args[1] = constants(cfg, *reciprocal, n.type);
      cfg.nodes[id] = n;
      return;
    }
  // Quotients are rounded down, so those by a power of 2 are shifts, and the remainders are the last bits.
  if ((n.op == Op::FloorDiv || n.op == Op::FloorMod) && is_integer(n.args[1]))
    if (const int64_t by = cfg.at(n.args[1]).imm; by > 0 && std::has_single_bit(static_cast<uint64_t>(by))) {
      const bool divides = n.op == Op::FloorDiv;
      n.op = divides ? Op::Shr : Op::And;
      n.args[1] = constants(cfg, divides ? std::countr_zero(static_cast<uint64_t>(by)) : by - 1);
      cfg.nodes[id] = n;
      return;
    }
  // A sum with a constant, as value and constant.
  const auto split = [&](Id v) -> std::optional<std::pair<Id, int64_t>> {
    const Node& s = cfg.at(v);
    if (cfg.is_param[v] || s.type != Type::I64 || s.op != Op::Add || !is_integer(s.args[1])) return std::nullopt;
    return std::pair(s.args[0], cfg.at(s.args[1]).imm);
  };
  if (n.op == Op::Load || n.op == Op::Store) {
    constexpr int64_t kFar = 1 << 28;
    for (const int i : {0, 1}) {
      if (n.args[i] == kNone) continue;
      const auto parts = split(n.args[i]);
      if (!parts || !is_within(parts->second, kFar)) continue;
      const int64_t displacement = n.imm + parts->second * (i == 0 ? 1 : n.scale);
      if (!is_within(displacement, kFar)) continue;
      n.args[i] = parts->first;
      n.imm = displacement;
    }
    // A base with a scaled number in it.
    if (n.args[1] == kNone && !cfg.is_param[n.args[0]] && cfg.at(n.args[0]).op == Op::Add) {
      const Node& s = cfg.at(n.args[0]);
      for (const int i : {0, 1}) {
        const Node& m = cfg.at(s.args[i]);
        if (cfg.is_param[s.args[i]] || m.op != Op::Mul || !is_integer(m.args[1])) continue;
        const int64_t scale = cfg.at(m.args[1]).imm;
        if (scale != 1 && scale != 2 && scale != 4 && scale != 8) continue;
        n.args[0] = s.args[1 - i];
        n.args[1] = m.args[0];
        n.scale = static_cast<uint8_t>(scale);
        break;
      }
    }
    cfg.nodes[id] = n;
    return;
  }
  if ((n.op == Op::Eq || n.op == Op::Ne) && is_integer(n.args[1])) {
    const Node& s = cfg.at(n.args[0]);
    const int64_t than = cfg.at(n.args[1]).imm;
    if (const auto parts = split(n.args[0])) {
      n.args[0] = parts->first;
      n.args[1] = constants(cfg, total(than, negative(parts->second)));
    } else if (!cfg.is_param[n.args[0]] && s.op == Op::Sub && s.type == Type::I64 && than == 0) {
      n.args[1] = s.args[1];
      n.args[0] = s.args[0];
    }
    cfg.nodes[id] = n;
    return;
  }
  if (n.type != Type::I64 || (n.op != Op::Add && n.op != Op::Sub)) return;
  if (n.op == Op::Add && is_integer(n.args[0]) && !is_integer(n.args[1])) std::swap(n.args[0], n.args[1]);
  if (n.op == Op::Sub && is_integer(n.args[1]) && !is_integer(n.args[0])) {
    n.op = Op::Add;
    n.args[1] = constants(cfg, negative(cfg.at(n.args[1]).imm));
  }
  if (n.op == Op::Add && is_integer(n.args[1])) {
    if (const auto parts = split(n.args[0])) {
      n.args[0] = parts->first;
      n.args[1] = constants(cfg, total(parts->second, cfg.at(n.args[1]).imm));
    }
  }
  cfg.nodes[id] = n;
}

/// Does a load give what was stored, with no bits cut off?
bool is_whole(Mem mem) { return mem == Mem::I64 || mem == Mem::F64 || mem == Mem::F32; }

/// A load from where a store writes to.
Node load_of(const Node& store) {
  Node n;
  n.op = Op::Load;
  n.type = type_of(store.mem);
  n.mem = store.mem;
  n.scale = store.scale;
  n.args[0] = store.args[0];
  n.args[1] = store.args[1];
  n.imm = store.imm;
  return n;
}

/// Which blocks write, or call what may write.
std::vector<bool> writing_blocks(const Cfg& cfg) {
  std::vector<bool> out(cfg.blocks.size(), false);
  for (std::size_t b = 0; b < cfg.blocks.size(); ++b)
    out[b] = std::any_of(cfg.blocks[b].nodes.begin(), cfg.blocks[b].nodes.end(),
                         [&](Id id) { return info(cfg.at(id).op).effect == Effect::Writes; });
  return out;
}

/// Is memory at the begin of a block as it was at the end of its dominator, on every way from there? The ways to the
/// head of a loop include its rounds.
bool keeps_memory(const Shape& shape, const std::vector<bool>& writes, uint32_t block) {
  if (shape.before[block].size() == 1) return true;
  const uint32_t from = shape.dominator[block];
  std::vector<bool> seen(writes.size(), false);
  std::vector<uint32_t> open(shape.before[block].begin(), shape.before[block].end());
  while (!open.empty()) {
    const uint32_t b = open.back();
    open.pop_back();
    if (b == from || seen[b]) continue;
    if (writes[b]) return false;
    seen[b] = true;
    open.insert(open.end(), shape.before[b].begin(), shape.before[b].end());
  }
  return true;
}

/// One node for one value; what does not change in a loop stands in front of it.
void number_values(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  const std::vector<bool> writes = writing_blocks(cfg);
  Names names(cfg.nodes.size());
  std::vector<uint32_t> block_of(cfg.nodes.size(), 0);
  std::unordered_map<Key, std::vector<Id>, KeyHash> known;
  // A load gives what the same load gave before, or what was stored there, as long as no other store may lie between:
  // in one stretch from store to store.
  std::unordered_map<Key, std::vector<std::pair<Id, uint32_t>>, KeyHash> loaded;  // with the stretch
  std::vector<uint32_t> last_stretch(cfg.blocks.size(), 0);
  uint32_t stretches = 0;
  Constants constants;
  for (uint32_t b : shape.order) {
    for (Id p : cfg.blocks[b].params) block_of[p] = b;
    uint32_t& stretch = last_stretch[b];
    stretch = b != 0 && keeps_memory(shape, writes, b) ? last_stretch[shape.dominator[b]] : ++stretches;
    const std::vector<Id> nodes = std::exchange(cfg.blocks[b].nodes, {});
    for (Id id : nodes) {
      for (Id& a : cfg.nodes[id].args) a = names(a);
      cfg.nodes[id].count = names(cfg.nodes[id].count);
      cfg.nodes[id].where = names(cfg.nodes[id].where);
      associate(cfg, id, constants);
      block_of.resize(cfg.nodes.size(), 0);
      Node& n = cfg.nodes[id];
      if (const std::optional<int64_t> value = folded(cfg, n)) {
        const Type type = n.type;
        n = Node{};
        n.type = type;
        n.imm = *value;
      } else if (const Id same = simplified(cfg, n); same != kNone) {
        names.replace(id, same);
        continue;
      }
      const Effect effect = info(n.op).effect;
      if (n.op == Op::Check && cfg.is_const(n.args[0]) && cfg.at(n.args[0]).imm != 0) continue;
      if (effect == Effect::Writes) stretch = ++stretches;
      if (n.op == Op::Store && n.lanes == 1 && is_whole(n.mem))
        loaded[key_of(load_of(n))].emplace_back(n.args[2], stretch);
      if (n.op == Op::Load) {
        auto& before = loaded[key_of(n)];
        const auto found = std::find_if(before.begin(), before.end(), [&](const auto& load) {
          return load.second == stretch && shape.dominates(block_of[load.first], b);
        });
        if (found != before.end()) {
          names.replace(id, found->first);
          continue;
        }
        before.emplace_back(id, stretch);
      }
      if (effect == Effect::Writes || effect == Effect::Reads || n.op == Op::Poll) {
        block_of[id] = b;
        cfg.blocks[b].nodes.push_back(id);
        continue;
      }
      std::vector<Id>& same = known[key_of(n)];
      const auto found = std::find_if(same.begin(), same.end(), [&](Id s) { return shape.dominates(block_of[s], b); });
      if (found != same.end()) {
        if (n.type != Type::None) names.replace(id, *found);
        continue;
      }
      uint32_t best = b;
      if (may_move(cfg, n)) {
        const auto defined = [&](uint32_t in) {
          return std::all_of(std::begin(n.args), std::end(n.args),
                             [&](Id a) { return a == kNone || shape.dominates(block_of[a], in); }) &&
                 (n.count == kNone || shape.dominates(block_of[n.count], in)) && n.where == kNone;
        };
        for (uint32_t up = b; up != 0;) {
          up = shape.dominator[up];
          if (!defined(up)) break;
          if (shape.depth[up] < shape.depth[best]) best = up;
        }
      }
      block_of[id] = best;
      cfg.blocks[best].nodes.push_back(id);
      same.push_back(id);
    }
  }
  rename(cfg, names);
}

/// Branches of which it is known where they lead.
bool fold_branches(Cfg& cfg) {
  bool changed = false;
  for (Block& b : cfg.blocks) {
    if (b.end != Block::End::Branch) continue;
    const bool same = b.to[0].block == b.to[1].block && b.to[0].args == b.to[1].args;
    if (!same && !cfg.is_const(b.condition)) continue;
    if (!same && cfg.at(b.condition).imm == 0) std::swap(b.to[0], b.to[1]);
    b.to[1] = Edge{};
    b.end = Block::End::Jump;
    b.condition = kNone;
    changed = true;
  }
  if (changed) drop_unreached(cfg);
  return changed;
}

/// A remainder beside the quotient of the same numbers is computed from that: `rest % 10` and `rest // 10`.
bool share_quotients(Cfg& cfg) {
  bool changed = false;
  for (Block& b : cfg.blocks) {
    const std::vector<Id> nodes = b.nodes;
    const auto has_quotient = [&](const Node& n) {
      return std::any_of(nodes.begin(), nodes.end(), [&](Id q) {
        const Node& other = cfg.at(q);
        return other.op == Op::FloorDiv && other.args[0] == n.args[0] && other.args[1] == n.args[1];
      });
    };
    b.nodes.clear();
    for (Id id : nodes) {
      Node n = cfg.at(id);
      if (n.op == Op::FloorMod && may_move(cfg, n) && has_quotient(n)) {
        const Id x = n.args[0];
        n.op = Op::FloorDiv;
        b.nodes.push_back(cfg.add(n));
        n.op = Op::Mul;
        n.args[0] = b.nodes.back();
        b.nodes.push_back(cfg.add(n));
        n.op = Op::Sub;
        n.args[0] = x;
        n.args[1] = b.nodes.back();
        cfg.nodes[id] = n;
        changed = true;
      }
      b.nodes.push_back(id);
    }
  }
  return changed;
}

/// A block to which control comes from one block only need not poll if that one has done it.
void drop_repeated_polls(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  std::vector<bool> has_polled(cfg.blocks.size(), false);
  for (const uint32_t b : shape.order) {
    bool polled = shape.before[b].size() == 1 && has_polled[shape.before[b][0]];
    std::erase_if(cfg.blocks[b].nodes, [&](Id id) { return cfg.at(id).op == Op::Poll && std::exchange(polled, true); });
    has_polled[b] = polled;
  }
}

}  // namespace

void drop_unused(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  std::vector<bool> used(cfg.nodes.size(), false);
  std::vector<Id> open;
  const auto use = [&](Id v) {
    if (v == kNone || used[v]) return;
    used[v] = true;
    open.push_back(v);
  };
  const auto leave = [&](uint32_t exit) {
    for (Id v : cfg.exits[exit].values) use(v);
  };
  std::vector<std::pair<uint32_t, std::size_t>> place(cfg.nodes.size(), {kNone, 0});
  for (uint32_t b : shape.order)
    for (std::size_t i = 0; i < cfg.blocks[b].params.size(); ++i) place[cfg.blocks[b].params[i]] = {b, i};
  for (uint32_t b : shape.order) {
    const Block& block = cfg.blocks[b];
    use(block.condition);
    if (block.end == Block::End::Leave) leave(block.exit);
    for (Id id : block.nodes)
      if (const Effect e = info(cfg.at(id).op).effect; e == Effect::Checks || e == Effect::Writes) {
        use(id);
        if (e == Effect::Checks) leave(cfg.at(id).exit);
      }
  }
  while (!open.empty()) {
    const Id v = open.back();
    open.pop_back();
    for (Id a : cfg.at(v).args) use(a);
    use(cfg.at(v).count);
    use(cfg.at(v).where);
    if (!cfg.is_param[v]) continue;
    const auto [b, i] = place[v];
    for (uint32_t p : shape.before[b])
      for (int k = 0; k < cfg.blocks[p].successors(); ++k)
        if (cfg.blocks[p].to[k].block == b) use(cfg.blocks[p].to[k].args[i]);
  }
  for (uint32_t b : shape.order) {
    std::erase_if(cfg.blocks[b].nodes, [&](Id id) { return !used[id]; });
    for (std::size_t i = cfg.blocks[b].params.size(); i-- > 0;) {
      if (used[cfg.blocks[b].params[i]]) continue;
      cfg.blocks[b].params.erase(cfg.blocks[b].params.begin() + static_cast<std::ptrdiff_t>(i));
      for (uint32_t p : shape.before[b])
        for (int k = 0; k < cfg.blocks[p].successors(); ++k) {
          Edge& e = cfg.blocks[p].to[k];
          // A block that leads here by both of its edges is listed twice.
          if (e.block == b && e.args.size() > cfg.blocks[b].params.size())
            e.args.erase(e.args.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
  }
}

void simplify(Cfg& cfg) {
  do {
    drop_parameters(cfg);
    number_values(cfg);
  } while (fold_branches(cfg));
}

void optimize(Cfg& cfg, int vector_bytes, ParallelLoops* parallel) {
  constexpr int kMostShortLoops = 16;
  const auto simplify = [&cfg](bool changed = true) {
    if (changed) cfg::simplify(cfg);
  };
  simplify();
  simplify();
  drop_unused(cfg);
  join_blocks(cfg);
  separate_exits(cfg);
  separate_entries(cfg);
  for (Block& block : cfg.blocks) block.begins_round = false;
  join_blocks(cfg);
  const auto fuse = [&cfg] {
    if (std::exchange(cfg.fuses_products, false)) fuse_products(cfg);
  };
  if (!shape_of(cfg).has_loop) return fuse();
  separate_loops(cfg);
  add_preheaders(cfg);
  separate_exits(cfg);
  simplify();
  drop_unused(cfg);
  fuse();  // before passes that depend on the kernel: the bits must not
  simplify(drop_checks(cfg));
  simplify(drop_overflow_checks(cfg));
  drop_repeated_polls(cfg);
  simplify(count_bits(cfg));
  if (parallel) {
    make_parallel(cfg, vector_bytes, *parallel);
    if (parallel->needs_vectors && !parallel->have_vectors()) return;
    simplify(!parallel->found.empty());
    drop_unused(cfg);
    separate_exits(cfg);
  }
  const auto unroll_short = [&] {
    for (int loops = 0; vector_bytes > 0 && loops < kMostShortLoops && unroll_short_loops(cfg); ++loops) {
      simplify();
      drop_unused(cfg);
      join_blocks(cfg);
      add_preheaders(cfg);
    }
  };
  unroll_short();
  note_naturals(cfg);
  if (version_loops(cfg)) {
    simplify();
    unroll_short();  // versions without checks are shorter
  }
  count_once(cfg);
  if (rotate_loops(cfg)) {
    join_blocks(cfg);
    add_preheaders(cfg);
    simplify();
    simplify(count_bits(cfg));
  }
  drop_repeated_checks(cfg);
  simplify();
  count_once(cfg);
  step_addresses(cfg);
  choose_values(cfg);
  simplify();
  if (vector_bytes > 0) {
    drop_unused(cfg);
    join_blocks(cfg);
    add_preheaders(cfg);
    simplify(widen_loops(cfg, vector_bytes));
    simplify(unroll_searches(cfg));
  }
  simplify(compose_congruences(cfg));
  simplify(share_quotients(cfg));
  simplify(choose_by_comparisons(cfg));
  if (carry_stores(cfg)) {
    simplify();
    join_blocks(cfg);
    add_preheaders(cfg);
  }
  drop_unused(cfg);
  join_blocks(cfg);
  add_preheaders(cfg);
  separate_exits(cfg);
  simplify(compute_at_exits(cfg));
  compare_next_counts(cfg);
  sink_results(cfg);
  drop_unused(cfg);
  join_blocks(cfg);
  part_conditions(cfg);
  sink_into_branches(cfg);
  find_naturals(cfg);
}

}  // namespace framejit::cfg
