// Numbers that are known to be small: constants, and what comes of narrow loads, choices and arithmetic.
#include "graph/cfg/intervals.h"

#include <algorithm>

#include "graph/cfg/edit.h"
#include "graph/cfg/registers.h"

namespace framejit::cfg {

namespace {

constexpr int64_t kMostNumber = (int64_t{1} << 62) - 1;  // two of them have a sum

}  // namespace

std::optional<int64_t> number(const Cfg& cfg, Id v) {
  if (!cfg.is_const(v) || cfg.at(v).type != Type::I64 || cfg.at(v).is_address) return std::nullopt;
  return cfg.at(v).imm;
}

std::optional<Interval> interval_of(Mem mem) {
  switch (mem) {
    case Mem::I8: return Interval{-128, 127};
    case Mem::U8: return Interval{0, 255};
    case Mem::I16: return Interval{-32768, 32767};
    case Mem::U16: return Interval{0, 65535};
    case Mem::I32: return Interval{-(int64_t{1} << 31), (int64_t{1} << 31) - 1};
    case Mem::U32: return Interval{0, (int64_t{1} << 32) - 1};
    default: return std::nullopt;
  }
}

std::optional<Interval> interval_of(const Cfg& cfg, const Node& n, int depth, const Intervals* known) {
  if (n.type != Type::I64) return std::nullopt;
  if (is_comparison(n.op)) return Interval{0, 1};
  if (n.op == Op::Ones) return Interval{0, 64};
  if (n.op == Op::Load || n.op == Op::Extend) return interval_of(n.mem);
  if (n.op == Op::Select) {
    const auto a = interval(cfg, n.args[1], depth + 1, known), b = interval(cfg, n.args[2], depth + 1, known);
    if (!a || !b) return std::nullopt;
    return Interval{std::min(a->low, b->low), std::max(a->high, b->high)};
  }
  if (n.op == Op::And) {
    std::optional<Interval> out;
    for (Id a : {n.args[0], n.args[1]})
      if (const auto one = interval(cfg, a, depth + 1, known); one && one->low >= 0)
        out = Interval{0, out ? std::min(out->high, one->high) : one->high};
    return out;
  }
  if (n.op == Op::FloorMod) {
    const auto by = interval(cfg, n.args[1], depth + 1, known);
    return by && by->low > 0 ? std::optional(Interval{0, by->high - 1}) : std::nullopt;
  }
  if (n.op != Op::Add && n.op != Op::Sub && n.op != Op::Mul && n.op != Op::Shr) return std::nullopt;
  const auto a = interval(cfg, n.args[0], depth + 1, known), b = interval(cfg, n.args[1], depth + 1, known);
  if (!a || !b) return std::nullopt;
  Interval out{0, 0};
  if (n.op == Op::Add) {
    out = {a->low + b->low, a->high + b->high};
  } else if (n.op == Op::Sub) {
    out = {a->low - b->high, a->high - b->low};
  } else if (n.op == Op::Shr) {
    if (a->low < 0 || b->low != b->high || b->low < 0 || b->low > 62) return std::nullopt;
    out = {a->low >> b->low, a->high >> b->low};
  } else {
    constexpr int64_t kMostFactor = int64_t{1} << 31;
    if (!is_within(a->low, kMostFactor) || !is_within(a->high, kMostFactor) || !is_within(b->low, kMostFactor) ||
        !is_within(b->high, kMostFactor))
      return std::nullopt;
    const auto [low, high] = std::minmax({a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high});
    out = {low, high};
  }
  if (!is_within(out.low, kMostNumber) || !is_within(out.high, kMostNumber)) return std::nullopt;
  return out;
}

std::optional<Interval> interval(const Cfg& cfg, Id v, int depth, const Intervals* known) {
  constexpr int kDeepest = 12;
  if (const std::optional<int64_t> value = number(cfg, v))
    return is_within(*value, kMostNumber) ? std::optional(Interval{*value, *value}) : std::nullopt;
  if (known) {
    const auto at = known->find(v);
    return at == known->end() ? std::nullopt : at->second;
  }
  if (cfg.is_param[v] || depth > kDeepest) return std::nullopt;
  return interval_of(cfg, cfg.at(v), depth, known);
}

namespace {

/// Without the check of overflow.
Op inexact(Op op) {
  switch (op) {
    case Op::AddExact: return Op::Add;
    case Op::SubExact: return Op::Sub;
    case Op::MulExact: return Op::Mul;
    default: return op;
  }
}

/// The interval of a parameter of a block: it contains the arguments that all other blocks pass for it.
std::optional<Interval> interval_of_param(const Cfg& cfg, const Shape& shape, uint32_t b, std::size_t i,
                                          const Intervals& known) {
  std::optional<Interval> all;
  for (const uint32_t from : shape.before[b])
    for (int k = 0; k < cfg.blocks[from].successors(); ++k) {
      const Edge& e = cfg.blocks[from].to[k];
      if (e.block != b || e.args[i] == cfg.blocks[b].params[i]) continue;
      const std::optional<Interval> one = interval(cfg, e.args[i], 0, &known);
      if (!one) return std::nullopt;
      all = all ? Interval{std::min(all->low, one->low), std::max(all->high, one->high)} : *one;
    }
  return all;
}

/// The intervals of all integers of a graph. Each is found from those of its operands. An argument that the last block
/// of a loop passes to the first one is known from the second turn on.
Intervals find_intervals(const Cfg& cfg, const Shape& shape) {
  constexpr int kFewestTurns = 2, kMostTurns = 3;
  Intervals known;
  bool changed = true;
  for (int turn = 0; turn < kFewestTurns || (changed && turn < kMostTurns); ++turn) {
    changed = false;
    for (const uint32_t b : shape.order) {
      for (std::size_t i = 0; i < cfg.blocks[b].params.size(); ++i) {
        const Id p = cfg.blocks[b].params[i];
        if (cfg.at(p).type != Type::I64 || known[p]) continue;
        const std::optional<Interval> found = interval_of_param(cfg, shape, b, i, known);
        changed = changed || found;
        known[p] = found;
      }
      for (const Id id : cfg.blocks[b].nodes) {
        Node n = cfg.at(id);
        if (n.type != Type::I64 || cfg.is_const(id)) continue;
        n.op = inexact(n.op);
        known[id] = interval_of(cfg, n, 0, &known);
      }
    }
  }
  return known;
}

}  // namespace

bool drop_overflow_checks(Cfg& cfg) {
  const auto is_exact = [&](Id id) { return inexact(cfg.at(id).op) != cfg.at(id).op; };
  const bool has_any = std::any_of(cfg.blocks.begin(), cfg.blocks.end(), [&](const Block& b) {
    return std::any_of(b.nodes.begin(), b.nodes.end(), is_exact);
  });
  if (!has_any) return false;
  const Shape shape = shape_of(cfg);
  const Intervals known = find_intervals(cfg, shape);
  bool changed = false;
  for (const uint32_t b : shape.order)
    for (const Id id : cfg.blocks[b].nodes) {
      if (!is_exact(id)) continue;
      const std::optional<Interval> found = known.at(id);
      if (!found) continue;
      Node& n = cfg.nodes[id];
      n.op = inexact(n.op);
      n.exit = kNone;
      n.natural = n.natural || found->low >= 0;
      changed = true;
    }
  return changed;
}

}  // namespace framejit::cfg
