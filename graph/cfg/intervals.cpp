// Numbers that are known to be small: constants, and what comes of narrow loads, choices and arithmetic.
#include "graph/cfg/intervals.h"

#include <algorithm>

#include "graph/cfg/edit.h"
#include "graph/cfg/registers.h"

namespace framejit::cfg {

namespace {

constexpr int64_t kMostNumber = int64_t{1} << 40;

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

std::optional<Interval> interval_of(const Cfg& cfg, const Node& n, int depth) {
  if (n.type != Type::I64) return std::nullopt;
  if (is_comparison(n.op)) return Interval{0, 1};
  if (n.op == Op::Ones) return Interval{0, 64};
  if (n.op == Op::Load || n.op == Op::Extend) return interval_of(n.mem);
  if (n.op == Op::Select) {
    const auto a = interval(cfg, n.args[1], depth + 1), b = interval(cfg, n.args[2], depth + 1);
    if (!a || !b) return std::nullopt;
    return Interval{std::min(a->low, b->low), std::max(a->high, b->high)};
  }
  if (n.op == Op::And) {
    for (Id a : {n.args[0], n.args[1]})
      if (const auto one = interval(cfg, a, depth + 1); one && one->low >= 0) return Interval{0, one->high};
    return std::nullopt;
  }
  if (n.op != Op::Add && n.op != Op::Sub && n.op != Op::Mul && n.op != Op::Shr) return std::nullopt;
  const auto a = interval(cfg, n.args[0], depth + 1), b = interval(cfg, n.args[1], depth + 1);
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

std::optional<Interval> interval(const Cfg& cfg, Id v, int depth) {
  constexpr int kDeepest = 12;
  if (const std::optional<int64_t> value = number(cfg, v))
    return is_within(*value, kMostNumber) ? std::optional(Interval{*value, *value}) : std::nullopt;
  if (cfg.is_param[v] || depth > kDeepest) return std::nullopt;
  return interval_of(cfg, cfg.at(v), depth);
}

}  // namespace framejit::cfg
