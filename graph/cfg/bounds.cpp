// The arithmetic of bounds. A bound that may need more than 61 bits is none.
#include "graph/cfg/bounds.h"

#include <algorithm>

#include "graph/cfg/edit.h"

namespace framejit::cfg {

namespace {

constexpr int kLeafBits = 31, kMostBits = 61;

}  // namespace

std::optional<Bound> plus(std::optional<Bound> b, int64_t by) {
  if (!b || !is_within(b->plus, kMostOffset) || !is_within(by, kMostOffset)) return std::nullopt;
  b->plus += by;
  return b;
}

Id Bounds::node(Op op, Id a, Id b) {
  Node n;
  n.op = op;
  n.type = Type::I64;
  n.args[0] = a;
  n.args[1] = b;
  made_.push_back(cfg_.add(n));
  return made_.back();
}

Id Bounds::constant(int64_t value) {
  Node n;
  n.type = Type::I64;
  n.imm = value;
  made_.push_back(cfg_.add(n));
  return made_.back();
}

Id Bounds::value(const Bound& b) {
  if (b.base == kNone) return constant(b.plus);
  return b.plus == 0 ? b.base : node(Op::Add, b.base, constant(b.plus));
}

std::optional<Bound> Bounds::leaf(Id v) {
  if (cfg_.is_const(v)) {
    if (!is_within(cfg_.at(v).imm, kMostOffset)) return std::nullopt;
    return number(cfg_.at(v).imm);
  }
  if (cfg_.at(v).type != Type::I64) return std::nullopt;
  // The rounds of a range: what is left, or none.
  const Node& n = cfg_.at(v);
  if (!cfg_.is_param[v] && n.op == Op::Select && cfg_.is_const(n.args[2]) && cfg_.at(n.args[2]).imm == 0) {
    const Node& c = cfg_.at(n.args[0]);
    if (!cfg_.is_param[n.args[0]] && c.op == Op::Lt && cfg_.is_const(c.args[0]) && cfg_.at(c.args[0]).imm == 0 &&
        c.args[1] == n.args[1])
      return leaf(n.args[1]);
  }
  // A value less a constant, such as what is left behind the first round.
  if (!cfg_.is_param[v] && (n.op == Op::Sub || n.op == Op::Add || n.op == Op::AddExact || n.op == Op::SubExact) &&
      cfg_.is_const(n.args[1]) && is_within(cfg_.at(n.args[1]).imm, (1 << 20) - 1)) {
    const int64_t by = n.op == Op::Sub || n.op == Op::SubExact ? -cfg_.at(n.args[1]).imm : cfg_.at(n.args[1]).imm;
    if (std::optional<Bound> inner = leaf(n.args[0])) return inner->plus += by, inner;
  }
  const Bound out{v, 0, kLeafBits, true};
  need({Op::Below, out, number(int64_t{1} << kLeafBits)});
  return out;
}

std::optional<Bound> Bounds::sum(const std::optional<Bound>& a, const std::optional<Bound>& b, bool minus) {
  if (!a || !b) return std::nullopt;
  if (b->base == kNone) return plus(a, minus ? -b->plus : b->plus);
  if (a->base == kNone && !minus) return plus(b, a->plus);
  const int bits = std::max(a->bits, b->bits) + 1;
  if (bits > kMostBits) return std::nullopt;
  if (minus && a->base == b->base) return plus(number(0), a->plus - b->plus);
  const Id base = node(minus ? Op::Sub : Op::Add, a->base == kNone ? constant(0) : a->base, b->base);
  return plus(Bound{base, 0, bits, false}, minus ? a->plus - b->plus : a->plus + b->plus);
}

std::optional<Bound> Bounds::product(const std::optional<Bound>& a, const std::optional<Bound>& by) {
  if (!a || !by) return std::nullopt;
  if (by->base == kNone) {
    const int64_t f = by->plus;
    if (f < 0 || f > (int64_t{1} << 20) || !is_within(a->plus, int64_t{1} << 32)) return std::nullopt;
    if (f == 0) return number(0);
    if (f == 1) return a;
    if (a->base == kNone) return number(a->plus * f);
    const int bits = a->bits + 21;
    if (bits > kMostBits) return std::nullopt;
    return Bound{node(Op::Mul, a->base, constant(f)), a->plus * f, bits, false};
  }
  if (a->base == kNone && a->plus >= 0 && by->leaf && by->plus == 0) return product(by, a);
  if (!by->leaf || by->plus != 0 || !is_within(a->plus, int64_t{1} << 20)) return std::nullopt;
  const int bits = a->bits + 1 + by->bits;
  if (bits > kMostBits + 1) return std::nullopt;
  return Bound{node(Op::Mul, value(*a), by->base), 0, bits, false};
}

std::optional<Bound> Bounds::product_of_naturals(const Bound& a, const Bound& b, const Bound& most_a,
                                                 const Bound& most_b) {
  constexpr int kBits = 30;
  for (const Bound* least : {&a, &b})
    if (!at_most(number(0), *least)) return std::nullopt;
  for (const Bound* most : {&most_a, &most_b})
    if (!at_most(*most, number(int64_t{1} << kBits), 1)) return std::nullopt;
  return Bound{node(Op::Mul, value(a), value(b)), 0, 2 * kBits, false};
}

bool Bounds::at_most(const Bound& a, const Bound& b, int64_t by) {
  if (a.base == b.base) return a.plus + by <= b.plus;
  if (a.base == kNone && b.leaf && a.plus + by <= b.plus) return true;
  Bound left = a;
  left.plus += by;
  // The constant goes to one side.
  if (left.base == kNone) {
    left.plus -= b.plus;
    Bound right = b;
    right.plus = 0;
    need({Op::Le, left, right});
  } else {
    Bound right = b;
    right.plus -= left.plus;
    left.plus = 0;
    need({Op::Le, left, right});
  }
  return true;
}

}  // namespace framejit::cfg
